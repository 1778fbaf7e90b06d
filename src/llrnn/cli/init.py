"""Configurations from the command line: what one may say, whether one is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import Changes, DataFolder
from llrnn.config import read_config, reference, schema

config_app = typer.Typer()


@config_app.command("reference")
def reference_verb() -> None:
    """Every key with its type, default, unit and meaning, as a page of Markdown.

    Example: llrnn config reference > config.md
    """
    typer.echo(reference(), nl=False)


@config_app.command("schema")
def schema_verb() -> None:
    """A JSON schema of configurations, with which editors complete keys and mark mistakes.

    Example: llrnn config schema > llrnn.schema.json
    """
    typer.echo(json.dumps(schema(), ensure_ascii=False, indent=1))


@config_app.command("check")
def check_config_verb(
    config: Annotated[Path, typer.Argument(help="A TOML configuration.")],
    changes: Changes = None,
    data: DataFolder = Path("data"),
) -> None:
    """Name all mistakes of a configuration, a line each, without reading any text.

    Example: llrnn config check config.toml
    """
    read_config(config, changes or [], data=data)
    show.text(f"{config}: no mistake")
