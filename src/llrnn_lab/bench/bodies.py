"""Bodies against the LSTM: words a second in training, alone and under a layer of French size.

    alone     the body reads 64 rows of 32 words and gives gradients back
    model     the same with ψ, the log-linear layer over 3,128 classes (42,592 words) and the exact loss

Seconds of the processor on one core, with dropout; on a GPU those of steps recorded as CUDA graphs, as training runs
them, without. Medians of interleaved rounds, ratios medians of the rounds' own ones. What each body costs in perplexity
is in docs/results/bodies.json.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import llrnn_lab.bodies  # noqa: F401  # which registers the kinds that the package does not have
from llrnn.knowledge import backgrounds
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Controller, make_controller
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn.training.objectives import Exact
from llrnn_lab.bench.neural import french_like

_ROWS, _LENGTH, _WORDS, _CLASSES = 64, 32, 42_592, 3_128
# the first is what the others are compared with; settings as in docs/results/bodies.json
BODIES: dict[str, dict[str, Any]] = {
    "lstm 2 x 512": {"kind": "lstm", "hidden": 512, "layers": 2},
    "lstm 1 x 512": {"kind": "lstm", "hidden": 512, "layers": 1},
    "lstm 1 x 480": {"kind": "lstm", "hidden": 480, "layers": 1},
    "lstm 2 x 384": {"kind": "lstm", "hidden": 384, "layers": 2},
    "gru 2 x 512": {"kind": "gru", "hidden": 512, "layers": 2},
    "mingru 2 x 512": {"kind": "mingru", "hidden": 512, "layers": 2, "reach": 1},
    "mingru 4 x 512": {"kind": "mingru", "hidden": 512, "layers": 4, "reach": 1},
    "mingru 3 x 384, two words": {"kind": "mingru", "hidden": 384, "layers": 3, "reach": 2},
    "transformer 4 x 512": {"kind": "transformer", "hidden": 512, "layers": 4, "heads": 8},
    "mogrifier 2 x 512": {"kind": "mogrifier", "hidden": 512, "layers": 2},
}


def bodies(*, rounds: int = 5, device: torch.device | None = None) -> dict[str, Any]:
    """Words a second of each body, alone and in a model, and how many times those of the first."""
    device = device or torch.device("cpu")
    features, words = french_like(_WORDS, _CLASSES), [EOS, *(f"w{i}" for i in range(_WORDS - 1))]
    vocabulary = Vocabulary(words)
    tasks: dict[str, dict[str, Callable[[], None]]] = {"alone": {}, "model": {}}
    for name, settings in BODIES.items():
        body = make_controller({**settings, "dropout": 0.5}).to(device)
        tasks["alone"][name] = _alone(body, device)
        model = LLRNN(
            vocabulary, output_features=features, controller=body, background=backgrounds.Uniform(), tied=True
        )
        tasks["model"][name] = _in_a_model(model.to(device))
    found = {"rows": _ROWS, "length": _LENGTH, "words": _WORDS, "classes": _CLASSES, "device": str(device)}
    return {**found, **{which: _compared(own, rounds, device) for which, own in tasks.items()}}


def _alone(body: Controller, device: torch.device) -> Callable[[], None]:
    psi = torch.randn(_ROWS, _LENGTH, body.inputs, device=device, requires_grad=True)
    generator = _generator(device)

    def task() -> None:
        h, _ = body.scan(psi, body.initial([None] * _ROWS), generator=generator)
        h.sum().backward()  # type: ignore[no-untyped-call]

    return task


def _in_a_model(model: LLRNN) -> Callable[[], None]:
    drawn = torch.randint(_WORDS, (_ROWS, _LENGTH + 1), generator=torch.Generator().manual_seed(0)).to(model.device)
    batch = Batch(drawn[:, :-1], drawn[:, 1:], torch.ones_like(drawn[:, 1:], dtype=torch.bool))
    generator, objective = _generator(model.device), Exact("full")

    def task() -> None:
        model.zero_grad(set_to_none=True)
        p, _ = model.scan(batch, generator=generator)
        loss: Tensor = objective(model, p, batch, generator)
        loss.backward()  # type: ignore[no-untyped-call]

    return task


def _generator(device: torch.device) -> torch.Generator | None:
    return torch.Generator(device).manual_seed(0) if device.type == "cpu" else None


def _recorded(task: Callable[[], None]) -> Callable[[], None]:
    """The task as a CUDA graph: calls of Python are not what is measured."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            task()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        task()
    return graph.replay


def _compared(tasks: dict[str, Callable[[], None]], rounds: int, device: torch.device) -> dict[str, Any]:
    if device.type == "cuda":
        tasks = {name: _recorded(task) for name, task in tasks.items()}
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(rounds + 1):
        for name, task in tasks.items():
            seconds = _seconds(task, device)
            if turn:  # the first makes what is made once
                times[name].append(seconds)
    first = times[next(iter(times))]
    return {
        name: {
            "words_per_second": _ROWS * _LENGTH / statistics.median(own),
            "times the first": statistics.median(theirs / mine for theirs, mine in zip(first, own, strict=True)),
        }
        for name, own in times.items()
    }


def _seconds(task: Callable[[], None], device: torch.device) -> float:
    if device.type == "cpu":
        begun = time.process_time()
        task()
        return time.process_time() - begun
    torch.cuda.synchronize(device)
    begun = time.perf_counter()
    for _ in range(20):
        task()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - begun) / 20
