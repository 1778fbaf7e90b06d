"""The model ψ → controller → layer: scored, decoded, edited, saved."""

from llrnn.model import words
from llrnn.model.checkpoint import load
from llrnn.model.controllers import GRU, LSTM, Attentive, Controller, Elman, Encoder, Stacked, register_controller
from llrnn.model.decode import Generated, Greedy, Sampling, generate, prepared, write
from llrnn.model.ensembles import gated, mixture, product
from llrnn.model.modern import Mogrifier, Transformer
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Continuous, Sentences, Sliding, Windows
from llrnn.model.steering import Change, constrained, steer, swap

__all__ = [
    "GRU",
    "LLRNN",
    "LSTM",
    "Attentive",
    "Change",
    "Continuous",
    "Controller",
    "Elman",
    "Encoder",
    "Generated",
    "Greedy",
    "Mogrifier",
    "Sampling",
    "Sentences",
    "Sliding",
    "Stacked",
    "Transformer",
    "Windows",
    "constrained",
    "gated",
    "generate",
    "load",
    "mixture",
    "prepared",
    "product",
    "register_controller",
    "steer",
    "swap",
    "words",
    "write",
]
