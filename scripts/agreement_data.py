"""Knowledge of agreement, estimated once, beside a prepared folder: `agreement.json.gz` for `configs/agreement`.

    python scripts/agreement_data.py french runs/table4/prepared ../shared/data
    python scripts/agreement_data.py estonian runs/estonian/prepared

French: counts and readings of the treebanks but GSD, lowercased (no source may know the words of tests better than
others), and the readings of all words of the text in Debian's hunspell-fr. Of another language, whose lexicon is the
text's: roles and readings are counted in the parts to train and to validate on; words that only tests have get each of
their readings once, as `lexicon.tsv` has them. Pairs are made of each part for itself: `pairs-valid.jsonl` to look at,
`pairs-test.jsonl` to test on.
"""

from __future__ import annotations

import sys
from pathlib import Path

from llrnn import Corpus, Vocabulary
from llrnn.inference.pairs import make_pairs, write_pairs
from llrnn.knowledge.contextual import Agreement
from llrnn.languages.agreement import AgreementRules
from llrnn.text.analysers import hunspell_readings
from llrnn.text.lexicon import Readings


def _french(rules: AgreementRules, texts: dict[str, Corpus], data: Path) -> Agreement:
    treebanks = [path for path in sorted((data / "ud_french").glob("*.conllu")) if "gsd" not in path.name]
    sentences = [one for path in treebanks for one in Corpus.from_conllu(path, lowercase=True)]
    words = {word for text in texts.values() for sentence in text for word in sentence.words}
    return Agreement.estimated(
        rules, sentences, hunspell_readings("/usr/share/hunspell/fr.dic", words, lemmas=rules.lemmas)
    )


def _of_a_treebank(rules: AgreementRules, texts: dict[str, Corpus], out: Path) -> Agreement:
    known = [*texts["train"], *texts["valid"]]
    forms = {word for sentence in known for word in sentence.words}
    tests = Readings.from_corpus(texts["test1"], texts["test2"], lemmas=rules.lemmas)
    new = {form: dict.fromkeys(own, 1.0) for form, own in tests.entries.items() if form not in forms}
    vocabulary, everything = Vocabulary.from_corpus(*texts.values()), [one for text in texts.values() for one in text]
    for name, parts in (("valid", ("valid",)), ("test", ("test1", "test2"))):
        sentences = [one for part in parts for one in texts[part]]
        pairs = make_pairs(sentences, lexicon_corpus=everything, vocabulary=vocabulary)
        write_pairs(out / f"pairs-{name}.jsonl", pairs)
    return Agreement.estimated(rules, known, Readings(new))


def main(language: str, prepared: Path, data: Path | None = None) -> None:
    rules = AgreementRules.named(language)
    texts = {part: Corpus.from_conllu(prepared / f"{part}.conllu") for part in ("train", "valid", "test1", "test2")}
    made = _of_a_treebank(rules, texts, prepared) if data is None else _french(rules, texts, data)
    made.to_file(prepared / "agreement.json.gz")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
