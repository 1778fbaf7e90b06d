"""Output layers side by side: one layer, forward and backward, by each of those that people use, in one run.

    ours         `LogLinear.loss`, with few classes of words, V/12, V/6 and V
    dense        F.cross_entropy of F.linear, as it is and by `torch.compile`
    torch        `F.linear_cross_entropy`, where torch has it
    cce          Apple's Cut Cross-Entropy, whose gradient leaves small parts out, and without that filter
    Liger        its fused linear cross-entropy
    adaptive     `nn.AdaptiveLogSoftmaxWithLoss`: another model, on words by Zipf's law, since it lives from frequency

All but the last compute the same loss, of the same logits, and their errors are against float64; ours with another
number of classes is another problem of the same size. Packages that are not there are left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn_lab.bench.gpu import as_it_is, found_by
from llrnn_lab.bench.gpu_peers import HALF, Contender, Gpu, Leaves, Machine, Task, interleaved, public
from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.neural import french_like, own_classes
from llrnn_lab.bench.rows import Row
from llrnn_lab.bench.suite import Asked, Figures, LayerSizes, Suite
from llrnn_lab.studies.tables import markdown

_FEW = 1_000  # classes
_OURS, _ADAPTIVE = "ours, classes: ", "adaptive softmax"
_BAR = {"cpu": 10.0, "cuda": 9.0}  # times the fastest exact rival, with V/12 classes
_PACKAGES = ("torch", "triton", "cut-cross-entropy", "liger-kernel")
_GIVES_UP = {  # what there is to know before one is taken
    _ADAPTIVE: "another model; lives from frequency",
    "cce": "parts of gradients",
    _OURS: "words of a class differ by the background alone",
}


def layers(
    sizes: LayerSizes, *, rounds: int = 9, machine: Machine | None = None, compiled: bool = True
) -> dict[str, Any]:
    """All vocabularies; in half precision, too, on a GPU."""
    machine = machine or (Gpu() if torch.cuda.is_available() else Machine())
    on_gpu = machine.device.type == "cuda"
    hidden, positions = (sizes.hidden, sizes.positions) if on_gpu else (sizes.cpu_hidden, sizes.cpu_positions)
    precisions = {"half": HALF, "float32": torch.float32} if on_gpu else {"float32": torch.float32}
    return {
        "device": machine.name,
        "versions": dict(_versions()),
        "threads": torch.get_num_threads(),
        "rounds": rounds,
        "H": hidden,
        "N": positions,
        "V": {
            str(V): {
                name: _at(V, (hidden, positions), one, machine, rounds, compiled) for name, one in precisions.items()
            }
            for V in sizes.vocabularies
        },
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not there"


def _at(
    V: int, shape: tuple[int, int], dtype: torch.dtype, machine: Machine, rounds: int, compiled: bool
) -> dict[str, dict[str, Any]]:
    """What each takes at one size; one of which the memory or a compiler is lacking has the reason instead."""
    task = Task(french_like(V, V // 12), *shape, machine, weight=dtype)
    truth, leaves = task.reference(), task.expanded(dtype)
    made: dict[str, dict[str, Any]] = {}
    runs: dict[str, Callable[[], Tensor]] = {}
    for name, make in _rivals(task, leaves, compiled).items():
        try:
            entry = as_it_is(machine, make)
        except Exception as error:  # whatever another's code raises, the others still run
            made[name] = _failed(error)
            continue
        runs[name] = entry.contender.run
        errors = None if name == _ADAPTIVE else found_by(task, entry.contender, False, truth)
        made[name] = {"beyond_mb": entry.beyond / 1e6, "errors": errors}
        entry.contender.clear()
    for name, G in {"few": min(_FEW, V // 12), "V/12": V // 12, "V/6": V // 6, "V": V}.items():
        matrix = own_classes(V) if G == V else french_like(V, G)
        own = Task(matrix, *shape, machine, weight=dtype)
        entry = as_it_is(machine, partial(public, own, matrix, dtype))
        errors = found_by(own, entry.contender, True, own.reference())
        made[f"{_OURS}{name}"] = {"G": G, "beyond_mb": entry.beyond / 1e6, "errors": errors}
        runs[f"{_OURS}{name}"] = entry.contender.run
        entry.contender.clear()
    for name, run in [*runs.items()]:
        try:
            run()
        except torch.OutOfMemoryError as error:  # now that all are in memory
            made[name] = _failed(error)
            del runs[name]
    for name, ms in interleaved(machine, runs, rounds).items():
        made[name]["ms"] = ms
    torch.compiler.reset()
    return made


def _failed(error: Exception) -> dict[str, Any]:
    return {"failed": (str(error).splitlines() or [""])[0][:200]}


class _WithBias(Contender):
    """A contender without a bias of its own: it is one more column of the weights, on which h is 1."""

    def gradients(self) -> list[Tensor]:
        h, weight = super().gradients()
        return [h[:, :-_ALIGNED], weight[:, :-_ALIGNED], weight[:, -_ALIGNED]]


_ALIGNED = 16  # columns more, of which one is used


def _rivals(task: Task, leaves: Leaves, compiled: bool) -> dict[str, Callable[[], Contender]]:
    found: dict[str, Callable[[], Contender]] = {"dense": lambda: _of(leaves, task.words, _dense)}
    if compiled:
        found["dense, compiled"] = lambda: _of(leaves, task.words, torch.compile(_dense, dynamic=False))
    if hasattr(F, "linear_cross_entropy"):
        found["torch linear_cross_entropy"] = lambda: _of(leaves, task.words, _torchs)
    if task.h.is_cuda:
        found |= {"cce": lambda: _cce(task, leaves, "high"), "cce, exact": lambda: _cce(task, leaves, None)}
        found["Liger"] = lambda: _of(leaves, task.words, _liger)
    return found | {_ADAPTIVE: lambda: _adaptive(task, leaves[0])}


def _of(leaves: Leaves, words: Tensor, loss: Callable[..., Tensor]) -> Contender:
    return Contender(lambda: _stepped(loss(*leaves, words)), leaves)


def _stepped(loss: Tensor) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _dense(h: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(h, weight, bias), words)


def _torchs(h: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    options = torch.nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(h, weight, words, linear_bias=bias, options=options)


def _liger(h: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    made = import_module("liger_kernel.ops.fused_linear_cross_entropy").LigerFusedLinearCrossEntropyFunction
    return cast(Tensor, made.apply(h, weight, words, bias)[0])


def _cce(task: Task, leaves: Leaves, threshold: str | None) -> Contender:
    loss = import_module("cut_cross_entropy").linear_cross_entropy
    h, weight, bias = (leaf.detach() for leaf in leaves)
    h = F.pad(F.pad(h, (0, 1), value=1.0), (0, _ALIGNED - 1)).requires_grad_()
    weight = F.pad(torch.cat([weight, bias[:, None]], 1), (0, _ALIGNED - 1)).requires_grad_()
    return _WithBias(lambda: _stepped(loss(h, weight, task.words, filter_eps=threshold)), [h, weight])


def _adaptive(task: Task, h: Tensor) -> Contender:
    V, H = task.sizes["V"], task.sizes["H"]
    layer = nn.AdaptiveLogSoftmaxWithLoss(H, V, [V // 50, V // 8]).to(h.device, h.dtype)
    rank = torch.rand(len(h), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    words = (V**rank).long().sub(1).clamp(0, V - 1).to(h.device)  # p(rank) ∝ 1 / rank
    leaf = h.detach().clone().requires_grad_()
    return Contender(lambda: _stepped(layer(leaf, words).loss), [leaf, *layer.parameters()])


def layer_rows(figures: Figures, _: Speeds) -> list[Row]:
    """Ours with V/12 classes against the fastest exact one."""
    rows = []
    for V, parts in figures["V"].items():
        for precision, part in parts.items():
            rival = _fastest(part)
            ours, theirs = part[f"{_OURS}V/12"]["ms"] / 1000, part[rival]["ms"] / 1000
            setting = {"V": int(V), "G": int(V) // 12, **{name: figures[name] for name in "HN"}}
            what = "LogLinear.loss, forward and backward, against the fastest exact layer"
            bar = _BAR["cpu" if figures["device"] == "cpu" else "cuda"]
            name = f"output layers, V = {int(V):,}, {precision}"
            rows.append(Row(name, what, rival, setting, ours, theirs, theirs / ours, bar=bar))
    return rows


def _fastest(part: Figures) -> str:
    """The fastest exact rival."""
    exact = [name for name, one in part.items() if "ms" in one and not name.startswith((_OURS, _ADAPTIVE))]
    return min((name for name in exact if name != "cce"), key=lambda name: float(part[name]["ms"]))


def table(figures: Figures) -> str:
    """Milliseconds, MB beyond inputs and gradients (on a GPU), the largest error of a gradient at the first V."""
    columns = [(f"{int(V):,}, {kind}", part) for V, parts in figures["V"].items() for kind, part in parts.items()]
    names = dict.fromkeys(name for _, part in columns for name in part)
    rows = [
        [name, *(_cell(part.get(name)) for _, part in columns), _error(columns[0][1][name]), _gives_up(name)]
        for name in names
    ]
    return markdown(["layer", *(title for title, _ in columns), "error", "gives up"], rows)


def _cell(one: Mapping[str, Any] | None) -> str:
    if one is None or "failed" in one:
        return "–"
    return f"{one['ms']:.1f}" + (f" ({one['beyond_mb']:,.0f})" if one["beyond_mb"] > 0 else "")


def _error(one: Mapping[str, Any]) -> str:
    of = one.get("errors")
    return "–" if of is None else f"{max(of[name] for name in ('dh', 'dW', 'dc')):.0e}"


def _gives_up(name: str) -> str:
    found = [text for start, text in _GIVES_UP.items() if name.startswith(start) and "exact" not in name]
    return found[0] if found and name != f"{_OURS}V" else "nothing"


def _measure(asked: Asked) -> dict[str, Any]:
    return layers(asked.sizes.layers, rounds=asked.turns(9))


def _absent(figures: Figures) -> dict[str, str]:
    parts = ((V, kind, part) for V, kinds in figures["V"].items() for kind, part in kinds.items())
    return {
        f"{name}, V = {V}, {kind}": one["failed"]
        for V, kind, part in parts
        for name, one in part.items()
        if "failed" in one
    }


SUITES = (Suite("layers", "output layers side by side", 2, _measure, layer_rows, absent=_absent, spreads=True),)
