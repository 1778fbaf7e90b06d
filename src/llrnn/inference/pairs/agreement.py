"""Minimal pairs of agreement from a treebank: one word takes the form that its subject or noun does not allow.

    les maisons que je vois sont grandes .      les maisons que je vois est grandes .        verb-number, 4, 1

A pair is made only where the tree says that the two words agree (`trees`), where annotated text says that such words
do agree (`evidence`), and where nothing else in the sentence makes the wrong form right (`forms`, `Tree.rivals`). It is
better to lose a pair than to ask a model for a mistake that is none. No language is written into this.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from random import Random

from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs.evidence import Evidence, features_of
from llrnn.inference.pairs.forms import Forms, agree
from llrnn.inference.pairs.pair import Pair
from llrnn.inference.pairs.trees import Agreement, Tree
from llrnn.text.corpus.types import Sentence, Token


def make_pairs(
    corpus: Iterable[Sentence],
    *,
    lexicon_corpus: Iterable[Sentence] | None = None,
    vocabulary: Container[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> list[Pair]:
    """All pairs that the sentences of an annotated corpus give, in its order, or `limit` of them drawn by `seed`.

    Forms and the habits of agreement come from the corpus itself, and from `lexicon_corpus` where one is given. With a
    `vocabulary`, every word of both sentences is listed in it. Words with whitespace in them (`10 000`) cannot be
    written to a file of pairs: their sentences are left out.
    """
    sentences = list(corpus)
    if not any(token.head is not None for sentence in sentences for token in sentence.tokens):
        raise CorpusError("pairs are made from dependency trees, found no HEAD in the corpus; give a full treebank")
    known = [sentences] if lexicon_corpus is None else [sentences, list(lexicon_corpus)]
    maker = _Maker(Forms(known), Evidence(known))
    usable = (s for s in sentences if all(_is_usable(token.form, vocabulary) for token in s.tokens))
    pairs = {(p.good, p.bad): p for s in usable for p in maker.pairs(s) if _is_usable(p.bad[p.place], vocabulary)}
    made = list(pairs.values())
    if limit is None or limit >= len(made):
        return made
    return [made[index] for index in sorted(Random(seed).sample(range(len(made)), limit))]


def _is_usable(word: str, vocabulary: Container[str] | None) -> bool:
    return word.split() == [word] and (vocabulary is None or word in vocabulary)


class _Maker:
    """Makes the pairs of one sentence after another."""

    def __init__(self, forms: Forms, evidence: Evidence) -> None:
        self.forms, self.evidence = forms, evidence

    def pairs(self, sentence: Sentence) -> Iterator[Pair]:
        tree = Tree(sentence)
        for agreement in tree.agreements():
            for feature in features_of(agreement):
                wrong = self.wrong_form(tree, agreement, feature)
                if wrong is not None:
                    yield _pair(sentence, tree, agreement, feature, wrong)

    def wrong_form(self, tree: Tree, agreement: Agreement, feature: str) -> str | None:
        """The form that the word must not have here, if it is sure that there is one."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        if not self.really_agrees(tree, agreement, feature):
            return None
        swap = self.forms.swapped(target, feature, self.evidence.other_values(agreement, controller, feature))
        if swap is None or self.forms.could_be(swap[0], feature, target):
            return None
        bad, value = swap
        wrong = {**target.feats, feature: value}
        if any(_suits(tree, rival, wrong, feature) for rival in tree.rivals(agreement)):
            return None
        before, after = _neighbour(tree, agreement.target - 1), _neighbour(tree, agreement.target + 1)
        return bad if self.forms.fits(before, target.form, bad, after) else None

    def really_agrees(self, tree: Tree, agreement: Agreement, feature: str) -> bool:
        """Both words have the value, no other feature contradicts, and a reader can see which value it is."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        value = controller.feats.get(feature)
        if value is None or "," in value or target.feats.get(feature) != value:
            return False
        if not agree(target.feats, controller.feats):
            return False
        marks = [tree.tokens[i] for i in tree.having(agreement.controller, "det", "amod") if i != agreement.target]
        return self.forms.shows(controller, feature) or any(
            mark.feats.get(feature) == value and self.forms.shows(mark, feature) for mark in marks
        )


def _pair(sentence: Sentence, tree: Tree, agreement: Agreement, feature: str, wrong: str) -> Pair:
    target, controller = agreement.target, agreement.controller
    value = tree.tokens[controller].feats[feature]
    between = range(min(target, controller) + 1, max(target, controller))
    distractors = sum(tree.is_nominal(i) and tree.tokens[i].feats.get(feature, value) != value for i in between)
    good = sentence.words
    bad = (*good[:target], wrong, *good[target + 1 :])
    return Pair(good, bad, f"{agreement.kind}-{feature.lower()}", len(between) + 1, distractors, target)


def _suits(tree: Tree, rival: int, wrong: dict[str, str], feature: str) -> bool:
    """Whether the wrong form would agree with a rival; what coordination makes of number and gender is left open."""
    known = {} if tree.is_coordinated(rival) else tree.tokens[rival].feats
    return agree(known, wrong) and known.get(feature, wrong[feature]) == wrong[feature]


def _neighbour(tree: Tree, index: int) -> Token | None:
    return tree.tokens[index] if 0 <= index < len(tree.tokens) else None
