"""The models behind the API: each request becomes a job, and jobs that wait together become one model step.

    next, explain, influence, score, generate        as `messages` has them; answers are plain data, ready for JSON

The engine knows nothing of HTTP. What cannot be answered is raised as `Refused`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from llrnn.decode import Generated
from llrnn.web import texts
from llrnn.web.batching import Batcher
from llrnn.web.messages import ExplainRequest, GenerateRequest, InfluenceRequest, NextRequest, ScoreRequest
from llrnn.web.questions import Answer, Begin, Moved, NextWords, Scored, Why, answered
from llrnn.web.refusals import Refused
from llrnn.web.served import Served, model_words
from llrnn.writing import spoken


class Engine:
    """Serves models by name; `rows` is the most sequences in one model step, and 1 turns batching off."""

    def __init__(self, served: Sequence[Served], *, rows: int = 64) -> None:
        self._served = {one.name: one for one in served}
        self._batcher = Batcher(rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._served)

    @property
    def batches(self) -> Callable[[int, float], None]:
        """Told after every model step how many rows it had and how many seconds it took."""
        return self._batcher.observe

    @batches.setter
    def batches(self, observe: Callable[[int, float], None]) -> None:
        self._batcher.observe = observe

    async def close(self) -> None:
        """Answers what waits, and ends the thread."""
        await self._batcher.close()

    async def next(self, request: NextRequest) -> Answer:
        answer: Answer = await self._ask(NextWords, request)
        return answer

    async def explain(self, request: ExplainRequest) -> Answer:
        answer: Answer = await self._ask(Why, request)
        return answer

    async def influence(self, request: InfluenceRequest) -> Answer:
        answer: Answer = await self._ask(Moved, request)
        return answer

    async def score(self, request: ScoreRequest) -> Answer:
        answer: Answer = await self._ask(Scored, request)
        return answer

    async def generate(self, request: GenerateRequest) -> AsyncIterator[tuple[str, Answer]]:
        """("word", …) for each word as it is chosen, then ("done", …)."""
        text: texts.Text = await self._ask(Begin, request)
        rng = np.random.default_rng(request.seed)  # for the spelling of cells
        words: list[str] = []
        log_prob = 0.0
        while not text.has_ended and len(words) < request.max_words:
            event = text.written(len(words), rng)
            words.append(event["word"])
            log_prob += event["log_p"]
            yield "word", event
            if len(words) < request.max_words:
                text = await self._batcher.submit(("step", id(text.model)), texts.step, text)
        log_prob += text.log_p if text.has_ended else 0.0
        found = Generated(text.asked.words, tuple(words), log_prob, text.has_ended)
        said = spoken(text.model, found, text.asked.condition)
        yield "done", {"text": str(said), "words": [*said.words], "log_prob": log_prob, "finished": said.finished}

    def models(self) -> Answer:
        return {"models": [one.described() for one in self._served.values()]}

    def features(self, name: str, query: str, limit: int) -> Answer:
        """Features whose names hold a text, whatever its capitals; contextual ones first, for they are few."""
        model = self.find(name).model
        groups = dict(zip(model.output_features.names, model.output_features.groups, strict=True))
        found = [one for one in (*model.context_names, *groups) if query.lower() in one.lower()]
        listed = [{"name": one, "group": groups.get(one, ""), "contextual": one not in groups} for one in found[:limit]]
        return {"features": listed, "matching": len(found)}

    def words(self, name: str, query: str, limit: int) -> Answer:
        """Listed words that begin with a text, then those that hold it."""
        small = query.lower()
        found = [word for word in model_words(self.find(name).model) if small in word.lower()]
        found.sort(key=lambda word: not word.lower().startswith(small))  # stable: the most frequent stay first
        return {"words": found[:limit], "matching": len(found)}

    def find(self, name: str | None) -> Served:
        """A served model; the first one by default."""
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise Refused(404, "unknown_model", f"no model is named {name!r}; there are {', '.join(self.names)}")
        return self._served[name]

    async def _ask(self, kind: type, request: Any) -> Any:
        served = self.find(request.model)
        return await self._batcher.submit((kind, served.name), partial(answered, kind, served), request)
