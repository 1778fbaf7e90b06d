"""Where the benchmark of the GPU runs: its clock, its memory, its graphs, and the least time that a count allows.

floor = max(operations of the products / rate of products, bytes / rate of memory)

`Gpu` measures with CUDA events and captures CUDA graphs. `Machine` is its reference for a CPU, for tests: the host's
clock, no account of memory, and a graph is the function itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError
from llrnn.layer import reference
from llrnn.layer.chunked import Plan, Problem, weighted_loss
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix

T = TypeVar("T")
_WARM_UP = 3


class Rates(NamedTuple):
    """Operations a second of products in half precision and in float32, bytes a second of the memory."""

    half: float
    float32: float
    memory: float
    source: str


# Dense rates: the datasheets print those of half precision with sparsity, which is twice as much.
CARDS = {
    "NVIDIA H200": Rates(989.5e12, 67e12, 4.8e12, "NVIDIA H200 datasheet, SXM: 1,979 / 2 and 67 TFLOP/s, 4.8 TB/s"),
    "NVIDIA H100 80GB HBM3": Rates(
        989.5e12, 67e12, 3.35e12, "NVIDIA H100 datasheet, SXM: 1,979 / 2 and 67 TFLOP/s, 3.35 TB/s"
    ),
}


class Contender:
    """A step, forward and backward, that returns the loss; its inputs; log p of the words, where it can be asked."""

    def __init__(
        self, step: Callable[[], Tensor], leaves: Sequence[Tensor], log_p: Callable[[], Tensor] | None = None
    ) -> None:
        self._step, self.leaves, self.log_p = step, leaves, log_p

    def run(self) -> Tensor:
        self.clear()
        return self._step()

    def clear(self) -> None:
        for leaf in self.leaves:
            leaf.grad = None

    def gradients(self) -> list[Tensor]:
        """Those of the last run."""
        return [leaf.grad for leaf in self.leaves if leaf.grad is not None]


class _Captured(Contender):
    """One graph: every replay writes the loss and the gradients where they were when it was captured."""

    def __init__(self, graph: torch.cuda.CUDAGraph, loss: Tensor, of: Contender) -> None:
        super().__init__(lambda: loss, of.leaves)
        self._graph, self._loss, self._gradients = graph, loss, of.gradients()

    def run(self) -> Tensor:
        self._graph.replay()
        return self._loss

    def gradients(self) -> list[Tensor]:
        return self._gradients


class Machine:
    """A CPU."""

    device = torch.device("cpu")
    name = "cpu"

    def milliseconds(self, run: Callable[[], object]) -> float:
        started = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - started)

    def with_peak(self, act: Callable[[], T]) -> tuple[T, int]:
        """What it returns, and the most bytes beyond those that were there before."""
        return act(), 0

    def warm_up(self, contender: Contender) -> None:
        """Before it is captured."""
        contender.run()

    def graph(self, contender: Contender) -> Contender:
        """Its step as one graph."""
        return contender

    def graphed(self, module: nn.Module, *samples: Tensor) -> Callable[..., Tensor]:
        """The module as two graphs, forward and backward."""
        return module


class Gpu(Machine):
    """The current CUDA device."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ConfigError(
                "`llrnn bench --only gpu` needs a CUDA GPU, and torch found none here; run it on a machine that has "
                "one, or `--only layer` on this one"
            )
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.name = torch.cuda.get_device_name()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # one: workspaces belong to streams

    def milliseconds(self, run: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def with_peak(self, act: Callable[[], T]) -> tuple[T, int]:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = act()
        torch.cuda.synchronize()
        return found, torch.cuda.max_memory_allocated() - before

    def warm_up(self, contender: Contender) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UP):
                contender.run()
        torch.cuda.current_stream().wait_stream(self._stream)

    def graph(self, contender: Contender) -> Contender:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            loss = contender.run()
        captured = _Captured(graph, loss, contender)
        contender.clear()
        return captured

    def graphed(self, module: nn.Module, *samples: Tensor) -> Callable[..., Tensor]:
        """Shapes are fixed, and so is where the results lie: a replay overwrites those of the one before."""
        call = torch.cuda.make_graphed_callables(module, samples)
        for parameter in module.parameters():
            # else .grad would be the buffer that the next replay overwrites
            parameter.register_hook(torch.clone)  # type: ignore[no-untyped-call]
        return cast(Callable[..., Tensor], call)


def interleaved(
    machine: Machine, runs: Mapping[str, Callable[[], object]], rounds: int, steps: int = 1
) -> dict[str, float]:
    """Median milliseconds of each, taking turns of so many steps, so that a machine that slows down does so for all."""
    for run in runs.values():
        for _ in range(_WARM_UP):
            run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(machine.milliseconds(partial(_repeat, run, steps)) / steps)
    return {name: statistics.median(each) for name, each in found.items()}


def _repeat(run: Callable[[], object], steps: int) -> None:
    for _ in range(steps):
        run()


def measured_rates(machine: Machine, size: int, rounds: int) -> Rates:
    """What products of size × size and a copy of 64 times as many bytes get, on random numbers."""
    matrix = torch.randn(size, size, device=machine.device)
    half, long = matrix.to(torch.bfloat16), torch.randn(16 * size, size, device=machine.device)
    out, half_out, copied = torch.empty_like(matrix), torch.empty_like(half), torch.empty_like(long)
    ms = interleaved(
        machine,
        {
            "half": lambda: torch.mm(half, half, out=half_out),
            "float32": lambda: torch.mm(matrix, matrix, out=out),
            "copy": lambda: copied.copy_(long),
        },
        rounds,
    )
    operations, moved = 2 * size**3, 2 * long.numel() * long.itemsize
    half_rate, rate, memory = (
        1000 * count / ms[name] for name, count in (("half", operations), ("float32", operations), ("copy", moved))
    )
    return Rates(half_rate, rate, memory, f"measured: products of {size:,} × {size:,}, and a copy")


class Cost(NamedTuple):
    """What is counted: operations of the products, and bytes with each input read once and each output written once."""

    operations: int
    bytes: int

    def floor(self, rates: Rates, dtype: torch.dtype) -> dict[str, Any]:
        """The least milliseconds, with how they come about."""
        products = 1000 * self.operations / (rates.float32 if dtype == torch.float32 else rates.half)
        memory = 1000 * self.bytes / rates.memory
        return {
            "operations": self.operations,
            "bytes": self.bytes,
            "ms_of_products": products,
            "ms_of_bytes": memory,
            "ms": max(products, memory),
        }


# One layer for the benchmark of the GPU: by classes as it is ours, and as the dense softmax that the peers compute.
#
# ours     log p(w) = log_share[w] + score − log_sum          Φ (G, m) and W (m, H)
# peers    log p(w) = log softmax(h · W_w + b_w)[w]           W (V, H) and b (V,) expanded for them, free
#
# The truth is ours in float64. Gradients of the peers are brought to the features, as by the chain rule, to be
# compared.


HALF = torch.bfloat16
Leaves = tuple[Tensor, Tensor, Tensor]  # h, W and the bias


class Found(NamedTuple):
    """The loss, log p of the words, and the gradients of h, W and the bias."""

    loss: float
    log_p: Tensor | None
    gradients: Sequence[Tensor]


class Task:
    """Φ, a background by words, inputs in half precision, words to predict."""

    def __init__(
        self, matrix: FeatureMatrix, hidden: int, positions: int, machine: Machine, weight: torch.dtype = torch.float32
    ) -> None:
        device, generator = machine.device, torch.Generator().manual_seed(0)
        V, m = matrix.n_symbols, matrix.n_features
        self.phi = SparseMatrix(matrix).for_kernels(torch.zeros(0, device=device))
        self.sizes = {"V": V, "G": matrix.n_classes, "m": m, "H": hidden, "N": positions}
        self.h = (torch.randn(positions, hidden, generator=generator) * 0.5).to(device, HALF)
        self.weight = (torch.randn(m, hidden, generator=generator) * 0.05).to(device, weight)
        self.bias = (torch.randn(m, generator=generator) * 0.1).to(device)
        self.words = torch.randint(V, (positions,), generator=generator).to(device)
        self.class_of = torch.from_numpy(matrix.class_of).to(device)
        self.log_b = torch.log_softmax(torch.randn(V, generator=generator, dtype=torch.float64).to(device), 0)
        mass = self.log_b.new_zeros(matrix.n_classes).index_add_(0, self.class_of, self.log_b.exp())
        self.log_mass = mass.log().float()
        self.log_share = (self.log_b - mass.log()[self.class_of]).float()
        self._exact = mass.log(), self.log_b - mass.log()[self.class_of]

    def leaves(self, h: torch.dtype = HALF) -> Leaves:
        """Copies of h, W and the bias that get gradients."""
        return _leaves(self.h.to(h), self.weight, self.bias)

    def expanded(self, dtype: torch.dtype = HALF) -> Leaves:
        """h, and W and b of every word."""
        parameters = self.weight.double(), self.bias.double()
        weight, bias = reference.row_sums(self.phi.rows, *parameters, None, None, torch.float64)
        of_word = self.class_of
        return _leaves(self.h.to(dtype), weight.to(dtype)[of_word], (bias[of_word] + self.log_b).to(dtype))

    def reference(self, rows: int = 2048) -> Found:
        """In float64."""
        leaves = _leaves(self.h.double(), self.weight.double(), self.bias.double())
        log_mass, log_share = self._exact
        problem = Problem(self.phi, log_mass, self.class_of[self.words])
        loss, surprisal = weighted_loss(*leaves, problem, None, Plan(torch.float64, torch.float64, rows))
        share = log_share[self.words]
        return Found(float((loss - share.mean()).detach()), share - surprisal, torch.autograd.grad(loss, leaves))

    def by_features(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of h, W and b of every word as those of h, W and the bias of the features."""
        of_h, of_weight, of_bias = gradients
        G, H = self.sizes["G"], self.sizes["H"]
        weight = of_weight.new_zeros(G, H, dtype=torch.float64).index_add_(0, self.class_of, of_weight.double())
        bias = of_bias.new_zeros(G, dtype=torch.float64).index_add_(0, self.class_of, of_bias.double())
        return [of_h, *reference.row_sums(self.phi.columns, weight, bias, None, None, torch.float64)]

    def cost(self, outputs: int, products: int, leaves: Sequence[Tensor]) -> Cost:
        """Of forward and backward by so many outputs (G, or V for the peers); the leaves are read, their gradients
        written."""
        operations = 2 * products * self.sizes["N"] * outputs * self.sizes["H"]
        return Cost(operations, 2 * sum(leaf.numel() * leaf.itemsize for leaf in leaves))


def errors(truth: Found, found: Found) -> dict[str, float]:
    """The loss and log p: differences; gradients: the norm of the difference by that of the true one."""
    of = {"loss": abs(found.loss - truth.loss)}
    if found.log_p is not None and truth.log_p is not None:
        difference = found.log_p.double() - truth.log_p
        of |= {"log_p_rms": float(difference.square().mean().sqrt()), "log_p_max": float(difference.abs().max())}
    for name, one, true in zip(("dh", "dW", "dc"), found.gradients, truth.gradients, strict=True):
        of[name] = float((one.double() - true).norm() / true.norm())
    return of


def _leaves(h: Tensor, weight: Tensor, bias: Tensor) -> Leaves:
    """Copies that get gradients."""
    return h.clone().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()


# --- ours -----------------------------------------------------------------------------------------------------------

Way = Callable[[Task, Leaves, Tensor, Plan | None], tuple[Tensor, Tensor]]


def _weighted(task: Task, leaves: Leaves, words: Tensor, plan: Plan | None) -> tuple[Tensor, Tensor]:
    loss, surprisal = weighted_loss(*leaves, _problem(task, words), None, plan)
    return loss - task.log_share[words].mean(), surprisal


def _problem(task: Task, words: Tensor) -> Problem:
    return Problem(task.phi, task.log_mass, task.class_of[words])


WAYS: dict[str, Way] = {"weighted_loss": _weighted}
PRODUCTS = 3


def eager(task: Task, way: Way, plan: Plan | None = None, h: torch.dtype = HALF) -> Contender:
    """One kernel after the other, each launched by the host."""
    leaves = task.leaves(h)

    def step() -> Tensor:
        loss, _ = way(task, leaves, task.words, plan)
        return _backward(loss)

    def log_p() -> Tensor:
        return task.log_share[task.words] - way(task, leaves, task.words, plan)[1]

    return Contender(step, leaves, log_p)


class _Loss(nn.Module):
    """The layer as a module with parameters: what `Machine.graphed` takes."""

    def __init__(self, task: Task, way: Way) -> None:
        super().__init__()
        self._task, self._way = task, way
        self.weight, self.bias = (nn.Parameter(leaf.clone()) for leaf in (task.weight, task.bias))

    def forward(self, h: Tensor, words: Tensor) -> Tensor:
        return self._way(self._task, (h, self.weight, self.bias), words, None)[0]


def callables(task: Task, way: Way, machine: Machine) -> Contender:
    """Two graphs, between which a program goes on with what it does: as in training."""
    module, h = _Loss(task, way), task.leaves()[0]
    call = machine.graphed(module, task.leaves()[0], task.words.clone())

    return Contender(lambda: _backward(call(h, task.words)), [h, module.weight, module.bias])


def public(task: Task, matrix: FeatureMatrix, h: torch.dtype) -> Contender:
    """`LogLinear.loss` as a network of one's own calls it: under autocast where its h is in half precision."""
    layer = LogLinear(matrix, task.sizes["H"], background=task.log_b).to(task.h.device)
    layer.weight, layer.bias = nn.Parameter(task.weight.clone()), nn.Parameter(task.bias.clone())
    leaf = task.leaves(h)[0]

    def step() -> Tensor:
        with torch.autocast(leaf.device.type, HALF, enabled=h == HALF):
            loss = layer.loss(leaf, task.words)
        return _backward(loss)

    return Contender(step, [leaf, layer.weight, layer.bias])


def _backward(loss: Tensor) -> Tensor:
    """Without keeping the graph of autograd alive, which a capture would complain about."""
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


# The peers of the layer on a GPU: a softmax over V words from h, W (V, H) and b (V,), all in half precision.
#
# dense                  F.cross_entropy of F.linear
# chunked                the same, so many positions at a time, each with its backward pass
# gradients in forward   chunk by chunk, D = (softmax − one-hot) / N made at once: dh = D W, dW = Dᵀ h, db = Dᵀ 1
#
# Each as it is written, and compiled; `gradients in forward` is what Liger's kernel does, with torch's own compiler.


Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Chunk = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]


def peers(task: Task, *, compiled: bool, autotuned: bool) -> dict[str, Callable[[], Contender]]:
    """How each is made: not all of them at once, since some hold gigabytes. The chunks are those that did best."""
    N = task.sizes["N"]
    found: dict[str, Callable[[], Contender]] = {
        "dense": lambda: _dense(task, _mean),
        f"chunked by {N // 8:,}": lambda: _chunked(task, _sum, N // 8),
    }
    if not compiled:
        return found | {f"gradients in forward by {N // 4:,}": lambda: _in_forward(task, _of_chunk, N // 4)}
    found["dense, compiled"] = lambda: _dense(task, _compiled(_mean))
    if autotuned:
        found["dense, max-autotune"] = lambda: _dense(task, _compiled(_mean, "max-autotune-no-cudagraphs"))
    found[f"chunked by {N // 4:,}, compiled"] = lambda: _chunked(task, _compiled(_sum), N // 4)
    found[f"gradients in forward by {N // 8:,}, compiled"] = lambda: _in_forward(task, _compiled(_of_chunk), N // 8)
    found[f"gradients in forward by {N // 2:,}, compiled"] = lambda: _in_forward(task, _compiled(_of_chunk), N // 2)
    return found


def _compiled(function: Any, mode: str | None = None) -> Any:
    return torch.compile(function, dynamic=False, mode=mode)


def _mean(h: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(h, weight, bias), words)


def _sum(h: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(h, weight, bias), words, reduction="sum")


def _dense(task: Task, mean: Loss) -> Contender:
    leaves = task.expanded()

    def step() -> Tensor:
        loss = mean(*leaves, task.words)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def log_p() -> Tensor:
        return -F.cross_entropy(F.linear(*leaves), task.words, reduction="none")

    return Contender(step, leaves, log_p)


def _chunked(task: Task, loss_of: Loss, rows: int) -> Contender:
    h, weight, bias = leaves = task.expanded()

    def step() -> Tensor:
        total = torch.zeros((), device=h.device)
        for start in range(0, len(h), rows):
            part = slice(start, start + rows)
            loss = loss_of(h[part], weight, bias, task.words[part]) / len(h)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    return Contender(step, leaves)


def _of_chunk(logits: Tensor, bias: Tensor, words: Tensor, n: float) -> tuple[Tensor, Tensor, Tensor]:
    """What a chunk adds to the loss, its D, and what it adds to db."""
    x = logits.float() + bias
    log_sum = torch.logsumexp(x, 1)
    is_word = torch.arange(x.shape[1], device=x.device)[None] == words[:, None]
    d = (torch.exp(x - log_sum[:, None]) - is_word.float()) / n
    return (log_sum - x.gather(1, words[:, None])[:, 0]).sum() / n, d.to(logits.dtype), d.sum(0)


class _InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, words: Tensor, of_chunk: Chunk, rows: int) -> Tensor:
        d_h, d_weight = torch.empty_like(h), torch.empty_like(weight)
        loss, d_bias = h.new_zeros((), dtype=torch.float32), torch.zeros_like(bias, dtype=torch.float32)
        for start in range(0, len(h), rows):
            part = slice(start, start + rows)
            add, d, columns = of_chunk(h[part] @ weight.t(), bias, words[part], float(len(h)))
            loss += add
            d_bias += columns
            torch.mm(d, weight, out=d_h[part])
            torch.addmm(d_weight, d.t(), h[part], beta=float(start > 0), out=d_weight)
        ctx.save_for_backward(d_h, d_weight, d_bias.to(bias.dtype))
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        d_h, d_weight, d_bias = ctx.saved_tensors
        return d_h.mul_(grads[0]), d_weight.mul_(grads[0]), d_bias * grads[0], None, None, None


def _in_forward(task: Task, of_chunk: Chunk, rows: int) -> Contender:
    leaves = task.expanded()

    def step() -> Tensor:
        loss = cast(Tensor, _InForward.apply(*leaves, task.words, of_chunk, rows))  # type: ignore[no-untyped-call]
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    return Contender(step, leaves)
