"""All suites of `llrnn bench`, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from llrnn.ground.errors import ConfigError
from llrnn_lab.bench import gpu_rows, inference_rows, knowledge_rows, layer_rows, layers, training_rows
from llrnn_lab.bench.suite import Suite

SUITES: tuple[Suite, ...] = (
    *layer_rows.SUITES,
    *inference_rows.SUITES,
    *training_rows.SUITES,
    *knowledge_rows.SUITES,
    *gpu_rows.SUITES,
    *layers.SUITES,
)


def chosen(names: Sequence[str] | None, suites: Sequence[Suite] = SUITES) -> list[Suite]:
    """Those that are named, or all."""
    known = {suite.name: suite for suite in suites}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: no such benchmark; there are {', '.join(known)}")
    return [suite for suite in suites if not names or suite.name in names]
