"""Every format that llrnn reads: a valid file of it, how it is spoiled, and the commands that read it.

In a command `{file}` is the spoiled file, `{out}` a name that is free, and `{text}` the content itself, for what is
given on the command line. Formats that no command reads are read by the function of the library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from campaign import mutations
from campaign.mutations import ANY, Mutation, json_lines_spoiled, json_spoiled, json_text_spoiled
from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.text import analysers
from llrnn.training.runs import Records

LINES = (*ANY, *[json_lines_spoiled] * 6)
JSON_TEXT = (*ANY, *[json_text_spoiled] * 6)


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
    hostile: tuple[str, ...] = field(default=())  # contents that were once a fault


@dataclass(frozen=True)
class Folder:
    """A folder of ours with its check sums right and its content wrong: what a program of someone else might write."""

    sample: str
    commands: tuple[str, ...]
    spoil: Callable[[Path, Random], None]
    cases: int = 27


def _deep(opening: str, closing: str, count: int) -> str:
    return opening * count + closing * count


_GRAMMARS = (
    'start: ((("la"~40)~40)~40)~40',
    'start: f{x}\nf{x}: f{f{x}} | x\nx: "la"',
    "\n".join([*(f"r{i}: r{i + 1}" for i in range(2000)), 'r2000: "la"']).replace("r0:", "start:", 1),
    "start: /(a+)+c|b/",
    "start: " + _deep("(", ")", 5000).replace("()", '("la")'),
    "start: start start | start |",
    "start: A\nA: /(?:a|a)*b/",
    "start: " + " | ".join(f'"w{i}"' for i in range(20_000)),
)
_PATTERNS = (
    "(a+)+c|b",
    "(" * 3000 + "la" + ")" * 3000,
    "la" + " la?" * 300,
    "( la | la )* " * 40,
    "/(x+x+)+y/",
    "la ~ 100000",
)

MODEL = "explain {file} --prefix la --word la", "generate {file} --max-words 4", "evaluate {file} test.txt"
TABLE = ("generate runs/acts --condition inform(name=ritz;area=nord) --expert venues={file} --max-words 3",)
BACKGROUND = "evaluate runs/plain test.txt --background {file} --restrict"
ARPA = ("ngram query {file} le+chat", "ngram convert {file} {out}", "ngram perplexity {file} test.txt", BACKGROUND)
GENERATE = "generate runs/plain --longest 5 --max-words 6"

FORMATS: dict[str, Format] = {
    "CoNLL-U": Format("text.conllu", ("evaluate runs/plain {file}", "corpus build {file} --lowercase --out {out}",
                                      "pairs make {file} --out {out}.tsv"), cases=41),
    "text": Format("text.txt", ("evaluate runs/open {file}", "ngram estimate {file} --order 3 --out {out}.arpa",
                                "ngram perplexity text.arpa {file}", "corpus build {file} --out {out}"), cases=41),
    "text.gz": Format("text.txt.gz", ("evaluate runs/open {file} --format text", "corpus build {file} --out {out}")),
    "JSON lines": Format("acts.jsonl", ("evaluate runs/acts {file}", "corpus build {file} --out {out}"), ways=LINES),
    "TSV": Format("acts.tsv", ("evaluate runs/acts {file}", "corpus build {file} --format tsv --out {out}")),
    "conditions": Format("acts.txt", ("generate runs/acts --conditions {file} --greedy --max-words 4",)),
    "conditions.jsonl": Format("acts.jsonl", ("generate runs/acts --conditions {file} --greedy",), ways=LINES),
    "act": Format("inform(name='le chat noir';area=nord)", ("generate runs/acts --max-words 3 --condition {text}",),
                  hostile=("inform(" + "name=x;" * 100_000 + ")", "inform(nmae=ritz)", "inform(name='x'")),
    "ARPA": Format("text.arpa", ARPA, cases=53),
    "ARPA.gz": Format("text.arpa.gz", ARPA),
    "TOML": Format("plain.toml", ("features {file}",), cases=53, asks_for_memory=True,
                   hostile=("a." * 500 + "b = 1", "a = " + "[" * 5000, "x = 1e400", "x = " + "9" * 5000)),
    "TOML, open": Format("open.toml", ("features {file}",), asks_for_memory=True),
    "TOML, conditions": Format("acts.toml", ("features {file}",), asks_for_memory=True),
    "setting": Format("training.epochs=2", ("features plain.toml --set {text}",), asks_for_memory=True,
                      hostile=("a." * 500 + "b=1", "training.epochs=" + "[" * 5000, "corpus=1", "=", "a=" + "9" * 900)),
    "grammar": Format("grammar.lark", (GENERATE + " --constraint {file}", "generate runs/open --constraint {file} "
                                       "--over characters --longest 8 --max-words 4"), cases=47, hostile=_GRAMMARS),
    "pattern": Format("la ( petite | grande )* /[a-z]+/ .", (GENERATE + " --constraint pattern:{text}",), cases=41,
                      hostile=_PATTERNS),
    "character pattern": Format("(la|le) [a-z]+s?", ("generate runs/open --over characters --longest 8 --max-words 4 "
                                                     "--constraint pattern:{text}",), hostile=_PATTERNS),
    "feature pattern": Format("POS:*=+0.5", ("explain runs/plain --prefix la --word la --change {text}",),
                              hostile=("*" * 30 + "Z=+1", "POS:*=nan", "*=1e400", "*=*1e308", "*=", "=1")),
    "CSV": Format("table.csv", TABLE),
    "table.tsv": Format("table.tsv", TABLE, cases=15),
    "table.json": Format("table.json", TABLE, ways=JSON_TEXT,
                         hostile=('[{"a": 1, ' + ", ".join('"a": 1' for _ in range(20_000)) + "}]", "[" * 100_000)),
    "table.jsonl": Format("table.jsonl", TABLE, ways=LINES, cases=15),
    "SQLite": Format("table.sqlite", TABLE),
    "hunspell .dic": Format("hun.dic", function=analysers.hunspell, beside=("hun.aff",)),
    "hunspell .aff": Format("hun.aff", function=lambda file: analysers.hunspell(file.with_suffix(".dic")),
                            beside=("hun.dic",)),
    "Lefff": Format("lefff.txt", function=analysers.lefff),
    "Lexique": Format("lexique.tsv", function=analysers.lexique),
    "frequencies": Format("frequencies.tsv", ("features plain.toml --set background.frequencies={file}",)),
    "lexicon": Format("lexicon.tsv", ("features plain.toml --set lexicon.tsv=['{file}']",)),
    "word list": Format("words.txt", ("ngram estimate text.txt --order 2 --words {file} --out {out}.arpa",
                                      "corpus build text.txt --vocabulary {file} --unknown <unk> --out {out}")),
    "pairs.tsv": Format("pairs.tsv", ("evaluate runs/open --pairs {file}",)),
    "pairs.jsonl": Format("pairs.jsonl", ("evaluate runs/open --pairs {file}",), ways=LINES),
    "n-best": Format("nbest.tsv", ("rescore runs/open {file} --references references.txt", "rescore runs/open {file}")),
    "references": Format("references.txt", ("rescore runs/open nbest.tsv --references {file}",)),
    "Kaldi": Format("kaldi.txt", ("rescore runs/open {file} --scores kaldi.am",)),
    "Kaldi scores": Format("kaldi.am", ("rescore runs/open kaldi.txt --scores {file}",)),
    "words": Format("added.tsv", cases=36, commands=(
        "words add runs/plain {file} --out {out}", "words remove runs/plain {file} --out {out}")),
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
BUILT = ("corpus show {file}", "corpus check {file}", "ngram estimate {file} --order 2 --out {out}.arpa")

FOLDERS: dict[str, Folder] = {
    "model, data": Folder("runs/plain", MODEL, _bundle_spoiled("model"), cases=82),
    "model, manifest": Folder("runs/plain", MODEL, _sealed_spoiled("model.json"), cases=30),
    "model, bytes": Folder("runs/plain", MODEL, _file_spoiled),
    "conditional model, data": Folder("runs/acts", ("generate {file} --max-words 3 --condition inform(name=ritz)",),
                                      _bundle_spoiled("model"), cases=82),
    "open model, data": Folder("runs/open", ("generate {file} --max-words 3", "evaluate {file} test.txt"),
                               _bundle_spoiled("model"), cases=82),
    "words as arrays, data": Folder("runs/spelled", ("explain {file} --word la",), _bundle_spoiled("model")),
    "n-gram folder, data": Folder("text.ngram", ("ngram query {file} le+chat", BACKGROUND), _bundle_spoiled("ngram")),
    "n-gram folder, bytes": Folder("text.ngram", ("ngram query {file} le+chat",), _file_spoiled, cases=12),
    "built corpus, manifest": Folder("built", BUILT, _sealed_spoiled("corpus.json"), cases=36),
    "built corpus, bytes": Folder("built", BUILT, _file_spoiled, cases=24),
    "run folder, data": Folder("runs/plain", RESUME, _bundle_spoiled("training"), cases=36),
    "run folder, bytes": Folder("runs/plain", RESUME, _file_spoiled, cases=24),
}  # fmt: skip
