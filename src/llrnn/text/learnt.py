"""What a tokeniser learns from sentences whose words are known: where words end, where blanks stand, what is capital.

Places between characters, and gaps between words, are told apart by an averaged perceptron with a margin (Freund and
Schapire 1999; Collins 2002) over what stands around them. Weights are plain data: feature -> number.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache

import regex

Example = tuple[list[str], bool]  # features of a place, and whether it is a boundary or a blank
_GROUP = regex.compile(r"[\p{L}\p{M}\u200c\u200d]+|\p{N}+|[^\p{L}\p{M}\p{N}\s\u200c\u200d]+|\s")
_QUOTES = frozenset("\"'”“„’*«»‹›_")
_BRACKETS = dict(zip("([{«‹“)]}»›”", ")]}»›”([{«‹“", strict=True))
_MARGIN, _EPOCHS, _LEAST = 4.0, 8, 0.1


@cache
def kind(character: str) -> str:
    """Return the kind of a character: `A` (capital), `a` (other letter), `0` (digit), `_` (blank), a sign for itself.

    Combining marks and joiners count as letters, all white space as a blank.
    """
    if character.isspace():
        return "_"
    if character.isdigit():
        return "0"
    is_letter = character.isalpha() or regex.match(r"[\p{M}\u200c\u200d]", character) is not None
    return ("A" if character.isupper() else "a") if is_letter else character


def learn(examples: Sequence[Example], *, once: bool = False, seed: int = 0) -> dict[str, float]:
    """Return the averaged weights, by feature name, of a binary perceptron trained on examples.

    An example is (list of names of its features, whether the answer is yes); `score` above 0 is yes. Weights are
    rounded to one decimal, and those of an absolute value below 0.1 dropped, as are features that occur only once,
    unless `once`. `seed`: decides the order of examples, which are read 8 times; weights change by 1 where the score is
    less than 4 on the right side.
    """
    seen = Counter(name for features, _ in examples for name in features)
    kept = [([name for name in features if once or seen[name] > 1], wanted) for features, wanted in examples]
    rng, weights, sums, steps = random.Random(seed), dict[str, float](), dict[str, float](), 1
    for _ in range(_EPOCHS):
        rng.shuffle(kept)
        for features, wanted in kept:
            change = 1.0 if wanted else -1.0
            if change * score(weights, features) < _MARGIN:
                for name in features:
                    weights[name] = weights.get(name, 0.0) + change
                    sums[name] = sums.get(name, 0.0) + change * steps
            steps += 1
    averaged = {name: round(weight - sums[name] / steps, 1) for name, weight in sorted(weights.items())}
    return {name: weight for name, weight in averaged.items() if abs(weight) >= _LEAST}


def score(weights: Mapping[str, float], features: Iterable[str]) -> float:
    """Return the sum of the weights of these features, 0 for unknown ones; above 0 a perceptron's answer is yes."""
    return sum([weights.get(name, 0.0) for name in features])


def align(text: str, words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return (begin, end) of each word in a text, as indices; None where text and words do not fit together.

    They fit if the text is the words in order, with one blank or none between them. `text[begin:end]` is the word.
    """
    found, place = [], 0
    for word in words:
        place += text.startswith(" ", place)
        if not text.startswith(word, place):
            return None
        found.append((place, place + len(word)))
        place += len(word)
    return found if place == len(text) else None


class Places:
    """The places of a text at which a word may end: where letters, digits and signs meet, and between signs.

    A place i is before text[i]. Make one by `Places(text)`, where `text` has no double blanks; `candidates(joined)`
    then yields the places, and `features(i, begin)` returns features of one.
    """

    def __init__(self, text: str) -> None:
        self.text, self.kinds = text, "^^" + "".join(map(kind, text)) + "$$$"
        self.small = text.lower() if len(text.lower()) == len(text) else text
        self.groups = [group.span() for group in _GROUP.finditer(text) for _ in range(len(group[0]))]
        self.chunks = [chunk.span() for chunk in re.finditer(r"\S+|\s", text) for _ in range(len(chunk[0]))]

    def candidates(self, joined: bool) -> Iterable[int]:
        """Yield the places i, before text[i], at which a word may end that are not marked by a blank, ascending.

        They are where letters, digits and signs meet, and between signs; not the beginning and end of the text. With
        `joined` also the places of blanks between digits (`20 000`), at which a word may go on.
        """
        for i in range(1, len(self.text)):
            before, after = self.kinds[i + 1], self.kinds[i + 2]
            if after == "_":
                if joined and before == "0" == self.kinds[i + 3]:
                    yield i
            elif before != "_" and (self.groups[i - 1] != self.groups[i] or not after.isalnum()):
                yield i

    def features(self, i: int, begin: int) -> list[str]:
        """Return names of features of place `i`, for a perceptron that decides whether a word ends there.

        They say what stands around it. `i`: the place before text[i], one of `candidates`; `begin`: the index at which
        the word so far begins.
        """
        if self.text[i] == " ":
            return self._of_blank(i, begin)
        text, kinds = self.small, self.kinds
        before, after, ahead = kinds[i : i + 2], kinds[i + 2], kinds[i + 3]
        pair, (start, end) = before[1] + after, self.chunks[i]
        left, right = text[start:i], text[i:end]
        own, following = text[self.groups[i - 1][0] : i], text[i : self.groups[i][1]]
        so_far, shape = text[begin:i], "".join(dict.fromkeys(kinds[begin + 2 : i + 2]))
        rest = "".join(dict.fromkeys(kinds[i + 2 : end + 2]))
        next_kind, size = kinds[min(end + 1, len(text)) + 2], min(len(own), 4)
        signs = "".join(sorted({sign for sign in kinds[start + 2 : end + 2] if not sign.isalnum()}))
        brackets = [(side, sign, _BRACKETS[sign]) for side, sign in zip("vw", pair, strict=True) if sign in _BRACKETS]
        return [
            *(f"{side}{sign}{partner in left}{partner in right}" for side, sign, partner in brackets),
            pair,
            f"t{pair}{signs}",
            f"<{before[1]}",
            f">{after}",
            f"a{before}{after}",
            f"b{pair}{ahead}",
            f"c{before}{after}{ahead}",
            f"d{pair}{kinds[i + 3 : i + 5]}",
            f"e{left}|{after}",
            f"f{before[1]}|{right}",
            f"g{left}|{right}",
            f"h{own}|{after}",
            f"i{before[1]}|{following}",
            f"j{own}|{following}",
            f"k{so_far}|{after}",
            f"l{so_far}|{following}",
            f"m{shape}|{after}{ahead}",
            f"n{shape}|{rest}",
            f"o{size}{pair}",
            f"p{min(i - begin, 5)}{pair}",
            f"q{pair}{next_kind}",
            f"r{pair}{min(end - i, 3)}{end == len(text)}",
            f"s{pair}{size}{next_kind}",
        ]

    def _of_blank(self, i: int, begin: int) -> list[str]:
        sizes = [min(end - start, 5) for start, end in (self.groups[i - 1], self.groups[i + 1])]
        ends = self.kinds[self.groups[i - 1][0] + 1], self.kinds[self.groups[i + 1][1] + 2]
        whole = f"{ends[0]}{sizes}{ends[1]}"
        return ["_", f"_{sizes}", f"_{whole}", f"_{begin < self.groups[i - 1][0]}{sizes}"]


def cutting_examples(text: str, words: Sequence[str], joined: bool) -> Iterable[Example]:
    """Yield an example (features, whether one of `words` ends there) for each place of a text where a word may end.

    `joined`: whether words may contain a blank between digits. Features are those of `Places`. Nothing is yielded where
    text and words do not fit together (`align`).
    """
    places, spans = Places(text), align(text, words) or []
    starts = [start for start, _ in spans]
    inside = {i for start, end in spans for i in range(start + 1, end)}
    word = 0
    for i in places.candidates(joined) if spans else ():
        while word + 1 < len(starts) and starts[word + 1] < i:
            word += 1
        yield places.features(i, starts[word]), i not in inside


def cut(text: str, weights: Mapping[str, float], joined: bool) -> list[str]:
    """Return the words of a text, cut at blanks and where the perceptron of `weights` says so, from left to right.

    A place of which nothing is known (score 0), such as between two signs that never stood together, is cut.
    `text`: without double or outer blanks; `weights`: by feature name, from `learn` on `cutting_examples`; `joined`:
    whether the perceptron may keep a blank between digits, as in 20 000. [] for "".
    """
    places, words, begin = Places(text), list[str](), 0
    asked = {*places.candidates(joined)}
    for i in range(1, len(text)):
        is_end = score(weights, places.features(i, begin)) >= 0 if i in asked and i > begin else text[i] == " "
        if is_end:
            words.append(text[begin:i])
            begin = i + (text[i] == " ")
    return [*words, text[begin:]] if text else []


@lru_cache(100_000)
def _shape(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1+", "".join(map(kind, word))) if len(word) < 12 else "long"


def gap_features(words: Sequence[str], i: int, quotes: Mapping[str, int]) -> list[str]:
    """Return names of features of the gap before `words[i]`, for a perceptron that decides whether it is a blank.

    They say what stands around it. `i`: 1 or more; `quotes`: how often each character came in words[:i], for quotation
    marks, which open and close in turn.
    """
    padded = ("^", *words, "$")
    far, a, b, next_one = padded[i - 1] if i > 1 else "^", padded[i], padded[i + 1], padded[i + 2]
    p, q, r, s = map(_shape, (far, a, b, next_one))
    a, b = a.lower(), b.lower()
    even = "".join(str(quotes.get(sign, 0) % 2) for sign in "\"'*") if a in _QUOTES or b in _QUOTES else ""
    return [
        "",
        f"a{a}",
        f"b{b}",
        f"c{a}|{b}",
        f"d{q}",
        f"e{r}",
        f"f{q}|{r}",
        f"g{a}|{r}",
        f"h{q}|{b}",
        f"i{a[-2:]}|{b[:2]}{even}",
        f"j{a if a in _QUOTES else ''}|{b if b in _QUOTES else ''}{even}",
        f"k{p}|{a}|{r}",
        f"l{q}|{b}|{s}",
        f"m{p}|{q}|{r}|{s}",
        f"n{far.lower()}|{a}",
        f"o{b}|{next_one.lower()}",
        f"p{b}{i == len(words) - 1}",
        f"q{a[-1:]}{len(a) > 2}{r}",
    ]


def gap_examples(text: str, words: Sequence[str]) -> Iterable[Example]:
    """Yield an example (features, whether a blank stands there) for each gap between the words of a text.

    Nothing is yielded where text and words do not fit together (`align`).
    """
    spans, quotes = align(text, words) or [], Counter[str]()
    for i in range(1, len(spans)):
        quotes.update(words[i - 1])
        yield gap_features(words, i, quotes), spans[i][0] > spans[i - 1][1]


def blanks_between(words: Sequence[str], weights: Mapping[str, float]) -> list[bool]:
    """Return for each word whether a blank stands before it in text, by the perceptron of `weights`; first: False.

    `weights`: by feature name, from `learn` on `gap_examples`.
    """
    found, quotes = [False] * len(words), Counter[str]()
    for i in range(1, len(words)):
        quotes.update(words[i - 1])
        found[i] = score(weights, gap_features(words, i, quotes)) > 0
    return found
