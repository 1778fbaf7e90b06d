"""Lists of terms as knowledge: words and phrases of groups, matched in the bytes that the symbols of a model spell.

    log p(x | K) = log b(K, x) + Σ_g a_g·φ_g(K, x) − log Z                    five features φ_g of each group g of terms

    begins_g      1 on symbols in which a term of g begins, at the beginning of a word
    whole_g       1 on symbols that spell all of a term of g, from its beginning on
    continues_g   1 on symbols that go on with a term of g which has begun
    ends_g        1 on symbols that go on with it up to its end
    completes_g   1 on symbols with which a word ends (those that begin with a boundary, and the end of the text), where
                  all of a term of g stands before

That a begun term breaks off is what remains: a constant for all words cancels in Z, so that a weight of breaking would
be the two weights of going on and of completing, with the other sign.

A term may be cut into symbols in any way: terms are followed byte by byte. They are one sorted list, in which a node of
their trie is a range (first, last, depth): those terms that begin with the same `depth` bytes. What has begun at each
beginning of a word is one node, so that terms which overlap live side by side; a state is these nodes.

What begins a term, and whether a symbol begins with a boundary, does not depend on the context: these are static
columns, of which `Terms` is linear. `TermsInside` alone lists symbols, the few that go on. So a position costs the same
however long the lists are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import FeatureError, quoted
from llrnn.knowledge.contextual.base import ContextualFeature, Following, LinearFeature
from llrnn.knowledge.features import Features
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.lexicon import Lexicon
from llrnn.text.token_bytes import Spelled, in_words, token_bytes
from llrnn.text.vocabulary import Vocabulary

Beginnings = tuple[list["Node"], set[int], set[int]]  # nodes that live on, groups, groups of which all is spelled
Node = tuple[int, int, int]  # first, last and depth: terms[first:last] have `depth` bytes in common
_AFTER_ALL = b"\xff"  # a byte that no UTF-8 has


class Begun(NamedTuple):
    """The state of `Terms` after a text: the terms that have begun, and whether a word may begin at the next byte.

    `nodes`: for each beginning of a word from which a term may still come, a range (first, last, depth) of the list.
    """

    nodes: tuple[Node, ...]
    fresh: bool


START = Begun((), True)


class TermLists:
    """Terms of several groups as one sorted list of byte strings, in which a node of their trie is a range.

    `groups`: {name of the group: its terms}; blanks around terms are dropped, and terms that come twice count once. A
    FeatureError for a group without a name or terms.

        TermLists({"products": ["Valkyria", "New York"]})
    """

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        self.groups = tuple(groups)
        pairs = {(" ".join(term.split()).encode(), g) for g, terms in enumerate(groups.values()) for term in terms}
        listed = sorted(pair for pair in pairs if pair[0])
        self.terms, self.group = [term for term, _ in listed], np.array([g for _, g in listed], dtype=np.int64)
        without = [name for g, name in enumerate(groups) if not name or g not in set(self.group.tolist())]
        if without or not groups:
            raise FeatureError(f"each list needs a name and one term or more, found {quoted(str(dict(groups)))}")
        self._tables: dict[tuple[int, Spelled], Tables] = {}

    @property
    def root(self) -> Node:
        return 0, len(self.terms), 0

    def child(self, node: Node, more: bytes) -> Node:
        """Return the node of the terms that go on with the bytes `more` after a node; an empty range if none does."""
        first, last, depth = node
        prefix = self.terms[first][:depth] + more
        first = bisect_left(self.terms, prefix, first, last)
        return first, bisect_left(self.terms, prefix + _AFTER_ALL, first, last), len(prefix)

    def ended(self, node: Node) -> set[int]:
        """Return the groups (indices) of which a term ends at a node: its last byte is the last one of the prefix."""
        first, last, depth = node
        found = set[int]()
        while first < last and len(self.terms[first]) == depth:
            found.add(int(self.group[first]))
            first += 1
        return found

    def read(self, state: Begun, text: bytes) -> tuple[Begun, list[int]]:
        """Return the state after the next bytes of a text, and the groups (indices) of the terms that end before there.

        Each such term gives its group once: one that began where a word may begin, after which no word goes on. What
        ends with the last byte is not among them, since a word may go on: `completed` has it.
        """
        nodes, fresh, found = state.nodes, state.fresh, list[int]()
        for part, is_word in _parts(text):
            found += [] if is_word else self.completed(nodes)
            grown = (self.child(node, part) for node in (*nodes, *[self.root] * fresh))
            nodes, fresh = tuple(node for node in grown if node[0] < node[1]), not is_word
        return Begun(tuple(sorted(nodes)), fresh), found

    def completed(self, nodes: Iterable[Node]) -> list[int]:
        """Return the groups (indices) of the terms that are complete if the word ends here, once for each term."""
        return [g for node in nodes for g in self.ended(node)]

    def has(self, term: bytes) -> set[int]:
        """Return the groups (indices) that list this very term."""
        return self.ended(node) if (node := self.child(self.root, term))[0] < node[1] else set()

    def tables(self, vocabulary: Vocabulary, spelled: Spelled) -> Tables:
        """Return how the symbols of a vocabulary meet the terms, made once for each vocabulary."""
        key = id(vocabulary), spelled
        if key not in self._tables or self._tables[key].vocabulary is not vocabulary:
            self._tables[key] = Tables(self, vocabulary, spelled)
        return self._tables[key]


class Tables:
    """How the symbols of a vocabulary meet lists of terms: what begins in each, and what goes on after a node.

    spelled     the bytes of each symbol; b"" for the end of the text
    begins      {symbol id: (nodes, groups, groups of which all of a term is spelled)} of symbols within which a term
                begins after a boundary of their own
    opens       likewise of symbols that begin a term with their first byte
    boundary    (V,) bool: symbols that begin with a boundary, and the end of the text
    fresh_after for each symbol, whether a word may begin at the byte after it
    """

    def __init__(self, lists: TermLists, vocabulary: Vocabulary, spelled: Spelled) -> None:
        self.lists, self.vocabulary = lists, vocabulary
        self.bytes = token_bytes(vocabulary, spelled)
        self.spelled, within = self.bytes.spelled, self.bytes.within
        self.boundary = np.array([not flags or not flags[0] for flags in within])
        self.fresh_after = [bool(flags) and not flags[-1] for flags in within]
        self.begins = {x: found for x, flags in enumerate(within) if (found := self._within(x, flags))[1]}
        self.opens = {x: found for x, flags in enumerate(within) if (found := self._from(x, 0, flags))[1]}
        self._next: dict[Node, tuple[Ints, Floats]] = {}

    def _within(self, x: int, flags: Sequence[bool]) -> Beginnings:
        """Return what begins in a symbol at all places but its first byte."""
        places = [start for start in range(1, len(flags)) if not flags[start - 1]]
        found = [self._from(x, start, flags) for start in places]
        nodes = [node for own, _, _ in found for node in own]
        return nodes, set().union(*(groups for _, groups, _ in found)), set().union(*(whole for _, _, whole in found))

    def _from(self, x: int, start: int, flags: Sequence[bool]) -> Beginnings:
        """Return ([node], groups, groups of whole terms) of what begins at a byte; no node where all ends here."""
        rest = self.spelled[x][start:]
        if not rest or rest[:1].isspace():
            return [], set(), set()
        node = self.lists.child(self.lists.root, rest)
        whole = self.lists.ended(node)
        for end in range(1, len(rest)):
            if not (flags[start + end - 1] and flags[start + end]):
                whole |= self.lists.has(rest[:end])
        groups = set(self.lists.group[node[0] : node[1]].tolist()) | whole
        return [node] if node[0] < node[1] else [], groups, whole

    def after(self, node: Node) -> tuple[Ints, Floats]:
        """Return the symbols that go on with a begun term: ids (E,), sorted; (E, 2 groups): goes on, and to the end.

        The result is kept for the next time.
        """
        if node not in self._next:
            found: dict[int, set[int]] = {}
            first, last, depth = node
            n = len(self.lists.groups)
            for term, g in zip(self.lists.terms[first:last], self.lists.group[first:last].tolist(), strict=True):
                for x, is_end in self._going_on(term[depth:]):
                    found.setdefault(x, set()).update((g, n + g) if is_end else (g,))
            words = sorted(found)
            value = np.zeros((len(words), 2 * n))
            for row, x in enumerate(words):
                value[row, list(found[x])] = 1.0
            self._next[node] = np.array(words, dtype=np.int64), value
        return self._next[node]

    def _going_on(self, rest: bytes) -> Iterator[tuple[int, bool]]:
        """Yield the symbols that spell a beginning of `rest`, or all of it and then something after a boundary.

        With each comes whether it spells all of it.
        """
        for end in range(1, min(len(rest), self.bytes.longest) + 1):
            if (x := self.bytes.symbol_of.get(rest[:end])) is not None:
                yield x, end == len(rest)
        for one, x in self.bytes.beginning_with(rest) if rest else ():
            flags = self.bytes.within[x]
            if len(one) > len(rest) and not (flags[len(rest) - 1] and flags[len(rest)]):
                yield x, True


class TermStarts(Features):
    """Static features of symbols by which `Terms` is computed: begins a term of a group, begins with a boundary."""

    def __init__(self, lists: TermLists, spelled: Spelled) -> None:
        self._lists, self._spelled = lists, spelled
        self._table: Tables | None = None

    @property
    def group(self) -> str:
        return "Terms"

    def fitted(self, vocabulary: Vocabulary) -> Features:
        made = TermStarts(self._lists, self._spelled)
        made._table = self._lists.tables(vocabulary, self._spelled)
        return made

    def __call__(self, symbol: str) -> Mapping[str, float]:
        assert self._table is not None
        x = self._table.vocabulary.id(symbol)
        found = dict[str, float]()
        for name, at in (("starts", self._table.begins), ("opens", self._table.opens)):
            _, begun, whole = at.get(x, ((), (), ()))
            found |= {f"{self._lists.groups[g]}:{name}": 1.0 for g in sorted(begun)}
            found |= {f"{self._lists.groups[g]}:{name} all": 1.0 for g in sorted(whole)}
        return found | {"terms:boundary": 1.0} if self._table.boundary[x] else found


class Terms(LinearFeature[Begun]):
    """Contextual features of lists of terms: `GROUP:begins`, `GROUP:whole` and `GROUP:completes`.

    `TermsInside` has the others. `groups`: {name: terms}, or the `TermLists` made of them; `spelled`: how symbols spell
    text: "words" (a blank before each), "bytes" (tokens of a byte-level BPE), "pieces" (SentencePiece). The module's
    text has the definitions. A model needs both, and adds the static features that they are computed from:

        terms = Terms({"products": ["Valkyria", "New York"]})
        LLRNN(vocabulary, output_features=phi, contextual=[terms, TermsInside(terms)])
    """

    def __init__(self, groups: Mapping[str, Iterable[str]] | TermLists, *, spelled: Spelled = "words") -> None:
        self.lists = groups if isinstance(groups, TermLists) else TermLists(groups)
        self.spelled: Spelled = spelled

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{what}" for what in ("begins", "whole", "completes") for name in self.lists.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        kinds = ("starts", "opens", "starts all", "opens all")
        return (*(f"{name}:{what}" for what in kinds for name in self.lists.groups), "terms:boundary")

    @property
    def static(self) -> Features | None:
        return TermStarts(self.lists, self.spelled)

    @property
    def state_key(self) -> object:
        return id(self.lists), self.spelled

    reads_conditions = False

    @property
    def tables(self) -> Tables:
        return self.lists.tables(self.vocabulary, self.spelled)

    def initial(self, condition: object = None) -> Begun:
        return START

    def advance(self, state: Begun, symbol: int) -> Begun:
        tables = self.tables  # what `TermLists.read` finds byte by byte
        token = tables.spelled[symbol]
        if not token:  # the end of a text, or nothing that is seen
            return START if symbol == self.vocabulary.eos else state
        grown = (self.lists.child(node, token) for node in state.nodes)
        nodes = {node for node in grown if node[0] < node[1]}
        nodes.update(tables.begins.get(symbol, ((), (), ()))[0])
        if state.fresh:
            nodes.update(tables.opens.get(symbol, ((), (), ()))[0])
        return Begun(tuple(sorted(nodes)), tables.fresh_after[symbol])

    def unspelled(self) -> set[str]:
        """Return the terms that no sequence of the vocabulary's symbols spells, so that they can never come."""
        spells = self.tables.bytes.spells
        return {term.decode() for term in self.lists.terms if not (spells(b" " + term) or spells(term))}

    def slopes(self, states: Sequence[Begun]) -> Tensor:
        n = len(self.lists.groups)
        found = [_slope(n, one.fresh, tuple(self.lists.completed(one.nodes))) for one in states]
        return torch.from_numpy(np.stack(found) if found else np.zeros((0, 3 * n, 4 * n + 1)))

    def saved(self) -> Saved:
        text = torch.frombuffer(bytearray(b"\n".join(self.lists.terms)), dtype=torch.uint8)
        tensors = {"terms": text, "group": torch.from_numpy(self.lists.group)}
        return Saved("terms", {"groups": list(self.lists.groups), "spelled": self.spelled}, tensors)

    @classmethod
    def restored(cls, saved: Saved) -> Terms:
        """Return the feature that `saved` describes; two that were made of the same lists share them again."""
        text, group = saved.tensors["terms"].numpy().tobytes(), tuple(saved.tensors["group"].tolist())
        return cls(_restored_lists(tuple(saved.fields["groups"]), text, group), spelled=saved.fields["spelled"])

    def __repr__(self) -> str:
        return f"Terms({len(self.lists.terms):,} in {', '.join(self.lists.groups)})"


@lru_cache(maxsize=2)
def _restored_lists(groups: tuple[str, ...], text: bytes, group: tuple[int, ...]) -> TermLists:
    terms: dict[str, list[str]] = {name: [] for name in groups}
    for term, g in zip(text.decode().split("\n"), group, strict=True):
        terms[groups[g]].append(term)
    return TermLists(terms)


@lru_cache(maxsize=2**10)
def _slope(n: int, fresh: bool, completed: tuple[int, ...]) -> Floats:
    """Return how the features of `Terms` follow from the static columns at one state, (3 groups, 4 groups + 1).

    `n`: groups; `fresh`: whether a word may begin at the next byte; `completed`: the groups of terms that stand before.
    """
    slope, own = np.zeros((3 * n, 4 * n + 1)), np.arange(n)
    for row in (0, 1):  # begins, whole: after a boundary in the symbol, and at its first byte where a word may begin
        slope[row * n + own, 2 * row * n + own] = 1.0
        slope[row * n + own, (2 * row + 1) * n + own] = float(fresh)
    slope[[2 * n + g for g in completed], 4 * n] = 1.0
    return slope


class TermsInside(Following[Begun], ContextualFeature[Begun]):
    """Contextual features `GROUP:continues` and `GROUP:ends` of lists of terms: of what goes on with a begun term.

    `terms`: the `Terms` beside which it stands in a model, whose states it shares.

        TermsInside(terms)
    """

    followed: Terms

    def __init__(self, terms: Terms) -> None:
        self.followed = terms

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{what}" for what in ("continues", "ends") for name in self.followed.lists.groups)

    def values(self, states: Sequence[Begun]) -> ContextValues:
        tables, n = self.followed.tables, len(self.names)
        position, word, value = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros((0, n))]
        for place, state in ((at, one) for at, one in enumerate(states) if one.nodes):
            words, own = _joined([tables.after(node) for node in state.nodes])
            position.append(np.full(len(words), place))
            word.append(words)
            value.append(own)
        found = (torch.from_numpy(np.concatenate(parts)) for parts in (position, word, value))
        return ContextValues(torch.zeros(len(states), n, dtype=torch.float64), *found)

    def saved(self) -> Saved:
        return Saved("terms_inside", parts=(self.followed.saved(),))


def _joined(parts: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """Return the symbols that several begun terms go on with, each once: (ids (E,), sorted; values (E, 2 groups))."""
    if len(parts) == 1:
        return parts[0]
    words, row = np.unique(np.concatenate([words for words, _ in parts]), return_inverse=True)
    value = np.zeros((len(words), parts[0][1].shape[1]))
    np.maximum.at(value, row, np.concatenate([own for _, own in parts]))
    return words, value


@lru_cache(maxsize=2**14)
def _parts(text: bytes) -> list[tuple[bytes, bool]]:
    """Return a text cut into words and the single bytes of what is no part of one, with whether each is a word."""
    flags = in_words(text)
    edges = (i for i in range(len(text) + 1) if not (0 < i < len(text) and flags[i - 1] and flags[i]))
    return [(text[start:end], flags[start]) for start, end in pairwise(edges)]


def expanded(terms: Iterable[str], lexicon: Lexicon | None = None, *, capitals: bool = False) -> list[str]:
    """Return terms with their other forms, each once; empty ones are left out.

    `lexicon`: a term that is the `Lemma:` of forms in it stands for these, too; `capitals`: every form also with a
    capital at its beginning, and all in capitals.

        expanded(["tumour"], Lexicon.from_tsv("english.tsv"), capitals=True)    # tumour, tumours, Tumour, …
    """
    forms: dict[str, list[str]] = {}
    for form in lexicon.forms() if lexicon is not None else ():
        for attribute in lexicon(form) if lexicon is not None else ():
            forms.setdefault(attribute, []).append(form)
    found = dict.fromkeys(one for term in terms if term for one in (term, *forms.get(f"Lemma:{term}", ())))
    written = ([one, one[0].upper() + one[1:], one.upper()] if capitals else [one] for one in found)
    return list(dict.fromkeys(chain.from_iterable(written)))
