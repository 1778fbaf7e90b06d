"""Suites of training: whole steps against the softmax RNN, real French, adaptive softmax, several processes, and the
approximations of Z.

Bytes of a step are shared by the words of its batch: floors are those of one word.
"""

from __future__ import annotations

from typing import Any

import torch

from llrnn_lab.bench import counts
from llrnn_lab.bench.adaptive import adaptive
from llrnn_lab.bench.french import CONFIGS, LARGE_WAYS, WAYS, french
from llrnn_lab.bench.gpu_peers import Gpu, measured_rates
from llrnn_lab.bench.machine import Speeds, cores
from llrnn_lab.bench.neural import training
from llrnn_lab.bench.objectives import objectives
from llrnn_lab.bench.parallel import parallel
from llrnn_lab.bench.rows import Compared, Count, Row
from llrnn_lab.bench.suite import Asked, Figures, Suite

_CPU = torch.device("cpu")
_THREADS = min(2, cores())
_LAYERS = 2
_PROCESSES = 2
_BATCH, _SAMPLES, _HIDDEN = 1_024, 256, 64  # of the approximations
_ADAM, _RMSPROP = 2, 1  # numbers that the optimizer keeps for each weight
_FRENCH = {"cpu": 4.0, "cuda": 3.0}
_TURNS = {"cpu": 7, "cuda": 21}
_SECONDS = {"cpu": 120.0, "cuda": 12.0}  # of each model against adaptive softmax
_ADAPTIVE = 2.0
_TOGETHER = 1.7
_SOFTMAX = "softmax RNN with the same body"


# --- whole steps ----------------------------------------------------------------------------------------------------


def _training(asked: Asked) -> dict[str, Any]:
    sizes = asked.sizes
    return training(sizes.training_words, steps=sizes.training_steps, device=_CPU, hidden=sizes.training_hidden)


def training_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """On the embedded corpus, its vocabulary filled up with numbers."""
    V, G, H, N = figures["V"], figures["G"], figures["H"], figures["words in a batch"]
    body, weights = counts.lstm_weights(H, H, _LAYERS), figures["weights"]
    ours, theirs = (
        counts.training_step(body, outputs, H, weights[name], N, _RMSPROP).by(N)
        for name, outputs in (("llrnn", G), ("softmax", V))
    )
    speed = figures["words per second"]
    compared = Compared(
        "training, embedded corpus",
        "whole training steps, forward, backward and update, a batch of sentences each",
        _SOFTMAX,
        {"V": V, "G": G, "H": H, "words in a batch": round(N), "threads": speeds.threads},
        (ours, theirs),
        speeds,
    )
    return [compared.faster(speed["llrnn"], speed["softmax"], unit="words/s")]


# --- French: whole steps, and against adaptive softmax --------------------------------------------------------------


def _french(asked: Asked, device: str) -> dict[str, Any]:
    found = french(asked.prepared, rounds=asked.turns(_TURNS[device]), device=torch.device(device))
    if device == "cuda":  # the floors of a GPU are made with its own rates
        rates = measured_rates(Gpu(), asked.sizes.gpu.probe, asked.turns(7))
        found["speeds"] = [rates.float32, rates.memory, 1]
    return found


def _not_prepared(asked: Asked) -> str | None:
    if not CONFIGS.is_dir():
        return f"needs {CONFIGS}, which is not there; run it where the repository is"
    if not (asked.prepared / "manifest.json").is_file():
        return f"needs French: llrnn experiment prepare --data {asked.data} --out {asked.prepared}"
    return None


def _no_gpu(asked: Asked) -> str | None:
    return _not_prepared(asked) if torch.cuda.is_available() else "needs a CUDA GPU, and torch found none"


def french_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """Continuous text, and the paper's windows; against the fastest of the softmax models."""
    on = figures["device"]
    speeds = Speeds(*figures["speeds"]) if "speeds" in figures else speeds
    return [_french_row(way, figures[way], on, speeds) for way in (*WAYS, *LARGE_WAYS) if way in figures]


def _french_row(way: str, figures: Figures, on: str, speeds: Speeds) -> Row:
    contenders, N = figures["contenders"], figures["words in a step"]
    peer = min((name for name in contenders if name != "llrnn"), key=lambda name: float(contenders[name]["times ours"]))
    ours, theirs = contenders["llrnn"], contenders[peer]
    sizes = {"V": theirs["outputs"], "G": ours["outputs"], "H": figures["H"], "layers": figures["layers"]}
    compared = Compared(
        f"French training, {way}, {on}",
        "whole training steps of Table 4's models, forward, backward and update",
        f"fastest softmax RNN with the same body: {peer}",
        {**sizes, "words in a step": N, "threads": speeds.threads},
        (Count(ours["operations"], ours["bytes"]).by(N), Count(theirs["operations"], theirs["bytes"]).by(N)),
        speeds,
    )
    speed = ours["words per second"], theirs["words per second"]
    return compared.faster(*speed, unit="words/s", ratio=figures["ratio"], bar=_FRENCH[on])


def _adaptive(asked: Asked, device: str) -> dict[str, Any]:
    return adaptive(asked.prepared, seconds=_SECONDS[device], device=torch.device(device))


def _too_long(asked: Asked) -> str | None:
    return "takes ten minutes: without --quick only" if asked.quick else _not_prepared(asked)


def _without_an_epoch(figures: Figures) -> dict[str, str]:
    return {
        f"log-perplexity at equal time, {name}": f"no epoch was done in {figures['seconds']:g} s"
        for name, one in figures["contenders"].items()
        if not one["epochs"]
    }


def adaptive_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """An epoch against the fastest peer, and log-perplexity at equal time against the best, for each of ours."""
    found, rows = figures["contenders"], []
    setting = {name: figures[name] for name in ("V", "H", "layers", "seconds", "threads", "device")}
    best, fastest = figures["best peer"], figures["fastest peer"]
    for name, ours in found.items():
        if not name.startswith("llrnn"):
            continue
        epoch = Compared(f"an epoch, {name}", "an epoch of training on French", f"fastest: {fastest}", setting)
        rows.append(epoch.faster(ours["seconds an epoch"], found[fastest]["seconds an epoch"], bar=_ADAPTIVE))
        if ours["epochs"] and found[best]["epochs"]:
            loss = Compared(
                f"log-perplexity at equal time, {name}",
                "best validation when the same seconds of training were spent",
                f"best: {best}",
                setting,
            )
            rows.append(loss.share(ours["log-perplexity"], found[best]["log-perplexity"], unit="nats", bar=1.0))
    return rows


# --- several processes ----------------------------------------------------------------------------------------------


def _parallel(asked: Asked) -> dict[str, Any]:
    sizes = asked.sizes
    return parallel(
        processes=_PROCESSES, hidden=sizes.parallel_hidden, words=sizes.parallel_words, rounds=asked.turns(7)
    )


def parallel_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """A process of two does half of the words, and adds its gradients to the other's."""
    H, N, P = figures["H"], figures["words in a batch"], figures["weights"]
    body = counts.lstm_weights(H, H, _LAYERS)
    alone = counts.training_step(body, figures["G"], H, P, N, _ADAM)
    half = counts.training_step(body, figures["G"], H, P, N / _PROCESSES, _ADAM)
    together = Count(half.operations, half.bytes + counts.gradients_added_up(P).bytes)
    speed = figures["words per second"]
    setting = {**{name: figures[name] for name in "VGH"}, "words in a batch": round(N), "threads of each": 1}
    compared = Compared(
        f"{_PROCESSES} processes",
        "the same training, the same batches, shared by processes of one thread that add up their gradients (gloo)",
        "1 process",
        setting,
        (together.by(N), alone.by(N)),
        speeds,
    )
    ratio = figures["ratio"]
    return [compared.faster(speed["together"], speed["alone"], unit="words/s", ratio=ratio, bar=_TOGETHER)]


def _too_few_cores(_: Asked) -> str | None:
    found = cores()
    return None if found >= _PROCESSES else f"needs {_PROCESSES} cores, and this process may use {found}"


# --- approximations -------------------------------------------------------------------------------------------------


def _objectives(asked: Asked) -> dict[str, Any]:
    sizes = asked.sizes
    return objectives(
        sizes.objective_words,
        sentences=sizes.objective_sentences,
        epochs=sizes.objective_epochs,
        samples=_SAMPLES,
        hidden=_HIDDEN,
        device=_CPU,
        batch_words=_BATCH,
    )


def objective_rows(figures: Figures, speeds: Speeds) -> list[Row]:
    """The exact sum, every word its own class, against each approximation: how fast, and how good."""
    found, V = figures["objectives"], figures["V"]
    setting = {"V": V, "G": V, "H": _HIDDEN, "epochs": figures["epochs"], "threads": speeds.threads}
    exact, rows = found["exact"], []
    for name in (name for name in found if name != "exact"):
        other = found[name]
        drawn = name == "importance"
        peer = f"{name}, {figures['samples']} words drawn" if drawn else name
        # how many words a factored output sums over depends on which classes they fall into
        both = _counted(exact, V), _counted(other, figures["samples"] + 1) if drawn else None
        speed = Compared(
            f"exact sum by {name}: words per second", "words a second of training", peer, setting, both, speeds
        )
        loss = Compared(
            f"exact sum by {name}: log-perplexity", "exact log-perplexity after the best epoch", peer, setting
        )
        rows.append(speed.faster(exact["words per second"], other["words per second"], unit="words/s"))
        rows.append(loss.share(exact["log-perplexity"], other["log-perplexity"], unit="nats"))
    return rows


def _counted(found: Figures, outputs: int) -> Count:
    body = counts.lstm_weights(_HIDDEN, _HIDDEN, 1)
    return counts.training_step(body, outputs, _HIDDEN, found["weights"], _BATCH, _ADAM).by(_BATCH)


SUITES = (
    Suite("training", "whole training steps", _THREADS, _training, training_rows),
    Suite("french", "training on French", 1, lambda asked: _french(asked, "cpu"), french_rows, _not_prepared),
    Suite(
        "french-gpu",
        "training on French, on a GPU",
        1,
        lambda asked: _french(asked, "cuda"),
        french_rows,
        _no_gpu,
        spreads=True,
    ),
    Suite(
        "adaptive",
        "against adaptive softmax",
        1,
        lambda asked: _adaptive(asked, "cpu"),
        adaptive_rows,
        _too_long,
        _without_an_epoch,
    ),
    Suite(
        "adaptive-gpu",
        "against adaptive softmax, on a GPU",
        1,
        lambda asked: _adaptive(asked, "cuda"),
        adaptive_rows,
        _no_gpu,
        _without_an_epoch,
        spreads=True,
    ),
    Suite("parallel", "several processes", 1, _parallel, parallel_rows, _too_few_cores),
    Suite("objectives", "approximations of Z", 1, _objectives, objective_rows),
)
