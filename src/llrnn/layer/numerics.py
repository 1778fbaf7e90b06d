"""The two numerical primitives that everything stands on, each with its gradient written out.

class_logsumexp(scores, log_mass, ...) = logsumexp_s(scores[n, s] + log_mass[n, s])
SparseMatrix @ W                       = Φ W        for a constant sparse Φ
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn.ground.arrays import Floats, Ints
from llrnn.layer.matrix import FeatureMatrix

MINUS_INFINITY = float("-inf")


# Float32 keeps seven digits, so that beside a score of a million none is left for log b, nor for log Σ exp. Therefore
# log-sums are float64, a number for each position, and where scores are loud they are shifted before anything is added.
_LOUD = 128.0  # of terms up to this float32 rounds off a hundred-thousandth at most
_MOST_CACHED = 1 << 28  # bytes of a product with Φ: larger ones are made anew where they are needed
_ENOUGH_LEFT = 0.1  # of a sum from which is subtracted: one digit of seven may be lost


class _ClassLogSumExp(torch.autograd.Function):
    """Both results share one gradient, softmax(scores + log_mass) · g plus what was picked: one pass, not four."""

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
    """Terms scores + log_mass − shift, (N, G), and the shift (N,), None where it is nothing.

    Where the largest term of a row is loud it is subtracted from the scores first: numbers that are close to each other
    are subtracted exactly, and log_mass keeps its digits.
    """
    if log_mass is None and cells is None:
        return scores, None
    terms = _summed(scores, log_mass, cells)
    largest = terms.detach().amax(-1)  # (N,)
    if not are_loud(largest):
        return terms, None
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)  # a row of minus infinities stays one
    return _summed(scores - shift[:, None], log_mass, cells), shift


def are_loud(log_sums: Tensor) -> bool:
    """Whether some are so large that sums of float32 numbers of their size lose digits of what is added."""
    return not bool((log_sums.detach().abs() <= _LOUD).all())


def _summed(scores: Tensor, log_mass: Tensor | None, cells: Cells | None) -> Tensor:
    terms = scores if log_mass is None else scores + log_mass  # (N, G)
    if cells is not None:
        where = (cells.position, cells.klass)
        terms = terms.index_put(where, scores[where] + cells.log_mass)
    return terms


def log_sums(terms: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """shift + logsumexp of each row, float64 (N,); what was summed, less its largest, (N, G); and its sums t (N,).

    torch adds these up pairwise, while its softmax adds one by one: over the 45,000 words of a novel, the frequent ones
    first, that loses four of seven digits. A row of minus infinities has log-sum minus infinity, and t = 0.
    """
    largest = terms.amax(-1, keepdim=True)
    largest = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
    exps = (terms - largest).exp_()
    total = exps.sum(-1)
    log_sum = total.double().log() + largest.squeeze(-1).double()
    return (log_sum if shift is None else log_sum + shift.double()), exps, total


def _gradient(exps: Tensor, total: Tensor, grad_log_sum: Tensor) -> Tensor:
    """g · softmax, (N, G); 0 in a row of minus infinities."""
    return exps * (grad_log_sum.to(total.dtype) / total).masked_fill(total == 0.0, 0.0).unsqueeze(-1)


class _WordLogSumExp(torch.autograd.Function):
    """The same over all words, each with the score of its class: for priors that list N × V values."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, class_of: Tensor, log_b: Tensor, rows: Tensor, columns: Tensor
    ) -> tuple[Tensor, Tensor]:
        log_sum, exps, total = log_sums(*shifted_sums(scores.index_select(1, class_of), log_b))  # (N, V)
        ctx.save_for_backward(exps, total, class_of, rows, columns)
        ctx.shape = scores.shape
        return log_sum, scores[rows, columns]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None, None, None]:
        grad_log_sum, grad_picked = grad_outputs
        exps, total, class_of, rows, columns = ctx.saved_tensors
        grad = exps.new_zeros(ctx.shape).index_add_(1, class_of, _gradient(exps, total, grad_log_sum))
        grad.index_put_((rows, columns), grad_picked, accumulate=True)
        return grad, None, None, None, None


def word_logsumexp(
    scores: Tensor, class_of: Tensor, log_b: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """`logsumexp_x(scores[n, class_of[x]] + log_b[n, x])`, float64 (N,), and the bare `scores[rows, columns]`."""
    return cast(
        tuple[Tensor, Tensor],
        _WordLogSumExp.apply(scores, class_of, log_b, rows, columns),  # type: ignore[no-untyped-call]
    )


class Cells(NamedTuple):
    """Single (position, class) pairs whose mass is not that of the whole class."""

    position: Tensor  # (C,)
    klass: Tensor  # (C,)
    log_mass: Tensor  # (C,)


def class_logsumexp(
    scores: Tensor, log_mass: Tensor | None, cells: Cells | None, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """`logsumexp_s(scores[n, s] + log_mass[n, s])`, float64 (N,), and the bare `scores[rows, columns]`.

    `log_mass` is (N, G) or (1, G), and constant, or None where the scores hold it already; `cells` overrule it at
    single places.
    """
    return cast(
        tuple[Tensor, Tensor],
        _ClassLogSumExp.apply(scores, log_mass, cells, rows, columns),  # type: ignore[no-untyped-call]
    )


def less(scores: Tensor, log_mass: Tensor | float, log_sum: Tensor) -> Tensor:
    """scores + log_mass − log_sum, where log_sum is float64: its first digits go off the scores, which are of its size.

    A log-sum of minus infinity takes nothing away: there every term is minus infinity itself.
    """
    log_sum = finite(log_sum)
    first = log_sum.to(scores.dtype)
    return scores - first + log_mass - (log_sum - first.double()).to(scores.dtype)


def segment_logsumexp(values: Tensor, segment: Tensor, count: int, log_mass: Tensor | float = 0.0) -> Tensor:
    """logsumexp of values + log_mass of each segment 0..count-1, float64; minus infinity for an empty one."""
    largest = _largest_of_each(values.detach() + log_mass, segment, count)
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
    terms = (values - shift[segment] + log_mass).exp()
    total = terms.new_zeros(count, dtype=torch.float64).index_add(0, segment, terms.double())
    positive = total > 0
    return torch.where(positive, total.masked_fill(~positive, 1.0).log() + shift.double(), MINUS_INFINITY)


def _largest_of_each(values: Tensor, segment: Tensor, count: int) -> Tensor:
    return values.new_full((count,), MINUS_INFINITY).scatter_reduce(0, segment, values, "amax")


class Change(NamedTuple):
    """Words that count for something else than before: for exp(score + log_b), each part (E,)."""

    new: tuple[Tensor, Tensor]
    old: tuple[Tensor, Tensor]
    position: Tensor


def add_differences(log_sum: Tensor, change: Change) -> Tensor | None:
    """log(exp log_sum[n] + Σ_{e at n} (exp new[e] − exp old[e])), float64 (N,) -> (N,).

    None where so little would be left at some position that its digits were lost.
    """
    (new, log_new), (old, log_old), position = change
    gained = _largest_of_each(new.detach() + log_new, position, len(log_sum))
    largest = torch.maximum(log_sum.detach().to(new.dtype), gained)
    scale = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
    of_entry = scale[position]
    difference = (new - of_entry + log_new).exp() - (old - of_entry + log_old).exp()
    total = (log_sum - scale.double()).exp().index_add(0, position, difference.double())
    if not bool((total.detach() >= _ENOUGH_LEFT).all()):  # the largest term is 1
        return None
    return total.log() + scale.double()


def log_matmul(left: Tensor, right: Tensor) -> Tensor:
    """log(exp left @ exp right), (N, K), (K, G) -> (N, G), as one product of scaled numbers.

    What is smaller than the largest of its row by more than the range of the numbers is minus infinity.
    """
    of_right = right.amax(1).nan_to_num(neginf=0.0)  # (K,)
    shifted = left + of_right
    of_left = shifted.amax(1, keepdim=True).nan_to_num(neginf=0.0)  # (N, 1)
    return ((shifted - of_left).exp() @ (right - of_right[:, None]).exp()).log() + of_left


_Module = TypeVar("_Module", bound=torch.nn.Module)


def wide(module: _Module) -> _Module:
    """The module with float32 weights."""
    made = copy.copy(module)
    made._parameters = {name: cast(Any, own.float()) for name, own in module.named_parameters(recurse=False)}
    return made


_Value = TypeVar("_Value")


class WeightCache(Generic[_Value]):
    """A value that is made of weights, cached until one of them changes; for weights that need no gradient now.

    Weights are the same if they are the same memory and torch has counted no write to it. Writes that torch does not
    count (through `weight.data`, by fused optimizers, by CUDA graphs) need `clear`, or `increment_version` of torch.
    """

    def __init__(self) -> None:
        # the weights (kept, so that no others come to stand in their place), their versions, and the value: one object,
        # which other threads see as a whole
        self._kept: tuple[tuple[Tensor, ...], tuple[object, ...], _Value] | None = None

    def get(self, make: Callable[[], _Value], *weights: Tensor) -> _Value:
        """The cached value, or what `make` returns."""
        kept, versions = self._kept, tuple(map(_version, weights))
        if kept is None or kept[1] != versions:
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = tuple(weight.detach() for weight in weights), versions, make()
        return kept[2]

    def clear(self) -> None:
        """Free the memory of the value."""
        self._kept = None

    def __reduce__(self) -> tuple[type[WeightCache[_Value]], tuple[()]]:
        """A copy begins empty."""
        return type(self), ()


def _version(weight: Tensor) -> tuple[object, ...]:
    count = -1 if weight.is_inference() else weight._version
    return weight.data_ptr(), count, weight.device, weight.dtype, weight.shape


def needs_gradient(*weights: Tensor) -> bool:
    """Whether what is computed from these weights now must be differentiable."""
    return torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)


def can_be_cached(entries: int, *weights: Tensor) -> bool:
    """Whether a product with so many entries may be kept: no gradient, no uncounted writes, and not too large."""
    if needs_gradient(*weights) or any(weight.is_inference() for weight in weights):
        return False
    return entries * weights[0].element_size() <= _MOST_CACHED


def finite(log: Tensor) -> Tensor:
    """0 for minus infinity: 0 · log 0 is 0 in an expectation, and so is its gradient."""
    return log.masked_fill(log == MINUS_INFINITY, 0.0)


class _SparseTimesDense(torch.autograd.Function):
    """Φ W forward, Φᵀ g backward: both as sums of rows, which is the fastest sparse product that torch has."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, forward: Bags, backward: Bags) -> Tensor:
        ctx.backward_bags = backward
        return forward.sums(dense)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        return ctx.backward_bags.sums(grad_outputs[0].contiguous()), None, None


class CompressedRows(Protocol):
    """Row i sums `values[j] · dense[columns[j]]`, j from `offsets[i]` to `offsets[i + 1]`."""

    @property
    def offsets(self) -> Tensor: ...
    @property
    def columns(self) -> Tensor: ...
    @property
    def values(self) -> Tensor: ...


def row_sums(rows: CompressedRows, dense: Tensor, rounded: Tensor | None = None) -> Tensor:
    """The product with a dense matrix, (n, H) -> (rows, H); `rounded`: the values in its numbers, if they are kept."""
    weights = rows.values.to(dense.dtype) if rounded is None else rounded
    return F.embedding_bag(
        rows.columns, dense, rows.offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


class Bags(torch.nn.Module):
    """Rows in compressed form that move with a model."""

    offsets: Tensor
    columns: Tensor
    values: Tensor

    def __init__(self, offsets: Ints, columns: Ints, values: Floats) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.from_numpy(offsets), persistent=False)
        self.register_buffer("columns", torch.from_numpy(columns), persistent=False)
        self.register_buffer("values", torch.from_numpy(values), persistent=False)
        self._rounded: dict[torch.dtype, Tensor] = {}

    def _apply(self, fn: Any, recurse: bool = True) -> Bags:
        """Moves with a model, but stays float64: a model that was in half precision for a while knows its features."""
        exact = self.values
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.values = exact.to(self.values.device)
        self._rounded = {}
        return self

    def values_in(self, dtype: torch.dtype) -> Tensor:
        """The values in other numbers, remembered."""
        if dtype not in self._rounded:
            self._rounded[dtype] = self.values.to(dtype)
        return self._rounded[dtype]

    def sums(self, dense: Tensor) -> Tensor:
        return row_sums(self, dense, self.values_in(dense.dtype))


class SparseMatrix(torch.nn.Module):
    """The constant matrix Φ (G × m) of a feature matrix, ready to be multiplied."""

    def __init__(self, features: FeatureMatrix) -> None:
        super().__init__()
        self.n_classes, self.n_features = features.n_classes, features.n_features
        self.is_identity = features.is_identity
        rows = np.repeat(np.arange(features.n_classes), np.diff(features.offsets))
        by_column = np.argsort(features.columns, kind="stable")
        widths = np.bincount(features.columns, minlength=features.n_features)
        self._rows = Bags(features.offsets, features.columns, features.values)
        self._columns = Bags(
            np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
            rows[by_column],
            features.values[by_column],
        )

    def compressed(self) -> tuple[Ints, Ints, Floats]:
        """Offsets, columns and values of its rows."""
        rows = self._rows
        return tuple(part.cpu().numpy() for part in (rows.offsets, rows.columns, rows.values))  # type: ignore[return-value]

    @property
    def nnz(self) -> int:
        return len(self._rows.columns)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Φ W, (m, H) -> (G, H); Φ c, (m,) -> (G,)."""
        if self.is_identity:
            return dense
        if dense.dim() == 1:
            return (self @ dense.unsqueeze(-1)).squeeze(-1)
        return cast(Tensor, _SparseTimesDense.apply(dense, self._rows, self._columns))  # type: ignore[no-untyped-call]

    def transposed(self, dense: Tensor) -> Tensor:
        """Φᵀ W, (G, H) -> (m, H), without gradient bookkeeping of Φ."""
        if self.is_identity:
            return dense
        return cast(Tensor, _SparseTimesDense.apply(dense, self._columns, self._rows))  # type: ignore[no-untyped-call]

    def rows(self, dense: Tensor, classes: Tensor) -> Tensor:
        """The rows Φ[classes] W alone, (m, H), (B,) -> (B, H): what one step of decoding needs."""
        if self.is_identity:
            return dense[classes]
        starts, stops = self._rows.offsets[classes], self._rows.offsets[classes + 1]
        widths = stops - starts
        ends = widths.cumsum(0)
        within = torch.arange(int(ends[-1]) if len(ends) else 0, device=dense.device)
        entries = within + (starts - ends + widths).repeat_interleave(widths)
        segment = torch.arange(len(classes), device=dense.device).repeat_interleave(widths)
        weighted = dense[self._rows.columns[entries]] * self._rows.values_in(dense.dtype)[entries].unsqueeze(-1)
        return dense.new_zeros(len(classes), dense.shape[-1]).index_add(0, segment, weighted)
