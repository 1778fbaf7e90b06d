"""The model ψ → controller → layer: scored, decoded, edited, saved."""

import llrnn.model.modern  # noqa: F401, which registers its controllers
