"""A network as a back-off n-gram model, the nearest one by its exact distributions.

    p̄(x | c) = mean of p(x | K) over the places K of a text behind the words c        (shorter c: `_Places.weights`)

Given which n-grams c x are listed, Σ_c P(c) KL( p̄(· | c) ‖ q(· | c) ) is least where q(x | c) = p̄(x | c) for those that
are, and the back-off weight gives the rest its mass: so probabilities are the network's own, averaged, and nothing is
sampled or smoothed. What is listed: everything that the text has, so that longer contexts have a place, and every word
whose share in the divergence from the shorter context,

    P(c) · [ p̄ log(p̄ / q') − p̄ + q' ],        q' = backoff(c) · q(x | suffix of c)

is `threshold` or more; then `pruned` takes out what changes the model least. P(c) is how often c comes in the text.
Contexts that a text of training does not have are found in sentences that the network writes (`written`): the more of
them, the more of what the network knows has a place. Everything is done on the device of the model.

Where the background b does not depend on the context, a mean over places is one over classes, and exact: p(x | K) is
b(x) r_s(K) with r_s(K) = exp(a·φ_s) / Z(K) for all words x of the class s, so that p̄(x | c) = b(x) · mean of r_s(K).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.languages.ngrams import EMPTY, UNKNOWN, Level, NGramTable, Trie, normalised, pruned
from llrnn.languages.ngrams.table import places_of
from llrnn.layer.loglinear import Distribution
from llrnn.layer.priors import SparsePrior
from llrnn.model.decode import Sampling, generate
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, walk
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Vocabulary

_AT_ONCE = {"cpu": 1_000_000, "cuda": 400_000_000}  # probabilities written out at a time: what stays in the cache
_RATIO = 20.0  # log(p̄ / q') at most: words below threshold / (20 P(c)) need not be looked at


@torch.no_grad()
def distil(
    model: LLRNN,
    corpus: Corpus,
    *,
    order: int = 5,
    threshold: float = 1e-8,
    min_count: int = 1,
    on_level: Callable[[int, int], None] = lambda n, count: None,
) -> NGramTable:
    """The n-gram model of this order that is nearest to a model over the contexts of a text, pruned.

    `corpus`: its training text, or any other in its words, which need not be annotated: only contexts are taken from
    it; it is cut at words that the model does not list. `threshold`: what the divergence, in nats a word, may lose for
    each n-gram that is left out. `min_count`: contexts of three words and more that the text has less often are left
    out, which saves most of the time where it is long. `on_level` is told of every order with the number of contexts.

        write_arpa(distil(load("runs/french"), Corpus.from_file("train.txt"), order=4), "french.arpa")
    """
    vocabulary = model.vocabulary
    if vocabulary.is_open or vocabulary.units is not None:
        raise ConfigError("n-grams are over listed words, found a model that spells words; take one with a list")
    if model.needs_conditions:
        raise ConfigError("n-grams have no condition, found a model that reads one; take one that does not")
    if not 1 <= order <= 9 or not threshold > 0:
        raise ConfigError(f"an order of 1 to 9 and a threshold above 0 are required, found {order} and {threshold}")
    text = EncodedText.of_listed(corpus, vocabulary)
    places = _Places.read(model, text, order)
    words = _written(vocabulary)
    V = len(words)
    mean = places.mean(torch.arange(len(places.target)), places.weights(0))[places.class_of] + places.log_b
    unigrams = Level(np.zeros(V, np.int64), np.arange(V), mean.cpu().numpy(), np.zeros(V))
    table = NGramTable(words, (unigrams,))
    for n in range(2, order + 1):
        context = places.contexts(n - 1)
        if n > 3 and min_count > 1:
            often = np.bincount(context[context >= 0], minlength=1) >= min_count
            context = np.where((context >= 0) & often[context], context, -1)
        if context.max(initial=-1) < 0:  # no sentence is that long
            break
        on_level(n, len(np.unique(context[context >= 0])))
        level = _level(places, context, n, table, threshold)
        table = normalised(NGramTable(words, (*table.levels, level)))
    return pruned(table, threshold) if table.order > 1 else table


def written(model: LLRNN, sentences: int, *, seed: int = 0, max_words: int = 100) -> Corpus:
    """Sentences that the model writes: exact samples.

    distil(model, training_text + written(model, 100_000))
    """
    generator = torch.Generator(model.device).manual_seed(seed)
    at_once, found = 256 if model.device.type == "cpu" else 8192, list[Sequence[str]]()
    while len(found) < sentences:
        count = min(at_once, sentences - len(found))
        made = generate(model, count=count, strategy=Sampling(), generator=generator, max_words=max_words)
        found += [one.words for one in made]
    return Corpus.from_sentences(found)


def _written(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The words as ARPA files can write them: `<unk>` for unknown ones, and no blanks within a word."""
    found = tuple(UNKNOWN if word == vocabulary.unknown else "_".join(word.split()) for word in vocabulary.symbols)
    if len({*found}) != len(found):
        twice = next(one for one in found if found.count(one) > 1)
        raise ConfigError(f"a word with a blank is written with _, but {twice!r} is a word already; rename it")
    return found


class _Places:
    """The N places of a text: what the model predicts at each, what was there, and the words before it."""

    def __init__(self, parts: Sequence[Distribution], target: Tensor, before: Ints) -> None:
        self.target, self.device = target, target.device  # (N,)
        self.before = torch.from_numpy(before).to(
            self.device
        )  # (N, order - 1): the last word first, -1 before the beginning
        self._numbers = _numbered(before)
        self._parts, self._first = parts, np.cumsum([0, *(part.n for part in parts)])
        plain = all(isinstance(part.prior, SparsePrior) and part.prior.is_static and not part.values for part in parts)
        self._h = torch.cat([part.h for part in parts]) if plain else None  # else place by place
        classes = parts[0].classes.class_of
        V = len(classes)
        self.class_of = classes if plain else torch.arange(V, device=self.device)
        log_b = parts[0].prior.dense(1).log_b[0].double() if plain else torch.zeros(V, dtype=torch.float64)
        self.log_b = log_b.to(self.device)
        self.n_classes = int(self.class_of.max()) + 1
        self.members = torch.argsort(self.class_of, stable=True)
        self.size = torch.bincount(self.class_of, minlength=self.n_classes)
        self.begins = torch.cumsum(self.size, 0) - self.size
        least = torch.full((self.n_classes,), -torch.inf, dtype=torch.float64, device=self.device)
        self.largest = least.scatter_reduce(0, self.class_of, self.log_b, "amax")  # log b in each class

    @classmethod
    def read(cls, model: LLRNN, text: EncodedText, order: int) -> _Places:
        parts, targets, before = list[Distribution](), list[Tensor](), list[Ints]()
        for batch, distribution in walk(model, text, Sentences(4096 if model.device.type == "cpu" else 65_536)):
            parts.append(distribution)
            targets.append(batch.picked(batch.targets))
            inputs = batch.inputs.cpu().numpy()
            padded = np.pad(inputs, ((0, 0), (order, 0)), constant_values=-1)
            last = [padded[:, order - k : order - k + inputs.shape[1]] for k in range(max(order - 1, 1))]
            before.append(np.stack(last, -1)[batch.mask.cpu().numpy()])
        return cls(parts, torch.cat(targets), np.concatenate(before))

    def log_ratios(self, places: Tensor) -> Tensor:
        """log r of every class at some places, (n, G)."""
        if self._h is not None:
            first = self._parts[0]
            found = Distribution(first.layer, self._h[places.to(self.device)], first.prior, ())
            return found.scores - found.log_z[:, None].to(found.scores.dtype)
        chosen = places.cpu().numpy()
        which = np.searchsorted(self._first, chosen, side="right") - 1
        pairs = zip(which.tolist(), (chosen - self._first[which]).tolist(), strict=True)
        return torch.cat([self._parts[part].row(row).log_probs() for part, row in pairs])

    @property
    def at_once(self) -> int:
        """For how many places ratios are written out together."""
        return max(1, _AT_ONCE[self.device.type] // self.n_classes)

    def mean(self, chosen: Tensor, weight: Tensor) -> Tensor:
        """log of the weighted mean ratios over some places, float64 (G,)."""
        total = torch.zeros(self.n_classes, dtype=torch.float64, device=self.device)
        for begin in range(0, len(chosen), self.at_once):
            part = slice(begin, begin + self.at_once)
            own, found = weight[part], self.log_ratios(chosen[part]).exp_()
            total += (own.to(found.dtype) @ found).double() if self.device.type == "cuda" else own @ found.double()
        return (total / weight.sum()).log()

    def weights(self, length: int) -> Tensor:
        """How much each place counts in the mean behind its context of so many words: each longer context once.

        For where a shorter context is asked, the longer one is new: so frequent ones must not speak for all (the idea
        of Kneser and Ney). Behind the longest contexts, and where a sentence has no longer one, every place counts.
        """
        found = np.ones(len(self.target))
        if length < self.before.shape[1]:
            longer = self.contexts(length + 1)
            there = longer >= 0
            found[there] = 1.0 / np.bincount(longer[there])[longer[there]]
        return torch.from_numpy(found).to(self.device)

    def words_above(self, log_ratio: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """(row, word) wherever log r + log b is `least` or more, (C, G), (C,)."""
        bar = least[:, None] - self.largest
        row, own = torch.nonzero(log_ratio >= bar.to(log_ratio.dtype), as_tuple=True)
        count = self.size[own]
        which = torch.repeat_interleave(count)
        inside = torch.arange(len(which), device=self.device) - (torch.cumsum(count, 0) - count)[which]
        word, row = self.members[self.begins[own][which] + inside], row[which]
        keep = log_ratio[row, self.class_of[word]] + self.log_b[word] >= least[row]
        return row[keep], word[keep]

    def contexts(self, length: int) -> Ints:
        """The number of the context of so many words of each place, -1 where the sentence is too short for it."""
        return self._numbers[length]


def _numbered(before: Ints) -> list[Ints]:
    """Contexts of 0, 1, ... words by numbers."""
    found, size = [np.zeros(len(before), dtype=np.int64)], int(before.max(initial=0)) + 1
    for word in before.T:
        key = np.where((word >= 0) & (found[-1] >= 0), found[-1] * size + word, -1)
        numbers, place = np.unique(key, return_inverse=True)
        found.append(place.reshape(-1) - int(numbers[0] < 0))
    return found


def _blocks(context: Ints, rows: int) -> Iterator[tuple[Ints, Ints]]:
    """The places that have a context, in the order of contexts, whole ones together: up to `rows` or one context."""
    order = np.argsort(context, kind="stable")
    order = order[np.searchsorted(context[order], 0) :]
    ordered, begin = context[order], 0
    while begin < len(order):
        end = min(begin + rows, len(order))
        if end < len(order) and ordered[end] == ordered[end - 1]:
            whole = int(np.searchsorted(ordered, ordered[end], side="left"))
            end = whole if whole > begin else int(np.searchsorted(ordered, ordered[begin], side="right"))
        yield order[begin:end], ordered[begin:end]
        begin = end


@dataclass(frozen=True)
class _Listed:
    """Some n-grams: contexts, and the number of its context, the word and p̄ of each."""

    history: Ints  # (C, n - 1)
    row: Ints
    word: Ints
    p: Floats


def _level(places: _Places, context: Ints, n: int, table: NGramTable, threshold: float) -> Level:
    """The n-grams of one order: those of the text, and those that shorter contexts predict worst."""
    trie, weight = Trie.from_table(table).to(places.device), places.weights(n - 1)
    parts = list[Level]()
    for at, own in _blocks(context, places.at_once):
        one = _chosen(places, torch.from_numpy(at).to(places.device), own, n, trie, weight, threshold)
        place = places_of(table.levels, one.history)[one.row]
        parts.append(Level(place, one.word, np.log(one.p), np.zeros(len(one.word))))
    names = ("context", "word", "log_prob", "log_backoff")
    level = Level(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    return level.selected(np.argsort(level.keys(len(table.words))))


def _chosen(places: _Places, at: Tensor, own: Ints, n: int, trie: Trie, weight: Tensor, threshold: float) -> _Listed:
    """What is listed of the contexts of some places."""
    _, group, count = torch.unique_consecutive(
        torch.from_numpy(own).to(at.device), return_inverse=True, return_counts=True
    )
    log_ratio = _mean_ratios(places, at, group, weight[at])
    share = threshold * len(places.target) / count.double()  # threshold / P(c)
    key = torch.unique(group * trie.n_words + places.target[at])
    row, word = places.words_above(log_ratio, torch.log(share / _RATIO))
    keys = torch.unique(torch.cat([row * trie.n_words + word, key]))
    observed = key[torch.searchsorted(key, keys).clamp_(max=len(key) - 1)] == keys
    row, word = keys // trie.n_words, keys % trie.n_words
    first = torch.cumsum(count, 0) - count
    history = places.before[at[first], : n - 1].flip(1)
    mass = torch.exp(log_ratio[row, places.class_of[word]].double() + places.log_b[word])
    lower, keep = _lower(trie, history, row, word), observed
    for _ in range(2):  # the second time with the back-off weight that the first choice leads to
        left = 1.0 - torch.bincount(row[keep], mass[keep], len(count))
        open_below = 1.0 - torch.bincount(row[keep], lower[keep], len(count))
        q = lower * (left.clamp(min=1e-9) / open_below.clamp(min=1e-9))[row]
        keep = observed | (mass * torch.log(mass / q) - mass + q >= share[row])
    found = (one.cpu().numpy() for one in (history, row[keep], word[keep], mass[keep]))
    return _Listed(*found)


def _mean_ratios(places: _Places, at: Tensor, group: Tensor, weight: Tensor) -> Tensor:
    """log of the weighted mean ratios of each context, (C, G)."""
    contexts = int(group[-1]) + 1
    if contexts == 1:
        return places.mean(at, weight)[None]
    found = places.log_ratios(at)
    if contexts == len(at):
        return found
    share = (weight / torch.bincount(group, weight)[group]).to(found.dtype)
    total = torch.zeros(contexts, found.shape[1], dtype=found.dtype, device=found.device)
    return total.index_add_(0, group, found.exp_() * share[:, None]).log_()


def _lower(trie: Trie, history: Tensor, row: Tensor, word: Tensor) -> Tensor:
    """q(x | suffix of c), by the orders below."""
    state = torch.full((len(history),), EMPTY, device=history.device)
    if history.shape[1] > 1:
        state = trie.states(state, history[:, 1:])[:, -1]
    log_q, _ = trie.log_prob_of(state[row], word)
    return log_q.exp()
