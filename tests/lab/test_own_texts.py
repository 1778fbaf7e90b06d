"""The study of what `init` writes: a cache for every rival, and systems made from a draft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import sentence_log_probs, small_corpus
from llrnn import GRU, LLRNN, Corpus, Vocabulary, backgrounds, features
from llrnn.config import read_config
from llrnn.ground.errors import ConfigError
from llrnn_lab import french
from llrnn_lab.studies import own_texts as study
from llrnn_lab.studies.open_vocabulary import word_log_probs
from test_open_vocabulary import write_conllu


def test_a_cache_beside_a_model_is_the_background_recent() -> None:
    """With weights of zero, an LL-RNN whose background is Recent is its base with the study's cache."""
    corpus, vocabulary = small_corpus()[:12], Vocabulary.from_corpus(small_corpus())
    base = backgrounds.Unigram.from_corpus(small_corpus())
    recent = backgrounds.Recent(base, mu=0.4, kappa=3.0, window=10_000, fading=20.0)
    plain, cached = (
        LLRNN(vocabulary, output_features=features.Identity(), background=one, controller=GRU(2)).double()
        for one in (base, recent)
    )
    for model in (plain, cached):
        for parameter in model.parameters():
            parameter.data.zero_()
    alone = [np.array(sentence_log_probs(plain, one.words)) for one in corpus]
    found = study.with_cache(alone, corpus, 0.4, 3.0)
    for ours, theirs in zip(found, word_log_probs(cached, corpus), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_cache_that_is_chosen_is_none_where_no_word_comes_again() -> None:
    corpus = Corpus.from_sentences([["a", "b"], ["c", "d"], ["e", "f"]])
    log_probs = [np.log(np.full(3, 0.3)) for _ in corpus]
    assert study.best_cache(log_probs, corpus) == (0.0, 0.0)
    again = Corpus.from_sentences([["a", "b"], ["a", "b"], ["a", "b"]])
    assert study.best_cache([np.log(np.full(3, 0.01)) for _ in again], again)[0] == max(study._MU)


def test_the_table_has_settings_in_which_all_ended() -> None:
    ended = {system: {"test": bits} for system, bits in zip(study.SYSTEMS, (1.9, 2.0, 2.5, 2.2), strict=True)}
    found = study.table({"tr-20k": ended, "mt-20k": {"llrnn": {"test": 2.0}}})
    assert found.splitlines()[2:] == ["| tr-20k | 1.900 | 2.000 | 2.500 | 2.200 | -5.0 % |"]


@pytest.mark.slow
def test_every_system_is_trained_and_has_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(Path(__file__).parents[2])
    folder = tmp_path / "data" / "xx"
    folder.mkdir(parents=True)
    whole = Corpus.from_sentences(french.sentences(260, seed=5))
    for part, text in zip(("train", "dev", "test"), whole.split(200, 30), strict=True):
        write_conllu(folder / f"xx-{part}.conllu", text)
    (tmp_path / "words.txt").write_text("chat 5\nchats 2\ncheval 3\nchevaux 1\n", encoding="utf8")
    monkeypatch.setitem(study.LANGUAGES, "mt", study.Language("xx", (str(tmp_path / "words.txt"),)))
    prepared = tmp_path / "out" / "mt-whole-lists"
    study.prepare(tmp_path / "data", prepared, prepared.name)
    jobs = [study.job_of(prepared, system) for system in study.SYSTEMS]
    assert [read_config(job.config, job.changes, data=prepared).controller.hidden > 0 for job in jobs] == [True] * 4
    for job in jobs:
        result = study.run_one(job, data=prepared, out=tmp_path / "models", device=torch.device("cpu"))
        assert result["parameters"] <= study._budget(prepared / "llrnn.toml")
        assert result["tests"]["test"]["characters"] == sum(len(w) + 1 for one in whole[230:] for w in one.words)
        assert 0.3 < study._mean([study._summary(result)] * 2)["test"] < 8
    with pytest.raises(ConfigError, match="settings must be of"):
        study.run(tmp_path / "data", tmp_path / "out", ["xx-whole"])
