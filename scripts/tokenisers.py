"""The laws of tokenisers in seven languages, on test sentences: docs/results/tokenisers.json.

python scripts/tokenisers.py shared/data --out docs/results/tokenisers.json [--dev]

`learnt` is fitted on the training part (Irish, Finnish: the validation part) with its words, `unicode` on its texts
alone, `signs` is a plain split at blanks and punctuation. With --dev, the validation part is looked at instead, and
for Irish and Finnish every fifth sentence of it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from llrnn.model.testing import check_tokeniser
from llrnn.text.readers import read_conllu
from llrnn.text.tokenisers import Learnt, Tokeniser, Unicode, found

Pairs = list[tuple[str, tuple[str, ...]]]
FRENCH = ("sequoia", "partut", "rhapsodie", "parisstories", "alts")  # speech is only trained on
LANGUAGES = {
    "French": [f"ud_french/fr_{name}" for name in FRENCH],
    "Turkish": ["ud_turkish/tr_imst"],
    "Estonian": ["ud_estonian/et_ewt"],
    "Welsh": ["ud_welsh/cy_ccg"],
    "Maltese": ["ud_maltese/mt_mudt"],
    "Irish": ["ud_irish/ga_idt"],
    "Finnish": ["ud_finnish/fi_tdt"],
}


class Signs(Tokeniser):
    """A plain split at blanks and punctuation."""

    def tokenise(self, text: str) -> Sequence[str]:
        return found(text, re.findall(r"\w+|[^\w\s]", text))


def read(folder: Path, treebanks: Sequence[str], part: str) -> Pairs:
    paths = [path for name in treebanks for path in sorted(folder.glob(f"{name}-ud-{part}.conllu*"))]
    return [(one.text, one.words) for path in paths for one in read_conllu(path, surface=True)]


def parts(folder: Path, language: str, dev: bool) -> tuple[Pairs, Pairs]:
    treebanks = LANGUAGES[language]
    held_out = [name for name in treebanks if not name.endswith(("rhapsodie", "parisstories"))]
    train = read(folder, treebanks, "train")
    if train:
        return train, read(folder, held_out, "dev" if dev else "test")
    small = read(folder, treebanks, "dev")
    fifth = [one for n, one in enumerate(small) if n % 5], small[::5]
    return fifth if dev else (small, read(folder, treebanks, "test"))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--dev", action="store_true")
    given, results = asked.parse_args(), {}
    for language in LANGUAGES:
        train, test = parts(given.folder, language, given.dev)
        made = {"learnt": Learnt.fit(train), "unicode": Unicode.fit(text for text, _ in train), "signs": Signs()}
        laws = {name: check_tokeniser(one, test, least=0.0)._asdict() for name, one in made.items()}
        weights = len(made["learnt"].settings()["cuts"]), len(made["learnt"].settings()["gaps"])
        results[language] = {"train": len(train), "test": len(test), "weights": weights, **laws}
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
