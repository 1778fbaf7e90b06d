"""The kinds of question, each a class: what a request becomes when it is made ready, and how many are answered at once.

    kind(served, request)          looks everything up; what is not there is refused, and only this request is
    question.together              questions of one model for which this is equal can be answered together
    kind.answer(questions)         an answer for each: plain data for JSON, or an exception in its place

All of this runs in the model's thread (`batching`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from typing import Any, Generic, TypeVar

import torch

from llrnn.decode import Greedy, Sampling
from llrnn.errors import ZeroMassError
from llrnn.explain import Comparison, Explanation, Term, explain_next
from llrnn.features.naming import FeatureNames
from llrnn.influence import influence
from llrnn.loglinear import Distribution
from llrnn.sequences import ModelState
from llrnn.web import computing
from llrnn.web.computing import Steering, asked, finite, spelled_for, steering
from llrnn.web.messages import (
    ExplainRequest,
    GenerateRequest,
    InfluenceRequest,
    NextRequest,
    Query,
    ScoreRequest,
    words_of,
)
from llrnn.web.refusals import Refused
from llrnn.web.served import Served, refusal
from llrnn.web.texts import Text, chosen

Answer = dict[str, Any]
R = TypeVar("R", bound=Query)


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
        found = questions[0].answer(questions)
        return [refusal(one) if isinstance(one, Exception) else one for one in found]
    except Exception as error:
        return [refusal(error)] * len(questions)


def _each(questions: Sequence[Any], answer: Callable[..., Any]) -> list[Any]:
    """One by one; who has no answer does not spoil it for the others."""
    found: list[Any] = []
    for n, question in enumerate(questions):
        try:
            found.append(answer(question, n))
        except Exception as error:
            found.append(error)
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
        row = p.row(n)
        log_p = [float(row.log_prob(torch.tensor([one], device=row.h.device))[0]) for one in self.symbols.tolist()]
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
    """The log-probabilities of the texts of one request."""

    together: Hashable = None

    def __init__(self, served: Served, request: ScoreRequest) -> None:
        given = request.conditions or [None] * len(request.texts)
        self.served, self.request, self.model = served, request, served.variants.get(request.background)
        self.texts = []
        changed: dict[
            FeatureNames, Steering
        ] = {}  # the same changes of the same features are one, whatever the condition
        for text, condition in zip(request.texts, given, strict=True):
            ready = served.ready(request.background, condition)
            if ready.names not in changed:
                changed[ready.names] = steering(ready, request.changes)
            self.texts.append((ready.model, asked(ready, words_of(text), changed[ready.names])))

    @staticmethod
    def answer(questions: Sequence[Scored]) -> list[Any]:
        return _each(questions, lambda question, n: question._answer())

    def _answer(self) -> Answer:
        """Texts of one model together; conditions may have made several of it."""
        scores: list[Answer | None] = [None] * len(self.texts)
        by_model: dict[int, list[int]] = {}
        for index, (model, _) in enumerate(self.texts):
            by_model.setdefault(id(model), []).append(index)
        for indices in by_model.values():
            found = computing.score(self.texts[indices[0]][0], [self.texts[index][1] for index in indices])
            for index, one in zip(indices, found, strict=True):
                scores[index] = one
        return {"model": self.served.name, "background": self.request.background, "scores": scores}


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
