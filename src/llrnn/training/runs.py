"""The folder of a training run: the best model, the state to resume from, and the log of its records.

model.json, model-*.safetensors            the best model so far; what `llrnn.load` reads
training.json, training-*.safetensors      weights, optimizer and progress at the last checkpoint
log.jsonl                                  one record a line
.run.lock                                  who trains here, while it lasts

A run holds a lock, which ends with its process however that ends. Another process that would train into the same folder
is told who holds it. Within one process the later run takes the folder over, since the earlier one may be an iterator
that somebody has left; should it go on after all, it is told before it writes.

`records = llrnn.Records(llrnn.train(...))` trains and keeps the records; `llrnn.Records.read("runs/x")` has those of a
run in a folder, finished or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import socket
from collections import UserList
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO
from weakref import WeakValueDictionary, finalize

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from torch import Tensor

from llrnn.ground.bundle import has_bundle, held_by, read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, TrainingError, quoted, warn
from llrnn.ground.files import open_file, read_file, write_atomically
from llrnn.ground.rendering import Chartable, Line, LineChart, Renderable, Sheet, Strong, TextTable
from llrnn.model.network import LLRNN
from llrnn.text.encoded import EncodedText
from llrnn.training.schedule import Schedule
from llrnn.training.settings import TrainingSettings

_HEADER = ("record", "step", "train", "valid", "best", "learning rate", "words/s")
_ROWS = 20  # of the table, two more at most


@dataclass(frozen=True)
class Record(Renderable):
    """The state of a training at one moment; prints as a line.

    `event`: step, epoch (its end), interrupted or end; `epoch` is counted from 0, `position` is how many of its
    `batches` are done, `step` how many in all; `train` is the mean loss since the epoch began, `valid` the validation
    loss at its end, `best` the least so far, in nats a word; each is None where there is none; `learning_rate`,
    `words_per_second`: floats.

        for record in train(model, corpus): print(record)
    """

    event: str
    epoch: int
    position: int
    batches: int  # batches in an epoch
    step: int
    train: float | None  # mean since the epoch began, none before its first step
    valid: float | None
    best: float | None
    learning_rate: float
    words_per_second: float

    def __str__(self) -> str:
        losses = [("train", self.train), ("valid", self.valid)]
        if self.event == "end":
            losses = [("best", self.best)]
        said = "".join(f", {name} {value:.4f}" for name, value in losses if value is not None)
        return f"{self.place}{said}, {self.words_per_second:,.0f} words/s, learning rate {self.learning_rate:g}"

    @property
    def place(self) -> str:
        if self.event == "end":
            return f"end, {self.epoch} epochs"
        epoch = f"epoch {self.epoch + 1}"
        at = epoch if self.event == "epoch" else f"{epoch}, batch {self.position} of {self.batches}"
        return f"interrupted in {at}" if self.event == "interrupted" else at

    @property
    def time(self) -> float:
        """How many epochs had been trained at this record, with fractions: 1.5 in the middle of the second."""
        return self.epoch + 1.0 if self.event == "epoch" else self.epoch + self.position / max(self.batches, 1)

    def sheet(self) -> Sheet:
        return Sheet(((str(self),),))


_adapter = TypeAdapter(Record)


class Records(UserList[Record], Chartable):
    """A list of training records that prints as a table and draws learning curves.

    `Records(train(...))` runs the training and holds its records; `Records.read` takes them from a folder.

    Records.read("runs/mine").best
    """

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Records:
        """Read the records of a run from its folder or its file `log.jsonl`; an unfinished last line is ignored.

        Raises CheckpointError where there is no log, or where it has a wrong line.
        """
        path = Path(path)
        try:
            path = path / "log.jsonl" if path.is_dir() else path
            text = read_file(path, limit=1_000_000_000).decode("utf8")
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: no such file; give the log.jsonl of a run, or the folder of the run"
            ) from None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise CheckpointError(
                f"{path}:{line}: a log of training is required, this is not UTF-8; remove the line"
            ) from None
        lines = text.split("\n")[:-1]
        return cls(_read(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip())

    @property
    def epochs(self) -> Records:
        return Records(record for record in self if record.event == "epoch")

    @property
    def best(self) -> Record | None:
        """The record of the epoch whose weights were kept: of least validation loss, or without validation the last.

        None before the end of the first epoch.
        """
        epochs = self.epochs
        judged = [record for record in epochs if record.valid is not None]
        return min(judged, key=lambda record: record.valid or 0.0) if judged else epochs[-1] if epochs else None

    @property
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Points (epochs trained, loss in nats a word) of the curves `train` and `valid`; no key for an empty one.

        One point for each epoch, or for each logged step while no epoch has ended.
        """
        shown = self.epochs or self
        found: dict[str, list[tuple[float, float]]] = {"train": [], "valid": []}
        for record in shown:
            for name, loss in (("train", record.train), ("valid", record.valid)):
                if loss is not None and math.isfinite(loss):
                    found[name].append((record.time, loss))
        return {name: curve for name, curve in found.items() if curve}

    def chart(self) -> LineChart:
        if not self.curves:
            raise TrainingError(
                f"a learning curve needs a record with a loss, found none among {len(self)} records; "
                "train for at least one step that is logged (log_every), or one epoch"
            )
        return LineChart(self.curves, "training", "epoch", "log-perplexity (nats a word)")

    def sheet(self) -> Sheet:
        blocks: list[Line | TextTable | LineChart] = [(self._summary(),)]
        if self.curves:
            blocks.append(self.chart())
        if self:
            blocks.append(TextTable(_HEADER, tuple(self._row(record) for record in self._shown())))
        return Sheet(tuple(blocks))

    def _shown(self) -> list[Record]:
        """Return the records to print: those of some 20 epochs at equal distances, with the best and the last.

        While no epoch has ended, they are logged steps instead.
        """
        found = self.epochs or self
        apart, last = max(1, math.ceil(len(found) / _ROWS)), len(found) - 1
        return [one for i, one in enumerate(found) if i % apart == 0 or i == last or one == self.best]

    def _summary(self) -> str:
        if not self:
            return "no records"
        last, best = self[-1], self.best
        kept = "" if best is None or best.valid is None else f"; best valid {best.valid:.4f} in epoch {best.epoch + 1}"
        return f"training: {len(self.epochs)} epochs, {last.step:,} steps{kept}; last: {last.place}"

    def _row(self, record: Record) -> tuple[str, ...]:
        losses = ("" if loss is None else f"{loss:.4f}" for loss in (record.train, record.valid, record.best))
        speed = f"{record.words_per_second:,.0f}"
        cells = (record.place, f"{record.step:,}", *losses, f"{record.learning_rate:g}", speed)
        return tuple(map(Strong, cells)) if record == self.best else cells


def _read(line: str, place: str) -> Record:
    try:
        return _adapter.validate_json(line)
    except ValidationError as error:
        found = error.errors()[0]
        field = ".".join(map(str, found["loc"])) or "it"
        wrong = "found no JSON" if found["type"] == "json_invalid" else f"{field}: {found['msg']}"
        raise CheckpointError(
            f"{place}: a record of training is required, {wrong}; found {line[:60]!r}; remove the line"
        ) from None


# A resumed run may change how long it goes on and how it reports, but nothing that changes the numbers.
_MAY_CHANGE = {"epochs", "patience", "checkpoint_every", "log_every"}

Count = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Real = Annotated[float, Field(strict=True)]


@dataclass
class Progress:
    """How far a training run has come, as it is written to checkpoints.

    Counts are ints from 0. `epoch`: epochs done, `position`: batches done in the next, `step`: updates done; `loss_sum`
    (Σ mean loss · words of each batch, nats) and `words` are of this epoch so far; `learning_rate`: the present one;
    `best` is the least validation loss in nats a word, None before one; `epochs_since_best` counts towards patience;
    `average_since`: the update from which all weights count equally in their average, None before it; `epochs`: how
    many there are to be, None: as many as the settings say; `finished`: nothing is left to do.
    """

    epoch: Count = 0
    position: Count = 0  # batches of this epoch that are done
    step: Count = 0
    loss_sum: Real = 0.0
    words: Count = 0
    learning_rate: Real = 0.0
    best: Real | None = None
    epochs_since_best: Count = 0
    average_since: Count | None = None
    epochs: Count | None = None  # where `replan` has said so
    finished: bool = False


class _Checkpoint(BaseModel):
    """The JSON data of a checkpoint, validated on reading by pydantic, which raises ValidationError.

    `progress`: where training stands; `settings`: the training settings by name; `digests`: a digest of each text and
    of the model; `config`: the model's configuration, empty where there is none.
    """

    progress: Progress
    settings: dict[str, Any] = {}
    digests: dict[str, str | None] = {}  # none of a text that is not there
    config: dict[str, Any] = {}  # that of the model, where it has one


def _keys(config: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested dicts as (dotted key, value); `before`: a prefix of each key."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


class RunFolder:
    """The folder of one training run, through which the run reads and writes checkpoints, log and best model.

    `settings`, `model`, `schedule` (the training texts) and `valid` (the validation text, or None) are what the run
    trains: a checkpoint of anything else is refused. `launch`: an id of what started the processes of the run, None for
    a single process. Call `hold()`, then `read()` or `write(...)`, and `release()` at the end.
    """

    def __init__(
        self,
        folder: Path,
        settings: TrainingSettings,
        model: LLRNN,
        schedule: Schedule,
        valid: EncodedText | None,
        launch: str | None = None,
    ) -> None:
        self.folder, self._launch = folder, launch
        self.last_speed = 0.0  # words a second, where a run is resumed
        self._lock: _Lock | None = None
        self._settings, self._defaults = settings.model_dump(), type(settings)().model_dump()
        self._config = dict(_keys(model.provenance.get("config", {})))
        self._digests = {
            "vocabulary": model.vocabulary.digest(),
            "text": schedule.own.digest(),
            "set of other texts": schedule.others_digest(),
            "validation text": None if valid is None else valid.digest(),
            "model": model_digest(model),
        }

    def hold(self) -> None:
        """Create the folder if missing and lock it, so that no other process trains into it.

        Raises TrainingError where another process does, CheckpointError where the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _Lock(self.folder)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(f"{self.folder}: cannot write the training: {reason}") from error

    def release(self) -> None:
        """Release the lock on the folder, if this run holds it."""
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
        """Whether the last checkpoint was written by processes of the same torchrun, which has restarted them.

        False without torchrun or checkpoint.
        """
        known = self._launch is not None and self.has_run()
        return known and bool(read_bundle(self.folder, "training").data.get("launch") == self._launch)

    def remove_leftovers(self) -> None:
        """Remove temporary files that a killed training run left in the folder."""
        for name in ("training", "model", "log"):
            for leftover in self.folder.glob(f".{name}[-.]*"):
                leftover.unlink(missing_ok=True)

    def write(self, progress: Progress, tensors: dict[str, Tensor]) -> None:
        self.require_held()
        data: dict[str, Any] = {"settings": self._settings, "progress": asdict(progress), "digests": self._digests}
        data["config"] = self._config
        data |= {} if self._launch is None else {"launch": self._launch}
        write_bundle(self.folder, "training", data, tensors)

    def read(self) -> tuple[Progress, dict[str, Tensor]]:
        """Return progress and tensors of the last checkpoint, and remove later records from the log.

        Raises TrainingError where the run had other settings, texts or another model; CheckpointError where the
        checkpoint is missing or damaged.
        """
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
        """Save the model in the folder as the best of the run so far.

        Raises TrainingError where a later run of this process has taken the folder over.
        """
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
                    f"{self.folder}: the run was started with another {name}{self._other_keys(kept.config)}; resume "
                    "with the same, or start anew in another folder"
                )

    def _other_keys(self, before: dict[str, Any]) -> str:
        """Return ` (key = OLD, now NEW; ...)` of the configuration keys whose values differ from this run's.

        For a message; keys of `training` are not looked at; empty where none differs. `before`: the values of the saved
        run by dotted key.
        """
        both, now = before | self._config, self._config
        other = [name for name in both if before.get(name) != now.get(name) and not name.startswith("training.")]
        listed = (f"{name} = {quoted(before.get(name))}, now {quoted(now.get(name))}" for name in other)
        return f" ({'; '.join(listed)})" if before and other else ""

    def log(self, record: Record) -> None:
        self.require_held()
        path = self.folder / "log.jsonl"
        try:
            with path.open("a", encoding="utf8") as log:
                log.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            raise CheckpointError(f"{path}: cannot write the log: {error.strerror or error}; make room") from error

    def _cut_log(self, progress: Progress) -> None:
        """Remove records later than `progress` from the log, which a killed run wrote after its last checkpoint.

        The resumed run will log them again. A line that was cut off is removed with a warning.
        """
        path = self.folder / "log.jsonl"
        if path.exists():
            with open_file(path) as file:
                file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
                last = file.read()
            if last not in (b"", b"\n"):
                warn(f"{path}: the last line was being written when the run was stopped; it is left out")
            records = [
                record
                for record in Records.read(path)
                if (record.event == "step" and record.step <= progress.step)
                or (record.event == "epoch" and record.epoch < progress.epoch)
            ]
            self.last_speed = records[-1].words_per_second if records else 0.0
            write_atomically(path, "".join(json.dumps(asdict(record)) + "\n" for record in records).encode())


class ReadOnlyRunFolder(RunFolder):
    """The folder of a run as the processes that do not lead a training see it: they read, the leading one writes.

    All methods that write or lock do nothing.
    """

    def _skip(self, *_: Any, **__: Any) -> None:
        pass

    hold = refuse_overwriting = remove_leftovers = write = keep = log = _cut_log = _skip

    def is_of_this_launch(self) -> bool:
        return False


class _Lock:
    """A lock on a folder, held from creation to `release()`: the locked file `.run.lock`, which names the process.

    Raises TrainingError where another process holds it; an earlier lock of this process on the folder is released.
    """

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
    """Return the SHA-256, in hex, of what a model is without its weights: vocabulary, features, prior, network.

    Provenance and the code of the user's own classes are not hashed.
    """
    data, tensors = model.described()
    del data["provenance"]
    fixed = {name: tensor for name, tensor in tensors.items() if not name.startswith(("weights.", "buffers.", "seen."))}
    digest = hashlib.sha256(json.dumps(_without_repr(data), sort_keys=True).encode())
    for name, tensor in sorted(fixed.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def _without_repr(data: Any) -> Any:
    """Return a copy of nested dicts and lists without keys `repr`, whose memory addresses differ in every process."""
    if isinstance(data, dict):
        return {key: _without_repr(value) for key, value in data.items() if key != "repr"}
    return [_without_repr(value) for value in data] if isinstance(data, list | tuple) else data
