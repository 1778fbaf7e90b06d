"""The primitives of `reference` as Triton kernels, for the GPU; `available` says whether Triton is there."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

from llrnn.layer.matrix import KernelRows
from llrnn.layer.reference import LEAST, LogitOffsets, OffsetLogits

available = importlib.util.find_spec("triton") is not None
PARTS = 64  # at most as many partial column sums are kept
_SUM_ROWS, _SUM_COLUMNS = 2, 2048  # one step of `log_sums`, measured on an H200
_GRADIENT_ROWS, _GRADIENT_COLUMNS = 4, 1024  # one step of `gradients`
_OFFSETS = 1024  # words in one step of those that make logit offsets

if available:
    import triton  # type: ignore[import-not-found]
    import triton.language as tl  # type: ignore[import-not-found]

    @triton.jit  # type: ignore[untyped-decorator]
    def _row_sums(  # type: ignore[no-untyped-def]
        matrix, vector, offsets, columns, values, target, offset, scale, out, out_vector, part, part_vector,
        H, HAS_OFFSET: tl.constexpr, HAS_SCALE: tl.constexpr,
        ENTRIES: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        piece = tl.program_id(0)
        h = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        start, stop = tl.load(offsets + piece), tl.load(offsets + piece + 1)
        total = tl.zeros((BLOCK,), tl.float32)
        of_vector = tl.zeros((ENTRIES,), tl.float32)
        for first in range(start, stop, ENTRIES):
            entry = first + tl.arange(0, ENTRIES)
            inside = entry < stop
            column = tl.load(columns + entry, inside, 0).to(tl.int64)
            value = tl.load(values + entry, inside, 0).to(tl.float32)
            x = tl.load(matrix + column[:, None] * H + h[None, :], inside[:, None] & (h < H)[None, :], 0.0)
            total += tl.sum(x.to(tl.float32) * value[:, None], 0)
            of_vector += tl.load(vector + column, inside, 0.0).to(tl.float32) * value
        sum_of_vector = tl.sum(of_vector, 0)
        if HAS_SCALE:
            factor = tl.load(scale).to(tl.float32)
            total, sum_of_vector = total * factor, sum_of_vector * factor
        row = tl.load(target + piece)
        if HAS_OFFSET and row >= 0:
            sum_of_vector += tl.load(offset + row)
        if row >= 0:
            tl.store(out + row * H + h, total.to(out.dtype.element_ty), h < H)
            tl.store(out_vector + row, sum_of_vector)
        else:
            tl.store(part + (-1 - row) * H + h, total, h < H)
            tl.store(part_vector - 1 - row, sum_of_vector)

    @triton.jit  # type: ignore[untyped-decorator]
    def _convert(  # type: ignore[no-untyped-def]
        tensor, factor, out, size, HAS_FACTOR: tl.constexpr, BLOCK: tl.constexpr
    ):
        i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(tensor + i, i < size, 0.0).to(tl.float32)
        if HAS_FACTOR:
            x *= tl.load(factor).to(tl.float32)
        tl.store(out + i, x.to(out.dtype.element_ty), i < size)

    @triton.jit  # type: ignore[untyped-decorator]
    def _log_sums(  # type: ignore[no-untyped-def]
        logits, bias, klass, log_sum, score, N, G, ROWS: tl.constexpr, BLOCK: tl.constexpr
    ):
        log2e: tl.constexpr = 1.4426950408889634
        n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        row = logits + n.to(tl.int64) * G
        largest = tl.full((ROWS,), float("-inf"), tl.float32)  # of the terms in base 2
        total = tl.zeros((ROWS,), tl.float32)
        for first in range(0, G, BLOCK):
            s = first + tl.arange(0, BLOCK)
            x = tl.load(row[:, None] + s[None, :], (n < N)[:, None] & (s < G)[None, :], float("-inf")).to(tl.float32)
            x = x * log2e + (tl.load(bias + s, s < G, 0.0) * log2e)[None, :]
            above = tl.maximum(largest, tl.max(x, 1))
            shift = tl.where(above == float("-inf"), 0.0, above)
            total = total * tl.exp2(largest - shift) + tl.sum(tl.exp2(x - shift[:, None]), 1)
            largest = above
        shift = tl.where(largest == float("-inf"), 0.0, largest)
        k = tl.load(klass + n, n < N, 0)
        tl.store(log_sum + n, (tl.log2(total) + shift) / log2e, n < N)
        tl.store(score + n, tl.load(row + k, n < N, 0.0).to(tl.float32) + tl.load(bias + k), n < N)

    @triton.jit  # type: ignore[untyped-decorator]
    def _gradients(  # type: ignore[no-untyped-def]
        logits, bias, klass, log_sum, weight, out, sums, N, G, per_part, ROWS: tl.constexpr, BLOCK: tl.constexpr
    ):
        log2e: tl.constexpr = 1.4426950408889634
        s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        of_class = tl.load(bias + s, s < G, 0.0) * log2e
        total = tl.zeros((BLOCK,), tl.float32)
        start = tl.program_id(1) * per_part
        for first in range(start, min(start + per_part, N), ROWS):
            n = first + tl.arange(0, ROWS)
            inside = (n < N)[:, None] & (s < G)[None, :]
            at = n.to(tl.int64)[:, None] * G + s[None, :]
            x = tl.load(logits + at, inside, float("-inf")).to(tl.float32)
            z = tl.load(log_sum + n, n < N, float("-inf"))
            w = tl.load(weight + n, n < N, 0.0)
            g = tl.where(z == float("-inf"), 0.0, w)
            z = tl.where(z == float("-inf"), 0.0, z) * log2e
            k = tl.load(klass + n, n < N, -1)
            d = g[:, None] * tl.exp2(x * log2e + (of_class[None, :] - z[:, None]))
            d -= tl.where(s[None, :] == k[:, None], w[:, None], 0.0)
            tl.store(out + at, d.to(out.dtype.element_ty), inside)
            total += tl.sum(d, 0)
        where = sums + tl.program_id(1) * G + s
        tl.store(where, tl.load(where, s < G, 0.0) + total, s < G)

    # One program for each position, whose words lie side by side: no two write to the same row, and sums of one row are
    # made in one place. Only the cells of these words are cleared, of two arrays as large as the logits.

    @triton.jit  # type: ignore[untyped-decorator]
    def _logit_offset(a, value, n, e, inside, K: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        total = tl.zeros((BLOCK,), tl.float32)
        for k in tl.static_range(K):
            total += tl.load(a + n * K + k) * tl.load(value + e * K + k, inside, 0.0)
        return total

    @triton.jit  # type: ignore[untyped-decorator]
    def _offset_masses(  # type: ignore[no-untyped-def]
        first, klass, share, value, a, gone, become, most, G, K: tl.constexpr, BLOCK: tl.constexpr
    ):
        n = tl.program_id(0).to(tl.int64)
        start, stop = tl.load(first + n), tl.load(first + n + 1)
        m = 0.0
        for e0 in range(start, stop, BLOCK):
            e = e0 + tl.arange(0, BLOCK)
            inside = e < stop
            at = n * G + tl.load(klass + e, inside, 0)
            m = tl.maximum(m, tl.max(_logit_offset(a, value, n, e, inside, K, BLOCK), 0))
            tl.store(gone + at, tl.zeros((BLOCK,), tl.float32), inside)
            tl.store(become + at, tl.zeros((BLOCK,), tl.float32), inside)
        tl.store(most + n, m)
        tl.debug_barrier()
        for e0 in range(start, stop, BLOCK):
            e = e0 + tl.arange(0, BLOCK)
            inside = e < stop
            at, q = n * G + tl.load(klass + e, inside, 0), tl.load(share + e, inside, 0.0)
            tl.atomic_add(gone + at, q, inside)
            tl.atomic_add(become + at, q * tl.exp(_logit_offset(a, value, n, e, inside, K, BLOCK) - m), inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _offset_logits(  # type: ignore[no-untyped-def]
        first, klass, share, value, a, gone, become, most, logits, x, ratio, LEAST,
        G, K: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        n = tl.program_id(0).to(tl.int64)
        start, stop, m = tl.load(first + n), tl.load(first + n + 1), tl.load(most + n)
        for e0 in range(start, stop, BLOCK):
            e = e0 + tl.arange(0, BLOCK)
            inside = e < stop
            at = n * G + tl.load(klass + e, inside, 0)
            left = tl.maximum(1.0 - tl.load(gone + at, inside, 0.0), 0.0)
            mass = tl.maximum(tl.load(become + at, inside, 1.0) + left * tl.exp(-m), LEAST)
            own = tl.load(share + e, inside, 0.0) * tl.exp(_logit_offset(a, value, n, e, inside, K, BLOCK) - m)
            tl.store(x + e, tl.load(logits + at, inside, 0.0).to(tl.float32) + tl.log(mass) + m, inside)
            tl.store(ratio + e, own / mass, inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _put(first, klass, x, logits, G, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        n = tl.program_id(0).to(tl.int64)
        stop = tl.load(first + n + 1)
        for e0 in range(tl.load(first + n), stop, BLOCK):
            e = e0 + tl.arange(0, BLOCK)
            inside = e < stop
            at = n * G + tl.load(klass + e, inside, 0)
            tl.store(logits + at, tl.load(x + e, inside, 0.0).to(logits.dtype.element_ty), inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _offset_gradients(  # type: ignore[no-untyped-def]
        first, klass, value, x, ratio, bias, log_sum, w, out, K: tl.constexpr, BLOCK: tl.constexpr
    ):
        n, k = tl.program_id(0).to(tl.int64), tl.program_id(1)
        stop, z = tl.load(first + n + 1), tl.load(log_sum + n)
        total = tl.zeros((BLOCK,), tl.float32)
        for e0 in range(tl.load(first + n), stop, BLOCK):
            e = e0 + tl.arange(0, BLOCK)
            inside = e < stop
            s = tl.load(klass + e, inside, 0)
            log_p = tl.load(x + e, inside, float("-inf")) + tl.load(bias + s, inside, 0.0) - z
            own = tl.exp(log_p) * tl.load(ratio + e, inside, 0.0)
            total += own * tl.load(value + e * K + k, inside, 0.0)
        tl.store(out + n * K + k, tl.load(w + n) * tl.sum(total, 0))


def row_sums(
    rows: KernelRows, matrix: Tensor, vector: Tensor, offset: Tensor | None, scale: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return scale · A M (rows, H) in `dtype` and scale · A v + offset (rows,) float32, by a Triton kernel on a GPU.

    `rows`: a sparse matrix A (rows, n), the feature matrix of classes of words or its transpose; `matrix`: M (n, H);
    `vector`: v (n,); `offset` (rows,), or None for 0; `scale`: a scalar tensor, or None for 1.
    """
    H, pieces = matrix.shape[1], rows.pieces
    out, out_vector = matrix.new_empty(rows.n_rows, H, dtype=dtype), matrix.new_empty(rows.n_rows, dtype=torch.float32)
    part = matrix.new_empty(len(pieces.partial), H, dtype=torch.float32)
    part_vector = matrix.new_empty(len(pieces.partial), dtype=torch.float32)
    block = min(512, triton.next_power_of_2(H))  # H itself is no constant of the kernel: it may be N, ever another one

    def launch(dense: tuple[Tensor, Tensor], where: tuple[Tensor, ...], scale: Tensor | None, target: Tensor) -> None:
        _row_sums[(len(target), triton.cdiv(H, block))](
            *dense, *where, target, offset, scale, out, out_vector, part, part_vector,
            H, offset is not None, scale is not None, ENTRIES=8, BLOCK=block, num_warps=max(1, block // 256),
        )  # fmt: skip

    launch((matrix, vector), (pieces.offsets, rows.columns, rows.values), scale, pieces.target)
    if len(pieces.long_rows):
        launch((part, part_vector), (pieces.long_offsets, pieces.partial, pieces.ones), None, pieces.long_rows)
    return out, out_vector


def convert(tensor: Tensor, factor: Tensor | None, out: Tensor) -> None:
    """Fill `out` with factor · tensor in the dtype of `out`, by a Triton kernel; both contiguous and on a GPU.

    `factor`: a scalar tensor, or None for 1. Two to four times as fast as torch between half-precision types.
    """
    size = tensor.numel()
    _convert[(triton.cdiv(size, 4096),)](tensor, factor, out, size, factor is not None, BLOCK=4096, num_warps=8)


def log_sums(logits: Tensor, bias: Tensor, klass: Tensor, log_sum: Tensor, score: Tensor) -> None:
    """Fill `log_sum` with log Σ_s exp(x_s + bias_s) and `score` with x_k + bias_k, each (C,), by a Triton kernel.

    `logits`: x (C, G), of G classes s of words at C positions, without bias; `bias` (G,); `klass` (C,): the target
    class k of each position. A class is a set of words with equal features.
    """
    C, G = logits.shape
    block = min(_SUM_COLUMNS, triton.next_power_of_2(G))
    _log_sums[(triton.cdiv(C, _SUM_ROWS),)](
        logits, bias, klass, log_sum, score, C, G, ROWS=_SUM_ROWS, BLOCK=block, num_warps=4
    )


def gradients(
    logits: Tensor, bias: Tensor, klass: Tensor, log_sum: Tensor, weight: Tensor, out: Tensor, sums: Tensor
) -> None:
    """Fill `out` (C, G) with the gradient of the loss by the logits; add its column sums to `sums` (P, G). In Triton.

    The gradient is w[n] · (exp(x[n, s] + bias[s] − log_sum[n]) − [s = k(n)]) at position n for class s of words: x =
    `logits`, which `out` may overwrite, `bias` (G,), `log_sum` (C,) by `log_sums`, w = `weight` (C,) of each position
    in the loss, k = `klass` (C,), the targets. Each position's part of the column sums is added to one of the P rows of
    `sums`, which the caller adds up.
    """
    C, G = logits.shape
    per_part = _GRADIENT_ROWS * triton.cdiv(C, _GRADIENT_ROWS * len(sums))
    grid: Any = (triton.cdiv(G, _GRADIENT_COLUMNS), triton.cdiv(C, per_part))
    _gradients[grid](
        logits, bias, klass, log_sum, weight, out, sums, C, G, per_part,
        ROWS=_GRADIENT_ROWS, BLOCK=_GRADIENT_COLUMNS, num_warps=4,
    )  # fmt: skip


def offset_logits(logits: Tensor, logit_offsets: LogitOffsets) -> OffsetLogits:
    """Change the logits (N, G) of classes of words in place, for E single words with offsets, by Triton kernels.

    The logit of a class becomes x + log(1 − Σ q + Σ q exp g) over its words with offset g and share q of the class's
    prior. Returns, each (E,), the new logit of each word's class, and the fraction that the word has of the class's
    unnormalised probability. Words of equal position and class belong together; those at position N are padding.
    """
    (N, G), E, K = logits.shape, len(logit_offsets.klass), logit_offsets.value.shape[1]
    of_words = (_first(logit_offsets, N), *logit_offsets[1:])  # class, share, value, weights
    gone, become = torch.empty(2, N * G, device=logits.device)
    most, (x, ratio) = gone.new_empty(N), gone.new_empty(2, E)
    _offset_masses[(N,)](*of_words, gone, become, most, G, K=K, BLOCK=_OFFSETS, num_warps=4)
    _offset_logits[(N,)](*of_words, gone, become, most, logits, x, ratio, LEAST, G, K=K, BLOCK=_OFFSETS, num_warps=4)
    _put[(N,)](of_words[0], logit_offsets.klass, x, logits, G, BLOCK=_OFFSETS, num_warps=4)
    return OffsetLogits(x, ratio)


def offset_gradients(
    logit_offsets: LogitOffsets, found: OffsetLogits, bias: Tensor, log_sum: Tensor, w: Tensor
) -> Tensor:
    """Return the gradient of Σ_n w[n] log_sum[n] by the weights of k contextual features, (N, k), by a Triton kernel.

    `logit_offsets`: the offsets that these weights gave to single words; `found`: what `offset_logits` returned for
    them; `bias` (G,): of the classes of words; `log_sum` (N,): log-sums over the classes, with the offsets; `w` (N,):
    the weight of each position in the loss.
    """
    N, K = logit_offsets.weights.shape
    out, first = torch.empty_like(logit_offsets.weights), _first(logit_offsets, N)
    _offset_gradients[(N, K)](
        first, logit_offsets.klass, logit_offsets.value, *found, bias, log_sum, w, out, K=K, BLOCK=_OFFSETS, num_warps=4
    )
    return out


def _first(logit_offsets: LogitOffsets, n: int) -> Tensor:
    """Return for each of n positions the index of its first entry in `logit_offsets`, then the last's end, (n + 1,).

    The entries are sorted by position; a position without entries has the index of the next one's first. Padding, at
    position n, comes after the end.
    """
    return torch.searchsorted(logit_offsets.position, torch.arange(n + 1, device=logit_offsets.position.device))
