"""The model ψ → controller → layer: scored, decoded, edited, saved."""

from llrnn.model import words
from llrnn.model.checkpoint import load
from llrnn.model.controllers import GRU, LSTM, Attentive, Controller, Elman, Encoder, register_controller
from llrnn.model.decode import Generated, Greedy, Sampling, generate, prepared, write
from llrnn.model.ensembles import mixture
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
    "Transformer",
    "Windows",
    "constrained",
    "generate",
    "load",
    "mixture",
    "prepared",
    "register_controller",
    "steer",
    "swap",
    "words",
    "write",
]
