"""Other texts for a network to read besides its corpus, and the audit that they do not hold what it is tested on.

before      the first `epochs` epochs read the other text, those that follow the corpus
mixed       every epoch reads the corpus and, in expectation, `weight` times the sentences of the other text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from llrnn.ground.errors import ConfigError, CorpusError, warn
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Vocabulary

When = Literal["before", "mixed"]
RUN = 8  # words in a row that two texts share by chance only in formulas
SENTENCE = 5  # words of a sentence below which equal ones say nothing: `oui .`


@dataclass(frozen=True)
class Overlap:
    """The sentences of a text that also occur in other texts: frozensets of their indices in the text, from 0.

    equal   sentences of 5 words or more that are equal to one of another text, word by word
    shared  other sentences of which `run` consecutive words occur within a sentence of another text
    run     how many consecutive words count as shared
    """

    equal: frozenset[int]  # the same sentence, of `SENTENCE` words or more
    shared: frozenset[int]  # `run` words in a row, the equal ones aside
    run: int = RUN

    @classmethod
    def between(cls, text: Corpus, held_out: Sequence[Corpus], *, run: int = RUN) -> Overlap:
        """Return the sentences of `text` that occur in held-out texts, as a whole or with `run` consecutive words.

        As a whole, only sentences of 5 words or more count. They are given by index in `text`, from 0.

        text        the text to check
        held_out    validation and test texts
        run         how many consecutive words count as shared

            Overlap.between(Corpus.from_file("novels.txt"), [valid, test]).numbers
        """
        kept = [tuple(sentence.words) for corpus in held_out for sentence in corpus]
        sentences = {words for words in kept if len(words) >= SENTENCE}
        runs = {one for words in kept for one in _runs(words, run)}
        equal, shared = set(), set()
        for number, sentence in enumerate(text):
            words = tuple(sentence.words)
            if words in sentences:
                equal.add(number)
            elif not runs.isdisjoint(_runs(words, run)):
                shared.add(number)
        return cls(frozenset(equal), frozenset(shared), run)

    @property
    def numbers(self) -> frozenset[int]:
        """The indices of all sentences that occur in the other texts, as a whole or in part."""
        return self.equal | self.shared

    def __str__(self) -> str:
        return (
            f"sentences that the validation or test text has too: {len(self.equal):,}; that share {self.run} words "
            f"in a row with it: {len(self.shared):,}"
        )


def _runs(words: tuple[str, ...], run: int) -> Iterator[tuple[str, ...]]:
    return (words[i : i + run] for i in range(len(words) - run + 1))


@dataclass(frozen=True)
class OtherText:
    """A further training text besides the corpus: read before it (pre-training), or mixed into every epoch.

    corpus      the text
    when        "before" the epochs of the corpus, or "mixed" into each of them
    weight      expected number of times that a sentence is read in an epoch, above 0
    epochs      number of epochs before those of the corpus, 1 or more; without meaning for "mixed"
    dropped     number of sentences dropped because held-out texts contain them

    Make it with `apart_from`, which keeps held-out sentences out of it.

        other = OtherText.apart_from(Corpus.from_file("novels.txt"), [valid, test], epochs=6)
        for record in train(model, corpus, valid=valid, others=[other]): ...
    """

    corpus: Corpus
    when: When = "before"
    weight: float = 1.0
    epochs: int = 6
    dropped: int = 0  # sentences that are held out elsewhere

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1e6:
            raise ConfigError(f"weight must be above 0, found {self.weight}; 1 reads every sentence once an epoch")
        if self.when not in get_args(When):
            raise ConfigError(f"when must be 'before' or 'mixed', found {self.when!r}; choose one")
        if self.epochs < 1:
            raise ConfigError(f"epochs must be 1 or more, found {self.epochs}")

    @classmethod
    def apart_from(cls, corpus: Corpus, held_out: Sequence[Corpus], *, run: int = RUN, **settings: Any) -> OtherText:
        """Return the text without sentences that occur in held-out texts or share `run` consecutive words with them.

        corpus      the further training text
        held_out    validation and test texts
        run         how many consecutive words count as shared
        settings    fields of the class: `when`, `weight`, `epochs`

        A warning says how many there were.

            OtherText.apart_from(Corpus.from_file("novels.txt"), [valid, test], epochs=6)
        """
        found = Overlap.between(corpus, held_out, run=run)
        if found.numbers:
            warn(f"{corpus.name or 'the other text'}: {found}; all of these are dropped")
            kept = tuple(sentence for number, sentence in enumerate(corpus) if number not in found.numbers)
            corpus = Corpus(kept, corpus.name)
        return cls(corpus, dropped=len(found.numbers), **settings)

    def encoded(self, vocabulary: Vocabulary) -> EncodedText:
        """Return the text as symbol ids of `vocabulary`, cut into pieces at words that have none.

        Pieces of one word are dropped; see `EncodedText.of_listed`. Raises a CorpusError if nothing is left.
        """
        text = EncodedText.of_listed(self.corpus, vocabulary)
        if not text.sentences:
            raise CorpusError(
                f"{self.corpus.name or 'the other text'}: nothing is left of {self.corpus.tokens:,} words once it is "
                "cut at unlisted words: nowhere are 2 listed words in a row; give a text in the language of the "
                "corpus, tokenised and lowercased like it, or list its words"
            )
        return text

    def record(self, text: EncodedText) -> dict[str, Any]:
        """Return a dictionary of what was read, stored with the model: name, settings, and counts.

        Its keys are "text" (the name of the corpus), "when", "weight", "epochs" (None for "mixed"), "words" and
        "pieces" (of one pass over `text`), "words_cut" (words of the corpus outside the pieces), and
        "sentences_dropped" (those that held-out texts contain).

        text    the result of `encoded`
        """
        words = sum(len(piece) for piece in text.sentences)
        epochs = self.epochs if self.when == "before" else None
        how = {"text": self.corpus.name, "when": self.when, "weight": self.weight, "epochs": epochs}
        lost = {"words_cut": self.corpus.tokens - words, "sentences_dropped": self.dropped}
        return {**how, "words": words, "pieces": len(text.sentences), **lost}


def in_words(record: Mapping[str, Any]) -> str:
    """Return one sentence of English that describes a dictionary made by `OtherText.record`."""
    before = f"read in {record['epochs']} epochs before the corpus"
    when = before if record["when"] == "before" else "mixed into every epoch"
    return (
        f"Other text, {when}, weight {record['weight']:g}: {record['text']}; {record['words']:,} words in "
        f"{record['pieces']:,} pieces; words cut off: {record['words_cut']:,}; sentences dropped for what validation "
        f"or test share: {record['sentences_dropped']:,}"
    )
