"""Other knowledge in a trained model: exactly the model that the new numbers make, from Python and from the shell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.testing as npt
import pytest
import torch

import llrnn
from brute import Array, Brute
from brute_ngrams import BOUNDARY, Gram, KneserNey, stream_of
from llrnn import GRU, LLRNN, Corpus, Vocabulary, cli, evaluate, french
from llrnn.ground.errors import BackgroundError, ConfigError
from llrnn.knowledge.backgrounds import Background, Model, NGram, Uniform
from llrnn.knowledge.contextual import Expert, Repeated
from llrnn.knowledge.features import Function
from llrnn.knowledge.process import Batch
from llrnn.languages.ngrams import estimate, write_table
from llrnn.model.scoring import Sentences
from llrnn.model.steering import Change, experts, steer, swap
from llrnn.text.encoded import EncodedText
from test_cli import Capture, as_json, done, refused
from test_ngrams import babble, names, quiet

pytestmark = quiet

WORDS = names()
VOCABULARY = Vocabulary(WORDS)
TRAIN, OTHER, THIRD = babble(60, seed=31), babble(60, seed=32), babble(25, seed=33)
FEATURES: dict[str, dict[str, float]] = {
    word: {f"odd {i % 2}": 1.0, **({"low": 0.5} if i < 4 else {})} for i, word in enumerate(WORDS)
}
FEATURES[BOUNDARY] = {}  # a function is not asked about the end of sentences


def ngram(sentences: Sequence[Gram], order: int) -> NGram:
    return NGram(estimate(stream_of(sentences, WORDS), WORDS, order=order))


def make_model(background: Background | None = None) -> LLRNN:
    model = LLRNN(
        VOCABULARY,
        output_features=Function(FEATURES.__getitem__),
        background=background or ngram(TRAIN, 3),
        controller=GRU(3),
        contextual=[Expert(ngram(OTHER, 2), name="kn"), Repeated(4), Expert(ngram(TRAIN, 4), name="far")],
    ).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def a_batch() -> Batch:
    (batch,) = Sentences(10**6).plan(EncodedText.encode(Corpus.from_sentences(TRAIN[4:12]), VOCABULARY))
    return batch


def fed_at(batch: Batch) -> list[Gram]:
    """What the row had read at each position that counts."""
    rows = zip(batch.inputs.tolist(), batch.mask.tolist(), strict=True)
    return [tuple(WORDS[x] for x in row[: t + 1]) for row, mask in rows for t, counts in enumerate(mask) if counts]


def log_b(kn: KneserNey, fed: Sequence[Gram]) -> Array:
    return np.array([kn.log_probs(prefix) for prefix in fed])


def expert_values(kn: KneserNey, fed: Sequence[Gram]) -> Array:
    """How much more than usual."""
    more: Array = log_b(kn, fed) - np.array(kn.log_probs(()))
    return more


def by_hand(model: LLRNN, background: Array, kn: Array, far: Array) -> Array:
    """log p of every word at every position of the batch, with these numbers, (N, V)."""
    batch, layer = a_batch(), model.layer
    fed = fed_at(batch)
    last = [[word for word in prefix if word != BOUNDARY][-4:] for prefix in fed]
    repeated = np.array([[float(word in words) for word in WORDS] for words in last])
    with torch.no_grad():
        h = model.scan(batch)[0].h
        a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
    rows = [FEATURES[word] for word in WORDS]
    values = np.stack([kn, repeated, far], 2)
    return Brute(model.output_features.names, rows, background, values, a.numpy()).log_probs


def all_log_probs(model: LLRNN) -> Array:
    with torch.no_grad():
        found: Array = model.scan(a_batch())[0].log_probs().numpy()
    return found


# --- from Python ----------------------------------------------------------------------------------------------------


def test_a_swapped_model_is_the_sum_over_all_words_with_the_new_numbers() -> None:
    model, fed = make_model(), fed_at(a_batch())
    before = all_log_probs(model)
    old, kn, far = KneserNey(TRAIN, WORDS, 3), KneserNey(OTHER, WORDS, 2), KneserNey(TRAIN, WORDS, 4)
    new, third = KneserNey(THIRD, WORDS, 4), KneserNey(THIRD, WORDS, 2)

    def wanted(b: KneserNey, first: KneserNey, second: KneserNey) -> Array:
        return by_hand(model, log_b(b, fed), expert_values(first, fed), expert_values(second, fed))

    npt.assert_allclose(before, wanted(old, kn, far), rtol=0, atol=1e-9)
    cases = {
        "background": (swap(model, background=ngram(THIRD, 4)), wanted(new, kn, far)),
        "expert": (swap(model, experts={"kn": ngram(THIRD, 2)}), wanted(old, third, far)),
        "both experts": (swap(model, experts={"far": ngram(THIRD, 4), "kn": ngram(TRAIN, 4)}), wanted(old, far, new)),
        "all": (swap(model, background=ngram(THIRD, 4), experts={"kn": ngram(THIRD, 2)}), wanted(new, third, far)),
    }
    for name, (swapped, expected) in cases.items():
        found = all_log_probs(swapped)
        npt.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=name)
        assert np.abs(found - before).max() > 0.1, name
        with torch.no_grad():
            batch = a_batch()
            targets = batch.targets[batch.mask].tolist()
            one_by_one = swapped.log_prob(batch).numpy()
        npt.assert_allclose(one_by_one, expected[range(len(fed)), targets], rtol=0, atol=1e-9, err_msg=name)
    npt.assert_array_equal(all_log_probs(model), before)


def test_static_backgrounds_may_take_the_place_of_others_and_the_reverse() -> None:
    fed = fed_at(a_batch())
    kn, far = (expert_values(KneserNey(*of), fed) for of in ((OTHER, WORDS, 2), (TRAIN, WORDS, 4)))
    model = make_model(Uniform())
    uniform = np.zeros((len(fed), len(WORDS)))
    npt.assert_allclose(all_log_probs(model), by_hand(model, uniform, kn, far), rtol=0, atol=1e-9)
    swapped = swap(model, background=ngram(THIRD, 3))
    expected = by_hand(model, log_b(KneserNey(THIRD, WORDS, 3), fed), kn, far)
    npt.assert_allclose(all_log_probs(swapped), expected, rtol=0, atol=1e-9)
    npt.assert_allclose(all_log_probs(swap(swapped, background=Uniform())), all_log_probs(model), rtol=0, atol=1e-12)


def test_the_given_model_stays_as_it_is_and_shares_no_weight() -> None:
    model, again = make_model(), make_model()
    swapped = swap(model, background=ngram(THIRD, 3), experts={"kn": ngram(THIRD, 2)})
    with torch.no_grad():
        for parameter in swapped.parameters():
            parameter.fill_(0.5)
    for (name, one), (_, other) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    assert repr(model.background) == repr(again.background)
    assert [repr(one) for one in model.contextual] == [repr(one) for one in again.contextual]
    npt.assert_array_equal(all_log_probs(model), all_log_probs(again))


def test_swapping_nothing_changes_nothing() -> None:
    model = make_model()
    npt.assert_array_equal(all_log_probs(swap(model)), all_log_probs(model))


def test_a_swapped_model_is_steered_saved_and_loaded(tmp_path: Path) -> None:
    swapped = swap(make_model(), background=ngram(THIRD, 3), experts={"kn": ngram(THIRD, 2)}).float()
    swapped.save(tmp_path / "m")
    loaded = llrnn.load(tmp_path / "m")
    npt.assert_array_equal(all_log_probs(loaded), all_log_probs(swapped))
    steered = steer(swapped, experts(swapped, {"kn": 0.5}))
    assert not np.allclose(all_log_probs(steered), all_log_probs(swapped))


def test_another_model_may_be_the_background() -> None:
    model, inner = make_model(), make_model(Uniform())
    fed = fed_at(a_batch())
    kn, far = (expert_values(KneserNey(*of), fed) for of in ((OTHER, WORDS, 2), (TRAIN, WORDS, 4)))
    expected = by_hand(model, all_log_probs(inner), kn, far)
    npt.assert_allclose(all_log_probs(swap(model, background=Model(inner))), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nk", r"'nk' is no contextual feature of this model; it has kn, Repeated, far"),
        ("Repeated", r"'Repeated' is no expert of this model; it has kn, far"),
    ],
)
def test_only_experts_are_swapped(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        swap(make_model(), experts={name: ngram(THIRD, 2)})


def test_words_that_do_not_fit_are_counted_and_named() -> None:
    model = make_model()
    words = [*WORDS, "zebra", "zoo"]
    more = estimate(stream_of([*OTHER, ("zebra", "zoo")], words), words, order=2)
    said = r"lists 2 words that the vocabulary does not, such as 'zebra', 'zoo'; build the vocabulary .*--restrict"
    for given in ({"background": NGram(more)}, {"experts": {"kn": NGram(more)}}):
        with pytest.raises(BackgroundError, match=said):
            swap(model, **given)
    restricted = swap(model, background=NGram(more, restrict=True))
    sums = np.exp(all_log_probs(restricted)).sum(1)
    npt.assert_allclose(sums, 1.0, atol=1e-12)
    few = ["w0", "w1", BOUNDARY]
    less = estimate(stream_of([("w0", "w1")], few), few, order=2)
    with pytest.raises(BackgroundError, match=rf"does not list {len(WORDS) - 3} words of the vocabulary, such as"):
        swap(model, background=NGram(less))


# --- from the shell -------------------------------------------------------------------------------------------------

CONFIG = """
[corpus]
embedded = {train = 150, valid = 30, test = 30}
[vocabulary]
parts = ["train", "valid", "test"]
[lexicon]
parts = ["train"]
[features]
output = [{kind = "identity", top = 50}, {kind = "attributes"}]
[background]
kind = "unigram"
smoothing = 0.1
[[contextual]]
kind = "expert"
name = "kn"
order = 3
folds = 3
[[contextual]]
kind = "repeated"
[controller]
kind = "gru"
hidden = 8
[training]
epochs = 1
"""


def sentences(skip: int, count: int) -> Corpus:
    return Corpus.from_sentences(french.sentences(count, skip=skip)).lowercased()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model, a text, an n-gram model over its words, and one of another text."""
    folder = tmp_path_factory.mktemp("swap")
    (folder / "config.toml").write_text(CONFIG)
    assert cli.run(["train", str(folder / "config.toml"), "--out", str(folder / "run"), "--quiet"]) == 0
    (folder / "test.txt").write_text("".join(" ".join(one.words) + "\n" for one in sentences(180, 30)), "utf8")
    words = llrnn.load(folder / "run").vocabulary.symbols
    same = estimate(stream_of([one.words for one in sentences(0, 80)], words), words, order=2)
    other = sentences(5000, 100)
    all_words = [BOUNDARY, "<unk>", *other.counts()]
    write_table(same, folder / "same.arpa")
    write_table(same, folder / "same.ngram")
    different = estimate(stream_of([one.words for one in other], all_words), all_words, order=3)
    write_table(different, folder / "other.arpa.gz")
    (folder / "broken.arpa").write_text("\\data\\\nngram 1=x\n\n\\1-grams:\n")
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def perplexity(capsys: Capture, *options: str) -> float:
    (found,) = as_json(capsys, "evaluate", "run", "test.txt", *options)
    assert found["audit"]["worst_sum_error"] < 1e-4
    return float(found["log_perplexity"])


def of(path: str, *, restrict: bool = False) -> NGram:
    return NGram.from_path(path, restrict=restrict)


OPTIONS: dict[str, Callable[[LLRNN], LLRNN]] = {
    "--background same.arpa": lambda m: swap(m, background=of("same.arpa")),
    "--background same.ngram": lambda m: swap(m, background=of("same.arpa")),
    "--background other.arpa.gz --restrict": lambda m: swap(m, background=of("other.arpa.gz", restrict=True)),
    "--background run": lambda m: swap(m, background=Model(llrnn.load("run"))),
    "--expert kn=0.5": lambda m: steer(m, [Change("kn", scale=0.5)]),
    "--expert kn=-1": lambda m: steer(m, [Change("kn", scale=-1.0)]),
    "--expert kn=0 --expert Repeated=2": lambda m: steer(m, [Change("kn", scale=0.0), Change("Repeated", scale=2.0)]),
    "--expert kn=same.arpa": lambda m: swap(m, experts={"kn": of("same.arpa")}),
    "--expert kn=other.arpa.gz --restrict": lambda m: swap(m, experts={"kn": of("other.arpa.gz", restrict=True)}),
    "--expert kn=same.arpa --expert kn=0.5": lambda m: steer(
        swap(m, experts={"kn": of("same.arpa")}), [Change("kn", scale=0.5)]
    ),
    "--change POS:*=*0.5": lambda m: steer(m, [Change("POS:*", scale=0.5)]),
    "--change POS:NOUN=+2 --background same.arpa": lambda m: steer(
        swap(m, background=of("same.arpa")), [Change("POS:NOUN", offset=2.0)]
    ),
}


@pytest.mark.parametrize("options", OPTIONS)
def test_an_option_is_the_call_of_the_library(capsys: Capture, here: Path, options: str) -> None:
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    corpus = Corpus.from_file("test.txt")
    wanted = evaluate(OPTIONS[options](llrnn.load("run")), corpus).log_perplexity
    found = perplexity(capsys, *options.split())
    assert found == pytest.approx(wanted, abs=1e-6)
    assert found != pytest.approx(perplexity(capsys), abs=1e-4)
    assert before == {path.name: path.read_bytes() for path in Path("run").iterdir()}


def test_texts_and_explanations_come_from_the_swapped_model(capsys: Capture, here: Path) -> None:
    swapped = ["--background", "same.arpa", "--expert", "kn=other.arpa.gz", "--restrict"]
    for command in (["generate", "run", "--seed", "3", "--max-words", "6"], ["explain", "run", "--word", "la"]):
        assert as_json(capsys, *command, *swapped) != as_json(capsys, *command)
        done(capsys, *command, *swapped)
    found = as_json(capsys, "explain", "run", "--word", "la", *swapped)
    assert found["total"] == pytest.approx(found["log_p"], abs=1e-4)
    assert "kn" in {term["name"] for term in found["terms"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--background missing.arpa", "missing.arpa: no such file or folder; give an ARPA file, an n-gram folder"),
        ("--expert kn=missing.arpa", "missing.arpa: no such file or folder; give an ARPA file, an n-gram folder"),
        ("--background broken.arpa", "broken.arpa:2: `ngram 1=COUNT` is required"),
        ("--background .", "ngram.json: missing"),
        ("--expert nk=0.5", "'nk' is no contextual feature of this model; it has kn, Repeated"),
        ("--expert nk=same.arpa", "'nk' is no contextual feature of this model; it has kn, Repeated"),
        ("--expert Repeated=same.arpa", "'Repeated' is no expert of this model; it has kn"),
        ("--expert kn", "--expert is written NAME=FACTOR or NAME=PATH, as kn=0.8; found 'kn'"),
        ("--expert kn=", "--expert is written NAME=FACTOR or NAME=PATH, as kn=0.8; found 'kn='"),
        ("--expert =2", "--expert is written NAME=FACTOR or NAME=PATH, as kn=0.8; found '=2'"),
        ("--expert kn=inf", "finite"),
        ("--expert kn=nan", "finite"),
        ("--change POS:VREB=1", "did you mean 'POS:VERB'"),
        ("--change POS:VERB", "a change of weight is written NAME=+NUMBER"),
    ],
)
def test_mistakes(capsys: Capture, here: Path, options: str, said: str) -> None:
    assert said in refused(capsys, "evaluate", "run", "test.txt", *options.split())
    assert said in refused(capsys, "generate", "run", *options.split())


@pytest.mark.parametrize("option", ["--background other.arpa.gz", "--expert kn=other.arpa.gz"])
def test_words_of_another_vocabulary_are_counted_named_and_what_to_do(capsys: Capture, here: Path, option: str) -> None:
    own = llrnn.load("run").vocabulary
    gone = [word for word in of("other.arpa.gz").table.words if word not in own and word != "<unk>"]
    said = refused(capsys, "evaluate", "run", "test.txt", *option.split())
    assert f"lists {len(gone)} words that the vocabulary does not, such as {gone[0]!r}, {gone[1]!r}" in said
    assert "--restrict" in said


def test_a_model_with_other_words_cannot_be_the_background(capsys: Capture, here: Path, tmp_path: Path) -> None:
    make_model().float().save(tmp_path / "small")
    said = refused(capsys, "evaluate", "run", "test.txt", "--background", str(tmp_path / "small"))
    assert f"needs its own vocabulary, the same {len(WORDS)} symbols in the same order" in said
