"""The table of a language: which readings have which role, what agrees with what, in which attributes.

    rules = AgreementRules.named("french")       # or .from_file("estonian.toml"): docs/morphology.md
    rules.role({"POS:DET", "Number:Plur"}, "les")           'determiner'

A pattern is a list of conditions, all of which a reading must meet: `VerbForm:Part Tense:Past`; one may name several
values, `Lemma:être|devenir`, `VerbForm:none` is a reading that names no form, and `form:qui|que` is the word itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError, quoted
from llrnn.ground.files import StrPath, parse_toml, read_file

Bundle = tuple[
    frozenset[str], ...
]  # for each attribute of the rules the values that are possible; none: it is not said
Pattern = tuple[tuple[str, frozenset[str]], ...]  # (name, values): one of them for each name

ROLES = frozenset(
    {
        *("end", "comma", "coordinator", "preposition", "determiner", "modifier", "noun", "name", "pronoun"),
        *("oblique", "indefinite", "possessed", "postposition", "adverbial", "quantity", "of", "likewise"),
        *("subject", "inverted", "clitic", "subject relative", "object relative", "subordinator", "verb", "copula"),
        *("perfect", "copula again", "infinitive", "gerund", "participle", "other"),
    }
)
RELATIONS = ("subject", "late subject", "attribute", "modifier", "head")
_KEYS = {
    "attributes",
    "group",
    "unmarked",
    "coordinated",
    "mixed",
    "roles",
    "relations",
    "invariable",
    "later",
    "head",
    "unsaid",
}
_RELATION_KEYS = {"words", "attributes"}


@dataclass(frozen=True)
class Relation:
    """A relation of agreement: which words stand in it, and in which attributes they agree.

    For example:

        rules.relations  # all of a language
    """

    name: str
    words: tuple[Pattern, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class AgreementRules:
    """The rules of agreement of a language: attributes, roles of words, and relations.

    Example:

        AgreementRules.named("french")
    """

    name: str
    table: Mapping[str, Any]
    attributes: tuple[str, ...]
    group: Bundle  # what a nominal group is if it does not say
    unmarked: Bundle
    coordinated: Bundle
    mixed: Bundle
    roles: tuple[tuple[str, tuple[Pattern, ...]], ...]
    relations: tuple[Relation, ...]
    invariable: frozenset[str] = frozenset()  # roles of words that say nothing of their group
    unsaid: tuple[
        tuple[str, tuple[Pattern, ...]], ...
    ] = ()  # attributes, and readings that name them and do not say them
    later: float = 0.6  # how likely a second group before the verb is its subject, and not the first
    head_last: bool = False  # of two nouns side by side: kız çocuklar; otherwise the first: le président Chirac

    @classmethod
    def named(cls, name: str) -> AgreementRules:
        """Return rules that come with the library (french, estonian, turkish), or those of a file NAME.toml."""
        if name.endswith(".toml"):
            return cls.from_file(name)
        found = resources.files("llrnn_agreement") / f"{name}.toml"
        if not found.is_file():
            raise ConfigError(f"no rules of agreement for {quoted(name)}: give {', '.join(SHIPPED)}, or a file .toml")
        return cls.from_table(parse_toml(found.read_text("utf-8")), name)

    @classmethod
    def from_file(cls, path: StrPath) -> AgreementRules:
        """Return the rules of a TOML file."""
        try:
            return cls.from_table(parse_toml(read_file(path, limit=4_000_000).decode()), Path(path).stem)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path}: rules of agreement cannot be read: {error}; give a file .toml") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "rules") -> AgreementRules:
        """Return the rules of a parsed TOML file; `name` is for messages."""
        _require_known(table, _KEYS, name, "a key")
        attributes = tuple(table.get("attributes", ()))
        if not attributes or not all(isinstance(one, str) for one in attributes):
            raise ConfigError(f"{name}: attributes = [...] must name what agrees, such as Number, found {attributes}")
        _require_known(table.get("roles", {}), ROLES, name, "a role")
        _require_known(table.get("relations", {}), RELATIONS, name, "a relation")
        roles = tuple((role, _patterns(given, f"{name}: roles.{role}")) for role, given in table["roles"].items())
        relations = []
        for relation, own in table["relations"].items():
            _require_known(own, _RELATION_KEYS, f"{name}: relations.{relation}", "a key")
            _require_known(own["attributes"], attributes, f"{name}: relations.{relation}", "an attribute")
            words = _patterns(own["words"], f"{name}: relations.{relation}")
            relations.append(Relation(relation, words, tuple(own["attributes"])))

        invariable, later, head = table.get("invariable", []), table.get("later", 0.6), table.get("head", "first")
        unsaid = table.get("unsaid", {})
        _require_known(unsaid, attributes, f"{name}: unsaid", "an attribute")
        _require_known(invariable, ROLES, f"{name}: invariable", "a role")
        if not isinstance(later, float) or not 0 <= later <= 1:
            raise ConfigError(f"{name}: later must be a share such as 0.6, found {quoted(later)}")
        if head not in ("first", "last"):
            raise ConfigError(f'{name}: head must be "first" or "last", found {quoted(head)}')

        def said(key: str) -> Bundle:
            return _bundle(str(table.get(key, "")).split(), attributes)

        return cls(
            name,
            table,
            attributes,
            group=said("group"),
            unmarked=said("unmarked"),
            coordinated=said("coordinated"),
            mixed=said("mixed"),
            roles=roles,
            relations=tuple(relations),
            invariable=frozenset(invariable),
            unsaid=tuple(
                (attribute, _patterns(own, f"{name}: unsaid.{attribute}")) for attribute, own in unsaid.items()
            ),
            later=later,
            head_last=head == "last",
        )

    def role(self, reading: Collection[str], form: str) -> str:
        """Return the first role whose patterns a reading of a form fits; `other` if none does."""
        key = frozenset(reading), form if form in self._forms else ""  # of most readings the form says nothing
        if key not in self._role_of:
            fitting = (role for role, patterns in self.roles if fits(patterns, *key))
            self._role_of[key] = next(fitting, "other")
        return self._role_of[key]

    def bundle(self, reading: Collection[str], role: str = "") -> Bundle:
        """Return the values that a reading has of each attribute, in this role."""
        return _bundle(() if role in self.invariable else self.said(reading), self.attributes)

    def said(self, reading: Collection[str]) -> list[str]:
        """Return a reading without the attributes that it names but leaves open."""
        silent = tuple(f"{attribute}:" for attribute, patterns in self.unsaid if fits(patterns, reading, ""))
        return [one for one in reading if not one.startswith(silent)] if silent else list(reading)

    @cached_property
    def lemmas(self) -> frozenset[str]:
        """The lemmas that the roles name; readings need not name others."""
        return self._values("Lemma")

    @cached_property
    def _forms(self) -> frozenset[str]:
        return self._values("form")

    @cached_property
    def _role_of(self) -> dict[tuple[frozenset[str], str], str]:
        return {}

    def _values(self, name: str) -> frozenset[str]:
        """Return the values that the roles ask for under this name."""
        patterns = [pattern for _, own in self.roles for pattern in own]
        return frozenset(value for one in patterns for own, values in one if own == name for value in values)


SHIPPED = ("estonian", "french", "turkish")


def fits(patterns: Sequence[Pattern], reading: Collection[str], form: str) -> bool:
    """Return whether a reading of a form meets all conditions of one of the patterns."""
    return any(all(_meets(reading, form, name, values) for name, values in pattern) for pattern in patterns)


def _meets(reading: Collection[str], form: str, name: str, values: frozenset[str]) -> bool:
    if name == "form":
        return form in values
    if any(f"{name}:{value}" in reading for value in values):
        return True
    return "none" in values and not any(one.startswith(f"{name}:") for one in reading)


@lru_cache(1 << 14)
def merged(first: Bundle, second: Bundle) -> Bundle:
    """Return the values of both; where they clash, those of the second."""
    return tuple((a & b or b) if a and b else a or b for a, b in zip(first, second, strict=True))


@lru_cache(1 << 14)
def clashes(first: Bundle, second: Bundle) -> int:
    """Return the number of attributes in which the two have no value in common."""
    return sum(bool(a) and bool(b) and not a & b for a, b in zip(first, second, strict=True))


def joined(first: Bundle, second: Bundle, rules: AgreementRules) -> Bundle:
    """Return the values of a coordination: plural; common values where both agree; the lowest person; else the mixed
    value.
    """
    found = []
    for name, a, b, many, mixed in zip(rules.attributes, first, second, rules.coordinated, rules.mixed, strict=True):
        same = a & b if a and b else frozenset()
        lowest = frozenset(sorted(a | b)[:1]) if name == "Person" else mixed
        found.append(many or same or lowest)
    return tuple(found)


def _bundle(attributes: Collection[str], names: Sequence[str]) -> Bundle:
    """Return the values by attribute name; two values of one attribute are both possible."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for one in attributes:
        name, _, value = one.partition(":")
        if name in found:
            found[name].add(value)
    return tuple(frozenset(found[name]) for name in names)


def _patterns(given: object, where: str) -> tuple[Pattern, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) and one.strip() for one in given):
        raise ConfigError(
            f'{where} must be a list of patterns such as ["POS:VERB VerbForm:Fin"], found {quoted(given)}'
        )
    return tuple(tuple(_condition(part, where) for part in one.split()) for one in given)


def _condition(text: str, where: str) -> tuple[str, frozenset[str]]:
    name, colon, values = text.partition(":")
    if not (name and colon and values):
        raise ConfigError(f"{where}: a condition is Name:Value, such as POS:DET or form:le|la, found {quoted(text)}")
    return name, frozenset(values.split("|"))


def _require_known(given: Collection[str], known: Collection[str], where: str, what: str) -> None:
    for one in given:
        if one not in known:
            raise ConfigError(f"{where} has {what} {quoted(one)} that is not known: give {', '.join(sorted(known))}")
