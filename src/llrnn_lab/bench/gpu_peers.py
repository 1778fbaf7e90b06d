"""The peers of the layer on a GPU: a softmax over V words from h, W (V, H) and b (V,), all in half precision.

dense                  F.cross_entropy of F.linear
chunked                the same, so many positions at a time, each with its backward pass
gradients in forward   chunk by chunk, D = (softmax − one-hot) / N made at once: dh = D W, dW = Dᵀ h, db = Dᵀ 1

Each as it is written, and compiled; `gradients in forward` is what Liger's kernel does, with torch's own compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn_lab.bench.gpu_machine import Contender
from llrnn_lab.bench.gpu_task import Task

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
