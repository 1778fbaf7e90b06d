"""The laws that every piece of knowledge and every controller obeys, as checks that users run on their own classes.

    check_features(phi, vocabulary)          deterministic; finite; the compiled matrix says what the function says
    check_background(b, vocabulary)          deterministic; states are values; batched = one by one; no NaN; Σp = 1
    check_contextual(feature, vocabulary)    likewise, for feature values
    check_contextual_input(v, vocabulary)    likewise, for inputs of the network; scan = steps; no look-ahead
    check_controller(controller)             sizes; no look-ahead; scan = steps; rows = one by one
    check_domain(domain)                     draws are in their cell and as frequent as q; members sum to Q; it is saved
    check_tokeniser(tokeniser, sentences)    text -> words -> text -> words changes nothing; it is saved

A broken law is a `LawError` that says which law, with a witness. Each check draws its own prefixes from `seed`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import LawError, LLRNNError
from llrnn.ground.files import parse_json
from llrnn.knowledge.backgrounds.base import Background, Uniform
from llrnn.knowledge.contextual.base import ContextualFeature, LinearFeature
from llrnn.knowledge.contextual.inputs import ContextualInput
from llrnn.knowledge.features import Features, Function, compile_features
from llrnn.knowledge.process import Batch, ModelState, Process, State
from llrnn.languages.domains import restore
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, FullPrior, Prior
from llrnn.model.controllers import Controller
from llrnn.text.automata import check_string
from llrnn.text.tokenisers import JOINER, Tokeniser
from llrnn.text.tokenisers import restore as restore_tokeniser
from llrnn.text.vocabulary import Domain, Vocabulary, check

__all__ = [
    "check_background", "check_contextual", "check_contextual_input", "check_controller", "check_domain",
    "check_features", "check_tokeniser",
]  # fmt: skip


Answer = TypeVar("Answer")
_ALONE = 5  # strings of a cell that are also located one by one


def check_features(features: Features, vocabulary: Vocabulary) -> None:
    """Check that features give the same finite values each time, also as a compiled matrix; raise LawError otherwise.

    Every word of the vocabulary is tried.

        check_features(Identity(top=100) + MyFeatures(), vocabulary)
    """
    with _as_law():
        fitted = features.fitted(vocabulary)
        first, second = compile_features(features, vocabulary), compile_features(features, vocabulary)
    for index, symbol in enumerate(vocabulary):
        said = {name: value for name, value in fitted(symbol).items() if value != 0}
        _require(said == first.row(index), f"compiled = called, on {symbol!r}: {first.row(index)} and {said}")
        _require(first.row(index) == second.row(index), f"deterministic, on {symbol!r}")


class Drawing(TypedDict, total=False):
    """Keyword arguments of checks that draw random prefixes of texts: how many, how long, and given what.

    `prefixes`: how many, 8 by default; `length`: of each, in words, 6 by default; `conditions`: given to them in turn,
    [None] by default; a condition is the input that a text is written from, or None.
    """

    conditions: Sequence[object]
    prefixes: int
    length: int


def check_background(background: Background, vocabulary: Vocabulary, **drawn: Unpack[Drawing]) -> None:
    """Check the laws of a background, a prior b(K, x) over the next word, on random prefixes; raise LawError otherwise.

    The laws: equal arguments give equal results; states are not changed by use; a batch of states gives what they give
    one by one; log b is below infinity and not NaN; a log-linear layer with this prior gives probabilities with sum 1.
    `drawn`: how many prefixes are drawn, how long, and with which conditions (`Drawing`).

        check_background(NoStutter(), vocabulary)
    """
    with _as_law():
        bound = background.bind(vocabulary)
        states, prior = _asked(bound, bound.prior, "prior", vocabulary, _Drawn(**drawn))
        # a network that computes in float32 rounds a batch otherwise than a single row
        rounding = 1e-5 if isinstance(prior, FullPrior) and prior.log_b.dtype == torch.float32 else 1e-9
        whole = prior.dense(len(states)).log_b.double()
        _require(whole.shape == (len(states), len(vocabulary)), f"a value for each of {len(vocabulary)} symbols")
        _require(not torch.isnan(whole).any(), "log b is a number, found NaN")
        _require(not (whole == float("inf")).any(), "log b is below infinity")
        _check_batches(states, whole, lambda some: bound.prior(some).dense(len(some)).log_b.double(), rounding)
        _check_sums(prior, [], vocabulary, len(states), whole)


class _Drawn(NamedTuple):
    """How the random prefixes on which a law is tested are drawn: `Drawing`, with its defaults."""

    conditions: Sequence[object] = (None,)
    prefixes: int = 8
    length: int = 6


def _asked(
    process: Process, answer: Callable[[list[State]], Answer], name: str, vocabulary: Vocabulary, drawn: _Drawn
) -> tuple[list[State], Answer]:
    """Return all states that `process` has along random prefixes, and the result of `answer` on the list of them.

    There are prefixes × length states, prefix by prefix, each before one of the random words. `answer`: a method of the
    process from a list of states to its result, whose name for messages is `name`; `drawn`: how prefixes are drawn.
    Raises LawError if `advance` is not deterministic, or if `advance` or `answer` change the states they are given.
    """
    draw, states = random.Random(0), list[State]()
    for number in range(drawn.prefixes):
        state = process.advance(process.initial(drawn.conditions[number % len(drawn.conditions)]), vocabulary.eos)
        for _ in range(drawn.length):
            before, symbol = copy.deepcopy(state), draw.randrange(len(vocabulary))
            after = process.advance(state, symbol)
            _require(_same(state, before), f"states are values: advance changed {before!r} into {state!r}")
            again = process.advance(state, symbol)
            _require(_same(after, again), f"deterministic: advance made {after!r} and then {again!r} of {before!r}")
            states.append(state)
            state = after
    kept, found = copy.deepcopy(states), answer(states)
    _require(_same(states, kept), f"states are values: {name} changed the states that it was given")
    return states, found


def _check_batches(
    states: list[State], whole: Tensor, answer: Callable[[list[State]], Tensor], rounding: float = 0.0
) -> None:
    """Raise LawError unless `answer(states)` equals `whole`, and row n of it equals `answer([states[n]])[0]`.

    Rows are compared within `rounding` (and 1e-5 of the value); exactly if it is 0.
    """
    _require(bool(torch.equal(whole, answer(states))), "deterministic: same states, same answer")
    for n, state in enumerate(states):
        same = torch.allclose(whole[n], answer([state])[0], rtol=0.0 if rounding == 0 else 1e-5, atol=rounding)
        _require(same, f"batched = one by one, at position {n}")


def check_contextual(feature: ContextualFeature, vocabulary: Vocabulary, **drawn: Unpack[Drawing]) -> None:
    """Check the laws of a contextual feature, one that depends on the text before; raise LawError otherwise.

    The laws: equal arguments give equal results; states are not changed by use; values are finite, and on words of the
    vocabulary; a batch of states gives what they give one by one; a log-linear layer with this feature gives
    probabilities with sum 1.
    `drawn`: how many prefixes are drawn, how long, and with which conditions (`Drawing`).

        check_contextual(YearDue(), vocabulary)
    """
    with _as_law():
        bound = feature.bind(vocabulary)
        how = _Drawn(**drawn)
        if isinstance(bound, LinearFeature):
            _check_linear(bound, vocabulary, how)
            _check_scan(bound, bound.slopes, vocabulary, how)
            return
        states, values = _asked(bound, bound.values, "values", vocabulary, how)
        listed = bool(((values.word >= 0) & (values.word < len(vocabulary))).all())
        _require(listed, f"words are numbered 0 to {len(vocabulary) - 1}, found {values.word.tolist()}")
        whole = _dense_values(values, len(vocabulary))
        _require(bool(torch.isfinite(whole).all()), "feature values are finite")
        _check_batches(states, whole, lambda some: _dense_values(bound.values(some), len(vocabulary)))
        uniform = Uniform().bind(vocabulary).prior([])
        _check_sums(uniform, [values], vocabulary, len(states), uniform.dense(len(states)).log_b)


def check_contextual_input(given: ContextualInput, vocabulary: Vocabulary, **drawn: Unpack[Drawing]) -> None:
    """Check the laws of a contextual input, numbers that the network reads beside each word; raise LawError otherwise.

    The laws: equal arguments give equal results; states are not changed by use; numbers are finite, and as many as
    names; a batch gives what its symbols give one by one; numbers do not depend on later symbols.
    `drawn`: how many prefixes are drawn, how long, and with which conditions (`Drawing`).

        check_contextual_input(SlotProgress("name", "area"), vocabulary, conditions=conditions)
    """
    with _as_law():
        bound = given.bind(vocabulary)
        width = len(bound.names)
        _require(width > 0 and len({*bound.names}) == width, f"a name for each number, each once: {bound.names[:5]}")
        how = _Drawn(**drawn)
        states, numbers = _asked(bound, bound.numbers, "numbers", vocabulary, how)
        _require(numbers.shape == (len(states), width), f"{width} numbers for each state, found {tuple(numbers.shape)}")
        _require(bool(torch.isfinite(numbers).all()), "the numbers are finite")
        _check_batches(states, numbers, bound.numbers, 1e-6)
        _check_scan(bound, bound.numbers, vocabulary, how)


def _check_linear(bound: LinearFeature, vocabulary: Vocabulary, drawn: _Drawn) -> None:
    """Raise LawError unless a layer with a linear contextual feature gives the log p that a sum over all words gives.

    Such a feature is linear in static features of words, with coefficients (slopes) that depend on the context.
    `bound`: the feature, bound to the vocabulary; `drawn`: how random prefixes are drawn. Its slopes must also have the
    right shape and be finite, and those of a batch of states equal those of single states.
    """
    _require(bound.static is not None, "static features are named: `static` must say what the columns are")
    assert bound.static is not None
    phi = compile_features(bound.static, vocabulary)
    states, values = _asked(bound, bound.on(phi).values, "values", vocabulary, drawn)
    k, J = len(bound.names), len(bound.columns)
    found = bound.slopes(states)
    _require(found.shape == (len(states), k, J), f"slopes of {k} features by {J} columns, found {tuple(found.shape)}")
    _require(bool(torch.isfinite(found).all()), "slopes are finite")
    _check_batches(states, found, bound.slopes, 1e-6)
    static = torch.zeros(len(vocabulary), phi.n_features, dtype=torch.float64)
    for n in range(len(vocabulary)):
        for name, value in phi.row(n).items():
            static[n, phi.column_of[name]] = value
    layer, h = _random_layer(phi, k, len(states))
    with torch.no_grad():
        layer.context_weight *= float(not bound.context_independent)
        dense = torch.einsum("nkj,vj->nvk", values.slope.double(), static[:, list(values.columns)])
        own = layer.weights()
        wanted = own.adaptor(h) @ static.t() + torch.einsum("nk,nvk->nv", own.context_adaptor(h), dense)
        p = layer(h, Uniform().bind(vocabulary).prior([]), [values])
        error = float((p.log_probs() - torch.log_softmax(wanted, 1)).abs().max())
    _require(error < 1e-9, f"sparse = dense: log p is off by {error:.1e}")


def _random_layer(phi: FeatureMatrix, k: int, n: int) -> tuple[LogLinear, Tensor]:
    """Return a float64 layer over `phi` and k contextual features with random weights, and hidden vectors (n, 4)."""
    layer, generator = LogLinear(phi, 4, k).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layer, torch.randn(n, 4, generator=generator, dtype=torch.float64)


def _check_scan(
    bound: Process, said: Callable[[Sequence[State]], Tensor], vocabulary: Vocabulary, drawn: _Drawn
) -> None:
    """Raise LawError unless numbers are the same for a batch as step by step, and do not depend on later symbols.

    `bound`: the process whose states follow the text, bound to the vocabulary; `said`: a function from N states to
    numbers (N, k); `drawn`: how random texts are drawn.
    """
    conditions, rows, length = drawn
    inputs = torch.randint(len(vocabulary), (rows, length), generator=torch.Generator().manual_seed(0))
    inputs[::2, 0] = vocabulary.eos  # the beginning of a sentence, and the middle of another
    begun = [bound.initial(conditions[row % len(conditions)]) for row in range(rows)]

    def scanned(symbols: Tensor) -> Tensor:
        batch = Batch(symbols, symbols, torch.ones_like(symbols, dtype=torch.bool))
        return said(bound.follow(begun, batch)[0]).view(rows, length, -1)

    whole = scanned(inputs)
    stepped = said(list(chain.from_iterable(bound.scan(begun, inputs.tolist())))).view(rows * length, -1)
    same = torch.allclose(whole.reshape(rows * length, -1), stepped, rtol=1e-5, atol=1e-6)
    _require(same, "scan = steps: a batch says something else than its symbols one by one")
    for t in range(length - 1):
        later = inputs.clone()
        later[:, t + 1 :] = (later[:, t + 1 :] + 1) % len(vocabulary)
        same = torch.allclose(scanned(later)[:, : t + 1], whole[:, : t + 1], rtol=1e-5, atol=1e-6)
        _require(same, f"no look-ahead: the numbers at positions up to {t} change with the symbols after it")


def check_domain(domain: Domain, *, draws: int = 300, seed: int = 0, saved: bool = True, members: bool = True) -> None:
    """Check the laws of a domain, a possibly infinite set of strings with probabilities q; raise LawError otherwise.

    Strings that share one symbol are a cell; `draws` of them are drawn from every cell with `seed`: each must be
    located in its cell, and drawn about as often as q says. `saved`: check also that the domain survives being saved
    and loaded; `members`: also that all strings of a finite cell sum to the probability of the cell.

        check_domain(MyDomain())
    """
    with _as_law():
        check(domain)
        kept = restore(*domain.described()) if saved else domain
        _require(kept.cells == domain.cells, f"saved = restored, on the cells of {domain.name!r}")
        _require(_close(kept.log_mass, domain.log_mass), f"saved = restored, on the masses of {domain.name!r}")
        for cell, log_mass in enumerate(domain.log_mass.tolist()):
            if log_mass > -np.inf:
                _check_cell(domain, kept, cell, draws, seed)
                _check_members(domain, cell, domain.members(cell) if members else None)
            else:
                _require(not _heavy_members(domain, cell), f"no string has mass in {domain.cells[cell].name!r}")
        outside = ["", "\n", "a\n", "\ud800", " a", "a "]
        located, log_q = domain.locate(outside)
        _require(
            bool((located < 0).all() and (log_q == -np.inf).all()), "what can be no symbol is outside, without mass"
        )


def _check_cell(domain: Domain, kept: Domain, cell: int, draws: int, seed: int) -> None:
    name, log_mass = domain.cells[cell].name, float(domain.log_mass[cell])
    drawn = domain.draw(cell, draws, np.random.default_rng(seed))
    _require(len(drawn) == draws, f"as many strings as asked for, on {name!r}: {len(drawn)} and {draws}")
    _require(drawn == domain.draw(cell, draws, np.random.default_rng(seed)), f"deterministic: draws of {name!r}")
    counts = Counter(drawn)
    strings = list(counts)
    located, log_q = domain.locate(strings)
    again, log_again = kept.locate(strings)
    _require(bool((again == located).all()) and _close(log_q, log_again), f"saved = restored, on strings of {name!r}")
    for string, found, log in zip(strings, located.tolist(), log_q.tolist(), strict=True):
        _require(check_string(string) is None, f"{string!r} of {name!r} is a symbol: {check_string(string)}")
        _require(found == cell, f"{string!r} is drawn from {name!r} and located there, found cell {found}")
        _require(-np.inf < log <= log_mass + 1e-9, f"0 < q ≤ Q, on {string!r} of {name!r}: {log} and {log_mass}")
        _require(domain.language.label(string) >= 0, f"the language holds {string!r} of {name!r}")
        p = min(np.exp(log - log_mass), 1.0)
        expected, spread = draws * p, np.sqrt(draws * p * (1 - p))
        off = abs(counts[string] - expected)  # seven standard deviations, and the few draws that rare strings need
        _require(off <= 7 * spread + 7, f"draws ∝ q, on {string!r} of {name!r}: {counts[string]} for {expected:.1f}")
    for string, found, log in zip(strings[:_ALONE], located.tolist(), log_q.tolist(), strict=False):
        alone, log_alone = domain.locate([string])
        same = int(alone[0]) == found and abs(float(log_alone[0]) - log) < 1e-9
        _require(same, f"batched = one by one, on {string!r} of {name!r}")
    held = float(np.exp(log_q - log_mass).sum())
    _require(held <= 1 + 1e-9, f"Σq ≤ Q, on {name!r}: different strings hold {held} of it")


def _check_members(domain: Domain, cell: int, members: Sequence[str] | None) -> None:
    if members is None:
        return
    name, log_mass = domain.cells[cell].name, float(domain.log_mass[cell])
    located, log_q = domain.locate(members)
    whole = float(np.logaddexp.reduce(log_q))
    _require(bool((located[log_q > -np.inf] == cell).all()), f"members are located in their cell, on {name!r}")
    _require(len(set(members)) == len(members), f"members are distinct, on {name!r}")
    _require(abs(whole - log_mass) < 1e-9, f"members sum to Q, on {name!r}: log {whole} and {log_mass}")


def _heavy_members(domain: Domain, cell: int) -> bool:
    members = domain.members(cell)
    return bool(members) and bool((domain.locate(list(members or ()))[1] > -np.inf).any())


def _close(left: np.ndarray, right: np.ndarray) -> bool:
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=0, atol=1e-9))


def _require(condition: bool, law: str) -> None:
    if not condition:
        raise LawError(f"law broken: {law}")


@contextlib.contextmanager
def _as_law() -> Iterator[None]:
    """Context manager that turns an LLRNNError raised within it, such as one for a NaN, into a LawError."""
    try:
        yield
    except LawError:
        raise
    except LLRNNError as error:
        raise LawError(f"law broken: {error}") from error


def _same(left: object, right: object) -> bool:
    """Return whether two states are equal: of one type, with equal parts.

    Lists, tuples, mappings, arrays, tensors (where NaN equals NaN) and attributes of objects are compared part by part,
    anything else by `==`.
    """
    if left is right:  # what says that it is its own copy, as a node of a grammar does
        return True
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and bool(torch.allclose(left, right, rtol=0, atol=0, equal_nan=True))
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if hasattr(left, "__dict__") and not callable(left):
        return _same(vars(left), vars(right))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right)
    return bool(left == right)


def _dense_values(values: ContextValues, n_symbols: int) -> Tensor:
    n = len(values.rest)
    position = torch.arange(n).repeat_interleave(n_symbols)
    word = torch.arange(n_symbols).repeat(n)
    return values.at(position, word, n_symbols).view(n, n_symbols, -1)


def _check_sums(prior: Prior, values: list[ContextValues], vocabulary: Vocabulary, n: int, log_b: Tensor) -> None:
    """Raise LawError unless probabilities by a layer with random weights sum to one (within 1e-9) at each position.

    Sums are only checked where every position has a word with b > 0. Also raised unless the normaliser Z is 0 at
    exactly the positions where all b are 0. `prior`: a prior at n positions, with values `log_b` (n, V); `values`: the
    values of contextual features there.
    """
    phi = compile_features(Function(lambda symbol: {f"length {len(symbol) % 3}": 1.0}), vocabulary)
    layer, h = _random_layer(phi, sum(part.width for part in values), n)
    with torch.no_grad():
        possible = (log_b > float("-inf")).any(1)
        distribution = layer(h, prior, values)
        _require(bool((possible == (distribution.log_z > float("-inf"))).all()), "Z is 0 only where all b is 0")
        if possible.all():
            error = float((distribution.log_probs().exp().sum(1) - 1).abs().max())
            _require(error < 1e-9, f"Σp = 1, off by {error:.1e}")


def check_controller(controller: Controller, *, conditions: Sequence[object] = (None, None), seed: int = 0) -> None:
    """Check the laws of a controller, a network from words to hidden vectors, on a copy in float64 without dropout.

    The laws: results have the shapes that `hidden` and `state_size` say; h does not depend on later inputs; a scan
    gives what single steps give; a batch gives what its rows give one by one, also where they have read different
    amounts. Raises LawError that says which law is broken, and where it first shows. `conditions`: two inputs that it
    can read, None for most; `seed`: the seed of the random input vectors.

        check_controller(from_module(my_network, inputs=32))
    """
    checked = copy.deepcopy(controller).double().eval()
    T, generator = 6, torch.Generator().manual_seed(seed)
    psi = torch.randn(2, T, controller.inputs, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        try:
            _check_laws(checked, psi, list(conditions))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, LLRNNError):
                raise
            raise LawError(f"{controller!r} cannot be asked: {' '.join(str(error).split())[:200]}") from error


def _check_laws(controller: Controller, psi: Tensor, conditions: list[object]) -> None:
    T = psi.shape[1]
    h, after = controller.scan(psi, controller.initial(conditions))
    _require(h.shape == (2, T, controller.hidden), f"sizes: (2, {T}, hidden) is required, found {tuple(h.shape)}")
    _require(
        len(after) == controller.state_size, f"sizes: {controller.state_size} tensors of state, found {len(after)}"
    )
    wrong = [tuple(part.shape) for part in after if part.dim() == 0 or len(part) != 2]
    _require(
        not wrong, f"a state that batches: the first size of its tensors must be that of the batch, 2; found {wrong}"
    )
    for t in range(1, T):
        changed = psi.clone()
        changed[:, t:] += 1.0
        seen = _first_difference(controller.scan(changed, controller.initial(conditions))[0][:, :t], h[:, :t])
        _require(seen is None, f"no look-ahead: what is read at position {t} changes what is said at position {seen}")
    state, stepped = controller.initial(conditions), []
    for t in range(T):
        one, state = controller.step(psi[:, t], state)
        stepped.append(one)
    seen = _first_difference(torch.stack(stepped, 1), h)
    _require(seen is None, f"scan = steps: they differ at position {seen}")
    alone = [controller.scan(psi[b : b + 1], controller.initial(conditions[b : b + 1]))[0] for b in range(2)]
    _require(_first_difference(torch.cat(alone), h) is None, "rows = one by one: a row depends on its neighbours")
    _check_joined(controller, psi, conditions)


def _check_joined(controller: Controller, psi: Tensor, conditions: list[object]) -> None:
    """Raise LawError unless two rows that have read 3 words and 1 word go on in one batch as each does alone.

    `psi` (2, T, inputs): input vectors; `conditions`: one for each row.
    """
    states, expected = [], []
    for b, read in enumerate((3, 1)):
        _, state = controller.scan(psi[b : b + 1, :read], controller.initial(conditions[b : b + 1]))
        states.append(ModelState(state, ()))
        expected.append(controller.scan(psi[b : b + 1, 3:], state)[0])
    both = ModelState.joined(states, psi.device)
    found, _ = controller.scan(psi[:, 3:], both.controller)
    _require(
        _first_difference(found, torch.cat(expected)) is None, "rows that have read different amounts go on together"
    )


def _first_difference(found: Tensor, expected: Tensor) -> int | None:
    """Return the first step t at which two tensors (B, T, D) differ by more than rounding (1e-9), or None."""
    differs = ~torch.isclose(found, expected, rtol=1e-9, atol=1e-9).all(-1).all(0)
    return int(differs.nonzero()[0]) if bool(differs.any()) else None


class TokeniserReport(NamedTuple):
    """How often each law of a tokeniser holds, as fractions (0 to 1) of the texts, and the F1 of its words.

    All are floats from 0 to 1. `text_again`: texts that are the same after tokenising and detokenising; `by_words`:
    texts that are so even from the words alone, without the blanks that a tokeniser may keep with them; `words_again`:
    texts whose given words are the same after detokenising and tokenising; `joined`: texts whose detokenised words need
    a word joiner (U+2060); `exact`: texts whose words, as tokenised, are the given ones; `f1`: of all words found, by
    where they begin and end. `check_tokeniser` returns it.
    """

    text_again: float  # (i) detokenise(tokenise(text)) = text
    by_words: float  # likewise, where blanks are not remembered
    words_again: float  # (ii) tokenise(detokenise(words)) = words
    joined: float  # of (ii): texts that need a WORD JOINER inside a word
    exact: float  # (iii) tokenise(text) = words
    f1: float


def check_tokeniser(
    tokeniser: Tokeniser, sentences: Sequence[tuple[str, Sequence[str]]], *, least: float = 0.99, exact: float = 0.0
) -> TokeniserReport:
    """Check the laws of a tokeniser on texts with their words; return the fraction of texts for which each law holds.

    (i) detokenise(tokenise(text)) = text and (ii) tokenise(detokenise(words)) = words must hold for a fraction `least`
    of the (text, words) pairs in `sentences`, (iii) tokenise(text) = words for a fraction `exact`; and it must cut
    alike after being saved and restored. Raises LawError otherwise.

        check_tokeniser(Learnt.fit(train), [(one.text, one.words) for one in valid], exact=0.95)
    """
    found = [_tokenised(tokeniser, " ".join(text.split()), tuple(words)) for text, words in sentences]
    again = restore_tokeniser(parse_json(json.dumps(tokeniser.saved())))
    for text, _ in sentences[:_ALONE]:
        _require(tuple(again.tokenise(text)) == tuple(tokeniser.tokenise(text)), f"{text!r} is cut alike once restored")
    sums = [sum(column) for column in zip(*found, strict=True)]
    shares = (*(one / len(found) for one in sums[:5]), 2 * sums[5] / (sums[6] + sums[7]))
    report = TokeniserReport(*shares)
    for law, wanted in (("text_again", least), ("words_again", least), ("exact", exact)):
        place, share = report._fields.index(law), getattr(report, law)
        lost = next((text for (text, _), one in zip(sentences, found, strict=True) if not one[place]), "")
        _require(share >= wanted, f"{law} of a tokeniser holds in {wanted:.1%} of texts, found {share:.1%}: {lost!r}")
    return report


def _tokenised(tokeniser: Tokeniser, text: str, words: tuple[str, ...]) -> tuple[int, ...]:
    own, written = tokeniser.tokenise(text), tokeniser.detokenise(words)
    places, wanted = _word_places(own), _word_places(words)
    return (
        tokeniser.detokenise(own) == text,
        tokeniser.detokenise(tuple(own)) == text,
        tuple(tokeniser.tokenise(written)) == words,
        JOINER in written,
        tuple(own) == words,
        len(places & wanted),
        len(places),
        len(wanted),
    )


def _word_places(words: Sequence[str]) -> set[tuple[int, int]]:
    ends = list(accumulate(len(word.replace(" ", "")) for word in words))
    return set(zip([0, *ends[:-1]], ends, strict=True))
