"""How many requests a second a server answers here, how fast, and in how much memory; with batching and without.

python scripts/load.py --model demo/model --clients 32 --seconds 10 --out load.json

Starts `llrnn serve` in a process of its own, once with batching and once with --rows 1, by turns, and asks /v1/next for
what follows prefixes of French sentences, from as many clients as are given, each on a connection that it keeps.
With --conditions, JSON lines, it asks /v1/write for texts of conditions by a beam of --beam instead, of a model that
writes from them (--listed: with the words of these conditions added, as `llrnn words add` adds words). Without --model
it serves an untrained model of the demo's size. Clients and server share the machine, so that the server alone is
faster than this says; requests for a second of the server's own CPU time do not depend on who else uses it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llrnn import LLRNN, LSTM, Corpus, Lexicon, Vocabulary, backgrounds, features, french, load
from llrnn.model.decode import prepared, read_condition

LLRNN_COMMAND = str(Path(sys.executable).parent / "llrnn")
WARM_UP = 1.0  # seconds that are not counted
MEMORY_EVERY = 2.0


@dataclass
class Run:
    """What one server did for one set of clients."""

    rows: int
    clients: int
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0  # of the server

    @property
    def rate_of_cpu(self) -> float:
        return self.statuses[200] / self.cpu_seconds

    @property
    def rate(self) -> float:
        return self.statuses[200] / self.seconds

    def summary(self) -> dict[str, object]:
        cuts = statistics.quantiles(self.milliseconds, n=100) if len(self.milliseconds) > 1 else [float("nan")] * 99
        return {
            "rows": self.rows,
            "clients": self.clients,
            "seconds": self.seconds,
            "statuses": dict(self.statuses),
            "requests_per_second": self.rate,
            "requests_per_cpu_second": self.rate_of_cpu,
            **{f"p{n}_ms": cuts[n - 1] for n in (50, 90, 99)},
            "resident_mb": self.megabytes,
        }


def resident_bytes(process: int) -> float:
    """Resident memory of a process, as Linux counts it."""
    return float(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process: int) -> float:
    """What a process has used of the processors, as Linux counts it."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def untrained(folder: Path) -> Path:
    """A model of the demo's size; speed does not depend on weights."""
    corpus = Corpus.from_sentences(french.sentences(6000)).lowercased()
    phi = features.Identity(top=400) + features.Attributes(Lexicon.from_corpus(corpus))
    model = LLRNN(
        Vocabulary.from_corpus(corpus),
        output_features=phi + features.Suffixes(3, min_count=20) + features.Numeric(),
        background=backgrounds.Unigram.from_corpus(corpus),
        controller=LSTM(160),
    )
    model.save(folder)
    return folder


def prefixes_for(folder: Path, count: int = 500) -> list[str]:
    """Beginnings of French sentences, of all lengths, in words that the model knows."""
    vocabulary, rng = load(folder).vocabulary, random.Random(0)
    found = []
    for sentence in Corpus.from_sentences(french.sentences(4 * count)).lowercased():
        words = sentence.words[: rng.randint(1, len(sentence.words))]
        if all(word in vocabulary for word in words):
            found.append(" ".join(words))
    return found[:count]


@contextmanager
def server(folders: Sequence[Path], rows: int, clients: int) -> Iterator[tuple[int, int]]:
    """Process id and port of a server that is ready; one address may have all the clients."""
    room = ["--in-flight", str(max(64, 2 * clients)), "--client-connections", str(max(48, clients + 8))]
    command = [LLRNN_COMMAND, "serve", *map(str, folders), "--port", "0", "--rows", str(rows), *room]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+) ", process.stdout.readline())
        if found is None:
            sys.exit("the server did not start")
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait(60)


def requests_for(folder: Path, conditions: Path | None, beam: int) -> list[bytes]:
    """The questions of one run, one after the other."""
    if conditions is None:
        return [request("/v1/next", {"prefix": prefix, "top": 10}) for prefix in prefixes_for(folder)]
    return [request("/v1/write", {"conditions": [one], "beam": beam}) for one in asked_of(conditions)]


def asked_of(conditions: Path) -> list[Any]:
    lines = conditions.read_text(encoding="utf8").splitlines()[:500]
    return [json.loads(line)["condition"] for line in lines]


def with_words(folder: Path, asked: Sequence[Any], out: Path) -> Path:
    """The model with all words of these conditions listed, so that no condition has a vocabulary of its own."""
    model = load(folder)
    read = [read_condition(model, one) if isinstance(one, str) else one for one in asked]
    prepared(model, read).save(out)
    return out


def request(path: str, data: object = b"") -> bytes:
    """Return an HTTP request: a POST of `data` as JSON, or of a body in bytes as it is; a GET where that is empty."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def answered(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], said: bytes) -> int:
    """Send a request on an open connection, read the whole answer, and return its status."""
    reader, writer = connection
    writer.write(said)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12])


async def client(port: int, requests: list[bytes], until: float, run: Run, counted_from: float) -> None:
    """Asks again as soon as it has its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    rng = random.Random(id(writer))
    while (began := time.perf_counter()) < until:
        status = await answered((reader, writer), rng.choice(requests))
        if began >= counted_from:
            run.statuses[status] += 1
            run.milliseconds.append(1000 * (time.perf_counter() - began))
    writer.close()
    await writer.wait_closed()


async def watch(process: int, run: Run) -> None:
    while True:
        run.megabytes.append(round(resident_bytes(process) / 2**20, 1))
        await asyncio.sleep(MEMORY_EVERY)


async def drive(process: int, port: int, requests: list[bytes], seconds: float, run: Run) -> None:
    counted_from = time.perf_counter() + WARM_UP
    until = counted_from + seconds
    watching = asyncio.create_task(watch(process, run))
    asking = asyncio.gather(*(client(port, requests, until, run, counted_from) for _ in range(run.clients)))
    await asyncio.sleep(WARM_UP)
    used = cpu_seconds(process)
    await asking
    run.seconds = time.perf_counter() - counted_from
    run.cpu_seconds = cpu_seconds(process) - used
    watching.cancel()


def measured(folder: Path, requests: list[bytes], rows: int, clients: int, seconds: float) -> Run:
    run = Run(rows, clients)
    with server([folder], rows, clients) as (process, port):
        asyncio.run(asyncio.wait_for(drive(process, port, requests, seconds, run), seconds + 60))
    print(json.dumps(run.summary()))  # noqa: T201
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder that knows French words")
    parser.add_argument("--conditions", type=Path, help="JSON lines with conditions to write from")
    parser.add_argument("--listed", action="store_true", help="--conditions: the model with their words added")
    parser.add_argument("--beam", type=int, default=5, help="--conditions: hypotheses")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run; at most 600")
    parser.add_argument("--rounds", type=int, default=1, help="how often both servers take their turn")
    parser.add_argument("--rows", type=int, default=64, help="most sequences in a step, with batching")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.model or untrained(Path(temporary) / "untrained")
        if given.listed:
            folder = with_words(folder, asked_of(given.conditions), Path(temporary) / "listed")
        seconds = min(given.seconds, 600.0)
        requests, turns = requests_for(folder, given.conditions, given.beam), [given.rows, 1] * given.rounds
        runs = [measured(folder, requests, rows, given.clients, seconds) for rows in turns]
    batched, alone = (statistics.median(run.rate for run in part) for part in (runs[::2], runs[1::2]))
    of_cpu = [statistics.median(run.rate_of_cpu for run in part) for part in (runs[::2], runs[1::2])]
    said = f"batching: {batched:.0f} requests/s, one by one: {alone:.0f}, ratio {batched / alone:.2f}"
    print(f"{said}; of the server's CPU time {of_cpu[0] / of_cpu[1]:.2f}")  # noqa: T201
    if given.out is not None:
        found = {"runs": [run.summary() for run in runs], "batched": batched, "alone": alone, "ratio": batched / alone}
        found |= {"ratio_of_cpu": of_cpu[0] / of_cpu[1]}
        given.out.write_text(json.dumps(found, indent=1), encoding="utf8")


if __name__ == "__main__":
    main()
