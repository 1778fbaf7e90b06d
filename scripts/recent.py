"""Words that come again (`background.recent`): what they cost single sentences, gain in running text, and repeat.

python scripts/recent.py ../shared/data runs/recent --device cuda        writes runs/recent/recent.json

Of each language the first 20,000 words are drafted by `llrnn init` and trained as drafted (learnt), without (none), and
with a share of 0.3 that is fixed (fixed). Nats a word of the test text; 20,000 sampled words, 1,000 in each running
text: how many are equal to the word before, come twice in a sentence, or again within 100 words, as in the test text.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import torch

from llrnn import Corpus, evaluate, generate, train
from llrnn.config import read_config
from llrnn.config.draft import draft_config
from llrnn.config.project import Project
from llrnn.model.network import LLRNN
from llrnn.model.words import add_from_conditions
from llrnn.text.conditions import Before

LANGUAGES = ("turkish", "maltese")
VARIANTS: dict[str, list[str]] = {
    "none": ["background.recent=none"],
    "learnt": [],
    "fixed": ["background.recent.weight=0.3"],
}
TEXTS, WORDS, NEAR = 20, 1000, 100
Sentences = list[tuple[str, ...]]


def drafted(data: Path, out: Path, language: str) -> None:
    """Write the first 20,000 words of train, 8,000 of dev and test, and the draft of `llrnn init`."""
    for part, size in (("train", 20_000), ("dev", 8_000), ("test", 8_000)):
        (file,) = (data / f"ud_{language}").glob(f"*-{part}.conllu.gz")
        blocks = gzip.decompress(file.read_bytes()).decode().split("\n\n")
        ends = accumulate(sum(line.split("\t")[0].isdigit() for line in block.split("\n")) for block in blocks)
        kept = [block for block, end in zip(blocks, ends, strict=True) if end <= size]
        (out / f"{language}-{part}.conllu").write_text("\n\n".join([*kept, ""]))
    files = [out / f"{language}-{part}.conllu" for part in ("train", "dev")]
    draft_config(files[:1], valid=files[1:], out=out / f"{language}.toml").write()


def repeated(texts: Iterable[Sentences]) -> dict[str, float]:
    """Return the shares of words that equal the one before, come twice in a sentence, or again within `NEAR` words.

    The first `NEAR` words of each text are not counted.
    """
    hits, count = dict.fromkeys(("before", "sentence", "near"), 0), 0
    for sentences in texts:
        text = [word for sentence in sentences for word in sentence]
        at = 0
        for sentence in sentences:
            for place, word in enumerate(sentence):
                if at + place >= NEAR:
                    count += 1
                    hits["before"] += place > 0 and sentence[place - 1] == word
                    hits["sentence"] += word in sentence[:place]
                    hits["near"] += word in text[at + place - NEAR : at + place]
            at += len(sentence)
    return {name: found / max(count, 1) for name, found in hits.items()}


def sampled(model: LLRNN) -> list[Sentences]:
    """Return running texts of `WORDS` words: each sentence is drawn after those before it."""
    texts, runs = [Sentences() for _ in range(TEXTS)], model.background.text_before > 0
    generator = torch.Generator(model.device).manual_seed(1)
    while any(sum(map(len, text)) < WORDS for text in texts):
        before = (
            [Before([word for sentence in text for word in sentence]) for text in texts] if runs else [None] * TEXTS
        )
        ready = add_from_conditions(model, before) if runs else model
        for text, one in zip(texts, generate(ready, conditions=before, generator=generator), strict=True):
            if sum(map(len, text)) < WORDS:
                text.append(one.words)
    return texts


def measured(out: Path, variant: str, language: str, device: str) -> dict[str, Any]:
    """Train one model, and return what is measured of it; what was measured before is read from its file."""
    file = out / f"{language}-{variant}.json"
    if not file.exists():
        file.write_text(json.dumps(_trained(out, variant, language, device)))
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _trained(out: Path, variant: str, language: str, device: str) -> dict[str, Any]:
    config = read_config(out / f"{language}.toml", VARIANTS[variant])
    project = Project.from_config(config)
    model, corpora = project.model().to(device), project.corpora
    *_, last = train(model, corpora["train"], valid=corpora["valid"], settings=config.training)
    test = Corpus.from_file(out / f"{language}-test.conllu", lowercase=True, surface=True)
    window, found = model.background.text_before, {"epochs": last.epoch, "background": repr(model.background)}
    found |= {"alone": evaluate(model, test).log_perplexity}
    found |= {"running": evaluate(model, test.running(window)).log_perplexity} if window else {}
    return found | {"sampled": repeated(sampled(model)), "test": repeated([[one.words for one in test]])}


def main() -> None:
    """Draft, train side by side, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parallel", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        drafted(given.data, given.out, language)
    jobs: Sequence[tuple[str, str]] = [*product(VARIANTS, LANGUAGES)]
    with ProcessPoolExecutor(given.parallel) as pool:
        made = [pool.submit(measured, given.out, *job, given.device) for job in jobs]
        found = {" ".join(job): one.result() for job, one in zip(jobs, made, strict=True)}
    (given.out / "recent.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
