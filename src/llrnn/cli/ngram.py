"""The verbs `llrnn ngram ...`: estimate, convert, query, perplexity, interpolate, prune, distil."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import numpy as np
import torch
import typer

from llrnn.cli import show
from llrnn.cli.options import (
    AsJson,
    Device,
    Lowercase,
    ModelFolder,
    OovPolicy,
    Seed,
    device_named,
    handling,
    numbers_in,
    oov_policy,
    read_for,
    say,
)
from llrnn.ground.arrays import Ints
from llrnn.ground.errors import ConfigError, CorpusError, UnknownWordError
from llrnn.ground.files import STANDARD
from llrnn.inference.mixing import fitted_shares
from llrnn.inference.projection import distil, written
from llrnn.inference.scores import numbers_of
from llrnn.knowledge.backgrounds import NGram
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.languages.ngrams import (
    UNKNOWN,
    NGramTable,
    Scratch,
    estimate,
    estimate_on_disk,
    interpolated,
    pruned,
    read_stream,
    read_table,
    stream_pieces,
    with_unknown,
    write_table,
)
from llrnn.model.checkpoint import load
from llrnn.text.corpus import Oov
from llrnn.text.readers import read_lines
from llrnn.text.shards import BuiltCorpus, is_built
from llrnn.text.vocabulary import EOS, Vocabulary

ngram_app = typer.Typer()

ModelPath = Annotated[Path, typer.Argument(help="An ARPA file (plain or gzip), or a folder that `estimate` wrote.")]
Texts = Annotated[
    list[Path], typer.Argument(help="Text files, plain or gzip: one sentence a line, or .conllu; - is standard input.")
]
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)B?")
_FACTOR = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LEAST_MEMORY = 1_000_000


@ngram_app.command("estimate")
def estimate_verb(
    texts: Annotated[
        list[Path],
        typer.Argument(help="Text files, plain or gzip: one sentence a line, or .conllu; or one built corpus."),
    ],
    out: Annotated[Path, typer.Option(help="NAME.arpa, NAME.arpa.gz, - for standard output; else a folder of arrays.")],
    order: Annotated[int, typer.Option(min=1, max=20, help="How many words, the predicted one included.")] = 5,
    min_counts: Annotated[
        str, typer.Option(help="The least count by order, such as 1,1,2: rarer n-grams are pruned.")
    ] = "1",
    words: Annotated[Path | None, typer.Option(help="A file of words, one a line: all others become <unk>.")] = None,
    lowercase: Lowercase = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Count and estimate on disk, with arrays of so many bytes in memory: 500M, 2G."),
    ] = None,
    temporary: Annotated[
        Path | None, typer.Option(help="With --memory: the folder for temporary files; that of --out by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Modified Kneser-Ney from text.

    \b
    Example: llrnn ngram estimate corpus.txt --order 5 --out corpus.arpa.gz
    Example: llrnn ngram estimate news --memory 2G --out news.arpa.gz
    """
    try:
        counts = [int(part) for part in min_counts.split(",")]
    except ValueError:
        raise ConfigError(f"--min-counts needs numbers such as 1,1,2, found {min_counts!r}") from None
    budget = None if memory is None else _bytes(memory)
    listed = None if words is None else [line for _, line in read_lines(words) if line]
    found: list[str] = []
    reading = _ReadingText(_pieces(texts, found, lowercase, listed))
    scratch = _scratch(out, temporary, budget)
    begun = time.perf_counter()
    with handling(signal.SIGTERM, _unwind):
        if scratch is None or budget is None:
            table = estimate(np.concatenate(list(reading)), found, order=order, min_counts=counts)
        else:
            table = estimate_on_disk(reading, found, scratch=scratch, memory=budget, order=order, min_counts=counts)
        estimated = time.perf_counter()
        write_table(table, out)
    for note in table.notes:
        show.note(f"note: {note}")
    report = {
        "out": str(out),
        "words": reading.words - 1,
        "types": len(found),
        "ngrams": [len(level) for level in table.levels],
        "megabytes": table.bytes / 1e6,
        "temporary_megabytes": 0.0 if scratch is None else scratch.most / 1e6,
        "seconds_reading": reading.finished - begun,
        "seconds_estimating": estimated - reading.finished,
        "seconds_writing": time.perf_counter() - estimated,
        "notes": table.notes,
    }
    told(report, out, as_json, _show_estimated)


@dataclass
class _ReadingText:
    """The pieces of a text on their way; how many words they had, and when the last was read."""

    pieces: Iterable[Ints]
    words: int = 0
    finished: float = 0.0

    def __iter__(self) -> Iterator[Ints]:
        for piece in self.pieces:
            self.words += len(piece)
            yield piece
        self.finished = time.perf_counter()
        if self.words < 3:
            raise CorpusError("text is required to count n-grams, found none; give a file with sentences")


def _pieces(texts: Sequence[Path], words: list[str], lowercase: bool, listed: list[str] | None) -> Iterator[Ints]:
    """The text in numbers of `words`, which is filled in."""
    built = [path for path in texts if path.is_dir() and is_built(path)]
    if not built:
        return stream_pieces(texts, words, lowercase=lowercase, vocabulary=listed)
    if len(texts) > 1:
        raise ConfigError(f"a built corpus stands alone, found {', '.join(map(str, texts))}; build all of them as one")
    if listed is not None:
        raise ConfigError(f"{built[0]}: the words were chosen when the corpus was built; leave --words out")
    corpus = BuiltCorpus(built[0])
    if lowercase:
        corpus.lowercased()
    return _of_built(corpus, words)


def _of_built(corpus: BuiltCorpus, words: list[str]) -> Iterator[Ints]:
    """What stands for unknown words is `<unk>` in an n-gram model, which has one in any case."""
    symbols = corpus.manifest.words
    if corpus.unknown not in (None, UNKNOWN) and UNKNOWN in symbols:
        raise CorpusError(
            f"{UNKNOWN} is a word beside {corpus.unknown}; build it with --unknown {UNKNOWN}", path=corpus.folder
        )
    words += [UNKNOWN if symbol == corpus.unknown else symbol for symbol in symbols]
    words += [UNKNOWN] if UNKNOWN not in words else []
    yield np.array([corpus.vocabulary.eos])
    yield from corpus.run_blocks()


def _scratch(out: Path, temporary: Path | None, budget: int | None) -> Scratch | None:
    if budget is None:
        if temporary is not None:
            raise ConfigError("--temporary is for --memory; give both or none")
        return None
    if out.suffix not in (".arpa", ".gz"):
        raise ConfigError(
            f"--memory writes an ARPA file, NAME.arpa or NAME.arpa.gz, found {out}; a folder of arrays is made in "
            "memory: llrnn ngram convert"
        )
    folder = out.parent if temporary is None else temporary
    if not folder.is_dir():
        raise ConfigError(f"{folder}: a folder for temporary files is required, but there is none; make it first")
    return Scratch(folder)


def _unwind(number: int, frame: FrameType | None) -> None:
    """End the program on a polite kill, so that what is half written is removed."""
    raise SystemExit(128 + number)


def _show_estimated(report: dict[str, Any]) -> None:
    rate = report["words"] / max(report["seconds_estimating"], 1e-9)
    on_disk = report["temporary_megabytes"]
    where = f"on disk, with {on_disk:,.0f} MB of temporary files at most" if on_disk else "in memory"
    show.text(
        f"{report['out']}: {report['words']:,} words, {report['types']:,} types, "
        f"{'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams, {report['megabytes']:.0f} MB {where}\n"
        f"read in {report['seconds_reading']:.1f} s, estimated in {report['seconds_estimating']:.1f} s "
        f"({rate:,.0f} words/s), written in {report['seconds_writing']:.1f} s"
    )


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * _FACTOR[found[2]]) if found else 0
    if size < _LEAST_MEMORY:
        raise ConfigError(f"--memory needs a size of at least 1M, such as 500M or 2G, found {text!r}; correct it")
    return size


@ngram_app.command("convert")
def convert_verb(
    source: ModelPath,
    target: Annotated[Path, typer.Argument(help="NAME.arpa, NAME.arpa.gz, - for standard output, or a folder.")],
) -> None:
    """From one form to another: ARPA, gzip, a folder of arrays that opens at once.

    Example: llrnn ngram convert corpus.arpa.gz corpus.ngram
    """
    table = read_table(source)
    write_table(table, target)
    told(
        {"out": str(target), "ngrams": [len(level) for level in table.levels]},
        target,
        False,
        lambda _: show.text(f"{target}: {table!r}"),
    )


@ngram_app.command("query")
def query_verb(
    model: ModelPath,
    sentence: Annotated[str, typer.Argument(help="Words separated by spaces, or - for a line of standard input.")],
    following: Annotated[int, typer.Option("--next", min=0, help="List so many of the most probable next words.")] = 0,
    lowercase: Lowercase = False,
    as_json: AsJson = False,
) -> None:
    """Each word of a sentence: log10 p and the length of the n-gram that says so; or what may follow it.

    \b
    Example: llrnn ngram query corpus.arpa "le chat dort"
    Example: llrnn ngram query corpus.arpa "le chat" --next 5
    """
    ngram = open_ngram(model)
    vocabulary = ngram.vocabulary
    sentence = next((line for _, line in read_lines(sentence)), "") if sentence == STANDARD else sentence
    words = (sentence.lower() if lowercase else sentence).split()
    ids = [vocabulary.eos, *numbers_of(words, vocabulary)]
    if following:
        rows = _following(ngram, vocabulary, ids, following)
    else:
        log_prob, length = ngram.score([*ids, vocabulary.eos])
        listed = zip([*words, EOS], log_prob.tolist(), length.tolist(), strict=True)
        rows = [{"word": w, "log10": p / math.log(10), "length": n, "known": w in vocabulary} for w, p, n in listed]
    say(rows, as_json, _show_query)


def _following(ngram: NGram, vocabulary: Vocabulary, ids: list[int], count: int) -> list[dict[str, Any]]:
    state = ngram.initial()
    for symbol in ids:
        state = ngram.advance(state, symbol)
    log_p, best = ngram.log_probs([state])[0].topk(min(count, len(vocabulary)))
    pairs = zip(best.tolist(), log_p.tolist(), strict=True)
    return [{"word": vocabulary.symbols[word], "log10": p / math.log(10)} for word, p in pairs]


@ngram_app.command("perplexity")
def perplexity_verb(
    model: ModelPath, texts: Texts, lowercase: Lowercase = False, oov: OovPolicy = None, as_json: AsJson = False
) -> None:
    """Perplexity of texts as SRILM counts it, with and without the words that the model does not list.

    ppl is over words and ends of sentences, ppl1 over words alone; words that --oov skip leaves out are in neither.

    \b
    Example: llrnn ngram perplexity corpus.arpa test.txt
    Example: zcat test.txt.gz | llrnn ngram perplexity corpus.arpa - --oov skip
    """
    policy = oov_policy(oov)
    ngram = open_ngram(model, policy)
    results = [_perplexity(ngram, path, lowercase, policy) for path in texts]
    say(results, as_json, _show_perplexity)


def open_ngram(path: Path, oov: Oov | None = None) -> NGram:
    """An n-gram model over its own words; with `skip`, one that can read words that it does not list."""
    table = read_table(path)
    return over_own_words(with_unknown(table) if oov == "skip" else table)


def _perplexity(ngram: NGram, path: Path, lowercase: bool, oov: Oov | None) -> dict[str, Any]:
    return _perplexity_of(ngram, _Text.read(path, lowercase), oov)


def _perplexity_of(ngram: NGram, text: _Text, oov: Oov | None) -> dict[str, Any]:
    found = text.scored(ngram, oov)
    log_prob, listed, ends = found.log_prob, found.log_prob[found.known], int(found.ends.sum())
    counted = listed[listed.isfinite()] if oov == "skip" else log_prob
    total = float(counted.sum())
    return {
        "text": str(text.path),
        "sentences": ends,
        "words": len(log_prob),
        "unknown": len(log_prob) - len(listed),
        "zero_probabilities": int((~listed.isfinite()).sum()),
        "log10_prob": total / math.log(10),
        "log_perplexity": -total / len(counted),
        "perplexity": _exp(-total / len(counted)),
        "ppl1": _exp(-total / max(1, len(counted) - ends)),
        "perplexity_without_unknown": _exp(float(-listed.mean())),
    }


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 709.0 else math.inf


@dataclass(frozen=True)
class _ScoredText:
    """log p of all words of a text, ends of sentences included; which are listed, and which are ends; each (N,)."""

    log_prob: torch.Tensor
    known: torch.Tensor
    ends: torch.Tensor


@dataclass(frozen=True)
class _Text:
    """A text that was read once, for any number of models: its words by their numbers."""

    path: Path
    stream: Ints
    words: Sequence[str]

    @classmethod
    def read(cls, path: Path, lowercase: bool) -> _Text:
        stream, words = read_stream([path], lowercase=lowercase)
        if len(stream) < 3:
            raise CorpusError("text is required, found no word; give a file with sentences", path=path)
        if not (stream == 1).any():
            words[1] = EOS  # the text has no <unk>, so that a model need not list it
        return cls(path, stream, words)

    def scored(self, ngram: NGram, oov: Oov | None) -> _ScoredText:
        vocabulary, place = ngram.vocabulary, str(self.path)
        listed = np.array([word in vocabulary and word != UNKNOWN for word in self.words])
        missing = [word for word in self.words if word not in vocabulary]
        if missing and oov == "error":
            raise UnknownWordError(missing[0], size=len(vocabulary), place=place, others=missing[1:])
        number = np.array(numbers_of(self.words, vocabulary, place=place), dtype=np.int64)
        log_prob, _ = ngram.score(number[self.stream])
        ends = torch.from_numpy(self.stream[1:] == 0)
        return _ScoredText(log_prob, torch.from_numpy(listed[self.stream[1:]]), ends)


def _show_query(rows: list[dict[str, Any]]) -> None:
    with_lengths = "length" in rows[0]
    made = [["word", "log10 p", *(["n-gram"] if with_lengths else [])]]
    for row in rows:
        unknown = "" if row.get("known", True) else " (not listed)"
        made.append([row["word"] + unknown, f"{row['log10']:.4f}", *([str(row["length"])] if with_lengths else [])])
    if with_lengths:
        made.append(["sum", f"{sum(row['log10'] for row in rows):.4f}", ""])
    show.table(*made)


def _show_perplexity(results: list[dict[str, Any]]) -> None:
    rows = [["text", "sentences", "words", "OOVs", "zeroprobs", "logprob (log10)", "ppl", "ppl1"]]
    for row in results:
        counts = (row["sentences"], row["words"] - row["sentences"], row["unknown"], row["zero_probabilities"])
        figures = [f"{row['log10_prob']:.2f}", f"{row['perplexity']:.3f}", f"{row['ppl1']:.3f}"]
        rows.append([row["text"], *(f"{count:,}" for count in counts), *figures])
    show.table(*rows)


@ngram_app.command("interpolate")
def interpolate_verb(
    models: Annotated[
        list[Path], typer.Argument(help="ARPA files or n-gram folders over the same words, two or more.")
    ],
    out: Annotated[Path, typer.Option(help="NAME.arpa, NAME.arpa.gz, - for standard output; else a folder.")],
    text: Annotated[
        Path | None, typer.Option(help="A text that none was estimated on: the weights are fitted to it, by EM.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Fixed weights: 0.7,0.3")] = None,
    lowercase: Lowercase = False,
    as_json: AsJson = False,
) -> None:
    """One model for the weighted mean of several, with weights fitted on a text.

    \b
    Example: llrnn ngram interpolate news.arpa talk.arpa --text dev.txt --out both.arpa.gz
    Example: llrnn ngram interpolate news.arpa talk.arpa --weights 0.7,0.3 --out both.arpa.gz
    """
    if (text is None) == (weights is None):
        raise ConfigError("weights are fitted on --text or given by --weights, found both or neither; give one of them")
    tables, names = [read_table(path) for path in models], list(map(str, models))
    alone, held = None, None
    if text is not None:
        held = _Text.read(text, lowercase)
        equal = [1.0 / len(tables)] * len(tables)
        interpolated([_unigrams(one) for one in tables], equal, names=names)  # words that differ are told first
        log_p = torch.stack([held.scored(over_own_words(one), None).log_prob for one in tables])
        shares, alone = fitted_shares(log_p), (-log_p.mean(1)).exp().tolist()
    else:
        shares = numbers_in("--weights", weights or "")
    table = interpolated(tables, shares, names=names)
    write_table(table, out)
    report: dict[str, Any] = {"out": str(out), "models": names, "weights": shares, "perplexities": alone}
    report["ngrams"] = [len(level) for level in table.levels]
    if held is not None:
        report["perplexity"] = _perplexity_of(over_own_words(table), held, None)["perplexity"]
    told(report, out, as_json, _show_interpolated)


def _unigrams(table: NGramTable) -> NGramTable:
    return NGramTable(table.words, table.levels[:1])


def told(report: dict[str, Any], out: Path, as_json: bool, show_it: Callable[[dict[str, Any]], None]) -> None:
    """What was done; where the model itself goes to standard output, on the other stream."""
    if str(out) == STANDARD:
        show.note(f"{report['out']}: {'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams")
    else:
        say(report, as_json, show_it)


def _show_interpolated(report: dict[str, Any]) -> None:
    alone = report["perplexities"] or [math.nan] * len(report["models"])
    rows = [["model", "weight", "perplexity"]]
    for name, weight, own in zip(report["models"], report["weights"], alone, strict=True):
        rows.append([name, f"{weight:.4f}", "" if math.isnan(own) else f"{own:.3f}"])
    rows.append([report["out"], "", f"{report['perplexity']:.3f}" if "perplexity" in report else ""])
    show.table(*rows)
    show.text(f"{report['out']}: {'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams")


@ngram_app.command("prune")
def prune_verb(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="NAME.arpa, NAME.arpa.gz, - for standard output; else a folder.")],
    threshold: Annotated[
        float, typer.Option(help="n-grams leave that change the model by no more than this each [nats a word].")
    ] = 1e-8,
    as_json: AsJson = False,
) -> None:
    """Fewer n-grams: those leave without which the model changes least, by relative entropy (Stolcke).

    Example: llrnn ngram prune corpus.arpa --threshold 1e-7 --out small.arpa.gz
    """
    table = read_table(model)
    made = pruned(table, threshold)
    write_table(made, out)
    report = {"out": str(out), "before": [len(level) for level in table.levels]}
    report["ngrams"] = [len(level) for level in made.levels]
    told(report, out, as_json, lambda _: show.text(f"{out}: {made!r}, before {table!r}"))


@ngram_app.command("distil")
def distil_verb(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="NAME.arpa, NAME.arpa.gz, - for standard output; else a folder.")],
    text: Annotated[
        list[Path],
        typer.Option(help="Whose contexts count, in the words of the model: its training text, or more of it."),
    ],
    order: Annotated[int, typer.Option(min=1, max=9, help="How many words, the predicted one included.")] = 5,
    threshold: Annotated[
        float, typer.Option(help="What the divergence may lose for each n-gram that is left out [nats a word].")
    ] = 1e-8,
    more: Annotated[
        int, typer.Option("--written", min=0, help="Contexts of so many sentences that the model writes count, too.")
    ] = 0,
    device: Device = "cpu",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """The n-gram model that is nearest to a network, by its exact distributions over the contexts of a text.

    \b
    Example: llrnn ngram distil runs/french --text train.txt --order 5 --out french.arpa.gz
    Example: llrnn ngram distil runs/french --text train.txt --written 100000 --device cuda --out french.arpa.gz
    """
    network, begun = load(model).to(device_named(device)), time.perf_counter()
    corpus = reduce(add, (read_for(network, path, "auto", None) for path in text)) + written(network, more, seed=seed)
    table = distil(network, corpus, order=order, threshold=threshold, on_level=_note_level)
    write_table(table, out)
    report = {"out": str(out), "ngrams": [len(level) for level in table.levels]}
    report |= {"megabytes": table.bytes / 1e6, "seconds": time.perf_counter() - begun}  # type: ignore[dict-item]
    told(report, out, as_json, lambda _: show.text(f"{out}: {table!r}, {table.bytes / 1e6:.1f} MB of arrays"))


def _note_level(n: int, contexts: int) -> None:
    if show.err.is_terminal:
        show.note(f"order {n}: {contexts:,} contexts")
