"""`Recent`: words of a running text come again. By hand, in float64, over strings: those that nobody listed too."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from llrnn import GRU, LLRNN, Continuous, Corpus, Vocabulary, cli, complete, evaluate, explain, features, load, score
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import BackgroundError, ConfigError, CorpusError, FeatureError
from llrnn.knowledge.backgrounds import Background, Discounted, Inflections, Recent
from llrnn.knowledge.contextual import Again, ContextualFeature
from llrnn.languages.domains import Numbers, Spelling
from llrnn.model.scoring import Sentences
from llrnn.model.testing import check_background, check_contextual
from llrnn.model.words import with_text_words
from llrnn.serve import messages
from llrnn.serve.costs import cost_of
from llrnn.serve.engine import CompleteQuestion, ExplainQuestion, NextQuestion, ScoreQuestion, answered
from llrnn.serve.served import RequestScope, Served
from llrnn.text.conditions import Before
from llrnn.text.encoded import EncodedText
from llrnn.training.schedule import Schedule
from llrnn_lab.studies.open_vocabulary import word_log_probs

TRAIN = Corpus.from_sentences(
    [s.split() for s in ("the cat sleeps here", "a dog sleeps there", "the dog eats", "2 cats eat", "a house sleeps")]
)
TEXT = Corpus.from_sentences(
    [s.split() for s in ("the zebra eats", "a zebra sleeps", "the okapi eats 17 zebras", "okapi and zebra sleeps 17")]
)
WEIGHT, WINDOW, SHARE, FADING = 0.25, 6, 0.4, 3.0


def model_with(background: Background, contextual: Sequence[ContextualFeature] = ()) -> LLRNN:
    """Random weights, in float64; those of contextual features last, so that the others are the same."""
    held = [Numbers("fr"), Spelling(sorted(TRAIN.counts()), order=3, endings=4, longest=2, lengths=(4,))]
    phi = features.Identity(top=4) + features.CellAttributes()
    vocabulary = Vocabulary.from_corpus(TRAIN, domains=held)
    own = {"output_features": phi, "background": background, "controller": GRU(6), "contextual": contextual}
    model = LLRNN(vocabulary, **own).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for _, parameter in sorted(model.named_parameters(), key=lambda one: "context_" in one[0]):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def base() -> Background:
    return Discounted.from_corpus(TRAIN)


def rules() -> Inflections:
    return Inflections.learnt(["zebra", "zebras", "cats", "cat", "house", "houses", "okapi", "okapis"], least=1)


def with_recent(inflections: Inflections | None = None, fading: float | None = None) -> LLRNN:
    mu = WEIGHT / (1 - WEIGHT)
    return model_with(Recent(base(), mu=mu, window=WINDOW, fading=fading, inflections=inflections, share=SHARE))


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
    read = TEXT.running(WINDOW)
    ready = with_text_words(cached, read)
    assert {"zebra", "okapi", "17", "and"} <= {*ready.vocabulary.words} - {*cached.vocabulary.words}
    ready.background = ready.background.base  # type: ignore[attr-defined]
    for one, other in zip(word_log_probs(ready, TEXT), word_log_probs(plain, TEXT), strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert with_text_words(cached, TEXT) is cached  # sentences that stand alone
    assert with_text_words(plain, read) is plain
    assert read.conditions[0] == Before(())
    assert read.conditions[2] == Before(("the", "zebra", "eats", "a", "zebra", "sleeps"))


def test_what_was_read_comes_again() -> None:
    first, again = (word_log_probs(with_recent(), TEXT)[i][1] for i in (0, 1))
    assert again > first + 1
    assert [
        str(one)
        for one in complete(
            with_text_words(with_recent(), TEXT.running(WINDOW)), "", "okap", condition=Before(("okapi",)), k=1
        )
    ] == ["okapi"]


def test_the_laws_hold() -> None:
    vocabulary = Vocabulary.from_corpus(TRAIN)
    check_background(
        Recent(base(), mu=1.0, window=3, fading=2),
        vocabulary,
        conditions=(None, "the dog eats", Before(("the", "?"))),
    )


def test_evaluation_reads_a_running_text_and_sums_to_one(tmp_path: Path) -> None:
    model = with_recent(rules(), FADING)
    model.save(tmp_path / "m")
    found = evaluate(load(tmp_path / "m"), TEXT.running(WINDOW))
    bits = -sum(row.sum() for row in word_log_probs(model, TEXT)) / math.log(2) / TEXT.characters
    assert found.bits_per_character == pytest.approx(bits, abs=1e-9)
    assert not found.audit.problems()


def test_who_reads_a_text_says_how_and_what_was_spelled() -> None:
    """A running text has its words listed as it goes; that they were spelled is said nevertheless."""
    recent, alone = with_recent(), model_with(base())
    spelled = sum(word not in alone.vocabulary for sentence in TEXT for word in sentence.words)
    for model, text, read in (
        (recent, TEXT.running(WINDOW), "running"),
        (recent, TEXT, "alone"),
        (alone, TEXT, "alone"),
    ):
        line = f"reading:{read}|words:{text.tokens + 4}|end:yes|unknown:spelled {spelled}|tokens:given|case:lower|"
        evaluated, scored = evaluate(model, text), score(model, text)
        assert str(evaluated).split("\n")[1].startswith(line)
        assert str(scored).split("\n")[1].startswith(line)
        assert scored.totals()["contract"] == str(evaluated.contract)
        kinds = Counter(kind for one in scored.sentences for kind in one.kinds)
        assert (kinds["spelled"], kinds["number"]) == (spelled - 2, 2)
    assert (
        evaluate(recent, TEXT.running(3)).contract.reading
        == evaluate(alone, TEXT, batching=Continuous(2, 4)).contract.reading
        == "running"
    )


@pytest.mark.parametrize("training", [False, True])
def test_learnt_weights_are_what_the_equation_says(training: bool) -> None:
    """log p = log(b + μ r) + a·φ + a_last [x came last] + a_sentence [x in the sentence] − log Z, word by word."""
    recent = Recent(base(), mu=0.7, kappa=2.5, window=WINDOW, fading=FADING)
    model = model_with(recent, [Again()])
    vocabulary, text = model.vocabulary, TEXT.running(WINDOW)
    log_base = model.background.base.prior([]).dense(1).log_b[0]  # type: ignore[attr-defined]
    n_words = vocabulary.n_words
    encoded = EncodedText.encode(text, vocabulary)
    batch = Sentences().plan(encoded)[0]
    if training:  # as a step of training sees it, with gradients
        batch = replace(batch, sentences=torch.zeros_like(batch.inputs))
        p, _ = model.scan(batch)
    else:
        with torch.no_grad():
            p, _ = model.scan(batch)
    whole = p.log_probs().detach()
    static = p.scores.detach()[:, p.classes.class_of]
    a, row = p.context_adaptor.detach(), 0
    for b, condition in enumerate(batch.conditions or ()):
        words = [(vocabulary.id(w) if w in vocabulary else -1) for w in condition.words]  # type: ignore[attr-defined]
        faded = [(w, 1 / (1 + d / FADING)) for d, w in enumerate(reversed([w for w in words if w >= 0]), 1)]
        inputs = batch.inputs[b][batch.mask[b]].tolist()
        for t, last in enumerate(inputs):
            said = [x for x in inputs[: t + 1] if x != vocabulary.eos and x < n_words]
            n = torch.zeros(len(vocabulary), dtype=torch.float64)
            for w, f in [*faded, *((w, 1.0) for w in said)]:
                n[w] += f
            log_b = (log_base.exp() + 0.7 * n / (n.sum() + 2.5)).log()
            flags = torch.zeros(2, len(vocabulary), dtype=torch.float64)
            flags[0, [w for w in [last] if w in said]] = 1
            flags[1, said] = 1
            value = flags
            expected = torch.log_softmax(log_b + static[row] + a[row] @ value, 0)
            torch.testing.assert_close(whole[row], expected, atol=1e-9, rtol=0)
            row += 1
    torch.testing.assert_close(
        p.log_prob(batch.picked(batch.targets)).detach(), whole.gather(1, batch.picked(batch.targets)[:, None])[:, 0]
    )


def test_where_nothing_was_read_it_is_the_model_without_bit_for_bit() -> None:
    plain, cached = model_with(base()), model_with(Recent(base(), mu=0.7, kappa=2.5), [Again()])
    with torch.no_grad():
        one, _ = plain.step(plain.start(), [plain.vocabulary.eos])
        other, _ = cached.step(cached.start(), [plain.vocabulary.eos])
        words = torch.arange(len(plain.vocabulary))
        assert torch.equal(one.log_prob(words, torch.zeros_like(words)), other.log_prob(words, torch.zeros_like(words)))
        assert torch.equal(one.log_probs(), other.log_probs())


def test_the_laws_of_its_features_hold() -> None:
    vocabulary = Vocabulary.from_corpus(TRAIN)
    recent = Recent(base(), mu=0.7, window=3).bind(vocabulary)
    check_contextual(Again().bind(vocabulary).beside(recent), vocabulary, conditions=(None, Before(("the", "dog"))))
    with pytest.raises(FeatureError, match="needs a background of words that come again"):
        Again().bind(vocabulary).beside(base().bind(vocabulary))


def test_the_ends_of_sentences_make_a_text_of_them() -> None:
    """Steps over an end read what `Corpus.running` reads."""
    recent = Recent(base(), mu=0.7, window=4, fading=FADING).bind(Vocabulary.from_corpus(TRAIN))
    v, state = recent.vocabulary, recent.initial()
    for symbol in (v.eos, v.id("the"), v.id("dog"), v.eos, v.id("a"), v.eos, v.id("dog")):
        state = recent.advance(state, symbol)
    given = recent.advance(recent.initial(Before(("the", "dog", "a"))), v.id("dog"))
    for one, other in zip((state.before.symbols, state.before.n), (given.before.symbols, given.before.n), strict=True):
        assert one == pytest.approx(other)
    assert (state.words, state.last) == (given.words, given.last) == ((v.id("dog"),), v.id("dog"))


def test_few_words_are_read_in_training_and_the_most_by_default() -> None:
    vocabulary = model_with(base()).vocabulary
    recent = Recent(base(), mu=0.7, most=2).bind(vocabulary)
    kept = recent.initial(Before(("cats", "the", "the", "the", "a"))).before
    assert {vocabulary.symbol(one) for one in kept.symbols.tolist()} == {"the", "cats"}
    assert kept.total == 5


def test_weights_are_fitted_to_the_text() -> None:
    """No other μ and κ near them make the text likelier; a text without repetitions gives words before no weight."""
    vocabulary = Vocabulary.from_corpus(TRAIN)
    again = Corpus.from_sentences([["the", "dog", "eats"]] * 4 + [["a", "cat", "sleeps"]] * 4).running(9)
    never = Corpus.from_sentences([[word] for word in sorted(TRAIN.counts())]).running(9)
    often, seldom = (Recent.fitted(base(), one, vocabulary, window=9) for one in (again, never))
    assert often.mu / (9 + often.kappa) > 20 * seldom.mu / (9 + seldom.kappa)


@pytest.mark.parametrize("running", [False, True])
def test_evaluate_and_score_agree(running: bool) -> None:
    model = model_with(Recent(base(), mu=0.7, kappa=2.5, window=WINDOW, fading=FADING), [Again()])
    text = TEXT.running(WINDOW) if running else TEXT
    one, other = evaluate(model, text), score(model, text)
    assert one.log_perplexity == pytest.approx(-other.log_prob / other.words, abs=1e-9)
    assert one.contract == other.contract
    assert one.contract.reading == ("running" if running else "alone")


def test_the_server_and_the_command_line_say_what_the_library_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`before` over HTTP, `--running`, and `Corpus.running`; without `before` a text stands alone."""
    model = model_with(Recent(base(), mu=0.7, kappa=2.5, window=WINDOW, fading=FADING), [Again()])
    expected = [one.log_prob for one in score(model, TEXT.running(WINDOW)).sentences]
    model.save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("".join(f"{' '.join(one.words)}\n" for one in TEXT))
    assert cli.run(["score", str(tmp_path / "m"), str(tmp_path / "t.txt"), "--running", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_prob"] == pytest.approx(sum(expected), abs=1e-6)
    served = Served("m", model)
    for n, (sentence, condition) in enumerate(zip(TEXT, TEXT.running(WINDOW).conditions, strict=True)):
        before = " ".join(word for one in TEXT[:n] for word in one.words)
        assert _scored(served, sentence.words, before) == pytest.approx(expected[n], abs=1e-6)
        (alone,) = score(model, [sentence.words]).sentences
        assert _scored(served, sentence.words, None) == pytest.approx(alone.log_prob, abs=1e-6)
        prefix, word = sentence.words[:-1], sentence.words[-1]
        ready = with_text_words(model, Corpus.from_sentences([*TEXT[:n], prefix]).running(99))
        best = complete(ready, prefix, "", k=4, condition=condition)
        asked = messages.CompleteRequest(prefix=prefix, before=before, k=4)
        (found,) = answered(CompleteQuestion, served, [(asked, RequestScope())])
        assert [one["log_p"] for one in found["best"]] == pytest.approx([one.log_p for one in best], abs=1e-6)
        (found,) = answered(ExplainQuestion, served, [messages.ExplainRequest(prefix=prefix, before=before, word=word)])
        assert found["word"]["log_p"] == pytest.approx(
            explain(ready, prefix=prefix, word=word, condition=condition).log_p, abs=1e-6
        )
    plain, short = messages.NextRequest(prefix="the"), messages.NextRequest(prefix="the", before="the zebra")
    assert cost_of(served, short).begin > cost_of(served, plain).begin + 50
    (wrong,) = answered(NextQuestion, Served("m", model_with(base())), [short])
    assert (wrong.status, wrong.code) == (409, "condition")
    (wrong,) = answered(NextQuestion, served, [short.model_copy(update={"condition": "a"})])
    assert "leave one of them out" in str(wrong)


def _scored(served: Served, words: Sequence[str], before: str | None) -> float:
    """log p of a text by the server."""
    question = ScoreQuestion(served, messages.ScoreRequest(texts=(tuple(words),), before=before))
    for piece in question.pieces():
        question.add(piece)
    return float(question.answer()["scores"][0]["log_prob"])


def test_half_of_the_sentences_are_trained_alone() -> None:
    text = EncodedText.to_train_on(TRAIN.running(9), Vocabulary.from_corpus(TRAIN))
    long = text.select(np.arange(200) % len(text.sentences))
    one, same, other = (
        Schedule(long, (), Vocabulary.from_corpus(TRAIN), 1).text(epoch).conditions for epoch in (0, 0, 1)
    )
    assert one == same != other
    assert 70 < sum(condition is None for condition in one) < 130


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
recent = { window = 40, inflected = 0.4 }
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
    assert {type(one) for one in made.corpora["train"].conditions} == {Before}
    assert {*made.corpora["valid"].conditions} == {None}
    assert [*map(type, made.contextual)] == [Again]
    fixed = project(tmp_path, "background.recent.weight=0.2")
    assert (fixed.background.mu, fixed.contextual) == (0.25, ())  # type: ignore[attr-defined]
    assert project(tmp_path, "background.recent=none").background.text_before == 0
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
    with pytest.raises(BackgroundError, match="a window and a number of words of 1 or more"):
        Recent(base(), mu=1, window=0)
    with pytest.raises(BackgroundError, match="mu > 0"):
        Recent(base(), mu=0)
    with pytest.raises(BackgroundError, match="a fading above"):
        Recent(base(), mu=1, fading=0)
    with pytest.raises(CorpusError, match="one word or more"):
        TEXT.running(0)
    with pytest.raises(CorpusError, match="no conditions of their own"):
        TEXT.running(3).running(3)
