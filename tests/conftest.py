"""What holds for every test: one thread a process, the same drawn cases in every run, no clock."""

import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

# one thread a process: `make test` runs two of them on two cores, and more threads would only fight
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import numpy as np
import torch
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from llrnn.layer.loglinear import LogLinear

torch.set_num_threads(1)

# `make test` draws the same few cases in every run, `make test-all` the same and as many as each test asks for (ALL);
# `make explore` (scripts/explore.py) draws new ones
FEW, ALL = "same", "all"
_FEWEST = 10
for _name in (FEW, ALL):
    settings.register_profile(
        _name,
        max_examples=50,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile(FEW)

_constants_of_imported_modules = providers._get_local_constants


def _constants() -> Constants:
    """Hypothesis draws some values from constants in our source, as far as it was imported: here only to explore.

    What was imported depends on the tests that ran before in the same process."""
    return Constants() if _draws_the_same() else _constants_of_imported_modules()


def _draws_the_same() -> bool:
    return settings.get_current_profile_name() in (FEW, ALL)


providers._get_local_constants = _constants


def pytest_runtest_setup() -> None:
    """Whoever draws from a global generator draws the same, whatever ran before: tests, and what fixtures make."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for function, nodeid in {getattr(item, "obj", None): item.nodeid for item in items}.items():
        if is_hypothesis_test(function):
            _settle(function, nodeid)


def _settle(function: Any, nodeid: str) -> None:
    """No test may bring a deadline or chance back by settings of its own; `make test` draws a third of the cases."""
    own = getattr(function, "_hypothesis_internal_use_settings", settings())
    if own.deadline or own.database is not None or HealthCheck.too_slow not in own.suppress_health_check:
        raise pytest.UsageError(f"{nodeid}: leave deadline, database and too_slow to tests/conftest.py")
    if not own.derandomize and _draws_the_same():
        raise pytest.UsageError(f"{nodeid}: cases that are drawn anew are for `make explore` alone")
    if settings.get_current_profile_name() == FEW:
        fewer = min(own.max_examples, max(own.max_examples // 3, _FEWEST))
        function._hypothesis_internal_use_settings = settings(own, max_examples=fewer)


# files of the other rooms that count, and of models, whose tests take branches that those of these rooms leave out
# (by `pytest --cov --cov-context=test`): to trace the rest found no branch more, and costs as much again as to run it
TRACED_ROOMS = {"layer", "knowledge", "languages"}
TRACED_FILES = {
    *(f"inference/test_{name}.py" for name in ("adaptation", "bounds", "distortion", "evaluate", "hf", "lattices")),
    "inference/test_scores.py",
    *(f"model/test_{name}.py" for name in ("coarsened", "completion", "condensed", "controllers", "ensembles")),
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
    with mock.patch.object(LogLinear, "way", request.param):
        yield
