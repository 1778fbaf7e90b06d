"""Contextual inputs: what follows the prefix, as an input of the network (the paper's ψ(C, x₁…x_t), equation 11).

    ψ_t = Σ_{f fires on x_t} E_f  +  Σ_k v_k(state_t) U_k            U learned, a row for each named number; 0 at first

A `ContextualInput` is a process like any other (`knowledge.process`): a state that begins with the condition and
follows the symbols, x_t included. What it says of a state is not a weight of words, but a vector of numbers with names.

    SlotProgress("name", "area")       how many values of the condition are unsaid, begun, said
    PredictedSlot(framed)              which slot the words before announce
    ConditionNumbers.fitted(conditions)    the numbers of a condition (equation 17), the same at every step
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import FeatureError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.backgrounds.neural import HuggingFace
from llrnn.knowledge.contextual.base import CopyProgress, Following, NamedProcess, Unmentioned, Value, said_of
from llrnn.knowledge.contextual.frames import Framed, FrameState
from llrnn.knowledge.process import S, Saved
from llrnn.text.conditions import NumericFields
from llrnn.text.vocabulary import Revision, Vocabulary


class ContextualInput(NamedProcess[S]):
    """Named numbers that follow the prefix and that the network reads beside the embedding of each word.

    A subclass has `initial(condition)`, the state before any word, `advance(state, symbol)`, the state after the word
    with this id, and `number(state)` or `numbers(states)`. With a word the network reads the number at the state after
    this word. `condition`: the input that the text is generated from, or None.

        class Depth(ContextualInput[int]):
            def initial(self, condition=None): return 0
            def advance(self, state, symbol): return state + (self.vocabulary.symbol(symbol) == "(")
            def number(self, state): return state / 10

    `names`: one for each number, where there are several.
    """

    def number(self, state: S) -> Value:
        """Return the number at a state as a float, or a sequence with one float for each of `names`."""
        found = self.numbers([state])[0].tolist()
        return found if len(self.names) > 1 else float(found[0])

    def numbers(self, states: Sequence[S]) -> Tensor:
        """Return the numbers at N states as a float32 tensor (N, k), k = len(names); by default made from `number`.

        Raises a FeatureError where `number` returns another count than k, or a number that is not finite; a TypeError
        if the subclass has neither method.
        """
        if type(self).number is ContextualInput.number:
            raise TypeError(f"{type(self).__name__} needs a method `number`, or `numbers` for a batch of states")
        width = len(self.names)
        answers = [self.number(state) for state in states]
        for n, answer in enumerate(answers):
            found = len(answer) if isinstance(answer, Sequence) else 1
            if found != width:
                raise FeatureError(f"{self!r} must say {width} numbers, one for each name, found {found} at state {n}")
        return self._numbers(answers, width, lambda n: f"state {n}").float()


class SlotProgress(Following[CopyProgress], ContextualInput[CopyProgress]):
    """A contextual input of the network: how many values of the condition are unsaid, begun and said in this sentence.

        SlotProgress("name", "area", "food")            three numbers for each; without names, of all slots together

    The condition is the input that the text is generated from, with slots that have values. The three numbers are in
    this order, slot by slot; a value is begun if the sentence ends with its first words but not all. States are those
    of `Copied`.
    """

    followed: Unmentioned

    def __init__(self, *slots: str) -> None:
        self.followed, self._slots = Unmentioned(*slots), slots

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{slot} {how}" for slot in self._slots or ("values",) for how in ("unsaid", "begun", "said"))

    def numbers(self, states: Sequence[CopyProgress]) -> Tensor:
        known: dict[int, Any] = {}
        rows = [said_of(state, known, self.followed.progress) for state in states]
        return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(len(states), len(self.names)))

    def saved(self) -> Saved:
        return Saved("slot_progress", {"slots": list(self._slots)})

    def __repr__(self) -> str:
        return f"SlotProgress({', '.join(map(repr, self._slots))})"


class PredictedSlot(Following[FrameState], ContextualInput[FrameState]):
    """A contextual input of the network: log p(s | the words before) − log p(s) for each slot s, one number each.

    It tells of which slot of the condition (input of a text) a value is likely to be said next. `framed`: the feature
    with the counts of what stands before values; the numbers are those of its `opinion`, in the order of its `slots`.

        PredictedSlot(Framed.counted(corpus))
    """

    followed: Framed

    def __init__(self, framed: Framed) -> None:
        self.followed = framed

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{slot} announced" for slot in self.followed.slots)

    def numbers(self, states: Sequence[FrameState]) -> Tensor:
        slots, opinions = self.followed.slots, map(self.followed.opinion, states)
        return torch.tensor([[opinion[slot] for slot in slots] for opinion in opinions]).view(len(states), len(slots))

    def saved(self) -> Saved:
        return Saved("predicted_slot", parts=(self.followed.saved(),))

    def __repr__(self) -> str:
        return f"PredictedSlot({self.followed!r})"


class ConditionNumbers(ContextualInput[tuple[float, ...]]):
    """A contextual input of the network: the numbers of a condition, such as {"price": 37, "stars": 4} or a vector.

    The condition is the input that a text is generated from, and must be given. Its numbers are the same at every step,
    standardised by the mean and standard deviation of the training conditions; a field that some of these lack adds a
    number that is 1 where it is missing, else 0.

    Example:

        ConditionNumbers.fitted(corpus.conditions)          # normalised by the mean and the deviation of training
    """

    needs_condition = True

    def __init__(self, fields: NumericFields) -> None:
        self.fields = fields

    @classmethod
    def fitted(cls, conditions: Iterable[object], names: Collection[str] = ()) -> ConditionNumbers:
        """Return the input with means and standard deviations of these conditions: records, or vectors of one length.

        `names`: the fields of records to use, in this order; empty means all, as they first appear, which must then be
        numbers. Raises a ConfigError where they are not. A field that never varies is divided by 1.
        """
        return cls(NumericFields.fitted(conditions, names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"C {name}" for name in self.fields.columns)

    def initial(self, condition: object = None) -> tuple[float, ...]:
        return tuple(self.fields.vector(condition))

    def numbers(self, states: Sequence[tuple[float, ...]]) -> Tensor:
        return torch.tensor(states, dtype=torch.float32).view(len(states), len(self.fields.columns))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        return Saved("condition_numbers", self.fields.settings())

    def __repr__(self) -> str:
        return f"ConditionNumbers({', '.join(self.fields.names)})"


class LMState(Following[tuple[int, ...]], ContextualInput[tuple[int, ...]]):
    """The contextual inputs that a language model as background has: its last hidden state, H numbers.

    They are divided by the root of their mean square. With the controller `Silent(H)` they are h itself, so that
    feature weights a = W h + c follow what the language model knows of the text, and no network runs beside it:

        LLRNN(vocabulary, background=lm, contextual_inputs=[LMState()], controller=Silent(lm.hidden), …)
    """

    followed: HuggingFace

    def bind(self, vocabulary: Vocabulary) -> Self:
        return NamedProcess.bind(self, vocabulary)  # what it follows is that of the model: `beside`

    def beside(self, background: Background) -> Self:
        if not isinstance(background, HuggingFace):
            raise FeatureError(f"{self!r} needs a language model as background, HuggingFace, found {background!r}")
        return self._changed(self.vocabulary, followed=background)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"h {n}" for n in range(self.followed.hidden))

    def numbers(self, states: Sequence[tuple[int, ...]]) -> Tensor:
        h = self.followed.answers(states).h
        return h * h.square().mean(1, keepdim=True).clamp_min(1e-12).rsqrt()

    def saved(self) -> Saved:
        return Saved("lm_state")
