"""Training: a plain generator of records.

    for each epoch: for each batch of what it reads (`training.schedule`): one update (`training.updates`);
    then validate, keep the best, go on or not

`for record in train(model, corpus, valid=valid): ...` does the work; the records say how it goes. With a folder, the
best model and the state of the run are kept there, and `resume=True` goes on from the last checkpoint: the order of
data, the dropout masks and every update are functions of (seed, epoch, position), so the weights come out the same, bit
for bit, as if nothing had happened. `workers` are the processes that share out the rows of every batch.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import finalize

import torch
from torch import Tensor

from llrnn.ground.errors import CheckpointError, NonFiniteError, TrainingError, warn
from llrnn.knowledge.process import Batch, ModelState, Process
from llrnn.model.network import LLRNN, require_model
from llrnn.model.scoring import Prefetched, derived_seed, score
from llrnn.model.words import try_add_from_conditions, with_text_words
from llrnn.text.built import BuiltText
from llrnn.text.corpus import Corpus, require_corpus
from llrnn.text.encoded import EncodedText, TrainingSummary
from llrnn.text.others import OtherText
from llrnn.training.graphs import updater_for
from llrnn.training.optimizer import optimizer_tensors, restore_optimizer, set_learning_rate
from llrnn.training.runs import Progress, ReadOnlyRunFolder, Record, RunFolder, model_digest
from llrnn.training.schedule import Schedule
from llrnn.training.settings import TrainingSettings
from llrnn.training.updates import NotFiniteError, Update
from llrnn.training.workers import Workers

_UNREAD = (
    "train() trains while its records are read, and nobody has read one, so nothing was trained; write "
    "`for record in train(...): ...`, or `records = llrnn.Records(train(...))`"
)
_LOST = 4.0  # times what words at random cost, and a nat: no model that learns anything is there after an epoch


def train(
    model: LLRNN,
    corpus: Corpus,
    *,
    valid: Corpus | None = None,
    others: Sequence[OtherText] = (),
    settings: TrainingSettings | None = None,
    folder: str | PathLike[str] | None = None,
    resume: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, int, int], None] = lambda epoch, position, batches: None,
    replan: Callable[[Record], int | None] = lambda record: None,
    workers: Workers | None = None,
    **changes: Any,
) -> Iterator[Record]:
    """Train a model in place, yielding records of progress; it ends with the weights of the best validation.

    Training happens while the records are read. `corpus`: the training text; `valid`: the validation text, without
    which the last weights count; `settings`, or `changes` to the default ones (`epochs=5`); `folder` keeps the best
    model and checkpoints, and `resume` goes on with the run that it holds, bit for bit.

    `others`: texts that the network reads before the corpus, in epochs on top of `epochs` in which neither patience nor
    halving counts, or mixed into it. `should_stop` is called before every step: True stops with a checkpoint. `on_step`
    is called after every step with the epoch, how many of its batches are done, and how many it has. `replan` is called
    with the record of every epoch that ends: a number is how many epochs the training will have, None leaves that as it
    is; so a schedule can end when the time does, and a run that is resumed knows. `workers`: the processes that train
    together, from `join_workers`. The model ends in eval mode.

        for record in train(model, corpus, valid=valid, epochs=5, folder="runs/mine"):
            print(record)
    """
    require_model(model)
    for given in (corpus, valid) if valid is not None else (corpus,):
        require_corpus(given)
    settings = (settings or TrainingSettings()).changed(**changes)
    run = _Run(model, corpus, valid, others, settings, None if folder is None else Path(folder), workers or Workers())
    run.replan = replan
    try:
        # or the processes were started again, by what had started them, after one of them died
        if resume or run.workers.any(run.folder is not None and run.folder.is_of_this_launch()):
            run.resume()
        else:
            run.begin()
    except BaseException:
        run.release()
        raise
    return _Reading(run.held(should_stop, on_step))


class _Reading(Iterator[Record]):
    """The iterator that `train` returns: its records; it warns if it is dropped unread, since nothing was trained."""

    def __init__(self, records: Generator[Record, None, None]) -> None:
        self._records = records
        self._forgotten = finalize(self, warn, _UNREAD)

    def __next__(self) -> Record:
        self._forgotten.detach()
        return next(self._records)

    def close(self) -> None:
        """End the training where it stands, and release the lock on its folder; what is not in a checkpoint is lost."""
        self._forgotten.detach()
        self._records.close()


class _Run:
    """One training run: model, texts, optimizer, progress, and the folder that keeps them (None: nothing is kept).

    `others`: texts to read before the corpus or mixed into it. Raises TrainingError for a text without sentences, and
    where processes that train together have different texts, settings or models. Use: `run.begin()` or `run.resume()`,
    then read all records of `run.held(should_stop, on_step)`.
    """

    def __init__(
        self,
        model: LLRNN,
        corpus: Corpus,
        valid: Corpus | None,
        others: Sequence[OtherText],
        settings: TrainingSettings,
        folder: Path | None,
        workers: Workers,
    ) -> None:
        for use, given in (("train", corpus), ("validate", valid)):
            if given is not None and len(given) == 0:
                raise TrainingError(f"there is no sentence to {use} on")
        if valid is None and settings.halve_after is not None:
            raise TrainingError(
                f"halve_after = {settings.halve_after} needs a text to validate on, found none; leave it out, or "
                "give corpus.valid, corpus.valid_last or train(..., valid=...)"
            )
        self.model, self.settings, self.workers = model, settings, workers
        text = EncodedText.to_train_on(corpus, model.vocabulary)
        self.schedule = Schedule(text, others, model.vocabulary, settings.seed)
        model.training_summary = TrainingSummary.of(EncodedText.encode(corpus, model.vocabulary), len(model.vocabulary))
        if others:
            model.training_summary = model.training_summary.having_read(self.schedule.texts[1:])
            model.provenance = {**model.provenance, "other_texts": self.schedule.described()}
        # what validates knows the words of the conditions, as it will when it writes, and of a text that it reads
        self.judge = (
            model if valid is None else try_add_from_conditions(with_text_words(model, valid), valid.conditions)
        )
        self.valid = None if valid is None else EncodedText.encode(valid, self.judge.vocabulary)
        self.batching = settings.batches.make()
        for one in (*self.schedule.texts, self.valid):
            if one is not None:
                self.batching.plan(one)  # one that cannot be cut in this way is refused before anything is written
        # processes that read different things would train nonsense together, and never notice
        workers.require_same("settings", lambda: hashlib.sha256(settings.model_dump_json().encode()).hexdigest())
        workers.require_same("training text", text.digest)
        workers.require_same("other texts", lambda: self.schedule.others_digest() or "0")
        workers.require_same("model", lambda: model_digest(model))
        kind = RunFolder if workers.leads else ReadOnlyRunFolder
        self.folder = (
            None if folder is None else kind(folder, settings, model, self.schedule, self.valid, workers.launch)
        )
        self.updater = updater_for(model, settings, workers)
        self.progress = Progress(learning_rate=settings.learning_rate)
        self.replan: Callable[[Record], int | None] = lambda record: None
        self.best_weights: dict[str, Tensor] = {}
        self.carried: ModelState | None = None  # what the next batch goes on from, where it follows the last one
        self._batches = 1  # of the present epoch
        self._unsettled: Update | None = None  # the last update, until its loss has been looked at
        self._seconds, self._words = 0.0, 0  # since this process began, for the words per second
        self._speed_before = 0.0  # that of the last process, where this one has nothing left to do

    def held(
        self, should_stop: Callable[[], bool], on_step: Callable[[int, int, int], None]
    ) -> Generator[Record, None, None]:
        """Train, and yield the records of the training while it runs.

        `should_stop` is called before every step: True ends the training with a checkpoint; `on_step` after every step
        with the epoch, how many of its batches are done, and how many it has. At the end, or after an error, the folder
        is released and the model is put in eval mode.
        """
        try:
            yield from self.records(should_stop, on_step)
        finally:
            self.model.eval()
            self.release()

    def release(self) -> None:
        if self.folder is not None:
            self.folder.release()

    def records(self, should_stop: Callable[[], bool], on_step: Callable[[int, int, int], None]) -> Iterator[Record]:
        progress = self.progress
        if self.model.device.type == "cuda" and not progress.finished:  # which would wait for knowledge all the while
            self.read_ahead(torch.get_num_threads())
        while not progress.finished:
            plan = self._plan()
            self._batches = len(plan)
            if self.model.device.type == "cuda":  # a GPU must not wait for batches: it copies them from pinned memory
                plan = Prefetched(plan, lambda batch: self.updater.prepared(batch).pinned())
            while progress.position < len(plan):
                if self.workers.stop(should_stop()):
                    self.checkpoint()
                    yield self._record("interrupted", len(plan))
                    return
                self.step(plan[progress.position])
                on_step(progress.epoch, progress.position, len(plan))
                # logged before the checkpoint, so that no kill can lose the record; one too many is cut on resuming
                record = self._record("step", len(plan)) if progress.step % self.settings.log_every == 0 else None
                if progress.step % self.settings.checkpoint_every == 0:
                    self.checkpoint()
                if record is not None:
                    yield record
            yield self._end_epoch(len(plan))
        self.model.load_weights(self.best_weights)
        yield self._record("end", 0)

    def read_ahead(self, processes: int) -> None:
        """Have what the model knows of the context, such as n-grams, read all texts now, in `processes` processes.

        Their values for each sentence are kept, so that training need not compute them. Texts on disk are left out.
        """
        texts = [(self.model, one) for one in self.schedule.texts]
        for model, text in texts if self.valid is None else [*texts, (self.judge, self.valid)]:
            if isinstance(text, BuiltText):
                continue
            knowing = [one for one in model.processes if type(one).read_ahead is not Process.read_ahead]
            rows = [tuple(text.framed(number)[:-1].tolist()) for number in range(len(text.sentences)) if knowing]
            for process in knowing:
                process.read_ahead(rows, processes)

    def _plan(self) -> Sequence[Batch]:
        """Return the batches of the current epoch, in the order of training: a function of seed and epoch alone."""
        epoch = self.progress.epoch
        return self.batching.plan(self.schedule.text(epoch), seed=self.settings.seed, epoch=epoch)

    def step(self, batch: Batch) -> None:
        """Update the weights on one batch, and count it in `self.progress`.

        Raises NonFiniteError where a loss, gradient or weight is not finite; on a GPU possibly one step late.
        """
        started, progress = time.perf_counter(), self.progress
        self._prepare_step()
        if not self.model.training:  # whatever was done with it between two records
            self.model.train()
        seed = derived_seed(self.settings.seed, progress.epoch, progress.position, 2)
        with self._naming():
            made = self.updater.update(batch, self.carried, number=progress.step + 1, seed=seed)
        self._settle()
        self._unsettled = made
        self.carried = made.carried if self.batching.carries_state else None
        progress.position += 1
        progress.step += 1
        self._seconds += time.perf_counter() - started

    def _prepare_step(self) -> None:
        """Set the learning rate of the next update by the schedule, and begin the last average where its time is."""
        progress, last = self.progress, self.settings.average_last
        set_learning_rate(self.updater.optimizer, self._rate())
        done = progress.epoch / self._epochs
        if last is not None and progress.average_since is None and done >= 1.0 - last:
            progress.average_since = progress.step + 1
        self.updater.average.since = progress.average_since

    @property
    def _epochs(self) -> int:
        """How many epochs the training has, those of other texts included."""
        return self.progress.epochs or self.schedule.first + self.settings.epochs

    def _rate(self) -> float:
        """Return the learning rate of the next update: a function of how many epochs are done, with fractions."""
        progress = self.progress
        done = progress.epoch + (progress.position + 1) / max(self._batches, 1)
        return progress.learning_rate * self.settings.schedule.factor(done, self._epochs)

    def _settle(self) -> None:
        """Wait for the loss of the last update, which a GPU may still compute, and add it to `self.progress`.

        Raises NonFiniteError where it is not finite; nothing to do where no update is pending.
        """
        made, self._unsettled = self._unsettled, None
        if made is not None:
            progress = self.progress
            with self._naming(ago=1):
                progress.loss_sum += made.loss() * made.words
            progress.words += made.words
            self._words += made.words

    def _end_epoch(self, batches: int) -> Record:
        """Finish an epoch of `batches` batches: validate, keep weights that are the best, and return its record.

        Halves the learning rate or ends the run if the settings say so, and writes a checkpoint. Without a validation
        text the last weights count as the best. Nothing of this is done at epochs that `validate_every` leaves out.
        """
        progress, done = self.progress, self.progress.epoch + 1
        self._settle()
        self.carried = None
        if self.valid is not None and done % self.settings.validate_every and done < self._epochs:
            record = self._record("epoch", batches)
            self._begin_epoch(record)
            return record
        with self._naming():
            self.updater.require_finite_weights()  # or the best model so far would be overwritten with them
        with self._naming(), self.updater.average.applied():
            valid = self._validated() if self.valid is not None else None
            better = valid is None or progress.best is None or valid < progress.best
            if better:
                self.best_weights = {name: tensor.clone() for name, tensor in self.updater.weights().items()}
                if self.folder is not None:
                    self.folder.keep(self.model)
        progress.best = valid if better else progress.best
        counts = progress.epoch >= self.schedule.first  # before, the corpus has not been read yet
        progress.epochs_since_best = 0 if better or not counts else progress.epochs_since_best + 1
        after = self.settings.halve_after
        if after is not None and progress.epochs_since_best and progress.epochs_since_best % after == 0:
            progress.learning_rate /= 2
        record = self._record("epoch", batches, valid)
        self._warn_if_lost(record)
        self._begin_epoch(record)
        progress.finished = self._is_over()
        self.checkpoint()
        return record

    def _begin_epoch(self, after: Record) -> None:
        """Count the epoch whose record is `after` as done, and ask how many there are to be."""
        progress = self.progress
        progress.epoch, progress.position, progress.loss_sum, progress.words = after.epoch + 1, 0, 0.0, 0
        progress.epochs = self.replan(after) or progress.epochs

    def _warn_if_lost(self, record: Record) -> None:
        """Warn where the mean training loss of an epoch is above 4 (log V + 1) nats: training has diverged.

        V is the size of the vocabulary.
        """
        chance = math.log(len(self.model.vocabulary))
        if record.train is not None and record.train > _LOST * (chance + 1) and self.workers.leads:
            warn(
                f"the training loss of epoch {record.epoch + 1} is {record.train:,.1f} nats a word, where words at "
                f"random have {chance:.1f}: the learning rate {record.learning_rate:g} is too large; stop, and set "
                f"training.learning_rate to {TrainingSettings().learning_rate:g} or less"
            )

    def _validated(self) -> float:
        assert self.valid is not None
        if self.judge is not self.model:
            self.judge.load_weights(self.updater.weights())
        found = -self.workers.mean(score(self.judge, self.valid, self.workers.batching(self.batching)).log_probs)
        if not math.isfinite(found):
            raise NotFiniteError("validation loss")
        return found

    def _record(self, event: str, batches: int, valid: float | None = None) -> Record:
        """Return the present state of the run as a record, and append it to the log in the folder, if there is one.

        `event`: step, epoch, interrupted or end; `batches`: how many the epoch has; `valid`: the validation loss in
        nats a word, None unless it was just computed.
        """
        self._settle()
        progress = self.progress
        mean = progress.loss_sum / progress.words if progress.words else None
        speed = self._words / self._seconds if self._seconds else self._speed_before
        place = (progress.epoch, progress.position, batches, progress.step)
        record = Record(event, *place, mean, valid, progress.best, self._rate(), speed)
        if self.folder is not None:
            self.folder.log(record)
        return record

    def begin(self) -> None:
        """Start a new run: lock its folder and write a first checkpoint; nothing to do without a folder.

        Raises TrainingError where the folder holds a run or a model already, or another process trains there.
        """
        if self.folder is not None:
            self.folder.refuse_overwriting()
            with self._naming():
                self.updater.require_finite_weights()  # before anything is written
            self.folder.hold()
            self.folder.refuse_overwriting()  # nobody has begun one in the meantime
            self.folder.remove_leftovers()
            self.checkpoint()

    def resume(self) -> None:
        """Load the last checkpoint of the folder, to go on from there.

        Raises TrainingError without a folder, or where it holds a run of other settings, texts or model;
        CheckpointError where the checkpoint is missing or damaged.
        """
        if self.folder is None:
            raise TrainingError("resume=True needs the folder of the run")
        if self.folder.has_run():
            self.folder.hold()
        self.progress, tensors = self.folder.read()
        self._speed_before = self.folder.last_speed
        try:
            self.model.load_weights(tensors)
            restore_optimizer(self.updater.optimizer, tensors)
            self.updater.average.restore(tensors)
        except CheckpointError as error:
            cure = "restore the folder from a copy, or start anew in another"
            raise CheckpointError(f"{self.folder.folder}/training.json: {error}; {cure}") from None
        if self.progress.epoch > 0 and (self.valid is None or self.progress.best is not None):
            self.best_weights = self.folder.best_weights()
        self._restore_carried(tensors)
        self.progress.finished = self._is_over()

    def _is_over(self) -> bool:
        patience = self.settings.patience
        worn_out = patience is not None and self.progress.epochs_since_best >= patience
        return worn_out or self.progress.epoch >= self._epochs

    def checkpoint(self) -> None:
        """Write everything that `resume` needs to the folder, if there is one; the last checkpoint is replaced.

        Raises NonFiniteError, before anything is written, where a weight is not finite.
        """
        self._settle()
        with self._naming():
            self.updater.require_finite_weights()
        if self.folder is not None:
            updater = self.updater
            tensors = updater.weights() | optimizer_tensors(updater.optimizer) | updater.average.tensors()
            if self.batching.carries_state and self.progress.position > 0:
                # the controller's state of all rows; a process without rows has nothing to add
                whole = self.workers.whole_state((self.carried or self.model.start([])).controller)
                tensors |= {f"carried.{i}": part for i, part in enumerate(whole)}
            self.folder.write(self.progress, tensors)

    def _restore_carried(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that the next batch continues from, where batches of the run follow one another.

        The network's state is in the checkpoint's `tensors`; that of knowledge, such as n-grams, is computed again from
        the words of the epoch's batches before.
        """
        whole = (tensors[f"carried.{i}"] for i in range(sum(key.startswith("carried.") for key in tensors)))
        kept = self.workers.own_state(tuple(whole))
        if not kept or not len(kept[0]):
            return
        plan = self._plan()
        known = self.model.start([None] * len(kept[0])).knowledge
        for index in range(self.progress.position):
            batch = self.workers.share(plan[index])
            known = tuple(
                tuple(process.follow(states, batch)[1])
                for process, states in zip(self.model.processes, known, strict=True)
            )
        self.carried = ModelState(tuple(part.to(self.model.device) for part in kept), known)

    @contextmanager
    def _naming(self, ago: int = 0) -> Iterator[None]:
        """Context manager (yields None): turns a NotFiniteError in the block into a NonFiniteError with a message.

        The message names what is not finite, with step, epoch and batch; `ago`: how many steps ago it was computed.
        """
        try:
            yield
        except NotFiniteError as found:
            progress = self.progress
            kept = f"; the last good checkpoint is kept in {self.folder.folder}" if self.folder is not None else ""
            raise NonFiniteError(
                f"training stopped: the {found} is not finite at step {progress.step - ago}, epoch {progress.epoch}, "
                f"batch {progress.position - ago}{kept}; lower the learning rate or clip the gradient harder"
            ) from None
