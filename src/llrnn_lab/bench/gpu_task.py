"""One layer for the benchmark of the GPU: by classes as it is ours, and as the dense softmax that the peers compute.

ours     log p(w) = log_share[w] + score − log_sum          Φ (G, m) and W (m, H)
peers    log p(w) = log softmax(h · W_w + b_w)[w]           W (V, H) and b (V,) expanded for them, free

The truth is ours in float64. Gradients of the peers are brought to the features, as by the chain rule, to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from llrnn.knowledge.features import FeatureMatrix
from llrnn.layer.fused import Plan, Problem, log_sum_and_score, twin, weighted_loss
from llrnn.layer.matrix import SparseMatrix
from llrnn_lab.bench.gpu_machine import Contender, Cost, Machine

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

    def expanded(self) -> Leaves:
        """h, and W and b of every word, in half precision."""
        parameters = self.weight.double(), self.bias.double()
        weight, bias = twin.row_sums(self.phi.rows, *parameters, None, None, torch.float64)
        of_word = self.class_of
        return _leaves(self.h, weight.to(HALF)[of_word], (bias[of_word] + self.log_b).to(HALF))

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
        return [of_h, *twin.row_sums(self.phi.columns, weight, bias, None, None, torch.float64)]

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


# --- two ways of ours -----------------------------------------------------------------------------------------------

Way = Callable[[Task, Leaves, Tensor, Plan | None], tuple[Tensor, Tensor]]


def _weighted(task: Task, leaves: Leaves, words: Tensor, plan: Plan | None) -> tuple[Tensor, Tensor]:
    loss, surprisal = weighted_loss(*leaves, _problem(task, words), None, plan)
    return loss - task.log_share[words].mean(), surprisal


def _log_sums(task: Task, leaves: Leaves, words: Tensor, plan: Plan | None) -> tuple[Tensor, Tensor]:
    log_sum, score = log_sum_and_score(*leaves, _problem(task, words), plan)
    surprisal = log_sum - score
    return (surprisal - task.log_share[words]).mean(), surprisal.detach()


def _problem(task: Task, words: Tensor) -> Problem:
    return Problem(task.phi, task.log_mass, task.class_of[words])


WAYS: dict[str, Way] = {"weighted_loss": _weighted, "log_sum_and_score": _log_sums}
PRODUCTS = {"weighted_loss": 3, "log_sum_and_score": 4}  # the logits are made again in backward, as none are kept


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
    """The layer as a module with parameters: what `graphed` takes."""

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


def _backward(loss: Tensor) -> Tensor:
    """Without keeping the graph of autograd alive, which a capture would complain about."""
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()
