"""Words of outside lists with relative frequencies f(x): counted lists, plain lists, dictionaries; joined into one.

A list says how likely which *new* word is: `[background] kind = "discounted"` gives it what the discounts of the
training text leave. A list without counts says less; there f(x) ∝ √(f(x) q(x)), with q a model of how the rare words
of the text are spelled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn.languages.domains.spelling import CharacterModel
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import EOS

Frequencies = dict[str, float]

RARE = 2  # times a rare word is seen, at most
_LONGEST_OLD = 4  # characters at the end of a lemma that an inflection replaces
_SUBLINEAR = 0.7  # a lemma of twice as many forms is not twice as likely to have another
_FAR = 0.25  # of the likeliest reading
_SMASHED = re.compile(r"\d\d")


def is_form(form: str) -> bool:
    """Whether a string can be one word in a vocabulary file or table: one line, no tab, no blank at either end."""
    on_one_line = form.strip() == form and len(form.splitlines()) == 1 and not {"\t", "\0"} & {*form}
    return on_one_line and form != EOS and not form.startswith("# ")


def from_wordfreq(language: str) -> Frequencies:
    """Return {word: relative frequency}: the package wordfreq's longest list of a language, such as `fr`.

    Words with two digits in a row are omitted, since wordfreq counts all such numbers as one. Raises ConfigError for a
    language that it does not have, MissingExtraError where it is not installed.
    """
    try:
        from wordfreq import available_languages, get_frequency_dict
    except ImportError:
        raise MissingExtraError("wordfreq", "open") from None
    known = available_languages()
    if language not in known:
        raise ConfigError(f"wordfreq has no list for {language!r}, only for {', '.join(sorted(known))}; give a file")
    found = get_frequency_dict(language, "best")
    return {form: count for form, count in found.items() if not _SMASHED.search(form)}


def weighted_by_spelling(forms: Frequencies, train: Corpus) -> Frequencies:
    """Return the words of a list with new frequencies ∝ √(f(x) q(x)); q(x) is a model of how rare words are spelled.

    For lists without counts: words spelled like rare words of the training text `train` become likelier. `forms`: words
    with frequencies f(x), all 1 for a plain list. The result adds up to 1.
    """
    counts = train.counts()
    rare = [word for word, count in counts.items() if count <= RARE] or list(counts)
    model = CharacterModel.estimated(rare, order=6, min_counts=(0, 0, 0, 2))
    listed = [form for form in forms if is_form(form)]
    log_f = (np.log([forms[form] for form in listed]) + model.log_prob(listed)) / 2
    f = np.exp(log_f - log_f.max())
    return dict(zip(listed, (f / f.sum()).tolist(), strict=True))


def joined(lists: Mapping[str, Frequencies], train: Corpus) -> Frequencies:
    """Join word lists (word to frequency), given by name, into one; of a word in several, the first list decides.

    The first list keeps its frequencies; the words that a further list adds are scaled so that they sum to the share of
    the words of the training text `train` that they make up.
    """
    total: Frequencies = {}
    counts = train.counts()
    for further in lists.values():
        new = {form: count for form, count in further.items() if form not in total}
        share = sum(counts[form] for form in new) / max(1, train.tokens) if total else 1.0
        scale = share / sum(new.values()) if total and new else 1.0
        total |= {form: count * scale for form, count in new.items()}
    return total


# Forms that an annotated text does not have, of lemmas and endings that it has.


@dataclass(frozen=True)
class Inflection:
    """A rule that makes an inflected form of a lemma of part of speech `pos`: the ending `old` becomes `new`.

    `old` and `new` begin with the last character that stays: `ty` → `ties` for nouns. `attributes`: a frozenset of
    those of the form, such as "Number:Plur".
    """

    pos: str
    old: str  # the end of the lemma, from the last character that stays
    new: str
    attributes: frozenset[str]

    @classmethod
    def shown_by(cls, form: str, lemma: str, pos: str, attributes: frozenset[str]) -> Inflection | None:
        """Return the rule that turns a lemma into a form; `pos` and `attributes` are those of the form.

        For "cities" and "city" its `old` is "ty" and its `new` "ties". None where they share fewer than two letters at
        the beginning, or where `old` would be longer than 4 characters.
        """
        pairs = enumerate(zip(form, lemma, strict=False))
        same = next((place for place, (one, other) in pairs if one != other), min(len(form), len(lemma)))
        old = lemma[same - 1 :]
        return cls(pos, old, form[same - 1 :], attributes) if same >= 2 and len(old) <= _LONGEST_OLD else None


def derived_forms(train: Corpus, most: int = 50_000) -> tuple[Frequencies, Lexicon]:
    """Return the `most` likeliest forms made of lemmas and inflections of an annotated text, and their attributes.

        f(x) ∝ Σ_{lemma l, inflection i: i(l) = x} n(l)^0.7 · n(i) / Σ_{i' that fits l} n(i')

    n(l) is how many forms of a lemma the text has, n(i) how many words show an inflection, two or more. A form of the
    text does not count for itself: it is derived only if it would be without its own occurrence, so that words seen
    once tell how many new words are derived. Returned are {form: relative frequency}, which add up to 1, and a lexicon
    of the forms' attributes; both empty for a text without lemmas.

        frequencies, lexicon = derived_forms(Corpus.from_file("train.conllu", lowercase=True))
    """
    found = {
        (token.form, lemma, token.pos or "", frozenset(token.attributes()))
        for sentence in train
        for token in sentence.tokens
        if token.form.isalpha() and (lemma := "".join(filter(str.isalpha, token.lemma or "")).lower())
    }
    shown = dict.fromkeys(sorted(found, key=lambda one: (*one[:3], sorted(one[3]))))  # the same in every process
    forms: dict[tuple[str, str], set[str]] = {}
    for form, lemma, pos, _ in shown:
        forms.setdefault((lemma, pos), set()).add(form)
    times = Counter(Inflection.shown_by(*one) for one in shown)
    fitting: dict[tuple[str, str], list[tuple[Inflection, int]]] = {}
    for inflection, n in times.items():
        if inflection is not None and n > 1:
            fitting.setdefault((inflection.pos, inflection.old), []).append((inflection, n))
    weight: dict[str, dict[frozenset[str], float]] = {}
    for (lemma, pos), own in forms.items():
        ends = (lemma[-size:] for size in range(1, min(len(lemma), _LONGEST_OLD) + 1))
        known = [one for end in ends for one in fitting.get((pos, end), ())]
        whole = sum(n for _, n in known)
        for inflection, n in known:
            form = lemma.removesuffix(inflection.old) + inflection.new
            itself = (form, lemma, pos, inflection.attributes) in shown
            others = len(own) - (form in own)
            if others and n - itself > 1:
                readings, reading = weight.setdefault(form, {}), inflection.attributes
                share = (n - itself) / (whole - itself)
                readings[reading] = readings.get(reading, 0.0) + others**_SUBLINEAR * share
    f = {form: sum(readings.values()) for form, readings in weight.items()}
    kept = sorted(f, key=lambda form: (-f[form], form))[:most]
    total = sum(f[form] for form in kept)
    likely = {form: _likely(weight[form]) for form in kept}
    return {form: f[form] / total for form in kept}, Lexicon.from_mapping(likely)


def _likely(readings: Mapping[frozenset[str], float]) -> frozenset[str]:
    """Return the union of the attributes of a form's readings that have at least a quarter of the largest weight.

    `readings` maps the attributes of each reading to its weight.
    """
    least = _FAR * max(readings.values())
    return frozenset[str]().union(*(attributes for attributes, weight in readings.items() if weight >= least))


def write_frequencies(path: Path, listed: Frequencies) -> None:
    """Write a word list (word to frequency) to a file as lines `form TAB frequency`, the most frequent first.

    Frequencies have four significant digits; of equal ones, words are sorted. The file is replaced atomically.
    """
    rows = sorted(listed.items(), key=lambda item: (-item[1], item[0]))
    write_atomically(path, "".join(f"{form}\t{count:.4g}\n" for form, count in rows).encode())
