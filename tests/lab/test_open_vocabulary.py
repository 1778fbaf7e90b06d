"""The open-vocabulary study at the size of a minute: no test text is opened before every choice is made."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import sentence_log_probs, shaken, small_corpus, small_model
from llrnn import GRU, LLRNN, Corpus, Vocabulary, evaluate, features, load
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.config.wordlists import from_wordfreq, joined
from llrnn.ground.errors import ConfigError, LexiconError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn.text.lexicon import Lexicon, read_frequencies
from llrnn.text.readers import conllu_lines
from llrnn.text.units import BytePairs, CharacterUnits, decode
from llrnn.text.vectors import WordVectors
from llrnn_lab import french
from llrnn_lab.studies import open_data
from llrnn_lab.studies import open_vocabulary as study
from llrnn_lab.studies import prepare as preparing
from llrnn_lab.studies.jobs import Job

ROOT = Path(__file__).parents[2]

_AFF = "SET UTF-8\nSFX S Y 1\nSFX S 0 s .\n\nSFX R Y 1\nSFX R 0 rarely .\n"
_CONFIG = """
name = "{name}"
kind = "softmax"
tied = true
corpus = {{ train = ["{{data}}/{texts}"], valid = ["{{data}}/{valid}"], lowercase = false }}
vocabulary = {{ {vocabulary} }}
background = {{ kind = "unigram", parts = ["train"], smoothing = 1.0 }}
controller = {{ kind = "gru", hidden = 12 }}
training = {{ epochs = 1, learning_rate = 0.01 }}
"""

_opened: list[str] | None = None  # the files that were opened, while somebody wants to know


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_note)  # Python has no way to take it away again


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Every file that this process opens meanwhile, by whatever function."""
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def write_conllu(path: Path, corpus: Corpus) -> None:
    write_atomically(path, "".join(f"{line}\n" for line in conllu_lines(corpus)).encode())


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Texts and a dictionary in the places of the Estonian ones; there is no test text."""
    pytest.importorskip("tokenizers")
    folder = tmp_path / "data" / "ud_estonian"
    folder.mkdir(parents=True)
    train, valid, _ = texts()
    write_conllu(folder / "xx-train.conllu", train)
    write_conllu(folder / "xx-dev.conllu", valid)
    dictionaries = tmp_path / "hunspell"
    dictionaries.mkdir()
    stems = sorted({word for word in valid.counts() if word.isalpha()})
    (dictionaries / "et_EE.aff").write_text(_AFF, encoding="utf8")
    lines = [str(len(stems)), *(f"{stem}/SR" for stem in stems)]
    (dictionaries / "et_EE.dic").write_text("\n".join(lines) + "\n", encoding="utf8")
    monkeypatch.setattr(open_data, "DICTIONARIES", dictionaries)
    return folder.parent


def texts() -> tuple[Corpus, ...]:
    """The embedded grammar, with a word of odd characters in every part."""
    whole = Corpus.from_sentences(french.sentences(270, seed=5))
    odd = Corpus.from_sentences([["le", "☃▁", "</s>x", "10 000"]])
    return tuple(part + odd for part in whole.split(200, 30))


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """Three small systems with two tries each; the one of words has a list of all of them, in place of domains."""
    folder = tmp_path / "configs"
    folder.mkdir()
    for part in texts():
        write_conllu(folder / f"{len(part)}.conllu", part.lowercased())
    listed = f"files = {json.dumps([str(path) for path in folder.glob('*.conllu')])}"
    words = _CONFIG.format(name="llrnn", texts="train.conllu", valid="valid.conllu", vocabulary=listed)
    (folder / "llrnn.toml").write_text(words, encoding="utf8")
    for name, units_in in (("characters", "characters"), ("bpe", "bpe-2000")):
        listed = f'files = ["{{data}}/{units_in}/units.txt"]'
        text = _CONFIG.format(
            name=name, texts=f"{units_in}/train.txt", valid=f"{units_in}/valid.txt", vocabulary=listed
        )
        (folder / f"{name}.toml").write_text(text, encoding="utf8")
    tries = '[["training.learning_rate=0.00001"], ["training.learning_rate=0.02"]]'
    (folder / "tries.toml").write_text("".join(f"{name} = {tries}\n" for name in ("llrnn", "characters", "bpe")))
    return folder


def test_no_test_text_is_opened_before_every_choice_is_made(data: Path, configs: Path, tmp_path: Path) -> None:
    """A hook of Python sees every file that is opened; and without its test text the study goes as far as choosing."""
    out = tmp_path / "out"
    prepared = out / "et"
    test = data / "ud_estonian" / "xx-test.conllu"
    write_conllu(test, texts()[2])
    with opened_files() as opened:
        open_data.prepare(data, prepared, "et")
        wanted = study.jobs(prepared, configs)
        for job in wanted:  # what the processes of the study do, in this one
            study.run_one(job, data=prepared, out=prepared / "models", device=torch.device("cpu"))
    of_data = {Path(path).name for path in opened if path.startswith(str(data))}
    assert of_data == {"xx-train.conllu", "xx-dev.conllu"}
    manifest = json.loads((prepared / "manifest.json").read_bytes())
    assert set(manifest["texts opened"]) == of_data
    test.unlink()
    with pytest.raises(ConfigError, match=r"one file \*-test\.conllu\* is required"):
        study.run(data, out, ["et"], configs)
    assert all((job.folder(prepared / "models") / "valid.json").exists() for job in wanted)  # the choice is made
    kept = wanted[0].folder(prepared / "models") / "valid.json"
    by_training = json.loads(kept.read_bytes())
    kept.unlink()  # then the model is loaded and says the same
    write_conllu(test, texts()[2])
    with opened_files() as opened:
        result = study.run(data, out, ["et"], configs)["et"]
    assert opened.count(str(test)) == 1
    loaded = json.loads(kept.read_bytes())
    assert loaded.pop("valid")["bits"] == pytest.approx(by_training.pop("valid")["bits"], rel=1e-5)
    assert loaded == by_training
    check_result(result, prepared, wanted_tests={"test1": texts()[2].lowercased()})
    again = study.run(data, out, ["et"], configs)["et"]
    assert again == result
    rendered = (out / "open-vocabulary.md").read_text(encoding="utf8")
    assert "| characters |" in rendered
    assert "unseen (n = " in rendered


def check_result(result: dict[str, Any], prepared: Path, wanted_tests: dict[str, Corpus]) -> None:
    assert set(result["systems"]) == {"llrnn", "characters", "bpe"}
    for name, one in result["systems"].items():
        by_try = [found["valid"]["bits_per_character"] for found in one["tries"]]
        assert by_try[1] < by_try[0]  # a step size of nearly nothing learns nearly nothing
        assert one["chosen"] == 1
        assert one["parameters"] <= result["budget"]
        model = load(prepared / "models" / f"{name}.try1.seed0")
        assert one["parameters"] == sum(parameter.numel() for parameter in model.parameters())
        for test, corpus in wanted_tests.items():
            found = one["tests"][test]
            assert found["words"] == corpus.tokens + len(corpus)
            assert found["characters"] == sum(len(word) + 1 for sentence in corpus for word in sentence.words)
            assert 1.0 < found["bits_per_character"] < 8.0
            for key in ("words", "characters", "bits"):
                assert sum(band[key] for band in found["by_band"].values()) == pytest.approx(found[key])
            assert found["by_band"]["ends"]["words"] == len(corpus)
            assert found["by_band"]["unseen"]["words"] > 0
    words = result["systems"]["llrnn"]["tests"]["test1"]["by_band"]
    characters = result["systems"]["characters"]["tests"]["test1"]["by_band"]
    assert [words[band]["words"] for band in words] == [characters[band]["words"] for band in characters]


def test_what_is_prepared(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "et"
    open_data.prepare(data, out, "et")
    train, valid = (Corpus.from_file(out / f"{part}.conllu") for part in ("train", "valid"))
    assert [s.words for s in train] == [s.words for s in texts()[0].lowercased()]
    frequencies = read_frequencies(out / "frequencies.tsv")
    assert sum(frequencies.values()) == pytest.approx(1.0, abs=1e-3)
    stems = {word for word in valid.counts() if word.isalpha()}
    assert stems <= set(frequencies)
    assert not any(form.endswith("rarely") for form in frequencies)  # the training text has no such ending
    plain = max(frequencies[stem] for stem in stems)
    plural = [frequencies[f"{stem}s"] for stem in stems if f"{stem}s" in frequencies and f"{stem}s" not in stems]
    assert plural
    assert max(plural) < plain  # most words of the text have no ending
    lexicon = Lexicon.from_tsv(out / "lexicon.tsv")
    seen = train.counts()
    assert {seen[form] >= open_data.OFTEN for form in lexicon.forms()} == {True}
    assert any(seen[word] == open_data.OFTEN for word in lexicon.forms())
    manifest = json.loads((out / "manifest.json").read_bytes())
    unseen = [word for word in valid.counts() if word not in seen]
    share = sum(word in frequencies for word in unseen) / len(unseen)
    assert manifest["coverage"]["hunspell"]["unseen types"] == pytest.approx(share)
    assert 0 < share < 1
    for name in ("characters", *(f"bpe-{size}" for size in open_data.BYTE_PAIRS)):
        for part, corpus in (("train", train), ("valid", valid)):
            cut = Corpus.from_file(out / name / f"{part}.txt")
            assert len(cut) == len(corpus)
            words = [word for sentence in cut for word in decode(sentence.words)]
            assert len(words) == corpus.tokens
            assert words[:50] == [word for sentence in corpus for word in sentence.words][:50]
    before = (out / "manifest.json").stat().st_mtime_ns
    open_data.prepare(tmp_path / "nowhere", out, "et")  # what is there is left alone
    assert (out / "manifest.json").stat().st_mtime_ns == before


def test_the_chosen_tries_are_trained_with_other_seeds(data: Path, configs: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "et"
    write_conllu(data / "ud_estonian" / "xx-test.conllu", texts()[2])
    open_data.prepare(data, prepared, "et")
    wanted = study.jobs(prepared, configs, ["llrnn"])
    models, device = prepared / "models", torch.device("cpu")
    for job in wanted:
        study.run_one(job, data=prepared, out=models, device=device)
    (again,) = study.seeded(wanted, prepared, 2, "cpu")["llrnn"]
    assert again == replace(wanted[1], seed=1)
    study.run_one(again, data=prepared, out=models, device=device)
    found = study.chosen_and_tested(data, prepared, "et", configs, ["llrnn"], seeds=2)["systems"]["llrnn"]
    (other,) = found["seeds"]
    assert other["tests"]["test1"]["words"] == found["tests"]["test1"]["words"]
    assert other["tests"]["test1"]["bits"] != found["tests"]["test1"]["bits"]
    shown = [one["tests"]["test1"]["bits_per_character"] for one in (found, other)]
    assert f"| {sum(shown) / 2:.3f} |" in study.table({"et": {"budget": 1, "systems": {"llrnn": found}}})


@pytest.mark.slow
def test_a_training_command_runs_by_itself(data: Path, configs: Path, tmp_path: Path) -> None:
    """With nothing but the prepared folder: the command is what a machine without our packages gets."""
    prepared = tmp_path / "et"
    open_data.prepare(data, prepared, "et")
    commands = study.commands(prepared, configs)
    assert len(commands) == 6
    (command,) = [one for one in commands if "bpe.try1" in one]
    block = "import sys; sys.modules['tokenizers'] = sys.modules['wordfreq'] = None; "
    command = [block + word if word.startswith("from llrnn.cli") else word for word in command]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (job,) = [one for one in study.jobs(prepared, configs) if one.name == "bpe.try1"]
    assert job.result(prepared / "models") is not None


def test_words_of_a_word_model_are_scored_in_the_order_of_the_text() -> None:
    model = small_model().double()
    corpus = small_corpus()[:12]
    assert len({len(sentence.words) for sentence in corpus}) > 3
    found = study.word_log_probs(model, corpus)
    for sentence, log_probs in zip(corpus, found, strict=True):
        np.testing.assert_allclose(log_probs, sentence_log_probs(model, sentence.words), rtol=1e-9)
    figures = study.figures(found, corpus, small_corpus()[:6].counts())
    evaluated = evaluate(model, corpus)
    assert figures["bits_per_character"] == pytest.approx(evaluated.bits_per_character)
    assert figures["log_perplexity"] == pytest.approx(evaluated.log_perplexity)
    assert figures["characters"] == evaluated.characters


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_word_is_the_product_of_its_units(kind: str) -> None:
    pytest.importorskip("tokenizers")
    train = small_corpus()
    cut = CharacterUnits.from_corpus(train) if kind == "characters" else BytePairs.from_corpus(train, 80)
    model = LLRNN(Vocabulary([*cut.symbols(), "</s>"]), output_features=features.Identity(), controller=GRU(5)).double()
    shaken(model, 2.0)
    corpus = Corpus.from_sentences([["le", "☃x☃", "chats"], ["la"], ["un", "petit", "arbre", "vert"]])
    found = study.word_log_probs(model, corpus, cut)
    for sentence, log_probs in zip(corpus, found, strict=True):
        pieces = [cut.of(word) for word in sentence.words]
        *of_units, end = sentence_log_probs(model, [unit for piece in pieces for unit in piece])
        rest = iter(of_units)
        by_hand = [sum(next(rest) for _ in piece) for piece in pieces]
        unlisted = [sum(one not in cut.listed for one in word) for word in sentence.words]
        price = math.log(0x110000 - 2048 - 10 - len(cut.listed))
        wanted = [log_p - count * price for log_p, count in zip(by_hand, unlisted, strict=True)]
        np.testing.assert_allclose(log_probs, [*wanted, end], rtol=1e-9)
    assert unlisted_words(corpus, cut) == ["☃x☃"]


def test_a_model_that_does_not_tell_unknown_words_apart_is_refused() -> None:
    vocabulary = Vocabulary.from_corpus(small_corpus(), top=20, unknown="<unk>")
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(3))
    with pytest.raises(ConfigError, match="this model counts all unknown words as '<unk>'"):
        study.word_log_probs(model, small_corpus()[:2])


def unlisted_words(corpus: Corpus, cut: CharacterUnits | BytePairs) -> list[str]:
    return [word for sentence in corpus for word in sentence.words if cut.log_inside(word) < 0]


def test_figures_by_band() -> None:
    corpus = Corpus.from_sentences([["aa", "b"], ["cccc"]])
    log_probs = [np.log([0.5, 0.25, 0.5]), np.log([0.125, 0.5])]
    found = study.figures(log_probs, corpus, Counter({"aa": 51, "b": 5}))
    assert found["bits"] == pytest.approx(1 + 2 + 1 + 3 + 1)
    assert found["characters"] == 3 + 2 + 5
    assert found["log_perplexity"] == pytest.approx(8 * math.log(2) / 5)
    bands = {name: (part["words"], part["characters"], part["bits"]) for name, part in found["by_band"].items()}
    assert bands == {
        "unseen": (1, 5, pytest.approx(3)),
        "1-5": (1, 2, pytest.approx(2)),
        "6-50": (0, 0, 0),
        "more": (1, 3, pytest.approx(1)),
        "ends": (2, 0, pytest.approx(2)),
    }
    assert found["by_band"]["6-50"]["bits_per_character"] is None


@pytest.mark.parametrize("tied", [True, False])
def test_the_widest_model_that_the_budget_allows(tied: bool, data: Path, configs: Path, tmp_path: Path) -> None:
    open_data.prepare(data, tmp_path / "et", "et")
    changes = ["controller.layers=2", "controller.kind=lstm", f"tied={str(tied).lower()}"]
    project = Project.from_config(read_config(configs / "characters.toml", changes, data=tmp_path / "et"))
    exact = study.parameters(project, 17)
    assert exact == sum(p.numel() for p in replaced_hidden(project, 17).model().parameters())
    assert study.widest(project, exact) == 17
    assert study.widest(project, exact - 1) == 16
    assert study.widest(project, exact + 1) == 17
    with pytest.raises(ConfigError, match="parameters are needed for one hidden unit, but the budget is 5"):
        study.widest(project, 5)


def replaced_hidden(project: Project, hidden: int) -> Project:
    controller = project.config.controller.model_copy(update={"hidden": hidden})
    return replace(project, config=project.config.model_copy(update={"controller": controller}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("llrnn = [[]]\ncharacters = [[], []]\nbpe = [[]]\n", "the same number of tries"),
        ("llrnn = []\ncharacters = []\nbpe = []\n", "the same number of tries"),
        ("llrnn = [[]]\nbpe = [[]]\n", "tries are required for each of bpe, characters, llrnn, found bpe, llrnn"),
        ('llrnn = ["a=1"]\n', "llrnn must be a list of lists of changes"),
        ("llrnn = [", "a TOML file with the tries"),
    ],
)
def test_unequal_tries_are_refused(content: str, message: str, configs: Path) -> None:
    (configs / "tries.toml").write_text(content)
    with pytest.raises(ConfigError, match=re.escape(message)):
        study.systems(configs)


def test_a_model_of_other_tries_is_refused(data: Path, configs: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "et"
    open_data.prepare(data, prepared, "et")
    job = study.jobs(prepared, configs)[0]
    with pytest.raises(ConfigError, match="must be trained before it is chosen"):
        study.chosen_and_tested(data, prepared, "et", configs)
    job.folder(prepared / "models").mkdir()
    (job.folder(prepared / "models") / "result.json").write_text('{"changes": ["other=1"]}')
    with pytest.raises(ConfigError, match="remove that folder"):
        study.jobs(prepared, configs)


@pytest.mark.parametrize("folder", ["configs/open", "configs/open/more"])
def test_the_committed_configurations_are_read(folder: str, tmp_path: Path) -> None:
    for name, (path, tries) in study.systems(ROOT / folder).items():
        for changes in tries:
            config = read_config(path, changes, data=tmp_path)
            assert not config.corpus.test
            assert config.name == name
            own = [
                *config.corpus.train,
                *config.corpus.valid,
                *(path for one in config.corpus.other for path in one.files),
            ]
            assert len(own) == (5 if folder.endswith("more") else 2)  # all systems read the same texts
            places = [*own, *config.vocabulary.files] if name in ("bpe", "characters") else own
            (place,) = {Path(place).parent for place in places}  # all of one size
            more = f"-{open_data.MORE}" if folder.endswith("more") else ""
            sizes = open_data.MORE_BYTE_PAIRS if more else open_data.BYTE_PAIRS
            folders = {"characters": [f"characters{more}"], "bpe": [f"bpe-{size}{more}" for size in sizes]}
            assert place.name in folders.get(name, [tmp_path.name])
            groups = [*config.features.output, *(config.features.input or [])]
            vectors = [group.file for group in groups if group.kind == "vectors"]
            assert {Path(file) for file in vectors} <= {place / "vectors.npz"}


@pytest.fixture
def more_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """French texts, a dictionary, and other texts that have a sentence of each text that is held out."""
    pytest.importorskip("tokenizers")
    data, made = tmp_path / "data", list(french.sentences(160, seed=2))
    for place, parts in {
        "ud_french_gsd/fr_gsd-train": made[:110],  # the last 11 validate
        "ud_french_gsd/fr_gsd-dev": made[110:120],
        "ud_french_gsd/fr_gsd-test": made[120:130],
        "ud_french/fr_pud-ud-test": made[125:150],
    }.items():
        (data / place).parent.mkdir(parents=True, exist_ok=True)
        write_conllu(data / f"{place}.conllu", Corpus.from_sentences(parts))
    held_out = [" ".join(made[i].words) for i in (105, 115)]
    for name, lines in {
        "novels_french/novel": ["Le zouave dort."],
        "wiki_french/wiki": [*held_out, "le zouave dort ."],
    }.items():
        (data / name).parent.mkdir()
        with gzip.open(data / f"{name}.txt.gz", "wt", encoding="utf8") as file:
            file.write("".join(f"{line.lower() if 'wiki' in name else line}\n" for line in lines))
    (tmp_path / "fr.dic").write_text("1\nzouave po:nom is:mas\n", encoding="utf8")
    (tmp_path / "fr.aff").write_text("SET UTF-8\n", encoding="utf8")
    monkeypatch.setattr(open_data, "DICTIONARIES", tmp_path)
    monkeypatch.setattr(preparing, "HUNSPELL", tmp_path / "fr.dic")
    monkeypatch.setattr(open_data, "from_wordfreq", lambda language: {"le": 0.5, "kiwi": 0.25, "train": 0.25})
    return data


def write_vectors(data: Path, path: Path) -> WordVectors:
    """Of the words of the training text, and of a word that is listed in another case."""
    rng = np.random.default_rng(1)
    words = [*Corpus.from_file(data / "ud_french_gsd" / "fr_gsd-train.conllu", lowercase=True).counts(), "Kiwi"]
    made = WordVectors.from_mapping({word: rng.normal(size=6).tolist() for word in words})
    made.save(path)
    return made


def test_other_texts_and_vectors_for_every_system(more_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "fr"
    source = write_vectors(more_data, tmp_path / "vectors.npz")
    open_data.prepare(more_data, out, "fr", vectors=tmp_path / "vectors.npz")
    told = json.loads((out / "other.json").read_bytes())
    assert {name: one["dropped"] for name, one in told["texts"].items()} == {"novels": 0, "treebanks": 0, "wiki": 2}
    assert (out / "other-wiki.txt").read_text(encoding="utf8") == "le zouave dort .\n"
    assert told["texts"]["treebanks"]["sentences"] == 20  # and none of the five that the test has
    listed, before = (read_frequencies(out / f"frequencies{which}.tsv") for which in ("-more", ""))
    assert "zouave" in listed
    assert "zouave" not in before
    assert set(before) < set(listed)
    vectors = WordVectors.read(out / "vectors.npz")
    assert vectors.rows_of(["kiwi", "zouave"]).tolist()[1] == -1
    (kiwi,) = vectors.table[vectors.rows_of(["kiwi"])]
    np.testing.assert_allclose(kiwi, source.table[source.rows_of(["Kiwi"])][0], rtol=1e-3)
    names = ["characters-more", "bpe-8000", *(f"bpe-{size}-more" for size in open_data.MORE_BYTE_PAIRS)]
    for name in names:
        for text in ("other-novels", "other-treebanks", "other-wiki"):
            cut, whole = (Corpus.from_file(folder / f"{text}.txt") for folder in (out / name, out))
            assert [decode(sentence.words) for sentence in cut] == [list(sentence.words) for sentence in whole]
    units = WordVectors.read(out / "bpe-8000-more" / "vectors.npz")
    assert len(units) > 20
    for unit in units.words:
        (word,) = decode([unit])
        assert np.array_equal(units.table[units.rows_of([unit])], vectors.table[vectors.rows_of([word])])
    with pytest.raises(ConfigError, match="for fr alone, found et; leave --vectors out"):
        open_data.prepare(more_data, tmp_path / "et", "et", vectors=tmp_path / "vectors.npz")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_every_system_reads_other_texts_and_vectors(more_data: Path, tmp_path: Path) -> None:
    """The committed configurations, at the size of seconds."""
    prepared, models = tmp_path / "fr", tmp_path / "models"
    write_vectors(more_data, tmp_path / "vectors.npz")
    open_data.prepare(more_data, prepared, "fr", vectors=tmp_path / "vectors.npz")
    for system, (identity, folder) in {
        "llrnn": ("{kind='identity'}, {kind='orthographic'}", ""),
        "softmax": ("{kind='identity'}", ""),
        "bpe": ("{kind='identity'}", "bpe-8000-more/"),
        "characters": (None, ""),
    }.items():
        changes = ["controller.hidden=8", "training.epochs=1"]
        if identity is not None:
            vectors = f"{{kind='vectors', file='{prepared}/{folder}vectors.npz', components=4}}"
            changes.append(f"features.output=[{identity}, {vectors}]")
        job = Job(system, ROOT / "configs" / "open" / "more" / f"{system}.toml", tuple(changes), study=study.STUDY)
        study.run_one(job, data=prepared, out=models, device=torch.device("cpu"))
        found = json.loads((job.folder(models) / "valid.json").read_bytes())
        assert found["epochs"] == 1 + (3 if system == "characters" else 6)
        assert 1.0 < found["valid"]["bits_per_character"] < 8.0


def test_lists_and_texts_are_mixed_by_the_words_that_were_seen_once() -> None:
    """λ is the likeliest on a grid; words that only a text has are listed."""
    train = Corpus.from_sentences([["a", "b", "c", "d", "x", "x"]])
    listed = {"a": 0.1, "b": 0.1, "x": 0.7, "e": 0.1}
    other = Corpus.from_sentences([["c", "c", "d", "b", "x", "f", "f", "f"]])
    found = open_data.with_texts(listed, {"other": other}, train)
    sources = [{word: f / 0.3 for word, f in listed.items()}, {w: n / 7 for w, n in other.counts().items()}]

    def mixed(share: float, word: str) -> float:
        return share * sources[0].get(word, 0.0) + (1 - share) * sources[1].get(word, 0.0)

    grid = np.linspace(0.001, 0.999, 999)
    best = max(grid, key=lambda share: sum(math.log(mixed(share, word)) for word in "abcd"))
    total = sum(mixed(best, word) for word in {*listed, *other.counts()})
    assert found.keys() == {"a", "b", "c", "d", "e", "f", "x"}
    for word, value in found.items():
        assert value == pytest.approx(mixed(best, word) / total, rel=0.01)


def test_only_some_models(data: Path, configs: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "et"
    open_data.prepare(data, prepared, "et")
    names = [job.name for job in study.jobs(prepared, configs, ["bpe", "llrnn.try0"])]
    assert names == ["bpe.try0", "bpe.try1", "llrnn.try0"]
    with pytest.raises(ConfigError, match="--only nothing: no model has such a name; the systems are bpe, characters"):
        study.jobs(prepared, configs, ["nothing"])


def test_a_try_may_be_narrower_than_the_budget_allows(data: Path, configs: Path, tmp_path: Path) -> None:
    prepared = tmp_path / "et"
    open_data.prepare(data, prepared, "et")
    widths = [study._width(configs / "bpe.toml", changes, prepared, 10**6) for changes in ([], ["controller.hidden=5"])]
    assert widths[0] > 100
    assert widths[1] == 5
    assert study._width(configs / "bpe.toml", ["controller.hidden=5000"], prepared, 10**6) == widths[0]


def test_missing_sources_are_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="one of fr, tr, et, found 'xx'"):
        open_data.prepare(data, tmp_path / "out", "xx")
    with pytest.raises(ConfigError, match=r"one file \*-train\.conllu\* is required there, found 0"):
        open_data.prepare(data, tmp_path / "out", "tr")
    monkeypatch.setattr(open_data, "DICTIONARIES", tmp_path / "nowhere")
    with pytest.raises(LexiconError, match="install Debian's myspell-et"):
        open_data.prepare(data, tmp_path / "out", "et")
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(MissingExtraError, match="wordfreq"):
        from_wordfreq("fr")


def test_lists_are_joined_by_what_they_add() -> None:
    train = Corpus.from_sentences([["a", "b", "c", "c"]])
    both = joined({"one": {"a": 0.6, "b": 0.4}, "two": {"b": 0.5, "c": 0.25, "d": 0.25}}, train)
    assert both == {"a": 0.6, "b": 0.4, "c": 0.25, "d": 0.25}  # c and d: half of the training words


def test_wordfreq_lists_words_and_no_numbers() -> None:
    pytest.importorskip("wordfreq", reason="wordfreq is not installed: pip install 'llrnn[open]'")
    found = from_wordfreq("tr")
    assert len(found) > 50_000
    assert "bir" in found
    assert "00" not in found
