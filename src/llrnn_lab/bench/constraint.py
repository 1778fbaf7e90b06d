"""What a grammar costs at each token, against engines that make masks: JSON over a vocabulary of 128,000 tokens.

    first     documents that nobody has seen, right after building, in rounds with engines built anew
    new       other documents, after the first ones; "with the step" counts taking the next token too. Both are means of
              the thread's processor time: one wait for a busy core costs as much as hundreds of steps
    warm      all of them again, in interleaved rounds: the answer in the form that an engine gives it in; and apart,
              in strings (where most tokens are allowed) and elsewhere
    written   the same added to a row of logits, float32
    advance   taking the next token

llrnn answers with log b of every token, of which decoding needs no copy: at a node that was seen, it is looked up, and
so are the masses of the classes. Engines that make masks write a bit for each token. All walk over the same tokens.
"""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.knowledge.backgrounds import Grammar
from llrnn.knowledge.process import State
from llrnn.layer.priors import Prior
from llrnn.text.vocabulary import EOS, Vocabulary

# What constraints are measured on: JSON as a grammar, a vocabulary of word pieces, and documents in those pieces.
#
# Pieces are written as byte-level tokenizers write them (Ġ is a blank, Ċ a new line), and each is a string of whole
# characters. They are drawn from a seed, or learnt from a text with `tokenizers` (its ASCII; then filled up by
# drawing).


GRAMMAR = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
WS: /[ \t\n\r]+/
%ignore WS
"""
SPELLING = {"Ġ": " ", "Ċ": "\n", "ĉ": "\t", "č": "\r"}
FEWEST = 4_000  # pieces of a vocabulary: the characters, numbers and pieces of JSON that are always there

_WRITTEN = str.maketrans({letter: sign for sign, letter in SPELLING.items()})
_CHARACTERS = [*map(chr, range(33, 127)), *SPELLING, *"äçèéñöüß"]
_OF_JSON = """
    {" "} {} [] [{ [{" }] }, },{ },{" }} ]] ]} ], ": ":" ":Ġ ":Ġ" ":Ġ{ ":Ġ[ ":{" ":[ ":{ ", "," ",Ġ" "] "], "},"
    :Ġ ,Ġ :true :false :null true false null true, false, null, Ġtrue Ġfalse Ġnull \\n \\t \\" \\\\ \\/ \\u \\u00 \\u20
    .0 .5 .00 0. -1 e-05 E+ ],ĊĠĠ },ĊĠĠ },ĊĠĠĠĠ ",ĊĠĠ ",ĊĠĠ" {ĊĠĠ" [ĊĠĠ ,ĊĠĠ" "ĊĠĠ} :ĊĠ
""".split()  # noqa: SIM905
_STARTS = [start + vowel for start in "bcdfghjklmnpqrstvwxyz" for vowel in ("a", "e", "i", "o", "u", "ea", "é", "y")]
_SIGNS = "!#$%&'()*+,-./:;<=>?@[]^_`{|}~\"\\"


def drawn_pieces(size: int, seed: int = 0, *, first: Sequence[str] = ()) -> list[str]:
    """A vocabulary: the end, all characters, pieces of JSON, numbers, blanks, and then words and signs as drawn."""
    if size < FEWEST:
        raise ConfigError(f"a vocabulary for JSON has {FEWEST:,} pieces at least, found {size:,}")
    rng, blanks = random.Random(seed), ["Ġ" * n for n in range(1, 33)]
    always = [EOS, *_CHARACTERS, *_OF_JSON, *map(str, range(1000)), *blanks, *("Ċ" + blank for blank in blanks)]
    found = dict.fromkeys([*always, *first])
    while len(found) < size:
        found[_piece(rng)] = None
    return list(found)[:size]


def _piece(rng: random.Random) -> str:
    if rng.random() < 0.05:
        return rng.choice(["", "Ġ"]) + "".join(rng.choice(_SIGNS) for _ in range(rng.randint(2, 4)))
    word = "".join(rng.choice(_STARTS) for _ in range(rng.randint(1, 4))) + rng.choice(["", "", "n", "s", "r", "t"])
    word = rng.choice([word, word, word, word.capitalize(), word.upper()])
    return rng.choice(["", "Ġ"]) + word if rng.random() < 0.94 else rng.choice(['"', "_", "."]) + word


def learnt_pieces(path: Path, size: int, seed: int = 0) -> list[str]:
    """Byte pairs of a text, by `tokenizers`; what it has too few of is drawn."""
    try:
        tokenizers: Any = importlib.import_module("tokenizers")
    except ImportError:
        raise MissingExtraError("tokenizers", "open") from None
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False)
    learner.train_from_iterator(_ascii_lines(path), trainer)
    pieces: Mapping[str, int] = learner.get_vocab()
    return drawn_pieces(size, seed, first=sorted(pieces, key=lambda piece: pieces[piece]))


def _ascii_lines(path: Path) -> Iterator[str]:
    """The lines of a text without what is not ASCII: other letters are several bytes, which pieces may cut."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf8") as lines:
        for line in lines:
            yield "".join(c for c in line if c in "\t\n" or " " <= c <= "~")


def documents(count: int, *, depth: int = 3, seed: int = 0) -> list[str]:
    """JSON texts: objects and arrays nested up to a depth, printed in a line, without blanks, or indented."""
    rng = random.Random(seed)
    printed: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": 2}]
    return [json.dumps(_record(rng, depth), ensure_ascii=False, **rng.choice(printed)) for _ in range(count)]


def _record(rng: random.Random, depth: int) -> object:
    """An object with some content."""
    return {_word(rng): _value(rng, depth - 1) for _ in range(rng.randint(2, 6))}


def _value(rng: random.Random, depth: int) -> object:
    kind = rng.choice(["object", "array"] if depth and rng.random() < 0.45 else ["string"] * 3 + ["number", "other"])
    if kind == "object":
        return {_word(rng): _value(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    if kind == "array":
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 5))]
    if kind == "number":
        return rng.choice([rng.randint(-50, 100_000), round(rng.uniform(-10, 10), 3), rng.random() * 1e-7])
    if kind == "other":
        return rng.choice([True, False, None])
    said = " ".join(_word(rng) for _ in range(rng.randint(0, 6)))
    return said + rng.choice(["", "", ".", "\n", ' "so"', "\t\x01", "\\"])


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(_STARTS) for _ in range(rng.randint(1, 4)))


def spelled(piece: str) -> str:
    """The characters of a piece."""
    return "".join(SPELLING.get(sign, sign) for sign in piece)


def written(text: str) -> str:
    """A text with the signs of pieces for its blanks."""
    return text.translate(_WRITTEN)


def cut(text: str, ids: Mapping[str, int]) -> list[int]:
    """A text as pieces, the longest first."""
    longest, found, at = max(map(len, ids)), list[int](), 0
    while at < len(text):
        piece = next(text[at : at + length] for length in range(longest, 0, -1) if text[at : at + length] in ids)
        found.append(ids[piece])
        at += len(piece)
    return found


# Peers that hold a text to a grammar: a bit for each token. Neither is needed; one that is absent is left out.
#
# llguidance       the same grammar, in its own dialect of lark's notation. Two things are asked of it that are not its
#                  defaults: blanks before and after a document, and all tokens that fit where the next characters
#                  are certain (it would give only the one that it would cut there itself).
# outlines-core    regular expressions only: JSON nested up to a depth. That is another, smaller language: where a
#                  token would open a bracket too many it is forbidden (and so is `0.` as the first of a document). All
#                  masks are made when it is built.


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


_OURS = "llrnn"
_Times = dict[str, list[float]]  # nanoseconds, by what is done
_Means = dict[str, dict[str, float]]  # microseconds of a round, by engine and what is done
COLD = ("first", "new", "first, with the step", "new, with the step")


def constraint(
    *,
    vocabulary: int = 128_000,
    text: Path | None = None,
    count: int = 20,
    depth: int = 3,
    rounds: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    """Microseconds for the next-token distribution under JSON's grammar; `count` documents are first, as many new."""
    pieces = drawn_pieces(vocabulary, seed) if text is None else learnt_pieces(text, vocabulary, seed)
    words = Vocabulary(pieces)
    ids = {piece: number for number, piece in enumerate(pieces) if number != words.eos}
    drawn = [cut(written(one), ids) for one in documents(2 * count, depth=depth, seed=seed)]
    makers = _makers(words, depth)
    engines, parts = _built(makers)
    times: dict[str, _Times] = {name: {} for name in engines}
    cold, seen = list[_Means](), 0
    for turn in range(rounds):
        if turn:
            engines |= {name: make() for name, make in makers.items() if name != Outlines.name}  # it has all masks
        gc.collect()  # of what was built before
        means, seen = _cold(engines, drawn, count, times)
        cold.append(means)
    ours = engines[_OURS]
    assert isinstance(ours, Ours)
    same = {name: _same(ours, engine, drawn) for name, engine in engines.items() if name != _OURS}
    for _ in range(rounds):
        _pass(engines, drawn, times, "warm")
        _pass(engines, drawn, times, "written", adding=True)
    for own in times.values():
        own |= _apart(own["warm"], _in_strings(ours, drawn))
    found = {name: {**parts[name], **{what: _figures(own) for what, own in times[name].items()}} for name in engines}
    for name, what in product(engines, COLD):
        found[name][what]["mean_us"] = float(np.median([means[name][what] for means in cold]))
    found[_OURS] |= {"nodes": len(ours.new), "nodes of the first": seen, "a new node": _figures(ours.new)}
    found[_OURS] |= ours.remembered()
    return {
        "V": len(words),
        "vocabulary": "drawn" if text is None else text.name,
        "documents": len(drawn),
        "tokens": sum(map(len, drawn)),
        "depth": depth,
        "engines": found,
        "ratio": {name: _ratios(found[name], found[_OURS]) | _cold_ratios(name, cold) for name in same},
        "same tokens": same,
        "notes": _notes(engines),
    }


class Ours(Engine):
    """A `Grammar` bound to the tokens, asked for one position at a time as decoding does."""

    name = _OURS

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.grammar = Grammar(GRAMMAR, over="characters", spelling=SPELLING).bind(vocabulary)
        self.new: list[float] = []  # nanoseconds at each node that was asked for the first time
        self._nodes: set[object] = set()
        self._priors: dict[int, Prior] = {}
        self._state: State = None
        self.begin()
        self.ask()

    def begin(self) -> None:
        self._state = self.grammar.advance(self.grammar.initial(), self.grammar.vocabulary.eos)

    def ask(self) -> Prior:
        return self.grammar.prior((self._state,))

    def add(self, logits: torch.Tensor, out: torch.Tensor) -> None:
        torch.add(logits, self.grammar.prior((self._state,)).dense(1, torch.float32).log_b[0], out=out)

    def advance(self, token: int) -> object:
        self._state = self.grammar.advance(self._state, token)
        return self._state.node

    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        found: np.ndarray[Any, np.dtype[np.bool_]] = (self.ask().dense(1).log_b[0] > -torch.inf).numpy()
        return found

    def noted(self, nanoseconds: float) -> None:
        """How long the last answer took, if it was the first at its node."""
        if self._state.node not in self._nodes:
            self._nodes.add(self._state.node)
            self.new.append(nanoseconds)
            prior = self.ask()
            self._priors[id(prior)] = prior

    def remembered(self) -> dict[str, Any]:
        """Rows that differ, and what they take with their float32 copies, which `written` asked for."""
        rows, V = len(self._priors), len(self.grammar.vocabulary)
        tables = {table for prior in self._priors.values() for table in prior.tables}
        return {"rows": rows, "remembered_megabytes": V * (rows * (8 + 4) + len(tables) * 4) / 1e6}


def _makers(words: Vocabulary, depth: int) -> dict[str, Callable[[], Engine]]:
    """The engines that are there."""
    tokens = [spelled(symbol) for symbol in words.symbols]
    makers: dict[str, Callable[[], Engine]] = {_OURS: lambda: Ours(words)}
    if (llguidance := installed("llguidance")) is not None:
        makers[LLGuidance.name] = lambda: LLGuidance(llguidance, tokens, words.eos)
    if (outlines := installed("outlines_core")) is not None:
        makers[Outlines.name] = lambda: Outlines(outlines, tokens, words.eos, depth)
    return makers


def _built(makers: Mapping[str, Callable[[], Engine]]) -> tuple[dict[str, Engine], dict[str, dict[str, Any]]]:
    """The engines, and what building each took: time to the first answer, and memory."""
    engines, parts = dict[str, Engine](), dict[str, dict[str, Any]]()
    for name, make in makers.items():
        gc.collect()
        before, begun = _resident(), time.perf_counter()
        engines[name] = make()
        parts[name] = {"build_seconds": time.perf_counter() - begun}
        parts[name]["of it for the vocabulary"] = engines[name].vocabulary_seconds or parts[name]["build_seconds"]
        parts[name]["build_megabytes"] = None if before is None else ((_resident() or before) - before) / 1e6
    return engines, parts


def _resident() -> int | None:
    """Bytes of memory that the process holds; None where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * 4096 if path.exists() else None


def _cold(
    engines: dict[str, Engine], texts: Sequence[Sequence[int]], count: int, times: dict[str, _Times]
) -> tuple[_Means, int]:
    """Documents that these engines have not seen: means of the round, and our nodes after the first documents."""
    own: dict[str, _Times] = {name: {} for name in engines}
    _pass(engines, texts[:count], own, "first", clock=time.thread_time_ns)
    ours = engines[_OURS]
    assert isinstance(ours, Ours)
    seen = len(ours.new)
    _pass(engines, texts[count:], own, "new", clock=time.thread_time_ns)
    for name, found in own.items():
        for what in ("first", "new"):
            both = zip(found[what], found[f"advance, {what}"], strict=True)
            found[f"{what}, with the step"] = [asked + taken for asked, taken in both]
        for what, listed in found.items():
            times[name].setdefault(what, []).extend(listed)
    return {name: {what: float(np.mean(found[what])) / 1000 for what in COLD} for name, found in own.items()}, seen


def _cold_ratios(peer: str, rounds: Sequence[_Means]) -> dict[str, float]:
    """How many times as long a peer takes in documents not seen: means, the median of all rounds."""
    return {what: float(np.median([means[peer][what] / means[_OURS][what] for means in rounds])) for what in COLD}


def _pass(
    engines: dict[str, Engine],
    texts: Sequence[Sequence[int]],
    times: dict[str, _Times],
    what: str,
    *,
    adding: bool = False,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> None:
    """Every engine walks over every document, one engine after the other at each of them."""
    names, size = list(engines), len(engines[_OURS].allowed())
    logits, out = torch.zeros(size), torch.zeros(size)
    for number, tokens in enumerate(texts):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            task = (lambda engine: engine.add(logits, out)) if adding else (lambda engine: engine.ask())
            asked, advanced = _walked(engines[name], tokens, task, clock)
            times[name].setdefault(what, []).extend(asked)
            if not adding:
                times[name].setdefault("advance" if what == "warm" else f"advance, {what}", []).extend(advanced)


def _walked(
    engine: Engine, tokens: Sequence[int], task: Callable[[Engine], object], clock: Callable[[], int]
) -> tuple[list[float], list[float]]:
    """Nanoseconds of each answer, and of each token taken."""
    asked, advanced = list[float](), list[float]()
    engine.begin()
    for token in tokens:
        begun = clock()
        task(engine)
        answered = clock()
        if isinstance(engine, Ours):
            engine.noted(answered - begun)
        going = clock()
        engine.advance(token)
        advanced.append(clock() - going)
        asked.append(answered - begun)
    return asked, advanced


def _in_strings(ours: Engine, texts: Sequence[Sequence[int]]) -> list[bool]:
    """At each step, whether it is in a string: most tokens are allowed there, and few elsewhere."""
    found = []
    for tokens in texts:
        ours.begin()
        for token in tokens:
            found.append(bool(ours.allowed().mean() > 0.5))
            ours.advance(token)
    return found


def _apart(nanoseconds: Sequence[float], in_strings: Sequence[bool]) -> _Times:
    """The times of some rounds, by kind of step."""
    times = np.array(nanoseconds).reshape(-1, len(in_strings))
    inside = np.array(in_strings)
    return {
        "warm, in strings": times[:, inside].ravel().tolist(),
        "warm, elsewhere": times[:, ~inside].ravel().tolist(),
    }


def _figures(nanoseconds: Sequence[float]) -> dict[str, float]:
    found = np.array(nanoseconds) / 1000
    return {
        "median_us": float(np.median(found)),
        "p90_us": float(np.quantile(found, 0.9)),
        "mean_us": float(found.mean()),
    }


def _ratios(peer: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
    """How many times as long a peer takes where all was seen: medians."""
    steps = ("warm", "warm, in strings", "warm, elsewhere", "written", "advance")
    return {what: peer[what]["median_us"] / ours[what]["median_us"] for what in steps}


def _same(ours: Engine, peer: Engine, texts: Sequence[Sequence[int]]) -> dict[str, int]:
    """At how many steps both allow the same tokens; and how many tokens only one of them does, over all steps."""
    found = {"steps": 0, "equal": 0, "only llrnn": 0, "only peer": 0}
    for tokens in texts:
        ours.begin()
        peer.begin()
        for token in (*tokens, None):
            a, b = ours.allowed(), peer.allowed()
            found["steps"] += 1
            found["equal"] += bool((a == b).all())
            found["only llrnn"] += int((a & ~b).sum())
            found["only peer"] += int((b & ~a).sum())
            if token is not None:
                ours.advance(token)
                peer.advance(token)
    return found


def _notes(engines: dict[str, Engine]) -> list[str]:
    absent = [name for name in (LLGuidance.name, Outlines.name) if name not in engines]
    found = [f"{name} is not installed: pip install {name} to compare" for name in absent]
    return found + [engine.note for engine in engines.values() if engine.note]
