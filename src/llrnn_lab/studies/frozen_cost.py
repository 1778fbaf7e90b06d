"""What a language model costs as background, against the same language model alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import HuggingFace
from llrnn.knowledge.backgrounds.neural import vocabulary_of
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import make_controller
from llrnn.model.network import LLRNN
from llrnn_lab.studies.frozen_adaptation import Gpt, now

LANGUAGE_MODELS: tuple[dict[str, Any], ...] = (  # whose cost as background is measured: GPT-2 small, our own
    {"layers": 12, "width": 768, "tokens": 50_257, "body": "mingru"},
    {"layers": 12, "width": 768, "tokens": 50_257},
    {"layers": 4, "width": 256, "tokens": 4_000},
)


def all_times(device: str) -> list[dict[str, Any]]:
    """Of GPT-2's size with two bodies of ours, and of a small one."""
    return [times(device=torch.device(device), **one) for one in LANGUAGE_MODELS]


@dataclass(frozen=True)
class _Numbered:
    """A tokenizer of numbered tokens: for an LM whose weights are random, which is as fast as any."""

    size: int
    eos_token_id: int = 0
    bos_token_id: None = None
    pad_token_id: None = None

    def get_vocab(self) -> dict[str, int]:
        return {f"t{n}": n for n in range(self.size)}


def times(
    *,
    device: torch.device,
    layers: int = 12,
    width: int = 768,
    tokens: int = 50_257,
    rows: int | None = None,
    length: int | None = None,
    body: str = "lstm",
    repeats: int = 5,
) -> dict[str, Any]:
    """Milliseconds, medians, the LM alone and ours in turn: scoring a batch, training on it, and a step of generation.

    The LM alone scores a batch (logits, log p of the targets) and generates with its keys and values. Ours does what
    the LM does, and a log-linear model with a body of 128 and 2,000 features on top; training is a step of ours with
    its gradient against the LM's forward pass alone, which is all that the LM does in it. A GPU gets 16 rows of 256
    tokens, a CPU 4 of 32; a generation has an eighth as many steps.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    usual = (16, 256) if device.type == "cuda" else (4, 32)
    rows, length = rows or usual[0], length or usual[1]
    steps = max(1, length // 8)
    config = GPT2Config(
        vocab_size=tokens,
        n_layer=layers,
        n_embd=width,
        n_head=width // 64,
        n_positions=1024,
        bos_token_id=0,
        eos_token_id=0,
    )
    lm = GPT2LMHeadModel(config).eval().requires_grad_(False).to(device)
    tokenizer = _Numbered(tokens)
    model = LLRNN(
        vocabulary_of(tokenizer),
        output_features=features.Identity(top=2_000),
        background=HuggingFace(lm, tokenizer),
        controller=make_controller({"kind": body, "hidden": 128}),
    ).to(device)
    symbols = torch.randint(1, tokens, (rows, length + 1), device=device)
    symbols[:, 0] = 0
    batch = Batch(symbols[:, :-1], symbols[:, 1:], torch.ones(rows, length, dtype=torch.bool, device=device))
    alone = Gpt(lm)

    def train_ours() -> None:
        torch.autograd.backward(-model.log_prob(batch).mean())
        model.zero_grad()

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "scoring": (lambda: alone.log_prob(batch), torch.no_grad()(lambda: model.log_prob(batch))),
        "training": (lambda: alone.log_prob(batch), train_ours),
        "generation": (lambda: _generate(lm, symbols[:, :1], steps), lambda: _generate_ours(model, rows, steps)),
    }
    found: dict[str, Any] = {"layers": layers, "width": width, "tokens": tokens, "body": body}
    found |= {"rows": rows, "length": length}
    for name, both in pairs.items():
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(repeats + 1):
            for one, kept in zip(both, taken, strict=True):
                started = now(device)
                one()
                kept.append((now(device) - started) * 1000)
        lm_ms, ours_ms = (statistics.median(kept[1:]) for kept in taken)
        found[name] = {"lm_ms": lm_ms, "ours_ms": ours_ms, "ratio": ours_ms / lm_ms}
    return found


@torch.no_grad()
def _generate(lm: Any, words: Tensor, steps: int) -> Tensor:
    """Greedy, by the LM alone: log p of all tokens at every step, and the best is fed."""
    past = None
    for _ in range(steps):
        out = lm(input_ids=words, past_key_values=past, use_cache=True)
        words, past = torch.log_softmax(out.logits[:, -1].float(), -1).argmax(-1, keepdim=True), out.past_key_values
    return words


@torch.no_grad()
def _generate_ours(model: LLRNN, rows: int, steps: int) -> Sequence[int]:
    state, words = model.start([None] * rows), [model.vocabulary.eos] * rows
    for _ in range(steps):
        distribution, state = model.step(state, words)
        words = distribution.log_probs().argmax(-1).tolist()
    return words
