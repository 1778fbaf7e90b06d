"""What knowledge of agreement says of minimal pairs, without any network: the share of pairs that it decides.

    python scripts/agreement_coverage.py PREPARED/agreement.json.gz gender_at_a_distance.tsv.gz --half 1
    python scripts/agreement_coverage.py PREPARED/agreement.json.gz templates-9000.jsonl

At the first word that differs, Σ agrees − 2 Σ clashes of the right form against that of the wrong one. Only pairs whose
words have readings, by words between the two that agree, or by group, with the mean of that difference. Rules are made
with half 0 in view, the pairs with even numbers; half 1 tells what they are worth. Without --half: all pairs.
"""

from __future__ import annotations

import argparse
import sys
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
    parser.add_argument("--half", type=int, choices=(0, 1))
    given = parser.parse_args()
    knowledge = Agreement.from_file(given.agreement)
    readings = knowledge._readings
    assert readings is not None
    some = slice(None) if given.half is None else slice(given.half, None, 2)
    pairs = [one for one in read_pairs(given.pairs)[some] if all(map(readings, {*one.good, *one.bad}))]
    words = sorted({word for pair in pairs for word in (*pair.good, *pair.bad)})
    agreement, margins = knowledge.bind(Vocabulary(["</s>", *words])), dict[str, list[float]]()
    for pair in pairs:
        margins.setdefault(_band(pair), []).append(_margin(agreement, pair))
    for band, own in sorted(margins.items()):
        counts = sum(one > 0.5 for one in own), sum(abs(one) <= 0.5 for one in own), sum(one < -0.5 for one in own)
        shares = "  ".join(f"{100 * count / len(own):5.1f}" for count in counts)
        mean = f"mean {sum(own) / len(own):5.2f}"
        sys.stdout.write(f"{band:40} {len(own):6,} pairs   right, undecided, wrong: {shares}   {mean}\n")


if __name__ == "__main__":
    main()
