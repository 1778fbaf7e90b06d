"""Peers that hold a text to a grammar: a bit for each token. Neither is needed; one that is absent is left out.

llguidance       the same grammar, in its own dialect of lark's notation. Two things are asked of it that are not its
                 defaults: blanks before and after a document, and all tokens that fit where the next characters
                 are certain (it would give only the one that it would cut there itself).
outlines-core    regular expressions only: JSON nested up to a depth. That is another, smaller language: where a
                 token would open a bracket too many it is forbidden (and so is `0.` as the first of a document). All
                 masks are made when it is built.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from llrnn_lab.bench.json_texts import GRAMMAR, cut

_BLANKS = r"[ \t\n\r]*"
_STRING = r'"([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
# 0 or minus infinity for the bits of each byte
_OF_BYTE = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0.0, -np.inf)


class Engine(ABC):
    """One contender: a grammar over tokens, at a place in a document."""

    name: ClassVar[str]
    note: ClassVar[str] = ""
    vocabulary_seconds: float = 0.0  # of building it, what is done once for a vocabulary, whatever the grammar

    @abstractmethod
    def begin(self) -> None:
        """Before the first token of a document."""

    @abstractmethod
    def ask(self) -> object:
        """What may follow, in the form that the engine gives it in."""

    @abstractmethod
    def add(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        """The same, added to a row of logits."""

    @abstractmethod
    def advance(self, token: int) -> object:
        """The next token is this one."""

    @abstractmethod
    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens may follow, (V,)."""


class _Masks(Engine):
    """An engine that writes a bit for each token."""

    def __init__(self, size: int) -> None:
        self._bits = np.zeros(-(-size // 32) * 4, dtype=np.uint8)
        self._values = np.zeros((len(self._bits), 8), dtype=np.float32)
        self._row = torch.from_numpy(self._values.reshape(-1)[:size])
        self._of_byte = _OF_BYTE.astype(np.float32)
        self._where = self._bits.ctypes.data, len(self._bits)
        self._size = size

    def add(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        # faster than what the peers bring along, which has to be compiled
        self.ask()
        np.take(self._of_byte, self._bits, axis=0, out=self._values, mode="clip")
        torch.add(logits, self._row, out=out)

    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        self.ask()
        return np.unpackbits(self._bits, bitorder="little")[: self._size].astype(np.bool_)


class LLGuidance(_Masks):
    """llguidance, by its matcher."""

    name = "llguidance"

    def __init__(self, module: Any, tokens: Sequence[str], eos: int) -> None:
        super().__init__(len(tokens))
        begun = time.perf_counter()
        tokenizer = module.LLTokenizer(module.TokenizerWrapper(_Tokens(tokens, eos)))
        self.vocabulary_seconds = time.perf_counter() - begun
        self._matcher = module.LLMatcher(tokenizer, module.LLMatcher.grammar_from_lark(_dialect()))
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())
        self.ask()

    def begin(self) -> None:
        self._matcher.reset()

    def ask(self) -> object:
        return self._matcher.unsafe_compute_mask_ptr(*self._where)

    def advance(self, token: int) -> object:
        return self._matcher.consume_token(token)


def _dialect() -> str:
    """The grammar for llguidance: blanks at both ends have to be asked for, and nothing is to be forced."""
    options = '%llguidance {"allow_initial_skip": true, "no_forcing": true}\n'
    return options + GRAMMAR.replace("start: value", "start: value WS?")


class _Tokens:
    """What llguidance asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[str], eos: int) -> None:
        self.eos_token_id, self.special_token_ids = eos, [eos]
        self.tokens = [token.encode() for token in tokens]
        self._ids = {token: number for number, token in enumerate(tokens) if number != eos}

    def __call__(self, text: str | bytes) -> list[int]:
        return cut(text if isinstance(text, str) else text.decode(), self._ids)


class Outlines(_Masks):
    """outlines-core, by its guide."""

    name = "outlines-core"
    note = "outlines-core knows JSON nested up to a depth only, and makes all masks when it is built"

    def __init__(self, module: Any, tokens: Sequence[str], eos: int, depth: int) -> None:
        super().__init__(len(tokens))
        begun = time.perf_counter()
        listed = {token: [number] for number, token in enumerate(tokens) if number != eos}
        vocabulary = module.Vocabulary(eos, listed)
        self.vocabulary_seconds = time.perf_counter() - begun
        self._guide = module.Guide(module.Index(nested_json(depth), vocabulary))
        self._where = self._bits.ctypes.data, len(self._bits) // 4
        self.ask()

    def begin(self) -> None:
        self._guide.reset()

    def ask(self) -> object:
        return self._guide.write_mask_into(*self._where, 4)

    def advance(self, token: int) -> object:
        return self._guide.advance(token, False)


def nested_json(depth: int) -> str:
    """A regular expression for JSON with brackets in brackets up to a depth."""
    plain = f"{_STRING}|{_NUMBER}|true|false|null"
    value = f"({plain})"
    for _ in range(depth):
        array, pair = _listed(value), _listed(f"{_STRING}{_BLANKS}:{_BLANKS}{value}")
        value = rf"({plain}|\[{array}\]|\{{{pair}\}})"
    return f"{_BLANKS}{value}{_BLANKS}"


def _listed(one: str) -> str:
    return f"{_BLANKS}({one}{_BLANKS}(,{_BLANKS}{one}{_BLANKS})*)?"


def installed(name: str) -> Any:
    """A module, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
