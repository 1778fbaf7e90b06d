"""The verbs `llrnn train`, `evaluate`, `generate`, `explain`."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from llrnn.cli import show
from llrnn.cli.model_options import (
    Condition,
    ConditionFile,
    ModelOptions,
    distortions,
    print_outcomes,
    with_model_options,
    write_lines,
)
from llrnn.cli.options import (
    AsJson,
    Changes,
    ConfigFile,
    DataFolder,
    Device,
    ModelFolder,
    Seed,
    TextFormat,
    device_named,
    print_json,
    refuse_idle,
    require_models_and_texts,
    say,
)
from llrnn.cli.progress import follow, interruptible
from llrnn.config import described_keys, read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.inference.evaluation import evaluate
from llrnn.inference.explanation import explain
from llrnn.inference.pairs import read_pairs, score_pairs
from llrnn.model.batches import Batching, Sentences
from llrnn.model.decode import (
    Greedy,
    Sampling,
    Strategy,
    beam_search,
    check_condition,
    condition_kind,
    generate,
    prepared,
    read_condition,
    spoken,
    warn_of_unknown_names,
    write,
)
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus, delexicalise, warn_if_raw
from llrnn.text.ids import warn_of_capitals
from llrnn.text.shards import BuiltCorpus, is_built
from llrnn.training.loop import train
from llrnn.training.parallel import join_workers
from llrnn.training.settings import read_batches

train_app = typer.Typer()  # the keys of a configuration stand at the end of its help


def _list_of_keys() -> str:
    """For the end of the help; the mark at its top keeps the lines as they are."""
    return "\b\nKeys of CONFIG:\n" + "\n".join(f"  {line}" for line in dict.fromkeys(described_keys()))


@train_app.command("train", epilog=_list_of_keys())
def train_verb(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="The folder for the model, its checkpoints and its log.")],
    changes: Changes = None,
    data: DataFolder = Path("data"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Device = "cpu",
    seed: Annotated[int | None, typer.Option(help="The same as --set training.seed=N.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result.")] = False,
) -> None:
    """Train a model and write it to a folder.

    \b
    Example: llrnn train configs/embedded.toml --out runs/embedded
    Example: torchrun --nproc-per-node 2 -m llrnn train configs/embedded.toml --out runs/embedded
    """
    seeded = [] if seed is None else [f"training.seed={seed}"]
    with interruptible() as stop, join_workers() as workers, show.only_if(workers.leads):
        settings = read_config(config, [*(changes or []), *seeded], data=data)
        project = Project.from_config(settings)
        model = project.model().to(workers.device(device_named(device)))
        records = follow(
            train(
                model,
                project.corpora["train"],
                valid=project.corpora.get("valid"),
                settings=settings.training,
                folder=out,
                resume=resume,
                should_stop=stop,
                workers=workers,
            ),
            quiet=quiet,
        )
        last = records[-1]
        if last.event == "interrupted":
            again = [*workers.command, "train", str(config), *(f"--set={one}" for one in [*(changes or []), *seeded])]
            again += ["--data", str(data), "--out", str(out), "--device", device, "--resume"]
            show.note(f"stopped after step {last.step}; the checkpoint is in {out}. Go on with:\n  {shlex.join(again)}")
        else:
            best = f", best validation {last.best:.4f}" if last.best is not None else ""
            show.text(f"trained {last.step} steps{best}: {out}")
    if last.event == "interrupted":
        raise typer.Exit(workers.exit_code_when_stopped)


@with_model_options
def evaluate_verb(
    context: typer.Context,
    models: Annotated[list[Path], typer.Argument(help="Model folders, then text files or built corpora.")],
    options: ModelOptions,
    lowercase: Annotated[
        bool | None, typer.Option(help="Lowercase every word first; as the model was trained by default.")
    ] = None,
    format: TextFormat = "auto",
    pairs: Annotated[
        list[Path] | None, typer.Option(help="Minimal pairs instead of texts: .tsv, or .jsonl as BLiMP writes it.")
    ] = None,
    batches: Annotated[
        str,
        typer.Option(
            help="How texts are read: sentences, each by itself; continuous, with the state carried on; windows or "
            "sliding, from fresh states; training, as the model was; or with sizes, as training.batches in TOML."
        ),
    ] = "sentences",
    device: Device = "cpu",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Log-perplexity of models on texts, with an audit of the figure.

    By frequency and feature; or accuracy on minimal pairs (--pairs); or, with --constraint, how much holding texts to
    a language changes the models.

    \b
    Example: llrnn evaluate runs/embedded test.conllu
    Example: llrnn evaluate runs/embedded --pairs pairs.jsonl
    Example: llrnn evaluate runs/french test.conllu --batches '{kind="continuous", rows=64, length=32}'
    Example: llrnn evaluate runs/embedded test.conllu --weight POS:VERB=+0.5
    Example: llrnn evaluate runs/free runs/held test.tsv --constraint geo.lark
    """
    folders = [path for path in models if path.is_dir() and not is_built(path)]
    files = [path for path in models if path not in folders]
    require_models_and_texts(folders, files, bool(pairs))
    if not any(not is_built(path) for path in files):
        refuse_idle(context, "without a text to read", "lowercase", "format")
    if options.constraint is not None or not files:
        refuse_idle(context, "where no text is drawn", "seed")
    opened = ((folder, options.open(folder, device)) for folder in folders)
    language = options.language()
    if language is not None:
        if pairs:
            raise ConfigError("--constraint is measured on texts, not on --pairs; leave one of them out")
        distortions(language, opened, files, partial(_read_for, format=format, lowercase=lowercase), as_json)
        return
    results = []
    for folder, model in opened:
        for file in files:
            corpus = _read_for(model, file, format, lowercase)
            warn_of_unknown_names(model, corpus.conditions)
            batching = _read_in(batches, model, corpus)
            result = evaluate(prepared(model, corpus.conditions), corpus, batching=batching, seed=seed)
            results.append({"model": str(folder), "text": str(file), "perplexity": result.perplexity, **asdict(result)})
            if not as_json:
                show.evaluation(f"{folder} on {file}", result)
        for file in pairs or []:
            scores = score_pairs(model, read_pairs(file))
            results.append({"model": str(folder), "pairs": str(file), **scores.summary()})
            if not as_json:
                show.pairs(f"{folder} on {file}", scores)
    if as_json:
        print_json(results)


def _read_in(batches: str, model: LLRNN, corpus: Corpus) -> Batching:
    """Only sentences have a condition each; other batches run over their ends."""
    try:
        batching = read_batches(batches, model.provenance.get("config", {}))
    except ConfigError as error:
        raise ConfigError(f"--batches {error}") from None
    if not isinstance(batching, Sentences) and any(condition is not None for condition in corpus.conditions):
        raise ConfigError(f"--batches {batches}: a text with conditions is read by sentences; leave --batches out")
    return batching


def _read_for(model: LLRNN, file: Path, format: str, lowercase: bool | None) -> Corpus:
    """A text as the model's training text was read."""
    if is_built(file):
        return BuiltCorpus(file)
    kind, small = condition_kind(model), model.reads_lowercase if lowercase is None else lowercase
    corpus = Corpus.from_file(file, format=format, lowercase=small, conditions=kind)  # type: ignore[arg-type]
    warn_if_raw(corpus)
    warn_of_capitals(model.vocabulary, corpus)
    slots = model.provenance.get("config", {}).get("corpus", {}).get("delexicalised")
    return delexicalise(corpus, slots) if slots else corpus


@with_model_options
def generate_verb(
    context: typer.Context,
    model: ModelFolder,
    options: ModelOptions,
    prefix: Annotated[str, typer.Option(help="The words to go on from, separated by spaces.")] = "",
    count: Annotated[int, typer.Option(min=1, help="How many texts.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable word.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam search of this width.")] = None,
    temperature: Annotated[float, typer.Option(help="Below 1 cooler, above 1 hotter.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most probable words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from the smallest set of this mass.")] = None,
    max_words: Annotated[int, typer.Option(min=1, help="Stop after so many words.")] = 60,
    condition: Condition = None,
    conditions: ConditionFile = None,
    features: Annotated[bool, typer.Option("--features", help="Print each word with its features.")] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Write text: sampling, greedy or beam search.

    \b
    Example: llrnn generate runs/embedded --prefix "elle est" --features
    Example: llrnn generate runs/embedded --constraint 'pattern: la ( petite | grande )+ /[a-z]+/ .' --longest 9
    Example: llrnn generate runs/nlg --condition "inform(name='le chat noir';food=french)" --beam 5
    """
    strategy = _strategy(greedy, beam, Sampling(temperature, top_k, top_p))
    if beam is not None:
        refuse_idle(context, "with --beam, which draws nothing", "seed")
        if count > beam:
            raise ConfigError(f"--beam {beam} finds so many texts at most, found --count {count}; widen --beam")
    longest = options.longest
    if longest is not None:
        refuse_idle(context, "with --longest, which says when texts end", "max_words")
    if conditions is not None and (condition is not None or count != 1 or features):
        raise ConfigError("--conditions writes one text for each line: without --condition, --count and --features")
    free = options.open(model, device)
    if greedy and not free.vocabulary.is_open:
        refuse_idle(context, "with --greedy, which draws nothing", "seed")
    loaded = options.constrained(free)
    max_words = max_words if longest is None else max(max_words, longest + 1)  # so that no text is cut
    generator = torch.Generator(loaded.device).manual_seed(seed)
    prefix = prefix.lower() if loaded.reads_lowercase else prefix
    if conditions is not None:
        each = partial(write, beam=beam, strategy=strategy, prefix=prefix, max_words=max_words, generator=generator)
        outcomes = write_lines(loaded, conditions, partial(each, loaded))
        options.note_cut([one.found for one in outcomes if one.found is not None])
        raise typer.Exit(print_outcomes(outcomes, as_json=as_json))
    wanted = None if condition is None else read_condition(loaded, condition)
    check_condition(free, wanted)
    warn_of_unknown_names(free, [wanted])
    ready = prepared(loaded, [wanted])
    if beam is not None:
        found = beam_search(ready, prefix=prefix, width=beam, max_words=max_words, condition=wanted)[:count]
    else:
        given = [wanted] * count
        found = generate(ready, given, prefix=prefix, strategy=strategy, max_words=max_words, generator=generator)
    options.note_cut(found)
    said = [spoken(loaded, one, wanted) for one in found]
    if as_json:
        named = [[show.named_features(ready, word) for word in (*one.prefix, *one.words)] for one in found]
        print_json([{**asdict(one), "features": own} for one, own in zip(said, named, strict=True)])
    else:
        show.generated(ready, said, found if features else None)


def _strategy(greedy: bool, beam: int | None, sampling: Sampling) -> Strategy:
    given = [name for name, used in (("--greedy", greedy), ("--beam", beam is not None)) if used]
    if len(given) > 1 or (given and sampling != Sampling()):
        raise ConfigError("choose one way: --greedy, --beam, or sampling with --temperature, --top-k, --top-p")
    return Greedy() if greedy else sampling


@with_model_options
def explain_verb(
    model: ModelFolder,
    word: Annotated[str, typer.Option(help="The word to explain.")],
    options: ModelOptions,
    prefix: Annotated[str, typer.Option(help="The words before it.")] = "",
    rival: Annotated[str | None, typer.Option(help="Another word: why not this one?")] = None,
    condition: Condition = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Why this word: background + features − log Z, adding up exactly.

    Example: llrnn explain runs/embedded --prefix "la reine est" --word grande --rival grand
    """
    free = options.open(model, device)
    loaded = options.constrained(free)
    if loaded.reads_lowercase:
        prefix, word, rival = prefix.lower(), word.lower(), rival.lower() if rival is not None else None
    wanted = None if condition is None else read_condition(loaded, condition)
    check_condition(free, wanted)
    warn_of_unknown_names(free, [wanted])
    found = explain(prepared(loaded, [wanted]), prefix=prefix, word=word, rival=rival, condition=wanted)
    say({**asdict(found), "total": found.total}, as_json, lambda _: show.out.print(found))
