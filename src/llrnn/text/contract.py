"""How a perplexity was counted, in one line that stands beside the figure, as sacreBLEU's signature does beside BLEU.

    reading:alone|words:12,345|end:yes|unknown:spelled 2,561|tokens:learnt|case:lower|llrnn:0.3.0

Figures may be compared where their lines agree, the number of spelled words apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from llrnn import __version__
from llrnn.ground.errors import ConfigError
from llrnn.text.conditions import Before
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary

Reading = Literal["alone", "running"]
LEFT_OUT = "left out"


@dataclass(frozen=True)
class Contract:
    """How the words behind a perplexity were read and counted; `str(contract)` is one line to put beside the number.

    reading     "alone": each sentence was read by itself; "running": with the text before it
    words       how many words were counted, ends of sentences included where `end`
    spelled     how many of them the model does not list, each with a probability of its own, numbers included
    unknown     how many words had no probability of their own, and
    treatment   what became of these: the symbol that stood for all, such as `<unk>`, or "left out" of the words
    tokens      the kind of tokeniser that cut the text; "given": the words came cut already
    case        "lower" where no word has a capital, else "mixed"
    end         whether ends of sentences were counted; not by a model of pieces, whose texts may go on
    """

    reading: Reading
    words: int
    spelled: int
    unknown: int
    treatment: str
    tokens: str
    case: Literal["lower", "mixed"]
    end: bool = True

    @classmethod
    def of(cls, corpus: Corpus, own: Vocabulary, words: int | None = None, **known: Any) -> Contract:
        """Return the contract (how words were read and counted) of a perplexity on a corpus.

        Every field follows from the corpus and the vocabulary unless it is given.

        `own`: the vocabulary of the model, before words of a running text are added; `words`: how many words were
        counted, None for all words and ends of sentences; `known`: further fields of the class, which replace what
        follows from the corpus, such as treatment="left out".
        """
        counts, kinds = corpus.counts(), Counter[str]()
        for kind, n in zip(own.kinds(list(counts)), counts.values(), strict=True):
            kinds[kind] += n
        case = "lower" if all(word == word.lower() for word in counts) else "mixed"
        found: dict[str, Any] = {"reading": reading_of(corpus), "tokens": corpus.cut_by, "case": case}
        found |= {"treatment": own.unknown or "unknown", "unknown": kinds["unknown"]}
        spelled = kinds.total() - kinds["listed"] - kinds["unknown"]
        return cls(
            **{**found, "words": corpus.tokens + len(corpus) if words is None else words, "spelled": spelled, **known}
        )

    def __str__(self) -> str:
        unlisted = {"spelled": self.spelled, self.treatment: self.unknown}
        told = " ".join(f"{what} {n:,}" for what, n in unlisted.items() if n) or "none"
        end = "yes" if self.end else "no"
        counted = f"reading:{self.reading}|words:{self.words:,}|end:{end}|unknown:{told}"
        return f"{counted}|tokens:{self.tokens}|case:{self.case}|llrnn:{__version__}"


def reading_of(corpus: Corpus) -> Reading:
    """Return "running" if a sentence of a corpus has the words before it as condition, as `Corpus.running` makes them.

    Else "alone": each sentence is read by itself.
    """
    return "running" if any(isinstance(one, Before) for one in corpus.conditions) else "alone"


def difference(contracts: Mapping[str, Contract]) -> str | None:
    """Return a message that names two perplexities which were counted differently, or None if all may be compared.

    `contracts`: how each was counted, by the name of the perplexity. They must be equal but for the number of spelled
    words, each of which has a probability of its own, as listed ones have.
    """
    for (first, one), (name, other) in pairwise(contracts.items()):
        if replace(one, spelled=0) != replace(other, spelled=0):
            return f"perplexities must be counted alike to be compared, found {one} ({first}) and {other} ({name})"
    return None


def require_comparable(contracts: Mapping[str, Contract]) -> None:
    """Raise a ConfigError where two perplexities were counted differently, so that they must not be compared.

    `contracts`: how each was counted, by the name of the perplexity; `difference` says what may differ.

    require_comparable({"a": evaluate(a, text).contract, "b": evaluate(b, text).contract})
    """
    if (found := difference(contracts)) is not None:
        raise ConfigError(f"{found}; evaluate both in the same way")
