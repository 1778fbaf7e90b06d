"""A first configuration for pairs of meaning and text: JSON lines, CSV or TSV.

    draft = draft_pairs(["train.jsonl"], out="waiter.toml")
    print(draft)                     # what was found: pairs, slots, which of them are open
    draft.write()                    # then: llrnn train waiter.toml --out runs/waiter

A CSV has a header. The text is the column named text, target, ref, reference, sentence or utterance, else the last one;
the others are the fields of a record, empty ones left out. One column alone may hold dialog acts, inform(name=x), or
name[x], food[y]. What had to be made (JSON lines of a CSV) lies beside the configuration.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llrnn.config.draft import LEAST_SENTENCES, Draft, data_folder, fill_recipe, held_out_of, parts_by_name
from llrnn.config.project import Project
from llrnn.config.reading import parse_config
from llrnn.ground.errors import ConfigError, CorpusError, quoted
from llrnn.ground.files import parse_toml, write_atomically
from llrnn.text.conditions import Conditions, fields_of, values_of
from llrnn.text.corpus import Corpus, FoundSlots
from llrnn.text.raw import raw_reason, tokeniser_for
from llrnn.text.readers import read_lines

_PAIRS = re.compile(r"\.(jsonl|csv|tsv)(\.gz)?$")
_TEXTS = ("text", "target", "ref", "reference", "sentence", "utterance")
_BRACKETS = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]\s*(?:,|$)")
_NUMBER = re.compile(r"[0-9.]+")
_PACE = ((2000, 60, 256), (400, 100, 128), (0, 150, 64))  # pairs or more: epochs, words in a batch (the study of RNNLG)

Pair = tuple[object, str]  # a meaning and its text


def holds_pairs(path: str | Path) -> bool:
    """Whether a file, by its name, holds pairs of a meaning and a text: .jsonl, .csv or .tsv, also with .gz."""
    return _PAIRS.search(str(path).lower()) is not None


def draft_pairs(
    files: Sequence[str | Path], *, out: str | Path, valid: Sequence[str | Path] = (), lowercase: bool = True
) -> Draft:
    """Draft a configuration for `llrnn train` from pairs of a meaning (slots and values) and a text that says it.

    Returns a `Draft`, whose `write` writes it. `files`: JSON lines, CSV or TSV; of several, those with `dev` or `test`
    in their names are the validation and test parts; without any for validation, and no `valid`, a tenth of the pairs
    is held out. Where texts are raw or not JSON lines, files in `OUT-data` are written at once. Raises ConfigError for
    fewer than 10 pairs, or meanings that are neither all dialogue acts nor all records.

        draft_pairs(["train.jsonl"], out="waiter.toml").write()
    """
    out = Path(out)
    parts = parts_by_name([*map(str, files)], [*map(str, valid)])
    read = {part: [pair for path in paths for pair in _pairs(path)] for part, paths in parts.items() if part != "test"}
    if read["train"] and all(_NUMBER.fullmatch(text) for _, text in read["train"]):
        raise ConfigError(
            f"{parts['train'][0]}: a text is required for each meaning, found numbers; "
            "give a list of words with --list, and a text beside it"
        )
    if len(read["train"]) < LEAST_SENTENCES:
        raise ConfigError(f"{LEAST_SENTENCES} pairs or more are required, found {len(read['train'])}; give more")
    kind = _kind([condition for pairs in read.values() for condition, _ in pairs])
    raw = raw_reason(Corpus.from_sentences([text.split() for _, text in read["train"]], name="the texts"))
    if not all(".jsonl" in path.lower() for paths in parts.values() for path in paths):
        parts = {part: [_written(out, part, pairs)] for part, pairs in read.items()}
    found = [] if raw is None else [f"{raw}: raw text, so texts and values are cut by Unicode's boundaries"]
    tokeniser = None if raw is None else tokeniser_for("unicode", parts["train"], "jsonl")
    cut = None if tokeniser is None else tokeniser.sentences
    opened = partial(Corpus.from_file, format="jsonl", lowercase=lowercase, conditions=kind, cut=cut)
    train = opened(parts["train"])
    text, told = _recipe(parts, train, kind, lowercase, None if raw is None else "unicode")
    config = parse_config(parse_toml(text), str(out))
    Project.from_config(config)
    return Draft(out, text, config, (*found, *told), _warnings(train))


# --- reading


def _pairs(path: str) -> Iterator[Pair]:
    if re.search(r"\.csv(\.gz)?$", path.lower()):
        return _of_csv(path, "\n".join(line for _, line in read_lines(path) if line.strip()))
    corpus = Corpus.from_file(path)
    return ((_meaning(sentence.condition), " ".join(sentence.words)) for sentence in corpus)


def _of_csv(path: str, content: str) -> Iterator[Pair]:
    head, *rows = csv.reader(io.StringIO(content, newline=""))
    if len(head) < 2:
        raise CorpusError(f"a header with two columns or more is required, found {head}; separate by commas", path=path)
    texts = next((i for i, name in enumerate(head) if name.strip().lower() in _TEXTS), len(head) - 1)
    for number, row in enumerate(rows, 2):
        if len(row) != len(head) or not row[texts].strip():
            problem = f"{len(head)} columns and a text in {head[texts]!r} are required, found {quoted(row)}"
            raise CorpusError(f"row {number}: {problem}; correct the row", path=path)
        fields = {name.strip(): cell for i, (name, cell) in enumerate(zip(head, row, strict=True)) if i != texts}
        whole = next(iter(fields.values())) if len(fields) == 1 else None
        record = {name: cell.strip() for name, cell in fields.items() if cell.strip()}
        yield record if whole is None else _meaning(whole), row[texts]


def _meaning(found: object) -> object:
    """Return a meaning written `name[x], food[y]` as the dict {"name": "x", "food": "y"}, anything else unchanged.

    A name that occurs more than once gets a list of its values.
    """
    if isinstance(found, str) and _BRACKETS.match(found):
        fields: dict[str, list[str]] = {}
        for slot, value in _BRACKETS.findall(found):
            fields.setdefault(slot.strip(), []).append(value.strip())
        return {slot: values if len(values) > 1 else values[0] for slot, values in fields.items()}
    return found


def _kind(conditions: Sequence[object]) -> Conditions:
    """Return `act` where all meanings are texts, dialogue acts such as `inform(name=x)`, `plain` where all are dicts.

    Raises ConfigError for a mixture of both, and for anything else. A text that is no act is told where it is read.
    """
    strange = [one for one in conditions if not isinstance(one, str | Mapping)]
    texts = [one for one in conditions if isinstance(one, str)]
    if strange or 0 < len(texts) < len(conditions):
        raise ConfigError(
            f"records, or dialog acts such as inform(name=x), are required as conditions, all of one kind, found "
            f"{quoted([*strange, *texts][0])}; write them alike"
        )
    return "act" if texts else "plain"


def _written(out: Path, part: str, pairs: Sequence[Pair]) -> str:
    """Write the pairs of a part ("train", say) to the file `PART.jsonl` in the folder `OUT-data`; return its path.

    Each line is a JSON object with the keys `condition`, the meaning, and `target`, the text. `out`: the path of the
    configuration.
    """
    path = data_folder(out) / f"{part}.jsonl"
    made = [{"condition": meaning, "target": text} for meaning, text in pairs]
    write_atomically(path, "".join(f"{json.dumps(pair, ensure_ascii=False)}\n" for pair in made).encode())
    return str(path)


# --- writing


def _recipe(
    parts: Mapping[str, list[str]], train: Corpus, kind: Conditions, lowercase: bool, tokeniser: str | None
) -> tuple[str, list[str]]:
    """Return the TOML text of the configuration, from the recipe `pairs.toml`, and lines of findings to report.

    `parts`: the files of train, valid and test; `train`: the training pairs, read; `kind`: how their meanings are
    written, "act" or "plain"; `lowercase`: whether words are; `tokeniser`: the name of the one that cuts the texts,
    None for none. Raises ConfigError where no text says the value of a slot.
    """
    slots = FoundSlots.of(train)
    if not slots.said:
        raise ConfigError(
            f"{train.name}: slots whose values the texts say are required, found none; write values as texts have them"
        )
    last = None if "valid" in parts else held_out_of(train)
    epochs, words = next((epochs, words) for least, epochs, words in _PACE if len(train) >= least)
    values: dict[str, Any] = {"train": parts["train"], "valid": parts.get("valid"), "test": parts.get("test")}
    values |= {"valid_last": last, "tokeniser": tokeniser, "conditions": kind, "lowercase": lowercase}
    values |= {"said": [*slots.said], "words": words, "epochs": epochs}
    values |= {"open": [*slots.open] or None, "is_open": True if slots.open else None}
    values["without"] = [f"Value:{slot}" for slot in slots.open]
    told = [
        f"{train.name}: {len(train):,} pairs, {train.tokens:,} words, conditions are "
        + ("dialog acts" if kind == "act" else "records")
        + (f"; the last {last:,} are held out for validation" if last else ""),
        f"slots that texts say: {', '.join(slots.said)}",
        f"of these with new values, so copied and not known: {', '.join(slots.open) or 'none, all values are learnt'}",
    ]
    wordless = {slot for one in train for slot, _ in fields_of(one.condition)}
    wordless -= {slot for one in train for slot, _ in values_of(one.condition)}
    if wordless:
        told.append(f"slots of yes, no, none or nothing, whose wordings are learnt: {', '.join(sorted(wordless))}")
    return fill_recipe("pairs.toml", values), told


def _warnings(train: Corpus) -> tuple[str, ...]:
    """Return one warning that names slots whose values no text says word by word, so that they cannot be copied.

    An empty tuple where there are no such slots.
    """
    every = {slot for sentence in train for slot, _ in values_of(sentence.condition)}
    lost = sorted(every - {*FoundSlots.of(train).said})
    if not lost:
        return ()
    return (f"the values of {', '.join(lost)} are not said word by word: nothing to copy, their wordings are learnt",)
