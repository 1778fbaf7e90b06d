"""Dependency trees under construction, and how they become sentences: contraction, elision, numbering."""

from __future__ import annotations

from itertools import pairwise

from llrnn.text.corpus.source import Sentence, Token
from llrnn.text.french.closed import AND, CONTRACTIONS, IF, IF_ELIDED
from llrnn.text.french.morphology import begins_with_vowel
from llrnn.text.french.words import FEMININE, MASCULINE, PLURAL, Concord, Word


class Node:
    """A word in its place; `head` is None for the root."""

    __slots__ = ("head", "index", "relation", "word")

    def __init__(self, word: Word, head: Node | None = None, relation: str = "root") -> None:
        self.word = word
        self.head = head
        self.relation = relation
        self.index = 0


class Phrase:
    """Words in order, and the one that the others hang on."""

    __slots__ = ("head", "nodes")

    def __init__(self, nodes: list[Node], head: Node) -> None:
        self.nodes = nodes
        self.head = head

    def attach(self, head: Node, relation: str) -> list[Node]:
        """Hang the phrase on a word outside; returns its words, to be put in their place."""
        self.head.head = head
        self.head.relation = relation
        return self.nodes


class Nominal(Phrase):
    """A phrase that others agree with; `kind` says what it names."""

    __slots__ = ("agreement", "kind")

    def __init__(self, nodes: list[Node], head: Node, agreement: Concord, kind: str) -> None:
        super().__init__(nodes, head)
        self.agreement = agreement
        self.kind = kind


class Clause(Phrase):
    """A phrase whose head is the verb or the attribute; it remembers its subject, so that a pronoun can take it up."""

    __slots__ = ("subject", "tense")

    def __init__(self, nodes: list[Node], head: Node, subject: Nominal, tense: str) -> None:
        super().__init__(nodes, head)
        self.subject = subject
        self.tense = tense


def coordinated(first: Nominal, second: Nominal) -> Nominal:
    """`Marie et Paul`: plural, and masculine unless all are feminine."""
    conjunction = Node(AND, second.head, "cc")
    nodes = [*first.nodes, conjunction, *second.attach(first.head, "conj")]
    both_feminine = first.agreement.gender == second.agreement.gender == FEMININE
    agreement = Concord(FEMININE if both_feminine else MASCULINE, PLURAL)
    return Nominal(nodes, first.head, agreement, first.kind)


def finished(nodes: list[Node], name: str) -> Sentence:
    """The sentence: contracted, elided, numbered, with a capital at the start."""
    nodes = _contracted(nodes)
    _elide(nodes)
    for index, node in enumerate(nodes, start=1):
        node.index = index
    tokens = [_token(node) for node in nodes]
    tokens[0] = _token(nodes[0], capital=True)
    return Sentence(tuple(tokens), name=name)


def _contracted(nodes: list[Node]) -> list[Node]:
    """`de le` is `du`, unless the article elides: `de l'ami`."""
    kept = list(nodes)
    for position in range(len(nodes) - 2, -1, -1):
        merged = CONTRACTIONS.get((nodes[position].word, nodes[position + 1].word))
        if merged is None or _elides(nodes[position + 1], nodes[position + 2]):
            continue
        nodes[position].word = merged
        del kept[position + 1]
    return kept


def _elides(left: Node, right: Node) -> bool:
    return left.word.elided is not None and begins_with_vowel(right.word.form)


def _elide(nodes: list[Node]) -> None:
    for left, right in pairwise(nodes):
        elided = left.word.elided
        if elided is not None and begins_with_vowel(right.word.form):
            left.word = elided
        elif left.word is IF and right.word.form in ("il", "ils"):
            left.word = IF_ELIDED


def _token(node: Node, capital: bool = False) -> Token:
    word = node.word
    form = word.form[0].upper() + word.form[1:] if capital else word.form
    head = node.head.index if node.head is not None else 0
    return Token(form, word.lemma, word.pos, word.feats, head, node.relation)
