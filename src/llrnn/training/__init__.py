"""From batches to a run folder: objectives, updates, records."""

from typing import TYPE_CHECKING

from llrnn.ground.startup import lazy_getattr
from llrnn.training.runs import Record, Records

if TYPE_CHECKING:
    from llrnn.training.loop import train
    from llrnn.training.settings import TrainingSettings

__all__ = ["Record", "Records", "TrainingSettings", "train"]

__getattr__ = lazy_getattr(__name__, {"train": "llrnn.training.loop", "TrainingSettings": "llrnn.training.settings"})
