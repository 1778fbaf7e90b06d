"""`llrnn model info` of every kind of saved model: how it was made, what it reads of the context, and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import llrnn
from helpers import small_corpus, small_features, small_model, small_vectors
from llrnn import GRU, LLRNN, Vocabulary, backgrounds, cli, contextual, domains, features, train
from llrnn.inference.adaptation import adaptor, base_of
from llrnn.inference.condensing import condense
from llrnn.text.units import CharacterUnits

Capture = pytest.CaptureFixture[str]


def with_context(**context: object) -> LLRNN:
    made: dict[str, object] = {"output_features": small_features(), "controller": GRU(4), **context}
    return LLRNN(Vocabulary.from_corpus(small_corpus()), **made)  # type: ignore[arg-type]


def ngram() -> backgrounds.Background:
    return backgrounds.NGram.from_corpus(small_corpus(), order=2, folds=0)


def spelling() -> LLRNN:
    known = [domains.Numbers("fr"), domains.Spelling(sorted(small_corpus().counts()), order=2, endings=4)]
    listed = Vocabulary.from_corpus(small_corpus(), top=30, domains=known)
    phi, b = features.Identity() + features.CellAttributes(), backgrounds.Discounted.from_corpus(small_corpus())
    return LLRNN(listed, output_features=phi, background=b, controller=GRU(4))


def of_characters() -> LLRNN:
    units = CharacterUnits.from_corpus(small_corpus())
    cut = Vocabulary.from_corpus(units.corpus(small_corpus()), others=units.symbols(), units=units)
    return LLRNN(cut, output_features=features.Identity(), controller=GRU(4))


def mixed() -> LLRNN:
    return llrnn.mix([small_model(), small_model(loud=2.0)], valid=small_corpus(), names=["a", "b"])


# how it is made, and what must be said of it
KINDS: dict[str, tuple[Callable[[], LLRNN], str]] = {
    "untrained": (with_context, "training:          files none\n"),
    "trained": (small_model, "sentences 40,"),
    "context features": (lambda: with_context(contextual=[contextual.Repeated(3)]), "contextual:        Repeated("),
    "context inputs": (
        lambda: with_context(contextual_inputs=[contextual.SlotProgress("name")]),
        "contextual inputs: SlotProgress(",
    ),
    "mixed in": (lambda: with_context(mixed=[ngram()]), "mixed:             NGram("),
    "recent": (lambda: with_context(background=backgrounds.Recent(ngram(), mu=0.4)), "background:        Recent("),
    "sum": (mixed, "background:        Mixture("),
    "condensed": (
        lambda: condense(small_model(output_features=features.Identity() + small_vectors()), 1.2, text=small_corpus()),
        "classes",
    ),
    "adapted": (
        lambda: adaptor(base_of(small_model()), small_corpus(), order=2, hidden=4),
        "background:        Mixture(",
    ),
    "open": (spelling, "domains:           Regular("),
    "characters": (of_characters, "units:             characters"),
}


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_info_of_every_kind_of_model(kind: str, tmp_path: Path, capsys: Capture) -> None:
    make, said = KINDS[kind]
    model = make()
    model.save(tmp_path / "saved")
    model.save_pretrained(tmp_path / "pretrained")
    for folder in ("saved", "pretrained"):
        assert cli.run(["model", "info", str(tmp_path / folder)]) == 0
        assert said in capsys.readouterr().out
        assert cli.run(["model", "info", str(tmp_path / folder), "--json"]) == 0
        capsys.readouterr()


@pytest.mark.parametrize("validates", [False, True])
def test_info_of_a_run(validates: bool, tmp_path: Path, capsys: Capture) -> None:
    corpus = small_corpus()
    list(train(with_context(), corpus, valid=corpus[:9] if validates else None, epochs=1, folder=tmp_path / "run"))
    assert cli.run(["model", "info", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "sentences 60" in said
    assert ("best_validation" in said) == validates
