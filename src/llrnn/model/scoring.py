"""From a corpus to batches, and the log-probability of every word of a text: what validation and evaluation add up.

Batches hold sentences, continuous text, or windows that slide along the text. Which batch comes when is
a function of (seed, epoch, position) alone, so that a killed run resumes where it was, bit for bit. Every target is
predicted exactly once in an epoch, ends of sentences included.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.numerics import MINUS_INFINITY, require_numbers
from llrnn.model.controllers import evaluating
from llrnn.model.network import LLRNN
from llrnn.text.encoded import EncodedText, Lazy, Run


class Batching(ABC):
    """Base class of the ways to cut a text into batches for training and scoring; subclasses define `plan`.

    `plan` returns a sequence of `Batch`. `carries_state`: whether the rows of a batch go on where those of the batch
    before ended.

        batches = Sentences(words=1024).plan(text, seed=0)
    """

    carries_state = False  # whether a batch goes on where the one before it ended

    @abstractmethod
    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        """Return the batches of one epoch over `text`, a sequence whose items are made when they are asked for.

        `seed`: for shuffling, in another order for each `epoch`; None: the batches come in a fixed order. Nothing is
        drawn from torch's or numpy's global generators.
        """


def derived_seed(*parts: int) -> int:
    """Return one seed (below 2^56) derived from several numbers, the same on every machine and in every Python."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _shuffled(count: int, seed: int | None, epoch: int) -> Ints:
    order = np.arange(count)
    if seed is not None:
        np.random.default_rng(derived_seed(seed, epoch)).shuffle(order)
    return order


class Prefetched(Lazy[Batch, Batch]):
    """A sequence of the batches in `plan`, each changed by `prepare` in a thread while the one before it is in use.

    It gains time where it is read in order; a batch that is read out of order is made when it is asked for. Use: `for
    batch in Prefetched(plan, prepare): ...`; `prepare` is a function from a `Batch` to a `Batch`. `len` is that of
    `plan`.
    """

    def __init__(self, plan: Sequence[Batch], prepare: Callable[[Batch], Batch]) -> None:
        super().__init__(plan, prepare)
        self._thread = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[Batch]] | None = None

    def _made(self, index: int) -> Batch:
        place, coming = self._next or (None, None)
        make = super()._made
        batch = coming.result() if coming is not None and place == index else make(index)
        if index + 1 < len(self):
            self._next = index + 1, self._thread.submit(make, index + 1)
        return batch


def _pieces(run: Run, index: Ints) -> Batch:
    """Return the batch whose inputs are the symbols of `run` at the indices `index` (B, T), and targets the next ones.

    `run`: a text as one sequence EOS, sentence, EOS, …, read by position. Positions whose target is beyond its end are
    masked. The batch has no conditions.
    """
    last = len(run) - 1
    here, further = np.minimum(index, last), np.minimum(index + 1, last)
    inputs, targets = torch.from_numpy(run.symbols_at(here)), torch.from_numpy(run.symbols_at(further))
    keys, inside = (
        None if found is None else torch.from_numpy(found) for found in (run.keys_at(further), run.inside_at(further))
    )
    return Batch(inputs, targets, torch.from_numpy(index < last), None, keys, inside)


@dataclass(frozen=True)
class Sentences(Batching):
    """Batches of whole sentences of similar length, each read from a fresh state.

    `words`: the most positions in a batch, rows times longest row (a sentence of n words has n + 1 positions), unless
    one sentence alone is longer. Conditions of sentences are in the batches.

        evaluate(model, corpus, batching=Sentences(words=2048))
    """

    words: int = 1024

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        lengths = text.lengths
        order = _shuffled(len(lengths), seed, epoch)
        order = order[np.argsort(lengths[order], kind="stable")]
        groups = self.groups(order, lengths[order])
        turn = _shuffled(len(groups), None if seed is None else derived_seed(seed, 1), epoch)
        return Lazy([groups[i] for i in turn], partial(_sentence_batch, text))

    def groups(self, order: Ints, ordered: Ints) -> list[Ints]:
        """Return groups of sentence numbers such that sentences × longest sentence of a group is at most `words`.

        `order`: the indices of the sentences in the text by growing length; `ordered`: their lengths in that order. A
        longer sentence is a group by itself. A list of integer arrays, which together hold each number of `order` once.
        """
        groups: list[Ints] = []
        start = 0
        while start < len(order):
            further = range(start + 1, min(len(ordered), start + self.words))
            longer = bisect_right(further, self.words, key=lambda last: (last + 1 - start) * int(ordered[last]))
            groups.append(order[start : start + 1 + longer])
            start += 1 + longer
        return groups


def _sentence_batch(text: EncodedText, group: Ints) -> Batch:
    """Return the batch of the sentences of `text` with these numbers; shorter ones are padded by masked positions.

    `group`: the sentences' indices in the text. A row is EOS, the sentence, EOS; its first symbols are inputs, its last
    ones targets. Conditions of the sentences are in the batch.
    """
    rows = [text.framed(i) for i in group.tolist()]
    T = max(len(row) for row in rows) - 1
    both = np.full((len(rows), T + 1), text.eos, dtype=np.int64)
    mask = np.zeros((len(rows), T), dtype=bool)
    inside = None if text.inside is None else np.zeros((len(rows), T))
    for b, (i, row) in enumerate(zip(group.tolist(), rows, strict=True)):
        both[b, : len(row)] = row
        mask[b, : len(row) - 1] = True
        if inside is not None and text.inside is not None:
            inside[b, : len(text.inside[i])] = text.inside[i]
    symbols, keys = torch.from_numpy(both), text.keys_of(group)
    return Batch(
        symbols[:, :-1],
        symbols[:, 1:],
        torch.from_numpy(mask),
        [text.conditions[i] for i in group],
        None if keys is None else torch.from_numpy(keys)[:, None].expand(-1, T),
        None if inside is None else torch.from_numpy(inside),
    )


@dataclass(frozen=True)
class Continuous(Batching):
    """Batches of running text: it is cut into `rows` long strips, read side by side, `length` words at a time.

    Row r of every batch is from strip r. The network's state is carried on from one batch to the next, so that each
    strip is read as one text; so batches are never shuffled, whatever the seed. `shift`: with a seed, every epoch
    begins at another word and comes to its beginning at the end, so that texts are cut at other places.

        evaluate(model, corpus, batching=Continuous(rows=32, length=32))
    """

    rows: int = 32
    length: int = 32
    shift: bool = False
    carries_state = True

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = text.run()
        if self.shift and seed is not None:
            stream = _turned(stream, derived_seed(seed, epoch, 5) % (len(stream) - 1))
        rows = min(self.rows, len(stream) - 1)
        columns = -(-(len(stream) - 1) // rows)
        strips = np.arange(rows)[:, None] * columns  # where each begins

        def batch(start: int) -> Batch:
            return _pieces(stream, strips + np.arange(start, min(start + self.length, columns)))

        return Lazy(range(0, columns, self.length), batch)


def _turned(run: Run, first: int) -> Run:
    """Return `run` as a text that begins with its symbol number `first` and goes on from its end to its beginning.

    The EOS at its end is that of its beginning, so that every symbol still follows the one that it followed.
    """

    def placed(at: Callable[[Ints], Any]) -> Callable[[Ints], Any]:
        # a symbol is the last one that was read, so that its sentence is that which it ends: 1 to length - 1
        return lambda places: at((places + first - 1) % (len(run) - 1) + 1)

    return Run(len(run), placed(run.symbols_at), placed(run.keys_at), placed(run.inside_at))


@dataclass(frozen=True)
class Sliding(Batching):
    """Batches of windows that slide word by word: every word is predicted from the `length` words before it alone.

    Each window is read from a fresh state, and only its last prediction counts: the protocol of the paper (§5). Windows
    cross ends of sentences, which count as words; before the beginning of the text the first EOS is repeated. `rows`:
    how many windows are in a batch.

        evaluate(model, corpus, batching=Sliding(length=10))
    """

    length: int = 8
    rows: int = 512

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = text.run()

        def batch(group: Ints) -> Batch:
            """Return the batch of windows whose last inputs are at these positions of the text.

            Only the last target is unmasked.
            """
            whole = _pieces(stream, np.maximum(group[:, None] + np.arange(1 - self.length, 1), 0))
            last = torch.zeros_like(whole.mask)
            last[:, -1] = True
            return replace(whole, mask=last)

        return Lazy(_groups_of(self.rows, _shuffled(len(stream) - 1, seed, epoch)), batch)


def _groups_of(size: int, order: Ints) -> list[Ints]:
    return [order[start : start + size] for start in range(0, len(order), size)]


@dataclass(frozen=True)
class Scores:
    """log p in nats of each of the N words and ends of sentences of a text: `log_probs`, a tensor (N,) float64.

    In the order of the batches; `score(model, text)` returns it, and `log_perplexity` is −Σ log p / N.
    """

    log_probs: Tensor  # (N,) float64

    @property
    def log_perplexity(self) -> float:
        """The mean −Σ log p / N over all N words and ends of sentences of the text, in nats."""
        return float(-self.log_probs.mean())


@torch.no_grad()
def walk(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Iterator[tuple[Batch, Distribution]]:
    """Yield (batch, distributions at its unmasked positions) for the batches of a text in a fixed order, in eval mode.

    `batching`: how the text is cut, whole sentences by default. The network's state is carried on from batch to batch
    if `batching.carries_state`; batches are on the device of the model.
    """
    batching = batching or Sentences()
    state: ModelState | None = None
    for batch in batching.plan(text):
        if not batch.mask.any():  # a process's share without rows, or only of strips whose text has ended
            continue
        placed = batch.to(model.device)
        with evaluating(model):
            distribution, after = model.scan(placed, state)
        state = after if batching.carries_state else None
        yield placed, distribution


@torch.no_grad()
def log_probs(model: LLRNN, batch: Batch, *, impossible: bool = False) -> Tensor:
    """Return log p of the N unmasked targets of a batch, (N,), in nats, without gradient and in eval mode.

    Rows start afresh. Raises ZeroMassError for a target that the prior forbids; with `impossible=True` its log p is −∞
    instead.
    """
    with evaluating(model):
        if not impossible:
            return model.log_prob(batch)
        distribution, _ = model.scan(batch)
        log_p = distribution.log_prob(batch.picked(batch.targets))
    require_numbers(distribution.log_total)
    # NaN is minus infinity less minus infinity: nothing at all can follow
    log_p = log_p.nan_to_num(nan=MINUS_INFINITY, neginf=MINUS_INFINITY)
    return log_p if batch.inside is None else log_p + batch.picked(batch.inside)


@torch.no_grad()
def _scored(model: LLRNN, text: EncodedText, batching: Batching | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each batch of a text its N unmasked target ids and their log p, each (N,) on the CPU, log p float64.

    `batching`: how the text is cut, None for whole sentences. Raises CorpusError for a text without sentences.
    """
    if not text.sentences:
        raise CorpusError("at least one sentence is required to score a model on, found none; give a text")
    batching = batching or Sentences()
    if batching.carries_state:
        found = ((batch, model.targets_log_prob(p, batch)) for batch, p in walk(model, text, batching))
    else:
        placed = (batch.to(model.device) for batch in batching.plan(text) if batch.mask.any())
        found = ((batch, log_probs(model, batch)) for batch in placed)
    for batch, log_p in found:
        yield batch.picked(batch.targets).cpu(), log_p.double().cpu()


def score(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Scores:
    """Return log p of every word and end of sentence of a text as `Scores`, in the order of its batches.

    `batching`: how the text is cut into batches, whole sentences by default.

    score(model, EncodedText.encode(corpus, model.vocabulary)).log_perplexity
    """
    return Scores(torch.cat([log_p for _, log_p in _scored(model, text, batching)] or [torch.zeros(0).double()]))


def sentence_log_probs(model: LLRNN, text: EncodedText) -> list[Floats]:
    """Return for each sentence, in the text's order, log p of its n words and its end, (n + 1,) float64, in nats.

    −∞ for words that the prior forbids. They are the numbers that `score` returns, by whole sentences, in the order of
    the text.
    """
    found = [log_probs(model, batch.to(model.device), impossible=True) for batch in Sentences().plan(text)]
    lengths = text.lengths
    order = np.argsort(lengths, kind="stable")
    rows = np.split(torch.cat(found).double().cpu().numpy(), np.cumsum(lengths[order])[:-1])
    return [rows[place] for place in np.argsort(order)]


@dataclass(frozen=True)
class Tally:
    """The summed −log p of a text for each of V symbols, from which perplexities of the text or of some words follow.

    Numpy arrays; `words` (V,) int64: how often each symbol is a target; `nats` (V,) float64: the sum of its −log p.
    Symbols are in the order of their ids. `tally(model, text)` returns it.
    """

    words: Ints  # (V,) how often each symbol is a target
    nats: Floats  # (V,)

    @property
    def log_perplexity(self) -> float:
        """The mean −Σ log p / N over all N words and ends of sentences of the text, in nats."""
        return float(self.nats.sum() / self.words.sum())


def tally(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Tally:
    """Return −log p of a text's words and ends of sentences, summed for each symbol of the vocabulary, as a `Tally`.

    The numbers added up are those that `score` returns, with the sign changed; memory is needed for one batch only,
    however long the text. `batching`: how the text is cut, whole sentences by default.
    """
    V = len(model.vocabulary)
    words, nats = np.zeros(V, dtype=np.int64), np.zeros(V)
    for targets, log_p in _scored(model, text, batching):
        words += np.bincount(targets.numpy(), minlength=V)
        nats -= np.bincount(targets.numpy(), weights=log_p.numpy(), minlength=V)
    return Tally(words, nats)
