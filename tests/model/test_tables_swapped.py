"""Another table in a trained model, from Python and from the shell, and words that are known by their column alone."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llrnn
from brute import Brute
from helpers import sentence_log_probs, shaken
from llrnn import EOS, GRU, LLRNN, Corpus, KnowledgeBase, Lexicon, Vocabulary, cli
from llrnn.config import parse_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError, TableError, VocabularyError
from llrnn.knowledge.backgrounds import Unigram
from llrnn.knowledge.contextual import Copied, Expert, Lookup, Matching, Repeated
from llrnn.knowledge.contextual.lookup import value_words
from llrnn.knowledge.features import Attributes, Identity
from llrnn.model.decode import prepared, write
from llrnn.model.steering import Change, experts, steer, swap, tables_of
from llrnn.serve.served import Files, Served
from strategies import QUICK
from test_cli import Capture, as_json, refused
from test_lookup import ASKED, COLUMNS, KB, LOG_B, NEW, STATIC, V, batch_of, dumb_values, lookup, model_with

# --- words of values, against the definition --------------------------------------------------------------------------

SMALL = st.sampled_from(["a", "b", "c", "d"])


def dumb_value_words(values: Sequence[Sequence[str]], texts: Sequence[Sequence[str]], support: float) -> list[str]:
    """Every occurrence with every value laid over the text so that some word of the value, but none before, misses."""
    found = []
    for word in sorted({word for value in values for word in value}):
        places = [(text, t) for text in texts for t in range(len(text)) if text[t] == word]
        inside = [
            any(
                all(text[start + i] == value[i] for i in range(t - start + 1))
                for value in values
                for start in range(t + 1)
                if t - start < len(value)
            )
            for text, t in places
        ]
        if not places or sum(inside) / len(places) >= support:
            found.append(word)
    return found


@QUICK
@given(
    st.lists(st.lists(SMALL, min_size=1, max_size=3), max_size=4),
    st.lists(st.lists(SMALL, min_size=1, max_size=7), max_size=4),
    st.sampled_from([0.25, 0.5, 2 / 3, 0.9, 1.0]),
)
def test_words_of_values_are_those_of_the_definition(
    values: list[list[str]], texts: list[list[str]], support: float
) -> None:
    found = value_words([" ".join(value) for value in values], Corpus.from_sentences(texts), support)
    assert list(found) == dumb_value_words(values, texts, support)


def test_words_of_values_by_example() -> None:
    values = ["city centre", "old town hall", "north"]
    texts = ["in the city centre", "the old man is in town", "the old town", "north of the city", "a centre"]
    corpus = Corpus.from_sentences([text.split() for text in texts])
    assert value_words(values, corpus, 1.0) == ("city", "hall", "north", "old")
    assert value_words(values, corpus, 0.5) == ("centre", "city", "hall", "north", "old", "town")
    assert value_words([], corpus) == ()


def test_a_served_table_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "db.jsonl"

    def rewrite(kb: KnowledgeBase) -> None:
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in kb.rows), encoding="utf8")

    rewrite(KB)
    model = model_with(lookup())
    served = Served("tables", model, files=Files(tables={"db": path, "of another model": tmp_path / "never read"}))
    rewrite(NEW)
    assert tables_of(served.model)["db"].table.rows == KB.rows
    served.reload()
    assert tables_of(served.model)["db"].table.rows == NEW.rows
    assert tables_of(model)["db"].table.rows == KB.rows


# --- from Python ------------------------------------------------------------------------------------------------------


def test_a_swapped_table_is_the_sum_over_all_words() -> None:
    """All words of the new table are listed: the numbers are those of the new table, the weights the same."""
    model = model_with(lookup())
    swapped = swap(model, tables={"db": NEW})
    assert swapped.vocabulary is model.vocabulary
    former = {c: [w for row in KB.rows for w in row.get(c, "").split()] for c in COLUMNS}
    text = ["old", "venue", "99", "01223", "la", "land"]
    asked = [(condition, text) for condition in ASKED]
    fed = [(condition, tuple(text[:t])) for condition, _ in asked for t in range(len(text) + 1)]
    with torch.no_grad():
        h, layer = model.scan(batch_of(asked))[0].h, model.layer
        a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
        found = swapped.scan(batch_of(asked))[0].log_probs().numpy()
        before = model.scan(batch_of(asked))[0].log_probs().numpy()
    values = np.array([dumb_values(condition, prefix, NEW, former) for condition, prefix in fed])
    rows = [{**STATIC, EOS: {}}[word] for word in V]
    log_b = np.broadcast_to(LOG_B, (len(fed), len(V)))
    wanted = Brute(model.output_features.names, rows, log_b, values, a.numpy()).log_probs
    npt.assert_allclose(found, wanted, rtol=0, atol=1e-9)
    assert np.abs(found - before).max() > 0.1


PHONES = KnowledgeBase("venues", ({"name": "golden wok", "phone": "12 34"}, {"name": "hut", "phone": "56"}))
MORE = KnowledgeBase("venues", ({"name": "golden hut", "phone": "56 789 ten"}, {"name": "zig zag", "phone": "12"}))
QUERY = Matching(subject="name", history=["asked"])
COUNTS = {"golden": 3, "wok": 2, "hut": 4, "12": 2, "34": 1, "56": 1, "call": 9, "now": 5, EOS: 9}
KINDS = {"12": ["Value:phone"], "34": ["Value:phone"], "56": ["Value:phone"], "call": ["POS:VERB"]}


def phone_model() -> LLRNN:
    vocabulary = Vocabulary([*COUNTS], counts=[*COUNTS.values()])
    usual = Unigram(COUNTS, smoothing=0.5)
    model = LLRNN(
        vocabulary,
        output_features=Identity(top=4) + Attributes(Lexicon.from_mapping(KINDS)),
        background=usual,
        controller=GRU(3),
        contextual=[Repeated(3), Lookup(PHONES, QUERY, "phone", "name", name="db"), Expert(usual, name="kn")],
    ).double()
    shaken(model, 3.0)
    return model


def values_of(model: LLRNN, state: Any) -> dict[str, list[float]]:
    """The features of its table, on all words."""
    values, size = model.contextual[1].values([state]), len(model.vocabulary)
    found = values.at(torch.zeros(size, dtype=torch.long), torch.arange(size), size).tolist()
    return dict(zip(model.vocabulary.symbols, found, strict=True))


def attributes_of(model: LLRNN, *words: str) -> dict[str, set[str]]:
    """Their output features, but for that of all rare words."""
    return {word: {*model.output_features.row(model.vocabulary.id(word))} - {"NotAmong:4"} for word in words}


def test_the_words_of_a_new_table_are_listed_with_their_column() -> None:
    model = phone_model()
    swapped = swap(model, tables={"db": MORE})
    assert set(swapped.vocabulary.words) - set(model.vocabulary.words) == {"789", "ten", "zig", "zag"}
    wanted = {"789": {"Value:phone"}, "ten": {"Value:phone"}, "zig": set(), "zag": set()}  # it has no Value:name
    assert attributes_of(swapped, *wanted) == wanted
    for (name, old), (_, new) in zip(model.named_parameters(), swapped.named_parameters(), strict=True):
        assert torch.equal(old, new), name
    feature = swapped.contextual[1]
    assert isinstance(feature, Lookup)
    assert feature.vocabulary is swapped.vocabulary
    assert (feature.table, feature.name) == (MORE, "db")
    ids = swapped.vocabulary.ids([EOS, "golden", "hut", "56", "789"])
    said = values_of(swapped, feature.scan([feature.initial()], [ids])[0][-1])
    right = {word: values[0] for word, values in said.items() if word in ("12", "34", "56", "789", "ten")}
    assert right == {"12": 0.0, "34": 0.0, "56": 1.0, "789": 0.0, "ten": 1.0}
    assert {word for word, values in said.items() if values[2]} == {"ten"}
    assert said["now"] == [1.0, 1.0, 0.0]
    assert all(one.vocabulary is swapped.vocabulary for one in swapped.contextual)


def test_new_words_of_a_column_are_as_likely_a_priori_as_its_words_were_on_average() -> None:
    """Names were said 3, 2 and 4 times, numbers 2, 1 and 1 times: a new name counts 3, a new number 1."""
    swapped = swap(phone_model(), tables={"db": MORE})
    prior = swapped.background.prior([swapped.background.initial()]).dense(1).log_b[0]
    zig, zag, new, other = prior[swapped.vocabulary.ids(["zig", "zag", "789", "ten"])].tolist()
    assert (zig, new) == (zag, other)
    assert zig - new == pytest.approx(math.log(3))


def test_the_given_model_stays_as_it_is() -> None:
    model, again = phone_model(), phone_model()
    swapped = swap(model, tables={"db": MORE})
    with torch.no_grad():
        for parameter in swapped.parameters():
            parameter.fill_(0.5)
    assert repr(model.contextual) == repr(again.contextual)
    assert model.vocabulary.words == again.vocabulary.words
    lookup_, condition = model.contextual[1], {"asked": "golden wok"}
    assert isinstance(lookup_, Lookup)
    assert lookup_.table is PHONES
    text = ["call", "12", "34", "now"]
    assert sentence_log_probs(model, text, condition) == sentence_log_probs(again, text, condition)


def test_all_knowledge_may_be_swapped_at_once() -> None:
    """A background that does not list the words of the table is revised, as the model's own is."""
    other, text = Unigram({**COUNTS, "call": 2, "now": 30}, smoothing=0.5), ["call", "56", "789", "ten", "now"]
    model = phone_model()
    both = swap(model, background=other, experts={"kn": other}, tables={"db": MORE})
    one_by_one = swap(swap(model, background=other, experts={"kn": other}), tables={"db": MORE})
    said = {"asked": "golden hut"}
    assert sentence_log_probs(both, text, said) == sentence_log_probs(one_by_one, text, said)
    tables_alone = sentence_log_probs(swap(model, tables={"db": MORE}), text, said)
    assert not np.allclose(sentence_log_probs(both, text, said), tables_alone)


def test_a_swapped_model_is_saved_swapped_back_and_prepared(tmp_path: Path) -> None:
    model, text, said = phone_model(), ["call", "12", "34", "now"], {"asked": "golden wok"}
    swapped = swap(model, tables={"db": MORE})
    swapped.save(tmp_path)
    again = llrnn.load(tmp_path)
    assert sentence_log_probs(again, text, said) == sentence_log_probs(swapped, text, said)
    assert prepared(swapped, [None]) is swapped  # nothing is left to list
    back = swap(swapped, tables={"db": PHONES})
    assert back.vocabulary is swapped.vocabulary
    feature = back.contextual[1]
    assert isinstance(feature, Lookup)
    assert feature.words_by_column == {"phone": ("12", "34", "56"), "name": ("golden", "hut", "wok")}
    assert values_of(back, feature.initial(said))["ten"] == [0.0, 1.0, 0.0]  # a word of a former table is wrong now


def test_prepared_lists_the_words_of_tables_by_their_column() -> None:
    """Of all tables: columns of one name are one."""
    names = Lookup(KnowledgeBase("names", ({"phone": "990", "name": "zoo"},)), QUERY, "phone", "name", name="second")
    phones = Lookup(MORE, QUERY, "phone", name="first")
    made = LLRNN(
        Vocabulary([*COUNTS], counts=[*COUNTS.values()], unknown="now"),
        output_features=Identity(top=4) + Attributes(Lexicon.from_mapping(KINDS)),
        background=Unigram(COUNTS, smoothing=0.5),
        controller=GRU(3),
        contextual=[phones, names],
    )
    ready = prepared(made, [None])
    new = [word for word in ready.vocabulary.words if word not in COUNTS]
    wanted = {"789": {"Value:phone"}, "ten": {"Value:phone"}, "990": {"Value:phone"}, "zoo": set()}
    assert attributes_of(ready, *new) == wanted


def test_the_name_of_a_table_scales_all_its_features() -> None:
    model = phone_model()
    names = ["db:phone", "db:name", "db:begun"]
    assert experts(model, {"db": -0.5}) == [Change(name, scale=-0.5) for name in names]
    assert experts(model, {"db:phone": 2.0, "Repeated": 0.0}) == [Change("db:phone", scale=2), Change("Repeated", 0.0)]
    scaled, layer = steer(model, experts(model, {"db": -0.5})).layer, model.layer
    factor = torch.tensor([1.0, -0.5, -0.5, -0.5, 1.0], dtype=torch.float64)
    assert torch.equal(scaled.context_weight, layer.context_weight * factor[:, None])
    assert torch.equal(scaled.context_bias, layer.context_bias * factor)


def test_a_static_feature_that_is_named_alike_is_none_of_a_table() -> None:
    vocabulary = Vocabulary(["golden", "wok", "hut", "12", "34", "56", EOS])
    model = LLRNN(
        vocabulary,
        output_features=Attributes(Lexicon.from_mapping({"hut": ["db:large"]})),
        controller=GRU(3),
        contextual=[Lookup(PHONES, QUERY, "phone", name="db"), Copied("name", "phone")],
    )
    shaken(model, 3.0)
    assert torch.equal(steer(model, experts(model, {"db": 0.0})).layer.weight, model.layer.weight)
    assert [change.feature for change in experts(model, {"Copied": 2.0})] == ["Copied:name", "Copied:phone"]


BAD_SWAPS: list[tuple[Callable[[LLRNN], object], type[Exception], str]] = [
    (lambda m: swap(m, tables={"venues": MORE}), ConfigError, r"^'venues' is no table of this model; it has db$"),
    (lambda m: swap(m, tables={"kn": MORE}), ConfigError, r"^'kn' is no table of this model; it has db$"),
    (lambda m: swap(m, tables={"db:phone": MORE}), ConfigError, r"^'db:phone' is no table of this model; it has db$"),
    (lambda m: swap(model_with(), tables={"db": MORE}), ConfigError, r"^'db' is no table of this model; it has none$"),
    (
        lambda m: swap(m, experts={"db": Unigram(COUNTS)}),
        ConfigError,
        r"^'db' is no expert of this model; it has kn, and the tables db$",
    ),
    (
        lambda m: experts(m, {"dbb": 2.0}),
        ConfigError,
        r"'dbb' is no contextual feature of this model; it has Repeated, db, db:phone, db:name, db:begun, kn$",
    ),
    (
        lambda m: swap(m, tables={"db": KnowledgeBase("t", ({"name": "x"},))}),
        TableError,
        "no column 'phone'; it has name",
    ),
    (
        lambda m: swap(model_with(lookup()), tables={"db": KnowledgeBase("t", ({"name": "x"},), KB.columns)}),
        VocabularyError,
        r"has no counts that those of new words could be compared to",
    ),
]


@pytest.mark.parametrize(("make", "error", "said"), BAD_SWAPS)
def test_swaps_that_cannot_be(make: Callable[[LLRNN], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        make(phone_model())
    assert "\n" not in str(caught.value)


# --- from a configuration, and from the shell -------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "corpus": {"train": ["train.jsonl"]},
    "lexicon": {"columns": ["phone"]},
    "features": {"output": [{"kind": "identity", "without": ["Value:phone"]}, {"kind": "attributes", "listed": True}]},
    "background": {"kind": "unigram", "smoothing": 0.5},
    "contextual": [
        {
            "kind": "lookup",
            "name": "venues",
            "table": "venues.json",
            "columns": ["phone", "area"],
            "subject": "name",
            "history": ["asked"],
        }
    ],
    "controller": {"kind": "gru", "hidden": 16},
    "training": {"epochs": 12, "learning_rate": 0.02, "batches": {"kind": "sentences", "words": 128}},
}


def venues(count: int, first: int, seed: int = 0) -> list[dict[str, str]]:
    """Names, and numbers of one, two or three words, all distinct."""
    rng, number, rows = random.Random(seed), first, []
    for n in range(count):
        words = [f"N{number + i}" for i in range(1 + n % 3)]
        number += len(words)
        rows.append(
            {"name": f"Venue{first + n}", "phone": " ".join(words), "area": rng.choice(["south", "city centre"])}
        )
    return rows


def lines(rows: Sequence[Mapping[str, str]], count: int, seed: int) -> str:
    rng, found = random.Random(seed), []
    for _ in range(count):
        row = rng.choice(rows)
        target = rng.choice([f"call {row['phone']} now", f"it is in the {row['area']}", "the centre is far"])
        found.append(
            json.dumps({"condition": {"asked": f"tell me of {row['name']}", "do": target.split()[0]}, "target": target})
        )
    return "\n".join(found) + "\n"


def toml(config: Mapping[str, Any]) -> str:
    """JSON is TOML but for the signs between keys and values."""

    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {written(inner)}" for key, inner in value.items()) + "}"
        return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)

    return "".join(f"{key} = {written(value)}\n" for key, value in config.items())


OLD, CHANGED = venues(12, 100), venues(9, 5000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a text, another table, and a model that was trained on the first."""
    folder = tmp_path_factory.mktemp("tables")
    small = [{column: value.lower() for column, value in row.items()} for row in OLD]
    (folder / "venues.json").write_text(json.dumps(small))
    (folder / "train.jsonl").write_text(lines(small, 300, 0))
    (folder / "changed.json").write_text(json.dumps(CHANGED))  # with capitals, as nobody is told to write it
    twice = [{**small[1], "phone": "n101 n102 n103"}, {**small[1], "phone": "n101 n9000"}]
    (folder / "twice.json").write_text(json.dumps(twice))
    (folder / "config.toml").write_text(toml(CONFIG))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.run(["train", "config.toml", "--out", "run", "--quiet"]) == 0
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def generated(capsys: Capture, name: str, *options: str) -> str:
    said = json.dumps({"asked": f"tell me of {name}", "do": "call"})
    (found,) = as_json(capsys, "generate", "run", "--greedy", "--prefix", "call", "--condition", said, *options)
    return " ".join(found["words"])


def test_numbers_of_another_table_are_said_from_the_same_weights(capsys: Capture, here: Path) -> None:
    """Of one, two or three words that nobody has seen, and to their ends."""
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    for row in OLD[:6]:
        assert generated(capsys, row["name"].lower()) == f"{row['phone'].lower()} now"
    for row in CHANGED[:6]:
        assert generated(capsys, row["name"], "--expert", "venues=changed.json") == f"{row['phone'].lower()} now"
    assert before == {path.name: path.read_bytes() for path in Path("run").iterdir()}


def test_the_options_are_the_calls_of_the_library(capsys: Capture, here: Path) -> None:
    model = llrnn.load("run")
    table = KnowledgeBase.from_file("twice.json")
    names = model.context_names
    assert names == ("venues:phone", "venues:area", "venues:begun")
    prefix, said = ("call", "n101"), {"asked": "venue101"}  # begun in both tables; in one it goes on in two ways
    swapped = swap(model, tables={"venues": table})
    wanted: dict[str, LLRNN] = {
        "--expert venues=twice.json": swapped,
        "--expert venues=0": steer(model, [Change(name, scale=0.0) for name in names]),
        "--expert venues=twice.json --expert venues=-0.5": steer(swapped, [Change(n, scale=-0.5) for n in names]),
        "--expert venues:begun=2 --expert venues=twice.json": steer(swapped, [Change(names[2], scale=2.0)]),
    }
    for options, library in wanted.items():
        command = ["explain", "run", "--word", "now", "--prefix", " ".join(prefix), "--condition", json.dumps(said)]
        found = as_json(capsys, *command, *options.split())
        log_p = sentence_log_probs(prepared(library, [said]), [*prefix, "now"], said)[2]
        assert found["log_p"] == pytest.approx(log_p, abs=1e-5), options
        assert found["log_p"] != pytest.approx(as_json(capsys, *command)["log_p"], abs=1e-4), options


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("venues=missing.json", "missing.json: "),
        ("venues=config.toml", "config.toml: a table is required"),
        ("venues=train.jsonl", "a text or a number is required in column 'condition'"),
        (
            "veneus=changed.json",
            "'veneus' is no contextual feature of this model; it has venues, venues:phone, venues:a",
        ),
        ("venues:phone=changed.json", "'venues:phone' is no expert of this model; it has none, and the tables venues"),
        ("venues=inf", "finite"),
    ],
)
def test_mistakes(capsys: Capture, here: Path, option: str, said: str) -> None:
    assert said in refused(capsys, "generate", "run", "--expert", option)


def test_the_help_names_tables(capsys: Capture) -> None:
    cli.run(["generate", "--help"])
    assert "or another table there" in " ".join(capsys.readouterr().out.split())


def project(**changes: Any) -> Project:
    return Project.from_config(parse_config({**CONFIG, **changes}, "here"))


def test_words_of_a_column_are_known_by_it(here: Path) -> None:
    lexicon = project(lexicon={"columns": ["phone", "area"]}).lexicon
    phones = {word for row in OLD for word in row["phone"].lower().split()}
    known = {word: {*lexicon(word)} for word in lexicon.forms() if lexicon(word)}
    assert known == {word: {"Value:area" if word in ("city", "south") else "Value:phone"} for word in known}
    assert known.keys() == {*phones, "city", "south"}


def test_a_column_is_that_of_all_tables_that_have_it(here: Path) -> None:
    """What one table alone does not explain, two may."""
    Path("more.json").write_text(json.dumps([{"area": "the centre", "stars": "5"}]))
    second = {"kind": "lookup", "name": "more", "table": "more.json", "columns": ["stars", "area"]}
    lexicon = project(
        contextual=[*CONFIG["contextual"], second], lexicon={"columns": ["area", "phone", "stars"]}
    ).lexicon
    assert {word for word in lexicon.forms() if "Value:area" in lexicon(word)} == {"city", "south", "the", "centre"}
    assert lexicon("5") == {"Value:stars"}  # which no sentence says
    assert lexicon("n100") == {"Value:phone"}


def test_words_of_tables_never_train_as_new(here: Path) -> None:
    """Not even where all words do."""
    opened = [{"kind": "numbers", "language": "any"}, {"kind": "spelling", "order": 2, "endings": 0}]
    made = project(domains=opened, vocabulary={"as_new": 1.0}, background={"kind": "discounted"})
    phones = {word for row in OLD for word in row["phone"].lower().split()}
    assert {"call", "now", "far"} <= made.vocabulary.as_new
    assert made.vocabulary.as_new.isdisjoint(phones | {"south", "city", "centre"})


def test_columns_that_nobody_looks_up_are_refused(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"^lexicon.columns names 'name', but the columns that are .* phone, area$"):
        project(lexicon={"columns": ["name"]})
    with pytest.raises(ConfigError, match=r"looked up are none; give \[\[contextual\]\] kind = 'lookup'$"):
        project(contextual=[])


def test_the_library_writes_from_the_swapped_table(here: Path) -> None:
    model = swap(llrnn.load("run"), tables={"venues": KnowledgeBase.from_file("changed.json", lowercase=True)})
    asked = [{"asked": row["name"].lower()} for row in CHANGED[:3]]
    found = [" ".join(one.words) for one in write(model, asked, beam=3, prefix="call")]
    assert found == [f"{row['phone'].lower()} now" for row in CHANGED[:3]]
