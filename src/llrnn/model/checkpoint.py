"""A model from its folder: the inverse of `LLRNN.save` and `save_pretrained`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from llrnn.ground.bundle import REQUIRED, has_bundle, names_lm, read_bundle, require_there
from llrnn.ground.errors import CheckpointError, ConfigError, LLRNNError
from llrnn.ground.files import STANDARD, parse_json, read_file
from llrnn.knowledge import backgrounds, contextual
from llrnn.knowledge.backgrounds import Background
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.knowledge.contextual import ContextualFeature, ContextualInput
from llrnn.knowledge.process import Saved
from llrnn.languages import domains
from llrnn.languages.ngrams.arpa import is_arpa, read_table
from llrnn.languages.ngrams.table import NGramTable, with_unknown
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.controllers import Controller, make_controller, skip_init
from llrnn.model.lm import open_lm, plain_model
from llrnn.model.network import LLRNN
from llrnn.model.saving import CONFIG, FEATURE_ARRAYS, require_finite
from llrnn.text import units
from llrnn.text.encoded import Oov, TrainingSummary
from llrnn.text.vocabulary import ARRAYS, Domain, Spellings, Vocabulary


class _FeatureData(BaseModel):
    names: tuple[str, ...]
    groups: tuple[str, ...]


class _SourceData(BaseModel):
    kind: str
    fields: dict[str, Any]
    tensors: list[str]
    parts: list[_SourceData]


class _DomainData(BaseModel):
    plain: dict[str, Any]
    arrays: list[str]


class _ModelData(BaseModel):
    """The pydantic schema of the JSON part of a saved model, against which it is checked before a model is built.

    Its fields are the keys of `Persistent.described()[0]`: words, controller, features, prior, contextual parts,
    provenance. Use: `_ModelData.model_validate(data)`, which raises pydantic's ValidationError.
    """

    model_config = ConfigDict(extra="forbid")

    symbols: list[str] | None = None  # None: they are tensors
    unknown: str | None
    controller: dict[str, Any]
    contextual: list[_SourceData]
    contextual_inputs: list[_SourceData] = []
    input_names: list[str] = []
    mixed: list[_SourceData] = []
    tied: bool
    word_dropout: float
    provenance: dict[str, Any]
    output_features: _FeatureData
    input_features: _FeatureData | None = None
    background: _SourceData
    domains: list[_DomainData] = []
    units: dict[str, Any] | None = None


def load(
    folder: str | PathLike[str],
    *,
    background: Background | None = None,
    contextual: Sequence[ContextualFeature] | None = None,
    contextual_inputs: Sequence[ContextualInput] | None = None,
    controller: Controller | None = None,
    device: str | torch.device = "cpu",
    verify: bool = True,
    copy: bool = False,
) -> LLRNN:
    """Return the model that `LLRNN.save` or `save_pretrained` wrote to `folder`, in eval mode.

    `folder` may be the name of an installed model, "fr" (models/french). `background` (the prior), `contextual`
    features, `contextual_inputs`: replace those in the folder, None keeps them; instances of classes that llrnn does
    not define must be given again here. So must such a `controller` (the network), made as before: its weights are
    loaded. `device`: where the model goes, cpu or cuda. `verify=False` skips the checksums, so that a large model opens
    faster; `copy=True` reads the tensors into memory, so that the files may be changed or deleted afterwards; by
    default they are memory-mapped. `open_model` also opens n-grams. Raises CheckpointError where the folder holds no
    model, or a damaged one.

        model = load("runs/paper/model", device="cuda")
    """
    name = bundle_name(folder)
    found = find_device(device)
    try:
        bundle = read_bundle(folder, name, verify=verify, copy=copy)
    except MemoryError as error:
        raise CheckpointError(f"{folder}: the model does not fit into memory ({error})") from error
    try:
        return _build(bundle.data, bundle.tensors, background, contextual, contextual_inputs, controller).to(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(f"{folder}: {place} in {name}.json is wrong ({first['msg']}); restore the file") from None
    except MemoryError as error:
        raise CheckpointError(f"{folder}: the model does not fit into memory ({error or 'MemoryError'})") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{folder}: the files of the model do not fit together ({error})") from error
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    except LLRNNError as error:
        raise CheckpointError(f"{folder}: the files of the model do not fit together: {error}") from error


def holds_model(folder: str | PathLike[str]) -> bool:
    """Return whether a folder holds an llrnn model; a config.json of another library does not count."""
    return has_bundle(folder, "model") or _model_type(Path(folder)) == "llrnn"


def bundle_name(folder: str | PathLike[str]) -> str:
    """Return the stem of a model's files in a folder: "model" (written by `save`) or "config" (by `save_pretrained`).

    "model" also where the folder holds neither, or does not exist. Raises CheckpointError for a folder of n-grams, or
    of another library.
    """
    if has_bundle(folder, "model"):
        return "model"
    if has_bundle(folder, "ngram"):
        raise CheckpointError(
            f"{folder}: a model folder is required, as `llrnn train --out` writes it, found n-grams, which "
            "evaluate, score, rescore, generate, complete and explain take, and --background"
        )
    kind = "GGUF" if names_lm(folder) else _model_type(Path(folder))
    if kind not in (None, "llrnn"):
        raise CheckpointError(
            f"{folder}: a model of llrnn is required, found one of transformers ({kind}); llrnn.open_lm(folder) and "
            "open_model open it as a model, backgrounds.HuggingFace.from_folder(folder) as a background"
        )
    return CONFIG if kind == "llrnn" else "model"


def _model_type(folder: Path) -> str | None:
    path = folder / f"{CONFIG}.json"
    try:
        found = parse_json(read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); the file is damaged, restore it") from None
    return str(found.get("model_type")) if isinstance(found, dict) else None


def find_device(device: str | torch.device) -> torch.device:
    """Return the torch device of this name: "cpu", "cuda", or "cuda:1", "cuda:2", … for one of several GPUs.

    Raises ConfigError for other names, and where the machine does not have it.
    """
    if re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", str(device)) is None:
        raise ConfigError(f"device must be cpu, cuda, or one of several GPUs such as cuda:1, found {str(device)!r}")
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device {device}: not available here ({str(error).splitlines()[0]}); use cpu") from None
    return found


def open_background(path: Path, restrict: bool = False) -> Background:
    """Return what `path` holds, a model, n-grams or a language model, as a background (prior over the next word).

    A model folder gives a `backgrounds.Model`, n-grams a `backgrounds.NGram`, what `open_lm` opens a
    `backgrounds.HuggingFace`. `restrict`: of n-grams, leave out those
    with words that the vocabulary of the model which uses them does not list (else such words are an error when the
    background is bound). Raises ConfigError where nothing is at the path. Use it as `background=` of an `LLRNN`.
    """
    if holds_model(path):
        return backgrounds.Model(load(path))
    if holds_lm(path):
        return open_lm(path).background
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder; give an ARPA file, an n-gram folder or a model folder")
    return backgrounds.NGram.from_path(path, restrict=restrict)


def _build(
    given: dict[str, Any],
    tensors: dict[str, Tensor],
    background: Background | None = None,
    context: Sequence[ContextualFeature] | None = None,
    inputs: Sequence[ContextualInput] | None = None,
    controller: Controller | None = None,
) -> LLRNN:
    data = _ModelData.model_validate(given)
    require_finite(tensors)
    words: Sequence[str] | Spellings | None = data.symbols
    if words is None:
        words = Spellings.from_arrays({name: tensors[f"symbols.{name}"].numpy() for name in ARRAYS})
    if context is None:
        sources = (_source(saved, f"contextual.{i}", tensors) for i, saved in enumerate(data.contextual))
        context = [contextual.restore(source) for source in sources]
    if inputs is None:
        sources = (_source(saved, f"contextual_inputs.{i}", tensors) for i, saved in enumerate(data.contextual_inputs))
        inputs = [contextual.restore_input(source) for source in sources]
    vocabulary = Vocabulary(
        words,
        counts=tensors["symbols.counts"].numpy(),
        unknown=data.unknown,
        domains=[_domain(saved, f"domains.{i}", tensors) for i, saved in enumerate(data.domains)],
        checked=True,
        log_left=tensors["symbols.log_left"].numpy() if "symbols.log_left" in tensors else None,
        units=None if data.units is None else units.restored(data.units),
    )
    output = _features("output", data.output_features, tensors, len(vocabulary))
    own_input = data.input_features
    model = LLRNN(
        vocabulary,
        output_features=output,
        input_features=None if own_input is None else _features("input", own_input, tensors, len(vocabulary)),
        background=background or backgrounds.restore(_source(data.background, "background", tensors)),
        controller=controller or _controller(data.controller),
        contextual=context,
        contextual_inputs=inputs,
        mixed=[backgrounds.restore(_source(one, f"mixed.{i}", tensors)) for i, one in enumerate(data.mixed)],
        tied=data.tied,
        word_dropout=data.word_dropout,
        seed=None,
    )
    _require(list(model.input_names) == data.input_names, "contextual inputs with other numbers than it was trained on")
    model.provenance = data.provenance
    if "seen.counts" in tensors:
        model.training_summary = TrainingSummary(tensors["seen.counts"].numpy(), tensors["seen.sentences"].numpy())
    model.to(tensors["weights.layer.bias"].dtype)  # float64 stays float64
    model.load_weights(tensors)
    model.eval()
    unused = {name for name in tensors if name.startswith(("weights.", "buffers."))} - model.weights().keys()
    _require(not unused, f"{', '.join(sorted(unused)[:3])}, which the model has no place for")
    return model


def holds_ngrams(path: str | PathLike[str]) -> bool:
    """Return whether a path is to be opened as n-grams: a folder that `llrnn ngram` wrote, any file or pipe, or "-".

    "-" is the standard input. A file is not opened here: models are folders, so that a file can only be an ARPA file,
    and `open_model` refuses any other. False where nothing is at the path.
    """
    is_stream = str(path) == STANDARD or (Path(path).exists() and not Path(path).is_dir())
    return is_stream or has_bundle(path, "ngram")


def holds_lm(path: str | PathLike[str]) -> bool:
    """Return whether a path is to be opened by `open_lm`: a folder of transformers, a GGUF file, or a known name."""
    if names_lm(path) or not Path(path).is_dir() or has_bundle(path, "model") or has_bundle(path, "ngram"):
        return names_lm(path)
    return _model_type(Path(path)) not in (None, "llrnn")


def open_model(path: str | PathLike[str], *, oov: Oov | None = None) -> LLRNN:
    """Return the model at `path` in eval mode: a model folder, n-grams (ARPA file, n-gram folder), or a language model.

    A language model is what `open_lm` opens: a folder of transformers, a GGUF file, "smollm2". A model folder may be
    the name of an installed one, "fr".
    `oov="skip"`: n-grams without `<unk>` can read unknown words, which evaluation then leaves out of all sums; None:
    such words are an error. It has no effect on a model folder. Raises CheckpointError where the path is none of these.

        evaluate(open_model("corpus.arpa"), Corpus.from_file("test.txt"))
    """
    require_there(path)
    if holds_lm(path):
        return open_lm(path)
    if not holds_ngrams(path):
        return load(path)
    if Path(path).is_file() and not is_arpa(path):
        raise CheckpointError(f"{path}: {REQUIRED}, but this is another file")
    table = read_table(path)
    return ngram_model(with_unknown(table) if oov == "skip" else table)


def ngram_model(table: NGramTable) -> LLRNN:
    """Return a model whose p is that of n-grams, over the words that their table lists, in eval mode.

    It has neither features nor a network.

    evaluate(ngram_model(read_arpa("corpus.arpa")), Corpus.from_file("test.txt"))
    """
    background = over_own_words(table)
    return plain_model(background.vocabulary, background)


def _controller(settings: dict[str, Any]) -> Controller:
    if settings.get("kind") == "custom":
        raise CheckpointError(
            f"the model has a controller of your own, {settings.get('class')}: make it as it was made, and give it "
            "again: load(folder, controller=...)"
        )
    with skip_init():
        return make_controller(settings)


# here, since backgrounds stand before the model
backgrounds.register("model", lambda saved, _: backgrounds.Model(_build(saved.fields, saved.tensors)))


def _features(side: str, data: _FeatureData, tensors: dict[str, Tensor], n_symbols: int) -> FeatureMatrix:
    arrays = {name: tensors[f"{side}_features.{name}"].numpy() for name in FEATURE_ARRAYS}
    for name in ("class_of", "offsets", "columns"):  # torch takes bytes in the place of indices for a mask
        found = arrays[name]
        _require(found.dtype == np.int64 and found.ndim == 1, f"{side} features with {name} of type {found.dtype}")
    matrix = FeatureMatrix(data.names, data.groups, **arrays)
    _require(matrix.n_symbols == n_symbols, f"{side} features of {matrix.n_symbols} symbols for {n_symbols}")
    for name, limit in (("class_of", matrix.n_classes), ("columns", matrix.n_features)):
        in_range = len(arrays[name]) == 0 or (arrays[name].min() >= 0 and arrays[name].max() < limit)
        _require(bool(in_range), f"{side} features with {name} out of range")
    offsets = matrix.offsets
    well_formed = offsets[0] == 0 and offsets[-1] == len(matrix.columns) == len(matrix.values)
    _require(bool(well_formed and (offsets[1:] >= offsets[:-1]).all()), f"{side} features with broken offsets")
    return matrix


def _domain(data: _DomainData, prefix: str, tensors: dict[str, Tensor]) -> Domain:
    return domains.restore(data.plain, {name: tensors[f"{prefix}.{name}"].numpy() for name in data.arrays})


def _source(data: _SourceData, prefix: str, tensors: dict[str, Tensor]) -> Saved:
    parts = tuple(_source(part, f"{prefix}.{i}", tensors) for i, part in enumerate(data.parts))
    return Saved(data.kind, data.fields, {name: tensors[f"{prefix}.{name}"] for name in data.tensors}, parts)


def _require(condition: bool, found: str) -> None:
    if not condition:
        raise CheckpointError(f"the files of the model do not fit together: found {found}")
