"""Rescoring n-best lists: an n-gram against an LL-RNN with the same n-gram as expert.

The lists come from the error model of `studies.confusions`, with a fixed seed: the validation text to tune
weights on, test1 and test2 to measure. Every row has its own weights, tuned in the same way on the same lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.bundle import has_bundle
from llrnn.inference.nbest import WORDS, NBest, NBestLists, References, errors_of_lists, oracle
from llrnn.inference.rescoring import ModelScorer, Scorer, add_scores, rescore, tune
from llrnn.knowledge.backgrounds import NGram
from llrnn.model.checkpoint import load
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn_lab.studies.confusions import Confusables, confuse
from llrnn_lab.studies.prepare import prepare
from llrnn_lab.studies.tables import markdown, write_results

ROWS: dict[str, tuple[str, ...]] = {
    "acoustic": ("am",),
    "acoustic, 5-gram": ("am", "ngram"),
    "acoustic, LL-RNN": ("am", "llrnn"),
    "acoustic, 5-gram, LL-RNN": ("am", "ngram", "llrnn"),
}
PARTS = ("valid", "test1", "test2")


@dataclass(frozen=True)
class NGramScorer:
    """log p of every hypothesis by an n-gram model: all of them as one text."""

    ngram: NGram
    vocabulary: Vocabulary

    def __call__(self, lists: Sequence[NBest], /) -> list[list[float]]:
        eos = self.vocabulary.eos
        sentences = [self.vocabulary.ids(own.words) for entry in lists for own in entry.hypotheses]
        log_p = self.ngram.score([eos, *(symbol for sentence in sentences for symbol in (*sentence, eos))])[0].numpy()
        begins = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])[:-1]
        sums = iter(np.add.reduceat(log_p, begins).tolist())
        return [[next(sums) for _ in entry.hypotheses] for entry in lists]


def run(
    data: Path,
    out: Path,
    *,
    config: Path,
    n: int = 50,
    sentences: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Prepare, train the model (or go on), make the lists, tune and measure."""
    prepared = out / "data"
    prepare(data, prepared, tell=tell, sentences=sentences)
    model = load(_trained(config, prepared, out, device, seed)).to(torch.device(device))
    texts = {part: Corpus.from_file(prepared / f"{part}.conllu", lowercase=True) for part in PARTS}
    train_text = Corpus.from_file(prepared / "train.conllu", lowercase=True)
    ngram = NGram.from_corpus(train_text, order=5, folds=0).bind(model.vocabulary)
    assert isinstance(ngram, NGram)
    alike = Confusables(dict(zip(model.vocabulary.symbols, model.vocabulary.counts, strict=True)))
    lists: dict[str, tuple[NBestLists, References]] = {}
    for part, text in texts.items():
        made, references = confuse(text, alike, n=n, seed=seed, name=part)
        scorers: dict[str, Scorer] = {"ngram": NGramScorer(ngram, model.vocabulary), "llrnn": ModelScorer(model)}
        lists[part] = add_scores(made, scorers), references
        tell(f"{part}: {len(made.lists)} lists")
    results = {name: _row(names, lists, seed) for name, names in ROWS.items()}
    results["oracle"] = {part: oracle(errors_of_lists(*lists[part])).rate for part in PARTS}
    found = {"n": n, "seed": seed, "sentences": {part: len(text) for part, text in texts.items()}, "rows": results}
    write_results(out, "rescoring", found, table(found))
    return found


def _trained(config: Path, data: Path, out: Path, device: str, seed: int) -> Path:
    folder = out / "model"
    settings = read_config(config, [f"training.seed={seed}"], data=data)
    project = Project.from_config(settings)
    model = project.model().to(torch.device(device))
    resume = has_bundle(folder, "training")
    texts = project.corpora
    for _ in train(
        model,
        texts["train"],
        valid=texts["valid"],
        others=project.others,
        settings=settings.training,
        folder=folder,
        resume=resume,
    ):
        pass
    return folder


def _row(names: tuple[str, ...], lists: dict[str, tuple[NBestLists, References]], seed: int) -> dict[str, Any]:
    """Weights from the validation lists, word error rates on all."""
    kept = {part: (_only(own, names), references) for part, (own, references) in lists.items()}
    weights = tune(*kept["valid"], seed=seed).weights
    rates = {part: rescore(own, {}, weights).errors(references).rate for part, (own, references) in kept.items()}
    scores = {name: weight for name, weight in weights.items() if name != WORDS}
    return {**rates, "weights": scores, "words": weights[WORDS]}


def _only(lists: NBestLists, names: tuple[str, ...]) -> NBestLists:
    """The lists with some of their scores."""
    columns = [lists.names.index(name) for name in names]
    kept = [
        NBest(
            entry.utterance,
            tuple(type(own)(own.words, tuple(own.scores[i] for i in columns)) for own in entry.hypotheses),
        )
        for entry in lists
    ]
    return NBestLists(names, tuple(kept))


def table(found: dict[str, Any]) -> str:
    """Word error rates in per cent."""
    rows = [[name, *(f"{100 * row[part]:.2f}" for part in PARTS)] for name, row in found["rows"].items()]
    return markdown(["scores", *(f"{part}, %" for part in PARTS)], rows)
