"""The seam of `llrnn bench`: a suite measures something, and says in rows what was found.

    measure(asked)             → a dictionary, as the benchmark itself gives it
    rows(figures, speeds)      → `Row`s made of it: ratios, bars, floors
    missing(asked)             → why it cannot run here, or None
    absent(figures)            → rows that the dictionary could not give, and why

A new benchmark is one more suite in `llrnn_lab.bench.suites`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.rows import Row

Figures = Mapping[str, Any]


class Shape(NamedTuple):
    """V, G, H and N of a layer."""

    words: int
    classes: int
    hidden: int
    positions: int

    def named(self) -> dict[str, int]:
        return {"V": self.words, "G": self.classes, "H": self.hidden, "N": self.positions}


class GpuSizes(NamedTuple):
    """Of the measurement on a GPU: V, G, H and N of the layer; V with G fixed; V with every word its own class; the
    products that show the rate of the card."""

    words: int = 256_000
    classes: int = 8_192
    hidden: int = 512
    positions: int = 8_192
    vocabularies: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    own: tuple[int, ...] = (32_768, 65_536)
    probe: int = 8_192


class LayerSizes(NamedTuple):
    """Of output layers side by side: every V; H and N on a GPU, and on a CPU."""

    vocabularies: tuple[int, ...] = (32_000, 256_000, 1_000_000)
    hidden: int = 1_024
    positions: int = 8_192
    cpu_hidden: int = 256
    cpu_positions: int = 256


class Sizes(NamedTuple):
    """Of everything that is measured."""

    layer: Shape = Shape(42_592, 3_244, 256, 1_024)  # the paper's French
    large: Shape = Shape(256_000, 8_192, 512, 256)  # the bar's layer, with the positions that a CPU has time for
    vocabularies: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)
    training_words: int = 42_592
    training_steps: int = 20
    training_hidden: int = 256
    scoring: Shape = Shape(200_000, 4_000, 256, 256)
    million: Shape = Shape(10**6, 4_000, 256, 1)  # of sampling and opening
    parallel_hidden: int = 512
    parallel_words: int = 2_048
    objective_words: int = 10_000
    objective_sentences: int = 3_000
    objective_epochs: int = 8
    ngram_words: int = 10**6
    ngram_vocabulary: int = 20_000
    constraint_vocabulary: int = 128_000
    constraint_documents: int = 20
    beam_conditions: int = 20
    gpu: GpuSizes = GpuSizes()
    layers: LayerSizes = LayerSizes()
    product: int = 2_048  # the matrices whose product shows the rate of the processor
    copied: int = 2**26  # numbers whose copy shows the rate of its memory


# The shapes of the whole run, smaller: a look at the table in a few minutes, not figures to quote.
QUICK = Sizes()._replace(
    layer=Shape(10_000, 1_000, 64, 256),
    large=Shape(40_000, 2_000, 128, 64),
    vocabularies=(10**4, 10**5, 10**6),
    training_words=10_000,
    training_steps=4,
    training_hidden=64,
    scoring=Shape(50_000, 2_000, 64, 64),
    million=Shape(100_000, 2_000, 64, 1),
    parallel_hidden=64,
    parallel_words=512,
    objective_words=0,
    objective_sentences=300,
    objective_epochs=1,
    ngram_words=100_000,
    ngram_vocabulary=5_000,
    constraint_vocabulary=8_000,
    constraint_documents=3,
    beam_conditions=4,
    gpu=GpuSizes(32_000, 2_048, 256, 2_048, (10_000, 1_000_000), (8_192,), 2_048),
    layers=LayerSizes((8_000,), 64, 128, 64, 64),
    product=512,
    copied=2**22,
)


class Asked(NamedTuple):
    """What one run is asked for."""

    sizes: Sizes = Sizes()
    rounds: int | None = None  # each suite has its own number
    data: Path = Path("../shared/data")
    prepared: Path = Path("runs/prepared")  # what `llrnn experiment prepare` makes of the data
    quick: bool = False

    def turns(self, usual: int) -> int:
        return self.rounds or (min(usual, 3) if self.quick else usual)


def _nothing(_: Asked) -> str | None:
    return None


def _none(_: Figures) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Suite:
    """One benchmark of the run."""

    name: str
    about: str
    threads: int
    measure: Callable[[Asked], Figures]
    rows: Callable[[Figures, Speeds], list[Row]]
    missing: Callable[[Asked], str | None] = _nothing
    absent: Callable[[Figures], dict[str, str]] = _none
    spreads: bool = False  # it starts threads of its own beside a GPU, and so has all cores
