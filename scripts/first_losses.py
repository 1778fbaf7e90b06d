"""The first 50 training losses of five models, bit for bit: has a change of the code changed any value?

    python scripts/first_losses.py ../shared/data runs/losses            prepares the texts, records losses.json
    python scripts/first_losses.py ../shared/data runs/losses --same     exit code 1 where a loss is another number

Sums of floats depend on the processor and on torch's version: compare on one machine alone. Texts are cut short, and a
network of 512 units is one of 64, which changes no line of code that runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import torch

from llrnn import train
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn_lab.studies import nlg_data, open_data, prepare

STEPS, SENTENCES = 50, 1_200
SMALL = ("controller.hidden=64", "controller.layers=1")
CONFIGS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # name: configuration, folder of its texts, changes
    "embedded": ("embedded.toml", "none", ()),
    "open": ("turkish-open.toml", "tr", ()),
    "nlg": ("", "nlg", ()),  # what `llrnn init` drafts for its pairs
    "agreement": ("agreement/best.toml", "french", SMALL),
    "experts": ("table4/experts.toml", "french", SMALL),
}


def prepared(data: Path, out: Path) -> None:
    """Write the texts that the configurations read; those that are there are left alone."""
    open_data.prepare(data, out / "tr", "tr", sentences=SENTENCES)
    if not (out / "nlg").exists():
        nlg_data.write_parts(out / "nlg", data / "rnnlg_restaurant")
        texts = [str(out / "nlg" / f"{part}.jsonl") for part in ("train", "valid")]
        command = ["llrnn", "init", texts[0], "--valid", texts[1], "--out", str(out / "nlg" / "drafted.toml")]
        subprocess.run(command, check=True)
    prepare.prepare(data, out / "french", sentences=SENTENCES)
    if not (known := out / "french" / "agreement.json.gz").exists():
        treebank = str(data / "ud_french" / "fr_sequoia-ud-train.conllu")
        subprocess.run(
            ["llrnn", "data", "agreement", "french", "--treebank", treebank, "--out", str(known)], check=True
        )


def losses(config: str, data: Path, changes: tuple[str, ...]) -> list[str]:
    """Mean losses since the epoch began after each of the first steps, as hexadecimal floats."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    path = Path(__file__).parents[1] / "configs" / config if config else data / "drafted.toml"
    project = Project.from_config(read_config(path, changes, data=data))
    settings = project.config.training.changed(log_every=1, epochs=9)
    records = train(project.model(), project.corpora["train"], others=project.others, settings=settings)
    return [one.train.hex() for one in islice((one for one in records if one.event == "step" and one.train), STEPS)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--same", action="store_true", help="compare with what is recorded")
    parser.add_argument("--only", choices=CONFIGS, nargs="*", default=list(CONFIGS))
    asked = parser.parse_args()
    prepared(asked.data, asked.out)
    found = {
        name: losses(config, asked.out / folder, changes)
        for name, (config, folder, changes) in CONFIGS.items()
        if name in asked.only
    }
    file = asked.out / "losses.json"
    recorded = json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
    if not asked.same:
        file.write_text(json.dumps(recorded | found, indent=1) + "\n", encoding="utf8")
        return 0
    others = {name: one for name, one in found.items() if one != recorded[name]}
    for name, one in found.items():
        sys.stdout.write(f"{name}: {len(one)} losses {'changed' if name in others else 'the same bit for bit'}\n")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
