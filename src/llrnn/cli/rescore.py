"""`llrnn rescore`: the hypotheses of a recogniser chosen anew, with a model's score beside its own."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import llrnn
from llrnn.cli import options, show
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import STANDARD
from llrnn.text.encoded import Oov
from llrnn.text.readers import read_lines

if TYPE_CHECKING:
    from llrnn.inference.lattices import Lattice, LatticeScores
    from llrnn.inference.nbest import Errors, NBestLists, References
    from llrnn.inference.rescoring import Hotwords, Rescored, SharedScores, Weights

    Search = partial[LatticeScores]  # of a lattice, as the options say

NAME, HOTWORDS = "llrnn", "hotwords"  # of the scores that are added


def rescore_verb(
    context: typer.Context,
    model: options.AnyModel,
    nbest: Annotated[
        Path,
        typer.Argument(
            help="N-best lists, - for standard input: utterance TAB hypothesis TAB score ...", callback=options.a_text
        ),
    ],
    references: Annotated[
        Path | None, typer.Option(help="What was said, for the error rates: utterance word ...")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Other n-best lists, to find the weights on.")] = None,
    dev_references: Annotated[Path | None, typer.Option(help="What was said there.")] = None,
    weights: Annotated[
        str | None, typer.Option(help=f"Fixed weights: am=1,lm=0.5,{NAME}=0.8,words=0.1 (words: for each word).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The lists with the new score, best first: .tsv, .tsv.gz, or - for standard output."),
    ] = None,
    hotwords: Annotated[
        Path | None,
        typer.Option(help="Names that may well be said, one a line: one more score, the words of those that are."),
    ] = None,
    lattices: Annotated[bool, typer.Option("--lattices", help="NBEST has word lattices: Kaldi's text.")] = False,
    paths: Annotated[int, typer.Option(min=1, help="Of lattices: how many paths are listed.")] = 10,
    beam: Annotated[
        float, typer.Option(help="Of lattices: paths that are worse by more are cut off; by default none is.")
    ] = math.inf,
    merge: Annotated[
        int | None, typer.Option(min=1, help="Of lattices, for networks: histories with the same last words are one.")
    ] = None,
    oov: options.OovPolicy = None,
    device: options.Device = "cpu",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Rescore n-best lists with a model: word error rates.

    The hypotheses of a speech recogniser are ranked by a weighted sum of their scores and the model's log-probability;
    weights are given, or tuned on --dev. Prints weights and word error rates (with --references), or the best
    hypothesis of each utterance; exits with 2 where files or options do not fit together.

    \b
    Example: llrnn rescore runs/french nbest.tsv --references ref.txt --dev dev.tsv --dev-references devref.txt
    Example: zcat nbest.tsv.gz | llrnn rescore corpus.arpa - --out - --oov skip
    Example: llrnn rescore runs/french lattices.txt --lattices --weights am=0.1,lm=0,llrnn=1 --paths 100 --out best.tsv
    """
    if dev is None:
        options.refuse_idle(context, "without --dev, on which weights are tuned", "seed")
    if (dev is None) != (dev_references is None):
        raise ConfigError("--dev and --dev-references belong together, found one of them; give both or neither")
    if dev is not None and weights is not None:
        raise ConfigError("weights are given by --weights or found on --dev, found both; leave one out")
    if out is not None:
        options.require_output_file(out)
    policy = options.oov_policy(oov)
    if lattices and hotwords is not None:
        raise ConfigError(
            "--hotwords are a score of lists, found --lattices; write --paths to a list, and rescore that"
        )
    if not lattices:
        options.refuse_idle(context, "without --lattices", "paths", "beam", "merge")
    from llrnn.inference.lattices import rescore_lattice
    from llrnn.inference.nbest import write_nbest
    from llrnn.inference.rescoring import Hotwords, Weights, rescore, tune
    from llrnn.model.checkpoint import open_model

    given = None if weights is None else Weights.parse(weights)
    names = None if hotwords is None else Hotwords(line for _, line in read_lines(hotwords))
    more = () if names is None else (HOTWORDS,)
    search = partial(rescore_lattice, name=NAME, n=paths, beam=beam, merge=merge) if lattices else None
    test = _Part.read(nbest, references, search)
    for name in {NAME, *more} & {*test.lists.names}:
        raise ConfigError(f"{nbest}: the scores must leave the name {name!r} to us, found it; rename the column")
    development = None if dev is None else _Part.read(dev, dev_references, search)
    if development is not None and development.lists.names != test.lists.names:
        raise ConfigError(
            f"--dev {dev}: {test.lists.names} are required as in {nbest}, found {development.lists.names}"
        )
    if given is not None:
        given.for_scores((*test.lists.names, NAME, *more))  # before the work, so that none is lost
    loaded = open_model(model, oov=policy if lattices else None).to(options.device_named(device))
    chosen, origin = given, "given"
    if development is not None and development.references is not None:
        tuned = tune(_with(names, development.scored(loaded, policy, None)[0]), development.references, seed=seed)
        chosen, origin = tuned.weights, f"tuned on {dev}, error rate {tuned.errors.rate:.2%} there"
    scored, shared = test.scored(loaded, policy, chosen)
    scored = _with(names, scored)
    result = rescore(scored, {}, chosen)
    if out is not None:
        write_nbest(out, result.lists)
    rates = {} if test.references is None else _errors(scored, result, test.references)
    if shared.cut:
        show.note(_told_cut(shared.cut))
    if as_json:
        options.print_json(_described_choice(result, shared, rates, origin if chosen else "equal"))
        return
    said = origin if chosen else "equal, 1 for each score; --dev finds better ones"
    with redirect_stdout(sys.stderr if str(out) == STANDARD else sys.stdout):
        _show_choice(result, shared, rates, said)
    if out is not None and str(out) != STANDARD:
        show.text(f"lists: {out}")
    elif out is None and test.references is None:
        for utterance, words in result.best.items():
            show.line(" ".join((utterance, *words)))


def _with(names: Hotwords | None, scored: NBestLists) -> NBestLists:
    """Return the n-best lists with one more score "hotwords": the words of the names that a hypothesis has, by `names`.

    The lists themselves are returned where `names` is None.
    """
    from llrnn.inference.rescoring import add_scores

    return scored if names is None else add_scores(scored, {HOTWORDS: names})


@dataclass(frozen=True)
class _Part:
    """What is rescored: n-best lists, or word lattices from which lists are made, with transcripts if given.

    `lists`: for lattices, one empty hypothesis for each utterance; `references`: what was said, or None; `lattices`: a
    sequence of them, () for lists; `search`: a function called as `search(model, lattice, weights=…, oov=…)`, which
    returns the best paths of a lattice as `LatticeScores`, None for lists.
    """

    lists: NBestLists
    references: References | None
    lattices: Sequence[Lattice] = ()
    search: Search | None = None

    @classmethod
    def read(cls, nbest: Path, references: Path | None, search: Search | None) -> _Part:
        """Read the file `nbest`: n-best lists or, where `search` is given, word lattices, to be searched by it.

        `references`: a file of what was said, or None. A ConfigError is raised where an utterance has no reference.
        """
        from llrnn.inference.lattices import NAMES, read_lattices
        from llrnn.inference.nbest import Hypothesis, NBest, NBestLists, read_nbest, read_references

        lattices = [] if search is None else read_lattices(nbest)
        if search is not None:  # the lists are found later: they depend on the weights
            lists = NBestLists(NAMES, tuple(NBest(one.utterance, (Hypothesis((), (0.0, 0.0)),)) for one in lattices))
        else:
            lists = read_nbest(nbest)
        known = {entry.utterance for entry in lists}
        found = None if references is None else read_references(references, known)
        missing = sorted(known - {*found}) if found is not None else []
        if missing:
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise ConfigError(
                f"{references}: a reference for every utterance of {nbest} is required, found none for {missing[0]!r}"
                f"{more}; add its line, or take it out of {nbest}"
            )
        return cls(lists, found, lattices, search)

    def scored(self, model: llrnn.LLRNN, oov: Oov | None, weights: Weights | None) -> tuple[NBestLists, SharedScores]:
        """Return n-best lists with the model's log-probabilities as the last score, "llrnn", and counts of the work.

        `oov`: what to do with unknown words. From lattices, the best paths by `weights` are listed; None is 1 for each
        score. Lists keep their hypotheses and order, and `weights` are not used.
        """
        from llrnn.inference.lattices import NAMES
        from llrnn.inference.nbest import NBestLists
        from llrnn.inference.rescoring import SharedScores, Weights, score_lists, unknown_words

        if self.search is None:
            with options.advising_oov(oov):
                found = score_lists(model, self.lists.lists, oov=oov)
            return self.lists.with_scores(NAME, found.log_probs), found
        weights = weights or Weights(dict.fromkeys((*NAMES, NAME), 1.0))
        done = [self.search(model, one, weights=weights, oov=oov) for one in self.lattices]
        lists = NBestLists((*NAMES, NAME), tuple(one.best for one in done))
        alone = sum(len(h.words) + 1 for entry in lists for h in entry.hypotheses)
        oovs = unknown_words(model, lists)
        cut = {one.best.utterance: one.cut for one in done if one.cut}
        return lists, SharedScores([], sum(one.steps for one in done), alone, oovs, cut)


def _told_cut(cut: Mapping[str, int]) -> str:
    """Return a warning that names lattices in which hypotheses were cut off, so that a better path may be lost.

    `cut`: the number of hypotheses that were cut off, by utterance; not empty.
    """
    from llrnn.inference.lattices import MOST_ARCS

    names = ", ".join([*cut][:4]) + (", ..." if len(cut) > 4 else "")
    limits = " and ".join(f"{most:,} arcs ({kind})" for kind, most in MOST_ARCS.items())
    return (
        f"note: {sum(cut.values()):,} histories of {len(cut):,} lattices ({names}) were cut off, by --beam or beyond "
        f"{limits}: a path that was cut may be better"
    )


def _errors(scored: NBestLists, result: Rescored, references: References) -> dict[str, Errors]:
    """Return the word errors of the hypotheses that are chosen by each score alone, by all together, and at best.

    `scored`: the lists; `result`: their ranking by all scores; `references`: what was said. Keys: "NAME alone" for each
    score, "rescored", and "oracle", the hypotheses with the fewest errors.
    """
    from llrnn.inference.nbest import errors_of_lists, oracle
    from llrnn.inference.rescoring import Weights

    counted = errors_of_lists(scored, references)
    alone = {f"{name} alone": Weights.only(name, scored.names).errors(scored, counted) for name in scored.names}
    return {**alone, "rescored": result.errors(references), "oracle": oracle(counted)}


def _described_choice(result: Rescored, shared: SharedScores, rates: dict[str, Errors], origin: str) -> dict[str, Any]:
    return {
        "weights": result.weights,
        "weights_from": origin,
        "utterances": len(result.lists),
        "hypotheses": result.lists.n_hypotheses,
        "steps": shared.steps,
        "steps_without_sharing": shared.steps_without_sharing,
        "oovs": dict(shared.oovs),
        "cut": dict(shared.cut),
        "errors": {name: {**asdict(errors), "rate": errors.rate} for name, errors in rates.items()},
        "best": {utterance: " ".join(words) for utterance, words in result.best.items()},
    }


def _show_choice(result: Rescored, shared: SharedScores, rates: dict[str, Errors], origin: str) -> None:
    sizes = f"{len(result.lists):,} utterances, {result.lists.n_hypotheses:,} hypotheses"
    prefixes = f"shared prefixes: {shared.steps:,} steps instead of {shared.steps_without_sharing:,}"
    show.out.print(f"{sizes}; {prefixes if shared.log_probs else f'lattices: {shared.steps:,} steps'}")
    if shared.oovs:
        words = ", ".join(map(repr, [*shared.oovs][:4])) + (", ..." if len(shared.oovs) > 4 else "")
        show.out.print(f"OOVs: {sum(shared.oovs.values()):,} words of {len(shared.oovs):,} types: ", end="")
        show.text(words)
        if all(word.isdigit() for word in shared.oovs):
            show.note(
                "note: these are numbers; if they are Kaldi's for words, write words: int2sym.pl -f FIELD words.txt"
            )
    show.text(f"weights ({origin}): {result.weights}")
    if rates:
        rows = [["chosen by", "word error rate", "substitutions", "deletions", "insertions", "words"]]
        for name, errors in rates.items():
            counts = (errors.substitutions, errors.deletions, errors.insertions, errors.words)
            rows.append([name, f"{errors.rate:.2%}", *(f"{count:,}" for count in counts)])
        show.table(*rows)
