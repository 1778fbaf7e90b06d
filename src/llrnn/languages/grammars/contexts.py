"""An n-gram model over the letters, written out as an automaton: a state for each context that makes a difference.

    w(context, x, longest known suffix of context x) = p(x | context)             stop(context) = p(end | context)

Every state has a move for every letter that the model lists, so that the automaton has states × letters of them. What
is multiplied with it (a dictionary, say) looks ahead: the probabilities of all that can follow are summed exactly.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.letters import Columns, Letter
from llrnn.languages.grammars.moves import Machine, check_size, merged
from llrnn.languages.ngrams import EMPTY, UNKNOWN, NGramTable, Trie
from llrnn.text.vocabulary import EOS


def context_machine(table: NGramTable, columns: Columns, *, weighted: bool) -> Machine:
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


def _letters(table: NGramTable, columns: Columns) -> tuple[Ints, Ints]:
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


def _begun(columns: Columns, moves: tuple[Ints, Ints, Ints, Floats], log_stop: Floats, weighted: bool) -> Machine:
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
