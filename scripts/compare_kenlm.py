"""Scores of random sentences under ARPA files, ours against KenLM's (pip install kenlm): the largest difference, log10.

python scripts/compare_kenlm.py model.arpa ...
"""

from __future__ import annotations

import math
import random
import sys

import kenlm  # type: ignore[import-not-found, unused-ignore]

from llrnn.knowledge.backgrounds import NGram
from llrnn.languages.ngrams import UNKNOWN, read_arpa
from llrnn.text.vocabulary import EOS, Vocabulary

SENTENCES, LONGEST = 3000, 7


def main() -> None:
    for path in sys.argv[1:]:
        words, difference = compare(path)
        print(f"{path}: {words:,} words, largest difference {difference:.1e}")  # noqa: T201


def compare(path: str, seed: int = 0) -> tuple[int, float]:
    """How many words were scored, and the largest difference of one."""
    table = read_arpa(path)
    vocabulary = Vocabulary(table.words, unknown=UNKNOWN if UNKNOWN in table.index else None)
    ours, theirs = NGram(table).bind(vocabulary), kenlm.Model(path)
    draw, choice = random.Random(seed), [word for word in table.words if word not in (EOS, UNKNOWN)]
    differences = []
    for _ in range(SENTENCES):
        sentence = [draw.choice(choice) for _ in range(draw.randint(0, LONGEST))]
        log_prob, _ = ours.score([vocabulary.eos, *vocabulary.ids(sentence), vocabulary.eos])
        scored = theirs.full_scores(" ".join(sentence), bos=True, eos=True)
        differences += [
            abs(own / math.log(10) - other[0]) for own, other in zip(log_prob.tolist(), scored, strict=True)
        ]
    return len(differences), max(differences)


if __name__ == "__main__":
    main()
