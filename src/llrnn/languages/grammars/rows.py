"""From letters to symbols: what a language says of every symbol of the vocabulary at a node.

    log b(node, x) = log w(c_1 | node) + log w(c_2 | node c_1) + …            x spells the letters c_1 c_2 …

Where a symbol is one letter this is one look at its column. Where symbols spell several (characters, tokens), a
language may have summaries, whose parts are joined; otherwise all are walked at once, as a trie of columns, level by
level: symbols that no atom tells apart share their path through it. A vocabulary of a hundred thousand tokens costs
some milliseconds at a new node, and a look-up at one that was seen.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.automaton import UNREAD, Language, LetterColumns, Node, Over
from llrnn.languages.grammars.tries import Allowed, SymbolTrie, TooDeepError
from llrnn.layer.priors import SparsePrior, Table

BLANK = "␣"  # how a blank is written as a symbol of its own
MOST_CACHED = 32_000_000  # numbers in the rows of one language: 256 MB
MOST_SUMMARISED = 16_000_000  # numbers in the summaries of a language: 128 MB
MOST_NODES = 200_000  # whose rows are cached: nested brackets have ever new nodes, but the same few rows


def letters_of(symbols: Sequence[str], over: Over, spelling: Mapping[str, str]) -> list[str]:
    """Return the letters that a language reads: the symbols of a vocabulary, or all characters that they spell, sorted.

    over        "symbols": `symbols` are returned in their order; "characters": the distinct characters, sorted
    spelling    character of a symbol -> what it spells, such as ␣ -> a blank; all others spell themselves
    """
    if over == "symbols":
        return list(symbols)
    used = set().union(*symbols)
    return sorted({letter for character in used for letter in spelling.get(character, character)})


def spelled(symbol: str, spelling: Mapping[str, str]) -> str:
    """Return the string of characters that a symbol of the vocabulary spells.

    spelling    character of a symbol -> what it spells, such as ␣ -> a blank; all others spell themselves
    """
    return "".join([spelling.get(character, character) for character in symbol])


class SymbolSpellings:
    """The symbols of a vocabulary as sequences of columns (classes of letters that a language reads alike).

    symbols     the symbols by id
    eos         the id of the end-of-sentence symbol, which spells nothing
    columns     the partition of the letters into columns
    spelling    character of a symbol -> what it spells; all others spell themselves

    `read[id]` is a tuple of the columns of a symbol's letters in order, None for EOS and if the language never reads
    one of its letters. A BackgroundError if a character that the language reads is no symbol by itself.
    """

    def __init__(self, symbols: Sequence[str], eos: int, columns: LetterColumns, spelling: Mapping[str, str]) -> None:
        self.columns, self.n_symbols, self.eos = columns, len(symbols), eos
        columns_of = dict(zip(columns.letters, columns.of_letter.tolist(), strict=True))
        self.read: list[tuple[int, ...] | None] = [
            None if number == eos else self._columns(symbol, spelling, columns_of)
            for number, symbol in enumerate(symbols)
        ]
        known = [number for number, read in enumerate(self.read) if read is not None]
        self.single = all(len(self.read[number] or ()) == 1 for number in known)
        self.known = np.array(known, dtype=np.int64)
        if self.single:
            self.column = np.array([(self.read[number] or (UNREAD,))[0] for number in known], dtype=np.int64)
        else:
            self._check_single_letters(known)

    def _columns(
        self, symbol: str, spelling: Mapping[str, str], columns_of: Mapping[str, int]
    ) -> tuple[int, ...] | None:
        """Return the columns that a symbol spells; None if it is empty, or has a letter that the language never reads.

        A column is a class of letters that are read alike, given by its index. Where letters are symbols, the symbol
        is one letter.

        spelling    character of a symbol -> what it spells; all others spell themselves
        columns_of  letter -> its column
        """
        letters = (symbol,) if self.columns.over == "symbols" else spelled(symbol, spelling)
        found = tuple([columns_of.get(letter, UNREAD) for letter in letters])
        return None if UNREAD in found or not found else found

    def _check_single_letters(self, known: Sequence[int]) -> None:
        """Raise a BackgroundError if for a column (class of letters) no symbol spells just one letter of it.

        known       ids of the symbols that the language can read

        Without such symbols, strings could be begun but not completed.
        """
        alone = {read[0] for number in known if (read := self.read[number]) is not None and len(read) == 1}
        missing = [column for column in range(self.columns.count) if column not in alone]
        if missing:
            raise BackgroundError(
                f"every character that the language reads must be a symbol by itself, but "
                f"{self.columns.example(missing[0])!r} stands in longer symbols only; add it to the vocabulary"
            )

    @cached_property
    def trie(self) -> SymbolTrie:
        """The trie of the symbols that the language can read, spelled in columns (classes of letters read alike)."""
        read = [self.read[number] or () for number in self.known.tolist()]
        lengths = np.array([len(one) for one in read], dtype=np.int64)
        first, letters = np.cumsum(lengths) - lengths, np.fromiter(chain.from_iterable(read), dtype=np.int64)
        node, left, depth = np.zeros(len(read), dtype=np.int64), np.arange(len(read)), 0
        keys, n, C = list[Ints](), 1, self.columns.count
        while len(left):
            found, place = np.unique(node[left] * C + letters[first[left] + depth], return_inverse=True)
            keys.append(found)
            node[left] = n + place.reshape(-1)
            n, depth = n + len(found), depth + 1
            left = left[lengths[left] > depth]
        whole = np.concatenate(keys)
        return SymbolTrie(whole // C, whole % C, node, self.known, self.n_symbols)


class Row:
    """Log weights log b(x) of all V symbols x at one position of a text, in several forms; −∞ forbids a symbol.

    log_b       (V,) float64; given as an array, kept as a tensor on the CPU
    digest      bytes, a hash of the values, by which equal rows share one object
    """

    def __init__(self, log_b: Floats, digest: bytes) -> None:
        self.log_b, self.digest = torch.from_numpy(log_b), digest  # (V,); what equal rows have in common
        self.prior: SparsePrior | None = None  # as an answer at one position, once it was asked for

    @cached_property
    def n_allowed(self) -> int:
        """Number of symbols that may follow: those whose log weight is above −∞."""
        return len(self.allowed)

    @cached_property
    def allowed(self) -> Tensor:
        """The ids of the symbols that may follow (log weight above −∞), sorted, (n_allowed,)."""
        return torch.nonzero(self.log_b > -torch.inf).view(-1)

    @cached_property
    def table(self) -> Table:
        """The log weights of all symbols as a `Table`, a prior of the log-linear layer.

        Always the same object, since it caches sums.
        """
        return Table(self.log_b)


_LOGS = np.array([-np.inf, 0.0])  # of 0 and 1


class BooleanRow(Row):
    """Log weights of all V symbols at one position of a text, where symbols are only allowed (0) or forbidden (−∞).

    marked      (V,) bool, which symbols are allowed
    digest      a hash of the values, by which equal rows share one object
    """

    def __init__(self, marked: Bools, digest: bytes) -> None:
        super().__init__(_LOGS.take(marked.view(np.uint8)), digest)
        self.n_allowed = int(np.count_nonzero(marked))
        self.table = Table(self.log_b, checked=False)


class SymbolReader:
    """A language read symbol by symbol of a vocabulary: log weights of all symbols at a node, and the node after one.

        reader = SymbolReader(language, spelled); reader.row(language.root, 0).log_b        # (V,)

    The weight of a symbol is the product of the weights of its letters in the language, that of EOS the weight of
    ending.

    language    the automaton or grammar, which is read letter by letter; a node stands for what was read so far
    spelled     the letters of the symbols
    longest     greatest length of a text in letters; None: no limit. A BackgroundError if no string is so short

    Weights are computed once for each node, and cached.
    """

    def __init__(self, language: Language, spelled: SymbolSpellings, longest: int | None = None) -> None:
        self.language, self.spelled, self.longest = language, spelled, longest
        self._summaries = None if spelled.single else language.summaries(spelled.trie)
        self._by_parts: dict[tuple[Allowed, float], Row] = {}
        self._rows: OrderedDict[Node, Row] = OrderedDict()
        self._interned: dict[bytes, Row] = {}
        self._needed_letters: dict[Node, int] = {}
        if longest is not None and language.shortest(language.root) > longest:
            raise BackgroundError(
                f"the shortest string has {language.shortest(language.root)} letters, but longest={longest}; allow more"
            )

    def __deepcopy__(self, memo: object) -> SymbolReader:
        return self  # a value: what it caches follows from what it is

    def advance(self, node: Node, symbol: int) -> Node | None:
        """Return the node (what was read so far) after the symbol of id `symbol`, or None if it is not allowed.

        EOS has no node after it: None. The limit `longest` is not considered.
        """
        for column in self.spelled.read[symbol] or (UNREAD,):
            after = self.language.after(node, column) if column != UNREAD else None
            if after is None:
                return None
            node = after
        return node

    def length(self, symbol: int) -> int:
        """Return the number of letters that the symbol with the id `symbol` spells.

        0 if the language cannot read it.
        """
        return len(self.spelled.read[symbol] or ())

    def row(self, node: Node, read: int) -> Row:
        """Return the log weights of all symbols of the vocabulary at a node of the language (what was read so far).

        That of a symbol is the sum over its letters, that of EOS is for ending; −∞ where the language forbids it.

        read        number of letters before the node; they count towards `longest`: symbols after which no string
                    can end within it are forbidden. Without such a limit it does not matter
        """
        if self.longest is None:
            return self._cached_row(node, None)
        left = self.longest - read
        return self._cached_row(node, None if left >= self._needed(node) else left)

    def _cached_row(self, node: Node, left: int | None) -> Row:
        key = node if left is None else (node, left)
        found = self._rows.get(key)
        if found is None:
            found = self._row(node) if left is None else self._interning(self._within(node, left))
            self._rows[key] = found
            while len(self._rows) > 1 and (
                len(self._interned) * self.spelled.n_symbols > MOST_CACHED or len(self._rows) > MOST_NODES
            ):
                self._forget()
        return found

    def _forget(self) -> None:
        """Drop the older half of the cached rows (log weights of all symbols at a node)."""
        for _ in range(max(1, len(self._rows) // 2)):
            self._rows.popitem(last=False)
        self._interned = {row.digest: row for row in self._rows.values()}
        self._by_parts.clear()
        self._needed_letters.clear()

    def _row(self, node: Node) -> Row:
        end = self.language.end(node)
        if self.spelled.single:
            row = self._ending(end)
            with np.errstate(divide="ignore"):
                row[self.spelled.known] = np.log(self.language.weights(node))[self.spelled.column]
            return self._interning(row)
        return self._summarised(node, end) or self._interning(self._walked(node, end))

    def _summarised(self, node: Node, end: float) -> Row | None:
        """Return the row (log weights of all symbols) at a node by the summaries of the language, or None.

        Summaries (`Language.summaries`) find all allowed symbols at once. None if the language has none, or a symbol
        spans too many terminals for them.

        node        what was read so far
        end         weight of ending at the node
        """
        if (summaries := self._summaries) is None:
            return None
        try:
            key = summaries.allowed(node), end
        except TooDeepError:
            return None
        if summaries.numbers > MOST_SUMMARISED:  # all are forgotten, and made again when needed
            self._summaries = self.language.summaries(self.spelled.trie)
            self._by_parts.clear()
        if key not in self._by_parts:
            self._by_parts[key] = self._joined(*key)
        return self._by_parts[key]

    def _joined(self, allowed: Allowed, end: float) -> Row:
        marked = np.zeros(self.spelled.n_symbols, dtype=np.bool_)
        for one in allowed:
            one.mark(marked)
        marked[self.spelled.eos] = end > 0
        digest = _digest(np.packbits(marked))
        if digest not in self._interned:
            self._interned[digest] = BooleanRow(marked, digest)
        return self._interned[digest]

    def _interning(self, row: Floats) -> Row:
        digest = _digest(row)
        return self._interned.setdefault(digest, Row(row, digest))

    def _ending(self, end: float) -> Floats:
        row = np.full(self.spelled.n_symbols, -np.inf)
        with np.errstate(divide="ignore"):
            row[self.spelled.eos] = np.log(end)
        return row

    def _walked(self, node: Node, end: float) -> Floats:
        """Return the log weights of all V symbols at a node, (V,), by walking the trie of symbols level by level.

        −∞ for symbols that the language forbids; the limit `longest` is not considered.

        node        what was read so far, a node of the language
        end         weight of ending at the node
        """
        trie, nodes, C = self.spelled.trie, [node], self.spelled.columns.count
        at, log_w = np.full(len(trie.column), -1), np.full(len(trie.column), -np.inf)
        at[0], log_w[0] = 0, 0.0
        for level in trie.levels:
            own = level.start + np.flatnonzero(at[trie.parent[level]] >= 0)
            parent = trie.parent[own]
            asked = at[parent] * C + trie.column[own]
            keys = _distinct(asked, len(nodes) * C)
            if not keys:
                break
            place, gained = np.full(len(nodes) * C, -1), np.full(len(nodes) * C, -np.inf)
            nodes, place[keys], gained[keys] = self._answers(nodes, keys)
            at[own], log_w[own] = place[asked], log_w[parent] + gained[asked]
        row = self._ending(end)
        row[trie.listed] = log_w[trie.ends]
        return row

    def _answers(self, nodes: Sequence[Node], keys: Sequence[int]) -> tuple[list[Node], list[int], list[float]]:
        """Return what follows several steps of one letter: (next nodes, index for each step, log weight of each step).

        nodes       nodes of the language (what was read so far)
        keys        the steps: (index in `nodes`) · (number of columns) + column, a column being a class of letters

        Next nodes are distinct; an index is into them, -1 where the step is not possible, with a log weight of −∞.
        """
        C, language = self.spelled.columns.count, self.language
        found: dict[Node, int] = {}
        place, gained = [-1] * len(keys), [-math.inf] * len(keys)
        for k, key in enumerate(keys):
            before, column = nodes[key // C], key % C
            after = language.after(before, column)
            if after is not None:
                place[k] = found.setdefault(after, len(found))
                weight = language.weights(before)[column]
                gained[k] = 0.0 if weight == 1.0 else float(np.log(weight))
        return list(found), place, gained

    def _needed(self, node: Node) -> int:
        """Return how many letters must be left at a node so that the limit on the length forbids no symbol.

        It is the largest, over the symbols that may follow, of the least number of letters to an end through the
        symbol; 0 if no symbol, or only EOS, may follow. The limit is `longest`.
        """
        if node not in self._needed_letters:
            self._needed_letters[node] = max((length for _, length in self._lengths(node)), default=0)
        return self._needed_letters[node]

    def _lengths(self, node: Node) -> list[tuple[int, int]]:
        """Return (symbol id, letters) for each symbol that may follow at a node of the language.

        letters: the least number from the node to the end of a string that goes on with this symbol, its own letters
        included; 0 for EOS. Pairs are by ascending id; the limit `longest` is not considered.
        """
        allowed = self._cached_row(node, None).allowed.tolist()
        found, by_way = list[tuple[int, int]](), dict[tuple[int, ...], int]()
        for symbol in allowed:
            way = self.spelled.read[symbol] or ()
            if way not in by_way:
                after = self.advance(node, symbol) if symbol != self.spelled.eos else None
                by_way[way] = 0 if after is None else len(way) + self.language.shortest(after)
            found.append((symbol, by_way[way]))
        return found

    def _within(self, node: Node, left: int) -> Floats:
        """Return the log weights of all V symbols at a node (what was read so far) under a limit on the length, (V,).

        left        number of letters that may still follow, those of the symbol included: −∞ for symbols with which no
                    string ends within it
        """
        row: Floats = self._cached_row(node, None).log_b.numpy().copy()
        row[[symbol for symbol, length in self._lengths(node) if length > left]] = -np.inf
        return row


def _distinct(keys: Ints, stop: int) -> list[int]:
    """Return the values of `keys`, integers from 0 and below `stop`, sorted, each once."""
    used = np.zeros(stop, dtype=np.bool_)
    used[keys] = True
    found: list[int] = np.flatnonzero(used).tolist()
    return found


def _digest(row: Floats | NDArray[np.uint8]) -> bytes:
    """Return a 16-byte hash of an array, equal for arrays with equal bytes."""
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()
