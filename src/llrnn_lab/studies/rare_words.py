"""The paper's illustration (§3), as an experiment: what a model says of words that its text never held.

    the cost was 37 euros          `37` and `15` were never seen: members of a domain that nobody listed
    the cost was grenoble euros    `grenoble` was never seen: a gazetteer says that it is a place
    the cost was preposterous      `preposterous` was never seen: a lexicon says that it is an adjective

Three models of one size learn from the same small text, made up here with a seed. The softmax has a symbol for all
words that are not frequent. The two LL-RNNs have the identity of the same frequent words, attributes and domains on the
way out; on the way in, one sees the identity only (ψ = onehot), the other all that it predicts with (ψ = φ).

Seen numbers are listed and have counts of their own in the background; `15` has none, but a share of what the discounts
took from all (see `backgrounds.unigram`). That `37` is no `grenoble` behind `the cost was` is for the features to
say: the background prefers it, everywhere, by 27 to 75. How far `15` is below the seen numbers is for the background to
say, and it says so by Good and Turing: near them in this text, where any price may come; two to ten times less where
prices come by rank from a list of three dozen, for there a number that was not seen is indeed a rarer one.

Of seeds 0 to 8, all meet the first and the third bar with ψ = φ, and seed 5 misses the second (0.30 for 1/3); see
`docs/results/rare-words.json`. With 12 epochs instead of 20, seed 3 missed the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from llrnn.inference.explanation import explain
from llrnn.knowledge.backgrounds import Discounted, Unigram
from llrnn.knowledge.features import Attributes, CellAttributes, Features, Identity
from llrnn.languages.domains import Names, Numbers, Spelling
from llrnn.model.controllers import LSTM
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.settings import SentenceBatches, TrainingSettings
from llrnn_lab.french.lexicon import Weighted, zipf
from llrnn_lab.studies.tables import markdown, write_results

PREFIX = "the cost was"
SOFTMAX, ONEHOT, SAME = "softmax, UNK", "LL-RNN, ψ = onehot", "LL-RNN, ψ = φ"
UNKNOWN = "<unk>"

# The rarest come last: every list is drawn from by rank. None of them holds a word that the questions ask for.
FAVOURITES = ("20", "50")  # round prices, seen often enough to have an identity
CITIES = [
    "paris",
    "lyon",
    "london",
    "berlin",
    "madrid",
    "rome",
    "vienna",
    "lille",
    "oslo",
    "prague",
    "nice",
    "dublin",
    "lisbon",
    "geneva",
    "warsaw",
    "milan",
    "bern",
    "turin",
    "ghent",
    "porto",
    "riga",
    "basel",
    "seville",
    "bruges",
    "cork",
    "malmo",
]
ADJECTIVES = [
    "high",
    "low",
    "good",
    "small",
    "large",
    "fair",
    "new",
    "old",
    "nice",
    "huge",
    "modest",
    "strange",
    "tiny",
    "absurd",
    "heavy",
    "odd",
    "enormous",
    "shocking",
    "trivial",
    "outrageous",
    "ridiculous",
    "laughable",
    "crushing",
    "negligible",
    "moderate",
    "excessive",
]
NOUNS = [
    "house",
    "car",
    "book",
    "table",
    "garden",
    "bridge",
    "boat",
    "piano",
    "train",
    "ticket",
    "school",
    "river",
    "letter",
    "tower",
    "museum",
    "violin",
]
PLURALS = ["books", "tickets", "chairs", "stamps", "letters", "apples", "bottles", "violins", "candles", "lamps"]
VERBS = [
    "saw",
    "liked",
    "built",
    "painted",
    "sold",
    "found",
    "visited",
    "admired",
    "repaired",
    "measured",
    "photographed",
    "restored",
]
ELSEWHERE = [
    "grenoble",
    "nantes",
    "toulouse",
    "dijon",
    "hamburg",
    "naples",
    "krakow",
    "antwerp",
    "zagreb",
    "leeds",
    "uppsala",
    "graz",
]
UNSEEN = {
    "ADJ": ["preposterous", "exorbitant", "reasonable", "ludicrous"],
    "NOUN": ["castle", "bicycle"],
    "VERB": ["bought"],
}
ASKED = ("37", "15", "grenoble", "preposterous")

_TEMPLATES = {
    "the cost was {price} euros .": 4,
    "the cost was {adjective} .": 4,
    "the cost was {adjective} for us .": 1,
    "the cost was not {adjective} .": 1,
    "in {year} {who} moved to {city} .": 8,
    "{who} lives in {city} .": 12,
    "the capital was {city} .": 4,
    "{city} is a {adjective} city .": 8,
    "the {noun} was {adjective} .": 12,
    "the {noun} was {number} years old .": 1,
    "{who} {verb} the {noun} in {city} .": 16,
    "{who} {verb} a {adjective} {noun} .": 16,
    "{who} {verb} {number} {plural} .": 1,
    "the {adjective} {noun} is in {city} .": 8,
}


@dataclass(frozen=True)
class Study:
    """How large the text and the models are; the same for all three."""

    sentences: int = 3000
    frequent: int = 75  # words with an identity, on the way in and out: all that the softmax knows
    size: int = 32  # inputs and hidden units
    epochs: int = 20
    learning_rate: float = 0.01

    def training(self, seed: int) -> TrainingSettings:
        """No validation, so no choice by it: every model is trained for as long."""
        return TrainingSettings(
            batches=SentenceBatches(words=512), epochs=self.epochs, learning_rate=self.learning_rate, seed=seed
        )


def text(sentences: int, seed: int) -> Corpus:
    """English sentences about costs, places, years and things."""
    random = Random(seed)
    by_rank = {"city": CITIES, "adjective": ADJECTIVES, "noun": NOUNS, "plural": PLURALS, "verb": VERBS}
    words = {name: zipf(items) for name, items in (by_rank | {"who": ("she", "he")}).items()}
    years = [str(year) for year in range(1920, 2020)]
    words |= {"price": prices(), "number": _alike(_numbers(2)), "year": _alike(years)}
    templates = Weighted(tuple(_TEMPLATES), tuple(map(float, _TEMPLATES.values())))
    made = (templates.draw(random) for _ in range(sentences))
    return Corpus.from_sentences(
        [template.format(**{k: w.draw(random) for k, w in words.items()}).split() for template in made],
        name=f"costs, seed {seed}",
    )


def prices() -> Weighted[str]:
    """A few round ones often, and any other number of up to three digits: most of them once or never."""
    groups = ((FAVOURITES, 0.35), (_numbers(1), 0.1), (_numbers(2), 0.35), (_numbers(3), 0.2))
    items = [(number, share / len(numbers)) for numbers, share in groups for number in numbers]
    return Weighted([number for number, _ in items], [weight for _, weight in items])


def _numbers(digits: int) -> list[str]:
    return [str(n) for n in range(10 ** (digits - 1), 10**digits) if str(n) not in ASKED]


def _alike(items: Sequence[str]) -> Weighted[str]:
    return Weighted(items, [1.0] * len(items))


def lexicon() -> Lexicon:
    """Parts of speech, of words that the text holds and of some that it does not."""
    kinds = {"ADJ": ADJECTIVES, "NOUN": [*NOUNS, *PLURALS, "city", "cost", "euros", "years", "capital"], "VERB": VERBS}
    return Lexicon.from_mapping(
        {word: [f"POS:{kind}"] for kind, words in kinds.items() for word in (*words, *UNSEEN[kind])}
    )


def softmax(corpus: Corpus, study: Study, seed: int) -> LLRNN:
    """The baseline: frequent words, and one symbol for all others."""
    vocabulary = Vocabulary.from_corpus(corpus, top=study.frequent, unknown=UNKNOWN)
    background = Unigram.from_corpus(corpus)
    return LLRNN(
        vocabulary,
        output_features=Identity(),
        background=background,
        controller=LSTM(study.size, inputs=study.size),
        seed=seed,
    )


def open_model(corpus: Corpus, study: Study, seed: int, *, psi: Features | None = None) -> LLRNN:
    """No UNK: words of the text and of the lexicon are listed, all other strings are in a domain."""
    known = lexicon()
    cities = {city: ["Location"] for city in (*CITIES, *ELSEWHERE)}
    spelling = Spelling([*known.forms(), *cities], cells=False)
    domains = (Numbers("en").counted(corpus.counts()), Names(cities, spelling, name="place"))
    vocabulary = Vocabulary.from_corpus(corpus, others=known.forms(), domains=domains, as_new=0.5)
    return LLRNN(
        vocabulary,
        output_features=Identity(top=study.frequent) + Attributes(known) + CellAttributes(),
        input_features=psi,
        background=Discounted.from_corpus(corpus, frequencies=dict.fromkeys(known.forms(), 1.0)),
        controller=LSTM(study.size, inputs=study.size),
        seed=seed,
    )


def models(corpus: Corpus, study: Study, seed: int) -> dict[str, LLRNN]:
    """The three that are compared, not trained yet."""
    return {
        SOFTMAX: softmax(corpus, study, seed),
        ONEHOT: open_model(corpus, study, seed, psi=Identity(top=study.frequent)),
        SAME: open_model(corpus, study, seed),
    }


def seen_prices(corpus: Corpus) -> dict[str, int]:
    """The numbers of two digits that stand behind the prefix, and how often the text has them anywhere."""
    start = tuple(PREFIX.split())
    behind = {sentence.words[3] for sentence in corpus if tuple(sentence.words[:3]) == start}
    counts: Counter[str] = corpus.counts()
    return {word: counts[word] for word in sorted(behind) if word.isdigit() and len(word) == len("15")}


def measure(model: LLRNN, seen: Sequence[str]) -> dict[str, Any]:
    """Probabilities after the prefix, of whole strings; the background's own opinion, and the ratios of the bars."""
    found = {word: explain(model, word=word, prefix=PREFIX) for word in (*ASKED, *seen)}
    p = {word: math.exp(one.log_p) for word, one in found.items()}
    b = {word: math.exp(found[word].log_b) for word in ASKED}
    euros = {
        word: math.exp(explain(model, word="euros", prefix=f"{PREFIX} {word}").log_p) for word in ("37", "preposterous")
    }
    typical = math.exp(math.fsum(found[word].log_p for word in seen) / len(seen))
    ratios = {
        "place": p["37"] / p["grenoble"],
        "number": p["15"] / typical,
        "euros": euros["37"] / euros["preposterous"],
    }
    return {
        "p": {word: p[word] for word in ASKED},
        "background": b,
        "euros": euros,
        "seen": {word: p[word] for word in seen},
        "seen_mean": typical,
        "ratios": ratios,
    }


@dataclass(frozen=True)
class Bar:
    """What a ratio must be, and how to say it."""

    name: str
    low: float
    high: float
    says: str

    def holds(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high

    def sentence(self, ratios: Sequence[float]) -> str:
        """One sentence for all seeds: they must all be in the bounds."""
        bounds = f"at least {self.low:g}" if self.high == math.inf else f"{self.low:.2g} to {self.high:g}"
        shown = ", ".join(f"{ratio:,.3g}" for ratio in ratios)
        return f"{self.says}: {shown} ({bounds} is asked): {'holds' if all(map(self.holds, ratios)) else 'fails'}."


BARS = (
    Bar("place", 100.0, math.inf, "After `the cost was`, `37` is likelier than `grenoble` by a factor of"),
    Bar("number", 1 / 3, 3.0, "There, p(`15`) over the mean of the seen numbers of two digits is"),
    Bar("euros", 20.0, math.inf, "`euros` is likelier after `37` than after `preposterous` by a factor of"),
)


def run_seed(study: Study, seed: int, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """One text, three models, and what they say."""
    corpus = text(study.sentences, seed)
    seen = seen_prices(corpus)
    measured = {}
    for name, model in models(corpus, study, seed).items():
        for _ in train(model, corpus, settings=study.training(seed)):
            pass
        measured[name] = measure(model, list(seen))
        tell(f"seed {seed}: {name} is trained")
    return {"seed": seed, "seen_counts": seen, "models": measured}


def run(
    out: Path,
    *,
    seed: int = 0,
    seeds: int = 3,
    study: Study | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All seeds; figures and a table into the folder."""
    study = study or Study()
    out.mkdir(parents=True, exist_ok=True)
    runs = [run_seed(study, own, tell) for own in range(seed, seed + seeds)]
    settings = asdict(study) | {"training": study.training(seed).model_dump(exclude={"seed"})}
    found: dict[str, Any] = {
        "command": f"llrnn experiment rare-words --out {out} --seed {seed} --seeds {seeds} --epochs {study.epochs}",
        "settings": settings,
        "prefix": PREFIX,
        "verdicts": verdicts(runs),
        "runs": runs,
    }
    write_results(out, "rare-words", found, report(found))
    return found


def verdicts(runs: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each bar, for the model that sees features on both sides."""
    return [bar.sentence([run["models"][SAME]["ratios"][bar.name] for run in runs]) for bar in BARS]


def report(found: dict[str, Any]) -> str:
    """The table and what it says."""
    rows = [_row(run["seed"], name, figures) for run in found["runs"] for name, figures in run["models"].items()]
    header = ["seed", "model", "p(37)", "p(15)", "p(grenoble)", "p(seen), mean [range]"]
    table = markdown([*header, "p(euros \\| 37)", "p(euros \\| preposterous)"], rows)
    unknown = ", ".join(f"{run['models'][SOFTMAX]['p']['37']:.2g}" for run in found["runs"])
    same = f"The softmax has p(UNK) = {unknown} for `37`, `15` and `grenoble` alike: it cannot tell them apart."
    sentences = "\n".join(f"- {sentence}" for sentence in (same, *found["verdicts"]))
    return f"After `{PREFIX}`; seen: numbers of two digits.\n\n{table}\n{SAME}, by seed:\n\n{sentences}\n"


def _row(seed: int, name: str, figures: dict[str, Any]) -> list[str]:
    p, seen, euros = figures["p"], figures["seen"].values(), figures["euros"]
    typical = f"{figures['seen_mean']:.2g} [{min(seen):.2g}, {max(seen):.2g}]"
    shown = [f"{value:.2g}" for value in (p["37"], p["15"], p["grenoble"])]
    return [str(seed), name, *shown, typical, f"{euros['37']:.2g}", f"{euros['preposterous']:.2g}"]
