"""Writing text: every strategy against walking the model by hand, the beam against exhaustive search."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import partial

import pytest
import torch

from helpers import sentence_log_probs, shaken, small_model, tiny_model
from llrnn import GRU, LLRNN, Greedy, Sampling, Vocabulary, contextual, features, generate
from llrnn.ground.errors import ConfigError, UnknownWordError, ZeroMassError
from llrnn.knowledge.backgrounds import Mask, Static
from llrnn.model.decode import (
    Dictated,
    Generated,
    Strategy,
    beam_search_each,
    errors,
    read_prefix,
    write,
)
from llrnn.text.conditions import BEAM, parse_act
from llrnn.text.vocabulary import EOS


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def log_prob_by_hand(model: LLRNN, found: Generated) -> float:
    """log p of what follows the prefix, end included where it came."""
    steps = sentence_log_probs(model, (*found.prefix, *found.words))
    return math.fsum(steps[len(found.prefix) : None if found.finished else -1])


def argmax_path(model: LLRNN, prefix: tuple[str, ...], max_words: int) -> tuple[str, ...]:
    words: list[str] = []
    with torch.no_grad():
        distribution, state = model.step(model.start(), [model.vocabulary.eos])
        for word in model.vocabulary.ids(prefix):
            distribution, state = model.step(state, [word])
        while len(words) < max_words:
            best = int(distribution.log_probs()[0].argmax())
            if best == model.vocabulary.eos:
                break
            words.append(model.vocabulary.symbols[best])
            distribution, state = model.step(state, [best])
    return tuple(words)


def a_prefix(model: LLRNN) -> tuple[str, ...]:
    return tuple(word for word in model.vocabulary.symbols[:4] if word != EOS)[:2]


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return small_model(context=[contextual.Repeated(6)])


# --- greedy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_prefix", [False, True])
def test_greedy_follows_the_most_probable_word(model: LLRNN, with_prefix: bool) -> None:
    prefix = a_prefix(model) if with_prefix else ()
    (found,) = generate(model, prefix=prefix, strategy=Greedy(), max_words=12)
    assert found.words == argmax_path(model, prefix, 12)


@pytest.mark.parametrize(
    "strategy",
    [
        Sampling(top_k=1),
        Sampling(temperature=1e-4),
        Sampling(temperature=1e-300),
        Sampling(top_p=1e-9),
        Sampling(top_p=1e-300),
    ],
)
def test_the_limits_of_sampling_are_greedy(model: LLRNN, strategy: Strategy) -> None:
    (greedy,) = generate(model, strategy=Greedy(), max_words=12)
    for found in generate(model, strategy=strategy, count=3, max_words=12, generator=seeded(0)):
        assert found.words == greedy.words


# --- sampling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [Sampling(), Sampling(1.5), Sampling(top_k=9), Sampling(0.7, top_p=0.8)])
def test_the_seed_decides(model: LLRNN, strategy: Strategy) -> None:
    first, again, other = (
        generate(model, strategy=strategy, count=4, max_words=15, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("strategy", [Greedy(), Sampling(), Sampling(0.5), Sampling(top_k=3), Sampling(top_p=0.5)])
@pytest.mark.parametrize("max_words", [1, 8, 40])
def test_log_prob_is_the_models_own(model: LLRNN, strategy: Strategy, max_words: int) -> None:
    """Whatever the strategy: log p under the model, by teacher forcing."""
    prefix = a_prefix(model)
    for found in generate(model, prefix=prefix, strategy=strategy, count=3, max_words=max_words, generator=seeded(5)):
        assert found.prefix == prefix
        assert found.log_prob == pytest.approx(log_prob_by_hand(model, found), abs=1e-3)
        assert len(found.words) <= max_words
        assert found.finished or len(found.words) == max_words
        assert EOS not in found.words


def test_samples_follow_the_distribution() -> None:
    model = tiny_model()
    drawn = Counter(
        found.words[0] if found.words else EOS
        for found in generate(model, count=4000, max_words=1, generator=seeded(0))
    )
    with torch.no_grad():
        p = model.step(model.start(), [model.vocabulary.eos])[0].log_probs()[0].exp()
    for word, share in zip(model.vocabulary, p.tolist(), strict=True):
        assert drawn[word] / 4000 == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 4000))


def first_words(model: LLRNN, strategy: Strategy) -> set[str]:
    found = generate(model, strategy=strategy, count=3000, max_words=1, generator=seeded(3))
    return {one.words[0] if one.words else EOS for one in found}


def test_top_k_and_top_p_cut_where_they_say() -> None:
    model = tiny_model(words=4)
    with torch.no_grad():
        p = model.step(model.start(), [model.vocabulary.eos])[0].log_probs()[0].exp()
    order = [model.vocabulary.symbols[i] for i in p.argsort(descending=True).tolist()]
    falling = sorted(p.tolist(), reverse=True)
    assert falling[2] > 0.01  # rare enough to be cut, frequent enough to be seen in 3000 draws
    assert first_words(model, Sampling(top_k=2)) == set(order[:2])
    assert first_words(model, Sampling(top_k=99)) == first_words(model, Sampling())
    just_over_one, just_over_two = falling[0] + 1e-6, falling[0] + falling[1] + 1e-6
    assert first_words(model, Sampling(top_p=just_over_one)) == set(order[:2])
    assert first_words(model, Sampling(top_p=just_over_two)) == set(order[:3])
    assert first_words(model, Sampling(top_k=2, top_p=just_over_two)) == set(order[:2])


def test_heat_makes_rare_words_likelier() -> None:
    model = tiny_model(words=4)
    with torch.no_grad():
        worst = int(model.step(model.start(), [model.vocabulary.eos])[0].log_probs()[0].argmin())
    shares = []
    for temperature in (0.5, 1.0, 8.0):
        found = generate(model, strategy=Sampling(temperature), count=2000, max_words=1, generator=seeded(0))
        words = [model.vocabulary.id(one.words[0]) if one.words else model.vocabulary.eos for one in found]
        shares.append(words.count(worst) / 2000)
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_p": math.nan},
    ],
)
def test_impossible_sampling_is_refused(arguments: dict[str, float]) -> None:
    (name,) = arguments
    with pytest.raises(ConfigError, match=f"{name} must be"):
        Sampling(**arguments)  # type: ignore[arg-type]


# --- beam search ---------------------------------------------------------------------------------------------------


def all_endings(model: LLRNN, prefix: tuple[str, ...], max_words: int) -> list[tuple[float, tuple[str, ...]]]:
    """Every finished continuation of fewer than `max_words` words with its log p, best first."""
    words = [symbol for symbol in model.vocabulary if symbol != EOS]
    found = [
        (math.fsum(sentence_log_probs(model, (*prefix, *one))[len(prefix) :]), one)
        for length in range(max_words)
        for one in itertools.product(words, repeat=length)
    ]
    return sorted(found, key=lambda pair: -pair[0])


@pytest.mark.parametrize("prefix", [(), ("w1",), ("w0", "w0")])
def test_a_wide_beam_is_exhaustive_search(prefix: tuple[str, ...]) -> None:
    model = tiny_model()
    wanted = all_endings(model, prefix, 3)
    found = generate(model, prefix=prefix, beam=64, count=64, max_words=3)
    assert [one.words for one in found] == [words for _, words in wanted]
    for one, (log, _) in zip(found, wanted, strict=True):
        assert one.log_prob == pytest.approx(log, abs=1e-9)
        assert one.finished


def test_a_narrow_beam_finds_texts_with_their_log_prob(model: LLRNN) -> None:
    found = generate(model, prefix=a_prefix(model), beam=3, count=3, max_words=10)
    assert 1 <= len(found) <= 3
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)
    for one in found:
        assert one.log_prob == pytest.approx(log_prob_by_hand(model, one), abs=1e-3)
    assert len({one.words for one in found}) == len(found)


def test_a_beam_of_one_that_never_ends_is_greedy_and_unfinished() -> None:
    model = tiny_model(background=Mask(forbidden=[EOS]))
    (found,) = generate(model, beam=1, count=1, max_words=5)
    assert not found.finished
    assert found.words == argmax_path(model, (), 5)
    assert len(found.words) == 5


@pytest.mark.parametrize("width", [0, -1, 501, 1_000_000_000])
def test_a_beam_without_width_or_without_bound_is_refused(model: LLRNN, width: int) -> None:
    with pytest.raises(ConfigError, match=f"the beam must be 1 to 500 wide, found {width}"):
        generate(model, beam=width, conditions=[None])


# --- prefixes and ends ---------------------------------------------------------------------------------------------


def test_a_prefix_may_be_a_text_or_words(model: LLRNN) -> None:
    prefix = a_prefix(model)
    as_text = generate(model, prefix=f"  {'  '.join(prefix)} ", generator=seeded(1))
    assert as_text == generate(model, prefix=prefix, generator=seeded(1))
    assert str(as_text[0]).startswith(" ".join(prefix))


def test_an_unlisted_word_in_the_prefix_is_named(model: LLRNN) -> None:
    for act in (generate, partial(generate, beam=5)):
        with pytest.raises(UnknownWordError, match="prefix: the word 'zzz'"):
            act(model, prefix="zzz")


def test_rows_that_end_early_do_not_disturb_the_others() -> None:
    """With one seed each row draws on its own; greedy rows must all be the same text."""
    model = tiny_model()
    (alone,) = generate(model, strategy=Greedy(), max_words=6)
    assert generate(model, strategy=Greedy(), count=3, max_words=6) == [alone] * 3
    many = generate(model, count=40, max_words=6, generator=seeded(0))
    assert {one.finished for one in many} == {True, False}
    for one in many:
        assert one.log_prob == pytest.approx(log_prob_by_hand(model, one), abs=1e-9)


@pytest.mark.parametrize("strategy", [Greedy(), Sampling(), Sampling(top_k=2), Sampling(2.0)])
def test_where_nothing_may_follow_the_error_says_so(strategy: Strategy) -> None:
    model = tiny_model(background=Mask(allowed=lambda condition, prefix: [] if prefix else ["w1"]))
    with pytest.raises(ZeroMassError, match="no symbol any mass"):
        generate(model, strategy=strategy, generator=seeded(0))
    with pytest.raises(ZeroMassError, match="no symbol any mass"):
        generate(model, beam=5)


@pytest.mark.parametrize("strategy", [Greedy(), Sampling(), Sampling(top_k=4), Sampling(50.0), Sampling(top_p=1.0)])
def test_forbidden_words_are_never_written(strategy: Strategy) -> None:
    model = tiny_model(background=Mask(allowed=["w2", EOS]))
    for one in generate(model, strategy=strategy, count=200, max_words=4, generator=seeded(0)):
        assert set(one.words) <= {"w2"}
    for one in generate(model, beam=9, count=9, max_words=4):
        assert set(one.words) <= {"w2"}


def test_the_condition_reaches_the_background() -> None:
    def named(condition: object, prefix: tuple[str, ...]) -> list[str]:
        return [str(condition)] if not prefix else [EOS]

    model = tiny_model(background=Mask(allowed=named))
    for word in ("w0", "w2"):
        assert generate(model, condition=word, generator=seeded(0))[0].words == (word,)
        assert generate(model, beam=5, condition=word)[0].words == (word,)


def test_a_beam_goes_on_without_the_hypotheses_that_lead_nowhere() -> None:
    """w1 is likelier, but nothing may follow it; w2 leads to an end."""

    def allowed(condition: object, prefix: tuple[str, ...]) -> list[str]:
        return {(): ["w1", "w2"], ("w2",): ["w2"], ("w2", "w2"): [EOS]}.get(prefix, [])

    model = tiny_model(background=Mask(allowed=allowed))
    for width in (1, 2, 5):
        found = generate(model, beam=width, count=width) if width > 1 or best_first(model) == "w2" else None
        assert found is None or [one.words for one in found] == [("w2", "w2")]
    with pytest.raises(ZeroMassError, match="no symbol any mass"):
        generate(tiny_model(background=Mask(allowed=lambda condition, prefix: [] if prefix else ["w1"])), beam=5)


def best_first(model: LLRNN) -> str:
    """The word that a beam of one begins with."""
    return model.vocabulary.words[int(read_prefix(model, (), [None])[0].top(1)[1][0, 0])]


# --- from conditions: nothing twice without need, nothing left out ----------------------------------------------------

LISTED = ["a", "b", "c", EOS]


def copying(log_b: list[float], loud: float = 0.0, seed: int = 0) -> LLRNN:
    """A model over three words, by default the prior alone, that reads the values of conditions."""
    model = LLRNN(
        Vocabulary(LISTED),
        output_features=features.Identity(),
        background=Static(torch.tensor(log_b, dtype=torch.float64)),
        contextual=[contextual.Copied()],
        controller=GRU(4),
    ).double()
    shaken(model, loud, seed)
    return model


def goes_round(words: tuple[str, ...], values: list[tuple[str, ...]]) -> bool:
    """Three words came before, and every value that was said by now was said by then; one-word values, for short."""
    for end in range(4, len(words) + 1):
        earlier = [n for n in range(3, end) if words[n - 3 : n] == words[end - 3 : end]]
        if earlier and not any((value in words[:end]) > (value in words[: earlier[-1]]) for (value,) in values):
            return True
    return False


def test_what_a_text_leaves_out_or_says_twice_is_counted() -> None:
    act = parse_act("inform(name='la luna';food='thai or greek';near=alamo;kidsallowed=yes)")
    assert errors(act, ["la", "luna", "near", "alamo", "has", "thai", "and", "greek", "food"]) == 0
    assert errors(act, ["la", "luna", "near", "alamo", "has", "thai", "food"]) == 1
    assert errors(act, ["la", "luna", "near", "alamo", "has", "thai", "thai", "and", "thai", "food"]) == 3
    assert errors(act, ["luna", "la"]) == 4
    assert errors({"name": "la luna and dorado"}, ["dorado", "and", "la", "luna"]) == 0
    assert errors(None, ["la"]) == errors("a text", ["la"]) == 0


def test_a_beam_does_not_go_round_in_circles() -> None:
    """Where `a` is always likelier than the end, all that stops a search is that it has said `a a a` before."""
    model = copying([0.0, -9.0, -9.0, -1.0])
    free = generate(model, beam=2, max_words=20)[0]  # without a condition nothing is said of facts
    assert not free.finished or len(free.words) == 0
    for text in beam_search_each(model, [{"name": "b"}], beam=8, max_words=20)[0]:
        assert not goes_round(text.words, [("b",)])
        assert text.words[-4:].count("a") < 4


@pytest.mark.parametrize("seed", range(2))
def test_a_wide_beam_is_exhaustive_search_without_circles(seed: int) -> None:
    model, condition = copying([0.5, 0.5, 0.0, -1.0], 1.0, seed), {"name": "b", "food": "c"}
    found = beam_search_each(model, [condition], beam=364, max_words=6)[0]
    every = [one for n in range(6) for one in itertools.product("abc", repeat=n)]
    scored = [(math.fsum(sentence_log_probs(model, one, condition)), one) for one in every]
    allowed = [one for one in scored if not goes_round(one[1], [("b",), ("c",)])]
    assert len(allowed) < len(every)
    best = sorted(allowed, key=lambda one: -one[0])[:100]
    by_log = sorted(found, key=lambda one: -one.log_prob)
    assert [one.words for one in by_log[:20]] == [one for _, one in best[:20]]
    ranked = [errors(condition, one.words) for one in found]
    assert ranked == sorted(ranked)
    for wrong in {*ranked}:
        logs = [one.log_prob for one, own in zip(found, ranked, strict=True) if own == wrong]
        assert logs == sorted(logs, reverse=True)


def test_three_words_come_again_where_something_new_was_said_between() -> None:
    assert goes_round(tuple("abcabc"), [("c",)])
    assert not goes_round(tuple("aaabaaa"), [("b",)])
    assert goes_round(tuple("aaabaaabaaa"), [("b",)])
    model = copying([0.0, -9.0, -0.5, -9.0])
    (text,) = generate(model, "a a a b a a", beam=1, max_words=1, condition={"name": "b"})
    assert text.words == ("a",)
    (text,) = generate(model, "a b a a a b a a", beam=1, max_words=1, condition={"name": "b"})
    assert text.words == ("c",)


def test_a_search_that_could_only_go_round_is_cut() -> None:
    model = copying([0.0, -math.inf, -math.inf, -math.inf])
    (text,) = write(model, [{"name": "b"}], beam=1, max_words=20)
    assert (text.words, text.finished) == (("a",) * 3, False)


def test_from_conditions_texts_are_found_by_beam_search_unless_a_strategy_is_given() -> None:
    model, condition = copying([0.5, 0.5, 0.0, -1.0], 2.0), {"name": "b", "food": "c"}
    assert write(model, [condition], max_words=9) == write(model, [condition], beam=BEAM, max_words=9)
    (greedy,) = write(model, [condition], strategy=Greedy(), max_words=9)
    assert greedy.words == generate(model, greedy=True, condition=condition, max_words=9)[0].words


def test_a_text_can_be_dictated(model: LLRNN) -> None:
    words = model.vocabulary.symbols[2:5]
    (found,) = generate(model, strategy=Dictated([*model.vocabulary.ids(words), model.vocabulary.eos]))
    assert (found.words, found.finished) == (tuple(words), True)
    assert found.log_prob == pytest.approx(log_prob_by_hand(model, found), abs=1e-4)
