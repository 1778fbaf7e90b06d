"""llrnn: language models that take prior knowledge.

    log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K)

The user says what is known about the symbols (`features`), about what is likely or allowed (`backgrounds`); a recurrent
network learns, at every step, how much each piece of that knowledge counts. Words that nobody listed are in `domains`.
"""

import llrnn.interrupts  # noqa: F401, for its effect, and first: the rest takes seconds
from llrnn import backgrounds, contextual, domains, features, french, words
from llrnn.batches import Continuous, Sentences, Sliding, Windows
from llrnn.checkpoint import load
from llrnn.client import Client
from llrnn.controllers import GRU, LSTM, Elman, Stacked
from llrnn.corpus import Corpus, Sentence, Token
from llrnn.decode import Greedy, Sampling, beam_search, generate
from llrnn.errors import LLRNNError
from llrnn.evaluate import evaluate
from llrnn.explain import explain
from llrnn.frozen import frozen
from llrnn.influence import influence
from llrnn.lexicon import Lexicon
from llrnn.model import LLRNN
from llrnn.records import Records
from llrnn.settings import TrainingSettings
from llrnn.tables import KnowledgeBase
from llrnn.training import train
from llrnn.vocabulary import EOS, Vocabulary

__all__ = [
    "EOS",
    "GRU",
    "LLRNN",
    "LSTM",
    "Client",
    "Continuous",
    "Corpus",
    "Elman",
    "Greedy",
    "KnowledgeBase",
    "LLRNNError",
    "Lexicon",
    "Records",
    "Sampling",
    "Sentence",
    "Sentences",
    "Sliding",
    "Stacked",
    "Token",
    "TrainingSettings",
    "Vocabulary",
    "Windows",
    "backgrounds",
    "beam_search",
    "contextual",
    "domains",
    "evaluate",
    "explain",
    "features",
    "french",
    "frozen",
    "generate",
    "influence",
    "load",
    "train",
    "words",
]

__version__ = "0.1.0"
