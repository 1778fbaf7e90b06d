"""What the benchmarks of French training found, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llrnn.cli.show import out, table
from llrnn_lab.bench.french import LARGE_WAYS, WAYS


def french(result: Mapping[str, Any]) -> None:
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
