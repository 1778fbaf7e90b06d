"""A list of terms on a language model: `bias` adds the features of `Terms`, `fit_bias` learns their weights from text.

    log p(x | K) = log p_model(x | K) + a·φ(K, x) − log Z(K)         a: one weight for each group and feature

The likelihood is concave in a, and needs of the model nothing but the masses of the few classes of symbols that the
features tell apart: it is asked once, and the best a is found on these masses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.inference.harness import spelled_by
from llrnn.inference.term_score import Groups, weights_of
from llrnn.knowledge.backgrounds import Model
from llrnn.knowledge.contextual.terms import TermLists, Terms, TermsInside
from llrnn.knowledge.features import Function
from llrnn.knowledge.process import Batch
from llrnn.layer.distribution import Distribution
from llrnn.layer.priors import ContextValues, LinearValues
from llrnn.model.controllers import Silent
from llrnn.model.network import LLRNN

__all__ = ["CellMasses", "bias", "fit_bias", "masses"]

_AT_ONCE = 256  # positions of one row: their distributions over all symbols are in memory together


def bias(model: LLRNN, groups: Groups, weight: float | Mapping[str, float] = 0.0) -> LLRNN:
    """Return a model that favours the terms of some lists: p of `model` times exp(a·φ), normalised exactly.

    `groups`: {name: words or phrases}; `weight`: nats for each symbol that spells all of a term, goes on with one
    that has begun, or ends the word where it is complete, one number or one for each group; 0: the same probabilities,
    to be fitted by `fit_bias`. Mere beginnings have the weight 0: they cannot be taken back.

        named = bias(open_lm("smollm2"), {"products": ["Valkyria", "New York"]}, weight=3.0)
        generate(named, "We sell the", greedy=True)
    """
    lists = groups if isinstance(groups, TermLists) else TermLists(groups)
    terms = Terms(lists, spelled=spelled_by(model))
    is_bare = isinstance(model.controller, Silent) and not model.contextual and not model.output_features.n_features
    made = LLRNN(
        model.vocabulary,
        output_features=Function(lambda symbol: (), name="none"),
        background=model.background if is_bare else Model(model),
        contextual=[terms, TermsInside(terms)],
        controller=Silent(),
        seed=None,
    ).to(model.device)
    made.provenance = {key: value for key, value in model.provenance.items() if key in ("tokeniser", "config")}
    of_group = weights_of(lists, weight)
    named = (name.rpartition(":") for name in made.context_names)
    values = [0.0 if what in ("begins", "ends") else of_group[g] for g, _, what in named]
    with torch.no_grad():
        made.layer.context_bias.copy_(torch.tensor(values))
    return made.eval()


def fit_bias(model: LLRNN, texts: Iterable[str | CellMasses]) -> dict[str, float]:
    """Set the weights of a model made by `bias` to those with which texts are likeliest, and return them by name.

    `texts`: each is read by itself; or their `masses`, where each text has lists of its own. A weight a costs a²/2 nats
    in all, so that those of features that the texts never have stay finite. Raises ConfigError where there is no text.

        fit_bias(named, Path("articles.txt").read_text().splitlines())
    """
    parts = [part for text in texts for part in (masses(model, text) if isinstance(text, str) else [text])]
    if not parts:
        raise ConfigError("texts to fit weights to are required, found none; give one a line")
    a = torch.zeros(len(model.context_names), dtype=torch.float64, device=model.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([a], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        loss = torch.stack([(a * a).sum() / 2, *(-part.log_p(a).sum() for part in parts)]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        model.layer.context_bias.copy_(a)
    return dict(zip(model.context_names, a.tolist(), strict=True))


@dataclass(frozen=True)
class CellMasses:
    """What the likelihood of N symbols needs, for any weights: the cells that features tell apart at each position.

    log_b       (R,) log of the model's mass of the symbols of a cell
    features    (R, k) values of the features on them
    target      (N, k) values on the symbol that came
    position    (R,) the position of the cell

    `masses` yields them.
    """

    log_b: Tensor
    features: Tensor
    target: Tensor
    position: Tensor

    def log_p(self, a: Tensor) -> Tensor:
        """Return how much log p of each symbol grows by the weights `a` (k,): a·φ − log Z, (N,)."""
        mass = (self.log_b + self.features @ a).exp()
        return self.target @ a - mass.new_zeros(len(self.target)).index_add(0, self.position, mass).log()


@torch.no_grad()
def masses(model: LLRNN, text: str) -> Iterator[CellMasses]:
    """Yield what the likelihood of a text needs under a model made by `bias`, some hundred positions at a time.

    The end of the text does not count. The weights that the model has make no difference.

        sum(part.log_p(a).sum() for part in masses(model, "The Valkyria of New York"))
    """
    ids, state = [model.vocabulary.eos, *model.vocabulary.ids(model.read(text))], None
    for start in range(0, len(ids) - 1, _AT_ONCE):
        row = torch.tensor([ids[start : start + _AT_ONCE + 1]], device=model.device)
        batch = Batch(row[:, :-1], row[:, 1:], torch.ones_like(row[:, 1:], dtype=torch.bool))
        p, state = model.scan(batch, state)
        yield _cells(p, row[0, 1:])


def _cells(p: Distribution, targets: Tensor) -> CellMasses:
    """Return the cells at N positions: the classes without the symbols that are listed there, then each of these."""
    (linear, listed), known, klass = p.given.values, p.known, p.classes.class_of
    assert isinstance(linear, LinearValues)
    assert isinstance(listed, ContextValues)
    picked = torch.zeros(p.weights.phi.n_features, len(linear.columns), dtype=p.h.dtype, device=p.h.device)
    picked[list(linear.columns), range(len(linear.columns))] = 1.0
    of_class = torch.einsum("nkj,gj->ngk", linear.slope, p.weights.phi @ picked)  # (N, G, k)
    n, G = of_class.shape[:2]
    at = torch.arange(n, device=targets.device)
    own = torch.cat([of_class[known.position, klass[known.word]], known.value], 1)
    rest = torch.cat([of_class, of_class.new_zeros(n, G, listed.width)], 2).flatten(0, 1)
    target = torch.cat([of_class[at, klass[targets]], listed.at(at, targets, p.prior.n_symbols)], 1)
    log_b = torch.cat([p.log_mass[0].double().expand(n, -1).flatten(), known.log_b])
    position, kept = torch.cat([at.repeat_interleave(G), known.position]), log_b > -torch.inf
    return CellMasses(log_b[kept], torch.cat([rest, own])[kept].double(), target.double(), position[kept])
