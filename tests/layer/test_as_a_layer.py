"""`llrnn.LogLinear` under a network of one's own: against the sum over V in float64, and as a citizen of torch."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import llrnn
from helpers import HANG
from llrnn.ground.errors import BackgroundError, ConfigError, FeatureError, InputError, LLRNNError
from llrnn.layer import chunked, loglinear, weights
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, SparsePrior, Table

V, M, H = 60, 9, 7
LEADING = [(5,), (), (2, 3), (2, 1, 40)]


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def some_features() -> Tensor:
    """(V, M), with a dozen classes, one of them without features."""
    rows = drawn(12, M, seed=1) * (drawn(12, M, seed=2) > 0)
    rows[3] = 0.0
    return rows[torch.arange(V) * 7 % 12]


PHI, LOG_B = some_features(), drawn(V, seed=3)
WORDS = torch.arange(1000) * 13 % V


def made(features: Any = PHI, dtype: torch.dtype = torch.float64, **given: Any) -> LogLinear:
    torch.manual_seed(4)
    return LogLinear(features, H, **given).to(dtype)


def words(*shape: int) -> Tensor:
    return WORDS[: torch.Size(shape).numel()].view(shape)


def logits(layer: LogLinear, h: Tensor, log_b: Tensor | float = 0.0, phi: Tensor = PHI) -> Tensor:
    """log b + a·φ of every word, in float64, by nothing but dense products: (…, H) -> (…, V)."""
    a = h.double() @ layer.weight.double().t() + layer.bias.double()
    return a @ phi.t() + log_b


def log_softmax(layer: LogLinear, h: Tensor, log_b: Tensor | float = 0.0) -> Tensor:
    return torch.log_softmax(logits(layer, h, log_b), -1)


def same(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-10)


# --- the numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", LEADING)
@pytest.mark.parametrize("background", ["none", "made with", "called with", "over the other", "at each position"])
def test_answers_are_those_of_the_sum_over_v_in_the_shape_of_h(shape: tuple[int, ...], background: str) -> None:
    h, targets, other = drawn(*shape, H), words(*shape), drawn(*shape, V, seed=8)
    layer = made(background={"made with": LOG_B, "over the other": -LOG_B}.get(background))
    given = {"called with": LOG_B, "over the other": LOG_B, "at each position": other}.get(background)
    log_b = {"none": torch.zeros(V).double(), "at each position": other}.get(background, LOG_B)
    log_p, p = log_softmax(layer, h, log_b), layer(h, given)
    wanted = log_p.gather(-1, targets[..., None])[..., 0]
    same(layer.log_prob(h, targets, given), wanted)
    same(layer.loss(h, targets, given), -wanted.mean())
    same(p.log_prob(targets), wanted)
    same(p.log_probs(), log_p)
    same(p.log_z, torch.logsumexp(logits(layer, h, log_b), -1))
    same(p.entropy(), -(log_p.exp() * log_p).sum(-1))
    same(p.expected_features(), log_p.exp() @ PHI)
    cold = torch.log_softmax(logits(layer, h, log_b) / 0.5, -1)
    same(p.tempered(0.5).log_probs(), cold)
    best, at = p.top(4)
    same(best, log_p.topk(4, -1).values)
    same(log_p.gather(-1, at), best)
    assert p.sample((3,)).shape == (3, *shape)
    assert isinstance(p, torch.distributions.Distribution)
    assert p.batch_shape == p.sample().shape == shape


def test_samples_are_as_frequent_as_p_says() -> None:
    layer, h = made(background=LOG_B), drawn(2, 2, H)
    found = layer(h).sample((20_000,), generator=torch.Generator().manual_seed(1))
    often = F.one_hot(found, V).double().mean(0)
    p = log_softmax(layer, h, LOG_B).exp()
    assert bool(((often - p).abs() < 5.0 * (p * (1.0 - p) / 20_000).sqrt() + 1e-9).all())


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 40)])
@pytest.mark.parametrize("ignored", [-100, 0, V + 5])
@pytest.mark.parametrize("by_position", [False, True])
def test_the_loss_and_its_gradients_are_those_of_cross_entropy(
    shape: tuple[int, ...], ignored: int, by_position: bool
) -> None:
    h, other, log_b = drawn(*shape, H).requires_grad_(), drawn(*shape, H).requires_grad_(), LOG_B
    targets = words(*shape).clamp(min=1).index_fill(-1, torch.tensor([1]), ignored)
    log_b = drawn(*shape, V, seed=5) if by_position else LOG_B
    layer = made()
    layer.loss(h, targets, log_b, ignore_index=ignored).backward()  # type: ignore[no-untyped-call]
    found = [h.grad, layer.weight.grad, layer.bias.grad]
    layer.zero_grad()
    dense = logits(layer, other, log_b)
    wanted = F.cross_entropy(dense.reshape(-1, V), targets.reshape(-1), ignore_index=ignored)
    wanted.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(layer.loss(h, targets, log_b, ignore_index=ignored), wanted, rtol=0.0, atol=1e-12)
    torch.testing.assert_close(found, [other.grad, layer.weight.grad, layer.bias.grad], rtol=0.0, atol=1e-12)


def test_contextual_features_in_any_shape() -> None:
    layer, h, targets = made(contextual=1), drawn(2, 3, H), words(2, 3)
    with torch.no_grad():
        layer.context_weight.copy_(drawn(1, H, seed=6))
    where = ContextValues(torch.zeros(6, 1).double(), torch.arange(6), targets.view(-1), torch.ones(6, 1).double())
    offset_logits = F.one_hot(targets, V) * (h @ layer.context_weight[0] + layer.context_bias)[..., None]
    dense = torch.log_softmax(logits(layer, h) + offset_logits, -1)
    torch.testing.assert_close(layer(h, values=[where]).log_probs(), dense)
    wanted = F.cross_entropy(dense.view(-1, V), targets.view(-1))
    torch.testing.assert_close(layer.loss(h, targets, values=[where]), wanted)


# --- features, and first weights -------------------------------------------------------------------------------------


class OfScipy:
    """As much of a scipy matrix as is looked at, with an explicit zero."""

    def __init__(self) -> None:
        row, self.indices = np.nonzero(PHI.numpy())
        self.data, self.shape = PHI.numpy()[row, self.indices], PHI.shape
        self.indptr = np.searchsorted(row, np.arange(V + 1))

    def tocsr(self) -> OfScipy:
        return self

    copy = tocsr

    def sum_duplicates(self) -> None:
        pass


FORMS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: PHI,
    "array": PHI.numpy,
    "lists": PHI.tolist,
    "coo": PHI.to_sparse,
    "csr": PHI.to_sparse_csr,
    "scipy": OfScipy,
    "matrix": lambda: FeatureMatrix.of(PHI, names=[f"f{j}" for j in range(M)]),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("form", FORMS)
def test_features_in_every_form_are_the_same(form: str) -> None:
    layer, h = made(FORMS[form]()), drawn(4, H)
    assert layer.phi.n_classes == len({*map(tuple, PHI.tolist())}) == 12
    torch.testing.assert_close(layer(h).log_probs(), log_softmax(layer, h))


def test_the_unit_matrix_is_the_softmax_of_torch() -> None:
    """The same numbers from the same seed: scores begin as those of nn.Linear."""
    torch.manual_seed(4)
    linear, ours = nn.Linear(H, V), made(torch.eye(V), torch.float32)
    assert ours.phi.is_identity
    torch.testing.assert_close([ours.weight, ours.bias], [linear.weight, linear.bias])
    h = drawn(3, 5, H, dtype=torch.float32)
    torch.testing.assert_close(ours(h).log_probs(), torch.log_softmax(linear(h), -1))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_scores_begin_as_large_whatever_the_features(scale: float) -> None:
    phi, h = drawn(400, 50) * scale, drawn(200, 64)
    torch.manual_seed(0)
    ours, usual = LogLinear(phi, 64).double(), nn.Linear(64, 400).double()
    with torch.no_grad():
        size = logits(ours, h, phi=phi).std() / usual(h).std()
    assert 0.7 < size.item() < 1.4


def test_zero_begins_as_the_background_and_a_reset_draws_anew() -> None:
    layer, h = made(background=LOG_B, zero=True), drawn(4, H)
    torch.testing.assert_close(layer(h).log_probs(), torch.log_softmax(LOG_B, 0).expand(4, V))
    drawn_one, before = made(), made().weight.clone()
    drawn_one.reset_parameters()
    assert not torch.equal(drawn_one.weight, before)


# --- as a citizen of torch -------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A body of the user's own under the layer."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding, self.body = nn.Embedding(V, H), nn.Linear(H, H)
        self.layer = LogLinear(PHI, H, **given)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.layer.loss(torch.tanh(self.body(self.embedding(inputs))), targets)


def trained(net: nn.Module, call: Callable[[Tensor, Tensor], Tensor], rows: slice = slice(None)) -> list[Tensor]:
    """The loss and all gradients of a batch."""
    net.zero_grad()
    inputs, targets = words(8, 20), words(8, 20).flip(0)
    loss = call(inputs[rows], targets[rows])
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]


@pytest.mark.filterwarnings("ignore")  # of torch's own compiler
def test_compiled_it_has_the_same_numbers_and_breaks_the_graph_once() -> None:
    """The body is one graph; the layer runs as it does without `compile`, also when weights have changed."""
    graphs = list[Any]()

    def backend(graph: Any, samples: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    net = Net()
    compiled = torch.compile(net, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(trained(net, compiled), trained(net, net), rtol=1e-5, atol=1e-7)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.1)
    assert len(graphs) == 1
    h = drawn(3, H, dtype=torch.float32)
    asked = torch.compile(lambda h: (net.layer(h).log_prob(words(3)), net.layer(h).log_z), backend=backend)
    torch.testing.assert_close(asked(h), (net.layer(h).log_prob(words(3)), net.layer(h).log_z))


@pytest.mark.parametrize("n", [3, 300])
@pytest.mark.parametrize("by_position", [False, True])
def test_under_autocast_sums_keep_their_digits(n: int, by_position: bool) -> None:
    """However the body computes: given its h, log p is that of float32."""
    layer = made(dtype=torch.float32)
    log_b = drawn(n, V, seed=5) if by_position else LOG_B
    with torch.autocast("cpu", torch.bfloat16):
        h = nn.Linear(H, H)(drawn(n, H, dtype=torch.float32)) * 4.0
        assert h.dtype == torch.bfloat16
        found, loss = layer.log_prob(h, words(n), log_b), layer.loss(h, words(n), log_b)
        rest = layer(h, log_b).log_probs(), layer(h, log_b).entropy(), layer(h, log_b).top(3)[0]
    loss.backward()  # type: ignore[no-untyped-call]
    assert found.dtype == torch.float32
    log_p = log_softmax(layer, h, log_b)
    torch.testing.assert_close(found.double(), log_p[torch.arange(n), words(n)], rtol=0.0, atol=1e-4)
    torch.testing.assert_close(loss.double(), -log_p[torch.arange(n), words(n)].mean(), rtol=0.0, atol=1e-4)
    wanted = log_p, -(log_p.exp() * log_p).sum(-1), log_p.topk(3).values
    for one, other in zip(rest, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0.0, atol=1e-4)
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_of_every_type(dtype: torch.dtype) -> None:
    """Half precision is that of the weights, not of the sums."""
    layer, h = made(dtype=dtype), drawn(20, H, dtype=dtype)
    loss = layer.loss(h, words(20))
    assert loss.dtype == torch.promote_types(dtype, torch.float32)
    wanted = -log_softmax(layer, h)[torch.arange(20), words(20)].mean()
    torch.testing.assert_close(loss.double(), wanted, rtol=0.0, atol=1e-10 if dtype == torch.float64 else 1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == dtype


HALVES = {  # autocast, the types of h and of the weights, precision -> whether the loss is in half precision
    "float32": (False, torch.float32, torch.float32, "auto", False),
    "autocast": (True, torch.float32, torch.float32, "auto", True),
    "h": (False, torch.bfloat16, torch.float32, "auto", True),
    "weights": (False, torch.float32, torch.float16, "auto", True),
    "float64 under autocast": (True, torch.float64, torch.float64, "auto", False),
    "asked for": (False, torch.float32, torch.float32, "half", True),
    "refused": (True, torch.bfloat16, torch.bfloat16, "full", False),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("logit_offsets", [False, True])
def test_the_loss_is_in_half_precision_where_the_program_is(
    name: str, logit_offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, by the reference of its kernels: near the loss in full precision, with its gradients."""
    autocast, of_h, of_weights, precision, half = HALVES[name]
    layer = made(dtype=of_weights, contextual=int(logit_offsets), background=LOG_B)
    nn.init.constant_(layer.context_bias, 0.5)
    listed = ContextValues(torch.zeros(1, 1), torch.arange(40), words(40), torch.ones(40, 1), filled=True)
    targets = words(40) if logit_offsets else words(40).index_fill(0, torch.tensor([3]), -100)
    h, plans = drawn(40, H, dtype=of_h).requires_grad_(), list[chunked.Plan]()

    def planned(*given: Any, **options: Any) -> chunked.Plan:
        plans.append(chunked.plan_for(*given, **options))
        return plans[-1]

    def found(precision: Any) -> tuple[Tensor, ...]:
        loss = layer.loss(h, targets, values=[listed] if logit_offsets else [], precision=precision)
        return loss.detach(), *torch.autograd.grad(loss, [h, layer.weight])

    full = found("full")
    monkeypatch.setattr(weights, "plan_for", planned)
    monkeypatch.setattr(loglinear, "why_no_half", lambda p: None)  # else it is the CPU
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        taken = found(precision)
    assert (torch.float16 in {plan.logits for plan in plans}) == half
    for one, other in zip(taken, full, strict=True):
        assert one.dtype == other.dtype
        assert float((one - other).norm() / other.norm()) < (0.01 if half else 1e-5)


def by_bytes(layer: LogLinear) -> LogLinear:
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    found = torch.load(stream, weights_only=False)
    assert isinstance(found, LogLinear)
    return found


COPIES: dict[str, Callable[[LogLinear], LogLinear]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),  # noqa: S301
    "torch.save": by_bytes,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(
    "background",
    [
        LOG_B,
        None,
        DensePrior(LOG_B[None]),
        SparsePrior.listed(Table(LOG_B), [{3: 1.0, 5: float("-inf")}] * 4),
    ],
    ids=["static", "none", "dense", "listed"],
)
def test_a_copy_says_the_same_and_has_caches_of_its_own(way: str, background: Any) -> None:
    layer, h = made(background=background), drawn(4, H)
    with torch.no_grad():
        before = layer(h).log_probs()
        layer.log_prob(h, words(4))
        again = COPIES[way](layer)
        assert again._kept.few._kept is None
        assert len(again.classes.masses) == len(again.phi._rows._cast) == 0
        assert torch.equal(again(h).log_probs(), before)
        again.weight.add_(1.0)
        assert torch.equal(layer(h).log_probs(), before)
        assert not torch.allclose(again(h).log_probs(), before)


def test_a_copied_background_stays_the_quick_one() -> None:
    again = COPIES["pickle"](made(background=LOG_B)).background
    assert again is again.tables[0].everywhere()


def test_weights_come_back_by_their_state_dict() -> None:
    layer, other, stream = made(), made(zero=True), io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    with torch.no_grad():
        other(drawn(2, H)).log_probs()  # caches zeros
        other.load_state_dict(torch.load(stream, weights_only=True))
        assert torch.equal(other(drawn(2, H)).log_probs(), layer(drawn(2, H)).log_probs())
    assert {*layer.state_dict()} == {"weight", "bias", "context_weight", "context_bias"}


def test_weights_tied_to_an_embedding_and_parametrized() -> None:
    eye, h = torch.eye(V), drawn(5, H, dtype=torch.float32)
    layer, embedding = made(eye, torch.float32), nn.Embedding(V, H)
    layer.weight = embedding.weight
    layer.loss(embedding(words(5)), words(5)).backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is embedding.weight.grad
    parametrizations.weight_norm(layer)
    (own,) = layer.parametrizations.values()  # type: ignore[operator]
    with torch.no_grad():
        for _ in range(2):
            wanted = torch.log_softmax(h @ layer.weight.t() + layer.bias, -1)
            torch.testing.assert_close(layer(h).log_probs(), wanted)
            own.original0.mul_(2.0)
    layer.loss(h, words(5)).backward()  # type: ignore[no-untyped-call]
    assert own.original1.grad is not None
    wanted = F.cross_entropy(h @ layer.half().weight.float().t() + layer.bias, words(5))
    torch.testing.assert_close(layer.loss(h, words(5)), wanted)


def _work(rank: int, store: str, answers: multiprocessing.Queue[list[list[float]]]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
    net = Net()
    ddp = nn.parallel.DistributedDataParallel(net)
    for _ in range(2):  # what waits for a gradient that does not come says so in the second step
        found = trained(net, ddp, slice(4 * rank, 4 * rank + 4))
    answers.put([gradient.flatten().tolist() for gradient in found[1:]])
    torch.distributed.destroy_process_group()


def test_two_processes_have_the_gradients_of_one(tmp_path: Any) -> None:
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    args = str(tmp_path / "store"), answers
    processes = [context.Process(target=_work, args=(rank, *args)) for rank in range(2)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=HANG) for _ in processes]
    for process in processes:
        process.join()
    net = Net()
    wanted = trained(net, net)[1:]
    assert found[0] == found[1]
    for one, other in zip(found[0], wanted, strict=True):
        torch.testing.assert_close(torch.tensor(one), other.flatten(), rtol=1e-4, atol=1e-7)


# --- what does not fit ----------------------------------------------------------------------------------------------


def no_target() -> None:
    made().loss(drawn(2, 3, H), torch.full((2, 3), -100))


WRONG: dict[str, tuple[type[LLRNNError], str, Callable[[], object]]] = {
    "another H": (
        InputError,
        r"h of shape \(…, 7\).*found torch.float64 of shape \(2, 8\)",
        lambda: made()(drawn(2, 8)),
    ),
    "no dimension": (InputError, r"of shape \(\)", lambda: made()(torch.tensor(1.0))),
    "integers": (InputError, "floating point; found torch.int64", lambda: made()(torch.ones(2, H).long())),
    "another type": (InputError, "torch.float64 and h is torch.float32", lambda: made()(torch.ones(2, H))),
    "a target too large": (
        InputError,
        "numbered 0 to 59, found 60; give ignore_index=60",
        lambda: made().loss(drawn(1, H), torch.tensor([V])),
    ),
    "a word below 0": (InputError, "found -1", lambda: made().log_prob(drawn(1, H), torch.tensor([-1]))),
    "targets of another shape": (
        InputError,
        r"integers of shape \(2, 3\); found torch.int64 of shape \(6,\)",
        lambda: made().loss(drawn(2, 3, H), words(6)),
    ),
    "targets that are no words": (InputError, "integers", lambda: made().loss(drawn(2, H), torch.ones(2))),
    "ignored everywhere": (InputError, "no target is left of 6: all are ignore_index=-100", no_target),
    "no target": (InputError, "no target is left of 0", lambda: made().loss(drawn(0, H), words(0))),
    "a precision": (
        ConfigError,
        "precision is one of auto, full, half; found 'fp16'",
        lambda: made().loss(drawn(1, H), words(1), precision="fp16"),  # type: ignore[arg-type]
    ),
    "half precision on a CPU": (
        ConfigError,
        "for a GPU, .* found a model on the CPU; leave precision out",
        lambda: made().loss(drawn(1, H), words(1), precision="half"),
    ),
    "a background of another V": (
        BackgroundError,
        "log b of 61 words, the features are of 60",
        lambda: made(background=torch.zeros(V + 1)),
    ),
    "... at the call": (BackgroundError, "log b of 3 words", lambda: made()(drawn(2, H), torch.zeros(3))),
    "of other positions": (
        BackgroundError,
        "of 3 positions, h has 2",
        lambda: made()(drawn(2, H), torch.zeros(3, V)),
    ),
    "a background that learns": (
        BackgroundError,
        "with gradient: .detach",
        lambda: made(background=torch.zeros(V, requires_grad=True)),
    ),
    "no background": (BackgroundError, "NaN", lambda: made(background=torch.full((V,), torch.nan))),
    "no contextual values": (InputError, "values of 2 contextual", lambda: made(contextual=2)(drawn(2, H))),
    "features of words in a row": (
        FeatureError,
        r"\(V, m\), found an array of shape \(60,\)",
        lambda: made(np.ones(V)),
    ),
    "sparse features of three": (FeatureError, r"\(V, m\)", lambda: made(torch.ones(2, 2, 2).to_sparse())),
    "no matrix": (FeatureError, "compile_features", lambda: made(llrnn.features.Identity())),
    "a model's background": (
        BackgroundError,
        "a tensor of log b",
        lambda: made(background=llrnn.backgrounds.Uniform()),
    ),
    "no features": (FeatureError, "one feature", lambda: made(torch.ones(V, 0))),
    "names": (FeatureError, "found 1 names for a matrix of 60 words by 9", lambda: FeatureMatrix.of(PHI, ["a"])),
    "a feature that is no number": (
        FeatureError,
        "on word 2",
        lambda: made(PHI.index_fill(0, torch.tensor([2]), torch.inf)),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_gets_one_line(name: str) -> None:
    error, message, call = WRONG[name]
    with pytest.raises(error, match=message) as found:
        call()
    assert "\n" not in str(found.value)


def test_it_is_a_public_name() -> None:
    assert llrnn.LogLinear is LogLinear


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("autocast", [False, True])
def test_on_a_gpu(autocast: bool) -> None:
    layer, h = made(dtype=torch.float32, background=LOG_B).cuda(), drawn(2, 40, H, dtype=torch.float32).cuda()
    targets = words(2, 40).index_fill(1, torch.tensor([3]), -100).cuda()
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        loss = layer.loss(h, targets)
    dense = torch.log_softmax(logits(copy.deepcopy(layer).cpu(), h.cpu(), LOG_B), -1)
    wanted = F.cross_entropy(dense.reshape(-1, V), targets.cpu().view(-1))
    torch.testing.assert_close(loss.double().cpu(), wanted, rtol=0.0, atol=2e-3 if autocast else 1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert layer(h).sample().shape == (2, 40)
