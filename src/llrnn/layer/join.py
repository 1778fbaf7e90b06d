"""All that is known of N positions in one place: a prior and contextual values over one common set of exceptions.

Sources list their exceptions sorted by position and word. They are merged, not sorted again: two experts of one text
list the same words, and most others list few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from llrnn.layer.priors import ContextValues, Exceptions, Prior, SparsePrior

_FEW = 5_000  # exceptions that are sorted faster than they are merged (measured on CPU)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A prior and all contextual values over one common set of exceptions."""

    prior: Prior
    position: Tensor  # (E,)
    word: Tensor  # (E,)
    log_b: Tensor  # (E,) float64
    value: Tensor  # (E, k)
    rest: Tensor  # (N, k)
    log_b_before: Tensor  # (E,) float64: what log b would be if the words were not exceptional


def placed(h: Tensor, prior: Prior, values: Sequence[ContextValues]) -> tuple[Tensor, Prior, list[ContextValues]]:
    """All where h is, and in its numbers; in float32 where these are shorter."""
    h = h.to(torch.promote_types(h.dtype, torch.float32))
    return h, prior.to(h.device), [part.to(h.device, h.dtype) for part in values]


def join(prior: Prior, values: Sequence[ContextValues], n: int) -> Knowledge:
    """Join: a word that is exceptional to one source takes the rest's value from every other."""
    V, device = prior.n_symbols, prior.shift.device if isinstance(prior, SparsePrior) else prior.log_b.device
    own = prior.exceptions if isinstance(prior, SparsePrior) else Exceptions.none(device)
    sources: list[Exceptions | ContextValues] = [own, *values]
    keys = [source.position * V + source.word for source in sources]
    key = _union(keys)
    longest = max(sources, key=lambda source: len(source.position))
    if len(key) == len(longest.position):
        position, word = longest.position, longest.word
    else:
        position = torch.div(key, V, rounding_mode="floor")
        word = key - position * V
    rest = torch.cat([part.rest for part in values], 1) if values else torch.zeros(n, 0, device=device)
    value = [_filled(part.rest[position], part.value, key, mine) for part, mine in zip(values, keys[1:], strict=True)]
    joined = torch.cat(value, 1) if value else torch.zeros(len(position), 0, device=device)
    usual = prior.rest(position, word) if isinstance(prior, SparsePrior) else prior.at(position, word)
    return Knowledge(prior, position, word, _filled(usual, own.log_b, key, keys[0]), joined, rest, usual)


def _union(keys: Sequence[Tensor]) -> Tensor:
    """All keys, sorted, each once: a few are sorted again, which is one call; many are merged."""
    listed = [key for key in keys if len(key)]
    if len(listed) > 1 and sum(map(len, listed)) < _FEW:
        found: Tensor = torch.unique(torch.cat(listed))
        return found
    return reduce(merged, sorted(listed or keys[:1], key=len, reverse=True))


def _filled(usual: Tensor, own: Tensor, key: Tensor, mine: Tensor) -> Tensor:
    """The usual values at all keys, with one's own where they are listed."""
    if len(mine) == 0:
        return usual
    if len(mine) == len(key):
        return own
    return usual.index_copy(0, torch.searchsorted(key, mine), own)


def merged(left: Tensor, right: Tensor) -> Tensor:
    """The union of two sorted lists without repetition; cheap where the right one is short or brings nothing new."""
    if len(right) == 0 or (len(left) == len(right) and torch.equal(left, right)):
        return left
    found = torch.searchsorted(left, right).clamp(max=len(left) - 1)
    new = right[left[found] != right]
    at = torch.searchsorted(left, new) + torch.arange(len(new), device=new.device)
    whole = left.new_empty(len(left) + len(new))
    whole[torch.arange(len(left), device=left.device) + torch.searchsorted(new, left)] = left
    whole[at] = new
    return whole
