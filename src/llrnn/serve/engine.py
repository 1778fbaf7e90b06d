"""The models behind the API: each request becomes a job, and jobs that wait together become one model step.

    next, explain, influence, score, generate        as `messages` has them; answers are plain data, ready for JSON

The engine knows nothing of HTTP. What cannot be answered is raised as `Refused`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from llrnn.model.decode import Generated
from llrnn.model.network import LLRNN
from llrnn.model.writing import spoken
from llrnn.serve.limits import Refused
from llrnn.serve.messages import ExplainRequest, GenerateRequest, InfluenceRequest, NextRequest, ScoreRequest
from llrnn.serve.questions import (
    STEP_COST,
    Answer,
    ExplainQuestion,
    GenerateQuestion,
    InfluenceQuestion,
    NextQuestion,
    ScoreQuestion,
    answered,
    listing_cost,
    query_cost,
    score_cost,
    score_pieces,
    step,
)
from llrnn.serve.served import Batcher, Served, model_words


class Engine:
    """Serves models by name; `rows` is the most sequences in one model step, and 1 turns batching off."""

    def __init__(self, served: Sequence[Served], *, rows: int = 64) -> None:
        self._served = {one.name: one for one in served}
        self._batchers = {one.name: Batcher(rows) for one in served}  # who asks one model does not wait for another
        self._models = {"models": [one.described for one in served]}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._served)

    def observe_steps(self, observe: Callable[[int, float], None]) -> None:
        """Call `observe` after every model step with how many rows it had and how many seconds it took."""
        for batcher in self._batchers.values():
            batcher.observe = observe

    async def close(self) -> None:
        """Answers what waits, and ends the threads."""
        await asyncio.gather(*(batcher.close() for batcher in self._batchers.values()))

    async def next(self, request: NextRequest) -> Answer:
        return await self._ask(NextQuestion, request)

    async def explain(self, request: ExplainRequest) -> Answer:
        return await self._ask(ExplainQuestion, request)

    async def influence(self, request: InfluenceRequest) -> Answer:
        return await self._ask(InfluenceQuestion, request)

    async def score(self, request: ScoreRequest) -> Answer:
        served = self.find(request.model)
        cost = score_cost(served, request)
        scored = ScoreQuestion(served, request)
        pieces = list(scored.pieces())
        for piece in pieces:
            await self._batchers[served.name].submit(score_pieces, score_pieces, piece, cost / len(pieces))
        return scored.answer()

    async def generate(self, request: GenerateRequest) -> AsyncIterator[tuple[str, Answer]]:
        """("word", …) for each word as it is chosen, then ("done", …)."""
        text: Any = await self._ask(GenerateQuestion, request)
        batcher = self._batchers[self.find(request.model).name]
        rng = np.random.default_rng(request.seed)  # for the spelling of cells
        words: list[str] = []
        log_prob = 0.0
        while not text.has_ended and len(words) < request.max_words:
            event = text.written(len(words), rng)
            words.append(event["word"])
            log_prob += event["log_p"]
            yield "word", event
            if len(words) < request.max_words:
                text = await batcher.submit(("step", id(text.model)), step, text, STEP_COST)
        log_prob += text.log_p if text.has_ended else 0.0
        found = Generated(text.asked.words, tuple(words), log_prob, text.has_ended)
        said = spoken(text.model, found, text.asked.condition)
        yield "done", {"text": str(said), "words": [*said.words], "log_prob": log_prob, "finished": said.finished}

    def models(self) -> Answer:
        return self._models

    async def features(self, name: str, query: str, limit: int) -> Answer:
        """Features whose names hold a text, whatever its capitals; contextual ones first, for they are few."""
        return await self._list(_features, name, query, limit)

    async def words(self, name: str, query: str, limit: int) -> Answer:
        """Listed words that begin with a text, then those that hold it."""
        return await self._list(_words, name, query, limit)

    async def _list(self, listing: Callable[[LLRNN, str, int], Answer], name: str, query: str, limit: int) -> Answer:
        """In the model's thread: there may be a million names, and the event loop waits for nobody."""
        served = self.find(name)
        cost = listing_cost(len(served.names) if listing is _features else len(served.model.vocabulary))
        wanted = served.model, query.lower(), limit
        batcher = self._batchers[served.name]
        found: Answer = await batcher.submit(listing, lambda all_: [listing(*one) for one in all_], wanted, cost)
        return found

    def find(self, name: str | None) -> Served:
        """A served model; the first one by default."""
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise Refused(404, "unknown_model", f"no model is named {name!r}; there are {', '.join(self.names)}")
        return self._served[name]

    async def _ask(self, kind: type, request: Any) -> Answer:
        served = self.find(request.model)
        cost = query_cost(served, request)
        answer: Answer = await self._batchers[served.name].submit(kind, partial(answered, kind, served), request, cost)
        return answer


def _features(model: LLRNN, small: str, limit: int) -> Answer:
    groups = dict(zip(model.output_features.names, model.output_features.groups, strict=True))
    found = [one for one in (*model.context_names, *groups) if small in one.lower()]
    listed = [{"name": one, "group": groups.get(one, ""), "contextual": one not in groups} for one in found[:limit]]
    return {"features": listed, "matching": len(found)}


def _words(model: LLRNN, small: str, limit: int) -> Answer:
    found = [word for word in model_words(model) if small in word.lower()]
    found.sort(key=lambda word: not word.lower().startswith(small))  # stable: the most frequent stay first
    return {"words": found[:limit], "matching": len(found)}
