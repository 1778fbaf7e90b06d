"""The default path, `llrnn init` and what follows, of raw text and of a treebank, in a language with settings of ours
(Turkish) and in one without (Maltese): every verb reads the same words, counts alike, and writes as people do."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import llrnn
from browser import Browser, chromium, require_browser
from llrnn import LLRNN, cli
from web_client import Address, listening

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "shared" / "data"
TRAIN, HELD_OUT, NATURAL = 400, 24, 800  # sentences: trained on, scored, counted for words that come twice in a row
TYPED = {"turkish": "Osman'ın evi, kapı açık.", "maltese": "Il-Kumitat qal li f'Malta l-gvern hawn."}
LLRNN_PROGRAM = str(Path(sys.executable).parent / "llrnn")
ROWS = [f"{language}-{kind}" for language in TYPED for kind in ("raw", "treebank")]


@dataclass(frozen=True)
class Walked:
    """A trained model, what `llrnn train` said of it, and natural text that it has not seen: a few lines, and many."""

    name: str
    folder: str
    said: str
    held_out: Path
    natural: Sequence[str]

    @property
    def typed(self) -> str:
        return TYPED[self.name.partition("-")[0]]

    def open(self) -> LLRNN:
        return llrnn.load(self.folder)

    def json(self, verb: str, *arguments: str) -> Any:
        return json.loads(ran(verb, self.folder, *arguments, "--json")[0])


def ran(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Run a verb; return what it said on standard output and on standard error."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        found = cli.run(list(arguments))
    out.seek(0)
    said = out.read()
    assert found == code, (arguments, said[-2000:], err.getvalue()[-2000:])
    return said, err.getvalue()


def blocks(language: str, part: str) -> list[str]:
    """Return the sentences of a part of a treebank, as they stand in CoNLL-U."""
    folder = DATA / f"ud_{language}"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: the treebanks that the path is walked with")
    (file,) = folder.glob(f"*-{part}.conllu.gz")
    return gzip.decompress(file.read_bytes()).decode().strip().split("\n\n")


def texts_of(sentences: Sequence[str]) -> list[str]:
    return [found[1] for one in sentences if (found := re.search("^# text = (.*)$", one, re.MULTILINE))]


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Walked]:
    """Every model by its name, after `llrnn init` and `llrnn train`."""
    found = {}
    for name in ROWS:
        language, _, kind = name.partition("-")
        here, sentences = tmp_path_factory.mktemp(name), blocks(language, "train")[:TRAIN]
        natural = texts_of(blocks(language, "dev"))
        train = here / ("train.conllu" if kind == "treebank" else "train.txt")
        lines = sentences if kind == "treebank" else texts_of(sentences)
        train.write_text("".join(f"{one}\n\n" if kind == "treebank" else f"{one}\n" for one in lines), encoding="utf8")
        held_out = here / "held-out.txt"
        held_out.write_text("".join(f"{one}\n" for one in natural[-HELD_OUT:]), encoding="utf8")
        config, folder = str(here / "c.toml"), str(here / name)
        ran("init", str(train), "--out", config)
        said = "\n".join(ran("train", config, "--out", folder))
        found[name] = Walked(name, folder, said, held_out, natural[:NATURAL])
    return found


@pytest.fixture(params=ROWS)
def walked(walks: Mapping[str, Walked], request: pytest.FixtureRequest) -> Walked:
    return walks[request.param]


@pytest.fixture(scope="module")
def server(walks: Mapping[str, Walked]) -> Iterator[Address]:
    command = [LLRNN_PROGRAM, "serve", *(f"{one.name}={one.folder}" for one in walks.values())]
    with listening(command, os.environ) as (_, address):
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_browser()
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def ask(server: Address, path: str, **request: Any) -> Any:
    said = server.ask("POST", f"/v1/{path}", request)
    assert said.status == 200, said.body
    return said.json


def test_one_text_has_one_probability_and_one_contract(walked: Walked, server: Address) -> None:
    """evaluate = score = the server, of sentences alone and of a running text, whose words come again."""
    perplexities = {}
    for reading, flags in {"alone": (), "running": ("--running",)}.items():
        (evaluated,), scored = (walked.json(verb, str(walked.held_out), *flags) for verb in ("evaluate", "score"))
        assert evaluated["contract"] == scored["contract"]
        assert scored["contract"].startswith(f"reading:{reading}|words:{scored['words']:,}|end:yes|unknown:spelled ")
        assert -scored["log_prob"] / scored["words"] == pytest.approx(evaluated["log_perplexity"], rel=1e-6)
        assert scored["perplexity"] == pytest.approx(evaluated["perplexity"], rel=1e-5)
        sentences = [one["words"][:-1] for one in scored["scores"]]
        if reading == "alone":
            texts = [walked.open().write(words) for words in sentences]
            answers = ask(server, "score", model=walked.name, texts=texts)["scores"]
        else:
            answers = [
                ask(server, "score", model=walked.name, texts=[text], before="\n".join(texts[:end]))["scores"][0]
                for end, text in enumerate(texts)
            ]
        assert [one["words"] for one in answers] == [one["words"] for one in scored["scores"]]
        assert math.fsum(one["log_prob"] for one in answers) == pytest.approx(scored["log_prob"], rel=1e-6)
        perplexities[reading] = scored["perplexity"]
    assert perplexities["running"] < perplexities["alone"]  # a positive control: words do come again


def test_rows_of_score_are_those_of_the_lines(walked: Walked) -> None:
    """A row for a line, whatever number of sentences it has, and the total of all rows is that of the text."""
    out, err = ran("score", walked.folder, str(walked.held_out), "--by", "sentences")
    rows = [dict(zip(out.splitlines()[0].split("\t"), row.split("\t"), strict=True)) for row in out.splitlines()[1:]]
    assert [int(row["sentence_id"]) for row in rows] == list(range(1, HELD_OUT + 1))
    assert f"{sum(int(row['words']) for row in rows):,} words" in err


def test_training_says_how_its_text_was_read(walked: Walked) -> None:
    """Its contract names the tokeniser that cut the text; a treebank's words are given."""
    cut_by = "unicode" if walked.name.endswith("raw") else "given"
    assert re.search(rf"\|tokens:{cut_by}\|case:lower\|", walked.said), walked.said


def doubled(texts: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Return the share of words, signs aside, that equal the word before, and the number of words."""
    count = sum(map(len, texts))
    same = sum(one == other and one.isalpha() for words in texts for one, other in pairwise(words))
    return same / count, count


def test_text_is_written_as_people_write(walked: Walked) -> None:
    """A capital first, full stops at the word before, and no more words twice in a row than 1.3 times those of text.

    The sample is small: three standard deviations of its share, and three words, are allowed above that. Signs are not
    counted. Where a full stop closed up would be read as an abbreviation's, or as one sign with the next, it is written
    apart; of words that end with a sign nothing is asked.
    """
    model = walked.open()
    drawn = [one for one in walked.json("generate", "--count", "60", "--seed", "3") if one["words"]]
    texts = [one["text"] for one in drawn]
    assert [model.read(text) for text in texts] == [tuple(one["words"]) for one in drawn]
    assert not [text for text in texts if (letter := re.search(r"[^\W\d_]", text)) and letter[0].islower()]
    for text in texts:
        if re.search(r"\w \.$", text):
            assert model.read(f"{text[:-2]}.") != model.read(text)
    natural, _ = doubled([model.read(line) for line in walked.natural])
    share, count = doubled([model.read(text) for text in texts])
    assert count > 300
    assert share <= 1.3 * natural + 3 * math.sqrt(1.3 * natural / count) + 3 / count


def test_words_are_completed_and_explained(walked: Walked) -> None:
    *_, before, word = accumulate(walked.typed.split()[:3], "{} {}".format)
    found = walked.json("complete", word[:-1])
    assert [*found["prefix"], found["letters"]] == list(walked.open().read(word[:-1]))
    assert len(found["best"]) == 3
    assert all(one["word"].startswith(found["letters"]) for one in found["best"])
    first = walked.json("complete", "")
    assert all(not one["word"][0].islower() for one in first["best"])
    best = walked.json("complete", f"{before} ")["best"][0]
    told = walked.json("explain", "--prefix", before, "--word", best["word"])
    assert told["log_p"] == pytest.approx(math.log(best["p"]), abs=1e-4)


def test_a_keyboard_is_made(walked: Walked, tmp_path: Path) -> None:
    ran("export", "keyboard", walked.folder, "--out", str(tmp_path / "k.kb"))
    assert (tmp_path / "k.kb").stat().st_size > 10_000


def test_natural_text_is_typed_into_the_page(walked: Walked, server: Address, window: Browser) -> None:
    window.complaints()
    window.open(f"http://127.0.0.1:{server.port}/#{urlencode({'model': walked.name, 'prefix': ''})}")
    for end in (walked.typed.index(" "), len(walked.typed)):
        text = walked.typed[:end]
        window.type("#prefix", text)
        top = ask(server, "next", model=walked.name, prefix=text, top=12)["top"]
        wanted = {one["word"]: one["p"] for one in top if not one["cell"]}

        def shown(wanted: Mapping[str, float] = wanted) -> bool | None:
            keys, values = (window.values(".bar", name) for name in ("data-key", "data-p"))
            found = {key.removeprefix("word:"): float(p or "nan") for key, p in zip(keys, values, strict=True) if key}
            return all(found.get(word, 0) == pytest.approx(p, abs=1e-6) for word, p in list(wanted.items())[:5]) or None

        window.until(shown, f"the next words {wanted}")
        assert not window.all("#prefix[aria-invalid]"), window.texts("#prefix-hint")
    window.click(".bar .pick")
    window.until(lambda: window.texts(".why h3") or None, "an explanation")
    window.until(lambda: window.texts("table.sum td.total") or None, "its sum")
    assert not window.messages()
    assert not window.complaints()
