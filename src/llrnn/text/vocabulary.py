"""The symbols V, frozen: listed words, and the cells of domains that hold all other strings; symbol ↔ id.

    words 0 … n-1, then the cells of the first domain, of the second, ...          len(V) = words + cells

One symbol, `EOS`, marks the boundary of sentences: it is predicted at the end of a sentence and fed at the start of the
next, so that V is the same on the way in and on the way out. Without domains the vocabulary is closed, and a word that
it does not list is an error; there is no UNK unless one is asked for by name.

    a domain is a countable set of strings with finite mass              q(x) ≥ 0,  Σ_x q(x) < ∞
    it is cut into finitely many cells c of equal features               Q(c) = Σ_{x∈c} q(x), in closed form
    listed words leave their cell, so that nothing is counted twice      Q'(c) = Q(c) − Σ_{x∈c, listed} q(x)

    p(x | K) = p(c | K) · q(x) / Q'(c)                                   for a string x of cell c that is not listed

To the log-linear layer a cell is one more symbol, and which string of the cell it was does not depend on the context.
So an infinite vocabulary costs as much as its cells. `llrnn.domains` holds the domains: numbers, names, any spelling.

`Spellings`: the words of a large vocabulary as three arrays that may be memory-mapped.

    text      all words in UTF-8, one after the other
    ends      word i is text[ends[i - 1] : ends[i]]
    order     the ids by rising UTF-8: a word is found by halving, in log₂ |V| looks

A million strings and the dictionary of their ids take seconds to make; this takes none, for a few words. Whoever asks
for many is better served by the dictionary (`Vocabulary` changes over by itself).
"""

from __future__ import annotations

import difflib
import hashlib
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError, UnknownWordError, VocabularyError, quoted
from llrnn.text.automata import DFA, check_string

if TYPE_CHECKING:
    from llrnn.text.corpus import Corpus
    from llrnn.text.units import Units

OUTSIDE = -1
_SAFE_SHARE = 1e-9  # of a cell's mass: less than that is lost in rounding when it is what a subtraction leaves
MOST_MEMBERS = 2_000_000  # of a cell whose strings are listed one by one
_TRIED = 2  # strings of each cell that a new domain is tried on


@dataclass(frozen=True)
class Cell:
    """A cell: a set of strings outside the word list that share one vocabulary symbol, such as all 4-digit numbers.

    All strings of a cell have the same features, so the model predicts the cell first, and the string within it
    afterwards.

    name        unique name, such as `number:year`; shown as `‹number:year›` among the symbols
    attributes  features such as `Ends:ment` that its strings have in common with listed words of the same form
    source      the name of the domain that the strings of the cell are said to be of, in features such as
                `New:spelling`; "": that of the domain that the cell belongs to

        Cell("year", attributes=("Numeral:year",))
    """

    name: str
    attributes: tuple[str, ...] = ()
    source: str = ""  # what its strings are new as (`New:spelling`); the name of the domain if nothing is said


class Domain(ABC):
    """A set of strings x with weights q(x) of finite sum, often infinite, such as all numbers or all spellings.

    A domain gives a model probabilities for words outside its word list. It is partitioned into finitely many cells:
    sets of strings with equal features, each of which is one symbol of the vocabulary. C is the number of cells.

    Subclasses implement `name`, `cells`, `log_mass`, `language`, `locate`, `draw` and `described`.

        Vocabulary(words, domains=[Numbers("fr"), Spelling(words)])
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the domain (set of strings with weights) in reports and error messages, such as `number`."""

    @property
    @abstractmethod
    def cells(self) -> tuple[Cell, ...]:
        """The C cells: disjoint sets of strings, each of which is one symbol of a vocabulary; all strings are in one.

        Other methods take or return indices into this tuple.
        """

    @property
    @abstractmethod
    def log_mass(self) -> Floats:
        """log Q(c) of each of the C cells, (C,), with Q(c) = Σ q(x) over all strings x of the cell.

        A cell is a set of strings that share one symbol, q(x) the weight of a string in the domain. Strings that a
        vocabulary lists as words are included.
        """

    @property
    @abstractmethod
    def language(self) -> DFA:
        """A DFA that accepts exactly the strings of the domain: it labels these 0 or more, all others -1."""

    @abstractmethod
    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        """Return the index in `cells` of the cell of each string, (n,), and the log weight log q(x) of each, (n,).

        A cell is a set of strings with one symbol. A string that is not in the domain has the cell `OUTSIDE` (-1) and
        log q = −∞.
        """

    @abstractmethod
    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        """Sample `count` independent strings x from a cell (set of strings with one symbol), with probability ∝ q(x).

        q(x) is the weight of a string in the domain.

        cell        index of the cell in `cells`
        """

    def members(self, cell: int) -> Sequence[str] | None:
        """Return all strings of a cell (set of strings with one symbol); None if there are more than 2,000,000.

        Also None, as here, where a subclass cannot list them.

        cell        index of the cell in `cells`
        """
        return None

    def log_mass_of(self, letters: str) -> Floats:
        """Return log Σ q(x) over the strings x of each of the C cells that begin with `letters`, (C,); −∞ if none.

        A cell is a set of strings that share one symbol, q(x) the weight of a string in the domain; strings that a
        vocabulary lists are included. A DomainError if a cell is too large for its strings to be listed (`members`) and
        the subclass does not override this method.
        """
        found = np.full(len(self.cells), -np.inf)
        for cell, strings in self._written_out(letters):
            found[cell] = np.logaddexp.reduce(self.locate(strings)[1]) if strings else -np.inf
        return found

    def log_total_of(self, letters: str) -> float:
        """Return log Σ q(x) over all strings x that begin with `letters`, or a bound above it; −∞ if there are none.

        q(x) is the weight of a string in the domain. Subclasses override it where the cells need not be told apart.
        """
        return float(np.logaddexp.reduce(self.log_mass_of(letters)))

    def ranked(self, letters: str, log_weight: Floats, least: float = -np.inf) -> Iterator[tuple[float, str]]:
        """Iterate over (score, string) for the strings that begin with the prefix `letters`, highest score first.

        The score of a string x is log q(x), its weight in the domain, + log_weight[index of the cell of x].

        log_weight  (number of cells,) added to the score by cell (set of strings with one symbol); strings of cells
                    with −∞ are not returned
        least       strings with a lower score are not returned

        A DomainError if a cell is too large for its strings to be listed (`members`) and the subclass does not override
        this.
        """
        found = list[tuple[float, str]]()
        for cell, strings in self._written_out(letters):
            if log_weight[cell] > -np.inf and strings:
                log_q = self.locate(strings)[1] + log_weight[cell]
                found += [
                    (log, one)
                    for log, one in zip(log_q.tolist(), strings, strict=True)
                    if log > -np.inf and log >= least
                ]
        return iter(sorted(found, key=lambda one: (-one[0], one[1])))

    def _written_out(self, letters: str) -> Iterator[tuple[int, list[str]]]:
        """Yield (index of a cell, its strings that begin with `letters`) for every cell of the domain.

        A cell is a set of strings with one symbol. A DomainError if one has too many strings to be listed (`members`).
        """
        for number, cell in enumerate(self.cells):
            members = self.members(number)
            if members is None:
                raise DomainError(
                    f"the cell {cell.name!r} of {self.name!r} cannot be searched by the letters of its strings: there "
                    "are too many to list; let the domain say `log_mass_of` and `ranked`, or make it of patterns"
                )
            yield number, [string for string in members if string.startswith(letters)]

    def without(self, language: DFA) -> Domain:
        """Return a copy of the domain (a set of strings with weights) without the strings that `language` accepts.

        Subclasses that can do so override this; the default raises a DomainError that names a string which both hold.
        """
        taken = self.language.both(language).witness()
        raise DomainError(
            f"two domains hold the string {taken!r}: {self.name!r} and one before it; "
            "let their cells be disjoint, or put a spelling last, which leaves to others what is theirs"
        )

    @abstractmethod
    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the domain (set of strings with weights) as JSON-compatible data, and arrays by name.

        For `llrnn.domains.restore`. The data have a key `"kind"`, which selects the deserialiser (see
        `llrnn.domains.register`).
        """


def check(domain: Domain) -> None:
    """Raise a DomainError if a domain (a set of strings with weights) is inconsistent; for tests of a custom `Domain`.

    Its cells (sets of strings with one symbol each) must have distinct names and a finite sum of weights, and strings
    sampled from a cell must be valid symbols that `locate` puts into it, with a weight no larger than that sum.

        check(Numbers("en"))
    """
    names = [cell.name for cell in domain.cells]
    times = Counter(names)
    repeated = [name for name in names if times[name] > 1]
    if repeated or not names or len(domain.log_mass) != len(names):
        raise DomainError(f"{domain.name!r} needs cells of different names with a mass each, found {repeated or names}")
    rng = np.random.default_rng(0)
    for number, (cell, log_mass) in enumerate(zip(domain.cells, domain.log_mass.tolist(), strict=True)):
        if not log_mass < np.inf:
            shown = domain.members(number)
            example = f", such as {shown[0]!r}" if shown else ""
            raise DomainError(
                f"the cell {cell.name!r} of {domain.name!r} must have finite mass, found {np.exp(log_mass)}{example}: "
                "its strings must grow rarer with their length, a uniform weight over infinitely many has no sum"
            )
        if log_mass > -np.inf:
            _check_strings(domain, number, domain.draw(number, _TRIED, rng))


def _check_strings(domain: Domain, cell: int, strings: list[str]) -> None:
    name = domain.cells[cell].name
    located, log_q = domain.locate(strings)
    for string, found, log in zip(strings, located.tolist(), log_q.tolist(), strict=True):
        problem = check_string(string)
        if problem is not None:
            raise DomainError(f"the cell {name!r} of {domain.name!r} holds {string!r}, which is no symbol: {problem}")
        if found != cell:
            other = "no cell at all" if found < 0 else f"the cell {domain.cells[found].name!r}"
            raise DomainError(f"{string!r} is drawn from the cell {name!r} of {domain.name!r}, but located in {other}")
        if not -np.inf < log <= domain.log_mass[cell] + 1e-9:
            raise DomainError(
                f"log q of {string!r} must be finite and at most that of its cell {name!r}, "
                f"{domain.log_mass[cell]:.6g}, found {log:.6g}"
            )


def log_mass_left(domain: Domain, listed: Sequence[str]) -> Floats:
    """Return log Q'(c) for each cell of a domain, (cells,): log Σ q(x) over the strings x of the cell not in `listed`.

    A cell is a set of strings that share one symbol, q(x) the weight of a string in the domain. −∞ where all its
    strings are listed. A DomainError where too little is left to be computed exactly (less than 1e-9 of the sum over a
    cell whose strings cannot be enumerated).
    """
    located, log_q = domain.locate(listed)
    own = located >= 0
    gone = np.bincount(located[own], weights=np.exp(log_q[own]), minlength=len(domain.cells))
    whole = np.exp(domain.log_mass)
    left = np.where(gone > 0, whole - gone, whole)
    for cell in np.flatnonzero((gone > 0) & (left < _SAFE_SHARE * whole)).tolist():
        # too little to be had by subtraction: what the other strings of the cell weigh
        taken, members = {listed[i] for i in np.flatnonzero(located == cell).tolist()}, domain.members(cell)
        if members is None:
            raise DomainError(
                f"the listed words take all but a billionth of the cell {domain.cells[cell].name!r} of {domain.name!r},"
                f" {min(taken)!r} among them, too much to tell what is left; make its cells larger, or list fewer words"
            )
        others = [string for string in members if string not in taken]
        left[cell] = np.exp(domain.locate(others)[1]).sum() if others else 0.0
    with np.errstate(divide="ignore"):
        log_left: Floats = np.where(gone > 0, np.log(np.maximum(left, 0.0)), domain.log_mass)
    return log_left


def log_mass_without(log_mass: Floats, cells: Ints, log_q: Floats) -> Floats:
    """Return the log masses of C cells (sets of strings with weights q), (C,), after n strings were removed from them.

    log_mass    (C,) log Σ q(x) of each cell before
    cells       (n,) the index of the cell of each removed string; -1: it is in none
    log_q       (n,) log q of each removed string

    A plain subtraction in float64: where almost nothing is left, the result has few correct digits, or is −∞.
    """
    own = cells >= 0
    gone = np.bincount(cells[own], weights=np.exp(log_q[own]), minlength=len(log_mass))
    with np.errstate(divide="ignore"):
        left: Floats = np.where(gone > 0, np.log(np.maximum(np.exp(log_mass) - gone, 0.0)), log_mass)
    return left


ARRAYS = ("text", "ends", "order")


@dataclass(frozen=True, eq=False)
class Spellings:
    """A read-only list of distinct words as three arrays, which may be memory-mapped, so that large lists open at once.

    text        (bytes,) uint8: all words in UTF-8, one after the other
    ends        (V,) integers: word i is text[ends[i - 1] : ends[i]], word 0 begins at 0
    order       (V,) the word numbers sorted by their UTF-8 bytes, for binary search

    `len`, `spellings[i]` (a word by its number) and iteration work as for a list of strings.
    """

    text: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.integer[Any]]  # (V,)
    order: npt.NDArray[np.integer[Any]]  # (V,)

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Make the arrays of distinct words, numbered in the given order; a lone surrogate is a VocabularyError."""
        try:
            coded = [word.encode() for word in words]
        except UnicodeEncodeError as error:
            raise VocabularyError(f"a word cannot be written as UTF-8 ({error}); take it out") from None
        ends = np.cumsum([len(word) for word in coded], dtype=np.int64)
        order = np.array(sorted(range(len(coded)), key=coded.__getitem__), dtype=np.int64)
        return cls(np.frombuffer(b"".join(coded), dtype=np.uint8).copy(), _narrow(ends), _narrow(order))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the list from the arrays `text`, `ends` and `order`, by name, for instance of a file.

        A VocabularyError if shapes or types do not fit. The content of the arrays is not checked.
        """
        text, ends, order = (arrays[name] for name in ARRAYS)
        whole = text.ndim == ends.ndim == order.ndim == 1 and ends.shape == order.shape
        whole = whole and text.dtype == np.uint8 and ends.dtype.kind == order.dtype.kind == "i"
        if not whole or int(ends[-1] if len(ends) else 0) != len(text):
            raise VocabularyError("the arrays of the words do not fit together")
        return cls(text, ends, order)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays `text`, `ends` and `order` by name, as `from_arrays` takes them."""
        return {name: getattr(self, name) for name in ARRAYS}

    def with_words(self, words: Sequence[str]) -> Spellings:
        """Return a list of this one's words followed by `words`; the caller ensures that none of them is listed."""
        new = Spellings.of(words)
        places = [bisect_left(self.order, new._coded(number), key=self._coded) for number in new.order.tolist()]
        ends = np.concatenate([self.ends, new.ends + np.int64(len(self.text))])
        order = np.insert(self.order.astype(np.int64), places, new.order + np.int64(len(self)))
        return Spellings(np.concatenate([self.text, new.text]), _narrow(ends), _narrow(order))

    def of_words(self, stay: Ints) -> Spellings:
        """Return a list of only the words with the numbers `stay`, an ascending array, renumbered from 0."""
        sizes = np.diff(self.ends, prepend=0)
        kept, number = np.zeros(len(self), dtype=bool), np.zeros(len(self), dtype=np.int64)
        kept[stay], number[stay] = True, np.arange(len(stay))
        order = self.order[kept[self.order]]
        text = self.text[np.repeat(kept, sizes)]
        return Spellings(text, _narrow(np.cumsum(sizes[stay], dtype=np.int64)), _narrow(number[order]))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(f"words are numbered 0 to {len(self) - 1}, found {number}")
        return self._coded(number).decode()

    def __iter__(self) -> Iterator[str]:
        whole, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield whole[start:end].decode()
            start = end

    def find(self, word: object) -> int | None:
        """Return the number of a word, by binary search, or None if it is not listed."""
        if not isinstance(word, str):
            return None
        coded = word.encode("utf8", "surrogatepass")
        place = bisect_left(self.order, coded, key=self._coded)
        if place < len(self) and self._coded(self.order[place]) == coded:
            return int(self.order[place])
        return None

    def _coded(self, number: Any) -> bytes:
        start = self.ends[number - 1] if number else 0
        return self.text[start : self.ends[number]].tobytes()


def _narrow(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.integer[Any]]:
    return numbers.astype(np.int32) if not len(numbers) or int(numbers.max()) < 2**31 else numbers


EOS = "</s>"
_WITNESSES = 5  # strings of each cell on which features must agree
_NEAR, _ALIKE = 5000, 0.6  # words that are looked at for near ones; the least likeness, by difflib
_MOST_DRAWS = 1 << 20  # strings drawn in search of one that is not listed
MANY_WORDS = 100_000  # from there on they are kept, and changed, as arrays
_SHARE_LOOKED_UP = 1 / 20  # of all words: from there on, a dictionary is taken to be faster (an estimate)


class Vocabulary:
    """The symbols that a model reads and predicts, with ids: the listed words, then the cells of any infinite domains.

    A cell is a set of unlisted strings that share one id, such as all 4-digit numbers (`Cell`, `Domain`). Ids are 0 …
    `len(vocabulary)` - 1, the most frequent word first when made from a corpus. `EOS` (`</s>`) is always listed.

    For example:

        vocabulary = Vocabulary.from_corpus(train, min_count=2, unknown="<unk>")
        vocabulary.ids(["le", "chat"])
    """

    def __init__(
        self,
        words: Iterable[str] | Spellings,
        *,
        counts: Sequence[int] | Ints | None = None,
        unknown: str | None = None,
        domains: Sequence[Domain] = (),
        as_new: Iterable[str] = (),
        checked: bool = False,
        log_left: Floats | None = None,
        units: Units | None = None,
    ) -> None:
        """Make a vocabulary of given words; usually `Vocabulary.from_corpus` is more convenient.

        words       the listed words in the order of their ids, EOS among them; `Spellings` are taken as valid
        counts      how often each word, or each symbol, was seen, by id; None: not known
        unknown     the listed symbol that stands for unlisted words; None: there is no such symbol
        domains     infinite sets of strings that hold unlisted words (open vocabulary); the first that holds a word is
                    taken
        as_new      listed words whose first occurrence in a training text is encoded as their cell, so that the model
                    learns to expect new words
        checked     True: skip the check that the domains are valid, and do not make them disjoint
        log_left    (C,) log Q'(c) of all cells, the mass of their unlisted strings; None: computed at first use
        units       how words of a text are cut, where the listed words are subword units; None: words are symbols

        A VocabularyError if words are repeated, empty or with outer white space, or if EOS or `unknown` is not listed.
        """
        self._spellings = words if isinstance(words, Spellings) else None
        self._looked_up = 0
        if not isinstance(words, Spellings):
            words = self.words = tuple(words)
        self.n_words = len(words)
        self.unknown, self.units = unknown, units
        self.domains = tuple(domains) if checked else disjoint(domains)
        self.as_new = frozenset(as_new)
        self._cell_names = tuple(f"‹{cell.name}›" for domain in self.domains for cell in domain.cells)
        self._counts = counts if counts is None or isinstance(counts, np.ndarray) else tuple(counts)
        if log_left is not None:
            self._set_left(log_left)
        self._check()
        if not checked:
            self._check_as_new()
        self.eos: int = self.id(EOS)
        if checked:  # words that were added may have filled a cell
            self.as_new = frozenset(self._with_room(sorted(self.as_new)))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The listed words by id, without cells (sets of unlisted strings with one id).

        The tuple is built at first use where the vocabulary was opened from a file.
        """
        return tuple(self._spellings or ())

    @property
    def spellings(self) -> Spellings:
        """The listed words as three arrays (`Spellings`), by id."""
        return self._spellings or Spellings.of(self.words)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols by id: the listed words, then cells (sets of unlisted strings), `‹domain:cell›`."""
        return (*self.words, *self._cell_names)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How often each symbol was seen in the corpora of the vocabulary, by id.

        0 for cells (sets of unlisted strings with one id), and for all symbols if nothing was counted.
        """
        given = self._counts.tolist() if isinstance(self._counts, np.ndarray) else self._counts or ()
        return tuple(given) + (0,) * (len(self) - len(given))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    def _find(self, word: object) -> int | None:
        """Return the id of a listed word, or None if it is not listed, also for what is no str.

        Cells (sets of unlisted strings) are not looked at. After many look-ups a dictionary of all words is built.
        """
        self._looked_up += 1
        if self._spellings is not None and self._looked_up <= _SHARE_LOOKED_UP * self.n_words:
            return self._spellings.find(word)
        return self._ids.get(word)  # type: ignore[call-overload, no-any-return]

    def symbol(self, number: int) -> str:
        """Return the word with the id `number`; for a cell (a set of unlisted strings), its name, `‹domain:cell›`.

        Unlike `symbols[number]`, this does not build the strings of all words.
        """
        if self._spellings is None or "symbols" in self.__dict__ or not 0 <= number < self.n_words:
            return self.symbols[number]
        return self._spellings[number]

    def _check(self) -> None:
        if self._spellings is None:
            self._check_words()
        if self._find(EOS) is None:
            raise VocabularyError(f"the vocabulary must list the end-of-sentence symbol {EOS!r}")
        if self.unknown is not None and self._find(self.unknown) is None:
            raise VocabularyError(f"the symbol for unknown words, {self.unknown!r}, must be listed itself")
        if self._counts is not None and len(self._counts) not in (self.n_words, len(self)):
            found = len(self._counts)
            raise VocabularyError(f"there must be one count for each of the {self.n_words} symbols, found {found}")

    def _check_words(self) -> None:
        if len(set(self.symbols)) != len(self.symbols):
            repeated = next(symbol for symbol, n in Counter(self.symbols).items() if n > 1)
            raise VocabularyError(f"symbols must be distinct, but {repeated!r} is listed more than once")
        for symbol in self.words:
            if not is_symbol(symbol):
                raise VocabularyError(
                    "a symbol must be a non-empty text on one line, without white space around it, found "
                    f"{quoted(symbol)}"
                )

    def _check_as_new(self) -> None:
        lost = {word for word in self.as_new if word not in self}
        if lost:
            raise VocabularyError(f"only listed words of an open vocabulary can train as new, found {min(lost)!r}")
        alone = self.as_new.difference(self._with_room(sorted(self.as_new)))
        if alone:
            raise VocabularyError(
                "only words of a cell that holds others can train as new, but no domain has such a cell for "
                f"{min(alone)!r}; take it out of `as_new`, or give a domain that holds it"
            )

    @classmethod
    def from_corpus(
        cls,
        *corpora: Corpus,
        top: int | None = None,
        min_count: int = 1,
        unknown: str | None = None,
        others: Iterable[str] = (),
        domains: Sequence[Domain] = (),
        as_new: float = 0.0,
        units: Units | None = None,
    ) -> Vocabulary:
        """Make the vocabulary of the words of one or more corpora, most frequent first, with their counts.

        top         list only this many words, the most frequent ones, besides EOS, `unknown` and `others`; None: all
        min_count   list only words seen at least this often
        unknown     name of a symbol to list for all other words, such as `<unk>`; None: no such symbol
        others      words to list in any case, with the count that they have, perhaps 0
        domains     infinite sets of strings that hold unlisted words, such as `Numbers("fr")` (open vocabulary)
        as_new      share of the words, 0 to 1, `others` excepted, whose first occurrence in a training text is encoded
                    as their cell, so that the model learns to expect new words
        units       how words are cut into subword units, where the corpora consist of such units

            Vocabulary.from_corpus(train, min_count=2, domains=[Numbers("fr"), Spelling(words)], as_new=0.5)
        """
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.counts())
            if EOS in counts:
                raise VocabularyError(
                    f"the corpus {corpus.name!r} holds {EOS!r} as a word, but that symbol marks ends of sentences: "
                    "remove or rename it"
                )
        frequent = by_frequency({word: count for word, count in counts.items() if count >= min_count})[:top]
        from_lists = set(others)
        listed = {word: counts.get(word, 0) for word in from_lists} | {word: counts[word] for word in frequent}
        listed = with_others(listed, unknown, counts.total(), sum(map(len, corpora)))
        symbols = by_frequency(listed)
        chosen = [word for word in frequent if word not in from_lists and _chance(word) < as_new]
        made = cls(symbols, counts=[listed[s] for s in symbols], unknown=unknown, domains=domains, units=units)
        if chosen and not domains:
            raise VocabularyError(
                f"only words of an open vocabulary can train as new, found {chosen[0]!r}; give domains"
            )
        made.as_new = frozenset(made._with_room(chosen))
        return made

    def _with_room(self, words: Sequence[str]) -> list[str]:
        """Return, in order, those of the words whose cell has unlisted strings of a weight above 0.

        A cell is a set of strings that share one symbol. Words in no domain are not among them.
        """
        cells = (self.cells_of(words) - self.n_words).tolist() if words else []
        return [word for word, cell in zip(words, cells, strict=True) if cell >= 0 and self.log_left[cell] > -np.inf]

    def __len__(self) -> int:
        return self.n_words + len(self._cell_names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)

    def __contains__(self, word: object) -> bool:
        """Return whether a word is listed; False for a string that only a domain (infinite set of strings) holds."""
        return self._find(word) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols and self.unknown == other.unknown

    def __hash__(self) -> int:
        return hash((self.symbols, self.unknown))

    def __repr__(self) -> str:
        cells = len(self._cell_names)
        return f"Vocabulary({self.n_words} {'symbols' if not cells else f'words and {cells} cells'})"

    @property
    def is_open(self) -> bool:
        """Whether there are domains (infinite sets of strings), so that words outside the list have ids too."""
        return bool(self.domains)

    @property
    def is_lowercase(self) -> bool:
        """Whether no listed word has a capital letter, EOS and the unknown symbol not considered."""
        return all(word == word.lower() for word in self.words if word not in (EOS, self.unknown))

    @cached_property
    def cell_log_mass(self) -> tuple[Floats, ...]:
        """For each domain an array, (cells,), of log Q'(c), with Q'(c) = Σ q(x) over the unlisted strings x of cell c.

        A cell is a set of strings that share one id, q(x) the weight of a string in its domain; −∞ where all strings of
        a cell are listed.
        """
        return tuple(log_mass_left(domain, self.words) for domain in self.domains)

    @cached_property
    def log_left(self) -> Floats:
        """log Q'(c) of the C cells of all domains, (C,), with Q'(c) = Σ q(x) over the unlisted strings x of cell c.

        A cell is a set of strings that share one id, q(x) the weight of a string in its domain; −∞ where all strings of
        a cell are listed. They are in the order of ids; (0,) without domains.
        """
        return np.concatenate(self.cell_log_mass) if self.domains else np.zeros(0)

    def _set_left(self, log_left: Floats) -> None:
        sizes = [len(domain.cells) for domain in self.domains]
        if log_left.shape != (sum(sizes),) or not (log_left < np.inf).all():
            raise VocabularyError(f"what is left of {sum(sizes)} cells must be as many numbers, found {log_left.shape}")
        self.cell_log_mass = tuple(np.split(log_left, np.cumsum(sizes)[:-1])) if sizes else ()

    @cached_property
    def total(self) -> int:
        """Sum of the counts of all symbols; 0 if nothing was counted."""
        return int(np.sum(self._counts, dtype=np.int64)) if self._counts is not None else 0

    def with_words(self, words: Sequence[str], counts: Sequence[int]) -> Vocabulary:
        """Return a vocabulary with new words after the listed ones, whose ids stay.

        words       words that are not listed yet, each once
        counts      how often each was seen

        The ids of the cells (sets of unlisted strings) move up, and the weight of the words is subtracted from that of
        their cells. A VocabularyError for a vocabulary of subword units.
        """
        if self.units is not None:
            raise VocabularyError("a model of units spells every word, so that none can be added; type it as it is")
        given = np.insert(self._all_counts, self.n_words, counts)
        if self.n_words < MANY_WORDS:
            return self._revised((*self.words, *words), given)
        return self._revised(self.spellings.with_words(words), given, self._left_with(words, -1.0))

    def of_words(self, stay: Ints) -> Vocabulary:
        """Return a vocabulary that lists only the words with the ids `stay`, an ascending array, renumbered from 0.

        `stay` must hold the id of EOS. Removed words become unlisted strings: with the id of their cell where a domain
        (a set of strings with probabilities) holds them, else unknown words.
        """
        gone = np.delete(np.arange(self.n_words), stay)
        given = np.delete(self._all_counts, gone)
        if self.n_words < MANY_WORDS:
            return self._revised([self.words[word] for word in stay.tolist()], given)
        left = [self.symbol(word) for word in gone.tolist()]
        return self._revised(self.spellings.of_words(stay), given, self._left_with(left, 1.0), gone=left)

    @property
    def _all_counts(self) -> Ints:
        given = np.asarray(() if self._counts is None else self._counts, dtype=np.int64)
        return np.pad(given, (0, len(self) - len(given)))

    def _revised(
        self, words: Iterable[str] | Spellings, counts: Ints, log_left: Floats | None = None, gone: Iterable[str] = ()
    ) -> Vocabulary:
        as_new = self.as_new.difference(gone) if isinstance(words, Spellings) else self.as_new.intersection(words)
        same: dict[str, Any] = {"unknown": self.unknown, "domains": self.domains, "checked": True}
        return Vocabulary(words, counts=counts, as_new=as_new, log_left=log_left, **same)

    def _left_with(self, words: Sequence[str], sign: float) -> Floats | None:
        """Return log Q'(c) of the C cells of the domains after `words` were added (sign −1) or removed (1), (C,).

        A cell is a set of strings with one id; Q'(c) is the sum of q(x), the weight of a string in its domain, over the
        unlisted strings of cell c. None where there are no domains, or where less than 1e-9 of a cell is or was left,
        so that subtraction would lose precision and the sums must be computed anew.
        """
        if not self.domains:
            return None
        cells, log_q = self.in_domains(words)
        own = cells >= 0
        change = sign * np.bincount(cells[own], weights=np.exp(log_q[own]), minlength=len(self.log_left))
        whole = np.exp(np.concatenate([domain.log_mass for domain in self.domains]))
        before = np.exp(self.log_left)
        left = np.minimum(before + change, whole)
        if ((change != 0) & (np.minimum(left, before) < _SAFE_SHARE * whole)).any():
            return None
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(change != 0, np.log(left), self.log_left))

    def id(self, word: str, *, place: str = "") -> int:
        """Return the id of a listed word, or of the cell (a set of unlisted strings) that contains the word.

        A word that has neither is an UnknownWordError. With an `unknown` symbol, its id is returned instead of the
        error. `place` says in the error where the word was found.

        For example:

            vocabulary.id("chat")
        """
        found = self._find(word)
        return int(self.locate([word], place=place)[0][0]) if found is None else found

    def ids(self, words: Iterable[str], *, place: str = "") -> list[int]:
        """Return the id of each word, or of the cell (a set of unlisted strings) that contains it.

        A word that has neither is an UnknownWordError; with an `unknown` symbol, its id is returned instead.

        `place` says in the error where the words were found.

            vocabulary.ids(["le", "chat"])
        """
        return [self.id(word, place=place) for word in words]

    def symbols_of(self, words: Iterable[str], *, place: str = "") -> list[int]:
        """Return the ids of the words of a text or, in a vocabulary of subword units, of the units of these words.

        An unlisted word has the id of its cell (a set of unlisted strings), else of the `unknown` symbol; if it has
        none of these, it is an UnknownWordError, in which `place` says where the text was found.
        """
        return self.ids(words if self.units is None else self.units.sentence(words), place=place)

    def locate(self, words: Sequence[str], *, place: str = "") -> tuple[Ints, Floats]:
        """Return the id of each word, or of its cell (set of unlisted strings), (n,), and log p(word | id), (n,).

        The second is 0 for a listed word, and log(q(x) / Q'(c)) for a string x of a cell c (q(x): its weight in the
        domain, Q'(c): the sum over the unlisted strings of the cell). So log p(x) = log p(id) + this.

        A word without an id has that of `unknown`, and 0; without such a symbol it is an UnknownWordError, in which
        `place` says where the word was found.

            ids, log_inside = vocabulary.locate(["chat", "1987"])
        """
        ids, inside = self.find(words)
        missing = np.flatnonzero(ids < 0)
        if len(missing):
            first, *others = dict.fromkeys(words[i] for i in missing.tolist())
            raise UnknownWordError(first, size=len(self), place=place, others=others)
        return ids, inside

    def find(self, words: Sequence[str]) -> tuple[Ints, Floats]:
        """Return the id of each word (or of its cell), (n,), and its log-probability given that id, (n,).

        A cell is a set of unlisted strings with one id. Unlike `locate`, this never raises: a word without an id has
        -1, or the id of `unknown` where there is such a symbol. The log-probability is log(q(x) / Q'(c)) for a string x
        of a cell c (q(x): its weight in the domain, Q'(c): the sum over the cell's unlisted strings), and 0 for all
        other words.
        """
        listed = (self._find(word) for word in words)
        ids = np.array([-1 if found is None else found for found in listed], dtype=np.int64)
        inside = np.zeros(len(words))
        missing = np.flatnonzero(ids < 0)
        if self.domains and len(missing):
            cells, log_q = self.in_domains([words[i] for i in missing.tolist()])
            found = cells >= 0
            ids[missing[found]] = cells[found] + self.n_words
            inside[missing[found]] = log_q[found] - self.log_left[cells[found]]
        return ids if self.unknown is None else np.where(ids < 0, self.id(self.unknown), ids), inside

    @cached_property
    def _in_order(self) -> Ints:
        """The ids of the listed words in alphabetical order (of code points) of the words, (n_words,)."""
        if self._spellings is not None:
            return np.asarray(self._spellings.order)
        return np.array(sorted(range(self.n_words), key=self.words.__getitem__), dtype=np.int64)

    def beginning_with(self, letters: str) -> Ints:
        """Return the ids of the listed words that begin with `letters`, in alphabetical order of the words.

        EOS and the unknown symbol are not among them.
        """
        order, size = self._in_order, len(letters)
        places, word = range(self.n_words), self.symbol
        start = bisect_left(places, letters, key=lambda i: word(int(order[i]))[:size]) if size else 0
        stop = bisect_right(places, letters, start, key=lambda i: word(int(order[i]))[:size]) if size else len(order)
        found = order[start:stop].astype(np.int64)
        kept: Ints = found[(found != self.eos) & (found != (-1 if self.unknown is None else self.id(self.unknown)))]
        return kept

    def near(self, word: str, most: int = 5) -> list[str]:
        """Return up to `most` listed words that are spelled similarly to `word`, nearest first.

        Only the most frequent words, and those with the same first letter, are compared; accents and case are ignored.
        Neither `word` itself nor EOS is returned; [] if none is similar enough (`difflib.get_close_matches`).
        """
        same = sorted(self.beginning_with(word[:1]).tolist()) if word else []
        looked_at = dict.fromkeys([*same[:_NEAR], *range(min(_NEAR, self.n_words))])
        bare: dict[str, list[str]] = {}  # by how they are written without accents and capitals
        for one in looked_at:
            if one != self.eos:
                bare.setdefault(_bare(self.symbol(one)), []).append(self.symbol(one))
        found = difflib.get_close_matches(_bare(word), bare, n=most, cutoff=_ALIKE)
        return [other for key in found for other in bare[key] if other != word][:most]

    def log_inside(self, word: str) -> float:
        """Return the log-probability of an unlisted word x given its cell c, log(q(x) / Q'(c)); 0 for a listed word.

        A cell is a set of strings with one id, q(x) the weight of x in its domain, Q'(c) the sum over the cell's
        unlisted strings. A word that is neither listed nor in a domain is an UnknownWordError or, if there is an
        unknown symbol, has 0.
        """
        return float(self.locate([word])[1][0])

    def kinds(self, words: Sequence[str]) -> list[str]:
        """Return for each word how it has its probability: "listed", "spelled", "number" or "unknown".

        An unlisted word of another domain (infinite set of strings) has that domain's name; an unknown one has
        no probability of its own. Where symbols are units of words, every word is spelled.

            vocabulary.kinds(["le", "zorglub", "1987"])        # ["listed", "spelled", "number"]
        """
        if self.units is not None:
            return ["spelled"] * len(words)
        names, n = ["spelled" if cell.source == "spelling" else cell.source for cell in self.cells], self.n_words
        found = zip(words, self.find(words)[0].tolist(), strict=True)
        return [names[i - n] if i >= n else "listed" if word in self else "unknown" for word, i in found]

    def cells_of(self, words: Sequence[str]) -> Ints:
        """Return the id of the cell (set of strings with one id) that contains each word, (n,); -1 if no domain does.

        Listed words are looked up like all others.
        """
        cells, _ = self.in_domains(words)
        return np.where(cells >= 0, cells + self.n_words, -1)

    def in_domains(self, words: Sequence[str]) -> tuple[Ints, Floats]:
        """Return the cell of each word in the first domain that contains it, (n,), and its log weight log q(x), (n,).

        A cell is a set of strings with one id; it is given by its index in `Vocabulary.cells` (its id minus the number
        of words). -1, with log q = −∞, if no domain contains the word. Listed words are looked up like all others.
        """
        found, log_q, first = np.full(len(words), -1), np.full(len(words), -np.inf), 0
        for domain in self.domains:
            own, log = domain.locate(words)
            new = (found < 0) & (own >= 0)
            found, log_q = np.where(new, own + first, found), np.where(new, log, log_q)
            first += len(domain.cells)
        return found, log_q

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells (sets of unlisted strings with one id each) of all domains, in the order of their ids.

        The id of the first is the number of listed words.
        """
        named = [(domain.name, cell) for domain in self.domains for cell in domain.cells]
        return tuple(replace(cell, source=cell.source or name) for name, cell in named)

    def spelled(self, symbol: int, rng: np.random.Generator) -> str:
        """Return the word with the id `symbol`; for a cell (a set of unlisted strings), sample one of its strings.

        It is drawn with probability ∝ its weight in the domain. Errors are those of `spell`.
        """
        return self.spell(symbol, 1, rng)[0]

    def spell(self, symbol: int, count: int, rng: np.random.Generator) -> list[str]:
        """Return `count` strings for the id `symbol`: copies of a listed word, or independent samples from a cell.

        A cell is a set of unlisted strings x with one id; they are drawn with probability ∝ q(x), their weight in the
        domain. A DomainError if the cell has no unlisted string, a VocabularyError for an id out of range.
        """
        if symbol < self.n_words:
            return [self.symbol(symbol)] * count
        cell = symbol - self.n_words
        if cell < len(self.log_left) and self.log_left[cell] == -np.inf:
            raise DomainError(f"nothing is left of the cell {self.symbol(symbol)} but listed words")
        for domain in self.domains:
            if cell < len(domain.cells):
                return self._draw(domain, cell, count, rng)
            cell -= len(domain.cells)
        raise VocabularyError(f"symbols are numbered 0 to {len(self) - 1}, found {symbol}")

    def _draw(self, domain: Domain, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        found: list[str] = []
        asked = count
        while True:
            found += [string for string in domain.draw(cell, asked, rng) if string not in self]
            if len(found) >= count:
                return found[:count]
            asked = min(2 * asked, _MOST_DRAWS)
            if asked == _MOST_DRAWS and not found:
                break
        # a finite cell of which hardly anything is left: the others are looked at one by one
        others = [string for string in domain.members(cell) or () if string not in self]
        q = np.exp(domain.locate(others)[1])
        if not q.sum() > 0:
            raise DomainError(f"too little to be drawn is left of {domain.cells[cell].name!r} but listed words")
        return [others[i] for i in rng.choice(len(others), size=count, p=q / q.sum()).tolist()]

    @cached_property
    def witnesses(self) -> dict[int, tuple[str, ...]]:
        """A few sampled strings of every cell (set of unlisted strings with one id), by id; () if the cell has none.

        They serve to check that a feature has one value for all strings of a cell.
        """
        rng = np.random.default_rng(0)
        return {
            cell: tuple(self.spell(cell, _WITNESSES, rng)) if left > -np.inf else ()
            for cell, left in enumerate(self.log_left.tolist(), self.n_words)
        }

    def digest(self) -> str:
        """Return the SHA-256, as hexadecimal text, of the symbols by id: equal digests mean equal ids."""
        return hashlib.sha256("\n".join(self.symbols).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Revision:
    """The change of a model's vocabulary from V to V': what stays, and where new symbols get prior weight from.

    V and V' also stand for the numbers of symbols. The prior weights b of a model become

        b'(x) = b(source[x]) · share[x]            or, where source[x] is -1,   Σ_y b(y) · share[x]

    vocabulary  V'
    kept        (V',) the old id of each symbol, -1 if it is new
    source      (V',) the old id whose prior weight is taken, -1: the sum over all symbols
    log_share   (V',) log of the part of that weight which the symbol gets

    A word that stays takes all of its own weight, a cell that loses words a part of its own; a word that comes from a
    cell (a set of unlisted strings) takes a part of the cell's weight, a word that comes with a count a part of the
    sum. What stays keeps its order.
    """

    vocabulary: Vocabulary
    kept: Ints  # (V',) the old id of the same symbol, -1 for a new one
    source: Ints  # (V',) where kept is not -1, it is the same
    log_share: Floats  # (V',)

    def log_masses(self, log_b: Floats) -> Floats:
        """Return the log prior weights log b' of the V' symbols of the new vocabulary, (V',).

        log_b       (V,) log prior weights of the symbols of the old one
        """
        most = log_b.max()
        whole = most + np.log(np.exp(log_b - most).sum()) if most > -np.inf else most
        found: Floats = np.where(self.source >= 0, log_b[self.source], whole) + self.log_share
        return found

    def new_ids(self, n_symbols: int) -> Ints:
        """Return the id in the new vocabulary of each of the `n_symbols` symbols of the old one, -1 if removed."""
        ids = np.full(n_symbols, -1)
        stays = np.flatnonzero(self.kept >= 0)
        ids[self.kept[stays]] = stays
        return ids

    def of_a_factor(self, n_symbols: int) -> Revision:
        """Return the revision for the second and later factors of a prior that is a product, over `n_symbols` symbols.

        Only the first factor is multiplied by the shares; in the others a symbol gets the whole weight of its source
        (`source`), or the mean over all `n_symbols` old symbols where it has none.
        """
        return replace(self, log_share=np.where(self.source >= 0, 0.0, -np.log(n_symbols)))


def is_symbol(word: object) -> bool:
    """Return whether this can be a symbol: a non-empty str on one line, without white space around it."""
    return isinstance(word, str) and word.strip() == word and len(word.splitlines()) == 1


def by_frequency(counts: Mapping[str, int]) -> list[str]:
    """Return the words of a mapping word -> count by descending count, words of equal count alphabetically."""
    return sorted(counts, key=lambda word: (-counts[word], word))


def with_others(listed: Mapping[str, int], unknown: str | None, total: int, sentences: int) -> dict[str, int]:
    """Return the counts of listed words, completed by those of EOS and of the unknown symbol.

    listed      word -> count
    unknown     the symbol for unlisted words, whose count is what `listed` leaves of `total`; None: no such symbol
    total       number of words of the text, EOS not counted
    sentences   number of sentences, the count of EOS
    """
    rest = {} if unknown is None else {unknown: listed.get(unknown, 0) + total - sum(listed.values())}
    return {**listed, **rest, EOS: sentences}


def disjoint(domains: Sequence[Domain]) -> tuple[Domain, ...]:
    """Return the domains (sets of strings with weights), each without the strings of those before it.

    The order stays; a domain that shares no string with those before it is returned as it is. A DomainError where one
    cannot be cut so, or is inconsistent (`check`).
    """
    made: list[Domain] = []
    for domain in domains:
        for earlier in made:
            if domain.language.both(earlier.language).witness() is not None:
                domain = domain.without(earlier.language)
        check(domain)
        made.append(domain)
    return tuple(made)


def _bare(word: str) -> str:
    """Return a word without accents and capitals: casefolded, decomposed (NFD), without combining marks."""
    return "".join(sign for sign in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(sign))


def _chance(word: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends on the word alone."""
    digest = hashlib.blake2b(word.encode("utf8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 256.0**7
