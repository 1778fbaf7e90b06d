"""Adaptation of a frozen language model to a domain with little text: ours against LoRA and fine-tuning.

    none              a small GPT trained on French Wikipedia alone
    fine-tuning       all of its weights, trained on with the domain text (a novel)
    LoRA r            W + 2 A B at the attention's projections, A (in, r), B (r, out) (Hu et al., 2021)
    n-grams mixed in  λ · GPT + (1 − λ) · n-grams of the domain, λ by EM: what the adaptor begins with, untrained
    adaptor           that mixture as background, and a log-linear model of the domain on top (`inference.adaptation`)
    features          the GPT alone as background, and a log-linear model on top, without n-grams
    layer             p ∝ p_GPT(x) · exp((W h + c)·φ(x)), h the GPT's own last state: one log-linear layer, no network

French and not English, since the only long English text at hand, WikiText-2, has no second one beside it.
All see the same sentences in the same batches, and stop by the same validation text. Each trained system tries two
learning rates at one size, and the better one there is taken at all sizes. Perplexity is by word, ends of sentences
counted: whatever the tokens, Σ −log p / (words + sentences).
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn.inference.adaptation import Base, adaptor, default_settings
from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import HuggingFace
from llrnn.knowledge.backgrounds.neural import tokenised, vocabulary_of
from llrnn.knowledge.features import compile_features
from llrnn.knowledge.process import Batch
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.priors import DensePrior
from llrnn.model.controllers import LSTM, make_controller
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, score
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.settings import SentenceBatches
from llrnn_lab.studies.adaptation import find_novel, novel_parts
from llrnn_lab.studies.tables import markdown

SIZES = (1_000, 10_000, 100_000)  # words of the domain
RANKS = (1, 4, 16)
LANGUAGE_MODELS: tuple[dict[str, Any], ...] = (  # whose cost as background is measured: GPT-2 small, our own
    {"layers": 12, "width": 768, "tokens": 50_257, "body": "mingru"},
    {"layers": 12, "width": 768, "tokens": 50_257},
    {"layers": 4, "width": 256, "tokens": 4_000},
)
_CHOSEN_AT = 10_000  # the size at which learning rates are tried
_PARTS = ("general", "general-valid", "domain", "valid", "test")
_VALID, _TEST, _GENERAL_VALID = 5_000, 10_000, 1_000  # words, words, sentences
_TOKENS, _END = 4_000, "<|end|>"
_PATIENCE, _MOST_EPOCHS = 2, {1_000: 20, 10_000: 12, 100_000: 4}


@dataclass(frozen=True)
class Sizes:
    """Of the GPT and of its training: the study's own, and others for a trial."""

    layers: int = 4
    width: int = 256
    epochs: int = 10
    batch: int = 8_192  # positions
    sentences: int | None = None  # of the general text, all by default


def prepare(data: Path, out: Path, *, novel: str = "Flaubert") -> None:
    """The texts, a sentence a line, and a byte-level BPE of the general one, in one folder that can be carried away."""
    if (out / "tokenizer.json").exists():
        return
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise MissingExtraError("tokenizers", "open") from None
    source = data / "wiki_french" / "wiki.txt.gz"
    if not source.exists():
        raise ConfigError(f"{source}: no such file; --data must be a folder with wiki_french and novels_french")
    with gzip.open(source, "rt", encoding="utf8") as file:
        general = [line.split() for line in file if line.strip()]
    texts: dict[str, Sequence[Sequence[str]]] = {
        "general": general[:-_GENERAL_VALID],
        "general-valid": general[-_GENERAL_VALID:],
    }
    texts |= dict(zip(_PARTS[2:], novel_parts(find_novel(data, novel), (max(SIZES), _VALID, _TEST)), strict=True))
    out.mkdir(parents=True, exist_ok=True)
    for name, sentences in texts.items():
        write_atomically(out / f"{name}.txt", "".join(" ".join(words) + "\n" for words in sentences).encode())
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=_TOKENS,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator((" ".join(words) for words in texts["general"]), trainer)
    made.save(str(out / "tokenizer.json"))


@dataclass(frozen=True)
class Texts:
    """A folder that `prepare` made: the texts in tokens, and how many words each has."""

    tokenizer: Any
    vocabulary: Vocabulary
    lines: dict[str, list[str]]

    @classmethod
    def read(cls, folder: Path) -> Texts:
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token=_END)
        lines = {name: (folder / f"{name}.txt").read_text(encoding="utf8").splitlines() for name in _PARTS}
        return cls(tokenizer, vocabulary_of(tokenizer), lines)

    def corpus(self, name: str, *, words: int | None = None, sentences: int | None = None) -> Corpus:
        """The first sentences of a text, in tokens: all, so many, or as many as have so many words."""
        lines, count = [], 0
        for line in self.lines[name][:sentences]:
            if words is not None and count >= words:
                break
            lines.append(line)
            count += len(line.split())
        return tokenised(self.tokenizer, lines, name=name)

    def text(self, corpus: Corpus) -> EncodedText:
        return EncodedText.encode(corpus, self.vocabulary)

    def words(self, name: str) -> int:
        """What is predicted, counted in words: each word, and each end of a sentence."""
        return sum(len(line.split()) + 1 for line in self.lines[name])


class Gpt(nn.Module):
    """A GPT that scores a batch of llrnn: `log_prob(batch)`, (N,); what is trained of it is what needs a gradient."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.lm = lm

    def log_prob(self, batch: Batch) -> Tensor:
        logits = batch.picked(self.lm(input_ids=batch.inputs).logits).float()
        return -nn.functional.cross_entropy(logits, batch.picked(batch.targets), reduction="none")


class LoRA(nn.Module):
    """x W + b, frozen, and 2 x A B beside it: r (in + out) weights. B begins at 0, so nothing changes at first."""

    def __init__(self, frozen: Any, rank: int) -> None:
        super().__init__()
        inputs, outputs = frozen.weight.shape  # as `transformers` keeps GPT-2's: (in, out)
        self.frozen = frozen
        self.a = nn.Parameter(torch.randn(inputs, rank, device=frozen.weight.device) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(rank, outputs, device=frozen.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        frozen: Tensor = self.frozen(x)
        return frozen + 2.0 * (x @ self.a @ self.b)


def with_lora(lm: Any, rank: int) -> Gpt:
    """A copy of a GPT-2 whose attention projections learn a product of rank r, and nothing else does."""
    made = copy.deepcopy(lm).requires_grad_(False)
    for block in made.transformer.h:
        block.attn.c_attn, block.attn.c_proj = LoRA(block.attn.c_attn, rank), LoRA(block.attn.c_proj, rank)
    return Gpt(made)


class OnItsState(nn.Module):
    """p ∝ p_GPT(x) · exp((W h + c)·φ(x)), h the last state of the frozen GPT."""

    def __init__(self, lm: Any, phi: features.Features, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._lm = [lm]  # no submodule: it is not trained
        self.layer = LogLinear(compile_features(phi, vocabulary), lm.config.n_embd, zero=True).to(lm.device)

    def log_prob(self, batch: Batch) -> Tensor:
        lm = self._lm[0].eval()
        with torch.no_grad():
            h = batch.picked(lm.transformer(input_ids=batch.inputs).last_hidden_state)
            log_b = torch.log_softmax(lm.lm_head(h), -1)
        return self.layer.distribution(h, DensePrior(log_b, True)).log_prob(batch.picked(batch.targets))


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """What is adapted."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def batches(text: EncodedText, size: int, device: torch.device, **order: Any) -> Iterator[Batch]:
    """Sentences of similar length side by side, as everywhere in llrnn."""
    for batch in Sentences(size).plan(text, **order):
        yield batch.to(device)


@torch.no_grad()
def nats(model: Any, text: EncodedText, device: torch.device) -> float:
    """−log p of a whole text."""
    model.eval()
    return -float(sum(model.log_prob(batch).double().sum() for batch in batches(text, 8_192, device)))


def trained(
    model: Any,
    text: EncodedText,
    valid: EncodedText,
    *,
    rate: float,
    size: int,
    epochs: int,
    device: torch.device,
    decay: bool = False,
) -> dict[str, Any]:
    """AdamW, clipped, over batches of so many positions; the best weights by the validation text stay.

    With `decay` the rate rises, then falls to 0 by a cosine, and a GPU multiplies matrices in half precision.
    """
    parameters = trainable(model)
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01, fused=device.type == "cuda")
    best, kept, since, epoch = nats(model, valid, device), [p.detach().clone() for p in parameters], 0, 0
    while epoch < epochs and since < _PATIENCE:
        model.train()
        plan = list(batches(text, size, device, seed=0, epoch=epoch))
        for n, batch in enumerate(plan):
            if decay:
                optimizer.param_groups[0]["lr"] = rate * _share(epoch * len(plan) + n, epochs * len(plan))
            with torch.autocast(device.type, torch.bfloat16, enabled=decay and device.type == "cuda"):
                loss = -model.log_prob(batch).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
        epoch += 1
        found = nats(model, valid, device)
        since = 0 if found < best else since + 1
        if found < best:
            best, kept = found, [p.detach().clone() for p in parameters]
    with torch.no_grad():
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.copy_(value)
    return {"epochs": epoch}


def _share(step: int, steps: int) -> float:
    """Of the learning rate: up in a tenth of the steps, down by a cosine."""
    return min(1.0, 10 * (step + 1) / steps) * (1 + math.cos(math.pi * step / steps)) / 2


def train_gpt(texts: Texts, sizes: Sizes, device: torch.device) -> Any:
    """The language model that is adapted, trained on the general text from nothing."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(texts.vocabulary),
        n_layer=sizes.layers,
        n_embd=sizes.width,
        n_head=4,
        n_positions=512,
        bos_token_id=texts.vocabulary.eos,
        eos_token_id=texts.vocabulary.eos,
    )
    model = Gpt(GPT2LMHeadModel(config)).to(device)
    text = texts.text(texts.corpus("general", sentences=sizes.sentences))
    valid = texts.text(texts.corpus("general-valid", sentences=sizes.sentences))
    trained(model, text, valid, rate=1.5e-3, size=sizes.batch, epochs=sizes.epochs, device=device, decay=True)
    return model.lm.eval().requires_grad_(False)


@dataclass(frozen=True)
class System:
    """One way to adapt: the rates that it tries, and how the model is made and trained with one of them."""

    name: str
    rates: tuple[float, ...]
    make: Callable[[Corpus], Any]
    run: Callable[[Any, Corpus, float], dict[str, Any]]


class Study:
    """The GPT, the texts, and every system on them."""

    def __init__(self, lm: Any, texts: Texts, device: torch.device, effort: float = 1.0) -> None:
        self.lm, self.texts, self.device, self.effort = lm, texts, device, effort
        self.valid, self.test = (texts.corpus(name) for name in ("valid", "test"))
        self._domain = cache(lambda size: texts.corpus("domain", words=size))

    def systems(self) -> list[System]:
        lora = [System(f"LoRA {rank}", (1e-3, 5e-3), partial(self._lora, rank), self._rival) for rank in RANKS]
        return [
            System("fine-tuning", (3e-4, 1e-3), self._whole, self._rival),
            *lora,
            System("adaptor", (1e-3, 3e-3), self._adaptor, self._ours),
            System("features", (1e-3, 3e-3), self._features, self._ours),
            System("layer", (3e-4, 1e-3), self._layer, self._rival),
        ]

    def _lora(self, rank: int, domain: Corpus) -> Gpt:
        return with_lora(self.lm, rank)

    def _whole(self, domain: Corpus) -> Gpt:
        return Gpt(copy.deepcopy(self.lm).requires_grad_(True))

    def _base(self) -> Base:
        return Base(self.texts.vocabulary, HuggingFace(self.lm, self.texts.tokenizer), tokenizer=self.texts.tokenizer)

    def _adaptor(self, domain: Corpus) -> LLRNN:
        return adaptor(self._base(), domain, device=str(self.device))

    def _phi(self, domain: Corpus) -> features.Features:
        counts = domain.counts()
        rare = [word for word in self.texts.vocabulary if counts[word] < 2]
        return features.Identity(without=rare) + features.Suffixes(3, min_count=20)

    def _features(self, domain: Corpus) -> LLRNN:
        made = LLRNN(
            self.texts.vocabulary,
            output_features=self._phi(domain),
            background=HuggingFace(self.lm, self.texts.tokenizer),
            controller=LSTM(hidden=128, dropout=0.5),
            word_dropout=0.1,
        )
        with torch.no_grad():
            made.layer.weight.zero_()
            made.layer.bias.zero_()
        return made.to(self.device)

    def _layer(self, domain: Corpus) -> OnItsState:
        return OnItsState(self.lm, self._phi(domain), self.texts.vocabulary)

    def _rival(self, model: Any, domain: Corpus, rate: float) -> dict[str, Any]:
        text, valid = self.texts.text(domain), self.texts.text(self.valid)
        size, epochs = _batch(domain), _epochs(domain, self.effort)
        return trained(model, text, valid, rate=rate, size=size, epochs=epochs, device=self.device)

    def _ours(self, model: Any, domain: Corpus, rate: float) -> dict[str, Any]:
        batches, epochs = SentenceBatches(words=_batch(domain)), _epochs(domain, self.effort)
        settings = default_settings(domain.tokens).changed(
            learning_rate=rate, batches=batches, epochs=epochs, patience=_PATIENCE
        )
        *_, last = train(model, domain, valid=self.valid, settings=settings)
        return {"epochs": last.epoch}

    def perplexities(self, model: Any) -> dict[str, float]:
        """By word, on the validation and on the test text."""
        found = {}
        for name, corpus in (("valid", self.valid), ("test", self.test)):
            text = self.texts.text(corpus)
            is_ours = isinstance(model, LLRNN)
            total = -float(score(model, text).log_probs.sum()) if is_ours else nats(model, text, self.device)
            found[name] = math.exp(total / self.texts.words(name))
        return found

    def one(self, system: System, size: int, rate: float) -> Iterator[dict[str, Any]]:
        """A system at one size and rate; before the adaptor is trained, the mixture that it begins with."""
        domain = self._domain(size)
        torch.manual_seed(0)
        started = _now(self.device)
        model = system.make(domain)
        made = _now(self.device) - started
        if system.name == "adaptor":
            record = {"system": "n-grams mixed in", "size": size, "rate": None, "parameters": 0, "epochs": 0}
            yield {**record, "seconds": made, **self.perplexities(model)}
        started = _now(self.device)
        record = system.run(model, domain, rate)
        seconds = made + _now(self.device) - started
        count = sum(parameter.numel() for parameter in trainable(model))
        yield {
            "system": system.name,
            "size": size,
            "rate": rate,
            "parameters": count,
            "seconds": seconds,
            **record,
            **self.perplexities(model),
        }

    def none(self) -> dict[str, Any]:
        found = self.perplexities(Gpt(self.lm))
        return {"system": "none", "size": 0, "rate": None, "parameters": 0, "epochs": 0, "seconds": 0.0, **found}


def _batch(domain: Corpus) -> int:
    """Positions of a batch: some twenty in an epoch of a small text, and as many as a GPU likes of a large one."""
    return max(128, min(4_096, domain.tokens // 20))


def _epochs(domain: Corpus, effort: float) -> int:
    most = next((n for size, n in _MOST_EPOCHS.items() if domain.tokens < 4 * size), min(_MOST_EPOCHS.values()))
    return max(1, round(most * effort))


def _now(device: torch.device) -> float:
    """Seconds: of the clock on a GPU; of this process on a CPU, which others use too."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def run(
    data: Path,
    out: Path,
    *,
    sizes: Sequence[int] = SIZES,
    gpt: Sizes | None = None,
    device: str = "cpu",
    effort: float = 1.0,
    tries: int = 2,
    seconds: float | None = None,
    timing: Sequence[Mapping[str, Any]] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train the GPT, adapt it in all ways, and write `frozen-adaptation.json` after each; `data` as `prepare` made it.

    What `out` holds already is not done again. `effort` multiplies the most epochs of every run; where there is one of
    `tries`, the larger learning rate is taken everywhere; `seconds`: no run begins after so many; `timing`: sizes of
    language models whose cost as background is measured.
    """
    began, place = time.perf_counter(), torch.device(device)
    texts = Texts.read(data)
    lm, result = _begun(texts, gpt or Sizes(), out, place)
    study = Study(lm, texts, place, effort)
    if not result["runs"]:
        result["runs"].append(study.none())
    tell(f"the GPT is trained: {result['gpt']}; {result['runs'][0]}")
    if not result["timing"]:
        result["timing"] = [times(device=place, **one) for one in timing]
    tell(f"{result['timing']}")
    done = {(one["system"], one["size"], one["rate"]) for one in result["runs"]}
    at = _CHOSEN_AT if _CHOSEN_AT in sizes else sizes[0]
    for size in sorted(sizes, key=lambda n: (n != at, n)):
        for system in study.systems():
            tried = [one for one in result["runs"] if one["system"] == system.name and one["size"] == at]
            chosen = [min(tried, key=_valid)["rate"]] if tried else system.rates[-tries:]
            for rate in chosen:
                is_late = seconds is not None and time.perf_counter() - began > seconds
                if is_late or (system.name, size, rate) in done:
                    continue
                for found in study.one(system, size, rate):
                    if found["system"] != system.name and any(_same(found, one) for one in result["runs"]):
                        continue
                    result["runs"].append(found)
                    tell(f"{time.perf_counter() - began:.1f} s: {found}")
                _write(out, result)
    return result


def _begun(texts: Texts, sizes: Sizes, out: Path, device: torch.device) -> tuple[Any, dict[str, Any]]:
    """The GPT and what was found with it so far: those that `out` holds, or a GPT trained now."""
    from transformers import GPT2LMHeadModel

    path = out / "frozen-adaptation.json"
    if path.exists():
        lm = GPT2LMHeadModel.from_pretrained(out / "gpt", local_files_only=True)
        found: dict[str, Any] = json.loads(path.read_bytes())
        return lm.eval().requires_grad_(False).to(device), found
    started = time.perf_counter()
    lm = train_gpt(texts, sizes, device)
    general = texts.text(texts.corpus("general-valid"))
    found = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()}, one core",
        "torch": torch.__version__,
        "gpt": {
            **asdict(sizes),
            "parameters": sum(p.numel() for p in lm.parameters()),
            "tokens": len(texts.vocabulary),
            "seconds": time.perf_counter() - started,
            "general": math.exp(nats(Gpt(lm), general, device) / texts.words("general-valid")),
        },
        "timing": [],
        "runs": [],
    }
    lm.save_pretrained(out / "gpt")
    _write(out, found)
    return lm, found


def _write(out: Path, result: Mapping[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "frozen-adaptation.json", json.dumps(result, indent=1).encode())


def _same(run: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(run[key] == other[key] for key in ("system", "size"))


def _valid(run: Mapping[str, Any]) -> float:
    return float(run["valid"])


# What an LM costs as background, against the same LM alone.


@dataclass(frozen=True)
class _Numbered:
    """A tokenizer of numbered tokens: for an LM whose weights are random, which is as fast as any."""

    size: int
    eos_token_id: int = 0
    bos_token_id: None = None
    pad_token_id: None = None

    def get_vocab(self) -> dict[str, int]:
        return {f"t{n}": n for n in range(self.size)}


def times(
    *,
    device: torch.device,
    layers: int = 12,
    width: int = 768,
    tokens: int = 50_257,
    rows: int | None = None,
    length: int | None = None,
    body: str = "lstm",
    repeats: int = 5,
) -> dict[str, Any]:
    """Milliseconds, medians, the LM alone and ours in turn: scoring a batch, training on it, and a step of generation.

    The LM alone scores a batch (logits, log p of the targets) and generates with its keys and values. Ours does what
    the LM does, and a log-linear model with a body of 128 and 2,000 features on top; training is a step of ours with
    its gradient against the LM's forward pass alone, which is all that the LM does in it. A GPU gets 16 rows of 256
    tokens, a CPU 4 of 32; a generation has an eighth as many steps.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    usual = (16, 256) if device.type == "cuda" else (4, 32)
    rows, length = rows or usual[0], length or usual[1]
    steps = max(1, length // 8)
    config = GPT2Config(
        vocab_size=tokens,
        n_layer=layers,
        n_embd=width,
        n_head=width // 64,
        n_positions=1024,
        bos_token_id=0,
        eos_token_id=0,
    )
    lm = GPT2LMHeadModel(config).eval().requires_grad_(False).to(device)
    tokenizer = _Numbered(tokens)
    model = LLRNN(
        vocabulary_of(tokenizer),
        output_features=features.Identity(top=2_000),
        background=HuggingFace(lm, tokenizer),
        controller=make_controller({"kind": body, "hidden": 128}),
    ).to(device)
    symbols = torch.randint(1, tokens, (rows, length + 1), device=device)
    symbols[:, 0] = 0
    batch = Batch(symbols[:, :-1], symbols[:, 1:], torch.ones(rows, length, dtype=torch.bool, device=device))
    alone = Gpt(lm)

    def train_ours() -> None:
        torch.autograd.backward(-model.log_prob(batch).mean())
        model.zero_grad()

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "scoring": (lambda: alone.log_prob(batch), torch.no_grad()(lambda: model.log_prob(batch))),
        "training": (lambda: alone.log_prob(batch), train_ours),
        "generation": (lambda: _generate(lm, symbols[:, :1], steps), lambda: _generate_ours(model, rows, steps)),
    }
    found: dict[str, Any] = {"layers": layers, "width": width, "tokens": tokens, "body": body}
    found |= {"rows": rows, "length": length}
    for name, both in pairs.items():
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(repeats + 1):
            for one, kept in zip(both, taken, strict=True):
                started = _now(device)
                one()
                kept.append((_now(device) - started) * 1000)
        lm_ms, ours_ms = (statistics.median(kept[1:]) for kept in taken)
        found[name] = {"lm_ms": lm_ms, "ours_ms": ours_ms, "ratio": ours_ms / lm_ms}
    return found


@torch.no_grad()
def _generate(lm: Any, words: Tensor, steps: int) -> Tensor:
    """Greedy, by the LM alone: log p of all tokens at every step, and the best is fed."""
    past = None
    for _ in range(steps):
        out = lm(input_ids=words, past_key_values=past, use_cache=True)
        words, past = torch.log_softmax(out.logits[:, -1].float(), -1).argmax(-1, keepdim=True), out.past_key_values
    return words


@torch.no_grad()
def _generate_ours(model: LLRNN, rows: int, steps: int) -> Sequence[int]:
    state, words = model.start([None] * rows), [model.vocabulary.eos] * rows
    for _ in range(steps):
        distribution, state = model.step(state, words)
        words = distribution.log_probs().argmax(-1).tolist()
    return words


def table(result: Mapping[str, Any]) -> str:
    """Perplexity by word of the rest of the novel, adapted weights and seconds: a row for each system and size."""
    at = {one["size"] for one in result["runs"]} - {0}
    rows = []
    for size in (0, *sorted(at)):
        by_name: dict[str, list[dict[str, Any]]] = {}
        for one in result["runs"]:
            if one["size"] == size:
                by_name.setdefault(one["system"], []).append(one)
        for name, tried in by_name.items():
            best = min(tried, key=_valid)
            rows.append([f"{size:,}", name, f"{best['parameters']:,}", f"{best['seconds']:.1f}", f"{best['test']:.1f}"])
    return markdown(["words of the domain", "system", "adapted weights", "seconds", "perplexity"], rows)
