"""Several processes that train one model together: the rows of every batch are shared out, gradients are added up.

    −mean log p over a batch  =  Σ_r (n_r / n) · (−mean log p over the rows of process r)

Every process makes the same plan of batches and keeps the same weights; process r takes the rows r, r + R, r + 2R, ...
of each batch, so that long and short rows are spread evenly. The sum of the gradients is the gradient of the batch,
whatever the number R of processes: a run may go on with another number. `joined()` gives the `Team` that torchrun
started, or a process `Alone`; training asks either, and knows neither. Only process 0, which leads, writes and prints.
"""

from __future__ import annotations

from llrnn.training.parallel.base import Alone, Share, Workers
from llrnn.training.parallel.team import Team, joined

__all__ = ["Alone", "Share", "Team", "Workers", "joined"]
