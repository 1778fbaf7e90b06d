"""Values out of the sentences and in again: `x serves thai food` as `SLOT_NAME serves SLOT_FOOD food`.

What a model without any way to copy needs before it can speak of a name that it has never seen; models of this library
need it for comparison only. A value is found where its words stand in a row, written as in the condition, the longest
value first; of two slots with the same value it is the first one's. The way back puts the values of a slot in their
order, so it gives the same sentence unless the sentence says several values of one slot in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.acts import Act
from llrnn.text.corpus.corpus import Corpus
from llrnn.text.corpus.types import Sentence, Token

__all__ = ["Spans", "delexicalise", "find_values", "placeholder", "relexicalise"]

Words = tuple[str, ...]
Spans = dict[int, Words]  # where a value begins in a text, and the value


def placeholder(slot: str) -> str:
    """The word that stands for every value of a slot."""
    return f"SLOT_{slot.upper()}"


def delexicalise(corpus: Corpus, slots: Collection[str]) -> Corpus:
    """The same corpus with one placeholder for each value of these slots that a target says; conditions stay."""
    if isinstance(slots, str):
        raise CorpusError(f"slots must be names of slots, found the str {slots!r}; write [{slots!r}]")
    return Corpus(tuple(_without_values(sentence, slots) for sentence in corpus), corpus.name)


def relexicalise(words: Sequence[str], condition: object) -> list[str]:
    """Values for placeholders, in the order of the condition, the last one again when there are too few.

    A placeholder of a slot that the condition does not have stays as it is.
    """
    waiting: dict[str, list[str]] = {}
    for slot, value in _values(condition):
        waiting.setdefault(placeholder(slot), []).append(value)
    found: list[str] = []
    for word in words:
        values = waiting.get(word)
        if values is None:
            found.append(word)
        else:
            found += (values.pop(0) if len(values) > 1 else values[0]).split()
    return found


def find_values(words: Sequence[str], values: Iterable[Words], taken: Mapping[int, Words] | None = None) -> Spans:
    """Where values stand: the longest first, from the left, none overlapping another or what is `taken`."""
    text = tuple(words)
    free = [True] * len(text)
    for begin, value in (taken or {}).items():
        free[begin : begin + len(value)] = [False] * len(value)
    spans: Spans = {}
    for value in sorted(values, key=len, reverse=True):
        for begin in range(len(text) - len(value) + 1):
            if text[begin : begin + len(value)] == value and all(free[begin : begin + len(value)]):
                spans[begin] = value
                free[begin : begin + len(value)] = [False] * len(value)
    return spans


def _without_values(sentence: Sentence, slots: Collection[str]) -> Sentence:
    asked = [(tuple(value.split()), placeholder(slot)) for slot, value in _values(sentence.condition) if slot in slots]
    names = dict(reversed(asked))  # the first of two slots with one value wins
    spans = find_values(sentence.words, names)
    return replace(sentence, tokens=tuple(_replaced(sentence.tokens, spans, names))) if spans else sentence


def _replaced(tokens: Sequence[Token], spans: Mapping[int, Words], names: Mapping[Words, str]) -> Iterator[Token]:
    place = 0
    while place < len(tokens):
        value = spans.get(place)
        # positions shift, so nothing has a head any more
        yield replace(tokens[place], head=None) if value is None else Token(names[value])
        place += 1 if value is None else len(value)


def _values(condition: object) -> Iterator[tuple[str, str]]:
    """The slots of an act or a record that have a value with words, in their order."""
    fields: Iterator[tuple[str, object]] = iter(())
    if isinstance(condition, Act):
        fields = ((slot.name, slot.value) for slot in condition.slots)
    elif isinstance(condition, Mapping):
        fields = ((str(slot), one) for slot, value in condition.items() for one in _listed(value))
    for slot, value in fields:
        if value is not None and not isinstance(value, Mapping) and str(value).split():
            yield slot, str(value)


def _listed(value: object) -> Collection[object]:
    return value if isinstance(value, list | tuple) else [value]
