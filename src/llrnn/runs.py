"""The folder of a training run: the best model, the state to resume from, and the log.

model.json, model-*.safetensors            the best model so far; what `llrnn.load` reads
training.json, training-*.safetensors      weights, optimizer and progress at the last checkpoint
log.jsonl                                  one record a line
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from llrnn.bundle import has_bundle, read_bundle, write_bundle
from llrnn.errors import CheckpointError, TrainingError
from llrnn.files import write_atomically
from llrnn.model import LLRNN
from llrnn.records import Record
from llrnn.settings import TrainingSettings
from llrnn.text import Text

# A resumed run may change how long it goes on and how it reports, but nothing that changes the numbers.
_MAY_CHANGE = {"epochs", "patience", "checkpoint_every", "log_every"}


@dataclass
class Progress:
    """Where a run stands, besides its tensors."""

    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    step: int = 0
    loss_sum: float = 0.0
    words: int = 0
    learning_rate: float = 0.0
    best: float | None = None
    epochs_since_best: int = 0
    finished: bool = False


class RunFolder:
    """Reads and writes the folder of one run."""

    def __init__(
        self,
        folder: Path,
        settings: TrainingSettings,
        model: LLRNN,
        text: Text,
        valid: Text | None,
        launch: str | None = None,
    ) -> None:
        self.folder, self._launch = folder, launch
        self._settings = settings.model_dump()
        self._digests = {
            "vocabulary": model.vocabulary.digest(),
            "text": text.digest(),
            "validation text": None if valid is None else valid.digest(),
            "model": digest_of(model),
        }

    def refuse_overwriting(self) -> None:
        if has_bundle(self.folder, "training"):
            raise TrainingError(
                f"{self.folder}: holds a training run already; go on with --resume, or choose another folder"
            )

    def is_of_this_launch(self) -> bool:
        """Whether the last checkpoint was written by processes with the same launcher as this one has."""
        if self._launch is None or not has_bundle(self.folder, "training"):
            return False
        return bool(read_bundle(self.folder, "training").data.get("launch") == self._launch)

    def remove_leftovers(self) -> None:
        """Temporary files of a run that was killed while it wrote."""
        for name in ("training", "model", "log"):
            for leftover in self.folder.glob(f".{name}[-.]*"):
                leftover.unlink(missing_ok=True)

    def write(self, progress: Progress, tensors: dict[str, Tensor]) -> None:
        data: dict[str, Any] = {"settings": self._settings, "progress": asdict(progress), "digests": self._digests}
        data |= {} if self._launch is None else {"launch": self._launch}
        write_bundle(self.folder, "training", data, tensors)

    def read(self) -> tuple[Progress, dict[str, Tensor]]:
        """The last checkpoint, if it is of this run."""
        bundle = read_bundle(self.folder, "training")
        self._check_same_run(bundle.data)
        try:
            progress = Progress(**bundle.data["progress"])
        except (TypeError, KeyError) as error:
            raise CheckpointError(f"{self.folder}/training.json: the progress is damaged ({error})") from None
        self.remove_leftovers()
        self._cut_log(progress)
        # clones lie in memory as torch aligns it: a matrix product may round otherwise elsewhere
        return progress, {name: tensor.clone() for name, tensor in bundle.tensors.items()}

    def keep(self, model: LLRNN) -> None:
        """As the best so far."""
        model.save(self.folder)

    def best_weights(self) -> dict[str, Tensor]:
        return read_bundle(self.folder, "model").tensors

    def _check_same_run(self, data: dict[str, Any]) -> None:
        # a run of an earlier version: settings that came later were at their defaults
        before = TrainingSettings().model_dump() | data.get("settings", {})
        for name in sorted(self._settings.keys() - _MAY_CHANGE):
            if before.get(name) != self._settings[name]:
                raise TrainingError(
                    f"{self.folder}: the run was started with {name} = {before.get(name)!r}, now it is "
                    f"{self._settings[name]!r}; resume with the same settings, or start anew in another folder"
                )
        digests = data.get("digests", {})
        for name, digest in self._digests.items():
            if digests.get(name) != digest:
                raise TrainingError(
                    f"{self.folder}: the run was started with another {name}; resume with the same, "
                    "or start anew in another folder"
                )

    def log(self, record: Record) -> None:
        with (self.folder / "log.jsonl").open("a", encoding="utf8") as log:
            log.write(json.dumps(asdict(record)) + "\n")

    def _cut_log(self, progress: Progress) -> None:
        """Drop what a killed run logged after its last checkpoint: the resumed run will log it again."""
        path = self.folder / "log.jsonl"
        if path.exists():
            lines = [line for line in path.read_bytes().splitlines() if _logged_before(line, progress)]
            write_atomically(path, b"".join(line + b"\n" for line in lines))


class LookedOnFolder(RunFolder):
    """The folder of a run that another process writes: it is only read."""

    def refuse_overwriting(self) -> None:
        pass

    def is_of_this_launch(self) -> bool:
        return False

    def remove_leftovers(self) -> None:
        pass

    def write(self, progress: Progress, tensors: dict[str, Tensor]) -> None:
        pass

    def keep(self, model: LLRNN) -> None:
        pass

    def log(self, record: Record) -> None:
        pass

    def _cut_log(self, progress: Progress) -> None:
        pass


def digest_of(model: LLRNN) -> str:
    """SHA-256 of everything about a model but its weights; knowledge of the user's own is taken on trust."""
    data, tensors = model.described()
    del data["provenance"]
    fixed = {name: tensor for name, tensor in tensors.items() if not name.startswith(("weights.", "seen."))}
    digest = hashlib.sha256(json.dumps(_without_repr(data), sort_keys=True).encode())
    for name, tensor in sorted(fixed.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def _without_repr(data: Any) -> Any:
    """A repr may hold an address in memory, which differs in every process."""
    if isinstance(data, dict):
        return {key: _without_repr(value) for key, value in data.items() if key != "repr"}
    return [_without_repr(value) for value in data] if isinstance(data, list | tuple) else data


def _logged_before(line: bytes, progress: Progress) -> bool:
    try:
        record = json.loads(line)
    except ValueError:  # the line that was being written when the process died
        return False
    match record["event"]:
        case "step":
            return bool(record["step"] <= progress.step)
        case "epoch":
            return bool(record["epoch"] < progress.epoch)
        case _:
            return False
