"""A client of `llrnn serve`: a model in another process, asked in a few lines.

    client = llrnn.Client("http://127.0.0.1:8017")
    client.next("la maison est", top=5)                                      what comes next
    client.explain("la maison est", word="grande", rival="grand")            the library's own Comparison
    for word in client.generate("la maison", seed=1): ...                    as the words come

Explanations are those of the library, so they add up, print and draw as if the model was here. Weights are changed as
on the command line: `changes=["POS:VERB=+0.5"]`. What the server refuses is a `ServerError` with its status and code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote, urlencode

from llrnn.ground.errors import ConfigError, ServerError
from llrnn.inference.explanation import Comparison, Explanation
from llrnn.inference.saliency import Influence
from llrnn.model.decode import Greedy, Sampling, Strategy
from llrnn.model.steering import Change
from llrnn.serve.replies import (
    Finished,
    Health,
    Json,
    Next,
    Score,
    ServedModel,
    Written,
    read_explained,
    read_influence,
)
from llrnn.serve.transport import Events, Transport

Read = TypeVar("Read")


class Query(TypedDict, total=False):
    """What may be said with every question; without it the server's first model answers, as it was trained."""

    model: str | None
    background: str | None
    condition: str | None
    changes: Mapping[str, str] | Sequence[str | Change]


class Client:
    """Asks one server. `timeout` is how many seconds it may be silent; `retries` how often a 429 is waited for."""

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 30.0, retries: int = 0) -> None:
        self._transport = Transport(address, token=token, timeout=timeout, retries=retries)

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    def next(
        self, prefix: str | Sequence[str] = "", *, top: int = 10, words: Sequence[str] = (), **query: Unpack[Query]
    ) -> Next:
        """The `top` most probable words after the prefix, and the probabilities of `words`."""
        return self._ask("next", Next.read, prefix, query, top=top, words=list(words))

    @overload
    def explain(self, prefix: str | Sequence[str] = "", *, word: str, **query: Unpack[Query]) -> Explanation: ...
    @overload
    def explain(
        self, prefix: str | Sequence[str] = "", *, word: str, rival: str, **query: Unpack[Query]
    ) -> Comparison: ...
    def explain(
        self, prefix: str | Sequence[str] = "", *, word: str, rival: str | None = None, **query: Unpack[Query]
    ) -> Explanation | Comparison:
        """Why this word, or why rather than a rival; as `llrnn.explain`."""
        return self._ask("explain", read_explained, prefix, query, word=word, rival=rival)

    def influence(self, prefix: str | Sequence[str] = "", *, feature: str, **query: Unpack[Query]) -> Influence:
        """Which features of which earlier words moved the weight of this one; as `llrnn.influence.influence`."""
        return self._ask("influence", read_influence, prefix, query, feature=feature)

    def generate(
        self,
        prefix: str | Sequence[str] = "",
        *,
        seed: int = 0,
        max_words: int = 40,
        strategy: Strategy | None = None,
        **query: Unpack[Query],
    ) -> Writing:
        """Words as the model writes them; the same seed and question write the same text."""
        asked = _query(query, prefix) | {"seed": seed, "max_words": max_words, "strategy": _strategy(strategy)}
        return Writing(self._transport.events("/v1/generate", asked | {"stream": True}))

    def score(
        self,
        texts: Sequence[str | Sequence[str]],
        *,
        conditions: Sequence[str | None] | None = None,
        **query: Unpack[Query],
    ) -> tuple[Score, ...]:
        """log p of every word of each text, the end of the sentence included."""
        if isinstance(texts, str):
            raise ConfigError(f"a list of texts is required, found one string: write [{texts[:40]!r}]")
        if query.pop("condition", None) is not None:
            raise ConfigError("texts have conditions of their own: give one for each text, conditions=[...]")
        written = [text if isinstance(text, str) else list(text) for text in texts]
        asked = _query(query) | {"texts": written, "conditions": None if conditions is None else list(conditions)}
        found = self._transport.ask("POST", "/v1/score", asked)
        return self._read(lambda answer: tuple(map(Score.read, answer["scores"])), found)

    def models(self) -> tuple[ServedModel, ...]:
        """The served models; the first one answers where none is named."""
        found = self._transport.ask("GET", "/v1/models")
        return self._read(lambda answer: tuple(map(ServedModel.read, answer["models"])), found)

    def features(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Names of features that hold the query, to change their weights or to ask what moved them."""
        return self._listed("features", lambda one: str(one["name"]), query, model, limit)

    def words(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Words of a model that hold the query, those that begin with it first."""
        return self._listed("words", str, query, model, limit)

    def health(self) -> Health:
        """Whether the server is there; one that is stopping says so, and is no error."""
        found = self._transport.ask("GET", "/v1/health", also=503)
        return self._read(Health.read, found)

    def _ask(
        self, what: str, read: Callable[[Json], Read], prefix: str | Sequence[str], query: Query, **own: Any
    ) -> Read:
        found = self._transport.ask("POST", f"/v1/{what}", _query(query, prefix) | own)
        return self._read(read, found)

    def _listed(
        self, what: str, read: Callable[[Any], str], query: str, model: str | None, limit: int
    ) -> tuple[str, ...]:
        name = self.models()[0].name if model is None else model
        asked = urlencode({"query": query, "limit": limit})
        found = self._transport.ask("GET", f"/v1/models/{quote(name, safe='')}/{what}?{asked}")
        return self._read(lambda answer: tuple(map(read, answer[what])), found)

    def _read(self, read: Callable[[Json], Read], found: Json) -> Read:
        return _understood(read, found, self._transport.address)


class Writing(Iterator[Written]):
    """A text while it is written: iterate over its words, or `finish()` it; dropped early, the server stops writing."""

    def __init__(self, events: Events) -> None:
        self._events, self._coming = events, iter(events)
        self.result: Finished | None = None  # once the text has ended

    def __next__(self) -> Written:
        if self.result is not None:
            raise StopIteration
        for name, found in self._coming:
            match name:
                case "word":
                    return _understood(Written.read, found, self._events.address)
                case "done":
                    self.result = _understood(Finished.read, found, self._events.address)
                    self.close()
                    raise StopIteration
                case "error":
                    self.close()
                    raise ServerError(str(found.get("message")), code=str(found.get("code")))
        raise self._events.cut_off()

    def finish(self) -> Finished:
        """The whole text, when it has ended."""
        for _ in self:
            pass
        assert self.result is not None  # or __next__ would have raised
        return self.result

    def close(self) -> None:
        self._events.close()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _understood(read: Callable[[Json], Read], found: Json, address: str) -> Read:
    """An answer that is not what the API promises comes from another server, or another version of ours."""
    try:
        return read(found)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ServerError(
            f"{address}: an answer of `llrnn serve` is required, found another ({type(error).__name__}: {error}); "
            "check the address, and that server and client are of one version",
            code="unreadable",
            status=200,
        ) from None


def _query(query: Query, prefix: str | Sequence[str] | None = None) -> dict[str, Any]:
    """The fields that all questions have; what was not said is left to the server."""
    said: dict[str, Any] = {name: value for name, value in query.items() if name != "changes" and value is not None}
    if prefix is not None:
        said["prefix"] = prefix if isinstance(prefix, str) else list(prefix)
    return said | {"changes": [asdict(change) for change in _changes(query.get("changes", ()))]}


def _changes(given: Mapping[str, str] | Sequence[str | Change]) -> list[Change]:
    if isinstance(given, str):
        raise ConfigError(f"a list of changes is required, found one string: write [{given!r}]")
    if isinstance(given, Mapping):
        return [Change.parse(f"{name}={_text(value)}") for name, value in given.items()]
    return [one if isinstance(one, Change) else Change.parse(one) for one in given]


def _text(value: object) -> str:
    """A number would not say whether it is added or set."""
    if isinstance(value, str):
        return value
    raise ConfigError(f"a change is written as '+0.5', '-0.5', '*0.5' or '0.5', with its quotes; found {value!r}")


def _strategy(strategy: Strategy | None) -> dict[str, Any]:
    match strategy:
        case None:
            return {"kind": "sampling"}
        case Greedy():
            return {"kind": "greedy"}
        case Sampling():
            return {"kind": "sampling", **asdict(strategy)}
    raise ConfigError(f"a server samples or takes the best word: Sampling or Greedy is required, found {strategy!r}")
