"""n-grams in configurations, and the two experiments with them, at the size of seconds."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.testing as npt
import pytest
import torch

import llrnn
from brute_ngrams import BOUNDARY, KneserNey, listed, log_p
from llrnn import Corpus, Lexicon, Vocabulary, cli, french
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError, LLRNNError, LLRNNWarning
from llrnn.inference.adaptation import default_settings
from llrnn.inference.nbest import Hypothesis, NBest
from llrnn.knowledge.backgrounds import Background, CrossFitted, NGram
from llrnn.knowledge.contextual import Expert
from llrnn.languages.ngrams import estimate, read_stream, write_table
from llrnn.text.readers import conllu_lines
from llrnn_lab.clusters import tokenise
from llrnn_lab.studies import adaptation, rescoring
from llrnn_lab.studies.prepare import Source
from llrnn_lab.studies.rescoring import NGramScorer
from test_cli import Capture, done, refused
from test_ngrams import babble, names, quiet

pytestmark = quiet


def lines(sentences: Iterable[Sequence[str]]) -> str:
    return "".join(" ".join(words) + "\n" for words in sentences)


def some_french(count: int, skip: int = 0) -> Corpus:
    return Corpus.from_sentences(french.sentences(count, skip=skip)).lowercased()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- configurations -------------------------------------------------------------------------------------------------

TRAIN, VALID, OTHER = babble(60, seed=41), babble(20, seed=42), babble(40, seed=43)
PLAIN = """
[corpus]
train = ["train.txt"]
valid = ["valid.txt"]
[vocabulary]
parts = ["train", "valid"]
[features]
output = [{kind = "identity"}]
[controller]
kind = "gru"
hidden = 4
[training]
epochs = 1
"""


def spoken(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Text files have no empty sentences."""
    return [words for words in sentences if words]


@pytest.fixture
def config() -> Path:
    for name, sentences in (("train", TRAIN), ("valid", VALID), ("other", OTHER)):
        Path(f"{name}.txt").write_text(lines(spoken(sentences)))
    Path("more.txt").write_text(lines([*spoken(OTHER), ("zebra", "zoo")]))
    stream, words = read_stream(["other.txt"])
    write_table(estimate(stream, words, order=3), "other.arpa.gz")
    stream, words = read_stream(["more.txt"])
    write_table(estimate(stream, words, order=3), "more.arpa")
    path = Path("config.toml")
    path.write_text(PLAIN)
    return path


def background_of(config: Path, *changes: str) -> Background:
    return Project.from_config(read_config(config, changes)).model().background


def expert_of(config: Path, table: str) -> Background:
    (found,) = Project.from_config(read_config(config, [f"contextual=[{{kind='expert', {table}}}]"])).model().contextual
    assert isinstance(found, Expert)
    return found.followed


def assert_is(background: Background, brute: KneserNey, vocabulary: Vocabulary) -> None:
    """The same next-word distributions, after contexts of every length."""
    prefixes = [[BOUNDARY, *words][:n] for words in (*TRAIN[:6], *OTHER[:6]) for n in range(1, len(words) + 2)]
    for prefix in prefixes:
        state = background.initial()
        for word in prefix:
            state = background.advance(state, vocabulary.id(word))
        log_b = background.prior([state]).dense(1).log_b[0].numpy()
        npt.assert_allclose(log_b, brute.log_probs(tuple(prefix)), rtol=0, atol=1e-6)


def words_of(config: Path, *changes: str) -> tuple[str, ...]:
    return Project.from_config(read_config(config, changes)).vocabulary.symbols


@pytest.mark.parametrize("where", ["background", "expert"])
def test_the_ngrams_of_a_configuration_are_those_of_its_text(config: Path, where: str) -> None:
    words = words_of(config)
    vocabulary = Vocabulary(words)

    def made(**given: object) -> Background:
        if where == "background":
            return background_of(config, "background.kind=ngram", *(f"background.{k}={v}" for k, v in given.items()))
        return expert_of(config, ", ".join(f"{k}={v}" for k, v in given.items()))

    train, valid, other = spoken(TRAIN), spoken(VALID), spoken(OTHER)
    cross_fitted = made(order=3)
    assert isinstance(cross_fitted, CrossFitted)
    assert repr(cross_fitted).endswith("in 10 folds")
    assert_is(cross_fitted, KneserNey(train, words, 3), vocabulary)
    assert repr(made(order=3, folds=4)).endswith("in 4 folds")
    with pytest.warns(LLRNNWarning, match="without cross-fitting"):
        plain = made(order=2, folds=0)
    assert isinstance(plain, NGram)
    assert_is(plain, KneserNey(train, words, 2), vocabulary)
    assert_is(made(order=3, parts=["train", "valid"]), KneserNey([*train, *valid], words, 3), vocabulary)
    files = made(order=3, files=["other.txt"])
    assert isinstance(files, NGram)  # no text that the model trains on
    assert_is(files, KneserNey(other, words, 3), vocabulary)
    pruned = made(order=3, files=["other.txt"], min_counts=[1, 1, 2])
    assert_is(pruned, KneserNey(other, words, 3, (1, 1, 2)), vocabulary)
    assert isinstance(pruned, NGram)
    assert pruned.table.size < files.table.size
    joined = made(order=2, files=["other.txt", "valid.txt"])
    assert_is(joined, KneserNey([*other, *valid], words, 2), vocabulary)
    from_arpa = made(arpa="'other.arpa.gz'")
    assert isinstance(from_arpa, NGram)
    assert from_arpa.order == 3
    more = made(arpa="'more.arpa'", restrict="true")
    assert more.prior([more.initial()]).dense(1).log_b.shape == (1, len(words))
    made(order=3, files=["more.txt"], restrict="true")


def test_the_words_of_other_texts_may_be_listed(config: Path) -> None:
    assert "zebra" not in words_of(config)
    more = words_of(config, "vocabulary.files=['more.txt']")
    assert set(more) == {*names(), "zebra", "zoo"}
    found = background_of(
        config, "vocabulary.files=['more.txt']", "background.kind=ngram", "background.arpa='more.arpa'"
    )
    assert isinstance(found, NGram)
    assert set(found.table.words) == set(more)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["background={kind='ngram', arpa='a', files=['b']}"],
            "background: files is for n-grams that are counted, found arpa = 'a'; leave it out",
        ),
        (["background={kind='ngram', folds=1}"], "background: folds = 1 would leave nothing to count"),
        (["background.folds=-1"], "background.folds"),
        (["background.order=0"], "background.order"),
        (["background.order=21"], "background.order"),
        (["background.min_counts=1"], "background.min_counts"),
        (["background.parts=[]"], "background.parts"),
        (["background.kind=trigram"], "background.kind"),
        (["contextual=[{kind='expert', name=''}]"], "contextual"),
        (["contextual=[{kind='expert', folds=1}]"], "folds = 1 would leave nothing"),
        (["contextual=[{kind='expert', window=3}]"], "window"),
        (["contextual=[{kind='repeated', order=3}]"], "order"),
        (["contextual=[{kind='expert'}, {kind='expert'}]"], "twice"),
        (["background.kind=ngram", "background.arpa=missing.arpa"], "missing.arpa: a file is required"),
        (["background.kind=ngram", "background.files=['missing.txt']"], "missing.txt"),
        (["background.kind=ngram", "background.parts=['test']"], "names 'test', but [corpus] has no test text"),
        (["background.kind=ngram", "background.arpa=more.arpa"], "lists 2 words that the vocabulary does not"),
        (["background.kind=ngram", "background.files=['more.txt']"], "'zebra' is not among"),
        (["background.kind=ngram", "background.min_counts=[-1]"], "must be 0 or more, found [-1]"),
        (["vocabulary.files=['missing.txt']"], "missing.txt"),
    ],
)
def test_mistakes_of_a_configuration(capsys: Capture, config: Path, changes: list[str], said: str) -> None:
    with pytest.raises(LLRNNError) as caught:
        Project.from_config(read_config(config, changes)).model()
    assert said in str(caught.value)
    given = [word for change in changes for word in ("--set", change)]
    assert said in refused(capsys, "train", str(config), "--out", "run", *given)
    assert not Path("run").exists()


def test_a_model_with_ngrams_is_trained_saved_and_asked(capsys: Capture, config: Path) -> None:
    changes = ["background.kind=ngram", "background.order=2", "background.folds=3"]
    changes += ["contextual=[{kind='expert', name='far', files=['other.txt'], order=3}, {kind='expert', folds=3}]"]
    given = [word for change in changes for word in ("--set", change)]
    done(capsys, "train", str(config), "--out", "run", *given)
    model = llrnn.load("run")
    assert [feature.name for feature in model.contextual] == ["far", "kn"]
    out = done(capsys, "explain", "run", "--prefix", "w0 w1", "--word", "w2")
    assert "far" in out
    assert "kn" in out
    done(capsys, "train", str(config), "--out", "run", *given, "--set", "training.epochs=2", "--resume")


# --- adaptation -----------------------------------------------------------------------------------------------------

BASE = """
[corpus]
train = ["{data}/general.txt"]
valid = ["{data}/general-valid.txt"]
[vocabulary]
files = ["{data}/domain.txt"]
unknown = "<unk>"
[lexicon]
tsv = ["{data}/lexicon.tsv"]
[features]
output = [{kind = "identity", top = 100}, {kind = "attributes"}]
[background]
kind = "unigram"
smoothing = 0.5
[controller]
kind = "lstm"
hidden = 6
[training]
epochs = 2
learning_rate = 0.01
"""


def write_prepared(folder: Path) -> None:
    """General French, and a domain that turns its sentences round."""
    folder.mkdir(parents=True)
    general, other = some_french(120), some_french(150, skip=3000)
    turned: list[Sequence[str]] = [sentence.words[::-1] for sentence in other]
    texts: dict[str, list[Sequence[str]]] = {
        "general": [sentence.words for sentence in general[:100]],
        "general-valid": [sentence.words for sentence in general[100:]],
        "domain": turned[:90],
        "valid": turned[90:120],
        "test": turned[120:],
    }
    for name, sentences in texts.items():
        (folder / f"{name}.txt").write_text(lines(sentences), encoding="utf8")
    Lexicon.from_corpus(general, other).to_tsv(folder / "lexicon.tsv")
    (folder / "manifest.json").write_text("{}")


def run_adaptation(out: Path, **options: Any) -> list[dict[str, Any]]:
    Path("base.toml").write_text(BASE)
    return adaptation.run(Path("nowhere"), out, config=Path("base.toml"), sizes=(100, 300), **options)


def fast_settings(words: int, *, seed: int = 0) -> Any:
    return default_settings(words, seed=seed).changed(epochs=2)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptation, "default_settings", fast_settings)


@pytest.mark.usefixtures("fast")
def test_the_whole_of_adaptation_in_seconds_and_never_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    out, told = Path("out"), list[str]()
    write_prepared(out / "data")
    results = run_adaptation(out, seeds=2, tell=told.append)
    assert told == ["the base is trained"]
    assert [(one["seed"], 100 <= one["size"] < 130, 300 <= one["size"] < 330) for one in results] == [
        (0, True, False), (1, True, False), (0, False, True), (1, False, True),
    ]  # fmt: skip
    for one in results:
        assert one.keys() == {"size", "seed", *adaptation.SYSTEMS}
        assert all(math.isfinite(one[name][part]) for name in adaptation.SYSTEMS for part in ("valid", "test"))
        assert 0 < one["interpolation"]["share"] < 1
        for alone in ("base", "domain"):
            assert one["interpolation"]["valid"] <= one[alone]["valid"] + 1e-6
        for name in ("fine-tuning", "LoRA"):
            assert one[f"{name}, n-grams"]["valid"] <= min(one[name]["valid"], one["domain"]["valid"]) + 1e-6
        assert one["LoRA"]["trained"] < one["fine-tuning"]["trained"]
        for name in ("fine-tuning", "LoRA", "adaptor"):
            assert one[name]["learning_rate"] in {*adaptation._RATES, *adaptation._LORA_RATES}
            assert one[name]["valid"] < one["base"]["valid"]
            assert one[name]["problems"] == []
    assert results[0]["base"] == results[-1]["base"]
    assert json.loads((out / "adaptation.json").read_bytes()) == results

    def fail(*arguments: Any, **named: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(adaptation, "train", fail)
    assert run_adaptation(out, seeds=2) == results
    (out / "size300.seed1.json").unlink()
    with pytest.raises(AssertionError, match="trained again"):
        run_adaptation(out, seeds=2)


@pytest.mark.usefixtures("fast")
def test_the_verb_prints_a_table_and_draws(capsys: Capture) -> None:
    write_prepared(Path("out/data"))
    Path("base.toml").write_text(BASE)
    command = ["experiment", "adaptation", "--data", "nowhere", "--out", "out", "--config", "base.toml"]
    printed = done(capsys, *command, "--size", "100")
    header, _, row = [line for line in printed.splitlines() if line.startswith("|")]
    assert header == f"| words of the domain | {' | '.join(adaptation.SYSTEMS)} |"
    (found,) = json.loads(Path("out/adaptation.json").read_bytes())
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [f"{found['size']:,}", *(f"{found[name]['test']:.3f}" for name in adaptation.SYSTEMS)]
    assert Path("out/adaptation.png").stat().st_size > 10_000
    assert "--size" in refused(capsys, *command, "--size", "99")


def nats(model: llrnn.LLRNN, text: Corpus) -> float:
    return llrnn.evaluate(model, text).log_perplexity


def test_low_rank_changes_nothing_at_first_and_learns_little_else() -> None:
    write_prepared(Path("out/data"))
    Path("base.toml").write_text(BASE)
    adaptation.train_base(Path("base.toml"), Path("out/data"), Path("out"), torch.device("cpu"))
    base, test = llrnn.load("out/base"), Corpus.from_file("out/data/test.txt")
    low = adaptation.with_low_rank(llrnn.load("out/base"), 2, seed=0)
    assert nats(low, test) == pytest.approx(nats(base, test), abs=1e-6)
    learns = {name for name, weights in low.named_parameters() if weights.requires_grad}
    assert learns
    assert all("bias" in name or ".a." in name or ".b." in name for name in learns)
    with torch.no_grad():  # a product of rank 2 beside the matrix of what is read
        layers, others = [cast(Any, model.controller).layers for model in (low, base)]
        layers[0].b[0].normal_()
        others[0].weight_ih_l0 += (layers[0].a[0] @ layers[0].b[0]).T
    assert nats(low, test) == pytest.approx(nats(base, test), abs=1e-6)


def test_the_table_has_means_over_seeds() -> None:
    runs = [{"size": 1000, "seed": s, **{n: {"test": 5.0 + s} for n in adaptation.SYSTEMS}} for s in (1, 0)]
    assert adaptation.table(runs).splitlines()[-1] == "| 1,000 |" + " 5.500 ± 0.707 |" * 8
    adaptation.plot(runs, Path("one.png"))
    assert Path("one.png").exists()


def test_the_order_of_both_log_probabilities_is_the_same() -> None:
    """Interpolation adds them word by word: a base that is the n-gram itself must give it back."""
    corpus = Corpus.from_sentences(spoken(TRAIN))
    vocabulary = Vocabulary(names())
    ngram = NGram.from_corpus(corpus, order=3, folds=0).bind(vocabulary)
    model = llrnn.LLRNN(
        vocabulary, output_features=llrnn.features.Identity(), background=ngram, controller=llrnn.GRU(2)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    text = llrnn.text.encoded.EncodedText.encode(corpus, vocabulary)
    assert isinstance(ngram, NGram)
    of_ngram = adaptation._ngram_log_probs(ngram, text)
    npt.assert_allclose(of_ngram.numpy(), llrnn.model.scoring.score(model, text).log_probs.numpy(), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_the_best_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (torch.from_numpy(np.log(rng.random(200) ** power)) for power in (1 + seed, 3))
    share = adaptation._share(left, right)

    def mean(at: float) -> float:
        return float(adaptation._mixed(left, right, at).mean())

    assert mean(share) >= max(mean(n / 200) for n in range(1, 200)) - 1e-4
    assert mean(share) >= max(float(left.mean()), float(right.mean())) - 1e-4


@pytest.fixture
def novel(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A treebank and one novel, found where the shared data would be."""
    Path("t").mkdir()
    for part, (count, skip) in {"train": (740, 0), "tree": (50, 1000)}.items():
        made = conllu_lines(french.sentences(count, skip=skip))
        Path(f"t/{part}.conllu").write_text("".join(f"{line}\n" for line in made), encoding="utf8")
    text = [" ".join(sentence.words) for sentence in Corpus.from_sentences(french.sentences(60, skip=2000))]
    path = Path("Flaubert-Novel.txt.gz")
    path.write_bytes(gzip.compress("\n".join(" ".join(text[n : n + 3]) for n in range(0, 60, 3)).encode()))
    source = Source("french", {"train": Path("t/train.conllu")}, (Path("t/tree.conllu"),), None, (path,))
    monkeypatch.setattr(adaptation, "find_source", lambda data: source)
    monkeypatch.setattr(adaptation, "SIZES", (100, 200))
    monkeypatch.setattr(adaptation, "_VALID", 60)
    monkeypatch.setattr(adaptation, "_TEST", 80)
    return path


def test_the_novel_is_cut_by_position(novel: Path) -> None:
    told: list[str] = []
    adaptation.prepare(Path(), Path("data"), novel="Flaubert", tell=told.append)
    assert told == ["preparing Flaubert-Novel.txt.gz in data"]
    texts = {name: Corpus.from_file(f"data/{name}.txt") for name in ("general", "general-valid", "domain", "valid")}
    assert (len(texts["general"]), len(texts["general-valid"])) == (12, 728)
    words = [
        word for name in ("domain", "valid", "test") for word in Path(f"data/{name}.txt").read_text("utf8").split()
    ]
    whole = tokenise(gzip.decompress(novel.read_bytes()).decode())
    assert words == whole[: len(words)]
    assert all(sentence.words[-1] in (".", "!", "?", "…") for sentence in texts["domain"])
    manifest = json.loads(Path("data/manifest.json").read_bytes())
    sizes = manifest["words"]
    assert 200 <= sizes["domain"] < 240
    assert 60 <= sizes["valid"] < 100
    assert sizes["domain"] == texts["domain"].tokens
    attributes = Lexicon.from_tsv("data/lexicon.tsv")
    assert set(attributes.forms()) <= {*texts["general"].counts(), *texts["domain"].counts()}
    told.clear()
    adaptation.prepare(Path(), Path("data"), novel="Zola", tell=told.append)  # it is there already
    assert not told


def test_novels_that_are_not_there_or_too_short(novel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--novel Zola: one of the novels is required, found 0 of Flaubert-Novel"):
        adaptation.prepare(Path(), Path("data"), novel="Zola", tell=print)
    monkeypatch.setattr(adaptation, "_TEST", 10_000)
    with pytest.raises(ConfigError, match=r"Flaubert-Novel\.txt\.gz: 10260 words are required, found \d+"):
        adaptation.prepare(Path(), Path("data"), novel="Flaubert", tell=print)
    assert not Path("data").exists()


# --- rescoring ------------------------------------------------------------------------------------------------------

RESCORING = """
[corpus]
train = ["{data}/train.conllu"]
valid = ["{data}/valid.conllu"]
[vocabulary]
files = ["{data}/test1.conllu", "{data}/test2.conllu"]
parts = ["train", "valid"]
[lexicon]
tsv = ["{data}/lexicon.tsv"]
[features]
output = [{kind = "identity", top = 100}, {kind = "attributes"}]
[background]
kind = "unigram"
smoothing = 0.5
[[contextual]]
kind = "expert"
name = "kn"
order = 3
[controller]
kind = "gru"
hidden = 6
[training]
epochs = 1
"""


def write_treebank(folder: Path) -> None:
    folder.mkdir(parents=True)
    made = list(french.sentences(130))
    for part, begin, end in (("train", 0, 70), ("valid", 70, 90), ("test1", 90, 110), ("test2", 110, 130)):
        text = "".join(f"{line}\n" for line in conllu_lines(made[begin:end]))
        (folder / f"{part}.conllu").write_text(text, encoding="utf8")
    Lexicon.from_corpus(Corpus.from_sentences(made).lowercased()).to_tsv(folder / "lexicon.tsv")
    (folder / "manifest.json").write_text("{}")


def run_rescoring(out: str, **options: Any) -> dict[str, Any]:
    write_treebank(Path(out) / "data")
    Path("model.toml").write_text(RESCORING)
    return rescoring.run(Path("nowhere"), Path(out), config=Path("model.toml"), n=6, **options)


def test_the_whole_of_rescoring_in_seconds(capsys: Capture) -> None:
    told: list[str] = []
    found = run_rescoring("a", tell=told.append)
    assert told == [f"{part}: 20 lists" for part in rescoring.PARTS]
    assert found["sentences"] == dict.fromkeys(rescoring.PARTS, 20)
    rows = found["rows"]
    assert list(rows) == [*rescoring.ROWS, "oracle"]
    for part in rescoring.PARTS:
        assert all(0 <= row[part] <= 1 for row in rows.values())
        assert all(rows["oracle"][part] <= row[part] for row in rows.values())
    for name, scores in rescoring.ROWS.items():
        assert tuple(rows[name]["weights"]) == scores
    # more scores can only help where the weights were found, as far as the search goes
    assert rows["acoustic, 5-gram, LL-RNN"]["valid"] <= rows["acoustic"]["valid"]
    assert json.loads(Path("a/rescoring.json").read_bytes()) == found
    table = Path("a/rescoring.md").read_text(encoding="utf8")
    assert table == rescoring.table(found)
    assert f"| oracle | {100 * rows['oracle']['valid']:.2f} |" in table
    model = {path.name: path.stat().st_mtime_ns for path in Path("a/model").glob("model*")}
    command = ["experiment", "rescoring", "--data", "nowhere", "--out", "a", "--config", "model.toml", "--n", "6"]
    assert done(capsys, *command).endswith(table + "\n")  # all of it is there: the same again
    assert model == {path.name: path.stat().st_mtime_ns for path in Path("a/model").glob("model*")}
    assert "--n" in refused(capsys, *command[:-1], "1")


def test_the_seed_decides_everything() -> None:
    assert run_rescoring("a", seed=3) == run_rescoring("b", seed=3)
    assert run_rescoring("c", seed=4)["rows"] != json.loads(Path("a/rescoring.json").read_bytes())["rows"]


def test_the_score_of_a_hypothesis_is_the_sum_over_its_words() -> None:
    vocabulary = Vocabulary(names())
    corpus = Corpus.from_sentences(spoken(TRAIN))
    ngram = NGram.from_corpus(corpus, order=3, folds=0).bind(vocabulary)
    assert isinstance(ngram, NGram)
    hypotheses = [tuple(words) for words in (*TRAIN[:9], (), ("w1",), ("w1",), ("w8", "w0", "w8", "w3"))]
    lists = [
        NBest(f"u{n}", tuple(Hypothesis(words) for words in hypotheses[n : n + 1 + n % 3]))
        for n in range(len(hypotheses))
    ]
    found = NGramScorer(ngram, vocabulary)(lists)
    grams = listed(ngram.table)
    for entry, scores in zip(lists, found, strict=True):
        assert len(scores) == len(entry.hypotheses)
        for hypothesis, given in zip(entry.hypotheses, scores, strict=True):
            text = [BOUNDARY, *hypothesis.words, BOUNDARY]
            wanted = math.fsum(log_p(grams, tuple(text[max(0, at - 2) : at]), text[at]) for at in range(1, len(text)))
            assert given == pytest.approx(wanted, abs=1e-9)
            assert given == pytest.approx(float(ngram.score(vocabulary.ids(text))[0].sum()), abs=1e-9)


def test_a_folder_without_corpora_is_refused(capsys: Capture) -> None:
    Path("model.toml").write_text(RESCORING)
    Path("empty").mkdir()
    for verb in ("rescoring", "adaptation"):
        command = ["experiment", verb, "--data", "empty", "--out", "out", "--config", "model.toml"]
        assert "empty: expected ud_french_gsd/" in refused(capsys, *command)
    assert cli.run(["experiment", "rescoring", "--data", "empty", "--out", "out", "--device", "gpu"]) == 2
