"""What fewer classes cost, in small: a network of 128 units on 60,000 words, with all features and all words.

One model is trained with the features as they are. It is then coarsened without more training, by three measures of
who is alike; and models with fewer classes are trained from the start, by the features alone and by its weights.

    python scripts/coarse_trial.py --data runs/table4/prepared configs/table4/vectors-other.toml > trial.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from llrnn import LLRNN, Corpus, coarsen, train
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.inference.coarsening import with_classes
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.layer import coarse
from llrnn.model.scoring import score
from llrnn.text.corpus import EncodedText

SMALL = (
    "controller={kind='lstm', hidden=128, layers=1, dropout=0.3}",
    "training={batches={kind='sentences', words=1024}, optimizer='adamw', learning_rate=0.004, weight_decay=0.02, "
    "average=0.99, epochs=4}",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--data", required=True)
    parser.add_argument("--words", type=int, default=60_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[7000, 3500, 2000])
    parser.add_argument("--sentences", type=int, help="of the validation text; all by default")
    given = parser.parse_args()
    torch.set_num_threads(1)
    fine, found = trained(given), {"trained, then coarsened": dict[str, Any](), "trained": dict[str, Any]()}
    found["trained"]["as they are"] = fine[1]
    project, model = project_of(given), fine[0]
    valid = project.corpora["valid"][: given.sentences]
    plain = coarse.merges(model.output_features, symbol_mass(model.background, model.vocabulary))
    text = EncodedText.encode(valid, model.vocabulary)
    for classes in given.classes:
        made = {
            "features": with_classes(model, plain, classes),
            "weights": coarsen(model, classes),
            "weights and text": coarsen(model, classes, text=valid),
        }
        found["trained, then coarsened"][classes] = {how: score(one, text).log_perplexity for how, one in made.items()}
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        for classes in given.classes:
            set_classes = f"features.coarsen.classes={classes}"
            found["trained"][classes] = {
                "features": trained(given, set_classes)[1],
                "weights": trained(given, set_classes, f"features.coarsen.like={folder}")[1],
            }
    json.dump(found, sys.stdout, indent=1)


def project_of(given: argparse.Namespace, *changes: str) -> Project:
    config = read_config(Path(given.config), [*SMALL, "corpus.other=[]", *changes], data=given.data)
    return Project.from_config(config)


def trained(given: argparse.Namespace, *changes: str) -> tuple[LLRNN, dict[str, Any]]:
    """A model, and after each epoch what validation says; seconds of the processor, validation among them."""
    project = project_of(given, *changes)
    model, begun, valid = project.model(), time.process_time(), project.corpora["valid"][: given.sentences]
    text = first_words(project.corpora["train"], given.words)
    records = list(train(model, text, valid=valid, settings=project.config.training))
    told = [record.valid for record in records if record.valid is not None]
    return model, {"valid": told, "seconds": time.process_time() - begun}


def first_words(corpus: Corpus, words: int) -> Corpus:
    count = 0
    for n, sentence in enumerate(corpus, 1):
        count += len(sentence.words) + 1
        if count >= words:
            return corpus[:n]
    return corpus


if __name__ == "__main__":
    main()
