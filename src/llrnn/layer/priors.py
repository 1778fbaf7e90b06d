"""What knowledge says of N positions: the one data structure between knowledge and the log-linear layer.

    log b(n, x) = log Σ_k exp(shift[n, k] + table_k[x])     for the rest: a few static tables, weighted by position
    log b(n, x) = its own value                             for the exceptions E(n), few words at each position

A static background is one table and no exception; a dense one (another neural model) gives all N × V values. Contextual
features answer in the same form: one value for the rest, own values for the exceptions (or by slopes: `layer.linear`).
`join` joins both over one common set of exceptions.
Positions are numbered 0..N-1; a prior with `n == 1` holds for every position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import ClassVar

import torch
from torch import Tensor

from llrnn.ground.arrays import LARGEST_FLOAT32
from llrnn.ground.errors import BackgroundError

MINUS_INFINITY = float("-inf")
_FEW = 200_000  # numbers that are worth caching
_FEW_EXCEPTIONS = 5_000  # that are sorted faster than they are merged (measured on CPU)
_FAR = 128.0  # nats: float32 numbers of this size have five digits behind the point


class Table:
    """A vector of prior values log b(x) over a vocabulary of V words, (V,) float64, where the context does not matter.

    Sums of b over words with equal features are cached for each table object: make one table and use it again.

        table = Table(torch.log_softmax(counts.log(), 0))
        SparsePrior.static(table)
    """

    def __init__(self, log_b: Tensor, *, checked: bool = True) -> None:
        """Hold `log_b` (V,), the prior value of every word by its id, not necessarily normalised; −∞ forbids a word.

        Raises BackgroundError for NaN, +∞ or values that float32 cannot hold. `checked=False` skips this check, for
        values known to be 0 or −∞.
        """
        self.log_b = log_b.detach().to(torch.float64)  # (V,)
        self._made: dict[object, Table] = {}
        self._cast: dict[torch.dtype, Tensor] = {}
        self._everywhere: SparsePrior | None = None
        if checked:
            self._check()

    def _check(self) -> None:
        if len(self.log_b) and not float(self.largest) < float("inf"):  # NaN is not below anything
            raise BackgroundError("log b must be a number below infinity for every symbol, found NaN or infinity")
        least = float(self.log_b.nan_to_num(neginf=0.0).amin()) if len(self.log_b) else 0.0
        for log_b in (float(self.largest), least):
            _require_float32(log_b, "of a symbol")

    def __len__(self) -> int:
        return len(self.log_b)

    def __reduce__(self) -> tuple[type[Table], tuple[Tensor]]:
        """Return what pickling and copying need: the class and the prior values log b (V,), without caches."""
        return Table, (self.log_b,)

    def to(self, device: torch.device) -> Table:
        if self.log_b.device == device:
            return self
        if device not in self._made:
            self._made[device] = Table(self.log_b.to(device))
        return self._made[device]

    @cached_property
    def largest(self) -> Tensor:
        """The largest prior value log b of a word, a scalar tensor; −∞ if every word has b = 0."""
        return self.log_b.amax() if len(self.log_b) else self.log_b.new_tensor(MINUS_INFINITY)

    def as_dtype(self, dtype: torch.dtype) -> Tensor:
        """Return the prior values log b of all words as `dtype`, (V,); cached."""
        if dtype == self.log_b.dtype:
            return self.log_b
        if dtype not in self._cast:
            self._cast[dtype] = self.log_b.to(dtype)
        return self._cast[dtype]

    def powered(self, exponent: float) -> Table:
        """Return the table of the prior b(x)^exponent, as for a temperature of 1/exponent; cached for each exponent.

        A word with b = 0 keeps it, whatever the exponent.
        """
        if exponent not in self._made:
            self._made[exponent] = Table(_times(self.log_b, exponent))
        return self._made[exponent]

    def everywhere(self) -> SparsePrior:
        """Return the `SparsePrior` that is this table at every position of a text; always the same object."""
        if self._everywhere is None:
            device = self.log_b.device
            shift = torch.zeros(1, 1, dtype=torch.float64, device=device)
            self._everywhere = SparsePrior((self,), shift, Exceptions.none(device))
        return self._everywhere

    def times(self, other: Table) -> Table:
        """Return the table of the product b(x) · b'(x) of two priors over the same words, b' = `other`.

        The result is cached for each `other`.
        """
        key = id(other)
        if key not in self._made:
            product = Table(self.log_b + other.log_b)
            product._made["kept alive"] = other  # so that its id is not used again
            self._made[key] = product
        return self._made[key]


@dataclass(frozen=True, eq=False)
class Exceptions:
    """E (position, word) pairs with a prior value log b of their own, for words that differ from the tables of a prior.

    Three tensors (E,): word id `word[e]` at position `position[e]` has `log_b[e]`; sorted by position, then by word.

        Exceptions.listed([{3: -0.5}, {}, {1: -2.0, 7: -1.0}])          # three positions
    """

    position: Tensor  # (E,)
    word: Tensor  # (E,)
    log_b: Tensor  # (E,) float64

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def none(cls, device: torch.device | None = None) -> Exceptions:
        """Return an empty list of exceptions, its tensors on `device` (None: the CPU): no word differs anywhere."""
        empty = torch.zeros(0, dtype=torch.long, device=device)
        return cls(empty, empty, torch.zeros(0, dtype=torch.float64, device=device))

    @classmethod
    def listed(cls, per_position: Sequence[Mapping[int, float]]) -> Exceptions:
        """Return the exceptions from a mapping {word id: log b} for each position, of words with another prior there.

        A mapping is {} where no word differs. Raises BackgroundError for a log b that is NaN, +∞ or beyond float32; −∞
        is allowed.
        """
        rows = [(n, word, row[word]) for n, row in enumerate(per_position) for word in sorted(row)]
        if not rows:
            return cls.none()
        position, word, log_b = zip(*rows, strict=True)
        for n, x, log in rows:
            if not log < float("inf"):
                raise BackgroundError(f"log b at position {n} of word {x} must be a number below infinity, found {log}")
            _require_float32(log, f"at position {n} of word {x}")
        return cls(torch.tensor(position), torch.tensor(word), torch.tensor(log_b, dtype=torch.float64))


@dataclass(frozen=True, eq=False)
class SparsePrior:
    """A prior at N positions: b(x) = Σ_k exp(shift[n, k]) · b_k(x) over K tables b_k, but for a few listed words.

    `tables`: the K tables over V words; `shift`: the log-weights of the tables, (N, K), or (1, K) for every position;
    `exceptions`: (position, word) pairs whose log b is given by itself. No N × V numbers are held.

        SparsePrior.listed(table, [{5: -1.0}, {}])         # at position 0, word 5 has log b = -1; all else is the table
    """

    tables: tuple[Table, ...]
    shift: Tensor  # (N, K) float64, or (1, K) for every position
    exceptions: Exceptions

    @classmethod
    def static(cls, table: Table) -> SparsePrior:
        """Return the prior that is `table` at every position; always the same object for one table."""
        return table.everywhere()

    @classmethod
    def listed(cls, table: Table, per_position: Sequence[Mapping[int, float]]) -> SparsePrior:
        """Return a prior that is `table` at each of N positions, but for the words in `per_position`.

        `per_position`: for each position a mapping {word id: log b} of the words that differ there. Raises
        BackgroundError for a word id outside the table, or a log b that is NaN or +∞.
        """
        _check_words(per_position, len(table))
        shift = torch.zeros(len(per_position), 1, dtype=torch.float64)
        return cls((table,), shift, Exceptions.listed(per_position))

    def __reduce__(self) -> tuple[object, ...]:
        """Return what pickling and copying need, without caches.

        A prior that is `table.everywhere()` becomes that one shared object of its table again.
        """
        alone = self is self.tables[0].everywhere()
        return (SparsePrior.static, self.tables) if alone else (SparsePrior, (self.tables, self.shift, self.exceptions))

    @property
    def n(self) -> int:
        return len(self.shift)

    @property
    def is_static(self) -> bool:
        return self.n == 1 and len(self.exceptions) == 0

    @cached_property
    def only_table(self) -> Table | None:
        """The single `Table` that the prior is (up to one factor) at every position, or None if there is no such table.

        It is None where there are several tables, or exceptions, where the prior depends on the position, or where its
        largest log b is beyond ±128, so that it has to be scaled first (`centred`).
        """
        return self.tables[0] if self.is_static and len(self.tables) == 1 and self._centred[0] is self else None

    @cached_property
    def base_table(self) -> Table | None:
        """The single `Table` that gives b of all words but the listed exceptions, or None.

        It is None where there are several tables, or a shift (log-weight of the table) other than 0 at some position.
        """
        return self.tables[0] if len(self.tables) == 1 and not bool(self.shift.any()) else None

    @property
    def n_symbols(self) -> int:
        return len(self.tables[0])

    @cached_property
    def active(self) -> Tensor | None:
        """For each position the index k of the only table with weight above 0 (shift above −∞), integers (N,), or (1,).

        (1,) where the prior is the same at all positions. None if at some position several tables have weight, or none
        has; with a single table it is 0 everywhere.
        """
        if len(self.tables) == 1:
            return torch.zeros(self.n, dtype=torch.long, device=self.shift.device)
        with_mass = self.shift > MINUS_INFINITY
        return self.shift.argmax(1) if bool((with_mass.sum(1) == 1).all()) else None

    @cached_property
    def regions(self) -> Tensor | None:
        """For each word the index k of the only table that gives it b > 0, integers (V,); 0 for a word that has none.

        It is None if two tables give b > 0 to the same word.
        """
        with_mass = torch.stack([table.log_b for table in self.tables]) > MINUS_INFINITY  # (K, V)
        return with_mass.long().argmax(0) if bool((with_mass.sum(0) <= 1).all()) else None

    def rest(self, position: Tensor, word: Tensor) -> Tensor:
        """Return log b of E (position, word) pairs by the tables alone, (E,), (E,) -> (E,) float64.

        Words that `exceptions` lists with another log b at that position are given the value of the tables all the
        same.
        """
        if self.base_table is not None:
            return self.base_table.log_b.index_select(0, word)
        row = position if self.n > 1 else torch.zeros_like(position)
        if len(self.tables) == 1:
            return self.shift[row, 0] + self.tables[0].log_b[word]
        tables = torch.stack([table.log_b for table in self.tables])  # (K, V)
        if self.active is not None:
            which = self.active[row]
            return self.shift[row, which] + tables[which, word]
        return torch.logsumexp(self.shift[row] + tables[:, word].t(), -1)

    def at(self, position: Tensor, word: Tensor) -> Tensor:
        """Return the prior log b of E (position, word) pairs, integers (E,), (E,) -> (E,) float64; −∞ where b is 0."""
        if len(self.exceptions) == 0:
            return self.rest(position, word)
        own, found = _look_up(self.exceptions.position, self.exceptions.word, position, word, self.n_symbols)
        return torch.where(found, self.exceptions.log_b[own], self.rest(position, word))

    def dense(self, n: int, dtype: torch.dtype = torch.float64) -> DensePrior:
        """Return log b of all V words at n positions, written out as a `DensePrior` (n, V) of `dtype`.

        n is the prior's number of positions N, or any number where N = 1: then its row is repeated. The last result is
        cached if it is small.
        """
        if (n, dtype) not in self._written:
            made = self._dense(n, dtype)
            if n * self.n_symbols > _FEW:
                return made
            self._written.clear()
            self._written[n, dtype] = made
        return self._written[n, dtype]

    @cached_property
    def _written(self) -> dict[tuple[int, torch.dtype], DensePrior]:
        return {}

    def _dense(self, n: int, dtype: torch.dtype) -> DensePrior:
        if len(self.tables) == 1:
            log_b = self.tables[0].as_dtype(dtype) + self.shift.to(dtype)
            return self._with_exceptions(log_b if len(log_b) == n else log_b.repeat(n, 1), dtype)
        tables, shift = torch.stack([table.log_b for table in self.tables]).to(dtype), self.shift.to(dtype)  # (K, V)
        if self.active is not None:
            log_b = tables[self.active] + shift.gather(1, self.active[:, None])
        else:
            log_b = torch.logsumexp(shift.unsqueeze(-1) + tables, 1)
        return self._with_exceptions(log_b.expand(n, -1).contiguous(), dtype)

    def _with_exceptions(self, log_b: Tensor, dtype: torch.dtype) -> DensePrior:
        if len(self.exceptions):
            log_b[self.exceptions.position, self.exceptions.word] = self.exceptions.log_b.to(dtype)
        return DensePrior(log_b)

    def centred(self, dtype: torch.dtype) -> tuple[Prior, Tensor]:
        """Return the prior divided by a factor for each position, and the logs of the factors, float64 (N,), or (1,).

        The factors are 1 (log 0), and the prior is this one, unless the largest log b of the tables at some position is
        beyond ±128, where float32 would lose digits, as for a prefix of a grammar with a weight of e^−600; then each is
        the largest b of its position. `dtype` is not used.
        """
        return self._centred

    @cached_property  # a static background is one object, which is looked at once: a recorded step must not ask a GPU
    def _centred(self) -> tuple[SparsePrior, Tensor]:
        largest = torch.stack([self.shift[:, k] + table.largest for k, table in enumerate(self.tables)]).amax(0)
        scale = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
        if bool((scale.abs() <= _FAR).all()):
            return self, torch.zeros_like(scale[:1])
        own, old = scale if self.n > 1 else scale.expand(1), self.exceptions
        log_b = old.log_b - own[old.position if self.n > 1 else torch.zeros_like(old.position)]
        moved = Exceptions(old.position, old.word, log_b)
        return SparsePrior(self.tables, self.shift - scale[:, None], moved), scale

    def row(self, n: int) -> SparsePrior:
        """Return the prior at position n alone, a prior of one position; itself if it is the same at every position."""
        if self.is_static:
            return self
        own, old = _own(self.exceptions.position, n), self.exceptions
        shift = self.shift if self.n == 1 else self.shift[n : n + 1]
        alone = Exceptions(torch.zeros_like(old.position[own]), old.word[own], old.log_b[own])
        return SparsePrior(self.tables, shift, alone)

    def powered(self, exponent: float) -> Prior:
        """Return the prior b(x)^exponent at all positions, not normalised; b = 0 stays 0.

        It is a `DensePrior` where several tables give one word weight at one position and N > 1, else a `SparsePrior`.
        """
        blends = self.active is None and self.regions is None
        if blends and self.n > 1:
            return self.dense(self.n).powered(exponent)
        if blends:  # weighted alike at every position: they are one table
            tables = SparsePrior(self.tables, self.shift, Exceptions.none(self.shift.device)).dense(1)
            one = (Table(tables.log_b[0]),)
            return SparsePrior(one, torch.zeros_like(self.shift[:, :1]), self.exceptions).powered(exponent)
        exceptions = Exceptions(self.exceptions.position, self.exceptions.word, _times(self.exceptions.log_b, exponent))
        powered = tuple(table.powered(exponent) for table in self.tables)
        return SparsePrior(powered, _times(self.shift, exponent), exceptions)

    def to(self, device: torch.device) -> SparsePrior:
        if self.shift.device == device:
            return self
        if self is self.tables[0].everywhere():
            return self.tables[0].to(device).everywhere()  # nothing is copied to a GPU at every step
        old = self.exceptions
        moved = Exceptions(old.position.to(device), old.word.to(device), old.log_b.to(device))
        return SparsePrior(tuple(table.to(device) for table in self.tables), self.shift.to(device), moved)


class FullPrior(ABC):
    """Abstract prior that has a value log b for every one of N × V (position, word) pairs.

    Of its subclasses `DensePrior` holds them as a tensor, and `LazyPrior` computes them. `shape`: (N, V); `like`: some
    tensor with their dtype and device; `sums_to_one`: whether Σ_x b(x) = 1 at every position.
    """

    only_table: ClassVar[None] = None
    is_static: ClassVar[bool] = False
    tables: ClassVar[tuple[Table, ...]] = ()  # it has none

    def __init__(self, shape: Sequence[int], like: Tensor, *, sums_to_one: bool) -> None:
        (self.n, self.n_symbols), self.like, self.sums_to_one = shape, like, sums_to_one

    @property
    @abstractmethod
    def log_b(self) -> Tensor:
        """All values of the prior log b, (N, V), or (1, V) where they hold for every position."""

    def at(self, position: Tensor, word: Tensor) -> Tensor:
        """Return the prior log b of E (position, word) pairs, integers (E,), (E,) -> (E,) float64; −∞ where b is 0."""
        return self.log_b[position if self.n > 1 else torch.zeros_like(position), word].to(torch.float64)

    def dense(self, n: int, dtype: torch.dtype | None = None) -> DensePrior:
        """Return log b of all V words at n positions as a `DensePrior` (n, V) of `dtype`, None for their own.

        n is the prior's number of positions N, or any number where N = 1: then its row is repeated.
        """
        return DensePrior(self.log_b.expand(n, -1).to(dtype or self.log_b.dtype), self.sums_to_one)

    def centred(self, dtype: torch.dtype) -> tuple[Prior, Tensor]:
        """Return the prior divided by a factor for each position, and the logs of the factors, float64 (N,), or (1,).

        The factors are 1 (log 0) unless the values are in a finer precision than `dtype`; then the factor of each
        position is its largest b, and the returned prior has values of `dtype`, which keeps their digits.
        """
        if torch.finfo(dtype).eps <= torch.finfo(self.like.dtype).eps:
            return self, self.like.new_zeros(1, dtype=torch.float64)
        largest = self.log_b.amax(-1)
        scale = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
        return DensePrior((self.log_b - scale[:, None]).to(dtype)), scale.double()

    def row(self, n: int) -> FullPrior:
        """Return the prior at position n alone, a prior of one position."""
        return self if self.n == 1 else DensePrior(self.log_b[n : n + 1], self.sums_to_one)

    def powered(self, exponent: float) -> Prior:
        """Return the prior b(x)^exponent at all positions, not normalised; b = 0 stays 0."""
        return DensePrior(_times(self.log_b, exponent))

    def to(self, device: torch.device) -> FullPrior:
        """Return this prior with its values on `device`; itself if they are there."""
        return self if self.like.device == device else DensePrior(self.log_b.to(device), self.sums_to_one)


class DensePrior(FullPrior):
    """A prior given as a tensor log b (N, V), or (1, V) for every position; for small vocabularies or neural models.

    `sums_to_one`: whether exp(log_b) sums to one in every row, which saves a sum.

        DensePrior(torch.log_softmax(scores, -1), sums_to_one=True)
    """

    def __init__(self, log_b: Tensor, sums_to_one: bool = False) -> None:
        super().__init__(log_b.shape, log_b, sums_to_one=sums_to_one)

    @property
    def log_b(self) -> Tensor:
        return self.like


class LazyPrior(FullPrior):
    """A prior that is another model's distribution over V words at N positions, computed only for the words asked for.

    `shape`: (N, V); `some(position, word)`: a function that returns log p of E words at positions in rising order,
    (E,), without a sum over V; `whole()`: one that returns log p of all words, (N, V); `like`: a tensor of the dtype
    and device. Gradients are those of what `some` and `whole` return.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        some: Callable[[Tensor, Tensor], Tensor],
        whole: Callable[[], Tensor],
        like: Tensor,
    ) -> None:
        super().__init__(shape, like, sums_to_one=True)
        self._some, self._whole, self._made = some, whole, dict[bool, Tensor]()

    @property
    def log_b(self) -> Tensor:
        """log p of all V words at all N positions, (N, V), as the constructor's `whole()` returns it.

        Computed once with and once without gradients, and cached.
        """
        asked = torch.is_grad_enabled()
        if asked not in self._made:
            self._made[asked] = self._whole()
        return self._made[asked]

    def at(self, position: Tensor, word: Tensor) -> Tensor:
        if torch.is_grad_enabled() in self._made or self.n == 1 or bool((position[1:] < position[:-1]).any()):
            return super().at(position, word)
        return self._some(position, word).double()


Prior = SparsePrior | FullPrior


@dataclass(frozen=True, eq=False)
class ContextValues:
    """Values of k contextual features at N positions: features of a word that depend on the text before.

    At position n they have the values `rest[n]`, (N, k), on every word but those listed: `word[e]` at `position[e]` has
    `value[e]`, (E,), (E,), (E, k), sorted by position, then word. `everywhere` (D,): the word ids, if the same D words
    are listed at every position, else None; `filled`: whether the list ends with entries at position N, which does not
    exist, as padding.

        one = torch.tensor([[1.0]])                                            # 1 on word 7 at position 0, else 0
        ContextValues(torch.zeros(2, 1), torch.tensor([0]), torch.tensor([7]), one)
    """

    rest: Tensor  # (N, k)
    position: Tensor  # (E,)
    word: Tensor  # (E,)
    value: Tensor  # (E, k)
    everywhere: Tensor | None = None  # (D,) the words, if they are the same ones at every position: E = N · D
    # up to a frequent length: at the end, with exceptions at a position N that is not there, on which values are 0
    filled: bool = field(default=False, kw_only=True)

    @classmethod
    def none(cls, n: int, width: int) -> ContextValues:
        """Return values of `width` contextual features that are 0 on every word at n positions, with no word listed."""
        empty = torch.zeros(0, dtype=torch.long)
        return cls(torch.zeros(n, width), empty, empty, torch.zeros(0, width))

    @property
    def width(self) -> int:
        return self.rest.shape[1]

    @property
    def n(self) -> int:
        return len(self.rest)

    def to(self, device: torch.device, dtype: torch.dtype) -> ContextValues:
        """Return these feature values with all tensors on `device` and the values as `dtype`; itself if they are so."""
        if self.rest.device == device and self.rest.dtype == self.value.dtype == dtype:
            return self
        return replace(
            self,
            rest=self.rest.to(device, dtype),
            position=self.position.to(device),
            word=self.word.to(device),
            value=self.value.to(device, dtype),
            everywhere=None if self.everywhere is None else self.everywhere.to(device),
        )

    def row(self, n: int) -> ContextValues:
        """Return the feature values at position n alone, as `ContextValues` of one position."""
        own = _own(self.position, n)
        position = torch.zeros_like(self.position[own])
        rest = self.rest if len(self.rest) == 1 else self.rest[n : n + 1]
        return ContextValues(rest, position, self.word[own], self.value[own], self.everywhere)

    def at(self, position: Tensor, word: Tensor, n_symbols: int) -> Tensor:
        """Return the k feature values of E (position, word) pairs, two integer tensors (E,) -> (E, k).

        A pair that is not listed has the values of `rest` at its position. `n_symbols`: the size V of the vocabulary.
        """
        if len(self.position) == 0:
            return self.rest[position]
        own, found = _look_up(self.position, self.word, position, word, n_symbols)
        return torch.where(found.unsqueeze(-1), self.value[own], self.rest[position])


@dataclass(frozen=True, eq=False)
class LinearValues:
    """Values of k contextual features that are linear in the static features of a word.

    At position n, feature i of word x is Σ_j slope[n, i, j] Φ[x, columns[j]], for any number of words: no list of words
    is made. `slope` (N, k, J); `columns`: the J columns of the static feature matrix Φ that matter.

        LinearValues(torch.ones(4, 1, 2), columns=(0, 3))          # at 4 positions, one feature: column 0 plus column 3
    """

    slope: Tensor  # (N, k, J)
    columns: tuple[int, ...]  # of Φ: J of them
    context_independent: bool = False  # whether their weights are c alone, the same whatever h is

    @property
    def width(self) -> int:
        return self.slope.shape[1]

    @property
    def n(self) -> int:
        return len(self.slope)

    def to(self, device: torch.device, dtype: torch.dtype) -> LinearValues:
        """Return these feature values with their slopes on `device`, as `dtype`; itself if they are so."""
        if self.slope.device == device and self.slope.dtype == dtype:
            return self
        return replace(self, slope=self.slope.to(device, dtype))

    def row(self, n: int) -> LinearValues:
        """Return the feature values at position n alone, as `LinearValues` of one position."""
        return self if self.n == 1 else replace(self, slope=self.slope[n : n + 1])

    def of(self, static: Tensor) -> Tensor:
        """Return these k features of one word at each of N positions, (N, k), from its m static ones, `static` (N, m).

        Since they are linear, expected static features give the expected values.
        """
        slope = self.slope.expand(len(static), -1, -1)
        return torch.bmm(slope, static[:, list(self.columns)].to(slope.dtype).unsqueeze(2)).squeeze(2)


AnyValues = ContextValues | LinearValues


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A prior and the values of all k contextual features at N positions, with one common list of E exceptions.

    An exception is a (position, word) pair whose log b or feature values differ from the general ones: `log_b[e]` and
    `value[e]` are those of `word[e]` at `position[e]`, and `log_b_before[e]` what the prior's tables alone would give,
    each (E,), `value` (E, k), sorted by position, then word; `rest` (N, k) are the feature values on all other words.
    Made by `join(prior, values, n)`.
    """

    prior: Prior
    position: Tensor  # (E,)
    word: Tensor  # (E,)
    log_b: Tensor  # (E,) float64
    value: Tensor  # (E, k)
    rest: Tensor  # (N, k)
    log_b_before: Tensor  # (E,) float64: what log b would be if the words were not exceptional


def join(prior: Prior, values: Sequence[ContextValues], n: int) -> Knowledge:
    """Return a prior and contextual feature values as one `Knowledge`, with a single sorted list of exceptions.

    Exceptions are (position, word) pairs with a log b or feature values of their own; for a pair that the prior or a
    `ContextValues` does not list, that source's general value at the position is taken. `n`: the number of positions.
    """
    V, device = prior.n_symbols, (prior.shift if isinstance(prior, SparsePrior) else prior.like).device
    own = prior.exceptions if isinstance(prior, SparsePrior) else Exceptions.none(device)
    sources: list[Exceptions | ContextValues] = [own, *values]
    keys = [source.position * V + source.word for source in sources]
    key = _union(keys)
    longest = max(sources, key=lambda source: len(source.position))
    if len(key) == len(longest.position):
        position, word = longest.position, longest.word
    else:
        position = torch.div(key, V, rounding_mode="floor")
        word = key - position * V
    rest = torch.cat([part.rest for part in values], 1) if values else torch.zeros(n, 0, device=device)
    on_rest = [part.rest.index_select(0, position) for part in values]
    value = [_filled(one, part.value, key, mine) for one, part, mine in zip(on_rest, values, keys[1:], strict=True)]
    joined = torch.cat(value, 1) if value else torch.zeros(len(position), 0, device=device)
    usual = prior.rest(position, word) if isinstance(prior, SparsePrior) else prior.at(position, word)
    return Knowledge(prior, position, word, _filled(usual, own.log_b, key, keys[0]), joined, rest, usual)


def _union(keys: Sequence[Tensor]) -> Tensor:
    """Return the sorted union of several sorted integer tensors, without repetition."""
    listed = [key for key in keys if len(key)]
    if len(listed) > 1 and sum(map(len, listed)) < _FEW_EXCEPTIONS:
        found: Tensor = torch.unique(torch.cat(listed))
        return found
    return reduce(merged, sorted(listed or keys[:1], key=len, reverse=True))


def _filled(usual: Tensor, own: Tensor, key: Tensor, mine: Tensor) -> Tensor:
    """Return the values at the sorted keys `key`: `own` at the keys `mine`, which are among them, `usual` elsewhere.

    `usual` (E, …): a value for each of the E keys; `own` (M, …): one for each of the M keys in `mine`.
    """
    if len(mine) == 0:
        return usual
    if len(mine) == len(key):
        return own
    return usual.index_copy(0, torch.searchsorted(key, mine), own)


def merged(left: Tensor, right: Tensor) -> Tensor:
    """Return the sorted union of two sorted integer tensors, each without repetition, as one without repetition.

    Cheap where `right` is short or brings nothing new.
    """
    if len(right) == 0 or (len(left) == len(right) and torch.equal(left, right)):
        return left
    found = torch.searchsorted(left, right).clamp(max=len(left) - 1)
    new = right[left[found] != right]
    if len(new) == 0:
        return left
    at = torch.searchsorted(left, new) + torch.arange(len(new), device=new.device)
    whole = left.new_empty(len(left) + len(new))
    whole[torch.arange(len(left), device=left.device) + torch.searchsorted(new, left)] = left
    whole[at] = new
    return whole


def _own(position: Tensor, n: int) -> slice:
    """Return the slice of the entries equal to n in a tensor of positions in rising order; empty if there are none."""
    first, last = torch.searchsorted(position, torch.tensor([n, n + 1], device=position.device)).tolist()
    return slice(first, last)


def _look_up(
    listed_position: Tensor, listed_word: Tensor, position: Tensor, word: Tensor, n_symbols: int
) -> tuple[Tensor, Tensor]:
    """Return for each of E (position, word) pairs its index in a sorted list, (E,), and whether it is in it, (E,) bool.

    The list is `listed_position`, `listed_word`, sorted by position, then word; `n_symbols`: the size of the
    vocabulary. The index means nothing where the pair is not in the list.
    """
    listed = listed_position * n_symbols + listed_word
    asked = position * n_symbols + word
    if len(listed) == 0:
        return torch.zeros_like(asked), torch.zeros_like(asked, dtype=torch.bool)
    found = torch.searchsorted(listed, asked).clamp(max=len(listed) - 1)
    return found, listed[found] == asked


def _check_words(per_position: Sequence[Mapping[int, float]], n_symbols: int) -> None:
    """Raise BackgroundError if a key of some mapping, a word id, is outside 0 … n_symbols − 1.

    `per_position`: a mapping {word id: log b} for each position.
    """
    for n, row in enumerate(per_position):
        for word in row:
            if not 0 <= word < n_symbols:
                raise BackgroundError(
                    f"an exception at position {n} names the word {word}, but words are numbered 0 to {n_symbols - 1}"
                )


def _require_float32(log_b: float, place: str) -> None:
    """Raise BackgroundError if a prior value log b is beyond the range of float32; −∞ is allowed.

    `place`: where it stands, as words for the message. For instance "at position 0 of word 5". NaN and +∞ raise too.
    """
    if log_b != MINUS_INFINITY and not abs(log_b) <= LARGEST_FLOAT32:
        raise BackgroundError(
            f"log b {place} must be within ±{LARGEST_FLOAT32:.1e}, which float32 can hold, or minus infinity, "
            f"found {log_b}"
        )


def _times(log_b: Tensor, exponent: float) -> Tensor:
    """Return exponent · log b of prior values, where −∞ stays −∞ even for exponent 0."""
    return torch.where(log_b == MINUS_INFINITY, log_b, log_b * exponent)
