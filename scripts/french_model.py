"""The data of the French model that ships (models/french): only what may be given away, and nothing of the test.

    python scripts/french_model.py ../shared/data runs/french          (DATA, OUT)
    llrnn train configs/french/llrnn.toml --data runs/french --out runs/french/llrnn
    llrnn train configs/french/softmax.toml --data runs/french --out runs/french/softmax
    python scripts/french_model.py runs/french                         into models/french, matrices in 16 bits
    pip install ./models/french
    python scripts/french_model.py figures ../shared/data runs/french  docs/results/french-shipped.json

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
import sys
from dataclasses import replace
from heapq import nlargest
from itertools import chain
from pathlib import Path

import llrnn
from agreement_data import beside, raw, with_genders
from llrnn import Corpus, Lexicon
from llrnn.config.wordlists import from_wordfreq, is_form, joined, write_frequencies
from llrnn.ground.files import write_atomically, write_lines
from llrnn.inference.pairs import score_pairs
from llrnn.text.raw import contracted, tokeniser_for
from llrnn.text.readers import Sentence, conllu_lines
from llrnn_agreement import Agreement, AgreementRules
from llrnn_lab.pairs.suites import BETWEEN, read_suite
from llrnn_lab.studies.french_texts import Contractions, sentences
from llrnn_lab.studies.prepare import write_text
from llrnn_morphology import hunspell, hunspell_readings

ROOT = Path(__file__).parents[1]
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
        model = llrnn.load(out / trained)
        model.training_summary = None
        model.save(ROOT / "models" / "french" / "llrnn_french" / name, half=True)


def figures(data: Path, out: Path) -> None:
    """Write down what the models are worth, before and after they were packed, on a text that no choice was made by."""
    test = Corpus.from_file(out / "test.conllu")
    suite, found = data / "pairs_french" / "gender_at_a_distance.tsv.gz", {}
    for trained, name in TRAINED.items():
        before, after = llrnn.load(out / trained), llrnn.load(name)
        log = [record for record in llrnn.Records.read(out / trained) if record.event == "epoch"]
        tested = llrnn.evaluate(after, test)
        pairs = replace(score_pairs(after, read_suite(suite, after)[::PAIRS]), bands=BETWEEN).summary()
        found[name] = {
            "epochs": len(log),
            "words": after.vocabulary.n_words,
            "classes": after.output_features.n_classes,
            "parameters": sum(one.numel() for one in after.parameters()),
            "valid": min(record.valid for record in log if record.valid is not None),
            "test": tested.log_perplexity,
            "test before": llrnn.evaluate(before, test).log_perplexity,
            "bits per character": tested.bits_per_character,
            "text": llrnn.evaluate(before, Corpus.from_sentences([before.read(TEXT)])).log_perplexity,
            "pairs": pairs["overall"]["n"],
            "pairs right": pairs["overall"]["accuracy"],
            "by words between": {band: one["accuracy"] for band, one in pairs["by_distance"].items()},
        }
    rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 4))
    write_atomically(
        ROOT / "docs" / "results" / "french-shipped.json",
        (json.dumps(rounded, indent=1, ensure_ascii=False) + "\n").encode(),
    )


if __name__ == "__main__":
    if sys.argv[1] == "figures":
        figures(*map(Path, sys.argv[2:]))
    elif len(sys.argv) == 2:
        pack(Path(sys.argv[1]))
    else:
        main(*map(Path, sys.argv[1:]))
