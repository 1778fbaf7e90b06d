"""Rescoring n-best lists: a model chooses among what a recogniser thought possible.

lists = read_nbest("nbest.tsv")                                     or read_kaldi("nbest.txt", ["ac.txt", "lm.txt"])
scored = add_scores(lists, {"llrnn": ModelScorer(model)})           each distinct prefix is scored once
weights = tune(scored_dev, read_references("dev.txt")).weights      fewest word errors on a development set
result = rescore(lists, {"llrnn": ModelScorer(model)}, weights)     result.best["utt7"], result.lists
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from llrnn.inference.rescoring.confusions import Channel, Confusables, confuse
from llrnn.inference.rescoring.nbest import (
    Errors,
    Hypothesis,
    NBest,
    NBestLists,
    References,
    Words,
    errors_of,
    errors_of_lists,
    oracle,
    read_kaldi,
    read_nbest,
    read_references,
    write_nbest,
)
from llrnn.inference.rescoring.scoring import ModelScorer, Scorer, SharedScores, Tuned, Weights, score_lists, tune

__all__ = [
    "Channel",
    "Confusables",
    "Errors",
    "Hypothesis",
    "ModelScorer",
    "NBest",
    "NBestLists",
    "References",
    "Rescored",
    "Scorer",
    "SharedScores",
    "Tuned",
    "Weights",
    "add_scores",
    "confuse",
    "errors_of",
    "errors_of_lists",
    "oracle",
    "read_kaldi",
    "read_nbest",
    "read_references",
    "rescore",
    "score_lists",
    "tune",
    "write_nbest",
]


@dataclass(frozen=True)
class Rescored:
    """Lists with the new scores, the hypothesis of the highest total first."""

    lists: NBestLists
    weights: Weights

    @property
    def best(self) -> dict[str, Words]:
        """The chosen hypothesis of each utterance."""
        return {entry.utterance: entry.hypotheses[0].words for entry in self.lists}

    def errors(self, references: References) -> Errors:
        """The word errors of what was chosen."""
        chosen = [NBest(entry.utterance, entry.hypotheses[:1]) for entry in self.lists]
        return sum((own[0] for own in errors_of_lists(chosen, references)), Errors())


def add_scores(lists: NBestLists, scorers: Mapping[str, Scorer]) -> NBestLists:
    """The lists with a score of each scorer, under its name."""
    for name, scorer in scorers.items():
        lists = lists.with_scores(name, scorer(lists.lists))
    return lists


def rescore(lists: NBestLists, scorers: Mapping[str, Scorer], weights: Weights | None = None) -> Rescored:
    """Score, combine and rank anew; every score has weight 1 unless weights are given."""
    scored = add_scores(lists, scorers)
    weights = (weights or Weights.equal(scored.names)).for_scores(scored.names)
    return Rescored(NBestLists(scored.names, tuple(_ranked(entry, weights) for entry in scored)), weights)


def _ranked(entry: NBest, weights: Weights) -> NBest:
    order = np.argsort(-weights.totals(entry), kind="stable")
    return NBest(entry.utterance, tuple(entry.hypotheses[index] for index in order))
