"""Word lattices: all hypotheses of a recogniser at once, rescored by a model.

    utt7                                      Kaldi's text (lattice-copy ark,t; words by int2sym): from, to, word, and
    0 1 il 1.2,10.5,                          graph cost, acoustic cost, alignment; costs are −log
    1 2 dort 0.7,8.1,
    2 0,0,                                    a state in which it may end; a blank line ends the lattice

A path has a total, Σ_i w_i · score_i + w · log p(its words) + words · |path|, as a hypothesis of a list has. Paths are
followed word by word, all of one length together. Two of them are one from where they are at the same node, as long,
and have the same history for the model:

n-grams      the words that their state knows: all totals stay exact
a network    all words, so that nothing is lost; or with `merge` the last words only: the best path goes on for all

and what is left then is a graph again, of which the best paths are read one after the other (A*, exact).

A network need not follow every path for that: log p is never above 0, so that what a path has, and what the lattice's
own scores promise for the rest, is the most that it can reach. A narrow search comes first; whatever cannot reach the
n-th of its paths goes no further.

All of this is exact up to a number of arcs that are followed, `MOST_ARCS`. Beyond it only the best histories of a
length go on, about as many as the limit has for each length, and the result says how many were cut off.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import count, groupby

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError, CorpusError, quoted
from llrnn.ground.files import StrPath
from llrnn.inference.nbest import Hypothesis, NBest, Words
from llrnn.inference.rescoring import FLOOR, StateRows, Weights
from llrnn.knowledge.backgrounds.ngram import NGram
from llrnn.languages.ngrams.table import EMPTY
from llrnn.model.controllers import Silent, evaluating
from llrnn.model.network import LLRNN
from llrnn.text.encoded import Oov
from llrnn.text.readers import Line, read_lines

NAMES = ("am", "lm")
MOST_ARCS = {"n-grams": 300_000, "network": 50_000}  # followed exactly; a network computes a state for each history
_NARROW = 8  # paths of the search that comes first, or n
_MANY = 500  # paths for each that is wanted: fewer are followed sooner than searched twice
_SLACK = 1e-3  # that rounding may make
_NOTHING = frozenset({"<eps>", "!NULL", "!ENTER", "!EXIT", "!SENT_START", "!SENT_END", "<s>", "</s>", "0"})


@dataclass(frozen=True, slots=True)
class Edge:
    """An arc of a word lattice from state `source` to state `target`.

    States are ints; `word`: None for silence; `scores`: (acoustic, language-model) log-score, floats, higher is better.
    """

    source: int
    target: int
    word: str | None
    scores: tuple[float, float]


@dataclass(frozen=True)
class Lattice:
    """A word lattice of one utterance: an acyclic graph from `start` to a state of `finals`, with scores on arcs.

    `utterance`: its name; `start`: a state, an int; `edges`: a tuple of `Edge`; `finals`: {final state: (acoustic,
    language-model) log-score}; `place`: file and line, for messages. Raises CorpusError where there is a cycle, or no
    final state. `read_lattices(path)` returns a list of them.
    """

    utterance: str
    start: int
    edges: tuple[Edge, ...]
    finals: dict[int, tuple[float, float]]
    place: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        self.order()
        if not self.finals:
            raise CorpusError(f"{self._where}: a lattice must have a state to end in, found none; was it cut short?")

    @property
    def _where(self) -> str:
        return self.place or f"lattice {self.utterance}"

    def order(self) -> list[int]:
        """Return the numbers of the states that can be reached from the start, each before those its arcs lead to.

        Raises CorpusError for a cycle.
        """
        after, further, left = self._by_source(), dict[int, list[int]](), [self.start]
        while left:
            if (state := left.pop()) not in further:
                further[state] = [edge.target for edge in after[state]]
                left += further[state]
        try:
            return [*TopologicalSorter(further).static_order()][::-1]
        except CycleError as error:
            one, other = error.args[1][:2]
            raise CorpusError(
                f"{self._where}: a lattice must have no cycle, found one through the states {one} and {other}; "
                "write it without loops (lattice-determinize, or lattice-rmali of a decoded one)"
            ) from None

    def number_of_paths(self) -> int:
        """Return the number of paths from the start to a final state, by dynamic programming."""
        after, found = self._by_source(), dict[int, int]()
        for state in reversed(self.order()):
            found[state] = (state in self.finals) + sum(found[edge.target] for edge in after[state])
        return found[self.start]

    def _by_source(self) -> dict[int, list[Edge]]:
        found: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    def without_silence(
        self, total: Callable[[tuple[float, float]], float]
    ) -> tuple[dict[int, list[Edge]], dict[int, tuple[float, float]]]:
        """Return the lattice without arcs of silence: {state: its arcs with words}, and {state: final scores}.

        Scores of silence are added to what follows. `total`: a function of (acoustic, language-model) scores; where
        several ways lead to the same word and state, the one of highest total is kept. Raises CorpusError where arcs
        become far too many.
        """
        after, edges, finals, arcs = self._by_source(), dict[int, list[Edge]](), dict[int, tuple[float, float]](), 0
        for state in reversed(self.order()):
            best: dict[tuple[int, str], Edge] = {}
            ends = [self.finals[state]] if state in self.finals else []
            for edge in after[state]:
                if edge.word is not None:
                    _offer(best, edge, total)
                    continue
                for further in edges[edge.target]:
                    _offer(best, replace(further, source=state, scores=_sum(edge.scores, further.scores)), total)
                ends += [_sum(edge.scores, finals[edge.target])] if edge.target in finals else []
            edges[state] = [*best.values()]
            arcs += len(best)
            if arcs > len(self.edges) + MOST_ARCS["n-grams"]:
                raise CorpusError(
                    f"{self._where}: arcs without a word must not lead to millions of others, found {arcs:,}; "
                    "write it without them (lattice-determinize, fstrmepsilon)"
                )
            if ends:
                finals[state] = max(ends, key=total)
        return edges, finals


def _offer(best: dict[tuple[int, str], Edge], edge: Edge, total: Callable[[tuple[float, float]], float]) -> None:
    key = (edge.target, edge.word or "")
    if key not in best or total(edge.scores) > total(best[key].scores):
        best[key] = edge


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


# --- files


def read_lattices(path: StrPath) -> list[Lattice]:
    """Return the word lattices in a file of Kaldi's text format, one for each utterance; `.gz` files are unpacked.

    Costs become log-scores (−cost). Raises CorpusError, with file and line, for anything else.

        lattices = read_lattices("lat.txt.gz")
    """
    lines = (Line(path, number, text) for number, text in read_lines(path))
    blocks = [[*block] for there, block in groupby(lines, lambda line: bool(line.text.strip())) if there]
    if not blocks:
        raise CorpusError("at least one lattice is required, found none", path=path)
    return [_kaldi_lattice(block) for block in blocks]


def _kaldi_lattice(block: Sequence[Line]) -> Lattice:
    head, *rest = block
    if len(head.text.split()) != 1:
        head.fail(
            f"the name of an utterance alone is required, found {quoted(head.text)}; end lattices by a blank line, or "
            "leave out --lattices where it is a list"
        )
    edges, finals = list[Edge](), dict[int, tuple[float, float]]()
    for line in rest:
        fields = line.text.split()
        if len(fields) <= 2:
            finals[_state(line, fields[0])] = _costs(line, fields[1]) if len(fields) == 2 else (0.0, 0.0)
            continue
        word, cost = fields[2] if len(fields) < 5 else fields[3], fields[3:] if len(fields) < 5 else fields[4:]
        if len(fields) > 5:
            line.fail(f"from, to, word and costs are required, found {len(fields)} fields; write one arc a line")
        scores = _costs(line, cost[0]) if cost else (0.0, 0.0)
        said = None if word in _NOTHING else word
        edges.append(Edge(_state(line, fields[0]), _state(line, fields[1]), said, scores))
    if not edges and not finals:
        head.fail(f"a lattice must have arcs, found none for {quoted(head.text)}; leave it out")
    start = edges[0].source if edges else next(iter(finals))
    return Lattice(head.text.strip(), start, tuple(edges), finals, f"{head.path}:{head.number}")


def _state(line: Line, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        line.fail(f"the number of a state is required, found {quoted(text)}; correct it", text)
    return int(text)


def _costs(line: Line, text: str) -> tuple[float, float]:
    """Return Kaldi's costs "graph,acoustic,alignment" as log-scores (−cost): (acoustic, language model).

    Missing ones are 0. Raises CorpusError, with the `line`, for anything but finite numbers.
    """
    parts = text.split(",")
    try:
        graph, acoustic = float(parts[0] or 0.0), float(parts[1]) if len(parts) > 1 and parts[1] else 0.0
    except ValueError:
        graph = acoustic = math.nan
    if not (math.isfinite(graph) and math.isfinite(acoustic)):
        line.fail(f"costs are written graph,acoustic,alignment, found {quoted(text)}; correct them", text)
    return 0.0 - acoustic, 0.0 - graph


# --- the model's side: the states of a level, one row for each history (of a network: `rescoring.StateRows`)


class _NGramRows:
    """States of an n-gram model after several word histories of the same length, one row for each history.

    `nodes`: an integer tensor (rows,) of nodes of the n-gram trie. `_NGramRows.begin(ngram)` has one row, the start of
    a sentence. It has the methods of `rescoring.StateRows`: `log_probs`, `advance`.
    """

    def __init__(self, ngram: NGram, nodes: torch.Tensor) -> None:
        self._trie, self._ngram, self.nodes = ngram.trie(torch.device("cpu")), ngram, nodes

    @classmethod
    def begin(cls, ngram: NGram) -> _NGramRows:
        first = ngram.trie(torch.device("cpu")).states(torch.tensor([EMPTY]), torch.tensor([[ngram.vocabulary.eos]]))
        return cls(ngram, first[:, 0])

    def log_probs(self, row: Ints, word: Ints) -> Floats:
        found: Floats = self._trie.log_prob_of(self.nodes[torch.from_numpy(row)], torch.from_numpy(word))[0].numpy()
        return found

    def advance(self, row: Ints, word: Ints) -> _NGramRows:
        after = self._trie.states(self.nodes[torch.from_numpy(row)], torch.from_numpy(word)[:, None])
        return _NGramRows(self._ngram, after[:, 0])


# --- following the paths


@dataclass(slots=True)
class _Junction:
    """A node of the rescored graph: a state of the lattice together with a state of the model.

    `state`: the lattice's, an int; `best`: the highest total of a path to here; `row`: the index of the model's state
    among those of the same number of words; `back`: a list of (index of the node before, arc, log p of its word) for
    each arc that leads here.
    """

    state: int
    best: float
    row: int
    back: list[tuple[int, Edge, float]]  # the place before, the arc, log p of its word


@dataclass(frozen=True)
class LatticeScores:
    """The result of rescoring a lattice: its n best paths, best first, and how much work it took.

    `best`: an `NBest`, the paths as hypotheses with scores `am`, `lm` and the model's, in this order; `steps`: how many
    word histories the model read; `cut`: how many histories were pruned though they might have led to a better path, 0
    where the result is exact.
    """

    best: NBest
    steps: int
    cut: int  # histories that were cut off though they might have led to a better path; 0: exact


def rescore_lattice(
    model: LLRNN,
    lattice: Lattice,
    weights: Weights,
    *,
    name: str = "llrnn",
    n: int = 1,
    merge: int | None = None,
    beam: float = math.inf,
    width: int | None = None,
    oov: Oov | None = None,
) -> LatticeScores:
    """Return the `n` best paths of a lattice by acoustic, language-model and new model scores together, best first.

    The total of a path is Σ weight · score + `words` weight · number of words; paths with the same words count once.
    `weights`: of `am` and `lm`, the lattice's scores, and of the model's log p, called `name`. `merge`: of a network,
    histories with the same last `merge` words are treated as one (n-gram models merge exactly by themselves). `beam`:
    prune paths worse than the best of their length by more than this; `width`: follow at most so many of each length.
    `oov`: words outside the vocabulary add nothing (`skip`), are read as the unknown-word symbol (`unk`), or are an
    error (`error`); None: `unk` if the model has that symbol, else `error`. With neither `merge`, `beam` nor `width`
    the result is exact up to `MOST_ARCS` followed arcs; beyond, `cut` of the result counts the pruned histories. Raises
    ConfigError for models that spell words.

        rescore_lattice(model, read_lattices("lat.txt")[0], Weights({"am": 0.1, "lm": 0, "llrnn": 1}), n=10).best
    """
    if n < 1 or (merge is not None and merge < 1) or (width is not None and width < 1) or not beam > 0:
        raise ConfigError("n, merge, width and beam must be above 0")
    weights = weights.for_scores((*NAMES, name))
    with torch.no_grad(), evaluating(model):
        search = _LatticeSearch(model, lattice, weights, merge, beam, width, oov)
        follows_all = merge is None and width is None and beam == math.inf and not search.exact_key
        if follows_all and weights[name] > 0 and lattice.number_of_paths() > _MANY * n:
            narrow = _LatticeSearch(model, lattice, weights, merge, beam, max(_NARROW, n), oov)
            narrow.run(n)
            search.begin_after(narrow)
        return search.run(n)


class _LatticeSearch:
    def __init__(
        self,
        model: LLRNN,
        lattice: Lattice,
        weights: Weights,
        merge: int | None,
        beam: float,
        width: int | None,
        oov: Oov | None,
    ) -> None:
        self._am, self._lm, self._own, self._per_word = weights.values()
        self._lattice, self._merge, self._beam, self._width = lattice, merge, beam, width
        self._after, self._finals = lattice.without_silence(self._total)
        self._hope = self._promises()
        background, alone = model.background, isinstance(model.controller, Silent)
        ngram = background if isinstance(background, NGram) and alone else None
        self.exact_key = ngram is not None
        self._rows = StateRows.begin(model) if ngram is None else _NGramRows.begin(ngram)
        self._symbols, self._skipped = _symbols(model, lattice, oov)
        self._last: list[tuple[int, ...]] = [()]  # of each row, the words that histories are told by
        self._eos = model.vocabulary.eos
        self._places: list[_Junction] = []
        self._ended: list[tuple[int, float]] = []  # the place, log p of the end
        self._needed = -math.inf  # a path that cannot reach this total is not wanted
        self.last_total = -math.inf  # of the n-th path, where there are as many
        self.steps, self.cut = 1, 0
        self._limit = self._left = MOST_ARCS["n-grams" if self.exact_key else "network"]
        self._levels = 1 + max(self._lengths().values())

    def begin_after(self, narrow: _LatticeSearch) -> None:
        """Prune from now on every path that cannot reach the total of the n-th best path that `narrow` found.

        `narrow`: a finished search of the same lattice that followed fewer paths; its `steps` are added to those of
        this search.
        """
        self.steps += narrow.steps
        self._needed = narrow.last_total - _SLACK

    def _total(self, scores: tuple[float, float]) -> float:
        """Return the weighted sum of a pair of lattice scores, (acoustic, language model), by the search's weights."""
        return self._am * max(scores[0], FLOOR) + self._lm * max(scores[1], FLOOR)

    def _promises(self) -> dict[int, float]:
        """Return {lattice state: the most that the rest of a path from there can add to its total}, −∞ without an end.

        Counted are the weighted lattice scores and the weight of each word, the best way from there to a final state.
        The model's score is left out: log p is 0 at most.
        """
        found: dict[int, float] = {}
        for state in reversed(self._lattice.order()):
            options = [self._total(self._finals[state])] if state in self._finals else []
            options += [self._total(e.scores) + self._per_word + found[e.target] for e in self._after[state]]
            found[state] = max(options, default=-math.inf)
        return found

    def _lengths(self) -> dict[int, int]:
        """Return {lattice state: the largest number of words on a path from there}."""
        found: dict[int, int] = {}
        for state in reversed(self._lattice.order()):
            found[state] = max((1 + found[edge.target] for edge in self._after[state]), default=0)
        return found

    def run(self, n: int) -> LatticeScores:
        self._least = max(_NARROW, n)
        self._places.append(_Junction(self._lattice.start, 0.0, 0, []))
        level = [0]
        while level:
            level = self._level(level)
        if not self._ended:
            raise CorpusError(
                f"lattice {self._lattice.utterance}: a path from the start to an end is required, found none"
            )
        return LatticeScores(NBest(self._lattice.utterance, self._nbest(n)), self.steps, self.cut)

    def _level(self, level: list[int]) -> list[int]:
        """Extend all paths of one length by one word; return the nodes that they reach, [] when no path goes on.

        Nodes are indices into `_places`; `level`: those that the paths have reached so far. Those at a final state of
        the lattice are added to `_ended`, as (node, log p of the end of the sentence).
        """
        asked = [(at, edge) for at in level for edge in self._after[self._places[at].state]]
        ending = [at for at in level if self._places[at].state in self._finals]
        placed = [*(at for at, _ in asked), *ending]
        rows = np.array([self._places[at].row for at in placed], dtype=np.int64)
        words = np.array([self._symbols[e.word or ""] for _, e in asked] + [self._eos] * len(ending), dtype=np.int64)
        log_p = np.maximum(self._rows.log_probs(rows, words), FLOOR)
        log_p[: len(asked)][[edge.word in self._skipped for _, edge in asked]] = 0.0
        self._ended += [(at, float(p)) for at, p in zip(ending, log_p[len(asked) :], strict=True)]
        reached: dict[tuple[int, object], list[tuple[float, int, Edge, float]]] = defaultdict(list)
        keys = self._keys(rows[: len(asked)], words[: len(asked)])
        for (at, edge), p, key in zip(asked, log_p.tolist(), keys, strict=False):
            total = self._places[at].best + self._total(edge.scores) + self._own * p + self._per_word
            reached[edge.target, key].append((total, at, edge, p))
        return self._kept(reached)

    def _keys(self, rows: Ints, words: Ints) -> Sequence[object]:
        """Return for each (row of the model's states, next symbol) a key; paths with equal keys may be merged.

        Keys are equal where n-grams have the same state, or the last `merge` words agree; without `merge`, only for the
        same history.
        """
        if isinstance(self._rows, _NGramRows):
            return self._rows.advance(rows, words).nodes.tolist() if len(rows) else []
        pairs = [*zip(rows.tolist(), words.tolist(), strict=True)]
        return pairs if self._merge is None else [(*self._last[row], word)[-self._merge :] for row, word in pairs]

    def _kept(self, reached: dict[tuple[int, object], list[tuple[float, int, Edge, float]]]) -> list[int]:
        """Prune the paths that were reached, add a node for each that is kept, advance the model; return these nodes.

        `reached`: {(lattice state, key of the model's state): [(total, node before, arc, log p of its word), …]}. Nodes
        are indices into `_places`, best first. Pruned is what cannot reach a final state or a total that is wanted, is
        worse than the best by more than the search's beam, or goes beyond its width or its limit on arcs.
        """
        best_at = {at: max(one[0] for one in found) for at, found in reached.items()}
        alive = {at: best for at, best in best_at.items() if self._hope[at[0]] > -math.inf}
        if not alive:
            return []
        hoped = {at: best + self._hope[at[0]] for at, best in alive.items()}
        able = {at: total for at, total in hoped.items() if total >= self._needed}
        least = max(able.values(), default=0.0) - self._beam
        ranked = sorted((at for at in able if able[at] >= least), key=lambda at: -able[at])[: self._width]
        chosen = ranked[: self._room(ranked)]
        self.cut += len(able) - len(chosen)
        row_of: dict[object, int] = {}
        feeding: list[tuple[int, int]] = []  # the row before and the word
        level = []
        for at in chosen:
            state, key = at
            best, before, edge, _ = max(reached[at], key=lambda one: one[0])
            shared = key if self._merge is None or self.exact_key else (state, key)
            if shared not in row_of:
                row_of[shared] = len(feeding)
                feeding.append((self._places[before].row, self._symbols[edge.word or ""]))
            back = [(place, own, p) for _, place, own, p in reached[at]]
            level.append(len(self._places))
            self._places.append(_Junction(state, best, row_of[shared], back))
        if feeding:
            self._feed(feeding)
        return level

    def _room(self, ranked: Sequence[tuple[int, object]]) -> int:
        """Return how many of the `ranked` nodes, best first, may be followed within the search's limit on arcs.

        A node is (lattice state, key of the model's state) and costs 1 + the number of arcs that leave its lattice
        state. Where all nodes together cost no more than is left of the limit, all may be followed, and their cost is
        taken off. Otherwise nothing is left from then on, and only the first nodes may be followed: as many as cost
        together at most limit / (1 + words of the longest path), but at least the search's least width.
        """
        arcs = np.cumsum([1 + len(self._after[state]) for state, _ in ranked])
        if len(arcs) and self._left < arcs[-1]:
            self._left = 0
            return max(self._least, int(np.searchsorted(arcs, self._limit // self._levels, side="right")))
        self._left -= int(arcs[-1]) if len(arcs) else 0
        return len(ranked)

    def _feed(self, feeding: list[tuple[int, int]]) -> None:
        if self._merge is not None and not self.exact_key:
            self._last = [(*self._last[row], word)[-self._merge :] for row, word in feeding]
        self.steps += len(feeding)
        self._rows = self._rows.advance(*(np.array(column, dtype=np.int64) for column in zip(*feeding, strict=True)))

    def _nbest(self, n: int) -> tuple[Hypothesis, ...]:
        """Return the n best paths with different words as hypotheses, best first; fewer where there are fewer.

        They are found by an exact A* search backwards from the ends of the paths that were followed. The scores of a
        hypothesis are the acoustic and the language-model score of the lattice, and the model's log p.
        """
        heap, turn = list[tuple[float, int, int, int, tuple[float, float], float]](), count()
        for at, p in self._ended:
            place, scores = self._places[at], self._finals[self._places[at].state]
            total = place.best + self._total(scores) + self._own * p
            heapq.heappush(heap, (-total, next(turn), at, 0, scores, p))
        ends: dict[tuple[str, int], int] = {("", 0): 0}  # a word and the end behind it, by number
        seen: set[tuple[int, int]] = set()  # what comes a second time before the same words is the worse way there
        found: dict[int, Hypothesis] = {}
        while heap and len(found) < n:
            rank, _, at, end, scores, log_p = heapq.heappop(heap)
            place = self._places[at]
            if (at, end) in seen:
                continue
            seen.add((at, end))
            if not place.back:
                found[end] = Hypothesis((), (*scores, log_p))
                self.last_total = -rank if len(found) == n else -math.inf
                continue
            for before, edge, p in place.back:
                step = self._total(edge.scores) + self._own * p + self._per_word
                loss = place.best - (self._places[before].best + step)
                own = ends.setdefault((edge.word or "", end), len(ends))
                heapq.heappush(heap, (rank + loss, next(turn), before, own, _sum(edge.scores, scores), p + log_p))
        parts = [*ends]
        return tuple(replace(one, words=_words(parts, end)) for end, one in found.items())


def _words(parts: Sequence[tuple[str, int]], end: int) -> Words:
    """Return the words of a path that is a linked list: `parts[i]` is (word, index of the next entry), index 0 ends it.

    `end`: the index of the first word's entry.
    """
    found = []
    while end:
        word, end = parts[end]
        found.append(word)
    return tuple(found)


def _symbols(model: LLRNN, lattice: Lattice, oov: Oov | None) -> tuple[dict[str, int], set[str]]:
    """Return {word: vocabulary id} of every word of a lattice, and the set of unknown words that are to score 0.

    A word outside the vocabulary has the id of the symbol for unknown words; the set is empty unless `oov` is `skip`.
    Raises ConfigError for models that spell words, and for words outside the vocabulary where `oov` is `error` or the
    model has no symbol for unknown words.
    """
    words = sorted({edge.word for edge in lattice.edges if edge.word is not None})
    vocabulary = model.vocabulary
    if vocabulary.is_open or vocabulary.units is not None:
        raise ConfigError("lattices need a model over listed words, found one that spells; rescore an n-best list")
    read = dict(zip(words, model.read(words), strict=True))
    missing = [word for word in words if read[word] not in vocabulary]
    if missing and (oov == "error" or vocabulary.unknown is None):
        more = f", nor are {len(missing) - 1:,} others" if len(missing) > 1 else ""
        raise ConfigError(
            f"lattice {lattice.utterance}: the word {missing[0]!r} is not among the {len(vocabulary):,} of the model"
            f"{more}; take a model with <unk>, or n-grams with --oov skip"
        )
    return {word: vocabulary.id(own) for word, own in read.items()}, {*missing} if oov == "skip" else set()
