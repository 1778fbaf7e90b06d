"""The folder of a training run: the best model, the state to resume from, and the log.

model.json, model-*.safetensors            the best model so far; what `llrnn.load` reads
training.json, training-*.safetensors      weights, optimizer and progress at the last checkpoint
log.jsonl                                  one record a line
.run.lock                                  who trains here, while it lasts

A run holds a lock, which ends with its process however that ends. Another process that would train into the same folder
is told who holds it. Within one process the later run takes the folder over, since the earlier one may be an iterator
that somebody has left; should it go on after all, it is told before it writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO
from weakref import WeakValueDictionary, finalize

from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from llrnn.ground.bundle import has_bundle, held_by, read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, TrainingError, warn
from llrnn.ground.files import write_atomically
from llrnn.model.network import LLRNN
from llrnn.text.ids import EncodedText
from llrnn.training.records import Record, Records
from llrnn.training.settings import TrainingSettings

# A resumed run may change how long it goes on and how it reports, but nothing that changes the numbers.
_MAY_CHANGE = {"epochs", "patience", "checkpoint_every", "log_every"}

Count = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Real = Annotated[float, Field(strict=True)]


@dataclass
class Progress:
    """Where a run stands, besides its tensors."""

    epoch: Count = 0
    position: Count = 0  # batches of this epoch that are done
    step: Count = 0
    loss_sum: Real = 0.0
    words: Count = 0
    learning_rate: Real = 0.0
    best: Real | None = None
    epochs_since_best: Count = 0
    finished: bool = False


class _Checkpoint(BaseModel):
    """The data of a checkpoint, as they are read."""

    progress: Progress
    settings: dict[str, Any] = {}
    digests: dict[str, str | None] = {}  # none of a text that is not there


class RunFolder:
    """Reads and writes the folder of one run."""

    def __init__(
        self,
        folder: Path,
        settings: TrainingSettings,
        model: LLRNN,
        text: EncodedText,
        valid: EncodedText | None,
        launch: str | None = None,
    ) -> None:
        self.folder, self._launch = folder, launch
        self._lock: _Lock | None = None
        self._settings, self._defaults = settings.model_dump(), type(settings)().model_dump()
        self._digests = {
            "vocabulary": model.vocabulary.digest(),
            "text": text.digest(),
            "validation text": None if valid is None else valid.digest(),
            "model": model_digest(model),
        }

    def hold(self) -> None:
        """From now on this run, and no other, writes here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _Lock(self.folder)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(f"{self.folder}: cannot write the training: {reason}") from error

    def release(self) -> None:
        """Others may write here again."""
        if self._lock is not None:
            self._lock.release()

    def require_held(self) -> None:
        if self._lock is not None and not self._lock.is_held:
            raise TrainingError(
                f"{self.folder}: a later run of this process has taken the folder over; go on with that one, "
                "or choose another folder"
            )

    def has_run(self) -> bool:
        return has_bundle(self.folder, "training")

    def refuse_overwriting(self) -> None:
        found = held_by(self.folder)
        if found is not None:
            go_on = "go on with --resume, or " if self.has_run() else ""
            raise TrainingError(f"{self.folder}: holds {found} already; {go_on}choose another folder")

    def is_of_this_launch(self) -> bool:
        """Whether the last checkpoint was written by processes with the same launcher as this one has."""
        known = self._launch is not None and self.has_run()
        return known and bool(read_bundle(self.folder, "training").data.get("launch") == self._launch)

    def remove_leftovers(self) -> None:
        """Temporary files of a run that was killed while it wrote."""
        for name in ("training", "model", "log"):
            for leftover in self.folder.glob(f".{name}[-.]*"):
                leftover.unlink(missing_ok=True)

    def write(self, progress: Progress, tensors: dict[str, Tensor]) -> None:
        self.require_held()
        data: dict[str, Any] = {"settings": self._settings, "progress": asdict(progress), "digests": self._digests}
        data |= {} if self._launch is None else {"launch": self._launch}
        write_bundle(self.folder, "training", data, tensors)

    def read(self) -> tuple[Progress, dict[str, Tensor]]:
        """The last checkpoint, if it is of this run."""
        bundle = read_bundle(self.folder, "training")
        try:
            kept = _Checkpoint.model_validate(bundle.data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))[:80]
            raise CheckpointError(
                f"{self.folder}/training.json: what a checkpoint says of its run is required, but {where} is wrong: "
                f"{first['msg']}; restore the folder from a copy, or start anew in another"
            ) from None
        self._check_same_run(kept)
        self.remove_leftovers()
        self._cut_log(kept.progress)
        # clones lie in memory as torch aligns it: a matrix product may round otherwise elsewhere
        return kept.progress, {name: tensor.clone() for name, tensor in bundle.tensors.items()}

    def keep(self, model: LLRNN) -> None:
        """As the best so far."""
        self.require_held()
        model.save(self.folder)

    def best_weights(self) -> dict[str, Tensor]:
        return read_bundle(self.folder, "model").tensors

    def _check_same_run(self, kept: _Checkpoint) -> None:
        # a run of an earlier version: settings that came later were at their defaults
        before = self._defaults | kept.settings
        for name in sorted(self._settings.keys() - _MAY_CHANGE):
            if before.get(name) != self._settings[name]:
                raise TrainingError(
                    f"{self.folder}: the run was started with {name} = {before.get(name)!r}, now it is "
                    f"{self._settings[name]!r}; resume with the same settings, or start anew in another folder"
                )
        for name, digest in self._digests.items():
            if kept.digests.get(name) != digest:
                raise TrainingError(
                    f"{self.folder}: the run was started with another {name}; resume with the same, "
                    "or start anew in another folder"
                )

    def log(self, record: Record) -> None:
        self.require_held()
        with (self.folder / "log.jsonl").open("a", encoding="utf8") as log:
            log.write(json.dumps(asdict(record)) + "\n")

    def _cut_log(self, progress: Progress) -> None:
        """Drop what a killed run logged after its last checkpoint: the resumed run will log it again."""
        path = self.folder / "log.jsonl"
        if path.exists():
            if path.read_bytes()[-1:] not in (b"", b"\n"):
                warn(f"{path}: the last line was being written when the run was stopped; it is left out")
            records = (
                record
                for record in Records.read(path)
                if (record.event == "step" and record.step <= progress.step)
                or (record.event == "epoch" and record.epoch < progress.epoch)
            )
            write_atomically(path, "".join(json.dumps(asdict(record)) + "\n" for record in records).encode())


class ReadOnlyRunFolder(RunFolder):
    """The folder of a run that another process writes: it is only read."""

    def _skip(self, *_: Any, **__: Any) -> None:
        pass

    hold = refuse_overwriting = remove_leftovers = write = keep = log = _cut_log = _skip

    def is_of_this_launch(self) -> bool:
        return False


class _Lock:
    """A lock on a folder that says whose it is."""

    release: Callable[[], object]
    _known: ClassVar[WeakValueDictionary[Path, _Lock]] = WeakValueDictionary()  # a run that nobody has any more lets go

    def __init__(self, folder: Path) -> None:
        self._path = folder.resolve() / ".run.lock"
        self._process = os.getpid()
        earlier = self._known.get(self._path)
        if earlier is not None and earlier._process == self._process:  # after a fork, the lock is the parent's
            earlier.release()
        self._file = self._locked()
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()
        self._known[self._path] = self
        # also when nobody has it any more
        self.release = finalize(self, _let_go, self._file, self._path, self._process)

    @property
    def is_held(self) -> bool:
        return not self._file.closed

    def _locked(self) -> TextIO:
        while True:
            file = self._path.open("a+", encoding="utf8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read(200).strip() or "another process"
                file.close()
                raise TrainingError(
                    f"{self._path.parent}: {holder} trains into this folder; wait for it or stop it, "
                    "or choose another folder"
                ) from None
            except OSError:  # a file system without locks
                return file
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self._path).st_ino == os.fstat(file.fileno()).st_ino:
                    return file
            file.close()  # the former holder has removed it since it was opened: the next one is another file


def _let_go(file: TextIO, path: Path, process: int) -> None:
    if os.getpid() == process:  # a forked one has a copy of what is the parent's
        path.unlink(missing_ok=True)  # before it is given free: nobody else has it yet
    file.close()


def model_digest(model: LLRNN) -> str:
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
