"""A model folder opened in a process of its own: `our_opening.py FOLDER WORDS verify` prints seconds and log p."""

from __future__ import annotations

import json
import sys
import time

import torch

import llrnn
from llrnn.model.scoring import score
from llrnn.text.encoded import EncodedText


def main() -> None:
    torch.set_num_threads(1)
    folder, words = sys.argv[1], json.loads(sys.argv[2])
    begun, wall = time.process_time(), time.perf_counter()
    model = llrnn.load(folder, verify=sys.argv[3] == "verify")
    opened = time.process_time()
    text = EncodedText.encode(llrnn.Corpus.from_sentences([words]), model.vocabulary)
    log_p = float(score(model, text).log_probs.sum())
    done = time.process_time()
    sys.stdout.write(
        json.dumps(
            {"seconds": done - begun, "opening": opened - begun, "wall": time.perf_counter() - wall, "log_p": log_p}
        )
    )


if __name__ == "__main__":
    main()
