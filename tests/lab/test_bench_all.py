"""`llrnn bench`: all rows in one run, in tiny sizes; what a row computes; floors counted by hand; a run that stops."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from llrnn import cli
from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn_lab.bench import counts, gpu_rows, inference_rows, knowledge_rows, machine, neural, report, training_rows
from llrnn_lab.bench.everything import everything, measured
from llrnn_lab.bench.machine import Speeds, all_cores, measured_speeds, peak_bytes, threads_of
from llrnn_lab.bench.neural import french_like
from llrnn_lab.bench.report import Document
from llrnn_lab.bench.rows import Compared, Count, Floor, Row
from llrnn_lab.bench.suite import QUICK, Asked, Shape, Suite
from llrnn_lab.bench.suites import SUITES, chosen
from llrnn_lab.cli import bench as bench_verbs

DOCS = Path(__file__).parents[2] / "docs"
TINY = QUICK._replace(
    layer=Shape(200, 30, 8, 16),
    large=Shape(300, 40, 8, 4),
    vocabularies=(100, 1_000),
    scoring=Shape(200, 30, 8, 4),
    million=Shape(300, 30, 8, 1),
    gpu=QUICK.gpu._replace(positions=64),
    product=32,
    copied=1_000,
)
ASKED = Asked(TINY, rounds=1)
SPEEDS = Speeds(1e9, 1e8, 1)
FAST = ["layer", "large-layer", "vocabulary", "own-classes", "memory", "scoring", "sampling"]


# --- a run ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of what is fast, and of what cannot run here."""
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("bench")
    absent = Suite("elsewhere", "what needs a zoo", 1, _never, _no_rows, lambda asked: "needs a zoo")
    everything(out, [*chosen(FAST), absent], ASKED, command="llrnn bench --tiny")
    return out


def _never(asked: Asked) -> dict[str, Any]:
    raise AssertionError("measured, though it cannot run")


def _no_rows(figures: Any, speeds: Speeds) -> list[Row]:
    return []


def test_the_document_says_everything(folder: Path) -> None:
    found = json.loads((folder / "bench.json").read_text(encoding="utf8"))
    assert found.keys() == {"command", "time", "machine", "asked", "suites", "left out"}
    assert found["command"] == "llrnn bench --tiny"
    assert found["asked"] == {"rounds": 1, "quick": False, "seed": 0}
    assert found["machine"].keys() == {"processor", "cores", "system", "python", "torch", "llrnn", "gpu"}
    assert found["machine"]["torch"] == torch.__version__
    assert list(found["suites"]) == FAST
    assert found["left out"] == {"elsewhere": "needs a zoo"}
    for suite in found["suites"].values():
        assert suite.keys() == {"about", "time", "seconds", "speeds", "rows", "absent", "figures"}
        assert min(suite["speeds"].values()) > 0
        for row in suite["rows"]:
            assert row["ours"] > 0
            assert row["theirs"] > 0
            assert row["met"] is None if row["bar"] is None else row["met"] is not None
            assert Row.from_json(row).to_json() == row


def test_every_row_has_a_name_of_its_own_a_peer_and_a_line(folder: Path) -> None:
    rows = Document.read(folder / "bench.json").rows()
    assert len({row.name for row in rows}) == len(rows) >= 12  # 15 where torch has a fused peer
    text = (folder / "bench.md").read_text(encoding="utf8")
    for row in rows:
        assert f"| **{row.name}** | llrnn | {report.figure(row.ours, row.unit)} |" in text
        assert f"| {report.setting(row.setting)} | {row.peer} | {report.figure(row.theirs, row.unit)} |" in text
    assert "| elsewhere | needs a zoo |" in text


def test_the_rows_are_those_of_the_issue(folder: Path) -> None:
    bars = {row.name: (row.bar, row.at_least) for row in Document.read(folder / "bench.json").rows() if row.bar}
    assert bars == {
        "time at V = 1,000": (1.05, False),
        "memory by V": (1.05, False),
        "every word its own class": (1.05, False),
        "memory, V = 200, N = 64, dense": (0.02, False),
        "exact scoring, N = 1": (25.0, True),
        "exact scoring, N = 4": (25.0, True),
        "exact sampling, from h": (100.0, True),
        "exact sampling, drawing alone": (100.0, True),
    }


def test_the_plots_are_pictures(folder: Path) -> None:
    for name in ("bench.png", "bench-vocabulary.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_no_bar_is_met_or_missed_by_a_quick_run() -> None:
    found = measured(chosen(["scoring"])[0], ASKED._replace(quick=True))
    assert [row["met"] for row in found["rows"]] == [None, None]


# --- a run that stops -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Nobody catches it."""


def counted(name: str, turns: list[str], act: Callable[[], object] = lambda: None) -> Suite:
    def measure(asked: Asked) -> dict[str, Any]:
        turns.append(name)
        act()
        return {"seconds": 1.0}

    def rows(figures: Any, speeds: Speeds) -> list[Row]:
        return [Compared(f"row of {name}", "nothing", "nobody", {}).faster(figures["seconds"], 2.0)]

    return Suite(name, "nothing", 1, measure, rows)


def stop() -> None:
    raise Killed


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "drawn", lambda run: {})


@pytest.mark.usefixtures("without_plots")
def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    turns: list[str] = []
    suites = [counted("a", turns), counted("b", turns, stop), counted("c", turns)]
    with pytest.raises(Killed):
        everything(tmp_path, suites, ASKED, command="first")
    assert list(Document.read(tmp_path / "bench.json").suites) == ["a"]
    assert "row of a" in (tmp_path / "bench.md").read_text(encoding="utf8")
    suites[1] = counted("b", turns)
    run = everything(tmp_path, suites, ASKED, command="first")
    assert turns == ["a", "b", "b", "c"]
    assert [row.name for row in run.rows()] == ["row of a", "row of b", "row of c"]
    assert Document.read(tmp_path / "bench.json") == run
    everything(tmp_path, suites, ASKED, command="first", again=True)
    assert turns[4:] == ["a", "b", "c"]


@pytest.mark.usefixtures("without_plots")
def test_another_run_is_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    everything(tmp_path, [counted("a", turns)], ASKED, command="first")
    with pytest.raises(ConfigError, match=r"bench.json is of another run \(rounds: 1, here 2\); give another folder"):
        everything(tmp_path, [counted("a", turns)], ASKED._replace(rounds=2), command="second")
    monkeypatch.setattr(machine, "cores", lambda: 96)
    with pytest.raises(ConfigError, match=r"another run \(cores: \d+, here 96\)"):
        everything(tmp_path, [counted("a", turns)], ASKED, command="second")
    (tmp_path / "bench.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"this is no result of `llrnn bench`"):
        everything(tmp_path, [counted("a", turns)], ASKED, command="second")


@pytest.mark.usefixtures("without_plots")
def test_what_fails_is_left_out_with_the_reason_and_tried_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise LLRNNError("no\nmodel")

    turns: list[str] = []
    told: list[str] = []
    suites = [counted("a", turns, fail), counted("b", turns)]
    run = everything(tmp_path, suites, ASKED, command="first", tell=told.append)
    assert run.reasons() == {"a": "no model"}
    assert "a: left out: no model" in told
    again = everything(tmp_path, [counted("a", turns), suites[1]], ASKED, command="first")
    assert turns == ["a", "b", "a"]
    assert again.reasons() == {}
    assert list(again.suites) == ["a", "b"]  # in the order of the suites, though b was first


def test_without_matplotlib_there_are_tables_and_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told: list[str] = []
    everything(tmp_path, [counted("a", [])], ASKED, command="first", tell=told.append)
    assert any("llrnn[plot]" in line for line in told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json", "bench.md"]


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_runs_and_prints_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = str(tmp_path / "out")
    given = ["bench", "--quick", "--rounds", "1", "--out", out, "--only", "layer", "--only", "gpu"]
    assert cli.run(given) == 0
    said = capsys.readouterr()
    assert "layer: 1 rows" in said.err
    assert "**layer, V = 10,000**" in said.out
    found = Document.read(tmp_path / "out" / "bench.json")
    assert found.command.startswith(f"llrnn bench --out {out} ")
    assert found.command.endswith("--only layer --only gpu --rounds 1 --quick")
    if not torch.cuda.is_available():
        assert "| gpu | needs a CUDA GPU, and torch found none |" in said.out
    assert cli.run([*given, "--json"]) == 0
    said = capsys.readouterr()
    assert "layer: there already" in said.err
    assert [row["name"] for row in json.loads(said.out)["rows"]] == ["layer, V = 10,000"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a verb is required, or --out FOLDER"),
        (["--out", "x", "--only", "lair"], "--only lair: no such benchmark; there are layer, "),
        (["--quick", "ngram"], "takes options or a verb; write those of ngram after it"),
        (["--out", "x", "--rounds", "0"], "--rounds"),
    ],
)
def test_mistakes_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_names_are_unique_and_the_french_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)
    monkeypatch.chdir(tmp_path)
    suite = chosen(["french"])[0]
    assert suite.missing(ASKED) == "needs configs/table4, which is not there; run it where the repository is"
    (tmp_path / "configs" / "table4").mkdir(parents=True)
    assert suite.missing(ASKED) == "needs French: llrnn experiment prepare --data ../shared/data --out runs/prepared"


# --- rows -----------------------------------------------------------------------------------------------------------


def test_ratios_and_bars() -> None:
    compared = Compared("a", "what", "peer", {})
    faster = compared.faster(2.0, 50.0, bar=25)
    assert (faster.ratio, faster.met) == (25.0, True)
    assert compared.faster(2.0, 49.0, bar=25).met is False
    assert compared.faster(2.0, 49.0).met is None
    assert compared.faster(50.0, 10.0, unit="words/s", bar=4).ratio == 5.0
    assert compared.faster(2.0, 50.0, ratio=24.0, bar=25).met is False  # the median of the rounds' own ratios
    share = compared.share(1.04, 1.0, bar=1.05)
    assert (share.ratio, share.met) == (1.04, True)
    assert compared.share(1.06, 1.0, bar=1.05).met is False
    with pytest.raises(ValueError, match="finite"):
        compared.share(float("inf"), 1.0)


def test_the_floor_is_the_larger_of_products_and_bytes() -> None:
    assert Count(2e9, 1e7).floor(SPEEDS) == Floor(2e9, 1e7, 2.0)
    assert Count(2e6, 1e7).floor(SPEEDS) == Floor(2e6, 1e7, 0.1)
    both = (Count(2e9, 1e7), Count(2e9, 1e9))
    row = Compared("a", "what", "peer", {}, both, SPEEDS).faster(3.0, 15.0)
    assert (row.times_floor, row.peers_times_floor) == (1.5, 1.5)
    row = replace(row, unit="words/s", ours=0.25, theirs=0.01)
    assert (row.times_floor, row.peers_times_floor) == (2.0, 10.0)
    assert Compared("a", "what", "peer", {}).faster(1.0, 1.0).times_floor is None


def test_counts_by_hand() -> None:
    """G = 5 of m = 6 features, V = 7, H = 3, N = 2: every number is one multiplication and one addition, or 4 bytes."""
    assert counts.layer_step(5, 6, 3, 2) == (3 * 2 * 30, 2 * 4 * (6 + 18 + 6))
    assert counts.layer_step(7, 7, 3, 2) == (3 * 2 * 42, 2 * 4 * (6 + 21 + 7))
    assert counts.scoring(5, 3, 2) == (2 * 30, 4 * (6 + 15 + 5))
    assert counts.drawing(7) == (14, 28)
    assert counts.lstm_weights(2, 3, 2) == 4 * 3 * (2 + 3) + 4 * 3 * (3 + 3)
    assert counts.training_step(60, 5, 3, 100, 2) == (3 * 2 * 2 * (60 + 15), 4 * 100 * 7)
    assert counts.training_step(60, 5, 3, 100, 2, states=2).bytes == 4 * 100 * 9
    assert counts.opening(5, 3, 2, 1.5) == (2 * 2 * 4 * 3 * 6 + 2 * 30, 1_500_000)
    assert counts.gradients_added_up(10) == (0, 80)
    assert counts.written_row(7) == (0, 28)
    assert counts.added_row(7) == (7, 56)
    assert counts.mask(9) == (0, 2)
    assert Count(10, 4).by(2) == (5, 2)


def test_lstm_weights_are_those_of_torch() -> None:
    network = torch.nn.LSTM(5, 3, 2, bias=False)
    assert counts.lstm_weights(5, 3, 2) == sum(weight.numel() for weight in network.parameters())


# --- the machine ------------------------------------------------------------------------------------------------------


def test_memory_is_followed_to_its_peak() -> None:
    x = torch.ones(100, 100, requires_grad=True)

    def step() -> None:
        y = x * 2  # 40,000 bytes
        z = y.exp()  # as many again, kept for backward
        del y
        z.sum().backward()  # type: ignore[no-untyped-call]  # the gradients of z and of y, then that of x

    step()
    x.grad = None
    peak = peak_bytes(step)
    assert 3 * 40_000 <= peak <= 5 * 40_000
    assert peak_bytes(lambda: torch.empty(1_000)) == 4_000


def test_memory_of_the_dense_peer_holds_the_logits() -> None:
    found = neural.memory(french_like(500, 20), 4, 64)
    logits = 4 * 64 * 500
    assert found["dense"] >= 2 * logits
    assert found["llrnn"] < logits


def test_speeds_are_of_the_threads_at_hand() -> None:
    before = torch.get_num_threads()
    with threads_of(1):
        found = measured_speeds(16, 100, rounds=2)
    assert found.threads == 1
    assert min(found.products, found.memory) > 0
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say which cores are used")
def test_threads_are_kept_to_as_many_cores() -> None:
    """All threads, those that a product has started too; but not where processes are started."""
    before = os.sched_getaffinity(0)
    torch.randn(256, 256) @ torch.randn(256, 256).t()
    with threads_of(1):
        found = {len(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")}
        assert found == {1}
        with all_cores():
            assert os.sched_getaffinity(0) == before
        assert len(os.sched_getaffinity(0)) == 1
    with threads_of(1, spreads=True):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


# --- rows of dictionaries that take long to measure -----------------------------------------------------------------


def times(ours: float, theirs: float) -> dict[str, Any]:
    return {"seconds": theirs, "times ours": theirs / ours}


def test_opening() -> None:
    figures = {
        "V": 100,
        "G": 10,
        "H": 4,
        "megabytes": {"llrnn": 2.0, "dense": 30.0},
        "sha256": 4e6,
        "llrnn": times(0.1, 0.1),
        "torch.load": times(0.1, 2.0),
        "torch.load, mmap": times(0.1, 0.5),
    }
    read, mapped = inference_rows.opening_rows(figures, SPEEDS)
    assert [read.ratio, mapped.ratio] == [pytest.approx(20), pytest.approx(5)]
    assert (read.bar, read.met, mapped.met) == (10, True, False)
    assert read.floor is not None
    assert read.floor.bytes == 2e6
    assert read.floor.seconds == pytest.approx(2e6 / SPEEDS.memory + 0.5)  # read, and its digest computed
    assert read.peers_floor is not None
    assert read.peers_floor.seconds == pytest.approx(30e6 / SPEEDS.memory)


def test_processes() -> None:
    speed = {"alone": 100.0, "together": 190.0}
    figures = {"V": 50, "G": 10, "H": 4, "weights": 1000, "words in a batch": 20.0, "ratio": 1.8}
    (row,) = training_rows.parallel_rows({**figures, "words per second": speed}, SPEEDS)
    assert (row.ratio, row.met, row.peer) == (1.8, True, "1 process")
    assert row.floor is not None
    assert row.peers_floor is not None
    assert row.peers_floor.operations == 6 * (2 * 4 * 4 * 8 + 10 * 4)
    assert row.floor.operations == row.peers_floor.operations / 2
    assert row.floor.bytes == 4 * 1000 * (9 + 2) / 20


def test_french() -> None:
    def contender(outputs: int, seconds: float) -> dict[str, Any]:
        speed = {"operations": 1e6 * outputs, "bytes": 1e3, "words per second": 8 / seconds}
        return {"outputs": outputs, **times(1.0, seconds), **speed}

    contenders = {"llrnn": contender(5, 1.0), "softmax": contender(50, 6.0), "fused": contender(50, 4.0)}
    way = {"words in a step": 8, "H": 4, "layers": 2, "contenders": contenders, "ratio": 3.9}
    rows = training_rows.french_rows({"device": "cpu", "continuous": way, "windows": way}, SPEEDS)
    assert [row.name for row in rows] == ["French training, continuous, cpu", "French training, windows, cpu"]
    for row in rows:
        assert row.peer.endswith(": fused")
        assert (row.ours, row.theirs, row.ratio, row.met) == (8.0, 2.0, 3.9, False)
        assert row.floor == Floor(5e6 / 8, 1e3 / 8, 5e6 / 8 / 1e9)
    figures = {"device": "cuda", "continuous": way, "windows": way, "speeds": [1e12, 1e12, 1]}
    row = training_rows.french_rows(figures, SPEEDS)[0]
    assert (row.bar, row.met) == (3.0, True)
    assert row.floor is not None
    assert row.floor.seconds == 5e6 / 8 / 1e12


def test_adaptive() -> None:
    def one(epoch: float, loss: float, epochs: int = 2) -> dict[str, Any]:
        return {"seconds an epoch": epoch, "log-perplexity": loss, "epochs": epochs}

    figures = {
        "V": 40,
        "H": 4,
        "layers": 2,
        "seconds": 9.0,
        "device": "cpu",
        "threads": 1,
        "best peer": "b",
        "fastest peer": "a",
        "contenders": {
            "llrnn, 1": one(1, 5.0),
            "llrnn, 2": one(1, float("inf"), 0),
            "a": one(3, 5.4),
            "b": one(4, 5.2),
        },
    }
    epoch, loss, other = training_rows.adaptive_rows(figures, SPEEDS)
    assert (epoch.ratio, epoch.met) == (3.0, True)
    assert loss.ratio == pytest.approx(5.0 / 5.2)
    assert (loss.met, loss.peer) == (True, "best: b")
    assert other.name == "an epoch, llrnn, 2"
    (suite,) = chosen(["adaptive"])
    assert suite.absent(figures) == {"log-perplexity at equal time, llrnn, 2": "no epoch was done in 9 s"}


def test_engines_that_are_absent_are_said() -> None:
    us = {what: {"median_us": 2.0, "mean_us": 4.0} for what in ("warm", "written", "new")}
    peer = {what: {"median_us": 6.0, "mean_us": 1.0} for what in us}
    figures = {"V": 16, "documents": 2, "vocabulary": "drawn", "engines": {"llrnn": us, "llguidance": peer}}
    rows = knowledge_rows.constraint_rows(figures, SPEEDS)
    assert [row.ratio for row in rows] == [pytest.approx(3.0), pytest.approx(3.0), pytest.approx(0.25)]
    (suite,) = chosen(["constraint"])
    assert suite.absent(figures) == {
        "JSON grammar, outlines-core": "outlines-core is not installed: pip install outlines-core"
    }


def test_the_gpu_rows_are_those_of_its_benchmark() -> None:
    figures = json.loads((DOCS / "results" / "bench-gpu.json").read_text(encoding="utf8"))
    rows = {row.name: row for row in gpu_rows.gpu_rows(figures, SPEEDS)}
    best = rows["GPU layer, weighted_loss, one graph"]
    assert best.ratio == figures["layer"]["peer_by_ours"]["weighted_loss, one graph"]["best"]
    assert (best.bar, best.met, best.setting["device"]) == (20.0, best.ratio >= 20, "NVIDIA H200")
    assert best.times_floor == pytest.approx(figures["layer"]["ours"]["weighted_loss, one graph"]["times_floor"])
    assert rows["GPU memory, weighted_loss, one graph"].met
    assert rows["GPU time at V = 10,000,000, weighted_loss, one graph"].met
    assert rows["GPU memory by V, weighted_loss, one graph"].ratio == 1.0
    assert rows["GPU, every word its own class, V = 65,536, weighted_loss, one graph"].met


@pytest.mark.slow  # processes are started, and models opened in processes of their own
def test_every_suite_that_takes_longer_gives_rows(tmp_path: Path) -> None:
    names = ["one-position", "opening", "training", "parallel", "objectives", "ngram", "constraint", "beam"]
    sizes = TINY._replace(training_words=3_500, training_hidden=8, parallel_hidden=8, parallel_words=200)
    sizes = sizes._replace(objective_sentences=100, ngram_words=10_000, ngram_vocabulary=300, beam_conditions=2)
    run = everything(tmp_path, chosen(names), ASKED._replace(sizes=sizes, quick=True), command="all")
    for name in names:
        assert run.rows([name]) or name in run.left_out
    assert set(run.left_out) <= {"ngram", "constraint"}
    assert len({row.name for row in run.rows()}) == len(run.rows())


# --- the page -------------------------------------------------------------------------------------------------------


def test_numbers_as_people_read_them() -> None:
    assert report.scaled(0.0123, "s") == "12.3 ms"
    assert report.scaled(4.5e-7, "s") == "450 ns"
    assert report.scaled(2.5e9, "FLOP") == "2.50 GFLOP"
    assert report.scaled(0, "B") == "0.00 B"
    assert [report.times(one) for one in (1234.5, 12.34, 3.456, 1.0494, 0.01234)] == [
        "1,234", "12.3", "3.46", "1.049", "0.0123"
    ]  # fmt: skip
    assert report.figure(1234.5, "words/s") == "1,234 words/s"
    assert (
        report.setting({"V": 1000, "text": "drawn", "megabytes": {"a": 1}})
        == "V = 1,000, text = drawn, megabytes = 1 (a)"
    )


def test_tables_between_comments_are_made_anew(folder: Path) -> None:
    run = Document.read(folder / "bench.json")
    text = "before\n<!-- rows: bench.json layer memory -->\nold\n<!-- end of rows -->\nafter\n"
    made = report.filled(text, folder)
    assert made.startswith("before\n<!-- rows: bench.json layer memory -->\n")
    assert made.endswith("\n<!-- end of rows -->\nafter\n")
    assert report.table(run.rows(["layer", "memory"])) in made
    assert "old" not in made
    assert report.filled(made, folder) == made
    other = text.replace("layer memory", "machine"), text.replace("layer memory", "left-out")
    assert report.machine(run) in report.filled(other[0], folder)
    assert "| elsewhere | needs a zoo |" in report.filled(other[1], folder)
    assert "Not measured: beam: it was not asked for." in report.filled(text.replace("memory", "beam"), folder)
    with pytest.raises(ConfigError, match="no such benchmark"):
        report.filled(text.replace("memory", "memories"), folder)


def test_runs_stand_side_by_side(folder: Path, tmp_path: Path) -> None:
    """Rows in the order of the first run, those of others behind; what a run does not have is a dash."""
    run = Document.read(folder / "bench.json")
    other = Document.read(folder / "bench.json")
    other.machine = {**other.machine, "processor": "another"}
    first, *rest = [row for suite in other.suites.values() for row in suite["rows"]]
    first["name"], rest[0]["ratio"] = "only there", 12.34
    (tmp_path / "elsewhere").mkdir()
    run.write(tmp_path)
    other.write(tmp_path / "elsewhere")
    text = "<!-- rows: bench.json elsewhere/bench.json -->\n<!-- end of rows -->\n"
    lines = report.filled(text, tmp_path).splitlines()[2:-2]
    assert lines[0] == f"| ratio | {run.machine['processor']} | another | bar |"
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == [
        *(row.name for row in run.rows()), "only there"
    ]  # fmt: skip
    assert lines[2].split(" | ")[2] == "–"
    assert lines[3].split(" | ")[2] == "12.3"
    assert lines[-1].split(" | ")[1] == "–"


def test_the_help_names_every_suite() -> None:
    """The command line lists them without importing them."""
    assert tuple(suite.name for suite in SUITES) == bench_verbs.SUITES
