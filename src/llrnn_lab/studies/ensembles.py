"""Trained French models as one: mixtures with n-grams and with each other, and one model distilled from the mixture.

    members       folders of `llrnn experiment model`, all over one vocabulary
    n-grams       Kneser-Ney 5-grams of the training text and of the other texts, each a part of the mixture
    student       one of those folders: its model is trained on with the members' mixture as teacher

λ is fitted by EM on the validation text. The tests are scored with what was chosen there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.backgrounds import NGram
from llrnn.model.checkpoint import find_device, load
from llrnn.model.ensembles import background_alone, fitted_shares, log_probs
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn.training.settings import TrainingSettings
from llrnn_lab.studies.tables import markdown, write_results

TEXTS = ("valid", "test1", "test2")
OTHERS = ("other-novels", "other-treebanks", "other-wiki")
ORDER = 5
SETTINGS: dict[str, Any] = {  # of the student, on top of how it was trained
    "learning_rate": 0.0007,
    "weight_decay": 0.05,
    "average": 0.998,
    "patience": 3,
    "batches": {"kind": "sentences", "words": 2048},
    "checkpoint_every": 100_000,
}
LogProbs = dict[str, Tensor]  # by text, (n, N): log p of every target by each of n models


def run(
    members: Sequence[Path],
    data: Path,
    out: Path,
    *,
    student: Path | None = None,
    share: float = 0.9,
    dropout: float | None = None,
    epochs: int = 8,
    ngrams: bool = True,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Score the members, mix them, with and without n-grams, distil, and write `ensembles.json`."""
    place, found = find_device(device), dict[str, Any]()
    models = [load(folder, device=place) for folder in members]
    texts = {name: EncodedText.encode(_text(data, name), models[0].vocabulary) for name in TEXTS}
    log_p = {name: log_probs(models, text) for name, text in texts.items()}
    for n, folder in enumerate(members):
        found[folder.name] = figures({name: part[n : n + 1] for name, part in log_p.items()})
    found["mixture"] = figures(log_p)
    tell(f"{found}")
    if ngrams:
        counted = counted_models(models[0], data)
        own = {name: log_probs(list(counted.values()), text) for name, text in texts.items()}
        for n, name in enumerate(counted):
            found[name] = figures({text: part[n : n + 1] for text, part in own.items()})
        found["mixture with n-grams"] = figures({name: torch.cat([log_p[name], own[name]]) for name in TEXTS})
        tell(f"{found['mixture with n-grams']}")
    if student is not None:
        teachers = [str(folder) for folder in members]
        model = distilled(student, teachers, data, out, place, share, dropout, epochs)
        after = {name: log_probs([model], text) for name, text in texts.items()}
        name = f"{student.name}, distilled"
        found[name] = {**figures(after), "share": share, "dropout": dropout, "epochs": epochs}
        tell(f"{found[name]}")
    write_results(out, "ensembles", found, table(found))
    return found


def figures(log_p: LogProbs) -> dict[str, Any]:
    """Log-perplexities of the mixture with the weights that are best on the validation text."""
    shares = fitted_shares(log_p["valid"])
    log_shares = torch.tensor(shares, dtype=torch.float64).log()[:, None]
    mixed = {name: -float(torch.logsumexp(part.double() + log_shares, 0).mean()) for name, part in log_p.items()}
    return {"weights": shares, **mixed}


def counted_models(like: LLRNN, data: Path) -> dict[str, LLRNN]:
    """n-grams of the training text and of each other text, as models of the same vocabulary."""
    texts = {"train": _text(data, "train")}
    texts |= {name: Corpus.from_file(data / f"{name}.txt", lowercase=True) for name in OTHERS}
    return {
        f"{ORDER}-grams, {name}": background_alone(
            NGram.from_corpus(text, order=ORDER, folds=0, restrict=True), [like]
        ).to(like.device)
        for name, text in texts.items()
    }


def distilled(
    folder: Path,
    teachers: Sequence[str],
    data: Path,
    out: Path,
    device: torch.device,
    share: float,
    dropout: float | None,
    epochs: int,
) -> LLRNN:
    """The model of a folder, trained on towards the mixture of its teachers; the best by validation."""
    model = load(folder, device=device)
    if dropout is not None:
        if not isinstance(getattr(model.controller, "dropout", None), float):
            raise ConfigError(f"{model.controller!r} has no dropout to change; leave --dropout out")
        model.controller.dropout = dropout  # type: ignore[assignment]
    objective = {"kind": "distil", "teacher": list(teachers), "share": share}
    settings = TrainingSettings.model_validate({**SETTINGS, "epochs": epochs, "objective": objective})
    for _ in train(model, _text(data, "train"), valid=_text(data, "valid"), settings=settings, folder=out / "student"):
        pass
    return model


def table(found: dict[str, Any]) -> str:
    rows = [[name, *(f"{one[text]:.3f}" for text in TEXTS)] for name, one in found.items()]
    return markdown(["model", *TEXTS], rows)


def _text(data: Path, name: str) -> Corpus:
    return Corpus.from_file(data / f"{name}.conllu", lowercase=True)
