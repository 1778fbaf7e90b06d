"""Expressions, compiled into automata for the columns of a vocabulary (Glushkov's construction, with weights).

    a part is its first moves, its stops and e, the weight of nothing; moves that were made are never changed again

    a | b     first_a, first_b             stop_a, stop_b           e_a + e_b
    a b       first_a, e_a·first_b         e_b·stop_a, stop_b       e_a·e_b           and moves stop_a·first_b
    a*        f·first_a                    c·stop_a                 c                 and moves stop_a·f·first_a
              c = 1 / (1 − again·e_a) is the geometric series of nothing, f = again·c

No move is ever for nothing, so every weight is exact. Without weights the same holds with 1 + 1 = 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression, parts_of
from llrnn.languages.grammars.language import Atom, Letter, LetterColumns, MatchingLetter, Over
from llrnn.languages.ngrams import EMPTY, UNKNOWN, NGramTable, Trie
from llrnn.text.vocabulary import EOS

# Automata as arrays: moves between states by columns, with weights, and none of them for nothing.
#
#     weight(x_1 ... x_T) = Σ over ways 0 → q_1 → ... → q_T of  w(0, x_1, q_1) ··· w(q_{T-1}, x_T, q_T) · stop(q_T)
#
# The weight of a move by a column is that of each of its letters. State 0 is the start, and no move of a compiled
# expression leads back to it. Strings of both automata are the ways of pairs of states, with the product of weights.


MOST_STATES = 500_000
MOST_MOVES = 5_000_000  # no more than states × columns, and stored one by one

Bools = NDArray[np.bool_]
Moves = list[tuple[int, int, float]]  # column, target, log weight


@dataclass(frozen=True, eq=False)
class WeightedAutomaton:
    """Moves sorted by source, column and target, each once; logarithms of weights."""

    columns: LetterColumns
    source: Ints  # (moves,)
    column: Ints
    target: Ints
    log_weight: Floats
    log_stop: Floats  # (states,) minus infinity where no string ends

    @property
    def n_states(self) -> int:
        return len(self.log_stop)

    @property
    def is_empty(self) -> bool:
        """Whether no string at all is in the language; of a trimmed machine."""
        return not bool((self.log_stop > -np.inf).any())

    @cached_property
    def first(self) -> Ints:
        """Where the moves of each state begin, and the end, (states + 1,)."""
        return np.searchsorted(self.source, np.arange(self.n_states + 1))

    @cached_property
    def by_state(self) -> list[Moves]:
        """The moves of each state as plain numbers, for what goes state by state."""
        moves = list(zip(self.column.tolist(), self.target.tolist(), self.log_weight.tolist(), strict=True))
        first = self.first.tolist()
        return [moves[begin:end] for begin, end in pairwise(first)]

    def trimmed(self) -> WeightedAutomaton:
        """Without the states that no string passes through; the start stays."""
        useful = self._reached_from_start() & self.reaches(self.log_stop > -np.inf)
        useful[0] = True
        number = np.cumsum(useful) - 1
        keep = useful[self.source] & useful[self.target]
        found = self.selected(keep)
        return replace(found, source=number[found.source], target=number[found.target], log_stop=self.log_stop[useful])

    def selected(self, keep: Bools) -> WeightedAutomaton:
        """With these moves only."""
        moves = self.source[keep], self.column[keep], self.target[keep], self.log_weight[keep]
        return WeightedAutomaton(self.columns, *moves, self.log_stop)

    def _reached_from_start(self) -> Bools:
        begun = np.zeros(self.n_states, dtype=np.bool_)
        begun[0] = True
        return _spread(begun, self.source, self.target)

    def reaches(self, ends: Bools) -> Bools:
        """The states from which one of these can be reached."""
        return _spread(ends, self.target, self.source)

    def lengths(self, step: Ints | None = None) -> Ints:
        """How many letters there are at least to an end, -1 where there is none; `step`: the letters of each move."""
        far = np.int64(1) << 40
        found = np.where(self.log_stop > -np.inf, 0, far)
        cost = np.ones(len(self.source), dtype=np.int64) if step is None else step
        while True:
            better = found.copy()
            np.minimum.at(better, self.source, found[self.target] + cost)
            if (better == found).all():
                return np.where(found < far, found, -1)
            found = better


def merged(
    columns: LetterColumns, moves: tuple[Ints, Ints, Ints, Floats], log_stop: Floats, *, weighted: bool
) -> WeightedAutomaton:
    """A machine from moves in any order; those that say the same are added up, or are one if weights do not matter."""
    source, column, target, log_weight = moves
    order = np.lexsort((target, column, source))
    source, column, target, log_weight = source[order], column[order], target[order], log_weight[order]
    new = np.ones(len(source), dtype=np.bool_)
    new[1:] = (np.diff(source) != 0) | (np.diff(column) != 0) | (np.diff(target) != 0)
    first = np.flatnonzero(new)
    if len(first) < len(source):
        add = np.logaddexp if weighted else np.maximum
        log_weight = add.reduceat(log_weight, first)
    return WeightedAutomaton(columns, source[first], column[first], target[first], log_weight, log_stop)


def both(left: WeightedAutomaton, right: WeightedAutomaton) -> WeightedAutomaton:
    """The strings of both, with the product of their weights; trimmed."""
    by_column = [_by_column(moves) for moves in right.by_state]
    pairs, number = [(0, 0)], {(0, 0): 0}
    found: list[tuple[int, int, int, float]] = []
    for here, (mine, other) in enumerate(pairs):  # grows while we read it
        theirs = by_column[other]
        for column, target, log_weight in left.by_state[mine]:
            for facing, log_other in theirs.get(column, ()):
                pair = (target, facing)
                if pair not in number:
                    number[pair] = len(pairs)
                    pairs.append(pair)
                found.append((here, column, number[pair], log_weight + log_other))
        check_size(len(pairs), len(found), "the strings of both sides of &")
    stops = np.array([left.log_stop[mine] + right.log_stop[other] for mine, other in pairs])
    return merged(left.columns, as_arrays(found), stops, weighted=True).trimmed()


def as_arrays(moves: list[tuple[int, int, int, float]]) -> tuple[Ints, Ints, Ints, Floats]:
    """Source, column, target and log weight, each as an array."""
    source, column, target, log_weight = zip(*moves, strict=True) if moves else ((), (), (), ())
    whole = [np.array(part, dtype=np.int64) for part in (source, column, target)]
    return whole[0], whole[1], whole[2], np.array(log_weight, dtype=np.float64)


def check_size(states: int, moves: int, what: str) -> None:
    """Refuse what has grown too large."""
    if states > MOST_STATES or moves > MOST_MOVES:
        raise BackgroundError(
            f"{what} needs more than {MOST_STATES:,} states or {MOST_MOVES:,} moves (states × columns), the most that "
            f"an automaton may have: {states:,} states and {moves:,} moves so far; repeat less, or list fewer words"
        )


def _by_column(moves: Moves) -> dict[int, list[tuple[int, float]]]:
    found: dict[int, list[tuple[int, float]]] = {}
    for column, target, log_weight in moves:
        found.setdefault(column, []).append((target, log_weight))
    return found


def _spread(begun: Bools, source: Ints, target: Ints) -> Bools:
    """All states that are reached from some, moves going from source to target."""
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(len(begun) + 1)).tolist()
    after = target[order].tolist()
    seen, stack = begun.tolist(), np.flatnonzero(begun).tolist()
    while stack:
        state = stack.pop()
        for reached in after[first[state] : first[state + 1]]:
            if not seen[reached]:
                seen[reached] = True
                stack.append(reached)
    return np.array(seen, dtype=np.bool_)


# Graphs, in linear time: what reaches each other (Tarjan), what follows from what, and who can be reached at all.


Name = TypeVar("Name", bound=Hashable)


def components(first: Sequence[int], target: Sequence[int]) -> Iterator[list[int]]:
    """States that reach each other, those that reach no other first, without recursion.

    The moves of state q go to `target[first[q] : first[q + 1]]`.
    """
    n = len(first) - 1
    order, low = [-1] * n, [0] * n  # when a state was met, and the earliest that it leads back to; n when it is done
    after, waiting, met = list(first[:n]), list[int](), 0
    for root in range(n):
        if order[root] >= 0:
            continue
        path = [root]
        while path:
            state = path[-1]
            if order[state] < 0:
                order[state] = low[state] = met
                met += 1
                waiting.append(state)
            if after[state] < first[state + 1]:
                reached = target[after[state]]
                after[state] += 1
                if order[reached] < 0:
                    path.append(reached)
                else:
                    low[state] = min(low[state], low[reached])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[state])
            if low[state] == order[state]:
                yield _taken(waiting, state, low, n)


def _taken(waiting: list[int], state: int, low: list[int], done: int) -> list[int]:
    """All that waits from this state on; they lead no one back any more."""
    found = list[int]()
    while not found or found[-1] != state:
        found.append(waiting.pop())
        low[found[-1]] = done
    return found


def derived(implications: Iterable[tuple[Name, Collection[Name]]], known: Iterable[Name]) -> set[Name]:
    """What is known, and all that follows: a conclusion as soon as its last premise is found."""
    conclusions, missing = list[Name](), list[int]()
    waiting: dict[Name, list[int]] = defaultdict(list)
    found, fresh = set(known), list[Name]()
    for number, (conclusion, premises) in enumerate(implications):
        conclusions.append(conclusion)
        missing.append(len(set(premises)))
        for premise in set(premises):
            waiting[premise].append(number)
        if not premises:
            fresh.append(conclusion)
    fresh += found
    found.update(fresh)
    while fresh:
        for number in waiting.pop(fresh.pop(), ()):
            missing[number] -= 1
            if missing[number] == 0 and conclusions[number] not in found:
                found.add(conclusions[number])
                fresh.append(conclusions[number])
    return found


def reachable(step: NDArray[np.bool_]) -> NDArray[np.float64]:
    """1 where a way leads, however short, (n, n): whole rows as bits, joined once for each step."""
    n = len(step)
    source, target = np.nonzero(step)
    first = np.searchsorted(source, np.arange(n + 1)).tolist()
    own = np.packbits(np.eye(n, dtype=np.bool_), axis=1)
    bits = np.zeros_like(own)
    for group in components(first, target.tolist()):
        after = np.concatenate([target[first[state] : first[state + 1]] for state in group])
        bits[group] = np.bitwise_or.reduce(np.concatenate([bits[after], own[group]]), axis=0)
    return np.unpackbits(bits, axis=1, count=n).astype(np.float64)


# What all ways from a state to an end weigh, exactly, although there are infinitely many.
#
#     β(q) = stop(q) + Σ_c size(c) · Σ_q' w(q, c, q') · β(q')
#
# States that reach each other form a component; components are solved one by one, those nearest to the end first: one
# state without a move to itself is a sum, one with it is divided by 1 − w, more are a linear system y = b + M y.
#
# Every system is scaled by the best single way d from each state: y = e^d·z, z = b·e^-d + e^-d M e^d z. Then all
# numbers are at most 1, and z at least 1: nothing underflows, whatever weights are. A z ≥ 0 that solves an irreducible
# system with b ≥ 0, b ≠ 0 exists if and only if the spectral radius ρ of M is below 1 (Perron-Frobenius), so that the
# solution itself is the check; and z' = z + M z' says how far below, since 1 − ρ ≤ max z / z'.


MOST_DENSE = 2_000  # states of a component that is solved by elimination; larger ones are iterated
TOLERANCE = (
    1e-12  # 1 - ρ must be more; and by so much of z each equation may be off that is iterated, z by TOLERANCE·z'
)
MOST_ITERATIONS = 20_000
_ROUND = 200


class InfiniteMassError(BackgroundError):
    """An automaton whose strings do not grow rarer with their length."""

    def __init__(self, which: str = "") -> None:
        super().__init__(
            f"the weights of all strings have no finite sum: {which or 'what is repeated must lose weight each time'}; "
            "give a factor below 1 (again=0.5), or weighted=False"
        )


def backward(machine: WeightedAutomaton) -> Floats:
    """log β of every state of a trimmed machine, (states,)."""
    source, target, log_weight = _steps(machine)
    first = np.searchsorted(source, np.arange(machine.n_states + 1)).tolist()
    beta: Floats = machine.log_stop.copy()
    for states in components(first, target.tolist()):
        if len(states) == 1:
            begin, end = first[states[0]], first[states[0] + 1]
            beta[states[0]] = _single(states[0], beta, target[begin:end], log_weight[begin:end])
        else:
            _solve(np.array(states), first, target, log_weight, beta)
    return beta


def _steps(machine: WeightedAutomaton) -> tuple[Ints, Ints, Floats]:
    """From state to state, whatever the letter: sources, sorted, targets, log weights."""
    with np.errstate(divide="ignore"):
        log_weight = machine.log_weight + np.log(machine.columns.sizes)[machine.column]
    order = np.lexsort((machine.target, machine.source))
    source, target, log_weight = machine.source[order], machine.target[order], log_weight[order]
    new = np.flatnonzero(np.concatenate([[True], (np.diff(source) != 0) | (np.diff(target) != 0)])[: len(source)])
    summed = np.logaddexp.reduceat(log_weight, new) if len(new) else log_weight
    return source[new], target[new], summed


def _single(state: int, beta: Floats, target: Ints, log_weight: Floats) -> float:
    own = target == state
    total = float(np.logaddexp.reduce(np.append((log_weight + beta[target])[~own], beta[state])))
    if not own.any():
        return total
    loop = np.exp(float(log_weight[own][0]))
    if loop >= 1.0 - TOLERANCE:
        raise InfiniteMassError
    return float(total - np.log1p(-loop))


def _solve(states: Ints, first: list[int], target: Ints, log_weight: Floats, beta: Floats) -> None:
    """One component: moves that leave it are known already, those within are the system."""
    counts = np.array([first[state + 1] - first[state] for state in states.tolist()])
    at = np.concatenate([np.arange(first[state], first[state + 1]) for state in states.tolist()])
    source = np.repeat(np.arange(len(states)), counts)
    place = np.full(len(beta), -1)
    place[states] = np.arange(len(states))
    inner = place[target[at]] >= 0
    log_b = beta[states].copy()
    np.logaddexp.at(log_b, source[~inner], (log_weight[at] + beta[target[at]])[~inner])
    beta[states] = _solved(log_b, source[inner], place[target[at]][inner], log_weight[at][inner])


def _solved(log_b: Floats, source: Ints, target: Ints, log_m: Floats) -> Floats:
    best = _best(log_b, source, target, log_m)
    b, m = np.exp(log_b - best), np.exp(log_m + best[target] - best[source])
    solve = _elimination(source, target, m, len(b)) if len(b) <= MOST_DENSE else _iteration(source, target, m, len(b))
    z = solve(b)
    further = solve(z / z.max()) * z.max()
    if not (z / further).max() > TOLERANCE:
        raise InfiniteMassError
    found: Floats = best + np.log(z)
    return found


def _best(log_b: Floats, source: Ints, target: Ints, log_m: Floats) -> Floats:
    """The log weight of the best single way out of the component."""
    first = np.searchsorted(source, np.arange(len(log_b)))  # every state of a component has a move within it
    best = log_b
    for _ in range(len(log_b) + 1):
        better = np.maximum(log_b, np.maximum.reduceat(log_m + best[target], first))
        if not (better > best + TOLERANCE).any():
            return better
        best = better
    raise InfiniteMassError  # a circle that gains weight


def _elimination(source: Ints, target: Ints, m: Floats, n: int) -> Callable[[Floats], Floats]:
    system = np.eye(n)
    system[source, target] -= m

    def solve(b: Floats) -> Floats:
        try:
            return _positive(np.asarray(np.linalg.solve(system, b), dtype=np.float64))
        except np.linalg.LinAlgError:
            raise InfiniteMassError from None

    return solve


def _iteration(source: Ints, target: Ints, m: Floats, n: int) -> Callable[[Floats], Floats]:
    """Stabilised bi-conjugate gradients, in rounds that begin from what one step of the equation itself makes of it."""

    def times(z: Floats) -> Floats:
        return np.bincount(source, m * z[target], minlength=n).astype(np.float64, copy=False)

    def solve(b: Floats) -> Floats:
        z, done = b + times(b), 2
        while done < MOST_ITERATIONS:
            found, used = _conjugate(b, times, z)
            found = b + times(np.maximum(found, b))
            z, done = b + times(found), done + used + 2
            if (np.abs(z - found) <= TOLERANCE * z).all():
                return _positive(z)
        raise InfiniteMassError

    return solve


def _positive(z: Floats) -> Floats:
    if not (np.isfinite(z).all() and (z > 0).all()):
        raise InfiniteMassError
    return z


def _conjugate(b: Floats, times: Callable[[Floats], Floats], z: Floats) -> tuple[Floats, int]:
    """One round of van der Vorst's BiCGSTAB for z - M z = b; it may break off early, and is then begun again."""
    r = b - z + times(z)
    shadow, p = r.copy(), r.copy()
    rho, size = float(shadow @ r), float(np.abs(b).max())
    for used in range(_ROUND):
        v = p - times(p)
        across = float(shadow @ v)
        if rho == 0.0 or across == 0.0:
            return z, 2 * used
        alpha = rho / across
        s = r - alpha * v
        t = s - times(s)
        square = float(t @ t)
        omega = float(t @ s) / square if square else 0.0
        z = z + alpha * p + omega * s
        r = s - omega * t
        after = float(shadow @ r)
        if not np.isfinite(after) or omega == 0.0 or float(np.abs(r).max()) <= 1e-15 * size:
            break
        p = r + (after / rho) * (alpha / omega) * (p - omega * v)
        rho = after
    return np.where(np.isfinite(z), z, b), 2 * (used + 1)


# An n-gram model over the letters, written out as an automaton: a state for each context that makes a difference.
#
#     w(context, x, longest known suffix of context x) = p(x | context)             stop(context) = p(end | context)
#
# Every state has a move for every letter that the model lists, so that the automaton has states × letters of them. What
# is multiplied with it (a dictionary, say) looks ahead: the probabilities of all that can follow are summed exactly.


def context_machine(table: NGramTable, columns: LetterColumns, *, weighted: bool) -> WeightedAutomaton:
    """All contexts that can be reached; state 0 is the beginning, to which nothing leads back."""
    if EOS not in table.index:
        raise BackgroundError(f"an n-gram model must know how strings end, but {table!r} does not list {EOS!r}")
    trie, (words, of_word) = Trie.from_table(table), _letters(table, columns)
    nodes, after = _reached(trie, int(_contexts(trie, [EMPTY], [table.eos])[0]), words)
    log_p = _rows(trie, torch.tensor(nodes), len(table.words))
    place = {node: number for number, node in enumerate(nodes)}
    source, at = np.nonzero(log_p[:, words] > -np.inf)
    target = np.array([[place[node] for node in row] for row in after], dtype=np.int64).reshape(len(nodes), -1)
    moves = source, of_word[at], target[source, at], log_p[source, words[at]]
    return _begun(columns, moves, log_p[:, table.eos], weighted)


def _letters(table: NGramTable, columns: LetterColumns) -> tuple[Ints, Ints]:
    """The words of the model that are letters, and their columns."""
    held = [(number, columns.held(Letter(word))) for number, word in enumerate(table.words)]
    found = [(number, own[0]) for number, own in held if own and table.words[number] not in (EOS, UNKNOWN)]
    words, own_columns = zip(*found, strict=True) if found else ((), ())
    return np.array(words, dtype=np.int64), np.array(own_columns, dtype=np.int64)


def _contexts(trie: Trie, before: list[int], words: list[int]) -> Tensor:
    """The context after one word each; those that make no difference are the empty one."""
    found = trie.states(torch.tensor(before), torch.tensor(words)[:, None])[:, 0]
    return torch.where(trie.matters[found], found, EMPTY)


def _reached(trie: Trie, start: int, words: Ints) -> tuple[list[int], list[list[int]]]:
    """All contexts, and those after each word."""
    nodes, number, after = [start], {start}, list[list[int]]()
    every = words.tolist()
    while len(after) < len(nodes):  # contexts are found faster than they are written out
        frontier = nodes[len(after) :]
        check_size(len(nodes), len(nodes) * len(every), "this n-gram model (states × letters)")
        found = _contexts(trie, [node for node in frontier for _ in every], every * len(frontier)) if every else None
        rows = [[]] * len(frontier) if found is None else found.view(len(frontier), -1).tolist()
        new = [node for node in dict.fromkeys(node for row in rows for node in row) if node not in number]
        number.update(new)
        nodes += new
        after += rows
    return nodes, after


def _rows(trie: Trie, nodes: Tensor, n_words: int) -> Floats:
    """log p of every word after each context."""
    rows = trie.rows(nodes)
    log_p = trie.log_prob[:n_words].double() + rows.rest.double()[:, None]
    log_p[rows.position, rows.word] = rows.log_prob.double()
    found: Floats = log_p.numpy()
    return found


def _begun(
    columns: LetterColumns, moves: tuple[Ints, Ints, Ints, Floats], log_stop: Floats, weighted: bool
) -> WeightedAutomaton:
    """A new start before all contexts, which moves as the first of them does."""
    source, column, target, log_weight = moves
    first = source == 0
    whole = (
        np.concatenate([source[first], source + 1]),
        np.concatenate([column[first], column]),
        np.concatenate([target[first] + 1, target + 1]),
        np.concatenate([log_weight[first], log_weight]),
    )
    stops = np.concatenate([log_stop[:1], log_stop])
    if not weighted:
        whole, stops = (*whole[:3], np.zeros_like(whole[3])), np.where(stops > -np.inf, 0.0, -np.inf)
    return merged(columns, whole, stops, weighted=weighted)


# Expressions as people write them, for messages: short, and cut where they are long.


_LONGEST = 60
_DEEPEST = 6


def shown(expression: Expression) -> str:
    """`(big | small)* cat`, as in `symbolic`; for people, not to be read back."""
    text = _text(expression, _DEEPEST)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def _text(expression: Expression, depth: int) -> str:
    if depth == 0:
        return "..."
    match expression:
        case ex.One(atom):
            return _atom(atom)
        case ex.Concatenation(parts):
            return _joined(parts, " ", depth) if parts else "()"
        case ex.Alternation(parts):
            return f"({_joined(parts, ' | ', depth)})"
        case ex.Repeat(part, again):
            return f"({_text(part, depth - 1)})*" + (f"<{again:g}>" if again != 1.0 else "")
        case ex.Times(part, least, most):
            return f"({_text(part, depth - 1)}){{{least},{most}}}"
        case ex.WeightedExpression(part, factor):
            return f"({_text(part, depth - 1)})<{factor:g}>"
        case ex.Both(left, right):
            return f"({_text(left, depth - 1)} & {_text(right, depth - 1)})"
        case ex.Listed(entries):
            return f"words({', '.join(repr(text) for text, _ in entries[:2])}{', ...' * (len(entries) > 2)})"
        case ex.NGrams(table):
            return f"ngram(order={table.order})"
        case ex.ConditionExpression(function):
            return f"from_condition({getattr(function, '__name__', '...')})"


def _joined(parts: tuple[Expression, ...], sign: str, depth: int) -> str:
    return sign.join(_text(part, depth - 1) for part in parts[:_LONGEST])


def _atom(atom: Atom) -> str:
    match atom:
        case Letter(text):
            return text if text.isalnum() else f'"{text}"'
        case MatchingLetter(regex):
            return f"/{regex}/"
        case _:
            spans = "".join(first if first == last else f"{first}-{last}" for first, last in atom.ranges)
            return f"[{'^' * atom.negated}{spans}{''.join(atom.categories)}]"


__all__ = ["WeightedAutomaton", "atoms_of", "columns_of", "compiled"]

NEVER = -math.inf  # log 0
_BEFORE = -1  # the state before the first move of a part
_Move: TypeAlias = tuple[tuple[int, ...], int, float]  # columns, target, log weight


def atoms_of(expression: Expression, over: Over) -> list[Atom]:
    """What the letters are told apart by; the letters of listed texts and of n-gram models are among it."""
    found: dict[Atom, None] = {}
    for part in parts_of(expression):
        match part:
            case ex.One(atom):
                found[atom] = None
            case ex.Listed(entries):
                letters = (letter for text, _ in entries for letter in (text if over == "characters" else text.split()))
                found.update((Letter(letter), None) for letter in dict.fromkeys(letters))
            case ex.NGrams(table):
                found.update((Letter(word), None) for word in table.words if word not in (EOS, UNKNOWN))
            case _:
                pass
    return list(found)


def columns_of(expression: Expression, letters: Sequence[str], over: Over) -> LetterColumns:
    """The columns for an expression. Who looks at conditions may be told of any letter: then each has its own."""
    if any(isinstance(part, ex.ConditionExpression) for part in parts_of(expression)):
        return LetterColumns(letters, [Letter(letter) for letter in letters], over)
    return LetterColumns(letters, atoms_of(expression, over), over)


def compiled(
    expression: Expression,
    columns: LetterColumns,
    *,
    weighted: bool = True,
    holes: Sequence[ex.ConditionExpression] = (),
) -> WeightedAutomaton:
    """The automaton of an expression, trimmed. `holes` are read as one letter each, of the columns after all others."""
    builder = _Builder(columns, weighted, {hole: columns.count + number for number, hole in enumerate(holes)})
    try:
        return builder.machine(builder.part(expression))
    except RecursionError:
        raise BackgroundError("an expression may be nested some hundred times, found more: nest less") from None


@dataclass
class _Fragment:
    """A part under construction."""

    first: list[_Move] = field(default_factory=list)
    stops: dict[int, float] = field(default_factory=dict)
    empty: float = NEVER


class _Builder:
    """All moves so far; parts refer to its states, numbered from 0 (the start comes before them all, in the end)."""

    def __init__(self, columns: LetterColumns, weighted: bool, holes: dict[ex.ConditionExpression, int]) -> None:
        self.columns, self.weighted, self.holes = columns, weighted, holes
        self.n_states, self.n_moves = 0, 0
        self.moves: list[tuple[int, tuple[int, ...], int, float]] = []

    def log(self, factor: float) -> float:
        return math.log(factor) if self.weighted else 0.0

    def plus(self, left: float, right: float) -> float:
        return log_add(left, right) if self.weighted else max(left, right)

    def state(self) -> int:
        self.n_states += 1
        return self.n_states - 1

    def move(self, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        self.n_moves += len(columns)
        check_size(self.n_states, self.n_moves, "this expression")
        self.moves.append((source, columns, target, log_weight))

    def part(self, expression: Expression) -> _Fragment:
        match expression:
            case ex.One(atom):
                return self.one(self.held(atom))
            case ex.Concatenation(parts):
                return self.sequence([self.part(part) for part in parts])
            case ex.Alternation(parts):
                return self.choice([self.part(part) for part in parts])
            case ex.Repeat(part, again):
                return self.repeated(self.part(part), self.log(again), expression)
            case ex.Times(part, least, most):
                return self.times(part, least, most)
            case ex.WeightedExpression(part, factor):
                return self.scaled(self.part(part), self.log(factor))
            case ex.Both(left, right):
                return self.adopted(both(self.apart(left), self.apart(right)))
            case ex.Listed(entries):
                return self.listed(entries)
            case ex.NGrams(table):
                return self.adopted(context_machine(table, self.columns, weighted=self.weighted))
            case ex.ConditionExpression():
                return self.one((self.hole(expression),))

    def held(self, atom: Atom) -> tuple[int, ...]:
        columns = self.columns.held(atom)
        if isinstance(atom, Letter) and any(self.columns.sizes[column] != 1 for column in columns):
            raise BackgroundError(
                f"{atom.text!r} must have a column of its own, found one that it shares; "
                "make the columns of the same expression: columns_of(expression, letters, over)"
            )
        return columns

    def hole(self, expression: ex.ConditionExpression) -> int:
        if expression not in self.holes:
            raise BackgroundError("what comes from the condition is known when a condition is: Conditional compiles it")
        return self.holes[expression]

    def one(self, columns: tuple[int, ...]) -> _Fragment:
        after = self.state()
        return _Fragment([(columns, after, 0.0)] if columns else [], {after: 0.0})

    def choice(self, parts: Iterable[_Fragment]) -> _Fragment:
        whole = _Fragment()
        for part in parts:
            whole.first += part.first
            whole.stops |= part.stops
            whole.empty = self.plus(whole.empty, part.empty)
        return whole

    def sequence(self, parts: Sequence[_Fragment]) -> _Fragment:
        """From the back: what follows a part is known when the part is joined to it."""
        whole = _Fragment(empty=0.0)
        for part in reversed(parts):
            whole = self.joined(part, whole)
        return whole

    def joined(self, part: _Fragment, rest: _Fragment) -> _Fragment:
        self.attach(part.stops, rest.first)
        first = part.first + _scaled(rest.first, part.empty)
        stops = rest.stops | {state: log + rest.empty for state, log in part.stops.items() if rest.empty > NEVER}
        return _Fragment(first, stops, part.empty + rest.empty)

    def attach(self, stops: dict[int, float], first: Sequence[_Move]) -> None:
        for state, log_stop in stops.items():
            for columns, target, log_weight in first:
                self.move(state, columns, target, log_stop + log_weight)

    def repeated(self, part: _Fragment, log_again: float, expression: Expression) -> _Fragment:
        nothing = log_again + part.empty
        if self.weighted and nothing >= 0.0:
            raise InfiniteMassError(
                f"{shown(expression)} may repeat nothing for ever, with a factor of {math.exp(nothing):.6g} each time"
            )
        log_c = -math.log1p(-math.exp(nothing)) if self.weighted else 0.0
        first = _scaled(part.first, log_again + log_c)
        self.attach(part.stops, first)
        return _Fragment(first, {state: log + log_c for state, log in part.stops.items()}, log_c)

    def times(self, expression: Expression, least: int, most: int) -> _Fragment:
        """From the back: at each time beyond the least one may also stop."""
        whole = _Fragment(empty=0.0)
        for time in range(most, 0, -1):
            whole = self.joined(self.part(expression), whole)
            if time > least:
                whole.empty = self.plus(whole.empty, 0.0)
        return whole

    def scaled(self, part: _Fragment, log_factor: float) -> _Fragment:
        return _Fragment(_scaled(part.first, log_factor), part.stops, part.empty + log_factor)

    def listed(self, entries: Sequence[tuple[str, float]]) -> _Fragment:
        """A trie, whose texts all end in one state: what follows them is attached once."""
        end, whole, below = self.state(), _Fragment(), dict[tuple[int, int], int]()
        whole.stops[end] = 0.0
        spelled = [self.columns.spelled(text) for text, _ in entries]
        held = {letter: self.held(Letter(letter)) for letter in {letter for text in spelled for letter in text}}
        for text, (_, weight) in zip(spelled, entries, strict=True):
            letters = [held[letter] for letter in text]
            if not all(letters):  # a letter that is none here: no string over these letters is this text
                continue
            if not letters:
                whole.empty = self.plus(whole.empty, self.log(weight))
                continue
            node = _BEFORE
            for columns in letters[:-1]:
                key = (node, columns[0])
                if key not in below:
                    below[key] = self.state()
                    self.begin(whole, node, columns, below[key], 0.0)
                node = below[key]
            self.begin(whole, node, letters[-1], end, self.log(weight))
        return whole

    def begin(self, part: _Fragment, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        """A move from a state, or one of the first moves of a part."""
        if source == _BEFORE:
            part.first.append((columns, target, log_weight))
        else:
            self.move(source, columns, target, log_weight)

    def apart(self, expression: Expression) -> WeightedAutomaton:
        own = _Builder(self.columns, self.weighted, self.holes)
        return own.machine(own.part(expression))

    def adopted(self, machine: WeightedAutomaton) -> _Fragment:
        """A machine as a part of this one; its start, to which nothing leads, becomes first moves."""
        offset = self.n_states - 1
        self.n_states += machine.n_states - 1
        part = _Fragment(empty=float(machine.log_stop[0]))
        for source, moves in enumerate(machine.by_state):
            for column, target, log_weight in moves:
                self.begin(part, source + offset if source else _BEFORE, (column,), target + offset, log_weight)
        stops = np.flatnonzero(machine.log_stop[1:] > NEVER) + 1
        part.stops = {int(state) + offset: float(machine.log_stop[state]) for state in stops}
        return part

    def machine(self, part: _Fragment) -> WeightedAutomaton:
        """All moves as arrays, with the start in front."""
        for columns, target, log_weight in part.first:
            self.move(_BEFORE, columns, target, log_weight)
        many = np.array([len(columns) for _, columns, _, _ in self.moves], dtype=np.int64)
        column = np.fromiter((c for _, columns, _, _ in self.moves for c in columns), np.int64, int(many.sum()))
        source = np.array([move[0] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        after = np.array([move[2] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        logs = np.array([move[3] for move in self.moves], dtype=np.float64).repeat(many)
        log_stop = np.full(self.n_states + 1, NEVER)
        log_stop[0] = part.empty
        log_stop[[state + 1 for state in part.stops]] = list(part.stops.values())
        return merged(self.columns, (source, column, after, logs), log_stop, weighted=self.weighted).trimmed()


def _scaled(moves: Sequence[_Move], log_factor: float) -> list[_Move]:
    if log_factor == NEVER:
        return []
    return [(columns, target, log_weight + log_factor) for columns, target, log_weight in moves]


def log_add(left: float, right: float) -> float:
    """log(eˡ + eʳ)."""
    high, low = (left, right) if left >= right else (right, left)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


# One way to read a string: sets of states with what each has in hand, as the states of a new automaton (Mohri).
#
#     {q: r(q)}  --x-->  {q': Σ_q r(q)·w(q, x, q') / w}       w = the largest of these sums, the weight of the move
#
# Equal sets are one state; weights in hand are compared to twelve decimals of their logarithm. Every state of a trimmed
# automaton can be completed, and so can every set of them. Not every weighted automaton has a finite one of this form:
# where two ways to read a string drift apart as it grows longer, sets never come again.


DECIMALS = 12
Held: TypeAlias = tuple[tuple[int, float], ...]  # states and their log weights in hand, sorted; the largest is 0
START: Held = ((0, 0.0),)


class TooLargeError(BackgroundError):
    """An automaton whose states, if each string is read in one way, are too many to write out."""


def steps(by_state: list[Moves], held: Held, *, weighted: bool) -> dict[int, tuple[float, Held]]:
    """What follows a set by each column: the weight of the move, and the next set."""
    found: dict[int, dict[int, float]] = {}
    for state, in_hand in held:
        for column, target, log_weight in by_state[state]:
            sums, log = found.setdefault(column, {}), in_hand + log_weight
            sums[target] = log if target not in sums else log_add(sums[target], log) if weighted else 0.0
    return {column: _scaled_determinised(sums) for column, sums in found.items()}


def _scaled_determinised(sums: dict[int, float]) -> tuple[float, Held]:
    if len(sums) == 1:
        ((state, log),) = sums.items()
        return log, ((state, 0.0),)
    most = max(sums.values())
    return most, tuple(sorted((state, round(log - most, DECIMALS)) for state, log in sums.items()))


def stop_of(machine: WeightedAutomaton, held: Held, *, weighted: bool) -> float:
    """The log weight of ending in a set."""
    log_stop = [in_hand + float(machine.log_stop[state]) for state, in_hand in held]
    return float(np.logaddexp.reduce(log_stop)) if weighted else max(log_stop)


def determinised(
    machine: WeightedAutomaton, *, weighted: bool = True, most_states: int = MOST_STATES, most_moves: int = MOST_MOVES
) -> WeightedAutomaton:
    """The same language, with one move at most by each column from each state; of a trimmed machine."""
    sets, number = [START], {START: 0}
    found: list[tuple[int, int, int, float]] = []
    for here, held in enumerate(sets):  # grows while we read it
        for column, (log_weight, after) in steps(machine.by_state, held, weighted=weighted).items():
            if after not in number:
                number[after] = len(sets)
                sets.append(after)
            found.append((here, column, number[after], log_weight))
        if len(sets) > most_states or len(found) > most_moves:
            raise TooLargeError(
                f"to read every string in one way needs more than {most_states:,} states or {most_moves:,} moves "
                f"(states × columns): {machine.n_states:,} states combine in too many ways"
                + (", or with weights that drift apart as strings grow longer; weighted=False" if weighted else "")
            )
    stops = np.array([stop_of(machine, held, weighted=weighted) for held in sets])
    return merged(machine.columns, as_arrays(found), stops, weighted=weighted)


# Why an expression is refused: which part of it holds no string, and which has infinite mass.


def why_empty(expression: Expression, columns: LetterColumns) -> str:
    """The innermost part that is to blame for an empty language."""
    match expression:
        case ex.One():
            return f"{shown(expression)} is none of the {len(columns.letters)} {_letters_reasons(columns)}"
        case ex.Listed(entries):
            return _why_unspelled(entries[0][0], columns)
        case ex.Concatenation(parts):
            return next(why_empty(part, columns) for part in parts if _is_empty(part, columns))
        case ex.Alternation(parts):
            return why_empty(parts[0], columns) if parts else "there is nothing to choose from"
        case ex.Times(part, _, _) | ex.WeightedExpression(part, _) | ex.Repeat(part, _):
            return why_empty(part, columns)
        case ex.Both(left, right):
            return _why_disjoint(left, right, columns)
        case ex.NGrams():
            return f"{shown(expression)} lists none of the {len(columns.letters)} {_letters_reasons(columns)}"
        case ex.ConditionExpression():
            return "nothing in the condition fits"


def _why_unspelled(text: str, columns: LetterColumns) -> str:
    other = next(letter for letter in columns.spelled(text) if columns.column(letter) < 0)
    one = "symbol" if columns.over == "symbols" else "character of a symbol"
    return f"a list of words of which the vocabulary spells none: {text!r} holds {other!r}, which is no {one}"


def _why_disjoint(left: Expression, right: Expression, columns: LetterColumns) -> str:
    for side in (left, right):
        if _is_empty(side, columns):
            return why_empty(side, columns)
    return f"the two sides of & share no string: {shown(left)} and {shown(right)}"


def _is_empty(part: Expression, columns: LetterColumns) -> bool:
    return compiled(part, columns, weighted=False).is_empty


def _letters_reasons(columns: LetterColumns) -> str:
    return "symbols of the vocabulary" if columns.over == "symbols" else "characters of the vocabulary"


def what_is_infinite(expression: Expression, columns: LetterColumns) -> str:
    """A message that names the smallest repeated part which has no finite sum by itself."""
    repeats = [part for part in parts_of(expression) if isinstance(part, ex.Repeat)]
    which = next((f"{shown(part)} " for part in reversed(repeats) if _is_infinite(part, columns)), "")
    return (
        f"the weights of all strings must have a finite sum, but what is repeated {which and f'in {which}'}does not "
        "lose weight: the factors of all letters that it holds add up to 1 or more; give a smaller one (again=0.5, "
        "*<0.5>), or weighted=False, which only says what is allowed"
    )


def _is_infinite(part: Expression, columns: LetterColumns) -> bool:
    try:
        backward(compiled(part, columns))
    except InfiniteMassError:
        return True
    except BackgroundError:
        return False
    return False
