"""Medians of interleaved turns: the seconds of each contender, and how many times the first one's they are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Of the seconds, and of the rounds' own ratios, which a slow minute leaves as they are."""
    ours = times[next(iter(times))]
    return {
        name: {
            "seconds": statistics.median(own),
            "times ours": statistics.median(theirs / mine for theirs, mine in zip(own, ours, strict=True)),
        }
        for name, own in times.items()
    }
