"""The data of the French model that ships (models/french): only what may be given away, and nothing of the test.

    python scripts/french_model.py ../shared/data runs/french          (DATA, OUT)
    llrnn train configs/french/llrnn.toml --data runs/french --out runs/french/llrnn
    llrnn train configs/french/softmax.toml --data runs/french --out runs/french/softmax
    python scripts/french_model.py runs/french                         into models/french, matrices in 16 bits
    python scripts/french_model.py figures ../shared/data runs/french  figures.json there, and the table of its card

    train, valid (.conllu)     UD French GSD of 2020 and UD's dev (CC BY-SA 4.0); valid is the end of train
    other-novels.txt           ten novels, 1840 to 1920 (public domain), cut as the treebank is
    other-spoken.txt           UD French Rhapsodie and ParisStories (CC BY-SA 4.0), PUD (CC BY-SA 3.0)
    written.conllu             UD's dev as it is written: from it the model learns to read text as it is typed
    frequencies.tsv            the 60,000 likeliest forms of wordfreq (CC BY-SA 4.0)
    lexicon.tsv                what forms can be: the treebanks' annotation, and Debian's hunspell-fr (MPL-2.0)
    agreement.json.gz          readings of these words, and which role comes where

test.conllu is UD's test of GSD: nothing is learnt from it. The older GSD has lost its features, so attributes come from
the other treebanks. Left out for their licences: Sequoia, FQB and Lefff (LGPL-LR), ParTUT and Wikipedia as Babelscape
cut it (non-commercial); ALTS, as its French is of other centuries.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from heapq import nlargest
from itertools import chain
from pathlib import Path
from typing import Any

import llrnn
from agreement_data import beside, raw, with_genders
from llrnn import LLRNN, Corpus, Lexicon
from llrnn.config.wordlists import from_wordfreq, is_form, joined, write_frequencies
from llrnn.ground.bundle import has_bundle
from llrnn.ground.files import write_atomically, write_lines
from llrnn.inference.pairs import score_pairs
from llrnn.text.raw import contracted, tokeniser_for
from llrnn.text.readers import Sentence, conllu_lines
from llrnn_agreement import Agreement, AgreementRules
from llrnn_lab.pairs.suites import BETWEEN, read_suite
from llrnn_lab.studies.french_texts import Contractions, sentences
from llrnn_lab.studies.prepare import write_text
from llrnn_morphology import hunspell, hunspell_readings

CARD = Path(__file__).parents[1] / "models" / "french" / "README.md"
PACKAGE = CARD.with_name("llrnn_french")
BEGIN, END = "<!-- figures: scripts/french_model.py figures -->", "<!-- end of figures -->"
TRAINED = {"llrnn": "fr", "softmax": "fr-softmax"}  # folders of OUT, and the names in the package
TEXT = "La voiture de mon voisin est très puissante. L'homme que les voisins ont vu est parti en 1984 à Zorglubville."
PAIRS = 40  # of the suite one in so many
DICTIONARY = "/usr/share/hunspell/fr.dic"
VALIDATION = 728  # sentences, as in the paper
LISTED = 60_000  # forms of wordfreq
OFTEN = 5  # a word of the text that is seen so often is what the text says


def main(data: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    old, new = data / "ud_french_gsd", data / "ud_french"
    (out / "written.conllu").write_bytes((new / "fr_gsd-ud-dev.conllu").read_bytes())
    tokeniser = tokeniser_for(str(out / "written.conllu"), [])
    assert tokeniser is not None
    in_two = Corpus.from_file(old / "fr_gsd-train.conllu", lowercase=True)
    train, valid = contracted(in_two, tokeniser.contractions).split(len(in_two) - VALIDATION)
    dev, test = (_read([new / f"fr_gsd-ud-{part}.conllu"]) for part in ("dev", "test"))
    spoken = [one for name in ("parisstories", "pud", "rhapsodie") for one in sorted(new.glob(f"fr_{name}-*.conllu"))]
    known = Corpus.from_sentences([*_read(spoken), *dev])
    text = Corpus.from_sentences([*train, *dev])
    for part, corpus in {"train": text, "valid": valid, "test": test}.items():
        write_lines(out / f"{part}.conllu", conllu_lines(corpus))
    novels = sorted((data / "novels_french").glob("*.gz"))
    as_the_text = Contractions(in_two)  # its clitics and signs
    lines = [
        as_the_text.written_out(one, contracted=False)
        for path in novels
        for line in _lines(path)
        for one in sentences(line)
    ]
    write_text(out / "other-novels.txt", lines)
    write_text(out / "other-spoken.txt", (one.words for one in known[: len(known) - len(dev)]))
    likely = nlargest(LISTED, ((f, form) for form, f in from_wordfreq("fr").items() if is_form(form)))
    listed = joined({"wordfreq": {form: f for f, form in likely}}, train)
    write_frequencies(out / "frequencies.tsv", listed)
    words = {word for word in (*text.counts(), *known.counts(), *listed) if is_form(word)}
    _lexicon(train, known, words).to_tsv(out / "lexicon.tsv")
    _agreement(known, text, words, novels).to_file(out / "agreement.json.gz")


def _read(paths: list[Path]) -> Corpus:
    """Words as they are written, du and not de le, since a reader of the model types them so."""
    return Corpus.from_file(paths, lowercase=True, surface=True)


def _lines(path: Path) -> list[str]:
    import gzip

    return gzip.decompress(path.read_bytes()).decode("utf8").splitlines()


def _lexicon(train: Corpus, known: Corpus, words: set[str]) -> Lexicon:
    """What treebanks with features and the dictionary say, and the parts of speech of frequent words of the text."""
    counts, annotated = train.counts(), Lexicon.from_corpus(train)
    often = {word: annotated(word) for word in words if counts[word] >= OFTEN and annotated(word)}
    told = Lexicon.from_corpus(known)
    found = hunspell(DICTIONARY, forms=words) | Lexicon.from_mapping(often)
    return found | Lexicon.from_mapping({word: told(word) for word in words if told(word)})


def _agreement(known: Corpus, text: Corpus, words: set[str], novels: list[Path]) -> Agreement:
    rules = AgreementRules.named("french")
    readings = hunspell_readings(DICTIONARY, words, lemmas=rules.lemmas)
    read = chain(raw(novels), (one.words for one in chain(known, text)))
    sentences: list[Sentence] = list(known)
    return Agreement.estimated(rules, sentences, beside(sentences, with_genders(readings, read)))


def pack(out: Path) -> None:
    """Write the trained models into the package; what they have read is counted in its card, and not carried."""
    for trained, name in TRAINED.items():
        if not has_bundle(out / trained, "model"):
            continue
        model = llrnn.load(out / trained)
        model.training_summary = None
        model.save(PACKAGE / name, half=True)


def figures(data: Path, out: Path) -> None:
    """Write down what the packed models are worth, in figures.json and in the card.

    On the test, which no choice was made by, before and after they were packed, and on minimal pairs.
    """
    test, found = Corpus.from_file(out / "test.conllu"), {}
    for trained, name in TRAINED.items():
        if has_bundle(out / trained, "model"):
            found[name] = _figures(llrnn.load(out / trained), llrnn.load(PACKAGE / name), out / trained, test, data)
    rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 4))
    write_atomically(CARD.with_name("figures.json"), (json.dumps(rounded, indent=1) + "\n").encode())
    before, _, rest = CARD.read_text(encoding="utf8").partition(BEGIN)
    rows = [(label, *(tell(one) for one in rounded.values())) for label, tell in ROWS.items()]
    table = [("", *(f"`{name}`" for name in rounded)), ("---",) * (1 + len(rounded)), *rows]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in table)
    write_atomically(CARD, f"{before}{BEGIN}\n\n{lines}\n{END}{rest.partition(END)[2]}".encode())


def _figures(before: LLRNN, after: LLRNN, run: Path, test: Corpus, data: Path) -> dict[str, Any]:
    suite = data / "pairs_french" / "gender_at_a_distance.tsv.gz"
    pairs = replace(score_pairs(after, read_suite(suite, after)[::PAIRS]), bands=BETWEEN).summary()
    epochs = [record for record in llrnn.Records.read(run) if record.event == "epoch"]
    tested = llrnn.evaluate(after, test)
    return {
        "epochs": len(epochs),
        "words": after.vocabulary.n_words,
        "classes": after.output_features.n_classes,
        "parameters": sum(one.numel() for one in after.parameters()),
        "valid": min((record.valid for record in epochs if record.valid is not None), default=None),
        "test": tested.log_perplexity,
        "test before": llrnn.evaluate(before, test).log_perplexity,
        "bits per character": tested.bits_per_character,
        "text": llrnn.evaluate(before, Corpus.from_sentences([before.read(TEXT)])).log_perplexity,
        "pairs": pairs["overall"]["count"],
        "pairs right": pairs["overall"]["accuracy"],
        "by words between": {band: one["accuracy"] for band, one in pairs["by_distance"].items()},
    }


def _nats(value: float) -> str:
    return f"{value:.3f} ({math.exp(value):.0f})"


ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "words listed": lambda one: f"{one['words']:,}",
    "classes": lambda one: f"{one['classes']:,}",
    "parameters": lambda one: f"{one['parameters']:,}",
    "passes over the text (523,000 words each)": lambda one: f"{one['epochs']}",
    "validation, nats a word (perplexity)": lambda one: _nats(one["valid"]),
    "test, nats a word (perplexity)": lambda one: _nats(one["test"]),
    "test, before it was packed": lambda one: _nats(one["test before"]),
    "test, bits per character": lambda one: f"{one['bits per character']:.3f}",
    "*gender at a distance*, pairs right": lambda one: f"{100 * one['pairs right']:.1f} % of {one['pairs']}",
    "… by words between": lambda one: ", ".join(f"{k}: {100 * v:.1f} %" for k, v in one["by words between"].items()),
}


if __name__ == "__main__":
    if sys.argv[1] == "figures":
        figures(*map(Path, sys.argv[2:]))
    elif len(sys.argv) == 2:
        pack(Path(sys.argv[1]))
    else:
        main(*map(Path, sys.argv[1:]))
