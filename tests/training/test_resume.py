"""Resuming, bit for bit: after a stop, after a kill at any moment, and from the command line after Ctrl-C.

Run as a script, this file is the process that gets killed: see `kill_everywhere`.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import HANG, script_environment
from llrnn import GRU, LLRNN, LSTM, Corpus, load
from llrnn.ground.bundle import has_bundle, read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, LLRNNWarning, TrainingError
from llrnn.knowledge.backgrounds import Mask
from llrnn.knowledge.contextual import Repeated
from llrnn.training.loop import train
from llrnn.training.runs import Record, RunFolder
from test_training import ALL, BATCHES, OPTIMIZERS, TRAIN, VALID, equal, strict, tiny, weights

Maker = Callable[[], LLRNN]


def dropping() -> LLRNN:
    return tiny(controller=LSTM(6, layers=2, dropout=0.3), word_dropout=0.2)


def never_twice(condition: object, prefix: tuple[str, ...]) -> list[str]:
    """Words of the sentence so far that no sentence of the corpus repeats."""
    return [word for word in set(prefix) if word not in _REPEATED]


_REPEATED = {word for sentence in ALL for word in sentence.words if sentence.words.count(word) > 1}


def knowing() -> LLRNN:
    """Knowledge that follows the prefix, so that its states must be found again."""
    return tiny(
        background=Mask(forbidden=never_twice),
        contextual=[Repeated(window=7)],
        controller=GRU(6, dropout=0.2),
    )


class StopAfter:
    """Asks to stop after so many steps of this process."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


GIVEN: dict[str, Any] = {"valid": VALID, "epochs": 3, "log_every": 1, "checkpoint_every": 4, "learning_rate": 0.01}


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The log without the speed, which no two runs share."""
    records = [strict(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "words_per_second"} for record in records]


def undisturbed(make: Maker, folder: Path, **given: Any) -> LLRNN:
    model = make()
    assert list(train(model, TRAIN, folder=folder, **{**GIVEN, **given}))[-1].event == "end"
    return model


def stopped_often(make: Maker, folder: Path, stops: list[int], **given: Any) -> tuple[LLRNN, list[Record]]:
    """Stop after each of these numbers of steps, each time in a fresh model as in a fresh process; then finish."""
    last = []
    for index, stop in enumerate([*stops, 10**9]):
        model = make()
        for parameter in model.parameters():  # nothing may be taken over but what is on disk
            parameter.data.fill_(0.123)
        if index == 0:
            model = make()
        chosen = {**GIVEN, **given}
        records = train(model, TRAIN, folder=folder, resume=index > 0, should_stop=StopAfter(stop), **chosen)
        last.append(list(records)[-1])
    return model, last


def assert_same_run(wanted: Path, found: Path) -> None:
    """The best model, the last state and the log are the same, to the last bit."""
    for name in ("model", "training"):
        one, other = (read_bundle(folder, name) for folder in (wanted, found))
        assert one.data == other.data
        assert equal(one.tensors, other.tensors)
    assert log_of(wanted) == log_of(found)


# --- stopped and resumed ------------------------------------------------------------------------------------------


# every optimizer with one way to make batches, and every way with one optimizer; CI has all pairs
_PAIRS = [
    pytest.param(optimizer, batches, marks=[] if (i - j) % 3 == 0 or i == 0 else [pytest.mark.slow])
    for i, optimizer in enumerate(OPTIMIZERS)
    for j, batches in enumerate(BATCHES)
]


@pytest.mark.parametrize(("optimizer", "batches"), _PAIRS)
def test_a_stopped_run_comes_out_the_same(optimizer: str, batches: str, tmp_path: Path) -> None:
    given = {**OPTIMIZERS[optimizer], "batches": BATCHES[batches], "halve_after": 1}
    wanted = undisturbed(dropping, tmp_path / "whole", **given)
    per_epoch = log_of(tmp_path / "whole")[0]["batches"]
    stops = [1, 0, 2, per_epoch - 3, 1, per_epoch]  # in mid-epoch, without a step, and at the very end of an epoch
    found, last = stopped_often(dropping, tmp_path / "parts", stops, **given)
    assert [record.event for record in last] == [*["interrupted"] * len(stops), "end"]
    assert [(r.epoch, r.position) for r in last[3:6]] == [(1, 0), (1, 1), (2, 1)]
    assert equal(weights(found), weights(wanted))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_averaged_weights_come_out_the_same(tmp_path: Path) -> None:
    """What is kept is the average, and a stopped run goes on with it."""
    given = {"batches": BATCHES["sentences"], "average": 0.9, "epochs": 2}
    wanted = undisturbed(dropping, tmp_path / "whole", **given)
    found, _ = stopped_often(dropping, tmp_path / "parts", [1, 2, 1], **given)
    assert equal(weights(found), weights(wanted))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    plain = undisturbed(dropping, tmp_path / "plain", **{**given, "average": None})
    assert not equal(weights(plain), weights(wanted))


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES.keys())
def test_knowledge_that_follows_the_text_is_found_again(batches: dict[str, Any], tmp_path: Path) -> None:
    wanted = undisturbed(knowing, tmp_path / "whole", batches=batches, epochs=2)
    found, _ = stopped_often(knowing, tmp_path / "parts", [1, 2, 3, 1], batches=batches, epochs=2)
    assert equal(weights(found), weights(wanted))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("batches", [BATCHES["sentences"], BATCHES["continuous"]], ids=["sentences", "continuous"])
def test_a_run_that_was_left_after_any_record_comes_out_the_same(batches: dict[str, Any], tmp_path: Path) -> None:
    """As if the process had died there: nothing is written but what was written already."""
    given = {**GIVEN, "batches": batches, "epochs": 2, "checkpoint_every": 3, "log_every": 2}
    text = TRAIN[:15]
    list(train(dropping(), text, folder=tmp_path / "whole", **given))
    n_records = len(log_of(tmp_path / "whole"))
    assert n_records >= 5
    for left_after in range(n_records):
        folder = tmp_path / f"left after {left_after}"
        records = train(dropping(), text, folder=folder, **given)
        for _ in range(left_after):
            next(records)
        records.close()  # type: ignore[attr-defined]
        list(train(dropping(), text, folder=folder, resume=True, **given))
        assert_same_run(tmp_path / "whole", folder)


def test_patience_and_the_best_weights_survive_a_stop(tmp_path: Path) -> None:
    """A learning rate that ruins the model: the first epochs are the best, and patience runs out."""
    given = {"epochs": 30, "patience": 3, "learning_rate": 0.3, "batches": BATCHES["windows"], "halve_after": 2}
    wanted = undisturbed(dropping, tmp_path / "whole", **given)
    log = log_of(tmp_path / "whole")
    assert log[-1]["epoch"] < 30
    assert log[-1]["learning_rate"] < 0.3
    per_epoch = log[0]["batches"]
    best = next(r["epoch"] for r in log if r["event"] == "epoch" and r["valid"] == log[-1]["best"])
    assert best == log[-1]["epoch"] - 1 - 3
    stops = [per_epoch, per_epoch * best + 2, per_epoch]  # the last two after the best epoch
    found, _ = stopped_often(dropping, tmp_path / "parts", stops, **given)
    assert equal(weights(found), weights(wanted))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_finished_run_goes_on_with_more_epochs(tmp_path: Path) -> None:
    undisturbed(dropping, tmp_path / "long", epochs=4)
    undisturbed(dropping, tmp_path / "short", epochs=2)
    given = {**GIVEN, "epochs": 4, "checkpoint_every": 100, "patience": 7}  # how often and how long may change too
    model = dropping()
    records = list(train(model, TRAIN, folder=tmp_path / "short", resume=True, **given))
    assert records[0].epoch == 2
    assert log_of(tmp_path / "short") == log_of(tmp_path / "long")
    assert equal(weights(model), weights(load(tmp_path / "long")))


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    wanted = undisturbed(dropping, tmp_path)
    before = log_of(tmp_path)
    model = dropping()
    records = list(train(model, TRAIN, folder=tmp_path, resume=True, **GIVEN))
    assert [record.event for record in records] == ["end"]
    assert equal(weights(model), weights(wanted))
    assert log_of(tmp_path) == before


# --- what is refused ----------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    undisturbed(tiny, tmp_path, epochs=1)
    before = contents(tmp_path)
    with pytest.raises(TrainingError, match="holds a training run already; go on with --resume"):
        train(tiny(), TRAIN, folder=tmp_path, **GIVEN)
    assert contents(tmp_path) == before


HOLDER = """
import sys
from pathlib import Path
from llrnn.training.runs import _Lock
lock = _Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_that_trains_into_the_folder_is_named(tmp_path: Path) -> None:
    undisturbed(tiny, tmp_path, epochs=1)
    before = contents(tmp_path)
    given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], **given) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        named = rf"process {holder.pid} on \S+ trains into this folder; wait for it or stop it"
        with pytest.raises(TrainingError, match=named):
            train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)
        holder.kill()  # it holds nothing any more
    assert {**contents(tmp_path), ".run.lock": b""} == {**before, ".run.lock": b""}
    assert list(train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN))[-1].event == "end"
    assert ".run.lock" not in contents(tmp_path)


def test_a_later_run_of_the_same_process_takes_the_folder_over(tmp_path: Path) -> None:
    left = train(tiny(), TRAIN, folder=tmp_path, **GIVEN)
    next(left)
    assert list(train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN))[-1].event == "end"
    after = contents(tmp_path)
    with pytest.raises(TrainingError, match="a later run of this process has taken the folder over"):
        list(left)
    assert contents(tmp_path) == after


def test_a_run_that_fails_to_begin_or_is_left_holds_nothing(tmp_path: Path) -> None:
    undisturbed(tiny, tmp_path, epochs=1)
    with pytest.raises(TrainingError, match="learning_rate"):
        train(tiny(), TRAIN, folder=tmp_path, resume=True, **{**GIVEN, "learning_rate": 0.5})
    assert ".run.lock" not in contents(tmp_path)
    records = train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)
    assert ".run.lock" in contents(tmp_path)
    next(records)
    records.close()  # type: ignore[attr-defined]
    assert ".run.lock" not in contents(tmp_path)


def test_a_folder_that_holds_a_model_is_not_overwritten(tmp_path: Path) -> None:
    tiny().save(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(TrainingError, match="holds a model already; choose another folder"):
        train(tiny(), TRAIN, folder=tmp_path, **GIVEN)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("broken", [b"garbage", b"{}", b"[]", b'{"event": 5}', b"\xff", b"[" * 9000, b"1" * 9000])
def test_a_broken_line_in_a_log_is_named_and_its_removal_is_the_cure(tmp_path: Path, broken: bytes) -> None:
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **GIVEN))
    log = tmp_path / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(broken + b"\n" + whole)
    with pytest.raises(CheckpointError, match=r"log\.jsonl:1: a .* of training is required.*; remove the line"):
        train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)
    log.write_bytes(whole)
    next(train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.02}, r"started with learning_rate = 0.01, now it is 0.02; resume with the same settings"),
        ({"seed": 1}, "seed = 0, now it is 1"),
        ({"optimizer": "sgd"}, "optimizer = 'adamw', now it is 'sgd'"),
        ({"batches": BATCHES["windows"]}, "batches = .*sentences.*now it is .*sliding"),
        ({"batches": {"kind": "sentences", "words": 121}}, "batches"),
        ({"clip": None}, "clip = 5.0, now it is None"),
        ({"halve_after": 2}, "halve_after"),
    ],
)
def test_changed_settings_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = {**GIVEN, "batches": BATCHES["sentences"], "epochs": 1}
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **given))
    before = contents(tmp_path)
    with pytest.raises(TrainingError, match=message):
        train(tiny(), TRAIN, folder=tmp_path, resume=True, **{**given, **changes})
    assert contents(tmp_path) == before


REVERSED = Corpus(TRAIN.sentences[::-1])


@pytest.mark.parametrize(
    ("make", "corpus", "valid", "message"),
    [
        (tiny, REVERSED, VALID, "another text"),
        (tiny, TRAIN[:-1], VALID, "another text"),
        (tiny, TRAIN, VALID[:-1], "another validation text"),
        (tiny, TRAIN, None, "another validation text"),
        (dropping, TRAIN, VALID, "another model"),
        (lambda: tiny(word_dropout=0.1), TRAIN, VALID, "another model"),
        (lambda: tiny(background=None), TRAIN, VALID, "another model"),
        (lambda: tiny(contextual=[Repeated()]), TRAIN, VALID, "another model"),
    ],
)
def test_another_text_or_model_is_refused(
    make: Maker, corpus: Corpus, valid: Corpus | None, message: str, tmp_path: Path
) -> None:
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **GIVEN))
    before = contents(tmp_path)
    with pytest.raises(TrainingError, match=f"{message}; resume with the same, or start anew"):
        train(make(), corpus, folder=tmp_path, resume=True, **{**GIVEN, "valid": valid})
    assert contents(tmp_path) == before


def test_the_key_that_has_changed_is_named(tmp_path: Path) -> None:
    def told(hidden: int, name: str) -> LLRNN:
        made = tiny(word_dropout=hidden / 100)
        made.provenance["config"] = {
            "name": name,
            "controller": {"kind": "gru", "hidden": hidden},
            "training": {"x": 1},
        }
        return made

    list(train(told(4, "a"), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **GIVEN))
    with pytest.raises(
        TrainingError, match=r"another model \(name = 'a', now 'b'; controller.hidden = 4, now 8\); resume"
    ):
        train(told(8, "b"), TRAIN, folder=tmp_path, resume=True, **GIVEN)
    assert list(train(told(4, "b"), TRAIN, folder=tmp_path, resume=True, **GIVEN))[-1].event == "end"


def test_a_run_that_is_resumed_at_its_end_keeps_its_speed(tmp_path: Path) -> None:
    before = list(train(tiny(), TRAIN, folder=tmp_path, **GIVEN))[-2]
    (end,) = train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)
    assert (end.event, end.words_per_second) == ("end", before.words_per_second)
    assert end.words_per_second > 0


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="needs the folder of the run"):
        train(tiny(), TRAIN, resume=True)
    with pytest.raises(CheckpointError, match="no such folder"):
        train(tiny(), TRAIN, folder=tmp_path / "nowhere", resume=True)
    with pytest.raises(CheckpointError, match=r"training.json: missing"):
        train(tiny(), TRAIN, folder=tmp_path, resume=True)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **GIVEN))
    (data,) = tmp_path.glob("training-*.safetensors")
    content = bytearray(data.read_bytes())
    content[-3] ^= 1
    data.write_bytes(content)
    with pytest.raises(CheckpointError, match="altered after saving"):
        train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)


@pytest.mark.parametrize(
    ("key", "value"),
    [("settings", "none"), ("digests", [1]), ("progress", None), ("epoch", -1), ("step", 10**30), ("best", "good")],
)
def test_a_sealed_state_of_wrong_content_is_refused(tmp_path: Path, key: str, value: object) -> None:
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **GIVEN))
    state = read_bundle(tmp_path, "training")
    data = {**state.data, "progress": dict(state.data["progress"])}
    (data if key in data else data["progress"])[key] = value
    write_bundle(tmp_path, "training", data, state.tensors)
    with pytest.raises(CheckpointError, match=rf"training\.json: .*{key} is wrong: "):
        train(tiny(), TRAIN, folder=tmp_path, resume=True, **GIVEN)


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop"])
def test_a_sealed_state_of_the_optimizer_that_is_not_whole_is_refused(tmp_path: Path, optimizer: str) -> None:
    """Each entry of the first parameter in turn: left out, of another shape, of no parameter."""
    given = {**GIVEN, "optimizer": optimizer}
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **given))
    state = read_bundle(tmp_path, "training")
    entries = [name for name in state.tensors if name.startswith("optimizer.0.")]
    assert entries
    for name in entries:
        others = {key: tensor for key, tensor in state.tensors.items() if key != name}
        odd = {
            f"{name} must be of shape": {**others, name: torch.zeros(2, 3, 5)},
            "names no parameter": {**others, name.replace(".0.", ".x."): state.tensors[name]},
            "names no parameter by": {**others, name.replace(".0.", f".{'0' * 5_000}."): state.tensors[name]},
        }
        if len(entries) > 1:  # a parameter without any was never updated
            odd[f"{name} is missing"] = others
        for message, tensors in odd.items():
            write_bundle(tmp_path, "training", state.data, tensors)
            with pytest.raises(CheckpointError, match=f"the optimizer is not whole: .*{message}"):
                train(tiny(), TRAIN, folder=tmp_path, resume=True, **given)


@pytest.mark.parametrize("name", ["weights.layer.bias", "average.0"])
def test_a_sealed_state_without_a_tensor_names_its_folder(tmp_path: Path, name: str) -> None:
    given = {**GIVEN, "average": 0.9}
    list(train(tiny(), TRAIN, folder=tmp_path, should_stop=StopAfter(2), **given))
    state = read_bundle(tmp_path, "training")
    assert name in state.tensors
    others = {key: tensor for key, tensor in state.tensors.items() if key != name}
    for tensors in (others, {**others, name: torch.zeros(2, 3, 5)}):
        write_bundle(tmp_path, "training", state.data, tensors)
        with pytest.raises(CheckpointError, match=rf"{tmp_path.name}/training\.json: .*; restore the folder"):
            train(tiny(), TRAIN, folder=tmp_path, resume=True, **given)
    write_bundle(tmp_path, "training", state.data, state.tensors)
    assert list(train(tiny(), TRAIN, folder=tmp_path, resume=True, **given))


def test_what_a_killed_run_left_behind_is_removed(tmp_path: Path) -> None:
    leftovers = [".training.json.abc", ".training-12.safetensors.x", ".model.json.y", ".model-3.safetensors.z"]
    leftovers += [".log.jsonl.q"]
    for resume in (False, True):
        for name in leftovers:
            (tmp_path / name).write_bytes(b"half a file")
        (tmp_path / "training-0123456789abcdef.safetensors").write_bytes(b"of no manifest")
        (tmp_path / ".mine").write_bytes(b"not ours to remove")
        list(train(tiny(), TRAIN, folder=tmp_path, resume=resume, **{**GIVEN, "epochs": 2 if resume else 1}))
        assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == [
            ".mine", "log.jsonl", "model", "model.json", "training", "training.json",
        ]  # fmt: skip


def test_a_torn_line_of_the_log_is_mended(tmp_path: Path) -> None:
    undisturbed(dropping, tmp_path / "whole")
    list(train(dropping(), TRAIN, folder=tmp_path / "torn", should_stop=StopAfter(6), **GIVEN))
    with (tmp_path / "torn" / "log.jsonl").open("a") as log:
        log.write('{"event": "step", "epo')
    with pytest.warns(LLRNNWarning, match=r"log\.jsonl: the last line was being written .* left out"):
        list(train(dropping(), TRAIN, folder=tmp_path / "torn", resume=True, **GIVEN))
    assert_same_run(tmp_path / "whole", tmp_path / "torn")


# --- killed at every moment of writing ----------------------------------------------------------------------------


KILLED: dict[str, Any] = {
    "valid": VALID[:4], "epochs": 2, "log_every": 2, "checkpoint_every": 2, "learning_rate": 0.02,
    "batches": {"kind": "continuous", "rows": 6, "length": 14},
}  # fmt: skip
KILLED_TEXT = TRAIN[:20]


class Killer:
    """Counts the steps of writing; the process dies at the chosen one, with half of what it was about to write."""

    def __init__(self, at: int) -> None:
        self.count, self._at = 0, at
        self._watch_calls()
        self._watch_log()

    def _dies_now(self) -> bool:
        self.count += 1
        return self.count == self._at

    def _watch_calls(self) -> None:
        for module, name in [(tempfile, "mkstemp"), *((os, name) for name in ("fsync", "chmod", "replace", "unlink"))]:
            setattr(module, name, self._deadly(name, getattr(module, name)))

    def _deadly(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def deadly(*arguments: Any, **named: Any) -> Any:
            if self._dies_now():
                if name == "fsync" and self._at % 2 and os.fstat(arguments[0]).st_size and not _is_folder(arguments[0]):
                    os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
                die()
            return call(*arguments, **named)

        return deadly

    def _watch_log(self) -> None:
        log = RunFolder.log

        def deadly(folder: RunFolder, record: Record) -> None:
            log(folder, record)
            if self._dies_now():
                path = folder.folder / "log.jsonl"
                os.truncate(path, path.stat().st_size - 30 * (self._at % 2))
                die()

        setattr(RunFolder, "log", deadly)  # noqa: B010  (mypy takes an assignment amiss)


def _is_folder(descriptor: int) -> bool:
    return os.path.isdir(f"/proc/self/fd/{descriptor}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def trained_in_a_child(folder: Path, kill_at: int = 0) -> bool:
    """Train, or go on, in a forked process; whether it came to the end. How many steps of writing goes to a file."""
    pid = os.fork()
    if pid == 0:
        killer = Killer(kill_at)
        resume = has_bundle(folder, "training")
        list(train(knowing(), KILLED_TEXT, folder=folder, resume=resume, **KILLED))
        (folder.parent / "writes").write_text(str(killer.count))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def assert_readable(folder: Path) -> None:
    """A model and a state, or none; never a broken one."""
    if has_bundle(folder, "training"):
        read_bundle(folder, "training")
    if has_bundle(folder, "model"):
        model = load(folder, background=Mask(forbidden=never_twice))
        assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def kill_everywhere(place: Path, stride: int) -> dict[str, int]:
    """Kill a run at every stride-th step of writing, and its resumption once more; each must come out the same."""
    # in this process, so that the children need not load what torch loads with its first step
    list(train(knowing(), KILLED_TEXT, folder=place / "whole", **KILLED))
    assert trained_in_a_child(place / "counted")
    assert_same_run(place / "whole", place / "counted")
    writes = int((place / "writes").read_text())
    kills = 0
    for at in range(1, writes + 1, stride):
        folder = place / f"killed at {at}"
        for kill_at in (at, 1 + at * 7 % 40, 0):
            if trained_in_a_child(folder, kill_at):
                break
            kills += 1
            assert_readable(folder)
        assert_same_run(place / "whole", folder)
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    return {"writes": writes, "kills": kills}


def in_a_script(place: Path, stride: int) -> dict[str, int]:
    """The killing is done by a process of its own, which forks: with one thread, and away from pytest."""
    command = [sys.executable, __file__, str(place), str(stride)]
    done = subprocess.run(command, env=script_environment(), capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_a_run_killed_while_writing_comes_out_the_same(tmp_path: Path) -> None:
    found = in_a_script(tmp_path, stride=9)
    assert found["writes"] > 80
    assert found["kills"] >= 2 * found["writes"] // 9 - 6


@pytest.mark.slow
def test_a_run_killed_at_every_single_write_comes_out_the_same(tmp_path: Path) -> None:
    found = in_a_script(tmp_path, stride=1)
    assert found["kills"] >= found["writes"]


# --- the command line ---------------------------------------------------------------------------------------------


CONFIG = """
word_dropout = 0.1
[corpus]
embedded = {train = 150, valid = 15, test = 1}
[vocabulary]
parts = ["train", "valid"]
[features]
output = [{kind = "identity", top = 100}, {kind = "suffixes", longest = 2}]
[background]
kind = "unigram"
parts = ["train", "valid"]
[[contextual]]
kind = "repeated"
[controller]
hidden = 12
dropout = 0.2
[training]
epochs = 3
log_every = 1
checkpoint_every = 3
batches = {kind = "continuous", rows = 6, length = 10}
"""
LLRNN_COMMAND = [sys.executable, "-c", "import llrnn.cli; llrnn.cli.main()"]


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*LLRNN_COMMAND, *arguments],
        cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def wait_for_steps(process: subprocess.Popen[str], folder: Path, steps: int) -> None:
    """Until the log holds so many lines more than now."""
    log = folder / "log.jsonl"
    begun = time.monotonic()
    while not log.exists() or log.read_bytes().count(b"\n") < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < HANG
        time.sleep(0.002)


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_printed_command_goes_on(place: Path) -> None:
    asked = ["train", "config.toml", "--set", 'name="a b"', "--seed", "3"]
    whole = start(place, *asked, "--out", "whole")
    process = start(place, *asked, "--out", "a run")
    wait_for_steps(process, place / "a run", 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "the checkpoint is in a run. Go on with:" in errors
    stopped = read_bundle(place / "a run", "training").data["progress"]
    assert stopped["step"] >= 3
    assert not stopped["finished"]
    assert f"stopped after step {stopped['step']};" in errors
    printed = shlex.split(errors.strip().splitlines()[-1])
    assert printed[0] == "llrnn"
    finish(start(place, *printed[1:]))
    finish(whole)
    assert_same_run(place / "whole", place / "a run")


@pytest.mark.slow
def test_a_killed_process_resumed_again_and_again_comes_out_the_same(place: Path) -> None:
    whole = start(place, "train", "config.toml", "--out", "whole")
    chance = random.Random(0)
    folder = place / "killed"
    kills = 0
    while kills < 2:
        begun = has_bundle(folder, "training")
        before = (folder / "log.jsonl").read_bytes().count(b"\n") if begun else 0
        process = start(place, "train", "config.toml", "--out", "killed", *(["--resume"] if begun else []))
        wait_for_steps(process, folder, before + 4)
        time.sleep(chance.random() * 0.1)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        kills += 1
        read_bundle(folder, "training")
        if has_bundle(folder, "model"):
            load(folder)
    finish(start(place, "train", "config.toml", "--out", "killed", "--resume"))
    finish(whole)
    assert_same_run(place / "whole", folder)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(kill_everywhere(Path(sys.argv[1]), int(sys.argv[2]))))


def test_a_run_without_a_validation_text_is_resumed(tmp_path: Path) -> None:
    """What a checkpoint says of a text that is not there is nothing."""
    list(train(tiny(), TRAIN, epochs=1, seed=1, folder=tmp_path))
    records = list(train(tiny(), TRAIN, epochs=1, seed=1, folder=tmp_path, resume=True))
    assert [record.event for record in records] == ["end"]
