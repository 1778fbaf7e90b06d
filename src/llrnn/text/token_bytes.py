"""What the symbols of a vocabulary spell, as bytes, and where words are in them: words, or tokens of a language model.

le ─ Ġch ─ at ─ .          bytes of a BPE:  "le", " ch", "at", "."         a term or a word may be cut anywhere
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal

from llrnn.text.tokenisers import token_of
from llrnn.text.vocabulary import EOS, Vocabulary

Spelled = Literal["words", "bytes", "pieces"]
_BLANK = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class TokenBytes:
    """The bytes that the symbols of a vocabulary spell; `token_bytes` makes it once for each vocabulary.

    spelled     for each symbol its bytes; b"" for the end of the text
    within      for each symbol, whether each of its bytes is part of a word (`in_words`)
    symbol_of   {bytes: symbol id}, without the end of the text

        token_bytes(model.vocabulary, "bytes").spelled
    """

    def __init__(self, vocabulary: Vocabulary, spelled: Spelled) -> None:
        self.spelled = [spelling(symbol, spelled) for symbol in vocabulary.symbols]
        self.within = [in_words(one) for one in self.spelled]
        self.symbol_of = {one: x for x, one in enumerate(self.spelled) if one}
        self._sorted, self.longest = sorted(self.symbol_of.items()), max(map(len, self.spelled), default=0)

    def beginning_with(self, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield what symbols spell that begin with these bytes, with their ids, sorted."""
        for one, x in self._sorted[bisect_left(self._sorted, (prefix,)) :]:
            if not one.startswith(prefix):
                return
            yield one, x

    def spells(self, text: bytes) -> bool:
        """Return whether some sequence of symbols spells these bytes."""
        if all(bytes([byte]) in self.symbol_of for byte in text):
            return True
        reached = {0}
        for i in range(len(text)):
            ends = range(i + 1, min(len(text), i + self.longest) + 1) if i in reached else ()
            reached.update(end for end in ends if text[i:end] in self.symbol_of)
        return len(text) in reached


@lru_cache(maxsize=4)
def token_bytes(vocabulary: Vocabulary, spelled: Spelled) -> TokenBytes:
    """Return what the symbols of a vocabulary spell; made once, since looking at 50,000 tokens takes a second."""
    return TokenBytes(vocabulary, spelled)


def spelling(symbol: str, spelled: Spelled) -> bytes:
    """Return the bytes that a symbol of a vocabulary stands for in a text, b"" for the end of a sentence.

    `spelled`: "words": a blank and the word; "bytes": a token of a byte-level BPE, whose characters stand for bytes;
    "pieces": a token of SentencePiece, with ▁ for a blank and <0x0A> for a byte.

        spelling("Ġchat", "bytes")         # b" chat"
    """
    if symbol == EOS:
        return b""
    if spelled == "words":
        return b" " + symbol.encode()
    token = token_of(symbol)
    if spelled == "bytes":
        known = byte_of()
        return bytes(known[one] for one in token) if all(one in known for one in token) else b""
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(_BLANK, " ").encode()


@lru_cache
def byte_of() -> Mapping[str, int]:
    """Return {character: byte} of byte-level BPE: printable bytes stand for themselves, others for U+0100 and up."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


def in_words(token: bytes) -> list[bool]:
    """Return for each byte whether it is part of a word: of a letter, digit, mark or `_`, or of a cut character."""
    found = list[bool]()
    for one in token.decode("utf8", "surrogateescape"):
        is_part = one.isalnum() or one == "_" or unicodedata.category(one) in ("Mn", "Mc", "Cs")
        found += [is_part] * len(one.encode("utf8", "surrogateescape"))
    return found
