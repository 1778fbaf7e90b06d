"""Unseen words by their letters alone, in bits per character: python scripts/spelling_alone.py DATA [DATA ...]

DATA is a folder that `llrnn experiment open-vocabulary` has prepared. Each row is a model of spelling, estimated on the
training text, and what it gives the words of letters that the validation text alone has; the mass of words that the
training text has is taken out. The last row lists derived forms, with the share that words seen once suggest.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from llrnn.config.wordlists import derived_forms, weighted_by_spelling
from llrnn.ground.arrays import Floats
from llrnn.languages.domains.spelling import CharacterModel
from llrnn.text.corpus import Corpus

PRUNED = (0, 0, 0, 2)


def rows(data: Path) -> dict[str, float]:
    train, valid = (Corpus.from_file(data / f"{part}.conllu", lowercase=True) for part in ("train", "valid"))
    seen, counts = train.counts(), valid.counts()
    new = [word for word in counts if word not in seen and word.isalpha()]
    n = np.array([counts[word] for word in new])
    characters = sum(counts[word] * (len(word) + 1) for word in new)
    rare = [word for word, count in seen.items() if count <= 2]

    def bits(log_p: Floats) -> float:
        return round(-float((n * log_p).sum()) / math.log(2) / characters, 4)

    def left(model: CharacterModel, listed: list[str]) -> Floats:
        """log p of the new words, given that they are not listed."""
        return model.log_prob(new) - math.log1p(-float(np.exp(model.log_prob(listed)).sum()))

    models = {
        "order 6, of words seen twice at most, pruned": CharacterModel.estimated(rare, order=6, min_counts=PRUNED),
        "the same, nothing pruned": CharacterModel.estimated(rare, order=6),
        "of all words, nothing pruned": CharacterModel.estimated(list(seen), order=6),
        "the same, order 8": CharacterModel.estimated(list(seen), order=8),
    }
    found = {name: bits(left(model, list(seen))) for name, model in models.items()}
    forms = weighted_by_spelling(derived_forms(train)[0], train)
    once = [word for word, count in seen.items() if count == 1]
    share = sum(word in forms for word in once) / len(once)
    unseen = {form: f for form, f in forms.items() if form not in seen}
    total = sum(unseen.values())
    spelled = left(models["of all words, nothing pruned"], [*seen, *unseen]) + math.log1p(-share)
    listed = np.array([math.log(share * unseen[word] / total) if word in unseen else -math.inf for word in new])
    found["of all words, derived forms listed"] = bits(np.where(listed > -math.inf, listed, spelled))
    return found


def main() -> None:
    made = {Path(folder).name: rows(Path(folder)) for folder in sys.argv[1:]}
    sys.stdout.write(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
