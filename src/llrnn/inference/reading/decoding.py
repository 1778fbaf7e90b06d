"""From columns to text: the best of all texts by the channel and a model, over lines that run on.

    score(y) = Σ log p(outcome | column) + weight · log p(y) + words · (number of chunks)        of the best alignment

A chunk is what stands between blanks; the model's tokeniser cuts it into words once it has ended. A hypothesis is (the
row of the model before the chunk, the letters u of the chunk so far), after a column. While it is open it has weight ·
log P(the text goes on with u) as a bound on all that it may become (`words.log_mass`; of several words in u, those
behind the first are free until the model has read it). Where the chunk ends, log p(its words | K) and their capitals
take the place of the bound, and the model reads them; behind a sign that may end a sentence both are followed, that it
does and that it does not. Hypotheses with equal row and letters are one: the better alignment stays.

    p(chunk | K) = (1 − ε) p(chunk | model, K) + ε · q(chunk)        q: what the recogniser wrote on the page, by counts

No model knows what every page is about: what it takes for nearly impossible may stand there as it was read. That is so
of scores and signs first; a word of letters has little of q, as a misread word is one that no model expects.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from llrnn.inference.reading.channel import OTHER, Channel, Outcomes
from llrnn.inference.reading.hocr import PrintedLine

R = TypeVar("R")
_LONGEST = 100  # characters of what is written; longer ones are no words
_OF_LETTERS = 1e-8  # what a written word of letters has of q, where a number has 1: by pages of five texts
Back = tuple["Back | None", int, str, str]  # the one before, the column, what came of it, what was added behind it


class LetterReader(Protocol[R]):
    """What the search asks of a model: `words.WordModel`, or another one that reads letters."""

    @property
    def start(self) -> R: ...
    def open_mass(self, row: R, letters: str) -> float: ...
    def close(self, chunks: Sequence[tuple[R, str]]) -> list[list[tuple[float, R]]]: ...
    def prepare(self, chunks: Sequence[tuple[R, str]]) -> None: ...
    def forget(self, kept: Sequence[R]) -> None: ...


@dataclass(frozen=True)
class SearchSettings:
    """`weight` of log p and `words` for each chunk; a `beam` in nats, `width` and `closing` in hypotheses at a column.

    `closing`: at most so many end their chunk there. `written`: ε, the share of chunks as the recogniser wrote them.
    `SearchSettings(weight=0.8)`
    """

    weight: float = 0.6
    words: float = 2.0
    beam: float = 8.0
    width: int = 16
    closing: int = 6
    written: float = 0.02


@dataclass(frozen=True)
class ReadLine:
    """A line as it was read: its `text`, and for each column what came of it and what was added behind it.

    `outcomes`: pairs of strings, () where Tesseract's own text stays.
    """

    line: PrintedLine
    text: str
    outcomes: tuple[tuple[str, str], ...] = ()


@dataclass
class _Hypothesis(Generic[R]):
    score: float  # without the open letters
    row: R
    letters: str
    back: Back | None
    bound: float  # score with them


class _PageModel(Generic[R]):
    """A model mixed with the chunks that a recogniser wrote on a page, which have `share` of it."""

    def __init__(self, model: LetterReader[R], lines: Sequence[PrintedLine], share: float) -> None:
        self.start, self.prepare, self.forget, self._model = model.start, model.prepare, model.forget, model
        chunks = [chunk for line in lines for chunk in line.text.split()]
        self._rest = 1 - share
        self._written, self._begun = defaultdict[str, float](float), defaultdict[str, float](float)
        for chunk in (chunk for chunk in chunks if len(chunk) <= _LONGEST):
            mass = share / len(chunks) * (1.0 if _is_code(chunk) else _OF_LETTERS)
            self._written[chunk] += mass
            for end in range(1, len(chunk) + 1):
                self._begun[chunk[:end]] += mass

    def open_mass(self, row: R, letters: str) -> float:
        return self._mixed(self._model.open_mass(row, letters), self._begun.get(letters, 0.0))

    def close(self, chunks: Sequence[tuple[R, str]]) -> list[list[tuple[float, R]]]:
        ended = zip(chunks, self._model.close(chunks), strict=True)
        return [
            [(self._mixed(log_p, self._written.get(letters, 0.0) / len(ways)), row) for log_p, row in ways]
            for (_, letters), ways in ended
        ]

    def _mixed(self, log_p: float, mass: float) -> float:
        both = self._rest * math.exp(log_p) + mass
        return math.log(both) if both else math.log(self._rest) + log_p  # below the least number


def _is_code(chunk: str) -> bool:
    """Whether a chunk is a number or signs, of which a model of words knows little."""
    return any(map(str.isdigit, chunk)) or not any(map(str.isalpha, chunk))


class Decoder(Generic[R]):
    """A search for the text of lines: `Decoder(WordModel(model), channel).read(lines)`, a `ReadLine` for each."""

    def __init__(self, model: LetterReader[R], channel: Channel, settings: SearchSettings | None = None) -> None:
        self.model, self.channel, self.settings = model, channel, settings or SearchSettings()
        self._mix([])

    def read(self, lines: Sequence[PrintedLine]) -> list[ReadLine]:
        """Read the lines of a page, the first of which begins a sentence; a sentence may go on in the next line."""
        return self.search(lines)[0]

    def search(self, lines: Sequence[PrintedLine]) -> tuple[list[ReadLine], float]:
        """Return the lines as they are read, and the score of the whole."""
        self._mix(lines)
        beam = [_Hypothesis(0.0, self._model.start, "", None, 0.0)]
        for number, line in enumerate(lines):
            if line.columns:
                for t, one in enumerate(self.channel.outcomes(line)):
                    beam = self._column(beam, one, t)
            else:  # Tesseract's own text stays, and the model reads it
                beam = [_Hypothesis(h.score, h.row, line.text, (h.back, -1, "", ""), h.bound) for h in beam]
                beam = self._whole(beam, line.text)
            beam = self._close(beam)
            beam = [_Hypothesis(h.score, h.row, "", (h.back, -2 - number, "", ""), h.bound) for h in beam]
            self._model.forget([h.row for h in beam])
        best = max(beam, key=lambda h: h.score)
        return _lines(lines, best.back), best.score

    def score_alone(self, lines: Sequence[PrintedLine], texts: Sequence[str]) -> float:
        """Return what the model and the number of chunks add to the score of texts of lines, at best."""
        self._mix(lines)
        beam = [_Hypothesis(0.0, self._model.start, "", None, 0.0)]
        for text in texts:
            beam = self._whole(beam, text)
        return max(h.score for h in beam)

    def _mix(self, lines: Sequence[PrintedLine]) -> None:
        """Begin anew, with what was written on other lines."""
        self.model.forget([])
        share = self.settings.written
        self._model: LetterReader[R] = _PageModel(self.model, lines, share) if share else self.model

    def _whole(self, beam: list[_Hypothesis[R]], text: str) -> list[_Hypothesis[R]]:
        for chunk in text.split():
            beam = self._close([_Hypothesis(h.score, h.row, chunk, h.back, h.bound) for h in beam])
        return beam

    def _column(self, beam: list[_Hypothesis[R]], one: Outcomes, t: int) -> list[_Hypothesis[R]]:
        """Return the best hypotheses after a column and what may be added behind it."""
        options = sorted(one.log_of.items(), key=lambda pair: -pair[1])
        added = sorted(one.log_inserted_of.items(), key=lambda pair: -pair[1])
        middle = self._extended(beam, [(text, log) for text, log in options if text != OTHER])
        for h, (text, before) in middle:
            h.back = (before, t, text, "")
        kept = self._best([h for h, _ in middle])
        self._model.prepare([(h.row, "") for h in kept])
        behind = self._extended(kept, [(text, log) for text, log in added if text != OTHER])
        for h, (text, before) in behind:
            h.back = before if not text or before is None else (before[0], t, before[2], text)
        found = self._best([h for h, _ in behind])
        self._model.prepare([(h.row, h.letters) for h in found])
        return found

    def _extended(
        self, beam: Sequence[_Hypothesis[R]], options: Sequence[tuple[str, float]]
    ) -> list[tuple[_Hypothesis[R], tuple[str, Back | None]]]:
        """Return each hypothesis with each option, equal ones joined, blanks as ends of chunks."""
        found = dict[tuple[int, str], tuple[_Hypothesis[R], tuple[str, Back | None]]]()
        closing, top, least = list[tuple[float, _Hypothesis[R]]](), -math.inf, -math.inf
        weight, mass = self.settings.weight, self._model.open_mass
        for h in beam:
            for text, log in options:
                if h.bound + log < least:
                    break
                if text == " " and h.letters:
                    closing.append((log, h))
                    continue
                letters = h.letters if text == " " else h.letters + text
                score, key = h.score + log, (id(h.row), letters)
                known = found.get(key)
                if known is not None and known[0].score >= score:
                    continue
                if known is not None:
                    bound = known[0].bound - known[0].score + score
                else:
                    bound = score + weight * mass(h.row, letters) if letters and weight else score
                if bound > top:
                    top, least = bound, bound - self.settings.beam
                if bound >= least:
                    found[key] = _Hypothesis(score, h.row, letters, None, bound), (text, h.back)
        closing.sort(key=lambda pair: -(pair[0] + pair[1].bound))
        chosen = [(log, h) for log, h in closing[: self.settings.closing] if h.bound + log >= least]
        ended = self._model.close([(h.row, h.letters) for _, h in chosen]) if chosen else []
        for (log, h), ways in zip(chosen, ended, strict=True):
            for log_p, row in ways:
                score, key = h.score + log + weight * log_p + self.settings.words, (id(row), "")
                if key not in found or found[key][0].score < score:
                    found[key] = _Hypothesis(score, row, "", None, score), (" ", h.back)
        return [*found.values()]

    def _best(self, found: list[_Hypothesis[R]]) -> list[_Hypothesis[R]]:
        found.sort(key=lambda h: -h.bound)
        least = found[0].bound - self.settings.beam
        return [h for h in found[: self.settings.width] if h.bound >= least]

    def _close(self, beam: list[_Hypothesis[R]]) -> list[_Hypothesis[R]]:
        """Return the hypotheses with their open chunks ended, equal ones joined."""
        open_ = [h for h in beam if h.letters][: 2 * self.settings.closing]
        done = {id(h.row): h for h in sorted(beam, key=lambda h: h.score) if not h.letters}
        for h, ways in zip(open_, self._model.close([(h.row, h.letters) for h in open_]), strict=True):
            for log_p, row in ways:
                score = h.score + self.settings.weight * log_p + self.settings.words
                if id(row) not in done or done[id(row)].score < score:
                    done[id(row)] = _Hypothesis(score, row, "", h.back, score)
        found = self._best([*done.values()])
        self._model.prepare([(h.row, "") for h in found])
        return found


def _lines(lines: Sequence[PrintedLine], back: Back | None) -> list[ReadLine]:
    """Return the lines that a chain of outcomes spells."""
    parts: list[list[tuple[str, str]]] = []
    while back is not None:
        back, t, text, added = back
        if t <= -2:
            parts.append([])
        elif t >= 0:
            parts[-1].append((text, added))
    parts.reverse()
    found = []
    for line, part in zip(lines, parts, strict=True):
        outcomes = tuple(part[::-1])
        text = " ".join("".join(own + added for own, added in outcomes).split()) if outcomes else line.text
        found.append(ReadLine(line, text, outcomes))
    return found
