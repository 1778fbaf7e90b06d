"""Raw text, as people write it: told from tokenised text, and cut into sentences and words.

    He said: "No."        ->        he said : " no . "

A word is a run of letters, marks and digits of any script, with signs inside it (`well-known`, `3.5`, `Ankara'da`); a
short word with an apostrophe is one by itself (`l'`, `d'`). Chinese, Japanese, Thai, Lao, Khmer and Burmese put no
blanks between words: there every character is one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby

from llrnn.ground.errors import warn
from llrnn.ground.files import StrPath
from llrnn.text.corpus import Corpus
from llrnn.text.readers import read_lines

_PUNCTUATION = frozenset(".,;:!?…。、，；：！？।॥،؛؟۔።፣")
_ENDS = frozenset(".!?…。！？।॥؟۔።")
_CLOSING = frozenset("\"'’”»)]}」』）")
_WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f"
)
_ENOUGH_WORDS = 100  # below, a few abbreviations are a large share
_RAW = 0.04  # abbreviations are fewer; raw text has about one mark in ten words
_LONG = 15  # characters of a word on average, where whole clauses stand without blanks
_ELIDED = 2  # letters of a word that stands before an apostrophe by itself


@cache
def _token() -> re.Pattern[str]:
    marks = (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M"))
    runs = [[code for _, code in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    marks_of = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
    letter = rf"(?:(?![{_WITHOUT_BLANKS}])[\w{marks_of}\u200c\u200d])"
    alone = rf"[{_WITHOUT_BLANKS}](?:[{marks_of}])*"
    elided = rf"(?<![\w]){letter}{{1,{_ELIDED}}}['’](?={letter})"
    return re.compile(rf"{alone}|{elided}|{letter}+(?:[-'’.,:/]{letter}+)*|[^\w\s]")


def tokenise(line: str) -> list[str]:
    """Split a line into words and punctuation marks.

    >>> tokenise('L’homme a dit : "3,5 % !"')
    ['L’', 'homme', 'a', 'dit', ':', '"', '3,5', '%', '!', '"']
    """
    return _token().findall(line)


def sentences(line: str) -> Iterator[list[str]]:
    """Return the sentences of a line as lists of words; one ends at `.`, `!`, `?` or the like unless a lowercase word
    follows.

        list(sentences("Il pleut. Elle sort."))     # [["Il", "pleut", "."], ["Elle", "sort", "."]]
    """
    sentence: list[str] = []
    ended = False
    for word in tokenise(line):
        if ended and word not in _ENDS and word not in _CLOSING:
            if not word[0].islower() and len(sentence) > 1:
                yield sentence
                sentence = []
            ended = False
        sentence.append(word)
        ended = ended or word in _ENDS
    if sentence:
        yield sentence


def tokenised_lines(path: StrPath) -> Iterator[str]:
    """Return the sentences of a raw text file, tokens separated by blanks.

    For example:

        for line in tokenised_lines("novel.txt"): print(line)
    """
    return (" ".join(words) for _, line in read_lines(path) for words in sentences(line))


def raw_reason(corpus: Corpus) -> str | None:
    """Return why a text seems not to be tokenised (long words, attached punctuation), or None."""
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
    """Warn if a text seems not to be tokenised, and say how to do it."""
    reason = raw_reason(corpus)
    if reason is not None:
        warn(
            f"{corpus.name or 'the text'}: {reason}: it looks like raw text; put blanks between words and punctuation "
            "first: llrnn data tokenise FILE --out TEXT.txt"
        )
