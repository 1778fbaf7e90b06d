"""What benchmarks found, printed for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from llrnn.cli.show import out, table

_LEGEND = (
    "ms: of several steps back to back; alone: one that begins when the GPU has nothing to do; faster: than the best "
    "peer; floor: times the least that is counted; MB: beyond inputs and gradients\n"
)


def bench_gpu(result: Mapping[str, Any]) -> None:
    out.print(
        f"{result['device']}, torch {result['torch']}; medians of {result['rounds']} interleaved runs", markup=False
    )
    for part in (result["layer"], *result["own"].values()):
        _contenders(part)
    out.print(_LEGEND, markup=False)
    _by_vocabulary(result["vocabulary"])


def _contenders(part: Mapping[str, Any]) -> None:
    """Ours, and of the peers the fastest, the smallest and the plain one: --json has them all."""
    sizes = ", ".join(f"{name} = {part[name]:,}" for name in "VGHN")
    out.print(f"\n[bold]{sizes}[/]; best peer: {escape(part['best_peer'])}")
    rows = table("", "ms", "alone", "faster", "floor", "MB")
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
    out.print(rows)
    for name, why in part["failed"].items():
        out.print(f"{name} could not run here: {why}", markup=False)


def _by_vocabulary(found: Mapping[str, Any]) -> None:
    rows = table("G fixed, largest / smallest over V", "time", "alone", "memory")
    for name in (name for name in found if name != "G"):
        ratio = found[name]["largest_by_smallest"]
        rows.add_row(name, *(f"{ratio[key]:.3f}" for key in ("ms", "ms_alone", "beyond_mb")))
    out.print(rows)


def french(result: Mapping[str, Any]) -> None:
    from llrnn_lab.bench.french import LARGE_WAYS, WAYS

    out.print(f"whole training steps on French, {_machine(result)}; medians of interleaved steps", markup=False)
    for way in (way for way in (*WAYS, *LARGE_WAYS) if way in result):
        part = result[way]
        rows = table(f"{way}, {part['words in a step']:,} words a step", "outputs", "ms", "words/s", "times ours")
        for name, found in part["contenders"].items():
            times = [
                f"{1000 * found['seconds']:.3g}",
                f"{found['words per second']:,.0f}",
                f"{found['times ours']:.2f}",
            ]
            rows.add_row(name, f"{found['outputs']:,}", *times)
        out.print(rows)
        out.print(f"{way}: {part['ratio']:.2f} times the words per second of the best softmax", markup=False)


def adaptive(result: Mapping[str, Any]) -> None:
    sizes = f"V = {result['V']:,}, H = {result['H']}, {result['layers']} layers, {result['optimizer']}"
    out.print(f"{result['seconds']:.0f} s of training each, {sizes}, {_machine(result)}", markup=False)
    rows = table("", "s an epoch", "fastest peer / own", "epochs", "log-perplexity")
    for name, found in result["contenders"].items():
        faster = f"{found['an epoch of the fastest peer']:.2f}"
        rows.add_row(
            name, f"{found['seconds an epoch']:.1f}", faster, str(found["epochs"]), f"{found['log-perplexity']:.3f}"
        )
    out.print(rows)


def profile(result: Mapping[str, Any]) -> None:
    out.print(f"a training step on French, {result['threads']} threads, mean of {result['steps']} steps", markup=False)
    rows = table("part", "ms", "share")
    for name, found in result["parts"].items():
        rows.add_row(name, f"{1000 * found['seconds']:.1f}", f"{found['share']:.1%}")
    out.print(rows)
    rows = table("rows × words", "calls of Python functions in a step")
    for size, calls in result["calls"].items():
        rows.add_row(size, f"{calls:,}")
    out.print(rows)


def _machine(result: Mapping[str, Any]) -> str:
    return result["device"] if result["device"] != "cpu" else f"{result['threads']} threads"
