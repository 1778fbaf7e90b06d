"""The study of a frozen GPT: what LoRA and the layer on the GPT's state are, and a small run of all of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

from llrnn.knowledge import features
from llrnn.knowledge.process import Batch
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn_lab.studies import frozen_adaptation as study

LINES = ["le chat noir dort sur le lit", "la chatte noire dort ici", "le chien mange le pain", "la soupe est chaude"]


def gpt(tokens: int = 7) -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=tokens, n_layer=2, n_head=2, n_embd=8, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval().requires_grad_(False)


def batch(rows: int = 3, length: int = 5, tokens: int = 7) -> Batch:
    symbols = torch.randint(tokens, (rows, length + 1), generator=torch.Generator().manual_seed(1))
    return Batch(symbols[:, :-1], symbols[:, 1:], torch.rand(rows, length) < 0.8)


def test_lora_begins_as_the_lm_and_trains_its_products_only() -> None:
    lm, data = gpt(), batch()
    made = study.with_lora(lm, 2)
    torch.testing.assert_close(made.log_prob(data), study.Gpt(lm).log_prob(data))
    assert sum(p.numel() for p in study.trainable(made)) == 2 * 2 * ((8 + 24) + (8 + 8))
    before = {name: p.clone() for name, p in lm.named_parameters()}
    for parameter in study.trainable(made):
        torch.nn.init.normal_(parameter)
    assert not torch.allclose(made.log_prob(data), study.Gpt(lm).log_prob(data))
    assert all(torch.equal(p, before[name]) for name, p in lm.named_parameters())


def test_lora_is_another_weight() -> None:
    frozen = gpt().transformer.h[0].attn.c_attn
    made = study.LoRA(frozen, 3)
    torch.nn.init.normal_(made.b)
    x = torch.randn(4, 8)
    torch.testing.assert_close(made(x), x @ (frozen.weight + 2 * made.a @ made.b) + frozen.bias)


def test_the_layer_on_the_state_is_the_sum_over_all_words() -> None:
    """log p_GPT + (W h + c)·φ, normalised word by word."""
    lm, data = gpt(), batch()
    vocabulary = Vocabulary([EOS, "a", "b", "ab", "ba", "aa", "bb"])
    made = study.OnItsState(lm, features.Suffixes(1, min_count=1), vocabulary)
    torch.testing.assert_close(made.log_prob(data), study.Gpt(lm).log_prob(data))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    out = lm(input_ids=data.inputs, output_hidden_states=True)
    h, logits = data.picked(out.hidden_states[-1]), data.picked(out.logits)
    scores = made.layer.weights().scores(h)[:, made.layer.classes.class_of]
    expected = torch.log_softmax(logits + scores, -1).gather(1, data.picked(data.targets)[:, None])[:, 0]
    torch.testing.assert_close(made.log_prob(data), expected)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=80, special_tokens=["<|end|>"], show_progress=False)
    made.train_from_iterator(LINES, trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    for name in ("general", "general-valid", "domain", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("\n".join(LINES * 4) + "\n", encoding="utf8")
    return tmp_path


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
def test_all_systems_run_and_what_is_done_is_not_done_again(prepared: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"sizes": [20], "gpt": study.Sizes(1, 8, 1, 64), "effort": 0.1, "tries": 1}
    small = [{"layers": 1, "width": 64, "tokens": 50, "rows": 2, "length": 8, "repeats": 1}]
    found = study.run(prepared, tmp_path / "out", timing=small, **options)
    names = [one["system"] for one in found["runs"]]
    assert names == [
        *("none", "fine-tuning", "LoRA 1", "LoRA 4", "LoRA 16", "n-grams mixed in", "adaptor", "features", "layer"),
    ]
    by_name = {one["system"]: one for one in found["runs"]}
    assert all(1 < one["test"] < 1e6 and math.isfinite(one["valid"]) for one in found["runs"])
    assert by_name["n-grams mixed in"]["test"] < by_name["none"]["test"]
    assert by_name["none"]["parameters"] == 0 < by_name["LoRA 1"]["parameters"] < by_name["fine-tuning"]["parameters"]
    assert set(found["timing"][0]["generation"]) == {"lm_ms", "ours_ms", "ratio"}
    told: list[str] = []
    again = study.run(prepared, tmp_path / "out", tell=told.append, **options)
    assert len(told) == 2  # no run
    assert again == json.loads((tmp_path / "out" / "frozen-adaptation.json").read_bytes()) == found
    assert study.table(found).count("\n| 20 |") == 8
