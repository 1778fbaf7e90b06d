"""The verbs `llrnn ngram ...`: estimate, convert, query, interpolate, prune."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import numpy as np
import typer

import llrnn
from llrnn.cli import options, show
from llrnn.ground.arrays import Ints
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.ground.files import STANDARD
from llrnn.languages import ngrams
from llrnn.languages.ngrams import UNKNOWN, kneser_ney
from llrnn.languages.ngrams.table import NGramScorer, for_vocabulary, own_vocabulary
from llrnn.text.built import BuiltCorpus, is_built
from llrnn.text.contract import Contract, require_comparable
from llrnn.text.corpus import Corpus
from llrnn.text.readers import read_lines
from llrnn.text.vocabulary import EOS

ngram_app = typer.Typer()

ModelPath = Annotated[Path, typer.Argument(help="An ARPA file (plain or gzip), or a folder that `estimate` wrote.")]
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
    lowercase: options.Lowercase = False,
    memory: Annotated[
        str | None, typer.Option(help="Count and estimate on disk, with arrays of so many bytes in memory: 500M, 2G.")
    ] = None,
    temporary: Annotated[
        Path | None, typer.Option(help="With --memory: the folder for temporary files; that of --out by default.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate an n-gram model from text, by modified Kneser-Ney smoothing, and write it as an ARPA file or a folder.

    Prints the number of words, types and n-grams, the size and the time; exits with 2 where a text cannot be read.

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
    with options.handling(signal.SIGTERM, _unwind):
        if scratch is None or budget is None:
            table = ngrams.estimate(np.concatenate(list(reading)), found, order=order, min_counts=counts)
        else:
            table = kneser_ney.estimate_on_disk(
                reading, found, scratch=scratch, memory=budget, order=order, min_counts=counts
            )
        ngrams.write_table(table, out)
    for note in table.notes:
        show.note(f"note: {note}")
    report = {
        "out": str(out),
        "words": reading.words - 1,
        "types": len(found),
        "ngrams": [len(level) for level in table.levels],
        "megabytes": table.bytes / 1e6,
        "temporary_megabytes": 0.0 if scratch is None else scratch.most / 1e6,
        "seconds": time.perf_counter() - begun,
        "notes": table.notes,
    }
    told(report, out, as_json, _show_estimated)


@dataclass
class _ReadingText:
    """An iterable over `pieces`, the arrays of word ids of a text, that counts the ids read so far in `words`.

    Ends of sentences are counted too. It raises a CorpusError at the end of a text with fewer than 3 ids: no word.
    """

    pieces: Iterable[Ints]
    words: int = 0

    def __iter__(self) -> Iterator[Ints]:
        for piece in self.pieces:
            self.words += len(piece)
            yield piece
        if self.words < 3:
            raise CorpusError("text is required to count n-grams, found none; give a file with sentences")


def _pieces(texts: Sequence[Path], words: list[str], lowercase: bool, listed: list[str] | None) -> Iterator[Ints]:
    """Yield the texts as arrays of word ids, an end of sentence first and after each sentence.

    Ids are indices into `words`, an empty list, which has all words once everything was read. `listed`: the words to
    keep, all others become <unk>; None keeps all. A ConfigError is raised where a built corpus (`llrnn data build`) is
    not the only text, or comes with `listed`.
    """
    built = [path for path in texts if path.is_dir() and is_built(path)]
    if not built:
        return kneser_ney.stream_pieces(texts, words, lowercase=lowercase, vocabulary=listed)
    if len(texts) > 1:
        raise ConfigError(f"a built corpus stands alone, found {', '.join(map(str, texts))}; build all of them as one")
    if listed is not None:
        raise ConfigError(f"{built[0]}: the words were chosen when the corpus was built; leave --words out")
    corpus = BuiltCorpus(built[0])
    if lowercase:
        corpus.lowercased()
    return _of_built(corpus, words)


def _of_built(corpus: BuiltCorpus, words: list[str]) -> Iterator[Ints]:
    """Yield a built corpus (word ids on disk) as arrays of ids, an end of sentence first and after each sentence.

    Its words are appended to `words`, so that ids are indices into it; the symbol for unknown words becomes `<unk>`. A
    CorpusError is raised where `<unk>` is a word beside that symbol.
    """
    symbols = corpus.manifest.words
    if corpus.unknown not in (None, UNKNOWN) and UNKNOWN in symbols:
        raise CorpusError(
            f"{UNKNOWN} is a word beside {corpus.unknown}; build it with --unknown {UNKNOWN}", path=corpus.folder
        )
    words += [UNKNOWN if symbol == corpus.unknown else symbol for symbol in symbols]
    words += [UNKNOWN] if UNKNOWN not in words else []
    yield np.array([corpus.vocabulary.eos])
    yield from corpus.run_blocks()


def _scratch(out: Path, temporary: Path | None, budget: int | None) -> kneser_ney.Scratch | None:
    """Return the place for temporary files, in the folder `temporary` or that of `out`; None without --memory.

    `budget`: bytes of --memory, None where it is not given. A ConfigError is raised where `out` is no ARPA file, there
    is no such folder, or `temporary` is given without --memory.
    """
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
    return kneser_ney.Scratch(folder)


def _unwind(number: int, frame: FrameType | None) -> None:
    """Handle a signal by raising SystemExit(128 + its number), so that half-written files are removed."""
    raise SystemExit(128 + number)


def _show_estimated(report: dict[str, Any]) -> None:
    on_disk = report["temporary_megabytes"]
    where = f"on disk, with {on_disk:,.0f} MB of temporary files at most" if on_disk else "in memory"
    show.text(
        f"{report['out']}: {report['words']:,} words, {report['types']:,} types, "
        f"{'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams, {report['megabytes']:.0f} MB {where}, "
        f"in {report['seconds']:.1f} s"
    )


def _bytes(text: str) -> int:
    """Parse a size such as 500M or 2G into a number of bytes; raise a ConfigError for anything else or below 1M.

    k, M, G and T are powers of 1,000, also followed by B; a number alone is in bytes.
    """
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
    """Convert an n-gram model between an ARPA file, a gzipped one, and a folder of arrays that opens at once.

    Prints what was written; exits with 2 where the model cannot be read.

    Example: llrnn ngram convert corpus.arpa.gz corpus.ngram
    """
    table = ngrams.read_table(source)
    ngrams.write_table(table, target)
    report = {"out": str(target), "ngrams": [len(level) for level in table.levels]}
    told(report, target, False, lambda _: show.text(f"{target}: {table!r}"))


@ngram_app.command("query")
def query_verb(
    model: ModelPath,
    sentence: Annotated[str, typer.Argument(help="Words separated by spaces.")],
    as_json: options.AsJson = False,
) -> None:
    """Print log10 p of each word of a sentence by an n-gram model, and the length of the n-gram that was found.

    `llrnn score` reads whole texts. Exits with 2 where a word is unknown and the model has no <unk>.

    Example: llrnn ngram query corpus.arpa "le chat dort"
    """
    table, words = ngrams.read_table(model), [*sentence.split(), EOS]
    vocabulary = own_vocabulary(table)
    scorer = NGramScorer(for_vocabulary(table, vocabulary))
    log_p, length = scorer.score([vocabulary.eos, *vocabulary.ids(words)])
    log10 = (log_p / math.log(10)).tolist()
    rows = [dict(zip(_QUERY, row, strict=True)) for row in zip(words, log10, length.tolist(), strict=True)]
    options.say(rows, as_json, _show_query)
    if not as_json:
        show.text(str(Contract.of(Corpus.from_sentences([words[:-1]]), vocabulary)))


_QUERY = ("word", "log10", "length")


def _show_query(rows: list[dict[str, Any]]) -> None:
    listed = [[row["word"], f"{row['log10']:.4f}", str(row["length"])] for row in rows]
    show.table(["word", "log10 p", "n-gram"], *listed, ["sum", f"{sum(row['log10'] for row in rows):.4f}", ""])


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
    lowercase: options.Lowercase = False,
    as_json: options.AsJson = False,
) -> None:
    """Write one n-gram model for the weighted mean of several, with weights fitted on a text by EM, or given.

    Prints weights and perplexities; exits with 2 where the models have different words.

    \b
    Example: llrnn ngram interpolate news.arpa talk.arpa --text dev.txt --out both.arpa.gz
    Example: llrnn ngram interpolate news.arpa talk.arpa --weights 0.7,0.3 --out both.arpa.gz
    """
    if (text is None) == (weights is None):
        raise ConfigError("weights are fitted on --text or given by --weights, found both or neither; give one of them")
    import torch

    from llrnn.model.checkpoint import ngram_model
    from llrnn.model.ensembles import fitted_shares

    tables, names = [ngrams.read_table(path) for path in models], list(map(str, models))
    held, alone = None if text is None else Corpus.from_file(text, lowercase=lowercase), None
    if held is not None:
        equal = [1.0 / len(tables)] * len(tables)
        ngrams.interpolated([_unigrams(one) for one in tables], equal, names=names)  # words that differ are told first
        scores = [llrnn.score(ngram_model(one), held) for one in tables]
        shares = fitted_shares(torch.tensor([[p for one in found.sentences for p in one.log_p] for found in scores]))
        alone = [found.perplexity for found in scores]
        contracts = dict(zip(names, (found.contract for found in scores), strict=True))
    else:
        shares = options.numbers_in("--weights", weights or "")
    table = ngrams.interpolated(tables, shares, names=names)
    ngrams.write_table(table, out)
    report: dict[str, Any] = {"out": str(out), "models": names, "weights": shares, "perplexities": alone}
    report["ngrams"] = [len(level) for level in table.levels]
    if held is not None:
        mixed = llrnn.score(ngram_model(table), held)
        require_comparable({**contracts, str(out): mixed.contract})
        report |= {"perplexity": mixed.perplexity, "contract": str(mixed.contract)}
    told(report, out, as_json, _show_interpolated)


def _unigrams(table: ngrams.NGramTable) -> ngrams.NGramTable:
    return ngrams.NGramTable(table.words, table.levels[:1])


def told(report: dict[str, Any], out: Path, as_json: bool, show_it: Callable[[dict[str, Any]], None]) -> None:
    """Print a report on standard output: as JSON with `as_json`, else by `show_it`.

    `report` has the keys "out" and "ngrams", a list of the numbers of n-grams of each length from 1, and others.
    Where the model itself goes to standard output (`out` is "-"), one line with these two is printed on standard error
    instead.
    """
    if str(out) == STANDARD:
        show.note(f"{report['out']}: {'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams")
    else:
        options.say(report, as_json, show_it)


def _show_interpolated(report: dict[str, Any]) -> None:
    alone = report["perplexities"] or [math.nan] * len(report["models"])
    rows = [["model", "weight", "perplexity"]]
    for name, weight, own in zip(report["models"], report["weights"], alone, strict=True):
        rows.append([name, f"{weight:.4f}", "" if math.isnan(own) else f"{own:.3f}"])
    rows.append([report["out"], "", f"{report['perplexity']:.3f}" if "perplexity" in report else ""])
    show.table(*rows)
    show.text(f"{report['out']}: {'/'.join(f'{count:,}' for count in report['ngrams'])} n-grams")
    show.text(report["contract"]) if "contract" in report else None


@ngram_app.command("prune")
def prune_verb(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="NAME.arpa, NAME.arpa.gz, - for standard output; else a folder.")],
    threshold: Annotated[
        float, typer.Option(help="n-grams leave that change the model by no more than this each [nats a word].")
    ] = 1e-8,
    as_json: options.AsJson = False,
) -> None:
    """Prune n-grams by relative entropy (Stolcke 1998): the model changes as little as possible.

    Prints how many n-grams of each length there were and are; exits with 2 where the model cannot be read.

    Example: llrnn ngram prune corpus.arpa --threshold 1e-7 --out small.arpa.gz
    """
    table = ngrams.read_table(model)
    made = ngrams.pruned(table, threshold)
    ngrams.write_table(made, out)
    report = {"out": str(out), "before": [len(level) for level in table.levels]}
    report["ngrams"] = [len(level) for level in made.levels]
    told(report, out, as_json, lambda _: show.text(f"{out}: {made!r}, before {table!r}"))
