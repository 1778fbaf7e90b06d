"""log p of words under a model of pieces, whose symbols are the tokens of a language model.

    p(w | c) = p(tokens of w | c) · P_B(c w) / P_B(c)

P_B(z) is the mass of the tokens that begin a word, or end the text, after the tokens z. A token of most language models
has its blank before it, so that only the token *after* a word tells that the word has ended: with P_B a word pays for
its own end, and not for the blank before it, and Σ_w p(w | c) = 1 (Pimentel and Meister 2024; Oh and Schuler 2024).

    word            what stands between white space, as minicons and studies of reading times have it: punctuation
                    without a blank before it belongs to its word
    begins a word   a token that begins with white space, or whatever follows one that ends with white space; EOS and
                    the other special tokens end what is before them
    first word      every token begins it: P_B = 1, there is no boundary to pay for
    several blanks  white space alone is no word: it belongs to the word after it; at the end of a text it is left out
    end             the text may go on behind its last word: its end is no word, and is not counted

The words of a text add up to log p of its tokens + log P_B behind the last one. A word is cut into tokens as the
tokenizer cuts it in the text; its other cuts are other sequences of tokens, and not added. `all_cuts` adds up those of
one word, behind a text in the cut of the tokenizer.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llrnn.inference.harness import language_models, spelled_by
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.model.decode import read_prefix
from llrnn.model.network import LLRNN
from llrnn.model.scoring import walk
from llrnn.text.contract import Contract
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.token_bytes import Spelled, token_bytes
from llrnn.text.tokenisers import Tokeniser, TokenPieces
from llrnn.text.vocabulary import Vocabulary

_KEPT = "_piece_words"  # where a tokeniser keeps them: looking at 50,000 tokens takes a moment
_AT_ONCE = 128  # rows of V numbers that are copied
_ORDER = count()  # of cuts with one probability
# −log p with its last token, the order, that token, what is left to spell, the state before the token
_Cut = tuple[float, int, int, bytes, ModelState]


class PieceWord(NamedTuple):
    """A word of a text with its log p in nats, and its tokens: pairs of a symbol and its own log p in nats."""

    word: str
    log_p: float
    tokens: tuple[tuple[str, float], ...]


class PieceWords:
    """Reads the words of texts, and their probabilities, from the tokens of a model of pieces.

    `vocabulary`: the tokens; `tokeniser`: writes what they spell; `special`: the ids of those that end what is before
    them, EOS among them; `bytes_as`: how tokens spell bytes. `PieceWords.of(model)` makes it.

        PieceWords.of(model).read(model, EncodedText.encode(corpus, model.vocabulary))[0][0].log_p
    """

    def __init__(
        self, vocabulary: Vocabulary, tokeniser: Tokeniser, special: Collection[int], bytes_as: Spelled = "bytes"
    ) -> None:
        self._symbols, self._write = vocabulary.symbols, tokeniser.detokenise
        self._vocabulary, self._bytes_as = vocabulary, bytes_as
        spelled = [tokeniser.detokenise(["x", one])[1:] for one in vocabulary.symbols]  # the first loses its blank
        self._starts = [n in special or one[:1].isspace() for n, one in enumerate(spelled)]
        self._ends, self._blank = [one[-1:].isspace() for one in spelled], [one.isspace() for one in spelled]
        self.begins = torch.tensor(self._starts).nonzero()[:, 0]  # ids of what begins a word, or ends the text

    @classmethod
    def of(cls, model: LLRNN) -> PieceWords | None:
        """Return what reads the words of a model of pieces, one whose tokeniser is of that kind; None for others."""
        own = model.tokeniser
        if isinstance(own, TokenPieces) and _KEPT not in vars(own):
            tokenizers = [one.tokenizer for one in language_models(model.background)]
            special = {one for tokenizer in tokenizers for one in tokenizer.all_special_ids}
            vars(own)[_KEPT] = cls(model.vocabulary, own, special | {model.vocabulary.eos}, spelled_by(model))
        return vars(own).get(_KEPT)

    def cut(self, tokens: Sequence[int]) -> list[int]:
        """Return where the words of a text begin, and where the last one ends, as indices of its tokens (their ids).

        They are one more than there are words. The first is 0; white space at the end of the text is beyond the last.
        """
        edges, is_word = list[int](), False
        for place, token in enumerate(tokens):
            if not edges or (is_word and (self._starts[token] or self._ends[tokens[place - 1]])):
                edges.append(place)
                is_word = False
            is_word = is_word or not self._blank[token]
        return [*edges, len(tokens)] if is_word else edges or [0]

    def read(self, model: LLRNN, text: EncodedText) -> list[list[PieceWord]]:
        """Return the words of each sentence of a text, with log p in nats, in the order of the text.

        `model`: the one whose tokens these are.
        """
        rows = [words for batch, p in walk(model, text) for words in self.scored(p, batch)]
        order = np.argsort(np.argsort(text.lengths, kind="stable"))  # batches have the shorter ones first
        return [rows[place] for place in order]

    @torch.no_grad()
    def scored(self, p: Distribution, batch: Batch) -> list[list[PieceWord]]:
        """Return the words of each row of a batch of whole texts, with log p in nats, −∞ where it is impossible.

        `p`: the distributions at the unmasked positions of the batch, of which the last one in each row predicts EOS.
        """
        rows = [row[kept].tolist()[:-1] for row, kept in zip(batch.targets, batch.mask, strict=True)]
        cuts, starts = [self.cut(row) for row in rows], np.cumsum([0, *(len(row) + 1 for row in rows)]).tolist()[:-1]
        texts = [*zip(rows, cuts, starts, strict=True)]
        asked = [start + edge for row, cut, start in texts for edge in cut if self._has_boundary(row, edge)]
        log_p, masses = p.log_prob(batch.picked(batch.targets)).tolist(), iter(self.log_begins(p, asked).tolist())
        found = list[list[PieceWord]]()
        for row, cut, start in texts:
            bounds = [next(masses) if self._has_boundary(row, edge) else 0.0 for edge in cut]
            named = [*zip(map(self._symbols.__getitem__, row), log_p[start : start + len(row)], strict=True)]
            own = zip(pairwise(cut), pairwise(bounds), strict=True)
            found.append([self._word(named[i:j], after - before) for (i, j), (before, after) in own])
        return found

    @torch.no_grad()
    def all_cuts(self, model: LLRNN, before: Sequence[str], word: str, *, most: int = 64) -> tuple[float, float]:
        """Return log p of a word behind a text, summed over all its cuts into tokens: a lower and an upper bound.

        `before`: the tokens of the text (`model.read`); `word`: one word without white space; `most`: how many
        tokens are followed, those of the likeliest cuts first. What was not followed is the difference of the bounds.

            PieceWords.of(lm).all_cuts(lm, lm.read("It was in New"), "York")
        """
        p, state = read_prefix(model, tuple(before), [None])
        ids, found = model.vocabulary.symbols_of(before), 0.0
        has_boundary = self._has_boundary(ids, len(ids))
        bound = float(self.log_begins(p, [0])) if has_boundary else 0.0
        begun = sorted(self._beginnings(p, state, -bound, (" " * has_boundary + word).encode()))
        while begun and most:
            cost, _, x, rest, state = heapq.heappop(begun)
            (p, state), most = model.step(state, [x]), most - 1
            if not rest:
                found += math.exp((0.0 if self._ends[x] else float(self.log_begins(p, [0]))) - cost)
            for one in self._beginnings(p, state, -cost, rest) if rest else ():
                heapq.heappush(begun, one)
        most_of_all = found + math.fsum(math.exp(-cost) for cost, *_ in begun)
        return math.log(found) if found else -math.inf, math.log(most_of_all) if most_of_all else -math.inf

    def _beginnings(self, p: Distribution, state: ModelState, log_p: float, rest: bytes) -> Iterator[_Cut]:
        """Yield the tokens that spell a beginning of `rest`, or it and white space, behind what has `log_p`."""
        tokens = token_bytes(self._vocabulary, self._bytes_as)
        cuts = [(tokens.symbol_of[rest[:n]], n) for n in range(1, len(rest) + 1) if rest[:n] in tokens.symbol_of]
        longer = tokens.beginning_with(rest)
        cuts += [(x, len(rest)) for one, x in longer if self._ends[x] and one.split() == rest.split()]
        own = p.log_probs()[0, [x for x, _ in cuts]].tolist()
        yield from ((-log_p - log, next(_ORDER), x, rest[n:], state) for (x, n), log in zip(cuts, own, strict=True))

    def _has_boundary(self, row: Sequence[int], edge: int) -> bool:
        """Return whether only some tokens begin a word at index `edge` of a text; all do at 0 and after white space."""
        return edge > 0 and not self._ends[row[edge - 1]]

    def log_begins(self, p: Distribution, positions: Sequence[int]) -> Tensor:
        """Return log P_B, of what begins a word or ends the text, at positions of `p`, (len(positions),) float64."""
        log_p, device = p.log_probs(), p.h.device
        begins, places = self.begins.to(device), torch.tensor(positions, dtype=torch.long, device=device)
        parts = (log_p[part].index_select(1, begins) for part in torch.split(places, _AT_ONCE))  # not (N, V) once more
        return torch.cat([torch.logsumexp(part, -1) for part in parts]).double()

    def _word(self, tokens: Sequence[tuple[str, float]], bounds: float) -> PieceWord:
        log_p = math.fsum(log for _, log in tokens) + bounds
        word = self._write([symbol for symbol, _ in tokens]).strip()
        return PieceWord(word, -math.inf if math.isnan(log_p) else log_p, tuple(tokens))


def contract_of_words(corpus: Corpus, vocabulary: Vocabulary, words: Sequence[str]) -> Contract:
    """Return how the words of a corpus of tokens were counted: `words`, without the ends of its texts."""
    case = "lower" if all(word == word.lower() for word in words) else "mixed"
    return Contract.of(corpus, vocabulary, len(words), case=case, end=False)
