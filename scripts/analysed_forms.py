"""Estonian forms and attributes by vabamorf: python scripts/analysed_forms.py DATA OUT (needs `estnltk`)

DATA is the folder `et` that `llrnn experiment open-vocabulary` has prepared. OUT gets its texts; frequencies.tsv, with
all forms of the lemmas of the training text beside those that DATA lists; and lexicon.tsv, the attributes of all of
them, for configs/analysers/estonian.toml.

    f(x) = λ f_list(x) + (1 − λ) f_forms(x)        f_forms(x) ∝ √(Σ √n(lemma) q(x)) over the lemmas of x

q: the spelling of rare words. λ is that under which words seen once are likeliest, where a word does not count for its
own lemma.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from llrnn.config.wordlists import Frequencies, is_form, weighted_by_spelling, write_frequencies
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon, read_frequencies
from llrnn.text.morphology import _ESTONIAN_NOUNS, _ESTONIAN_VERBS, Vabamorf

NOMINAL = "SACUHPNO"  # classes of words that have cases
OFTEN = 5  # how often a word is seen whose annotation counts, beside the analyser's
ROUNDS, LEAST = 60, 1e-12

Lemma = tuple[str, str]  # and its class


def lemmas_of(tool: Vabamorf, words: list[str]) -> dict[str, set[Lemma]]:
    found = tool._analyze(words, disambiguate=False, guess=False, propername=False)
    return {
        word: {(one["lemma"], one["partofspeech"]) for one in own["analysis"]}
        for word, own in zip(words, found, strict=True)
    }


def forms_of(lemma: str, kind: str) -> list[str]:
    """All forms of a lemma."""
    tags = _ESTONIAN_VERBS if kind == "V" else _ESTONIAN_NOUNS if kind in NOMINAL else {}
    synthesize = importlib.import_module("estnltk.vabamorf.morf").synthesize
    made = (form.replace("_", "").lower() for tag in tags for form in synthesize(lemma, tag, kind))
    return [form for form in made if is_form(form)]


def weighed(of_word: dict[str, set[Lemma]], seen: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """Σ √n over the lemmas of each form, and the same where the form does not count for itself."""
    n: Counter[Lemma] = Counter()
    for word, lemmas in of_word.items():
        n.update({lemma: seen[word] / len(lemmas) for lemma in lemmas})
    forms, others = Counter[str](), Counter[str]()
    for (lemma, kind), count in n.items():
        for form in forms_of(lemma, kind):
            own = seen[form] / len(of_word[form]) if (lemma, kind) in of_word.get(form, ()) else 0.0
            forms[form] += count**0.5
            others[form] += max(0.0, count - own) ** 0.5
    return forms, others


def mixed(listed: Frequencies, forms: Frequencies, for_others: Frequencies, seen: Counter[str]) -> Frequencies:
    """Both lists; `for_others` is the share of each form's weight that is not its own."""
    mass = [sum(f for form, f in one.items() if seen[form] <= 1) for one in (listed, forms)]
    once = [word for word, count in seen.items() if count == 1 and is_form(word)]
    f = np.array([[listed.get(w, 0.0) / mass[0], forms.get(w, 0.0) * for_others.get(w, 0.0) / mass[1]] for w in once])
    f, share = f[f.sum(1) > 0], np.array([0.5, 0.5])
    for _ in range(ROUNDS):
        joint = f * share
        share = (joint / joint.sum(1, keepdims=True)).mean(0)
    made: dict[str, float] = {}
    for one, scale in zip((listed, forms), (share / mass).tolist(), strict=True):
        for form, value in one.items():
            made[form] = made.get(form, 0.0) + scale * value
    total = sum(made.values())
    return {form: max(value / total, LEAST) for form, value in made.items()}


def attributes(tool: Vabamorf, words: set[str], train: Corpus) -> dict[str, set[str]]:
    """What vabamorf says of words, and what the annotation says of those that are seen often."""
    found = {word: {name for _, names, _ in tool.readings(word) for name in names} for word in words if is_form(word)}
    annotated = Lexicon.from_corpus(train)
    for word, count in train.counts().items():
        if count >= OFTEN and is_form(word):
            found[word] = found.get(word, set()) | {*annotated(word)}
    told = {word: {name for name in names if not name.startswith("Compound:")} for word, names in found.items()}
    return {word: names for word, names in told.items() if names}


def main() -> None:
    data, out = map(Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    tool, train = Vabamorf(), Corpus.from_file(data / "train.conllu", lowercase=True)
    seen = train.counts()
    forms, others = weighed(lemmas_of(tool, [word for word in seen if is_form(word)]), seen)
    for_others = {form: float((others[form] / forms[form]) ** 0.5) for form in forms}
    made = weighted_by_spelling(dict(forms), train)
    listed = mixed(read_frequencies(data / "frequencies.tsv"), made, for_others, seen)
    write_frequencies(out / "frequencies.tsv", listed)
    Lexicon.from_mapping(attributes(tool, {*listed, *seen}, train)).to_tsv(out / "lexicon.tsv")
    for part in ("train", "valid"):
        shutil.copy(data / f"{part}.conllu", out)
    sys.stdout.write(f"{len(forms):,} forms of lemmas, {len(listed):,} listed: {out}\n")


if __name__ == "__main__":
    main()
