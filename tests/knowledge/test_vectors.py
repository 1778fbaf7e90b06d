"""Word vectors as features: principal components against a decomposition of its own, and what has no vector."""

from __future__ import annotations

import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import llrnn
from helpers import small_corpus, small_features, small_model, small_vectors, small_vocabulary
from llrnn import EOS, Vocabulary, load, words
from llrnn.config.project import Project
from llrnn.config.reading import parse_config
from llrnn.ground.errors import FeatureError, LexiconError, LLRNNWarning
from llrnn.inference.explanation import in_blocks
from llrnn.knowledge.features import Features, Identity, Vectors, compile_features, summarise
from llrnn.languages.domains import Spelling
from llrnn.text.vectors import WordVectors

WORDS = ("le", EOS, "chat", "Chien", "dort", "court", "mange", "ici")
VOCABULARY = Vocabulary(WORDS)
KNOWN = ("le", "chat", "chien", "dort", "court", "mange")
LISTED = tuple(word for word in KNOWN if word != "chien")  # it is written with a capital in V
NUMBERS = np.random.default_rng(7).normal(size=(len(KNOWN), 4)).astype(np.float32)
SOURCE = {word: row.tolist() for word, row in zip(KNOWN, NUMBERS, strict=True)}


def values(phi: Features, words: tuple[str, ...] = LISTED, vocabulary: Vocabulary = VOCABULARY) -> np.ndarray:
    """φ of words without `none`, (n, components)."""
    fitted = phi.fitted(vocabulary)
    return np.array([list(fitted(word).values()) for word in words])


@pytest.mark.parametrize("components", [1, 3, 4])
def test_they_are_principal_components_with_a_norm(components: int) -> None:
    """φ φᵀ is that of a singular value decomposition cut off; its root mean square norm is the scale."""
    found = values(Vectors(SOURCE, components=components, scale=2.5))
    x = np.array([SOURCE[word] for word in LISTED])
    x -= x.mean(0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    expected = (u * s)[:, :components]
    expected *= 2.5 / math.sqrt((expected**2).sum(1).mean())
    assert found.shape == (5, components)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        np.abs(found), np.abs(expected), rtol=1e-9, atol=1e-12
    )  # each direction, but for its sign
    assert math.sqrt((found**2).sum(1).mean()) == pytest.approx(2.5, rel=1e-12)
    assert np.all(np.diff((found**2).sum(0)) <= 0)  # the largest first


def test_words_that_share_a_vector_count_once_each() -> None:
    """One row for two words, and the same row twice, are the same features."""
    rows = np.array([0, 1, 2, 3, 4, 0])
    shared = Vectors(WordVectors(KNOWN, rows, NUMBERS[:5]), components=3, any_case=True)
    apart = Vectors(WordVectors(KNOWN, np.arange(6), NUMBERS[rows]), components=3, any_case=True)
    known = ("le", "chat", "Chien", "dort", "court", "mange")
    np.testing.assert_allclose(values(shared, known), values(apart, known), rtol=1e-10, atol=1e-12)
    matrix = compile_features(shared, VOCABULARY)
    assert matrix.class_of[WORDS.index("le")] == matrix.class_of[WORDS.index("mange")]


def test_scaled_is_the_scale() -> None:
    whole = values(Vectors(SOURCE, components=3, scale=3.0))
    np.testing.assert_allclose(values(Vectors(SOURCE, components=3, scale=1.5).scaled(2)), whole, rtol=1e-12)
    fitted = Vectors(SOURCE, components=3).fitted(VOCABULARY).scaled(0.5)
    np.testing.assert_allclose(2 * values(fitted), whole, rtol=1e-12)


def test_words_without_a_vector_are_marked_and_counted() -> None:
    phi = Vectors(SOURCE, components=2)
    matrix = compile_features(phi, VOCABULARY)
    assert matrix.row(WORDS.index("ici")) == {"Vectors:none": 1.0}
    assert matrix.row(WORDS.index(EOS)) == {}
    assert [*matrix.row(0)] == ["Vectors:pc1", "Vectors:pc2"]
    (note,) = summarise(Identity() + phi, VOCABULARY).notes
    assert note == "Vectors: 5 of 7 words (71.4%) have a vector; without: 2 (Chien, ici)"
    (note,) = summarise(Vectors(SOURCE, components=2, any_case=True), VOCABULARY).notes
    assert note == "Vectors: 6 of 7 words (85.7%) have a vector; without: 1 (ici)"


def test_only_the_most_frequent_words_have_a_vector() -> None:
    """Principal components are those of the words that have one."""
    fitted = Vectors(SOURCE, components=2, top=4).fitted(VOCABULARY)
    assert [word for word in WORDS if "Vectors:pc1" in fitted(word)] == ["le", "chat", "dort"]  # and Chien has none
    assert fitted("court") == {"Vectors:none": 1.0}
    among = {word: SOURCE[word] for word in ("le", "chat", "dort")}
    with pytest.warns(LLRNNWarning, match="3 of 7 words"):
        alone = Vectors(among, components=2).fitted(VOCABULARY)
    assert all(fitted(word) == alone(word) for word in WORDS)


def test_few_words_with_a_vector_are_a_warning() -> None:
    some = {word: SOURCE[word] for word in ("le", "chat", "dort")}
    with pytest.warns(LLRNNWarning, match=r"Vectors: 3 of 7 words \(42.9%\) have a vector; give a larger file"):
        Vectors(some, components=2).fitted(VOCABULARY)


def test_strings_that_are_not_listed_have_no_vector() -> None:
    """Not even where the file has one: features are the same on all strings of a cell."""
    words = [word for word in WORDS if word != "dort"]
    opened = Vocabulary(words, domains=[Spelling(words[2:])])
    matrix = compile_features(Vectors(SOURCE, components=2), opened)
    assert {tuple(matrix.row(x).items()) for x in range(len(words), len(opened))} == {(("Vectors:none", 1.0),)}
    assert matrix.row(opened.id("dort")) == {"Vectors:none": 1.0}
    assert matrix.row(opened.id("chat")).keys() == {"Vectors:pc1", "Vectors:pc2"}


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (lambda: Vectors(SOURCE, components=5), "5 components are asked for, found 4 dimensions; give components = 4"),
        (lambda: Vectors({"le": [1, 2, 3], "chat": [0, 1, 2], "dort": [1, 0, 1]}, components=3), "3 different vectors"),
        (lambda: Vectors({"hond": [1.0], "kat": [2.0]}, components=1), "a vector for none of the 7 words"),
        (lambda: Vectors({"le": [1.0], "chat": [1.0], "dort": [1.0]}, components=1), "vectors that differ"),
        (lambda: Vectors(SOURCE, components=0), "one component or more, found 0"),
        (lambda: Vectors(SOURCE, top=0), r"one word \(top\) or more, found 0"),
        (lambda: Vectors(SOURCE, scale=-1.0), "a scale must be a finite number above 0, found -1.0"),
        (lambda: Vectors(SOURCE, components=2) + Vectors(SOURCE, components=2), "'Vectors:pc1' is named by Vectors"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_mistakes_are_told(phi: object, message: str) -> None:
    with pytest.raises(FeatureError, match=message):
        compile_features(phi(), VOCABULARY)  # type: ignore[operator]


def test_two_groups_have_two_names() -> None:
    both = Vectors(SOURCE, components=2) + Vectors(SOURCE, components=3, name="More")
    assert {*compile_features(both, VOCABULARY).groups} == {"Vectors", "More"}


def test_a_model_sums_to_one_and_is_saved_bit_for_bit(tmp_path: Path) -> None:
    with mock.patch("llrnn.layer.matrix._FEWEST_CLASSES", 1):
        model = small_model(output_features=small_features() + small_vectors(), tied=True).eval()
    assert model.layer.phi.for_kernels(model.layer.weight).dense is not None  # they stand apart
    h = torch.randn(5, model.layer.weight.shape[1], generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        log_p = model.layer(h, model.background.prior([])).log_probs()
    torch.testing.assert_close(log_p.double().exp().sum(1), torch.ones(5, dtype=torch.float64), rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model")
    with mock.patch("llrnn.layer.matrix._FEWEST_CLASSES", 1):
        again = load(tmp_path / "model")
    for name in ("class_of", "offsets", "columns", "values"):
        assert np.array_equal(getattr(again.output_features, name), getattr(model.output_features, name))
    with torch.no_grad():
        assert torch.equal(again.layer(h, again.background.prior([])).log_probs(), log_p)


def test_an_explanation_has_one_line_for_a_vector() -> None:
    model = small_model(output_features=small_features() + small_vectors(), tied=True)
    known = [word for x, word in enumerate(small_vocabulary()) if x % 5 and word != EOS]
    found = llrnn.explain(model, prefix=known[0], word=known[1], rival=known[2])
    for one in (found.chosen, found.rival, found):
        of_vectors = [term for term in one.terms if term.name.startswith("Vectors:pc")]
        (line,) = [term for term in in_blocks(one.terms) if term.name == "Vectors"]
        assert len(of_vectors) == 17
        assert line.share == pytest.approx(sum(term.share for term in of_vectors), abs=1e-5)
        assert line.value == pytest.approx(math.sqrt(sum(term.value**2 for term in of_vectors)))
        assert sum(term.share for term in in_blocks(one.terms)) == pytest.approx(
            sum(term.share for term in one.terms), abs=1e-4
        )
    assert [row[0] for row in found._sum().table("Δφ").rows].count("Vectors") == 1


def test_a_word_that_is_added_has_no_vector() -> None:
    model = small_model(output_features=small_features() + small_vectors())
    more = words.add(model, [words.Entry("zorgée", count=2)])
    row = more.output_features.row(more.vocabulary.id("zorgée"))
    assert row["Vectors:none"] == 1.0
    assert not [name for name in row if name.startswith("Vectors:pc")]


def test_the_audit_counts_words_with_a_vector() -> None:
    """`Vectors:none` is no knowledge: else the group would seem to know every word."""
    model = small_model(output_features=small_features() + small_vectors())
    found = llrnn.evaluate(model, small_corpus()[40:]).audit.coverage["Vectors"]
    assert 0.5 < found.rare_in_training < 1.0
    assert 0.5 < found.only_here < 1.0


def test_they_are_a_line_of_toml(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    file = tmp_path / "v.vec"
    words = small_vocabulary().words
    WordVectors(words, np.arange(len(words)), random.normal(size=(len(words), 8)).astype("f4")).save(file)
    group = {"kind": "vectors", "file": str(file), "components": 5, "scale": 2.0, "any_case": True}
    config = {
        "corpus": {"embedded": {"train": 30, "valid": 5}},
        "features": {"output": [{"kind": "identity", "top": 5}, group]},
        "background": {"kind": "unigram", "parts": ["train", "valid"]},
        "vocabulary": {"parts": ["train", "valid"]},
    }
    project = Project.from_config(parse_config(config, "my.toml"))
    found = compile_features(project.output_features, project.vocabulary)
    expected = compile_features(
        Identity(top=5) + Vectors(file, components=5, scale=2.0, any_case=True), project.vocabulary
    )
    assert found.names == expected.names
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    group["file"] = str(tmp_path / "absent.vec")
    with pytest.raises(LexiconError, match=r"absent.vec: a file is required, but there is none of this name"):
        Project.from_config(parse_config(config, "my.toml")).model()
