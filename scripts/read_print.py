"""What reading print gains by a language model: Tesseract, a learnt channel, and models behind it, in one table.

    python scripts/read_print.py pages DATA OUT tr     pages of a treebank, drawn and recognised: OUT/tr/*.json.gz
    python scripts/read_print.py channel OUT tr        the channel, of pages of training text: OUT/tr/channel.json
    python scripts/read_print.py tune OUT tr           weights of each system on validation pages: OUT/tr/tuned.json
    python scripts/read_print.py test OUT tr           the pages of the test, once: OUT/tr/tested.json
    python scripts/read_print.py table  OUT tr et fr --json docs/results/reading.json
    python scripts/read_print.py dictionary OUT tr et fr     Tesseract with our lists as its `user-words`, first seed
    python scripts/read_print.py names OUT fr --text FILE    a list of names in sentences that were not seen;
                                                       FILE: of ud_french gsd, pud, partut, alts and fqb, joined
    python scripts/read_print.py memory OUT tr               of a process that reads 10,000 lines
    python scripts/read_print.py ship OUT tr           the channel that comes with the library, of that of OUT/tr
    python scripts/read_print.py shipped OUT tr et cy --json docs/results/reading-shipped.json    what it does, unlearnt

Before `tune`, OUT/tr/run is trained, by `llrnn init` on the training part with its lists (`LISTS`) and `llrnn train`,
and OUT/tr/train.conllu is that text. DATA holds train.conllu, dev.conllu and test.conllu of each language in a folder
of its name. What a stage adds to the file of results leaves there what others wrote. Rivals, all with the same channel,
search and tuning: the channel alone; word trigrams of Kneser-Ney, interpolated with the prior of our model, which lists
the same words and spells all others; 7-grams of characters of the same running text, with the listed words or without.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, cached_property
from itertools import cycle, islice, pairwise, product
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.cli.read import with_own_words
from llrnn.inference.reading.channel import Channel, read_channel
from llrnn.inference.reading.decoding import Decoder, SearchSettings
from llrnn.inference.reading.hocr import PrintColumn, PrintedLine, read_hocr, recognise
from llrnn.inference.reading.words import NextMasses, WordModel, WordRow
from llrnn.model.checkpoint import load
from llrnn.text.readers import read_lines
from llrnn_lab.studies.channel import fit_channel, paired, score_of

LISTS = {"tr": "wordfreq:tr, tr_TR.dic", "et": "et_EE.dic", "fr": "wordfreq:fr"}
TESSERACT = {"tr": "tur", "et": "est", "fr": "fra", "cy": "cym"}
PARTS = {"train": ("train", (100,)), "valid": ("dev", (0,)), "test": ("test", (0, 1, 2))}
PAGES = {"train": 12, "valid": 3, "test": 3}  # of each level and seed: fonts take turns
LEVELS = (1, 2, 3)
SYSTEMS = ("channel", "words", "characters", "characters+list", "llrnn")
WEIGHTS, PER_CHUNK = (0.4, 0.6, 0.9), (2.0,)
NAMES, SENTENCES, LONGEST, NAME_LEVELS = 200, 400, 12, (2,)  # LONGEST: words of a sentence without a name
MOST_LINES, SHORT = 10_000, 4  # of the memory's test: lines of one word, and its columns at most
STAGES = ("pages", "channel", "tune", "test", "table", "ship", "shipped", "dictionary", "names", "memory")
LISTED = 50_000  # words of lists, the most frequent, that a model of characters reads besides
BOOTSTRAP = 2000
SHIPPED = Path("src/llrnn/inference/reading/channel.json")
SMALL, DEARER = 0.05, ("nothing of what is written", 3.0)  # weights that do not ship; what does so with less weight
Page = dict[str, Any]


# --- pages


def make_pages(data: Path, out: Path, language: str) -> None:
    """Draw and recognise the pages of all parts, and write what was seen, with what is true."""
    for part, (name, seeds) in PARTS.items():
        text = data / language / f"{name}.conllu"
        found = [
            page
            for level, seed in product(LEVELS, seeds)
            for page in drawn(text, out / language / f"{part}-{level}-{seed}", level, seed, PAGES[part])
        ]
        write_pages(out / language, part, found)


def drawn(text: Path, folder: Path, level: int, seed: int, most: int) -> Iterator[Page]:
    """Yield pages of a text, which are drawn and recognised in a folder of a folder named like their language."""
    if not (folder / "done").exists():
        options = ["--level", f"{level}", "--seed", f"{seed}", "--pages", f"{most}"]
        subprocess.run([sys.executable, "scripts/print_pages.py", text, folder, *options], check=True)
        for image in sorted(folder.glob("*.png")):
            recognise(image, TESSERACT[folder.parent.name], folder)
        (folder / "done").touch()
    for number, file in enumerate(sorted(folder.glob("*.hocr"))[:most]):
        truth = file.with_suffix(".txt").read_text(encoding="utf8").splitlines()
        lines = [[line.text, line.name, line.ends, [asdict(c) for c in line.columns]] for line in read_hocr(file)]
        yield {"level": level, "seed": seed, "page": number, "truth": truth, "lines": lines}


def write_pages(folder: Path, part: str, found: Sequence[Page]) -> None:
    with gzip.open(folder / f"{part}.json.gz", "wt", encoding="utf8") as file:
        json.dump(found, file, ensure_ascii=False)


@cache
def pages(folder: Path, part: str) -> list[Page]:
    with gzip.open(folder / f"{part}.json.gz", "rt", encoding="utf8") as file:
        return [page for page in json.load(file) if page["page"] < PAGES[part]]


def lines_of(page: Page) -> list[PrintedLine]:
    return [
        PrintedLine(
            text, tuple(PrintColumn(tuple(map(tuple, c["choices"])), c["written"]) for c in columns), tuple(ends), name
        )
        for text, name, ends, columns in page["lines"]
    ]


def make_channel(folder: Path) -> None:
    pairs = [pair for page in pages(folder, "train") for pair in paired(lines_of(page), page["truth"])]
    fit_channel(pairs).save(folder / "channel.json")


def lighter(channel: Channel) -> Channel:
    return replace(channel, weights={name: round(one, 3) for name, one in channel.weights.items() if abs(one) >= SMALL})


def ship(folder: Path) -> None:
    """Write the channel that comes with the library: deleting what was seen is dearer in it, for pages unlike these."""
    channel, (name, less) = lighter(read_channel(folder / "channel.json")), DEARER
    replace(channel, weights={**channel.weights, name: channel.weights[name] - less}).save(SHIPPED)


# --- rivals: what `Decoder` asks of a model


class NoModel:
    """No language model: the channel alone."""

    start = object()

    def open_mass(self, row: object, letters: str) -> float:
        return 0.0

    def close(self, chunks: Sequence[tuple[object, str]]) -> list[list[tuple[float, object]]]:
        return [[(0.0, row)] for row, _ in chunks]

    def prepare(self, chunks: object) -> None: ...
    def forget(self, kept: object) -> None: ...


class KneserNey:
    """Interpolated modified Kneser-Ney n-grams of anything; what follows the lowest order is the caller's."""

    def __init__(self, sequences: Iterable[Sequence[Hashable]], order: int) -> None:
        self.order, top = order, Counter[tuple[Hashable, ...]]()
        levels: list[Counter[tuple[Hashable, ...]]] = [Counter() for _ in range(order + 1)]
        for sequence in sequences:
            for i in range(len(sequence)):
                gram = tuple(sequence[max(0, i - order + 1) : i + 1])
                (top if len(gram) == order else levels[len(gram)])[gram] += 1  # at the beginning: as they are
        levels[order] = top
        for n in range(order, 1, -1):
            for gram in levels[n]:
                levels[n - 1][gram[1:]] += 1  # by how many words may stand before
        self.after: dict[tuple[Hashable, ...], dict[Hashable, int]] = defaultdict(dict)
        self.discounts: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)]
        for level in levels[1:]:
            for gram, count in level.items():
                self.after[gram[:-1]][gram[-1]] = count
            n1, n2, n3, n4 = (max(1, sum(c == k for c in level.values())) for k in (1, 2, 3, 4))
            y = n1 / (n1 + 2 * n2)
            self.discounts.append((1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3))

    def share(self, context: tuple[Hashable, ...]) -> tuple[float, dict[Hashable, float]]:
        """Return what is left for the next lower order after a context, and what its followers have besides."""
        followers = self.after.get(context)
        if not followers:
            return 1.0, {}
        total, discounts = sum(followers.values()), self.discounts[len(context) + 1]
        own = {x: (c - max(0.0, min(discounts[min(c, 3) - 1], c))) / total for x, c in followers.items()}
        return 1.0 - sum(own.values()), own

    @cache  # noqa: B019  # a model lives as long as its process
    def above(self, context: tuple[Hashable, ...]) -> tuple[float, dict[Hashable, float]]:
        """Return (weight of the lowest order, what words have besides) after a context."""
        left, found = 1.0, dict[Hashable, float]()
        for size in range(1, min(len(context), self.order - 1) + 1):
            rest, own = self.share(context[len(context) - size :])
            left *= rest
            found = {x: rest * mass for x, mass in found.items()}
            for x, mass in own.items():
                found[x] = found.get(x, 0.0) + mass
        return left, found


class WordNGrams(WordModel):
    """Word n-grams, the lowest order interpolated with the prior of a model: its lists, its spelling, its capitals."""

    def __init__(self, like: WordModel, sentences: Iterable[Sequence[str]], order: int) -> None:
        super().__init__(like.model)
        eos = self.vocabulary.eos
        texts = [[eos, *(self._locate(self.lower(word))[0] for word in words), eos] for words in sentences]
        self.ngrams = KneserNey(texts, order)
        with torch.no_grad():
            prior = torch.exp(self.model.background.base.prior([self.model.background.base.initial()]).tables[0].log_b)
        rest, own = self.ngrams.share(())
        table = rest * (prior / prior.sum()).numpy()
        for symbol, mass in own.items():
            table[symbol] += mass
        self.lowest, self._table = table, table[self._order]
        self._class_of = np.zeros(len(self._order), dtype=np.int64)
        self.contexts: dict[int, tuple[Hashable, ...]] = {}

    @cached_property
    def start(self) -> WordRow:
        made = WordRow(None, self.vocabulary.eos, True)
        made.next = self.next_of((self.vocabulary.eos,))
        return made

    def ready(self, rows: Iterable[WordRow]) -> None:
        for row in rows:
            if row.next is None:
                row.next = self.next_of((*row.before.next.state, row.symbol)[1 - self.ngrams.order :])

    def next_of(self, context: tuple[Hashable, ...]) -> NextMasses:
        left, more = self.ngrams.above(context)
        first, log_left = self.vocabulary.n_words, self.vocabulary.log_left
        exceptions = {int(self._place_of[x]): mass for x, mass in more.items() if self._place_of[x] >= 0}
        cells = left * self.lowest[first:]
        for x, mass in more.items():
            if x >= first:
                cells[x - first] += mass
        with np.errstate(divide="ignore"):
            log_cells = np.where(log_left > -np.inf, np.log(cells) - np.where(log_left > -np.inf, log_left, 0), -np.inf)
        places = np.array(sorted(exceptions), dtype=np.int64)
        sums = np.cumsum([0.0, *(exceptions[place] for place in places.tolist())])
        sizes = np.cumsum([len(domain.cells) for domain in self.vocabulary.domains])[:-1]
        bounds = [float(part.max(initial=-np.inf)) for part in np.split(log_cells, sizes)]
        eos = self.vocabulary.eos
        log_eos = math.log(left * self.lowest[eos] + more.get(eos, 0.0))
        return NextMasses(context, log_eos, np.array([left]), places, sums, None, log_cells, bounds)


class Letters:
    """n-grams of the characters of running text, blanks among them. A row is the characters before."""

    start = " "

    def __init__(self, texts: Iterable[str], order: int = 7) -> None:
        self.ngrams = KneserNey(texts, order)
        self.rest, self.own = self.ngrams.share(())
        self.rows: dict[str, str] = {}

    @cache  # noqa: B019
    def log_p(self, context: str, letter: str) -> float:
        left, more = self.ngrams.above(tuple(context))
        return math.log(left * (self.own.get(letter, 0.0) + self.rest / 200) + more.get(letter, 0.0))

    @cache  # noqa: B019
    def open_mass(self, row: str, letters: str) -> float:
        before = self.open_mass(row, letters[:-1]) if letters else 0.0
        return before + self.log_p((row + letters[:-1])[1 - self.ngrams.order :], letters[-1]) if letters else 0.0

    def close(self, chunks: Sequence[tuple[str, str]]) -> list[list[tuple[float, str]]]:
        ended = [(row, f"{letters} ") for row, letters in chunks]
        return [[(self.open_mass(row, text), self.same((row + text)[1 - self.ngrams.order :]))] for row, text in ended]

    def same(self, row: str) -> str:
        return self.rows.setdefault(row, row)  # rows are told apart as objects

    def prepare(self, chunks: object) -> None: ...

    def forget(self, kept: Sequence[str]) -> None:
        self.rows = {row: row for row in kept}


def training_text(folder: Path) -> tuple[list[str], list[Sequence[str]]]:
    """Return the running text of the sentences of the training part, and their words as they are written."""
    from llrnn.text.corpus import Corpus

    corpus = Corpus.from_file(folder / "train.conllu", surface=True)
    return [sentence.text or " ".join(sentence.words) for sentence in corpus], [s.words for s in corpus]


def system(folder: Path, name: str) -> Any:
    if name == "channel":
        return NoModel()
    if name.startswith("characters"):
        texts = [" " + " ".join(training_text(folder)[0]) + " "]
        if name.endswith("list"):
            model = load(folder / "run")
            counts = np.array(model.background.base.prior([model.background.base.initial()]).tables[0].log_b)
            words = WordModel(model)
            best = np.argsort(-counts[words._order])[:LISTED]
            texts += [f" {words._words[i]} " for i in best.tolist()]
        return Letters(texts)
    words = WordModel(load(folder / "run").eval())
    return words if name == "llrnn" else WordNGrams(words, training_text(folder)[1], 3)


def tell(*parts: object) -> None:
    sys.stdout.write(f"{' '.join(map(str, parts))}\n")
    sys.stdout.flush()


# --- errors


def distances(truth: Sequence[Hashable], read: Sequence[Hashable]) -> int:
    """Return the least number of insertions, deletions and substitutions."""
    number = {x: i for i, x in enumerate(dict.fromkeys((*truth, *read)))}
    own, places = np.array([number[x] for x in read]), np.arange(len(read) + 1)
    row = places.copy()
    for x in truth:
        best = np.minimum(row[1:] + 1, row[:-1] + (own != number[x]))
        row = np.minimum.accumulate(np.concatenate([[row[0] + 1], best]) - places) + places
    return int(row[-1])


def wrong_words(truth: Sequence[str], read: Sequence[str]) -> list[bool]:
    """Return for each true word whether it was not read, by a best alignment."""
    cost = np.zeros((len(truth) + 1, len(read) + 1), dtype=int)
    cost[:, 0], cost[0] = np.arange(len(truth) + 1), np.arange(len(read) + 1)
    places = np.arange(len(read) + 1)
    for i, x in enumerate(truth, 1):
        best = np.minimum(cost[i - 1, 1:] + 1, cost[i - 1, :-1] + np.array([x != y for y in read], dtype=int))
        cost[i] = np.minimum.accumulate(np.concatenate([[i], best]) - places) + places
    wrong, i, j = [True] * len(truth), len(truth), len(read)
    while i and j:
        if cost[i, j] == cost[i - 1, j - 1] + (truth[i - 1] != read[j - 1]):
            wrong[i - 1], i, j = truth[i - 1] != read[j - 1], i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return wrong


def counted(page: Page, texts: Sequence[str], seen: frozenset[str]) -> dict[str, Any]:
    truth, read = " ".join(page["truth"]).split(), " ".join(texts).split()
    wrong = wrong_words(truth, read)
    new = [i for i, word in enumerate(truth) if bare(word) and bare(word) not in seen]
    characters = len(" ".join(truth)), distances(" ".join(truth), " ".join(read))
    return {
        "words": len(truth), "word errors": distances(truth, read), "characters": characters[0],
        "character errors": characters[1], "new": len(new), "new wrong": sum(wrong[i] for i in new),
    }  # fmt: skip


def seen_in(folder: Path) -> frozenset[str]:
    return frozenset(map(bare, " ".join(training_text(folder)[0]).split()))


def bare(word: str) -> str:
    return word.strip(".,;:!?…\"'“”‘’()[]«»-").casefold()


# --- runs

_made: dict[str, Any] = {}


def _begin(folder: Path, name: str) -> None:
    torch.set_num_threads(1)
    _made.update(model=system(folder, name), name=name, channel=read_channel(folder / "channel.json"), folder=folder)
    _made["seen"] = seen_in(folder)


def _read(task: tuple[str, int, float, float, bool]) -> dict[str, Any]:
    """Read a page; with `whole`, of our first pages each line by itself too: did the search miss the true text?"""
    part, number, weight, per_chunk, whole = task
    page = pages(_made["folder"], part)[number]
    lines, begun = lines_of(page), time.process_time()
    decoder = Decoder(_made["model"], _made["channel"], SearchSettings(weight=weight, words=per_chunk))
    texts = [line.text for line in decoder.read(lines)]
    found = {"seconds": time.process_time() - begun, **counted(page, texts, _made["seen"])}
    found |= {key: page[key] for key in ("level", "seed", "page")} | {"weights": (weight, per_chunk)}
    plain = counted(page, [line.text for line in lines], _made["seen"])
    found |= {f"tesseract {key}": value for key, value in plain.items()} if whole else {}
    if whole and page["page"] == 0 and _made["name"] == "llrnn":
        missed = [
            score_of(decoder, [line], [text]) > decoder.search([line])[1] + 1e-6
            for line, text in paired(lines, page["truth"])
        ]
        found |= {"lines": len(missed), "missed": sum(missed)}
    return found


def runs(folder: Path, name: str, tasks: Sequence[Any], processes: int) -> list[dict[str, Any]]:
    with Pool(processes, _begin, (folder, name)) as pool:
        return pool.map(_read, tasks, chunksize=1)


def tune(folder: Path, processes: int, names: Sequence[str], levels: Sequence[int], weights: Sequence[float]) -> None:
    """Choose the two weights of each system by the word errors of the validation pages of some levels."""
    file, many = folder / "tuned.json", [i for i, one in enumerate(pages(folder, "valid")) if one["level"] in levels]
    chosen = json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
    for name in names:
        grid = [(0.0, 0.0)] if name == "channel" else [*product(weights, PER_CHUNK)]
        found = runs(folder, name, [("valid", i, *pair, False) for pair in grid for i in many], processes)
        errors = Counter[tuple[float, float]]()
        for one in found:
            errors[one["weights"]] += one["word errors"]
        best = min(grid, key=errors.__getitem__)
        chosen[name] = {"weights": best, "tried": {f"{pair}": errors[pair] for pair in grid}}
        tell(folder.name, name, chosen[name])
        file.write_text(json.dumps(chosen, indent=1), encoding="utf8")


def test(folder: Path, processes: int, names: Sequence[str], seeds: Sequence[int]) -> None:
    chosen = json.loads((folder / "tuned.json").read_text(encoding="utf8"))
    file, many = folder / "tested.json", [i for i, one in enumerate(pages(folder, "test")) if one["seed"] in seeds]
    found = json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
    for name in names:
        tasks = [("test", i, *chosen[name]["weights"], True) for i in many]
        found[name] = sorted(
            runs(folder, name, tasks, processes), key=lambda one: (one["level"], one["seed"], one["page"])
        )
        file.write_text(json.dumps(found, ensure_ascii=False), encoding="utf8")
        for level in LEVELS:
            own = [one for one in found[name] if one["level"] == level]
            tell(folder.name, name, level, {key: f"{value:.2%}" for key, value in rates(own).items()})


def _shipped(task: tuple[Path, str, int]) -> tuple[str, int, dict[str, int]]:
    """Count the words of a page that Tesseract, the learnt channel and the one that ships read wrong."""
    torch.set_num_threads(1)
    folder, part, number = task
    page, model = pages(folder, part)[number], _loaded(folder)
    own, settings = lines_of(page), SearchSettings()
    texts = {"tesseract": [line.text for line in own]}
    for name, channel in (("learnt from Turkish", _turkish(folder)), ("ships", Channel.default())):
        texts[name] = [line.text for line in Decoder(model, channel, settings).read(own)]
    found = {name: counted(page, text, frozenset()) for name, text in texts.items()}
    errors = {name: one["word errors"] for name, one in found.items()}
    return part, page["level"], {"words": found["ships"]["words"], **errors}


@cache
def _loaded(folder: Path) -> WordModel:
    return WordModel(load(folder / "run").eval())


@cache
def _turkish(folder: Path) -> Channel:
    return lighter(read_channel(folder.parent / "tr" / "channel.json"))


def shipped(folders: Sequence[Path], file: Path, processes: int) -> None:
    """Write words wrong of every language, part and level, first seed, with the weights that `llrnn read` has."""
    result: dict[str, Any] = {}
    for folder in folders:
        parts = {
            part: [n for n, one in enumerate(pages(folder, part)) if not one["seed"]] for part in ("valid", "test")
        }
        own = result[folder.name] = {part: {str(level): Counter[str]() for level in LEVELS} for part in parts}
        with Pool(processes) as pool:
            for where, level, found in pool.map(_shipped, [(folder, part, n) for part in parts for n in parts[part]]):
                own[where][str(level)].update(found)
        tell(folder.name, own)
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")


# --- the table


def rates(own: Sequence[Mapping[str, Any]], prefix: str = "") -> dict[str, float]:
    total = {
        key: sum(one[prefix + key] for one in own)
        for key in ("words", "word errors", "characters", "character errors", "new", "new wrong")
    }
    return {
        "wer": total["word errors"] / total["words"], "cer": total["character errors"] / total["characters"],
        "new": total["new wrong"] / max(1, total["new"]),
    }  # fmt: skip


def table(folders: Sequence[Path], file: Path) -> None:
    """Write error rates of every language, level and system, and by how much ours are lower, with 95 % intervals."""
    languages = dict[str, Any](results(file).get("languages", {}))
    rng = np.random.default_rng(0)
    for folder in folders:
        found = json.loads((folder / "tested.json").read_text(encoding="utf8"))
        tuned = json.loads((folder / "tuned.json").read_text(encoding="utf8"))
        own: dict[str, Any] = {"weights": {name: one["weights"] for name, one in tuned.items()}, "levels": {}}
        for level in (*LEVELS, (1, 2), LEVELS):
            wanted = level if isinstance(level, tuple) else (level,)
            part = {name: [one for one in rows if one["level"] in wanted] for name, rows in found.items()}
            here = {
                "tesseract": rates(part["llrnn"], "tesseract "),
                **{name: rates(rows) for name, rows in part.items()},
            }
            errors = {name: np.array([one["word errors"] for one in rows]) for name, rows in part.items()}
            errors["tesseract"] = np.array([one["tesseract word errors"] for one in part["llrnn"]])
            lower = {}
            for name in sorted(errors.keys() - {"llrnn"}):  # draws are the same in every run
                draws = rng.integers(0, len(errors[name]), (BOOTSTRAP, len(errors[name])))
                drawn = 1 - errors["llrnn"][draws].sum(1) / np.maximum(1, errors[name][draws].sum(1))
                mean = 1 - errors["llrnn"].sum() / errors[name].sum()
                lower[name] = [round(float(x), 4) for x in (mean, *np.quantile(drawn, (0.025, 0.975)))]
            key = "levels " + " ".join(map(str, wanted)) if len(wanted) > 1 else f"level {level}"
            own["levels"][key] = {
                "rates": {n: {k: round(v, 5) for k, v in one.items()} for n, one in here.items()},
                "lower by": lower,
            }
        own["validation"] = {name: one["tried"] for name, one in tuned.items()}  # words wrong, by weights
        ours = found["llrnn"]
        own["words"] = sum(one["words"] for one in ours)
        own["seeds"] = sorted({one["seed"] for one in ours})
        own["words a second"] = round(own["words"] / sum(one["seconds"] for one in ours), 1)
        own["search errors"] = round(
            sum(one.get("missed", 0) for one in ours) / sum(one.get("lines", 0) for one in ours), 5
        )
        own["lines"] = sum(one.get("lines", 0) for one in ours)
        languages[folder.name] = own
    tell(json.dumps(languages, indent=1))
    add_result(file, lists=LISTS, pages=PAGES, languages=languages)


def results(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf8"))) if file.exists() else {}


def add_result(file: Path, **found: Any) -> None:
    """Write results into a file, beside the others that it has."""
    file.write_text(json.dumps({**results(file), **found}, indent=1, sort_keys=True) + "\n", encoding="utf8")


# --- Tesseract with a dictionary of ours, names of a user, memory


def dictionary(folders: Sequence[Path], file: Path) -> None:
    """Count the words that Tesseract reads wrong with the words of our lists as its `user-words`, first seed."""
    found = dict[str, Any](results(file).get("dictionary", {}))
    for folder in folders:
        words, own = folder / "user-words.txt", dict[str, Counter[str]]()
        words.write_text("".join(f"{word}\n" for word in _loaded(folder)._words), encoding="utf8")
        for page in (page for page in pages(folder, "test") if not page["seed"]):
            image = folder / f"test-{page['level']}-0" / f"{page['page']:03}.png"
            read = with_user_words(image, words)
            with_words = counted(page, read, frozenset())
            plain = counted(page, [line.text for line in lines_of(page)], frozenset())
            own.setdefault(f"{page['level']}", Counter()).update(
                {
                    "words": plain["words"], "tesseract": plain["word errors"], "user-words": with_words["word errors"],
                    "pages that changed": int(read != [line.text for line in lines_of(page)]),
                }
            )  # fmt: skip
        found[folder.name] = own
        tell(folder.name, own)
    add_result(file, dictionary=found)


def with_user_words(image: Path, words: Path) -> list[str]:
    """Return the lines that Tesseract reads of a page of a language's folder, given a list of words."""
    made = image.parent / "user-words"
    made.mkdir(exist_ok=True)
    return [line.text for line in read_hocr(recognise(image, TESSERACT[image.parents[1].name], made, words=words))]


def named_sentences(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the running text of each sentence of a CoNLL-U file with the proper names in it."""
    text, names = "", list[str]()
    for _, line in read_lines(file):
        cells = line.split("\t")
        if line.startswith("# text = "):
            text, names = line.removeprefix("# text = ").strip(), []
        elif len(cells) > 3 and cells[3] == "PROPN":
            names.append(cells[1])
        elif not line.strip():
            yield text, names


def unknown_names(folder: Path, file: Path) -> tuple[dict[str, None], dict[str, None]]:
    """Return names that neither lists nor training text have, and the shortest sentences with them, and others."""
    model, seen, given = _loaded(folder), seen_in(folder), [*named_sentences(file)]
    names, texts = dict[str, None](), dict[str, None]()
    for text, own in sorted(given, key=lambda one: len(one[0])):
        fine = [name for name in own if name.isalpha() and name.istitle() and len(name) > 3 and bare(name) not in seen]
        new = [name for name in fine if name not in names and model.lower(name) not in model.vocabulary]
        if new and len(names) < NAMES:
            names.update(dict.fromkeys(new))
            texts[text] = None
    for text, _ in given:
        if len(texts) < SENTENCES and len(text.split()) <= LONGEST:
            texts.setdefault(text)
    return names, texts


def names(folder: Path, text: Path, file: Path) -> None:
    """Read sentences with names that the model does not know, with a list of them and without."""
    torch.set_num_threads(1)
    (chosen, sentences), made = unknown_names(folder, text), folder / "names.conllu"
    made.write_text("".join(f"# text = {one}\n" for one in sentences), encoding="utf8")
    listed = folder / "names.txt"
    listed.write_text("".join(f"{name}\n" for name in chosen), encoding="utf8")
    tell(len(chosen), "names in", len(sentences), "sentences")
    channel, settings = Channel.default(), SearchSettings()
    ours = _loaded(folder)
    readers = {"without": ours, "with": WordModel(*with_own_words(ours.model, listed))}
    found: dict[str, Any] = {"names": len(chosen), "sentences": len(sentences), "text": text.name}
    for level in NAME_LEVELS:
        own = found[f"level {level}"] = Counter[str]()
        for page in drawn(made, folder / f"names-{level}", level, 0, 1000):
            lines = lines_of(page)
            read = {
                way: [line.text for line in Decoder(one, channel, settings).read(lines)] for way, one in readers.items()
            }
            read["tesseract"] = [line.text for line in lines]
            read["user-words"] = with_user_words(folder / f"names-{level}" / f"{page['page']:03}.png", listed)
            truth = " ".join(page["truth"]).split()
            is_name = [bool(chosen.keys() & set(re.findall(r"\w+", word))) for word in truth]
            own.update({"names": sum(is_name), "others": len(truth) - sum(is_name)})
            for way, texts in read.items():
                wrong = wrong_words(truth, " ".join(texts).split())
                own[f"names wrong, {way}"] += sum(w and n for w, n in zip(wrong, is_name, strict=True))
                own[f"others wrong, {way}"] += sum(w and not n for w, n in zip(wrong, is_name, strict=True))
            own["pages"] += 1
            tell(level, dict(own))
            add_result(file, **{"own names": found})


def memory(folder: Path, file: Path) -> None:
    """Read lines of one short word, all such words of all pages again and again, and tell how much memory is held."""
    torch.set_num_threads(1)
    ours, channel = _loaded(folder), Channel.default()
    every = [line for part in PARTS for page in pages(folder, part) for line in lines_of(page)]
    words = cycle([word_of(line, number) for line in every for number in short_words(line)])
    resident, begun = dict[str, float](), time.process_time()
    for done in range(0, MOST_LINES + 1, 500):
        if done:
            for _ in range(10):
                Decoder(ours, channel).read([*islice(words, 50)])
            gc.collect()
        resident[f"{done}"] = round(resident_bytes() / 2**20, 1)
        tell(done, "lines:", resident[f"{done}"], "MiB,", round(time.process_time() - begun), "s")
        add_result(file, memory=resident)


def short_words(line: PrintedLine) -> Iterator[int]:
    """Yield the numbers of the words of a line that have at most `SHORT` columns."""
    for number, (before, end) in enumerate(pairwise((-1, *line.ends))):
        if 0 < end - before - 1 <= SHORT:
            yield number


def word_of(line: PrintedLine, number: int) -> PrintedLine:
    """Return a line of one of its words, without the blank before it."""
    first, last = (-1, *line.ends)[number] + 1, line.ends[number]
    return PrintedLine("", line.columns[first:last], (last - first,), line.name)


def resident_bytes() -> int:
    """Return what of this process is in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("places", nargs="+", help="folders, then languages")
    parser.add_argument("--json", type=Path, default=Path("docs/results/reading.json"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--levels", nargs="+", type=int, default=LEVELS, help="of the pages for tuning")
    parser.add_argument("--seeds", nargs="+", type=int, default=PARTS["test"][1], help="of the pages of the test")
    parser.add_argument("--weights", nargs="+", type=float, default=WEIGHTS, help="of the model, to choose from")
    parser.add_argument("--text", type=Path, help="a treebank with names that was not trained on")
    given = parser.parse_args()
    if given.stage == "pages":
        make_pages(Path(given.places[0]), Path(given.places[1]), given.places[2])
        return
    folders = [Path(given.places[0]) / language for language in given.places[1:]]
    if given.stage == "table":
        table(folders, given.json)
        return
    if given.stage == "shipped":
        shipped(folders, given.json, given.processes)
        return
    if given.stage == "dictionary":
        dictionary(folders, given.json)
        return
    for folder in folders:
        if given.stage == "channel":
            make_channel(folder)
        elif given.stage == "ship":
            ship(folder)
        elif given.stage == "names":
            names(folder, given.text, given.json)
        elif given.stage == "memory":
            memory(folder, given.json)
        elif given.stage == "tune":
            tune(folder, given.processes, given.systems, given.levels, given.weights)
        else:
            test(folder, given.processes, given.systems, given.seeds)


if __name__ == "__main__":
    main()
