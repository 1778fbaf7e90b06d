"""The command line. Thin: every verb calls the library and prints what comes back.

A user's mistake is one line on standard error and exit code 2; a traceback is our own defect.
"""

from __future__ import annotations

import io
import sys
import warnings
from importlib.util import find_spec

from llrnn.cli import show
from llrnn.cli.corpus import corpus_app
from llrnn.cli.verbs import app
from llrnn.cli.words import words_app
from llrnn.ground.errors import EstimationWarning, LLRNNError, LLRNNWarning

__all__ = ["app", "main", "run"]

if find_spec("llrnn_lab") is not None:
    from llrnn_lab.cli import bench_app, experiment_app

    app.add_typer(bench_app, name="bench")
    app.add_typer(experiment_app, name="experiment")
app.add_typer(corpus_app, name="corpus")
app.add_typer(words_app, name="words")

# torch has no exception of its own for a CPU tensor that is too large
_MEMORY_SIGNS = ("can't allocate memory", "out of memory", "Storage size calculation overflowed", "not enough memory")
_SMALLER = "make the sizes smaller: controller.hidden, training.batches, --count"


def main(arguments: list[str] | None = None) -> None:
    """Run `llrnn`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without φ still gets the rest
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", LLRNNWarning)
        warnings.showwarning = _show_note
        return _run(arguments)


def _show_note(message: Warning | str, *place: object, **other: object) -> None:
    """A warning as one line, without the line of our code that gave it."""
    kind = "note" if isinstance(message, EstimationWarning) else "warning"
    show.err.print(f"{kind}: {' '.join(str(message).split())}", markup=False)


def _run(arguments: list[str] | None) -> int:
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
    except OSError as error:  # a full disk, a name too long, no permission: the system's refusal, not our defect
        return _refuse(f"{_file_of(error)}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _refuse(f"not enough memory ({str(error).splitlines()[0] if str(error) else 'MemoryError'}); {_SMALLER}")
    except Exception as error:
        # the command-line parser's own complaints: an unknown verb, a missing argument
        complaint = getattr(error, "format_message", None)
        if complaint is None:
            raise
        return _refuse(_in_one_line(complaint()))


def _in_one_line(complaint: str) -> str:
    """The parser answers a missing verb with its whole help, or with a word."""
    if not complaint or "Usage:" in complaint or complaint == "Missing command.":
        return "a verb is required; `llrnn --help` lists them"
    return complaint


def _file_of(error: OSError) -> str:
    return "" if error.filename is None else f"{error.filename}: "


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _MEMORY_SIGNS)


def _refuse(reason: str) -> int:
    show.err.print(f"error: {' '.join(reason.split())}", markup=False)
    return 2
