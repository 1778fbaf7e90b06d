"""`llrnn features` and `llrnn coarsen`: what the features amount to, and fewer classes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from llrnn.cli import show
from llrnn.cli.options import (
    AsJson,
    Changes,
    DataFolder,
    ModelFolder,
    TextFormat,
    batching_for,
    make_output_folder,
    read_for,
    refuse_idle,
    refuse_overwriting,
    say,
)
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.inference.coarsening import ClassCurve, class_curve, coarsen, merges_of, with_classes
from llrnn.inference.condensing import condense
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.features import FeatureSummary, compile_features, summarise
from llrnn.layer import coarse, ways
from llrnn.layer.ways import Forecast, WayChoice, Work
from llrnn.model.checkpoint import load
from llrnn.model.pretrained import holds_model
from llrnn.model.scoring import score
from llrnn.text.corpus import EncodedText
from llrnn.training.settings import SentenceBatches, SlidingBatches

_POSITIONS = 1024  # of a training batch, where there is no configuration that says it


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
    for note in summary.notes:
        show.out.print(escape(note))
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
    hidden = project.config.controller.hidden
    size = ways.Size(_positions(project), summary.classes, summary.features, summary.read, hidden)
    follows = bool(project.contextual or project.contextual_inputs) or not project.background.is_static
    return ways.forecast(size, summary.symbols, follows=follows)


def _positions(project: Project) -> int:
    """Of a training batch."""
    batches = project.config.training.batches
    rows = batches.words if isinstance(batches, SentenceBatches) else batches.rows
    return rows * (1 if isinstance(batches, SentenceBatches | SlidingBatches) else batches.length)


def features_verb(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="A TOML configuration; with --classes also a model folder.")],
    changes: Changes = None,
    data: DataFolder = Path("data"),
    classes: Annotated[
        bool, typer.Option("--classes", help="The curve instead: classes, multiplications, and what is lost.")
    ] = False,
    numbers: Annotated[str | None, typer.Option("--at", help="Numbers of classes: 7000,3500,2000")] = None,
    valid: Annotated[Path | None, typer.Option(help="A text, of a model: what is lost on it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A file for the curve: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """What the features amount to, and how log Z will be computed.

    Nothing is trained: the answer is there in seconds.

    \b
    Example: llrnn features configs/embedded.toml
    Example: llrnn features configs/embedded.toml --classes --at 400,200,100
    Example: llrnn features runs/embedded --classes --valid valid.conllu --plot classes.png
    """
    if not classes:
        refuse_idle(context, "without --classes", "numbers", "valid", "plot")
        project = Project.from_config(read_config(config, changes or [], data=data))
        summary = summarise(project.output_features, project.vocabulary)
        found = forecast(project, summary)
        report = {**asdict(summary), "reduction": summary.reduction, "ways": asdict(found)}
        say(report, as_json, lambda _: show_features(summary, found))
        return
    if plot is not None:
        _require_plot(plot)
    wanted = _numbers(numbers)
    if holds_model(config):
        refuse_idle(context, "of a model", "changes", "data")
        curve = _of_model(config, valid, wanted)
    else:
        refuse_idle(context, "of a configuration: nothing is trained", "valid")
        curve = _of_config(Project.from_config(read_config(config, changes or [], data=data)), wanted)
    if plot is not None:
        curve.figure().savefig(plot)
    say(asdict(curve), as_json, lambda _: show.out.print(curve))


def _require_plot(plot: Path) -> None:
    if plot.suffix not in (".png", ".svg", ".pdf") or not plot.parent.is_dir():
        raise ConfigError(f"--plot {plot}: a .png, .svg or .pdf file in a folder that exists is required")


def _numbers(text: str | None) -> list[int]:
    try:
        found = [] if text is None else sorted((int(part) for part in text.split(",")), reverse=True)
    except ValueError:
        found = [0]
    if any(number < 1 for number in found):
        raise ConfigError(f"--at {text}: whole numbers with commas between them are required, such as 7000,3500")
    return found


def _of_config(project: Project, numbers: Sequence[int]) -> ClassCurve:
    vocabulary, phi = project.vocabulary, compile_features(project.output_features, project.vocabulary)
    mass = symbol_mass(project.background, vocabulary)
    size = ways.Size(_positions(project), phi.n_classes, phi.n_features, 0, project.config.controller.hidden)
    return class_curve(coarse.merges(phi, mass, alone=vocabulary.tails), phi, size, numbers)


def _of_model(folder: Path, valid: Path | None, numbers: Sequence[int]) -> ClassCurve:
    """The estimate by the weights; with a text by what the network is on it, and what it really loses there."""
    model = load(folder)
    phi = model.output_features
    text = None if valid is None else EncodedText.encode(read_for(model, valid, "auto", None), model.vocabulary)
    tree = merges_of(model, text)
    size = ways.Size(_POSITIONS, phi.n_classes, phi.n_features, 0, model.controller.hidden)
    curve = class_curve(tree, phi, size, numbers, nats=text is not None)
    if text is None:
        return curve
    exact = (score(with_classes(model, tree, one.classes), text).log_perplexity for one in curve.counts)
    counts = tuple(replace(one, log_perplexity=found) for one, found in zip(curve.counts, exact, strict=True))
    return replace(curve, counts=counts)


def coarsen_verb(
    context: typer.Context,
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The folder for the coarser model.")],
    classes: Annotated[
        int | None, typer.Option(min=1, help="Merge words: how many classes of output features there may be.")
    ] = None,
    fewer: Annotated[
        float | None,
        typer.Option(help="Condense features of rare words: how many times fewer multiplications than a softmax."),
    ] = None,
    valid: Annotated[
        Path | None, typer.Option(help="A text: how features vary on it, and the log-perplexity before and after.")
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option(help="Lowercase every word of --valid; as the model was trained by default.")
    ] = None,
    format: TextFormat = "auto",
    batches: Annotated[str, typer.Option(help="How --valid is read, as for `llrnn evaluate`.")] = "sentences",
    force: Annotated[bool, typer.Option("--force", help="Replace another model in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """A cheaper sum for a trained model, where least is lost.

    --classes: the rows of rare words that are alike are merged into their mean; the weights stay.

    --fewer: words stay apart, and rare ones are told apart by a few real-valued features of their own; this loses less
    at the same number of multiplications, and needs a text (--valid).

    To train a model with fewer classes from the start, set features.coarsen in its configuration.

    \b
    Example: llrnn coarsen runs/french --fewer 6 --valid valid.conllu --out runs/coarse
    Example: llrnn coarsen runs/french --classes 7000 --valid valid.conllu --out runs/coarse
    Example: llrnn train french.toml --set features.coarsen.classes=7000 --out runs/coarse
    """
    if valid is None:
        refuse_idle(context, "without --valid", "lowercase", "format", "batches")
    if (classes is None) == (fewer is None):
        found = "neither" if classes is None else "both"
        raise ConfigError(f"found {found} of --classes and --fewer: give one of the two")
    if fewer is not None and valid is None:
        raise ConfigError("--fewer needs a text: give --valid")
    refuse_overwriting(out, None, force)
    opened = load(model)
    text = None if valid is None else read_for(opened, valid, format, lowercase)
    batching = None if text is None else batching_for(batches, opened, text)
    if fewer is not None and text is not None:
        made = condense(opened, fewer, text=text, batching=batching)
    elif classes is not None:
        made = coarsen(opened, classes, text=text, batching=batching)
    make_output_folder(out)
    made.save(out)
    told = made.provenance["coarsened" if fewer is None else "condensed"]
    say({"out": str(out), **told}, as_json, partial(_show_coarsened, valid))


def _show_coarsened(valid: Path | None, found: dict[str, Any]) -> None:
    before, after = found.get("log_perplexity", (None, None))
    on = "" if before is None else f"; log-perplexity on {valid}: {before:.4f} before, {after:.4f} now"
    if "bands" not in found:
        show.text(f"{found['out']}: {found['before']:,} classes as {found['classes']:,}{on}")
        return
    bands = ", ".join(f"{n:,} by {r}" for n, r in found["bands"])
    fewer = f"{found['fewer']:.1f} times fewer multiplications than a softmax"
    show.text(f"{found['out']}: {fewer}; {found['alone']:,} classes as they were, {bands} features{on}")
