"""The verbs `llrnn ngram ...`: estimate, convert, query, perplexity."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from llrnn.cli import show
from llrnn.cli.estimate import Lowercase, estimate_verb
from llrnn.cli.options import AsJson, print_json
from llrnn.ground.errors import BackgroundError, CorpusError
from llrnn.knowledge.backgrounds import NGram
from llrnn.languages.ngrams import UNKNOWN, NGramTable, read_stream, read_table, write_table
from llrnn.text.vocabulary import EOS, Vocabulary

ngram_app = typer.Typer(help="n-gram models: estimate, convert, ask. ARPA files, plain or gzip, or folders of arrays.")

ModelPath = Annotated[Path, typer.Argument(help="An ARPA file (plain or gzip), or a folder that `estimate` wrote.")]
Texts = Annotated[list[Path], typer.Argument(help="Text files, plain or gzip: one sentence a line, or .conllu.")]


ngram_app.command("estimate")(estimate_verb)


@ngram_app.command("convert")
def convert_verb(
    source: ModelPath,
    target: Annotated[Path, typer.Argument(help="NAME.arpa, NAME.arpa.gz, or a folder.")],
) -> None:
    """From one form to another: ARPA, gzip, a folder of arrays that opens at once.

    Example: llrnn ngram convert corpus.arpa.gz corpus.ngram
    """
    table = read_table(source)
    write_table(table, target)
    show.out.print(f"{target}: {table!r}", markup=False)


@ngram_app.command("query")
def query_verb(
    model: ModelPath,
    sentence: Annotated[str, typer.Argument(help="Words separated by spaces.")],
    following: Annotated[int, typer.Option("--next", min=0, help="List so many of the most probable next words.")] = 0,
    lowercase: Lowercase = False,
    as_json: AsJson = False,
) -> None:
    """Each word of a sentence: log10 p and the length of the n-gram that says so; or what may follow it.

    \b
    Example: llrnn ngram query corpus.arpa "le chat dort"
    Example: llrnn ngram query corpus.arpa "le chat" --next 5
    """
    ngram, vocabulary = _bound(read_table(model))
    words = (sentence.lower() if lowercase else sentence).split()
    ids = [vocabulary.eos, *_numbers(words, vocabulary)]
    if following:
        rows = _following(ngram, vocabulary, ids, following)
    else:
        log_prob, length = ngram.score([*ids, vocabulary.eos])
        listed = zip([*words, EOS], log_prob.tolist(), length.tolist(), strict=True)
        rows = [{"word": w, "log10": p / math.log(10), "length": n, "known": w in vocabulary} for w, p, n in listed]
    if as_json:
        print_json(rows)
    else:
        _show_query(rows)


def _following(ngram: NGram, vocabulary: Vocabulary, ids: list[int], count: int) -> list[dict[str, Any]]:
    state = ngram.initial()
    for symbol in ids:
        state = ngram.advance(state, symbol)
    log_p, best = ngram.log_probs([state])[0].topk(min(count, len(vocabulary)))
    pairs = zip(best.tolist(), log_p.tolist(), strict=True)
    return [{"word": vocabulary.symbols[word], "log10": p / math.log(10)} for word, p in pairs]


@ngram_app.command("perplexity")
def perplexity_verb(model: ModelPath, texts: Texts, lowercase: Lowercase = False, as_json: AsJson = False) -> None:
    """Perplexity of texts, with and without the words that the model does not list.

    Example: llrnn ngram perplexity corpus.arpa test.txt
    """
    ngram, vocabulary = _bound(read_table(model))
    results = [_perplexity(ngram, vocabulary, path, lowercase) for path in texts]
    if as_json:
        print_json(results)
    else:
        _show_perplexity(results)


def _perplexity(ngram: NGram, vocabulary: Vocabulary, path: Path, lowercase: bool) -> dict[str, Any]:
    stream, words = read_stream([path], lowercase=lowercase)
    if len(stream) < 3:
        raise CorpusError("text is required, found no word; give a file with sentences", path=path)
    if not (stream == 1).any():
        words[1] = EOS  # the text has no <unk>, so that the model need not list it
    number = np.array(_numbers(words, vocabulary), dtype=np.int64)
    known = torch.from_numpy(np.array([word in vocabulary and word != UNKNOWN for word in words])[stream[1:]])
    log_prob, _ = ngram.score(number[stream].tolist())
    return {
        "text": str(path),
        "sentences": int((stream[1:] == 0).sum()),
        "words": len(log_prob),
        "unknown": int((~known).sum()),
        "log_perplexity": float(-log_prob.mean()),
        "perplexity": float((-log_prob.mean()).exp()),  # torch's exp: infinity, where that of math overflows
        "perplexity_without_unknown": float((-log_prob[known].mean()).exp()),
    }


def _show_query(rows: list[dict[str, Any]]) -> None:
    with_lengths = "length" in rows[0]
    made = show.table("word", "log10 p", *(["n-gram"] if with_lengths else []))
    for row in rows:
        unknown = "" if row.get("known", True) else " (not listed)"
        made.add_row(row["word"] + unknown, f"{row['log10']:.4f}", *([str(row["length"])] if with_lengths else []))
    if with_lengths:
        made.add_row("sum", f"{sum(row['log10'] for row in rows):.4f}", "")
    show.out.print(made)


def _show_perplexity(results: list[dict[str, Any]]) -> None:
    made = show.table("text", "words", "not listed", "log-perplexity", "perplexity", "without the not listed")
    for row in results:
        figures = [f"{row[key]:.3f}" for key in ("log_perplexity", "perplexity", "perplexity_without_unknown")]
        made.add_row(row["text"], f"{row['words']:,}", f"{row['unknown']:,}", *figures)
    show.out.print(made)


def _bound(table: NGramTable) -> tuple[NGram, Vocabulary]:
    """A model over its own words; `<unk>`, where it is listed, stands for all others."""
    vocabulary = Vocabulary(table.words, unknown=UNKNOWN if UNKNOWN in table.index else None)
    return NGram(table).bind(vocabulary), vocabulary


def _numbers(words: list[str], vocabulary: Vocabulary) -> list[int]:
    unknown = [word for word in words if word not in vocabulary]
    if unknown and vocabulary.unknown is None:
        raise BackgroundError(
            f"the model has no {UNKNOWN}, and does not list {len(unknown)} of the words, such as {unknown[0]!r}; "
            "estimate it with a vocabulary that holds them"
        )
    return vocabulary.ids(words)
