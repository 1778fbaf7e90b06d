"""Mixtures of French models and their student, on sentences of the embedded grammar."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, features, load, train
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_lines
from llrnn.model.ensembles import background_alone, log_probs
from llrnn.text.encoded import EncodedText
from llrnn.text.readers import conllu_lines
from llrnn_lab import french
from llrnn_lab.studies import ensembles as study


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    sentences = list(french.sentences(260, seed=3))
    cuts = {"train": slice(0, 160), "valid": slice(160, 200), "test1": slice(200, 230), "test2": slice(230, 260)}
    for name, own in cuts.items():
        write_lines(folder / f"{name}.conllu", conllu_lines(sentences[own]))
    corpus = Corpus.from_file(folder / "train.conllu", lowercase=True)
    for name in study.OTHERS:
        write_lines(folder / f"{name}.txt", (" ".join(one.words) for one in corpus[:40]))
    vocabulary = Vocabulary.from_corpus(*(study._text(folder, name) for name in cuts))
    for seed in (0, 1):
        model = LLRNN(
            vocabulary,
            output_features=features.Identity() + features.Suffixes(2),
            background=backgrounds.Unigram.from_corpus(corpus, smoothing=0.1),
            controller=LSTM(12, dropout=0.2),
            seed=seed,
        )
        list(train(model, corpus, epochs=2, seed=seed))
        model.save(folder / f"member{seed}")
    return folder


@pytest.mark.filterwarnings("ignore:.*too little text for the Kneser-Ney discounts")
def test_the_study_in_small(prepared: Path, tmp_path: Path) -> None:
    members = [prepared / "member0", prepared / "member1"]
    found = study.run(members, prepared, tmp_path, student=members[0], dropout=0.1, epochs=2)
    alone = min(found["member0"]["valid"], found["member1"]["valid"])
    assert found["mixture with n-grams"]["valid"] <= found["mixture"]["valid"] + 1e-3 <= alone + 2e-3
    text = EncodedText.encode(study._text(prepared, "test1"), load(members[0]).vocabulary)
    log_p = torch.stack([log_probs([load(folder)], text)[0] for folder in members])
    weights = torch.tensor(found["mixture"]["weights"], dtype=torch.float64)
    by_hand = -(weights[:, None] * log_p.exp()).sum(0).log().mean()
    assert found["mixture"]["test1"] == pytest.approx(float(by_hand))
    assert found["member0, distilled"]["valid"] < found["member0"]["valid"]  # it was trained on, too
    assert (tmp_path / "ensembles.md").read_text(encoding="utf8").count("\n| ") == len(found) + 1


def test_dropout_needs_a_body_that_has_it(prepared: Path, tmp_path: Path) -> None:
    model = load(prepared / "member0")
    alone = background_alone(backgrounds.Uniform(), [model])
    alone.save(tmp_path / "silent")
    with pytest.raises(ConfigError, match="has no dropout to change"):
        study.distilled(tmp_path / "silent", [], prepared, tmp_path, torch.device("cpu"), 0.5, 0.3, 1)
