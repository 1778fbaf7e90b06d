"""The layer on a GPU, forward and backward, against softmaxes over V words that do the same work in the same run.

layer        ours by `layer.chunked`, eager and in CUDA graphs, and exactly in float32; the peers, too, as
             they are and in a CUDA graph; errors of all against float64; memory beyond inputs and gradients
vocabulary   ours with G fixed, from 10⁴ words to 10⁷
own          every word its own class: nothing to gain by classes, W in the half precision of the peers

Times are medians of interleaved turns: `ms` of one of several steps back to back, `ms_alone` of one that begins when
the GPU has nothing to do. `floor` is what the count of operations and bytes allows (`gpu_machine`).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llrnn.layer.chunked import plan_for
from llrnn_lab.bench.gpu_peers import (
    CARDS,
    HALF,
    PRODUCTS,
    WAYS,
    Contender,
    Found,
    Gpu,
    Machine,
    Rates,
    Task,
    callables,
    eager,
    errors,
    interleaved,
    measured_rates,
    peers,
)
from llrnn_lab.bench.neural import french_like, own_classes
from llrnn_lab.bench.suite import GpuSizes

_MEGA = 1e6
_GRAPH = ", one graph"
_FLOAT32 = "exact float32"
_EXACT = f"{_FLOAT32}{_GRAPH}"
_SMALL = f"weighted_loss, half the chunk{_GRAPH}"
_STEPS = 5  # back to back in one turn, as in training, where the host is ahead of the GPU


class Settings(NamedTuple):
    """How it is measured."""

    machine: Machine
    rates: Rates
    rounds: int
    compiled: bool


def gpu(
    *, rounds: int = 21, sizes: GpuSizes | None = None, machine: Machine | None = None, compiled: bool = True
) -> dict[str, Any]:
    """All of it, as one document; a machine without CUDA is refused, unless another is given."""
    machine, sizes = machine or Gpu(), sizes or GpuSizes()
    measured = measured_rates(machine, sizes.probe, rounds)
    settings = Settings(machine, CARDS.get(machine.name, measured), rounds, compiled)
    shape = sizes.hidden, sizes.positions
    task = Task(french_like(sizes.words, sizes.classes), *shape, machine)
    return {
        "device": machine.name,
        "torch": torch.__version__,
        "triton": version("triton") if importlib.util.find_spec("triton") else None,
        "rounds": rounds,
        "sizes": sizes._asdict(),
        "rates": {"of the floors": settings.rates._asdict(), "measured": measured._asdict()},
        "layer": _compared(task, settings, exact=True),
        "vocabulary": _by_vocabulary(sizes, settings),
        "own": {
            str(V): _compared(Task(own_classes(V), *shape, machine, weight=HALF), settings, exact=False)
            for V in sizes.own
        },
    }


# --- contenders with the memory that they take ----------------------------------------------------------------------


class Entry(NamedTuple):
    contender: Contender
    beyond: int  # bytes, beyond inputs and gradients


def as_it_is(machine: Machine, make: Callable[[], Contender]) -> Entry:
    contender = make()
    for _ in range(2):  # what is compiled or reserved once is not the step's
        contender.run()
    contender.clear()
    _, peak = machine.with_peak(contender.run)
    return Entry(contender, peak - _size(contender.gradients()))


def _in_a_graph(machine: Machine, contender: Contender) -> Entry:
    machine.warm_up(contender)
    contender.clear()
    captured, peak = machine.with_peak(lambda: machine.graph(contender))
    return Entry(captured, peak - _size(captured.gradients()))


def _in_two_graphs(machine: Machine, make: Callable[[], Contender]) -> Entry:
    def made() -> Contender:
        contender = make()
        contender.run()
        return contender

    contender, peak = machine.with_peak(made)
    return Entry(contender, peak - _size(contender.gradients()) - _size(contender.leaves))


def _size(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors)


def _ours(task: Task, machine: Machine) -> dict[str, Entry]:
    found = {}
    for name, way in WAYS.items():
        alone = as_it_is(machine, partial(eager, task, way))
        found[f"{name}{_GRAPH}"] = _in_a_graph(machine, alone.contender)
        found[f"{name}, callables"] = _in_two_graphs(machine, partial(callables, task, way, machine))
        found[f"{name}, eager"] = alone
    return found


def _other_plans(task: Task, machine: Machine) -> dict[str, Entry]:
    """Without half precision, and with half the memory for logits."""
    way, G = WAYS["weighted_loss"], task.phi.rows.n_rows
    exact, usual = plan_for(task.h.float(), G, exact=True), plan_for(task.h, G)
    return {
        _EXACT: _in_a_graph(machine, eager(task, way, exact, torch.float32)),
        _SMALL: _in_a_graph(machine, eager(task, way, usual._replace(rows=usual.rows // 2))),
    }


def _theirs(task: Task, settings: Settings, *, autotuned: bool) -> tuple[dict[str, Entry], dict[str, str]]:
    """The peers, and why some of them cannot run here."""
    found, failed = {}, {}
    for name, make in peers(task, compiled=settings.compiled, autotuned=autotuned).items():
        try:
            found[name] = as_it_is(settings.machine, make)
            found[f"{name}{_GRAPH}"] = _in_a_graph(settings.machine, found[name].contender)
        except RuntimeError as error:  # too little memory, no compiler: the others still run
            failed[name] = str(error).splitlines()[0]
    return found, failed


# --- the comparison -------------------------------------------------------------------------------------------------


def _compared(task: Task, settings: Settings, *, exact: bool) -> dict[str, Any]:
    """Ours and the peers; only the layer itself is worth the time that max-autotune takes."""
    machine = settings.machine
    ours = _ours(task, machine)
    if exact:
        ours |= _other_plans(task, machine)
    theirs, failed = _theirs(task, settings, autotuned=exact)
    found = _figures(task, settings, ours, theirs)
    return {**task.sizes, **found, "failed": failed, **_ratios(found["ours"], found["peers"])}


def _figures(task: Task, settings: Settings, ours: Mapping[str, Entry], theirs: Mapping[str, Entry]) -> dict[str, Any]:
    """Times, memory, floors and errors of everyone, ours and the peers."""
    machine, everyone = settings.machine, {**ours, **theirs}
    runs = {name: entry.contender.run for name, entry in everyone.items()}
    ms, alone = (interleaved(machine, runs, settings.rounds, steps) for steps in (_STEPS, 1))
    truth = task.reference()
    figures = {
        name: {
            "ms": ms[name],
            "ms_alone": alone[name],
            "beyond_mb": entry.beyond / _MEGA,
            **_floor(task, name, entry, name in ours, settings.rates, ms[name]),
            "errors": found_by(task, entry.contender, name in ours, truth),
        }
        for name, entry in everyone.items()
    }
    if settings.compiled:
        torch.compiler.reset()
    mine, yours = ({name: figures[name] for name in group} for group in (ours, theirs))
    return {"loss": truth.loss, "ours": mine, "peers": yours}


def _floor(task: Task, name: str, entry: Entry, is_ours: bool, rates: Rates, ms: float) -> dict[str, Any]:
    cost = task.cost(task.sizes["G" if is_ours else "V"], PRODUCTS, entry.contender.leaves)
    floor = cost.floor(rates, torch.float32 if name.startswith(_FLOAT32) else HALF)
    return {"floor": floor, "times_floor": ms / floor["ms"]}


def found_by(task: Task, contender: Contender, is_ours: bool, truth: Found) -> dict[str, float]:
    """The errors of what a contender finds."""
    loss = float(contender.run())
    gradients = contender.gradients() if is_ours else task.by_features(contender.gradients())
    with torch.no_grad():
        return errors(truth, Found(loss, None if contender.log_p is None else contender.log_p(), gradients))


def _ratios(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Time of the best peer, of the best that is launched the same way, and of the dense one as it is, by ours; memory
    of ours by that of peers."""
    best = _least(theirs, "ms")
    in_graphs = {name: one for name, one in theirs.items() if name.endswith(_GRAPH)}
    launched = {True: in_graphs, False: {name: one for name, one in theirs.items() if name not in in_graphs}}
    named = {"dense": "dense", "best": best, "smallest": _least(theirs, "beyond_mb")}
    return {
        "best_peer": best,
        "smallest_peer": named["smallest"],
        "peer_by_ours": {
            name: {
                "best": theirs[best]["ms"] / one["ms"],
                "best_alone": theirs[_least(theirs, "ms_alone")]["ms_alone"] / one["ms_alone"],
                "same_launch": min(peer["ms"] for peer in launched["eager" not in name].values()) / one["ms"],
                "dense": theirs["dense"]["ms"] / one["ms"],
            }
            for name, one in ours.items()
        },
        "memory_by_peer": {
            name: {key: _ratio(one["beyond_mb"], theirs[peer]["beyond_mb"]) for key, peer in named.items()}
            for name, one in ours.items()
        },
    }


def _least(figures: Mapping[str, Any], key: str) -> str:
    return min(figures, key=lambda name: float(figures[name][key]))


def _ratio(one: float, other: float) -> float:
    """Not a number where nothing was counted, as on a CPU."""
    return one / other if other else math.nan


def _by_vocabulary(sizes: GpuSizes, settings: Settings) -> dict[str, Any]:
    """Each way with G fixed, all V taking turns; largest / smallest over V."""
    machine, shape = settings.machine, (sizes.hidden, sizes.positions)
    entries = {
        V: _ours(Task(french_like(V, sizes.classes), *shape, machine), machine) for V in sorted(sizes.vocabularies)
    }
    runs = {f"{name}|{V}": entry.contender.run for V, each in entries.items() for name, entry in each.items()}
    ms, alone = (interleaved(machine, runs, settings.rounds, steps) for steps in (_STEPS, 1))
    found: dict[str, Any] = {"G": sizes.classes}
    for name in next(iter(entries.values())):
        figures = {
            "ms": {str(V): ms[f"{name}|{V}"] for V in entries},
            "ms_alone": {str(V): alone[f"{name}|{V}"] for V in entries},
            "beyond_mb": {str(V): each[name].beyond / _MEGA for V, each in entries.items()},
        }
        largest = {key: _ratio(max(each.values()), min(each.values())) for key, each in figures.items()}
        found[name] = {**figures, "largest_by_smallest": largest}
    return found
