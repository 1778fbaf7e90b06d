"""What a worker has imported before it is forked: torch and llrnn, on one thread."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a process that is forked must have one thread

import torch

torch.set_num_threads(1)
