"""Weights set by hand: the steered model is exactly the old one with other a_k, renormalised over V."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
import typer

import llrnn
from helpers import sentence_log_probs, small_corpus, small_model, small_vocabulary
from llrnn import LLRNN, contextual, evaluate, explain, generate
from llrnn.cli.options import ModelOptions, with_model_options
from llrnn.ground.errors import ConfigError
from llrnn.inference.explanation import Explanation
from llrnn.knowledge.contextual import ContextualFeature
from llrnn.knowledge.features import Function
from llrnn.knowledge.process import State
from llrnn.model.decode import read_prefix
from llrnn.model.steering import Change, FeatureNames, experts, star_matcher, steer
from llrnn.text.vocabulary import EOS

Array = npt.NDArray[np.float64]
POS = "POS:VERB"


class Everywhere(ContextualFeature):
    """2 on all words, ½ on the first three: the rest counts too."""

    def value(self, state: State) -> tuple[float, dict[int, float]]:
        return 2.0, {0: 0.5, 1: 0.5, 2: -1.0}


def make_model(*, tied: bool = False) -> LLRNN:
    return small_model(context=[contextual.Repeated(6), Everywhere()], tied=tied).double()


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return make_model()


def some_prefix(model: LLRNN) -> tuple[str, ...]:
    return tuple([word for word in model.vocabulary.symbols if word != EOS][3:7])


def weights_of(model: LLRNN, prefix: tuple[str, ...]) -> dict[str, float]:
    """a after a prefix, by name."""
    with torch.no_grad():
        p, _ = read_prefix(model, prefix, [None])
        return dict(zip(model.feature_names, torch.cat([p.adaptor, p.context_adaptor], 1)[0].tolist(), strict=True))


def by_hand(model: LLRNN, prefix: tuple[str, ...], changed: Callable[[str, float], float]) -> Array:
    """log_softmax over V of log b + Σ changed(a_k)·φ_k, feature by feature, (V,)."""
    a = {name: changed(name, weight) for name, weight in weights_of(model, prefix).items()}
    assert a != weights_of(model, prefix)
    with torch.no_grad():
        p, _ = read_prefix(model, prefix, [None])
        scores: Array = p.known.prior.dense(1).log_b[0].numpy().copy()
    said = set(model.vocabulary.ids(prefix))
    for word in range(len(scores)):
        scores[word] += sum(a[name] * value for name, value in model.output_features.row(word).items())
        scores[word] += a["Repeated"] * float(word in said)
        scores[word] += a["Everywhere"] * {0: 0.5, 1: 0.5, 2: -1.0}.get(word, 2.0)
    scores -= scores.max()
    scores -= math.log(math.fsum(np.exp(scores)))
    return scores


def log_probs(model: LLRNN, prefix: tuple[str, ...]) -> Array:
    """log p of every word, as the model scores single words: V sequences with one prefix, (V,)."""
    words = torch.arange(len(model.vocabulary))
    with torch.no_grad():
        p, _ = read_prefix(model, prefix, [None] * len(words))
        found: Array = p.log_prob(words).numpy()
    return found


def pos_times(factor: float) -> Callable[[str, float], float]:
    return lambda name, a: a * factor if name.startswith("POS:") else a


CASES: dict[str, tuple[list[str], Callable[[str, float], float]]] = {
    "add": ([f"{POS}=+0.5"], lambda name, a: a + 0.5 if name == POS else a),
    "subtract": ([f"{POS}=-1.25"], lambda name, a: a - 1.25 if name == POS else a),
    "scale": ([f"{POS}=*0.3"], lambda name, a: a * 0.3 if name == POS else a),
    "turn round": ([f"{POS}=*-2"], lambda name, a: a * -2 if name == POS else a),
    "clamp": ([f"{POS}=0.7"], lambda name, a: 0.7 if name == POS else a),
    "silence": ([f"{POS}=0"], lambda name, a: 0.0 if name == POS else a),
    "clamp below zero": ([f"{POS}=0", f"{POS}=-3"], lambda name, a: -3.0 if name == POS else a),
    "glob": (["POS:*=*0.5"], pos_times(0.5)),
    "everything": (["*=*0.5"], lambda name, a: a * 0.5),
    "contextual": (["Repeated=+2"], lambda name, a: a + 2 if name == "Repeated" else a),
    "contextual rest": (["Everywhere=*-3"], lambda name, a: a * -3 if name == "Everywhere" else a),
    "contextual clamp": (["Repeated=4"], lambda name, a: 4.0 if name == "Repeated" else a),
    "in order": ([f"{POS}=+1", f"{POS}=*2", f"{POS}=-0.5"], lambda name, a: (a + 1) * 2 - 0.5 if name == POS else a),
    "several": ([f"{POS}=+1", "Repeated=*2"], lambda name, a: {POS: a + 1, "Repeated": a * 2}.get(name, a)),
}


@pytest.mark.parametrize(("texts", "changed"), CASES.values(), ids=CASES.keys())
def test_log_p_is_the_brute_sum_with_the_changed_weights(
    model: LLRNN, texts: list[str], changed: Callable[[str, float], float]
) -> None:
    after = steer(model, [Change.parse(text) for text in texts])
    for prefix in ((), some_prefix(model)):
        found = log_probs(after, prefix)
        np.testing.assert_allclose(found, by_hand(model, prefix, changed), rtol=0, atol=1e-10)
        assert math.fsum(np.exp(found)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_the_given_model_is_untouched(tied: bool) -> None:
    before, model = make_model(tied=tied), make_model(tied=tied)
    prefix = some_prefix(model)
    after = steer(model, [Change.parse("*=*-2"), Change.parse("*=+1")])
    for (name, old), (_, new) in zip(before.named_parameters(), model.named_parameters(), strict=True):
        assert torch.equal(old, new), name
    assert model.tied == tied
    assert (model.layer.weight is model.embedding.weight) == tied
    np.testing.assert_array_equal(log_probs(before, prefix), log_probs(model, prefix))
    assert not np.allclose(log_probs(after, prefix), log_probs(model, prefix))


def test_a_tied_model_is_untied_and_reads_as_before() -> None:
    model = make_model(tied=True)
    prefix = some_prefix(model)
    after = steer(model, [Change.parse("POS:*=*0.5")])
    assert not after.tied
    assert after.layer.weight is not after.embedding.weight
    assert torch.equal(after.embedding.weight, model.embedding.weight)
    np.testing.assert_allclose(log_probs(after, prefix), by_hand(model, prefix, pos_times(0.5)), rtol=0, atol=1e-10)


def test_nothing_is_shared_but_knowledge(model: LLRNN) -> None:
    after = steer(model, [])
    assert after is not model
    assert vars(after).keys() == vars(model).keys()
    for name in ("vocabulary", "background", "output_features", "input_features", "training_summary"):
        assert getattr(after, name) is getattr(model, name), name
    for mine, theirs in zip(after.contextual, model.contextual, strict=True):
        assert mine is theirs
    assert after.provenance == model.provenance
    assert after.provenance is not model.provenance
    for buffer, other in zip(after.buffers(), model.buffers(), strict=True):
        assert buffer is other
    for (name, old), (_, new) in zip(model.named_parameters(), after.named_parameters(), strict=True):
        assert torch.equal(old, new), name
        assert old.data_ptr() != new.data_ptr(), name


def test_another_precision_of_the_steered_model_leaves_the_given_one() -> None:
    model = make_model()
    before = log_probs(model, ())
    after = steer(model, [Change(POS, offset=1.0)]).float()
    assert after.layer.weight.dtype == torch.float32
    np.testing.assert_array_equal(log_probs(model, ()), before)
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())


def test_explanations_show_the_changed_weight(model: LLRNN) -> None:
    prefix = some_prefix(model)
    word = next(w for w in model.vocabulary if POS in model.output_features.row(model.vocabulary.id(w)))
    said = prefix[0]
    old = weights_of(model, prefix)
    after = steer(model, [Change(POS, offset=0.5), *experts(model, {"Repeated": -0.8})])
    for asked, name, weight in ((word, POS, old[POS] + 0.5), (said, "Repeated", old["Repeated"] * -0.8)):
        found = explain(after, prefix=prefix, word=asked)
        assert isinstance(found, Explanation)
        assert {term.name: term.weight for term in found.terms}[name] == pytest.approx(weight, abs=1e-12)
        assert found.total == pytest.approx(found.log_p, abs=1e-9)


def test_a_clamped_weight_is_the_same_everywhere(model: LLRNN) -> None:
    after = steer(model, [Change.parse(f"{POS}=0.7")])
    prefixes = [some_prefix(model)[:length] for length in range(4)]
    assert {weights_of(after, prefix)[POS] for prefix in prefixes} == {0.7}
    assert len({weights_of(model, prefix)[POS] for prefix in prefixes}) == 4


def test_experts_scale_contextual_features_alone(model: LLRNN) -> None:
    prefix = some_prefix(model)
    changes = experts(model, {"Repeated": -0.5, "Everywhere": 0.0})
    assert changes == [Change("Repeated", scale=-0.5), Change("Everywhere", scale=0.0)]
    factor = {"Repeated": -0.5, "Everywhere": 0.0}
    expected = by_hand(model, prefix, lambda name, a: a * factor.get(name, 1.0))
    np.testing.assert_allclose(log_probs(steer(model, changes), prefix), expected, rtol=0, atol=1e-10)


def test_an_expert_that_is_none_is_refused(model: LLRNN) -> None:
    with pytest.raises(ConfigError, match=r"'kn' is no contextual feature .* it has Repeated, Everywhere"):
        experts(model, {"kn": 0.8})
    with pytest.raises(ConfigError, match=f"'{POS}' is no contextual feature"):
        experts(model, {POS: 0.8})
    with pytest.raises(ConfigError, match="it has none"):
        experts(small_model(), {"Repeated": 0.8})


def test_a_steered_model_goes_on_from_a_state_of_the_other(model: LLRNN) -> None:
    prefix = some_prefix(model)
    after = steer(model, [Change.parse("POS:*=+1")])
    with torch.no_grad():
        _, state = read_prefix(model, prefix[:-1], [None])
        p, _ = after.step(state, [model.vocabulary.id(prefix[-1])])
        found = p.log_probs()[0].numpy()
    np.testing.assert_allclose(found, log_probs(after, prefix), rtol=0, atol=1e-10)


def test_a_steered_model_is_evaluated_and_writes() -> None:
    model = small_model(context=[contextual.Repeated(6)])
    after = steer(model, [Change.parse(f"{POS}=+8"), Change.parse("Repeated=*0.5")])
    corpus = small_corpus()[40:50]
    result = evaluate(after, corpus)
    words = [tuple(token.form for token in sentence.tokens) for sentence in corpus]
    losses = [-log for sentence in words for log in sentence_log_probs(after, sentence)]
    assert result.log_perplexity == pytest.approx(sum(losses) / len(losses), abs=1e-4)
    assert result.log_perplexity != evaluate(model, corpus).log_perplexity

    def verbs(of: LLRNN) -> float:
        texts = generate(of, count=10, max_words=12, generator=torch.Generator().manual_seed(0))
        said = [word for text in texts for word in text.words]
        return sum(POS in of.output_features.row(of.vocabulary.id(word)) for word in said) / len(said)

    assert verbs(after) > verbs(model) + 0.3


@pytest.mark.parametrize("tied", [False, True])
def test_it_is_saved_and_read_back(tmp_path: Path, tied: bool) -> None:
    model = small_model(context=[contextual.Repeated(6)], tied=tied).double()
    model.provenance = {"config": {"corpus": {"lowercase": True}}}
    after = steer(model, [Change.parse("POS:*=*0.5"), Change.parse("Repeated=+1")])
    after.save(tmp_path / "steered")
    again = llrnn.load(tmp_path / "steered")
    assert not again.tied
    assert again.provenance == model.provenance
    assert again.training_summary is not None
    np.testing.assert_array_equal(log_probs(again, some_prefix(model)), log_probs(after, some_prefix(model)))


PARSED = {
    "POS:VERB=+0.5": Change("POS:VERB", 1.0, 0.5),
    "POS:VERB=-0.5": Change("POS:VERB", 1.0, -0.5),
    "POS:VERB=*0.8": Change("POS:VERB", 0.8, 0.0),
    "POS:VERB=*-.8": Change("POS:VERB", -0.8, 0.0),
    "POS:VERB=1e-3": Change("POS:VERB", 0.0, 1e-3),
    "POS:*=*2": Change("POS:*", 2.0, 0.0),
    "Word:==+1": Change("Word:=", 1.0, 1.0),
    "Word:a=b=2": Change("Word:a=b", 0.0, 2.0),
}


@pytest.mark.parametrize(("text", "change"), PARSED.items(), ids=PARSED.keys())
def test_changes_are_read(text: str, change: Change) -> None:
    assert Change.parse(text) == change


@pytest.mark.parametrize(
    "text", ["", "POS", "POS=", "=1", "POS=*", "POS=+-1", "POS=**2", "POS=loud", "POS=nan", "POS=+inf", "POS=*1e999"]
)
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"NAME=\*NUMBER to scale.*finite number; found '"):
        Change.parse(text)


@pytest.mark.parametrize("numbers", [(math.nan, 0.0), (math.inf, 0.0), (1.0, math.nan), (1.0, -math.inf)])
def test_numbers_that_are_not_finite_are_refused(numbers: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="finite numbers, found scale"):
        Change(POS, *numbers)


def test_a_weight_that_overflows_is_refused() -> None:
    model = small_model()
    with pytest.raises(ConfigError, match=r"must stay finite in torch\.float32"):
        steer(model, [Change(POS, offset=1e300)])
    with pytest.raises(ConfigError, match="overflows"):
        steer(model, [Change(POS, scale=1e30), Change(POS, scale=1e30)])


@pytest.mark.parametrize("name", ["POS:VERBE", "pos:verb", "POS:VER"])
def test_an_unknown_name_suggests_the_closest(model: LLRNN, name: str) -> None:
    count = len(model.feature_names)
    with pytest.raises(ConfigError, match=f"none of the {count} features .* {name!r}; did you mean .*'{POS}'"):
        steer(model, [Change(name, offset=1.0)])


def test_an_unknown_name_like_no_other_shows_what_names_look_like(model: LLRNN) -> None:
    with pytest.raises(ConfigError, match=f"names look like {model.feature_names[0]!r}, "):
        steer(model, [Change("§§§§§§", offset=1.0)])


def test_a_pattern_must_match_and_knows_only_the_star(model: LLRNN) -> None:
    for pattern in ("Nothing:*", "POS:VER?*", "[P]OS:*"):
        with pytest.raises(ConfigError, match="matches the pattern"):
            steer(model, [Change(pattern, offset=1.0)])
    with pytest.raises(ConfigError, match=r"is named 'POS:VER\.'"):
        steer(model, [Change("POS:VER.", offset=1.0)])


def matches_by_trying_all(pattern: str, name: str) -> bool:
    """What a star means, written down: any number of characters."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(matches_by_trying_all(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return name[:1] == pattern[0] and matches_by_trying_all(pattern[1:], name[1:])


def test_a_star_stands_for_anything() -> None:
    patterns = ["".join(signs) for n in range(5) for signs in itertools.product("ab*", repeat=n)]
    names = ["".join(signs) for n in range(5) for signs in itertools.product("ab", repeat=n)]
    for pattern, name in itertools.product(patterns, names):
        assert bool(star_matcher(pattern)(name)) == matches_by_trying_all(pattern, name), (pattern, name)


@pytest.mark.parametrize("pattern", ["*" * 30 + "Z", "*a" * 500 + "*Z*", "*" + "aaaaaaab*" * 100])
def test_a_pattern_is_matched_without_going_back(pattern: str) -> None:
    assert not star_matcher(pattern)("a" * 400)  # going back, the first of these would outlast the sun


def test_a_pattern_of_thirty_stars_is_an_unknown_name(model: LLRNN) -> None:
    with pytest.raises(ConfigError, match="matches the pattern"):
        ModelOptions(["*" * 30 + "§=+1"]).steered(model)


def test_a_mistaken_name_is_compared_with_few_others() -> None:
    many = FeatureNames([f"Word:{n}" for n in range(100_000)])
    assert len(many._candidates("Word:x")) <= 2000
    assert not many._candidates("x" * 1000)
    for long, said in [("a." * 9_999, "is named"), ("a*" * 9_999, "matches the pattern")]:
        with pytest.raises(ConfigError, match=rf"{said} '(a.){{39}}…; names look like"):
            many.rows(long)
    with pytest.raises(ConfigError, match="names look like 'Word:0'"):
        many.rows("x" * 1000)


def test_what_patterns_were_resolved_to_is_bounded_in_bytes() -> None:
    names = FeatureNames([f"Word:{n}" for n in range(10_000)])
    for n in range(100):
        assert len(names.rows("W*" + "*" * n)) == 10_000
    assert names._found.bytes <= names._found.most_bytes < 100 * 80_000


def test_names_with_signs_in_them_are_themselves() -> None:
    signs = Function(lambda word: {"Sign:*": 1.0, "Sign:a=b": 1.0} if len(word) > 3 else {"Sign:(": 1.0})
    model = small_model(output_features=signs).double()
    old = weights_of(model, ())
    one = weights_of(steer(model, [Change.parse("Sign:*=+1")]), ())  # bears the name, so it is no pattern
    assert one == pytest.approx(old | {"Sign:*": old["Sign:*"] + 1})
    two = weights_of(steer(model, [Change.parse("Sign:a=b=+1")]), ())
    assert two == pytest.approx(old | {"Sign:a=b": old["Sign:a=b"] + 1})
    all_of_them = weights_of(steer(model, [Change.parse("S*:*=+1")]), ())
    assert all_of_them == pytest.approx({name: weight + 1 for name, weight in old.items()})


def test_the_options_of_the_command_line(model: LLRNN) -> None:
    old = weights_of(model, ())
    assert ModelOptions().steered(model) is model
    assert ModelOptions([], []).steered(model) is model
    after = weights_of(ModelOptions([f"{POS}=+1", "Repeated=+1"], ["Repeated=-2", "Repeated=0.5"]).steered(model), ())
    assert after == pytest.approx(old | {POS: old[POS] + 1, "Repeated": -old["Repeated"] + 1})


@pytest.mark.parametrize("option", ["Repeated", "Repeated=", "=2"])
def test_a_factor_that_is_none_is_refused(model: LLRNN, option: str) -> None:
    with pytest.raises(ConfigError, match=r"--expert is written NAME=FACTOR .* found '"):
        ModelOptions(expert=[option]).steered(model)


@pytest.mark.parametrize("option", ["Repeated=nan", "Repeated=inf"])
def test_a_factor_that_is_not_finite_is_refused(model: LLRNN, option: str) -> None:
    with pytest.raises(ConfigError, match="finite numbers"):
        ModelOptions(expert=[option]).steered(model)


def test_typer_reads_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command()
    @with_model_options
    def verb(asked: ModelOptions) -> None:
        typer.echo(f"{asked.change} {asked.expert}")

    app(["--change", "POS:*=*0.8", "--change", "a=-1", "--expert", "kn=-0.8"], standalone_mode=False)
    assert capsys.readouterr().out == "['POS:*=*0.8', 'a=-1'] ['kn=-0.8']\n"


def test_the_feature_of_these_tests_is_there() -> None:
    assert POS in small_model().output_features.names
    assert len(small_vocabulary()) > 50
