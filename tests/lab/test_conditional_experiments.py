"""The studies in which models write from conditions, at the size of seconds: the verbs, the tables, what is kept."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from llrnn.model.decode import beam_search_each
from llrnn_lab.bench.beam import beam, made_up, without_knowledge
from llrnn_lab.studies.kb_data import DIALOGUES, VENUES
from test_cli import Capture, done

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shrunk(name: str) -> None:
    """The configurations of a study with one epoch of a tiny network, in ./small."""
    Path("small").mkdir(exist_ok=True)
    for path in (CONFIGS / name).glob("*.toml"):
        text = path.read_text()
        for key, value in (("hidden", 8), ("size", 8), ("epochs", 1), ("layers", 1)):
            text = re.sub(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.MULTILINE)
        (Path("small") / path.name).write_text(text)


# --- answers from a table -------------------------------------------------------------------------------------------


def dialogue(rng: random.Random, venue: dict[str, str]) -> dict[str, Any]:
    def turn(user: str, system: str, *slots: tuple[str, str, str]) -> dict[str, Any]:
        slu = [{"act": act, "slots": [[slot, value]]} for act, slot, value in slots]
        return {"usr": {"transcript": user, "slu": slu}, "sys": {"sent": system, "DA": []}}

    wish = ("inform", "food", venue["food"])
    what = rng.choice(["phone", "address"])
    return {
        "dial": [
            turn(f"i want {venue['food']} food", f"{venue['name']} serves {venue['food']} food .", wish),
            turn(f"the {what} please", f"the {what} is {venue[what]} .", wish, ("request", "slot", what)),
        ]
    }


@pytest.fixture
def venues() -> None:
    rng = random.Random(0)
    folder = Path("shared/camrest676")
    folder.mkdir(parents=True)
    table = [
        {
            "name": f"place{i} inn",
            "area": rng.choice(["north", "south"]),
            "food": rng.choice(["thai", "greek"]),
            "pricerange": rng.choice(["cheap", "moderate"]),
            "phone": f"01223 {rng.randrange(10**5, 10**6)}",
            "address": f"{i + 1} Mill Road",
            "postcode": f"C.B {i}, 1 A.B",
        }
        for i in range(6)
    ]
    (folder / VENUES).write_text(f"# rights\n{json.dumps(table)}")
    dialogues = [dialogue(rng, rng.choice(table)) for _ in range(20)]
    (folder / DIALOGUES).write_bytes(gzip.compress(f"# rights\n{json.dumps(dialogues)}".encode()))
    shrunk("knowledge-base")


@pytest.mark.slow
def test_knowledge_base(capsys: Capture, venues: None) -> None:
    command = ["experiment", "knowledge-base", "--data", "shared", "--out", "out", "--configs", "small"]
    out = done(capsys, *command, "--parallel", "2")
    found = json.loads(Path("out/knowledge-base.json").read_text())
    held_out = {f"asked-without-{column}" for column in ("phone", "address")}  # nobody asks for a postcode
    assert set(found) == {"softmax", "reader", "expert", "asked", *held_out}
    for name in ("softmax", "reader", "expert", "asked"):
        (result,) = found[name]
        assert set(result["tests"]) == {"test", "changed"}
        for scores in result["tests"].values():
            for counts in (scores["right"], scores["greedy"]["right"], scores["sampled"]["answered"]):
                assert 0 <= counts["all"]["right"] <= counts["all"]["said"]
            assert scores["answered"]["all"]["said"] == found["softmax"][0]["tests"]["test"]["answered"]["all"]["said"]
    for name in held_out:
        (result,) = found[name]
        questions = result["tests"]["questions"]
        assert 0 <= questions["right"]["all"]["right"] <= questions["right"]["all"]["said"] > 0
        column = name.removeprefix("asked-without-")
        for part in ("train-unnamed", "valid"):
            assert column not in Path(f"out/data-without-{column}/{part}.jsonl").read_text()
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert len(rows) == 10 + 4  # a head, a rule, two tables for each of four systems; and a row for each held out
    lines = [json.loads(line) for line in Path("out/data/changed-read.jsonl").read_text().splitlines()]
    new = {row["phone"] for row in json.loads(Path("out/data/changed.json").read_text())}
    assert all(any(phone in row for phone in new) for line in lines for row in line["condition"]["table"])


# --- what knowledge costs -------------------------------------------------------------------------------------------


def test_bench_beam() -> None:
    model, conditions = made_up()
    found = beam(model, conditions[:2], rounds=1)
    assert found["conditions"] == 2
    for how in ("one by one", "side by side"):
        assert found[how]["with"] > 0
        assert found[how]["ratio"] > 0


def test_without_knowledge_is_the_same_network_told_nothing() -> None:
    model, conditions = made_up(60, 8)
    bare = without_knowledge(model)
    assert bare.contextual == ()
    assert bare.background.is_static
    with torch.no_grad():
        both = [one.step(one.start(conditions[:2]), [one.vocabulary.eos] * 2)[0] for one in (model, bare)]
    torch.testing.assert_close(both[0].h, both[1].h)
    torch.testing.assert_close(both[0].scores, both[1].scores)


def test_a_beam_with_all_kinds_of_knowledge_is_the_same_alone_and_in_company() -> None:
    """Copying, priming and a look-up, in float64, where rounding decides nothing."""
    model, conditions = made_up(200, 16)
    model = model.double()
    together = beam_search_each(model, conditions[:5], beam=3, max_words=8)
    for condition, own in zip(conditions, together, strict=False):
        (alone,) = beam_search_each(model, [condition], beam=3, max_words=8)
        assert [one.words for one in alone] == [one.words for one in own]
        assert [one.log_prob for one in alone] == pytest.approx([one.log_prob for one in own], abs=1e-9)
