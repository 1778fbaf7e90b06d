"""How many branches of the mathematics the tests took, file by file; fails below what is required.

    coverage run … or pytest --cov …, then: python scripts/branches.py

Which files count stands once, in pyproject.toml ([tool.coverage.report]); tests/test_structure.py holds that every
pattern there names files. Which tests are traced stands in tests/conftest.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

LEAST = 95.0  # per cent of all branches


def main() -> int:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)
    for name, file in found["files"].items():
        summary = file["summary"]
        if summary["missing_branches"]:
            pairs = ", ".join(f"{a}→{b}" if b > 0 else f"{a}→exit" for a, b in file["missing_branches"])
            print(f"{name}: {summary['covered_branches']} of {summary['num_branches']}, missing {pairs}")  # noqa: T201
    totals = found["totals"]
    covered = 100.0 * totals["covered_branches"] / totals["num_branches"]
    counted = f"{totals['covered_branches']:,} of {totals['num_branches']:,} branches in {len(found['files'])} files"
    print(f"{covered:.1f} % ({counted}); at least {LEAST:.0f} % is required")  # noqa: T201
    return 0 if covered >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
