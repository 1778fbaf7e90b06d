"""The suite of the GPU: rows of `llrnn_lab.bench.gpu`, whose floors are counted with the rates of the card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from llrnn_lab.bench.gpu import gpu
from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.rows import Floor, Row
from llrnn_lab.bench.suite import Asked, Figures, Suite

_FASTER, _WITHIN, _OWN, _MEMORY = 20.0, 1.05, 1.05, 0.02
_LAUNCHES = ("one graph", "callables", "eager")
_MEGA = 1e6


def gpu_rows(figures: Figures, _: Speeds) -> list[Row]:
    """The layer, V, own classes and memory, by all launches."""
    device = figures["device"]
    rows = [*_layer(figures["layer"], device), *_memory(figures["layer"], device)]
    rows += _by_vocabulary(figures, device)
    for part in figures["own"].values():
        rows += _own(part, device)
    return rows


def _setting(part: Figures, device: str, names: str = "VGHN") -> dict[str, Any]:
    return {**{name: part[name] for name in names}, "device": device}


def _ours(part: Figures) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, part["ours"][name]) for name in (f"weighted_loss, {launch}" for launch in _LAUNCHES))


def _layer(part: Figures, device: str) -> Iterator[Row]:
    peer = part["best_peer"]
    theirs = part["peers"][peer]
    for name, one in _ours(part):
        yield Row(
            f"GPU layer, {name}",
            "one layer forward and backward in half precision, against the best of the dense peers",
            peer,
            _setting(part, device),
            one["ms"] / 1000,
            theirs["ms"] / 1000,
            part["peer_by_ours"][name]["best"],
            bar=_FASTER,
            floor=_floor(one),
            peers_floor=_floor(theirs),
        )


def _own(part: Figures, device: str) -> Iterator[Row]:
    theirs = part["peers"]["dense"]
    for name, one in _ours(part):
        yield Row(
            f"GPU, every word its own class, V = {part['V']:,}, {name}",
            "one layer forward and backward where no two words share a class",
            "dense",
            _setting(part, device),
            one["ms"] / 1000,
            theirs["ms"] / 1000,
            one["ms"] / theirs["ms"],
            bar=_OWN,
            at_least=False,
            floor=_floor(one),
            peers_floor=_floor(theirs),
        )


def _memory(part: Figures, device: str) -> Iterator[Row]:
    theirs = part["peers"]["dense"]["beyond_mb"]
    for name, one in _ours(part):
        if theirs > 0:  # a CPU in a GPU's place, as in the tests, keeps no account
            yield Row(
                f"GPU memory, {name}",
                "the most bytes of the layer, forward and backward, beyond inputs and gradients",
                "dense",
                _setting(part, device),
                one["beyond_mb"] * _MEGA,
                theirs * _MEGA,
                one["beyond_mb"] / theirs,
                unit="bytes",
                bar=_MEMORY,
                at_least=False,
            )


def _by_vocabulary(figures: Figures, device: str) -> Iterator[Row]:
    found, layer = figures["vocabulary"], figures["layer"]
    for name, _ in _ours(layer):
        ms = found[name]["ms"]
        smallest, *others = ms
        for V in others:
            yield Row(
                f"GPU time at V = {int(V):,}, {name}",
                "one layer forward and backward, G fixed, by the number of words",
                f"itself at V = {int(smallest):,}",
                {"V": int(V), "G": found["G"], **_setting(layer, device, "HN")},
                ms[V] / 1000,
                ms[smallest] / 1000,
                ms[V] / ms[smallest],
                bar=_WITHIN,
                at_least=False,
            )
        yield from _memory_by_vocabulary(found[name]["beyond_mb"], name, {"G": found["G"], "device": device})


def _memory_by_vocabulary(megabytes: Mapping[str, float], name: str, setting: Mapping[str, Any]) -> Iterator[Row]:
    """Where most is taken, by where least is."""
    most, least = (pick(megabytes, key=lambda V: megabytes[V]) for pick in (max, min))
    if megabytes[least] > 0:
        yield Row(
            f"GPU memory by V, {name}",
            "the most bytes of the layer beyond inputs and gradients, G fixed, by the number of words",
            f"itself at V = {int(least):,}",
            {"V": int(most), **setting},
            megabytes[most] * _MEGA,
            megabytes[least] * _MEGA,
            megabytes[most] / megabytes[least],
            unit="bytes",
            bar=_WITHIN,
            at_least=False,
        )


def _floor(one: Mapping[str, Any]) -> Floor:
    return Floor(one["floor"]["operations"], one["floor"]["bytes"], one["floor"]["ms"] / 1000)


def _measure(asked: Asked) -> dict[str, Any]:
    return gpu(rounds=asked.turns(21), sizes=asked.sizes.gpu)


def _no_gpu(_: Asked) -> str | None:
    return None if torch.cuda.is_available() else "needs a CUDA GPU, and torch found none"


def _failed(figures: Figures) -> dict[str, str]:
    parts = (figures["layer"], *figures["own"].values())
    return {f"GPU, peer {name}, V = {part['V']:,}": why for part in parts for name, why in part["failed"].items()}


SUITES = (Suite("gpu", "the layer on a GPU", 1, _measure, gpu_rows, _no_gpu, _failed, spreads=True),)
