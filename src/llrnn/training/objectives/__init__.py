"""What a training step minimises: the exact loss, or one that draws a few words instead of summing over all.

    exact                −log p(x̄),                      p(x) = b(x) exp(a·φ(x)) / Z
    chunked              the same, without an N × G matrix; on a GPU in half precision if asked
    importance sampling  −log b(x̄) exp(a·φ(x̄)) / Ẑ,     Ẑ unbiased, from words drawn from the background
    noise-contrastive    tell x̄ from words drawn from the background; Z is not computed, but learned to be B

Each is `objective(model, distribution, batch, generator) -> loss`. They differ in the gradient of a step only: the
model, its validation and its evaluation are exact always.
"""

from llrnn.layer.fused.chosen import Precision
from llrnn.training.objectives.base import Exact, Objective, exact_loss
from llrnn.training.objectives.chunked import Chunked
from llrnn.training.objectives.contrastive import Gap, NoiseContrastive, normalisation_gap
from llrnn.training.objectives.importance import ImportanceSampling

__all__ = [
    "Chunked",
    "Exact",
    "Gap",
    "ImportanceSampling",
    "NoiseContrastive",
    "Objective",
    "Precision",
    "exact_loss",
    "normalisation_gap",
]
