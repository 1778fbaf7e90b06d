"""The demo: a French model that is trained already, then three small ones of one body, compared and explained.

The first is `models/french`, where it is installed: sentences, choices beside those of its softmax, and why. Then
the embedded French corpus is trained on, here and now:

    RNN                          softmax over all words
    RNN with unigram bias        the same, starting from how frequent each word is: the fair baseline
    LL-RNN                       identity of frequent words, morphology, suffixes and numbers as features

The vocabulary is closed over the whole corpus and the background counts all of it, as in the paper's protocol (§5).
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from pkgutil import get_data
from string import Template
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

import llrnn
from llrnn.cli import show
from llrnn.cli.options import Seed, TrainingBar, interruptible, make_output_folder
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import TrainingError
from llrnn.ground.files import write_atomically
from llrnn.ground.rendering import Faint, Heading, LineChart, Renderable, Sheet, Strong, TextTable
from llrnn.text.contract import require_comparable
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llrnn.inference.evaluation import Evaluation
    from llrnn.inference.explanation import Comparison
    from llrnn.training.runs import Record

SENTENCES, EPOCHS = 6000, 6
FREQUENT_WORDS = 400
MODEL, SOFTMAX = "model", "softmax"  # the folders of the LL-RNN and of the fair baseline
_HIDDEN, _LEARNING_RATE, _DROPOUT = 160, 0.004, 0.25
DECISION = ("une banane délicieuse fut", "sucrée", "sucré")  # of the test text: prefix, word, rival
SHIPPED = {"LL-RNN": "fr", "softmax": "fr-softmax"}  # installed with models/french
CHOICES = (  # prefix, word, rival, what it means
    ("La voiture de mon voisin est très", "puissante", "puissant", "my neighbour's car (feminine) is very powerful"),
    ("L'homme que les voisins ont vu", "est", "sont", "the man whom the neighbours saw is (singular)"),
    ("Les maisons du vieux village sont", "blanches", "blancs", "the old village's houses (feminine) are white"),
    ("La directrice du musée est", "née", "né", "the director (a woman) of the museum was born"),
    ("La porte du jardin est", "ouverte", "ouvert", "the garden's gate (feminine) is open"),
)
_PLAYGROUND = "http://127.0.0.1:8017/"  # where `llrnn serve` answers


@dataclass(frozen=True)
class Contender:
    """One trained model of the demo with its results, a row of the table that compares the models.

    `name`: in the table; `model`: an `LLRNN`; `valid`: a list of validation log-perplexities (nats a word), one for
    each epoch; `words_per_second`: of training, a float; `test`: the `Evaluation` on the test text.
    """

    name: str
    model: llrnn.LLRNN
    valid: list[float]  # after each epoch
    words_per_second: float
    test: Evaluation

    def row(self) -> tuple[str, ...]:
        """Return the model's row of the table of results, as seven strings.

        Its name, number of classes (sets of words with equal features), least validation log-perplexity; log-perplexity
        (nats a word), perplexity and bits per character on the test text; training words per second.
        """
        return (
            self.name,
            f"{self.model.output_features.n_classes:,}",
            f"{min(self.valid):.3f}",
            f"{self.test.log_perplexity:.3f}",
            f"{self.test.perplexity:.1f}",
            f"{self.test.bits_per_character:.3f}",
            f"{self.words_per_second:,.0f}",
        )


@dataclass(frozen=True)
class Opening(Renderable):
    """What the model that ships shows before anything is trained.

    `sentences`: a tuple of texts that it wrote; `choices`: a dict from "LL-RNN", and "softmax" where that is
    installed, to a tuple of `Comparison`, one for each of `CHOICES`.
    """

    sentences: tuple[str, ...]
    choices: dict[str, tuple[Comparison, ...]]

    def sheet(self) -> Sheet:
        rows = [
            (f"{prefix} … {word} / {rival}", *(_odds(found[place].log_ratio) for found in self.choices.values()))
            for place, (prefix, word, rival, _) in enumerate(CHOICES)
        ]
        return Sheet(
            (
                (Heading("It knows grammar"),),
                ("How much likelier the right word is. Picked to show it; a whole suite: models/french/README.md",),
                TextTable(("right / wrong", *self.choices), tuple(rows)),
                *((Faint(f"{prefix} {word}: {meaning}"),) for prefix, word, _, meaning in CHOICES),
                (Heading(f"Why {CHOICES[0][1]}?"),),
                *self.choices["LL-RNN"][0].sheet().blocks,
                (Heading("It writes"),),
                *((text,) for text in self.sentences),
                (Faint("Drawn at random: grammar is what it knows, not the world."),),
            )
        )


def _odds(log_ratio: float) -> str:
    """Return the odds of the right word: "31 to 1", or in bold "1 to 4, wrong" where it is the less likely."""
    odds = f"{math.exp(min(abs(log_ratio), 700)):,.3g}"
    return f"{odds} to 1" if log_ratio > 0 else Strong(f"1 to {odds}, wrong")


def opening(seed: int = 0) -> Opening | None:
    """Return what the installed French model shows, at once; None where it is not installed (models/french).

    `seed`: draws its sentences.
    """
    models = {name: llrnn.load(one) for name, one in SHIPPED.items() if has_bundle(one, "model")}
    if "LL-RNN" not in models:
        return None
    written = llrnn.generate(models["LL-RNN"], count=4, temperature=0.6, seed=seed, max_words=25)
    choices = {
        name: tuple(llrnn.explain(one, prefix=prefix, word=word, rival=rival) for prefix, word, rival, _ in CHOICES)
        for name, one in models.items()
    }
    return Opening(tuple(map(str, written)), choices)


@dataclass(frozen=True)
class Demo:
    """The results of the demo: its corpora, the trained models, five generated sentences, and one explained word.

    `corpora`: a dict with the keys train, valid and test; `contenders`: a list of `Contender`, a model each;
    `sentences`: a list of tuples of words; `decision`: a `Comparison`, why one word is preferred to another, None where
    the texts lack these words; `opening`: what the model that ships showed, None where it is not installed.
    """

    corpora: dict[str, Corpus]
    contenders: list[Contender]
    sentences: list[tuple[str, ...]]
    decision: Comparison | None
    opening: Opening | None = None

    def results(self) -> TextTable:
        """Return the table of results, a row for each model, with the one of the lowest test log-perplexity in bold."""
        require_comparable({one.name: one.test.contract for one in self.contenders})
        best = min(self.contenders, key=lambda one: one.test.log_perplexity)
        rows = (tuple(map(Strong, one.row())) if one is best else one.row() for one in self.contenders)
        header = ("model", "classes", "valid", "test", "test perplexity", "bits/char", "words/s")
        return TextTable(header, tuple(rows))

    def sheet(self) -> Sheet:
        """Return what is shown after training: results, learning curves, an explanation and generated sentences."""
        curves = {one.name: list(enumerate(one.valid, 1)) for one in self.contenders}
        words = show.words_with_features(self.contenders[-1].model, self.sentences[0])
        meaning = (f"{' '.join(DECISION[:2])}: a delicious banana was sweet, feminine, not {DECISION[2]}.",)
        why = () if self.decision is None else ((Heading("Why this word?"),), meaning, *self.decision.sheet().blocks)
        return Sheet(
            (
                (Heading("What knowledge is worth: three models of one body, trained here and now"),),
                self.results(),
                (str(self.contenders[0].test.contract),),
                LineChart(curves, "learning curves", "epoch", "log-perplexity on validation (nats)"),
                *why,
                (Heading("Sentences that the LL-RNN wrote"),),
                *((" ".join(words),) for words in self.sentences),
                (Faint("After a minute's training on a made-up text: some words do not agree yet."),),
                (Heading("The first one, with the features of every word"),),
                words,
            )
        )

    def page(self, folder: Path = Path("demo")) -> str:
        """Return the report of the demo, the content of an HTML file that opens offline.

        `folder`: where the demo's models are, for the command lines that the report shows.
        """
        text, decided = self.corpora["train"], self.decision
        other = "" if folder == Path("demo") else f" --demo-folder {shlex.quote(str(folder))}"
        state = {} if decided is None else {
            "prefix": " ".join(decided.chosen.prefix), "word": decided.chosen.word, "rival": decided.rival.word
        }  # fmt: skip
        return Template((get_data("llrnn.cli", "demo.html") or b"").decode()).substitute(
            sentences=f"{len(text):,}",
            words=f"{text.tokens:,}",
            types=f"{len(self.contenders[-1].model.vocabulary):,}",
            tests=f"{len(self.corpora['test']):,}",
            folder=escape(other),
            link=escape(f"{_PLAYGROUND}#{urlencode(state)}" if state else _PLAYGROUND),
            opening="" if self.opening is None else self.opening.sheet().page_html(),
            results=self.sheet().page_html(),
        )


def run(
    *,
    sentences: int = SENTENCES,
    epochs: int = EPOCHS,
    seed: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
    follow: Callable[[str, Iterator[Record]], list[Record]] = lambda name, records: list(records),
) -> Demo:
    """Train and test the three models of the demo, generate sentences, explain one word, and return all of it.

    `sentences`: training sentences; validation and test have a tenth of that each; `epochs`: of each training, at most;
    `seed`: decides weights, order and samples. `should_stop`: asked during training; where it returns True, a
    TrainingError is raised. `follow(name, records)`: runs a training by iterating over its records and returns them
    all; it may show progress.
    """
    from llrnn.config.project import embedded_corpora

    size = max(1, sentences // 10)
    corpora = embedded_corpora(sentences, size, size)
    train_text, valid, test = corpora.values()
    vocabulary = Vocabulary.from_corpus(*corpora.values())
    contenders = []
    for name, phi, background in _knowledge(corpora):
        controller = llrnn.LSTM(_HIDDEN, dropout=_DROPOUT)
        model = llrnn.LLRNN(vocabulary, output_features=phi, background=background, controller=controller, seed=seed)
        settings: dict[str, Any] = {"epochs": epochs, "seed": seed, "learning_rate": _LEARNING_RATE}
        records = follow(name, llrnn.train(model, train_text, valid=valid, should_stop=should_stop, **settings))
        if records[-1].event == "interrupted":
            raise TrainingError("the demo was stopped before its table was complete; start it again")
        losses = [record.valid for record in records if record.valid is not None]
        tested = llrnn.evaluate(model, test).sound(name)
        contenders.append(Contender(name, model, losses, records[-1].words_per_second, tested))
    written = [one.words for one in llrnn.generate(model, count=5, seed=seed)]
    return Demo(corpora, contenders, written, _decision(model))


def _knowledge(corpora: dict[str, Corpus]) -> list[tuple[str, Any, Any]]:
    """Return (name, features φ, background or None for a uniform one) of each of the demo's three models.

    They are "RNN" (a softmax), "RNN with unigram bias" and "LL-RNN", with features and prior made from all `corpora`,
    {part: corpus}.
    """
    unigram = llrnn.backgrounds.Unigram.from_corpus(*corpora.values())
    lexicon = Lexicon.from_corpus(*corpora.values())
    phi = (
        llrnn.features.Identity(top=FREQUENT_WORDS)
        + llrnn.features.Attributes(lexicon)
        + llrnn.features.Suffixes(3, min_count=20)
        + llrnn.features.Numeric()
    )
    return [
        ("RNN", llrnn.features.Identity(), None),
        ("RNN with unigram bias", llrnn.features.Identity(), unigram),
        ("LL-RNN", phi, unigram),
    ]


def _decision(model: llrnn.LLRNN) -> Comparison | None:
    """Return why the model prefers *sucrée* to *sucré* after a fixed prefix; None where it lacks one of the words."""
    prefix, word, rival = DECISION
    known = all(one in model.vocabulary for one in (*prefix.split(), word, rival))
    return llrnn.explain(model, prefix=prefix, word=word, rival=rival) if known else None


def write_report(demo: Demo, folder: Path) -> Path:
    """Write `report.html`, `results.json` and two model folders to `folder`; return the path of the report.

    The models are the LL-RNN and the softmax RNN with unigram bias.
    """
    folder.mkdir(parents=True, exist_ok=True)
    *_, baseline, best = demo.contenders
    best.model.save(folder / MODEL)
    baseline.model.save(folder / SOFTMAX)
    results = [
        {"name": one.name, "valid": one.valid, "words_per_second": one.words_per_second, "test": asdict(one.test)}
        for one in demo.contenders
    ]
    write_atomically(folder / "results.json", json.dumps(results, ensure_ascii=False, indent=1).encode())
    write_atomically(folder / "report.html", demo.page(folder).encode())
    return folder / "report.html"


def _with_bar(name: str, records: Iterator[Record]) -> list[Record]:
    return TrainingBar(name).follow(records)


def train_demo(out: Path, *, sentences: int, epochs: int, seed: int, opening: Opening | None = None) -> Demo:
    """Train the demo's models with progress bars, write report and models to the folder `out`, return the results.

    `sentences`: of the training text; `epochs`: of each training, at most; `seed`: decides weights, order and samples;
    `opening`: what the report begins with. Raises TrainingError after Ctrl-C.
    """
    make_output_folder(out)
    with interruptible() as stop:
        demo = run(sentences=sentences, epochs=epochs, seed=seed, should_stop=stop, follow=_with_bar)
    demo = replace(demo, opening=opening)
    write_report(demo, out)
    return demo


def demo_verb(
    out: Annotated[Path, typer.Option(help="The folder for the models and the report.")] = Path("demo"),
    sentences: Annotated[int, typer.Option(min=100, help="Training sentences.")] = SENTENCES,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them, at most.")] = EPOCHS,
    seed: Seed = 0,
) -> None:
    """See a French model choose and explain, then train and compare small ones.

    The first is there where models/french is installed. Then two softmax RNNs and an LL-RNN are trained on the embedded
    French corpus: a table of results, one explanation and generated sentences. The report and the models are written to
    --out. Exits with 2 where it is stopped before the end.

    Example: llrnn demo
    """
    make_output_folder(out)
    if (shown := opening(seed)) is None:
        show.note("a French model of real text opens the demo where it is installed: pip install ./models/french")
    else:
        show.out.print(shown.sheet())
    demo = train_demo(out, sentences=sentences, epochs=epochs, seed=seed, opening=shown)
    show.out.print(demo.sheet())
    show.text(f"\nreport: {out / 'report.html'}   model: {out / MODEL}")
