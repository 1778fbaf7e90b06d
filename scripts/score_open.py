"""Bits per character of single models, as `llrnn experiment open-vocabulary` counts them: other seeds, ablations.

llrnn experiment model configs/open/ablations/no-lists.toml --name no-lists --data runs/open/fr --out runs/more
python scripts/score_open.py ../shared/data fr runs/open/fr runs/more/no-lists.seed0

Prints a JSON object. Models of characters are told by `--units characters`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import typer

from llrnn.text import units
from llrnn.text.corpus import Corpus
from llrnn_lab.studies import open_data
from llrnn_lab.studies.open_vocabulary import evaluate_folder


def main() -> None:
    """Score every folder on the validation text and the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("language", choices=list(open_data.LANGUAGES))
    parser.add_argument("prepared", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--units", help="characters, bpe-4000, ...: the units that the models were trained on")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    cut = units.load(given.prepared / given.units / "units.json") if given.units else None
    train, valid = (Corpus.from_file(given.prepared / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    texts = {"valid": valid, **open_data.test_corpora(given.data, given.language)}
    found = {
        folder.name: evaluate_folder(folder, texts, train.counts(), cut=cut, device=given.device)
        for folder in given.folders
    }
    typer.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
