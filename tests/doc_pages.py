"""The pages of the documentation as programs: their fenced blocks, how to run them, and what they say they print.

    ```python                  blocks of one page run in order, in one namespace and one folder
    ```sh                      commands, one a line; `$ command` and its output in ```console
    ```text, ```json           directly below one of these: what it prints, compared; in text, … stands for anything
    ```toml title="a.toml"     a file of the page's folder; without a title, a part of a configuration

Comments steer a block, or the whole page if they stand above its heading:

    <!-- not run: reason -->   not run, only read: commands must exist with their options
    <!-- tolerance: 0.01 -->   numbers with a fraction may differ by so much (relatively, if larger than 1)
    <!-- exit: 2 -->           the last command of the block ends with this code
    <!-- needs: quick -->      of a page: it begins with quick.toml and runs/quick of the quick start
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
import types
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from helpers import HANG
from llrnn import backgrounds, cli
from llrnn.config import parse_config, read_config

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SERVER = "http://127.0.0.1:8017"  # where `llrnn serve` listens by default

PROGRAMS = ("python", "sh", "console")
OUTPUTS = ("text", "json")
DATA = ("toml", "json", "jsonl", "lark", "tsv", "csv", "html")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]+)?(?P<more>[^`]*)$")
_COMMENT = re.compile(r"<!--\s*(?P<key>[a-z ]+?):\s*(?P<value>.*?)\s*-->")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*\.\d+(?:e[-+]?\d+)?|[-+−]?\d+e[-+]?\d+")
_BASE = {"corpus": {"embedded": {"train": 10, "valid": 5, "test": 5}}, "features": {"output": [{"kind": "identity"}]}}


@dataclass(frozen=True)
class Block:
    """One fenced block, and the block below it if that shows what it prints."""

    page: str
    line: int
    language: str
    text: str
    title: str | None = None
    said: dict[str, str] = field(default_factory=dict)  # by comments: of the page, then of the block
    output: Block | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def exempt(self) -> str | None:
        return self.said.get("not run")

    @property
    def tolerance(self) -> float:
        return float(self.said.get("tolerance", 0))


@dataclass(frozen=True)
class Page:
    """A Markdown file of docs/, or README.md."""

    path: Path
    said: dict[str, str]
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(DOCS)) if self.path.is_relative_to(DOCS) else self.path.name


def read_page(path: Path) -> Page:
    lines = path.read_text(encoding="utf8").splitlines()
    name = str(path.relative_to(DOCS)) if path.is_relative_to(DOCS) else path.name
    heading = next((number for number, line in enumerate(lines) if line.startswith("# ")), 0)
    said = dict(_COMMENT.findall("\n".join(lines[:heading])))
    return Page(path, said, tuple(_with_outputs(list(_blocks(name, lines, said)), lines)))


def _blocks(page: str, lines: list[str], of_page: dict[str, str]) -> Iterator[Block]:
    comments: dict[str, str] = {}
    number = 0
    while number < len(lines):
        found = _FENCE.match(lines[number])
        if found is None:
            comments |= dict(_COMMENT.findall(lines[number]))
            if lines[number].strip() and not lines[number].lstrip().startswith("<!--"):
                comments = {}
            number += 1
            continue
        indent = len(found["indent"])
        end = next(i for i in range(number + 1, len(lines)) if lines[i].strip() == "```")
        text = "".join(line[indent:] + "\n" for line in lines[number + 1 : end])
        title = re.search(r'title="([^"]+)"', found["more"])
        language = found["language"] or ""
        yield Block(page, number + 1, language, text, title[1] if title else None, of_page | comments)
        comments, number = {}, end + 1


def _with_outputs(blocks: list[Block], lines: list[str]) -> Iterator[Block]:
    """An output belongs to the program directly above it; blank lines and comments may stand between."""
    shown = set()
    for index, block in enumerate(blocks):
        below = blocks[index + 1] if index + 1 < len(blocks) else None
        if block.language in PROGRAMS and below is not None and below.language in OUTPUTS and below.title is None:
            between = lines[block.line + block.text.count("\n") + 1 : below.line - 1]
            if all(not line.strip() or line.lstrip().startswith("<!--") for line in between):
                shown.add(index + 1)
                yield Block(block.page, block.line, block.language, block.text, block.title, block.said, output=below)
                continue
        if index not in shown:
            yield block


def pages() -> list[Page]:
    return [read_page(path) for path in sorted(DOCS.rglob("*.md"))]


# --- what a page says that is printed ------------------------------------------------------------------------------


def difference(expected: str, actual: str, tolerance: float = 0.0) -> str | None:
    """None where the output is what the page shows; else both, to be read."""
    wanted, found = _lines(expected), _lines(actual)
    found = [line for line in found if not line.endswith(" to go at most")]  # which a busy machine tells besides
    return None if _match(wanted, found, tolerance) else f"the page shows\n{expected}\nprinted was\n{actual}"


def same_json(expected: str, actual: str, tolerance: float = 0.0) -> str | None:
    """The same for JSON, however it is set out in lines."""
    same = _same_value(json.loads(expected), json.loads(actual), tolerance)
    return None if same else f"the page shows\n{expected}\nprinted was\n{actual}"


def _same_value(wanted: object, found: object, tolerance: float) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(_same_value(wanted[k], found[k], tolerance) for k in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(
            _same_value(a, b, tolerance) for a, b in zip(wanted, found, strict=True)
        )
    if isinstance(wanted, float) and isinstance(found, float):
        return abs(wanted - found) <= tolerance * max(1.0, abs(wanted))
    return wanted == found


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _match(wanted: list[str], found: list[str], tolerance: float) -> bool:
    if not wanted:
        return not found
    if wanted[0].strip() == "…":
        return any(_match(wanted[1:], found[skipped:], tolerance) for skipped in range(len(found) + 1))
    return bool(found) and _same_line(wanted[0], found[0], tolerance) and _match(wanted[1:], found[1:], tolerance)


def _same_line(wanted: str, found: str, tolerance: float) -> bool:
    numbers = _NUMBER.findall(wanted) if tolerance else []
    pieces = _NUMBER.split(wanted) if tolerance else [wanted]
    pattern = f"({_NUMBER.pattern})".join(map(_literal, pieces))
    matched = re.fullmatch(pattern, found)
    if matched is None:
        return False
    pairs = zip(map(_value, numbers), map(_value, matched.groups()), strict=True)
    return all(abs(left - right) <= tolerance * max(1.0, abs(left)) for left, right in pairs)


def _literal(text: str) -> str:
    return re.sub(r"(\\ )+", " +", re.escape(text)).replace("…", ".*")


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


# --- running ---------------------------------------------------------------------------------------------------------


class Runner:
    """Runs the blocks of one page in the current folder."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.server: subprocess.Popen[str] | None = None
        self.address = SERVER  # what stands for it here, on a free port
        self.module = types.ModuleType("page")

    def run(self) -> None:
        sys.modules["page"] = self.module  # classes of the page ask for their module
        try:
            for block in self.page.blocks:
                try:
                    self.run_block(block)
                except AssertionError:
                    raise
                except Exception as error:
                    raise AssertionError(f"{block}: {type(error).__name__}: {error}") from error
        finally:
            del sys.modules["page"]
            self.stop()

    def stop(self) -> None:
        """Ends the server of the page, if there is one."""
        if self.server is not None:
            self.server.terminate()
            patience = threading.Timer(30, self.server.kill)
            patience.start()
            self.server.communicate()
            patience.cancel()
            self.server = None

    def run_block(self, block: Block) -> None:
        if block.exempt is not None or block.language not in PROGRAMS:
            check_block(block)
            return
        printed = self._python(block) if block.language == "python" else self._shell(block)
        if block.output is not None:
            compare = same_json if block.output.language == "json" else difference
            wrong = compare(block.output.text, printed, block.output.tolerance)
            assert wrong is None, f"{block}: {wrong}"

    def _local(self, text: str) -> str:
        return text.replace(SERVER, self.address)

    def _python(self, block: Block) -> str:
        code = compile("\n" * block.line + self._local(block.text), block.page, "exec")
        with printed() as out:
            exec(code, self.module.__dict__)
        return out.getvalue()

    def _shell(self, block: Block) -> str:
        if block.language == "console":
            for command, shown in console(block.text):
                wrong = difference(shown, self._command(block, command), block.tolerance)
                assert wrong is None, f"{block}: {command}: {wrong}"
            return ""
        every = commands(block.text)
        codes = [0] * (len(every) - 1) + [int(block.said.get("exit", 0))]
        return "".join(self._command(block, command, code) for command, code in zip(every, codes, strict=True))

    def _command(self, block: Block, command: str, code: int = 0) -> str:
        command = self._local(command)
        words = shlex.split(command)
        if words[:1] == ["torchrun"]:
            check_command(block, command)
            return self._torchrun(words[1:], code)
        if words[0] != "llrnn":
            check_command(block, command)
            return curl(words[1:]) if words[0] == "curl" else self._other(words) if words[0] in ("cat", "head") else ""
        if words[1] == "serve":
            check_verb(block, words[1:])
            return self._serve(words[1:])
        words, into = (words[:-2], words[-1]) if len(words) > 2 and words[-2] == ">" else (words, None)
        with printed() as out:
            found = cli.run(words[1:])
        assert found == code, f"{block}: {command} ended with {found}:\n{out.getvalue()}"
        if into is not None:
            Path(into).write_text(out.getvalue(), encoding="utf8")
            return ""
        return out.getvalue()

    def _serve(self, words: list[str]) -> str:
        """Starts the server at a free port; what it prints when it listens, with the address of the page."""
        self.stop()
        program = str(Path(sys.executable).parent / "llrnn")
        self.server = subprocess.Popen([program, *words, "--port", "0"], stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        patience = threading.Timer(HANG, self.server.kill)
        patience.start()
        line = self.server.stdout.readline()
        patience.cancel()
        found = re.search(r"http://[\w.:]+", line)
        assert found is not None, f"llrnn {shlex.join(words)} printed {line!r}"
        self.address = found[0]
        return line.replace(self.address, SERVER)

    def _torchrun(self, words: list[str], code: int) -> str:
        """Several processes; what they print, without what torchrun itself says."""
        program = [sys.executable, "-m", "torch.distributed.run", "--standalone", *words]
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=HANG)
        assert done.returncode == code, f"torchrun {shlex.join(words)}: {done.stderr}"
        return done.stdout

    def _other(self, words: list[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANG)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
        return done.stdout


def curl(words: list[str]) -> str:
    """As curl asks: -s, -N, -H HEADER, -d DATA or --json DATA, and an address."""
    headers, data, address = {}, None, ""
    given = iter(words)
    for word in given:
        match word:
            case "-H":
                name, value = next(given).split(": ", 1)
                headers[name] = value
            case "-d" | "--json":
                data = next(given).encode()
                headers |= {"Content-Type": "application/json"} if word == "--json" else {}
            case "-s" | "-N" | "-sN":
                pass
            case _:
                assert word.startswith("http://127.0.0.1:"), f"curl {word}: only our own server is asked"
                address = word
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=HANG) as answer:
        return str(answer.read().decode())


class Terminal(io.TextIOWrapper):
    """Keeps what is written to it, as text or as bytes (`buffer`)."""

    def __init__(self) -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding="utf8", write_through=True)

    def getvalue(self) -> str:
        return self.kept.getvalue().decode()


@contextlib.contextmanager
def printed() -> Iterator[Terminal]:
    """What is written to the terminal, errors too, in the order in which it comes."""
    out = Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield out


def commands(text: str) -> list[str]:
    """The commands of a block: long ones go on after a backslash, notes begin with #."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def console(text: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a block with `$ command` lines."""
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block begins with $"
    return [(part.split("\n", 1)[0].strip(), part.split("\n", 1)[1]) for part in parts[1:]]


# --- reading ---------------------------------------------------------------------------------------------------------


def check_block(block: Block) -> None:
    """Of a block that is not run: that it could be, as far as one can tell by reading. Files are written."""
    if block.title is not None:
        path = Path(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf8")
    match block.language:
        case "python":
            compile(block.text, str(block), "exec")
        case "sh":
            for command in commands(block.text):
                check_command(block, command)
        case "toml" if block.title is not None and block.title.endswith(".toml"):
            read_config(block.title, data=".")
        case "toml":
            parse_config(_BASE | tomllib.loads(block.text), str(block))
        case "json":
            json.loads(block.text)
        case "jsonl":
            for line in block.text.splitlines():
                json.loads(line)
        case "lark":
            backgrounds.Grammar(block.text)
        case "text" if block.title is not None:
            pass
        case language:
            assert language in DATA, f"{block}: blocks of the language {language!r} are not known, or show no output"


def check_command(block: Block, command: str) -> None:
    """That the verb exists with these options, the make target, the extra of the package, or the file."""
    words = shlex.split(command)
    match words:
        case ["llrnn", *arguments]:
            check_verb(block, arguments)
        case ["torchrun", *options] if "llrnn" in options:
            check_verb(block, options[options.index("llrnn") + 1 :])
        case ["make", *targets]:
            assert set(targets) <= make_targets(), f"{block}: {command}"
        case ["pip", "install", *wanted] | ["python", "-m", "pip", "install", *wanted]:
            for extra in re.findall(r"\[([\w,]+)\]", " ".join(wanted)):
                assert set(extra.split(",")) <= extras(), f"{block}: no extra {extra} in pyproject.toml"
        case (
            ["python", "-m", "venv", _]
            | ["cd", _]
            | [".", _]
            | ["curl" | "cat" | "head" | "docker", *_]
            | ["pip", "download", *_]
        ):
            pass
        case ["python", script, *_]:
            assert (ROOT / script).is_file(), f"{block}: {script} does not exist"
        case [program, *_]:
            assert (ROOT / program).is_file(), f"{block}: what is {program}?"


def has_verbs(command: Any) -> bool:
    return hasattr(command, "list_commands")


def verb_of(command: Any, name: str) -> Any:
    """A verb of a group, or None: the verbs of `llrnn` are imported one by one."""
    return command.get_command(None, name)


def check_verb(block: Block, arguments: list[str]) -> None:
    """The command line is read as typer reads it, but nothing runs."""
    command: Any = typer.main.get_command(cli.app)
    rest = list(arguments)
    while has_verbs(command):
        assert rest, f"{block}: llrnn {' '.join(arguments)}: a verb is missing"
        command = verb_of(command, rest[0])
        assert command is not None, f"{block}: llrnn has no verb {rest[0]}"
        rest.pop(0)
    try:
        command.make_context("llrnn", rest)
    except Exception as error:
        raise AssertionError(f"{block}: llrnn {' '.join(arguments)}: {error}") from error


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf8"), re.MULTILINE))


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    return set(project["optional-dependencies"])
