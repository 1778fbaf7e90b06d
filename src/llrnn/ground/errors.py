"""Every error that llrnn raises on purpose.

    LLRNNError                 what a user's input, configuration or data made impossible
    ├── CorpusError            a text file that cannot be read as what it was said to be (file:line:column)
    ├── LexiconError           likewise, for a lexicon or frequency file
    ├── TableError             likewise, for a table of a knowledge base (CSV, JSON, SQLite)
    ├── VocabularyError        a vocabulary that cannot be made
    │   └── UnknownWordError   a word that the vocabulary does not list
    ├── DomainError            a set of strings that cannot be what it is said to be
    ├── FeatureError           features that contradict themselves or the vocabulary
    ├── BackgroundError        a background that is no background (negative, NaN, of another vocabulary)
    │   └── ZeroMassError      the background gives an observed word no mass at all
    ├── ConfigError            a configuration with an unknown key, a wrong type, a missing file
    ├── CheckpointError        a model folder with a missing, truncated, altered or mismatched file
    ├── InputError             an argument or a tensor of another kind, size or range than is taken; a ValueError, too
    ├── NumericalError         NaN or infinity where a number is required: in weights, scores, probabilities
    ├── AuditError             figures of a model that cannot be believed: probabilities that do not sum to one
    ├── TrainingError          training that cannot start or go on
    │   ├── NonFiniteError     NaN or infinity in the loss, a gradient or a weight; a NumericalError, too
    │   └── LostWorkerError    another process of the same training ended
    ├── DatasetError           a public corpus that could not be fetched, or is not what it should be
    ├── LawError               knowledge of one's own that breaks a law (llrnn.testing)
    ├── ServerError            a server that refuses, cannot be reached or breaks off (llrnn.Client)
    └── MissingExtraError      a feature whose optional dependency is not installed

    LLRNNWarning               what is possible, but hardly meant; the message says what to do
    └── EstimationWarning      knowledge that could be estimated, but not as usual (too little text)

A message says what was required, what was found and where, and what to do. The command line prints it as one line (the
mistakes of a configuration all at once, a line each) and exits with code 2; a traceback is always our own defect.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from os import PathLike, fspath

_LONGEST_QUOTE = 80  # characters of the user's input that a message repeats


def short(found: object) -> str:
    """Format a value for a message: on one line, and cut where it is long."""
    text = " ".join(str(found).split())
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


def quoted(value: object) -> str:
    """Format a user's value for a message, as Python writes it."""
    return short(repr(value))


class LLRNNError(Exception):
    """Base of every error that llrnn raises on purpose."""


class LLRNNWarning(UserWarning):
    """A warning of something possible but probably not intended; the command line shows it as one line on stderr."""


def warn(message: str, stacklevel: int = 3) -> None:
    """Give an `LLRNNWarning`, by default at the line that called the caller."""
    warnings.warn(message, LLRNNWarning, stacklevel=stacklevel)


class EstimationWarning(LLRNNWarning):
    """Knowledge that could not be estimated as usual; the message says what was done instead."""


class PlacedError(LLRNNError):
    """An error at a place in a file: `path:line:column: reason`, as compilers print it."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.reason, self.line, self.column = reason, line, column
        self.path = None if path is None else fspath(path)
        place = ":".join(str(part) for part in (self.path, line, column) if part is not None)
        super().__init__(f"{place}: {reason}" if place else reason)


class CorpusError(PlacedError):
    """A text file that cannot be read as what it was said to be."""


class LexiconError(PlacedError):
    """A lexicon or frequency file that cannot be read."""


class TableError(PlacedError):
    """A table of a knowledge base that cannot be read, or that does not hold what is asked of it."""


class VocabularyError(LLRNNError):
    """A vocabulary that cannot be made."""


class UnknownWordError(VocabularyError):
    """A word that the vocabulary does not list."""

    def __init__(self, word: str, *, size: int, place: str = "", others: Sequence[str] = (), cure: str = "") -> None:
        """`word` is the first; `others` are further missing words, in the order of the text."""
        self.word, self.size, self.place, self.others = word, size, place, tuple(others)
        where = f"{place}: " if place else ""
        more = f", nor are {len(others):,} others: {', '.join(quoted(other) for other in others[:4])}" if others else ""
        more += ", ..." if len(others) > 4 else ""
        super().__init__(
            f"{where}the word {quoted(word)} is not among the {size} symbols of the vocabulary{more}; {cure or _LISTED}"
        )

    def advising(self, cure: str) -> UnknownWordError:
        """Return a copy of this error with another piece of advice."""
        return UnknownWordError(self.word, size=self.size, place=self.place, others=self.others, cure=cure)


_LISTED = (
    "add it to the vocabulary, map unknown words with `unknown`, or have them spelled, by domains: `llrnn init "
    "TEXT --out CONFIG` writes such a configuration"
)


class DomainError(LLRNNError):
    """A set of strings that cannot be what it is said to be: cells that overlap, no finite mass, a wrong pattern."""


class FeatureError(LLRNNError):
    """Features that contradict themselves or the vocabulary."""


class BackgroundError(LLRNNError):
    """A background that is no background: negative, NaN, or of another vocabulary."""


class ZeroMassError(BackgroundError):
    """The background gives an observed word no mass at all, so its log-probability is minus infinity."""


class ConfigError(LLRNNError):
    """A configuration with an unknown key, a wrong type, or a file that does not exist: a line for each mistake."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class CheckpointError(LLRNNError):
    """A model folder with a missing, truncated, altered or mismatched file."""


class InputError(LLRNNError, ValueError):
    """An argument or a tensor that does not fit: of another kind, size or range than is taken."""


def require_kind(given: object, kind: type, cure: str) -> None:
    """Raise an InputError, which advises `cure`, where `given` is no `kind`."""
    if not isinstance(given, kind):
        raise InputError(f"{kind.__name__} is required, found {type(given).__name__}, {quoted(given)}; {cure}")


def require_count(name: str, given: object) -> None:
    """Raise an InputError where `given` is no whole number of 1 or more."""
    if not isinstance(given, int) or given < 1:
        raise InputError(
            f"{name} must be a whole number, 1 or more, found {quoted(given)}; correct it, or leave it out"
        )


class NumericalError(LLRNNError):
    """NaN or infinity where a number is required: in weights, scores, probabilities."""


class AuditError(LLRNNError):
    """Figures of a model that cannot be believed; see `inference.evaluation.Audit`."""


class TrainingError(LLRNNError):
    """Training that cannot start or go on."""


class NonFiniteError(TrainingError, NumericalError):
    """NaN or infinity in the loss, a gradient or a weight."""


class LostWorkerError(TrainingError):
    """Another process of the same training ended."""


class DatasetError(LLRNNError):
    """A corpus that cannot be fetched, or that is not what was expected."""


class LawError(LLRNNError):
    """Features, a background or a contextual feature that break a law; see `llrnn.testing`."""


class ServerError(LLRNNError):
    """A server that refuses, cannot be reached, breaks off or is none of ours.

    `code` is the server's own (unknown_word, too_many_requests, ...) or one of ours: unreachable, too_slow, cut_off,
    unreadable, hub (that of Hugging Face). `status` is that of HTTP, where there was an answer; `retry_after` the
    seconds that the server asks for.
    """

    def __init__(self, message: str, *, code: str, status: int | None = None, retry_after: float | None = None) -> None:
        self.message, self.code, self.status, self.retry_after = message, code, status, retry_after
        super().__init__(message)


class MissingExtraError(LLRNNError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: pip install 'llrnn[{extra}]'")


__all__ = [
    name for name, one in globals().items() if isinstance(one, type) and issubclass(one, LLRNNError | LLRNNWarning)
]


def shown_number(value: object) -> str:
    """Format an integer of any length: Python writes none of more than some thousand digits."""
    too_long = isinstance(value, int) and value.bit_length() > 256
    return f"an integer of {int(value.bit_length() * math.log10(2)) + 1} digits" if too_long else repr(value)  # type: ignore[attr-defined]
