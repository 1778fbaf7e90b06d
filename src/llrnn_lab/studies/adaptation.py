"""Adaptation to a domain with little text: general French (UD GSD) to one novel.

    base              an LL-RNN trained on the general text alone
    domain            a Kneser-Ney 5-gram of the domain text alone
    interpolation     λ · base + (1 − λ) · domain, λ by EM on the validation text
    fine-tuning       the base, trained on with the domain text
    fine-tuning, n-grams   the same, interpolated with `domain`
    LoRA              the base frozen but for products of rank r beside its matrices, and its biases (Hu et al., 2021)
    LoRA, n-grams     the same, interpolated with `domain`
    adaptor           the base frozen as background, and a log-linear model of the domain on top (`adaptation`)

All have the same words: those of the general text and of the first 100,000 words of the novel; any other is `<unk>`.
All trained systems get the same number of tries (two learning rates, chosen on the validation text) and the same
patience; what is interpolated has its λ from the validation text, too.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.inference.adaptation import adaptor, base_of, default_settings
from llrnn.inference.evaluation import evaluate
from llrnn.knowledge.backgrounds import NGram
from llrnn.model.checkpoint import load
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, score
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.settings import TrainingSettings
from llrnn_lab.clusters import tokenise
from llrnn_lab.studies.jobs import Job, run_jobs
from llrnn_lab.studies.prepare import find_source
from llrnn_lab.studies.tables import markdown, mean_and_spread, require_pyplot
from llrnn_morphology import hunspell

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
SYSTEMS = (
    "base",
    "domain",
    "interpolation",
    "fine-tuning",
    "fine-tuning, n-grams",
    "LoRA",
    "LoRA, n-grams",
    "adaptor",
)
_VALID, _TEST = 5_000, 10_000  # words
_RATES = (0.001, 0.0003)  # that fine-tuning and the adaptor try
_LORA_RATES = (0.01, 0.003)  # few weights that begin at 0 want larger steps
_RANK = 16
_END = re.compile(r"[.!?…]")


def prepare(data: Path, out: Path, *, novel: str, tell: Callable[[str], None]) -> None:
    """The general text, the novel in three parts by position, and a lexicon, in one folder."""
    if (out / "manifest.json").exists():
        return
    source, path = find_source(data), find_novel(data, novel)
    tell(f"preparing {path.name} in {out}")
    parts = novel_parts(path, (max(SIZES), _VALID, _TEST))
    out.mkdir(parents=True, exist_ok=True)
    general = Corpus.from_file(source.parts["train"], lowercase=True)
    general, valid = general.split(len(general) - 728)
    texts: dict[str, list[Sequence[str]]] = {
        "general": [sentence.words for sentence in general],
        "general-valid": [sentence.words for sentence in valid],
    }
    texts |= dict(zip(("domain", "valid", "test"), parts, strict=True))
    for name, sentences in texts.items():
        write_atomically(out / f"{name}.txt", "".join(" ".join(words) + "\n" for words in sentences).encode())
    listed = Vocabulary.from_corpus(*(Corpus.from_sentences(texts[name]) for name in ("general", "domain")))
    lexicon = Lexicon.from_corpus(Corpus.from_file(source.treebanks, lowercase=True))
    if source.hunspell is not None:
        lexicon = lexicon | hunspell(source.hunspell, forms=listed.symbols)
    Lexicon.from_mapping({word: lexicon(word) for word in listed if lexicon(word)}).to_tsv(out / "lexicon.tsv")
    manifest = {"novel": path.name, "words": {name: sum(map(len, text)) for name, text in texts.items()}}
    write_atomically(out / "manifest.json", json.dumps(manifest, indent=1).encode())


def find_novel(data: Path, novel: str) -> Path:
    """The one novel whose file name holds this."""
    novels = find_source(data).novels
    found = [path for path in novels if novel in path.name]
    if len(found) != 1:
        names = ", ".join(path.name for path in novels)
        raise ConfigError(f"--novel {novel}: one of the novels is required, found {len(found)} of {names}")
    return found[0]


def novel_parts(path: Path, sizes: Sequence[int]) -> list[list[Sequence[str]]]:
    """Consecutive parts of a novel of about so many words, in sentences."""
    return _cut(list(_sentences(path)), sizes, path.name)


def _sentences(path: Path) -> Iterator[list[str]]:
    """Paragraphs cut behind full stops, question and exclamation marks."""
    with gzip.open(path, "rt", encoding="utf8") as file:
        for line in file:
            sentence: list[str] = []
            for word in tokenise(line):
                sentence.append(word)
                if _END.fullmatch(word):
                    yield sentence
                    sentence = []
            if sentence:
                yield sentence


def _cut(sentences: list[list[str]], sizes: Sequence[int], name: str) -> list[list[Sequence[str]]]:
    """Consecutive parts of about so many words; whole sentences."""
    parts: list[list[Sequence[str]]] = []
    rest = iter(sentences)
    for size in sizes:
        part: list[Sequence[str]] = []
        words = 0
        while words < size:
            sentence = next(rest, None)
            if sentence is None:
                there = sum(map(len, sentences))
                raise ConfigError(f"{name}: {sum(sizes)} words are required, found {there}; choose a longer novel")
            part.append(sentence)
            words += len(sentence)
        parts.append(part)
    return parts


def train_base(config: Path, data: Path, out: Path, device: torch.device) -> None:
    """The general model, unless it is there already."""
    if (out / "base.json").exists():
        return
    settings = read_config(config, data=data)
    project = Project.from_config(settings)
    model = project.model().to(device)
    resume = has_bundle(out / "base", "training")
    *_, last = train(
        model,
        project.corpora["train"],
        valid=project.corpora["valid"],
        others=project.others,
        settings=settings.training,
        folder=out / "base",
        resume=resume,
    )
    write_atomically(out / "base.json", json.dumps({"epochs": last.epoch, "valid": last.best}).encode())


def job_of(size: int, seed: int, config: Path) -> Job:
    """One size, to be run besides others; its change is no key of a configuration but the words of the domain."""
    return Job(f"size{size}", config, (f"words={size}",), seed, study="adaptation")


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """What a job of one size does."""
    started = time.perf_counter()
    (change,) = job.changes
    found = run_size(int(change.removeprefix("words=")), job.seed, data, out, device)
    result = {
        "name": job.name,
        "seed": job.seed,
        "valid": found["adaptor"]["valid"],
        "tests": {name: {"log_perplexity": found[name]["test"]} for name in SYSTEMS},
        "seconds": time.perf_counter() - started,
    }
    job.folder(out).mkdir(parents=True, exist_ok=True)
    write_atomically(job.folder(out) / "result.json", json.dumps(result, indent=1).encode())
    return result


def _file(out: Path, size: int, seed: int) -> Path:
    return out / f"size{size}.seed{seed}.json"


def run_size(size: int, seed: int, data: Path, out: Path, place: torch.device) -> dict[str, Any]:
    """All systems with so many words of the domain; the result is kept in a file."""
    path = _file(out, size, seed)
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found
    torch.set_num_threads(1)
    base = load(out / "base").to(place)
    texts = {name: Corpus.from_file(data / f"{name}.txt") for name in ("domain", "valid", "test")}
    domain = _first_words(texts["domain"], size)
    result: dict[str, Any] = {"size": domain.tokens, "seed": seed}
    ngram = NGram.from_corpus(domain, order=5, folds=0).bind(base.vocabulary)
    assert isinstance(ngram, NGram)
    of_base = {part: score(base, _text(texts[part], base)).log_probs for part in ("valid", "test")}
    of_domain = {part: _ngram_log_probs(ngram, _text(texts[part], base)) for part in ("valid", "test")}
    result["base"] = {part: float(-of_base[part].mean()) for part in of_base}
    result["domain"] = {part: float(-of_domain[part].mean()) for part in of_domain}
    share = _share(of_base["valid"], of_domain["valid"])
    result["interpolation"] = {"share": share} | {
        part: float(-_mixed(of_base[part], of_domain[part], share).mean()) for part in of_base
    }
    made: dict[str, tuple[Callable[[], LLRNN], Sequence[float]]] = {
        "fine-tuning": (lambda: load(out / "base").to(place), _RATES),
        "LoRA": (lambda: with_low_rank(load(out / "base"), _RANK, seed).to(place), _LORA_RATES),
        "adaptor": (lambda: adaptor(base_of(base), domain, seed=seed, device=str(place)), _RATES),
    }
    for name, (make, rates) in made.items():
        settings = default_settings(domain.tokens, seed=seed)
        tries = [_trained(make(), domain, texts, settings, rate, of_domain) for rate in rates]
        result[name] = min((plain for plain, _ in tries), key=_valid)
        if name != "adaptor":  # which has n-grams of the domain already
            result[f"{name}, n-grams"] = min((mixed for _, mixed in tries), key=_valid)
    write_atomically(path, json.dumps(result, indent=1).encode())
    return result


def _trained(
    model: LLRNN,
    domain: Corpus,
    texts: dict[str, Corpus],
    settings: TrainingSettings,
    rate: float,
    of_domain: dict[str, Tensor],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model by itself, and interpolated with the n-grams of the domain."""
    *_, last = train(model, domain, valid=texts["valid"], settings=settings, learning_rate=rate)
    assert last.best is not None
    own = {part: score(model, _text(texts[part], model)).log_probs for part in of_domain}
    share = _share(own["valid"], of_domain["valid"])
    tested = evaluate(model, texts["test"]).sound(f"a model of {domain.tokens} words of the novel, rate {rate:g}")
    tried = {"learning_rate": rate, "epochs": last.epoch, "problems": tested.audit.problems()}
    trained = sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
    plain = {part: float(-own[part].mean()) for part in own} | {"test": tested.log_perplexity, "trained": trained}
    mixed = {part: float(-_mixed(own[part], of_domain[part], share).mean()) for part in own}
    return plain | tried, mixed | tried | {"share": share}


class LowRankLSTM(nn.Module):
    """A frozen layer whose two matrices learn W + A B, and whose output h learns h + h A B; biases learn, too.

    B begins at 0: nothing changes at first. What h learns is a product of rank r beside the output weights, W h.
    """

    def __init__(self, frozen: nn.LSTM, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.frozen, hidden = frozen, frozen.hidden_size
        shapes = [(4 * hidden, frozen.input_size), (4 * hidden, hidden), (hidden, hidden)]  # (rows, columns)
        draw = (torch.randn(columns, rank, generator=generator) / math.sqrt(columns) for _, columns in shapes)
        self.a = nn.ParameterList(draw)
        self.b = nn.ParameterList(torch.zeros(rank, rows) for rows, _ in shapes)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        added = [(a @ b).T for a, b in zip(self.a, self.b, strict=True)]
        own = self.frozen
        weights = [own.weight_ih_l0 + added[0], own.weight_hh_l0 + added[1], own.bias_ih_l0, own.bias_hh_l0]
        h, *after = torch._VF.lstm(x, state, weights, True, 1, 0.0, self.training, False, True)
        return h + h @ added[2].T, (after[0], after[1])


def with_low_rank(model: LLRNN, rank: int, seed: int) -> LLRNN:
    """The model, frozen but for its biases, with an LSTM that learns products of a low rank."""
    model.requires_grad_(False)
    layers, generator = getattr(model.controller, "layers", None), torch.Generator().manual_seed(seed)
    if not isinstance(layers, nn.ModuleList) or not all(isinstance(layer, nn.LSTM) for layer in layers):
        raise ConfigError(f"LoRA is made for a base with an LSTM, found {model.controller!r}; train such a base")
    lstms = [layer for layer in layers if isinstance(layer, nn.LSTM)]
    for place, layer in enumerate(lstms):
        layers[place] = LowRankLSTM(layer, rank, generator)
    for name, weights in model.named_parameters():
        weights.requires_grad_("bias" in name or ".a." in name or ".b." in name)
    return model


def _valid(result: dict[str, Any]) -> float:
    return float(result["valid"])


def _first_words(corpus: Corpus, size: int) -> Corpus:
    """The first sentences with so many words."""
    words = count = 0
    for sentence in corpus:
        if words >= size:
            break
        words += len(sentence.words)
        count += 1
    return corpus[:count]


def _text(corpus: Corpus, model: LLRNN) -> EncodedText:
    return EncodedText.encode(corpus, model.vocabulary)


def _ngram_log_probs(ngram: NGram, text: EncodedText) -> Tensor:
    """In the order in which `scoring.score` goes through a text."""
    found = []
    for batch in Sentences().plan(text):
        states, _ = ngram.follow([ngram.initial()] * len(batch.inputs), batch)
        found.append(ngram.trie(states.nodes.device).log_prob_of(states.nodes, batch.picked(batch.targets))[0])
    return torch.cat(found)


def _mixed(left: Tensor, right: Tensor, share: float) -> Tensor:
    weights = torch.tensor([share, 1.0 - share], dtype=torch.float64).log()
    return torch.logsumexp(torch.stack([left, right]).double() + weights[:, None], 0)


def _share(left: Tensor, right: Tensor) -> float:
    """The share of the left model that makes the text most probable, by EM."""
    share = 0.5
    for _ in range(100):
        log_left = left.double() + torch.tensor(share, dtype=torch.float64).log()
        share = float((log_left - _mixed(left, right, share)).exp().mean().clamp(1e-6, 1 - 1e-6))
    return share


def run(
    data: Path,
    out: Path,
    *,
    config: Path,
    novel: str = "Flaubert",
    sizes: Sequence[int] = SIZES,
    seeds: int = 1,
    parallel: int = 1,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Prepare, train the base, then every size; what is done already is not done again."""
    prepared = out / "data"
    prepare(data, prepared, novel=novel, tell=tell)
    train_base(config, prepared, out, torch.device(device))
    tell("the base is trained")
    wanted = [(size, seed) for size in sizes for seed in range(seeds)]
    if parallel > 1:  # one after the other needs no process for each
        planned = [job_of(size, seed, config) for size, seed in wanted if not _file(out, size, seed).exists()]
        run_jobs(planned, data=prepared, out=out, device=device, parallel=parallel, tell=tell)
    results = [run_size(size, seed, prepared, out, torch.device(device)) for size, seed in wanted]
    write_atomically(out / "adaptation.json", json.dumps(results, indent=1).encode())
    return results


def table(results: Sequence[dict[str, Any]]) -> str:
    """Log-perplexity on the test text, a row for each size, means over seeds."""
    rows = []
    for size, runs in _by_size(results).items():
        rows.append([f"{size:,}", *(mean_and_spread([run[name]["test"] for run in runs]) for name in SYSTEMS)])
    return markdown(["words of the domain", *SYSTEMS], rows)


def _by_size(results: Sequence[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for run in sorted(results, key=lambda one: (one["size"], one["seed"])):
        found.setdefault(int(run["size"]), []).append(run)
    return found


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Perplexity against words of the domain, both on logarithmic scales."""
    pyplot = require_pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    by_size = _by_size(results)
    for name, mark in zip(SYSTEMS, "s^DvP<>o", strict=True):
        means = [math.exp(statistics.fmean(run[name]["test"] for run in runs)) for runs in by_size.values()]
        axes.plot(list(by_size), means, marker=mark, label=name)
    axes.set(xscale="log", yscale="log", xlabel="words of the novel", ylabel="perplexity of the rest of it")
    ticks = [tick for tick in (50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000) if _within(tick, axes)]
    axes.set_yticks(ticks, labels=[str(tick) for tick in ticks], minor=False)
    axes.set_yticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _within(value: float, axes: Any) -> bool:
    low, high = axes.get_ylim()
    return bool(low <= value <= high)
