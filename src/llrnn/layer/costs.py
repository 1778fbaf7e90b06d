"""What each way to the scores of all classes costs, and which one is taken.

N positions, V words in G classes, m features, E entries of Φ (G × m), H the size of h. Both ways give the same numbers;
training makes every product three times (forward, and backward to either factor) and every sum with Φ twice:

    composed    h (Φ W)ᵀ + Φ c     N·G·H multiplications       E·H additions, once for all positions, or none if cached
                where Φ = S Φ̃      N·(P·H + Σ n_b r_b)         blocks of words with own features (`matrix`)
    direct      Φ (W h + c)        N·m·H multiplications       N·E additions, in blocks of 128 positions

What is kept for backward, N·G numbers, is a question of its own. Where the gradient of log Z is known before (the mean
loss of a batch), it is made block by block with log Z itself and nothing is kept: on a CPU that is as fast, within
a tenth, for fresh memory is slow. Where it is not known (`Distribution.log_prob`), exponentials are kept, or made again
in backward, at a third more work, where they would take more than `MOST_KEPT` bytes.

The constants are those of one core of the machine that this was written on (Xeon, AMX and AVX-512, 2 MiB of L2):

    python scripts/measure_costs.py          measures them, and each way against what the model predicts of it
    python scripts/measure_costs.py cuda FOLDER FILE     both ways on a GPU, at the sizes of our configurations

A Neoverse N1 takes two to four times as long for multiplications, additions, entries and terms: in the four cases of
the script the way chosen there is the faster one, or within a twentieth of it. Threads divide all but the time of a
block, at the end of whose calls they wait for each other. Those of a GPU are fitted to docs/results/costs-gpu.json (an
H200): calls are what costs there, so that it composes except for many positions with many times more classes than
features. A test holds the choice to that file: at most 1.2 times the better way.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

ScoreWay = Literal["composed", "direct"]

MOST_KEPT = 1 << 30  # bytes of exponentials, in training
FEW_POSITIONS = 16  # fewer are not worth blocks: their bookkeeping takes longer
MANY_WORDS = 4  # times as many terms as exceptions: else lists of these take more memory than terms
NO_CLASSES = 1.25  # V / G below this: the features hardly share anything between words


class UnitCosts(NamedTuple):
    """The seconds that one operation of each kind takes on a device, and how many positions it computes at a time.

    Seconds, floats: `multiplication`: one multiplication and addition of a dense product; `byte`: one byte of weights
    read; `addition`: one term of a sum with the sparse feature matrix; `entry`: one entry of that matrix read; `term`:
    one exponential, with its sums; `block`: overhead of each block of positions; `turn`: one matrix transposed.
    `composed_rows`, `direct_rows`: the positions in a block, ints, for scores computed as h (Φ W)ᵀ and as Φ (W h),
    where Φ is the feature matrix, W the weights and h the hidden vectors.
    """

    multiplication: float  # of a dense product
    byte: float  # of the weights that it reads
    addition: float  # of a sum with Φ
    entry: float  # of Φ, besides its additions
    term: float  # of Z: exponential and sums, forward and backward
    block: float  # of positions: a dozen calls
    turn: float = 0.0  # of a matrix, rows for columns, on the direct way: calls that a GPU waits for
    # positions in a block: on a CPU many for products, as many as fit the cache for sums with Φ; on a GPU all at once
    composed_rows: int = sys.maxsize
    direct_rows: int = sys.maxsize


CPU = UnitCosts(
    multiplication=1.7e-11, byte=6.0e-11, addition=1.0e-10, entry=5.0e-9, term=2.0e-9, block=1.0e-4,
    composed_rows=512, direct_rows=128,
)  # fmt: skip
_WAITING = 5.0e-4  # a block, with several threads
CUDA = UnitCosts(  # an H200: python scripts/measure_costs.py fit docs/results/costs-gpu.json
    multiplication=5.3e-14, byte=0.0, addition=5.4e-13, entry=3.2e-11, term=8.3e-14, block=1.1e-4, turn=9.4e-5
)


class LowRankSize(NamedTuple):
    """The size of a feature matrix that is a product Φ = S Φ̃, where Φ̃ has fewer rows than Φ.

    All ints. `rows`: the number of rows of Φ̃; `entries`: non-zero entries of Φ̃; `expand`: the number of entries,
    zeros too, of the dense blocks of S.
    """

    rows: int
    entries: int
    expand: int


class Size(NamedTuple):
    """The numbers on which the cost of scoring all classes of words (sets with equal features) depends.

    All ints but the last. `positions` N: how many positions are scored; `classes`: the number G of classes; `features`:
    the number m of features; `entries`: non-zero entries of the feature matrix Φ (0 for the identity); `hidden`: the
    size of the hidden vectors; `low_rank_blocks`: a `LowRankSize` where Φ is a product of two factors, else None.
    """

    positions: int
    classes: int
    features: int
    entries: int
    hidden: int
    low_rank_blocks: LowRankSize | None = None


@dataclass(frozen=True)
class Work:
    """The numbers of operations (ints) that one way to the scores of all classes of words takes, and the way's name.

    `name`: "composed", which multiplies the feature matrix Φ into the weights first, h (Φ W)ᵀ, or "direct", which does
    so last, Φ (W h); `multiplications`, `additions`, `entries` (of Φ, read), `weight_bytes` (read), `terms` (N
    positions × G classes), `blocks` of positions, `turns` (matrices transposed); `block`: positions in a block. Made by
    `composed` or `direct`; `seconds()` turns the counts into time.
    """

    name: ScoreWay
    multiplications: int
    additions: int  # of the sums with Φ
    entries: int  # of Φ that are read, once for a block
    weight_bytes: int  # that products read, once for a block
    terms: int  # N · G
    blocks: int  # of positions that are computed together
    turns: int  # of a matrix, rows for columns
    block: int  # positions that are computed together

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of each kind of operation, in the order of the fields of `UnitCosts`.

        Multiplications, bytes read, additions, entries of the feature matrix, exponentials, blocks, transposed
        matrices.
        """
        work = self.multiplications, self.weight_bytes, self.additions, self.entries, self.terms
        return *work, self.blocks, self.turns

    def seconds(self, costs: UnitCosts = CPU) -> float:
        """Return the estimated time in seconds, Σ count · seconds over the kinds of operation.

        `costs`: the seconds that one operation of each kind takes, by default on one CPU core.
        """
        return sum(count * constant for count, constant in zip(self.counts, costs, strict=False))


def composed(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """Return the `Work` of the composed way to the scores, h (Φ W)ᵀ + Φ c: features multiplied into the weights first.

    Φ is the feature matrix, W and c the feature weights, h the hidden vectors. `size`: the sizes of the problem;
    `training`: count the backward pass; `cached`: Φ W and Φ c need not be computed; `costs`: the unit costs of the
    device, which also give the number of positions in a block.
    """
    N, G, _, E, H, low_rank_blocks = size
    P, E, expand = low_rank_blocks or (G, E, 0)
    passes, sums = 3 if training else 1, 0 if cached else 2 if training else 1
    rows = min(max(N, 1), costs.composed_rows)
    blocks = -(-N // rows)
    weights = 4 * ((P * H + expand) * passes * blocks + E * H * sums)  # the rows of W that are summed are read as well
    return Work("composed", passes * N * (P * H + expand), sums * E * H, sums * E, weights, N * G, blocks, 0, rows)


def direct(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """Return the `Work` of the direct way to the scores, Φ (W h + c): feature weights first, then sums with Φ.

    Φ is the feature matrix, W and c the feature weights, h the hidden vectors. `size`: the sizes of the problem;
    `training`: count the backward pass; `cached` is ignored, since nothing can be cached; `costs`: the unit costs of
    the device, which also give the number of positions in a block.
    """
    N, G, m, E, H, _ = size
    passes, sums, rows = 3 if training else 1, 2 if training else 1, min(max(N, 1), costs.direct_rows)
    blocks = -(-N // rows)
    weights = 4 * m * H * passes * blocks
    entries, turns = sums * E * blocks, passes * blocks
    return Work("direct", passes * N * m * H, sums * E * N, entries, weights, N * G, blocks, turns, rows)


class WayChoice(NamedTuple):
    """The two ways to compute the scores of all classes of words: composed, h (Φ W)ᵀ, and direct, Φ (W h), as `Work`
    each.

    Φ is the feature matrix, W its weights, h the hidden vectors. `taken`: the way with fewer estimated seconds; `left`:
    the other.
    """

    taken: Work
    left: Work


def choice(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> WayChoice:
    """Return both ways to the scores of all classes of words as a `WayChoice`, the faster one as `taken`.

    The ways are composed, h (Φ W)ᵀ, and direct, Φ (W h), for feature matrix Φ and weights W; faster is which takes
    fewer estimated seconds, composed if both take as long. `training`: count the backward pass; `cached`: the product Φ
    W is there already; `costs`: the seconds of operations on the device.
    """
    usual, other = (way(size, training=training, cached=cached, costs=costs) for way in (composed, direct))
    return WayChoice(other, usual) if other.seconds(costs) < usual.seconds(costs) else WayChoice(usual, other)


@lru_cache(maxsize=1024)  # asked at every step
def cheapest(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """Return the `Work` of the way to the scores of all classes of words that takes fewer estimated seconds.

    The ways are composed, h (Φ W)ᵀ, and direct, Φ (W h), for feature matrix Φ and weights W. `training`: count the
    backward pass; `cached`: the product Φ W is there already; `costs`: the seconds of operations on the device.
    """
    return choice(size, training=training, cached=cached, costs=costs).taken


@lru_cache(maxsize=16)
def unit_costs(device_type: str, threads: int = 1) -> UnitCosts:
    """Return the seconds that each operation takes: on a CPU for "cpu", on a CUDA GPU for any other `device_type`.

    `threads`: the number of CPU threads; times are divided by it, except that a block of positions has one fixed time
    for a single thread and a longer one for several.
    """
    if device_type != "cpu":
        return CUDA
    shared = {name: getattr(CPU, name) / threads for name in ("multiplication", "byte", "addition", "entry", "term")}
    return CPU if threads == 1 else CPU._replace(**shared, block=_WAITING)


@dataclass(frozen=True)
class Forecast:
    """An estimate, before training, of what a log-linear layer costs on one CPU core.

    `symbols`: the number V of words; `classes`: the number G of sets of words with equal features; `positions`: how
    many a training batch has; `one`, `batch`: a `WayChoice` each (the two ways to the scores, the faster one as
    `taken`), for log Z at one position, and for log Z and its gradients in a training batch; `dense`: multiplications
    of a softmax over V in such a batch, 3 · positions · V · hidden size; `kept`: bytes of scores kept for backward, 0
    if none are. Made by `forecast(size, symbols, follows=...)`.
    """

    symbols: int
    classes: int
    positions: int  # of a training batch
    one: WayChoice  # log Z at one position
    batch: WayChoice  # log Z and its gradients in a training batch
    dense: int  # multiplications of a softmax over V in such a batch
    kept: int  # bytes of scores that are kept for backward; 0 if none are

    @property
    def saved(self) -> float:
        """The multiplications of a dense softmax over V words divided by those of this layer, in one training batch.

        This layer's are those of the faster of its two ways, `batch.taken`.
        """
        return self.dense / self.batch.taken.multiplications

    @property
    def has_classes(self) -> bool:
        """Whether enough words share their features for classes to save work: V words are at least 1.25 G classes."""
        return self.symbols >= NO_CLASSES * self.classes


def forecast(size: Size, symbols: int, *, follows: bool) -> Forecast:
    """Return the estimated costs of one position, and of a training batch, on one CPU core as a `Forecast`.

    `size`: the sizes of the layer, and in `positions` the number of positions of a training batch; `symbols`: the
    number of words in the vocabulary; `follows`: whether the prior or contextual features depend on the preceding text,
    so that 4 bytes for each position and class of words are kept for backward.
    """
    one, batch = choice(size._replace(positions=1), cached=True), choice(size, training=True)
    kept = 4 * size.positions * size.classes if follows else 0
    dense = 3 * size.positions * symbols * size.hidden
    return Forecast(symbols, size.classes, size.positions, one, batch, dense, kept)
