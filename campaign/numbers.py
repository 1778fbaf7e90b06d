"""The layer against brute force: weights up to 1e6, every form of prior, float32 and float64.

The oracle sums over V word by word in float64, from the weights as the layer holds them; it shares no code with llrnn.
How far the layer may be off follows from rounding alone: scores as large as S cannot be told closer than some units in
the last place of S, in the layer's own type. What no rounding excuses: entropy below 0 or above log V, probabilities
that do not sum to one, a word drawn that cannot be drawn, an order that is none, NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, Exceptions, Prior, SparsePrior, Table

CASES = 3_000
KINDS = ("static", "masked", "exceptions", "two tables", "dense", "contextual", "all together")
SIZES = (0.0, 1.0, 30.0, 700.0, 1e4, 1e6)  # of |a|
DRAWS = 100
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Weighed:
    """The case."""

    kind: str
    number: int
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


class Drawn:
    """A layer with its knowledge, drawn at random; and the same in float64, word by word."""

    def __init__(self, rng: Random, kind: str) -> None:
        self.dtype = rng.choice([torch.float32, torch.float64])
        self.n, self.m, self.k = rng.randint(1, 4), rng.randint(1, 8), rng.choice([1, 2]) if _has_context(kind) else 0
        self.size = rng.choice(SIZES)
        rows = _distinct_rows(rng, self.m, rng.choice([2, 5, 30]))
        self.V = max(len(rows), rng.choice([3, 40, 40, 2_000]))
        self.random = np.random.default_rng(rng.getrandbits(60))  # for what there is much of
        more = self.random.integers(len(rows), size=self.V - len(rows))
        self.class_of = np.concatenate([np.arange(len(rows)), more])
        self.rows = rows
        self.a = self._numbers((self.n, self.m + self.k), self.size)
        self._draw_context(rng)
        self._draw_prior(rng, kind)

    def _numbers(self, shape: tuple[int, int], size: float) -> Tensor:
        drawn = self.random.choice([1.0, 0.3, 0.001], shape) * self.random.uniform(-size, size, shape)
        return torch.from_numpy(drawn).to(self.dtype)

    def _draw_context(self, rng: Random) -> None:
        rest = torch.tensor([[rng.choice([0.0, 0.5, -1.0]) for _ in range(self.k)] for _ in range(self.n)])
        self.rest = rest.reshape(self.n, self.k)
        own = (
            [(n, x) for n in range(self.n) for x in sorted(rng.sample(range(self.V), min(self.V, 3)))] if self.k else []
        )
        self.own = own
        self.own_values = torch.tensor([[rng.choice([1.0, 2.0, -0.5]) for _ in range(self.k)] for _ in own])
        self.own_values = self.own_values.reshape(len(own), self.k)

    def _draw_prior(self, rng: Random, kind: str) -> None:
        self.prior: Prior
        spread = rng.choice([1.0, 20.0, 1000.0])
        tables = [-self.random.uniform(0, spread, self.V) for _ in range(2 if kind == "two tables" else 1)]
        if kind in ("masked", "all together"):
            tables = [np.where(self.random.random(self.V) < 0.4, -np.inf, one) for one in tables]
            for one in tables:
                one[rng.randrange(self.V)] = -1.0
        if kind == "dense":
            given = torch.from_numpy(-self.random.uniform(0, spread, (self.n, self.V))).to(self.dtype)
            self.log_b, self.prior = given.double().numpy(), DensePrior(given)
            return
        shift = np.array([[-rng.uniform(0, 3) for _ in tables] for _ in range(self.n)])
        if kind in ("static", "masked", "contextual"):
            shift = np.zeros((1, 1))
        written = np.logaddexp.reduce(shift[:, :, None] + np.stack(tables)[None], axis=1)
        self.log_b = np.broadcast_to(written, (self.n, self.V)).copy()
        own = self._exceptions(rng) if kind in ("exceptions", "all together") else []
        for n, row in enumerate(own):
            for x, log in row.items():
                self.log_b[n, x] = log
        listed = Exceptions.listed(own) if own else Exceptions.none()
        self.prior = SparsePrior(tuple(Table(torch.from_numpy(one)) for one in tables), torch.from_numpy(shift), listed)
        if kind in ("static", "masked", "contextual"):
            self.prior = self.prior.tables[0].everywhere()

    def _exceptions(self, rng: Random) -> list[Mapping[int, float]]:
        """The last class loses all its words at the first position: nothing must be left of it."""
        last = np.flatnonzero(self.class_of == self.class_of[-1]).tolist()[:50]
        drawn = [{x: -rng.uniform(0, 30) for x in rng.sample(range(self.V), min(self.V, 5))} for _ in range(self.n)]
        drawn[0] |= {x: -rng.uniform(0, 30) for x in last}
        return [*drawn]

    def distribution(self) -> Distribution:
        offsets = np.cumsum([0, *(len(row) for row in self.rows)])
        columns = np.array([column for row in self.rows for column in row], dtype=np.int64)
        values = np.array([value for row in self.rows for value in row.values()])
        names = tuple(f"f{i}" for i in range(self.m))
        matrix = FeatureMatrix(names, names, self.class_of.astype(np.int64), offsets, columns, values)
        layer = LogLinear(matrix, self.n, self.k, zero=True).to(self.dtype)
        with torch.no_grad():  # h is the identity: position n has column n of W for its a, without rounding
            layer.weight.copy_(self.a[:, : self.m].t())
            layer.context_weight.copy_(self.a[:, self.m :].t())
        position, word = torch.tensor(self.own, dtype=torch.long).reshape(-1, 2).unbind(1)
        values_ = [ContextValues(self.rest, position, word, self.own_values)] if self.k else []
        found: Distribution = layer(torch.eye(self.n, dtype=self.dtype), self.prior, values_)
        return found

    # --- the oracle

    @cached_property
    def phi(self) -> Array:
        """(N, V, m + k)"""
        static = np.array([[row.get(i, 0.0) for i in range(self.m)] for row in self.rows])[self.class_of]
        context = np.broadcast_to(self.rest.double().numpy()[:, None], (self.n, self.V, self.k)).copy()
        for (n, x), value in zip(self.own, self.own_values.double().numpy(), strict=True):
            context[n, x] = value
        return np.concatenate([np.broadcast_to(static, (self.n, self.V, self.m)), context], 2)

    @cached_property
    def scores(self) -> Array:
        found: Array = self.log_b + np.einsum("nvm,nm->nv", self.phi, self.a.double().numpy())
        return found

    @cached_property
    def log_z(self) -> Array:
        most = self.scores.max(1)
        found: Array = most + np.log(np.exp(self.scores - most[:, None]).sum(1))
        return found

    @cached_property
    def log_p(self) -> Array:
        return self.scores - self.log_z[:, None]

    @cached_property
    def entropy(self) -> Array:
        found: Array = -np.where(self.log_p > -np.inf, np.exp(self.log_p) * np.maximum(self.log_p, -1e300), 0).sum(1)
        return found

    @cached_property
    def largest(self) -> float:
        """S: the largest sum of what is added up for a word that is possible."""
        weights = np.einsum("nvm,nm->nv", np.abs(self.phi), np.abs(self.a.double().numpy()))
        log_b = np.where(self.log_b > -np.inf, np.abs(self.log_b), 0)
        return float((weights + log_b).max())

    @property
    def unit(self) -> float:
        return float(torch.finfo(self.dtype).eps)


def _has_context(kind: str) -> bool:
    return kind in ("contextual", "all together")


def _distinct_rows(rng: Random, m: int, most: int) -> list[dict[int, float]]:
    """Rows of Φ, all different; one of them is empty."""
    found: dict[tuple[tuple[int, float], ...], None] = {(): None}
    for _ in range(most):
        columns = sorted(rng.sample(range(m), rng.randint(1, m)))
        found[tuple((column, rng.choice([1.0, 1.0, 2.0, -1.0])) for column in columns)] = None
    return [dict(row) for row in found]


def weigh_one(case: Weighed, scratch: Path) -> list[Outcome]:
    rng = rng_of(case.seed, f"numbers {case}")
    drawn = Drawn(rng, case.kind)
    with torch.no_grad():
        wrong = next(_wrong(drawn, rng), None)
    group = f"{case.kind}, {str(drawn.dtype).removeprefix('torch.')}"
    if wrong is None:
        return [Outcome(group, "as brute force")]
    what, detail = wrong
    detail += f" (V {drawn.V}, N {drawn.n}, |a| up to {drawn.size:g}, sums up to {drawn.largest:g})"
    return [Outcome(group, what, Finding("different", str(case), f"{group}: {what}", detail))]


def _wrong(drawn: Drawn, rng: Random) -> Iterator[tuple[str, str]]:
    """What is not as the oracle says, if anything."""
    p, u = drawn.distribution(), drawn.unit
    slack = 16 * u * (1.0 + drawn.largest)  # of a score
    yield from _far("log Z", p.log_z, drawn.log_z, slack)
    yield from _far("log p of all words", p.log_probs(), drawn.log_p, 2 * slack)
    words = np.array([rng.choice(np.flatnonzero(row > -np.inf).tolist()) for row in drawn.log_p])
    at = np.arange(drawn.n), words
    yield from _far("log p", drawn.distribution().log_prob(torch.from_numpy(words)), drawn.log_p[at], 2 * slack)
    yield from _entropy(drawn, slack)
    total = p.log_probs().double().exp().sum(1)
    yield from _far("total", total, np.ones(drawn.n), 8 * u * (drawn.V**0.5 + drawn.largest))
    yield from _top(drawn, rng, slack)
    yield from _samples(drawn, rng, slack)


def _entropy(drawn: Drawn, slack: float) -> Iterator[tuple[str, str]]:
    found, most = drawn.distribution().entropy().double(), math.log(drawn.V)
    small = 32 * drawn.unit * (1.0 + most)
    outside = (found < -small) | (found > most + small) | found.isnan()
    if bool(outside.any()):
        yield "entropy outside 0 … log V", f"H = {found.tolist()}, log V = {most:.4f}, true {drawn.entropy.tolist()}"
    elif slack < 0.1:
        yield from _far("entropy", found, drawn.entropy, small + 4 * slack * (1.0 + most))


def _top(drawn: Drawn, rng: Random, slack: float) -> Iterator[tuple[str, str]]:
    k = rng.randint(1, min(drawn.V, 12))
    log_p, words = drawn.distribution().top(k)
    rows = words.tolist()
    if any(len({*row}) < k for row in rows) or bool((log_p.diff(dim=1) > 0).any()):
        yield "top is no falling list of different words", f"{rows} {log_p.tolist()}"
    best = -np.sort(-drawn.log_p, axis=1)[:, :k]
    yield from _far("top", log_p, best, 2 * slack)
    yield from _far("words of top", log_p, np.take_along_axis(drawn.log_p, words.numpy(), 1), 2 * slack)


def _samples(drawn: Drawn, rng: Random, slack: float) -> Iterator[tuple[str, str]]:
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    words = drawn.distribution().sample((DRAWS,), generator=generator).numpy()
    log_p = np.take_along_axis(drawn.log_p, words.T, 1)
    if bool((log_p < -60 - 4 * slack).any()):
        yield "a word was drawn that cannot be", f"log p = {log_p.min()}"
    best = drawn.log_p.argmax(1)
    share, wanted = (words == best).mean(0), np.exp(drawn.log_p[np.arange(drawn.n), best])
    far = 6 * np.sqrt(wanted * (1 - wanted) / DRAWS) + 6 / DRAWS + math.expm1(min(4 * slack, 1.0))
    if bool((abs(share - wanted) > far).any()):
        yield "shares of draws", f"{share.tolist()} of {wanted.tolist()}"


def _far(what: str, found: Tensor, wanted: Array, tolerance: float) -> Iterator[tuple[str, str]]:
    """Both infinite is near; NaN is far from everything."""
    here = found.double().numpy()
    with np.errstate(invalid="ignore"):
        near = (here == wanted) | (abs(here - wanted) <= tolerance)
    if not near.all():
        place = tuple(np.argwhere(~near)[0])
        yield (
            what,
            f"{what}{list(map(int, place))} = {here[place]:.9g}, brute force {wanted[place]:.9g} ± {tolerance:.2g}",
        )


def numbers(setting: Setting) -> Iterator[Outcome | Figure]:
    """All kinds in turn."""
    each = setting.count(CASES // len(KINDS), least=2)
    cases = [Weighed(kind, number, setting.seed) for number in range(each) for kind in KINDS]
    yield from setting.pool.run(weigh_one, (case for case in cases if setting.wanted(str(case))))
    yield Figure("largest |a|", max(SIZES))
