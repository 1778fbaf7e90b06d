"""A model over a vocabulary with words added or removed: the same weights, revised knowledge, more or fewer rows.

kept[x'] → x                  which symbol it was; listed words first, then cells, in their order
source[x'], log_share[x']     whose mass it takes, and how much of it (`knowledge.process.Revision`)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import VocabularyError
from llrnn.knowledge.features import FeatureMatrix
from llrnn.model.checkpoint import fill_parameters
from llrnn.model.network import LLRNN
from llrnn.model.words.features import Columns, check_attributes, of_symbols, with_rows
from llrnn.model.words.table import Entry, some
from llrnn.text.automata import check_string
from llrnn.text.ids import Seen
from llrnn.text.revision import Revision
from llrnn.text.vocabulary import EOS, Vocabulary


def add(model: LLRNN, entries: Iterable[Entry]) -> LLRNN:
    """A new model that lists these words too, behind its own; the given one stays as it is."""
    given, old = list(entries), model.vocabulary
    _check_new(given, old)
    forms = [entry.form for entry in given]
    new = _with_words(old, [*old.words, *forms], [*old.counts[: len(old.words)], *(e.count or 0 for e in given)])
    cells, log_q = old.in_domains(forms)
    revision = _adding(given, old, new, cells, log_q)
    columns = [Columns(side, old) for side in _sides(model)]
    check_attributes(given, columns)
    looks = [None if cell < 0 else old.cells[cell] for cell in cells.tolist()]
    rows = [[own.row(entry, cell) for entry, cell in zip(given, looks, strict=True)] for own in columns]
    sides = [with_rows(side, new, len(old.words)) for side, new in zip(_sides(model), rows, strict=True)]
    return _rebuilt(model, revision, sides, {"words added": len(given)})


def remove(model: LLRNN, forms: Iterable[str]) -> LLRNN:
    """A new model without these words: they are strings of their cells again, or gone from a closed vocabulary.

    What a model has seen is known by the numbers of words: it is forgotten where they change (`model.seen` is None).
    """
    gone, old = dict.fromkeys(forms), model.vocabulary
    _check_gone(gone, old)
    stay = np.array([i for i, word in enumerate(old.words) if word not in gone], dtype=np.int64)
    new = _with_words(old, [old.words[i] for i in stay], [old.counts[i] for i in stay])
    revision = _removing(list(gone), old, new, stay)
    symbols = np.concatenate([stay, np.arange(len(old.words), len(old))])
    sides = [of_symbols(side, symbols) for side in _sides(model)]
    return _rebuilt(model, revision, sides, {"words removed": len(gone)})


def _check_new(given: Sequence[Entry], old: Vocabulary) -> None:
    symbols = set(old.symbols)
    for entry in given:
        problem = check_string(entry.form)
        if problem is not None or entry.form == EOS:
            why = problem or "it marks the ends of sentences"
            raise VocabularyError(f"{entry} can be no new word: {why}; correct it, or leave it out")
        if entry.count is not None and entry.count < 1:
            raise VocabularyError(f"the count of {entry} must be a whole number above 0, found {entry.count}")
    listed = [entry for entry in given if entry.form in symbols]
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
            f"{len(missing)} of the words are not listed: {some([repr(word) for word in missing])}; leave them out"
        )


def _with_words(old: Vocabulary, words: Sequence[str], counts: Sequence[int]) -> Vocabulary:
    return Vocabulary(
        words,
        counts=[*counts, *old.counts[len(old.words) :]],
        unknown=old.unknown,
        domains=old.domains,
        as_new=old.as_new.intersection(words),
        checked=True,
    )


def _sides(model: LLRNN) -> list[FeatureMatrix]:
    """φ, and ψ where it is another."""
    same = model.input_features is model.output_features
    return [model.output_features] if same else [model.output_features, model.input_features]


def _rebuilt(model: LLRNN, revision: Revision, sides: Sequence[FeatureMatrix], done: Mapping[str, int]) -> LLRNN:
    """The same weights over another vocabulary."""
    made = LLRNN(
        revision.vocabulary,
        output_features=sides[0],
        input_features=sides[1] if len(sides) > 1 else None,
        background=model.background.revised(revision),
        controller=copy.deepcopy(model.controller),
        contextual=[feature.revised(revision) for feature in model.contextual],
        tied=model.tied,
        word_dropout=model.word_dropout,
    ).to(device=model.device, dtype=model.layer.weight.dtype)
    weights = {f"weights.{name}": parameter for name, parameter in model.named_parameters()}
    fill_parameters(made, weights.get)
    earlier = model.provenance
    made.provenance = {**earlier, **{key: earlier.get(key, 0) + count for key, count in done.items()}}
    made.radius = dict(model.radius)
    made.seen = _seen(model.seen, revision)
    return made.train(model.training)


def _seen(seen: Seen | None, revision: Revision) -> Seen | None:
    words = revision.kept[: len(revision.vocabulary.words)]
    stays = words[words >= 0]
    if seen is None or not np.array_equal(stays, np.arange(len(stays))):
        return None  # its sentences are hashes of numbers that mean other words now
    return Seen(np.where(revision.kept >= 0, seen.counts[revision.kept], 0), seen.sentences)


def _adding(given: Sequence[Entry], old: Vocabulary, new: Vocabulary, cells: Ints, log_q: Floats) -> Revision:
    n, left, now = len(old.words), old.log_left, new.log_left
    counted = np.array([entry.count is not None for entry in given], dtype=bool)
    _check_counts(given, (counted | (cells >= 0)).tolist(), sum(old.counts))
    source = np.where(counted, -1, cells + n)
    share = np.array([0.0 if e.count is None else np.log(e.count) - np.log(sum(old.counts)) for e in given])
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
    n, left, now = len(old.words), old.log_left, new.log_left
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
    """log Q'_new / Q'_old of each cell, 0 where nothing was left anyway."""
    nothing = left == -np.inf
    found: Floats = np.where(nothing, 0.0, now - np.where(nothing, 0.0, left))
    return found
