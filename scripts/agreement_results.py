"""docs/results/agreement.json from what `llrnn evaluate --json` wrote: agreement as knowledge, with and without.

    python scripts/agreement_results.py french FOLDER       with.seed0.{train,templates,suites,treebanks,tests}.json, …
    python scripts/agreement_results.py french_vectors FOLDER       the same of text-with, text-without: word vectors
    python scripts/agreement_results.py french_other FOLDER         the same of big, five: vectors and other texts
    python scripts/agreement_results.py estonian FOLDER     with-0.{pairs,tests}.json, …, log of training with-0.jsonl
    python scripts/agreement_results.py turkish FOLDER      with.json and without.json, pairs of TurBLiMP
    python scripts/agreement_results.py turkish_subjects FOLDER     the same, subjects and verbs, but every fifth pair;
                                                                    logs of training with.jsonl, without.jsonl

Each language replaces its own part of the file. `configs/agreement` says how the models are trained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "docs" / "results" / "agreement.json"
COMMAND = (
    "scripts/agreement_data.py; llrnn train configs/agreement/NAME.toml and configs/table4/NAME.toml (French, H200; "
    "best, vectors, vectors-other with five epochs of other texts), "
    "configs/agreement/treebank.toml with and without contextual features (Estonian), configs/open/small/llrnn.toml, "
    "one layer of 128 units, 6 epochs, with and without (Turkish; turkish_subjects: dropout 0.3, 8 epochs, learning "
    "rate 0.003, readings of 43,000 words); "
    "llrnn evaluate MODEL --pairs ... --json"
)
BOTH = ("without", "with")


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Of the scores of a file of pairs what tables need, with five digits."""
    kept = {key: found[key] for key in ("overall", "mean_of_groups", "ties", "left_out", "by_group", "by_distance")}
    return json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 5))


def _training(log: Path) -> dict[str, Any]:
    epochs = [one for one in map(json.loads, log.read_text("utf-8").splitlines()) if one["event"] == "epoch"]
    return {
        "epochs": len(epochs),
        "valid": round(min(one["valid"] for one in epochs), 5),
        "words_per_second": round(epochs[-1]["words_per_second"]),
    }


def _tests(found: list[dict[str, Any]]) -> dict[str, float]:
    return {Path(one["text"]).stem: round(one["log_perplexity"], 5) for one in found}


def french(folder: Path, names: Sequence[str] = BOTH) -> dict[str, Any]:
    def run(name: str) -> dict[str, Any]:
        suites = {Path(one["pairs"]).name.split(".")[0]: _short(one) for one in _json(folder / f"{name}.suites.json")}
        return {
            **_training(folder / f"{name}.log.jsonl"),
            "seconds": _json(folder / f"{name}.train.json")["ended"],
            "tests": _tests(_json(folder / f"{name}.tests.json")),
            "templates": [_short(one) for one in _json(folder / f"{name}.templates.json")],
            **suites,
            "treebanks": _short(_json(folder / f"{name}.treebanks.json")[0]),
        }

    return {what: [run(f"{name}.seed{seed}") for seed in range(3)] for what, name in zip(BOTH, names, strict=True)}


def french_vectors(folder: Path) -> dict[str, Any]:
    return french(folder, ("text-without", "text-with"))


def french_other(folder: Path) -> dict[str, Any]:
    return french(folder, ("five", "big"))


def estonian(folder: Path) -> dict[str, Any]:
    def run(name: str) -> dict[str, Any]:
        pairs = _short(_json(folder / f"{name}.pairs.json")[0])
        return {
            **_training(folder / f"{name}.jsonl"),
            "tests": _tests(_json(folder / f"{name}.tests.json")),
            "pairs": pairs,
        }

    return {
        what: [run(f"{what}-{seed}") for seed in range(3) if (folder / f"{what}-{seed}.jsonl").exists()]
        for what in BOTH
    }


def turkish(folder: Path) -> dict[str, Any]:
    return {what: _short(_json(folder / f"{what}.json")[0]) for what in BOTH}


def turkish_subjects(folder: Path) -> dict[str, Any]:
    return {what: _training(folder / f"{what}.jsonl") | _short(_json(folder / f"{what}.json")[0]) for what in BOTH}


def main(language: str, folder: Path) -> None:
    before = _json(FILE) if FILE.exists() else {}
    known = (french, french_vectors, french_other, estonian, turkish, turkish_subjects)
    made = {one.__name__: one for one in known}[language](folder)
    FILE.write_text(json.dumps({**before, "command": COMMAND, language: made}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
