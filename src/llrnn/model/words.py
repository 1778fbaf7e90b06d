"""A model over a vocabulary with words added or removed: the same weights, revised knowledge, more or fewer rows.

    add(model, entries)                       permanently, `llrnn words add`
    remove(model, forms)                      `llrnn words remove`
    add_from_conditions(model, conditions)    temporarily, while it writes from them

A `Revision` tells knowledge what happened to each symbol x' of the new vocabulary: kept[x'], which symbol it was, and
source[x'] and log_share[x'], whose mass it takes, and how much of it.

The features of a new word, found by their names among those of a trained model.

    φ(x) = {names that the table gives} ∪ {names that the spelling of x shows}, as far as the model has them

The values are those that the features have on the old words, so scaled groups stay so.

Words of a condition are temporarily added, as by `llrnn words add`: a name that nobody has listed is no symbol that
knowledge could point at, but one of the many strings of its cell. Each word of the condition's values is added as if
it had been seen once, with the feature `Value:slot` where the model has one. Copied values, priming and look-ups then
point at it as at any other; the weights are the same. Words of a table that is swapped in are added in the same way.
A word that a running text has brought (`Before`) is added with the mass that it had in its cell, so that no
probability changes: what a cache adds to it is said by the cache, `backgrounds.Recent`.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import (
    ConfigError,
    EstimationWarning,
    FeatureError,
    LexiconError,
    LLRNNError,
    VocabularyError,
    quoted,
)
from llrnn.ground.files import StrPath
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.backgrounds.constraint import constraints_of
from llrnn.knowledge.contextual.lookup import Lookup
from llrnn.knowledge.features import Numeric, Shape
from llrnn.layer.matrix import FeatureMatrix, common_values
from llrnn.model.network import LLRNN
from llrnn.text.automata import check_string
from llrnn.text.conditions import Before, values_of
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import TrainingSummary
from llrnn.text.lexicon import is_comment
from llrnn.text.readers import Line, Lowercase, lowering, read_entries
from llrnn.text.vocabulary import EOS, Cell, Revision, Vocabulary

__all__ = [
    "Entry", "add", "add_from_conditions", "likened", "read_words", "remove", "try_add_from_conditions",
    "value_attribute", "warn_unlisted", "with_text_words",
]  # fmt: skip


# The table of words to add: form TAB attributes TAB count.


_SHOWN = 5  # words that a message names
_COUNT = re.compile(r"0*[1-9][0-9]{0,14}")


@dataclass(frozen=True)
class Entry:
    """A word to add to a model's vocabulary: its spelling `form`, names of its features, `attributes`, and a count.

    `count`: how often it was seen, beside the counts of the model's corpus; None: it gets what words with its features
    have (`likened`). `share`: its prior probability divided by that of all other symbols together, where no count gives
    it, or None. `place`: file and line that it was read from, for messages.

        Entry("cachalot", frozenset({"POS:NOUN", "Gender:Masc"}), count=3)
    """

    form: str
    attributes: frozenset[str] = field(default_factory=frozenset)
    count: int | None = None
    place: str = ""  # file:line
    share: float | None = None  # its prior mass, as a part of that of all other symbols, where no count says it

    def __str__(self) -> str:
        return f"{quoted(self.form)} ({self.place})" if self.place else quoted(self.form)


def warn_unlisted(message: str) -> None:
    """Give a Python `EstimationWarning` with this message, which says why words of an input could not be listed.

    For example:

        try_add_from_conditions(model, conditions, tell=warn_unlisted)
    """
    warnings.warn(message, EstimationWarning, stacklevel=3)


def some(items: Sequence[object], shown: int = _SHOWN) -> str:
    """Return the first `shown` items joined by commas, for a message, with "..." if there are more."""
    return ", ".join(map(str, items[:shown])) + (", ..." if len(items) > shown else "")


def read_words(path: StrPath, *, lowercase: Lowercase = False) -> list[Entry]:
    """Return the words in a file of lines `form TAB attributes TAB count`; what follows the form may be missing.

    Attributes are names of features, separated by spaces, commas or `|`, or `_` for none. `lowercase`: True lowercases
    forms, and so does a function from a form to another. A form that comes again, also one that `lowercase` makes the
    same, has the attributes of all its lines and the sum of their counts. Raises LexiconError, with the line, for other
    content, or a file without words.

        model = add(model, read_words("names.tsv"))
    """
    found, lower = dict[str, Entry](), lowering(lowercase)
    for line in read_entries(path, error=LexiconError):
        if not is_comment(line.text):
            entry = _entry(line)
            entry = replace(entry, form=lower(entry.form))
            earlier = found.setdefault(entry.form, entry)
            if earlier is not entry:
                counts = [one.count for one in (earlier, entry) if one.count is not None]
                both, count = earlier.attributes | entry.attributes, sum(counts) if counts else None
                found[entry.form] = replace(earlier, attributes=both, count=count)
    if not found:
        raise LexiconError("no word in the file: it holds blank lines or comments only", path=path)
    return list(found.values())


def _entry(line: Line) -> Entry:
    form, *others = line.text.split("\t")
    if len(others) > 2 or (not others and len(form.split()) > 1):
        line.fail(f"form, TAB, attributes, TAB and a count are required, found {len(others) + 1} columns; correct it")
    names = re.split(r"[\s,|]+", others[0].strip()) if others else ["_"]
    if names == [""]:
        reason = "attributes are required after the TAB, found none; write _ for a form without attributes"
        line.fail(reason, len(form) + 2)
    count = others[1].strip() if len(others) == 2 else None
    if count is not None and not _COUNT.fullmatch(count):
        reason = f"the count must be a whole number above 0, found {quoted(count)}; correct it, or leave it out"
        line.fail(reason, len(form) + len(others[0]) + 3)
    attributes = frozenset(names) - {"", "_"}
    return Entry(form, attributes, None if count is None else int(count), f"{line.path}:{line.number}")


# The features of a new word, found by their names among those of a trained model.


_VOTES = 3  # words of an ending that decide
_FAR = 1e6  # SmallNumber with this limit tells any smaller number to ten digits
_NUMERIC, _SHAPE = Numeric(small=_FAR), Shape()  # made once: a condition may bring hundreds of words

Row = tuple[tuple[int, float], ...]  # columns, sorted, and values


class FeatureColumns:
    """An index of a model's feature matrix by feature name, which computes the features of words not in it yet.

    `matrix`: the `FeatureMatrix` of the words in `vocabulary`. Use: `FeatureColumns(matrix, vocabulary).row(entry,
    None)`.
    """

    def __init__(self, matrix: FeatureMatrix, vocabulary: Vocabulary) -> None:
        self._matrix, self._vocabulary = matrix, vocabulary
        self._column = matrix.column_of
        self._longest = max(map(len, matrix.names), default=0)
        groups = dict(zip(matrix.names, matrix.groups, strict=True))
        self._identities = frozenset(name for name, group in groups.items() if group == "Identity")
        self._no_vector = {name: group for name, group in groups.items() if name == f"{group}:none"}  # of `Vectors`
        self._not_among = [name for name in self._identities if name.startswith("NotAmong:")]

    def find(self, attribute: str) -> str | None:
        """Return the name of the matrix's feature that `attribute` means, or None if there is none.

        It is the attribute itself, or with a colon in place of its first "=": `Gender=Fem` means `Gender:Fem`.
        """
        names = (attribute, attribute.replace("=", ":", 1))
        return next((name for name in names if name in self._column), None)

    def row(self, entry: Entry, cell: Cell | None) -> Row:
        """Return the non-zero features of a new word as a tuple of (column, value) pairs, sorted by column.

        They are those that the word would have had in training: the features that its attributes name, and those of its
        spelling; a column is the index of a feature. `cell`: the set of unlisted strings, sharing one symbol, to which
        it belonged until now, whose features it keeps; None for none. Raises FeatureError where the model knows words
        only by features of their own, or a value cannot be inferred from other words.
        """
        given = {name for name in map(self.find, entry.attributes) if name is not None}
        shown = {**self._no_vector, **dict(self._shown(entry.form, cell))}
        if entry.count is entry.share is None and cell is not None:
            shown[f"New:{cell.source}"] = "CellAttributes"  # it is as new as it was when its cell stood for it
        if not given & self._identities:
            shown |= dict.fromkeys(self._identity(entry, cell), "Identity")
        columns = {self._column[name] for name in given}
        for name, group in shown.items():
            column = self._column.get(name)
            if column is not None and self._matrix.groups[column] == group:
                columns.add(column)
        values = ((column, self._value(column, entry)) for column in sorted(columns))
        return tuple((column, value) for column, value in values if value != 0)

    def _shown(self, form: str, cell: Cell | None) -> Iterator[tuple[str, str]]:
        """Yield (name, group) of the features that the spelling `form` may have, such as ("Suffix:ing", "Suffixes").

        They are suffixes, prefixes, the shape, features of numbers, and the attributes of its cell. The model need not
        have a feature of that name. `cell`: the set of unlisted strings, sharing one symbol, that `form` belongs to, or
        None.
        """
        for length in range(1, min(len(form), self._longest + 1)):  # longer ones name no feature
            yield f"Suffix:{form[-length:]}", "Suffixes"
            yield f"Prefix:{form[:length]}", "Prefixes"
        yield from dict.fromkeys(_SHAPE(form), "Shape").items()
        yield from dict.fromkeys(_NUMERIC(form), "Numeric").items()
        yield from dict.fromkeys(() if cell is None else cell.attributes, "CellAttributes").items()

    def _identity(self, entry: Entry, cell: Cell | None) -> list[str]:
        if not self._identities:
            return []
        named = [f"Word:{entry.form}", *self._not_among, *([] if cell is None else [f"Word:‹{cell.name}›"])]
        found = [name for name in named if name in self._identities][:1]
        if not found:
            raise FeatureError(
                f"{entry} cannot be added: the model knows every word by a feature of its own, as a softmax does, and "
                "has no weights for a word that it was not trained on; name a word in the table that it shall be like, "
                f"such as {min(self._identities)}, or train with Identity(top=M) and features that words share"
            )
        return found

    def _value(self, column: int, entry: Entry) -> float:
        name, value = self._matrix.names[column], self._constant[column]
        if self._matrix.groups[column] == "Numeric" and name == "SmallNumber":
            small = _NUMERIC(entry.form).get(name)
            return 0.0 if small is None else max(0.0, self._small(_FAR * (1.0 - small)))
        if np.isnan(value):
            raise FeatureError(
                f"the feature {name!r} has other values on other words, or none at all, so that its value on {entry} "
                "cannot be told; leave it out of the table"
            )
        return float(value)

    @cached_property
    def _constant(self) -> Floats:
        """The single non-zero value that each of m features has on all words that have it, (m,); NaN if values differ.

        For a feature that no word has, it is the single value of its group of features.
        """
        own = common_values(self._matrix.columns, self._matrix.values, self._matrix.n_features)
        numbers = {group: number for number, group in enumerate(dict.fromkeys(self._matrix.groups))}
        group_of = np.array([numbers[group] for group in self._matrix.groups], dtype=np.int64)
        of_group = common_values(group_of[self._matrix.columns], self._matrix.values, len(numbers))
        fires = np.bincount(self._matrix.columns, minlength=self._matrix.n_features) > 0
        return np.asarray(np.where(fires, own, of_group[group_of]), dtype=np.float64)

    def _small(self, number: float) -> float:
        """Return the value of the feature SmallNumber on `number`, by the straight line through two listed numbers.

        These are the smallest and the largest of the vocabulary that have the feature; 0.0 if fewer than two have it.
        The result may be below 0.
        """
        points = self._small_numbers
        if len(points) < 2:
            return 0.0
        x, other = min(points), max(points)
        return points[x] + (points[other] - points[x]) / (other - x) * (number - x)

    @cached_property
    def _small_numbers(self) -> dict[float, float]:
        """{number: value of the feature SmallNumber} of the vocabulary's words that have this feature."""
        at = np.flatnonzero(self._matrix.columns == self._column["SmallNumber"])
        classes = np.searchsorted(self._matrix.offsets, at, side="right") - 1
        values = dict(zip(classes.tolist(), self._matrix.values[at].tolist(), strict=True))
        of_words = zip(self._vocabulary.words, self._matrix.class_of.tolist(), strict=False)
        named = ((word, values[own]) for word, own in of_words if own in values)
        return {_FAR * (1.0 - _NUMERIC(word).get("SmallNumber", 0.0)): value for word, value in named}


def check_attributes(given: Sequence[Entry], sides: Sequence[FeatureColumns]) -> None:
    """Raise FeatureError for attributes of new words that name no feature of the model, so that misspellings are seen.

    `given`: the new words; `sides`: indices of the model's output and input features; one of them must know each
    attribute.
    """
    unknown = {
        attribute: entry
        for entry in reversed(given)
        for attribute in sorted(entry.attributes)
        if all(columns.find(attribute) is None for columns in sides)
    }
    if unknown:
        named = [f"{attribute!r} of {entry}" for attribute, entry in sorted(unknown.items())]
        raise FeatureError(
            f"attributes must be features of the model, found {len(unknown)} that are not: {some(named)}; correct "
            "them, or leave them out: a feature that was not trained has no weight"
        )


def with_rows(matrix: FeatureMatrix, rows: Sequence[Row], first: int) -> FeatureMatrix:
    """Return the feature matrix with new symbols inserted before id `first`; those behind move up.

    `rows`: the non-zero features of each new symbol as sorted (column, value) pairs. They get ids `first`, `first` + 1,
    … in this order. Words with equal features share a class (row of the matrix); new classes come last.
    """
    entries = list(zip(matrix.columns.tolist(), matrix.values.tolist(), strict=True))
    known = {tuple(entries[start:stop]): s for s, (start, stop) in enumerate(pairwise(matrix.offsets.tolist()))}
    new = list(dict.fromkeys(row for row in rows if row not in known))
    known |= {row: s for s, row in enumerate(new, matrix.n_classes)}
    classes = [known[row] for row in rows]
    ends = matrix.offsets[-1] + np.cumsum([len(row) for row in new], dtype=np.int64)
    return replace(
        matrix,
        class_of=np.concatenate([matrix.class_of[:first], np.array(classes, dtype=np.int64), matrix.class_of[first:]]),
        offsets=np.concatenate([matrix.offsets, ends]),
        columns=np.concatenate([matrix.columns, np.array([c for row in new for c, _ in row], dtype=np.int64)]),
        values=np.concatenate([matrix.values, np.array([v for row in new for _, v in row], dtype=np.float64)]),
    )


def of_symbols(matrix: FeatureMatrix, symbols: Ints) -> FeatureMatrix:
    """Return the feature matrix of some symbols of `matrix` alone, given by their ids, in this order.

    All feature columns stay; classes (sets of words with equal features) without a member are dropped.
    """
    used, class_of = np.unique(matrix.class_of[symbols], return_inverse=True)
    sizes = np.diff(matrix.offsets)
    stays = np.repeat(np.isin(np.arange(matrix.n_classes), used), sizes)
    return replace(
        matrix,
        class_of=class_of.astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum(sizes[used])]).astype(np.int64),
        columns=matrix.columns[stays],
        values=matrix.values[stays],
    )


def likened(model: LLRNN, entries: Iterable[Entry]) -> list[Entry]:
    """Return the words to add with `share` set, their prior probability relative to that of all symbols now listed.

        share(x) = mean of b(y) / Σ_z b(z) over y in L(x)        L(x) = argmax_y |φ(x) ∩ φ(y)| / |φ(x) ∪ φ(y)|

    That is for a word x without a count; with one, share(x) = count / all counts of the vocabulary. y: listed words
    with b(y) > 0, z: all symbols, b: the prior of the model, by counts where it depends on the context. L(x) are the
    words whose sets of features φ are most like that of x: equal, if there are such. All other words keep their ratios:
    b(y) stays, Σ_z b(z) grows.

        likened(model, [Entry("cachalot", frozenset({"POS:NOUN"}))])[0].share
    """
    old, phi, given = model.vocabulary, _fine(model, model.output_features), list(entries)
    mass = symbol_mass(getattr(model.background, "base", model.background), old)
    mass /= mass.sum()
    mass[[old.eos, *range(old.n_words, len(old)), *([] if old.unknown is None else [old.id(old.unknown)])]] = 0.0
    if not mass.any():
        return given
    columns, cells = FeatureColumns(phi, old), old.in_domains([entry.form for entry in given])[0].tolist()
    looks = [None if cell < 0 else old.cells[cell] for cell in cells]
    pairs = zip(given, looks, strict=True)
    rows = [columns.row(replace(one, share=0.0), look) if one.count is None else None for one, look in pairs]
    shares = {row: _mean_of_alike(mass, phi, row) for row in dict.fromkeys(rows) if row is not None}
    counted = [(one.count or 0) / max(old.total, 1) for one in given]
    found = (own if row is None else shares[row] for own, row in zip(counted, rows, strict=True))
    return [replace(one, share=share) for one, share in zip(given, found, strict=True)]


def _mean_of_alike(mass: Floats, phi: FeatureMatrix, row: Row) -> float:
    """Return the mean of `mass`, (V,), over the symbols with mass above 0 whose features are most like those of `row`.

    Likeness is |φ ∩ φ'| / |φ ∪ φ'| of the sets of non-zero features, whatever their values; all symbols with the
    largest are taken. `row`: (column, value) pairs; `phi`: the feature matrix of the V symbols.
    """
    alike = likeness(phi, [column for column, _ in row])[phi.class_of]
    alike[mass == 0] = -1.0
    return float(mass[alike == alike.max()].mean())


def likeness(phi: FeatureMatrix, columns: Sequence[int], of: Iterable[bool] = ()) -> Floats:
    """Return |φ ∩ φ'| / |φ ∪ φ'| for the features φ of each class of words and those of some `columns`, φ': (classes,).

    `of`: which features are looked at, one entry for each feature of the matrix; all by default.
    """
    looked_at = np.array([*of])[phi.columns] if of else np.ones(len(phi.columns), dtype=bool)
    rows = np.repeat(np.arange(phi.n_classes), np.diff(phi.offsets))[looked_at]
    sizes = np.bincount(rows, minlength=phi.n_classes)
    shared = np.bincount(rows, np.isin(phi.columns[looked_at], columns), phi.n_classes)
    found: Floats = shared / np.maximum(sizes + len(columns) - shared, 1)
    return found


def by_ending(model: LLRNN, forms: Sequence[str]) -> list[Entry]:
    """Return words to add, each with the attributes that most listed words have which end as it does.

    The longest ending decides that three listed words share, else the last three letters. Features of the spelling are
    no attributes: a word gets its own (`add`). Where nothing ends so, it has no attributes.

        add(model, by_ending(model, ["grenobloise"]))
    """
    phi, words = _fine(model, model.output_features), model.vocabulary.words
    said = {name for name, group in zip(phi.names, phi.groups, strict=True) if group == "Attributes"}
    ends: dict[str, list[int]] = {form[-3:]: [] for form in forms if len(form) > 3}
    for symbol, word in enumerate(words):
        if (ending := word[-3:]) in ends:
            ends[ending].append(symbol)
    return [Entry(form, _of_most(phi, said, _sharing_end(words, form, ends.get(form[-3:], [])))) for form in forms]


def _sharing_end(words: Sequence[str], form: str, symbols: list[int]) -> list[int]:
    """Return which of the `symbols`, whose words share three letters, share the longest end that enough of them do."""
    for length in range(4, len(form)):
        longer = [symbol for symbol in symbols if words[symbol].endswith(form[-length:])]
        if len(longer) < _VOTES:
            break
        symbols = longer
    return symbols


def _of_most(phi: FeatureMatrix, said: set[str], symbols: Iterable[int]) -> frozenset[str]:
    votes = Counter[frozenset[str]]()
    for own, count in Counter(int(phi.class_of[symbol]) for symbol in symbols).items():
        names = {phi.names[column] for column in phi.columns[phi.offsets[own] : phi.offsets[own + 1]]}
        votes[frozenset(name for name in names & said if not name.startswith("Lemma:"))] += count
    return max(votes, key=lambda names: (votes[names], len(names)), default=frozenset())


def add(model: LLRNN, entries: Iterable[Entry], *, unchanged: bool = False) -> LLRNN:
    """Return a new model that lists these words too, after those of `model`, which stays as it is; weights are copied.

    The new words have the features that their attributes and spelling give, and so weights at once. A word without a
    count gets what words with its features have (`likened`) or, with `unchanged`, the probability that it had as a
    string outside the vocabulary. The probabilities of all other words change by one factor in every context. Raises
    VocabularyError for words that are listed already or not allowed, FeatureError for unknown attributes.

        add(model, [Entry("cachalot", frozenset({"POS:NOUN", "Gender:Masc"}), count=3)])
    """
    given, old = list(entries), model.vocabulary
    _check_new(given, old)
    given = given if unchanged else likened(model, given)
    forms = [entry.form for entry in given]
    new = old.with_words(forms, [entry.count or 0 for entry in given])
    cells, log_q = old.in_domains(forms)
    revision = _adding(given, old, new, cells, log_q)
    columns = [FeatureColumns(_fine(model, side), old) for side in _sides(model)]
    check_attributes(given, columns)
    looks = [None if cell < 0 else old.cells[cell] for cell in cells.tolist()]
    rows = [[own.row(entry, cell) for entry, cell in zip(given, looks, strict=True)] for own in columns]
    sides = [with_rows(side, new, old.n_words) for side, new in zip(_sides(model), rows, strict=True)]
    return _rebuilt(model, revision, sides, {"words added": len(given)})


def remove(model: LLRNN, forms: Iterable[str]) -> LLRNN:
    """Return a new model that does not list these words; the given model stays as it is, and weights are copied.

    In an open vocabulary they can still be generated, as strings outside the list. The `training_summary` is dropped
    where word ids change. Raises VocabularyError for words that are not listed, or are needed (end of sentence, unknown
    word).

        remove(model, ["cachalot"])
    """
    gone, old = dict.fromkeys(forms), model.vocabulary
    _check_gone(gone, old)
    stay = np.delete(np.arange(old.n_words), [old.id(word) for word in gone])
    new = old.of_words(stay)
    revision = _removing(list(gone), old, new, stay)
    symbols = np.concatenate([stay, np.arange(old.n_words, len(old))])
    sides = [of_symbols(side, symbols) for side in _sides(model)]
    return _rebuilt(model, revision, sides, {"words removed": len(gone)})


def _check_new(given: Sequence[Entry], old: Vocabulary) -> None:
    cells = {f"‹{cell.name}›" for cell in old.cells}
    for entry in given:
        problem = check_string(entry.form)
        if problem is not None or entry.form == EOS:
            why = problem or "it marks the ends of sentences"
            raise VocabularyError(f"{entry} can be no new word: {why}; correct it, or leave it out")
        if entry.count is not None and entry.count < 1:
            raise VocabularyError(f"the count of {entry} must be a whole number above 0, found {entry.count}")
    listed = [entry for entry in given if entry.form in old or entry.form in cells]
    if listed:
        raise VocabularyError(f"{len(listed)} of the new words are listed already: {some(listed)}; leave them out")
    if len({entry.form for entry in given}) < len(given):
        twice = next(entry for i, entry in enumerate(given) if entry.form in {e.form for e in given[:i]})
        raise VocabularyError(f"each new word is needed once, but {twice} comes again; leave it out")


def _check_gone(gone: Iterable[str], old: Vocabulary) -> None:
    needed = [word for word in gone if word in (EOS, old.unknown)]
    if needed:
        what = "marks the ends of sentences" if needed[0] == EOS else "stands for unknown words"
        raise VocabularyError(f"{needed[0]!r} cannot be removed: it {what}; leave it out")
    missing = [word for word in gone if word not in old]
    if missing:
        raise VocabularyError(
            f"{len(missing)} of the words are not listed: {some([quoted(word) for word in missing])}; leave them out"
        )


def _sides(model: LLRNN) -> list[FeatureMatrix]:
    """Return the model's feature matrices: [output features], or [output, input features] where these differ."""
    same = model.input_features is model.output_features
    return [model.output_features] if same else [model.output_features, model.input_features]


def _fine(model: LLRNN, side: FeatureMatrix) -> FeatureMatrix:
    """Return the matrix in which to look up features of new words for `side`, one of the model's two matrices.

    It is the matrix of input features if that has the same feature names as `side`, else `side` itself. In older models
    the output matrix may have fewer classes of words (sets with equal features) than the features tell apart.
    """
    return model.input_features if side.names == model.input_features.names else side


def _rebuilt(model: LLRNN, revision: Revision, sides: Sequence[FeatureMatrix], done: Mapping[str, int]) -> LLRNN:
    """Return a model over a revised vocabulary with the weights of `model`.

    `revision`: the new vocabulary, and where each of its symbols comes from in the old one; `sides`: the revised output
    features, and input features where they differ; `done`: {key: count}, such as {"words added": 3}, added to the
    counts under these keys in the model's `provenance`.
    """
    made = LLRNN(
        revision.vocabulary,
        output_features=sides[0],
        input_features=sides[1] if len(sides) > 1 else None,
        background=model.background.revised(revision),
        controller=copy.deepcopy(model.controller),
        contextual=[feature.revised(revision) for feature in model.contextual],
        contextual_inputs=[one.revised(revision) for one in model.contextual_inputs],
        mixed=[one.revised(revision) for one in model.mixed],
        tied=model.tied,
        word_dropout=model.word_dropout,
    ).to(device=model.device, dtype=model.layer.weight.dtype)
    weights = model.weights()
    if model.input_weight is not None:
        weights["weights.input_weight"] = _renamed_rows(model, made.input_names)
    made.load_weights(weights)
    earlier = model.provenance
    made.provenance = {**earlier, **{key: earlier.get(key, 0) + count for key, count in done.items()}}
    words, seen = revision.kept[: revision.vocabulary.n_words], model.training_summary
    stays = words[words >= 0]
    # its sentences are hashes of the numbers of words: forgotten, where these mean other words now
    if seen is not None and np.array_equal(stays, np.arange(len(stays))):
        counts = np.where(revision.kept >= 0, seen.counts[revision.kept], 0)
        made.training_summary = TrainingSummary(counts, seen.sentences)
    return made.train(model.training)


def _renamed_rows(model: LLRNN, names: Sequence[str]) -> Tensor:
    """Return the weights of contextual inputs, (n, D), with a row for each of n `names`; rows of new names are 0.

    Raises ConfigError where a name that the model was trained on is not among them.
    """
    assert model.input_weight is not None
    old, place = model.input_weight.detach(), {name: row for row, name in enumerate(model.input_names)}
    gone = sorted(place.keys() - {*names})
    if gone:
        raise ConfigError(
            f"the contextual inputs would say nothing of {gone[0]!r} any more, which the model was trained on; leave "
            "the word as it is"
        )
    found = old.new_zeros(len(names), old.shape[1])
    for row, name in enumerate(names):
        if name in place:
            found[row] = old[place[name]]
    return found


def _adding(given: Sequence[Entry], old: Vocabulary, new: Vocabulary, cells: Ints, log_q: Floats) -> Revision:
    n, left, now, pairs = old.n_words, old.log_left, new.log_left, zip(given, cells.tolist(), strict=True)
    _check_counts(given, [e.count is not None or e.share is not None or cell >= 0 for e, cell in pairs], old.total)
    parts = [one.share if one.count is None else one.count / old.total for one in given]
    counted = np.array([part is not None for part in parts], dtype=bool)
    source = np.where(counted, -1, cells + n)
    share = np.log([part or 1.0 for part in parts])
    if len(left):
        share = np.where(counted, share, log_q - left[cells])
    return Revision(
        new,
        kept=np.concatenate([np.arange(n), np.full(len(given), -1), np.arange(n, len(old))]),
        source=np.concatenate([np.arange(n), source, np.arange(n, len(old))]),
        log_share=np.concatenate([np.zeros(n), share, _change(left, now)]),
    )


def _check_counts(given: Sequence[Entry], known: Sequence[bool], total: int) -> None:
    missing = [entry for entry, fine in zip(given, known, strict=True) if not fine]
    if missing:
        raise VocabularyError(
            f"a count is required of words that are in no domain of the model, found none for {len(missing)}: "
            f"{some(missing)}; write form, TAB, attributes, TAB and a count"
        )
    if total == 0 and any(entry.count is not None for entry in given):
        raise VocabularyError(
            "the vocabulary of this model has no counts that those of new words could be compared to; make it from a "
            "corpus, or give words of its domains without counts"
        )


def _removing(gone: Sequence[str], old: Vocabulary, new: Vocabulary, stay: Ints) -> Revision:
    n, left, now = old.n_words, old.log_left, new.log_left
    kept, source = np.arange(n, len(old)), np.arange(n, len(old))
    change = _change(left, now)
    cells, log_q = old.in_domains(gone)
    for word, cell, log in zip(gone, cells.tolist(), log_q.tolist(), strict=True):
        if cell >= 0 and left[cell] == -np.inf:  # nothing was left of it, so what comes back brings the mass
            kept[cell], source[cell], change[cell] = -1, old.id(word), now[cell] - log
    return Revision(
        new,
        kept=np.concatenate([stay, kept]),
        source=np.concatenate([stay, source]),
        log_share=np.concatenate([np.zeros(len(stay)), change]),
    )


def _change(left: Floats, now: Floats) -> Floats:
    """Return now − left for each cell (set of unlisted strings that share a symbol), (cells,); 0 where left is −∞.

    `left`, `now` (cells,): the log of the summed probability of the cell's unlisted strings, in their domain, before
    and after a revision of the vocabulary.
    """
    nothing = left == -np.inf
    return np.asarray(np.where(nothing, 0.0, now - np.where(nothing, 0.0, left)), dtype=np.float64)


def value_attribute(slot: str) -> str:
    """Return "Value:SLOT", the name of the feature of words that are values of this slot of a dialogue act or table.

    For example:

        value_attribute("food")  # "Value:food"
    """
    return f"Value:{slot}"


def add_from_conditions(
    model: LLRNN,
    conditions: Iterable[object],
    others: Mapping[str, Iterable[str]] | None = None,
    counts: Mapping[str, int] | None = None,
) -> LLRNN:
    """Return a model with the unlisted words of these conditions added to the vocabulary, or `model` itself.

    A condition is the input that a text is written from. `others`: {slot: further words}. Words that are values of a
    slot have the feature "Value:SLOT" if the model has it. The model itself is returned where all are listed, where no
    part of it would use them, or where a constraint reads characters. A new value counts as a word seen once, or as
    often as `counts` says, {slot: times}; a word of the text before keeps the probability that it had unlisted. Raises
    LLRNNError where the model can take no new words.

        generate(add_from_conditions(model, [{"name": "taj"}]), condition={"name": "taj"})
    """
    words_in = any(one.reads_conditions and not one.needs_condition for one in model.contextual_inputs)  # not numbers
    if model.background.is_static and not model.contextual and not words_in:
        return model
    if any(constraint.over == "characters" for constraint in constraints_of(model.background)):
        return model
    conditions, slots = list(conditions), dict[str, set[str]]()
    values = chain.from_iterable(values_of(condition) for condition in conditions)
    for slot, words in chain(values, (others or {}).items()):
        for word in words:
            if word not in model.vocabulary and check_string(word) is None:
                slots.setdefault(word, set()).add(slot)
    read = _read_before(model, conditions, slots)
    if not slots and not read:
        return model
    known = {*model.output_features.names, *model.input_features.names}
    attributes = {word: frozenset(map(value_attribute, of)) & known for word, of in slots.items()}
    often = {word: max((counts or {}).get(slot, 1) for slot in of) for word, of in slots.items()}
    new = [Entry(word, attributes[word], count=often[word]) for word in sorted(slots)]
    return add(model, [*new, *map(Entry, read)], unchanged=True)


def _read_before(model: LLRNN, conditions: Sequence[object], others: Collection[str]) -> list[str]:
    """Return, sorted, the unlisted words of the text before that a domain (infinite set of strings) of the model has.

    The text before is in the conditions, the inputs that texts are written from. [] unless the prior expects words to
    come again; words in `others` are left out.
    """
    given = conditions if model.background.text_before else ()
    texts = {id(one.text): one.text for one in given if isinstance(one, Before)}  # which sentences share
    said = {word for text in texts.values() for word in text}
    said |= {word for one in given if isinstance(one, str) for word in one.split()}
    new = sorted(word for word in said if word not in model.vocabulary and word not in others)
    return [word for word, cell in zip(new, model.vocabulary.cells_of(new).tolist(), strict=True) if cell >= 0]


def with_text_words(model: LLRNN, corpus: Corpus) -> LLRNN:
    """Return a model whose vocabulary lists the words of a running text too, each with the probability it had unlisted.

    It is meant for models with a prior of words that come again (`backgrounds.Recent`). The model itself is returned
    for a corpus of sentences that stand alone, not made by `Corpus.running`.

        with_text_words(model, corpus.running(500))
    """
    if not any(isinstance(one, Before) for one in corpus.conditions):
        return model
    return add_from_conditions(model, [*corpus.conditions, Before(tuple(corpus.counts()))])


def try_add_from_conditions(
    model: LLRNN,
    conditions: Iterable[object],
    others: Mapping[str, Iterable[str]] | None = None,
    tell: Callable[[str], None] = warn_unlisted,
) -> LLRNN:
    """Return a model with the unlisted words of these conditions added, or `model` itself where it can take none.

    Conditions are the inputs that texts are written from; `others`: {slot: further words}; `tell`: called with a
    message if words could not be added.

        try_add_from_conditions(model, [{"name": "taj"}], tell=print)
    """
    try:
        return add_from_conditions(model, conditions, others)
    except LLRNNError as reason:
        tell(f"new words of conditions are not listed, so that nothing points at them: {reason}")
        return model


def words_by_column(lookups: Iterable[Lookup]) -> dict[str, set[str]]:
    """Return {column: words of its values} of the columns that `lookups` look up; columns of one name are joined."""
    found: dict[str, set[str]] = {}
    for one in lookups:
        for column, words in one.words_by_column.items():
            found.setdefault(column, set()).update(words)
    return found
