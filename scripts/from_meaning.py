"""What `llrnn init` and nothing else makes of dialogue acts, beside what a product team would take instead.

    python scripts/from_meaning.py ../shared/data OUT [--seeds 1] [--shares 100 20 5]
    python scripts/from_meaning.py ../shared/data OUT --small
    python scripts/from_meaning.py ../shared/data OUT --lm smollm2 [--acts 300]

Restaurant acts of RNNLG. For every share of the training pairs (in percent) and seed: `llrnn init`, `llrnn train`, and
what is written from the acts of valid, test and unseen (the test with new names and telephone numbers), by a judge that
has learnt from the validation pairs. `--small`: one layer of 64 units, ten epochs, all pairs, with the knowledge of
facts without words of their own and without it, from the acts of valid alone.

`--lm`: a frozen language model that has `SHOTS` training pairs and the act in its prompt, for the first acts
of the test; the pairs are those whose facts are nearest to the act's, the nearest last; greedy, up to the line's end.
Beside it people, templates and the drafted model of seed 0 on the same acts.

Rivals: *templates* made from the training pairs, *delexicalised*, a softmax over text with placeholders
(`configs/nlg/delexicalised.toml`) that are filled in afterwards, and *people*, the references. What is trained already
is not trained again; OUT/nlg-said.json is the result.

A template is a training text with values as placeholders; its key are the act's kind, slots and worded values. An act
gets the most frequent text of the largest key that fits into it, and another one for what is left.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import llrnn
from llrnn.inference.meanings import bleu, references_of
from llrnn.inference.saying import KINDS, Judge
from llrnn.model.decode import beam_search_each, errors, prepared, write
from llrnn.text.conditions import ACT, Fact, facts_of, is_literal
from llrnn.text.corpus import delexicalise
from llrnn_lab.studies.nlg_data import as_lines, relexicalise, write_parts
from llrnn_lab.studies.nlg_scores import announced, placeholder_errors

TEXTS = ("valid", "test", "unseen")
SLOTS = ("name", "phone", "address", "postcode", "near", "area", "count", "price", "food", "pricerange", "goodformeal")
SMALL = ("controller.hidden=64", "controller.layers=1", "condition.size=48", "training.epochs=10")
SHOTS = 10  # training pairs in a prompt
Key = frozenset[tuple[Fact, int]]


def opened(path: Path) -> llrnn.Corpus:
    return llrnn.Corpus.from_file(path, lowercase=True, conditions="act")


class Templates:
    """The most frequent delexicalised text for every kind of act with its slots."""

    def __init__(self, corpus: llrnn.Corpus) -> None:
        self.slots = {slot for one in corpus for slot, value in facts_of(one.condition) if is_literal((slot, value))}
        texts = defaultdict[Key, Counter[tuple[str, ...]]](Counter)
        for sentence in delexicalise(corpus, self.slots):
            texts[key_of(sentence.condition)][sentence.words] += 1
        self.best = {key: max(found, key=lambda text: (found[text], text)) for key, found in texts.items()}

    def write(self, act: object) -> list[str]:
        """Return the words of the text for an act; several texts are joined by a full stop."""
        left, texts = Counter(dict(key_of(act))), list[tuple[str, ...]]()
        while +left:
            fitting = [key for key in self.best if all(left[fact] >= n for fact, n in key)]
            key = max(fitting, key=lambda one: (sum(n for _, n in one), self.best[one]), default=Key())
            texts += [self.best[key]] if key else []
            said = {fact: n for fact, n in key if fact[0] != ACT}
            left.subtract(said)  # the kind of the act stays, for the next text
            if not said:
                break
        return relexicalise([word for text in texts for word in (*text, ".")][:-1], act)


def key_of(act: object) -> Key:
    facts = ((slot, "=") if is_literal((slot, value)) else (slot, value) for slot, value in facts_of(act))
    return frozenset(Counter(facts).items())


def measured(judge: Judge, text: llrnn.Corpus, outputs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the judge's counts by sort of fact, BLEU, the authors' slot errors, and values in another slot's frame."""
    found = {sort: Counter[str]() for sort in ("values", "worded", "kinds of acts")}
    for sentence, words in zip(text, outputs, strict=True):
        for one in judge.verdicts(sentence.condition, words):
            literal = is_literal((one.slot, one.value))
            sort = "kinds of acts" if one.slot == ACT else "values" if literal else "worded"
            found[sort][one.kind] += 1
    acts = [sentence.condition for sentence in text]
    frames = [announced(act, words) for act, words in zip(acts, outputs, strict=True)]
    theirs = [placeholder_errors(act, words) for act, words in zip(acts, outputs, strict=True)]
    facts = {sort: {kind: own[kind] for kind in KINDS} for sort, own in found.items()}
    return {
        "facts": facts,
        "wrong": wrong(facts),
        "bleu": bleu(references_of(text), outputs),
        "their slot errors": sum(one.missing + one.redundant for one in theirs) / sum(one.required for one in theirs),
        "announced": sum(count for count, _ in frames),
        "misplaced": sum(wrong for _, wrong in frames),
        "misplaced as read": sum(
            announced(act, words, as_read=True)[1] for act, words in zip(acts, outputs, strict=True)
        ),
    }


def wrong(facts: dict[str, dict[str, int]]) -> dict[str, float]:
    """Return which share of each sort of facts, and of all, is neither said nor unsure, in percent."""
    sorts = facts | {"all": {kind: sum(own[kind] for own in facts.values()) for kind in KINDS}}
    right = ("said", "unsure")
    return {
        sort: 100 * sum(n for kind, n in own.items() if kind not in right) / max(sum(own.values()), 1)
        for sort, own in sorts.items()
    }


def trained(
    folder: Path, data: Path, share: int, seed: int, config: Path | None, small: Sequence[str] = (), drop: str = ""
) -> llrnn.LLRNN:
    """Return the model of a folder, drafted and trained where it is not there yet; `config`: instead of a draft.

    `small`: settings in place of the draft's; `drop`: text that is taken out of it.
    """
    part = "train" if share == 100 else f"train-{share}"
    command = [sys.executable, "-m", "llrnn"]
    if not (folder / "model").exists():
        folder.mkdir(parents=True, exist_ok=True)
        drafted = folder / "drafted.toml"
        extra = ["--set", f'corpus.train=["{{data}}/{part}.jsonl"]'] if config else []
        extra += [word for one in small for word in ("--set", one)]
        if config is None:
            texts = [str(data / f"{part}.jsonl"), "--valid", str(data / "valid.jsonl")]
            subprocess.run([*command, "init", *texts, "--out", str(drafted)], check=True)
            given = drafted.read_text()
            drafted.write_text(re.sub(drop, "", given) if drop else given)
        asked = ["train", str(config or drafted), "--data", str(data), "--out", str(folder / "model"), *extra]
        subprocess.run([*command, *asked, "--seed", str(seed), "--quiet"], check=True)
    return llrnn.load(folder / "model")


def filled(model: llrnn.LLRNN, acts: Sequence[object]) -> list[Sequence[str]]:
    """Return what a delexicalised model writes from acts, with their values in place of placeholders.

    Of the five texts of a beam the first with the fewest `errors`, once it is filled in: as our own are chosen.
    """
    found = list[Sequence[str]]()
    for act in acts:
        (texts,) = beam_search_each(prepared(model, [act]), [act])
        found.append(min((relexicalise(one.words, act) for one in texts), key=partial(errors, act)))
    return found


def prompted(lm: llrnn.LLRNN, train: llrnn.Corpus, acts: Sequence[object]) -> list[Sequence[str]]:
    """Return what a language model writes behind the training pairs that are nearest to each act."""
    known = [(frozenset(facts_of(one.condition)), frozenset(dict(key_of(one.condition))), one) for one in train]

    def written(act: object) -> Sequence[str]:
        facts, key = frozenset(facts_of(act)), frozenset(dict(key_of(act)))
        near = sorted(known, key=lambda own: (-len(key ^ own[1]), len(facts & own[0])))[-SHOTS:]
        shown = [f"Act: {one.condition}\nText: {' '.join(one.words)}\n" for _, _, one in near]
        prompt = "\n".join([*shown, f"Act: {act}\nText:"])
        (found,) = llrnn.generate(lm, prompt, greedy=True, max_words=60)
        return found.text[len(prompt) :].partition("\n")[0].split()

    return [written(act) for act in acts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shares", type=int, nargs="+", default=[100, 20, 5])
    parser.add_argument("--texts", nargs="+", default=list(TEXTS), choices=TEXTS)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lm")
    parser.add_argument("--acts", type=int, default=300)
    given = parser.parse_args()
    given.texts = ["valid"] if given.small else given.texts if given.lm is None else ["test"]
    data = given.out / "data"
    write_parts(data, given.data / "rnnlg_restaurant", sorted({*given.shares, 100}))
    texts = {name: opened(data / f"{name}.jsonl") for name in given.texts}
    every = [one.condition for text in texts.values() for one in text]
    judge = Judge.fit(opened(data / "valid.jsonl"), every)
    result = given.out / "nlg-said.json"
    found: dict[str, dict[str, Any]] = json.loads(result.read_text()) if result.exists() else {}

    def add(name: str, outputs: dict[str, list[Sequence[str]]]) -> None:
        found.setdefault(name, {}).update({text: measured(judge, texts[text], own) for text, own in outputs.items()})
        result.write_text(json.dumps(found, indent=1) + "\n")
        sys.stdout.write(f"{name} {json.dumps(found[name])}\n")

    if given.small:
        for name, drop in (("small", ""), ("small-without", r'\[\[contextual\]\]\nkind = "worded".*\n')):
            model = trained(given.out / name, data, 100, 0, None, SMALL, drop)
            add(name, {"valid": [one.words for one in write(model, texts["valid"].conditions)]})
        return
    if given.lm is not None:
        lm, train = llrnn.open_lm(given.lm), opened(data / "train.jsonl")
        texts = {name: text[: given.acts] for name, text in texts.items()}
        add(f"prompted-{given.lm}", {name: prompted(lm, train, text.conditions) for name, text in texts.items()})
        add(f"people-of-{given.acts}", {name: [one.words for one in text] for name, text in texts.items()})
        templates, ours = Templates(train), trained(given.out / "init-100-0", data, 100, 0, None)
        for name, text in texts.items():
            add(f"templates-of-{given.acts}", {name: [templates.write(act) for act in text.conditions]})
            add(f"init-of-{given.acts}", {name: [one.words for one in write(ours, text.conditions)]})
        return
    add("people", {name: [one.words for one in text] for name, text in texts.items()})
    delexicalised = Path(__file__).parents[1] / "configs" / "nlg" / "delexicalised.toml"
    bare = given.out / "delexicalised"
    bare.mkdir(exist_ok=True)
    for share in given.shares:
        part = "train" if share == 100 else f"train-{share}"
        for name in (part, "valid"):
            (bare / f"{name}.jsonl").write_bytes(as_lines(delexicalise(opened(data / f"{name}.jsonl"), SLOTS)))
        templates = Templates(opened(data / f"{part}.jsonl"))
        add(
            f"templates-{share}",
            {name: [templates.write(one.condition) for one in text] for name, text in texts.items()},
        )
        for seed, system in chain(((seed, "init") for seed in range(given.seeds)), [(0, "delexicalised")]):
            name = f"{system}-{share}-{seed}"
            if {*given.texts} <= found.get(name, {}).keys():
                continue
            if system == "init":
                model = trained(given.out / name, data, share, seed, None)
                add(name, {k: [one.words for one in write(model, text.conditions)] for k, text in texts.items()})
            else:
                model = trained(given.out / name, bare, share, seed, delexicalised)
                add(name, {k: filled(model, text.conditions) for k, text in texts.items()})


if __name__ == "__main__":
    main()
