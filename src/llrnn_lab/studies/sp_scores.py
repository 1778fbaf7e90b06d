"""How good logical forms are: exact match, and whether a grammar accepts them.

    exact          the share of outputs that are the reference, symbol by symbol
    well formed    the share of outputs that the grammar derives

The judge of well-formedness is lark's own Earley parser, independent of `backgrounds.Grammar`: an output is written one
symbol a line, and every terminal of the grammar must match a whole line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError, CorpusError, MissingExtraError
from llrnn.ground.files import StrPath

Words = tuple[str, ...]


class WellFormed:
    """Whether symbols are a sentence of a grammar in lark's notation."""

    def __init__(self, grammar: str, start: str = "start") -> None:
        lark = _lark()

        def whole_line(terminal: Any) -> None:
            terminal.pattern = lark.lexer.PatternRE(f"(?:{terminal.pattern.to_regexp()})\n", terminal.pattern.flags)

        try:
            self._parser = lark.Lark(grammar, start=start, parser="earley", edit_terminals=whole_line)
        except lark.exceptions.LarkError as error:
            raise ConfigError(f"this is no grammar in lark's notation: {error}") from error
        self._wrong = lark.exceptions.UnexpectedInput
        self.check = lru_cache(maxsize=100_000)(self._check)  # outputs come again

    @classmethod
    def from_file(cls, path: StrPath, start: str = "start") -> WellFormed:
        return cls(Path(path).read_text(encoding="utf8"), start)

    def _check(self, symbols: Words) -> bool:
        try:
            self._parser.parse("".join(f"{symbol}\n" for symbol in symbols))
        except self._wrong:
            return False
        return True


def _lark() -> Any:
    try:
        import lark
        import lark.lexer
    except ImportError:
        raise MissingExtraError("lark", "grammar") from None
    return lark


def scores(references: Sequence[Words], outputs: Sequence[Words], judge: WellFormed) -> dict[str, Any]:
    """The figures of a system on a text; `right` has the counts that a job tells."""
    if not references or len(references) != len(outputs):
        raise CorpusError(f"an output for each reference is required, found {len(outputs)} for {len(references)}")
    right = sum(found == wanted for found, wanted in zip(outputs, references, strict=True))
    formed = sum(judge.check(found) for found in outputs)
    return {
        "exact": right / len(references),
        "well_formed": formed / len(references),
        "right": {"all": {"right": right, "said": len(references)}},
    }
