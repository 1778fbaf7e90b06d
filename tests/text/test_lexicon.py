"""Lexicons and frequency files: what they know, what they accept, what bad input is answered."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn.ground.errors import LexiconError
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.lexicon import Lexicon, read_frequencies
from strategies import draws

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
fuzz = settings(max_examples=draws(60))

LE = Token("le", pos="DET", feats={"Gender": "Masc", "Number": "Sing"})
LE_PRONOUN = Token("le", pos="PRON", feats={"Case": "Acc,Nom"})
CHAT = Token("chat", pos="NOUN", feats={"Gender": "Masc"})


def shape(form: str) -> Iterable[str]:
    return ["Shape=Digits"] if form.isdigit() else []


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "f.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def message(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(LexiconError) as caught:
        read(path)
    return str(caught.value).replace(f"{path.parent}/", "")


def test_a_type_has_the_union_of_its_tokens() -> None:
    one = Corpus.from_sentences([Sentence((LE, CHAT))])
    two = Corpus.from_sentences([Sentence((LE_PRONOUN, LE))])
    lexicon = Lexicon.from_corpus(one, two)
    assert lexicon("le") == {"POS:DET", "POS:PRON", "Gender:Masc", "Number:Sing", "Case:Acc", "Case:Nom"}
    assert lexicon("chat") == {"POS:NOUN", "Gender:Masc"}
    assert lexicon("chien") == frozenset()
    assert (len(lexicon), lexicon.forms()) == (2, ("chat", "le"))
    assert "le" in lexicon
    assert "chien" not in lexicon
    assert 3 not in lexicon
    assert lexicon.attributes()[:2] == ("Case:Acc", "Case:Nom")
    assert repr(lexicon) == "Lexicon(2 forms, 7 attributes)"


def test_sentences_that_are_gone_are_not_confused() -> None:
    def passing() -> Iterable[Sentence]:
        for index in range(300):
            yield Sentence((Token("x", feats={"N": str(index)}),))

    assert len(Lexicon.from_corpus(passing())("x")) == 300


def test_mapping() -> None:
    lexicon = Lexicon.from_mapping({"a": {"POS=X", "Number[psor]=Plur"}, "b": []})
    assert lexicon("a") == {"POS:X", "Number[psor]:Plur"}
    assert lexicon("b") == frozenset()
    assert "b" in lexicon
    assert not Lexicon.from_mapping({})
    assert repr(Lexicon.from_mapping({})) == "Lexicon(0 forms, 0 attributes)"


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        (
            {"a": "POS:X"},
            "the attributes of 'a' must be a set of strings such as 'Gender:Fem', found 'POS:X'",
        ),
        ({"a": None}, "found None"),
        ({"a": [3]}, "found 3 in it"),
        ({"a": ["NOUN"]}, "found 'NOUN' in it; write Name:Value"),
        ({"a": ["POS:A B"]}, "found 'POS:A B'"),
        ({"a": ["POS:"]}, "found 'POS:'"),
        ({"": ["POS:X"]}, "a form must be a non-empty string, found ''"),
    ],
)
def test_bad_mapping(mapping: Mapping[str, Iterable[str]], reason: str) -> None:
    with pytest.raises(LexiconError) as caught:
        Lexicon.from_mapping(mapping)
    assert reason in str(caught.value)


def test_function_is_called_once_per_form() -> None:
    calls = []

    def counted(form: str) -> Iterable[str]:
        calls.append(form)
        return shape(form)

    lexicon = Lexicon.from_function(counted)
    assert lexicon("37") == lexicon("37") == {"Shape:Digits"}
    assert ("37" in lexicon, "x" in lexicon) == (True, False)
    assert calls == ["37", "x"]


@pytest.mark.parametrize("answer", ["POS:X", None, 3, ["X"], [b"POS:X"]])
def test_bad_answers(answer: object) -> None:
    def wrong(form: str) -> Iterable[str]:
        return answer  # type: ignore[return-value]

    with pytest.raises(LexiconError, match=r"the answer of wrong for 'a' must be a set of strings"):
        Lexicon.from_function(wrong)("a")


def test_what_is_no_function() -> None:
    with pytest.raises(LexiconError, match="a function from form to attributes is required, found 3"):
        Lexicon.from_function(3)  # type: ignore[arg-type]


def test_union() -> None:
    finite = Lexicon.from_mapping({"a": ["A:1"], "37": ["POS:NUM"]})
    other = Lexicon.from_mapping({"a": ["A:2"], "b": ["B:1"]})
    rule = Lexicon.from_function(shape)
    both = finite | other
    assert both("a") == {"A:1", "A:2"}
    assert both("b") == {"B:1"}
    assert len(both) == 3
    for mixed in (finite | rule, rule | finite, rule | finite | rule):
        assert mixed("37") == {"POS:NUM", "Shape:Digits"}
        assert mixed("15") == {"Shape:Digits"}
        assert bool(mixed)
    assert finite | rule == rule | finite | rule
    assert repr(finite | rule) == "Lexicon(2 forms, 2 attributes) | Lexicon.from_function(shape)"
    with pytest.raises(TypeError):
        finite | {"a": ["A:1"]}  # type: ignore[operator]


@pytest.mark.parametrize("ask", [len, Lexicon.forms, Lexicon.attributes, lambda lexicon: lexicon.to_tsv("never")])
def test_a_function_cannot_be_listed(ask: Callable[[Lexicon], object]) -> None:
    with pytest.raises(LexiconError, match=r"requires a finite lexicon, found a function in .*\(shape\)"):
        ask(Lexicon.from_function(shape))


# --- files


def test_tsv(file: Callable[..., Path]) -> None:
    comments = "# a comment\twith a TAB\n#another\n\n"
    text = comments + "Le\tPOS:DET Gender=Masc\nle\tPOS=PRON,Case:Acc|Case:Nom\n#\tPOS:SYM\nx\t_\n"
    lexicon = Lexicon.from_tsv(file(text))
    assert lexicon.forms() == ("#", "Le", "le", "x")
    assert lexicon("le") == {"POS:PRON", "Case:Acc", "Case:Nom"}
    assert lexicon("x") == frozenset()
    lowered = Lexicon.from_tsv(file(gzip.compress(text.encode())), lowercase=True)
    assert lowered("le") == lexicon("le") | lexicon("Le")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "f.tsv: text is required, but the file is empty"),
        ("# nothing\n", "f.tsv: no entry in the file"),
        ("a\tA:1\nle\n", "f.tsv:2:3: 2 columns (form TAB attributes) are required, found 1"),
        ("le\tA:1\tB:2\n", "f.tsv:1:7: 2 columns (form TAB attributes) are required, found 3"),
        ("\tA:1\n", "f.tsv:1:1: the form must not be empty"),
        ("le\t\n", "f.tsv:1:4: attributes are required after the TAB, found none; write _"),
        ("le\tA:1 NOUN\n", "f.tsv:1:8: an attribute must be Name:Value or Name=Value, found 'NOUN'"),
        ("le\tA:1|:x\n", "f.tsv:1:8: an attribute must be"),
        (b"le\tA:\xff\n", "f.tsv:1:6: UTF-8 is required"),
    ],
)
def test_bad_tsv(file: Callable[..., Path], content: str | bytes, expected: str) -> None:
    assert message(Lexicon.from_tsv, file(content)).startswith(expected)


forms = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).filter(
    lambda form: bool(form.strip()) and not form.startswith("# ")
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=":=,|"), min_size=1, max_size=3)
attributes = st.builds("{}:{}".format, names, names)


@fuzz
@given(mapping=st.dictionaries(forms, st.frozensets(attributes, max_size=3), min_size=1, max_size=5))
def test_tsv_roundtrip(tmp_path: Path, mapping: dict[str, frozenset[str]]) -> None:
    lexicon = Lexicon.from_mapping(mapping)
    lexicon.to_tsv(tmp_path / "f.tsv")
    assert Lexicon.from_tsv(tmp_path / "f.tsv") == lexicon
    assert [path.name for path in tmp_path.iterdir()] == ["f.tsv"]


@pytest.mark.parametrize("form", ["a\tb", "a\n", "# a", " ", "\0"])
def test_forms_that_no_tsv_can_hold(tmp_path: Path, form: str) -> None:
    with pytest.raises(LexiconError, match="cannot be written in a TSV file"):
        Lexicon.from_mapping({form: []}).to_tsv(tmp_path / "f.tsv")


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("before", encoding="utf-8")
    with pytest.raises(LexiconError, match="the file cannot be written"):
        Lexicon.from_mapping({"\ud800": []}).to_tsv(path)
    assert path.read_text(encoding="utf-8") == "before"
    assert [left.name for left in tmp_path.iterdir()] == ["f.tsv"]
    with pytest.raises(LexiconError, match="the file cannot be written"):
        Lexicon.from_mapping({"a": []}).to_tsv(path / "below" / "a-file")
    with pytest.raises(LexiconError, match="the file cannot be written"):
        Lexicon.from_mapping({"a": []}).to_tsv(tmp_path)


def test_frequencies(file: Callable[..., Path]) -> None:
    text = "le\t3\nLe 1.5\n\n10 000\t2e3\n#  4\nle\t.5\nrare\t0\n"
    assert read_frequencies(file(text)) == {"le": 3.5, "Le": 1.5, "10 000": 2000.0, "#": 4.0, "rare": 0.0}
    assert read_frequencies(file(text), lowercase=True)["le"] == 5.0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("\n", "f.tsv: no frequency in the file"),
        ("a\t1\nle\n", "f.tsv:2:3: 2 columns (form TAB count) are required, found 1"),
        ("10 000 5\n", "f.tsv:1:7: 2 columns (form TAB count) are required, found 3"),
        ("\t5\n", "f.tsv:1:1: the form must not be empty"),
        (
            "12 le\n",
            "f.tsv:1:4: the count must be a finite number of at least 0, found 'le'; write the form first",
        ),
        ("le\t-1\n", "f.tsv:1:4: the count must be a finite number of at least 0, found '-1'"),
        ("le\tnan\n", "f.tsv:1:4: the count must be a finite"),
        ("le\tinf\n", "f.tsv:1:4: the count must be a finite"),
        ("le\t1e999\n", "f.tsv:1:4: the count must be a finite"),
        ("le\t1_000\n", "f.tsv:1:4: the count must be a finite"),
        ("le\t\n", "f.tsv:1:4: the count must be a finite"),
        ("le\t" + "9a" * 9_000 + "\n", "f.tsv:1:4: the count must be a finite"),
        ("le\t1e308\nle\t1e308\n", "f.tsv:2:4: the count must be a sum that is finite"),
    ],
)
def test_bad_frequencies(file: Callable[..., Path], content: str, expected: str) -> None:
    told = message(read_frequencies, file(content))
    assert told.startswith(expected)
    assert len(told) < 400


@pytest.mark.parametrize(
    ("read", "valid"),
    [
        (Lexicon.from_tsv, b"# c\nle\tPOS:DET|A=b,C:d\n\xc3\xa9\t_\n"),
        (read_frequencies, b"le\t3\n\xc3\xa9 4.5e3\n"),
    ],
)
@fuzz
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, 100),
            st.integers(0, 8),
            st.sampled_from([b"\t", b"\n", b"#", b":", b"-"]) | st.binary(max_size=4),
        ),
        max_size=6,
    ),
    noise=st.binary(max_size=40),
    whole=st.booleans(),
)
def test_a_bad_file_is_a_lexicon_error(
    tmp_path: Path,
    read: Callable[[Path], object],
    valid: bytes,
    edits: list[tuple[int, int, bytes]],
    noise: bytes,
    whole: bool,
) -> None:
    content = bytearray(noise if whole else valid)
    for start, length, piece in edits:
        start %= len(content) + 1
        content[start : start + length] = piece
    (tmp_path / "f").write_bytes(content)
    try:
        read(tmp_path / "f")
    except LexiconError:
        return


@needs_data
def test_french(tmp_path: Path) -> None:
    corpus = Corpus.from_file(DATA / "ud_french" / "fr_sequoia-ud-dev.conllu", lowercase=True)
    lexicon = Lexicon.from_corpus(corpus)
    assert {"POS:DET", "POS:PRON"} <= lexicon("le")
    assert len(lexicon) == len(corpus.counts())
    assert all(token.attributes() <= lexicon(token.form) for sentence in corpus for token in sentence.tokens)
    lexicon.to_tsv(tmp_path / "fr.tsv")
    assert Lexicon.from_tsv(tmp_path / "fr.tsv") == lexicon
