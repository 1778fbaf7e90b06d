"""What a sum over pairs of factors would cost: features in two groups, each word a pair of a row of either.

    a·φ(x) = u[s(x)] + v[e(x)]                 s(x), e(x): the rows of x in the one group of features and in the other
    Z = Σ_x b(x) exp(a·φ(x)) = Σ_(s,e) B[s, e] exp(u_s) exp(v_e)         B[s, e] = Σ b over the words of the pair

It is exact for every background: B need not be a product, it is a sparse matrix with an entry for each class. S rows of
the one group and E of the other cost (S + E)·H multiplications and one for each of G classes, where classes cost G·H.
The layer has the finest of such ways already, `direct` (`llrnn.layer.ways`): every one of m features is a factor of its
own, m·H multiplications and an addition for each entry of Φ, which this prints, too.

    python scripts/factored_sums.py --data runs/table4/prepared configs/table4/best.toml configs/table4/llrnn.toml

prints, for each configuration, the classes, and the two groups with the fewest rows together, of all ways to split the
kinds of features into two.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from typing import Any

import numpy as np

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.arrays import Ints
from llrnn.layer.matrix import FeatureMatrix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--data", required=True)
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for name in given.configs:
        path, _, changes = name.partition("@")
        config = read_config(path, changes.split("~") if changes else [], data=given.data)
        features = Project.from_config(config).model().output_features
        found[name] = {"V": features.n_symbols, "H": config.controller.hidden, **best_split(features)}
        H, G, m = config.controller.hidden, features.n_classes, features.n_features
        two, direct = sum(found[name]["rows"]) * H + G, m * H + len(features.values)
        found[name] |= {"features": m, "entries": len(features.values)}
        found[name] |= {"fewer, two groups": G * H / two, "fewer, direct": G * H / direct}
    print(json.dumps(found, indent=1, ensure_ascii=False))  # noqa: T201


def best_split(features: FeatureMatrix) -> dict[str, Any]:
    """The classes; and the two groups whose distinct rows are fewest together, with these numbers."""
    kinds = sorted({*features.groups})
    rows = {kind: _rows(features, kind) for kind in kinds}
    splits = [
        (part, tuple(kind for kind in kinds if kind not in part))
        for size in range(1, len(kinds) // 2 + 1)
        for part in combinations(kinds, size)
    ]
    count = {part: _distinct([rows[kind] for kind in part]) for split in splits for part in split if part}
    best = min((split for split in splits if all(split)), key=lambda split: count[split[0]] + count[split[1]])
    return {"classes": features.n_classes, "groups": best, "rows": [count[part] for part in best]}


def _rows(features: FeatureMatrix, kind: str) -> Ints:
    """For each class the number of its row among the features of one kind, (G,)."""
    own = np.array([group == kind for group in features.groups])[features.columns]
    seen: dict[bytes, int] = {}
    found = np.zeros(features.n_classes, dtype=np.int64)
    for s in range(features.n_classes):
        here = slice(features.offsets[s], features.offsets[s + 1])
        key = features.columns[here][own[here]].tobytes() + features.values[here][own[here]].tobytes()
        found[s] = seen.setdefault(key, len(seen))
    return found


def _distinct(rows: list[Ints]) -> int:
    """How many combinations of rows there are."""
    together = np.zeros(len(rows[0]), dtype=np.int64)
    for row in rows:
        together = np.unique(together * (int(row.max()) + 1) + row, return_inverse=True)[1]
    return int(together.max()) + 1


if __name__ == "__main__":
    main()
