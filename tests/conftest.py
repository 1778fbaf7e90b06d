"""What holds for every test: one thread a process, the same drawn cases in every run, no clock."""

import contextlib
import importlib
import os
import pkgutil
import random
import signal
import sys
import threading
from collections.abc import Iterator
from unittest import mock

import pytest

# one thread a process: `make test` runs two of them on two cores, and more threads would only fight
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import numpy as np
import torch
from hypothesis import HealthCheck, is_hypothesis_test, settings

import llrnn
import llrnn_lab
from llrnn.layer.distribution import Distribution

torch.set_num_threads(1)

# a shell starts what runs in the background with Ctrl-C ignored, and so would the programs that tests stop with it
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` draws the same few cases in every run, `make test-all` the same and as many as each test asks for
# (`strategies.draws`); `make explore` (scripts/explore.py) draws new ones.
for _name, _most in (("same", 16), ("all", 50)):
    settings.register_profile(
        _name,
        max_examples=_most,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile("same")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hypothesis draws constants of modules that were imported: every worker imports all, and draws the same."""
    if any(is_hypothesis_test(getattr(item, "obj", None)) for item in session.items):
        for package in (llrnn, llrnn_lab):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                with contextlib.suppress(ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)


def pytest_runtest_setup() -> None:
    """Whoever draws from a global generator draws the same, whatever ran before: tests, and what fixtures make."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


# files of the other rooms that count, and of models, whose tests take branches that those of these rooms leave out
# (by `pytest --cov --cov-context=test`): to trace the rest found no branch more, and costs as much again as to run it
TRACED_ROOMS = {"layer", "knowledge", "languages", "agreement"}
TRACED_FILES = {
    "cli/test_cli_ngram.py",
    *(f"inference/test_{name}.py" for name in ("adaptation", "evaluate", "hf", "lattices")),
    "inference/test_scores.py",
    *(f"model/test_{name}.py" for name in ("completion", "condensed", "controllers", "ensembles")),
    *(f"model/test_{name}.py" for name in ("inputs", "open_model", "tables_swapped", "unit_models")),
    *(f"text/test_{name}.py" for name in ("automata", "spellings")),
}


def is_traced(nodeid: str) -> bool:
    """Whether the branches that a test takes are counted."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return file.partition("/")[0] in TRACED_ROOMS or file in TRACED_FILES


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Branches count as taken where some tests take them.

    The mark no_cover of pytest-cov does not do: a worker of pytest-xdist has two collectors, and if one pauses, the
    other goes on."""
    if is_traced(item.nodeid):
        return (yield)
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(of_threads)


@pytest.fixture(scope="module", params=["static", "words"])
def each_sum(request: pytest.FixtureRequest) -> Iterator[None]:
    """For modules that compare with brute force: small cases would all be summed word by word, and large ones none."""
    with mock.patch.object(Distribution, "way", request.param):
        yield
