"""Configurations for pairs of meaning and text: slots that the corpus tells, and `llrnn init` on pairs."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llrnn import Corpus
from llrnn.config import read_config
from llrnn.config.pairs import draft_pairs
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.text.corpus import FoundSlots
from test_cli import Capture, done, refused


def laptops(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Another domain than restaurants: acts about computers, with other slots."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        name, weight = f"mobo {rng.randrange(10**6)}", f"{rng.randrange(10, 40) / 10}"
        family, works = rng.choice(["tecra", "satellite"]), rng.choice(["yes", "no"])
        act = f"inform(name='{name}';family={family};weight='{weight} kg';isforbusiness={works})"
        text = f"the {name} of the {family} family weighs {weight} kg"
        rows.append({"condition": act, "target": text + (" for business" if works == "yes" else "")})
    return rows


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "train.jsonl", laptops(120))
    write_jsonl(tmp_path / "valid.jsonl", laptops(20, seed=1))
    return tmp_path


def test_slots_are_found_by_what_texts_say(data: Path) -> None:
    found = FoundSlots.of(Corpus.from_file(data / "train.jsonl", conditions="act"))
    assert set(found.said) == {"name", "family", "weight"}
    assert found.open == ("name",)  # 30 weights come again and again; a name never does


def test_a_value_in_a_hundred_that_is_new_makes_a_slot_open() -> None:
    rows = [({"food": f"f{i % 40}"}, f"f{i % 40} food") for i in range(200)]
    for extra, is_open in ((0, False), (1, False), (4, True)):
        given = [*rows, *(({"food": f"new{n}"}, f"new{n} food") for n in range(extra))]
        text = Corpus.from_sentences([words.split() for _, words in given]).sentences
        corpus = Corpus(tuple(replace(one, condition=c) for one, (c, _) in zip(text, given, strict=True)))
        assert (FoundSlots.of(corpus).open == ("food",)) is is_open


# --- llrnn init


def test_init_on_json_lines_writes_what_trains(capsys: Capture, data: Path) -> None:
    out = data / "laptops.toml"
    said = done(capsys, "init", str(data / "train.jsonl"), str(data / "valid.jsonl"), "--out", str(out))
    assert "120 pairs" in said
    assert "conditions are dialog acts" in said
    assert "so copied and not known: name" in said
    small = ["--set", "controller.hidden=8", "--set", "condition.size=8", "--set", "training.epochs=1"]
    done(capsys, "train", str(out), "--out", str(data / "run"), *small, "--quiet")
    done(capsys, "init", str(data / "train.jsonl"), "--out", str(data / "alone.toml"))
    assert read_config(data / "alone.toml").corpus.valid_last == 12
    assert "--lexicon does nothing for pairs of meaning and text" in refused(
        capsys, "init", str(data / "train.jsonl"), "--out", str(data / "x.toml"), "--lexicon", "words.tsv"
    )


def test_a_text_that_breaks_a_value_off_can_be_evaluated(capsys: Capture, tmp_path: Path) -> None:
    """The words of a value are due behind its first; people break one off now and then all the same."""
    rows = [{"condition": f"inform(name='zo{i} bar{i} inn')", "target": f"we like zo{i} bar{i} inn"} for i in range(30)]
    train = write_jsonl(tmp_path / "train.jsonl", rows)
    small = ["--set", "controller.hidden=8", "--set", "condition.size=8", "--set", "training.epochs=1"]
    done(capsys, "init", str(train), "--out", str(tmp_path / "c.toml"))
    done(capsys, "train", str(tmp_path / "c.toml"), "--out", str(tmp_path / "run"), *small, "--quiet")
    broken = {"condition": "inform(name='zo0 bar0 inn')", "target": "we like zo0 bar0"}
    test = write_jsonl(tmp_path / "test.jsonl", [rows[0], broken])
    found = json.loads(done(capsys, "evaluate", str(tmp_path / "run"), str(test), "--json"))[0]
    assert 0 < found["log_perplexity"] < 20
    written = done(
        capsys, "generate", str(tmp_path / "run"), "--condition", rows[0]["condition"], "--prefix", "zo0 bar0"
    )
    assert written.startswith("zo0 bar0 inn")


ROWS = [(f"Zo{i} Bar{i}", "French", f"Zo{i} Bar{i} serves French food, and wine.") for i in range(30)]


def write_csv(path: Path, rows: list[tuple[str, ...]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.mark.parametrize("form", ["columns", "brackets", "acts", "tsv"])
def test_init_on_tables(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("pairs.tsv" if form == "tsv" else "pairs.csv")
    if form == "columns":
        write_csv(path, [("text", "name", "food", "area"), *((text, name, food, "") for name, food, text in ROWS)])
    elif form == "brackets":
        write_csv(path, [("mr", "ref"), *((f"name[{name}], food[{food}]", text) for name, food, text in ROWS)])
    else:
        acts = [(f"inform(name='{name}';food={food})", text) for name, food, text in ROWS]
        if form == "acts":
            write_csv(path, [("act", "said"), *acts])
        else:
            path.write_text("".join(f"{act}\t{text}\n" for act, text in acts))
    draft = draft_pairs([path], out=tmp_path / "c.toml")
    first = json.loads((tmp_path / "c-data" / "train.jsonl").read_text().splitlines()[0])
    assert first["target"] == "Zo0 Bar0 serves French food, and wine."
    assert first["condition"] == (
        "inform(name='Zo0 Bar0';food=French)" if form in ("acts", "tsv") else {"name": "Zo0 Bar0", "food": "French"}
    )
    project = Project.from_config(draft.config)
    assert project.config.lexicon.values == ["name"]
    assert "texts and values are cut by Unicode's boundaries" in str(draft)
    assert " ".join(project.corpora["train"][0].words) == "zo0 bar0 serves french food , and wine ."


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"condition": 1}\n' * 20, "a.jsonl:1:1: one of target and tokens is required"),
        ("a.jsonl", "nonsense\n" * 20, r"a.jsonl:1:1: JSON is required"),
        ("a.jsonl", '{"condition": {"a": "b"}, "target": "b"}\n' * 3, "10 pairs or more are required, found 3"),
        ("a.jsonl", '{"condition": "hello", "target": "b"}\n' * 20, "a.jsonl:1:16: a dialog act"),
        ("a.jsonl", '{"condition": [1], "target": "b"}\n' * 20, "records, or dialog acts .* are required"),
        ("a.jsonl", '{"condition": {"a": "b"}, "target": "x"}\n' * 20, "slots whose values the texts say are required"),
        ("a.csv", "text\nb\n", "a header with two columns or more is required"),
        ("a.csv", "a,text\nb\n", "row 2: 2 columns and a text in 'text' are required"),
        ("a.tsv", "inform(a=b)\n" * 20, "a.tsv:1:12: 2 columns .condition TAB target. are required"),
    ],
)
def test_what_is_no_pair_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((ConfigError, CorpusError), match=said):
        draft_pairs([tmp_path / name], out=tmp_path / "c.toml")


def test_values_that_are_not_said_are_warned_of(tmp_path: Path) -> None:
    rows = [{"condition": {"name": f"n{i}", "mood": "gloomy"}, "target": f"n{i} is dark"} for i in range(20)]
    draft = draft_pairs([write_jsonl(tmp_path / "a.jsonl", rows)], out=tmp_path / "c.toml")
    assert draft.warnings == (
        "the values of mood are not said word by word: nothing to copy, their wordings are learnt",
    )


@pytest.mark.parametrize("value", ["yes", "no", "none", "dont_care", None])
def test_slots_without_words_of_their_own_are_told(value: str | None, tmp_path: Path) -> None:
    kids = "kids" if value is None else f"kids={value}"
    rows = [{"condition": f"inform(name=n{i};{kids})", "target": f"n{i} is dark"} for i in range(20)]
    draft = draft_pairs([write_jsonl(tmp_path / "a.jsonl", rows)], out=tmp_path / "c.toml")
    assert "slots of yes, no, none or nothing, whose wordings are learnt: kids\n" in f"{draft}\n"
