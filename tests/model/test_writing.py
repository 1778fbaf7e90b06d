"""Text from conditions, from a configuration to the command line: values that nobody has seen are said all the same."""

from __future__ import annotations

import asyncio
import json
import random
import warnings
from pathlib import Path

import pytest
import torch

import llrnn
from llrnn import LLRNN, Corpus, Greedy, Sentence, Token, cli
from llrnn.ground.errors import ConfigError, CorpusError, EstimationWarning
from llrnn.inference.meanings import told_scores
from llrnn.inference.saying import KINDS
from llrnn.knowledge.contextual import ContextualFeature, Copied
from llrnn.model.decode import (
    Search,
    advance_searches,
    beam_search_each,
    begin_searches,
    check_condition,
    generate,
    prepared,
    read_condition,
    unknown_names_of,
    write,
)
from llrnn.model.words import add_from_conditions
from llrnn.serve.app import create_app
from llrnn.serve.engine import Engine
from llrnn.serve.messages import WriteRequest
from llrnn.serve.served import Served
from llrnn.text.conditions import parse_act
from llrnn.text.encoded import EncodedText
from web_client import client_of, running

FOODS = ("thai", "greek", "french", "basque")
CONFIG = """
[corpus]
train = ["{data}/train.jsonl"]
valid = ["{data}/valid.jsonl"]
conditions = "act"
[[domains]]
kind = "numbers"
language = "any"
[[domains]]
kind = "spelling"
order = 2
endings = 0
[lexicon]
values = ["name", "phone"]
[features]
output = [
    { kind = "identity", without = ["Value:name", "Value:phone"] },
    { kind = "attributes", listed = true },
]
[background]
kind = "discounted"
primed = { cells = true }
whole_values = {}
[[contextual]]
kind = "copied"
slots = ["name", "phone", "food"]
[[contextual]]
kind = "continued"
[[contextual]]
kind = "mentioned"
[[contextual]]
kind = "unmentioned"
[condition]
reading = "slots"
unread = ["name", "phone"]
encoder = "gru"
size = 16
[controller]
kind = "gru"
hidden = 24
[training]
batches = { kind = "sentences", words = 128 }
learning_rate = 0.01
epochs = 8
"""


def invented(rng: random.Random) -> str:
    return "".join(rng.choice("bdfglmnprst") + rng.choice("aeiou") for _ in range(3))


def examples(count: int, seed: int) -> list[dict[str, str]]:
    """Acts with names of one or two words, and what a dull waiter says."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        name = " ".join(invented(rng) for _ in range(rng.choice([1, 2])))
        phone, food = str(rng.randrange(10**6, 10**7)), rng.choice(FOODS)
        if rng.random() < 0.5:
            rows.append({"condition": f"inform(name='{name}';food={food})", "target": f"{name} serves {food} food"})
        else:
            rows.append({"condition": f"inform(name='{name}';phone={phone})", "target": f"call {name} at {phone} now"})
    return rows


def write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, a configuration and a trained model."""
    made = tmp_path_factory.mktemp("acts")
    write_lines(made / "train.jsonl", examples(300, 0))
    write_lines(made / "valid.jsonl", examples(40, 1))
    (made / "config.toml").write_text(CONFIG)
    command = ["train", str(made / "config.toml"), "--data", str(made), "--out", str(made / "model"), "--quiet"]
    assert cli.run(command) == 0
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> LLRNN:
    return llrnn.load(folder / "model")


Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


NEW = "inform(name='zuzuzu wawawa';phone=9998887)"
OTHERS = [parse_act(row["condition"]) for row in examples(12, 2)]


def test_names_and_numbers_that_nobody_has_seen_are_said(model: LLRNN) -> None:
    rows = examples(40, 7)
    acts = [parse_act(row["condition"]) for row in rows]
    assert not any(word in model.vocabulary for act in acts for word in act.values("name")[0].split())
    said = [" ".join(found.words) for found in write(model, acts, beam=3)]
    assert sum(text == row["target"] for text, row in zip(said, rows, strict=True)) >= 38


def test_one_by_one_is_as_all_together(model: LLRNN) -> None:
    ready = prepared(model, OTHERS)
    for found in (
        lambda acts: [tuple(one) for one in beam_search_each(ready, acts, beam=3)],
        lambda acts: [(one,) for one in generate(ready, conditions=acts, strategy=llrnn.Greedy())],
    ):
        together = found(OTHERS)
        for act, own in zip(OTHERS, together, strict=True):
            (alone,) = found([act])
            assert [one.words for one in alone] == [one.words for one in own]
            for one, other in zip(alone, own, strict=True):
                assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


@torch.no_grad()
def test_listing_words_leaves_all_others_as_they_were(model: LLRNN) -> None:
    """At a condition that does not have the new words, all old probabilities change by one factor, close to one."""
    act = OTHERS[0]
    base = prepared(model, [act])
    more = prepared(base, [parse_act(NEW)])
    assert {"zuzuzu", "wawawa", "9998887"} <= {*more.vocabulary.words} - {*base.vocabulary.words}
    log_p = []
    for one in (base.double(), more.double()):
        distribution, _ = one.step(one.start([act]), [one.vocabulary.eos])
        ids = torch.tensor(one.vocabulary.ids(base.vocabulary.words))
        log_p.append(distribution.log_probs()[0, ids])
    difference = log_p[1] - log_p[0]
    torch.testing.assert_close(difference, difference[:1].expand_as(difference), rtol=0, atol=1e-9)
    assert -0.01 < float(difference[0]) <= 0.0


def test_listed_words_have_the_feature_of_their_slot_and_no_identity(model: LLRNN) -> None:
    ready = add_from_conditions(model, [parse_act(NEW)])
    assert ready.output_features.row(ready.vocabulary.id("zuzuzu")) == {"NotAmong:named": 1.0, "Value:name": 1.0}
    assert add_from_conditions(ready, [parse_act(NEW)]) is ready


def test_scores_of_a_text_use_what_the_condition_says(model: LLRNN) -> None:
    rows = examples(20, 9)
    corpus = Corpus.from_sentences(
        [Sentence(tuple(Token(w) for w in row["target"].split()), parse_act(row["condition"])) for row in rows]
    )
    ready = prepared(model, [sentence.condition for sentence in corpus])
    assert llrnn.evaluate(ready, corpus).log_perplexity < llrnn.evaluate(model, corpus).log_perplexity - 1.0
    assert (
        EncodedText.encode(corpus, ready.vocabulary).n_targets == EncodedText.encode(corpus, model.vocabulary).n_targets
    )


def test_a_softmax_model_is_left_as_it_is() -> None:
    plain = LLRNN(llrnn.Vocabulary(["</s>", "a"], counts=[1, 1]), output_features=llrnn.features.Identity())
    assert prepared(plain, [parse_act(NEW)]) is plain
    with pytest.raises(ConfigError, match="does not look at conditions"):
        check_condition(plain, "something")


class Shouted(ContextualFeature):
    """Knowledge of one's own that says nothing of other words than those that it was made with."""

    def value(self, state: object) -> tuple[float, dict[int, float]]:
        return 0.0, {1: 1.0}


def test_a_server_tells_once_that_a_model_takes_no_words() -> None:
    """Its log would grow with every new value that a client names."""
    vocabulary = llrnn.Vocabulary(["</s>", "a"], counts=[1, 1])
    model = LLRNN(vocabulary, output_features=llrnn.features.Identity(), contextual=[Copied()], controller=llrnn.GRU(3))
    served = Served("plain", model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(5):
            served.ready("own", json.dumps({"wish": f"new{number}"}))
    assert len(told) == 1
    assert "model plain: new words of conditions are not listed" in str(told[0].message)


def test_knowledge_that_takes_no_words_is_told_and_does_not_stop_training() -> None:
    rows = [Sentence((Token("a"),), {"wish": wish, "user": f"hello {wish}"}) for wish in "abcd"]
    train, valid = Corpus.from_sentences(rows[:2]), Corpus.from_sentences(rows[2:])
    vocabulary = llrnn.Vocabulary.from_corpus(train)
    for context in (
        [Shouted()],
        [Copied()],
    ):  # it cannot take words; or could, but each word has a feature
        plain = LLRNN(
            vocabulary, output_features=llrnn.features.Identity(), contextual=context, controller=llrnn.GRU(3)
        )
        with pytest.warns(EstimationWarning, match="new words of conditions are not listed"):
            records = list(llrnn.train(plain, train, valid=valid, epochs=1))
        assert records[-1].event == "end"
        with pytest.warns(EstimationWarning, match="cannot be added"):
            assert prepared(plain, [{"wish": "zuzuzu"}]) is plain


def test_conditions_are_read_as_in_training(model: LLRNN) -> None:
    assert read_condition(model, NEW) == parse_act(NEW)
    with pytest.raises(CorpusError, match="column 8"):
        read_condition(model, "inform(=x)")
    plain = LLRNN(llrnn.Vocabulary(["</s>", "a"], counts=[1, 1]), output_features=llrnn.features.Identity())
    assert read_condition(plain, "a topic") == "a topic"
    assert read_condition(plain, '{"price": 37}') == {"price": 37}
    with pytest.raises(CorpusError, match="column 10 of the condition"):
        read_condition(plain, '{"price":}')


# --- the command line ---------------------------------------------------------------------------------------------


def test_generate_from_a_condition(capsys: Capture, folder: Path) -> None:
    code, out, _ = run(capsys, "generate", str(folder / "model"), "--condition", NEW, "--beam", "3", "--features")
    assert code == 0
    assert out.startswith("call zuzuzu wawawa at 9998887 now")
    assert "NotAmong:named, Value:name" in out


def test_generate_from_a_file_and_bad_lines_do_not_stop_the_others(capsys: Capture, folder: Path) -> None:
    path = folder / "conditions.txt"
    path.write_text(f"{NEW}\ninform(name=)\n\ninform(name=bababa;food=thai)\nhello\n")
    code, out, err = run(capsys, "generate", str(folder / "model"), "--conditions", str(path), "--greedy")
    assert code == 2
    assert out.splitlines() == ["call zuzuzu wawawa at 9998887 now", "bababa serves thai food"]
    first, second = err.splitlines()
    assert first.startswith(f"error: {path}:2: column 13 of the dialog act")
    assert "has no value" in first
    assert second.startswith(f"error: {path}:5: column 1 ")
    code, out, _ = run(capsys, "generate", str(folder / "model"), "--conditions", str(path), "--greedy", "--json")
    assert code == 2
    assert [one["problem"] is None for one in json.loads(out)] == [True, False, True, False]


def test_generate_from_json_lines(capsys: Capture, folder: Path) -> None:
    path = folder / "conditions.jsonl"
    path.write_text(json.dumps({"condition": NEW, "target": "whatever"}) + '\n{"target": "x"}\n[]\nnonsense\n')
    code, out, err = run(capsys, "generate", str(folder / "model"), "--conditions", str(path), "--greedy")
    assert (code, out) == (2, "call zuzuzu wawawa at 9998887 now\n")
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{path}:{n}" for n in (2, 3, 4)]


def test_a_missing_condition_and_wrong_ones_are_one_line(capsys: Capture, folder: Path) -> None:
    model = str(folder / "model")
    for arguments, said in (
        ([], "writes from a condition, and none was given"),
        (["--condition", "inform(name"], "column 12 of the dialog act"),
        (["--condition", NEW, "--conditions", "x"], "--conditions writes one text for each line"),
    ):
        code, out, err = run(capsys, "generate", model, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err
    code, _, err = run(capsys, "explain", model, "--word", "serves")
    assert (code, err.count("\n")) == (2, 1)


def test_explain_shows_what_was_copied(capsys: Capture, folder: Path) -> None:
    arguments = ["--condition", NEW, "--prefix", "call zuzuzu", "--word", "wawawa"]
    code, out, _ = run(capsys, "explain", str(folder / "model"), *arguments)
    assert code == 0
    assert "Copied:name" in out
    assert "Continued" in out
    assert "of it priming" in out


def test_evaluate_reads_acts(capsys: Capture, folder: Path) -> None:
    code, out, _ = run(capsys, "evaluate", str(folder / "model"), str(folder / "valid.jsonl"), "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["log_perplexity"] < 1.0


def test_a_judge_learns_from_the_validation_text_or_from_pairs_that_are_named(capsys: Capture, folder: Path) -> None:
    command = ["model", "written", str(folder / "model"), str(folder / "valid.jsonl")]
    code, out, _ = run(capsys, *command)
    assert all(f"\n  {kind} " in out for kind in KINDS)
    n = len((folder / "valid.jsonl").read_text().splitlines())
    assert f"the judge learnt from {n:,} pairs of valid.jsonl\n" in out
    (folder / "none.jsonl").write_text('{"condition": "goodbye()", "target": "bye"}\n')
    code, _, err = run(capsys, *command, "--judge", str(folder / "none.jsonl"))
    assert (code, "found none" in err) == (2, True)


def test_what_is_written_is_judged_and_has_bleu(capsys: Capture, folder: Path) -> None:
    command = ["model", "written", str(folder / "model"), str(folder / "valid.jsonl")]
    code, out, _ = run(capsys, *command, "--bleu", "--beam", "3", "--json")
    (found,) = json.loads(out)
    assert (code, found["beam"]) == (0, 3)
    facts = found["facts"]
    assert found["judge"] == "40 pairs of valid.jsonl"
    assert facts["said"] > 80
    assert sum(facts.values()) - facts["said"] < 10
    assert {kind: sum(own[kind] for own in found["slots"].values()) for kind in KINDS} == facts
    assert found["bleu"] > 50
    code, out, _ = run(capsys, *command)
    assert (code, "written with a beam of 5: " in out and "\n  missing " in out, "BLEU" in out) == (0, True, False)


def test_the_slots_that_go_wrong_most_are_told_first() -> None:
    none = dict.fromkeys(KINDS, 0)
    slots = {"area": none | {"said": 9}, "kids": none | {"missing": 2, "said": 8}, "name": none | {"invented": 3}}
    facts = {kind: sum(own[kind] for own in slots.values()) for kind in KINDS}
    told = told_scores({"beam": 5, "facts": facts, "slots": slots})
    assert told.endswith("\n  wrong by slot: name 3 of 3, kids 2 of 10")
    right = {"area": none | {"said": 9}}
    assert "wrong by" not in told_scores({"beam": 5, "facts": right["area"], "slots": right})


def test_training_needs_a_condition_everywhere(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "valid.jsonl", examples(5, 0))
    (tmp_path / "train.jsonl").write_text('{"target": "a b"}\n')
    (tmp_path / "config.toml").write_text(CONFIG)
    command = ["train", str(tmp_path / "config.toml"), "--data", str(tmp_path), "--out", str(tmp_path / "model")]
    code, _, err = run(capsys, *command)
    assert code == 2
    assert "train.jsonl:1" in err
    code, _, err = run(capsys, *command, "--set", "corpus.conditions=plain")
    assert code == 2
    assert "a condition is required of every sentence" in err


# --- over HTTP -------------------------------------------------------------------------------------------------------


def test_texts_for_conditions_over_http_are_those_of_the_library(model: LLRNN) -> None:
    given = {"act": "inform", "slots": {"name": "kiwiba lomo", "food": "thai"}}
    texts = ["inform(name='kiwiba lomo';food=thai)", "inform(name=dorado;phone=5551234)"]
    with client_of(create_app(Engine([Served("acts", model)]))) as client:
        found = client.post("/v1/write", json={"conditions": [given, *texts], "beam": 4, "count": 3}).json()["texts"]
        assert found[0] == found[1]
        for text, one in zip(texts, found[1:], strict=True):
            condition = read_condition(model, text)
            (best,) = beam_search_each(prepared(model, [condition]), [condition], beam=4)
            assert [written["words"] for written in one["best"]] == [[*expected.words] for expected in best[:3]]
            assert one["best"][0]["log_prob"] == pytest.approx(best[0].log_prob, abs=1e-3)
            assert one["warnings"] == []
        greedy = {"condition": given, "greedy": True, "stream": False}
        expected = write(model, [parse_act(texts[0])], strategy=Greedy())[0]
        assert client.post("/v1/generate", json=greedy).json()["text"] == str(expected)


def test_the_same_question_has_the_same_answer_in_every_verb(capsys: Capture, folder: Path, model: LLRNN) -> None:
    for act in ("inform(name='kiwiba lomo';food=thai)", NEW, "inform(name='a b c';phone=5551234)"):
        (found,) = write(model, [read_condition(model, act)])
        assert f"{found}  log p" in run(capsys, "generate", str(folder / "model"), "--condition", act)[1]
        with client_of(create_app(Engine([Served("acts", model)]))) as client:
            asked = {"condition": act, "stream": False}
            done = client.post("/v1/generate", json=asked).json()
            assert (done["text"], done["finished"]) == (str(found), True)
            assert done["log_prob"] == pytest.approx(found.log_prob, abs=1e-3)
            assert client.post("/v1/write", json={"conditions": [act]}).json()["texts"][0]["best"][0]["text"] == str(
                found
            )
            (choice,) = client.post("/v1/completions", json={"condition": act}).json()["choices"]
            assert (choice["text"].strip(), choice["finish_reason"]) == (str(found), "stop")


@pytest.mark.parametrize("most", [1, 2, 3, 7, 60])
def test_a_text_that_is_cut_costs_no_more_than_was_estimated(model: LLRNN, most: int) -> None:
    act = "inform(name='a b c d e f';food=thai;phone=5551234)"
    with client_of(create_app(Engine([Served("acts", model)]))) as client:
        for beam in (None, 1, 20):
            wide = {} if beam is None else {"beam": beam}
            asked = {"condition": act, "prefix": "you can call", "max_words": most, "stream": False, **wide}
            answer = client.post("/v1/generate", json=asked)
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["words"]) <= most
        several = {"condition": act, "prompt": ["you can call", "call a"], "max_tokens": most}
        answer = client.post("/v1/completions", json=several)
        assert answer.status_code == 200, answer.text


def test_who_asks_for_another_way_over_http_gets_it(model: LLRNN) -> None:
    act = "inform(name='kiwiba lomo';food=thai)"
    with client_of(create_app(Engine([Served("acts", model)]))) as client:
        drawn = [client.post("/v1/generate", json={"condition": act, "stream": False, "temperature": 3.0, "seed": n})
                 for n in range(4)]  # fmt: skip
        assert len({one.json()["text"] for one in drawn}) > 1
        several = {"condition": act, "n": 4, "seed": 1, "temperature": 3.0}
        assert len({one["text"] for one in client.post("/v1/completions", json=several).json()["choices"]}) > 1
        refused = client.post("/v1/generate", json={"condition": act, "beam": 3, "seed": 1})
        assert refused.status_code == 409
        assert "found seed beside it" in refused.json()["message"]
        wide = client.post("/v1/generate", json={"prefix": "call", "condition": act, "beam": 3, "stream": False}).json()
        assert wide["text"] == str(write(model, [parse_act(act)], beam=3, prefix="call")[0])
        less = {"changes": [{"feature": "Copied:food", "offset": -50}], "condition": act, "stream": False}
        assert (
            "thai" not in client.post("/v1/generate", json=less).json()["text"]
        )  # weights are changed in a search too


@pytest.mark.parametrize(
    ("wrong", "advice"), [("firsts", "check"), ("askedd", "check"), ("namee", "did you mean 'name'")]
)
def test_only_acts_and_slots_are_proposed(model: LLRNN, wrong: str, advice: str) -> None:
    assert advice in str(unknown_names_of(model, [parse_act(f"inform({wrong}=dorado)")]))


def test_what_is_new_in_a_condition_is_told_with_what_is_known(model: LLRNN) -> None:
    given = {"act": "inform", "slots": {"nam": "dorado", "food": "klingon"}}
    with client_of(create_app(Engine([Served("acts", model)]))) as client:
        (found,) = client.post("/v1/write", json={"conditions": [given]}).json()["texts"]
        (names, values) = found["warnings"]
        assert "'nam'" in names
        assert "did you mean 'name'" in names
        assert "food, " in names
        assert "First" not in names  # a symbol of the encoder's own
        assert "'klingon' in 'food'" in values
        assert "(known: basque, french, greek, thai)" in values
        done = client.post("/v1/generate", json={"condition": given, "stream": False}).json()
        assert done["warnings"] == found["warnings"]
        refused = client.post("/v1/write", json={"conditions": [given, "inform("]})
        assert refused.status_code == 409
        assert refused.json()["message"].startswith("conditions.1: ")
        refused = client.post("/v1/write", json={"conditions": [{"act": "inform", "food": "thai"}]})
        assert '{"act": "inform", "slots": {"food": "thai"}}' in refused.json()["message"]


def test_conditions_that_come_together_are_searched_together(model: LLRNN) -> None:
    texts = tuple(f"inform(name=dorado;food={food})" for food in FOODS)
    sizes: list[int] = []

    async def ask() -> None:
        engine = Engine([Served("acts", model)])
        engine.observe_steps(lambda size, seconds: sizes.append(size))
        await engine.write(WriteRequest(conditions=texts, beam=2))
        await engine.close()

    asyncio.run(ask())
    assert sizes[:2] == [len(texts)] * 2  # they begin together, and go on together: they have the same new word


def test_searches_that_join_under_way_find_what_each_finds_alone(model: LLRNN) -> None:
    ready = prepared(model, [parse_act("inform(name='zigzag corner';food=thai)")])
    acts = [parse_act(f"inform(name='zigzag corner';food={food})") for food in FOODS]
    acts += [parse_act("inform(name=zigzag;food=thai)"), parse_act("inform(food=greek)")]
    alone = [beam_search_each(ready, [act], beam=width)[0] for act, width in zip(acts, (2, 3, 5, 2, 4, 3), strict=True)]
    going: list[Search] = []
    with torch.no_grad():
        for act, width in zip(acts, (2, 3, 5, 2, 4, 3), strict=True):  # one more before every second step
            going += begin_searches(ready, [act], beam=width)
            for _ in range(2):
                advance_searches(going)
        while advance_searches(going):
            pass
    for search, wanted in zip(going, alone, strict=True):
        assert [one.words for one in search.found()] == [one.words for one in wanted]
        assert [one.log_prob for one in search.found()] == pytest.approx([one.log_prob for one in wanted], abs=1e-4)


def test_a_search_keeps_no_room_for_those_that_have_ended(model: LLRNN) -> None:
    short, long = parse_act("inform(food=thai)"), parse_act("inform(name='a b c d e f g h i';food=thai)")
    ready = prepared(model, [long])
    with torch.no_grad():
        one, other = begin_searches(ready, [short], beam=2), begin_searches(ready, [long], beam=2)
        advance_searches([*one, *other])
        widest = one[0].state.controller[0].shape[1]
        advance_searches(one)  # the other one went away
    assert one[0].state.controller[0].shape[1] < widest


def test_the_client_writes_from_conditions(model: LLRNN) -> None:
    given = {"act": "inform", "slots": {"name": "dorado", "food": "thai"}}
    with running(create_app(Engine([Served("acts", model)]))) as address:
        client = llrnn.Client(f"http://127.0.0.1:{address.port}")
        one, other = client.write([given, "inform(name=dorado;food=greek)"], beam=3, count=2)
        assert [str(text) for text in one.best] == [text.text for text in one.best]
        assert len(other.best) == 2
        with pytest.raises(ConfigError, match="a list of conditions"):
            client.write(given)  # type: ignore[arg-type]
