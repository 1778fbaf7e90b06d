"""Configurations: what is written is what is meant, and every mistake is one line that names its key and its file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import llrnn
from llrnn import train
from llrnn.config import Config, parse_config, read_config, reference, schema
from llrnn.config.keys import FeaturesConfig, UnigramConfig
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError, LLRNNError, ZeroMassError
from llrnn.knowledge.contextual import Terms, TermsInside
from llrnn.training.settings import TrainingSettings, models_by_kind

CONFIGS = Path(__file__).parents[2] / "configs"
MINIMAL = """
[corpus]
embedded = {train = 30, valid = 5, test = 5}
[vocabulary]
parts = ["train", "valid", "test"]
[features]
output = [{kind = "identity", top = 20}, {kind = "suffixes", longest = 2}]
"""


def written(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "my.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path, *changes: str) -> str:
    """The one line that a wrong configuration is answered with."""
    with pytest.raises(ConfigError) as caught:
        read_config(path, changes)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return re.sub(rf"^({re.escape(str(path))}):\d+", r"\1", message)  # the line has tests of its own


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, MINIMAL)


def test_defaults_and_given_values(path: Path) -> None:
    config = read_config(path)
    assert config.corpus.embedded is not None
    assert config.corpus.embedded.train == 30
    assert [group.kind for group in config.features.output] == ["identity", "suffixes"]
    assert config.background.kind == "uniform"
    assert config.controller.kind == "lstm"
    assert config.training.epochs == 20


def test_a_configuration_survives_its_own_dump(path: Path) -> None:
    config = read_config(path, ["training.batches={kind='sliding', length=4}", "contextual=[{kind='repeated'}]"])
    assert Config.model_validate(config.model_dump()) == config
    assert Config.model_validate(config.model_dump(mode="json")) == config


# --- mistakes in the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("addition", "key"),
    [
        ("[training]\nepoch = 5", "training.epoch"),
        ("[trainings]\nepochs = 5", "trainings"),
        ("[controller]\nhiden = 5", "controller.hiden"),
        ("[corpora]\ntrain = []", "corpora"),
        ("[background]\nkind = 'unigram'\nsmooth = 1", "background.smooth"),
        ("[[contextual]]\nkind = 'repeated'\nwindows = 3", "contextual.0.windows"),
        ("[training.batches]\nkind = 'sliding'\nwords = 3", "training.batches"),
    ],
)
def test_an_unknown_key_is_named(tmp_path: Path, addition: str, key: str) -> None:
    message = refusal(written(tmp_path, MINIMAL + addition))
    assert message.startswith(f"{tmp_path / 'my.toml'}: {key}")
    assert "no such key" in message


@pytest.mark.parametrize(
    ("addition", "key"),
    [
        ("[training]\nepochs = 'five'", "training.epochs"),
        ("[training]\nepochs = '5'", "training.epochs"),
        ("[training]\nepochs = true", "training.epochs"),
        ("[training]\nepochs = 2.5", "training.epochs"),
        ("[training]\nepochs = 0", "training.epochs"),
        ("[training]\nepochs = [5]", "training.epochs"),
        ("[training]\nlearning_rate = nan", "training.learning_rate"),
        ("[training]\nlearning_rate = inf", "training.learning_rate"),
        ("[training]\nlearning_rate = -0.1", "training.learning_rate"),
        ("[training]\nlearning_rate = 1e300", "training.learning_rate"),
        ("[training]\noptimizer = 'adam'", "training.optimizer"),
        ("[training]\nseed = -1", "training.seed"),
        ("[training]\nseed = 99999999999999999999", "training.seed"),
        ("[training]\nbatches = 'sliding'", "training.batches"),
        ("[training.batches]\nkind = 'pages'", "training.batches.kind"),
        ("[controller]\nkind = 'mamba'", "controller.kind"),
        ("[controller]\nhidden = '16'", "controller.hidden"),
        ("[controller]\nhidden = 1000000000000", "controller.hidden"),
        ("[controller]\ndropout = 1.0", "controller.dropout"),
        ("[background]\nkind = 'trigram'", "background.kind"),
        ("[background]\nkind = 'unigram'\nparts = []", "background.parts"),
        ("[background]\nkind = 'unigram'\nparts = ['dev']", "background.parts.0"),
        ("[background]\nkind = 'unigram'\nsmoothing = -1", "background.smoothing"),
        ("[background]\nkind = 5", "background.kind"),
        ("[background]\nkind = 'ngram'\nfiles = []", "background.files"),
        ("[lexicon]\ntsv = 'words.tsv'", "lexicon.tsv"),
        ("[[contextual]]\nkind = 'guessed'", "contextual.0.kind"),
        ("[[contextual]]\nwindow = 3", "contextual.0.kind"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, addition: str, key: str) -> None:
    assert refusal(written(tmp_path, MINIMAL + addition)).startswith(f"{tmp_path / 'my.toml'}: {key}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "corpus: this key is required"),
        ("name = 'x'", "corpus: this key is required"),
        ("corpus = 5", "corpus: input should be"),
        ("[corpus]\n[features]\noutput = [{kind = 'identity'}]", "corpus: give either train"),
        ("[corpus]\ntrain = []", "corpus: give either train"),
        ("[corpus]\ntrain = ['a.txt']\nembedded = {}", "corpus: give either train"),
        ("[corpus]\ntrain = ['a.txt']\nvalid = ['b.txt']\nvalid_last = 5", "corpus: give either valid"),
        ("[corpus]\ntrain = 'a.txt'", "corpus.train"),
        ("[corpus]\nembedded = {}", "needs [features] output"),
        ("[corpus]\nembedded = {}\n[features]\noutput = [{kind = 'magic'}]", "features.output.0"),
        ("[corpus]\nembedded = {}\n[features]\noutput = [{top = 5}]", "features.output.0"),
        ("[corpus]\nembedded = {}\n[features]\noutput = [{kind = 'identity', tops = 5}]", "features.output.0"),
        ("[corpus]\nembedded = {}\n[features]\noutput = 'identity'", "features.output"),
        ("kind = 'softmax'\n[corpus]\nembedded = {}\n[features]\noutput = [{kind = 'shape'}]", "leave [features] out"),
        ("kind = 'softmax'\n[corpus]\nembedded = {}\n[features]\ninput = [{kind = 'shape'}]", "leave [features] out"),
        ("kind = 'rnn'\n[corpus]\nembedded = {}", "kind: "),
        (MINIMAL.replace("[vocabulary]", "[vocabulary]\nunknown = '</s>'"), "vocabulary: unknown = '</s>'"),
    ],
)
def test_what_does_not_fit_together_is_said(tmp_path: Path, text: str, said: str) -> None:
    message = refusal(written(tmp_path, text))
    assert message.startswith(str(tmp_path / "my.toml"))
    assert said in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "text",
    [
        "corpus",
        "[corpus",
        "[corpus]\n[corpus]\n",
        "a = 1\na = 2",
        "a = 'open",
        "a = " + "[" * 5000,
        "a = " + "9" * 5000,
        "a = 2020-13-45",
        "\0",
        "<xml/>",
        '{"corpus": {}}',
    ],
)
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    found = refusal(written(tmp_path, text))
    assert "not TOML" in found
    assert found.endswith("`llrnn init TEXT --out CONFIG` writes one for a text")


@pytest.mark.parametrize(
    "text", [".".join("a" * 500) + " = 1", "a = " + "[" * 100 + "]" * 100, "a = " + "{a = " * 50 + "1" + "}" * 50]
)
def test_what_is_nested_deeply_is_refused(tmp_path: Path, path: Path, text: str) -> None:
    assert "nested 20 deep" in refusal(written(tmp_path / "deep", MINIMAL.replace("[corpus]", f"{text}\n[corpus]", 1)))
    assert "nested 20 deep" in refusal(path, text.replace(" ", ""))


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    assert "not UTF-8 text (byte 4)" in refusal(written(tmp_path, b"a = \xff"))
    assert "not UTF-8" in refusal(written(tmp_path, MINIMAL.encode("utf-16")))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing.toml")
    assert "cannot be read" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / ("a" * 300))


# --- keys that do nothing ------------------------------------------------------------------------------------------

# every table that is of one of several kinds: where it stands, and the least that each of its kinds needs
TABLES: dict[str, tuple[object, dict[str, dict[str, object]]]] = {
    "background": (
        Config.model_fields["background"],
        {
            "uniform": {},
            "unigram": {},
            "discounted": {},
            "ngram": {},
        },
    ),
    "contextual": (
        Config.model_fields["contextual"],
        {
            "repeated": {},
            "expert": {},
            "copied": {},
            "mentioned": {},
            "unmentioned": {},
            "continued": {},
            "framed": {},
            "worded": {},
            "lookup": {"table": "t.csv", "columns": ["a"]},
            "terms": {"lists": {"a": "a.txt"}},
        },
    ),
    "domains": (
        Config.model_fields["domains"],
        {"numbers": {}, "spelling": {}},
    ),
    "features.output": (
        FeaturesConfig.model_fields["output"],
        {
            **{
                key: {}
                for key in ["identity", "attributes", "prefixes", "suffixes", "shape", "orthographic", "numeric"]
            },
            "table": {"tsv": "t.tsv"},
            "readings": {"tsv": "r.tsv"},
            "vectors": {"file": "x.vec"},
        },
    ),
    "controller": (
        Config.model_fields["controller"],
        {key: {} for key in "elman gru lstm mogrifier transformer".split()},  # noqa: SIM905
    ),
    "training.batches": (
        TrainingSettings.model_fields["batches"],
        {key: {} for key in ["sentences", "continuous", "sliding"]},
    ),
    "training.schedule": (TrainingSettings.model_fields["schedule"], {"constant": {}, "cycle": {}}),
    "training.objective": (
        TrainingSettings.model_fields["objective"],
        {**{key: {} for key in ["exact", "importance"]}, "distil": {"teacher": "runs/a"}},
    ),
}
IN_LISTS = ("contextual", "domains", "features.output")


def kinds_of(table: str) -> dict[str, type[BaseModel]]:
    field = TABLES[table][0]
    assert isinstance(field, FieldInfo)
    return models_by_kind(field.rebuild_annotation())


def foreign_keys() -> Iterator[tuple[str, str, str]]:
    """Each kind of each table with each key of its siblings that it does not have itself."""
    for table in TABLES:
        kinds = kinds_of(table)
        for name, model in kinds.items():
            keys = {key for other in kinds.values() for key in other.model_fields} - {*model.model_fields}
            yield from ((table, name, key) for key in sorted(keys))


def config_with(table: str, content: dict[str, object]) -> dict[str, object]:
    *above, last = table.split(".")
    data: dict[str, object] = {last: [content] if table in IN_LISTS else content}
    for name in reversed(above):
        data = {name: data}
    return {"corpus": {"train": ["a.txt"]}, "features": {"output": [{"kind": "identity"}]}} | data


@pytest.mark.parametrize("table", TABLES)
def test_the_list_of_kinds_is_complete_and_valid(table: str) -> None:
    assert kinds_of(table).keys() == TABLES[table][1].keys()
    for name, least in TABLES[table][1].items():
        parse_config(config_with(table, {"kind": name} | least), "my.toml")


@pytest.mark.parametrize(("table", "kind", "key"), list(foreign_keys()))
def test_a_key_of_another_kind_is_refused(table: str, kind: str, key: str) -> None:
    owners = [other for other, model in kinds_of(table).items() if key in model.model_fields]
    with pytest.raises(ConfigError, match="no such key") as caught:
        parse_config(config_with(table, {"kind": kind} | TABLES[table][1][kind] | {key: "x"}), "my.toml")
    message = str(caught.value)
    place = f"{table}.0" if table in IN_LISTS else table
    assert message.startswith(f"my.toml: {place}.{key}: no such key where kind = {kind!r}")
    assert all(f"{owner!r}" in message for owner in owners)  # where it would be right


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["vocabulary.as_new=0.5"], "vocabulary.as_new"),
        (["background.grammar={file='g.lark', spelling={a='b'}}"], "background.grammar: spelling"),
        (["contextual=[{kind='lookup', table='t.csv', columns=['a'], history=['b']}]"], "contextual.0: history"),
        (["contextual=[{kind='terms', lists={a='a.txt'}, capitals=true}]"], "contextual.capitals"),
        (["background={kind='unigram', frequencies='f.tsv', parts=['valid']}"], "background: parts"),
        *(
            ([made.format(f"{source}, {one}")], f"{place}: {one.partition('=')[0]} is for")
            for made, place in (
                ("background={{kind='ngram', {}}}", "background"),
                ("contextual=[{{kind='expert', {}}}]", "contextual.0"),
            )
            for source, idle in {
                "arpa='a.arpa'": ["parts=['valid']", "files=['a']", "order=3", "min_counts=[1]", "folds=5"],
                "files=['a.txt']": ["parts=['valid']", "folds=5"],
                "order=3": ["restrict=true"],
            }.items()
            for one in idle
        ),
        (["domains=[{kind='spelling', one_cell=true, endings=5}]"], "domains.0: endings"),
        (["domains=[{kind='spelling', one_cell=true, longest=5}]"], "domains.0: longest"),
        (["domains=[{kind='spelling', one_cell=true, lengths=[5]}]"], "domains.0: lengths"),
        *(
            (["kind=softmax", "features={}", f"lexicon.{key}=['train']"], f"lexicon.{key}")
            for key in ("parts", "corpora", "tsv", "columns", "values")
        ),
        *(
            ([f"corpus.{key}={value}"], f"corpus: {key} is for train")
            for key, value in {
                "valid": "['a.txt']",
                "test": "['a.txt']",
                "valid_last": "5",
                "format": "'text'",
                "conditions": "'act'",
            }.items()
        ),
        *(
            ([f"condition={{reading='{reading}', {key}=['a']}}"], "unread and ignored are for reading = 'slots'")
            for reading in ("words", "spelled", "whole")
            for key in ("unread", "ignored")
        ),
    ],
)
def test_a_key_that_would_do_nothing_is_refused(path: Path, changes: list[str], key: str) -> None:
    assert key in refusal(path, *changes)


@pytest.mark.parametrize("file", sorted(CONFIGS.rglob("*.toml")), ids=lambda file: str(file.relative_to(CONFIGS)))
def test_our_own_configurations_are_valid_and_survive_their_dump(file: Path) -> None:
    if file.name == "tries.toml":  # lists of changes, no configuration
        return
    config = read_config(file)
    assert Config.model_validate(config.model_dump(mode="json")) == config


# --- all mistakes at once, each with its line ------------------------------------------------------------------------

MISTAKEN = """
kind = "llrn"
epochs = 5
[corpus]
train = "a.txt"
[[domains]]
kind = "numbers"
[[domains]]
kind = "speling"
[features]
output = [
    { kind = "identity", top = 20 },
    { kind = "suffixes", longst = 2 },
]
[background]
kind = "discounted"
smoothing = 0.5
[training]
optimizer = "adam"
"""


def test_all_mistakes_are_named_at_once_each_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, MISTAKEN)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert list(caught.value.lines) == str(caught.value).splitlines()
    found = {line.removeprefix(str(path)): line for line in caught.value.lines}
    expected = {
        ":2: kind: ": "did you mean 'llrnn'?",
        ":5: corpus.train: ": "valid list, found 'a.txt'",
        ":9: domains.1.kind: ": "found 'speling'; did you mean 'spelling'?",
        ":13: features.output.1.longst: ": "did you mean longest?",
        ":17: background.smoothing: ": "leave it out, or choose kind = 'unigram'",
        ":19: training.optimizer: ": "found 'adam'; did you mean 'adamw'?",
        ":3: epochs: ": "did you mean training.epochs?",
    }
    assert len(found) == len(expected)
    for place, said in expected.items():
        assert [line for rest, line in found.items() if rest.startswith(place) and said in line], place


def test_a_key_that_was_changed_has_no_line(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(path, ["vocabulary.parts=5", "corpus.embedded.train=0"])
    assert [line.split(": ")[:2] for line in caught.value.lines] == [
        [str(path), "corpus.embedded.train"],
        [str(path), "vocabulary.parts"],
    ]


# --- the reference and the schema ------------------------------------------------------------------------------------


def test_the_reference_is_not_stale() -> None:
    """llrnn config reference > docs/reference/config.md"""
    assert (CONFIGS.parent / "docs/reference/config.md").read_text(encoding="utf8") == reference()


def test_every_key_has_a_type_a_default_and_a_meaning() -> None:
    rows = re.findall(r"^- `(\w+)` \((.+?)\): (.+)$", reference(), re.MULTILINE)
    assert len(rows) > 150
    assert len(rows) == reference().count("\n- `")
    for key, type_and_default, meaning in rows:
        assert re.match(r"(whole )?number|text|list|table|`", type_and_default), key
        assert len(meaning.split()) > 1 or meaning == "layers", key


def test_every_table_and_kind_has_a_section() -> None:
    page = reference()
    for table in TABLES:
        name = f"[[{table}]]" if table in IN_LISTS else f"[{table}]"
        assert f"## `{name}`" in page
        for kind in kinds_of(table):
            assert re.search(rf"### {re.escape(table)}: .*`kind = \"{kind}\"`", page), (table, kind)


def test_what_the_schema_takes_and_refuses() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(schema())
    checker.check_schema(checker.schema)
    files = [file for file in sorted(CONFIGS.rglob("*.toml")) if file.name != "tries.toml"]
    for file in files:
        checker.validate(tomllib.loads(file.read_text(encoding="utf8")))
    content = tomllib.loads(MINIMAL)
    for key, value in {"clip": 0, "patience": 0, "objective": {"kind": "distil", "teacher": "runs/a"}}.items():
        checker.validate({**content, "training": {key: value}})
        parse_config({**content, "training": {key: value}}, "my.toml")
    wrong: list[dict[str, object]] = [
        {"kind": "llrn"},
        {"epochs": 5},
        {"domains": [{"kind": "speling"}]},
        {"training": {"epochs": 0}},
    ]
    wrong += [{"background": {"kind": "discounted", "smoothing": 1}}, {"controller": {"kind": "lstm", "heads": 2}}]
    for mistake in wrong:
        assert not checker.is_valid({**content, **mistake}), mistake
    assert json.dumps(schema())


# --- --set ---------------------------------------------------------------------------------------------------------


def test_changes_of_every_form(path: Path) -> None:
    config = read_config(
        path,
        [
            "training.epochs=7",
            "name=my model = best",
            "training.batches.kind=sliding",
            " controller . hidden = 12 ",
            "features.output=[{kind='shape'}]",
            "background={kind='unigram', smoothing=0.5}",
            "tied=true",
            "training.epochs=9",
        ],
    )
    assert config.training.epochs == 9  # the last one holds
    assert config.name == "my model = best"
    assert config.training.batches.kind == "sliding"
    assert config.controller.hidden == 12
    assert [group.kind for group in config.features.output] == ["shape"]
    assert config.background == UnigramConfig(kind="unigram", smoothing=0.5)
    assert config.tied


def test_a_change_may_make_a_table(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, ""), ["kind=softmax", "corpus.embedded.train=9"])
    assert config.corpus.embedded is not None
    assert config.corpus.embedded.train == 9


@pytest.mark.parametrize("change", ["training", "", "=5", ".=5", "training.=5", ".epochs=5", "a..b=1", " =1"])
def test_a_change_needs_a_key_and_a_value(path: Path, change: str) -> None:
    assert "--set needs key=value" in refusal(path, change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("training.epoch=5", "training.epoch: no such key"),
        ("training.epochs=many", "training.epochs: input should be a valid integer, found 'many'"),
        ("training.epochs=", "training.epochs: input should be a valid integer, found ''"),
        ("training.epochs.more=5", "epochs is not a table"),
        ("features.output.0.top=5", "output is not a table"),
        ("training=5", "training: input should be"),
        ("kind=softmax", "leave [features] out"),
        ("name=5", "name: input should be a valid string"),
        ("training.epochs=5\nepochs=6", "training.epochs: input should be a valid integer"),
        ("corpus.embedded=none", "corpus.embedded: input should be"),
    ],
)
def test_a_wrong_change_is_named(tmp_path: Path, change: str, said: str) -> None:
    path = written(tmp_path, MINIMAL + "[training]\nepochs = 3")
    assert said in refusal(path, change)


# --- from a configuration to a model -------------------------------------------------------------------------------


def model_refusal(path: Path, *changes: str) -> LLRNNError:
    with pytest.raises(LLRNNError) as caught:
        Project.from_config(read_config(path, changes)).model()
    return caught.value


def test_keys_of_features_are_refused_at_inputs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = "{kind='agreement', rules='french', treebanks=['{data}/t'], steady=true}"
    assert "is of features" in str(model_refusal(path, f"contextual_inputs=[{given}]"))


def test_a_project_makes_what_was_asked_for(path: Path) -> None:
    changes = ["background.kind=unigram", "background.parts=['train', 'valid', 'test']", "controller.hidden=5"]
    project = Project.from_config(read_config(path, [*changes, "contextual=[{kind='repeated', window=3}]"]))
    model = project.model()
    assert {part: len(corpus) for part, corpus in project.corpora.items()} == {"train": 30, "valid": 5, "test": 5}
    assert model.controller.hidden == 5
    assert repr(model.background).startswith("Unigram")
    assert repr(model.contextual) == "(Repeated(window=3),)"
    assert model.provenance["config"]["controller"]["hidden"] == 5


def test_lists_of_terms(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("we saw New York\nYork is not new\n")
    (tmp_path / "places.txt").write_text("New York\n\nLeeds\n")
    (tmp_path / "other.txt").write_text("be\n")
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "forms.tsv").write_text("is\tLemma:be\n")
    keys = "lists={places='{data}/places.txt', other='{data}/other.txt'}, lexicon='{data}/forms.tsv'"

    def project(keys: str, *changes: str) -> Project:
        text = "[features]\noutput = [{kind = 'identity'}]\n[controller]\nkind = 'gru'\nhidden = 4"
        given = ["corpus.train=['{data}/train.txt']", f"contextual=[{{kind='terms', {keys}}}]", *changes]
        changed = [one.replace("{data}", str(tmp_path)) for one in given]
        return Project.from_config(read_config(written(tmp_path, text), changed))

    terms, inside = project(keys).contextual
    assert isinstance(terms, Terms)
    assert isinstance(inside, TermsInside)
    assert inside.followed is terms
    assert terms.lists.terms == [b"be", b"is", b"leeds", b"new york"]  # in the small letters of the text
    assert [terms.lists.groups[g] for g in terms.lists.group] == ["other", "other", "places", "places"]
    large = project(f"{keys}, capitals=true", "corpus.lowercase=false").contextual[0]
    assert b"NEW YORK" in large.lists.terms  # type: ignore[attr-defined]
    made = project(keys, "training.epochs=60")
    model = made.model()
    for _ in train(model, made.corpora["train"], settings=made.config.training):
        pass
    found = llrnn.explain(model, prefix="we saw new", word="york", rival="is")
    assert {term.name: term.share for term in found.terms}["places:continues"] > 0.0  # as it has learnt
    for wrong, said in {
        "lists={a='{data}/nothing.txt'}": "nothing.txt: a file is required",
        "lists={a='{data}/none.txt'}": "one term or more",
        "lists={}": "at least 1",
        "lists={a='a.txt'}}, {kind='terms', lists={b='b.txt'}": "one table of kind = 'terms' has all lists, found 2",
        "lists={a='{data}/other.txt'}, lexicon='{data}/nothing.tsv'": "nothing.tsv: a file is required",
    }.items():
        with pytest.raises(LLRNNError, match=said) as caught:
            project(wrong)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("table", ["vocabulary", "lexicon", "background"])
def test_a_part_without_a_text_is_named(tmp_path: Path, table: str) -> None:
    (tmp_path / "train.txt").write_text("a b\nb a\n")
    text = f"[corpus]\ntrain = ['{tmp_path}/train.txt']\n[features]\noutput = [{{kind = 'identity'}}]"
    changes = ["background.kind=unigram", f"{table}.parts=['train', 'test']"]
    error = model_refusal(written(tmp_path, text), *changes)
    assert isinstance(error, ConfigError)
    assert f"{table}.parts names 'test'" in str(error)


def test_validation_may_be_cut_off_but_not_all_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a b\nb a\na a\n")
    text = f"[corpus]\ntrain = ['{tmp_path}/train.txt']\n[features]\noutput = [{{kind = 'identity'}}]"
    path = written(tmp_path, text)
    project = Project.from_config(read_config(path, ["corpus.valid_last=1"]))
    assert [len(project.corpora[part]) for part in ("train", "valid")] == [2, 1]
    assert "valid_last = 3 leaves nothing" in str(model_refusal(path, "corpus.valid_last=3"))


def test_an_observed_word_without_mass_is_named_before_training(path: Path, tmp_path: Path) -> None:
    (tmp_path / "counts.tsv").write_text("de\t5\n")
    changes = ["background.kind=unigram", f"background.frequencies={tmp_path}/counts.tsv"]
    error = model_refusal(path, *changes)
    assert isinstance(error, ZeroMassError)
    assert "word of the train text" in str(error)
    Project.from_config(read_config(path, [*changes, "background.smoothing=0.1"])).model()


def test_a_validation_word_without_mass_is_named_before_training(path: Path) -> None:
    error = model_refusal(path, "background.kind=unigram")
    assert isinstance(error, ZeroMassError)
    assert "word of the valid text" in str(error)
