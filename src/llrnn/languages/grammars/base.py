"""A language, read letter by letter: the seam between automata or grammars and the background that they make.

    node = root;   node = after(node, column)                       None: no string of the language begins so
    weight of the next letter x at a node: weights(node)[column(x)],  of the end: end(node)

Boolean languages weigh 1 what keeps the string completable and 0 what does not. Weighted ones say how probable it is,
with all that can still follow counted in: Σ over letters + end = 1. A letter with weight above 0 is never a dead end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TypeAlias

from llrnn.ground.arrays import Floats
from llrnn.languages.grammars.letters import Columns

Node: TypeAlias = Hashable


class Language(ABC):
    """What a constraint asks of an automaton or a grammar. Nodes are values: equal ones go on alike."""

    columns: Columns

    @property
    @abstractmethod
    def root(self) -> Node:
        """Before any letter."""

    @abstractmethod
    def weights(self, node: Node) -> Floats:
        """The weight of each letter of a column, (columns,); 0 forbids."""

    @abstractmethod
    def end(self, node: Node) -> float:
        """The weight of ending here."""

    @abstractmethod
    def after(self, node: Node, column: int) -> Node | None:
        """The node after a letter of this column; None if no string of the language goes on so."""

    @abstractmethod
    def shortest(self, node: Node) -> int:
        """How many letters there must be at least until a string can end."""
