"""The study of a real recogniser's lists, on lists that are made up: forms, folds, intervals, and the whole of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llrnn.ground.errors import CorpusError
from llrnn_lab.cli import experiment
from llrnn_lab.studies import real_lists
from llrnn_lab.studies.real_lists import Known, Part, transcribed

CONFIGS = Path(__file__).parents[2] / "configs" / "rescoring" / "dstc2"
QUESTIONS = ("Hello , welcome .", "What kind of food would you like?", "la luna serves thai food")
SAID = ("i want cheap food", "thai food please", "thank you good bye", "im looking for la luna", "what is the address")
SMALL = ("controller.hidden=6", "training.epochs=1", "corpus.valid_last=6")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lists, known = tmp_path / "dstc2_nbest", tmp_path / "camrest676"
    lists.mkdir()
    known.mkdir()
    rng = np.random.default_rng(0)

    def entry(number: int) -> dict[str, Any]:
        said = SAID[int(rng.integers(len(SAID)))]
        wrong = [said.replace("good bye", "goodbye"), f"uh {said}", said.replace("im", "i'm"), said, f"{said} {said}"]
        order = [wrong[i] for i in rng.permutation(len(wrong))][: 3 + number % 3]
        return {"id": f"u{number}", "context": QUESTIONS[number % 3], "hypotheses": order, "reference": said}

    for part, first in (("dev", 0), ("test", 100)):
        with gzip.open(lists / f"{part}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(entry(first + i)) + "\n" for i in range(24))
    with gzip.open(lists / "train.txt.gz", "wt") as file:
        file.writelines(f"{SAID[i % len(SAID)]}\n" for i in range(60))
    ontology = {"informable": {"food": ["thai", "asian oriental"], "area": ["north"], "pricerange": ["cheap"]}}
    (known / "CamRestOTGY.json").write_text(f"# ours\n{json.dumps(ontology)}")
    typed = [
        {
            "dial": [
                {"usr": {"transcript": "A cheap one!"}, "sys": {"sent": "What food?"}},
                {"usr": {"transcript": "I'd like Thai"}, "sys": {"sent": "Fine."}},
            ]
        }
        for _ in range(8)
    ]
    with gzip.open(known / "CamRest676.json.gz", "wt") as file:
        file.write(f"# ours\n{json.dumps(typed, indent=1)}")
    (known / "CamRest_db.json").write_text(json.dumps([{"name": "La Luna"}, {"name": "chef's table"}]))
    return tmp_path


def test_a_question_without_its_values_and_the_values(data: Path) -> None:
    known = Known.read(data / "camrest676")
    assert known.values["name"] == ["chefs table", "la luna"]
    assert known.condition("La Luna serves asian oriental food, 01223 12 .", ("thai", "food")) == {
        "asked": "NAME serves FOOD food",
        "name": ["la luna"],
        "food": ["asian oriental"],
        "before": "thai food",
        "said": ["thai"],
    }
    assert known.condition(None, ()) == {"asked": None, "before": None, "said": []}


def test_the_turn_before_as_it_was_heard_and_none_where_a_dialogue_begins(data: Path) -> None:
    part = Part.read(data / "dstc2_nbest" / "dev.jsonl.gz")
    heard = [transcribed(entry.hypotheses[0].words) for entry in part.lists]
    before = [*part.before.values()]
    assert [before[i] for i in (0, 3, 6)] == [(), (), ()]
    assert [before[i] for i in (1, 2, 4)] == [heard[0], heard[1], heard[3]]
    turns = ["thai food", "phone number", "thank you good bye", "cheap"]
    assert [*real_lists._befores(turns)] == [(), ("thai", "food"), ("phone", "number"), ()]


def test_lists_are_read_by_rank_and_dialogue(data: Path) -> None:
    part = Part.read(data / "dstc2_nbest" / "dev.jsonl.gz")
    assert [h.scores for h in part.lists.lists[0].hypotheses] == [(-0.0,), (-1.0,), (-2.0,)]
    assert part.dialogues[:7].tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert transcribed(["i'm", "fine"]) == ("im", "fine")
    with gzip.open(data / "none.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": "u1", "context": "", "hypotheses": ["a"]}))
    with pytest.raises(CorpusError, match="u1 needs hypotheses and a reference, found none; leave the list out"):
        Part.read(data / "none.jsonl.gz")


def test_what_users_typed_behind_what_they_were_asked(data: Path) -> None:
    first, second, *_ = real_lists.Data.read(data).typed
    assert first == {"condition": {"asked": "hello welcome", "before": None, "said": []}, "target": "a cheap one"}
    assert second["condition"] == {"asked": "what food", "before": "a cheap one", "said": ["cheap"]}
    assert second["target"] == "id like thai"


def test_rates_of_seeds_and_the_interval_of_their_mean(data: Path) -> None:
    dev = Part.read(data / "dstc2_nbest" / "dev.jsonl.gz")
    first = np.zeros(len(dev.lists), dtype=np.int64)
    best = np.array([int(np.argmin(own)) for own in real_lists._errors(dev)])
    chosen = [real_lists._Chosen(own, own, {}) for own in (first, best)]
    found = real_lists._measured({"KN5": {"weights": chosen}}, dev, dev)
    row = found["rows"]["KN5"]["weights"]["test"]
    assert row["rates"] == [found["test"]["first"], found["test"]["best"]]
    assert row["rate"] == pytest.approx(np.mean(row["rates"]))
    assert row["recovered"] == pytest.approx(0.5)


@pytest.mark.slow  # a whole study
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")  # of so little text
def test_the_whole_of_it(data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = data / "out"
    rows = {"turns": ("KN5", "names"), "dialogues": ("KN5", "question"), "dev": ("KN5", "question-names")}
    monkeypatch.setattr(real_lists, "TEXTS", rows)
    monkeypatch.setattr(real_lists, "TRIES", real_lists.TRIES[:1])
    found = real_lists.run(data, out, real_lists.How(CONFIGS, SMALL), seeds=1)
    assert json.loads((out / "dstc2.json").read_bytes()) == found
    assert [*found["rows"]] == [
        *("KN5", "names", "KN5 +dialogues", "question +dialogues", "KN5 +dev", "question-names +dev")
    ]
    for ways in found["rows"].values():
        for way in real_lists.WAYS:
            for part in ("dev", "test"):
                low, high = ways[way][part]["interval"]
                assert low <= ways[way][part]["rate"] <= high
                assert found[part]["best"] <= ways[way][part]["rate"]
    rival = found["rows"]["KN5"]["weights"]["test"]
    assert rival["against_ngram"] == [0.0, 0.0]
    gone = (found["test"]["first"] - rival["rate"]) / (found["test"]["first"] - found["test"]["best"])
    assert rival["recovered"] == pytest.approx(gone)
    # tuned where it is measured, weights cannot be worse than the first hypothesis
    assert found["rows"]["KN5"]["weights"]["dev"]["rate"] <= found["dev"]["first"]
    # no model reads the answers of the lists that it scores
    dev = Part.read(data / "dstc2_nbest" / "dev.jsonl.gz")
    for fold in range(real_lists.FOLDS):
        text = (out / "text" / f"dev{fold}" / "train.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        asked = [line for line in lines if line["condition"]["asked"] is not None]
        assert len(asked) == int((dev.dialogues % real_lists.FOLDS != fold).sum())
    kept = {path: path.stat().st_mtime_ns for path in out.glob("models/*/model.json")}
    assert len(kept) == 5
    changes = [f"--set={change}" for change in SMALL]
    options = ["--lists", "dstc2", "--data", str(data), "--out", str(out), "--configs", str(CONFIGS), "--seeds", "1"]
    experiment.experiment_app(["rescoring", *options, *changes], standalone_mode=False)
    assert capsys.readouterr().out.endswith(real_lists.table(found) + "\n")  # done already: the same again
    assert kept == {path: path.stat().st_mtime_ns for path in out.glob("models/*/model.json")}


def test_intervals_are_drawn_by_dialogue() -> None:
    dialogues, words = np.array([0, 0, 1]), np.array([2, 2, 4])
    draws = real_lists._draws(dialogues, words, 0, times=50)
    assert (draws[:, 0] == draws[:, 1]).all()  # lists of a dialogue come together
    assert set((draws[:, 0] + draws[:, 2]).tolist()) == {2}
    errors = np.array([1.0, 1.0, 0.0])
    low, high = real_lists._interval(errors, words, draws)
    assert (low, high) == (0.0, 0.5)
