"""Measures the constants of `llrnn.costs` on one core, and both ways against what the model predicts of them.

python scripts/measure_costs.py
python scripts/measure_costs.py cuda        on a GPU, by the clock: both ways to the scores, and which one is chosen
python scripts/measure_costs.py lstm        torch's two ways to an LSTM on a CPU (`llrnn.controllers.torch_lstm`)
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from llrnn import costs
from llrnn.controllers.torch_lstm import WithoutOneDNN
from llrnn.features.matrix import FeatureMatrix
from llrnn.fused import chosen as fused_chosen
from llrnn.fused.by_rows import MakeWay, log_sums, mean_loss
from llrnn.fused.weighing import Composed, Direct, Pairs
from llrnn.loglinear import LogLinear
from llrnn.numerics import SparseMatrix

ENTRIES = 6  # of each class
SIZES = ((1024, 3244, 2553, 256), (1024, 10_000, 500, 256), (1024, 900, 440, 128), (256, 3244, 2553, 256))  # N, G, m, H


def seconds(work: Callable[[], object], rounds: int = 9) -> float:
    """The processor's time, so that other programs do not count."""
    return interleaved({"alone": work}, rounds)["alone"]


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median of each, taking turns."""
    runs: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            started = time.process_time()
            work()
            runs[name] += [time.process_time() - started] if turn else []
    return {name: statistics.median(found) for name, found in runs.items()}


def random_matrix(n_classes: int, n_features: int, seed: int = 0) -> SparseMatrix:
    return SparseMatrix(random_features(n_classes, n_features, seed))


def random_features(n_classes: int, n_features: int, seed: int = 0) -> FeatureMatrix:
    """Classes of six features each."""
    rng = np.random.default_rng(seed)
    columns = np.sort(np.stack([rng.permutation(n_features)[:ENTRIES] for _ in range(n_classes)]), 1).reshape(-1)
    names = tuple(f"feature {k}" for k in range(n_features))
    classes, offsets = np.arange(n_classes), np.arange(n_classes + 1) * ENTRIES
    return FeatureMatrix(names, names, classes, offsets, columns, np.ones(len(columns)))


def constants() -> costs.Machine:
    """Each from the operation that it is the constant of, at French sizes."""
    N, G, m, H = SIZES[0]
    h, weight, bias, out = torch.randn(N, H), torch.randn(G, H), torch.randn(G), torch.empty(N, G)
    product = seconds(lambda: torch.addmm(bias, h, weight.t(), out=out))
    one = seconds(lambda: torch.addmm(bias, h[:1], weight.t(), out=out[:1]), 99)
    phi, narrow, wide = random_matrix(G, m), torch.randn(m, 2), torch.randn(m, 128)
    few, many = seconds(lambda: phi @ narrow, 99), seconds(lambda: phi @ wide, 99)
    block = out[: costs.ROWS_COMPOSED]
    term = seconds(lambda: (block.amax(1), block.sub_(0.0).exp_().sum(1), block.zero_()))
    addition = (many - few) / (phi.nnz * 126)
    entry = few / phi.nnz - 2 * addition
    tiny = torch.zeros(1, 8)
    calls = seconds(lambda: [tiny.add_(0.0) for _ in range(12)], 99)
    return costs.Machine(product / (N * G * H), one / (4 * G * H), addition, entry, term / block.numel(), calls)


def both_ways(size: tuple[int, int, int, int]) -> dict[str, tuple[float, float]]:
    """Seconds of a training step of the layer by each way, measured and predicted."""
    N, G, m, H = size
    phi, offset = random_matrix(G, m), torch.randn(G)
    h, weight, bias = (torch.randn(*shape).mul_(0.1).requires_grad_() for shape in ((N, H), (m, H), (m,)))
    pairs = Pairs(torch.arange(N), torch.randint(G, (N,)))
    direct: MakeWay = partial(Direct, phi=phi, offset=offset)

    def composed_weights() -> tuple[Tensor, Tensor]:
        return phi @ weight, phi @ bias + offset

    def kept() -> Tensor:
        log_sum, asked = log_sums(h, *composed_weights(), partial(Composed, keeps=True), pairs, N, keeps=True)
        return (log_sum - asked).mean()

    losses: dict[str, Callable[[], Tensor]] = {
        "composed": lambda: mean_loss(h, *composed_weights(), Composed, pairs, costs.ROWS_COMPOSED),
        "direct": lambda: mean_loss(h, weight, bias, direct, pairs, costs.ROWS_DIRECT),
        "composed, N × G kept": kept,
    }
    at = costs.Size(N, G, m, phi.nnz, H)
    predicted = {name: costs.composed(at, training=True).seconds() for name in losses}
    predicted["direct"] = costs.direct(at, training=True).seconds()
    measured = interleaved({name: partial(_step, loss) for name, loss in losses.items()}, 9)
    return {name: (measured[name], predicted[name]) for name in losses}


def _step(loss: Callable[[], Tensor]) -> None:
    loss().backward()  # type: ignore[no-untyped-call]


def on_a_gpu(n: int, *, training: bool, rounds: int = 21) -> tuple[dict[str, float], str]:
    """Milliseconds of the scores of n positions by both ways, of French, and the way that is chosen."""
    _, G, m, H = SIZES[0]
    layer = LogLinear(random_features(G, m), H).to("cuda")
    h, found = torch.randn(n, H, device="cuda", requires_grad=training), {}
    ways = {"composed": layer.composed_scores, "direct": layer.direct_scores}
    with torch.set_grad_enabled(training):
        chosen = "composed" if fused_chosen.composes(layer, h) else "direct"
        for name, way in ways.items():
            times = []
            for _ in range(rounds):
                torch.cuda.synchronize()
                started = time.perf_counter()
                scores = way(h)
                if training:
                    scores.backward(torch.ones_like(scores))  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()
                times.append(1e3 * (time.perf_counter() - started))
            found[name] = statistics.median(times)
    return found, chosen


def lstm(rows: int, words: int, *, training: bool, hidden: int = 256) -> dict[str, float]:
    """Milliseconds of one layer, with gradients in training."""
    network, x = nn.LSTM(hidden, hidden, batch_first=True), torch.randn(rows, words, hidden, requires_grad=training)
    repeats = 1 if rows * words > 100 else 100

    def run() -> None:
        for _ in range(repeats):
            h, _ = network(x)
            if training:
                h.sum().backward()

    def without() -> None:
        with WithoutOneDNN():
            run()

    with torch.set_grad_enabled(training):
        found = interleaved({"oneDNN": run, "torch": without}, 9)
    return {name: 1e3 * each / repeats for name, each in found.items()}


def main() -> None:
    torch.manual_seed(0)
    if sys.argv[1:] == ["lstm"]:
        torch.set_num_threads(1)
        for rows, words, training in ((1, 1, False), (64, 32, False), (64, 32, True), (512, 8, True)):
            times = ", ".join(f"{name} {ms:.3f} ms" for name, ms in lstm(rows, words, training=training).items())
            print(f"{rows} × {words}, {'forward and backward' if training else 'forward'}: {times}")  # noqa: T201
        return
    if sys.argv[1:] == ["cuda"]:
        for training in (False, True):
            for n in (1, 16, 128, 1024, 8192):
                found, taken = on_a_gpu(n, training=training)
                times = ", ".join(f"{name} {ms:.3f} ms" for name, ms in found.items())
                print(f"N {n}, {'forward and backward' if training else 'forward'}: {times}; chosen: {taken}")  # noqa: T201
        return
    torch.set_num_threads(1)
    for name, found, used in zip(costs.Machine._fields, constants(), costs.CPU, strict=True):
        print(f"{name:15} measured {found:.2e} s, in use {used:.2e} s")  # noqa: T201
    for size in SIZES:
        print("N {}, G {}, m {}, H {}".format(*size))  # noqa: T201
        for name, (measured, predicted) in both_ways(size).items():
            print(f"  {name:22} measured {1e3 * measured:6.1f} ms, predicted {1e3 * predicted:6.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
