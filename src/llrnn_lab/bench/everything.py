"""`llrnn bench`: every suite that this machine can run, one after the other, into a folder.

bench.json              all that was found, after every suite (see `report.Document`)
bench.md                the same as tables
bench.png               ratios with their bars
bench-vocabulary.png    time by V
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llrnn.ground.errors import LLRNNError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn_lab.bench import report
from llrnn_lab.bench.machine import measured_speeds, threads_of
from llrnn_lab.bench.report import Document
from llrnn_lab.bench.suite import Asked, Suite

Tell = Callable[[str], None]


def everything(
    folder: Path,
    suites: Sequence[Suite],
    asked: Asked,
    *,
    command: str,
    again: bool = False,
    tell: Tell = lambda _: None,
) -> Document:
    """All suites that are not there yet; an earlier run in the folder is gone on with, unless it shall begin again."""
    run = Document.begun(asked, command, _now())
    before = folder / report.NAME
    if before.exists() and not again:
        run.goes_on(Document.read(before), before)
    for suite in suites:
        if suite.name in run.suites:
            tell(f"{suite.name}: there already")
            continue
        _one(run, suite, asked, tell)
        _write(run, folder)
    run.sort([suite.name for suite in suites])
    _write(run, folder)
    _draw(run, folder, tell)
    return run


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _one(run: Document, suite: Suite, asked: Asked, tell: Tell) -> None:
    """Measured, or left out with the reason."""
    why = suite.missing(asked)
    if why is None:
        tell(f"{suite.name}: {suite.about} …")
        try:
            found = measured(suite, asked)
        except (LLRNNError, OSError, MemoryError) as error:  # the others still run
            why = str(error) or type(error).__name__
        else:
            run.add(suite.name, found)
            tell(f"{suite.name}: {len(found['rows'])} rows, {found['seconds']:.0f} s")
            return
    run.left_out[suite.name] = " ".join(why.split())
    tell(f"{suite.name}: left out: {run.left_out[suite.name]}")


def measured(suite: Suite, asked: Asked) -> dict[str, Any]:
    """What a suite finds with its threads, and the rates of the machine just before."""
    begun = time.perf_counter()
    with threads_of(suite.threads, spreads=suite.spreads):
        speeds = measured_speeds(asked.sizes.product, asked.sizes.copied)
        figures = suite.measure(asked)
    rows = suite.rows(figures, speeds)
    if asked.quick:  # bars are of the full sizes
        rows = [replace(row, bar=None) for row in rows]
    return {
        "about": suite.about,
        "time": _now(),
        "seconds": time.perf_counter() - begun,
        "speeds": speeds._asdict(),
        "rows": [row.to_json() for row in rows],
        "absent": suite.absent(figures),
        # JSON has no infinity and no NaN
        "figures": json.loads(json.dumps(figures), parse_constant=lambda _: None),
    }


def _write(run: Document, folder: Path) -> None:
    run.write(folder)
    write_atomically(folder / "bench.md", report.markdown(run).encode())


def _draw(run: Document, folder: Path, tell: Tell) -> None:
    try:
        drawn = report.drawn(run)
    except MissingExtraError as error:  # figures and tables are there all the same
        tell(f"no plots: {error}")
        return
    for name, picture in drawn.items():
        write_atomically(folder / name, picture)
