"""Files in, ids out: corpora, lexicons, tables, vocabularies."""

from llrnn.text.built import BuiltCorpus, build_corpus
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.lexicon import Lexicon
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vectors import WordVectors
from llrnn.text.vocabulary import EOS, Vocabulary

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
