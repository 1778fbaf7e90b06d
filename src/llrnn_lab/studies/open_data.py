"""The data of the open-vocabulary study: nothing in it was learnt from a test text.

    train, valid (.conllu)                   lowercased; French cuts valid off the end of train, others have UD's dev
    frequencies.tsv                          words of outside lists, with their relative frequencies
    lexicon.tsv                              attributes of training words and listed words
    characters/, bpe-2000/, ...              the same texts as units: train.txt, valid.txt, units.txt, units.json
    manifest.json                            which files were opened, counts, and how much of valid the lists cover

`prepare` opens training and validation texts and outside lists. Tests are opened by `test_corpora` alone, which only
evaluation calls. An unseen word has no attributes from the training text, so a model must not lean on them for rare
words: the annotation of the training text counts for words that it has often.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np

from llrnn.ground.errors import ConfigError, LexiconError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn.languages.domains.spelling import CharacterModel
from llrnn.text import analysers
from llrnn.text.analysers import AffixFile, encoding_of, read_encoded, split_flags
from llrnn.text.corpus import Corpus
from llrnn.text.french import conllu
from llrnn.text.lexicon import Lexicon
from llrnn.text.readers import Line
from llrnn.text.vocabulary import EOS
from llrnn_lab.studies.units import BytePairs, Characters, Units

DICTIONARIES = Path("/usr/share/hunspell")
VALIDATION = 728  # French sentences, as in the paper
BYTE_PAIRS = (2000, 4000, 8000)  # units
OFTEN_WITH_ANALYSER = 5  # how often a word is seen whose annotation counts, beside an analyser's
OFTEN = 3  # the same, where there is no analyser
MOST_FORMS = 650_000  # of a dictionary that makes millions
_FEW = 1000  # forms, added to each ending's: one that makes a few is not likely because one of them was seen

_RARE = 2  # times

Frequencies = dict[str, float]
_SMASHED = re.compile(r"\d\d")


@dataclass(frozen=True)
class Language:
    """Where the texts and the lists of a language lie; names of files may be patterns."""

    folder: str
    train: str
    valid: str | None  # None: cut off the end of train
    tests: Mapping[str, str]
    dictionary: str
    package: str  # Debian's, which holds the dictionary
    wordfreq: bool = False
    expanded: bool = False  # whether the dictionary's affixes are attached
    analyser: bool = False  # whether the dictionary says what forms are


LANGUAGES = {
    "fr": Language(
        "ud_french_gsd",
        "fr_gsd-train.conllu",
        None,
        {"test1": "fr_gsd-test.conllu", "test2": "fr_gsd-dev.conllu"},
        "fr",
        "hunspell-fr",
        wordfreq=True,
        analyser=True,
    ),
    "tr": Language(
        "ud_turkish",
        "*-train.conllu*",
        "*-dev.conllu*",
        {"test1": "*-test.conllu*"},
        "tr_TR",
        "hunspell-tr",
        wordfreq=True,
    ),
    "et": Language(
        "ud_estonian",
        "*-train.conllu*",
        "*-dev.conllu*",
        {"test1": "*-test.conllu*"},
        "et_EE",
        "myspell-et",
        expanded=True,
    ),
}

LITTLE_TEXT = ("tr", "et")


def language_named(name: str) -> Language:
    if name not in LANGUAGES:
        raise ConfigError(f"the language must be one of {', '.join(LANGUAGES)}, found {name!r}; choose one of them")
    return LANGUAGES[name]


def prepare(
    data: Path,
    out: Path,
    language: str,
    *,
    tell: Callable[[str], None] = lambda text: None,
    sentences: int | None = None,
) -> None:
    """Fill `out` from `data`; what is there already is left alone. `sentences` cuts the texts short, for trials."""
    if (out / "manifest.json").exists():
        return
    given = language_named(language)
    tell(f"preparing {language} in {out}")
    files, texts = _texts(data, given, sentences)
    lists = frequency_lists(language, texts["train"])
    listed = joined(lists, texts["train"])
    out.mkdir(parents=True, exist_ok=True)
    for part, corpus in texts.items():
        write_atomically(out / f"{part}.conllu", "".join(f"{line}\n" for line in conllu(corpus)).encode())
    rows = sorted(listed.items(), key=lambda item: (-item[1], item[0]))
    write_atomically(out / "frequencies.tsv", "".join(f"{form}\t{count:.4g}\n" for form, count in rows).encode())
    lexicon = _lexicon(given, texts["train"], listed)
    lexicon.to_tsv(out / "lexicon.tsv")
    write_units(out / "characters", Characters.from_corpus(texts["train"]), texts)
    for size in BYTE_PAIRS:
        write_units(out / f"bpe-{size}", BytePairs.from_corpus(texts["train"], size), texts)
    manifest = _manifest(language, files, texts, lists, listed, lexicon)
    write_atomically(out / "manifest.json", json.dumps(manifest, ensure_ascii=False, indent=1).encode())


def test_corpora(data: Path, language: str) -> dict[str, Corpus]:
    """The test texts. Only evaluation calls this, when every choice has been made."""
    given = language_named(language)
    paths = {name: _found(data / given.folder, pattern) for name, pattern in given.tests.items()}
    return {name: Corpus.from_file(path, lowercase=True) for name, path in paths.items()}


def _texts(data: Path, given: Language, sentences: int | None) -> tuple[list[Path], dict[str, Corpus]]:
    files = [_found(data / given.folder, pattern) for pattern in (given.train, given.valid) if pattern is not None]
    read = [Corpus.from_file(path, lowercase=True)[:sentences] for path in files]
    if given.valid is None:
        (whole,) = read
        read = list(whole.split(len(whole) - min(VALIDATION, len(whole) // 10)))
    return files, dict(zip(("train", "valid"), read, strict=True))


def _found(folder: Path, pattern: str) -> Path:
    """The one file of this name; files are told by their names, never by what is in them."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ConfigError(f"{folder}: one file {pattern} is required there, found {len(found)}; say --data")
    return found[0]


def frequency_lists(language: str, train: Corpus) -> dict[str, Frequencies]:
    """Outside lists of forms by their names, each with relative frequencies; forms that no text can hold left out."""
    given = language_named(language)
    lists: dict[str, Frequencies] = {}
    if given.wordfreq:
        lists["wordfreq"] = from_wordfreq(language)
    if given.expanded:
        lists["hunspell"] = weighted_by_spelling(expanded_forms(_dictionary(given), train), train)
    elif not given.analyser:
        stems = {stem.lower() for _, stem, _ in _entries(_dictionary(given))}
        lists["hunspell stems"] = weighted_by_spelling(dict.fromkeys(sorted(stems), 1.0), train)
    return {name: {form: count for form, count in one.items() if _is_form(form)} for name, one in lists.items()}


def weighted_by_spelling(forms: Frequencies, train: Corpus) -> Frequencies:
    """f(x) ∝ √(f(x) q(x)), for the forms of a dictionary, which nobody counted; q: a model of the text's rare words.

    What is spelled like the words of the text is likelier to come in it.
    """
    rare = [word for word, count in train.counts().items() if count <= _RARE]
    model = CharacterModel.estimated(rare, order=6, min_counts=(0, 0, 0, 2))
    listed = [form for form in forms if _is_form(form)]
    log_f = (np.log([forms[form] for form in listed]) + model.log_prob(listed)) / 2
    f = np.exp(log_f - log_f.max())
    return dict(zip(listed, (f / f.sum()).tolist(), strict=True))


def from_wordfreq(language: str) -> Frequencies:
    """Its longest list, without numbers: it counts all those of equal length as one, written with zeros."""
    try:
        from wordfreq import get_frequency_dict
    except ImportError:
        raise MissingExtraError("wordfreq", "open") from None
    found = get_frequency_dict(language, "best")
    return {form: count for form, count in found.items() if not _SMASHED.search(form)}


def joined(lists: Mapping[str, Frequencies], train: Corpus) -> Frequencies:
    """One list: what a further list adds gets the share of training words that it adds."""
    total: Frequencies = {}
    counts = train.counts()
    for further in lists.values():
        new = {form: count for form, count in further.items() if form not in total}
        share = sum(counts[form] for form in new) / max(1, train.tokens) if total else 1.0
        scale = share / sum(new.values()) if total and new else 1.0
        total |= {form: count * scale for form, count in new.items()}
    return total


def _is_form(form: str) -> bool:
    """Whether a vocabulary and a table can list it."""
    on_one_line = form.strip() == form and len(form.splitlines()) == 1 and not {"\t", "\0"} & {*form}
    return on_one_line and form != EOS and not form.startswith("# ")


def _dictionary(given: Language) -> Path:
    path = DICTIONARIES / f"{given.dictionary}.dic"
    if not path.exists():
        raise LexiconError(f"the study needs hunspell's dictionary; install Debian's {given.package}", path=path)
    return path


def _entries(dic: Path) -> Iterator[tuple[Line, str, str | None]]:
    """Each stem of a dictionary with its flags; the first line counts them."""
    for line in islice(read_encoded(dic, encoding_of(dic.with_suffix(".aff"))), 1, None):
        stem, flags = split_flags(line.text.split("\t")[0].strip())
        if stem:
            yield line, stem, flags


def expanded_forms(dic: Path, train: Corpus) -> Frequencies:
    """Forms with the endings that the training text uses most, for the number of forms that they make.

    p(form) ∝ (training words with this ending) / (forms with this ending): a dictionary makes fifteen million forms,
    and most endings are hardly ever used. Endings are taken in this order until there are `MOST_FORMS` forms.
    """
    counts = train.counts()
    made: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for form, ending in _derived(dic):
        made[ending] += 1
        seen[ending] += form in counts
    share = {ending: seen[ending] / (made[ending] + _FEW) for ending in made if seen[ending]}
    ranked = sorted(share, key=lambda ending: (-share[ending], ending))
    totals = list(accumulate(made[ending] for ending in ranked))
    kept = set(ranked[: bisect_right(totals, MOST_FORMS)])
    found: Frequencies = {}
    for form, ending in _derived(dic):
        if ending in kept:
            found[form] = max(found.get(form, 0.0), share[ending])
    total = sum(found.values())
    return {form: value / total for form, value in found.items()}


def _derived(dic: Path) -> Iterator[tuple[str, str]]:
    """Every form that the dictionary makes, with the affixes that make it; a form may come several times."""
    file = AffixFile(dic.with_suffix(".aff"))
    for line, stem, flags in _entries(dic):
        for form, rules in file.derive(stem, file.flags(flags, line)):
            yield form.lower(), "+".join(rule.affix for rule in rules)


def _lexicon(given: Language, train: Corpus, listed: Collection[str]) -> Lexicon:
    counts = train.counts()
    often = OFTEN_WITH_ANALYSER if given.analyser else OFTEN
    annotated = Lexicon.from_corpus(train)
    words = (word for word, count in counts.items() if count >= often and annotated(word) and _is_form(word))
    known = Lexicon.from_mapping({word: annotated(word) for word in words})
    if given.analyser:
        forms = {word for word in (*counts, *listed) if _is_form(word)}
        known = analysers.hunspell(_dictionary(given), forms=forms) | known
    return known


def write_units(folder: Path, units: Units, texts: Mapping[str, Corpus]) -> None:
    """The texts as units; units.txt holds every unit once, so that a vocabulary lists those not seen too."""
    folder.mkdir(parents=True, exist_ok=True)
    units.save(folder / "units.json")
    write_atomically(folder / "units.txt", (" ".join(units.symbols()) + "\n").encode())
    for part, corpus in texts.items():
        lines = (" ".join(sentence.words) + "\n" for sentence in units.corpus(corpus))
        write_atomically(folder / f"{part}.txt", "".join(lines).encode())


def _manifest(
    language: str,
    files: list[Path],
    texts: Mapping[str, Corpus],
    lists: Mapping[str, Frequencies],
    listed: Frequencies,
    lexicon: Lexicon,
) -> dict[str, Any]:
    """Counts, and the shares of the validation text that lists and attributes cover."""
    sources: dict[str, Collection[str]] = {**lists, "all lists": listed, "lexicon": lexicon.entries}
    return {
        "language": language,
        "texts opened": [path.name for path in files],
        "sentences": {part: len(corpus) for part, corpus in texts.items()},
        "words": {part: corpus.tokens for part, corpus in texts.items()},
        "types": {part: len(corpus.counts()) for part, corpus in texts.items()},
        "forms": {name: len(forms) for name, forms in sources.items()},
        "coverage": {name: coverage(forms, texts["train"], texts["valid"]) for name, forms in sources.items()},
    }


def coverage(forms: Collection[str], train: Corpus, valid: Corpus) -> dict[str, float]:
    """The shares of validation words, and of the validation types that training lacks, that are in a list."""
    seen, counts = train.counts(), valid.counts()
    unseen = [word for word in counts if word not in seen]
    return {
        "validation words": sum(n for word, n in counts.items() if word in forms) / max(1, valid.tokens),
        "unseen types": sum(word in forms for word in unseen) / max(1, len(unseen)),
    }
