"""n-grams against KenLM on the same ARPA file: whole next-word distributions and text; our estimation by itself."""

from __future__ import annotations

import importlib
import math
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Ints
from llrnn.knowledge.backgrounds import NGram
from llrnn.knowledge.process import Batch
from llrnn.languages.ngrams.arpa import read_arpa, write_arpa
from llrnn.languages.ngrams.kneser_ney import estimate, read_stream
from llrnn.languages.ngrams.table import UNKNOWN, NGramTable
from llrnn.text.vocabulary import EOS, Vocabulary

_CONTEXTS = 256
_A_ROUND = 0.05  # seconds


def ngrams(
    *,
    text: Path | None = None,
    vocabulary: int = 20_000,
    order: int = 5,
    words: int = 10_000_000,
    rounds: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    """Estimation of `words` words; and distributions over `vocabulary` words, against KenLM where it is installed."""
    speed = estimation(words, order=order, seed=seed)
    stream, listed = drawn_text(1_000_000, vocabulary, seed) if text is None else _top_words(text, vocabulary)
    table = estimate(stream, listed, order=order)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.arpa"
        write_arpa(table, path)
        result = {"text": "drawn" if text is None else text.name, "V": len(listed), "order": order}
        return {**result, "estimation": speed, **_against_kenlm(read_arpa(path), path, stream, listed, rounds)}


def drawn_text(n_words: int, n_types: int, seed: int) -> tuple[Ints, list[str]]:
    """A text with Zipf's law and habits: half of the words are one of 20 followers of the word before."""
    rng = np.random.default_rng(seed)
    types = n_types - 2
    by_rank = 1.0 / np.arange(1, types + 1)
    cumulated = np.cumsum(by_rank / by_rank.sum())

    def zipf(count: int) -> Ints:
        return np.minimum(np.searchsorted(cumulated, rng.random(count)), types - 1) + 2

    followers = zipf(n_types * 20).reshape(n_types, 20)
    rows = 1000  # texts that are drawn side by side, end to end in the result
    words = np.empty((rows, -(-n_words // rows)), dtype=np.int64)
    before = zipf(rows)
    for column in range(words.shape[1]):
        habit = followers[before, (rng.random(rows) ** 2 * 20).astype(np.int64)]
        before = np.where(rng.random(rows) < 0.5, habit, zipf(rows))
        words[:, column] = before
    words[rng.random(words.shape) < 0.04] = 0  # ends of sentences
    stream = np.concatenate([[0], words.reshape(-1)[:n_words], [0]])
    return stream, [EOS, UNKNOWN, *(f"w{rank}" for rank in range(types))]


def estimation(n_words: int, *, order: int, seed: int = 0) -> dict[str, Any]:
    """Words per second of counting and smoothing, from numbers to a finished model, and the memory that it took."""
    stream, words = drawn_text(n_words, 100_000, seed)
    begun = time.perf_counter()
    table = estimate(stream, words, order=order)
    seconds = time.perf_counter() - begun
    return {
        "words": len(stream) - 1,
        "order": order,
        "ngrams": [len(level) for level in table.levels],
        "seconds": seconds,
        "words_per_second": (len(stream) - 1) / seconds,
        "model_megabytes": table.bytes / 1e6,
        "peak_megabytes": _peak(stream[: max(2, len(stream) // 10)], words, order) * 10,
    }


def _peak(stream: Ints, words: list[str], order: int) -> float:
    """Peak memory of an estimation, measured on a tenth (tracing slows it down), in megabytes."""
    stream = stream.copy()
    stream[-1] = 0
    tracemalloc.start()
    estimate(stream, words, order=order)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


def _top_words(path: Path, n_types: int) -> tuple[Ints, list[str]]:
    """A text in which all but the most frequent words are `<unk>`."""
    stream, words = read_stream([path])
    counts = np.bincount(stream, minlength=len(words))
    counts[:2] = len(stream)  # EOS and <unk> stay
    kept = np.argsort(-counts, kind="stable")[:n_types]
    kept = np.concatenate([[0, 1], kept[kept > 1]])
    number = np.ones(len(words), dtype=np.int64)
    number[kept] = np.arange(len(kept))
    return number[stream], [words[i] for i in kept.tolist()]


def _against_kenlm(table: NGramTable, path: Path, stream: Ints, words: list[str], rounds: int) -> dict[str, Any]:
    ngram = NGram(table).bind(Vocabulary(words))
    text = stream[: 40 * _CONTEXTS]
    states = _states(ngram, text)
    buffer = torch.empty(len(states), len(words))
    tasks: dict[str, Callable[[], object]] = {
        "rows": lambda: ngram.log_probs(states, out=buffer),
        "sparse rows": lambda: ngram.rows(states),
        "text": lambda: ngram.score(text.tolist()),
    }
    per = {"rows": len(states), "sparse rows": len(states), "text": len(text) - 1}
    peer = _Peer.open(path, words)
    if peer is None:
        return {"llrnn": _medians(tasks, per, rounds), "kenlm": None, "note": "pip install kenlm to compare"}
    few = 8  # contexts that KenLM is asked in a round: each takes milliseconds
    contexts = [text[max(0, at - table.order) : at + 1].tolist() for at in _places(text)[:few]]
    tasks["kenlm rows"] = lambda: [peer.row(context) for context in contexts]
    tasks["kenlm text"] = lambda: peer.score(text.tolist())
    sentences, n_words = peer.sentences(text)
    tasks["kenlm sentences"] = lambda: [peer.total(sentence) for sentence in sentences]
    per |= {"kenlm rows": few, "kenlm text": len(text) - 1, "kenlm sentences": n_words}
    medians = _medians(tasks, per, rounds)
    ours = ngram.log_probs(states[:few]).double() / math.log(10)
    theirs = torch.tensor([peer.row(context) for context in contexts], dtype=torch.float64)
    log_p = ngram.score(text.tolist())[0] / math.log(10)
    return {
        "seconds_each": medians,
        "ratio": {
            "rows": medians["kenlm rows"] / medians["rows"],
            "sparse rows": medians["kenlm rows"] / medians["sparse rows"],
            "text": medians["kenlm text"] / medians["text"],
            "sentences": medians["kenlm sentences"] / medians["text"],
        },
        "largest difference, log10": {
            "rows": float((ours - theirs).abs().max()),
            "text": float((log_p - torch.tensor(peer.score(text.tolist()))).abs().max()),
        },
        "sum of a row": float(ngram.log_probs(states[:few]).double().exp().sum(1).mean()),
    }


def _places(text: Ints) -> list[int]:
    """Places of the text, spread over it, after which the next word is asked for."""
    places: list[int] = np.linspace(0, len(text) - 2, _CONTEXTS).astype(int).tolist()
    return places


def _states(ngram: NGram, text: Ints) -> Tensor:
    words = torch.from_numpy(text)[None]
    seen, _ = ngram.follow([ngram.initial()], Batch(words, words, torch.ones_like(words, dtype=torch.bool)))
    return seen.nodes[torch.tensor(_places(text))]


def _medians(tasks: dict[str, Callable[[], object]], per: dict[str, int], rounds: int) -> dict[str, float]:
    """Seconds for each row or word, medians of interleaved rounds; a round repeats a task for 50 milliseconds."""
    repeats = {name: 1 + int(_A_ROUND / _seconds(task, 1)) for name, task in tasks.items()}  # this warms up, too
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            times[name].append(_seconds(task, repeats[name]) / per[name])
    return {name: statistics.median(found) for name, found in times.items()}


def _seconds(task: Callable[[], object], repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        task()
    return (time.perf_counter() - begun) / repeats


class _Peer:
    """KenLM's Python module, which answers one word at a time, or the sum over a sentence."""

    def __init__(self, module: Any, path: Path, words: list[str]) -> None:
        self._module, self._model = module, module.Model(str(path))
        self._words = words

    @classmethod
    def open(cls, path: Path, words: list[str]) -> _Peer | None:
        try:
            module = importlib.import_module("kenlm")
        except ImportError:
            return None
        return cls(module, path, words)

    def row(self, context: list[int]) -> list[float]:
        """log10 p of every word after a context, by a call for each."""
        state, after = self._module.State(), self._module.State()
        self._model.NullContextWrite(state)
        for number in context:
            if number == 0:
                self._model.BeginSentenceWrite(state)
            else:
                self._model.BaseScore(state, self._words[number], after)
                state, after = after, state
        return [self._model.BaseScore(state, word, after) for word in self._words]

    def sentences(self, text: Ints) -> tuple[list[str], int]:
        """The whole sentences of a text EOS, sentence, EOS, ..., as strings; and how many words and ends they have."""
        ends = np.flatnonzero(text == 0).tolist()
        numbers = (text[begin + 1 : end].tolist() for begin, end in pairwise(ends))
        return [" ".join(self._words[number] for number in some) for some in numbers], ends[-1] - ends[0]

    def total(self, sentence: str) -> float:
        """log10 p of a sentence with its end: a loop that is compiled, and says nothing of its words."""
        found: float = self._model.score(sentence)
        return found

    def score(self, text: list[int]) -> list[float]:
        """log10 p of every word of a text EOS, sentence, EOS, ... but the first."""
        state, after = self._module.State(), self._module.State()
        self._model.BeginSentenceWrite(state)
        found = []
        for number in text[1:]:
            found.append(self._model.BaseScore(state, self._words[number], after))
            if number == 0:
                self._model.BeginSentenceWrite(state)
            else:
                state, after = after, state
        return found
