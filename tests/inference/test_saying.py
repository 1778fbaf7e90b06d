"""A judge of what sentences say: laws on a toy domain whose truth is known, and hostile inputs."""

from __future__ import annotations

import random

import pytest

from llrnn.ground.errors import CorpusError
from llrnn.inference.saying import ABSENT, KINDS, FactClassifier, Judge
from llrnn.text.conditions import Act, Slot, facts_of, parse_act
from llrnn.text.corpus import Corpus, Sentence, Token

ASKS = ("do you want", "would you want", "", "is it", "shall it be", "do you need", "do you prefer", "please")
NAMES = ("alpha", "beta", "gamma", "delta", "omega house")
ROOMS = ("small", "large", "bright")
WORDINGS = {
    ("pool", "yes"): ("it has a pool", "guests can use the pool"),
    ("pool", "no"): ("it has no pool", "there is not any pool"),
    ("pool", "dont_care"): ("a pool does not matter",),
    ("dogs", "yes"): ("dogs are welcome", "it allows dogs"),
    ("dogs", "no"): ("dogs are not welcome", "it does not allow dogs"),
}


def said(slot: Slot, dice: random.Random) -> str:
    if slot.name == "room":
        return f"the rooms are {slot.value}"
    return dice.choice(WORDINGS[slot.name, str(slot.value)])


def example(dice: random.Random) -> tuple[Act, list[str]]:
    """An act, and its parts: what is said of the name, and of each other slot."""
    slots = [
        Slot(name, value) for name, value in {name: value for name, value in WORDINGS if dice.random() < 0.3}.items()
    ]
    slots += [Slot("room", dice.choice(ROOMS))] if dice.random() < 0.5 else []
    name = Slot("name", dice.choice(NAMES))
    return Act("inform", (name, *slots)), [f"{name.value} is a hotel", *(said(slot, dice) for slot in slots)]


def sentence(parts: list[str]) -> tuple[str, ...]:
    return tuple(" , ".join(parts).split())


def pairs(count: int, seed: int) -> Corpus:
    dice = random.Random(seed)
    found = [example(dice) for _ in range(count)]
    found += [(parse_act("?request(room)"), [f"which room {end}"]) for end in ASKS]
    found += [(parse_act("goodbye()"), [f"good bye {end}"]) for end in ("then", "and thanks then", "")]
    return Corpus(tuple(Sentence(tuple(map(Token, sentence(parts))), act) for act, parts in found))


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge.fit(pairs(400, 0))


def kinds(judge: Judge, act: Act, words: tuple[str, ...]) -> dict[str, str]:
    """{slot: kind} of all that is not said."""
    return {one.slot: one.kind for one in judge.verdicts(act, words) if one.kind != "said"}


def test_what_people_say_is_said(judge: Judge) -> None:
    dice = random.Random(1)
    for _ in range(100):
        act, parts = example(dice)
        assert kinds(judge, act, sentence(parts)) == {}
        assert len(judge.verdicts(act, sentence(parts))) == 1 + len(act.slots)


def test_every_planted_mistake_is_found(judge: Judge) -> None:
    dice, counts = random.Random(2), dict.fromkeys(KINDS, 0)
    for _ in range(150):
        act, parts = example(dice)
        if len(act.slots) < 2:
            continue
        place = dice.randrange(1, len(act.slots))
        slot, rest = act.slots[place], act.slots[:place] + act.slots[place + 1 :]
        cut = parts[:place] + parts[place + 1 :]
        others = [value for name, value in WORDINGS if name == slot.name] or list(ROOMS)
        rival = Slot(slot.name, dice.choice([value for value in others if value != slot.value]))
        for kind, told, words in (
            ("missing", act, cut),
            ("invented", Act("inform", rest), parts),
            ("contradicted", act, [*cut, said(rival, dice)]),
            ("repeated", act, [*parts, parts[place]]),
        ):
            assert kinds(judge, told, sentence(words)).get(slot.name) == kind, (kind, str(told), words)
            counts[kind] += 1
    assert min(counts[kind] for kind in ("missing", "invented", "contradicted", "repeated")) > 80


def test_kinds_of_acts_and_slots_without_a_value(judge: Judge) -> None:
    asks, leaves = parse_act("?request(room)"), parse_act("goodbye()")
    assert kinds(judge, asks, ("which", "room", "do", "you", "want")) == {}
    assert kinds(judge, leaves, ("good", "bye")) == {}
    assert kinds(judge, leaves, ("which", "room", "do", "you", "want")) == {
        "()": "contradicted",
        "room": "invented",
    }
    assert kinds(judge, asks, ("good", "bye")) == {"()": "contradicted", "room": "missing"}


def test_a_value_that_nobody_knows_is_invented_where_values_stand(judge: Judge) -> None:
    act = parse_act("inform(name=zeta;pool=yes)")
    assert kinds(judge, act, ("zeta", "is", "a", "hotel", ",", "it", "has", "a", "pool")) == {}
    assert kinds(judge, act, ("gamma", "is", "a", "hotel", ",", "it", "has", "a", "pool")) == {"name": "contradicted"}
    assert kinds(judge, act, ("is", "a", "hotel", ",", "it", "has", "a", "pool")) == {"name": "missing"}


def test_a_word_that_nobody_knows_is_a_doubt(judge: Judge) -> None:
    act = parse_act("inform(name=alpha;pool=yes)")
    assert kinds(judge, act, ("alpha", "is", "a", "hotel")) == {"pool": "missing"}
    assert kinds(judge, act, ("alpha", "is", "a", "hotel", "to", "swim", "at")) == {"pool": "unsure"}


def test_a_kind_of_act_is_one_that_has_the_slots_that_are_said(judge: Judge) -> None:
    assert kinds(judge, parse_act("inform(name=alpha)"), ("good", "bye", "alpha")) == {}
    assert kinds(judge, parse_act("inform(name=alpha)"), ("good", "bye")) == {"()": "contradicted", "name": "missing"}


def test_a_value_that_tells_its_slot_may_stand_in_the_place_of_another() -> None:
    dice = random.Random(0)
    rows = list[tuple[str, str]]()
    for i in range(60):
        food, meal = dice.choice(["thai", "greek", "french"]), dice.choice(["dinner", "lunch"])
        rows.append((f"inform(food={food};meal={meal})", f"it serves {food} food and is good for {meal}"))
        rows.append((f"inform(phone={i}{i};food={food})", f"call {i}{i} , it serves {food} food"))
    corpus = Corpus(tuple(Sentence(tuple(map(Token, text.split())), parse_act(act)) for act, text in rows))
    judge = Judge.fit(corpus)
    dinner = parse_act("inform(food=thai;meal=dinner)")
    assert kinds(judge, dinner, ("it", "serves", "dinner", "food", "and", "it", "serves", "thai", "food")) == {}
    number = parse_act("inform(phone=777;food=thai)")
    assert kinds(judge, number, ("it", "serves", "777", "food", "and", "it", "serves", "thai", "food")) == {
        "phone": "contradicted"
    }
    swapped = ("it", "serves", "dinner", "food", "and", "is", "good", "for", "thai")
    assert {one.kind for one in judge.verdicts(dinner, swapped)} == {"said", "contradicted"}


@pytest.mark.parametrize("words", ["", "hotel", "^ $ , . |", "a " * 400, "<room> <name>"])
def test_strange_sentences_and_slots(judge: Judge, words: str) -> None:
    for text in (
        "inform()",
        "unknown(strange=yes;other=thing;more)",
        "inform(pool=none)",
        "inform(name='a and b or c')",
    ):
        act = parse_act(text)
        verdicts = judge.verdicts(act, words.split())
        assert [(one.slot, one.value) for one in verdicts][: len(list(facts_of(act)))] == list(facts_of(act))
        assert all(one.kind in KINDS and 0 <= one.p <= 1 + 1e-9 for one in verdicts)
    missing = judge.verdicts(parse_act("inform(name=alpha;pool=yes)"), [])
    assert [one.kind for one in missing] == ["missing"] * 3


def test_records_have_no_kind(judge: Judge) -> None:
    assert [one.slot for one in judge.verdicts({"name": "alpha", "pool": "no"}, ())] == ["name", "pool"]


def test_counts_add_up_and_the_same_pairs_give_the_same_judge(judge: Judge) -> None:
    again, items = Judge.fit(pairs(400, 0)), [(one.condition, one.words) for one in pairs(30, 3)]
    assert [again.verdicts(*item) for item in items] == [judge.verdicts(*item) for item in items]
    count = judge.count(items)
    assert {tuple(own) for own in count.values()} == {KINDS}
    assert sum(sum(own.values()) for own in count.values()) == sum(len(judge.verdicts(*item)) for item in items)
    assert count["name"]["said"] == sum(
        one.kind == "said" and one.slot == "name" for item in items for one in judge.verdicts(*item)
    )


def test_values_of_other_conditions_are_known() -> None:
    act, words = parse_act("inform(pool=yes)"), ("zeta", "and", "mu", "is", "a", "hotel", ",", "it", "has", "a", "pool")
    told = Judge.fit(pairs(400, 0), [parse_act("inform(name='zeta and mu';room=the)")])
    found = [(one.slot, one.value, one.kind) for one in told.verdicts(act, words)][-1]
    assert found == ("name", "zeta and mu", "invented")
    assert ("the",) not in told.values


def test_a_judge_needs_slots() -> None:
    with pytest.raises(CorpusError, match="found none"):
        Judge.fit(Corpus.from_sentences([["a", "b"]]))


def test_log_linear_weights_are_at_the_optimum() -> None:
    """The gradient of the penalised likelihood is 0: expected and observed features agree but for the penalty."""
    rows, labels = [["a"], ["a", "b"], ["b"], ["b"], []], [ABSENT, "x", "x", "y", "y"]
    model = FactClassifier.fit(rows, labels)
    for name, row in {"": 0, **model.index}.items():
        for j, label in enumerate(model.classes):
            inside = [i for i, one in enumerate(rows) if not name or name in one]
            excess = sum(model.p(rows[i])[label] - (labels[i] == label) for i in inside)
            assert excess + 0.3 * model.weights[row, j] * bool(row) == pytest.approx(0, abs=1e-4)
