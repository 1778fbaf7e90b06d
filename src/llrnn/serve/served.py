"""A model on offer: what it is, which backgrounds it can be asked with, and how it is made ready for a condition.

Everything that a request may name is opened here, before the first request comes: requests hold names, never paths.
Models with another background share the network's weights; nothing but the knowledge is there twice.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from llrnn.ground.arrays import ByteCache
from llrnn.ground.errors import ConfigError, LLRNNError, warn
from llrnn.knowledge.backgrounds import Background, Uniform, Unigram
from llrnn.model.checkpoint import holds_lm, load, open_background
from llrnn.model.decode import check_condition, generate, looks_at_conditions, prepared, read_condition, warnings_of
from llrnn.model.lm import open_lm
from llrnn.model.network import LLRNN
from llrnn.model.steering import FeatureNames, swap, tables_of
from llrnn.model.words import add, read_words
from llrnn.serve.introduction import about, condition_hint, examples, knowing, language, lists, new_word
from llrnn.serve.messages import Refused, most, require_work
from llrnn.text.conditions import Before, values_of
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import EOS

OWN = "own"
_TAKEN = (OWN, "uniform", "unigram")
_EXAMPLE = 3  # words
_READY_BYTES = 256 * 2**20  # of models that are kept ready for a condition
_BYTES_A_CHARACTER, _BYTES_A_WORD = 100, 500
Needs = Literal["none", "optional", "required"]
Given = str | Before | None
Names = frozenset[str]
Forms = tuple[str, ...]
Tell = Callable[[str], None]
ReadyKey = tuple[str, Given, Names, Forms]  # background, condition, other words that may come again, new words
NewWords = frozenset[tuple[str, str]]  # (slot, word) that a model does not list


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """A model ready to be asked with one background (prior) and one condition (input that texts are generated from).

    `model`: an `LLRNN` with that background; the words of the condition were added to its vocabulary. `condition`: as
    parsed, or None; `names`: a `FeatureNames`, finds the model's features by name; `warnings`: a tuple of messages on
    names and values in the condition that the model has not seen in training.
    """

    model: LLRNN
    condition: object
    names: FeatureNames
    warnings: tuple[str, ...] = ()  # what is new to the model in the condition


@dataclass(frozen=True)
class Files:
    """Files beside a model that may change while it is served, and are read again by `Served.reload`.

    `tables`: a mapping from the name of a table that the model looks up to its path; `words`: a sequence of paths of
    lists of words that are added to its vocabulary. Both are empty by default: `Files()`.
    """

    tables: Mapping[str, Path] = field(default_factory=dict)
    words: Sequence[Path] = ()

    def read_for(self, model: LLRNN) -> LLRNN:
        """Return a copy of the model with its tables read from these files, and the listed words added that it lacks.

        The model itself is returned where there is nothing to change; tables that it does not use are ignored. An
        LLRNNError is raised where a file cannot be read.
        """
        own = {name: path for name, path in self.tables.items() if name in tables_of(model)}
        tables = {name: KnowledgeBase.from_file(path, lowercase=model.reads_lowercase) for name, path in own.items()}
        model = swap(model, tables=tables) if tables else model
        small = model.reads_lowercase and model.tokeniser.lower
        entries = [one for path in self.words for one in read_words(path, lowercase=small)]
        listed = {*model.vocabulary.words}
        new = {one.form: one for one in entries if one.form not in listed}.values()
        return add(model, new) if new else model


class Served:
    """A served model: its name, variants of it with other backgrounds (priors), and what is cached for requests.

    `open_served(folder)` makes one; `ready(background, condition)` is the model prepared for a request. `model`: the
    one in use; `backgrounds`: further priors by name, besides "own", "unigram" and, for closed vocabularies, "uniform";
    `variants`: the model by the name of its prior; `files`: tables and lists of words that `reload` reads.
    """

    def __init__(
        self,
        name: str,
        model: LLRNN,
        backgrounds: Mapping[str, Background] | None = None,
        files: Files = Files(),  # noqa: B008 (it is frozen)
    ) -> None:
        self.name, self._told = name, False
        self._given, self._backgrounds, self._files = model.requires_grad_(False).eval(), backgrounds or {}, files
        self.reload()

    def reload(self) -> None:
        """Read the model's tables and lists of words from their files again, and clear what is cached.

        A ConfigError is raised where a file cannot be read; then everything stays as it was.
        """
        try:
            model = self._files.read_for(self._given).requires_grad_(False).eval()
        except LLRNNError as error:
            raise ConfigError(f"model {self.name}: {error}") from None
        others = {**_always_there(model), **self._backgrounds}
        variants = {OWN: model} | {key: _with_background(model, other) for key, other in others.items()}
        names = FeatureNames(model.feature_names)
        ready: ByteCache[ReadyKey, PreparedModel] = ByteCache(_READY_BYTES, self._bytes_of)
        self._listed: ByteCache[tuple[Forms, NewWords], LLRNN] = ByteCache(_READY_BYTES // 4, _bytes_of_words)
        self.model, self.variants, self.names, self._ready = model, variants, names, ready
        self.__dict__.pop("described", None)

    def ready(self, background: str, condition: Given, words: Names = frozenset(), new: Forms = ()) -> PreparedModel:
        """Return the model prepared for this background (name of a prior) and condition (input, as text, or None).

        The condition may also be a `Before`, the words that precede a text, for a model in which they may come again;
        `words` are others that may; `new` ones it is to know too. All these words are in the vocabulary of the result
        only, which is cached by these arguments. A `Refused` is raised for an unknown background (404) or a condition
        that cannot be read (409).
        """
        key = (background, condition, words, new)
        return self._ready.get(key, lambda: self._prepared(*key))

    def _tell_once(self, told: str) -> None:
        """Warn (in the log) about this model at the first call; do nothing at later ones, whatever the message.

        So the log does not grow with requests. `told`: the message.
        """
        if not self._told:
            self._told = True
            warn(f"model {self.name}: {told} (told once, for the first condition that it befell)")

    def _bytes_of(self, key: ReadyKey, ready: PreparedModel) -> int:
        """Return an upper estimate of the bytes of a prepared model, for the cache.

        1,000 + 100 for each character of the condition + 500 for each word of the vocabulary, where that is not shared
        with the model. `key`: (name of the background, a prior; condition, the input of texts, as text or None; other
        words).
        """
        own_words = 0 if ready.model is self.variants[key[0]] else len(ready.model.vocabulary)
        return 1000 + _BYTES_A_CHARACTER * len(str(key[1] or "")) + _BYTES_A_WORD * own_words

    def _prepared(self, background: str, condition: Given, words: Names, new: Forms) -> PreparedModel:
        """Return the model prepared for a background (prior, by name) and a condition (input), without the cache.

        `condition`: as text, or a `Before`, the words that precede a text and may come again, or None; `words`: others
        that may come again. Those that the vocabulary lacks are added to that of the result.
        A `Refused` is raised for an unknown background (404) or a condition that cannot be read (409).
        """
        if background not in self.variants:
            offered = ", ".join(self.variants)
            raise Refused(404, "unknown_background", f"{self.name} has no background {background!r}, only {offered}")
        told = list[str]()
        try:
            model = self._knowing(background, new)
            wanted = read_condition(model, condition) if isinstance(condition, str) else condition
            if isinstance(wanted, Before) and not model.background.text_before:
                needed = "`before` is for a model whose words come again ([background] recent)"
                raise ConfigError(f"{needed}, found one without; leave it out")
            check_condition(model, wanted)
            listed = self._listing(model, (background, *new), wanted, words, told.append)
        except LLRNNError as error:
            raise Refused(409, "condition", str(error)) from None
        for one in told:
            self._tell_once(one)
        names = self.names if listed.feature_names == self.names.names else FeatureNames(listed.feature_names)
        return PreparedModel(listed, wanted, names, (*warnings_of(model, wanted), *told))

    def _knowing(self, background: str, new: tuple[str, ...]) -> LLRNN:
        """Return the model with a background (prior, by name) that knows `new` words too; cached."""
        model = self.variants[background]
        return self._listed.get(((background, *new), frozenset()), lambda: knowing(model, new)) if new else model

    def _listing(self, model: LLRNN, key: Forms, condition: object, words: Names, tell: Tell) -> LLRNN:
        """Return a copy of the model with the words of a parsed condition in its vocabulary.

        A condition is the input of texts; those with the same new words share one cached model, by `key`: its
        background (prior) and the words that it was given. `words`: others to be added, for a model in which words of
        the text may come again. `tell` is called with a message on words that cannot be added.
        The model itself is returned where there is nothing to add.
        """
        found = ((slot, word) for slot, words in values_of(condition) for word in words)
        new = frozenset((slot, word) for slot, word in found if word not in model.vocabulary)
        if not new or model.background.text_before:
            return prepared(model, [condition, Before(sorted(words))] if words else [condition], tell)
        return self._listed.get((key, new), lambda: prepared(model, [condition], tell))

    @property
    def conditions(self) -> Needs:
        """Whether a request must give a condition, the input to generate from: "required", "optional" or "none".

        "none": the model uses no condition, and one that is given is refused.
        """
        if self.model.needs_conditions:
            return "required"
        return "optional" if looks_at_conditions(self.model) else "none"

    @cached_property
    def described(self) -> dict[str, Any]:
        """The description of the model in the answer to `models`: `messages.ServedModel` as a dict for JSON.

        Keys: name, symbols, words, classes, features, groups, contextual, backgrounds, conditions, open_vocabulary,
        lowercase, parameters, controller, example, about, language, new_word, examples, condition, lists.
        """
        model = self.model
        return {
            "name": self.name,
            "symbols": len(model.vocabulary.symbols),
            "words": len(model.vocabulary.words),
            "classes": model.output_features.n_classes,
            "features": len(model.feature_names),
            "groups": dict(Counter(model.output_features.groups)),
            "contextual": list(model.context_names),
            "backgrounds": [{"name": key, "description": repr(one.background)} for key, one in self.variants.items()],
            "conditions": self.conditions,
            "open_vocabulary": model.vocabulary.is_open,
            "lowercase": model.reads_lowercase or (not model.vocabulary.is_open and model.vocabulary.is_lowercase),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "controller": repr(model.controller),
            "example": self.example,
            "about": about(model),
            "language": language(model),
            "new_word": new_word(model),
            "examples": examples(model),
            "condition": condition_hint(model),
            "lists": lists(model),
        }

    @cached_property
    def example(self) -> str:
        """A prefix that the model can read: the first 3 words of the text that it generates greedily.

        "" where it needs a condition (an input to generate from), or cannot generate.
        """
        if self.conditions == "required":
            return ""
        try:
            (text,) = generate(self.model, greedy=True, max_words=_EXAMPLE)
        except LLRNNError:  # nothing is possible without a condition: then there is no example
            return ""
        return self.model.write([word for word in text.words if word != EOS])


def open_served(
    folder: Path,
    *,
    name: str | None = None,
    backgrounds: Mapping[str, Path] | None = None,
    files: Files = Files(),  # noqa: B008 (it is frozen)
    device: str = "cpu",
) -> Served:
    """Open a model folder, or what `open_lm` opens, for serving.

    `name`: what requests call the model, None for the name of the folder; `backgrounds`: paths of n-gram models or
    model folders by name, which requests may choose as prior; `files`: tables and lists of words that may be read anew;
    `device`: cpu or cuda. A ConfigError is raised for a background called own, uniform or unigram, a CheckpointError
    for a damaged folder.

        served = open_served(Path("runs/mine"))
    """
    for key in backgrounds or {}:
        if key in _TAKEN:
            raise ConfigError(f"the background names {', '.join(_TAKEN)} are taken, found {key!r}; choose another")
    others = {key: open_background(path, restrict=True) for key, path in (backgrounds or {}).items()}
    model = (open_lm(folder) if holds_lm(folder) else load(folder, copy=True)).to(torch.device(device))
    return Served(name or folder.resolve().name, model, others, files)


def _bytes_of_words(key: tuple[Forms, NewWords], model: LLRNN) -> int:
    return 1000 + _BYTES_A_WORD * len(model.vocabulary)


def _always_there(model: LLRNN) -> dict[str, Background]:
    """Return the backgrounds (priors) that need no file, by name: "uniform" and "unigram".

    "uniform" is there for closed vocabularies only; "unigram", b(x) ∝ count(x) + 1 by the vocabulary's counts, where it
    has counts.
    """
    vocabulary = model.vocabulary
    found: dict[str, Background] = {} if vocabulary.is_open else {"uniform": Uniform()}
    if any(vocabulary.counts):
        counts = dict(zip(vocabulary.symbols, vocabulary.counts, strict=True))
        found["unigram"] = Unigram({word: counts[word] for word in vocabulary.words}, smoothing=1.0)
    return found


def _with_background(model: LLRNN, background: Background) -> LLRNN:
    """Return a copy of the model with another background (prior); both share the weights of the network."""
    swapped = swap(model, background=background)
    swapped.embedding, swapped.controller, swapped.layer = model.embedding, model.controller, model.layer
    swapped.input_weight = model.input_weight
    swapped.gate_weight, swapped.gate_bias = model.gate_weight, model.gate_bias
    return swapped


Run = Callable[[Sequence[Any]], Sequence[Any]]  # payloads -> results, or an exception in the place of a result
Client = tuple[str, int]  # address and port: turns go round addresses, and then round the connections of one
Result = TypeVar("Result")
TURN = 1000  # work of one turn, in words that are read: about a tenth of a second for models of some thousand classes
_MOST_KNOWN = 10_000  # clients and addresses whose payments are known
THREAD = "llrnn-model"
_PATIENCE = 5.0  # seconds that closing waits for a step that has begun


@dataclass(eq=False)
class RequestScope:
    """One request to the server: its client, its budget, what it has spent so far, and whether it has ended.

    `client`: (address, port); `allowed`, `spent`: costs in units of reading one word. `ended` is set when the request
    ends in whatever way; the thread of a model looks at it between two words, since cancelling a task stops no thread.
    """

    client: Client = ("", 0)
    allowed: float = most("work")
    spent: float = 0.0
    ended: bool = False

    def spend(self, cost: float) -> None:
        """Add `cost`, in units of reading one word, to what the request has spent; called before the work is done.

        A `Refused` is raised beyond the budget (422), or when the request has ended (503), so that its work ends too.
        """
        if self.ended:
            raise Refused(503, "ended", "the request has ended, and its work with it")
        self.spent += cost
        require_work(self.spent, self.allowed)


SCOPE: ContextVar[RequestScope] = ContextVar("SCOPE")  # the guard sets it for every request


def current_scope() -> RequestScope:
    """Return the scope (client, budget, cost) of the request that is being answered; outside a request, a new one."""
    return SCOPE.get(None) or RequestScope()


@contextmanager
def first_error() -> Iterator[None]:
    """Context manager: where the block raises an exception group, raise its first exception instead; yields nothing."""
    try:
        yield
    except BaseExceptionGroup as found:
        raise found.exceptions[0] from None


async def together(jobs: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines concurrently and return their results in order; the first that raises cancels the others.

    Its exception is raised here, not in a group.
    """
    with first_error():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    return [task.result() for task in tasks]


@dataclass(eq=False)
class Job:
    """One piece of work for the thread of a model: a `payload` to compute, and the `future` its result is put into.

    `run`: maps a list of payloads to a list of results, an exception in place of one that failed; jobs with equal `key`
    (hashable) are run in one call, by the `run` of the first. `scope`: the request that it belongs to; `cost`: in units
    of reading one word, 1 by default.
    """

    key: Hashable
    run: Run
    payload: Any
    future: asyncio.Future[Any]
    scope: RequestScope = field(default_factory=RequestScope)
    cost: float = 1.0

    @property
    def client(self) -> Client:
        """Address and port of the client whose request this job belongs to."""
        return self.scope.client

    @property
    def dropped(self) -> bool:
        """Whether nobody waits for this job's result any more: its request has ended, or its future was cancelled."""
        return self.scope.ended or self.future.cancelled()


class FairQueue:
    """A queue of jobs that is fair to clients: the next job is of the client that will have used the least work.

    `FairQueue()` is empty; `add(job)` appends one, `take(rows, work)` removes the next ones. So a client that asks for
    little waits only for what is being computed, whatever others ask. Clients, (address, port), are ranked by address
    first, then by connection. A queue is false where it is empty.
    """

    def __init__(self) -> None:
        self._lanes: dict[Client, deque[Job]] = {}
        self._paid: dict[Hashable, float] = {}  # of addresses, and of clients
        self._level: dict[str, float] = {}  # where newcomers begin: what the last one served had paid

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, job: Job) -> None:
        """Append a job to those that wait of its client.

        A client without waiting jobs is taken to have used at least as much work as the client served last had, so that
        being silent saves nothing up.
        """
        address, lane = job.client[0], self._lanes.get(job.client)
        if lane is None:
            lane = self._lanes[job.client] = deque()
            for who, level in ((address, ""), (job.client, address)):
                self._paid[who] = max(self._paid.get(who, 0.0), self._level.get(level, 0.0))
        lane.append(job)

    def take(self, rows: int, work: float) -> list[Job]:
        """Remove and return the next jobs: at most `rows`, with costs of at most `work` together, but at least one.

        Jobs that nobody waits for any more are removed and not returned; where there are no others, the list is empty.
        """
        taken: list[Job] = []
        cost = 0.0
        while self._lanes and len(taken) < rows:
            client = self._next()
            job = self._lanes[client][0]
            if taken and not job.dropped and cost + job.cost > work:
                break
            if not job.dropped:
                taken.append(job)
                cost += job.cost
                self._pay(client, job.cost)
            self._remove_first(client)
        if not self._lanes:
            self._paid.clear()
            self._level.clear()
        return taken

    def _next(self) -> Client:
        """Return the client, (address, port), whose first job is next; the queue must not be empty.

        First the address is chosen, then one of its connections: each time the one for which the costs of its jobs so
        far and of its next job together are least. Were all connections ranked at once, the cheapest job of an address
        would always come first, and a dear one never.
        """
        first: dict[str, Client] = {}
        for client in sorted(self._lanes, key=lambda one: self._paid[one] + self._lanes[one][0].cost):
            first.setdefault(client[0], client)
        return min(first.values(), key=lambda one: self._paid[one[0]] + self._lanes[one][0].cost)

    def _remove_first(self, client: Client) -> None:
        self._lanes[client].popleft()
        if not self._lanes[client]:
            del self._lanes[client]
        if len(self._paid) > _MOST_KNOWN:  # who opens ever new connections is forgotten, not kept for good
            present = {who for client in self._lanes for who in (client, client[0])}
            self._paid = {who: paid for who, paid in self._paid.items() if who in present}

    def _pay(self, client: Client, cost: float) -> None:
        """Add the cost of a job to what the client, (address, port), and its address have paid.

        What they had paid before this job is noted: a new address, or a new client of this address, begins with that.
        """
        for who, level in ((client[0], ""), (client, client[0])):
            self._level[level] = self._paid[who]
            self._paid[who] += cost


class Batcher:
    """The queue and the thread of one model, which computes requests that wait at the same time in one batch.

        batcher = Batcher(rows=64)                              # starts the thread
        result = await batcher.submit(key, run, payload)        # run([payload, …]) -> a list of results, in the thread
        await batcher.close()

    A job is one submitted payload with its `run`. While the thread computes, jobs gather; then it takes a turn: at most
    `rows` jobs, of a cost of 1,000 words read together, in an order fair to clients. Jobs of a turn with equal `key`
    are one call of `run`. No job waits for others to come. `observe(jobs in the call, seconds)` is called after each.
    """

    def __init__(self, rows: int, observe: Callable[[int, float], None] = lambda rows, seconds: None) -> None:
        self.rows, self.observe = rows, observe
        self._waiting = FairQueue()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()

    async def submit(self, key: Hashable, run: Run, payload: Any, cost: float = 1.0) -> Any:
        """Queue one payload, wait until `run` has computed it in the model's thread, and return its result.

        `key`: payloads with equal keys are given to one call of `run`, which returns a result for each, or an
        exception, which is raised here; `cost`: charged to the current request, in units of reading one word. A
        `Refused` is raised beyond its budget, a RuntimeError after `close`. A job is dropped where its request ends
        first.
        """
        scope = current_scope()
        scope.spend(cost)
        job = Job(key, run, payload, asyncio.get_running_loop().create_future(), scope, cost)
        with self._changed:
            if self._closing:
                raise RuntimeError("the batcher is closed")
            self._waiting.add(job)
            self._changed.notify()
        return await job.future

    async def close(self, patience: float = _PATIENCE) -> None:
        """Run all waiting jobs, then end the thread; a step that takes over `patience` seconds is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, patience)

    def _work(self) -> None:
        while (jobs := self._taken()) is not None:
            groups: dict[Hashable, list[Job]] = {}
            for job in jobs:
                groups.setdefault(job.key, []).append(job)
            for group in groups.values():
                self._answer(group)

    def _taken(self) -> list[Job] | None:
        """Wait until there are jobs, and return those to run next; None when the queue is closed and empty.

        They are at most `rows` jobs, with costs of at most 1,000 together (unit: reading one word), but one at least.
        The list is empty where nobody waits any more for the result of any job of the queue.
        """
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting.take(self.rows, TURN) if self._waiting else None

    def _answer(self, group: Sequence[Job]) -> None:
        """Run jobs with equal keys in one call of `run`, and hand their results to the event loop (`_deliver`).

        Where `run` raises an exception, that is the result of each job. Jobs that nobody waits for are not run.
        """
        wanted = [job for job in group if not job.dropped]
        if not wanted:
            return
        began = time.perf_counter()
        try:
            results = wanted[0].run([job.payload for job in wanted])
        except Exception as error:
            results = [error] * len(wanted)
        seconds, loop = time.perf_counter() - began, wanted[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, wanted, results, seconds)

    def _deliver(self, jobs: Sequence[Job], results: Sequence[Any], seconds: float) -> None:
        """Put each result, or exception, into the future of its job; called in the event loop, so no locks are needed.

        `seconds`: how long the call took, for `observe`.
        """
        self.observe(len(jobs), seconds)
        for job, result in zip(jobs, results, strict=True):
            if job.future.done():  # cancelled
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
