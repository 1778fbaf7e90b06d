"""Agreement with who governs the next word, as features φ(K, x) and as inputs ψ(K).

    agrees(A)   Σ_v P(the governor has A:v | K) · [x can stand in that relation with A:v]
    clashes(A)  Σ_v P(the governor has A:v | K) · [x can stand in that relation, says A, and not v]

for each relation of the rules (subject and verb, noun and adjective, …) and each of its attributes A. P is what the
weighted hypotheses of `machine.Machine` say. Both are linear in static features of words (`WordForms`), so
that they touch any number of words at no cost (`layer.linear`); 0 on words that do not say A, or where nobody governs.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import chain, combinations, islice, product
from multiprocessing import get_all_start_methods, get_context
from operator import or_
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.config.own import Context
from llrnn.ground.arrays import ByteCache, Floats
from llrnn.ground.errors import ConfigError, FeatureError, LexiconError
from llrnn.ground.files import StrPath, parse_json, write_lines
from llrnn.knowledge.contextual.base import Following, LinearFeature
from llrnn.knowledge.contextual.inputs import ContextualInput
from llrnn.knowledge.features import Features
from llrnn.knowledge.process import Batch, PackedStates, Saved
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Readings, token_reading
from llrnn.text.readers import Sentence, read_lines
from llrnn.text.vocabulary import Revision, Vocabulary
from llrnn_agreement.keys import AgreementKeys
from llrnn_agreement.machine import OPEN, Counts, Machine, RoleReading, Stack, count_roles, governors
from llrnn_agreement.machine import State as Hypotheses
from llrnn_agreement.rules import AgreementRules, Bundle, Relation, fits

_RARE = 0.01  # the share of a form's tokens below which a reading is an error of the treebank
_FEW_FORMS = 0.05  # of those that look alike: what fewer of them are is not said
_CACHED = 512 * 2**20  # bytes: of what was said of the sentences of a text; of French, 3 million words
_SILENT = 0.05  # how much a hypothesis counts for the number of a verb if its verb was there, and none is due
_COUNTED = 4_000  # sentences: more would tell little more of roles
_MOST = 200_000  # stacks of which it is remembered what they say
_WORTH = 20_000  # words to read, above which to begin processes takes less time than to read them
_TOGETHER = 100  # sentences that a process reads at a time
_POOLED = ("determiner", "modifier")  # roles of words of which one reading may say several things
_UNKNOWN = (("noun", 0.5), ("name", 0.3), ("modifier", 0.2))  # the roles of a form that nobody knows


Beliefs = npt.NDArray[np.float32]


class GovernorState(NamedTuple):
    """The state of a prefix: the hypotheses, and how many words of the sentence were read."""

    hypotheses: Hypotheses
    place: int


def _read(rules: AgreementRules, attributes: frozenset[str], form: str) -> RoleReading:
    role = rules.role(attributes, form)
    return RoleReading(role, rules.bundle(attributes, role))


class Lookalikes:
    """The known forms by which a string is read: itself or, if it is unknown, all known forms of its cell.

    Cells are those of an open vocabulary (`text.vocabulary`); in a closed one, an unknown string has none.
    A string that is not listed is read as its cell, so that all strings of a cell are read alike.
    """

    def __init__(self, readings: Readings, vocabulary: Vocabulary) -> None:
        self.readings, self.vocabulary = readings, vocabulary
        known = [form for form, own in readings.entries.items() if own] if vocabulary.is_open else []
        self._of_cell: dict[int, list[str]] = {}
        for form, cell in zip(known, vocabulary.cells_of(known).tolist(), strict=True):
            self._of_cell.setdefault(cell, []).append(form)

    def of(self, strings: Sequence[str]) -> list[tuple[int, list[str]]]:
        """Return, for each string, its cell (-1 if it is read as itself) and the forms that it is read as."""
        found = [(-1, [one] if one in self.vocabulary and self.readings(one) else []) for one in strings]
        if self.vocabulary.is_open:
            new = [i for i, (_, own) in enumerate(found) if not own]
            for i, cell in zip(new, self.vocabulary.cells_of([strings[i] for i in new]).tolist(), strict=True):
                found[i] = cell, self.of_cell(cell)
        return found

    def of_cell(self, cell: int) -> list[str]:
        """Return the known forms of a cell, by its number."""
        return self._of_cell.get(cell, [])

    def pooled(self, forms: Sequence[str]) -> Mapping[frozenset[str], float]:
        """Return the readings of several forms with their weights, summed; those of each form sum to one."""
        found: dict[frozenset[str], float] = {}
        for own in map(self.readings, forms):
            total = math.fsum(own.values())
            for reading, weight in own.items():
                found[reading] = found.get(reading, 0.0) + weight / total
        return found


class WordForms(Features):
    """Static features of a word: in which relations it can stand, with which values of their attributes.

        agreement.subject.Number:Plur     some reading is a finite verb, which that relation is of, and can be plural
        agreement.subject.Number:said     some reading is one, and says its number

    Of an unknown word: the mean over the known forms that look like it (`Lookalikes`).
    """

    def __init__(self, rules: AgreementRules, readings: Readings, name: str) -> None:
        self._rules, self._readings, self._name = rules, readings, name
        self._alike: Lookalikes | None = None
        self._of_cell: dict[int, Mapping[str, float]] = {}
        self._cell: dict[str, int] = {}

    @property
    def group(self) -> str:
        return "Agreement"

    def fitted(self, vocabulary: Vocabulary) -> Features:
        alike = Lookalikes(self._readings, vocabulary)
        if not vocabulary.is_open:
            return self._fitted(vocabulary, _alike=alike)
        asked = [*vocabulary.words, *chain.from_iterable(vocabulary.witnesses.values())]  # all at once is cheaper
        cells = {one: cell for one, (cell, _) in zip(asked, alike.of(asked), strict=True)}
        means = {cell: self._mean(alike.of_cell(cell)) for cell in set(cells.values())}
        return self._fitted(vocabulary, _alike=alike, _cell=cells, _of_cell=means)

    def __call__(self, symbol: str) -> Mapping[str, float]:
        cell = self._cell.get(symbol)
        if cell is None and self._alike is not None:
            cell, forms = self._alike.of([symbol])[0]
            return self._of_form(symbol) if forms == [symbol] else self._mean(forms)
        return self._of_form(symbol) if cell is None or cell < 0 else self._of_cell[cell]

    def _mean(self, forms: Sequence[str]) -> Mapping[str, float]:
        """Return the mean over forms in hundredths, without rare features, so that cells of one kind are one class."""
        found: dict[str, float] = {}
        for name, value in (pair for form in forms for pair in self._of_form(form).items()):
            found[name] = found.get(name, 0.0) + value / len(forms)
        return {name: round(value, 2) for name, value in found.items() if value >= _FEW_FORMS}

    def _of_form(self, symbol: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        readings = self._readings(symbol)
        least = _RARE * sum(readings.values())
        for name, relation in word_kinds(self._rules, self._name):
            own = [reading for reading, weight in readings.items() if weight >= least]
            own = [frozenset(self._rules.said(one)) for one in own if fits(relation.words, one, symbol)]
            for attribute in relation.attributes:
                values = {one for reading in own for one in reading if one.startswith(f"{attribute}:")}
                if values:
                    found |= {f"{name}.{attribute}:said": 1.0, **{f"{name}.{value}": 1.0 for value in sorted(values)}}
        return found

    def __repr__(self) -> str:
        return f"WordForms({self._rules.name})"


Compiled = tuple[tuple[RoleReading, float], ...]


def compiled_symbols(rules: AgreementRules, readings: Readings, vocabulary: Vocabulary) -> list[Compiled]:
    """Return the readings of every symbol of a vocabulary."""
    alike, of_cell = Lookalikes(readings, vocabulary), dict[int, Compiled]()

    def compiled(symbol: str, cell: int) -> Compiled:
        if cell < 0:
            return compiled_readings(rules, readings(symbol), symbol)
        if cell not in of_cell:
            of_cell[cell] = compiled_readings(rules, alike.pooled(alike.of_cell(cell)), symbol)
        return of_cell[cell]

    words = vocabulary.words
    listed = [compiled(word, cell) for word, (cell, _) in zip(words, alike.of(words), strict=True)]
    return listed + [compiled(vocabulary.symbols[i], i) for i in range(len(words), len(vocabulary))]


def compiled_readings(rules: AgreementRules, readings: Mapping[frozenset[str], float], form: str) -> Compiled:
    """Return the readings of a form by role and values, with shares; one that says less is counted to one that says
    more.
    """
    found: dict[RoleReading, float] = {}
    for attributes, weight in readings.items():
        reading = _read(rules, attributes, form)
        found[reading] = found.get(reading, 0.0) + weight
    if not found:
        if form[:1].isdigit():
            found = {_read(rules, frozenset({"POS:NUM"}), form): 1.0}
        else:
            found = {RoleReading(role, rules.bundle(())): share for role, share in _UNKNOWN}
    for reading in sorted(found, key=lambda one: (sum(map(bool, one.bundle)), str(one))):
        more = {one: found[one] for one in found if _says_more(one, reading)}
        weight = found.pop(reading) if more else 0.0
        for one, share in more.items():
            found[one] += weight * share / sum(more.values())
    found = _pooled(found)
    total = sum(found.values())
    kept = {reading: weight for reading, weight in found.items() if weight >= _RARE * total}
    return tuple((reading, weight / sum(kept.values())) for reading, weight in kept.items())


def _pooled(found: Mapping[RoleReading, float]) -> dict[RoleReading, float]:
    """Merge the readings of a determiner or adjective that differ in one attribute into one with all values: les,
    jeunes.

    What they leave open then needs no hypotheses of its own.
    """
    made = dict(found)
    for first, second in combinations(sorted(found, key=str), 2):
        if first in made and second in made and first.role == second.role and first.role in _POOLED:
            differ = [i for i, (a, b) in enumerate(zip(first.bundle, second.bundle, strict=True)) if a != b]
            if len(differ) == 1 and all(one.bundle[differ[0]] for one in (first, second)):
                both = tuple(a | b for a, b in zip(first.bundle, second.bundle, strict=True))
                made[RoleReading(first.role, both)] = made.pop(first) + made.pop(second)
    return made


def _says_more(one: RoleReading, other: RoleReading) -> bool:
    """Return whether one reading has all values of the other, and more."""
    pairs = list(zip(one.bundle, other.bundle, strict=True))
    return one != other and one.role == other.role and all(not b or (a and a <= b) for a, b in pairs)


def word_kinds(rules: AgreementRules, name: str) -> list[tuple[str, Relation]]:
    """Return the relations, one for all with the same words, and the names of their static features."""
    found: dict[object, tuple[str, Relation]] = {}
    for one in rules.relations:
        called, before = found.get(one.words, (f"{name}.{one.name}", one))
        attributes = tuple(dict.fromkeys([*before.attributes, *one.attributes]))
        found[one.words] = called, Relation(before.name, one.words, attributes)
    return list(found.values())


class _Followed(NamedTuple):
    """What is expected at each position of a sentence, and the last state."""

    said: Beliefs  # (n, values + relations): P(A:v), then log(1 + how many words back the governor is)
    last: GovernorState


@dataclass(frozen=True)
class _Packed(PackedStates[GovernorState]):
    """What is expected at each position of a batch, in place of the states there."""

    said: Beliefs

    def taken(self, places: Sequence[int]) -> _Packed:
        return _Packed(len(places), self.said[places])


class _StackProfile(NamedTuple):
    """The probabilities of all `values` by one stack, and the index of the governor of each relation, -1 for none."""

    stack: Stack
    row: Floats
    precomputed: Floats  # for each relation, how much it counts where a word in that relation comes
    places: tuple[int, ...]


class Followed:
    """The hypotheses over a vocabulary; features and inputs share it, so that text is followed once."""

    def __init__(
        self, rules: AgreementRules, readings: Sequence[Sequence[tuple[RoleReading, float]]], roles: Counts | None
    ) -> None:
        self.rules, self.readings, self.roles = rules, readings, roles
        self.machine = Machine(rules, readings, roles)
        self.initial = GovernorState(self.machine.initial, 0)
        kinds = {id(r): r for one in {id(one): one for one in readings}.values() for r, _ in one}.values()
        said = sorted({(i, v) for r in kinds for i, own in enumerate(r.bundle) for v in own})
        self.values = [  # (relation, attribute, value): all that a governor can be
            (relation.name, attribute, value)
            for relation in rules.relations
            for attribute in relation.attributes
            for i, value in said
            if rules.attributes[i] == attribute
        ]
        names = [relation.name for relation in rules.relations]
        self._relation_of = [names.index(relation) for relation, _, _ in self.values]
        self._sentences: ByteCache[tuple[int, ...], _Followed] = ByteCache(_CACHED, _bytes_of)
        self._profile_of: dict[int, _StackProfile] = {}  # by the number of the object: to hash a stack takes long
        self._rows: dict[tuple[tuple[tuple[float, Bundle], ...], ...], Floats] = {}  # many stacks say the same
        self._first = self._of_states([self.initial])[0]

    def expected(self, states: Sequence[GovernorState]) -> tuple[Tensor, Tensor]:
        """Return P(A:v) of all `values` at N states, (N, values), and log distances of the governors, (N,
        relations).
        """
        said = states.said if isinstance(states, _Packed) else self._of_states(states)
        whole, n = torch.from_numpy(said), len(self.values)
        return whole[:, :n], whole[:, n:]

    def _profile(self, stack: Stack) -> _StackProfile:
        found = self._profile_of.get(id(stack))
        if found is None or found.stack is not stack:
            if len(self._profile_of) > _MOST:
                self._profile_of.clear()
            found = self._profile_of[id(stack)] = self._made_profile(stack)
        return found

    def _made_profile(self, stack: Stack) -> _StackProfile:
        own = [governors(stack, relation.name, self.rules) for relation in self.rules.relations]
        said = tuple(tuple((weight, one.bundle) for weight, one in found) for found in own)
        if said not in self._rows:
            self._rows[said] = self._row(said)
        places = tuple(found[0][1].place if found else -1 for found in own)
        return _StackProfile(stack, self._rows[said], self._precomputed(stack, own), places)

    def _precomputed(self, stack: Stack, own: Sequence[Sequence[object]]) -> Floats:
        """Return how much a stack counts in each relation: little for the subject of a clause that already had its
        verb.
        """
        pairs = zip(self.rules.relations, own, strict=True)
        silent = [one.name == "subject" and not found and stack.top.phase != OPEN for one, found in pairs]
        return np.where(silent, _SILENT, 1.0)

    def _row(self, said: Sequence[Sequence[tuple[float, Bundle]]]) -> Floats:
        at, row = {one: i for i, one in enumerate(self.values)}, np.zeros(len(self.values))
        for relation, own in zip(self.rules.relations, said, strict=True):
            for (weight, bundle), attribute in product(own, relation.attributes):
                values = bundle[self.rules.attributes.index(attribute)]
                for value in values:
                    if (relation.name, attribute, value) in at:
                        row[at[relation.name, attribute, value]] += weight / len(values)
        return row

    def advance(self, state: GovernorState, symbol: int, eos: int) -> GovernorState:
        """Return the state after one more word; after EOS, that of a new sentence."""
        if symbol == eos:
            return self.initial
        return GovernorState(self.machine.advance(state.hypotheses, symbol, state.place), state.place + 1)

    def rows(self, rows: Sequence[list[int]], eos: int) -> tuple[Beliefs, list[GovernorState]]:
        """Return what is expected at all positions of rows from the initial state on, (B, T, ·), and the last
        states.
        """
        said, last = np.empty((len(rows), len(rows[0]), len(self._first)), dtype=np.float32), []
        for own, row in zip(said, rows, strict=True):
            found = self.sentence(row, eos)
            own[: len(found.said)], own[len(found.said) :] = found.said, self._first
            last.append(found.last if len(found.said) == len(row) else self.initial)
        return said, last

    def sentence(self, row: list[int], eos: int) -> _Followed:
        """Return what is expected at each word of a row, without its padding; cached."""
        length = len(row)
        while length > 1 and row[length - 1] == eos:
            length -= 1

        def make() -> _Followed:
            state, found = self.initial, []
            for symbol in row[:length]:
                state = self.advance(state, symbol, eos)
                found.append(state)
            return _Followed(self._of_states(found), state)

        return self._sentences.get(tuple(row[:length]), make)

    def read_ahead(self, rows: Iterable[tuple[int, ...]], eos: int, processes: int) -> None:
        """Follow rows in several processes and cache the results, as many as there is room for."""
        new = self._unread(rows)
        if processes < 2 or sum(map(len, new)) < _WORTH or "fork" not in get_all_start_methods():
            return
        parts = [new[i : i + _TOGETHER] for i in range(0, len(new), _TOGETHER)]
        # forked, so that nothing is copied, and the main module of the user is not run again
        with ProcessPoolExecutor(processes, get_context("fork"), _lend, (self, eos)) as pool:
            for part, found in zip(parts, pool.map(_follow_lent, parts), strict=True):
                for row, one in zip(part, found, strict=True):
                    self._sentences.get(row, partial(_as_it_is, one))

    def _unread(self, rows: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the distinct rows that are not cached yet, as many as there is room for."""
        room, found = self._sentences.most_bytes - self._sentences.bytes, list[tuple[int, ...]]()
        for row in dict.fromkeys(rows):
            if row not in self._sentences:
                room -= _row_bytes(len(row), self._first.nbytes * len(row))
                if room < 0:
                    break
                found.append(row)
        return found

    def _of_states(self, states: Sequence[GovernorState]) -> Beliefs:
        """Return the expected values of N states: the mean over their hypotheses by weight."""
        flat = [one for state in states for one in state.hypotheses]
        profiles = [self._profile(one.stack) for one in flat]
        rows = np.array([one.row for one in profiles]).reshape(len(flat), len(self.values))
        first = np.cumsum([0, *(len(state.hypotheses) for state in states[:-1])])
        precomputed = np.array([one.precomputed for one in profiles]).reshape(len(flat), len(self.rules.relations))
        weights = np.array([one.weight for one in flat])[:, None] * precomputed
        said = rows  # of no states
        if states:
            all_precomputed = np.add.reduceat(weights, first)[:, self._relation_of]
            said = np.add.reduceat(weights[:, self._relation_of] * rows, first) / all_precomputed
        distance = np.array([self.distances(state) for state in states]).reshape(len(states), -1)
        found: Beliefs = np.concatenate([said, distance], 1).astype(np.float32)
        return found

    def distances(self, state: GovernorState) -> list[float]:
        """Return, for each relation, log(1 + how many words back the best governor is, 0 if there is none)."""
        stack, _, words = state.hypotheses[0]
        return [math.log1p(state.place - words[at]) if at >= 0 else 0.0 for at in self._profile(stack).places]


def _bytes_of(row: tuple[int, ...], found: _Followed) -> int:
    return _row_bytes(len(row), found.said.nbytes)


def _row_bytes(length: int, said: int) -> int:
    return 400 + 40 * length + said


_lent: tuple[Followed, int] | None = None  # in a process that reads ahead: what it was forked with


def _lend(followed: Followed, eos: int) -> None:
    global _lent
    _lent = followed, eos


def _follow_lent(rows: Sequence[tuple[int, ...]]) -> list[_Followed]:
    assert _lent is not None
    followed, eos = _lent
    return [followed.sentence(list(row), eos) for row in rows]


def _as_it_is(found: _Followed) -> _Followed:
    return found


class Agreement(LinearFeature[GovernorState]):
    """Features of whether a word agrees with its governor, for each relation and attribute of the rules of a language.

        Agreement.estimated("french", treebank)            rules that come with the library, readings of a treebank
        Agreement.from_file("agreement.json.gz")           what `to_file` or `llrnn data agreement` has estimated before
        Agreement(AgreementRules.from_file("mine.toml"), Readings.from_tsv("readings.tsv"))

    `rules`: a table or its name; `readings`: of words; `roles`: how often roles come in which context (`estimated`
    counts them), None for uniform; `name`: before the names of the features; `context_independent`: whether weights are
    the same everywhere. A model adds the static features that it needs (`WordForms`) to those of its words.
    """

    def __init__(
        self, rules: AgreementRules | str, readings: Readings, *, roles: Counts | None = None, name: str = "agreement"
    ) -> None:
        self.rules = AgreementRules.named(rules) if isinstance(rules, str) else rules
        self._readings: Readings | None = readings
        self._roles, self._name = roles, name
        self._made: dict[int, Followed] = {}  # by vocabulary, shared by all copies
        self._bound: Followed | None = None

    Keys = AgreementKeys

    @classmethod
    def make(cls, context: Context, *, context_independent: bool = False, **keys: Any) -> Agreement:
        """Return the feature for the keys of a configuration; equal keys give one object, shared by features and
        inputs.
        """
        key = cls, repr(keys)
        if key not in context.shared:
            context.shared[key] = cls.described(context.lowercase, **keys)
        found: Agreement = context.shared[key]
        return found.made_context_independent(context_independent)

    @classmethod
    def described(
        cls,
        lowercase: bool,
        *,
        file: str | None = None,
        rules: str = "",
        treebanks: Sequence[str] = (),
        readings: Sequence[str] = (),
        name: str = "agreement",
    ) -> Agreement:
        """Return the feature from a file, or estimated from treebanks (lowercased if asked) and files of readings."""
        if file is not None:
            return cls.from_file(file, name=name)
        known = reduce(or_, map(Readings.from_tsv, readings), Readings())
        sentences = [one for path in treebanks for one in Corpus.from_file(path, lowercase=lowercase)]
        if not sentences:
            return cls(rules, known, name=name)
        return cls.estimated(rules, sentences, known, name=name)

    @classmethod
    def estimated(
        cls,
        rules: AgreementRules | str,
        treebank: Iterable[Sentence],
        readings: Readings | None = None,
        *,
        name: str = "agreement",
    ) -> Agreement:
        """Return the feature with the readings of a treebank beside those given, and roles counted in part of it.

        Example:

            Agreement.estimated("french", treebank)
        """
        rules = AgreementRules.named(rules) if isinstance(rules, str) else rules
        sentences = list(treebank)
        own = Readings.from_corpus(sentences, lemmas=rules.lemmas)
        some = sentences[:: -(-len(sentences) // _COUNTED) or 1]
        tagged = ([_read(rules, token_reading(t, rules.lemmas), t.form) for t in one.tokens] for one in some)
        return cls(rules, own if readings is None else own | readings, roles=count_roles(rules, tagged), name=name)

    @classmethod
    def from_file(cls, path: StrPath, *, name: str = "agreement") -> Agreement:
        """Return the feature that `to_file` wrote, with rules, readings and counts."""
        try:
            lines = (text for _, text in read_lines(path, error=LexiconError))
            first = parse_json(next(lines))
            rules = AgreementRules.from_table(first["table"], first["rules"])
            entries = {form: {frozenset(a.split()): w for a, w in own} for form, own in map(parse_json, lines)}
        except (StopIteration, ValueError, KeyError, TypeError) as cause:
            wanted = "knowledge of agreement is required, as `llrnn data agreement` writes it"
            raise LexiconError(f"{wanted}, found another file ({cause!r}); write it anew", path=path) from None
        return cls(rules, Readings(entries), roles=_counted(first["roles"]), name=name)

    def to_file(self, path: StrPath) -> None:
        """Write rules, readings and counts to a file, before it is bound to a vocabulary; `.gz` compresses it."""
        if self._readings is None:
            raise FeatureError(f"{self!r} was loaded with a model, and has the readings of its words only")
        first = {"rules": self.rules.name, "table": dict(self.rules.table), "roles": self._told_roles()}
        readings = [
            [form, [[" ".join(sorted(reading)), weight] for reading, weight in own.items()]]
            for form, own in self._readings.entries.items()
        ]
        write_lines(path, (json.dumps(one, ensure_ascii=False) for one in [first, *readings]))

    def made_context_independent(self, context_independent: bool = True) -> Self:
        """Return a copy whose weights do not depend on h, so that a network trained on little text keeps them."""
        made = copy.copy(self)
        made.context_independent = context_independent
        return made

    def _told_roles(self) -> list[list[object]] | None:
        return None if self._roles is None else [[list(context), dict(own)] for context, own in self._roles.items()]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} {one.name} {how} {A}" for one, A in self._pairs for how in ("agrees", "clashes"))

    @property
    def _pairs(self) -> list[tuple[Relation, str]]:
        return [(relation, attribute) for relation in self.rules.relations for attribute in relation.attributes]

    @property
    def static(self) -> Features | None:
        return None if self._readings is None else WordForms(self.rules, self._readings, self.name)

    @property
    def columns(self) -> tuple[str, ...]:
        said = {(attribute, value) for _, attribute, value in self.followed.values}
        return tuple(
            name
            for called, kind in word_kinds(self.rules, self.name)
            for attribute in kind.attributes
            for name in (
                f"{called}.{attribute}:said",
                *(f"{called}.{attribute}:{value}" for own, value in sorted(said) if own == attribute),
            )
        )

    @property
    def followed(self) -> Followed:
        """The hypotheses over the words of the vocabulary."""
        if self._bound is None:
            raise self._unbound()
        return self._bound

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        vars(bound).pop("_by_value", None)
        if self._readings is None:  # it was loaded, and knows the words that it was saved with
            if len(self.followed.readings) != len(vocabulary):
                raise FeatureError(f"{self!r} knows {len(self.followed.readings)} words, not {len(vocabulary)}")
            return bound
        if id(vocabulary) not in self._made:
            own = compiled_symbols(self.rules, self._readings, vocabulary)
            self._made[id(vocabulary)] = Followed(self.rules, own, self._roles)
        bound._bound = self._made[id(vocabulary)]
        return bound

    @property
    def state_key(self) -> object:
        return id(self.followed)

    reads_conditions = False

    def initial(self, condition: object = None) -> GovernorState:
        return self.followed.initial

    def advance(self, state: GovernorState, symbol: int) -> GovernorState:
        return self.followed.advance(state, symbol, self.vocabulary.eos)

    def read_ahead(self, rows: Iterable[tuple[int, ...]], processes: int) -> None:
        self.followed.read_ahead(rows, self.vocabulary.eos, processes)

    def follow(
        self, states: Sequence[GovernorState], batch: Batch
    ) -> tuple[Sequence[GovernorState], Sequence[GovernorState]]:
        """Return what is expected at the positions of a batch; sentences are cached for the next epoch."""
        eos, (rows, counting) = self.vocabulary.eos, batch.read
        if any(row[0] != eos and state != self.followed.initial for row, state in zip(rows, states, strict=True)):
            return super().follow(states, batch)  # the middle of a text: what came before counts
        said, last = self.followed.rows(rows, eos)
        flat = said.reshape(-1, said.shape[2])
        kept = flat if counting is None else flat[counting]
        return _Packed(len(kept), kept), last

    def slopes(self, states: Sequence[GovernorState]) -> Tensor:
        expected = self.followed.expected(states)[0]
        return (expected @ self._by_value).view(len(expected), len(self.names), len(self.columns))

    @cached_property
    def _by_value(self) -> Tensor:
        """The slope of every value, (values, names · columns)."""
        at = {name: j for j, name in enumerate(self.columns)}
        made = torch.zeros(len(self.followed.values), len(self.names), len(at))
        called = {kind.words: name for name, kind in word_kinds(self.rules, self.name)}
        for i, (relation, attribute) in enumerate(self._pairs):
            said = at[f"{called[relation.words]}.{attribute}:said"]
            for v, (own, of, value) in enumerate(self.followed.values):
                if (own, of) == (relation.name, attribute):
                    j = at[f"{called[relation.words]}.{attribute}:{value}"]
                    made[v, 2 * i, j] = 1.0
                    made[v, 2 * i + 1, j] = -1.0
                    made[v, 2 * i + 1, said] += 1.0
        return made.flatten(1)

    def told(self, prefix: str | Sequence[str]) -> dict[str, str]:
        """Return the governor of the word after a prefix, by relation: 'auteurs (Number:Plur Person:3), 6 words
        back'.
        """
        words, state = prefix.split() if isinstance(prefix, str) else list(prefix), self.initial()
        for symbol in self.vocabulary.locate(words, place="prefix")[0].tolist():
            state = self.advance(state, symbol)
        told = {one.name: self._governor(state, words, one, one.attributes) for one in self.rules.relations}
        return {name: one for name, one in told.items() if one is not None}

    def remarks(self, state: GovernorState, words: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for relation, attribute in self._pairs:
            governor = self._governor(state, words, relation, (attribute,))
            if governor is not None:
                own = f"{self.name} {relation.name}"
                found[f"{own} agrees {attribute}"] = f"agrees with {governor}"
                found[f"{own} clashes {attribute}"] = f"clashes with {governor}"
        return found

    def _governor(
        self, state: GovernorState, words: Sequence[str], relation: Relation, attributes: Sequence[str]
    ) -> str | None:
        """Return the most likely governor in a relation as text: its values and where it stands; None if there is
        none.
        """
        best = _largest(state.hypotheses, relation.name, self.rules)
        if best is None:
            return None
        pairs = zip(self.rules.attributes, best[1], strict=True)
        says = " ".join(f"{A}:{'/'.join(sorted(v))}" for A, v in pairs if v and A in attributes) or "says nothing"
        back = state.place - best[0]
        if best[0] < 0:
            return f"nobody ({says})"
        return f"{words[len(words) - back]} ({says}), {back} word{'s' if back > 1 else ''} back"

    def revised(self, revision: Revision) -> Self:
        """Return the feature for a revised vocabulary; new words have their known readings, in a loaded model those
        of unknown ones.
        """
        vocabulary, kept = revision.vocabulary, revision.kept.tolist()
        if self._readings is not None:
            return self._changed(vocabulary, _found=None)
        unknown = compiled_readings(self.rules, {}, "x")
        own = [self.followed.readings[i] if i >= 0 else unknown for i in kept]
        return self._changed(vocabulary, _bound=Followed(self.rules, own, self._roles), _found=None)

    def saved(self) -> Saved:
        """Return what a model folder stores: the readings of the vocabulary by id, the rules and the counts."""
        readings = self.followed.readings
        kinds: dict[RoleReading, int] = {}
        flat = [(kinds.setdefault(reading, len(kinds)), weight) for own in readings for reading, weight in own]
        fields = {
            "name": self.name,
            "rules": self.rules.name,
            "context_independent": self.context_independent,
            "table": dict(self.rules.table),
            "kinds": [[kind.role, [sorted(one) for one in kind.bundle]] for kind in kinds],
            "roles": self._told_roles(),
        }
        tensors = {
            "counts": torch.tensor([len(own) for own in readings]),
            "kind": torch.tensor([kind for kind, _ in flat]),
            "weight": torch.tensor([weight for _, weight in flat], dtype=torch.float64),
        }
        return Saved("agreement", fields, tensors)

    @classmethod
    def restored(cls, saved: Saved) -> Agreement:
        """Return the feature that was saved in a model folder; equal ones (of features, of inputs) follow text once."""
        fields, roles = saved.fields, _counted(saved.fields["roles"])
        rules = AgreementRules.from_table(fields["table"], fields["rules"])
        made = cls(rules, Readings(), roles=roles, name=fields["name"])
        made._readings, made.context_independent = None, fields.get("context_independent", fields.get("steady", False))
        what = [fields[name] for name in ("table", "kinds", "roles")]
        key = repr((what, [hashlib.sha256(one.numpy().tobytes()).digest() for one in saved.tensors.values()]))
        made._bound = _RESTORED.get(key) or _RESTORED.setdefault(key, _followed(saved, rules, roles))
        return made

    def __repr__(self) -> str:
        return f"Agreement({self.rules.name})"


_RESTORED = WeakValueDictionary[str, Followed]()  # by all that they are made from


def _followed(saved: Saved, rules: AgreementRules, roles: Counts | None) -> Followed:
    """Return the hypotheses over the vocabulary of a model folder, from what `Agreement.saved` wrote there."""
    tensors = {name: tensor.tolist() for name, tensor in saved.tensors.items()}
    kinds = [RoleReading(role, tuple(map(frozenset, bundle))) for role, bundle in saved.fields["kinds"]]
    pairs = zip(tensors["kind"], tensors["weight"], strict=True)
    told = [tuple(islice(pairs, count)) for count in tensors["counts"]]
    of = {one: tuple((kinds[kind], weight) for kind, weight in one) for one in set(told)}  # most words have the same
    return Followed(rules, [of[one] for one in told], roles)


def _counted(told: Iterable[tuple[Sequence[object], Mapping[str, float]]] | None) -> Counts | None:
    """Return the counts of roles from the lists of a file."""
    return None if told is None else {tuple(context): own for context, own in told}


def _largest(hypotheses: Hypotheses, relation: str, rules: AgreementRules) -> tuple[int, Bundle] | None:
    """Return the governor with the most weight in a relation: the index of its word (-1: none) and its values."""
    shares: dict[tuple[int, Bundle], float] = {}
    for stack, weight, words in hypotheses:
        for share, one in governors(stack, relation, rules):
            key = words[one.place] if one.place >= 0 else -1, one.bundle
            shares[key] = shares.get(key, 0.0) + weight * share
    return max(shares, key=lambda key: shares[key]) if shares else None


class Governors(Following[GovernorState], ContextualInput[GovernorState]):
    """Inputs that describe the governor of the next word: its values, how far back it is, and how deep clauses are
    nested.

        Governors(agreement)          the same `Agreement` that the model has as a feature: text is followed once

        subject Number:Plur     the probability that the governor of a finite verb is plural
        subject distance        log(1 + how many words back it is)

    `agreement`: the feature whose hypotheses are read.
    """

    followed: Agreement

    def __init__(self, agreement: Agreement) -> None:
        if not isinstance(agreement, Agreement):
            raise FeatureError(f"Governors(...) needs an Agreement, found {agreement!r}")
        self.followed = agreement

    Keys = AgreementKeys

    @classmethod
    def make(cls, context: Context, *, context_independent: bool = False, **keys: Any) -> Governors:
        """Return the inputs for the keys of a configuration."""
        if context_independent:
            raise ConfigError("contextual_inputs: context_independent is of features; leave it out at an input")
        return cls(Agreement.make(context, **keys))

    @property
    def names(self) -> tuple[str, ...]:
        own, name = self.followed, self.followed.name
        said = [f"{name} {relation} {A}:{value}" for relation, A, value in own.followed.values]
        return (*said, *(f"{name} {relation.name} distance" for relation in own.rules.relations))

    def numbers(self, states: Sequence[GovernorState]) -> Tensor:
        return torch.cat(self.followed.followed.expected(states), 1)

    def saved(self) -> Saved:
        return Saved("governors", parts=(self.followed.saved(),))

    @classmethod
    def restored(cls, saved: Saved) -> Governors:
        """Return the inputs that were saved in a model folder."""
        return cls(Agreement.restored(saved.parts[0]))

    def __repr__(self) -> str:
        return f"Governors({self.followed!r})"
