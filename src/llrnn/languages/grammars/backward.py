"""What all ways from a state to an end weigh, exactly, although there are infinitely many.

    β(q) = stop(q) + Σ_c size(c) · Σ_q' w(q, c, q') · β(q')

States that reach each other form a component; components are solved one by one, those nearest to the end first: one
state without a move to itself is a sum, one with it is divided by 1 − w, more are a linear system y = b + M y.

Every system is scaled by the best single way d from each state: y = e^d·z, z = b·e^-d + e^-d M e^d z. Then all numbers
are at most 1, and z at least 1: nothing underflows, whatever weights are. A z ≥ 0 that solves an irreducible system
with b ≥ 0, b ≠ 0 exists if and only if the spectral radius ρ of M is below 1 (Perron-Frobenius), so that the solution
itself is the check; and z' = z + M z' says how far below, since 1 − ρ ≤ max z / z'.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.components import components
from llrnn.languages.grammars.moves import Machine

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


def backward(machine: Machine) -> Floats:
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


def _steps(machine: Machine) -> tuple[Ints, Ints, Floats]:
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
