"""Every language model of the field on one text, one table, one plot: what De Mulder, Bethard and Moens (2015) miss.

    llrnn compare CORPUS --out DIR          the same words, the same unknown words, the same splits for all rows

A row is trained `tries` times with the first seed (learning rates; of caches their length, of dynamic evaluation its
step), the best on the validation text is kept, and the other seeds take it over. A run is a folder with `result.json`
and log p of every word of the validation and test text; what is there is not done again. Caches, mixtures and hybrids
are made of these numbers. All networks read sentences, and have the log-unigram bias; dropout is the same for all.
"""

from __future__ import annotations

import io
import json
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.inference.documents import DocumentContext, cache_log_probs
from llrnn.knowledge import contextual, features
from llrnn.knowledge.backgrounds import NGram, Unigram
from llrnn.model.checkpoint import load
from llrnn.model.controllers import GRU, LSTM, Controller, Elman
from llrnn.model.ensembles import fitted_shares
from llrnn.model.modern import Transformer
from llrnn.model.network import LLRNN
from llrnn.model.scoring import sentence_log_probs
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn.training.loop import train
from llrnn_lab.bodies import body
from llrnn_lab.clusters import cluster_words
from llrnn_lab.studies.outputs import (
    BinaryTree,
    MaxEnt,
    Output,
    Peer,
    PeerSettings,
    TwoLevel,
    brown_classes,
    frequency_classes,
    peer_log_probs,
    train_peer,
)
from llrnn_lab.studies.tables import markdown, mean_and_spread, require_pyplot, write_results

RATES = (0.003, 0.001, 0.01)
LENGTHS = (200, 1000, 50)  # of a cache [words]
STEPS = (0.05, 0.2, 0.01)  # of dynamic evaluation
_UNKNOWN = "<unk>"
_MOST_BROWN = 64  # classes: each further word costs their cube
_BAGS = 3

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What all rows share."""

    hidden: int = 128
    dropout: float = 0.3
    epochs: int = 10
    patience: int = 2
    words: int = 512  # in a batch
    tries: int = 2
    seeds: int = 3
    min_count: int = 2  # rarer words are <unk>
    folds: int = 10  # of the expert of the LL-RNN: each takes as long to estimate as KN5
    device: str = "cpu"


@dataclass(frozen=True)
class Texts:
    """Training, validation and test text over one vocabulary."""

    train: Corpus
    valid: Corpus
    test: Corpus
    min_count: int
    files: tuple[Any, ...] = ()  # what `read` was told

    def __reduce__(self) -> tuple[Callable[..., Texts], tuple[Any, ...]]:
        return _read_again, self.files  # to another process the names of the files travel

    @classmethod
    def read(
        cls,
        files: Sequence[Path],
        valid: Path | None,
        test: Path | None,
        *,
        min_count: int,
        sentences: int | None = None,
        lowercase: bool = True,
    ) -> Texts:
        """Without other files, the last tenth of the corpus is the test, and the tenth before it for validation."""
        read = [one for path in files for one in Corpus.from_file(path, lowercase=lowercase)]
        whole = Corpus.from_sentences(read)[:sentences]
        tenth = len(whole) // 10
        cuts = [
            None if path is None else Corpus.from_file(path, lowercase=lowercase)[:sentences] for path in (test, valid)
        ]
        for place, cut in enumerate(cuts):
            if cut is None:
                if tenth < 2:
                    raise ConfigError(f"{files[0]}: 20 sentences or more are required to cut, found {len(whole)}")
                whole, cuts[place] = whole[:-tenth], whole[-tenth:]
        last, before = cuts
        assert last is not None
        assert before is not None
        return cls(whole, before, last, min_count, (tuple(files), valid, test, min_count, sentences, lowercase))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.from_corpus(self.train, min_count=self.min_count, unknown=_UNKNOWN)

    @cached_property
    def encoded(self) -> dict[str, EncodedText]:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: EncodedText.encode(corpus, self.vocabulary) for name, corpus in parts.items()}

    def stream(self, part: str) -> Ints:
        """EOS, a sentence, EOS, ..."""
        text = self.encoded[part]
        return np.array([text.eos, *(s for one in text.sentences for s in (*one.tolist(), text.eos))], dtype=np.int64)

    @cached_property
    def counts(self) -> Floats:
        """Of each symbol in the training text, half more, so that none is 0."""
        return np.asarray(np.bincount(self.stream("train")[1:], minlength=len(self.vocabulary)) + 0.5, np.float64)


def _read_again(
    files: Sequence[Path],
    valid: Path | None,
    test: Path | None,
    min_count: int,
    sentences: int | None,
    lowercase: bool,
) -> Texts:
    return Texts.read(files, valid, test, min_count=min_count, sentences=sentences, lowercase=lowercase)


@dataclass(frozen=True)
class Scored:
    """log p of every word and end, in the order of the texts, and what it cost."""

    valid: Floats
    test: Floats
    parameters: int
    seconds: float


def scored(of: Callable[[str], Floats], parameters: int, seconds: float) -> Scored:
    """Both texts, by what says log p of one."""
    return Scored(of("valid"), of("test"), parameters, seconds)


@dataclass(frozen=True)
class Comparison:
    """The rows of the table by their names: `rows[name](value, seed)` trains one run."""

    texts: Texts
    settings: Settings
    out: Path
    tell: Tell = field(default=lambda text: None)

    # --- runs

    def run(self, name: str, value: float, seed: int) -> Scored:
        """One run of a row, done now or before."""
        folder = self.folder(name, value, seed)
        if not self.is_run(name, value, seed):
            folder.mkdir(parents=True, exist_ok=True)
            found = ROWS[name].make(self, value, seed, folder)
            np.savez(folder / "scores.npz", valid=found.valid, test=found.test)
            said = {"parameters": found.parameters, "seconds": found.seconds, "valid": -float(found.valid.mean())}
            write_atomically(folder / "result.json", json.dumps(said).encode())
            self.tell(f"{name}, {value:g}, seed {seed}: valid {said['valid']:.3f}, {found.seconds:.0f} s")
        said = json.loads((folder / "result.json").read_bytes())
        with np.load(folder / "scores.npz") as scores:
            return Scored(scores["valid"], scores["test"], said["parameters"], said["seconds"])

    def folder(self, name: str, value: float, seed: int) -> Path:
        return self.out / "runs" / f"{name.replace(' ', '-').replace(',', '')}.{value:g}.seed{seed}"

    def is_run(self, name: str, value: float, seed: int) -> bool:
        return (self.folder(name, value, seed) / "result.json").exists()

    def is_done(self, name: str, seeds: int) -> bool:
        """Whether a row can be told without a run."""
        tried = all(self.is_run(name, value, 0) for value in ROWS[name].values[: self.settings.tries])
        more = range(seeds if ROWS[name].random else 1)
        return tried and all(self.is_run(name, self.best(name), seed) for seed in more)

    def best(self, name: str) -> float:
        """What is best on the validation text, of as many values as every row may try; with the first seed."""
        values = ROWS[name].values[: self.settings.tries]
        return max(values, key=lambda value: float(self.run(name, value, 0).valid.mean()))

    def row(self, name: str, seeds: int) -> dict[str, Any]:
        value = self.best(name)
        runs = [self.run(name, value, seed) for seed in range(seeds if ROWS[name].random else 1)]
        return {
            "tried": list(ROWS[name].values[: self.settings.tries]),
            "chosen": value,
            "seeds": len(runs),
            "parameters": runs[0].parameters,
            "seconds": [run.seconds for run in runs],
            "valid": [-float(run.valid.mean()) for run in runs],
            "test": [-float(run.test.mean()) for run in runs],
        }

    # --- how rows are made

    def network(self, model: LLRNN, rate: float, seed: int, folder: Path, text: Corpus | None = None) -> Scored:
        """Train one of our models and score the texts."""
        settings, clock = self.settings, folder / "seconds"
        model = model.to(torch.device(settings.device))
        before = float(clock.read_text()) if clock.exists() else 0.0
        started = time.process_time() if settings.device == "cpu" else time.perf_counter()
        now = time.process_time if settings.device == "cpu" else time.perf_counter
        for _ in train(
            model,
            text or self.texts.train,
            valid=self.texts.valid,
            folder=folder,
            resume=has_bundle(folder, "training"),
            learning_rate=rate,
            weight_decay=0.01,
            epochs=settings.epochs,
            patience=settings.patience,
            batches={"kind": "sentences", "words": settings.words},
            seed=seed,
            checkpoint_every=100_000,
        ):
            write_atomically(clock, str(before + now() - started).encode())
        seconds = before + now() - started
        trained = sum(own.numel() for own in model.parameters())
        fixed = sum(own.numel() for own in model.controller.buffers())
        return scored(lambda part: self._scores(model, part), trained + fixed, seconds)

    def _scores(self, model: LLRNN, part: str) -> Floats:
        with torch.no_grad():
            return np.concatenate(sentence_log_probs(model, self.texts.encoded[part]))

    def model(self, controller: Controller, seed: int, **options: Any) -> LLRNN:
        """A softmax with the log-unigram bias, unless `options` say otherwise."""
        given = {"output_features": features.Identity(), **options}
        background = Unigram.from_corpus(self.texts.train, smoothing=0.5)
        return LLRNN(self.texts.vocabulary, background=background, controller=controller, seed=seed, **given)

    def body(self, kind: Callable[..., Controller] = LSTM, **options: Any) -> Controller:
        return kind(self.settings.hidden, dropout=self.settings.dropout, **options)

    def peer(self, controller: Controller, output: Output, rate: float, seed: int) -> Scored:
        settings, started = self.settings, time.process_time()
        peer = Peer(len(self.texts.vocabulary), controller, output, seed=seed).to(settings.device)
        how = PeerSettings(rate, settings.epochs, settings.patience, settings.words, seed)
        train_peer(peer, self.texts.encoded["train"], self.texts.encoded["valid"], how)
        seconds = time.process_time() - started
        text = self.texts.encoded
        size = sum(own.numel() for own in peer.parameters())
        return scored(lambda part: np.concatenate(peer_log_probs(peer, text[part])), size, seconds)

    def classes(self, kind: str) -> Ints:
        """The class of each symbol: by frequency, Brown's, or our clusters."""
        path, size = self.out / f"classes-{kind}.npy", len(self.texts.vocabulary)
        if not path.exists():
            n = max(2, min(round(math.sqrt(size)), _MOST_BROWN if kind == "brown" else size))
            found = {"frequency": self._by_frequency, "brown": self._brown, "ours": self._clusters}[kind](n)
            made = io.BytesIO()
            np.save(made, found)
            write_atomically(path, made.getvalue())  # runs side by side may ask for it
        return np.asarray(np.load(path))

    def _by_frequency(self, n: int) -> Ints:
        return frequency_classes(self.texts.counts, n)

    def _brown(self, n: int) -> Ints:
        return brown_classes(self.texts.stream("train"), len(self.texts.vocabulary), n)

    def _clusters(self, n: int) -> Ints:
        """Words that have none, the end and <unk> among them, are a class."""
        seen = sum(count >= 5 for count in self.texts.train.counts().values())
        made = cluster_words(
            (one.words for one in self.texts.train),
            sizes=(max(1, min(n, seen)),),
            min_count=5,
            dimensions=min(100, seen),
        )
        names = [min(made(word), default="") for word in self.texts.vocabulary.symbols]
        return np.unique(names, return_inverse=True)[1]


Make = Callable[[Comparison, float, int, Path], Scored]


@dataclass(frozen=True)
class Row:
    """How one run is made, what may be tried, and whether seeds differ."""

    make: Make
    values: Sequence[float] = RATES
    random: bool = True
    of_others: bool = False  # made of what other rows say, which must be there


def _network(kind: Callable[..., Controller], **options: Any) -> Row:
    def make(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
        return c.network(c.model(c.body(kind, **options), seed), rate, seed, folder)

    return Row(make)


def _reservoir(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
    reservoir = body("reservoir", 4 * c.settings.hidden, inputs=c.settings.hidden, seed=seed)
    return c.network(c.model(reservoir, seed), rate, seed, folder)


def _classes(kind: str) -> Row:
    """One level: classes as the only features, words at their unigram shares."""

    def make(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
        of = dict(zip(c.texts.vocabulary.symbols, c.classes(kind).tolist(), strict=True))
        phi = features.Attributes(
            Lexicon.from_mapping({word: {f"Class:{own}"} for word, own in of.items() if word != EOS})
        )
        model = c.model(c.body(), seed, output_features=phi, input_features=features.Identity())
        return c.network(model, rate, seed, folder)

    return Row(make)


def _two_level(kind: str) -> Row:
    def make(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
        return c.peer(c.body(), TwoLevel(c.settings.hidden, c.classes(kind), c.texts.counts), rate, seed)

    return Row(make)


def _tree(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
    return c.peer(c.body(), BinaryTree(c.settings.hidden, c.texts.counts), rate, seed)


def _maxent(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
    return c.peer(c.body(Elman), MaxEnt(c.settings.hidden, c.texts.encoded["train"], c.texts.counts), rate, seed)


def _kneser_ney(c: Comparison, value: float, seed: int, folder: Path) -> Scored:
    started = time.process_time()
    ngram = NGram.from_corpus(c.texts.train, order=5, folds=0).bind(c.texts.vocabulary)
    assert isinstance(ngram, NGram)
    seconds = time.process_time() - started
    return scored(lambda part: ngram.score(c.texts.stream(part))[0].double().numpy(), ngram.table.size, seconds)


def _llrnn(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
    """Words, endings, what annotation says of words, and a cross-fitted 5-gram that the network listens to."""
    lexicon = Lexicon.from_corpus(c.texts.train)
    phi = features.Identity() + features.Suffixes(3, min_count=5) + features.Attributes(lexicon)
    expert = contextual.Expert(NGram.from_corpus(c.texts.train, order=5, folds=c.settings.folds), name="kn")
    model = c.model(c.body(), seed, output_features=phi, contextual=[expert])
    return c.network(model, rate, seed, folder)


def _bagging(c: Comparison, rate: float, seed: int, folder: Path) -> Scored:
    """LSTMs of texts whose sentences are drawn with replacement, in equal shares."""
    bags = []
    for bag in range(_BAGS):
        rng = np.random.default_rng([seed, bag])
        drawn = Corpus.from_sentences(
            [c.texts.train.sentences[i] for i in rng.integers(0, len(c.texts.train), len(c.texts.train))]
        )
        own = folder / f"bag{bag}"
        own.mkdir(exist_ok=True)
        bags.append(c.network(c.model(c.body(), seed * _BAGS + bag), rate, seed * _BAGS + bag, own, drawn))
    return _mixed(bags, [1 / _BAGS] * _BAGS)


def _mixed(parts: Sequence[Scored], shares: Sequence[float] | None = None) -> Scored:
    """Σ λ p, λ from the validation text unless given."""
    found = shares or fitted_shares(torch.from_numpy(np.stack([part.valid for part in parts])))
    log = np.log(found)[:, None]

    def joint(text: str) -> Floats:
        return np.asarray(np.logaddexp.reduce(np.stack([getattr(part, text) for part in parts]) + log))

    return scored(joint, sum(part.parameters for part in parts), sum(part.seconds for part in parts))


def _chosen(c: Comparison, name: str, seed: int) -> Scored:
    return c.run(name, c.best(name), seed)


def _hybrid(first: str, second: str) -> Row:
    def make(c: Comparison, value: float, seed: int, folder: Path) -> Scored:
        return _mixed([_chosen(c, first, seed), _chosen(c, second, 0)])

    return Row(make, (1.0,), of_others=True)


def _of_seeds(c: Comparison, value: float, seed: int, folder: Path) -> Scored:
    """All seeds of the LSTM in equal shares."""
    n = max(2, c.settings.seeds)
    return _mixed([_chosen(c, "LSTM", own) for own in range(n)], [1 / n] * n)


def _cache(c: Comparison, length: float, seed: int, folder: Path) -> Scored:
    """(1 − λ) p + λ · share of the word among the last ones, ends of sentences too; λ from the validation text."""
    lstm = _chosen(c, "LSTM", seed)

    def of(part: str) -> Floats:
        targets = torch.from_numpy(c.texts.stream(part)[1:])
        found = cache_log_probs(torch.zeros(len(targets), 0), targets, int(length))
        return np.asarray(found.numpy())

    return _mixed([lstm, scored(of, 0, 0.0)])


def _dynamic(c: Comparison, step: float, seed: int, folder: Path) -> Scored:
    """The LSTM takes a gradient step behind every few words of the text that it is evaluated on."""
    lstm, started = _chosen(c, "LSTM", seed), time.process_time()
    model = load(c.folder("LSTM", c.best("LSTM"), seed)).to(torch.device(c.settings.device))
    follow = DocumentContext(step=step)
    valid, test = (follow.log_probs(model, c.texts.encoded[part]) for part in ("valid", "test"))
    return Scored(valid, test, lstm.parameters, lstm.seconds + time.process_time() - started)


ROWS: Mapping[str, Row] = {
    "KN5": Row(_kneser_ney, (5.0,), random=False),
    "feed-forward": _network(partial(body, "feedforward")),
    "Elman": _network(Elman),
    "GRU": _network(GRU),
    "LSTM": _network(LSTM),
    "Jordan": _network(partial(body, "jordan")),
    "Transformer": _network(Transformer, layers=2, heads=4),
    "reservoir": Row(_reservoir),
    "classes by frequency": _classes("frequency"),
    "classes of Brown": _classes("brown"),
    "our classes": _classes("ours"),
    "two-level by frequency": _two_level("frequency"),
    "two-level of Brown": _two_level("brown"),
    "two-level our classes": _two_level("ours"),
    "hierarchical softmax": Row(_tree),
    "Elman with n-gram features": Row(_maxent),
    "LSTM and cache": Row(_cache, LENGTHS, of_others=True),
    "LSTM dynamic": Row(_dynamic, STEPS, of_others=True),
    "LSTM bagging": Row(_bagging, RATES[:1]),
    "LSTM mixture of seeds": Row(_of_seeds, (1.0,), random=False, of_others=True),
    "LSTM and KN5": _hybrid("LSTM", "KN5"),
    "LL-RNN": Row(_llrnn),
    "LL-RNN and KN5": _hybrid("LL-RNN", "KN5"),
}
OFTEN = ("KN5", "feed-forward", "Elman", "GRU", "LSTM", "LL-RNN")  # with all seeds; the others have one


def compare(
    texts: Texts,
    out: Path,
    settings: Settings | None = None,
    *,
    only: Sequence[str] = (),
    seconds: float | None = None,
    parallel: int = 1,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Run what has not been run, and write compare.json, compare.md and compare.png.

        compare(Texts.read([Path("novel.txt")], None, None, min_count=2), Path("runs/compare"))

    `only`: rows by their names; `seconds`: begin no further row after so many; `parallel`: runs side by side.
    """
    settings = settings or Settings()
    unknown = [name for name in only if name not in ROWS]
    if unknown:
        raise ConfigError(f"--only must be a row of the table, found {unknown[0]!r}: one of {', '.join(ROWS)}")
    out.mkdir(parents=True, exist_ok=True)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # imports much, which is no row's cost
    _same_as_before(out, texts, settings)
    one, started = Comparison(texts, settings, out, tell), time.monotonic()
    found: dict[str, Any] = {
        "words": {part: len(texts.stream(part)) - 1 for part in ("train", "valid", "test")},
        "vocabulary": len(texts.vocabulary),
        "unknown": float(np.mean(texts.stream("test")[1:] == texts.vocabulary.id(_UNKNOWN))),
        "settings": {name: getattr(settings, name) for name in Settings.__dataclass_fields__},
        "rows": {},
    }
    if parallel > 1:
        _side_by_side(one, only or list(ROWS), parallel, None if seconds is None else time.time() + seconds)
    for name in only or ROWS:
        seeds = settings.seeds if name in OFTEN else 1
        if seconds is not None and time.monotonic() - started > seconds and not one.is_done(name, seeds):
            tell(f"{name}: not begun, {seconds:g} seconds are over; run the same command again")
            continue
        found["rows"][name] = one.row(name, seeds)
        write_results(out, "compare", found, table(found))
    plot(found, out / "compare.png")
    return found


def _same_as_before(out: Path, texts: Texts, settings: Settings) -> None:
    """What was done is not done again: of the same texts, in the same way. Seeds, tries and the device may change."""
    path = out / "settings.json"
    shared = {name: own for name, own in vars(settings).items() if name not in ("seeds", "tries", "device")}
    words = zlib.crc32("\n".join(texts.vocabulary.symbols).encode())
    shared |= {part: zlib.crc32(texts.stream(part).tobytes(), words) for part in ("train", "valid", "test")}
    before = json.loads(path.read_bytes()) if path.exists() else shared
    for name in (name for name in shared if before[name] != shared[name]):
        raise ConfigError(
            f"{out}: the runs there had another {name} text; name another folder, or remove this one"
            if name in ("train", "valid", "test")
            else f"{out}: the runs there had {name} = {before[name]}, found {shared[name]}; name another folder"
        )
    write_atomically(path, json.dumps(shared).encode())


def _side_by_side(one: Comparison, names: Sequence[str], parallel: int, deadline: float | None) -> None:
    """All runs that need no other: the tries first, then the other seeds of what is best."""
    own = [name for name in names if not ROWS[name].of_others]
    if {*names} - {*own}:
        own += [name for name in ("LSTM", "KN5") if name not in own]
    tries = [(name, value, 0) for name in own for value in ROWS[name].values[: one.settings.tries]]
    given = (one.texts, one.settings, one.out)
    with ProcessPoolExecutor(parallel, get_context("spawn"), initializer=_begin, initargs=given) as pool:
        for said in pool.map(_fill, tries, [deadline] * len(tries)):
            one.tell(said)
        more = _other_seeds(one, own) if all(one.is_run(*run) for run in tries) else []
        for said in pool.map(_fill, more, [deadline] * len(more)):
            one.tell(said)


def _other_seeds(one: Comparison, names: Sequence[str]) -> list[tuple[str, float, int]]:
    often = [name for name in names if name in OFTEN and ROWS[name].random]
    return [(name, one.best(name), seed) for name in often for seed in range(1, one.settings.seeds)]


_worker: list[Comparison] = []  # of this process


def _begin(texts: Texts, settings: Settings, out: Path) -> None:
    torch.set_num_threads(1)
    _worker.append(Comparison(texts, settings, out))


def _fill(run: tuple[str, float, int], deadline: float | None) -> str:
    name, value, seed = run
    if deadline is not None and time.time() > deadline:
        return f"{name}, {value:g}, seed {seed}: not begun, the time is over; run the same command again"
    found = _worker[0].run(*run)
    return f"{name}, {value:g}, seed {seed}: valid {-found.valid.mean():.3f}, {found.seconds:.0f} s"


def table(found: Mapping[str, Any]) -> str:
    """A row for each model: what it costs, and its perplexity."""
    rows = []
    for name, row in found["rows"].items():
        perplexities = [math.exp(nats) for nats in row["test"]]
        rows.append(
            [
                name,
                f"{row['parameters']:,}",
                f"{np.mean(row['seconds']):.1f}",
                str(row["seeds"]),
                mean_and_spread(row["valid"]),
                mean_and_spread(row["test"]),
                mean_and_spread(perplexities, 1),
            ]
        )
    header = ["model", "parameters", "seconds", "seeds", "valid, nats", "test, nats", "test perplexity"]
    return markdown(header, rows)


_LINE = 0.032  # of the height of a plot, for a name


def plot(found: Mapping[str, Any], path: Path) -> None:
    """Test perplexity against parameters and against training seconds."""
    pyplot = require_pyplot()
    figure, both = pyplot.subplots(1, 2, figsize=(13, 6), sharey=True)
    both[0].set_yscale("log")
    for axes, key, title in zip(both, ("parameters", "seconds"), ("parameters", "training, seconds"), strict=True):
        points = {
            name: (max(1e-3, float(np.mean(row[key]))), math.exp(float(np.mean(row["test"]))))
            for name, row in found["rows"].items()
        }
        for name, (x, y) in points.items():
            ours = name.startswith("LL-RNN")
            axes.plot(x, y, "s" if ours else "o", color="C3" if ours else "C0")
        axes.set_xscale("log")
        axes.yaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_minor_formatter("{x:.0f}")
        axes.set_xlabel(title)
        axes.grid(visible=True, which="both", alpha=0.3)
        _name_points(axes, points)
    both[0].set_ylabel("test perplexity")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _name_points(axes: Any, points: Mapping[str, tuple[float, float]]) -> None:
    """The names in a column on the right, in the order of the points and joined to them by lines."""
    low = -math.inf
    for name, place in sorted(points.items(), key=lambda one: one[1][1]):
        height = axes.transAxes.inverted().transform(axes.transData.transform(place))[1]
        low = max(height, low + _LINE)
        line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.6, "shrinkB": 3, "relpos": (0, 0.5)}
        axes.annotate(
            name, place, xytext=(1.02, low), textcoords="axes fraction", fontsize=8, va="center", arrowprops=line
        )
