"""The words of the grammar by class, in all forms that templates ask for: `person` nouns, verbs that persons do, ...

for name, word in word_classes(): ...        person, Word("voisines", "voisine", "NOUN", Gender Fem, Number Plur)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from llrnn_lab.french import lexicon as lex
from llrnn_lab.french import word_lists as lists
from llrnn_lab.french.lexicon import FEMININE, MASCULINE, PLURAL, SINGULAR, Lexeme, Word

_ALL = [(gender, number) for gender in (MASCULINE, FEMININE) for number in (SINGULAR, PLURAL)]
_NOT_SURE = {"personne"}  # also a pronoun: `personne ne vient`
# The class, the kind of its subjects and that of its objects, by the frames of the grammar.
_FRAMES = {"act": ("person", ""), "meet": ("person", "person")}
_PASSIVES = {"published": "document", "built": "building"}
_NOUNS = ("person", "building", "document", "group")
_ATTRIBUTES = {"character": ("character",), "style": ("style", "notion"), "place": ("place",)}


def word_classes() -> Iterator[tuple[str, Word]]:
    """Every form with the name of its class; a word may be in several classes."""
    yield from (("det", word) for gender, number in _ALL for word in _determiners(gender, number))
    yield from (("le", lex.definite(gender, number)) for gender, number in _ALL)
    yield from (("be", word) for word in _finite("être", "AUX"))
    for kind in _NOUNS:
        yield from ((kind, noun.forms[noun.gender, number]) for noun in _nouns(kind) for number in (SINGULAR, PLURAL))
    for name, (subject, object_) in _FRAMES.items():
        yield from ((name, word) for lemma in _verbs(subject, object_) for word in _finite(lemma, "VERB"))
    yield from (("gone", word) for word in _participles(lists.words("with_etre"), _verbs("person", "")))
    for name, kind in _PASSIVES.items():
        verbs = _verbs("person", kind)
        yield from ((name, word) for word in _participles(verbs, verbs))
    for name, groups in _ATTRIBUTES.items():
        lemmas = dict.fromkeys(
            lemma for group, text in lists.rows("adjectives_after") if group in groups for lemma in text.split()
        )
        yield from ((name, word) for lemma in lemmas for word in lex.adjective(lemma).forms.values())


def _determiners(gender: str, number: str) -> tuple[Word, Word]:
    return lex.definite(gender, number), lex.demonstrative(gender, number)


def _nouns(kind: str) -> list[Lexeme]:
    return [noun for noun in lex.all_nouns(kind) if noun.countable and noun.lemma not in _NOT_SURE]


def _verbs(subject: str, object_: str) -> list[str]:
    """Verbs of these arguments, without pronominal ones; each once."""
    frames = (
        frame
        for frame in lex.FRAMES
        if subject in frame.subjects
        and (object_ in frame.objects if object_ else not frame.objects)
        and not frame.preposition
    )
    return list(dict.fromkeys(verb.lemma for frame in frames for verb in frame.verbs[0].items if not verb.reflexive))


def _finite(lemma: str, pos: str) -> Iterator[Word]:
    for tense in ("present", "imperfect", "future"):
        yield from (lex.finite(lemma, tense, "3", number, pos) for number in (SINGULAR, PLURAL))


def _participles(lemmas: Iterable[str], allowed: Container[str]) -> Iterator[Word]:
    """Past participles that agree with a subject."""
    for lemma in (lemma for lemma in dict.fromkeys(lemmas) if lemma in allowed):
        yield from (lex.participle(lemma, gender, number) for gender, number in _ALL)
