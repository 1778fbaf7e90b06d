"""Suites of the layer on a CPU: against dense softmaxes, by V, every word its own class, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from llrnn.layer.matrix import FeatureMatrix
from llrnn_lab.bench import counts
from llrnn_lab.bench.machine import Speeds, cores
from llrnn_lab.bench.neural import against_dense, by_vocabulary, french_like, memory, own_classes
from llrnn_lab.bench.rows import Compared, Count, Row
from llrnn_lab.bench.suite import Asked, Figures, Shape, Suite

_CPU = torch.device("cpu")
_THREADS = min(2, cores())
_PEERS = {
    "dense": "F.cross_entropy(F.linear(h, W, b))",
    "linear_cross_entropy": "F.linear_cross_entropy, torch's fused layer",
}
_WITHIN = 1.05
_OWN = 1.05
_MEMORY = 0.02


def _measured(shape: Shape, matrix: FeatureMatrix, rounds: int) -> dict[str, Any]:
    found = against_dense(matrix, shape.hidden, shape.positions, rounds, _CPU)
    return {**shape.named(), "G": matrix.n_classes, "m": matrix.n_features, **found}


def _step_counts(figures: Figures) -> tuple[Count, Count]:
    V, G, m, H, N = (figures[name] for name in "VGmHN")
    return counts.layer_step(G, m, H, N), counts.layer_step(V, V, H, N)


def _best_peer(figures: Figures) -> str:
    return min((name for name in _PEERS if name in figures), key=lambda name: float(figures[name]["seconds"]))


def _setting(figures: Figures, speeds: Speeds, names: str = "VGHN") -> dict[str, Any]:
    return {**{name: figures[name] for name in names}, "threads": speeds.threads}


# --- faster than dense ----------------------------------------------------------------------------------------------


def _by_classes(shape: Shape, rounds: int) -> dict[str, Any]:
    return _measured(shape, french_like(shape.words, shape.classes), rounds)


def layer_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Against the best of the peers; no bar is set for a CPU."""
    peer = _best_peer(figures)
    compared = Compared(
        f"layer, V = {figures['V']:,}",
        "one layer forward and backward, float32, against the best of the dense peers",
        _PEERS[peer],
        _setting(figures, speeds),
        _step_counts(figures),
        speeds,
    )
    return [compared.faster(figures["llrnn"]["seconds"], figures[peer]["seconds"])]


def own_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Nothing to gain by classes; the bar names the dense peer."""
    compared = Compared(
        "every word its own class",
        "one layer forward and backward where no two words share a class",
        _PEERS["dense"],
        _setting(figures, speeds),
        _step_counts(figures),
        speeds,
    )
    return [compared.share(figures["llrnn"]["seconds"], figures["dense"]["seconds"], bar=_OWN)]


# --- V does not matter ----------------------------------------------------------------------------------------------


def vocabulary_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Each V against the smallest, in time; the one that takes most memory against the one that takes least."""
    return [*_times_by_vocabulary(figures, speeds), *_memory_by_vocabulary(figures, speeds)]


def _times_by_vocabulary(figures: Figures, speeds: Speeds) -> Iterator[Row]:
    G, H, N = (figures[name] for name in "GHN")
    count = counts.layer_step(G, french_like(G, G).n_features, H, N)
    smallest, *others = figures["seconds"]
    for V in others:
        yield Compared(
            f"time at V = {int(V):,}",
            "one layer forward and backward, G fixed, by the number of words",
            f"itself at V = {int(smallest):,}",
            {"V": int(V), **_setting(figures, speeds, "GHN")},
            (count, count),
            speeds,
        ).share(figures["seconds"][V], figures["seconds"][smallest], bar=_WITHIN)


def _memory_by_vocabulary(figures: Figures, speeds: Speeds) -> Iterator[Row]:
    of = figures["bytes"]
    if of:
        most, least = (pick(of, key=lambda V: int(of[V])) for pick in (max, min))
        yield Compared(
            "memory by V",
            "the most bytes of the layer beyond inputs and gradients, G fixed, by the number of words",
            f"itself at V = {int(least):,}",
            {"V": int(most), **_setting(figures, speeds, "GHN")},
        ).share(of[most], of[least], unit="bytes", bar=_WITHIN)


# --- memory ---------------------------------------------------------------------------------------------------------


def _memories(asked: Asked) -> dict[str, Any]:
    sizes = asked.sizes
    many = sizes.layer._replace(positions=sizes.gpu.positions)  # as many as the bar is for
    return {
        f"{shape.words}, {shape.positions}": {
            **shape.named(),
            "has a bar": shape is many,
            "bytes": memory(french_like(shape.words, shape.classes), shape.hidden, shape.positions),
        }
        for shape in (sizes.layer, many, sizes.large)
    }


def memory_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """By the dense peer, and by the fused one. The composed weights do not grow with N, so that few positions cost
    almost as much as many: the bar is for many."""
    return [
        Compared(
            f"memory, V = {one['V']:,}, N = {one['N']:,}, {peer}",
            "the most bytes of the layer, forward and backward, beyond inputs and gradients",
            _PEERS[peer],
            _setting(one, speeds),
        ).share(
            one["bytes"]["llrnn"],
            one["bytes"][peer],
            unit="bytes",
            bar=_MEMORY if peer == "dense" and one["has a bar"] else None,
        )
        for one in figures.values()
        for peer in _PEERS
        if peer in one["bytes"]
    ]


SUITES = (
    Suite(
        "layer",
        "the layer, shaped like the paper's French",
        _THREADS,
        lambda asked: _by_classes(asked.sizes.layer, asked.turns(9)),
        layer_rows,
    ),
    Suite(
        "large-layer",
        "the layer of the GPU's bar, with fewer positions",
        _THREADS,
        lambda asked: _by_classes(asked.sizes.large, asked.turns(5)),
        layer_rows,
    ),
    Suite(
        "vocabulary",
        "V grows and G does not",
        _THREADS,
        lambda asked: by_vocabulary(
            asked.sizes.vocabularies, *asked.sizes.layer[1:], rounds=5 * asked.turns(9), device=_CPU
        ),
        vocabulary_rows,
    ),
    Suite(
        "own-classes",
        "every word its own class",
        _THREADS,
        lambda asked: _measured(asked.sizes.layer, own_classes(asked.sizes.layer.words), asked.turns(9)),
        own_rows,
    ),
    Suite("memory", "memory of the layer", _THREADS, _memories, memory_rows),
)
