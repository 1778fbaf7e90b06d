"""`llrnn init`: what is found is true, what is written is trained at the first try, and mistakes lead to their cure."""

from __future__ import annotations

import gzip
import random
import re
from itertools import cycle, islice
from pathlib import Path

import pytest

from llrnn import Corpus, cli, french, load
from llrnn.config import Config, read_config
from llrnn.config.draft import draft_config, share_near, sizes_for
from llrnn.config.wordlists import derived_forms, joined, weighted_by_spelling
from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn.text.lexicon import Lexicon, has_counts, read_frequencies
from llrnn.text.readers import conllu_lines

DATA = Path(__file__).parents[3] / "shared" / "data"
Capture = pytest.CaptureFixture[str]


def write(path: str, lines: list[str]) -> str:
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Annotated and plain text of the embedded grammar, and lists."""
    monkeypatch.chdir(tmp_path)
    made = list(french.sentences(60))
    write("mine.conllu", list(conllu_lines(made)))
    write("mine.txt", [" ".join(one.words) for one in made[:48]])
    write("held.txt", [" ".join(one.words) for one in made[48:]])
    write("counted.tsv", ["kiwi\t3", "zinzolin\t1", "maisons\t7"])
    write("words.txt", ["kiwi", "zinzolin", "Maisons", "maisonnette"])
    return tmp_path


def trained(config: str, *more: str) -> None:
    """`llrnn train` without editing; one epoch, since tests are short."""
    assert cli.run(["train", config, "--out", "run", "--quiet", "--set", "training.epochs=1", *more]) == 0


# --- what is found ---------------------------------------------------------------------------------------------------


def test_what_is_found_is_true(here: Path) -> None:
    found = str(draft_config(["mine.txt"], out="c.toml", valid=["held.txt"], lists=["words.txt"]))
    train, valid = (Corpus.from_file(name, lowercase=True) for name in ("mine.txt", "held.txt"))
    seen, counts = train.counts(), valid.counts()
    new = [word for word in counts if word not in seen]
    tokens = sum(counts[word] for word in new)
    assert f"train: 48 sentences, {train.tokens:,} words, {len(seen):,} types, plain text" in found
    assert (
        f"valid: 12 sentences, {valid.tokens:,} words, {len(counts):,} types; train has not "
        f"{tokens / valid.tokens:.1%} of its words, {len(new) / len(counts):.1%} of its types" in found
    )
    listed = {"kiwi", "zinzolin", "maisons", "maisonnette"} & {*new}
    assert (
        f"has {sum(counts[word] for word in read_frequencies('words.txt', lowercase=True)) / valid.tokens:.1%}" in found
    )
    spelled = sum(counts[word] for word in new if word not in listed) / valid.tokens
    assert f"{spelled:.1%} are spelled or numbers" in found
    shares = re.search(r"background: ([\d.]+)% of its mass for listed words .*, ([\d.]+)% for all others", found)
    assert shares is not None
    assert float(shares[1]) > 0  # words of the list that the text has not
    assert 10 < float(shares[1]) + float(shares[2]) < 80  # about as many as validation has


def test_leaks_are_told(here: Path, capsys: Capture) -> None:
    lines = Path("mine.txt").read_text(encoding="utf8").splitlines()
    write("leaking.txt", lines[:5] + Path("held.txt").read_text(encoding="utf8").splitlines())
    assert cli.run(["init", "mine.txt", "--valid", "leaking.txt", "--out", "c.toml"]) == 0
    said = capsys.readouterr()
    assert "such as leaking.txt:1" in said.out
    assert "of the sentences of the validation text are in the training text" in said.err


def test_parts_by_their_names_and_by_cutting(here: Path) -> None:
    for name in ("x-ud-train.txt", "x-ud-dev.txt", "x-ud-test.txt"):
        Path(name).write_bytes(Path("mine.txt").read_bytes())
    named = draft_config(["x-ud-train.txt", "x-ud-dev.txt", "x-ud-test.txt"], out="c.toml").config.corpus
    assert (named.train, named.valid, named.test) == (["x-ud-train.txt"], ["x-ud-dev.txt"], ["x-ud-test.txt"])
    cut = draft_config(["mine.txt"], out="c.toml").config.corpus
    assert (cut.train, cut.valid, cut.valid_last) == (["mine.txt"], [], 4)
    Path("mine").write_bytes(Path("mine.conllu").read_bytes())  # no extension: told by what is in it
    assert draft_config(["mine"], out="c.toml").config.corpus.format == "conllu"


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hidden", "layers", "identity", "endings", "batch", "learning_rate", "epochs"),
    [
        (5_000, 192, 1, 500, 277, 256, 0.00162, 30),
        (20_000, 384, 1, 500, 300, 512, 0.002, 30),
        (355_000, 576, 2, 2305, 496, 2048, 0.00303, 30),
        (2_300_000, 768, 2, 8526, 762, 2048, 0.00152, 14),
    ],
)
def test_sizes_follow_from_the_words_of_the_text(
    words: int, hidden: int, layers: int, identity: int, endings: int, batch: int, learning_rate: float, epochs: int
) -> None:
    corpus = Corpus.from_sentences([[f"w{i % (words // 3)}" for i in range(k, k + 20)] for k in range(0, words, 20)])
    made, wanted = sizes_for(corpus), (hidden, layers, identity, endings, batch, learning_rate, epochs)
    keys = ("hidden", "layers", "identity", "endings", "batch", "learning_rate", "epochs")
    assert tuple(made[key] for key in keys) == wanted


def test_more_text_never_makes_a_smaller_network() -> None:
    lines = [[f"w{k % 997}"] * 20 for k in range(10_000)]
    sizes = [sizes_for(Corpus.from_sentences(lines[:n])) for n in (10, 100, 1000, 3000, 10_000)]
    for key in ("hidden", "layers", "batch", "endings", "identity"):
        assert [one[key] for one in sizes] == sorted(one[key] for one in sizes)


def test_little_text_has_the_same_settings_with_a_list_and_without(here: Path) -> None:
    drafts = [draft_config(["mine.txt"], out="c.toml", lists=lists).config for lists in ((), ("words.txt",))]
    spellings = [draft.domains[1] for draft in drafts]
    assert [one.min_counts for one in spellings] == [[0], [0]]  # type: ignore[union-attr]
    assert [one.seen_at_most for one in spellings] == [None, None]  # type: ignore[union-attr]
    assert drafts[0].controller == drafts[1].controller
    assert drafts[0].training == drafts[1].training


def test_a_running_text_is_told_from_sentences_in_any_order(here: Path) -> None:
    """Each page has words of its own; the same sentences in another order are no running text."""
    pages = [[f"la ville{page} dort .", f"il voit la ville{page} et dort ."] for page in range(120)]
    running = [line for page in pages for line in page]
    shuffled = random.Random(0).sample(running, len(running))
    texts = {"running": running, "shuffled": shuffled}
    drafts = {
        name: draft_config([write(f"{name}.txt", lines)], out="c.toml", valid=["held.txt"])
        for name, lines in texts.items()
    }
    recent = drafts["running"].config.background.recent
    assert recent is not None
    assert (recent.window, recent.fading, recent.inflected, recent.weight) == (10_000, 20.0, 0.4, None)
    assert "100% are near each other" in str(drafts["running"])
    told = [next(line for line in one.found if line.startswith("background: ")) for one in drafts.values()]
    assert told[0] == told[1]  # what it is without the text before: both have the same words
    assert drafts["shuffled"].config.background.recent is None
    assert "near each other" not in str(drafts["shuffled"])
    assert share_near(Corpus.from_sentences([line.split() for line in shuffled])) < 0.2  # type: ignore[operator]
    assert share_near(Corpus.from_sentences([line.split() for line in running[:20]])) is None
    listed = draft_config(["running.txt"], out="d.toml", lists=["words.txt"])
    assert listed.config.background.recent == recent


def test_without_a_list_forms_are_derived_from_annotated_text(here: Path) -> None:
    draft = draft_config(["mine.conllu"], out="c.toml")
    assert "derived from lemmas and inflections: " in str(draft)
    corpus = Corpus.from_file("mine.conllu", lowercase=True)
    train = corpus[: len(corpus) - (draft.config.corpus.valid_last or 0)]
    forms, lexicon = derived_forms(train)
    assert set(read_frequencies("c-data/frequencies.tsv")) == set(forms)
    table, seen = Lexicon.from_tsv("c-data/lexicon-derived.tsv"), train.counts()
    assert {form: table(form) for form in table.forms()} == {w: lexicon(w) for w in forms if seen[w] < 3}
    assert draft.config.controller.layers == 1
    assert "derived" not in str(draft_config(["mine.conllu"], out="d.toml", lists=["words.txt"]))
    assert "derived" not in str(draft_config(["mine.txt"], out="e.toml"))  # no lemmas


def test_plain_text_is_trained_at_the_first_try(here: Path, capsys: Capture) -> None:
    assert cli.run(["init", "mine.txt", "--out", "c.toml"]) == 0
    assert "now llrnn train c.toml --out runs/c" in capsys.readouterr().out
    trained("c.toml")
    assert load("run").vocabulary.is_open
    assert cli.run(["score", "run", "held.txt", "--by", "sentences"]) == 0
    assert cli.run(["init", "mine.txt", "--out", "c.toml"]) == 2  # nothing is overwritten unless it is said
    assert cli.run(["init", "mine.txt", "--out", "c.toml", "--force"]) == 0


def test_everything_that_can_be_given(here: Path) -> None:
    write("lexicon.tsv", ["kiwi\tPOS:NOUN", "maisonnette\tPOS:NOUN"])
    write("vectors.vec", ["3 2", "le 0.1 0.2", "maison 0.3 -0.1", "kiwi 0.5 0.5"])
    Path("xx.dic").write_text("2\nmaisonnette/A\nkiwi\n", encoding="utf8")
    Path("xx.aff").write_text("SET UTF-8\nSFX A Y 1\nSFX A 0 s .\n", encoding="utf8")
    options = ["--list", "counted.tsv", "--list", "words.txt", "--lexicon", "lexicon.tsv", "--list", "xx.dic"]
    assert cli.run(["init", "mine.conllu", *options, "--vectors", "vectors.vec", "--out", "c.toml"]) == 0
    config = read_config("c.toml")
    assert [group.kind for group in config.features.output] == ["identity", "attributes", "orthographic", "vectors"]
    assert config.lexicon.parts == ["train"]
    assert config.lexicon.min_count == 3
    assert config.lexicon.tsv == ["lexicon.tsv"]
    assert {"kiwi", "zinzolin", "maisons", "maisonnette"} <= read_frequencies("c-data/frequencies.tsv").keys()
    trained("c.toml", "--set", "features.output=" + without_components(config))


def without_components(config: Config) -> str:
    """Two dimensions have no 300 components."""
    rows = [group.model_dump(exclude_none=True, exclude_defaults=True) for group in config.features.output]
    rows = [{**row, "kind": group.kind} for row, group in zip(rows, config.features.output, strict=True)]
    rows = [{**row, "components": 2} if row["kind"] == "vectors" else row for row in rows]
    return (
        "["
        + ", ".join(
            "{" + ", ".join(f"{k}={str(v).lower() if v is True else repr(v)}" for k, v in row.items()) + "}"
            for row in rows
        )
        + "]"
    )


def test_an_analyser_of_ones_own(here: Path, capsys: Capture) -> None:
    code = "def say(form):\n    return {'Number:Plur'} if form.endswith('s') else set()"
    write("own_analyser.py", [code])
    lists = ["--list", "words.txt"]
    assert cli.run(["init", "mine.txt", *lists, "--analyser", "own_analyser:say", "--out", "c.toml"]) == 0
    assert re.search(r"analyser own_analyser:say: \d+ forms; has", capsys.readouterr().out)
    assert "maisons\tNumber:Plur\n" in Path("c-data/lexicon-own_analyser-say.tsv").read_text(encoding="utf8")
    config = read_config("c.toml")
    assert config.lexicon.tsv == ["c-data/lexicon-own_analyser-say.tsv"]
    assert [group.kind for group in config.features.output] == ["identity", "attributes", "orthographic"]
    for wrong, said in {
        "say": "MODULE:FUNCTION",
        "no_such:say": "No module",
        "own_analyser:tell": "no attribute",
    }.items():
        assert said in refused(capsys, "init", "mine.txt", "--analyser", wrong, "--out", "d.toml")


SCRIPTS = {
    "hindi": "लड़का किताब पढ़ता है और लड़की पानी पीती है ।",
    "chinese": "我 有 三 本 书 ， 你 有 五 本 书 。",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_any_script(here: Path, script: str) -> None:
    words = SCRIPTS[script].split()
    write("text.txt", [" ".join(islice(cycle(words), start, start + 5 + start % 4)) for start in range(40)])
    assert cli.run(["init", "text.txt", "--out", "c.toml"]) == 0
    trained("c.toml")


@pytest.mark.parametrize(
    ("treebank", "options"),
    [
        pytest.param("ud_french_gsd/fr_gsd-train.conllu", [], marks=pytest.mark.slow),
        ("ud_turkish/tr_imst-ud-train.conllu.gz", ["--list", "words.txt"]),
        pytest.param("ud_estonian/et_ewt-ud-train.conllu.gz", ["--list", "counted.tsv"], marks=pytest.mark.slow),
    ],
)
def test_cuts_of_treebanks(here: Path, treebank: str, options: list[str]) -> None:
    path = DATA / treebank
    if not path.exists():
        pytest.skip(f"{path} is not there")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    blocks = content.decode().split("\n\n")[:30]
    Path("cut.conllu").write_text("\n\n".join(blocks) + "\n\n", encoding="utf8")
    assert cli.run(["init", "cut.conllu", *options, "--out", "c.toml"]) == 0
    assert read_config("c.toml").lexicon.parts == ["train"]
    trained("c.toml")


@pytest.mark.slow
def test_training_to_the_end_beats_the_background(here: Path) -> None:
    """All epochs, as they were written: better than where it began, and than one epoch."""
    assert cli.run(["init", "mine.txt", "--valid", "held.txt", "--out", "c.toml"]) == 0
    trained("c.toml")
    assert cli.run(["train", "c.toml", "--out", "whole", "--quiet"]) == 0
    short, whole = (cli_best(name) for name in ("run", "whole"))
    assert whole < short - 0.1


def cli_best(folder: str) -> float:
    from llrnn import evaluate

    return evaluate(load(folder), Corpus.from_file("held.txt", lowercase=True)).log_perplexity


# --- lists -----------------------------------------------------------------------------------------------------------


def test_lists_with_and_without_counts(here: Path) -> None:
    assert (has_counts("counted.tsv"), has_counts("words.txt")) == (True, False)
    assert read_frequencies("words.txt") == dict.fromkeys(["kiwi", "zinzolin", "Maisons", "maisonnette"], 1.0)
    write("half.txt", ["kiwi", "zinzolin 3"])
    with pytest.raises(LLRNNError, match=r"half.txt:2:10: one word is required, as on the first line"):
        read_frequencies("half.txt")
    write("half.txt", ["kiwi 3", "zinzolin"])
    with pytest.raises(LLRNNError, match=r"half.txt:2:\d+: 2 columns"):
        read_frequencies("half.txt")


def test_what_is_spelled_like_the_text_is_likelier(here: Path) -> None:
    train = Corpus.from_file("mine.txt", lowercase=True)
    weights = weighted_by_spelling({"maisons": 1.0, "xqzwkv": 1.0}, train)
    assert weights["maisons"] > 5 * weights["xqzwkv"]
    assert sum(weights.values()) == pytest.approx(1.0)
    both = joined({"one": {"le": 0.5, "kiwi": 0.5}, "two": {"kiwi": 0.9, "la": 0.1}}, train)
    assert both["kiwi"] == 0.5
    assert both["la"] == pytest.approx(train.counts()["la"] / train.tokens)


# --- the mistakes of a newcomer, each with what its message says to do -----------------------------------------------


def refused(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run([*arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def warned(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run([*arguments]) == 0
    return capsys.readouterr().err


def test_a_list_in_the_place_of_a_text(here: Path, capsys: Capture) -> None:
    write("many.txt", [f"kiwi{i}" for i in range(40)])
    said = refused(capsys, "init", "many.txt", "--out", "c.toml")
    assert "found one word a line; give a list of words with --list, and a text beside it" in said
    assert cli.run(["init", "mine.txt", "--list", "many.txt", "--out", "c.toml"]) == 0
    trained("c.toml")


def test_a_table_in_the_place_of_a_text(here: Path, capsys: Capture) -> None:
    said = refused(capsys, "init", "counted.tsv", "--out", "c.toml")
    assert "give a list of words with --list" in said


def test_too_little_text(here: Path, capsys: Capture) -> None:
    write("few.txt", ["le chat dort ."] * 3)
    assert "10 sentences or more are required, one a line, found 3" in refused(
        capsys, "init", "few.txt", "--out", "c.toml"
    )


def test_raw_text_is_cut(here: Path, capsys: Capture) -> None:
    raw = ["Le chat dort, et la reine mange. Il est tard; personne ne vient."] * 12
    write("raw.txt", raw)
    assert cli.run(["init", "raw.txt", "--out", "c.toml"]) == 0
    said = capsys.readouterr().out
    assert "raw text, so sentences and words are cut by Unicode's boundaries" in said
    assert 'tokeniser = "unicode"' in Path("c.toml").read_text(encoding="utf8")
    trained("c.toml")
    assert "leave --as-it-is out" in warned(capsys, "init", "raw.txt", "--as-it-is", "--out", "d.toml")


CLOSED = """
[corpus]
train = ["mine.txt"]
valid = ["held.txt"]
[features]
output = [{kind = "identity", top = 50}, {kind = "orthographic"}]
[controller]
hidden = 8
"""
OPEN = CLOSED + '[[domains]]\nkind = "spelling"\nendings = 20\n'


def test_unknown_words_are_spelled_by_what_init_writes(here: Path, capsys: Capture) -> None:
    write("closed.toml", [CLOSED.replace("orthographic", "shape")])
    said = refused(capsys, "train", "closed.toml", "--out", "run")
    assert "or have them spelled, by domains: `llrnn init TEXT --out CONFIG` writes such a configuration" in said
    assert cli.run(["init", "mine.txt", "--valid", "held.txt", "--out", "c.toml"]) == 0
    trained("c.toml")


def test_a_background_without_mass(here: Path, capsys: Capture) -> None:
    write("open.toml", [OPEN])
    said = refused(capsys, "train", "open.toml", "--out", "run")
    assert "take Discounted or Unigram (background.kind = 'discounted' or 'unigram')" in said
    for kind in ("discounted", "unigram"):
        trained("open.toml", "--set", f"background.kind={kind}", "--out", f"run-{kind}")


def test_a_list_without_counts_in_the_background(here: Path, capsys: Capture) -> None:
    write("open.toml", [OPEN])
    lists = [
        "--set",
        "vocabulary.lists=['words.txt']",
        "--set",
        "background={kind='discounted', frequencies='words.txt'}",
    ]
    said = warned(capsys, "train", "open.toml", "--out", "run", "--quiet", "--set", "training.epochs=1", *lists)
    assert "words.txt: one word a line without counts" in said
    assert "`llrnn init TEXT --list words.txt`" in said
    assert warned(capsys, "init", "mine.txt", "--list", "words.txt", "--out", "c.toml") == ""
    trained("c.toml", "--out", "other")


def test_a_wrong_key_and_a_wrong_kind(here: Path, capsys: Capture) -> None:
    write("wrong.toml", [OPEN.replace("endings", "ending").replace('kind = "spelling"', 'kind = "speling"')])
    assert "found 'speling'; did you mean 'spelling'?" in refused(capsys, "config", "check", "wrong.toml")
    write("wrong.toml", [OPEN.replace("endings", "ending")])
    assert "did you mean endings?" in refused(capsys, "config", "check", "wrong.toml")
    write("wrong.toml", [OPEN])
    assert cli.run(["config", "check", "wrong.toml"]) == 0


def test_files_that_are_not_there(here: Path, capsys: Capture) -> None:
    assert "nowhere.txt" in refused(capsys, "init", "nowhere.txt", "--out", "c.toml")
    assert "nowhere.tsv" in refused(capsys, "init", "mine.txt", "--list", "nowhere.tsv", "--out", "c.toml")
    assert "wordfreq has no list for 'xx'" in refused(
        capsys, "init", "mine.txt", "--list", "wordfreq:xx", "--out", "c.toml"
    )
    with pytest.raises(ConfigError, match="texts of one format are required"):
        draft_config(["mine.txt", "mine.conllu"], out="c.toml")
