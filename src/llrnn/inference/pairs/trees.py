"""Dependency trees: who depends on whom, and which word decides the form of which.

Everything here follows Universal Dependencies and no language in particular. Positions count from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llrnn.text.corpus.types import Sentence, Token

Kind = Literal["verb", "adjective", "participle"]
Link = Literal["subject", "relative", "shared", "attribute"]

NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_OTHER_SUBJECTS = frozenset({"nsubj:outer", "nsubj:caus"})  # of a clause around this one, of the one who causes


@dataclass(frozen=True, slots=True)
class Agreement:
    """The word at `target` takes its form from the word at `controller`.

    `link` says how: from its subject, from the noun that the relative pronoun at `pronoun` stands for, from the subject
    of the verb that it is coordinated with, or from the noun that it modifies. `means` are the lemmas of a participle's
    auxiliaries, which decide in many languages whether it agrees at all.
    """

    target: int
    controller: int
    kind: Kind
    link: Link
    means: tuple[str, ...] = ()
    pronoun: int = -1


class Tree:
    """A sentence with the dependents of each word at hand."""

    def __init__(self, sentence: Sentence) -> None:
        self.tokens = sentence.tokens
        self.children: list[list[int]] = [[] for _ in self.tokens]
        for index, token in enumerate(self.tokens):
            if token.head:
                self.children[token.head - 1].append(index)

    def head(self, index: int) -> int | None:
        head = self.tokens[index].head
        return head - 1 if head else None

    def having(self, index: int, *relations: str) -> list[int]:
        """The dependents by these relations, subtypes included."""
        return [child for child in self.children[index] if base(self.tokens[child]) in relations]

    def is_nominal(self, index: int) -> bool:
        return self.tokens[index].pos in NOMINAL

    def is_coordinated(self, index: int) -> bool:
        return base(self.tokens[index]) == "conj" or bool(self.having(index, "conj"))

    def agreements(self) -> Iterator[Agreement]:
        """Every verb, adjective and participle whose form another word may decide."""
        for index, token in enumerate(self.tokens):
            kind = _kind(token)
            if kind is not None:
                found = self._verb(index) if kind == "verb" else self._inflected(index, kind)
                if found is not None and self._is_plain(found.controller):
                    yield found

    def _is_plain(self, index: int) -> bool:
        """A single word with letters: `10 %` and `Pierre et Marie` take either form."""
        is_word = any(character.isalpha() for character in self.tokens[index].form)
        return self.is_nominal(index) and is_word and not self.is_coordinated(index)

    def _verb(self, index: int) -> Agreement | None:
        host = self.head(index) if base(self.tokens[index]) in ("aux", "cop") else index
        if host is None or (host == index and self.having(index, "aux", "cop")):  # the auxiliary is finite, not this
            return None
        found = self._subject(host)
        if found is None:
            return self._shared(index, host)
        controller, pronoun = found
        return Agreement(index, controller, "verb", "subject" if pronoun < 0 else "relative", pronoun=pronoun)

    def _shared(self, index: int, host: int) -> Agreement | None:
        """`il chante et danse`: a coordinated verb without any subject of its own has that of the first."""
        head = self.head(host)
        if head is None or base(self.tokens[host]) != "conj" or self.having(host, "nsubj") or self._is_impersonal(host):
            return None
        found = self._subject(head)
        return Agreement(index, found[0], "verb", "shared") if found is not None and found[1] < 0 else None

    def _inflected(self, index: int, kind: Kind) -> Agreement | None:
        relation, head = self.tokens[index].relation, self.head(index)
        helpers = self.having(index, "aux", "cop")
        if relation in ("amod", "acl") and head is not None:
            free = not helpers and not self.having(index, "nsubj", "csubj")
            return Agreement(index, head, kind, "attribute") if free and self.tokens[head].pos != "PRON" else None
        if helpers:
            means = tuple(sorted(self.tokens[helper].lemma or "" for helper in helpers))
            return self._predicate(index, index, kind, means if kind == "participle" else ())
        if base(self.tokens[index]) == "xcomp" and head is not None and not self.having(head, "obj"):
            return self._predicate(index, head, kind, ("xcomp",))
        return None

    def _predicate(self, index: int, host: int, kind: Kind, means: tuple[str, ...]) -> Agreement | None:
        found = self._subject(host)
        if found is None or self._has_object(index):
            return None
        return Agreement(index, found[0], kind, "subject" if found[1] < 0 else "relative", means, found[1])

    def _has_object(self, index: int) -> bool:
        """An object may decide instead (`elle s'est lavé les mains`), but not a reflexive one."""
        return any("Reflex" not in self.tokens[child].feats for child in self.having(index, "obj"))

    def _subject(self, host: int) -> tuple[int, int] | None:
        """The subject of a clause, or what its relative pronoun stands for, with the pronoun (-1 for none)."""
        subjects = [i for i in self.having(host, "nsubj") if self.tokens[i].relation not in _OTHER_SUBJECTS]
        if len(subjects) != 1 or self._is_impersonal(host):
            return None
        (subject,) = subjects
        if "Rel" not in self.tokens[subject].feats.get("PronType", "").split(","):
            return subject, -1
        antecedent = self.head(host)
        is_relative = self.tokens[host].relation == "acl:relcl" and antecedent is not None and antecedent < subject
        return (antecedent, subject) if is_relative and antecedent is not None else None

    def _is_impersonal(self, host: int) -> bool:
        empty = any(self.tokens[child].relation in ("expl", "expl:subj") for child in self.children[host])
        return empty or bool(self.having(host, "csubj"))

    def rivals(self, agreement: Agreement) -> list[int]:
        """The nominals that a reader might take for the controller instead: with one that suits the wrong form, the
        sentence would mean something else, but not be wrong (`le maire de la ville connue`, `... connu`)."""
        target, controller = agreement.target, agreement.controller
        match agreement.link:
            case "subject":
                head = self.head(target)
                is_copula = base(self.tokens[target]) == "cop" and head is not None
                rivals = [head] if is_copula and head is not None else []
            case "shared":
                rivals = [i for i in range(target) if base(self.tokens[i]) in ("nsubj", "expl")]
            case "relative":
                rivals = list(range(self._phrase_start(controller), agreement.pronoun))
            case "attribute":
                rivals = list(range(self._phrase_start(controller), target))
        return [index for index in rivals if index != controller and self.is_nominal(index)]

    def _phrase_start(self, index: int) -> int:
        """Where the nouns begin that may all have the same modifier: after the verb that they complement."""
        start, head = index, self.head(index)
        while head is not None and self.is_nominal(head):
            index, head = head, self.head(head)
            start = min(start, index)
        return min(start, head) if head is not None else start


def base(token: Token) -> str:
    """The relation without its subtype."""
    return (token.relation or "").partition(":")[0]


def _kind(token: Token) -> Kind | None:
    form = token.feats.get("VerbForm")
    if token.pos in ("VERB", "AUX", "ADJ") and form == "Part":
        return "participle"
    if token.pos == "ADJ" and form is None:
        return "adjective"
    finite = form == "Fin" or (form is None and "Mood" in token.feats)  # some treebanks leave VerbForm=Fin out
    return "verb" if token.pos in ("VERB", "AUX") and finite else None
