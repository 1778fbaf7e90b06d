"""Training with several processes against one, in words per second: the same model, the same batches, taking turns.

Each process has one thread. While the first one trains alone, the others wait without computing; then all train
together. Run as a module under torchrun, this file is one of these processes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from llrnn.config.project import embedded_corpora
from llrnn.ground.errors import LLRNNError
from llrnn.knowledge import backgrounds
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.runs import Record
from llrnn.training.workers import Workers, join_workers
from llrnn_lab.bench.machine import all_cores
from llrnn_lab.bench.neural import french_like, n_weights

_SYMBOLS, _CLASSES = 42_592, 3_244  # the paper's French
_WARM_UP = 1  # rounds that do not count


def parallel(*, processes: int, hidden: int, words: int, rounds: int, steps: int = 3) -> dict[str, Any]:
    """Words per second of whole training steps, and the seconds that a process is busy with one."""
    given = json.dumps({"hidden": hidden, "words": words, "rounds": rounds, "steps": steps})
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with all_cores():
        done = subprocess.run(
            [*command, "-m", "llrnn_lab.bench.parallel", given],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise LLRNNError(f"torchrun ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(hidden: int, words: int, rounds: int, steps: int) -> None:
    """What one of the processes does; the first writes the result."""
    torch.set_num_threads(1)
    with join_workers() as team:
        corpus = embedded_corpora(6000, 1, 1)["train"]
        sides: dict[str, tuple[Workers, bool]] = {"alone": (Workers(), team.leads), "together": (team, True)}
        runs = {
            name: _steps(_model(corpus, hidden), corpus, words, workers)
            for name, (workers, takes_part) in sides.items()
            if takes_part
        }
        timed: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(rounds + _WARM_UP):
            for name in sides:
                team.any(False)  # all wait for each other, so that nobody else computes
                timed[name].append(_time(runs.get(name), steps))
        if team.leads:
            sizes = {"H": hidden, "G": _CLASSES, "weights": n_weights(_model(corpus, hidden))}
            sys.stdout.write(json.dumps(_summary(corpus, words, steps, timed) | sizes))


def _vocabulary(corpus: Corpus) -> Vocabulary:
    """Filled up with numbers."""
    own = Vocabulary.from_corpus(corpus).symbols
    return Vocabulary([*own, *(str(number) for number in range(10**6, 10**6 + _SYMBOLS - len(own)))])


def _model(corpus: Corpus, hidden: int) -> LLRNN:
    vocabulary = _vocabulary(corpus)
    return LLRNN(
        vocabulary,
        output_features=french_like(len(vocabulary), _CLASSES),
        background=backgrounds.Unigram.from_corpus(corpus, smoothing=0.1),
        controller=LSTM(hidden, layers=2, dropout=0.5),
        tied=True,
        word_dropout=0.1,
    )


def _steps(model: LLRNN, corpus: Corpus, words: int, workers: Workers) -> Iterator[Record]:
    batches = {"kind": "sentences", "words": words}
    records = train(model, corpus, workers=workers, epochs=1000, log_every=1, batches=batches, patience=None)
    return (record for record in records if record.event == "step")


def _time(run: Iterator[Record] | None, steps: int) -> tuple[float, float]:
    """Seconds by the clock, and seconds of work, threads of the transport included."""
    clock, work = time.perf_counter(), time.process_time()
    for _ in range(steps if run is not None else 0):
        next(run)  # type: ignore[arg-type]
    return time.perf_counter() - clock, time.process_time() - work


def _summary(corpus: Corpus, words: int, steps: int, timed: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Both train on the same batches in the same order: ratios of seconds are ratios of words per second."""
    plan = Sentences(words).plan(EncodedText.encode(corpus, _vocabulary(corpus)), seed=0)
    positions = statistics.mean(int(batch.mask.sum()) for batch in plan)
    kept = {name: found[_WARM_UP:] for name, found in timed.items()}
    pairs = list(zip(kept["alone"], kept["together"], strict=True))
    return {
        "V": _SYMBOLS,
        "words in a batch": positions,
        "words per second": {
            name: steps * positions / statistics.median(clock for clock, _ in found) for name, found in kept.items()
        },
        "ratio": statistics.median(alone[0] / together[0] for alone, together in pairs),
        "ratio of work": statistics.median(alone[1] / together[1] for alone, together in pairs),
    }


if __name__ == "__main__":
    measure(**json.loads(sys.argv[1]))
