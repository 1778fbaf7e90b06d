"""The study of a frozen LM on English texts: LoRA of a Llama, our layer on top of it, and a small run of all of it."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from typer.testing import CliRunner

from llrnn.cli import app
from llrnn.model.lm import open_lm
from llrnn_lab.studies import frozen_adaptation as study
from llrnn_lab.studies import frozen_cost

LINES = [
    "the black cat sleeps on the bed",
    "the cat sleeps here",
    "a dog eats the bread",
    "the soup is hot , and the dog is black",
] * 4


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights over byte-level BPE, as save_pretrained writes it."""
    path = tmp_path_factory.mktemp("llama")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False),
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>").save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=made.get_vocab_size(),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `prepare` writes them."""
    path = tmp_path_factory.mktemp("texts")
    for text in study.TEXTS:
        for n, part in enumerate(("domain", "valid", "test")):
            lines = LINES[n:] if part == "domain" else LINES[n : n + 4]
            (path / f"{text}-{part}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    return path


@pytest.fixture(scope="module")
def small(llama: Path, texts: Path) -> study.Study:
    opened: Any = open_lm(llama).background
    return study.Study(opened._model, opened.tokenizer, texts, torch.device("cpu"))


def test_a_line_ends_with_a_line_break(small: study.Study) -> None:
    assert small.tokenizer.tokenizer.convert_ids_to_tokens(small.vocabulary.eos) == "Ċ"
    texts = small.domain("novel", 40, 0).texts
    assert all(small.vocabulary.eos not in row for row in texts[0].sentences)


def test_lora_begins_as_the_lm(small: study.Study) -> None:
    lm, domain = small.lm.lm, small.domain("novel", 40, 0)
    made = study.with_lora(lm, 3)
    per_block = 3 * ((16 + 16) + 2 * (16 + 8) + (16 + 16))
    assert sum(p.numel() for p in study.trainable(made)) == 2 * per_block
    parts = range(3)
    for before, after in zip(small.read(small.lm, domain, parts), small.read(made, domain, parts), strict=True):
        assert torch.equal(before, after)
    for parameter in study.trainable(made):
        torch.nn.init.normal_(parameter)
    assert not torch.allclose(small.read(made, domain, parts)[1], small.read(small.lm, domain, parts)[1])


def test_what_is_read_is_what_the_lm_says_line_by_line(small: study.Study) -> None:
    domain, eos = small.domain("novel", 40, 0), small.vocabulary.eos
    h, log_p = small.read(small.lm, domain, range(3))
    place = 0
    for text in domain.texts:
        for row in text.sentences:
            ids = torch.tensor([[eos, *row, eos]])
            with torch.no_grad():
                out = small.lm.lm(input_ids=ids[:, :-1], output_hidden_states=True)
            own = slice(place, place + len(row) + 1)
            expected = torch.log_softmax(out.logits[0], -1).gather(1, ids[0, 1:, None])[:, 0]
            torch.testing.assert_close(log_p[own], expected)
            torch.testing.assert_close(h[own], out.hidden_states[-1][0])
            assert domain.targets[own].tolist() == ids[0, 1:].tolist()
            if text is not domain.texts[0]:
                ngrams = domain.ngrams.whole.score(ids[0].tolist())[0]
                torch.testing.assert_close(domain.log_p[own], ngrams.double())
            place += len(row) + 1
    assert place == domain.places.count == len(h)


@pytest.mark.parametrize("in_training", [False, True])
def test_ours_begins_at_the_mixture_and_sums_to_one(small: study.Study, in_training: bool) -> None:
    domain = small.domain("novel", 40, 0)
    h, log_p = small.read(small.lm, domain, range(3))
    made = study.OnTop(small.lm, domain, h, 0.7, small.phi(domain.corpus)).train(in_training)
    where = torch.arange(len(h))[domain.places.range(0 if in_training else 1)]
    p = made.distribution(where)
    torch.testing.assert_close(p.log_probs().exp().sum(1), torch.ones(len(where)))
    if not in_training:
        expected = domain.mixed(log_p, 0.7)[where].float()
        torch.testing.assert_close(p.log_prob(domain.targets[where]), expected)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    after = made.distribution(where)
    torch.testing.assert_close(after.log_probs().exp().sum(1), torch.ones(len(where)))
    all_p = after.log_probs().gather(1, domain.targets[where][:, None])[:, 0]
    torch.testing.assert_close(after.log_prob(domain.targets[where]), all_p)
    assert not torch.allclose(all_p, p.log_prob(domain.targets[where]))


def test_the_layer_is_its_formula(small: study.Study) -> None:
    """log m + (W h + c)·φ + a_e E, word by word, E = log p of the n-grams less their unigrams."""
    domain = small.domain("novel", 40, 0)
    h, _ = small.read(small.lm, domain, range(3))
    made = study.OnTop(small.lm, domain, h, 0.4, small.phi(domain.corpus)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    where = torch.arange(len(h))[domain.places.range(1)]
    x, weights = torch.nn.functional.normalize(h[where]), made.layer.weights()
    whole = domain.ngrams.whole
    ngrams = whole.log_probs(domain.nodes[where])
    mixed = torch.logaddexp(torch.log_softmax(small.lm.logits(h[where]), -1) + math.log(0.4), ngrams + math.log(0.6))
    expert = (weights.context_adaptor(x) * (ngrams - whole._static[0].log_b[None])).float()
    scores = mixed + weights.scores(x)[:, made.layer.classes.class_of] + expert
    torch.testing.assert_close(
        made.distribution(where).log_probs(), torch.log_softmax(scores, -1), atol=1e-4, rtol=1e-4
    )


def test_mixed_with_share_one_is_the_lm(small: study.Study) -> None:
    domain = small.domain("novel", 40, 0)
    _, log_p = small.read(small.lm, domain, range(3))
    torch.testing.assert_close(domain.mixed(log_p, 1.0 - 1e-12), log_p.double())
    assert 0 < domain.share(log_p) < 1


def test_the_best_epoch_may_be_the_one_before_training(small: study.Study) -> None:
    """With a rate that ruins everything, ours stays the mixture."""
    rates = {name: rates[0] for name, rates in study.RATES.items()}
    _, mixed = small.run("LM", "novel", 40, 0, rates)
    (ours,) = small.run("ours", "novel", 40, 0, rates | {"ours": 1e4})
    assert ours["best"] == 0
    assert ours["test"] == pytest.approx(mixed["test"], rel=1e-5)


def test_all_systems_run_and_a_call_goes_on_where_the_last_one_stopped(
    llama: Path, texts: Path, tmp_path: Path
) -> None:
    options = ["--data", texts, "--prepared", "--lm", llama, "--out", tmp_path, "--size", 40, "--seeds", 2]
    arguments = ["experiment", "frozen-adaptation", *map(str, options), "--effort", "0.1"]
    file = tmp_path / "frozen-adaptation.jsonl"
    assert CliRunner().invoke(app, [*arguments, "--seconds", "0"]).exit_code == 0
    assert not file.exists()
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = file.read_text(encoding="utf8").splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) == 3 * (2 + 2 * 1 + 2 * 3 + 2 * 2) + 3 * (2 + 1 + 3 + 2)
    assert all(math.isfinite(one["valid"]) and 0 < one["test"] < 30 for one in found)
    first = {one["system"]: one for one in found[:14]}
    assert list(first) == [
        *("LM", "LM + n-grams", "ours", "LoRA", "LoRA + n-grams", "LoRA + ours"),
        *("fine-tuning", "fine-tuning + n-grams"),
    ]
    for name in ("LM", "LoRA", "fine-tuning"):
        assert first[f"{name} + n-grams"]["valid"] <= first[name]["valid"] + 1e-3
    by_rate = {(one["system"], one["rate"]): one for one in found[:14]}
    for rate in study.RATES["LoRA"]:
        mixed, ours = by_rate["LoRA + n-grams", rate], by_rate["LoRA + ours", rate]
        assert ours["valid"] <= mixed["valid"] + 1e-5
    file.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20], encoding="utf8")  # killed while it wrote
    assert len(study.recorded(file)) == len(found) - 1
    file.write_text("\n".join(lines) + "\n", encoding="utf8")
    again = CliRunner().invoke(app, arguments)
    assert "s: {" in result.output
    assert "s: {" not in again.output
    assert study.table(found) in again.output


def test_texts_are_prepared(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for file in study.TEXTS.values():
        for path in [f"{file}/{part}" for part in ("train", "valid", "test")] if file == "wikitext2" else [file]:
            where = tmp_path / "data" / f"{path}.txt.gz"
            where.parent.mkdir(exist_ok=True)
            lines = [" = A title = ", "", " = = A heading = = ", ' He said " no " ( twice ) . '] * 9_000
            where.write_bytes(gzip.compress("\n".join(lines).encode()))
    study.prepare(tmp_path / "data", tmp_path / "out")
    counts = {
        path.stem: sum(len(line.split()) for line in path.read_text().splitlines())
        for path in (tmp_path / "out").iterdir()
    }
    assert len(counts) == 9
    assert 5_000 <= counts["novel-valid"] < 5_010
    assert 10_000 <= counts["dialogues-test"] < 10_010
    assert (tmp_path / "out" / "wikitext2-test.txt").read_text().splitlines()[0] == 'He said "no" (twice).'


def test_what_an_lm_costs_as_background_is_measured() -> None:
    found = frozen_cost.times(device=torch.device("cpu"), layers=1, width=64, tokens=50, rows=2, length=8, repeats=1)
    assert all(set(found[name]) == {"lm_ms", "ours_ms", "ratio"} for name in ("scoring", "training", "generation"))
