"""The command line. Thin: every verb calls the library and prints what comes back.

A verb's module is imported when the verb is called or its own help is asked for: `llrnn --help` imports no torch. A
user's mistake is one line on standard error and exit code 2; a traceback is our own defect.
"""

from __future__ import annotations

import errno
import io
import sys
import warnings
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from llrnn import __version__
from llrnn.ground.errors import EstimationWarning, LLRNNError, LLRNNWarning
from llrnn.ground.plugins import missing_package

__all__ = ["app", "main", "run"]

# verb: where it is (a function, or the Typer of its own verbs), and the first sentence of its help
VERBS = {
    "init": ("llrnn.cli.init:init_verb", "Look at a text, and write a configuration for it."),
    "config": ("llrnn.cli.features:config_app", "What a configuration may say, and what its features amount to."),
    "train": ("llrnn.cli.verbs:train_verb", "Train a model and write it to a folder."),
    "model": ("llrnn.cli.features:model_app", "What a model is, and how good; a cheaper one, several as one."),
    "evaluate": ("llrnn.cli.evaluate:evaluate_verb", "Log-perplexity of models on texts, with an audit of the figure."),
    "score": ("llrnn.cli.verbs:score_verb", "Log-probability of every word and sentence of a text."),
    "generate": ("llrnn.cli.verbs:generate_verb", "Write text: sampling, greedy or beam search."),
    "complete": ("llrnn.cli.verbs:complete_verb", "The best next words that begin with the letters typed so far."),
    "explain": ("llrnn.cli.verbs:explain_verb", "Why this word: background + features − log Z, adding up exactly."),
    "adapt": ("llrnn.cli.verbs:adapt_verb", "Adapt a model to a domain: a frozen base, a small model on top."),
    "bias": ("llrnn.cli.bias:bias_verb", "Favour words and phrases in any model, exactly, and at next to no cost."),
    "read": ("llrnn.cli.read:read_verb", "Read pages of print again, by what Tesseract saw and a model."),
    "rescore": ("llrnn.cli.rescore:rescore_verb", "Rescore n-best lists with a model: word error rates."),
    "export": ("llrnn.cli.export:export_app", "Write a model as one small file that other programs read."),
    "words": ("llrnn.cli.verbs:words_app", "Add words to a trained model and remove them, without training."),
    "serve": ("llrnn.cli.serve:serve_verb", "Serve models over HTTP: an API, and a page for people."),
    "demo": ("llrnn.cli.demo:demo_verb", "See a French model choose and explain, then train and compare small ones."),
    "data": ("llrnn.cli.verbs:data_app", "Get corpora, cut raw text, build corpora larger than memory."),
    "ngram": ("llrnn.cli.ngram:ngram_app", "Estimate, convert, mix, prune and distil n-gram models."),
    "pairs": ("llrnn_lab.cli.pairs:pairs_app", "Minimal pairs from treebanks, templates and public suites."),
    "bench": ("llrnn_lab.cli:bench_app", "Measure, always against a peer that does the same work in the same run."),
    "compare": ("llrnn_lab.cli.compare:compare_verb", "Compare every language model of the field on one text."),
    "experiment": ("llrnn_lab.cli:experiment_app", "Whole studies; each can be stopped and run again."),
}
_LAB = "llrnn_lab"  # the verbs of the repository that the installed package does not have

# torch has no exception of its own for a CPU tensor that is too large
_MEMORY_SIGNS = ("can't allocate memory", "out of memory", "Storage size calculation overflowed", "not enough memory")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of files these errors have the name
_SMALLER = "make the sizes smaller: controller.hidden, training.batches, --count"


class LazyGroup(TyperGroup):
    """The click group of the command line `llrnn`, whose commands are imported from their modules only when used.

    They are the keys of the dict `VERBS`, which has the module and a line of help for each.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        has_lab = find_spec(_LAB) is not None
        return [name for name, (place, _) in VERBS.items() if has_lab or not place.startswith(_LAB)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load_verb(cmd_name) if cmd_name in VERBS else None

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return click's completion items for the commands of `llrnn` that begin with `incomplete`, with their help.

        No command is imported: this is fast.
        """
        from typer.core import CompletionItem  # type: ignore[attr-defined]  # typer's own copy of click

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=VERBS[name][1]) for name in names]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
            raise typer.Exit(130) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name][1]) for name in self.list_commands(ctx)])


def load_verb(name: str) -> Any:
    """Import the command `name`, a key of `VERBS`, and return its click command.

    An LLRNNError is raised for a command of `llrnn_lab` where that is not installed, a KeyError for another name.

    >>> load_verb("train").name
    'train'
    """
    module, attribute = VERBS[name][0].split(":")
    if module.startswith(_LAB) and find_spec(_LAB) is None:
        raise LLRNNError(f"`llrnn {name}` is in llrnn_lab, of the repository only: clone it, then pip install -e .")
    found = getattr(import_module(module), attribute)
    around = typer.Typer(rich_markup_mode=None)  # typer makes commands only inside a group
    around.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        for entry in (one for one in entry_points(group="llrnn.verbs") if one.name.startswith(f"{name}.")):
            found.command(entry.name.removeprefix(f"{name}."))(entry.load())  # of another package
        around.add_typer(found, name=name)
    else:
        around.command(name)(found)
    made: Any = typer.main.get_group(around).commands[name]
    made = getattr(made, "commands", {}).get(name, made)
    made.help = made.help or VERBS[name][1]
    return made


app = typer.Typer(
    cls=LazyGroup,
    help="Language models that take prior knowledge: Log-Linear RNNs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of every verb: contexts inherit them
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"llrnn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def main(arguments: list[str] | None = None) -> None:
    """Run the command line `llrnn`, and end the process with the exit code of the command.

    `arguments`: by default those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without φ still gets the rest
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command line, such as ["train", "config.toml"], and return its exit code.

    0 where all went well, 2 after a mistake of the user, which is printed as one line on standard error, 130 after
    Ctrl-C. `arguments`: None for those of the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", LLRNNWarning)
        warnings.showwarning = _show_note
        return _run(arguments)


def _show_note(message: Warning | str, *place: object, **other: object) -> None:
    """Print a warning as one line on standard error, without the source line, in place of `warnings.showwarning`.

    It begins with "note:" for an EstimationWarning, else with "warning:". `place` and `other` are ignored.
    """
    _say("note" if isinstance(message, EstimationWarning) else "warning", str(message))


def _run(arguments: list[str] | None) -> int:
    try:
        return app(args=arguments, prog_name="llrnn", standalone_mode=False) or 0
    except LLRNNError as error:
        return _refuse(*getattr(error, "lines", (str(error),)))
    except BrokenPipeError:  # `llrnn ... | head` closed its end
        with suppress(BrokenPipeError):  # `llrnn ... 2>&1 | head`: what waits to be said there cannot be
            sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, a name too long, no permission: the system's refusal, not our defect
        place = error.filename or ("standard output" if error.errno in _FULL else "")
        return _refuse(f"{place}{': ' if place else ''}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _MEMORY_SIGNS):
            raise
        return _refuse(f"not enough memory ({str(error).splitlines()[0] if str(error) else 'MemoryError'}); {_SMALLER}")
    except Exception as error:
        # the command-line parser's own complaints: an unknown verb, a missing argument
        complaint = getattr(error, "format_message", None)
        if complaint is None:
            raise
        return _refuse(_in_one_line(complaint(), getattr(error, "ctx", None)))


def _in_one_line(complaint: str, context: Any) -> str:
    """Return an error message of click's parser as one line that says what to do, such as which `--help` to read.

    "No such command 'trian'; did you mean 'train'? `llrnn --help` lists them". For an unknown command it names the most
    similar one, or the package that has it. `complaint`: click's message; `context`: click's context, or None.
    """
    shown = f"`{context.command_path if context is not None else 'llrnn'} --help`"
    if not complaint or "Usage:" in complaint or complaint == "Missing command.":
        return f"a verb is required; {shown} lists them"
    if complaint.startswith("Missing "):
        return f"{complaint.rstrip('.')}; {shown} has an example"
    if not complaint.startswith("No such command"):
        return complaint
    unknown = complaint.removeprefix("No such command ").partition(". Did you mean ")[0].rstrip(".")
    package = missing_package(unknown.strip("'"))
    if package is not None:
        return f"No such command {unknown}; it is in {package}"
    near = get_close_matches(unknown.strip("'"), context.command.list_commands(context), n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"No such command {unknown}; {meant}{shown} lists them"  # typer guesses in groups of loaded verbs only


def _refuse(*reasons: str) -> int:
    for reason in reasons:
        _say("error", reason)
    return 2


def _say(kind: str, text: str) -> None:
    from llrnn.cli import show  # rich is imported where there is something to say

    show.note(f"{kind}: {' '.join(text.split())}")
