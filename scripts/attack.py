"""How long others wait while eight clients send the most expensive requests that the server takes.

python scripts/attack.py --model demo/model --seconds 5 --out attack.json

Starts `llrnn serve` with the model and one more that reads conditions, in a process of its own, on this machine only.
For each kind of attack eight clients, each with an address of its own (127.0.0.2 and on: Linux) and four connections,
send the worst request of that kind that the limits allow, another one each time so that no cache helps. Meanwhile one
user asks the same model for next words, another one the other model, and somebody asks for health. Clients and server
share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, contextual, domains, features, french, load
from llrnn.model.controllers import Attentive, Encoder
from llrnn.serve.messages import most
from llrnn.text.conditions import Words
from load import answered, request, resident_bytes, server, untrained

ATTACKERS, CONNECTIONS = 8, 4
LONGEST = 60.0  # seconds of one kind
PAUSE = 0.02  # of a user, between an answer and the next question

Request = Callable[[random.Random], tuple[str, bytes]]  # path and body; a body of b"" is a GET


@dataclass
class Waited:
    """How long answers took, and which they were."""

    milliseconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def summary(self) -> dict[str, object]:
        times = sorted(self.milliseconds) or [float("nan")]
        return {
            "answers": len(self.milliseconds),
            "statuses": dict(self.statuses),
            "p50_ms": round(statistics.median(times), 1),
            "p99_ms": round(times[min(len(times) - 1, int(0.99 * len(times)))], 1),
            "max_ms": round(times[-1], 1),
        }


def reader_of_conditions(folder: Path) -> Path:
    """An untrained model that encodes conditions and copies from them: listing their words makes a vocabulary anew.

    Its vocabulary is open, so that there are cells to draw strings from.
    """
    corpus = Corpus.from_sentences(french.sentences(2000)).lowercased()
    encoder = Encoder(Words(), [f"Word:{word}" for word in corpus.counts()], 32, kind="lstm")
    model = LLRNN(
        Vocabulary.from_corpus(corpus, domains=[domains.Spelling(list(corpus.counts()), order=3, endings=30)]),
        output_features=features.Identity(top=400) + features.Suffixes(3, min_count=5).of_listed(),
        background=backgrounds.Unigram.from_corpus(corpus),
        controller=Attentive(LSTM(48), encoder, LSTM(48, inputs=48 + 32)),
        contextual=[contextual.Copied(), contextual.Unmentioned()],
    )
    model.save(folder)
    return folder


def attacks(folder: Path, open_folder: Path) -> dict[str, Request]:
    """The worst request of each kind, near every limit that it meets."""
    model, vocabulary = load(folder), load(open_folder).vocabulary
    cell = vocabulary.symbols[vocabulary.n_words]  # the first
    words = [word for word in model.vocabulary.words if " " not in word][1:]
    names = list(model.feature_names)
    patterns = max(1, min(200, 200_000 // len(names)))

    def some(rng: random.Random, count: int) -> list[str]:
        return rng.choices(words, k=count)

    def nonsense(rng: random.Random, count: int) -> list[str]:
        return ["".join(rng.choices("abcdefgh", k=12)) for _ in range(count)]

    def changes(rng: random.Random) -> list[dict[str, object]]:
        return [{"feature": rng.choice(names), "scale": 1.001} for _ in range(200)]

    def condition(rng: random.Random, length: int) -> str:
        values = (f'"s{n}": "{rng.randrange(10**4)}x {rng.choice(words)}"' for n in range(length // 10))
        text = ", ".join(values)
        return "{" + text[:length].rpartition(",")[0] + "}"

    def ask(path: str, make: Callable[[random.Random], object]) -> Request:
        return lambda rng: (f"/v1/{path}", json.dumps(make(rng)).encode())

    junk = b'{"texts":[' + b"[]," * 5_998 + b"[]]}"
    fields = b"{" + b",".join(b'"%d":1' % n for n in range(5_999)) + b"}"
    reader, endless = {"model": "conditions"}, {"changes": [{"feature": "Word:</s>", "offset": -1e6}]}
    return {
        "long prefix, 1,000 words asked and listed": ask(
            "next", lambda rng: {"prefix": some(rng, 1000), "top": 1000, "words": some(rng, 1000)}
        ),
        "patterns": ask(
            "next",
            lambda rng: {"changes": [{"feature": f"*e*{'*' * n}{rng.choice('aeiou')}*"} for n in range(patterns)]},
        ),
        "explain a long prefix, 200 changes": ask(
            "explain",
            lambda rng: {"prefix": some(rng, 1000), "word": words[3], "rival": words[4], "changes": changes(rng)},
        ),
        "influence": ask(
            "influence", lambda rng: {"prefix": some(rng, 200), "feature": rng.choice(names), "changes": changes(rng)}
        ),
        "score 4 long texts, 200 changes": ask(
            "score", lambda rng: {"texts": [some(rng, 1000) for _ in range(4)], "changes": changes(rng)}
        ),
        "score 64 texts, 200 changes": ask(
            "score", lambda rng: {"texts": [some(rng, 62) for _ in range(64)], "changes": changes(rng)}
        ),
        "generate 500 words": ask(
            "generate",
            lambda rng: {
                "prefix": some(rng, 1000), "max_words": 500, "stream": False, "seed": rng.randrange(10**6),
                "temperature": 5.0,
                "top_p": 0.99,
            },
        ),
        "64 completions of 19 words, prompts of 80": ask(
            "completions",
            lambda rng: {"prompt": [" ".join(some(rng, 80)) for _ in range(64)], "max_tokens": 19, **endless},
        ),
        "64 completions, of which the last is refused": ask(
            "completions",
            lambda rng: {"prompt": [*some(rng, 63), *nonsense(rng, 1)], "max_tokens": 30, **endless},
        ),
        "64 completions of 500 words, which are refused": ask(
            "completions", lambda rng: {"prompt": some(rng, 1), "n": 64, "max_tokens": 500, **endless}
        ),
        "complete letters, with their mass": ask(
            "complete",
            lambda rng: {**reader, "condition": "la", "prefix": ["la"] * 1000, "letters": rng.choice("aeiou"), "k": 50,
                         "mass": True},
        ),
        "a condition of 4,000 characters": ask(
            "next", lambda rng: {**reader, "prefix": ["la"] * 1000, "condition": condition(rng, 4000)}
        ),
        "score 16 conditions of 1,000 characters": ask(
            "score",
            lambda rng: {**reader, "texts": ["la"] * 16, "conditions": [condition(rng, 1000) for _ in range(16)]},
        ),
        "bodies of 6,000 things": lambda rng: ("/v1/score", rng.choice([junk, fields])),
        "read unknown words": ask(
            "read", lambda rng: {"prefix": nonsense(rng, 1000), "words": nonsense(rng, 1000)}
        ),
        "write from 8 conditions, a beam of 20": ask(
            "write",
            lambda rng: {**reader, "conditions": [condition(rng, 400) for _ in range(8)], "beam": 20, "max_words": 12},
        ),
        "strings of a cell": lambda rng: (
            f"/v1/models/conditions/strings?cell={quote(cell)}&limit={most('strings')}&seed={rng.randrange(10**6)}",
            b"",
        ),
        "listings": lambda rng: (f"/v1/models/main/words?limit=1000&query={rng.choice('aeiou')}", b""),
        "features by name": lambda rng: (f"/v1/models/main/features?limit=1000&query={rng.choice('aeiou')}", b""),
        "a model by its name": lambda rng: ("/v1/models/conditions", b""),
        "the description of the API": lambda rng: ("/v1/openapi.json", b""),
    }  # fmt: skip


async def asking(port: int, address: str, make: Callable[[], bytes], until: float, found: Waited, pause: float) -> None:
    """One connection that asks again and again; one that the server closes is opened again."""
    while time.perf_counter() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            try:
                while time.perf_counter() < until:
                    said, began = make(), time.perf_counter()
                    found.statuses[await answered((reader, writer), said)] += 1
                    found.milliseconds.append(1000 * (time.perf_counter() - began))
                    await asyncio.sleep(pause)
            finally:
                writer.close()
        except (OSError, EOFError):
            await asyncio.sleep(0.1)


async def attacked(port: int, worst: Request, seconds: float) -> dict[str, Waited]:
    """Eight attackers and three others, side by side."""
    rng = random.Random(0)
    prepared = [request(*worst(rng)) for _ in range(60)]  # made before: their making costs time too
    until = time.perf_counter() + seconds
    found = {name: Waited() for name in ("attackers", "user of the model", "user of the other model", "health")}
    short = request("/v1/next", {"model": "main", "prefix": "la", "top": 5})
    other = request("/v1/next", {"model": "conditions", "condition": "la", "top": 5})
    users = [
        ("127.0.0.1", short, found["user of the model"]),
        ("127.0.0.1", other, found["user of the other model"]),
        ("127.0.0.1", request("/v1/health"), found["health"]),
    ]
    others = [asking(port, where, lambda said=said: said, until, waited, PAUSE) for where, said, waited in users]
    against = [
        asking(port, f"127.0.0.{2 + n}", lambda: rng.choice(prepared), until, found["attackers"], 0.0)
        for n in range(ATTACKERS)
        for _ in range(CONNECTIONS)
    ]
    async with asyncio.timeout(seconds + 60):
        await asyncio.gather(*others, *against)
    return found


def reports(models: list[Path], seconds: float, only: str) -> Iterator[dict[str, object]]:
    named = [Path(f"main={models[0]}"), Path(f"conditions={models[1]}")]
    for name, worst in attacks(*models).items():
        if only in name:
            with server(named, 64, 0) as (process, port):  # a fresh one, so that memory is of this attack
                found = asyncio.run(attacked(port, worst, seconds))
                said = {who: waited.summary() for who, waited in found.items()}
                report = {"attack": name, **said, "resident_mb": round(resident_bytes(process) / 2**20, 1)}
            print(json.dumps(report), flush=True)  # noqa: T201
            yield report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; without one an untrained model of the demo's size")
    parser.add_argument("--seconds", type=float, default=5.0, help=f"of each attack; at most {LONGEST:.0f}")
    parser.add_argument("--only", default="", help="attacks whose names hold this")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main_model = given.model or untrained(Path(temporary) / "untrained")
        models = [main_model, reader_of_conditions(Path(temporary) / "conditions")]
        found = list(reports(models, min(given.seconds, LONGEST), given.only))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1), encoding="utf8")


if __name__ == "__main__":
    main()
