"""A model as the LM Evaluation Harness asks for one (`lm_eval`, Gao et al.): by text, in nats.

    lm_eval.simple_evaluate(model=HarnessLM(llrnn.load("runs/french")), tasks=[...])

Where the background is a language model of `transformers`, texts are its tokens, cut as the harness cuts them. Else
the model's tokeniser cuts them into words, and the end of a line is the end of a sentence, EOS: log p of a text is that
of its words and of the ends between its lines, and open vocabularies add what they spell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.backgrounds import Background, HuggingFace
from llrnn.knowledge.backgrounds.base import Combined
from llrnn.knowledge.process import Batch
from llrnn.model.decode import Greedy, Sampling, generate
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.text.token_bytes import Spelled
from llrnn.text.tokenisers import token_of
from llrnn.text.vocabulary import EOS

if TYPE_CHECKING:
    LM = object
else:
    try:
        from lm_eval.api.model import LM
    except ImportError:  # the methods are all that it takes
        LM = object

_MOST_TOKENS = 256  # that are written where the harness does not say how many


def language_models(background: Background) -> list[HuggingFace]:
    """Return the Hugging Face models among the parts of a prior, however products and mixtures are nested; maybe []."""
    if isinstance(background, Combined):
        return [lm for part in background.parts for lm in language_models(part)]
    return [background] if isinstance(background, HuggingFace) else []


def spelled_by(model: LLRNN) -> Spelled:
    """Return how the model's symbols spell text: those of a byte-level BPE, of SentencePiece, or words."""
    found: list[Any] = language_models(model.background)
    if not found:
        return "words"
    return "bytes" if any(token.startswith("Ġ") for token in found[0].tokenizer.get_vocab()) else "pieces"


@dataclass(frozen=True)
class _Question:
    """A text to score: a list of symbol ids, `ids`, of which those from index `start` on (included) are summed.

    `inside`: for each of `ids` log p of the string given its symbol, 0 for words of the vocabulary.
    """

    ids: list[int]
    start: int
    inside: list[float]


class HarnessLM(LM):
    """A model in the interface of lm-evaluation-harness: `loglikelihood`, `loglikelihood_rolling`, `generate_until`.

    `positions`: how many words (or tokens) are scored in one batch, at most; `seed`: of sampling, where a task asks for
    it.

        HarnessLM(model).loglikelihood([Instance(args=("elle est", " grande"))])     # [(log p, is it the likeliest?)]
    """

    rank, world_size = 0, 1

    def __init__(self, model: LLRNN, *, positions: int = 4096, seed: int = 0) -> None:
        super().__init__()
        self._model, self._positions = model.eval(), positions
        found = language_models(model.background)
        self._tokenizer = found[0].tokenizer if found else None
        self._generator = torch.Generator(device=model.device).manual_seed(seed)

    @property
    def tokenizer_name(self) -> str:
        """The name under which the harness caches requests: that of the Hugging Face tokenizer, or `words`."""
        return str(getattr(self._tokenizer, "name_or_path", "") or "words")

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return for each (context, continuation) log p of the continuation in nats, and whether it is the greedy one.

        `requests`: harness instances, whose `args` are the two strings; the order is kept. `disable_tqdm` is ignored.
        """
        return self._scored([self._pair(*request.args) for request in requests])

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Return for each request, a harness instance whose `args` are (text,), log p of the whole text in nats.

        No end of sentence is added to the text. `disable_tqdm` is ignored.
        """
        return [log_p for log_p, _ in self._scored([self._pair("", *request.args) for request in requests])]

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Return for each request the text that the model writes after a context.

        `requests`: harness instances whose `args` are (context, options), a string and a dict. A text ends before the
        first of the strings in the option `until`, at the end of a sentence, or after `max_gen_toks` words (256 unless
        given); greedy, unless `temperature` is above 0. `disable_tqdm` is ignored.
        """
        return [self._written(*request.args) for request in requests]

    def _words(self, text: str) -> list[str]:
        """Return a text as a list of vocabulary symbols: tokens of the tokenizer, or words with EOS between lines.

        No EOS is added at the end.
        """
        if self._tokenizer is not None:
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            return [self._model.vocabulary.symbols[one] for one in ids]
        lines = [self._model.read(line) for line in text.split("\n")]
        return [word for n, line in enumerate(lines) for word in ((*line,) if n == 0 else (EOS, *line))]

    def _pair(self, context: str, continuation: str) -> _Question:
        """Return context and continuation as one text to score, of which only the continuation counts.

        Spaces at the end of the context are moved to the continuation.
        """
        stripped = context.rstrip(" ")
        continuation = context[len(stripped) :] + continuation
        whole, before = self._words(stripped + continuation), self._words(stripped)
        ids, inside = self._model.vocabulary.locate(whole, place="a text of the harness")
        return _Question(ids.tolist(), min(len(before), len(whole)), inside.tolist())

    @torch.no_grad()
    def _scored(self, cuts: Sequence[_Question]) -> list[tuple[float, bool]]:
        """Return for each text (log p in nats of the part that counts, whether each symbol of it is the most probable).

        Texts of similar length share batches; the order is kept.
        """
        found: dict[int, tuple[float, bool]] = {}
        lengths = np.array([len(cut.ids) for cut in cuts], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        for group in Sentences(self._positions).groups(order, lengths[order]):
            own = group.tolist()
            found.update(zip(own, self._group([cuts[n] for n in own], len(cuts[own[-1]].ids)), strict=True))
        return [found[n] for n in range(len(cuts))]

    def _group(self, cuts: Sequence[_Question], longest: int) -> list[tuple[float, bool]]:
        eos, device = self._model.vocabulary.eos, self._model.device
        if not any(cut.start < len(cut.ids) for cut in cuts):
            return [(0.0, True)] * len(cuts)  # nothing to say is certain
        rows = torch.tensor([[eos, *cut.ids, *[eos] * (longest - len(cut.ids))] for cut in cuts], device=device)
        place = torch.arange(longest, device=device)
        bounds = torch.tensor([[cut.start, len(cut.ids)] for cut in cuts], device=device)
        mask = (place >= bounds[:, :1]) & (place < bounds[:, 1:])
        batch = Batch(rows[:, :-1], rows[:, 1:], mask)
        distribution, _ = self._model.scan(batch)
        targets = batch.picked(batch.targets)
        log_p = torch.zeros(mask.shape, dtype=torch.float64, device=device)
        is_best = torch.ones_like(mask)
        log_p[mask] = distribution.log_prob(targets).double()
        is_best[mask] = distribution.top(1)[1][:, 0] == targets
        inside = [math.fsum(cut.inside[cut.start :]) for cut in cuts]
        sums = zip(log_p.sum(1).tolist(), inside, is_best.all(1).tolist(), strict=True)
        return [(total + own, best) for total, own, best in sums]

    def _written(self, context: str, options: dict[str, Any] | None = None) -> str:
        asked = dict(options or {})
        until = asked.get("until") or []
        stops = [until] if isinstance(until, str) else list(until)
        most = asked.get("max_gen_toks", _MOST_TOKENS)
        if not (isinstance(most, int) and most > 0):
            raise ConfigError(f"max_gen_toks must be a whole number above 0, found {most!r}")
        temperature = float(asked.get("temperature", 0.0) or 0.0)
        draws = bool(asked.get("do_sample", temperature > 0.0)) and temperature > 0.0
        (made,) = generate(
            self._model,
            prefix=tuple(self._words(context)),
            strategy=Sampling(temperature=temperature) if draws else Greedy(),
            max_words=most,
            generator=self._generator if draws else None,
        )
        return cut_before(self._text(made.words), stops)

    def _text(self, words: Iterable[str]) -> str:
        if self._tokenizer is None:
            return self._model.write([*words])
        return str(self._tokenizer.convert_tokens_to_string([token_of(word) for word in words]))


def cut_before(text: str, stops: Iterable[str]) -> str:
    """Return the beginning of a text, before the first occurrence of any of the stop strings.

    All of the text is returned if none occurs; empty stop strings are ignored.

        cut_before("yes. no", [".", "n"])  # "yes"
    """
    ends = [text.index(stop) for stop in stops if stop and stop in text]
    return text[: min(ends, default=len(text))]
