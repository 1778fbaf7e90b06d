"""Outputs of earlier language models, for comparison with a softmax and with the log-linear layer.

    TwoLevel      log p(x | h) = log softmax_c(A h + a)[c(x)] + log softmax_{x' in c(x)}(B h + b)[x]     (Goodman 2001)
    BinaryTree    log p(x | h) = Σ_{inner nodes n above x} log σ(± (v_n·h + b_n)), Huffman's tree  (Morin & Bengio 2005)
    MaxEnt        log p(x | h) ∝ W_x·h + c_x + Σ_n w[hash(x_{t−n+1} … x_t, x)]                     (Mikolov et al. 2011)

All sum to one over V. Biases begin so that p is the unigram distribution, as the log-linear layer over it does. A class
with words at its own unigram shares, p(x | h) = p(c(x) | h) · p(x | c), needs no output of its own: it is the
log-linear layer with classes as its only features. `Peer` is ψ → controller → one of these outputs.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.ground.arrays import Floats, Ints
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Controller, initialise
from llrnn.model.scoring import Sentences, derived_seed
from llrnn.text.encoded import EncodedText

_CLIP = 5.0


class Output(nn.Module, ABC):
    """log p of targets from h and, if it looks, from the words before."""

    @abstractmethod
    def log_prob(self, h: Tensor, targets: Tensor, before: Tensor) -> Tensor:
        """(N, H), (N,), (N, order − 1) -> (N,); `before` has the last words, the nearest last."""

    def unigram(self) -> None:
        """Set biases to the unigram distribution: h does not count yet."""


class TwoLevel(Output):
    """A softmax over classes, and one over the words of the class."""

    def __init__(self, hidden: int, class_of: Ints, counts: Floats) -> None:
        super().__init__()
        self.members = [torch.from_numpy(np.flatnonzero(class_of == c)) for c in range(int(class_of.max()) + 1)]
        self.class_of, self.counts = torch.from_numpy(class_of), counts
        self.classes = nn.Linear(hidden, len(self.members))
        self.words = nn.Linear(hidden, len(class_of))

    def unigram(self) -> None:
        mass = torch.from_numpy(self.counts).float()
        with torch.no_grad():
            self.words.bias.copy_(mass.log())
            self.classes.bias.copy_(torch.zeros(len(self.members)).index_add(0, self.class_of, mass).log())

    def log_prob(self, h: Tensor, targets: Tensor, before: Tensor) -> Tensor:
        own = self.class_of.to(h.device)[targets]
        total = torch.log_softmax(self.classes(h), 1).gather(1, own[:, None])[:, 0]
        return total + (self._by_class(h, targets, own) if h.device.type == "cpu" else self._at_once(h, targets, own))

    def _at_once(self, h: Tensor, targets: Tensor, own: Tensor) -> Tensor:
        """log p within the class from the logits of all words: a few kernels instead of a few for each class."""
        logits: Tensor = self.words(h)
        others = self.class_of.to(h.device) != own[:, None]
        return logits.gather(1, targets[:, None])[:, 0] - logits.masked_fill(others, -torch.inf).logsumexp(1)

    def _by_class(self, h: Tensor, targets: Tensor, own: Tensor) -> Tensor:
        """The same from the logits of the words of the class alone."""
        inside = torch.zeros_like(h[:, 0])
        for c in torch.unique(own).tolist():
            rows, members = torch.nonzero(own == c)[:, 0], self.members[c]
            logits = h[rows] @ self.words.weight[members].t() + self.words.bias[members]
            place = torch.searchsorted(members, targets[rows])
            inside = inside.index_put((rows,), torch.log_softmax(logits, 1).gather(1, place[:, None])[:, 0])
        return inside


class BinaryTree(Output):
    """Hierarchical softmax: a decision at each inner node of Huffman's tree."""

    def __init__(self, hidden: int, counts: Floats) -> None:
        super().__init__()
        self.nodes, self.signs, mass = huffman(counts)  # (V, D), (V, D): 0 where the path has ended
        self.log_odds = torch.log(torch.from_numpy(mass[:, 1] / mass[:, 0])).float()
        self.decisions = nn.Linear(hidden, len(mass))

    def unigram(self) -> None:
        with torch.no_grad():
            self.decisions.bias.copy_(self.log_odds)

    def log_prob(self, h: Tensor, targets: Tensor, before: Tensor) -> Tensor:
        nodes, signs = self.nodes.to(h.device)[targets], self.signs.to(h.device, h.dtype)[targets]
        scores = (self.decisions.weight[nodes] @ h[:, :, None])[:, :, 0] + self.decisions.bias[nodes]
        return (F.logsigmoid(signs * scores) * signs.abs()).sum(1)


def huffman(counts: Floats) -> tuple[Tensor, Tensor, Floats]:
    """Of each word the inner nodes above it and the way taken there (−1, 1), (V, D), and the mass of both ways."""
    heap = [(float(count), word, None) for word, count in enumerate(counts)]  # ties: by number
    heapq.heapify(heap)
    parents, V = dict[int, tuple[int, int]](), len(counts)
    mass = list[tuple[float, float]]()
    while len(heap) > 1:
        (left, a, _), (right, b, _) = heapq.heappop(heap), heapq.heappop(heap)
        node = V + len(mass)
        parents[a], parents[b] = (node - V, -1), (node - V, 1)
        mass.append((left, right))
        heapq.heappush(heap, (left + right, node, None))
    paths = []
    for word in range(V):
        path, at = [], word
        while at in parents:
            path.append(parents[at])
            at = parents[at][0] + V
        paths.append(path)
    depth = max(map(len, paths))
    padded = np.array([[*path, *[(0, 0)] * (depth - len(path))] for path in paths])
    return torch.from_numpy(padded[:, :, 0].copy()), torch.from_numpy(padded[:, :, 1].copy()), np.array(mass)


class MaxEnt(Output):
    """A softmax whose logits have a weight for each n-gram of the training text besides, all in one hashed table."""

    def __init__(self, hidden: int, text: EncodedText, counts: Floats, *, order: int = 3, size: int = 2**18) -> None:
        super().__init__()
        self.order, self.log_unigram = order, torch.log(torch.from_numpy(counts / counts.sum())).float()
        self.softmax, self.weights = nn.Linear(hidden, len(counts)), nn.Parameter(torch.zeros(size))
        followed: dict[tuple[int, ...], set[int]] = {}
        for sentence in text.sentences:
            run = [*[text.eos] * (order - 1), *sentence.tolist(), text.eos]
            for t in range(order - 1, len(run)):
                for n in range(1, order):
                    followed.setdefault(tuple(run[t - n : t]), set()).add(run[t])
        self.followed = {
            context: (np.array(sorted(words)), _hashed(context, np.array(sorted(words)), size))
            for context, words in followed.items()
        }

    def unigram(self) -> None:
        with torch.no_grad():
            self.softmax.bias.copy_(self.log_unigram)

    def log_prob(self, h: Tensor, targets: Tensor, before: Tensor) -> Tensor:
        logits = self.softmax(h)
        rows, words, slots = self._firing(before)
        logits = logits.index_put(
            (rows.to(h.device), words.to(h.device)), self.weights[slots.to(h.device)], accumulate=True
        )
        return torch.log_softmax(logits, 1).gather(1, targets[:, None])[:, 0]

    def _firing(self, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Position, word and weight of every n-gram feature."""
        none = np.zeros(0, dtype=np.int64)
        found = [(none, none, none)]
        for row, words in enumerate(before.tolist()):
            for n in range(1, self.order):
                seen, slots = self.followed.get(tuple(words[len(words) - n :]), (none, none))
                found.append((np.full(len(seen), row), seen, slots))
        return tuple(torch.from_numpy(np.concatenate(column)) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _hashed(context: tuple[int, ...], words: Ints, size: int) -> Ints:
    """Where the weights of the n-grams are."""
    key = np.uint64(14695981039346656037)
    with np.errstate(over="ignore"):
        for word in context:
            key = (key ^ np.uint64(word + 1)) * np.uint64(1099511628211)
        mixed = (key ^ words.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    found: Ints = ((mixed >> np.uint64(20)) % np.uint64(size)).astype(np.int64)
    return found


class Peer(nn.Module):
    """ψ → controller → output, over the same symbols as our models."""

    def __init__(self, size: int, controller: Controller, output: Output, *, seed: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(size, controller.inputs))
        self.controller, self.output = controller, output
        drawn = [(name, own) for name, own in self.named_parameters() if name != "output.weights"]
        initialise(drawn, seed)
        output.unigram()

    def log_prob(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """log p of every target that counts, row by row."""
        psi = self.embedding[batch.inputs]
        h, _ = self.controller.scan(psi, self.controller.initial([None] * len(psi)), generator=generator)
        order = getattr(self.output, "order", 2)
        first = batch.inputs[:, :1].expand(-1, order - 2)  # EOS: a sentence begins with it
        before = torch.cat([first, batch.inputs], 1).unfold(1, order - 1, 1)
        return self.output.log_prob(batch.picked(h), batch.picked(batch.targets), batch.picked(before))


@dataclass(frozen=True)
class PeerSettings:
    """How a peer is trained: as our models are by default."""

    learning_rate: float
    epochs: int
    patience: int
    words: int
    seed: int


def train_peer(model: Peer, text: EncodedText, valid: EncodedText, settings: PeerSettings) -> float:
    """AdamW, kept as it was best on the validation text, whose loss is returned."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    best, kept, waited = float("inf"), dict[str, Tensor](), 0
    device = model.embedding.device
    for epoch in range(settings.epochs):
        generator = torch.Generator(device).manual_seed(derived_seed(settings.seed, epoch, 2))
        for batch in Sentences(settings.words).plan(text, seed=settings.seed, epoch=epoch):
            optimizer.zero_grad()
            loss = -model.log_prob(batch.to(device), generator).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimizer.step()
        found = -float(np.concatenate(peer_log_probs(model, valid)).mean())
        waited = 0 if found < best else waited + 1
        if found < best:
            best, kept = found, {name: own.detach().clone() for name, own in model.named_parameters()}
        if waited >= settings.patience:
            break
    with torch.no_grad():
        for name, own in model.named_parameters():
            own.copy_(kept[name])
    return best


@torch.no_grad()
def peer_log_probs(model: Peer, text: EncodedText) -> Sequence[Floats]:
    """log p of the words and the end of each sentence, in the order of the text."""
    order = np.argsort(text.lengths, kind="stable")
    found = (
        torch.cat([model.log_prob(batch.to(model.embedding.device)) for batch in Sentences().plan(text)])
        .double()
        .cpu()
        .numpy()
    )
    rows = np.split(found, np.cumsum(text.lengths[order])[:-1])
    return [rows[place] for place in np.argsort(order)]


# Classes of words.


def frequency_classes(counts: Floats, classes: int) -> Ints:
    """Words by falling frequency, cut where the square roots of their frequencies make equal shares."""
    order = np.argsort(-counts, kind="stable")
    share = np.sqrt(counts[order])
    below = (np.cumsum(share) - share) / share.sum()
    found = np.zeros(len(counts), dtype=np.int64)
    found[order] = np.minimum((below * classes).astype(np.int64), classes - 1)
    return np.unique(found, return_inverse=True)[1]


def brown_classes(stream: Ints, size: int, classes: int) -> Ints:
    """Brown's clusters (1992): words by falling frequency, each merged so that neighbours tell most of each other.

        I = Σ_{c, c'} p(c, c') log( p(c, c') / p(c)·p(c') )

    The most frequent words have a class each; a further word is one class more, and then the two classes whose merger
    loses the least of I become one.
    """
    counts = np.bincount(stream, minlength=size)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    ranked = rank[stream]
    left, right = ranked[:-1], ranked[1:]
    by_word = _neighbours(left, right, size)
    classes = min(classes, size)
    of = np.full(size, -1, dtype=np.int64)  # by rank
    of[:classes] = np.arange(classes)
    table = np.zeros((classes + 1, classes + 1))
    inside = (left < classes) & (right < classes)
    np.add.at(table, (left[inside], right[inside]), 1.0)
    for word in range(classes, size):
        of[word] = classes
        for ahead, (others, times) in enumerate(by_word(word)):
            known = of[others] >= 0
            rows = (np.full(int(known.sum()), classes), of[others[known]])
            np.add.at(table, rows if ahead == 0 else rows[::-1], times[known])
        # a word next to itself was counted from both sides
        table[classes, classes] /= 2
        kept, gone = _cheapest_merger(table)
        table[kept] += table[gone]
        table[:, kept] += table[:, gone]
        of[of == gone] = kept
        if gone != classes:  # the new class takes its place
            table[gone], table[:, gone] = table[classes], table[:, classes].copy()
            table[gone, gone] = table[classes, classes]
            of[of == classes] = gone
        table[classes], table[:, classes] = 0.0, 0.0
    found: Ints = of[rank]
    return np.unique(found, return_inverse=True)[1]


Neighbours = Callable[[int], list[tuple[Ints, Floats]]]


def _neighbours(left: Ints, right: Ints, size: int) -> Neighbours:
    """What stands behind a word and what before it, with how often."""
    sides = []
    for one, other in ((left, right), (right, left)):
        pairs, times = np.unique(one * size + other, return_counts=True)
        first = np.searchsorted(pairs // size, np.arange(size + 1))
        sides.append((pairs % size, times.astype(np.float64), first))
    return lambda word: [(w[f[word] : f[word + 1]], n[f[word] : f[word + 1]]) for w, n, f in sides]


def _cheapest_merger(table: Floats) -> tuple[int, int]:
    """The two classes, the lower first, whose merger loses the least mutual information."""
    p = table / table.sum()
    before, behind = p.sum(1), p.sum(0)
    q = _information(p, before[:, None], behind)
    alone = q.sum(0) + q.sum(1) - q.diagonal()
    n = len(p)
    best, found = np.inf, (0, 1)
    for i in range(n - 1):
        j = np.arange(i + 1, n)
        rows = _information(p[i] + p[j], (before[i] + before[j])[:, None], behind)
        columns = _information(p[:, i] + p[:, j].T, (behind[i] + behind[j])[:, None], before)
        at = np.arange(len(j))
        others = rows.sum(1) - rows[:, i] - rows[at, j] + columns.sum(1) - columns[:, i] - columns[at, j]
        both = _information(p[i, i] + p[i, j] + p[j, i] + p[j, j], before[i] + before[j], behind[i] + behind[j])
        loss = alone[i] + alone[j] - q[i, j] - q[j, i] - others - both
        least = int(loss.argmin())
        if loss[least] < best:
            best, found = float(loss[least]), (i, int(j[least]))
    return found


def _information(joint: Floats, one: Floats, other: Floats) -> Floats:
    """p log( p / p p' ), 0 where p is 0."""
    expected = np.maximum(one * other, 1e-300)
    found: Floats = joint * np.log(np.maximum(joint, 1e-300) / expected)
    return found
