"""Reading print: columns of choices, a channel over all alignments, and a search, against sums and paths one by one."""

from __future__ import annotations

import math
import os
import shutil
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from helpers import shaken, small_corpus
from llrnn import LLRNN, LSTM, Vocabulary, features
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.inference.reading import hocr
from llrnn.inference.reading.channel import OTHER, Channel, read_channel
from llrnn.inference.reading.decoding import Decoder, SearchSettings
from llrnn.inference.reading.hocr import PrintColumn, PrintedLine, corrected, printed_line, read_hocr, recognise
from llrnn.inference.reading.report import places, report
from llrnn.inference.reading.words import WordModel, may_end
from llrnn.knowledge.backgrounds import Background, Discounted, NGram, Recent
from llrnn.knowledge.contextual import Again
from llrnn.languages.domains import Numbers, Spelling
from llrnn.model.completion import NextWords
from llrnn.text.tokenisers import Learnt
from llrnn_lab.studies.channel import fit_channel, forward, log_best, log_prob, paired, posteriors, score_of
from test_cli import Capture, done, refused

PAIRS = [("Le chat dort.", ["Le", "chat", "dort", "."]), ("Le rat rit.", ["Le", "rat", "rit", "."])]
CHANNEL = Channel(
    {"written": 1.5, "below the best": -0.5, "nothing": -1.5, "added": -2.0, "other": -3.0, "t>l": 0.7, "rank 1": -0.4},
    {"t": ["l"]}, (" ", "r"), 60,
)  # fmt: skip


def page(*lines: list[tuple[str, list[list[tuple[str, float]]]]]) -> str:
    """Return hOCR as Tesseract writes it, of lines of words with columns of choices."""
    made = []
    for number, line in enumerate(lines):
        made.append(f"<span class='ocr_line' id='line_1_{number + 1}' title='bbox 0 0 9 9'>")
        for word, columns in line:
            cells = "".join(
                "<span class='ocrx_cinfo' id='lstm_choices_1_1_1'>"
                + "".join(f"<span class='ocrx_cinfo' title='x_confs {x}'>{c}</span>" for c, x in column)
                + "</span>"
                for column in columns
            )
            made.append(f"<span class='ocrx_word' title='bbox 0 0 4 9'>{word}\n{cells}</span>")
        made.append("</span>")
    body = f"<div class='ocr_page'><p class='ocr_par' lang='fra'>{''.join(made)}</p></div>"
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1.dtd">'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{doctype}\n<html><body>{body}</body></html>'


LE = ("Lo", [[("L", 99.0)], [("c", 60.0), ("o", 58.0), ("e", 55.0)]])
RAT = ("ra", [[(" ", 98.0)], [("r", 97.0)], [("a", 96.0)], [("l", 0.0), ("t", 50.0)]])


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf8")
    return path


# --- hOCR


def test_columns_say_what_the_recogniser_wrote_of_them(tmp_path: Path) -> None:
    first, second = read_hocr(written(tmp_path / "a.hocr", page([LE, RAT], [("nu", [])])))
    assert (first.text, first.ends, first.name) == ("Lo ra", (2, 6), "line_1_1")
    assert [column.written for column in first.columns] == ["L", "o", " ", "r", "a", ""]
    assert first.columns[1].choices == (("c", 60.0), ("o", 58.0), ("e", 55.0))
    assert (second.text, second.columns) == ("nu", ())  # nothing to choose from


def test_a_word_without_choices_beside_others_keeps_its_characters(tmp_path: Path) -> None:
    line = read_hocr(written(tmp_path / "a.hocr", page([LE, ("nu", [])])))[0]
    assert [column.choices for column in line.columns[2:]] == [((" ", 100.0),), (("n", 100.0),), (("u", 100.0),)]
    assert line.ends == (2, 5)


BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
HOSTILE = {
    "an entity": (BOMB, "without entities"),
    "no XML": ("<html><body>", "hOCR as Tesseract writes it"),
    "no hOCR": ("<html/>", "found no page"),
    "depth": ("<div class='ocr_page'>" + "<p>" * 200 + "</p>" * 200 + "</div>", "too deep"),
    "width": (page([("a", [[("a", 1.0)]] * 3000)]), "too wide"),
    "choices": (page([("a", [[("a", 1.0)] * 300])]), "too many"),
    "a long choice": (page([("a", [[("a" * 20, 1.0)]])]), "too long"),
    "no number": (page([("a", [[("a", math.nan)]])]), "confidences"),
    "no text": ("\x00\xff", "hOCR as Tesseract writes it"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_none_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    text, said = HOSTILE[kind]
    with pytest.raises(CorpusError, match=said) as found:
        read_hocr(written(tmp_path / "a.hocr", text))
    assert "\n" not in str(found.value)


def test_a_file_with_other_words_is_hocr_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a.hocr", page([LE, RAT]))
    again = written(tmp_path / "b.hocr", corrected(path, [["L&", "rat"]]))
    assert [line.text for line in read_hocr(again)] == ["L& rat"]


# --- the channel


characters = st.sampled_from("tlr e")
columns = st.builds(
    PrintColumn,
    st.lists(st.tuples(characters, st.floats(0, 100)), min_size=1, max_size=3, unique_by=lambda one: one[0]).map(tuple),
    st.sampled_from(["", "t", "l", "r", " "]),
)
lines = st.lists(columns, min_size=1, max_size=3).map(lambda own: PrintedLine("x", tuple(own), (len(own),)))


@given(lines, st.text("tlrxe ", max_size=5))
@settings(max_examples=60)
def test_the_channel_sums_over_all_alignments(line: PrintedLine, text: str) -> None:
    outcomes, total, best = CHANNEL.outcomes(line), 0.0, 0.0
    each = [[*product(one.log_of.items(), one.log_inserted_of.items())] for one in outcomes]
    for one in outcomes:
        assert np.exp(one.log_p).sum() == pytest.approx(1, abs=1e-12)
        assert np.exp(one.log_inserted).sum() == pytest.approx(1, abs=1e-12)
    for path in product(*each):
        spelled = [part for (own, _), (added, _) in path for part in (own, added) if part]
        if len(spelled) != len(text):
            continue
        p = math.exp(sum(a + b for (_, a), (_, b) in path))
        offered = {id(o): {*o.texts, *o.inserted} for o in outcomes}
        assert offered
        places = [(part, t, behind) for t, ((own, _), (added, _)) in enumerate(path)
                  for behind, part in enumerate((own, added)) if part]  # fmt: skip
        for (part, t, behind), character in zip(places, text, strict=True):
            known = outcomes[t].inserted if behind else outcomes[t].texts
            if part == OTHER:
                p *= 0.0 if character in known else 1 / CHANNEL.characters
            elif part != character:
                p = 0.0
        total, best = total + p, max(best, p)
    found = log_prob(CHANNEL, line, text)
    assert found == (-math.inf if total == 0 else pytest.approx(math.log(total), abs=1e-9))
    assert log_best(CHANNEL, line, text) == (-math.inf if best == 0 else pytest.approx(math.log(best), abs=1e-9))


def test_posteriors_are_the_slope_of_log_p() -> None:
    """d log p / d log p(outcome), with outcomes moved one by one."""
    line, text = printed_line([LE, RAT]), "Le rat"
    outcomes = CHANNEL.outcomes(line)
    found = posteriors(outcomes, text, -math.log(60))
    assert found is not None
    for t, (own, added) in enumerate(found):
        assert sum(own.values()) == pytest.approx(1)
        assert sum(added.values()) == pytest.approx(1)
        for name, mass in own.items():
            moved = [*outcomes]
            raised = outcomes[t].log_p + 1e-6 * np.array([other == name[:1] for other in outcomes[t].texts])
            moved[t] = type(outcomes[t])(outcomes[t].texts, raised, outcomes[t].inserted, outcomes[t].log_inserted)
            slope = (forward(moved, text, -math.log(60))[1] - forward(outcomes, text, -math.log(60))[1]) / 1e-6
            same = sum(part for other, part in own.items() if other[:1] == name[:1])
            assert slope == pytest.approx(same if name[:1] == OTHER else mass, abs=1e-4)


def confused(text: str) -> PrintedLine:
    """A line in which a recogniser takes every t for l, and is sure of it."""
    seen = [[("l", 90.0), ("t", 40.0)] if c == "t" else [(c, 99.0)] for c in text]
    return PrintedLine(text.replace("t", "l"), tuple(PrintColumn(tuple(one), one[0][0]) for one in seen), (len(text),))


def test_a_channel_learns_what_is_confused_and_is_saved_sealed(tmp_path: Path) -> None:
    texts = ["tout est dit", "le rat tette", "la tante rit", "il est tard"] * 5
    made = fit_channel([(confused(text), text) for text in texts])
    line = confused("petit")
    assert log_prob(made, line, "petit") > log_prob(made, line, "pelil")
    assert log_prob(CHANNEL, line, "petit") < log_prob(CHANNEL, line, "pelil")
    made.save(tmp_path / "channel.json")
    again = read_channel(tmp_path / "channel.json")
    assert log_prob(again, line, "petit") == pytest.approx(log_prob(made, line, "petit"), abs=0.01)
    text = (tmp_path / "channel.json").read_text(encoding="utf8")
    for wrong in (text.replace('"characters": ', '"characters": 1'), "{}", "[1]", "nonsense"):
        written(tmp_path / "channel.json", wrong)
        with pytest.raises(ConfigError, match="a channel is required"):
            read_channel(tmp_path / "channel.json")


def with_noise(text: str, digit: str) -> PrintedLine:
    """A line with a digit behind every m and a full stop behind all, which are seen for sure like the others."""
    seen = f"{text.replace('m', f'm{digit}')}."
    return PrintedLine(seen, tuple(PrintColumn(((c, 97.0),), c) for c in seen), (len(seen),))


def test_a_channel_learns_which_characters_are_nothing_by_their_kind_and_by_what_follows() -> None:
    texts = ["Le chat me mime. Ou", "Il est mat. Moi", "Une dame. Rime"] * 8
    made = fit_channel([(with_noise(text, "12345678"[n % 8]), text) for n, text in enumerate(texts)])
    unseen, _, inside, _, _, digit, end = (one.log_of[""] for one in made.outcomes(with_noise("za. m", "9")))
    assert digit > unseen + 2
    assert end > inside + 2


def test_the_channel_that_comes_with_the_library_trusts_what_is_sure() -> None:
    line = printed_line([LE, RAT])
    assert log_prob(Channel.default(), line, "Le rat") > log_prob(Channel.default(), line, "Xx yyy") + 5
    with pytest.raises(CorpusError, match="true text"):
        fit_channel([])


def test_lines_are_paired_with_their_texts() -> None:
    seen = [PrintedLine(text) for text in (". . .", "Le chal dorl.", "Le rat rit.")]
    assert [text for _, text in paired(seen, ["Le chat dort.", "Le rat rit."])] == ["Le chat dort.", "Le rat rit."]


# --- the model's side


@cache
def model(kind: str = "recent") -> LLRNN:
    corpus = small_corpus().lowercased()
    types = tuple(sorted(word for word in corpus.counts() if word.isalpha()))
    held = [Numbers("fr"), Spelling(types, order=3, endings=6, longest=2, lengths=(4,))]
    vocabulary = Vocabulary.from_corpus(corpus, domains=held, as_new=0.5)
    phi = features.Identity(top=30) + features.CellAttributes() + features.Suffixes(2, min_count=3).of_listed()
    base: Background = Discounted.from_corpus(corpus)
    if kind == "recent":
        base = Recent(base, mu=0.4, kappa=3.0, window=8)
    if kind == "ngram":
        base = NGram.from_corpus(corpus, order=2, folds=0)
        vocabulary, phi = Vocabulary.from_corpus(corpus), features.Identity(top=30) + features.Suffixes(2)
    again = [Again()] if kind == "recent" else []
    made = LLRNN(vocabulary, output_features=phi, background=base, controller=LSTM(8), contextual=again)
    shaken(made, 0.4)
    lowercase = {"config": {"corpus": {"lowercase": True, "tokeniser": "learnt"}}}
    made.provenance = {**lowercase, "tokeniser": Learnt.fit(PAIRS * 3).saved()}
    return made.double().eval().requires_grad_(False)


@pytest.mark.parametrize("kind", ["recent", "static", "ngram"])
def test_a_row_knows_p_of_words_and_bounds_what_begins(kind: str) -> None:
    """Listed words to the digit, and above all strings of the domains."""
    words = WordModel(model(kind))
    row = words.start
    prefix: list[str] = []
    for word in ("le", "chat", "zinzolin", "1984"):
        distribution = model(kind).step(model(kind).start(), [words.vocabulary.eos])
        for read in prefix:
            distribution = model(kind).step(distribution[1], [words.vocabulary.id(read)])
        asked = NextWords(model(kind), distribution[0])
        for own in ("le", "chat", "dort", "zinzolin", "xyz", "12"):
            symbols, inside = words.vocabulary.find([own])
            if symbols[0] >= 0:
                assert words.log_p(row, own) == pytest.approx(float(asked.log_p(symbols)[0] + inside[0]), abs=1e-6)
                assert all(words.log_mass(row, own[:i]) >= words.log_p(row, own) - 1e-9 for i in range(len(own) + 1))
        for letters in ("l", "le", "ch", "zi", "1"):
            exact = asked.log_mass(letters)
            assert words.log_mass(row, letters) >= exact - 1e-9
            if kind == "ngram":
                assert words.log_mass(row, letters) == pytest.approx(exact, abs=1e-9)
        if words.vocabulary.find([word])[0][0] < 0:
            break
        prefix.append(word)
        row = words.behind(row, word)
        words.ready([row])


# --- the search


@cache
def log_p_of(
    text: str, ends: tuple[bool, ...], written: tuple[tuple[str, float], ...] = (), rest: float = 1.0
) -> float:
    """log p of a text by the model itself, its words one after the other: where a sentence may end, as `ends` says.

    Mixed with masses of chunks as they are `written`, `rest` being the model's share.
    """
    own, said = model(), list(ends)
    distribution, state = own.step(own.start(), [own.vocabulary.eos])
    total, begins = 0.0, True
    casing = own.tokeniser.casing  # type: ignore[attr-defined]
    for chunk in text.split():
        before, total, cut = total, 0.0, own.tokeniser.tokenise(chunk)
        for word in cut:
            small = own.tokeniser.lower(word)
            ids, inside = own.vocabulary.find([small])
            total += float(NextWords(own, distribution).log_p(ids)[0] + inside[0])
            cased = word.lower() != word.upper()
            p = casing.p(word, first=begins and cased)
            total += math.log(p) if p else math.log(1e-5)
            begins = begins and not cased
            distribution, state = own.step(state, [int(ids[0])])
        if may_end(cut) and said.pop(0):
            total += float(NextWords(own, distribution).log_p(np.array([own.vocabulary.eos]))[0])
            distribution, state = own.step(own.start(), [own.vocabulary.eos])
            begins = True
        mass = dict(written).get(chunk, 0.0) / (2 if may_end(cut) else 1)
        total = before + math.log(rest * math.exp(total) + mass)
    return total


SEEN = [
    PrintColumn((("L", 60.0), ("l", 55.0)), "L"),
    PrintColumn((("a", 60.0), ("e", 70.0)), "a"),
    PrintColumn(((" ", 90.0), (".", 30.0)), " "),
    PrintColumn((("t", 60.0), (".", 50.0)), "t"),
]


@pytest.mark.parametrize(
    ("weight", "per_word", "share"),
    [(0.0, 0.0, 0.1), (0.7, 0.5, 0.0), (1.5, -1.0, 0.0), (0.7, 0.5, 0.3), (1.5, 0.0, 0.9)],
)
def test_the_search_finds_the_best_of_all_paths(weight: float, per_word: float, share: float) -> None:
    """All outcomes of all columns of two lines, all ends of sentences, each scored by the model itself."""
    written = (("La", share / 2 * 1e-8), (".", share / 2))  # two chunks: a word, and a sign
    pair = [PrintedLine("La", tuple(SEEN[:2]), (2,)), PrintedLine(".", tuple(SEEN[2:]), (2,))]
    texts: dict[str, float] = {}
    parts = []
    for line in pair:
        found: dict[str, tuple[float, str]] = {}
        each = [[*product(o.log_of.items(), o.log_inserted_of.items())] for o in CHANNEL.outcomes(line)]
        for path in product(*each):
            text = "".join(own + added for (own, _), (added, _) in path)
            if OTHER not in text:
                log = sum(a + b for (_, a), (_, b) in path)
                found[" ".join(text.split())] = max(found.get(" ".join(text.split()), (-math.inf, "")), (log, text))
        parts.append(found)
    for (first, (a, _)), (second, (b, _)) in product(parts[0].items(), parts[1].items()):
        text = f"{first}\n{second}"
        stops = sum(may_end(model().tokeniser.tokenise(c)) for c in text.split())
        told = (
            max(log_p_of(text, ends, written, 1 - share) for ends in product((False, True), repeat=stops))
            if weight
            else 0.0
        )
        texts[text] = a + b + weight * told + per_word * len(text.split())
    best = max(texts.values())
    decoder = Decoder(WordModel(model()), CHANNEL, SearchSettings(weight, per_word, 200.0, 5000, 5000, share))
    found_lines, score = decoder.search(pair)
    assert score == pytest.approx(best, abs=1e-6)
    assert texts["\n".join(line.text for line in found_lines)] == pytest.approx(best, abs=1e-6)
    raw = [part[text][1] for part, text in zip(parts, max(texts, key=texts.__getitem__).split("\n"), strict=True)]
    assert score_of(decoder, pair, raw) == pytest.approx(best, abs=1e-6)


def test_a_line_without_choices_stays_and_is_counted() -> None:
    pair = [PrintedLine("Le chal"), printed_line([LE, RAT])]
    found = Decoder(WordModel(model()), CHANNEL).read(pair)
    assert (found[0].text, found[0].outcomes) == ("Le chal", ())
    told = report(model(), CHANNEL, "p", found)
    assert told.kept == 1
    assert places(found[0]) == ["Le", "chal"]
    assert {change.line for change in told.changes} <= {2}


def test_a_users_word_is_read_where_it_was_not(tmp_path: Path, capsys: Capture) -> None:
    """The positive control of a list: the same page, with the word and without."""
    seen = ("Zinzolot", [[(c, 99.0)] for c in "Zinzolo"] + [[("t", 60.0), ("l", 59.5)]])
    path = written(tmp_path / "a.hocr", page([seen]))
    model().float().save(tmp_path / "run")
    model().double()
    written(tmp_path / "words.txt", "Zinzolol\n")
    texts = []
    for name, more in (("plain", []), ("own", ["--words", str(tmp_path / "words.txt")])):
        done(capsys, "read", str(tmp_path / "run"), str(path), "--out", str(tmp_path / name), "--weight", "0.4", *more)
        texts.append((tmp_path / name / "a.txt").read_text(encoding="utf8"))
        assert "<table" in (tmp_path / name / "report.html").read_text(encoding="utf8")
        assert read_hocr(tmp_path / name / "a.hocr")[0].text == texts[-1].strip()
    assert texts[0] != texts[1] == "Zinzolol\n"


# --- the command


def test_mistakes_are_refused_in_one_line(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    model().float().save(tmp_path / "run")
    model().double()
    image = written(tmp_path / "a.png", "no picture")
    assert "--lang tur" in refused(capsys, "read", str(tmp_path / "run"), str(image))
    assert "Tesseract's names" in refused(capsys, "read", str(tmp_path / "run"), str(image), "--lang", "-c x")
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refused(capsys, "read", str(tmp_path / "run"), str(image), "--lang", "tur", "--out", str(tmp_path / "o"))
    assert "apt-get install tesseract-ocr tesseract-ocr-tur" in said


def test_a_channel_is_fitted_to_pages_with_their_texts(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "truth").mkdir()
    path = written(tmp_path / "a.hocr", page(*[[LE, RAT]] * 6))
    written(tmp_path / "truth" / "a.txt", "Le rat\n" * 6)
    fitted = ["--truth", str(tmp_path / "truth"), "--out", str(tmp_path / "channel.json")]
    assert "6 lines" in done(capsys, "experiment", "channel", str(path), *fitted)
    own = read_channel(tmp_path / "channel.json")
    assert log_prob(own, printed_line([LE, RAT]), "Le rat") > math.log(0.5)


def require_tesseract() -> None:
    """Without it these tests are skipped; where tests must be complete, that is an error."""
    if shutil.which("tesseract") is None and "CI" not in os.environ:
        pytest.skip("tesseract is not installed: scripts/system-packages")


def test_tesseract_gives_choices(tmp_path: Path) -> None:
    require_tesseract()
    font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf", 30)
    image = Image.new("L", (520, 90), 255)
    ImageDraw.Draw(image).text((20, 25), "Le petit rat dort.", font=font, fill=0)
    image.save(tmp_path / "a.png")
    line = read_hocr(recognise(tmp_path / "a.png", "fra", tmp_path))[0]
    assert line.text == "Le petit rat dort."
    assert "".join(column.written for column in line.columns) == line.text
    assert any(len(column.choices) > 1 for column in line.columns)
    with pytest.raises(ConfigError, match="install tesseract-ocr-xyz"):
        recognise(tmp_path / "a.png", "xyz", tmp_path)
    assert hocr.MOST_BYTES > 0
