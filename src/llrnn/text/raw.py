"""Raw text, as people write it, told from tokenised text; `llrnn.text.tokenisers` cuts it into sentences and words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob

from llrnn.ground.errors import warn
from llrnn.ground.files import StrPath
from llrnn.text.corpus import Corpus, Format
from llrnn.text.readers import Token, merge_tokens, read_lines
from llrnn.text.tokenisers import Learnt, PreTokeniser, Tokeniser, Unicode, joined_by_rule, restore

_PUNCTUATION = frozenset(".,;:!?…。、，；：！？।॥،؛؟۔።፣")
_ENOUGH_WORDS = 100  # below, a few abbreviations are a large share
_RAW = 0.04  # abbreviations are fewer; raw text has about one mark in ten words
_LONG = 15  # characters of a word on average, where whole clauses stand without blanks


def tokenised_lines(path: StrPath) -> Iterator[str]:
    """Return an iterator over the sentences of a raw text file, as lines with a blank between words and signs.

    Words are cut at Unicode's boundaries, with clitics and abbreviations found in the file. A line may have several
    sentences, but no sentence goes beyond its line. A CorpusError for a file that cannot be read.

    For example:

        for line in tokenised_lines("novel.txt"): print(line)
    """
    lines = [line for _, line in read_lines(path)]
    tokeniser = Unicode.evident(lines)
    return (" ".join(words) for line in lines for words in tokeniser.sentences(line))


def tokeniser_for(kind: str, files: Sequence[StrPath], format: Format = "auto", last: int = 0) -> Tokeniser | None:
    """Return the tokeniser that the configuration key `corpus.tokeniser` names; None for "blanks": text is not cut.

    `kind`: "learnt" learns from the texts and words of the training `files`, "tokenised" from their words alone,
    written as text by fixed rules, both without the `last` sentences of all files together; "unicode" learns from their
    texts. A path `.conllu`, which may have `*`, is a treebank to learn from instead, `.json` a Hugging Face tokenizer,
    "module:Class" a class of the user's.
    Raises a ConfigError for anything else. `format`: of the files, "auto" by their names.

    tokeniser_for("learnt", ["train.conllu"])
    """
    if kind == "blanks":
        return None
    if kind.endswith((".conllu", ".conllu.gz")):
        files = sorted(glob(kind)) or [kind]
        learnt = Learnt.fit((one.text, one.words) for file in files for one in Corpus.from_file(file, surface=True))
        learnt.contractions = _contractions(files)
        return learnt
    read = Corpus.from_file(files, format=format, surface=True)
    if kind in ("learnt", "tokenised"):
        kept = [one for one in read[: len(read) - last] if kind == "tokenised" or one.text]
        return Learnt.fit((one.text if kind == "learnt" else joined_by_rule(one.words), one.words) for one in kept)
    lines = (one.text or " ".join(one.words) for one in read)
    if kind == "unicode":
        return Unicode.fit(lines)
    return PreTokeniser.fit(kind, lines) if kind.endswith(".json") else restore({"kind": kind})


def _contractions(files: Sequence[StrPath]) -> dict[str, str]:
    """Return which words treebanks write as one, with their parts of speech: {"de/ADP le/DET": "du"}.

    `files`: in CoNLL-U, where they are multiword tokens. Words and forms are in lowercase; of several forms of the same
    words, the most frequent one is taken; words that are a multiword token only once in all files are not in the
    result.
    """
    found, form, last, parts = defaultdict[str, Counter[str]](Counter), "", "", list[Token]()
    for number, *columns in (line.split("\t") for file in files for _, line in read_lines(file)):
        if columns and number[0].isdigit() and "-" in number:
            form, last, parts = columns[0].lower(), number.partition("-")[2], []
        elif form and number.isdigit():
            parts.append(Token(columns[0], pos=columns[2]))
            if number == last:
                found[_named(parts)][form] += 1
                form = ""
    return {words: own.most_common(1)[0][0] for words, own in sorted(found.items()) if own.total() > 1}


def _named(words: Sequence[Token]) -> str:
    return " ".join(f"{word.form.lower()}/{word.pos}" for word in words)


def contracted(corpus: Corpus, contractions: Mapping[str, str]) -> Corpus:
    """Return a corpus of words as they are written: `du` for `de` + `le`, with the attributes of both.

    `contractions`: words with their parts of speech -> their form, {"de/ADP le/DET": "du"}, all words in lowercase; if
    it is empty, the corpus itself is returned. Longer ones are preferred, from left to right; the form is capitalised
    where the first word is.
    """
    sizes = sorted({1 + words.count(" ") for words in contractions}, reverse=True)

    def joined(words: Sequence[Token]) -> Iterator[Token]:
        place = 0
        while place < len(words):
            size = next((size for size in sizes if _named(words[place : place + size]) in contractions), 1)
            parts = words[place : place + size]
            form = contractions.get(_named(parts), "")
            form = form.capitalize() if parts[0].form[:1].isupper() else form
            yield parts[0] if size == 1 else merge_tokens(form, None, parts)
            place += size

    made = (replace(one, tokens=tuple(joined(one.tokens))) for one in corpus)
    return Corpus(tuple(made), corpus.name) if contractions else corpus


def raw_reason(corpus: Corpus) -> str | None:
    """Return why a text seems not to be cut into words, as a phrase for a message; None if it seems to be.

    It seems raw if words, counted with repetition, have over 15 characters on average, or if over 4 % of them, in a
    text of 100 words or more, are of 4 characters or more and end in a letter and a punctuation mark.
    """
    counts = corpus.counts()
    total = sum(counts.values())
    if total and sum(len(word) * n for word, n in counts.items()) > _LONG * total:
        return f"its words have more than {_LONG} characters on average"
    attached = [word for word in counts if word[-1:] in _PUNCTUATION and word[-2:-1].isalpha() and len(word) > 3]
    found = sum(counts[word] for word in attached)
    if total < _ENOUGH_WORDS or found <= _RAW * total:
        return None
    return f"{found / total:.0%} of the words end in punctuation, such as {', '.join(map(repr, attached[:3]))}"


def warn_if_raw(corpus: Corpus) -> None:
    """Warn if a text seems not to be cut into words (see `raw_reason`), and say how to do it; else do nothing."""
    reason = raw_reason(corpus)
    if reason is not None:
        warn(
            f"{corpus.name or 'the text'}: {reason}: it looks like raw text; put blanks between words and punctuation "
            "first: llrnn data tokenise FILE --out TEXT.txt"
        )
