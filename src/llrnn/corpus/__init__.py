"""Corpora: sentences from CoNLL-U, plain text, JSON lines and two columns."""

from llrnn.corpus.conllu import read_conllu
from llrnn.corpus.corpus import Corpus, warn_if_raw
from llrnn.corpus.delexical import delexicalise, relexicalise
from llrnn.corpus.jsonl import read_jsonl
from llrnn.corpus.text import read_text
from llrnn.corpus.tsv import read_tsv
from llrnn.corpus.types import Sentence, Token

__all__ = [
    "Corpus",
    "Sentence",
    "Token",
    "delexicalise",
    "read_conllu",
    "read_jsonl",
    "read_text",
    "read_tsv",
    "relexicalise",
    "warn_if_raw",
]
