"""The verb `llrnn features`: what the knowledge amounts to, before any training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from llrnn.cli import show
from llrnn.cli.options import AsJson, Changes, ConfigFile, DataFolder, say
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.knowledge.features import FeatureSummary, summarise
from llrnn.layer import ways
from llrnn.layer.ways import Forecast, WayChoice, Work
from llrnn.training.settings import SentenceBatches, SlidingBatches


def show_features(summary: FeatureSummary, ways: Forecast) -> None:
    """What the features are, how log Z will be computed, and what does no work."""
    show.out.print(
        f"{summary.symbols:,} symbols, {summary.features:,} features, {summary.classes:,} classes: "
        f"the sum in Z is {summary.reduction:.1f} times shorter"
    )
    show.table(("group", "features"), *((group, f"{count:,}") for group, count in summary.by_group.items()))
    show.out.print(f"memory of the compiled matrix: {summary.bytes / 2**20:.2f} MiB")
    _ways(ways)
    _list("features that never fire", summary.never_fire)
    _list("features with one value on all words (they cancel)", summary.same_on_all)
    show.out.print(f"words on which no feature fires: {summary.without_features:,}")
    show.out.print(f"words that no feature tells apart from another: {summary.indistinct_words:,}")
    for words in summary.indistinct:
        show.out.print(f"  {escape(', '.join(words))}, …")


def _ways(ways: Forecast) -> None:
    """How log Z will be computed, and why (`layer.ways`)."""
    many = f"{ways.saved:.1f} times fewer multiplications than" if ways.saved >= 1.05 else "as many multiplications as"
    kept = f"; {ways.kept / 2**20:,.1f} MiB of scores are kept, for knowledge follows the text" if ways.kept else ""
    _choice(f"log Z of {ways.positions:,} positions, in training", ways.batch, f"; {many} a softmax over words{kept}")
    _choice("log Z of one position", ways.one)
    if not ways.has_classes:
        show.out.print(
            "hardly any two words have the same features, so log Z costs what a softmax costs; an objective that draws "
            "words may be faster: training.objective, docs/objectives.md"
        )


def _choice(what: str, choice: WayChoice, besides: str = "") -> None:
    """The way that is taken, and the other one where it is another."""
    other = "" if choice.taken.multiplications == choice.left.multiplications else f"; {_way(choice.left)}"
    show.out.print(f"{what}: {_way(choice.taken)}{other}{besides}")


def _way(work: Work) -> str:
    name = {"composed": "composed h(ΦW)ᵀ", "direct": "direct Φ(Wh + c)"}[work.name]
    counts = f"{_number(work.multiplications)} multiplications, {_number(work.additions)} additions"
    return f"{name}, {counts}, about {1e3 * work.seconds():.1f} ms on one core"


def _number(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.1f} million"


def _list(what: str, names: Sequence[str], at_most: int = 12) -> None:
    shown = ", ".join(names[:at_most]) + (", …" if len(names) > at_most else "")
    show.out.print(f"{what}: {len(names)}" + (f" ({escape(shown)})" if names else ""))


def forecast(project: Project, summary: FeatureSummary) -> Forecast:
    """For the batches and the network of the configuration."""
    batches = project.config.training.batches
    rows = batches.words if isinstance(batches, SentenceBatches) else batches.rows
    long = 1 if isinstance(batches, SentenceBatches | SlidingBatches) else batches.length
    entries = 0 if summary.shares_nothing else summary.entries
    size = ways.Size(rows * long, summary.classes, summary.features, entries, project.config.controller.hidden)
    follows = bool(project.contextual) or not project.background.is_static
    return ways.forecast(size, summary.symbols, follows=follows)


def features_verb(
    config: ConfigFile, changes: Changes = None, data: DataFolder = Path("data"), as_json: AsJson = False
) -> None:
    """What the features amount to, and how log Z will be computed.

    Nothing is trained: the answer is there in seconds.

    Example: llrnn features configs/embedded.toml
    """
    project = Project.from_config(read_config(config, changes or [], data=data))
    summary = summarise(project.output_features, project.vocabulary)
    ways = forecast(project, summary)
    report = {**asdict(summary), "reduction": summary.reduction, "ways": asdict(ways)}
    say(report, as_json, lambda _: show_features(summary, ways))
