"""A client of `llrnn serve`: a model in another process, asked in a few lines.

    client = llrnn.Client("http://127.0.0.1:8017")
    client.next("la maison est", top=5)                                      what comes next
    client.explain("la maison est", word="grande", rival="grand")            the library's own Comparison
    for word in client.generate("la maison", seed=1): ...                    as the words come

Explanations are those of the library, so they add up, print and draw as if the model was here. Weights are changed as
on the command line: `changes=["POS:VERB=+0.5"]`. What the server refuses is a `ServerError` with its status and code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter

from llrnn.ground.errors import ConfigError
from llrnn.ground.rendering import Term
from llrnn.inference.explanation import Comparison, Explanation, Influence
from llrnn.model.decode import chosen_strategy
from llrnn.model.steering import Change
from llrnn.serve.messages import (
    CompleteAnswer,
    ConditionTexts,
    Finished,
    Health,
    Next,
    ReadAnswer,
    Score,
    ServedModel,
    WriteAnswer,
    Written,
)

if TYPE_CHECKING:
    from llrnn.serve.transport import Exchange, Json, Read

Prefix = str | Sequence[str]  # words, separated by white space or one by one


# What a server answers, as Python has it: the models of `answers`, and the library's own explanations.

_EXPLANATION, _INFLUENCE = TypeAdapter(Explanation), TypeAdapter(Influence)
_TERMS = TypeAdapter(tuple[Term, ...])


def _explained(found: Json) -> Explanation | Comparison:
    """Return an `Explanation`, or a `Comparison` where there is a rival, from the JSON of an answer to /v1/explain.

    `found`: the JSON object, with the keys prefix, word, rival (null without one) and comparison.
    """
    chosen = _explanation(found["prefix"], found["word"])
    if found["rival"] is None:
        return chosen
    rival = _explanation(found["prefix"], found["rival"])
    return Comparison(chosen, rival, _TERMS.validate_python(found["comparison"]["terms"]))


def _explanation(prefix: Sequence[str], found: Json) -> Explanation:
    """Return an `Explanation` from the JSON of one word in an answer to /v1/explain; null logarithms become −∞.

    `prefix`: the words before; `found`: the JSON object, with the fields of `messages.ExplanationAnswer`.
    """
    factors = [(factor["name"], _log(factor["log_b"])) for factor in found["factors"]]
    parts = [{**part, "log_b": _log(part["log_b"])} for part in found["parts"]]
    logs = {name: _log(found[name]) for name in ("log_p", "log_b")}
    return _EXPLANATION.validate_python({**found, **logs, "prefix": prefix, "factors": factors, "parts": parts})


def _log(value: float | None) -> float:
    return -math.inf if value is None else value


class QueryOptions(TypedDict, total=False):
    """Options that all queries of `Client` take; without them the first model of the server answers, as it was trained.

    `model`: its name; `background`: the name of another prior on offer, such as "unigram"; `condition`: the input that
    the text is generated from, as text; `before`: the text before, whose words may come again in a model of running
    text; `changes`: of the weights of features, as {"POS:VERB": "+0.5"}, ["POS:VERB=+0.5"] or `Change`s, where "+0.5"
    adds, "*0.5" multiplies and "0.5" sets; `new_words`: words that the model is to know too.
    """

    model: str | None
    background: str | None
    condition: str | None
    before: str | None
    changes: Mapping[str, str] | Sequence[str | Change]
    new_words: Sequence[str]


class Client:
    """A client of an llrnn server (`llrnn serve`), with a method for each question that the server answers.

    `address`: URL of the server; `token`: if it needs one; `timeout`: seconds that it may be silent; `retries`: how
    often to wait and ask again when it is busy (429). Every failure of server or network is raised as a `ServerError`.

        Client("http://127.0.0.1:8017").next("la reine est", top=5)
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 30.0, retries: int = 0) -> None:
        from llrnn.serve.transport import Transport  # whose httpx is an extra

        self._transport = Transport(address, token=token, timeout=timeout, retries=retries)

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    def read(self, prefix: Prefix = "", *, words: Sequence[str] = (), **query: Unpack[QueryOptions]) -> ReadAnswer:
        """Return which words of the prefix and of `words` are not in the model's vocabulary, with similar ones.

        `prefix`: a text, or a sequence of words. Unknown words are in `.unknown` of the result, each once, with `.word`
        and `.near`, a tuple of similarly spelled words (filled for the first five only); `.prefix` has the words of the
        prefix as the model reads them. `query`: model, background (prior), condition (input) and changes, see
        `QueryOptions`.
        """
        return self._ask("read", ReadAnswer.model_validate, prefix, query, words=list(words))

    def next(
        self, prefix: Prefix = "", *, top: int = 10, words: Sequence[str] = (), **query: Unpack[QueryOptions]
    ) -> Next:
        """Return the `top` most probable words after the prefix, best first; each has `word`, `p` and `log_p`.

        `prefix`: a text, or a sequence of words. The result is a sequence of these words; its `.words` has the given
        `words` in the same form, in their order. `query`: model, background (prior), condition (input) and changes, see
        `QueryOptions`. A `ServerError` is raised for a word that the model does not know.

        client.next("la reine est", top=5, words=["grande"])
        """
        return self._ask("next", Next.model_validate, prefix, query, top=top, words=list(words))

    def complete(
        self, prefix: Prefix = "", letters: str = "", *, k: int = 3, mass: bool = False, **query: Unpack[QueryOptions]
    ) -> CompleteAnswer:
        """Return the `k` most probable words after the prefix that begin with `letters`, best first, in `.best`.

        `prefix`: a text, or a sequence of words. Each word of `.best`, a tuple, has `word`, `p` and `log_p`. `mass`:
        also compute the log-probability that the next word begins with the letters (`.log_mass` of the result, else
        None), and the `share` of each word in that probability. `query`: model, background (prior), condition (input)
        and changes, see `QueryOptions`.

            client.complete("la reine est", "gr")
        """
        return self._ask("complete", CompleteAnswer.model_validate, prefix, query, letters=letters, k=k, mass=mass)

    @overload
    def explain(self, prefix: Prefix = "", *, word: str, **query: Unpack[QueryOptions]) -> Explanation: ...
    @overload
    def explain(self, prefix: Prefix = "", *, word: str, rival: str, **query: Unpack[QueryOptions]) -> Comparison: ...
    def explain(
        self, prefix: Prefix = "", *, word: str, rival: str | None = None, **query: Unpack[QueryOptions]
    ) -> Explanation | Comparison:
        """Split log p of `word` after the prefix, or its difference from a rival's, by prior and features.

        `prefix`: a text, or a sequence of words. An `Explanation` is returned, with a rival a `Comparison`, as by
        `llrnn.explain`; both print as a table of summands in nats. `query`: model, background (prior), condition
        (input) and changes, see `QueryOptions`. A `ServerError` is raised for an unknown word.

        print(client.explain("la petite", word="maison", rival="maisons"))
        """
        return self._ask("explain", _explained, prefix, query, word=word, rival=rival)

    def influence(self, prefix: Prefix = "", *, feature: str, **query: Unpack[QueryOptions]) -> Influence:
        """Attribute the weight of a feature after the prefix to features of earlier words, as `llrnn.influence` does.

        `prefix`: a text, or a sequence of words. The result has `.weight`, a float, and `.terms`, the contribution of
        each feature of each word. `feature`: its name; a `ServerError` is raised where the model has none of this name.
        `query`: model, background (prior), condition (input) and changes, see `QueryOptions`.

        print(client.influence("les petites", feature="Number:Plur"))
        """
        return self._ask("influence", _INFLUENCE.validate_python, prefix, query, feature=feature)

    def generate(
        self,
        prefix: Prefix = "",
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        greedy: bool = False,
        max_words: int = 60,
        seed: int = 0,
        **query: Unpack[QueryOptions],
    ) -> Writing:
        """Continue the prefix word by word, as `llrnn.generate` does; return an iterator over the words as they come.

        Each is a `Written`, whose `str` is the word. `prefix`: a text, or a sequence of words; `temperature` T: words
        are drawn with probabilities ∝ p^(1/T); `top_k`, `top_p`: draw from the k most probable words, or from the
        fewest with this probability together, None for all; `greedy`: always take the most probable word; `max_words`:
        stop after so many. Equal seed and request give the same text. `query`: model, background (prior), condition
        (input) and changes, see `QueryOptions`.

        for word in client.generate("le chat", temperature=0.7): print(word)
        """
        strategy = chosen_strategy(greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p)
        way = {"greedy": greedy} if greedy else asdict(strategy)  # type: ignore[call-overload]
        asked = _query(query, prefix) | {"seed": seed, "max_words": max_words, **way}
        return Writing(self._transport.exchange("/v1/generate", asked | {"stream": True}))

    def write(
        self,
        conditions: Sequence[str | Mapping[str, Any]],
        *,
        beam: int = 5,
        count: int = 1,
        max_words: int = 60,
        model: str | None = None,
        background: str = "own",
    ) -> tuple[ConditionTexts, ...]:
        """Return the best texts for each condition, the input that a text is generated from, by beam search.

        A condition is text or a mapping. `beam`: hypotheses of the search; `count`: texts for each condition; `model`:
        its name, None for the first; `background`: the name of its prior. The result has an entry for each condition,
        with its texts in `best`, best first. A ConfigError is raised where `conditions` is a single condition and no
        list.

            client.write([{"act": "inform", "slots": {"food": "thai"}}])[0].best[0].text
        """
        if isinstance(conditions, str | Mapping):
            raise ConfigError(f"a list of conditions is required, found one: write [{str(conditions)[:40]}]")
        asked = {"conditions": list(conditions), "beam": beam, "count": count, "max_words": max_words}
        asked |= {"model": model, "background": background}
        return self._transport.ask("/v1/write", lambda found: WriteAnswer.model_validate(found).texts, asked)

    def score(
        self, texts: Sequence[Prefix], *, conditions: Sequence[str | None] | None = None, **query: Unpack[QueryOptions]
    ) -> tuple[Score, ...]:
        """Return a score for each text: log p (nats) of every word, the end of the sentence included, and their sum.

        They are in `.log_p`, a tuple of floats as long as `.words`, and in `.log_prob`. A text is a string, or a
        sequence of words; `conditions`: the input that each is generated from, None for none. A ConfigError
        is raised where `texts` is one string, or `query` has a condition. `query`: model, background (prior) and
        changes, see `QueryOptions`.

            client.score(["elle dort ."])[0].log_p
        """
        if isinstance(texts, str):
            raise ConfigError(f"a list of texts is required, found one string: write [{texts[:40]!r}]")
        if query.pop("condition", None) is not None:
            raise ConfigError("texts have conditions of their own: give one for each text, conditions=[...]")
        written = [text if isinstance(text, str) else list(text) for text in texts]
        asked = _query(query) | {"texts": written, "conditions": None if conditions is None else list(conditions)}
        return self._transport.ask("/v1/score", lambda found: tuple(map(Score.model_validate, found["scores"])), asked)

    def models(self) -> tuple[ServedModel, ...]:
        """Return descriptions of all models of the server in its order; the first one answers requests that name none.

        A `ServedModel` has `name`, `words` (their number), `features`, `backgrounds` and more.
        """
        return self._transport.ask("/v1/models", lambda found: tuple(map(ServedModel.model_validate, found["models"])))

    def features(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Return at most `limit` names of features that contain `query` in any case, for `changes` or `influence`.

        Contextual features, whose values depend on the words before, come first; the others follow in the model's
        order. `model`: its name, None for the first model of the server.
        """
        return self._listed("features", lambda one: str(one["name"]), model, query=query, limit=limit)

    def words(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Return at most `limit` words of a model's vocabulary that contain `query` in any case.

        Those that begin with it come first. `model`: its name, None for the first model of the server.
        """
        return self._listed("words", str, model, query=query, limit=limit)

    def strings(self, cell: str, *, model: str | None = None, limit: int = 8, seed: int = 0) -> tuple[str, ...]:
        """Draw strings from a cell, a symbol of a model that stands for many strings outside its vocabulary.

        `cell`: its name, as in answers of `next`; `limit`: how many are drawn, of which equal ones are returned once;
        `model`: its name, None for the first model of the server. Equal seeds give equal strings.
        """
        return self._listed("strings", lambda one: str(one["word"]), model, cell=cell, limit=limit, seed=seed)

    def health(self) -> Health:
        """Return the state of the server: `.status` ("ok" or "stopping"), `.version`, `.models` and `.uptime_seconds`.

        `.models` is a tuple of their names.
        """
        return self._transport.ask("/v1/health", Health.model_validate, also=503)

    def _ask(self, what: str, read: Callable[[Json], Read], prefix: Prefix, query: QueryOptions, **own: Any) -> Read:
        return self._transport.ask(f"/v1/{what}", read, _query(query, prefix) | own)

    def _listed(self, what: str, read: Callable[[Any], str], model: str | None, **asked: str | int) -> tuple[str, ...]:
        name = self.models()[0].name if model is None else model
        path = f"/v1/models/{quote(name, safe='')}/{what}?{urlencode(asked)}"
        return self._transport.ask(path, lambda found: tuple(map(read, found[what])))


class Writing(Iterator[Written]):
    """A text that the server is generating: an iterator over its words (`Written`) as they come.

    `finish()` waits for the whole text, which is also in `result` at the end (None before); `close()`, or leaving a
    `with` block, makes the server stop generating. A `ServerError` is raised where the stream breaks off.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._events = exchange, exchange.events()
        self.result: Finished | None = None  # once the text has ended
        found = exchange.content_type
        if found != "text/event-stream":
            self.close()
            raise exchange.unreadable("a stream of events", found)

    def __next__(self) -> Written:
        if self.result is not None:
            raise StopIteration
        for name, data in self._events:
            match name:
                case "word":
                    return self._exchange.parsed(data, Written.model_validate)
                case "done":
                    self.result = self._exchange.parsed(data, Finished.model_validate)
                    self.close()
                    raise StopIteration
                case "error":
                    self.close()
                    raise self._exchange.error(data)
                case _:
                    self._exchange.parsed(data, dict)  # of a later version, and JSON all the same
        raise self._exchange.transport.cut_off("the stream ended before the text did")

    def finish(self) -> Finished:
        """Wait for the end of the text, and return it: `.text`, `.words` (prefix included), `.log_prob`, `.finished`.

        `.log_prob`: of the generated words, in nats; `.finished`: the model ended the sentence, and was not cut off.
        A `ServerError` is raised where the server refuses or the stream breaks off.
        """
        for _ in self:
            pass
        assert self.result is not None  # or __next__ would have raised
        return self.result

    def close(self) -> None:
        """Close the connection, so that the server stops generating; calling it again does nothing."""
        self._events.close()
        self._exchange.close()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _query(query: QueryOptions, prefix: Prefix | None = None) -> dict[str, Any]:
    """Return the JSON fields that queries share, as a dict: model, background, condition, before, changes and prefix.

    The background is a prior by name, the condition the input of a text, `before` the text before it. Options that were
    not given or are None are not in the dict, nor is `prefix` where that is None; `changes` is a list of dicts
    {"feature", "scale", "offset"}, maybe empty.
    """
    said: dict[str, Any] = {name: value for name, value in query.items() if name != "changes" and value is not None}
    if prefix is not None:
        said["prefix"] = prefix if isinstance(prefix, str) else list(prefix)
    return said | {"changes": [asdict(change) for change in _changes(query.get("changes", ()))]}


def _changes(given: Mapping[str, str] | Sequence[str | Change]) -> list[Change]:
    """Return changes of weights as a list of `Change`, from {name: "+0.5"} or a list of "name=+0.5" or `Change`.

    "+0.5" and "-0.5" add, "*0.5" multiplies, "0.5" sets the weight. A ConfigError is raised for a single string, or for
    a number instead of a string, which would not say whether it is added or set.
    """
    if isinstance(given, str):
        raise ConfigError(f"a list of changes is required, found one string: write [{given!r}]")
    if not isinstance(given, Mapping):
        return [one if isinstance(one, Change) else Change.parse(one) for one in given]
    for value in given.values():
        if not isinstance(value, str):  # a number would not say whether it is added or set
            raise ConfigError(
                f"a change is written as '+0.5', '-0.5', '*0.5' or '0.5', with its quotes; found {value!r}"
            )
    return [Change.parse(f"{name}={value}") for name, value in given.items()]
