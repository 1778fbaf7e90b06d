"""The verb `llrnn pairs`: minimal pairs from treebanks, from templates, and from public suites."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated

import typer

import llrnn
from llrnn.cli import show
from llrnn.cli.options import Seed
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_lines
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon, is_comment
from llrnn.text.readers import read_entries

pairs_app = typer.Typer()


@pairs_app.command("make")
def pairs_make_verb(
    corpora: Annotated[list[Path], typer.Argument(help="Annotated texts in CoNLL-U.")],
    out: Annotated[Path, typer.Option(help="The pairs, .tsv or .jsonl.")],
    model: Annotated[Path | None, typer.Option(help="Only words that this model knows.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word.")] = True,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, chosen by the seed.")] = None,
    seed: Seed = 0,
) -> None:
    """Swap verbs, adjectives and participles for forms that do not agree.

    Example: llrnn pairs make fr_gsd-ud-test.conllu --out pairs.jsonl
    """
    from llrnn_lab.pairs.files import write_pairs
    from llrnn_lab.pairs.making import make_pairs

    corpus = Corpus.from_file(corpora, lowercase=lowercase)
    vocabulary = None if model is None else llrnn.load(model).vocabulary
    pairs = make_pairs(corpus, vocabulary=vocabulary, seed=seed, limit=limit)
    write_pairs(out, pairs)
    show.text(f"{len(pairs)} pairs: {out}")


@pairs_app.command("templates")
def pairs_templates_verb(
    out: Annotated[Path | None, typer.Option(help="The pairs, .tsv or .jsonl.")] = None,
    sentences: Annotated[
        Path | None, typer.Option(help="Sentences to train on, one a line: never those of any pair, whatever the seed.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Pairs of each construction; or sentences in all.")] = 100,
    table: Annotated[
        Path | None, typer.Option(help="Templates and words of another language; French ones are there.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Only words that this model lists.")] = None,
    vocabulary: Annotated[
        list[Path] | None, typer.Option(help="Only words of these texts, or of the first column of a list (.tsv).")
    ] = None,
    lexicon: Annotated[
        list[Path] | None, typer.Option(help="What forms can be (form TAB attributes): ambiguous ones are left out.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Construct minimal pairs from templates and words: agreement across phrases, relative clauses, coordinations.

    \b
    Example: llrnn pairs templates --model runs/embedded --out templates.jsonl
    Example: llrnn pairs templates --count 5000 --model runs/embedded --sentences extra.txt
    Example: llrnn pairs templates --table estonian.txt --out templates.tsv
    """
    if out is None and sentences is None:
        raise ConfigError("--out (pairs) or --sentences (text to train on) is required, found neither; give one")
    if model is not None and vocabulary:
        raise ConfigError("--model and --vocabulary both say which words there are; leave one of them out")
    from llrnn_lab.pairs.files import write_pairs
    from llrnn_lab.pairs.templates import french_templates, read_templates, template_pairs, template_sentences

    words = llrnn.load(model).vocabulary if model is not None else _words_of(vocabulary) if vocabulary else None
    known = reduce(or_, map(Lexicon.from_tsv, lexicon)) if lexicon else None
    found = french_templates() if table is None else read_templates(table)
    if out is not None:
        pairs = template_pairs(found, count, vocabulary=words, lexicon=known, seed=seed)
        write_pairs(out, pairs, part="test", seed=seed)
        groups = Counter(pair.group for pair in pairs)
        show.text(f"{len(pairs):,} pairs of {len(groups)} constructions: {out}")
        for group, n in groups.items():
            if n < count:
                show.text(f"{group}: {n} of {count}; the words give no more")
    if sentences is not None:
        made = template_sentences(found, count, vocabulary=words, lexicon=known, seed=seed)
        write_lines(sentences, [" ".join(one) for one in made])
        show.text(f"{len(made):,} sentences, none of any pair: {sentences}")


def _words_of(paths: list[Path]) -> set[str]:
    """The words of texts, or of the first column of lists."""
    lists = [path for path in paths if path.name.removesuffix(".gz").endswith(".tsv")]
    found = {line.text.split("\t")[0] for path in lists for line in read_entries(path) if not is_comment(line.text)}
    return found.union(*(Corpus.from_file(path).counts() for path in paths if path not in lists))


@pairs_app.command("suite")
def pairs_suite_verb(
    suite: Annotated[Path, typer.Argument(help="The file of a public suite, as it is published (or with .gz).")],
    model: Annotated[Path, typer.Option(help="Running text is written as the text of this model is.")],
    out: Annotated[Path, typer.Option(help="The pairs, .jsonl.")],
) -> None:
    """Convert a public suite (gender at a distance, QFrBLiMP, TurBLiMP) into pairs for a model.

    Example: llrnn pairs suite qfrblimp.jsonl --model runs/french --out pairs.jsonl
    """
    from llrnn_lab.pairs.files import write_pairs
    from llrnn_lab.pairs.suites import read_suite

    read = read_suite(suite, llrnn.load(model))
    pairs = [pair for pair in read if pair.good != pair.bad]
    write_pairs(out, pairs)
    show.text(f"{len(pairs):,} pairs, {len(read) - len(pairs)} with the same sentence twice left out: {out}")
