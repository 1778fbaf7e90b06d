"""What a request costs, estimated before any of it runs, in words that are read (a tenth of a millisecond or so).

    a word of a prefix or of a text       1, and half as much again where weights are changed
    a word of a prefix for `influence`    6: there and back
    a word that is generated              10: a step of its own
    a word of a hypothesis (beam)         1/2: a step that many share; what was found is read once more, with reasons
    a word of a text under a rival        1/4: what a search found is read again, many at once (`Worded.rivals`)
    a condition, or the text before       50, a fiftieth of the vocabulary (5,000 at most), 1/4 of its characters
    a name that a pattern looks at        1/200, as one that a listing looks at (5,000 at most)
    a word that is listed or asked for    1/20; one that letters are completed to 1
    the mass of letters                   2,000 in an open vocabulary
    letters, where words are units        all that a request may cost: steps are counted as they are taken
    words near an unknown one             500, for five of them at most
    strings of a cell                     50, and 5 each

The estimate bounds the whole request (`limits`, "work"). What is done is counted against it (`RequestScope.spend`), and
is what a client pays in the queue (`FairQueue`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from llrnn.ground.errors import LLRNNError
from llrnn.model.decode import COMPARED, read_condition, rivals
from llrnn.serve import messages
from llrnn.serve.messages import most, require, require_work
from llrnn.serve.served import Served, current_scope
from llrnn.text.conditions import BEAM

STEP_COST = 10.0  # of a word that is generated
HYPOTHESIS_COST = 0.5  # of one hypothesis in one step of several searches; alone it is some times that
RIVAL_COST = 0.25  # of a word that is read again, under a condition or a rival of it
NEARED = 5  # unknown words of a request, for which near ones are looked for
_NEAR_COST = 500.0  # of each
_SUM_COST = 2000.0  # of the sum over all strings that begin with some letters
_LARGEST = 5000.0  # of looking through a vocabulary, or all features


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a request; the unit is reading one word, about a tenth of a millisecond.

    `begin`: of reading the prefix or texts and looking things up; `steps`: of generating as many words as the request
    allows, 0 where it generates none; `total`: their sum. All are floats.
    """

    begin: float
    steps: float = 0.0

    @property
    def total(self) -> float:
        return self.begin + self.steps


def admit(cost: Cost) -> Cost:
    """Return `cost`, and make its total the budget of the request that is being answered.

    A `Refused` (422) is raised where it exceeds what any request may cost (the limit "work" of limits.toml).
    """
    require_work(cost.total)
    current_scope().allowed = cost.total
    return cost


def cost_of_names(count: int) -> Cost:
    """Return the cost of searching `count` names of features or words: `begin` is 1 + count / 200, but 5,001 at most.

    `steps` is 0. The unit is reading one word.
    """
    return Cost(1.0 + min(count / 200, _LARGEST))


def cost_of_strings(count: int) -> Cost:
    """Return the cost of drawing `count` strings from a cell: `begin` is 50 + 5 · count and `steps` 0.

    The unit is reading one word. A cell is a symbol for many strings outside the vocabulary.
    """
    return Cost(50.0 + 5.0 * count)


def cost_of(served: Served, request: messages.ModelChoice) -> Cost:
    """Return the estimated cost of a whole request to a model, in units of reading one word.

    `begin` is for reading prefix, texts, conditions and changes of weights; `steps` is 10 for each word that may be
    generated, and half a unit for each hypothesis and word of a beam search. A `Refused` (422) is raised where a text
    has too many words, or patterns in the changes of weights would be compared with too many names, a TypeError for a
    class of request that has no cost. Whether the cost is allowed is checked by `admit`.
    """
    match request:
        case messages.WriteRequest():
            hypotheses = request.max_words * request.width * len(request.conditions)
            cost = Cost(_conditions_cost(served, request.conditions), HYPOTHESIS_COST * hypotheses)
            asked = request.conditions if cost.total <= most("work") else ()  # so many are refused in any case
            again = sum(_rereading_cost(served, one, request.max_words) for one in asked)
            return replace(cost, steps=cost.steps + again)
        case messages.ScoreRequest():
            words = list[tuple[str, ...]]()
            for text in request.texts:
                words.append(_words(served, text, "one_text_words", None))
                require("text_words", sum(map(len, words)))
            return Cost(_words_cost(request, words) + _lookup_cost(served, request, request.conditions or ()))
        case messages.CompletionRequest():
            words = [_words(served, prompt, "prefix_words", "prompt") for prompt in request.prompts]
            read = request.n * _words_cost(request, words) + _lookup_cost(served, request, [request.condition])
            condition, count = request.condition if request.is_searched else None, request.n * len(words)
            again = request.n * sum(_rereading_cost(served, condition, request.most + len(one)) for one in words)
            return _of_texts(read, BEAM * request.is_searched, request.most, count, again)
        case messages.CompleteRequest() if served.model.vocabulary.units is not None:
            begin = _query_cost(served, request)
            return Cost(begin, max(0.0, most("work") - begin))
        case messages.GenerateRequest():
            length = request.max_words + len(served.model.read(request.prefix))
            again = _rereading_cost(served, request.condition if request.width else None, length)
            return _of_texts(_query_cost(served, request), request.width or 0, request.max_words, 1, again)
        case messages.Query():
            return Cost(_query_cost(served, request))
    raise TypeError(f"{type(request).__name__} has no cost")


def _of_texts(begin: float, width: int, most: int, count: int, ranked: float) -> Cost:
    """Return the cost of `count` texts of `most` words: drawn, or found with `width` hypotheses and then read anew.

    `ranked`: the cost of reading what was found under rivals of its condition (input), to put it in order.
    """
    again = begin + STEP_COST * count if width else 0.0
    return Cost(begin, again + (STEP_COST + HYPOTHESIS_COST * width) * most * count + ranked)


def _query_cost(served: Served, request: messages.Query) -> float:
    """Return the cost of reading the prefix of a request and answering it, without the words to be generated.

    The unit is reading one word. It is the sum of `_words_cost` of the prefix (six times that for `influence`), of
    `_lookup_cost` of the condition (input) and the changes of weights, and of what the kind of request adds: for `next`
    a 20th for each word listed, for `complete` 1 for each and more for `mass`, for `read` 1 for each word and more for
    each unknown one. A `Refused` (422) is raised where the prefix has too many words.
    """
    there_and_back = isinstance(request, messages.InfluenceRequest)
    prefix = _words(served, request.prefix, "influence_words" if there_and_back else "prefix_words", request.place)
    cost = _words_cost(request, [prefix]) * (6 if there_and_back else 1)
    cost += _lookup_cost(served, request, [request.condition])
    match request:
        case messages.NextRequest():
            return cost + (request.top + len(request.words)) / 20
        case messages.ReadRequest():
            lost = sum(word not in served.model.vocabulary for word in {*prefix, *served.model.read(request.words)})
            return cost + len(request.words) + _NEAR_COST * min(NEARED, lost)
        case messages.CompleteRequest():
            return cost + request.k + (_SUM_COST if request.mass and served.model.vocabulary.is_open else 0.0)
    return cost


def _words(served: Served, text: str | tuple[str, ...], limit: str, field: str | None) -> tuple[str, ...]:
    """Return the words of a text as the model reads them; raise a `Refused` (422) where a limit allows fewer.

    `text`: a string, which the model's tokeniser cuts, or words; `limit`: its name in `limits.toml`; `field`: of the
    request, named in the message, None for the name of the limit.
    """
    words = served.model.read(text)
    require(limit, len(words), field)
    return words


def _words_cost(request: messages.ModelQuery, texts: Iterable[tuple[str, ...]]) -> float:
    """Return the cost of reading texts: 1 for each word and each end of a text, or 1.5 for each where weights change.

    `request`: its `changes` tell whether weights change; `texts`: the words of each. The unit is reading one word.
    """
    return sum(1 + len(text) for text in texts) * (1.5 if request.changes else 1.0)


def _lookup_cost(served: Served, request: messages.ModelQuery, conditions: Iterable[str | None]) -> float:
    """Return the cost of reading conditions (inputs to generate from) and of finding the features whose weights change.

    It is `_conditions_cost` of `conditions` (texts, None for none), `request.before` and `request.new_words`, and a
    20th for each change, and a 200th for each comparison of a pattern in a change with the name of a feature.
    The unit is reading one word.
    A `Refused` (422) is raised where there would be too many such comparisons.
    """
    patterns = {change.feature for change in request.changes if served.names.is_pattern(change.feature)}
    names = len(served.names) * len(patterns)
    require("pattern_names", names)
    given = " ".join(request.new_words) or None  # listed as those of a condition are
    return _conditions_cost(served, [*conditions, request.before, given]) + names / 200 + len(request.changes) / 20


def _conditions_cost(served: Served, conditions: Iterable[str | None]) -> float:
    """Return the cost of reading conditions, the inputs that texts are generated from, as text; None costs nothing.

    Each costs 50 + a 50th of the size of the vocabulary (to which its words may be added; 5,000 at most) + a quarter
    of its number of characters. Equal ones count once. The unit is reading one word.
    """
    listing = 50 + min(len(served.model.vocabulary) / 50, _LARGEST)
    return sum(listing + len(one) / 4 for one in {*conditions} if one is not None)


def _rereading_cost(served: Served, condition: str | None, length: int) -> float:
    """Return the most that it may cost to read what a search found, of `length` words, under its condition's rivals.

    The condition is the input of the texts. The first text is read, and then perhaps as many as are compared.
    """
    count = 0
    with contextlib.suppress(LLRNNError):  # a condition that cannot be read is refused where it is
        count = 0 if condition is None else sum(map(len, rivals(served.model, read_condition(served.model, condition))))
    return RIVAL_COST * (1 + COMPARED) * (1 + count) * (1 + length) if count else 0.0
