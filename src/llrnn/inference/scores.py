"""log p of every word and of every sentence of texts, by a model or by an n-gram file.

    surprisal(x_t) = −log p(x_t | x_1 … x_{t-1})                 in nats, bits or log10
    log p(sentence) = Σ_t log p(x_t | x_1 … x_{t-1})             its end, x_{T+1} = EOS, included (but: `piece_words`)
    perplexity = exp(−mean log p)                                over words and ends, or over words alone

    SRILM's:  ppl = 10^(−log10 p / (words + sentences))          words: without OOVs and zero probabilities
              ppl1 = 10^(−log10 p / words)                       the same log p, ends included, over fewer

Probabilities are exact, and in an open vocabulary those of strings: p(x) = p(cell) · q(x | cell). They are the numbers
that `evaluate` adds up; only a word that is impossible is no error here: its log p is minus infinity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count, groupby
from operator import add, itemgetter
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.ground.files import StrPath
from llrnn.inference.piece_words import PieceWord, PieceWords, contract_of_words
from llrnn.knowledge.backgrounds.ngram import NGram
from llrnn.model.checkpoint import open_model
from llrnn.model.decode import prepared
from llrnn.model.network import LLRNN, require_model
from llrnn.model.scoring import sentence_log_probs
from llrnn.model.words import with_text_words
from llrnn.text.contract import LEFT_OUT, Contract, reading_of
from llrnn.text.corpus import Corpus, Sentence
from llrnn.text.encoded import EncodedText, Oov, treat_unknown
from llrnn.text.units import Units
from llrnn.text.vocabulary import EOS, Vocabulary

Unit = Literal["nats", "bits", "log10"]
By = Literal["words", "sentences", "tokens"]

UNITS: dict[str, float] = {"nats": math.e, "bits": 2.0, "log10": 10.0}


@dataclass(frozen=True)
class SentenceScore:
    """log p of each word of one sentence, in `unit` (nats, bits, log10); `words` ends with EOS, the end of sentence.

    Under a model of pieces words are those between white space, without the end (`inference.piece_words`), and `tokens`
    has for each word its tokens, pairs (symbol, log p in `unit`); () under others.

    `words`, `log_p`, `kinds`: tuples of one length. `log_p`: of each word given those before it, NaN for a word that is
    left out of all sums; `kinds`: how each word has its probability, "listed", "spelled", "number" or another domain,
    or "unknown" for a word that the model reads as its unknown-word symbol, or not at all.
    """

    words: tuple[str, ...]
    log_p: tuple[float, ...]  # NaN: the word is left out of all sums
    kinds: tuple[str, ...]  # as `Vocabulary.kinds` has them
    unit: Unit = "nats"
    tokens: tuple[tuple[tuple[str, float], ...], ...] = ()  # of each word, under a model of pieces

    def __add__(self, other: SentenceScore) -> SentenceScore:
        """Return the score of both sentences together, one after the other, each with its end.

        Both must be in one unit, which is not checked: the result has the unit of the first.
        """
        joined = {name: getattr(self, name) + getattr(other, name) for name in ("words", "log_p", "kinds", "tokens")}
        return replace(self, **joined)

    @property
    def has_end(self) -> bool:
        """Whether the last word is the end of the sentence, which a model of pieces does not count."""
        return self.words[-1:] == (EOS,)

    @property
    def known(self) -> tuple[bool, ...]:
        """For each word whether it has a probability of its own: False where the unknown-word symbol stands for it."""
        return tuple(kind != "unknown" for kind in self.kinds)

    @property
    def counted(self) -> list[float]:
        """log p of each word and of the sentence's end, in `unit`, without words that `oov="skip"` leaves out."""
        return [one for one in self.log_p if not math.isnan(one)]

    @property
    def log_prob(self) -> float:
        """Σ log p over the sentence's words and its end, in `unit`; words that `oov="skip"` leaves out do not count."""
        return math.fsum(self.counted)

    @property
    def log_prob_without_end(self) -> float:
        """log p of the sentence's words without its end, in `unit`; words that `oov="skip"` leaves out do not count."""
        inside = self.log_p[: len(self.words) - self.has_end]
        return math.fsum(one for one in inside if not math.isnan(one))

    @property
    def surprisals(self) -> tuple[float, ...]:
        """−log p of each word, the end of the sentence last, in `unit`; NaN for words that `oov="skip"` leaves out."""
        return tuple(0.0 - one for one in self.log_p)

    @property
    def perplexity(self) -> float:
        """The perplexity of the sentence over its words and its end; the same in every `unit`.

        exp(−Σ log p / N) with log p in nats, N words and one end. Words that `oov="skip"` leaves out do not count;
        infinity where a float cannot hold it.
        """
        return _perplexity(self.log_prob, len(self.counted), self.unit)

    def plain(self) -> dict[str, Any]:
        """Return a dict with the keys `words`, `log_p`, `log_prob`, `perplexity`, `known` and `kinds`, for JSON.

        Under a model of pieces also `tokens`. The values are those of the attributes of these names, infinities and NaN
        included.
        """
        names = ("words", "log_p", "log_prob", "perplexity", "known", "kinds", *["tokens"] * bool(self.tokens))
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class TextScores:
    """Scores of the sentences of a text, in their order, with totals over all of them; prints as two lines.

    `sentences`: a tuple of `SentenceScore`; `contract`: how words were read and counted, the second line; `unit`: nats,
    bits or log10; `numbers`: of the sentences' lines, () for 1, 2, 3, ….

    for row in score(model, ["elle dort ."]).rows(): print(row["word"], row["surprisal"])
    """

    sentences: tuple[SentenceScore, ...]
    contract: Contract
    unit: Unit = "nats"
    numbers: tuple[int, ...] = ()  # of their lines, where these are not 1, 2, 3…

    @property
    def words(self) -> int:
        """Number of words in all sentences, ends included; those that `oov="skip"` leaves out do not count."""
        return sum(len(one.counted) for one in self.sentences)

    @property
    def ends(self) -> int:
        """Number of ends of sentences among the words: one for each sentence, none under a model of pieces."""
        return sum(one.has_end for one in self.sentences)

    @property
    def zero_probabilities(self) -> int:
        """Number of listed words that were left out (by `oov="skip"`) because the model gives them p = 0 there."""
        pairs = (pair for one in self.sentences for pair in zip(one.log_p, one.known, strict=True))
        return sum(math.isnan(log_p) and known for log_p, known in pairs)

    @property
    def unknown(self) -> dict[str, int]:
        """{word: count} of the words that the model reads as its unknown-word symbol, or not at all."""
        pairs = (pair for one in self.sentences for pair in zip(one.words, one.known, strict=True))
        return dict(Counter(word for word, known in pairs if not known))

    @property
    def log_prob(self) -> float:
        """log p of the text, the sum over all sentences and their ends, in `unit`."""
        return math.fsum(one.log_prob for one in self.sentences)

    @property
    def log_prob_without_ends(self) -> float:
        """log p of all words of the text without the ends of sentences, in `unit`."""
        return math.fsum(one.log_prob_without_end for one in self.sentences)

    @property
    def perplexity(self) -> float:
        """The perplexity exp(−Σ log p / N), log p in nats, over the N words and ends of sentences of the text.

        It is the same in every `unit`.
        """
        return _perplexity(self.log_prob, self.words, self.unit)

    @property
    def perplexity_without_ends(self) -> float:
        """The perplexity exp(−Σ log p / N), log p in nats, over N words without ends of sentences; NaN if N is 0."""
        return _perplexity(self.log_prob_without_ends, self.words - self.ends, self.unit)

    @property
    def ppl1(self) -> float:
        """SRILM's ppl1, a perplexity: exp(−Σ log p / N), where log p counts ends of sentences but N words only.

        log p is in nats. NaN where there is no word.
        """
        return _perplexity(self.log_prob, self.words - self.ends, self.unit)

    def totals(self) -> dict[str, Any]:
        """Return totals of the whole text as a dict for JSON.

        The attributes `unit`, `words`, `log_prob`, `log_prob_without_ends`, `perplexity`, `perplexity_without_ends`,
        `ppl1`, `zero_probabilities` and `unknown`; also `sentences` and `oovs`, the numbers of sentences and of unknown
        words, `reading` ("alone" for sentences by themselves, else "running") and `contract`, as a line of text.
        """
        names = ("unit", "words", "log_prob", "log_prob_without_ends", "perplexity", "perplexity_without_ends", "ppl1")
        own = {name: getattr(self, name) for name in names}
        own |= {"reading": self.contract.reading, "contract": str(self.contract)}
        unknown = self.unknown
        told = {"oovs": sum(unknown.values()), "zero_probabilities": self.zero_probabilities, "unknown": unknown}
        return {**own, "sentences": len(self.sentences), **told}

    def numbered(self) -> Iterator[tuple[int, SentenceScore]]:
        """Yield (number, score) of each sentence: the number of its line in the text's file, else 1, 2, 3, …."""
        return zip(self.numbers or count(1), self.sentences, strict=False)

    def rows(self, by: By = "words") -> Iterator[dict[str, Any]]:
        """Yield a dict for each word (`by="words"`), sentence or token, as `pandas.DataFrame` takes them.

        Keys for a word: `sentence_id`, `word_id`, `word`, `surprisal`, `known`, `kind`; for a sentence: `sentence_id`,
        `words` (number, its end included), `log_prob`, `perplexity`, `unknown` (number), `sentence`. `word_id` counts
        the words of a sentence from 1, its end included; `sentence_id` is the number of the line, else it counts from
        1. Consecutive sentences of one line are taken together, as one. Under a model of pieces words also have
        `log_prob` and `n_tokens`, and tokens (`by="tokens"`) `sentence_id`, `word_id`, `token`, `surprisal`. Raises
        ConfigError for another `by`, and for tokens of a model of words.
        """
        if by not in get_args(By):
            raise ConfigError(f"rows are by words, by sentences or by tokens, found {by!r}; choose one")
        if by == "tokens" and self.contract.end:
            raise ConfigError(
                "rows by tokens are of a language model over pieces of words, found another; ask for words"
            )
        for number, group in groupby(self.numbered(), key=itemgetter(0)):
            one = reduce(add, map(itemgetter(1), group))
            if by == "words":
                rows = zip(one.words, one.surprisals, one.known, one.kinds, one.log_p, strict=True)
                for place, (*row, log_p) in enumerate(rows, 1):
                    named = zip(("word", "surprisal", "known", "kind"), row, strict=True)
                    more = {"log_prob": log_p, "n_tokens": len(one.tokens[place - 1])} if one.tokens else {}
                    yield {"sentence_id": number, "word_id": place, **dict(named), **more}
            elif by == "tokens":
                for place, tokens in enumerate(one.tokens, 1):
                    for token, log_p in tokens:
                        yield {"sentence_id": number, "word_id": place, "token": token, "surprisal": 0.0 - log_p}
            else:
                figures = {"words": len(one.counted), "log_prob": one.log_prob, "perplexity": one.perplexity}
                text = " ".join(one.words[: len(one.words) - one.has_end])
                yield {"sentence_id": number, **figures, "unknown": one.known.count(False), "sentence": text}

    def tsv(self, by: By = "words") -> str:
        """Return the dicts of `rows(by)` as tab-separated text: a header line of their keys, then a line for each.

        `by`: "words", "sentences" or "tokens". "" where there are no rows.
        """
        rows = list(self.rows(by))
        return "".join(f"{line}\n" for line in tabbed(rows)) if rows else ""

    def __str__(self) -> str:
        missing = self.unknown
        some = ", ".join(map(repr, [*missing][:4])) + (", ..." if len(missing) > 4 else "")
        told = f"; {sum(missing.values()):,} words are unknown: {some}" if missing else "; no word is unknown"
        if not self.contract.end:
            figures = f"log p {self.log_prob:.4f} {self.unit}, perplexity {self.perplexity:.3f}"
            return f"{len(self.sentences):,} texts, {self.words:,} words: {figures}\n{self.contract}"
        return (
            f"{len(self.sentences):,} sentences, {self.words:,} words with ends of sentence: "
            f"log p {self.log_prob:.4f} {self.unit}, perplexity {self.perplexity:.3f}; without ends "
            f"{self.log_prob_without_ends:.4f} {self.unit}, perplexity {self.perplexity_without_ends:.3f}; "
            f"ppl1 {self.ppl1:.3f}{told}\n{self.contract}"
        )


def score(
    model: LLRNN | StrPath,
    texts: Corpus | Sequence[str | Sequence[str]],
    *,
    conditions: Sequence[object] | None = None,
    unit: Unit = "nats",
    lowercase: bool | None = None,
    oov: Oov | None = None,
) -> TextScores:
    """Return log p of every word of each text, and of the end of each sentence, as `TextScores`.

    `model`: a model, its folder, or an n-gram model (an ARPA file, or a folder that `llrnn ngram` wrote). `texts`:
    sentences as strings, which the model's tokeniser cuts, as sequences of words, or a corpus; `conditions`: for each
    text the input that it was generated from, for models that have one. `unit`: nats, bits or log10. Words are
    lowercased first if `lowercase` says so, by default where the model was trained so. `oov`: words outside the
    vocabulary, and words of p = 0, are left out of all sums (`skip`); or words outside are read as the unknown-word
    symbol (`unk`) or raise UnknownWordError (`error`); None: `unk` if the model has that symbol, else `error`. Of a
    language model over pieces (`llrnn.open_lm`) the words are those between white space, by `inference.piece_words`.

        scores = score(model, ["elle dort .", "il dort bien ."], unit="bits")
        for row in scores.rows():
            print(row["word"], row["surprisal"])
    """
    if unit not in UNITS:
        raise ConfigError(f"unit must be {', '.join(UNITS)}, found {unit!r}; choose one")
    opened = open_model(model, oov=oov) if isinstance(model, str | PathLike) else model
    require_model(opened)
    corpus = _corpus(opened, texts, conditions)
    small = opened.reads_lowercase if lowercase is None else lowercase
    corpus = corpus.lowercased(opened.tokeniser.lower) if small else corpus
    ngram = opened.background if isinstance(opened.background, NGram) and not opened.feature_names else None
    conditioned = any(one is not None for one in corpus.conditions)
    if ngram is not None and conditioned:
        raise ConfigError("an n-gram model does not look at conditions, found a text that has some; leave them out")
    read, missing = treat_unknown(corpus, opened.vocabulary, oov)
    own = prepared(opened, read.conditions) if conditioned and reading_of(corpus) == "alone" else opened
    ready, skipped = with_text_words(own, read), dict[str, str]()
    text = EncodedText.encode(read, ready.vocabulary)
    if (pieces := PieceWords.of(ready)) is not None:
        rows = tuple(_of_pieces(words, unit) for words in pieces.read(ready, text))
        counted = contract_of_words(corpus, own.vocabulary, [word for row in rows for word in row.words])
        return TextScores(rows, counted, unit)
    log_probs = sentence_log_probs(ready, text) if ngram is None else _by_ngrams(ngram, text)
    found = _scores(read, own.vocabulary, log_probs, unit)
    if oov == "skip":
        found = [_skipping(sentence, one, missing) for sentence, one in zip(corpus, found, strict=True)]
        skipped = {"treatment": LEFT_OUT}
    words = sum(len(one.counted) for one in found)
    return TextScores(tuple(found), Contract.of(corpus, own.vocabulary, words, **skipped), unit)


def _skipping(sentence: Sentence, found: SentenceScore, missing: Container[str]) -> SentenceScore:
    """Return the score of a sentence with log p = NaN for unknown and impossible words, so that no sum counts them.

    `found`: the score of what the model could read; `missing`: the words outside the vocabulary, which `found` lacks
    where the model has no symbol for them.
    """
    words, read = (*sentence.words, EOS), iter(zip(found.log_p, found.kinds, strict=True))
    unread = missing if len(found.words) < len(words) else ()  # the model has no symbol for them
    pairs = [(math.nan, "unknown") if word in unread else next(read) for word in words]
    log_p = tuple(one if kind != "unknown" and one > -math.inf else math.nan for one, kind in pairs)
    return SentenceScore(words, log_p, tuple(kind for _, kind in pairs), found.unit)


def _corpus(model: LLRNN, texts: Corpus | Sequence[str | Sequence[str]], conditions: Sequence[object] | None) -> Corpus:
    if isinstance(texts, str):
        raise ConfigError(f"a list of texts is required, found one string: write [{texts[:40]!r}]")
    if isinstance(texts, Corpus):
        if conditions is not None:
            raise ConfigError("a corpus has its conditions, found others beside it; give one of them")
        corpus = texts
    else:
        cut = [model.tokeniser.tokenise(one) if isinstance(one, str) else one for one in texts]
        raw = any(isinstance(one, str) for one in texts)
        corpus = replace(Corpus.from_sentences(cut, name="texts"), cut_by=model.cut_by if raw else "given")
    if conditions is not None:
        if len(conditions) != len(corpus):
            raise ConfigError(f"one condition for each of {len(corpus)} texts is required, found {len(conditions)}")
        pairs = zip(corpus, conditions, strict=True)
        given = [replace(sentence, condition=condition) for sentence, condition in pairs]
        corpus = Corpus(given, corpus.name, corpus.cut_by)
    if not len(corpus):
        raise CorpusError("at least one text is required to score, found none; give a list of them")
    for sentence in corpus:
        if EOS in sentence.words:
            raise CorpusError(f"{sentence.name}: {EOS} marks the end of a sentence, found it as a word; take it out")
    return corpus


def _by_ngrams(ngram: NGram, text: EncodedText) -> list[Floats]:
    stream = replace(text, conditions=(None,) * len(text.sentences)).stream()  # n-grams read no conditions
    return np.split(ngram.score(stream)[0].double().numpy(), np.cumsum(text.lengths)[:-1])


def _scores(corpus: Corpus, vocabulary: Vocabulary, log_probs: Sequence[Floats], unit: Unit) -> list[SentenceScore]:
    """Return log p of each sentence in `unit`, from `log_probs` of its symbols in nats.

    `vocabulary`: the model's own, which says of each word its kind: listed, spelled, number, unknown. `log_probs`: for
    each sentence an array over its symbols, the end last; those of a word that is several units are added up.
    """
    factor, made, types = 1.0 / math.log(UNITS[unit]), [], list(corpus.counts())
    kinds = dict(zip(types, vocabulary.kinds(types), strict=True))
    for sentence, log_p in zip(corpus, log_probs, strict=True):
        own = log_p if vocabulary.units is None else _by_word(sentence.words, log_p, vocabulary.units)
        converted = tuple((own * factor).tolist())
        listed = (*(kinds[word] for word in sentence.words), "listed")
        made.append(SentenceScore((*sentence.words, EOS), converted, listed, unit))
    return made


def _of_pieces(words: Sequence[PieceWord], unit: Unit) -> SentenceScore:
    """Return the score of one text in `unit`, from its words with log p in nats."""
    factor = 1.0 / math.log(UNITS[unit])
    tokens = tuple(tuple((token, log_p * factor) for token, log_p in one.tokens) for one in words)
    log_p, kinds = tuple(one.log_p * factor for one in words), ("listed",) * len(words)
    return SentenceScore(tuple(one.word for one in words), log_p, kinds, unit, tokens)


def _by_word(words: Sequence[str], log_p: Floats, units: Units) -> Floats:
    """Return log p of each word, summed over its units (characters or byte pairs), and of the end of the sentence.

    `log_p`: of the units of all `words` in order, then of the end, in nats; the result is (number of words + 1,)
    float64.
    """
    first = np.cumsum([0, *(len(units.of(word)) for word in words)])
    return np.asarray(np.add.reduceat(log_p, first))


def _perplexity(log_prob: float, words: int, unit: str) -> float:
    """Return the perplexity of `words` words whose summed log p in `unit` (nats, bits or log10) is `log_prob`.

    Infinity where a float cannot hold it, NaN for 0 words.
    """
    if not words:
        return math.nan
    try:
        return float(UNITS[unit] ** (-log_prob / words))
    except OverflowError:
        return math.inf


def tabbed(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return rows with equal keys, one at least, as lines of TSV: the keys, then the values of each row."""
    return ["\t".join(rows[0]), *("\t".join(map(_printed, row.values())) for row in rows)]


def _printed(value: object) -> str:
    """Return a value as text for TSV: numbers in full, truth as 1 or 0, None as _, tabs and line ends as escapes."""
    if value is None:
        return "_"
    if isinstance(value, str):
        return value.replace("\t", "\\t").replace("\n", "\\n")
    return str(int(value)) if isinstance(value, bool) else str(value)
