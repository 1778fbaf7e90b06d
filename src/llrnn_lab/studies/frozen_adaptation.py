"""Adaptation of a frozen language model (SmolLM2) to three English texts: ours, LoRA, fine-tuning and n-grams.

    LM                 alone
    fine-tuning        all of its weights, trained on
    LoRA               W + 2 A B at the attention's projections q, k, v, o of every block, rank 16 (Hu et al., 2021)
    ours               p ∝ m(x) · exp((W h + c)·φ(x) + a_e(h) E(x)), m = λ · LM + (1 − λ) · n-grams, h of the frozen LM
    LoRA + ours        the same on the LM with LoRA
    … + n-grams        λ · LM + (1 − λ) · token n-grams (Kneser-Ney) of the domain text, λ by EM on the validation text

φ: tokens that come twice in the domain text, and affixes; E: the n-grams once more, as expert (`contextual.Expert`).
Ours begins at m, which may stay the best epoch. Where it trains, the n-grams are cross-fitted, and so is LoRA: h of
each half of the text is that of a LoRA trained on the other half, for as many epochs as were best on the whole. h of
the training text is computed once. A line is read after a line break, and predicts one at its end; nats are by word,
ends of lines counted. All systems see the same lines in the same batches (another piece of the text, and another order,
for each seed), and stop by the same validation text; of two rates, tried at 10,000 words with seed 0, each text keeps
the better one.

    llrnn experiment frozen-adaptation --data ../shared/data --out runs/frozen --only-prepare      # once: the texts
    llrnn experiment frozen-adaptation --data runs/frozen/data --prepared --lm smollm2 --out runs/frozen --device cuda

A call goes on where the last one stopped; `--seconds` says when to begin nothing more.
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from llrnn.ground.errors import EstimationWarning
from llrnn.ground.files import write_atomically
from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import HuggingFace, NGram
from llrnn.knowledge.backgrounds.neural import tokenised, vocabulary_of
from llrnn.knowledge.backgrounds.ngram import FoldNodes, Nodes
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.features import compile_features
from llrnn.knowledge.process import Batch
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.priors import DensePrior
from llrnn.model.ensembles import fitted_shares
from llrnn.model.lm import open_lm
from llrnn.model.scoring import Sentences
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn_lab.studies.tables import markdown, mean_and_spread

SIZES = (1_000, 10_000, 100_000)  # words of the domain
TEXTS = {"novel": "novels_english/1912_wells", "dialogues": "dstc2_nbest/train", "wikitext2": "wikitext2"}
RATES: dict[str, tuple[float, ...]] = {  # the groups in their order, and the rates that each tries
    "LM": (0.0,),
    "ours": (5e-4, 2e-3),
    "LoRA": (5e-4, 2e-3),
    "fine-tuning": (3e-5, 1e-4),
}
_CHOSEN_AT = 10_000  # the size at which rates are tried
_VALID, _TEST = 5_000, 10_000  # words
_PATIENCE, _MOST_EPOCHS = 2, {1_000: 20, 10_000: 12, 100_000: 4}
_PARTS = ("domain", "valid", "test")
_RANK, _ORDER, _FOLDS, _LINE, _ARTICLE = 16, 4, 5, 160, 400  # the last two in words
_EVALUATED = 8_192  # positions in a batch without gradient


def plain(text: str) -> str:
    """Text of WikiText without the blanks of its tokens."""
    text = re.sub(r" @(.)@ ", r"\1", text).replace("<unk>", "unknown")
    text = re.sub(r" ([.,;:!?)\]%'])", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", re.sub(r'" ([^"]*) "', r'"\1"', text))


def articles(path: Path, words: int) -> list[str]:
    """The first words of each article of a part of WikiText-2 as plain text, without headings."""
    made: list[list[str]] = []
    for line in _lines(path):
        if re.fullmatch(r" ?= [^=]+ = ?", line):
            made.append([])
        elif made and line.strip() and not line.strip().startswith("="):
            made[-1].append(line.strip())
    return [plain(" ".join(" ".join(lines).split()[:words])) for lines in made]


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf8").splitlines()


def prepare(data: Path, out: Path) -> None:
    """The three texts in their parts, lines of at most 160 words, in one folder that can be carried away."""
    out.mkdir(parents=True, exist_ok=True)
    for name, file in TEXTS.items():
        if (data / file).is_dir():
            found = [_short(articles(data / file / f"{part}.txt.gz", _ARTICLE)) for part in ("train", "valid", "test")]
            parts = [first(lines, size)[0] for lines, size in zip(found, (max(SIZES), _VALID, _TEST), strict=True)]
        else:
            test, rest = first(_short(_lines(data / f"{file}.txt.gz"))[::-1], _TEST)
            valid, rest = first(rest, _VALID)
            parts = [first(rest[::-1], max(SIZES))[0], valid[::-1], test[::-1]]
        for part, lines in zip(_PARTS, parts, strict=True):
            write_atomically(out / f"{name}-{part}.txt", "".join(f"{line}\n" for line in lines).encode())


def _short(lines: Sequence[str]) -> list[str]:
    words = [line.split() for line in lines]
    return [" ".join(row[n : n + _LINE]) for row in words for n in range(0, len(row), _LINE)]


def first(lines: Sequence[str], words: int) -> tuple[list[str], list[str]]:
    """The first lines with so many words together, or all; and the rest."""
    before = np.cumsum([0, *(len(line.split()) for line in lines)])[: len(lines)]
    count = int(np.searchsorted(before, words))
    return list(lines[:count]), list(lines[count:])


@dataclass(frozen=True)
class _ByLine:
    """A tokenizer whose texts end with a line break, if it has one as a token, else with its own end of a text."""

    tokenizer: Any

    @property
    def eos_token_id(self) -> int:
        own: list[int] = self("\n", add_special_tokens=False)["input_ids"]
        return own[0] if len(own) == 1 else self.tokenizer.eos_token_id

    def get_vocab(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.tokenizer(*given, **options)


class Gpt(nn.Module):
    """A causal LM that scores a batch of llrnn: `log_prob(batch)`, (N,); what is trained of it needs a gradient."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.lm = lm

    def states(self, batch: Batch) -> Tensor:
        """The last hidden state at each position, (N, H), of which the head makes logits."""
        return batch.picked(self.lm.base_model(input_ids=batch.inputs).last_hidden_state).float()

    def logits(self, h: Tensor) -> Tensor:
        """In float32, whatever the LM itself computes in: (N, H) -> (N, V)."""
        with torch.autocast(h.device.type, enabled=False):
            made: Tensor = self.lm.get_output_embeddings()(h)
        return made

    def log_prob(self, batch: Batch) -> Tensor:
        logits = self.logits(self.states(batch))
        return -nn.functional.cross_entropy(logits, batch.picked(batch.targets), reduction="none")


class LoRA(nn.Module):
    """x W + b, frozen, and 2 x A B beside it: r (in + out) weights. B begins at 0, so nothing changes at first."""

    def __init__(self, frozen: Any, rank: int) -> None:
        super().__init__()
        shape = frozen.weight.shape  # as `transformers` keeps GPT-2's: (in, out)
        inputs, outputs = reversed(shape) if isinstance(frozen, nn.Linear) else shape
        self.frozen = frozen
        self.a = nn.Parameter(torch.randn(inputs, rank, device=frozen.weight.device) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(rank, outputs, device=frozen.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        frozen: Tensor = self.frozen(x)
        return frozen + 2.0 * (x @ self.a @ self.b)


_PROJECTION = re.compile(r"attn\.(c_attn|c_proj|[qkvo]_proj)$")  # GPT-2's, Llama's


def with_lora(lm: Any, rank: int) -> Gpt:
    """A copy of an LM whose attention projections learn a product of rank r, and nothing else does."""
    made = copy.deepcopy(lm).requires_grad_(False)
    for name, frozen in [*made.named_modules()]:
        if _PROJECTION.search(name):
            made.set_submodule(name, LoRA(frozen, rank))
    return Gpt(made)


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
    valid: EncodedText | None,
    *,
    rate: float,
    size: int,
    epochs: int,
    device: torch.device,
    half: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """AdamW, clipped, over batches of so many positions; the best weights by the validation text stay, if there is one.

    With `half` a GPU multiplies matrices in half precision.
    """
    parameters = trainable(model)
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01, fused=device.type == "cuda")
    best, reached, epoch, kept = math.inf, 0, 0, list[Tensor]()
    while True:
        found = nats(model, valid, device) if valid is not None else -epoch
        if found < best:
            best, kept, reached = found, [p.detach().clone() for p in parameters], epoch
        if epoch == epochs or epoch - reached >= _PATIENCE:
            break
        model.train()
        for batch in batches(text, size, device, seed=seed, epoch=epoch):
            with torch.autocast(device.type, torch.bfloat16, enabled=half and device.type == "cuda"):
                loss = -model.log_prob(batch).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
        epoch += 1
    with torch.no_grad():
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.copy_(value)
    return {"epochs": epoch, "best": reached}


def _batch(domain: Corpus) -> int:
    """Positions of a batch: some twenty in an epoch of a small text, and as many as a GPU likes of a large one."""
    return max(128, min(4_096, domain.tokens // 20))


def _epochs(domain: Corpus, effort: float) -> int:
    most = next((n for size, n in _MOST_EPOCHS.items() if domain.tokens < 4 * size), min(_MOST_EPOCHS.values()))
    return max(1, round(most * effort))


def now(device: torch.device) -> float:
    """Seconds: of the clock on a GPU; of this process on a CPU, which others use too."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


class Places:
    """Several texts one behind the other: tensors over all their tokens, and the places in them of a batch's tokens.

    `texts`: for each of the given ones a text of the same lengths, whose symbols are places.
    """

    def __init__(self, texts: Sequence[EncodedText]) -> None:
        ends, made = 0, []
        for text in texts:
            starts = ends + np.concatenate([[0], np.cumsum(text.lengths)])
            own = tuple(np.arange(start, start + n - 1) for start, n in zip(starts, text.lengths, strict=False))
            made.append(replace(text, sentences=own, eos=-1))
            ends = int(starts[-1])
        self.texts, self.count = made, ends

    def range(self, n: int) -> slice:
        """Where the tokens of text n are."""
        sentences = self.texts[n].sentences
        return slice(int(sentences[0][0]), int(sentences[-1][-1]) + 2)

    @staticmethod
    def of(batch: Batch) -> Tensor:
        """Of each target of a batch of one of `texts`, (N,); that of an end is behind that of the word before."""
        found = batch.picked(batch.targets)
        return torch.where(found < 0, found.roll(1) + 1, found)


def _both(text: EncodedText, places: EncodedText, device: torch.device) -> Iterator[tuple[Batch, Tensor]]:
    plans = batches(text, _EVALUATED, device), batches(places, _EVALUATED, device)
    for batch, where in zip(*plans, strict=True):
        yield batch, Places.of(where)


@torch.no_grad()
def read(model: Gpt, text: EncodedText, places: EncodedText, h: Tensor, log_p: Tensor) -> None:
    """Fill in h (N, H) and log p (N,) of the tokens of a text under an LM."""
    model.eval()
    for batch, where in _both(text, places, h.device):
        h[where] = own = model.states(batch)
        logits = model.logits(own)
        log_p[where] = -nn.functional.cross_entropy(logits, batch.picked(batch.targets), reduction="none")


@dataclass(frozen=True)
class Domain:
    """A piece of a text with its validation and test text, the n-grams of it, and where they are at every token.

    `corpus`, `texts`: the piece; it, validation and test in tokens; `places`: of these three, N tokens in all;
    `targets`, `nodes` (N,): tokens, and states of the n-grams before them; `log_p` (N,): of the n-grams; `seconds`:
    what the n-grams took, `whole`: those without folds.
    """

    corpus: Corpus
    texts: Sequence[EncodedText]
    places: Places
    ngrams: Any
    targets: Tensor
    nodes: Tensor
    log_p: Tensor
    seconds: float
    whole: float

    @classmethod
    def of(cls, corpora: Sequence[Corpus], vocabulary: Any, device: torch.device) -> Domain:
        texts = [EncodedText.to_train_on(corpora[0], vocabulary)]
        texts += [EncodedText.encode(corpus, vocabulary) for corpus in corpora[1:]]
        places, times = Places(texts), [now(device)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimationWarning)
            for folds in (0, _FOLDS):
                ngrams = NGram.from_corpus(corpora[0], order=_ORDER, folds=folds).bind(vocabulary)
                times.append(now(device))
        targets, nodes = torch.zeros(2, places.count, dtype=torch.long, device=device)
        log_p = torch.zeros(places.count, dtype=torch.float64, device=device)
        for text, own in zip(texts, places.texts, strict=True):
            for batch, where in _both(text, own, device):
                states: Any = ngrams.follow([ngrams.initial()] * len(batch.inputs), batch)[0]
                targets[where], nodes[where] = batch.picked(batch.targets), states.nodes
                at = torch.arange(len(where), device=device)
                log_p[where] = ngrams.prior(states).at(at, targets[where])
        end = now(device)
        seconds, whole = end - times[1], times[1] - times[0]
        return cls(corpora[0], texts, places, ngrams, targets, nodes, log_p, seconds, whole)

    def share(self, log_p: Tensor) -> float:
        """λ of an LM with this log p in the mixture with the n-grams, by EM on the validation text."""
        valid = self.places.range(1)
        return fitted_shares(torch.stack([log_p[valid].double(), self.log_p[valid]]).cpu())[0]

    def mixed(self, log_p: Tensor, share: float) -> Tensor:
        return torch.logaddexp(log_p.double() + np.log(share), self.log_p + np.log1p(-share))


class OnTop(nn.Module):
    """p ∝ m(x) · exp((W h + c)·φ(x) + a_e(h) E(x)), m = λ · LM + (1 − λ) · n-grams; h of all tokens is known, (N, H).

    It scores batches of places; in training the n-grams are those of the other folds. h is scaled to length one.
    """

    def __init__(self, lm: Gpt, domain: Domain, h: Tensor, share: float, phi: features.Features) -> None:
        super().__init__()
        self._known = lm, domain, h, Expert(domain.ngrams, name="domain").bind(domain.ngrams.vocabulary)
        self.share = share
        matrix = compile_features(phi, domain.ngrams.vocabulary)
        self.layer = LogLinear(matrix, h.shape[1], contextual=1, zero=True).to(h.device)

    def distribution(self, where: Tensor) -> Distribution:
        lm, domain, known, expert = self._known
        h, nodes = known[where], domain.nodes[where]
        states = (FoldNodes if self.training else Nodes)(len(nodes), nodes)
        with torch.no_grad():
            log_b = torch.log_softmax(lm.logits(h), -1) + np.log(self.share)
            ngrams = domain.ngrams.prior(states).dense(len(h), h.dtype).log_b + np.log1p(-self.share)
            mixed = DensePrior(torch.logaddexp(log_b, ngrams), True)
        made = self.layer.distribution(nn.functional.normalize(h), mixed, [expert.values(states)])
        made.way = "words"  # the prior is known word by word: nothing is gained by classes
        return made

    def log_prob(self, batch: Batch) -> Tensor:
        where = Places.of(batch)
        return self.distribution(where).log_prob(self._known[1].targets[where])


class Study:
    """A frozen LM, the texts in a folder that `prepare` made, and every group of systems on them."""

    def __init__(self, lm: Any, tokenizer: Any, folder: Path, device: torch.device, effort: float = 1.0) -> None:
        self.lm, self.device, self.effort = Gpt(lm.eval().requires_grad_(False).to(device)), device, effort
        self.tokenizer, self.folder = _ByLine(tokenizer), folder
        self.vocabulary = vocabulary_of(self.tokenizer)
        self.domain = lru_cache(1)(self._domain)

    def lines(self, text: str, part: str) -> list[str]:
        return (self.folder / f"{text}-{part}.txt").read_text(encoding="utf8").splitlines()

    def piece(self, text: str, size: int, seed: int) -> list[str]:
        """So many words of the domain text, which begin elsewhere for another seed."""
        lines = self.lines(text, "domain")
        begin = seed * len(lines) // 3 % len(lines)
        return first([*lines[begin:], *lines[:begin]], size)[0]

    def _domain(self, text: str, size: int, seed: int) -> Domain:
        lines = [self.piece(text, size, seed), self.lines(text, "valid"), self.lines(text, "test")]
        corpora = [tokenised(self.tokenizer, part, name=text) for part in lines]
        return Domain.of(corpora, self.vocabulary, self.device)

    def phi(self, corpus: Corpus) -> features.Features:
        counts = corpus.counts()
        rare = [word for word in self.vocabulary if counts[word] < 2]
        affixes = features.Suffixes(3, min_count=20) + features.Prefixes(2, min_count=20)
        return features.Identity(without=rare) + affixes

    def empty(self, domain: Domain) -> tuple[Tensor, Tensor]:
        """For h and log p of all tokens."""
        h = torch.zeros(domain.places.count, self.lm.lm.config.hidden_size, device=self.device)
        return h, h.new_zeros(len(h))

    def read(self, model: Gpt, domain: Domain, parts: Sequence[int]) -> tuple[Tensor, Tensor]:
        h, log_p = self.empty(domain)
        for n in parts:
            read(model, domain.texts[n], domain.places.texts[n], h, log_p)
        return h, log_p

    def run(self, group: str, text: str, size: int, seed: int, rates: Mapping[str, float]) -> list[dict[str, Any]]:
        """The records of the systems of a group on a piece of a text."""
        domain = self.domain(text, size, seed)
        torch.manual_seed(seed)
        words = sum(len(line.split()) for line in self.piece(text, size, seed))
        item = {"group": group, "text": text, "size": size, "words": words, "seed": seed, "rate": rates[group]}
        made = {"LM": self._alone, "ours": self._ours, "LoRA": self._lora, "fine-tuning": self._fine_tuning}[group]
        return [{**item, **found} for found in made(domain, text, seed, rates)]

    def nats(self, domain: Domain, text: str, log_p: Tensor) -> dict[str, float]:
        found = {}
        for n, part in enumerate(_PARTS[1:], 1):
            words = sum(len(line.split()) + 1 for line in self.lines(text, part))
            found[part] = -float(log_p[domain.places.range(n)].double().sum()) / words
        return found

    def _two(
        self, name: str, domain: Domain, text: str, log_p: Tensor, **found: Any
    ) -> tuple[float, list[dict[str, Any]]]:
        """λ; and the records of an LM with this log p, alone and with n-grams."""
        share = domain.share(log_p)
        alone = {"system": name, **found, **self.nats(domain, text, log_p)}
        mixed = {**alone, **self.nats(domain, text, domain.mixed(log_p, share)), "share": share}
        return share, [alone, {**mixed, "system": f"{name} + n-grams", "seconds": found["seconds"] + domain.whole}]

    def _alone(self, domain: Domain, text: str, seed: int, rates: Mapping[str, float]) -> list[dict[str, Any]]:
        _, log_p = self.read(self.lm, domain, (1, 2))
        return self._two("LM", domain, text, log_p, parameters=0, seconds=0.0, epochs=0)[1]

    def _options(self, domain: Domain, seed: int) -> dict[str, Any]:
        epochs = _epochs(domain.corpus, self.effort)
        return {"size": _batch(domain.corpus), "epochs": epochs, "device": self.device, "seed": seed}

    def _ours(self, domain: Domain, text: str, seed: int, rates: Mapping[str, float]) -> list[dict[str, Any]]:
        began = now(self.device)
        h, log_p = self.read(self.lm, domain, (0, 1))
        return [self._on_top("ours", self.lm, domain, text, (h, domain.share(log_p)), rates["ours"], seed, began)]

    def _on_top(
        self,
        name: str,
        lm: Gpt,
        domain: Domain,
        text: str,
        known: tuple[Tensor, float],
        rate: float,
        seed: int,
        began: float,
    ) -> dict[str, Any]:
        """The record of our layer on an LM; `known`: h, of which that of the test text is filled in, and λ."""
        (h, share), texts = known, domain.places.texts
        model = OnTop(lm, domain, h, share, self.phi(domain.corpus))
        found = trained(model, texts[0], texts[1], rate=rate, **self._options(domain, seed))
        seconds = now(self.device) - began + domain.seconds
        count = sum(parameter.numel() for parameter in trainable(model))
        log_p = h.new_zeros(len(h))
        read(lm, domain.texts[2], texts[2], h, log_p)
        model.eval()
        with torch.no_grad():
            for batch in (one for own in texts[1:] for one in batches(own, _EVALUATED, self.device)):
                log_p[Places.of(batch)] = model.log_prob(batch)
        nats = self.nats(domain, text, log_p)
        return {"system": name, "parameters": count, "seconds": seconds, "share": share, **found, **nats}

    def _rival(
        self, name: str, model: Gpt, domain: Domain, text: str, rate: float, seed: int
    ) -> tuple[Tensor, float, list[dict[str, Any]]]:
        """h of validation and test text, λ, and the two records of an LM of which some weights are trained."""
        began = now(self.device)
        found = trained(model, domain.texts[0], domain.texts[1], rate=rate, half=True, **self._options(domain, seed))
        seconds, count = now(self.device) - began, sum(parameter.numel() for parameter in trainable(model))
        h, log_p = self.read(model, domain, (1, 2))
        return h, *self._two(name, domain, text, log_p, parameters=count, seconds=seconds, **found)

    def _fine_tuning(self, domain: Domain, text: str, seed: int, rates: Mapping[str, float]) -> list[dict[str, Any]]:
        model = Gpt(copy.deepcopy(self.lm.lm).requires_grad_(True))
        return self._rival("fine-tuning", model, domain, text, rates["fine-tuning"], seed)[2]

    def _lora(self, domain: Domain, text: str, seed: int, rates: Mapping[str, float]) -> list[dict[str, Any]]:
        model = with_lora(self.lm.lm, _RANK)
        h, share, records = self._rival("LoRA", model, domain, text, rates["LoRA"], seed)
        began, own = now(self.device) - records[0]["seconds"], domain.texts[0]
        for half, other in _halves(len(own.sentences)):
            learnt = with_lora(self.lm.lm, _RANK)
            options = self._options(domain, seed) | {"epochs": records[0]["best"]}
            trained(learnt, _some(own, other), None, rate=rates["LoRA"], half=True, **options)
            read(learnt, _some(own, half), _some(domain.places.texts[0], half), h, h.new_zeros(len(h)))
        on_top = self._on_top("LoRA + ours", model, domain, text, (h, share), rates["ours"], seed, began)
        on_top["parameters"] += records[0]["parameters"]
        return [*records, on_top]


def _halves(count: int) -> list[tuple[slice, slice]]:
    """Each half of so many sentences, and the other one."""
    halves = slice(0, count // 2), slice(count // 2, count)
    return [halves, halves[::-1]]


def _some(text: EncodedText, chosen: slice) -> EncodedText:
    keys = None if text.keys is None else text.keys[chosen]
    return replace(text, sentences=text.sentences[chosen], conditions=text.conditions[chosen], keys=keys)


def run(
    data: Path,
    out: Path,
    *,
    lm: str,
    sizes: Sequence[int] = SIZES,
    seeds: int = 3,
    device: str = "cpu",
    effort: float = 1.0,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Adapt `lm`, what `open_lm` opens, to the texts in `data`, which `prepare` made; return all records.

    Each is written to `out`/frozen-adaptation.jsonl at once, and nothing that is there is done again; `seconds`: after
    so many nothing begins; `effort` multiplies the most epochs.
    """
    began, path = time.perf_counter(), out / "frozen-adaptation.jsonl"
    opened = open_lm(lm).background
    assert isinstance(opened, HuggingFace)
    study = Study(opened._model, opened.tokenizer, data, torch.device(device), effort)
    done = recorded(path)
    at = _CHOSEN_AT if _CHOSEN_AT in sizes else sizes[0]
    if device != "cpu" and any(True for _ in wanted(done, sizes, seeds, at)):
        for group in RATES:  # what is compiled or loaded at first use is not in the seconds
            study.run(group, next(iter(TEXTS)), min(sizes), 0, {name: rates[0] for name, rates in RATES.items()})
    for group, text, size, seed, rate in wanted(done, sizes, seeds, at):
        if seconds is not None and time.perf_counter() - began > seconds:
            tell("out of time; the next call goes on from here")
            break
        rates = {name: chosen(done, name, text, at) for name in RATES} | {group: rate}
        found = study.run(group, text, size, seed, rates)
        with path.open("a", encoding="utf8") as file:
            file.writelines(json.dumps(one) + "\n" for one in found)
        done += found
        for one in found:
            tell(f"{time.perf_counter() - began:.0f} s: {one}")
    return done


def recorded(path: Path) -> list[dict[str, Any]]:
    """The records in a file, if there is one; a last line that was cut off does not count."""
    lines = path.read_text(encoding="utf8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wanted(
    done: Sequence[Mapping[str, Any]], sizes: Sequence[int], seeds: int, at: int
) -> Iterator[tuple[str, str, int, int, float]]:
    """What is still to do: (group, text, size, seed, rate), the size and seed at which rates are chosen first.

    It looks at `done` again after each.
    """
    for seed in range(seeds):
        for size in sorted(sizes, key=lambda n: (n != at, n)):
            for text in TEXTS:
                for group, rates in RATES.items():
                    for rate in rates if (seed, size) == (0, at) else [chosen(done, group, text, at)]:
                        item = {"group": group, "text": text, "size": size, "seed": seed, "rate": rate}
                        if not any(item.items() <= one.items() for one in done):
                            yield group, text, size, seed, rate


def chosen(done: Sequence[Mapping[str, Any]], group: str, text: str, at: int) -> float:
    """The rate that is better on the validation text at one size, among those tried; the first one before."""
    where = {"system": group, "text": text, "size": at, "seed": 0}.items()
    tried = [one for one in done if where <= one.items()]
    return float(min(tried, key=lambda one: one["valid"])["rate"]) if tried else RATES[group][0]


def table(done: Sequence[Mapping[str, Any]]) -> str:
    """Nats a word of the test text, means over seeds, the best one bold; below, weights trained and seconds by size."""
    at = _CHOSEN_AT if any(one["size"] == _CHOSEN_AT for one in done) else done[0]["size"]
    kept = [one for one in done if one["rate"] == chosen(done, one["group"], one["text"], at)]
    names = list(dict.fromkeys(one["system"] for one in kept))

    def values(key: str, **where: Any) -> list[list[float]]:
        found = [one for one in kept if where.items() <= one.items()]
        return [[one[key] for one in found if one["system"] == name and key in one] for name in names]

    rows = []
    for text in dict.fromkeys(one["text"] for one in kept):
        for size in sorted({one["size"] for one in kept}):
            cells = values("test", text=text, size=size)
            if not any(cells):  # not run
                continue
            words = round(statistics.fmean(one["words"] for one in kept if (one["text"], one["size"]) == (text, size)))
            least = min(statistics.fmean(cell) for cell in cells if cell)
            shown = [_cell(cell, least) for cell in cells]
            rows.append([text, f"{words:,}", *shown])
    for key, digits in (("parameters", 0), ("seconds", 1)):
        for size in sorted({one["size"] for one in kept}):
            shown = [f"{statistics.fmean(cell):,.{digits}f}" if cell else "" for cell in values(key, size=size)]
            rows.append([{"parameters": "weights trained", "seconds": "seconds"}[key], f"{size:,}", *shown])
    return markdown(["text", "words", *names], rows)


def _cell(values: Sequence[float], least: float) -> str:
    if not values:
        return ""
    shown = mean_and_spread(values)
    return f"**{shown}**" if statistics.fmean(values) == least else shown
