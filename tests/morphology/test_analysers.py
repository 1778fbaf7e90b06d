"""Analysers behind one seam: each against a fake of its tool and, where that is installed, the tool itself."""

from __future__ import annotations

import importlib.util
import math
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn import cli, features
from llrnn.ground.errors import ConfigError, LexiconError, MissingExtraError
from llrnn.model.testing import check_features
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Probabilities, Readings, without_lemmas
from llrnn.text.morphology import Analyser, analyser_named
from llrnn.text.vocabulary import Vocabulary
from llrnn_morphology import Hfst, UniMorph

Capture = pytest.CaptureFixture[str]
Entries = Mapping[str, Mapping[frozenset[str], float]]


def said(analyser: Analyser, form: str) -> dict[str, Any]:
    """Readings as text, the attributes sorted."""
    return {" ".join(sorted(reading)): pytest.approx(weight) for reading, weight in analyser(form).items()}


def needs(module: str) -> pytest.MarkDecorator:
    there = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not there, reason=f"{module} is not installed: pip install llrnn[{module}]")


# Fakes: as much of the interface of each tool as is asked for.


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:end]))
        if end == len(parts):
            module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def of_zeyrek(lemma: str, chain: str, special: str = "None") -> SimpleNamespace:
    morphemes = [(SimpleNamespace(id_=one), "") for one in chain.split()]
    item = SimpleNamespace(lemma=lemma, secondary_pos=SimpleNamespace(value=special))
    return SimpleNamespace(dict_item=item, morphemes=morphemes)


def test_zeyrek(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "evlerimizden": [of_zeyrek("ev", "Noun A3pl P1pl Abl")],
        "koyunu": [of_zeyrek("koyun", "Noun A3sg Acc"), of_zeyrek("koy", "Noun A3sg P2sg Acc")],
        "yapılacağını": [of_zeyrek("yapmak", "Verb Pass Verb FutPart Noun A3sg P3sg Acc")],
        "gözlükçü": [of_zeyrek("gözlük", "Noun A3sg Agt Noun A3sg")],
        "ankara'da": [of_zeyrek("Ankara", "Noun A3sg Loc", "Prop")],
        "hızlıca": [None, of_zeyrek("hız", "Noun A3sg With Adj Ly Adv")],
    }
    tool = SimpleNamespace(_parse=lambda form: known.get(form, []))
    fake(monkeypatch, "zeyrek", MorphAnalyzer=lambda: tool)
    zeyrek = analyser_named("zeyrek")
    assert said(zeyrek, "evlerimizden") == {
        "Case:Abl Lemma:ev Number:Plur Number[psor]:Plur POS:NOUN Person:3 Person[psor]:1": 1
    }
    assert list(zeyrek("koyunu").values()) == [0.5, 0.5]
    assert said(zeyrek, "yapılacağını") == {
        "Aspect:Perf Case:Acc Lemma:yapmak Mood:Ind Number:Sing Number[psor]:Sing POS:VERB Person:3 Person[psor]:3 "
        "Polarity:Pos Tense:Fut VerbForm:Part Voice:Pass": 1
    }
    assert said(zeyrek, "gözlükçü") == {"Case:Nom Derivation:Agt Lemma:gözlük Number:Sing POS:NOUN Person:3": 1}
    assert said(zeyrek, "ankara'da") == {"Case:Loc Lemma:ankara Number:Sing POS:PROPN Person:3": 1}
    assert said(zeyrek, "hızlıca") == {"Derivation:Ly Derivation:With Lemma:hız POS:ADV": 1}
    assert zeyrek("xyz") == {}


@needs("zeyrek")
def test_zeyrek_itself(caplog: pytest.LogCaptureFixture) -> None:
    zeyrek = analyser_named("zeyrek")
    assert said(zeyrek, "evlerimizden") == {
        "Case:Abl Lemma:ev Number:Plur Number[psor]:Plur POS:NOUN Person:3 Person[psor]:1": 1
    }
    assert {"POS:VERB", "Tense:Pres", "Person:1", "Lemma:gitmek"} <= next(iter(zeyrek("gidiyorum")))
    assert zeyrek("qqqxq") == {}
    assert not caplog.records  # it would tell of every reading


def of_vabamorf(form: str, **options: bool) -> list[dict[str, Any]]:
    assert options == {"disambiguate": False, "guess": False, "propername": False}
    known = {
        "majadele": [("maja", "maja", "S", "pl all")],
        "peaks": [("pea", "pea", "S", "sg tr"), ("pidama", "pida", "V", "ks")],
        "raudteejaama": [("raudteejaam", "raud_tee_jaam", "S", "adt"), ("raudteejaam", "raud_tee_jaam", "S", "sg g")],
        "loetakse": [("lugema", "luge", "V", "takse")],
    }
    names = ("lemma", "root", "partofspeech", "form")
    return [dict(zip(names, one, strict=True)) for one in known.get(form, [])]


def test_vabamorf(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = SimpleNamespace(analyze=lambda words, **given: [{"analysis": of_vabamorf(one, **given)} for one in words])
    fake(monkeypatch, "estnltk.vabamorf.morf", Vabamorf=SimpleNamespace(instance=lambda: tool))
    vabamorf = analyser_named("estnltk")
    assert said(vabamorf, "majadele") == {"Case:All Lemma:maja Number:Plur POS:NOUN": 1}
    assert said(vabamorf, "peaks") == {
        "Case:Tra Lemma:pea Number:Sing POS:NOUN": 0.5,
        "Lemma:pidama Mood:Cnd POS:VERB Tense:Pres VerbForm:Fin Voice:Act": 0.5,
    }
    assert said(vabamorf, "raudteejaama") == {
        "Case:Add Compound:jaam Lemma:raudteejaam Number:Sing POS:NOUN": 0.5,
        "Case:Gen Compound:jaam Lemma:raudteejaam Number:Sing POS:NOUN": 0.5,
    }
    assert said(vabamorf, "loetakse") == {"Lemma:lugema Mood:Ind POS:VERB Tense:Pres VerbForm:Fin Voice:Pass": 1}
    assert vabamorf("xyz") == {}


@needs("estnltk")
def test_vabamorf_itself() -> None:
    vabamorf = analyser_named("estnltk")
    assert said(vabamorf, "majadele") == {"Case:All Lemma:maja Number:Plur POS:NOUN": 1}
    assert len(vabamorf("peaks")) == 2
    assert vabamorf("xyzq") == {}


def of_voikko(lemma: str, kind: str, **said: str) -> SimpleNamespace:
    fields = "SIJAMUOTO COMPARISON MOOD NUMBER PERSON TENSE FOCUS POSSESSIVE NEGATIVE PARTICIPLE"
    names = fields.split()
    return SimpleNamespace(**{"BASEFORM": lemma, "CLASS": kind, **dict.fromkeys(names)} | said)


def test_voikko(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_voikko("talo", "nimisana", SIJAMUOTO="sisaolento", NUMBER="plural", POSSESSIVE="1s")
    fake(monkeypatch, "pyvoikko", analyse=lambda form: [found] if form == "taloissani" else [])
    voikko = analyser_named("pyvoikko")
    assert said(voikko, "taloissani") == {
        "Case:Ine Lemma:talo Number:Plur Number[psor]:Sing POS:NOUN Person[psor]:1": 1
    }
    assert voikko("xyz") == {}


@needs("pyvoikko")
def test_voikko_itself() -> None:
    voikko = analyser_named("pyvoikko")
    assert said(voikko, "taloissani") == {
        "Case:Ine Lemma:talo Number:Plur Number[psor]:Sing POS:NOUN Person[psor]:1": 1
    }
    assert len(voikko("alusta")) == 5


class Tag(frozenset[str]):
    @property
    def grammemes(self) -> frozenset[str]:
        return self


def of_pymorphy(lemma: str, score: float, tag: str) -> SimpleNamespace:
    return SimpleNamespace(normal_form=lemma, score=score, tag=Tag(tag.split()))


def test_pymorphy(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "стали": [
            of_pymorphy("стать", 0.96, "VERB perf intr plur past indc"),
            of_pymorphy("сталь", 0.02, "NOUN inan femn sing gent"),
            of_pymorphy("сталь", 0.02, "NOUN inan femn sing gent"),
        ],
        "пети": [of_pymorphy("петя", 1.0, "NOUN anim masc Name sing gent")],
        "xyz": [of_pymorphy("xyz", 1.0, "UNKN")],
    }

    def made(lang: str) -> SimpleNamespace:
        if lang != "ru":
            raise ValueError("no dictionaries")
        return SimpleNamespace(parse=lambda form: known.get(form, []))

    fake(monkeypatch, "pymorphy3", MorphAnalyzer=made)
    pymorphy = analyser_named("pymorphy3")
    assert said(pymorphy, "стали") == {
        "Aspect:Perf Lemma:стать Mood:Ind Number:Plur POS:VERB Tense:Past VerbForm:Fin": 0.96,
        "Animacy:Inan Case:Gen Gender:Fem Lemma:сталь Number:Sing POS:NOUN": 0.04,
    }
    assert said(pymorphy, "пети") == {"Animacy:Anim Case:Gen Gender:Masc Lemma:петя Number:Sing POS:PROPN": 1}
    assert pymorphy("xyz") == {}
    with pytest.raises(LexiconError, match="pip install pymorphy3-dicts-xx"):
        analyser_named("pymorphy3:xx")


@needs("pymorphy3")
def test_pymorphy_itself() -> None:
    found = analyser_named("pymorphy3")("стали")
    assert math.fsum(found.values()) == pytest.approx(1)
    assert {"POS:VERB", "Lemma:стать"} <= max(found, key=lambda reading: found[reading])
    with pytest.raises(LexiconError, match="pip install pymorphy3-dicts-xx"):
        analyser_named("pymorphy3:xx")


LOOKUP = {
    "guoli": [["guolli+N+Sg+Gen", 1.0], ["guolli+N+Sg+Acc", 1.0 + math.log(3)]],
    "bargoguolli": [["bargu+N+Cmp#guolli+N+Sg+Nom", 0.0]],
    "evler": [["ev<n><pl><nom>", 0.0]],
    "+": [["+", 0.0]],
    "odda": [["ođas+A+Attr", 0.0]],
}


def test_hfst(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SimpleNamespace(lookup=lambda form: LOOKUP.get(form, []))
    fake(monkeypatch, "pyhfst", HfstInputStream=lambda path: SimpleNamespace(read=lambda: read))
    hfst = analyser_named("hfst:sme.hfstol")
    assert said(hfst, "guoli") == {
        "Case:Gen Lemma:guolli Number:Sing POS:NOUN": 0.75,
        "Case:Acc Lemma:guolli Number:Sing POS:NOUN": 0.25,
    }
    assert said(hfst, "bargoguolli") == {"Case:Nom Lemma:bargu+n+cmp#guolli Number:Sing POS:NOUN": 1}
    assert said(hfst, "evler") == {"Case:Nom Lemma:ev Number:Plur POS:NOUN": 1}
    assert said(hfst, "+") == {"Lemma:+": 1}
    assert said(hfst, "odda") == {"Lemma:ođas POS:ADJ Tag:Attr": 1}
    assert said(Hfst("x", tags={"Attr": "Use:Attr"}), "odda") == {"Lemma:ođas POS:ADJ Use:Attr": 1}


def lookup_file() -> bytes:
    """A transducer in optimised lookup: `a` is a+N+Sg at a cost of 0.5, and a+V at 1.5."""
    symbols = ["@_EPSILON_SYMBOL_@", "a", "+N", "+Sg", "+V"]
    none, nowhere, table = 65535, 2**32 - 1, 2**31
    index = [(none, nowhere), (none, nowhere), (1, table)] + [(none, nowhere)] * 5  # state 0: `a` at transition 0
    arcs = [
        (1, 1, table + 2, 0.0),  # 0, of state 0
        (none, none, nowhere, 0.0),
        (none, none, nowhere, 0.0),  # 2: after a
        (0, 2, table + 6, 0.5),
        (0, 4, table + 9, 1.5),
        (none, none, nowhere, 0.0),
        (none, none, nowhere, 0.0),  # 6: after +N
        (0, 3, table + 9, 0.0),
        (none, none, nowhere, 0.0),
        (none, none, 1, 0.0),  # 9: the end
        (none, none, nowhere, 0.0),
    ]
    header = struct.pack("<HHIIII9I", 2, len(symbols), len(index), len(arcs), 4, 4, 1, *[0] * 8)
    alphabet = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    tables = b"".join(struct.pack("<HI", *one) for one in index) + b"".join(struct.pack("<HHIf", *one) for one in arcs)
    return header + alphabet + tables


@needs("pyhfst")
def test_hfst_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.hfstol"
    path.write_bytes(lookup_file())
    total = math.exp(-0.5) + math.exp(-1.5)
    assert said(Hfst(path), "a") == {
        "Lemma:a Number:Sing POS:NOUN": math.exp(-0.5) / total,
        "Lemma:a POS:VERB": math.exp(-1.5) / total,
    }
    assert Hfst(path)("b") == {}
    (tmp_path / "b.hfstol").write_bytes(b"no transducer")
    with pytest.raises(LexiconError, match="optimised lookup format is required"):
        Hfst(tmp_path / "b.hfstol")
    with pytest.raises(LexiconError, match="cannot be read: No such file"):
        Hfst(tmp_path / "c.hfstol")


def test_unimorph(tmp_path: Path) -> None:
    path = tmp_path / "tur"
    path.write_text("ev\tevler\tN;NOM;PL\nEv\tEvler\tN;NOM;PL\nolmak\toldum\tV;{1/3};PST;LGSPEC1\n", encoding="utf8")
    unimorph = analyser_named(f"unimorph:{path}")
    assert said(unimorph, "evler") == {"Case:Nom Lemma:ev Number:Plur POS:NOUN": 1}
    assert said(unimorph, "oldum") == {"Lemma:olmak POS:VERB Person:1 Person:3 Tag:LGSPEC1 Tense:Past": 1}
    path.write_text("ev\tevler\n", encoding="utf8")
    with pytest.raises(LexiconError, match="found 2 columns"):
        UniMorph(path)
    path.write_text("\n", encoding="utf8")
    with pytest.raises(LexiconError, match="no entry"):
        UniMorph(path)


AFF = "SET UTF-8\nSFX A Y 2\nSFX A 0 ler .\nSFX A 0 de . is:loc\nPFX B Y 1\nPFX B 0 re .\n"


def test_hunspell_of_any_language(tmp_path: Path) -> None:
    (tmp_path / "xx.aff").write_text(AFF, encoding="utf8")
    (tmp_path / "xx.dic").write_text("3\nev/AB po:noun st:ev\nsu\nsude\n", encoding="utf8")
    found = analyser_named(f"hunspell:{tmp_path}/xx.dic").table(["Evler", "evde", "reevde", "su", "sude", "xyz"])
    table = {form: [" ".join(sorted(one)) for one in own] for form, own in found.entries.items()}
    assert table == {
        "evler": ["Affix:-ler Lemma:ev po:noun"],
        "evde": ["Affix:-de Lemma:ev is:loc po:noun"],
        "reevde": ["Affix:-de Affix:re- Lemma:ev is:loc po:noun"],
        "su": ["Affix:- Lemma:su"],
        "sude": ["Affix:- Lemma:sude"],
    }
    assert said(analyser_named(f"hunspell:{tmp_path}/xx.dic"), "evler") == {"Affix:-ler Lemma:ev po:noun": 1}


@pytest.mark.parametrize("name", ["zeyrek", "estnltk", "pyvoikko", "pymorphy3", "hfst:x"])
def test_a_tool_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    package = {"hfst:x": "pyhfst"}.get(name, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"needs {package}, .*: pip install 'llrnn\\[{package}\\]'"):
        analyser_named(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody", "an analyser is zeyrek, "), ("hfst", "hfst:FILE"), ("zeyrek:file", "takes no file"), ("", "found ''")],
)
def test_names_of_nobody(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        analyser_named(name)


# The seam.


class Hand(Analyser):
    """koyunu: his sheep 2, the sheep 1, his bay 1; a reading that comes twice counts twice."""

    def readings(self, form: str) -> Iterator[tuple[str | None, Iterable[str], float]]:
        if form == "koyunu":
            yield "koyun", ["POS:NOUN", "Person[psor]:3", "Case:Nom"], 1.5
            yield "koyun", ["POS:NOUN", "Person[psor]:3", "Case:Nom"], 0.5
            yield "koyun", ["POS:NOUN", "Case:Acc"], 1.0
            yield "Koy", ["POS:NOUN", "Person[psor]:3", "Case:Acc"], 1.0
        if form == "ve":
            yield None, ["POS:CCONJ"], 7.0


def test_weights_by_hand(tmp_path: Path) -> None:
    found = Hand()("koyunu")
    assert found[frozenset({"Lemma:koyun", "POS:NOUN", "Person[psor]:3", "Case:Nom"})] == 0.5
    assert math.fsum(found.values()) == 1
    table = Hand().table(["koyunu", "ve", "xyz", "ve"])
    assert len(table) == 2
    phi = Probabilities(table)
    assert phi("koyunu") == {
        "p(Case:Acc)": 0.5,
        "p(Case:Nom)": 0.5,
        "p(POS:NOUN)": 1.0,
        "p(Person[psor]:3)": 0.75,
    }
    assert phi("ve") == {"p(POS:CCONJ)": 1.0}
    assert phi("xyz") == {}
    assert Probabilities(table, without=["Kind"])("koyunu")["p(Lemma:koyun)"] == 0.75
    assert Probabilities(table, levels=1)("koyunu") == dict.fromkeys(phi("koyunu"), 1.0)
    assert Probabilities(table, levels=2)("koyunu")["p(Person[psor]:3)"] == 1.0
    kinds = {name: value for name, value in Probabilities(table, without=())("koyunu").items() if "Kind" in name}
    assert kinds == {
        "p(Kind:Case:Nom+POS:NOUN+Person[psor]:3)": 0.5,
        "p(Kind:Case:Acc+POS:NOUN)": 0.25,
        "p(Kind:Case:Acc+POS:NOUN+Person[psor]:3)": 0.25,
    }
    with pytest.raises(LexiconError, match="1 or more"):
        Probabilities(table, levels=0)
    # the union, and the file that stands in for the tool
    assert table.lexicon()("koyunu") == {"POS:NOUN", "Case:Nom", "Case:Acc", "Person[psor]:3"}
    assert "Lemma:koy" in table.lexicon(lemmas=True)("koyunu")
    table.to_tsv(tmp_path / "r.tsv")
    assert analyser_named(f"readings:{tmp_path}/r.tsv")("koyunu") == found


READINGS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.dictionaries(
        st.frozensets(st.sampled_from(["A:1", "B:1", "C:1", "Lemma:x", "Lemma:y"]), min_size=1),
        st.floats(0.1, 10.0),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
)


@given(READINGS, st.integers(1, 8))
def test_probabilities_are_probabilities(entries: Entries, levels: int) -> None:
    table = Readings(entries)
    union = table.lexicon(lemmas=True)
    for form, own in entries.items():
        exact = Probabilities(table, without=())(form)
        assert {name[2:-1] for name in exact if "Kind:" not in name} == union(form)
        assert all(0 < value <= 1 for value in exact.values())
        assert math.fsum(value for name, value in exact.items() if "Kind:" in name) == pytest.approx(1)
        for name, value in Probabilities(table, without=(), levels=levels)(form).items():
            assert value * levels == round(value * levels) >= 1
            assert abs(value - exact[name]) <= max(1 / levels - exact[name], 0.5 / levels + 1e-9)
        certain = set.intersection(*map(set, own))
        assert {name for name in certain if exact[f"p({name})"] > 1 - 1e-9} == certain


def likelihood(entries: Entries, fitted: Readings, counts: dict[str, int]) -> float:
    """By brute force: what EM makes larger, for the π that the fitted weights imply: the log-likelihood of the text,
    and of a thousandth of a word for every reading."""
    kinds = {without_lemmas(one) for own in entries.values() for one in own}
    size = {kind: sum(without_lemmas(one) == kind for own in entries.values() for one in own) for kind in kinds}
    pi = dict.fromkeys(kinds, 0.0)
    for form, own in fitted.entries.items():
        for reading, weight in own.items():
            pi[without_lemmas(reading)] += counts.get(form, 0) * weight + 1e-3
    total = sum(pi.values())
    return sum(
        counts.get(form, 0)
        * math.log(sum(w * pi[without_lemmas(one)] / total / size[without_lemmas(one)] for one, w in own.items()))
        for form, own in entries.items()
    ) + sum(1e-3 * size[kind] * math.log(pi[kind] / total) for kind in kinds)


@given(READINGS, st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_every_step_of_em_makes_the_text_likelier(entries: Entries, numbers: list[int]) -> None:
    counts = dict(zip("abcd", numbers, strict=True))
    reached = [likelihood(entries, Readings(entries).fitted(counts, steps=steps), counts) for steps in (1, 2, 3, 10)]
    assert all(after >= before - 1e-9 for before, after in pairwise(reached))
    for own in Readings(entries).fitted(counts).entries.values():
        assert math.fsum(own.values()) == pytest.approx(1)


def test_forms_of_one_reading_say_which_of_several_is_likely() -> None:
    noun, verb = frozenset({"POS:NOUN", "Lemma:x"}), frozenset({"POS:VERB", "Lemma:y"})
    either = {noun: 1.0, verb: 1.0}
    table = Readings({"both": either, "dog": {noun: 1.0}, "runs": {verb: 1.0}, "new": either})
    found = table.fitted({"both": 1, "dog": 9, "runs": 1})
    assert found("both")[noun] > 0.8
    assert found("new") == pytest.approx(found("both"))
    told = table.fitted({"both": 1, "dog": 9, "runs": 1}, {frozenset({"POS:VERB"}): 1000})
    assert told("both")[verb] > 0.95
    # kinds that always come together stay alike, unless an annotated text has them
    pair = Readings({"a": {noun: 1.0, verb: 1.0}})
    assert pair.fitted({"a": 5})("a") == {noun: 0.5, verb: 0.5}


def test_laws_of_features() -> None:
    corpus = Corpus.from_sentences([["koyunu", "ve", "xyz"], ["ve", "ve"]])
    vocabulary = Vocabulary.from_corpus(corpus)
    table = Hand().table(vocabulary.words)
    phi = features.Function(Probabilities(table, without=()), name="Readings")
    check_features(phi + features.Attributes(table.lexicon()), vocabulary)
    matrix = features.compile_features(phi, vocabulary)
    assert "p(Lemma:koyun)" in matrix.names


# The command line.


def test_a_tool_runs_once(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("evler ev xyz\nevler evi\n", encoding="utf8")
    Path("tur").write_text("ev\tevler\tN;NOM;PL\nev\tev\tN;NOM;SG\nev\tevi\tN;ACC;SG\nev\tevi\tN;NOM;PSS3S\n", "utf8")
    asked = ["data", "readings", "text.txt", "--analyser", "unimorph:tur", "--out", "r.tsv"]
    assert cli.run(asked) == 0
    out = capsys.readouterr().out
    assert out == "3 of 4 types (75.0%), 80.0% of 5 tokens have readings, 33.3% several: r.tsv\n"
    assert "evi\t0.5\tCase:Acc Lemma:ev Number:Sing POS:NOUN\n" in Path("r.tsv").read_text(encoding="utf8")
    assert cli.run([*asked, "--weigh", "text.txt"]) == 0
    assert math.fsum(Readings.from_tsv("r.tsv")("evi").values()) == pytest.approx(1, abs=1e-4)
    assert cli.run(["data", "readings", "text.txt", "--analyser", "nobody", "--out", "r.tsv"]) == 2
    assert "an analyser is zeyrek" in capsys.readouterr().err


def test_init_takes_weights_where_an_analyser_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("la porte ferme\nune ferme porte\n" * 30 + "elle ferme la porte\n", encoding="utf8")
    lines = "porte\t0.7\tPOS:NOUN Lemma:porte\nporte\t0.3\tPOS:VERB Lemma:porter\nla\t1\tPOS:DET\n"
    Path("weighed.tsv").write_text(lines, encoding="utf8")
    assert cli.run(["init", "mine.txt", "--analyser", "readings:weighed.tsv", "--out", "c.toml"]) == 0
    assert 'kind = "readings", tsv = "c-data/readings-readings-weighed-tsv.tsv"' in Path("c.toml").read_text("utf8")
    assert cli.run(["config", "features", "c.toml"]) == 0
    assert "Readings" in capsys.readouterr().out
