"""The public names, each once: for type checkers, and for `__init__.py`, which imports a name when it is first used."""

from llrnn.ground import errors as errors
from llrnn.ground.errors import LLRNNError as LLRNNError
from llrnn.inference.condensing import condense as condense
from llrnn.inference.evaluation import evaluate as evaluate
from llrnn.inference.explanation import explain as explain
from llrnn.inference.explanation import influence as influence
from llrnn.inference.scores import score as score
from llrnn.inference.terms import bias as bias
from llrnn.inference.terms import fit_bias as fit_bias
from llrnn.knowledge import backgrounds as backgrounds
from llrnn.knowledge import contextual as contextual
from llrnn.knowledge import features as features
from llrnn.languages import domains as domains
from llrnn.layer.loglinear import LogLinear as LogLinear
from llrnn.model import testing as testing
from llrnn.model import words as words
from llrnn.model.checkpoint import load as load
from llrnn.model.completion import Completer as Completer
from llrnn.model.completion import complete as complete
from llrnn.model.controllers import GRU as GRU
from llrnn.model.controllers import LSTM as LSTM
from llrnn.model.controllers import Controller as Controller
from llrnn.model.controllers import Elman as Elman
from llrnn.model.controllers import register_controller as register_controller
from llrnn.model.decode import Greedy as Greedy
from llrnn.model.decode import Sampling as Sampling
from llrnn.model.decode import generate as generate
from llrnn.model.ensembles import mix as mix
from llrnn.model.lm import open_lm as open_lm
from llrnn.model.modern import Mogrifier as Mogrifier
from llrnn.model.modern import Transformer as Transformer
from llrnn.model.network import LLRNN as LLRNN
from llrnn.model.own import from_module as from_module
from llrnn.model.scoring import Continuous as Continuous
from llrnn.model.scoring import Sentences as Sentences
from llrnn.model.scoring import Sliding as Sliding
from llrnn.model.transfer import transfer as transfer
from llrnn.serve.client import Client as Client
from llrnn.text import french as french
from llrnn.text.corpus import Corpus as Corpus
from llrnn.text.corpus import Sentence as Sentence
from llrnn.text.corpus import Token as Token
from llrnn.text.lexicon import Lexicon as Lexicon
from llrnn.text.others import OtherText as OtherText
from llrnn.text.tables import KnowledgeBase as KnowledgeBase
from llrnn.text.vocabulary import EOS as EOS
from llrnn.text.vocabulary import Vocabulary as Vocabulary
from llrnn.training.loop import train as train
from llrnn.training.runs import Records as Records
from llrnn.training.settings import TrainingSettings as TrainingSettings

ROOMS: tuple[str, ...]
__version__: str
