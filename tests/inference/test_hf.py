"""A causal LM of `transformers` as background, and an adaptor on top of it in `generate()`. Nothing is downloaded."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import copy
import hashlib
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers  # what it holds is imported when it is used: seconds, for whom collects the tests
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

import llrnn
from helpers import shaken
from llrnn import EOS, GRU, LLRNN, Vocabulary, backgrounds, contextual, features
from llrnn.ground.bundle import read_bundle
from llrnn.ground.errors import BackgroundError, CheckpointError, ConfigError, MissingExtraError, VocabularyError
from llrnn.inference import hf
from llrnn.knowledge.backgrounds import Background, HuggingFace, Mask, Mixture, Uniform
from llrnn.knowledge.process import Batch
from llrnn.layer.priors import Prior
from llrnn.model.testing import check_background

LINES = [
    "le chat noir dort sur le lit",
    "la chatte noire dort sur la table",
    "le chien mange le pain",
    "la chienne mange la soupe",
    "le petit chat mange",
] * 2


@cache
def tokenizer(*, bos: bool = False) -> Any:
    """Byte-level BPE, trained on a few lines; with a beginning of its own, or with the end as beginning."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|end|>", *(["<|begin|>"] if bos else [])]
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    made.train_from_iterator(LINES, trainer)
    begin = {"bos_token": "<|begin|>"} if bos else {}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|end|>", pad_token="<|end|>", **begin
    )


@cache
def language_model(*, vocab: int = 60, positions: int = 64) -> Any:
    """GPT-2 with random weights, large enough that every part shows."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=vocab, n_layer=2, n_head=2, n_embd=16, n_positions=positions, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    return model.eval()


def background(*, bos: bool = False, positions: int = 64, **options: Any) -> HuggingFace:
    made = HuggingFace(language_model(positions=positions), tokenizer(bos=bos), **options)
    return made.bind(hf.vocabulary(tokenizer(bos=bos)))


def adaptor(*, loud: float = 2.0, bos: bool = False) -> LLRNN:
    model = LLRNN(
        hf.vocabulary(tokenizer(bos=bos)),
        output_features=features.Identity(top=20) + features.Suffixes(1, min_count=1),
        background=HuggingFace(language_model(), tokenizer(bos=bos)),
        controller=GRU(4),
        contextual=[contextual.Repeated(4)],
    )
    shaken(model, loud)
    return model


def log_b(prior: Prior) -> Tensor:
    return prior.dense(prior.n).log_b


def logits(tokens: Sequence[int], *, positions: int = 64) -> Tensor:
    """log p of the token after these, by the LM itself."""
    with torch.no_grad():
        found: Tensor = language_model(positions=positions)(torch.tensor([list(tokens)])).logits[0, -1]
    return torch.log_softmax(found, -1)


def folded(b: HuggingFace, row: Sequence[int]) -> tuple[int, ...]:
    state: tuple[int, ...] = b.initial()
    for symbol in row:
        state = b.advance(state, symbol)
    return state


def ids(*rows: Sequence[int]) -> Tensor:
    return torch.tensor([list(row) for row in rows])


def log_prob_after(model: LLRNN, prompt: list[int]) -> Tensor:
    """log p of every next token, by llrnn alone."""
    state = model.start()
    with torch.no_grad():
        for word in prompt:
            distribution, state = model.step(state, [word])
        return distribution.log_probs()[0]


# --- symbols -------------------------------------------------------------------------------------------------------


def test_symbols_are_the_tokens_in_the_order_of_their_ids() -> None:
    vocabulary = hf.vocabulary(tokenizer())
    assert len(vocabulary) == len(tokenizer()) == 60
    assert vocabulary.eos == tokenizer().eos_token_id == 0
    assert [hf.token_of(s) for s in vocabulary.symbols[1:]] == tokenizer().convert_ids_to_tokens(list(range(1, 60)))
    assert any(symbol.startswith("Ġ") for symbol in vocabulary)


AWKWARD = [
    "",
    " ",
    "\n",
    " a",
    "a b",
    "\\",
    "\\n",
    "\\x20",
    "\u2028",
    "\u00a0é",
    "\U0001f600",
    "\U000e0001",
    "▁le",
    "\\-",
]


def test_awkward_tokens_are_escaped_and_come_back() -> None:
    symbols = [hf.symbol_of(token) for token in AWKWARD]
    assert len(set(symbols)) == len(AWKWARD)
    assert Vocabulary([*symbols, EOS]).symbols[:-1] == tuple(symbols)
    assert [hf.token_of(symbol) for symbol in symbols] == AWKWARD
    assert all(symbol.split() == [symbol] and symbol.isprintable() for symbol in symbols)
    assert hf.symbol_of("▁été") == "▁été"


def test_ids_without_a_token_and_another_end_have_names_of_their_own() -> None:
    words = {"<|end|>": 0, EOS: 1, "": 3, " ": 4}
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words)), eos_token="<|end|>"
    )
    vocabulary = hf.vocabulary(made)
    assert vocabulary.symbols == (EOS, "\\x3c/s>", "\\?2", "\\-", "\\x20")
    assert [hf.token_of(symbol) for symbol in vocabulary.symbols[1:]] == [EOS, "", "", " "]


def test_a_tokenizer_without_an_end_is_refused() -> None:
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})))
    with pytest.raises(VocabularyError, match=r"set tokenizer\.eos_token"):
        hf.vocabulary(made)


def test_a_corpus_of_tokens() -> None:
    corpus = hf.corpus(tokenizer(), ["le chat", "", "le pain"], name="tokens")
    assert len(corpus) == 2
    found = hf.vocabulary(tokenizer()).ids(corpus[0].words)
    assert found == tokenizer()("le chat")["input_ids"]


# --- the background ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"bos": True}, {"context": 4}, {"positions": 5}],
    ids=str,
)
def test_it_obeys_the_laws(options: dict[str, Any]) -> None:
    b = background(**options)
    check_background(b, b.vocabulary, prefixes=4, length=5)


def test_log_b_is_what_the_lm_says() -> None:
    b = background()
    rows = [[0], [0, 5, 9], [0, 7, 7, 0, 3]]
    found = log_b(b.prior([folded(b, row) for row in rows]))
    assert found.dtype == torch.float32
    for row, one in zip(rows, found, strict=True):
        torch.testing.assert_close(one, logits(row), rtol=0, atol=1e-5)


def test_before_any_symbol_a_text_begins() -> None:
    b = background()
    torch.testing.assert_close(log_b(b.prior([b.initial()]))[0], logits([0]))
    assert log_b(b.prior([])).shape == (0, 60)


def test_a_beginning_of_its_own_stands_for_the_first_eos_only() -> None:
    b, begin = background(bos=True), tokenizer(bos=True).bos_token_id
    assert begin != b.vocabulary.eos
    assert folded(b, [0, 5, 0, 6]) == (begin, 5, 0, 6)
    torch.testing.assert_close(log_b(b.prior([folded(b, [0, 5])]))[0], logits([begin, 5]))


@pytest.mark.parametrize("context", [None, 2, 3, 4, 6])
def test_follow_is_the_fold_of_advance(context: int | None) -> None:
    b = background(context=context)
    rows = torch.randint(0, 60, (3, 9), generator=torch.Generator().manual_seed(0))
    rows[:, 0] = 0
    mask = torch.rand(3, 9, generator=torch.Generator().manual_seed(1)) < 0.7
    starts = [b.initial(), folded(b, [0, 4, 5]), folded(b, [0, 1, 2, 3, 4])]
    seen, after = b.follow(starts, Batch(rows, rows, mask))
    states, last = [], []
    for start, row, kept in zip(starts, rows.tolist(), mask.tolist(), strict=True):
        for symbol, keep in zip(row, kept, strict=True):
            start = b.advance(start, symbol)
            states += [start] if keep else []
        last.append(start)
    assert list(after) == last
    assert len(seen) == len(states)
    torch.testing.assert_close(log_b(b.prior(seen)), log_b(b.prior(states)), rtol=0, atol=1e-5)


def test_a_long_context_loses_its_older_half() -> None:
    b = background(context=4)
    assert [len(folded(b, [0, *range(1, n)])) for n in range(1, 10)] == [1, 2, 3, 4, 3, 4, 3, 4, 3]
    assert folded(b, [0, 1, 2, 3, 4]) == (2, 3, 4)
    b = background(positions=5)
    torch.testing.assert_close(
        log_b(b.prior([folded(b, [0, *range(1, 20)])])),
        logits(folded(b, [0, *range(1, 20)]), positions=5)[None],
    )


def test_a_batch_where_nothing_counts_does_not_run_the_lm(monkeypatch: pytest.MonkeyPatch) -> None:
    b = background()
    monkeypatch.setattr(b, "_pass", lambda asked: pytest.fail("the LM ran"))
    seen, after = b.follow([b.initial()], Batch(ids([0, 1]), ids([0, 1]), torch.zeros(1, 2, dtype=torch.bool)))
    assert list(after) == [(0, 1)]
    assert log_b(b.prior(seen)).shape == (0, 60)


def read_by(b: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """How many rows of how many tokens the LM reads, pass by pass."""
    run, shapes = b._model.forward, list[tuple[int, int]]()

    def counted(input_ids: Tensor, **options: Any) -> Any:
        shapes.append((input_ids.shape[0], input_ids.shape[1]))
        return run(input_ids, **options)

    monkeypatch.setattr(b._model, "forward", counted)
    return shapes


def step_by_step(b: HuggingFace, states: Sequence[Any], rows: Tensor) -> tuple[Tensor, Sequence[Any]]:
    """log b at every place, (B, T, V), one column after the other; and the states after the last."""
    found = []
    for column in (rows[:, n : n + 1] for n in range(rows.shape[1])):
        here, states = b.follow(states, Batch(column, column, torch.ones_like(column, dtype=torch.bool)))
        found.append(log_b(b.prior(here)))
    return torch.stack(found, 1), states


@pytest.mark.parametrize("context", [None, 2, 5, 8])
def test_steps_with_what_was_read_before_are_a_pass_over_all(context: int | None) -> None:
    b = background(context=context)
    rows = torch.randint(1, 60, (3, 12), generator=torch.Generator().manual_seed(0))
    rows[:, 0] = 0
    starts = [b.initial()] * 3
    here, after = b.follow(starts, Batch(rows, rows, torch.ones_like(rows, dtype=torch.bool)))
    stepped, last = step_by_step(b, starts, rows)
    assert list(after) == list(last)
    torch.testing.assert_close(stepped.flatten(0, 1), log_b(b.prior(here)), rtol=0, atol=1e-5)


def test_a_step_is_one_pass_over_one_token_of_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    b = background()
    shapes = read_by(b, monkeypatch)
    _, states = step_by_step(b, [b.initial()] * 3, ids([0, 1, 2], [0, 3, 4], [0, 5, 6]))
    assert shapes == [(3, 1)] * 3
    step_by_step(b, [states[2], states[0], states[0], states[1]], ids([7], [8], [9], [10]))
    assert shapes[3:] == [(4, 1)]
    _, longer = step_by_step(b, [states[1]], ids([7, 7]))
    step_by_step(b, [longer[0], states[0]], ids([1], [1]))  # of several passes, and of several lengths
    assert shapes[4:] == [(1, 1), (1, 1), (2, 1)]


def test_a_text_that_goes_on_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    b = background()
    rows = torch.randint(1, 60, (2, 8), generator=torch.Generator().manual_seed(0))
    everything = torch.ones(2, 4, dtype=torch.bool)
    here, after = b.follow([b.initial()] * 2, Batch(rows[:, :4], rows[:, :4], everything))
    first = log_b(b.prior(here))
    shapes = read_by(b, monkeypatch)
    here, _ = b.follow(after, Batch(rows[:, 4:], rows[:, 4:], everything))
    second = log_b(b.prior(here))
    assert shapes == [(2, 4)]
    whole, _ = b.follow([b.initial()] * 2, Batch(rows, rows, torch.ones_like(rows, dtype=torch.bool)))
    joined = torch.cat([first.view(2, 4, -1), second.view(2, 4, -1)], 1).flatten(0, 1)
    torch.testing.assert_close(joined, log_b(b.prior(whole)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_states_in_any_order_and_company_are_what_a_pass_over_each_says(seed: int) -> None:
    """Rows are dropped, doubled, joined with older and shorter ones; some columns do not count."""
    b, chance = background(context=9), torch.Generator().manual_seed(seed)
    pool, kept = [b.initial()], [()]
    for _ in range(25):
        chosen = torch.randint(len(pool), (3,), generator=chance).tolist()
        rows = torch.randint(1, 60, (3, int(torch.randint(1, 4, (), generator=chance))), generator=chance)
        mask = torch.rand(rows.shape, generator=chance) < 0.7
        here, after = b.follow([pool[n] for n in chosen], Batch(rows, rows, mask))
        found = log_b(b.prior(here))
        texts = [(*kept[n], *row) for n, row in zip(chosen, rows.tolist(), strict=True)]
        starts = [len(kept[n]) for n in chosen]
        expected = [
            logits(folded(b, text[: start + t + 1]))
            for text, start, keep in zip(texts, starts, mask.tolist(), strict=True)
            for t, k in enumerate(keep)
            if k
        ]
        assert [tuple(one) for one in after] == [tuple(folded(b, text)) for text in texts]
        torch.testing.assert_close(found, torch.stack(expected) if expected else found, rtol=0, atol=1e-5)
        pool, kept = [*pool, *after][-8:], [*kept, *texts][-8:]


def test_what_was_read_goes_with_the_states_and_not_into_copies() -> None:
    b = background()
    _, (state,) = step_by_step(b, [b.initial()], ids([0, 1, 2]))
    assert state.asked.reading is not None
    assert state.asked.window.asked is None  # the passes before are not held
    for copied in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):  # noqa: S301  our own
        assert copied == state
        assert copied.asked is None


def test_an_lm_without_keys_and_values_reads_its_windows_anew() -> None:
    config = transformers.MambaConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, state_size=4, bos_token_id=0)
    torch.manual_seed(0)
    model = transformers.MambaForCausalLM(config).eval()
    b = HuggingFace(model, tokenizer()).bind(hf.vocabulary(tokenizer()))
    rows = ids([0, 1, 2, 3], [0, 5, 6, 7])
    stepped, _ = step_by_step(b, [b.initial()] * 2, rows)
    with torch.no_grad():
        expected = torch.log_softmax(model(rows).logits, -1)
    torch.testing.assert_close(stepped, expected, rtol=0, atol=1e-5)


def test_large_batches_are_cut_into_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    b = background()
    states = [folded(b, [0, n]) for n in range(7)]
    whole = log_b(b.prior(states))
    monkeypatch.setattr("llrnn.knowledge.backgrounds.neural._LOGITS_AT_ONCE", 60 * 2 * 3)
    torch.testing.assert_close(log_b(b.prior(states)), whole, rtol=0, atol=1e-5)


def test_dropout_of_the_lm_is_off() -> None:
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=60, n_layer=1, n_head=1, n_embd=8, n_positions=8, bos_token_id=0)
    )
    b = HuggingFace(model, tokenizer())
    model.train()
    assert torch.equal(log_b(b.prior([(0, 3)])), log_b(b.prior([(0, 3)])))


def test_it_goes_to_the_device_that_it_is_asked_on() -> None:
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=60, n_layer=1, n_head=1, n_embd=8, n_positions=8, bos_token_id=0)
    )
    b = HuggingFace(model, tokenizer())
    b.prior([(0,)])
    b._move(torch.device("cpu"))
    b._move(torch.device("meta"))
    assert model.device.type == "meta"


def test_scores_beyond_the_last_token_are_left_out() -> None:
    b = HuggingFace(language_model(vocab=64), tokenizer()).bind(hf.vocabulary(tokenizer()))
    found = log_b(b.prior([(0, 3)]))
    assert found.shape == (1, 60)
    assert float(found.exp().sum()) == pytest.approx(1.0)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(BackgroundError, match="60 tokens, but the language model answers for 50"):
        HuggingFace(language_model(vocab=50), tokenizer())
    with pytest.raises(BackgroundError, match=r"context must lie between 2 and 64, .* found 65"):
        background(context=65)
    with pytest.raises(BackgroundError, match="found 1"):
        background(context=1)
    symbols = list(hf.vocabulary(tokenizer()).symbols)
    symbols[3], symbols[4] = symbols[4], symbols[3]
    with pytest.raises(BackgroundError, match=r"2 of the 60 given differ: symbol 3 .* llrnn.inference.hf.vocabulary"):
        background().bind(Vocabulary(symbols))


# --- training and folders ------------------------------------------------------------------------------------------


def test_an_adaptor_learns_and_the_lm_does_not() -> None:
    model, corpus = adaptor(loud=0.3), hf.corpus(tokenizer(), LINES)
    before = {name: parameter.clone() for name, parameter in language_model().named_parameters()}
    start = llrnn.evaluate(model, corpus).log_perplexity
    list(llrnn.train(model, corpus, epochs=40, learning_rate=0.03))
    assert llrnn.evaluate(model, corpus).log_perplexity < start - 0.5
    after = dict(language_model().named_parameters())
    assert all(torch.equal(after[name], parameter) and after[name].grad is None for name, parameter in before.items())


def saved_lm(folder: Path) -> Path:
    language_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def test_an_adaptor_comes_back_with_the_folder_of_its_lm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_lm(tmp_path / "lm")
    monkeypatch.chdir(tmp_path)
    model = LLRNN(
        hf.vocabulary(tokenizer()),
        output_features=features.Suffixes(1, min_count=1),
        background=HuggingFace.from_folder("lm", context=32),
        controller=GRU(4),
    )
    shaken(model, 2.0)
    model.save(tmp_path / "adaptor")
    assert not [name for name in read_bundle(tmp_path / "adaptor", "model").tensors if name.startswith("background")]
    monkeypatch.chdir("/")
    loaded = llrnn.load(tmp_path / "adaptor")
    assert repr(loaded.background) == repr(model.background)
    corpus = hf.corpus(tokenizer(), LINES[:3])
    assert llrnn.evaluate(loaded, corpus).log_perplexity == llrnn.evaluate(model, corpus).log_perplexity
    assert loaded.background._limit == 32  # type: ignore[attr-defined]

    (tmp_path / "lm" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json has changed"):
        llrnn.load(tmp_path / "adaptor")
    (tmp_path / "lm").rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"lm, which is gone; put it back, or give .*from_folder"):
        llrnn.load(tmp_path / "adaptor")
    other = llrnn.load(tmp_path / "adaptor", background=HuggingFace(language_model(), tokenizer()))
    assert llrnn.evaluate(other, corpus).log_perplexity == pytest.approx(llrnn.evaluate(model, corpus).log_perplexity)


def test_folders_that_hold_no_lm(tmp_path: Path) -> None:
    with pytest.raises(BackgroundError, match=r"nowhere: a folder is required .* there is no such folder"):
        HuggingFace.from_folder(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BackgroundError, match="not a causal language model with its tokenizer"):
        HuggingFace.from_folder(tmp_path)
    saved = backgrounds.Saved(
        "huggingface", {"folder": str(tmp_path), "sha256": hashlib.sha256(b"{}").hexdigest(), "context": None}
    )
    with pytest.raises(CheckpointError, match="cannot be read"):
        backgrounds.restore(saved)


def test_an_lm_without_a_folder_is_given_again(tmp_path: Path) -> None:
    model = adaptor()
    model.save(tmp_path)
    with pytest.raises(CheckpointError, match="give it again at loading"):
        llrnn.load(tmp_path)
    loaded = llrnn.load(tmp_path, background=HuggingFace(language_model(), tokenizer()))
    corpus = hf.corpus(tokenizer(), LINES[:3])
    assert llrnn.evaluate(loaded, corpus).log_perplexity == llrnn.evaluate(model, corpus).log_perplexity


# --- generate() ----------------------------------------------------------------------------------------------------


def generated(tokens: Tensor, *processors: hf.LogLinearProcessor, **options: Any) -> list[list[int]]:
    """What `generate()` adds; every row of a prompt is real."""
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, **options}
    mask = options.pop("attention_mask", torch.ones_like(tokens))
    found = language_model().generate(tokens, attention_mask=mask, logits_processor=[*processors], **options)
    return [row[tokens.shape[1] :] for row in found.tolist()]


@pytest.mark.parametrize("bos", [False, True], ids=["eos first", "bos first"])
@pytest.mark.parametrize("prompt", ["", "le chat", "la table la"])
def test_greedy_is_llrnns_own(prompt: str, bos: bool) -> None:
    model = adaptor(bos=bos)
    words = tuple(hf.corpus(tokenizer(bos=bos), [prompt])[0].words) if prompt else ()
    expected = llrnn.generate(model, prefix=words, strategy=llrnn.Greedy(), max_words=12)[0]
    begin = tokenizer(bos=bos).bos_token_id if bos else 0
    (found,) = generated(ids([begin, *model.vocabulary.ids(words)]), hf.LogLinearProcessor(model))
    length = len(expected.words) + expected.finished
    assert found[:length] == model.vocabulary.ids([*expected.words, *([EOS] if expected.finished else [])])


def test_the_adaptor_changes_what_is_written() -> None:
    prompt = ids([0, 5, 9])
    assert generated(prompt) != generated(prompt, hf.LogLinearProcessor(adaptor()))


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 3}], ids=str)
def test_without_weights_generate_is_as_before(options: dict[str, Any]) -> None:
    prompt = ids([0, 5, 9], [0, 11, 3])
    assert generated(prompt, hf.LogLinearProcessor(adaptor(loud=0.0)), **options) == generated(prompt, **options)


def test_scores_are_log_p_of_the_adaptor_in_any_order_of_rows() -> None:
    """As beam search asks: rows change places, double, and go on from one another's prefixes."""
    model = adaptor()
    processor = hf.LogLinearProcessor(model)
    calls = [ids([0, 5], [0, 6]), ids([0, 6, 1], [0, 6, 2]), ids([0, 6, 2, 9], [0, 6, 1, 0]), ids([0, 8, 8, 8, 8])]
    for rows in calls:
        with torch.no_grad():
            scores = language_model()(rows).logits[:, -1]
        found = processor(rows, scores + 3.0)  # whatever is added to all of them
        for row, one in zip(rows.tolist(), found, strict=True):
            torch.testing.assert_close(one, log_prob_after(model, row), rtol=0, atol=2e-5)
            assert float(one.exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_states_go_on_from_the_call_before(monkeypatch: pytest.MonkeyPatch) -> None:
    processor, read, scan = hf.LogLinearProcessor(adaptor()), [], LLRNN.scan

    def counting(model: LLRNN, batch: Batch, *rest: Any, **options: Any) -> Any:
        read.append(batch.inputs.tolist())
        return scan(model, batch, *rest, **options)

    monkeypatch.setattr(LLRNN, "scan", counting)
    generated(ids([0, 5, 9], [0, 5, 9]), processor, num_beams=3)
    assert read == [[[0, 5]]]


def test_a_beam_that_holds_everything_finds_the_best_of_all() -> None:
    """Two tokens, or the end at once, by brute force."""
    model, prompt = adaptor(), [0, 5]
    first = log_prob_after(model, prompt)
    totals = {
        (x, y): float(first[x] + p) for x in range(1, 60) for y, p in enumerate(log_prob_after(model, [*prompt, x]))
    }
    totals[(0, 0)] = float(first[0])  # the end, and padding after it
    found = language_model().generate(
        ids(prompt),
        attention_mask=torch.ones(1, 2, dtype=torch.long),
        logits_processor=[hf.LogLinearProcessor(model)],
        num_beams=60,
        max_new_tokens=2,
        length_penalty=0.0,
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    best = max(totals, key=totals.__getitem__)
    tokens = (*found.sequences[0, 2:].tolist(), 0)[:2]
    assert tokens == best
    assert float(found.sequences_scores[0]) == pytest.approx(totals[best], abs=1e-4)


def test_padding_before_a_text_is_its_boundary() -> None:
    model = adaptor()
    alone = generated(ids([0, 5, 9]), hf.LogLinearProcessor(model), max_new_tokens=5)
    rows, mask = ids([0, 0, 0, 5, 9], [0, 3, 4, 3, 4]), ids([0, 0, 1, 1, 1], [1, 1, 1, 1, 1])
    both = generated(rows, hf.LogLinearProcessor(model), attention_mask=mask, max_new_tokens=5)
    assert both[0] == alone[0]


def test_sampling_works() -> None:
    torch.manual_seed(0)
    found = generated(ids([0, 5]), hf.LogLinearProcessor(adaptor()), do_sample=True, num_return_sequences=3)
    assert len(found) == 3


def masked(mask: Background, *, loud: float = 2.0) -> LLRNN:
    model = LLRNN(
        hf.vocabulary(tokenizer()),
        output_features=features.Suffixes(1, min_count=1),
        background=HuggingFace(language_model(), tokenizer()) * mask,
        controller=GRU(4),
    )
    shaken(model, loud)
    return model


def _no_repeats(condition: object, words: tuple[str, ...]) -> list[str]:
    return [*words]


@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"num_beams": 3}], ids=str)
@pytest.mark.parametrize(
    "mask",
    [Mask(forbidden=_no_repeats), Mask(forbidden=_no_repeats) * Mask(allowed=["a", "Ġle", "t", "e", EOS])],
    ids=repr,
)
def test_what_a_mask_forbids_is_not_written(mask: Background, options: dict[str, Any]) -> None:
    model = masked(mask)
    torch.manual_seed(0)
    prompt = ids([0, *model.vocabulary.ids(["a"])], [0, *model.vocabulary.ids(["e"])])
    for row, begun in zip(generated(prompt, hf.LogLinearProcessor(model), **options), prompt.tolist(), strict=True):
        written = [*begun[1:], *row]
        text = written[: written.index(0)] if 0 in written else written
        assert len(text) == len(set(text))
        assert len(text) > 1 or "allowed" in repr(mask)


def test_scores_under_a_mask_are_log_p_of_the_adaptor() -> None:
    model = masked(Mask(forbidden=_no_repeats) * Mask(forbidden=["a"]))
    processor = hf.LogLinearProcessor(model)
    for row in ([0, 5], [0, 5, 7], [0, 5, 7, 9], [0, 3, 2, 1]):
        with torch.no_grad():
            scores = language_model()(ids(row)).logits[:, -1]
        torch.testing.assert_close(processor(ids(row), scores)[0], log_prob_after(model, row), rtol=0, atol=2e-5)


def test_scores_of_a_mixture_are_log_p_of_the_adaptor() -> None:
    lm = HuggingFace(language_model(), tokenizer())
    model = LLRNN(
        hf.vocabulary(tokenizer()),
        output_features=features.Suffixes(1, min_count=1),
        background=Mixture(lm, Uniform(), weights=[0.7, 0.3]),
        controller=GRU(4),
    )
    shaken(model, 2.0)
    processor = hf.LogLinearProcessor(model)
    for row in ([0, 5], [0, 5, 7], [0, 3, 2, 1]):
        with torch.no_grad():
            scores = language_model()(ids(row)).logits[:, -1]
        torch.testing.assert_close(processor(ids(row), scores)[0], log_prob_after(model, row), rtol=0, atol=2e-5)


def test_an_adaptor_must_fit_its_lm() -> None:
    model = LLRNN(Vocabulary(["a", EOS]), output_features=features.Identity(), background=Uniform())
    with pytest.raises(ConfigError, match=r"backgrounds\.HuggingFace\(\.\.\.\), .* found Uniform"):
        hf.LogLinearProcessor(model)
    twice = HuggingFace(language_model(), tokenizer()) * HuggingFace(language_model(), tokenizer())
    squared = LLRNN(hf.vocabulary(tokenizer()), output_features=features.Identity(), background=twice)
    with pytest.raises(ConfigError, match=r"one language model.* found HuggingFace.* \* HuggingFace"):
        hf.LogLinearProcessor(squared)
    with pytest.raises(ConfigError, match="60 tokens, but the language model scores 50"):
        hf.LogLinearProcessor(adaptor())(ids([0]), torch.zeros(1, 50))


def test_scores_beyond_the_last_token_stay_impossible() -> None:
    found = hf.LogLinearProcessor(adaptor())(ids([0, 3]), torch.zeros(1, 64))
    assert bool((found[0, 60:] == float("-inf")).all())
    assert float(found.exp().sum()) == pytest.approx(1.0, abs=1e-5)


# --- the harness ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bos", [False, True])
def test_the_harness_reads_tokens_where_the_background_does(bos: bool) -> None:
    model = adaptor(bos=bos)
    lm, tokens = hf.HarnessLM(model), tokenizer(bos=bos)
    pairs = [("le chat", " noir dort"), ("la table ", "mange"), ("", "le pain")]
    found = lm.loglikelihood([SimpleNamespace(args=pair) for pair in pairs])
    for (context, continuation), (log_p, best) in zip(pairs, found, strict=True):
        whole = tokens(context + continuation)["input_ids"]
        start = len(tokens(context.rstrip())["input_ids"]) if context else 0
        steps = [log_prob_after(model, [0, *whole[:n]]) for n in range(start, len(whole))]
        assert log_p == pytest.approx(sum(float(p[whole[start + n]]) for n, p in enumerate(steps)), abs=1e-4)
        assert best == all(int(p.argmax()) == whole[start + n] for n, p in enumerate(steps))
    (text,) = lm.generate_until([SimpleNamespace(args=("le chat", {"max_gen_toks": 4}))])
    prefix = tuple(hf.corpus(tokens, ["le chat"])[0].words)
    (written,) = llrnn.generate(model, prefix, greedy=True, max_words=4)
    assert text == tokens.decode(model.vocabulary.ids(written.words))


# --- a Trainer -----------------------------------------------------------------------------------------------------


class OnGpt(torch.nn.Module):
    """A GPT-2 body of `transformers` under our layer; the loss is the first of what a Trainer looks for."""

    def __init__(self) -> None:
        super().__init__()
        self.body = copy.deepcopy(language_model().transformer)
        self.layer = llrnn.LogLinear(torch.eye(60), self.body.config.n_embd)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        h = self.body(input_ids=input_ids).last_hidden_state
        return {"loss": self.layer.loss(h[:, :-1], labels[:, 1:], ignore_index=-100)}


class Wrapped(torch.nn.Module):
    """A model of ours as a Trainer calls one."""

    def __init__(self) -> None:
        super().__init__()
        self.model = adaptor(loud=0.3)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(input_ids[:, :-1], labels[:, 1:])}


@pytest.mark.parametrize("make", [OnGpt, Wrapped])
def test_a_trainer_trains_our_layer_and_our_model(make: type[torch.nn.Module], tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs it")
    from transformers import Trainer, TrainingArguments

    rows = [[0, *tokenizer()(line)["input_ids"], 0] for line in LINES]
    longest = max(map(len, rows))
    data = [
        {
            "input_ids": torch.tensor([*row, *[0] * (longest - len(row))]),
            "labels": torch.tensor([*row, *[-100] * (longest - len(row))]),
        }
        for row in rows
    ]
    options = TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=15,
        learning_rate=0.01,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=make(), args=options, train_dataset=data)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3


# --- without the extra ---------------------------------------------------------------------------------------------


def test_without_transformers_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'llrnn\[hf\]'"):
        HuggingFace.from_folder(tmp_path)
    monkeypatch.delitem(sys.modules, "llrnn.inference.hf")
    with pytest.raises(MissingExtraError, match=r"pip install 'llrnn\[hf\]'"):
        __import__("llrnn.inference.hf")
