"""docs/results/agreement.json from what `scripts/agreement_models.py` and `llrnn evaluate --json` wrote.

    python scripts/agreement_results.py models FOLDER       French, Turkish: MODEL.KIND.seedN.json of agreement_models
    python scripts/agreement_results.py estonian FOLDER     with-0.{pairs,tests}.json, …, log of training with-0.jsonl

Each language replaces its own part of the file. `configs/agreement` says how the models are trained.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "docs" / "results" / "agreement.json"
COMMAND = (
    "scripts/agreement_data.py; french, french_vectors, turkish: scripts/agreement_models.py --device cuda (H200); "
    "french_other: llrnn train configs/agreement/vectors-other.toml and configs/table4/vectors-other.toml, five epochs "
    "of other texts (H200); estonian: configs/agreement/treebank.toml with and without contextual features; "
    "llrnn evaluate MODEL --pairs ... --json"
)
BOTH = ("without", "with")
KINDS = (*BOTH, "templates", "alone")
CALLED = {"best": "french", "vectors": "french_vectors", "turkish": "turkish"}


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def models(folder: Path) -> dict[str, Any]:
    """The runs of each model by kind, in the order of their seeds."""
    return {
        called: {
            kind: runs
            for kind in KINDS
            if (runs := [_run(one) for one in sorted(folder.glob(f"{name}.{kind}.*.json"))])
        }
        for name, called in CALLED.items()
    }


def _run(path: Path) -> dict[str, Any]:
    """Of a run, with the templates of three seeds together."""
    found = _json(path)
    templates = [found.pop(f"templates-{seed}", None) for seed in (101, 102, 103)]
    renamed = {"pairs": "treebanks", "templates-9000": "developed on"}
    own = {renamed.get(name, name): value for name, value in found.items()}
    for scores in (*own.values(), *templates):
        if isinstance(scores, dict) and "by_group" in scores:
            for share in (*scores["by_group"].values(), *scores["by_distance"].values()):
                del share["low"], share["high"]  # of shares of a count anybody has the interval
    return own if templates[0] is None else {**own, "templates": templates}


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


def estonian(folder: Path) -> dict[str, Any]:
    def run(name: str) -> dict[str, Any]:
        pairs = _short(_json(folder / f"{name}.pairs.json")[0])
        return {
            **_training(folder / f"{name}.jsonl"),
            "tests": _tests(_json(folder / f"{name}.tests.json")),
            "pairs": pairs,
        }

    by_kind = {
        what: [run(f"{what}-{seed}") for seed in range(3) if (folder / f"{what}-{seed}.jsonl").exists()]
        for what in BOTH
    }
    return {"estonian": by_kind}


def main(what: str, folder: Path) -> None:
    before = _json(FILE) if FILE.exists() else {}
    made = {"models": models, "estonian": estonian}[what](folder)
    FILE.write_text(json.dumps({**before, "command": COMMAND, **made}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
