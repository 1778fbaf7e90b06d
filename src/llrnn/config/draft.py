"""A first configuration for a text: what it holds and what is known beside it decide features, domains and sizes.

    draft = draft_config(["mine.txt"], out="config.toml", lists=["words.txt"])
    print(draft)                     # what was found
    draft.write()                    # then: llrnn train config.toml --out runs/mine

The recipe is `text.toml`; its numbers follow from how many words the training text has (`sizes_for`), with lists of
words or without. They were chosen on validation texts: Turkish, Estonian, Welsh, Maltese and French of 20,000 to
355,000 words, and French with two million words of other text. What had to be made (lists joined and weighted,
attributes of words) lies in a folder beside the configuration, `config-data`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import get_data
from typing import Any

from llrnn.config import wordlists
from llrnn.config.keys import Config
from llrnn.config.project import Project
from llrnn.config.reading import parse_config
from llrnn.config.wordlists import Frequencies
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import parse_toml, write_atomically
from llrnn.ground.plugins import find_kind
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.backgrounds.recent import Recent
from llrnn.text.corpus import Corpus, Format, format_of
from llrnn.text.lexicon import Lexicon, has_counts, read_frequencies
from llrnn.text.morphology import Analyser
from llrnn.text.others import SENTENCE, Overlap
from llrnn.text.raw import raw_reason
from llrnn.text.readers import read_lines
from llrnn.text.tokenisers import Unicode
from llrnn.text.vectors import WordVectors, cases
from llrnn.text.vocabulary import EOS

LEAST_SENTENCES = 10  # to train and validate on
_OFTEN, _OFTEN_WITH_ANALYSER = 3, 5  # times a word is seen whose annotation counts
_LOOKED_AT = 200  # lines of a file that say what it is
_HELD_OUT = 1000  # sentences for validation, at most; a tenth of a smaller text
_ENOUGH_RARE = 50  # types, to learn from how new words are spelled; else from all
_LEAK = 0.02  # of the sentences of validation: more make its figures too good
_NEAR, _RUNNING, _ENOUGH_TWICE = 20, 0.2, 50  # see `share_near`; a text in any order has 0.1
_WINDOW = 10_000  # words before that come again in a running text
_TEXT = re.compile(r"\.(conllu?|txt|text)(\.gz)?$", re.IGNORECASE)
_ANNOTATED = re.compile(r"\.conllu?(\.gz)?$", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?")
_PART = re.compile(r"(?:^|[-_.])(train|dev|valid|validation|test)(?=[-_.]|$)", re.IGNORECASE)

_LITTLE, _MUCH = 120_000, 1_000_000  # words: where little text ends, and where much of it begins


def sizes_for(train: Corpus) -> dict[str, Any]:
    """Return network and training sizes for a training text, as values of the recipe `text.toml` by key.

    With N words in the text, and n = max(1, N / 40,000):

        hidden = 384 n^0.17        identity = 500 n^0.7         endings = 300 n^0.23
        batch = 512 √(N / 20,000)  learning rate = 0.002 (batch / 512)^0.3

    `hidden`: units of a layer, a multiple of 64; `identity`: how many of the most frequent words have a feature of
    their own; `endings`: how many endings are features; `batch`: words, 64 to 2,048. Most other keys, such as `layers`
    and `epochs`, depend on whether there is little text (under 120,000 words), much (a million or more) or neither.
    Below 20,000 words, the smallest text that was measured, the network shrinks with the text; above a million, fewer
    epochs with a smaller rate and more decay are needed.

        sizes_for(corpus)["layers"]       # 1, of little text
    """
    counts, words = train.counts(), max(1, train.tokens)
    n, little, much = max(1.0, words / 40_000), words < _LITTLE, words >= _MUCH
    batch = int(min(2048, max(64, 512 * math.sqrt(words / 20_000))))
    often = sum(count >= _OFTEN for count in counts.values())
    rare = sum(count <= wordlists.RARE for count in counts.values())
    return {
        "hidden": 64 * max(2, round(6 * n**0.17 * min(1.0, words / 20_000) ** 0.5)),
        "layers": 1 if little else 2,
        "identity": max(1, min(round(500 * n**0.7), often)),
        "order": 6 if little else 5,
        "endings": min(round(300 * n**0.23), max(20, len(counts) // 6)),
        "longest": 5 if little else 4,
        "lengths": [4, 8, 12] if little else [4, 7, 10],
        "word_dropout": 0.2 if little else 0.1,
        "batch": batch,
        "learning_rate": round(0.002 * (batch / 512) ** 0.3 / (2 if much else 1), 5),
        "weight_decay": 0.05 if much else 0.01,
        "average": max(0.5, round(1 - 0.4 * batch / max(words, batch), 4)),
        "epochs": 14 if much else 30,
        "min_counts": [0] if little else [0, 0, 0, 2],
        "seen_at_most": wordlists.RARE if rare >= _ENOUGH_RARE and not little else None,
    }


def share_near(text: Corpus) -> float | None:
    """Return which share (0 to 1) of the words that a text has exactly twice come again soon: within a 20th of it.

    Only words whose two places are in different sentences are looked at; "soon" is a distance of at most a 20th of the
    number of words of the text. About 0.1 if the order of sentences says nothing, about 0.5 in running text. None where
    there are fewer than 50 such words: too few to tell.
    """
    words = ((word, number) for number, sentence in enumerate(text) for word in sentence.words)
    places: dict[str, list[tuple[int, int]]] = {}
    for place, (word, number) in enumerate(words):
        places.setdefault(word, []).append((place, number))
    twice = [own for own in places.values() if len(own) == 2 and own[0][1] != own[1][1]]
    near = sum(after - before <= text.tokens / _NEAR for (before, _), (after, _) in twice)
    return near / len(twice) if len(twice) >= _ENOUGH_TWICE else None


def fill_recipe(name: str, values: Mapping[str, Any]) -> str:
    """Return the TOML text of the recipe file `name` of the package `llrnn.config`, with values in place of `$key`.

    Values are written as JSON. A line whose value is None is omitted, and one whose value is a tuple is repeated for
    each of its elements. KeyError where `values` lacks a key of the recipe.
    """
    made = []
    for line in (get_data("llrnn.config", name) or b"").decode().splitlines():
        key = re.search(r"\$(\w+)", line)
        value = values[key[1]] if key else None
        several = value if isinstance(value, tuple) else () if key and value is None else (value,)
        made += [line.replace(key[0], json.dumps(one, ensure_ascii=False)) if key else line for one in several]
    return "\n".join(made) + "\n"


@dataclass(frozen=True)
class Draft:
    """A drafted configuration that is not written yet: TOML `text`, validated `config`, and lines on what was found.

    `out`: the path that `write()` writes; `found` and `warnings`: lines of text to show; str(draft) is `found`.

        draft_config(["mine.txt"], out="config.toml").write()
    """

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
    analysers: Mapping[str, Analyser] | None = None,
    lists: Sequence[str | Path] = (),
    vectors: str | Path | None = None,
    lowercase: bool = True,
    tokenise: bool = True,
) -> Draft:
    """Draft a configuration for `llrnn train` from texts and other resources.

    Returns a `Draft`, whose `write` writes it. `files`: training texts, CoNLL-U or plain; of several, names with `dev`
    and `test` are those parts, as in UD; `valid`: validation texts instead. `lexicons`: tables of form and attributes,
    or annotated texts; `analysers`: morphological analysers by name; `lists`: files of words, with or without counts,
    hunspell dictionaries `NAME.dic`, or `wordfreq:LANGUAGE`; `vectors`: a file of word vectors. Raw text is cut into
    words unless `tokenise` is false. Files that had to be made are written at once, into `OUT-data`. Raises ConfigError
    for files that cannot be used.

        draft_config(["mine.txt"], out="config.toml", lists=["words.txt"]).write()
    """
    given = _Drafting(Path(out), lowercase, tokenise)
    texts = given.texts([str(file) for file in files], [str(file) for file in valid])
    known = given.knowledge(texts, [*map(str, lexicons)], dict(analysers or {}), [*map(str, lists)])
    running = (texts.near or 0.0) > _RUNNING
    seen = given.vectors(texts, None if vectors is None else str(vectors))
    own: dict[str, Any] = {
        "name": given.out.stem,
        "lowercase": lowercase,
        "tokeniser": given.tokeniser,
        "vectors": seen,
    }
    own |= {"window": _WINDOW if running else None, "valid_last": texts.valid_last, "format": texts.format}
    own |= {"multiword": texts.multiword, **{part: texts.files.get(part) for part in ("train", "valid", "test")}}
    text = fill_recipe("text.toml", own | sizes_for(texts.train) | known)
    config = parse_config(parse_toml(text), str(out))
    given.tell_mass(Project.from_config(config))
    return Draft(given.out, text, config, tuple(given.found), tuple(given.warnings))


@dataclass(frozen=True)
class _Texts:
    """The texts of a draft: `files` by part (train, valid, test), and the corpora `train` and `valid` read from them.

    `format`: "conllu" or "text" where file names do not tell, else None; `multiword`: "surface" for CoNLL-U, whose
    words are taken as they are written, None for plain text; `valid_last`: how many sentences at the end of the
    training files are held out as `valid`, None where validation files are given; `annotated`: whether words have tags;
    `near`: see `share_near`.
    """

    files: dict[str, list[str]]
    format: str | None  # where the name of a file does not say it
    multiword: str | None  # of a treebank
    train: Corpus
    valid: Corpus
    valid_last: int | None
    annotated: bool
    near: float | None  # see `share_near`


@dataclass
class _Drafting:
    """What is known while a configuration is drafted: options `out`, `lowercase`, `tokenise`, and findings so far.

    `tokeniser`: the name of the one chosen, `unicode` the one to cut raw text with; `found`, `warnings`: lines to show.
    """

    out: Path
    lowercase: bool
    tokenise: bool
    tokeniser: str = "blanks"
    unicode: Unicode = field(default_factory=Unicode)
    found: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def made(self, name: str) -> Path:
        """Return the path of the file `name` in the folder `OUT-data`, beside the configuration `OUT.toml`.

        The folder is created if missing, the file is not.
        """
        return data_folder(self.out) / name

    # texts

    def texts(self, files: list[str], valid: list[str]) -> _Texts:
        parts = parts_by_name(files, valid)
        kinds = {file: text_kind(file) for part in ("train", "valid") for file in parts.get(part, ())}
        if len({*kinds.values()}) > 1:
            listed = ", ".join(f"{file} ({kind})" for file, kind in kinds.items())
            raise ConfigError(f"texts of one format are required, found {listed}; give those of one")
        kind = next(iter(kinds.values()))
        corpora = {part: self.read(part, parts, kind) for part in ("train", "valid") if parts.get(part)}
        known = all(_TEXT.search(file) for files in parts.values() for file in files)
        train, held_out, last = corpora["train"], corpora.get("valid"), None
        if held_out is None:
            if len(train) < LEAST_SENTENCES:
                raise ConfigError(
                    f"{train.name}: {LEAST_SENTENCES} sentences or more are required, one a line, found {len(train)}; "
                    "give more text"
                )
            last = held_out_of(train)
            train, held_out = train.split(len(train) - last)
        annotated = any(token.pos or token.feats for sentence in train[:100] for token in sentence.tokens)
        surface = "surface" if kind == "conllu" else None
        texts = _Texts(parts, None if known else kind, surface, train, held_out, last, annotated, share_near(train))
        self.tell_texts(texts)
        return texts

    def read(self, part: str, parts: dict[str, list[str]], kind: Format) -> Corpus:
        """Read the files `parts[part]`, all of format `kind`, and return them as one corpus.

        For the part `train` a tokeniser is chosen first; where it is for raw text, all parts are cut into sentences and
        words by it.
        """
        files = parts[part]
        read = partial(Corpus.from_file, format=kind, lowercase=self.lowercase, surface=True)
        whole = read(files)
        if part == "train":
            self.choose_tokeniser(whole, files, kind)
        return read(files, cut=self.unicode.sentences) if self.tokeniser == "unicode" else whole

    def choose_tokeniser(self, train: Corpus, files: list[str], kind: Format) -> None:
        """Set `self.tokeniser` to the one that fits the training text, and add a finding that says so.

        `learnt` for a CoNLL-U treebank with words written together, `unicode` for raw text, `tokenised` for text whose
        words stand between blanks already; `blanks` where the user wants text as it is. `kind`: the format of `files`.
        """
        reason = raw_reason(train) if kind == "text" else None
        attached = any(len(one.text) != len(" ".join(one.words)) for one in train)  # some word without a blank
        self.tokeniser = "unicode" if reason else "learnt" if kind == "conllu" and attached else "tokenised"
        if not self.tokenise:
            self.tokeniser = "blanks"
            self.warnings += [f"{train.name}: {reason}: it looks like raw text; leave --as-it-is out"] if reason else []
        if self.tokeniser == "unicode":
            self.unicode = Unicode.evident(line for file in files for _, line in read_lines(file))
            clitics = ", ".join(sorted(self.unicode.clitics, key=self.unicode.clitics.__getitem__)[:-6:-1])
            self.found.append(
                f"{train.name}: {reason}: raw text, so sentences and words are cut by Unicode's boundaries; clitics: "
                f"{clitics or 'none'}; {len(self.unicode.abbreviations)} abbreviations"
            )
        elif self.tokeniser == "learnt":
            self.found.append("words as they are written (du, not de le); the tokeniser is learnt from the treebank")

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
        self, texts: _Texts, lexicons: list[str], analysers: Mapping[str, Analyser], lists: list[str]
    ) -> dict[str, Any]:
        """Write the word list and tables of attributes of a draft to `OUT-data`; return recipe values that name them.

        `lexicons`, `analysers`, `lists`: as given to `draft_config`. The result has the keys list (the path of the word
        list), tables and corpora (lists of paths), annotated, min_count, attributes, each None where there is nothing
        of the sort, and readings (a tuple of paths). What is found is added to `self.found`.
        """
        found: dict[str, Frequencies] = {name: self.read_list(name, texts.train) for name in sorted(lists, key=_plain)}
        listed = wordlists.joined(found, texts.train)
        for name, forms in found.items():
            self.found.append(f"list {name}: {len(forms):,} forms; {_coverage(forms, texts)}")
        if len(found) > 1:
            self.found.append(f"all lists: {len(listed):,} forms; {_coverage(listed, texts)}")
        derived = [] if found or analysers else self.derived(texts, listed)
        words = {word for word in (*texts.train.counts(), *listed) if wordlists.is_form(word)}
        attributes, readings = self.analysed(analysers, texts, words)
        corpora = [name for name in lexicons if _ANNOTATED.search(name)]
        for name in lexicons:
            self.found.append(f"lexicon {name}: {_known_by(self.read_lexicon(name), texts)}")
        if listed:
            wordlists.write_frequencies(self.made("frequencies.tsv"), listed)
        tables = [*(name for name in lexicons if name not in corpora), *attributes, *derived]
        often = _OFTEN_WITH_ANALYSER if analysers else _OFTEN
        return {
            "list": str(self.made("frequencies.tsv")) if listed else None,
            "annotated": ["train"] if texts.annotated else None,
            "min_count": often if texts.annotated else None,
            "tables": tables or None,
            "corpora": corpora or None,
            "attributes": True if texts.annotated or tables or corpora else None,
            "readings": tuple(readings),
        }

    def derived(self, texts: _Texts, listed: Frequencies) -> list[str]:
        """Add forms derived from lemmas and inflections of the training text to `listed`, in place, with frequencies.

        This is done only where the text is annotated and has under 120,000 words. Returns a list with the path of the
        table of the forms' attributes that it writes; an empty list where nothing is derived.
        """
        if not texts.annotated or texts.train.tokens >= _LITTLE:
            return []
        forms, lexicon = wordlists.derived_forms(texts.train)
        if not forms:
            return []
        listed |= wordlists.weighted_by_spelling(forms, texts.train)
        seen = texts.train.counts()
        path = self.made("lexicon-derived.tsv")
        Lexicon.from_mapping({form: lexicon(form) for form in forms if seen[form] < _OFTEN}).to_tsv(path)
        self.found.append(f"derived from lemmas and inflections: {len(forms):,} forms; {_coverage(forms, texts)}")
        return [str(path)]

    def read_list(self, name: str, train: Corpus) -> Frequencies:
        """Return the words and frequencies of a word list: `wordfreq:LANGUAGE`, a hunspell file `.dic` or another file.

        Words without counts get weights by how much their spelling is like that of rare words of `train`. Raises
        ConfigError where no usable word with a count above 0 is left.
        """
        if name.startswith("wordfreq:"):
            read = wordlists.from_wordfreq(name.removeprefix("wordfreq:"))
        elif name.endswith(".dic"):
            read, reason = find_kind("analysers", "hunspell", Analyser)(name).forms(train)
            self.found += [] if reason is None else [f"{name}: stems only: {reason}"]
        else:
            read = read_frequencies(name, lowercase=self.lowercase)
        kept = {form: count for form, count in read.items() if wordlists.is_form(form) and count > 0}
        if not kept:
            raise ConfigError(f"{name}: words with counts above 0 are required, found none; leave --list out")
        return wordlists.weighted_by_spelling(kept, train) if _plain(name) else kept

    def analysed(
        self, analysers: Mapping[str, Analyser], texts: _Texts, forms: Collection[str]
    ) -> tuple[list[str], list[str]]:
        """Look `forms` up in each analyser, write what it says of them to a table in `OUT-data`, and return the paths.

        The result is (paths of tables of attributes, paths of tables of weighted readings). The table of an analyser is
        of the second sort where its readings of some word have unequal probabilities, else of the first. A finding is
        added for each: the share of the words of `texts` that it knows.
        """
        lexicons, weighted = [], []
        for name, analyser in analysers.items():
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

    def read_lexicon(self, name: str) -> Lexicon:
        if _ANNOTATED.search(name):
            return Lexicon.from_corpus(Corpus.from_file(name, lowercase=self.lowercase))
        return Lexicon.from_tsv(name, lowercase=self.lowercase)

    def vectors(self, texts: _Texts, name: str | None) -> str | None:
        if name is None:
            return None
        words = {form for corpus in (texts.train, texts.valid) for word in corpus.counts() for form in cases(word)}
        found = {form for word in WordVectors.read(name, only=words).words for form in cases(word)}
        self.found.append(f"vectors {name}: {_coverage(found, texts)}")
        return name

    # the background, before training

    def tell_mass(self, project: Project) -> None:
        """Add two findings: how many words of the validation text are new, and how likely new words are by the prior.

        New is what the training text does not have: words listed in the vocabulary besides, or spelled by a domain (an
        infinite set of strings). The prior is that of the untrained model.
        """
        vocabulary, counts = project.vocabulary, project.corpora["valid"].counts()
        background = project.background
        base = background.base if isinstance(background, Recent) else background
        mass = symbol_mass(base, vocabulary)  # before any word comes again
        seen, total = project.corpora["train"].counts(), project.corpora["valid"].tokens
        cells = sum(count for word, count in counts.items() if vocabulary.id(word) >= vocabulary.n_words)
        new = sum(count for word, count in counts.items() if word not in seen)
        listed = [vocabulary.id(word) for word in vocabulary.words if word not in seen and word != EOS]
        of_new, of_cells = mass[listed].sum() / mass.sum(), mass[vocabulary.n_words :].sum() / mass.sum()
        self.found += [
            f"words of valid that train has not: {_share(new - cells, total)} are listed, {_share(cells, total)} are "
            "spelled or numbers",
            f"background: {of_new:.1%} of its mass for listed words that train has not, {of_cells:.1%} for all others",
        ]


def data_folder(out: Path) -> Path:
    """Return the folder `NAME-data` beside a configuration `NAME.toml`, for files generated for it.

    It is created if missing.
    """
    folder = out.parent / f"{out.stem}-data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def held_out_of(train: Corpus) -> int:
    """Return how many sentences at the end of a training text to hold out for validation: a tenth, 1 to 1,000.

    The tenth is rounded down: max(1, min(sentences // 10, 1000)).
    """
    return max(1, min(len(train) // 10, _HELD_OUT))


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.1%}"


def parts_by_name(files: list[str], valid: list[str]) -> dict[str, list[str]]:
    """Group text files into parts `train`, `valid` and `test` by their names, as in `fr-ud-dev.conllu` (dev is valid).

    A file whose name says nothing is train. Where `valid`, the validation files, is not empty, the result is {"train":
    files, "valid": valid}; where there is only one file, or none would be train, it is {"train": files}. Parts without
    a file have no key.
    """
    if valid:
        return {"train": files, "valid": valid}
    names = {"dev": "valid", "validation": "valid"}
    told = {file: [names.get(one.lower(), one.lower()) for one in _PART.findall(Path(file).name)] for file in files}
    parts: dict[str, list[str]] = {}
    for file in files:
        parts.setdefault(told[file][-1] if told[file] else "train", []).append(file)
    return parts if len(files) > 1 and "train" in parts else {"train": files}


def _plain(listed: str) -> bool:
    """Whether a word list (a file, or `wordfreq:LANGUAGE`) has words without counts."""
    return listed.endswith(".dic") or not (listed.startswith("wordfreq:") or has_counts(listed))


def text_kind(file: str) -> Format:
    """Return `conllu` or `text`, the format of a file, by its name or else by its first lines.

    Raises ConfigError for tables and word lists; the message names the option of `llrnn init` that takes them.
    """
    head = [line for _, line in islice(read_lines(file), _LOOKED_AT)]
    if _TEXT.search(file):
        kind = format_of(file, "auto")
    elif re.search(r"\.(tsv|jsonl)(\.gz)?$", file.lower()):
        raise ConfigError(
            f"{file}: a text is required, found a table; give a list of words with --list, attributes with --lexicon; "
            "pairs of meaning and text stand alone: all FILES are .jsonl, .csv or .tsv"
        )
    else:
        rows = [line for line in head if line and not line.startswith("#")]
        kind = "conllu" if rows and all(line.count("\t") == 9 for line in rows) else "text"
    if kind == "text":
        lines = [line.split() for line in head if line.strip()]
        alone = sum(len(words) == 1 or (len(words) == 2 and _NUMBER.fullmatch(words[1]) is not None) for words in lines)
        long = sum(len(words[0]) for words in lines) > 12 * len(lines)  # whole sentences, of a script without blanks
        if len(lines) >= LEAST_SENTENCES and alone > 0.9 * len(lines) and not long:
            raise ConfigError(
                f"{file}: a text with one sentence a line is required, found one word a line; give a list of words "
                "with --list, and a text beside it"
            )
    return "conllu" if kind == "conllu" else "text"


def _coverage(forms: Collection[str], texts: _Texts) -> str:
    """Return a phrase with three percentages: how much of the validation text a set of word forms covers.

    They are of its running words, of its distinct words, and of its distinct words that the training text lacks: "has
    90.0% of the words of valid, 80.0% of its types, 40.0% of its types that train has not".
    """
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
