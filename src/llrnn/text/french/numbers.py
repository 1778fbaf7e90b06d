"""Numbers, in digits and in words, and the phrases they stand in: ages, prices, years, dates, durations."""

from __future__ import annotations

from functools import cache

from llrnn.text.french.choice import zipf
from llrnn.text.french.closed import EN, A, definite, preposition
from llrnn.text.french.lexicon import Draw
from llrnn.text.french.names import DAYS, MONTHS, NUMBER_WORDS
from llrnn.text.french.tree import Node, Phrase
from llrnn.text.french.words import MASCULINE, PLURAL, SINGULAR, Noun, Word, noun

_CARDINAL = {"NumType": "Card"}
_WORDS = zipf([Word(form, form, "NUM", _CARDINAL | {"Number": PLURAL}) for form in NUMBER_WORDS.split()])
_MONTHS = zipf([noun(month, "time", MASCULINE) for month in MONTHS.split()])
_DAYS = zipf([noun(day, "time", MASCULINE) for day in DAYS.split()])
_UNITS = {
    lemma: noun(lemma, "unit", gender)
    for lemma, gender in {
        "euro": "Masc", "an": "Masc", "kilomètre": "Masc", "mètre": "Masc", "heure": "Fem", "jour": "Masc",
        "mois": "Masc", "semaine": "Fem", "minute": "Fem", "habitant": "Masc", "kilo": "Masc", "page": "Fem",
        "élève": "Masc", "franc": "Masc", "dollar": "Masc", "année": "Fem", "litre": "Masc", "hectare": "Masc",
    }.items()
}  # fmt: skip


@cache
def digits(text: str) -> Word:
    return Word(text, text, "NUM", _CARDINAL)


def rounded(draw: Draw, low: int, high: int) -> int:
    """Of every size between the bounds, with two leading digits at most: small numbers are as likely as large ones."""
    value = low * (high / low) ** draw.random.random()
    scale = 1
    while value / scale >= 100:
        scale *= 10
    return max(low, int(value / scale) * scale)


def number_word(draw: Draw) -> Word:
    return draw.item(_WORDS)


def unit(lemma: str) -> Noun:
    return _UNITS[lemma]


def quantity(number: Word, counted: Noun) -> Phrase:
    """`37 euros`, `trois jours`; one is singular."""
    head = Node(counted.word(SINGULAR if number.form == "1" else PLURAL))
    return Phrase([Node(number, head, "nummod"), head], head)


def price(draw: Draw, low: int, high: int) -> Phrase:
    amount = str(rounded(draw, low, high))
    if len(amount) <= 2 and draw.chance(0.3):
        amount += draw.one((",50", ",20", ",90", ",99", ",80"))
    return quantity(digits(amount), unit(draw.one(("euro", "euro", "euro", "euro", "dollar", "franc"))))


def duration(draw: Draw) -> Phrase:
    number = number_word(draw) if draw.chance(0.5) else digits(str(draw.between(2, 60)))
    return quantity(number, unit(draw.one(("an", "jour", "heure", "mois", "semaine", "minute"))))


def with_preposition(text: str, phrase: Phrase) -> Phrase:
    words = preposition(text)
    first = Node(words[0], phrase.head, "case")
    rest = [Node(word, first, "fixed") for word in words[1:]]
    return Phrase([first, *rest, *phrase.nodes], phrase.head)


def year(draw: Draw, first: int = 1850, last: int = 2024) -> Phrase:
    """`en 1987`: recent years are more frequent."""
    span = last - first
    head = Node(digits(str(last - int(span * draw.random.random() ** 1.7))))
    return Phrase([Node(EN, head, "case"), head], head)


def date(draw: Draw, *, future: bool = False) -> Phrase:
    """`le 14 juillet 1989`, `en juillet`, `en juillet 1989`, `en 1989`, `lundi`."""
    shape = draw.random.random()
    first, last = (2026, 2060) if future else (1850, 2024)
    if shape < 0.45:
        return year(draw, first, last)
    if shape < 0.6:
        head = Node(draw.item(_DAYS).singular)
        return Phrase([head], head)
    month = Node(draw.item(_MONTHS).singular)
    years = year(draw, first, last).nodes[1:] if draw.chance(0.6) else []
    for node in years:
        node.head, node.relation = month, "nmod"
    return Phrase(_date_opening(draw, month) + years, month)


def _date_opening(draw: Draw, month: Node) -> list[Node]:
    if draw.chance(0.4):
        return [Node(EN, month, "case"), month]
    day = Node(digits(str(draw.between(2, 30))), month, "nummod")
    return [Node(definite(MASCULINE, SINGULAR), month, "det"), day, month]


def clock(draw: Draw) -> Phrase:
    """`à 8 heures`."""
    phrase = quantity(digits(str(draw.between(2, 23))), unit("heure"))
    return Phrase([Node(A, phrase.head, "case"), *phrase.nodes], phrase.head)
