"""Constraints on the command line: what they take away from models, texts that keep to them, mistakes in one line."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llrnn
from llrnn import cli
from llrnn.knowledge.backgrounds import Automaton, Grammar
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.model.steering import constrained
from llrnn.text.corpus import Corpus

GRAMMAR = """start: sum
sum: term | term SIGN sum
term: NUMBER | "(" sum ")"
SIGN: "+" | "-"
NUMBER: "one" | "two" | "three"
"""
CONFIG = """
[corpus]
train = ["train.txt"]
[features]
output = [{kind = "identity"}]
[background]
kind = "unigram"
smoothing = 0.1
GRAMMAR
[[contextual]]
kind = "repeated"
[controller]
kind = "gru"
hidden = 4
[training]
epochs = 2
"""
PATTERN = 'pattern: ( one | two )+ "+" three'
Capture = pytest.CaptureFixture[str]


def term(draw: random.Random, depth: int) -> list[str]:
    if depth > 2 or draw.random() < 0.7:
        return [draw.choice(["one", "two", "three"])]
    return ["(", *total(draw, depth + 1), ")"]


def total(draw: random.Random, depth: int = 0) -> list[str]:
    first = term(draw, depth)
    return first if draw.random() < 0.5 else [*first, draw.choice("+-"), *total(draw, depth)]


def is_total(words: tuple[str, ...]) -> bool:
    """By Python's own grammar."""
    text = " ".join({"one": "1", "two": "2", "three": "3"}.get(word, word) for word in words)
    if "( )" in text or re.search(r"\d \(|\) \(|(^|[(+-] )[+-]", text):  # calls, tuples and signs are no sums here
        return False
    try:
        compile(text, "", "eval")
    except SyntaxError:
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained without the grammar and one with it; a text with two sentences outside."""
    made = tmp_path_factory.mktemp("constraints")
    draw = random.Random(0)
    (made / "sums.lark").write_text(GRAMMAR)
    (made / "train.txt").write_text("".join(" ".join(total(draw)) + "\n" for _ in range(100)))
    (made / "test.txt").write_text(
        "".join(" ".join(total(draw)) + "\n" for _ in range(20)) + "one + + two\n( one\none one + three\n"
    )
    (made / "pairs.jsonl").write_text('{"condition": {"name": "two"}, "target": "two + three"}\n' * 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for name, line in (("free", ""), ("held", 'grammar = {file = "sums.lark"}')):
            Path(f"{name}.toml").write_text(CONFIG.replace("GRAMMAR", line))
            assert cli.run(["train", f"{name}.toml", "--out", name, "--quiet"]) == 0
    return made


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()


def done(capsys: Capture, *arguments: str) -> str:
    assert cli.run(list(arguments)) == 0
    return capsys.readouterr().out


def as_json(capsys: Capture, *arguments: str) -> Any:
    return json.loads(done(capsys, *arguments, "--json"))


def refused(capsys: Capture, *arguments: str) -> str:
    assert cli.run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("error: ")


# --- evaluate ------------------------------------------------------------------------------------------------------


WEIGHTED = '( one | two | three <0.1> | "+" | - | "(" | ")" )*<0.1>'


@pytest.mark.parametrize(
    ("spec", "language"),
    [("sums.lark", lambda: Grammar.from_file("sums.lark")), (f"weighted: {WEIGHTED}", lambda: Automaton(WEIGHTED))],
    ids=["grammar", "weighted"],
)
def test_a_text_is_evaluated_by_the_model_held_to_the_language(
    capsys: Capture, spec: str, language: Callable[[], Constraint]
) -> None:
    lines = Path("test.txt").read_text().splitlines()
    Path("inside.txt").write_text("".join(f"{line}\n" for line in lines if is_total(tuple(line.split()))))
    (held,) = as_json(capsys, "evaluate", "free", "inside.txt", "--constraint", spec)
    model = constrained(llrnn.load("free"), language())
    assert held["log_perplexity"] == llrnn.evaluate(model, Corpus.from_file("inside.txt")).log_perplexity
    (free,) = as_json(capsys, "evaluate", "free", "inside.txt")
    assert abs(held["log_perplexity"] - free["log_perplexity"]) > 0.01


# --- generate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    ["--count 20", "--greedy", "--beam 4 --count 4", "--count 9 --top-k 2", "--count 9 --top-p 0.5", "--temperature 2"],
)
@pytest.mark.parametrize("model", ["free", "held"])
def test_every_text_is_in_the_language(capsys: Capture, model: str, how: str) -> None:
    found = as_json(capsys, "generate", model, "--constraint", "sums.lark", "--longest", "9", *how.split())
    for one in found:
        assert one["finished"]
        assert len(one["words"]) <= 9
        assert is_total(tuple(one["words"])), one["words"]
    assert capsys.readouterr().err == ""


def test_the_free_model_does_not_keep_to_it(capsys: Capture) -> None:
    found = as_json(capsys, "generate", "free", "--count", "20")
    assert not all(is_total(tuple(one["words"])) for one in found)


def test_the_longest_text_is_longer_than_max_words(capsys: Capture) -> None:
    arguments = ["--constraint", "sums.lark", "--longest", "9", "--count", "20"]
    found = as_json(capsys, "generate", "free", *arguments)
    assert all(one["finished"] for one in found)
    assert max(len(one["words"]) for one in found) > 2


def test_a_text_that_is_cut_is_told(capsys: Capture) -> None:
    arguments = ["generate", "free", "--constraint", "sums.lark", "--count", "20", "--max-words", "2"]
    assert cli.run(arguments) == 0
    captured = capsys.readouterr()
    cut = captured.out.count(" …")
    assert 0 < cut < 20
    assert captured.err.startswith(f"note: {cut} of 20 texts are cut by --max-words")
    for line in captured.out.splitlines():
        if " …" not in line:
            assert is_total(tuple(line.split("  log p")[0].split()))
    done(capsys, "generate", "free", "--count", "5", "--max-words", "1")  # nothing is said without a constraint
    assert capsys.readouterr().err == ""


def test_a_prefix_is_gone_on_from(capsys: Capture) -> None:
    found = as_json(capsys, "generate", "free", "--constraint", PATTERN, "--prefix", "two one", "--count", "5")
    for one in found:
        words = (*one["prefix"], *one["words"])
        assert words[-2:] == ("+", "three")
        assert set(words[:-2]) <= {"one", "two"}


def test_a_soft_constraint_may_be_broken(capsys: Capture) -> None:
    arguments = ["generate", "free", "--constraint", "sums.lark", "--count", "30"]
    soft = as_json(capsys, *arguments, "--violation", "0.9")
    assert not all(is_total(tuple(one["words"])) for one in soft if one["finished"])


def test_conditions_are_told_to_the_model_and_to_the_constraint(capsys: Capture, folder: Path) -> None:
    text = CONFIG.replace("GRAMMAR", "").replace('["train.txt"]', '["pairs.jsonl"]')
    Path("condition.toml").write_text(text.replace('kind = "repeated"', 'kind = "copied"'))
    done(capsys, "train", "condition.toml", "--out", "condition", "--quiet")
    arguments = ["generate", "condition", "--constraint", 'pattern: two "+" /.*/', "--longest", "4"]
    (found,) = as_json(capsys, *arguments, "--condition", '{"name": "two"}')
    assert found["words"][:2] == ["two", "+"]
    assert len(found["words"]) == 3
    Path("many.jsonl").write_text('{"condition": {"name": "two"}}\n{"condition": {"name": "three"}}\n')
    out = done(capsys, *arguments, "--conditions", "many.jsonl", "--beam", "3")
    assert [line.split()[:2] for line in out.splitlines()] == [["two", "+"]] * 2
    assert "--max-words does nothing with --longest" in refused(capsys, *arguments, "--max-words", "2")


# --- explain -------------------------------------------------------------------------------------------------------


def test_an_explanation_shows_the_constraint_as_a_factor(capsys: Capture) -> None:
    out = done(capsys, "explain", "held", "--prefix", "one", "--word", "+")
    assert re.search(r"of it Unigram.*\s-\d", out)
    assert re.search(r"of it Grammar\(sums.lark\)\s+\+0.0000", out)
    same = done(capsys, "explain", "free", "--prefix", "one", "--word", "+", "--constraint", "sums.lark")
    assert re.search(r"of it Grammar\(sums.lark\)\s+\+0.0000", same)


def test_a_forbidden_word_is_said_to_be_forbidden(capsys: Capture) -> None:
    out = done(capsys, "explain", "held", "--prefix", "one", "--word", "two")
    assert "one two: forbidden by Grammar(sums.lark), p = 0" in out
    assert re.search(r"of it Grammar\(sums.lark\)\s+forbidden", out)
    assert "nan" not in out.lower()
    assert "inf" not in out
    found = as_json(capsys, "explain", "held", "--prefix", "one", "--word", "two")
    assert found["total"] is found["log_p"] is None  # JSON has no infinity
    assert found["factors"][1] == ["Grammar(sums.lark)", None]


def test_rivals_that_are_forbidden(capsys: Capture) -> None:
    out = done(capsys, "explain", "held", "--prefix", "one", "--word", "+", "--rival", "two")
    assert "two is forbidden by Grammar(sums.lark), p = 0" in out
    assert "rival forbidden" in out
    both = done(capsys, "explain", "held", "--prefix", "one", "--word", "one", "--rival", "two")
    assert "both are forbidden" in both
    found = as_json(capsys, "explain", "held", "--prefix", "one", "--word", "one", "--rival", "two")
    assert found["total"] == found["total"]  # not NaN
    for text in (out, both):
        assert "nan" not in text.lower()


# --- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--constraint", "nowhere.lark"], "--constraint nowhere.lark: no such file; give a grammar"),
        (["--constraint", "free"], "--constraint free: no such file"),
        (["--constraint", "bad.lark"], "bad.lark"),
        (["--constraint", "norule.lark"], "nothing"),
        (["--constraint", "sums.lark", "--over", "words"], "over 'symbols' or 'characters', found 'words'"),
        (["--constraint", "sums.lark", "--over", "characters"], "must be a symbol by itself, but 'e'"),
        (["--constraint", "sums.lark", "--longest", "0"], "the shortest string has 1 letters, but longest=0"),
        (["--constraint", "sums.lark", "--longest", "-1"], "greater than or equal to 0"),
        (["--constraint", "sums.lark", "--violation", "2"], "violation is the factor"),
        (["--constraint", "pattern: ( one"], "is wrong at column 1: this '(' is not closed"),
        (["--constraint", "pattern: four"], "four is none of the 7 symbols"),
        (["--constraint", "pattern:"], "found nothing"),
        (["--constraint", "weighted: one*"], "must have a finite sum"),
        (["--over", "symbols"], "--over goes with --constraint"),
        (["--longest", "3"], "--longest goes with --constraint"),
        (["--violation", "0.5"], "--violation goes with --constraint"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
@pytest.mark.parametrize("verb", [["generate", "free"], ["evaluate", "free", "test.txt"]], ids=lambda verb: verb[0])
def test_mistakes_are_one_line(capsys: Capture, verb: list[str], arguments: list[str], said: str) -> None:
    Path("bad.lark").write_text("start: (one")
    Path("norule.lark").write_text("start: nothing")
    assert said in refused(capsys, *verb, *arguments)


def test_a_prefix_outside_the_language(capsys: Capture) -> None:
    said = refused(capsys, "generate", "free", "--constraint", "sums.lark", "--prefix", "one + + two")
    assert "nothing can follow the prefix 'one + + two': '+' at position 3 is outside the language of" in said
    assert {*said.rpartition("which allows there: ")[2].split()} == {"one", "two", "three", "("}
    said = refused(capsys, "explain", "held", "--prefix", "one two one", "--word", "one")
    assert "'two' at position 2 is outside the language of Grammar(sums.lark)" in said
