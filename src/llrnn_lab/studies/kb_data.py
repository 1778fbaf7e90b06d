"""The Cambridge restaurant dialogues (CamRest676, Wen et al. 2017) and their database as the files of a study.

    train.jsonl, valid.jsonl, test.jsonl     a line for each system turn; no dialogue is in two of them
    train-read.jsonl, …, changed-read.jsonl  the same with rows of the table (of the changed one) in the field `table`
    train-unnamed.jsonl                      the training lines, and copies without the names of columns asked for
    venues.txt                               the words of the database
    venues.json                              the database, its values as words
    changed.json                             the same names and foods, with other values in all other columns

A line is {"condition": {"user": "...", "said": ["...", ...], "asked": ["phone"], "food": "thai"}, "target": "..."}:
what the user said last, what the system said before, which slots are asked for, and what the user wants by then (a
field is left out where nothing is said of it, and may be dontcare). Texts and values are cut by the same `tokens`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from llrnn.ground.errors import CorpusError, short
from llrnn.ground.files import StrPath, write_atomically
from llrnn.knowledge.contextual.lookup import Matching
from llrnn.text.readers import read_lines
from llrnn.text.tables import KnowledgeBase, Row

COLUMNS = ("name", "area", "food", "pricerange", "phone", "address", "postcode")
WANTED = ("food", "area", "pricerange")  # what a user may restrict
DIALOGUES, VENUES = "CamRest676.json.gz", "CamRest_db.json"
ROWS = 5  # that a network reads, at most
NAMES = {  # words by which users name a column
    "phone": ("phone", "number", "telephone"),
    "address": ("address", "located", "where"),
    "postcode": ("post", "postcode", "code", "zip"),
    "area": ("area", "part", "town", "where"),
    "pricerange": ("price", "pricerange", "range", "cost"),
    "food": ("food", "type", "serve", "kind"),
}
PARTS = {"train": 3, "valid": 1, "test": 1}  # shares of the dialogues

_PIECES = re.compile(
    r"n't\b|'(?:s|re|m|d|ve|ll)\b"  # it 's, do n't
    r"|\b[a-z]\.[a-z]\b|\bst\.(?=\s+[a-z])"  # c.b as in a postcode, st. johns: no sentence ends here
    r"|\w+?(?=n't\b)|\w+|[^\w\s]"
)
# other spellings of what the database writes as 01223 323737, 0871 942 9180 and C.B 2, 1 A.B; the text is cut already
_SPELLINGS = (
    (re.compile(r"\b(01[0-9]{3})(?: - | )?([0-9]{6})\b"), r"\1 \2"),
    (re.compile(r"\b(08[0-9]{2})(?: - | )?([0-9]{3})(?: - | )?([0-9]{4})\b"), r"\1 \2 \3"),
    (re.compile(r"\bc ?\.? ?b[ .]*([0-9]{1,2}?)[ ,]*([0-9])[ .]*([a-z])[ .]*([a-z])(?=\s|$)"), r"c.b \1 , \2 \3.\4"),
)

_BEGINS = ("b", "br", "d", "dr", "f", "g", "gr", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "z")
_MIDDLES = ("a", "e", "i", "o", "u", "ai", "ou")
_ENDS = ("ford", "ham", "ley", "ton", "wick", "worth")
_STREETS = ("street", "road", "avenue")


class Turn(NamedTuple):
    """What a user said and wants by then, and what the system answered."""

    user: str
    wants: Mapping[str, str]
    asked: tuple[str, ...]
    system: str


@dataclass(frozen=True)
class Parts:
    """What was written: files with their numbers of lines or rows, and what is left out or not as it should be.

    `respelled` counts the telephone numbers and postcodes of system turns that were written otherwise than in the
    database; `empty` the system turns that say nothing and are left out.
    """

    files: dict[Path, int]
    dialogues: dict[str, int]
    respelled: int
    empty: int
    problems: tuple[str, ...]


# --- words


def tokens(text: str) -> list[str]:
    """Lower case, punctuation apart; numbers and postcodes as the database writes them: c.b 2 , 1 a.b."""
    return _respelled(text)[0].split()


def _respelled(text: str) -> tuple[str, int]:
    """A text as words with spaces between them, and how many numbers and postcodes were written otherwise."""
    cut = " ".join(_PIECES.findall(text.lower().replace("’", "'")))
    others = 0
    for pattern, form in _SPELLINGS:
        others += sum(found.expand(form) != found[0] for found in pattern.finditer(cut))
        cut = pattern.sub(form, cut)
    return cut, others


# --- reading


def read_dialogues(path: StrPath) -> tuple[list[list[Turn]], tuple[str, ...]]:
    """All dialogues, turn by turn; and a message for each thing that is not as it should be."""
    content = "\n".join("" if line.startswith("#") else line for _, line in read_lines(path))
    try:
        found = json.loads(content)
    except json.JSONDecodeError as error:
        reason = f"JSON is required, a list of dialogues ({error.msg}); fetch the file anew"
        raise CorpusError(reason, path=path, line=error.lineno, column=error.colno) from error
    problems: list[str] = []
    dialogues = []
    for number, one in enumerate(found if isinstance(found, list) else [found], 1):
        try:
            dialogues.append([_turn(turn, f"{path}: dialogue {number}", problems) for turn in one["dial"]])
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            wanted = '{"dial": [{"usr": {"transcript", "slu"}, "sys": {"sent"}}, ...]}'
            reason = f"{wanted} is required, found {short(one)} as dialogue {number}; fetch it anew"
            raise CorpusError(reason, path=path) from cause
    return dialogues, tuple(problems)


def _turn(turn: Any, name: str, problems: list[str]) -> Turn:
    wants: dict[str, str] = {}
    asked: dict[str, None] = {}
    for act, slot, value in _slots(turn["usr"]["slu"]):
        if (slot == "slot") != (act == "request"):
            problems.append(f"{name}: {act}({slot}={value}) is read by its slot, not by its act")
        if slot == "slot":
            asked[value] = None
        elif slot not in WANTED or wants.get(slot, value) != value:
            problems.append(f"{name}: {act}({slot}={value}) is left out, a turn has one of each of {', '.join(WANTED)}")
        else:
            wants[slot] = value
    return Turn(_text(turn["usr"]["transcript"]), wants, tuple(asked), _text(turn["sys"]["sent"]))


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(found)
    return found


def _slots(acts: Any) -> Iterator[tuple[str, str, str]]:
    """(act, slot, value), all of them."""
    for act in acts:
        for slot, value in act["slots"]:
            yield _text(act["act"]), _text(slot), " ".join(tokens(_text(value)))


# --- writing


def write_parts(folder: StrPath, source: StrPath, seed: int = 0) -> Parts:
    """Write the files of a study, made from the dialogues and the database in the folder `source`."""
    dialogues, problems = read_dialogues(Path(source) / DIALOGUES)
    venues, missing = read_venues(Path(source) / VENUES)
    turns = [turn for dialogue in dialogues for turn in dialogue]
    known = {word for turn in turns for word in tokens(f"{turn.user} {turn.system}")}
    parts = _split(dialogues, seed)
    content: dict[str, Sequence[Mapping[str, Any]]] = {
        f"{part}.jsonl": [line for dialogue in own for line in lines_of(dialogue)] for part, own in parts.items()
    }
    other = changed(venues, known, seed)
    for part, table in (*((part, venues) for part in PARTS), ("changed", other)):
        own = content[f"{'test' if part == 'changed' else part}.jsonl"]
        content[f"{part}-read.jsonl"] = [with_rows(line, table) for line in own]
    content["train-unnamed.jsonl"] = with_unnamed(content["train.jsonl"], seed)
    content["venues.json"], content["changed.json"] = venues.rows, other.rows
    Path(folder).mkdir(parents=True, exist_ok=True)
    listed = "".join(f"{' '.join(row.values())}\n" for row in venues.rows)
    write_atomically(Path(folder) / "venues.txt", listed.encode())
    for name, rows in content.items():
        written = [json.dumps(row) for row in rows]
        text = "\n".join(written) if name.endswith("l") else "[\n" + ",\n".join(written) + "\n]"
        write_atomically(Path(folder) / name, f"{text}\n".encode())
    return Parts(
        {Path(folder) / name: len(rows) for name, rows in content.items()},
        {part: len(own) for part, own in parts.items()},
        sum(_respelled(turn.system)[1] for turn in turns),
        sum(not tokens(turn.system) for turn in turns),
        (*problems, *missing),
    )


def lines_of(dialogue: Sequence[Turn]) -> Iterator[dict[str, object]]:
    """A line for each system turn that says something."""
    said: list[str] = []
    for turn in dialogue:
        words = " ".join(tokens(turn.system))
        if words:
            fixed = {"user": " ".join(tokens(turn.user)), "said": list(said), "asked": list(turn.asked)}
            yield {"condition": {**fixed, **turn.wants}, "target": words}
            said.append(words)


def with_rows(line: Mapping[str, Any], table: KnowledgeBase) -> dict[str, object]:
    """A line whose condition also has the first rows that the experts would look up before the turn begins."""
    query = Matching(subject="name", on=WANTED, history=["said", "user"])
    rows = query.before(table, line["condition"])[:ROWS]
    read = [" ".join(f"{column} {value}" for column, value in row.items()) for row in rows]
    return {**line, "condition": {**line["condition"], "table": read}}


def with_unnamed(lines: Sequence[Mapping[str, Any]], seed: int = 0) -> list[Mapping[str, Any]]:
    """Lines, shuffled, and for each that asks for columns copies in which one of them, or all others, have no name."""
    dice, found = random.Random(seed), list(lines)
    for line in lines:
        asked = list(line["condition"]["asked"])
        dice.shuffle(asked)
        found += [unnamed(line, own) for own in (asked[:1], asked[1:]) if own]
    dice.shuffle(found)
    return found


def unnamed(line: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """A line in which these columns are asked for without their names: in the field `unnamed`, not by the user."""
    condition, names = line["condition"], {word for column in columns for word in NAMES.get(column, ())}
    user = " ".join(word for word in condition["user"].split() if word not in names)
    asked = [column for column in condition["asked"] if column not in columns]
    return {**line, "condition": {**condition, "user": user, "asked": asked, "unnamed": list(columns)}}


def _split(dialogues: Sequence[list[Turn]], seed: int) -> dict[str, list[list[Turn]]]:
    """Shares of the dialogues, in the order that a shuffle gives."""
    order = list(dialogues)
    random.Random(seed).shuffle(order)
    ends = [round(len(order) * share / sum(PARTS.values())) for share in accumulate(PARTS.values())]
    return {part: order[begin:end] for part, (begin, end) in zip(PARTS, pairwise((0, *ends)), strict=True)}


# --- the table


def read_venues(path: StrPath) -> tuple[KnowledgeBase, tuple[str, ...]]:
    """The database with its values as words; and a message for each value that it does not have."""
    found = KnowledgeBase.from_json(path)
    found.require(*COLUMNS)
    rows = [{column: " ".join(tokens(row[column])) for column in COLUMNS if column in row} for row in found.rows]
    missing = (f"{path}: {row.get('name')!r} has no {c}" for row in rows for c in COLUMNS if c not in row)
    return KnowledgeBase("venues", tuple(rows), COLUMNS), tuple(missing)


def changed(kb: KnowledgeBase, avoid: Collection[str] = (), seed: int = 0) -> KnowledgeBase:
    """The same names and foods; no other value is that of its venue before, and what is invented is nobody's.

    Names of streets are words that are not in `avoid` nor in the table. A venue without a number gets one of Cambridge.
    """
    words = {word for row in kb.rows for value in row.values() for word in value.split()}
    invent = _Inventor(random.Random(seed), {*avoid, *words, *(value for row in kb.rows for value in row.values())})
    return KnowledgeBase("changed", tuple(invent.row(row, kb) for row in kb.rows), kb.columns)


@dataclass
class _Inventor:
    """New values, no two alike."""

    dice: random.Random
    used: set[str]

    def row(self, old: Row, kb: KnowledgeBase) -> Row:
        new = {
            **{column: self.other(old.get(column), kb.values(column)) for column in ("area", "pricerange")},
            "phone": self.unused(lambda: self.phone(old.get("phone", "01223 000000"))),
            "address": f"{self.dice.randrange(1, 300)} {self.unused(self.word)} {self.dice.choice(_STREETS)}",
            "postcode": self.unused(self.postcode),
        }
        return {column: new.get(column, old.get(column, "")) for column in kb.columns}

    def other(self, old: str | None, values: Collection[str]) -> str:
        return self.dice.choice([value for value in values if value != old])

    def unused(self, make: Callable[[], str]) -> str:
        while (made := make()) in self.used:
            pass
        self.used.add(made)
        return made

    def phone(self, old: str) -> str:
        code, number = old.split(maxsplit=1)
        return f"{code} {re.sub('[0-9]', lambda _: self.dice.choice('0123456789'), number)}"

    def postcode(self) -> str:
        first, second = self.dice.choices("abcdefghjlnpqrstuwxyz", k=2)  # those that postcodes have
        return f"c.b {self.dice.randrange(1, 26)} , {self.dice.randrange(10)} {first}.{second}"

    def word(self) -> str:
        syllables = (self.dice.choice(_BEGINS) + self.dice.choice(_MIDDLES) for _ in range(self.dice.choice((1, 2))))
        return "".join(syllables) + self.dice.choice(_ENDS)
