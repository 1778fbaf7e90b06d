"""How large the house is: lines of code (no blanks, comments, docstrings), verbs, rows and kinds of TOML, pages, words.

python scripts/house.py
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from llrnn.cli import VERBS

ROOT = Path(__file__).parents[1]
PACKAGES = ("src/llrnn", "src/llrnn_agreement", "src/llrnn_morphology")
LAB = ("src/llrnn_lab", "scripts", "campaign")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(*folders: str) -> int:
    """Lines of Python code below the folders."""
    return sum(_code(path.read_text(encoding="utf8")) for one in folders for path in (ROOT / one).rglob("*.py"))


def _code(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {line for one in tokens if one.type not in _NO_CODE for line in range(one.start[0], one.end[0] + 1)}
    return len(used - {*_docstrings(ast.parse(text))})


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def figures() -> dict[str, int]:
    """The rows of the table, by name."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if not {"reference", "decisions"} & {*path.parts}]
    keys = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf8")
    page = ROOT / "src" / "llrnn" / "serve" / "page"
    return {
        "src/llrnn, lines of code": code_lines(PACKAGES[0]),
        "src/llrnn with the packages beside it": code_lines(*PACKAGES),
        "llrnn_lab + scripts + campaign": code_lines(*LAB),
        "serve/page, lines": sum(path.read_text(encoding="utf8").count("\n") for path in page.rglob("*.*")),
        "verbs without the lab's": sum(not place.startswith("llrnn_lab") for place, _ in VERBS.values()),
        "rows of TOML": len(re.findall(r"^\| `", keys, re.MULTILINE)),
        "pages": len(pages),
        "words": sum(len(path.read_text(encoding="utf8").split()) for path in pages),
    }


if __name__ == "__main__":
    for name, value in figures().items():
        sys.stdout.write(f"{name:<40} {value:>7,}\n")
