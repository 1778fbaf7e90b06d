"""Suites of inference on one core: scoring, sampling, V, and opening a folder, against a dense softmax."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Any

from llrnn_lab.bench import counts
from llrnn_lab.bench.inference import by_vocabulary, opening, sampling, scoring
from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.rows import Compared, Row
from llrnn_lab.bench.suite import Asked, Figures, Suite

_SCORING, _SAMPLING, _OPENING = 25.0, 100.0, 10.0
_SENTENCE = 21  # positions: twenty words and the end


def _of(figures: Figures, speeds: Speeds, **more: Any) -> dict[str, Any]:
    return {**{name: figures[name] for name in "VGH"}, **more, "threads": speeds.threads}


# --- log p ----------------------------------------------------------------------------------------------------------


def _scoring(asked: Asked) -> dict[str, Any]:
    V, G, H, N = shape = asked.sizes.scoring
    parts = {str(n): scoring(V, G, H, n, asked.turns(7)) for n in (1, N)}
    return {**shape.named(), "positions": parts}


def scoring_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """log p of one word a position, by a model as it was loaded."""
    V, G, H = (figures[name] for name in "VGH")
    return [
        Compared(
            f"exact scoring, N = {n}",
            "log p of one word a position",
            "log_softmax of h Wᵀ + b, then gather",
            _of(figures, speeds, N=int(n)),
            (counts.scoring(G, H, int(n)), counts.scoring(V, H, int(n))),
            speeds,
        ).faster(part["llrnn"]["seconds"], part["dense"]["seconds"], ratio=part["dense"]["times ours"], bar=_SCORING)
        for n, part in figures["positions"].items()
    ]


# --- samples --------------------------------------------------------------------------------------------------------


def _sampling(asked: Asked) -> dict[str, Any]:
    V, G, H, _ = shape = asked.sizes.million
    return {**shape.named(), **sampling(V, G, H, asked.turns(7))}


def sampling_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """From h; and where both have finished their probabilities before."""
    V, G, H = (figures[name] for name in "VGH")
    from_h = Compared(
        "exact sampling, from h",
        "one word at one position, from the state of the network",
        "torch.multinomial of the softmax of h Wᵀ + b",
        _of(figures, speeds, N=1),
        (counts.scoring(G, H, 1), counts.scoring(V, H, 1)),
        speeds,
    )
    alone = Compared(
        "exact sampling, drawing alone",
        "one word at one position, of probabilities that are finished",
        "torch.multinomial",
        _of(figures, speeds, N=1),
        (counts.drawing(G), counts.drawing(V)),
        speeds,
    )
    seconds = {name: one["seconds"] for name, one in figures.items() if isinstance(one, dict)}
    theirs, multinomial = "softmax and multinomial", "multinomial alone"
    ratio = figures[theirs]["times ours"]
    return [
        from_h.faster(seconds["llrnn"], seconds[theirs], ratio=ratio, bar=_SAMPLING),
        alone.faster(seconds["llrnn, drawing alone"], seconds[multinomial], bar=_SAMPLING),
    ]


# --- V --------------------------------------------------------------------------------------------------------------


def _by_vocabulary(asked: Asked) -> dict[str, Any]:
    _, G, H, _ = asked.sizes.million
    return {"G": G, "H": H, "asked": by_vocabulary(G, H, asked.turns(7))}


def vocabulary_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """One position, a hundred times the words."""
    G, H = figures["G"], figures["H"]
    count = counts.scoring(G, H, 1)
    setting = {"V": 10**6, "G": G, "H": H, "N": 1, "threads": speeds.threads}
    return [
        Compared(
            f"{name} at V = 1,000,000", "one position, G fixed", "itself at V = 10,000", setting, (count, count), speeds
        ).share(one["10^6"], one["10^4"])
        for name, one in figures["asked"].items()
    ]


# --- opening --------------------------------------------------------------------------------------------------------


def _opening(asked: Asked) -> dict[str, Any]:
    V, G, H, _ = shape = asked.sizes.million
    return {**shape.named(), **opening(V, G, H, asked.turns(7)), "sha256": _rate_of_sha256()}


def _rate_of_sha256() -> float:
    """Bytes a second on one core, the best of five turns."""
    data, times = bytes(16_000_000), []
    for _ in range(5):
        begun = time.process_time()
        hashlib.sha256(data).digest()
        times.append(time.process_time() - begun)
    return len(data) / max(min(times), 1e-9)


def opening_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """A folder, checked against its digest, against torch's own file, read and mapped; from fresh processes."""
    return [
        _opening_row("torch.load", figures, speeds),
        _opening_row("torch.load, mmap", figures, speeds),
    ]


def _opening_row(peer: str, figures: Figures, speeds: Speeds) -> Row:
    V, G, H = (figures[name] for name in "VGH")
    size, ours, theirs = figures["megabytes"], figures["llrnn"], figures[peer]
    row = Compared(
        f"opening, against {peer}",
        "a model opened and one sentence scored, in a fresh process, files in the cache",
        f"{peer} of a dense model",
        _of(figures, speeds, megabytes={side: round(one) for side, one in size.items()}),
        (counts.opening(G, H, _SENTENCE, size["llrnn"]), counts.opening(V, H, _SENTENCE, size["dense"])),
        speeds,
    ).faster(ours["seconds"], theirs["seconds"], ratio=theirs["times ours"], bar=_OPENING)
    assert row.floor is not None
    checking = size["llrnn"] * 1e6 / figures["sha256"]
    return replace(row, floor=replace(row.floor, seconds=row.floor.seconds + checking))


SUITES = (
    Suite("scoring", "exact scoring", 1, _scoring, scoring_rows),
    Suite("sampling", "exact sampling", 1, _sampling, sampling_rows),
    Suite("one-position", "V grows, one position", 1, _by_vocabulary, vocabulary_rows),
    Suite("opening", "opening a model", 1, _opening, opening_rows),
)
