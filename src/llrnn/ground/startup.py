"""What is imported before all others, since torch takes seconds: Ctrl-C in the meantime, and names imported when used.

While the `llrnn` command is still being imported, Ctrl-C says one word instead of a traceback. A program that merely
uses the library keeps its own hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePath
from types import TracebackType
from typing import Any


def is_command(arguments: list[str]) -> bool:
    """Whether a process was started as `llrnn ...` or `python -m llrnn ...`; `arguments` as in `sys.orig_argv`."""
    script = PurePath(arguments[1]).name if len(arguments) > 1 else ""
    return script in ("llrnn", "llrnn.exe") or ["-m", "llrnn"] in [arguments[i : i + 2] for i in range(len(arguments))]


def _stopped(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("stopped\n")
    else:
        sys.__excepthook__(kind, error, trace)


if is_command(sys.orig_argv):
    sys.excepthook = _stopped


def lazy_getattr(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports names on first use; `homes` maps each name to its module.

    A name that is not in `homes` raises an AttributeError.

    Example: __getattr__ = lazy_getattr(__name__, {"Lexicon": "llrnn.text.lexicon"})
    """

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return getattr_
