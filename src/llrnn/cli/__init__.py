"""The command line. Thin: every verb calls the library and prints what comes back.

A user's mistake is one line on standard error and exit code 2; a traceback is our own defect.
"""

from __future__ import annotations

import sys

from llrnn.cli import show
from llrnn.cli.verbs import app
from llrnn.errors import LLRNNError

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run `llrnn`."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        return app(args=arguments, prog_name="llrnn", standalone_mode=False) or 0
    except LLRNNError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        show.err.print("stopped")
        return 130
    except BrokenPipeError:  # `llrnn ... | head` closed its end
        sys.stderr.close()
        return 0
    except Exception as error:
        # the command-line parser's own complaints: an unknown verb, a missing argument
        complaint = getattr(error, "format_message", None)
        if complaint is None:
            raise
        return _refuse(complaint() or "a verb is required; `llrnn --help` lists them")


def _refuse(reason: str) -> int:
    show.err.print(f"error: {' '.join(reason.split())}", markup=False)
    return 2
