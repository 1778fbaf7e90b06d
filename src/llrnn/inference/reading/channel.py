"""A learnt channel: how likely a line of text is, given what a recogniser saw at each column.

    p(outcomes | line) = Π_t p(e_t | t) · p(i_t | t)       e_t: a character, nothing ("") or OTHER; i_t: one more, or ""
    p(e | t) ∝ exp(Σ_f w_f f(e, t))                         over the outcomes that are offered at column t
    p(text | line) = Σ over outcomes that spell the text    = the sum over alignments, by the forward algorithm

Features are named: the confidence and the rank of a choice, whether it is what the recogniser wrote, which character is
taken for which, blanks, deletion, insertion. Offered are the choices of the column, what was often meant where such a
character was written, nothing, and OTHER, which is any other character, all of them alike. What is confused over two
columns (`rn`, `m`) is a confusion that looks at the next character written, with a deletion that looks at the last one.

`llrnn experiment channel` fits one to pages whose text is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import StrPath, parse_json, read_file, sealed_json, write_atomically
from llrnn.inference.reading.hocr import PrintColumn, PrintedLine

OTHER = "\ufffd"  # any character that is not offered
_BOUNDS = (0.0, 0.5, 2.0, 6.0, 15.0, 30.0, 50.0, 70.0, 80.0, 88.0, 93.0, 96.0, 98.0)
_QUALITIES, _RANKS = (0.06, 0.15), 4  # of a line: the share of its columns where the best choice is not nearly certain

Outcome = tuple[str, tuple[tuple[str, float], ...]]  # what comes of a column, and its features


@dataclass(frozen=True)
class Outcomes:
    """What may come of a column, with log p of each: `texts` (a character, "" or OTHER), and `log_p`, which add to 1.

    `inserted`, `log_inserted`: what may come behind it besides, "" for nothing.
    """

    texts: tuple[str, ...]
    log_p: Floats
    inserted: tuple[str, ...]
    log_inserted: Floats

    @cached_property
    def log_of(self) -> dict[str, float]:
        return dict(zip(self.texts, self.log_p.tolist(), strict=True))

    @cached_property
    def log_inserted_of(self) -> dict[str, float]:
        return dict(zip(self.inserted, self.log_inserted.tolist(), strict=True))


@dataclass(frozen=True)
class Channel:
    """A log-linear model of what is meant by what was seen. `weights`: {name of a feature: number}.

    `confusions`: {character written: characters often meant}; `insertions`: characters that may be added behind a
    column; `characters`: how many characters OTHER stands for. `read_channel` reads one, `Channel.default()` is
    one that comes with the library.

        Channel.default().outcomes(line)
    """

    weights: Mapping[str, float]
    confusions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    insertions: Sequence[str] = (" ",)
    characters: int = 150

    @classmethod
    def default(cls) -> Channel:
        return read_channel(Path(str(files("llrnn.inference.reading") / "channel.json")))

    def outcomes(self, line: PrintedLine) -> list[Outcomes]:
        """Return what may come of each column of a line, normalised column by column."""
        found = []
        for own, added in self.options(line):
            texts, log_p = self._normalised(own)
            more, log_more = self._normalised(added)
            found.append(Outcomes(texts, log_p, more, log_more))
        return found

    def _normalised(self, options: Sequence[Outcome]) -> tuple[tuple[str, ...], Floats]:
        get = self.weights.get
        scores = np.array([sum([get(name, 0.0) * value for name, value in own]) for _, own in options])
        return tuple(text for text, _ in options), scores - np.logaddexp.reduce(scores)

    def options(self, line: PrintedLine) -> list[tuple[list[Outcome], list[Outcome]]]:
        """Return for each column its outcomes with their features, and those of what may be added behind it."""
        columns = line.columns
        doubtful = sum(column.choices[0][1] < _BOUNDS[8] for column in columns) / max(1, len(columns))
        quality = f"page {int(np.searchsorted(_QUALITIES, doubtful))}"
        written = ["^", *(column.written for column in columns), "$"]
        return [
            (
                self._of_column(column, written[t], written[t + 2], quality),
                self._behind(column, written[t + 2], quality),
            )
            for t, column in enumerate(columns)
        ]

    def _of_column(self, column: PrintColumn, before: str, after: str, quality: str) -> list[Outcome]:
        own, found = column.written, dict[str, list[tuple[str, float]]]()
        best = max(log_confidence(confidence) for _, confidence in column.choices)
        for rank, (text, confidence) in enumerate(column.choices):
            if len(text) == 1 and text not in found:
                other = max((c for one, c in column.choices if one != text), default=-1.0)
                found[text] = [
                    (f"rank {min(rank, _RANKS)}", 1.0),
                    (f"confidence {bucket(confidence)}", 1.0),
                    ("log confidence", log_confidence(confidence)),
                    ("below the best", best - log_confidence(confidence)),
                    (f"rival {bucket(other)}" + (" written" if text == own else ""), 1.0),
                ]
        for text in (own, *self.confusions.get(own, ())):
            if text and text not in found:
                found[text] = [("no choice", 1.0)]
        for text, features in found.items():
            features += _flags(f"{own}>{text}")
            if text == own:
                sure = next((bucket(c) for one, c in column.choices if one == text), "none")
                features += _flags("written", f"written {sure}", f"written {quality}")
            else:
                features += _flags(f"{own}{after}>{text}", f"{before}|{own}>{text}", f"{shape(own)}>{shape(text)}")
            if text == " ":
                features += _flags("blank", "blank" + (" written" if own == " " else " not written"))
        sure = bucket(column.choices[0][1])
        none = _flags(
            "nothing", "nothing" + (" of what is written" if own else " written"), f"{own}>", f"{before}|{own}>",
            f"nothing {sure}" + (" written" if own else ""), f"nothing {quality}",
            f"{own}{after}>", f"nothing of a {shape(own)}", f"nothing of a {shape(own)} {sure}",
        )  # fmt: skip
        rest = _flags("other", f"other {sure}", f"other {quality}", f"other than a {shape(own)}")
        return [*((text, tuple(own)) for text, own in found.items()), ("", tuple(none)), (OTHER, tuple(rest))]

    def _behind(self, column: PrintColumn, after: str, quality: str) -> list[Outcome]:
        own = column.written
        added = [
            (text, tuple(_flags("added", f"added {text}", f"{own}+{text}", f"added {quality}")))
            for text in self.insertions
            if text != " " or (own != " " and after not in " $")
        ]
        return [("", ()), *added, (OTHER, tuple(_flags("added", "added other")))]

    @property
    def log_other(self) -> float:
        """log p of any one character, where another one than those offered is meant."""
        return -math.log(self.characters)

    def save(self, path: StrPath) -> None:
        own = {"kind": "channel", "characters": self.characters, "insertions": list(self.insertions)}
        confusions = {one: list(meant) for one, meant in self.confusions.items()}
        kept = {name: round(weight, 4) for name, weight in sorted(self.weights.items()) if abs(weight) >= 5e-4}
        write_atomically(Path(path), sealed_json({**own, "confusions": confusions, "weights": kept}))


def read_channel(path: StrPath) -> Channel:
    """Return the channel in a file that `Channel.save` wrote. Raises ConfigError for any other file, or one changed."""
    try:
        data = parse_json(read_file(path, limit=50_000_000))
        seal = data.pop("seal")
        same = sealed_json(data).endswith(f'"seal": "{seal}"\n}}'.encode())
        made = Channel(
            {str(name): float(weight) for name, weight in data["weights"].items()},
            {str(one): [str(other) for other in meant] for one, meant in data["confusions"].items()},
            tuple(map(str, data["insertions"])),
            int(data["characters"]),
        )
        fine = (
            same
            and data["kind"] == "channel"
            and made.characters > 0
            and all(map(math.isfinite, made.weights.values()))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        fine = False
    if not fine:
        raise ConfigError(
            f"{path}: a channel is required as `llrnn experiment channel` writes it, found something else; fit it anew"
        )
    return made


def _flags(*names: str) -> list[tuple[str, float]]:
    return [(name, 1.0) for name in names]


def bucket(confidence: float) -> str:
    """Return the range that a confidence is in, by its number."""
    return f"{int(np.searchsorted(_BOUNDS, confidence))}" if confidence >= 0 else "none"


def shape(character: str) -> str:
    """Return what is known of a character that was seen too seldom to say which others it is taken for."""
    if character.isalpha():
        return "capital" if character != character.lower() else "letter"
    return "digit" if character.isdigit() else "sign" if character.strip() else "blank"


def log_confidence(confidence: float) -> float:
    return math.log((confidence + 0.5) / 100.5)
