"""What the verbs print: tables for people. All text goes through rich, so that it fits the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from llrnn.cli.demonstration import Demo, table_rows
from llrnn.ground.charts import visible
from llrnn.inference.evaluation import Evaluation
from llrnn.inference.pairs import Accuracy, PairScores
from llrnn.model.decode import Generated
from llrnn.model.network import LLRNN


class VisibleConsole(Console):
    """A terminal that no word of a model, a file or a message can steer: control characters are shown as signs."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or (text.isascii() and text.replace("\n", "").isprintable()):
                yield segment
            else:
                yield Segment("\n".join(map(visible, text.split("\n"))), segment.style)


out = VisibleConsole(highlight=False, emoji=False, soft_wrap=True)
err = VisibleConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def line(text: str) -> None:
    """A line of plain words: as they are into a file or another program, and visible on a terminal."""
    typer.echo(visible(text) if sys.stdout.isatty() else text)


@contextmanager
def only_if(wanted: bool) -> Iterator[None]:
    """Nothing is printed in the block where it is not wanted: of several processes, one speaks."""
    before = out.quiet, err.quiet
    out.quiet, err.quiet = (before[0] or not wanted, before[1] or not wanted)
    try:
        yield
    finally:
        out.quiet, err.quiet = before


def table(*columns: str, title: str | None = None) -> Table:
    """The first column left, numbers right."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", overflow="fold", no_wrap=index == 0)
    return made


def evaluation(name: str, result: Evaluation) -> None:
    said = result.sheet(name)
    out.print(replace(said, warnings=()))
    for problem in said.warnings:
        err.print(f"[bold]warning[/]: {escape(problem)}")


def generated(model: LLRNN, found: Sequence[Generated], written: Sequence[Generated] | None = None) -> None:
    """Texts, each with the features of its words where `written` has it as the model wrote it: with placeholders."""
    for i, result in enumerate(found):
        tail = "" if result.finished else " …"
        out.print(escape(str(result)) + tail + f"  [dim]log p = {result.log_prob:.2f}[/]")
        if written is not None:
            out.print(words_with_features(model, (*written[i].prefix, *written[i].words)))


def words_with_features(model: LLRNN, words: Sequence[str]) -> Table:
    """Each word with its non-null features, as the paper's Table 5 prints them."""
    rows = table("word", "features")
    rows.columns[1].justify = "left"
    for word in words:
        rows.add_row(escape(word), escape(", ".join(named_features(model, word))))
    return rows


def named_features(model: LLRNN, word: str) -> list[str]:
    values = model.output_features.row(model.vocabulary.id(word))
    return [name if value == 1.0 else f"{name}={value:.3g}" for name, value in values.items()]


def bench_layer(results: Mapping[str, Any]) -> None:
    sizes = ", ".join(f"{name} = {results[name]:,}" for name in "VGHN")
    out.print(f"one layer, forward and backward, {sizes}; medians of interleaved runs")
    for title, part in (
        (f"words in {results['G']:,} classes", results["classes"]),
        ("every word its own class", results["own classes"]),
    ):
        rows = table(title, "ms", "times ours", "loss")
        for name, figures in part.items():
            if isinstance(figures, Mapping):
                rows.add_row(
                    name, f"{1000 * figures['seconds']:.1f}", f"{figures['times ours']:.2f}", f"{figures['loss']:.6f}"
                )
        out.print(rows)
        out.print(f"difference of the losses, llrnn against dense: {part['loss difference']:.1e}")
    ratio = results["vocabulary"]["ratio"]
    out.print(f"G fixed, a million words against ten thousand: {ratio:.3f} times the time")


def bench_training(result: Mapping[str, Any]) -> None:
    out.print(f"whole training steps, V = {result['V']:,}, G = {result['G']:,}; medians of interleaved steps")
    rows = table("model", "words/s")
    for name, speed in result["words per second"].items():
        rows.add_row(name, f"{speed:,.0f}")
    out.print(rows)
    out.print(f"llrnn against softmax: {result['ratio']:.2f} times the words per second")


def bench_objectives(result: Mapping[str, Any]) -> None:
    out.print(
        f"V = G = {result['V']:,}; epochs: {result['epochs']}; words drawn: {result['samples']}; "
        f"validation before training: {result['start']:.3f}"
    )
    rows = table("objective", "log-perplexity", "epoch", "words/s", "log Z − log B", "deviation")
    for name, found in result["objectives"].items():
        gap = [f"{found[key]:.3f}" if key in found else "" for key in ("log Z", "deviation")]
        reached = [f"{found['log-perplexity']:.3f}", str(found["epoch"]), f"{found['words per second']:,.0f}"]
        rows.add_row(name, *reached, *gap)
    out.print(rows)


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
    made = table("", "llrnn, µs", "kenlm, µs", "ratio", "largest difference, log10")
    each, differ = result["seconds_each"], result["largest difference, log10"]
    for name, peer in (("rows", "kenlm rows"), ("sparse rows", "kenlm rows"), ("text", "kenlm text")):
        difference = f"{differ[name]:.1e}" if name in differ else ""
        figures = [f"{each[name] * 1e6:.2f}", f"{each[peer] * 1e6:.1f}", f"{result['ratio'][name]:,.1f}", difference]
        made.add_row(f"{name} (V = {result['V']:,})" if name != "text" else "a word of text", *figures)
    out.print(made)


def bench_beam(result: Mapping[str, Any]) -> None:
    out.print(f"beam search of width {result['width']} from {result['conditions']} conditions, V = {result['V']:,}")
    rows = table("", "with knowledge, ms a token", "without", "ratio")
    for how in ("one by one", "side by side"):
        part = result[how]
        rows.add_row(how, f"{part['with']:.3f}", f"{part['without']:.3f}", f"{part['ratio']:.2f}")
    out.print(rows)


def bench_inference(result: Mapping[str, Any]) -> None:
    sizes = ", ".join(f"{name} = {result[name]:,}" for name in "GH")
    out.print(f"inference, {sizes}; medians of interleaved runs", markup=False)
    V, many = f"{result['V']:,}", f"{result['many']:,}"
    parts = [(f"log p at {n} positions of {V} words", part) for n, part in result["scoring"].items()]
    parts += [(f"a sample of {many} words", result["sampling"]), (f"{many} words, a folder opened", result["opening"])]
    for title, part in parts:
        rows = table(title, "ms", "times ours", "floor, ms", "times floor")
        for name, figures in part.items():
            if isinstance(figures, Mapping) and "seconds" in figures:
                own = f"{1000 * figures['seconds']:.3f}", f"{figures['times ours']:.2f}"
                rows.add_row(name, *own, *_floor_cells(figures))
        out.print(rows)
    rows = table("one position, G fixed", "10^4 words, ms", "10^6 words, ms", "ratio", "floor, ms", "times floor")
    for name, figures in result["vocabulary"].items():
        times = [f"{1000 * figures[size]:.3f}" for size in ("10^4", "10^6")]
        rows.add_row(name, *times, f"{figures['ratio']:.2f}", *_floor_cells(figures))
    out.print(rows)
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
    rows = table("", *engines)
    for what in ("warm", "warm, in strings", "warm, elsewhere", "written", "advance"):
        rows.add_row(what, *(f"{one[what]['median_us']:.1f} ({one[what]['p90_us']:.1f})" for one in engines.values()))
    for what in ("first", "new"):
        rows.add_row(f"{what} documents", *(f"{one[what]['mean_us']:.0f}" for one in engines.values()))
    rows.add_row("building, s", *(f"{one['build_seconds']:.2f}" for one in engines.values()))
    out.print(rows)
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


def demo(found: Demo) -> None:
    header, rows = table_rows(found)
    results = table(*header)
    for row in rows:
        results.add_row(*row)
    out.print(results)
    best = found.contenders[-1].model
    out.print("\n[bold]sentences that the LL-RNN wrote[/]")
    for words in found.sentences:
        out.print(escape(" ".join(words)))
    out.print("\n[bold]the first one, word by word[/]")
    out.print(words_with_features(best, found.sentences[0]))
    if found.decision is not None:
        out.print("\n[bold]why this word?[/]")
        out.print(found.decision)


def pairs(name: str, scores: PairScores) -> None:
    out.print(f"[bold]{escape(name)}[/]: the grammatical sentence is preferred in {_share(scores.overall)}")
    for title, parts in (
        ("group", scores.by_group),
        ("distance", scores.by_distance),
        ("distractors", scores.by_distractors),
    ):
        rows = table(title, "accuracy [95 % interval]")
        for part, share in parts.items():
            rows.add_row(escape(str(part)), _share(share))
        out.print(rows)


def _share(share: Accuracy) -> str:
    return escape(f"{share.accuracy:.1%} [{share.low:.1%}, {share.high:.1%}] of {share.count:,} pairs")
