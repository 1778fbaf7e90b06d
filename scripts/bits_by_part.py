"""Where the bits of an open-vocabulary model go on its validation text: python scripts/bits_by_part.py MODEL DATA

    log p(x | K) = log p(new or listed | K) + log p(listed word or cell | K, new or listed) + log p(x | K, cell)

MODEL is a folder of `llrnn experiment open-vocabulary`, DATA the folder that it was trained on. Prints as JSON the bits
a word of each part, by how often the training text has the word; unseen words that the validation text has had before
stand apart. Where words come again (`background.recent`), a string has its own probability within its cell.
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
from llrnn.model.words import as_read
from llrnn.text.corpus import Corpus, EncodedText

PARTS = ("new or listed", "which of these", "letters")
_BATCHING = Sentences(256)
_AGAIN = "unseen, again"


@torch.no_grad()
def bits_of_words(model: LLRNN, corpus: Corpus) -> Iterator[tuple[tuple[int, int], str | None, Floats]]:
    """Every word, None for ends of sentences, with its sentence and place and the bits of its three parts."""
    listed = model.vocabulary.n_words
    ready, read = as_read(model, corpus)
    vocabulary = ready.vocabulary
    place = places(model, ready)
    text = EncodedText.encode(read, vocabulary)
    twin = replace(text, conditions=tuple(range(len(corpus))))  # says which sentences a batch holds
    for (batch, distribution), numbered in zip(walk(ready, text, _BATCHING), _BATCHING.plan(twin), strict=True):
        p, targets = distribution.log_probs().double().exp(), batch.targets[batch.mask]
        own = p.gather(1, targets[:, None])[:, 0]
        grouped = p.new_zeros(len(p), int(place.max()) + 1).index_add_(1, place, p)  # (N, words and cells)
        new = grouped[:, listed:].sum(1)
        side = torch.where(place[targets] >= listed, new, 1 - new)
        group = grouped.gather(1, place[targets][:, None])[:, 0]
        numbers = [int(str(i)) for i in numbered.conditions or ()]
        words = [((i, t), word) for i in numbers for t, word in enumerate((*corpus[i].words, None))]
        parts = torch.stack([side, group / side, own / group], 1).log2().neg()
        for (where, word), bits in zip(words, parts.numpy(), strict=True):
            inside = 0.0 if word is None else -vocabulary.log_inside(word) / math.log(2)
            yield where, word, bits + np.array([0.0, 0.0, inside])


def again(corpus: Corpus) -> set[tuple[int, int]]:
    """The places of words that the text has had before."""
    seen, found = set[str](), set[tuple[int, int]]()
    for i, sentence in enumerate(corpus):
        found |= {(i, t) for t, word in enumerate(sentence.words) if word in seen or word in sentence.words[:t]}
        seen.update(sentence.words)
    return found


def places(model: LLRNN, ready: LLRNN) -> torch.Tensor:
    """Of each symbol of a model that has read a text: its number in the model, the cell for what was not listed."""
    cells = np.arange(model.vocabulary.n_words, len(model.vocabulary))
    return torch.from_numpy(np.concatenate([model.vocabulary.locate(ready.vocabulary.words)[0], cells]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    train, valid = (Corpus.from_file(given.data / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    seen, found, had = train.counts(), dict[str, list[Floats]](), again(valid)
    for where, word, bits in bits_of_words(load(given.model).eval(), valid):
        count = 0 if word is None else seen[word]
        band = next(name for low, high, name in BANDS if low <= count and (high is None or count <= high))
        band = "ends" if word is None else _AGAIN if count == 0 and where in had else band
        found.setdefault(band, []).append(bits)
    rows = {
        band: {"words": len(bits)} | dict(zip(PARTS, np.mean(bits, axis=0).round(3).tolist(), strict=True))
        for band, bits in found.items()
    }
    sys.stdout.write(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
