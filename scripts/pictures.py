"""The pictures of the documentation, drawn by the library itself.

    python scripts/pictures.py                  all but the first; training takes a minute
    python scripts/pictures.py decision DEMO    the first, from the folder that `llrnn demo --out DEMO` wrote

    docs/pictures/decision.svg      one decision, part by part: it moves once; -still: it does not
    docs/pictures/learning.svg      three models of one body while they train: `llrnn demo`
    docs/pictures/waterfall.svg     log p of one word as a sum
    docs/pictures/rival.svg         one word against another
    docs/pictures/classes.svg       how long the sum in Z is, against the number of words
    docs/pictures/wikitext2.svg     WikiText-2, two models of one body: docs/results/wikitext2.json

Everything is seeded.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import tomllib
from pathlib import Path

import llrnn
from llrnn import features
from llrnn.cli import demo
from llrnn.config import parse_config
from llrnn.config.project import Project
from llrnn.ground.rendering import LineChart, svg_file
from llrnn.inference.explanation import Comparison
from llrnn_lab import french

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"


def main() -> None:
    if sys.argv[1:2] == ["decision"]:
        moving = decision(Path(sys.argv[2]))
        write("decision", moving)
        write("decision-still", re.sub(r"animation: \w+ \S+ both", "animation: none", moving))
        return
    model = quick_start()
    write("waterfall", llrnn.explain(model, prefix="la maison est", word="grande").picture())
    write("rival", llrnn.explain(model, prefix="la maison est", word="grande", rival="grand").picture())
    write("classes", svg_file(classes()))
    write("learning", svg_file(learning()))
    write("wikitext2", svg_file(wikitext2()))


PREFIX, WORD, RIVAL = "la voiture de mon voisin est très", "puissante", "puissant"
CENTRE, ZERO, SCALE, TOP, ROW = 320, 395, 145, 88, 30  # of the picture: pixels, and pixels a nat
STEP = 0.7  # seconds a part

MOVING = """
svg { color: #1f2328; --paper: #fff; --for: #14897f; --against: #d2603a }
@media (prefers-color-scheme: dark) { svg { color: #e2e4e8; --paper: #1e2129 } }
.part { animation: shown .4s both } .bar { animation: grown .5s both } .end { animation: shown .4s both }
@keyframes shown { from { opacity: 0 } }
@keyframes grown { from { transform: scaleX(0) } }
@media (prefers-reduced-motion: reduce) { .part, .bar, .end { animation: none } }
"""


def decision(demo_folder: Path) -> str:
    """Why the demo's model goes on with PREFIX by WORD and not by RIVAL, and what its softmax twin says."""
    model, twin = (llrnn.load(demo_folder / name) for name in ("model", "softmax"))
    why = llrnn.explain(model, prefix=PREFIX, word=WORD, rival=RIVAL)
    parts, at, rows = grouped(why), 0.0, []
    for n, (name, share) in enumerate(parts.items()):
        rows.append(moving_row(n, name, at, share))
        at += share
    rows.append(text(ZERO - 8, TOP + ROW * len(parts) + 16, "sum", "end", delay=len(parts)))
    rows.append(moving_row(len(parts), "", 0.0, at, weight="bold"))
    bottom, end = TOP + ROW * (len(parts) + 1), len(parts) + 1
    shown = {word: 100 * probability(model, word) for word in (WORD, RIVAL)}
    rival = {word: 100 * probability(twin, word) for word in ("content", WORD, RIVAL)}
    rows += [
        text(CENTRE, 30, f"{PREFIX} …", size=19),
        text(ZERO - 12, 66, f"← {RIVAL}", "end", fill="var(--against)"),
        text(ZERO + 12, 66, f"{WORD} →", "start", fill="var(--for)"),
        f'<path d="M{ZERO} 74V{bottom - 2}" stroke="currentColor" stroke-opacity=".4"/>',
        text(CENTRE, bottom + 26, percentages("the LL-RNN", shown), size=15, weight="bold", delay=end),
        text(CENTRE, bottom + 48, percentages("a softmax RNN of the same size", rival), delay=end),
    ]
    label = f"{PREFIX}: the parts that speak for {WORD} and for {RIVAL} add up, and {WORD} wins"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {bottom + 62}" role="img" aria-label="{label}" '
        f'fill="currentColor" font-size="14" font-family="system-ui, sans-serif"><style>{MOVING}</style>'
        f'<rect width="100%" height="100%" rx="6" fill="var(--paper)"/>{"".join(rows)}</svg>\n'
    )


def grouped(why: Comparison) -> dict[str, float]:
    """The parts of a comparison in plain words, which of them speaks for WORD last; they add up to the difference."""
    of = dict.fromkeys(("the words themselves", "masculine", "their endings", "feminine"), 0.0)
    names = {
        "Word": "the words themselves",
        "Suffix": "their endings",
        "Gender:Masc": "masculine",
        "Gender:Fem": "feminine",
    }
    for term in why.terms:
        of[names.get(term.name) or names[term.name.partition(":")[0]]] += term.share
    return {"how frequent they are": why.log_ratio - sum(of.values())} | of


def probability(model: llrnn.LLRNN, word: str) -> float:
    return math.exp(llrnn.explain(model, prefix=PREFIX, word=word).log_p)


def percentages(name: str, of: dict[str, float]) -> str:
    return f"{name}: " + ", ".join(f"{word} {p:.1f} %" for word, p in of.items())


def moving_row(n: int, name: str, at: float, share: float, weight: str = "normal") -> str:
    """A bar from `at` on, `share` nats long, which grows when the parts before it are there."""
    left, right = (ZERO + SCALE * x for x in sorted((at, at + share)))
    y = TOP + ROW * n
    colour = "var(--for)" if share > 0 else "var(--against)"
    begin = ZERO + SCALE * at
    bar = (
        f'<rect class="bar" style="animation-delay:{n * STEP:.1f}s;transform-origin:{begin:.1f}px" x="{left:.1f}" '
        f'y="{y}" width="{max(right - left, 1.5):.1f}" height="20" rx="2" fill="{colour}"/>'
    )
    beside = (right + 8, "start") if share > 0 else (left - 8, "end")
    number = text(beside[0], y + 15, f"{share:+.2f}".replace("-", "−"), beside[1], weight=weight, delay=n)
    return bar + number + (text(14, y + 15, name, "start", delay=n) if name else "")


def text(
    x: float, y: float, words: str, anchor: str = "middle", *, size: int = 14, weight: str = "normal",
    fill: str = "currentColor", delay: int | None = None,
) -> str:  # fmt: skip
    moves = "" if delay is None else f' class="part" style="animation-delay:{delay * STEP:.1f}s"'
    return (
        f'<text{moves} x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{words}</text>'
    )


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
    names = {"llrnn": "LL-RNN", "softmax": "softmax, the same body"}
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
