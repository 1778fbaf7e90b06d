"""Where the bits of an open-vocabulary model go on its validation text: python scripts/bits_by_part.py MODEL DATA

    log p(x | K) = log p(new or listed | K) + log p(listed word or cell | K, new or listed) + log p(x | cell)

MODEL is a folder of `llrnn experiment open-vocabulary`, DATA the folder that it was trained on. Prints as JSON the bits
a word of each part, by how often the training text has the word.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from llrnn.ground.arrays import Floats
from llrnn.inference.evaluation import BANDS
from llrnn.model.checkpoint import load
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, walk
from llrnn.text.corpus import Corpus, EncodedText

PARTS = ("new or listed", "which of these", "letters")
_BATCHING = Sentences(512)


@torch.no_grad()
def bits_of_words(model: LLRNN, corpus: Corpus) -> Iterator[tuple[str | None, Floats]]:
    """Every word, None for ends of sentences, with the bits of its three parts."""
    vocabulary = model.vocabulary
    text = EncodedText.encode(corpus, vocabulary)
    twin = replace(text, conditions=tuple(range(len(corpus))))  # says which sentences a batch holds
    for (batch, distribution), numbered in zip(walk(model, text, _BATCHING), _BATCHING.plan(twin), strict=True):
        log_p, targets = distribution.log_probs().double(), batch.targets[batch.mask]
        new = torch.logsumexp(log_p[:, vocabulary.n_words :], 1)
        side = torch.where(targets >= vocabulary.n_words, new, torch.log1p(-new.exp()))
        own = log_p.gather(1, targets[:, None])[:, 0] - side
        words = [word for i in numbered.conditions or () for word in (*corpus[int(str(i))].words, None)]
        for word, which, inside in zip(words, side.tolist(), own.tolist(), strict=True):
            letters = 0.0 if word is None else vocabulary.log_inside(word)
            yield word, -np.array([which, inside, letters]) / math.log(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    train, valid = (Corpus.from_file(given.data / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    seen, found = train.counts(), dict[str, list[Floats]]()
    for word, bits in bits_of_words(load(given.model).eval(), valid):
        count = 0 if word is None else seen[word]
        band = next(name for low, high, name in BANDS if low <= count and (high is None or count <= high))
        found.setdefault("ends" if word is None else band, []).append(bits)
    rows = {
        band: {"words": len(bits)} | dict(zip(PARTS, np.mean(bits, axis=0).round(3).tolist(), strict=True))
        for band, bits in found.items()
    }
    sys.stdout.write(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
