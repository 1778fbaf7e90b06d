"""What experts and priming cost in beam search: the same model with its knowledge and without.

The model without has the same network, features and vocabulary; its background is the base of the priming (or, where
that looks at the context, uniform), and it has no contextual features. A token is one hypothesis that takes one word.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from llrnn.knowledge.backgrounds import Background, Primed, Uniform, Unigram
from llrnn.knowledge.contextual import Continued, Copied, Lookup, Matching, Mentioned, Unmentioned
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import ModelState
from llrnn.model.controllers import LSTM, Attentive, Encoder
from llrnn.model.decode import beam_search_each
from llrnn.model.network import LLRNN
from llrnn.text.conditions import Slots
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import EOS, Vocabulary

_COLUMNS = ("name", "area", "food", "price", "phone")


def beam(
    model: LLRNN, conditions: Sequence[object], *, width: int = 5, max_words: int = 20, rounds: int = 5
) -> dict[str, Any]:
    """Milliseconds a token with and without knowledge, one condition at a time and all side by side; medians."""
    contenders = {"with": model, "without": without_knowledge(model)}
    found: dict[str, Any] = {"V": len(model.vocabulary), "width": width, "conditions": len(conditions)}
    found["weights"] = _weights_of_a_token(model)
    for how, groups in (("one by one", [[one] for one in conditions]), ("side by side", [list(conditions)])):
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds + 1):
            for name, one in contenders.items():
                times[name].append(_per_token(one, groups, width, max_words))
        # the first round warms up; the others are compared within the round, since the machine is noisy
        ratios = [a / b for a, b in zip(times["with"][1:], times["without"][1:], strict=True)]
        medians = {name: 1000 * statistics.median(own[1:]) for name, own in times.items()}
        found[how] = {**medians, "ratio": statistics.median(ratios)}
    return found


def without_knowledge(model: LLRNN) -> LLRNN:
    """The same network over the same words, told nothing."""
    same = model.input_features is model.output_features
    bare = LLRNN(
        model.vocabulary,
        output_features=model.output_features,
        input_features=None if same else model.input_features,
        background=_base(model.background),
        controller=model.controller,
        tied=model.tied,
    )
    weights = {f"weights.{name}": p for name, p in model.named_parameters() if "context_" not in name}
    weights |= {f"weights.{name}": p for name, p in bare.named_parameters() if "context_" in name}
    bare.load_weights(weights)
    return bare


def _base(background: Background) -> Background:
    base = background.base if isinstance(background, Primed) else background
    return base if base.is_static else Uniform()


def _weights_of_a_token(model: LLRNN) -> int:
    """Those that a token is multiplied with: of the network, but for the encoder, and of the classes."""
    network = [p.numel() for name, p in model.controller.named_parameters() if not name.startswith("encoder.")]
    return sum(network) + model.output_features.n_classes * model.controller.hidden


class _Counting:
    """A model that counts the words that it is fed."""

    def __init__(self, model: LLRNN) -> None:
        self._model, self.tokens = model, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def step(self, state: ModelState, words: Sequence[int], **given: Any) -> Any:
        self.tokens += len(words)
        return self._model.step(state, words, **given)


def _per_token(model: LLRNN, groups: Sequence[Sequence[object]], width: int, max_words: int) -> float:
    counting = _Counting(model)
    started = time.perf_counter()
    for group in groups:
        beam_search_each(counting, group, beam=width, max_words=max_words)  # type: ignore[arg-type]
    return (time.perf_counter() - started) / counting.tokens


def made_up(words: int = 2_000, hidden: int = 256, *, seed: int = 0) -> tuple[LLRNN, list[dict[str, str]]]:
    """A model of random weights that copies, is primed and looks values up in a table of a hundred; and conditions."""
    rng = random.Random(seed)
    names = [f"word{i}" for i in range(words)]
    table = [_row(rng, names) for _ in range(100)]
    vocabulary = Vocabulary([EOS, *names], counts=[words, *range(words, 0, -1)])
    conditions = [{**rng.choice(table), "said": ""} for _ in range(20)]
    entities = {word for row in table for value in row.values() for word in value.split()}
    encoder = Encoder.for_conditions(Slots(), conditions, 128)
    model = LLRNN(
        vocabulary,
        output_features=Identity(top=words // 2),
        background=Primed(Unigram(dict(zip(vocabulary.words, vocabulary.counts, strict=True))), entities, absent=0.01),
        controller=Attentive(LSTM(hidden), encoder, LSTM(hidden, inputs=hidden + 128)),
        contextual=[
            Copied(*_COLUMNS),
            Continued(),
            Mentioned(),
            Unmentioned(),
            Lookup(KnowledgeBase("made up", tuple(table)), Matching("name", ("area",), ("said",)), *_COLUMNS),
        ],
    )
    with torch.no_grad():
        model.layer.weight.mul_(20.0)  # loud enough that hypotheses differ
    return model, conditions


def _row(rng: random.Random, names: Sequence[str]) -> dict[str, str]:
    """A venue with values of one to four words, of which some are rare."""
    lengths = {"name": 2, "area": 1, "food": 1, "price": 1, "phone": 2}
    few = {"area": 5, "food": 20, "price": 3}
    return {
        column: " ".join(rng.choice(names[-few.get(column, 500) :]) for _ in range(length))
        for column, length in lengths.items()
    }
