"""Corpora: sentences from CoNLL-U, plain text, JSON lines and two columns."""

from llrnn.text.corpus.corpus import Corpus, delexicalise, relexicalise, warn_if_raw
from llrnn.text.corpus.readers import read_conllu, read_jsonl, read_text, read_tsv
from llrnn.text.corpus.source import Sentence, Token

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
