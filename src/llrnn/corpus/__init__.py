"""Corpora: sentences from CoNLL-U, plain text and JSON lines."""

from llrnn.corpus.conllu import read_conllu
from llrnn.corpus.corpus import Corpus
from llrnn.corpus.jsonl import read_jsonl
from llrnn.corpus.text import read_text
from llrnn.corpus.types import Sentence, Token

__all__ = ["Corpus", "Sentence", "Token", "read_conllu", "read_jsonl", "read_text"]
