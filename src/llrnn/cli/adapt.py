"""The verb `llrnn adapt`: a frozen base model, and a log-linear model of a domain on top."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import AsJson, Device, Seed, device_named, make_output_folder, refuse_idle, say
from llrnn.cli.progress import follow, interruptible
from llrnn.ground.errors import ConfigError
from llrnn.inference.adaptation import adaptor, base_log_perplexity, default_settings, open_base
from llrnn.model.scoring import score
from llrnn.text.corpus import Corpus
from llrnn.text.ids import EncodedText
from llrnn.training.loop import train


def adapt_verb(
    context: typer.Context,
    base: Annotated[Path, typer.Argument(help="An llrnn model, an ARPA file, an n-gram or a Hugging Face folder.")],
    corpus: Annotated[Path, typer.Argument(help="Text of the domain.")],
    out: Annotated[Path, typer.Option(help="The folder for the adapted model.")],
    valid: Annotated[Path | None, typer.Option(help="Text to stop by; by default a tenth of CORPUS, its end.")] = None,
    order: Annotated[int, typer.Option(min=1, max=10, help="Of the n-gram expert of the domain.")] = 3,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the adaptor, where the base has no network.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Step size.")] = 0.001,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text, at most.")] = 40,
    lowercase: Annotated[bool | None, typer.Option(help="Lowercase every word; as the base by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Device = "cpu",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Adapt a model to a domain: a frozen base, a small model on top.

    The base stays as it is and becomes the background of the small model.

    Example: llrnn adapt runs/embedded domain.txt --out runs/adapted
    """
    place = device_named(device)  # and settings: mistakes come before any work
    changes = {"learning_rate": learning_rate, "epochs": epochs}
    default_settings(1, seed=seed).changed(**changes)
    opened = open_base(base)
    if opened.donor is not None:
        refuse_idle(context, "where the base has a network, whose size is taken", "hidden")
    text, held_out = _parts(
        opened.read(corpus, lowercase=lowercase), None if valid is None else opened.read(valid, lowercase=lowercase)
    )
    make_output_folder(out)
    model = adaptor(opened, text, order=order, hidden=hidden, seed=seed).to(place)
    start = score(model, EncodedText.encode(held_out, model.vocabulary)).log_perplexity
    settings = default_settings(text.tokens, seed=seed).changed(**changes)
    with interruptible() as stop:
        records = follow(
            train(model, text, valid=held_out, settings=settings, folder=out, resume=resume, should_stop=stop),
            quiet=as_json,
        )
    last = records[-1]
    if last.event == "interrupted":
        found = "no model is" if last.best is None else "the best model so far is"
        show.note(f"stopped after step {last.step}; {found} in {out}; --resume goes on")
        raise typer.Exit(130)
    before = base_log_perplexity(opened, held_out)
    report = {"out": str(out), "words": text.tokens, "base": before, "mixture": start, "adapted": last.best}
    line = (
        f"{out}: log-perplexity on the text held out: base {before:.4f}, "
        f"mixed with n-grams of the domain {start:.4f}, adapted {last.best:.4f}"
    )
    say(report, as_json, lambda _: show.text(line))


def _parts(text: Corpus, valid: Corpus | None) -> tuple[Corpus, Corpus]:
    if valid is not None:
        return text, valid
    kept = len(text) - max(1, len(text) // 10)
    if kept < 4:
        raise ConfigError(f"5 sentences or more are required to adapt to, found {len(text)}; give more text")
    train_part, held_out = text.split(kept)
    return train_part, held_out
