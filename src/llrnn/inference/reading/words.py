"""A model as a reader of letters: what words may begin with, and what follows when one ends.

    log p(the next word begins with u | K) ≤ log_mass(row, u)          a row is a state of the model after some words
    listed words    Σ_{x begins with u} b(x) exp(a·φ(x)) / Z           neighbours in the sorted list; sums of classes
    domains         max_c [p(c | K) / Q'(c)] · Σ_{x begins with u} q(x)     of any string: a bound, for all cells

With the bound an open word is never taken for less than what it may become, and it falls with every letter, so that a
search need not see the end of a word to drop it. When the word ends, log p(u | K) takes its place, exactly.

Where the prior is not one table with exceptions, sums over listed words are made of the whole distribution.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.priors import SparsePrior
from llrnn.model.network import LLRNN
from llrnn.text.tokenisers import Casing

_FEW = 3000  # listed words that are summed one by one
_KEPT_SUMS, _KEPT = 20_000, 200_000  # what was asked of prefixes, and of words
_FORM_COUNT = 20  # as if the form of a user's word had been seen so often
_NEW_CASE = math.log(1e-5)  # of capitals that nobody has seen
_LAST = "\U0010ffff"
_ENDS, _CLOSING = frozenset(".!?…"), frozenset("\"'”’»)]›")
_NO_MORE = np.zeros(0, dtype=np.int64), np.zeros(1)
_UNLISTED_SHARE = 1e-6  # of a domain's strings: at least so much is taken to be unlisted, beside rounding


@dataclass(eq=False, slots=True)
class NextMasses:
    """What a model says of the word behind some others, and its state there.

    `classes` (G,): p(x) / b(x) of the words of each class; `at`: sorted places in the list of the words that have more
    or less than their class says, and `more`: the sums of that; `summed`: of all listed words in order, where the prior
    is no table; `cells` (C,): log p(c) − log Q'(c); `bounds`: the largest of them of each domain.
    """

    state: ModelState
    log_eos: float
    classes: Floats
    at: Ints
    more: Floats
    summed: Floats | None
    cells: Floats
    bounds: list[float]

    def more_of(self, low: int, high: int) -> float:
        """Return the mass that the words from one place of the list to another have beside that of their classes."""
        first, last = self.at.searchsorted((low, high)) if len(self.at) else (0, 0)
        return float(self.more[last] - self.more[first])


@dataclass(eq=False, slots=True)
class WordRow:
    """A place behind some words: behind the `word` with the id `symbol` after the row `before`.

    The model reads that word once somebody asks (`WordModel.ready`), all that are asked for at once. `begins`: whether
    a word with letters here begins the sentence; `masses`: what was asked of it; `after`: the rows behind it.
    """

    before: WordRow | None
    symbol: int
    begins: bool
    next: NextMasses | None = None
    masses: dict[str, float] = field(default_factory=dict)
    after: dict[tuple[int, bool], WordRow] = field(default_factory=dict)


class WordModel:
    """A model over listed words and domains, asked for prefixes of words. `model`: with any prior and controller.

    `forms`: words as they are written, such as names, whose capitals are taken to be known.

        words = WordModel(model); words.log_mass(words.start, "ka")
    """

    def __init__(self, model: LLRNN, forms: Iterable[str] = ()) -> None:
        vocabulary = model.vocabulary
        if vocabulary.units is not None or model.tokeniser.has_blanks:
            raise ConfigError("reading needs a model over words, found one over parts of words; train one over words")
        self.model, self.vocabulary, self.tokeniser = model, vocabulary, model.tokeniser
        casing = getattr(model.tokeniser, "casing", None)
        self.casing: Casing | None = _with_forms(casing, forms) if casing and model.reads_lowercase else None
        self._order = vocabulary.beginning_with("")
        self._words = [vocabulary.symbol(symbol) for symbol in self._order.tolist()]
        self._place_of = np.full(len(vocabulary), -1)
        self._place_of[self._order] = np.arange(len(self._order))
        self._cells = np.arange(vocabulary.n_words, len(vocabulary))
        self._locate, self._case = lru_cache(_KEPT)(self._found), lru_cache(_KEPT)(self._log_case)
        self._cut = lru_cache(_KEPT)(lambda chunk: tuple(self.tokeniser.tokenise(chunk)))
        self._begin = lru_cache(_KEPT_SUMS)(self._begun)
        self._table: Floats | None = None
        self._class_of: Ints = np.zeros(0, dtype=np.int64)

    # --- rows

    @cached_property
    def start(self) -> WordRow:
        """The row at the beginning of a sentence, which stands alone: it is not given the sentences before it."""
        made = WordRow(None, self.vocabulary.eos, True)
        with torch.no_grad():
            made.next = self._next_of(*self.model.step(self.model.start(), [self.vocabulary.eos]))[0]
        return made

    def behind(self, row: WordRow, word: str) -> WordRow:
        """Return the row behind a word, in the model's lowercase; always the same one."""
        cased = _is_cased(word)
        key = self._locate(word)[0], cased
        found = row.after.get(key)
        if found is None:
            found = row.after[key] = WordRow(row, key[0], row.begins and not cased)
        return found

    def ready(self, rows: Iterable[WordRow]) -> None:
        """Let the model read the words of these rows, all in one step; those before them must have been read."""
        new = [row for row in {id(row): row for row in rows}.values() if row.next is None]
        if new:
            with torch.no_grad():
                states = ModelState.joined([_next_of(row.before).state for row in new], self.model.device)
                for row, own in zip(
                    new, self._next_of(*self.model.step(states, [row.symbol for row in new])), strict=True
                ):
                    row.next, row.before = own, None

    def _asked(self, row: WordRow) -> NextMasses:
        if row.next is None:
            self.ready([row])
        return _next_of(row)

    def forget(self, kept: Sequence[WordRow]) -> None:
        """Forget what was asked, and all rows that only led to others than these."""
        for row in (self.start, *kept):
            row.masses, row.after = {}, {}

    def _next_of(self, p: Distribution, state: ModelState) -> list[NextMasses]:
        p.require_mass()
        n = p.n
        position, symbol = (
            np.repeat(np.arange(n), len(self._cells) + 1),
            np.tile([*self._cells, self.vocabulary.eos], n),
        )
        asked = p.log_prob(torch.from_numpy(symbol), torch.from_numpy(position)).double().numpy().reshape(n, -1)
        left = self.vocabulary.log_left if len(self._cells) else np.zeros(0)
        cells = np.where(left > -np.inf, asked[:, :-1] - np.where(left > -np.inf, left, 0.0), -np.inf)
        sizes = np.cumsum([len(domain.cells) for domain in self.vocabulary.domains])[:-1]
        is_table = isinstance(p.prior, SparsePrior) and len(p.prior.tables) == 1
        classes, more, summed = self._sparse(p) if is_table else self._dense(p)
        made = []
        for i, own in enumerate(state.rows()):
            bounds = [float(part.max(initial=-np.inf)) for part in np.split(cells[i], sizes)] if len(left) else []
            made.append(NextMasses(own, float(asked[i, -1]), classes[i], *more[i], summed[i], cells[i], bounds))
        return made

    def _sparse(self, p: Distribution) -> tuple[list[Floats], list[tuple[Ints, Floats]], list[Floats | None]]:
        """Return for each position p(x) / b(x) of every class, and what exceptions have more than that."""
        prior, n = p.prior, p.n
        assert isinstance(prior, SparsePrior)
        if self._table is None:
            table = prior.tables[0].log_b.numpy()
            self._table, self._class_of = np.exp(table[self._order]), p.classes.class_of.numpy()[self._order]
        shift = (prior.shift[:, 0] - p.centred[1] - p.log_total).double().numpy()
        classes = np.exp(p.scores.double().numpy() + shift[:, None])
        if not len(p.known.position):
            return [*classes], [_NO_MORE] * n, [None] * n
        position, place = p.known.position.numpy(), self._place_of[p.known.word.numpy()]
        mass = np.exp(p.log_prob(p.known.word, p.known.position).double().numpy())
        kept = place >= 0
        position, place, mass = position[kept], place[kept], mass[kept]
        order = np.lexsort((place, position))
        position, place, mass = position[order], place[order], mass[order]
        mass = mass - classes[position, self._class_of[place]] * self._table[place]
        ends = np.searchsorted(position, np.arange(1, n))
        parts = zip(np.split(place, ends), np.split(mass, ends), strict=True)
        return [*classes], [(at, np.concatenate([[0.0], np.cumsum(own)])) for at, own in parts], [None] * n

    def _dense(self, p: Distribution) -> tuple[list[Floats], list[tuple[Ints, Floats]], list[Floats | None]]:
        mass = p.log_probs().double().exp().numpy()[:, self._order]
        sums = np.concatenate([np.zeros((len(mass), 1)), np.cumsum(mass, 1)], 1)
        return [np.zeros(0)] * len(mass), [_NO_MORE] * len(mass), [*sums]

    # --- words

    def _found(self, word: str) -> tuple[int, float]:
        ids, inside = self.vocabulary.find([word])
        return int(ids[0]), float(inside[0])

    def log_p(self, row: WordRow, word: str) -> float:
        """Return log p of a word, in the model's lowercase, after a row."""
        symbol, inside = self._locate(word)
        place, then = int(self._place_of[symbol]), self._asked(row)
        if place < 0:
            first = self.vocabulary.n_words
            if symbol < first:  # no word of the model
                return -math.inf
            return float(then.cells[symbol - first]) + inside + float(self.vocabulary.log_left[symbol - first])
        if then.summed is not None:
            mass = float(then.summed[place + 1] - then.summed[place])
        else:
            assert self._table is not None
            mass = float(then.classes[self._class_of[place]] * self._table[place]) + then.more_of(place, place + 1)
        return math.log(mass) if mass > 0 else -math.inf

    def log_mass(self, row: WordRow, letters: str) -> float:
        """Return log p(the next word begins with `letters`), or a bound above it, after a row; lowercase letters."""
        found = row.masses.get(letters)
        if found is None:
            found = row.masses[letters] = self._mass(row, letters) if letters else 0.0
        return found

    def _mass(self, row: WordRow, letters: str) -> float:
        then, (low, high, by_class, log_q) = self._asked(row), self._begin(letters)
        if then.summed is not None:
            mass = float(then.summed[high] - then.summed[low])
        elif by_class is not None:
            mass = float(then.classes @ by_class)
        elif low < high:
            assert self._table is not None
            mass = float(then.classes[self._class_of[low:high]] @ self._table[low:high])
        else:
            mass = 0.0
        if low < high:
            mass += then.more_of(low, high)
        for bound, log in zip(then.bounds, log_q, strict=True):
            mass += math.exp(min(bound + log, 0.0))
        return math.log(min(mass, 1.0)) if mass > 0 else -math.inf

    def _begun(self, letters: str) -> tuple[int, int, Floats | None, list[float]]:
        """Return which listed words begin so, their prior by class if they are many, and log Σ q of each domain."""
        if not letters:
            return 0, len(self._words), None, [0.0] * len(self.vocabulary.domains)
        first, last, _, before = self._begin(letters[:-1])
        low = bisect_left(self._words, letters, first, last)
        high = bisect_left(self._words, letters + _LAST, low, last)
        by_class: Floats | None = None
        if high - low > _FEW and self._table is not None:
            size = len(_next_of(self.start).classes)
            by_class = np.bincount(self._class_of[low:high], self._table[low:high], size).astype(np.float64)
        log_q = [
            -math.inf if one == -math.inf else self._unlisted(n, letters, low, high) for n, one in enumerate(before)
        ]
        return low, high, by_class, log_q

    def _unlisted(self, number: int, letters: str, low: int, high: int) -> float:
        """Return log Σ q(x) over the strings of a domain that begin with `letters` and are not listed."""
        whole = self.vocabulary.domains[number].log_total_of(letters)
        if low == high or whole == -math.inf:
            return whole
        listed = float(self._listed[number][high] - self._listed[number][low])
        return whole + math.log(max(1.0 - listed * math.exp(-whole), _UNLISTED_SHARE))

    @cached_property
    def _listed(self) -> list[Floats]:
        """For each domain the summed q of the listed words, in order."""
        found, first, (cells, log_q) = [], 0, self.vocabulary.in_domains(self._words)
        for domain in self.vocabulary.domains:
            own = (cells >= first) & (cells < first + len(domain.cells))
            found.append(np.concatenate([[0.0], np.cumsum(np.where(own, np.exp(log_q), 0.0))]))
            first += len(domain.cells)
        return found

    # --- text

    def cut(self, chunk: str) -> Sequence[str]:
        """Return the words of a chunk, what stands between blanks, as they are written."""
        return (chunk,) if chunk.isalpha() else self._cut(chunk)

    def lower(self, word: str) -> str:
        return self.tokeniser.lower(word) if self.model.reads_lowercase else word

    def log_case(self, row: WordRow, form: str) -> float:
        """Return log p of the capitals of a form, given the word; of some that nobody has seen a small number."""
        return 0.0 if self.casing is None else self._case(form, row.begins and _is_cased(form))

    def _log_case(self, form: str, first: bool) -> float:
        assert self.casing is not None
        p = self.casing.p(form, first=first)
        return math.log(p) if p > 0 else _NEW_CASE

    def open_mass(self, row: WordRow, letters: str) -> float:
        """Return a bound above log p of all texts that go on with these letters of a chunk."""
        *complete, last = self.cut(letters)
        total = 0.0
        for word in complete:
            small = self.lower(word)
            total += self.log_p(row, small) + self.log_case(row, word)
            row = self.behind(row, small)
            if row.next is None:
                return total
        return total + self.log_mass(row, self.lower(last))

    def prepare(self, chunks: Sequence[tuple[WordRow, str]]) -> None:
        """Let the model read what is behind open chunks, and the first of several words in one of them."""
        rows = [row for row, _ in chunks]
        self.ready(rows)
        further = ((row, self.cut(letters)) for row, letters in chunks if letters and not letters.isalpha())
        self.ready([self.behind(row, self.lower(words[0])) for row, words in further if len(words) > 1])

    def close(self, chunks: Sequence[tuple[WordRow, str]]) -> list[list[tuple[float, WordRow]]]:
        """Return for each chunk the ways on: log p of its words, and of the end of the sentence, and the row then."""
        found: list[list[tuple[float, WordRow]]] = [[] for _ in chunks]
        open_ = [(i, 0.0, row, self.cut(chunk)) for i, (row, chunk) in enumerate(chunks)]
        ends = [may_end(words) for *_, words in open_]
        while open_:
            further = list[tuple[int, float, WordRow, Sequence[str]]]()
            for i, log, row, words in open_:
                small = self.lower(words[0])
                log += self.log_p(row, small) + self.log_case(row, words[0])
                if log == -math.inf:
                    continue
                behind = self.behind(row, small)
                if len(words) > 1 or ends[i]:
                    further.append((i, log, behind, words[1:]))
                if len(words) == 1:
                    found[i].append((log, behind))
            self.ready([row for *_, row, _ in further])
            for i, log, row, words in further:
                if not words:
                    found[i].append((log + _next_of(row).log_eos, self.start))
            open_ = [one for one in further if one[-1]]
        return found


def _with_forms(casing: Casing, forms: Iterable[str]) -> Casing:
    own = {casing.lower(form): {form: _FORM_COUNT} for form in forms}
    return Casing(**{**casing.settings(), "forms": {**casing.forms, **own}})


def _next_of(row: WordRow | None) -> NextMasses:
    assert row is not None
    assert row.next is not None
    return row.next


def may_end(words: Sequence[str]) -> bool:
    """Return whether a sentence may end behind these words."""
    return next((word[-1] in _ENDS for word in reversed(words) if word not in _CLOSING), False)


def _is_cased(word: str) -> bool:
    return word.lower() != word.upper()
