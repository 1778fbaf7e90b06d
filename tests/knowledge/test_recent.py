"""`Recent`: words of a running text come again. By hand, in float64, over strings: those that nobody listed too."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from llrnn import GRU, LLRNN, Continuous, Corpus, Vocabulary, complete, evaluate, features, load, score
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import BackgroundError, ConfigError, CorpusError
from llrnn.knowledge.backgrounds import Background, Discounted, Inflections, Mixture, Recent, primed
from llrnn.languages.domains import Numbers, Spelling
from llrnn.model.testing import check_background
from llrnn.model.words import with_text_words
from llrnn.text.conditions import Before
from llrnn_lab.studies.open_vocabulary import word_log_probs

TRAIN = Corpus.from_sentences(
    [s.split() for s in ("the cat sleeps here", "a dog sleeps there", "the dog eats", "2 cats eat", "a house sleeps")]
)
TEXT = Corpus.from_sentences(
    [s.split() for s in ("the zebra eats", "a zebra sleeps", "the okapi eats 17 zebras", "okapi and zebra sleeps 17")]
)
WEIGHT, WINDOW, SHARE, FADING = 0.25, 6, 0.4, 3.0


def model_with(background: Background) -> LLRNN:
    """Random weights, in float64."""
    held = [Numbers("fr"), Spelling(sorted(TRAIN.counts()), order=3, endings=4, longest=2, lengths=(4,))]
    phi = features.Identity(top=4) + features.CellAttributes()
    vocabulary = Vocabulary.from_corpus(TRAIN, domains=held)
    model = LLRNN(vocabulary, output_features=phi, background=background, controller=GRU(6)).double().eval()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def base() -> Background:
    return Discounted.from_corpus(TRAIN)


def rules() -> Inflections:
    return Inflections.learnt(["zebra", "zebras", "cats", "cat", "house", "houses", "okapi", "okapis"], least=1)


def with_recent(inflections: Inflections | None = None, fading: float | None = None) -> LLRNN:
    recent = Recent(WINDOW, fading=fading, inflections=inflections, share=SHARE)
    return model_with(Mixture(base(), recent, weights=[1 - WEIGHT, WEIGHT]))


def log_b(model: LLRNN, word: str) -> float:
    """log b of a string by the background that does not look at the text."""
    symbol, inside = model.vocabulary.locate([word])
    return float(model.background.prior([]).dense(1).log_b[0, int(symbol[0])]) + float(inside[0])


@torch.no_grad()
def by_hand(
    plain: LLRNN, corpus: Corpus, inflections: Inflections | None = None, fading: float | None = None
) -> list[list[float]]:
    """p(x) = p₀(x) r(x) / Σ p₀ r, r(x) = 1 − w + w n(x) / (N b(x)): Σ is 1 − w and what the words before add.

    The sum runs over all strings that the words before speak for, whether a text will have them or not.
    """
    read, found = list[str](), list[list[float]]()
    for sentence in corpus:
        state, fed, row, before = plain.start(), plain.vocabulary.eos, list[float](), read[-WINDOW:]
        f = [1.0 if fading is None else 1 / (1 + d / fading) for d in range(len(before), 0, -1)]
        heard = [*zip(before, f, strict=True)]
        for word in (*sentence.words, "</s>"):
            p, state = plain.step(state, [fed])
            log_p = p.log_probs()[0].numpy()

            def log_plain(one: str, log_p: np.ndarray = log_p) -> float:
                symbol, inside = plain.vocabulary.locate([one])
                return float(log_p[int(symbol[0])] + inside[0])

            counts = defaultdict[str, float](float)
            for one, weight in heard:
                forms = inflections.forms(one) if inflections is not None and TRAIN.counts()[one] <= 2 else {}
                for form, r in (
                    {one: 1 - SHARE} | {x: SHARE * r for x, r in forms.items()} if forms else {one: 1.0}
                ).items():
                    counts[form] += weight * r
            said = math.fsum(counts.values())
            more = {x: WEIGHT * n / said / math.exp(log_b(plain, x)) for x, n in counts.items()}
            # without any word before there is nothing beside the base
            total = math.fsum([1 - WEIGHT, *(math.exp(log_plain(x)) * r for x, r in more.items())])
            row.append(log_plain(word) + math.log((1 - WEIGHT + more.get(word, 0.0)) / total))
            fed = int(plain.vocabulary.id(word))
            read, heard = ([*read, word], [*heard, (word, 1.0)]) if word != "</s>" else (read, heard)
        found.append(row)
    return found


@pytest.mark.parametrize("inflected", [False, True])
@pytest.mark.parametrize("fading", [None, FADING])
def test_it_is_what_the_counts_say_of_all_strings(inflected: bool, fading: float | None) -> None:
    inflections = rules() if inflected else None
    found = word_log_probs(with_recent(inflections, fading), TEXT)
    for one, other in zip(found, by_hand(model_with(base()), TEXT, inflections, fading), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_endings_are_learnt_from_stems_that_have_both() -> None:
    found = rules()
    assert found.rules[""]["s"] == pytest.approx(3 / (n_ends("") + 2))
    assert found.forms("tapir") == pytest.approx({"tapirs": 1.0})
    assert found.forms("ox") == {}
    assert rules().forms("zebra").keys() == {"zebras"}


def n_ends(ending: str) -> int:
    """Words with a stem of four letters or more before an ending."""
    return sum(
        len(word) >= 4 + len(ending) for word in ("zebra", "zebras", "cats", "house", "houses", "okapi", "okapis")
    )


def test_other_forms_of_what_was_read_come_too() -> None:
    plain, inflected = (word_log_probs(with_recent(one), TEXT)[2][4] for one in (None, rules()))
    assert inflected > plain + 1  # zebras, after zebra


def test_a_word_that_was_read_is_listed_with_the_probability_that_it_had() -> None:
    plain, cached = model_with(base()), with_recent()
    ready, read = with_text_words(cached, TEXT)
    assert {"zebra", "okapi", "17", "and"} <= {*ready.vocabulary.words} - {*cached.vocabulary.words}
    ready.background = ready.background.parts[0]  # type: ignore[attr-defined]
    for one, other in zip(word_log_probs(ready, TEXT), word_log_probs(plain, TEXT), strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert with_text_words(plain, TEXT) == (plain, TEXT)
    assert read.conditions[0] == Before(())
    assert read.conditions[2] == Before(("the", "zebra", "eats", "a", "zebra", "sleeps"))


def test_what_was_read_comes_again() -> None:
    first, again = (word_log_probs(with_recent(), TEXT)[i][1] for i in (0, 1))
    assert again > first + 1
    assert [
        str(one)
        for one in complete(with_text_words(with_recent(), TEXT)[0], "", "okap", condition=Before(("okapi",)), k=1)
    ] == ["okapi"]


def test_the_laws_hold() -> None:
    vocabulary = Vocabulary.from_corpus(TRAIN)
    check_background(
        Mixture(base(), Recent(3, fading=2), weights=[0.5, 0.5]),
        vocabulary,
        conditions=(None, "the dog eats", Before(("the", "?"))),
    )


def test_evaluation_reads_a_running_text_and_sums_to_one(tmp_path: Path) -> None:
    model = with_recent(rules(), FADING)
    model.save(tmp_path / "m")
    found = evaluate(load(tmp_path / "m"), TEXT)
    bits = -sum(row.sum() for row in word_log_probs(model, TEXT)) / math.log(2) / TEXT.characters
    assert found.bits_per_character == pytest.approx(bits, abs=1e-9)
    assert not found.audit.problems()


def test_who_reads_a_text_says_how_and_what_was_spelled() -> None:
    """A running text has its words listed as it goes; that they were spelled is said nevertheless."""
    recent, alone = with_recent(), model_with(base())
    spelled = sum(word not in alone.vocabulary for sentence in TEXT for word in sentence.words)
    for model, read in ((recent, "read as one running text"), (alone, "each read by itself")):
        found = repr(evaluate(model, TEXT).sheet())
        assert f"4 sentences, {read})" in found
        assert f"{spelled} words that are not listed were spelled out" in found
        assert "4 sentences, each read by itself, " in str(score(model, TEXT))
    assert evaluate(recent, TEXT).reading == evaluate(alone, TEXT, batching=Continuous(2, 4)).reading == "running text"


def test_a_text_that_is_read_again_is_not_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As epochs do: the same conditions give the same tables, whose masses by class are known; others give others."""
    recent = Recent(4, fading=FADING).bind(with_recent().vocabulary)
    one, same, other = Before(("the", "dog")), Before(("the", "dog")), Before(("a", "cat"))
    asked = [[recent.initial(condition)] for condition in (one, one, same, other, other)]
    tables = [recent.prior(states).tables[0] for states in asked]
    assert tables[0] is tables[1]
    assert tables[3] is tables[4]
    assert torch.equal(tables[0].log_b, tables[2].log_b)
    assert not torch.equal(tables[0].log_b, tables[3].log_b)
    monkeypatch.setattr(primed, "_BYTES_OF_TABLES", 0)  # nothing is kept, and nothing changes
    bare = recent.bind(recent.vocabulary)
    assert torch.equal(bare.prior([bare.initial(one)]).tables[0].log_b, tables[0].log_b)
    assert len(bare._tables) == 0


def test_cells_and_ends_are_no_words_that_come_again() -> None:
    vocabulary = with_recent().vocabulary
    recent = Recent(2).bind(vocabulary)
    state = recent.initial("the dog unlisted")
    assert state == ((vocabulary.id("dog"),), ())
    for symbol in (vocabulary.eos, vocabulary.n_words, vocabulary.id("a"), vocabulary.id("a")):
        state = recent.advance(state, symbol)
    assert state == ((vocabulary.id("dog"),), (vocabulary.id("a"),) * 2)


CONFIG = """
[corpus]
embedded = { train = 60, valid = 10, test = 5 }
[features]
output = [{ kind = "identity", top = 50 }, { kind = "orthographic" }]
[[domains]]
kind = "spelling"
order = 3
[background]
kind = "discounted"
recent = { weight = 0.3, window = 40, inflected = 0.4 }
[controller]
kind = "gru"
hidden = 8
"""


def project(tmp_path: Path, *changes: str) -> Project:
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    return Project.from_config(read_config(path, list(changes)))


def test_a_configuration_reads_running_texts(tmp_path: Path) -> None:
    made = project(tmp_path)
    assert made.background.text_before == 40
    assert all(isinstance(one, Before) for corpus in made.corpora.values() for one in corpus.conditions)
    assert len(made.corpora["train"].conditions[-1].words) == 40  # type: ignore[attr-defined]


MISTAKES: Sequence[tuple[str, str]] = (
    ("background.recent={weight=1.5}", "less than 1"),
    ("background.recent={window=0}", "greater than or equal to 1"),
    ("background.recent={fading=0}", "greater than 0"),
    ("corpus.units='characters'", "units = 'words'"),
)


@pytest.mark.parametrize(("change", "told"), MISTAKES)
def test_mistakes_are_told(tmp_path: Path, change: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        project(tmp_path, change)


def test_mistakes_in_python_are_told() -> None:
    with pytest.raises(BackgroundError, match="a window of 1 or more"):
        Recent(0)
    with pytest.raises(BackgroundError, match="a fading above 0"):
        Recent(fading=0)
    with pytest.raises(CorpusError, match="one word or more"):
        TEXT.running(0)
    with pytest.raises(CorpusError, match="no conditions of their own"):
        TEXT.running(3).running(3)
