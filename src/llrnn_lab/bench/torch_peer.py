"""The model that one writes without us, in plain torch: an embedding, an LSTM, and one of torch's output layers.

    h_t = LSTM(E x_t, h_{t-1})                 p(x | K) = softmax(W h_t + b)               E, W: a row for every word

It trains as ours do, on the same batches with the same optimizer, and it is given words in the order of their counts,
as `AdaptiveLogSoftmaxWithLoss` requires. Its LSTM goes the faster way on this processor, as ours does. On a GPU its
batches come from pinned memory, and a whole update can be one CUDA graph.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.knowledge.process import Batch
from llrnn.model.controllers import TorchLSTM
from llrnn.model.scoring import Batching, Prefetched
from llrnn.text.encoded import EncodedText
from llrnn.training.graphs import CudaGraphs
from llrnn.training.optimizer import make_optimizer
from llrnn.training.settings import TrainingSettings

State = tuple[Tensor, Tensor]


class Output(nn.Module):
    """From h (N, H) and the words that followed, (N,), to their log-probabilities."""

    @abstractmethod
    def log_prob(self, h: Tensor, targets: Tensor) -> Tensor: ...

    def loss(self, h: Tensor, targets: Tensor) -> Tensor:
        return -self.log_prob(h, targets).mean()


class Dense(Output):
    """`F.cross_entropy` over all words."""

    def __init__(self, n_symbols: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, n_symbols)

    def log_prob(self, h: Tensor, targets: Tensor) -> Tensor:
        return -F.cross_entropy(self.linear(h), targets, reduction="none")

    def loss(self, h: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.linear(h), targets)


class LinearCrossEntropy(Dense):
    """torch's own fused layer, where this torch has it (2.13)."""

    def loss(self, h: Tensor, targets: Tensor) -> Tensor:
        return F.linear_cross_entropy(h, self.linear.weight, targets, linear_bias=self.linear.bias)


class Adaptive(Output):
    """Frequent words in full, rare ones in clusters with smaller projections (Grave et al. 2017)."""

    def __init__(self, n_symbols: int, hidden: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(hidden, n_symbols, list(cutoffs))

    def log_prob(self, h: Tensor, targets: Tensor) -> Tensor:
        log_p: Tensor = self.softmax(h, targets).output
        return log_p


class Free(Output):
    """No output layer: what is left is the time of the body, which no layer can go below."""

    def log_prob(self, h: Tensor, targets: Tensor) -> Tensor:
        return h.mean(-1)


class TorchModel(nn.Module):
    """Embedding, LSTM, output."""

    rank: Tensor

    def __init__(self, rank: Tensor, hidden: int, layers: int, output: Output) -> None:
        super().__init__()
        self.register_buffer("rank", rank)
        self.embedding = nn.Embedding(len(rank), hidden)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.lstm = TorchLSTM(hidden, hidden, layers, batch_first=True)
        self.output = output

    def read(self, batch: Batch, state: State | None) -> tuple[Tensor, Tensor, State]:
        """h and the target at every position that counts, and the state after the batch."""
        h, after = self.lstm(self.embedding(self.rank[batch.inputs]), state)
        return batch.picked(h), self.rank[batch.picked(batch.targets)], after


def ranks(text: EncodedText, n_symbols: int) -> Tensor:
    """The place of every word in the order of its count, most frequent first, (V,)."""
    counts = np.bincount(np.concatenate([*text.sentences]), minlength=n_symbols)
    counts[text.eos] += len(text.sentences)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(n_symbols, dtype=np.int64)
    rank[order] = np.arange(n_symbols)
    return torch.from_numpy(rank)


def _optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    return make_optimizer(model, settings.optimizer, settings.learning_rate, settings.weight_decay)


def training_epochs(model: TorchModel, text: EncodedText, settings: TrainingSettings) -> Iterator[Iterator[Tensor]]:
    """The losses of the steps of each epoch; steps are as in `llrnn.train`: carried state, clipping, one update.

    Nobody waits for a GPU to say what they are.
    """
    batching, optimizer = settings.batches.make(), _optimizer(model, settings)
    device = next(model.parameters()).device

    def steps(epoch: int) -> Iterator[Tensor]:
        state: State | None = None
        for batch in _plan(batching, text, settings.seed, epoch, device):
            loss, after = _update(model, optimizer, settings, batch.to(device), state)
            state = after if batching.carries_state else None
            yield loss

    return (steps(epoch) for epoch in count())


def _plan(batching: Batching, text: EncodedText, seed: int, epoch: int, device: torch.device) -> Sequence[Batch]:
    plan = batching.plan(text, seed=seed, epoch=epoch)
    return Prefetched(plan, Batch.pinned) if device.type == "cuda" else plan


def _update(
    model: TorchModel, optimizer: torch.optim.Optimizer, settings: TrainingSettings, batch: Batch, state: State | None
) -> tuple[Tensor, State]:
    optimizer.zero_grad(set_to_none=True)
    model.train()
    h, targets, after = model.read(batch, state)
    loss = model.output.loss(h, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    if settings.clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
    optimizer.step()
    return loss.detach(), (after[0].detach(), after[1].detach())


def graphed_steps(
    model: TorchModel, text: EncodedText, settings: TrainingSettings, recorder: CudaGraphs
) -> Iterator[Tensor]:
    """Losses of updates that are one graph each; a batch of another shape, the last of an epoch, is left out."""
    batching, optimizer = settings.batches.make(), _optimizer(model, settings)
    device = next(model.parameters()).device
    first = batching.plan(text, seed=settings.seed)[0].to(device)
    own = first.with_tensors({name: tensor.clone().contiguous() for name, tensor in first.tensors().items()})
    begin = torch.zeros(2, model.lstm.num_layers, len(own.inputs), model.lstm.hidden_size, device=device)
    state = begin.clone()

    def act() -> list[Tensor]:
        loss, after = _update(model, optimizer, settings, own, (state[0], state[1]))
        return [loss, *after]

    for _ in range(3):
        recorder.warm_up(act)
    (loss, *after), replay = recorder.record(act)
    for epoch in count():
        state.copy_(begin)
        for batch in _plan(batching, text, settings.seed, epoch, device):
            if batch.inputs.shape == own.inputs.shape and batch.n_positions == own.n_positions:
                for mine, given in zip(own.tensors().values(), batch.tensors().values(), strict=True):
                    mine.copy_(given, non_blocking=True)
                replay()
                if batching.carries_state:
                    state.copy_(torch.stack(after))
                yield loss


@torch.no_grad()
def log_perplexity(model: TorchModel, text: EncodedText, settings: TrainingSettings) -> float:
    """−mean log p of a text, read as in training, in the order of the text."""
    batching, state, found = settings.batches.make(), None, [torch.zeros(0, dtype=torch.double)]
    device = next(model.parameters()).device
    model.eval()
    for batch in batching.plan(text):
        h, targets, after = model.read(batch.to(device), state)
        state = after if batching.carries_state else None
        found.append(model.output.log_prob(h, targets).double().cpu())
    return float(-torch.cat(found).mean())
