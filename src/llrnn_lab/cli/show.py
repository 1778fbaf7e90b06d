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
    rows = [["", "ms", "alone", "faster", "floor", "MB"]]
    peers = dict.fromkeys(("dense", part["best_peer"], part["smallest_peer"]))
    for name, one in (*part["ours"].items(), *((name, part["peers"][name]) for name in peers)):
        ratio = part["peer_by_ours"].get(name)
        rows.append(
            [
                name,
                f"{one['ms']:.3f}",
                f"{one['ms_alone']:.3f}",
                "" if ratio is None else f"{ratio['best']:.2f}",
                f"{one['times_floor']:.1f}",
                f"{one['beyond_mb']:,.0f}",
            ]
        )
    table(*rows)
    for name, why in part["failed"].items():
        out.print(f"{name} could not run here: {why}", markup=False)


def _by_vocabulary(found: Mapping[str, Any]) -> None:
    rows = [["G fixed, largest / smallest over V", "time", "alone", "memory"]]
    for name in (name for name in found if name != "G"):
        ratio = found[name]["largest_by_smallest"]
        rows.append([name, *(f"{ratio[key]:.3f}" for key in ("ms", "ms_alone", "beyond_mb"))])
    table(*rows)


def french(result: Mapping[str, Any]) -> None:
    from llrnn_lab.bench.french import LARGE_WAYS, WAYS

    out.print(f"whole training steps on French, {_machine(result)}; medians of interleaved steps", markup=False)
    for way in (way for way in (*WAYS, *LARGE_WAYS) if way in result):
        part = result[way]
        rows = [[f"{way}, {part['words in a step']:,} words a step", "outputs", "ms", "words/s", "times ours"]]
        for name, found in part["contenders"].items():
            times = [
                f"{1000 * found['seconds']:.3g}",
                f"{found['words per second']:,.0f}",
                f"{found['times ours']:.2f}",
            ]
            rows.append([name, f"{found['outputs']:,}", *times])
        table(*rows)
        out.print(f"{way}: {part['ratio']:.2f} times the words per second of the best softmax", markup=False)


def adaptive(result: Mapping[str, Any]) -> None:
    sizes = f"V = {result['V']:,}, H = {result['H']}, {result['layers']} layers, {result['optimizer']}"
    out.print(f"{result['seconds']:.0f} s of training each, {sizes}, {_machine(result)}", markup=False)
    rows = [["", "s an epoch", "fastest peer / own", "epochs", "log-perplexity"]]
    for name, found in result["contenders"].items():
        faster = f"{found['an epoch of the fastest peer']:.2f}"
        rows.append(
            [name, f"{found['seconds an epoch']:.1f}", faster, str(found["epochs"]), f"{found['log-perplexity']:.3f}"]
        )
    table(*rows)


def profile(result: Mapping[str, Any]) -> None:
    out.print(f"a training step on French, {result['threads']} threads, mean of {result['steps']} steps", markup=False)
    rows = [["part", "ms", "share"]]
    for name, found in result["parts"].items():
        rows.append([name, f"{1000 * found['seconds']:.1f}", f"{found['share']:.1%}"])
    table(*rows)
    rows = [["rows × words", "calls of Python functions in a step"]]
    for size, calls in result["calls"].items():
        rows.append([size, f"{calls:,}"])
    table(*rows)


def _machine(result: Mapping[str, Any]) -> str:
    return result["device"] if result["device"] != "cpu" else f"{result['threads']} threads"


def bench_layer(results: Mapping[str, Any]) -> None:
    sizes = ", ".join(f"{name} = {results[name]:,}" for name in "VGHN")
    out.print(f"one layer, forward and backward, {sizes}; medians of interleaved runs")
    for title, part in (
        (f"words in {results['G']:,} classes", results["classes"]),
        ("every word its own class", results["own classes"]),
    ):
        rows = [[title, "ms", "times ours", "loss"]]
        for name, figures in part.items():
            if isinstance(figures, Mapping):
                rows.append(
                    [name, f"{1000 * figures['seconds']:.1f}", f"{figures['times ours']:.2f}", f"{figures['loss']:.6f}"]
                )
        table(*rows)
        out.print(f"difference of the losses, llrnn against dense: {part['loss difference']:.1e}")
    ratio = results["vocabulary"]["ratio"]
    out.print(f"G fixed, a million words against ten thousand: {ratio:.3f} times the time")


def bench_training(result: Mapping[str, Any]) -> None:
    out.print(f"whole training steps, V = {result['V']:,}, G = {result['G']:,}; medians of interleaved steps")
    rows = [["model", "words/s"]]
    for name, speed in result["words per second"].items():
        rows.append([name, f"{speed:,.0f}"])
    table(*rows)
    out.print(f"llrnn against softmax: {result['ratio']:.2f} times the words per second")


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
    rows = [["objective", "log-perplexity", "epoch", "words/s", "log Z − log B", "deviation"]]
    for name, found in result["objectives"].items():
        gap = [f"{found[key]:.3f}" if key in found else "" for key in ("log Z", "deviation")]
        reached = [f"{found['log-perplexity']:.3f}", str(found["epoch"]), f"{found['words per second']:,.0f}"]
        rows.append([name, *reached, *gap])
    table(*rows)


def bench_parallel(result: Mapping[str, Any], processes: int) -> None:
    speed = result["words per second"]
    out.print(
        f"batches of {result['words in a batch']:,.0f} words, V = {result['V']:,}, G = {result['G']:,}, "
        f"H = {result['H']}: one process {speed['alone']:,.0f} words/s, {processes} together "
        f"{speed['together']:,.0f} words/s: {result['ratio']:.2f} times as many; "
        f"by the work of a process alone, without waiting, {result['ratio of work']:.2f} times",
        markup=False,
    )


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


def bench_beam(result: Mapping[str, Any]) -> None:
    out.print(f"beam search of width {result['width']} from {result['conditions']} conditions, V = {result['V']:,}")
    rows = [["", "with knowledge, ms a token", "without", "ratio"]]
    for how in ("one by one", "side by side"):
        part = result[how]
        rows.append([how, f"{part['with']:.3f}", f"{part['without']:.3f}", f"{part['ratio']:.2f}"])
    table(*rows)


def bench_inference(result: Mapping[str, Any]) -> None:
    sizes = ", ".join(f"{name} = {result[name]:,}" for name in "GH")
    out.print(f"inference, {sizes}; medians of interleaved runs", markup=False)
    V, many = f"{result['V']:,}", f"{result['many']:,}"
    parts = [(f"log p at {n} positions of {V} words", part) for n, part in result["scoring"].items()]
    parts += [(f"a sample of {many} words", result["sampling"]), (f"{many} words, a folder opened", result["opening"])]
    for title, part in parts:
        rows = [[title, "ms", "times ours", "floor, ms", "times floor"]]
        for name, figures in part.items():
            if isinstance(figures, Mapping) and "seconds" in figures:
                own = f"{1000 * figures['seconds']:.3f}", f"{figures['times ours']:.2f}"
                rows.append([name, *own, *_floor_cells(figures)])
        table(*rows)
    rows = [["one position, G fixed", "10^4 words, ms", "10^6 words, ms", "ratio", "floor, ms", "times floor"]]
    for name, figures in result["vocabulary"].items():
        times = [f"{1000 * figures[size]:.3f}" for size in ("10^4", "10^6")]
        rows.append([name, *times, f"{figures['ratio']:.2f}", *_floor_cells(figures)])
    table(*rows)
    rates = {name: f"{rate / 1e9:.1f}" for name, rate in result["rates"].items()}
    out.print(
        f"floors: {rates['products']} Gflop/s of products, {rates['memory']} GB/s of memory, {rates['sha256']} GB/s "
        "of SHA-256, measured in this run; what stays in a cache may be faster",
        markup=False,
    )


def _floor_cells(figures: Mapping[str, Any]) -> tuple[str, str]:
    floor = figures.get("floor")
    return ("", "") if floor is None else (f"{1000 * floor['seconds']:.3f}", f"{floor['times']:.2f}")


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
