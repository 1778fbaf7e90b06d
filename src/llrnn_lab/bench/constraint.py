"""What a grammar costs at each token, against engines that make masks: JSON over a vocabulary of 128,000 tokens.

    first     documents that nobody has seen, right after building
    new       other documents, after the first ones
    warm      all of them again, in interleaved rounds: the answer in the form that an engine gives it in; and apart,
              in strings (where most tokens are allowed) and elsewhere
    written   the same added to a row of logits, float32
    advance   taking the next token

llrnn answers with log b of every token, of which decoding needs no copy: at a node that was seen, it is looked up, and
so are the masses of the classes. Engines that make masks write a bit for each token. All walk over the same tokens.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.knowledge.backgrounds import Grammar
from llrnn.knowledge.process import State
from llrnn.layer.priors import Prior
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.bench.against_masks import Engine, LLGuidance, Outlines, installed
from llrnn_lab.bench.json_texts import GRAMMAR, SPELLING, cut, documents, drawn_pieces, learnt_pieces, spelled, written

_OURS = "llrnn"
_Times = dict[str, list[float]]  # nanoseconds, by what is done


def constraint(
    *,
    vocabulary: int = 128_000,
    text: Path | None = None,
    count: int = 20,
    depth: int = 3,
    rounds: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    """Microseconds for the next-token distribution under JSON's grammar; `count` documents are first, as many new."""
    pieces = drawn_pieces(vocabulary, seed) if text is None else learnt_pieces(text, vocabulary, seed)
    words = Vocabulary(pieces)
    ids = {piece: number for number, piece in enumerate(pieces) if number != words.eos}
    drawn = [cut(written(one), ids) for one in documents(2 * count, depth=depth, seed=seed)]
    engines, parts = _built(words, depth)
    ours = engines[_OURS]
    assert isinstance(ours, Ours)
    times: dict[str, _Times] = {name: {} for name in engines}
    _pass(engines, drawn[:count], times, "first")
    seen = len(ours.new)
    _pass(engines, drawn[count:], times, "new")
    same = {name: _same(ours, engine, drawn) for name, engine in engines.items() if name != _OURS}
    for _ in range(rounds):
        _pass(engines, drawn, times, "warm")
        _pass(engines, drawn, times, "written", adding=True)
    for own in times.values():
        own |= _apart(own["warm"], _in_strings(ours, drawn))
    found = {name: {**parts[name], **{what: _figures(own) for what, own in times[name].items()}} for name in engines}
    found[_OURS] |= {"nodes": len(ours.new), "nodes of the first": seen, "a new node": _figures(ours.new)}
    found[_OURS] |= ours.remembered()
    return {
        "V": len(words),
        "vocabulary": "drawn" if text is None else text.name,
        "documents": len(drawn),
        "tokens": sum(map(len, drawn)),
        "depth": depth,
        "engines": found,
        "ratio": {name: _ratios(found[name], found[_OURS]) for name in same},
        "same tokens": same,
        "notes": _notes(engines),
    }


class Ours(Engine):
    """A `Grammar` bound to the tokens, asked for one position at a time as decoding does."""

    name = _OURS

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.grammar = Grammar(GRAMMAR, over="characters", spelling=SPELLING).bind(vocabulary)
        self.new: list[float] = []  # nanoseconds at each node that was asked for the first time
        self._nodes: set[object] = set()
        self._priors: dict[int, Prior] = {}
        self._state: State = None
        self.begin()
        self.ask()

    def begin(self) -> None:
        self._state = self.grammar.advance(self.grammar.initial(), self.grammar.vocabulary.eos)

    def ask(self) -> Prior:
        return self.grammar.prior((self._state,))

    def add(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        torch.add(logits, self.grammar.prior((self._state,)).dense(1, torch.float32).log_b[0], out=out)

    def advance(self, token: int) -> object:
        self._state = self.grammar.advance(self._state, token)
        return self._state.node

    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        found: np.ndarray[Any, np.dtype[np.bool_]] = (self.ask().dense(1).log_b[0] > -torch.inf).numpy()
        return found

    def noted(self, nanoseconds: float) -> None:
        """How long the last answer took, if it was the first at its node."""
        if self._state.node not in self._nodes:
            self._nodes.add(self._state.node)
            self.new.append(nanoseconds)
            prior = self.ask()
            self._priors[id(prior)] = prior

    def remembered(self) -> dict[str, Any]:
        """Rows that differ, and what they take with their float32 copies, which `written` asked for."""
        rows, V = len(self._priors), len(self.grammar.vocabulary)
        tables = {table for prior in self._priors.values() for table in prior.tables}
        return {"rows": rows, "remembered_megabytes": V * (rows * (8 + 4) + len(tables) * 4) / 1e6}


def _built(words: Vocabulary, depth: int) -> tuple[dict[str, Engine], dict[str, dict[str, Any]]]:
    """The engines that are there, and what building each took: time to the first answer, and memory."""
    tokens = [spelled(symbol) for symbol in words.symbols]
    makers: dict[str, Callable[[], Engine]] = {_OURS: lambda: Ours(words)}
    if (llguidance := installed("llguidance")) is not None:
        makers[LLGuidance.name] = lambda: LLGuidance(llguidance, tokens, words.eos)
    if (outlines := installed("outlines_core")) is not None:
        makers[Outlines.name] = lambda: Outlines(outlines, tokens, words.eos, depth)
    engines, parts = dict[str, Engine](), dict[str, dict[str, Any]]()
    for name, make in makers.items():
        gc.collect()
        before, begun = _resident(), time.perf_counter()
        engines[name] = make()
        parts[name] = {"build_seconds": time.perf_counter() - begun}
        parts[name]["of it for the vocabulary"] = engines[name].vocabulary_seconds or parts[name]["build_seconds"]
        parts[name]["build_megabytes"] = None if before is None else ((_resident() or before) - before) / 1e6
    return engines, parts


def _resident() -> int | None:
    """Bytes of memory that the process holds; None where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * 4096 if path.exists() else None


def _pass(
    engines: dict[str, Engine],
    texts: Sequence[Sequence[int]],
    times: dict[str, _Times],
    what: str,
    *,
    adding: bool = False,
) -> None:
    """Every engine walks over every document, one engine after the other at each of them."""
    names, size = list(engines), len(engines[_OURS].allowed())
    logits, out = torch.zeros(size), torch.zeros(size)
    for number, tokens in enumerate(texts):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            task = (lambda engine: engine.add(logits, out)) if adding else (lambda engine: engine.ask())
            asked, advanced = _walked(engines[name], tokens, task)
            times[name].setdefault(what, []).extend(asked)
            if not adding:
                times[name].setdefault("advance" if what == "warm" else f"advance, {what}", []).extend(advanced)


def _walked(engine: Engine, tokens: Sequence[int], task: Callable[[Engine], object]) -> tuple[list[float], list[float]]:
    """Nanoseconds of each answer, and of each token taken."""
    asked, advanced, clock = list[float](), list[float](), time.perf_counter_ns
    engine.begin()
    for token in tokens:
        begun = clock()
        task(engine)
        answered = clock()
        if isinstance(engine, Ours):
            engine.noted(answered - begun)
        going = clock()
        engine.advance(token)
        advanced.append(clock() - going)
        asked.append(answered - begun)
    return asked, advanced


def _in_strings(ours: Engine, texts: Sequence[Sequence[int]]) -> list[bool]:
    """At each step, whether it is in a string: most tokens are allowed there, and few elsewhere."""
    found = []
    for tokens in texts:
        ours.begin()
        for token in tokens:
            found.append(bool(ours.allowed().mean() > 0.5))
            ours.advance(token)
    return found


def _apart(nanoseconds: Sequence[float], in_strings: Sequence[bool]) -> _Times:
    """The times of some rounds, by kind of step."""
    times = np.array(nanoseconds).reshape(-1, len(in_strings))
    inside = np.array(in_strings)
    return {
        "warm, in strings": times[:, inside].ravel().tolist(),
        "warm, elsewhere": times[:, ~inside].ravel().tolist(),
    }


def _figures(nanoseconds: Sequence[float]) -> dict[str, float]:
    found = np.array(nanoseconds) / 1000
    return {
        "median_us": float(np.median(found)),
        "p90_us": float(np.quantile(found, 0.9)),
        "mean_us": float(found.mean()),
    }


def _ratios(peer: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
    """How many times as long a peer takes: medians; means where few steps cost most."""
    steps = ("warm", "warm, in strings", "warm, elsewhere", "written", "advance")
    by_median = {what: peer[what]["median_us"] / ours[what]["median_us"] for what in steps}
    return by_median | {what: peer[what]["mean_us"] / ours[what]["mean_us"] for what in ("first", "new")}


def _same(ours: Engine, peer: Engine, texts: Sequence[Sequence[int]]) -> dict[str, int]:
    """At how many steps both allow the same tokens; and how many tokens only one of them does, over all steps."""
    found = {"steps": 0, "equal": 0, "only llrnn": 0, "only peer": 0}
    for tokens in texts:
        ours.begin()
        peer.begin()
        for token in (*tokens, None):
            a, b = ours.allowed(), peer.allowed()
            found["steps"] += 1
            found["equal"] += bool((a == b).all())
            found["only llrnn"] += int((a & ~b).sum())
            found["only peer"] += int((b & ~a).sum())
            if token is not None:
                ours.advance(token)
                peer.advance(token)
    return found


def _notes(engines: dict[str, Engine]) -> list[str]:
    absent = [name for name in (LLGuidance.name, Outlines.name) if name not in engines]
    found = [f"{name} is not installed: pip install {name} to compare" for name in absent]
    return found + [engine.note for engine in engines.values() if engine.note]
