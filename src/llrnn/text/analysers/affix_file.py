"""The `.aff` file of a hunspell dictionary, read.

Taken: SET, FLAG, FULLSTRIP, NEEDAFFIX, CIRCUMFIX, FORBIDDENWORD, ONLYINCOMPOUND, AF, AM, SFX, PFX. Whatever serves
spelling suggestions or compounds is passed over. See `man 5 hunspell`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from llrnn.text.analysers.affixes import Affixes, CharacterClass, Condition, Flags, Rule, SpecialFlags
from llrnn.text.analysers.lines import Line, encoding_of, read_encoded
from llrnn.text.corpus.source import StrPath

__all__ = ["AffixFile", "read_affix_file"]

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
    affixes: Affixes

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
class _Block:
    """A header, with the number of lines that must still follow it."""

    line: Line
    missing: int
    cross: bool = False


def read_affix_file(path: StrPath, *, without: frozenset[str] = frozenset()) -> AffixFile:
    """Read it; affix rules that have a field of a name in `without` are left out."""
    encoding = encoding_of(path)
    lines = [line for line in read_encoded(path, encoding) if line.text.strip() and not line.text.startswith("#")]
    reader = _Reader(AffixFile(encoding, FlagSyntax(_flag_kind(lines)), [], Affixes({}, SpecialFlags())), without)
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


class _Reader:
    def __init__(self, file: AffixFile, without: frozenset[str]) -> None:
        self.file, self.without = file, without
        self.blocks: dict[tuple[str, str], _Block] = {}

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
            self.blocks[words[0], flag] = _Block(line, int(words[3]), words[2] == "Y")
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
            self.blocks[words[0], ""] = _Block(line, int(words[1]))
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
