"""The lists of a real recogniser (DSTC2): ten hypotheses without scores, and the system's question before them.

    dev.jsonl, test.jsonl     {"id", "context": the system's turn, "hypotheses": best first, "reference"}
    train.txt                 turns of users in other dialogues: all that language models learn from, but for `WITH_DEV`

Every language model gets the same text, the same development lists, and the same three ways to a choice:

    weights    rank, log p, number of words: three weights, fewest errors on the development lists (`tune`)
    vote       the same, and then minimum Bayes risk: the member from which the list, so weighed, expects fewest errors
    learned    a log-linear layer over the members (`learn_weights`): rank, whether first, log p, length, agreement with
               the other members, unlisted words, words said twice, and how often it says each word that lists dispute

The training text has no questions. Who is to learn from questions reads the development lists too, with what was said:
cross-fitted by dialogue, so that no model scores a list whose answer it has read. The same text is then given to rivals
(`WITH_DEV`). Models read lists in the spelling of transcripts (im, whats); errors are counted as they are.
Nothing of the test is read before all choices are made; errors of the test are counted once, at the end.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import CorpusError
from llrnn.ground.files import write_atomically
from llrnn.inference.minimum_risk import agreement, learn_weights
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists, Words, errors_of_lists
from llrnn.inference.rescoring import ModelScorer, Weights, add_scores, tune
from llrnn.knowledge.backgrounds import NGram
from llrnn.model.checkpoint import load
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn_lab.studies.rescoring import NGramScorer
from llrnn_lab.studies.tables import markdown, write_results

FOLDER, KNOWN = "dstc2_nbest", "camrest676"
NGRAM = "KN5"
WITHOUT_DEV = (NGRAM, "softmax", "llrnn", "names")  # the 44,497 words alone
WITH_DEV = (NGRAM, "softmax-question", "question-names")  # and the development answers
WAYS = ("weights", "vote", "learned")
SLOTS = ("food", "area", "pricerange")
FOLDS = 2  # of the development lists, for models that read their answers
_HELD = 4  # and for the penalty of the learned layer
_SCALES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # of the vote, chosen on the development lists
_PENALTIES = (0.03, 0.1)  # l2 of the learned layer, chosen by cross-validation
_OFTEN = 8  # lists that must disagree about a word before it has a weight
_UNKNOWN = "<unk>"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """Lists with the rank as their score, what was said, the question before each, and the dialogue it belongs to."""

    lists: NBestLists
    references: dict[str, Words]
    questions: dict[str, str]
    dialogues: Ints  # (L,)

    @classmethod
    def read(cls, path: Path) -> Part:
        lists, references, questions, begun = [], {}, {}, []
        for line in _lines(path):
            entry = json.loads(line)
            name = entry["id"]
            if "reference" not in entry or not entry["hypotheses"]:
                raise CorpusError(f"{path}: {name} needs hypotheses and a reference, found none; leave the list out")
            ranked = (Hypothesis(tuple(h.split()), (-float(k),)) for k, h in enumerate(entry["hypotheses"]))
            lists.append(NBest(name, tuple(ranked)))
            references[name] = tuple(entry["reference"].split())
            questions[name] = entry["context"]
            begun.append(entry["context"].startswith("Hello"))
        return cls(NBestLists(("rank",), tuple(lists)), references, questions, np.cumsum(begun))

    @property
    def as_transcribed(self) -> NBestLists:
        """The same lists in the spelling of the transcripts, which write no apostrophes."""
        return NBestLists(
            self.lists.names,
            tuple(
                NBest(one.utterance, tuple(Hypothesis(transcribed(h.words), h.scores) for h in one.hypotheses))
                for one in self.lists
            ),
        )


def transcribed(words: Sequence[str]) -> Words:
    """i'm as im."""
    return tuple(word.replace("'", "") for word in words)


def _commented(path: Path) -> Any:
    """JSON behind lines that begin with #."""
    return json.loads("\n".join(line for line in path.read_text("utf8").split("\n") if not line.startswith("#")))


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf8") as file:
        yield from file


@dataclass(frozen=True)
class Known:
    """Foods, areas and prices of the ontology, and the names of the venues: what a list of names says of words."""

    values: dict[str, list[str]]  # by slot

    @classmethod
    def read(cls, folder: Path) -> Known:
        ontology = _commented(folder / "CamRestOTGY.json")["informable"]
        values = {slot: [str(value) for value in ontology[slot]] for slot in SLOTS}
        values["name"] = sorted({str(venue["name"]).lower() for venue in _commented(folder / "CamRest_db.json")})
        return cls({slot: [" ".join(transcribed(value.split())) for value in own] for slot, own in values.items()})

    def write(self, folder: Path) -> None:
        attributes: dict[str, set[str]] = {}
        for slot, values in self.values.items():
            for word in (word for value in values for word in value.split()):
                attributes.setdefault(word, set()).add(f"Known:{slot}")
        table = [f"{word}\t{' '.join(sorted(own))}" for word, own in sorted(attributes.items())]
        phrases = [value for values in self.values.values() for value in values]
        for name, lines in {"names.tsv": table, "words.txt": sorted(attributes), "names.txt": phrases}.items():
            write_atomically(folder / name, "".join(f"{line}\n" for line in lines).encode())

    def condition(self, question: str) -> dict[str, Any]:
        """The question without its values, and the values: {"asked": "FOOD is served", "food": ["thai"]}."""
        text = " ".join(transcribed(re.findall(r"[\w']+", re.sub(r"[\d.,]+", " ", question.lower()))))
        said: dict[str, list[str]] = {}
        for slot in ("name", *SLOTS):
            for value in sorted(self.values[slot], key=len, reverse=True):
                text, times = re.subn(rf"\b{re.escape(value)}\b", slot.upper(), text)
                if times:
                    said.setdefault(slot, []).append(value)
        return {"asked": text, **said}


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    seed: int = 0,
    lists: int | None = None,
    changes: Sequence[str] = (),
    device: str = "cpu",
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Train what has not been trained, score the lists, tune on dev, and count the errors of the test once."""
    known = Known.read(data / KNOWN)
    turns = [" ".join(transcribed(line.split())) for line in _lines(data / FOLDER / "train.txt.gz")][:lists]
    dev = _cut(Part.read(data / FOLDER / "dev.jsonl.gz"), lists)
    test = _cut(Part.read(data / FOLDER / "test.jsonl.gz"), lists)
    study = _Study(out, configs, known, turns, dev, (*changes, f"training.seed={seed}"), device, tell)
    rows: dict[str, Any] = {}
    for with_dev, systems in ((False, WITHOUT_DEV), (True, WITH_DEV)):
        for system in systems:
            scores = study.scores(system, test, with_dev=with_dev)
            rows[f"{system}{' +dev' if with_dev else ''}"] = {
                way: _choices(way, dev, test, *scores, study.words(with_dev), seed) for way in WAYS
            }
            tell(f"{system}{' +dev' if with_dev else ''}: scored")
    found = _measured(rows, dev, test, seed)
    write_results(out, "dstc2", found, table(found))
    return found


def _cut(part: Part, lists: int | None) -> Part:
    if lists is None:
        return part
    return Part(
        NBestLists(part.lists.names, part.lists.lists[:lists]), part.references, part.questions, part.dialogues[:lists]
    )


@dataclass(frozen=True)
class _Study:
    """Models as they are asked for: of a folder of text, one for each fold of the development lists, and one of all."""

    out: Path
    configs: Path
    known: Known
    turns: list[str]
    dev: Part
    changes: tuple[str, ...]
    device: str
    tell: Tell

    def words(self, with_dev: bool) -> frozenset[str]:
        """The words of the text."""
        answers = [" ".join(self.dev.references[one.utterance]) for one in self.dev.lists] if with_dev else []
        return frozenset(word for turn in (*self.turns, *answers) for word in turn.split())

    def text(self, fold: int | None, *, with_dev: bool) -> Path:
        """The folder with the text that a model reads: the turns, and the answers of all dialogues but a fold's."""
        folder = self.out / "text" / ("turns" if not with_dev else "all" if fold is None else f"fold{fold}")
        if not (folder / "train.jsonl").exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.known.write(folder)
            lines = [{"condition": {"asked": None}, "target": turn} for turn in self.turns]
            if with_dev:
                kept = [
                    one.utterance
                    for one, d in zip(self.dev.lists, self.dev.dialogues, strict=True)
                    if fold is None or d % FOLDS != fold
                ]
                lines = [
                    {
                        "condition": self.known.condition(self.dev.questions[name]),
                        "target": " ".join(self.dev.references[name]),
                    }
                    for name in kept
                ] + lines
            write_atomically(folder / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
        return folder

    def scores(self, system: str, test: Part, *, with_dev: bool) -> tuple[list[list[float]], list[list[float]]]:
        """log p of all hypotheses of dev and of test."""
        folder = self.text(None, with_dev=with_dev)
        whole = self.scored(system, folder, test)
        if not with_dev:
            return self.scored(system, folder, self.dev), whole
        found: list[list[float]] = [[] for _ in self.dev.lists]
        for fold in range(FOLDS):
            own = np.flatnonzero(self.dev.dialogues % FOLDS == fold)
            if not len(own):
                continue
            part = Part(
                NBestLists(self.dev.lists.names, tuple(self.dev.lists.lists[i] for i in own)),
                self.dev.references,
                self.dev.questions,
                self.dev.dialogues[own],
            )
            for i, scores in zip(own, self.scored(system, self.text(fold, with_dev=True), part), strict=True):
                found[i] = scores
        return found, whole

    def scored(self, system: str, folder: Path, part: Part) -> list[list[float]]:
        lists = part.as_transcribed
        if system == NGRAM:
            corpus = Corpus.from_file(folder / "train.jsonl", lowercase=True)
            vocabulary = Vocabulary.from_corpus(corpus, min_count=2, unknown=_UNKNOWN)
            ngram = NGram.from_corpus(corpus, order=5, folds=0).bind(vocabulary)
            assert isinstance(ngram, NGram)
            return NGramScorer(ngram, vocabulary)(lists.lists)
        model = load(self.trained(system, folder)).to(torch.device(self.device))
        conditions = {name: self.known.condition(question) for name, question in part.questions.items()}
        return ModelScorer(model, conditions=conditions)(lists.lists)

    def trained(self, system: str, text: Path) -> Path:
        folder = self.out / "models" / f"{system}.{text.name}"
        if (folder / "done").exists():
            return folder
        settings = read_config(self.configs / f"{system}.toml", list(self.changes), data=text)
        project = Project.from_config(settings)
        model = project.model().to(torch.device(self.device))
        texts, best = project.corpora, None
        for record in train(
            model,
            texts["train"],
            valid=texts["valid"],
            settings=settings.training,
            folder=folder,
            resume=has_bundle(folder, "training"),
        ):
            best = record.best
        write_atomically(folder / "done", b"")
        self.tell(f"{folder.name}: {best} nats a word on the last turns of the text")
        return folder


def _features(
    part: Part, scores: Sequence[Sequence[float]], listed: frozenset[str], words: Sequence[str]
) -> NBestLists:
    """What the learned layer sees of a hypothesis."""
    lists = add_scores(part.as_transcribed, {"lm": lambda _: [list(own) for own in scores]})
    voted = agreement(part.as_transcribed, Weights({"rank": 1.0}), scale=0.5)
    lists = lists.with_scores("agreement", voted)
    own: dict[str, Callable[[int, Words], float]] = {
        "first": lambda place, said: float(place == 0),
        "unlisted": lambda place, said: float(sum(word not in listed for word in said)),
        "twice": lambda place, said: float(sum(a == b for a, b in pairwise(said))),
    }
    for word in words:
        own[f"says:{word}"] = lambda place, said, word=word: float(said.count(word))  # type: ignore[misc]
    numbers = [
        [[make(place, h.words) for make in own.values()] for place, h in enumerate(entry.hypotheses)] for entry in lists
    ]
    return NBestLists(
        (*lists.names, *own),
        tuple(
            NBest(
                one.utterance,
                tuple(Hypothesis(h.words, (*h.scores, *more)) for h, more in zip(one.hypotheses, rows, strict=True)),
            )
            for one, rows in zip(lists, numbers, strict=True)
        ),
    )


def _disputed(part: Part) -> list[str]:
    """The words about which enough lists disagree."""
    counts: Counter[str] = Counter()
    for entry in part.as_transcribed:
        said = [frozenset(h.words) for h in entry.hypotheses]
        counts.update(frozenset.union(*said) - frozenset.intersection(*said))
    return sorted(word for word, count in counts.items() if count >= _OFTEN)


@dataclass(frozen=True)
class _Chosen:
    """The place of the chosen member of each list of dev and test, and what was settled on dev."""

    dev: Ints
    test: Ints
    settled: dict[str, Any]


def _choices(
    way: str,
    dev: Part,
    test: Part,
    dev_scores: list[list[float]],
    test_scores: list[list[float]],
    listed: frozenset[str],
    seed: int,
) -> _Chosen:
    if way == "learned":
        return _learned(dev, test, dev_scores, test_scores, listed)
    scored = [part.lists.with_scores("lm", own) for part, own in ((dev, dev_scores), (test, test_scores))]
    weights = tune(scored[0], dev.references, seed=seed).weights
    settled: dict[str, Any] = {"weights": dict(weights)}
    if way == "weights":
        ours, theirs = (np.array([weights.choose(one) for one in own]) for own in scored)
        return _Chosen(ours, theirs, settled)
    votes = {scale: _voted(scored[0], weights, scale) for scale in _SCALES}
    errors = _errors(dev)
    scale = min(votes, key=lambda one: _total(errors, votes[one]))
    return _Chosen(votes[scale], _voted(scored[1], weights, scale), {**settled, "scale": scale})


def _voted(lists: NBestLists, weights: Weights, scale: float) -> Ints:
    return np.array([int(np.argmax(own)) for own in agreement(lists, weights, scale=scale)])


def _learned(
    dev: Part, test: Part, dev_scores: list[list[float]], test_scores: list[list[float]], listed: frozenset[str]
) -> _Chosen:
    """The penalty by cross-validation over dialogues; the weights then from all development lists."""
    words = _disputed(dev)
    lists, errors = _features(dev, dev_scores, listed, words), _errors(dev)
    folds = dev.dialogues % _HELD
    held: dict[float, Ints] = {}
    for l2 in _PENALTIES:
        chosen = np.zeros(len(lists), dtype=np.int64)
        for fold in np.unique(folds):
            kept = NBestLists(lists.names, tuple(lists.lists[i] for i in np.flatnonzero(folds != fold)))
            weights = learn_weights(kept, dev.references, l2=l2)
            for i in np.flatnonzero(folds == fold):
                chosen[i] = weights.choose(lists.lists[i])
        held[l2] = chosen
    l2 = min(held, key=lambda one: _total(errors, held[one]))
    weights = learn_weights(lists, dev.references, l2=l2)
    tested = _features(test, test_scores, listed, words)
    largest = sorted(weights, key=lambda name: -abs(weights[name]))[:20]
    return _Chosen(
        held[l2],
        np.array([weights.choose(one) for one in tested]),
        {"l2": l2, "features": len(weights), "weights": {name: weights[name] for name in largest}},
    )


def _errors(part: Part) -> list[Floats]:
    """Word errors of every hypothesis, as it was recognised."""
    return [
        np.array([one.total for one in own], dtype=np.float64) for own in errors_of_lists(part.lists, part.references)
    ]


def _total(errors: Sequence[Floats], chosen: Ints) -> float:
    return float(sum(own[i] for own, i in zip(errors, chosen, strict=True)))


def _measured(rows: dict[str, dict[str, _Chosen]], dev: Part, test: Part, seed: int) -> dict[str, Any]:
    """Rates with intervals from 2,000 draws of dialogues, and of what share of the way to the best choice is gone."""
    found: dict[str, Any] = {"lists": {"dev": len(dev.lists), "test": len(test.lists)}, "rows": {}}
    by_part = {"dev": (dev, _errors(dev)), "test": (test, _errors(test))}
    for name, part in (("dev", dev), ("test", test)):
        errors = by_part[name][1]
        words = np.array([len(part.references[one.utterance]) for one in part.lists])
        draws = _draws(part.dialogues, words, seed)
        ends = [np.array([pick(own) for own in errors]) for pick in (lambda own: own[0], np.min)]
        rates = {
            row: {
                way: np.array([own[i] for own, i in zip(errors, getattr(chosen, name), strict=True)])
                for way, chosen in ways.items()
            }
            for row, ways in rows.items()
        }
        found[name] = {"words": int(words.sum()), "first": _rate(ends[0], words), "best": _rate(ends[1], words)}
        for row, ways in rates.items():
            for way, own in ways.items():
                rival = rates[f"{NGRAM} +dev" if row.endswith("+dev") else NGRAM][way]
                result = {
                    "rate": _rate(own, words),
                    "interval": _interval(own, words, draws),
                    "recovered": float((ends[0].sum() - own.sum()) / max(1.0, ends[0].sum() - ends[1].sum())),
                    "against_ngram": _interval(own - rival, words, draws),
                }
                found["rows"].setdefault(row, {}).setdefault(way, {**rows[row][way].settled})[name] = result
    return found


def _rate(errors: Floats, words: Ints) -> float:
    return float(errors.sum() / words.sum())


def _draws(dialogues: Ints, words: Ints, seed: int, times: int = 2000) -> Ints:
    """How often each list is in each draw of as many dialogues as there are, (times, L)."""
    own, place = np.unique(dialogues, return_inverse=True)
    drawn = np.random.default_rng(seed).integers(0, len(own), size=(times, len(own)))
    counts = np.stack([np.bincount(row, minlength=len(own)) for row in drawn])
    return np.asarray(counts[:, place])


def _interval(errors: Floats, words: Ints, draws: Ints) -> list[float]:
    """The middle 95 % of the rate over draws."""
    rates = (draws @ errors) / (draws @ words)
    return [float(one) for one in np.quantile(rates, [0.025, 0.975])]


def table(found: dict[str, Any]) -> str:
    """Word error rates of the test in per cent, with intervals, and the share of the way to the best choice."""
    test = found["test"]
    rows = [["first hypothesis", f"{100 * test['first']:.2f}", "", ""]]
    for name, ways in found["rows"].items():
        rows.append([name, *(_cell(ways[way]["test"]) for way in WAYS)])
    rows.append(["best hypothesis", f"{100 * test['best']:.2f}", "", ""])
    return markdown(["language model", *WAYS], rows)


def _cell(one: dict[str, Any]) -> str:
    low, high = one["interval"]
    return f"{100 * one['rate']:.2f} ({100 * low:.1f}–{100 * high:.1f}), {100 * one['recovered']:.0f} %"
