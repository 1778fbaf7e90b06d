"""How good models are: `llrnn evaluate`, log-perplexity on texts; `llrnn model pairs`, `written`: which sentence of a
pair they prefer, what they write from conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import llrnn
from llrnn.cli import options, show
from llrnn.ground.bundle import REQUIRED, has_bundle, names_lm
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import STANDARD, write_lines
from llrnn.languages.ngrams.arpa import is_arpa
from llrnn.text.built import is_built
from llrnn.text.contract import Contract, difference
from llrnn.text.encoded import Oov

if TYPE_CHECKING:
    from llrnn.inference.evaluation import Evaluation
    from llrnn.text.corpus import Corpus


def _is_model(path: Path) -> bool:
    """Whether a path is a model: an ARPA or GGUF file, a name (smollm2, fr), or a folder other than a built corpus.

    Any other folder counts, whatever it holds; False where there is nothing at the path.
    """
    if path.is_file():
        return names_lm(path) or is_arpa(path)
    return not is_built(path) if path.is_dir() else names_lm(path) or has_bundle(path, "model")


def _told_apart(given: list[Path]) -> tuple[list[Path], list[Path]]:
    """Split the paths of a command line into (models, texts), each in the order given.

    Models are ARPA files, and folders that are no built corpus. "-" is standard input, a text; where it is the first of
    several paths and none of them is a model, it is the model. A ConfigError is raised where either is missing, a file
    does not exist, or several models would read standard input.
    """
    piped = given[:1] if len(given) > 1 and str(given[0]) == STANDARD else []
    models = [path for path in given if _is_model(path)] or piped
    files = [path for path in given if path not in models]
    for path in files:
        if not (path.exists() or str(path) == STANDARD):
            raise ConfigError(f"{path}: no such file or folder; give model folders first, then texts")
    if not models:
        raise ConfigError(f"{REQUIRED}, found only texts: {', '.join(map(str, files))}")
    if not files:
        raise ConfigError(f"{models[-1]}: a text to evaluate on is required behind the models, found none")
    if Path(STANDARD) in files and len(models) > 1:
        raise ConfigError("standard input is read once, found several models for -; give it as a file")
    return models, files


def _given(paths: list[Path]) -> list[Path]:
    """Return the paths unchanged, a callback of typer; raise a ConfigError for a mistake among them.

    Mistakes are that no path is a model, none is a text, or one does not exist (see `_told_apart`).
    """
    return paths if _told_apart(paths) else []


ModelsAndTexts = Annotated[
    list[Path],
    typer.Argument(
        help="Model folders or ARPA files, then text files, - for standard input, or built corpora.", callback=_given
    ),
]


def _each(
    given: list[Path], asked: options.ModelOptions, device: str, *, oov: Oov | None = None
) -> Iterator[tuple[Path, llrnn.LLRNN, Path]]:
    """Yield (model folder, opened model, text file) for every model and every text file among the paths `given`.

    `asked`: the options that change models, and hold them to --constraint, a language that texts must belong to; `oov`:
    what n-gram models do with unknown words. A ConfigError is raised where model or text is missing.
    """
    folders, files = _told_apart(given)
    for folder in folders:
        model = asked.constrained(asked.open(folder, device, oov=oov))
        yield from ((folder, model, file) for file in files)


@options.with_model_options
def evaluate_verb(
    context: typer.Context,
    models: ModelsAndTexts,
    asked: options.ModelOptions,
    lowercase: options.AsTheModel = None,
    format: options.TextFormat = "auto",
    batches: options.Batches = "sentences",
    running: options.Running = False,
    oov: options.OovPolicy = None,
    cache: options.Cache = None,
    cache_words: options.CacheWords = None,
    cache_sharpness: options.CacheSharpness = None,
    dynamic: options.Dynamic = None,
    device: options.Device = "cpu",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Log-perplexity of models on texts, with an audit of the figure.

    Prints for each model and text the log-perplexity (nats a word), perplexity and bits per character, and the same by
    word frequency and by feature; warnings of the audit, such as probabilities that do not sum to one, on standard
    error. Exits with 2 where a file cannot be read or a word is refused. Related: `llrnn model pairs`, `written`.

    \b
    Example: llrnn evaluate runs/embedded test.conllu
    Example: llrnn evaluate runs/french test.conllu --batches '{kind="continuous", rows=64, length=32}'
    Example: llrnn evaluate runs/embedded test.conllu --change POS:VERB=+0.5
    Example: llrnn evaluate runs/turkish novel.txt --running
    Example: llrnn evaluate runs/french novel.txt --cache 0.1 --cache-sharpness 0.3
    Example: zcat test.txt.gz | llrnn evaluate corpus.arpa runs/french - --oov skip
    """
    from llrnn.model.decode import prepared, warn_of_unknown_names

    policy = options.oov_policy(oov)
    following = options.following_named(cache, cache_words, cache_sharpness, dynamic)
    if following is not None:
        options.refuse_idle(context, "with --cache and --dynamic, which read the text as one", "batches", "running")
    results, contracts = [], dict[Path, dict[str, Contract]]()
    for folder, model, file in _each(models, asked, device, oov=policy):
        corpus = options.read_for(model, file, format, lowercase, running=running)
        warn_of_unknown_names(model, corpus.conditions)
        batching = options.batching_for(batches, model, corpus)
        judged = partial(llrnn.evaluate, batching=batching, seed=seed, oov=policy, following=following)
        with options.advising_oov(policy):
            result = judged(model if running else prepared(model, corpus.conditions), corpus)
        own = {name: getattr(result, name) for name in ("perplexity", "ppl1", "log10_prob")}
        results.append({"model": str(folder), "text": str(file), **own, **asdict(result)})
        results[-1] |= {"contract": str(result.contract), "reading": result.contract.reading}
        contracts.setdefault(file, {})[f"{folder} on {file}"] = result.contract
        if not as_json:
            show.evaluation(f"{folder} on {file}", result)
            show.text(_as_srilm(result)) if policy is not None else None
    if as_json:
        options.print_json(results)
    for found in map(difference, contracts.values()):
        show.note(f"warning: {found}") if found is not None else None


def _judging_pairs(model: llrnn.LLRNN, given: list[Path] | None, lowercase: bool | None) -> Corpus:
    """Return the pairs that a judge of a model's texts learns from: those of `given` files, else its validation text.

    The latter is what its configuration names, or the end of its training files that was held out (`valid_last`).
    """
    own = model.provenance.get("config", {}).get("corpus", {})
    last = None if given else own.get("valid_last")
    files = [Path(file) for file in given or own.get("train" if last else "valid") or ()]
    if not files or (given is None and not all(file.exists() for file in files)):
        raise ConfigError(
            "a judge learns from pairs that the model has not seen, found no validation text; add --judge FILE"
        )
    first, *rest = (options.read_for(model, file, "auto", lowercase) for file in files)
    whole = sum(rest, first)
    return whole[-last:] if last else whole


def _as_srilm(result: Evaluation) -> str:
    """Return the results of an evaluation as one line, in SRILM's terms: sentences, words, OOVs, logprob, ppl, ppl1.

    "2 sentences, 9 words, 0 OOVs: logprob (log10) -12.3456, ppl 13.2534, ppl1 23.5360". Words are without ends of
    sentences; ppl counts ends of sentences as words, ppl1 does not.
    """
    counts = f"{result.words - result.sentences:,} words, {result.oovs:,} OOVs"
    figures = f"logprob (log10) {result.log10_prob:.4f}, ppl {result.perplexity:.4f}"
    return f"{result.sentences:,} sentences, {counts}: {figures}, ppl1 {result.ppl1:.4f}"


@options.with_model_options
def pairs_verb(
    models: Annotated[
        list[Path],
        typer.Argument(help="Model folders, then minimal pairs: .tsv or .jsonl as BLiMP writes it.", callback=_given),
    ],
    asked: options.ModelOptions,
    out: Annotated[Path | None, typer.Option(help="A .tsv file for the results of every pair.")] = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Which sentence of minimal pairs models prefer: accuracy, by group and distance.

    Prints, for each model and file of pairs, the share of pairs whose grammatical sentence has the higher probability,
    with 95 % intervals; --json and --out have log p of both sentences of every pair. A .tsv has the grammatical
    sentence, the other one, and perhaps their group. Exits with 2 where a file cannot be read.

    \b
    Example: llrnn model pairs runs/embedded pairs.jsonl
    Example: llrnn model pairs runs/a runs/b pairs.tsv --out results.tsv
    """
    from llrnn.inference.pairs import read_pairs, score_pairs
    from llrnn.inference.scores import tabbed

    results, rows = [], list[dict[str, Any]]()
    if out is not None:
        options.require_output_file(out)
    for folder, model, file in _each(models, asked, device):
        scores, names = score_pairs(model, read_pairs(file)), {"model": str(folder), "pairs": str(file)}
        results.append({**names, **scores.summary(), "results": scores.rows()})
        rows += [{**names, **row} for row in scores.rows()]
        if not as_json:
            show.pairs(f"{folder} on {file}", scores)
    if out is not None:
        write_lines(out, tabbed(rows))
    if as_json:
        options.print_json(results)


@options.with_model_options
def written_verb(
    models: ModelsAndTexts,
    asked: options.ModelOptions,
    bleu: Annotated[bool, typer.Option("--bleu", help="BLEU against what the texts say, too.")] = False,
    beam: Annotated[int, typer.Option(min=1, help="How wide the search is.")] = 5,
    judge: Annotated[
        list[Path] | None,
        typer.Option(help="Pairs that the judge learns from, not the model's; the model's validation text by default."),
    ] = None,
    lowercase: options.AsTheModel = None,
    format: options.TextFormat = "auto",
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """What models write from the conditions of texts: facts said, missing, contradicted, repeated, invented.

    A condition is the input that a text is generated from, such as a dialogue act with slots. Prints, for each model
    and text, how many facts of each kind a judge finds in the sentences, who learnt from pairs that the model has not
    seen (--judge); exits with 2 on an error.

    Example: llrnn model written runs/waiter test.jsonl --bleu
    """
    from llrnn.inference.meanings import told_scores, written_scores
    from llrnn.inference.saying import Judge

    results = []
    for folder, model, file in _each(models, asked, device):
        corpus, pairs = options.read_for(model, file, format, lowercase), _judging_pairs(model, judge, lowercase)
        own = Judge.fit(pairs, corpus.conditions)
        found = written_scores(model, corpus, own, beam=beam, against_references=bleu)
        found |= {"judge": f"{len(pairs):,} pairs of {pairs.name}"}
        results.append({"model": str(folder), "text": str(file), **found})
        if not as_json:
            show.text(f"{folder} on {file}, {told_scores(found)}")
    if as_json:
        options.print_json(results)
