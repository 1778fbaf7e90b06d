"""Perplexity against the time of training, on French: a softmax, an adaptive softmax, LL-RNNs with few classes.

    softmax            `configs/table4/rnn-bias.toml`: tied weights, begins as the unigram distribution
    adaptive softmax   torch's, with frequent words and clusters that begin as the unigram distribution
    LL-RNN, G classes  the features of a configuration, merged into so many classes (`coarse.py`)

All have the same body, batches, dropout and optimizer, and every one chooses among the same learning rates: after
`pilot` seconds the best on validation goes on. Time is that of making the model, merging classes among it, and of
training steps; on a CPU it is the processor's. Validation, on so many sentences, is not counted. Weights are not
averaged. Whoever has had the least time goes next, so that all feel the same machine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from llrnn.config import Config, read_config
from llrnn.config.project import Project
from llrnn.ground.rendering import Chartable, LineChart, Sheet, TextTable
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.features import compile_features
from llrnn.model.network import LLRNN
from llrnn.model.scoring import score
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn.training.settings import TrainingSettings
from llrnn_lab.bench import torch_peer
from llrnn_lab.bench.adaptive import Point, equal_time, now
from llrnn_lab.bench.coarse import coarsened
from llrnn_lab.bench.french import CONFIGS, require_prepared

SOFTMAX, ADAPTIVE = "softmax", "adaptive softmax"
CUTOFFS = (2000, 10000)
_LATE = 1.02  # a step that begins before a time ends a little after it
_LOGGED = {"cpu": 1, "cuda": 20}  # steps between two looks at the clock


@dataclass(frozen=True)
class Watch:
    """When a model in training is looked at, and on what."""

    device: torch.device
    every: float  # seconds
    sentences: int
    tell: Callable[[str], None]

    def points(self, name: str, ended: Iterator[float], before: float, judge: Callable[[], float]) -> Iterator[Point]:
        """After the first step that ends at or beyond each full time; `ended` gives the seconds of step after step."""
        used, at = before, self.every
        for seconds in ended:
            used += seconds
            if used >= at:
                found = judge()
                self.tell(f"{name}: {used:.1f} s, {found:.4f}")
                yield used, found
                at = (used // self.every + 1) * self.every


def curve(
    data: Path,
    *,
    configs: Path = CONFIGS,
    ours: str = "best",
    classes: Sequence[int] = (7000, 3500),
    seconds: float = 600.0,
    every: float = 30.0,
    rates: Sequence[float] = (0.002, 0.004),
    pilot: float = 60.0,
    cutoffs: Sequence[int] = CUTOFFS,
    changes: Sequence[str] = (),
    sentences: int = 200,
    device: torch.device | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """(seconds, validation log-perplexity) of each; `changes` are changes to every configuration, as in `--set`.

    `ours`: the configuration that has our features; `classes`: how many of them, 0 for all that they tell apart.
    """
    require_prepared(data)
    watch = Watch(device or torch.device("cpu"), every, sentences, tell)
    softmax = read_config(configs / "rnn-bias.toml", changes, data=data)
    same = [*changes, *_same_training(softmax)]
    made: dict[tuple[str, float], Iterator[Point]] = {}
    outputs: dict[str, int] = {}
    config = read_config(configs / f"{ours}.toml", same, data=data)
    for number in classes:
        found, G = _ours(config, rates, watch, number)
        name = f"LL-RNN, {G:,} classes"
        outputs[name] = G
        made |= {(name, rate): points for rate, points in found.items()}
    found, V = _ours(softmax, rates, watch)
    made |= {(SOFTMAX, rate): points for rate, points in found.items()}
    made |= {(ADAPTIVE, rate): points for rate, points in _adaptive(softmax, cutoffs, rates, watch).items()}
    outputs |= {SOFTMAX: V, ADAPTIVE: V}
    tried = equal_time(made, pilot) if len(rates) > 1 else {key: [] for key in made}
    chosen = {name: _best(name, tried) for name in outputs}
    going = {name: made[name, rate] for name, rate in chosen.items()}
    curves = equal_time(going, seconds, {name: tried[name, rate] for name, rate in chosen.items()})
    return {
        "V": V,
        "outputs": outputs,
        "features": ours,
        "H": softmax.controller.hidden,
        "layers": softmax.controller.layers,
        "dropout": softmax.controller.dropout,
        "batches": softmax.training.batches.model_dump(mode="json"),
        "optimizer": softmax.training.optimizer,
        "cutoffs": list(cutoffs),
        "valid sentences": sentences,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "device": watch.device.type,
        "rates": chosen,
        "tried": [[name, rate, points] for (name, rate), points in tried.items() if points],
        "curves": curves,
    }


def _same_training(config: Config) -> list[str]:
    """What all have in common, as changes to a configuration."""
    own, training = config.controller, config.training
    batches = ", ".join(f"{key}={value!r}" for key, value in training.batches.model_dump(exclude_none=True).items())
    return [
        f"controller={{kind={own.kind!r}, hidden={own.hidden}, layers={own.layers}, dropout={own.dropout}}}",
        f"training.batches={{{batches}}}",
        f"training.optimizer={training.optimizer!r}",
        f"training.weight_decay={training.weight_decay}",
    ]


def _best(name: str, tried: Mapping[tuple[str, float], Sequence[Point]]) -> float:
    rates = [rate for one, rate in tried if one == name]
    return min(rates, key=lambda rate: min((loss for _, loss in tried[name, rate]), default=float("inf")))


def _settings(config: Config, rate: float, device: torch.device) -> TrainingSettings:
    every = _LOGGED[device.type]
    return config.training.changed(learning_rate=rate, epochs=10_000, patience=None, average=None, log_every=every)


def _ours(
    config: Config, rates: Sequence[float], watch: Watch, classes: int = 0
) -> tuple[dict[float, Iterator[Point]], int]:
    """The points of a model of the library for each rate, all from the same weights; its classes.

    `classes`: how many its output features are merged into; 0: none is merged.
    """
    project = Project.from_config(config)
    started = now(watch.device)
    first = _merged(project, classes) if classes else project.model()
    before = now(watch.device) - started
    text, valid = project.corpora["train"], project.corpora["valid"][: watch.sentences]
    encoded, batching = EncodedText.encode(valid, first.vocabulary), config.training.batches.make()

    def points(rate: float) -> Iterator[Point]:
        model = copy.deepcopy(first).to(watch.device)
        records = train(model, text, settings=_settings(config, rate, watch.device))

        def steps() -> Iterator[float]:
            while True:
                started = now(watch.device)
                next(records)
                yield now(watch.device) - started

        def judge() -> float:
            return score(model.eval(), encoded, batching).log_perplexity

        return watch.points(f"{first.output_features.n_classes:,} classes, {rate:g}", steps(), before, judge)

    return {rate: points(rate) for rate in rates}, first.output_features.n_classes


def _merged(project: Project, classes: int) -> LLRNN:
    """A model of the project that predicts by classes with mean features, and reads words by their own."""
    config, vocabulary = project.config, project.vocabulary
    fine = compile_features(project.output_features, vocabulary)
    return LLRNN(
        vocabulary,
        output_features=coarsened(fine, classes, symbol_mass(project.background, vocabulary)),
        input_features=fine,
        background=project.background,
        controller=config.controller.make(),
        tied=config.tied,
        word_dropout=config.word_dropout,
        seed=config.training.seed,
    )


def _adaptive(
    config: Config, cutoffs: Sequence[int], rates: Sequence[float], watch: Watch
) -> dict[float, Iterator[Point]]:
    project = Project.from_config(config)
    parts = project.corpora["train"], project.corpora["valid"][: watch.sentences]
    text, valid = (EncodedText.encode(part, project.vocabulary) for part in parts)
    V, own = len(project.vocabulary), config.controller
    rank, b = torch_peer.ranks(text, V), project.background.bind(project.vocabulary).prior([]).dense(1).log_b[0]

    def points(rate: float) -> Iterator[Point]:
        settings, started = _settings(config, rate, watch.device), now(watch.device)
        torch.manual_seed(settings.seed)
        output = torch_peer.Adaptive(V, own.hidden, cutoffs, log_b=torch.empty_like(b).scatter(0, rank, b))
        model = torch_peer.TorchModel(rank, own.hidden, own.layers, output, own.dropout).to(watch.device)
        epochs, before = torch_peer.training_epochs(model, text, settings), now(watch.device) - started

        def steps() -> Iterator[float]:
            losses = (loss for epoch in epochs for loss in epoch)
            while True:
                started = now(watch.device)
                for _ in range(settings.log_every):
                    next(losses)
                yield now(watch.device) - started

        return watch.points(
            f"{ADAPTIVE}, {rate:g}", steps(), before, lambda: torch_peer.log_perplexity(model, valid, settings)
        )

    return {rate: points(rate) for rate in rates}


@dataclass(frozen=True)
class TimeCurve(Chartable):
    """What `curve` found: validation log-perplexity against seconds of training, and who leads."""

    found: Mapping[str, Any]

    def at(self, seconds: float) -> dict[str, float]:
        """The best that each had validated by then; those that had nothing are left out."""
        by_then = {
            name: [loss for used, loss in points if used <= seconds] for name, points in self.found["curves"].items()
        }
        return {name: min(losses) for name, losses in by_then.items() if losses}

    def leads_from(self) -> float | None:
        """The time from which on one of ours is the best at every time that was looked at; None for never."""
        times = sorted(used for points in self.found["curves"].values() for used, _ in points)
        behind = [time for time in times if not self._leads(self.at(time))]
        after = [time for time in times if not behind or time > behind[-1]]
        return after[0] if after else None

    def _leads(self, losses: Mapping[str, float]) -> bool:
        return min(losses, key=lambda name: losses[name]) not in (SOFTMAX, ADAPTIVE)

    def sheet(self) -> Sheet:
        shown = [self.found["seconds"] * share for share in (0.25, 0.5, 0.75, 1.0)]
        rows = []
        for name, points in self.found["curves"].items():
            losses = [self.at(time * _LATE).get(name) for time in shown]
            cells = ["–" if loss is None else f"{loss:.3f}" for loss in losses]
            rows.append((name, f"{self.found['rates'][name]:g}", f"{len(points)}", *cells))
        header = ("", "learning rate", "points", *(f"{time:.0f} s" for time in shown))
        first = self.leads_from()
        told = "never" if first is None else f"from {first:.0f} s on"
        return Sheet((TextTable(header, tuple(rows)), (f"an LL-RNN is the best at every time: {told}",), self.chart()))

    def chart(self) -> LineChart:
        curves = {name: points for name, points in self.found["curves"].items() if points}
        on = "one core" if self.found["device"] == "cpu" else "one GPU"
        body = f"LSTM {self.found['layers']} × {self.found['H']}"
        return LineChart(
            curves, f"French, {body}: validation while training", f"seconds of training, {on}", "log-perplexity (nats)"
        )
