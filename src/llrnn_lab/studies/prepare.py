"""The data of an experiment in one folder, the same for every language and every machine.

    train, valid, test1, test2 (.conllu)     lowercased text; the paper's split (§5): valid is cut off the end of train
    lexicon.tsv                              attributes of word types
    lemmas.tsv, clusters.tsv, pairs.jsonl    where the language has sources for them
    novels.txt, treebanks.txt                other texts of the language, one sentence or paragraph a line
    vectors.npz                              vectors of the words of all parts, where a file of them is given
    other-*.txt                              other texts for the network: one sentence a line, written as train is
    other.json                               how large and how near to the text they are
    manifest.json                            where everything came from, and how well it covers which words

No source of knowledge may know test words better than training words. For French the text is UD GSD, and attributes
come from the *other* treebanks and from hunspell; where there is one treebank only (Turkish, Estonian), they come from
all of its parts alike, as in the paper.
"""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError, EstimationWarning, LexiconError
from llrnn.ground.files import write_atomically
from llrnn.knowledge.backgrounds import NGram
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon
from llrnn.text.readers import conllu_lines
from llrnn.text.vectors import WordVectors, cases
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.clusters import cluster_words, tokenise
from llrnn_lab.pairs.files import write_pairs
from llrnn_lab.pairs.making import make_pairs
from llrnn_lab.studies import french_texts
from llrnn_lab.studies.french_texts import Contractions
from llrnn_morphology import hunspell

VECTORS = "vectors.npz"
PARTS = ("train", "valid", "test1", "test2")
HUNSPELL = Path("/usr/share/hunspell/fr.dic")
_PLAIN = re.compile(r"[\w'-]+")  # what an attribute's value may be written with
_VALIDATION = 728  # sentences, as in the paper


@dataclass(frozen=True)
class Source:
    """Where the text and the knowledge of a language lie."""

    name: str
    parts: dict[str, Path]  # train, test1, test2, as the paper names them: test1 is UD's test, test2 UD's dev
    treebanks: tuple[Path, ...]  # annotated texts for the lexicon; none: the text itself, all of it
    hunspell: Path | None = None
    novels: tuple[Path, ...] = ()
    annotated: tuple[Path, ...] = ()  # full trees for minimal pairs
    wiki: tuple[Path, ...] = ()  # tokenised sentences, one a line


def find_source(data: Path) -> Source:
    """Recognise what lies in a folder: the shared data (French), one UD treebank, or a download of UD French 1.3."""
    if (data / "ud_french_gsd").is_dir():
        return _french(data)
    found = {part: sorted(data.glob(f"*{part}.conllu*")) for part in ("train", "dev", "test")}
    if all(len(files) == 1 for files in found.values()):
        parts = {"train": found["train"][0], "test1": found["test"][0], "test2": found["dev"][0]}
        return Source(data.name, parts, (), annotated=tuple(parts.values()))
    raise ConfigError(
        f"{data}: expected ud_french_gsd/ (and ud_french/, novels_french/), or one treebank as *train.conllu, "
        f"*dev.conllu and *test.conllu; found {sorted(path.name for path in data.glob('*'))[:8]}"
    )


def _french(data: Path) -> Source:
    text = data / "ud_french_gsd"
    annotated = sorted((data / "ud_french").glob("*.conllu"))
    if not HUNSPELL.exists():
        raise LexiconError(
            "the French experiment needs hunspell's dictionary; install Debian's hunspell-fr", path=HUNSPELL
        )
    return Source(
        "french",
        {
            "train": text / "fr_gsd-train.conllu",
            "test1": text / "fr_gsd-test.conllu",
            "test2": text / "fr_gsd-dev.conllu",
        },
        tuple(path for path in annotated if not path.name.startswith("fr_gsd")),
        HUNSPELL,
        tuple(sorted((data / "novels_french").glob("*.txt.gz"))),
        tuple(annotated),
        tuple(sorted((data / "wiki_french").glob("*.txt.gz"))),
    )


def prepare(
    data: Path,
    out: Path,
    *,
    tell: Callable[[str], None] = lambda text: None,
    sentences: int | None = None,
    vectors: Path | None = None,
) -> None:
    """Fill `out` from `data`, and from a file of word vectors; what is there already is left alone. `sentences` cuts
    every part short, for trials."""
    if not (out / "manifest.json").exists():
        source = find_source(data)
        tell(f"preparing {source.name} in {out}")
        _prepare(source, out, tell, sentences)
    if (out / "treebanks.txt").exists() and not (out / "other.json").exists():
        _write_others(find_source(data), out, sentences)
    if vectors is not None and not (out / VECTORS).exists():
        parts = Vocabulary.from_corpus(*(Corpus.from_file(out / f"{part}.conllu") for part in PARTS)).words
        asked = {form for word in parts for form in cases(word)}
        found = WordVectors.read(vectors, only=asked).restricted(parts, any_case=True)
        found.save(out / VECTORS)
        tell(f"{len(found):,} of {len(parts):,} types have a vector in {vectors}")


def _prepare(source: Source, out: Path, tell: Callable[[str], None], sentences: int | None) -> None:
    texts = {part: Corpus.from_file(path, lowercase=True)[:sentences] for part, path in source.parts.items()}
    validation = min(_VALIDATION, len(texts["train"]) // 10)
    texts["train"], texts["valid"] = texts["train"].split(len(texts["train"]) - validation)
    vocabulary = Vocabulary.from_corpus(*texts.values())
    out.mkdir(parents=True, exist_ok=True)
    for part, corpus in texts.items():
        write_atomically(out / f"{part}.conllu", "".join(f"{line}\n" for line in conllu_lines(corpus)).encode())
    lexicon = _lexicon(source, texts, vocabulary)
    _restricted(lexicon, vocabulary).to_tsv(out / "lexicon.tsv")
    _lemmas(source, texts, vocabulary).to_tsv(out / "lemmas.tsv")
    if source.novels:
        tell("clustering the words of the novels")
        novels = source.novels if sentences is None else source.novels[:1]
        lines = [tokenise(line) for path in novels for line in _lines(path)]
        cluster_words(lines).to_tsv(out / "clusters.tsv")
        write_text(out / "novels.txt", lines)
    if source.treebanks:
        write_text(out / "treebanks.txt", other_treebanks(source, texts))
    pairs = make_pairs(_read(source.annotated), vocabulary=vocabulary)
    write_pairs(out / "pairs.jsonl", pairs)
    write_atomically(
        out / "manifest.json", json.dumps(_manifest(source, texts, lexicon, len(pairs)), indent=1).encode()
    )


def other_sentences(
    source: Source, train: Corpus, treebanks: Iterable[Sequence[str]], sentences: int | None = None
) -> dict[str, list[list[str]]]:
    """Other texts by their names, as sentences that are written as the training text is; no more than `sentences`.

    `treebanks` are the sentences of other treebanks, which have words as the text has them already.
    """
    contractions = Contractions(train)
    given: dict[str, Iterable[Sequence[str]]] = {
        "novels": (words for line in _of_novels(source) for words in french_texts.sentences(line)),
        "treebanks": (["_".join(word.split()) for word in words] for words in treebanks),
        "wiki": _of_wiki(source),
    }
    return {
        name: [contractions.written_out(line, contracted=name != "treebanks") for line in islice(lines, sentences)]
        for name, lines in given.items()
    }


def _of_novels(source: Source) -> list[str]:
    return [line for path in source.novels for line in _lines(path)]


def _of_wiki(source: Source) -> list[list[str]]:
    return [line.split() for path in source.wiki for line in _lines(path)]


def _write_others(source: Source, out: Path, sentences: int | None) -> None:
    """What the network may read besides the text, written as the text is; GSD's own sentences are not in it."""
    texts = {part: Corpus.from_file(out / f"{part}.conllu") for part in ("train", "valid", "test1", "test2")}
    vocabulary = Vocabulary.from_corpus(*texts.values())
    treebanks = [line.split() for line in (out / "treebanks.txt").read_text(encoding="utf8").splitlines()]
    as_they_came: dict[str, Iterable[Sequence[str]]] = {
        "novels": map(tokenise, _of_novels(source)),
        "treebanks": treebanks,
        "wiki": _of_wiki(source),
    }
    told: dict[str, Any] = {}
    for name, written in other_sentences(source, texts["train"], treebanks, sentences).items():
        if written:
            write_text(out / f"other-{name}.txt", written)
            told[name] = {
                "sentences": len(written),
                "words": sum(map(len, written)),
                "valid": _trigrams(written, vocabulary, texts["valid"]),
                "valid, as it came": _trigrams(islice(as_they_came[name], sentences), vocabulary, texts["valid"]),
            }
    accuracy = Contractions(texts["train"]).accuracy(texts["valid"])
    told = {"texts": told, "contractions of valid that would be right": accuracy}
    write_atomically(out / "other.json", json.dumps(told, indent=1).encode())


def _trigrams(lines: Iterable[Sequence[str]], vocabulary: Vocabulary, judge: Corpus) -> float:
    """How near a text is to another: the log-perplexity of its trigrams there, over the listed words."""
    text = Corpus.from_sentences(lines)
    with warnings.catch_warnings():  # a trial has too little text for its discounts
        warnings.simplefilter("ignore", EstimationWarning)
        ngram = NGram.from_corpus(text, order=3, folds=0, restrict=True).bind(vocabulary)
    assert isinstance(ngram, NGram)
    return float(-ngram.score(EncodedText.encode(judge, vocabulary).stream())[0].mean())


def _lexicon(source: Source, texts: dict[str, Corpus], vocabulary: Vocabulary) -> Lexicon:
    if not source.treebanks:
        return Lexicon.from_corpus(*texts.values())
    lexicon = Lexicon.from_corpus(_read(source.treebanks))
    if source.hunspell is not None:
        lexicon = lexicon | hunspell(source.hunspell, forms=vocabulary.symbols)
    return lexicon


def _lemmas(source: Source, texts: dict[str, Corpus], vocabulary: Vocabulary) -> Lexicon:
    """From hunspell, or where there is none from the text itself, all parts alike."""
    lemmas: dict[str, set[str]] = {}
    if source.hunspell is not None:
        full = hunspell(source.hunspell, forms=vocabulary.symbols, lemmas=True)
        lemmas = {form: {name for name in full(form) if name.startswith("Lemma:")} for form in full.forms()}
    else:
        for token in (token for corpus in texts.values() for sentence in corpus for token in sentence.tokens):
            if token.lemma is not None and _PLAIN.fullmatch(token.lemma):
                lemmas.setdefault(token.form, set()).add(f"Lemma:{token.lemma.lower()}")
    return Lexicon.from_mapping({form: names for form, names in lemmas.items() if names})


def _restricted(lexicon: Lexicon, vocabulary: Vocabulary) -> Lexicon:
    return Lexicon.from_mapping({word: lexicon(word) for word in vocabulary if lexicon(word)})


def _read(paths: Sequence[Path]) -> Corpus:
    return Corpus.from_file(paths, lowercase=True)


def _lines(path: Path) -> Iterable[str]:
    with gzip.open(path, "rt", encoding="utf8") as file:
        yield from file


def other_treebanks(source: Source, texts: dict[str, Corpus]) -> list[Sequence[str]]:
    """The sentences of other treebanks that are not sentences of the text itself, in whatever part."""
    own = {tuple(sentence.words) for text in texts.values() for sentence in text}
    return [sentence.words for sentence in _read(source.treebanks) if tuple(sentence.words) not in own]


def write_text(path: Path, lines: Iterable[Sequence[str]]) -> None:
    """One sentence a line; a space within a word becomes a low line, as plain text has no other way to say it."""
    text = "".join(" ".join("_".join(word.split()) for word in line) + "\n" for line in lines if line)
    write_atomically(path, text.encode())


def _manifest(source: Source, texts: dict[str, Corpus], lexicon: Lexicon, pairs: int) -> dict[str, object]:
    """Counts, and the audit of the lexicon: the share of types with attributes that one part alone has."""
    types = {part: set(corpus.counts()) for part, corpus in texts.items()}
    covered = {}
    for part, own in types.items():
        alone = own.difference(*(other for name, other in types.items() if name != part))
        covered[part] = sum(bool(lexicon(word)) for word in alone) / max(1, len(alone))
    return {
        "source": source.name,
        "files": {part: path.name for part, path in source.parts.items()},
        "sentences": {part: len(corpus) for part, corpus in texts.items()},
        "words": {part: corpus.tokens for part, corpus in texts.items()},
        "types": len(set().union(*types.values())),
        "share of types with attributes, among those that one part alone has": covered,
        "pairs": pairs,
    }
