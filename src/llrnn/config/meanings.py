"""Slots of the corpus in a configuration: what is copied and what is open, found in the training text.

    slots = ["{slots}"]                 every slot whose values sentences say, one by one
    without = ["Value:{open}"]          of these, the ones with values that nobody has seen: names, numbers, addresses

A slot is said where at least half of its values stand in their sentences, word by word. It is open where one value in a
hundred or more is new, by the estimate of Good and Turing: (values that were seen once) / (values that were seen).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from llrnn.config.keys import Config
from llrnn.ground.errors import ConfigError
from llrnn.text.conditions import values_of
from llrnn.text.corpus import Corpus, find_values

SLOTS, OPEN = "{slots}", "{open}"
_SAID, _NEW = 0.5, 0.01  # shares


class FoundSlots(NamedTuple):
    """The slots whose values are said, the most frequent first, and those of them that are open."""

    said: tuple[str, ...]
    open: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> FoundSlots:
        """FoundSlots.of(corpus).open == ("name", "phone")"""
        values: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        spoken: Counter[str] = Counter()
        for sentence in corpus:
            for slot, words in values_of(sentence.condition):
                values[slot][words] += 1
                spoken[slot] += bool(find_values(sentence.words, [words]))
        often = sorted(values, key=lambda slot: (-values[slot].total(), slot))
        said = tuple(slot for slot in often if spoken[slot] >= _SAID * values[slot].total())
        new = {slot: sum(count == 1 for count in values[slot].values()) / values[slot].total() for slot in said}
        return cls(said, tuple(slot for slot in said if new[slot] >= _NEW))


def names_slots(config: Config) -> bool:
    """Whether a configuration leaves slots to the corpus."""
    return _holds(config.model_dump(mode="json", exclude_unset=True))


def with_slots(config: Config, train: Corpus) -> Config:
    """The configuration with the slots of the training text in their places."""
    found = FoundSlots.of(train)
    if not found.said:
        raise ConfigError(
            f"{SLOTS} and {OPEN} stand for slots of conditions whose values sentences say, found none in {train.name}; "
            "give a text with conditions, or name slots"
        )
    return Config.model_validate(_filled(config.model_dump(mode="json", exclude_unset=True), found))


def _holds(value: object) -> bool:
    if isinstance(value, Mapping | list):
        return any(map(_holds, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str) and (SLOTS in value or OPEN in value)


def _filled(value: Any, found: FoundSlots) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, found) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    made: list[Any] = []
    for one in value:
        which = next((name for name in (SLOTS, OPEN) if isinstance(one, str) and name in one), None)
        if which is None:
            made.append(_filled(one, found))
        else:
            made += [one.replace(which, slot) for slot in (found.said if which == SLOTS else found.open)]
    return made
