"""What training reads: the batches of every epoch, and where the rows of continuous text stand between two of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from llrnn.knowledge.sequences import Batch, ModelState
from llrnn.model.batches import Batching, Prefetched
from llrnn.model.network import LLRNN
from llrnn.text.ids import EncodedText
from llrnn.training.parallel import Workers


class BatchReader:
    """A text, cut in one way; `carried` is the state that the next batch goes on from."""

    def __init__(self, model: LLRNN, text: EncodedText, batching: Batching, workers: Workers, seed: int) -> None:
        self._model, self._text, self._batching, self._workers, self._seed = model, text, batching, workers, seed
        self.carried: ModelState | None = None

    def plan(self, epoch: int) -> Sequence[Batch]:
        """The batches of an epoch; a GPU, which must not wait for them, copies them from pinned memory."""
        plan = self._batching.plan(self._text, seed=self._seed, epoch=epoch)
        return Prefetched(plan, Batch.pinned) if self._model.device.type == "cuda" else plan

    def go_on(self, after: ModelState | None) -> None:
        """From the state after a batch, where the next one is what follows it."""
        self.carried = after if self._batching.carries_state else None

    def begin_anew(self) -> None:
        self.carried = None

    def tensors(self, position: int) -> dict[str, Tensor]:
        """The controller's state of all rows, after so many batches; a process without rows has nothing to add."""
        if not self._batching.carries_state or position == 0:
            return {}
        whole = self._workers.whole_state((self.carried or self._model.start([])).controller)
        return {f"carried.{i}": part for i, part in enumerate(whole)}

    def restore(self, tensors: dict[str, Tensor], epoch: int, position: int) -> None:
        """The controller's state is saved; knowledge follows the words that were read, so it reads them again."""
        whole = (tensors[f"carried.{i}"] for i in range(sum(key.startswith("carried.") for key in tensors)))
        kept = self._workers.own_state(tuple(whole))
        if not kept or not len(kept[0]):
            return
        plan = self._batching.plan(self._text, seed=self._seed, epoch=epoch)
        known = self._model.start([None] * len(kept[0])).knowledge
        for index in range(position):
            batch = self._workers.share(plan[index]).batch
            known = tuple(
                tuple(process.follow(states, batch.inputs, batch.mask, batch.sentences)[1])
                for process, states in zip(self._model.processes, known, strict=True)
            )
        self.carried = ModelState(tuple(part.to(self._model.device) for part in kept), known)
