"""llrnn: language models that take prior knowledge.

    log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K)

The user says what is known about the symbols (`features`), about what is likely or allowed (`backgrounds`); a recurrent
network learns, at every step, how much each piece of that knowledge counts. Words that nobody listed are in `domains`.

Names are imported when they are first used: `import llrnn.layer` needs nothing but the layer, `llrnn --help` no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import llrnn.ground.startup  # noqa: F401, for its effect, and first: the rest takes seconds

if TYPE_CHECKING:
    from llrnn.ground import errors
    from llrnn.ground.errors import LLRNNError
    from llrnn.inference.condensing import condense
    from llrnn.inference.evaluation import evaluate
    from llrnn.inference.explanation import explain, influence
    from llrnn.inference.mixing import mix
    from llrnn.inference.scores import score
    from llrnn.knowledge import backgrounds, contextual, features
    from llrnn.languages import domains
    from llrnn.layer import LogLinear
    from llrnn.model import testing, words
    from llrnn.model.checkpoint import load
    from llrnn.model.completion import Completer, complete
    from llrnn.model.controllers import GRU, LSTM, Controller, Elman, Stacked, register_controller
    from llrnn.model.decode import Greedy, Sampling, generate
    from llrnn.model.modern import Mogrifier, Transformer
    from llrnn.model.network import LLRNN
    from llrnn.model.own import from_module
    from llrnn.model.scoring import Continuous, Sentences, Sliding, Windows
    from llrnn.model.transfer import transfer
    from llrnn.serve.client import Client
    from llrnn.text import french
    from llrnn.text.corpus import Corpus, Sentence, Token
    from llrnn.text.lexicon import Lexicon
    from llrnn.text.tables import KnowledgeBase
    from llrnn.text.vocabulary import EOS, Vocabulary
    from llrnn.training.loop import train
    from llrnn.training.runs import Records
    from llrnn.training.settings import TrainingSettings

# the rooms, each of which may import those before it (`layer`: only the ground)
ROOMS = tuple("ground layer text languages knowledge model training inference config serve cli".split())  # noqa: SIM905

# where each public name lives; a name that is a module itself lives in its room
_HOMES = {
    "ground": "errors",
    "ground.errors": "LLRNNError",
    "layer.loglinear": "LogLinear",
    "text": "french",
    "text.corpus": "Corpus Sentence Token",
    "text.others": "OtherText",
    "text.lexicon": "Lexicon",
    "text.tables": "KnowledgeBase",
    "text.vocabulary": "EOS Vocabulary",
    "languages": "domains",
    "knowledge": "backgrounds contextual features",
    "model": "testing words",
    "model.own": "from_module",
    "model.scoring": "Continuous Sentences Sliding Windows",
    "model.controllers": "GRU LSTM Controller Elman Stacked register_controller",
    "model.modern": "Mogrifier Transformer",
    "model.completion": "Completer complete",
    "model.transfer": "transfer",
    "model.decode": "Greedy Sampling generate",
    "model.checkpoint": "load",
    "model.network": "LLRNN",
    "training.loop": "train",
    "training.runs": "Records",
    "training.settings": "TrainingSettings",
    "inference.condensing": "condense",
    "inference.evaluation": "evaluate",
    "inference.explanation": "explain influence",
    "inference.mixing": "mix",
    "inference.scores": "score",
    "serve.client": "Client",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "EOS",
    "GRU",
    "LLRNN",
    "LSTM",
    "Client",
    "Completer",
    "Continuous",
    "Controller",
    "Corpus",
    "Elman",
    "Greedy",
    "KnowledgeBase",
    "LLRNNError",
    "Lexicon",
    "LogLinear",
    "Mogrifier",
    "OtherText",
    "Records",
    "Sampling",
    "Sentence",
    "Sentences",
    "Sliding",
    "Stacked",
    "Token",
    "TrainingSettings",
    "Transformer",
    "Vocabulary",
    "Windows",
    "backgrounds",
    "complete",
    "condense",
    "contextual",
    "domains",
    "errors",
    "evaluate",
    "explain",
    "features",
    "french",
    "from_module",
    "generate",
    "influence",
    "load",
    "mix",
    "register_controller",
    "score",
    "testing",
    "train",
    "transfer",
    "words",
]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"llrnn.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'llrnn' has no attribute {name!r}")
    home = f"llrnn.{_HOME_OF[name]}"
    found = import_module(f"{home}.{name}") if home.count(".") == 1 else getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *ROOMS, "__version__"})
