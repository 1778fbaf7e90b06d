"""An open vocabulary with a share of its classes: bits per character of the model as it is, coarsened, and trained so.

    fine        every class that the features tell apart
    weights     the fine model coarsened without more training, by its weights
    text        the same, by its weights and how they vary on 500 sentences of the training text
    trained     trained from the start with few classes, where the fine model's weights say who is alike

The way that is best on the validation text, over all seeds, is tested, and so is `fine`; no test is opened before.

    llrnn experiment open-vocabulary --data ../shared/data --out runs/open --language tr   (first prepares runs/open/tr)
    python scripts/open_classes.py configs/open/small/llrnn.toml --texts ../shared/data --language tr \\
        --data runs/open/tr --seeds 0 1 2 --out runs/open/tr/classes.json --test

The file is written after every model; what it holds already is not done again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from llrnn import LLRNN, Corpus, coarsen, load, train
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.files import write_atomically
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.features import compile_features
from llrnn.layer import coarse
from llrnn.layer.matrix import FeatureMatrix
from llrnn_lab.studies import open_data
from llrnn_lab.studies.open_vocabulary import figures, word_log_probs

WAYS = ("weights", "text", "trained")
_SENTENCES = 500  # that say how weights vary


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    study = Study(given)
    if any(f"{way}.seed{seed}" not in study.found["models"] for way in ("fine", *given.ways) for seed in given.seeds):
        study.prepare()
        for seed in given.seeds:
            study.train(seed)
    if given.test:
        study.test()


class Study:
    """Models in folders beside the file of results, and that file."""

    project: Project
    fine: FeatureMatrix
    few: int

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.device = given, torch.device(given.device)
        parts = (given.data / f"{part}.conllu" for part in ("train", "valid"))
        text, self.valid = (Corpus.from_file(path, lowercase=True) for path in parts)
        self.seen = text.counts()
        self.found: dict[str, Any] = json.loads(given.out.read_bytes()) if given.out.exists() else {"models": {}}

    def prepare(self) -> None:
        """The parts of the configuration, and its features compiled once for all models."""
        given = self.given
        self.project = project = Project.from_config(read_config(given.config, given.changes, data=given.data))
        self.fine = compile_features(project.output_features, project.vocabulary)
        self.few = self.fine.n_classes // given.share
        vocabulary, own = project.vocabulary, project.config.controller
        self.found = {
            "command": shlex.join(["python", *sys.argv]),
            "language": given.language,
            "body": f"{own.layers} x {own.hidden}",
            "words": vocabulary.n_words,
            "cells": len(vocabulary) - vocabulary.n_words,
            "classes": self.fine.n_classes,
            "coarsened": self.few,
            "models": self.found["models"],
        }

    def train(self, seed: int) -> None:
        """The fine model of a seed and what is made of it; validated."""
        fine = self.model("fine", seed, lambda: self.trained(seed, self.fine))
        text = self.project.corpora["train"][:_SENTENCES]
        made: dict[str, Callable[[], tuple[LLRNN, dict[str, Any]]]] = {
            "weights": lambda: (coarsen(fine, self.few), {}),
            "text": lambda: (coarsen(fine, self.few, text=text), {}),
            "trained": lambda: self.trained(seed, self.merged(fine)),
        }
        for way in self.given.ways:
            self.model(way, seed, made[way])

    def merged(self, fine: LLRNN) -> FeatureMatrix:
        mass = symbol_mass(self.project.background, self.project.vocabulary)
        scale = fine.layer.weight.detach().double().cpu().numpy()
        tree = coarse.merges(self.fine, mass, scale=scale, alone=self.project.vocabulary.tails)
        return coarse.merged(self.fine, mass, tree.new_classes(self.few))

    def trained(self, seed: int, phi: FeatureMatrix) -> tuple[LLRNN, dict[str, Any]]:
        project = self.project
        settings = project.config.training.changed(seed=seed)
        config = project.config.model_copy(update={"training": settings})
        model = replace(project, config=config, output_features=phi, input_features=self.fine).model().to(self.device)
        started, corpora = time.process_time(), project.corpora
        *_, last = train(model, corpora["train"], valid=corpora["valid"], others=project.others, settings=settings)
        return model, {"epochs": last.epoch, "seconds": time.process_time() - started}

    def model(self, way: str, seed: int, make: Callable[[], tuple[LLRNN, dict[str, Any]]] | None = None) -> LLRNN:
        """Loaded, where it is there; else made, validated and kept."""
        name = f"{way}.seed{seed}"
        folder = self.given.out.parent / f"{self.given.out.stem}-models" / name
        if make is None or name in self.found["models"]:
            return load(folder).to(self.device)
        model, told = make()
        valid = self.bits(model, self.valid)
        model.save(folder)
        self.found["models"][name] = {"classes": model.output_features.n_classes, **told, "valid": valid}
        self.write()
        sys.stderr.write(f"{name}: {valid['bits_per_character']:.4f} bits per character\n")
        return model

    def bits(self, model: LLRNN, corpus: Corpus) -> dict[str, Any]:
        return figures(word_log_probs(model.eval(), corpus), corpus, self.seen)

    def test(self) -> None:
        """The fine model and the way that validation chooses, of every seed; once."""
        models: Mapping[str, Any] = self.found["models"]
        valid = {
            way: mean(models[f"{way}.seed{seed}"]["valid"]["bits_per_character"] for seed in self.given.seeds)
            for way in self.given.ways
        }
        self.found["chosen"] = min(valid, key=lambda way: valid[way])
        texts = open_data.test_corpora(self.given.texts, self.given.language)
        for seed in self.given.seeds:
            for way in ("fine", self.found["chosen"]):
                model = self.model(way, seed)
                tests = {name: self.bits(model, corpus) for name, corpus in texts.items()}
                self.found["models"][f"{way}.seed{seed}"]["tests"] = tests
        self.write()

    def write(self) -> None:
        write_atomically(self.given.out, json.dumps(self.found, ensure_ascii=False, indent=1).encode())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the prepared folder of the language")
    parser.add_argument("--texts", type=Path, required=True, help="where the treebanks are: the tests are read there")
    parser.add_argument("--language", choices=list(open_data.LANGUAGES), required=True)
    parser.add_argument("--out", type=Path, required=True, help="the file of results; models go beside it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--share", type=int, default=3, help="how many times fewer classes")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--test", action="store_true", help="choose, and open the tests")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
