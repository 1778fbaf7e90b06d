"""How much of a French network's gain over Kneser-Ney an n-gram model keeps (`llrnn ngram distil`).

    PYTHONPATH=src python scripts/distil_french.py --data runs/table4/prepared --out runs/distil/0 --device cuda --arpa
    PYTHONPATH=src python scripts/compare_kenlm.py runs/distil/0/distilled-1.arpa --text TEXT --fst   as others read it
    PYTHONPATH=src python scripts/distil_french.py --seeds runs/distil/0 runs/distil/1 ... > docs/results/distilled.json

Words seen twice in the training text and <unk>; network, Kneser-Ney and n-grams are over the same words and read the
same text. Rows: contexts of the training text alone, and of files of sentences that the network writes besides; each
alone, and joined with Kneser-Ney into one n-gram model, weights from the validation text; and Kneser-Ney on what the
network writes. What is done is not done again: the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.bundle import has_bundle
from llrnn.inference.mixing import fitted_shares
from llrnn.inference.projection import distil, written
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.languages.ngrams import NGramTable, estimate, interpolated, write_arpa
from llrnn.model.checkpoint import load
from llrnn.model.scoring import sentence_log_probs
from llrnn.text.corpus import Corpus, EncodedText
from llrnn.training.loop import train

CONFIG = Path("configs/table4/best.toml")
CHANGES = (
    'vocabulary.parts=["train"]',
    "vocabulary.min_count=2",
    'vocabulary.unknown="<unk>"',
    'background.parts=["train"]',
    "background.smoothing=0.5",
)
PARTS = ("valid", "test1", "test2")


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def trained(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.out / "network"
    if not (folder / "done").exists():
        config = read_config(CONFIG, [*CHANGES, *arguments.set], data=arguments.data)
        project = Project.from_config(config)
        for record in train(
            project.model().to(torch.device(arguments.device)),
            project.corpora["train"],
            valid=project.corpora["valid"],
            settings=config.training,
            folder=folder,
            resume=has_bundle(folder, "training"),
        ):
            if record.valid is not None:
                tell("epoch", record.epoch, "valid", record.valid)
        (folder / "done").touch()
    return folder


def write(arguments: argparse.Namespace) -> None:
    """Sentences of the network, in files that other processes write, each with its own seed."""
    wanted = [seed for seed in range(arguments.files) if not piece(arguments, seed).exists()]
    command = [sys.executable, __file__, *sys.argv[1:], "--seed"]
    running = [subprocess.Popen([*command, str(seed)]) for seed in wanted]
    if any(one.wait() for one in running):
        raise SystemExit("a process that writes has failed")


def piece(arguments: argparse.Namespace, seed: int) -> Path:
    found: Path = arguments.out / f"written.{seed}.txt"
    return found


def write_one(arguments: argparse.Namespace, seed: int) -> None:
    model, begun = load(arguments.out / "network").to(torch.device(arguments.device)), time.perf_counter()
    corpus, path = written(model, arguments.sentences, seed=seed), piece(arguments, seed)
    made = path.with_suffix(".new")
    made.write_text("".join(" ".join(one.words) + "\n" for one in corpus), encoding="utf8")
    made.rename(path)
    words = sum(len(one.words) for one in corpus)
    tell(f"{path.name}: {words:,} words, {time.perf_counter() - begun:.0f} s")


def nats(table: NGramTable, streams: dict[str, np.ndarray]) -> dict[str, float]:
    ngram = over_own_words(table)
    return {name: -float(ngram.score(stream)[0].double().mean()) for name, stream in streams.items()}


def run(arguments: argparse.Namespace) -> None:
    model = load(trained(arguments)).to(torch.device(arguments.device))
    vocabulary = model.vocabulary
    texts = {name: Corpus.from_file(arguments.data / f"{name}.conllu", lowercase=True) for name in ("train", *PARTS)}
    encoded = {name: EncodedText.encode(text, vocabulary) for name, text in texts.items()}
    streams = {name: encoded[name].stream() for name in PARTS}
    path = arguments.out / "distilled.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}}

    def keep(name: str, table: NGramTable | None, figures: dict[str, float], begun: float, **more: Any) -> None:
        size = (
            {} if table is None else {"ngrams": [len(level) for level in table.levels], "megabytes": table.bytes / 1e6}
        )
        found["rows"][name] = {"nats": figures, **size, **more, "seconds": time.perf_counter() - begun}
        path.write_text(json.dumps(found, indent=1))
        tell(name, found["rows"][name])

    def say(order: int, contexts: int) -> None:
        tell(f"order {order}: {contexts:,} contexts, {time.process_time():.0f} s of the processor")

    begun = time.perf_counter()
    words = tuple("<unk>" if word == vocabulary.unknown else "_".join(word.split()) for word in vocabulary.symbols)
    kneser_ney = estimate(encoded["train"].stream(), words, order=5)
    keep("KN5", kneser_ney, nats(kneser_ney, streams), begun)
    begun = time.perf_counter()
    with torch.no_grad():
        own = {name: -float(np.concatenate(sentence_log_probs(model, encoded[name])).mean()) for name in PARTS}
    keep("network", None, own, begun)
    write(arguments)
    for files in (0, 1, *(2**k for k in range(1, 6)), arguments.files):
        if files > arguments.files or f"distilled, {files} files, joined" in found["rows"]:
            continue
        text, begun = texts["train"], time.perf_counter()
        pieces = [Corpus.from_file(piece(arguments, seed)) for seed in range(files)]
        drawn = sum(len(one.words) for more in pieces for one in more)
        for more in pieces:
            text = text + more
        if files and files in (1, arguments.files):
            stream = EncodedText.encode(text[len(texts["train"]) :], vocabulary).stream()
            table = estimate(stream, words, order=5)
            keep(f"KN5 of {files} files", table, nats(table, streams), begun, words=drawn)
        least = 2 if files else 1
        table = distil(model, text, order=5, threshold=arguments.threshold, min_count=least, on_level=say)
        keep(f"distilled, {files} files", table, nats(table, streams), begun, words=drawn)
        if arguments.arpa:
            write_arpa(table, arguments.out / f"distilled-{files}.arpa")
        log_p = torch.stack([over_own_words(one).score(streams["valid"])[0] for one in (kneser_ney, table)])
        shares = fitted_shares(log_p)
        both = interpolated([kneser_ney, table], shares)
        keep(f"distilled, {files} files, joined", both, nats(both, streams), begun, words=drawn, weights=shares)


def together(folders: list[Path]) -> str:
    """The rows of several networks, `--set training.seed=...`, as one file."""
    return json.dumps(
        {"seeds": [json.loads((one / "distilled.json").read_bytes())["rows"] for one in folders]}, indent=1
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=Path, nargs="+", help="put these folders together, and no more")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--files", type=int, default=8, help="of sentences that the network writes")
    parser.add_argument("--sentences", type=int, default=25_000, help="in each")
    parser.add_argument("--threshold", type=float, default=1e-8)
    parser.add_argument("--arpa", action="store_true", help="write each distilled model as ARPA, too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")
    parser.add_argument("--seed", type=int, help="write one file, and no more")
    arguments = parser.parse_args()
    if arguments.seeds:
        tell(together(arguments.seeds))
        sys.exit()
    if arguments.data is None or arguments.out is None:
        parser.error("--data and --out are required")
    arguments.out.mkdir(parents=True, exist_ok=True)
    run(arguments) if arguments.seed is None else write_one(arguments, arguments.seed)
