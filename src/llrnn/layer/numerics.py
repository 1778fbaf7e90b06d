"""Log-sums that keep their digits, with their gradients written out.

class_logsumexp(scores, log_mass, ...) = logsumexp_s(scores[n, s] + log_mass[n, s])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.ground.errors import NumericalError

MINUS_INFINITY = float("-inf")


# Float32 keeps seven digits, so that beside a score of a million none is left for log b, nor for log Σ exp. Therefore
# log-sums are float64, a number for each position, and where scores are large, they are shifted first.
_LARGE = 128.0  # of terms up to this float32 rounds off a hundred-thousandth at most
_FEW = 16  # positions
_ENOUGH_LEFT = 0.1  # of a sum from which is subtracted: one digit of seven may be lost


class _ClassLogSumExp(torch.autograd.Function):
    """The autograd function of `class_logsumexp`: one backward pass for log-sum and picked scores.

    Called as `_ClassLogSumExp.apply` with the arguments of that function.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, log_mass: Tensor | None, cells: Cells | None, rows: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        log_sum, exps, total = log_sums(*shifted_sums(scores, log_mass, cells))
        ctx.save_for_backward(exps, total, rows, columns)
        return log_sum, scores[rows, columns]

    @staticmethod
    @once_differentiable  # what was summed is kept as a constant: a second derivative would be wrong
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None, None, None]:
        grad_log_sum, grad_picked = grad_outputs
        exps, total, rows, columns = ctx.saved_tensors
        grad = _gradient(exps, total, grad_log_sum)
        grad.index_put_((rows, columns), grad_picked, accumulate=True)
        return grad, None, None, None, None


def shifted_sums(scores: Tensor, log_mass: Tensor | None, cells: Cells | None = None) -> tuple[Tensor, Tensor | None]:
    """Return scores + log_mass − shift, (N, G), and the shift of each of N positions, (N,), or None where all are 0.

    `scores` (N, G): of G classes of words; `log_mass`: added to them, (N, G) or (1, G), None for 0; `cells`: (position,
    class) pairs with another log_mass. If the largest sum of some position is beyond ±128, the shift of each position
    is its largest sum (0 where that is −∞), and it is subtracted from the scores before log_mass is added, so that
    float32 keeps the digits of log_mass.
    """
    if log_mass is None and cells is None:
        return scores, None
    terms = _summed(scores, log_mass, cells)
    largest = terms.detach().amax(-1)  # (N,)
    if not are_large(largest):
        return terms, None
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)  # a row of minus infinities stays one
    return _summed(scores - shift[:, None], log_mass, cells), shift


def are_large(log_sums: Tensor) -> bool:
    """Return whether some log-sum is beyond ±128, or NaN: float32 terms of that size would lose digits."""
    if log_sums.numel() <= _FEW:  # one question instead of four operations
        return not all(abs(log_sum) <= _LARGE for log_sum in log_sums.tolist())
    return not bool((log_sums.detach().abs() <= _LARGE).all())


def _summed(scores: Tensor, log_mass: Tensor | None, cells: Cells | None) -> Tensor:
    terms = scores if log_mass is None else scores + log_mass  # (N, G)
    if cells is not None:
        where = (cells.position, cells.klass)
        terms = terms.index_put(where, scores[where] + cells.log_mass)
    return terms


def log_sums(terms: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return shift + logsumexp of each row, (N,) float64, the exponentials exp(term − largest) (N, G), their sums (N,).

    `terms` (N, G); `shift` (N,), or None for 0. A row of minus infinities has log-sum −∞ and sum 0.
    """
    largest = terms.amax(-1, keepdim=True).clamp_(min=torch.finfo(terms.dtype).min)  # no minus infinity
    exps = (terms - largest).exp_()
    total = exps.sum(-1)
    log_sum = total.double().log() + largest.squeeze(-1)
    return (log_sum if shift is None else log_sum + shift.double()), exps, total


def _gradient(exps: Tensor, total: Tensor, grad_log_sum: Tensor) -> Tensor:
    """Return the gradient of log-sums by their terms, grad_log_sum · exps / total, (N, G); 0 in a row of total 0.

    `exps` (N, G): exponentials of the terms; `total` (N,): their sums; `grad_log_sum` (N,): of the loss by the
    log-sums.
    """
    return exps * (grad_log_sum.to(total.dtype) / total).masked_fill(total == 0.0, 0.0).unsqueeze(-1)


class Cells(NamedTuple):
    """A tuple (position, klass, log_mass), each (C,): pairs whose log-mass differs from that of the whole class.

    The mass of a class is the prior b(x) summed over its words. `log_mass[c]` is that of the words of class `klass[c]`
    that remain at position `position[c]`, where others of its words are summed apart.
    """

    position: Tensor  # (C,)
    klass: Tensor  # (C,)
    log_mass: Tensor  # (C,)


def class_logsumexp(
    scores: Tensor, log_mass: Tensor | None, cells: Cells | None, rows: Tensor | None, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """Return logsumexp_s(scores[n, s] + log_mass[n, s]), (N,) float64, and `scores[rows, columns]`, (E,).

    Differentiable in `scores` (N, G), of G classes of words at N positions. `log_mass`: constant, (N, G) or (1, G), or
    None where the scores include it; `cells`: other values of log_mass for single (position, class) pairs, or None;
    `rows` None: `columns` has one column for each row.
    """
    differentiable = torch.is_grad_enabled() and scores.requires_grad
    if rows is None and log_mass is None and cells is None and not differentiable and scores.shape[0] <= _FEW:
        # calls are what it costs here
        return scores.double().logsumexp(-1), scores.gather(1, columns.unsqueeze(1)).squeeze(1)
    rows = torch.arange(len(scores), device=columns.device) if rows is None else rows
    if not differentiable:
        return log_sums(*shifted_sums(scores, log_mass, cells))[0], scores[rows, columns]
    return cast(
        tuple[Tensor, Tensor],
        _ClassLogSumExp.apply(scores, log_mass, cells, rows, columns),  # type: ignore[no-untyped-call]
    )


def less(scores: Tensor, log_mass: Tensor | float, log_sum: Tensor) -> Tensor:
    """Return scores + log_mass − log_sum in the dtype of the scores, without losing digits where all are large.

    `log_sum` is float64, with a shape that broadcasts. Where it is −∞, nothing is subtracted and the result is score +
    log_mass, which is −∞ there.
    """
    log_sum = finite(log_sum)
    first = log_sum.to(scores.dtype)
    return scores - first + log_mass - (log_sum - first.double()).to(scores.dtype)


def segment_logsumexp(values: Tensor, segment: Tensor, count: int, log_mass: Tensor | float = 0.0) -> Tensor:
    """Return logsumexp of values + log_mass in each of `count` segments, (count,) float64; −∞ for an empty one.

    `segment` (E,): the index of the segment of each of the `values` (E,); `log_mass` (E,), or a number.
    """
    largest = _largest_of_each(values.detach() + log_mass, segment, count)
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
    terms = (values - shift[segment] + log_mass).exp()
    total = terms.new_zeros(count, dtype=torch.float64).index_add(0, segment, terms.double())
    positive = total > 0
    return torch.where(positive, total.masked_fill(~positive, 1.0).log() + shift.double(), MINUS_INFINITY)


def _largest_of_each(values: Tensor, segment: Tensor, count: int) -> Tensor:
    return values.new_full((count,), MINUS_INFINITY).scatter_reduce(0, segment, values, "amax")


def add_differences(
    log_sum: Tensor, after: tuple[Tensor, Tensor], before: tuple[Tensor, Tensor], position: Tensor
) -> Tensor | None:
    """Return log(exp log_sum[n] + Σ_{e at n} (exp new[e] − exp old[e])) at N positions, (N,) float64.

    `after`, `before`: for E words, (score, log of the prior), each (E,), whose sums are the new and the old term of the
    word; `position` (E,): of each word. Returns None where the difference at some position would lose its digits: the
    caller then sums in another way.
    """
    (new, log_new), (old, log_old) = after, before
    largest_new = _largest_of_each(new.detach() + log_new, position, len(log_sum))
    largest = torch.maximum(log_sum.detach().to(new.dtype), largest_new)
    scale = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
    of_entry = scale.index_select(0, position)
    difference = (new - of_entry + log_new).exp() - (old - of_entry + log_old).exp()
    total = (log_sum - scale.double()).exp().index_add(0, position, difference.double())
    if not bool((total.detach() >= _ENOUGH_LEFT).all()):  # the largest term is 1
        return None
    return total.log() + scale.double()


def log_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return log(exp(left) @ exp(right)), (N, K), (K, G) -> (N, G), without overflow.

    A result that is too small, compared with the largest of its row, for the range of the dtype is −∞.
    """
    of_right = right.amax(1).nan_to_num(neginf=0.0)  # (K,)
    shifted = left + of_right
    of_left = shifted.amax(1, keepdim=True).nan_to_num(neginf=0.0)  # (N, 1)
    return ((shifted - of_left).exp() @ (right - of_right[:, None]).exp()).log() + of_left


P = ParamSpec("P")
R = TypeVar("R")


def in_full(call: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls `call` with `torch.autocast` switched off; for use as a decorator.

    The second argument of `call` (in a method the first after self) must be a tensor: autocast is switched off for its
    device.
    """

    @wraps(call)
    def within(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch._C._is_any_autocast_enabled():
            return call(*args, **kwargs)
        with torch.autocast(cast(Tensor, args[1]).device.type, enabled=False):
            return call(*args, **kwargs)

    return within


def computes_in_half(*tensors: Tensor) -> bool:
    """Return whether `torch.autocast` is on for the first tensor's device, or one of the tensors has a half dtype."""
    half = any(tensor.dtype.itemsize < torch.float32.itemsize for tensor in tensors)
    return half or torch.is_autocast_enabled(tensors[0].device.type)


def eager(call: Callable[P, R]) -> Callable[P, R]:
    """Return a function that does what `call` does, but that `torch.compile` does not trace; for use as a decorator.

    For functions with hand-written gradients, or branches that depend on values.
    """

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():
            return cast(R, torch.compiler.disable(call)(*args, **kwargs))  # type: ignore[no-untyped-call]
        return call(*args, **kwargs)

    return run


def finite(log: Tensor) -> Tensor:
    """Return `log` with 0 in place of −∞, so that in an entropy p · log p is 0 where p is 0, and so is its gradient."""
    return log.masked_fill(log == MINUS_INFINITY, 0.0)


def require_numbers(log_z: Tensor) -> None:
    """Raise NumericalError if the log-normaliser `log_z` (N,) is NaN or +∞ at some position; −∞ is allowed.

    The message names the first such position.
    """
    broken = torch.nonzero(~(log_z.detach() < math.inf)).view(-1)
    if len(broken):
        n, found = int(broken[0]), float(log_z[broken[0]].detach())
        raise NumericalError(
            f"log Z must be a finite number, found {found} at position {n} of {len(log_z)}: log b or a·φ "
            "there is NaN or too large; look for such values in the background, the contextual features and the weights"
        )
