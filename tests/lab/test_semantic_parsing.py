"""The study of logical forms: its texts, its grammars, its scores, and a run at the size of seconds."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.model.testing import check_background
from llrnn.text.conditions import Act
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn_lab.studies import semantic_parsing
from llrnn_lab.studies.jobs import Job, results
from llrnn_lab.studies.sp_data import (
    DATASETS,
    Pair,
    geo_names,
    link,
    nested,
    quoted,
    read_pairs,
    read_parts,
    write_parts,
)
from llrnn_lab.studies.sp_scores import WellFormed, scores
from llrnn_lab.studies.sp_types import Typing
from test_cli import Capture, refused

CONFIGS = Path(__file__).parents[2] / "configs" / "semantic-parsing"
DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not (DATA / "geoquery").is_dir(), reason=f"the shared corpora are not at {DATA}")

STATES = ["texas", "ohio", "utah", "new york", "iowa", "maine"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(state: str) -> list[Pair]:
    """Questions of our own, in GeoQuery's notation."""
    const = f"_const ( B , _stateid ( {quoted(state)} ) )"
    return [
        Pair(f"What is the capital of {state} ?", f"_answer ( A , ( _capital ( A ) , _loc ( A , B ) , {const} ) )"),
        Pair(f"which rivers are in {state} ?", f"_answer ( A , ( _river ( A ) , _loc ( A , B ) , {const} ) )"),
        Pair(f"how large is {state} ?", f"_answer ( A , ( _size ( B , A ) , {const} ) )"),
    ]


@pytest.fixture
def data() -> Path:
    """A tiny GeoQuery: two states are in the test alone."""
    folder = Path("shared/geoquery")
    folder.mkdir(parents=True)
    for part, states in (("train", STATES[:4]), ("dev", STATES[:2]), ("test", STATES[4:])):
        pairs = [pair for state in states for pair in asked(state)]
        (folder / f"geo_{part}.tsv").write_text("".join(f"{q}\t{form}\n" for q, form in pairs))
    return Path("shared")


# --- texts ------------------------------------------------------------------------------------------------------------


def test_questions_are_written_small_and_forms_are_not(data: Path) -> None:
    (first, *_) = read_pairs(data / "geoquery" / "geo_train.tsv")
    assert first == Pair("what is the capital of texas ?", asked("texas")[0].form)
    assert " A " in first.form


def test_a_line_without_a_form_is_named() -> None:
    Path("pairs.tsv").write_text("a question\tform\nno form\n")
    with pytest.raises(CorpusError, match=r"pairs\.tsv.*2"):
        read_pairs("pairs.tsv")


def test_parts_and_shares(data: Path) -> None:
    files = write_parts("parts", data, "geo", [25, 50, 100])
    counts = {path.name: count for path, count in files.items()}
    wanted = {"train": 12, "train-25": 3, "train-50": 6, "train-all": 18, "valid": 6, "test": 6}
    assert counts == {f"{part}{kind}.jsonl": n for part, n in wanted.items() for kind in ("", ".linked")}
    texts = {name: Corpus.from_file(Path("parts") / name) for name in counts if "linked" not in name}
    assert {name: len(text) for name, text in texts.items()} == {name: counts[name] for name in texts}
    small, large = ({s.condition for s in texts[f"train-{share}.jsonl"]} for share in (25, 50))
    assert small < large
    symbols = Path("parts/symbols.txt").read_text().split()
    assert {"york", "A", "_capital", "'"} <= set(symbols)
    assert "maine" not in symbols  # of the test alone


def test_shares_are_seeded_and_nested() -> None:
    pairs = [Pair(str(i), str(i)) for i in range(100)]
    one, other = nested(pairs, [20, 50, 100]), nested(pairs, [20, 50, 100], seed=1)
    assert {share: len(some) for share, some in one.items()} == {20: 20, 50: 50}
    assert set(one[20]) < set(one[50])
    assert one == nested(pairs, [20, 50])
    assert one != other
    with pytest.raises(CorpusError, match="percentages"):
        nested(pairs, [0])


def test_an_unknown_dataset_is_refused() -> None:
    with pytest.raises(CorpusError, match="geo, calendar"):
        read_parts("shared", "moon")


def test_names_are_slots_with_values_and_words_slots_without() -> None:
    known = [("state", "new york", "ny"), ("city", "new york"), ("country", "america", "usa"), ("city", "albany")]
    names = geo_names(asked("texas"), known)
    slots = [(slot.name, slot.value) for slot in link("is new york bigger than texas or america ?", names).slots]
    york = "' new york '"
    assert slots == [
        ("_is", None), ("city", york), ("state", york), ("_bigger", None), ("_than", None), ("state", "texas"),
        ("_or", None), ("country", "usa"), ("__", None),
    ]  # fmt: skip
    beside = [(slot.name, slot.value) for slot in link("albany new york", names).slots]
    assert beside == [("city", "albany"), ("city", york), ("state", york), ("code", "ny")]


def test_a_linked_text_is_read_back(data: Path) -> None:
    write_parts("parts", data, "geo", [100])
    text = Corpus.from_file("parts/train.linked.jsonl", conditions="act")
    values = {value for s in text if isinstance(s.condition, Act) for value in s.condition.values("state")}
    assert values == {quoted(state) for state in STATES[:4]}
    assert text[0].words == tuple(asked("texas")[0].form.split())
    assert "york\tValue:state" in Path("parts/names.tsv").read_text().splitlines()


# --- grammars and scores ----------------------------------------------------------------------------------------------


def judge_of(dataset: str) -> WellFormed:
    return WellFormed.from_file(CONFIGS / f"{dataset}.lark")


MEETINGS = "( call SW.getProperty ( call SW.singleton en.meeting ) ( string ! type ) )"
GOOD = {
    "geo": [
        "_answer ( A , _state ( A ) )",
        "_answer ( A , ( _river ( A ) , _loc ( A , B ) , _const ( B , _stateid ( ' new somewhere ' ) ) ) )",
        "_answer ( A , _count ( B , ( _city ( B ) , \\+ ( _loc ( B , C ) , _state ( C ) ) ) , A ) )",
        "_answer ( A , ( _population ( B , A ) , _const ( B , _cityid ( nowhere , tx ) ) ) )",
    ],
    "calendar": [
        f"( call SW.listValue {MEETINGS} )",
        f"( call SW.listValue ( call SW.filter {MEETINGS} ( string attendee ) ( string = ) en.person.carol ) )",
    ],
}
BAD = {
    "geo": [
        "",
        "_answer ( A , _state ( A )",
        "_answer ( A , _state ( A , B ) )",
        "_answer ( A , ( _state ( A ) ) )",
        "_answer ( A , ( _loc ( A , A ) , _state ( A ) ) )",
        "_answer ( A , ( _state ( A ) , _const ( A , _cityid ( austin ) ) ) )",
        "_answer ( A , ( _state ( A ) , _const ( A , _stateid ( ' texas ) ) ) )",
        "_answer ( A , _state ( A ) ) )",
        "_answer(A,_state(A))",
    ],
    "calendar": [
        MEETINGS,
        f"( call SW.listValue ( call SW.filter {MEETINGS} ( string attendee ) ( string = ) en.location.home ) )",
        f"( call SW.listValue ( call SW.filter {MEETINGS} ( string date ) ( string = ) ( time 10 0 ) ) )",
        f"( call SW.listValue ( call SW.filter {MEETINGS} ( string is_important ) ( string = ) en.person.carol ) )",
        f"( call SW.listValue ( call SW.superlative {MEETINGS} ( string max ) ( string date ) ) )",
    ],
}


@pytest.mark.parametrize("dataset", GOOD)
def test_grammars_accept_what_makes_sense_and_refuse_the_rest(dataset: str) -> None:
    judge = judge_of(dataset)
    assert [form for form in GOOD[dataset] if not judge.check(tuple(form.split()))] == []
    assert [form for form in BAD[dataset] if judge.check(tuple(form.split()))] == []


@needs_data
@pytest.mark.parametrize("dataset", DATASETS)
def test_grammars_accept_training_forms_and_no_broken_ones(dataset: str) -> None:
    judge = judge_of(dataset)
    forms = [tuple(pair.form.split()) for pair in read_parts(DATA, dataset)["train"]]
    assert [form for form in forms if not judge.check(form)] == []
    for form in sorted(set(forms))[:40]:
        assert not judge.check(form[:-1])
        assert not judge.check((*form, ")"))
        assert not judge.check(form[1:])


def test_terminals_are_whole_symbols() -> None:
    judge = WellFormed('start: "a" NAME\nNAME: /[a-z]+/')
    assert judge.check(("a", "bc"))
    assert not judge.check(("ab", "c"))
    assert not judge.check(("a", "b", "c"))
    assert not judge.check(("abc",))


def test_what_is_no_grammar_is_refused() -> None:
    with pytest.raises(ConfigError, match="lark"):
        WellFormed("start: nothing")


def test_scores() -> None:
    judge = WellFormed('start: "a"+')
    found = scores([("a",), ("a", "a"), ("a",)], [("a",), ("a",), ("b",)], judge)
    assert found["exact"] == pytest.approx(1 / 3)
    assert found["well_formed"] == pytest.approx(2 / 3)
    assert found["right"] == {"all": {"right": 1, "said": 3}}
    with pytest.raises(CorpusError, match="for each reference"):
        scores([("a",)], [], judge)


# --- the study --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> str:
    """The configurations with a tiny network and few steps, in ./small."""
    shutil.copytree(CONFIGS, "small")
    for path in Path("small").glob("*.toml"):
        text = path.read_text()
        for key, value in (("hidden", 8), ("size", 8)):
            text = re.sub(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.MULTILINE)
        path.write_text(text)
    monkeypatch.setattr(semantic_parsing, "STEPS", {50: 4, 100: 4})
    return "small"


@pytest.mark.slow
def test_the_study(data: Path, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in this process: to start another for each model would take most of the time."""
    monkeypatch.setattr(semantic_parsing, "run_jobs", one_by_one)
    found = semantic_parsing.run(
        data, Path("out"), configs=Path(small), datasets=["geo"], shares=[50, semantic_parsing.ALL]
    )
    assert set(found) == {f"geo-{row}-{share}" for row in semantic_parsing.ROWS for share in (50, "all")}
    for name, (result,) in found.items():
        for part in ("valid", "test"):
            scored = result["tests"][part]
            assert 0 <= scored["exact"] <= 1
            assert scored["well_formed"] == 1.0 or "softmax" in name  # after four steps, too
    assert found["geo-softmax-all"][0]["tests"]["test"]["well_formed"] < 1
    written = Path("out/models/geo-primed-all.seed0/test.txt").read_text().splitlines()
    assert [semantic_parsing.LONGEST >= len(line.split()) > 0 for line in written] == [True] * 6
    assert "| geo | 50 % | masked | 1 |" in Path("out/semantic-parsing.md").read_text()
    assert "| geo | all | primed | 1 |" in Path("out/semantic-parsing.md").read_text()
    assert json.loads(Path("out/semantic-parsing.json").read_text()) == found


def one_by_one(planned: Sequence[Job], *, data: Path, out: Path, **_: object) -> dict[str, list[dict[str, Any]]]:
    for job in planned:
        semantic_parsing.run_one(job, data=data, out=out, device=torch.device("cpu"))
    return results(planned, out)


def test_wrong_options_are_named(capsys: Capture, data: Path) -> None:
    command = ["experiment", "semantic-parsing", "--data", str(data), "--out", "out"]
    assert "--dataset must be one of geo" in refused(capsys, *command, "--dataset", "moon")
    assert "--system must be one of softmax" in refused(capsys, *command, "--system", "masked")


# --- types of variables

TYPED = {
    "_answer ( A , ( _river ( A ) , _traverse ( A , B ) , _const ( B , _stateid ( ohio ) ) ) )": True,
    "_answer ( A , _count ( B , ( _state ( B ) , _next_to ( B , C ) , _const ( C , _stateid ( ohio ) ) ) , A ) )": True,
    "_answer ( A , _largest ( B , ( _state ( A ) , _population ( A , B ) ) ) )": True,
    "_answer ( A , ( _river ( A ) , _next_to ( A , B ) , _state ( B ) ) )": False,  # a river borders nothing
    "_answer ( A , ( _len ( B , A ) , _const ( B , _stateid ( ohio ) ) ) )": False,  # a state has no length
    "_answer ( A , ( _state ( A ) , _loc ( A , B ) ) )": False,  # B is nothing
    "_answer ( A , _largest ( A , ( _state ( A ) , _area ( B , A ) , _state ( B ) ) ) )": False,  # and a number
}


def typing_of(forms: Sequence[str]) -> tuple[Typing, Vocabulary]:
    vocabulary = Vocabulary([EOS, *sorted({symbol for form in forms for symbol in form.split()})])
    return Typing(violation=0.0).bind(vocabulary), vocabulary


@pytest.mark.parametrize("form", TYPED)
def test_a_variable_is_of_one_kind_and_has_two_places(form: str) -> None:
    typing, vocabulary = typing_of(list(TYPED))
    assert (typing.objection(None, vocabulary.ids(form.split())) is None) == TYPED[form]


def test_types_obey_the_laws_of_a_background() -> None:
    typing, vocabulary = typing_of(list(TYPED))
    check_background(typing, vocabulary, length=10)
    check_background(Typing(), vocabulary, length=10)


@needs_data
def test_nearly_all_training_forms_are_typed() -> None:
    parts = read_parts(DATA, "geo")
    forms = [pair.form for part in ("train", "valid") for pair in parts[part]]
    typing, vocabulary = typing_of(forms)
    strange = [form for form in forms if typing.objection(None, vocabulary.ids(form.split())) is not None]
    assert len(strange) <= 3, strange
