"""What domains cost: a model with an open vocabulary against the same model without the cells.

python scripts/time_domains.py configs/open/llrnn.toml --data runs/open/fr

Same listed words, same features on them, same background but for the cells, same text. Training steps and scoring are
timed in turn, and the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import typer

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.knowledge.backgrounds import Static
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, score
from llrnn.model.words import of_symbols
from llrnn.text.corpus import Corpus, EncodedText
from llrnn.text.vocabulary import Vocabulary


def without_cells(model: LLRNN, project: Project) -> LLRNN:
    """The same words, features and background, and nothing else."""
    words = np.arange(len(model.vocabulary.words))
    log_b = model.background.prior([]).dense(1).log_b[0][: len(words)]
    return LLRNN(
        Vocabulary(model.vocabulary.words),
        output_features=of_symbols(model.output_features, words),
        background=Static(log_b),
        controller=project.config.controller.make(),
        tied=project.config.tied,
    )


def step(model: LLRNN, text: EncodedText, words: int) -> Callable[[], object]:
    """One training step."""
    batch = Sentences(words).plan(text, seed=0)[0]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def work() -> None:
        optimizer.zero_grad()
        (-model.log_prob(batch).mean()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return work


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Print classes and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--data", default="data")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--words", type=int, default=1024)
    given = parser.parse_args()
    project = Project.from_config(read_config(given.config, data=given.data))
    open_one = project.model()
    closed = without_cells(open_one, project)
    sentences = [s for s in project.corpora["train"] if all(word in closed.vocabulary for word in s.words)][:300]
    corpus = Corpus.from_sentences(sentences)
    counts = [model.output_features.n_classes for model in (open_one, closed)]
    typer.echo(
        f"{len(open_one.vocabulary) - len(closed.vocabulary):,} cells; {counts[0]:,} classes, {counts[1]:,} without"
    )
    texts = [EncodedText.encode(corpus, model.vocabulary) for model in (open_one, closed)]
    for name, work in {
        "training step": [step(m, t, given.words) for m, t in zip((open_one, closed), texts, strict=True)],
        "scoring": [lambda m=m, t=t: score(m, t) for m, t in zip((open_one, closed), texts, strict=True)],
    }.items():
        for one in work:
            one()
        ratios = [seconds(work[0]) / seconds(work[1]) for _ in range(given.rounds)]
        typer.echo(f"{name}: {statistics.median(ratios):.2f} times the time ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
