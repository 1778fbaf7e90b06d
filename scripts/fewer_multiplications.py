"""What it costs to make the sum Z of a trained model cheaper: fewer classes, or condensed features of rare words.

    python scripts/fewer_multiplications.py MODEL --config configs/table4/vectors-other.toml --data PREPARED \\
        --classes 7000 3500 --fewer 6 12 --rate 0.0003 --device cuda --test

`--classes`: `llrnn.coarsen`; `--fewer`: `llrnn.condense`, so many times fewer multiplications than a softmax; both by
the weights and the validation text. With `--rate` each is trained on for at most eight epochs, too; `--test` opens the
tests. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import llrnn
from llrnn.config import read_config
from llrnn.inference.coarsening import coarsen
from llrnn.inference.condensing import condense
from llrnn.inference.evaluation import evaluate
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.training.loop import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--config", type=Path, required=True, help="How it was trained.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--classes", type=int, nargs="*", default=[])
    parser.add_argument("--fewer", type=float, nargs="*", default=[])
    parser.add_argument("--rate", type=float, help="Train the cheaper models on, with this learning rate.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--test", action="store_true", help="Open the tests, too.")
    given = parser.parse_args()
    model = llrnn.load(given.model).to(torch.device(given.device))
    names = ("valid", "test1", "test2") if given.test else ("valid",)
    texts = {name: _read(given.data, name) for name in names}
    found: dict[str, Any] = {"fine": _figures(model, texts), "classes": {}, "fewer": {}}
    for classes in given.classes:
        made = coarsen(model, classes, text=texts["valid"])
        found["classes"][classes] = _with_training(made, texts, given)
    for fewer in given.fewer:
        made = condense(model, fewer, text=texts["valid"])
        told = {name: made.provenance["condensed"][name] for name in ("fewer", "alone", "bands")}
        found["fewer"][fewer] = told | _with_training(made, texts, given)
    print(json.dumps(found, indent=1))  # noqa: T201


def _with_training(made: LLRNN, texts: dict[str, Corpus], given: argparse.Namespace) -> dict[str, Any]:
    """What it loses as it is, and after some epochs of the corpus, where a rate is given."""
    found: dict[str, Any] = {"as it is": _figures(made, texts)}
    if given.rate is not None:
        changes = [f"training.seed={given.seed}", f"training.learning_rate={given.rate}", "corpus.other=[]"]
        settings = read_config(given.config, changes, data=given.data).training
        records = train(made, _read(given.data, "train"), valid=texts["valid"], settings=settings, epochs=8, patience=2)
        found["epochs"] = [record.valid for record in records if record.valid is not None]
        found["trained on"] = _figures(made, texts)
    return found


def _read(data: Path, name: str) -> Corpus:
    return Corpus.from_file(data / f"{name}.conllu", lowercase=True)


def _figures(model: LLRNN, texts: dict[str, Corpus]) -> dict[str, float]:
    return {name: evaluate(model, text).log_perplexity for name, text in texts.items()}


if __name__ == "__main__":
    main()
