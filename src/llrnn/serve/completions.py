"""`/v1/completions` in the form that clients of OpenAI-like servers send and expect; a token is a word.

    prompt       words before, one text or several            ->  choices[i].text goes on from it, blank included
    max_tokens   16 words by default; temperature 0 is greedy; top_p, n, seed, stop, stream, logprobs as usual
    condition, background, changes                            our own, beside them (`extra_body` of OpenAI's client)

What such a request may ask for and no model of words does (penalties, a suffix, `logit_bias`) is refused, not ignored.
A text ends with the sentence, before a stop word (`stop`), or after `max_tokens` (`length`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from llrnn.serve.messages import CompletionRequest, LogProbs
from llrnn.serve.served import together

Events = AsyncGenerator[tuple[str, dict[str, Any]]]


class _Pieces:
    """The words of one generated text, each held back as long as it may be part of a stop string.

        pieces = _Pieces(prompt, stops); pieces.add(event) for each word; pieces.rest() at the end

    `prompt`: the text before; the first word gets a blank where that does not end with one; `stops`: strings before
    which the text ends. A piece is (offset in the generated text, word with its blank, data of its event); `count`:
    words added.
    """

    def __init__(self, prompt: str, stops: Sequence[str]) -> None:
        self._bare = not prompt or prompt[-1].isspace()  # the first word needs no blank
        self._stops, self._text, self._sent = stops, "", 0
        self._waiting: list[tuple[int, str, dict[str, Any]]] = []  # where it begins, as it is written, the event
        self.count, self.is_stopped = 0, False

    def add(self, event: dict[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
        """Add a generated word and return the pieces that can be sent now: (offset, string, data of the event).

        `event`: the data of a "word" event of `Engine.generate`. Where a stop string is found, `is_stopped` is set, and
        the pieces before it are returned, the last one cut.
        """
        piece = event["piece"].lstrip() if self._bare else event["piece"]
        self._bare, blank = False, " " if piece.startswith(" ") else ""
        top = {one.get("piece", blank + one["word"]): one["log_p"] for one in event["alternatives"]} | {
            piece: event["log_p"]
        }
        self._waiting.append((len(self._text), piece, {**event, "top": top}))
        self._text += piece
        self.count += 1
        found = [place for stop in self._stops if (place := self._text.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            return self._up_to(min(found))
        return self._up_to(len(self._text) - max((len(stop) - 1 for stop in self._stops), default=0), whole=True)

    def rest(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the pieces (offset, string, event) held back, once the text has ended; none after a stop string."""
        return [] if self.is_stopped else self._up_to(len(self._text))

    def _up_to(self, end: int, *, whole: bool = False) -> list[tuple[int, str, dict[str, Any]]]:
        """Remove and return the waiting pieces (offset, string, event) that begin before the offset `end` of the text.

        A piece that goes beyond `end` is cut there; with `whole` it is not returned but goes on waiting.
        """
        ready = list[tuple[int, str, dict[str, Any]]]()
        while self._waiting and self._waiting[0][0] < end:
            begin, piece, event = self._waiting[0]
            if whole and begin + len(piece) > end:
                break
            ready.append((begin, piece[: end - begin], event))
            del self._waiting[0]
        return ready


class CompletionWork:
    """The answer to a request in the form of OpenAI's completions: `await work.whole()`, or streamed, `work.chunks()`.

    Made of the request, the event streams of its texts, the model's name and a function that cuts prompts into words.
    """

    def __init__(
        self, request: CompletionRequest, texts: Sequence[Events], model: str, read: Callable[[str], Sequence[str]]
    ) -> None:
        """Prepare the answer to `request`; nothing is generated yet.

        `texts`: the event stream of each text, n for each prompt, from `Engine.continuations`; `model`: the model's
        name; `read`: its `LLRNN.read`, which cuts prompts into words, to be counted.
        """
        self.request, self._texts, self._words_of = request, texts, read
        head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        self._head: dict[str, Any] = {**head, "model": model}
        self._read = self._written = 0
        self._warnings = dict[str, None]()

    async def whole(self) -> dict[str, Any]:
        """Generate all texts concurrently; return a dict with the fields of `messages.CompletionAnswer`.

        `choices` has a dict for each text, n for each prompt, in order: text, index, logprobs, finish_reason. `usage`
        has the numbers of words. The first error of any text is raised.
        """
        found = await together(self._all_of(index) for index in range(len(self._texts)))
        return {**self._head, "choices": found, "usage": self._usage(), "warnings": [*self._warnings]}

    async def chunks(self) -> Events:
        """Yield ("chunk", data) for each word, one text after the other; data: a `CompletionAnswer` as a dict.

        `choices` of each has one entry, a piece of a text (see `_parts`), and `usage` is None. Where the request asks
        for it (`include_usage`), a last chunk without choices has the numbers of words.
        """
        for index in range(len(self._texts)):
            async with aclosing(self._parts(index)) as parts:
                async for part in parts:
                    yield "chunk", {**self._head, "choices": [part], "usage": None, "warnings": []}
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield "chunk", {**self._head, "choices": [], "usage": self._usage(), "warnings": [*self._warnings]}

    async def _all_of(self, index: int) -> dict[str, Any]:
        parts = [part async for part in self._parts(index)]
        listed = [part["logprobs"] for part in parts if part["logprobs"] is not None]
        joined = {name: [one for part in listed for one in part[name]] for name in LogProbs.model_fields}
        text = "".join(part["text"] for part in parts)
        logprobs = None if self.request.logprobs is None else joined
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": parts[-1]["finish_reason"]}

    async def _parts(self, index: int) -> AsyncGenerator[dict[str, Any]]:
        """Generate one text, and yield an entry of `choices` (`messages.Choice`, as a dict) for each piece of it.

        An entry has text, index, logprobs and finish_reason. The last one, whose text may be "", has a reason: "stop"
        at the end of the sentence or before a stop string, else "length"; it is None in the others.
        `index`: of the text among all that are asked for, n for each prompt.
        """
        prompt = self.request.prompts[index // self.request.n]
        pieces, ended = _Pieces(prompt, self.request.stops), False
        self._read += len(self._words_of(prompt))
        async with aclosing(self._texts[index]) as events:
            async for name, data in events:
                if name == "word":
                    for one in pieces.add(data):
                        yield self._choice(index, [one])
                    if pieces.is_stopped:
                        break
                else:
                    ended = data["finished"]
                    self._warnings |= dict.fromkeys(data["warnings"])
        self._written += pieces.count
        reason = "stop" if ended or pieces.is_stopped else "length"
        yield {**self._choice(index, pieces.rest()), "finish_reason": reason}

    def _choice(self, index: int, pieces: Sequence[tuple[int, str, dict[str, Any]]]) -> dict[str, Any]:
        """Return an entry of `choices` (`messages.Choice`, as a dict) with the joined text of these pieces.

        `index`: of the text; `pieces`: (offset, string, data of its event). `logprobs` is None unless the request asks
        for it; `finish_reason` is None.
        """
        logprobs = None
        if self.request.logprobs is not None:
            logprobs = {
                "tokens": [piece for _, piece, _ in pieces],
                "token_logprobs": [event["log_p"] for *_, event in pieces],
                "top_logprobs": [event["top"] for *_, event in pieces],
                "text_offset": [begin for begin, *_ in pieces],
            }
        text = "".join(piece for _, piece, _ in pieces)
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": None}

    def _usage(self) -> dict[str, int]:
        read, written = self._read, self._written
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
