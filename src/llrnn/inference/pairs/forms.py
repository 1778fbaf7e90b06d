"""What annotated text says about forms: which one has the other number, which are ambiguous, which fit together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from llrnn.text.corpus.types import Sentence, Token

AGREEING = ("Number", "Gender", "Person")
FEW = 3  # readings that are too few to say that a form is unambiguous
NOISE = 0.02  # the share of readings that annotation gets wrong: rarer ones count for nothing

_Feats = frozenset[tuple[str, str]]
_ASIDE = ("Typo", "Foreign")  # words that are no model for others
_APOSTROPHES = ("'", "’")


class Forms:
    """Forms by lemma, part of speech and features, and the readings of each form, spelled in small letters."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.by_feats: dict[tuple[str, str, _Feats], Counter[str]] = defaultdict(Counter)
        self.readings: dict[tuple[str, str], Counter[_Feats]] = defaultdict(Counter)
        self.neighbours: Counter[tuple[str, str]] = Counter()  # a word and the first letter of the next one
        self.endings: set[tuple[str, str]] = set()  # the last letter of a word and a clitic after it
        self.elided: dict[str, set[str]] = defaultdict(set)  # lemma -> its forms with an apostrophe
        for corpus in corpora:
            for sentence in corpus:
                self._add(sentence)

    def _add(self, sentence: Sentence) -> None:
        before = ""
        for token in sentence.tokens:
            form = token.form.lower()
            if before:
                self.neighbours[before, form[0]] += 1
                self.endings.update([(before[-1], form)] if form[0] == "-" else [])
            if form.endswith(_APOSTROPHES):
                self.elided[token.lemma or form].add(form)
            before = form
            if token.pos is not None and not any(name in token.feats for name in _ASIDE):
                feats = frozenset(token.feats.items())
                self.readings[form, token.pos][feats] += 1
                if token.lemma is not None:
                    self.by_feats[token.lemma, token.pos, feats][form] += 1

    def swapped(self, token: Token, feature: str, values: Iterable[str]) -> tuple[str, str] | None:
        """The form of the same word with another value of one feature, and that value; the most frequent one."""
        if token.lemma is None or token.pos is None or any(name in token.feats for name in _ASIDE):
            return None
        found: list[tuple[int, str, str]] = []
        for value in sorted(set(values) - {token.feats[feature]}):
            feats = frozenset({**token.feats, feature: value}.items())
            counts = self.by_feats.get((token.lemma, token.pos, feats), Counter[str]())
            found += [(-count, form, value) for form, count in counts.items()]
        if not found or min(found)[1] == token.form.lower():
            return None
        _, form, value = min(found)
        return (form.capitalize() if token.form[:1].isupper() else form), value

    def could_be(self, form: str, feature: str, token: Token) -> bool:
        """Whether a form may be read as what `token` is, as far as agreement goes: then it is not wrong in its place.

        Readings of any verb or adjective count: `finis` is a participle in the plural, and a verb in the singular.
        """
        right = total = 0
        for pos in ("VERB", "AUX", "ADJ") if token.pos != "ADJ" else ("ADJ", "VERB"):
            for feats, count in self.readings.get((form.lower(), pos), {}).items():
                reading = dict(feats)
                if feature in reading and reading.get("VerbForm") == token.feats.get("VerbForm"):
                    total += count
                    right += count * agree(reading, token.feats)
        return right > NOISE * total

    def shows(self, token: Token, feature: str) -> bool:
        """Whether the form alone tells the value: `maisons` does, `pays` does not."""
        value = token.feats.get(feature)
        if value is None or token.pos is None:
            return False
        readings = self.readings.get((token.form.lower(), token.pos), Counter[_Feats]())
        others = total = 0
        for feats, count in readings.items():
            found = dict(feats).get(feature)
            total += count * (found is not None)
            others += count * (found is not None and found != value)
        return total >= FEW and others <= NOISE * total

    def fits(self, before: Token | None, good: str, bad: str, after: Token | None) -> bool:
        """Whether the wrong form can stand where the right one stood, by its letters: `c' sont` and `ne est` would be
        wrong for their spelling, not for their agreement."""
        first, last = bad[0].lower(), bad[-1].lower()
        if after is not None and after.form[0] == "-" and last != good[-1].lower():
            return (last, after.form.lower()) in self.endings
        if before is None or first == good[0].lower():
            return True
        form = before.form.lower()
        seen = self.neighbours[form, first]
        if form.endswith(_APOSTROPHES):
            return seen > 0
        return seen >= sum(self.neighbours[other, first] for other in self.elided.get(before.lemma or form, ()))


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two words have the same value of every feature of agreement that both have."""
    return all(one[name] == other[name] for name in AGREEING if name in one and name in other)
