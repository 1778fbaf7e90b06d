"""A hunspell dictionary as a lexicon: every form of every stem, with what the fields of stem and affixes say.

    finir/f4() po:v2_it_q__a        the stem, its flags, its fields; with
    SFX f4 r t r po:ipre po:3sg     a rule of that flag it gives
    finit                           POS:VERB VerbForm:Fin Mood:Ind Tense:Pres Person:3 Number:Sing

The attributes of a form are the union over its readings, as everywhere in this library.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import fspath, stat
from pathlib import Path

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import StrPath, read_file
from llrnn.text.analysers.tags import FRENCH, Tags, lemma_attribute
from llrnn.text.lexicon import Lexicon
from llrnn.text.source import Line, read_lines

# Affixes of a hunspell dictionary at work: which rules apply to a word, and what they make of it.
#
# A rule strips characters from one end of a word and attaches others, if that end meets a condition:
#
#     SFX S. il ux/D'Q' ail is:pl         a word with the flag `S.` that ends in `ail`: strip `il`, attach `ux`; the
#                                         result has the flags `D'` and `Q'`, and the field `is:pl`
#
# As in hunspell, a form is a stem with up to two suffixes (the second by the flags of the first) and up to one prefix
# (by the flags of the stem or of a suffix; a prefix may in turn bring a suffix). Prefix and suffix meet only where
# both allow the cross product. Compounds are not made: they are without end.


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
    """The rules of one kind that some flags allow. Which of them apply is cached by the decisive end of a word."""

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
class AffixRules:
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


# Lines of dictionary files: decoded as the `.aff` file says, and able to name the place of a fault.
#
# Hunspell dictionaries come in many encodings, named by the line `SET` of the `.aff` file. UTF-8 is read as every text
# of this library is; any other is decoded here.


_SET = re.compile(rb"^(?:\xef\xbb\xbf)?SET[ \t]+([^\s#]+)", re.MULTILINE)
# Python knows encodings that are no text at all (hex, rot13): only those that dictionaries use are taken.
_KNOWN = re.compile(r"utf-8|us-ascii|iso-?8859-\d{1,2}|koi8-[ru]|cp125\d|tis620-2533")
_PYTHON_NAMES = {"us-ascii": "ascii", "tis620-2533": "tis-620"}


def encoding_of(path: StrPath) -> str:
    """The Python name of the encoding that an `.aff` file declares; ASCII if it declares none."""
    declared = _SET.search(_content(path))
    if declared is None:
        return "ascii"
    name = declared[1].decode("latin-1")
    normal = name.lower().removeprefix("microsoft-")
    python_name = _PYTHON_NAMES.get(normal, normal)
    try:
        if not _KNOWN.fullmatch(normal):
            raise LookupError
        return "".encode(python_name).decode() or python_name
    except LookupError:
        line = _content(path)[: declared.start(1)].count(b"\n") + 1
        reason = f"an encoding of dictionaries is required after SET, found {name!r}; convert the files to UTF-8"
        raise LexiconError(reason, path=path, line=line, column=5) from None


def read_encoded(path: StrPath, encoding: str) -> Iterator[Line]:
    """The lines of the file."""
    numbered = read_lines(path, error=LexiconError) if encoding == "utf-8" else _decoded(path, encoding)
    for number, text in numbered:
        yield Line(path, number, text, LexiconError)


def _decoded(path: StrPath, encoding: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(_content(path).removesuffix(b"\n").split(b"\n"), 1):
        try:
            yield number, raw.removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as cause:
            declared = "no SET line declares its encoding" if encoding == "ascii" else f"SET declares {encoding}"
            reason = f"here is the byte 0x{raw[cause.start]:02x}, but {declared}; correct the line SET of the .aff file"
            raise LexiconError(reason, path=path, line=number, column=cause.start + 1) from cause


def _content(path: StrPath) -> bytes:
    try:
        content = read_file(path)
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, ValueError, EOFError, zlib.error):
        for _ in read_lines(path, error=LexiconError):  # says what is wrong in the words used everywhere
            pass
        raise LexiconError("the file cannot be read", path=path) from None


# The `.aff` file of a hunspell dictionary, read.
#
# Taken: SET, FLAG, FULLSTRIP, NEEDAFFIX, CIRCUMFIX, FORBIDDENWORD, ONLYINCOMPOUND, AF, AM, SFX, PFX. Whatever serves
# spelling suggestions or compounds is passed over. See `man 5 hunspell`.


_SPECIAL = {
    "NEEDAFFIX": "need_affix",
    "PSEUDOROOT": "need_affix",
    "CIRCUMFIX": "circumfix",
    "ONLYINCOMPOUND": "only_in_compound",
    "FORBIDDENWORD": "forbidden",
}
_NONE: Flags = frozenset()
_PLACE = re.compile(r"\[(\^?)([^\[\]]+)\]|(\.)|([^\[\]])")
_SLASH = re.compile(r"(?<=[^\\])/")
_LARGEST_FLAG = 65535


@dataclass(slots=True)
class FlagSyntax:
    """How flags are written: `short` and `UTF-8` one character each, `long` two, `num` numbers with commas."""

    kind: str = "short"
    aliases: list[Flags] = field(default_factory=list)
    known: dict[str, Flags] = field(default_factory=dict)

    def read(self, text: str, line: Line) -> Flags:
        """The flags written as `text`, or named by its number if the file has aliases (AF)."""
        if text not in self.known:
            self.known[text] = self._alias(text, line) if self.aliases else self.split(text, line)
        return self.known[text]

    def _alias(self, text: str, line: Line) -> Flags:
        if not _is_number(text) or not 1 <= int(text) <= len(self.aliases):
            line.fail(f"the number of an alias, 1 to {len(self.aliases)}, is required, found {text!r}; see AF", text)
        return self.aliases[int(text) - 1]

    def split(self, text: str, line: Line) -> Flags:
        if not text or re.search(r"\s", text):
            line.fail("flags without spaces are required after the slash; write \\/ for a slash in a word", "/")
        if self.kind == "long":
            if len(text) % 2:
                line.fail(f"flags of two characters each are required (FLAG long), found {text!r}; correct it", text)
            return frozenset(text[start : start + 2] for start in range(0, len(text), 2))
        if self.kind == "num":
            return frozenset(self._number(part, line) for part in text.split(","))
        return frozenset(text)

    def _number(self, text: str, line: Line) -> str:
        if not _is_number(text) or not 1 <= int(text) <= _LARGEST_FLAG:
            line.fail(f"a flag must be a number from 1 to {_LARGEST_FLAG} (FLAG num), found {text!r}", text)
        return str(int(text))

    def one(self, text: str, line: Line) -> str:
        """The single flag written as `text`."""
        flags = self.split(text, line)
        if len(flags) != 1:
            line.fail(f"one flag is required, found {text!r}, which is {len(flags)} (FLAG {self.kind})", text)
        return min(flags)


@dataclass(slots=True)
class AffixFile:
    """What an `.aff` file says: the rules, and how to read the `.dic` file that belongs to it."""

    encoding: str
    flags: FlagSyntax
    field_aliases: list[tuple[str, ...]]
    affixes: AffixRules

    def fields(self, text: str, line: Line) -> tuple[str, ...]:
        """The fields written as `text`: separated by spaces, or the number of an alias (AM)."""
        if not self.field_aliases or not _is_number(text):
            return tuple(text.split())
        if not 1 <= int(text) <= len(self.field_aliases):
            line.fail(
                f"the number of an alias, 1 to {len(self.field_aliases)}, is required, found {text}; see AM", text
            )
        return self.field_aliases[int(text) - 1]


@dataclass(slots=True)
class _AffixBlock:
    """A header, with the number of lines that must still follow it."""

    line: Line
    missing: int
    cross: bool = False


def read_affix_file(path: StrPath, *, without: frozenset[str] = frozenset()) -> AffixFile:
    """Read it; affix rules that have a field of a name in `without` are left out."""
    encoding = encoding_of(path)
    lines = [line for line in read_encoded(path, encoding) if line.text.strip() and not line.text.startswith("#")]
    reader = _AffixFileReader(
        AffixFile(encoding, FlagSyntax(_flag_kind(lines)), [], AffixRules({}, SpecialFlags())), without
    )
    for line in lines:
        reader.read(line)
    reader.check_counts()
    reader.file.affixes.forget_idle_flags()
    return reader.file


def split_flags(text: str) -> tuple[str, str | None]:
    """A word or affix and its flags: the first slash separates them, unless it begins the word or is escaped."""
    slash = _SLASH.search(text)
    word, flags = (text[: slash.start()], text[slash.end() :]) if slash else (text, None)
    return word.replace("\\/", "/"), flags


class _AffixFileReader:
    def __init__(self, file: AffixFile, without: frozenset[str]) -> None:
        self.file, self.without = file, without
        self.blocks: dict[tuple[str, str], _AffixBlock] = {}

    def read(self, line: Line) -> None:
        words = line.text.split()
        affixes = self.file.affixes
        match words[0]:
            case "PFX" | "SFX":
                self.affix(line, words)
            case "AF" | "AM":
                self.alias(line, words)
            case "FULLSTRIP":
                affixes.full_strip = True
            case "COMPLEXPREFIXES":
                line.fail("one prefix a word is all that is read here, found COMPLEXPREFIXES; give a list of forms")
            case name if name in _SPECIAL:
                flag = self.file.flags.one(words[1] if len(words) > 1 else "", line)
                affixes.special = replace(affixes.special, **{_SPECIAL[name]: flag})

    def affix(self, line: Line, words: list[str]) -> None:
        if len(words) < 4:
            line.fail("a header (SFX flag Y count) or a rule (SFX flag strip affix condition) is required; complete it")
        flag = self.file.flags.one(words[1], line)
        block = self.blocks.get((words[0], flag))
        if block is None or not block.missing:
            if words[2] not in ("Y", "N") or not _is_number(words[3]):
                reason = f"a header {words[0]} {words[1]} Y or N, count is required before its rules"
                line.fail(f"{reason}, and a rule for each of that count; write or correct it", words[2])
            self.blocks[words[0], flag] = _AffixBlock(line, int(words[3]), words[2] == "Y")
            return
        block.missing -= 1
        rule = self.rule(line, flag, block.cross)
        if not any(field.partition(":")[0] in self.without for field in rule.fields):
            self.file.affixes.rules.setdefault(flag, []).append(rule)

    def rule(self, line: Line, flag: str, cross: bool) -> Rule:
        kind, _, strip, attached, condition, fields = [*line.text.split(maxsplit=5), ".", ""][:6]
        if len(line.text.split()) == 4:  # without a condition
            condition, fields = ".", ""
        affix, flags = split_flags(attached)
        return Rule(
            is_prefix=kind == "PFX",
            flag=flag,
            cross=cross,
            strip="" if strip == "0" else strip,
            affix="" if affix == "0" else affix,
            condition=_condition(condition, line),
            flags=_NONE if flags is None else self.file.flags.read(flags, line),
            fields=self.file.fields(fields.strip(), line),
        )

    def alias(self, line: Line, words: list[str]) -> None:
        block = self.blocks.get((words[0], ""))
        if block is None:
            if len(words) < 2 or not _is_number(words[1]):
                line.fail(f"the first line {words[0]} must give the number of aliases; write it")
            self.blocks[words[0], ""] = _AffixBlock(line, int(words[1]))
            return
        if not block.missing:
            line.fail(f"there are more lines {words[0]} than line {block.line.number} says; correct the number there")
        block.missing -= 1
        if words[0] == "AM":
            self.file.field_aliases.append(tuple(words[1:]))
        else:
            self.file.flags.aliases.append(self.file.flags.split(words[1] if len(words) > 1 else "", line))

    def check_counts(self) -> None:
        for (kind, flag), block in self.blocks.items():
            if block.missing:
                what = f"{kind} {flag}".strip()
                block.line.fail(f"{block.missing} more lines {what} are required by this count; correct it or add them")


def _flag_kind(lines: list[Line]) -> str:
    for line in lines:
        words = line.text.split()
        if words[0] == "FLAG":
            if len(words) < 2 or words[1] not in ("long", "num", "UTF-8"):
                line.fail(f"long, num or UTF-8 is required after FLAG, found {' '.join(words[1:2]) or 'nothing'}")
            return words[1]
    return "short"


def _condition(text: str, line: Line) -> Condition:
    """`.` for anything, a character for itself, `[abc]` for one of these, `[^abc]` for one not of these."""
    if text == ".":
        return ()
    places: list[CharacterClass | None] = []
    position = 0
    while position < len(text):
        match = _PLACE.match(text, position)
        if match is None:
            line.fail(f"a condition must be made of characters, . and [...] or [^...], found {text!r}", text)
        refused, several, anything, single = match.groups()
        places.append(None if anything else CharacterClass(frozenset(several or single), refused == "^"))
        position = match.end()
    return tuple(places)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


_TAGS_BY_LANGUAGE = {"fr": FRENCH}
# Fields begin at the first `xx:` after white space, so that words with spaces are possible; a TAB always ends the word.
_FIELDS = re.compile(r"[ \t]+(?=[^\s:]{2}:)|\t")


def hunspell(
    dic: StrPath,
    *,
    aff: StrPath | None = None,
    tags: Tags | None = None,
    lowercase: bool = True,
    lemmas: bool = False,
    forms: Iterable[str] | None = None,
) -> Lexicon:
    """All forms of a hunspell dictionary, with the attributes that `tags` gives to their fields.

    `aff` is the file of affixes, by default the one beside the dictionary. `tags` is by default the table for the
    language that the name of the file begins with (`fr.dic`, `fr_FR.dic`). `lemmas` adds `Lemma:` and the stem (white
    space, commas and bars in it become `_`). With `forms`, only these are kept: a large dictionary makes millions.
    Forms without attributes are left out. The last few results are kept in memory, as long as the files are the same.
    """
    affix_path = _beside(dic) if aff is None else aff
    wanted = None if forms is None else frozenset(form.lower() if lowercase else form for form in forms)
    paths = tuple((fspath(path), _stamp(path)) for path in (dic, affix_path))
    return _expanded(paths, _tags_for(dic) if tags is None else tags, lowercase, lemmas, wanted)


def _beside(dic: StrPath) -> str:
    name = fspath(dic)
    if not name.endswith(".dic"):
        raise LexiconError("a dictionary NAME.dic is required, or aff=, its file of affixes; give one", path=dic)
    return f"{name.removesuffix('.dic')}.aff"


def _tags_for(dic: StrPath) -> Tags:
    language = re.split(r"[-_.]", Path(dic).name)[0]
    if language not in _TAGS_BY_LANGUAGE:
        known = ", ".join(sorted(_TAGS_BY_LANGUAGE))
        reason = f"tags= is required for the language {language!r} (known: {known}); say what its fields mean"
        raise LexiconError(reason, path=dic)
    return _TAGS_BY_LANGUAGE[language]


def _stamp(path: StrPath) -> tuple[int, int] | None:
    """Changes when the file does; None for a file that is not there, which reading it will report."""
    try:
        status = stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _expanded(
    paths: tuple[tuple[str, object], ...], tags: Tags, lowercase: bool, lemmas: bool, wanted: frozenset[str] | None
) -> Lexicon:
    (dic, _), (aff, _) = paths
    expansion = _Expansion(read_affix_file(aff, without=tags.joins), tags, lowercase, lemmas, wanted)
    for line in _entries(dic, expansion.file.encoding):
        expansion.add(line)
    return Lexicon(expansion.table())


def _entries(dic: str, encoding: str) -> Iterator[Line]:
    """The lines with words: after the first, which counts them, roughly; one that begins with a TAB is a comment."""
    lines = read_encoded(dic, encoding)
    first = next(lines, None)
    if first is None or not re.fullmatch(r"\s*[0-9]+\s*", first.text):
        reason = "the first line must be the number of words; was the file written by hunspell's tools?"
        (first or Line(dic, 1, "", LexiconError)).fail(reason)
    return (line for line in lines if line.text.strip() and not line.text.startswith("\t"))


class _Expansion:
    """The table of forms in the making."""

    def __init__(
        self, file: AffixFile, tags: Tags, lowercase: bool, lemmas: bool, wanted: frozenset[str] | None
    ) -> None:
        self.file, self.tags, self.wanted = file, tags, wanted
        self.lowercase, self.lemmas = lowercase, lemmas
        self.found: dict[str, frozenset[str]] = {}
        self.forbidden: set[str] = set()
        # fields of a stem -> rules -> attributes: few combinations for many forms
        self.known: dict[frozenset[str], dict[tuple[Rule, ...], frozenset[str]]] = {}

    def add(self, line: Line) -> None:
        """Enter every form of one stem."""
        stem, flags, fields = self._entry(line)
        if self.file.affixes.special.forbidden in flags:
            self.forbidden.add(stem)
            return
        meant = self.tags.of_stem(stem, fields)
        known = self.known.setdefault(meant, {})
        lemma = self._lemma(stem, fields) if self.lemmas else _NONE
        for form, rules in self.file.affixes.derive(stem, flags):
            if self.wanted is None or self._normal(form) in self.wanted:
                attributes = known.get(rules)
                if attributes is None:
                    attributes = known[rules] = self._attributes(meant, rules)
                if attributes:
                    _enter(self.found, form, attributes | lemma)

    def _entry(self, line: Line) -> tuple[str, Flags, frozenset[str]]:
        word, fields = line.text, ""
        cut = _FIELDS.search(word)
        if cut:
            word, fields = word[: cut.start()], word[cut.end() :].strip()
        stem, flags = split_flags(word.rstrip())
        if not stem:
            line.fail("a word is required at the beginning of the line; write it, or delete the line")
        allowed = _NONE if flags is None else self.file.flags.read(flags, line)
        return stem, allowed, frozenset(self.file.fields(fields, line))

    def _attributes(self, fields: frozenset[str], rules: tuple[Rule, ...]) -> frozenset[str]:
        return self.tags.attributes((*fields, *(field for rule in rules for field in rule.fields)))

    def _lemma(self, stem: str, fields: frozenset[str]) -> frozenset[str]:
        given = {field.removeprefix("st:") for field in fields if field.startswith("st:")} - {""}
        return frozenset(lemma_attribute(self._normal(lemma)) for lemma in given or {stem})

    def _normal(self, form: str) -> str:
        return form.lower() if self.lowercase else form

    def table(self) -> dict[str, frozenset[str]]:
        """The forms that may be used; equal sets of attributes are one object, since there are few."""
        shared: dict[frozenset[str], frozenset[str]] = {}
        made: dict[str, frozenset[str]] = {}
        for form, attributes in self.found.items():
            if form and form not in self.forbidden:
                _enter(made, self._normal(form), attributes)
        return {form: shared.setdefault(attributes, attributes) for form, attributes in made.items()}


def _enter(table: dict[str, frozenset[str]], form: str, attributes: frozenset[str]) -> None:
    before = table.get(form)
    if before is None:
        table[form] = attributes
    elif not attributes <= before:
        table[form] = before | attributes
