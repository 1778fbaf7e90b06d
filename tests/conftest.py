"""One thread a test process: `make test` runs two of them on two cores, and more threads would only fight."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import torch

from llrnn import drawing

torch.set_num_threads(1)


@pytest.fixture(scope="module", params=["class by class", "word by word"])
def each_sum(request: pytest.FixtureRequest) -> Iterator[None]:
    """For modules that compare with brute force: small cases would all be written out, and large ones none."""
    with mock.patch.object(drawing, "are_few", return_value=request.param == "word by word"):
        yield
