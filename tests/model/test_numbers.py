"""Numeric conditions (equation 17): a vector or a record of numbers, joined at every step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import shaken
from llrnn import GRU, LLRNN, Vocabulary, cli, features, load, train
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.contextual import ConditionNumbers
from llrnn.knowledge.process import Batch
from llrnn.model.decode import write
from llrnn.model.testing import check_contextual_input
from llrnn.text.conditions import NumericFields

RECORDS: list[object] = [{"price": 10, "stars": 4}, {"price": 30.0, "stars": None}, {"price": 20}]
VECTORS: list[object] = [[0.0, 1.0], (2.0, 1.0), np.array([4.0, 1.0]), torch.tensor([6.0, 1.0])]
V = Vocabulary(["w0", "w1", "w2", "</s>"])


def test_records_are_normalised_and_missing_numbers_told() -> None:
    fields = NumericFields.fitted(RECORDS)
    assert fields.columns == ("price", "stars", "stars missing")
    values = np.array([10.0, 30.0, 20.0])
    expected = (values - values.mean()) / values.std()
    assert [fields.vector(record)[0] for record in RECORDS] == pytest.approx(expected.tolist())
    assert [fields.vector(record)[1:] for record in RECORDS] == [[0, 0], [0, 1], [0, 1]]  # one value: deviation 1
    assert NumericFields.restored(json.loads(json.dumps(fields.settings()))) == fields


def test_vectors_of_any_kind() -> None:
    fields = NumericFields.fitted(VECTORS)
    assert fields.columns == ("0", "1")
    assert [fields.vector(one)[1] for one in VECTORS] == [0.0] * 4
    assert np.mean([fields.vector(one)[0] for one in VECTORS]) == pytest.approx(0)
    assert np.std([fields.vector(one)[0] for one in VECTORS]) == pytest.approx(1)


def test_named_fields_leave_the_others_to_others() -> None:
    given: list[object] = [{"name": "la luna", "price": 10}, {"name": "x", "price": 20}]
    assert NumericFields.fitted(given, ["price"]).vector({"name": "y", "price": 15}) == [0.0]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (None, "no condition was given"),
        ({"price": 1, "star": 4}, "has 'star', but the numbers of this model are price, stars"),
        ({"stars": 4}, "no number 'price', which every training condition had"),
        ({"price": None}, "no number 'price'"),
        ({"price": "cheap"}, "'price' of a condition must be a number or null, found 'cheap'"),
        ({"price": True}, "must be a number or null, found True"),
        ({"price": float("nan")}, "must be a finite number"),
        ({"price": 10**40}, "must be a finite number"),
        ({"price": [1]}, "must be a number or null"),
        ("price 10", "a list or a record of numbers is required as condition, found 'price 10'"),
        ([1.0, 2.0], "has '0', but the numbers"),
    ],
)
def test_mistakes_get_one_line(condition: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        NumericFields.fitted(RECORDS).vector(condition)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([[1.0], [1.0, 2.0]], "vectors of one length"),
        ([[1.0], {"price": 2}], "vectors of one length"),
        ([{}], "found none"),
        ([{"price": None}], "no training condition has the number 'price'"),
    ],
)
def test_conditions_that_cannot_be_fitted(conditions: Sequence[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NumericFields.fitted(conditions)


def every_step() -> LLRNN:
    return _shaken(LLRNN(V, output_features=features.Identity(), controller=GRU(5), contextual_inputs=[_numbers()]))


def _numbers() -> ConditionNumbers:
    return ConditionNumbers.fitted(RECORDS)


def _shaken(model: LLRNN) -> LLRNN:
    model.double()
    shaken(model, 2.0)
    return model


def batch() -> Batch:
    symbols = torch.randint(4, (3, 7), generator=torch.Generator().manual_seed(0))
    symbols[:, 0] = V.eos
    return Batch(symbols[:, :-1], symbols[:, 1:], torch.ones(3, 6, dtype=torch.bool), RECORDS)


@torch.no_grad()
def test_laws(tmp_path: Path) -> None:
    check_contextual_input(_numbers(), V, conditions=RECORDS)
    model, given = every_step(), batch()
    whole = model.scan(given)[0].log_probs().view(3, 6, -1)
    state, seen = model.start(RECORDS), []
    for t in range(6):  # scan = steps
        distribution, state = model.step(state, given.inputs[:, t].tolist())
        seen.append(distribution.log_probs())
    torch.testing.assert_close(torch.stack(seen, 1), whole, rtol=0, atol=1e-9)
    for row in range(3):  # batched = one by one
        alone = model.scan(given.select(slice(row, row + 1)))[0].log_probs()
        torch.testing.assert_close(alone, whole[row], rtol=0, atol=1e-9)
    other = Batch(given.inputs, given.targets, given.mask, [RECORDS[2], *RECORDS[1:]])
    changed = model.scan(other)[0].log_probs().view(3, 6, -1)
    assert bool((changed[0] != whole[0]).any())  # the numbers make a difference, and only in their row
    torch.testing.assert_close(changed[1:], whole[1:], rtol=0, atol=1e-9)
    assert model.needs_conditions
    with pytest.raises(ConfigError, match="condition"):
        model.start([None])
    model.save(tmp_path / "model")
    assert torch.equal(load(tmp_path / "model").log_prob(given), model.log_prob(given))


CONFIG = """
corpus = {{ train = ["{{data}}/train.jsonl"], valid = ["{{data}}/valid.jsonl"] }}
controller = {{ kind = "gru", hidden = 8 }}
condition = {{ reading = "numbers"{} }}
features.output = [{{ kind = "identity" }}]
training = {{ epochs = 30, learning_rate = 0.05, batches = {{ kind = "sentences", words = 64 }} }}
"""


def _write(folder: Path, extra: str, lines: Sequence[tuple[object, str]]) -> Path:
    for part in ("train", "valid"):
        rows = [json.dumps({"condition": condition, "target": target}) for condition, target in lines]
        (folder / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "config.toml").write_text(CONFIG.format(extra))
    return folder / "config.toml"


def _weather(count: int) -> list[tuple[object, str]]:
    """A few degrees are cold, many are warm; without a number nobody knows."""
    known: list[tuple[object, str]] = [({"degrees": d}, "it is warm" if d > 15 else "it is cold") for d in range(count)]
    return [*known, *([({"degrees": None}, "nobody knows")] * 4)]


def test_trained_from_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, "", _weather(30))
    project = Project.from_config(read_config(path, data=tmp_path))
    whole, resumed = project.model(), project.model()
    list(train(whole, project.corpora["train"], settings=project.config.training, folder=tmp_path / "run"))
    said = write(whole, [{"degrees": 2}, {"degrees": 28.5}, {}], beam=3)
    assert [" ".join(one.words) for one in said] == ["it is cold", "it is warm", "nobody knows"]
    steps = iter(range(1000))
    given: dict[str, Any] = {"settings": project.config.training, "folder": tmp_path / "stopped"}
    list(train(resumed, project.corpora["train"], should_stop=lambda: next(steps) >= 5, **given))
    resumed = project.model()
    list(train(resumed, project.corpora["train"], resume=True, **given))
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    whole.save(tmp_path / "model")
    folder = str(tmp_path / "model")
    assert cli.run(["generate", folder, "--condition", '{"degrees": 29}', "--greedy"]) == 0
    assert "it is warm" in capsys.readouterr().out
    assert cli.run(["generate", folder, "--condition", '{"degree": 29}', "--greedy"]) == 2
    assert "'degree', but the numbers of this model are degrees" in capsys.readouterr().err
    assert cli.run(["generate", folder, "--greedy"]) == 2
    assert "none was given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "lines", "message"),
    [
        ("", [({"degrees": "x"}, "a")], r"train.jsonl:1: the field 'degrees' of a condition must be a number"),
        (", size = 4", [({"degrees": 1}, "a")], "size is for conditions of words"),
        (', names = ["price"]', [({"degrees": 1}, "a")], "no training condition has the number 'price'"),
        (', joined = "sometimes"', [({"degrees": 1}, "a")], "joined"),
    ],
)
def test_wrong_configurations(extra: str, lines: Sequence[tuple[object, str]], message: str, tmp_path: Path) -> None:
    path = _write(tmp_path, extra, lines)
    with pytest.raises(ConfigError, match=message):
        Project.from_config(read_config(path, data=tmp_path)).model()


def test_names_without_numbers_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, "", _weather(3))
    path.write_text(path.read_text().replace('"numbers"', '"whole", names = ["degrees"]'))
    with pytest.raises(ConfigError, match="names is for reading = 'numbers'"):
        read_config(path, data=tmp_path)
