"""Facts without words of their own: alignment, coverage and the three features, from their definitions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import llrnn
from llrnn import EOS, GRU, LLRNN, Corpus, Vocabulary, load
from llrnn.knowledge.backgrounds import Uniform
from llrnn.knowledge.contextual import Worded, restore
from llrnn.knowledge.contextual.worded import MOST_RIVALS
from llrnn.knowledge.features import Identity
from llrnn.model.decode import advance_searches, begin_searches, errors, misread
from llrnn.model.testing import check_contextual
from llrnn.text.conditions import parse_act

PAIRS = [
    ("inform(name=roma;kids=no)", "roma does not allow children"),
    ("inform(name=roma;kids=yes)", "children may come to roma"),
    ("inform(name=taj;kids=no)", "taj does not allow children"),
    ("inform(name=taj;dogs=no)", "no dog may come to taj"),
    ("inform(name=roma;dogs=no)", "no dog may come to roma"),
    ("inform(name=blue door;dogs=no)", "no dog may come to blue door"),
    ("inform(name=taj;dogs=no;kids=yes)", "taj where children may come , no dog may"),
    ("inform(name=blue door)", "blue door is nice"),
    ("inform(name=roma;price=cheap)", "roma costs little"),
    ("inform(name=taj;price=cheap)", "taj costs little"),
    ("inform(name=blue door;price=cheap)", "blue door costs little"),
    ("?request(food)", "what food would you like"),
    ("?request(area)", "where would you like to eat"),
]
NOBODY = ("", "")


def corpus_of(pairs: Sequence[tuple[str, str]]) -> Corpus:
    sentences = Corpus.from_sentences([text.split() for _, text in pairs]).sentences
    return Corpus(
        tuple(replace(one, condition=parse_act(c)) for one, (c, _) in zip(sentences, pairs, strict=True)), "x"
    )


CORPUS = corpus_of(PAIRS)
VOCABULARY = Vocabulary([*{word: None for _, text in PAIRS for word in text.split()}, EOS])
ACTS = [sentence.condition for sentence in CORPUS]
# sources of each pair, by hand; a price is said in other words in three texts of three
SOURCES = {
    "kids=no": [("kids", "no"), ("kids", "*"), ("*", "no")],
    "kids=yes": [("kids", "yes"), ("kids", "*"), ("*", "yes")],
    "dogs=no": [("dogs", "no"), ("dogs", "*"), ("*", "no")],
    "price=cheap": [("price", "cheap"), ("price", "*"), ("*", "cheap")],
    "food": [("food", "?"), ("food", "*"), ("*", "?")],
    "area": [("area", "?"), ("area", "*"), ("*", "?")],
}


def facts_in(act: str) -> list[str]:
    return act.rstrip(")").replace("(", ";").split(";")


def sources(act: str) -> set[tuple[str, str]]:
    kind, *slots = facts_in(act)
    found = {NOBODY, ("()", kind)}
    for slot in slots:
        found |= set(SOURCES.get(slot, [("name", "=")]))
    return found


def words(act: str, text: str) -> list[str]:
    for name in ("roma", "taj", "blue door"):
        text = text.replace(name, "SLOT_NAME") if name in act else text
    return text.split()


Pair = tuple[tuple[str, str], str]


def model_one(rounds: int) -> tuple[dict[Pair, float], dict[Pair, float]]:
    """t(w | s), and expected counts, by the definition, word by word."""
    t: dict[Pair, float] = defaultdict(lambda: 1.0)
    count: dict[Pair, float] = {}
    for _ in range(rounds):
        count = defaultdict(float)
        for act, text in PAIRS:
            for word in words(act, text):
                total = sum(t[source, word] for source in sources(act))
                for source in sources(act):
                    count[source, word] += t[source, word] / total
        whole: dict[tuple[str, str], float] = defaultdict(float)
        for (source, _), n in count.items():
            whole[source] += n
        t = defaultdict(float, {(source, word): n / whole[source] for (source, word), n in count.items()})
    return {key: share for key, share in t.items() if count[key] >= 1.0}, count


SHARES, EXPECTED = model_one(8)


def own(slot: str, word: str) -> float:
    """Which share of a word's occurrences comes from facts of a slot, those expected less than once left out."""
    says = [source for source in {pair[0] for pair in SHARES} if source[0] == slot and source[1] != "="]
    total = sum(n for (_, one), n in EXPECTED.items() if one == word)
    return sum(EXPECTED[source, word] for source in says if (source, word) in SHARES) / total if total else 0.0


def test_wordings_are_what_eight_rounds_of_alignment_find() -> None:
    found = {
        ((slot, value), word): share
        for slot, value, own in Worded.aligned(CORPUS).saved().fields["shares"]
        for word, share in own.items()
    }
    assert found == pytest.approx(SHARES)
    assert found[("kids", "*"), "children"] > 0.2


def told(act: str, text: str, fact: str) -> float:
    """How much better the slot's own words are explained by all sources than by those without the fact's slot."""
    without, slot = sources(act) - {*SOURCES[fact][:2]}, SOURCES[fact][0][0]
    return sum(
        own(slot, word) * math.log((0.001 + said_by(sources(act), word)) / (0.001 + said_by(without, word)))
        for word in text.split()
    )


def said_by(among: set[tuple[str, str]], word: str) -> float:
    return sum(SHARES.get((source, word), 0.0) for source in among)


MEAN = {
    fact: sum(told(act, " ".join(words(act, text)), fact) for act, text in having) / len(having)
    for fact in SOURCES
    if (having := [pair for pair in PAIRS if fact in facts_in(pair[0])])
}


def surplus(these: set[tuple[str, str]], others: set[tuple[str, str]], word: str) -> float:
    def most(among: set[tuple[str, str]]) -> float:
        return max([0.001, *(SHARES.get((source, word), 0.0) for source in among)])

    return max(math.log(most(these) / most(others)), 0.0)


@pytest.mark.parametrize("act", ["inform(name=roma;kids=no)", "inform(name=taj;dogs=no;kids=yes)", "?request(area)"])
@pytest.mark.parametrize("text", ["", "roma does not", "children may come ,", "where would you like", "no dog may"])
def test_features_are_what_the_equations_say(act: str, text: str) -> None:
    worded = Worded.aligned(CORPUS).bind(VOCABULARY)
    state = worded.initial(parse_act(act))
    for word in text.split():
        state = worded.advance(state, VOCABULARY.id(word))
    facts = [slot for slot in facts_in(act) if slot in SOURCES]
    share = {fact: told(act, text, fact) / MEAN[fact] if MEAN[fact] else math.inf for fact in facts}
    due = {source for fact in facts if share[fact] < 0.5 for source in SOURCES[fact]}
    mine, every = sources(act), {source for several in SOURCES.values() for source in several}
    rest, found = worded.value(state)
    assert rest == [0.0, 0.0, 0.0]
    for word in VOCABULARY:
        wanted = (surplus(due, mine - due, word), surplus(every - mine, mine, word), 0.0)
        if word == EOS:
            wanted = (0.0, 0.0, sum(one < 0.2 for one in share.values()))
        assert found.get(VOCABULARY.id(word), (0.0, 0.0, 0.0)) == pytest.approx(wanted, abs=1e-5), word


def test_what_is_said_is_not_due_any_more_and_what_nobody_asked_for_is_foreign() -> None:
    worded = Worded.aligned(CORPUS).bind(VOCABULARY)
    before = worded.initial(parse_act("inform(name=roma;kids=no)"))
    state = before
    for word in ["roma", "does", "not", "allow", "children"]:
        state = worded.advance(state, VOCABULARY.id(word))
    eos, allow = VOCABULARY.eos, VOCABULARY.id("allow")
    assert worded.value(before)[1][eos] == [0.0, 0.0, 1.0]
    assert worded.values([before]).value.max(0).values[0] > 1
    assert worded.value(before)[1][allow] == pytest.approx([math.log(SHARES[("kids", "no"), "allow"] / 0.001), 0, 0])
    assert eos not in worded.value(state)[1]
    assert worded.remarks(before, ()) == dict.fromkeys(("Worded:due", "Worded:untold"), "kids=no still to be told")
    assert worded.remarks(state, ()) == {}
    assert worded.value(worded.advance(state, eos))[1][eos] == [0.0, 0.0, 1.0]  # the next sentence
    plain = worded.initial(parse_act("inform(name=roma)"))
    assert worded.values([plain]).value.max(0).values[1] > 1
    assert allow in worded.value(plain)[1]


RIVALS = {  # by hand: other kinds that ever have the slots, other values of a slot, the slot left out
    "inform(name=roma;kids=no)": [["inform(name=roma;kids=yes)", "inform(name=roma)"]],
    "inform(kids=yes;dogs=no)": [["inform(kids=no;dogs=no)", "inform(dogs=no)"], ["inform(kids=yes)"]],
    "?request(food)": [["?request()"]],
    "goodbye()": [["inform()", "?request()"]],
    "inform(name=roma)": [],
}


@pytest.mark.parametrize("act", RIVALS)
def test_what_a_text_could_mean_instead(act: str) -> None:
    found = Worded.aligned(CORPUS).rivals(parse_act(act))
    assert [[str(one) for one in group] for group in found] == RIVALS[act]


def test_rivals_of_records_and_of_what_has_none() -> None:
    worded = Worded.aligned(CORPUS)
    assert worded.rivals({"name": "roma", "kids": "no"}) == [[{"name": "roma", "kids": "yes"}, {"name": "roma"}]]
    assert worded.rivals({"kids": ["no", "yes"]})[0] == [{"kids": "yes"}, {}]
    assert worded.rivals(None) == worded.rivals("a text") == worded.rivals([1, {"kids": "no"}]) == []
    many = worded.rivals(parse_act(f"inform({';'.join(['kids=no'] * 500 + [f's{i}=none' for i in range(400)])})"))
    assert 0 < sum(map(len, many)) <= MOST_RIVALS


def result(steps: Generator[int, None, list[int]]) -> list[int]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[int] = end.value
            return found


def test_texts_that_the_model_reads_as_something_else_come_later() -> None:
    """From the definition, text by text: p(text | condition) against the sum over each group of rivals."""
    model = LLRNN(
        VOCABULARY,
        output_features=Identity(),
        contextual=[Worded.aligned(CORPUS)],
        controller=GRU(4),
        background=Uniform(),
    ).double()
    dice = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(2 * torch.randn(weights.shape, generator=dice, dtype=torch.float64))
    worded = model.contextual[0]
    assert isinstance(worded, Worded)

    def p(words: Sequence[str], act: object) -> float:
        text = Corpus((replace(Corpus.from_sentences([words])[0], condition=act),))
        return math.exp(-llrnn.evaluate(model, text).log_perplexity * (len(words) + 1))

    seen = set[int]()
    for act in ACTS:
        (search,) = begin_searches(model, [act], beam=5, max_words=4)
        while advance_searches([search]):
            pass
        texts = search.found()
        wanted = [
            sum(sum(p(one.words, rival) for rival in group) > p(one.words, act) for group in worded.rivals(act))
            for one in texts
        ]
        assert result(misread(model, act, texts)) == wanted
        key = [(errors(act, one.words) + n, -one.log_prob) for one, n in zip(texts, wanted, strict=True)]
        assert wanted[0] == 0 or key == sorted(key)
        seen.update(wanted)
    assert {0, 1} <= seen
    assert result(misread(model, None, [])) == []


def test_the_laws_of_features_hold() -> None:
    check_contextual(Worded.aligned(CORPUS), VOCABULARY, conditions=ACTS)


def test_pairs_without_such_facts_have_nothing_to_say() -> None:
    worded = Worded.aligned(corpus_of([("inform(name=roma)", "roma is nice")] * 3)).bind(VOCABULARY)
    check_contextual(worded, VOCABULARY, conditions=ACTS)
    assert worded.value(worded.initial(None)) == ([0.0, 0.0, 0.0], {})
    assert worded.values([]).rest.shape == (0, 3)


def test_features_come_back_from_a_folder(tmp_path: Path) -> None:
    worded = Worded.aligned(CORPUS)
    assert restore(worded.saved()).saved() == worded.saved()
    assert repr(restore(worded.saved())) == "Worded(6 facts)"
    model = LLRNN(
        VOCABULARY,
        output_features=Identity(),
        background=Uniform(),
        controller=GRU(hidden=4),
        contextual=[worded],
    )
    model.save(tmp_path / "saved")
    one = corpus_of(PAIRS[:1])
    before, opened = llrnn.evaluate(model, one), llrnn.evaluate(load(tmp_path / "saved"), one)
    assert before.perplexity == opened.perplexity
