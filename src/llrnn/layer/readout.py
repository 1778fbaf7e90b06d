"""What a network of one's own hands to the layer, looked at once: h, words, values and a background.

    h (…, H), words (…)  ->  N positions in one row

A tensor that does not fit is refused with one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError, InputError, quoted
from llrnn.layer.priors import AnyValues, DensePrior, FullPrior, Prior, SparsePrior, Table

Background = Tensor | Prior  # log b of every word, (V,), or of every word at every position, (…, V); or what says so


def flat(h: Tensor, weight: Tensor) -> Tensor:
    """Return hidden vectors h (…, H) as (N, H), all leading dimensions in one.

    Raises InputError where H is not that of the layer's `weight` (m, H), h is not floating point, or one of the two
    alone is float64.
    """
    H = weight.shape[1]
    if h.dim() == 0 or h.shape[-1] != H or not h.is_floating_point():
        raise InputError(
            f"the layer takes h of shape (…, {H}), floating point; found {_shown(h)}; give hidden={_last(h)}"
            " when it is made, or h of that size"
        )
    if h.dtype != weight.dtype and torch.float64 in (h.dtype, weight.dtype):
        raise InputError(
            f"the weights of the layer are {weight.dtype} and h is {h.dtype}: convert one of them, with .to()"
        )
    return h if h.dim() == 2 else h.reshape(h.shape[:-1].numel(), H)


def require_positions(n: int, prior: Prior, values: Sequence[AnyValues], k: int) -> None:
    """Raise unless prior and contextual values have n positions, or one for all, and the values k features in all.

    BackgroundError for the prior, InputError for the values, which have an entry for each source of features.
    """
    if prior.n not in (1, n):
        raise BackgroundError(f"the background speaks of {prior.n} positions, h has {n}: give one row for each, or one")
    found = [(part.n, part.width) for part in values]
    if k != sum(width for _, width in found) or any(rows not in (1, n) for rows, _ in found):
        raise InputError(
            f"the layer needs values of {k} contextual features at {n} positions, found {found}: (positions, "
            "features) of each source"
        )


def words(shape: Sequence[int], given: Tensor, V: int, ignored: int | None = None) -> tuple[Tensor, Tensor | None]:
    """Return word ids `given` of shape `shape` as one tensor (N,), and the indices of those that are not `ignored`.

    The indices are None if none is ignored; ignored ids become 0. `V`: the number of words. Raises InputError for
    another shape or dtype, ids outside 0 … V − 1, or if all are ignored.
    """
    if given.shape != torch.Size(shape) or given.dtype.is_floating_point or given.dtype == torch.bool:
        raise InputError(
            f"one word a position is needed, integers of shape {tuple(shape)}; found {_shown(given)}: give "
            "the numbers of the words, in the shape of h without its last dimension"
        )
    words = given.reshape(-1).long()
    without = torch.zeros_like(words, dtype=torch.bool) if ignored is None else words == ignored
    wrong = ~without & ((words < 0) | (words >= V))
    some, every, any_wrong = torch.stack([without.any(), without.all(), wrong.any()]).tolist()  # a GPU waits once
    if ignored is not None and every:
        raise InputError(
            f"no target is left of {len(words)}: {'all are' if len(words) else 'none is given but'} "
            f"ignore_index={ignored}; leave such a batch out"
        )
    if any_wrong:
        found = int(words[wrong][0])
        raise InputError(f"words are numbered 0 to {V - 1}, found {found}; give ignore_index={found} if it is no word")
    return (words.masked_fill(without, 0), torch.nonzero(~without).view(-1)) if some else (words, None)


def as_prior(given: Any, n_symbols: int) -> Prior:
    """Return the prior over words as a `Prior`, from log b: a tensor (V,) for all positions, or (…, V), or a `Prior`.

    A tensor (V,) becomes a `SparsePrior` of one table, any other a `DensePrior` of all leading positions; a `Prior` is
    returned as it is. Raises BackgroundError where it is no such tensor, needs a gradient, or is not of `n_symbols`
    words.
    """
    if isinstance(given, SparsePrior | FullPrior):
        prior: Prior = given
    else:
        try:
            log_b = torch.as_tensor(given)
        except (RuntimeError, TypeError, ValueError):
            raise BackgroundError(
                f"a background here is a tensor of log b, (V,) or (…, V), or a prior, found {quoted(given)}; those of "
                "llrnn.backgrounds follow the text of a model (llrnn.LLRNN)"
            ) from None
        if log_b.requires_grad or not log_b.is_floating_point() or log_b.dim() == 0:
            raise BackgroundError(
                "a background is constant: log b of every word, floating point, without gradient; found "
                f"{_shown(log_b)}{', with gradient: .detach() it' if log_b.requires_grad else ''}"
            )
        log_b = log_b if log_b.dtype.itemsize >= torch.float32.itemsize else log_b.float()
        static = log_b.dim() == 1
        prior = Table(log_b).everywhere() if static else DensePrior(log_b.reshape(-1, log_b.shape[-1]))
    if prior.n_symbols != n_symbols:
        raise BackgroundError(
            f"the background has log b of {prior.n_symbols} words, the features are of {n_symbols}: give one "
            "value for each word"
        )
    return prior


def _shown(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _last(h: Tensor) -> object:
    return h.shape[-1] if h.dim() else "its size"
