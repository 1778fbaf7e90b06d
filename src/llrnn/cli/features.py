"""`llrnn config features`: what features amount to; `llrnn model`: what a model is, a cheaper one, several as one."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import llrnn
from llrnn.cli import options, show
from llrnn.cli.evaluate import pairs_verb, written_verb
from llrnn.cli.init import config_app, info_verb
from llrnn.cli.mixing import mix_verb
from llrnn.config import read_config
from llrnn.layer import costs
from llrnn.layer.costs import Forecast, WayChoice, Work
from llrnn.training.settings import SentenceBatches, SlidingBatches

if TYPE_CHECKING:
    from llrnn.config.project import Project
    from llrnn.knowledge.features import FeatureSummary


def show_features(summary: FeatureSummary, ways: Forecast) -> None:
    """Print how many features and classes there are, which features have no effect, and how log Z will be computed.

    Classes are sets of words with equal features, log Z is the normaliser; `ways`: the forecast of how it is computed
    and at what cost, from `forecast`.
    """
    show.facts({**asdict(summary), "times_shorter": summary.reduction})
    many = f"{ways.saved:.1f} times fewer multiplications than" if ways.saved >= 1.05 else "as many multiplications as"
    kept = f"; {ways.kept / 2**20:,.1f} MiB of scores are kept, for knowledge follows the text" if ways.kept else ""
    _choice(f"log Z of {ways.positions:,} positions, in training", ways.batch, f"; {many} a softmax over words{kept}")
    _choice("log Z of one position", ways.one)
    if not ways.has_classes:
        show.text(
            "hardly any two words have the same features, so log Z costs what a softmax costs; an objective that draws "
            "words may be faster: training.objective, docs/scale.md#when-z-cannot-be-summed"
        )


def _choice(what: str, choice: WayChoice, besides: str = "") -> None:
    """Print one line on how log Z, the normaliser, will be computed, and on the other way where its cost differs.

    `what`: the beginning of the line, what is computed; `choice`: the cheaper of two ways and the other one, of which
    multiplications, additions and milliseconds are printed; `besides`: the end of the line.
    """
    other = "" if choice.taken.multiplications == choice.left.multiplications else f"; {_way(choice.left)}"
    show.text(f"{what}: {_way(choice.taken)}{other}{besides}")


def _way(work: Work) -> str:
    name = {"composed": "composed h(ΦW)ᵀ", "direct": "direct Φ(Wh + c)"}[work.name]
    counts = f"{_number(work.multiplications)} multiplications, {_number(work.additions)} additions"
    return f"{name}, {counts}, about {1e3 * work.seconds():.1f} ms on one core"


def _number(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.1f} million"


def forecast(project: Project, summary: FeatureSummary) -> Forecast:
    """Return how log Z will be computed, and how many multiplications that takes, for a configuration.

    log Z is the normaliser. The fields `one` and `batch` of the result have the faster of two ways, and the other, for
    one position and for a training batch. Batch size and network are those of `project.config`; `summary`: the numbers
    of its features and classes.
    """
    hidden = project.config.controller.hidden
    size = costs.Size(_positions(project), summary.classes, summary.features, summary.read, hidden)
    follows = bool(project.contextual or project.contextual_inputs) or not project.background.is_static
    return costs.forecast(size, summary.symbols, follows=follows)


def _positions(project: Project) -> int:
    """Return the number of predicted words in one training batch of the configuration, padding included.

    `words` of batches of sentences, `rows` of sliding ones, else rows · length (see `training.batches`).
    """
    batches = project.config.training.batches
    rows = batches.words if isinstance(batches, SentenceBatches) else batches.rows
    return rows * (1 if isinstance(batches, SentenceBatches | SlidingBatches) else batches.length)


@config_app.command("features")
def features_verb(
    config: Annotated[Path, typer.Argument(help="A TOML configuration.")],
    changes: options.Changes = None,
    data: options.DataFolder = Path("data"),
    as_json: options.AsJson = False,
) -> None:
    """What the features amount to, and how log Z will be computed.

    Prints how many features and classes (words with equal features) the configuration makes, which features have no
    effect, and the cost of log Z, the sum over the vocabulary, against a softmax. Nothing is trained: it takes seconds.
    Exits with 2 on a mistake in the configuration.

    Example: llrnn config features configs/embedded.toml
    """
    settings = read_config(config, changes or [], data=data)
    from llrnn.config.project import Project

    project = Project.from_config(settings)
    summary = llrnn.features.summarise(project.output_features, project.vocabulary)
    found = forecast(project, summary)
    report = {**asdict(summary), "reduction": summary.reduction, "ways": asdict(found)}
    options.say(report, as_json, lambda _: show_features(summary, found))


def condense_verb(
    model: options.ModelFolder,
    out: Annotated[Path, typer.Option(help="The folder for the cheaper model.")],
    fewer: Annotated[float, typer.Option(help="How many times fewer multiplications than a softmax.")],
    valid: Annotated[
        Path, typer.Option(help="A text: how features vary on it, and the log-perplexity before and after.")
    ],
    lowercase: options.AsTheModel = None,
    format: options.TextFormat = "auto",
    batches: options.Batches = "sentences",
    force: Annotated[bool, typer.Option("--force", help="Replace another model in --out.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a trained model cheaper: fewer multiplications for log Z, where the least log-perplexity is lost.

    Words stay distinct: rare ones are distinguished by a few real-valued features that are computed from their old
    ones. Prints the log-perplexity on --valid before and after; exits with 2 where --out holds another model.

    Example: llrnn model condense runs/french --fewer 6 --valid valid.conllu --out runs/condensed
    """
    from llrnn.inference.evaluation import contract_of

    options.refuse_overwriting(out, None, force)
    opened = llrnn.load(model)
    text = options.read_for(opened, valid, format, lowercase)
    batching = options.batching_for(batches, opened, text)
    made = llrnn.condense(opened, fewer, text=text, batching=batching)
    options.make_output_folder(out)
    made.save(out)
    found = {"out": str(out), **made.provenance["condensed"], "contract": str(contract_of(made, text, batching))}
    options.say(found, as_json, partial(_show_condensed, valid))


def _show_condensed(valid: Path, found: dict[str, Any]) -> None:
    before, after = found["log_perplexity"]
    blocks = ", ".join(f"{n:,} by {r}" for n, r in found["bands"])
    show.text(
        f"{found['out']}: {found['fewer']:.1f} times fewer multiplications than a softmax; {found['alone']:,} classes "
        f"as they were, {blocks} features; log-perplexity on {valid}: {before:.4f} before, {after:.4f} now\n"
        f"{found['contract']}"
    )


model_app = typer.Typer()
for verb in (info_verb, pairs_verb, written_verb, mix_verb, condense_verb):
    model_app.command(verb.__name__.removesuffix("_verb"))(verb)
