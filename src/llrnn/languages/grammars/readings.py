"""Terminals of a grammar as automata over columns.

Over symbols a terminal is one letter out of some; over characters it is a string. In a weighted grammar all letters
that can follow are equally probable, and so is stopping: a walk that comes to an end with probability one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.context_free import Reading
from llrnn.languages.grammars.determinised import determinised
from llrnn.languages.grammars.expressions import Expression, Sequence, letter, matching
from llrnn.languages.grammars.letters import Columns, Over
from llrnn.languages.grammars.machine import compiled
from llrnn.languages.grammars.moves import Machine
from llrnn.languages.grammars.notation import Terminal
from llrnn.languages.grammars.regular import regular


def expressions_of(terminals: Mapping[str, Terminal], over: Over) -> dict[str, Expression]:
    """What each terminal reads."""
    return {name: _expression(terminal, over) for name, terminal in terminals.items()}


def _expression(terminal: Terminal, over: Over) -> Expression:
    if terminal.is_literal:
        return letter(terminal.text) if over == "symbols" else Sequence(tuple(map(letter, terminal.text)))
    try:
        return matching(terminal.text) if over == "symbols" else regular(terminal.text)
    except BackgroundError as error:
        how = "symbol by symbol" if over == "symbols" else "character by character"
        raise BackgroundError(f"the terminal {terminal.name} cannot be read {how}: {error}") from None


def readings_of(expressions: Mapping[str, Expression], columns: Columns, *, weighted: bool) -> dict[str, Reading]:
    """The terminals of which the letters spell a string."""
    machines = {name: compiled(expression, columns, weighted=False) for name, expression in expressions.items()}
    return {name: _reading(machine, weighted) for name, machine in machines.items() if not machine.is_empty}


def _reading(machine: Machine, weighted: bool) -> Reading:
    one_way = determinised(machine, weighted=False)
    letters = np.zeros((one_way.n_states, one_way.columns.count))
    letters[one_way.source, one_way.column] = 1.0
    stop = (one_way.log_stop > -np.inf).astype(np.float64)
    if weighted:
        total = letters @ one_way.columns.sizes + stop
        letters, stop = letters / total[:, None], stop / total
    moves = tuple({column: target for column, target, _ in state} for state in one_way.by_state)
    return Reading(moves, letters, stop, tuple(one_way.lengths().tolist()))
