"""One thread a test process: `make test` runs two of them on two cores, and more threads would only fight."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
