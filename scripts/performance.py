"""The tables of docs/performance.md, made of the runs in docs/results: python scripts/performance.py [FOLDER]

With the folder of a run (`llrnn bench --out FOLDER`), its bench.json and pictures are taken into docs/results first.
Between `<!-- rows: FILE SUITES -->` and `<!-- end of rows -->` all is replaced; what people wrote around it stays.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from llrnn.bench.page import filled

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULTS = DOCS / "performance.md", DOCS / "results"
TAKEN = ("bench.json", "bench.png", "bench-vocabulary.png")


def main() -> None:
    for folder in sys.argv[1:2]:
        for name in TAKEN:
            shutil.copyfile(Path(folder) / name, RESULTS / name)
    text = PAGE.read_text(encoding="utf8")
    PAGE.write_text(filled(text, RESULTS), encoding="utf8")


if __name__ == "__main__":
    main()
