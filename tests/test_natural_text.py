"""Text as people write it enters and leaves a model by its tokeniser, in every verb, in the library and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import llrnn
from llrnn import LLRNN, Corpus, cli
from llrnn.cli.options import read_for
from llrnn.config import parse_config, read_config
from llrnn.config.draft import draft_config
from llrnn.config.project import Project
from llrnn.ground.errors import VocabularyError
from llrnn.inference.harness import HarnessLM
from llrnn.inference.pairs import Pair, score_pairs
from llrnn.inference.rescoring import score_sentences
from llrnn.model.completion import split_letters
from llrnn.serve import messages
from llrnn.serve.app import create_app
from llrnn.serve.costs import cost_of
from llrnn.serve.engine import (
    CompleteQuestion,
    Engine,
    ExplainQuestion,
    NextQuestion,
    ScoreQuestion,
    answered,
    read_words,
)
from llrnn.serve.served import RequestScope, Served
from llrnn.text.raw import tokeniser_for
from web_client import client_of

SENTENCES = [
    "L'homme dort.",
    "La reine du parc mange l'oie, dit-il.",
    "Le Dr. Noir aime l'ami de Paris.",
    "Paris dort.",
]
CUT = {"du": "de le"}
WORDS = [
    "L' homme dort .",
    "La reine du parc mange l' oie , dit -il .",
    "Le Dr. Noir aime l' ami de Paris .",
    "Paris dort .",
]
RAW = ["homme oie ami dort ici. Il aime ici, dort.", "La reine voit le Dr. Bon et l'homme, l'ami, l'oie et le parc."]
TYPED, READ = "L'ami de Paris dort.", ("l'", "ami", "de", "paris", "dort", ".")


def conllu(text: str, words: str) -> str:
    rows, number, left = [f"# text = {text}"], 0, text
    for word in words.split():
        left = left[len(word) :]
        misc, parts = "_" if left.startswith(" ") else "SpaceAfter=No", CUT.get(word, word).split()
        left = left.strip()
        if len(parts) > 1:
            rows.append("\t".join([f"{number + 1}-{number + len(parts)}", word, *"______", "_", misc]))
        for part in parts:
            number += 1
            rows.append("\t".join([str(number), part, part, "X", "_", f"A={len(part)}", "0", "root", "_", misc]))
    return "\n".join([*rows, "", ""])


@pytest.fixture(scope="module", params=["treebank", "raw", "tokenised"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LLRNN:
    here, kind = tmp_path_factory.mktemp("text"), request.param
    file = here / ("train.conllu" if kind == "treebank" else "train.txt")
    own = {"treebank": map(conllu, SENTENCES, WORDS), "raw": [f"{one}\n" for one in SENTENCES + RAW]}
    file.write_text("".join([*own.get(kind, [f"{one}\n" for one in WORDS])] * 12), encoding="utf8")
    draft = draft_config([file], out=here / "c.toml")
    found = {"treebank": ("learnt", "surface"), "raw": ("unicode", "words"), "tokenised": ("tokenised", "words")}
    assert (draft.config.corpus.tokeniser, draft.config.corpus.multiword) == found[kind]
    project = Project.from_config(draft.config)
    assert project.corpora["train"].cut_by == ("unicode" if kind == "raw" else "given")
    project.model().save(here / "model")
    loaded = llrnn.load(here / "model")
    loaded.provenance["folder"] = str(here / "model")
    return loaded


def test_typed_text_is_read_and_written(model: LLRNN) -> None:
    assert model.read(TYPED) == READ
    assert model.write(READ) == TYPED
    assert model.read(READ) == READ
    assert split_letters(model, "La reine mange l'o") == (("la", "reine", "mange", "l'"), "o")


def test_every_way_gives_one_log_p(model: LLRNN) -> None:
    (by_words,) = llrnn.score(model, [READ]).sentences
    (by_text,) = llrnn.score(model, [TYPED]).sentences
    assert (by_text.words, by_text.log_p) == (by_words.words, by_words.log_p)
    served = Served("m", model)
    asked = ScoreQuestion(served, messages.ScoreRequest(texts=(TYPED, READ)))
    for piece in asked.pieces():
        asked.add(piece)
    for one in asked.answer()["scores"]:
        assert one["log_prob"] == pytest.approx(by_words.log_prob, abs=1e-4)
    typed = [TYPED.split()] if model.cuts_text else [READ]
    assert score_sentences(model, [("a", [tuple(typed[0])])]).log_probs[0][0] == pytest.approx(by_words.log_prob, 1e-4)
    harness = HarnessLM(model)._pair("L'ami de", " Paris")
    assert (len(harness.ids), harness.start) == (4, 3)


def test_one_question_has_one_answer_and_one_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """evaluate, score, the command line and the server, of natural text whose words come again."""
    (tmp_path / "train.txt").write_text("".join(f"{one}\n" for one in (SENTENCES + RAW) * 12), encoding="utf8")
    draft_config([tmp_path / "train.txt"], out=tmp_path / "c.toml").write()
    config = read_config(tmp_path / "c.toml", ["background.recent={window=40,weight=0.3}"])
    folder, text = str(tmp_path / "model"), tmp_path / "t.txt"
    Project.from_config(config).model().double().save(folder)
    lines = ["Zorglub dort.", "L'oie aime Zorglub, dit-il.", "Zorglub mange 1987 oies."]
    text.write_text("\n".join(lines), encoding="utf8")
    model = llrnn.load(folder)
    corpus = replace(Corpus.from_sentences([model.read(line) for line in lines]), cut_by=model.cut_by)
    spelled = sum(word not in model.vocabulary for one in corpus for word in one.words)
    assert spelled == 5
    found = {}
    for read, own in {"alone": corpus, "running": corpus.running(40)}.items():
        scored, evaluated = llrnn.score(model, own), llrnn.evaluate(model, own)
        assert scored.contract == evaluated.contract
        line = f"reading:{read}|words:18|end:yes|unknown:spelled {spelled}|tokens:unicode|case:lower|llrnn:"
        assert str(scored.contract).startswith(line)
        flags = ["--running"] if read == "running" else []
        assert cli.run(["evaluate", folder, str(text), "--json", *flags]) == 0
        (by_evaluate,) = json.loads(capsys.readouterr().out)
        assert cli.run(["score", folder, str(text), "--json", *flags]) == 0
        by_score = json.loads(capsys.readouterr().out)
        assert by_score["contract"] == by_evaluate["contract"] == str(scored.contract)
        assert (by_score["reading"], by_evaluate["reading"]) == (read, read)
        nats = [-one / 18 for one in (scored.log_prob, by_score["log_prob"])]
        assert [*nats, by_evaluate["log_perplexity"]] == pytest.approx([evaluated.log_perplexity] * 3, abs=1e-6)
        found[read] = scored
    assert found["running"].log_prob > found["alone"].log_prob + 1  # a positive control: Zorglub comes again
    served = Served("m", model)
    for place, (line, before) in enumerate(
        zip(lines * 2, [None] * 3 + [" ".join(lines[:n]) for n in range(3)], strict=True)
    ):
        asked = ScoreQuestion(served, messages.ScoreRequest(texts=(line,), before=before))
        for piece in asked.pieces():
            asked.add(piece)
        (one,), read = asked.answer()["scores"], "alone" if before is None else "running"
        wanted = found[read].sentences[place % 3]
        assert one["log_prob"] == pytest.approx(wanted.log_prob, abs=1e-6)
        assert one["kinds"] == list(wanted.kinds)
        counts = f"words:{len(wanted.words)}|end:yes|unknown:spelled {sum(kind != 'listed' for kind in wanted.kinds)}"
        assert one["contract"].startswith(f"reading:{read}|{counts}|tokens:unicode|case:lower|")
    assert found["alone"].sentences[2].kinds == ("spelled", "listed", "number", "spelled", "listed", "listed")


def test_text_leaves_as_it_is_written(model: LLRNN) -> None:
    assert model.write(READ) == TYPED
    assert model.write(("l'", "a\u2028b.c", "dort", "."))  # a blank that is drawn within a word
    assert llrnn.generate(model, "L'ami", greedy=True, max_words=2)[0].prefix == READ[:2]


def test_the_server_reads_what_is_typed(model: LLRNN) -> None:
    served = Served("m", model)
    (found,) = answered(NextQuestion, served, [messages.NextRequest(prefix="L'ami de")])
    assert found["prefix"] == ["l'", "ami", "de"]
    asked = messages.CompleteRequest(prefix="La reine mange", letters="l'o")
    (found,) = answered(CompleteQuestion, served, [(asked, RequestScope())])
    assert (found["prefix"], found["letters"], found["best"][0]["word"]) == (["la", "reine", "mange", "l'"], "o", "oie")


@pytest.mark.parametrize(
    ("limit", "most", "asked"),
    [
        ("prefix_words", 1000, lambda n: messages.NextRequest(prefix="l'ami " * n)),
        ("influence_words", 200, lambda n: messages.InfluenceRequest(prefix="l'ami " * n, feature="f")),
        ("prefix_words", 1000, lambda n: messages.CompletionRequest(prompt="l'ami " * n, n=2)),
        ("one_text_words", 1000, lambda n: messages.ScoreRequest(texts=("l'ami " * n,))),
        ("text_words", 4000, lambda n: messages.ScoreRequest(texts=("l'ami " * 400,) * 4 + ("l'ami " * (n - 1600),))),
    ],
)
def test_limits_count_the_words_of_the_model(
    model: LLRNN, limit: str, most: int, asked: Callable[[int], messages.ModelChoice]
) -> None:
    served = Served("m", model)
    cost_of(served, asked(most // 2))
    with pytest.raises(messages.Refused) as refused:
        cost_of(served, asked(most // 2 + 1))
    assert (refused.value.code, f"found {most + 2:,}" in str(refused.value)) == (messages.LIMITS[limit].code, True)


def test_prompt_tokens_are_the_words_of_the_model(model: LLRNN) -> None:
    client = client_of(create_app(Engine([Served("m", model)])))
    found = client.post("/v1/completions", json={"prompt": "L'ami de", "max_tokens": 1}).json()
    assert found["usage"]["prompt_tokens"] == 3


def test_a_word_that_is_cut_is_not_explained(model: LLRNN, capsys: pytest.CaptureFixture[str]) -> None:
    served, told = Served("m", model), r"one word is required, found .*reads as 2: l' homme; ask for 'homme' after"
    with pytest.raises(VocabularyError, match=told):
        llrnn.explain(model, "", word="L'homme")
    assert llrnn.explain(model, "L'", word="Homme").word == "homme"
    (found,) = answered(ExplainQuestion, served, [messages.ExplainRequest(word="l'homme")])
    assert "reads as 2: l' homme" in str(found)
    lost = read_words(served, messages.ReadRequest(words=("l'homme", "ami")))["unknown"]
    assert lost == [{"word": "l'homme", "near": ["homme"]}]
    folder = model.provenance["folder"]
    assert cli.run(["explain", folder, "--word", "L'homme"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.run(["explain", folder, "--word", "l'homme", "--tokenised"]) == 0


def test_words_are_completed_with_capitals(model: LLRNN) -> None:
    assert all(one.word[0].isupper() for one in llrnn.complete(model, "", "", k=9) if one.word[0].isalpha())
    assert "Paris" in [one.word for one in llrnn.complete(model, "L'ami de", "p")]
    assert "PAris" in [one.word for one in llrnn.complete(model, "L'ami de", "PA")]
    assert llrnn.complete(model, "La reine mange", "o")[0].word == "oie"


def test_minimal_pairs_are_cut(model: LLRNN) -> None:
    good, bad = ("L'homme dort.", "L'homme reine.") if model.cuts_text else ("L' homme dort .", "L' homme reine .")
    found = score_pairs(model, [Pair(tuple(good.split()), tuple(bad.split()))])
    read = (("l'", "homme", "dort", "."), ("l'", "homme", "reine", "."))
    scored = llrnn.score(model, read).sentences
    both = [found.log_p_good[0], found.log_p_bad[0]]
    assert both == pytest.approx([one.log_prob for one in scored], abs=1e-4)


def test_the_command_line(model: LLRNN, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, folder = tmp_path / "t.txt", model.provenance["folder"]
    text.write_text("L'homme dort.\n\nParis dort.\n" if model.cuts_text else "L' homme dort .\n\nParis dort .\n")
    assert cli.run(["score", folder, str(text), "--by", "sentences"]) == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in rows] == [("1", "l' homme dort ."), ("3", "paris dort .")]  # line numbers
    assert cli.run(["generate", folder, "--prefix", "L'homme", "--greedy", "--max-words", "1"]) == 0
    assert capsys.readouterr().out.startswith("L'homme")
    assert cli.run(["generate", folder, "--prefix", "l' homme", "--greedy", "--max-words", "1", "--tokenised"]) == 0
    assert capsys.readouterr().out.startswith("l' homme")


def test_lines_of_raw_text_are_cut_into_sentences(model: LLRNN, tmp_path: Path) -> None:
    if model.cuts_text:
        (tmp_path / "t.txt").write_text("Le Dr. Noir dort. Paris dort.\n", encoding="utf8")
        read = Corpus.from_file(tmp_path / "t.txt", cut=model.tokeniser.sentences)
        assert [" ".join(one.words) for one in read] == ["Le Dr. Noir dort .", "Paris dort ."]


def test_a_treebank_without_texts_is_written_and_cut_as_another_one(tmp_path: Path) -> None:
    """`ud_french_gsd` has words alone, `de le` for `du`: blanks and contractions are those of another treebank."""
    other, own = tmp_path / "other.conllu", tmp_path / "own.conllu"
    other.write_text("".join([*map(conllu, SENTENCES, WORDS)] * 12), encoding="utf8")
    cut = ["La reine de le parc dort .", "De le parc mange l' oie .", "Paris aime de le voir ."]
    rows = list[str]()
    for line in cut:
        words = line.split()
        for n, word in enumerate(words, 1):
            tag = "PRON" if word == "le" and "voir" in words else "X"
            rows.append("\t".join([str(n), word, word, tag, "_", f"A={n}", *"____"]))
        rows.append("")
    own.write_text("\n".join([*rows, ""] * 12), encoding="utf8")
    given = {"train": [str(own)], "tokeniser": str(tmp_path / "oth*.conllu"), "multiword": "surface"}
    project = Project.from_config(parse_config({"kind": "softmax", "corpus": given}, "c.toml"))
    read = [" ".join(one.words) for one in project.corpora["train"][:3]]
    assert read == ["la reine du parc dort .", "du parc mange l' oie .", "paris aime de le voir ."]
    assert project.corpora["train"][0].tokens[2].feats["A"] == "3,4"
    model = project.model()
    model.save(tmp_path / "model")
    loaded = llrnn.load(tmp_path / "model")
    assert loaded.read("La reine du parc dort.") == tuple(read[0].split())
    assert loaded.write(read[0].split()) == "La reine du parc dort."
    assert [" ".join(one.words) for one in read_for(loaded, own, "auto", None)[:3]] == read


@pytest.mark.parametrize("extension", ["jsonl", "tsv"])
def test_targets_and_values_of_conditions_are_cut(tmp_path: Path, extension: str) -> None:
    file, value, text = tmp_path / f"pairs.{extension}", "l'Ami d'Or", "L'Ami d'Or dort."
    line = json.dumps({"condition": {"name": value}, "target": text}) if extension == "jsonl" else f"{value}\t{text}"
    file.write_text(f"{line}\n" * 20, encoding="utf8")
    tokeniser = tokeniser_for("unicode", [file])
    assert tokeniser is not None
    (one, *_) = Corpus.from_file(file, lowercase=True, cut=lambda text: [text.replace("'", "' ").split()])
    assert one.words == ("l'", "ami", "d'", "or", "dort.")
    assert one.condition == ({"name": "l' ami d' or"} if extension == "jsonl" else "l' ami d' or")
    assert tokeniser.tokenise("dort.") == ("dort", ".")


def test_a_line_of_two_sentences_is_counted_alike(
    model: LLRNN, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """evaluate and score cut it in two, as training does; its row and the numbers of its words are of the line."""
    text, folder = str(tmp_path / "t.txt"), model.provenance["folder"]
    Path(text).write_text("Paris dort. La reine dort.\n\nParis dort.\n" if model.cuts_text else "Paris dort .\n")
    found = []
    for verb in ("evaluate", "score"):
        assert cli.run([verb, folder, text, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0][0]["contract"] == found[1]["contract"]
    assert [one["sentence_id"] for one in found[1]["scores"]] == ([1, 1, 3] if model.cuts_text else [1])
    rows = {}
    for by in ("sentences", "words"):
        assert cli.run(["score", folder, text, "--by", by]) == 0
        rows[by] = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [int(row[0]) for row in rows["sentences"]] == ([1, 3] if model.cuts_text else [1])
    assert sum(int(row[1]) for row in rows["sentences"]) == len({(row[0], row[1]) for row in rows["words"]})
    assert sum(float(row[2]) for row in rows["sentences"]) == pytest.approx(found[1]["log_prob"])
