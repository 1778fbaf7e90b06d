"""The data of the open-vocabulary study: nothing in it was learnt from a test text.

    train, valid (.conllu)                   lowercased; French cuts valid off the end of train, others have UD's dev
    frequencies.tsv                          words of outside lists, with their relative frequencies
    lexicon.tsv                              attributes of training words and listed words
    characters/, bpe-2000/, ...              the same texts as units: train.txt, valid.txt, units.txt, units.json
    manifest.json                            which files were opened, counts, and how much of valid the lists cover

With a file of word vectors, the same knowledge for every system, each in the form that it can take (French):

    other-*.txt                              other texts, one sentence a line, written as train is
    frequencies-more.tsv, lexicon-more.tsv   the words of other texts listed too
    vectors.npz                              vectors of listed words
    characters-more/, bpe-8000-more/, ...    units of all texts: train.txt, valid.txt, other-*.txt; byte pairs that are
                                             whole words have those words' vectors, vectors.npz
    other.json                               sizes, and the sentences dropped for what valid and tests share with them

`prepare` opens training and validation texts and outside lists. Tests are opened by `test_corpora` alone: by
evaluation, and to take what they share with other texts out of those. An unseen word has no attributes from the
training text, so a model must not lean on them for rare words: the annotation of the training text counts for words
that it has often.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from llrnn.config.wordlists import (
    Frequencies,
    from_wordfreq,
    is_form,
    joined,
    weighted_by_spelling,
    write_frequencies,
)
from llrnn.ground.errors import ConfigError, LexiconError
from llrnn.ground.files import write_atomically
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon, read_frequencies
from llrnn.text.others import Overlap
from llrnn.text.readers import conllu_lines
from llrnn.text.units import END, BytePairs, CharacterUnits, Units, decode
from llrnn.text.vectors import WordVectors, cases
from llrnn_lab.studies.prepare import find_source, other_sentences, other_treebanks, write_text
from llrnn_morphology.dictionaries import expanded_forms, hunspell, stems

DICTIONARIES = Path("/usr/share/hunspell")
MORE = "more"  # what is made from other texts too
VALIDATION = 728  # French sentences, as in the paper
BYTE_PAIRS = (2000, 4000, 8000)  # units
MORE_BYTE_PAIRS = (8000, 16000)  # units of all texts
OFTEN_WITH_ANALYSER = 5  # how often a word is seen whose annotation counts, beside an analyser's
OFTEN = 3  # the same, where there is no analyser

_ROUNDS = 50  # of expectation maximisation
_LEAST = 1e-12  # a word that is listed has mass


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
    others: bool = False  # whether there are other texts


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
        others=True,
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
    vectors: Path | None = None,
) -> None:
    """Fill `out` from `data`; what is there already is left alone. `sentences` cuts the texts short, for trials.

    With a file of word `vectors`, other texts and these vectors are prepared for every system, too.
    """
    given = language_named(language)
    if vectors is not None and not given.others:
        known = ", ".join(name for name, one in LANGUAGES.items() if one.others)
        raise ConfigError(f"there are other texts and vectors for {known} alone, found {language}; leave --vectors out")
    if not (out / "manifest.json").exists():
        tell(f"preparing {language} in {out}")
        _prepare(data, out, language, sentences)
    if vectors is not None and not (out / "other.json").exists():
        tell(f"preparing other texts and vectors of {language} in {out}")
        _prepare_more(data, out, language, vectors, sentences)


def _prepare(data: Path, out: Path, language: str, sentences: int | None) -> None:
    given = language_named(language)
    files, texts = _texts(data, given, sentences)
    lists = frequency_lists(language, texts["train"])
    listed = joined(lists, texts["train"])
    lexicon = _lexicon(given, texts["train"], listed)
    out.mkdir(parents=True, exist_ok=True)
    for part, corpus in texts.items():
        write_atomically(out / f"{part}.conllu", "".join(f"{line}\n" for line in conllu_lines(corpus)).encode())
    write_frequencies(out / "frequencies.tsv", listed)
    lexicon.to_tsv(out / "lexicon.tsv")
    write_units(out / "characters", CharacterUnits.from_corpus(texts["train"]), texts)
    for size in BYTE_PAIRS:
        write_units(out / f"bpe-{size}", BytePairs.from_corpus(texts["train"], size), texts)
    manifest = _manifest(language, files, texts, lists, listed, lexicon)
    write_atomically(out / "manifest.json", json.dumps(manifest, ensure_ascii=False, indent=1).encode())


def _prepare_more(data: Path, out: Path, language: str, vectors: Path, sentences: int | None) -> None:
    texts = {part: Corpus.from_file(out / f"{part}.conllu", lowercase=True) for part in ("train", "valid")}
    others, told = _other_texts(data, language, texts, sentences)
    for name, corpus in others.items():
        write_text(out / f"{name}.txt", (sentence.words for sentence in corpus))
    listed = with_texts(read_frequencies(out / "frequencies.tsv"), others, texts["train"])
    write_frequencies(out / f"frequencies-{MORE}.tsv", listed)
    _lexicon(language_named(language), texts["train"], listed).to_tsv(out / f"lexicon-{MORE}.tsv")
    known = _vectors(vectors, [*dict.fromkeys((*texts["train"].counts(), *listed))])
    known.save(out / "vectors.npz")
    everything = reduce(add, others.values(), texts["train"])
    cuts: dict[str, Units] = {f"characters-{MORE}": CharacterUnits.from_corpus(everything)}
    cuts |= {f"bpe-{size}-{MORE}": BytePairs.from_corpus(everything, size) for size in MORE_BYTE_PAIRS}
    cuts |= {f"bpe-{size}": BytePairs.from_corpus(texts["train"], size) for size in BYTE_PAIRS[-1:]}
    for name, cut in cuts.items():
        write_units(out / name, cut, texts | others)
        if isinstance(cut, BytePairs):
            of_whole_words(cut, known).save(out / name / "vectors.npz")
    told |= {"forms": len(listed), "words with a vector": len(known)}
    write_atomically(out / "other.json", json.dumps(told, ensure_ascii=False, indent=1).encode())


def _other_texts(
    data: Path, language: str, texts: Mapping[str, Corpus], sentences: int | None
) -> tuple[dict[str, Corpus], dict[str, Any]]:
    """Other texts without what the validation and test texts have too, and how much that was."""
    held_out = {"valid": texts["valid"], **test_corpora(data, language)}
    source = find_source(data)
    treebanks = other_treebanks(source, {"train": texts["train"], **held_out})
    found: dict[str, Corpus] = {}
    told: dict[str, Any] = {}
    for name, lines in other_sentences(source, texts["train"], treebanks, sentences).items():
        whole = Corpus.from_sentences([line for line in lines if line], name=f"other-{name}")
        overlap = Overlap.between(whole, list(held_out.values()))
        kept = Corpus(tuple(one for number, one in enumerate(whole) if number not in overlap.numbers), whole.name)
        told[name] = {"sentences": len(kept), "words": kept.tokens, "dropped": len(overlap.numbers)}
        found[f"other-{name}"] = kept
    return found, {"texts": told}


def with_texts(listed: Frequencies, others: Mapping[str, Corpus], train: Corpus) -> Frequencies:
    """One list of a list and of the words of other texts, for words that the training text has not.

        f(x) = Σ_k λ_k f_k(x) / F_k            F_k = Σ f_k(x) over words that it has once at most

    λ is that under which the words that it has once are likeliest (expectation maximisation).
    """
    seen, sources = train.counts(), [listed, *(_forms(corpus) for corpus in others.values())]
    rare = [sum(f for form, f in one.items() if seen[form] <= 1) for one in sources]
    sources, rare = [one for one, mass in zip(sources, rare, strict=True) if mass > 0], [mass for mass in rare if mass]
    once = [word for word, count in seen.items() if count == 1]
    f = np.array([[one.get(word, 0.0) / mass for one, mass in zip(sources, rare, strict=True)] for word in once])
    f, share = f[f.sum(1) > 0] if once else f, np.full(len(sources), 1.0 / len(sources))
    for _ in range(_ROUNDS if len(f) else 0):
        joint = f * share
        share = (joint / joint.sum(1, keepdims=True)).mean(0)
    made: Counter[str] = Counter()
    for one, mass, own in zip(sources, rare, share.tolist(), strict=True):
        made.update({form: own * value / mass for form, value in one.items()})
    total = made.total()
    return {form: max(value / total, _LEAST) for form, value in made.items()}


def _forms(corpus: Corpus) -> Frequencies:
    tokens = corpus.tokens
    return {form: count / tokens for form, count in corpus.counts().items() if is_form(form)}


def _vectors(path: Path, words: Sequence[str]) -> WordVectors:
    """Those of some words, in whatever case the file has them; of half precision, since they travel."""
    found = WordVectors.read(path, only={form for word in words for form in cases(word)})
    found = found.restricted(words, any_case=True)
    return replace(found, table=found.table.astype(np.float16).astype(np.float32))


def of_whole_words(cut: BytePairs, vectors: WordVectors) -> WordVectors:
    """The vectors of units that are whole words."""
    word_of = {unit: decode([unit])[0] for unit in cut.symbols() if unit.endswith(END) and unit != END}
    units, rows = list(word_of), vectors.rows_of(word_of.values())
    kept = tuple(unit for unit, row in zip(units, rows.tolist(), strict=True) if row >= 0)
    return replace(vectors, words=kept, rows=rows[rows >= 0]).restricted(kept)


def test_corpora(data: Path, language: str) -> dict[str, Corpus]:
    """The test texts: for evaluation, when every choice is made, and to keep their sentences out of other texts."""
    given = language_named(language)
    paths = {name: _found(data / given.folder, pattern) for name, pattern in given.tests.items()}
    return {name: Corpus.from_file(path, lowercase=True) for name, path in paths.items()}


def _texts(data: Path, given: Language, sentences: int | None) -> tuple[list[Path], dict[str, Corpus]]:
    files = [_found(data / given.folder, pattern) for pattern in (given.train, given.valid) if pattern is not None]
    read = [Corpus.from_file(path, lowercase=True)[:sentences] for path in files]
    if given.valid is None:
        (whole,) = read
        read = list(whole.split(len(whole) - min(VALIDATION, len(whole) // 10)))
    train, valid = read
    return files, {"train": train, "valid": valid}


def first_words(corpus: Corpus, words: int) -> Corpus:
    """The first sentences, up to the one with which there are so many words."""
    ends = np.cumsum([len(sentence.words) for sentence in corpus])
    return corpus[: int(np.searchsorted(ends, words)) + 1]


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
        lists["hunspell stems"] = weighted_by_spelling(stems(_dictionary(given)), train)
    return {name: {form: count for form, count in one.items() if is_form(form)} for name, one in lists.items()}


def _dictionary(given: Language) -> Path:
    path = DICTIONARIES / f"{given.dictionary}.dic"
    if not path.exists():
        raise LexiconError(f"the study needs hunspell's dictionary; install Debian's {given.package}", path=path)
    return path


def _lexicon(given: Language, train: Corpus, listed: Collection[str]) -> Lexicon:
    counts = train.counts()
    often = OFTEN_WITH_ANALYSER if given.analyser else OFTEN
    annotated = Lexicon.from_corpus(train)
    words = (word for word, count in counts.items() if count >= often and annotated(word) and is_form(word))
    known = Lexicon.from_mapping({word: annotated(word) for word in words})
    if given.analyser:
        forms = {word for word in (*counts, *listed) if is_form(word)}
        known = hunspell(_dictionary(given), forms=forms) | known
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
