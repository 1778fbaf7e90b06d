"""Lexicons: what is known of a word form, as attributes such as `POS:NOUN` and `Gender:Fem`.

A lexicon is a table of forms, functions that know forms by rule, or both; `a | b` knows what either knows.
The attributes of a form are the union over its readings, as in the paper (§5): `le` is DET and PRON at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import write_atomically
from llrnn.text.corpus import Sentence
from llrnn.text.corpus.frequencies import read_frequencies, two_columns
from llrnn.text.corpus.source import StrPath, read_lines

__all__ = ["Lexicon", "read_frequencies"]

_NONE: frozenset[str] = frozenset()
_ATTRIBUTE = re.compile(r"([^\s,|:=]+)[:=]([^\s,|]+)")
_ATTRIBUTES = re.compile(r"[^\s,|]+")


@dataclass(frozen=True, slots=True, repr=False)
class Lexicon:
    """Callable: form -> attributes, none for a form that it does not know. Made by the `from_` methods."""

    entries: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    functions: tuple[_CheckedFunction, ...] = ()

    @classmethod
    def from_corpus(cls, *corpora: Iterable[Sentence]) -> Lexicon:
        """Every form of the corpora with the attributes of all its tokens."""
        table: dict[str, set[str]] = {}
        # Tokens share their feats: most readings are known by identity (feats are kept, lest ids recur).
        seen: dict[tuple[str, str | None, int], object] = {}
        for corpus in corpora:
            for sentence in corpus:
                for token in sentence.tokens:
                    reading = (token.form, token.pos, id(token.feats))
                    if reading not in seen:
                        table.setdefault(token.form, set()).update(token.attributes())
                        seen[reading] = token.feats
        return cls.from_mapping(table)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Iterable[str]]) -> Lexicon:
        """From form -> attributes, each `Name:Value` or `Name=Value`."""
        shared: dict[frozenset[str], frozenset[str]] = {}  # few distinct sets for many forms
        table = {}
        for form, attributes in mapping.items():
            if not isinstance(form, str) or not form:
                raise LexiconError(f"a form must be a non-empty string, found {form!r}; correct it")
            known = _checked(attributes, f"the attributes of {form!r}")
            table[form] = shared.setdefault(known, known)
        return cls(table)

    @classmethod
    def from_function(cls, function: Callable[[str], Iterable[str]]) -> Lexicon:
        """From a function of the form, called once per form; its answers are checked."""
        if not callable(function):
            raise LexiconError(f"a function from form to attributes is required, found {function!r}; give one")
        return cls({}, (_CheckedFunction(function),))

    @classmethod
    def from_tsv(cls, path: StrPath, *, lowercase: bool = False) -> Lexicon:
        """From lines `form TAB attributes`: separated by spaces, commas or `|`, or `_` for none.

        A line that begins with `# `, or with `#` and has no TAB, is a comment; blank lines are skipped.
        A form that comes again gets the union.
        """
        table: dict[str, set[str]] = {}
        for number, line in read_lines(path, error=LexiconError):
            if line.strip() and not _is_comment(line):
                form, attributes = _entry(path, number, line)
                table.setdefault(form.lower() if lowercase else form, set()).update(attributes)
        if not table:
            raise LexiconError("no entry in the file: it holds blank lines or comments only", path=path)
        return cls.from_mapping(table)

    def __call__(self, form: str) -> frozenset[str]:
        known = self.entries.get(form, _NONE)
        return known.union(*(function(form) for function in self.functions)) if self.functions else known

    def __or__(self, other: Lexicon) -> Lexicon:
        """What either knows."""
        if not isinstance(other, Lexicon):
            return NotImplemented
        table = dict(self.entries)
        for form, attributes in other.entries.items():
            table[form] = table.get(form, _NONE) | attributes
        new = tuple(function for function in other.functions if function not in self.functions)
        return Lexicon(table, self.functions + new)

    def __contains__(self, form: object) -> bool:
        """Whether the form is listed, or some function gives it an attribute."""
        return isinstance(form, str) and (form in self.entries or bool(self(form)))

    def __bool__(self) -> bool:
        return bool(self.entries or self.functions)

    def __len__(self) -> int:
        return len(self.listed("the number of forms"))

    def __repr__(self) -> str:
        known = len({attribute for attributes in self.entries.values() for attribute in attributes})
        parts = [f"Lexicon({len(self.entries):,} forms, {known:,} attributes)"] if self.entries else []
        parts += [f"Lexicon.from_function({function})" for function in self.functions]
        return " | ".join(parts) or "Lexicon(0 forms, 0 attributes)"

    def forms(self) -> tuple[str, ...]:
        """All forms, sorted."""
        return tuple(sorted(self.listed("the list of forms")))

    def attributes(self) -> tuple[str, ...]:
        """All attributes, sorted."""
        listed = self.listed("the list of attributes")
        return tuple(sorted({attribute for attributes in listed.values() for attribute in attributes}))

    def listed(self, wanted: str) -> Mapping[str, frozenset[str]]:
        """The table, where it is all there is: a function knows forms that nobody can list."""
        if self.functions:
            raise LexiconError(
                f"{wanted} requires a finite lexicon, found a function in {self!r}; ask form by form, "
                "or make a finite one: Lexicon.from_mapping({form: lexicon(form) for form in ...})"
            )
        return self.entries

    def to_tsv(self, path: StrPath) -> None:
        """Write what `from_tsv` reads. The file is there as a whole or not at all."""
        lines = ["# form, TAB, attributes\n"]
        for form, attributes in sorted(self.listed("writing a file").items()):
            if re.search(r"[\t\r\n\0]", form) or _is_comment(f"{form}\t") or not form.strip():
                raise LexiconError(f"the form {form!r} cannot be written in a TSV file; leave it out", path=path)
            lines.append(f"{form}\t{' '.join(sorted(attributes)) or '_'}\n")
        _write(path, "".join(lines))


class _CheckedFunction:
    """A user's function, its answers checked and kept."""

    def __init__(self, function: Callable[[str], Iterable[str]]) -> None:
        self.function = function
        self.answers: dict[str, frozenset[str]] = {}

    def __call__(self, form: str) -> frozenset[str]:
        if form not in self.answers:
            self.answers[form] = _checked(self.function(form), f"the answer of {self} for {form!r}")
        return self.answers[form]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CheckedFunction) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", None) or repr(self.function)


def _checked(attributes: Iterable[str], what: str) -> frozenset[str]:
    wanted = f"{what} must be a set of strings such as 'Gender:Fem'"
    if isinstance(attributes, str) or not isinstance(attributes, Iterable):
        raise LexiconError(f"{wanted}, found {attributes!r}; return a set, an empty one for an unknown form")
    found = set()
    for attribute in attributes:
        normal = _normal(attribute) if isinstance(attribute, str) else None
        if normal is None:
            raise LexiconError(f"{wanted}, found {attribute!r} in it; write Name:Value without spaces, commas or bars")
        found.add(normal)
    return frozenset(found)


def _normal(attribute: str) -> str | None:
    """`Name:Value` for `Name:Value` or `Name=Value`, None for anything else."""
    match = _ATTRIBUTE.fullmatch(attribute)
    return match and f"{match[1]}:{match[2]}"


def _is_comment(line: str) -> bool:
    """`#` is also a word, and `#tag` may be: with a TAB after it, it is an entry."""
    return line.startswith("#") and (line.startswith("# ") or "\t" not in line)


def _entry(path: StrPath, number: int, line: str) -> tuple[str, set[str]]:
    form, attributes = two_columns(path, number, line, "form TAB attributes")
    found: set[str] = set()
    if attributes.strip() == "_":
        return form, found
    for match in _ATTRIBUTES.finditer(attributes):
        normal = _normal(match[0])
        if normal is None:
            reason = f"an attribute must be Name:Value or Name=Value, found {match[0]!r}; correct it"
            raise LexiconError(reason, path=path, line=number, column=len(form) + 2 + match.start())
        found.add(normal)
    if not found:
        reason = "attributes are required after the TAB, found none; write _ for a form without attributes"
        raise LexiconError(reason, path=path, line=number, column=len(form) + 2)
    return form, found


def _write(path: StrPath, text: str) -> None:
    try:
        write_atomically(Path(path), text.encode())
    except (OSError, ValueError) as cause:  # ValueError: a path or a form that cannot be encoded
        raise LexiconError(f"the file cannot be written: {cause}", path=path) from cause
