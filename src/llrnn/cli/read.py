"""`llrnn read`: pages of print, recognised by Tesseract, read again with a language model."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llrnn.cli import options, show
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically

if TYPE_CHECKING:
    from llrnn.model.network import LLRNN

_COUNT = 5  # as if a user's word without a count had been seen so often


def read_verb(
    model: options.ModelFolder,
    pages: Annotated[list[Path], typer.Argument(help="Pictures of pages, or files of hOCR with choices: .hocr.")],
    lang: Annotated[str | None, typer.Option(help="Tesseract's name of the language, such as tur or tur+eng.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for texts, hOCR and the report.")] = Path("read"),
    words: Annotated[
        Path | None, typer.Option(help="Words to expect besides, such as names, one a line; as for `words add`.")
    ] = None,
    channel: Annotated[
        Path | None, typer.Option(help="A channel of `llrnn experiment channel`, in place of ours.")
    ] = None,
    weight: Annotated[float, typer.Option(min=0, help="Of the language model, beside what was seen.")] = 0.6,
    per_word: Annotated[float, typer.Option(help="Added for each word, in nats.")] = 2.0,
    as_json: options.AsJson = False,
) -> None:
    """Read pages of print again, by what Tesseract saw and a model.

    Writes for each page its text and hOCR with corrected words, and a report that shows each change with its reason.
    Prints how many words were changed; exits with 2 where a page cannot be read, or Tesseract is not installed.

    \b
    Example: llrnn read runs/turkish page1.png page2.png --lang tur --words names.txt --out corrected
    Example: llrnn read runs/turkish page1.hocr --json
    """
    if lang is None and any(page.suffix != ".hocr" for page in pages):
        raise ConfigError("pictures need the name of their language; say --lang tur, or give files of hOCR")
    stems = [page.stem for page in pages]
    if len({*stems}) < len(stems):
        raise ConfigError("pages need names of their own, found one twice; rename a file")
    options.make_output_folder(out)
    _read(model, pages, lang, out, words, channel, (weight, per_word), as_json)


@contextmanager
def recognised(pages: Sequence[Path], lang: str | None) -> Iterator[Iterator[tuple[Path, Path]]]:
    """Give pairs of a page and its file of hOCR, which Tesseract makes for pictures, one after the other."""
    from llrnn.inference.reading.hocr import recognise

    with tempfile.TemporaryDirectory() as folder:
        yield ((page, page if page.suffix == ".hocr" else recognise(page, lang or "", Path(folder))) for page in pages)


def _read(
    model: Path,
    pages: Sequence[Path],
    lang: str | None,
    out: Path,
    words: Path | None,
    channel: Path | None,
    weights: tuple[float, float],
    as_json: bool,
) -> None:
    from llrnn.inference.reading.channel import Channel, read_channel
    from llrnn.inference.reading.decoding import Decoder, SearchSettings
    from llrnn.inference.reading.hocr import corrected, read_hocr
    from llrnn.inference.reading.report import page_of, places, report
    from llrnn.inference.reading.words import WordModel
    from llrnn.model.checkpoint import load

    seen = Channel.default() if channel is None else read_channel(channel)
    loaded, forms = load(model).eval(), list[str]()
    if words is not None:
        loaded, forms = with_own_words(loaded, words)
    decoder = Decoder(WordModel(loaded, forms), seen, SearchSettings(*weights))
    reports, begun = [], time.monotonic()
    with recognised(pages, lang) as files:
        for page, file in files:
            found = decoder.read(read_hocr(file))
            text = "".join(f"{line.text}\n" for line in found)
            write_atomically(out / f"{page.stem}.txt", text.encode())
            write_atomically(out / f"{page.stem}.hocr", corrected(file, [places(line) for line in found]).encode())
            reports.append(report(loaded, seen, page.name, found))
    write_atomically(out / "report.html", page_of(f"What {model.name} changed", reports).encode())
    told = [one.as_dict() for one in reports]
    write_atomically(out / "report.json", json.dumps(told, ensure_ascii=False, indent=1).encode())
    if as_json:
        options.print_json({"out": str(out), "seconds": time.monotonic() - begun, "pages": told})
        return
    for one in reports:
        kept = f", {one.kept} lines without choices kept" if one.kept else ""
        show.text(f"{one.name}: {len(one.lines)} lines, {len(one.changes)} words changed{kept}")
    show.text(f"{out}: texts, hOCR and report.html written")


def with_own_words(model: LLRNN, path: Path) -> tuple[LLRNN, list[str]]:
    """Return a model that lists a user's words too, and the words as they are written."""
    from dataclasses import replace

    from llrnn.model.words import add, read_words

    forms = [entry.form for entry in read_words(path)]
    entries = read_words(path, lowercase=model.reads_lowercase and model.tokeniser.lower)
    new = [one if one.count else replace(one, count=_COUNT) for one in entries if one.form not in model.vocabulary]
    return (add(model, new) if new else model), forms
