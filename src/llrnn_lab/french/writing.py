"""How French is written: elision and contraction, and running text as UD treebanks cut it into words.

    du, au, aux  ->  de le, à le, à les                    auquel, desquels, ...  ->  à lequel, de lesquels, ...
    dit-il, est-ce, a-t-elle  ->  dit -il, est -ce, a -t -elle

`des` is an article (`il a des amis`) or `de les` (`le roi des francs`), and so is `du`: running text has several
`readings`, among which a language model can choose.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from itertools import product

from llrnn_lab.clusters import tokenise
from llrnn_lab.french.lexicon import begins_with_vowel

TWO = {"du": ("de", "le"), "au": ("à", "le"), "aux": ("à", "les"), "des": ("de", "les")}
_ENDS = {"le": ("quel",), "les": ("quels", "quelles")}
ALWAYS = {one + end: (first, last + end) for one, (first, last) in TWO.items() for end in _ENDS[last]}
ALWAYS |= {"au": TWO["au"], "aux": TWO["aux"]}
SIGNS = {"…": "...", "–": "--", "—": "--", "“": '"', "”": '"'}
_JOINED = {("aujourd'", "hui"), ("quelqu'", "un"), ("m", "."), ("mm", ".")}
_CLITICS = re.compile(
    r"(.*?)(-t)?(-(?:ils?|elles?|on|ce|je|tu|nous|vous|y|en|moi|toi|lui|eux|leur|le|la|les|là|ci))", re.DOTALL
)
_MOST_READINGS = 64
_CONTRACTED = {two: one for one, two in TWO.items()}
_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'", "se": "s'", "ce": "cet"}


def joined(words: Sequence[str]) -> Iterator[str]:
    """Words that a tokeniser took apart, in one again."""
    place = 0
    while place < len(words):
        pair = words[place : place + 2]
        count = 2 if tuple(word.lower() for word in pair) in _JOINED else 1
        yield "".join(pair[:count])
        place += count


def without_clitics(word: str, known: Container[str]) -> list[str]:
    """`dit-il` as `dit -il`, unless the text has it as one word."""
    clitic = None if word in known else _CLITICS.fullmatch(word)
    return [word] if clitic is None else [part for part in clitic.groups() if part]


def running_words(text: str, *, lowercase: bool = False) -> list[str]:
    """Running text as words and signs, contractions as they are written."""
    return list(joined([SIGNS.get(word, word) for word in tokenise(text, lowercase=lowercase)]))


def readings(words: Sequence[str], known: Container[str], *, contracted: bool) -> list[tuple[str, ...]]:
    """What the words of running text may be in a text that is written like the treebanks (or with `contracted` words).

    `known` are the words of that text. There are 64 readings at most: behind so many, `du` and `des` are two words.
    """
    parts: list[list[tuple[str, ...]]] = []
    count = 1
    for word in words:
        lower = word.lower()
        if contracted or lower not in {**TWO, **ALWAYS}:
            parts.append([tuple(without_clitics(word, known))])
        elif lower in ALWAYS or 2 * count > _MOST_READINGS:
            parts.append([ALWAYS.get(lower) or TWO[lower]])
        else:
            parts.append([TWO[lower], (word,)])
            count *= 2
    return [tuple(word for part in chosen for word in part) for chosen in product(*parts)]


def spelled(words: Sequence[str], *, contracted: bool) -> list[str]:
    """Words in their full forms as they stand in a sentence: `le ami` is `l' ami`, and `contracted` `de le` is `du`."""
    full = [*words]
    for place in range(len(full) - 2, -1, -1):
        if full[place] in _ELIDED and begins_with_vowel(full[place + 1]):
            full[place] = _ELIDED[full[place]]
    found: list[str] = []
    for word in full:
        if contracted and found and (found[-1], word) in _CONTRACTED:
            found[-1] = _CONTRACTED[found[-1], word]
        else:
            found.append(word)
    return found
