"""Results of jobs as Markdown, JSON and a plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llrnn.ground.errors import MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn.text.contract import Contract, require_comparable

Results = Mapping[str, Sequence[Mapping[str, Any]]]  # the results of all seeds, by name


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """The mean over seeds, with the standard deviation where there are several that differ."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(set(values)) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def write_results(out: Path, name: str, found: object, text: str) -> None:
    """What a study found, for programs and for people: NAME.json and NAME.md."""
    write_atomically(out / f"{name}.json", json.dumps(found, ensure_ascii=False, indent=1).encode())
    write_atomically(out / f"{name}.md", text.encode())


def perplexity_table(results: Results, tests: Sequence[str]) -> str:
    """A row for each model: classes, epochs, log-perplexity on training, validation and the tests."""
    header = ["model", "classes", "features", "seeds", "training", "valid", *tests]
    rows = []
    for test in tests:
        found = {name: seeds[0]["tests"][test].get("contract") for name, seeds in results.items()}
        require_comparable({name: Contract(**one) for name, one in found.items() if one is not None})
    for name, seeds in results.items():
        columns = [mean_and_spread([one["tests"][test]["log_perplexity"] for one in seeds]) for test in tests]
        rows.append(
            [
                name,
                f"{seeds[0]['classes']:,}",
                f"{seeds[0]['features']:,}",
                str(len(seeds)),
                mean_and_spread([one["train"] for one in seeds]),
                mean_and_spread([one["valid"] for one in seeds]),
                *columns,
            ]
        )
    return markdown(header, rows)


def agreement_table(results: Results) -> str:
    """Accuracy on minimal pairs by distance, with 95 % intervals, for the first seed of each model."""
    with_pairs = {name: seeds[0]["pairs"] for name, seeds in results.items() if "pairs" in seeds[0]}
    bands = list(dict.fromkeys(band for pairs in with_pairs.values() for band in pairs["by_distance"]))
    rows = [
        [name, share_cell(pairs["overall"]), *(share_cell(pairs["by_distance"].get(band)) for band in bands)]
        for name, pairs in with_pairs.items()
    ]
    return markdown(["model", "all pairs", *(f"distance {band}" for band in bands)], rows)


def share_cell(share: Mapping[str, Any] | None) -> str:
    if share is None:
        return "–"
    return (
        f"{100 * share['accuracy']:.1f} [{100 * share['low']:.1f}, {100 * share['high']:.1f}], n = {share['count']:,}"
    )


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def plot_by_size(
    curves: Mapping[str, Sequence[tuple[int, float]]], lines: Mapping[str, float], path: Path, title: str
) -> None:
    """Log-perplexity against M: one curve for each protocol, and horizontal lines for models without M."""
    pyplot = require_pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for name, points in curves.items():
        axes.plot(
            *zip(*sorted(points), strict=True), marker="o", label=name, linestyle="--" if "paper" in name else "-"
        )
    for index, (name, value) in enumerate(lines.items()):
        axes.axhline(value, label=name, color=f"C{len(curves) + index}", linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("M, words with an identity feature")
    axes.set_ylabel("log-perplexity (nats a word)")
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def require_pyplot() -> Any:
    """matplotlib's pyplot, drawing to files; the extra `plot` brings it."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    return pyplot
