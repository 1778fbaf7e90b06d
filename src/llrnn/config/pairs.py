"""A first configuration for pairs of meaning and text: JSON lines, CSV or TSV.

    draft = draft_pairs(["train.jsonl"], out="waiter.toml")
    print(draft)                     # what was found: pairs, slots, which of them are open
    draft.write()                    # then: llrnn train waiter.toml --out runs/waiter

A CSV has a header. The text is the column named text, target, ref, reference, sentence or utterance, else the last one;
the others are the fields of a record, empty ones left out. One column alone may hold dialog acts, inform(name=x), or
name[x], food[y]. What had to be made (JSON lines of a CSV, raw text cut into words) lies beside the configuration.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from llrnn.config.draft import LEAST_SENTENCES, Draft, data_folder, parts_by_name
from llrnn.config.project import Project, parse_config
from llrnn.ground.errors import ConfigError, CorpusError, quoted
from llrnn.ground.files import parse_json, parse_toml, write_atomically
from llrnn.text.conditions import Conditions, parse_act, values_of
from llrnn.text.corpus import Corpus, FoundSlots
from llrnn.text.raw import raw_reason, tokenise
from llrnn.text.readers import read_lines

_PAIRS = re.compile(r"\.(jsonl|csv|tsv)(\.gz)?$")
_TEXTS = ("text", "target", "ref", "reference", "sentence", "utterance")
_BRACKETS = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]\s*(?:,|$)")
_NUMBER = re.compile(r"[0-9.]+")
_PACE = ((2000, 60, 256), (400, 100, 128), (0, 150, 64))  # pairs or more: epochs, words in a batch (the study of RNNLG)
_HELD_OUT = 1000  # pairs, at most; a tenth of fewer

Pair = dict[str, Any]  # {"condition": ..., "target": ...}


def holds_pairs(path: str | Path) -> bool:
    """Whether a file is one of pairs, by its name."""
    return _PAIRS.search(str(path).lower()) is not None


def draft_pairs(
    files: Sequence[str | Path], *, out: str | Path, valid: Sequence[str | Path] = (), lowercase: bool = True
) -> Draft:
    """Look at pairs of meaning and text, and draft a configuration that `llrnn train` takes as it is.

    Of several files, names with `dev` and `test` are those parts; without any for validation a tenth is held out.

        draft_pairs(["train.jsonl"], out="waiter.toml").write()
    """
    out = Path(out)
    parts = {"train": [*map(str, files)], "valid": [*map(str, valid)]} if valid else parts_by_name([*map(str, files)])
    read = {part: list(_pairs(paths)) for part, paths in parts.items() if part != "test"}
    if read["train"] and all(_NUMBER.fullmatch(pair["target"]) for pair in read["train"]):
        raise ConfigError(
            f"{parts['train'][0]}: a text is required for each meaning, found numbers; "
            "give a list of words with --list, and a text beside it"
        )
    if len(read["train"]) < LEAST_SENTENCES:
        raise ConfigError(f"{LEAST_SENTENCES} pairs or more are required, found {len(read['train'])}; give more")
    kind = _kind([pair["condition"] for pairs in read.values() for pair in pairs])
    raw = raw_reason(Corpus.from_sentences([pair["target"].split() for pair in read["train"]], name="the texts"))
    if raw is not None or not all(".jsonl" in path.lower() for paths in parts.values() for path in paths):
        parts = {part: [_written(out, part, pairs, kind, raw is not None)] for part, pairs in read.items()}
    found = [] if raw is None else [f"{raw}: raw text, so texts and values were cut into words: {parts['train'][0]}"]
    corpora = {
        part: reduce(add, (Corpus.from_jsonl(path, lowercase=lowercase, conditions=kind) for path in paths))
        for part, paths in parts.items()
        if part != "test"
    }
    text, told = _toml(parts, corpora["train"], kind, lowercase)
    config = parse_config(parse_toml(text), str(out))
    Project.from_config(config)
    return Draft(out, text, config, (*found, *told), _warnings(corpora["train"]))


# --- reading


def _pairs(paths: Sequence[str]) -> Iterator[Pair]:
    for path in paths:
        ending = _PAIRS.search(path.lower())
        kind = ending[1] if ending else "jsonl"
        lines = ((number, line) for number, line in read_lines(path) if line.strip())
        if kind == "csv":
            yield from _of_csv(path, "\n".join(line for _, line in lines))
            continue
        for number, line in lines:
            yield _of_json(path, number, line) if kind == "jsonl" else _of_tsv(path, number, line)


def _of_json(path: str, number: int, line: str) -> Pair:
    try:
        found = parse_json(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"JSON is required ({error.msg})", path=path, line=number, column=error.colno) from None
    if not isinstance(found, Mapping) or not isinstance(found.get("target"), str) or "condition" not in found:
        wanted = '{"condition": ..., "target": "..."}'
        raise CorpusError(f"{wanted} is required, found {quoted(found)}; correct the line", path=path, line=number)
    return {"condition": _meaning(found["condition"]), "target": found["target"]}


def _of_tsv(path: str, number: int, line: str) -> Pair:
    meaning, tab, text = line.partition("\t")
    if not tab or not text.strip():
        raise CorpusError("condition TAB text is required, found no text; correct the line", path=path, line=number)
    return {"condition": _meaning(meaning), "target": text}


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
        yield {"condition": record if whole is None else _meaning(whole), "target": row[texts]}


def _meaning(found: object) -> object:
    """A condition as it is; name[x], food[y] is a record."""
    if isinstance(found, str) and _BRACKETS.match(found):
        fields: dict[str, list[str]] = {}
        for slot, value in _BRACKETS.findall(found):
            fields.setdefault(slot.strip(), []).append(value.strip())
        return {slot: values if len(values) > 1 else values[0] for slot, values in fields.items()}
    return found


def _kind(conditions: Sequence[object]) -> Conditions:
    """Acts, or records; a text alone says no slots."""
    strange = next((one for one in conditions if not isinstance(one, str | Mapping)), None)
    texts = [one for one in conditions if isinstance(one, str)]
    if strange is None and not texts:
        return "plain"
    if strange is not None or len(texts) < len(conditions):
        raise ConfigError(
            f"records, or dialog acts such as inform(name=x), are required as conditions, all of one kind, found "
            f"{quoted(strange if strange is not None else texts[0])}; write them alike"
        )
    for text in texts:
        parse_act(text)
    return "act"


# --- raw text


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    return " ".join(tokenise(value)) if isinstance(value, str) else value


def _written(out: Path, part: str, pairs: Sequence[Pair], kind: Conditions, cut: bool) -> str:
    """JSON lines beside the configuration, cut into words or as they are."""
    path = data_folder(out) / f"{part}.jsonl"
    made = [{**pair, "target": _cut(pair["target"])} for pair in pairs] if cut else list(pairs)
    if cut and kind == "plain":
        made = [{**pair, "condition": _cut(pair["condition"])} for pair in made]
    write_atomically(path, "".join(f"{json.dumps(pair, ensure_ascii=False)}\n" for pair in made).encode())
    return str(path)


# --- writing


def _toml(
    parts: Mapping[str, Sequence[str]], train: Corpus, kind: Conditions, lowercase: bool
) -> tuple[str, list[str]]:
    slots = FoundSlots.of(train)
    if not slots.said:
        raise ConfigError(
            f"{train.name}: slots whose values the texts say are required, found none; write values as texts have them"
        )
    last = None if "valid" in parts else max(1, min(len(train) // 10, _HELD_OUT))
    epochs, words = next((epochs, words) for least, epochs, words in _PACE if len(train) >= least)
    values = [f"Value:{slot}" for slot in slots.open]
    lines = [
        "# values are copied from the condition word by word until they are said, where the words before announce them",
        "[corpus]",
        *(f"{part} = {_list(paths)}" for part, paths in parts.items()),
        *([f"valid_last = {last}"] if last else []),
        *([f'conditions = "{kind}"'] if kind == "act" else []),
        *([] if lowercase else ["lowercase = false"]),
        "",
        "[vocabulary]",
        "as_new = 0.0 # new words come from the conditions, which list them",
        "",
        '[[domains]]\nkind = "numbers"\nlanguage = "any"\n',
        '[[domains]]\nkind = "spelling"\norder = 4\nendings = 0\n',
        *([f"[lexicon]\nvalues = {_list(slots.open)} # with values that nobody has seen\n"] if values else []),
        "[features]",
        "output = [",
        f'    {{ kind = "identity"{f", without = {_list(values)}" if values else ""} }},',
        *(['    { kind = "attributes", listed = true },'] if values else []),
        "]",
        "",
        '[background]\nkind = "discounted"',
        *(["primed = { cells = true }"] if values else []),
        "",
        f'[[contextual]]\nkind = "copied"\nslots = {_list(slots.said)}\n',
        '[[contextual]]\nkind = "continued"\n',
        '[[contextual]]\nkind = "said"\n',
        f'[[contextual]]\nkind = "unsaid"\nslots = {_list(slots.said)}\n',
        '[[contextual]]\nkind = "framed"\n',
        f'[[contextual_inputs]]\nkind = "slots"\nslots = {_list(slots.said)}\n',
        '[[contextual_inputs]]\nkind = "framed"\n',
        '[condition]\nreading = "slots"',
        *([f"unread = {_list(slots.open)}"] if values else []),
        'encoder = "lstm"\nsize = 128\n',
        '[controller]\nkind = "lstm"\nhidden = 128\nlayers = 2\ndropout = 0.3\n',
        "[training]",
        f'batches = {{ kind = "sentences", words = {words} }}',
        'optimizer = "adamw"\nlearning_rate = 0.003\nweight_decay = 0.01\naverage = 0.99',
        f"epochs = {epochs}\npatience = 10",
    ]
    told = [
        f"{train.name}: {len(train):,} pairs, {train.tokens:,} words, conditions are "
        + ("dialog acts" if kind == "act" else "records")
        + (f"; the last {last:,} are held out for validation" if last else ""),
        f"slots that texts say: {', '.join(slots.said)}",
        f"of these with new values, so copied and not known: {', '.join(slots.open) or 'none'}",
    ]
    return "\n".join(lines) + "\n", told


def _warnings(train: Corpus) -> tuple[str, ...]:
    """Slots that no copying serves."""
    every = {slot for sentence in train for slot, _ in values_of(sentence.condition)}
    lost = sorted(every - {*FoundSlots.of(train).said})
    if not lost:
        return ()
    return (f"the values of {', '.join(lost)} are not said word by word: the network reads them, and copies nothing",)


def _list(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)
