"""Rescoring n-best lists: a model chooses among what a recogniser thought possible.

    lists = read_nbest("nbest.tsv")
    scored = add_scores(lists, {"llrnn": ModelScorer(model)})           each distinct prefix is scored once
    weights = tune(scored_dev, read_references("dev.txt")).weights      fewest word errors on a development set
    result = rescore(lists, {"llrnn": ModelScorer(model)}, weights)     result.best["utt7"], result.lists

log p of every hypothesis, its end included:

    log p(h) = Σ_t log p(h_t | h_1 … h_{t-1})           il ─┬─ dort ─── EOS        5 steps for 3 hypotheses
                                                                └─ dors ─┬─ EOS        of 10 words and ends
                                                                         └─ bien ── EOS

The hypotheses of a list differ in a few words, so their prefixes form a slim tree. It is walked level by level: the
rows of a level are the distinct prefixes of that length, `ModelState.select` hands the parents' states down, and one
`model.step` feeds all of them. Lists that are scored together share one tree.

Weights of several scores, chosen so that a development set has the fewest word errors.

    total(h) = Σ_i w_i · score_i(h) + words · |h|                        the hypothesis of the highest total is chosen

As one weight x moves and the others stay, the total of a hypothesis is a line a + b·x, and what is chosen is the
upper envelope of the lines of its list. The errors are therefore constant between the crossings, and their sum over
all lists is known exactly for every x at once (Och 2003, minimum error rate training). Weights are improved one after
the other until none helps, from several starts. Scores keep weights of at least 0, as higher is better; `words` may
be anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError, CorpusError, UnknownWordError, warn
from llrnn.inference.nbest import WORDS, Errors, NBest, NBestLists, References, Words, errors_of_lists
from llrnn.inference.term_score import TermScore
from llrnn.knowledge.backgrounds.ngram import NGram
from llrnn.knowledge.process import ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.numerics import MINUS_INFINITY, require_numbers
from llrnn.model import decode
from llrnn.model.controllers import evaluating
from llrnn.model.network import LLRNN
from llrnn.model.scoring import sentence_log_probs
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText, Oov, look_up
from llrnn.text.vocabulary import EOS

__all__ = [
    "Hotwords", "ModelScorer", "Rescored", "SharedScores", "Tuned", "Weights", "add_scores", "rescore", "score_lists",
    "score_sentences", "tune",
]  # fmt: skip

Scorer = Callable[[Sequence[NBest]], list[list[float]]]  # one logarithm for each hypothesis of each list
_Node = tuple[int, int]  # the row of its parent in the level above, and the word that leads here


@dataclass(frozen=True)
class SharedScores:
    """log p in nats of every hypothesis j of every list i, `log_probs[i][j]`, and how much work sharing prefixes saved.

    `steps`: distinct prefixes that the model read; `steps_without_sharing`: words and ends of all hypotheses; `oovs`:
    {word: count} of words that the model does not list; `cut`: of lattices, {utterance: how many histories were
    pruned}.

        score_lists(model, lists).log_probs[0][1]  # of the second hypothesis of the first list
    """

    log_probs: list[list[float]]
    steps: int  # distinct prefixes
    steps_without_sharing: int  # words and ends
    oovs: Mapping[str, int] = field(default_factory=dict)  # words that the model does not list
    cut: Mapping[str, int] = field(default_factory=dict)  # of lattices: histories that were cut off, by utterance


@dataclass(frozen=True)
class ModelScorer:
    """A scorer of n-best lists by a model: called with lists, it returns log p (nats) of each hypothesis of each list.

    `rows`: about how many hypotheses are scored in a batch; `conditions`: {utterance: the input that the model reads
    with it}, such as a question before an answer, a topic or a user; None for models without. A call raises CorpusError
    where an utterance has no condition. The result is a list of floats for each list, `scorer(lists)[i][j]`.

        ModelScorer(model, conditions={"utt7": "what kind of food would you like ?"})
    """

    model: LLRNN
    rows: int = 1024
    conditions: Mapping[str, object] | None = None

    def __call__(self, lists: Sequence[NBest], /) -> list[list[float]]:
        if self.conditions is None:
            return score_lists(self.model, lists, rows=self.rows).log_probs
        missing = next((entry.utterance for entry in lists if entry.utterance not in self.conditions), None)
        if missing is not None:
            raise CorpusError(f"every utterance needs a condition, found none for {missing!r}; add it")
        return _conditioned(self.model, lists, self.conditions)


def _conditioned(model: LLRNN, lists: Sequence[NBest], conditions: Mapping[str, object]) -> list[list[float]]:
    """Return log p in nats of hypothesis j of list i, as `result[i][j]`, given the condition of its utterance.

    `conditions`: {utterance: the input that the model reads with it}.
    """
    said = Corpus.from_sentences([read_again(model, h.words) for entry in lists for h in entry.hypotheses])
    asked = [decode.in_model_words(model, conditions[entry.utterance]) for entry in lists for _ in entry.hypotheses]
    joined = [replace(sentence, condition=one) for sentence, one in zip(said, asked, strict=True)]
    text = EncodedText.encode(Corpus.from_sentences(joined), model.vocabulary)
    with torch.no_grad(), evaluating(model):
        total = iter([float(own.sum()) for own in sentence_log_probs(model, text)])
    return [[next(total) for _ in entry.hypotheses] for entry in lists]


class Hotwords:
    """A scorer of n-best lists that counts, in each hypothesis, the words of the given names (hotwords) in it.

    Called with lists, it returns these counts for each hypothesis of each list. Names are of one word or several, and
    are matched as terms are (`TermScore`): each occurrence of a name counts its words, also where names overlap, and a
    word may begin and end at an apostrophe or hyphen within a word of the hypothesis (`or` is in `d'or`). The weight of
    this score among others is found by `tune`, or given. Raises ConfigError for no names.

        rescore(lists, {"llrnn": ModelScorer(model), "hotwords": Hotwords(["chez paul", "la tour d'or"])})
    """

    def __init__(self, names: Iterable[str]) -> None:
        found = sorted((len(name.split()), name) for name in names if name.strip())
        by_length = {f"{n}": [name for _, name in own] for n, own in groupby(found, lambda pair: pair[0])}
        if not by_length:
            raise ConfigError("at least one name is required as a hotword, found none; give one a line")
        self._score = TermScore(by_length, {length: float(length) for length in by_length})

    def __call__(self, lists: Sequence[NBest], /) -> list[list[float]]:
        return [[self._score.total(h.words) for h in entry.hypotheses] for entry in lists]


def score_lists(model: LLRNN, lists: Sequence[NBest], *, rows: int = 1024, oov: Oov | None = None) -> SharedScores:
    """Return log p in nats of every hypothesis of n-best lists under a model, scoring common prefixes once.

    `rows`: about how many hypotheses are in a batch; `oov`: words outside the vocabulary add nothing (`skip`), are read
    as the unknown-word symbol (`unk`), or are an UnknownWordError (`error`); None: `unk` where the model has that
    symbol, else `error`.

        score_lists(model, lists, oov="skip").log_probs
    """
    named: list[tuple[str, Sequence[Words]]] = [
        (f"utterance {entry.utterance}", [h.words for h in entry.hypotheses]) for entry in lists
    ]
    missing = unknown_words(model, lists)
    if missing and oov is not None:
        named = _treated(model, named, missing, oov)
    found = score_sentences(model, named, rows=rows, called="hypotheses")
    return found if not missing else replace(found, oovs=missing)


def read_again(model: LLRNN, words: Sequence[str]) -> tuple[str, ...]:
    """Return words that stood between blanks as the model reads them, lowercased where it was trained so.

    A model of raw text, which cuts text itself (`model.cuts_text`), may cut them into other words.
    """
    return model.read(" ".join(words) if model.cuts_text else words)


def unknown_words(model: LLRNN, lists: Iterable[NBest]) -> Counter[str]:
    """Return {word: count} of words of n-best lists that the model does not list; empty for models that spell words."""
    vocabulary = model.vocabulary
    if vocabulary.is_open or vocabulary.units is not None:
        return Counter()
    words = Counter(chain.from_iterable(h.words for entry in lists for h in entry.hypotheses))
    return Counter(
        {word: n for word, n in words.items() if any(w not in vocabulary for w in read_again(model, [word]))}
    )


def _treated(
    model: LLRNN, named: Sequence[tuple[str, Sequence[Words]]], missing: Counter[str], oov: Oov
) -> list[tuple[str, Sequence[Words]]]:
    """Return the hypotheses of each list without unknown words (`oov="skip"`), or unchanged (`unk`).

    `error` raises UnknownWordError, and `unk` ConfigError where the model has no symbol for them. `named`: for each
    list its name for messages and the words of its hypotheses, which is also the form of the result; `missing`: the
    unknown words, at least one.
    """
    place, first = next((name, word) for name, own in named for words in own for word in words if word in missing)
    others, unknown = [word for word in missing if word != first], model.vocabulary.unknown
    if oov == "error":
        raise UnknownWordError(first, size=len(model.vocabulary), place=place, others=others)
    if oov == "unk" and unknown is None:
        raise ConfigError(f"--oov unk: {place}: the model has no symbol for words such as {first!r}; take --oov skip")
    if oov == "unk":
        return [*named]
    return [(name, [tuple(word for word in words if word not in missing) for words in own]) for name, own in named]


def score_sentences(
    model: LLRNN,
    groups: Sequence[tuple[str, Sequence[Words]]],
    *,
    rows: int = 1024,
    called: str = "sentences",
    open_ended: Container[int] = (),
) -> SharedScores:
    """Return log p (nats) of the sentences of each group, ends included, scoring common prefixes within a batch once.

    `log_probs[i][j]` of the result is that of sentence j of group i. `groups`: pairs of a name, for messages, and
    sentences; `rows`: about how many sentences are in a batch; `called`: what messages call the sentences;
    `open_ended`: indices of groups whose sentences are beginnings, scored without an end. An
    impossible sentence has log p = −infinity. Words are lowercased first where the model was trained so. Raises
    UnknownWordError for a word outside a vocabulary without an unknown-word symbol.

        score_sentences(model, [("first", [("elle", "dort"), ("elle", "dorment")])]).log_probs
    """
    if rows < 1:
        raise ConfigError(f"rows must be 1 or more, found {rows}")
    groups = [(name, [read_again(model, words) for words in own]) for name, own in groups]
    located = _locate_words(model, groups, called)
    log_probs: list[list[float]] = [[] for _ in groups]
    steps = steps_without_sharing = 0
    for together in _split([own for _, own in groups], rows):
        sentences = [[located[word] for word in words] for i in together for words in groups[i][1]]
        levels, ends = _prefix_tree([[symbol for symbol, _ in sentence] for sentence in sentences])
        closed = [i not in open_ended for i in together for _ in groups[i][1]]
        with torch.no_grad(), evaluating(model):
            found = iter(_log_probs(model, levels, zip(ends, closed, strict=True)))
        inside = iter(sum(log_inside for _, log_inside in sentence) for sentence in sentences)
        for i in together:
            log_probs[i] = [next(found) + next(inside) for _ in groups[i][1]]
        steps += sum(map(len, levels))
        steps_without_sharing += sum(len(sentence) + 1 for sentence in sentences)
    return SharedScores(log_probs, steps, steps_without_sharing)


def _split(groups: Sequence[Sequence[Words]], rows: int) -> list[list[int]]:
    """Return for each batch the list of indices of the groups that are scored in it, about `rows` sentences together.

    Groups are sorted by their longest sentence, so that those of a batch are of similar length; a group is not split.
    """
    order = sorted(range(len(groups)), key=lambda i: max(map(len, groups[i]), default=0))
    filled = accumulate(len(groups[i]) for i in order)
    parts = groupby(zip(order, filled, strict=True), lambda found: (found[1] - 1) // rows)
    return [[i for i, _ in part] for _, part in parts]


def _locate_words(
    model: LLRNN, groups: Sequence[tuple[str, Sequence[Words]]], called: str
) -> dict[str, tuple[int, float]]:
    """Return {word: (its symbol's id, its log p given the symbol)} for all words; the log p is 0 for a listed word.

    Warns of words that are read as the unknown-word symbol. `groups`: pairs of a name, for messages, and sentences;
    `called`: what messages call the sentences. Raises CorpusError for the end-of-sentence mark as a word.
    """
    vocabulary, texts = model.vocabulary, [(name, [*chain.from_iterable(own)]) for name, own in groups]
    for name in (name for name, words in texts if EOS in words):
        raise CorpusError(f"{name}: {EOS} marks the end of a sentence, found it as a word; take it out")
    located = look_up(texts, vocabulary)
    missing = [] if vocabulary.is_open else [word for word in located if word not in vocabulary]
    if missing:
        listed = ", ".join(map(repr, missing[:4])) + (", ..." if len(missing) > 4 else "")
        of_ngrams = isinstance(model.background, NGram)
        cure = "estimate the n-grams with them" if of_ngrams else "list them with `llrnn words add`"
        warn(
            f"{len(missing):,} of {len(located):,} distinct words of the {called} are not in the vocabulary and count "
            f"as {vocabulary.unknown}: {listed}; {cure}, or take a model with domains"
        )
    return located


def _prefix_tree(sentences: Sequence[Sequence[int]]) -> tuple[list[list[_Node]], list[tuple[int, int]]]:
    """Return the prefix tree of sentences of symbol ids, level by level, and the place of each sentence in it.

    Level n is a list with a node (row of the parent in level n − 1, symbol) for each distinct prefix of n symbols, in
    the order in which they first occur; level 0 is [(0, 0)], the empty prefix. A place is (level, row).
    """
    levels: list[dict[_Node, int]] = [{(0, 0): 0}]  # the empty prefix; its word does not matter
    levels += [{} for _ in range(max(map(len, sentences), default=0))]
    ends = []
    for sentence in sentences:
        row = 0
        for level, word in zip(levels[1:], sentence, strict=False):
            row = level.setdefault((row, word), len(level))
        ends.append((len(sentence), row))
    return [list(level) for level in levels], ends


class StateRows:
    """States of a model after several word histories of the same length, one row each, with p of the next word.

    `begin(model)` has one row, the start of a sentence; `advance` reads a further word, `log_probs` asks for p.
    """

    def __init__(self, model: LLRNN, state: ModelState, distribution: Distribution) -> None:
        self._model, self._state, self._distribution = model, state, distribution

    @classmethod
    def begin(cls, model: LLRNN) -> StateRows:
        distribution, state = model.step(model.start(), [model.vocabulary.eos])
        return cls(model, state, distribution)

    def log_probs(self, row: Ints, word: Ints) -> Floats:
        """Return log p of each symbol id `word[i]` after the history of row `row[i]`, (N,); −∞ if impossible."""
        order, device, found = np.argsort(row, kind="stable"), self._model.device, np.empty(len(row))
        asked = torch.from_numpy(word[order]).to(device), torch.from_numpy(row[order]).to(device)
        log_p = self._distribution.log_prob(*asked).double()
        if not bool(log_p.isfinite().all()):
            require_numbers(self._distribution.log_total)
        # NaN is minus infinity less minus infinity: nothing at all can follow
        found[order] = log_p.nan_to_num(nan=MINUS_INFINITY, neginf=MINUS_INFINITY).cpu().numpy()
        return found

    def advance(self, row: Ints, word: Ints) -> StateRows:
        """Return the states after one more symbol: new row i is the history of row `row[i]`, then symbol `word[i]`."""
        distribution, state = self._model.step(self._state.select(row.tolist()), word.tolist())
        return StateRows(self._model, state, distribution)


def _log_probs(
    model: LLRNN, levels: Sequence[Sequence[_Node]], ends: Iterable[tuple[tuple[int, int], bool]]
) -> list[float]:
    """Return log p in nats of each sentence of a prefix tree, in the order of `ends`; each prefix is read once.

    `levels`: the tree, as `_prefix_tree` returns it; `ends`: for each sentence its place (level, row), and whether p of
    the end of the sentence is included.
    """
    places, ended, read = list(ends), list[dict[int, float]](), list[list[float]]()
    log_p, rows = np.zeros(1), StateRows.begin(model)  # of the prefixes of this level
    for level, nodes in enumerate([*levels[1:], ()]):
        stop = sorted({row for (own, row), closed in places if closed and own == level})
        asked = [*((row, model.vocabulary.eos) for row in stop), *nodes]
        parent, word = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        reached = log_p[parent] + (rows.log_probs(parent, word) if asked else 0.0)
        ended.append(dict(zip(stop, reached.tolist(), strict=False)))
        read.append(log_p.tolist())
        log_p = reached[len(stop) :]
        rows = rows.advance(parent[len(stop) :], word[len(stop) :]) if nodes else rows
    return [ended[level][row] if closed else read[level][row] for (level, row), closed in places]


# Weights of several scores, chosen so that a development set has the fewest word errors.


FLOOR = -1e6  # the score of what is impossible: below any other, but a number that can be weighed
_NARROW = 1e-9  # an interval that rounding could miss
_SWEEPS = 100


class Weights(dict[str, float]):
    """A dict {name of a score: its weight}, whose last key `words` is the weight of the number of words (0 by default).

    The total of a hypothesis is Σ weight · score + weight of words · number of words. Raises ConfigError for a weight
    that is not finite.

        Weights({"am": 1.0, "lm": 0.5, "words": 0.1})
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        scores = {name: weight for name, weight in weights.items() if name != WORDS}
        super().__init__({**scores, WORDS: weights.get(WORDS, 0.0)})
        if not all(map(math.isfinite, self.values())):
            raise ConfigError(f"weights must be finite numbers, found {self}")

    @classmethod
    def only(cls, name: str, names: Sequence[str]) -> Weights:
        """Return weights of 1 for the score called `name`, and of 0 for all others of `names` and for `words`."""
        return cls({other: float(other == name) for other in names})

    @classmethod
    def parse(cls, text: str) -> Weights:
        """Return the weights in a text such as `am=1,lm=0.5,words=0.1`: any names, each once, with finite numbers.

        A name that is not there has no weight, which counts as 0. Raises ConfigError for anything else.
        """
        found: dict[str, float] = {}
        for part in text.split(","):
            name, sign, value = (piece.strip() for piece in part.partition("="))
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not (name and sign and math.isfinite(number)) or name in found:
                raise ConfigError(f"weights are written am=1,lm=0.5,{WORDS}=0.1, each once, found {part!r} in {text!r}")
            found[name] = number
        return cls(found)

    def __str__(self) -> str:
        return ",".join(f"{name}={value:.6g}" for name, value in self.items())

    def for_scores(self, names: Sequence[str]) -> Weights:
        """Return a copy of these weights in the order of the score names `names`, the weight of `words` last.

        Raises ConfigError unless exactly these scores have a weight (besides `words`, which is 0 by default).
        """
        own = [name for name in self if name != WORDS]
        if {*names} != {*own}:
            raise ConfigError(
                f"a weight for each score is required ({', '.join(names)}), found {', '.join(own) or 'none'}; "
                "0 leaves a score out"
            )
        return Weights({name: self[name] for name in (*names, WORDS)})

    def totals(self, entry: NBest) -> Floats:
        """Return Σ weight · score + weight of words · number of words for each of the N hypotheses of a list, (N,).

        The scores must be in the order of these weights (see `for_scores`); those below −1e6 count as −1e6.
        """
        return np.asarray(_rows(entry) @ np.array([*self.values()]), dtype=np.float64)

    def choose(self, entry: NBest) -> int:
        """Return the index of the hypothesis with the highest weighted sum of scores; of equal ones the first."""
        return int(self.totals(entry).argmax())

    def errors(self, lists: NBestLists, counted: Sequence[Sequence[Errors]]) -> Errors:
        """Return the summed word errors of the hypotheses of highest total by these weights, one in each list.

        `counted[i][j]`: the errors of hypothesis j of list i, from `errors_of_lists`.
        """
        return sum((own[self.choose(entry)] for entry, own in zip(lists, counted, strict=True)), Errors())


def _rows(entry: NBest) -> Floats:
    """Return a row for each of N hypotheses, (N, F) float64: its scores and, last, its number of words.

    Scores below −1e6, also −∞, become −1e6.
    """
    rows = np.array([[*h.scores, float(len(h.words))] for h in entry.hypotheses])
    floored: Floats = np.maximum(rows, FLOOR)
    return floored


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """N-best lists as arrays: L lists of N hypotheses with F numbers each, their scores and last the number of words.

    `values` (L, N, F) float64; `errors` (L, N) int: word errors of each hypothesis. Made by `ScoreTable.of(lists,
    errors)`. Shorter lists are padded by repeating their last hypothesis, which changes nothing, since the first of
    equal ones is chosen.
    """

    values: Floats  # (L, N, F)
    errors: Ints  # (L, N)

    @classmethod
    def of(cls, lists: NBestLists, errors: Sequence[Sequence[Errors]]) -> ScoreTable:
        N = max(len(entry.hypotheses) for entry in lists)
        index = [np.minimum(np.arange(N), len(entry.hypotheses) - 1) for entry in lists]
        values = np.stack([_rows(entry)[own] for entry, own in zip(lists, index, strict=True)])
        return cls(values, np.array([[one[i].total for i in own] for one, own in zip(errors, index, strict=True)]))

    def errors_at(self, weights: Floats) -> int:
        """Return the summed word errors of the hypotheses of highest total by `weights` (F,), one in each list."""
        chosen = (self.values @ weights).argmax(1)
        return int(self.errors[np.arange(len(chosen)), chosen].sum())

    def along(self, weights: Floats, coordinate: int) -> StepFunction:
        """Return the summed word errors of the chosen hypotheses as a function of one weight, the others fixed.

        `weights` (F,); `coordinate`: the index of the weight that varies.
        """
        others = weights.copy()
        others[coordinate] = 0.0
        return errors_along(self.values @ others, self.values[:, :, coordinate], self.errors)


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A piecewise constant function of x: `errors[i]` between `edges[i − 1]` and `edges[i]`, unbounded at both ends.

    `edges` (E,): rising floats; `errors` (E + 1,): ints, the first for x below `edges[0]`, the last for x above the
    last edge.
    """

    edges: Floats  # (E,) rising
    errors: Ints  # (E + 1,)

    def lowest(self, least: float = -math.inf) -> tuple[float, int] | None:
        """Return (x, errors) where errors are fewest: x is the middle of the widest such interval at or above `least`.

        An interval without end is taken to end 2 beyond its edge, so that x is 1 beyond the edge; one around `least` is
        taken to begin there. None where no interval is wider than rounding.
        """
        edges = np.maximum(self.edges, least)
        low = np.concatenate([[max(least, edges[0] - 2.0) if len(edges) else max(least, -1.0)], edges])
        high = np.concatenate([edges, [low[-1] + 2.0]])
        wide = high - low > _NARROW * np.maximum(1.0, np.abs(low))
        if not wide.any():
            return None
        fewest = self.errors[wide].min()
        best = int(np.where(wide & (self.errors == fewest), high - low, -np.inf).argmax())
        return float((low[best] + high[best]) / 2), int(fewest)


def errors_along(a: Floats, b: Floats, errors: Ints) -> StepFunction:
    """Return, as a function of x, the summed errors of the hypotheses with the highest a + b·x, one in each of L lists.

    `a`, `b`, `errors`: (L, N), of N hypotheses in each list. The method follows the upper envelopes of the lines
    a + b·x, of all lists at once (Och 2003).
    """
    every = np.arange(len(a))
    line = np.where(b == b.min(1, keepdims=True), a, -np.inf).argmax(1)
    at = np.full(len(a), -np.inf)
    start, places, changes = int(errors[every, line].sum()), [], []
    while True:
        rise = b - b[every, line][:, None]
        gap = a[every, line][:, None] - a
        with np.errstate(over="ignore"):  # all but parallel: they cross at infinity
            crossing = np.divide(gap, rise, out=np.full_like(gap, np.inf), where=rise > 0)
        first = crossing.min(1)
        going = np.flatnonzero(first < np.inf)
        if not len(going):
            break
        after = crossing.argmin(1)  # where several cross in one place, the others follow there
        at[going] = np.maximum(at[going], first[going])  # rounding must not send x back
        places.append(at[going].copy())
        changes.append(errors[going, after[going]] - errors[going, line[going]])
        line[going] = after[going]
    edges, where = np.unique(np.concatenate([[], *places]), return_inverse=True)
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, where, np.concatenate([np.zeros(0, np.int64), *changes]))
    return StepFunction(edges, start + np.concatenate([[0], np.cumsum(change)]))


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`: the weights of scores it found, and the word errors that they leave on its own lists.

    `weights`: a `Weights`; `errors`: an `Errors`, summed over the lists.

        rescore(lists, scorers, weights=tune(add_scores(dev, scorers), references).weights)
    """

    weights: Weights
    errors: Errors


def tune(lists: NBestLists, references: References, *, seed: int = 0, restarts: int = 8) -> Tuned:
    """Return the weights of scores with the fewest word errors on n-best lists, found by MERT (Och 2003).

    One weight after the other is set to its optimum, from several starts: each score alone, all alike, and `restarts`
    random points drawn by `seed`. `references`: {utterance: the words that were said}; raises CorpusError where one is
    missing.

        tune(add_scores(lists, {"llrnn": ModelScorer(model)}), read_references("dev.txt")).weights
    """
    counted = errors_of_lists(lists, references)
    table = ScoreTable.of(lists, counted)
    starts = _starts(lists, np.random.default_rng(seed), restarts)
    best = min((_improved(table, start) for start in starts), key=table.errors_at)
    weights = Weights(dict(zip((*lists.names, WORDS), best.tolist(), strict=True)))
    return Tuned(weights, weights.errors(lists, counted))


def _starts(lists: NBestLists, rng: np.random.Generator, restarts: int) -> list[Floats]:
    F = len(lists.names) + 1
    alone, alike = np.eye(F)[:-1], np.array([*[1.0] * (F - 1), 0.0])
    # how far each number differs within lists: weights are drawn so that each score has its say
    spread = np.sqrt(np.mean([_rows(entry).var(0) for entry in lists], 0))
    drawn = [np.exp(rng.normal(size=F)) / np.where(spread > 0, spread, 1.0) for _ in range(restarts)]
    for weights in drawn:
        weights[-1] *= rng.normal()  # a penalty has either sign
    return [_scaled(weights) for weights in [*alone, alike, *drawn] if weights[:-1].any()]


def _scaled(weights: Floats) -> Floats:
    """Return the weights (F,) divided by the largest weight of a score (the last is that of words): only ratios matter.

    They stay as they are if no score has a weight above 0.
    """
    largest = weights[:-1].max()
    return weights / largest if largest > 0 else weights


def _improved(table: ScoreTable, weights: Floats) -> Floats:
    """Return weights (F,) with no more word errors: each in turn is moved to its optimum, until none of them helps.

    Weights of scores stay 0 or above; that of the number of words, the last, may have either sign.
    """
    errors = table.errors_at(weights)
    for _ in range(_SWEEPS):
        before = errors
        for coordinate in range(len(weights)):
            found = table.along(weights, coordinate).lowest(-math.inf if coordinate == len(weights) - 1 else 0.0)
            if found is None or found[1] >= errors:
                continue
            moved = weights.copy()
            moved[coordinate] = found[0]
            moved = _scaled(moved)
            reached = table.errors_at(moved)
            if reached < errors:  # what the lines promise, rounding could break
                weights, errors = moved, reached
        if errors == before:
            break
    return weights


@dataclass(frozen=True)
class Rescored:
    """N-best lists with new scores, the hypothesis of highest total first in each, and the weights of the scores.

    `lists`: an `NBestLists`; `weights`: a `Weights`; the total is Σ weight · score + weight of words · number of words.

        best = [one[0].words for one in rescore(lists, {"llrnn": ModelScorer(model)}).lists]
    """

    lists: NBestLists
    weights: Weights

    @property
    def best(self) -> dict[str, Words]:
        """{utterance: the words of its hypothesis of highest total}."""
        return {entry.utterance: entry.hypotheses[0].words for entry in self.lists}

    def errors(self, references: References) -> Errors:
        """Return the summed word errors of the best hypotheses against `references`, the words of each utterance.

        Raises CorpusError where an utterance has no reference.
        """
        chosen = [NBest(entry.utterance, entry.hypotheses[:1]) for entry in self.lists]
        return sum((own[0] for own in errors_of_lists(chosen, references)), Errors())


def add_scores(lists: NBestLists, scorers: Mapping[str, Scorer]) -> NBestLists:
    """Return the lists with one more score for each scorer, called by its key in `scorers`.

    A scorer takes a sequence of n-best lists (`NBest`) and returns the log-score of hypothesis j of list i as
    `result[i][j]`, such as `ModelScorer`. The new scores come last, in the order of `scorers`. Raises CorpusError for a
    name that a score has already.

        add_scores(read_nbest("nbest.tsv"), {"llrnn": ModelScorer(model)})
    """
    for name, scorer in scorers.items():
        lists = lists.with_scores(name, scorer(lists.lists))
    return lists


def rescore(lists: NBestLists, scorers: Mapping[str, Scorer], weights: Weights | None = None) -> Rescored:
    """Score n-best lists with scorers, and rank the hypotheses of each list anew by the weighted sum of all scores.

    `lists` come from `read_nbest`; `scorers`: {name of the new score: scorer}; `weights`: from `tune` or
    `Weights.parse`, of old and new scores, by default 1 for every score. Raises ConfigError where a score has no
    weight.

        rescore(read_nbest("nbest.tsv"), {"llrnn": ModelScorer(model)}).best["utt7"]
    """
    scored = add_scores(lists, scorers)
    weights = (weights or Weights(dict.fromkeys(scored.names, 1.0))).for_scores(scored.names)
    ranked = []
    for entry in scored:
        order = np.argsort(-weights.totals(entry), kind="stable")
        ranked.append(NBest(entry.utterance, tuple(entry.hypotheses[index] for index in order)))
    return Rescored(NBestLists(scored.names, tuple(ranked)), weights)
