"""The restaurant corpus of dialog acts, spelled: every character is a symbol, and `␣` is the blank.

    train.jsonl, valid.jsonl, test.jsonl, unseen.jsonl      as `nlg_data` makes them, character by character
    known.jsonl                                             what of valid.jsonl the dictionary and the acts can write
    dictionary.txt                                          a word a line
    alphabet.txt                                            the characters that may be written, whether seen or not

The dictionary holds the words that a training target says outside the values of its own act. So every training target
is a text of dictionary words and of values of its act, whatever it says. A value that some target says although its act
does not have it (`russian`, twice) is a word like any other. Texts that validate must be possible, too: `known.jsonl`.
"""

from __future__ import annotations

import json
import string
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from llrnn.ground.files import StrPath, write_atomically
from llrnn.languages.grammars.rows import BLANK
from llrnn.text.conditions import values_of
from llrnn.text.corpus import Corpus, Sentence, find_values
from llrnn.text.readers import PlainTokens
from llrnn_lab.studies import nlg_data

PARTS = ("train", "valid", "test", "unseen")
ALPHABET = (BLANK, *string.ascii_lowercase, *string.digits, *string.punctuation)


# --- between words and characters


def spelled(words: Sequence[str]) -> list[str]:
    """Words as characters, with a blank between them."""
    return list(BLANK.join(words))


def joined(characters: Sequence[str]) -> tuple[str, ...]:
    """Characters as words; blanks that nothing stands between are no word."""
    return tuple("".join(characters).replace(BLANK, " ").split())


def in_words(corpus: Corpus) -> Corpus:
    """A spelled corpus as words."""
    tokens = PlainTokens()
    return Corpus(
        tuple(replace(one, tokens=tuple(tokens[word] for word in joined(one.words))) for one in corpus), corpus.name
    )


# --- what is in the dictionary


def dictionary_of(corpus: Corpus) -> list[str]:
    """The words that sentences say outside the values of their own conditions, sorted."""
    return sorted({word for sentence in corpus for word in outside_values(sentence)})


def outside_values(sentence: Sentence) -> list[str]:
    """The words of a sentence that are not part of a value of its condition, said as a whole."""
    spans = find_values(sentence.words, (value.words for value in values_of(sentence.condition)))
    inside = {place for begin, value in spans.items() for place in range(begin, begin + len(value))}
    return [word for place, word in enumerate(sentence.words) if place not in inside]


# --- files


def write_parts(folder: StrPath, source: StrPath, seed: int = 0) -> nlg_data.Parts:
    """Write the files of the study, made from train.json, valid.json and test.json in the folder `source`."""
    into = Path(folder)
    words = nlg_data.write_parts(into / "words", source, [100], seed)
    corpora = {part: read_part(into / "words" / f"{part}.jsonl") for part in PARTS}
    dictionary = dictionary_of(corpora["train"])
    known = frozenset(dictionary)
    corpora["known"] = Corpus(tuple(one for one in corpora["valid"] if known.issuperset(outside_values(one))), "known")
    for part, corpus in corpora.items():
        write_atomically(into / f"{part}.jsonl", _lines(corpus))
    write_atomically(into / "dictionary.txt", _listed(dictionary))
    write_atomically(into / "alphabet.txt", _listed(ALPHABET))
    return replace(words, files={into / f"{part}.jsonl": len(corpus) for part, corpus in corpora.items()})


def read_part(path: StrPath) -> Corpus:
    """A text with acts as conditions."""
    return Corpus.from_file(path, lowercase=True, conditions="act")


def _lines(corpus: Corpus) -> bytes:
    rows = ({"condition": str(one.condition), "target": " ".join(spelled(one.words))} for one in corpus)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _listed(words: Collection[str]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()
