"""`python -m campaign`: runs parts, prints the table, writes the JSON; exit code 1 where anything was found."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import torch

from campaign.flips import flips
from campaign.kills import kills
from campaign.load import overload, soak
from campaign.malformed import malformed
from campaign.numbers import numbers
from campaign.requests import requests
from campaign.results import Part, Setting, Tally, table, tallied
from campaign.workers import Here, Pool, Workers

PARTS: dict[str, Part] = {
    "flips": flips,
    "kills": kills,
    "malformed": malformed,
    "requests": requests,
    "soak": soak,
    "overload": overload,
    "numbers": numbers,
}


def run(names: list[str], setting: Setting) -> dict[str, Any]:
    """The result of these parts; it is written after every one of them, and parts of an earlier run stay in it."""
    file = setting.out / "campaign.json"
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf8"))["parts"] if file.exists() else {}
    for name in names:
        found[name] = {"scale": setting.scale, "commit": _commit(), **_tallied(name, setting).as_json()}
        _say(f"{name}: {found[name]['cases']:,} cases, {found[name]['findings']:,} findings")
        machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        parts = {part: found[part] for part in PARTS if part in found}
        result = {"seed": setting.seed, "machine": machine, "parts": parts}
        file.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf8")
    return {name: found[name] for name in names}


def _tallied(name: str, setting: Setting) -> Tally:
    """A part whose own code fails ends the campaign: it is never taken for one without findings."""
    began = time.monotonic()
    tally = tallied(PARTS[name](setting))
    tally.seconds = time.monotonic() - began
    return tally


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    return done.stdout.strip() or "unknown"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m campaign", description="The fault campaign; see docs/stability.md#reliability."
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full campaign: 0.01 takes seconds")
    parser.add_argument("--out", type=Path, default=Path("runs/campaign"), help="for samples, findings, campaign.json")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--case", help="only this case, in this process, as a finding names it")
    asked = parser.parse_args(arguments)
    for name in asked.parts:
        if name not in PARTS:
            parser.error(f"a part is one of {', '.join(PARTS)}, found {name!r}")
    return asked


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    asked = _asked(arguments)
    torch.set_num_threads(1)
    out = asked.out.resolve()
    pool: Pool = Here(out / "here") if asked.case else Workers(out, asked.workers)
    setting = Setting(asked.seed, asked.scale, out, pool, asked.case)
    out.mkdir(parents=True, exist_ok=True)
    found = run(asked.parts or list(PARTS), setting)
    sys.stdout.write(table(found) + "\n")
    return 1 if any(part["findings"] for part in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
