"""What `llrnn bench gpu` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from llrnn.cli import show

_LEGEND = (
    "ms: of several steps back to back; alone: one that begins when the GPU has nothing to do; faster: than the best "
    "peer; floor: times the least that is counted; MB: beyond inputs and gradients\n"
)


def bench_gpu(result: Mapping[str, Any]) -> None:
    show.out.print(
        f"{result['device']}, torch {result['torch']}; medians of {result['rounds']} interleaved runs", markup=False
    )
    for part in (result["layer"], *result["own"].values()):
        _contenders(part)
    show.out.print(_LEGEND, markup=False)
    _by_vocabulary(result["vocabulary"])


def _contenders(part: Mapping[str, Any]) -> None:
    """Ours, and of the peers the fastest, the smallest and the plain one: --json has them all."""
    sizes = ", ".join(f"{name} = {part[name]:,}" for name in "VGHN")
    show.out.print(f"\n[bold]{sizes}[/]; best peer: {escape(part['best_peer'])}")
    rows = show.table("", "ms", "alone", "faster", "floor", "MB")
    peers = dict.fromkeys(("dense", part["best_peer"], part["smallest_peer"]))
    for name, one in (*part["ours"].items(), *((name, part["peers"][name]) for name in peers)):
        ratio = part["peer_by_ours"].get(name)
        rows.add_row(
            escape(name),
            f"{one['ms']:.3f}",
            f"{one['ms_alone']:.3f}",
            "" if ratio is None else f"{ratio['best']:.2f}",
            f"{one['times_floor']:.1f}",
            f"{one['beyond_mb']:,.0f}",
        )
    show.out.print(rows)
    for name, why in part["failed"].items():
        show.out.print(f"{name} could not run here: {why}", markup=False)


def _by_vocabulary(found: Mapping[str, Any]) -> None:
    rows = show.table("G fixed, largest / smallest over V", "time", "alone", "memory")
    for name in (name for name in found if name != "G"):
        ratio = found[name]["largest_by_smallest"]
        rows.add_row(name, *(f"{ratio[key]:.3f}" for key in ("ms", "ms_alone", "beyond_mb")))
    show.out.print(rows)
