"""n-grams and constraints as weighted automata, in the text of OpenFst: what a decoder composes with.

    0 3 chat chat 1.204          from, to, input and output label, weight: −log p, natural, in the tropical semiring
    3 0.693                      a state in which a sentence may end, and −log p of its end

n-grams: a state is a context, and the first one that of the beginning of a sentence. A word leads to the longest
context that is listed; everything else goes through one arc to the shorter context, of weight −log of the back-off.
Its label is `#phi`, followed only where no other arc of the state has the word (OpenFst's phi matcher): then every
sentence has exactly one path, and its weight is −log p. As `<eps>`, which every tool knows, a sentence has a path for
each way to back off as well, and the best one may be cheaper than −log p: the usual approximation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.ground.files import StrPath, write_lines
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.languages.ngrams import EMPTY, NGramTable, Trie, written_out

EPSILON, PHI = "<eps>", "#phi"
Arc = tuple[int, int, str, float]  # from, to, label, weight


@dataclass(frozen=True)
class Fst:
    """An acceptor: the start is state 0."""

    words: tuple[str, ...]  # that label arcs, back-off aside
    arcs: list[Arc]
    finals: dict[int, float]
    backoff: str | None = None  # the label of back-off arcs

    @property
    def states(self) -> int:
        """How many."""
        return len({arc[0] for arc in self.arcs} | {arc[1] for arc in self.arcs} | {*self.finals})

    def lines(self) -> Iterator[str]:
        """Its text; the first line belongs to the first state."""
        for source, target, label, weight in sorted(self.arcs, key=lambda arc: arc[0]):
            yield f"{source}\t{target}\t{label}\t{label}\t{weight:.9g}"
        for state, weight in sorted(self.finals.items()):
            yield f"{state}\t{weight:.9g}"

    def symbols(self) -> Iterator[str]:
        """Its symbol table: `<eps>` is 0, and `#phi`, where there is one, the last."""
        labels = [EPSILON, *self.words, *([PHI] if self.backoff == PHI else [])]
        return (f"{label}\t{number}" for number, label in enumerate(labels))


def ngram_fst(table: NGramTable, *, backoff: str = PHI) -> Fst:
    """The automaton of an n-gram model; `backoff` is the label of back-off arcs, `#phi` or `<eps>`.

    write_fst(ngram_fst(read_arpa("corpus.arpa")), "corpus.fst.txt", "corpus.syms")
    """
    if backoff not in (PHI, EPSILON):
        raise ConfigError(f"back-off arcs are labelled {PHI} or {EPSILON}, found {backoff!r}; choose one")
    trie = Trie.from_table(written_out(table))
    words, eos = list(table.symbols), table.eos
    start = eos if bool(trie.matters[eos]) else EMPTY
    contexts = np.flatnonzero(trie.matters[:-1].numpy())
    order = [start, *(node for node in contexts.tolist() if node != start), *([EMPTY] if start != EMPTY else [])]
    number = {node: place for place, node in enumerate(order)}
    nodes = torch.tensor([node for node in order if node != EMPTY], dtype=torch.long)
    shorter = _shorter(trie, nodes)
    weight = torch.where(shorter != EMPTY, trie.backoff[shorter], 0.0) - trie.backoff[nodes]
    rows = zip(nodes.tolist(), shorter.tolist(), weight.tolist(), strict=True)
    arcs = [(number[node], number[below], backoff, own) for node, below, own in rows]
    arcs += _word_arcs(trie, number, nodes, words, eos)
    ends, _ = trie.log_prob_of(torch.tensor(order), torch.full((len(order),), eos))
    return Fst(tuple(word for word in words if word != words[eos]), arcs, dict(enumerate((-ends).tolist())), backoff)


def _shorter(trie: Trie, nodes: Tensor) -> Tensor:
    """The state that each backs off to: its longest suffix that is one."""
    found = torch.where(trie.level[nodes] > 1, trie.suffix[nodes], EMPTY)
    while bool((again := (found != EMPTY) & ~trie.matters[found]).any()):
        further = torch.where(trie.level[found] > 1, trie.suffix[found], EMPTY)
        found = torch.where(again, further, found)
    return found


def _word_arcs(trie: Trie, number: dict[int, int], nodes: Tensor, words: list[str], eos: int) -> Iterator[Arc]:
    """The words that contexts list, and all words behind the empty one, each with the state that it leads to."""
    count = trie.children[nodes]
    which = torch.repeat_interleave(count)
    children = torch.arange(len(which)) - (count.cumsum(0) - count)[which] + trie.first_child[nodes][which]
    source = torch.cat([nodes[which], torch.full((trie.n_words,), EMPTY)])
    listed = torch.cat([children, torch.arange(trie.n_words)])
    own = trie.word[listed]
    state = trie.states(source, own[:, None])[:, 0]
    state = torch.where(trie.matters[state], state, EMPTY)
    for node, word, after, log_p in zip(
        source.tolist(), own.tolist(), state.tolist(), trie.log_prob[listed].tolist(), strict=True
    ):
        if word != eos and log_p > -np.inf:
            yield number[node], number[after], words[word], -log_p


def constraint_fst(constraint: Constraint, *, most: int = 100_000) -> Fst:
    """The automaton of a constraint that is bound to a vocabulary; one with more than `most` states is refused.

    constraint_fst(backgrounds.Automaton("le ( petit )* chat", weighted=False).bind(model.vocabulary))
    """
    vocabulary = constraint.vocabulary
    words = tuple("_".join(word.split()) for word in vocabulary.symbols)
    begin = constraint.initial()
    number, queue = {_key(constraint, begin): 0}, [begin]
    arcs, finals = list[Arc](), dict[int, float]()
    for place, state in enumerate(queue):  # it grows as states are found
        row = constraint.prior([state]).dense(1).log_b[0].double()
        for symbol in torch.nonzero(row > -np.inf)[:, 0].tolist():
            if symbol == vocabulary.eos:
                finals[place] = 0.0 - float(row[symbol])
                continue
            after = constraint.advance(state, symbol)
            key = _key(constraint, after)
            if key not in number:
                number[key] = len(queue)
                queue.append(after)
            if len(queue) > most:
                raise ConfigError(
                    f"an automaton of at most {most:,} states is required, found more: a grammar with nested brackets "
                    "has no end of them; give --longest, or a pattern"
                )
            arcs.append((place, number[key], words[symbol], 0.0 - float(row[symbol])))
    return Fst(tuple(word for n, word in enumerate(words) if n != vocabulary.eos), arcs, finals)


def _key(constraint: Constraint, state: object) -> object:
    """What tells states apart: the node, and how much was read where there is a longest text."""
    return (state.node, state.letters if constraint.longest is not None else 0)  # type: ignore[attr-defined]


def write_fst(fst: Fst, path: StrPath, symbols: StrPath) -> None:
    """Write the text for `fstcompile --isymbols=SYMBOLS --osymbols=SYMBOLS`, and the table of symbols."""
    _checked(fst.words)
    write_lines(path, fst.lines())
    write_lines(symbols, fst.symbols())


def _checked(words: Iterable[str]) -> None:
    for word in words:
        if word.split() != [word] or word in (EPSILON, PHI):
            raise ConfigError(f"labels have no blanks and are not {EPSILON} or {PHI}, found {word!r}; rename it")


def symbols_beside(path: Path) -> Path:
    """Where the table of symbols goes: NAME.fst.txt has NAME.syms beside it."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".fst") + ".syms")
