"""Other forms of words, by rules of endings that are learnt from word types alone; no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

MOST_FORMS = 40  # of one word
_SHORTEST_STEM, _LONGEST_ENDING = 4, 4  # letters


class Inflections:
    """Rules of how words of one stem change their endings, learnt from word types alone.

        r(e → e') = c(e, e') / (n(e) + 2)        c: stems that have both endings; n: words that end with e

    Of a word s e the other forms are s e', each with the rate of the best rule that makes it. `rules` maps e to a dict
    {e': r(e → e')}; stems have 4 letters or more, endings 0 to 4.

        Inflections.learnt(corpus.counts()).forms("chanter")
    """

    def __init__(self, rules: Mapping[str, Mapping[str, float]]) -> None:
        self.rules = {ending: dict(others) for ending, others in rules.items()}

    @classmethod
    def learnt(cls, words: Iterable[str], *, least: int = 3) -> Inflections:
        """Return the rules of endings that a set of word types shows; `words`: the types, repetitions do not count.

        A rule changes one ending into another, with the rate count / (n + 2): count stems have both endings, n words
        have the first one. It is kept if `least` stems or more have both. Words with other signs than letters are
        ignored.
        """
        of_stem: dict[str, list[str]] = {}
        for word in sorted({*words}):
            for stem, ending in _splits(word) if word.isalpha() else ():
                of_stem.setdefault(stem, []).append(ending)
        n = Counter(ending for endings in of_stem.values() for ending in endings)
        both = Counter(pair for endings in of_stem.values() for pair in permutations(endings, 2))
        rules: dict[str, dict[str, float]] = {}
        for (ending, other), count in sorted(both.items()):
            if count >= least:
                rules.setdefault(ending, {})[other] = count / (n[ending] + 2)
        return cls(rules)

    def forms(self, word: str) -> dict[str, float]:
        """Return {form: share} of the likeliest other forms of a word, at most `MOST_FORMS` (40); shares sum to 1.

        The share of a form is the rate of the best rule that makes it, divided by the sum over the forms returned; the
        largest comes first. {} if no rule fits the word.
        """
        rate: dict[str, float] = {}
        for stem, ending in _splits(word):
            for other, r in self.rules.get(ending, {}).items():
                rate[stem + other] = max(r, rate.get(stem + other, 0.0))
        best = sorted(rate.items(), key=lambda one: (-one[1], one[0]))[:MOST_FORMS]
        total = math.fsum(r for _, r in best)
        return {form: r / total for form, r in best}


def _splits(word: str) -> Iterator[tuple[str, str]]:
    """Yield the (stem, ending) pairs of a word: stems of 4 letters or more, endings of 0 to 4 letters, shortest first.

    Nothing is yielded for a word of fewer than 4 letters.
    """
    for length in range(min(_LONGEST_ENDING, len(word) - _SHORTEST_STEM) + 1):
        yield word[: len(word) - length], word[len(word) - length :]
