"""The kinds of question, each a class: what a request becomes when it is made ready, and how many are answered at once.

    kind(served, request)          looks everything up; what is not there is refused, and only this request is
    question.batch_key              questions of one model for which this is equal can be answered together
    kind.answer(questions)         an answer for each: plain data for JSON, or an exception in its place

All of this runs in the model's thread (`batching`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError, ZeroMassError
from llrnn.ground.rendering import Term
from llrnn.inference.explanation import Comparison, Explanation, explain_next, influence
from llrnn.knowledge.features.compiled import FeatureNames
from llrnn.knowledge.sequences import Batch, ModelState
from llrnn.layer.loglinear import Distribution, Steered
from llrnn.model.decode import Greedy, Sampling, Strategy
from llrnn.model.network import LLRNN
from llrnn.model.steering import Change, scale_and_offset
from llrnn.serve.limits import LIMITS, Refused, most
from llrnn.serve.messages import (
    ChangeMessage,
    ExplainRequest,
    GenerateRequest,
    InfluenceRequest,
    NextRequest,
    Query,
    ScoreRequest,
    words_of,
)
from llrnn.serve.served import PreparedModel, Served, refusal
from llrnn.text.vocabulary import EOS

# Many questions to one model, answered by one pass through the network.
#
#     after_prefixes     B prefixes, padded to one length; p at the last position of each, all in one scan
#     read               prefixes of one length, which leave a state to go on from
#     score              a few texts; log p of every word, in one scan
#
# Weights that are set by hand differ from row to row: `loglinear.Steered` changes a on its way, row by row. What comes
# after the network is asked for one row alone (`Distribution.row`) where rows want different things of it.


_ROUND = 8  # lengths are padded to multiples: the recurrent networks of oneDNN prepare code for every shape
Steering = tuple[Tensor, Tensor] | None


@dataclass(frozen=True, eq=False)
class EncodedPrefix:
    """A prefix as the model reads it: its words, their symbols, the condition, and weights set by hand."""

    words: tuple[str, ...]
    ids: tuple[int, ...]
    condition: object
    steering: Steering


def encode(ready: PreparedModel, words: Sequence[str], steering: Steering) -> EncodedPrefix:
    """A prefix or a text, looked up; a word that is not there is refused."""
    written = spelled_for(ready.model, words)
    ids = ready.model.vocabulary.ids(written, place="prefix")
    return EncodedPrefix(written, tuple(ids), ready.condition, steering)


def spelled_for(model: LLRNN, words: Sequence[str]) -> tuple[str, ...]:
    """Words as the model's training text had them: small where all of it was."""
    return tuple(word.lower() for word in words) if model.reads_lowercase else tuple(words)


def steering(ready: PreparedModel, changes: Sequence[ChangeMessage]) -> Steering:
    """Messages of changes as scale and offset of all weights, for a whole request; none where there are none."""
    if not changes:
        return None
    wanted = [Change(one.feature, one.scale, one.offset) for one in changes]
    try:
        return scale_and_offset(ready.model, wanted, ready.names)
    except ConfigError as error:
        raise Refused(404, "unknown_feature", str(error)) from None


def steered(model: LLRNN, rows: Sequence[Steering]) -> Steered | None:
    """The model's layer with a change of its own for each row; None is the layer as it is."""
    if all(row is None for row in rows):
        return None
    if all(row is rows[0] for row in rows):  # as the texts of one request: one row stands for all
        rows = rows[:1]
    like = next(row for row in rows if row is not None)[0]
    plain = torch.ones_like(like), torch.zeros_like(like)
    scale, offset = zip(*(row or plain for row in rows), strict=True)
    return Steered(model.layer, torch.stack(scale), torch.stack(offset))


def after_prefixes(model: LLRNN, rows: Sequence[EncodedPrefix]) -> Distribution:
    """p of the word after each prefix, whatever their lengths."""
    longest = 1 + max(len(row.ids) for row in rows)
    return _at_the_ends(model, rows, -(-longest // _ROUND) * _ROUND)[0]


def read(model: LLRNN, rows: Sequence[EncodedPrefix]) -> tuple[Distribution, ModelState]:
    """p of the word after each prefix, all of one length, and where the sequences stand."""
    return _at_the_ends(model, rows, 1 + len(rows[0].ids))


def _at_the_ends(model: LLRNN, rows: Sequence[EncodedPrefix], length: int) -> tuple[Distribution, ModelState]:
    batch = _padded(model, rows, length)
    last = torch.zeros_like(batch.mask)
    last[torch.arange(len(rows)), torch.tensor([len(row.ids) for row in rows])] = True
    layer = steered(model, [row.steering for row in rows])
    return model.scan(replace(batch, mask=last).to(model.device), layer=layer)


def _padded(model: LLRNN, rows: Sequence[EncodedPrefix], length: int) -> Batch:
    eos = model.vocabulary.eos
    inputs = torch.tensor([[eos, *row.ids, *[eos] * (length - 1 - len(row.ids))] for row in rows])
    return Batch(inputs, inputs, torch.ones_like(inputs, dtype=torch.bool), [row.condition for row in rows])


def refusal_of_row(p: Distribution) -> Refused | None:
    """Of one row: why nothing can follow, if that is so."""
    log_z = float(p.log_z[0])
    if math.isfinite(log_z):
        return None
    why = "the background gives no word any mass there" if log_z == -math.inf else "the changed weights overflow"
    return Refused(409, "impossible", f"nothing can follow this prefix: {why}; change the prefix or the weights")


def best_words(model: LLRNN, p: Distribution, tops: Sequence[int]) -> list[dict[str, Any]]:
    """The most probable words of each row, and what all symbols add up to."""
    most = min(len(model.vocabulary), max(1, *tops))
    log_p, symbols = (part.tolist() for part in p.top(most))
    totals, log_z, entropy = (part.tolist() for part in (p.class_probabilities().sum(-1), p.log_z, p.entropy()))
    return [
        {
            "top": [
                word(model, symbol, log)
                for symbol, log in zip(symbols[n][:top], log_p[n][:top], strict=True)
                if log > -math.inf
            ],
            "total": totals[n],
            "log_z": log_z[n],
            "entropy": entropy[n],
        }
        for n, top in enumerate(tops)
    ]


def word(model: LLRNN, symbol: int, log_p: float, spelled: str | None = None) -> dict[str, Any]:
    """A symbol with its probability; a string of a cell is written as it is spelled."""
    vocabulary = model.vocabulary
    written = vocabulary.symbols[symbol] if spelled is None else spelled
    is_cell = symbol >= len(vocabulary.words)
    return {"word": written, "log_p": finite(log_p), "p": math.exp(log_p), "cell": is_cell}


def score(model: LLRNN, texts: Sequence[EncodedPrefix]) -> list[dict[str, Any]]:
    """log p of every word of each text, the end of the sentence included."""
    length = max(1 + len(text.ids) for text in texts)
    batch = _padded(model, texts, length)
    mask = torch.tensor([[t <= len(text.ids) for t in range(length)] for text in texts])
    targets = torch.cat([batch.inputs[:, 1:], torch.full((len(texts), 1), model.vocabulary.eos)], 1)
    placed = replace(batch, targets=targets, mask=mask).to(model.device)
    lengths = [1 + len(text.ids) for text in texts]
    layer = steered(model, [text.steering for text in texts for _ in range(1 + len(text.ids))])
    distribution, _ = model.scan(placed, layer=layer)
    log_p = distribution.log_prob(placed.picked(placed.targets)).double().cpu()
    return [_scored(model, text, row) for text, row in zip(texts, torch.split(log_p, lengths), strict=True)]


def _scored(model: LLRNN, text: EncodedPrefix, log_p: Tensor) -> dict[str, Any]:
    if model.vocabulary.is_open and text.words:
        log_p = log_p.clone()
        log_p[:-1] += torch.from_numpy(model.vocabulary.locate(text.words)[1])
    total = float(log_p.sum())
    return {
        "words": [*text.words, EOS],
        "log_p": [finite(one) for one in log_p.tolist()],
        "log_prob": finite(total),
        "perplexity": finite(_exp(-total / len(log_p))),
    }


def finite(number: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return number if math.isfinite(number) else None


def _exp(number: float) -> float:
    return math.exp(number) if number < 700 else math.inf


# A text that is being written on the server, word by word: many of them take each step together.
#
#     texts = chosen(texts, p, state)      a word for each, drawn by the text's own strategy and generator
#     texts = step(texts)                  every text is fed its word, and chooses the next
#
# A text has a generator of its own, so that the same seed gives the same words whoever else is writing.


@dataclass(frozen=True, eq=False)
class Text:
    """Where it stands, and the word that was chosen last."""

    model: LLRNN
    asked: EncodedPrefix
    strategy: Strategy
    generator: torch.Generator
    state: ModelState
    symbol: int = -1
    log_p: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.symbol == self.model.vocabulary.eos

    def written(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """The last word as an event: a cell is spelled, and its features are named as `generate --features` does."""
        vocabulary, symbol = self.model.vocabulary, self.symbol
        is_cell = symbol >= len(vocabulary.words)
        word = vocabulary.spelled(symbol, rng) if is_cell else vocabulary.words[symbol]
        log_p = self.log_p + (vocabulary.log_inside(word) if is_cell else 0.0)
        return {
            "index": index,
            "word": word,
            "log_p": log_p,
            "p": math.exp(log_p),
            "features": self.model.output_features.named(symbol),
            "cell": vocabulary.symbols[symbol] if is_cell else None,
        }


def chosen(texts: Sequence[Text], p: Distribution, state: ModelState) -> list[Any]:
    """Every text with its next word; one that cannot go on has an exception in its place."""
    drawn = [_drawn(text, _row(p, n)) for n, text in enumerate(texts)]
    symbols = torch.tensor([0 if isinstance(one, Exception) else one for one in drawn], device=p.h.device)
    log_p = p.log_prob(symbols).tolist()
    return [
        one if isinstance(one, Exception) else replace(text, state=state.select([n]), symbol=one, log_p=log_p[n])
        for n, (text, one) in enumerate(zip(texts, drawn, strict=True))
    ]


def _row(p: Distribution, n: int) -> Distribution:
    """One position, with what was computed for all of them at once."""
    alone = p.row(n)
    alone.scores, alone.log_total = p.scores[n : n + 1], p.log_total[n : n + 1]
    return alone


def _drawn(text: Text, p: Distribution) -> int | Exception:
    try:
        (symbol,) = text.strategy.choose(p.require_mass(), text.generator)
    except Exception as error:
        return refusal(error)
    return symbol


@torch.no_grad()
def step(texts: Sequence[Text]) -> list[Any]:
    """One model step for all texts, which are of one model; then each chooses."""
    model = texts[0].model
    state = ModelState.joined([text.state for text in texts], model.device)
    layer = steered(model, [text.asked.steering for text in texts])
    p, after = model.step(state, [text.symbol for text in texts], layer=layer)
    return chosen(texts, p, after)


Answer = dict[str, Any]
R = TypeVar("R", bound=Query)
_POSITIONS = 512  # of a scan, when texts are scored: nobody else can be answered while it goes on


class Question(ABC, Generic[R]):
    """A request about what follows a prefix."""

    batch_key: Hashable = None

    def __init__(self, served: Served, request: R) -> None:
        self.served, self.request = served, request
        ready = served.ready(request.background, request.condition)
        self.model, self.condition = ready.model, ready.condition
        self.asked = encode(ready, words_of(request.prefix), steering(ready, request.changes))

    @staticmethod
    @abstractmethod
    def answer(questions: Sequence[Any]) -> list[Any]:
        """An answer, or an exception, for each question; all of one model."""

    def header(self) -> Answer:
        """How every answer begins."""
        return {"model": self.served.name, "background": self.request.background, "prefix": list(self.asked.words)}


@torch.no_grad()
def answered(kind: Callable[[Served, Any], Any], served: Served, requests: Sequence[Any]) -> list[Any]:
    """An answer or a refusal for each request, those that can be answered together in one pass."""
    outcomes: list[Any] = [None] * len(requests)
    groups: dict[Hashable, list[tuple[int, Any]]] = {}
    for index, request in enumerate(requests):
        try:
            question = kind(served, request)
            groups.setdefault((id(question.model), question.batch_key), []).append((index, question))
        except Exception as error:
            outcomes[index] = refusal(error)
    for group in groups.values():
        for (index, _), found in zip(group, _all([question for _, question in group]), strict=True):
            outcomes[index] = found
    return outcomes


def _all(questions: Sequence[Any]) -> list[Any]:
    try:
        found: list[Any] = questions[0].answer(questions)
        return found
    except Exception as error:
        return [refusal(error)] * len(questions)


def _one_by_one(questions: Sequence[Any], answer: Callable[..., Any]) -> list[Any]:
    """One by one; who has no answer does not spoil it for the others."""
    found: list[Any] = []
    for n, question in enumerate(questions):
        try:
            found.append(answer(question, n))
        except Exception as error:
            found.append(refusal(error))
    return found


class NextQuestion(Question[NextRequest]):
    """Prefixes of any length together."""

    def __init__(self, served: Served, request: NextRequest) -> None:
        super().__init__(served, request)
        self.words = spelled_for(self.model, request.words)
        self.symbols, self.inside = self.model.vocabulary.locate(self.words, place="words")

    @staticmethod
    def answer(questions: Sequence[NextQuestion]) -> list[Any]:
        p = after_prefixes(questions[0].model, [question.asked for question in questions])
        if bool(torch.isfinite(p.log_z).all()):
            best = best_words(questions[0].model, p, [question.request.top for question in questions])
            return [question._answer(p, n, best[n]) for n, question in enumerate(questions)]
        return _one_by_one(questions, lambda question, n: question._alone(p.row(n)))

    def _alone(self, p: Distribution) -> Answer:
        """Where another prefix leads nowhere: this one by itself, or why it leads nowhere."""
        if (refused := refusal_of_row(p)) is not None:
            raise refused
        return self._answer(p, 0, best_words(self.model, p, [self.request.top])[0])

    def _answer(self, p: Distribution, n: int, best: Answer) -> Answer:
        return {**self.header(), **best, "words": self._asked_words(p, n) if self.words else []}

    def _asked_words(self, p: Distribution, n: int) -> list[Answer]:
        row, first = p.row(n), torch.zeros(len(self.words), dtype=torch.long, device=p.h.device)
        log_p = row.log_prob(torch.from_numpy(self.symbols).to(p.h.device), first).tolist()
        return [
            word(self.model, symbol, log + inside, spelled)
            for spelled, symbol, log, inside in zip(
                self.words, self.symbols.tolist(), log_p, self.inside.tolist(), strict=True
            )
        ]


class _StatefulQuestion(Question[R]):
    """A question that needs to know where the sequence stands: prefixes of one length together."""

    def __init__(self, served: Served, request: R) -> None:
        super().__init__(served, request)
        self.batch_key = len(self.asked.ids)

    @staticmethod
    def answer(questions: Sequence[Any]) -> list[Any]:
        p, state = read(questions[0].model, [question.asked for question in questions])
        return _one_by_one(questions, lambda question, n: question._checked(p.row(n), state.select([n])))

    def _checked(self, p: Distribution, state: ModelState) -> Any:
        reason = self.model.background.refusal(state.knowledge[0][0])
        if reason is not None:
            raise ZeroMassError(f"nothing can follow the prefix {' '.join(self.asked.words)!r}: {reason}")
        if (refused := refusal_of_row(p)) is not None:
            raise refused
        return self.after(p, state)

    @abstractmethod
    def after(self, p: Distribution, state: ModelState) -> Any:
        """The answer, from what follows the prefix and where the sequence stands."""


class ExplainQuestion(_StatefulQuestion[ExplainRequest]):
    """Why this word, and why not another."""

    def after(self, p: Distribution, state: ModelState) -> Answer:
        word, *rest = spelled_for(self.model, [self.request.word, *filter(None, [self.request.rival])])
        found = explain_next(self.model, p, state, self.asked.words, word, rest[0] if rest else None)
        if isinstance(found, Explanation):
            return {**self.header(), "word": explanation_as_json(found), "rival": None, "comparison": None}
        return {
            **self.header(),
            "word": explanation_as_json(found.chosen),
            "rival": explanation_as_json(found.rival),
            "comparison": comparison_as_json(found),
        }


class GenerateQuestion(_StatefulQuestion[GenerateRequest]):
    """The first word of a text."""

    def after(self, p: Distribution, state: ModelState) -> Any:
        wanted = self.request.strategy
        sampling = Sampling(wanted.temperature, wanted.top_k, wanted.top_p)
        generator = torch.Generator(self.model.device).manual_seed(self.request.seed)
        strategy = Greedy() if wanted.kind == "greedy" else sampling
        (text,) = chosen([Text(self.model, self.asked, strategy, generator, state)], p, state)
        if isinstance(text, Exception):
            raise text
        return text


class InfluenceQuestion(Question[InfluenceRequest]):
    """What moved a weight: one by one, since each needs a gradient of its own."""

    def __init__(self, served: Served, request: InfluenceRequest) -> None:
        super().__init__(served, request)
        if request.feature not in self.model.feature_names:
            raise Refused(
                404, "unknown_feature", f"{served.name} has no feature {request.feature!r}; ask for its features"
            )

    @staticmethod
    def answer(questions: Sequence[InfluenceQuestion]) -> list[Any]:
        return _one_by_one(questions, lambda question, n: question._answer())

    def _answer(self) -> Answer:
        found = influence(self.model, feature=self.request.feature, prefix=self.asked.words, condition=self.condition)
        scale, offset = 1.0, 0.0
        if self.asked.steering is not None:
            k = self.model.feature_names.index(found.feature)
            scale, offset = (float(part[k]) for part in self.asked.steering)
        terms = [{**asdict(term), "share": scale * term.share} for term in found.terms]
        return {**self.header(), "feature": found.feature, "weight": scale * found.weight + offset, "terms": terms}


class ScoreQuestion:
    """The log-probabilities of the texts of one request, piece by piece: between two of them others have their turn.

    A piece is a few texts with one condition. Of the models that conditions make, none is kept for a second piece but
    by `Served.ready`: a request may have as many conditions as texts.
    """

    def __init__(self, served: Served, request: ScoreRequest) -> None:
        self.served, self.request = served, request
        self.scores: list[Answer | None] = [None] * len(request.texts)
        self._words = [words_of(text) for text in request.texts]
        self._changed: dict[FeatureNames, Steering] = {}  # one for all pieces, since names are those of the model

    def pieces(self) -> Iterator[Piece]:
        """All texts, by their conditions, as many a piece as fit into one scan."""
        conditions = self.request.conditions or (None,) * len(self._words)
        by_condition: dict[str | None, list[int]] = {}
        for index, condition in enumerate(conditions):
            by_condition.setdefault(condition, []).append(index)
        for condition, indices in by_condition.items():
            piece: list[int] = []
            longest = 0
            for index in indices:
                longest = max(longest, 1 + len(self._words[index]))
                if piece and (len(piece) + 1) * longest > _POSITIONS:
                    yield Piece(self, condition, tuple(piece))
                    piece, longest = [], 1 + len(self._words[index])
                piece.append(index)
            yield Piece(self, condition, tuple(piece))

    def add(self, piece: Piece) -> None:
        """The scores of a piece."""
        ready = self.served.ready(self.request.background, piece.condition)
        if ready.names not in self._changed:
            self._changed[ready.names] = steering(ready, self.request.changes)
        changed = self._changed[ready.names]
        texts = [encode(ready, self._words[index], changed) for index in piece.texts]
        for index, found in zip(piece.texts, score(ready.model, texts), strict=True):
            self.scores[index] = found

    def answer(self) -> Answer:
        """When all pieces are there."""
        return {"model": self.served.name, "background": self.request.background, "scores": self.scores}


@dataclass(frozen=True)
class Piece:
    """Some texts of a request, all with one condition."""

    of: ScoreQuestion
    condition: str | None
    texts: tuple[int, ...]


@torch.no_grad()
def score_pieces(pieces: Sequence[Piece]) -> list[Any]:
    """One by one: None for each, or what was wrong with it."""
    return _one_by_one(pieces, lambda piece, n: piece.of.add(piece))


def explanation_as_json(found: Explanation) -> Answer:
    return {
        "word": found.word,
        "log_p": finite(found.log_p),
        "log_b": finite(found.log_b),
        "log_z": found.log_z,
        "total": finite(found.total),
        "cell": found.cell,
        "log_inside": found.log_inside,
        "terms": _terms(found.terms),
        "factors": _factors(found.factors),
        "forbidden_by": list(found.forbidden_by),
    }


def comparison_as_json(found: Comparison) -> Answer:
    return {
        "log_ratio": finite(found.log_ratio),
        "log_b_difference": finite(found.log_b_difference),
        "total": finite(found.total),
        "terms": _terms(found.terms),
        "factors": _factors(found.factors),
    }


def _terms(terms: Sequence[Term]) -> list[Answer]:
    return [{"name": one.name, "weight": one.weight, "value": one.value, "share": one.share} for one in terms]


def _factors(factors: Sequence[tuple[str, float]]) -> list[Answer]:
    return [{"name": name, "log_b": finite(log_b) if not math.isnan(log_b) else None} for name, log_b in factors]


# What a request will cost, estimated before any of it runs, in words that are read (a tenth of a millisecond or so).
#
#     a word of a prefix or of a text       1, and half as much again where weights are changed
#     a word of a prefix for `influence`    6: there and back
#     a word that is generated              10: a step of its own
#   a condition                       50, a fiftieth of the vocabulary (5,000 at most), a quarter of its characters
#     a name that a pattern looks at        1/200
#     a word that is listed or asked for    1/20
#
# The estimate bounds a request (`limits`, "work"), and says what its client pays in the queue (`batching.FairQueue`).


_STEERED_COST = 1.5
_WORDS_OF_INFLUENCE = 6.0
STEP_COST = 10.0
_CONDITION, _SYMBOLS_A_WORD, _MOST_OF_SYMBOLS, _CHARACTERS_A_WORD = 50.0, 50, 5000, 4
_NAMES_A_WORD = 200
_LISTED_A_WORD = 20


def words_cost(count: int, changes: Sequence[ChangeMessage]) -> float:
    """Words that are read, and the end of the sentence."""
    return (1 + count) * (_STEERED_COST if changes else 1.0)


def condition_cost(served: Served, condition: str | None) -> float:
    """To read it and to list its words, which makes a vocabulary of its own."""
    if condition is None:
        return 0.0
    symbols = min(len(served.model.vocabulary) / _SYMBOLS_A_WORD, _MOST_OF_SYMBOLS)
    return _CONDITION + symbols + len(condition) / _CHARACTERS_A_WORD


def changes_cost(served: Served, changes: Sequence[ChangeMessage]) -> float:
    """Patterns look through all names; more than a request may is refused."""
    names = len(served.names) * sum(served.names.is_pattern(one) for one in {change.feature for change in changes})
    if names > most("pattern_names"):
        raise LIMITS["pattern_names"].refused(found=names)
    return names / _NAMES_A_WORD + len(changes) / _LISTED_A_WORD


def query_cost(served: Served, request: Query) -> float:
    """What it costs to answer, or to write the first word."""
    read = words_cost(len(request.prefix_words), request.changes)
    if isinstance(request, InfluenceRequest):
        read *= _WORDS_OF_INFLUENCE
    if isinstance(request, NextRequest):
        read += (request.top + len(request.words)) / _LISTED_A_WORD
    whole = read + condition_cost(served, request.condition) + changes_cost(served, request.changes)
    _require(whole + (STEP_COST * request.max_words if isinstance(request, GenerateRequest) else 0.0))
    return whole


def score_cost(served: Served, request: ScoreRequest) -> float:
    """What all texts cost together, and every condition that is another."""
    read = sum(words_cost(len(words_of(text)), request.changes) for text in request.texts)
    conditions = sum(condition_cost(served, one) for one in set(request.conditions or ()))
    whole = read + conditions + changes_cost(served, request.changes)
    _require(whole)
    return whole


def listing_cost(count: int) -> float:
    """To look through so many names."""
    return 1.0 + count / _NAMES_A_WORD


def _require(work: float) -> None:
    if work > most("work"):
        raise LIMITS["work"].refused(found=round(work))
