"""What the text before tells of the next word, without a network: python scripts/recent_alone.py DATA [DATA ...]

DATA is a folder that `llrnn experiment open-vocabulary` has prepared. Each row is a mixture of a unigram of the
training text, whose new words are spelled by n-grams of characters, and what the validation text has had so far, with
the weights that fit it best (expectation maximisation); bits per character of the words. `beginnings` are strings that
begin as a rare word before does, by three letters or more, and go on as the n-grams of characters say.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.knowledge.backgrounds.primed import Inflections
from llrnn.languages.domains.spelling import CharacterModel
from llrnn.text.corpus import Corpus

WINDOW, FADING, SHARE, RARE, SHORTEST, ROUNDS = 500, 20.0, 0.4, 2, 3, 100


class Text:
    """A text, and what a training text says of its words."""

    def __init__(self, train: Corpus, words: Sequence[str]) -> None:
        self.words, self.seen = words, train.counts()
        self.spelling = CharacterModel.estimated(list(self.seen), order=6)
        kinds = sorted({*words})
        self.q = dict(zip(kinds, np.exp(self.spelling.log_prob(kinds)).tolist(), strict=True))
        self.beginning = {word: self._beginning(word) for word in kinds}
        self.characters = sum(len(word) + 1 for word in words)

    def _beginning(self, word: str) -> list[float]:
        """log probability that a string begins with the first 0, 1, … letters of a word."""
        state, logs, model = 0, [0.0], self.spelling
        for column in model.alphabet.columns(word).tolist():
            logs.append(logs[-1] + float(model.log_gain[state, column]))
            state = int(model.moves[state, column])
        return logs

    def is_rare(self, word: str) -> bool:
        return self.seen[word] <= RARE

    def unigram(self) -> Floats:
        """Words seen once say how much is new."""
        total, new = self.seen.total(), sum(n == 1 for n in self.seen.values()) / self.seen.total()
        seen, q = self.seen, self.q
        return np.array([seen[word] / total * (1 - new) if seen[word] else new * q[word] for word in self.words])

    def again(self, f: Floats, inflections: Inflections | None = None) -> Floats:
        """Words before, by what a word at each distance counts, `f[d - 1]`; other forms of rare ones, too."""
        forms = {w: inflections.forms(w) if inflections is not None and self.is_rare(w) else {} for w in self.q}
        into: dict[str, list[tuple[str, float]]] = {w: [(w, 1 - SHARE if forms[w] else 1.0)] for w in forms}
        for word, own in forms.items():
            for form, share in own.items():
                into.get(form, []).append((word, SHARE * share))
        places, found, total = defaultdict[str, list[int]](list), list[float](), f.cumsum()
        for t, word in enumerate(self.words):
            n = sum(r * f[t - 1 - np.array(places[one])].sum() for one, r in into[word] if places[one])
            found.append(n / total[t - 1] if t else 0.0)
            places[word].append(t)
        return np.array(found)

    def beginnings(self, f: Floats) -> Floats:
        """Strings that begin as rare words before, by what a word at each distance counts."""
        begun, rare, found = defaultdict[str, list[tuple[int, float]]](list), list[int](), list[float]()
        for t, word in enumerate(self.words):
            starts, log_q = range(SHORTEST, len(word) + 1), math.log(self.q[word])
            said = [
                sum(f[t - 1 - place] * share for place, share in begun[word[:k]]) * math.exp(log_q - log_u)
                for k, log_u in zip(starts, self.beginning[word][SHORTEST:], strict=True)
            ]
            found.append(sum(said) / f[t - 1 - np.array(rare)].sum() if rare and self.is_rare(word) else 0.0)
            if self.is_rare(word) and word.isalpha() and starts:
                rare.append(t)
                for k in starts:
                    begun[word[:k]].append((t, 1 / len(starts)))
        return np.array(found)

    def bits(self, *parts: Floats) -> float:
        """Bits per character of the best mixture."""
        p, weight = np.stack(parts, 1), np.full(len(parts), 1 / len(parts))
        for _ in range(ROUNDS):
            joint = p * weight
            weight = (joint / joint.sum(1, keepdims=True)).mean(0)
        return round(-float(np.log2(p @ weight).sum()) / self.characters, 4)


def rows(data: Path) -> dict[str, float]:
    train, valid = (Corpus.from_file(data / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    text = Text(train, [word for sentence in valid for word in sentence.words])
    distance = np.arange(1, len(text.words) + 1)
    fading, rules = 1 / (1 + distance / FADING), Inflections.learnt(text.seen)
    unigram, forms = text.unigram(), text.again(fading, rules)
    return {
        "no word comes again": text.bits(unigram),
        "the last 500 words, all alike": text.bits(unigram, text.again((distance <= WINDOW).astype(float))),
        "all words, fading": text.bits(unigram, text.again(fading)),
        "the same, and other forms of rare ones": text.bits(unigram, forms),
        "the same, and their beginnings": text.bits(unigram, forms, text.beginnings(fading)),
    }


def main() -> None:
    made = {Path(folder).name: rows(Path(folder)) for folder in sys.argv[1:]}
    sys.stdout.write(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
