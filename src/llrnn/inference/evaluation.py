"""How good a model is on a text, and whether the figure can be believed.

    log-perplexity = −mean log p(word)                     natural logarithm, ends of sentences included
    bits per character = −Σ log₂ p / characters            a space or line end counts after every word

Every figure comes with its contract, how words were counted and what became of unknown ones (`text.contract`), and its
audit (DESIGN §6): that Σ p = 1, that all words were counted, whether test sentences were in the training text, and
whether knowledge covers test words better than training words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from llrnn.ground.errors import AuditError, ConfigError
from llrnn.ground.rendering import Line, Renderable, Sheet, Strong, TextTable
from llrnn.inference.documents import DocumentContext
from llrnn.inference.scores import score
from llrnn.model.network import LLRNN, require_model
from llrnn.model.scoring import Batching, Sentences, Tally, tally, walk
from llrnn.model.words import with_text_words
from llrnn.text.contract import LEFT_OUT, Contract, Reading, reading_of
from llrnn.text.corpus import Corpus, require_corpus
from llrnn.text.encoded import EncodedText, Oov, treat_unknown
from llrnn.text.tokenisers import TokenPieces

BANDS = ((0, 0, "unseen"), (1, 5, "1-5"), (6, 50, "6-50"), (51, math.inf, "more"))
_SUM_TO_ONE = 1e-5  # within this Σ p must be 1: float32 adds up the longest rows to a millionth
_FEATURES_SHOWN = 12  # the most frequent ones


@dataclass(frozen=True)
class Slice:
    """Some words of a text, such as the rare ones: their number and their log-perplexity.

    `words`: an int; `log_perplexity`: −Σ log p / `words`, in nats.
    """

    words: int
    log_perplexity: float


@dataclass(frozen=True)
class Coverage:
    """Which shares of two sets of words have a feature of one group: tells whether features were made from the test.

    `rare_in_training`: the share, of the distinct words that training had once or twice and the test does not have;
    `only_here`: the share, of the distinct words that only the test has. Both are from 0 to 1.
    """

    rare_in_training: float
    only_here: float

    @property
    def suspicious(self) -> bool:
        """Whether `only_here` exceeds `rare_in_training` by over 0.05: features seem to be made from the test text."""
        return self.only_here > self.rare_in_training + 0.05


@dataclass(frozen=True)
class Audit:
    """The result of checks that a perplexity on a text can be trusted.

    `worst_sum_error`: the largest |Σ p − 1| over `contexts_checked` contexts; `words_counted`, `words_expected`: ints,
    how many words and ends of sentences were scored, and how many the text has; `seen_in_training`: the share (0 to 1)
    of sentences that were in the training text, None where it is not known; `coverage`: {feature group: `Coverage`},
    whether features cover words of the test better than comparable words of training. `evaluate(...).audit` is one.
    """

    worst_sum_error: float  # largest |Σ p − 1| over the contexts that were checked
    contexts_checked: int
    words_counted: int
    words_expected: int
    seen_in_training: float | None  # share of sentences; None where the model does not know its training text
    coverage: dict[str, Coverage]  # by feature group

    def failures(self) -> list[str]:
        """Return phrases on why the perplexity is wrong whatever the text, [] where it is right.

        They are that |Σ p − 1| is above 1e-5 in a context, and that not just the expected number of words was counted.
        """
        found = []
        if not self.worst_sum_error <= _SUM_TO_ONE:  # nor is NaN
            found.append(f"probabilities do not sum to one (off by {self.worst_sum_error:.1e})")
        if self.words_counted != self.words_expected:
            found.append(f"{self.words_counted} words were counted where {self.words_expected} were expected")
        return found

    def problems(self) -> list[str]:
        """Return the phrases of `failures`, and warnings about the test text; [] if there are none.

        The warnings: over 5 % of the test's sentences were in the training text, or the `Coverage` of a group of
        features is suspicious: the group favours words that only the test has.
        """
        found = self.failures()
        if self.seen_in_training is not None and self.seen_in_training > 0.05:
            found.append(f"{self.seen_in_training:.0%} of the sentences were in the training text")
        for group, share in self.coverage.items():
            if share.suspicious:
                found.append(
                    f"{group} covers {share.only_here:.0%} of the types found here alone, but "
                    f"{share.rare_in_training:.0%} of rare training types: knowledge favours the test words"
                )
        return found

    def lines(self) -> list[Line]:
        overlap = "unknown" if self.seen_in_training is None else f"{self.seen_in_training:.1%}"
        sums = f"Σp = 1 within {self.worst_sum_error:.1e} at {self.contexts_checked} contexts"
        counted = f"{self.words_counted:,} of {self.words_expected:,} words counted"
        said = [f"{sums}; {counted}; sentences seen in training: {overlap}"]
        said += [
            f"{group} fires on {share.rare_in_training:.1%} of rare training types, "
            f"on {share.only_here:.1%} of the types found here alone"
            for group, share in self.coverage.items()
        ]
        return [(f"audit: {text}",) for text in said]


@dataclass(frozen=True)
class Evaluation(Renderable):
    """Perplexity of one model on one text, with that of some of its words and an audit; prints as tables.

    `contract` says in one line how words were read and counted: compare figures of equal lines. `words` counts ends of
    sentences too; `characters` counts a space or line end after every word; `log_perplexity`: −Σ log p / `words`, in
    nats; `bits_per_character`: −Σ log₂ p / `characters`; `sentences`: their number; `by_frequency`, `by_feature`:
    {name: `Slice`} of words by how often training had them (such as "1-5"), and by feature; `audit`: an `Audit`;
    `oovs`: number of words that the vocabulary does not list.

        print(evaluate(model, Corpus.from_file("test.txt")).perplexity)
    """

    words: int
    sentences: int
    characters: int
    log_perplexity: float
    bits_per_character: float
    by_frequency: dict[str, Slice]
    by_feature: dict[str, Slice]
    audit: Audit
    contract: Contract
    oovs: int = 0  # words that the vocabulary does not list; with `oov="skip"` they are not among `words`

    @property
    def log10_prob(self) -> float:
        """log10 p of the whole text, ends of sentences included; words that `oov="skip"` leaves out do not count."""
        return -self.log_perplexity * self.words / math.log(10.0)

    @property
    def ppl1(self) -> float:
        """SRILM's ppl1: exp(−log p of words and ends of sentences / number of words without ends); NaN if none."""
        words = self.words - self.sentences * self.contract.end
        nats = self.log_perplexity * self.words / words if words else math.nan
        return math.exp(nats) if nats < 709.0 else math.inf if nats == nats else nats

    def sound(self, of: str) -> Evaluation:
        """Return self if the audit found no failure, else raise AuditError; `of` is the model's name in the message."""
        if failures := self.audit.failures():
            raise AuditError(f"{of}: {'; '.join(failures)}; this is a defect of llrnn or of a background of your own")
        return self

    @property
    def perplexity(self) -> float:
        """exp(`log_perplexity`), over words and ends of sentences; infinity above 709 nats, which no float can hold."""
        return math.exp(self.log_perplexity) if self.log_perplexity < 709.0 else math.inf

    def sheet(self, name: str = "evaluation") -> Sheet:
        figures = (
            f": log-perplexity {self.log_perplexity:.4f} nats a word, perplexity {self.perplexity:.1f}, "
            f"{self.bits_per_character:.3f} bits per character ({self.sentences:,} sentences)"
        )
        some = dict(list(self.by_feature.items())[:_FEATURES_SHOWN])
        tables = [_table("seen in training", self.by_frequency), _table("feature of the word", some)]
        head, found = ((Strong(name), figures), (str(self.contract),)), (table for table in tables if table.rows)
        return Sheet((*head, *found, *self.audit.lines()), warnings=tuple(self.audit.problems()))


def _table(title: str, slices: dict[str, Slice]) -> TextTable:
    rows = tuple((name, f"{part.words:,}", f"{part.log_perplexity:.3f}") for name, part in slices.items())
    return TextTable((title, "words", "log-perplexity"), rows)


def evaluate(
    model: LLRNN,
    corpus: Corpus,
    *,
    batching: Batching | None = None,
    contexts_checked: int = 64,
    seed: int = 0,
    oov: Oov | None = None,
    following: DocumentContext | None = None,
) -> Evaluation:
    """Return the perplexity of a model on a corpus, over every word and end of sentence, with an audit of that figure.

    `batching`: how the text is cut into batches (sentence by sentence unless given); `contexts_checked`: at how many
    contexts the audit adds up p over all words; `seed`: which contexts. `oov`: what becomes of words that the
    vocabulary does not list: `skip` leaves them out of all figures, `unk` counts them as the unknown-word symbol,
    `error` raises UnknownWordError; None: `unk` if the model has that symbol, else `error`. `following`: the corpus is
    one document that the model adapts to while it reads, by a cache or by dynamic evaluation; the audit is that of the
    model without it. Sentences stand alone unless the corpus is a running text, `corpus.running(3000)`.

        print(evaluate(model, Corpus.from_file("test.conllu")))
    """
    require_model(model)
    require_corpus(corpus)
    if model.cut_by == TokenPieces.kind:
        if following is not None or not isinstance(batching, Sentences | None):
            raise ConfigError("words of pieces are read text by text, found other batches or a cache; leave them out")
        return _of_pieces(model, corpus, contexts_checked, seed)
    given, own, skips = corpus, model.vocabulary, oov == "skip"
    corpus, missing = treat_unknown(corpus, own, oov)
    model = with_text_words(model, corpus)
    text = EncodedText.encode(corpus, model.vocabulary)
    oovs, found = missing.total(), tally(model, text, batching) if following is None else following.tally(model, text)
    words, characters, unknown = corpus.tokens + len(corpus), corpus.characters, model.vocabulary.unknown
    if skips and unknown is not None:
        left_out = np.arange(len(model.vocabulary)) == model.vocabulary.id(unknown)
        words -= int(found.words[left_out].sum())
        characters -= sum((len(word) + 1) * n for word, n in corpus.counts().items() if _is_unknown(word, model))
        found = Tally(np.where(left_out, 0, found.words), np.where(left_out, 0.0, found.nats))
    counted, nats = int(found.words.sum()), float(found.nats.sum())
    treatment = {"treatment": LEFT_OUT} if skips else {}
    contract = Contract.of(given, own, words, reading=_reading(corpus, batching, following), **treatment)
    return Evaluation(
        words=words,
        sentences=len(corpus),
        characters=characters,
        log_perplexity=nats / max(words, 1),
        bits_per_character=nats / math.log(2) / max(characters, 1),
        by_frequency=_by_frequency(model, found) if model.vocabulary.units is None else {},  # seen are units
        by_feature=_by_feature(model, found),
        audit=_audit(model, corpus, text, counted, contexts_checked, seed, skips),
        contract=contract,
        oovs=oovs,
    )


def _of_pieces(model: LLRNN, corpus: Corpus, contexts: int, seed: int) -> Evaluation:
    """Return what `evaluate` does for a model of pieces: its figures are those of `score`, over the same words."""
    found, text = score(model, corpus, lowercase=False), EncodedText.encode(corpus, model.vocabulary)
    nats, characters = -found.log_prob, sum(len(word) + 1 for one in found.sentences for word in one.words)
    mean, bits = nats / max(found.words, 1), nats / math.log(2) / max(characters, 1)
    checked = min(contexts, int(text.lengths.sum()))
    audit = Audit(_check_contexts(model, text, contexts, seed), checked, found.words, found.words, None, {})
    return Evaluation(found.words, len(corpus), characters, mean, bits, {}, {}, audit, found.contract)


def contract_of(model: LLRNN, corpus: Corpus, batching: Batching | None = None) -> Contract:
    """Return how words are read and counted where a training validates, or `model.scoring.score` reads a corpus.

    It is a `Contract`, whose `str` is one line to put beside a perplexity, and whose `words` is the number of words and
    ends of sentences. Where the symbols of the model are units of words, such as characters, these are counted, and
    `tokens` of the contract is "units". `batching`: how the text is cut into batches, None for sentence by sentence.
    """
    own, reading = model.vocabulary, _reading(corpus, batching, None)
    if own.units is None:
        return Contract.of(corpus, own, reading=reading)
    words = EncodedText.encode(corpus, own).n_targets
    return Contract.of(corpus, own, words, reading=reading, tokens="units")


def _reading(corpus: Corpus, batching: Batching | None, following: DocumentContext | None) -> Reading:
    apart = following is None and (batching is None or isinstance(batching, Sentences))
    return reading_of(corpus) if apart else "running"


def _is_unknown(word: str, model: LLRNN) -> bool:
    return word not in model.vocabulary or word == model.vocabulary.unknown


def _by_frequency(model: LLRNN, found: Tally) -> dict[str, Slice]:
    """Return {band: number and log-perplexity of words, a `Slice`} by how often the training text had the word.

    The bands are `unseen`, `1-5`, `6-50` and `more`; those without a word are left out. The end of sentence counts as a
    word. {} where the model does not know its training counts. `found`: counts and summed −log p by symbol.
    """
    seen = model.training_summary.counts if model.training_summary is not None else np.array(model.vocabulary.counts)
    slices: dict[str, Slice] = {}
    if not seen.any():
        return slices  # n-grams do not say how often
    for low, high, name in BANDS:
        inside = (seen >= low) & (seen <= high)
        words = int(found.words[inside].sum())
        if words:
            slices[name] = Slice(words, float(found.nats[inside].sum() / words))
    return slices


def _by_feature(model: LLRNN, found: Tally) -> dict[str, Slice]:
    """Return {feature name: number and log-perplexity, a `Slice`, of the text's words that have the feature}.

    The keys are all static output features, the most frequent first, but those that single words have (the group
    Identity) and those that no word of the text has. `found`: counts and summed −log p by symbol.
    """
    phi = model.output_features
    words = np.bincount(phi.class_of, weights=found.words, minlength=phi.n_classes)
    nats = np.bincount(phi.class_of, weights=found.nats, minlength=phi.n_classes)
    row = np.repeat(np.arange(phi.n_classes), np.diff(phi.offsets))
    words_of = np.bincount(phi.columns, weights=words[row], minlength=phi.n_features)
    nats_of = np.bincount(phi.columns, weights=nats[row], minlength=phi.n_features)
    order = [int(k) for k in np.argsort(-words_of, kind="stable") if words_of[k] > 0 and phi.groups[k] != "Identity"]
    return {phi.names[k]: Slice(int(words_of[k]), float(nats_of[k] / words_of[k])) for k in order}


def _audit(
    model: LLRNN, corpus: Corpus, text: EncodedText, counted: int, contexts: int, seed: int, skips: bool
) -> Audit:
    left_out = sum(n for word, n in corpus.counts().items() if _is_unknown(word, model)) if skips else 0
    units = model.vocabulary.units
    return Audit(
        worst_sum_error=_check_contexts(model, text, contexts, seed),
        contexts_checked=min(contexts, counted),
        words_counted=counted,
        words_expected=int(text.lengths.sum()) if units else corpus.tokens + len(corpus) - left_out,
        seen_in_training=None if model.training_summary is None else model.training_summary.share_of(text),
        coverage=_coverage(model, text),
    )


@torch.no_grad()
def _check_contexts(model: LLRNN, text: EncodedText, contexts: int, seed: int) -> float:
    """Return the largest |Σ_x p(x) − 1| over at most `contexts` positions in sentences of the text, drawn by `seed`."""
    chosen = np.random.default_rng(seed).permutation(len(text.sentences))[: max(1, contexts // 8)]
    some = EncodedText(tuple(text.sentences[i] for i in chosen), tuple(text.conditions[i] for i in chosen), text.eos)
    worst, left = 0.0, contexts
    for _, distribution in walk(model, some):
        if left > 0:
            sums = distribution.log_probs().double().exp().sum(-1)[:left]
            worst = max(worst, float((sums - 1).abs().max()))
            left -= len(sums)
    return worst


def _coverage(model: LLRNN, text: EncodedText) -> dict[str, Coverage]:
    """Return {feature group: `Coverage`}: which shares of rare training words, and of words only here, have a feature.

    Rare words were seen once or twice in training and are not in `text`; words only here are those of `text` that
    training did not have; each distinct word counts once. A feature `GROUP:none` (`features.Vectors`: the word has no
    vector) does not count. {} where the model does not know its training counts, or there are no words of either sort.
    """
    if model.training_summary is None:
        return {}
    here = text.counts(len(model.vocabulary)) > 0
    rare = (model.training_summary.counts >= 1) & (model.training_summary.counts <= 2) & ~here
    only_here = here & (model.training_summary.counts == 0)
    if not rare.any() or not only_here.any():
        return {}
    phi = model.output_features
    row = np.repeat(np.arange(phi.n_classes), np.diff(phi.offsets))
    numbers = {group: number for number, group in enumerate(dict.fromkeys(phi.groups))}
    names = zip(phi.names, phi.groups, strict=True)
    groups = np.array([-1 if name == f"{group}:none" else numbers[group] for name, group in names])[phi.columns]
    shares = {}
    for group, number in numbers.items():
        fires = np.zeros(phi.n_classes, dtype=bool)
        fires[row[groups == number]] = True
        of_type = fires[phi.class_of]
        shares[group] = Coverage(float(of_type[rare].mean()), float(of_type[only_here].mean()))
    return shares
