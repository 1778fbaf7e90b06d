"""The lists of a real recogniser (DSTC2): ten hypotheses without scores, and the system's question before them.

    dev.jsonl, test.jsonl     {"id", "context": the system's turn, "hypotheses": best first, "reference"}
    train.txt                 turns of users in other dialogues

Language models read one of three texts (`TEXTS`), and every row of a text has the same one:

    turns       the turns of users
    dialogues   and what users of CamRest676 type, behind the system's sentence: questions with answers of other people
    dev         the turns, and what was said behind the questions of the development lists: cross-fitted by dialogue,
                so that no model scores a list whose answer it has read

A condition has the question, its values, and what the user said in the turn before: as transcribed where a text is
read, as recognised (the first hypothesis) where a list is scored. Models differ in what they read of it.

Every network has the same settings to try (`TRIES`), with one seed; fewest errors on the development lists decide, and
the other seeds take it over. Every row has the same three ways to a choice:

    weights    rank, log p, number of words: three weights, fewest errors on the development lists (`tune`)
    vote       the same, and then minimum Bayes risk: the member from which the list, so weighed, expects fewest errors
    learned    a log-linear layer over the members (`learn_weights`): rank, whether first, log p, length, agreement with
               the other members, unlisted words, words said twice, and how often it says each word that lists dispute

Models read lists in the spelling of transcripts (im, whats); errors are counted as they are. A run looks at what was
said in the test when the choices of a text are made, and at no time chooses by it. (Tables of the published figures'
test were seen before all models were trained, and its column `learned` after the others; no setting was changed.)
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError
from llrnn.ground.files import write_atomically
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists, Words, errors_of_lists
from llrnn.inference.rescoring import ModelScorer, Weights, tune
from llrnn.knowledge.backgrounds import NGram
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.minimum_risk import agreement, learn_weights, pairwise_errors
from llrnn_lab.studies.rescoring import NGramScorer
from llrnn_lab.studies.tables import markdown, mean_and_spread, write_results

FOLDER, KNOWN = "dstc2_nbest", "camrest676"
NGRAM = "KN5"
TEXTS = {
    "turns": (NGRAM, "softmax", "softmax-before", "llrnn", "names", "before-names"),
    "dialogues": (NGRAM, "softmax-question", "question", "question-names"),
    "dev": (NGRAM, "softmax-question", "softmax-dialogue", "question", "question-names", "dialogue-names"),
}
TRIES = (
    ("controller.hidden=128", "training.learning_rate=0.003"),
    ("controller.hidden=64", "training.learning_rate=0.005"),
)
WAYS = ("weights", "vote", "learned")
SLOTS = ("food", "area", "pricerange")
FOLDS = 2  # of the development lists, for models that read their answers
_HELD = 4  # and for the penalty of the learned layer
_SCALES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # of the vote, chosen on the development lists
_PENALTIES = (0.03, 0.1)  # l2 of the learned layer, chosen by cross-validation
_OFTEN = 8  # lists that must disagree about a word before it has a weight
_UNKNOWN = "<unk>"
_GREETING = "Hello"  # how a dialogue begins
_BYE = {"bye", "goodbye"}  # and ends

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """Lists with the rank as their score, what was said, the question before each, and the dialogue it belongs to."""

    lists: NBestLists
    references: dict[str, Words]
    questions: dict[str, str]
    before: dict[str, Words]  # the first hypothesis of the turn before; none where a dialogue begins
    dialogues: Ints  # (L,)

    @classmethod
    def read(cls, path: Path) -> Part:
        lists, references, questions, before, begun = [], {}, {}, {}, []
        heard: Words = ()
        for line in _lines(path):
            entry = json.loads(line)
            name = entry["id"]
            if "reference" not in entry or not entry["hypotheses"]:
                raise CorpusError(f"{path}: {name} needs hypotheses and a reference, found none; leave the list out")
            ranked = (Hypothesis(tuple(h.split()), (-float(k),)) for k, h in enumerate(entry["hypotheses"]))
            lists.append(NBest(name, tuple(ranked)))
            references[name] = tuple(entry["reference"].split())
            questions[name] = entry["context"]
            begun.append(entry["context"].startswith(_GREETING))
            before[name] = () if begun[-1] else heard
            heard = transcribed(entry["hypotheses"][0].split())
        return cls(NBestLists(("rank",), tuple(lists)), references, questions, before, np.cumsum(begun))

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

    def condition(self, question: str | None, before: Words) -> dict[str, Any]:
        """The question without its values, the values; the turn before, and values that were said in it.

        {"asked": "FOOD is served", "food": ["thai"], "before": "do they serve thai food", "said": ["thai"]}
        """
        text = " ".join(before)
        said = [value for slot in SLOTS for value in self.values[slot] if f" {value} " in f" {text} "]
        asked = {"asked": None} if question is None else self._asked(question)
        return {**asked, "before": text or None, "said": said}

    def _asked(self, question: str) -> dict[str, Any]:
        text = " ".join(transcribed(re.findall(r"[\w']+", re.sub(r"[\d.,]+", " ", question.lower()))))
        said: dict[str, list[str]] = {}
        for slot in ("name", *SLOTS):
            if found := self._patterns[slot].findall(text):
                said[slot] = list(dict.fromkeys(found))
                text = self._patterns[slot].sub(slot.upper(), text)
        return {"asked": text, **said}

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        """By slot: one of its values, the longest that fits."""
        longest = {slot: sorted(own, key=len, reverse=True) for slot, own in self.values.items()}
        return {slot: re.compile(rf"\b(?:{'|'.join(map(re.escape, own))})\b") for slot, own in longest.items()}


Scores = list[list[float]]  # log p of every hypothesis of every list


@dataclass(frozen=True)
class Data:
    """What the study reads."""

    known: Known
    turns: list[str]
    typed: list[dict[str, Any]]  # {"condition", "target"}, of CamRest676
    dev: Part
    test: Part

    @classmethod
    def read(cls, folder: Path, lists: int | None = None) -> Data:
        known = Known.read(folder / KNOWN)
        turns = [" ".join(transcribed(line.split())) for line in _lines(folder / FOLDER / "train.txt.gz")][:lists]
        dev, test = (_cut(Part.read(folder / FOLDER / f"{name}.jsonl.gz"), lists) for name in ("dev", "test"))
        greeting = next((asked for asked in dev.questions.values() if asked.startswith(_GREETING)), _GREETING)
        typed = [
            {"condition": known.condition(asked, before), "target": " ".join(said)}
            for asked, before, said in _typed(folder / KNOWN / "CamRest676.json.gz", greeting)
        ]
        return cls(known, turns, typed[:lists], dev, test)

    def answered(self, without: int | None) -> list[dict[str, Any]]:
        """What was said in the development lists, behind its question; without a fold of the dialogues."""
        kept = [
            one.utterance
            for one, d in zip(self.dev.lists, self.dev.dialogues, strict=True)
            if without is None or d % FOLDS != without
        ]
        return [
            {
                "condition": self.known.condition(self.dev.questions[name], self.dev.before[name]),
                "target": " ".join(self.dev.references[name]),
            }
            for name in kept
        ]


def _typed(path: Path, greeting: str) -> Iterator[tuple[str, Words, Words]]:
    """(the system's sentence, what the user had typed before, and now) of the dialogues of CamRest676."""
    for dialogue in json.loads("".join(line for line in _lines(path) if not line.startswith("#"))):
        asked, before = greeting, tuple[str, ...]()
        for turn in dialogue["dial"]:
            said = transcribed(re.findall(r"[\w']+", turn["usr"]["transcript"].lower()))
            if said:
                yield asked, before, said
            asked, before = turn["sys"]["sent"], said


def _befores(turns: Sequence[str]) -> Iterator[Words]:
    """What was said before each turn, in the order of the file: nothing behind a good bye, which ends a dialogue."""
    before: Words = ()
    for turn in turns:
        yield before
        said = tuple(turn.split())
        before = () if _BYE & {*said} else said


@dataclass(frozen=True)
class Text:
    """A text with the lists that models of it score: those of dev but for answers that it holds, and the test."""

    name: str
    fold: int | None = None  # of the development lists, which it does not hold

    def folder(self, out: Path) -> Path:
        return out / "text" / (self.name if self.fold is None else f"{self.name}{self.fold}")

    def dev_lists(self, data: Data) -> Ints:
        folds = data.dev.dialogues % FOLDS
        return np.flatnonzero(folds == self.fold) if self.name == "dev" else np.arange(len(folds))

    def write(self, out: Path, data: Data) -> None:
        folder = self.folder(out)
        if (folder / "test.jsonl").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        data.known.write(folder)
        more = {"turns": [], "dialogues": data.typed, "dev": data.answered(self.fold)}[self.name]
        turns = [
            {"condition": data.known.condition(None, before), "target": turn}
            for turn, before in zip(data.turns, _befores(data.turns), strict=True)
        ]
        _write_lines(folder / "train.jsonl", [*more, *turns])
        scored = {"dev": (data.dev, self.dev_lists(data)), "test": (data.test, np.arange(len(data.test.lists)))}
        for name, (part, own) in scored.items():
            read = part.as_transcribed.lists
            lists = [read[i] for i in own]
            _write_lines(
                folder / f"{name}.jsonl",
                [
                    {
                        "id": one.utterance,
                        "condition": data.known.condition(part.questions[one.utterance], part.before[one.utterance]),
                        "hypotheses": [" ".join(h.words) for h in one.hypotheses],
                    }
                    for one in lists
                ],
            )


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def judges_of(name: str) -> list[Text]:
    """Those whose models together score all development lists, each but for answers that it holds."""
    return [Text(name)] if name != "dev" else [Text(name, fold) for fold in range(FOLDS)]


def texts_of(name: str) -> list[Text]:
    """Those that a system is trained on until it has scored all lists."""
    return list(dict.fromkeys([*judges_of(name), Text(name)]))


def _asked(path: Path) -> tuple[list[NBest], dict[str, object]]:
    """Lists without references, and what was asked before each."""
    entries = [json.loads(line) for line in path.read_text("utf8").splitlines()]
    lists = [NBest(e["id"], tuple(Hypothesis(tuple(h.split()), ()) for h in e["hypotheses"])) for e in entries]
    return lists, {e["id"]: e["condition"] for e in entries}


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train the model of a job on a text, and score the lists beside it."""
    found = trained(job, data=data, out=out, device=device)
    heard = {}
    for name in ("dev", "test"):
        lists, conditions = _asked(data / f"{name}.jsonl")
        own = ModelScorer(found.model, conditions=conditions)(lists) if lists else []
        heard[name] = [[round(one, 5) for one in scores] for scores in own]
    write_atomically(job.folder(out) / "scores.json", json.dumps(heard).encode())
    return found.write(job.folder(out), {"tests": {}})


@dataclass(frozen=True)
class How:
    """How models are trained: where, and with what changes to their configurations."""

    configs: Path
    changes: tuple[str, ...] = ()
    device: str = "cpu"
    parallel: int = 1
    ways: tuple[str, ...] = WAYS


def run(
    data: Path,
    out: Path,
    how: How,
    *,
    seeds: int = 3,
    lists: int | None = None,
    only: Sequence[str] = tuple(TEXTS),
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Train what has not been trained, choose on dev, and count the errors of the test once."""
    study = Study(Data.read(data, lists), out, how, tell)
    chosen = study.train(only, seeds)
    choices: dict[str, dict[str, list[_Chosen]]] = {}
    found: dict[str, Any] = {}
    for name in only:
        choices |= study.choices(name, chosen, seeds)
        found = {**_measured(choices, study.data.dev, study.data.test), "tries": [list(own) for own in TRIES]}
        for row in chosen.keys() & choices.keys():
            found["rows"][row]["chosen"] = chosen[row]
        write_results(out, "dstc2", found, table(found))
    return found


def _row(text: str, system: str) -> str:
    return system if text == "turns" else f"{system} +{text}"


def _cut(part: Part, lists: int | None) -> Part:
    if lists is None:
        return part
    return Part(
        NBestLists(part.lists.names, part.lists.lists[:lists]),
        part.references,
        part.questions,
        part.before,
        part.dialogues[:lists],
    )


@dataclass(frozen=True)
class Study:
    """Models as they are asked for, and what they say of the lists."""

    data: Data
    out: Path
    how: How
    tell: Tell

    def job(self, text: Text, system: str, place: int, seed: int) -> Job:
        folder = text.folder(self.out)
        config, changes = self.how.configs / f"{system}.toml", (*TRIES[place], *self.how.changes)
        return Job(f"{system}.{folder.name}.try{place}", config, changes, seed, "real-lists", folder)

    def train(self, names: Sequence[str], seeds: int) -> dict[str, dict[str, Any]]:
        """Train all networks of some texts: the tries with one seed, and what is best with the others."""
        for text in (text for name in names for text in texts_of(name)):
            text.write(self.out, self.data)
        networks = [(name, system) for name in names for system in TEXTS[name] if system != NGRAM]
        networks.reverse()  # what takes longest comes first
        self._run(
            self.job(text, system, place, 0)
            for name, system in networks
            for place in range(len(TRIES))
            for text in judges_of(name)
        )
        chosen = {_row(*network): self.chosen(*network) for network in networks}
        self._run(
            self.job(text, system, chosen[_row(name, system)]["try"], seed)
            for seed in range(seeds)
            for name, system in networks
            for text in texts_of(name)
        )
        return chosen

    def _run(self, jobs: Iterable[Job]) -> None:
        out, how = self.out / "models", self.how
        run_jobs([*jobs], data=self.out, out=out, device=how.device, parallel=how.parallel, tell=self.tell)

    def chosen(self, name: str, system: str) -> dict[str, Any]:
        """The try with the fewest errors on the development lists, by three weights."""
        lists, errors = self.data.dev.lists, _errors(self.data.dev)
        rates = []
        for place in range(len(TRIES)):
            scored = lists.with_scores("lm", self.on_dev(name, system, place, 0))
            weights = tune(scored, self.data.dev.references, seed=0).weights
            rates.append(_total(errors, np.array([weights.choose(one) for one in scored])))
        return {"try": int(np.argmin(rates)), "errors": rates}

    def on_dev(self, name: str, system: str, place: int, seed: int) -> Scores:
        """log p of all hypotheses of dev, by models that have not read its answers."""
        dev: Scores = [[] for _ in self.data.dev.lists]
        for text in judges_of(name):
            own = self._scores(text, system, place, seed)["dev"]
            for i, scores in zip(text.dev_lists(self.data), own, strict=True):
                dev[i] = scores
        return dev

    def on_test(self, name: str, system: str, place: int, seed: int) -> Scores:
        """log p of all hypotheses of test, by the model of the whole text."""
        return self._scores(Text(name), system, place, seed)["test"]

    def _scores(self, text: Text, system: str, place: int, seed: int) -> dict[str, Scores]:
        if system == NGRAM:
            return _by_ngrams(text.folder(self.out))
        folder = self.job(text, system, place, seed).folder(self.out / "models")
        found: dict[str, Scores] = json.loads((folder / "scores.json").read_bytes())
        return found

    def words(self, name: str) -> frozenset[str]:
        """The words of a text."""
        lines = (json.loads(line) for line in (Text(name).folder(self.out) / "train.jsonl").read_text().splitlines())
        return frozenset(word for line in lines for word in line["target"].split())

    def choices(
        self, name: str, chosen: Mapping[str, Mapping[str, Any]], seeds: int
    ) -> dict[str, dict[str, list[_Chosen]]]:
        """By every way, for every seed (n-grams have none); side by side."""
        found: dict[str, dict[str, list[_Chosen]]] = {}
        listed, disputed = self.words(name), _disputed(self.data.dev)
        dev, test = (Judged.of(part, listed, disputed) for part in (self.data.dev, self.data.test))
        with ProcessPoolExecutor(self.how.parallel, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
            waiting = []
            for system in TEXTS[name]:
                row = _row(name, system)
                for seed in range(1 if system == NGRAM else seeds):
                    model = (name, system, 0 if system == NGRAM else chosen[row]["try"], seed)
                    scores = (self.on_dev(*model), self.on_test(*model))
                    waiting.append((row, pool.submit(_choices, dev, test, *scores, self.how.ways)))
            for row, answer in waiting:
                for way, choice in answer.result().items():
                    found.setdefault(row, {}).setdefault(way, []).append(choice)
        self.tell(f"{name}: chosen")
        return found


def _by_ngrams(folder: Path) -> dict[str, Scores]:
    corpus = Corpus.from_file(folder / "train.jsonl", lowercase=True)
    vocabulary = Vocabulary.from_corpus(corpus, min_count=2, unknown=_UNKNOWN)
    ngram = NGram.from_corpus(corpus, order=5, folds=0).bind(vocabulary)
    assert isinstance(ngram, NGram)
    scorer = NGramScorer(ngram, vocabulary)
    return {name: scorer(_asked(folder / f"{name}.jsonl")[0]) for name in ("dev", "test")}


@dataclass(frozen=True)
class Judged:
    """A part with what all rows need of it, made once."""

    part: Part
    distances: list[Floats]  # of the members of a list to each other, (N, N) a list
    features: NBestLists  # what the learned layer sees of a hypothesis, but for log p

    @classmethod
    def of(cls, part: Part, listed: frozenset[str], disputed: Sequence[str]) -> Judged:
        distances = pairwise_errors(part.lists.lists)
        voted = agreement(part.lists, Weights({"rank": 1.0}), scale=0.5, distances=distances)
        lists = part.lists.with_scores("agreement", voted)
        names = ("first", "unlisted", "twice", *(f"says:{word}" for word in disputed))
        seen = [
            NBest(one.utterance, tuple(_seen(h, place, listed, disputed) for place, h in enumerate(one.hypotheses)))
            for one in lists
        ]
        return cls(part, distances, NBestLists((*lists.names, *names), tuple(seen)))


def _seen(hypothesis: Hypothesis, place: int, listed: frozenset[str], disputed: Sequence[str]) -> Hypothesis:
    """With the features of its words, in the spelling of transcripts."""
    words = transcribed(hypothesis.words)
    counts = Counter(words)
    unlisted, twice = (sum(word not in listed for word in words), sum(a == b for a, b in pairwise(words)))
    own = (float(one) for one in (place == 0, unlisted, twice, *(counts[word] for word in disputed)))
    return Hypothesis(hypothesis.words, (*hypothesis.scores, *own))


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
    dev: Judged, test: Judged, dev_scores: Scores, test_scores: Scores, ways: Sequence[str] = WAYS
) -> dict[str, _Chosen]:
    """By every way; the learned one takes longest by far."""
    ours, theirs = dev.part.lists.with_scores("lm", dev_scores), test.part.lists.with_scores("lm", test_scores)
    weights, errors = tune(ours, dev.part.references, seed=0).weights, _errors(dev.part)
    settled: dict[str, Any] = {"weights": dict(weights)}
    plain = _Chosen(_by(weights, ours), _by(weights, theirs), settled)
    votes = {scale: _voted(ours, weights, scale, dev.distances) for scale in _SCALES}
    scale = min(votes, key=lambda one: _total(errors, votes[one]))
    vote = _Chosen(votes[scale], _voted(theirs, weights, scale, test.distances), {**settled, "scale": scale})
    if "learned" not in ways:
        return {"weights": plain, "vote": vote}
    features = dev.features.with_scores("lm", dev_scores), test.features.with_scores("lm", test_scores)
    return {"weights": plain, "vote": vote, "learned": _learned(dev.part, *features)}


def _by(weights: Weights, lists: Iterable[NBest]) -> Ints:
    return np.array([weights.choose(one) for one in lists])


def _voted(lists: NBestLists, weights: Weights, scale: float, distances: Sequence[Floats]) -> Ints:
    voted = agreement(lists, weights, scale=scale, distances=distances)
    return np.array([int(np.argmax(own)) for own in voted])


def _learned(dev: Part, lists: NBestLists, tested: NBestLists) -> _Chosen:
    """The penalty by cross-validation over dialogues; the weights then from all development lists."""
    errors, folds = _errors(dev), dev.dialogues % _HELD
    held = {l2: np.zeros(len(lists), dtype=np.int64) for l2 in _PENALTIES}
    for fold in np.unique(folds):
        kept = NBestLists(lists.names, tuple(lists.lists[i] for i in np.flatnonzero(folds != fold)))
        left = np.flatnonzero(folds == fold)
        for l2 in _PENALTIES:
            weights = learn_weights(kept, dev.references, l2=l2)
            held[l2][left] = _by(weights, (lists.lists[i] for i in left))
    l2 = min(held, key=lambda one: _total(errors, held[one]))
    weights = learn_weights(lists, dev.references, l2=l2)
    largest = sorted(weights, key=lambda name: -abs(weights[name]))[:20]
    told = {"l2": l2, "features": len(weights), "weights": {name: weights[name] for name in largest}}
    return _Chosen(held[l2], _by(weights, tested), told)


def _errors(part: Part) -> list[Floats]:
    """Word errors of every hypothesis, as it was recognised."""
    return [
        np.array([one.total for one in own], dtype=np.float64) for own in errors_of_lists(part.lists, part.references)
    ]


def _total(errors: Sequence[Floats], chosen: Ints) -> float:
    return float(sum(own[i] for own, i in zip(errors, chosen, strict=True)))


def _measured(rows: dict[str, dict[str, list[_Chosen]]], dev: Part, test: Part) -> dict[str, Any]:
    """Rates of all seeds; of their mean intervals from 2,000 draws of dialogues, and the share of the way to the best
    choice that is gone."""
    found: dict[str, Any] = {"lists": {"dev": len(dev.lists), "test": len(test.lists)}, "rows": {}}
    for row, ways in rows.items():
        found["rows"][row] = {way: {"settled": [one.settled for one in own]} for way, own in ways.items()}
    for name, part in (("dev", dev), ("test", test)):
        errors = _errors(part)
        words = np.array([len(part.references[one.utterance]) for one in part.lists])
        draws = _draws(part.dialogues, words, 0)
        first, best = (np.array([pick(own) for own in errors]) for pick in (lambda own: own[0], np.min))
        found[name] = {"words": int(words.sum()), "first": _rate(first, words), "best": _rate(best, words)}
        made = {(row, way): _by_seed(errors, own, name) for row, ways in rows.items() for way, own in ways.items()}
        for (row, way), own in made.items():
            mean, rival = own.mean(0), made[f"{NGRAM} +{row.split(' +')[1]}" if " +" in row else NGRAM, way].mean(0)
            found["rows"][row][way][name] = {
                "rates": [_rate(one, words) for one in own],
                "rate": _rate(mean, words),
                "interval": _interval(mean, words, draws),
                "recovered": float((first.sum() - mean.sum()) / max(1.0, first.sum() - best.sum())),
                "against_ngram": _interval(mean - rival, words, draws),
            }
    return found


def _by_seed(errors: Sequence[Floats], chosen: Sequence[_Chosen], part: str) -> Floats:
    """Errors of each list, (seeds, L)."""
    return np.array(
        [[own[i] for own, i in zip(errors, getattr(one, part), strict=True)] for one in chosen], dtype=np.float64
    )


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
    shown = [way for way in WAYS if all(way in ways for ways in found["rows"].values())]
    none = [""] * (len(shown) - 1)
    rows = [["first hypothesis", f"{100 * test['first']:.2f}", *none]]
    for name, ways in found["rows"].items():
        rows.append([name, *(_cell(ways[way]["test"]) for way in shown)])
    rows.append(["best hypothesis", f"{100 * test['best']:.2f}", *none])
    return markdown(["language model", *shown], rows)


def _cell(one: dict[str, Any]) -> str:
    low, high = one["interval"]
    rate = mean_and_spread([100 * rate for rate in one["rates"]], 2)
    return f"{rate} ({100 * low:.1f}–{100 * high:.1f}), {100 * one['recovered']:.0f} %"
