"""`python -m llrnn` is `llrnn`; `torchrun --nproc-per-node 2 -m llrnn train ...` is two of them that train together."""

from llrnn.cli import main

if __name__ == "__main__":
    main()
