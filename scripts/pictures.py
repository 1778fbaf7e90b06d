"""The pictures of the documentation, drawn by the library itself: python scripts/pictures.py

    docs/pictures/learning.svg      three models of one body while they train: `llrnn demo`
    docs/pictures/waterfall.svg     log p of one word as a sum
    docs/pictures/rival.svg         one word against another
    docs/pictures/classes.svg       how long the sum in Z is, against the number of words
    docs/pictures/wikitext2.svg     WikiText-2, two models of one body: docs/results/wikitext2.json

Everything is seeded. Training takes a minute.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path

import llrnn
from llrnn import features
from llrnn.cli import demo
from llrnn.config import parse_config
from llrnn.config.project import Project
from llrnn.ground.rendering import LineChart, svg_file
from llrnn_lab import french

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"


def main() -> None:
    model = quick_start()
    write("waterfall", llrnn.explain(model, prefix="la maison est", word="grande").picture())
    write("rival", llrnn.explain(model, prefix="la maison est", word="grande", rival="grand").picture())
    write("classes", svg_file(classes()))
    write("learning", svg_file(learning()))
    write("wikitext2", svg_file(wikitext2()))


def quick_start() -> llrnn.LLRNN:
    """The model of docs/quick-start.md, trained as that page says."""
    page = (DOCS / "quick-start.md").read_text(encoding="utf8")
    text = page.split('```toml title="quick.toml"\n')[1].split("```")[0]
    config = parse_config(tomllib.loads(text), "quick.toml")
    project = Project.from_config(config)
    model = project.model()
    corpora = project.corpora
    with tempfile.TemporaryDirectory() as folder:
        for _ in llrnn.train(
            model, corpora["train"], valid=corpora["valid"], settings=config.training, folder=Path(folder) / "run"
        ):
            pass
        return llrnn.load(Path(folder) / "run")


def classes() -> LineChart:
    """Words, and classes of words with equal features, as the embedded corpus grows."""
    corpus = llrnn.Corpus.from_sentences(french.sentences(12000)).lowercased()
    lexicon = llrnn.Lexicon.from_corpus(corpus)
    phi = features.Identity(top=300) + features.Attributes(lexicon) + features.Suffixes(3, min_count=20)
    words, kinds = [], []
    for sentences in (250, 500, 1000, 2000, 4000, 8000, 12000):
        vocabulary = llrnn.Vocabulary.from_corpus(corpus[:sentences])
        found = features.summarise(phi, vocabulary)
        words.append((float(found.symbols), float(found.symbols)))
        kinds.append((float(found.symbols), float(found.classes)))
    return LineChart(
        {"softmax: all words": words, "LL-RNN: classes": kinds},
        "terms of the sum Z", "words", "terms",
    )  # fmt: skip


def learning() -> LineChart:
    """The demo's three models, with half its sentences."""
    found = demo.run(sentences=3000, epochs=6, seed=0)
    curves = {one.name: [(float(epoch), loss) for epoch, loss in enumerate(one.valid, 1)] for one in found.contenders}
    return LineChart(curves, "learning curves", "epoch", "log-perplexity on validation (nats)")


def wikitext2() -> LineChart:
    """Log-perplexity of the validation text, from the tenth epoch on."""
    systems = json.loads((DOCS / "results" / "wikitext2.json").read_text(encoding="utf8"))["systems"]
    names = {"llrnn": "LL-RNN", "softmax": "softmax, the same body", "mild": "LL-RNN, less dropout"}
    curves = {
        names[key]: [
            (float(one["epoch"]), one["valid"]) for one in system["epochs"] if one["valid"] and one["epoch"] >= 10
        ]
        for key, system in systems.items()
    }
    return LineChart(curves, "WikiText-2, while it is trained", "epoch", "log-perplexity on validation (nats)")


def write(name: str, picture: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(picture, encoding="utf8")


if __name__ == "__main__":
    main()
