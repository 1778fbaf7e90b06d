"""The verbs `llrnn corpus ...`: texts larger than memory, built once, then read where they lie."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from llrnn.cli import show
from llrnn.cli.options import AsJson, Lowercase, TextFormat, say
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import load
from llrnn.text.corpus import Format
from llrnn.text.shards import COLUMNS, SHARD_WORDS, BuiltCorpus, Listing, build_corpus
from llrnn.text.source import read_lines

corpus_app = typer.Typer()

Folder = Annotated[Path, typer.Argument(help="A folder that `llrnn corpus build` wrote.")]


@corpus_app.command("build")
def build_verb(
    texts: Annotated[list[Path], typer.Argument(help="Text files, plain or gzip; read twice, one line at a time.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    vocabulary: Annotated[
        Path | None, typer.Option(help="The words to list: a model folder, or a file with one word a line.")
    ] = None,
    words: Annotated[int | None, typer.Option(min=1, help="List so many of the most frequent words.")] = None,
    min_count: Annotated[int, typer.Option(min=1, help="List words that come so often.")] = 1,
    unknown: Annotated[str | None, typer.Option(help="A symbol for all words that are not listed.")] = None,
    lowercase: Lowercase = False,
    format: TextFormat = "auto",
    shard_words: Annotated[int, typer.Option(min=1, help="How many words a file holds, about.")] = SHARD_WORDS,
    as_json: AsJson = False,
) -> None:
    """Turn texts into numbers on disk, in shards with check sums; all words are listed unless something is said.

    \b
    Example: llrnn corpus build news-*.txt.gz --out news --lowercase --words 100000 --unknown "<unk>"
    Example: llrnn corpus build test.txt --out test --vocabulary runs/news
    """
    begun = time.perf_counter()
    listing = _listing(vocabulary, words, min_count, unknown)
    kind = cast(Format, format)  # build_corpus refuses what is none
    built = build_corpus(texts, out, listing=listing, lowercase=lowercase, format=kind, shard_words=shard_words)
    say({**_described(built), "seconds": time.perf_counter() - begun}, as_json, _show)


def _listing(vocabulary: Path | None, words: int | None, min_count: int, unknown: str | None) -> Listing:
    if vocabulary is None:
        return Listing(top=words, min_count=min_count, unknown=unknown)
    if words is not None or min_count > 1:
        raise ConfigError("--vocabulary gives the words; leave --words and --min-count out")
    if not has_bundle(vocabulary, "model"):
        return Listing([line.strip() for _, line in read_lines(vocabulary) if line.strip()], unknown=unknown)
    found = load(vocabulary).vocabulary
    if found.is_open:
        raise ConfigError(
            f"--vocabulary {vocabulary}: this model has a probability for every word; build the corpus with all words"
        )
    return Listing(found.words, unknown=found.unknown if unknown is None else unknown)


@corpus_app.command("show")
def show_verb(folder: Folder, as_json: AsJson = False) -> None:
    """What a built corpus holds.

    Example: llrnn corpus show news
    """
    say(_described(BuiltCorpus(folder)), as_json, _show)


@corpus_app.command("check")
def check_verb(folder: Folder) -> None:
    """Read all files of a built corpus and compare them with their check sums.

    Example: llrnn corpus check news
    """
    built = BuiltCorpus(folder)
    size = built.check()
    files = len(built.manifest.shards) * len(COLUMNS)
    show.text(f"{folder}: {files} files, {size / 1e6:,.1f} MB, all as they were written")


def _described(built: BuiltCorpus) -> dict[str, Any]:
    manifest = built.manifest
    replaced = 0 if built.unknown is None else built.counts()[built.unknown]
    return {
        "corpus": str(built.folder),
        "sentences": manifest.sentences,
        "words": manifest.tokens,
        "types": len(manifest.words),
        "unknown": manifest.unknown,
        "unknown_words": replaced,
        "lowercase": manifest.lowercase,
        "shards": len(manifest.shards),
        "bytes": built.size,
    }


def _show(found: dict[str, Any]) -> None:
    unknown = f", {found['unknown_words']:,} words as {found['unknown']}" if found["unknown"] else ""
    took = f", built in {found['seconds']:.1f} s" if "seconds" in found else ""
    show.text(
        f"{found['corpus']}: {found['sentences']:,} sentences, {found['words']:,} words, {found['types']:,} types"
        f"{unknown}{', lowercase' if found['lowercase'] else ''}; {found['shards']} shards, "
        f"{found['bytes'] / 1e6:,.1f} MB{took}"
    )
