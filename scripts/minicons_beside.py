"""log p of words by `llrnn score` and by minicons (`bow_correction`), side by side, for the same sentences.

    python scripts/minicons_beside.py FOLDER TEXT

FOLDER: a causal language model of transformers; TEXT: one sentence a line. Needs minicons, which is no dependency.
For minicons a word ends only where a token with a blank before it may follow; for us where the line or the text may
end, too. So ours are compared twice: as they are, and with the beginnings of words that minicons knows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from minicons.scorer import IncrementalLMScorer

import llrnn
from llrnn.inference.piece_words import PieceWords
from llrnn.inference.scores import score


def main(folder: str, text: str) -> None:
    lines = Path(text).read_text(encoding="utf8").splitlines()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()
    scorer = IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)
    theirs = [scorer.word_score_tokenized(line, str.split, bow_correction=True, bos_token=True)[0] for line in lines]
    lm = llrnn.open_lm(folder)
    words = PieceWords.of(lm)
    assert words is not None
    found: dict[str, object] = {"sentences": len(lines), "ours": differences(lm, lines, theirs)}
    blank = tokenizer.convert_ids_to_tokens(tokenizer(" ").input_ids[0])
    begins = [n for n, token in enumerate(lm.vocabulary.symbols) if token.startswith(blank)]
    words.begins = torch.tensor(begins)
    found["ours, with the beginnings of minicons"] = differences(lm, lines, theirs)
    sys.stdout.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def differences(lm: llrnn.LLRNN, lines: list[str], theirs: list[list[tuple[str, float]]]) -> dict[str, object]:
    ours = score(lm, llrnn.Corpus.from_sentences([lm.read(line) for line in lines])).sentences
    found = []
    for own, words in zip(ours, theirs, strict=True):
        assert list(own.words) == [word for word, _ in words], own.words
        found += [(abs(a - b), word) for a, (word, b) in zip(own.log_p, words, strict=True)]
    found.sort(reverse=True)
    return {
        "words": len(found),
        "mean difference, nats": sum(one for one, _ in found) / len(found),
        "within 0.001 nats": sum(one <= 0.001 for one, _ in found),
        "largest": found[:5],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
