"""What a configuration describes: corpora, knowledge and a model to train."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path

from llrnn.config import keys
from llrnn.config.keys import Config
from llrnn.config.own import Context
from llrnn.ground.errors import ConfigError, ZeroMassError, warn
from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import Background, entity_words
from llrnn.knowledge.backgrounds.base import absolute_discount
from llrnn.knowledge.backgrounds.constraint import constraints_of
from llrnn.knowledge.contextual import Again, ContextualFeature, ContextualInput, Lookup
from llrnn.knowledge.contextual.lookup import value_words
from llrnn.knowledge.features import Features
from llrnn.model.network import LLRNN
from llrnn.model.words import value_attribute
from llrnn.text import french
from llrnn.text.built import BuiltCorpus
from llrnn.text.conditions import Conditions, numbers_of, said_values, values_of
from llrnn.text.corpus import Corpus, format_of
from llrnn.text.encoded import EncodedText
from llrnn.text.lexicon import Lexicon, read_frequencies
from llrnn.text.others import OtherText
from llrnn.text.raw import contracted, tokeniser_for, warn_if_raw
from llrnn.text.readers import Lowercase, Sentence
from llrnn.text.tokenisers import Tokeniser
from llrnn.text.units import BytePairs, CharacterUnits, Units
from llrnn.text.vocabulary import Vocabulary


def _open_built(paths: Sequence[str], config: Config) -> Corpus:
    """Return the built corpus at `paths[0]`, a folder of encoded text on disk that is named in place of text files.

    Raises ConfigError where `paths` has more than one, or where the corpus was lowercased and `config.corpus.lowercase`
    says otherwise, or the reverse.
    """
    if len(paths) > 1:
        raise ConfigError(f"a built corpus stands alone, found {', '.join(paths)}; build all of them as one")
    built, wanted = BuiltCorpus(paths[0]), config.corpus.lowercase
    if built.manifest.lowercase != wanted:
        how = "with" if built.manifest.lowercase else "without"
        raise ConfigError(
            f"{paths[0]} was built {how} --lowercase, but corpus.lowercase = {str(wanted).lower()}; set it to "
            f"{str(not wanted).lower()}, or build the corpus again"
        )
    return built


def _require_loaded(config: Config, corpora: Mapping[str, Corpus]) -> None:
    """Raise ConfigError where the configuration needs what a built corpus (encoded text on disk) does not have.

    Such are annotations of words, conditions of sentences and n-gram counts. `corpora`: the texts by part (train,
    valid, test).
    """
    built = [part for part, corpus in corpora.items() if isinstance(corpus, BuiltCorpus)]
    needs_memory = {
        "[condition]": config.condition is not None,
        "corpus.valid_last": config.corpus.valid_last is not None,
        "lexicon.parts": not {*built}.isdisjoint(config.lexicon.parts),
        "lexicon.values": bool(config.lexicon.values),
        "lexicon.columns": bool(config.lexicon.columns),
        "background.primed": config.background.primed is not None,
        "background.whole_values": config.background.whole_values is not None,
        "background.recent": config.background.recent is not None,
        "the background of n-grams": _counts_any(config.background, built),
        "an expert of n-grams": any(_counts_any(one, built) for one in [*config.contextual, *config.mixed]),
    }
    for key in (key for key, is_set in needs_memory.items() if built and is_set):
        raise ConfigError(
            f"{key} needs a text in memory, but corpus.{built[0]} is a built corpus, {corpora[built[0]].name}; leave "
            "it out, or give files (lexicon.corpora, lexicon.tsv; for n-grams of other text: files, arpa)"
        )


def _counts_any(given: object, parts: Sequence[str]) -> bool:
    return isinstance(given, keys.NGramsConfig) and given.counts_any(parts)


_RARE = 2  # how often a rare word was seen, at most
_WELL_KNOWN = 0.8  # share of words with attributes, where a lexicon claims to know the words of the text
_ENOUGH_TYPES = 50  # rare and new words, for their shares to say anything


@dataclass(frozen=True)
class Project:
    """What a configuration describes, read and estimated: texts, lexicon, vocabulary, features, prior b(K, x).

    `model()` makes the model to train. `corpora` has the parts `train`, `valid` and `test`, where given; `others` are
    further texts to train on; `mixed` are n-gram models that the network mixes in; `tokeniser`: what cuts raw text into
    words, None where texts are not cut.

        project = Project.from_config(read_config("configs/embedded.toml"))
        for record in train(project.model(), project.corpora["train"], settings=project.config.training): ...
    """

    config: Config
    corpora: dict[str, Corpus]
    lexicon: Lexicon
    vocabulary: Vocabulary
    output_features: Features
    input_features: Features | None
    background: Background
    contextual: tuple[ContextualFeature, ...]
    contextual_inputs: tuple[ContextualInput, ...] = ()
    others: tuple[OtherText, ...] = ()
    mixed: tuple[Background, ...] = ()
    tokeniser: Tokeniser | None = None

    @classmethod
    def from_config(cls, config: Config) -> Project:
        """Read the texts of a configuration, and make vocabulary, features and prior b(K, x) from them.

        Warns of what makes little sense, and raises ConfigError for what makes none, such as `[condition]` for a text
        whose sentences have no conditions (inputs that they are generated from).
        """
        tokeniser = _tokeniser(config)
        corpora = read_corpora(config, tokeniser)
        if tokeniser is None:
            warn_if_raw(corpora["train"])
        if config.condition is not None:
            _require_conditions(corpora, config.condition)
        cut = _units(config, corpora)
        texts = corpora if cut is None else {part: cut.corpus(corpus) for part, corpus in corpora.items()}
        read = partial(_read, config=config, tokeniser=tokeniser)
        files = [*config.corpus.train, *(file for other in config.corpus.other for file in other.files)]
        context = Context(texts, config.corpus.lowercase, words=corpora, files=files, read=read)
        asked = (one.make(context) for one in config.contextual)
        contextual = tuple(each for made in asked for each in (made if isinstance(made, tuple) else (made,)))
        if config.background.recent is not None and config.background.recent.weight is None:
            contextual = (*contextual, Again())
        lexicon = context.lexicon = _lexicon(config, corpora, contextual, _lowercase(config, tokeniser))
        vocabulary = _vocabulary(config, context, _said_by_knowledge(config, lexicon, contextual), cut)
        context.vocabulary = vocabulary
        output, given = _features(config, context)
        background = _background(config.background, context)
        inputs = tuple(one.make(context) for one in config.contextual_inputs)
        others = tuple(_other(one, config, corpora, tokeniser) for one in config.corpus.other)
        mixed = tuple(one.make(context) for one in config.mixed)
        known = (lexicon, vocabulary, output, given, background, contextual, inputs, others, mixed)
        made = cls(config, corpora, *known, tokeniser)
        made._warn_of_coverage()
        return made

    def _warn_of_coverage(self) -> None:
        """Warn where the lexicon knows over 80 % of the rare training words, but less than half that share of new ones.

        Rare words occur at most twice in the training text; new ones are in the validation text only. Nothing is done
        where there are fewer than 50 of either, no validation text, an empty lexicon, or a vocabulary that is open:
        one that has a probability for every string.
        """
        if "valid" not in self.corpora or self.vocabulary.is_open or not self.lexicon.forms():
            return
        seen = self.corpora["train"].counts()
        rare = [word for word, count in seen.items() if count <= _RARE]
        new = [word for word in self.corpora["valid"].counts() if word not in seen]
        if min(len(rare), len(new)) < _ENOUGH_TYPES:
            return
        of_rare, of_new = (sum(bool(self.lexicon(word)) for word in words) / len(words) for words in (rare, new))
        if of_rare > _WELL_KNOWN and of_new < of_rare / 2:
            warn(
                f"the lexicon has attributes for {of_rare:.0%} of the rare words of the training text, but for "
                f"{of_new:.0%} of the words that only the validation text has: what is learnt of attributes will not "
                "help there; give a lexicon of the language (lexicon.tsv), or name valid and test in lexicon.parts"
            )

    def model(self) -> LLRNN:
        """Return a new, untrained model; its weights are determined by `training.seed`.

        Raises ZeroMassError where the prior b(K, x) gives probability 0 to a word of the training or validation text.
        """
        config, own, condition = self.config, self.config.controller, self.config.condition
        conditions = self.corpora["train"].conditions if "train" in self.corpora else ()
        numbers = () if condition is None else condition.inputs(conditions)
        model = LLRNN(
            self.vocabulary,
            output_features=self.output_features,
            input_features=self.input_features,
            background=self.background,
            controller=own.make() if condition is None else condition.controller(own, conditions),
            contextual=self.contextual,
            contextual_inputs=(*self.contextual_inputs, *numbers),
            mixed=self.mixed,
            tied=config.tied,
            word_dropout=config.word_dropout,
            seed=config.training.seed,
        )
        model.provenance = {"config": config.model_dump(mode="json")}
        if condition is not None and condition.reading == "slots":
            model.provenance["example"] = _telling(self.corpora.get("valid", self.corpora["train"]))
        if self.tokeniser is not None:
            model.provenance["tokeniser"] = self.tokeniser.saved()
        self._require_numbers(model)
        for part in ("train", "valid"):
            if part in self.corpora:
                self._require_mass(model, part, EncodedText.encode(self.corpora[part], model.vocabulary))
        for other in self.others:
            self._require_mass(model, "other", other.encoded(model.vocabulary))
        return model

    def _require_numbers(self, model: LLRNN) -> None:
        """Raise ConfigError where the condition of a sentence, of any part, lacks a number that training has.

        Conditions are the inputs that texts are generated from. Nothing is checked unless they are read as numbers.
        """
        if self.config.condition is None or self.config.condition.reading != "numbers":
            return
        for sentence in (sentence for corpus in self.corpora.values() for sentence in corpus):
            with _naming(sentence):
                model.start([sentence.condition])

    def _require_mass(self, model: LLRNN, part: str, text: EncodedText) -> None:
        """Raise ZeroMassError where the prior b(K, x) gives a word of a text probability 0, before training fails.

        `part`: train, valid or `other`, for the message and its advice; `text`: that part, encoded. Where the prior
        depends on the context K, only its constraints, such as a grammar, are checked, on the sentences of the part.
        """
        if not model.background.is_static:
            if part in self.corpora:
                _require_language(model, self.corpora[part])
            return
        log_b = model.background.prior([]).dense(1).log_b[0]
        counts = text.counts(len(model.vocabulary))
        for word in counts.nonzero()[0].tolist():
            if log_b[word] == float("-inf"):
                raise ZeroMassError(
                    f"the background {model.background!r} gives {model.vocabulary.symbols[word]!r} no mass, but it is "
                    f"a word of the {part} text; {_more_mass(self.config.background, part)}"
                )


def _require_conditions(corpora: dict[str, Corpus], given: keys.ConditionConfig) -> None:
    for sentence in (sentence for corpus in corpora.values() for sentence in corpus):
        if sentence.condition is None:
            raise ConfigError(
                f"{sentence.name}: a condition is required of every sentence, since [condition] is set, found none; "
                "give it one, or leave [condition] out"
            )
        if given.reading == "numbers":
            with _naming(sentence):
                numbers_of(sentence.condition, given.names)


@contextmanager
def _naming(sentence: Sentence) -> Iterator[None]:
    """Context manager (yields None): a ConfigError in the block is raised with the sentence's `FILE:LINE` before it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{sentence.name}: {error}") from None


def _more_mass(given: keys.AnyBackground, part: str) -> str:
    """Return advice for an error message: which keys make the prior `given` cover a word of this part of the corpus.

    `part`: "train", "valid", or "other" for a further text.
    """
    if part == "other":
        return "count the word in the background too, or leave it out of [vocabulary]: the text is then cut there"
    named = f"name {part} in background.parts"
    if isinstance(given, keys.DiscountedConfig):
        return f"{named}, or give background.frequencies, a list that holds the word"
    counted = named if getattr(given, "frequencies", None) is None else "count it in the frequency file"
    return f"set background.smoothing above 0, or {counted}"


def _require_language(model: LLRNN, corpus: Corpus) -> None:
    """Raise ZeroMassError at the first sentence of a corpus that a constraint of the model's prior forbids.

    A constraint is a factor of the prior b(K, x), such as a grammar; nothing is checked where there is none.
    """
    if not (constraints := constraints_of(model.background)):
        return
    text = EncodedText.encode(corpus, model.vocabulary)
    for constraint in constraints:
        for sentence, ids in zip(corpus, text.sentences, strict=True):
            reason = constraint.objection(sentence.condition, ids.tolist())
            if reason is not None:
                raise ZeroMassError(f"{sentence.name}: {reason}")


def read_corpora(config: Config, tokeniser: Tokeniser | None = None) -> dict[str, Corpus]:
    """Read the texts of a configuration; return them by part: `train`, and `valid` and `test` where it names them.

    `tokeniser` cuts raw text; None takes words as they stand between blanks. Where the prior has `recent` words, train
    is a running text: each of its sentences gets the words before it as its condition.
    """
    corpora, recent = _read_parts(config, tokeniser), config.background.recent
    return corpora if recent is None else corpora | {"train": corpora["train"].running(recent.window)}


def _read_parts(config: Config, tokeniser: Tokeniser | None) -> dict[str, Corpus]:
    given, own = config.corpus, config.corpus.embedded
    if own is not None:
        return embedded_corpora(own.train, own.valid, own.test, given.lowercase)
    files = {"train": given.train, "valid": given.valid, "test": given.test}
    corpora = {part: _read(paths, config, given.conditions, tokeniser) for part, paths in files.items() if paths}
    _require_loaded(config, corpora)
    if given.valid_last is not None:
        if given.valid_last >= len(corpora["train"]):
            raise ConfigError(
                f"corpus.valid_last = {given.valid_last} leaves nothing of {len(corpora['train'])} training sentences"
            )
        corpora["train"], corpora["valid"] = corpora["train"].split(len(corpora["train"]) - given.valid_last)
    return corpora


def _other(
    given: keys.OtherConfig, config: Config, corpora: dict[str, Corpus], tokeniser: Tokeniser | None
) -> OtherText:
    """Return a further text to train on, read from the files of its table `given`.

    Sentences that the validation or test text has too, or shares a run of words with, are left out. `corpora`: the
    texts by part; `tokeniser`: cuts raw text, None for none. Raises ConfigError where the configuration has conditions,
    a grammar or a dictionary, which other texts do not fit.
    """
    if config.condition is not None:
        raise ConfigError(
            "corpus.other: other texts have no conditions to write from, but [condition] is set; leave one of them out"
        )
    if config.background.grammar or config.background.dictionary:
        raise ConfigError(
            "corpus.other: other texts are no strings of the language that [background] holds the model to; leave one "
            "of them out"
        )
    text = _read(given.files, config, tokeniser=tokeniser)
    if tokeniser is None:
        warn_if_raw(text)
    held_out = [corpora[part] for part in ("valid", "test") if part in corpora]
    return OtherText.apart_from(text, held_out, **given.model_dump(exclude={"files"}))


def _tokeniser(config: Config) -> Tokeniser | None:
    given = config.corpus
    if given.embedded is not None or any(Path(path).is_dir() for path in given.train):
        return None
    return tokeniser_for(given.tokeniser, given.train, given.format, given.valid_last or 0)


def _lowercase(config: Config, tokeniser: Tokeniser | None) -> Lowercase:
    """Return False where the configuration keeps capitals; else the tokeniser's function that lowercases a text.

    True without a tokeniser, which stands for `str.lower`.
    """
    return config.corpus.lowercase and (True if tokeniser is None else tokeniser.lower)


def _read(
    paths: Sequence[str], config: Config, conditions: Conditions = "plain", tokeniser: Tokeniser | None = None
) -> Corpus:
    """Read text files, or one folder of a built corpus, as one corpus, lowercased and cut as the configuration says.

    `conditions`: how the conditions of sentences are parsed: `plain`, or `act` for dialogue acts. `tokeniser`: cuts raw
    text; None takes words as they stand between blanks.
    """
    if any(Path(path).is_dir() for path in paths):
        return _open_built(paths, config)
    given = config.corpus
    small = _lowercase(config, tokeniser)
    read = partial(Corpus.from_file, format=given.format, lowercase=small, conditions=conditions)
    cut = None if tokeniser is None or given.tokeniser == "tokenised" else tokeniser.sentences
    whole = read(paths, surface=given.multiword == "surface", cut=cut)
    if tokeniser is not None and given.multiword == "surface":
        whole = contracted(whole, tokeniser.contractions)
    if tokeniser is not None and cut is not None and {format_of(path, given.format) for path in paths} == {"text"}:
        whole = replace(whole, cut_by=tokeniser.saved()["kind"])
    return whole


def embedded_corpora(train: int, valid: int, test: int, lowercase: bool = True) -> dict[str, Corpus]:
    """Return `train`, `valid` and `test`, consecutive parts of the packaged French sample, by these names.

    The numbers are sentences of each; `lowercase`: whether words are lowercased.
    """
    whole = Corpus.from_sentences(french.sentences(train + valid + test), name="french")
    whole = whole.lowercased() if lowercase else whole
    return dict(zip(("train", "valid", "test"), whole.split(train, valid), strict=True))


def _said_by_knowledge(config: Config, lexicon: Lexicon, context: Sequence[ContextualFeature]) -> list[str]:
    """Return words that the vocabulary must have though no text has them: of looked-up tables and of slot values.

    Slot values are words that the lexicon gives the attribute of a slot in `lexicon.values`; only where contextual
    features (`context`) or the prior's `primed` may copy them.
    """
    tables = [word for one in context if isinstance(one, Lookup) for word in sorted(one.words_of_table)]
    if not (config.lexicon.values and (context or config.background.primed is not None)):
        return tables
    attributes = {value_attribute(slot) for slot in config.lexicon.values}
    return [*tables, *(form for form in lexicon.forms() if lexicon(form) & attributes)]


def _units(config: Config, corpora: dict[str, Corpus]) -> Units | None:
    """Return what cuts words into characters or byte pairs, as `corpus.units` says, learnt from the training text.

    None for `corpus.units = "words"`. Raises ConfigError for a built corpus (encoded text on disk), whose words are
    ids.
    """
    if config.corpus.units == "words":
        return None
    if any(isinstance(corpus, BuiltCorpus) for corpus in corpora.values()):
        raise ConfigError(
            f"corpus.units = {config.corpus.units!r} needs a text in memory, but a built corpus has words as numbers; "
            "give files"
        )
    if config.corpus.units == "characters":
        return CharacterUnits.from_corpus(corpora["train"])
    return BytePairs.from_corpus(corpora["train"], config.corpus.bpe_size)


def _vocabulary(config: Config, context: Context, said: Sequence[str], units: Units | None = None) -> Vocabulary:
    given, symbols = config.vocabulary, [] if units is None else units.symbols()
    texts = context.parts("vocabulary", given.parts) + [context.read([path]) for path in given.files]
    counts = context.counts = sum((Counter(corpus.counts()) for corpus in texts), Counter())
    # the symbol that a built corpus has in the place of unknown words is that of the vocabulary too
    built = (text.unknown for text in texts if isinstance(text, BuiltCorpus) and text.unknown is not None)
    discount = absolute_discount(counts) if config.domains else 0.0
    return Vocabulary.from_corpus(
        *texts,
        top=given.top,
        min_count=given.min_count,
        unknown=given.unknown if given.unknown is not None else next(built, None),
        others=[*(word for path in given.lists for word in read_frequencies(path)), *said, *symbols],
        domains=[domain.make(context) for domain in config.domains],
        as_new=discount if given.as_new is None else given.as_new,
        units=units,
    )


def _lexicon(
    config: Config, corpora: dict[str, Corpus], context: Sequence[ContextualFeature], lowercase: Lowercase
) -> Lexicon:
    annotated = Context(corpora).parts("lexicon", config.lexicon.parts)
    annotated += [Corpus.from_file(path, lowercase=lowercase) for path in config.lexicon.corpora]
    lexicon = Lexicon.from_corpus(*annotated)
    if config.lexicon.min_count > 1:
        counts = sum((Counter(corpus.counts()) for corpus in annotated), Counter())
        often = (form for form in lexicon.forms() if counts[form] >= config.lexicon.min_count)
        lexicon = Lexicon.from_mapping({form: lexicon(form) for form in often})
    for path in config.lexicon.tsv:
        lexicon = lexicon | Lexicon.from_tsv(path, lowercase=lowercase)
    if config.lexicon.values:
        found = entity_words(corpora["train"], config.lexicon.values)
        lexicon = lexicon | Lexicon.from_mapping({word: map(value_attribute, slots) for word, slots in found.items()})
    for column in config.lexicon.columns:
        words = value_words(_of_column(column, context), corpora["train"])
        lexicon = lexicon | Lexicon.from_mapping({word: [value_attribute(column)] for word in words})
    return lexicon


def _of_column(column: str, context: Sequence[ContextualFeature]) -> list[str]:
    """Return the values of a column, a string for each, in all tables of the `lookup` features among `context`.

    `column`: its name. Raises ConfigError where no `lookup` feature looks it up.
    """
    there = [(name, one.table) for one in context if isinstance(one, Lookup) for name in one.words_by_column]
    if column not in dict(there):
        listed = ", ".join(dict(there)) or "none; give [[contextual]] kind = 'lookup'"
        raise ConfigError(f"lexicon.columns names {column!r}, but the columns that are looked up are {listed}")
    return [text for name, table in there if name == column for text in table.values(column)]


def _features(config: Config, context: Context) -> tuple[Features, Features | None]:
    if config.kind == "softmax":
        return features.Identity(), None
    output, given = (
        None if groups is None else reduce(add, [group.make(context) for group in groups])
        for groups in (config.features.output, config.features.input)
    )
    assert output is not None  # the configuration requires one
    return output, given


_TELLING = 6  # values of the condition that a page begins with


def _telling(corpus: Corpus) -> str:
    """Return the condition of a corpus that shows best what a model writes from: as text, with most values, 6 at most.

    Of several the first whose sentence says all values as they are given, as far as there is one.
    """
    every = [([value.words for value in values_of(one.condition)], one) for one in corpus]
    given = [(values, one) for values, one in every if len(values) <= _TELLING] or every
    said = [(values, one) for values, one in given if len(said_values(values, one.words)) == len(values)]
    best = max(said or given, key=lambda pair: len(pair[0]))[1].condition
    return json.dumps(best, ensure_ascii=False) if isinstance(best, Mapping) else str(best)


def _background(given: keys.AnyBackground, context: Context) -> Background:
    """Return the prior b(K, x) that a configuration's table `given` describes.

    The prior of the table's kind is made first; then `recent`, `primed`, `whole_values`, `grammar` and `dictionary`,
    as far as the table has them, are put around it in this order. `context`: what it is made from.
    """
    around = (given.recent, given.primed, given.whole_values, given.grammar, given.dictionary)
    factors = (one for one in around if one is not None)
    return reduce(lambda base, one: one.around(base, context), factors, given.make(context))
