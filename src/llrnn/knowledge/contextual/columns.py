"""The columns of a table in words: their domains over a vocabulary, and how values are begun and go on.

A value is a sequence of words, w₁ … w_n. A prefix has *begun* it if it ends with w₁ … w_i for some i ≥ 1; of several i
the largest counts. Then w_{i+1} goes on with it, and nothing does if i = n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import Vocabulary

BEGUN = "begun"  # the name of the feature behind those of the columns

Words = tuple[str, ...]
Cut = Callable[[str], Sequence[str]]


class Column(NamedTuple):
    """A column of the table in words, and all words that it is an expert of."""

    name: str
    spelled: dict[str, Words]  # its values, each in words
    words: frozenset[str]  # those of its values
    domain: frozenset[str]  # and those of former tables

    @classmethod
    def of(cls, kb: KnowledgeBase, name: str, cut: Cut, others: Collection[str]) -> Column:
        spelled = {text: tuple(cut(text)) for text in kb.values(name)}
        own = frozenset(chain.from_iterable(spelled.values()))
        return cls(name, spelled, own, own.union(others))


class Bound(NamedTuple):
    """The columns over the ids of a vocabulary. There are k features: one for each column, and `begun`, the last."""

    ids: Tensor  # (D,) all words of all domains, rising
    rest: Tensor  # (k,) the values on all other words
    usual: Tensor  # (D, k) the values if nothing were right
    places: tuple[dict[str, int], ...]  # for each feature, where a word of its domain stands in `usual`, laid out flat

    @classmethod
    def to(cls, vocabulary: Vocabulary, columns: Sequence[Column]) -> Bound:
        listed = [{word: vocabulary.id(word) for word in column.domain if word in vocabulary} for column in columns]
        listed.append({word: index for own in listed for word, index in own.items()})  # `begun` is of all columns
        ids = sorted(listed[-1].values())
        at, k = {index: n for n, index in enumerate(ids)}, len(listed)
        places = tuple({word: at[index] * k + c for word, index in own.items()} for c, own in enumerate(listed))
        rest = torch.ones(k)
        rest[-1] = 0.0
        usual = rest.repeat(len(ids), 1)
        usual.view(-1)[[place for own in places for place in own.values()]] = 0.0
        return cls(torch.tensor(ids, dtype=torch.long), rest, usual, places)


def going_on(values: Iterable[Words], prefix: Words) -> set[str]:
    """The words that go on with those values that the prefix has begun."""
    found: set[str] = set()
    for words in values if prefix else ():
        said = next((n for n in range(len(words), 0, -1) if prefix[-n:] == words[:n]), len(words))
        found.update(words[said : said + 1])
    return found


def value_words(values: Iterable[str], corpus: Corpus, support: float = 0.9, cut: Cut = str.split) -> tuple[str, ...]:
    """The words of these values that sentences say as part of one: what a text has of them, it has from a table.

    As part of one: up to the word, and with it, the sentence has begun a value. It must be so in a share `support` of
    the word's occurrences; a word that does not occur could be said for no other reason.
    """
    spelled = [tuple(cut(text)) for text in values]
    begun = {words[:n] for words in spelled for n in range(1, len(words) + 1)}
    lengths, own = sorted({len(words) for words in begun}), frozenset(chain.from_iterable(spelled))
    said: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for text in (sentence.words for sentence in corpus):
        for end, word in enumerate(text, 1):
            if word in own:
                said[word] += 1
                inside[word] += any(text[end - n : end] in begun for n in lengths if n <= end)
    return tuple(sorted(word for word in own if word not in said or inside[word] / said[word] >= support))
