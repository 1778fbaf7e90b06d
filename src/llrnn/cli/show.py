"""What the verbs print: tables for people. All text goes through rich, so that it fits the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from llrnn.decode import Generated
from llrnn.demo import Demo, table_rows
from llrnn.evaluate import Evaluation, Slice
from llrnn.explain import Comparison, Explanation, Term
from llrnn.features import FeatureSummary
from llrnn.model import LLRNN
from llrnn.pairs import PairScores, Share

out = Console(highlight=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def table(*columns: str, title: str | None = None) -> Table:
    """The first column left, numbers right."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", overflow="fold", no_wrap=index == 0)
    return made


def features(summary: FeatureSummary) -> None:
    out.print(
        f"{summary.symbols:,} symbols, {summary.features:,} features, {summary.classes:,} classes: "
        f"the sum in Z is {summary.reduction:.1f} times shorter"
    )
    groups = table("group", "features")
    for group, count in summary.by_group.items():
        groups.add_row(escape(group), f"{count:,}")
    out.print(groups)
    out.print(f"memory of the compiled matrix: {summary.bytes / 2**20:.2f} MiB")
    _list("features that never fire", summary.never_fire)
    _list("features with one value on all words (they cancel)", summary.same_on_all)
    out.print(f"words on which no feature fires: {summary.without_features:,}")
    out.print(f"words that no feature tells apart from another: {summary.indistinct_words:,}")
    for words in summary.indistinct:
        out.print(f"  {escape(', '.join(words))}, …")


def _list(what: str, names: Sequence[str], at_most: int = 12) -> None:
    shown = ", ".join(names[:at_most]) + (", …" if len(names) > at_most else "")
    out.print(f"{what}: {len(names)}" + (f" ({escape(shown)})" if names else ""))


def evaluation(name: str, result: Evaluation, *, slices: int = 12) -> None:
    out.print(
        f"[bold]{escape(name)}[/]: log-perplexity {result.log_perplexity:.4f} nats a word, "
        f"perplexity {result.perplexity:.1f}, {result.bits_per_character:.3f} bits per character "
        f"({result.words:,} words with ends of sentence, {result.sentences:,} sentences)"
    )
    _slices("seen in training", result.by_frequency)
    _slices("feature of the word", dict(list(result.by_feature.items())[:slices]))
    audit = result.audit
    overlap = "unknown" if audit.seen_in_training is None else f"{audit.seen_in_training:.1%}"
    out.print(
        f"audit: Σp = 1 within {audit.worst_sum_error:.1e} at {audit.contexts_checked} contexts; "
        f"{audit.words_counted:,} of {audit.words_expected:,} words counted; {escape(audit.unknown_policy)}; "
        f"sentences seen in training: {overlap}"
    )
    for group, share in audit.coverage.items():
        out.print(
            f"audit: {escape(group)} fires on {share.rare_in_training:.1%} of rare training types, "
            f"on {share.only_here:.1%} of the types found here alone"
        )
    for problem in audit.problems():
        err.print(f"[bold]warning[/]: {escape(problem)}")


def _slices(what: str, slices: dict[str, Slice]) -> None:
    if slices:
        rows = table(what, "words", "log-perplexity")
        for name, part in slices.items():
            rows.add_row(escape(name), f"{part.words:,}", f"{part.log_perplexity:.3f}")
        out.print(rows)


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


def explanation(found: Explanation | Comparison, *, at_most: int = 12) -> None:
    if isinstance(found, Explanation):
        _explanation(found, at_most)
    else:
        _comparison(found, at_most)


def _explanation(found: Explanation, at_most: int) -> None:
    said = f"log p = {found.log_p:.4f}"
    out.print(f"{escape(' '.join(found.prefix))} [bold]{escape(found.word)}[/]: {_forbidden(found) or said}")
    rows = table("part", "weight a", "value φ", "share")
    _background(rows, found)
    _terms(rows, found.terms, at_most)
    rows.add_row("− log Z (normalisation)", "", "", f"{-found.log_z:+.4f}")
    rows.add_row("[bold]sum[/]", "", "", f"[bold]{_log(found.total)}[/]")
    out.print(rows)


def _forbidden(found: Explanation) -> str:
    """`forbidden by ...`, for a word without mass; nothing for others."""
    return f"forbidden by {escape(' and by '.join(found.forbidden_by))}, p = 0" if found.forbidden_by else ""


def _log(value: float) -> str:
    """A logarithm, or a difference of two."""
    return f"{value:+.4f}" if math.isfinite(value) else "forbidden" if value < 0 else "rival forbidden"


def _background(rows: Table, found: Explanation) -> None:
    """One row; for a word that is not listed two: its cell, and which string of the cell it is."""
    if found.cell is None:
        rows.add_row("log b (background)", "", "", _log(found.log_b))
        _factors(rows, found)
        return
    rows.add_row(f"log b of {escape(found.cell)}", "", "", _log(found.log_b - found.log_inside))
    _factors(rows, found)
    rows.add_row(f"{escape(found.word)} among its strings", "", "", f"{found.log_inside:+.4f}")


def _factors(rows: Table, found: Explanation | Comparison) -> None:
    """What the row above is the sum of."""
    for name, log_b in found.factors:
        rows.add_row(f"[dim]  of it {escape(name)}[/]", "", "", f"[dim]{_log(log_b)}[/]")


def _comparison(found: Comparison, at_most: int) -> None:
    chosen, rival = found.chosen, found.rival
    for side in (chosen, rival):
        if side.cell is not None:
            out.print(f"{escape(side.word)} is not listed: a string of the cell {escape(side.cell)}")
        if side.forbidden_by:
            out.print(f"{escape(side.word)} is {_forbidden(side)}")
    if chosen.forbidden_by and rival.forbidden_by:
        out.print("both are forbidden: neither is possible, whatever the features say")
    out.print(
        f"{escape(' '.join(chosen.prefix))} [bold]{escape(chosen.word)}[/] rather than {escape(rival.word)}: "
        f"log p {chosen.log_p:.4f} against {rival.log_p:.4f}, difference {_log(found.log_ratio)}"
    )
    rows = table("part", "weight a", "Δφ", "share")
    rows.add_row("log b (background)", "", "", _log(found.log_b_difference))
    _factors(rows, found)
    _terms(rows, found.terms, at_most)
    rows.add_row("[bold]sum[/]", "", "", f"[bold]{_log(found.total)}[/]")
    out.print(rows)


def _terms(rows: Table, terms: Sequence[Term], at_most: int) -> None:
    for term in terms[:at_most]:
        rows.add_row(escape(term.name), f"{term.weight:+.4f}", f"{term.value:+g}", f"{term.share:+.4f}")
    rest = terms[at_most:]
    if rest:
        rows.add_row(f"{len(rest)} smaller ones", "", "", f"{sum(term.share for term in rest):+.4f}")


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
        explanation(found.decision)


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


def _share(share: Share) -> str:
    return escape(f"{share.accuracy:.1%} [{share.low:.1%}, {share.high:.1%}] of {share.count:,} pairs")
