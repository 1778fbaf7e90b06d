"""The log-sum over classes from h and W on a GPU, chunk by chunk, with nothing of size N × G kept for backward.

    x[n, s] = h_n · (Φ W)_s        b = Φ c + log B             in a buffer that the next chunk takes over
    log_sum[n] = logsumexp_s(x[n, s] + b[s])              score[n] = x[n, k(n)] + b[k(n)]

    D[n, s] = w[n] · (exp(x[n, s] + b[s] − log_sum[n]) − [s = k(n)])                          takes the place of x
    dh = D Φ W        dW = Φᵀ (Dᵀ h)        dc = Φᵀ (Dᵀ 1)

Contextual features change single words, by logit offsets g. A word with the share q of its class makes of its mass
B_s the mass B_s (1 + r) at its position, r[n, s] = Σ q (exp g − 1), and x[n, s] + log(1 + r[n, s]) stands for x there.

    weighted_loss(...)     Σ_n w_n (log_sum[n] − score[n]) for weights known before: gradients in forward, 3 products
    composed, product      Φ W with its gradient, by the same kernels: torch's own sums of rows add up a row entry by
                           entry, so that one feature of two thousand classes takes as long as all others

On the GPU x is float16, whose numbers have 11 digits where bfloat16 has 8, and D is bfloat16, whose numbers may be as
small as they like; all sums are float32. Magnitudes of h, Φ W and x must stay below 65504 there. On a CPU `kernels` are
replaced by their `reference`, for tests; what is computed there is in `layer.blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn.layer import kernels, reference
from llrnn.layer.matrix import KernelMatrix, SparseMatrix
from llrnn.layer.numerics import MINUS_INFINITY
from llrnn.layer.reference import LogitOffsets, OffsetLogits

_CHUNK_BYTES = 1 << 26  # of logits: half of them stay in the second-level cache of an H200
_FEWEST_ROWS = 4096  # in a chunk: shorter products leave processors idle


class Plan(NamedTuple):
    """How a loss over classes of words is computed chunk by chunk on a GPU: dtypes, and the size of a chunk.

    `logits`: dtype of the logits h Mᵀ and of both factors, M being the weights of the classes; `gradients`: dtype of
    the gradient of the logits and of what it is multiplied with; `rows`: the number of positions in a chunk, an int.
    Made by `plan_for(h, n_classes)`.
    """

    logits: torch.dtype
    gradients: torch.dtype
    rows: int


class Problem(NamedTuple):
    """The constants of a cross-entropy over G classes of words (sets with equal features): all that has no gradient.

    `phi`: the feature matrix Φ (G, m), sparse, as `SparseMatrix.for_kernels` makes it; `log_mass`, a dense tensor (G,),
    float64 or float32: log B_s, the log of the prior b summed over the words of each class; `klass` (N,) int64: the
    index of the target class at each of N positions.
    """

    phi: KernelMatrix
    log_mass: Tensor
    klass: Tensor


class ComposedWeights(NamedTuple):
    """A tuple of dense tensors: hidden vectors `h` (N, H), `weight` (G, H) and `bias` (G,) of G classes of words.

    A class is a set of words with equal features. The weight is Φ W, Φ the feature matrix, in the dtype of the logits;
    the bias is Φ c + log B, B the summed prior of the class. G is rounded up to a multiple of 8 by classes of weight 0
    and bias −∞. Made by `compose`.
    """

    h: Tensor  # (N, H)
    weight: Tensor  # (G, H)
    bias: Tensor  # (G,)


def plan_for(h: Tensor, n_classes: int, *, exact: bool | None = None) -> Plan:
    """Return the `Plan` for hidden vectors `h` and `n_classes` classes of words: dtypes, and positions in a chunk.

    In half precision logits are float16 and gradients bfloat16; otherwise both have the dtype of h. `exact=True` rules
    half precision out, `False` asks for it; None: half precision if h is on a GPU. float64 stays float64. A chunk has
    64 MiB of logits, but at least 4,096 positions. `h` (N, H): only its dtype and device are read.
    """
    half = h.dtype != torch.float64 and not (not h.is_cuda if exact is None else exact)
    logits, gradients = (torch.float16, torch.bfloat16) if half else (h.dtype, h.dtype)
    return Plan(logits, gradients, max(_FEWEST_ROWS, _CHUNK_BYTES // (n_classes * logits.itemsize)))


class Chunks:
    """An iterable over N positions in chunks (it yields slices), with one buffer for the logits of the current chunk.

    `composed`: h, and weights and biases of the classes of words; `problem`: the target classes; `plan`: dtypes and
    chunk size. While it is iterated, torch computes float32 products in full precision. Use: `chunks = Chunks(composed,
    problem, plan)`, then `for part in chunks: chunks.log_sums(part, log_sum, score)`.
    """

    def __init__(self, composed: ComposedWeights, problem: Problem, plan: Plan) -> None:
        self.composed, self.klass = composed, problem.klass
        self.plan, self.ops = plan, ops_for(composed.bias)
        self._rows = min(plan.rows, len(composed.h))
        self._h = converted(composed.h, plan.logits)
        self._buffer = self._h.new_empty(self._rows, len(composed.bias))

    def __iter__(self) -> Iterator[slice]:
        N = len(self.composed.h)
        with _true_float32():
            for start in range(0, N, self._rows):
                yield slice(start, min(start + self._rows, N))

    def logits(self, part: slice) -> Tensor:
        """Compute and return the logits h Mᵀ of C positions, `part`, for all G classes of words, (C, G), without bias.

        They are a view of the buffer, which the next call overwrites.
        """
        return _product(self._h[part], self.composed.weight.t(), self.current(part))

    def current(self, part: slice) -> Tensor:
        """Return the view (C, G) of the buffer for the logits of the C positions `part`; nothing is computed."""
        return self._buffer[: part.stop - part.start]

    def log_sums(self, part: slice, log_sum: Tensor, score: Tensor) -> None:
        """Compute the logits of the positions `part`, and fill these entries of `log_sum` and `score`, each (N,).

        `log_sum`: log Σ_s exp(x_s + bias_s) over the classes s of words, x the logits; `score`: x_k + bias_k of the
        target class k. `part` is one of the slices that iteration yields; both tensors have a float dtype.
        """
        self.ops.log_sums(self.logits(part), self.composed.bias, self.klass[part], log_sum[part], score[part])

    def offset_log_sums(self, logit_offsets: LogitOffsets, log_sum: Tensor, score: Tensor) -> OffsetLogits:
        """Fill `log_sum` and `score`, each (N,), at all positions at once, with changed logits of single words.

        `log_sum`: log Σ_s exp(x_s + bias_s) over the classes s of words, with the changes; `score`: x_k + bias_k of the
        target class k, without the changes. `logit_offsets`: what contextual features add to the logits of single
        words. Returns an `OffsetLogits`, which `offset_gradients` needs: the changed logits of the words' classes, and
        each word's fraction of the unnormalised probability of its class.
        """
        x, bias = self.logits(slice(0, len(log_sum))), self.composed.bias
        own = x.gather(1, self.klass[:, None]).squeeze(1).to(bias.dtype) + bias[self.klass]
        found: OffsetLogits = self.ops.offset_logits(x, logit_offsets)
        self.ops.log_sums(x, bias, self.klass, log_sum, score)
        score.copy_(own)
        return found


class Totals:
    """The gradients of h, class weights and class biases, summed chunk by chunk from D, the gradient of the logits.

    D overwrites the logits in the buffer of `chunks`, a `Chunks`. For each of its slices compute the logits, then call
    `add`; at the end call `finished`. `finished` returns the sums: of h (N, H), weight (G, H) and bias (G,).
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        h, weight, bias = chunks.composed
        self._h, self._weight = (converted(factor, chunks.plan.gradients) for factor in (h, weight))
        self._columns = bias.new_zeros(kernels.PARTS if chunks.ops is kernels else 1, len(bias))
        self._d_h, self._d_weight = torch.empty_like(self._h), torch.empty_like(weight, dtype=bias.dtype)

    def add(self, part: slice, log_sum: Tensor, weights: Tensor) -> None:
        """Add the gradients of the positions `part`, whose logits are in the buffer of `chunks`; these are overwritten.

        `log_sum` (N,): log-sums over the classes at all positions; `weights` (N,): the factor of each position in the
        loss.
        """
        chunks, x = self._chunks, self._chunks.current(part)
        d = x.view(self._h.dtype)  # of the same size
        of_chunk = chunks.klass[part], log_sum[part], weights[part]
        chunks.ops.gradients(x, chunks.composed.bias, *of_chunk, d, self._columns)
        _product(d, self._weight, self._d_h[part])
        _product(d.t(), self._h[part], self._d_weight, adding=part.start > 0)

    def finished(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the summed gradients: of h (N, H), and of the weight (G, H) and bias (G,) of every class of words."""
        return self._d_h, self._d_weight, self._columns.sum(0)


def ops_for(tensor: Tensor) -> ModuleType:
    """Return the module `kernels` (Triton) if it can compute with the tensor, else `reference`, the same in torch.

    The kernels need a GPU, Triton, and another dtype than float64. Both modules have functions of equal names and
    arguments.
    """
    return kernels if tensor.is_cuda and kernels.available and tensor.dtype != torch.float64 else reference


def converted(tensor: Tensor, dtype: torch.dtype, factor: Tensor | None = None) -> Tensor:
    """Return factor · tensor as `dtype`; the tensor itself if it has that dtype and `factor` is None.

    `factor`: a scalar tensor, or None for 1.
    """
    if tensor.dtype == dtype and factor is None:
        return tensor
    out = torch.empty_like(tensor, dtype=dtype)
    ops_for(tensor).convert(tensor, factor, out)
    return out


def _product(left: Tensor, right: Tensor, out: Tensor, *, adding: bool = False) -> Tensor:
    """Write left @ right into `out`, or add it to `out` if `adding`, and return `out`; sums are in float32 or finer."""
    if out.dtype == left.dtype:
        return torch.addmm(out, left, right, out=out) if adding else torch.mm(left, right, out=out)
    if not out.is_cuda:
        product = left.to(out.dtype) @ right.to(out.dtype)
        return out.add_(product) if adding else out.copy_(product)
    if adding:
        return torch.addmm(out, left, right, out_dtype=out.dtype, out=out)
    return torch.mm(left, right, out_dtype=out.dtype, out=out)


@contextmanager
def _true_float32() -> Iterator[None]:
    """Context manager: within it torch multiplies float32 without TF32, and sums half-precision products in float32.

    Yields None; the flags of torch are restored at the end.
    """
    settings = torch.backends.cuda.matmul
    names = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    before = {name: getattr(settings, name) for name in names}
    for name in names:
        setattr(settings, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def weighted_loss(
    h: Tensor,
    weight: Tensor,
    bias: Tensor,
    problem: Problem,
    weights: Tensor | None = None,
    plan: Plan | None = None,
    logit_offsets: LogitOffsets | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss Σ_n w_n (log_sum[n] − score[n]), a scalar, and log_sum − score (N,), which has no gradient.

    log_sum is log Σ_s exp(a·φ_s + log B_s) over classes s of words with equal features φ_s, a = W h + c; score is the
    term of the target class. `h` (N, H); `weight`: W (m, H); `bias`: c (m,); `problem`: Φ, log B and the targets;
    `weights`: w (N,), 1/N by default; `plan`: dtypes and chunk size; `logit_offsets`: changes of single words by
    contextual features, in log_sum alone (the caller adds those of the targets); with them all positions are one chunk.
    """
    chosen = plan or plan_for(h, problem.phi.rows.n_rows)
    chosen = chosen if logit_offsets is None else chosen._replace(rows=len(h))
    a = None if logit_offsets is None else logit_offsets.weights
    logit_offsets = logit_offsets and logit_offsets._replace(weights=logit_offsets.weights.detach())
    return cast(
        tuple[Tensor, Tensor],
        _WeightedLoss.apply(h, weight, bias, a, problem, weights, chosen, logit_offsets),  # type: ignore[no-untyped-call]
    )


class _WeightedLoss(torch.autograd.Function):
    """The autograd function of `weighted_loss`, which computes loss and gradients in one pass and keeps no logits.

    The gradient of the logits is known up to one factor for all positions, by which backward multiplies.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        a: Tensor | None,
        problem: Problem,
        weights: Tensor | None,
        plan: Plan,
        logit_offsets: LogitOffsets | None,
    ) -> tuple[Tensor, Tensor]:
        composed = compose(h, weight, bias, problem, plan)
        chunks = Chunks(composed, problem, plan)
        totals = Totals(chunks) if any(ctx.needs_input_grad[:4]) else None
        log_sum, score = composed.bias.new_empty(2, len(h))
        w = torch.full_like(log_sum, 1 / len(h)) if weights is None else weights.to(log_sum.dtype).contiguous()
        d_logit_offset: Tensor | None = None
        for part in chunks:
            if logit_offsets is None:
                chunks.log_sums(part, log_sum, score)
            else:  # all in one
                offset_logits = chunks.offset_log_sums(logit_offsets, log_sum, score)
                d_logit_offset = chunks.ops.offset_gradients(logit_offsets, offset_logits, composed.bias, log_sum, w)
            if totals is not None:
                totals.add(part, log_sum, w)
        if totals is not None:
            ctx.save_for_backward(*totals.finished(), d_logit_offset)
        ctx.phi, ctx.dtypes = problem.phi, (h.dtype, weight.dtype, bias.dtype)
        surprisal = log_sum - score
        ctx.mark_non_differentiable(surprisal)
        return torch.dot(w, surprisal), surprisal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *by_class, d_logit_offset = ctx.saved_tensors
        of_logit_offset = None if d_logit_offset is None else d_logit_offset * grads[0]
        return *decompose(by_class, ctx.phi, grads[0], ctx.dtypes), of_logit_offset, None, None, None, None


def compose(h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan) -> ComposedWeights:
    """Return h with the weight Φ W (G, H) and bias Φ c + log B (G,) of every class of words, as `ComposedWeights`.

    `weight`: W (m, H) and `bias`: c (m,) are those of the m features; Φ, the feature matrix, and log B, the log of the
    prior summed over each class, are in `problem`. Φ W is in the dtype of the plan's logits, the bias in float32
    (float64 where h is). G is padded to a multiple of 8 by classes with weight 0 and bias −∞, which add nothing to a
    sum.
    """
    dtype, rows = torch.promote_types(h.dtype, torch.float32), problem.phi.rows
    h, weight, c, offset = h.contiguous(), weight.contiguous(), bias.to(dtype), problem.log_mass.to(dtype)
    missing = rows.n_rows - len(offset)
    if missing:
        offset = F.pad(offset, (0, missing), value=MINUS_INFINITY)
    if not problem.phi.identity:
        return ComposedWeights(h, *_composed_sums(problem.phi, weight, c, offset, plan.logits))
    if missing:
        weight, c = F.pad(weight, (0, 0, 0, missing)), F.pad(c, (0, missing))
    return ComposedWeights(h, converted(weight, plan.logits), c + offset)


def decompose(
    found: Sequence[Tensor], phi: KernelMatrix, factor: Tensor, dtypes: tuple[torch.dtype, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of h (N, H), of the feature weights W (m, H) and of c (m,).

    `found`: the gradients of h, and of the weights and biases of the classes of words, as `Totals.finished` returns
    them; `phi`: the feature matrix Φ, by whose transpose the last two are multiplied; `factor`: a scalar tensor that
    multiplies all; `dtypes`: the dtypes of the three results.
    """
    h, weight, bias = found
    d_h = converted(h, dtypes[0], factor)
    if phi.identity:
        real = slice(phi.columns.n_rows)
        return d_h, converted(weight[real], dtypes[1], factor), converted(bias[real], dtypes[2], factor)
    d_weight, d_bias = _by_features(phi, weight, bias, factor, dtypes[1])
    return d_h, d_weight, d_bias.to(dtypes[2])


def _composed_sums(
    phi: KernelMatrix, weight: Tensor, bias: Tensor, offset: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return Φ W in `dtype`, (G', H), and Φ c + offset, (G',), for a feature matrix Φ with G' rows, padding included.

    `weight`: W (m, H); `bias`: c (m,); `offset` (G',), or None for 0.
    """
    if phi.dense is None:
        sums: tuple[Tensor, Tensor] = ops_for(bias).row_sums(phi.rows, weight, bias, offset, None, dtype)
        return sums
    wide, real = torch.promote_types(weight.dtype, torch.float32), len(phi.dense.values)
    product, total = ops_for(bias).row_sums(phi.rows, weight, bias, offset, None, wide)
    with _true_float32():
        product[:real] += phi.dense.times(weight.to(wide))
        total[:real] += phi.dense.times(bias.to(wide).unsqueeze(1)).squeeze(1)
    return converted(product, dtype), total


def _by_features(
    phi: KernelMatrix, by_class: Tensor, of_bias: Tensor, factor: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return scale · Φᵀ D (m, H) in `dtype` and scale · Φᵀ d (m,), for a feature matrix Φ (G, m).

    `by_class`: D (G, H); `of_bias`: d (G,); `factor`: the scale, a scalar tensor, or None for 1.
    """
    product, total = ops_for(of_bias).row_sums(phi.columns, by_class, of_bias, None, factor, dtype)
    if phi.dense is None:
        return product, total
    real, scale = len(phi.dense.values), 1.0 if factor is None else factor
    with _true_float32():
        phi.dense.put_transposed(by_class[:real] * scale, product)
        phi.dense.put_transposed((of_bias[:real] * scale).unsqueeze(1), total.unsqueeze(1))
    return product, total


def composed(phi: SparseMatrix, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products Φ W (G, H) and Φ c (G,) of a feature matrix Φ (G, m) with W (m, H) and c (m,).

    Differentiable in W and c; by Triton kernels on a GPU.
    """
    return by_kernels(phi, weight, bias) if _has_kernels(phi, weight) else (phi @ weight, phi @ bias)


def product(phi: SparseMatrix, dense: Tensor) -> Tensor:
    """Return the product of a feature matrix Φ (G, m) with a dense matrix, (m, H) -> (G, H).

    Differentiable in the dense matrix; by Triton kernels on a GPU.
    """
    return by_kernels(phi, dense, dense.new_zeros(len(dense)))[0] if _has_kernels(phi, dense) else phi @ dense


def transposed(phi: SparseMatrix, dense: Tensor) -> Tensor:
    """Return the product of a transposed feature matrix Φᵀ (m, G) with a dense matrix, (G, H) -> (m, H).

    On a GPU it is computed by Triton kernels, without a gradient; on a CPU it is differentiable.
    """
    if not _has_kernels(phi, dense):
        return phi.transposed(dense)
    return _by_features(phi.for_kernels(dense), dense.contiguous(), dense.new_zeros(len(dense)), None, dense.dtype)[0]


def by_kernels(phi: SparseMatrix, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products Φ W (G, H) and Φ c (G,) of a feature matrix Φ (G, m) with W (m, H) and c (m,).

    Computed in one pass by the Triton kernels, on a CPU by their equivalents in torch (`layer.reference`).
    Differentiable in W and c, but not twice.
    """
    whole, of_bias = _Product.apply(weight, bias, phi.for_kernels(weight))  # type: ignore[no-untyped-call]
    return whole[: phi.n_classes], of_bias[: phi.n_classes]  # rows come in eights


def _has_kernels(phi: SparseMatrix, dense: Tensor) -> bool:
    return dense.is_cuda and not phi.is_identity and dense.numel() > 0  # no network, no columns: nothing to launch


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, phi: KernelMatrix) -> tuple[Tensor, Tensor]:
        ctx.phi = phi
        product, sums = _composed_sums(phi, weight.contiguous(), bias.contiguous(), None, weight.dtype)
        return product, sums.to(bias.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        product, sums = _by_features(ctx.phi, grads[0].contiguous(), grads[1].contiguous(), None, grads[0].dtype)
        return product, sums.to(grads[1].dtype), None
