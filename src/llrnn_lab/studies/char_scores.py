"""How well sentences that were written character by character say a dialog act.

    non-word    a token of the output, between blanks, that is neither a word of the training targets nor of a value of
                its act; the share is of all tokens of all outputs
    the rest    slot errors and BLEU as for sentences that were written word by word (`nlg_scores`)

A name is no non-word because it stands in the training text, whether the act has it or not: slot errors count those.
An output that was cut off, for its length, is scored as it is, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from llrnn.text.conditions import words_of
from llrnn.text.corpus import Corpus
from llrnn_lab.studies import nlg_scores
from llrnn_lab.studies.nlg_scores import Inventory


def non_words(act: object, words: Sequence[str], known: Collection[str]) -> list[str]:
    """The tokens of a sentence that are no words."""
    own = set(words_of(act))
    return [word for word in words if word not in known and word not in own]


def scores(
    text: Corpus, outputs: Sequence[Sequence[str]], inventory: Inventory, known: Collection[str]
) -> dict[str, Any]:
    """How good what was written from the acts of a text is; text and outputs are in words."""
    found = [non_words(one.condition, words, known) for one, words in zip(text, outputs, strict=True)]
    written, strange = sum(map(len, outputs)), sum(map(len, found))
    return {
        **nlg_scores.scores(text, outputs, inventory),
        "words": written,
        "non_words": strange,
        "non_word_share": strange / max(1, written),  # a model may write nothing at all
        "examples": sorted({word for one in found for word in one})[:10],
    }
