"""What mkdocs makes at build time: the page of the command line from the code, figures and tables from docs/results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from llrnn.cli import VERBS, load_verb

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path
import figures

WIDTH = 96


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """A page more than docs/ holds."""
    files.append(File.generated(config, "cli.md", content=command_line()))
    if names := figures.written("tables")["site"]:
        files.append(File.generated(config, "tables.md", content=tables(names)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with figures of the files as they are now."""
    return figures.plain(figures.filled(markdown))


def tables(names: list[str]) -> str:
    """The tables that stand in no page."""
    shown = [f"## {name}\n\n{figures.marked(name)}" for name in names]
    return "\n".join(["# Further tables", "", "Made from the files in `docs/results`.", "", *shown])


def command_line() -> str:
    """Every verb with its own help."""
    lines = [
        "# Command line",
        "",
        "Made from the program when this site is built: what `llrnn VERB --help` prints. A user's mistake is one line",
        "on standard error and exit code 2.",
        "",
    ]
    for path, command in verbs():
        about = help_of(path, command).rstrip()
        lines += [f"## llrnn {' '.join(path)}", "", "```text", *about.splitlines(), "```", ""]
        if path == ("train",):
            lines += ["The keys of a configuration have [a page of their own](reference/config.md).", ""]
    return "\n".join(lines)


def verbs() -> list[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its path: ("data", "french")."""

    def below(path: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(path, command)]
        own = [(path, command)] if command.invoke_without_command else []
        return own + [found for name, one in sorted(inner.items()) for found in below((*path, name), one)]

    return [found for name in sorted(VERBS) for found in below((name,), load_verb(name))]


def help_of(path: tuple[str, ...], command: Any) -> str:
    context = command.make_context(f"llrnn {' '.join(path)}", [], resilient_parsing=True, max_content_width=WIDTH)
    context.terminal_width = WIDTH
    return str(command.get_help(context)).rstrip()
