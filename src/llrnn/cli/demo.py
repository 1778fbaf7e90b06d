"""The demo: three models of one body on the embedded French corpus, compared, made to write, and explained.

    RNN                          softmax over all words
    RNN with unigram bias        the same, starting from how frequent each word is: the fair baseline
    LL-RNN                       identity of frequent words, morphology, suffixes and numbers as features

The vocabulary is closed over the whole corpus and the background counts all of it, as in the paper's protocol (§5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Annotated

import torch
import typer

from llrnn.cli import show
from llrnn.cli.options import Seed, make_output_folder
from llrnn.cli.progress import StopFlag, follow
from llrnn.config.project import embedded_corpora
from llrnn.ground.charts import LineChart, svg
from llrnn.ground.errors import TrainingError
from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import Evaluation, evaluate
from llrnn.inference.explanation import Comparison, explain
from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import Background, Unigram
from llrnn.knowledge.features import Features
from llrnn.model.controllers import LSTM
from llrnn.model.decode import generate
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.records import Record

SENTENCES, EPOCHS = 6000, 6
FREQUENT_WORDS = 400
MODEL, SOFTMAX = "model", "softmax"  # the folders of the LL-RNN and of the fair baseline
_HIDDEN, _LEARNING_RATE, _DROPOUT = 160, 0.004, 0.25

Listener = Callable[[str, Iterator[Record]], list[Record]]


@dataclass(frozen=True)
class Contender:
    """One row of the table."""

    name: str
    model: LLRNN
    valid: list[float]  # after each epoch
    words_per_second: float
    test: Evaluation


@dataclass(frozen=True)
class Demo:
    """Everything that the demo found."""

    corpora: dict[str, Corpus]
    contenders: list[Contender]
    sentences: list[tuple[str, ...]]
    decision: Comparison | None


def run(
    *,
    sentences: int = SENTENCES,
    epochs: int = EPOCHS,
    seed: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
    follow: Listener = lambda name, records: list(records),
) -> Demo:
    """Train, test, write and explain; `follow` runs each training and shows how it goes."""
    size = max(1, sentences // 10)
    corpora = embedded_corpora(sentences, size, size, seed)
    vocabulary = Vocabulary.from_corpus(*corpora.values())
    contenders = []
    for name, phi, background in _knowledge(corpora):
        model = _model(vocabulary, phi, background, seed)
        records = train(
            model,
            corpora["train"],
            valid=corpora["valid"],
            epochs=epochs,
            seed=seed,
            learning_rate=_LEARNING_RATE,
            should_stop=should_stop,
        )
        contenders.append(_contender(name, model, follow(name, records), corpora["test"]))
    best = contenders[-1].model
    generator = torch.Generator().manual_seed(seed)
    written = [one.words for one in generate(best, count=5, generator=generator)]
    return Demo(corpora, contenders, written, _agreement_decision(best, corpora["test"]))


def _knowledge(corpora: dict[str, Corpus]) -> list[tuple[str, Features, Background | None]]:
    unigram = Unigram.from_corpus(*corpora.values())
    lexicon = Lexicon.from_corpus(*corpora.values())
    phi = (
        features.Identity(top=FREQUENT_WORDS)
        + features.Attributes(lexicon)
        + features.Suffixes(3, min_count=20)
        + features.Numeric()
    )
    return [
        ("RNN", features.Identity(), None),
        ("RNN with unigram bias", features.Identity(), unigram),
        ("LL-RNN", phi, unigram),
    ]


def _model(vocabulary: Vocabulary, phi: Features, background: Background | None, seed: int) -> LLRNN:
    return LLRNN(
        vocabulary,
        output_features=phi,
        background=background,
        controller=LSTM(_HIDDEN, dropout=_DROPOUT),
        seed=seed,
    )


def _contender(name: str, model: LLRNN, records: list[Record], test: Corpus) -> Contender:
    if records[-1].event == "interrupted":
        raise TrainingError("the demo was stopped before its table was complete; start it again")
    valid = [record.valid for record in records if record.valid is not None]
    return Contender(name, model, valid, records[-1].words_per_second, evaluate(model, test).sound(name))


def _agreement_decision(model: LLRNN, test: Corpus) -> Comparison | None:
    """The first feminine adjective or participle of the test text that is not a frequent word, far from its subject."""
    rivals = _masculine_forms(test)
    frequent = set(model.vocabulary.symbols[:FREQUENT_WORDS])
    for sentence in test:
        for place, token in enumerate(sentence.tokens):
            rival = rivals.get((token.lemma, token.feats.get("Number")))
            if rival and token.form not in frequent and _is_distant_feminine_attribute(sentence, place):
                return explain(model, prefix=sentence.words[:place], word=token.form, rival=rival)
    return None


def _masculine_forms(corpus: Corpus) -> dict[tuple[str | None, str | None], str]:
    return {
        (token.lemma, token.feats.get("Number")): token.form
        for sentence in corpus
        for token in sentence.tokens
        if token.pos in ("ADJ", "VERB") and token.feats.get("Gender") == "Masc"
    }


def _is_distant_feminine_attribute(sentence: Sentence, place: int) -> bool:
    token = sentence.tokens[place]
    if token.pos not in ("ADJ", "VERB") or token.feats.get("Gender") != "Fem":
        return False
    subjects = [i for i, other in enumerate(sentence.tokens) if _is_subject_of(other, place)]
    return any(place - i >= 3 for i in subjects)


def _is_subject_of(token: Token, place: int) -> bool:
    return token.head == place + 1 and (token.relation or "").startswith("nsubj")


def write_report(demo: Demo, folder: Path) -> Path:
    """`report.html` and `results.json` in the folder, and the LL-RNN and the fair baseline as model folders."""
    folder.mkdir(parents=True, exist_ok=True)
    *_, baseline, best = demo.contenders
    best.model.save(folder / MODEL)
    baseline.model.save(folder / SOFTMAX)
    results = [
        {"name": one.name, "valid": one.valid, "words_per_second": one.words_per_second, "test": asdict(one.test)}
        for one in demo.contenders
    ]
    write_atomically(folder / "results.json", json.dumps(results, ensure_ascii=False, indent=1).encode())
    write_atomically(folder / "report.html", _page(demo).encode())
    return folder / "report.html"


def table_rows(demo: Demo) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the demo's table."""
    header = ["model", "classes", "valid", "test", "test perplexity", "bits/char", "words/s"]
    rows = [
        [
            one.name,
            f"{one.model.output_features.n_classes:,}",
            f"{min(one.valid):.3f}",
            f"{one.test.log_perplexity:.3f}",
            f"{one.test.perplexity:.1f}",
            f"{one.test.bits_per_character:.3f}",
            f"{one.words_per_second:,.0f}",
        ]
        for one in demo.contenders
    ]
    return header, rows


def _page(demo: Demo) -> str:
    best = demo.contenders[-1]
    header, rows = table_rows(demo)
    winner = min(range(len(rows)), key=lambda i: demo.contenders[i].test.log_perplexity)
    train_text, test_text = demo.corpora["train"], demo.corpora["test"]
    sections = [
        _paragraph(
            "p(x | K) ∝ b(K, x)·exp(a(h)·φ(K, x)): the network learns at every step how much each known feature of a "
            "word counts. Three models of one body were trained on the embedded French corpus "
            f"({len(train_text):,} sentences, {train_text.tokens:,} words; {len(best.model.vocabulary):,} types) and "
            f"tested on {len(test_text):,} others. valid and test are log-perplexities in nats a word; lower is better."
        ),
        _section("Results", _results_table(header, rows, winner)),
        _section("Learning curves", _learning_curves({one.name: one.valid for one in demo.contenders})),
        _section(
            "Sentences that the LL-RNN wrote",
            *(_paragraph(" ".join(words)) for words in demo.sentences),
            _paragraph("The first one, with the features of every word:", note=True),
            _sentence_table([(word, show.named_features(best.model, word)) for word in demo.sentences[0]]),
        ),
    ]
    if demo.decision is not None:
        sections.append(_decision_section(demo.decision))
    return _html_page("llrnn: what a little knowledge does", sections)


def _decision_section(found: Comparison) -> str:
    chosen, rival = found.chosen, found.rival
    return _section(
        "Why this word?",
        _paragraph(f"{' '.join(chosen.prefix)} … {chosen.word}, or {rival.word}?"),
        _paragraph(
            f"log p({chosen.word}) = {chosen.log_p:.3f}, log p({rival.word}) = {rival.log_p:.3f}. The difference of "
            f"{found.log_ratio:+.3f} is the sum of these parts, exactly:"
        ),
        svg(found.chart()),
    )


# --- the report: one HTML file that holds everything and opens offline ------------------------------------------

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .9rem .25rem 0; vertical-align: top; }
th { text-align: left; border-bottom: 2px solid #999; } td { border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: bold; } .features { color: #555; font-size: .9rem; }
p.note { color: #555; font-size: .9rem; }
"""


def _html_page(title: str, sections: Sequence[str]) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{''.join(sections)}</body></html>\n"
    )


def _section(title: str, *body: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{''.join(body)}\n"


def _paragraph(text: str, *, note: bool = False) -> str:
    return f"<p{' class=note' if note else ''}>{escape(text)}</p>\n"


def _results_table(header: Sequence[str], rows: Sequence[Sequence[str]], best: int) -> str:
    """The first column text, the others numbers; the best row stands out."""
    head = "".join(f"<th{' class=number' if i else ''}>{escape(name)}</th>" for i, name in enumerate(header))
    body = "".join(
        f"<tr{' class=best' if index == best else ''}>"
        + "".join(f"<td{' class=number' if i else ''}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for index, row in enumerate(rows)
    )
    return f"<table><tr>{head}</tr>{body}</table>\n"


def _sentence_table(words: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A generated sentence, word by word, with the features that fire on each."""
    rows = "".join(
        f"<tr><td>{escape(word)}</td><td class=features>{escape(', '.join(names))}</td></tr>" for word, names in words
    )
    return f"<table><tr><th>word</th><th>features</th></tr>{rows}</table>\n"


def _learning_curves(curves: Mapping[str, Sequence[float]]) -> str:
    """One curve for each model: its loss after each epoch."""
    points = {name: list(enumerate(curve, 1)) for name, curve in curves.items()}
    return svg(LineChart(points, "learning curves", "epoch", "log-perplexity on validation (nats)"))


# --- the verb --------------------------------------------------------------------------------


def train_demo(out: Path, *, sentences: int, epochs: int, seed: int) -> Demo:
    """Train the demo's models and write the report and two of them to a folder."""
    make_output_folder(out)
    with StopFlag().listening() as stop:
        demo = run(
            sentences=sentences,
            epochs=epochs,
            seed=seed,
            should_stop=stop,
            follow=lambda name, records: follow(records, name=name),
        )
    write_report(demo, out)
    return demo


def show_demo(found: Demo) -> None:
    header, rows = table_rows(found)
    results = show.table(*header)
    for row in rows:
        results.add_row(*row)
    show.out.print(results)
    best = found.contenders[-1].model
    show.out.print("\n[bold]sentences that the LL-RNN wrote[/]")
    for words in found.sentences:
        show.text(" ".join(words))
    show.out.print("\n[bold]the first one, word by word[/]")
    show.out.print(show.words_with_features(best, found.sentences[0]))
    if found.decision is not None:
        show.out.print("\n[bold]why this word?[/]")
        show.out.print(found.decision)


def demo_verb(
    out: Annotated[Path, typer.Option(help="The folder for the models and the report.")] = Path("demo"),
    sentences: Annotated[int, typer.Option(min=100, help="Training sentences.")] = SENTENCES,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them, at most.")] = EPOCHS,
    seed: Seed = 0,
) -> None:
    """Train, compare and explain models of the embedded French corpus.

    An RNN and an LL-RNN; writes both, and a report with what they generate.

    Example: llrnn demo
    """
    demo = train_demo(out, sentences=sentences, epochs=epochs, seed=seed)
    show_demo(demo)
    report, model = out / "report.html", out / MODEL
    show.text(f"report: {report}   model: {model}")
