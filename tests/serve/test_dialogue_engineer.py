"""A dialogue engineer's first hour: JSON lines and a table in, a server, curl, client, streams, another table."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llrnn import Client, cli
from llrnn.ground.errors import ServerError
from web_client import PATIENCE, Address, listening

LLRNN = str(Path(sys.executable).parent / "llrnn")
TOKEN = "open-sesame"
Venue = dict[str, str]

CONFIG = """
corpus = { train = ["{data}/train.jsonl"], valid = ["{data}/valid.jsonl"] }
domains = [{ kind = "numbers", language = "any" }, { kind = "spelling", order = 2, endings = 0 }]
lexicon = { values = ["name"], columns = ["phone", "area"] }
background = { kind = "discounted" }
condition = { reading = "slots", unread = ["name"], encoder = "gru", size = 16 }
controller = { kind = "gru", hidden = 24 }
training = { batches = { kind = "sentences", words = 128 }, learning_rate = 0.01, epochs = 8 }
features.output = [
    { kind = "identity", without = ["Value:name", "Value:phone", "Value:area"] },
    { kind = "attributes", listed = true },
]
[[contextual]]
kind = "copied"
slots = ["name"]
[[contextual]]
kind = "continued"
[[contextual]]
kind = "lookup"
name = "venues"
table = "{data}/venues.csv"
columns = ["phone", "area"]
subject = "name"
on = ["name"]
"""


def write_table(path: Path, venues: list[Venue]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, ["name", "phone", "area"])
        rows.writeheader()
        rows.writerows(venues)


def said_of(venue: Venue, asked: str) -> str:
    if asked == "phone":
        return f"the phone number of {venue['name']} is {venue['phone']}"
    return f"{venue['name']} is in the {venue['area']}"


def invented(rng: random.Random) -> Venue:
    def word() -> str:
        return "".join(rng.choice("bdfglmnprst") + rng.choice("aeiou") for _ in range(rng.choice([2, 3])))

    phone = str(rng.randrange(10**6, 10**7))
    return {"name": f"{word()} {word()}", "phone": phone, "area": rng.choice(["north", "south", "centre"])}


class Work(NamedTuple):
    """The folder of the engineer, and the first venue of the table."""

    folder: Path
    venues: list[Venue]

    def condition(self, asked: str) -> dict[str, str]:
        return {"name": self.venues[0]["name"], "asked": asked}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    folder, rng = tmp_path_factory.mktemp("dialogue"), random.Random(0)
    venues = [invented(rng) for _ in range(40)]
    write_table(folder / "venues.csv", venues)
    for part, count in (("train", 300), ("valid", 40)):
        told = [(rng.choice(venues), rng.choice(["phone", "area"])) for _ in range(count)]
        rows = [{"condition": {"name": v["name"], "asked": a}, "target": said_of(v, a)} for v, a in told]
        (folder / f"{part}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "waiter.toml").write_text(CONFIG)
    (folder / "token.txt").write_text(f"{TOKEN}\n")
    (folder / "live.csv").write_bytes((folder / "venues.csv").read_bytes())
    command = ["train", str(folder / "waiter.toml"), "--data", str(folder), "--out", str(folder / "waiter"), "--quiet"]
    assert cli.run(command) == 0
    return Work(folder, venues)


@pytest.fixture(scope="module")
def address(work: Work) -> Iterator[Address]:
    files = ["--table", f"venues={work.folder / 'live.csv'}", "--token-file", str(work.folder / "token.txt")]
    with listening([LLRNN, "serve", str(work.folder / "waiter"), *files], os.environ) as (process, found):
        yield found
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


def curl(address: Address, path: str, data: Any, token: str = TOKEN) -> tuple[int, str]:
    """Status and body, as the shell has them."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    heads = ["-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {token}"]
    url = f"http://127.0.0.1:{address.port}{path}"
    command = ["curl", "-sN", url, *heads, "-w", "\n%{http_code}", "-d", json.dumps(data)]
    body, _, status = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout.rpartition("\n")
    return int(status), body


def test_curl_writes_from_a_condition_and_the_table(work: Work, address: Address) -> None:
    asked = {"conditions": [work.condition("phone"), work.condition("area")], "beam": 5}
    status, body = curl(address, "/v1/write", asked)
    texts = [one["best"][0]["text"] for one in json.loads(body)["texts"]]
    assert (status, texts) == (200, [said_of(work.venues[0], "phone"), said_of(work.venues[0], "area")])
    status, body = curl(address, "/v1/write", asked, token="wrong")
    assert (status, json.loads(body)["code"]) == (401, "unauthorized")


def test_an_unknown_slot_is_answered_with_the_known_ones(work: Work, address: Address) -> None:
    _, body = curl(address, "/v1/write", {"conditions": [{**work.condition("phone"), "mood": "gloomy"}]})
    (one,) = json.loads(body)["texts"]
    assert said_of(work.venues[0], "phone") == one["best"][0]["text"]
    (warning,) = one["warnings"]
    assert "mood" in warning
    assert "asked" in warning


def test_the_client_writes_and_streams(work: Work, address: Address) -> None:
    client = Client(f"http://127.0.0.1:{address.port}", token=TOKEN)
    (found,) = client.write([work.condition("phone")], beam=5, count=2)
    assert found.best[0].text == said_of(work.venues[0], "phone")
    assert len(found.best) == 2
    words = [word.word for word in client.generate(greedy=True, condition=json.dumps(work.condition("area")))]
    assert " ".join(words) == said_of(work.venues[0], "area")
    with pytest.raises(ServerError, match="token"):
        Client(f"http://127.0.0.1:{address.port}").write([work.condition("phone")])


def test_completions_stream_as_other_servers_do(work: Work, address: Address) -> None:
    asked = {"prompt": "", "temperature": 0, "stream": True, "condition": work.condition("area")}
    status, body = curl(address, "/v1/completions", asked)
    events = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    assert (status, events[-1]) == (200, "[DONE]")
    told = "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])
    assert told.split() == said_of(work.venues[0], "area").split()


def test_another_table_is_read_while_the_server_runs(work: Work, address: Address) -> None:
    """The last test: the table stays changed."""
    new = [{**venue, "phone": str(int(venue["phone"]) % 999_983 + 10**6)} for venue in work.venues]
    assert new[0]["phone"] != work.venues[0]["phone"]
    write_table(work.folder / "live.csv", new)
    asked = {"conditions": [work.condition("phone")]}

    def answer() -> str:
        return str(json.loads(curl(address, "/v1/write", asked)[1])["texts"][0]["best"][0]["text"])

    assert answer() == said_of(work.venues[0], "phone")  # until the operator says so
    assert curl(address, "/v1/reload", {}, token="wrong")[0] == 401
    assert curl(address, "/v1/reload", {}) == (200, json.dumps({"reloaded": ["waiter"]}, separators=(",", ":")))
    assert answer() == said_of(new[0], "phone")
    (work.folder / "live.csv").write_text("nonsense\n")
    status, body = curl(address, "/v1/reload", {})
    assert (status, json.loads(body)["code"]) == (409, "reload")
    assert answer() == said_of(new[0], "phone")
