"""Knowledge of agreement, estimated once, beside a prepared folder: `agreement.json.gz` for `configs/agreement`.

    python scripts/agreement_data.py french runs/table4/prepared ../shared/data
    python scripts/agreement_data.py estonian runs/estonian/prepared
    python scripts/agreement_data.py words runs/open/tr          words.txt: what an analyser is to read, a word a line
    python scripts/agreement_data.py turkish runs/open/tr        readings.tsv by `llrnn data readings words.txt`

French: counts and readings of the treebanks but GSD, lowercased (no source may know the words of tests better than
others), and the readings of all words of the text in Debian's hunspell-fr; of nouns to which that gives both genders,
what determiners say before them in raw text (treebanks, Wikipedia, novels). Turkish: counts and readings of the text to
train on, and those of an analyser, without predicates of one word, since the text has the copula apart. An analyser
takes 8 ms for a word, and 400,000 are listed: it reads the words of the text, the frequent ones, and a dozen of each
cell of the open vocabulary, by which all others are read. Of another
language, whose lexicon is the text's: roles and readings are counted in the parts to train and to validate on; words
that only tests have get each of their readings once, as `lexicon.tsv` has them. Pairs are made of each part for itself:
`pairs-valid.jsonl` to look at, `pairs-test.jsonl` to test on.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path

from llrnn import Corpus, Vocabulary
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.files import write_lines
from llrnn.text.lexicon import Readings, read_frequencies
from llrnn.text.readers import Sentence, read_lines
from llrnn_agreement import Agreement, AgreementRules
from llrnn_lab.pairs.files import write_pairs
from llrnn_lab.pairs.making import make_pairs
from llrnn_morphology import hunspell_readings

_FREQUENT, _OF_A_CELL = 25_000, 12  # words that an analyser reads


def _french(rules: AgreementRules, texts: dict[str, Corpus], data: Path) -> Agreement:
    treebanks = [path for path in sorted((data / "ud_french").glob("*.conllu")) if "gsd" not in path.name]
    sentences = [one for path in treebanks for one in Corpus.from_file(path, lowercase=True)]
    words = {word for text in (*texts.values(), sentences) for sentence in text for word in sentence.words}
    known = hunspell_readings("/usr/share/hunspell/fr.dic", words, lemmas=rules.lemmas)
    texts_raw = raw([*sorted((data / "wiki_french").glob("*.gz")), *sorted((data / "novels_french").glob("*.gz"))])
    read = chain(texts_raw, (one.words for one in sentences), (one.words for one in texts["train"]))
    return Agreement.estimated(rules, sentences, beside(sentences, with_genders(known, read)))


def beside(sentences: Iterable[Sentence], readings: Readings) -> Readings:
    """A participle or adjective of the dictionary is no error, however rare it is: 2 % of its form (partie)."""
    counts, kinds = Counter(word for one in sentences for word in one.words), {"POS:ADJ", "VerbForm:Part"}

    def raised(form: str, own: Mapping[frozenset[str], float]) -> dict[frozenset[str], float]:
        return {one: max(weight, 0.02 * counts[form]) if one & kinds else weight for one, weight in own.items()}

    return Readings({form: raised(form, own) for form, own in readings.entries.items()})


_DETERMINERS = {
    **dict.fromkeys(("le", "un", "ce", "cet", "au", "du", "aucun", "quel"), "Gender:Masc"),
    **dict.fromkeys(("la", "une", "cette", "ma", "ta", "sa", "aucune", "quelle"), "Gender:Fem"),
}


def with_genders(readings: Readings, texts: Iterable[Iterable[str]]) -> Readings:
    """Nouns of two genders with each as often as determiners in the singular say it: le légume, une pendule."""
    seen: dict[str, Counter[str]] = {}
    for words in texts:
        for before, word in pairwise(words):
            if before in _DETERMINERS:
                seen.setdefault(word, Counter())[_DETERMINERS[before]] += 1
    both, entries = {"Gender:Masc", "Gender:Fem", "POS:NOUN"}, {}
    for form, own in readings.entries.items():
        entries[form] = found = dict[frozenset[str], float]()
        counts = seen.get(form) or seen.get(form.removesuffix("s")) or Counter[str]()
        for reading, weight in own.items():
            if both <= reading and counts:
                for gender in ("Gender:Masc", "Gender:Fem"):
                    one = reading - {"Gender:Masc", "Gender:Fem"} | {gender}
                    share = (counts[gender] + 0.1) / (counts.total() + 0.2)
                    found[one] = found.get(one, 0.0) + weight * share
            else:
                found[reading] = found.get(reading, 0.0) + weight
    return Readings(entries)


def raw(paths: Iterable[Path]) -> Iterator[list[str]]:
    for path in paths:
        for _, line in read_lines(path):
            yield re.findall(r"[\w-]+|\S", line.lower())


def _turkish(rules: AgreementRules, prepared: Path) -> Agreement:
    analysed = Readings.from_tsv(prepared / "readings.tsv").entries
    kept = {
        form: {r: w for r, w in own.items() if r & {"POS:VERB", "POS:AUX"} or not any("Tense:" in one for one in r)}
        for form, own in analysed.items()
    }
    text = Corpus.from_file(prepared / "train.conllu")
    return Agreement.estimated(rules, text, Readings({form: own for form, own in kept.items() if own}))


def _words(prepared: Path) -> list[str]:
    config = Path(__file__).parents[1] / "configs" / "turkish-open.toml"
    vocabulary = Project.from_config(read_config(config, [], data=str(prepared))).vocabulary
    text = Corpus.from_file([prepared / "train.conllu", prepared / "valid.conllu"], lowercase=True)
    listed, of_cell = list(read_frequencies(prepared / "frequencies.tsv")), dict[int, list[str]]()
    for form, cell in zip(listed, vocabulary.cells_of(listed).tolist(), strict=True):
        of_cell.setdefault(cell, []).append(form)
    some = [form for own in of_cell.values() for form in own[:_OF_A_CELL]]
    return list(dict.fromkeys([*text.counts(), *listed[:_FREQUENT], *some]))


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
    if language == "words":
        write_lines(prepared / "words.txt", _words(prepared))
        return
    rules = AgreementRules.named(language)
    if language == "turkish":
        _turkish(rules, prepared).to_file(prepared / "agreement.json.gz")
        return
    texts = {part: Corpus.from_file(prepared / f"{part}.conllu") for part in ("train", "valid", "test1", "test2")}
    made = _of_a_treebank(rules, texts, prepared) if data is None else _french(rules, texts, data)
    made.to_file(prepared / "agreement.json.gz")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
