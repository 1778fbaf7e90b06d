"""The counted floor beside each figure of `bench inference`: what the way has to do, at the rates of this machine.

    floor = max(operations / rate of products, bytes / rate of memory) + bytes that are checked / rate of SHA-256

Operations and bytes are those of `counts`; rates are measured in the same run, on as many threads. A table of classes
stays in a cache, which is faster than memory, so that a figure may lie below a floor of bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from llrnn_lab.bench import counts
from llrnn_lab.bench.machine import Speeds, measured_speeds
from llrnn_lab.bench.rows import Count

_SENTENCE = 21  # positions: twenty words and the end
_PRODUCTS, _COPIED, _HASHED = 1024, 64_000_000, 16_000_000  # n of n × n; numbers; bytes
_OF_A_WORD = 16  # bytes: log b and the class, which the masses of the classes are summed of


class Rates(NamedTuple):
    """Of products and memory, and bytes a second of SHA-256 on one core."""

    speeds: Speeds
    sha256: float

    def named(self) -> dict[str, float]:
        return {"products": self.speeds.products, "memory": self.speeds.memory, "sha256": self.sha256}


def measured_rates(scale: float = 1.0) -> Rates:
    """The best of some turns; `scale` makes everything smaller, for tests."""
    data = bytes(int(_HASHED * scale))
    times = []
    for _ in range(5):
        begun = time.process_time()
        hashlib.sha256(data).digest()
        times.append(time.process_time() - begun)
    speeds = measured_speeds(max(int(_PRODUCTS * scale), 8), max(int(_COPIED * scale), 8))
    return Rates(speeds, len(data) / max(min(times), 1e-9))


def with_floors(result: Mapping[str, Any], rates: Rates) -> dict[str, Any]:
    """The result of `inference`, each figure with its floor; what is not counted has none."""
    V, many, G, H = (result[name] for name in ("V", "many", "G", "H"))
    step = counts.scoring(G, H, 1)
    scored = {
        n: _beside(part, {"llrnn": counts.scoring(G, H, int(n)), "dense": counts.scoring(V, H, int(n))}, rates)
        for n, part in result["scoring"].items()
    }
    drawn: dict[str, Count] = {
        "llrnn": step,
        "llrnn, drawing alone": counts.drawing(G),
        "softmax and multinomial": counts.scoring(many, H, 1),
        "multinomial alone": counts.drawing(many),
    }
    asked = {
        name: {**figures, "floor": _floor(step, figures["10^6"], rates)}
        for name, figures in result["vocabulary"].items()
    }
    return {
        **result,
        "rates": rates.named(),
        "scoring": scored,
        "sampling": _beside(result["sampling"], drawn, rates),
        "vocabulary": asked,
        "opening": _opened(result["opening"], many, G, H, rates),
    }


def _opened(part: Mapping[str, Any], V: int, G: int, H: int, rates: Rates) -> dict[str, Any]:
    """All of a dense file is read, and of ours what is checked, or what the sentence needs."""
    size = part["megabytes"]
    theirs = counts.opening(V, H, _SENTENCE, size["dense"])
    counted = {name: theirs for name in part if name.startswith("torch.load")}
    counted["llrnn"] = counts.opening(G, H, _SENTENCE, size["llrnn"])
    counted["llrnn, not verified"] = counts.opening(G, H, _SENTENCE, _OF_A_WORD * V / 1e6)
    return _beside(part, counted, rates, hashed={"llrnn": 1e6 * size["llrnn"]})


def _beside(
    part: Mapping[str, Any], counted: Mapping[str, Count], rates: Rates, hashed: Mapping[str, float] | None = None
) -> dict[str, Any]:
    found = dict(part)
    for name, count in counted.items():
        more = (hashed or {}).get(name, 0.0) / rates.sha256
        found[name] = {**part[name], "floor": _floor(count, part[name]["seconds"], rates, more)}
    return found


def _floor(count: Count, seconds: float, rates: Rates, more: float = 0.0) -> dict[str, float]:
    least = count.floor(rates.speeds).seconds + more
    return {"operations": count.operations, "bytes": count.bytes, "seconds": least, "times": seconds / least}
