"""Affixes of a hunspell dictionary at work: which rules apply to a word, and what they make of it.

A rule strips characters from one end of a word and attaches others, if that end meets a condition:

    SFX S. il ux/D'Q' ail is:pl         a word with the flag `S.` that ends in `ail`: strip `il`, attach `ux`; the
                                        result has the flags `D'` and `Q'`, and the field `is:pl`

As in hunspell, a form is a stem with up to two suffixes (the second by the flags of the first) and up to one prefix
(by the flags of the stem or of a suffix; a prefix may in turn bring a suffix). Prefix and suffix meet only where
both allow the cross product. Compounds are not made: they are without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

__all__ = ["Affixes", "Flags", "Rule", "SpecialFlags"]

Flags = frozenset[str]
# What each character from the end of the word (the beginning, for a prefix) may be; None: anything.
Condition = tuple["CharacterClass | None", ...]


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """The characters that a place of a condition takes, or those that it refuses."""

    characters: frozenset[str]
    refused: bool = False

    def takes(self, character: str) -> bool:
        return (character in self.characters) != self.refused


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line `SFX` or `PFX`. Equal to itself only, so that tuples of rules are quick keys."""

    is_prefix: bool
    flag: str
    cross: bool
    strip: str
    affix: str
    condition: Condition
    flags: Flags
    fields: tuple[str, ...]
    alone: tuple[Rule, ...] = field(init=False, repr=False)  # this rule only, as a tuple that is made once

    def __post_init__(self) -> None:
        object.__setattr__(self, "alone", (self,))

    @property
    def reach(self) -> int:
        """How many characters of the word decide whether the rule applies."""
        return max(len(self.strip), len(self.condition))

    def applies(self, word: str, *, full_strip: bool) -> bool:
        if len(word) < len(self.condition) or (len(word) <= len(self.strip) and not full_strip and self.strip):
            return False
        if not (word.startswith(self.strip) if self.is_prefix else word.endswith(self.strip)):
            return False
        near = word[: len(self.condition)] if self.is_prefix else word[len(word) - len(self.condition) :]
        return all(place is None or place.takes(own) for place, own in zip(self.condition, near, strict=True))

    def attach(self, word: str) -> str:
        if self.is_prefix:
            return self.affix + word[len(self.strip) :]
        return word[: len(word) - len(self.strip)] + self.affix


Candidate = tuple[str, tuple[Rule, ...]]  # a form, the rules that made it


class RuleSet:
    """The rules of one kind that some flags allow. Which of them apply is remembered by the decisive end of a word."""

    def __init__(self, rules: Iterable[Rule], *, is_prefix: bool, full_strip: bool) -> None:
        self.rules, self.is_prefix, self.full_strip = tuple(rules), is_prefix, full_strip
        # One more than the reach: a strip that leaves nothing of the word is told from one that leaves something.
        self.reach = 1 + max((rule.reach for rule in self.rules), default=0)
        self.known: dict[str, tuple[Rule, ...]] = {}

    def applying_to(self, word: str) -> tuple[Rule, ...]:
        if not self.rules:
            return ()
        end = word[: self.reach] if self.is_prefix else word[-self.reach :]
        found = self.known.get(end)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.applies(end, full_strip=self.full_strip))
            self.known[end] = found
        return found


@dataclass(frozen=True, slots=True)
class SpecialFlags:
    """Flags that say something of the form instead of naming rules; `""` where the dictionary has none."""

    need_affix: str = ""  # no form without a further affix
    circumfix: str = ""  # a prefix and a suffix that only come together
    only_in_compound: str = ""
    forbidden: str = ""

    def all(self) -> tuple[str, ...]:
        return self.need_affix, self.circumfix, self.only_in_compound, self.forbidden

    def allow(self, stem_flags: Flags, rules: tuple[Rule, ...]) -> bool:
        """Whether a stem with these affixes is a form of its own."""
        if any(self.only_in_compound in flags for flags in (stem_flags, *(rule.flags for rule in rules))):
            return False
        if not rules:
            return self.need_affix not in stem_flags
        if all(self.need_affix in rule.flags for rule in rules):
            return False
        sides = {rule.is_prefix for rule in rules if self.circumfix in rule.flags}
        return not sides or len(sides) == 2


@dataclass(slots=True)
class Affixes:
    """The rules of an `.aff` file by flag, ready to be applied."""

    rules: dict[str, list[Rule]]
    special: SpecialFlags
    full_strip: bool = False
    _suffixes: dict[Flags, RuleSet] = field(default_factory=dict, repr=False)
    _prefixes: dict[Flags, RuleSet] = field(default_factory=dict, repr=False)

    def forget_idle_flags(self) -> None:
        """Drop the flags of rules that allow no rule and say nothing: a rule without flags is applied quickly."""
        used = {*self.rules, *self.special.all()}
        for flag, rules in self.rules.items():
            self.rules[flag] = [replace(rule, flags=rule.flags & used) for rule in rules]

    def derive(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        """Every form of the stem with the rules that made it; a form may come several times."""
        if self.prefixes(flags).rules or self.special.only_in_compound in flags:
            yield from self._allowed(flags, self._candidates(stem, flags))
            return
        # The usual case, made quick: no prefix, and suffixes after which nothing comes.
        if self.special.allow(flags, ()):
            yield stem, ()
        for suffix in self.suffixes(flags).applying_to(stem):
            if suffix.flags:
                yield from self._allowed(flags, self._after(suffix, stem, flags))
            else:
                yield suffix.attach(stem), suffix.alone

    def _allowed(self, flags: Flags, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        return (candidate for candidate in candidates if self.special.allow(flags, candidate[1]))

    def _candidates(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        yield from self._prefixed(stem, (), flags)
        for suffix in self.suffixes(flags).applying_to(stem):
            yield from self._after(suffix, stem, flags)
        for prefix in self.prefixes(flags).applying_to(stem):
            if prefix.cross:
                for suffix in self.suffixes(prefix.flags).applying_to(stem):
                    if suffix.cross:
                        yield prefix.attach(suffix.attach(stem)), (suffix, prefix)

    def _after(self, first: Rule, stem: str, flags: Flags) -> Iterator[Candidate]:
        """The stem with this suffix and whatever may be added to it."""
        once = first.attach(stem)
        yield from self._prefixed(once, (first,), flags)
        for second in self.suffixes(first.flags).applying_to(once):
            yield from self._prefixed(second.attach(once), (first, second), flags)

    def _prefixed(self, form: str, suffixes: tuple[Rule, ...], flags: Flags) -> Iterator[Candidate]:
        """The form as it is, and with every prefix that its stem or a suffix allows."""
        yield form, suffixes
        if all(suffix.cross for suffix in suffixes):
            for allowing in (flags, *(suffix.flags for suffix in suffixes)):
                for prefix in self.prefixes(allowing).applying_to(form):
                    if prefix.cross or not suffixes:
                        yield prefix.attach(form), (*suffixes, prefix)

    def suffixes(self, flags: Flags) -> RuleSet:
        known = self._suffixes.get(flags)
        return known if known is not None else self._chosen(self._suffixes, flags, is_prefix=False)

    def prefixes(self, flags: Flags) -> RuleSet:
        known = self._prefixes.get(flags)
        return known if known is not None else self._chosen(self._prefixes, flags, is_prefix=True)

    def _chosen(self, known: dict[Flags, RuleSet], flags: Flags, *, is_prefix: bool) -> RuleSet:
        allowed = (rule for flag in sorted(flags) for rule in self.rules.get(flag, ()) if rule.is_prefix == is_prefix)
        known[flags] = RuleSet(allowed, is_prefix=is_prefix, full_strip=self.full_strip)
        return known[flags]
