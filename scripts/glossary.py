"""A glossary of 200 nouns with their plurals on a language model: how many come, and in which forms.

python scripts/glossary.py ../shared/data /usr/share/hunspell/en_US.dic docs/results/glossary.json [--lm FILE.gguf]

Nouns are lemmas of hunspell's dictionary, of middle frequency in WikiText-2, drawn with seed 0. The model writes 400
texts of 60 tokens from 20 beginnings (seed 1), alone and with the list at several weights. Counted: lemmas used at
least once; uses (words that begin as a form does and are that form, or no word of the dictionary at all); uses that are
right, a form of the lemma that agrees in number with the determiner before it, and with a or an.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Container
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import llrnn
from llrnn.knowledge.contextual.terms import expanded
from llrnn.text.lexicon import Lexicon
from llrnn_morphology import hunspell, hunspell_readings
from llrnn_morphology.dictionaries import AS_WRITTEN

NOUNS, TEXTS, TOKENS, WEIGHTS = 200, 20, 60, (0.0, 2.0, 3.0, 4.0)
ONE = {"a", "an", "one", "this", "that", "each", "every", "another", "neither", "either"}
MANY = {"these", "those", "many", "several", "few", "two", "three", "four", "five", "six", "seven", "eight", "both"}
BEGINNINGS = [
    f"{place}, {who}"
    for place in ("In the morning", "Many years ago", "At the end of the war", "On the way home", "In this book")
    for who in ("the people of the town", "the old man", "a group of women", "we")
]


def nouns(data: Path, dictionary: Path) -> tuple[list[str], Lexicon]:
    """The lemmas, and the dictionary's forms of all words of WikiText-2."""
    words = gzip.decompress((data / "wikitext2" / "train.txt.gz").read_bytes()).decode().split()
    counts, after = Counter(words), Counter(b for a, b in pairwise(words) if a in ("a", "an"))
    forms = [word for word in counts if word.isalpha() and word.islower()]
    lexicon = hunspell(dictionary, tags=AS_WRITTEN, lemmas=True, forms=forms)
    listed = [
        word
        for word in sorted(counts)
        if 30 <= counts[word] <= 300
        and len(word) >= 4
        and after[word] >= 0.1 * counts[word]
        and counts[f"{word}s"] >= 5
        and f"Lemma:{word}" in lexicon(word) & lexicon(f"{word}s")
    ]
    return random.Random(0).sample(listed, NOUNS), lexicon


def forms_of(lemma: str, lexicon: Lexicon) -> list[str]:
    """The noun and its plural, of the forms that the dictionary has for a stem (others are verbs' or adjectives')."""
    return [form for form in expanded([lemma], lexicon) if form in (lemma, f"{lemma}s")]


def judged(text: str, lemmas: set[str], known: Container[str]) -> list[tuple[str, bool]]:
    """The uses of lemmas in a text that was written on, and whether each is right."""
    found, before = [], ""
    for word in re.findall(r"[^\W\d_]+", text.lower()):
        lemma = next((one for one in (word, word[:-1]) if one in lemmas), None)
        is_form = lemma is not None and word in (lemma, f"{lemma}s")
        broken = next((one for one in lemmas if word.startswith(one) and word not in known), None)
        if is_form:
            assert lemma is not None
            plural = word != lemma
            agrees = not (plural and before in ONE) and not (not plural and before in MANY)
            vowel = word[0] in "aeiou"
            found.append((lemma, agrees and not (before == "a" and vowel) and not (before == "an" and not vowel)))
        elif broken:
            found.append((broken, False))
        before = word
    return found


def measured(model: llrnn.LLRNN, lemmas: set[str], dictionary: Path) -> dict[str, Any]:
    texts = []
    for n, beginning in enumerate(BEGINNINGS):
        found = llrnn.generate(model, beginning, count=TEXTS, max_words=TOKENS, temperature=0.8, seed=n)
        texts += [one.text[len(beginning) :].rpartition(" ")[0] for one in found]  # the last word may be cut
    words = {word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())}
    known = set(hunspell_readings(dictionary, words).entries)
    uses = [use for text in texts for use in judged(text, lemmas, known)]
    wrong = [lemma for lemma, is_right in uses if not is_right]
    coverage = len({lemma for lemma, _ in uses}) / len(lemmas)
    right = 1 - len(wrong) / max(1, len(uses))
    return {"lemmas used": coverage, "uses": len(uses), "right": right, "wrong": wrong[:20], "texts": texts[::100]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lm", default="smollm2")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lemmas, lexicon = nouns(given.data, given.dictionary)
    lm = llrnn.open_lm(given.lm).to(device)
    result: dict[str, Any] = {"command": "python scripts/glossary.py DATA DICTIONARY OUT", "device": device}
    result |= {"lemmas": len(lemmas), "weights": {}}
    listed = [form for lemma in lemmas for form in forms_of(lemma, lexicon)]
    for weight in WEIGHTS:
        model = llrnn.bias(lm, {"glossary": listed}, weight).to(device) if weight else lm
        result["weights"][str(weight)] = measured(model, set(lemmas), given.dictionary)
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
