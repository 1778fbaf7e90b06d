"""What `configs/agreement` reads beside a prepared French folder: knowledge of agreement, estimated once.

    python scripts/agreement_data.py ../shared/data runs/table4/prepared

agreement.json.gz  rules, counts of roles and readings of the French treebanks but GSD, lowercased (no source may know
                   the words of tests better than others), with the readings of the text's words in Debian's hunspell-fr
"""

from __future__ import annotations

import sys
from pathlib import Path

from llrnn import Corpus
from llrnn.knowledge.contextual import Agreement
from llrnn.languages.agreement import AgreementRules
from llrnn.text.analysers import hunspell_readings


def main(data: Path, prepared: Path) -> None:
    treebanks = [path for path in sorted((data / "ud_french").glob("*.conllu")) if "gsd" not in path.name]
    sentences = [one for path in treebanks for one in Corpus.from_conllu(path, lowercase=True)]
    texts = [Corpus.from_conllu(prepared / f"{part}.conllu") for part in ("train", "valid", "test1", "test2")]
    words = {word for text in texts for sentence in text for word in sentence.words}
    rules = AgreementRules.named("french")
    found = hunspell_readings("/usr/share/hunspell/fr.dic", words, lemmas=rules.lemmas)
    Agreement.estimated(rules, sentences, found).to_file(prepared / "agreement.json.gz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
