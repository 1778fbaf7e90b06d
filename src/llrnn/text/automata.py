"""Deterministic finite automata with labels: every string ends in one state, whose label is the answer.

    state(c_1 … c_n) = moves[state(c_1 … c_{n-1}), column(c_n)],   state("") = 0
    label(string)    = labels[state(string)]                       -1: outside

Some characters are told apart one by one; each has a column. Any other character moves by its kind (lowercase,
uppercase, digit, white space, sign), so that an automaton of a few columns answers for all of Unicode. Kinds are those
of Unicode 3.2, which every Python carries: a label never changes with the version of Python.
"""

from __future__ import annotations

import string as ascii_letters
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import DomainError

KINDS = ("lowercase", "uppercase", "digit", "space", "sign")
_FEW = 8  # strings: as many are read one by one
LOWER, UPPER, DIGIT, SPACE, SIGN = range(len(KINDS))
LINE_BREAKS = frozenset("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")  # where str.splitlines breaks
# what a reader would expect as an example of a kind; other characters are tried after these
EXAMPLES = (
    ascii_letters.ascii_lowercase,
    ascii_letters.ascii_uppercase,
    ascii_letters.digits,
    " ",
    "-!" + ascii_letters.punctuation,
)


def kind(character: str) -> int:
    """Return the index in KINDS of the kind of a character: lowercase, uppercase, digit, space or sign.

    Letters without case and combining marks count as lowercase, whatever is none of the others as sign.
    """
    return SPACE if character.isspace() else _of_category(unicodedata.ucd_3_2_0.category(character))


@cache
def _of_category(category: str) -> int:
    if category in ("Lu", "Lt"):
        return UPPER
    if category[0] in "LM":
        return LOWER
    return DIGIT if category == "Nd" else SIGN


def permitted(character: str) -> bool:
    """Return whether a word may contain this character: anything but line breaks and surrogates."""
    return character not in LINE_BREAKS and not "\ud800" <= character <= "\udfff"


def check_string(string: str) -> str | None:
    """Return why a string cannot be a symbol of a vocabulary, as text for an error message, or None if it can.

    Not permitted are the empty string, line breaks, surrogates, and white space at either end.
    """
    if not string:
        return "it is empty"
    for character in string:
        if not permitted(character):
            what = "a line break" if character in LINE_BREAKS else "a surrogate"
            return f"it holds {what}, {character!r}"
    return "it has white space at an end" if string.strip() != string else None


def examples(characters: Sequence[str]) -> tuple[str | None, ...]:
    """Return one character for each column (class of characters) of an `Alphabet` of these characters.

    These are the characters themselves, in the given order, then for each of KINDS (lowercase, uppercase, digit, space,
    sign) another character of that kind, or None if there is none. For messages and tests.
    """
    taken = [frozenset(c for c in characters if kind(c) == number) for number in range(len(KINDS))]
    return (*characters, *(_example(number, taken[number]) for number in range(len(KINDS))))


@lru_cache(maxsize=1024)
def _example(number: int, taken: frozenset[str]) -> str | None:
    """Return a permitted character of a kind that is not in `taken`, or None if there is none.

    A common one is preferred (`a`, `A`, `0`, a blank, `-`), then the first by code point. Permitted is all but line
    breaks and surrogates.

    number      index of the kind in KINDS: lowercase, uppercase, digit, space, sign
    """
    candidates = chain(EXAMPLES[number], map(chr, range(0x110000)))
    return next((c for c in candidates if c not in taken and kind(c) == number and permitted(c)), None)


@cache
def of_kind(number: int) -> Ints:
    """Return all permitted code points of a kind, sorted; no line breaks and surrogates.

    number      index of the kind in KINDS: lowercase, uppercase, digit, space, sign
    """
    return np.flatnonzero(_kinds() == number).astype(np.int64)


@cache
def _kinds() -> NDArray[np.int8]:
    """Return the kind of every code point, (0x110000,), as its index in KINDS; -1 for line breaks and surrogates.

    KINDS are lowercase, uppercase, digit, space and sign.
    """
    pieces = [range(start, start + 0x1000) for start in range(0, 0x110000, 0x1000)]
    found = np.concatenate([_kinds_in(piece) for piece in pieces])  # in pieces: other threads get a turn
    found[[*map(ord, LINE_BREAKS), *range(0xD800, 0xE000)]] = -1
    return found


def _kinds_in(codes: range) -> NDArray[np.int8]:
    characters = [*map(chr, codes)]
    found = np.array([*map(_of_category, map(unicodedata.ucd_3_2_0.category, characters))], dtype=np.int8)
    found[[*map(str.isspace, characters)]] = SPACE
    return found


class Alphabet:
    """A partition of all permitted characters into finitely many classes, called columns, by which a DFA moves.

    Columns 0 … n-1 are the n distinguished characters, sorted; then come five columns, one for each of KINDS
    (lowercase, uppercase, digit, space, sign), for all other characters of that kind.

        Alphabet("abc").columns("bad!")
    """

    def __init__(self, characters: Sequence[str]) -> None:
        self.characters = tuple(sorted(set(characters)))
        self._column = {character: column for column, character in enumerate(self.characters)}
        self._others: dict[int, Ints] = {}
        self._printable: dict[int, Ints] = {}

    def __len__(self) -> int:
        return len(self.characters) + len(KINDS)

    def column(self, character: str) -> int:
        """Return the index of the column (class of characters) of a character: its own, or that of its kind.

        A kind is lowercase, uppercase, digit, space or sign. The character must be permitted (no line break or
        surrogate).
        """
        found = self._column.get(character)
        return len(self.characters) + kind(character) if found is None else found

    def columns(self, text: str) -> Ints:
        """Return the index of the column (class of characters) of every character of a text, (length,).

        -1 for line breaks and surrogates.
        """
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        column = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
        for character in filter(permitted, set(text)):
            column[ord(character)] = self.column(character)
        return column[codes]

    def padded(self, strings: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the columns (classes of characters) of n strings, (n, longest), and their lengths, (n,).

        A column is given by its index. Rows are padded with -1; line breaks and surrogates have -1, too.
        """
        lengths = np.array([len(string) for string in strings], dtype=np.int64)
        rows = np.full((len(strings), int(lengths.max(initial=0))), -1, dtype=np.int64)
        rows[np.arange(rows.shape[1]) < lengths[:, None]] = self.columns("".join(strings))
        return rows, lengths

    def others(self, column: int) -> Ints:
        """Return the code points, sorted, of one of the last five columns (classes): all other characters of one kind.

        column      n to n + 4, where n is the number of distinguished characters, for the kinds lowercase, uppercase,
                    digit, space and sign; the distinguished characters of the kind are not among them
        """
        if column not in self._others:
            number = column - len(self.characters)
            told_apart = [ord(character) for character in self.characters if kind(character) == number]
            self._others[column] = np.setdiff1d(of_kind(number), told_apart, assume_unique=True)
        return self._others[column]

    @cached_property
    def characters_of(self) -> tuple[str, ...]:
        """For every column (class of characters), by index, a string of all its characters.

        One character for a distinguished one, else all others of a kind, such as lowercase.
        """
        others = (self.others(column).astype("<u4").tobytes() for column in range(len(self.characters), len(self)))
        return (*self.characters, *(codes.decode("utf-32-le") for codes in others))

    @cached_property
    def log_share(self) -> Floats:
        """−log of the number of characters in each column (class of characters), (columns,).

        That is the log-probability of one of them, drawn uniformly.
        """
        sizes = [1] * len(self.characters) + [len(self.others(c)) for c in range(len(self.characters), len(self))]
        return -np.log(np.maximum(sizes, 1).astype(np.float64))

    def draw(self, column: int, rng: np.random.Generator) -> str:
        """Sample one character of a column (class of characters, by index), uniformly among those that can be printed.

        Of the others, such as control characters, all have their probability, but nobody could read them; they are
        drawn where a class has nothing else.
        """
        if column < len(self.characters):
            return self.characters[column]
        if column not in self._printable:
            codes = self.others(column)
            shown = codes[[chr(code).isprintable() for code in codes]]
            self._printable[column] = shown if len(shown) else codes
        return chr(int(rng.choice(self._printable[column])))


@dataclass(frozen=True, eq=False)
class DFA:
    """A deterministic finite automaton that assigns every string a label: -1 (not accepted), or 0, 1, 2, ….

    It has a move for every state and every character of Unicode; state 0 is the start. A column of `moves` belongs to
    one character, or to all other characters of a kind (lowercase, uppercase, digit, space, sign).

    characters  the characters with columns of their own
    moves       (states, columns) the next states
    labels      (states,) the label of strings that end there, -1 for strings that are not accepted

        pattern("[0-9]+").label("1987")     # 0
    """

    characters: tuple[str, ...]  # sorted: those told apart; any other character moves by its kind
    moves: Ints  # (states, characters + kinds) the next state
    labels: Ints  # (states,) -1: outside

    def __post_init__(self) -> None:
        n, width = len(self.labels), len(self.characters) + len(KINDS)
        if list(self.characters) != sorted(set(self.characters)):
            raise DomainError("the characters of an automaton must be distinct and sorted; sort them")
        for character in self.characters:
            if len(character) != 1 or not permitted(character):
                raise DomainError(f"an automaton tells apart single characters without line breaks, not {character!r}")
        if n == 0 or self.labels.ndim != 1 or self.moves.shape != (n, width):
            raise DomainError(
                "an automaton needs at least one state, and a move for each state and column: "
                f"required ({n}, {width}), found {self.moves.shape}"
            )
        if self.moves.min() < 0 or self.moves.max() >= n:
            stray = self.moves[(self.moves < 0) | (self.moves >= n)][0]
            raise DomainError(f"moves must lead to one of the states 0 to {n - 1}, found {stray}")
        if self.labels.min() < -1:
            raise DomainError(f"labels must be -1 (outside), 0, 1, 2, ..., found {self.labels.min()}")

    def __repr__(self) -> str:
        return f"DFA({len(self.labels)} states, {len(self.characters)} characters told apart)"

    @cached_property
    def alphabet(self) -> Alphabet:
        """The partition of all characters into the classes that index the columns of `moves`."""
        return Alphabet(self.characters)

    @cached_property
    def _examples(self) -> tuple[str | None, ...]:
        return examples(self.characters)

    @property
    def _usable(self) -> Ints:
        return np.array([column for column, example in enumerate(self._examples) if example is not None])

    def label(self, string: str) -> int:
        """Return the label (0 or more) that the automaton gives a string; -1 if it does not accept it.

        Strings with a line break or a surrogate are never accepted.
        """
        state = 0
        for character in string:
            if not permitted(character):
                return -1
            state = int(self.moves[state, self.alphabet.column(character)])
        return int(self.labels[state])

    def label_all(self, strings: Sequence[str]) -> Ints:
        """Return the label (0 or more) that the automaton gives each of n strings, (n,); -1 if it does not accept it.

        Strings with a line break or a surrogate are never accepted.
        """
        if len(strings) < _FEW:
            return np.array([self.label(string) for string in strings], dtype=np.int64)
        n = len(self.labels)
        moves = np.pad(self.moves, ((0, 1), (0, 1)), constant_values=n)  # and what is not permitted
        lengths = np.array([len(string) for string in strings], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")  # longest first: those that go on are a prefix
        starts, falling = (np.cumsum(lengths) - lengths)[order], -lengths[order]
        columns = self.alphabet.columns("".join(strings))
        states = np.zeros(len(strings), dtype=np.int64)
        for t in range(int(lengths.max(initial=0))):
            on = int(np.searchsorted(falling, -t))
            states[:on] = moves[states[:on], columns[starts[:on] + t]]
        answers = np.empty(len(strings), dtype=np.int64)
        answers[order] = np.append(self.labels, -1)[states]
        return answers

    def refined(self, characters: Iterable[str]) -> DFA:
        """Return an automaton that labels every string as this one does, with columns of their own for `characters`.

        A column of `moves` belongs to one character or to all others of a kind. The result's `characters` are those of
        this one and the given ones, sorted; so two automata get the same columns.
        """
        told = tuple(sorted({*self.characters, *characters}))
        kinds = range(len(self.characters), self.moves.shape[1])
        return DFA(told, self.moves[:, [*map(self.alphabet.column, told), *kinds]], self.labels)

    def product(self, other: DFA, combine: Callable[[int, int], int]) -> DFA:
        """Return the minimal automaton whose label of a string is `combine(label by self, label by other)`.

        Labels are -1 for strings that an automaton does not accept; `combine` gets and returns them so.
        """
        a, b = self.refined(other.characters), other.refined(self.characters)
        mine, others, moves = paired(a.moves, b.moves)
        both = zip(a.labels[mine].tolist(), b.labels[others].tolist(), strict=True)
        labels = np.array([combine(x, y) for x, y in both], dtype=np.int64)
        return DFA(a.characters, moves, labels).minimised()

    def both(self, other: DFA) -> DFA:
        """Return the automaton of the strings that both automata accept (`a & b`), with the labels of this one."""
        return self.product(other, lambda x, y: x if y >= 0 else -1)

    __and__ = both

    def minus(self, other: DFA) -> DFA:
        """Return the automaton of strings that this one accepts and `other` does not, with the labels of this one."""
        return self.product(other, lambda x, y: x if y < 0 else -1)

    def minimised(self) -> DFA:
        """Return the automaton with the fewest states that labels every string as this one does.

        Its states are in breadth-first order, so that automata of equal labels and equal `characters` become equal
        arrays.
        """
        moves = np.repeat(np.arange(len(self.labels))[:, None], self.moves.shape[1], axis=1)
        moves[:, self._usable] = self.moves[:, self._usable]  # columns without characters stay where they are
        moves, labels = _numbered(moves, self.labels, start=0)
        distinct = np.unique(moves, axis=1)  # equal columns tell the same states apart
        # states with different distances differ: long words are told apart at once, not one character a round
        classes, n = _classes(labels, _distances(distinct, labels >= 0)), 0
        while classes.max() >= n:  # Moore: states part that move into different classes
            n = classes.max() + 1
            classes = _classes(classes, classes[distinct])
        first = np.unique(classes, return_index=True)[1]
        return DFA(self.characters, *_numbered(classes[moves[first]], labels[first], start=classes[0]))

    def witness(self, label: int | None = None) -> str | None:
        """Return a shortest string with this label (None: with any label but -1), or None if there is none.

        Where several are equally short, always the same one; it may be "".
        """
        wanted = self.labels >= 0 if label is None else self.labels == label
        found: dict[int, str] = {0: ""}
        queue = [0]
        for state in queue:  # grows while we read it: breadth first
            if wanted[state]:
                return found[state]
            for example, after in zip(self._examples, self.moves[state].tolist(), strict=True):
                if example is not None and after not in found:
                    found[after] = found[state] + example
                    queue.append(after)
        return None

    def count(self, label: int) -> int | None:
        """Return the number of strings with this label, or None if it is infinite or huge.

        It counts as huge if a string may contain any character of a kind (lowercase, uppercase, digit, space, sign).
        """
        small, own = self.minimised(), len(self.characters)
        useful = _distances(small.moves[:, small._usable], small.labels == label) >= 0
        by_kind = small._usable[small._usable >= own]
        if useful[small.moves[useful][:, by_kind]].any():
            return None
        after = {s: [t for t in small.moves[s, :own].tolist() if useful[t]] for s in np.flatnonzero(useful).tolist()}
        try:
            order = list(TopologicalSorter({s: set(t) for s, t in after.items()}).static_order())
        except CycleError:
            return None
        strings: dict[int, int] = {}  # from each state on; the states behind it come first
        for s in order:
            strings[s] = int(small.labels[s] == label) + sum(strings[t] for t in after[s])
        return strings.get(0, 0)

    def strings(self, label: int, most: int) -> list[str] | None:
        """Return all strings with this label, shortest first, then alphabetically; None if they are more than `most`.

        None, too, if they are infinitely many, or may contain any character of a kind (such as all lowercase letters).
        """
        total, own = self.count(label), len(self.characters)
        if total is None or total > most:
            return None
        useful = _distances(self.moves[:, :own], self.labels == label) >= 0
        found, level = list[str](), [(0, "")] if useful[0] else []
        while level:
            found += [string for state, string in level if self.labels[state] == label]
            level = [
                (after, string + character)
                for state, string in level
                for character, after in zip(self.characters, self.moves[state, :own].tolist(), strict=True)
                if useful[after]
            ]
        return found

    def described(self) -> dict[str, Any]:
        """Return the automaton as JSON-compatible data (`characters`, `moves` and `labels`), for `restored`."""
        return {"characters": list(self.characters), "moves": self.moves.tolist(), "labels": self.labels.tolist()}

    @classmethod
    def restored(cls, data: Mapping[str, Any]) -> DFA:
        """Make the automaton from the data that `described` returned; data that do not fit are a DomainError."""
        try:
            characters, moves, labels = (tuple(data["characters"]), np.array(data["moves"]), np.array(data["labels"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DomainError(f"an automaton needs `characters`, `moves` and `labels` as lists: {error!r}") from error
        if moves.dtype.kind != "i" or labels.dtype.kind != "i" or not all(isinstance(c, str) for c in characters):
            raise DomainError("the characters of an automaton must be texts, its moves and labels whole numbers")
        if labels.ndim != 1:
            raise DomainError(f"the labels of an automaton must be one list of numbers, found shape {labels.shape}")
        return cls(characters, moves.astype(np.int64), labels.astype(np.int64))


def paired(a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the pairs (s, t) of states of two automata that one string reaches from the start, and their moves.

    a, b        (states, columns) the next states, over the same columns (classes of characters)

    Return s and t of each of P pairs, (P,) each, and the index of the pair after each column, (P, columns); pair 0 is
    (0, 0), the start.
    """
    n = len(b)  # the pair (s, t) is the number s n + t
    pairs = fresh = np.zeros(1, dtype=np.int64)
    while len(fresh):
        fresh = np.setdiff1d(a[fresh // n] * n + b[fresh % n], pairs)
        pairs = np.union1d(pairs, fresh)
    mine, others = pairs // n, pairs % n
    return mine, others, np.searchsorted(pairs, a[mine] * n + b[others])


def _classes(*values: Ints) -> Ints:
    """Return a number for each of n rows, equal for rows with equal values, (n,): 0, 1, … in the order of the values.

    values      arrays of shape (n,) or (n, columns), compared together: rows are equal if they are so in all arrays
    """
    return np.unique(np.column_stack(values), axis=0, return_inverse=True)[1].reshape(-1)  # numpy 2.0 gives a column


def _distances(moves: Ints, goal: Bools) -> Ints:
    """Return the least number of moves from each state to a state in `goal`, (states,); -1 if none is reachable.

    0 for a goal itself.

    moves       (states, columns) the next state for each class of characters
    goal        (states,) whether a state is a goal
    """
    distances, reached, step = np.where(goal, 0, -1), goal, 0
    while reached.any():
        reached, step = (distances < 0) & reached[moves].any(1), step + 1
        distances[reached] = step
    return distances


def _numbered(moves: Ints, labels: Ints, *, start: int) -> tuple[Ints, Ints]:
    """Return the moves and labels of the states reachable from `start`, renumbered breadth first; `start` becomes 0.

    moves       (states, columns) the next state for each class of characters
    labels      (states,) the label of strings that end there
    """
    place = np.full(len(labels), -1)
    place[start] = 0
    levels = [np.array([start])]
    n = 1
    while len(levels[-1]):
        reached = moves[levels[-1]].reshape(-1)
        reached = reached[place[reached] < 0]
        reached = reached[np.sort(np.unique(reached, return_index=True)[1])]  # distinct, first come first
        place[reached] = n + np.arange(len(reached))
        n += len(reached)
        levels.append(reached)
    order = np.concatenate(levels)
    return place[moves[order]], labels[order]


def anything() -> DFA:
    """Return the DFA with label 0 for every string that can be a symbol of a vocabulary, as `check_string` decides."""
    word, gap, dead = 1, 2, 3  # after a letter, after white space, lost; 0 is the start
    moves = np.full((4, len(KINDS)), word)
    moves[:, SPACE] = [dead, gap, gap, dead]
    moves[dead] = dead
    return DFA((), moves, np.where(np.arange(4) == word, 0, -1))


def nothing() -> DFA:
    """Return the DFA that accepts no string: its label is always -1."""
    return DFA((), np.zeros((1, len(KINDS)), dtype=np.int64), np.array([-1]))


def first_of(automata: Sequence[DFA]) -> DFA:
    """Return the DFA that labels a string by the index of the first automaton that accepts it, -1 if none does.

    An automaton accepts a string by any label but -1.
    """
    result = nothing()
    for number, automaton in enumerate(automata):
        result = _or_else(result, automaton, number)
    return result


def _or_else(first: DFA, second: DFA, number: int) -> DFA:
    """Return the DFA with the labels of `first`, and the label `number` for strings that only `second` accepts.

    Strings that neither accepts have the label -1.
    """
    return first.product(second, lambda x, y: x if x >= 0 or y < 0 else number)


def partition(named: Mapping[str, DFA]) -> DFA:
    """Return the DFA that labels a string by the index of the automaton in `named` that accepts it, -1 if none does.

    named       name -> DFA of a cell (a set of strings); a DomainError names two that accept a common string
    """
    names, result = list(named), nothing()
    for number, (name, cell) in enumerate(named.items()):
        overlap = result.both(cell)
        shared = overlap.witness()
        if shared is not None:
            raise DomainError(
                f"cells must not overlap, but {names[overlap.label(shared)]!r} and {name!r} both hold {shared!r}; "
                "narrow one of them"
            )
        result = _or_else(result, cell, number)
    return result
