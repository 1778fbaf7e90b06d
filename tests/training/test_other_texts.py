"""Other texts for the network: what is learnt of them, when they are read, and that none of it is tested on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import tiny_model
from llrnn import GRU, Corpus, Vocabulary, backgrounds, domains, features, load
from llrnn.config.keys import Config
from llrnn.config.project import Project
from llrnn.config.reading import parse_config
from llrnn.ground.errors import ConfigError, CorpusError, LLRNNError, LLRNNWarning, TrainingError, ZeroMassError
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, score
from llrnn.text.encoded import EncodedText
from llrnn.text.others import OtherText, Overlap, in_words
from llrnn.text.vocabulary import EOS
from llrnn.training.loop import train
from llrnn.training.schedule import Schedule
from test_resume import assert_same_run, dropping, stopped_often, undisturbed
from test_training import ALL, BATCHES, TRAIN, VALID, equal, weights


def texts(*sentences: str, name: str = "made") -> Corpus:
    return Corpus.from_sentences([sentence.split() for sentence in sentences], name=name)


def some_words(sentences: int, *, unlisted: float, seed: int) -> Corpus:
    """Words of the training text at random, and some that are in no vocabulary."""
    rng = np.random.default_rng(seed)
    known = sorted({word for sentence in TRAIN for word in sentence.words})
    rows = [
        ["zzz" if rng.random() < unlisted else str(rng.choice(known)) for _ in range(rng.integers(1, 9))]
        for _ in range(sentences)
    ]
    return Corpus.from_sentences(rows, name="words")


# --- cut at unlisted words ----------------------------------------------------------------------------------------


def by_hand(model: LLRNN, sentences: list[list[str]], min_words: int) -> list[float]:
    """log p of the positions that are to be learnt, word by word through `model.step`."""
    vocabulary, found = model.vocabulary, []
    for words in sentences:
        runs: list[list[str]] = [[EOS]]
        for word in [*words, EOS]:
            if word in vocabulary:
                runs[-1].append(word)
            else:
                runs.append([])
        for run in runs:
            if len(run) - (run[:1] == [EOS]) - (run[-1:] == [EOS] and len(run) > 1) < min_words and len(runs) > 1:
                continue
            state = model.start([None])
            for read, target in zip(vocabulary.ids(run), vocabulary.ids(run[1:]), strict=False):
                with torch.no_grad():
                    distribution, state = model.step(state, [read])
                    found.append(float(distribution.log_probs()[0, target]))
    return found


@given(
    st.lists(st.lists(st.sampled_from(["w0", "w1", "w2", "x"]), max_size=8), min_size=1, max_size=6), st.integers(2, 4)
)
def test_the_loss_of_cut_sentences_is_that_of_the_right_positions(sentences: list[list[str]], min_words: int) -> None:
    model = tiny_model().eval()
    text = EncodedText.of_listed(Corpus.from_sentences(sentences), model.vocabulary, min_words=min_words)
    wanted = by_hand(model, sentences, min_words)
    assert text.n_targets == len(wanted) == sum(int(batch.mask.sum()) for batch in Sentences(7).plan(text))
    assert text.counts(len(model.vocabulary)).sum() == len(wanted)
    if wanted:
        assert sorted(score(model, text, Sentences(7)).log_probs.tolist()) == pytest.approx(sorted(wanted), abs=1e-10)


def test_a_cut_end_is_not_learnt_and_a_cut_beginning_is_read_only() -> None:
    vocabulary = Vocabulary([EOS, "le", "chat", "sur", "mur"])
    text = EncodedText.of_listed(texts("le chat miaule sur le mur", "sur miaule", "mur"), vocabulary)
    pieces = [[vocabulary.symbols[i] for i in text.framed(n)] for n in range(len(text.sentences))]
    assert pieces == [[EOS, "le", "chat"], ["sur", "le", "mur", EOS], [EOS, "mur", EOS]]
    assert text.lengths.tolist() == [2, 3, 2]
    assert len(text.fingerprints()) == 1  # `mur` alone is a whole sentence
    with pytest.raises(TrainingError, match="cut at unlisted words cannot be run together"):
        text.run()


def test_where_every_word_has_a_place_nothing_is_cut() -> None:
    vocabulary = Vocabulary([EOS, "<unk>", "le", "chat"], unknown="<unk>")
    text = EncodedText.of_listed(texts("le chat miaule", "miaule"), vocabulary)
    assert text.cut is None
    assert [vocabulary.symbols[i] for i in text.framed(0)] == [EOS, "le", "chat", "<unk>", EOS]


def test_an_open_vocabulary_reads_whole_sentences(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_corpus(ALL, domains=[domains.Spelling(list(ALL.counts()), lengths=[4])])
    given: dict[str, Any] = {"background": backgrounds.Discounted.from_corpus(ALL), "controller": GRU(6)}
    model = LLRNN(vocabulary, output_features=features.Identity() + features.CellAttributes(), **given)
    other = OtherText(some_words(30, unlisted=0.3, seed=4), epochs=1)
    text = other.encoded(model.vocabulary)
    assert text.cut is None
    assert text.n_targets == other.corpus.tokens + len(other.corpus)
    list(train(model, TRAIN, others=[other], epochs=1, folder=tmp_path))
    (told,) = load(tmp_path).provenance["other_texts"]
    assert (told["words"], told["words_cut"]) == (other.corpus.tokens, 0)


# --- what is read when --------------------------------------------------------------------------------------------


def other(when: Any = "before", **settings: Any) -> OtherText:
    return OtherText(some_words(40, unlisted=0.2, seed=1), when=when, **settings)


@pytest.mark.parametrize(("weight", "least", "most"), [(0.3, 5, 6), (1.0, 18, 18), (2.5, 45, 45)])
def test_an_epoch_reads_in_expectation_the_weight_of_a_text(weight: float, least: int, most: int) -> None:
    vocabulary = Vocabulary.from_corpus(TRAIN)
    own = EncodedText.to_train_on(TRAIN, vocabulary)
    mixed = OtherText(TRAIN[:18], when="mixed", weight=weight)
    schedule = Schedule(own, [mixed], vocabulary, seed=5)
    sizes = [len(schedule.text(epoch).sentences) - len(own.sentences) for epoch in range(200)]
    assert {min(sizes), max(sizes)} == {least, most}
    assert np.mean(sizes) == pytest.approx(18 * weight, abs=0.15)
    one, same, next_one = (schedule.text(epoch).digest() for epoch in (3, 3, 4))
    assert one == same
    assert (one == next_one) == (weight == 1.0)


def test_texts_before_the_corpus_come_first_and_alone() -> None:
    vocabulary = Vocabulary.from_corpus(TRAIN)
    own = EncodedText.to_train_on(TRAIN, vocabulary)
    long, short, mixed = other(epochs=3), OtherText(TRAIN[:7], epochs=1), OtherText(TRAIN[:4], when="mixed")
    schedule = Schedule(own, [long, short, mixed], vocabulary, seed=0)
    n_long = len(long.encoded(vocabulary).sentences)
    assert schedule.first == 3
    sizes = [len(schedule.text(epoch).sentences) for epoch in range(5)]
    assert sizes == [n_long + 7, n_long, n_long, len(TRAIN) + 4, len(TRAIN) + 4]


@pytest.mark.parametrize("when", ["before", "mixed"])
def test_a_stopped_run_comes_out_the_same(when: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"others": [other(when, weight=0.7, **({"epochs": 2} if when == "before" else {}))]}
    settings |= {"batches": {"kind": "sentences", "words": 40}, "average": 0.9, "halve_after": 1}
    wanted = undisturbed(dropping, tmp_path / "whole", **settings)
    for name, stops in {"at first": [1, 3, 2], "later": [20, 5, 1]}.items():
        found, _ = stopped_often(dropping, tmp_path / name, stops, **settings)
        assert equal(weights(found), weights(wanted))
        assert_same_run(tmp_path / "whole", tmp_path / name)


def test_patience_counts_from_the_corpus_on() -> None:
    """Noise that is read for five epochs makes validation worse and worse; the corpus is still read."""
    noise = OtherText(Corpus.from_sentences([[TRAIN[0].words[0]] * 4] * 30), epochs=5)
    model = dropping()
    records = list(train(model, TRAIN, valid=VALID, others=[noise], patience=1, halve_after=1, epochs=2))
    epochs = [record for record in records if record.event == "epoch"]
    losses = [record.valid for record in epochs if record.valid is not None]
    assert max(losses[1:5]) > min(losses[:4])  # patience alone would have stopped it
    assert len({record.learning_rate for record in epochs[:5]}) == 1
    assert len(epochs) > 5


def test_a_run_with_other_texts_resumes_with_the_same_only(tmp_path: Path) -> None:
    list(train(dropping(), TRAIN, others=[other(epochs=1)], epochs=1, folder=tmp_path))
    for others in ([], [other(epochs=1, weight=0.5)]):
        with pytest.raises(TrainingError, match="another set of other texts"):
            train(dropping(), TRAIN, others=others, epochs=2, folder=tmp_path, resume=True)


def test_continuous_text_reads_other_texts_that_are_whole() -> None:
    whole = OtherText(TRAIN[:9], epochs=1)
    settings: dict[str, Any] = {"batches": BATCHES["continuous"], "epochs": 1}
    assert list(train(dropping(), TRAIN, others=[whole], **settings))[-1].epoch == 2
    with pytest.raises(TrainingError, match="use the batching by sentences"):
        train(dropping(), TRAIN, others=[other()], **settings)


def test_the_model_says_what_it_has_read(tmp_path: Path) -> None:
    given = OtherText.apart_from(some_words(30, unlisted=0.3, seed=2), [VALID], epochs=1)
    list(train(dropping(), TRAIN, others=[given], epochs=1, folder=tmp_path))
    model = load(tmp_path)
    (told,) = model.provenance["other_texts"]
    cut = sum(word == "zzz" for sentence in given.corpus for word in sentence.words)
    assert told["text"] == "words"
    assert told["words"] + told["words_cut"] == given.corpus.tokens
    assert told["words_cut"] >= cut
    assert told["pieces"] == len(given.encoded(model.vocabulary).sentences)
    assert model.training_summary is not None
    assert model.training_summary.counts.sum() == TRAIN.tokens + len(TRAIN)  # of the corpus alone
    whole = [s for s in given.corpus if "zzz" not in s.words]
    assert whole
    seen = EncodedText.encode(Corpus.from_sentences([s.words for s in whole]), model.vocabulary)
    assert model.training_summary.share_of(seen) == 1.0


# --- the audit ----------------------------------------------------------------------------------------------------

HELD_OUT = texts("a b c d e", "oui .", "1 2 3 4 5 6 7 8 9 10")
READ = texts(
    "a b c d e",  # the same sentence
    "a b c d e f",  # longer, and only five words in common
    "oui .",  # too short to mean anything
    "x 2 3 4 5 6 7 8 9 y",  # eight in a row
    "x 2 3 4 5 6 7 8 y",  # seven
    "1 2 3 4 5 6 7 8 9 10",
)


def test_the_audit_counts_equal_sentences_and_shared_runs() -> None:
    assert Overlap.between(READ, [HELD_OUT]) == Overlap(frozenset({0, 5}), frozenset({3}))
    with pytest.warns(LLRNNWarning, match="text has too: 2; that share 8 words in a row with it: 1; all of these"):
        kept = OtherText.apart_from(READ, [HELD_OUT])
    assert [" ".join(sentence.words) for sentence in kept.corpus] == ["a b c d e f", "oui .", "x 2 3 4 5 6 7 8 y"]
    assert kept.dropped == 3
    assert OtherText.apart_from(READ, [texts("z")]).corpus is READ
    assert Overlap.between(READ, [HELD_OUT], run=7) == Overlap(frozenset({0, 5}), frozenset({3, 4}), 7)
    with pytest.warns(LLRNNWarning, match="that share 9 words in a row with it: 0; all of these"):
        assert OtherText.apart_from(READ, [HELD_OUT], run=9).dropped == 2


WORDS = st.lists(st.lists(st.sampled_from("ab"), max_size=14), max_size=5)


@given(WORDS, WORDS)
def test_the_audit_by_brute_force(read: list[list[str]], held_out: list[list[str]]) -> None:
    found = Overlap.between(Corpus.from_sentences(read), [Corpus.from_sentences(held_out)])
    for number, words in enumerate(read):
        equal_ones = len(words) >= 5 and words in held_out
        here = " ".join(words)
        shared = any(
            " ".join(other[i : i + 8]) in here for other in held_out for i in range(len(other) - 7) if len(other) >= 8
        )
        assert (number in found.equal) == equal_ones
        assert (number in found.shared) == (shared and not equal_ones)


# --- mistakes -----------------------------------------------------------------------------------------------------


CONFIG: dict[str, Any] = {
    "corpus": {"train": ["train.txt"], "valid": ["valid.txt"], "test": ["test.txt"], "other": [{"files": ["o.txt"]}]},
    "vocabulary": {"parts": ["train", "valid", "test"]},
    "features": {"output": [{"kind": "identity"}]},
    "background": {"kind": "unigram", "parts": ["train", "valid", "test"]},
    "training": {"epochs": 1},
}


def a_project(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Project:
    """A configuration over files in a folder; `changes` are to the other text, or to tables of the configuration."""
    written = {"train": "a b c d\n" * 9, "valid": "a b c d e\n", "test": "1 2 3 4 5 6 7 8\n"}
    written["o"] = "A b z c d\na b c d e\n9 1 2 3 4 5 6 7 8 z\n"
    for name, text in written.items():
        (folder / f"{name}.txt").write_text(text)
    monkeypatch.chdir(folder)
    tables = {key: value for key, value in changes.items() if key in Config.model_fields}
    own = {key: value for key, value in changes.items() if key not in tables}
    corpus = {**CONFIG["corpus"], "other": [{"files": ["o.txt"], **own}]}
    return Project.from_config(parse_config({**CONFIG, "corpus": corpus, **tables}, "other.toml"))


def test_a_configuration_names_other_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(LLRNNWarning, match=r"o\.txt: sentences that .* too: 1; that share 8 words in a row with it: 1"):
        project = a_project(tmp_path, monkeypatch, when="mixed", weight=2.0)
    (found,) = project.others
    assert [sentence.words for sentence in found.corpus] == [("a", "b", "z", "c", "d")]  # lowercased like the corpus
    assert (found.when, found.weight, found.dropped) == ("mixed", 2.0, 2)
    model = project.model()
    list(train(model, project.corpora["train"], others=project.others, settings=project.config.training))
    (told,) = model.provenance["other_texts"]
    assert in_words(told) == (
        "Other text, mixed into every epoch, weight 2: o.txt; 4 words in 2 pieces; words cut off: 1; sentences "
        "dropped for what validation or test share: 2"
    )


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"files": []}, "other.toml: corpus.other.0.files: list should have at least 1 item"),
        ({"files": ["none.txt"]}, "none.txt: a file is required, but there is none of this name"),
        ({"weight": 0.0}, "corpus.other.0.weight: input should be greater than 0, found 0.0"),
        ({"when": "mixed", "epochs": 3}, "epochs is for when = 'before', found when = 'mixed'; leave it out"),
        ({"when": "after"}, "corpus.other.0.when: input should be 'before' or 'mixed', found 'after'"),
        ({"run": 1}, "corpus.other.0.run: input should be greater than or equal to 2, found 1"),
    ],
)
def test_mistakes_in_a_configuration(
    changes: dict[str, Any], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LLRNNError, match=re.escape(complaint)) as found:
        a_project(tmp_path, monkeypatch, **changes)
    assert "\n" not in str(found.value)


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_n_grams_of_what_the_network_reads_are_cross_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence of another text meets counts that were made without it, its pieces too."""
    words = [f"w{i}" for i in range(30)]
    rng = np.random.default_rng(0)
    rows = [" ".join(["unlisted", *rng.choice(words, 6)]) for _ in range(40)]
    (tmp_path / "read.txt").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "train.txt").write_text("".join(f"{word}\n" for word in words))
    expert = {"kind": "expert", "order": 3, "files": ["read.txt"], "restrict": True}
    corpus = {"train": ["train.txt"], "other": [{"files": ["./read.txt"]}]}
    tables = {"corpus": corpus, "vocabulary": {}, "background": {"kind": "uniform"}, "contextual": [expert]}
    monkeypatch.chdir(tmp_path)
    project = Project.from_config(parse_config({**CONFIG, **tables}, "cross.toml"))
    (source,) = project.contextual
    assert "in 10 folds" in repr(source)
    tables["corpus"] = {"train": ["train.txt"]}
    (alone,) = Project.from_config(parse_config({**CONFIG, **tables}, "cross.toml")).contextual
    assert "folds" not in repr(alone)

    model = project.model()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # the expert alone speaks
            parameter.fill_(1.0 if "context" in name and "bias" in name else 0.0)
    text = project.others[0].encoded(model.vocabulary)
    assert text.cut is not None
    assert text.cut[:, 0].all()
    as_new = score(model, replace(text, keys=None)).log_perplexity  # nothing is left out
    assert score(model, text).log_perplexity > as_new + 0.5


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_words_of_other_texts_need_mass_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list.txt").write_text("z 5\n")
    listed = {"parts": ["train", "valid", "test"], "lists": ["list.txt"]}
    with pytest.raises(ZeroMassError, match="no mass, but it is a word of the other text; count the word"):
        a_project(tmp_path, monkeypatch, vocabulary=listed).model()


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(ConfigError, match="weight must be above 0, found 0"):
        other(weight=0)
    with pytest.raises(ConfigError, match="epochs must be 1 or more"):
        other(epochs=0)
    with pytest.raises(CorpusError, match="made: nothing is left of 3 words once it is cut at unlisted words"):
        OtherText(texts("q r s")).encoded(Vocabulary.from_corpus(TRAIN))
    with pytest.raises(ConfigError, match="when"):
        other("sometimes")
