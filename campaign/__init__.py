"""The fault campaign: what happens to llrnn when files, processes, requests and numbers are as bad as they can be.

    python -m campaign [part ...] [--seed N] [--scale S] [--out FOLDER] [--case PART-ID]

    flips       one bit of a file is another                       refused, or nothing changed
    kills       SIGKILL at a moment of training, saving, building  run again, the result is the same bit for bit
    malformed   files of every format that we read, mutated        exit 0, or exit 2 and one line
    requests    anything on a socket of `llrnn serve`              an answer of ours; no 500, no traceback, alive
    soak        clients for minutes                                memory is flat
    overload    more clients than the limits allow                 typed refusals, health answers, well afterwards
    numbers     the layer with |a| up to 1e6                       as brute force in float64 says

A part is a function of a `Setting` that yields outcomes: what was tried, what came of it, and a finding where that is a
fault. Everything is drawn from the seed, case by case, so that one case can be had again alone. Not part of the wheel.
"""
