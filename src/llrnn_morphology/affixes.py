"""The `.aff` file of a hunspell dictionary: rules that make forms of stems, and the encoding of both files.

Taken of it: SET, FLAG, FULLSTRIP, NEEDAFFIX, CIRCUMFIX, FORBIDDENWORD, ONLYINCOMPOUND, AF, AM, SFX, PFX. Whatever
serves spelling suggestions or compounds (they are without end) is passed over. See `man 5 hunspell`. Dictionaries come
in many encodings, named by the line `SET`: UTF-8 is read as every text of llrnn is; any other is decoded here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import StrPath, read_file
from llrnn.text.morphology import attribute_value
from llrnn.text.readers import Line, read_lines

T = TypeVar("T")

# Fields begin at the first `xx:` after white space, so that words with spaces are possible; a TAB always ends the word.
_FIELDS = re.compile(r"[ \t]+(?=[^\s:]{2}:)|\t")
_SET = re.compile(rb"^(?:\xef\xbb\xbf)?SET[ \t]+([^\s#]+)", re.MULTILINE)
# Python knows encodings that are no text at all (hex, rot13): only those that dictionaries use are taken.
_KNOWN = re.compile(r"utf-8|us-ascii|iso-?8859-\d{1,2}|koi8-[ru]|cp125\d|tis620-2533")
_PYTHON_NAMES = {"us-ascii": "ascii", "tis620-2533": "tis-620"}


def encoding_of(path: StrPath) -> str:
    """Return the Python name of the encoding that an `.aff` file declares, ASCII if none."""
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
    """Return the lines of a file in the given encoding, with their places."""
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


Flags = frozenset[str]
_NONE: Flags = frozenset()
_SPECIAL = {
    "NEEDAFFIX": "need_affix",
    "PSEUDOROOT": "need_affix",
    "CIRCUMFIX": "circumfix",
    "ONLYINCOMPOUND": "only_in_compound",
    "FORBIDDENWORD": "forbidden",
}
_PLACE = re.compile(r"\[(\^?)([^\[\]]+)\]|([^\[\]])")  # of a condition: characters to take or to refuse, or one
_SLASH = re.compile(r"(?<=[^\\])/")
_LARGEST_FLAG = 65535


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line `SFX` or `PFX`: strip characters from one end of a word and attach others, if it meets a condition.

        SFX S. il ux/D'Q' ail is:pl         a word with the flag `S.` that ends in `ail`: strip `il`, attach `ux`; the
                                            result has the flags `D'` and `Q'`, and the field `is:pl`

    Equal to itself only, so that tuples of rules are quick keys.
    """

    is_prefix: bool
    cross: bool  # whether it may come together with an affix at the other end
    strip: str
    affix: str
    condition: re.Pattern[str]
    reach: int  # how many characters of the word decide whether the rule applies
    flags: Flags
    fields: tuple[str, ...]

    @property
    def name(self) -> str:
        """The affix as an attribute: `Affix:-ux`, `Affix:re-`."""
        affix = attribute_value(self.affix)
        return f"Affix:{affix}-" if self.is_prefix else f"Affix:-{affix}"

    def applies(self, word: str, *, full_strip: bool) -> bool:
        """Return whether a word meets the condition; `full_strip`: whether the whole word may be stripped."""
        ends = word.startswith(self.strip) if self.is_prefix else word.endswith(self.strip)
        whole = bool(self.strip) and len(word) <= len(self.strip) and not full_strip
        return ends and not whole and self.condition.fullmatch(word) is not None

    def attach(self, word: str) -> str:
        """Return the word with the affix in place of the stripped characters."""
        if self.is_prefix:
            return self.affix + word[len(self.strip) :]
        return word[: len(word) - len(self.strip)] + self.affix


Candidate = tuple[str, tuple[Rule, ...]]  # a form, the rules that made it


class RuleSet:
    """The prefix or suffix rules that some flags allow; those that apply are cached by the decisive end of a word."""

    def __init__(self, rules: Iterable[Rule], *, is_prefix: bool, full_strip: bool) -> None:
        self.rules, self.is_prefix, self.full_strip = tuple(rules), is_prefix, full_strip
        # One more than the reach: a strip that leaves nothing of the word is told from one that leaves something.
        self.reach = 1 + max((rule.reach for rule in self.rules), default=0)
        self.known: dict[str, tuple[Rule, ...]] = {}

    def applying_to(self, word: str) -> tuple[Rule, ...]:
        """Return the rules whose condition a word meets."""
        if not self.rules:
            return ()
        end = word[: self.reach] if self.is_prefix else word[-self.reach :]
        found = self.known.get(end)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.applies(end, full_strip=self.full_strip))
            self.known[end] = found
        return found


@dataclass(slots=True)
class _Block:
    """A header line, with the number of lines that must still follow it."""

    line: Line
    missing: int
    cross: bool = False


class AffixFile:
    """A hunspell `.aff` file: its rules by flag, and how to parse the `.dic` file that belongs to it.

    A form is a stem with up to two suffixes (the second by the flags of the first) and up to one prefix (by the flags
    of the stem or of a suffix; a prefix may in turn bring a suffix), as in hunspell. Prefix and suffix combine only
    where both allow the cross product. Rules with a field of a name in `without` are left out.

        AffixFile("fr.aff")
    """

    def __init__(self, path: StrPath, *, without: frozenset[str] = frozenset()) -> None:
        self.encoding, self._without = encoding_of(path), without
        self.rules: dict[str, list[Rule]] = {}
        self.full_strip = False
        # Flags that say something of the form instead of naming rules; "" where the dictionary has none.
        self.need_affix = self.circumfix = self.only_in_compound = self.forbidden = ""
        self._blocks: dict[tuple[str, str], _Block] = {}
        self._flag_aliases: list[Flags] = []
        self._field_aliases: list[tuple[str, ...]] = []
        self._known_flags: dict[str, Flags] = {}
        self._rule_sets: dict[tuple[bool, Flags], RuleSet] = {}
        content = read_encoded(path, self.encoding)
        lines = [line for line in content if line.text.strip() and not line.text.startswith("#")]
        self._flag_kind = _flag_kind(lines)
        for line in lines:
            self._read(line)
        self._check_counts()
        # Flags of rules that allow no rule and say nothing are dropped: a rule without flags is applied quickly.
        special = {self.need_affix, self.circumfix, self.only_in_compound, self.forbidden}
        used = special.union(self.rules)
        for flag, rules in self.rules.items():
            self.rules[flag] = [replace(rule, flags=rule.flags & used) for rule in rules]
        self._has_special_flags = special != {""}

    def derive(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        """Return every form of a stem with the rules that made it; forms may repeat."""
        found = self._candidates(stem, flags)
        return (one for one in found if self._is_form(flags, one[1])) if self._has_special_flags else found

    def _candidates(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        suffixed: list[Candidate] = [(stem, ())]
        for first in self._applying(stem, flags):
            once = first.attach(stem)
            suffixed.append((once, (first,)))
            suffixed += [(second.attach(once), (first, second)) for second in self._applying(once, first.flags)]
        flags_at_hand = {flags}.union(suffix.flags for _, suffixes in suffixed for suffix in suffixes)
        if not any(self._rule_set(one, is_prefix=True).rules for one in flags_at_hand):  # the usual case, made quick
            yield from suffixed
            return
        for form, suffixes in suffixed:
            yield form, suffixes
            if all(suffix.cross for suffix in suffixes):
                for allowing in (flags, *(suffix.flags for suffix in suffixes)):
                    for prefix in self._applying(form, allowing, is_prefix=True):
                        if prefix.cross or not suffixes:
                            yield prefix.attach(form), (*suffixes, prefix)
        for prefix in self._applying(stem, flags, is_prefix=True):
            for suffix in self._applying(stem, prefix.flags):
                if prefix.cross and suffix.cross:
                    yield prefix.attach(suffix.attach(stem)), (suffix, prefix)

    def _applying(self, word: str, flags: Flags, *, is_prefix: bool = False) -> tuple[Rule, ...]:
        """Return the rules that some flags allow and that apply to this end of a word."""
        return self._rule_set(flags, is_prefix=is_prefix).applying_to(word) if flags else ()

    def _rule_set(self, flags: Flags, *, is_prefix: bool) -> RuleSet:
        found = self._rule_sets.get((is_prefix, flags))
        if found is None:
            allowed = (rule for flag in sorted(flags) for rule in self.rules.get(flag, ()))
            rules = (rule for rule in allowed if rule.is_prefix == is_prefix)
            found = RuleSet(rules, is_prefix=is_prefix, full_strip=self.full_strip)
            self._rule_sets[is_prefix, flags] = found
        return found

    def _is_form(self, stem_flags: Flags, rules: tuple[Rule, ...]) -> bool:
        """Return whether a stem with these affixes is a complete word."""
        if self.only_in_compound in stem_flags or (not rules and self.need_affix in stem_flags):
            return False
        if not rules or (len(rules) == 1 and not rules[0].flags):
            return True
        if any(self.only_in_compound in rule.flags for rule in rules):
            return False
        # a circumfix is a prefix and a suffix that only come together
        sides = {rule.is_prefix for rule in rules if self.circumfix in rule.flags}
        return len(sides) != 1 and not all(self.need_affix in rule.flags for rule in rules)

    def flags(self, text: str | None, line: Line) -> Flags:
        """Return the flags written as `text`, or those of the alias with that number (AF)."""
        if text is None:
            return _NONE
        if text not in self._known_flags:
            aliased = self._flag_aliases
            self._known_flags[text] = _alias(aliased, text, line, "AF") if aliased else self._split(text, line)
        return self._known_flags[text]

    def fields(self, text: str, line: Line) -> tuple[str, ...]:
        """Return the fields written as `text`, separated by spaces, or those of the alias with that number (AM)."""
        if self._field_aliases and _is_number(text):
            return _alias(self._field_aliases, text, line, "AM")
        return tuple(text.split())

    def entry(self, line: Line) -> tuple[str, Flags, frozenset[str]]:
        """Return the stem, the flags and the fields of a line of the `.dic` file."""
        word, fields = line.text, ""
        cut = _FIELDS.search(word)
        if cut:
            word, fields = word[: cut.start()], word[cut.end() :].strip()
        stem, flags = split_flags(word.rstrip())
        if not stem:
            line.fail("a word is required at the beginning of the line; write it, or delete the line")
        return stem, self.flags(flags, line), frozenset(self.fields(fields, line))

    def _split(self, text: str, line: Line) -> Flags:
        """Split a text into flags of one character (`short`, `UTF-8`), two (`long`), or numbers with commas (`num`)."""
        if not text or re.search(r"\s", text):
            line.fail("flags without spaces are required after the slash; write \\/ for a slash in a word", "/")
        if self._flag_kind == "long":
            if len(text) % 2:
                line.fail(f"flags of two characters each are required (FLAG long), found {text!r}; correct it", text)
            return frozenset(text[start : start + 2] for start in range(0, len(text), 2))
        if self._flag_kind != "num":
            return frozenset(text)
        for part in text.split(","):
            if not _is_number(part) or not 1 <= int(part) <= _LARGEST_FLAG:
                line.fail(f"a flag must be a number from 1 to {_LARGEST_FLAG} (FLAG num), found {part!r}", part)
        return frozenset(str(int(part)) for part in text.split(","))

    def _one_flag(self, text: str, line: Line) -> str:
        flags = self._split(text, line)
        if len(flags) != 1:
            line.fail(f"one flag is required, found {text!r}, which is {len(flags)} (FLAG {self._flag_kind})", text)
        return min(flags)

    def _read(self, line: Line) -> None:
        words = line.text.split()
        match words[0]:
            case "PFX" | "SFX":
                self._read_affix(line, words)
            case "AF" | "AM":
                self._read_alias(line, words)
            case "FULLSTRIP":
                self.full_strip = True
            case "COMPLEXPREFIXES":
                line.fail("one prefix a word is all that is read here, found COMPLEXPREFIXES; give a list of forms")
            case name if name in _SPECIAL:
                setattr(self, _SPECIAL[name], self._one_flag(words[1] if len(words) > 1 else "", line))

    def _read_affix(self, line: Line, words: list[str]) -> None:
        if len(words) < 4:
            line.fail("a header (SFX flag Y count) or a rule (SFX flag strip affix condition) is required; complete it")
        flag = self._one_flag(words[1], line)
        block = self._blocks.get((words[0], flag))
        if block is None or not block.missing:
            if words[2] not in ("Y", "N") or not _is_number(words[3]):
                reason = f"a header {words[0]} {words[1]} Y or N, count is required before its rules"
                line.fail(f"{reason}, and a rule for each of that count; write or correct it", words[2])
            self._blocks[words[0], flag] = _Block(line, int(words[3]), words[2] == "Y")
            return
        block.missing -= 1
        rule = self._rule(line, block.cross)
        if not any(field.partition(":")[0] in self._without for field in rule.fields):
            self.rules.setdefault(flag, []).append(rule)

    def _rule(self, line: Line, cross: bool) -> Rule:
        # the condition, `.` for none, and the fields may be left out
        kind, _, strip, attached, condition, fields = (*line.text.split(maxsplit=5), ".", "")[:6]
        if len(line.text.split()) == 4:
            fields = ""
        affix, flags = split_flags(attached)
        strip, affix = ("" if text == "0" else text for text in (strip, affix))
        pattern, places = _condition(condition, kind == "PFX")
        if pattern is None:
            line.fail(f"a condition must be made of characters, . and [...] or [^...], found {condition!r}", condition)
        reach, own = max(len(strip), places), self.fields(fields.strip(), line)
        return Rule(kind == "PFX", cross, strip, affix, pattern, reach, self.flags(flags, line), own)

    def _read_alias(self, line: Line, words: list[str]) -> None:
        block = self._blocks.get((words[0], ""))
        if block is None:
            if len(words) < 2 or not _is_number(words[1]):
                line.fail(f"the first line {words[0]} must give the number of aliases; write it")
            self._blocks[words[0], ""] = _Block(line, int(words[1]))
            return
        if not block.missing:
            line.fail(f"there are more lines {words[0]} than line {block.line.number} says; correct the number there")
        block.missing -= 1
        if words[0] == "AM":
            self._field_aliases.append(tuple(words[1:]))
        else:
            self._flag_aliases.append(self._split(words[1] if len(words) > 1 else "", line))

    def _check_counts(self) -> None:
        for (kind, flag), block in self._blocks.items():
            if block.missing:
                what = f"{kind} {flag}".strip()
                block.line.fail(f"{block.missing} more lines {what} are required by this count; correct it or add them")


def split_flags(text: str) -> tuple[str, str | None]:
    """Split a word or affix from its flags at the first slash that neither begins the word nor is escaped."""
    slash = _SLASH.search(text)
    word, flags = (text[: slash.start()], text[slash.end() :]) if slash else (text, None)
    return word.replace("\\/", "/"), flags


def _flag_kind(lines: list[Line]) -> str:
    for line in lines:
        words = line.text.split()
        if words[0] == "FLAG":
            if len(words) < 2 or words[1] not in ("long", "num", "UTF-8"):
                line.fail(f"long, num or UTF-8 is required after FLAG, found {' '.join(words[1:2]) or 'nothing'}")
            return words[1]
    return "short"


@cache
def _condition(text: str, is_prefix: bool) -> tuple[re.Pattern[str] | None, int]:
    """Return the pattern of an affix condition (`.`, a character, `[abc]`, `[^abc]`), and how many characters it looks
    at.
    """
    places = [] if text == "." else list(_PLACE.finditer(text))
    if text != "." and "".join(place[0] for place in places) != text:
        return None, 0
    known = [f"[{place[1]}{re.escape(place[2])}]" if place[2] else place[3] for place in places]
    body = "".join(one if len(one) > 1 or one == "." else re.escape(one) for one in known)
    return re.compile(f"{body}.*" if is_prefix else f".*{body}", re.DOTALL), len(places)


def _alias(aliases: list[T], text: str, line: Line, name: str) -> T:
    if not _is_number(text) or not 1 <= int(text) <= len(aliases):
        line.fail(f"the number of an alias, 1 to {len(aliases)}, is required, found {text!r}; see {name}", text)
    return aliases[int(text) - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
