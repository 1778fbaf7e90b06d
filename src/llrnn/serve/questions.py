"""The kinds of question, each a class: what a request becomes when it is made ready, and how many are answered at once.

    kind(served, request)          looks everything up; what is not there is refused, and only this request is
    question.together              questions of one model for which this is equal can be answered together
    kind.answer(questions)         an answer for each: plain data for JSON, or an exception in its place

All of this runs in the model's thread (`batching`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import torch

from llrnn.ground.errors import ZeroMassError
from llrnn.inference.explanation import Comparison, Explanation, Term, explain_next
from llrnn.inference.saliency import influence
from llrnn.knowledge.features.naming import FeatureNames
from llrnn.knowledge.sequences import ModelState
from llrnn.layer.loglinear import Distribution
from llrnn.model.decode import Greedy, Sampling
from llrnn.serve import computing
from llrnn.serve.computing import Steering, asked, finite, spelled_for, steering
from llrnn.serve.messages import (
    ExplainRequest,
    GenerateRequest,
    InfluenceRequest,
    NextRequest,
    Query,
    ScoreRequest,
    words_of,
)
from llrnn.serve.refusals import Refused
from llrnn.serve.served import Served, refusal
from llrnn.serve.texts import Text, chosen

Answer = dict[str, Any]
R = TypeVar("R", bound=Query)
_POSITIONS = 512  # of a scan, when texts are scored: nobody else can be answered while it goes on


class Question(ABC, Generic[R]):
    """A request about what follows a prefix."""

    together: Hashable = None

    def __init__(self, served: Served, request: R) -> None:
        self.served, self.request = served, request
        ready = served.ready(request.background, request.condition)
        self.model, self.condition = ready.model, ready.condition
        self.asked = asked(ready, words_of(request.prefix), steering(ready, request.changes))

    @staticmethod
    @abstractmethod
    def answer(questions: Sequence[Any]) -> list[Any]:
        """An answer, or an exception, for each question; all of one model."""

    def named(self) -> Answer:
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
            groups.setdefault((id(question.model), question.together), []).append((index, question))
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


def _each(questions: Sequence[Any], answer: Callable[..., Any]) -> list[Any]:
    """One by one; who has no answer does not spoil it for the others."""
    found: list[Any] = []
    for n, question in enumerate(questions):
        try:
            found.append(answer(question, n))
        except Exception as error:
            found.append(refusal(error))
    return found


class NextWords(Question[NextRequest]):
    """Prefixes of any length together."""

    def __init__(self, served: Served, request: NextRequest) -> None:
        super().__init__(served, request)
        self.words = spelled_for(self.model, request.words)
        self.symbols, self.inside = self.model.vocabulary.locate(self.words, place="words")

    @staticmethod
    def answer(questions: Sequence[NextWords]) -> list[Any]:
        p = computing.after_prefixes(questions[0].model, [question.asked for question in questions])
        if bool(torch.isfinite(p.log_z).all()):
            best = computing.best_words(questions[0].model, p, [question.request.top for question in questions])
            return [question._answer(p, n, best[n]) for n, question in enumerate(questions)]
        return _each(questions, lambda question, n: question._alone(p.row(n)))

    def _alone(self, p: Distribution) -> Answer:
        """Where another prefix leads nowhere: this one by itself, or why it leads nowhere."""
        if (refused := computing.why_not(p)) is not None:
            raise refused
        return self._answer(p, 0, computing.best_words(self.model, p, [self.request.top])[0])

    def _answer(self, p: Distribution, n: int, best: Answer) -> Answer:
        return {**self.named(), **best, "words": self._asked_words(p, n) if self.words else []}

    def _asked_words(self, p: Distribution, n: int) -> list[Answer]:
        row, first = p.row(n), torch.zeros(len(self.words), dtype=torch.long, device=p.h.device)
        log_p = row.log_prob(torch.from_numpy(self.symbols).to(p.h.device), first).tolist()
        return [
            computing.word(self.model, symbol, log + inside, word)
            for word, symbol, log, inside in zip(
                self.words, self.symbols.tolist(), log_p, self.inside.tolist(), strict=True
            )
        ]


class _Read(Question[R]):
    """A question that needs to know where the sequence stands: prefixes of one length together."""

    def __init__(self, served: Served, request: R) -> None:
        super().__init__(served, request)
        self.together = len(self.asked.ids)

    @staticmethod
    def answer(questions: Sequence[Any]) -> list[Any]:
        p, state = computing.read(questions[0].model, [question.asked for question in questions])
        return _each(questions, lambda question, n: question._checked(p.row(n), state.select([n])))

    def _checked(self, p: Distribution, state: ModelState) -> Any:
        reason = self.model.background.refusal(state.knowledge[0][0])
        if reason is not None:
            raise ZeroMassError(f"nothing can follow the prefix {' '.join(self.asked.words)!r}: {reason}")
        if (refused := computing.why_not(p)) is not None:
            raise refused
        return self.after(p, state)

    @abstractmethod
    def after(self, p: Distribution, state: ModelState) -> Any:
        """The answer, from what follows the prefix and where the sequence stands."""


class Why(_Read[ExplainRequest]):
    """Why this word, and why not another."""

    def after(self, p: Distribution, state: ModelState) -> Answer:
        word, *rest = spelled_for(self.model, [self.request.word, *filter(None, [self.request.rival])])
        found = explain_next(self.model, p, state, self.asked.words, word, rest[0] if rest else None)
        if isinstance(found, Explanation):
            return {**self.named(), "word": explanation_as_json(found), "rival": None, "comparison": None}
        return {
            **self.named(),
            "word": explanation_as_json(found.chosen),
            "rival": explanation_as_json(found.rival),
            "comparison": comparison_as_json(found),
        }


class Begin(_Read[GenerateRequest]):
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


class Moved(Question[InfluenceRequest]):
    """What moved a weight: one by one, since each needs a gradient of its own."""

    def __init__(self, served: Served, request: InfluenceRequest) -> None:
        super().__init__(served, request)
        if request.feature not in self.model.feature_names:
            raise Refused(
                404, "unknown_feature", f"{served.name} has no feature {request.feature!r}; ask for its features"
            )

    @staticmethod
    def answer(questions: Sequence[Moved]) -> list[Any]:
        return _each(questions, lambda question, n: question._answer())

    def _answer(self) -> Answer:
        found = influence(self.model, feature=self.request.feature, prefix=self.asked.words, condition=self.condition)
        scale, offset = 1.0, 0.0
        if self.asked.steering is not None:
            k = self.model.feature_names.index(found.feature)
            scale, offset = (float(part[k]) for part in self.asked.steering)
        terms = [{**asdict(term), "share": scale * term.share} for term in found.terms]
        return {**self.named(), "feature": found.feature, "weight": scale * found.weight + offset, "terms": terms}


class Scored:
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
        texts = [asked(ready, self._words[index], changed) for index in piece.texts]
        for index, found in zip(piece.texts, computing.score(ready.model, texts), strict=True):
            self.scores[index] = found

    def answer(self) -> Answer:
        """When all pieces are there."""
        return {"model": self.served.name, "background": self.request.background, "scores": self.scores}


@dataclass(frozen=True)
class Piece:
    """Some texts of a request, all with one condition."""

    of: Scored
    condition: str | None
    texts: tuple[int, ...]


@torch.no_grad()
def score_pieces(pieces: Sequence[Piece]) -> list[Any]:
    """One by one: None for each, or what was wrong with it."""
    return _each(pieces, lambda piece, n: piece.of.add(piece))


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
