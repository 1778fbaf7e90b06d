"""Any string at all: a character n-gram model, cut into cells by what a string shows.

    q(x) = Π_t p(x_t | last characters) · p(end | last characters)
    Q(look, span) = Σ_{t in span} Σ_{states of that look} α_t(state) · p(end | state)
    α_{t+1}(state') = Σ_{state, character → state'} α_t(state) · p(character | state)              α_0 = the beginning

The sum runs over the product of the model and of the automaton that reads looks off, for all strings at once and length
by length, until no mass is alive that a float64 could show. `Forward` keeps α, so that strings of a cell can be drawn,
exactly, from their end to their beginning.

`CharacterModel`: Kneser-Ney n-grams over the characters of words, as dense arrays over states.

    p(x) = Π_t p(x_t | last n-1 characters) · p(end | last n-1 characters)

A state is a context that was seen, the longest one that fits; `moves[s, a]` is the state after character column a,
`prob[s, a]` the probability of the column, and the last column is the end.

`Look` and `LengthRanges`: the shape, the ending and the length of a string, which one automaton reads in one pass.

    label(x) = (shape, longest listed ending)              span(x): its length, in a few spans

A cell of a spelling is a label and a span; words of the same look, listed or not, have the same attributes.

`PairedStates` and `Forward`: the forward algorithm over the product of the character model and that automaton.

    α_t(p): the probability that a string has t characters or more and its first t lead to the product state p
    ended[t, l] = Σ_{p of label l} α_t(p) · p(end | p)

A string of a label is drawn backwards: its length and last state by what ended there, then each state before it with
probability ∝ α_{t-1}(p') · p(character | p'). The last character of every state is known, so the moves into a
state are found in one sorted column.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.ranked import Transitions, best_ahead, best_first, sorted_transitions
from llrnn.languages.grammars.automaton import series
from llrnn.languages.grammars.notation import pattern
from llrnn.languages.ngrams.arpa import described, table_from
from llrnn.languages.ngrams.kneser_ney import estimate
from llrnn.languages.ngrams.table import EMPTY, NGramTable
from llrnn.languages.ngrams.trie import Trie
from llrnn.text.automata import DFA, KINDS, Alphabet, first_of, paired
from llrnn.text.vocabulary import EOS, MOST_MEMBERS, OUTSIDE, Cell, Domain

_PREFIXES = 200_000  # prefixes of which the state is kept
_LEAST_SHARE = 5e-4  # of the words: a character that fewer of them hold is not told apart from others of its kind


@dataclass(frozen=True, eq=False)
class CharacterModel:
    """A character n-gram model of words, with its S states (contexts) as dense arrays; state 0 is the beginning.

    alphabet    the A columns: a column is a character, or a class of rare characters of one kind, such as lowercase
    table       the n-gram model over these columns; EOS is the end of a word
    moves       (S, A) the state after each column
    prob        (S, A + 1) the probability of each column in each state; the last one is the end of the word
    last        (S,) the column of the last character of a state, -1 for the beginning
    """

    alphabet: Alphabet
    table: NGramTable
    moves: Ints  # (S, A)
    prob: Floats  # (S, A + 1)
    last: Ints  # (S,) the column of the last character of a state, -1 for the beginning

    @classmethod
    def estimated(
        cls, words: Sequence[str], *, order: int, min_counts: Sequence[int] = (), told_apart: Iterable[str] = ()
    ) -> CharacterModel:
        """Estimate a modified Kneser-Ney n-gram model of the characters of words, each word counted once.

        words       the distinct words
        order       length of the longest n-gram of characters, 2 or more
        min_counts  at [n - 1]: n-grams of order n with fewer counts are pruned; empty: none are
        told_apart  characters that are columns (letters of the model) by themselves, besides those that at least 2
                    words and 0.05 % of the words contain; all others share a column by kind, such as lowercase

        A DomainError if `order` is below 2.
        """
        if order < 2:
            raise DomainError(f"a model of spelling must look at one character or more: order 2 or more, found {order}")
        holders = Counter(character for word in words for character in set(word))
        least = max(2, int(_LEAST_SHARE * len(words)))
        alphabet = Alphabet([*(c for c, n in holders.items() if n >= least), *told_apart])
        columns, lengths = alphabet.padded(words)
        end = len(alphabet)
        padded = np.concatenate([columns, np.full((len(words), 1), -1)], 1)
        padded[np.arange(len(words)), lengths] = end
        stream = np.concatenate([[end], padded[padded >= 0]])
        names = (*(f"{column}" for column in range(end)), EOS)
        return cls.of(estimate(stream, names, order=order, min_counts=min_counts), alphabet)

    @classmethod
    def of(cls, table: NGramTable, alphabet: Alphabet) -> CharacterModel:
        """Make the model of an n-gram table over the A columns of `alphabet`: characters, or classes of them.

        Word a of the table, 0 … A-1, must stand for column a, and word A must be EOS, the end of a string.
        """
        trie, end = Trie.from_table(table), len(alphabet)
        nodes, after = trie.explore(trie.advance(EMPTY, end), torch.arange(end))
        place = np.zeros(len(trie.word), dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        last = trie.word[torch.tensor(nodes)].numpy().copy()
        last[0] = -1
        prob = trie.dense(torch.tensor(nodes)).exp().numpy()
        prob /= prob.sum(1, keepdims=True)  # 1 but for rounding
        return cls(alphabet, table, place[after.numpy()], prob, last)

    @cached_property
    def _log_prob(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.prob)

    @property
    def n_states(self) -> int:
        """Number S of the model's states (contexts of the n-gram model)."""
        return len(self.moves)

    def log_prob(self, strings: Sequence[str]) -> Floats:
        """Return log p (natural) of each string as a whole word, its end included, (strings,).

        −∞ for a string with a line break or a surrogate; the empty string has the log-probability of ending at once.
        """
        columns, lengths = self.alphabet.padded(strings)
        log_p, log_share = self._log_prob, self.alphabet.log_share
        state, total = np.zeros(len(strings), dtype=np.int64), np.zeros(len(strings))
        for t in range(columns.shape[1]):
            here = np.flatnonzero(lengths > t)
            column = columns[here, t]
            known = column >= 0
            total[here[~known]] = -np.inf  # a character that no string may hold
            here, column = here[known], column[known]
            total[here] += log_p[state[here], column] + log_share[column]
            state[here] = self.moves[state[here], column]
        log_q: Floats = total + log_p[state, -1]
        return log_q

    @cached_property
    def log_gain(self) -> Floats:
        """The log-probability of one single character of each of A columns in each of S states (contexts), (S, A).

        A column that stands for many characters shares its probability equally among them.
        """
        return np.asarray(self._log_prob[:, :-1] + self.alphabet.log_share)

    @cached_property
    def _best(self) -> Floats:
        """The log-probability of the best continuation from each of S states (contexts), (S,).

        It is the largest over all strings that lead from the state to the end of a word, the end included.
        """
        return best_ahead(self._log_prob[:, -1], self.log_gain, self.moves)

    @cached_property
    def transitions(self) -> Callable[[int], Transitions]:
        """A cached function from the number of a state (context) to its `Transitions`, the most promising first.

        Their `gain` is the log-probability of one character; their `bound` adds that of the best continuation.
        """
        gain, moves, best = self.log_gain, self.moves, self._best
        return cache(lambda state: sorted_transitions(gain[state], best[moves[state]]))

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the model as (JSON-compatible data, arrays by name), from which `restored` makes it again."""
        plain, arrays = described(self.table)
        return {"characters": list(self.alphabet.characters), "table": plain}, arrays

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CharacterModel:
        """Make the character model from the data and arrays that its method `described` returned."""
        return cls.of(table_from(plain["table"], arrays), Alphabet(plain["characters"]))


# The first that fits. Endings are told apart where a word is all letters.
SHAPES = {
    "lowercase": r"\p{lower}+",
    "capitalised": r"\p{upper}\p{lower}*",
    "uppercase": r"\p{upper}\p{upper}+",
    "joined": r"[\p{lower}\p{upper}]+([-'’.][\p{lower}\p{upper}]+)+",
    "digits": r".*\d.*",
    "signs": r"[\p{sign}\s]+",
    "mixed": r".+",
}
_WITH_ENDINGS = ("lowercase", "capitalised")
_LEAST_OF_SHAPE = 0.005  # of the types: a shape that fewer have is not told apart from "mixed"


@dataclass(frozen=True)
class Look:
    """The visible class of a string, its look: its shape and its longest listed ending.

    shape       a key of SHAPES, such as `lowercase` or `capitalised`
    ending      such as `ment`; "" if no listed ending fits, or for shapes that do not distinguish endings
    """

    shape: str
    ending: str

    def attributes(self, endings: frozenset[str]) -> tuple[str, ...]:
        """Return the features of strings with this look, such as (`Looks:lowercase`, `Ends:ment`, `Ends:ent`).

        endings     the listed endings; those that `ending` ends with have a feature each, the longest first

        One feature alone where `ending` is "".
        """
        tails = [self.ending[start:] for start in range(len(self.ending))]
        return (f"Looks:{self.shape}", *(f"Ends:{tail}" for tail in tails if tail in endings))


def shapes_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the shapes (keys of SHAPES, such as `capitalised`) that 0.5 % of the words or more have, then "mixed".

    They are in the order of SHAPES, in which "mixed" is the last. A word has the first shape that fits it; "mixed",
    which fits any word, stands for all that are not returned.
    """
    labels = _shape_automaton(tuple(SHAPES)).label_all(words)
    counts = np.bincount(labels[labels >= 0], minlength=len(SHAPES))
    common = [shape for shape, n in zip(SHAPES, counts.tolist(), strict=True) if n >= _LEAST_OF_SHAPE * len(words)]
    return tuple(dict.fromkeys([*common, "mixed"]))


def common_endings(words: Iterable[str], *, longest: int, top: int, min_count: int = 2) -> tuple[str, ...]:
    """Return the `top` most frequent endings of 1 to `longest` characters, by descending number of words.

    An ending is shorter than its word; those that fewer than `min_count` words have are not returned. Both limits are
    included; endings of equal number come in alphabetical order; a word that comes twice counts twice.
    """
    counts = Counter(word[-length:] for word in words for length in range(1, min(longest, len(word) - 1) + 1))
    ranked = sorted(counts, key=lambda ending: (-counts[ending], ending))
    return tuple(ending for ending in ranked[:top] if counts[ending] >= min_count)


def looks_automaton(shapes: Sequence[str], endings: Sequence[str]) -> tuple[DFA, tuple[Look, ...]]:
    """Return a DFA that labels every string by the index of its look (shape and ending), and the looks by index.

    shapes      keys of SHAPES; the first that fits a string is its shape
    endings     the endings to distinguish; the longest that fits is taken, for lowercase and capitalised words; other
                words have the ending ""

    Strings that cannot be words (empty, with line breaks), or that no shape fits, have the label -1.
    """
    by_shape, by_ending = _shape_automaton(shapes), _ending_automaton(endings)
    looks: dict[Look, int] = {}

    def combined(shape: int, ending: int) -> int:
        if shape < 0:
            return -1
        named = shapes[shape]
        look = Look(named, endings[ending - 1] if ending > 0 and named in _WITH_ENDINGS else "")
        return looks.setdefault(look, len(looks))

    automaton = by_shape.product(by_ending, combined)
    return automaton, tuple(looks)


def _shape_automaton(shapes: Sequence[str]) -> DFA:
    return first_of([pattern(SHAPES[shape]) for shape in shapes])


def _ending_automaton(endings: Sequence[str]) -> DFA:
    """Return the Aho-Corasick DFA that labels a string i + 1 where endings[i] is its longest listed ending, else 0.

    A string may be an ending as a whole; the empty string has the label 0.
    """
    found = {ending[:length] for ending in endings for length in range(len(ending) + 1)} | {""}
    starts = sorted(found, key=lambda start: (len(start), start))  # the same in every process, as weights depend on it
    state = {start: number for number, start in enumerate(starts)}
    characters = tuple(sorted({c for ending in endings for c in ending}))
    moves = np.zeros((len(starts), len(characters) + len(KINDS)), dtype=np.int64)
    for start, number in state.items():
        for column, character in enumerate(characters):
            moves[number, column] = state[_longest_tail(start + character, state)]
    label = {ending: number for number, ending in enumerate(endings, 1)}
    labels = np.array([label.get(_longest_tail(start, label), 0) for start in starts], dtype=np.int64)
    return DFA(characters, moves, labels)


def _longest_tail(text: str, among: dict[str, int]) -> str:
    return next((text[i:] for i in range(len(text)) if text[i:] in among), "")


@dataclass(frozen=True)
class LengthRanges:
    """A partition of string lengths, 1 and more, into ranges; `LengthRanges((2, 5))` has 1-2, 3-5 and 6+.

    edges       the largest length in each range but the last, integers ≥ 1, strictly rising; () for one range "1+"

    `len()` is the number of ranges, len(edges) + 1; `of(lengths)` looks up the index of the range of each length.
    """

    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(edge < 1 for edge in self.edges) or any(b <= a for a, b in pairwise(self.edges)):
            raise DomainError(f"the edges of length spans must be 1 or more and rise, found {list(self.edges)}")

    def __len__(self) -> int:
        return len(self.edges) + 1

    def of(self, lengths: Ints) -> Ints:
        """Return the index, from 0, of the range that contains each length, (n,) -> (n,), int64.

        The number of edges (largest lengths of ranges) below the length: with edges 2 and 5, lengths 2, 3, 6 → 0, 1, 2.
        """
        return np.searchsorted(np.array(self.edges, dtype=np.int64), lengths, side="left").astype(np.int64)

    def name(self, span: int) -> str:
        """Return the name of the range with the index `span`: `3-5`, or `6+` for the last."""
        first = self.edges[span - 1] + 1 if span else 1
        return f"{first}+" if span == len(self.edges) else f"{first}-{self.edges[span]}"

    def pattern(self, span: int) -> str:
        """Return the range with the index `span` as the bounds of a repeat in a regular expression: `3,5` or `6,`."""
        return self.name(span).replace("-", ",").replace("+", ",")


_NOTHING = 1e-16  # of the whole mass: what a float64 sum does not show
_KEPT = 512  # beginnings of strings whose mass is kept
_LONGEST = 2000  # characters; a model whose words do not end by then does not end
_TRIES = 10  # to draw a string without white space


@dataclass(frozen=True, eq=False)
class PairedStates:
    """The product of a character model and a DFA: its P reachable pairs of states; pair 0 is the beginning of a string.

    The DFA sorts strings into kinds by a label, an integer. With the product, probabilities of all strings of a label,
    by length, are summed exactly (forward algorithm).

    model       the character model
    state       (P,) the model's state of each pair
    label       (P,) the DFA's label of each pair, -1: not accepted
    moves       (P, A) the pair after each of the model's A columns (characters, or classes of them)
    labels      number of labels
    """

    model: CharacterModel
    state: Ints  # (P,) the model's state
    label: Ints  # (P,)
    moves: NDArray[np.int32]  # (P, A)
    labels: int

    @classmethod
    def of(cls, model: CharacterModel, automaton: DFA, labels: int) -> Self:
        """Make the product of a character model and a DFA over the same columns (characters, or classes of them).

        labels      number of labels of the DFA, which are 0 … labels - 1 for its kinds of strings
        """
        state, other, pairs = paired(model.moves, automaton.moves)
        return cls(model, state, automaton.labels[other], pairs.astype(np.int32), labels)

    @cached_property
    def step(self) -> Callable[[Floats], Floats]:
        """A function that maps α_t to α_{t+1}, (P,) -> (P,), over the P pairs of a model's and an automaton's state.

        α_t(p) is the probability that the first t characters of a string lead to the pair p (forward algorithm).
        """
        return _forward_step(self.model.prob[self.state], self.moves)

    def ended(self, alpha: Floats) -> Floats:
        """Return the probability of the strings that end now, by label, (labels,): Σ_{p of label l} α(p) · p(end | p).

        A label is the kind of string that the automaton finds.

        alpha       (P,) the probability of being in each pair of a state of the model and a state of the automaton
        """
        inside = self.label >= 0
        weights = (alpha * self.model.prob[self.state, -1])[inside]
        return np.asarray(np.bincount(self.label[inside], weights=weights, minlength=self.labels), dtype=np.float64)

    def ended_after(self, columns: Sequence[int], lengths: int) -> Floats:
        """Return the probability, by label, that a string that begins with `columns` ends t characters later.

        columns     the first characters, as indices into the columns of the model's alphabet (a column is a character
                    or a class of them); the result is conditional on them
        lengths     t = 0, …, lengths - 1 have a row each; one more row sums t = lengths, lengths + 1, …

        The result is (lengths + 1, labels); a label is the kind of string that the automaton finds. All entries sum to
        1, less what the automaton does not accept. A DomainError if the sum of the last row does not converge.
        """
        here = 0
        for column in columns:
            here = int(self.moves[here, column])
        alpha, rows = np.zeros(len(self.state)), list[Floats]()
        alpha[here] = 1.0
        for _ in range(lengths):
            rows.append(self.ended(alpha))
            alpha = self.step(alpha)
        endless = DomainError(
            "a spelling must end, but the sum over its longer strings does not settle; lower its order"
        )
        return np.stack([*rows, self.ended(series(self.step, alpha, endless))])

    @cached_property
    def forward(self) -> list[Floats]:
        """The forward probabilities α_t, (P,), for t = 0, 1, …, until Σ α_t is less than 1e-16.

        α_t(p) is the probability that the first t characters of a string lead to the pair p of a state of the character
        model and one of the automaton. A DomainError if strings of more than 2,000 characters still have a noticeable
        probability.
        """
        found, alpha = list[Floats](), np.zeros(len(self.state))
        alpha[0] = 1.0
        while alpha.sum() > _NOTHING:
            if len(found) >= _LONGEST:
                raise DomainError(
                    f"a spelling must end, but {alpha.sum():.1e} of its mass is longer than {_LONGEST} characters; "
                    "give it words to learn from that end, or a lower order"
                )
            found.append(alpha)
            alpha = self.step(alpha)
        return found

    @cached_property
    def by_length(self) -> Floats:
        """The summed probability of all strings of length t with label l (kind of string), at [t, l], (T + 1, labels).

        T is the first length for which all longer strings together have a probability of at most 1e-16.
        """
        return np.stack([self.ended(alpha) for alpha in self.forward])

    def draw(
        self, labels: Ints, in_range: Callable[[Ints], NDArray[np.bool_]], count: int, rng: np.random.Generator
    ) -> list[str]:
        """Sample `count` independent strings with one of these labels and a permitted length, by the character model.

        labels      labels of the DFA (kinds of strings) that strings may have
        in_range    maps an array of lengths to an array of bool: which of them are permitted

        A string is drawn with its probability under the model divided by that of all such strings, which must not be 0.
        """
        weights = np.where(in_range(np.arange(len(self.by_length))), self.by_length[:, labels].sum(1), 0.0)
        length = _choose(weights, count, rng)
        columns = np.full((count, int(length.max(initial=0))), -1)
        at = np.zeros(count, dtype=np.int64)
        members = np.concatenate([self._members[label] for label in labels.tolist()])
        end = self.model.prob[self.state[members], -1]
        for t in range(int(length.max(initial=0)), 0, -1):
            new = np.flatnonzero(length == t)
            if len(new):
                at[new] = members[_choose(self.forward[t][members] * end, len(new), rng)]
            going = np.flatnonzero(length >= t)
            columns[going, t - 1] = self.model.last[self.state[at[going]]]
            self._step_back(at, going, t, rng)
        draw = self.model.alphabet.draw
        return ["".join(draw(int(column), rng) for column in row[row >= 0]) for row in columns]

    @cached_property
    def _members(self) -> list[Ints]:
        """At [label], an array of the indices of the pairs of states with this label (kind of strings)."""
        order = np.argsort(self.label, kind="stable")
        first = np.searchsorted(self.label[order], np.arange(self.labels + 1))
        return [order[first[i] : first[i + 1]] for i in range(self.labels)]

    def _step_back(self, at: Ints, going: Ints, t: int, rng: np.random.Generator) -> None:
        """Sample the pair of states before the last of t characters, given the pair after it (backward sampling).

        The pair before, p, is drawn with probability ∝ α_{t-1}(p) · p(character | p), where α are the forward
        probabilities (`forward`).

        at          (strings,) the pair after t characters; overwritten, in place, by the pair after t - 1
        going       indices into `at` of the strings to step back
        """
        states, which = np.unique(at[going], return_inverse=True)
        for number, state in enumerate(states.tolist()):
            mine = going[which == number]
            column = int(self.model.last[self.state[state]])
            order, targets = self._by_target(column)
            first, last = np.searchsorted(targets, [state, state + 1])
            before = order[first:last]  # the states from which `column` leads to `state`
            weights = self.forward[t - 1][before] * self.model.prob[self.state[before], column]
            at[mine] = before[_choose(weights, len(mine), rng)]

    @cached_property
    def _by_target(self) -> Callable[[int], tuple[Ints, Ints]]:
        """A cached function column -> (pairs, targets): all P pairs of states, sorted by the pair they lead to.

        A column is the index of a character of the alphabet, or of a class of them; `targets`, (P,), has the index of
        the pair that each of `pairs`, (P,), leads to by such a character, ascending.
        """

        def made(column: int) -> tuple[Ints, Ints]:
            order = np.argsort(self.moves[:, column], kind="stable")
            return order, self.moves[order, column].astype(np.int64)

        return cache(made)


def _choose(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Sample `count` independent indices into `weights` with probability ∝ weights, (count,); one must be above 0.

    An index of weight 0 is never drawn.
    """
    ends = weights.cumsum()
    drawn = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    chosen: Ints = np.minimum(drawn, np.flatnonzero(weights)[-1])
    return chosen


def _forward_step(prob: Floats, moves: NDArray[np.int32]) -> Callable[[Floats], Floats]:
    """Return the function that maps α_t to α_{t+1}, (P,) -> (P,), as a product with a sparse matrix.

    prob        (P, A + 1) probability of each of A columns (characters, or classes of them), and of the end
    moves       (P, A) the pair of states after each column

    α_t(p) is the probability that the first t characters of a string lead to the pair p of P pairs.
    """
    P, A = moves.shape
    order = np.argsort(moves, axis=None, kind="stable")
    first = np.searchsorted(moves.ravel()[order], np.arange(P + 1))
    rows, columns, values = map(torch.from_numpy, (first, order // A, prob[:, :A].ravel()[order]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR", UserWarning)  # beta since torch 1.10
        matrix = torch.sparse_csr_tensor(rows, columns, values, size=(P, P), check_invariants=False)
    return lambda alpha: np.asarray((matrix @ torch.from_numpy(alpha)).numpy())


class Spelling(Domain):
    """The domain of all strings, weighted by a character n-gram model that is estimated from a list of words.

    It gives any unlisted word a probability by its spelling. Its cells (sets of strings that share one symbol of the
    vocabulary) are given by shape, ending and length, with features such as `Looks:lowercase` and `Ends:ment`. The
    weight of a string is its probability under the character model.

    words       the words that the model is estimated on, each counted once; a DomainError if there is none
    order       length of the longest n-gram of characters
    endings     how many endings, the most frequent of up to `longest` characters, are distinguished by cells
    longest     length of the longest endings
    lengths     largest lengths of the ranges of length that are distinguished by cells; one more range is above them
    min_counts  at [n - 1]: n-grams of order n with fewer counts are pruned
    cells       False: one cell for all strings
    name        the name of the domain in reports

        Spelling(["house", "houses", "garden"]).locate(["gardens"])
    """

    name = "spelling"

    def __init__(
        self,
        words: Sequence[str],
        *,
        order: int = 5,
        endings: int = 200,
        longest: int = 4,
        lengths: Sequence[int] = (4, 8),
        min_counts: Sequence[int] = (0, 0, 0, 2),
        cells: bool = True,
        name: str = "spelling",
    ) -> None:
        types = sorted(set(words))
        if not types:
            raise DomainError("a spelling needs words to learn from, found none")
        self.name, self._ranges = name, LengthRanges(tuple(lengths) if cells else ())
        found = common_endings(types, longest=longest, top=endings) if cells else ()
        automaton, self._looks = looks_automaton(shapes_of(types) if cells else ("mixed",), found)
        self._endings = frozenset(found)
        self._source = (types, order, tuple(min_counts))
        self._looks_of = automaton

    @cached_property
    def _model(self) -> CharacterModel:
        types, order, min_counts = self._source
        apart = self._looks_of.characters
        return CharacterModel.estimated(types, order=order, min_counts=min_counts, told_apart=apart)

    @cached_property
    def _automaton(self) -> DFA:
        """The DFA that labels a string by the index of its look (shape and ending), over the model's columns.

        A column is a character, or a class of characters that are read alike.
        """
        return self._looks_of.refined(self._model.alphabet.characters)

    @cached_property
    def _kinds(self) -> tuple[tuple[Look, int], ...]:
        """For each cell (set of strings that share one symbol): its look (shape and ending) and range of length.

        The range is given by its index. Cells come look by look, by rising length. Strings in the shortest range are
        not distinguished by endings: their look has the ending "".
        """
        found = [(self._in_range(look, span), span) for look in self._looks for span in range(len(self._ranges))]
        return tuple(dict.fromkeys(found))

    def _in_range(self, look: Look, span: int) -> Look:
        return Look(look.shape, "") if span == 0 and len(self._ranges) > 1 else look

    @cached_property
    def _number(self) -> Ints:
        """The index in `cells` of the cell for each look (shape and ending) and range of length, (looks, ranges).

        A cell is a set of strings that share one symbol; looks that differ in the ending share that of short strings.
        """
        place = {kind: number for number, kind in enumerate(self._kinds)}
        spans = range(len(self._ranges))
        return np.array([[place[self._in_range(look, span), span] for span in spans] for look in self._looks])

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        if len(self._kinds) == 1:
            return (Cell(self.name),)
        made = list[Cell]()
        for look, span in self._kinds:
            named, length = look.shape + (f"-{look.ending}" if look.ending else ""), self._ranges.name(span)
            shown = (*look.attributes(self._endings), f"Length:{length}")
            made.append(Cell(f"{self.name}:{named}:{length}", shown))
        return tuple(made)

    @cached_property
    def log_mass(self) -> Floats:
        by_length = self._product.by_length  # (T + 1, looks)
        cell = self._number[:, self._ranges.of(np.arange(len(by_length)))].T
        mass = np.bincount(cell.ravel(), weights=by_length.ravel(), minlength=len(self._kinds))
        with np.errstate(divide="ignore"):
            return np.log(mass)

    @cached_property
    def _product(self) -> PairedStates:
        return PairedStates.of(self._model, self._automaton, len(self._looks))

    @property
    def language(self) -> DFA:
        return self._looks_of

    @property
    def by_looks(self) -> tuple[DFA, Ints, tuple[int, ...]]:
        """How the cell of a string (its set of strings with one symbol) is found: (DFA, table, limits).

        The DFA labels a string by its look (shape and ending). The table, (looks, ranges of length), has indices of
        cells; the limits are the largest lengths of all ranges but the last. So the cell of x is table[label of x,
        number of limits below len(x)].
        """
        return self._looks_of, self._number, self._ranges.edges

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        looks = self._automaton.label_all(strings)
        spans = self._ranges.of(np.array([len(string) for string in strings], dtype=np.int64))
        log_q = np.where(looks >= 0, self._model.log_prob(strings), -np.inf)
        return np.where(looks >= 0, self._number[looks, spans], OUTSIDE), log_q

    def _columns(self, letters: str) -> list[int] | None:
        """Return the index of the column of each character of `letters` in the alphabet of the character model.

        None if one is a line break or a surrogate. A column is a character, or a class of rare ones.
        """
        columns: list[int] = self._model.alphabet.columns(letters).tolist()
        return None if -1 in columns else columns

    def log_mass_of(self, letters: str) -> Floats:
        if letters not in self._masses:
            if len(self._masses) >= _KEPT:
                self._masses.pop(next(iter(self._masses)))
            self._masses[letters] = self._summed(letters)
        return self._masses[letters]

    @cached_property
    def _masses(self) -> dict[str, Floats]:
        """The cache of `log_mass_of`, empty at first: prefix -> log Σ q(x) over the strings x with it, (cells,).

        A cell is a set of strings that share one symbol, q(x) the weight of a string in the domain.
        """
        return {}

    def log_total_of(self, letters: str) -> float:
        """Return the log-probability of the characters `letters` at the beginning of a string, whatever comes then.

        That is a bound: strings that the domain does not have, such as those of other domains, are included.
        """
        return self._begun(letters)[1]

    @cached_property
    def _begun(self) -> Callable[[str], tuple[int, float]]:
        """The state of the character model after some letters, and their log-probability; kept for many prefixes."""
        return lru_cache(_PREFIXES)(self._read_letters)

    def _read_letters(self, letters: str) -> tuple[int, float]:
        if not letters:
            return 0, 0.0
        (state, log), column = self._begun(letters[:-1]), self._columns(letters[-1])
        if column is None:
            return 0, -np.inf
        return int(self._model.moves[state, column[0]]), log + float(self._model.log_gain[state, column[0]])

    def _summed(self, letters: str) -> Floats:
        columns = self._columns(letters)
        if not letters or columns is None:
            return self.log_mass if columns is not None else np.full(len(self._kinds), -np.inf)
        edges = self._ranges.edges
        by_length = self._product.ended_after(columns, max(0, edges[-1] + 1 - len(letters)) if edges else 0)
        state, log = 0, 0.0
        for column in columns:
            log += float(self._model.log_gain[state, column])
            state = int(self._model.moves[state, column])
        cell = self._number[:, self._ranges.of(len(letters) + np.arange(len(by_length)))].T
        mass = np.bincount(cell.ravel(), weights=by_length.ravel(), minlength=len(self._kinds))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(mass, 0.0)) + log)

    @cached_property
    def _reachable(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Which looks (shape and ending) a string can still get from each state of the automaton: (index, sets).

        sets[index[s], l] is whether a string that has led to state s can be completed, by any characters or none, to
        one of the look with index l. `index` is (states,), `sets` (distinct rows, looks), bool.
        """
        labels, moves = self._automaton.labels, np.unique(self._automaton.moves, axis=1)
        reached = np.packbits(labels[:, None] == np.arange(len(self._looks)), axis=1)
        while True:
            further = reached | np.bitwise_or.reduce(reached[moves], axis=1)
            if np.array_equal(further, reached):
                break
            reached = further
        sets, number = np.unique(reached, axis=0, return_inverse=True)
        return number.reshape(-1), np.unpackbits(sets, axis=1, count=len(self._looks)).astype(bool)

    def ranked(self, letters: str, log_weight: Floats, least: float = -np.inf) -> Iterator[tuple[float, str]]:
        """Iterate over (score, string) for the strings that begin with `letters`, highest score first (A* search).

        letters     the prefix; with a line break or a surrogate in it, nothing is returned
        log_weight  (cells,) the score of x is log q(x) + log_weight[cell of x]; q(x) is the weight of a string in the
                    domain, a cell a set of strings. Strings of cells with −∞ are not returned
        least       strings with a lower score are not returned

        The iterator may be infinite. The bound of the search adds the largest weight of a cell that can still be
        reached to that of the character model.
        """
        columns, model, looks_of = self._columns(letters), self._model, self._automaton
        if columns is None:
            return iter(())
        weight = np.where(self.log_mass > -np.inf, log_weight, -np.inf)[self._number]  # (looks, spans)
        most = np.maximum.accumulate(weight[:, ::-1], axis=1)[:, ::-1]  # of a span and all longer ones
        log_end, moves, labels = model._log_prob[:, -1], looks_of.moves, looks_of.labels
        last = self._ranges.edges[-1] + 1 if self._ranges.edges else 0  # all longer ones are of one span
        span = self._ranges.of(np.arange(last + 1)).tolist()
        State = tuple[int, int, int]  # of the character model, of the automaton of looks, and the length up to `last`

        def end(at: State) -> float:
            label = labels[at[1]]
            return float(log_end[at[0]] + weight[label, span[at[2]]]) if label >= 0 else -np.inf

        def move(at: State, column: int) -> State:
            return int(model.moves[at[0], column]), int(moves[at[1], column]), min(at[2] + 1, last)

        number, sets = self._reachable
        bound = cache(lambda reached: most[sets[reached]].max(0, initial=-np.inf)[span].tolist())  # of a set, by length

        state, look, log = 0, 0, 0.0
        for column in columns:
            log += float(model.log_gain[state, column])
            state, look = int(model.moves[state, column]), int(moves[look, column])
        start = state, look, min(len(letters), last)
        ahead, slack = (lambda at: model.transitions(at[0])), (lambda at: bound(number[at[1]])[min(at[2] + 1, last)])
        return best_first(start, letters, log, model.alphabet.characters_of, ahead, move, end, slack, least)

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        """Return `count` strings of a cell, by its index, drawn by their probability.

        A string with white space inside is drawn again, a few times at most: in a text nobody would read it as a word.
        """
        looks, spans = np.nonzero(self._number == cell)
        found, again = [""] * count, list(range(count))
        for _ in range(_TRIES):
            drawn = self._product.draw(looks, lambda lengths: self._ranges.of(lengths) == spans[0], len(again), rng)
            for n, string in zip(again, drawn, strict=True):
                found[n] = string
            again = [n for n in again if any(map(str.isspace, found[n]))]
            if not again:
                break
        return found

    def members(self, cell: int) -> Sequence[str] | None:
        looks, spans = np.nonzero(self._number == cell)
        of_length = self._looks_of.both(pattern(f".{{{self._ranges.pattern(int(spans[0]))}}}"))
        found = [of_length.strings(look, MOST_MEMBERS) for look in looks.tolist()]
        listed = [string for one in found for string in one or ()]
        return None if None in found or len(listed) > MOST_MEMBERS else listed

    def without(self, language: DFA) -> Spelling:
        if not hasattr(self, "_source"):
            raise DomainError(f"{self!r} comes from a model folder and cannot be cut any further; make it anew")
        made = Spelling.__new__(Spelling)
        for name in ("name", "_ranges", "_looks", "_endings", "_source"):
            setattr(made, name, getattr(self, name))
        made._looks_of = self._looks_of.minus(language)
        return made

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._model.described()
        looks = [[look.shape, look.ending] for look in self._looks]
        own: dict[str, Any] = {"kind": "spelling", "name": self.name, "looks": looks, "endings": sorted(self._endings)}
        own |= {"lengths": list(self._ranges.edges), "automaton": self._looks_of.described(), "model": plain}
        return own, {**arrays, "log_mass": self.log_mass}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Spelling:
        """Make a `Spelling` domain from the JSON-compatible data and arrays that its method `described` returned."""
        made = cls.__new__(cls)
        made.name, made._ranges = plain["name"], LengthRanges(tuple(plain["lengths"]))
        made._looks = tuple(Look(shape, ending) for shape, ending in plain["looks"])
        made._endings = frozenset(plain["endings"])
        made._looks_of = DFA.restored(plain["automaton"])
        if (most := int(made._looks_of.labels.max())) >= len(made._looks):
            raise DomainError(f"labels of the automaton must be below {len(made._looks)}, its looks; found {most}")
        own = {name: array for name, array in arrays.items() if name != "log_mass"}
        made.__dict__["_model"] = CharacterModel.restored(plain["model"], own)
        made.__dict__["log_mass"] = np.array(arrays["log_mass"], dtype=np.float64)
        return made

    def __repr__(self) -> str:
        return f"Spelling({self._model.n_states} contexts, {len(self.cells)} cells)"
