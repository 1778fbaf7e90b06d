"""How far one `log_prob` travels: the files of the package that a warm call runs through, and its changes of file.

    python scripts/log_prob_path.py          prints both numbers, and the functions in the order of their calls

A change of file is a call whose function stands in another file than that of the call before.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType

import torch

import llrnn
from llrnn import EOS, LLRNN, LSTM, Vocabulary, features
from llrnn.knowledge.process import Batch

PACKAGE = f"{Path(llrnn.__file__).parent}/"


def calls(model: LLRNN, batch: Batch) -> list[tuple[str, str]]:
    """Return file and name of the functions of the package that `model.log_prob(batch)` calls."""
    found = list[tuple[str, str]]()

    def look(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            found.append((file.removeprefix(PACKAGE), frame.f_code.co_name))

    sys.setprofile(look)
    model.log_prob(batch)
    sys.setprofile(None)
    return found


@torch.no_grad()
def main() -> None:
    vocabulary = Vocabulary([*(f"word{n}" for n in range(500)), EOS])
    model = LLRNN(vocabulary, output_features=features.Suffixes(2, min_count=1), controller=LSTM(16)).eval()
    word = torch.tensor([[3]])
    batch = Batch(word, word, torch.ones_like(word, dtype=torch.bool))
    path = [calls(model, batch) for _ in range(3)][-1]
    files = [file for file, _ in path]
    changes = sum(one != other for one, other in pairwise(files))
    sys.stdout.write(f"{len({*files})} files, {changes} changes of file, {len(path)} calls\n")
    sys.stdout.writelines(f"{file}: {name}\n" for file, name in path)


if __name__ == "__main__":
    main()
