"""The adapter for the LM Evaluation Harness, by calling its methods: against log p word by word."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import llrnn
from helpers import shaken
from llrnn import EOS, GRU, LLRNN, backgrounds, features
from llrnn.ground.errors import ConfigError, UnknownWordError
from llrnn.inference.harness import HarnessLM, cut_before
from llrnn.text.corpus import Corpus

CORPUS = Corpus.from_sentences([["le", "chat", "dort"], ["la", "chatte", "dort", "ici"]])


@dataclass
class Instance:
    """As the harness wraps a question."""

    args: tuple[Any, ...]


def model(*, lowercase: bool = False) -> LLRNN:
    made = LLRNN(
        llrnn.Vocabulary.from_corpus(CORPUS),
        output_features=features.Identity() + features.Suffixes(1, min_count=1),
        background=backgrounds.Unigram.from_corpus(CORPUS),
        controller=GRU(4),
    )
    made.provenance = {"config": {"corpus": {"lowercase": lowercase}}}
    shaken(made, 2.0)
    return made


def step_by_step(made: LLRNN, before: list[str], words: list[str]) -> tuple[float, bool]:
    """log p of words after others, and whether each is the likeliest: one step after the other."""
    state, total, best = made.start(), 0.0, True
    fed = [EOS, *before, *words]
    with torch.no_grad():
        for n, word in enumerate(fed[:-1]):
            p, state = made.step(state, made.vocabulary.ids([word]))
            if n >= len(before):
                target = made.vocabulary.id(fed[n + 1])
                log_p = p.log_probs()[0]
                total += float(log_p[target])
                best = best and int(log_p.argmax()) == target
    return total, best


def asked(*arguments: Any) -> list[Instance]:
    return [Instance(one if isinstance(one, tuple) else (one,)) for one in arguments]


def test_log_p_of_continuations_is_that_of_the_steps() -> None:
    made, chance = model(), random.Random(0)
    words = [word for word in made.vocabulary if word != EOS]
    pairs = [
        (chance.choices(words, k=chance.randint(0, 5)), chance.choices(words, k=chance.randint(1, 4)))
        for _ in range(30)
    ]
    questions = asked(*((" ".join(before), " " + " ".join(after)) for before, after in pairs))
    for positions in (1, 12, 4096):
        found = HarnessLM(made, positions=positions).loglikelihood(questions)
        for (log_p, best), (before, after) in zip(found, pairs, strict=True):
            expected = step_by_step(made, before, after)
            assert log_p == pytest.approx(expected[0], abs=1e-5)
            assert best is expected[1]


def test_a_blank_may_stand_on_either_side() -> None:
    lm = HarnessLM(model())
    first, second = lm.loglikelihood(asked(("le ", "chat"), ("le", " chat")))
    assert first == second


def test_greedy_continuations_are_told() -> None:
    made = model()
    (text,) = HarnessLM(made).generate_until(asked(("le", {"max_gen_toks": 3})))
    ((_, best),) = HarnessLM(made).loglikelihood(asked(("le", f" {text}")))
    assert best is True
    assert text.split() == list(llrnn.generate(made, "le", greedy=True, max_words=3)[0].words)


def test_a_rolling_text_has_its_lines_ended() -> None:
    made = model()
    (found,) = HarnessLM(made).loglikelihood_rolling(asked("le chat dort\nla chatte"))
    expected, _ = step_by_step(made, [], ["le", "chat", "dort", EOS, "la", "chatte"])
    assert found == pytest.approx(expected, abs=1e-5)


def test_nothing_to_say_is_certain() -> None:
    assert HarnessLM(model()).loglikelihood(asked(("le", ""), ("", ""))) == [(0.0, True)] * 2
    both = HarnessLM(model()).loglikelihood(asked(("le", ""), ("le", " chat")))
    assert both[0] == (0.0, True)
    assert both[1][0] < 0


def test_probabilities_of_all_words_sum_to_one() -> None:
    made = model()
    words = [word for word in made.vocabulary if word != EOS]
    found = HarnessLM(made).loglikelihood(asked(("le", "\n"), *(("le", f" {word}") for word in words)))
    assert math.fsum(math.exp(log_p) for log_p, _ in found) == pytest.approx(1.0, abs=1e-5)


def test_texts_are_cut_before_what_ends_them() -> None:
    assert cut_before("yes. no", [".", "n"]) == "yes"
    assert cut_before("yes", ["", "x"]) == "yes"
    made = model()
    (whole,) = HarnessLM(made).generate_until(asked(("", {"max_gen_toks": 8})))
    (cut,) = HarnessLM(made).generate_until(asked(("", {"max_gen_toks": 8, "until": whole[2]})))
    assert cut == whole[: whole.index(whole[2])]


def test_samples_follow_the_seed() -> None:
    made, options = model(), {"do_sample": True, "temperature": 1.0, "max_gen_toks": 6}
    first, second, other = (HarnessLM(made, seed=n).generate_until(asked(*[("le", options)] * 4)) for n in (0, 0, 1))
    assert first == second
    assert first != other


def test_mistakes_are_named() -> None:
    lm = HarnessLM(model())
    with pytest.raises(UnknownWordError, match="zèbre"):
        lm.loglikelihood(asked(("le", " zèbre")))
    with pytest.raises(ConfigError, match="max_gen_toks must be a whole number above 0, found 0"):
        lm.generate_until(asked(("le", {"max_gen_toks": 0})))
    assert HarnessLM(model(lowercase=True)).loglikelihood_rolling(asked("LE Chat"))[0] < 0
    with pytest.raises(UnknownWordError, match="LE"):
        lm.loglikelihood_rolling(asked("LE"))
