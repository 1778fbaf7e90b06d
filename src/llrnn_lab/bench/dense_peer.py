"""A dense softmax model of a million words in torch's own format, opened in a process that knows nothing of llrnn.

Run as a program: `dense_peer.py PATH MMAP IDS` opens the file, scores a sentence and prints seconds and log p as JSON.
The input embedding is the output matrix, which is thus read once; nothing else would be as fast to open. A file with
words looks the sentence up in them, one without is given ids.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def save(path: Path, weight: Tensor, bias: Tensor, lstm: nn.LSTM, words: list[str] | None) -> None:
    """W (V, H), its bias, the network, and the words where the peer has to look them up."""
    state = {f"lstm.{name}": value for name, value in lstm.state_dict().items()}
    torch.save({"weight": weight, "bias": bias, "words": words, "layers": lstm.num_layers, **state}, path)


@torch.inference_mode()
def score(path: str, mmap: bool, sentence: list[Any]) -> float:
    """log p of all but the first of the ids or words of a sentence."""
    saved = torch.load(path, mmap=mmap, weights_only=True)
    words = saved["words"]
    if words is not None:
        number = {word: i for i, word in enumerate(words)}
        sentence = [number[word] for word in sentence]
    weight, H = saved["weight"], saved["weight"].shape[1]
    with torch.device("meta"):
        lstm = nn.LSTM(H, H, saved["layers"], batch_first=True)
    lstm.load_state_dict(
        {name.removeprefix("lstm."): v for name, v in saved.items() if name.startswith("lstm.")}, assign=True
    )
    ids = torch.tensor(sentence)
    h, _ = lstm(weight[ids[:-1]][None])
    log_p = F.log_softmax(F.linear(h[0], weight, saved["bias"]), -1)
    return float(log_p.gather(1, ids[1:, None]).double().sum())


def main() -> None:
    torch.set_num_threads(1)
    begun, wall = time.process_time(), time.perf_counter()
    log_p = score(sys.argv[1], sys.argv[2] == "mmap", json.loads(sys.argv[3]))
    sys.stdout.write(
        json.dumps({"seconds": time.process_time() - begun, "wall": time.perf_counter() - wall, "log_p": log_p})
    )


if __name__ == "__main__":
    main()
