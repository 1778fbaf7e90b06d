"""Malformed files: every format that we read, spoiled, and read by the commands of the command line.

Right is exit code 0, or exit code 2 with one line on standard error, in which the reader of this format speaks of this
file. Before that every command must read the valid file: a command that is refused for another reason checks nothing.
A traceback, an error that is none of ours, a
hang, a process that waits for ever, all of the memory asked for, a NaN printed as a result, an escape sequence of a
file sent to the terminal: each is a finding, and the spoiled file is kept in the folder of findings.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random

from campaign.formats import ANYHOW, FOLDERS, FORMATS, NAMED, READ, Folder, Format
from campaign.mutations import spoiled
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.workers import untyped
from llrnn import cli
from llrnn.ground.errors import LLRNNError

SPECIAL = ("directory", "fifo", "device", "missing", "null device", "own link", "long name")
LONGEST_MESSAGE = 4_000
_MEMORY = "not enough memory"
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


@dataclass(frozen=True)
class Valid:
    """The control of a command: the sample as it is, which must be read."""

    format: str
    number: int  # of the command

    def __str__(self) -> str:
        return f"{self.format}, valid-{self.number}"


def read_valid(case: Valid, scratch: Path) -> list[Outcome]:
    """Read the sample by the very command that spoiled ones are read by."""
    kind, samples, work = (FORMATS | FOLDERS)[case.format], scratch / "samples", _emptied(scratch / "spoiled")
    if isinstance(kind, Format) and kind.function is not None:
        result, finding = _read_by_function(case, kind.function, _beside(kind, samples, work))
    else:
        text = kind.sample if "{text}" in kind.commands[case.number] else ""
        file = work / "text" if text else _beside(kind, samples, work)
        result, finding = _read_by_command(case, kind.commands[case.number], samples, file, text, b"", READ)
    return [Outcome(f"{case.format}, valid", result, finding)]


def _beside(kind: Format | Folder, samples: Path, work: Path) -> Path:
    """A copy of the sample, with what must lie beside it."""
    file = work / Path(kind.sample).name
    if isinstance(kind, Folder):
        return shutil.copytree(samples / kind.sample, file)
    for name in kind.beside:
        shutil.copyfile(samples / name, work / name)
    return shutil.copyfile(samples / kind.sample, file)


def _emptied(work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    return work


def read_one(case: Spoiled, scratch: Path) -> list[Outcome]:
    """Spoil a file, read it, look at what was said."""
    rng = rng_of(case.seed, f"malformed {case}")
    work = _emptied(scratch / "spoiled")
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
    folder = _beside(kind, samples, work)
    try:
        kind.spoil(folder, rng)
    except (LLRNNError, ValueError, OverflowError, RecursionError, AttributeError):
        return "not written", None  # our writer refuses it: nothing to read
    return _read_by_command(case, rng.choice(kind.commands), samples, folder, "", b"", kind.refusal)


def _read_file(case: Spoiled, kind: Format, samples: Path, work: Path, rng: Random) -> tuple[str, Finding | None]:
    is_text = bool(kind.commands) and "{text}" in kind.commands[0]
    content = kind.sample.encode() if is_text else (samples / kind.sample).read_bytes()
    hostile = kind.hostile[case.number] if case.number < len(kind.hostile) else None
    content = hostile.content.encode() if hostile else spoiled(content, rng, kind.ways)
    file = work / "text" if is_text else _beside(kind, samples, work)
    file.write_bytes(content)
    if not is_text and not hostile and rng.random() < 0.1:
        file = _special(file, rng.choice(SPECIAL))
    if kind.function is not None:
        return _read_by_function(case, kind.function, file)
    text = content.decode("utf8", "replace").replace("\x00", "")[:100_000] if is_text else ""
    refusal = kind.refusal if hostile is None or hostile.refusal == ANYHOW else hostile.refusal
    command = rng.choice(kind.commands)
    found = _read_by_command(case, command, samples, file, text, content, refusal, kind.asks_for_memory)
    if found[0] == "read" and hostile is not None and hostile.refusal not in (READ, ANYHOW):
        told = f"{case.format}: must be refused"
        return "must be refused", Finding("must be refused", str(case), told, f"{hostile.refusal}: {text[:300]}")
    return found


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


def _read_by_function(
    case: Spoiled | Valid, function: Callable[[Path], object], file: Path
) -> tuple[str, Finding | None]:
    try:
        function(file)
    except LLRNNError as error:
        expected = None if isinstance(case, Valid) else NAMED
        kind = _unexpected(2, f"error: {error}", expected, file) or ("memory" if _MEMORY in str(error) else None)
        told = Finding(kind, str(case), f"{case.format}: {kind}", str(error)) if kind else None
        return kind or "refused", told
    except Exception as error:
        return "untyped", untyped(error, str(case), f"{function}({file.name})")
    return "read", None


def _read_by_command(
    case: Spoiled | Valid,
    command: str,
    samples: Path,
    file: Path,
    text: str,
    content: bytes,
    refusal: str | None,
    asks_for_memory: bool = False,
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
    if not (asks_for_memory and _MEMORY in err.getvalue()):
        kind = kind or _unexpected(code, err.getvalue(), refusal, file)
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
    if code == 2 and _MEMORY in err and not asks_for_memory:
        return "memory"
    return "nan" if code == 0 and (_LABELLED_NAN if has_nan else _NAN).search(out) else None


def _unexpected(code: int, err: str, refusal: str | None, file: Path) -> str | None:
    """Whether it was refused where it must be read, or by another error than that of its reader."""
    if code == 0:
        return None
    if refusal is READ:
        return "must be read"
    said = " ".join(line for line in err.splitlines() if line.startswith("error: "))
    names = f"{re.escape(str(file))}|{re.escape(file.name)}"
    return None if re.search(refusal.replace("{file}", names), said) else "another refusal"


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
    valid = [Valid(name, n) for name, kind in (FORMATS | FOLDERS).items() for n in range(max(1, len(kind.commands)))]
    yield from setting.pool.run(read_valid, (case for case in valid if setting.wanted(str(case))), samples)
    yield from setting.pool.run(read_one, (case for case in cases if setting.wanted(str(case))), samples)
    yield Figure("formats", len(FORMATS) + len(FOLDERS))
    yield Figure("peak MB of a worker", setting.pool.peak_mb)
