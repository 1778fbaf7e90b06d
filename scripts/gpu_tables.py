"""Tables of docs/performance.md that `llrnn_lab.bench.report` does not make: the layer on a GPU, steps."""

from __future__ import annotations

from typing import Any

from llrnn_lab.studies.tables import markdown
from results import figures, read

WAYS = ("one graph", "callables", "eager")
SHOWN = ("gpu_layer", "gpu_errors", "gpu_vocabulary", "gpu_own_classes", "french_gpu", "profile", "steps", "factored")
OURS = [f"{loss}, {way}" for loss in ("weighted_loss", "log_sum_and_score") for way in WAYS]


def gpu_layer() -> str:
    found = read("bench-gpu.json")["layer"]
    rows = []
    for name, one in (found["ours"] | found["peers"]).items():
        ratio = found["peer_by_ours"].get(name)
        faster = [f"{ratio['best']:.1f}", f"{ratio['best_alone']:.1f}"] if ratio else ["", ""]
        floor = [f"{one['floor']['ms']:.3f}", f"{one['times_floor']:.1f}"]
        rows.append([name, f"{one['ms']:.3f}", f"{one['ms_alone']:.3f}", *faster, *floor, f"{one['beyond_mb']:,.0f}"])
    return markdown(["", "ms", "alone", "faster", "alone", "floor, ms", "times the floor", "MB beyond"], rows)


def gpu_errors() -> str:
    found = read("bench-gpu.json")["layer"]
    shown = (
        *("weighted_loss, eager", "log_sum_and_score, eager", "exact float32, one graph"),
        *("dense", "dense, compiled", "dense, max-autotune", "chunked by 1,024", "chunked by 2,048, compiled"),
        "gradients in forward by 4,096, compiled",
    )
    keys = ("loss", "log_p_rms", "log_p_max", "dh", "dW", "dc")
    errors = {name: (found["ours"] | found["peers"])[name]["errors"] for name in shown}
    rows = [[name, *(f"{one[key]:.1e}" if key in one else "–" for key in keys)] for name, one in errors.items()]
    return markdown(["", "loss", "log p", "largest", "dh", "dW", "dc"], rows)


def gpu_vocabulary() -> str:
    found = read("bench-gpu.json")["vocabulary"]
    rows = []
    for name in OURS:
        one, spread = found[name], found[name]["largest_by_smallest"]
        memory = [f"{max(one['beyond_mb'].values()):,.0f}", f"{spread['beyond_mb']:.3f}"]
        spreads = [f"{spread[key]:.3f}" for key in ("ms", "ms_alone")]
        rows.append([name, *(f"{ms:.3f}" for ms in one["ms"].values()), *spreads, *memory])
    return markdown(["", "10⁴", "10⁵", "10⁶", "10⁷", "time", "alone", "MB beyond", "memory"], rows)


def gpu_own_classes() -> str:
    found = read("bench-gpu.json")["own"]
    peers = [
        f"{name}{way}"
        for name in (
            "dense",
            "dense, compiled",
            "chunked by 2,048, compiled",
            "gradients in forward by 4,096, compiled",
        )
        for way in ("", ", one graph")
    ]
    rows = [[name, *(cell for one in found.values() for cell in _own(one, name))] for name in [*OURS, *peers]]
    header = [
        cell for one in found.values() for cell in (f"V = {one['V']:,}: ms", "times the floor", "by best", "by dense")
    ]
    return markdown(["", *header], rows)


def _own(one: dict[str, Any], name: str) -> list[str]:
    part = (one["ours"] | one["peers"])[name]
    ratio = one["peer_by_ours"].get(name)
    shares = [f"{1 / ratio['same_launch']:.2f}", f"{1 / ratio['dense']:.2f}"] if ratio else ["", ""]
    return [f"{part['ms']:.3f}", f"{part['times_floor']:.1f}", *shares]


def french_gpu() -> str:
    names = ("llrnn", "softmax in llrnn", "softmax", "softmax, one graph")
    rows = []
    for way, one in figures("french-gpu", "bench-french-gpu.json").items():
        if isinstance(one, dict) and "contenders" in one:
            ours, *peers = (one["contenders"][name] for name in names)
            cells = [f"{1000 * peer['seconds']:.2f}: {peer['times ours']:.2f}" for peer in peers]
            rows.append([way, f"{one['words in a step']:,}", f"{1000 * ours['seconds']:.2f}", *cells])
    return markdown(["", "words in a step", "llrnn", "softmax in llrnn", "softmax in torch", "in one graph"], rows)


def profile() -> str:
    rows = [
        [name, f"{1000 * part['seconds']:.0f}", f"{part['share']:.0%}"]
        for name, part in read("profile.json")["parts"].items()
    ]
    return markdown(["part", "ms", "share"], rows)


def steps(which: str) -> str:
    """What `scripts/time_configs.py` printed of one group of configurations, in its order."""
    found = read("steps.json")[which]["found"]
    body = next((one["seconds"] for name, one in found.items() if name.startswith("free:")), None)
    rows = []
    for name, one in found.items():
        layer, _, cutoffs = name.rpartition(":configs")[0].partition("=")
        own = (
            f"softmax in llrnn, {one['classes']:,} words"
            if "rnn-bias" in name
            else f"llrnn, {one['classes']:,} classes"
        )
        label = {
            "dense": "softmax in torch",
            "free": "no output layer",
            "adaptive": f"adaptive softmax, {cutoffs.replace(',', ', ')}",
        }.get(layer, own)
        beyond = "" if body is None else f"{max(one['seconds'] - body, 0.0):.2f}"
        rows.append(
            [label, f"{one['seconds']:.2f}", beyond, f"{one['words_per_second']:,.0f}", f"{1 / one['ratio']:.2f}"]
        )
    return markdown(["", "seconds", "beyond the body", "words/s", "times the first's speed"], rows)


def factored() -> str:
    """Sums over pairs of factors, counted."""
    rows = [
        [
            f"{language}, `{config}`",
            *(f"{one[key]:,}" for key in ("V", "classes", "features")),
            " + ".join(f"{count:,}" for count in one["rows"]),
            f"{one['fewer, two groups']:.1f}",
            f"{one['fewer, direct']:.1f}",
        ]
        for (language, config), one in (
            (name.split(", "), one) for name, one in read("factored-sums.json")["found"].items()
        )
    ]
    heads = ["", "words", "classes", "features", "rows of two groups", "fewer multiplications", "the direct way"]
    return markdown(heads, rows)
