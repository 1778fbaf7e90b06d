"""What the approximations of Z give and cost, beside the exact sum, where nothing is shared: every word its own class.

All contenders have the same text, network, background, first weights and batches, and take turns step by step. What is
reported of each is the exact log-perplexity of the validation text after its best epoch, and log Z after the last.
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
from llrnn.inference.evaluation import normalisation_gap
from llrnn.knowledge import backgrounds, features
from llrnn.knowledge.backgrounds import Static
from llrnn.knowledge.sequences import Batch
from llrnn.model.batches import Sentences, derived_seed
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.model.scoring import score, walk
from llrnn.text.corpus import Corpus
from llrnn.text.ids import EncodedText
from llrnn.text.lexicon import cluster_words
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.objectives import Exact, ImportanceSampling, NoiseContrastive, Objective
from llrnn_lab.bench.factored import ClassFactored, cluster_bins, frequency_bins

Loss = Callable[[Batch, torch.Generator], Tensor]


@dataclass
class _Contender:
    """A way to train: what a step minimises, over which weights, and how far it got."""

    loss: Loss
    log_perplexity: Callable[[EncodedText], float]
    model: LLRNN
    modules: list[nn.Module]
    has_z: bool
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

    return _Contender(loss, lambda text: score(model, text).log_perplexity, model, [model], has_z=True)


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

    return _Contender(loss, log_perplexity, model, [model.embedding, model.controller, layer], has_z=False)


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
    corpora = embedded_corpora(sentences, 600, 1, seed=0)
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
    found = {name: _found(contender, valid) for name, contender in contenders.items()}
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
        "exact": _with_objective(first, Exact()),
        "importance": _with_objective(model(), ImportanceSampling(samples)),
        "contrastive": _with_objective(model(), NoiseContrastive(samples)),
        "factored, frequency": _factored(model(), frequency_bins(first.background.log_b, size)),
        "factored, clusters": _factored(model(), cluster_bins(vocabulary, clusters, 64)),
    }


def _found(contender: _Contender, valid: EncodedText) -> dict[str, float]:
    speed = statistics.median(contender.speeds[1:] or contender.speeds)  # the first step warms up
    best = min(contender.history)  # as early stopping would have it
    result = {"log-perplexity": best, "epoch": contender.history.index(best) + 1, "words per second": speed}
    result["weights"] = sum(weight.numel() for weight in contender.weights)
    if contender.has_z:
        gap = normalisation_gap(contender.model, valid)
        result |= {"log Z": gap.mean, "deviation": gap.deviation}
    return result
