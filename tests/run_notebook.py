"""Run a notebook as Jupyter would: `python tests/run_notebook.py NOTEBOOK`.

Its code cells run in order in one namespace. What a cell ends in is shown: as HTML where the object has it,
of which the length is printed, otherwise as `repr` has it. A cell that fails ends it all.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: Path) -> None:
    """Run the notebook at this path, and print what its cells show."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] != "code":
            continue
        code = ast.parse("".join(cell["source"]))
        last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            show(number, eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace))


def show(number: int, found: object) -> None:
    """Print what a notebook shows of an object below cell `number`; None shows nothing."""
    html = getattr(found, "_repr_html_", None)
    if html is not None:
        print(f"cell {number}: {type(found).__name__} as {len(html()):,} characters of HTML")
    elif found is not None:
        print(f"cell {number}: {found!r}")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
