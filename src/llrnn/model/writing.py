"""Text from conditions: what has to happen before a model writes from a condition, and after.

    condition = read_condition(model, "inform(name='trattoria contadina';pricerange=moderate)")
    write(model, [condition], beam=5)

Before: the text of a condition is read as the conditions of the training text were, and words that the model does not
list, of the condition or of a table that it consults, are temporarily added. After: placeholders become values again
(where the model was trained on delexicalised text).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from llrnn.ground.errors import ConfigError, CorpusError, warn
from llrnn.knowledge.contextual.lookup import Lookup
from llrnn.model.decode import Generated, Greedy, Strategy, beam_search_each, generate_each
from llrnn.model.network import LLRNN
from llrnn.model.words import try_add_from_conditions, warn_unlisted
from llrnn.text.conditions import Conditions, lowercased, parse_act
from llrnn.text.corpus import relexicalise


def condition_kind(model: LLRNN) -> Conditions:
    """How the conditions of this model's training text were read."""
    return "act" if _corpus_settings(model).get("conditions") == "act" else "plain"


def read_condition(model: LLRNN, text: str) -> object:
    """A condition as this model's training text had them: a dialog act, JSON, or a text as it stands."""
    condition = _parsed(text, condition_kind(model))
    return lowercased(condition) if model.reads_lowercase else condition


def _parsed(text: str, kind: Conditions) -> object:
    if kind == "act":
        return parse_act(text)
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise CorpusError(f"column {error.pos + 1} of the condition {text!r}: JSON is required ({error.msg})") from None
    except (RecursionError, ValueError) as error:  # deeper than Python reads, or a number of thousands of digits
        raise CorpusError(f"the condition is JSON that Python cannot decode ({error}); flatten or shorten it") from None


def looks_at_conditions(model: LLRNN) -> bool:
    """Whether a condition could make a difference."""
    return model.controller.reads_conditions or any(process.reads_conditions for process in model.processes)


def check_condition(model: LLRNN, condition: object) -> None:
    """A condition where one is needed, and none where it would be ignored."""
    if condition is None and model.controller.reads_conditions:
        raise ConfigError("this model writes from a condition, and none was given; give one: --condition '...'")
    if condition is not None and not looks_at_conditions(model):
        raise ConfigError("this model does not look at conditions: it was trained without [condition]; leave it out")


def warn_of_unknown_names(model: LLRNN, conditions: Iterable[object]) -> None:
    """That acts or slots of conditions are new to the model, which ignores them: most likely they are misspelt."""
    found: dict[str, None] = {}
    for condition in conditions:
        found.update(dict.fromkeys(model.controller.unknown_names(condition)))
    if found:
        known = sorted(name for name in model.controller.known_names if name.isidentifier())
        near = [difflib.get_close_matches(name, known, n=1) for name in found]
        meant = [repr(one[0]) for one in near if one]
        advice = f"did you mean {', '.join(meant)}?" if meant else "check their spelling"
        listed = ", ".join(map(repr, [*found][:5])) + (", ..." if len(found) > 5 else "")
        warn(f"the model was trained without acts or slots of the name {listed}, and ignores them; {advice}")


def prepared(model: LLRNN, conditions: Sequence[object], tell: Callable[[str], None] = warn_unlisted) -> LLRNN:
    """The model with the words of these conditions, and of the tables that it consults, listed if it can be."""
    words = words_by_column(one for one in model.contextual if isinstance(one, Lookup))
    return try_add_from_conditions(model, conditions, words, tell)


def words_by_column(lookups: Iterable[Lookup]) -> dict[str, set[str]]:
    """The words of tables; columns of one name are one, whatever table they are of."""
    found: dict[str, set[str]] = {}
    for one in lookups:
        for column, words in one.words_by_column.items():
            found.setdefault(column, set()).update(words)
    return found


def write(
    model: LLRNN,
    conditions: Sequence[object],
    *,
    beam: int | None = None,
    strategy: Strategy | None = None,
    prefix: str | tuple[str, ...] = "",
    max_words: int = 60,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """A text for each condition: the best of a beam, or by a strategy (greedy by default)."""
    for condition in conditions:
        check_condition(model, condition)
    ready = prepared(model, conditions)
    if beam is not None:
        found = [
            best[0] for best in beam_search_each(ready, conditions, prefix=prefix, width=beam, max_words=max_words)
        ]
    else:
        found = generate_each(
            ready,
            conditions,
            prefix=prefix,
            strategy=strategy or Greedy(),
            max_words=max_words,
            generator=generator,
        )
    return [spoken(model, one, condition) for one, condition in zip(found, conditions, strict=True)]


def spoken(model: LLRNN, found: Generated, condition: object) -> Generated:
    """With values for the placeholders of a model that was trained on delexicalised text."""
    if not _corpus_settings(model).get("delexicalised"):
        return found
    return replace(found, words=tuple(relexicalise(found.words, condition)))


def _corpus_settings(model: LLRNN) -> dict[str, Any]:
    settings: dict[str, Any] = model.provenance.get("config", {}).get("corpus", {})
    return settings
