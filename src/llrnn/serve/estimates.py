"""What a request will cost, estimated before any of it runs, in words that are read (a tenth of a millisecond or so).

    a word of a prefix or of a text       1, and half as much again where weights are changed
    a word of a prefix for `influence`    6: there and back
    a word that is generated              10: a step of its own
    a condition                           50, a fiftieth of the vocabulary (5,000 at most), a quarter of its characters
    a name that a pattern looks at        1/200
    a word that is listed or asked for    1/20

The estimate bounds a request (`limits`, "work"), and says what its client pays in the queue (`batching.Turns`).
"""

from __future__ import annotations

from collections.abc import Sequence

from llrnn.serve.limits import LIMITS, most
from llrnn.serve.messages import (
    ChangeMessage,
    GenerateRequest,
    InfluenceRequest,
    NextRequest,
    Query,
    ScoreRequest,
    words_of,
)
from llrnn.serve.served import Served

_STEERED = 1.5
_WORDS_OF_INFLUENCE = 6.0
STEP = 10.0
_CONDITION, _SYMBOLS_A_WORD, _MOST_OF_SYMBOLS, _CHARACTERS_A_WORD = 50.0, 50, 5000, 4
_NAMES_A_WORD = 200
_LISTED_A_WORD = 20


def of_words(count: int, changes: Sequence[ChangeMessage]) -> float:
    """Words that are read, and the end of the sentence."""
    return (1 + count) * (_STEERED if changes else 1.0)


def of_condition(served: Served, condition: str | None) -> float:
    """To read it and to list its words, which makes a vocabulary of its own."""
    if condition is None:
        return 0.0
    symbols = min(len(served.model.vocabulary) / _SYMBOLS_A_WORD, _MOST_OF_SYMBOLS)
    return _CONDITION + symbols + len(condition) / _CHARACTERS_A_WORD


def of_changes(served: Served, changes: Sequence[ChangeMessage]) -> float:
    """Patterns look through all names; more than a request may is refused."""
    names = len(served.names) * sum(served.names.is_pattern(one) for one in {change.feature for change in changes})
    if names > most("pattern_names"):
        raise LIMITS["pattern_names"].refused(found=names)
    return names / _NAMES_A_WORD + len(changes) / _LISTED_A_WORD


def of_query(served: Served, request: Query) -> float:
    """What it costs to answer, or to write the first word."""
    read = of_words(len(request.prefix_words), request.changes)
    if isinstance(request, InfluenceRequest):
        read *= _WORDS_OF_INFLUENCE
    if isinstance(request, NextRequest):
        read += (request.top + len(request.words)) / _LISTED_A_WORD
    whole = read + of_condition(served, request.condition) + of_changes(served, request.changes)
    _require(whole + (STEP * request.max_words if isinstance(request, GenerateRequest) else 0.0))
    return whole


def of_score(served: Served, request: ScoreRequest) -> float:
    """What all texts cost together, and every condition that is another."""
    read = sum(of_words(len(words_of(text)), request.changes) for text in request.texts)
    conditions = sum(of_condition(served, one) for one in set(request.conditions or ()))
    whole = read + conditions + of_changes(served, request.changes)
    _require(whole)
    return whole


def of_listing(count: int) -> float:
    """To look through so many names."""
    return 1.0 + count / _NAMES_A_WORD


def _require(work: float) -> None:
    if work > most("work"):
        raise LIMITS["work"].refused(found=round(work))
