"""Files in, ids out: corpora, lexicons, tables, vocabularies."""

from typing import TYPE_CHECKING

from llrnn.ground.startup import lazy_getattr
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.shards import BuiltCorpus, build_corpus
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vectors import WordVectors
from llrnn.text.vocabulary import EOS, Vocabulary

if TYPE_CHECKING:
    from llrnn.text.lexicon import Lexicon

__all__ = [
    "EOS",
    "BuiltCorpus",
    "Corpus",
    "KnowledgeBase",
    "Lexicon",
    "Sentence",
    "Token",
    "Vocabulary",
    "WordVectors",
    "build_corpus",
]

__getattr__ = lazy_getattr(__name__, {"Lexicon": "llrnn.text.lexicon"})  # word clusters need torch
