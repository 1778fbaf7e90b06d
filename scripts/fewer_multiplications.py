"""What it costs to make the sum Z of a trained model cheaper: fewer classes, or an adaptor of low rank for rare words.

    python scripts/fewer_multiplications.py MODEL --config configs/table4/vectors-other.toml --data PREPARED \\
        --classes 7000 3500 --rate 0.0003 --device cuda --test

Classes: `llrnn.coarsen` by the weights and the validation text; with `--rate` trained on for at most eight epochs, too.

Bands of classes, from the most probable on, each with the rank r of its adaptor: for those classes a·φ is

    a(h)·φ(x) = (W h)·φ(x)   ->   (U P h)·φ(x)          P (r, H), U P the best of rank r for E[Σ_x p(x) (a·φ(x))²]

so that a band of n classes costs r (n + H) multiplications a position instead of n H. Only measured, on the validation
text and without any more training: the layer has no bands. One JSON object on stdout.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import llrnn
from llrnn.config import read_config
from llrnn.inference.coarsening import coarsen
from llrnn.inference.evaluation import evaluate
from llrnn.model.network import LLRNN
from llrnn.model.scoring import walk
from llrnn.text.corpus import Corpus, EncodedText
from llrnn.training.loop import train

BANDS: tuple[tuple[tuple[int | None, int | None], ...], ...] = (
    # (how many classes; None: the rest), (rank; None: the full one)
    ((None, 120),),
    ((None, 60),),
    ((3000, None), (None, 64)),
    ((1000, None), (None, 100)),
    ((500, None), (None, 50)),
    ((1000, None), (6000, 192), (None, 64)),
    ((1000, 512), (9000, 192), (None, 64)),
    ((500, None), (4000, 128), (None, 40)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--config", type=Path, required=True, help="How it was trained.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--classes", type=int, nargs="*", default=[])
    parser.add_argument("--rate", type=float, help="Train the coarsened models on, with this learning rate.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--test", action="store_true", help="Open the tests, too.")
    given = parser.parse_args()
    model = llrnn.load(given.model).to(torch.device(given.device))
    names = ("valid", "test1", "test2") if given.test else ("valid",)
    texts = {name: _read(given.data, name) for name in names}
    found: dict[str, Any] = {"fine": _figures(model, texts), "classes": {}}
    for classes in given.classes:
        made = coarsen(model, classes, text=texts["valid"])
        one = {"coarsened": _figures(made, texts)}
        if given.rate is not None:
            changes = [f"training.seed={given.seed}", f"training.learning_rate={given.rate}", "corpus.other=[]"]
            settings = read_config(given.config, changes, data=given.data).training
            corpus = _read(given.data, "train")
            for _ in train(made, corpus, valid=texts["valid"], settings=settings, epochs=8, patience=2):
                pass
            one["trained on"] = _figures(made, texts)
        found["classes"][classes] = one
    found["bands"] = list(_bands(model, texts["valid"], _read(given.data, "train")[:4000]))
    print(json.dumps(found, indent=1))  # noqa: T201


def _read(data: Path, name: str) -> Corpus:
    return Corpus.from_file(data / f"{name}.conllu", lowercase=True)


def _figures(model: LLRNN, texts: dict[str, Corpus]) -> dict[str, float]:
    return {name: evaluate(model, text).log_perplexity for name, text in texts.items()}


class States(NamedTuple):
    """What the network is at each position of a text, the class of the next word, and log B of the classes."""

    h: Tensor
    klass: Tensor
    log_mass: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: LLRNN, text: Corpus) -> States:
        """For a background without context: one mass for all positions."""
        class_of = torch.as_tensor(model.output_features.class_of, device=model.device)
        states, classes = [], []
        for batch, p in walk(model, EncodedText.encode(text, model.vocabulary)):
            states.append(p.given.h.double())
            classes.append(class_of[batch.picked(batch.targets)])
            mass, exceptions = p.log_mass
            if len(mass) != 1 or exceptions is not None:
                raise SystemExit("bands are measured for a background without context, and no contextual features")
        return cls(torch.cat(states), torch.cat(classes), mass[0].double())


@torch.no_grad()
def _bands(model: LLRNN, valid: Corpus, sample: Corpus) -> Iterator[dict[str, Any]]:
    held_out, seen = States.of(model, valid), States.of(model, sample)
    weight, bias = (part.double() for part in model.layer.composed())
    bias = bias + seen.log_mass
    mean = seen.h.mean(0)
    centred = seen.h - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    root = vectors * values.clamp_min(0).sqrt()  # Cov(h) = root rootᵀ
    inverse = (vectors / values.clamp_min(float(values.max()) * 1e-8).sqrt()).T
    share = torch.stack([torch.softmax(h @ weight.T + bias, 1).sum(0) for h in seen.h.split(512)]).sum(0)
    order = torch.argsort(share, descending=True)
    fine = _loss(held_out, weight, bias)
    dense = model.output_features.n_symbols * weight.shape[1]
    for bands in BANDS:
        lower, offset, cost, at = weight.clone(), bias.clone(), 0, 0
        for count, rank in bands:
            chosen = order[at:] if count is None else order[at : at + count]
            at += len(chosen)
            if rank is None or rank >= weight.shape[1]:
                cost += len(chosen) * weight.shape[1]
                continue
            cost += rank * (len(chosen) + weight.shape[1])
            scaled = weight[chosen] @ root
            weighted = scaled * share[chosen].sqrt()[:, None]
            basis = torch.linalg.eigh(weighted.T @ weighted)[1].T.flip(0)[:rank]
            lower[chosen] = scaled @ basis.T @ (basis @ inverse)
            # what is the same at all positions is a bias, and costs nothing
            offset[chosen] += (weight[chosen] - lower[chosen]) @ mean
        yield {"bands": bands, "fewer": dense / cost, "lost": _loss(held_out, lower, offset) - fine}


def _loss(states: States, weight: Tensor, bias: Tensor) -> float:
    """The mean of log Z − a·φ, so that differences are differences of log-perplexity."""
    parts: Sequence[tuple[Tensor, Tensor]] = list(zip(states.h.split(512), states.klass.split(512), strict=True))
    scores = ((h @ weight.T + bias, klass) for h, klass in parts)
    total = sum(float((s.logsumexp(1) - s.gather(1, klass[:, None])[:, 0]).sum()) for s, klass in scores)
    return total / len(states.h)


if __name__ == "__main__":
    main()
