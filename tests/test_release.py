"""What is published: what a source distribution holds, and that the workflow tries what the package says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
BESIDE = [ROOT / "src" / "llrnn_agreement", ROOT / "src" / "llrnn_morphology"]


def held(package: Path, folder: Path) -> set[str]:
    """The files of a package's source distribution, below its own folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=package, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


def test_a_source_distribution_holds_what_builds_the_wheel_and_no_runs_data_or_site(tmp_path: Path) -> None:
    files = held(ROOT, tmp_path)
    others = {name for name in files if not name.startswith(("src/llrnn/", "examples/"))}
    wanted = {
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "constraints.txt",
        "pyproject.toml",
    }
    assert others == wanted | {"PKG-INFO", ".gitignore"}
    assert {"src/llrnn/py.typed", "src/llrnn/serve/page/index.html", "src/llrnn/text/french.conllu.gz"} <= files
    assert "examples/own_language.ipynb" in files
    assert not [name for name in files if "__pycache__" in name]
    assert sum(archive.stat().st_size for archive in tmp_path.iterdir()) < 5e6


@pytest.mark.parametrize("package", BESIDE, ids=lambda path: path.name)
def test_a_package_beside_has_its_sources_and_says_what_it_is(package: Path, tmp_path: Path) -> None:
    files = held(package, tmp_path)
    modules = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    assert modules <= files
    assert {path.partition("/")[0] for path in files} >= {"PKG-INFO", "pyproject.toml", "py.typed"}
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf8"))["project"]
    assert project["readme"]["text"]


def test_the_workflow_publishes_a_tag_only_after_every_python_was_tried() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    workflow: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf8"))
    jobs = workflow["jobs"]
    assert {*jobs["publish"]["needs"]} == {*jobs} - {"publish"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert workflow["permissions"] == {"contents": "read"}
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]["classifiers"]
    pythons = [found[1] for one in classifiers if (found := re.fullmatch(r".* :: (3\.\d+)", one))]
    assert jobs["try"]["strategy"]["matrix"]["python"] == pythons
    steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    named = {name for step in steps for name in re.findall(r"scripts/[\w-]+", step)}
    assert named == {"scripts/release", "scripts/wheel-smoke"}
    assert all((ROOT / name).is_file() for name in named)
