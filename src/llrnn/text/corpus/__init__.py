"""Corpora: sentences from CoNLL-U, plain text, JSON lines and two columns."""

from llrnn.text.corpus.conllu import read_conllu
from llrnn.text.corpus.corpus import Corpus, warn_if_raw
from llrnn.text.corpus.delexical import delexicalise, relexicalise
from llrnn.text.corpus.jsonl import read_jsonl
from llrnn.text.corpus.text import read_text
from llrnn.text.corpus.tsv import read_tsv
from llrnn.text.corpus.types import Sentence, Token

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
