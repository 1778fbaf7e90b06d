"""Files of the user: read only where they are plain files, replaced as a whole or not at all.

Reading. A FIFO without a writer is waited for for ever, and a device has no end: `open_file` refuses both, whatever is
read (corpora, lexicons, tables, configurations, models). A pipe that a shell has opened already, `<(zcat text.gz)`, is
read. What is read as a whole has a largest size (`read_file`). All that can be wrong with a path is an OSError, also a
NUL character in it. All that can be wrong with JSON is a JSONDecodeError, with TOML a TOMLDecodeError. No other module
opens a file that a stranger may have written: a test looks for it.

Writing. The new content goes into a temporary file beside the old one, is synced to the disk and renamed; then the
folder is synced. A process killed at any point, a full disk or a power cut leaves the old file or the new one; whoever
writes the same file next removes the temporary file of a killed process, told by its lock, which ends with the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import stat
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from llrnn.ground.errors import CorpusError
from llrnn.ground.rendering import visible

StrPath = str | PathLike[str]

STANDARD = "-"  # standard input where something is read, standard output where it is written
_PIECE = 1 << 20  # bytes that are read at once
_OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # what somebody else has opened: its pipes have a writer
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def open_file(path: StrPath) -> io.BufferedReader:
    """Open a plain file, a pipe opened by the shell (`<(zcat text.gz)`), or `-` for standard input, to read bytes.

    Anything else (folders, devices, other pipes, impossible names) raises an OSError that says what was found.
    """
    if fspath(path) == STANDARD:
        return os.fdopen(os.dup(0), "rb")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # or a pipe would be waited for
    except ValueError as cause:  # a NUL character, a lone surrogate
        raise OSError(errno.EINVAL, f"no file can have this name ({cause}); correct it", repr(path)) from cause
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), fspath(path))
        if stat.S_ISFIFO(mode) and fspath(path).startswith(_OPENED):
            os.set_blocking(descriptor, True)
        elif not stat.S_ISREG(mode):
            found = _KINDS.get(stat.S_IFMT(mode), "no file")
            raise OSError(
                errno.EINVAL, f"a file is required, but this is {found}; copy what it gives into a file", fspath(path)
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: StrPath, *, limit: int = 256_000_000) -> bytes:
    """Return the bytes of a plain file; raise an OSError where it has more than `limit` bytes or cannot be opened."""
    with open_file(path) as file:
        content = read_at_most(file, limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"at most {limit:,} bytes can be read, but the file is larger", fspath(path))
    return content


def read_at_most(file: BinaryIO, count: int) -> bytes:
    """Return the first `count` bytes of an open file, or all where it has fewer.

    It reads in pieces of 1 MiB: `file.read(count)` would allocate all of `count` at once.
    """
    pieces, left = [], count
    while left and (piece := file.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Return decoded JSON; every failure is a JSONDecodeError, also deep nesting and numbers of thousands of digits.

    `hooks` are keyword arguments of `json.loads`.

    parse_json(read_file("config.json"))
    """
    try:
        return json.loads(text, **hooks)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as cause:
        reason = "too deep nesting" if isinstance(cause, RecursionError) else str(cause)
        raise json.JSONDecodeError(reason, "", 0) from None


def map_values(data: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of nested dicts and lists with `change(value)` in place of every other value; tuples become lists.

    map_values({"a": [1, 2]}, str)  # {"a": ["1", "2"]}
    """
    if isinstance(data, dict):
        return {key: map_values(value, change) for key, value in data.items()}
    return [map_values(value, change) for value in data] if isinstance(data, list | tuple) else change(data)


def parse_toml(text: str) -> dict[str, Any]:
    """Return decoded TOML; every failure is a TOMLDecodeError, also deep nesting, for which tomllib has another."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (RecursionError, ValueError) as cause:
        raise tomllib.TOMLDecodeError(str(cause)) from None


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by one with this content: after a crash there is the old file or the new one."""
    with replacing(path) as file:
        file.write(content)


def write_lines(path: StrPath, lines: Iterable[str]) -> None:
    """Write lines as a UTF-8 text file, with a line end after each.

    It is gzipped, without a time stamp, where the name ends in .gz. An existing file is replaced atomically. The path
    `-` is standard output. A CorpusError is raised where the file cannot be written.
    """
    text = "".join(f"{line}\n" for line in lines)
    if fspath(path) == STANDARD:
        write_standard(text)
        return
    content = gzip.compress(text.encode(), mtime=0) if fspath(path).endswith(".gz") else text.encode()
    try:
        write_atomically(Path(path), content)
    except OSError as cause:
        raise CorpusError(f"the file cannot be written: {cause.strerror or cause}", path=path) from cause


def write_standard(text: str) -> None:
    """Write text to standard output as UTF-8, after flushing what was printed before.

    On a terminal, control characters other than line ends and tabs are replaced by U+FFFD.
    """
    if sys.stdout.isatty():
        text = re.sub("[^\n\t]+", lambda found: visible(found[0]), text)
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode())
    else:  # in a notebook, or caught by a program
        sys.stdout.write(text)
    sys.stdout.flush()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Context manager that yields a temporary file to write bytes to, and renames it to `path` at the end.

    Where the body raises, or the disk is full, the temporary file is removed and `path` stays as it was.
    """
    descriptor, temporary = temporary_beside(path)
    try:
        # renamed while it is open and locked: nobody takes it for a leftover
        with open(temporary, "wb", opener=lambda name, flags: descriptor) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno and error.filename in (None, temporary):
            raise _named(error, path) from error  # a full disk
        raise


def _named(error: OSError, path: Path) -> OSError:
    """Return a copy of the error that names `path`, the file to be written, instead of the temporary file."""
    return OSError(error.errno, error.strerror, fspath(path))


def temporary_beside(path: Path) -> tuple[int, str]:
    """Create a temporary file in the folder of `path`; return its open, locked file descriptor and its path.

    Temporary files that killed processes left for `path` are removed. An OSError is raised where `path` is a device or
    pipe.
    """
    if os.path.lexists(path) and not (path.is_file() or path.is_dir() or path.is_symlink()):
        raise OSError(errno.EINVAL, "a file is required, but this is a device or a pipe; name another", fspath(path))
    _remove_leftovers(path)
    while True:
        try:
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        except ValueError as cause:
            raise OSError(errno.EINVAL, f"no file can have this name ({cause}); correct it", repr(str(path))) from cause
        except OSError as cause:
            raise _named(cause, path) from cause
        with contextlib.suppress(OSError):  # a file system without locks: then nothing is removed there either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # another writer took it for a leftover before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files for this path that no running process has locked; errors of the system are ignored."""
    named = re.compile(re.escape(f".{path.name}.") + "[a-z0-9_]{8}")  # as tempfile names them
    with contextlib.suppress(OSError, ValueError):
        for leftover in [one for one in os.listdir(path.parent) if named.fullmatch(one)]:
            with contextlib.suppress(OSError):
                _remove_if_nobody_writes(path.parent / leftover)


def _remove_if_nobody_writes(leftover: Path) -> None:
    descriptor = os.open(leftover, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(leftover)
    finally:
        os.close(descriptor)


def sealed_json(data: Mapping[str, Any], errors: str = "strict") -> bytes:
    """Return a dict as UTF-8 JSON with a last key `seal`: the SHA-256, in hex, of the JSON without it.

    `errors`: how characters that UTF-8 cannot encode are treated, as in `str.encode`.
    """

    def encoded(data: Mapping[str, Any]) -> bytes:
        return json.dumps(data, ensure_ascii=False, indent=1).encode("utf8", errors)

    return encoded({**data, "seal": hashlib.sha256(encoded(data)).hexdigest()})


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk (fsync), so that renamed files in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
