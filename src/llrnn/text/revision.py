"""A vocabulary in the place of another: which symbols stayed, and where the mass of the new ones comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Revision:
    """Another vocabulary V' in the place of V, and where the mass of each of its symbols comes from (`llrnn.words`).

        b'(x) = b(source[x]) · share[x]            or, where source[x] is -1,   Σ_y b(y) · share[x]

    A word that stays takes all of its own mass; a cell that words leave takes a part of its own; a word that comes out
    of a cell takes a part of the cell's, and one that comes with a count a part of everything. What stays, stays in its
    order.
    """

    vocabulary: Vocabulary
    kept: Ints  # (V',) the old id of the same symbol, -1 for a new one
    source: Ints  # (V',) where kept is not -1, it is the same
    log_share: Floats  # (V',)

    def log_masses(self, log_b: Floats) -> Floats:
        """log b' over V' from log b over V."""
        found: Floats = np.where(self.source >= 0, log_b[self.source], np.logaddexp.reduce(log_b)) + self.log_share
        return found

    def new_ids(self, n_symbols: int) -> Ints:
        """The new id of each of the old symbols, -1 for those that are gone, (V,)."""
        ids = np.full(n_symbols, -1)
        stays = np.flatnonzero(self.kept >= 0)
        ids[self.kept[stays]] = stays
        return ids

    def of_a_factor(self, n_symbols: int) -> Revision:
        """For the second factor of a product, when the first has made the shares: a new word is like any other."""
        return replace(self, log_share=np.where(self.source >= 0, 0.0, -np.log(n_symbols)))
