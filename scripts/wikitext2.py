"""WikiText-2 as its published figures are made: 33,278 words, an end for every line, every word of the test counted.

python scripts/wikitext2.py llrnn --data ../shared/data/wikitext2 --out runs/wt2 --minutes 18 --call 8.5 --device cuda
python scripts/wikitext2.py softmax ... --test          the test is read where --test says so, once the training is over

The state is carried over from line to line, in evaluation by one reader of the whole text. `llrnn`: words, affixes,
shapes and numbers, made of spelling and the training text alone; `softmax`: the same body, a feature for each word;
other names change one thing of these (VARIANTS). `--minutes`: of training in all, for which the number of epochs is
planned after two epochs and corrected until the last third; `--call`: of this call; the same command goes on.
`--set training.weight_decay=0.2 controller.hidden=900 model.tied=false` changes any setting.

OUT/NAME.json: settings, epochs (validation by strips), then validation and test of one model, with a neural cache of
3,800 words, whose weight and sharpness are chosen on the validation text, and with dynamic evaluation (--dynamic).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, features, load, train
from llrnn.ground.bundle import has_bundle
from llrnn.ground.files import write_atomically
from llrnn.inference.documents import (
    DocumentContext,
    ReadText,
    cache_log_probs,
    gradient_scales,
    mixed_with_cache,
    read_as_one,
)
from llrnn.model.scoring import Continuous
from llrnn.text.encoded import EncodedText
from llrnn.training.runs import Record
from llrnn.training.settings import TrainingSettings

PROBE = 2  # epochs before the first plan: kernels are compiled in the first
REPLANNED = 0.7  # the part of the training in which every epoch corrects the plan
WINDOW = 10  # epochs whose pace counts
MARGIN, LATEST = 0.97, 1.04  # of the time that is left, for a plan; of all of it, when a training is stopped
MOST_EPOCHS = 10_000
CACHE_WORDS = 3800
SHARPNESS = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
SHARES = (0.0, 0.03, 0.06, 0.1, 0.14, 0.18, 0.22, 0.27, 0.33)
STEPS, BACK = (3e-5, 1e-4, 3e-4), (0.0, 0.002)  # of dynamic evaluation
CHOOSE_ON = 100  # lines of the validation text that dynamic evaluation is chosen on, in six steps for every five words

Settings = dict[str, Any]  # by dotted keys

BODY: Settings = {  # 1152: a multiple of 8, as matrix units want them
    "controller.hidden": 1152, "controller.layers": 3, "controller.inputs": 400, "controller.last": 400,
    "controller.dropout": 0.25, "controller.input_dropout": 0.65, "controller.output_dropout": 0.45,
    "controller.weight_dropout": 0.55,
    "model.tied": True, "model.word_dropout": 0.1, "model.features": "llrnn", "model.top": 12_000,
    "model.shared": 5, "model.longest": 4,
    "training.batches": {"kind": "continuous", "rows": 96, "length": 70, "shift": True},
    "training.learning_rate": 0.003, "training.weight_decay": 0.1, "training.clip": 0.25,
    "training.schedule": {"kind": "cycle", "warm_up": 2.0, "anneal": 0.9, "final": 0.005},
    "training.average": 0.999, "training.activation": 2.0, "training.slowness": 1.0,
    "training.patience": 0, "training.validate_every": 5, "training.checkpoint_every": 10**9,
    "training.log_every": 100,
}  # fmt: skip
SOFTMAX: Settings = {"model.features": "softmax"}
MILD: Settings = {
    "controller.input_dropout": 0.4, "controller.output_dropout": 0.4, "controller.dropout": 0.2,
    "controller.weight_dropout": 0.3,
}  # fmt: skip
VARIANTS: dict[str, Settings] = {
    "llrnn": {},
    "softmax": SOFTMAX,
    "mild": MILD,  # fewer epochs than the published recipes have may want less dropout
    "mild-softmax": MILD | SOFTMAX,
    "wide": {"controller.layers": 2, "controller.hidden": 1500, "controller.inputs": 650, "controller.last": 650},
    "whole": {"model.top": None},  # a feature of its own for every word, beside those that words share
    "no-weight-dropout": {"controller.weight_dropout": 0.0},
    "no-restraint": {"training.activation": 0.0, "training.slowness": 0.0},
    "no-shift": {"training.batches": {"kind": "continuous", "rows": 96, "length": 70}},
    "no-schedule": {"training.schedule": {"kind": "constant"}},
    "average-last": {"training.average": None, "training.average_last": 0.33},
    "fast": {"training.learning_rate": 0.005},
    "little": {"training.weight_decay": 0.03},
    "small-batches": {"training.batches": {"kind": "continuous", "rows": 48, "length": 70, "shift": True}},
}


def read(path: Path, lines: int | None) -> Corpus:
    """Return a part of WikiText-2, every line a sentence, blank ones too; only the first `lines` unless None."""
    with gzip.open(path, "rt", encoding="utf8") as file:
        return Corpus.from_sentences([line.split() for line in file][:lines])


def parts_of(settings: Settings, table: str) -> Settings:
    return {key.removeprefix(f"{table}."): value for key, value in settings.items() if key.startswith(f"{table}.")}


def model_of(settings: Settings, corpus: Corpus, seed: int) -> LLRNN:
    """Return an untrained model of the settings; its vocabulary lists every word of the corpus."""
    own = parts_of(settings, "model")
    phi: features.Features = features.Identity()
    if own["features"] == "llrnn":
        affixes = [kind(own["longest"], min_count=own["shared"]) for kind in (features.Suffixes, features.Prefixes)]
        lower = features.Function(lambda word: [f"Lower:{word.lower()}"], name="Lower").frequent(min_count=2)
        phi = features.Identity(own["top"]) + affixes[0] + affixes[1] + features.Shape() + features.Numeric() + lower
    return LLRNN(
        Vocabulary.from_corpus(corpus, unknown="<unk>"),
        output_features=phi,
        background=backgrounds.Unigram.from_corpus(corpus, smoothing=0.5),
        controller=LSTM(**parts_of(settings, "controller")),
        tied=own["tied"],
        word_dropout=own["word_dropout"],
        seed=seed,
    )


class Study:
    """One configuration: its training, over several calls, and its figures, which `said` holds and `write` writes."""

    def __init__(self, name: str, settings: Settings, given: argparse.Namespace) -> None:
        self.name, self.settings, self.given, self.began = name, settings, given, monotonic()
        self.folder, self.path = given.out / name, given.out / f"{name}.json"
        self.said: dict[str, Any] = {"name": name, "settings": settings, "seed": given.seed, "epochs": []}
        if self.path.exists():
            self.said = json.loads(self.path.read_bytes())
            if self.said["settings"] != settings or self.said["seed"] != given.seed:
                raise SystemExit(f"{self.path}: is of other settings; name another folder with --out")
        self.train, self.valid = (read(given.data / f"{part}.txt.gz", given.lines) for part in ("train", "valid"))
        self.used = float(self.said.get("seconds", 0.0))  # by calls before
        self._mark, self._starts = self.began, True

    @property
    def seconds(self) -> float:
        """The seconds of training so far, in all calls."""
        return self.used + monotonic() - self.began

    def write(self) -> None:
        write_atomically(self.path, json.dumps(self.said, indent=1).encode())

    def tell(self, said: str) -> None:
        sys.stdout.write(f"{self.name}: {said}\n")
        sys.stdout.flush()

    def is_late(self) -> bool:
        over = monotonic() - self.began > 60 * self.given.call
        return bool(over or self.seconds > LATEST * 60 * self.given.minutes)

    def fit(self) -> bool:
        """Train as long as it takes or this call lasts; return whether the training is over."""
        if self.said.get("finished") is True:
            return True
        model = model_of(self.settings, self.train, self.given.seed).to(torch.device(self.given.device))
        self.said |= {
            "parameters": sum(own.numel() for own in model.parameters()), "vocabulary": len(model.vocabulary),
            "classes": model.layer.classes.count, "features": model.output_features.n_features,
        }  # fmt: skip
        training = parts_of(self.settings, "training")
        settings = TrainingSettings.model_validate({**training, "epochs": MOST_EPOCHS, "seed": self.given.seed})
        self.tell(f"{model}, {self.said['parameters']:,} parameters")
        self._mark = monotonic()
        event = ""
        for record in train(
            model, self.train, valid=self.valid, settings=settings, folder=self.folder,
            resume=has_bundle(self.folder, "training"), should_stop=self.is_late, replan=self.plan,
        ):  # fmt: skip
            event = record.event
        self.said |= {"seconds": self.seconds, "finished": event == "end"}
        self.write()
        self.tell(f"{event} after {self.seconds:.0f} s")
        is_over = event == "end" or self.seconds > 60 * self.given.minutes
        return is_over and has_bundle(self.folder, "model")  # else the time was over before anything was validated

    def plan(self, record: Record) -> int | None:
        """Note an epoch; return how many epochs the training is to have, at the pace of the last ones, or None."""
        now, done = monotonic(), record.epoch + 1
        one = {
            "epoch": done, "train": record.train, "valid": record.valid, "rate": record.learning_rate,
            "seconds": now - self._mark, "starts_a_call": self._starts,
        }  # fmt: skip
        self._starts = False
        # a call that was killed may have done it before
        epochs = self.said["epochs"] = [*(old for old in self.said["epochs"] if old["epoch"] < done), one]
        self._mark = now
        left = MARGIN * (60 * self.given.minutes - self.seconds)
        # the mean of some epochs, of which one is validated, and none compiles
        usual = [old["seconds"] for old in epochs if not old["starts_a_call"]] or [one["seconds"]]
        pace = float(np.mean(usual[-WINDOW:]))
        planned = self.said.get("planned", MOST_EPOCHS)
        plans = PROBE <= done <= REPLANNED * planned and len(epochs) > 1
        if plans:
            self.said["planned"] = planned = done + max(1, round(left / pace))
        self.said["seconds"] = self.seconds
        self.write()
        valid = "" if record.valid is None else f", valid {math.exp(record.valid):.2f}"
        self.tell(f"epoch {done} of {planned}, train {math.exp(record.train or 0.0):.2f}{valid}, "
              f"{one['seconds']:.1f} s, {record.words_per_second:,.0f} words/s")  # fmt: skip
        return planned if plans else None

    def judge(self) -> None:
        """Evaluate the best weights: by themselves, with the cache, with dynamic evaluation."""
        started = monotonic()
        model = load(self.folder).to(torch.device(self.given.device))
        texts = {"valid": self.valid}
        if self.given.test:
            texts["test"] = read(self.given.data / "test.txt.gz", self.given.lines)
        encoded = {part: EncodedText.encode(corpus, model.vocabulary) for part, corpus in texts.items()}
        found = {part: read_as_one(model, text) for part, text in encoded.items()}
        sharpness, share = chosen_cache(found["valid"])
        result: dict[str, Any] = {
            "words": {part: len(one.targets) for part, one in found.items()},
            "single": {part: -float(one.log_p.mean()) for part, one in found.items()},
            "cache": {"words": CACHE_WORDS, "sharpness": sharpness, "share": share},
        }
        for part, one in found.items():
            mixed = mixed_with_cache(one.log_p, cache_log_probs(one.h, one.targets, CACHE_WORDS, sharpness), share)
            result["cache"][part] = -float(mixed.mean())
        self.said |= {"result": result, "evaluation_seconds": monotonic() - started}
        self.write()
        if self.given.dynamic:
            result["dynamic"] = dynamic(model, EncodedText.to_train_on(self.train, model.vocabulary), encoded)
            self.said["evaluation_seconds"] = monotonic() - started
            self.write()
        for kind in (kind for kind in ("single", "cache", "dynamic") if kind in result):
            said = {part: round(math.exp(result[kind][part]), 2) for part in found if part in result[kind]}
            self.tell(f"{kind} perplexity {said}")


def chosen_cache(one: ReadText) -> tuple[float, float]:
    """Return the sharpness and the share of a cache that are best on a text."""
    best = (math.inf, 0.0, 0.0)
    for sharpness in SHARPNESS:
        log_q = cache_log_probs(one.h, one.targets, CACHE_WORDS, sharpness)
        for share in SHARES:
            best = min(best, (-float(mixed_with_cache(one.log_p, log_q, share).mean()), sharpness, share))
    return best[1:]


def dynamic(model: LLRNN, train_text: EncodedText, texts: dict[str, EncodedText]) -> dict[str, Any]:
    """Return the log-perplexity of the last text with dynamic evaluation; it is chosen on some lines of "valid"."""
    scales = gradient_scales(model, train_text, Continuous(64, 5))
    some = texts["valid"].select(np.arange(min(CHOOSE_ON, len(texts["valid"].sentences))))
    tried = {
        (step, back): -float(DocumentContext(step=step, back=back, scales=scales).log_probs(model, some).mean())
        for step in STEPS
        for back in BACK
    }
    step, back = min(tried, key=lambda pair: tried[pair])
    context = DocumentContext(step=step, back=back, scales=scales)
    said: dict[str, Any] = {"step": step, "back": back, "tried": [[*pair, nats] for pair, nats in tried.items()]}
    last = [*texts][-1]
    return said | {last: -float(context.log_probs(model, texts[last]).mean())}


def changed(settings: Settings, changes: list[str]) -> Settings:
    """Return the settings with changes such as `training.clip=1.0`, whose values are JSON."""
    pairs = (change.split("=", 1) for change in changes)
    return settings | {key: json.loads(value) for key, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="of the run; that of the variant by default")
    parser.add_argument("--minutes", type=float, default=18.0)
    parser.add_argument("--call", type=float, default=math.inf)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, help="of every part, for a trial")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=JSON")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    settings = changed(BODY | VARIANTS[given.variant], given.set)
    study = Study(given.name or given.variant, settings, given)
    if study.fit():
        study.judge()


if __name__ == "__main__":
    main()
