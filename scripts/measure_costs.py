"""Measures the constants of `llrnn.layer.costs` on one core, and both ways against what the model predicts of them.

python scripts/measure_costs.py
python scripts/measure_costs.py matrices FOLDER CONFIG=DATA...    writes Φ of configurations, to be carried to a GPU
python scripts/measure_costs.py cuda FOLDER FILE    both ways on a GPU by the clock, with these Φ, written as JSON
python scripts/measure_costs.py steps FILE CONFIG=DATA...    whole training steps on a GPU by both ways, added to FILE
python scripts/measure_costs.py fit FILE            the constants of a GPU from that file, and what they choose
python scripts/measure_costs.py lstm                torch's two ways to an LSTM on a CPU (`controllers.torch_lstm`)
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.arrays import Floats
from llrnn.knowledge.features import compile_features
from llrnn.layer import costs
from llrnn.layer.blocks import ComposedBlocks, DirectBlocks, MakeBlocks, Pairs, log_sums, mean_loss
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix
from llrnn.layer.weights import LayerWeights
from llrnn.model.controllers import WithoutOneDNN
from llrnn.text.encoded import EncodedText
from llrnn.training.settings import AnyBatches, SentenceBatches, SlidingBatches
from llrnn.training.updates import Updater
from llrnn.training.workers import Workers

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
    block = out[: costs.CPU.composed_rows]
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
    direct: MakeBlocks = partial(DirectBlocks, phi=phi, offset=offset)

    def composed_weights() -> tuple[Tensor, Tensor]:
        return phi @ weight, phi @ bias + offset

    def kept() -> Tensor:
        log_sum, asked = log_sums(h, *composed_weights(), partial(ComposedBlocks, keeps=True), pairs, N, keeps=True)
        return (log_sum - asked).mean()

    losses: dict[str, Callable[[], Tensor]] = {
        "composed": lambda: mean_loss(h, *composed_weights(), ComposedBlocks, pairs, costs.CPU.composed_rows),
        "direct": lambda: mean_loss(h, weight, bias, direct, pairs, costs.CPU.direct_rows),
        "composed, N × G kept": kept,
    }
    at = costs.Size(N, G, m, phi.nnz, H)
    predicted = {name: costs.composed(at, training=True).seconds() for name in losses}
    predicted["direct"] = costs.direct(at, training=True).seconds()
    measured = interleaved({name: partial(_step, loss) for name, loss in losses.items()}, 9)
    return {name: (measured[name], predicted[name]) for name in losses}


def _step(loss: Callable[[], Tensor]) -> None:
    loss().backward()  # type: ignore[no-untyped-call]


def write_matrices(folder: Path, configs: Sequence[str]) -> None:
    """Φ of each configuration, given as CONFIG=DATA, with what the cost model asks of it besides."""
    folder.mkdir(parents=True, exist_ok=True)
    for given in configs:
        path, _, data = given.partition("=")
        project = Project.from_config(read_config(Path(path), data=data or "data"))
        phi = compile_features(project.output_features, project.vocabulary)
        name = str(Path(path).with_suffix("")).removeprefix("configs/").replace("/", "-")
        hidden = project.config.controller.hidden
        held = {"offsets": phi.offsets, "columns": phi.columns, "values": phi.values, "features": phi.n_features}
        positions = positions_of(project.config.training.batches)
        np.savez(folder / f"{name}.npz", **held, hidden=hidden, positions=positions)
        print(f"{name}: G {phi.n_classes}, m {phi.n_features}, E {len(phi.columns)}, H {hidden}")  # noqa: T201


def positions_of(batches: AnyBatches) -> int:
    """Of a training batch."""
    if isinstance(batches, SentenceBatches):
        return batches.words
    return batches.rows if isinstance(batches, SlidingBatches) else batches.rows * batches.length


def read_matrix(path: Path) -> tuple[FeatureMatrix, int, int]:
    """Φ, H and the positions of a training batch."""
    with np.load(path) as held:
        names = tuple(f"feature {k}" for k in range(int(held["features"])))
        offsets, columns, values = held["offsets"], held["columns"], held["values"]
        phi = FeatureMatrix(names, names, np.arange(len(offsets) - 1), offsets, columns, values)
        return phi, int(held["hidden"]), int(held["positions"])


def on_a_gpu(layer: LogLinear, n: int, *, training: bool, rounds: int = 21) -> dict[str, float]:
    """Milliseconds of the scores of n positions by both ways, taking turns, with their gradients in training."""
    h = torch.randn(n, layer.weight.shape[1], device="cuda", requires_grad=training)
    times: dict[str, list[float]] = {"composed": [], "direct": []}
    weights = layer.weights()
    with torch.set_grad_enabled(training):
        g = torch.randn(n, layer.phi.n_classes, device="cuda") if training else None
        for _ in range(rounds):
            for name, way in (("composed", weights.composed_scores), ("direct", weights.direct_scores)):
                torch.cuda.synchronize()
                started = time.perf_counter()
                scores = way(h)
                if training:
                    scores.backward(g)  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()
                times[name].append(1e3 * (time.perf_counter() - started))
    return {name: statistics.median(each[3:]) for name, each in times.items()}


def write_gpu_times(folder: Path, out: Path) -> None:
    """Every Φ of the folder, from one position to many, with and without gradients."""
    rows = []
    for path in sorted(folder.glob("*.npz")):
        phi, hidden, batch = read_matrix(path)
        layer = LogLinear(phi, hidden, zero=True).to("cuda")
        nn.init.normal_(layer.weight, std=0.1)
        for training, n in [(False, n) for n in (1, 16, 64, 256)] + [(True, n) for n in {64, 256, batch, 8192}]:
            entries = 0 if layer.phi.is_identity else layer.phi.nnz
            size = costs.Size(n, layer.phi.n_classes, layer.phi.n_features, entries, hidden)
            times = on_a_gpu(layer, n, training=training)
            rows.append({"config": path.stem, **size._asdict(), "training": training, **times})
            print(rows[-1])  # noqa: T201
    told = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "unit": "milliseconds", "rows": rows}
    out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf8")


def write_steps(out: Path, configs: Sequence[str], steps: int = 12) -> None:
    """Milliseconds of a training step where knowledge follows the text, its class scores by either way."""
    told = json.loads(out.read_text(encoding="utf8"))
    for given in configs:
        path, _, data = given.partition("=")
        project = Project.from_config(read_config(Path(path), data=data))
        model, settings = project.model().to("cuda"), project.config.training
        updater = Updater(model, settings, Workers())
        plan = settings.batches.make().plan(EncodedText.to_train_on(project.corpora["train"], model.vocabulary), seed=0)
        times: dict[str, list[float]] = {"composed": [], "direct": []}
        for turn, way in enumerate([*times, *times]):  # the first turn of each warms up
            with mock.patch.object(
                LayerWeights, "work", lambda *_, way=way, **__: getattr(costs, way)(costs.Size(1, 1, 1, 1, 1))
            ):
                for number in range(steps):
                    torch.cuda.synchronize()
                    started = time.perf_counter()
                    updater.update(plan[number], None, number=number + 1, seed=number).loss()
                    times[way] += [1e3 * (time.perf_counter() - started)] if turn > 1 else []
        row = {"config": path, **{way: statistics.median(each) for way, each in times.items()}}
        told.setdefault("steps", []).append(row)
        print(row)  # noqa: T201
    out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf8")


def fit(path: Path) -> costs.Machine:
    """The constants that make relative errors of all rows the smallest, none below zero."""
    rows = json.loads(path.read_text(encoding="utf8"))["rows"]
    counted, measured = [], []
    for row in rows:
        size = costs.Size(*(row[name] for name in costs.Size._fields))
        for way in (costs.composed, costs.direct):
            work = way(size, training=row["training"], costs=costs.CUDA)
            counted.append(work.counts)
            measured.append(row[work.name] / 1e3)
    scaled = np.array(counted, float) / np.array(measured)[:, None]  # × constants = 1
    return costs.Machine(*non_negative_least_squares(scaled, np.ones(len(measured))).tolist())


def non_negative_least_squares(a: Floats, b: Floats, rounds: int = 20_000) -> Floats:
    """argmin |a x − b|², x ≥ 0, coordinate by coordinate."""
    width = np.linalg.norm(a, axis=0)
    a, x = a / width, np.zeros(a.shape[1])
    rest = b.copy()
    for k in np.resize(np.arange(a.shape[1]), rounds):
        step = max(float(a[:, k] @ rest), -x[k])
        x[k] += step
        rest -= step * a[:, k]
    return np.asarray(x / width)


def regret(row: Mapping[str, Any], machine: costs.Machine) -> float:
    """How many times longer the way took that is chosen than the better one."""
    size = costs.Size(*(row[name] for name in costs.Size._fields))
    taken = costs.cheapest(size, training=row["training"], costs=machine).name
    return float(row[taken] / min(row["composed"], row["direct"]))


def show_fit(path: Path) -> None:
    machine = fit(path)
    print(machine)  # noqa: T201
    for name, used in (("fitted", machine), ("in use", costs.CUDA)):
        worst = max(regret(row, used) for row in json.loads(path.read_text(encoding="utf8"))["rows"])
        print(f"{name}: chosen way at most {worst:.2f} times the better one")  # noqa: T201


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


def show_lstm() -> None:
    torch.set_num_threads(1)
    for rows, words, training in ((1, 1, False), (64, 32, False), (64, 32, True), (512, 8, True)):
        times = ", ".join(f"{name} {ms:.3f} ms" for name, ms in lstm(rows, words, training=training).items())
        print(f"{rows} × {words}, {'forward and backward' if training else 'forward'}: {times}")  # noqa: T201


def show_cpu() -> None:
    torch.set_num_threads(1)
    for name, found, used in zip(costs.Machine._fields[:6], constants(), costs.CPU, strict=False):
        print(f"{name:15} measured {found:.2e} s, in use {used:.2e} s")  # noqa: T201
    for size in SIZES:
        print("N {}, G {}, m {}, H {}".format(*size))  # noqa: T201
        for name, (measured, predicted) in both_ways(size).items():
            print(f"  {name:22} measured {1e3 * measured:6.1f} ms, predicted {1e3 * predicted:6.1f} ms")  # noqa: T201


def main() -> None:
    torch.manual_seed(0)
    match sys.argv[1:]:
        case ["matrices", folder, *configs]:
            write_matrices(Path(folder), configs)
        case ["cuda", folder, out]:
            write_gpu_times(Path(folder), Path(out))
        case ["steps", out, *configs]:
            write_steps(Path(out), configs)
        case ["fit", path]:
            show_fit(Path(path))
        case ["lstm"]:
            show_lstm()
        case _:
            show_cpu()


if __name__ == "__main__":
    main()
