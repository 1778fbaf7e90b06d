"""What a grammar cannot say of GeoQuery's forms: a variable stands for one kind of thing, and for something.

    _river ( A ) , _traverse ( A , B )      A is a river, B is a state; so neither _next_to ( A , B ) nor _len ( B , C )

Every predicate says what its arguments can be (`ARGUMENTS`); a variable is what all of its places allow, and it has two
places at least. That is a regular language over symbols, since arguments that are variables never nest: a node holds
the predicate at hand and, for each variable, what it can still be. It is a `Language` of one's own, and a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.languages.grammars.automaton import Language, Letter, LetterColumns, Node
from llrnn.languages.grammars.notation import MatchingLetter
from llrnn.languages.grammars.rows import SymbolReader, SymbolSpellings

STATE, CITY, RIVER, PLACE, COUNTRY, NUMBER = (1 << bit for bit in range(6))
ANY = (1 << 6) - 1
AREA = STATE | CITY | COUNTRY
VARIABLES = "ABCDEFGH"
SUPERLATIVES = ("_largest", "_smallest", "_highest", "_lowest", "_longest", "_shortest")

ARGUMENTS: Mapping[str, tuple[int, ...]] = {
    "_state": (STATE,),
    "_city": (CITY,),
    "_capital": (STATE | CITY, CITY),  # of one argument, or of a state and its capital
    "_river": (RIVER,),
    "_lake": (PLACE,),
    "_mountain": (PLACE,),
    "_place": (PLACE,),
    "_major": (CITY | RIVER | PLACE,),
    "_loc": (STATE | CITY | RIVER | PLACE, AREA),
    "_next_to": (STATE, STATE | RIVER),
    "_traverse": (RIVER, AREA),
    "_population": (AREA, NUMBER),
    "_density": (AREA, NUMBER),
    "_area": (AREA, NUMBER),
    "_size": (AREA, NUMBER),
    "_len": (RIVER, NUMBER),
    "_elevation": (PLACE, NUMBER),
    "_high_point": (AREA, PLACE),
    "_low_point": (AREA, PLACE),
    "_higher": (PLACE, PLACE),
    "_longer": (RIVER, RIVER),
    **dict.fromkeys((*SUPERLATIVES, "_answer", "_count", "_sum", "_const"), (ANY,)),
    **dict.fromkeys(("_most", "_fewest"), (ANY, ANY)),
}
NAMES = {"_stateid": STATE, "_cityid": CITY, "_riverid": RIVER, "_placeid": PLACE, "_countryid": COUNTRY}


class Typed(NamedTuple):
    """Where a form is: the predicate and its argument at hand, the last variable, and all variables."""

    predicate: str = ""
    argument: int = -1  # before its bracket
    last: int = -1
    kinds: tuple[int, ...] = (ANY,) * len(VARIABLES)  # what each variable can still be
    places: tuple[int, ...] = (0,) * len(VARIABLES)  # how many places it has: 0, 1, or more


def after(node: Typed, symbol: str) -> Typed | None:
    """The node after a symbol; None where a variable could not be anything."""
    if symbol in NAMES:
        return _narrowed(node, node.last, NAMES[symbol]) if node.predicate == "_const" else node
    if symbol in ARGUMENTS:
        return node._replace(predicate=symbol, argument=-1)
    if symbol == "(":
        return node._replace(argument=0) if node.argument < 0 else node._replace(predicate="", argument=-1)
    if symbol == ",":
        return node._replace(argument=node.argument + 1) if node.predicate else node
    if symbol == ")":
        return node._replace(predicate="", argument=-1)
    return _placed(node, VARIABLES.index(symbol)) if symbol in VARIABLES else node


def _placed(node: Typed, variable: int) -> Typed | None:
    """A variable in the place of an argument; where no predicate is at hand, as at the end of a count, a number."""
    kinds = ARGUMENTS.get(node.predicate, (NUMBER,))
    allowed = kinds[node.argument] if 0 <= node.argument < len(kinds) else ANY if node.predicate else NUMBER
    places = list(node.places)
    places[variable] = min(2, places[variable] + 1)
    return _narrowed(node._replace(places=tuple(places), last=variable), variable, allowed)


def _narrowed(node: Typed, variable: int, allowed: int) -> Typed | None:
    if variable < 0:
        return node
    kinds = list(node.kinds)
    kinds[variable] &= allowed
    return node._replace(kinds=tuple(kinds)) if kinds[variable] else None


class Types(Language):
    """Forms whose variables stand for one kind of thing, and have two places at least."""

    def __init__(self, columns: LetterColumns) -> None:
        self.columns = columns
        self._following = lru_cache(maxsize=100_000)(self._after)
        self._weighing = lru_cache(maxsize=20_000)(self._weighed)

    @property
    def root(self) -> Node:
        return Typed()

    def _after(self, node: Typed, column: int) -> Typed | None:
        return after(node, self.columns.example(column))

    def after(self, node: Node, column: int) -> Node | None:
        assert isinstance(node, Typed)
        return self._following(node, column)

    def _weighed(self, node: Typed) -> Floats:
        return np.array([float(self._following(node, column) is not None) for column in range(self.columns.count)])

    def weights(self, node: Node) -> Floats:
        assert isinstance(node, Typed)
        return self._weighing(node)

    def end(self, node: Node) -> float:
        assert isinstance(node, Typed)
        return float(1 not in node.places)

    def shortest(self, node: Node) -> int:
        """Each variable with one place needs another."""
        assert isinstance(node, Typed)
        return node.places.count(1)


class Typing(Constraint):
    """The types of variables as a background; soft, since together with a grammar it may lead into dead ends."""

    def __init__(self, violation: float = 1e-6) -> None:
        super().__init__(violation=violation)

    def _readers(self) -> Callable[[object], SymbolReader]:
        vocabulary = self.vocabulary
        symbols = [symbol for number, symbol in enumerate(vocabulary.symbols) if number != vocabulary.eos]
        told = [*ARGUMENTS, *NAMES, "(", ",", ")", *VARIABLES]
        columns = LetterColumns(symbols, [*map(Letter, told), MatchingLetter("(?s:.+)")], "symbols")
        spellings = SymbolSpellings(vocabulary.symbols, vocabulary.eos, columns, self.spelling)
        reader = SymbolReader(Types(columns), spellings)
        return lambda condition: reader
