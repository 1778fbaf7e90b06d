"""What benchmarks found, printed for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llrnn.cli.show import out, table


def bench_bodies(result: Mapping[str, Any]) -> None:
    out.print(
        f"{result['rows']} rows of {result['length']} words, V = {result['words']:,}, G = {result['classes']:,}, "
        f"{result['device']}; medians of interleaved steps"
    )
    rows = [["body", "alone, words/s", "times the first", "in a model, words/s", "times the first"]]
    for name, alone in result["alone"].items():
        both = alone, result["model"][name]
        rows.append([name, *(f"{one[key]:,.{places}f}" for one in both for key, places in _SPEEDS)])
    table(*rows)


_SPEEDS = (("words_per_second", 0), ("times the first", 2))


def bench_objectives(result: Mapping[str, Any]) -> None:
    out.print(
        f"V = G = {result['V']:,}; epochs: {result['epochs']}; words drawn: {result['samples']}; "
        f"validation before training: {result['start']:.3f}"
    )
    rows = [["objective", "log-perplexity", "epoch", "words/s"]]
    for name, found in result["objectives"].items():
        reached = [f"{found['log-perplexity']:.3f}", str(found["epoch"]), f"{found['words per second']:,.0f}"]
        rows.append([name, *reached])
    table(*rows)


def bench_ngram(result: Mapping[str, Any]) -> None:
    speed = result["estimation"]
    out.print(
        f"estimation: {speed['words']:,} words, order {speed['order']}: {speed['seconds']:.1f} s, "
        f"{speed['words_per_second']:,.0f} words/s; model {speed['model_megabytes']:.0f} MB, "
        f"peak {speed['peak_megabytes']:.0f} MB",
        markup=False,
    )
    if result.get("kenlm", True) is None:
        out.print(result["note"], markup=False)
        return
    made = [["", "llrnn, µs", "kenlm, µs", "ratio", "largest difference, log10"]]
    each, differ = result["seconds_each"], result["largest difference, log10"]
    V = f" (V = {result['V']:,})"
    for ratio, ours, peer, name in (
        ("rows", "rows", "kenlm rows", f"rows{V}"),
        ("sparse rows", "sparse rows", "kenlm rows", f"sparse rows{V}"),
        ("text", "text", "kenlm text", "a word of text"),
        ("sentences", "text", "kenlm sentences", "the same, KenLM's sums of sentences"),
    ):
        difference = f"{differ[ratio]:.1e}" if ratio in differ else ""
        figures = [f"{each[ours] * 1e6:.2f}", f"{each[peer] * 1e6:.2f}", f"{result['ratio'][ratio]:,.2f}", difference]
        made.append([name, *figures])
    table(*made)


def bench_constraint(result: Mapping[str, Any]) -> None:
    sizes = f"{result['V']:,} tokens ({result['vocabulary']}), {result['documents']} documents of {result['tokens']:,}"
    out.print(f"JSON over {sizes}; microseconds: median (90 %), of new documents means", markup=False)
    engines = result["engines"]
    rows = [["", *engines]]
    for what in ("warm", "warm, in strings", "warm, elsewhere", "written", "advance"):
        rows.append([what, *(f"{one[what]['median_us']:.1f} ({one[what]['p90_us']:.1f})" for one in engines.values())])
    for what in ("first", "new", "first, with the step", "new, with the step"):
        rows.append([f"documents, {what}", *(f"{one[what]['mean_us']:.0f}" for one in engines.values())])
    rows.append(["building, s", *(f"{one['build_seconds']:.2f}" for one in engines.values())])
    table(*rows)
    ours = engines["llrnn"]
    new = ours["a new node"]
    out.print(
        f"llrnn: {ours['nodes']:,} nodes, {ours['rows']:,} rows, {ours['remembered_megabytes']:.0f} MB remembered; at "
        f"a node that was not seen {new['median_us']:.0f} µs ({new['p90_us']:.0f})",
        markup=False,
    )
    for name, ratio in result["ratio"].items():
        times = ", ".join(f"{what} {value:.2f}" for what, value in ratio.items())
        same = result["same tokens"][name]
        out.print(f"{name}, times llrnn: {times}; the same tokens at {same['equal']:,} of {same['steps']:,} steps")
    for note in result["notes"]:
        out.print(note, markup=False)
