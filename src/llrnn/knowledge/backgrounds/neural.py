"""Another trained model as background: where it ends, the network begins.

    log b(K, x) = log p'(x | K)            p' is frozen: it is asked, and learns nothing

The state of a sequence is the inner model's state before the last word, and that word. So a batch of states is answered
by one step of the inner model, and no state holds a row of |V| numbers.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError, CheckpointError, MissingExtraError, VocabularyError
from llrnn.ground.files import open_file, read_file
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.process import Batch, PackedStates, S, Saved
from llrnn.layer.priors import DensePrior, LazyPrior, Prior
from llrnn.text.corpus import Corpus
from llrnn.text.tokenisers import NO_TOKEN, symbol_of
from llrnn.text.vocabulary import EOS, Vocabulary


class Place(NamedTuple):
    """The state of a `Model` background for one sequence: the inner model's state before its last word, and that word.

    `before`: a `ModelState` of one row; `word`: its id, still unread; None at the very start.
    """

    before: Any
    word: int | None  # None at the very start


class LMAnswer(NamedTuple):
    """What a language model says at N places: log p of its V tokens, (N, V), and its last hidden state, (N, H)."""

    log_p: Tensor
    h: Tensor


@dataclass(frozen=True, eq=False)
class LazyAnswers(PackedStates[S]):
    """A batch of N states of a language model of which only what it says there is kept, computed on first use.

    `n`: N; `make`: a function without arguments that returns it, called when `answer` is first read.
    """

    make: Callable[[], LMAnswer]

    @cached_property
    def answer(self) -> LMAnswer:
        """What the language model says after each of N states; computed once."""
        return self.make()

    def taken(self, places: Sequence[int]) -> LazyAnswers[S]:
        return LazyAnswers(len(places), lambda: LMAnswer(*(part[list(places)] for part in self.answer)))


@dataclass(frozen=True, eq=False)
class Scanned(PackedStates[Place]):
    """A batch of states of a `Model` background at N positions: the inner model's next-word distributions there.

    pieces      `Distribution` objects of the inner model, each over some of the positions
    order       (N,) the index of each position in the concatenation of the pieces
    """

    pieces: Sequence[Any]
    order: Tensor

    def gathered(self, asked: Callable[[Any], Tensor]) -> Tensor:
        """Return asked(d) of all pieces d, (positions of d, …) each, as one tensor by position, (N, …)."""
        return torch.cat([asked(distribution) for distribution in self.pieces])[self.order]

    @cached_property
    @torch.no_grad()
    def log_b(self) -> Tensor:
        """log p of every symbol of the vocabulary at each of N positions, (N, V); computed once."""
        return self.gathered(lambda distribution: distribution.log_probs())

    @torch.no_grad()
    def log_prob(self, position: Tensor, word: Tensor) -> Tensor:
        """Return log p of the word with id `word[e]` at `position[e]`, (E,); positions must be sorted.

        Nothing of size N × V is made.
        """
        place, start = self.order[position], 0
        found: Tensor = self.pieces[0].h.new_zeros(len(word))
        for piece in self.pieces:
            own = (start <= place) & (place < start + piece.n)
            found[own] = piece.log_prob(word[own], place[own] - start)
            start += piece.n
        return found

    def prior(self, n_symbols: int) -> LazyPrior:
        return LazyPrior((self.n, n_symbols), self.log_prob, lambda: self.log_b, self.pieces[0].h)


class Model(Background[Place]):
    """A background (prior over the next word) that is a trained, frozen LLRNN: log b(K, x) = log p'(x | K).

    Both models have the same vocabulary.

    `model`: used and not copied, in eval mode; it is no submodule of the model that it serves, and follows it to its
    device. It is not cross-fitted: trained on the same text, it would be over-confident there, so train it on another.

        Model(llrnn.load("runs/base"))
    """

    def __init__(self, model: Any) -> None:
        self.model = model.eval()  # an `LLRNN`, which stands in a later room

    def bind(self, vocabulary: Vocabulary) -> Self:
        require_same_symbols(
            repr(self), self.model.vocabulary, vocabulary, "train both models with one vocabulary: model.vocabulary"
        )
        return super().bind(vocabulary)

    @property
    def reads_conditions(self) -> bool:
        parts = (self.model.controller, *self.model.processes)
        return any(part.reads_conditions for part in parts)

    def initial(self, condition: object = None) -> Place:
        return Place(self.model.start([condition]), None)

    def advance(self, state: Place, symbol: int) -> Place:
        return Place(self._fed([state]), symbol)

    @torch.no_grad()
    def follow(self, states: Sequence[Place], batch: Batch) -> tuple[Scanned, Sequence[Place]]:
        inputs, mask = batch.inputs, batch.mask
        self._move(inputs.device)
        before, pieces = self._fed(states), []
        if inputs.shape[1] > 1:  # all columns but the last, before which the states are kept
            distribution, before = self.model.scan(Batch(inputs[:, :-1], inputs[:, :-1], mask[:, :-1]), before)
            pieces.append(distribution)
        pieces.append(self.model.scan(Batch(inputs[:, -1:], inputs[:, -1:], mask[:, -1:]), before)[0])
        after = [Place(row, word) for row, word in zip(before.rows(), inputs[:, -1].tolist(), strict=True)]
        is_last = torch.zeros_like(mask).index_fill(1, torch.tensor(mask.shape[1] - 1, device=mask.device), True)[mask]
        order = torch.argsort(torch.argsort(is_last.long(), stable=True))
        return Scanned(len(is_last), pieces, order), after

    @torch.no_grad()
    def prior(self, states: Sequence[Place]) -> Prior:
        if isinstance(states, Scanned):
            return states.prior(len(self.model.vocabulary))
        if not states:
            return DensePrior(torch.zeros(0, len(self.model.vocabulary), device=self.model.device))
        return DensePrior(self._step(states)[0].log_probs(), sums_to_one=True)

    def _move(self, device: torch.device) -> None:
        if self.model.device != device:
            self.model.to(device)

    def _fed(self, states: Sequence[Place]) -> Any:
        """Return the inner model's state, a `ModelState` of B rows, after each of B sequences has read its last word.

        `states`: the states of the B sequences; for one without a last word (`word` None) the row is its `before`,
        unchanged.
        """
        waiting = [n for n, state in enumerate(states) if state.word is not None]
        rows = [state.before for state in states]
        if waiting:
            _, after = self._step([states[n] for n in waiting])
            for row, n in zip(after.rows(), waiting, strict=True):
                rows[n] = row
        return rows[0].joined(rows, self.model.device)

    @torch.no_grad()
    def _step(self, states: Sequence[Place]) -> Any:
        """Run one step of the inner model for all sequences: read their last words, EOS where there is none yet.

        Returns (distributions of the next words, the inner model's new `ModelState`), a position or row for each of
        `states`.
        """
        before = states[0].before.joined([state.before for state in states], self.model.device)
        eos = self.model.vocabulary.eos
        return self.model.step(before, [eos if state.word is None else state.word for state in states])

    def saved(self) -> Saved:
        fields, tensors = self.model.described()
        if fields["controller"]["kind"] == "custom":  # a folder cannot make it: the whole background is given again
            return super().saved()
        # copies: one model may serve twice, and a file of tensors refuses memory that is shared
        return Saved("model", fields, {name: tensor.detach().clone() for name, tensor in tensors.items()})

    def __repr__(self) -> str:
        return f"Model({type(self.model).__name__} over {len(self.model.vocabulary)} symbols)"


def require_same_symbols(who: str, own: Vocabulary, given: Vocabulary, advice: str) -> None:
    """Raise a BackgroundError unless both vocabularies list the same symbols in the same order.

    who         what needs the vocabulary `own`, for the message
    own, given  the vocabulary that it needs, and the one found
    advice      what to do, for the message
    """
    if own.symbols == given.symbols:
        return
    differing = [n for n, (mine, other) in enumerate(zip(own, given, strict=False)) if mine != other]
    count = len(differing) + abs(len(own) - len(given))
    first = differing[0] if differing else min(len(own), len(given))
    mine, other = (v.symbols[first] if first < len(v) else "nothing" for v in (own, given))
    raise BackgroundError(
        f"{who} needs its own vocabulary, the same {len(own)} symbols in the same order, but {count} of the "
        f"{len(given)} given differ: symbol {first} is {mine!r} there and {other!r} here; {advice}"
    )


# A causal language model of the `transformers` library as background, over its own tokens.
#
#     log b(K, x) = log softmax(LM(K))[x]           frozen, in float32
#
# The state is the tuple of tokens that the LM sees. llrnn reads EOS first, which is the LM's own beginning of a text
# (its bos token, or its eos token where it has no other). A context longer than the LM's maximum is cut from the left:
# when it is full, its older half goes, so that a long text costs a pass for each half window and not one for each
# token. A state remembers where the keys and values of its tokens are: only what is new is read, all rows in one pass.
#
# Symbols are the LM's tokens, in the order of their ids; EOS is its eos token. What a symbol may not hold is escaped as
# in a Python string: white space and what is not printable as `\n` or `\x20`, a backslash as two. The empty token is
# `\-`, and an id that no token has is `\?17`. `token_of` undoes it.


_LOGITS_AT_ONCE = 2**27  # numbers: half a gigabyte


class Window(tuple[int, ...]):
    """The tokens that the language model sees, a tuple of ids, with a reference to their cached keys and values.

    The reference, `asked`, an `Asked` or None, is lost in copies and pickles: the tokens are then read again.
    """

    asked: Asked | None = None  # the question with whose answer the first of them were read

    def __reduce__(self) -> tuple[type[Window], tuple[tuple[int, ...]]]:
        return Window, (tuple(self),)

    @classmethod
    def after(cls, tokens: Iterable[int], asked: Asked | None) -> Window:
        made = cls(tokens)
        made.asked = asked
        return made


@dataclass(eq=False)
class Asked:
    """A request to a language model: a window of tokens, and the indices in it after which the next token is predicted.

    `window`: a `Window` of token ids; `places`: a list of indices from 0. Once answered, `reading` (a `Reading`) and
    `row` (an index into it) say where the keys and values of the window are cached.
    """

    window: Window
    places: list[int]
    reading: Reading | None = None
    row: int = 0


@dataclass(frozen=True, eq=False)
class Reading:
    """The key-value cache of B rows that a language model read as a batch.

    cache       a cache of transformers: keys and values of each layer, (B, heads, L, D), for L tokens
    real        (B, L) bool, False on padding
    """

    cache: Any
    real: Tensor  # (B, L) bool

    def selected(self, rows: Sequence[int]) -> tuple[Any, Tensor]:
        """Return a copy of the key-value cache with only these rows (indices below B), and their mask (rows, L).

        The mask is False on padding.
        """
        if list(rows) == list(range(len(self.real))):
            return _with_layers(self.cache, lambda numbers: numbers[0], [self.cache]), self.real
        index = torch.tensor(rows, device=self.real.device)
        return _with_layers(self.cache, lambda n: n[0].index_select(0, index), [self.cache]), self.real[index]


def _with_layers(cache: Any, make: Callable[[list[Tensor]], Tensor], sources: Sequence[Any]) -> Any:
    """Return a copy of a key-value cache whose keys and values in each layer are made from those of `sources`.

    make        a function from the list of that layer's keys (or values), one tensor from each of `sources`, to the new
                keys (or values)
    sources     key-value caches
    """
    made = copy.copy(cache)
    made.layers = [copy.copy(layer) for layer in cache.layers]
    for n, layer in enumerate(made.layers):
        layer.keys = make([source.layers[n].keys for source in sources])
        layer.values = make([source.layers[n].values for source in sources])
    return made


def _can_be_continued(cache: Any) -> bool:
    """Return whether a key-value cache of transformers can be extended: it has all tokens in all layers.

    False with a sliding window, and for None.
    """
    layers = getattr(cache, "layers", None) or [None]
    whole = [layer.keys for layer in layers if getattr(layer, "is_sliding", True) is False]
    return len(whole) == len(layers) and all(isinstance(keys, Tensor) and keys.dim() == 4 for keys in whole)


Known = tuple[Reading, int]  # and the row in it


def _side_by_side(known: Sequence[Known | None]) -> tuple[Any, Tensor | None]:
    """Return (one key-value cache, its mask (B, L)) for B rows, padded at the end to one length.

    known       where each row was read before: (reading, row in it), or None: nothing of it is cached

    The mask is False on padding. (None, None) if no row was read before.
    """
    groups: dict[int, tuple[Reading, list[int], list[int]]] = {}
    for n, one in enumerate(known):
        if one is not None:
            _, rows, places = groups.setdefault(id(one[0]), (one[0], [], []))
            rows.append(one[1])
            places.append(n)
    if not groups:
        return None, None
    readings = list(groups.values())
    if len(readings[0][1]) == len(known):
        return readings[0][0].selected(readings[0][1])
    longest = max(reading.real.shape[1] for reading, _, _ in readings)

    def fill(numbers: list[Tensor], axis: int = 2) -> Tensor:
        shape = list(numbers[0].shape)
        shape[0], shape[axis] = len(known), longest
        made = numbers[0].new_zeros(shape)
        for one, (_, rows, places) in zip(numbers, readings, strict=True):
            made.narrow(axis, 0, one.shape[axis])[places] = one[rows]
        return made

    caches = [reading.cache for reading, _, _ in readings]
    return _with_layers(caches[0], fill, caches), fill([reading.real for reading, _, _ in readings], 1)


class HuggingFace(Background[tuple[int, ...]]):
    """A prior over the next token that is a frozen causal language model of Hugging Face transformers.

    Its words are the tokens of its tokenizer.

    model, tokenizer    used and not copied, the model in eval mode; it follows the model that it serves to its device
    context             the most tokens that it sees; None: as many as it can

    Bind it to `llrnn.inference.hf.vocabulary(tokenizer)`; any other vocabulary raises a BackgroundError.

        background = HuggingFace(GPT2LMHeadModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    """

    def __init__(self, model: Any, tokenizer: Any, *, context: int | None = None) -> None:
        self._own = vocabulary_of(tokenizer)
        self._model, self.tokenizer = model.eval(), tokenizer
        self._begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        self._asked_context = context
        self._limit = _context_length(model, context)
        self._a_weight = next(model.parameters())  # to know its device, which `model.device` searches for
        self._takes = {"position_ids", "logits_to_keep"} & signature(model.forward).parameters.keys()
        self._folder: Path | None = None  # where its weights are for sure: a model in memory may have been changed
        if model.config.vocab_size < len(self._own):
            raise BackgroundError(
                f"the tokenizer knows {len(self._own)} tokens, but the language model answers for "
                f"{model.config.vocab_size} only; give the tokenizer that belongs to it"
            )

    @classmethod
    def from_folder(cls, path: str | PathLike[str], *, context: int | None = None) -> HuggingFace:
        """Return the background in a folder that `save_pretrained` of model and tokenizer wrote; nothing is downloaded.

        `context`: the most tokens that it sees, None: as many as it can. Raises a BackgroundError if the folder holds
        no such model, a MissingExtraError without the package transformers.
        """
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError:
            raise MissingExtraError("transformers", "hf") from None
        folder = Path(path).resolve()
        if not folder.is_dir():
            found = "this is a file" if folder.exists() else "there is no such folder"
            raise BackgroundError(
                f"{path}: a folder is required that save_pretrained of a language model wrote, but {found}"
            )
        try:
            for file in (one for one in folder.iterdir() if not one.is_dir()):
                open_file(file).close()  # transformers would wait for a pipe, and read a device without end
            with contextlib.redirect_stderr(io.StringIO()):  # on which transformers draws bars
                own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
                model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, **own)
                tokenizer = AutoTokenizer.from_pretrained(folder, **own)
        except Exception as error:  # safetensors and tokenizers raise no other
            reason = str(error).strip().partition("\n")[0]
            raise BackgroundError(
                f"{path}: not a causal language model with its tokenizer ({reason}); save both into the folder"
            ) from error
        made = cls(model, tokenizer, context=context)
        made._folder = folder
        return made

    @property
    def hidden(self) -> int:
        """The size H of its last hidden state, from which it computes its logits."""
        return int(self._model.get_output_embeddings().weight.shape[1])

    @property
    def state_key(self) -> object:
        return id(self._model), self._limit

    @property
    def boundary(self) -> frozenset[int]:
        """The ids of tokens that may precede a text: bos, eos and padding, as far as the tokenizer has them."""
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id)
        return frozenset(one for one in ids if one is not None)

    def bind(self, vocabulary: Vocabulary) -> Self:
        require_same_symbols(repr(self), self._own, vocabulary, "use llrnn.inference.hf.vocabulary(tokenizer)")
        return super().bind(vocabulary)

    reads_conditions = False

    def initial(self, condition: object = None) -> Window:
        return Window()

    def advance(self, state: tuple[int, ...], symbol: int) -> Window:
        if len(state) == self._limit:
            return Window((*state[-(self._limit // 2) :], symbol))
        return self._grown(state, [symbol])

    def _grown(self, state: tuple[int, ...], symbols: Sequence[int]) -> Window:
        """Return the window `state` (tuple of token ids) with `symbols` appended, which must fit.

        EOS at its very beginning becomes the model's bos token.
        """
        begins = not state and bool(symbols) and symbols[0] == self._own.eos
        tokens = [self._begin, *symbols[1:]] if begins else symbols
        return Window.after((*state, *tokens), getattr(state, "asked", None))

    def follow(
        self, states: Sequence[tuple[int, ...]], batch: Batch
    ) -> tuple[LazyAnswers[tuple[int, ...]], Sequence[Window]]:
        self._move(batch.inputs.device)
        asked: list[Asked] = []
        rows = zip(states, batch.inputs.tolist(), batch.mask.tolist(), strict=True)
        after = [self._read(state, row, kept, asked) for state, row, kept in rows]
        return LazyAnswers(batch.n_positions, lambda: self._answers(asked)), after

    def _read(self, state: tuple[int, ...], row: Sequence[int], kept: Sequence[bool], asked: list[Asked]) -> Window:
        """Append the requests for one row of token ids to `asked`; return the window after the row.

        Where a window of tokens is full, its later half becomes the beginning of a new one, with a request of its own.
        `state`: the window (tuple of token ids) before the row; `kept`: for each token, whether the prediction after it
        is needed.
        """
        window, done = self._grown(state, ()), 0
        while done < len(row):
            if len(window) == self._limit:
                window = Window(window[-(self._limit // 2) :])
            before, taken = len(window), min(self._limit - len(window), len(row) - done)
            window = self._grown(window, row[done : done + taken])
            places = [before + n for n in range(taken) if kept[done + n]]
            if places:
                asked.append(Asked(Window.after(window[: places[-1] + 1], window.asked), places))
                window.asked = asked[-1]
            done += taken
        return window

    def prior(self, states: Sequence[tuple[int, ...]]) -> Prior:
        return DensePrior(self.answers(states).log_p, sums_to_one=True)

    def answers(self, states: Sequence[tuple[int, ...]]) -> LMAnswer:
        """Return what the language model says after each of N states."""
        if isinstance(states, LazyAnswers):
            return states.answer
        windows = [self._grown(state or (self._begin,), ()) for state in states]
        return self._answers([Asked(window, [len(window) - 1]) for window in windows])

    def _move(self, device: torch.device) -> None:
        if self._a_weight.device != device:
            self._model.to(device)

    @torch.no_grad()
    def _answers(self, asked: Sequence[Asked]) -> LMAnswer:
        """Return what the language model says after each requested place, request by request, in float32.

        `asked`: the requests, in each of which `reading` and `row` are set to where its keys and values are cached.
        """
        longest = max((len(one.window) for one in asked), default=1)
        step = max(1, _LOGITS_AT_ONCE // (longest * self._model.config.vocab_size))
        parts = [self._pass(asked[start : start + step]) for start in range(0, len(asked), step)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return LMAnswer(*(torch.zeros(0, n, device=self._a_weight.device) for n in (len(self._own), self.hidden)))
        return LMAnswer(*map(torch.cat, zip(*parts, strict=True)))

    def _pass(self, asked: Sequence[Asked]) -> LMAnswer:
        """Run the language model once over the uncached tokens of several windows; return what it says, in float32.

        Windows are padded at the end; empty places of the cache are masked, and not counted in token positions. The
        rows of the result are the requested places of the first window, then those of the second, and so on.
        """
        device = self._a_weight.device
        known = [self._known(one.window, device) for one in asked]
        starts = [0 if one is None else one[1] for one in known]
        new = [one.window[start:] for one, start in zip(asked, starts, strict=True)]
        longest = max(map(len, new))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in new], device=device)
        past, real_past = _side_by_side([None if one is None else one[0] for one in known])
        lengths = torch.tensor([[len(row)] for row in new], device=device)
        real = torch.arange(longest, device=device) < lengths
        whole = real if real_past is None else torch.cat([real_past, real], 1)
        options: dict[str, Any] = {}
        width = whole.shape[1]
        if any(start + longest != width or len(row) < longest for start, row in zip(starts, new, strict=True)):
            options["attention_mask"] = whole.long()
            if "position_ids" in self._takes:
                options["position_ids"] = (whole.cumsum(1) - 1)[:, -longest:].clamp_min(0)
        row = [n for n, one in enumerate(asked) for _ in one.places]
        place = [place - start for one, start in zip(asked, starts, strict=True) for place in one.places]
        if (
            "logits_to_keep" in self._takes and len({*place}) < longest
        ):  # rows of V numbers at all others would be large
            kept = {column: n for n, column in enumerate(sorted({*place}))}
            options["logits_to_keep"], place = torch.tensor([*kept], device=device), [kept[one] for one in place]
        if self._model.training:  # eval() goes through all modules, which takes as long as a layer
            self._model.eval()
        read = list[Tensor]()  # by the matrix of the logits, at the same places
        note = self._model.get_output_embeddings().register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            out = self._model(input_ids=ids, past_key_values=past, use_cache=True, **options)
        finally:
            note.remove()
        cache = getattr(out, "past_key_values", None)
        reading = Reading(cache, whole) if _can_be_continued(cache) else None
        for n, one in enumerate(asked):
            one.window, one.reading, one.row = Window(one.window), reading, n  # what was read before may go
        logits = out.logits[..., : len(self._own)]
        every = sum(len(one.places) for one in asked) == ids.numel()
        found, h = ((part.flatten(0, 1) if every else part[row, place]).float() for part in (logits, read[0]))
        return LMAnswer(found - found.logsumexp(-1, keepdim=True), h)  # ten times as near to a sum of 1 as log_softmax

    def _known(self, window: Window, device: torch.device) -> tuple[Known, int] | None:
        """Return ((cached reading, row in it), number of tokens cached) for the beginning of a window.

        It returns None if nothing of the window is cached, or if the cache is on another device than `device`.
        """
        asked = window.asked
        if asked is None or asked.reading is None or not len(asked.window) < len(window):
            return None
        is_here = asked.reading.real.device == device
        return ((asked.reading, asked.row), len(asked.window)) if is_here else None

    def saved(self) -> Saved:
        """Return what a model folder stores: the path of the language model's folder, and a hash of its configuration.

        They are `fields` "folder" and "sha256" of the result, beside "context"; weights are not copied. For a language
        model that was given as an object there is no folder: only a description is returned, and it must be given again
        at loading.
        """
        if self._folder is None:
            return super().saved()
        fields = {"folder": str(self._folder), "sha256": _digest(self._folder), "context": self._asked_context}
        return Saved("huggingface", fields)

    @classmethod
    def restored(cls, saved: Saved) -> HuggingFace:
        """Make the background (prior over the next token) from what its method `saved` returned.

        Raises a CheckpointError if the folder is gone, or its config.json has changed.
        """
        folder = Path(saved.fields["folder"])
        advice = "or give the model from elsewhere: backgrounds.HuggingFace.from_folder(...) as background at loading"
        problem = None if folder.is_dir() else "which is gone; put it back"
        if problem is None and _digest(folder) != saved.fields["sha256"]:
            problem = "whose config.json has changed since; restore it"
        if problem is not None:
            raise CheckpointError(f"its background is the language model in {folder}, {problem}, {advice}")
        try:
            return cls.from_folder(folder, context=saved.fields["context"])
        except BackgroundError as error:
            raise CheckpointError(f"its background cannot be read: {error}") from error

    def __repr__(self) -> str:
        name = self._model.name_or_path or type(self._model).__name__
        return f"HuggingFace({name}, {len(self._own)} tokens)"


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """Return a vocabulary of a tokenizer's tokens in the order of their ids, written as `symbol_of` does.

    The eos token becomes EOS; an id without a token becomes a symbol such as "\\?17". Raises a VocabularyError if the
    tokenizer has no eos token.

        hf.vocabulary(AutoTokenizer.from_pretrained("gpt2"))
    """
    eos, tokens = tokenizer.eos_token_id, {index: token for token, index in tokenizer.get_vocab().items()}
    if eos is None:
        raise VocabularyError(
            "the tokenizer must have an end-of-sequence token, for llrnn reads it first and predicts it last; "
            "found none: set tokenizer.eos_token"
        )
    symbols = [symbol_of(tokens[i]) if i in tokens else f"{NO_TOKEN}{i}" for i in range(max(tokens) + 1)]
    symbols[eos] = EOS
    return Vocabulary(symbols)


def tokenised(tokenizer: Any, texts: Iterable[str], *, name: str = "") -> Corpus:
    """Return a corpus in which each text is a sentence of tokens, written as the symbols of `vocabulary_of`.

    The tokenizer adds no special tokens, such as eos. Texts without tokens are dropped; `name`: the name of the corpus.

        hf.corpus(tokenizer, ["le chat dort", "la chatte dort"])
    """
    symbols = vocabulary_of(tokenizer).symbols
    lines = list(texts)
    ids = tokenizer(lines, add_special_tokens=False)["input_ids"] if lines else []
    return Corpus.from_sentences([[symbols[one] for one in row] for row in ids if row], name=name)


def _context_length(model: Any, wanted: int | None) -> int:
    """Return how many tokens the language model may see: `wanted`, or its own limit if that is None.

    Raises a BackgroundError unless it is between 2 and the model's limit.
    """
    own = getattr(model.config, "max_position_embeddings", None) or 2**31
    limit: int = own if wanted is None else wanted
    if not 2 <= limit <= own:
        raise BackgroundError(f"context must lie between 2 and {own}, what the language model can see; found {limit}")
    return limit


def _digest(folder: Path) -> str:
    """Return the SHA-256 of config.json in the folder, as hexadecimal digits, to notice that the model was replaced.

    Where there is no such file, the result is the SHA-256 of the empty string.
    """
    config = folder / "config.json"
    return hashlib.sha256(read_file(config) if config.is_file() else b"").hexdigest()
