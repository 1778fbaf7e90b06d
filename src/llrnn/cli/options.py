"""Options and helpers that several verbs share: how they open a trained model, other knowledge, weights and constraints
included, and read conditions; a training as a progress bar, with a clean stop on Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import llrnn
from llrnn.cli import show
from llrnn.ground.bundle import has_bundle, held_by, is_there, read_bundle, require_there
from llrnn.ground.errors import ConfigError, CorpusError, LLRNNError, UnknownWordError
from llrnn.ground.files import STANDARD, map_values, parse_json
from llrnn.ground.rendering import visible_json
from llrnn.text.built import BuiltCorpus, is_built
from llrnn.text.corpus import Corpus, Format
from llrnn.text.encoded import Oov
from llrnn.text.readers import read_lines
from llrnn.text.tables import KnowledgeBase
from llrnn.text.tokenisers import Blanks

if TYPE_CHECKING:  # a verb imports what it works with when it runs: its help and a mistake need no torch
    import torch

    from llrnn.inference.documents import DocumentContext
    from llrnn.knowledge.backgrounds.constraint import Constraint
    from llrnn.model.decode import Generated
    from llrnn.model.scoring import Batching
    from llrnn.training.runs import Record

Result = TypeVar("Result")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of everything that is drawn.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Lowercase every word first.")]
TextFormat = Annotated[str, typer.Option("--format", help="auto, conllu, text, jsonl or tsv.")]


def there(require: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Return a callback of typer for a path or a list of paths, which returns its argument unchanged.

    It calls `require(path)` for each path at which there is nothing, to raise the error that reading the path would
    raise, before anything is imported to work with. `-`, None and names of models (smollm2, fr) pass.
    """

    def checked(given: Any) -> Any:
        for path in given if isinstance(given, list) else [given]:
            if path is not None and str(path) != STANDARD and not is_there(path):
                require(path)
        return given

    return checked


a_text, a_model = there(lambda path: list(read_lines(path))), there(require_there)
a_folder = there(lambda path: read_bundle(path, "model"))
ModelFolder = Annotated[
    Path, typer.Argument(help="A model folder, as `llrnn train --out` writes it.", callback=a_folder)
]
AnyModel = Annotated[
    Path,
    typer.Argument(
        help="A model folder, n-grams (an ARPA file or its folder), or a language model: a folder of "
        "transformers, a .gguf file, smollm2.",
        callback=a_model,
    ),
]
OovPolicy = Annotated[
    str | None,
    typer.Option(
        "--oov",
        metavar="skip|unk|error",
        help="Words that the model does not list: left out of all sums, counted as <unk>, or refused; by default "
        "counted as <unk> where the model has it, else refused.",
    ),
]
DataFolder = Annotated[Path, typer.Option("--data", help="What {data} stands for in a configuration.")]
ConfigFile = Annotated[Path, typer.Argument(help="A TOML configuration; see configs/ for examples.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key: --set training.epochs=5")
]


AsTheModel = Annotated[
    bool | None, typer.Option("--lowercase/--no-lowercase", help="Lowercase every word; as in training by default.")
]
Batches = Annotated[
    str,
    typer.Option(
        help="How texts are read: sentences, each by itself; continuous, with the state carried on; sliding, "
        "from fresh states; training, as the model was; or with sizes, as training.batches in TOML."
    ),
]


def print_json(data: Any) -> None:
    """Print data as indented JSON on standard output; infinities and NaN become null."""
    finite = map_values(data, lambda one: None if isinstance(one, float) and not math.isfinite(one) else one)
    typer.echo(visible_json(json.dumps(finite, ensure_ascii=False, indent=1, allow_nan=False)))


def say(result: Result, as_json: bool, show_it: Callable[[Result], None]) -> None:
    """Print a result on standard output: as JSON where `as_json` is given, else by `show_it`, for people."""
    if as_json:
        print_json(result)
    else:
        show_it(result)


def device_named(name: str) -> torch.device:
    """Return the torch device that the option --device names, such as "cpu" or "cuda".

    A ConfigError is raised where there is no device of this name.
    """
    from llrnn.model.checkpoint import find_device

    try:
        return find_device(name)
    except ConfigError as error:
        raise ConfigError(f"--{error}") from None


def refuse_idle(context: typer.Context, reason: str, *names: str) -> None:
    """Raise a ConfigError where one of the options `names` was given on the command line although it has no effect.

    `names`: names of Python parameters (`max_words`); `reason`: the end of the message, such as "with --greedy" in
    "--seed does nothing with --greedy; leave it out".
    """
    for name in names:
        if was_given(context, name):
            raise ConfigError(f"--{name.replace('_', '-')} does nothing {reason}; leave it out")


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether an option was given on the command line; `name`: of its Python parameter (`max_words`)."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def oov_policy(given: str | None) -> Oov | None:
    """Return the value of --oov, "skip", "unk", "error" or None; raise a ConfigError for any other."""
    if given not in (None, *get_args(Oov)):
        raise ConfigError(f"--oov is skip, unk or error, found {given!r}; choose one")
    return cast(Oov | None, given)


Running = Annotated[bool, typer.Option("--running", help="The text is one running text: its words come again.")]
Cache = Annotated[
    float | None, typer.Option(help="Mix with the last words of the document, with this share, such as 0.1.")
]
CacheWords = Annotated[int | None, typer.Option(min=1, help="How many words the cache holds; 3800 by default.")]
CacheSharpness = Annotated[
    float | None,
    typer.Option(help="How much more words of the cache count that came where the network saw alike, such as 0.3."),
]
Dynamic = Annotated[
    float | None,
    typer.Option(help="Dynamic evaluation: a gradient step of this size, such as 0.05, behind every 5 words."),
]


def following_named(
    cache: float | None, words: int | None, sharpness: float | None, step: float | None
) -> DocumentContext | None:
    """Return how a model adapts to a document as it reads, from --cache, its two other options, and --dynamic.

    In this order: the share of the cache, how many words it holds, its sharpness, and the step size of dynamic
    evaluation. None where none is given: each sentence is then read by itself. A ConfigError is raised for the other
    options of a cache without it.
    """
    if cache is None and not (words is None and sharpness is None):
        raise ConfigError("--cache-words and --cache-sharpness are of --cache, found no --cache; give it as well")
    if cache is None and step is None:
        return None
    from llrnn.inference.documents import DocumentContext

    given = {"words": words, "sharpness": sharpness, "step": step, "cache": cache}
    return DocumentContext(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


@contextlib.contextmanager
def advising_oov(oov: Oov | None) -> Iterator[None]:
    """Context manager (yields None): an UnknownWordError in the block is raised with the advice to use --oov skip.

    The advice is the end of its message. Where `oov` is "error", the error is raised as it is.
    """
    try:
        yield
    except UnknownWordError as error:
        if oov == "error":
            raise
        raise error.advising(
            "leave such words out with --oov skip, or take a model that lists or spells them"
        ) from None


def numbers_in(option: str, text: str) -> list[float]:
    """Parse numbers separated by commas ("0.6,0.4"); raise a ConfigError that names `option` where one is no number."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: numbers with commas between them are required, such as 0.6,0.4") from None


def split_option(option: str, required: str) -> tuple[str, str]:
    """Split NAME=VALUE at the first "=" into (NAME, VALUE); raise a ConfigError where either is empty or none is there.

    `required`: the beginning of the message, which says how the option is written.
    """
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"{required}; found {option!r}")
    return name, value


def require_output_file(out: Path) -> None:
    """Raise a ConfigError where the file --out cannot be written: a folder, or in a folder that does not exist.

    To be called before the work, so that none is lost; `-` is standard output.
    """
    if str(out) != STANDARD and (out.is_dir() or not out.parent.is_dir()):
        raise ConfigError(f"--out {out}: a file in a folder that exists is required; name another, or make the folder")


def make_output_folder(folder: Path) -> None:
    """Make the folder --out, with its parents; raise a ConfigError where that is impossible.

    To be called before the work, so that none is lost.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be made a folder: {error.strerror}; choose another") from None


@contextlib.contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context manager: `handler` handles the signal `number` within the block, and the earlier handler after it."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Context manager that yields a function which returns whether Ctrl-C was pressed in the block.

    The first Ctrl-C only sets this, so that work can end cleanly; a second one raises KeyboardInterrupt.
    """
    pressed = Event()

    def press(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    with handling(signal.SIGINT, press):
        yield pressed.is_set


_TOLD_EVERY = 15.0  # seconds between lines of a training in a log


class TrainingBar:
    """A display of the progress of a training on standard error: a bar with the time left, and a line an epoch.

    The bar is shown on a terminal; elsewhere, in a log, a line every 15 seconds says how long it may take. `name`:
    stands before each line; `quiet`: show nothing; `epochs`: the most that there will be, None if unknown.

        bar = TrainingBar(epochs=20)
        records = bar.follow(train(model, corpus, on_step=bar.step))
    """

    def __init__(self, name: str = "training", *, quiet: bool = False, epochs: int | None = None) -> None:
        self.name, self.quiet, self._bar = name, quiet, _bar(quiet)
        self._epochs, self._of = epochs, "" if epochs is None else f" of {epochs} at most"
        self._epoch, self._note = -1, ""
        self._steps, self._begun, self._told = 0, time.monotonic(), time.monotonic()
        self._task = self._bar.add_task(name, total=None, note="")

    def step(self, epoch: int, position: int, batches: int) -> None:
        """Show that `position` of the `batches` batches of the epoch `epoch`, which is counted from 0, are done.

        To be given to `llrnn.train` as `on_step`.
        """
        if epoch != self._epoch:  # its own time left
            self._epoch = epoch
            self._bar.reset(self._task, total=batches)
        note = f"epoch {epoch + 1}{self._of}, batch {position} of {batches}{self._note}"
        self._bar.update(self._task, total=batches, completed=position, note=note)
        self._steps, now = self._steps + 1, time.monotonic()
        if self._bar.disable and not self.quiet and now - self._told >= _TOLD_EVERY:
            self._told, left = now, max((self._epochs or epoch + 1) * batches - epoch * batches - position, 0)
            minutes = (now - self._begun) / self._steps * left / 60
            show.err.print(f"{self.name}: {note}; {minutes:.0f} minutes to go at most", markup=False, soft_wrap=True)

    def follow(self, records: Iterable[Record]) -> list[Record]:
        """Run a training by iterating over its records, show its progress as they come, and return them all."""
        seen = []
        with self._bar as bar:
            for record in records:
                seen.append(record)
                if record.train is not None:
                    self._note = f": {record.train:.3f} nats, {record.words_per_second:,.0f} words/s"
                if record.event == "epoch" and not self.quiet:
                    bar.console.print(f"{self.name}: {record}", markup=False)
        return seen


def _bar(quiet: bool) -> Progress:
    said, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    hidden = quiet or not show.err.is_terminal
    return Progress(said, BarColumn(), TimeRemainingColumn(), note, console=show.err, transient=True, disable=hidden)


@dataclass(frozen=True)
class ModelOptions:
    """The values of the command-line options that change a model when it is opened, None or False where not given.

    They change weights of features, replace n-gram models, tables or the background (prior), and set a constraint, a
    language that texts must belong to. The decorator `with_model_options` adds them to a command.
    """

    change: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Change the weight of a feature, or of all that a pattern names: "
            "POS:VERB=+0.5 or =-0.5 adds, 'POS:*=*0.8' scales, POS:VERB=0.5 clamps.",
        ),
    ] = None
    expert: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FACTOR|PATH",
            help="Scale the weight of a contextual feature (below 0 turns it round), or put another n-gram model "
            "or another table there.",
        ),
    ] = None
    background: Annotated[
        Path | None, typer.Option(help="Another background: an ARPA file, an n-gram folder or a model folder.")
    ] = None
    restrict: Annotated[
        bool, typer.Option("--restrict", help="Leave out words of those n-gram models that the model does not list.")
    ] = False
    constraint: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="A language to hold to: a grammar file in lark's notation, 'pattern: the ( big | small )* cat', or "
            "'weighted: ...' where the weights in a pattern count.",
        ),
    ] = None
    over: Annotated[
        str | None,
        typer.Option(help="What --constraint reads: symbols (the default), or the characters that they spell."),
    ] = None
    longest: Annotated[
        int | None, typer.Option(min=0, help="With --constraint: texts of so many of those at most.")
    ] = None
    violation: Annotated[
        float | None,
        typer.Option(help="With --constraint: what is forbidden is possible, for this factor; 0 by default."),
    ] = None

    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="Text is cut already, with blanks between all words, and written so.")
    ] = False

    def open(self, folder: Path, device: str, *, oov: Oov | None = None) -> llrnn.LLRNN:
        """Open a model folder or an n-gram model, with the changes that the command-line options ask for.

        The constraint, a language that texts must belong to, is not applied. `device`: cpu or cuda; `oov`: what an
        n-gram model does with unknown words. An LLRNNError says what cannot be opened.
        """
        from llrnn.model.checkpoint import open_model

        model = self.steered(open_model(folder, oov=oov)).to(device_named(device))
        if self.tokenised:
            model.provenance = {**model.provenance, "tokeniser": Blanks(model.tokeniser.dotless).saved()}
        return model

    def steered(self, model: llrnn.LLRNN) -> llrnn.LLRNN:
        """Return a copy of the model with --background, --expert and --change applied, in this order.

        The model itself is returned where none is given; a ConfigError is raised for names that it does not have.
        """
        from llrnn.model.steering import Change, experts, steer

        written = "--expert is written NAME=FACTOR or NAME=PATH, as kn=0.8"
        pairs = [split_option(option, written) for option in self.expert or ()]
        factors = [(name, factor) for name, value in pairs if (factor := _number(value)) is not None]
        paths = {name: Path(value) for name, value in pairs if _number(value) is None}
        if self.background is not None or paths:
            model = self._swapped(model, paths)
        elif self.restrict:
            raise ConfigError("--restrict is for --background PATH and --expert NAME=PATH, found neither; leave it out")
        changes = [change for name, factor in factors for change in experts(model, {name: factor})]
        changes += [Change.parse(option) for option in self.change or ()]
        return steer(model, changes) if changes else model

    def _swapped(self, model: llrnn.LLRNN, paths: dict[str, Path]) -> llrnn.LLRNN:
        """Return a copy of the model with the background (prior) of --background, and other tables and n-gram models.

        `paths`: the file of each table or n-gram model, by its name in the model. A ConfigError is raised, before any
        file is read, for a name that the model does not have.
        """
        from llrnn.model.checkpoint import open_background
        from llrnn.model.steering import require_experts, swap, tables_of

        tables = {name: path for name, path in paths.items() if name in tables_of(model)}
        others = {name: path for name, path in paths.items() if name not in tables}
        require_experts(model, others)
        small = model.reads_lowercase
        return swap(
            model,
            background=None if self.background is None else open_background(self.background, self.restrict),
            experts={name: open_background(path, self.restrict) for name, path in others.items()},
            tables={name: KnowledgeBase.from_file(path, lowercase=small) for name, path in tables.items()},
        )

    def language(self) -> Constraint | None:
        """Return the language that --constraint describes, or None where it is not given.

        `pattern: ...` is a regular expression: of symbols, separated by spaces, or with --over characters as Python
        writes it; anything else is the path of a grammar. A ConfigError is raised where there is no such file, or for
        --over, --longest or --violation without --constraint.
        """
        given = {"over": self.over, "longest": self.longest, "violation": self.violation}
        settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.constraint is None:
            if settings:
                raise ConfigError(f"--{next(iter(settings))} goes with --constraint; give one, or leave it out")
            return None
        kind, colon, pattern = self.constraint.partition(":")
        if colon and kind in ("pattern", "weighted"):
            return llrnn.backgrounds.Automaton(pattern.strip(), weighted=kind == "weighted", **settings)
        if not Path(self.constraint).is_file():
            raise ConfigError(
                f"--constraint {self.constraint}: no such file; give a grammar in lark's notation, or 'pattern: ...'"
            )
        return llrnn.backgrounds.Grammar.from_file(self.constraint, **settings)

    def constrained(self, model: llrnn.LLRNN) -> llrnn.LLRNN:
        """Return a copy of the model whose prior forbids texts outside --constraint, or makes them rare by --violation.

        The model itself is returned where no --constraint is given.
        """
        from llrnn.model.steering import constrained

        found = self.language()
        return model if found is None else constrained(model, found)

    def note_cut(self, found: Sequence[Generated]) -> None:
        """Print a note on standard error where --constraint is given and texts of `found` were cut by --max-words.

        The note has their number; it is printed where at least one of `found` is not finished.
        """
        cut = sum(not one.finished for one in found)
        if self.constraint is not None and cut:
            show.note(
                f"note: {cut} of {len(found)} texts are cut by --max-words: beginnings of texts of the language; "
                "with --longest N all come to an end"
            )


def with_model_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: its parameter `asked` is replaced by an option for each field of `ModelOptions`.

    The command is then called with a `ModelOptions` of their values as `asked`.
    """
    types = get_type_hints(ModelOptions, include_extras=True)
    own = [one for name, one in signature(verb, eval_str=True).parameters.items() if name != "asked"]
    added = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=types[one.name])
        for one in fields(ModelOptions)
    ]

    @wraps(verb)
    def run(**given: Any) -> None:
        verb(asked=ModelOptions(**{one.name: given.pop(one.name) for one in added}), **given)

    run.__signature__ = Signature([*own, *added])  # type: ignore[attr-defined]
    return run


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


Condition = Annotated[
    str | None, typer.Option("--condition", help="What to write from, as in training: a text, JSON, or a dialog act.")
]
ConditionFile = Annotated[
    Path | None,
    typer.Option("--conditions", help='Many of them: a file with one a line, or .jsonl with {"condition": ...}.'),
]


def conditioned(free: llrnn.LLRNN, model: llrnn.LLRNN, text: str | None) -> tuple[llrnn.LLRNN, object]:
    """Return the model with the words of a condition added to its vocabulary, and the condition parsed.

    A condition is the input that a text is generated from. `text`: as on the command line, None for none; `free`: the
    model without its --constraint, which is asked whether it takes conditions. A ConfigError is raised where it takes
    none and `text` is given, or needs one and `text` is None.
    """
    from llrnn.model import decode

    wanted = None if text is None else decode.read_condition(model, text)
    decode.check_condition(free, wanted)
    decode.warn_of_unknown_names(free, [wanted])
    return decode.prepared(model, [wanted]), wanted


@dataclass(frozen=True)
class Outcome:
    """The result for one line of a file of conditions (inputs to generate from): a generated text or an error.

    `place`: file and line; `condition`: the line as it stands; `found`: the text; `problem`: the message of the error.
    One of the last two is None.
    """

    place: str
    condition: str
    found: Generated | None = None
    problem: str | None = None


def write_each_line(model: llrnn.LLRNN, path: Path, write: Callable[[list[object]], list[Generated]]) -> list[Outcome]:
    """Generate a text for every line of a file of conditions (inputs), and return a result for each non-blank line.

    `write`: a function that generates a text for each condition of a list. A line that cannot be parsed or written from
    has the message of its error in its result, and the others go on.
    """
    from llrnn.model import decode

    lines = [(f"{path}:{number}", line) for number, line in read_lines(path) if line.strip()]
    read = [_condition(model, path, line) for _, line in lines]
    conditions = [one for one in read if not isinstance(one, LLRNNError)]
    decode.warn_of_unknown_names(model, conditions)
    written = iter(_each(write, conditions))
    results = [one if isinstance(one, LLRNNError) else next(written) for one in read]
    return [
        Outcome(*line, problem=str(one)) if isinstance(one, LLRNNError) else Outcome(*line, found=one)
        for line, one in zip(lines, results, strict=True)
    ]


def _each(write: Callable[[list[object]], list[Generated]], conditions: list[object]) -> list[Generated | LLRNNError]:
    """Return a generated text, or an error, for each condition (input to generate from), in their order.

    `write` generates a text for each of a list. All are generated in one batch or, where that fails, one by one, so
    that only those that fail have an error.
    """
    try:
        return [*write(conditions)] if conditions else []
    except LLRNNError as problem:
        if len(conditions) == 1:
            return [problem]
        return [found for condition in conditions for found in _each(write, [condition])]


def _condition(model: llrnn.LLRNN, path: Path, text: str) -> object:
    """Return the condition (input to generate from) in one line of a file; the error itself, if it cannot be parsed.

    `model`: says how its conditions are written; `path`: the file; .jsonl means that lines are JSON objects with the
    key "condition"; `text`: the line.
    """
    from llrnn.model import decode

    try:
        if not path.name.removesuffix(".gz").endswith(".jsonl"):
            return decode.read_condition(model, text)
        record = parse_json(text)
        if not isinstance(record, dict) or record.get("condition") is None:
            raise CorpusError('an object with the key "condition" is required; write {"condition": ...}')
        condition = record["condition"]
        if isinstance(condition, str):
            return decode.read_condition(model, condition)
        return decode.in_model_words(model, condition)
    except LLRNNError as error:
        return error
    except ValueError as error:
        return CorpusError(f"JSON is required, found a line that is none ({error})")


def print_outcomes(outcomes: list[Outcome], *, as_json: bool) -> int:
    """Print each text on standard output and each problem on standard error; return the exit code.

    It is 2 if there is any problem, else 0. With `as_json`, all results are printed on standard output as one JSON list
    instead of the texts, and problems on standard error too.
    """
    if as_json:
        print_json([asdict(one) for one in outcomes])
    for one in outcomes:
        if one.problem is not None:
            show.note(f"error: {one.place}: {' '.join(one.problem.split())}")
        elif one.found is not None and not as_json:
            show.text(str(one.found))
    return 2 if any(one.problem is not None for one in outcomes) else 0


def find_modules_here() -> None:
    """Add the current folder to the import path, for a user's modules that an option names, such as an analyser."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def read_for(model: llrnn.LLRNN, file: Path, format: str, lowercase: bool | None, *, running: bool = False) -> Corpus:
    """Read a text file or a built corpus (`llrnn data build`) in the way in which the model's training text was read.

    `format`: auto, conllu, text, jsonl or tsv; `lowercase`: None is as in training; `running`: each sentence gets the
    words before it as its condition, for a model whose prior, `recent`, favours words that came before. A ConfigError
    is raised where the model has no such prior, or a built corpus cannot be read so.
    """
    if running:
        window = model.background.text_before
        if not window:
            raise ConfigError(
                "--running is for a model whose words come again ([background] recent), found one without; leave it out"
            )
        return read_for(model, file, format, lowercase).running(window)
    if is_built(file):
        if format != "auto" or lowercase is not None:
            raise ConfigError(
                f"{file}: a built corpus is read as it is: --format and --lowercase do nothing; leave it out"
            )
        return BuiltCorpus(file)
    from llrnn.model import decode

    return decode.read_corpus(model, file, cast(Format, format), lowercase)


def batching_for(batches: str, model: llrnn.LLRNN, corpus: Corpus) -> Batching:
    """Return how `corpus` is cut into batches, as --batches says; raise a ConfigError where that is impossible.

    `batches`: a name such as "continuous", a TOML table, or "training" for those that the model was trained with. A
    corpus whose texts have conditions (inputs that they are generated from) can be read by sentences only.
    """
    from llrnn.training.settings import read_batches

    try:
        batching = read_batches(batches, model.provenance.get("config", {}))
    except ConfigError as error:
        raise ConfigError(f"--batches {error}") from None
    if not isinstance(batching, llrnn.Sentences) and any(condition is not None for condition in corpus.conditions):
        raise ConfigError(f"--batches {batches}: a text with conditions is read by sentences; leave --batches out")
    return batching


def refuse_overwriting(out: Path, model: Path | None, force: bool) -> None:
    """Raise a ConfigError where the folder `out` holds a training run, or holds a model and `force` is False.

    A training run is refused with `force` too. `model`: the folder of the model that was read, which may be replaced
    without `force`; None for none.
    """
    found, is_read = held_by(out), model is not None and out.resolve() == model.resolve()
    if found is None or (not has_bundle(out, "training") and (force or is_read)):
        return
    replace = "" if has_bundle(out, "training") else ", or replace it with --force"
    raise ConfigError(f"--out {out}: holds {found} already; choose another folder{replace}")
