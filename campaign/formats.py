"""Every format that llrnn reads: a valid file of it, how it is spoiled, and the commands that read it.

In a command `{file}` is the spoiled file, `{out}` a name that is free, and `{text}` the content itself, for what is
given on the command line. Formats that no command reads are read by the function of the library.

Each command must read the valid file. A spoiled one may be refused only by its reader: the message names the file, or,
for what is given on the command line, says what `refusal` matches.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

import llrnn_morphology
from campaign import mutations
from campaign.mutations import ANY, Mutation, json_lines_spoiled, json_spoiled, json_text_spoiled
from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.training.runs import Records

LINES = (*ANY, *[json_lines_spoiled] * 6)
JSON_TEXT = (*ANY, *[json_text_spoiled] * 6)


NAMED = "{file}"  # a refusal that names the file
READ = None
ANYHOW = "anyhow"


class Hostile(NamedTuple):
    """A content written by hand, and what must come of it."""

    content: str
    refusal: str | None = ANYHOW  # what the one line matches; READ: it must be read; ANYHOW: as any spoiled one


@dataclass(frozen=True)
class Format:
    """One of them."""

    sample: str  # a file of the samples, or the text itself
    commands: tuple[str, ...] = ()
    function: Callable[[Path], object] | None = None
    ways: tuple[Mutation, ...] = ANY
    beside: tuple[str, ...] = ()  # files that must lie beside it
    cases: int = 27
    asks_for_memory: bool = False  # sizes stand in it, and "not enough memory" is a fair answer
    refusal: str = NAMED
    hostile: tuple[Hostile, ...] = ()


@dataclass(frozen=True)
class Folder:
    """A folder of ours with its check sums right and its content wrong: what a program of someone else might write."""

    sample: str
    commands: tuple[str, ...]
    spoil: Callable[[Path, Random], None]
    cases: int = 27
    refusal: str = NAMED


def _deep(opening: str, closing: str, count: int) -> str:
    return opening * count + closing * count


def _written(*contents: str) -> tuple[Hostile, ...]:
    return tuple(map(Hostile, contents))


_EMPTY = "the language is empty"
_NO_GRAMMAR = "is no grammar in lark's notation"
_LONG = "with all repeats written out it has more than"
_GRAMMARS = (
    Hostile('start: ((("la"~40)~40)~40)~40', "alternatives"),
    Hostile('start: f{x}\nf{x}: f{f{x}} | x\nx: "la"', _NO_GRAMMAR),
    Hostile("\n".join([*(f"r{i}: r{i + 1}" for i in range(2000)), 'r2000: "la"']).replace("r0:", "start:", 1), READ),
    Hostile("start: /(a+)+c|b/", _EMPTY),
    Hostile("start: " + _deep("(", ")", 5000).replace("()", '("la")'), "nests groups too deeply"),
    Hostile("start: start start | start |", READ),
    Hostile("start: A\nA: /(?:a|a)*b/", _EMPTY),
    Hostile("start: " + " | ".join(f'"w{i}"' for i in range(5_000)), _EMPTY),
    Hostile("", "the file is empty"),
    Hostile("// no rule", "no rule 'start'"),
    Hostile("\n".join(f'r{i}: "la"' for i in range(3000)), "no rule 'start'"),
    Hostile('start: "la" nobody', "'nobody' used but not defined"),
    Hostile('start: start "la" | "la"', READ),
    Hostile('start: start "la"', "derives no string"),
    Hostile("start: a a a\na: b |\nb: a |", READ),
    Hostile(
        "\n".join([f"r{i}: r{i + 1} r{i + 1}" for i in range(60)] + ['r60: "la" |']).replace("r0:", "start:", 1), READ
    ),
    Hostile('start: "la"~99999999', "the shortest string has"),
    Hostile('start: "la"~5..2', _NO_GRAMMAR),
    Hostile("start: /a{99999999}/", "repeats more than 1,000 times"),
    Hostile("start: /((a{1000}){1000}){1000}/", _LONG),
    Hostile("start: /" + "(" * 30 + "a" + ")+" * 30 + "/", _LONG),
    Hostile('start: "la', _NO_GRAMMAR),
    Hostile('start: "l\x00a"', NAMED),
    Hostile('\ufeffstart: "la"', READ),
    Hostile(r'start: "\ud800"', _EMPTY),
    Hostile(r"start: /[\u0000-\U0010ffff]{3}/", READ),
    Hostile("start: /(?=la)la/", "look-ahead"),
    Hostile('start: "' + "l" * 20_000 + '"', _EMPTY),
    Hostile('start: f{"la"}\nf{x}: f{g{x}}\ng{x}: x x', "ever new arguments"),
)
_NONE_OF = "holds no string at all"
_WRONG = "is wrong at column"
_PATTERNS = (
    Hostile("(a+)+c|b", _NONE_OF),
    Hostile("(" * 3000 + "la" + ")" * 3000, _WRONG),
    Hostile("la" + " la?" * 300, READ),
    Hostile("( la | la )* " * 40, READ),
    Hostile("/(x+x+)+y/", _NONE_OF),
    Hostile("la ~ 100000", _NONE_OF),
    Hostile("la" + "+" * 40, _LONG),
    Hostile("la" + " *" * 20_000, "nested some hundred times"),
    Hostile("la " * 9_000, "the shortest string has 9000"),
    Hostile("la " * 30_000 + ")", "closes no group"),
    Hostile("/" + "a" * 90_000 + "[/", "unterminated character set"),
    Hostile("", "found nothing"),
    Hostile('"la', "is not closed"),
    Hostile("la <1e999>", "above 0 and finite"),
    Hostile("/[z-a]/", "bad character range"),
    Hostile("( la | le )* la " + "( la | le ) " * 22, "the shortest string has 23"),
    Hostile("\ufeffla", _NONE_OF),
)
_CHARACTER_PATTERNS = (
    Hostile("a{99999999}", "repeats more than 1,000 times"),
    Hostile("(a{999}){999}", _LONG),
    Hostile("(" * 40 + "a" + ")+" * 40, _LONG),
    Hostile("(" * 5000 + "a" + ")" * 5000, "more than 100 deep"),
    Hostile("(a*)*b", READ),
    Hostile(".*" * 500, READ),
    Hostile("l" * 20_000, "the shortest string has 20000"),
    Hostile("[\U00010000-\U0010ffff]+", _NONE_OF),
    Hostile(r"(a)\1", "back-reference"),
    Hostile("[", "unterminated character set"),
)

MODEL = "explain {file} --prefix la --word la", "generate {file} --max-words 4", "evaluate {file} test.txt"
TABLE = ("generate runs/acts --condition inform(name=ritz;area=nord) --expert venues={file} --max-words 3",)
BACKGROUND = "evaluate runs/plain test.txt --background {file} --restrict"
ARPA = ("ngram convert {file} {out}", "score {file} test.txt --json", BACKGROUND)
GENERATE = "generate runs/plain --longest 9"
LETTERS = "generate runs/letters --over characters --longest 12"
_TABLE = "{file}|cannot be added|the table 'table' has no column"  # a value that is no word of the model
_CONFIG = "{file}|a table is required|the table|no such file"  # of the files that it names
_LANGUAGE = "the (regular )?expression|the language of|the shortest string|--constraint"

FORMATS: dict[str, Format] = {
    "CoNLL-U": Format("text.conllu", ("evaluate runs/plain {file}", "data build {file} --lowercase --out {out}",
                                      "pairs make {file} --out {out}.tsv"), cases=41),
    "text": Format("text.txt", ("evaluate runs/open {file}", "ngram estimate {file} --order 3 --out {out}.arpa",
                                "score text.arpa {file} --json", "data build {file} --out {out}"), cases=41,
                   refusal="{file}|text is required to count"),
    "text.gz": Format("text.txt.gz", ("evaluate runs/open {file} --format text", "data build {file} --out {out}")),
    "JSON lines": Format("acts.jsonl", ("evaluate runs/acts {file}",), ways=LINES),
    "JSON lines, text": Format("text.jsonl", ("data build {file} --out {out}",), ways=LINES),
    "TSV": Format("acts.tsv", ("evaluate runs/acts {file}",)),
    "conditions": Format("acts.txt", ("generate runs/acts --conditions {file} --greedy --max-words 4",)),
    "conditions.jsonl": Format("acts.jsonl", ("generate runs/acts --conditions {file} --greedy",), ways=LINES),
    "act": Format("inform(name='le chat noir';area=nord)", ("generate runs/acts --max-words 3 --condition {text}",),
                  refusal="dialog act|condition",
                  hostile=_written("inform(" + "name=x;" * 100_000 + ")", "inform(nmae=ritz)", "inform(name='x'")),
    "ARPA": Format("text.arpa", ARPA, cases=53),
    "ARPA.gz": Format("text.arpa.gz", ARPA),
    "TOML": Format("plain.toml", ("config features {file}",), refusal=_CONFIG, cases=53, asks_for_memory=True,
                   hostile=_written("a." * 500 + "b = 1", "a = " + "[" * 5000, "x = 1e400", "x = " + "9" * 5000)),
    "TOML, open": Format("open.toml", ("config features {file}",), refusal=_CONFIG, asks_for_memory=True),
    "TOML, conditions": Format("acts.toml", ("config features {file}",), refusal=_CONFIG, asks_for_memory=True),
    "setting": Format("training.epochs=2", ("config features plain.toml --set {text}",), asks_for_memory=True,
                      refusal="--set|plain.toml|" + _CONFIG,
                      hostile=_written("a." * 500 + "b=1", "training.epochs=" + "[" * 5000, "corpus=1", "=",
                                       "a=" + "9" * 900)),
    "grammar": Format("grammar.lark", (GENERATE + " --constraint {file}",), cases=47, hostile=_GRAMMARS),
    "character grammar": Format("letters.lark", (LETTERS + " --constraint {file}",)),
    "pattern": Format("la ( petite | grande )* /[a-z]+/ .", (GENERATE + " --constraint pattern:{text}",), cases=41,
                      refusal=_LANGUAGE, hostile=_PATTERNS),
    "character pattern": Format("(la|le) [a-z]+s?", (LETTERS + " --constraint pattern:{text}",),
                                refusal=_LANGUAGE, hostile=_CHARACTER_PATTERNS),
    "feature pattern": Format("POS:*=+0.5", ("explain runs/plain --prefix la --word la --change {text}",),
                              refusal="pattern|feature|a change of weight|the changed weight|--change",
                              hostile=_written("*" * 30 + "Z=+1", "POS:*=nan", "*=1e400", "*=*1e308", "*=", "=1")),
    "CSV": Format("table.csv", TABLE, refusal=_TABLE),
    "table.tsv": Format("table.tsv", TABLE, refusal=_TABLE, cases=15),
    "table.json": Format("table.json", TABLE, refusal=_TABLE, ways=JSON_TEXT,
                         hostile=_written('[{"a": 1, ' + ", ".join(['"a": 1'] * 20_000) + "}]", "[" * 100_000)),
    "table.jsonl": Format("table.jsonl", TABLE, refusal=_TABLE, ways=LINES, cases=15),
    "hunspell .dic": Format("fr.dic", function=llrnn_morphology.hunspell, beside=("fr.aff",)),
    "hunspell .aff": Format("fr.aff", function=lambda file: llrnn_morphology.hunspell(file.with_suffix(".dic")),
                            beside=("fr.dic",)),
    "frequencies": Format("frequencies.tsv", ("config features frequencies.toml --set background.frequencies={file}",)),
    "lexicon": Format("lexicon.tsv", ("config features plain.toml --set lexicon.tsv=['{file}']",)),
    "word list": Format("words.txt", ("ngram estimate text.txt --order 2 --words {file} --out {out}.arpa",
                                      "data build text.txt --vocabulary {file} --unknown <unk> --out {out}")),
    "pairs.tsv": Format("pairs.tsv", ("model pairs runs/open {file}",)),
    "pairs.jsonl": Format("pairs.jsonl", ("model pairs runs/open {file}",), ways=LINES),
    "n-best": Format("nbest.tsv", ("rescore runs/open {file} --references references.txt", "rescore runs/open {file}")),
    "references": Format("references.txt", ("rescore runs/open nbest.tsv --references {file}",)),
    "words": Format("added.tsv", cases=36, commands=("words add runs/plain {file} --out {out}",)),
    "words to remove": Format("removed.tsv", ("words remove runs/plain {file} --out {out}",),
                              refusal="{file}|are not listed"),
    "log of a run": Format("runs/plain/log.jsonl", function=Records.read, ways=LINES),
}  # fmt: skip


# --- folders: check sums right, content wrong --------------------------------------------------------------------


def _tensor_spoiled(tensor: Tensor, rng: Random) -> Tensor:
    change = rng.choice(["nan", "inf", "large", "cut", "flat", "empty", "type", "shuffled", "negative"])
    flat = tensor.reshape(-1).clone()
    if change in ("nan", "inf", "large") and flat.is_floating_point() and len(flat):
        flat[rng.randrange(len(flat))] = {"nan": float("nan"), "inf": float("inf"), "large": 1e38}[change]
        return flat.reshape(tensor.shape)
    if change == "cut" and len(flat):
        return tensor[: len(tensor) // 2] if tensor.ndim else tensor
    if change == "flat":
        return flat
    if change == "type":
        return tensor.to(rng.choice([torch.float64, torch.int64, torch.uint8, torch.float16]))
    if change == "shuffled" and len(flat) > 1:
        return flat[torch.randperm(len(flat), generator=torch.Generator().manual_seed(rng.getrandbits(30)))].reshape(
            tensor.shape
        )
    return -tensor if change == "negative" and tensor.dtype != torch.bool else tensor.new_empty(0)


def _bundle_spoiled(name: str) -> Callable[[Path, Random], None]:
    def spoil(folder: Path, rng: Random) -> None:
        found = read_bundle(folder, name)
        data, tensors = found.data, dict(found.tensors)
        if tensors and rng.random() < 0.4:
            key = rng.choice(sorted(tensors))
            if rng.random() < 0.2:
                del tensors[key]
            else:
                tensors[key] = _tensor_spoiled(tensors[key], rng).contiguous()
        else:
            data = json_spoiled(data, rng)
        (folder / f"{name}.json").unlink()
        write_bundle(folder, name, data, tensors, version=rng.choice([1, 2, 2, 2]))

    return spoil


def _sealed_spoiled(file: str) -> Callable[[Path, Random], None]:
    def spoil(folder: Path, rng: Random) -> None:
        manifest = json.loads((folder / file).read_bytes())
        manifest.pop("seal", None)
        data = json_spoiled(manifest, rng)
        encoded = json.dumps(data, ensure_ascii=False, indent=1).encode("utf8", "surrogatepass")
        if isinstance(data, dict):
            sealed = {**data, "seal": hashlib.sha256(encoded).hexdigest()}
            encoded = json.dumps(sealed, ensure_ascii=False, indent=1).encode("utf8", "surrogatepass")
        (folder / file).write_bytes(encoded)

    return spoil


def _file_spoiled(folder: Path, rng: Random) -> None:
    """Any file of the folder, by its bytes, without regard to check sums."""
    file = rng.choice(sorted(one for one in folder.iterdir() if one.is_file()))
    file.write_bytes(mutations.spoiled(file.read_bytes(), rng))


RESUME = ("train plain.toml --out {file} --resume --quiet",)
BUILT = ("data show {file}", "data check {file}", "ngram estimate {file} --order 2 --out {out}.arpa")

FOLDERS: dict[str, Folder] = {
    "model, data": Folder("runs/plain", MODEL, _bundle_spoiled("model"), cases=82),
    "model, manifest": Folder("runs/plain", MODEL, _sealed_spoiled("model.json"), cases=30),
    "model, bytes": Folder("runs/plain", MODEL, _file_spoiled),
    "conditional model, data": Folder("runs/acts", ("generate {file} --max-words 3 --condition inform(name=ritz)",),
                                      _bundle_spoiled("model"), cases=82),
    "open model, data": Folder("runs/open", ("generate {file} --max-words 3", "evaluate {file} test.txt"),
                               _bundle_spoiled("model"), cases=82),
    "words as arrays, data": Folder("runs/spelled", ("explain {file} --word la",), _bundle_spoiled("model")),
    "n-gram folder, data": Folder("text.ngram", ("score {file} test.txt --json", BACKGROUND), _bundle_spoiled("ngram")),
    "n-gram folder, bytes": Folder("text.ngram", ("score {file} test.txt --json",), _file_spoiled, cases=12),
    "built corpus, manifest": Folder("built", BUILT, _sealed_spoiled("corpus.json"), cases=36),
    "built corpus, bytes": Folder("built", BUILT, _file_spoiled, cases=24),
    "run folder, data": Folder("runs/plain", RESUME, _bundle_spoiled("training"), cases=36),
    "run folder, bytes": Folder("runs/plain", RESUME, _file_spoiled, cases=24),
}  # fmt: skip
