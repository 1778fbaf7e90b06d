"""Lists of terms on a language model: what they are worth on articles of WikiText-2, and what they cost.

python scripts/terms.py ../shared/data docs/results/terms.json worth 1000 | worth 10000 | cost | words [--lm FILE.gguf]

Worth: the rare words of an article are its list, among distractors (rare words of other articles). Weights are learnt
on articles of the training part with their own lists; then all are multiplied by the largest number with which other
words of the validation articles lose at most 0.01 nats, and the test articles are read. Gains in nats a word, exact,
of listed words and of all others; beside it the rule of transformers' `sequence_bias`, with the bias chosen in
the same way.
Cost: time of a token, greedy, medians of interleaved rounds: processor time of one core, or on a GPU 32 texts at once.
Words: 1,000 sentences of the test scored by words, and by plain tokens.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

import llrnn
from llrnn.inference.piece_words import PieceWords
from llrnn.inference.terms import CellMasses, bias, fit_bias, masses
from llrnn.knowledge.backgrounds.neural import HuggingFace
from llrnn.knowledge.process import Batch
from llrnn.model.scoring import sentence_log_probs
from llrnn.text.encoded import EncodedText
from llrnn_lab.studies.frozen_adaptation import articles

RARE, WORDS = 12, 400  # times in the training text, and words of an article that are read
SCALES, BIASES = [n / 20 for n in range(31)], [n / 4 for n in range(25)]
FIT, MOST = 180, 0.01  # articles that weights are learnt on; nats that another word may lose
PREFIX = "The old library in the centre of the town"


def rare_words(text: str, counts: Counter[str]) -> set[str]:
    return {word for word in re.findall(r"[^\W\d_]{4,}", text) if 0 < counts[word] <= RARE}


@cache
def words_of(model: llrnn.LLRNN, text: str) -> list[tuple[str, range]]:
    """The words of letters in a text, and which of its tokens they have."""
    found, tokens = [], model.read(text)
    places: list[int] = []
    for n, token in enumerate(tokens):
        places += [n] * len(model.write([token]) if n else model.write([token]).lstrip())
    text = model.write(tokens)
    if len(places) != len(text):
        places = places[: len(text)] + [places[-1]] * (len(text) - len(places))
    for one in re.finditer(r"[^\W\d_]+", text):
        found.append((one[0], range(places[one.start()], places[one.end() - 1] + 1)))
    return found


def split(model: llrnn.LLRNN, text: str, listed: set[str], gain: torch.Tensor) -> tuple[list[float], list[float]]:
    own, others, used = [], [], set[int]()
    for word, where in words_of(model, text):
        (own if word in listed else others).append(float(gain[where.start : where.stop].sum()))
        used.update(where)
    rest = [float(one) for n, one in enumerate(gain) if n not in used]  # signs and numbers
    return own, others + rest


def sequence_bias(model: llrnn.LLRNN, text: str, terms: Iterable[str], biases: Sequence[float]) -> torch.Tensor:
    """The gain of each token by the rule of transformers' `sequence_bias`, for each of several biases."""
    V = model.vocabulary
    last: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for term in terms:
        *before, final = V.ids(model.read(" " + term))
        last[tuple(before)].add(final)
    ids = [V.eos, *V.ids(model.read(text))]
    longest, own = max(map(len, last)), torch.tensor(biases, dtype=torch.float64)
    found = torch.zeros(len(own), len(ids) - 1, dtype=torch.float64)
    row = torch.tensor([ids], device=model.device)
    batch = Batch(row[:, :-1], row[:, 1:], torch.ones_like(row[:, 1:], dtype=torch.bool))
    with torch.no_grad():
        log_b = model.scan(batch)[0].log_probs().cpu()
    for n in range(len(ids) - 1):
        count = Counter(x for k in range(longest + 1) if k <= n for x in last.get(tuple(ids[n + 1 - k : n + 1]), ()))
        if count:
            p, times = log_b[n, [*count]].double().exp(), torch.tensor([*count.values()]).double()
            z = 1.0 + (p * torch.expm1(own[:, None] * times)).sum(1)
            found[:, n] = own * count.get(ids[n + 1], 0) - torch.log(z)
    return found


class Article(NamedTuple):
    """An article: its list, its own rare words in it, and what the likelihood of its text needs."""

    text: str
    own: set[str]
    listed: set[str]
    masses: CellMasses


def joined(parts: Sequence[CellMasses]) -> CellMasses:
    """The masses of the parts of a text as those of one, position after position."""
    starts = torch.tensor([0, *(len(part.target) for part in parts)]).cumsum(0).tolist()
    position = torch.cat([part.position + start for part, start in zip(parts, starts, strict=False)])
    names = "log_b", "features", "target"
    log_b, features, target = (torch.cat([getattr(part, name) for part in parts]) for name in names)
    return CellMasses(log_b, features, target, position)


def means(model: llrnn.LLRNN, articles: Sequence[Article], gains: Iterable[torch.Tensor]) -> dict[str, Any]:
    """How many words are listed, and how many are others; the mean gain of the first and loss of the others in nats."""
    pairs = [split(model, one.text, one.own, gain) for one, gain in zip(articles, gains, strict=True)]
    own, others = ([gain for pair in pairs for gain in pair[side]] for side in (0, 1))
    found = {"listed": len(own), "others": len(others), "loss": -statistics.mean(others)}
    return found | ({"gain": statistics.mean(own)} if own else {})


def worth(lm: llrnn.LLRNN, data: Path, many: int) -> dict[str, Any]:
    counts = Counter(gzip.decompress((data / "wikitext2" / "train.txt.gz").read_bytes()).decode().split())
    pool = sorted(word for word, n in counts.items() if n <= RARE and re.fullmatch(r"[^\W\d_]{4,}", word))
    models = []

    def read(text: str, seed: int, *, has_own: bool = True) -> Article:
        own, more = rare_words(text, counts), set(random.Random(seed).sample(pool, many))
        listed = own | more if has_own else more - own
        models.append(bias(lm, {"list": listed}).to(lm.device))
        del models[1:-1]
        return Article(text, own & listed, listed, joined(list(masses(models[-1], text))))

    train, valid, test = (articles(data / "wikitext2" / f"{part}.txt.gz", WORDS) for part in ("train", "valid", "test"))
    parts = {"train": [read(text, n) for n, text in enumerate(train[:FIT])]}
    parts |= {"valid": [read(text, 1_000 + n) for n, text in enumerate(valid)]}
    parts |= {"test": [read(text, 2_000 + n) for n, text in enumerate(test)]}
    parts |= {"test, nothing listed": [read(text, 2_000 + n, has_own=False) for n, text in enumerate(test)]}
    fitted = models[0]
    result: dict[str, Any] = {"distractors": many, "articles": {name: len(part) for name, part in parts.items()}}

    def gains(part: str, scale: float) -> dict[str, Any]:
        a = scale * fitted.layer.context_bias.detach().double()
        return means(lm, parts[part], [one.masses.log_p(a).cpu() for one in parts[part]])

    result["weights"] = fit_bias(fitted, [one.masses for one in parts["train"]])
    result["as fitted, test"] = gains("test", 1.0)
    scale = max(one for one in SCALES if gains("valid", one)["loss"] <= MOST)
    result |= {part: gains(part, scale) for part in ("valid", "test", "test, nothing listed")}
    return result | {"multiplied by": scale, "sequence_bias": rival(lm, parts)}


def rival(lm: llrnn.LLRNN, parts: Mapping[str, Sequence[Article]]) -> dict[str, Any]:
    """`sequence_bias` with the largest bias with which other words of the validation articles lose at most `MOST`."""

    def gains(part: str) -> dict[float, dict[str, Any]]:
        found = [sequence_bias(lm, one.text, one.listed, BIASES) for one in parts[part]]
        return {one: means(lm, parts[part], (row[n] for row in found)) for n, one in enumerate(BIASES)}

    valid, test = gains("valid"), gains("test")
    chosen = max(one for one in BIASES if valid[one]["loss"] <= MOST)
    return {"bias": chosen, "valid": valid[chosen], "test": test[chosen], "test, by bias": test}


def clock(device: torch.device) -> float:
    """Processor time; on a GPU the time when all its work is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def next_tokens(model: llrnn.LLRNN, steps: int, rows: int) -> list[float]:
    """Seconds for each of some greedy tokens of a model of ours, for so many texts at once."""
    V, found = model.vocabulary, []
    with torch.no_grad():
        state = model.start([None] * rows)
        for x in [V.eos, *V.ids(model.read(PREFIX))]:
            p, state = model.step(state, [x] * rows)
        for _ in range(steps):
            begin = clock(model.device)
            p, state = model.step(state, p.top(1)[1][:, 0].tolist())
            found.append(clock(model.device) - begin)
    return found


def next_tokens_alone(lm: HuggingFace, device: torch.device, steps: int, rows: int, biased: Any = None) -> list[float]:
    """Likewise of the language model alone, or with a logits processor of transformers."""
    ids, found = torch.tensor([lm.tokenizer.encode(PREFIX)] * rows, device=device), []
    with torch.no_grad():
        out = lm._model(input_ids=ids, use_cache=True)
        for _ in range(steps):
            begin = clock(device)
            scores = out.logits[:, -1]
            x = (scores if biased is None else biased(ids, scores)).argmax(-1)[:, None]
            ids = torch.cat([ids, x], 1)
            out = lm._model(input_ids=x, past_key_values=out.past_key_values, use_cache=True)
            found.append(clock(device) - begin)
    return found


def cost(model: llrnn.LLRNN, data: Path, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds for a token (of 32 texts on a GPU), medians of rounds that alternate, and for building a list."""
    from transformers.generation.logits_process import SequenceBiasLogitsProcessor

    lm: Any = model.background
    rows, steps = (32, 40) if model.device.type == "cuda" else (1, 10)
    counts = Counter(gzip.decompress((data / "wikitext2" / "train.txt.gz").read_bytes()).decode().split())
    known = sorted(word for word in counts if re.fullmatch(r"[^\W\d_]{4,}", word))
    drawn = random.Random(0)
    made_up = [drawn.choice(known) + " " + drawn.choice(known) for _ in range(100_000)]
    models, build = {"ours, no list": model}, {}
    for many in (10_000, 100_000):
        begin = time.process_time()
        listed = drawn.sample(known, many // 10) + made_up[: many * 9 // 10]
        models[f"{many:,} terms"] = bias(model, {"list": listed}, 3.0).to(model.device)
        build[f"{many:,} terms"] = time.process_time() - begin
    rule = SequenceBiasLogitsProcessor(
        [[lm.tokenizer.encode(" " + term), 3.0] for term in dict.fromkeys(drawn.sample(known, 10_000))]
    )
    next_tokens(model, 1, rows)  # moves the language model to the device
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        times["language model alone"] += next_tokens_alone(lm, model.device, steps, rows)
        times["sequence_bias, 10,000 terms"] += next_tokens_alone(lm, model.device, 3, rows, rule)
        for name, one in models.items():
            times[name] += next_tokens(one, steps, rows)
    return {
        "texts at once": rows,
        "ms a token": {name: 1000 * statistics.median(one) for name, one in times.items()},
        "seconds to build": build,
    }


def sentences(lm: llrnn.LLRNN, data: Path, count: int = 1_000) -> dict[str, Any]:
    """Processor time for sentences scored by words (own cut) and by plain tokens, in turn, the least of two rounds."""
    text = " ".join(articles(data / "wikitext2" / "test.txt.gz", 3 * WORDS))
    lines = [one for one in re.split(r"(?<=[.!?]) (?=[A-Z])", text) if 5 <= len(one.split()) <= 40][:count]
    corpus = llrnn.Corpus.from_sentences([lm.read(line) for line in lines])
    encoded, words = EncodedText.encode(corpus, lm.vocabulary), PieceWords.of(lm)
    assert words is not None
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(2):
        for name, ask in (
            ("tokens", lambda: sentence_log_probs(lm, encoded)),
            ("words", lambda: words.read(lm, encoded)),
        ):
            begin = time.process_time()
            ask()
            seconds[name].append(time.process_time() - begin)
    found = {name: min(one) for name, one in seconds.items()}
    return {"sentences": len(lines), "seconds": found, "words to tokens": found["words"] / found["tokens"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("what", choices=["worth", "cost", "words"])
    parser.add_argument("many", type=int, nargs="?", default=1_000)
    parser.add_argument("--lm", default="smollm2")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    lm = llrnn.open_lm(given.lm).to(device)
    name = {"worth": f"worth, {given.many:,}"}.get(given.what, given.what) + (", GPU" if device == "cuda" else "")
    if given.what == "worth":
        found = worth(lm, given.data, given.many)
    else:
        found = {"cost": cost, "words": sentences}[given.what](lm, given.data)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    result = json.loads(given.out.read_text()) if given.out.is_file() else {}
    given.out.write_text(json.dumps(result | {name: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
