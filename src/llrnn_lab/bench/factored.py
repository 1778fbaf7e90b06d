"""A class-factored output, for comparison: two small softmaxes instead of a large one.

    p(x | h) = p(c(x) | h) · p(x | c(x), h)              c(x): one class for each word, given beforehand
    p(c | h) ∝ B_c exp(v_c·h + d_c)                      over the classes
    p(x | c, h) ∝ b(x) exp(u_x·h + e_x)                  over the words of the class

This is another distribution, not an estimate of the log-linear one: it is normalised twice, so no set of features has
it as a special case, and a word can only be as likely as its class. Therefore it is no `Objective` but a layer of its
own, in the place of `LogLinear` above the same network. It starts at the static background b, as an LL-RNN does, and a
step costs the number of classes plus the words of the target's class.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from llrnn.layer.numerics import segment_logsumexp
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary


def frequency_bins(log_b: Tensor, count: int) -> Tensor:
    """`count` classes of equal mass at most, frequent words together, (V,) -> (V,): the first hold a word or two."""
    order = torch.argsort(log_b, descending=True, stable=True)
    mass = torch.softmax(log_b[order].double(), 0)
    middle = mass.cumsum(0) - mass / 2
    class_of = torch.empty_like(order)
    class_of[order] = (middle * count).long().clamp(max=count - 1)
    return _without_gaps(class_of)


def cluster_bins(vocabulary: Vocabulary, clusters: Lexicon, size: int) -> Tensor:
    """The clusters of `clusters.cluster_words` of one size as classes, (V,); words without one are a class too."""
    prefix = f"Cluster{size}:"
    found = [
        [int(name.removeprefix(prefix)) for name in clusters(word) if name.startswith(prefix)] for word in vocabulary
    ]
    return _without_gaps(torch.tensor([own[0] if own else size for own in found]))


def _without_gaps(class_of: Tensor) -> Tensor:
    numbered: Tensor = torch.unique(class_of, return_inverse=True)[1]
    return numbered


class ClassFactored(nn.Module):
    """The two softmaxes over h (N, H). Words are kept in the order of their classes, so that a class is a slice."""

    class_of: Tensor
    place: Tensor
    log_b: Tensor
    log_mass: Tensor

    def __init__(self, class_of: Tensor, log_b: Tensor, hidden: int) -> None:
        super().__init__()
        order = torch.argsort(class_of, stable=True)
        self.sizes = torch.bincount(class_of).tolist()
        self.register_buffer("class_of", class_of)
        self.register_buffer("place", torch.argsort(order))  # where each word stands in that order
        self.register_buffer("log_b", log_b[order])
        self.register_buffer("log_mass", segment_logsumexp(log_b, class_of, len(self.sizes)))
        self.class_weight = nn.Parameter(torch.zeros(len(self.sizes), hidden))  # v
        self.class_bias = nn.Parameter(torch.zeros(len(self.sizes)))  # d
        self.weight = nn.Parameter(torch.zeros(len(class_of), hidden))  # u
        self.bias = nn.Parameter(torch.zeros(len(class_of)))  # e

    def _log_class(self, h: Tensor) -> Tensor:
        """log p(c | h), (N, C)."""
        return torch.log_softmax(torch.addmm(self.class_bias + self.log_mass.to(h.dtype), h, self.class_weight.t()), 1)

    def _slices(self, h: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The weights of each class; split at once, so that the gradient is put together once and not for each."""
        weight, bias = (
            torch.split_with_sizes(part, self.sizes) for part in (self.weight, self.bias + self.log_b.to(h.dtype))
        )
        return list(zip(weight, bias, strict=True))

    def log_prob(self, h: Tensor, word: Tensor) -> Tensor:
        """log p(word_n | h_n), (N, H), (N,) -> (N,): class by class of those that occur."""
        klass, starts = self.class_of[word], self.place.new_tensor([0, *self.sizes]).cumsum(0)
        within, slices = self.place[word] - starts[klass], self._slices(h)
        rows, found = [], []
        for c in torch.unique(klass).tolist():
            here = torch.nonzero(klass == c).view(-1)
            weight, bias = slices[c]
            log_p = torch.log_softmax(torch.addmm(bias, h[here], weight.t()), 1)
            rows.append(here)
            found.append(log_p.gather(1, within[here, None])[:, 0])
        inside = torch.zeros_like(h[:, 0]).index_put((torch.cat(rows),), torch.cat(found))
        return self._log_class(h).gather(1, klass[:, None])[:, 0] + inside

    def log_probs(self, h: Tensor) -> Tensor:
        """log p of every word, (N, V)."""
        log_class = self._log_class(h)
        parts = [
            torch.log_softmax(torch.addmm(bias, h, weight.t()), 1) + log_class[:, c : c + 1]
            for c, (weight, bias) in enumerate(self._slices(h))
        ]
        return torch.cat(parts, 1)[:, self.place]
