"""The verbs `llrnn experiment ...`; each imports its study when it runs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli.options import Device, Seed, device_named, make_output_folder
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.ground.files import write_atomically
from llrnn.text.readers import read_lines

Data = Annotated[Path, typer.Option(help="The corpora: shared data for French, or a folder with one UD treebank.")]
Out = Annotated[Path, typer.Option(help="The folder for models, results and tables.")]
Vectors = Annotated[Path | None, typer.Option(help="Word vectors (llrnn data vectors), copied to what is prepared.")]
Seeds = Annotated[int, typer.Option(min=1, help="Models of each kind.")]
Parallel = Annotated[int, typer.Option(min=1, help="Models side by side.")]


def tell(text: str) -> None:
    """What a study reports on its way."""
    from llrnn.cli import show

    show.out.print(text, markup=False)


def present(device: str) -> str:
    """The name of a device that this machine has; refused before anything is prepared."""
    device_named(device)
    return device


experiment_app = typer.Typer(help="Whole studies; each can be stopped and run again.")

# what trains and tests one model: (module, function)
STUDIES = {
    "language-model": ("jobs", "run_job"),
    "adaptation": ("adaptation", "run_one"),
    "knowledge-base": ("knowledge_base", "run_one"),
    "semantic-parsing": ("semantic_parsing", "run_one"),
    "char-nlg": ("char_nlg", "run_one"),
    "open-vocabulary": ("open_vocabulary", "run_one"),
    "own-texts": ("own_texts", "run_one"),
    "real-lists": ("real_lists", "run_one"),
}

Changes = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key.")]


@experiment_app.command("table4")
def table4_verb(
    data: Data,
    out: Out,
    only: Annotated[list[str] | None, typer.Option(help="Only models whose name holds this.")] = None,
    configs: Annotated[Path, typer.Option(help="The configurations of the models.")] = Path("configs/table4"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the models that are compared closely.")] = 3,
    parallel: Parallel = 1,
    deadline: Annotated[float | None, typer.Option(help="Begin no model after so many seconds.")] = None,
    sentences: Annotated[int | None, typer.Option(min=20, help="Cut every text short, for a trial.")] = None,
    vectors: Vectors = None,
    device: Device = "cpu",
) -> None:
    """The paper's Table 4: an RNN and eight LL-RNNs, baselines, agreement, and the best model.

    Example: llrnn experiment table4 --data ../shared/data --out runs/table4
    """
    from llrnn_lab.studies import table4

    path = table4.run(
        data,
        out,
        configs=configs,
        only=only or (),
        seeds=seeds,
        device=present(device),
        parallel=parallel,
        sentences=sentences,
        deadline=deadline,
        vectors=vectors,
        tell=tell,
    )
    typer.echo(path.read_text(encoding="utf8"))


@experiment_app.command("adaptation")
def adaptation_verb(
    data: Data,
    out: Out,
    novel: Annotated[str, typer.Option(help="Part of the name of a novel.")] = "Flaubert",
    config: Annotated[Path, typer.Option(help="The configuration of the base.")] = Path("configs/adaptation/base.toml"),
    sizes: Annotated[list[int] | None, typer.Option("--size", min=100, help="Words of the domain text.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each size.")] = 1,
    parallel: Parallel = 1,
    device: Device = "cpu",
) -> None:
    """General French to one novel with 1,000 to 100,000 words of it: five ways to adapt, a table and a plot.

    Example: llrnn experiment adaptation --data ../shared/data --out runs/adaptation
    """
    from llrnn_lab.studies import adaptation

    device_named(device)
    chosen = tuple(sizes or adaptation.SIZES)
    results = adaptation.run(
        data,
        out,
        config=config,
        novel=novel,
        sizes=chosen,
        seeds=seeds,
        parallel=parallel,
        device=device,
        tell=tell,
    )
    adaptation.plot(results, out / "adaptation.png")
    typer.echo(adaptation.table(results))


@experiment_app.command("frozen-adaptation")
def frozen_adaptation_verb(
    data: Data,
    out: Out,
    lm: Annotated[str, typer.Option(help="smollm2, a folder of transformers, or a .gguf file.")] = "smollm2",
    prepared: Annotated[bool, typer.Option(help="--data is a folder that --only-prepare wrote.")] = False,
    only_prepare: Annotated[bool, typer.Option(help="Write the texts, and end.")] = False,
    sizes: Annotated[list[int] | None, typer.Option("--size", min=20, help="Words of the domain text.")] = None,
    seeds: Seeds = 3,
    effort: Annotated[float, typer.Option(min=0.01, help="Times the most epochs of every adaptation.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="Begin nothing after so many seconds.")] = None,
    timing: Annotated[bool, typer.Option(help="Measure what an LM costs as background instead.")] = False,
    device: Device = "cpu",
) -> None:
    """A frozen language model adapted to three English texts: our layer on its state, LoRA, fine-tuning, n-grams.

    Example: llrnn experiment frozen-adaptation --data ../shared/data --lm smollm2 --out runs/english --device cuda
    """
    from llrnn_lab.studies import frozen_adaptation as study
    from llrnn_lab.studies import frozen_cost

    device_named(device)
    make_output_folder(out)
    if timing:
        write_atomically(out / "timing.json", json.dumps(frozen_cost.all_times(device), indent=1).encode())
        return
    folder = data if prepared else out / "data"
    if not prepared:
        study.prepare(data, folder)
    if only_prepare:
        return
    found = study.run(
        folder,
        out,
        lm=lm,
        sizes=sizes or study.SIZES,
        seeds=seeds,
        device=device,
        effort=effort,
        seconds=seconds,
        tell=tell,
    )
    if found:
        write_atomically(out / "frozen-lm.json", json.dumps(found, indent=1).encode())
        typer.echo(study.table(found))


@experiment_app.command("ensembles")
def ensembles_verb(
    members: Annotated[list[Path], typer.Argument(help="Folders of trained models over one vocabulary.")],
    data: Data,
    out: Out,
    student: Annotated[
        Path | None, typer.Option(help="One of such folders: distil the mixture into its model.")
    ] = None,
    share: Annotated[float, typer.Option(min=0.01, max=1.0, help="Of the teacher in the student's loss.")] = 0.9,
    dropout: Annotated[float | None, typer.Option(min=0.0, max=0.99, help="Of the student, from now on.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Of the student.")] = 8,
    ngrams: Annotated[bool, typer.Option(help="Mix n-grams of all texts in, too.")] = True,
    device: Device = "cpu",
) -> None:
    """French models as one: a mixture, with n-grams, and one model distilled from it; --data as table4 prepared it.

    Example: llrnn experiment ensembles runs/a runs/b --data runs/table4/prepared --out runs/ensembles
    """
    from llrnn_lab.studies import ensembles as study

    device_named(device)
    make_output_folder(out)
    found = study.run(
        members,
        data,
        out,
        student=student,
        share=share,
        dropout=dropout,
        epochs=epochs,
        ngrams=ngrams,
        device=device,
        tell=tell,
    )
    typer.echo(study.table(found))


@experiment_app.command("rescoring")
def rescoring_verb(
    data: Data,
    out: Out,
    config: Annotated[Path, typer.Option(help="The configuration of the model.")] = Path(
        "configs/rescoring/llrnn.toml"
    ),
    n: Annotated[int, typer.Option(min=2, help="Hypotheses in a list.")] = 50,
    lists: Annotated[str, typer.Option(help="simulated: French, an error model; dstc2: of a real recogniser.")] = (
        "simulated"
    ),
    configs: Annotated[Path, typer.Option(help="--lists dstc2: the configurations of the models.")] = Path(
        "configs/rescoring/dstc2"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="--lists dstc2: models of each kind.")] = 3,
    learned: Annotated[bool, typer.Option(help="--lists dstc2: choose by a learned layer as well.")] = True,
    parallel: Parallel = 1,
    sentences: Annotated[int | None, typer.Option(min=20, help="Cut every text short, for a trial.")] = None,
    changes: Changes = None,
    device: Device = "cpu",
    seed: Seed = 0,
) -> None:
    """N-best lists chosen anew with an n-gram, a softmax and LL-RNNs: word error rates.

    \b
    Example: llrnn experiment rescoring --data ../shared/data --out runs/rescoring
    Example: llrnn experiment rescoring --lists dstc2 --data ../shared/data --out runs/dstc2
    """
    from llrnn_lab.studies import real_lists, rescoring

    device_named(device)
    if lists not in ("simulated", "dstc2"):
        raise ConfigError(f"--lists must be simulated or dstc2, found {lists!r}")
    if lists == "dstc2":
        ways = real_lists.WAYS if learned else real_lists.WAYS[:2]
        how = real_lists.How(configs, tuple(changes or ()), device, parallel, ways)
        heard = real_lists.run(data, out, how, seeds=seeds, lists=sentences, tell=tell)
        typer.echo(real_lists.table(heard))
        return
    if changes:
        raise ConfigError("--set is for --lists dstc2; change the file of --config instead")
    found = rescoring.run(data, out, config=config, n=n, sentences=sentences, seed=seed, device=device, tell=tell)
    typer.echo(rescoring.table(found))


@experiment_app.command("rare-words")
def rare_words_verb(
    out: Out,
    seeds: Annotated[int, typer.Option(min=1, help="Texts and models, each with the next seed.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="How long each model is trained.")] = 20,
    seed: Seed = 0,
) -> None:
    """The paper's illustration: what a softmax and two LL-RNNs say of `37`, `15` and `grenoble`, none of them seen.

    Example: llrnn experiment rare-words --out runs/rare-words
    """
    from llrnn_lab.studies import rare_words

    make_output_folder(out)
    study = rare_words.Study(epochs=epochs)
    typer.echo(rare_words.report(rare_words.run(out, seed=seed, seeds=seeds, study=study, tell=tell)))


@experiment_app.command("open-vocabulary")
def open_vocabulary_verb(
    data: Data,
    out: Out,
    languages: Annotated[
        list[str] | None,
        typer.Option("--language", help="fr, tr or et; all by default."),
    ] = None,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/open"),
    parallel: Parallel = 1,
    sentences: Annotated[int | None, typer.Option(min=20, help="Cut every text short, for a trial.")] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors: prepares them and other texts (French).")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only models with this in their name: bpe, llrnn.try0.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often the chosen try of each system is trained.")] = 1,
    device: Device = "cpu",
) -> None:
    """Bits per character of four models without unknown words, on French, Turkish and Estonian.

    \b
    Example: llrnn experiment open-vocabulary --data ../shared/data --out runs/open --language tr
    Example: llrnn experiment open-vocabulary --data ../shared/data --out runs/more --language fr --configs configs/open/more --vectors vectors-fr.npz
    """  # noqa: E501
    from llrnn_lab.studies import open_data, open_vocabulary

    device_named(device)
    chosen = languages or list(open_data.LANGUAGES)
    for language in chosen:
        open_data.language_named(language)
    open_vocabulary.run(
        data,
        out,
        chosen,
        configs,
        processes=parallel,
        device=device,
        sentences=sentences,
        vectors=vectors,
        only=only or (),
        seeds=seeds,
        tell=tell,
    )
    typer.echo((out / "open-vocabulary.md").read_text(encoding="utf8"))


@experiment_app.command("own-texts")
def own_texts_verb(
    data: Data,
    out: Out,
    settings: Annotated[list[str] | None, typer.Option("--setting", help="tr-20k-lists, ...; all by default.")] = None,
    systems: Annotated[list[str] | None, typer.Option("--system", help="llrnn, bpe, ...; all by default.")] = None,
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    deadline: Annotated[float | None, typer.Option(help="Begin no model after so many seconds.")] = None,
    device: Device = "cpu",
) -> None:
    """What `llrnn init` writes against rivals with the same text, lists and cache, in five languages.

    Example: llrnn experiment own-texts --data ../shared/data --out runs/own --setting tr-20k-lists
    """
    from llrnn_lab.studies import own_texts

    chosen, which = settings or own_texts.SETTINGS, systems or own_texts.SYSTEMS
    own_texts.run(
        data, out, chosen, which, seeds=seeds, processes=parallel, device=present(device), deadline=deadline, tell=tell
    )
    typer.echo((out / "own-texts.md").read_text(encoding="utf8"))


@experiment_app.command("channel")
def channel_verb(
    pages: Annotated[list[Path], typer.Argument(help="Pictures of pages, or files of hOCR with choices: .hocr.")],
    truth: Annotated[Path, typer.Option(help="A folder with the true text of each page, NAME.txt.")],
    out: Annotated[Path, typer.Option(help="The file that `llrnn read --channel` takes.")],
    lang: Annotated[str | None, typer.Option(help="Tesseract's name of the language, such as tur.")] = None,
) -> None:
    """Learn from pages whose text is known what is meant by what Tesseract sees, for `llrnn read`.

    Example: llrnn experiment channel page1.png page2.png --lang tur --truth texts --out channel.json
    """
    from llrnn.cli.read import recognised
    from llrnn.inference.reading.hocr import read_hocr
    from llrnn_lab.studies.channel import fit_channel, paired

    pairs = []
    with recognised(pages, lang) as files:
        for page, file in files:
            found = paired(read_hocr(file), [line for _, line in read_lines(truth / f"{page.stem}.txt")])
            if not found:
                raise CorpusError(f"{page}: its true text is required, found another one in {truth}; correct it")
            pairs += found
    fit_channel(pairs).save(out)
    tell(f"{out}: learnt from {len(pairs):,} lines")


@experiment_app.command("typing")
def typing_verb(
    data: Data,
    out: Out,
    languages: Annotated[list[str] | None, typer.Option("--language", help="tr, et or tr-20k; all by default.")] = None,
    configs: Annotated[Path, typer.Option(help="The configurations of the models.")] = Path("configs/typing"),
    words: Annotated[int, typer.Option(min=10, help="How much of each test text is typed.")] = 2000,
    systems: Annotated[list[str] | None, typer.Option("--system", help="Only this system; all by default.")] = None,
) -> None:
    """Keystrokes that completion saves, against n-grams over the same word list and a character model.

    Example: llrnn experiment typing --data ../shared/data --out runs/typing --language tr
    """
    from llrnn_lab.studies import keystrokes

    make_output_folder(out)
    chosen = languages or list(keystrokes.LANGUAGES)
    keystrokes.run(data, out, chosen, configs, words=words, systems=systems or keystrokes.SYSTEMS, tell=tell)
    typer.echo((out / "typing.md").read_text(encoding="utf8"))


@experiment_app.command("added-words")
def added_words_verb(
    data: Data,
    out: Out,
    prepared: Annotated[Path | None, typer.Option(help="French data that is prepared already.")] = None,
    config: Annotated[Path, typer.Option(help="The configuration of the model.")] = Path(
        "configs/open/added/llrnn.toml"
    ),
    seed: Seed = 0,
) -> None:
    """How much words help that are added to a trained model without training, with attributes, counts, or both.

    Example: llrnn experiment added-words --data ../shared/data --out runs/added
    """
    from llrnn_lab.studies import added_words

    make_output_folder(out)
    typer.echo(added_words.report(added_words.run(data, out, seed=seed, prepared=prepared, config=config, tell=tell)))


@experiment_app.command("prepare")
def prepare_verb(data: Data, out: Out, vectors: Vectors = None) -> None:
    """Put text, lexicon, clusters and minimal pairs of an experiment into one folder, to be carried elsewhere.

    Example: llrnn experiment prepare --data ../shared/data --out runs/table4/prepared
    """
    from llrnn_lab.studies.prepare import prepare

    prepare(data, out, tell=tell, vectors=vectors)


@experiment_app.command("model")
def model_verb(
    config: Annotated[Path, typer.Argument(help="The configuration of the model.")],
    name: Annotated[str, typer.Option(help="Its name in the table.")],
    data: Annotated[Path, typer.Option(help="A prepared folder.")],
    out: Out,
    study: Annotated[str, typer.Option(help=f"How it is tested: {', '.join(STUDIES)}.")] = "language-model",
    changes: Changes = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Train and test one model of an experiment; what a study runs side by side.

    \b
    Example: llrnn experiment model configs/table4/llrnn.toml --name llrnn-2500 --data runs/prepared --out runs/table4
    """
    from llrnn_lab.studies.jobs import Job

    if study not in STUDIES:
        raise ConfigError(f"--study must be one of {', '.join(STUDIES)}, found {study!r}")
    job = Job(name, config, tuple(changes or ()), seed, study)
    module, function = STUDIES[study]
    run_one = getattr(importlib.import_module(f"llrnn_lab.studies.{module}"), function)
    run_one(job, data=data, out=out, device=device_named(device))


@experiment_app.command("nlg-judge")
def nlg_judge_verb(
    data: Data,
    out: Out,
    labels: Annotated[Path, typer.Option(help="Labels by hand of items of the test.")] = Path(
        "configs/nlg/judge-labels.json"
    ),
    seed: Annotated[int, typer.Option(help="Of the planted mistakes.")] = 0,
) -> None:
    """How often a judge of sentences from dialog acts errs: on references, on planted mistakes, on labels by hand.

    Example: llrnn experiment nlg-judge --data ../shared/data --out runs/nlg-judge
    """
    from llrnn_lab.studies import nlg_judge

    make_output_folder(out)
    typer.echo(nlg_judge.table(nlg_judge.run(data, out, labels=labels, seed=seed, tell=tell)))


@experiment_app.command("knowledge-base")
def knowledge_base_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/knowledge-base"),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    device: Device = "cpu",
) -> None:
    """System turns from a dialogue and a table of venues: how often is what is stated the table's, before and after
    the table is changed?

    Example: llrnn experiment knowledge-base --data ../shared/data --out runs/knowledge-base
    """
    from llrnn_lab.studies import knowledge_base

    make_output_folder(out)
    found = knowledge_base.run(
        data, out, configs=configs, seeds=seeds, parallel=parallel, device=present(device), tell=tell
    )
    typer.echo(knowledge_base.table(found))


@experiment_app.command("semantic-parsing")
def semantic_parsing_verb(
    data: Data,
    out: Out,
    datasets: Annotated[list[str] | None, typer.Option("--dataset", help="Only these; all five by default.")] = None,
    systems: Annotated[
        list[str] | None, typer.Option("--system", help="softmax (and masked), strict, grammar, state, primed.")
    ] = None,
    shares: Annotated[list[int] | None, typer.Option("--share", min=1, max=100, help="% of the training text.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="Also train on train and valid text together.")] = False,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path(
        "configs/semantic-parsing"
    ),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    device: Device = "cpu",
) -> None:
    """Logical forms from questions: exact match and well-formedness with a grammar of the forms, and with a lexicon.

    Example: llrnn experiment semantic-parsing --data ../shared/data --out runs/semantic-parsing --dataset geo
    """
    from llrnn_lab.studies import semantic_parsing, sp_data

    make_output_folder(out)
    chosen = {"--dataset": (datasets, sp_data.DATASETS), "--system": (systems, semantic_parsing.SYSTEMS)}
    for option, (given, known) in chosen.items():
        for name in given or ():
            if name not in known:
                raise ConfigError(f"{option} must be one of {', '.join(known)}, found {name!r}")
    found = semantic_parsing.run(
        data,
        out,
        configs=configs,
        datasets=datasets or sp_data.DATASETS,
        systems=systems or semantic_parsing.SYSTEMS,
        shares=[*(shares or sp_data.SHARES), *([semantic_parsing.ALL] if whole else [])],
        seeds=seeds,
        parallel=parallel,
        device=present(device),
        tell=tell,
    )
    typer.echo(semantic_parsing.table(found))


@experiment_app.command("char-nlg")
def char_nlg_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/char-nlg"),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    device: Device = "cpu",
) -> None:
    """Sentences from dialog acts, character by character: non-words and slot errors with an automaton of the words.

    Example: llrnn experiment char-nlg --data ../shared/data --out runs/char-nlg
    """
    from llrnn_lab.studies import char_nlg

    device_named(device)
    make_output_folder(out)
    found = char_nlg.run(data, out, configs=configs, seeds=seeds, parallel=parallel, device=device, tell=tell)
    typer.echo(char_nlg.table(found))
