"""Lists of terms on a language model: what they are worth on articles of WikiText-2, and what they cost.

python scripts/terms.py ../shared/data docs/results/terms.json [cost]

Worth: the rare words of an article are its list, among distractors (rare words of other articles). Weights are learnt
on other articles (validation), with their own lists. Gains in nats a word, exact, of the words that are listed and of
all others; beside it the rule of transformers' `sequence_bias`, with the bias that is best on the same articles.
Cost: processor time of a token, greedy, one core, medians of interleaved rounds.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import llrnn
from llrnn.inference.terms import CellMasses, bias, fit_bias, masses
from llrnn.knowledge.backgrounds.neural import HuggingFace

RARE, WORDS = 12, 400  # times in the training text, and words of an article that are read
FIT, TEST = 4, 5  # articles
PREFIX = "The old library in the centre of the town"


def articles(path: Path) -> list[str]:
    """The articles of a part of WikiText-2 as plain text, without headings and lines with unknown words' brackets."""
    made: list[list[str]] = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        if re.fullmatch(r" ?= [^=]+ = ?", line):
            made.append([])
        elif made and line.strip() and not line.strip().startswith("="):
            made[-1].append(line.strip())
    return [plain(" ".join(" ".join(lines).split()[:WORDS])) for lines in made]


def plain(text: str) -> str:
    """Text of WikiText without the blanks of its tokens."""
    text = re.sub(r" @(.)@ ", r"\1", text).replace("<unk>", "unknown")
    text = re.sub(r" ([.,;:!?)\]%'])", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", re.sub(r'" ([^"]*) "', r'"\1"', text))


def rare_words(text: str, counts: Counter[str]) -> set[str]:
    return {word for word in re.findall(r"[^\W\d_]{4,}", text) if 0 < counts[word] <= RARE}


def words_of(model: llrnn.LLRNN, tokens: Sequence[str]) -> list[tuple[str, range]]:
    """The words of letters in a text, and which of its tokens they have."""
    found = []
    places: list[int] = []
    for n, token in enumerate(tokens):
        places += [n] * len(model.write([token]) if n else model.write([token]).lstrip())
    text = model.write(tokens)
    if len(places) != len(text):
        places = places[: len(text)] + [places[-1]] * (len(text) - len(places))
    for one in re.finditer(r"[^\W\d_]+", text):
        found.append((one[0], range(places[one.start()], places[one.end() - 1] + 1)))
    return found


class Remembered:
    """The distributions of a language model after every prefix of a text, computed once."""

    def __init__(self, background: HuggingFace) -> None:
        self._ask, self._known = background._answers, dict[Any, torch.Tensor]()
        background._answers = self.answer  # type: ignore[method-assign]

    def answer(self, asked: Sequence[Any]) -> torch.Tensor:
        key = tuple((tuple(one.window), tuple(one.places)) for one in asked)
        if key not in self._known:
            self._known[key] = self._ask(asked)
        return self._known[key]


def gains(model: llrnn.LLRNN, text: str, listed: set[str]) -> tuple[list[float], list[float]]:
    """Log p of each word with the list less without it: of words in `listed`, and of all other symbols by word."""
    a = model.layer.context_bias.double()
    found = CellMasses.joined(list(masses(model, text)))
    return split(model, text, listed, found.log_p(a) - found.log_p(torch.zeros_like(a)))


def split(model: llrnn.LLRNN, text: str, listed: set[str], gain: torch.Tensor) -> tuple[list[float], list[float]]:
    own, others, used = [], [], set[int]()
    for word, where in words_of(model, model.read(text)):
        (own if word in listed else others).append(float(gain[where.start : where.stop].sum()))
        used.update(where)
    rest = [float(one) for n, one in enumerate(gain) if n not in used]  # signs and numbers
    return own, others + rest


def sequence_bias(model: llrnn.LLRNN, text: str, terms: Iterable[str], biases: Sequence[float]) -> list[torch.Tensor]:
    """The gain of each token by the rule of transformers' `sequence_bias`, for each of several biases."""
    V = model.vocabulary
    last: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for term in terms:
        *before, final = V.ids(model.read(" " + term))
        last[tuple(before)].add(final)
    ids = [V.eos, *V.ids(model.read(text))]
    longest, found = max(map(len, last)), [torch.zeros(len(ids) - 1) for _ in biases]
    row = torch.tensor([ids])
    with torch.no_grad():
        log_b = model.background.prior(model.background.follow([model.background.initial()], llrnn_batch(row))[0]).log_b  # type: ignore[union-attr]
    for n in range(len(ids) - 1):
        count = Counter(x for k in range(longest + 1) if k <= n for x in last.get(tuple(ids[n + 1 - k : n + 1]), ()))
        if not count:
            continue
        words = torch.tensor(list(count))
        p, times = log_b[n, words].double().exp(), torch.tensor(list(count.values())).double()
        for k, b in enumerate(biases):
            z = 1.0 + (p * torch.expm1(b * times)).sum()
            found[k][n] = b * count.get(ids[n + 1], 0) - torch.log(z)
    return found


def llrnn_batch(row: torch.Tensor) -> Any:
    from llrnn.knowledge.process import Batch

    return Batch(row[:, :-1], row[:, 1:], torch.ones_like(row[:, 1:], dtype=torch.bool))


def worth(model: llrnn.LLRNN, data: Path) -> Iterator[dict[str, Any]]:
    counts = Counter(gzip.decompress((data / "wikitext2" / "train.txt.gz").read_bytes()).decode().split())
    fitted, tested = (articles(data / "wikitext2" / f"{part}.txt.gz") for part in ("valid", "test"))
    pool = sorted(word for word, n in counts.items() if n <= RARE and re.fullmatch(r"[^\W\d_]{4,}", word))
    fitted, tested = fitted[:FIT], tested[:TEST]
    for many in (1_000, 10_000):
        lists = {
            text: rare_words(text, counts) | set(random.Random(n).sample(pool, many))
            for n, text in enumerate([*fitted, *tested])
        }
        weights, own, others, rival, losses = [], [], [], defaultdict(list), defaultdict(list)
        models = {text: bias(model, {"list": lists[text]}) for text in [*fitted, *tested]}
        parts = [part for text in fitted for part in masses(models[text], text)]
        weights = fit_bias(models[fitted[0]], parts)
        biases = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
        for text in tested:
            models[text].layer.context_bias.data.copy_(models[fitted[0]].layer.context_bias)
            one, other = gains(models[text], text, rare_words(text, counts))
            own, others = own + one, others + other
            for b, gain in zip(biases, sequence_bias(model, text, lists[text], biases), strict=True):
                one, other = split(model, text, rare_words(text, counts), gain)
                rival[b] += one
                losses[b] += other
        yield {
            "distractors": many,
            "weights": weights,
            "listed words": len(own),
            "others": len(others),
            "gain of a listed word": statistics.mean(own),
            "loss of another word": -statistics.mean(others),
            "sequence_bias": {
                str(b): {"gain": statistics.mean(rival[b]), "loss": -statistics.mean(losses[b])} for b in biases
            },
        }


def next_tokens(model: llrnn.LLRNN, steps: int) -> list[float]:
    """Processor time of each of some greedy tokens of a model of ours."""
    V, found = model.vocabulary, []
    with torch.no_grad():
        state = model.start()
        for x in [V.eos, *V.ids(model.read(PREFIX))]:
            p, state = model.step(state, [x])
        for _ in range(steps):
            begin = time.process_time()
            p, state = model.step(state, [int(p.top(1)[1][0, 0])])
            p.top(1)
            found.append(time.process_time() - begin)
    return found


def next_tokens_alone(lm: HuggingFace, steps: int, biased: Any = None) -> list[float]:
    """Likewise of the language model alone, or with a logits processor of transformers."""
    ids, found = torch.tensor([lm.tokenizer.encode(PREFIX)]), []
    with torch.no_grad():
        out = lm._model(input_ids=ids, use_cache=True)
        for _ in range(steps):
            begin = time.process_time()
            scores = out.logits[:, -1]
            x = (scores if biased is None else biased(ids, scores)).argmax(-1)[:, None]
            ids = torch.cat([ids, x], 1)
            out = lm._model(input_ids=x, past_key_values=out.past_key_values, use_cache=True)
            found.append(time.process_time() - begin)
    return found


def cost(model: llrnn.LLRNN, data: Path, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds of processor time for a token, medians of rounds that alternate, and for building a list."""
    from transformers.generation.logits_process import SequenceBiasLogitsProcessor

    lm: Any = model.background
    counts = Counter(gzip.decompress((data / "wikitext2" / "train.txt.gz").read_bytes()).decode().split())
    known = sorted(word for word in counts if re.fullmatch(r"[^\W\d_]{4,}", word))
    drawn = random.Random(0)
    made_up = [drawn.choice(known) + " " + drawn.choice(known) for _ in range(100_000)]
    models, build = {"ours, no list": model}, {}
    for many in (10_000, 100_000):
        begin = time.process_time()
        models[f"{many:,} terms"] = bias(
            model, {"list": drawn.sample(known, many // 10) + made_up[: many * 9 // 10]}, 3.0
        )
        build[f"{many:,} terms"] = time.process_time() - begin
    rule = SequenceBiasLogitsProcessor(
        [[lm.tokenizer.encode(" " + term), 3.0] for term in dict.fromkeys(drawn.sample(known, 10_000))]
    )
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        times["language model alone"] += next_tokens_alone(lm, 10)
        times["sequence_bias, 10,000 terms"] += next_tokens_alone(lm, 3, rule)
        for name, one in models.items():
            times[name] += next_tokens(one, 10)
    return {
        "ms a token": {name: 1000 * statistics.median(one) for name, one in times.items()},
        "seconds to build": build,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    lm = llrnn.open_lm("smollm2")
    result: dict[str, Any] = {"command": "python scripts/terms.py DATA OUT [cost]", "worth": []}
    if Path(sys.argv[2]).is_file():
        result |= json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[3:] == ["cost"]:
        result["cost"] = cost(lm, Path(sys.argv[1]))
        Path(sys.argv[2]).write_text(json.dumps(result, indent=1) + "\n")
        sys.exit()
    Remembered(lm.background)  # type: ignore[arg-type]
    result["worth"] = []
    for row in worth(lm, Path(sys.argv[1])):
        sys.stdout.write(json.dumps(row, indent=1) + "\n")
        sys.stdout.flush()
        result["worth"].append(row)
    Path(sys.argv[2]).write_text(json.dumps(result, indent=1) + "\n")
