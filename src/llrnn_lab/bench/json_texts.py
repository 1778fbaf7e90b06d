"""What constraints are measured on: JSON as a grammar, a vocabulary of word pieces, and documents in those pieces.

Pieces are written as byte-level tokenizers write them (Ġ is a blank, Ċ a new line), and each is a string of whole
characters. They are drawn from a seed, or learnt from a text with `tokenizers` (its ASCII; then filled up by drawing).
"""

from __future__ import annotations

import gzip
import importlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.text.vocabulary import EOS

GRAMMAR = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
WS: /[ \t\n\r]+/
%ignore WS
"""
SPELLING = {"Ġ": " ", "Ċ": "\n", "ĉ": "\t", "č": "\r"}
FEWEST = 4_000  # pieces of a vocabulary: the characters, numbers and pieces of JSON that are always there

_WRITTEN = str.maketrans({letter: sign for sign, letter in SPELLING.items()})
_CHARACTERS = [*map(chr, range(33, 127)), *SPELLING, *"äçèéñöüß"]
_OF_JSON = """
    {" "} {} [] [{ [{" }] }, },{ },{" }} ]] ]} ], ": ":" ":Ġ ":Ġ" ":Ġ{ ":Ġ[ ":{" ":[ ":{ ", "," ",Ġ" "] "], "},"
    :Ġ ,Ġ :true :false :null true false null true, false, null, Ġtrue Ġfalse Ġnull \\n \\t \\" \\\\ \\/ \\u \\u00 \\u20
    .0 .5 .00 0. -1 e-05 E+ ],ĊĠĠ },ĊĠĠ },ĊĠĠĠĠ ",ĊĠĠ ",ĊĠĠ" {ĊĠĠ" [ĊĠĠ ,ĊĠĠ" "ĊĠĠ} :ĊĠ
""".split()  # noqa: SIM905
_STARTS = [start + vowel for start in "bcdfghjklmnpqrstvwxyz" for vowel in ("a", "e", "i", "o", "u", "ea", "é", "y")]
_SIGNS = "!#$%&'()*+,-./:;<=>?@[]^_`{|}~\"\\"


def drawn_pieces(size: int, seed: int = 0, *, first: Sequence[str] = ()) -> list[str]:
    """A vocabulary: the end, all characters, pieces of JSON, numbers, blanks, and then words and signs as drawn."""
    if size < FEWEST:
        raise ConfigError(f"a vocabulary for JSON has {FEWEST:,} pieces at least, found {size:,}")
    rng, blanks = random.Random(seed), ["Ġ" * n for n in range(1, 33)]
    always = [EOS, *_CHARACTERS, *_OF_JSON, *map(str, range(1000)), *blanks, *("Ċ" + blank for blank in blanks)]
    found = dict.fromkeys([*always, *first])
    while len(found) < size:
        found[_piece(rng)] = None
    return list(found)[:size]


def _piece(rng: random.Random) -> str:
    if rng.random() < 0.05:
        return rng.choice(["", "Ġ"]) + "".join(rng.choice(_SIGNS) for _ in range(rng.randint(2, 4)))
    word = "".join(rng.choice(_STARTS) for _ in range(rng.randint(1, 4))) + rng.choice(["", "", "n", "s", "r", "t"])
    word = rng.choice([word, word, word, word.capitalize(), word.upper()])
    return rng.choice(["", "Ġ"]) + word if rng.random() < 0.94 else rng.choice(['"', "_", "."]) + word


def learnt_pieces(path: Path, size: int, seed: int = 0) -> list[str]:
    """Byte pairs of a text, by `tokenizers`; what it has too few of is drawn."""
    try:
        tokenizers: Any = importlib.import_module("tokenizers")
    except ImportError:
        raise MissingExtraError("tokenizers", "open") from None
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False)
    learner.train_from_iterator(_ascii_lines(path), trainer)
    pieces: Mapping[str, int] = learner.get_vocab()
    return drawn_pieces(size, seed, first=sorted(pieces, key=lambda piece: pieces[piece]))


def _ascii_lines(path: Path) -> Iterator[str]:
    """The lines of a text without what is not ASCII: other letters are several bytes, which pieces may cut."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf8") as lines:
        for line in lines:
            yield "".join(c for c in line if c in "\t\n" or " " <= c <= "~")


def documents(count: int, *, depth: int = 3, seed: int = 0) -> list[str]:
    """JSON texts: objects and arrays nested up to a depth, printed in a line, without blanks, or indented."""
    rng = random.Random(seed)
    printed: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": 2}]
    return [json.dumps(_record(rng, depth), ensure_ascii=False, **rng.choice(printed)) for _ in range(count)]


def _record(rng: random.Random, depth: int) -> object:
    """An object with some content."""
    return {_word(rng): _value(rng, depth - 1) for _ in range(rng.randint(2, 6))}


def _value(rng: random.Random, depth: int) -> object:
    kind = rng.choice(["object", "array"] if depth and rng.random() < 0.45 else ["string"] * 3 + ["number", "other"])
    if kind == "object":
        return {_word(rng): _value(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    if kind == "array":
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 5))]
    if kind == "number":
        return rng.choice([rng.randint(-50, 100_000), round(rng.uniform(-10, 10), 3), rng.random() * 1e-7])
    if kind == "other":
        return rng.choice([True, False, None])
    said = " ".join(_word(rng) for _ in range(rng.randint(0, 6)))
    return said + rng.choice(["", "", ".", "\n", ' "so"', "\t\x01", "\\"])


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(_STARTS) for _ in range(rng.randint(1, 4)))


def spelled(piece: str) -> str:
    """The characters of a piece."""
    return "".join(SPELLING.get(sign, sign) for sign in piece)


def written(text: str) -> str:
    """A text with the signs of pieces for its blanks."""
    return text.translate(_WRITTEN)


def cut(text: str, ids: Mapping[str, int]) -> list[int]:
    """A text as pieces, the longest first."""
    longest, found, at = max(map(len, ids)), list[int](), 0
    while at < len(text):
        piece = next(text[at : at + length] for length in range(longest, 0, -1) if text[at : at + length] in ids)
        found.append(ids[piece])
        at += len(piece)
    return found
