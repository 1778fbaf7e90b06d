"""What holds for every test: one thread a process, the same drawn cases in every run, no clock."""

import os
import random
from collections.abc import Iterator
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

# `make test` draws the same cases in every run; `make explore` (scripts/explore.py) draws new ones
settings.register_profile(
    "same",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("same")

_constants_of_imported_modules = providers._get_local_constants


def _constants() -> Constants:
    """Hypothesis draws some values from constants in our source, as far as it was imported: here only to explore.

    What was imported depends on the tests that ran before in the same process."""
    return Constants() if settings.get_current_profile_name() == "same" else _constants_of_imported_modules()


providers._get_local_constants = _constants


def pytest_runtest_setup() -> None:
    """Whoever draws from a global generator draws the same, whatever ran before: tests, and what fixtures make."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No test may bring a deadline or chance back by settings of its own."""
    for item in items:
        function = getattr(item, "obj", None)
        if is_hypothesis_test(function):
            own = getattr(function, "_hypothesis_internal_use_settings", settings())
            slow_is_fine = HealthCheck.too_slow in own.suppress_health_check
            if own.deadline or own.database is not None or not slow_is_fine:
                raise pytest.UsageError(f"{item.nodeid}: leave deadline, database and too_slow to tests/conftest.py")
            if not own.derandomize and settings.get_current_profile_name() == "same":
                raise pytest.UsageError(f"{item.nodeid}: cases that are drawn anew are for `make explore` alone")


@pytest.fixture(scope="module", params=["static", "words"])
def each_sum(request: pytest.FixtureRequest) -> Iterator[None]:
    """For modules that compare with brute force: small cases would all be summed word by word, and large ones none."""
    with mock.patch.object(LogLinear, "way", request.param):
        yield
