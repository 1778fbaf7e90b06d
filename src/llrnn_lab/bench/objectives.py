"""What the approximations of Z give and cost, beside the exact sum, where nothing is shared: every word its own class.

All contenders have the same text, network, background, first weights and batches, and take turns step by step. What is
reported of each is the exact log-perplexity of the validation text after its best epoch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.config.project import embedded_corpora
from llrnn.knowledge import backgrounds, features
from llrnn.knowledge.backgrounds import Static
from llrnn.knowledge.process import Batch
from llrnn.layer.numerics import segment_logsumexp
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, derived_seed, score, walk
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.objectives import Exact, ImportanceSampling, Objective
from llrnn_lab.clusters import cluster_words

# A class-factored output, for comparison: two small softmaxes instead of a large one.
#
#     p(x | h) = p(c(x) | h) · p(x | c(x), h)              c(x): one class for each word, given beforehand
#     p(c | h) ∝ B_c exp(v_c·h + d_c)                      over the classes
#     p(x | c, h) ∝ b(x) exp(u_x·h + e_x)                  over the words of the class
#
# This is another distribution, not an estimate of the log-linear one: it is normalised twice, so no set of features has
# it as a special case, and a word can only be as likely as its class. Therefore it is no `Objective` but a layer of its
# own, in the place of `LogLinear` above the same network. It starts at the static background b, as an LL-RNN does, and
# a step costs the number of classes plus the words of the target's class.


def frequency_bins(log_b: Tensor, count: int) -> Tensor:
    """`count` classes of equal mass at most, frequent words together, (V,) -> (V,): the first hold a word or two."""
    order = torch.argsort(log_b, descending=True, stable=True)
    mass = torch.softmax(log_b[order].double(), 0)
    middle = mass.cumsum(0) - mass / 2
    class_of = torch.empty_like(order)
    class_of[order] = (middle * count).long().clamp(max=count - 1)
    return _without_gaps(class_of)


def cluster_bins(vocabulary: Vocabulary, clusters: Lexicon, size: int) -> Tensor:
    """The clusters of `cluster_words` of one size as classes, (V,); words without one are a class too."""
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


Loss = Callable[[Batch, torch.Generator], Tensor]


@dataclass
class _Contender:
    """A way to train: what a step minimises, over which weights, and how far it got."""

    loss: Loss
    log_perplexity: Callable[[EncodedText], float]
    model: LLRNN
    modules: list[nn.Module]
    speeds: list[float] = field(default_factory=list)
    history: list[float] = field(default_factory=list)  # log-perplexity after each epoch

    def __post_init__(self) -> None:
        weights = [weight for module in self.modules for weight in module.parameters()]
        self.optimizer = torch.optim.AdamW(weights, lr=0.004, weight_decay=0.0)
        self.weights = weights

    def step(self, batch: Batch, generator: torch.Generator) -> None:
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(batch, generator).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights, 5.0)
        self.optimizer.step()
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        self.speeds.append(int(batch.mask.sum()) / (time.perf_counter() - started))


def _with_objective(model: LLRNN, objective: Objective) -> _Contender:
    def loss(batch: Batch, generator: torch.Generator) -> Tensor:
        return objective(model, model.scan(batch, generator=generator)[0], batch, generator)

    return _Contender(loss, lambda text: score(model, text).log_perplexity, model, [model])


def _factored(model: LLRNN, class_of: Tensor) -> _Contender:
    """The same network below two softmaxes; the model's own layer is not used."""
    assert isinstance(model.background, Static)
    layer = ClassFactored(class_of, model.background.log_b, model.controller.hidden).to(model.device)

    def loss(batch: Batch, generator: torch.Generator) -> Tensor:
        return -layer.log_prob(model.scan(batch, generator=generator)[0].h, batch.picked(batch.targets)).mean()

    @torch.no_grad()
    def log_perplexity(text: EncodedText) -> float:
        found = [layer.log_prob(p.h, batch.picked(batch.targets)) for batch, p in walk(model, text)]
        return -float(torch.cat(found).double().mean())

    return _Contender(loss, log_perplexity, model, [model.embedding, model.controller, layer])


def objectives(
    n_symbols: int,
    *,
    sentences: int,
    epochs: int,
    samples: int,
    hidden: int,
    device: torch.device,
    seed: int = 0,
    batch_words: int = 1024,
) -> dict[str, Any]:
    """Validation and words per second of each, on the embedded corpus with V filled up with numbers."""
    corpora = embedded_corpora(sentences, 600, 1)
    vocabulary = _filled_up(corpora, n_symbols)
    contenders = _contenders(corpora["train"], vocabulary, samples, hidden, device, seed)
    text, valid = (EncodedText.encode(corpora[part], vocabulary) for part in ("train", "valid"))
    start = next(iter(contenders.values())).log_perplexity(valid)
    for epoch in range(epochs):
        plan = Sentences(batch_words).plan(text, seed=seed, epoch=epoch)
        for position in range(len(plan)):
            batch = plan[position].to(device)
            for contender in contenders.values():
                generator = torch.Generator(device).manual_seed(derived_seed(seed, epoch, position, 2))
                contender.step(batch, generator)
        for contender in contenders.values():
            contender.history.append(contender.log_perplexity(valid))
    found = {name: _found(contender) for name, contender in contenders.items()}
    return {"V": len(vocabulary), "samples": samples, "epochs": epochs, "start": start, "objectives": found}


def _filled_up(corpora: dict[str, Corpus], n_symbols: int) -> Vocabulary:
    words = Vocabulary.from_corpus(corpora["train"], corpora["valid"]).symbols
    filling = (str(number) for number in range(10**6, 10**6 + max(0, n_symbols - len(words))))
    return Vocabulary([*words, *filling])


def _contenders(
    train: Corpus, vocabulary: Vocabulary, samples: int, hidden: int, device: torch.device, seed: int
) -> dict[str, _Contender]:
    def model() -> LLRNN:
        return LLRNN(
            vocabulary,
            output_features=features.Identity(),
            background=backgrounds.Unigram.from_corpus(train, smoothing=0.1),
            controller=LSTM(hidden),
            seed=seed,
        ).to(device)

    first = model()
    assert isinstance(first.background, Static)
    size = max(2, round(len(vocabulary) ** 0.5))
    clusters = cluster_words((sentence.words for sentence in train), sizes=[64], min_count=2, dimensions=50)
    return {
        "exact": _with_objective(first, Exact("full")),
        "importance": _with_objective(model(), ImportanceSampling(samples)),
        "factored, frequency": _factored(model(), frequency_bins(first.background.log_b, size)),
        "factored, clusters": _factored(model(), cluster_bins(vocabulary, clusters, 64)),
    }


def _found(contender: _Contender) -> dict[str, float]:
    speed = statistics.median(contender.speeds[1:] or contender.speeds)  # the first step warms up
    best = min(contender.history)  # as early stopping would have it
    result = {"log-perplexity": best, "epoch": contender.history.index(best) + 1, "words per second": speed}
    return {**result, "weights": sum(weight.numel() for weight in contender.weights)}
