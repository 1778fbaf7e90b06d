"""The Dockerfile and the compose file, as far as that goes without Docker: their own words are run, here.

What a build copies is there; its installation works in an empty environment (slow); the command that it starts serves,
is healthy by its own check, and stops when it is told to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from contextlib import AbstractContextManager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from llrnn.cli import serve
from served_models import tiny_model
from web_client import PATIENCE, Address, listening

ROOT = Path(__file__).parents[2]
PORT = str(serve.PORT)


def instructions() -> list[tuple[str, str]]:
    """(COPY, what stands behind it), one after the other."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf8").replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [
        (name, rest) for line in lines if line and not line.startswith("#") for name, _, rest in [line.partition(" ")]
    ]


def all_of(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


def listed(kind: str) -> list[str]:
    """The words of an instruction in the form of a JSON list."""
    (found,) = all_of(kind)
    words: list[str] = json.loads(found[found.index("[") :])
    return words


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf8"))
    return found


def copied(folder: Path) -> None:
    """What COPY puts into the image, of what .dockerignore leaves."""
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf8").splitlines() if line[:1] == "!"]
    for line in all_of("COPY"):
        *sources, target = line.split()
        for source in sources:
            assert any(fnmatch(source, one) for one in sent), f"{source} is kept from the build by .dockerignore"
            place = folder / (source if target == "./" else target)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, place)


def test_what_is_built_is_there_and_only_known_instructions_are_used(tmp_path: Path) -> None:
    known = {"FROM", "WORKDIR", "COPY", "ARG", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions()} == known
    copied(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "LICENSE",
        "models",
        "src",
    }
    project = (tmp_path / "pyproject.toml").read_text(encoding="utf8")
    assert (tmp_path / re.findall(r'^readme = "(.*)"$', project, re.MULTILINE)[0]).is_file()
    (least,) = re.findall(r'^requires-python = ">=(.*)"$', project, re.MULTILINE)
    base = f"python:{least}-slim"
    assert (all_of("FROM"), all_of("ARG")[0]) == (["${BASE}"], f"BASE={base}")
    (service,) = compose()["services"].values()
    assert service["build"]["args"]["BASE"] == f"${{BASE:-{base}}}"
    assert {line.partition("=")[0] for line in all_of("ARG")} >= {*service["build"]["args"]}


def test_nobody_is_root_and_the_files_agree_with_one_another() -> None:
    names = [name for name, _ in instructions()]
    (user,) = all_of("USER")
    assert user == "llrnn"
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert any(f"useradd --create-home {user}" in line for line in all_of("RUN"))
    (service,) = compose()["services"].values()
    assert all_of("EXPOSE") == [PORT]
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f":{PORT}/healthz" in listed("HEALTHCHECK")[-1]
    assert service["environment"] == [serve.TOKEN]
    (volume,) = service["volumes"]
    name, _, place = volume.partition(":")
    assert name in compose()["volumes"]
    assert Path(place) in Path(listed("CMD")[-1]).parents
    assert any(place in line and f"--owner {user}" in line for line in all_of("RUN"))  # to train in


def test_the_service_may_write_to_its_models_and_to_memory_alone_and_has_no_privileges() -> None:
    (service,) = compose()["services"].values()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"/tmp", f"/home/{all_of('USER')[0]}"} == {*service["tmpfs"]}
    assert "cap_add" not in service
    assert "privileged" not in service


def started(
    llrnn: str, *arguments: str, hidden: tuple[str, ...] = ()
) -> AbstractContextManager[tuple[subprocess.Popen[str], Address]]:
    """The command of the image with these arguments, at a free port; `hidden`: variables that it does not see."""
    program, *given = listed("ENTRYPOINT")
    assert program == "llrnn"
    environment = {name: value for name, value in os.environ.items() if name not in (serve.TOKEN, *hidden)}
    return listening([llrnn, *given, *arguments], environment, host="0.0.0.0")


def check(python: str, address: Address) -> int:
    """The health check of the image."""
    _, *given = listed("HEALTHCHECK")
    asked = [part.replace(f":{PORT}/", f":{address.port}/") for part in given]
    return subprocess.run([python, *asked], capture_output=True, check=False).returncode


def test_the_command_serves_is_healthy_and_stops(tmp_path: Path) -> None:
    """As `docker run` and `docker stop` would have it."""
    arguments = [part.replace("/models", str(tmp_path)) for part in listed("CMD")]
    llrnn = str(Path(sys.executable).parent / "llrnn")
    with started(llrnn, *arguments) as (process, address):
        assert check(sys.executable, address) == 0
        assert [one["name"] for one in address.ask("GET", "/v1/models").json["models"]] == ["fr", "fr-softmax"]
        assert b"llrnn playground" in address.ask("GET", "/").body
        assert address.ask("GET", "/v1/models", Host="models.example.org").status == 400  # until --allow-host says so
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert check(sys.executable, address) != 0


@pytest.mark.slow
def test_its_installation_serves_from_an_empty_environment(tmp_path: Path) -> None:
    """The same lines of the Dockerfile, in a folder and an environment of their own."""
    build = tmp_path / "build"
    build.mkdir()
    copied(build)
    venv.create(tmp_path / "python", with_pip=True)
    binaries = tmp_path / "python" / "bin"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{binaries}:{environment['PATH']}", "VIRTUAL_ENV": str(tmp_path / "python")}
    for line in all_of("RUN"):
        if line.startswith("pip "):
            done = subprocess.run(
                line, shell=True, cwd=build, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    shutil.rmtree(build)  # nothing of it is needed any more
    tiny_model(100, 8).save(tmp_path / "mine")
    with started(str(binaries / "llrnn"), f"mine={tmp_path / 'mine'}", hidden=("PYTHONPATH",)) as (_, address):
        assert check(str(binaries / "python"), address) == 0
        assert address.ask("POST", "/v1/next", {"prefix": "la"}).json["model"] == "mine"
    with started(str(binaries / "llrnn"), *listed("CMD")[:1], hidden=("PYTHONPATH",)) as (_, address):
        assert address.ask("POST", "/v1/next", {"prefix": "la"}).json["model"] == "fr"
        assert b"llrnn playground" in address.ask("GET", "/").body
