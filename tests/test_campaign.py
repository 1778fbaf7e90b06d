"""The fault campaign itself, at a tiny scale: it runs, it repeats, and it finds faults that are planted."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from campaign import flips, formats, kills, malformed, mutations, numbers, server
from campaign.results import Finding, Outcome, Setting, Tally, rng_of, table, tallied
from campaign.workers import Here
from llrnn import Lexicon, cli
from llrnn.ground import bundle
from llrnn.ground.errors import CorpusError
from llrnn.layer.distribution import Distribution


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few files of the samples that need no training."""
    folder = tmp_path_factory.mktemp("samples")
    text = "la maison est grande .\nle chat dort .\nla reine est grande .\n"
    (folder / "text.txt").write_text(text, encoding="utf8")
    (folder / "added.tsv").write_text("girafe\tPOS:NOUN\t3\n", encoding="utf8")
    (folder / "lexicon.tsv").write_text("chat\tPOS:NOUN\nmaison\tPOS:NOUN\n", encoding="utf8")
    bundle.write_bundle(folder / "run", "training", {"step": 3}, {"weight": torch.arange(12.0)})
    return folder


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(malformed, "SPECIAL", ("directory", "missing"))  # nobody watches over this process
    return Here(tmp_path / "here")


def found(outcomes: list[Outcome]) -> set[str]:
    return {one.finding.kind for one in outcomes if one.finding is not None}


# --- flips ---------------------------------------------------------------------------------------------------------


def flipped(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    source = flips.Source("run/training*", flips._of_bundle("training"), 1.0)
    monkeypatch.setitem(flips.SOURCES, "checkpoint", source)
    return list(pool.run(flips.flip_one, [flips.Flip("checkpoint", i, 0) for i in range(40)], samples))


def test_flipped_bits_are_refused(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {one.result for one in flipped(pool, samples, monkeypatch)} == {"refused"}


def test_a_reader_that_checks_nothing_is_found(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = bundle._digest
    monkeypatch.setattr(bundle, "_digest", lambda array: digest(torch.arange(12.0).numpy()))
    assert "silent" in found(flipped(pool, samples, monkeypatch))


def test_an_error_that_is_none_of_ours_is_found(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "CheckpointError", struct.error)
    assert found(flipped(pool, samples, monkeypatch)) == {"untyped"}


# --- malformed files -----------------------------------------------------------------------------------------------


def read(pool: Here, samples: Path, name: str, count: int = 12) -> list[Outcome]:
    return list(pool.run(malformed.read_one, [malformed.Spoiled(name, i, 0) for i in range(count)], samples))


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> None:
    build = formats.Format("text.txt", ("data build {file} --out {out}",))
    monkeypatch.setitem(formats.FORMATS, "text", build)
    monkeypatch.setitem(formats.FORMATS, "words", formats.Format("lexicon.tsv", function=Lexicon.from_tsv))


@pytest.mark.usefixtures("building")
def test_malformed_files_are_read_or_refused(pool: Here, samples: Path) -> None:
    outcomes = read(pool, samples, "words", 20)
    assert {one.result for one in outcomes + read(pool, samples, "text", 4)} == {"read", "refused"}
    assert outcomes == read(pool, samples, "words", 20)  # the same seed, the same cases


@pytest.mark.parametrize(
    ("command", "read_valid", "read_spoiled"),
    [
        ("data build {file} --out {out}", set(), set()),
        ("data build {file} --lowercase --pieces 3 --out {out}", {"must be read"}, {"another refusal"}),
        ("data build missing.txt --out {out}", {"must be read"}, {"another refusal"}),
    ],
)
def test_a_command_that_never_reads_the_file_is_found(
    pool: Here,
    samples: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    read_valid: set[str],
    read_spoiled: set[str],
) -> None:
    """A refusal for another reason is no pass."""
    monkeypatch.setitem(formats.FORMATS, "text", formats.Format("text.txt", (command,)))
    assert found(list(pool.run(malformed.read_valid, [malformed.Valid("text", 0)], samples))) == read_valid
    assert found(read(pool, samples, "text", 4)) == read_spoiled


@pytest.mark.parametrize(("refusal", "kind"), [(formats.READ, "must be read"), ("no such", "another refusal")])
def test_what_must_come_of_a_hostile_file(
    pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch, refusal: str | None, kind: str
) -> None:
    hostile = formats.Hostile("", refusal), formats.Hostile("la maison .", "never")
    build = formats.Format("text.txt", ("data build {file} --out {out}",), hostile=hostile)
    monkeypatch.setitem(formats.FORMATS, "text", build)
    monkeypatch.setitem(formats.FORMATS, "words", formats.Format("lexicon.tsv", function=Lexicon.from_tsv))
    assert found(read(pool, samples, "text", 1)) == {kind}
    assert found(read(pool, samples, "text", 2)) == {kind, "must be refused"}


@pytest.mark.usefixtures("building")
def test_a_traceback_is_found(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "LLRNNError", ZeroDivisionError)  # what the command line takes for an error of ours
    assert found(read(pool, samples, "text", 4)) == {"traceback"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ((0, "log-perplexity 3.2", ""), None),
        ((2, "", "error: a line\n"), None),
        ((2, "", "note: this\nerror: a line\n"), None),
        ((1, "", ""), "exit code"),
        ((2, "", ""), "no message"),
        ((2, "", "error: one\nand another\n"), "message"),
        ((0, "\x1b[2J", ""), "escape"),
        ((0, "log p = nan", ""), "nan"),
        ((2, "", "error: not enough memory\n"), "memory"),
        ((2, "", f"error: {'x' * 9999}\n"), "long message"),
    ],
)
def test_what_a_command_may_say(said: tuple[int, str, str], kind: str | None) -> None:
    assert malformed._wrong(*said, has_nan=False, asks_for_memory=False) == kind


def test_mutations_are_of_the_seed() -> None:
    content = b"a\tb\t1.5\n" * 20
    made = [mutations.spoiled(content, rng_of(0, str(case))) for case in range(200)]
    assert made == [mutations.spoiled(content, rng_of(0, str(case))) for case in range(200)]
    assert len({*made}) > 150


# --- kills ---------------------------------------------------------------------------------------------------------


def killed(pool: Here, samples: Path, name: str) -> list[Outcome]:
    return list(pool.run(kills.kill_one, [kills.Kill(name, i, 4, 0) for i in range(4)], samples))


def test_a_build_that_is_killed_is_the_same_afterwards(pool: Here, samples: Path) -> None:
    assert {one.result for one in killed(pool, samples, "data build")} == {"the same bit for bit"}


def write_twice(out: Path) -> int:
    """Not atomic: the file is there before all of it is."""
    for text in ("half", "half and half"):
        out.write_text(text)
    return 0


def write_more(out: Path) -> int:
    """What is there already is not removed."""
    with out.open("a") as file:
        file.write("line\n")
    return 0


def whole(out: Path) -> None:
    if out.read_text() != "half and half":
        raise CorpusError("it is torn")


def test_torn_files_and_leftovers_are_found(pool: Here, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kills.JOBS, "torn", kills.Job(write_twice, whole))
    monkeypatch.setitem(kills.JOBS, "left", kills.Job(write_more, Path.read_text))
    assert "torn" in found(killed(pool, samples, "torn"))
    assert "different" in found(killed(pool, samples, "left"))


# --- numbers -------------------------------------------------------------------------------------------------------


def test_an_entropy_that_is_off_is_found(pool: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Distribution.entropy

    def off(p: Any) -> torch.Tensor:
        return right(p) + math.log(1.5) + 0.2

    monkeypatch.setattr(Distribution, "entropy", off)
    outcomes = list(pool.run(numbers.weigh_one, [numbers.Weighed("dense", i, 0) for i in range(10)]))
    assert "different" in found(outcomes)


# --- answers of a server, tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", None),
        (b'HTTP/1.1 422 No\r\n\r\n{"code": "x", "message": "y"}', None),
        (b"HTTP/1.1 500 Internal\r\n\r\n{}", "status 500"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n<html>", "status 404 without JSON"),
        (b'HTTP/1.1 400 Bad\r\n\r\n{"detail": 1}', "an error without code and message"),
        (b"hello", "no HTTP"),
    ],
)
def test_answers_are_judged(raw: bytes, wrong: str | None) -> None:
    assert server.Answer.of(raw).wrong() == wrong


def test_a_log_may_hold_one_warning_for_each_model() -> None:
    once = "warning: model acts: new words are not listed\nwarning: model open: new words are not listed\n"
    assert server.unexpected(once) == []
    assert server.unexpected(once + once) == once.splitlines()
    assert server.unexpected("warning: another\n\nKeyError: 'a'\n") == ["warning: another", "KeyError: 'a'"]


def test_equal_findings_are_counted_and_few_are_shown() -> None:
    outcomes = [Outcome("group", "bad", Finding("hang", f"group-{i}", "the same")) for i in range(9)]
    made: Tally = tallied([*outcomes, Outcome("group", "good")])
    data = made.as_json()
    assert (data["cases"], data["findings"], len(data["found"])) == (10, 9, 1)
    assert data["found"][0]["times"] == 9
    assert "python -m campaign flips --case group-0" in table({"flips": data})


def test_the_scale_bounds_the_number_of_cases(pool: Here, tmp_path: Path) -> None:
    setting = Setting(0, 0.01, tmp_path, pool)
    assert (setting.count(1000), setting.count(10), setting.count(10, least=5)) == (10, 1, 5)


def test_the_committed_figures_add_up() -> None:
    """docs/stability.md#reliability shows them (tests/test_figures.py holds its table to the file)."""
    found = json.loads((Path(__file__).parents[1] / "docs" / "results" / "campaign.json").read_text(encoding="utf8"))
    assert {*found["parts"]} <= {"flips", "kills", "malformed", "requests", "soak", "overload", "numbers"}
    for part in found["parts"].values():
        assert part["findings"] == sum(one["times"] for one in part["found"])
        assert part["cases"] == sum(sum(counts.values()) for counts in part["counts"].values())
