"""Questions and their logical forms (GeoQuery, and four domains of Overnight) as the files of a study.

    train.jsonl, train-20.jsonl, train-50.jsonl     all of the training text, and parts of it, one within the other
    train-all.jsonl                                 train and valid: GeoQuery's own 600
    valid.jsonl, test.jsonl                         GeoQuery's own; of Overnight a fifth of the training text validates
    *.linked.jsonl                                  the same with the names in the questions looked up in a lexicon
    symbols.txt                                     what forms are made of: all of train and valid, and the lexicon
    names.tsv                                       the symbols of names, with the kinds of name that they are part of

Every line is {"condition": question, "target": form}. A linked question is a dialog act: its words are slots without a
value, and a name is a slot with one, the symbols that a form would say. `what is the capital of new york` becomes

    ask(_what;_is;_the;_capital;_of;city="' new york '";state="' new york '")

so that a network reads that there is a city or a state, and priming and copying know which. The lexicon is the domain's
own (Overnight), or names that everybody knows (a file of ours) and names of training forms (GeoQuery); it is the same
whatever share of the text is trained on. Where a state follows a city its postal code is offered too (`code`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_atomically
from llrnn.model.words import value_attribute
from llrnn.text.conditions import Act, Slot
from llrnn.text.readers import read_lines

DATASETS = ("geo", "calendar", "publications", "recipes", "restaurants")
SHARES = (20, 50, 100)  # percent of the training text
PARTS = ("valid", "test")
LONGEST_NAME = 6  # words
QUOTE = "'"
_HELD_OUT = 5  # of Overnight's training text, one in so many validates
_ID = re.compile(r"_(city|country|place|river|state)id \( ('[^']+'|[^\s,)]+)(?: , \S+)? \)")  # a name in a form of geo
_ENTRY = re.compile(r"(.+?) :- NP : en\.(\w+)\.(\w+)$")  # a line of Overnight's lexicons that is about an entity

Words = tuple[str, ...]


class Pair(NamedTuple):
    """A question and what it means."""

    question: str
    form: str


class Name(NamedTuple):
    """What a name may stand for: its kind, and what a form says."""

    kind: str
    value: str


@dataclass(frozen=True)
class Names:
    """The lexicon: from the words of a question to what they may name; `codes` are of states, by value."""

    entries: Mapping[Words, tuple[Name, ...]]
    codes: Mapping[str, str]

    def symbols(self) -> dict[str, set[str]]:
        """Every symbol that a form says of a name, with the kinds of name that it is part of."""
        named = [name for names in self.entries.values() for name in names]
        found: dict[str, set[str]] = {}
        for kind, value in (*named, *(Name("code", code) for code in self.codes.values())):
            for symbol in value.split():
                found.setdefault(symbol, set()).update(() if symbol == QUOTE else (kind,))
        return found


# --- reading


def read_pairs(path: StrPath) -> list[Pair]:
    """`question TAB form`, one a line; questions are written small, forms stay as they are."""
    found = []
    for number, line in read_lines(path):
        question, tab, form = line.partition("\t")
        if not tab or not question.strip() or not form.strip():
            raise CorpusError(f"question TAB form is required, found {line[:60]!r}; correct it", path=path, line=number)
        found.append(Pair(" ".join(question.lower().split()), " ".join(form.split())))
    return found


def read_parts(data: StrPath, dataset: str, seed: int = 0) -> dict[str, list[Pair]]:
    """train, valid and test of a dataset."""
    if dataset == "geo":
        files = {"train": "train", "valid": "dev", "test": "test"}
        return {part: read_pairs(Path(data) / "geoquery" / f"geo_{name}.tsv") for part, name in files.items()}
    if dataset not in DATASETS:
        raise CorpusError(f"the datasets are {', '.join(DATASETS)}, found {dataset!r}; name one of them")
    whole, test = (read_pairs(Path(data) / "overnight" / f"{dataset}_{part}.tsv") for part in ("train", "test"))
    held = set(random.Random(seed).sample(range(len(whole)), len(whole) // _HELD_OUT))
    train, valid = ([pair for i, pair in enumerate(whole) if (i in held) == out] for out in (False, True))
    return {"train": train, "valid": valid, "test": test}


def read_names(data: StrPath, dataset: str, train: Sequence[Pair], known: StrPath | None = None) -> Names:
    """The lexicon of a dataset; `known` is a table of names for geo: kind, name, and what else it stands for."""
    if dataset == "geo":
        return geo_names(train, () if known is None else _table(known))
    lines = (line for _, line in read_lines(Path(data) / "overnight" / f"{dataset}_lexicon.txt"))
    matches = (_ENTRY.match(line.strip()) for line in lines)
    return Names(_grouped((m[1], Name(m[2], f"en.{m[2]}.{m[3]}")) for m in matches if m is not None), {})


def _table(path: StrPath) -> Iterator[list[str]]:
    for number, line in read_lines(path):
        fields = line.split("\t")
        if line.strip() and not line.startswith("#"):
            if len(fields) < 2:
                raise CorpusError(f"kind TAB name is required, found {line!r}; correct it", path=path, line=number)
            yield fields


def geo_names(train: Iterable[Pair], known: Iterable[Sequence[str]] = ()) -> Names:
    """Names of training forms, and of a table, whose third column is a state's code, or what a form says instead."""
    found = [(value.strip("' "), Name(kind, value)) for pair in train for kind, value in _ID.findall(pair.form)]
    codes = {}
    for kind, name, *other in known:
        value = other[0] if other and kind != "state" else name
        found.append((name, Name(kind, quoted(value))))
        if other and kind == "state":
            codes[quoted(name)] = other[0]
    return Names(_grouped(found), codes)


def quoted(name: str) -> str:
    """As forms of geo write a name: in quotes if it has several words."""
    return f"' {name} '" if " " in name else name


def _grouped(found: Iterable[tuple[str, Name]]) -> dict[Words, tuple[Name, ...]]:
    grouped: dict[Words, set[Name]] = {}
    for text, name in found:
        grouped.setdefault(tuple(text.lower().split()), set()).add(name)
    return {words: tuple(sorted(names)) for words, names in grouped.items()}


# --- names in questions


def link(question: str, names: Names) -> Act:
    """The question as an act: names, the longest first, are slots with values, all other words slots without."""
    slots: list[Slot] = []
    for words, found in _spans(question.split(), names):
        after_city = bool(slots) and slots[-1].value is not None and any(slot.name == "city" for slot in slots[-2:])
        slots += [Slot(name.kind, name.value) for name in found]
        if after_city:
            states = [name.value for name in found if name.kind == "state" and name.value in names.codes]
            slots += [Slot("code", names.codes[state]) for state in states]
        if not found:
            slots.append(Slot(f"_{re.sub('[^0-9a-z_-]', '_', words[0])}"))
    return Act("ask", tuple(slots))


def _spans(words: Sequence[str], names: Names) -> Iterator[tuple[Words, tuple[Name, ...]]]:
    place = 0
    while place < len(words):
        ends = range(min(place + LONGEST_NAME, len(words)), place, -1)
        end = next((end for end in ends if tuple(words[place:end]) in names.entries), place + 1)
        span = tuple(words[place:end])
        yield span, names.entries.get(span, ())
        place = end


# --- writing


def write_parts(
    folder: StrPath,
    data: StrPath,
    dataset: str,
    shares: Sequence[int] = SHARES,
    *,
    known: StrPath | None = None,
    seed: int = 0,
) -> dict[Path, int]:
    """Write the files of a dataset, made from the folder of all data; how many pairs each has."""
    parts = read_parts(data, dataset, seed)
    names = read_names(data, dataset, parts["train"], known)
    symbols = {symbol for part in ("train", "valid") for pair in parts[part] for symbol in pair.form.split()}
    shared = {f"train-{share}": some for share, some in nested(parts["train"], shares, seed).items()}
    texts = {**parts, **shared, "train-all": [*parts["train"], *parts["valid"]]}
    files = {}
    Path(folder).mkdir(parents=True, exist_ok=True)
    for part, pairs in texts.items():
        for suffix, conditions in (("", [p.question for p in pairs]), (".linked", [link(p[0], names) for p in pairs])):
            path = Path(folder) / f"{part}{suffix}.jsonl"
            write_atomically(path, _lines(conditions, pairs))
            files[path] = len(pairs)
    kinds = names.symbols()
    listed = "".join(f"{symbol}\n" for symbol in sorted(symbols | set(kinds)))
    write_atomically(Path(folder) / "symbols.txt", listed.encode())
    write_atomically(Path(folder) / "names.tsv", _attributes(kinds))
    return files


def nested(pairs: Sequence[Pair], shares: Sequence[int], seed: int = 0) -> dict[int, list[Pair]]:
    """Shares of a text in percent below 100, each within the larger ones, in the order of the text."""
    if not all(0 < share <= 100 for share in shares):
        raise CorpusError(f"shares must be percentages from 1 to 100, found {list(shares)}; correct them")
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    chosen = {share: sorted(order[: max(1, round(len(order) * share / 100))]) for share in shares if share < 100}
    return {share: [pairs[i] for i in places] for share, places in chosen.items()}


def _attributes(kinds: Mapping[str, Iterable[str]]) -> bytes:
    rows = {symbol: " ".join(value_attribute(kind) for kind in sorted(own)) for symbol, own in sorted(kinds.items())}
    return "".join(f"{symbol}\t{attributes or '_'}\n" for symbol, attributes in rows.items()).encode()


def _lines(conditions: Sequence[object], pairs: Sequence[Pair]) -> bytes:
    rows = ({"condition": str(one), "target": pair.form} for one, pair in zip(conditions, pairs, strict=True))
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
