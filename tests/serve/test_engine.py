"""The engine of the server: requests that are answered together get what each would get alone, and from the library."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from helpers import HANG, Expected, sentence_log_probs, shaken, small_corpus, small_model, small_vocabulary
from llrnn import (
    LLRNN,
    Corpus,
    Lexicon,
    Vocabulary,
    backgrounds,
    complete,
    contextual,
    explain,
    features,
    generate,
    influence,
)
from llrnn.inference.explanation import Comparison
from llrnn.inference.scores import score
from llrnn.languages.domains import Numbers
from llrnn.model.controllers import GRU
from llrnn.model.decode import beam_search_each, read_prefix
from llrnn.model.ensembles import mixture
from llrnn.model.steering import Change, FeatureNames, steer, swap
from llrnn.serve.costs import STEP_COST, cost_of
from llrnn.serve.engine import Engine, ScoreQuestion, prepared_for
from llrnn.serve.messages import (
    ChangeMessage,
    CompleteRequest,
    CompletionRequest,
    ExplainRequest,
    GenerateRequest,
    InfluenceRequest,
    NextRequest,
    ReadRequest,
    Refused,
    ScoreRequest,
    WriteRequest,
    most,
)
from llrnn.serve.served import SCOPE, Batcher, FairQueue, Job, RequestScope, Served
from llrnn.text.conditions import Before
from llrnn.text.units import CharacterUnits
from llrnn.text.vocabulary import EOS

LOOP = asyncio.new_event_loop()  # of jobs that nobody runs
CHANGE = ChangeMessage(feature="Gender:*", scale=0.5, offset=0.7)
CHANGE_UNIT = ChangeMessage(feature="Word:*", scale=0.5)
PREFIXES = [sentence.words[: n % 6] for n, sentence in enumerate(small_corpus().sentences[:12])]


def some_model() -> LLRNN:
    expert = contextual.Expert(backgrounds.NGram.from_corpus(small_corpus(), order=2), name="kn")
    phi = features.Identity() + features.Attributes(Lexicon.from_corpus(small_corpus()))  # no two words tie
    return small_model(output_features=phi, context=[expert])


def grammar_model() -> LLRNN:
    """Only `a`, then `b`, then the end."""
    vocabulary = Vocabulary([EOS, "a", "b"])
    return LLRNN(
        vocabulary,
        output_features=features.Identity(),
        background=backgrounds.Grammar('start: "a" "b"'),
        controller=GRU(4),
    )


def run(served: Sequence[Served], ask: Callable[[Engine], Awaitable[Any]], rows: int = 64) -> Any:
    async def main() -> Any:
        engine = Engine(served, rows=rows)
        try:
            return await ask(engine)
        finally:
            await engine.close()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return some_model()


@pytest.fixture(scope="module")
def served(model: LLRNN) -> Served:
    return Served("french", model)


def together(served: Served, requests: Sequence[Any], kind: str, rows: int) -> tuple[list[Any], list[int]]:
    """Answers to requests that arrive at once, and the rows of the steps that gave them."""
    sizes: list[int] = []

    async def ask(engine: Engine) -> list[Any]:
        engine.observe_steps(lambda size, seconds: sizes.append(size))
        return await asyncio.gather(*(getattr(engine, kind)(one) for one in requests), return_exceptions=True)

    return run([served], ask, rows), sizes


def close(found: Any, expected: Any) -> None:
    """Equal to float32, whatever is inside of what."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            close(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=2e-4, abs=2e-5)
    else:
        assert found == expected


def next_requests() -> list[NextRequest]:
    return [
        NextRequest(prefix=prefix, top=n % 4, words=("la", ".")[: n % 3], changes=(CHANGE,) if n % 2 else ())
        for n, prefix in enumerate(PREFIXES)
    ]


def test_many_requests_are_one_step_and_say_what_each_says_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, single = together(served, next_requests(), "next", 1)
    # the model is busy until all of them wait
    monkeypatch.setattr(FairQueue, "__bool__", lambda turns: sum(map(len, turns._lanes.values())) == len(PREFIXES))
    at_once, sizes = together(served, next_requests(), "next", 64)
    close(at_once, alone)
    assert single == [1] * len(PREFIXES)
    assert sizes == [len(PREFIXES)]


def test_next_is_what_the_library_says(model: LLRNN, served: Served) -> None:
    answers, _ = together(served, next_requests(), "next", 64)
    for request, answer in zip(next_requests(), answers, strict=True):
        changed = steer(model, [Change(CHANGE.feature, CHANGE.scale, CHANGE.offset)]) if request.changes else model
        with torch.no_grad():
            p, _ = read_prefix(changed, tuple(request.prefix), [None])
            log_p = p.log_probs()[0]
        assert answer["prefix"] == list(request.prefix)
        assert [one["word"] for one in answer["top"]] == [
            model.vocabulary.symbols[i] for i in log_p.topk(request.top).indices.tolist()
        ]
        for one in (*answer["top"], *answer["words"]):
            assert one["log_p"] == pytest.approx(float(log_p[model.vocabulary.id(one["word"])]), abs=1e-4)
            assert one["p"] == pytest.approx(math.exp(one["log_p"]))
        assert answer["total"] == pytest.approx(1.0, abs=1e-5)
        assert answer["entropy"] == pytest.approx(float(-(log_p.exp() * log_p).sum()), abs=1e-4)
        assert answer["log_z"] == pytest.approx(float(p.log_z[0]), abs=1e-4)


def test_explanations_are_the_librarys_and_add_up(model: LLRNN, served: Served) -> None:
    requests = [
        ExplainRequest(prefix=prefix, word="la", rival="." if n % 2 else None) for n, prefix in enumerate(PREFIXES)
    ]
    answers, _ = together(served, requests, "explain", 64)
    for request, answer in zip(requests, answers, strict=True):
        expected = explain(model, prefix=tuple(request.prefix), word="la", rival=".")
        assert isinstance(expected, Comparison)
        found = answer["word"]
        assert found["log_p"] == pytest.approx(expected.chosen.log_p, abs=1e-4)
        parts = found["log_b"] + sum(term["share"] for term in found["terms"]) - found["log_z"]
        assert found["total"] == pytest.approx(parts, abs=1e-9)
        assert found["log_p"] == pytest.approx(parts, abs=1e-4)
        assert {term["name"] for term in found["terms"]} == {term.name for term in expected.chosen.terms}
        if request.rival is None:
            assert answer["rival"] is answer["comparison"] is None
        else:
            assert answer["comparison"]["log_ratio"] == pytest.approx(expected.log_ratio, abs=1e-4)
            assert answer["comparison"]["total"] == pytest.approx(expected.total, abs=1e-4)


def test_an_explanation_shows_the_weights_of_the_request(served: Served) -> None:
    plain = ExplainRequest(prefix="la", word="la")
    by_hand = ExplainRequest(prefix="la", word="la", changes=(ChangeMessage(feature="Word:la", scale=0, offset=2.5),))
    (before, after), _ = together(served, [plain, by_hand], "explain", 64)
    weights = [{term["name"]: term["weight"] for term in one["word"]["terms"]} for one in (before, after)]
    assert weights[1]["Word:la"] == 2.5
    assert {name: w for name, w in weights[1].items() if name != "Word:la"} == {
        name: pytest.approx(w, abs=1e-5) for name, w in weights[0].items() if name != "Word:la"
    }


def test_influence_follows_the_weights_of_the_request(model: LLRNN, served: Served) -> None:
    change = ChangeMessage(feature="Gender:Fem", scale=-2.0, offset=1.0)
    requests = [InfluenceRequest(prefix="la", feature="Gender:Fem", changes=c) for c in ((), (change,))]
    (plain, turned), _ = together(served, requests, "influence", 64)
    expected = influence(model, prefix="la", feature="Gender:Fem")
    assert plain["weight"] == pytest.approx(expected.weight)
    assert turned["weight"] == pytest.approx(1.0 - 2.0 * expected.weight)
    assert [term["share"] for term in plain["terms"]] == pytest.approx([term.share for term in expected.terms])
    assert [term["share"] for term in turned["terms"]] == pytest.approx([-2.0 * term.share for term in expected.terms])


def test_scores_are_those_of_the_words_one_by_one(
    model: LLRNN, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tuple(sentence.words for sentence in small_corpus().sentences[:9])
    (whole,), _ = together(served, [ScoreRequest(texts=(*texts, ""))], "score", 64)
    monkeypatch.setattr("llrnn.serve.engine.AT_ONCE", 1)  # one text at a time
    (apart,), _ = together(served, [ScoreRequest(texts=(*texts, ""))], "score", 64)
    close(whole, apart)
    for text, found in zip((*texts, ()), whole["scores"], strict=True):
        expected = sentence_log_probs(model, text)
        assert found["words"] == [*text, EOS]
        assert found["log_p"] == pytest.approx(expected, abs=1e-4)
        assert found["log_prob"] == pytest.approx(sum(expected), abs=1e-3)
        assert found["perplexity"] == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-3)


def test_scores_with_weights_of_the_request(model: LLRNN, served: Served) -> None:
    text = small_corpus().sentences[1].words
    (found,), _ = together(served, [ScoreRequest(texts=(text,), changes=(CHANGE,))], "score", 64)
    steered = steer(model, [Change(CHANGE.feature, CHANGE.scale, CHANGE.offset)])
    assert found["scores"][0]["log_p"] == pytest.approx(sentence_log_probs(steered, text), abs=1e-4)


async def written(engine: Engine, request: GenerateRequest) -> list[Any]:
    return [event async for event in engine.generate(request)]


KIDS = {"no": "does not allow children", "yes": "has room for children"}


def wording_model() -> LLRNN:
    """Of a fact that no text says in its own words; more is likely to be read as another than not."""
    pairs = [
        ({"name": name, "kids": kids}, f"{name} {said}") for name in ("roma", "taj") for kids, said in KIDS.items()
    ]
    texts = Corpus.from_sentences([text.split() for _, text in pairs] * 3).sentences
    corpus = Corpus(tuple(replace(one, condition=pairs[n % 4][0]) for n, one in enumerate(texts)))
    phi, wordings = features.Identity(), contextual.Worded.aligned(corpus)
    words = Vocabulary.from_corpus(corpus)
    model = LLRNN(words, output_features=phi, contextual=[wordings], controller=GRU(4))
    shaken(model, 2.0)
    return model


def test_what_a_search_found_is_read_again_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition and two rivals (yes, nothing of kids) for one text, or for all where the first is misread."""
    model, condition = wording_model(), {"name": "roma", "kids": "no"}
    request = WriteRequest(conditions=(json.dumps(condition),), count=5, max_words=6)
    (whole,), steps = together(Served("acts", model), [request], "write", 64)
    monkeypatch.setattr("llrnn.model.decode.AT_ONCE", 1)
    (apart,), turns = together(Served("acts", model), [request], "write", 64)
    close(apart, whole)
    found = beam_search_each(model, [condition], beam=5, max_words=6)[0]
    assert [tuple(one["words"]) for one in whole["texts"][0]["best"]] == [one.words for one in found]
    once, every = 3, 3 * len(found)
    assert len(turns) - len(steps) in {once - 1, once - 1 + every - 1}


@pytest.mark.parametrize("misread", [False, True])
@pytest.mark.parametrize("most_words", [1, 6, 60])
@pytest.mark.parametrize("kind", ["write", "completions", "generate"])
def test_reading_again_costs_what_was_said_before_at_most(
    kind: str, most_words: int, misread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request has its answer within the cost that it was admitted with, though all five texts are read."""
    if misread:
        monkeypatch.setattr(contextual.Worded, "rivals", lambda self, given: [[given, given]])  # likelier together
    served, condition = Served("acts", wording_model()), json.dumps({"name": "roma", "kids": "no"})
    requests: dict[str, Any] = {
        "write": WriteRequest(conditions=(condition,) * 3, max_words=most_words),
        "completions": CompletionRequest(prompt=("", "roma"), n=2, condition=condition, max_tokens=most_words),
        "generate": GenerateRequest(prefix="roma", condition=condition, max_words=most_words),
    }
    request = requests[kind]
    scope = RequestScope()

    async def ask(engine: Engine) -> Any:
        SCOPE.set(scope)
        if kind == "write":
            return await engine.write(request)
        return [[event async for event in text] for text in engine.continuations(request)]

    assert run([served], ask)
    assert 0 < scope.spent <= scope.allowed + 1e-6 < most("work")


WAYS: list[dict[str, Any]] = [{}, {"temperature": 0.5, "top_k": 5}, {"top_p": 0.8}, {"greedy": True}]


def test_changes_are_resolved_once_a_request(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[str] = []
    rows = FeatureNames.rows

    def counted(names: FeatureNames, name: str) -> Any:
        resolved.append(name)
        return rows(names, name)

    monkeypatch.setattr(FeatureNames, "rows", counted)
    request = ScoreRequest(texts=("la maison",) * 64, changes=(CHANGE,) * 200)
    found = run([served], lambda engine: engine.score(request))
    assert len(found["scores"]) == 64
    assert len(resolved) == 200


def test_patterns_look_through_so_many_names_and_no_more(served: Served) -> None:
    count = most("pattern_names") // len(served.model.feature_names)
    patterns = tuple(ChangeMessage(feature="G*" + "*" * n) for n in range(count + 1))

    def asked(*changes: ChangeMessage) -> Any:  # more than a message may hold: other models have more features
        request = NextRequest.model_construct(**dict(NextRequest(), changes=changes))
        return run([served], lambda engine: engine.next(request))

    assert asked(*patterns[:-1], patterns[0])["top"]  # the same one again costs nothing
    with pytest.raises(Refused, match=r"names of features, found .*; send fewer patterns") as refused:
        asked(*patterns)
    assert (refused.value.status, refused.value.code) == (422, "too_many_changes")


def test_a_seed_gives_the_same_text_alone_in_company_and_in_the_library(model: LLRNN, served: Served) -> None:
    requests = [
        GenerateRequest(prefix=prefix, seed=n, max_words=8, changes=(CHANGE,) if n == 5 else (), **WAYS[n % 4])
        for n, prefix in enumerate(PREFIXES)
    ]
    sizes: list[int] = []

    async def ask(engine: Engine) -> list[Any]:
        engine.observe_steps(lambda size, seconds: sizes.append(size))
        return list(await asyncio.gather(*(written(engine, one) for one in requests)))

    at_once, alone = run([served], ask), run([served], ask, rows=1)
    assert max(sizes) > 4
    for n, (request, events) in enumerate(zip(requests, at_once, strict=True)):
        close(events, alone[n])
        *words, (last, done) = events
        assert {name for name, _ in words} <= {"word"}
        assert last == "done"
        assert done["log_prob"] == pytest.approx(sum(sentence_parts(model, request, done)), abs=1e-3)
        if not request.changes:
            (expected,) = generate(model, tuple(request.prefix), max_words=8, seed=n, **WAYS[n % 4])
            assert (tuple(done["words"]), done["finished"]) == (expected.words, expected.finished)
            assert done["log_prob"] == pytest.approx(expected.log_prob, abs=1e-3)
    features_of_first = model.output_features.named(model.vocabulary.id(at_once[0][0][1]["word"]))
    assert at_once[0][0][1]["features"] == features_of_first


def sentence_parts(model: LLRNN, request: GenerateRequest, done: dict[str, Any]) -> list[float]:
    changed = (
        steer(model, [Change(c.feature, c.scale, c.offset) for c in request.changes]) if request.changes else model
    )
    all_words = (*request.prefix, *done["words"])
    log_p = sentence_log_probs(changed, all_words)[len(request.prefix) :]
    return log_p if done["finished"] else log_p[:-1]


def test_another_background_is_that_of_swap(model: LLRNN, served: Served) -> None:
    request = NextRequest(prefix="la", words=("la",), background="uniform")
    (found,), _ = together(served, [request], "next", 64)
    with torch.no_grad():
        p, _ = read_prefix(swap(model, background=backgrounds.Uniform()), ("la",), [None])
    assert found["words"][0]["log_p"] == pytest.approx(float(p.log_probs()[0, model.vocabulary.id("la")]), abs=1e-4)
    assert served.variants["uniform"].layer is model.layer


def test_a_model_without_capitals_says_so() -> None:
    words = [EOS, "la", "La"]
    own = LLRNN(Vocabulary(words), output_features=features.Identity(), controller=GRU(4))
    small = LLRNN(Vocabulary(words[:2]), output_features=features.Identity(), controller=GRU(4))
    assert [Served("one", one).described["lowercase"] for one in (own, small)] == [False, True]


REFUSED = [
    (NextRequest(prefix="xyzzy"), "next", 400, "unknown_word", "'xyzzy'"),
    (NextRequest(words=("xyzzy",)), "next", 400, "unknown_word", "'xyzzy'"),
    (NextRequest(model="other"), "next", 404, "unknown_model", "there are french"),
    (NextRequest(background="other"), "next", 404, "unknown_background", "only own, uniform, unigram"),
    (NextRequest(changes=(ChangeMessage(feature="nope"),)), "next", 404, "unknown_feature", "'nope'"),
    (ExplainRequest(word="xyzzy"), "explain", 400, "unknown_word", "'xyzzy'"),
    (InfluenceRequest(feature="nope"), "influence", 404, "unknown_feature", "'nope'"),
    (ScoreRequest(texts=("xyzzy",)), "score", 400, "unknown_word", "'xyzzy'"),
]


@pytest.mark.parametrize(("request_", "kind", "status", "code", "message"), REFUSED)
def test_what_is_not_there_is_refused_alone(
    served: Served, request_: Any, kind: str, status: int, code: str, message: str
) -> None:
    fine = {"next": NextRequest(), "explain": ExplainRequest(word="la"), "influence": InfluenceRequest(feature="kn")}
    good: Any = fine.get(kind, ScoreRequest(texts=("la",)))
    answers, _ = together(served, [good, request_, good], kind, 64)
    assert isinstance(answers[1], Refused)
    assert (answers[1].status, answers[1].code) == (status, code)
    assert message in answers[1].message
    close(answers[0], answers[2])


def test_a_prefix_that_leads_nowhere_spoils_nothing() -> None:
    served = Served("ab", grammar_model())
    requests = [NextRequest(prefix=prefix) for prefix in ("a", "b", "", "b a", "a b")]
    answers, _ = together(served, requests, "next", 64)
    dead = [isinstance(answer, Refused) for answer in answers]
    assert dead == [False, True, False, True, False]
    assert answers[1].code == "impossible"
    assert [[one["word"] for one in answers[n]["top"]] for n in (0, 2, 4)] == [["b"], ["a"], [EOS]]
    why, _ = together(
        served, [ExplainRequest(prefix="b", word="a"), ExplainRequest(prefix="a", word="a")], "explain", 64
    )
    assert why[0].code == "impossible"
    assert why[1]["word"]["log_p"] is why[1]["word"]["total"] is None
    assert len(why[1]["word"]["forbidden_by"]) == 1
    scores, _ = together(served, [ScoreRequest(texts=("a b", "a a", "b"))], "score", 64)
    assert [one["log_prob"] for one in scores[0]["scores"]] == [pytest.approx(0.0, abs=1e-6), None, None]


def test_a_mixed_model_is_served_with_the_shares_of_its_members() -> None:
    models = [small_model(loud=1.0), small_model(controller=GRU(5), loud=1.0)]
    served = Served("mixed", mixture(models, [0.3, 0.7], names=["a", "b"]))
    requests = [ExplainRequest(prefix=prefix, word="la") for prefix in ("", "la", "la la")]
    answers, _ = together(served, requests, "explain", 64)
    for request, answer in zip(requests, answers, strict=True):
        parts = answer["word"]["parts"]
        assert [part["name"] for part in parts] == ["a", "b"]
        own = [explain(model, request.prefix, word="la").log_p for model in models]
        assert [part["log_b"] for part in parts] == pytest.approx(own, abs=1e-4)
        assert sum(part["share"] for part in parts) == pytest.approx(1.0, abs=1e-5)
    alone, _ = together(served, requests[1:2], "explain", 64)
    close(alone[0], answers[1])
    scores, _ = together(served, [ScoreRequest(texts=("la", "la la"))], "score", 64)
    assert all(one["log_prob"] < 0 for one in scores[0]["scores"])


def test_weights_that_overflow_are_told(served: Served) -> None:
    changes = tuple(ChangeMessage(feature="*", scale=1e6, offset=1e6) for _ in range(8))
    (found, fine), _ = together(served, [NextRequest(changes=changes), NextRequest()], "next", 64)
    assert isinstance(found, Refused)
    assert fine["total"] == pytest.approx(1.0, abs=1e-5)


def test_conditions_are_read_and_asked_for() -> None:
    base = backgrounds.Unigram.from_corpus(small_corpus())
    word = next(w for w in small_vocabulary().words if w.isalpha() and len(w) > 4)
    primed = small_model(background=backgrounds.Primed(base, entities={word}, boost=5.0, absent=0.1))
    served = Served("primed", primed)
    assert served.described["conditions"] == "optional"
    requests = [NextRequest(words=(word,)), NextRequest(words=(word,), condition=word)]
    (without, with_it), _ = together(served, requests, "next", 64)
    assert with_it["words"][0]["p"] > without["words"][0]["p"]
    expected = explain(primed, word=word, condition=word).log_p
    assert with_it["words"][0]["log_p"] == pytest.approx(expected, abs=1e-4)


def test_what_reads_conditions_says_so(served: Served) -> None:
    assert served.described["conditions"] == "none"  # its n-gram expert follows the words alone
    inner = Served("inner", small_model(background=backgrounds.Model(small_model())))
    assert inner.conditions == "none"
    primed = backgrounds.Primed(backgrounds.Uniform(), entities={"la"}, boost=2.0)
    expert = contextual.Expert(primed, name="primed")
    assert Served("expert", small_model(context=[expert])).conditions == "optional"
    mixture = backgrounds.Mixture(backgrounds.NGram.from_corpus(small_corpus(), order=2), primed, weights=[0.5, 0.5])
    assert Served("mixture", small_model(background=mixture)).conditions == "optional"


def test_an_example_is_a_prefix_that_it_reads(served: Served) -> None:
    (found,), _ = together(served, [NextRequest(prefix=served.described["example"])], "next", 64)
    assert found["prefix"]
    assert Served("ab", grammar_model()).example == "a b"


def test_a_condition_where_none_is_read_is_refused() -> None:
    (found,), _ = together(Served("plain", small_model()), [NextRequest(condition="x")], "next", 64)
    assert (found.status, found.code) == (409, "condition")


def test_an_open_vocabulary_spells_out_its_cells() -> None:
    vocabulary = Vocabulary([EOS, "a", "b"], counts=[3, 2, 1], domains=[Numbers()])
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(),
        background=backgrounds.Unigram({EOS: 3, "a": 2, "b": 1, "12": 4}),
        controller=GRU(4),
    )
    served = Served("open", model)
    assert "uniform" not in served.variants
    (found,), _ = together(served, [NextRequest(top=50, words=("12", "4711"))], "next", 64)
    assert any(one["cell"] for one in found["top"])
    assert sum(one["p"] for one in found["top"]) == pytest.approx(1.0, abs=1e-5)
    assert found["words"][1]["log_p"] == pytest.approx(explain(model, word="4711").log_p, abs=1e-5)

    async def ask(engine: Engine) -> list[Any]:
        return [await written(engine, GenerateRequest(seed=seed, max_words=5)) for seed in range(20)]

    events = [event for text in run([served], ask) for event in text]
    spelled = [one for name, one in events if name == "word" and one["cell"]]
    assert spelled
    for one in spelled:
        assert one["word"] not in vocabulary.symbols
    for _, done in (event for event in events if event[0] == "done"):
        scores, _ = together(served, [ScoreRequest(texts=(tuple(done["words"]),))], "score", 64)
        log_p = scores[0]["scores"][0]["log_p"]
        assert done["log_prob"] == pytest.approx(sum(log_p if done["finished"] else log_p[:-1]), abs=1e-4)


def test_a_cell_gives_strings_as_the_model_would_draw_them() -> None:
    vocabulary = Vocabulary([EOS, "a", "7"], counts=[3, 2, 1], domains=[Numbers()])
    unigram = backgrounds.Unigram({EOS: 3, "a": 2, "7": 1, "12": 4})
    model = LLRNN(vocabulary, output_features=features.Identity(), background=unigram, controller=GRU(4))
    cells = vocabulary.symbols[vocabulary.n_words :]

    async def ask(engine: Engine) -> Any:
        drawn = [await engine.strings("open", cell, 6, seed=1) for cell in cells]
        return drawn, await engine.strings("open", cells[-1], 6, 1), await engine.strings("open", cells[-1], 6, 2)

    drawn, again, other = run([Served("open", model)], ask)
    for cell, found in zip(cells, drawn, strict=True):
        words = [one["word"] for one in found["strings"]]
        assert words
        assert len({*words}) == len(words) <= 6
        assert "7" not in words  # it is listed
        ids, inside = vocabulary.locate(words)
        assert {vocabulary.symbol(one) for one in ids.tolist()} == {cell} == {found["cell"]}
        assert [one["share"] for one in found["strings"]] == pytest.approx([math.exp(one) for one in inside.tolist()])
    assert again == drawn[-1] != other

    async def unknown(engine: Engine) -> Any:
        with pytest.raises(Refused) as error:
            await engine.strings("open", "a", 6, 1)  # a word is no cell
        return error.value

    assert run([Served("open", model)], unknown).code == "unknown_cell"


@pytest.fixture(scope="module")
def letters() -> Served:
    """A model of characters."""
    units = CharacterUnits.from_corpus(small_corpus())
    vocabulary = Vocabulary.from_corpus(units.corpus(small_corpus()), others=units.symbols(), units=units)
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(6), seed=3)
    shaken(model, 2.0)
    return Served("letters", model.eval())


def test_a_model_of_characters_scores_words_of_texts(letters: Served) -> None:
    texts = ["la reine dort .", "zoé ✓ mange", ""]  # ✓ is no listed character
    (answer,), _ = together(letters, [ScoreRequest(texts=texts)], "score", 8)
    for found, expected in zip(answer["scores"], score(letters.model, texts).sentences, strict=True):
        assert tuple(found["words"]) == expected.words
        close(found["log_p"], list(expected.log_p))


def test_a_model_of_characters_completes_and_explains_texts(letters: Served) -> None:
    """Prefixes of several lengths at once; what is explained is the next unit."""
    asked = [("la reine", "d"), ("le", ""), ("la reine dort", "m"), ("zoé", "✓")]
    requests = [CompleteRequest(prefix=prefix, letters=typed, k=2, mass=True) for prefix, typed in asked]
    answers, _ = together(letters, requests, "complete", 8)
    for found, (prefix, typed) in zip(answers, asked, strict=True):
        expected = complete(letters.model, prefix, typed, k=2)
        assert [one["word"] for one in found["best"]] == [one.word for one in expected]
        close([one["log_p"] for one in found["best"]], [one.log_p for one in expected])
        close(found["log_mass"], expected.log_mass)
    (told,), _ = together(letters, [ExplainRequest(prefix="la reine", word="d")], "explain", 8)
    close(told["word"]["log_p"], explain(letters.model, "la reine", word="d").log_p)


def test_units_are_counted_one_by_one_and_end_with_the_request(
    letters: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many it takes nobody can say before: between two of them the thread looks whether anybody waits."""
    step, taken, request = LLRNN.step, list[int](), CompleteRequest(prefix="la", k=2, changes=(CHANGE_UNIT,))

    async def ask(engine: Engine) -> RequestScope:
        scope = RequestScope()
        SCOPE.set(scope)

        def counted(*given: Any, **named: Any) -> Any:
            taken.append(1)
            scope.ended = scope.ended or len(taken) == last
            assert named["change"] is not None  # of changed weights
            return step(*given, **named)

        monkeypatch.setattr(LLRNN, "step", counted)
        await engine.complete(request)
        return scope

    last = 0
    scope = run([letters], ask)
    assert scope.spent == pytest.approx(cost_of(letters, request).begin + STEP_COST * len(taken))
    assert scope.spent <= scope.allowed == most("work")
    assert len(taken) > 3
    taken, last = [], 3
    with pytest.raises(Refused, match="has ended"):
        run([letters], ask)
    assert len(taken) == 3


def test_words_that_are_not_known_come_with_near_ones(served: Served, model: LLRNN) -> None:
    word = next(w for w in model.vocabulary.words if w.isalpha() and len(w) > 5)
    wrong = f"{word[:-1]}{word[-1] * 2}"
    assert wrong not in model.vocabulary
    requests = [ReadRequest(prefix=f"{word} {wrong} {wrong}", words=("qqqqqqq",)), ReadRequest()]
    (found, empty), _ = together(served, requests, "read", 64)
    assert found["prefix"] == [word, wrong, wrong]
    assert [one["word"] for one in found["unknown"]] == [wrong, "qqqqqqq"]
    assert found["unknown"][0]["near"][0] == word
    assert found["unknown"][1]["near"] == []
    assert empty["unknown"] == []


def test_listings_for_completion(served: Served, model: LLRNN) -> None:
    async def ask(engine: Engine) -> Any:
        return (
            engine.models(),
            await engine.features("french", "GENDER", 1),
            await engine.words("french", "l", 3),
            engine.names,
        )

    models, found, words, names = run([served], ask)
    assert names == ("french",)
    assert models["models"][0]["features"] == len(model.feature_names)
    assert found["features"][0]["name"].startswith("Gender:")
    assert found["matching"] == sum("gender" in name.lower() for name in model.feature_names)
    assert len(words["words"]) == 3
    assert all(word.startswith("l") for word in words["words"])


@pytest.fixture
def held() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_who_leaves_is_taken_off_the_queue_and_closing_answers_the_rest(held: threading.Event) -> None:
    computed: list[str] = []
    begun = threading.Event()

    def work(payloads: Sequence[str]) -> list[str]:
        begun.set()
        held.wait(HANG)
        computed.extend(payloads)
        return [payload.upper() for payload in payloads]

    async def main() -> tuple[list[Any], bool]:
        batcher = Batcher(64)
        jobs = [asyncio.create_task(batcher.submit(name, work, name)) for name in ("first", "left", "last")]
        while not begun.is_set():
            await asyncio.sleep(0.001)
        jobs[1].cancel()
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="closed"):
            await batcher.submit("late", work, "late")
        held.set()
        await closing
        return await asyncio.gather(*jobs, return_exceptions=True), jobs[1].cancelled()

    answers, was_cancelled = asyncio.run(main())
    assert was_cancelled
    assert [answers[0], answers[2]] == ["FIRST", "LAST"]
    assert "left" not in computed


def some_job(client: tuple[str, int], cost: float, name: str = "") -> Job:
    return Job("key", lambda payloads: payloads, name, asyncio.Future(loop=LOOP), RequestScope(client), cost)


def names_of(jobs: Sequence[Job]) -> list[str]:
    return [job.payload for job in jobs]


def test_who_asks_for_little_is_in_the_next_turn_whatever_others_want() -> None:
    turns = FairQueue()
    for n in range(8 * 100):
        turns.add(some_job((f"attacker {n % 8}", n), 900, "much"))
    for _ in range(100):
        turns.add(some_job(("user", 1), 5, "little"))
        assert names_of(turns.take(64, 1000)) == ["little", "much"]


def test_clients_who_want_much_share_what_there_is() -> None:
    turns = FairQueue()
    for n in range(100):
        turns.add(some_job(("greedy", n), 900, "greedy"))  # many connections are still one client
    for _ in range(10):
        turns.add(some_job(("modest", 1), 900, "modest"))
    served = [names_of(turns.take(64, 1000))[0] for _ in range(20)]
    assert served.count("modest") == 10


def test_connections_of_one_address_take_turns_too() -> None:
    turns = FairQueue()
    for _ in range(10):
        turns.add(some_job(("proxy", 1), 900, "much"))
    for _ in range(5):
        turns.add(some_job(("proxy", 2), 5, "little"))
        assert names_of(turns.take(64, 1000)) == ["little", "much"]


def test_who_was_silent_has_nothing_saved_up() -> None:
    turns = FairQueue()
    for _ in range(20):
        turns.add(some_job(("steady", 1), 100, "steady"))
    for _ in range(10):
        turns.take(1, 1000)
    for _ in range(10):
        turns.add(some_job(("late", 1), 100, "late"))
    assert 4 <= names_of(turns.take(10, 1000)).count("late") <= 6


def test_a_dear_job_has_its_turn_among_cheap_ones_of_its_address() -> None:
    """31 connections that always have a cheaper question do not keep the last one waiting."""
    turns = FairQueue()
    turns.add(some_job(("proxy", 31), 300, "dear"))
    for port in range(31):
        turns.add(some_job(("proxy", port), 100, "cheap"))
    served: list[str] = []
    while "dear" not in served and len(served) < 1000:
        (taken,) = turns.take(1, 1000)
        served += names_of([taken])
        turns.add(some_job(taken.client, 100, "cheap"))
    assert len(served) <= 4 * 31


def test_a_turn_has_at_least_one_job_and_at_most_so_many() -> None:
    turns = FairQueue()
    for n in range(5):
        turns.add(some_job(("client", n), 10_000 if n == 0 else 1))
    assert [job.cost for job in turns.take(3, 1000)] == [1, 1, 1]
    assert [job.cost for job in turns.take(3, 1000)] == [1]
    assert [job.cost for job in turns.take(3, 1000)] == [10_000]
    assert not turns
    assert not turns._paid


def test_who_opens_ever_new_connections_is_not_kept_for_good() -> None:
    turns = FairQueue()
    turns.add(some_job(("patient", 0), 1e9))
    for port in range(30_000):
        turns.add(some_job(("client", port), 1))
        turns.take(1, 1)
    assert len(turns._paid) <= 10_001


def test_a_model_does_not_wait_for_another(held: threading.Event) -> None:
    two = [Served(name, small_model()) for name in ("busy", "free")]

    async def ask(engine: Engine) -> Any:
        def work(payloads: Sequence[str]) -> Sequence[str]:
            held.wait(60)
            return payloads

        slow = asyncio.create_task(engine._batchers["busy"].submit("key", work, "payload"))
        await asyncio.sleep(0)
        found = await engine.next(NextRequest(model="free"))
        assert not slow.done()
        held.set()
        await slow
        return found

    assert run(two, ask)["model"] == "free"


def test_closing_does_not_wait_for_ever(held: threading.Event) -> None:
    async def main() -> bool:
        batcher = Batcher(64)
        stuck = asyncio.create_task(batcher.submit("key", lambda payloads: [held.wait(60)], "payload"))
        await asyncio.sleep(0.01)
        await batcher.close(patience=0.01)
        held.set()
        return bool(await stuck)

    assert asyncio.run(main())


def test_texts_are_scored_in_pieces_between_which_others_have_their_turn(served: Served) -> None:
    async def ask(engine: Engine) -> list[str]:
        order: list[str] = []

        async def named(name: str, work: Awaitable[Any]) -> None:
            await work
            order.append(name)

        long = ScoreRequest(texts=(("la",) * 500,) * 8)
        await asyncio.gather(
            named("long", engine.score(long)), named("short", engine.next(NextRequest(prefix=("la",))))
        )
        return order

    assert run([served], ask, rows=1) == ["short", "long"]
    scored = ScoreQuestion(served, ScoreRequest(texts=(("la",) * 500,) * 8))
    assert [*scored.pieces()] == [(n,) for n in range(8)]


def test_what_a_request_costs_is_bounded_before_it_runs(served: Served) -> None:
    long = tuple("inform(food=thai)" + " " * n for n in range(3000, 3064))
    request = ScoreRequest(texts=("la",) * 64, conditions=long)
    with pytest.raises(
        Refused, match=r"at most as much as reading 20,000 words, found 5[0-9],[0-9]{3}; ask"
    ) as refused:
        run([served], lambda engine: engine.score(request))
    assert (refused.value.status, refused.value.code) == (422, "too_much_work")
    same = ScoreRequest(texts=("la",) * 64, conditions=long[:1] * 64)  # what is the same is done once
    assert cost_of(served, same).total < 1500
    assert cost_of(served, InfluenceRequest(feature="", prefix=("la",) * 200)).total > 6 * 200


def test_contextual_inputs_and_numeric_conditions_are_served() -> None:
    """Many prefixes in one step, with a background swapped in; a condition that cannot be read is refused."""
    records: list[object] = [{"degrees": 3}, {"degrees": 20}]
    inputs: list[contextual.ContextualInput] = [
        Expected(backgrounds.Unigram.from_corpus(small_corpus())),
        contextual.ConditionNumbers.fitted(records),
    ]
    model = LLRNN(small_vocabulary(), output_features=features.Identity(), controller=GRU(6), contextual_inputs=inputs)
    shaken(model, 2.0)
    served = Served("weather", model, {"unigram": backgrounds.Unigram.from_corpus(small_corpus())})
    assert served.conditions == "required"
    conditions = ['{"degrees": 7}', '{"degrees": 31.5}']
    requests = [
        NextRequest(prefix=prefix, condition=conditions[n % 2], background=("own", "unigram")[n // 6])
        for n, prefix in enumerate(PREFIXES)
    ]
    answers, _ = together(served, requests, "next", 64)
    for n, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        asked = model if n < 6 else swap(model, background=backgrounds.Unigram.from_corpus(small_corpus()))
        with torch.no_grad():
            p, _ = read_prefix(asked, tuple(request.prefix), [{"degrees": 7 if n % 2 == 0 else 31.5}])
        for one in answer["top"]:
            assert one["log_p"] == pytest.approx(float(p.log_probs()[0, model.vocabulary.id(one["word"])]), abs=1e-4)
    for condition, reason in ((None, "none was given"), ('{"wind": 1}', "'wind', but the numbers")):
        request = NextRequest(prefix="la", condition=condition)
        with pytest.raises(Refused, match=reason) as told:
            run([served], lambda engine: engine.next(request))  # noqa: B023
        assert "--" not in told.value.message


def test_a_defect_reaches_the_one_who_asked_and_the_thread_goes_on() -> None:
    def broken(payloads: Sequence[str]) -> list[str]:
        raise ZeroDivisionError("our own defect")

    async def main() -> Any:
        batcher = Batcher(4)
        with pytest.raises(ZeroDivisionError):
            await batcher.submit("x", broken, "x")
        found = await batcher.submit("y", lambda payloads: [p * 2 for p in payloads], "y")
        await batcher.close()
        return found

    assert asyncio.run(main()) == "yy"


def test_text_before_is_for_models_whose_words_come_again() -> None:
    """One without is refused by the name of the field; one with reads it."""
    request = ScoreRequest(texts=("le chat dort",), before="la maison")
    with pytest.raises(
        Refused, match=r"^`before` is for a model whose words come again .*, found one without; leave it"
    ):
        prepared_for(Served("small", small_model()), request, None, request.texts)
    base = backgrounds.Unigram.from_corpus(small_corpus())
    again = small_model(background=backgrounds.Recent(base, mu=0.4, window=50))
    assert prepared_for(Served("again", again), request, None, request.texts).condition == Before(("la", "maison"))
