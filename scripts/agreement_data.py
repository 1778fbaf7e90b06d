"""What `configs/agreement` reads beside a prepared French folder: a treebank, and the readings of hunspell.

    python scripts/agreement_data.py ../shared/data runs/table4/prepared

agreement.conllu   the French treebanks but GSD, lowercased: no source may know the words of tests better than others
readings.tsv       readings of the words of the text in Debian's hunspell-fr
"""

from __future__ import annotations

import sys
from pathlib import Path

from llrnn import Corpus
from llrnn.languages.agreement import AgreementRules
from llrnn.text.analysers import hunspell_readings


def _lowercased(line: str) -> str:
    """A line of CoNLL-U with its form as the prepared text has it."""
    fields = line.split("\t")
    return "\t".join([fields[0], fields[1].lower(), *fields[2:]]) if len(fields) > 1 else line


def main(data: Path, prepared: Path) -> None:
    treebanks = [path for path in sorted((data / "ud_french").glob("*.conllu")) if "gsd" not in path.name]
    lines = [_lowercased(line) for path in treebanks for line in path.read_text("utf-8").splitlines()]
    (prepared / "agreement.conllu").write_text("\n".join(lines) + "\n", "utf-8")
    texts = [Corpus.from_conllu(prepared / f"{part}.conllu") for part in ("train", "valid", "test1", "test2")]
    words = {word for text in texts for sentence in text for word in sentence.words}
    rules = AgreementRules.named("french")
    found = hunspell_readings("/usr/share/hunspell/fr.dic", words, lemmas=rules.lemmas)
    found.to_tsv(prepared / "readings.tsv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
