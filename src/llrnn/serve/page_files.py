"""The files of the page, read into memory when the server starts: no path from a request ever opens a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent, and a tag that changes with it."""

    content: bytes
    media_type: str
    tag: str


def page_files(folder: Traversable | None = None) -> dict[str, PageFile]:
    """All files of the page by name; what is of no known type is no part of it."""
    place = resources.files("llrnn.serve") / "page" if folder is None else folder
    if not place.is_dir():
        return {}
    files = (one for one in place.iterdir() if one.is_file())
    return {one.name: _read(one, suffix) for one in files if (suffix := _suffix(one.name)) in _TYPES}


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"


def _read(file: Traversable, suffix: str) -> PageFile:
    content = file.read_bytes()
    return PageFile(content, _TYPES[suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
