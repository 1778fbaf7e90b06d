"""What training asks of the processes that train together, and the answers where there is only one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from llrnn.knowledge.sequences import Batch
from llrnn.model.batches import Batching
from llrnn.model.controllers import Hidden, SomeRows

_WHOLE = slice(None)


@dataclass(frozen=True)
class Share:
    """The rows of a batch that one process takes."""

    batch: Batch
    rows: slice
    n_rows: int  # of the whole batch
    positions: int  # of the whole batch that count
    weight: float  # own positions / all positions: what a mean over its own counts in the mean over all

    def generator(self, device: torch.device, seed: int) -> torch.Generator:
        """Draws for its rows what one process would draw for them."""
        made = torch.Generator(device) if self.rows == _WHOLE else SomeRows(device, self.rows, self.n_rows)
        return made.manual_seed(seed)


class Workers(ABC):
    """All processes of a training, as one of them sees them."""

    leads = True  # whether this one writes and prints
    command: tuple[str, ...] = ("llrnn",)  # how such processes are started
    exit_code_when_stopped = 130  # as a shell has it for Ctrl-C
    launch: str | None = None  # names what started them; those that are started again by it have the same

    @abstractmethod
    def share(self, batch: Batch) -> Share:
        """What this process takes of a batch."""

    @abstractmethod
    def batching(self, batching: Batching) -> Batching:
        """The same batches, of which this process has its rows."""

    @abstractmethod
    def add_up(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        """Gradients become the sums over all processes, and so does the loss that is returned."""

    @abstractmethod
    def any(self, flag: bool) -> bool:
        """Whether it is so in any of the processes; all of them ask, and get the same answer."""

    @abstractmethod
    def stop(self, wanted: bool) -> bool:
        """Whether to stop before the next step, all at the same: a signal may have reached only one process."""

    @abstractmethod
    def mean(self, values: Tensor) -> float:
        """The mean of all values of all processes, (N_r,) of each."""

    @abstractmethod
    def whole_state(self, parts: Hidden) -> Hidden:
        """From the states of the rows of each process to the states of all rows."""

    @abstractmethod
    def own_state(self, parts: Hidden) -> Hidden:
        """The states of the rows of this process, out of those of all rows."""

    @abstractmethod
    def device(self, device: torch.device) -> torch.device:
        """Where this process computes."""

    @abstractmethod
    def require_same(self, what: str, digest: Callable[[], str]) -> None:
        """All processes must have read the same."""


class Alone(Workers):
    """One process: all rows are its own, and there is nobody to ask."""

    def share(self, batch: Batch) -> Share:
        return Share(batch, _WHOLE, len(batch.inputs), batch.n_positions, 1.0)

    def batching(self, batching: Batching) -> Batching:
        return batching

    def add_up(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        return loss

    def any(self, flag: bool) -> bool:
        return flag

    def stop(self, wanted: bool) -> bool:
        return wanted

    def mean(self, values: Tensor) -> float:
        return float(values.mean())

    def whole_state(self, parts: Hidden) -> Hidden:
        return parts

    def own_state(self, parts: Hidden) -> Hidden:
        return parts

    def device(self, device: torch.device) -> torch.device:
        return device

    def require_same(self, what: str, digest: Callable[[], str]) -> None:
        pass
