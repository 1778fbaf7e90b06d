"""Suites of knowledge: n-grams against KenLM, a grammar against engines that make masks, beam search with experts."""

from __future__ import annotations

import importlib.util
from typing import Any

from llrnn_lab.bench import counts
from llrnn_lab.bench.against_kenlm import ngrams
from llrnn_lab.bench.beam import beam, made_up
from llrnn_lab.bench.constraint import LLGuidance, Outlines, constraint
from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.rows import Compared, Count, Row
from llrnn_lab.bench.suite import Asked, Figures, Suite

_MICRO = 1e-6
_TEXT = 0.5  # of KenLM's speed
_WORD_BY_WORD, _PEERS = "KenLM, asked word by word", {"sentences": "KenLM, a sentence a call"}


# --- n-grams --------------------------------------------------------------------------------------------------------


def _ngrams(asked: Asked) -> dict[str, Any]:
    sizes, text = asked.sizes, asked.data / "wikitext2" / "train.txt.gz"
    return ngrams(
        text=text if text.is_file() and not asked.quick else None,
        vocabulary=sizes.ngram_vocabulary,
        words=sizes.ngram_words,
        rounds=asked.turns(5),
    )


def ngram_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Whole rows, rows as exceptions, and running text, on the same ARPA file; a look-up has no floor to count."""
    V, each = figures["V"], figures["seconds_each"]
    setting = {"V": V, "order": figures["order"], "text": figures["text"], "threads": speeds.threads}
    row = counts.written_row(V)
    none: tuple[Count | None, Count | None] = (None, None)
    asked: tuple[tuple[str, str, str, tuple[Count | None, Count | None]], ...] = (
        ("rows", "rows", "log p of all words after a context", (row, row)),
        ("sparse rows", "rows", "the same as exceptions to unigrams, as the layer takes it", (None, row)),
        ("text", "text", "log p of a word of running text", none),
        ("sentences", "sentences", "the same, against the sums of whole sentences", none),
    )
    return [
        Compared(f"n-grams, {name}", what, _PEERS.get(peer, _WORD_BY_WORD), setting, count, speeds).faster(
            each.get(name, each["text"]),
            each[f"kenlm {peer}"],
            ratio=figures["ratio"][name],
            bar=_TEXT if name == "text" else None,
        )
        for name, peer, what, count in asked
    ]


def _no_kenlm(_: Asked) -> str | None:
    there = importlib.util.find_spec("kenlm") is not None
    return None if there else "kenlm is not installed: pip install kenlm"


# --- grammars -------------------------------------------------------------------------------------------------------


def _constraint(asked: Asked) -> dict[str, Any]:
    sizes, text = asked.sizes, asked.data / "wikitext2" / "train.txt.gz"
    return constraint(
        vocabulary=sizes.constraint_vocabulary,
        text=text if text.is_file() and not asked.quick else None,
        count=sizes.constraint_documents,
        rounds=asked.turns(5),
    )


def constraint_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """At tokens that were seen (medians), the same added to logits, and in documents that nobody has seen (means)."""
    V, engines = figures["V"], figures["engines"]
    setting = {"V": V, "documents": figures["documents"], "text": figures["vocabulary"], "threads": speeds.threads}
    added = counts.added_row(V)
    asked: tuple[tuple[str, str, str, tuple[Count | None, Count | None]], ...] = (
        ("warm", "median_us", "what may follow, in the engine's own form", (None, counts.mask(V))),
        ("written", "median_us", "the same added to a row of logits", (added, added)),
        ("new", "mean_us", "what may follow, in documents not seen before", (None, counts.mask(V))),
    )
    return [
        Compared(f"JSON grammar, {what}, {peer}", about, peer, setting, count, speeds).faster(
            engines["llrnn"][what][key] * _MICRO, engines[peer][what][key] * _MICRO
        )
        for peer in engines
        if peer != "llrnn"
        for what, key, about, count in asked
    ]


def _no_engine(_: Asked) -> str | None:
    there = any(importlib.util.find_spec(name) for name in ("llguidance", "outlines_core"))
    return None if there else "neither llguidance nor outlines-core is installed: pip install llguidance outlines-core"


def _absent_engines(figures: Figures) -> dict[str, str]:
    return {
        f"JSON grammar, {name}": f"{name} is not installed: pip install {name}"
        for name in (LLGuidance.name, Outlines.name)
        if name not in figures["engines"]
    }


# --- beams ----------------------------------------------------------------------------------------------------------


def _beam(asked: Asked) -> dict[str, Any]:
    model, conditions = made_up()
    return beam(model, conditions[: asked.sizes.beam_conditions], rounds=asked.turns(5))


def beam_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Time of a token; the floor is that of the network and the classes, whose weights a step reads once for all."""
    P, width, conditions = figures["weights"], figures["width"], figures["conditions"]
    rows = []
    for how, together in (("one by one", width), ("side by side", width * conditions)):
        count = Count(2 * P, 4 * P / together)
        setting = {"V": figures["V"], "width": width, "conditions": conditions, "threads": speeds.threads}
        compared = Compared(
            f"beam with knowledge, {how}",
            "a token of beam search with experts and priming",
            "the same model without them",
            setting,
            (count, count),
            speeds,
        )
        part = figures[how]
        rows.append(compared.share(part["with"] / 1000, part["without"] / 1000))
    return rows


SUITES = (
    Suite("ngram", "n-grams against KenLM", 1, _ngrams, ngram_rows, _no_kenlm),
    Suite("constraint", "grammars against masks", 1, _constraint, constraint_rows, _no_engine, _absent_engines),
    Suite("beam", "beam search with experts", 1, _beam, beam_rows),
)
