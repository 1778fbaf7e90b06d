"""Features of words that come again, whose weights the network learns.

    again:last          1 on the word that came last
    again:sentence      1 on the words of this sentence

How much words count that came before is fitted by the background, `backgrounds.Recent`, not learnt with the network: on
a text that it reads again and again it learns to distrust rare words, which costs 0.2 nats a word of a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch

from llrnn.ground.errors import FeatureError
from llrnn.knowledge.backgrounds.base import Background, Combined
from llrnn.knowledge.backgrounds.recent import Heard, Recent
from llrnn.knowledge.contextual.base import ContextualFeature, Following, NamedProcess
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.vocabulary import Revision, Vocabulary


class Again(Following[Heard], ContextualFeature[Heard]):
    """Two contextual features of words that come again: `again:last` and `again:sentence`.

    The first is 1 on the word that came last, the second on all words of the sentence so far; 0 on others. They need a
    background (prior) `Recent`, or a product or mixture with `Recent` among its parts, else a FeatureError; the network
    learns their weights.

    Example:

        LLRNN(vocabulary, background=Recent(base, mu=0.4), contextual=[Again()], output_features=phi)
    """

    names = ("again:last", "again:sentence")
    followed: Recent

    def bind(self, vocabulary: Vocabulary) -> Self:
        return NamedProcess.bind(self, vocabulary)  # what it follows is that of the model: `beside`

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def beside(self, background: Background) -> Self:
        found = recent_of(background)
        if found is None:
            raise FeatureError(f"{self!r} needs a background of words that come again, Recent, found {background!r}")
        return self._changed(self.vocabulary, followed=found)

    def values(self, states: Sequence[Heard]) -> ContextValues:
        places = self.followed.places(states)
        own = places.in_sentence.nonzero().view(-1)
        flags = torch.stack([places.is_last[own], places.in_sentence[own]], 1).double()
        return ContextValues(flags.new_zeros(len(places), 2), places.position[own], places.word[own], flags)

    def saved(self) -> Saved:
        return Saved("again")


def recent_of(background: Background) -> Recent | None:
    """Return the `Recent` (prior in which words of the text come again) that a background is or has among its parts.

    The first one, at any depth of products and mixtures; None if there is none.
    """
    if isinstance(background, Recent):
        return background
    parts = background.parts if isinstance(background, Combined) else ()
    return next((found for found in map(recent_of, parts) if found is not None), None)
