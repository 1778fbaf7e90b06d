"""`llrnn export`: a model as one small file that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import llrnn
from llrnn.cli import show
from llrnn.cli.options import AsJson, ModelFolder, require_output_file, say
from llrnn.ground.files import write_atomically

export_app = typer.Typer()


@export_app.callback()
def _group() -> None:
    """Write a model as one small file that other programs read."""


@export_app.command("keyboard")
def keyboard_verb(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The file; with --page a page that holds it.")],
    page: Annotated[bool, typer.Option("--page", help="One HTML page that types with it, offline.")] = False,
    words: Annotated[int | None, typer.Option(min=1, help="Only so many words, the most frequent.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as a keyboard: one file with 8-bit weights and the words, which Python and JavaScript read.

    It also holds how words that are not listed are read. With --page it writes one HTML page that predicts words as one
    types. Prints path and size; exits with 2 where the model cannot be read or exported, or the file not written.

    \b
    Example: llrnn export keyboard runs/embedded-open --out french.kb
    Example: llrnn export keyboard runs/embedded-open --page --out typing.html
    """
    require_output_file(out)
    from llrnn.inference.keyboard import keyboard_bytes, keyboard_page

    content = keyboard_bytes(llrnn.load(model), words=words)
    written = keyboard_page(content, title=f"Typing with {model.name}").encode() if page else content
    write_atomically(out, written)
    told = {"out": str(out), "bytes": len(written)}
    say(told, as_json, lambda said: show.text(f"{out}: {len(written) / 1e6:.2f} MB"))
