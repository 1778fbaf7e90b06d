"""What is imported before all others, since torch takes seconds: Ctrl-C in the meantime.

While the `llrnn` command is still being imported, Ctrl-C says one word instead of a traceback. A program that merely
uses the library keeps its own hook.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from types import TracebackType


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
