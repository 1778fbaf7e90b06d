"""Which words agree with which is not written down here, it is counted in annotated text.

In French a participle agrees with its subject after `être`, not after `avoir`; in Estonian a verb agrees with a subject
in the nominative, not in the partitive; in Turkish a singular subject asks for a singular verb, while a plural one
takes either. So for each configuration (kind of word, link, auxiliaries, case) and values v, w: the form with w is
wrong beside a controller with v only if

    P(target has v | controller has v)  and  P(controller has w | target has w)     are both near one.

Likewise single controllers that take either form (`on est content`, `on est contents`) are no evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from llrnn.inference.pairs.forms import NOISE
from llrnn.inference.pairs.trees import Agreement, Tree
from llrnn.text.corpus.types import Sentence, Token

SURE = 0.9  # of what the two sides are to say; annotation and collective nouns take the rest

_Key = tuple[object, ...]


def features_of(agreement: Agreement) -> tuple[str, ...]:
    """The features in which the two words may agree."""
    if agreement.link == "shared":
        return ("Number",)  # another person may be an imperative: `il monte, prenez place`
    return ("Number", "Person") if agreement.kind == "verb" else ("Number", "Gender")


class Evidence:
    """How often the two words of each configuration have which values."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.values: dict[_Key, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.of_word: dict[_Key, Counter[tuple[_Key, bool]]] = defaultdict(Counter)  # by configuration, agreed or not
        for corpus in corpora:
            for sentence in corpus:
                self._add(Tree(sentence))

    def _add(self, tree: Tree) -> None:
        for agreement in tree.agreements():
            target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
            for feature in features_of(agreement):
                own, wanted = target.feats.get(feature), controller.feats.get(feature)
                if own is not None and wanted is not None:
                    configuration = _configuration(agreement, controller, feature)
                    self.values[configuration][wanted, own] += 1
                    self.of_word[_word(agreement, controller, feature)][configuration, own == wanted] += 1

    def other_values(self, agreement: Agreement, controller: Token, feature: str) -> list[str]:
        """The values that the target cannot have beside this controller."""
        if self._takes_either(_word(agreement, controller, feature)):
            return []
        counts = self.values.get(_configuration(agreement, controller, feature), Counter[tuple[str, str]]())
        value = controller.feats[feature]
        same = counts[value, value]
        if same < SURE * sum(n for (wanted, _), n in counts.items() if wanted == value):
            return []
        targets = sorted({own for _, own in counts} - {value})
        return [w for w in targets if counts[w, w] >= SURE * sum(n for (_, own), n in counts.items() if own == w)]

    def _takes_either(self, word: _Key) -> bool:
        """Whether a controller goes with other values, in configurations where agreement is the rule."""
        seen = [(ok, n) for (place, ok), n in self.of_word.get(word, {}).items() if self._is_rule(place)]
        return sum(n for ok, n in seen if not ok) > NOISE * sum(n for _, n in seen)

    def _is_rule(self, configuration: _Key) -> bool:
        counts = self.values[configuration]
        return sum(n for (wanted, own), n in counts.items() if wanted == own) >= SURE * counts.total()


def _configuration(agreement: Agreement, controller: Token, feature: str) -> _Key:
    return agreement.kind, agreement.link, agreement.means, controller.feats.get("Case"), feature


def _word(agreement: Agreement, controller: Token, feature: str) -> _Key:
    return agreement.kind == "verb", controller.form.lower(), feature
