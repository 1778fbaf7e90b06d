"""Features compiled for a vocabulary: a sparse matrix Φ and its classes; Φ W, and when it is kept.

    words with equal rows form a class s;   φ(x) = Φ_G[class_of[x]]        G rows instead of |V|
    row i of Φ D = Σ_j values[j] · D[columns[j]],                          j from offsets[i] to offsets[i + 1]

Everything that the log-linear layer does costs G, not |V|; `class_of` and `members` lead to classes and back.

Where rare words have a few real-valued features of their own (a low-rank block: `inference.condensing`), Φ is a product

    Φ = S Φ̃      Φ̃ (P, m): the other classes as they are, one row for each feature of a block;  S = diag(1, Y_1, Y_2, …)

and Φ a is (Φ̃ a), whose rows are much fewer, expanded to the classes of a block by a product with Y_b (n_b, r_b).

    FeatureMatrix     names and arrays, as they are compiled and saved
    SparseMatrix      the same ready to be multiplied, on any device, with gradients
    KernelMatrix      the same as GPU kernels read it: long rows cut into pieces, so that many processors share them
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import FeatureError, quoted

ALIGNED = 8  # classes come in eights, padded with empty ones: matrix units read rows of 16 bytes
_LONGEST_PIECE = 64  # entries that one program adds up: a feature of a tenth of all words must not be one long sum
_DENSE = 4  # of Φ itself: a feature of more than a quarter of all classes, where there are
_FEWEST_DENSE = 16  # such features, over
_FEWEST_CLASSES = 1_000  # classes: word vectors
NARROW = 2  # a low-rank block has so many times more classes than features, or it is none
_OF_AN_ENTRY = 6  # entries of dense columns cost as much as one that is looked up
_MOST_CACHED = 1 << 28  # bytes of a product with Φ: larger ones are made anew where they are needed
T = TypeVar("T")


class LowRankBlock(NamedTuple):
    """A dense block of the feature matrix Φ: a range of rows that are non-zero in a range of columns, and only there.

    `classes`: the slice of the rows, each of which stands for a class of words with equal features; `columns`: the
    slice of the features; `shape`: the lengths of the two.
    """

    classes: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.classes.stop - self.classes.start, self.columns.stop - self.columns.start


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """The m features of V words, as a sparse matrix Φ with one row for each class of words with equal features.

    `names`: the names of the m features; `groups`: for each feature the kind that it comes from, such as "Suffixes";
    `class_of` (V,): the class of each word id; the row of class s has `values[offsets[s]:offsets[s + 1]]` in the
    `columns` of the same range (compressed rows).

        matrix = FeatureMatrix.of(torch.tensor([[1.0, 0.0], [1.0, 0.5], [1.0, 0.0]]), names=["noun", "length"])
        matrix.n_symbols, matrix.n_classes, matrix.n_features          # 3, 2, 2
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    class_of: Ints  # (V,)
    offsets: Ints  # (G + 1,)
    columns: Ints  # (nnz,)
    values: Floats  # (nnz,)

    @classmethod
    def of(cls, matrix: Any, names: Sequence[str] | None = None) -> FeatureMatrix:
        """Return the `FeatureMatrix` of a matrix (V, m) with a row for each word, dense or sparse (torch, scipy).

        Words with equal rows form a class. `names`: the names of the m features, "feature 0", "feature 1", … by
        default. Raises FeatureError for another shape, values that are not finite, or names that are not m different
        ones.

            FeatureMatrix.of(torch.tensor([[1.0, 0.0], [1.0, 0.5], [1.0, 0.0]]), names=["noun", "length"])
        """
        row, columns, values, (V, m) = _entries(matrix)
        names = tuple(f"feature {j}" for j in range(m)) if names is None else tuple(names)
        if not m or len(names) != m or len({*names}) != m:
            raise FeatureError(
                f"a name for each feature is needed, and one feature: found {len({*names})} names for a matrix "
                f"of {V} words by {m} features"
            )
        if not np.isfinite(values).all():
            word = int(row[~np.isfinite(values)][0])
            raise FeatureError(f"values of features must be finite numbers, found {values[row == word]} on word {word}")
        ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=V))])
        first_seen: dict[bytes, int] = {}
        entries = [slice(*pair) for pair in pairwise(ends.tolist())]
        keys = [columns[own].tobytes() + values[own].tobytes() for own in entries]
        class_of = np.array([first_seen.setdefault(key, len(first_seen)) for key in keys], dtype=np.int64)
        words = np.unique(class_of, return_index=True)[1]  # the first of each class
        kept = np.concatenate([np.arange(ends[x], ends[x + 1]) for x in words] or [ends[:0]])
        offsets = np.concatenate([[0], np.cumsum(np.diff(ends)[words])]).astype(np.int64)
        return cls(names, ("given",) * m, class_of, offsets, columns[kept], values[kept])

    @property
    def size(self) -> float:
        """The root mean square, over the V words, of the norm of a word's feature vector; 1.0 if all features are 0.

        It is 1 too where each word has one indicator, as in a softmax.
        """
        row = np.repeat(np.arange(self.n_classes), np.diff(self.offsets))
        squares = np.bincount(row, weights=self.values**2, minlength=self.n_classes)
        return float(np.sqrt(squares[self.class_of].mean() if len(self.class_of) else 0.0)) or 1.0

    @property
    def n_symbols(self) -> int:
        """V, the number of words in the vocabulary."""
        return len(self.class_of)

    @property
    def n_features(self) -> int:
        """m, the number of features of a word: the columns of the matrix."""
        return len(self.names)

    @property
    def n_classes(self) -> int:
        """G, the number of classes: sets of words with equal features, each a row of Φ."""
        return len(self.offsets) - 1

    @cached_property
    def members(self) -> Ints:
        """The ids of all V words in the order of their classes (words with equal features), rising within each."""
        few = self.n_classes <= 1 << 16  # two bytes are sorted by radix
        return np.argsort(self.class_of.astype(np.uint16) if few else self.class_of, kind="stable")

    @cached_property
    def member_offsets(self) -> Ints:
        """The ends of the classes in `members`, (G + 1,): class s has the words members[offsets[s] : offsets[s + 1]].

        A class is a set of words with equal features.
        """
        return _ends(self.class_of, self.n_classes)

    def largest_classes(self, count: int, examples: int) -> list[Ints]:
        """Return the first `examples` word ids of each of the `count` largest classes, the largest first.

        A class is a set of words with equal features; classes of a single word are left out. Of equally large classes
        the one with the smaller index comes first; word ids rise.
        """
        sizes = np.diff(self.member_offsets)
        order = [s for s in np.argsort(-sizes, kind="stable")[:count].tolist() if sizes[s] > 1]
        return [self.members[self.member_offsets[s] :][: min(examples, sizes[s])] for s in order]

    @property
    def constant_columns(self) -> list[int]:
        """The indices of features with one non-zero value on all words; such features cancel in the normalisation."""
        fired = np.bincount(self.columns, minlength=self.n_features)
        value = common_values(self.columns, self.values, self.n_features)
        return list(np.flatnonzero((fired == self.n_classes) & ~np.isnan(value)).tolist())

    @property
    def is_identity(self) -> bool:
        """Whether class i of words has feature i with value 1 and no other, as in a plain softmax over classes."""
        G = self.n_classes
        return (
            self.n_features == G
            and len(self.values) == G
            and np.array_equal(self.offsets, np.arange(G + 1))
            and np.array_equal(self.columns, np.arange(G))
            and bool(np.all(self.values == 1.0))
        )

    @cached_property
    def low_rank_blocks(self) -> tuple[LowRankBlock, ...]:
        """The dense blocks at the end of Φ, in order: runs of rows (classes) that have all features of one group alone.

        A class is a set of words with equal features. The features of the group are non-zero on no other row, as word
        vectors are for words that have no other feature. A block has at least twice as many rows as columns; () where
        there are none.
        """
        found, end = list[LowRankBlock](), self.n_classes
        starts = [j for j in range(self.n_features) if j == 0 or self.groups[j] != self.groups[j - 1]]
        for first, last in reversed([*pairwise([*starts, self.n_features])]):
            r = last - first
            own = np.flatnonzero((self.columns >= first) & (self.columns < last))
            n = len(own) // r
            entries = slice(self.offsets[end] - n * r, self.offsets[end])
            is_full = np.array_equal(self.columns[entries], np.tile(np.arange(first, last), n))
            is_run = self.offsets[end - n] == entries.start and len(own) == n * r
            if not (NARROW * r <= n and is_full and is_run):
                break
            found.append(LowRankBlock(slice(end - n, end), slice(first, last)))
            end -= n
        return tuple(reversed(found))

    @cached_property
    def column_of(self) -> dict[str, int]:
        """A dict from the name of each feature to its column index in the matrix."""
        return {name: column for column, name in enumerate(self.names)}

    def row(self, symbol: int) -> dict[str, float]:
        """Return the non-zero features of the word with id `symbol`, {name: value}."""
        start, stop = self.offsets[self.class_of[symbol] :][:2]
        return {
            self.names[column]: float(value)
            for column, value in zip(self.columns[start:stop], self.values[start:stop], strict=True)
        }

    def named(self, symbol: int) -> list[str]:
        """Return the non-zero features of the word with id `symbol` as texts: "name" for value 1, else "name=0.5"."""
        return [name if value == 1.0 else f"{name}={value:.3g}" for name, value in self.row(symbol).items()]

    def bytes(self) -> int:
        """Return the memory in bytes of the matrix: of its class indices, offsets, columns and values."""
        return sum(array.nbytes for array in (self.class_of, self.offsets, self.columns, self.values))

    def __repr__(self) -> str:
        return f"FeatureMatrix({self.n_symbols} symbols, {self.n_features} features, {self.n_classes} classes)"


def common_values(key: Ints, values: Floats, count: int) -> Floats:
    """Return for each key 0 … count − 1 the value that all entries with this key share, (count,) float64.

    Entry i has key `key[i]` and value `values[i]`. NaN where the values of a key differ, or it has no entry.
    """
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, key, values)
    np.maximum.at(highest, key, values)
    return np.asarray(np.where(lowest == highest, lowest, np.nan), dtype=np.float64)


def _entries(matrix: Any) -> tuple[Ints, Ints, Floats, tuple[int, int]]:
    """Return row, column and value of the non-zero entries of a matrix, each (n,), row by row, and its shape (V, m).

    `matrix`: dense or sparse, of numpy, scipy or torch. Raises FeatureError if it is not a matrix of numbers with two
    dimensions.
    """
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu()
        matrix = matrix.double().numpy() if matrix.layout == torch.strided else matrix.to_sparse_coo().coalesce()
    try:
        matrix = matrix if hasattr(matrix, "tocsr") or isinstance(matrix, Tensor) else np.asarray(matrix, np.float64)
    except (TypeError, ValueError):
        raise FeatureError(
            f"features must be a FeatureMatrix or a matrix of numbers, (V, m), found {quoted(matrix)}; "
            "features of llrnn.features become one by compile_features(features, vocabulary)"
        ) from None
    if len(matrix.shape) != 2:
        raise FeatureError(f"features need a row for each word, (V, m), found an array of shape {tuple(matrix.shape)}")
    if isinstance(matrix, Tensor):
        (row, column), values = matrix.indices().numpy(), matrix.values().double().numpy()
    elif hasattr(matrix, "tocsr"):  # of scipy
        matrix = matrix.tocsr().copy()
        matrix.sum_duplicates()
        row, column = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices
        values = matrix.data
    else:
        row, column = np.nonzero(matrix)
        values = matrix[row, column]
    own = values != 0
    return row[own].astype(np.int64), column[own].astype(np.int64), values[own].astype(np.float64), tuple(matrix.shape)


class WeightCache(Generic[T]):
    """A cache that holds one value computed from tensors of weights, until one of these changes.

    Weights are taken as unchanged if they are at the same memory and torch has counted no write to it. After writes
    that torch does not count (through `weight.data`, by fused optimizers, by CUDA graphs) call `clear`. Use: `cache =
    WeightCache()`, then `cache.get(lambda: phi @ weight, weight)`.
    """

    def __init__(self) -> None:
        # the weights (kept, so that no others come to stand in their place), their versions, and the value: one object,
        # which other threads see as a whole
        self._kept: tuple[tuple[Tensor, ...], tuple[object, ...], T] | None = None

    def get(self, make: Callable[[], T], *weights: Tensor, key: object = None) -> T:
        """Return the cached value, or that of `make()`, called without gradients, if a weight or `key` has changed.

        `weights`: the tensors that the value is computed from; `key`: what else it depends on, compared by ==.
        """
        kept, versions = self._kept, (key, *map(_version, weights))
        if kept is None or kept[1] != versions:
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = tuple(weight.detach() for weight in weights), versions, make()
        return kept[2]

    def clear(self) -> None:
        """Drop the cached value, so that the next `get` computes it anew."""
        self._kept = None

    def __reduce__(self) -> tuple[type[WeightCache[T]], tuple[()]]:
        """Return what pickling and copying need: the class alone, so that a copy is an empty cache."""
        return type(self), ()


def _version(weight: Tensor) -> tuple[object, ...]:
    return weight.data_ptr(), -1 if weight.is_inference() else weight._version, weight.dtype


def needs_gradient(*weights: Tensor) -> bool:
    """Return whether results computed from these tensors need a gradient: grad mode is on, and one requires grad."""
    return torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)


def can_be_cached(entries: int, *weights: Tensor) -> bool:
    """Return whether a product with `entries` numbers, computed from the tensors `weights`, may be cached.

    False if a gradient is needed now, a weight is an inference tensor (torch counts no writes to it), or the product
    would exceed 256 MiB.
    """
    trains = torch.is_grad_enabled()
    for weight in weights:
        if weight.is_inference() or (trains and weight.requires_grad):
            return False
    return entries * weights[0].element_size() <= _MOST_CACHED


class _Times(torch.autograd.Function):
    """The autograd function of a product with a sparse matrix Φ, given as two functions: Φ W forward, Φᵀ g backward.

    Called as `_Times.apply(W, forward, backward)` by `SparseMatrix`.
    """

    @staticmethod
    def forward(ctx: Any, factor: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[..., Any]) -> Tensor:
        ctx.times = backward
        return forward(factor)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        return ctx.times(grad_outputs[0].contiguous()), None, None


def _sums(offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    return F.embedding_bag(columns, dense, offsets, mode="sum", per_sample_weights=values, include_last_offset=True)


class _Constants(torch.nn.Module):
    """A torch module with constant arrays as buffers, which move with the model but are not in its state dict.

    Each keyword argument of the constructor, a numpy array, becomes a buffer of that name. One must be `values`: it
    stays float64 when the model is cast.
    """

    values: Tensor

    def __init__(self, **arrays: Ints | Floats) -> None:
        super().__init__()
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        self._cast: dict[torch.dtype, Tensor] = {}

    def _apply(self, fn: Any, recurse: bool = True) -> _Constants:
        """Apply a move or cast of torch (`.to`, `.half`) to the buffers, but keep `values` float64; return self.

        So a model that is cast to half precision and back keeps its feature values exactly.
        """
        exact = self.values
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.values = exact.to(self.values.device)
        self._cast = {}
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling and copying, without cached casts of `values`."""
        return {**self.__dict__, "_cast": {}}

    def as_dtype(self, dtype: torch.dtype) -> Tensor:
        """Return the buffer `values` cast to `dtype`; cached."""
        if dtype not in self._cast:
            self._cast[dtype] = self.values.to(dtype)
        return self._cast[dtype]


class CompressedRows(_Constants):
    """A constant sparse matrix in compressed rows, as a torch module that moves with the model.

    Row i has `values[j]` in column `columns[j]`, for j from offsets[i] to offsets[i + 1] − 1. `offsets` (rows + 1,),
    `columns` and `values` (one entry for each non-zero) are buffers, the first two int64, the last float64.
    """

    offsets: Tensor
    columns: Tensor

    def __init__(self, offsets: Ints, columns: Ints, values: Floats) -> None:
        super().__init__(offsets=offsets, columns=columns, values=values)

    def sums(self, dense: Tensor) -> Tensor:
        """Return the product of this matrix (rows, n) with a dense one, (n, H) -> (rows, H)."""
        return _sums(self.offsets, self.columns, self.as_dtype(dense.dtype), dense)

    def for_kernels(self, device: torch.device, dtype: torch.dtype, multiple: int = 1) -> KernelRows:
        """Return this matrix in the form that the Triton kernels read, on `device`, with values as `dtype`.

        Empty rows are added at the end until the number of rows is a multiple of `multiple`; rows with more than 64
        entries are cut into pieces.
        """
        offsets = self.offsets.cpu().numpy()
        offsets = np.append(offsets, np.full(-(len(offsets) - 1) % multiple, offsets[-1]))
        pieces = Pieces(*(torch.from_numpy(part).to(device) for part in _cut(offsets)))
        columns, values = self.columns.to(device), self.values.to(device, dtype)
        return KernelRows(len(offsets) - 1, torch.from_numpy(offsets).to(device), columns, values, pieces)


class DenseColumns(_Constants):
    """The columns of a feature matrix (G, m) with so many non-zeros that a dense product is faster, as a dense matrix.

    Word vectors, for instance. `column` (k,): their indices; `values` (G, k): a row for each class of words with equal
    features. The constructor's `features`: the `FeatureMatrix`; `rows`: the row index of each of its non-zeros; `often`
    (m,) bool: which columns are taken.
    """

    column: Tensor  # (k,) where they stand in Φ; `values` is (G, k)

    def __init__(self, features: FeatureMatrix, rows: Ints, often: npt.NDArray[np.bool_]) -> None:
        own, place = often[features.columns], np.cumsum(often) - 1
        values = np.zeros((features.n_classes, int(often.sum())))
        values[rows[own], place[features.columns[own]]] = features.values[own]
        super().__init__(column=np.flatnonzero(often), values=values)

    @staticmethod
    def worth_it(features: FeatureMatrix) -> npt.NDArray[np.bool_]:
        """Return a mask (m,) of the features to treat as dense: those non-zero on more than a quarter of the rows.

        A row stands for a class of words with equal features. All False where fewer than 16 features are so, or there
        are fewer than 1,000 rows.
        """
        often = np.bincount(features.columns, minlength=features.n_features) > features.n_classes // _DENSE
        return often if features.n_classes >= _FEWEST_CLASSES and often.sum() >= _FEWEST_DENSE else often & False

    def times(self, factor: Tensor) -> Tensor:
        """Return what the dense columns of the feature matrix Φ contribute to the product Φ W, W (m, H) -> (G, H).

        W: the dense factor, of which only the rows of these columns are used.
        """
        return self.as_dtype(factor.dtype) @ factor.index_select(0, self.column)

    def put_transposed(self, factor: Tensor, into: Tensor) -> Tensor:
        """Write the rows of Φᵀ D that belong to dense columns of the feature matrix Φ (G, m) into `into`; return it.

        `factor`: D (G, H); `into` (m, H): its other rows stay as they are.
        """
        return into.index_copy_(0, self.column, (self.as_dtype(factor.dtype).t() @ factor).to(into.dtype))


class Spread(_Constants):
    """A low-rank block of the feature matrix Φ as a dense matrix `values` (n, r): n classes of words by r features.

    It is one block of S where Φ = S Φ̃ and Φ̃ has fewer rows. `classes`: the slice of its n rows of Φ, classes of words
    with equal features; `inner`: the slice of the r rows of Φ̃ that stand for its features.
    """

    def __init__(self, classes: slice, inner: slice, values: Floats) -> None:
        super().__init__(values=values)
        self.classes, self.inner = classes, inner


class SparseMatrix(torch.nn.Module):
    """A constant feature matrix Φ (G, m) as a torch module that moves with the model; `phi @ W` has gradients.

    Its G rows are classes of words with equal features. Where Φ has low-rank blocks, Φ = S Φ̃: `reduced` is Φ̃, and
    `expansions` are the dense blocks of S. Else `reduced` is Φ itself, and there are no expansions.
    """

    def __init__(self, features: FeatureMatrix) -> None:
        super().__init__()
        self.n_classes, self.n_features = features.n_classes, features.n_features
        self._spreads = torch.nn.ModuleList(_spreads(features))
        self._reduced = SparseMatrix(_reduced(features)) if features.low_rank_blocks else None
        self.is_identity = features.is_identity
        rows = np.repeat(np.arange(features.n_classes), np.diff(features.offsets))
        often = DenseColumns.worth_it(features)
        self._dense = DenseColumns(features, rows, often) if often.any() else None
        kept = ~often[features.columns]
        rows, columns, values = rows[kept], features.columns[kept], features.values[kept]
        self.nnz = len(features.columns)
        sparse, dense = len(columns), features.n_classes * int(often.sum())
        self.entries = 0 if self.is_identity else sparse + dense // _OF_AN_ENTRY  # that a product has to read
        by_column = np.argsort(columns, kind="stable")
        self._rows = CompressedRows(_ends(rows, self.n_classes), columns, values)
        self._columns = CompressedRows(_ends(columns, self.n_features), rows[by_column], values[by_column])

    @property
    def reduced(self) -> SparseMatrix:
        return self if self._reduced is None else self._reduced

    @property
    def expansions(self) -> tuple[Spread, ...]:
        return cast(tuple[Spread, ...], tuple(self._spreads))

    def expand(self, inner: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return the scores of all G classes of words, y Sᵀ + offset, from those of the rows of Φ̃, y (N, P) -> (N, G).

        For a feature matrix Φ = S Φ̃ with low-rank blocks; without any, `inner`, which is y, is returned as it is, and
        `offset` is not added.
        """
        if self._reduced is None:
            return inner
        single = inner[:, : self.expansions[0].inner.start]
        parts = (inner[:, part.inner] @ part.as_dtype(inner.dtype).t() for part in self.expansions)
        return torch.cat([single, *parts], 1) + offset

    def for_kernels(self, like: Tensor) -> KernelMatrix:
        """Return the feature matrix in the form that the Triton kernels read, on the device of the tensor `like`.

        Values are in the dtype of `like`, or float32 where that is a half precision. The last result is cached.
        """
        dtype = torch.promote_types(like.dtype, torch.float32)
        found = _for_kernels.get(self)
        if found is None or found.rows.values.device != like.device or found.rows.values.dtype != dtype:
            rows = self._rows.for_kernels(like.device, dtype, ALIGNED), self._columns.for_kernels(like.device, dtype)
            dense = None if self._dense is None else copy.deepcopy(self._dense).to(like.device)
            found = _for_kernels[self] = KernelMatrix(*rows, self.is_identity, dense)
        return found

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product of the feature matrix (G, m) with a dense one, (m, H) -> (G, H), or vector, (m,) -> (G,).

        Differentiable in the dense factor.
        """
        if self.is_identity:
            return dense
        if dense.dim() == 1:
            return (self @ dense.unsqueeze(-1)).squeeze(-1)
        if dense.shape[1] == 0:
            return dense.new_zeros(self.n_classes, 0)
        return cast(Tensor, _Times.apply(dense, self._times, self._transposed))  # type: ignore[no-untyped-call]

    def transposed(self, dense: Tensor) -> Tensor:
        """Return the product of the transposed feature matrix (m, G) with a dense matrix, (G, H) -> (m, H).

        Differentiable in the dense factor.
        """
        if self.is_identity:
            return dense
        return cast(Tensor, _Times.apply(dense, self._transposed, self._times))  # type: ignore[no-untyped-call]

    def _times(self, factor: Tensor) -> Tensor:
        sums = self._rows.sums(factor)
        return sums if self._dense is None else sums.add_(self._dense.times(factor))

    def _transposed(self, factor: Tensor) -> Tensor:
        sums = self._columns.sums(factor)
        return sums if self._dense is None else self._dense.put_transposed(factor, sums)

    def rows(self, dense: Tensor, classes: Tensor) -> Tensor:
        """Return some rows of the product of the feature matrix (G, m) with `dense` (m, H), row indices (B,) -> (B, H).

        `classes`: the rows, each a class of words with equal features. For a single step of decoding.
        """
        if self.is_identity:
            return dense[classes]
        starts, stops = self._rows.offsets[classes], self._rows.offsets[classes + 1]
        widths = stops - starts
        ends = widths.cumsum(0)
        within = torch.arange(int(ends[-1]) if len(ends) else 0, device=dense.device)
        entries = within + (starts - ends + widths).repeat_interleave(widths)
        segment = torch.arange(len(classes), device=dense.device).repeat_interleave(widths)
        weighted = dense[self._rows.columns[entries]] * self._rows.as_dtype(dense.dtype)[entries].unsqueeze(-1)
        sums = dense.new_zeros(len(classes), dense.shape[-1]).index_add(0, segment, weighted)
        if self._dense is None:
            return sums
        return sums + self._dense.as_dtype(dense.dtype)[classes] @ dense.index_select(0, self._dense.column)


def _reduced(features: FeatureMatrix) -> FeatureMatrix:
    """Return the matrix Φ̃ (P, m) of a feature matrix that is a product Φ = S Φ̃.

    Its rows are those of Φ before the first low-rank block, then for each feature of a block a row with a single 1, in
    the feature's column. `features`: Φ, which has low-rank blocks.
    """
    single, first = features.low_rank_blocks[0].classes.start, features.low_rank_blocks[0].columns.start
    kept = features.offsets[: single + 1]
    own = np.arange(first, features.n_features)
    return replace(
        features,
        class_of=np.arange(single + len(own)),
        offsets=np.concatenate([kept, kept[-1] + 1 + np.arange(len(own))]),
        columns=np.concatenate([features.columns[: kept[-1]], own]),
        values=np.concatenate([features.values[: kept[-1]], np.ones(len(own))]),
    )


def _spreads(features: FeatureMatrix) -> Iterator[Spread]:
    for classes, columns in features.low_rank_blocks:
        first = features.low_rank_blocks[0]
        before = first.classes.start - first.columns.start  # rows of Φ̃ outside all blocks
        inner = slice(before + columns.start, before + columns.stop)
        values = features.values[features.offsets[classes.start] : features.offsets[classes.stop]]
        yield Spread(classes, inner, values.reshape(-1, columns.stop - columns.start))


def _ends(of: Ints, count: int) -> Ints:
    """Return the offsets of compressed rows, (count + 1,), from the row index of each entry.

    `of`: these row indices; `count`: the number of rows. Row i has the entries offsets[i] to offsets[i + 1] − 1, sorted
    by row.
    """
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int64)


class Pieces(NamedTuple):
    """The entries of a sparse matrix's rows, cut into P pieces of at most 64 entries, one for each program on a GPU.

    A row of several pieces is summed in two steps: its pieces to partial sums, then these. `offsets` (P + 1,): where
    the entries of each piece start; `target` (P,): the row whose only piece it is, or −1 − j for partial sum j;
    `long_rows` (L,), `long_offsets` (L + 1,): the rows of several pieces, and where their partial sums start;
    `partial`, `ones` (Q,): indices 0 … Q − 1 of the partial sums, and ones, as columns and values of the second sum.
    """

    offsets: Tensor  # (P + 1,) where the entries of each piece start
    target: Tensor  # (P,) the row whose only piece it is, or −1 − j for partial sum j
    long_rows: Tensor  # (L,) the rows of several pieces
    long_offsets: Tensor  # (L + 1,) where the partial sums of each start
    partial: Tensor  # (Q,) 0, 1, ... : the partial sums as columns
    ones: Tensor  # (Q,)


class KernelRows(NamedTuple):
    """A sparse matrix in compressed rows on one device, for GPU kernels, with its long rows cut into `pieces`.

    Row i has `values[j]` in column `columns[j]`, for j from offsets[i] to offsets[i + 1] − 1. `n_rows`: an int;
    `offsets` (n_rows + 1,); `columns` and `values` (nnz,), float32 or float64; `pieces`: a `Pieces`. Made by
    `CompressedRows.for_kernels`.
    """

    n_rows: int
    offsets: Tensor  # (rows + 1,)
    columns: Tensor  # (nnz,)
    values: Tensor  # (nnz,) float32 or float64
    pieces: Pieces

    def sums(self, dense: Tensor) -> Tensor:
        """Return the product of this matrix (rows, n) with a dense one, (n, H) -> (rows, H)."""
        return _sums(self.offsets, self.columns, self.values.to(dense.dtype), dense)


class KernelMatrix(NamedTuple):
    """The feature matrix Φ (G, m) as the GPU kernels read it: by rows, and by columns for products with its transpose.

    `rows`: Φ as `KernelRows`; `columns`: Φᵀ as `KernelRows`; `identity`: whether row i has a 1 in column i alone;
    `dense`: a `DenseColumns` of the columns that are multiplied apart as a dense matrix, or None. A row stands for a
    class of words with equal features.
    """

    rows: KernelRows
    columns: KernelRows
    identity: bool
    dense: DenseColumns | None = None


_for_kernels: WeakKeyDictionary[SparseMatrix, KernelMatrix] = WeakKeyDictionary()


def _cut(offsets: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    widths = np.diff(offsets)
    pieces = np.maximum(1, -(-widths // _LONGEST_PIECE))  # (rows,), an empty row is one empty piece
    row = np.repeat(np.arange(len(widths)), pieces)
    within = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.append(offsets[row] + within * _LONGEST_PIECE, offsets[-1]).astype(np.int64)
    is_long = pieces[row] > 1
    target = np.where(is_long, -np.cumsum(is_long), row).astype(np.int64)
    long_rows = np.nonzero(pieces > 1)[0].astype(np.int64)
    long_offsets = np.concatenate([[0], np.cumsum(pieces[long_rows])]).astype(np.int64)
    partial = np.arange(int(is_long.sum()), dtype=np.int64)
    return starts, target, long_rows, long_offsets, partial, np.ones(len(partial), dtype=np.int64)
