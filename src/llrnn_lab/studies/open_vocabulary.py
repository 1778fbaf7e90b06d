"""Four ways to have no unknown words, in bits per character: domains, UNK and a spelling model, characters, BPE.

    bits per character = −Σ log₂ p(word or end of sentence) / Σ (letters of the word + 1)

Every model gives every string a probability, and all are divided by the same number of characters. Each system is a
configuration in `configs/open/`; `tries.toml` says what each tries, the same number for all. No model has more
parameters than the first try of `llrnn`: the others are made as wide as that allows, or as a try asks for. The try that
is best on the validation text is tested, and nothing opens a test text before that choice.

Of a word that is several units the probabilities are multiplied, so words can be told apart by how often the training
text has them, whatever a system cuts them into.
"""

from __future__ import annotations

import json
import math
import sys
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.config import Config, read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import BANDS
from llrnn.model.checkpoint import load
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, walk
from llrnn.model.words import with_text_words
from llrnn.text import units
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.units import Units
from llrnn_lab.studies import open_data
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.tables import markdown, write_results

Floats = NDArray[np.float64]

STUDY = "open-vocabulary"
BUDGET = "llrnn"  # the system whose first try says how many parameters all may have
_TRIES = "tries.toml"
_VALID = "valid.json"
_WIDEST = 1 << 16
_POSITIONS = 2048  # scored at once


def systems(configs: Path) -> dict[str, tuple[Path, list[list[str]]]]:
    """The configuration of each system and the changes of its tries; all must have the same number of tries."""
    found = {path.stem: path for path in sorted(configs.glob("*.toml")) if path.name != _TRIES}
    if BUDGET not in found:
        raise ConfigError(f"{configs}: the study needs {BUDGET}.toml there, found {', '.join(found) or 'nothing'}")
    tries = _read_tries(configs / _TRIES)
    if tries.keys() != found.keys():
        raise ConfigError(
            f"{configs / _TRIES}: tries are required for each of {', '.join(sorted(found))}, "
            f"found {', '.join(sorted(tries)) or 'none'}; add or remove systems"
        )
    numbers = {name: len(one) for name, one in tries.items()}
    if len(set(numbers.values())) != 1 or 0 in numbers.values():
        raise ConfigError(f"{configs / _TRIES}: every system must have the same number of tries, found {numbers}")
    return {name: (path, tries[name]) for name, path in found.items()}


def _read_tries(path: Path) -> dict[str, list[list[str]]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: a TOML file with the tries of each system is required, found {error}") from None
    for name, tries in content.items():
        if not isinstance(tries, list) or not all(_are_changes(one) for one in tries):
            raise ConfigError(f'{path}: {name} must be a list of lists of changes, such as [["key=value"]]')
    return content


def _are_changes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(change, str) for change in value)


def jobs(prepared: Path, configs: Path, only: Sequence[str] = ()) -> list[Job]:
    """Every try of every system, made as wide as the budget allows; sizes are reckoned once and kept.

    `only` those with one of these words in their names: `["llrnn", "bpe.try0"]`.
    """
    chosen = systems(configs)
    content = b"".join(path.read_bytes() for path in sorted(configs.glob("*.toml")))
    kept = prepared / "models" / "sizes.json"
    digest = sha256(content + (prepared / "manifest.json").read_bytes()).hexdigest()
    sizes = json.loads(kept.read_bytes()) if kept.exists() else {}
    if sizes.get("digest") != digest:
        sizes = {"digest": digest, **_sizes(chosen, prepared)}
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps(sizes, indent=1).encode())
    made = []
    for name, (path, tries) in chosen.items():
        for index, changes in enumerate(tries):
            width = () if name == BUDGET else (f"controller.hidden={sizes['hidden'][name][index]}",)
            made.append(Job(f"{name}.try{index}", path, (*changes, *width), study=STUDY))
    made = [job for job in made if not only or any(word in job.name for word in only)]
    if not made:
        raise ConfigError(f"--only {' '.join(only)}: no model has such a name; the systems are {', '.join(chosen)}")
    for job in made:
        _require_same(job, kept.parent)
    return made


def _require_same(job: Job, models: Path) -> None:
    """A model that is there already must be the one that is asked for now."""
    result = job.result(models)
    if result is not None and result["changes"] != list(job.changes):
        raise ConfigError(
            f"{job.folder(models)}: a model with {list(job.changes)} is required, found one with {result['changes']}; "
            "the tries or the budget have changed since: remove that folder"
        )


def _sizes(chosen: Mapping[str, tuple[Path, list[list[str]]]], prepared: Path) -> dict[str, Any]:
    path, tries = chosen[BUDGET]
    first = Project.from_config(read_config(path, tries[0], data=prepared))
    budget = parameters(first, first.config.controller.hidden)
    hidden = {
        name: [_width(path, one, prepared, budget) for one in tries]
        for name, (path, tries) in chosen.items()
        if name != BUDGET
    }
    return {"budget": budget, "hidden": hidden}


def _width(path: Path, changes: Sequence[str], prepared: Path, budget: int) -> int:
    """As wide as the budget allows; no wider than a try asks for that says how wide it is."""
    project = Project.from_config(read_config(path, changes, data=prepared))
    most = widest(project, budget)
    asked = any(change.startswith("controller.hidden=") for change in changes)
    return min(most, project.config.controller.hidden) if asked else most


def parameters(project: Project, hidden: int) -> int:
    """How many parameters the model has with so many hidden units."""
    controller = project.config.controller.model_copy(update={"hidden": hidden})
    config = project.config.model_copy(update={"controller": controller})
    model = replace(project, config=config, corpora={}, others=()).model()
    return sum(parameter.numel() for parameter in model.parameters())


def widest(project: Project, budget: int) -> int:
    """The most hidden units with which the model has no more parameters than the budget."""
    one, two, three = (parameters(project, hidden) for hidden in (1, 2, 3))
    bend = one - 2 * two + three  # the number is a polynomial of second degree: three models say it all

    def count(hidden: int) -> int:
        return one + (hidden - 1) * (two - one) + (hidden - 1) * (hidden - 2) // 2 * bend

    found = bisect_right(range(1, _WIDEST), budget, key=count)
    if found == 0:
        raise ConfigError(
            f"{project.config.name}: {one} parameters are needed for one hidden unit, but the budget is {budget}; "
            f"make {BUDGET} larger, or the vocabulary smaller"
        )
    return found


def commands(prepared: Path, configs: Path, device: str = "cpu", *, python: str = sys.executable) -> list[list[str]]:
    """What trains every model, as command lines for a machine that has the prepared folder and nothing else."""
    out = prepared / "models"
    made = []
    for job in jobs(prepared, configs):
        changes = [word for change in job.changes for word in ("--set", change)]
        model = [str(job.config), "--name", job.name, *changes]
        places = ["--data", str(prepared), "--out", str(out), "--device", device]
        program = [python, "-c", "from llrnn.cli import main; main()"]
        made.append([*program, "experiment", "model", *model, "--study", STUDY, *places])
    return made


@torch.no_grad()
def word_log_probs(model: LLRNN, corpus: Corpus, cut: Units | None = None) -> list[Floats]:
    """log p of every word of each sentence and of its end, in the order of the text, (words + 1,) for each."""
    unknown = model.vocabulary.unknown
    if unknown is not None:
        raise ConfigError(
            f"every word must have a probability of its own, but this model counts all unknown words as {unknown!r}; "
            "give it a domain that spells them instead of vocabulary.unknown"
        )
    read, window = corpus if cut is None else cut.corpus(corpus), model.background.text_before
    read = read.running(window) if window else read
    ready = with_text_words(model, read)
    found = _in_order(ready, EncodedText.encode(read, ready.vocabulary))
    if cut is None:
        return found
    return [_of_words(log_probs, sentence.words, cut) for log_probs, sentence in zip(found, corpus, strict=True)]


def _in_order(model: LLRNN, text: EncodedText) -> list[Floats]:
    """Batches hold sentences in an order of their own; a twin whose conditions are numbers says which."""
    batching = Sentences(_POSITIONS)
    twin = replace(text, conditions=tuple(range(len(text.sentences))))
    found: dict[object, Floats] = {}
    for (batch, distribution), numbered in zip(walk(model, text, batching), batching.plan(twin), strict=True):
        log_probs = model.targets_log_prob(distribution, batch).double().cpu().numpy()
        rows = np.split(log_probs, batch.mask.sum(1).cumsum(0).cpu().numpy()[:-1])
        assert numbered.conditions is not None
        found |= dict(zip(numbered.conditions, rows, strict=True))
    return [found[number] for number in range(len(text.sentences))]


def _of_words(log_probs: Floats, words: Sequence[str], cut: Units) -> Floats:
    """Sums over the units of each word, with what they leave open; the last is the end of the sentence."""
    lengths = [len(cut.of(word)) for word in words]
    starts = np.cumsum([0, *lengths])
    inside = [*(cut.log_inside(word) for word in words), 0.0]
    return np.asarray(np.add.reduceat(log_probs, starts) + inside, dtype=np.float64)


def figures(log_probs: Sequence[Floats], corpus: Corpus, seen: Counter[str]) -> dict[str, Any]:
    """Bits per character of a text, and by how often the training text has the word."""
    rows = [
        (_band(seen[word]), len(word) + 1, log_p)
        for sentence, found in zip(corpus, log_probs, strict=True)
        for word, log_p in zip(sentence.words, found[:-1].tolist(), strict=True)
    ]
    rows += [("ends", 0, float(found[-1])) for found in log_probs]  # the line end is the last word's character
    bands = [name for _, _, name in BANDS] + ["ends"]
    whole = _part(rows)
    return {
        **whole,
        "log_perplexity": whole["bits"] * math.log(2) / max(1, len(rows)),
        "by_band": {band: _part([row for row in rows if row[0] == band]) for band in bands},
    }


def _band(count: int) -> str:
    return next(name for low, high, name in BANDS if low <= count and (high is None or count <= high))


def _part(rows: Sequence[tuple[str, int, float]]) -> dict[str, Any]:
    characters = sum(length for _, length, _ in rows)
    bits = -sum(log_p for _, _, log_p in rows) / math.log(2)
    per_character = bits / characters if characters else None
    return {"words": len(rows), "characters": characters, "bits": bits, "bits_per_character": per_character}


def evaluate_folder(
    folder: Path, texts: Mapping[str, Corpus], seen: Counter[str], *, cut: Units | None = None, device: str = "cpu"
) -> dict[str, dict[str, Any]]:
    """The figures of a saved model on some texts; of its data only the units are needed, and counts for the bands."""
    model = load(folder).to(torch.device(device))
    return {name: figures(word_log_probs(model, corpus, cut), corpus, seen) for name, corpus in texts.items()}


def run(
    data: Path,
    out: Path,
    languages: Sequence[str] = tuple(open_data.LANGUAGES),
    configs: Path = Path("configs/open"),
    *,
    processes: int = 1,
    device: str = "cpu",
    sentences: int | None = None,
    vectors: Path | None = None,
    only: Sequence[str] = (),
    seeds: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Prepare, train what is missing, choose, test; what is done already is not done again.

    With more `seeds` than one, the chosen try of each system is trained with each of them. `vectors` is a file of word
    vectors: other texts and vectors are prepared too, for configurations that read them.
    `only` models with one of these words in their names are trained, compared and tested.
    """
    for language in languages:
        open_data.prepare(data, out / language, language, tell=tell, sentences=sentences, vectors=vectors)
    for language in languages:
        prepared = out / language
        wanted = jobs(prepared, configs, only)
        models = prepared / "models"
        run_jobs(wanted, data=prepared, out=models, device=device, parallel=processes, tell=tell)
        again = [job for jobs in seeded(wanted, prepared, seeds, device).values() for job in jobs]
        run_jobs(again, data=prepared, out=models, device=device, parallel=processes, tell=tell)
        result = chosen_and_tested(data, prepared, language, configs, only, seeds=seeds, device=device)
        write_atomically(prepared / "result.json", json.dumps(result, ensure_ascii=False, indent=1).encode())
    return gathered(out)


def gathered(out: Path) -> dict[str, Any]:
    """The results of all languages that have any, also as one table, `open-vocabulary.json` and `.md`."""
    found = [out / language / "result.json" for language in open_data.LANGUAGES]
    results = {path.parent.name: json.loads(path.read_bytes()) for path in found if path.exists()}
    write_results(out, "open-vocabulary", results, table(results))
    return results


def chosen_and_tested(
    data: Path,
    prepared: Path,
    language: str,
    configs: Path,
    only: Sequence[str] = (),
    *,
    seeds: int = 1,
    device: str = "cpu",
) -> dict[str, Any]:
    """Choose a try of each system on the validation text; only when all are chosen, open the tests."""
    wanted = jobs(prepared, configs, only)
    tries: dict[str, list[dict[str, Any]]] = {}
    for job in wanted:
        tries.setdefault(job.config.stem, []).append(_validated(job, prepared, device))
    chosen = {name: _best(found) for name, found in tries.items()}
    further = {
        name: [_validated(job, prepared, device) for job in again]
        for name, again in seeded(wanted, prepared, seeds, device).items()
    }
    texts = open_data.test_corpora(data, language)
    seen = _text(prepared, "train").counts()
    made: dict[str, Any] = {}
    for name, index in chosen.items():
        one = tries[name][index]
        models, cut = prepared / "models", _units(prepared, one["units"])
        tests = evaluate_folder(models / one["folder"], texts, seen, cut=cut, device=device)
        made[name] = {"chosen": index, "parameters": one["parameters"], "tries": tries[name], "tests": tests}
        if seeds > 1:
            again = [
                evaluate_folder(models / other["folder"], texts, seen, cut=cut, device=device)
                for other in further[name]
            ]
            made[name]["seeds"] = [
                {"valid": other["valid"], "tests": found} for other, found in zip(further[name], again, strict=True)
            ]
    sizes = json.loads((prepared / "models" / "sizes.json").read_bytes())
    return {"language": language, "budget": sizes["budget"], "systems": made}


def seeded(wanted: Sequence[Job], prepared: Path, seeds: int, device: str) -> dict[str, list[Job]]:
    """The chosen try of each system with the other seeds."""
    found: dict[str, list[Job]] = {}
    for job in wanted if seeds > 1 else ():
        found.setdefault(job.config.stem, []).append(job)
    best = {name: tries[_best([_validated(job, prepared, device) for job in tries])] for name, tries in found.items()}
    return {name: [replace(job, seed=seed) for seed in range(1, seeds)] for name, job in best.items()}


def _best(tries: Sequence[Mapping[str, Any]]) -> int:
    return min(range(len(tries)), key=lambda index: float(tries[index]["valid"]["bits_per_character"]))


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train a model (or go on training it), validate it, and write both; no test is opened."""
    found = trained(job, data=data, out=out, device=device)
    result = found.write(job.folder(out), {"tests": {}, "classes": found.model.output_features.n_classes})
    _validation(job, found.config, found.model, result, data=data, out=out)
    return result


def _validated(job: Job, prepared: Path, device: str) -> dict[str, Any]:
    """What a trained model is, and its figures on the validation text."""
    models = prepared / "models"
    result = job.result(models)
    if result is None:
        raise ConfigError(f"{job.folder(models)}: the model must be trained before it is chosen; run the study again")
    kept = job.folder(models) / _VALID
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_bytes())
        return found
    config = read_config(job.config, job.changes, data=prepared)
    model = load(job.folder(models)).to(torch.device(device))
    return _validation(job, config, model, result, data=prepared, out=models)


def _validation(
    job: Job, config: Config, model: LLRNN, result: Mapping[str, Any], *, data: Path, out: Path
) -> dict[str, Any]:
    """Figures on the validation text, kept in the model's folder."""
    name, corpus, seen = units_of(config), _text(data, "valid"), _text(data, "train").counts()
    of_valid = figures(word_log_probs(model.eval(), corpus, _units(data, name)), corpus, seen)
    found = {
        "folder": job.folder(out).name,
        "changes": list(job.changes),
        "units": name,
        "hidden": config.controller.hidden,
        **{key: result[key] for key in ("parameters", "epochs", "seconds")},
        "valid": of_valid,
    }
    write_atomically(job.folder(out) / _VALID, json.dumps(found, ensure_ascii=False, indent=1).encode())
    return found


def units_of(config: Config) -> str | None:
    """The folder of units that a configuration trains on; None for words."""
    folder = Path(config.corpus.train[0]).parent
    return folder.name if (folder / "units.json").exists() else None


def _units(prepared: Path, name: str | None) -> Units | None:
    return None if name is None else units.load(prepared / name / "units.json")


def _text(prepared: Path, part: str) -> Corpus:
    return Corpus.from_file(prepared / f"{part}.conllu", lowercase=True)


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A table for each language and test: bits per character of the whole text and by band, a row for each system.

    Where systems were trained with several seeds, the means over them.
    """
    parts = []
    for language, result in results.items():
        found = result["systems"]
        for test in next(iter(found.values()))["tests"]:
            parts.append(f"{language}, {test}: bits per character; budget {result['budget']:,} parameters\n")
            parts.append(_table(found, test))
    return "\n".join(parts)


def _table(found: Mapping[str, Mapping[str, Any]], test: str) -> str:
    bands = [name for _, _, name in BANDS]
    some = next(iter(found.values()))["tests"][test]["by_band"]
    header = ["system", "parameters", "valid", "test", *(f"{band} (n = {some[band]['words']:,})" for band in bands)]
    rows = []
    for name, one in found.items():
        valid, tested = over_seeds(one, test)
        cells = [valid, tested, *(tested["by_band"][band] for band in bands)]
        rows.append([name, f"{one['parameters']:,}", *map(_cell, cells), f"{tested['log_perplexity']:.3f}"])
    return markdown([*header, "nats a word"], rows)


def over_seeds(system: Mapping[str, Any], test: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of the chosen try on the validation text and on a test, each the mean over its seeds."""
    first = {"valid": system["tries"][system["chosen"]]["valid"], "tests": system["tests"]}
    all_of_it = [first, *system.get("seeds", ())]
    return _mean([one["valid"] for one in all_of_it]), _mean([one["tests"][test] for one in all_of_it])


def _mean(figures: Sequence[Any]) -> Any:
    """Of numbers, by their names."""
    if isinstance(figures[0], Mapping):
        return {name: _mean([one[name] for one in figures]) for name in figures[0]}
    return None if figures[0] is None else sum(figures) / len(figures)


def _cell(part: Mapping[str, Any]) -> str:
    value = part["bits_per_character"]
    return "–" if value is None else f"{value:.3f}"
