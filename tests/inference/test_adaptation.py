"""A frozen base and a small model of a domain on top: it begins where base and n-grams of the domain meet, and learns.

The domain is French with the words of each sentence in reverse: no base can be ready for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numpy.testing as npt
import pytest
import torch
from torch import Tensor

import llrnn
from brute_ngrams import stream_of
from llrnn import GRU, LLRNN, Corpus, Vocabulary, backgrounds, features, french
from llrnn.cli import options
from llrnn.ground.errors import BackgroundError, ConfigError, UnknownWordError
from llrnn.inference import adaptation
from llrnn.inference.adaptation import Base, adaptor, base_of, base_share, default_settings, open_base
from llrnn.knowledge.backgrounds import Mixture, NGram
from llrnn.languages.domains import Numbers, Spelling
from llrnn.languages.ngrams import UNKNOWN, estimate, write_table
from llrnn.model.scoring import score
from llrnn.text.encoded import EncodedText
from llrnn.text.tokenisers import Learnt
from llrnn.text.vocabulary import EOS
from llrnn.training.loop import train
from test_cli import Capture, as_json, done, refused
from test_ngrams import quiet

pytestmark = quiet

LINES = ["le chat noir dort sur le lit", "la chatte noire dort sur la table", "le chien mange le pain"] * 4


@cache
def general() -> Corpus:
    return Corpus.from_sentences(french.sentences(160)).lowercased()


@cache
def domain() -> Corpus:
    turned = [sentence.words[::-1] for sentence in Corpus.from_sentences(french.sentences(160, skip=3000)).lowercased()]
    return Corpus.from_sentences(turned)


def parts() -> tuple[Corpus, Corpus]:
    """To adapt to, and held out."""
    text, held_out = domain().split(120)
    return text, held_out


@cache
def words() -> tuple[str, ...]:
    return (EOS, UNKNOWN, *dict.fromkeys([*general().counts(), *domain().counts()]))


def save_ngrams(path: Path) -> Path:
    sentences = [sentence.words for sentence in general()]
    write_table(estimate(stream_of(sentences, words()), words(), order=3), path)
    return path


@cache
def trained() -> LLRNN:
    """An LL-RNN of general French."""
    model = LLRNN(
        Vocabulary(words(), unknown=UNKNOWN),
        output_features=features.Identity(top=50) + features.Suffixes(2, min_count=3),
        background=backgrounds.Unigram.from_corpus(general(), smoothing=0.5),
        controller=GRU(8),
        seed=1,
    )
    for _ in train(model, general(), epochs=2, learning_rate=0.01):
        pass
    return model


def bases(folder: Path) -> dict[str, Base]:
    return {"n-grams": open_base(save_ngrams(folder / "base.arpa")), "llrnn": base_of(trained())}


def log_b_of(base: Base, corpus: Corpus) -> Tensor:
    """log p of the base itself, in the order of the text."""
    if base.donor is not None:
        return score(base.donor, EncodedText.encode(corpus, base.vocabulary)).log_probs
    bound = base.background.bind(base.vocabulary)
    return adaptation._log_probs(bound, EncodedText.encode(corpus, base.vocabulary)).double()


def of_domain(base: Base, text: Corpus, corpus: Corpus) -> Tensor:
    """log p of the n-grams of all of the domain text."""
    bound = NGram.from_corpus(text, order=3, folds=0).bind(base.vocabulary)
    return adaptation._log_probs(bound, EncodedText.encode(corpus, base.vocabulary)).double()


def log_probs(model: LLRNN, corpus: Corpus) -> Tensor:
    return score(model, EncodedText.encode(corpus, model.vocabulary)).log_probs


def weights_of(model: LLRNN) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_weights(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# --- where it begins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["n-grams", "llrnn"])
def test_before_training_it_is_the_mixture_of_base_and_domain(tmp_path: Path, kind: str) -> None:
    base, (text, held_out) = bases(tmp_path)[kind], parts()
    model = adaptor(base, text, hidden=6, seed=2)
    assert isinstance(model.background, Mixture)
    share, rest = model.background._weights
    assert 0 < share < 1
    assert share + rest == pytest.approx(1.0)
    for corpus in (held_out, general()[:20]):
        mixed = torch.logaddexp(
            log_b_of(base, corpus) + math.log(share), of_domain(base, text, corpus) + math.log(rest)
        )
        npt.assert_allclose(log_probs(model, corpus).numpy(), mixed.numpy(), rtol=0, atol=2e-5)
    assert [feature.name for feature in model.contextual] == [adaptation.EXPERT]


def test_the_share_of_the_base_is_the_best(tmp_path: Path) -> None:
    """Brute force over a grid, each sentence under the n-grams of the other folds."""
    base, text = bases(tmp_path)["n-grams"], parts()[0]
    frozen = base.background.bind(base.vocabulary)
    folded = NGram.from_corpus(text, order=3, folds=5).bind(base.vocabulary)
    keyed = EncodedText.to_train_on(text, base.vocabulary)
    share = base_share(frozen, folded, keyed)
    left, right = (adaptation._log_probs(part, keyed).double() for part in (frozen, folded))

    def mean(at: float) -> float:
        return float(torch.logaddexp(left + math.log(at), right + math.log(1 - at)).mean())

    grid = [n / 1000 for n in range(1, 1000)]
    assert mean(share) >= max(map(mean, grid)) - 1e-4
    assert 0.001 <= base_share(frozen, frozen, keyed) <= 0.999
    assert base_share(folded, frozen, keyed) == pytest.approx(1 - share, abs=0.02)


def test_the_body_of_the_base_is_copied_and_not_shared() -> None:
    donor, before = trained(), weights_of(trained())
    model = adaptor(base_of(donor), parts()[0])
    mine, theirs = weights_of(model), before
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs if name.startswith("controller."))
    assert torch.equal(model.embedding.weight, donor.embedding.weight)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    assert same_weights(before, weights_of(donor))


def test_the_words_of_the_domain_have_features_of_their_own() -> None:
    text = parts()[0]
    model = adaptor(base_of(trained()), text)
    counts = text.counts()
    often = {word for word, count in counts.items() if count > 1}
    assert {f"Word:{word}" for word in often} <= set(model.output_features.names)
    rare = next(word for word, count in counts.items() if count == 1)
    assert f"Word:{rare}" not in model.output_features.names or rare in trained().output_features.names


# --- what it learns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["n-grams", "llrnn"])
def test_a_shifted_domain_is_learned_and_the_base_stays(tmp_path: Path, kind: str) -> None:
    base, (text, held_out) = bases(tmp_path)[kind], parts()
    donor = None if base.donor is None else weights_of(base.donor)
    of_base = float(-log_b_of(base, held_out).mean())
    of_general = log_b_of(base, general()[:30])
    model = adaptor(base, text, hidden=12)
    begin = score(model, EncodedText.encode(held_out, model.vocabulary)).log_perplexity
    settings = default_settings(text.tokens).changed(epochs=4, learning_rate=0.01)
    *_, last = train(model, text, valid=held_out, settings=settings)
    after = score(model, EncodedText.encode(held_out, model.vocabulary)).log_perplexity
    assert after == pytest.approx(last.best, abs=1e-5)
    assert after < begin < of_base - 0.5
    if base.donor is not None and donor is not None:
        assert same_weights(donor, weights_of(base.donor))
    assert torch.equal(log_b_of(base, general()[:30]), of_general)
    report = llrnn.evaluate(model, held_out)
    assert report.audit.problems() == []
    model.save(tmp_path / "adapted")
    loaded = llrnn.load(tmp_path / "adapted")
    assert torch.equal(log_probs(loaded, held_out), log_probs(model, held_out))


def test_the_same_seed_gives_the_same_adaptor() -> None:
    text, held_out = parts()
    found = []
    for seed in (4, 4, 5):
        model = adaptor(base_of(trained()), text, seed=seed)
        settings = default_settings(text.tokens, seed=seed).changed(epochs=1)
        for _ in train(model, text, valid=held_out, settings=settings):
            pass
        found.append(weights_of(model))
    assert same_weights(found[0], found[1])
    assert not same_weights(found[0], found[2])


def test_steps_follow_the_size_of_the_text() -> None:
    sizes = [default_settings(words).model_dump()["batches"]["words"] for words in (10, 10_000, 10**6)]
    assert sizes == [128, 500, 2048]


# --- bases ----------------------------------------------------------------------------------------------------------


def test_a_base_is_told_by_what_is_there(tmp_path: Path) -> None:
    arpa, gz, folder = (open_base(save_ngrams(tmp_path / name)) for name in ("b.arpa", "b.arpa.gz", "b.ngram"))
    for base in (arpa, gz, folder):
        assert base.vocabulary == Vocabulary(words(), unknown=UNKNOWN)
        assert base.donor is None
    trained().save(tmp_path / "model")
    model = open_base(tmp_path / "model")
    assert model.donor is not None
    assert same_weights(weights_of(model.donor), weights_of(trained()))
    with pytest.raises(ConfigError, match="typo: no such base; give an ARPA file, an llrnn model or"):
        open_base(tmp_path / "typo")


def test_words_of_the_domain_that_a_closed_base_does_not_list(tmp_path: Path) -> None:
    listed = [word for word in words() if word != UNKNOWN]
    sentences = [sentence.words for sentence in general()]
    write_table(estimate(stream_of(sentences, listed), listed, order=2), tmp_path / "closed.arpa")
    base = open_base(tmp_path / "closed.arpa")
    with pytest.raises(UnknownWordError, match="'zebra' is not among"):
        adaptor(base, domain()[:20] + Corpus.from_sentences([["zebra", "dort"]]))


def test_one_sentence_cannot_be_cross_fitted(tmp_path: Path) -> None:
    base = bases(tmp_path)["n-grams"]
    with pytest.raises(BackgroundError, match="2 folds of 1 sentences leave nothing"):
        adaptor(base, domain()[:1])


# --- the verb -------------------------------------------------------------------------------------------------------

FAST = ["--hidden", "8", "--epochs", "2", "--learning-rate", "0.01", "--order", "2"]


def write(path: str, sentences: Iterable[Iterable[str]]) -> str:
    Path(path).write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf8")
    return path


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", ["base.arpa", "base.arpa.gz", "base.ngram", "model"])
def test_adapt_writes_a_model_that_is_better(capsys: Capture, kind: str) -> None:
    if kind == "model":
        trained().save("model")
    else:
        save_ngrams(Path(kind))
    text = write("domain.txt", (sentence.words for sentence in domain()[:80]))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    found = as_json(capsys, "adapt", kind, text, "--out", "adapted", *(FAST[2:] if kind == "model" else FAST))
    assert found["adapted"] < found["base"]
    assert found["words"] == domain()[:72].tokens  # the last tenth is held out
    model = llrnn.load("adapted")
    held_out = domain()[72:80]
    assert score(model, EncodedText.encode(held_out, model.vocabulary)).log_perplexity == pytest.approx(
        found["adapted"]
    )
    assert all(path.read_bytes() == content for path, content in before.items())
    (result,) = as_json(capsys, "evaluate", "adapted", text)
    assert result["words"] > 0


def test_adapt_says_what_was_gained_and_refuses_to_overwrite(capsys: Capture) -> None:
    save_ngrams(Path("base.arpa"))
    text = write("domain.txt", (sentence.words for sentence in domain()[:60]))
    valid = write("valid.txt", (sentence.words for sentence in domain()[120:140]))
    command = ["adapt", "base.arpa", text, "--valid", valid, "--out", "adapted", *FAST]
    out = done(capsys, *command)
    assert out.startswith("adapted: log-perplexity on the text held out: base ")
    records = [json.loads(line) for line in Path("adapted/log.jsonl").read_text().splitlines()]
    assert f"adapted {records[-1]['best']:.4f}" in out
    assert "holds a training run already" in refused(capsys, *command, "--json")


def test_the_text_held_out_is_written_small_too(capsys: Capture) -> None:
    save_ngrams(Path("base.arpa"))
    text = write("domain.txt", ([word.upper() for word in sentence.words] for sentence in domain()[:60]))
    small = write("small.txt", (sentence.words for sentence in domain()[60:80]))
    large = write("large.txt", ([word.upper() for word in sentence.words] for sentence in domain()[60:80]))
    found = [
        as_json(capsys, "adapt", "base.arpa", text, "--valid", valid, "--out", out, "--lowercase", *FAST)
        for valid, out in ((small, "a"), (large, "b"))
    ]
    assert found[0]["base"] == found[1]["base"]
    assert found[0]["adapted"] == found[1]["adapted"]


def test_stopping_is_no_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "interruptible", lambda: nullcontext(lambda: True))
    save_ngrams(Path("base.arpa"))
    text = write("domain.txt", (sentence.words for sentence in domain()[:60]))
    assert llrnn.cli.run(["adapt", "base.arpa", text, "--out", "x", *FAST]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "stopped after step 0" in captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["typo", "domain.txt", "--out", "x"], "typo: no such base; give an ARPA file, an llrnn model or"),
        (["empty", "domain.txt", "--out", "x"], "ngram.json: missing; empty holds no complete ngram"),
        (["domain.txt", "domain.txt", "--out", "x"], "an ARPA file is required"),
        (["base.arpa", "missing.txt", "--out", "x"], "missing.txt"),
        (["base.arpa", "few.txt", "--out", "x"], "5 sentences or more are required to adapt to, found 4"),
        (["base.arpa", "domain.txt", "--out", "domain.txt"], "--out domain.txt: cannot be made a folder"),
        (["base.arpa", "domain.txt"], "Missing option '--out'"),
        (["base.arpa", "domain.txt", "--out", "x", "--order", "0"], "--order"),
        (["base.arpa", "domain.txt", "--out", "x", "--epochs", "0"], "--epochs"),
        (["base.arpa", "domain.txt", "--out", "x", "--valid", "missing.txt"], "missing.txt"),
        (["base.arpa", "domain.txt", "--out", "x", "--device", "gpu"], "--device must be cpu, cuda"),
        (["base.arpa", "domain.txt", "--out", "x", "--learning-rate", "-1"], "learning_rate"),
    ],
)
def test_mistakes_of_adapt(capsys: Capture, arguments: list[str], said: str) -> None:
    save_ngrams(Path("base.arpa"))
    Path("empty").mkdir()
    write("domain.txt", (sentence.words for sentence in domain()[:30]))
    write("few.txt", (sentence.words for sentence in domain()[:4]))
    assert said in refused(capsys, "adapt", *arguments)


# --- Hugging Face ---------------------------------------------------------------------------------------------------


@pytest.fixture
def gpt(tmp_path: Path) -> Path:
    """GPT-2 with random weights and its tokenizer, in a folder."""
    pytest.importorskip("transformers")
    import test_hf

    folder = tmp_path / "gpt"
    test_hf.language_model().save_pretrained(folder)
    test_hf.tokenizer().save_pretrained(folder)
    return folder


def test_a_language_model_of_transformers_is_adapted(capsys: Capture, gpt: Path) -> None:
    text = write("domain.txt", (line.split() for line in LINES))
    base = open_base(gpt)
    assert base.tokenizer is not None
    corpus = base.read(text)
    model = adaptor(base, corpus[:10], hidden=4)
    assert isinstance(model.background, Mixture)
    share, rest = model.background._weights
    encoded = EncodedText.encode(corpus[10:], base.vocabulary)
    of_base = adaptation._log_probs(base.background.bind(base.vocabulary), encoded).double()
    mixed = torch.logaddexp(of_base + math.log(share), of_domain(base, corpus[:10], corpus[10:]) + math.log(rest))
    npt.assert_allclose(log_probs(model, corpus[10:]).numpy(), mixed.numpy(), rtol=0, atol=1e-4)
    found = as_json(capsys, "adapt", str(gpt), text, "--out", "adapted", *FAST)
    assert found["adapted"] < float(-of_base.mean())
    loaded = llrnn.load("adapted")
    again = base.read(text)[11:]
    assert score(loaded, EncodedText.encode(again, loaded.vocabulary)).log_perplexity == pytest.approx(
        found["adapted"], abs=1e-5
    )


def test_a_folder_that_is_no_language_model_is_refused(capsys: Capture) -> None:
    pytest.importorskip("transformers")
    Path("odd").mkdir()
    Path("odd/config.json").write_text("{}")
    text = write("domain.txt", (line.split() for line in LINES))
    assert "odd: not a causal language model" in refused(capsys, "adapt", "odd", text, "--out", "x")


def test_a_text_is_read_as_the_base_reads_it_and_unlisted_words_count(tmp_path: Path, capsys: Capture) -> None:
    """A base that cuts text itself: the figures of `adapt` are those of `evaluate`."""
    held = [Numbers("fr"), Spelling(tuple(w for w in words() if w.isalpha()), order=3, endings=6, lengths=(4,))]
    vocabulary = Vocabulary.from_corpus(general(), domains=held, as_new=0.5)
    phi = features.Identity(top=30) + features.CellAttributes() + features.Suffixes(2, min_count=3).of_listed()
    base = backgrounds.Discounted.from_corpus(general())
    model = LLRNN(vocabulary, output_features=phi, background=base, controller=GRU(4), seed=1)
    cut = Learnt.fit([("Le chat dort.", ("Le", "chat", "dort", ".")), ("Il dort.", ("Il", "dort", "."))] * 3).saved()
    model.provenance = {"config": {"corpus": {"lowercase": True, "tokeniser": "learnt"}}, "tokeniser": cut}
    model.save(tmp_path / "base")
    text, valid = tmp_path / "text.txt", tmp_path / "valid.txt"
    text.write_text("".join(f"Le chat noir dort en {1900 + i}.\n" for i in range(30)), encoding="utf8")
    valid.write_text("Le chat Zorglub dort en 1984.\n", encoding="utf8")
    given = [str(tmp_path / "base"), str(text), "--valid", str(valid), "--out", str(tmp_path / "on-top")]
    told = as_json(capsys, "adapt", *given, "--epochs", "1")
    (before,) = as_json(capsys, "evaluate", str(tmp_path / "base"), str(valid))
    (after,) = as_json(capsys, "evaluate", str(tmp_path / "on-top"), str(valid))
    assert told["base"] == pytest.approx(before["log_perplexity"], abs=1e-4)
    assert told["adapted"] == pytest.approx(after["log_perplexity"], abs=1e-4)
    assert told["contract"] == after["contract"]
    assert "words:8|" in told["contract"]  # the sign by itself, and the end
