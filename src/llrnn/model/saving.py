"""A model as a folder: plain data in JSON, tensors in safetensors, written atomically; nothing is pickled.

    save                 model.json, model-*.safetensors
    save_pretrained      config.json, model.safetensors: the names that the Hugging Face Hub looks for

Both hold what the model is, and the SHA-256 of every tensor; `llrnn.load` and every verb read both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from llrnn import __version__
from llrnn.ground.bundle import write_bundle
from llrnn.ground.errors import CheckpointError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.contextual.inputs import ContextualInput
from llrnn.knowledge.process import Process, Saved
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.controllers import Controller, described_controller
from llrnn.text.encoded import TrainingSummary
from llrnn.text.vocabulary import MANY_WORDS, Vocabulary

FEATURE_ARRAYS = ("class_of", "offsets", "columns", "values")
CONFIG, TENSORS = "config", "model.safetensors"


class Persistent(nn.Module):
    """Base class of `LLRNN` alone: declares the parts that a model has, and saves it as a folder.

    `vocabulary`; `output_features`, `input_features`: a `FeatureMatrix` each; `background`: the prior; `contextual`,
    `contextual_inputs`, `mixed`: tuples of features, inputs and further distributions that depend on the text before;
    `controller`: the network; `tied`: whether input and output weights are one; `word_dropout`: a rate; `provenance`: a
    dict for JSON of configuration and data; `training_summary`: counts of the training text, or None.
    """

    vocabulary: Vocabulary
    output_features: FeatureMatrix
    input_features: FeatureMatrix
    background: Background
    contextual: tuple[ContextualFeature, ...]
    contextual_inputs: tuple[ContextualInput, ...]
    mixed: tuple[Background, ...]
    controller: Controller
    tied: bool
    word_dropout: float
    provenance: dict[str, Any]  # how it came about: configuration, data
    training_summary: TrainingSummary | None  # what it was trained on

    @property
    def corpus_settings(self) -> Mapping[str, Any]:
        """The `corpus` table of the configuration with which the model was trained, which says how texts are read.

        {} if the model was not trained by a configuration.
        """
        settings: Mapping[str, Any] = self.provenance.get("config", {}).get("corpus", {})
        return settings

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all output features in the order of the feature weights: static ones, then contextual ones."""
        return (*self.output_features.names, *self.context_names)

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the contextual output features, in the order of their weights; () if there are none."""
        return tuple(name for feature in self.contextual for name in feature.names)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the numbers that contextual inputs give the network, in the order of rows of `input_weight`."""
        return tuple(name for one in self.contextual_inputs for name in one.names)

    def save(self, folder: str | PathLike[str], *, half: bool = False) -> None:
        """Write the model into a folder as safetensors and JSON, which `llrnn.load` reads back.

        The folder is made if needed; a model in it is replaced, as a whole or not at all. `half`: matrices of weights
        in 16 bits, which are read as float32 again. Raises CheckpointError where a weight is not finite.

            model.save("runs/mine")
        """
        data, tensors = self.checked()
        if half:  # vectors, as the bias that says what the model computes in, are kept
            tensors = {k: t.half() if k.startswith("weights.") and t.dim() > 1 else t for k, t in tensors.items()}
            require_finite(tensors)
        as_arrays = any(name.endswith("symbols.text") for name in tensors)  # its own words, or those of a background
        write_bundle(folder, "model", data, tensors, version=2 if as_arrays else 1)

    def checked(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return all that `save` writes: plain data for JSON, and tensors by name, as `described` returns them.

        Raises CheckpointError where a weight or feature value is not finite.
        """
        data, tensors = self.described()
        require_finite(tensors)
        return data, tensors

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write the model as config.json and model.safetensors, the names that the Hugging Face Hub looks for.

        `llrnn.load` reads the folder. Raises CheckpointError where a weight is not finite.

            model.save_pretrained("french")
        """
        data, tensors = self.checked()
        header = {"model_type": "llrnn", "architectures": ["LLRNN"], "llrnn_version": __version__}
        write_bundle(folder, CONFIG, data, tensors, version=2, file=TENSORS, header=header)

    def weights(self) -> dict[str, Tensor]:
        """Return all parameters as {"weights.NAME": tensor}, and buffers of the network as {"buffers.NAME": tensor}.

        NAME is the parameter's name in the model, or the buffer's in its controller. Tensors are not copied, and have
        no gradient; buffers that a state dict leaves out are not among them.
        """
        buffers, kept = dict(self.controller.named_buffers()), self.controller.state_dict().keys()
        named = {f"weights.{name}": parameter.detach() for name, parameter in self.named_parameters()}
        return named | {f"buffers.{name}": buffers[name] for name in buffers if name in kept}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy tensors into the model's weights in place, by the names that `weights()` gives them; ignore others.

        Raises CheckpointError where one is missing or has another shape.
        """
        for name, own in self.weights().items():
            if (found := weights.get(name)) is None:
                raise CheckpointError(f"the weights of {name.partition('.')[2]} are missing")
            if found.shape != own.shape:
                raise CheckpointError(
                    f"the files of the model do not fit together: found weights of {name.partition('.')[2]} of shape "
                    f"{tuple(found.shape)}, where {tuple(own.shape)} is needed"
                )
            with torch.no_grad():
                own.copy_(found)

    def described(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return all that makes up the model: a dict of plain data that JSON can hold, and a dict of tensors by name.

        The first has keys such as "controller", "output_features", "background"; the second has "weights.NAME" for
        parameters, and others such as "output_features.values". `save` writes both.
        """
        data: dict[str, Any] = {
            "unknown": self.vocabulary.unknown,
            "controller": described_controller(self.controller),
            "tied": self.tied,
            "word_dropout": self.word_dropout,
            "provenance": self.provenance,
        }
        if self.vocabulary.units is not None:
            data["units"] = self.vocabulary.units.data()
        tensors = self.weights()
        _describe_words(self.vocabulary, data, tensors)
        for i, domain in enumerate(self.vocabulary.domains):
            plain, arrays = domain.described()
            tensors.update({f"domains.{i}.{name}": torch.from_numpy(array) for name, array in arrays.items()})
            data.setdefault("domains", []).append({"plain": plain, "arrays": sorted(arrays)})
        if self.training_summary is not None:
            tensors["seen.counts"] = torch.from_numpy(self.training_summary.counts)
            tensors["seen.sentences"] = torch.from_numpy(self.training_summary.sentences)
        _describe_features("output", self.output_features, data, tensors)
        if self.input_features is not self.output_features:
            _describe_features("input", self.input_features, data, tensors)
        data["background"] = _describe_source(self.background.saved(), "background", tensors)
        groups: dict[str, Sequence[Process]] = {"contextual": self.contextual}
        if self.contextual_inputs:
            data["input_names"] = list(self.input_names)
            groups["contextual_inputs"] = self.contextual_inputs
        if self.mixed:
            groups["mixed"] = self.mixed
        for name, sources in groups.items():
            data[name] = [_describe_source(one.saved(), f"{name}.{i}", tensors) for i, one in enumerate(sources)]
        return data, tensors


def require_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if a number in the model's weights or feature values among `tensors` is NaN or infinite.

    `tensors`: by the names that `Persistent.described` gives them; others are not looked at.
    """
    for name, tensor in tensors.items():
        is_of_the_sum = name.startswith("weights.") or name.endswith("put_features.values")
        if not (is_of_the_sum and tensor.is_floating_point() and tensor.numel()):
            continue
        # by its extremes, which are nan where a number is: one pass, and nothing of its size is made
        if not all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(tensor)):
            found = tensor[~torch.isfinite(tensor)][0].item()
            raise CheckpointError(
                f"finite numbers are required, but {name} holds {found}; the model is of no use: go back to an "
                "earlier save, and train on with a lower learning rate or harder clipping"
            )


def _describe_words(vocabulary: Vocabulary, data: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Add the vocabulary's words and counts to `data` and `tensors`, in place.

    Counts are `tensors["symbols.counts"]`. Fewer than 100,000 words become the list `data["symbols"]`; more become
    further tensors "symbols.NAME", which `Spellings.from_arrays` reads.
    """
    counts = torch.tensor(vocabulary.counts[: vocabulary.n_words])
    tensors["symbols.counts"] = counts
    if vocabulary.n_words < MANY_WORDS:
        data["symbols"] = vocabulary.words
    else:
        small = int(counts.max()) < 2**31 and int(counts.min()) >= 0
        tensors["symbols.counts"] = counts.int() if small else counts  # half as much to check on opening
        arrays = vocabulary.spellings.arrays()
        tensors.update({f"symbols.{name}": torch.from_numpy(array) for name, array in arrays.items()})
        if vocabulary.is_open:
            tensors["symbols.log_left"] = torch.from_numpy(vocabulary.log_left)


def _describe_features(side: str, features: FeatureMatrix, data: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    data[f"{side}_features"] = {"names": features.names, "groups": features.groups}
    for name in FEATURE_ARRAYS:
        tensors[f"{side}_features.{name}"] = torch.from_numpy(getattr(features, name))


def _describe_source(saved: Saved, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return a saved prior or contextual feature, with its parts, as nested plain data; add its tensors to `tensors`.

    The data are {"kind", "fields", "tensors": sorted names, "parts": a list of the same for each part}. Tensors are
    added by the names "PREFIX.NAME", and those of part i by "PREFIX.i.NAME".
    """
    tensors.update({f"{prefix}.{name}": tensor for name, tensor in saved.tensors.items()})
    parts = [_describe_source(part, f"{prefix}.{i}", tensors) for i, part in enumerate(saved.parts)]
    return {"kind": saved.kind, "fields": saved.fields, "tensors": sorted(saved.tensors), "parts": parts}
