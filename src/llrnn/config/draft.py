"""A first configuration for a text: what it holds and what is known beside it decide features, domains and sizes.

    draft = draft_config(["mine.txt"], out="config.toml", lists=["words.txt"])
    print(draft)                     # what was found
    draft.write()                    # then: llrnn train config.toml --out runs/mine

Sizes are those of `configs/open`, which were chosen on validation texts: Turkish and Estonian, 37,000 and 56,000 words,
for little text (20,000 of them where there is no list of words), French, 355,000 words, for more of it, and French with
two million words of other text for much of it. What had to be made (lists joined and weighted, attributes of words, raw
text cut into words) lies in a folder beside the configuration, `config-data`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from llrnn.config.keys import Config
from llrnn.config.project import Project, parse_config
from llrnn.config.wordlists import (
    RARE,
    Frequencies,
    derived_forms,
    from_wordfreq,
    is_form,
    joined,
    weighted_by_spelling,
    write_frequencies,
)
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import parse_toml, write_atomically
from llrnn.ground.plugins import find_kind
from llrnn.knowledge.backgrounds.base import Mixture, symbol_mass
from llrnn.text.corpus import Corpus, Format, format_of
from llrnn.text.lexicon import Lexicon, has_counts, read_frequencies
from llrnn.text.morphology import Analyser, FromLexicon
from llrnn.text.others import SENTENCE, Overlap
from llrnn.text.raw import raw_reason, tokenised_lines
from llrnn.text.readers import read_lines
from llrnn.text.vectors import WordVectors, cases
from llrnn.text.vocabulary import EOS

LEAST_SENTENCES = 10  # to train and validate on
_OFTEN, _OFTEN_WITH_ANALYSER = 3, 5  # times a word is seen whose annotation counts
_LOOKED_AT = 200  # lines of a file that say what it is
_HELD_OUT = 1000  # sentences for validation, at most; a tenth of a smaller text
_ENOUGH_RARE = 50  # types, to learn from how new words are spelled; else from all
_LEAK = 0.02  # of the sentences of validation: more make its figures too good
_NEAR, _RUNNING, _ENOUGH_TWICE = 20, 0.2, 50  # see `share_near`; a text in any order has 0.1
_RECENT = "{ weight = 0.3, window = 10000, fading = 20.0, inflected = 0.4 }"  # configs/open/little
_PART = re.compile(r"(?:^|[-_.])(train|dev|valid|validation|test)(?=[-_.]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Sizes:
    """What follows from how many words there are."""

    hidden: int
    layers: int
    identity: int  # words that are told apart, at most
    order: int  # characters
    endings: int
    longest: int
    lengths: tuple[int, ...]
    word_dropout: float
    batch: int  # words
    learning_rate: float
    weight_decay: float
    average: float
    epochs: int
    dropout: float = 0.5
    pruned: bool = True  # spelling is learnt from rare words, without rare n-grams; else from all there is


_NO_LIST = Sizes(
    384, 1, 500, 6, 300, 5, (4, 8, 12), 0.2, 512, 0.002, 0.01, 0.99, 30, pruned=False
)  # configs/open/little
_LITTLE = Sizes(256, 2, 500, 6, 1500, 6, (4, 8, 12), 0.2, 512, 0.001, 0.01, 0.99, 40)  # configs/open/small
_MORE = Sizes(512, 2, 2500, 5, 500, 4, (4, 7, 10), 0.1, 2048, 0.003, 0.01, 0.998, 40)  # configs/open
_MUCH = Sizes(768, 2, 8000, 5, 500, 4, (4, 7, 10), 0.1, 2048, 0.0015, 0.05, 0.998, 14)  # configs/open/more
_SMALLEST = {True: 36_000, False: 20_000}  # words: the smallest text that was measured, with lists and without
_BOUNDS = (120_000, 1_500_000)  # words: where little text ends, and where much of it begins


def sizes_for(train: Corpus, *, lists: bool = True) -> Sizes:
    """Sizes for a text, and for one without `lists` of words; below the smallest measured, everything shrinks with it.

    sizes_for(corpus, lists=False).layers       # 1, of little text
    """
    counts, words = train.counts(), train.tokens
    little = _LITTLE if lists else _NO_LIST
    chosen = little if words < _BOUNDS[0] else _MORE if words < _BOUNDS[1] else _MUCH
    often = sum(count >= _OFTEN for count in counts.values())
    batch = max(64, min(chosen.batch, words * chosen.batch // _SMALLEST[lists]))
    average = min(chosen.average, round(1 - 0.3 * batch / max(words, batch), 3))
    return Sizes(
        **{
            **vars(chosen),
            "hidden": chosen.hidden if words >= 10_000 else 128,
            "identity": max(1, min(chosen.identity, often)),
            "endings": min(chosen.endings, max(20, len(counts) // 6)),
            "batch": batch,
            "average": max(0.5, average),
        }
    )


def share_near(text: Corpus) -> float | None:
    """Of the words that come twice, in two sentences, how many are within a 20th of the text; None of too few.

    A tenth is where the order of sentences says nothing, 1 − (1 − 1/20)²; running texts have about half.
    """
    words = ((word, number) for number, sentence in enumerate(text) for word in sentence.words)
    places: dict[str, list[tuple[int, int]]] = {}
    for place, (word, number) in enumerate(words):
        places.setdefault(word, []).append((place, number))
    twice = [own for own in places.values() if len(own) == 2 and own[0][1] != own[1][1]]
    near = sum(after - before <= text.tokens / _NEAR for (before, _), (after, _) in twice)
    return near / len(twice) if len(twice) >= _ENOUGH_TWICE else None


@dataclass(frozen=True)
class Draft:
    """A configuration that was not written yet, the files that it needs, and what was found."""

    out: Path
    text: str
    config: Config
    found: tuple[str, ...]
    warnings: tuple[str, ...]

    def write(self) -> None:
        write_atomically(self.out, self.text.encode())

    def __str__(self) -> str:
        return "\n".join(self.found)


def draft_config(
    files: Sequence[str | Path],
    *,
    out: str | Path,
    valid: Sequence[str | Path] = (),
    lexicons: Sequence[str | Path] = (),
    dictionaries: Sequence[str | Path] = (),
    analysers: Mapping[str, Analyser] | None = None,
    lists: Sequence[str | Path] = (),
    vectors: str | Path | None = None,
    lowercase: bool = True,
    tokenise: bool = True,
) -> Draft:
    """Look at texts and at what is known beside them, and draft a configuration that `llrnn train` takes as it is.

    `files` are CoNLL-U or plain text; of several, names with `dev` and `test` are those parts, as in UD. `lexicons` are
    tables of form and attributes, or annotated texts; `dictionaries` hunspell's `.dic`; `analysers` know
    words by rule (`analyser_named`); `lists` files of words, with or without counts, or `wordfreq:LANGUAGE`; `vectors`
    a file of word vectors. Raw text is cut into words unless `tokenise` is false. Files that had to be made are written
    at once, into `OUT-data`; the configuration by `write`.

        draft_config(["mine.txt"], out="config.toml", lists=["words.txt"]).write()
    """
    given = _Drafting(Path(out), lowercase, tokenise)
    texts = given.texts([str(file) for file in files], [str(file) for file in valid])
    known = given.knowledge(
        texts, [*map(str, lexicons)], [*map(Path, dictionaries)], dict(analysers or {}), [*map(str, lists)]
    )
    seen = given.vectors(texts, None if vectors is None else str(vectors))
    text = _toml(given, texts, known, seen)
    config = parse_config(parse_toml(text), str(out))
    project = Project.from_config(config)
    given.tell_mass(project)
    return Draft(given.out, text, config, tuple(given.found), tuple(given.warnings))


@dataclass(frozen=True)
class _Texts:
    """The files of each part as the configuration names them, and what was read of them."""

    files: dict[str, list[str]]
    format: str
    train: Corpus
    valid: Corpus
    valid_last: int | None
    annotated: bool
    near: float | None  # see `share_near`


@dataclass(frozen=True)
class _Known:
    lists: str | None = None  # a file of form and frequency
    tsv: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    analysed: bool = False  # an analyser says what forms are
    listed: Collection[str] = ()
    readings: tuple[str, ...] = ()  # tables of readings with weights
    derived: bool = False  # the list is made of the text itself


@dataclass
class _Drafting:
    """Where things go, how words are written, and what is found on the way."""

    out: Path
    lowercase: bool
    tokenise: bool
    found: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def made(self, name: str) -> Path:
        """A file beside the configuration."""
        return data_folder(self.out) / name

    # texts

    def texts(self, files: list[str], valid: list[str]) -> _Texts:
        parts = parts_by_name(files) if not valid else {"train": files}
        parts = {**parts, "valid": valid} if valid else parts
        kinds = {file: text_kind(file) for part in ("train", "valid") for file in parts.get(part, ())}
        if len({*kinds.values()}) > 1:
            listed = ", ".join(f"{file} ({kind})" for file, kind in kinds.items())
            raise ConfigError(f"texts of one format are required, found {listed}; give those of one")
        kind = next(iter(kinds.values()))
        corpora = {part: self.read(part, parts, kind) for part in ("train", "valid") if parts.get(part)}
        known = all(_has_extension(file) for files in parts.values() for file in files)
        train, held_out, last = corpora["train"], corpora.get("valid"), None
        if held_out is None:
            if len(train) < LEAST_SENTENCES:
                raise ConfigError(
                    f"{train.name}: {LEAST_SENTENCES} sentences or more are required, one a line, found {len(train)}; "
                    "give more text"
                )
            last = max(1, min(len(train) // 10, _HELD_OUT))
            train, held_out = train.split(len(train) - last)
        annotated = any(token.pos or token.feats for sentence in train[:100] for token in sentence.tokens)
        texts = _Texts(parts, "auto" if known else kind, train, held_out, last, annotated, share_near(train))
        self.tell_texts(texts)
        return texts

    def read(self, part: str, parts: dict[str, list[str]], kind: Format) -> Corpus:
        """The files of a part as one text; what is raw is cut into words, and the cut text takes its place."""
        files = parts[part]
        read = [Corpus.from_file(file, format=kind, lowercase=self.lowercase) for file in files]
        whole = reduce(add, read)
        reason = raw_reason(whole) if kind == "text" else None
        if reason is None:
            return whole
        if not self.tokenise:
            self.warnings.append(
                f"{whole.name}: {reason}: it looks like raw text; leave --as-it-is out, and blanks are put between "
                "words and punctuation"
            )
            return whole
        path = self.made(f"{part}.txt")
        lines = (line for file in files for line in tokenised_lines(file))
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
        self.found.append(
            f"{whole.name}: {reason}: raw text, so sentences and words were cut: {path} (another text, to evaluate on: "
            f"llrnn data tokenise FILE --out TEXT.txt)"
        )
        parts[part] = [str(path)]
        return Corpus.from_file(path, format="text", lowercase=self.lowercase)

    def tell_texts(self, texts: _Texts) -> None:
        seen, valid = texts.train.counts(), texts.valid
        new = {word: count for word, count in valid.counts().items() if word not in seen}
        what = "annotated" if texts.annotated else "plain text"
        cut = "" if texts.valid_last is None else f", the last {texts.valid_last:,} sentences"
        unseen = _share(sum(new.values()), valid.tokens), _share(len(new), len(valid.counts()))
        self.found += [
            f"train: {len(texts.train):,} sentences, {texts.train.tokens:,} words, {len(seen):,} types, {what}",
            f"valid: {len(valid):,} sentences, {valid.tokens:,} words, {len(valid.counts()):,} types{cut}; "
            f"train has not {unseen[0]} of its words, {unseen[1]} of its types",
        ]
        if texts.near is not None and texts.near > _RUNNING:
            self.found.append(
                f"words come again: of those seen twice {texts.near:.0%} are near each other (10% in any order), so "
                "it is read as a running text"
            )
        if texts.files.get("test"):
            self.found.append(f"test: {', '.join(texts.files['test'])}, not opened")
        same = Overlap.between(valid, [texts.train]).equal
        if same:
            self.found.append(
                f"leaks: {len(same):,} sentences of valid ({len(same) / len(valid):.1%}), of {SENTENCE} words or more, "
                f"are in train too, such as {valid[min(same)].name}"
            )
        if len(same) > _LEAK * len(valid):
            self.warnings.append(
                f"{len(same) / len(valid):.1%} of the sentences of the validation text are in the training text: it "
                "will look better than it is; remove sentences that come twice, or give --valid, a text of its own"
            )

    # knowledge

    def knowledge(
        self,
        texts: _Texts,
        lexicons: list[str],
        dictionaries: list[Path],
        by_rule: dict[str, Analyser],
        lists: list[str],
    ) -> _Known:
        found: dict[str, Frequencies] = {name: self.read_list(name, texts.train) for name in lists}
        counted = {name: one for name, one in found.items() if name.startswith("wordfreq:") or has_counts(name)}
        found = counted | {name: one for name, one in found.items() if name not in counted}  # what is counted, first
        opened = {dic: _dictionary(dic) for dic in dictionaries}
        analysed = [dic for dic, dictionary in opened.items() if dictionary.is_explained]
        for dic, dictionary in opened.items():
            if dic not in analysed or not lists:
                found[str(dic)] = self.read_dictionary(dic, dictionary, texts.train)
        listed = joined(found, texts.train)
        for name, forms in found.items():
            self.found.append(f"list {name}: {len(forms):,} forms; {_coverage(forms, texts)}")
        if len(found) > 1:
            self.found.append(f"all lists: {len(listed):,} forms; {_coverage(listed, texts)}")
        derived = [] if found or by_rule or analysed else self.derived(texts, listed)
        known = {word for word in (*texts.train.counts(), *listed) if is_form(word)}
        for dic in analysed:
            by_rule[dic.stem] = FromLexicon(opened[dic].lexicon(known, lowercase=self.lowercase))
        lexicon, readings = self.analysed(by_rule, texts, known)
        tables = [name for name in lexicons if text_kind_of_lexicon(name) == "tsv"]
        corpora = [name for name in lexicons if name not in tables]
        for name in lexicons:
            self.found.append(f"lexicon {name}: {_known_by(self.read_lexicon(name, name in tables), texts)}")
        path = None
        if listed:
            path = self.made("frequencies.tsv")
            write_frequencies(path, listed)
        return _Known(
            None if path is None else str(path),
            (*tables, *lexicon, *derived),
            tuple(corpora),
            bool(by_rule),
            listed.keys(),
            tuple(readings),
            bool(derived),
        )

    def derived(self, texts: _Texts, listed: Frequencies) -> list[str]:
        """Forms derived from little annotated text are listed; and a table of the attributes of those rarely seen."""
        if not texts.annotated or texts.train.tokens >= _BOUNDS[0]:
            return []
        forms, lexicon = derived_forms(texts.train)
        if not forms:
            return []
        listed |= weighted_by_spelling(forms, texts.train)
        seen = texts.train.counts()
        path = self.made("lexicon-derived.tsv")
        Lexicon.from_mapping({form: lexicon(form) for form in forms if seen[form] < _OFTEN}).to_tsv(path)
        self.found.append(f"derived from lemmas and inflections: {len(forms):,} forms; {_coverage(forms, texts)}")
        return [str(path)]

    def read_list(self, name: str, train: Corpus) -> Frequencies:
        """Of a file, or of wordfreq; one without counts is weighted by how the text is spelled."""
        if name.startswith("wordfreq:"):
            read = from_wordfreq(name.removeprefix("wordfreq:"))
        else:
            read = read_frequencies(name, lowercase=self.lowercase)
        kept = {form: count for form, count in read.items() if is_form(form) and count > 0}
        if not kept:
            raise ConfigError(f"{name}: words with counts above 0 are required, found none; leave --list out")
        return kept if name.startswith("wordfreq:") or has_counts(name) else weighted_by_spelling(kept, train)

    def read_dictionary(self, dic: Path, dictionary: Any, train: Corpus) -> Frequencies:
        """Forms weighted by spelling: with affixes where they can be attached, else stems."""
        forms, reason = dictionary.forms(train)
        if reason is not None:
            self.found.append(f"{dic}: stems only: {reason}")
        return {form: count for form, count in weighted_by_spelling(forms, train).items() if is_form(form)}

    def analysed(
        self, by_rule: Mapping[str, Analyser], texts: _Texts, forms: Collection[str]
    ) -> tuple[list[str], list[str]]:
        """What analysers say of the forms of the text and of lists: tables of attributes, and of readings with weights,
        where the analyser has them."""
        lexicons, weighted = [], []
        for name, analyser in by_rule.items():
            readings = analyser.table(sorted(forms))
            known = readings.lexicon()
            self.found.append(f"analyser {name}: {_known_by(known, texts)}")
            end = re.sub(r"[^\w-]+", "-", name) + ".tsv"
            if any(len({*own.values()}) > 1 for own in readings.entries.values()):
                weighted.append(str(self.made(f"readings-{end}")))
                readings.to_tsv(weighted[-1])
            else:
                lexicons.append(str(self.made(f"lexicon-{end}")))
                known.to_tsv(lexicons[-1])
        return lexicons, weighted

    def read_lexicon(self, name: str, is_table: bool) -> Lexicon:
        if is_table:
            return Lexicon.from_tsv(name, lowercase=self.lowercase)
        return Lexicon.from_corpus(Corpus.from_file(name, lowercase=self.lowercase))

    def vectors(self, texts: _Texts, name: str | None) -> str | None:
        if name is None:
            return None
        words = {form for corpus in (texts.train, texts.valid) for word in corpus.counts() for form in cases(word)}
        found = {form for word in WordVectors.read(name, only=words).words for form in cases(word)}
        self.found.append(f"vectors {name}: {_coverage(found, texts)}")
        return name

    # the background, before training

    def tell_mass(self, project: Project) -> None:
        """What the background gives to new words, where validation has them, and what it says of validation alone."""
        vocabulary, valid = project.vocabulary, project.corpora["valid"]
        parts = project.background.parts if isinstance(project.background, Mixture) else [project.background]
        mass = symbol_mass(parts[0], vocabulary)  # before any word comes again
        mass = mass / mass.sum()
        seen = project.corpora["train"].counts()
        counts = valid.counts()
        words = list(counts)
        ids, inside = vocabulary.locate(words)
        n = np.array([counts[word] for word in words])
        new = np.array([word not in seen for word in words])
        is_cell = ids >= vocabulary.n_words
        with np.errstate(divide="ignore"):
            bits = -(np.log2(mass[ids]) + inside / np.log(2))
        characters = float((n * np.array([len(word) + 1 for word in words])).sum())
        listed = [word for word in vocabulary.words if word not in seen and word != EOS]
        of_new = float(mass[[vocabulary.id(word) for word in listed]].sum()) if listed else 0.0
        of_cells = float(mass[vocabulary.n_words :].sum())
        total = float(n.sum())
        self.found += [
            f"words of valid that train has not: {_share(int(n[new & ~is_cell].sum()), int(total))} are listed, "
            f"{_share(int(n[is_cell].sum()), int(total))} are spelled or numbers",
            f"background: {of_new:.1%} of its mass for listed words that train has not, {of_cells:.1%} for all others; "
            f"alone, it has {float((n * bits).sum()) / characters:.2f} bits per character on valid",
        ]


def data_folder(out: Path) -> Path:
    """Where files that had to be made for a configuration lie."""
    folder = out.parent / f"{out.stem}-data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _dictionary(dic: Path) -> Any:
    """One of hunspell, as llrnn_morphology reads it."""
    return find_kind("analysers", "hunspell", Analyser)(dic)


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.1%}"


def parts_by_name(files: list[str]) -> dict[str, list[str]]:
    """Files by the part that their names tell, where one of several says that it is the training text."""
    names = {"dev": "valid", "validation": "valid"}
    told = {file: [names.get(one.lower(), one.lower()) for one in _PART.findall(Path(file).name)] for file in files}
    parts: dict[str, list[str]] = {}
    for file in files:
        parts.setdefault(told[file][-1] if told[file] else "train", []).append(file)
    return parts if len(files) > 1 and "train" in parts else {"train": files}


def _has_extension(file: str) -> bool:
    return re.search(r"\.(conllu?|txt|text)(\.gz)?$", file.lower()) is not None


def _head(file: str) -> list[str]:
    return [line for _, line in islice(read_lines(file), _LOOKED_AT)]


def text_kind(file: str) -> Format:
    """conllu or text, by name or else by content; what is no text is refused with the option that takes it."""
    if _has_extension(file):
        kind = format_of(file, "auto")
    elif re.search(r"\.(tsv|jsonl)(\.gz)?$", file.lower()):
        raise ConfigError(
            f"{file}: a text is required, found a table; give a list of words with --list, attributes with --lexicon; "
            "pairs of meaning and text stand alone: all FILES are .jsonl, .csv or .tsv"
        )
    else:
        rows = [line for line in _head(file) if line and not line.startswith("#")]
        kind = "conllu" if rows and all(line.count("\t") == 9 for line in rows) else "text"
    if kind == "text":
        lines = [line.split() for line in _head(file) if line.strip()]
        alone = sum(len(words) == 1 or (len(words) == 2 and _is_number(words[1])) for words in lines)
        if len(lines) >= LEAST_SENTENCES and alone > 0.9 * len(lines) and not _without_blanks(lines):
            raise ConfigError(
                f"{file}: a text with one sentence a line is required, found one word a line; give a list of words "
                "with --list, and a text beside it"
            )
    return "conllu" if kind == "conllu" else "text"


def _without_blanks(lines: list[list[str]]) -> bool:
    """Whether lines of one word are whole sentences: of a script that has no blanks, or long ones."""
    return sum(len(words[0]) for words in lines) > 12 * len(lines)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?", text) is not None


def text_kind_of_lexicon(file: str) -> str:
    """tsv, or conllu for an annotated text."""
    return "conllu" if re.search(r"\.conllu?(\.gz)?$", file.lower()) else "tsv"


def _coverage(forms: Collection[str], texts: _Texts) -> str:
    """Which shares of the validation text a set of forms has."""
    counts, seen = texts.valid.counts(), texts.train.counts()
    new = {word: count for word, count in counts.items() if word not in seen}
    inside = sum(count for word, count in counts.items() if word in forms)
    return (
        f"has {_share(inside, texts.valid.tokens)} of the words of valid, "
        f"{_share(sum(word in forms for word in counts), len(counts))} of its types, "
        f"{_share(sum(word in forms for word in new), len(new))} of its types that train has not"
    )


def _known_by(lexicon: Lexicon, texts: _Texts) -> str:
    forms = {word for word in (*texts.valid.counts(), *texts.train.counts()) if lexicon(word)}
    return f"{len(lexicon.entries):,} forms; {_coverage(forms, texts)}"


# The file.


def _toml(given: _Drafting, texts: _Texts, known: _Known, vectors: str | None) -> str:
    outside = known.lists is not None and not known.derived
    sizes, seen = sizes_for(texts.train, lists=outside), texts.train.counts()
    rare = sizes.pruned and sum(count <= RARE for count in seen.values()) >= _ENOUGH_RARE
    features = [(f'{{ kind = "identity", top = {sizes.identity} }}', "the most frequent words by themselves")]
    has_attributes = texts.annotated or known.tsv or known.corpora
    if has_attributes:
        features.append(('{ kind = "attributes", listed = true }', "what the lexicon says of listed words"))
    for table in known.readings:
        row = f'{{ kind = "readings", tsv = {_text(table)}, levels = 4, listed = true }}'
        features.append((row, "what the analyser says of listed words, by its probability"))
    features.append(('{ kind = "orthographic" }', "endings, length and shape, of any word"))
    if vectors is not None:
        row = f'{{ kind = "vectors", file = {_text(vectors)}, components = 300, any_case = true, top = 60000 }}'
        features.append((row, "word vectors"))
    lines = [
        f"# Made by `llrnn init` from {', '.join(texts.files['train'])}:",
        f"# {len(texts.train):,} sentences, {texts.train.tokens:,} words, {len(seen):,} types to train on.",
        f"# llrnn train {given.out} --out runs/{given.out.stem}     (every key: `llrnn config reference`)",
        f"name = {_text(given.out.stem)}",
        'kind = "llrnn"',
        "tied = true                        # one set of weights for words that are read and words that are predicted",
        f"word_dropout = {sizes.word_dropout}                 # of the words that are read",
        "",
        "[corpus]",
        *(f"{part} = {_list(files)}" for part, files in texts.files.items()),
    ]
    if texts.valid_last is not None:
        lines.append(f"valid_last = {texts.valid_last}                   # sentences cut off the end, to stop by")
    if texts.format != "auto":
        lines.append(f"format = {_text(texts.format)}")
    lines += [f"lowercase = {str(given.lowercase).lower()}", "", "[vocabulary]"]
    lines.append('parts = ["train"]                  # never the test text')
    if known.lists is not None:
        lines.append(f"lists = {_list([known.lists])}  # words of lists, with frequencies; they cost memory only")
    lines += [
        "",
        "[[domains]]                        # every other string has a probability too: numbers as they are written",
        'kind = "numbers"',
        'language = "any"',
        "",
        "[[domains]]                        # and whatever is left, spelled",
        'kind = "spelling"',
        f"order = {sizes.order}",
        "min_counts = [0, 0, 0, 2]" if sizes.pruned else "min_counts = [0]                   # no n-gram is left out",
        *(["seen_at_most = 2                   # learnt from rare words: new words are like them"] if rare else []),
        f"endings = {sizes.endings}",
        f"longest = {sizes.longest}",
        f"lengths = {list(sizes.lengths)}",
    ]
    if has_attributes:
        lines += ["", "[lexicon]                          # what is known of words: POS:NOUN, Case:Gen, ..."]
    if texts.annotated:
        often = _OFTEN_WITH_ANALYSER if known.analysed else _OFTEN
        lines += [
            'parts = ["train"]',
            f"min_count = {often}                      # a rare word's annotation helps no new word",
        ]
    lines += [f"tsv = {_list(known.tsv)}"] if known.tsv else []
    lines += [f"corpora = {_list(known.corpora)}"] if known.corpora else []
    lines += ["", "[features]", "output = ["]
    lines += [f"    {row},  # {about}" for row, about in features]
    lines += ["]", "", "[background]                       # how frequent a word is, with room for new ones"]
    lines.append('kind = "discounted"')
    if known.lists is not None:
        lines.append(f"frequencies = {_text(known.lists)}  # how likely which new word is")
    if (texts.near or 0.0) > _RUNNING and not outside:
        lines.append(f"recent = {_RECENT}  # words come again, and other forms of them")
    lines += [
        "",
        "[controller]",
        'kind = "lstm"',
        f"hidden = {sizes.hidden}",
        f"layers = {sizes.layers}",
        f"dropout = {sizes.dropout}",
        "",
        "[training]",
        f'batches = {{ kind = "sentences", words = {sizes.batch} }}',
        'optimizer = "adamw"',
        f"learning_rate = {sizes.learning_rate}",
        f"weight_decay = {sizes.weight_decay}",
        f"average = {sizes.average}",
        f"epochs = {sizes.epochs}                        # at most: it stops when valid gets no better for `patience`",
        "patience = 3",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(texts: Sequence[str]) -> str:
    return json.dumps([*texts], ensure_ascii=False)
