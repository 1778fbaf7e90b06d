"""Random models for the property tests: each is given twice, as plain numbers and as what the library takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from brute import Array, Brute, log_sum
from llrnn.knowledge.features import Features, compile_features
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, Exceptions, Prior, SparsePrior, Table
from llrnn.text.vocabulary import EOS, Vocabulary

MINUS_INFINITY = -math.inf

torch.set_num_threads(1)  # the tensors are tiny: threads only wait for each other, and for the other test processes


def draws(all_of_them: int) -> int:
    """How many cases a test draws: a third of what it asks for, but with `--hypothesis-profile=all` or `explore`."""
    few = settings.get_current_profile_name() == "same"
    return min(all_of_them, max(all_of_them // 3, 10)) if few else all_of_them


QUICK = settings(max_examples=draws(30))

Row = Mapping[str, float]
Own = dict[int, float]


def vocabulary_of(size: int) -> Vocabulary:
    """Words w0, w1, ... and the boundary of sentences."""
    return Vocabulary([*(f"w{i}" for i in range(size - 1)), EOS])


class Rows(Features):
    """Features written out word by word."""

    def __init__(self, vocabulary: Vocabulary, rows: Sequence[Row]) -> None:
        self._rows = dict(zip(vocabulary, rows, strict=True))

    def __call__(self, symbol: str) -> Row:
        return self._rows[symbol]


def matrix_of(rows: Sequence[Row]) -> FeatureMatrix:
    vocabulary = vocabulary_of(len(rows))
    return compile_features(Rows(vocabulary, rows), vocabulary)


@dataclass(frozen=True)
class SparseKnowledge:
    """log b in plain numbers: K tables over V, a shift for each position and table, exceptions."""

    tables: list[list[float]]  # (K, V)
    shift: list[list[float]]  # (N, K), or (1, K) for every position
    exceptions: list[Own]  # N mappings from word to log b

    def log_b(self) -> Array:
        """Written out, (N, V)."""
        n = len(self.exceptions)
        shifts = self.shift * n if len(self.shift) == 1 else self.shift
        columns = list(zip(*self.tables, strict=True))  # V times K
        rest = [[log_sum([s + t for s, t in zip(row, column, strict=True)]) for column in columns] for row in shifts]
        return np.array(
            [[own.get(x, b) for x, b in enumerate(row)] for row, own in zip(rest, self.exceptions, strict=True)]
        )

    def prior(self) -> SparsePrior:
        return SparsePrior(
            tuple(Table(torch.tensor(table, dtype=torch.float64)) for table in self.tables),
            torch.tensor(self.shift, dtype=torch.float64),
            Exceptions.listed(self.exceptions),
        )


@dataclass(frozen=True)
class ContextKnowledge:
    """One contextual feature in plain numbers: a value for the rest of each position, and for a few words."""

    rest: list[float]
    own: list[Own]

    def written_out(self, n_words: int) -> Array:
        """(N, V)"""
        pairs = zip(self.rest, self.own, strict=True)
        return np.array([[own.get(x, rest) for x in range(n_words)] for rest, own in pairs])

    def values(self) -> ContextValues:
        rows = [(n, x, own[x]) for n, own in enumerate(self.own) for x in sorted(own)]
        return ContextValues(
            torch.tensor(self.rest, dtype=torch.float64)[:, None],
            torch.tensor([n for n, _, _ in rows], dtype=torch.long),
            torch.tensor([x for _, x, _ in rows], dtype=torch.long),
            torch.tensor([value for _, _, value in rows], dtype=torch.float64)[:, None],
        )


@dataclass(frozen=True)
class Case:
    """A layer, N states h, and knowledge; `brute()` is the oracle of `distribution()`."""

    rows: list[Row]
    prior: Prior
    log_b: Array  # (N, V)
    context: list[ContextKnowledge]
    seed: int
    hidden: int

    @property
    def n(self) -> int:
        return len(self.log_b)

    @property
    def n_words(self) -> int:
        return len(self.rows)

    def layer(self, dtype: torch.dtype = torch.float64) -> LogLinear:
        layer = LogLinear(matrix_of(self.rows), self.hidden, len(self.context), zero=True).to(dtype)
        generator = torch.Generator().manual_seed(self.seed)
        for parameter in layer.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data.copy_(drawn)
        return layer

    def h(self, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed + 1)
        return torch.randn(self.n, self.hidden, generator=generator, dtype=torch.float64).to(dtype)

    def values(self) -> list[ContextValues]:
        return [part.values() for part in self.context]

    def distribution(self, dtype: torch.dtype = torch.float64, prior: Prior | None = None) -> Distribution:
        made = self.layer(dtype)(self.h(dtype), prior or self.prior, self.values())
        assert isinstance(made, Distribution)
        return made

    def brute(self) -> Brute:
        layer, h = self.layer(), self.h()
        a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
        values = np.zeros((self.n, self.n_words, len(self.context)))
        for k, part in enumerate(self.context):
            values[:, :, k] = part.written_out(self.n_words)
        return Brute(matrix_of(self.rows).names, self.rows, self.log_b, values, a.detach().numpy())

    def possible_words(self) -> list[int]:
        """One word with mass for each position, the same for the same case."""
        rng = np.random.default_rng(self.seed)
        return [int(rng.choice(np.flatnonzero(row > MINUS_INFINITY))) for row in self.log_b]


# What b may be: nothing, all but nothing, a share that subtraction would lose, and ordinary numbers.
masses = st.one_of(
    st.sampled_from([0.0, 1e-300, 1e-12, 1e-7, 1.0]),
    st.floats(0.01, 2.0, allow_nan=False),
)
log_masses = st.one_of(
    masses.map(lambda mass: math.log(mass) if mass else MINUS_INFINITY),
    st.just(-2000.0),  # no mass as a number, but a logarithm
)
shifts = st.one_of(st.just(MINUS_INFINITY), st.floats(-4.0, 2.0, allow_nan=False), st.just(-600.0))
feature_values = st.one_of(st.just(1.0), st.floats(-2.0, 2.0, allow_nan=False))


@st.composite
def feature_rows(draw: st.DrawFn, n_words: int, numbers: st.SearchStrategy[float] = feature_values) -> list[Row]:
    """A few distinct rows, one of them perhaps empty, dealt out to the words: classes have several members."""
    row = st.dictionaries(st.sampled_from("abcd"), numbers, max_size=3)
    kinds = draw(st.lists(row, min_size=1, max_size=4))
    kinds[0] = {"a": 1.0, **kinds[0], "z": 1.0}
    dealt = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=n_words, max_size=n_words))
    dealt[draw(st.integers(0, n_words - 1))] = 0  # something fires somewhere
    return [kinds[i] for i in dealt]


@st.composite
def own_words(draw: st.DrawFn, rows: Sequence[Row], what: st.SearchStrategy[float]) -> Own:
    """Exceptions at one position: any few words, a whole class, or a whole class but for one word."""
    kind = draw(st.sampled_from(["few", "class", "all but one"]))
    if kind == "few":
        words = draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows)))
    else:
        leader = draw(st.integers(0, len(rows) - 1))
        words = {x for x, row in enumerate(rows) if row == rows[leader]}
        words -= {leader} if kind == "all but one" else set()
    return {x: draw(what) for x in sorted(words)}


@st.composite
def sparse_knowledge(
    draw: st.DrawFn, rows: Sequence[Row], n: int, *, tables: int | None = None, exceptions: bool | None = None
) -> SparseKnowledge:
    """Tables weighted by position, with exceptions; every position leaves at least one word possible."""
    V = len(rows)
    K = tables or draw(st.integers(1, 3))
    written = [draw(st.lists(log_masses, min_size=V, max_size=V)) for _ in range(K)]
    n_shifts = 1 if exceptions is False else draw(st.sampled_from([1, n]))
    shift = [[draw(shifts) for _ in range(K)] for _ in range(n_shifts)]
    if exceptions is False:
        shift[0][0] = written[0][0] = 0.0
        return SparseKnowledge(written, shift, [{} for _ in range(n)])
    own = [draw(own_words(rows, log_masses)) for _ in range(n)]
    known = SparseKnowledge(written, shift, own)
    for row, exceptional in zip(known.log_b(), own, strict=True):
        if not (row > MINUS_INFINITY).any():
            exceptional[draw(st.integers(0, V - 1))] = -0.5
    return known


@st.composite
def context_knowledge(
    draw: st.DrawFn, rows: Sequence[Row], n: int, number: st.SearchStrategy[float] | None = None
) -> ContextKnowledge:
    number = st.floats(-2.0, 2.0, allow_nan=False) if number is None else number
    return ContextKnowledge([draw(number) for _ in range(n)], [draw(own_words(rows, number)) for _ in range(n)])


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    kinds: Sequence[str] = ("static", "sparse", "mixture", "dense"),
    context: bool = True,
    max_words: int = 9,
    numbers: st.SearchStrategy[float] | None = None,
) -> Case:
    """`numbers`: what values of features may be, static and contextual ones."""
    n = draw(st.integers(1, 4))
    rows = draw(feature_rows(draw(st.integers(2, max_words)), feature_values if numbers is None else numbers))
    kind = draw(st.sampled_from(kinds))
    known = draw(
        sparse_knowledge(
            rows,
            n,
            tables=1 if kind in ("static", "sparse") else None,
            exceptions=False if kind == "static" else None,
        )
    )
    log_b = known.log_b()
    prior: Prior = DensePrior(torch.from_numpy(log_b)) if kind == "dense" else known.prior()
    parts = [draw(context_knowledge(rows, n, numbers)) for _ in range(draw(st.integers(0, 2)) if context else 0)]
    return Case(rows, prior, log_b, parts, draw(st.integers(0, 10_000)), draw(st.integers(1, 3)))
