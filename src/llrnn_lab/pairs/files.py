"""Minimal pairs written to files, as `llrnn.inference.pairs.read_pairs` reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_lines
from llrnn.inference.nbest import Words, join_words
from llrnn.inference.pairs import HEADER, KEYS, Pair, Readings, is_tsv


def write_pairs(path: StrPath, pairs: Iterable[Pair], **told: object) -> None:
    """Write minimal pairs to a file .tsv or .jsonl that `read_pairs` reads; the file is written whole or not at all.

    `told`: further fields of each JSON line, such as where the pairs come from. TSV holds neither these nor readings,
    `place` and `complete`. Raises CorpusError for no pairs, another extension, or several readings in TSV.

        write_pairs("pairs.jsonl", pairs, seed=3)
    """
    tsv = is_tsv(path)
    lines = [_tsv_line(pair) if tsv else _json_line(pair, told) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    write_lines(path, ["\t".join(HEADER), *lines] if tsv else lines)


def _tsv_line(pair: Pair) -> str:
    if any(pair.readings):
        raise CorpusError("TSV has one reading of each sentence, found several; write a file .jsonl")
    if any(character in pair.group for character in "\t\r\n"):
        raise CorpusError(f"the name of a group must stand on one line without TABs, found {pair.group!r}; rename it")
    known = ("_" if value is None else str(value) for value in (pair.distance, pair.distractors))
    return "\t".join((join_words(pair.good), join_words(pair.bad), pair.group, *known))


def _json_line(pair: Pair, told: Mapping[str, object]) -> str:
    good, bad = (_joined(*one) for one in zip((pair.good, pair.bad), pair.readings, strict=True))
    values = (good, bad, pair.group, pair.distance, pair.distractors, pair.place, None if pair.complete else False)
    fields: dict[str, object] = {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}
    return json.dumps({**fields, **told}, ensure_ascii=False)


def _joined(sentence: Words, readings: Readings) -> str | list[str]:
    return [*map(join_words, (sentence, *readings))] if readings else join_words(sentence)
