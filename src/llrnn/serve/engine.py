"""The models behind the API: each request becomes a job, and jobs that wait together become one model step.

    next, complete, explain, influence, score, generate     as `messages` has them; answers are plain data, for JSON

The engine knows nothing of HTTP. What cannot be answered is raised as `Refused`. What is answered one by one is a
function of (served, request); of what is answered together, each kind of question is a class:

    kind(served, request)          looks everything up; what is not there is refused, and only this request is
    question.batch_key             questions of one model for which this is equal can be answered together
    kind.answer(questions)         an answer for each: plain data for JSON, or an exception in its place

All of this runs in the model's thread (`served.Batcher`).
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from llrnn.ground.errors import ConfigError, LLRNNError, UnknownWordError, ZeroMassError
from llrnn.ground.rendering import Term
from llrnn.inference.explanation import Explanation, MixturePart, explain_next, influence
from llrnn.inference.piece_words import PieceWords, contract_of_words
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.weights import WeightChange
from llrnn.model.completion import Completions, NextUnits, NextWords, split_letters
from llrnn.model.decode import (
    AT_ONCE,
    Dictated,
    Generated,
    Search,
    Strategy,
    advance_searches,
    begin_searches,
    chosen_strategy,
)
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.model.steering import Change, FeatureNames, scale_and_offset
from llrnn.serve import costs, messages
from llrnn.serve.introduction import alike, telling
from llrnn.serve.messages import Query, Refused
from llrnn.serve.served import Batcher, PreparedModel, RequestScope, Served, current_scope, together
from llrnn.text.conditions import Before
from llrnn.text.contract import Contract
from llrnn.text.corpus import Corpus
from llrnn.text.tokenisers import TokenPieces
from llrnn.text.vocabulary import EOS, Vocabulary

Answer = dict[str, Any]
Continued = messages.GenerateRequest | messages.CompletionRequest
R = TypeVar("R", bound=Query)
Steering = tuple[Tensor, Tensor] | None  # scale and offset of all weights; None leaves them as they are
_LOOKED_AT = 50  # of the most probable words, for one worth explaining
_ROUND = 8  # lengths are padded to multiples: the recurrent networks of oneDNN prepare code for every shape


_OTHERWISE = "write it otherwise or leave it out: /v1/read names words of the model that are written nearly so"


def settled(work: Callable[..., Any], *given: Any) -> Any:
    """Call `work(*given)` and return its result; where it raises an exception, return that instead of raising it.

    Errors of the library become a `Refused`, an error with an HTTP status: 400 for an unknown word, 409 for any other
    LLRNNError. Other exceptions, defects of the server, are returned as they are.
    """
    try:
        return work(*given)
    except UnknownWordError as error:
        return Refused(400, "unknown_word", str(error.advising(_OTHERWISE)))
    except LLRNNError as error:
        return error if isinstance(error, Refused) else Refused(409, "impossible", str(error))
    except Exception as error:  # our own defect
        return error


# --- many questions to one model, answered by one pass through the network -------------------------------------------
#
# Weights that are set by hand differ from row to row: `layer.WeightChange` changes a on its way, row by row. What comes
# after the network is asked for one row alone (`Distribution.row`) where rows want different things of it.


@dataclass(frozen=True, eq=False)
class EncodedPrefix:
    """A prefix or text as a model reads it: its words, their symbol ids, the parsed condition, and changes of weights.

    `words`: tuple of strings; `ids`: tuple of ints, one for each word, or several where words are spelled as units
    (subwords), without an end of sentence; `condition`: the parsed input that the text is generated from, or None;
    `steering`: (scale, offset) of the weights a of all features, tensors (features,), for a → scale · a + offset, or
    None for no change.
    """

    words: tuple[str, ...]
    ids: tuple[int, ...]
    condition: object
    steering: Steering


def encode(ready: PreparedModel, text: str | Sequence[str], steering: Steering, place: str) -> EncodedPrefix:
    """Return one prefix or text as the model reads it, an `EncodedPrefix`: words, symbol ids, condition, steering.

    `words` and `ids` are tuples of strings and ints, without an end of sentence; the last two are those given. `ready`:
    the model with its condition (the input that the text is generated from); `text`: is cut by the model's tokeniser
    where it is one string; `steering`: (scale, offset), two tensors (features,) by which weights are multiplied and
    then increased, or None; `place`: the field of the request, named in the UnknownWordError that is raised for a word
    which the model cannot read.
    """
    written = ready.model.read(text)
    ids = ready.model.vocabulary.symbols_of(written, place=place)
    return EncodedPrefix(written, tuple(ids), ready.condition, steering)


def prepared_for(
    served: Served, request: messages.ModelQuery, condition: str | None, texts: Iterable[str | Sequence[str]]
) -> PreparedModel:
    """Return the model prepared for a condition (the input to generate from), or for the text before a request.

    `condition`: as text, None for none; the text before is `request.before`, None for none. With a text before, its
    words and those of `texts` (the request's texts, strings or lists of words) that the vocabulary lacks are added to
    the vocabulary of the result. A `Refused` (409) is raised where there are both.
    """
    model = served.model
    if request.before is None:
        return served.ready(request.background, condition, new=request.new_words)
    if condition is not None:
        raise Refused(409, "condition", "a text has a condition or text before it, found both; leave one of them out")
    words = {word for text in texts for word in model.read(text) if word not in model.vocabulary}
    before = Before([word for line in request.before.splitlines() for word in model.read(line)])
    return served.ready(request.background, before, frozenset(words), request.new_words)


def steering(ready: PreparedModel, changes: Sequence[messages.ChangeMessage]) -> Steering:
    """Return changes of weights as (scale, offset), each of shape (features,): the weights a become scale · a + offset.

    Changes of one feature are applied one after the other, in their order. None where there are no changes. A `Refused`
    (404) is raised for a feature that the model does not have.
    """
    if not changes:
        return None
    wanted = [Change(one.feature, one.scale, one.offset) for one in changes]
    try:
        return scale_and_offset(ready.model, wanted, ready.names)
    except ConfigError as error:
        raise Refused(404, "unknown_feature", str(error)) from None


def changes(rows: Sequence[Steering]) -> WeightChange | None:
    """Stack the changes of weights of all rows (sequences) of a batch into one `WeightChange`, (rows, features).

    Its `scale` and `offset` have the row's, or 1 and 0. `rows`: (scale, offset), each (features,), or None for no
    change. None is returned where no row has one; where all rows share one object, the result has a single row, which
    stands for all.
    """
    if all(row is None for row in rows):
        return None
    if all(row is rows[0] for row in rows):  # as the texts of one request: one row stands for all
        rows = rows[:1]
    like = next(row for row in rows if row is not None)[0]
    plain = torch.ones_like(like), torch.zeros_like(like)
    scale, offset = zip(*(row or plain for row in rows), strict=True)
    return WeightChange(torch.stack(scale), torch.stack(offset))


def read(model: LLRNN, rows: Sequence[EncodedPrefix], multiple: int = 1) -> tuple[Distribution, ModelState]:
    """Read prefixes as one batch; return the next-word distributions, a row for each, and the model state after them.

    Shorter prefixes are padded, and the length of the batch is rounded up to a multiple of `multiple`: the state is
    valid only where nothing was padded, the distribution always.
    """
    longest = 1 + max(len(row.ids) for row in rows)
    batch = _padded(model, rows, -(-longest // multiple) * multiple)
    last = torch.zeros_like(batch.mask)
    last[torch.arange(len(rows)), torch.tensor([len(row.ids) for row in rows])] = True
    return model.scan(replace(batch, mask=last).to(model.device), change=changes([row.steering for row in rows]))


def _padded(model: LLRNN, rows: Sequence[EncodedPrefix], length: int) -> Batch:
    """Return the texts as a batch of symbol ids (rows, `length`): an end of sentence, the text, then ends as padding.

    Targets equal the inputs and the mask is all true; the caller replaces them.
    """
    eos = model.vocabulary.eos
    inputs = torch.tensor([[eos, *row.ids, *[eos] * (length - 1 - len(row.ids))] for row in rows])
    return Batch(inputs, inputs, torch.ones_like(inputs, dtype=torch.bool), [row.condition for row in rows])


def require_finite(p: Distribution) -> Distribution:
    """Return `p`, a next-word distribution of one row, unchanged; refuse the request where no word can follow.

    A `Refused` (409) is raised where the normaliser is not finite: the prior is 0 for all words, or weights overflow.
    """
    log_z = float(p.log_z[0])
    if math.isfinite(log_z):
        return p
    why = "the background gives no word any mass there" if log_z == -math.inf else "the changed weights overflow"
    raise Refused(409, "impossible", f"nothing can follow this prefix: {why}; change the prefix or the weights")


def best_words(model: LLRNN, p: Distribution, tops: Sequence[int]) -> list[dict[str, Any]]:
    """Return for each row of `p` a dict with top, telling, total, log_z and entropy, for the answer to `next`.

    `p`: next-word distributions; `tops`: how many of the most probable words each row wants. `top`: these, best first,
    as dicts of `word()`, without impossible ones; `telling`: the string of the one most worth explaining, None where
    there is none; `total`: the sum of p over all symbols; `log_z`: log of the normaliser; `entropy`: in nats.
    """
    most = min(len(model.vocabulary), max(1, *tops))
    log_p, symbols = (part.tolist() for part in p.top(most))
    sums = (part.tolist() for part in (p.class_probabilities().sum(-1), p.log_z, p.entropy()))
    found = []
    for top, log, ids, total, log_z, entropy in zip(tops, log_p, symbols, *sums, strict=True):
        best = [word(model, one, log_one) for one, log_one in zip(ids[:top], log[:top], strict=True)]
        possible = [one for one in best if one["log_p"] is not None]
        chosen = telling(model, ids[: min(len(possible), _LOOKED_AT)])
        told = None if chosen is None else model.vocabulary.symbol(chosen)
        found.append({"top": possible, "telling": told, "total": total, "log_z": log_z, "entropy": entropy})
    return found


def word(model: LLRNN, symbol: int, log_p: float, spelled: str | None = None) -> dict[str, Any]:
    """Return a symbol and its log-probability as data for JSON: {"word", "log_p" (None for −∞), "p", "cell"}.

    `symbol`: its id. `cell` is true where it stands for a set of strings outside the vocabulary; `spelled`: the string
    of that set that is meant, None for the name of the symbol.
    """
    vocabulary = model.vocabulary
    written = vocabulary.symbols[symbol] if spelled is None else spelled
    is_cell = symbol >= len(vocabulary.words)
    return {"word": written, "log_p": finite(log_p), "p": math.exp(log_p), "cell": is_cell}


def score(model: LLRNN, texts: Sequence[EncodedPrefix]) -> list[dict[str, Any]]:
    """Return for each text a dict with words, log_p, log_prob and perplexity, from one pass through the network.

    `words` and `log_p` (nats, one for each word) include the end of the sentence, but under a model of pieces, whose
    words are those of `inference.piece_words`; `log_prob` is the sum; `perplexity` is exp(−log_prob / number of words
    and end). None stands for an infinity.
    """
    lengths = [1 + len(text.ids) for text in texts]
    batch = _padded(model, texts, max(lengths))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    targets = torch.cat([batch.inputs[:, 1:], torch.full((len(texts), 1), model.vocabulary.eos)], 1)
    placed = replace(batch, targets=targets, mask=mask).to(model.device)
    change = changes([text.steering for text, length in zip(texts, lengths, strict=True) for _ in range(length)])
    distribution, _ = model.scan(placed, change=change)
    if (pieces := PieceWords.of(model)) is not None:
        rows = pieces.scored(distribution, placed)
        return [_summed([one.word for one in row], torch.tensor([one.log_p for one in row]).double()) for row in rows]
    log_p = distribution.log_prob(placed.picked(placed.targets)).double().cpu()
    return [_scored(model, text, row) for text, row in zip(texts, torch.split(log_p, lengths), strict=True)]


def _scored(model: LLRNN, text: EncodedPrefix, log_p: Tensor) -> dict[str, Any]:
    return _summed([*text.words, EOS], _of_words(model.vocabulary, text.words, log_p))


def _summed(words: Sequence[str], log_p: Tensor) -> dict[str, Any]:
    total = float(log_p.sum())
    return {
        "words": words,
        "log_p": [finite(one) for one in log_p.tolist()],
        "log_prob": finite(total),
        "perplexity": finite(math.exp(nats) if (nats := -total / max(len(log_p), 1)) < 700 else math.inf),
    }


def _of_words(vocabulary: Vocabulary, words: Sequence[str], log_p: Tensor) -> Tensor:
    """Return log p of each word and of the end of the text, (words + 1,), from log p of the predicted symbols.

    `log_p`: (symbols + 1,). Where words are spelled as several units (subwords), those of a word are summed; for a
    string outside the vocabulary, its log-probability within its cell (the set of strings that share its symbol) is
    added.
    """
    units = vocabulary.units
    if units is not None:
        sizes = [*(len(units.of(word)) for word in words), 1]
        left = torch.tensor([*(units.log_inside(word) for word in words), 0.0])
        return torch.stack([part.sum() for part in torch.split(log_p, sizes)]) + left.to(log_p)
    if not vocabulary.is_open or not words:
        return log_p
    return torch.cat([log_p[:-1] + torch.from_numpy(vocabulary.locate(words)[1]), log_p[-1:]])


def finite(number: float) -> float | None:
    """Return the number, or None where it is infinite or NaN, which JSON does not have."""
    return number if math.isfinite(number) else None


@dataclass(frozen=True, eq=False)
class Text:
    """A text that is being generated: the model state, and the symbol that was chosen last, with its log-probability.

    `model`: its `LLRNN`; `asked`: its prefix (`EncodedPrefix`); `strategy`: how symbols are chosen; `state`: after all
    symbols but the last, one row; `symbol`: an id, −1 before the first, `log_p`: its, in nats; `alternatives`: how many
    of the most probable words are wanted beside each, and `likely`: these, for the last word. `generator` is its own
    random generator, so that a seed gives the same words whatever else is in the batch.
    """

    model: LLRNN
    asked: EncodedPrefix
    strategy: Strategy
    generator: torch.Generator
    state: ModelState
    symbol: int = -1
    log_p: float = 0.0
    alternatives: int = 0  # that are wanted beside each word
    likely: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the symbol that was chosen last is the end of the sentence."""
        return self.symbol == self.model.vocabulary.eos

    def written(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return the word chosen last as the data of a "word" event: `messages.Written` as a dict, without `piece`.

        Keys: index, word, log_p, p, features (names of those that are not 0), cell (a name, or None), alternatives.
        `index`: of the word among the generated ones. Where a cell was chosen, a symbol for many strings outside the
        vocabulary, one of them is drawn by `rng`.
        """
        vocabulary, symbol = self.model.vocabulary, self.symbol
        is_cell = symbol >= len(vocabulary.words)
        word = vocabulary.spelled(symbol, rng) if is_cell else vocabulary.words[symbol]
        log_p = self.log_p + (vocabulary.log_inside(word) if is_cell else 0.0)
        likely, features = list(self.likely), self.model.output_features.named(symbol)
        found = {"index": index, "word": word, "log_p": log_p, "p": math.exp(log_p), "features": features}
        return {**found, "cell": vocabulary.symbols[symbol] if is_cell else None, "alternatives": likely}


def chosen(texts: Sequence[Text], p: Distribution, state: ModelState) -> list[Any]:
    """Choose the next symbol of every text by its strategy; return copies of the texts with symbol, log p and state.

    A text that cannot go on has an exception in its place. `p` and `state`: the distribution of the next word, and the
    model state, with a row for each text.
    """
    drawn = [settled(_draw, text, p, n) for n, text in enumerate(texts)]
    symbols = torch.tensor([0 if isinstance(one, Exception) else one for one in drawn], device=p.h.device)
    log_p = p.log_prob(symbols).tolist()
    return [
        one
        if isinstance(one, Exception)
        else replace(text, state=state.select([n]), symbol=one, log_p=log_p[n], likely=_likely(text, p, n))
        for n, (text, one) in enumerate(zip(texts, drawn, strict=True))
    ]


def _likely(text: Text, p: Distribution, n: int) -> tuple[dict[str, Any], ...]:
    """Return the most probable words by row n of `p`, `text.alternatives` of them, as dicts of `word()`; () for 0."""
    if not text.alternatives:
        return ()
    log_p, symbols = (part[0].tolist() for part in p.row(n).top(min(text.alternatives, len(text.model.vocabulary))))
    found = (word(text.model, one, log) for one, log in zip(symbols, log_p, strict=True) if math.isfinite(log))
    if text.model.tokeniser.has_blanks:
        return tuple({**one, "piece": text.model.piece(("", one["word"]))} for one in found)
    return tuple(found)


def _draw(text: Text, p: Distribution, n: int) -> int:
    """Return the id of the symbol that `text.strategy` chooses from row n of `p`, by the text's random generator.

    A ZeroMassError is raised where no symbol has any probability.
    """
    alone = p.row(n)
    alone.scores, alone.log_total = p.scores[n : n + 1], p.log_total[n : n + 1]
    (symbol,) = text.strategy.choose(alone.require_mass(), text.generator)
    return symbol


@torch.no_grad()
def step(texts: Sequence[Text]) -> list[Any]:
    """Run one step of the network for all texts, which are of one model, and choose the next word of each.

    A `Text` is a sequence that a request has begun, with the model's state and its settings; the word is drawn, or the
    likeliest, as these say. Returned are new texts, one word longer, in order; the given ones stay as they are. An
    exception stands in the place of one that cannot go on.
    """
    model = texts[0].model
    state = ModelState.joined([text.state for text in texts], model.device)
    change = changes([text.asked.steering for text in texts])
    p, after = model.step(state, [text.symbol for text in texts], change=change)
    return chosen(texts, p, after)


# --- the kinds of question --------------------------------------------------------------------------------------------


class Question(Generic[R]):
    """A request about what follows a prefix, encoded for its model, which can be answered in a batch with others.

    Of a subclass K, `K(served, request)` encodes one, and `K.answer([question, …])` returns a list of answers.
    Questions of one model with equal `batch_key` are answered together, by the static method `answer` of the subclass.
    Making one raises an LLRNNError where the request names a word, feature, background (prior) or condition (input of a
    text) that cannot be.
    """

    batch_key: Hashable = None

    def __init__(self, served: Served, request: R) -> None:
        self.served, self.request = served, request
        ready = prepared_for(served, request, request.condition, [request.prefix])
        self.model, self.condition, self.warnings = ready.model, ready.condition, ready.warnings
        self.asked = encode(ready, request.prefix, steering(ready, request.changes), request.place)

    def header(self) -> Answer:
        """Return what every answer begins with: {"model": name, "background": name, "prefix": words as read}.

        The background is the prior that the model is used with.
        """
        return {"model": self.served.name, "background": self.request.background, "prefix": list(self.asked.words)}


@torch.no_grad()
def answered(kind: type[Any], served: Served, requests: Sequence[Any]) -> list[Any]:
    """Return the answer to each request to one model, in order, or an exception in its place.

    `kind`: the subclass of `Question` (or `WriteQuestion`) that is made of each, as `kind(served, request)`; those with
    the same prepared model and `batch_key` are answered by one call of `kind.answer`.
    """
    found = [settled(kind, served, request) for request in requests]
    groups: dict[Hashable, list[int]] = {}
    for index, question in enumerate(found):
        if not isinstance(question, Exception):
            groups.setdefault((id(question.model), question.batch_key), []).append(index)
    for group in groups.values():
        answers = settled(kind.answer, [found[index] for index in group])
        for place, index in enumerate(group):
            found[index] = answers if isinstance(answers, Exception) else answers[place]
    return found


class NextQuestion(Question[messages.NextRequest]):
    """A question for the most probable next words after a prefix; prefixes of any length are answered in one batch.

    `NextQuestion(served, request)` encodes a `messages.NextRequest`; `NextQuestion.answer([question, …])` answers them.
    """

    def __init__(self, served: Served, request: messages.NextRequest) -> None:
        super().__init__(served, request)
        self.words = self.model.read(request.words)
        self.symbols, self.inside = self.model.vocabulary.locate(self.words, place="words")

    @staticmethod
    def answer(questions: Sequence[NextQuestion]) -> list[Any]:
        """Return a dict for each question, with the fields of `messages.Next`, or an exception in its place.

        They are model, background, prefix, top, words, telling, total, log_z and entropy. All questions are of one
        model, which reads their prefixes in one batch.
        """
        p, _ = read(questions[0].model, [question.asked for question in questions], _ROUND)
        if bool(torch.isfinite(p.log_z).all()):
            best = best_words(questions[0].model, p, [question.request.top for question in questions])
            return [question._answer(p, n, best[n]) for n, question in enumerate(questions)]
        return [settled(question._alone, p.row(n)) for n, question in enumerate(questions)]

    def _alone(self, p: Distribution) -> Answer:
        """Return the answer to this question (`messages.Next` as a dict), where other questions of its batch failed.

        `p`: the next-word distribution, one row. A `Refused` (409) is raised where no word can follow this prefix.
        """
        return self._answer(require_finite(p), 0, best_words(self.model, p, [self.request.top])[0])

    def _answer(self, p: Distribution, n: int, best: Answer) -> Answer:
        words = self._asked_words(p.row(n)) if self.words else []
        written = self.model.written(one["word"] for one in (*best["top"], *words))
        return {**self.header(), **best, "words": words, "written": written}

    def _asked_words(self, p: Distribution) -> list[Answer]:
        first = torch.zeros(len(self.words), dtype=torch.long, device=p.h.device)
        log_p = p.log_prob(torch.from_numpy(self.symbols).to(p.h.device), first).tolist()
        parts = zip(self.symbols.tolist(), log_p, self.inside.tolist(), self.words, strict=True)
        return [word(self.model, symbol, log + inside, spelled) for symbol, log, inside, spelled in parts]


def read_words(served: Served, request: messages.ReadRequest) -> Answer:
    """Return the words of a request outside the model's vocabulary: {"model", "background", "prefix", "unknown"}.

    `prefix`: its words as the model reads them. `unknown` lists {"word", "near"} for each unknown word of the prefix,
    then of `words`, once; `near`: similarly spelled words of the vocabulary, for the first five unknown words, else [].
    `unlisted` lists likewise the words that are read by their spelling alone; numbers and signs are left out.
    """
    model = prepared_for(served, request, request.condition, [request.prefix]).model
    prefix, others = (model.read(part) for part in (request.prefix, request.words))
    words = list(dict.fromkeys((*prefix, *others)))
    found, cut = model.vocabulary.find(words)[0].tolist(), {word for word in others if model.cuts(word)}
    lost = [word for word, symbol in zip(words, found, strict=True) if symbol < 0 or word in cut]
    spelled = [word for word, symbol in zip(words, found, strict=True) if symbol >= model.vocabulary.n_words]
    spelled = [word for word in spelled if word.isalpha() and word not in lost]
    near = {word: model.vocabulary.near(word) for word in (*lost, *spelled)[: costs.NEARED]}
    unknown, unlisted = ([{"word": word, "near": near.get(word, [])} for word in some] for some in (lost, spelled))
    found = {"model": served.name, "background": request.background, "prefix": list(prefix), "unknown": unknown}
    return {**found, "unlisted": unlisted, "written": model.written(chain(words, *near.values()))}


def _joined(model: LLRNN, prefix: str | Sequence[str], letters: str) -> str:
    """Return the text of a prefix and the letters typed after it, with a blank between them."""
    text = prefix if isinstance(prefix, str) else model.write(prefix)
    return f"{text} {letters}" if text and letters and not text[-1].isspace() else text + letters


class CompleteQuestion(Question[messages.CompleteRequest]):
    """A question for the most probable words that begin with some letters; prefixes of any length share a batch.

    Where words are spelled as several units (subwords), the search takes further steps of the network, and only
    prefixes of one length are read together. It is made of a served model and (request, scope), a
    `messages.CompleteRequest` and the `RequestScope` whose budget is charged for these steps.
    """

    def __init__(self, served: Served, asked: tuple[messages.CompleteRequest, RequestScope]) -> None:
        request, self._scope = asked
        prefix: str | tuple[str, ...]
        if served.model.tokeniser.has_blanks:  # the letters' first token has the blank before them
            prefix, letters = split_letters(served.model, _joined(served.model, request.prefix, request.letters))
        else:
            *before, letters = served.model.tokeniser.tokenise(request.letters) or [""]  # qu'il: il is being typed
            prefix = (*served.model.read(request.prefix), *before) if before else request.prefix
        super().__init__(served, request.model_copy(update={"prefix": prefix, "letters": letters}))
        self.batch_key = None if self.model.vocabulary.units is None else len(self.asked.ids)

    @staticmethod
    def answer(questions: Sequence[CompleteQuestion]) -> list[Any]:
        multiple = _ROUND if questions[0].batch_key is None else 1
        p, state = read(questions[0].model, [question.asked for question in questions], multiple)
        return [settled(question._answer, p.row(n), state, n) for n, question in enumerate(questions)]

    def _answer(self, p: Distribution, state: ModelState, n: int) -> Answer:
        asked, units = self.request, self.model.vocabulary.units
        p = require_finite(p)
        one = None if units is None else NextUnits(self.model, p, state.select([n]), units, self._step)
        after = NextWords(self.model, p) if one is None else one
        found = Completions(after, self.asked.words, asked.letters, asked.k)
        best = [{**one.as_dict(), "share": found.share(one) if asked.mass else None} for one in found.best]
        mass = finite(found.log_mass) if asked.mass else None
        return {**self.header(), "letters": found.letters, "best": best, "log_mass": mass}

    def _step(self, state: ModelState, words: Sequence[int]) -> tuple[Distribution, ModelState]:
        """Run one more step of the network; return the next distribution and state, a row for each of `words`.

        `words`: the symbol ids that are read, one for each row of `state`. 10 units of cost are charged to the request.
        """
        self._scope.spend(costs.STEP_COST)
        return self.model.step(state, words, change=changes([self.asked.steering]))


class _StatefulQuestion(Question[R], ABC):
    """Base class of questions that need the model state after the prefix: only prefixes of one length share a batch.

    Subclasses define `after`.
    """

    def __init__(self, served: Served, request: R) -> None:
        super().__init__(served, request)
        self.batch_key = len(self.asked.ids)

    @staticmethod
    def answer(questions: Sequence[Any]) -> list[Any]:
        p, state = read(questions[0].model, [question.asked for question in questions])
        return [settled(question._checked, p.row(n), state.select([n])) for n, question in enumerate(questions)]

    def _checked(self, p: Distribution, state: ModelState) -> Any:
        """Return `after(p, state)`, the answer; raise a ZeroMassError that says why where no word can follow."""
        reason = self.model.background.refusal(state.knowledge[0][0])
        if reason is not None:
            raise ZeroMassError(f"nothing can follow the prefix {' '.join(self.asked.words)!r}: {reason}")
        return self.after(require_finite(p), state)

    @abstractmethod
    def after(self, p: Distribution, state: ModelState) -> Any:
        """Return the answer to this question, a dict for JSON, or what further steps continue (`Text`).

        `p`: distribution of the word after the prefix, one row; `state`: the model state there, one row. Subclasses
        define it.
        """


class ExplainQuestion(_StatefulQuestion[messages.ExplainRequest]):
    """A question why a word follows a prefix: log p, or its difference from a rival's, split by prior and features.

    `ExplainQuestion(served, request)` encodes a `messages.ExplainRequest`; the static method `answer` answers a list.
    """

    def after(self, p: Distribution, state: ModelState) -> Answer:
        """Return a dict with model, background, prefix, word, rival and comparison (`messages.ExplainAnswer`).

        `background`: name of the prior; `word` and `rival` have log p split into summands; `rival` and `comparison` are
        None where no rival was given. `p`, `state`: distribution of the next word and model state after the prefix, one
        row each.
        """
        word, *rest = map(self.model.read_word, [self.request.word, *filter(None, [self.request.rival])])
        found = explain_next(self.model, p, state, self.asked.words, word, rest[0] if rest else None)
        sides = (found,) if isinstance(found, Explanation) else (found.chosen, found.rival)
        word_json, *rival = (as_json(one, messages.ExplanationAnswer) for one in sides)
        comparison = as_json(found, messages.ComparisonAnswer) if rival else None
        others = {"rival": rival[0] if rival else None, "comparison": comparison, "alike": alike(self.model, word)}
        return {**self.header(), "word": word_json, **others}


class GenerateQuestion(_StatefulQuestion[messages.GenerateRequest]):
    """A question for the first word of a continuation of a prefix; its answer is a `Text`, which `step` continues.

    Made of a served model and (a `messages.GenerateRequest`, symbols): its seed and options choose the words, or they
    are these symbols, where not None.
    """

    def __init__(self, served: Served, asked: tuple[messages.GenerateRequest, Sequence[int] | None]) -> None:
        request, self._dictated = asked
        super().__init__(served, request)

    def after(self, p: Distribution, state: ModelState) -> Any:
        generator = torch.Generator(self.model.device).manual_seed(self.request.seed)
        given = self.request.model_dump(include={"greedy", "temperature", "top_k", "top_p"})
        strategy = chosen_strategy(**given) if self._dictated is None else Dictated(self._dictated)
        text = Text(self.model, self.asked, strategy, generator, state)
        text = replace(text, alternatives=self.request.alternatives, warnings=self.warnings)
        return chosen([text], p, state)[0]


class SearchQuestion(Question[messages.GenerateRequest]):
    """A question for the best continuation of a prefix by beam search, made of a served model and its request.

    Searches after one prefix, with equal widths and lengths and without changes of weights, begin in one batch.
    """

    def __init__(self, served: Served, request: messages.GenerateRequest) -> None:
        super().__init__(served, request)
        alone = None if self.asked.steering is None else id(self)
        self.batch_key = request.width, request.max_words, self.asked.words, alone

    @staticmethod
    def answer(questions: Sequence[SearchQuestion]) -> list[Any]:
        """Begin the searches of these questions in one batch; return a `PendingText` for each."""
        one, conditions = questions[0], [question.condition for question in questions]
        width, most, change = one.request.width, one.request.max_words, changes([one.asked.steering])
        begun = begin_searches(one.model, conditions, one.asked.words, width or 1, most, change)
        return [PendingText(question, search) for question, search in zip(questions, begun, strict=True)]

    def told(self, found: Sequence[Generated]) -> Answer:
        """Return {"symbols": those of the first text found, with the end of the sentence if it ended}."""
        end = [self.model.vocabulary.eos] * found[0].finished
        return {"symbols": [*self.model.vocabulary.symbols_of(found[0].words), *end]}


class WriteQuestion:
    """A question for texts from one condition, the input that a text is generated from, by beam search.

    It is made of a served model and (request, condition). Searches of one model with equal numbers of hypotheses and of
    words at most begin in one batch.
    """

    def __init__(self, served: Served, asked: tuple[messages.WriteRequest, str]) -> None:
        self.request, condition = asked
        ready = served.ready(self.request.background, condition)
        self.model, self.condition, self.warnings = ready.model, ready.condition, ready.warnings
        self.batch_key = self.request.width, self.request.max_words

    @staticmethod
    def answer(questions: Sequence[WriteQuestion]) -> list[Any]:
        """Begin the beam searches of these questions in one batch; return a `PendingText` for each.

        `search_on` continues them, a step at a time.
        """
        (width, most), model = questions[0].batch_key, questions[0].model
        begun = begin_searches(model, [one.condition for one in questions], (), width, most)
        return [PendingText(question, search) for question, search in zip(questions, begun, strict=True)]

    def told(self, found: Sequence[Generated]) -> Answer:
        """Return {"best": the texts found, best first, as many as asked for; "warnings": about the condition}.

        The condition is the input of the texts. A text is a dict with text, words, log_prob and finished.
        """
        texts = [
            {"text": str(one), "words": [*one.words], "log_prob": one.log_prob, "finished": one.finished}
            for one in found[: self.request.count]
        ]
        return {"best": texts, "warnings": list(self.warnings)}


@dataclass(frozen=True, eq=False)
class PendingText:
    """The beam search of texts for one condition (input), not ended yet, with the question that it answers.

    `question`: what asks for it; `search`: the state of the search; `ranking`: what puts the texts that it found in
    order, step by step, None before; `reading`: words that its next step reads. `search_on` continues lists of them.
    """

    question: WriteQuestion | SearchQuestion
    search: Search
    ranking: Generator[int, None, list[Generated]] | None = None
    reading: int = 0

    @property
    def cost(self) -> float:
        """Cost of the next step: 1/2 for each hypothesis, or 1/4 for each word read again; the unit is one word."""
        return costs.RIVAL_COST * self.reading if self.ranking else costs.HYPOTHESIS_COST * len(self.search.rows)

    def further(self) -> PendingText | Answer:
        """Return what is still to do, or what the question makes of the texts found, best first, if that is all."""
        if not self.search.has_ended:
            return self
        ranking = self.ranking or self.search.ranking()
        try:
            return replace(self, ranking=ranking, reading=next(ranking))
        except StopIteration as end:
            return self.question.told(end.value)


@torch.no_grad()
def search_on(writing: Sequence[PendingText]) -> list[Any]:
    """Run one step of beam searches that are of one model, and return each, in order, as it is then.

    One that has ended, with its texts in order, is replaced by its answer, or by an exception; the others are
    `PendingText`s still.
    """
    advance_searches([one.search for one in writing])
    return [settled(one.further) for one in writing]


def weigh_influence(served: Served, request: messages.InfluenceRequest) -> Answer:
    """Return what earlier words contributed to the weight of a feature, `messages.InfluenceAnswer` as a dict.

    Keys: model, background, prefix, feature, weight and terms. A `Refused` (404) is raised where the model has no such
    feature. Changes of weights in the request are applied to weight and contributions.
    """
    question = Question(served, request)
    model, asked = question.model, question.asked
    if request.feature not in model.feature_names:
        raise Refused(404, "unknown_feature", f"{served.name} has no feature {request.feature!r}; ask for its features")
    found = influence(model, feature=request.feature, prefix=asked.words, condition=question.condition)
    scale, offset = 1.0, 0.0
    if asked.steering is not None:
        k = model.feature_names.index(found.feature)
        scale, offset = (float(part[k]) for part in asked.steering)
    terms = [{**asdict(term), "share": scale * term.share} for term in found.terms]
    return {**question.header(), "feature": found.feature, "weight": scale * found.weight + offset, "terms": terms}


class ScoreQuestion:
    """The scoring of the texts of one request, done in pieces, so that other requests have their turn in between.

    It is made of a served model and a `messages.ScoreRequest`. A piece is a tuple of indices of texts with one
    condition (input). Call `add` for each of `pieces()`, then `answer()`.
    """

    def __init__(self, served: Served, request: messages.ScoreRequest) -> None:
        self.served, self.request = served, request
        self.scores: list[Answer | None] = [None] * len(request.texts)
        self._words = [served.model.read(text) for text in request.texts]
        self._conditions = request.conditions or (None,) * len(request.texts)
        self._changed: dict[FeatureNames, Steering] = {}  # one for all pieces, since names are those of the model

    def pieces(self) -> Iterator[tuple[int, ...]]:
        """Yield tuples of indices of texts of the request, with one condition and similar lengths, to read in one pass.

        A condition is the input that a text is generated from. A pass has at most 512 positions, padding included, or
        one text where that is longer.
        """
        units, by_condition = self.served.model.vocabulary.units, dict[str | None, list[int]]()
        lengths = np.array([1 + len(words if units is None else units.sentence(words)) for words in self._words])
        for index, condition in enumerate(self._conditions):
            by_condition.setdefault(condition, []).append(index)
        for indices in by_condition.values():
            order = np.array(indices)[np.argsort(lengths[indices], kind="stable")]
            yield from (tuple(group.tolist()) for group in Sentences(AT_ONCE).groups(order, lengths[order]))

    @torch.no_grad()
    def add(self, piece: Sequence[int]) -> None:
        """Compute and keep the scores of one piece, a tuple of indices of the request's texts.

        An UnknownWordError or a `Refused` is raised for a text or condition (input) that the model cannot read.
        """
        ready = prepared_for(self.served, self.request, self._conditions[piece[0]], self._words)
        if ready.names not in self._changed:
            self._changed[ready.names] = steering(ready, self.request.changes)
        changed = self._changed[ready.names]
        texts = [encode(ready, self._words[index], changed, f"texts.{index}") for index in piece]
        for index, text, found in zip(piece, texts, score(ready.model, texts), strict=True):
            self.scores[index] = {
                **found,
                **self._counted(ready.model, text, self.request.texts[index], found["words"]),
            }

    def _counted(self, model: LLRNN, read: EncodedPrefix, text: str | Sequence[str], words: Sequence[str]) -> Answer:
        """Return {"kinds", "contract"} of one text of the request.

        `kinds`: a list with "listed", "spelled", "number" or the like for each word, and "listed" for the end of the
        text; `contract`: one line that says how words were read and counted. `read`: the text as the model reads it;
        `text`: as it was sent, one string or words; `words`: those that were scored.
        """
        running = isinstance(read.condition, Before)
        own, tokens = (self.served.model if running else model).vocabulary, model.cut_by
        corpus = Corpus(Corpus.from_sentences([read.words]).sentences, "", tokens if isinstance(text, str) else "given")
        if model.cut_by == TokenPieces.kind:
            return {"kinds": ["listed"] * len(words), "contract": str(contract_of_words(corpus, own, words))}
        contract = Contract.of(corpus, own, reading="running" if running else "alone")
        return {"kinds": [*own.kinds(read.words), "listed"], "contract": str(contract)}

    def answer(self) -> Answer:
        """Return {"model", "background", "scores"}; scores has a dict (`messages.Score`) for each text of the request.

        All pieces must have been added: the score of a text that was not is None.
        """
        return {"model": self.served.name, "background": self.request.background, "scores": self.scores}


def as_json(found: object, answer: type[BaseModel]) -> Answer:
    """Return {name: attribute of `found`} for the fields of the answer class `answer`, as data for JSON.

    `found`: an object of the library with these attributes, such as an `Explanation`; infinities become None, tuples
    lists.
    """
    return {name: _plain(getattr(found, name)) for name in answer.model_fields}


def _plain(value: Any) -> Any:
    match value:
        case float():
            return finite(value)
        case Term():
            return as_json(value, messages.TermAnswer)
        case MixturePart():
            return as_json(value, messages.MixturePartAnswer)
        case (str() as name, float() as log_b):  # a factor of the background
            return {"name": name, "log_b": finite(log_b)}
        case tuple():
            return [_plain(one) for one in value]
    return value


# --- the engine -------------------------------------------------------------------------------------------------------


def one_by_one(work: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function of a list that calls `work` on each item, and returns a list of the results, in order.

    Where a call raises an exception, that stands in the place of its result (see `settled`).
    """
    return lambda payloads: [settled(work, one) for one in payloads]


def _require_listed(model: LLRNN, request: Continued) -> None:
    """Raise a `Refused` (400) for a word of several prompts that `model` cannot read, before any text is begun.

    They are not looked at where words may be added to the vocabulary, by a condition or the text before, or where it
    is open. To begin 64 texts and end them all at once would hold up others.
    """
    closed = not model.vocabulary.is_open and request.condition is None and request.before is None
    if closed and isinstance(request, messages.CompletionRequest):
        words = (word for prompt in request.prompts for word in model.read(prompt))
        found = settled(partial(model.vocabulary.symbols_of, place="prompt"), words)
        if isinstance(found, Exception):
            raise found


class Engine:
    """The models of a server: each method takes a request (a class of `messages`) and returns a dict for JSON.

    `served`: the models, of which the first is the default. Each has a thread, in which requests that wait together
    become one step of the network; `rows`: the most sequences in one step, 1 turns batching off. A request that cannot
    be answered raises a `Refused`, an error with an HTTP status.
    """

    def __init__(self, served: Sequence[Served], *, rows: int = 64) -> None:
        self._served = {one.name: one for one in served}
        self._batchers = {one.name: Batcher(rows) for one in served}  # who asks one model does not wait for another
        self._models: Answer = {}
        self._describe()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the served models, in order; the first is the default."""
        return tuple(self._served)

    def observe_steps(self, observe: Callable[[int, float], None]) -> None:
        """Have `observe(rows, seconds)` called after every step of a network: its number of sequences, its time."""
        for batcher in self._batchers.values():
            batcher.observe = observe

    async def close(self) -> None:
        """Answer the requests that wait, then end the models' threads; a step of over 5 seconds is abandoned."""
        await asyncio.gather(*(batcher.close() for batcher in self._batchers.values()))

    async def reload(self) -> Answer:
        """Read the tables and word lists of all models anew, in a thread; return {"reloaded": names of the models}.

        A `Refused` (409) is raised at the first file that cannot be read: that model, and those after it, stay as they
        were.
        """
        for one in self._served.values():
            try:
                await asyncio.to_thread(one.reload)
            except LLRNNError as error:
                raise Refused(409, "reload", f"{error}; what was served before is served on") from None
        self._describe()
        return {"reloaded": list(self._served)}

    def _describe(self) -> None:
        described = [one.described for one in self._served.values()]
        self._models = {"models": described, "object": "list", "data": [*map(named, self._served)]}

    async def read(self, request: messages.ReadRequest) -> Answer:
        """Return the words of the request that the model lacks, as a dict with the fields of `messages.ReadAnswer`.

        `unknown` lists {"word", "near"}, each word once, with similarly spelled ones of the vocabulary.
        """
        return await self._ask_alone(read_words, request)

    async def next(self, request: messages.NextRequest) -> Answer:
        """Return the most probable next words after a prefix, as a dict with the fields of `messages.Next`.

        `top` lists {"word", "log_p", "p", "cell"}, best first, and `words` the same of those asked for by name. A
        `Refused` is raised for an unknown word (400), an unknown model, background (prior) or feature (404), or where
        no word can follow (409).
        """
        return await self._ask(NextQuestion, request)

    async def complete(self, request: messages.CompleteRequest) -> Answer:
        """Return the best next words with given first letters, as a dict with the fields of `messages.CompleteAnswer`.

        `best` lists {"word", "log_p", "p", "cell", "share"}, most probable first; [] where no word begins so. `share`,
        and the answer's `log_mass`, are None unless `request.mass` is true.
        """
        return await self._ask(CompleteQuestion, request, (request, current_scope()))

    async def explain(self, request: messages.ExplainRequest) -> Answer:
        """Return log p of a word, split into summands, as a dict with the fields of `messages.ExplainAnswer`.

        They are model, background, prefix, word, rival and comparison. Summands are the log prior, weight times value
        of each feature, and minus log of the normaliser; `comparison` has the differences between word and rival, None
        like `rival` where the request names no rival.
        """
        return await self._ask(ExplainQuestion, request)

    async def influence(self, request: messages.InfluenceRequest) -> Answer:
        """Return which features of earlier words moved the weight of a feature, `messages.InfluenceAnswer` as a dict.

        `weight`: after the prefix; `terms`: what each feature of each earlier word contributed. A `Refused` (404) is
        raised where the model has no feature of this name.
        """
        return await self._ask_alone(weigh_influence, request)

    async def score(self, request: messages.ScoreRequest) -> Answer:
        """Return log p of every word of the texts of a request, as a dict with the fields of `messages.ScoreAnswer`.

        `scores` has a dict for each text, in order: `words`, `log_p` of each, their sum `log_prob`, `perplexity`,
        `kinds` (of each word: listed, spelled, number or unknown) and `contract` (a line that says how words were
        counted).
        """
        served = self.find(request.model)
        cost, scored = costs.admit(costs.cost_of(served, request)).total, ScoreQuestion(served, request)
        pieces = list(scored.pieces())
        for piece in pieces:
            await self._batchers[served.name].submit(scored, one_by_one(scored.add), piece, cost / len(pieces))
        return scored.answer()

    async def write(self, request: messages.WriteRequest) -> Answer:
        """Return the best texts for each condition (input) by beam search, `messages.WriteAnswer` as a dict.

        `texts` has {"best": texts, best first; "warnings"} for each condition, in order. A `Refused` of one is
        raised for all.
        """
        served = self.find(request.model)
        begin = costs.admit(costs.cost_of(served, request)).begin / len(request.conditions)
        texts = await together(self._written(served, request, place, begin) for place in range(len(request.conditions)))
        return {"model": served.name, "background": request.background, "texts": texts}

    async def _written(self, served: Served, request: messages.WriteRequest, place: int, begin: float) -> Answer:
        """Run the beam search of one condition (input) to its end; return {"best": texts, "warnings": messages}.

        `place`: index of the condition in the request; `begin`: cost of reading it. Other requests have their turn
        after each step, or share it. A `Refused` has the index of the condition in its message.
        """
        try:
            return await self._searched(served, WriteQuestion, (request, request.conditions[place]), begin)
        except Refused as one:
            raise Refused(one.status, one.code, f"conditions.{place}: {one.message}") from None

    async def _searched(self, served: Served, kind: type, asked: object, begin: float) -> Answer:
        """Run the beam search that `kind(served, asked)` begins to its end; return what its `told` makes of the texts.

        `kind`: `WriteQuestion` or `SearchQuestion`; `begin`: cost of reading what is asked.
        """
        batcher = self._batchers[served.name]
        found: Any = await batcher.submit(kind, partial(answered, kind, served), asked, begin)
        while isinstance(found, PendingText):
            key = "search", id(found.search.model), id(found.search.change)
            found = await batcher.submit(key, search_on, found, found.cost)
        answer: Answer = found
        return answer

    def generate(self, request: messages.GenerateRequest) -> AsyncGenerator[tuple[str, Answer]]:
        """Return an async generator of ("word", data) for each word as it is chosen, then ("done", data).

        The data are dicts with the fields of `messages.Written` and `messages.Finished`, the whole text. A `Refused` is
        raised at once where the request costs too much or names no model, and while iterating for other reasons.
        """
        return self.continuations(request)[0]

    def continuations(self, request: Continued) -> list[AsyncGenerator[tuple[str, Answer]]]:
        """Return for every text asked for, n for each prompt, an async generator of ("word" or "done", data) events.

        `request`: a `GenerateRequest`, which asks for one text, or a `CompletionRequest`. The texts are in the order of
        the prompts; the data are those of `generate`. A `Refused` is raised at once where the request costs too much,
        names no model, or has a word that a model without domains and conditions cannot read.
        """
        served = self.find(request.model)
        cost = costs.admit(costs.cost_of(served, request))
        _require_listed(served.model, request)
        texts = request.continuations()  # which take a millisecond to make
        return [self._continued(served, one, cost.begin / len(texts) + costs.STEP_COST) for one in texts]

    async def _continued(
        self, served: Served, request: messages.GenerateRequest, cost: float
    ) -> AsyncGenerator[tuple[str, Answer]]:
        batcher, run = self._batchers[served.name], partial(answered, GenerateQuestion, served)
        symbols, most = None, request.max_words
        if request.width is not None:
            symbols = (await self._searched(served, SearchQuestion, request, cost))["symbols"]
            most = min(most, len(symbols))
        text: Any = await batcher.submit(GenerateQuestion, run, (request, symbols), cost)
        rng = np.random.default_rng(request.seed)  # for the spelling of cells
        words: list[str] = []
        log_prob = 0.0
        while not text.has_ended and len(words) < most:
            event = text.written(len(words), rng)
            words.append(event["word"])
            event["piece"] = text.model.piece((*text.asked.words, *words))
            event["written"] = text.model.written([event["word"]])
            log_prob += event["log_p"]
            yield "word", event
            if len(words) < most:
                text = await batcher.submit(("step", id(text.model)), step, text, costs.STEP_COST)
        log_prob += text.log_p if text.has_ended else 0.0
        said = text.model.write((*text.asked.words, *words))
        told = {"text": said, "words": words, "log_prob": log_prob, "finished": text.has_ended}
        yield "done", {**told, "warnings": list(text.warnings)}

    def models(self) -> Answer:
        """Return {"models": descriptions of all models, "object": "list", "data": an entry for each in OpenAI's form}.

        A description is a dict with the fields of `messages.ServedModel`, an entry one with those of `ModelName`.
        """
        return self._models

    def model(self, name: str) -> Answer:
        """Return the description of the model `name`, as a dict with the fields of `messages.RetrievedModel`.

        A `Refused` (404) is raised where no model has this name.
        """
        return {**self.find(name).described, **named(name)}

    async def features(self, name: str, query: str, limit: int) -> Answer:
        """Return {"features": the first `limit` whose names contain `query` in any case, "matching": how many do}.

        `name`: of the model; a `Refused` (404) is raised where there is none. Features are dicts {"name", "group" (its
        kind), "contextual"}; contextual ones, whose values depend on the words before, come first.
        """
        return await self._list(_features, name, query, limit)

    async def words(self, name: str, query: str, limit: int) -> Answer:
        """Return {"words": the first `limit` words that contain `query` in any case, "matching": how many do}.

        Those that begin with it come first, frequent ones before others. `name`: of the model; a `Refused` (404) is
        raised where there is none.
        """
        return await self._list(_words, name, query, limit)

    async def strings(self, name: str, cell: str, limit: int, seed: int) -> Answer:
        """Return {"cell", "strings": [{"word", "share"}]}, the distinct ones of `limit` strings drawn from a cell.

        A cell is a symbol for many strings outside the vocabulary of the model `name`; `cell`: its name; `share`: the
        probability of a string within it. A `Refused` (404) is raised where there is no such cell or model.
        """
        served = self.find(name)
        work = partial(_strings, served.model, limit=limit, seed=seed)
        return await self._run_alone(served, work, cell, costs.cost_of_strings(limit))

    async def _list(self, listing: Callable[..., Answer], name: str, query: str, limit: int) -> Answer:
        """Search features or words of a model, in its thread; return {"features" or "words": list, "matching": count}.

        `listing`: `_features` or `_words`; `name`: of the model; `query`: what names must contain; `limit`: how many
        are listed.
        """
        served = self.find(name)
        names = len(served.names) if listing is _features else len(served.model.vocabulary)
        work = partial(listing, served.model, limit=limit)
        return await self._run_alone(served, work, query.lower(), costs.cost_of_names(names))

    async def _ask_alone(self, work: Callable[[Served, Any], Answer], request: Query) -> Answer:
        """Run `work(served, request)` in the thread of the model that the request names, and return its answer.

        It is not batched with other requests. A `Refused` (422) is raised where the request costs too much.
        """
        served = self.find(request.model)
        return await self._run_alone(served, partial(work, served), request, costs.cost_of(served, request))

    async def _run_alone(self, served: Served, work: Callable[[Any], Answer], asked: Any, cost: costs.Cost) -> Answer:
        """Return `work(asked)`, run in the thread of the model `served`, not in a batch with others.

        `cost`: estimated, becomes the budget of the request; a `Refused` (422) is raised where it is too much.
        """
        run = one_by_one(work)
        found: Answer = await self._batchers[served.name].submit(run, run, asked, costs.admit(cost).total)
        return found

    def find(self, name: str | None) -> Served:
        """Return the served model of this name, the first one for None; raise a `Refused` (404) where there is none."""
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise Refused(404, "unknown_model", f"no model is named {name!r}; there are {', '.join(self.names)}")
        return self._served[name]

    async def _ask(self, kind: type, request: Query, payload: Any = None) -> Answer:
        """Have a request answered in the thread of its model, in a batch with others of its kind; return the answer.

        `kind`: the class of the question; `payload`: what it is made of, None for the request. A `Refused` is raised
        where it cannot be answered or costs too much.
        """
        served = self.find(request.model)
        run, cost = partial(answered, kind, served), costs.admit(costs.cost_of(served, request)).begin
        answer: Answer = await self._batchers[served.name].submit(kind, run, payload or request, cost)
        return answer


def named(model: str) -> Answer:
    """Return an entry of the list of models in OpenAI's API, for the model called `model`.

    {"id": its name, "object": "model", "created": 0, "owned_by": "llrnn"}
    """
    return {"id": model, "object": "model", "created": 0, "owned_by": "llrnn"}


def _features(model: LLRNN, small: str, limit: int) -> Answer:
    """Return {"features": the first `limit` whose names contain `small`, "matching": how many do}.

    `small`: in lowercase, compared with names in lowercase. Features are dicts {"name", "group", "contextual"}, those
    that depend on the context first.
    """
    groups = dict(zip(model.output_features.names, model.output_features.groups, strict=True))
    found = [one for one in (*model.context_names, *groups) if small in one.lower()]
    listed = [{"name": one, "group": groups.get(one, ""), "contextual": one not in groups} for one in found[:limit]]
    return {"features": listed, "matching": len(found)}


def _words(model: LLRNN, small: str, limit: int) -> Answer:
    """Return {"words": the first `limit` of the vocabulary that contain `small`, "matching": how many do}.

    `small`: in lowercase, compared with words in lowercase. Words that begin with it come first (tokens of a language
    model that begin with a blank and it), otherwise they are in the order of the vocabulary; the end-of-sentence symbol
    is never listed. `written`: what tokens add to a text.
    """
    start = "".join(model.read(f" {small}")).lower() if model.tokeniser.has_blanks else small
    found = [word for word in model.vocabulary.words if small in word.lower() and word != EOS]
    found.sort(key=lambda word: not word.lower().startswith(start))  # stable: the most frequent stay first
    return {"words": found[:limit], "matching": len(found), "written": model.written(found[:limit])}


def _strings(model: LLRNN, cell: str, limit: int, seed: int) -> Answer:
    """Return {"cell", "strings": [{"word", "share"}]}, the distinct ones of `limit` strings drawn from a cell.

    A cell is a symbol for a set of strings outside the vocabulary; `share`: probability of the string within it; none
    are returned where all its strings are listed words. A `Refused` (404) is raised for an unknown name.
    """
    vocabulary = model.vocabulary
    ids = range(vocabulary.n_words, len(vocabulary))
    found = next((one for one in ids if vocabulary.symbol(one) == cell), None)
    if found is None:
        raise Refused(404, "unknown_cell", f"the model has no cell {cell!r}; ask /v1/next, which marks cells")
    has_any = vocabulary.log_left[found - vocabulary.n_words] > -math.inf
    drawn = list(dict.fromkeys(vocabulary.spell(found, limit, np.random.default_rng(seed)))) if has_any else []
    shares = np.exp(vocabulary.locate(drawn)[1]).tolist()
    return {
        "cell": cell,
        "strings": [{"word": word, "share": share} for word, share in zip(drawn, shares, strict=True)],
    }
