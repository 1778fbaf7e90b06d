"""Ways to spoil a file that know what stands in it: lines, columns, numbers, brackets, JSON.

Each takes the content and a source of chance, and gives the content back, spoiled. `spoiled` draws one or a few.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

HUGE = [b"1e400", b"-1e400", b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"9" * 400, b"1e308", b"-0", b"1e-400"]
HUGE += [
    b"9223372036854775808",
    b"-9223372036854775809",
    b"4294967296",
    b"0x1F",
    b"1_000",
    b"\xd9\xa3",
    b"0.1.2",
    b"--1",
]
ODD = [
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x1b[2J",
    b"\x07",
    b"\x7f",
    b"\xef\xbb\xbf",
]
ODD += ["\u2028".encode(), "\u202e".encode(), b"\x0b", b"\x0c", b"\x1c", b"\x85", "\U0001f600".encode(), b"\\ud800"]
SIGNS = [
    b"\t",
    b" ",
    b",",
    b";",
    b":",
    b"=",
    b'"',
    b"'",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"|",
    b"/",
    b"\\",
    b"#",
    b"*",
]
SIGNS += [b"~", b"%", b"?", b"+", b"-", b"_", b"<", b">", b"&", b"^", b"$", b"@", b"!", b"\n", b"\r"]
DEEP = 20_000
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"[^\s,;:()\[\]{}\"'=|]+")


def _place(content: bytes, rng: Random) -> int:
    return rng.randint(0, len(content))


def truncated(content: bytes, rng: Random) -> bytes:
    return content[: _place(content, rng)]


def emptied(content: bytes, rng: Random) -> bytes:
    return rng.choice([b"", b"\n", b" ", b"\n" * 1000, b"\x00", b"\xef\xbb\xbf", b"#\n"])


def inserted(content: bytes, rng: Random) -> bytes:
    at = _place(content, rng)
    return content[:at] + rng.choice(ODD + SIGNS + HUGE) + content[at:]


def removed(content: bytes, rng: Random) -> bytes:
    first = _place(content, rng)
    return content[:first] + content[first + rng.choice([1, 1, 2, 5, 40]) :]


def doubled(content: bytes, rng: Random) -> bytes:
    """A piece comes twice; or all of it many times."""
    if rng.random() < 0.2:
        return content * rng.choice([2, 3, 50])
    first, size = _place(content, rng), rng.choice([1, 3, 20, 200])
    return content[: first + size] + content[first : first + size] + content[first + size :]


def other_byte(content: bytes, rng: Random) -> bytes:
    at = _place(content, rng)
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def other_number(content: bytes, rng: Random) -> bytes:
    return _replaced(content, _NUMBER, rng.choice(HUGE), rng)


def other_word(content: bytes, rng: Random) -> bytes:
    longest = rng.choice([b"x" * 5_000, b"</s>", b"<s>", b"<unk>", b"_", b"null", b"true", b"__class__", b"../../x"])
    return _replaced(content, _WORD, rng.choice([longest, *ODD, *HUGE]), rng)


def _replaced(content: bytes, pattern: re.Pattern[bytes], with_: bytes, rng: Random) -> bytes:
    found = list(pattern.finditer(content[:20_000]))
    if not found:
        return inserted(content, rng)
    one = rng.choice(found)
    return content[: one.start()] + with_ + content[one.end() :]


def lines_swapped(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def line_spoiled(content: bytes, rng: Random) -> bytes:
    """One line is missing, comes a thousand times, is very long, or is another's beginning."""
    lines = content.split(b"\n")
    i = rng.randrange(len(lines))
    change = rng.choice(["missing", "many", "long", "joined", "blank"])
    if change == "missing":
        del lines[i]
    elif change == "many":
        lines[i:i] = [lines[i]] * 1000
    elif change == "long":
        lines[i] = lines[i] + b" x" * 50_000
    elif change == "joined" and i + 1 < len(lines):
        lines[i : i + 2] = [lines[i] + lines[i + 1]]
    else:
        lines[i] = rng.choice([b"", b"\t", b"   ", b"\t\t\t\t\t\t\t\t\t\t\t"])
    return b"\n".join(lines)


def columns_spoiled(content: bytes, rng: Random) -> bytes:
    """A column too many, one too few, or two in the wrong order."""
    lines = content.split(b"\n")
    i = rng.randrange(len(lines))
    separator = next((one for one in (b"\t", b",", b" ") if one in lines[i]), b"\t")
    columns = lines[i].split(separator)
    change = rng.choice(["more", "fewer", "shuffled", "empty"])
    if change == "more":
        columns.insert(rng.randint(0, len(columns)), b"x")
    elif change == "fewer":
        del columns[rng.randrange(len(columns))]
    elif change == "shuffled":
        rng.shuffle(columns)
    else:
        columns[rng.randrange(len(columns))] = b""
    lines[i] = separator.join(columns)
    return b"\n".join(lines)


def nested(content: bytes, rng: Random) -> bytes:
    """Brackets in brackets, thousands deep; closed or not."""
    opening, closing = rng.choice(
        [(b"[", b"]"), (b"(", b")"), (b"{", b"}"), (b'{"a":', b"}"), (b"a(", b")"), (b"a.", b"")]
    )
    deep = rng.choice([60, 1_000, DEEP])
    inside = opening * deep + (b"1" if rng.random() < 0.5 else b"") + (closing * deep if rng.random() < 0.7 else b"")
    return inside if rng.random() < 0.3 else _replaced(content, _WORD, inside, rng)


def other_ends(content: bytes, rng: Random) -> bytes:
    """What other systems write: CRLF, CR, a byte order mark, UTF-16, Latin-1."""
    change = rng.choice(["crlf", "cr", "bom", "utf16", "latin1", "no end"])
    if change == "crlf":
        return content.replace(b"\n", b"\r\n")
    if change == "cr":
        return content.replace(b"\n", b"\r")
    if change == "bom":
        return b"\xef\xbb\xbf" + content
    text = content.decode("utf8", "replace")
    if change == "utf16":
        return text.encode("utf-16")
    return text.encode("latin1", "replace") if change == "latin1" else content.rstrip(b"\n")


ANY: tuple[Mutation, ...] = (
    truncated, emptied, inserted, inserted, removed, doubled, other_byte, other_number, other_number, other_word,
    lines_swapped, line_spoiled, columns_spoiled, nested, other_ends,
)  # fmt: skip


def spoiled(content: bytes, rng: Random, ways: tuple[Mutation, ...] = ANY) -> bytes:
    """One mutation, or a few on top of each other."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice(ways)(content, rng)
    return content


# --- JSON whose form is right and whose content is not ---------------------------------------------------------------

_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    10**9,
    10**400,
    1e308,
    "",
    "x",
    "\x00",
    "\x1b[2J",
    [],
    {},
    [[]],
    ["x"],
    {"x": 1},
]
_VALUES += [float("nan"), float("inf"), "a" * 10_000, [0] * 1000, "../../etc/passwd", "/dev/zero", -(2**63) - 1, 0.5]


def json_spoiled(data: Any, rng: Random) -> Any:
    """A copy with one value somewhere in it replaced, removed, repeated, or of another kind."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 2])):
        where, key = rng.choice(list(_places(data)) or [([data], 0)])
        change = rng.random()
        if change < 0.25:
            del where[key]
        elif change < 0.35 and isinstance(where, list):
            where.insert(key, copy.deepcopy(where[key]))
        else:
            where[key] = copy.deepcopy(rng.choice(_VALUES))
    return data


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Everything that can be replaced: what holds it, and where."""
    found: list[tuple[Any, Any]] = []
    keys = list(data) if isinstance(data, dict) else range(min(len(data), 20)) if isinstance(data, list) else []
    for key in keys:
        found.append((data, key))
        found += _places(data[key])
    return found


def json_lines_spoiled(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    i = rng.randrange(len(lines))
    try:
        lines[i] = json.dumps(json_spoiled(json.loads(lines[i]), rng)).encode()
    except ValueError:
        return inserted(content, rng)
    return b"\n".join(lines)


def json_text_spoiled(content: bytes, rng: Random) -> bytes:
    try:
        return json.dumps(json_spoiled(json.loads(content), rng)).encode()
    except ValueError:
        return inserted(content, rng)
