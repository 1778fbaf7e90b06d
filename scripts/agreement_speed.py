"""Training time with knowledge of agreement against that without: CPU time of the same steps, one after the other.

    python scripts/agreement_speed.py PREPARED        configs/agreement/best.toml; PREPARED/agreement.json.gz is needed

A step is the forward and the backward pass over 2,048 words. The first reading of a text, which later epochs remember,
is timed for itself, and counted once in 20 epochs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.knowledge.process import Batch
from llrnn.training.objectives import Exact

WORDS, BATCHES, ROUNDS, EPOCHS = 2048, 3, 3, 20
CONFIG = Path(__file__).parents[1] / "configs" / "agreement" / "best.toml"


def _batches(project: Project) -> list[Batch]:
    vocabulary, made = project.vocabulary, list[Batch]()
    rows = [vocabulary.locate(one.words)[0].tolist() for one in project.corpora["train"]]
    rows = sorted(rows[:600], key=len)
    for first in range(100, 100 + 150 * BATCHES, 150):
        own = [[vocabulary.eos, *row, vocabulary.eos] for row in rows[first:]]
        while sum(map(len, own)) > WORDS:
            own.pop()
        longest = max(map(len, own))
        x = torch.tensor([row + [vocabulary.eos] * (longest - len(row)) for row in own])
        counts = torch.tensor([[t < len(row) - 1 for t in range(longest - 1)] for row in own])
        made.append(Batch(x[:, :-1], x[:, 1:], counts))
    return made


def main(prepared: str) -> None:
    torch.set_num_threads(1)
    changes = {"without": ["contextual=[]", "contextual_inputs=[]"], "with": []}
    projects = {name: Project.from_config(read_config(CONFIG, own, data=prepared)) for name, own in changes.items()}
    models = {name: project.model().train() for name, project in projects.items()}
    batches, agreement, exact = _batches(projects["with"]), models["with"].contextual[0], Exact()
    words, began = sum(batch.n_positions for batch in batches), process_time()
    for batch in batches:
        agreement.follow([agreement.initial()] * len(batch.inputs), batch)
    first = (process_time() - began) / words
    spent = dict.fromkeys(models, 0.0)
    for name, model in [*models.items()] * ROUNDS:
        for batch in batches:
            began = process_time()
            p, _ = model.scan(batch, generator=torch.Generator().manual_seed(0))
            exact(model, p, batch, None).backward()
            model.zero_grad()
            spent[name] += process_time() - began
    without, given = (spent[name] / words / ROUNDS for name in ("without", "with"))
    whole = (EPOCHS * given + first) / (EPOCHS * without)
    sys.stdout.write(
        f"without {1e6 * without:.0f}, with {1e6 * given:.0f} us a word: {given / without:.2f} times; "
        f"first reading {1e6 * first:.0f} us a word: {whole:.2f} times over {EPOCHS} epochs\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
