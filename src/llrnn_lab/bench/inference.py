"""Inference against a dense softmax that is given the expanded |V| × H matrix, one position and many, on one core.

scoring      log p of one word a position: log_softmax of h Wᵀ + b, then gather
sampling     one word a position: torch.multinomial over the softmax of V words, with that softmax and without it
vocabulary   log p, a sample and the best ten at one position, ten thousand words against a million, G fixed
opening      a folder opened and one sentence scored, in a fresh process, against `torch.load` (see `dense_peer`)

The model of the first three has the French model's kind of classes; it was saved, and is measured as `llrnn.load` gives
it. Seconds are those of the processor, on one thread; medians of interleaved runs, ratios medians of the rounds' own
ones. A counted floor stands beside each figure (`inference_rows`). Which words are drawn is random, and the first
word of a class has its alias table made: samples at 10^6 words pay for that too.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.knowledge.backgrounds import Static
from llrnn.layer.distribution import Distribution
from llrnn.model.checkpoint import load
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn_lab.bench import dense_peer, our_opening
from llrnn_lab.bench.machine import all_cores
from llrnn_lab.bench.medians import medians
from llrnn_lab.bench.neural import french_like

_FEW_SYMBOLS, _MANY_SYMBOLS = 10_000, 1_000_000
_A_ROUND = 0.02  # seconds: what is shorter is repeated
_SENTENCE = 20  # words


class _Task:
    """The layer of a model with random weights that was saved and loaded, its static background, and positions."""

    def __init__(self, n_symbols: int, n_classes: int, hidden: int, positions: int) -> None:
        generator = torch.Generator().manual_seed(0)
        model = made_up_model(n_symbols, n_classes, hidden)
        torch.nn.init.normal_(model.layer.weight, std=0.05, generator=generator)
        with tempfile.TemporaryDirectory(prefix="llrnn-bench-") as folder:
            model.save(folder)
            model = load(folder)
        self.layer, self.prior = model.layer, model.background.prior([()])
        self.h = torch.randn(positions, hidden, generator=generator) * 0.5
        self.targets = torch.randint(n_symbols, (positions,), generator=generator)

    def ours(self) -> Distribution:
        """Made anew, as a model does at every step."""
        return self.layer.distribution(self.h, self.prior)

    def dense(self) -> tuple[Tensor, Tensor]:
        of_word = self.layer.classes.class_of
        weight = (self.layer.phi @ self.layer.weight)[of_word]
        return weight, (self.layer.phi @ self.layer.bias)[of_word] + self.prior.tables[0].log_b.to(weight.dtype)


@torch.no_grad()
def scoring(n_symbols: int, n_classes: int, hidden: int, positions: int, rounds: int) -> dict[str, Any]:
    """log p of one word a position."""
    task = _Task(n_symbols, n_classes, hidden, positions)
    weight, bias = task.dense()

    def dense() -> Tensor:
        return F.log_softmax(F.linear(task.h, weight, bias), -1).gather(1, task.targets[:, None])[:, 0]

    found = compared(
        {
            "llrnn": lambda: task.ours().log_prob(task.targets),
            "dense": dense,
        },
        rounds,
    )
    difference = (task.ours().log_prob(task.targets) - dense()).abs().max()
    return {**found, "largest difference": float(difference)}


@torch.no_grad()
def sampling(n_symbols: int, n_classes: int, hidden: int, rounds: int) -> dict[str, Any]:
    """One exact sample at one position, from h; and where both have finished their probabilities before."""
    task = _Task(n_symbols, n_classes, hidden, 1)
    weight, bias = task.dense()
    finished = F.softmax(F.linear(task.h, weight, bias), -1)
    ours = task.ours()
    ours.sample()
    contenders: dict[str, Callable[[], object]] = {
        "llrnn": lambda: task.ours().sample(),
        "softmax and multinomial": lambda: torch.multinomial(F.softmax(F.linear(task.h, weight, bias), -1), 1),
        "multinomial alone": lambda: torch.multinomial(finished, 1),
        "llrnn, drawing alone": ours.sample,
    }
    return compared(contenders, rounds)


@torch.no_grad()
def by_vocabulary(n_classes: int, hidden: int, rounds: int) -> dict[str, Any]:
    """The same G, a hundred times the words: seconds at 10^6 over seconds at 10^4."""
    n_classes = min(n_classes, _FEW_SYMBOLS)
    tasks = {V: _Task(V, n_classes, hidden, 1) for V in (_FEW_SYMBOLS, _MANY_SYMBOLS)}
    asked: dict[str, Callable[[_Task], object]] = {
        "log_prob": lambda task: task.ours().log_prob(task.targets),
        "sample": lambda task: task.ours().sample(),
        "top": lambda task: task.ours().top(10),
    }
    found: dict[str, Any] = {}
    for name, ask in asked.items():
        times = compared({str(V): partial(ask, task) for V, task in tasks.items()}, 3 * rounds)
        few, many = times.values()
        found[name] = {"10^4": few["seconds"], "10^6": many["seconds"], "ratio": many["times ours"]}
    return found


def opening(n_symbols: int, n_classes: int, hidden: int, rounds: int) -> dict[str, Any]:
    """Seconds to open and to score a sentence, from where the libraries have been imported, files in the cache."""
    with tempfile.TemporaryDirectory(prefix="llrnn-bench-") as name:
        folder = Path(name)
        model = made_up_model(n_symbols, n_classes, hidden)
        model.save(folder / "model")
        words = [EOS, *(model.vocabulary.symbols[i] for i in _chosen(n_symbols)), EOS]
        ids = model.vocabulary.ids(words)
        _save_dense(model, folder)
        del model
        contenders = {
            "llrnn": [our_opening.__file__, str(folder / "model"), json.dumps(words[1:-1]), "verify"],
            "llrnn, not verified": [our_opening.__file__, str(folder / "model"), json.dumps(words[1:-1]), "trust"],
            "torch.load": [dense_peer.__file__, str(folder / "ids.pt"), "read", json.dumps(ids)],
            "torch.load, mmap": [dense_peer.__file__, str(folder / "ids.pt"), "mmap", json.dumps(ids)],
            "torch.load, words looked up": [dense_peer.__file__, str(folder / "words.pt"), "read", json.dumps(words)],
        }
        sizes = {"llrnn": _megabytes(folder / "model"), "dense": (folder / "ids.pt").stat().st_size / 1e6}
        return {**_fresh(contenders, rounds), "megabytes": sizes}


def made_up_model(n_symbols: int, n_classes: int, hidden: int) -> LLRNN:
    """Random weights; every word has a name, a count and a mass of its own."""
    rng = np.random.default_rng(0)
    words = [EOS, *(f"w{number:x}{'stuvwxyz'[number % 8] * (number % 5)}" for number in range(1, n_symbols))]
    counts = np.sort(rng.zipf(1.3, n_symbols).clip(max=10**7))[::-1].copy()
    log_b = torch.from_numpy(np.log(counts / counts.sum()))
    return LLRNN(
        Vocabulary(words, counts=counts.tolist()),
        output_features=french_like(n_symbols, n_classes),
        background=Static(log_b, name="bench"),
        controller=LSTM(hidden),
    )


def _chosen(n_symbols: int) -> list[int]:
    numbers: list[int] = np.random.default_rng(1).integers(1, n_symbols, _SENTENCE).tolist()
    return numbers


@torch.no_grad()
def _save_dense(model: LLRNN, folder: Path) -> None:
    """The same output distribution; its inputs are rows of W, so the network is fed something else."""
    layer, of_word = model.layer, model.layer.classes.class_of
    weight = (layer.phi @ layer.weight)[of_word]
    bias = (layer.phi @ layer.bias)[of_word] + model.background.prior([()]).tables[0].log_b.float()
    H = weight.shape[1]
    lstm = torch.nn.LSTM(H, H, 1, batch_first=True)
    dense_peer.save(folder / "ids.pt", weight, bias, lstm, None)
    dense_peer.save(folder / "words.pt", weight, bias, lstm, list(model.vocabulary.symbols))


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def _fresh(contenders: Mapping[str, list[str]], rounds: int) -> dict[str, Any]:
    """Each in a process of its own, taking turns; the first turn fills the file cache."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, arguments in contenders.items():
            begun = time.perf_counter()
            with all_cores():
                done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
            runs[name].append({**json.loads(done.stdout), "process, wall": time.perf_counter() - begun})
    times = {name: [run["seconds"] for run in found[1:]] for name, found in runs.items()}
    result: dict[str, Any] = medians(times)
    for name, found in runs.items():
        for figure in sorted(found[0].keys() - {"seconds", "log_p"}):
            result[name][figure] = statistics.median(run[figure] for run in found[1:])
    return result


def compared(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Any]:
    """Median seconds of each, taking turns, and how many times the first one's."""
    for task in contenders.values():
        task()  # makes the tables that are made once: with them it would seem slow, and be repeated too little
    repeats = {name: 1 + int(_A_ROUND / max(_seconds(task, 2), 1e-6)) for name, task in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, task in contenders.items():
            times[name].append(_seconds(task, repeats[name]))
    return medians(times)


def _seconds(task: Callable[[], object], repeats: int) -> float:
    """Of the processor, not of the clock on the wall: what other processes take does not count."""
    begun = time.process_time()
    for _ in range(repeats):
        task()
    return (time.process_time() - begun) / repeats
