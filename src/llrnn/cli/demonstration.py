"""The demo: three models of one body on the embedded French corpus, compared, made to write, and explained.

    RNN                          softmax over all words
    RNN with unigram bias        the same, starting from how frequent each word is: the fair baseline
    LL-RNN                       identity of frequent words, morphology, suffixes and numbers as features

The vocabulary is closed over the whole corpus and the background counts all of it, as in the paper's protocol (§5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from llrnn.cli import report
from llrnn.config.project import embedded_corpora
from llrnn.ground.charts import svg
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


def write_report(demo: Demo, folder: Path, features_of: Callable[[LLRNN, str], list[str]]) -> Path:
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
    write_atomically(folder / "report.html", _page(demo, features_of).encode())
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


def _page(demo: Demo, features_of: Callable[[LLRNN, str], list[str]]) -> str:
    best = demo.contenders[-1]
    header, rows = table_rows(demo)
    winner = min(range(len(rows)), key=lambda i: demo.contenders[i].test.log_perplexity)
    train_text, test_text = demo.corpora["train"], demo.corpora["test"]
    sections = [
        report.paragraph(
            "p(x | K) ∝ b(K, x)·exp(a(h)·φ(K, x)): the network learns at every step how much each known feature of a "
            "word counts. Three models of one body were trained on the embedded French corpus "
            f"({len(train_text):,} sentences, {train_text.tokens:,} words; {len(best.model.vocabulary):,} types) and "
            f"tested on {len(test_text):,} others. valid and test are log-perplexities in nats a word; lower is better."
        ),
        report.section("Results", report.results_table(header, rows, winner)),
        report.section("Learning curves", report.learning_curves({one.name: one.valid for one in demo.contenders})),
        report.section(
            "Sentences that the LL-RNN wrote",
            *(report.paragraph(" ".join(words)) for words in demo.sentences),
            report.paragraph("The first one, with the features of every word:", note=True),
            report.sentence_table([(word, features_of(best.model, word)) for word in demo.sentences[0]]),
        ),
    ]
    if demo.decision is not None:
        sections.append(_decision_section(demo.decision))
    return report.page("llrnn: what a little knowledge does", sections)


def _decision_section(found: Comparison) -> str:
    chosen, rival = found.chosen, found.rival
    return report.section(
        "Why this word?",
        report.paragraph(f"{' '.join(chosen.prefix)} … {chosen.word}, or {rival.word}?"),
        report.paragraph(
            f"log p({chosen.word}) = {chosen.log_p:.3f}, log p({rival.word}) = {rival.log_p:.3f}. The difference of "
            f"{found.log_ratio:+.3f} is the sum of these parts, exactly:"
        ),
        svg(found.chart()),
    )
