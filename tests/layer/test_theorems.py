"""What must hold of every model: the special cases of the paper, and the laws that bind its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from brute import Array
from llrnn import EOS, GRU, LLRNN, LSTM, Elman, Mogrifier, Vocabulary
from llrnn.ground.errors import ConfigError, ZeroMassError
from llrnn.knowledge.backgrounds import Background, Mask, Mixture, Primed, Static, Uniform, Unigram
from llrnn.knowledge.contextual import ContextualFeature, Repeated
from llrnn.knowledge.features import Features, Function, Identity, Suffixes
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.priors import DensePrior, Prior, SparsePrior, Table
from llrnn.model.controllers import Controller, make_controller, variational_dropout
from strategies import QUICK, Case, cases, matrix_of

pytestmark = pytest.mark.usefixtures("each_sum")

WORDS = ["la", "le", "chat", "chats", "chatte", "noir", "noire", "12", "37"]
VOCABULARY = Vocabulary([EOS, *WORDS])


def close(found: Tensor, wanted: Tensor | Array, tolerance: float = 1e-9) -> None:
    wanted = wanted.detach().numpy() if isinstance(wanted, Tensor) else wanted
    npt.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


# --- the equation -------------------------------------------------------------------------------------------------


def test_identity_features_and_uniform_background_are_the_softmax() -> None:
    """Paper §2.4, in value and in gradient."""
    layer = LogLinear(matrix_of([{f"word {x}": 1.0} for x in range(7)]), 4, zero=True).double()
    linear = nn.Linear(4, 7).double()
    layer.weight.data.copy_(linear.weight.data)
    layer.bias.data.copy_(linear.bias.data)
    h = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mine, theirs = h.clone().requires_grad_(), h.clone().requires_grad_()
    targets = torch.tensor([0, 3, 6, 3, 1])
    p = layer(mine, Uniform().bind(Vocabulary([EOS, *"abcdef"])).prior([]))
    log_softmax = torch.log_softmax(linear(theirs), -1)
    close(p.log_probs(), log_softmax)
    p.log_prob(targets).sum().backward()
    torch.autograd.backward(log_softmax[torch.arange(5), targets].sum())
    for one, other in ((mine, theirs), (layer.weight, linear.weight), (layer.bias, linear.bias)):
        assert one.grad is not None
        assert other.grad is not None
        close(one.grad, other.grad)


@given(cases())
@QUICK
def test_without_adaptor_the_model_is_the_background(case: Case) -> None:
    layer = case.layer()
    for parameter in layer.parameters():
        parameter.data.zero_()
    b = np.exp(case.log_b - case.log_b.max(-1, keepdims=True))
    p = layer(case.h(), case.prior, case.values())
    close(p.log_probs().exp(), b / b.sum(-1, keepdims=True))


@given(cases())
@QUICK
def test_gradient_by_the_adaptor_is_observed_minus_expected(case: Case) -> None:
    """With h one-hot over the positions, row n of a is column n of W plus c: the gradient by W is that by a."""
    layer = LogLinear(matrix_of(case.rows), case.n, len(case.context), zero=True).double()
    generator = torch.Generator().manual_seed(case.seed)
    for parameter in layer.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    p = layer(torch.eye(case.n, dtype=torch.float64), case.prior, case.values())
    targets = torch.tensor(case.possible_words())
    p.log_prob(targets).sum().backward()
    phi = torch.from_numpy(case.brute().phi)
    wanted = phi[torch.arange(case.n), targets] - p.expected_features().detach()
    found = [w.grad if w.grad is not None else torch.zeros_like(w) for w in (layer.weight, layer.context_weight)]
    close(torch.cat(found).t(), wanted, 1e-8)


@given(cases(kinds=["static"], context=False))
@QUICK
def test_what_is_known_of_a_may_move_into_b(case: Case) -> None:
    """Paper §2: the belief "a is near a₀" is the background b(x) exp(a₀·φ(x))."""
    brute = case.brute()
    layer, moved = case.layer(), case.layer()
    shift = torch.linspace(-1.0, 1.0, len(layer.bias), dtype=torch.float64)
    moved.bias.data -= shift
    log_b = torch.from_numpy(case.log_b[0] + brute.phi[0] @ shift.numpy())
    p, same = layer(case.h(), case.prior), moved(case.h(), SparsePrior.static(Table(log_b)))
    close(same.log_probs(), p.log_probs(), 1e-8)
    close(same.entropy(), p.entropy(), 1e-6)


@given(cases(), st.sampled_from([0.5, 2.0, 1.3]))
@QUICK
def test_temperature_powers_a_and_b(case: Case, temperature: float) -> None:
    p, targets = case.distribution(), torch.tensor(case.possible_words())
    log_p = p.log_probs().detach() / temperature
    wanted = log_p - torch.logsumexp(log_p, -1, keepdim=True)
    cooled = case.layer()
    for parameter in cooled.parameters():
        parameter.data /= temperature
    by_hand = cooled(case.h(), case.prior.powered(1.0 / temperature), case.values())
    for tempered in (by_hand, p.tempered(temperature)):
        close(tempered.log_probs(), wanted, 1e-8)
        close(tempered.log_prob(targets), wanted[torch.arange(case.n), targets], 1e-8)
        entropy = -(wanted.exp() * wanted.masked_fill(wanted == -math.inf, 0.0)).sum(-1)
        close(tempered.entropy(), entropy, 1e-6)
        close(tempered.top(2)[0], wanted.topk(2, -1).values, 1e-8)


# --- models -------------------------------------------------------------------------------------------------------


class Agreement(ContextualFeature):
    """A user's own: 0.5 on all words but those that begin as the last word does, which have the prefix's length."""

    def initial(self, condition: object = None) -> tuple[int, ...]:
        return ()

    def advance(self, state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        return (*state, symbol)

    def value(self, state: tuple[int, ...]) -> tuple[float, Mapping[int, float]]:
        first = VOCABULARY.symbols[state[-1]][0]
        return 0.5, {x: float(len(state)) for x, word in enumerate(VOCABULARY) if word[0] == first}


class Favourite(Background):
    """A user's own, dense: the last word is the least likely to come again."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return symbol

    def prior(self, states: Sequence[int]) -> Prior:
        return DensePrior(-3.0 * torch.eye(len(VOCABULARY), dtype=torch.float64)[list(states)])


def no_repetition(condition: object, prefix: tuple[str, ...]) -> list[str]:
    """Forbids the last word, and `le` where the condition is feminine."""
    return [*prefix[-1:], *(["le"] if condition == "la" else [])]


def phi() -> Features:
    return Identity(top=4) + Suffixes(2) + Function(lambda word: {"Length": len(word) / 7.0}, name="length")


COUNTS = {EOS: 3.0, **{word: 1.0 + x for x, word in enumerate(WORDS)}}

CONTROLLERS: Mapping[str, Callable[[], Controller]] = {
    "elman": lambda: Elman(5),
    "gru": lambda: GRU(5, layers=2, dropout=0.4),
    "lstm": lambda: LSTM(5, layers=2, inputs=3, dropout=0.4),
    "mogrifier": lambda: Mogrifier(4, layers=2, inputs=3, dropout=0.3),
}
BACKGROUNDS: Mapping[str, Callable[[], Background]] = {
    "uniform": Uniform,
    "primed": lambda: Primed(Unigram(COUNTS), ["la", "noir", "37"], boost=3.0, absent=0.2),
    "mask": lambda: Unigram(COUNTS) * Mask(forbidden=no_repetition),
    "mixture": lambda: Mixture(Unigram(COUNTS), Primed(Uniform(), ["12", "37"]), weights=[0.3, 0.7]),
    "dense": lambda: Unigram(COUNTS) * Favourite(),
}
CONTEXTS: Mapping[str, Callable[[], Sequence[ContextualFeature]]] = {
    "none": tuple,
    "repeated": lambda: [Repeated(3), Agreement()],
}
# every controller, every background, every context: not every triple
MODELS = [
    ("elman", "uniform", "none"),
    ("elman", "dense", "repeated"),
    ("gru", "mask", "repeated"),
    ("gru", "primed", "none"),
    ("lstm", "mixture", "repeated"),
    ("lstm", "uniform", "repeated"),
    ("mogrifier", "primed", "repeated"),
    ("mogrifier", "mask", "none"),
]
SENTENCES = [["la", "chatte", "noire"], ["le", "chat"], ["37", "chats", "37", "12", "la"]]
CONDITIONS = ["la", "37 noir", None]


def make(controller: str, background: str, context: str, *, seed: int = 0) -> LLRNN:
    model = LLRNN(
        VOCABULARY,
        output_features=phi(),
        background=BACKGROUNDS[background](),
        controller=CONTROLLERS[controller](),
        contextual=CONTEXTS[context](),
        seed=seed,
    )
    return model.double().eval()


def batch_of(sentences: Sequence[Sequence[str]], conditions: Sequence[object]) -> Batch:
    rows = [[VOCABULARY.eos, *VOCABULARY.ids(sentence), VOCABULARY.eos] for sentence in sentences]
    T = max(len(row) for row in rows) - 1
    both = torch.tensor([row + [VOCABULARY.eos] * (T + 1 - len(row)) for row in rows])
    mask = torch.tensor([[t < len(row) - 1 for t in range(T)] for row in rows])
    return Batch(both[:, :-1], both[:, 1:], mask, conditions)


def by_steps(model: LLRNN, sentence: Sequence[str], condition: object) -> list[Distribution]:
    state, found = model.start([condition]), []
    for word in [EOS, *sentence]:
        p, state = model.step(state, [VOCABULARY.id(word)])
        found.append(p)
    return found


@pytest.mark.parametrize("parts", MODELS, ids="-".join)
def test_teacher_forcing_is_the_sum_over_steps(parts: tuple[str, str, str]) -> None:
    model = make(*parts)
    found = model.log_prob(batch_of(SENTENCES, CONDITIONS))
    wanted = [
        p.log_prob(torch.tensor([VOCABULARY.id(target)]))
        for sentence, condition in zip(SENTENCES, CONDITIONS, strict=True)
        for p, target in zip(by_steps(model, sentence, condition), [*sentence, EOS], strict=True)
    ]
    close(found, torch.cat(wanted))
    assert len(set(found.tolist())) == len(found)  # no two positions are alike: a mix-up would show


@pytest.mark.parametrize("parts", MODELS, ids="-".join)
def test_batched_is_one_by_one(parts: tuple[str, str, str]) -> None:
    model = make(*parts)
    together = model.log_prob(batch_of(SENTENCES, CONDITIONS))
    alone = [model.log_prob(batch_of([s], [c])) for s, c in zip(SENTENCES, CONDITIONS, strict=True)]
    close(together, torch.cat(alone))
    state = model.start(CONDITIONS)
    _, state = model.step(state, [0, 0, 0])
    p, after = model.step(state, [1, 2, 3])
    for row, word in enumerate([1, 2, 3]):
        one, own = model.step(state.select([row]), [word])
        close(one.log_probs()[0], p.log_probs()[row])
        close(own.controller[0][0], after.controller[0][row])


@pytest.mark.parametrize("parts", MODELS, ids="-".join)
def test_every_distribution_sums_to_one(parts: tuple[str, str, str]) -> None:
    p, _ = make(*parts).scan(batch_of(SENTENCES, CONDITIONS))
    close(p.log_probs().exp().sum(-1), torch.ones(p.n, dtype=torch.float64))


@pytest.mark.parametrize("parts", MODELS, ids="-".join)
def test_no_look_ahead(parts: tuple[str, str, str]) -> None:
    model = make(*parts)
    one, other = ["la", "chat", "12", "noir"], ["la", "chat", "noire", "chatte"]
    (p, _), (q, _) = (model.scan(batch_of([sentence], ["37"])) for sentence in (one, other))
    close(p.log_probs()[:3], q.log_probs()[:3], 0.0)
    assert not torch.allclose(p.log_probs()[3], q.log_probs()[3])


@pytest.mark.parametrize("parts", MODELS, ids="-".join)
def test_a_text_may_be_cut_anywhere(parts: tuple[str, str, str]) -> None:
    """The state after one batch starts the next; detached, it has the same values."""
    model = make(*parts)
    whole = batch_of([SENTENCES[2]], ["37"])
    head, tail = (
        Batch(whole.inputs[:, cut], whole.targets[:, cut], whole.mask[:, cut], whole.conditions)
        for cut in (slice(0, 2), slice(2, None))
    )
    p, state = model.scan(head)
    q, end = model.scan(tail, state.detached())
    r, same_end = model.scan(whole)
    close(torch.cat([p.log_probs(), q.log_probs()]), r.log_probs())
    for one, other in zip(end.controller, same_end.controller, strict=True):
        close(one, other)
    assert end.knowledge == same_end.knowledge
    assert isinstance(end, ModelState)


def test_an_observed_word_without_mass_is_an_error_that_names_it() -> None:
    model = LLRNN(VOCABULARY, output_features=Identity(), background=Mask(forbidden=["chat"]), controller=Elman(2))
    with pytest.raises(ZeroMassError, match="gives the observed word 'chat' no mass"):
        model.log_prob(batch_of([["le", "chat"]], [None]))


# --- controllers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTROLLERS)
def test_scan_is_the_fold_of_step(name: str) -> None:
    controller = CONTROLLERS[name]().double()
    psi = torch.randn(3, 6, controller.inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    state = controller.initial([None] * 3)
    h, end = controller.scan(psi, state)
    assert h.shape == (3, 6, controller.hidden)
    steps = []
    for t in range(6):
        one, state = controller.step(psi[:, t], state)
        steps.append(one)
    close(h, torch.stack(steps, 1))
    for one, other in zip(end, state, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", ["gru", "lstm", "mogrifier"])
def test_dropout_is_the_generators(name: str) -> None:
    controller = CONTROLLERS[name]()
    psi = torch.randn(2, 4, controller.inputs, generator=torch.Generator().manual_seed(1))

    def h(seed: int | None) -> Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        found: Tensor = controller.scan(psi, controller.initial([None] * 2), generator=generator)[0]
        return found

    assert torch.equal(h(None), h(None))
    assert torch.equal(h(3), h(3))
    assert not torch.equal(h(3), h(4))
    assert not torch.equal(h(3), h(None))


def test_variational_dropout_is_constant_over_time() -> None:
    x = torch.ones(50, 7, 40)
    dropped = variational_dropout(x, 0.25, torch.Generator().manual_seed(0))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert sorted(set(dropped.flatten().tolist())) == [0.0, pytest.approx(1 / 0.75)]
    kept = float((dropped[:, 0] > 0).double().mean())
    assert kept == pytest.approx(0.75, abs=6 * math.sqrt(0.25 * 0.75 / 2000))
    assert not torch.equal(dropped[0], dropped[1])
    assert variational_dropout(x, 0.25, None) is x
    assert variational_dropout(x, 0.0, torch.Generator()) is x


def test_dropout_stands_at_the_input_of_each_layer_and_at_the_output() -> None:
    """With everything dropped but by chance, the last mask alone decides what leaves: the same at every step."""
    controller = GRU(30, dropout=0.5)
    h, _ = controller.scan(
        torch.randn(2, 5, 30), controller.initial([None] * 2), generator=torch.Generator().manual_seed(2)
    )
    silent = h == 0
    assert torch.equal(silent, silent[:, :1].expand_as(silent))
    assert 0 < int(silent[:, 0].sum()) < 60


def test_word_dropout_silences_whole_words_and_only_in_train_mode() -> None:
    model = LLRNN(VOCABULARY, output_features=phi(), controller=Elman(4), word_dropout=0.5).double()
    batch = batch_of(SENTENCES, CONDITIONS)
    drawn = [model.log_prob(batch, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(model.log_prob(batch), model.log_prob(batch))
    assert torch.equal(model.eval().log_prob(batch), model.log_prob(batch, generator=torch.Generator()))
    psi = model._drop_words(torch.ones(20, 30, 4), torch.Generator().manual_seed(0))
    assert torch.equal(psi, psi[..., :1].expand_as(psi))
    assert float(psi.mean()) == pytest.approx(0.5, abs=6 * math.sqrt(0.25 / 600))


def test_controllers_come_back_from_their_settings() -> None:
    for name, made in CONTROLLERS.items():
        controller = made()
        again = make_controller(controller.settings())
        assert again.settings() == controller.settings()
        assert repr(again) == repr(controller)
        assert again.settings()["kind"] == name
        assert [p.shape for p in again.parameters()] == [p.shape for p in controller.parameters()]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Elman(0), r"Elman needs .* of 1 or more, found 0, 1, None"),
        (lambda: GRU(2, layers=0), "found 2, 0, None"),
        (lambda: LSTM(2, inputs=0), "found 2, 1, 0"),
        (lambda: LSTM(2, dropout=1.0), "dropout must be at least 0 and below 1, found 1.0"),
        (
            lambda: make_controller({"kind": "cnn"}),
            "unknown kind of controller 'cnn': use one of elman, ",
        ),
    ],
)
def test_controllers_that_cannot_be(made: Callable[[], Controller], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made()


# --- weights ------------------------------------------------------------------------------------------------------


def test_tied_weights_are_one_parameter() -> None:
    model = LLRNN(VOCABULARY, output_features=phi(), controller=GRU(4), tied=True)
    free = LLRNN(VOCABULARY, output_features=phi(), controller=GRU(4))
    assert model.layer.weight is model.embedding.weight
    size = model.layer.weight.numel()
    assert sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in model.parameters()) == size
    assert model.double().layer.weight is model.embedding.weight


@pytest.mark.parametrize("controller", [GRU(4, inputs=3), GRU(4)])
def test_tied_weights_need_the_same_features_and_sizes(controller: Controller) -> None:
    other = None if controller.inputs == 3 else Identity()
    with pytest.raises(ConfigError, match="tied weights need the same features on both sides"):
        LLRNN(VOCABULARY, output_features=phi(), input_features=other, controller=controller, tied=True)


def test_a_seed_is_a_model() -> None:
    one, same, other = (make("lstm", "uniform", "repeated", seed=s) for s in (1, 1, 2))
    batch = batch_of(SENTENCES, CONDITIONS)
    assert torch.equal(one.log_prob(batch), same.log_prob(batch))
    assert not torch.equal(one.log_prob(batch), other.log_prob(batch))


def test_a_static_background_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(Exception, match="a vector over 3 symbols, but the vocabulary lists 10"):
        LLRNN(VOCABULARY, output_features=phi(), background=Static(torch.zeros(3)), controller=Elman(2))
