"""A keyboard in one small file: a trained model, in whole numbers of 8 bits, for a reader of a page of code.

    E = Φ W, c = Φ c        composed: a row for each class, so that a reader needs no features
    log b(x)                one byte for each word; log B_s of each class as it is
    domains                 the automata that tell the cell of a word that is not listed, when it is read
    recent                  μ, κ and rules of endings: how much the user's own words count that come again

The reader completes listed words, and those that were typed before. Other strings that nobody listed are read, and are
not proposed; what that and the rounding cost is measured by `llrnn experiment typing`.
"""

from __future__ import annotations

import base64
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.inference.keyboard.reader import Keyboard
from llrnn.knowledge.backgrounds import Background
from llrnn.knowledge.backgrounds.recent import RARE, Recent
from llrnn.knowledge.contextual import Again
from llrnn.languages.domains import Regular, Spelling
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import Domain

__all__ = ["Keyboard", "export_keyboard", "keyboard_bytes", "keyboard_page"]

_MOST = 65_535  # classes, and states of an automaton: two bytes
_KINDS = {"int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "float32": "f32"}
Arrays = dict[str, NDArray[Any]]


def export_keyboard(model: LLRNN, path: str | Path, *, words: int | None = None) -> int:
    """Write a keyboard file, a compact 8-bit copy of a model that completes words, to `path`; return its size in bytes.

    `words`: keep only so many words, the most probable ones under the prior b(K, x); None: all. Raises ConfigError for
    models that the small reader does not support (it takes an LSTM, static features and a static prior b, the same at
    every position, around which words may come again: `backgrounds.Recent`, `contextual.Again`).

        export_keyboard(model, "french.kb"); Keyboard.read("french.kb").complete(["la", "reine", "est"], "gr")
    """
    content = keyboard_bytes(model, words=words)
    write_atomically(Path(path), content)
    return len(content)


def keyboard_page(content: bytes, *, title: str = "Typing") -> str:
    """Return the HTML of a page that completes words as one types, offline; model and program are inside it.

    `content`: a keyboard file as bytes, from `keyboard_bytes`; `title`: the heading of the page.

        Path("typing.html").write_text(keyboard_page(keyboard_bytes(model)))
    """
    here = resources.files("llrnn.inference.keyboard")
    page = (here / "page.html").read_text(encoding="utf8")
    parts = {
        "TITLE": title.replace("&", "&amp;").replace("<", "&lt;"),
        "READER": (here / "reader.js").read_text(encoding="utf8"),
        "FILE": base64.b64encode(content).decode(),
    }
    for name, part in parts.items():
        page = page.replace(f"@{name}@", part)
    return page


def keyboard_bytes(model: LLRNN, *, words: int | None = None) -> bytes:
    """Return a keyboard file as bytes: a compact 8-bit copy of a model that completes words, to be read by `Keyboard`.

    `words`: keep only so many words, the most probable ones under the prior b(K, x); None: all. Raises ConfigError for
    models that `Keyboard` does not support (see `export_keyboard`), or without a word to propose.
    """
    _check(model)
    vocabulary, log_b = model.vocabulary, _log_b(model)
    listed = [
        i for i in range(vocabulary.n_words) if i != vocabulary.eos and vocabulary.symbol(i) != vocabulary.unknown
    ]
    listed = [i for i in listed if log_b[i] > -np.inf]
    if words is not None:
        listed = sorted(listed, key=lambda i: (-log_b[i], i))[:words]
    if not listed:
        raise ConfigError("a keyboard needs words to propose, found none that are listed; train with a vocabulary")
    listed.sort(key=lambda i: vocabulary.symbol(i).encode("utf-16-be"))
    output, read = model.output_features.class_of, model.input_features.class_of
    low, high = float(log_b[listed].min()), float(log_b[listed].max())
    step = (high - low) / 255 or 1.0
    phi, parameters = model.layer.phi, (model.layer.weight, model.layer.bias)
    weight, bias = ((phi @ part).detach().double().cpu().numpy() for part in parameters)
    arrays: Arrays = {
        "class": output[listed].astype(np.uint16),
        "input_class": read[listed].astype(np.uint16),
        "log_b": np.round((log_b[listed] - low) / step).astype(np.uint8),
        "offset": bias.astype(np.float32),
        "log_mass": _class_masses(log_b, output, len(bias)).astype(np.float32),
    }
    scaled = {"embedding": model.embedding.table().detach().double().cpu().numpy(), "output": weight}
    recent, state = _recent(model, listed, arrays, scaled), list[int]()
    for layer, (one, hidden, both) in enumerate(_lstm(model)):
        scaled |= {f"input.{layer}": one, f"hidden.{layer}": hidden}
        arrays[f"bias.{layer}"] = both.astype(np.float32)
        state += [hidden.shape[1]] * 2
    for name, matrix in scaled.items():
        arrays |= _quantised(name, matrix)
    domains = _domains(model, arrays)
    header = {
        "format": "llrnn keyboard 1",
        "lowercase": model.reads_lowercase,
        "state": state,
        "eos": int(read[vocabulary.eos]),
        "log_b": [low, step],
        "domains": domains,
        "recent": recent,
        "scaled": list(scaled),
        "arrays": [[name, _KINDS[array.dtype.name], list(array.shape)] for name, array in arrays.items()],
    }
    told = json.dumps(header, ensure_ascii=False).encode()
    told += b" " * (-len(told) % 4)
    content = [len(told).to_bytes(4, "little"), told, *(array.tobytes() for array in arrays.values())]
    content.append("\n".join(vocabulary.symbol(i) for i in listed).encode())
    return zlib.compress(b"".join(content), 9)


def _check(model: LLRNN) -> None:
    """Raise ConfigError with the first reason why a keyboard file cannot hold this model; return None if it can.

    It can if the model predicts words by an LSTM, and if features and prior are static (the same at every position);
    only the prior `Recent` and the feature `Again`, by which words of the text come again, may be added.
    """
    classes, background = max(model.output_features.n_classes, model.input_features.n_classes), _base(model)
    again = model.contextual if all(isinstance(one, Again) for one in model.contextual) else ()
    reasons = (
        ("units in the place of words", model.vocabulary.units is not None),
        ("contextual features, or mixed parts", bool(model.mixed)),
        ("contextual features", model.contextual != again or bool(model.contextual_inputs)),
        (f"a background that depends on the context ({background!r})", not background.is_static),
        (f"the controller {model.controller!r}", not isinstance(model.controller, LSTM)),
        ("conditions", model.needs_conditions),
        (f"{classes:,} classes", classes > _MOST),
    )
    found = next((reason for reason, holds in reasons if holds), None)
    if found is not None:
        raise ConfigError(
            "a keyboard holds an LSTM, static features of up to 65,535 classes and a static background, found "
            f"{found}; train such a model (configs/typing/llrnn.toml)"
        )


def _base(model: LLRNN) -> Background:
    """Return the model's prior over the next word without the part that expects words of the text to come again."""
    return model.background.base if isinstance(model.background, Recent) else model.background


def _recent(model: LLRNN, listed: list[int], arrays: Arrays, scaled: Arrays) -> dict[str, Any] | None:
    """Return how words of the text come again, as settings for a keyboard file's header; None if they do not.

    The settings are those of the prior `Recent`, by their names. `listed`: ids of the words in the file. Added in
    place: `arrays["rare"]`, (words,) uint8, 1 for words that are rare, so that their other forms may come too;
    `scaled["again"]` and `arrays["again_offset"]`, weights (2, hidden) and biases (2,) of two features, being the word
    that came last and being a word of the sentence, 0 where the model has none.
    """
    if not isinstance(model.background, Recent):
        return None
    rare, layer = np.array(model.vocabulary.counts)[listed] <= RARE, model.layer
    arrays["rare"] = rare.astype(np.uint8)
    both = np.zeros((2, model.controller.hidden)), np.zeros(2)
    if model.contextual:
        both = layer.context_weight.detach().double().cpu().numpy(), layer.context_bias.detach().double().cpu().numpy()
    scaled["again"], arrays["again_offset"] = both[0], both[1].astype(np.float32)
    return {name: value for name, value in model.background.saved().fields.items() if name != "most"}


def _log_b(model: LLRNN) -> NDArray[np.float64]:
    base = _base(model)
    prior = base.prior([base.initial(None)])
    return np.asarray(prior.dense(1).log_b[0].double().cpu().numpy())


def _class_masses(log_b: NDArray[np.float64], class_of: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    mass = np.bincount(class_of, weights=np.exp(log_b), minlength=count)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(mass), -1e4)  # JSON has no infinity, nor does a sum need it


def _lstm(model: LLRNN) -> list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    named = {name: one.detach().double().cpu().numpy() for name, one in model.controller.named_parameters()}
    ends = {name.rpartition(".")[2]: one for name, one in named.items()}
    layers = range(sum(name.startswith("weight_hh_l") for name in ends))
    return [
        (ends[f"weight_ih_l{n}"], ends[f"weight_hh_l{n}"], ends[f"bias_ih_l{n}"] + ends[f"bias_hh_l{n}"])
        for n in layers
    ]


def _quantised(name: str, matrix: NDArray[np.float64]) -> Arrays:
    """Return {name: the matrix in 8-bit integers from −127 to 127, "name.scale": a float32 factor for each row}.

    Row i of `matrix` is about integers · scale[i]; the factor is the largest absolute value of the row / 127.
    """
    scale = np.maximum(np.abs(matrix).max(1), 1e-12) / 127
    return {name: np.round(matrix / scale[:, None]).astype(np.int8), f"{name}.scale": scale.astype(np.float32)}


def _domains(model: LLRNN, arrays: Arrays) -> list[dict[str, Any]]:
    """Return for each domain of the model a dict of `name`, `characters` and `edges`, for a keyboard file's header.

    A domain is a set of strings outside the vocabulary, such as numbers or spellings; `characters`: those that its
    automaton tells apart, as one string; `edges`: the lengths that separate groups of strings. Added to `arrays` in
    place: the automaton that recognises the strings, and feature classes by its label and the length of a string.
    Raises ConfigError for domains of other kinds, or automata that are too large.
    """
    found, first = list[dict[str, Any]](), model.vocabulary.n_words
    classes = {"cells": model.input_features.class_of, "output_cells": model.output_features.class_of}
    for n, domain in enumerate(model.vocabulary.domains):
        automaton, number, edges = _located(domain)
        if len(automaton.labels) > _MOST:
            raise ConfigError(f"a keyboard holds automata of {_MOST:,} states at most, found {len(automaton.labels):,}")
        arrays[f"moves.{n}"] = automaton.moves.astype(np.uint16)
        arrays[f"labels.{n}"] = (automaton.labels + 1).astype(np.uint16)
        arrays |= {f"{name}.{n}": of[first + number].astype(np.uint16) for name, of in classes.items()}
        found.append({"name": domain.name, "characters": "".join(automaton.characters), "edges": list(edges)})
        first += len(domain.cells)
    return found


def _located(domain: Domain) -> tuple[Any, NDArray[np.int64], tuple[int, ...]]:
    if isinstance(domain, Spelling):
        return domain.by_looks
    if isinstance(domain, Regular):
        return domain.language, np.arange(len(domain.cells))[:, None], ()
    raise ConfigError(f"a keyboard holds domains of patterns and spellings, found {domain!r}; train without it")
