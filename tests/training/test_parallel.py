"""Several processes that torchrun starts do what one process does: to 1e-5, with another number of them too.

Run as a script, this file is one of these processes: see `take_part`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import llrnn.cli
from helpers import HANG, script_environment
from llrnn import GRU, LLRNN, LSTM, Corpus
from llrnn.cli import options
from llrnn.ground.bundle import read_bundle
from llrnn.ground.errors import TrainingError
from llrnn.knowledge.backgrounds import NGram
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Attentive, Encoder, SomeRows, uniform
from llrnn.model.scoring import Continuous, Sentences
from llrnn.text.conditions import Words
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn.training.workers import Workers, join_workers
from llrnn_lab.bench.parallel import parallel
from test_resume import CONFIG, StopAfter, dropping, finish, knowing, log_of, start, wait_for_steps
from test_training import TRAIN, VALID, VOCABULARY, tiny

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
SETTINGS: dict[str, Any] = {"epochs": 2, "log_every": 1, "checkpoint_every": 4, "learning_rate": 0.01}


def cross_fitted() -> LLRNN:
    """Knowledge that must know which sentence a position is of, in the row of another process or not."""
    expert = NGram.from_corpus(TRAIN, order=2, folds=4)
    return tiny(contextual=[Expert(expert)], controller=GRU(6, dropout=0.2), word_dropout=0.1)


def conditional() -> LLRNN:
    """Reads a condition of any length with dropout, and looks at it."""
    words = [word for sentence in TRAIN for word in sentence.words]
    encoder = Encoder.for_conditions(Words(), [" ".join(words)], 4, kind="gru", dropout=0.3)
    return tiny(controller=Attentive(GRU(5, dropout=0.2), encoder, LSTM(6, inputs=9)))


def told(corpus: Corpus) -> Corpus:
    """Each sentence with its longest words as condition."""
    own = [replace(s, condition=" ".join(sorted(s.words, key=len)[-1 - len(s.words) % 3 :])) for s in corpus]
    return Corpus.from_sentences(own)


@dataclass(frozen=True)
class Case:
    make: Callable[[], LLRNN]
    batches: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    text: Corpus = TRAIN
    valid: Corpus = VALID

    def train(self, folder: Path, **given: Any) -> str:
        """In double precision, in which rounding explains nothing: whatever differs is a mistake."""
        chosen = {**SETTINGS, "batches": self.batches, **self.more, **given}
        return list(train(self.make().double(), self.text, valid=self.valid, folder=folder, **chosen))[-1].event


CASES = {
    "sentences": Case(dropping, {"kind": "sentences", "words": 120}, {"average": 0.9, "clip": 0.5}),
    "continuous": Case(knowing, {"kind": "continuous", "rows": 5, "length": 12}, {"weight_decay": 0.1}),
    "cross-fitted": Case(cross_fitted, {"kind": "continuous", "rows": 4, "length": 12}),
    "cross-fitted sentences": Case(cross_fitted, {"kind": "sentences", "words": 120}, {"optimizer": "rmsprop"}),
    "sliding": Case(dropping, {"kind": "sliding", "length": 4, "rows": 65}, {"patience": 1, "optimizer": "sgd"}),
    "windows": Case(knowing, {"kind": "sliding", "length": 8, "rows": 9}),
    "conditions": Case(conditional, {"kind": "sentences", "words": 150}, {}, told(TRAIN), told(VALID)),
    "a row at a time": Case(dropping, {"kind": "sentences", "words": 1}, {"epochs": 1}, TRAIN[:12]),
    "one strip": Case(knowing, {"kind": "continuous", "rows": 1, "length": 30}),
    "strips beyond the end": Case(dropping, {"kind": "continuous", "rows": 20, "length": 2}, {}, TRAIN[:3]),
}
STOPPED = CASES["cross-fitted"]


def only_if(asked: bool, steps: int) -> Callable[[], bool]:
    """A wish to stop that one process alone has."""
    return StopAfter(steps) if asked else lambda: False


def take_part(place: Path, begun: str) -> None:
    """Every case; one run that another number of processes began, and one or two for others to go on with."""
    torch.set_num_threads(1)
    with join_workers() as team:
        assert team.size > 1
        for name, case in CASES.items():
            assert case.train(place / f"{name} of {team.size}", workers=team) == "end"
        assert STOPPED.train(place / begun, resume=True, workers=team) == "end"
        for name in ("left to one", "left to three") if team.size == 2 else ():
            wish = only_if(team.rank == 1, steps=5)
            assert STOPPED.train(place / name, workers=team, should_stop=wish) == "interrupted"


def refuse(arguments: list[str]) -> None:
    """The command line, in which the second process comes upon an error that the first has not."""
    if os.environ["RANK"] == "1":
        never = StopAfter(4)

        def fail() -> bool:
            if never():
                raise TrainingError("only the second process knows")
            return False

        vars(options)["interruptible"] = lambda: nullcontext(fail)
    llrnn.cli.main(arguments)


def torchrun(place: Path, processes: int, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TORCHRUN, "--nproc-per-node", str(processes), *options, *arguments],
        cwd=place, env=script_environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def assert_close_run(wanted: Path, found: Path, within: float) -> None:
    """The best model, the last state and the log are those of one process."""
    for name in ("model", "training"):
        one, other = (read_bundle(folder, name).tensors for folder in (wanted, found))
        assert one.keys() == other.keys(), found.name
        for key in one:
            far = (one[key].double() - other[key].double()).abs().max() if one[key].numel() else torch.zeros(1)
            assert float(far) <= within, f"{found.name}: {key} differs by {float(far)}"
    logs = [[list(record.values()) for record in log_of(folder)] for folder in (wanted, found)]
    assert len(logs[0]) == len(logs[1]), found.name
    for expected, seen in zip(*logs, strict=True):
        assert seen == pytest.approx(expected, abs=within), found.name


# --- the parts --------------------------------------------------------------------------------------------------------


def test_some_rows_are_drawn_as_with_all_of_them() -> None:
    whole = torch.Generator().manual_seed(3)
    wanted = [uniform(7, 1, 5, generator=whole), uniform(7, 4, generator=whole)]
    for rank in range(3):
        rows = slice(rank, None, 3)
        own = SomeRows(torch.device("cpu"), rows, 7).manual_seed(3)
        count = len(range(7)[rows])
        assert torch.equal(uniform(count, 1, 5, generator=own), wanted[0][rows])
        assert torch.equal(uniform(count, 4, generator=own), wanted[1][rows])


def test_rows_of_a_batch_keep_all_that_belongs_to_them() -> None:
    text = EncodedText.to_train_on(told(TRAIN[:7]), VOCABULARY)
    batch = Sentences(10**6).plan(text)[0]
    own = batch.select(slice(1, None, 3))
    assert own.conditions == [batch.conditions[1], batch.conditions[4]] if batch.conditions else False
    for name in ("inputs", "targets", "mask", "sentences"):
        assert torch.equal(getattr(own, name), getattr(batch, name)[[1, 4]]), name
    assert own.inside is None


def test_one_process_alone_has_every_row_and_draws_as_ever() -> None:
    batch: Batch = Continuous(4, 6).plan(EncodedText.encode(TRAIN, VOCABULARY))[0]
    assert Workers().share(batch) is batch
    assert batch.n_positions == 24
    assert type(Workers().generator(batch, torch.device("cpu"), 1)) is torch.Generator


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_and_three_processes_come_to_what_one_comes_to(tmp_path: Path) -> None:
    for name, case in CASES.items():
        assert case.train(tmp_path / f"{name} of 1") == "end"
    assert STOPPED.train(tmp_path / "left to two", should_stop=StopAfter(5)) == "interrupted"
    for processes, begun in ((2, "left to two"), (3, "left to three")):
        finish(torchrun(tmp_path, processes, __file__, str(tmp_path), begun))
        for name in CASES:
            assert_close_run(tmp_path / f"{name} of 1", tmp_path / f"{name} of {processes}", 1e-9)
        assert_close_run(tmp_path / "cross-fitted of 1", tmp_path / begun, 1e-9)
    assert read_bundle(tmp_path / "left to one", "training").data["progress"]["step"] == 6  # the wish takes a step
    assert STOPPED.train(tmp_path / "left to one", resume=True) == "end"
    assert_close_run(tmp_path / "cross-fitted of 1", tmp_path / "left to one", 1e-9)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


TRAINING = ("-m", "llrnn", "train", "config.toml", "--out")


def worker(process: subprocess.Popen[str], rank: int) -> int:
    """The id of one of the processes that torchrun started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(one) for one in children if f"\0RANK={rank}\0" in Path(f"/proc/{one}/environ").read_text())


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_the_run_comes_out_the_same(place: Path) -> None:
    whole = start(place, "train", "config.toml", "--out", "whole")
    process = torchrun(place, 2, *TRAINING, "killed", options=("--max-restarts=3",))
    wait_for_steps(process, place / "killed", 8)
    os.kill(worker(process, 1), signal.SIGKILL)
    printed, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    told, contract = printed.splitlines()  # one process prints
    assert told.startswith("trained 96 steps")
    assert contract.startswith("reading:")
    assert errors.count("another process of this training ended") <= 1  # torchrun may end the other before it notices
    assert "Traceback" not in errors
    finish(whole)
    assert_close_run(place / "whole", place / "killed", 1e-5)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_and_the_run_goes_on(place: Path) -> None:
    whole = start(place, "train", "config.toml", "--out", "whole")
    process = torchrun(place, 2, *TRAINING, "stopped", options=("--max-restarts=3",))
    wait_for_steps(process, place / "stopped", 8)
    os.kill(worker(process, 1), signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors  # for torchrun, or it would start them again
    said = re.search(r"stopped after step (\d+); the checkpoint is in stopped. Go on with:\n(.*)", errors)
    assert said is not None, errors
    assert read_bundle(place / "stopped", "training").data["progress"]["step"] == int(said[1]) < 96
    printed = shlex.split(said[2])
    assert printed[:5] == ["torchrun", "--nproc-per-node", "2", "-m", "llrnn"]
    finish(start(place, *printed[5:]))
    finish(whole)
    assert_close_run(place / "whole", place / "stopped", 1e-5)


@pytest.mark.slow
def test_an_error_is_told_once_and_ends_all(place: Path) -> None:
    process = torchrun(place, 2, __file__, "train", "config.toml", "--out", "failed")
    printed, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0
    assert printed == ""
    assert re.findall("^error: .*", errors, re.MULTILINE) == ["error: only the second process knows"]
    assert "exitcode  : 2" in errors
    assert "llrnn/cli" not in errors, "a traceback of ours"


@pytest.mark.slow
def test_the_folder_of_another_run_is_refused_again_after_a_restart(place: Path) -> None:
    """Only what the same torchrun began is gone on with."""
    finish(start(place, "train", "config.toml", "--out", "failed", "--set", "training.epochs=1"))
    before = {path.name: path.read_bytes() for path in (place / "failed").iterdir()}
    process = torchrun(place, 2, *TRAINING, "failed", options=("--max-restarts=1",))
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0
    refused = "error: failed: holds a training run already; go on with --resume, or choose another folder"
    assert re.findall("^error: .*", errors, re.MULTILINE) == [refused] * 2  # torchrun tries again, and is told again
    assert {path.name: path.read_bytes() for path in (place / "failed").iterdir()} == before


@pytest.mark.slow
def test_the_benchmark_measures_both_sides() -> None:
    result = parallel(processes=2, hidden=8, words=200, rounds=1, steps=1)
    assert 150 < result["words in a batch"] <= 200
    assert set(result["words per second"]) == {"alone", "together"}
    assert result["ratio"] > 0


if __name__ == "__main__":
    if sys.argv[1] == "train":
        refuse(sys.argv[1:])
    else:
        take_part(Path(sys.argv[1]), sys.argv[2])
