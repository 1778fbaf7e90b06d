"""Lists of terms as *search*: `TermScore` adds a weight for each completed term to the score of a hypothesis.

    score(x_1 … x_n) = log p(x_1 … x_n) + Σ_g weight_g · completed terms of g
    gain(q, x)       = weights of the terms completed by x + V(δ(q, x)) − V(q)            V = 0 at both ends of a text

V(q), the potential, is what the begun terms would earn: for each beginning of a word in q from which a term may still
come, the largest weight_g · (bytes that stand there) / (bytes of the term). So gains come early, what a term was given
is taken back where it breaks off, and their sum over a text is that of completed terms, in whatever way it is cut.
`llrnn.inference.terms` has lists as *model*: probabilities, normalised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.contextual.terms import START, Begun, TermLists
from llrnn.text.token_bytes import Spelled, spelling
from llrnn.text.vocabulary import EOS

Groups = Mapping[str, Iterable[str]] | TermLists


def weights_of(lists: TermLists, weight: float | Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each group: the same number for all, or those of a mapping, 0 for groups without one."""
    of_group = weight if isinstance(weight, Mapping) else dict.fromkeys(lists.groups, weight)
    unknown = sorted({*of_group} - {*lists.groups})
    if unknown:
        raise ConfigError(f"weights are of the groups {', '.join(lists.groups)}, found {unknown[0]!r}; correct it")
    if not all(map(math.isfinite, of_group.values())):
        raise ConfigError(f"weights of terms must be finite numbers, found {dict(of_group)}; correct them")
    return {g: float(of_group.get(g, 0.0)) for g in lists.groups}


class TermScore:
    """Lists of terms as search: what each symbol of a hypothesis adds to its score, not normalised, nothing lost.

    `groups`, `weight`: as of `bias`; `spelled`: how symbols spell text, "words" (a blank before each), "bytes" (tokens
    of a byte-level BPE) or "pieces" (SentencePiece). A term counts where the word ends with it: each occurrence counts,
    also of terms that overlap or begin alike, and once for each group that lists it. Bytes of a character that is cut
    are taken for parts of a word. For beams and recognisers:

        names = TermScore({"products": ["Valkyria", "New York"]}, weight=3.0)
        gain, state = names.gain(names.start, "New")                  # 3 · 3/8, taken back if "York" does not follow
        names.total(["We", "sell", "New", "York", "Valkyria"])        # 6.0: what all gains add up to, the end included
    """

    start = START

    def __init__(self, groups: Groups, weight: float | Mapping[str, float], *, spelled: Spelled = "words") -> None:
        self.lists, self.spelled = groups if isinstance(groups, TermLists) else TermLists(groups), spelled
        self._weight = [*weights_of(self.lists, weight).values()]
        self._of_byte = np.array(self._weight)[self.lists.group] / [len(term) for term in self.lists.terms]

    def potential(self, state: Begun) -> float:
        """Return V(q): for each beginning, the weight of its best term times the share of that term's bytes there."""
        return sum(depth * float(self._of_byte[first:last].max()) for first, last, depth in state.nodes)

    def gain(self, state: Begun, symbol: str) -> tuple[float, Begun]:
        """Return what a symbol adds to the score of a hypothesis, and the state after it; EOS ends the text."""
        earned, after = self._earned(state, symbol)
        return earned + self.potential(after) - self.potential(state), after

    def total(self, symbols: Iterable[str]) -> float:
        """Return Σ weight of the completed terms of a whole text: what all gains and that of EOS add up to."""
        state, total = START, 0.0
        for symbol in (*symbols, EOS):
            earned, state = self._earned(state, symbol)
            total += earned
        return total

    def _earned(self, state: Begun, symbol: str) -> tuple[float, Begun]:
        """Return the weights of the terms that are completed where a symbol follows, and the state after it."""
        ended = START, self.lists.completed(state.nodes)
        after, found = ended if symbol == EOS else self.lists.read(state, spelling(symbol, self.spelled))
        return sum(self._weight[g] for g in found), after
