"""Scores of sentences under an ARPA file, ours against KenLM's (pip install kenlm) and those of its automaton.

    python scripts/compare_kenlm.py model.arpa                              random words, KenLM
    python scripts/compare_kenlm.py model.arpa --text test.conllu --fst     1,000 sentences of a text, and as many at
                                                                            random; KenLM, and kaldifst what `llrnn
                                                                            export fst` writes

It says the largest difference of a word, log10, by KenLM, and of a sentence, −log p, by the automaton.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from llrnn import cli
from llrnn.knowledge.backgrounds import NGram
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.languages.ngrams import UNKNOWN, read_arpa
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import EOS

SENTENCES, LONGEST = 3000, 7
PHI = "#phi"


def drawn(words: Sequence[str], count: int, seed: int = 0) -> list[list[str]]:
    """Sentences of random words, the empty one too."""
    draw = random.Random(seed)
    return [[draw.choice(words) for _ in range(draw.randint(0, LONGEST))] for _ in range(count)]


def own_scores(ngram: NGram, sentence: Sequence[str]) -> list[float]:
    """log p of every word and of the end."""
    vocabulary = ngram.vocabulary
    log_prob, _ = ngram.score([vocabulary.eos, *vocabulary.ids(sentence), vocabulary.eos])
    return [float(one) for one in log_prob]


def by_kenlm(path: Path, ngram: NGram, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
    import kenlm  # type: ignore[import-not-found, unused-ignore]

    theirs, differences = kenlm.Model(str(path)), []
    for sentence in sentences:
        scored = theirs.full_scores(" ".join(sentence), bos=True, eos=True)
        own = own_scores(ngram, sentence)
        differences += [abs(one / math.log(10) - other[0]) for one, other in zip(own, scored, strict=True)]
    return {"sentences": len(sentences), "words": len(differences), "difference": max(differences)}


def by_automaton(path: Path, ngram: NGram, sentences: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Of the text of `llrnn export fst`, compiled by kaldifst: by the arc of each word, through back-off where there is
    none."""
    import kaldifst  # type: ignore[import-not-found, import-untyped, unused-ignore]

    with tempfile.TemporaryDirectory() as folder:
        text, symbols = Path(folder) / "G.fst.txt", Path(folder) / "G.syms"
        with redirect_stdout(sys.stderr):
            failed = cli.run(["export", "fst", str(path), "--out", str(text)])
        if failed:
            raise SystemExit("llrnn export fst has failed")
        table = kaldifst.SymbolTable.read_text(str(symbols))
        fst = kaldifst.compile(text.read_text("utf8"), acceptor=False, isymbols=table, osymbols=table)
        number = {word: int(place) for word, place in map(str.split, symbols.read_text("utf8").splitlines())}
    met: dict[int, dict[int, tuple[int, float]]] = {}

    def arcs(state: int) -> dict[int, tuple[int, float]]:
        if state not in met:
            found = kaldifst.ArcIterator(fst, state)
            met[state] = {arc.ilabel: (arc.nextstate, arc.weight.value) for arc in found}
        return met[state]

    differences = []
    for sentence in sentences:
        state, total = fst.start, 0.0
        for label in (number[word] for word in sentence):
            while label not in arcs(state):
                state, weight = arcs(state)[number[PHI]]
                total += weight
            state, weight = arcs(state)[label]
            total += weight
        differences.append(abs(total + fst.final(state).value + math.fsum(own_scores(ngram, sentence))))
    return {"sentences": len(sentences), "difference": max(differences), "states": fst.num_states}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--text", type=Path, help="sentences of this besides, lowercased, unlisted words as <unk>")
    parser.add_argument("--sentences", type=int, default=1000, help="of the text, and as many at random")
    parser.add_argument("--fst", action="store_true", help="the automaton, too")
    arguments = parser.parse_args()
    for path in arguments.models:
        ngram = over_own_words(read_arpa(path))
        listed = [word for word in ngram.vocabulary.symbols if word not in (EOS, UNKNOWN)]
        sentences = drawn(listed, SENTENCES if arguments.text is None else arguments.sentences)
        if arguments.text is not None:
            text = Corpus.from_file(arguments.text, lowercase=True)[: arguments.sentences]
            known = {*listed}
            sentences += [[word if word in known else UNKNOWN for word in one.words] for one in text]
        found = {"kenlm": by_kenlm(path, ngram, sentences)}
        if arguments.fst:
            found["kaldifst"] = by_automaton(path, ngram, sentences)
        print(json.dumps({path.name: found}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
