"""Morphological dictionaries as lexicons: hunspell expanded to full forms."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import llrnn_morphology as analysers
from llrnn.ground.errors import LexiconError
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon
from llrnn_morphology.dictionaries import FRENCH, Tags

DATA = Path(__file__).parents[3] / "shared" / "data"
LEXICONS = DATA / "lexicons_french"
FRENCH_DIC = Path("/usr/share/hunspell/fr.dic")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
needs_french = pytest.mark.skipif(not FRENCH_DIC.is_file(), reason=f"Debian's hunspell-fr is not at {FRENCH_DIC}")

# Every field is its own attribute, so that expansion shows.
PLAIN = Tags({f"{name}:{value}": [f"{name}:{value}"] for name in ("po", "is") for value in "nvabcdspxyz"})

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write an .aff and a .dic file, hand out the path of the latter."""

    def written(aff: str | bytes, dic: str | bytes, name: str = "x") -> Path:
        for ending, content in (("aff", aff), ("dic", dic)):
            raw = content.encode() if isinstance(content, str) else content
            (tmp_path / f"{name}.{ending}").write_bytes(raw)
        return tmp_path / f"{name}.dic"

    return written


def expanded(dic: Path, *, lowercase: bool = True) -> dict[str, str]:
    entries = analysers.hunspell(dic, tags=PLAIN, lowercase=lowercase).entries
    return {form: " ".join(sorted(entries[form])) for form in sorted(entries)}


def message(read: Callable[[], object], folder: Path) -> str:
    with pytest.raises(LexiconError) as caught:
        read()
    return str(caught.value).replace(f"{folder}/", "")


# --- expansion


def test_suffix_rules_strip_attach_and_have_conditions(write: Write) -> None:
    aff = """SET UTF-8
SFX A Y 4
SFX A 0 s [^sx] is:p
SFX A al aux al is:p
SFX A x x x is:z
SFX A 0 es [a-c]x
"""
    found = expanded(write(aff, "4\nchat/A po:n\ncheval/A po:n\nprix/A po:n\nax/A po:n\n"))
    assert found == {
        "chat": "po:n",
        "chats": "is:p po:n",
        "cheval": "po:n",
        "chevals": "is:p po:n",
        "chevaux": "is:p po:n",
        "prix": "is:z po:n",
        "ax": "is:z po:n",
        "axes": "po:n",
    }


def test_a_hyphen_in_brackets_is_a_character_not_a_range(write: Write) -> None:
    dic = write("SFX A Y 1\nSFX A 0 s [a-c]\n", "3\nxa/A po:n\nxb/A po:n\nx-/A po:n\n")
    assert {"xas", "x-s"} <= expanded(dic).keys()
    assert "xbs" not in expanded(dic)


def test_prefixes_and_the_cross_product(write: Write) -> None:
    aff = """PFX P {cross} 1
PFX P 0 re [^a] is:x
SFX S Y 1
SFX S 0 s . is:p
"""
    dic = "2\nlie/PS po:v\naime/PS po:v\n"
    assert expanded(write(aff.format(cross="Y"), dic)) == {
        "aime": "po:v",
        "aimes": "is:p po:v",
        "lie": "po:v",
        "lies": "is:p po:v",
        "relie": "is:x po:v",
        "relies": "is:p is:x po:v",
    }
    assert "relies" not in expanded(write(aff.format(cross="N"), dic, name="y"))


def test_continuation_classes(write: Write) -> None:
    aff = """FLAG long
NEEDAFFIX ()
SFX Aa Y 1
SFX Aa 0 able/Bb() . is:a
SFX Bb Y 1
SFX Bb 0 s/CcPp . is:b
SFX Cc Y 1
SFX Cc 0 third . is:c
PFX Pp Y 1
PFX Pp 0 un . is:x
PFX Qq Y 2
PFX Qq 0 kilo/Dd() . is:y
PFX Qq 0 0/Dd .
SFX Dd Y 2
SFX Dd 0 0 . is:s
SFX Dd 0 s . is:p
"""
    found = expanded(write(aff, "2\ndrink/Aa po:v\nlitre/Qq() po:n\n"))
    assert found == {
        "drink": "po:v",
        "drinkables": "is:a is:b po:v",  # drinkable needs a further affix, and a third suffix is one too many
        "undrinkables": "is:a is:b is:x po:v",
        "kilolitre": "is:s is:y po:n",
        "kilolitres": "is:p is:y po:n",
        "litre": "is:s po:n",
        "litres": "is:p po:n",
    }


def test_circumfix_forbidden_and_only_in_compound(write: Write) -> None:
    aff = """CIRCUMFIX X
FORBIDDENWORD F
ONLYINCOMPOUND O
PFX A Y 1
PFX A 0 ge/X . is:a
SFX B Y 3
SFX B 0 t/X . is:b
SFX B 0 s . is:p
SFX B 0 o/O .
"""
    found = expanded(write(aff, "5\nmach/AB po:v\nfoos/F\nfoo/B po:n\nbar/OB po:n\nMach/F\n"))
    assert found == {"mach": "po:v", "machs": "is:p po:v", "gemacht": "is:a is:b po:v", "foo": "po:n"}


def test_full_strip(write: Write) -> None:
    aff = "SFX A Y 1\nSFX A go went go is:p\n"
    assert "went" not in expanded(write(aff, "1\ngo/A po:v\n"))
    assert expanded(write(f"FULLSTRIP\n{aff}", "1\ngo/A po:v\n", name="y")) == {"go": "po:v", "went": "is:p po:v"}


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [("FLAG num", "14", "14,9"), ("FLAG UTF-8", "é", "éa"), ("FLAG long", "é1", "é1a2"), ("", "A", "AB")],
)
def test_ways_to_write_flags(write: Write, kind: str, one: str, two: str) -> None:
    aff = f"SET UTF-8\nSFX {one} Y 1\nSFX {one} 0 s . is:p\n{kind}\n"
    assert expanded(write(aff, f"1\nmot/{two} po:n\n")) == {"mot": "po:n", "mots": "is:p po:n"}


def test_aliases_of_flags_and_fields(write: Write) -> None:
    aff = "AF 2\nAF A\nAF AB\nAM 2\nAM po:n\nAM is:p is:x\nSFX A Y 1\nSFX A 0 s/2 . 2\nSFX B Y 1\nSFX B 0 t .\n"
    assert expanded(write(aff, "1\nmot/1\t1\n")) == {
        "mot": "po:n",
        "mots": "is:p is:x po:n",
        "motss": "is:p is:x po:n",
        "motst": "is:p is:x po:n",
    }


def test_words_with_slashes_and_spaces_and_fields_after_tabs(write: Write) -> None:
    dic = "6\nkm\\/h po:n\na priori/S po:a\n\tcomment\n\nfin\tpo:n is:s\n/ po:x\nsans\n"
    found = expanded(write("SFX S Y 1\nSFX S 0 s\n", dic))
    assert found == {"km/h": "po:n", "a priori": "po:a", "a prioris": "po:a", "fin": "is:s po:n", "/": "po:x"}


def test_lemmas_forms_case_and_readings(write: Write) -> None:
    aff = "SFX S Y 1\nSFX S 0 s . is:p\n"
    dic = write(aff, "4\nPort/S po:n\nporter po:v\nports po:v st:porter\na b/S po:a\n")
    lexicon = analysers.hunspell(dic, tags=PLAIN, lemmas=True)
    assert lexicon("ports") == {"po:n", "is:p", "po:v", "Lemma:port", "Lemma:porter"}
    assert lexicon("a bs") == {"po:a", "is:p", "Lemma:a_b"}
    assert set(expanded(dic, lowercase=False)) == {"Port", "Ports", "porter", "ports", "a b", "a bs"}
    assert analysers.hunspell(dic, tags=PLAIN, forms=["PORTS", "x"]).forms() == ("ports",)
    assert analysers.hunspell(dic, tags=PLAIN, forms=["PORTS"], lowercase=False).forms() == ()


def test_encodings(write: Write, tmp_path: Path) -> None:
    latin = write("SET ISO8859-1\nSFX é Y 1\nSFX é 0 é .\n".encode("latin-1"), "1\nâne/é po:n\n".encode("latin-1"))
    assert set(expanded(latin)) == {"âne", "âneé"}
    cyrillic = write("SET microsoft-cp1251\n", "1\r\nдом po:n\r\n".encode("cp1251"), name="y")
    assert set(expanded(cyrillic)) == {"дом"}
    for name, content in (("z.aff", "SET UTF-8\n"), ("z.dic", "1\né po:n\n")):
        (tmp_path / name).write_bytes(gzip.compress(content.encode()))
    assert set(expanded(tmp_path / "z.dic")) == {"é"}


# --- faults

GOOD_AFF = "SET UTF-8\nFLAG long\nSFX Aa Y 1\nSFX Aa 0 s/Bb [^s] is:p\nPFX Bb Y 1\nPFX Bb 0 re .\n"
GOOD_DIC = "2\nmot/AaBb po:n\nlis/Aa po:v is:s\n"


@pytest.mark.parametrize(
    ("aff", "dic", "expected"),
    [
        ("SET KLINGON\n", GOOD_DIC, "x.aff:1:5: an encoding of dictionaries is required after SET, found 'KLINGON'"),
        ("SET ISO8859-99\n", GOOD_DIC, "x.aff:1:5: an encoding of dictionaries"),
        ("#\nSFX A Y 1\nSFX A 0 é .\n", GOOD_DIC, "x.aff:3:9: here is the byte 0xc3, but no SET line declares"),
        ("FLAG x\n", GOOD_DIC, "x.aff:1:1: long, num or UTF-8 is required after FLAG, found x"),
        ("FLAG\n", GOOD_DIC, "found nothing"),
        ("FLAG long\nSFX A Y 1\n", GOOD_DIC, "x.aff:2:5: flags of two characters each are required"),
        ("FLAG num\nSFX 0 Y 1\n", GOOD_DIC, "x.aff:2:5: a flag must be a number from 1 to 65535 (FLAG num), found '0'"),
        ("FLAG num\nSFX 1,2 Y 1\n", GOOD_DIC, "x.aff:2:5: one flag is required, found '1,2'"),
        ("SFX A 0 s .\n", GOOD_DIC, "x.aff:1:7: a header SFX A Y or N, count is required before its rules"),
        ("SFX A Y 1\nSFX A 0 s .\nSFX A 0 t .\n", GOOD_DIC, "x.aff:3:7: a header SFX A Y or N, count is required"),
        ("SFX A Y 3\nSFX A 0 s .\n", GOOD_DIC, "x.aff:1:1: 2 more lines SFX A are required by this count"),
        ("SFX A Y\n", GOOD_DIC, "x.aff:1:1: a header (SFX flag Y count) or a rule"),
        ("SFX A Y 1\nSFX A 0 s [ab\n", GOOD_DIC, "x.aff:2:11: a condition must be made of characters"),
        ("SFX A Y 1\nSFX A 0 s/ .\n", GOOD_DIC, "x.aff:2:10: flags without spaces are required after the slash"),
        ("AF x\n", GOOD_DIC, "x.aff:1:1: the first line AF must give the number of aliases"),
        ("AF 1\nAF A\nAF B\n", GOOD_DIC, "x.aff:3:1: there are more lines AF than line 1 says"),
        ("AM 2\nAM po:n\n", GOOD_DIC, "x.aff:1:1: 1 more lines AM are required"),
        ("NEEDAFFIX\n", GOOD_DIC, "x.aff:1:1: flags without spaces are required"),
        ("COMPLEXPREFIXES\n", GOOD_DIC, "x.aff:1:1: one prefix a word is all that is read here"),
        ("AF 1\nAF A\n", "1\nm2/2\n", "x.dic:2:4: the number of an alias, 1 to 1, is required, found '2'; see AF"),
        ("AM 1\nAM po:n\n", "1\nmot\t2\n", "x.dic:2:5: the number of an alias, 1 to 1, is required, found '2'; see AM"),
        (GOOD_AFF, "mot/Aa\n", "x.dic:1:1: the first line must be the number of words"),
        (GOOD_AFF, "1\nmot/Aab po:n\n", "x.dic:2:5: flags of two characters each"),
        (GOOD_AFF, "1\nmot/ po:n\n", "x.dic:2:4: flags without spaces are required after the slash"),
        (GOOD_AFF, "1\n po:n\n", "x.dic:2:1: a word is required at the beginning of the line"),
        (GOOD_AFF, b"1\nmot\xff\n", "x.dic:2:4: UTF-8 is required, but here is the byte 0xff"),
        (GOOD_AFF, "", "x.dic: text is required, but the file is empty"),
        ("SET ISO8859-1\n", "", "x.dic:1:1: the first line must be the number of words"),
    ],
)  # fmt: skip
def test_faults_are_named_by_their_place(write: Write, tmp_path: Path, aff: str, dic: str, expected: str) -> None:
    path = write(aff, dic)
    assert expected in message(lambda: analysers.hunspell(path, tags=PLAIN), tmp_path)


def test_missing_files_and_unknown_languages(write: Write, tmp_path: Path) -> None:
    dic = write(GOOD_AFF, GOOD_DIC)
    assert "x.dic: tags= is required for the language 'x' (known: fr)" in message(
        lambda: analysers.hunspell(dic), tmp_path
    )
    missing, no_aff = tmp_path / "no.dic", tmp_path / "no.aff"
    for read in (
        lambda: analysers.hunspell(missing, tags=PLAIN),
        lambda: analysers.hunspell(dic, aff=no_aff, tags=PLAIN),
    ):
        assert message(read, tmp_path).startswith("no.aff: a file is required, but there is none of this name")
    assert "no.dic: a file is required" in message(
        lambda: analysers.hunspell(missing, aff=dic.with_suffix(".aff"), tags=PLAIN), tmp_path
    )
    assert "a dictionary NAME.dic is required" in message(lambda: analysers.hunspell(tmp_path / "x.aff"), tmp_path)
    assert "folder" in message(lambda: analysers.hunspell(dic, aff=tmp_path, tags=PLAIN), tmp_path)
    with pytest.raises(LexiconError):
        analysers.hunspell("a\0.dic", tags=PLAIN)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files_raise_nothing_but_lexicon_errors(write: Write, seed: int) -> None:
    generator = Random(seed)
    aff = GOOD_AFF + "AF 1\nAF AaBb\nAM 1\nAM is:x\nNEEDAFFIX Cc\nFULLSTRIP\n"
    for _ in range(80):
        files = [bytearray(aff.encode()), bytearray(b"1\nmot/1\t1\nlis/1 po:v is:s\n")]
        for _ in range(generator.randint(1, 4)):
            _damage(generator.choice(files), generator)
        with suppress(LexiconError):
            analysers.hunspell(write(bytes(files[0]), bytes(files[1])), tags=PLAIN, lemmas=True)


def _damage(content: bytearray, generator: Random) -> None:
    place = generator.randrange(len(content) + 1)
    match generator.randrange(4):
        case 0:
            del content[place : place + generator.randint(1, 12)]
        case 1:
            content[place:place] = generator.choice(
                [b" ", b"\n", b"/", b"[", b"^", b"\xff", b"0", b"\t", b"\r", b"\0", b"SFX ", b"\\", "é".encode(), b"99"]
            )
        case 2:
            content[place : place + 1] = bytes([generator.randrange(256)])
        case _:
            start = generator.randrange(len(content) + 1)
            content[place:place] = content[start : start + 20]


# --- meanings


def test_tags_take_whole_fields_before_beginnings_and_longer_ones_first() -> None:
    tags = Tags({"po:v*": ["POS:VERB"], "po:v0*": ["POS:AUX"], "po:v0x": ["POS:X"], "is:z": []})
    assert tags.attributes(["po:v1_t", "is:unheard"]) == {"POS:VERB"}
    assert tags.attributes(["po:v0ab"]) == {"POS:AUX"}
    assert tags.attributes(["po:v0x", "is:z"]) == {"POS:X"}
    assert tags.meaning("is:z") == frozenset()
    assert tags.meaning("is:unheard") is None
    with pytest.raises(LexiconError, match="must be a set of strings such as 'Gender:Fem'"):
        Tags({"po:v": ["VERB"]})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("po:nom is:mas is:pl", "POS:NOUN Gender:Masc Number:Plur"),
        ("po:adj is:epi is:inv", "POS:ADJ Gender:Masc Gender:Fem Number:Sing Number:Plur"),
        ("po:v1__t___zz po:ipre po:spre po:1sg po:3sg",
         "POS:VERB VerbForm:Fin Mood:Ind Mood:Sub Tense:Pres Person:1 Person:3 Number:Sing"),
        ("po:v0ei_____a po:ipsi po:3pl!", "POS:VERB POS:AUX VerbForm:Fin Mood:Ind Tense:Past Person:3 Number:Plur"),
        ("po:v2_it_q__a po:cond po:2pl", "POS:VERB VerbForm:Fin Mood:Cnd Tense:Pres Person:2 Number:Plur"),
        ("po:v3_it_q__a po:simp po:3sg", "POS:VERB VerbForm:Fin Mood:Sub Tense:Imp Person:3 Number:Sing"),
        ("po:v3_it_q__a po:impe po:2sg", "POS:VERB VerbForm:Fin Mood:Imp Tense:Pres Person:2 Number:Sing"),
        ("po:v3_it_q__a po:infi", "POS:VERB VerbForm:Inf"),
        ("po:v3_it_q__a po:ppre", "POS:VERB VerbForm:Part Tense:Pres"),
        ("po:v3_it_q__a po:ppas po:adj po:1jsg is:fem is:sg",
         "POS:VERB POS:ADJ VerbForm:Part Tense:Past Gender:Fem Number:Sing"),
        ("po:v1_i____zz po:ppas is:epi is:inv", "POS:VERB VerbForm:Part Tense:Past Gender:Masc Number:Sing"),
        ("po:npr is:epi is:inv", "POS:PROPN Number:Sing"),
        ("po:prn is:fem is:inv", "POS:PROPN Gender:Fem Number:Sing"),
        ("po:mg po:propersuj po:3pe is:mas is:sg", "POS:PRON PronType:Prs Person:3 Gender:Masc Number:Sing"),
    ],
)  # fmt: skip
def test_french_fields(fields: str, expected: str) -> None:
    assert FRENCH.attributes(fields.split()) == set(expected.split())


def test_french_names_and_elisions(write: Write) -> None:
    aff = """PFX L Y 1
PFX L 0 l' . dp:le|la+
SFX S Y 2
SFX S 0 0/L . is:sg
SFX S 0 s . is:pl
SFX Y Y 1
SFX Y 0 -y . ds:+y
"""
    dic = write(
        aff,
        "4\nCongo/L po:nom is:mas is:inv\narbre/S po:nom is:mas\nTVA po:nom is:fem is:inv\nva/Y po:nom\n",
        name="fr_FR",
    )
    lexicon = analysers.hunspell(dic)
    assert lexicon.forms() == ("arbre", "arbres", "congo", "tva", "va")
    assert lexicon("congo") == {"POS:PROPN", "Gender:Masc", "Number:Sing"}
    assert lexicon("tva") == {"POS:PROPN", "POS:NOUN", "Gender:Fem", "Number:Sing", "Number:Plur"}


# --- the real ones


@pytest.mark.slow
@needs_french
def test_the_french_dictionary() -> None:
    lexicon = analysers.hunspell(FRENCH_DIC)
    assert len(lexicon) > 400_000
    expected = {
        "représentées": "POS:ADJ POS:VERB VerbForm:Part Tense:Past Gender:Fem Number:Plur",
        "chevaux": "POS:NOUN Gender:Masc Number:Plur",
        "mangeons": "POS:VERB VerbForm:Fin Mood:Ind Mood:Imp Tense:Pres Person:1 Number:Plur",
        "kilolitres": "POS:NOUN Gender:Masc Number:Plur",
        "congo": "POS:PROPN Gender:Masc Number:Sing",
        "feront": "POS:AUX POS:VERB VerbForm:Fin Mood:Ind Tense:Fut Person:3 Number:Plur",
    }
    for form, attributes in expected.items():
        assert lexicon(form) == set(attributes.split()), form
    for two_words in ("l'arbre", "qu'il", "vas-y", "d'aller"):
        assert two_words not in lexicon
    few = analysers.hunspell(FRENCH_DIC, forms=["Chevaux", "feront", "xyzzy"], lemmas=True)
    assert few.forms() == ("chevaux", "feront")
    assert few("chevaux") == lexicon("chevaux") | {"Lemma:cheval"}


@needs_french
def test_every_field_of_the_french_dictionary_is_known() -> None:
    text = FRENCH_DIC.read_text("utf-8") + FRENCH_DIC.with_suffix(".aff").read_text("utf-8")
    fields = {word for word in text.split() if word.startswith(("po:", "is:"))}
    assert len(fields) > 100
    assert {field for field in fields if FRENCH.meaning(field) is None} == set()


@needs_french
@needs_data
def test_the_french_dictionary_agrees_with_treebanks() -> None:
    """Measured on Sequoia: what it annotates, the dictionary knows (recall), for the words that it has."""
    gold = Lexicon.from_corpus(Corpus.from_file(DATA / "ud_french" / "fr_sequoia-ud-train.conllu", lowercase=True))
    lexicon = analysers.hunspell(FRENCH_DIC, forms=gold.forms())
    floors = {"POS": 0.95, "Gender": 0.95, "Number": 0.98, "Person": 0.95, "Tense": 0.97, "Mood": 0.97}
    for name, floor in floors.items():
        wanted = [(form, a) for form in gold.forms() if lexicon(form) for a in gold(form) if a.startswith(f"{name}:")]
        recall = sum(attribute in lexicon(form) for form, attribute in wanted) / len(wanted)
        assert recall > floor, (name, recall)
