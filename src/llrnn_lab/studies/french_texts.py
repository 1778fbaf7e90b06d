"""Other French texts written as UD French GSD is: its signs, its clitics, its contractions as two words.

    du, au, aux  ->  de le, à le, à les                    auquel, desquels, ...  ->  à lequel, de lesquels, ...
    dit-il, est-ce, a-t-elle  ->  dit -il, est -ce, a -t -elle

`des` is an article (`il a des amis`) or `de les` (`le roi des francs`), and so is `du`. What it is, is decided by the
words on both sides, by how often the training text has either between them:

    log p(two | l, r) / p(one | l, r) = logit p(two | l) + logit p(two | r) − logit p(two)

where p(two | l) is smoothed by that of words with the same ending. `Contractions.accuracy` on the validation text says
how often it is right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from llrnn.text.corpus import Corpus
from llrnn_lab.french.writing import ALWAYS, SIGNS, TWO, joined, running_words, without_clitics

_ENDS = {".", "!", "?", "..."}
_CLOSING = {"»", '"', ")"}


def sentences(line: str) -> Iterator[list[str]]:
    """A paragraph of running text as tokenised, lowercased sentences: they end where a capital or a sign follows."""
    words = running_words(line)
    begin = 0
    for place in range(1, len(words)):
        before = words[place - 1]
        ended = before in _ENDS or (before in _CLOSING and place > 1 and words[place - 2] in _ENDS)
        if ended and words[place] not in _CLOSING | _ENDS and not words[place][0].islower():
            yield [word.lower() for word in words[begin:place]]
            begin = place
    if begin < len(words):
        yield [word.lower() for word in words[begin:]]


class Contractions:
    """Writes sentences as those of a text are written that has contractions as two words."""

    def __init__(self, text: Corpus) -> None:
        self._known = set(text.counts())
        self._seen = Counter[tuple[str, bool, str]]()  # contraction, whether it is two words, a context
        for contracted, two, left, right in _events(text):
            for context in ("", f"l {left}", f"l {_ending(left)}", f"r {right}", f"r {_ending(right)}"):
                self._seen[contracted, two, context] += 1

    def written_out(self, words: Sequence[str], *, contracted: bool = True) -> list[str]:
        """The same sentence, as the text would have it; not `contracted`: what is two words is so already."""
        words = list(joined([SIGNS.get(word, word).replace("’", "'") for word in words]))
        if words and words[-1] not in self._known and words[-1].endswith(".") and len(words[-1]) > 1:
            words[-1:] = [words[-1][:-1], "."]
        found: list[str] = []
        for place, word in enumerate(words):
            if contracted and word in ALWAYS:
                found += ALWAYS[word]
            elif contracted and word in TWO and self.is_two(word, found[-1] if found else "", (*words, "")[place + 1]):
                found += TWO[word]
            else:
                found += without_clitics(word, self._known)
        return found

    def is_two(self, contracted: str, left: str, right: str) -> bool:
        """Whether it is a preposition and an article here."""
        prior = self._share(contracted, "", 0.5, 2.0)
        score = -_logit(prior)
        for side, word in (("l", left), ("r", right)):
            alike = self._share(contracted, f"{side} {_ending(word)}", prior, 4.0)
            score += _logit(self._share(contracted, f"{side} {word}", alike, 1.0))
        return score > 0

    def _share(self, contracted: str, context: str, expected: float, strength: float) -> float:
        two, one = (self._seen[contracted, which, context] for which in (True, False))
        return (two + strength * expected) / (two + one + strength)

    def accuracy(self, text: Corpus) -> dict[str, tuple[int, int]]:
        """How many of the contractions of a text would be written as they are, of how many."""
        right, all_of = Counter[str](), Counter[str]()
        for contracted, two, before, after in _events(text):
            all_of[contracted] += 1
            right[contracted] += two == (contracted in ALWAYS or self.is_two(contracted, before, after))
        return {contracted: (right[contracted], count) for contracted, count in all_of.items()}


def _events(text: Corpus) -> Iterator[tuple[str, bool, str, str]]:
    """Every place where a contraction is, or would be: whether it is two words, the word before, the word behind."""
    contracted = {two: one for one, two in TWO.items()}
    for sentence in text:
        words = ("", *sentence.words, "", "")
        for place in range(1, len(words) - 2):
            one = contracted.get((words[place], words[place + 1]))
            if one is not None:
                yield one, True, words[place - 1], words[place + 2]
            elif words[place] in TWO:
                yield words[place], False, words[place - 1], words[place + 1]


def _ending(word: str) -> str:
    return word if len(word) < 4 else f"-{word[-3:]}"


def _logit(p: float) -> float:
    return math.log(p / (1.0 - p))
