"""torch's LSTM, by the faster of the two ways that torch has on a CPU.

oneDNN    one call for a whole layer: the fastest way on x86-64, where it has kernels for it
torch     its own loop in C++: on aarch64, where oneDNN has a reference only, it takes a quarter of the time for one
          word and little more than half of it for 64 rows of 32 words (Neoverse N1, torch 2.13)

torch asks a switch for all of oneDNN which way to go. It is off while such a layer is called, in all threads; how many
calls are under way is counted, so that the last of them leaves the switch as the first one found it.
"""

from __future__ import annotations

import platform
from contextlib import nullcontext
from threading import Lock
from types import TracebackType
from typing import Any

import torch
from torch import nn

ONE_DNN_IS_SLOW = platform.machine().lower() in ("aarch64", "arm64")


class WithoutOneDNN:
    """A block in which torch does not ask oneDNN; threads may be in it at the same time."""

    def __init__(self) -> None:
        self._lock, self._calls, self._before = Lock(), 0, True

    def __enter__(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._before = torch._C._get_mkldnn_enabled()
                torch._C._set_mkldnn_enabled(False)
            self._calls += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                torch._C._set_mkldnn_enabled(self._before)


_faster = WithoutOneDNN() if ONE_DNN_IS_SLOW else nullcontext()


class TorchLSTM(nn.LSTM):
    """`nn.LSTM`: the same numbers, up to rounding."""

    def forward(self, *given: Any) -> Any:
        with _faster:
            return super().forward(*given)
