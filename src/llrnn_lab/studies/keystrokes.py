"""Keystrokes that completion saves, word after word of a test text, against n-grams over a word list and characters.

    saved = 1 − Σ keys used / Σ (letters of the word + 1)          one key for each letter, and one for the space

Before every key three words are shown. Where the word is among them, one key accepts it with its space; else the next
letter is typed, and in the end the space. Words are the tokens of the treebank, lowercased; what came before is the
true text. Top 3 after n letters: how often the word is shown when n letters are typed, of words that are longer. A word
that was shown and not accepted is not wanted: *passed over*, it is left out from then on, and others are shown.

    list + trigram      Kneser-Ney over all listed words, those of the lists too: unseen ones share what is left alike
    list + 5-gram       the same with five words
    frequencies         the 5-gram mixed with the LL-RNN's own background, the frequencies of the lists in it; the share
                        that gives the validation text most is taken
    characters          an LSTM that spells, by beam search
    llrnn               the model; without the strings of its domains; and the file of `llrnn export keyboard`
    …, words come again the same, with the words that were typed before (`Remembering`); the share with which most keys
                        are saved on the validation text is taken
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import ConfigError
from llrnn.inference.keyboard import Keyboard, export_keyboard
from llrnn.languages.ngrams.kneser_ney import estimate
from llrnn.languages.ngrams.table import EMPTY
from llrnn.languages.ngrams.trie import Trie
from llrnn.model.checkpoint import load
from llrnn.model.completion import Completer, NextWords
from llrnn.model.network import LLRNN
from llrnn.text import units
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.units import END, Units
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.studies import open_data
from llrnn_lab.studies.jobs import Job, trained
from llrnn_lab.studies.tables import markdown, write_results

SHOWN = 3
LETTERS = (0, 1, 2, 3)
LITTLE = 20_000  # words of training text
LANGUAGES = ("tr", "et", "tr-20k")
LISTED = "llrnn, listed words only"
AGAIN = ", words come again"
CACHED = ("list + trigram", "frequencies + 5-gram", "llrnn")  # the systems that are given what was typed before, too
SYSTEMS = (
    *("list + trigram", "list + 5-gram", "frequencies + 5-gram", "characters", "llrnn", LISTED, "exported"),
    *(name + AGAIN for name in CACHED),
)
_AGAIN = (0.05, 0.1, 0.2, 0.3)  # shares of words that come again
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_BEAM = 8
_LONGEST = 24  # letters that a beam adds


class Typist(Protocol):
    """Proposes words: what each system is."""

    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        """The k best words, best first."""


@runtime_checkable
class Reader(Protocol):
    """A typist that remembers what was typed."""

    def read(self, sentence: Sequence[str]) -> None:
        """A sentence that is finished."""


class FromModel:
    """The library's own completion."""

    def __init__(self, model: LLRNN) -> None:
        self._keyboard, self.vocabulary = Completer(model), model.vocabulary

    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        found = self._keyboard.complete(prefix, letters, k=k)
        return [*self._keyboard.model.read([one.word for one in found])]  # as the text has them, without capitals

    @torch.no_grad()
    def after(self, prefix: Sequence[str]) -> NextWords:
        return self._keyboard.after(tuple(prefix))


class Listed(FromModel):
    """The same without the strings of domains: what these are worth."""

    @torch.no_grad()
    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        found = self._keyboard.after(tuple(prefix)).best_listed(letters, k)
        return [word for _, word in sorted(found, key=lambda one: (-one[0], one[1]))[:k]]


class FromFile:
    """An exported keyboard."""

    def __init__(self, keyboard: Keyboard) -> None:
        self._keyboard = keyboard

    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        return [word for word, _ in self._keyboard.complete(prefix, letters, k)]


class NGrams:
    """Kneser-Ney over a word list; with `log_b` (V,) mixed with it, `share` of it."""

    def __init__(self, trie: Trie, vocabulary: Vocabulary, log_b: Floats | None = None, share: float = 0.0) -> None:
        self._trie, self.vocabulary, self._log_b, self._share = trie, vocabulary, log_b, share
        self._words: tuple[str, ...] = ()
        self._row: NextWords | None = None  # after these words

    def log_p(self, prefix: Sequence[str]) -> Floats:
        """log p of every listed word, (n,); a word that is not listed hides what came before it."""
        node = self._trie.advance(EMPTY, self.vocabulary.eos)
        for word in prefix:
            number = self.vocabulary.id(word) if word in self.vocabulary else None
            node = EMPTY if number is None else self._trie.advance(node, number)
        found = self._trie.dense(torch.tensor([node]))[0].numpy()
        if self._log_b is None:
            return np.asarray(found)
        return np.logaddexp(math.log(1 - self._share) + found, math.log(self._share) + self._log_b)

    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        return _words(self.after(prefix).best_listed(letters, k), k)

    def after(self, prefix: Sequence[str]) -> NextWords:
        if self._row is None or self._words != tuple(prefix):
            self._words, self._row = tuple(prefix), NextListed(self.vocabulary, self.log_p(prefix))
        return self._row


class NextListed(NextWords):
    """What may come next, from log p of every listed word."""

    def __init__(self, vocabulary: Vocabulary, log_p: Floats) -> None:
        self.vocabulary, self.case, self._listed = vocabulary, None, log_p

    def log_p(self, symbols: Ints) -> Floats:
        n = len(self._listed)
        return np.where(symbols < n, self._listed[np.minimum(symbols, n - 1)], -np.inf)

    def best_listed(self, letters: str, k: int) -> list[tuple[float, str]]:
        symbols = self.vocabulary.beginning_with(letters)
        log_p = self._listed[symbols]
        best = np.argpartition(-log_p, k)[:k] if len(log_p) > k else np.arange(len(log_p))
        return [(float(log_p[i]), self.vocabulary.symbol(int(symbols[i]))) for i in best.tolist()]


class Remembering:
    """The same, where words come again: (1 − λ) p(x) + λ n(x) / N, n(x) = Σ 1 / (1 + d / 20) over its places."""

    def __init__(self, typist: NGrams | FromModel, share: float) -> None:
        self._typist, self._share, self._text = typist, share, list[str]()

    def read(self, sentence: Sequence[str]) -> None:
        self._text += sentence

    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        text, n, total = [*self._text, *prefix], dict[str, float](), 0.0
        for d, word in enumerate(reversed(text), 1):
            total += (f := 1 / (1 + d / 20))
            if word.startswith(letters):
                n[word] = n.get(word, 0.0) + f
        after, kept = self._typist.after(prefix), math.log1p(-self._share)
        symbols, inside = self._typist.vocabulary.find([*n])
        log_p = np.where(symbols >= 0, after.log_p(np.maximum(symbols, 0)) + inside, -np.inf) if n else np.zeros(0)
        again = np.logaddexp(kept + log_p, np.log(np.array([*n.values()]) * self._share / max(total, 1e-9)))
        listed = after.best_listed(letters, k)
        others = [*listed, *after.best_strings(letters, k, (log for log, _ in listed), n)]
        found = [(kept + log, word) for log, word in others if word not in n]
        return _words([*found, *zip(again.tolist(), n, strict=True)], k)


def _words(found: Iterable[tuple[float, str]], k: int) -> list[str]:
    return [word for _, word in sorted(found, key=lambda one: -one[0])[:k]]


class Spelt:
    """A model of characters: beam search for whole words that begin with the letters."""

    def __init__(self, model: LLRNN, cut: Units) -> None:
        self._model, self._cut = model, cut
        self._end = model.vocabulary.id(END)
        self._read: list[tuple[int, Any, Any]] = []  # unit, log p of the next, state

    @torch.no_grad()
    def propose(self, prefix: Sequence[str], letters: str, k: int = SHOWN) -> list[str]:
        ids = [unit for word in prefix for unit in self._cut.of(word)] + (self._cut.of(letters)[:-1] if letters else [])
        log_p, state = self._after([self._model.vocabulary.id(unit) for unit in ids])
        going: list[tuple[float, list[int]]] = [(0.0, [])]
        done: list[tuple[float, list[int]]] = []
        for length in range(_LONGEST):
            grown = [
                (log + gain, row, [*own, unit])
                for row, (log, own) in enumerate(going)
                for gain, unit in zip(*(part[row] for part in _best(log_p, _BEAM)), strict=True)
            ]
            grown.sort(key=lambda one: -one[0])
            done += [(log, own[:-1]) for log, _, own in grown if own[-1] == self._end and (length or letters)]
            kept = [one for one in grown if one[2][-1] not in (self._end, self._model.vocabulary.eos)][:_BEAM]
            done = sorted(done, key=lambda one: -one[0])[:k]
            if not kept or (len(done) == k and done[-1][0] >= kept[0][0]):
                break
            going = [(log, own) for log, _, own in kept]
            p, state = self._model.step(state.select([row for _, row, _ in kept]), [own[-1] for _, _, own in kept])
            log_p = p.log_probs()
        symbol = self._model.vocabulary.symbol
        return [letters + "".join(units.decode([*(symbol(one) for one in own), END])) for _, own in done]

    def _after(self, ids: Sequence[int]) -> tuple[Any, Any]:
        known = self._read
        if not known:
            p, state = self._model.step(self._model.start(), [self._model.vocabulary.eos])
            known.append((-1, p.log_probs(), state))
        same = 0
        while same < min(len(ids), len(known) - 1) and known[same + 1][0] == ids[same]:
            same += 1
        del known[same + 1 :]
        for one in ids[same:]:
            p, state = self._model.step(known[-1][2], [one])
            known.append((one, p.log_probs(), state))
        return known[-1][1:]


def _best(log_p: torch.Tensor, k: int) -> tuple[list[list[float]], list[list[int]]]:
    values, places = log_p.topk(min(k, log_p.shape[1]), -1)
    return values.tolist(), places.tolist()


def typed(typist: Typist, text: Iterable[Sequence[str]]) -> dict[str, Any]:
    """What a typist saves on a text, how often it is right after some letters, and how long a key takes."""
    used = without = plain = 0
    right: dict[int, list[bool]] = {n: [] for n in LETTERS}
    seconds = list[float]()
    for sentence in text:
        for place, word in enumerate(sentence):
            accepted = taken = False  # of all words, of those that were not passed over
            passed: set[str] = set()
            for n in range(len(word)):
                if accepted and taken and n > max(LETTERS):
                    break
                began = time.process_time()
                found = typist.propose(sentence[:place], word[:n], SHOWN + len(passed))
                took = time.process_time() - began
                if n in right:
                    right[n].append(word in found[:SHOWN])
                if not (accepted and taken):
                    seconds.append(took)
                if not accepted:
                    used += 1
                    accepted = word in found[:SHOWN]
                if not taken:
                    without += 1
                    shown = [one for one in found if one not in passed][:SHOWN]
                    taken = word in shown
                    passed |= set() if taken else {*shown}
            used += not accepted  # the space
            without += not taken
            plain += len(word) + 1
        if isinstance(typist, Reader):
            typist.read(sentence)
    return {
        "saved": 1 - used / plain,
        "passed over": 1 - without / plain,
        "keys": used,
        "characters": plain,
        "top3": {str(n): statistics.fmean(found) if found else None for n, found in right.items()},
        "milliseconds": {
            "median": 1000 * statistics.median(seconds),
            "p95": 1000 * float(np.percentile(seconds, 95)),
        },
    }


def n_grams(train: Corpus, vocabulary: Vocabulary, order: int) -> Trie:
    """Of the training text, over all listed words."""
    text = EncodedText.encode(train, vocabulary)
    stream = np.concatenate([[vocabulary.eos], *([*one, vocabulary.eos] for one in text.sentences)])
    return Trie.from_table(estimate(stream, vocabulary.words, order=order))


def with_frequencies(trie: Trie, model: LLRNN, valid: Corpus) -> NGrams:
    """Mixed with the model's own background, as the validation text likes best."""
    prior = model.background.prior([model.background.initial(None)]).dense(1).log_b[0].double().numpy()
    log_b = prior[: model.vocabulary.n_words]
    log_b = log_b - np.logaddexp.reduce(log_b)
    own, rows = NGrams(trie, model.vocabulary), list[tuple[float, float]]()
    for sentence in valid[:60]:
        for place, word in enumerate(sentence.words):
            if word in model.vocabulary:
                number = model.vocabulary.id(word)
                rows.append((float(own.log_p(sentence.words[:place])[number]), float(log_b[number])))
    likes = {s: sum(np.logaddexp(math.log(1 - s) + a, math.log(s) + b) for a, b in rows) for s in _SHARES}
    return NGrams(trie, model.vocabulary, log_b, max(likes, key=likes.__getitem__))


def remembering(make: Callable[[float], Typist], valid: Corpus) -> tuple[Typist, float]:
    """A typist with the words that were typed before, and their share: that which saves most on the validation text."""
    text = [sentence.words for sentence in valid[:60]]
    share = max(_AGAIN, key=lambda one: float(typed(make(one), text)["saved"]))
    return make(share), share


def prepared(data: Path, out: Path, language: str, tell: Callable[[str], None]) -> Path:
    """The texts and lists of a language, or of its first `LITTLE` words of training text."""
    name, _, little = language.partition("-")
    whole, folder = out / name, out / language
    open_data.prepare(data, whole, name, tell=tell)
    if little:
        train = open_data.first_words(Corpus.from_file(whole / "train.conllu", lowercase=True), LITTLE)
        open_data.prepare(data, folder, name, tell=tell, sentences=len(train))
    return folder


def _model(name: str, configs: Path, folder: Path, tell: Callable[[str], None]) -> LLRNN:
    """Trained, where it is not there yet."""
    job, out = Job(name, configs / f"{name}.toml", study="typing"), folder / "models"
    if not has_bundle(job.folder(out), "model"):
        tell(f"training {job.folder(out)}")
        return trained(job, data=folder, out=out, device=torch.device("cpu")).model.eval()
    return load(job.folder(out))


def run(
    data: Path,
    out: Path,
    languages: Sequence[str] = LANGUAGES,
    configs: Path = Path("configs/typing"),
    *,
    words: int = 2000,
    systems: Sequence[str] = SYSTEMS,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Prepare, train what is missing, export, and type the first `words` words of each test text, on one core."""
    strange = [one for one in languages if one not in LANGUAGES]
    if strange:
        raise ConfigError(
            f"the language must be one of {', '.join(LANGUAGES)}, found {strange[0]!r}; choose one of them"
        )
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for language in languages:
        folder = prepared(data, out, language, tell)
        results[language] = _measured(data, folder, language, configs, words, systems, tell)
        write_results(out, "typing", results, table(results))
    return results


def _measured(
    data: Path,
    folder: Path,
    language: str,
    configs: Path,
    words: int,
    systems: Sequence[str],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    train, valid = (Corpus.from_file(folder / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    text, count = list[Sequence[str]](), 0
    for sentence in open_data.test_corpora(data, language.partition("-")[0])["test1"]:
        if count < words:
            text.append(sentence.words)
            count += len(sentence.words)
    model = _model("llrnn", configs, folder, tell)
    size = export_keyboard(model, folder / "keyboard.kb")
    trigram = cache(lambda: NGrams(n_grams(train, model.vocabulary, 3), model.vocabulary))
    frequencies = cache(lambda: with_frequencies(n_grams(train, model.vocabulary, 5), model, valid))
    makers: dict[str, Callable[[], Typist]] = {
        "list + trigram": trigram,
        "list + 5-gram": lambda: NGrams(n_grams(train, model.vocabulary, 5), model.vocabulary),
        "frequencies + 5-gram": frequencies,
        "characters": lambda: Spelt(
            _model("characters", configs, folder, tell), units.load(folder / "characters" / "units.json")
        ),
        "llrnn": lambda: FromModel(model),
        LISTED: lambda: Listed(model),
        "exported": lambda: FromFile(Keyboard.read(folder / "keyboard.kb")),
    }
    remembers: dict[str, Callable[[float], Typist]] = {
        "list + trigram": lambda share: Remembering(trigram(), share),
        "frequencies + 5-gram": lambda share: Remembering(frequencies(), share),
        "llrnn": lambda share: Remembering(FromModel(model), share),
    }
    found: dict[str, Any] = {}
    for name in systems:
        tell(f"{language}: typing {count:,} words with {name}")
        if name.endswith(AGAIN):
            typist, share = remembering(remembers[name.removesuffix(AGAIN)], valid)
            found[name] = typed(typist, text) | {"share": share}
        else:
            found[name] = typed(makers[name](), text)
    listed = sum(word in model.vocabulary for sentence in text for word in sentence)
    return {
        "words": count,
        "training words": train.tokens,
        "listed": model.vocabulary.n_words,
        "test words listed": listed / count,
        "keyboard bytes": size,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "systems": found,
    }


def table(results: dict[str, Any]) -> str:
    """A row for each language and system."""
    tops = [f"top 3 after {n}" for n in LETTERS]
    header = ["language", "system", "keys saved", "without those passed over", *tops, "ms a key, median", "p95"]
    rows = []
    for language, result in results.items():
        for name, one in result["systems"].items():
            right = [f"{one['top3'][str(n)]:.1%}" for n in LETTERS]
            times = [f"{one['milliseconds'][which]:.2f}" for which in ("median", "p95")]
            without = f"{one['passed over']:.1%}" if "passed over" in one else "–"  # measured since 17 November 2026
            rows.append([language, name, f"{one['saved']:.1%}", without, *right, *times])
    return markdown(header, rows)
