"""Malformed files: every format that we read, spoiled, and read by the commands of the command line.

Right is exit code 0, or exit code 2 with one line on standard error. A traceback, an error that is none of ours, a
hang, a process that waits for ever, all of the memory asked for, a NaN printed as a result, an escape sequence of a
file sent to the terminal: each is a finding, and the spoiled file is kept in the folder of findings.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random

from campaign.formats import FOLDERS, FORMATS, Folder, Format
from campaign.mutations import spoiled
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.workers import untyped
from llrnn import cli
from llrnn.ground.errors import LLRNNError

SPECIAL = ("directory", "fifo", "device", "missing", "null device", "own link", "long name")
LONGEST_MESSAGE = 4_000
_NAN = re.compile(r"(?<![\w./'\"-])nan(?!\w)", re.IGNORECASE)
_LABELLED_NAN = re.compile(r"(perplexity|log ?p|log10|sum|total|p|=|±|entropy)\W{0,6}nan\b", re.IGNORECASE)
_LINE = re.compile(r"(error|note|warning): ")


@dataclass(frozen=True)
class Spoiled:
    """The case: which format, which one of them."""

    format: str
    number: int
    seed: int
    keep: Path | None = None  # where a finding's file is kept

    def __str__(self) -> str:
        return f"{self.format}-{self.number}"


def read_one(case: Spoiled, scratch: Path) -> list[Outcome]:
    """Spoil a file, read it, look at what was said."""
    rng = rng_of(case.seed, f"malformed {case}")
    work = scratch / "spoiled"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    finding: Finding | None
    if case.format in FOLDERS:
        result, finding = _read_folder(case, FOLDERS[case.format], scratch / "samples", work, rng)
    else:
        result, finding = _read_file(case, FORMATS[case.format], scratch / "samples", work, rng)
    if finding is not None and case.keep is not None:
        _keep(work, case.keep / str(case).replace("/", "_"))
    return [Outcome(case.format, result, finding)]


def _keep(work: Path, where: Path) -> None:
    """Files only: a FIFO would block whoever copies it."""
    for file in work.rglob("*"):
        if file.is_file() and not file.is_symlink():
            target = where / file.relative_to(work)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _read_folder(case: Spoiled, kind: Folder, samples: Path, work: Path, rng: Random) -> tuple[str, Finding | None]:
    folder = work / "folder"
    shutil.copytree(samples / kind.sample, folder)
    try:
        kind.spoil(folder, rng)
    except (LLRNNError, ValueError, OverflowError, RecursionError, AttributeError):
        return "not written", None  # our writer refuses it: nothing to read
    return _read_by_command(case, rng.choice(kind.commands), samples, folder, "", b"")


def _read_file(case: Spoiled, kind: Format, samples: Path, work: Path, rng: Random) -> tuple[str, Finding | None]:
    is_text = bool(kind.commands) and "{text}" in kind.commands[0]
    content = kind.sample.encode() if is_text else (samples / kind.sample).read_bytes()
    hostile = case.number < len(kind.hostile)
    content = kind.hostile[case.number].encode() if hostile else spoiled(content, rng, kind.ways)
    file = work / Path("text" if is_text else kind.sample).name
    for name in kind.beside:
        shutil.copyfile(samples / name, work / name)
    file.write_bytes(content)
    if not is_text and not hostile and rng.random() < 0.1:
        file = _special(file, rng.choice(SPECIAL))
    if kind.function is not None:
        return _read_by_function(case, kind, file)
    text = content.decode("utf8", "replace").replace("\x00", "")[:100_000] if is_text else ""
    return _read_by_command(case, rng.choice(kind.commands), samples, file, text, content, kind.asks_for_memory)


def _special(file: Path, what: str) -> Path:
    """Something else of this name than a file."""
    file.unlink()
    if what == "directory":
        file.mkdir()
    elif what == "fifo":
        os.mkfifo(file)
    elif what in ("device", "null device"):
        file.symlink_to("/dev/zero" if what == "device" else "/dev/null")
    elif what == "own link":
        file.symlink_to(file.name)
    elif what == "long name":
        return file.with_name("x" * 300 + file.suffix)
    return file


def _read_by_function(case: Spoiled, kind: Format, file: Path) -> tuple[str, Finding | None]:
    assert kind.function is not None
    try:
        kind.function(file)
    except LLRNNError as error:
        return "refused", _memory(case, str(error))
    except Exception as error:
        return "untyped", untyped(error, str(case), f"{kind.function}({file.name})")
    return "read", None


def _read_by_command(
    case: Spoiled, command: str, samples: Path, file: Path, text: str, content: bytes, asks_for_memory: bool = False
) -> tuple[str, Finding | None]:
    filled = {"{file}": str(file), "{out}": str(file.parent / "out"), "{text}": text, "+": " "}
    arguments = [_filled(part, filled) for part in command.split(" ")]
    out, err = StringIO(), StringIO()
    with chdir(samples), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        try:
            code = cli.run(arguments)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except Exception as error:
            told = untyped(error, str(case), f"llrnn {command}")
            return "traceback", Finding("traceback", told.case, told.signature, told.detail)
    said = f"llrnn {command}: exit code {code}\n{out.getvalue()[-1500:]}\n{err.getvalue()[-1500:]}"
    kind = _wrong(code, out.getvalue(), err.getvalue(), b"nan" in content.lower(), asks_for_memory)
    if kind is None:
        return ("read" if code == 0 else "refused"), None
    return kind, Finding(kind, str(case), f"{case.format}: {kind}, llrnn {command.split('{')[0]}", said)


def _filled(part: str, filled: dict[str, str]) -> str:
    """Words of one argument are joined by `+`; an argument that is the text alone is the text."""
    if part == "{text}":
        return filled["{text}"]
    if part == "le+chat":
        return "le chat"
    for name in ("{file}", "{out}", "{text}"):
        part = part.replace(name, filled[name])
    return part


def _wrong(code: int, out: str, err: str, has_nan: bool, asks_for_memory: bool) -> str | None:
    """What kind of fault an answer is; None where it is right."""
    lines = [line for line in err.splitlines() if line.strip()]
    if code not in (0, 2):
        return "exit code"
    if "\x1b" in out or "\x1b" in err:
        return "escape"
    if any(not _LINE.match(line) for line in lines):
        return "message"
    if code == 2 and not any(line.startswith("error: ") for line in lines):
        return "no message"
    if any(len(line) > LONGEST_MESSAGE for line in lines):
        return "long message"
    if code == 2 and "not enough memory" in err and not asks_for_memory:
        return "memory"
    return "nan" if code == 0 and (_LABELLED_NAN if has_nan else _NAN).search(out) else None


def _memory(case: Spoiled, message: str) -> Finding | None:
    return Finding("memory", str(case), f"{case.format}: memory", message) if "not enough memory" in message else None


def malformed(setting: Setting) -> Iterator[Outcome | Figure]:
    """Every format, by its number of cases; the hostile ones are always among them."""
    samples = make_samples(setting.out / "samples")
    keep = setting.folder("findings")
    kinds = [(name, kind.cases, len(kind.hostile)) for name, kind in FORMATS.items()]
    kinds += [(name, folder.cases, 1) for name, folder in FOLDERS.items()]
    cases = [
        Spoiled(name, number, setting.seed, keep)
        for name, full, least in kinds
        for number in range(setting.count(full, least=max(1, least)))
    ]
    yield from setting.pool.run(read_one, (case for case in cases if setting.wanted(str(case))), samples)
    yield Figure("formats", len(FORMATS) + len(FOLDERS))
    yield Figure("peak MB of a worker", setting.pool.peak_mb)
