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
    """Return `str(found)` for an error message, on one line: white space becomes one blank, none stands at the ends.

    A text of more than 80 characters is cut to its first 79 and "…".
    """
    text = " ".join(str(found).split())
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


def quoted(value: object) -> str:
    """Return the `repr` of a value that a user gave, on one line, for an error message.

    One of more than 80 characters is cut to its first 79 and "…".
    """
    return short(repr(value))


class LLRNNError(Exception):
    """Base class of all errors that llrnn raises on purpose.

    The command line prints the message and exits with code 2.

        try: model = llrnn.load("runs/quick")
        except LLRNNError as error: print(error)
    """


class LLRNNWarning(UserWarning):
    """Base class of llrnn's warnings: something is possible but probably not intended.

    The command line shows each as one line on standard error.

        warnings.simplefilter("error", LLRNNWarning)  # stop at the first
    """


def warn(message: str, stacklevel: int = 3) -> None:
    """Give the warning `message` as an `LLRNNWarning`.

    `stacklevel` is that of `warnings.warn`; by default the warning names the line that called the caller.
    """
    warnings.warn(message, LLRNNWarning, stacklevel=stacklevel)


class EstimationWarning(LLRNNWarning):
    """A warning that a prior or a feature could not be estimated as usual, mostly from too little text.

    The message says what was done instead.

        warnings.simplefilter("ignore", EstimationWarning)
    """


class PlacedError(LLRNNError):
    """Base class of errors at a place in a file: arguments `reason`, and `path`, `line` and `column` (from 1) or None.

    The message is `path:line:column: reason`, without those that are None; all four are attributes.

        raise PlacedError("two tabs are one too many", path="pairs.tsv", line=3)
    """

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
    """A text file cannot be opened, read or written, or is not in the format that it was said to have.

    For example:

        Corpus.from_file("missing.conllu")  # raises it
    """


class LexiconError(PlacedError):
    """A lexicon (words with their tags) or a file of word frequencies cannot be read.

    For example:

        Lexicon.from_tsv("broken.tsv")  # raises it
    """


class TableError(PlacedError):
    """A table of a knowledge base (CSV, JSON, SQLite) cannot be read, or lacks what is asked of it (a column, say).

    For example:

        KnowledgeBase.from_file("venues.csv").values("no such column")  # raises it
    """


class VocabularyError(LLRNNError):
    """A vocabulary cannot be made of what was given, such as an empty list of words.

    For example:

        Vocabulary([])  # raises it
    """


class UnknownWordError(VocabularyError):
    """A text has a word that the vocabulary does not list, and that is not mapped to an unknown word either.

    For example:

        Vocabulary(["la", EOS]).id("maison")  # raises it
    """

    def __init__(self, word: str, *, size: int, place: str = "", others: Sequence[str] = (), cure: str = "") -> None:
        """Make the message about the first unknown word of a text, `word`.

        `size`: number of symbols of the vocabulary; `place`: where the word was found, put before the message;
        `others`: further unknown words, in the order of the text; `cure`: advice at the end of the message, instead of
        the usual one.
        """
        self.word, self.size, self.place, self.others = word, size, place, tuple(others)
        where = f"{place}: " if place else ""
        more = f", nor are {len(others):,} others: {', '.join(quoted(other) for other in others[:4])}" if others else ""
        more += ", ..." if len(others) > 4 else ""
        super().__init__(
            f"{where}the word {quoted(word)} is not among the {size} symbols of the vocabulary{more}; {cure or _LISTED}"
        )

    def advising(self, cure: str) -> UnknownWordError:
        """Return a copy of this error whose message ends with the advice `cure`."""
        return UnknownWordError(self.word, size=self.size, place=self.place, others=self.others, cure=cure)


_LISTED = (
    "add it to the vocabulary, map unknown words with `unknown`, or have them spelled, by domains: `llrnn init "
    "TEXT --out CONFIG` writes such a configuration"
)


class DomainError(LLRNNError):
    """An infinite set of strings with probabilities (a domain), such as all numbers, is badly defined.

    Its parts overlap, its weights have no finite sum, or its pattern is wrong.

        check_domain(domain_whose_cells_overlap)  # raises it
    """


class FeatureError(LLRNNError):
    """Features φ are badly defined: a value is not finite, an argument is wrong, or they fit no vocabulary or text.

    For example:

        compile_features(Function(lambda word: {"nan": float("nan")}), vocabulary)  # raises it
    """


class BackgroundError(LLRNNError):
    """A background (prior weights b of words) has negative or NaN values, or is made for another vocabulary.

    For example:

        Unigram({"la": -1.0})  # raises it
    """


class ZeroMassError(BackgroundError):
    """The background (prior) b is 0 for a word of the text, so its log-probability is minus infinity.

    For example:

        evaluate(model_that_forbids_a_word, corpus_that_has_it)  # raises it
    """


class ConfigError(LLRNNError):
    """A configuration has unknown keys, wrong types or missing files; `lines` holds one message for each mistake.

    For example:

        read_config("misspelt.toml")  # raises it, with all mistakes
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class CheckpointError(LLRNNError):
    """A folder of a model or a training run has a missing, truncated, altered or mismatched file.

    For example:

        llrnn.load("runs/half-copied")  # raises it
    """


class InputError(LLRNNError, ValueError):
    """An argument or a tensor is of another type, size or range than the function takes; also a ValueError.

    For example:

        LogLinear(phi, hidden=3).log_prob(torch.randn(2, 4), words)  # raises it: h must have 3 numbers
    """


def require_kind(given: object, kind: type, cure: str) -> None:
    """Raise an InputError where `given` is no instance of the type `kind`; its message ends with the advice `cure`."""
    if not isinstance(given, kind):
        raise InputError(f"{kind.__name__} is required, found {type(given).__name__}, {quoted(given)}; {cure}")


def require_count(name: str, given: object) -> None:
    """Raise an InputError, which calls the argument `name`, where `given` is no integer of 1 or more."""
    if not isinstance(given, int) or given < 1:
        raise InputError(
            f"{name} must be a whole number, 1 or more, found {quoted(given)}; correct it, or leave it out"
        )


class NumericalError(LLRNNError):
    """NaN or infinity was computed where a finite number is required: in weights, scores or probabilities.

    For example:

        list(train(model, corpus, learning_rate=1e6))  # may raise it
    """


class AuditError(LLRNNError):
    """An evaluation found results that cannot be right, such as probabilities that do not sum to one.

    See `inference.evaluation.Audit` for what is checked.

        evaluate(model, corpus)  # raises it where a background of your own breaks its laws
    """


class TrainingError(LLRNNError):
    """Training cannot start or go on, for example with wrong settings or no text; the message says what to do.

    For example:

        list(train(model, Corpus.from_sentences([])))  # raises it
    """


class NonFiniteError(TrainingError, NumericalError):
    """Training met NaN or infinity in the loss, a gradient or a weight; the message names it and the step.

    For example:

        list(train(model, corpus, learning_rate=1e6))  # may raise it
    """


class LostWorkerError(TrainingError):
    """Another process of the same distributed training has ended, so that this one cannot go on.

    For example:

        torchrun --max-restarts 3 -m llrnn train quick.toml --out runs/two  # goes on after one
    """


class DatasetError(LLRNNError):
    """A public corpus cannot be downloaded, or its files are not those expected.

    For example:

        llrnn data get ud-no_such_language  # ends with it
    """


class LawError(LLRNNError):
    """A user's features, background (prior) or contextual feature fail a check of `llrnn.testing`.

    For example:

        check_features(Function(lambda word: {"noise": random.random()}), vocabulary)  # raises it
    """


class ServerError(LLRNNError):
    """`llrnn.Client` got no usable answer: the server refuses, cannot be reached, breaks off or is no llrnn server.

    `code`: what the server answered (unknown_word, too_many_requests, ...) or what the client found: unreachable,
    too_slow, cut_off, unreadable, hub (an error of Hugging Face). `status`: the HTTP status, None without an answer.
    `retry_after`: seconds after which the server asks to try again, or None.

        Client("http://127.0.0.1:1").models()  # raises it: nobody listens there
    """

    def __init__(self, message: str, *, code: str, status: int | None = None, retry_after: float | None = None) -> None:
        self.message, self.code, self.status, self.retry_after = message, code, status, retry_after
        super().__init__(message)


class MissingExtraError(LLRNNError):
    """A function needs a package that is not installed; the message names the extra that installs it.

    For example:

        Grammar("start: A")  # raises it where the extra `grammar` is not installed
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: pip install 'llrnn[{extra}]'")


__all__ = [
    name for name, one in globals().items() if isinstance(one, type) and issubclass(one, LLRNNError | LLRNNWarning)
]


def shown_number(value: object) -> str:
    """Return `repr(value)`, or "an integer of n digits" above 256 bits, since Python refuses to print huge integers."""
    too_long = isinstance(value, int) and value.bit_length() > 256
    return f"an integer of {int(value.bit_length() * math.log10(2)) + 1} digits" if too_long else repr(value)  # type: ignore[attr-defined]
