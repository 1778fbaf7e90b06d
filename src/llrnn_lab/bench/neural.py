"""The layer against a dense softmax, and whole training steps against the softmax RNN."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.config.project import embedded_corpora
from llrnn.knowledge import backgrounds, features
from llrnn.knowledge.process import Batch
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear, exact_loss
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import SparsePrior, Table
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.objectives import Exact
from llrnn_lab.bench.machine import peak_bytes

_ATTRIBUTES = 52  # as many as the paper's tags
_ATTRIBUTES_PER_WORD = 5


def french_like(n_symbols: int, n_classes: int, seed: int = 0) -> FeatureMatrix:
    """A matrix shaped like the paper's French one: 77 % of the classes are single frequent words, all have tags."""
    rng = np.random.default_rng(seed)
    M = min(n_classes, n_symbols) * 2500 // 3244
    tags = np.stack([rng.permutation(_ATTRIBUTES)[:_ATTRIBUTES_PER_WORD] for _ in range(n_classes)]) + M + 1
    identity = np.minimum(np.arange(n_classes), M)
    columns = np.sort(np.concatenate([identity[:, None], tags], 1), 1)
    others = np.concatenate([np.arange(n_classes), rng.integers(M, n_classes, n_symbols - n_classes)])
    names = tuple(f"feature {k}" for k in range(M + 1 + _ATTRIBUTES))
    return FeatureMatrix(
        names=names,
        groups=("bench",) * len(names),
        class_of=others.astype(np.int64),
        offsets=np.arange(n_classes + 1) * columns.shape[1],
        columns=columns.reshape(-1).astype(np.int64),
        values=np.ones(columns.size),
    )


def own_classes(n_symbols: int) -> FeatureMatrix:
    """Every word its own class: the softmax."""
    numbers = np.arange(n_symbols + 1)
    names = tuple(f"word {k}" for k in range(n_symbols))
    return FeatureMatrix(names, ("bench",) * n_symbols, numbers[:-1], numbers, numbers[:-1], np.ones(n_symbols))


class _Task:
    """A layer, its inputs and targets, and the same distribution as a dense softmax over V."""

    def __init__(self, matrix: FeatureMatrix, hidden: int, positions: int, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        self.layer = LogLinear(matrix, hidden, zero=True).to(device)
        with torch.no_grad():
            self.layer.weight.copy_(torch.randn(self.layer.weight.shape, generator=generator) * 0.05)
        V = matrix.n_symbols
        log_b = torch.log_softmax(torch.randn(V, generator=generator, dtype=torch.float64), 0)
        self.prior = SparsePrior.static(Table(log_b)).to(device)
        self.h = (torch.randn(positions, hidden, generator=generator) * 0.5).to(device).requires_grad_()
        self.targets = torch.randint(V, (positions,), generator=generator).to(device)

    def dense_parameters(self) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            of_word = self.layer.classes.class_of
            weight = (self.layer.phi @ self.layer.weight)[of_word].clone().requires_grad_()
            bias = (self.layer.phi @ self.layer.bias)[of_word] + self.prior.tables[0].log_b.to(weight.dtype)
        return weight, bias.requires_grad_()

    def contender(self) -> tuple[Callable[[], Tensor], list[Tensor]]:
        return self.ours, [self.h, self.layer.weight, self.layer.bias]

    def ours(self) -> Tensor:
        distribution: Distribution = self.layer(self.h, self.prior)
        return exact_loss(distribution, self.targets)

    def dense(self, weight: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(self.h, weight, bias), self.targets)

    def fused(self, weight: Tensor, bias: Tensor) -> Tensor:
        """torch's own fused layer, where this torch has it (2.13)."""
        return F.linear_cross_entropy(self.h, weight, self.targets, linear_bias=bias)


def _timed(loss: Callable[[], Tensor], leaves: list[Tensor]) -> tuple[float, float]:
    """Seconds for forward and backward, and the loss."""
    for leaf in leaves:
        leaf.grad = None
    _synchronise(leaves[0].device)
    started = time.perf_counter()
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    _synchronise(leaves[0].device)
    return time.perf_counter() - started, float(value.detach())


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleaved(
    contenders: Mapping[str, tuple[Callable[[], Tensor], list[Tensor]]], rounds: int
) -> dict[str, dict[str, float]]:
    """Median seconds and the loss of each, taking turns so that a noisy machine is noisy for all."""
    for loss, leaves in contenders.values():
        _timed(loss, leaves)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (loss, leaves) in contenders.items():
            runs[name].append(_timed(loss, leaves))
    return {
        name: {"seconds": statistics.median(s for s, _ in timed), "loss": timed[-1][1]} for name, timed in runs.items()
    }


Contenders = dict[str, tuple[Callable[[], Tensor], list[Tensor]]]


def against_dense(
    matrix: FeatureMatrix, hidden: int, positions: int, rounds: int, device: torch.device
) -> dict[str, Any]:
    """Seconds of ours and of the peers, forward and backward, and how many times ours that is."""
    task = _Task(matrix, hidden, positions, device)
    contenders = _contenders(task)
    result: dict[str, Any] = interleaved(contenders, rounds)
    ours = result["llrnn"]["seconds"]
    for name in contenders:
        result[name]["times ours"] = result[name]["seconds"] / ours
    result["loss difference"] = abs(result["llrnn"]["loss"] - result["dense"]["loss"])
    return result


def _contenders(task: _Task) -> Contenders:
    weight, bias = task.dense_parameters()
    leaves = [task.h, weight, bias]
    contenders: Contenders = {"llrnn": task.contender(), "dense": (partial(task.dense, weight, bias), leaves)}
    if hasattr(F, "linear_cross_entropy"):
        contenders["linear_cross_entropy"] = (partial(task.fused, weight, bias), leaves)
    return contenders


def memory(matrix: FeatureMatrix, hidden: int, positions: int) -> dict[str, int]:
    """The most bytes of a step of each, on a CPU, beyond inputs and gradients."""
    contenders = _contenders(_Task(matrix, hidden, positions, torch.device("cpu")))
    return {name: _beyond(*contender) for name, contender in contenders.items()}


def _beyond(loss: Callable[[], Tensor], leaves: list[Tensor]) -> int:
    _timed(loss, leaves)  # what is made once and kept is not the step's
    for leaf in leaves:
        leaf.grad = None
    peak = peak_bytes(lambda: loss().backward())  # type: ignore[no-untyped-call]
    return peak - sum(leaf.grad.nbytes for leaf in leaves if leaf.grad is not None)


def by_vocabulary(
    vocabularies: Sequence[int], n_classes: int, hidden: int, positions: int, *, rounds: int, device: torch.device
) -> dict[str, Any]:
    """Seconds and, on a CPU, bytes beyond inputs and gradients, by V; G is the same. The sizes take turns."""
    tasks = {str(V): _Task(french_like(V, n_classes), hidden, positions, device) for V in vocabularies}
    contenders = {V: task.contender() for V, task in tasks.items()}
    seconds = {V: found["seconds"] for V, found in interleaved(contenders, rounds).items()}
    beyond = {V: _beyond(*contender) for V, contender in contenders.items()} if device.type == "cpu" else {}
    return {"G": n_classes, "H": hidden, "N": positions, "seconds": seconds, "bytes": beyond}


def training(n_symbols: int, *, steps: int, device: torch.device, hidden: int = 256) -> dict[str, Any]:
    """Whole training steps on the embedded corpus, its vocabulary filled up with numbers to |V| words."""
    corpus = embedded_corpora(1500, 1, 1)["train"]
    words = Vocabulary.from_corpus(corpus).symbols
    filling = (str(number) for number in range(10**6, 10**6 + max(0, n_symbols - len(words))))
    vocabulary = Vocabulary([*words, *filling])
    phi = features.Identity(top=2500) + features.Attributes(Lexicon.from_corpus(corpus)) + features.Numeric()
    models = {
        "llrnn": LLRNN(
            vocabulary,
            output_features=phi,
            background=backgrounds.Unigram.from_corpus(corpus, smoothing=0.1),
            controller=LSTM(hidden, layers=2),
        ).to(device),
        "softmax": LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(hidden, layers=2)).to(device),
    }
    optimizers = {name: torch.optim.RMSprop(model.parameters(), lr=0.001) for name, model in models.items()}
    plan = Sentences(1024).plan(EncodedText.encode(corpus, vocabulary), seed=0)
    batches = [plan[i % len(plan)].to(device) for i in range(steps + 1)]
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for turn, batch in enumerate(batches):
        for name, model in models.items():
            speed = _words_per_second(model, optimizers[name], batch)
            if turn:  # the first step warms up
                speeds[name].append(speed)
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    return {
        "V": len(vocabulary),
        "G": models["llrnn"].output_features.n_classes,
        "H": hidden,
        "weights": {name: n_weights(model) for name, model in models.items()},
        "words in a batch": statistics.mean(int(batch.mask.sum()) for batch in plan),
        "words per second": medians,
        "ratio": medians["llrnn"] / medians["softmax"],
    }


def n_weights(model: LLRNN) -> int:
    """All numbers that are trained."""
    return sum(weight.numel() for weight in model.parameters())


def _words_per_second(model: LLRNN, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    _synchronise(model.device)
    started = time.perf_counter()
    distribution, _ = model.scan(batch)
    optimizer.zero_grad(set_to_none=True)
    Exact("full")(model, distribution, batch, None).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    _synchronise(model.device)
    return distribution.n / (time.perf_counter() - started)
