"""A sample of annotated French: 8,000 sentences in which gender, number and person always agree.

They are `french.conllu.gz`, which a grammar in the repository's lab wrote (seed 0): words with lemmas, parts of speech,
features and dependencies; words follow Zipf's law.

    train, valid = french.sentences(800), french.sentences(100, skip=800)
"""

from __future__ import annotations

from importlib.resources import as_file, files
from itertools import islice

from llrnn.ground.errors import CorpusError
from llrnn.text.readers import Sentence, read_conllu

__all__ = ["sentences"]

SIZE = 8000


def sentences(count: int, *, skip: int = 0) -> list[Sentence]:
    """Return `count` annotated sentences of the French sample that comes with llrnn, after the first `skip`.

    count       how many
    skip        how many sentences of the beginning not to return

    A CorpusError if the sample, of 8,000 sentences, has fewer.

        train = Corpus.from_sentences(sentences(1000))
    """
    if count < 0 or skip < 0 or skip + count > SIZE:
        raise CorpusError(
            f"the French sample has {SIZE:,} sentences, found {count:,} asked for after {skip:,}; ask for fewer"
        )
    with as_file(files("llrnn.text").joinpath("french.conllu.gz")) as path:
        return list(islice(read_conllu(path), skip, skip + count))
