"""What knowledge of agreement says of minimal pairs, without any network: the share of pairs that it decides.

    python scripts/agreement_coverage.py PREPARED/agreement.json.gz gender_at_a_distance.tsv.gz --half 1

At the first word that differs, Σ agrees − 2 Σ clashes of the right form against that of the wrong one. Only pairs whose
words have readings, by words between the two that agree, or by group. Rules are made with half 0 in view, the pairs
with even numbers; half 1 tells what they are worth.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import torch

from llrnn import Vocabulary
from llrnn.inference.pairs import Pair, read_pairs
from llrnn.inference.suites import BETWEEN
from llrnn.knowledge.contextual import Agreement


def _margin(agreement: Agreement, pair: Pair) -> float:
    """How much more is said for the right form than for the wrong one."""
    place = next(i for i, (good, bad) in enumerate(zip(pair.good, pair.bad, strict=True)) if good != bad)
    state, static = agreement.initial(), agreement.static
    assert static is not None
    for word in pair.good[:place]:
        state = agreement.advance(state, agreement.vocabulary.id(word))
    forms = [static(words[place]) for words in (pair.good, pair.bad)]
    good, bad = (torch.tensor([form.get(name, 0.0) for name in agreement.columns]) for form in forms)
    weight = torch.tensor([1.0 if " agrees " in name else -2.0 for name in agreement.names])
    return float(weight @ agreement.slopes([state])[0] @ (good - bad))


def _band(pair: Pair) -> str:
    if pair.suite != "gender_at_a_distance" or pair.distance is None:
        return pair.group
    return next(name for low, high, name in BETWEEN if low <= pair.distance <= high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agreement", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1), required=True)
    given = parser.parse_args()
    knowledge = Agreement.from_file(given.agreement)
    readings = knowledge._readings
    assert readings is not None
    pairs = [one for one in read_pairs(given.pairs)[given.half :: 2] if all(map(readings, {*one.good, *one.bad}))]
    words = sorted({word for pair in pairs for word in (*pair.good, *pair.bad)})
    agreement, said = knowledge.bind(Vocabulary(["</s>", *words])), Counter[tuple[str, str]]()
    for pair in pairs:
        margin = _margin(agreement, pair)
        said[_band(pair), "right" if margin > 0.5 else "wrong" if margin < -0.5 else "undecided"] += 1
    for band in sorted({band for band, _ in said}):
        counts = [said[band, what] for what in ("right", "undecided", "wrong")]
        shares = "  ".join(f"{100 * count / sum(counts):5.1f}" for count in counts)
        sys.stdout.write(f"{band:40} {sum(counts):6,} pairs   right, undecided, wrong: {shares}\n")


if __name__ == "__main__":
    main()
