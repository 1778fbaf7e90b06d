"""A configuration: which text, which knowledge, which network, how to train. Typed TOML, nothing guessed.

    kind = "llrnn"                                  # or "softmax": identity features and a uniform background
    [corpus]      train, valid, test                # files; or `embedded`: our own French sample
    [[corpus.other]] files, when, weight, epochs    # texts that the network reads before the corpus, or mixed into it
    [vocabulary]  parts, top, unknown, lists        [[domains]]   kind, ...  # all other strings
    [lexicon]     parts, tsv                        # attributes of words: from annotated text and from tables
    [features]    output, input                     # lists of {kind = ..., ...}
    [background]  kind, ...                         [controller]  kind, hidden, layers, ...
    [[contextual]] kind, ...                        [condition]   how conditions are read, if there are any
    [[contextual_inputs]] kind, ...                 # what follows the context, as an input of the network
    [[mixed]]     order, ...                        # n-grams in a sum with the model, by weights of the network
    [training]    see `TrainingSettings`

Paths are relative to the folder in which the command runs; `{data}` in them stands for what `--data` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import add, attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

import llrnn
from llrnn.config.own import Context, OrOwn, OwnTable, own_table
from llrnn.ground.errors import ConfigError, warn
from llrnn.languages.grammars.automaton import Over
from llrnn.text.conditions import Characters, ConditionTokenizer, Slots, Whole, Words
from llrnn.text.lexicon import Lexicon, Probabilities, Readings, has_counts, read_frequencies
from llrnn.text.others import RUN, When
from llrnn.text.readers import read_lines
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import EOS, Domain
from llrnn.training.settings import SampledObjective, TrainingSettings


class Strict(BaseModel):
    """Base of all tables of a configuration (pydantic): immutable; unknown keys and values of another type are errors.

    Nothing is converted: a text or a truth value where a number is required is an error too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError where keys of the table contradict each other; called after validation.

        Subclasses override it; here it allows everything.
        """


def refuse_unused(table: BaseModel, keys: Iterable[str], purpose: str, found: str, place: str = "") -> None:
    """Raise ValueError where one of `keys` of a table is not at its default, though another key makes it useless.

    The message is `KEY <purpose>, found <found>; leave it out`, such as `folds is for counted n-grams, found arpa =
    'x'; leave it out`; `place`: a prefix of each key in it.
    """
    unused = [key for key in keys if getattr(table, key) != type(table).model_fields[key].default]
    if unused:
        raise ValueError(f"{', '.join(f'{place}{key}' for key in unused)} {purpose}, found {found}; leave it out")


class RowConfig(Strict):
    """Base of configuration tables whose keys, except `no_arguments`, are the keyword arguments of a class.

    `makes` maps each `kind` to the public name of that class ("features.Shape"); `make(context)` calls it.
    """

    makes: ClassVar[Mapping[str, str]]
    no_arguments: ClassVar[set[str]] = {"kind"}
    kind: str

    def make(self, context: Context) -> Any:
        return self.made(**self.model_dump(exclude=self.no_arguments))

    @property
    def made(self) -> Any:
        """The class that `kind` names, imported now."""
        return attrgetter(self.makes[self.kind])(llrnn)


class FeatureConfig(RowConfig):
    """Base of the tables of feature groups in `[features] output` and `input`: the keys that every group has.

    `make(context)` returns the group as `Features`.
    """

    no_arguments = {"kind", "scale", "shared", "listed"}
    scale: float = Field(1.0, gt=0, description="how much the group weighs")
    shared: int | None = Field(None, ge=1, description="only features that at least so many types share")
    listed: bool = Field(False, description="only on listed words: strings of domains have none of the group")

    def make(self, context: Context) -> llrnn.features.Features:
        made: llrnn.features.Features = self.bare(context)
        made = made.of_listed() if self.listed else made
        made = made if self.shared is None else made.frequent(min_count=self.shared)
        return made if self.scale == 1.0 else made.scaled(self.scale)

    def bare(self, context: Context) -> Any:
        return RowConfig.make(self, context)


class IdentityConfig(FeatureConfig):
    """A feature for each of the most frequent words, as in a softmax: `{kind = "identity", top = 2500}`."""

    kind: Literal["identity"]
    top: int | None = Field(None, ge=0, description="how many words; all by default [words]")
    without: list[str] = Field([], description="attributes of the lexicon: words that have one are not told apart")

    def bare(self, context: Context) -> llrnn.features.Features:
        known = context.lexicon
        without = {form for form in known.forms() if known(form) & {*self.without}} if self.without else set()
        return llrnn.features.Identity(self.top, without=without)


class TableConfig(FeatureConfig):
    """Attributes of words from a further table, such as clusters: `{kind = "table", tsv = "clusters.tsv"}`."""

    kind: Literal["table"]
    tsv: str = Field(description="a table of form and attributes")
    name: str = Field("Table", description="the group's name in reports")

    def bare(self, context: Context) -> llrnn.features.Features:
        return llrnn.features.Function(Lexicon.from_tsv(self.tsv), name=self.name)


class ReadingsConfig(FeatureConfig):
    """Attributes of words from the weighted readings of a morphological analyser; values are their probabilities.

    `{kind = "readings", tsv = "readings.tsv"}`
    """

    kind: Literal["readings"]
    tsv: str = Field(description="a table of form, weight and attributes, as `llrnn data readings` writes it")
    without: list[str] = Field(
        ["Lemma", "Kind"], description="names of attributes to leave out; Kind is a reading as a whole"
    )
    levels: int | None = Field(None, ge=1, description="steps that probabilities are rounded to: fewer classes")
    name: str = Field("Readings", description="the group's name in reports")

    def bare(self, context: Context) -> llrnn.features.Features:
        known = Probabilities(Readings.from_tsv(self.tsv), tuple(self.without), self.levels)
        return llrnn.features.Function(known, name=self.name)


class AffixConfig(FeatureConfig):
    """A feature for each beginning or ending that several words share: `{kind = "suffixes", longest = 3}`."""

    makes = {"prefixes": "features.Prefixes", "suffixes": "features.Suffixes"}
    kind: Literal["prefixes", "suffixes"]
    longest: int = Field(3, ge=1, description="longest length [characters]")
    min_count: int = Field(2, ge=1, description="how many words must share it [types]")
    top: int | None = Field(None, ge=1, description="only the commonest")


class AttributesConfig(FeatureConfig):
    """The attributes that `[lexicon]` has of words, such as gender and number, as features: `{kind = "attributes"}`."""

    kind: Literal["attributes"]

    def bare(self, context: Context) -> llrnn.features.Features:
        return llrnn.features.Attributes(context.lexicon)


class PlainFeatureConfig(FeatureConfig):
    """`shape`: features for capitals, digits and other signs in a word.

    `orthographic`: features for ending and length, by which domains (infinite sets of strings outside the vocabulary)
    group their strings, so that listed and unlisted words share features.
    """

    makes = {"shape": "features.Shape", "orthographic": "features.CellAttributes"}
    kind: Literal["shape", "orthographic"]


class NumericConfig(FeatureConfig):
    """Three features: whether a word is a number, a small number (below `small`), or a year: `{kind = "numeric"}`."""

    makes = {"numeric": "features.Numeric"}
    kind: Literal["numeric"]
    small: float = Field(100.0, gt=0, description="where small numbers end")


class VectorsConfig(FeatureConfig):
    """Word vectors from a file, as real-valued features: their first principal components.

    `{kind = "vectors", file = "vectors-fr.npz", components = 150}`
    """

    kind: Literal["vectors"]
    file: str = Field(description="fastText or word2vec (.vec, .txt), .tsv, .npz, .whl")
    components: int | None = Field(150, ge=1, description="principal components")
    scale: float = Field(3.0, gt=0, description="root mean square norm over the words that have a vector")
    any_case: bool = Field(False, description="look up paris as Paris and PARIS too")
    top: int | None = Field(None, ge=1, description="only the most frequent words have one")
    name: str = Field("Vectors", description="the group's name in reports")

    def bare(self, context: Context) -> llrnn.features.Features:
        settings = self.model_dump(include={"components", "any_case", "top", "name"})
        return llrnn.features.Vectors(self.file, scale=1.0, **settings)


class OwnFeature(FeatureConfig, OwnTable):
    """A feature group of another package, whose class is a subclass of `Features`; further keys are its arguments."""

    group, base = "features", "features.Features"

    def bare(self, context: Context) -> Any:
        return OwnTable.make(self, context)


_OfWords = IdentityConfig | TableConfig | ReadingsConfig | AffixConfig | NumericConfig | VectorsConfig
_OurFeature = _OfWords | AttributesConfig | PlainFeatureConfig
AnyFeature = Annotated[_OurFeature, Field(discriminator="kind"), OrOwn(OwnFeature)]


# Domains as configuration: `[[domains]] kind = "numbers", language = "fr"`.


class NumbersConfig(Strict):
    """A domain (an infinite set of strings outside the vocabulary): numbers in digits, and ordinals such as 3rd.

    `{kind = "numbers", language = "en"}`
    """

    kind: Literal["numbers"]
    language: str = Field("en", description="whose ordinals: fr, en, de, et, tr, or any of these; another has none")
    ratio: float = Field(0.3, gt=0, lt=1, description="how much rarer a number is with one digit more; below about 0.4")

    def make(self, context: Context) -> Domain:
        return llrnn.domains.Numbers(self.language, ratio=self.ratio).counted(context.counts)


class SpellingConfig(Strict):
    """A domain (an infinite set of strings outside the vocabulary): any string, with the probability of its spelling.

    That is by a character n-gram model. Strings are grouped by ending and length; those of a group share one symbol of
    the network, a cell.
    """

    kind: Literal["spelling"]
    order: int = Field(5, ge=2, le=12, description="of the n-grams, the predicted character included [characters]")
    min_counts: list[int] = Field([0, 0, 0, 2], description="the least count of character n-grams of each order")
    endings: int = Field(200, ge=0, description="how many endings are told apart")
    longest: int = Field(4, ge=1, description="the longest ending [characters]")
    lengths: list[int] = Field([4, 8], description="where one band of lengths ends and the next begins [characters]")
    one_cell: bool = Field(False, description="no cells: all strings are alike to the network")
    seen_at_most: int | None = Field(
        None, ge=1, description="learn from words that were seen so often or less; from all by default [times]"
    )

    def check(self) -> None:
        if self.one_cell:
            refuse_unused(self, ["endings", "longest", "lengths"], "tells cells apart", "one_cell = true")

    def make(self, context: Context) -> Domain:
        at_most = self.seen_at_most
        words = [word for word, count in context.counts.items() if at_most is None or count <= at_most]
        settings = self.model_dump(include={"order", "min_counts", "endings", "longest", "lengths"})
        return llrnn.domains.Spelling(words, **settings, cells=not self.one_cell)


OwnDomain = own_table("domains", "domains.Domain")
AnyDomain = Annotated[NumbersConfig | SpellingConfig, Field(discriminator="kind"), OrOwn(OwnDomain)]


# What a configuration says of conditions: how they are read, and the network that reads them.


def _controller(settings: dict[str, Any]) -> llrnn.Controller:
    from llrnn.model.controllers import make_controller

    return make_controller(settings)


class ControllerConfig(Strict):
    """The network that reads the text and computes the state h: the keys that all its kinds have.

    `make()` returns it, untrained.
    """

    hidden: int = Field(256, ge=1, le=2**20, description="units of each layer")
    layers: int = Field(1, ge=1, le=1000, description="layers")
    inputs: int | None = Field(None, ge=1, le=2**20, description="size of ψ's embedding; as many as hidden by default")
    dropout: float = Field(0.0, ge=0, lt=1, description="variational dropout, one mask a sequence [share]")

    def make(self, context: Context | None = None) -> llrnn.Controller:
        return _controller(self.model_dump(exclude_none=True))


class RecurrentConfig(ControllerConfig):
    """A recurrent network: `kind` is `elman`, `gru` or `lstm`, as in `{kind = "gru", hidden = 256, layers = 2}`."""

    kind: Literal["elman", "gru", "lstm"] = "lstm"
    last: int | None = Field(None, ge=1, le=2**20, description="units of the last layer; as many as hidden by default")
    input_dropout: float | None = Field(
        None, ge=0, lt=1, description="on the first layer's input; as dropout by default [share]"
    )
    output_dropout: float | None = Field(
        None, ge=0, lt=1, description="on the last layer's output; as dropout by default [share]"
    )
    weight_dropout: float = Field(0.0, ge=0, lt=1, description="weights of the recurrence left out of a batch [share]")


class MogrifierConfig(ControllerConfig):
    """A Mogrifier LSTM (Melis et al. 2020): input and state gate each other before each step."""

    kind: Literal["mogrifier"]
    rounds: int = Field(4, ge=0, description="rounds of mutual gating")


class TransformerConfig(ControllerConfig):
    """A Transformer: attention of `heads` heads over a window of the words before."""

    kind: Literal["transformer"]
    heads: int = Field(4, ge=1, description="heads of attention")
    window: int = Field(128, ge=1, description="how far attention sees [words]")


def _of_kind(default: str) -> BeforeValidator:
    """Return a pydantic validator that adds `kind = default` to a table (a dict) that has no key `kind`."""
    return BeforeValidator(lambda table: {"kind": default, **table} if isinstance(table, dict) else table)


class OwnController(ControllerConfig, OwnTable):
    """A network whose class, a subclass of `Controller`, another package defines; the keys given are its arguments."""

    group, base = "controllers", "Controller"

    @property
    def own_keys(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"kind"})

    def make(self, context: Context | None = None) -> llrnn.Controller:
        return _controller({"kind": self.kind, **self.own_keys})


_OurController = RecurrentConfig | MogrifierConfig | TransformerConfig
AnyController = Annotated[_OurController, Field(discriminator="kind"), OrOwn(OwnController), _of_kind("lstm")]


class ConditionConfig(Strict):
    """How the network reads the condition, the input that a text is generated from: by attention to an encoder of it.

    Attention stands between the first layer of the network and the others. With `reading = "numbers"` a condition's
    numbers are joined to the network's inputs instead.
    """

    reading: Literal["words", "slots", "spelled", "whole", "numbers"] = Field(
        "words",
        description="word by word; words with their slots as features; the same by characters; one symbol, such as "
        "a category; or a vector or record of numbers",
    )
    names: list[str] = Field([], description="numbers: of these fields of a record alone; all by default")
    unread: list[str] = Field([], description="slots: those whose words are not read, only that they have a value")
    ignored: list[str] = Field([], description="slots: those that the network does not read at all")
    encoder: Literal["lstm", "gru", "none"] = Field("lstm", description="reads in both directions; none: vectors alone")
    size: int = Field(128, ge=1, le=2**20, description="size of the memory's rows")
    min_count: int = Field(1, ge=1, description="features of conditions that fire less often in training are not known")

    def check(self) -> None:
        if self.reading == "numbers":
            of_words = ("unread", "ignored", "encoder", "size", "min_count")
            refuse_unused(self, of_words, "is for conditions of words", "reading = 'numbers'")
        else:
            refuse_unused(self, ["names"], "is for reading = 'numbers'", f"reading = {self.reading!r}")
        if (self.unread or self.ignored) and self.reading != "slots":
            raise ValueError(f"unread and ignored are for reading = 'slots', found reading = {self.reading!r}")
        if self.encoder != "none" and self.size % 2:
            raise ValueError(f"size must be even, half for each direction of the encoder, found {self.size}")

    def _reading(self) -> ConditionTokenizer:
        if self.reading == "slots":
            return Slots(self.unread, self.ignored)
        plain: dict[str, type[Words | Characters | Whole]] = {"words": Words, "spelled": Characters, "whole": Whole}
        return plain[self.reading]()

    def inputs(self, conditions: Iterable[object]) -> tuple[llrnn.contextual.ContextualInput, ...]:
        """Return, for `reading = "numbers"`, the one contextual input that joins a condition's numbers to the input ψ.

        Its fields are those of the given training conditions. An empty tuple for every other reading.
        """
        return (llrnn.contextual.ConditionNumbers.fitted(conditions, self.names),) if self.reading == "numbers" else ()

    def controller(self, own: ControllerConfig, conditions: Iterable[object]) -> llrnn.Controller:
        """Return the network that the table `own` describes, with attention to an encoder of conditions behind layer 1.

        `conditions`: the inputs that training texts are generated from, which the encoder's vocabulary is made from.
        For `reading = "numbers"` the network is returned without attention.
        """
        from llrnn.model.controllers import Attentive, Encoder

        if self.reading == "numbers":
            return own.make()
        encoder = Encoder.for_conditions(
            self._reading(), conditions, self.size, min_count=self.min_count, kind=self.encoder, dropout=own.dropout
        )
        below = own.model_copy(update={"layers": 1}).make()
        above = own.model_copy(update={"layers": max(1, own.layers - 1), "inputs": below.hidden + self.size})
        return Attentive(below, encoder, above.make())


# What a configuration says of backgrounds and of features of the context.


Part = Literal["train", "valid", "test"]
Parts = Annotated[list[Part], Field(min_length=1, description="the parts of the corpus that are counted")]


class NGramsConfig(Strict):
    """An n-gram model, counted on parts of the corpus or on other texts, or read from an ARPA file.

    On text that the network trains on it is cross-fitted: each sentence is scored by counts of the other folds.
    """

    parts: Parts = ["train"]
    files: list[str] | None = Field(None, min_length=1, description="other texts to count instead of parts")
    arpa: str | None = Field(None, description="an ARPA file instead, plain or gzip")
    order: int = Field(5, ge=1, le=20, description="of the n-grams, the predicted word included [words]")
    min_counts: list[int] = Field([], description="the least count of each order; rarer ones are pruned")
    folds: int = Field(10, ge=0, description="cross-fit on what the network reads in so many folds; 0: do not")
    restrict: bool = Field(False, description="leave out words of the file that the vocabulary does not list")

    def check(self) -> None:
        if self.folds == 1:
            raise ValueError("folds = 1 would leave nothing to count: 2 or more, or 0 for none")
        if self.arpa is not None:
            counting = ["parts", "files", "order", "min_counts", "folds"]
            refuse_unused(self, counting, "is for n-grams that are counted", f"arpa = {self.arpa!r}")
        elif self.files is not None:
            refuse_unused(self, ["parts", "folds"], "is for n-grams of parts of the corpus", f"files = {self.files}")
        else:
            refuse_unused(self, ["restrict"], "is for files or arpa", "neither")

    def make(self, context: Context) -> llrnn.backgrounds.Background:
        """Return the n-gram model as a prior b(K, x): from the ARPA file, or counted on texts or parts of the corpus.

        It is cross-fitted where the network trains on the counted text: each of its sentences is scored by the counts
        of others. Raises ConfigError for an ARPA file that was estimated on the training text.
        """
        if self.arpa is not None:
            return self._of_file(self.arpa, context)
        if self.files is not None:
            also_read = {Path(file).resolve() for file in self.files} & {Path(one).resolve() for one in context.files}
            text, folds = context.read(self.files), self.folds if also_read else 0
        else:
            if self.folds == 0 and "train" in self.parts:
                warn(
                    "n-grams of the training text itself, without cross-fitting (folds = 0), predict it far better "
                    "than any other: the network will trust them too much; count parts = ['train'] with folds = 10, or "
                    "others"
                )
            text, folds = reduce(add, context.parts("n-grams", self.parts)), self.folds
        counted = self.model_dump(include={"order", "min_counts", "restrict"})
        return llrnn.backgrounds.NGram.from_corpus(text, folds=folds, **counted)

    def _of_file(self, arpa: str, context: Context) -> llrnn.backgrounds.Background:
        from llrnn.knowledge.backgrounds.ngram import estimated_on

        found = llrnn.backgrounds.NGram.from_path(arpa, restrict=self.restrict)
        sign = estimated_on(found.table, context.corpora["train"], context.corpora.get("valid"))
        if sign is not None:
            raise ConfigError(
                f"{arpa}: n-grams of another text than the network's are required, but these were estimated on "
                f"the training text ({sign}): the network would trust them too much; count parts = ['train'], which is "
                "cross-fitted, or give n-grams of another text"
            )
        return found

    def counts_any(self, parts: Collection[str]) -> bool:
        """Whether these n-grams are counted on one or more of `parts` ("train", "valid", "test") of the corpus.

        False for n-grams of other files.
        """
        return self.arpa is None and self.files is None and not {*parts}.isdisjoint(self.parts)


class PrimedConfig(Strict):
    """Makes the prior of entity words, which sentences say only as values of their condition, depend on the condition.

    They are likelier where the condition (the input that the text is generated from) has them, and hardly likely
    elsewhere.
    """

    slots: list[str] = Field([], description="the slots whose values are entities; all by default")
    cells: bool = Field(False, description="strings that are not listed need evidence too")

    def around(self, base: llrnn.backgrounds.Background, context: Context) -> llrnn.backgrounds.Background:
        assert context.vocabulary is not None
        slots, train = self.slots or None, context.words["train"]
        return llrnn.backgrounds.Primed.fitted(base, train, context.vocabulary, slots=slots, cells=self.cells)


class WholeValuesConfig(Strict):
    """Who says the first words of a value of the condition has to go on with it, unless they are ordinary words.

    The condition is the input that a text is generated from. Other words keep a millionth of their mass there, all of
    it where a text of train or valid breaks the value off.
    """

    def around(self, base: llrnn.backgrounds.Background, context: Context) -> llrnn.backgrounds.Background:
        texts = [context.words[part] for part in ("train", "valid") if part in context.words]
        return base * llrnn.backgrounds.WholeValues.fitted(*texts)


class RecentConfig(Strict):
    """Makes words likelier that came before in a running text; how much is learnt, unless `weight` fixes it.

    A sentence may stand alone too.
    """

    weight: float | None = Field(
        None, gt=0, lt=1, description="the share of the words before, if it shall be fixed; else it is learnt"
    )
    window: int = Field(500, ge=1, description="how far back, over ends of sentences [words]")
    fading: float | None = Field(None, gt=0, description="a word so far back counts half; all alike by default [words]")
    inflected: float = Field(
        0.0, ge=0, lt=1, description="of a rare word's weight, what its other forms get; endings are learnt from train"
    )

    def around(self, base: llrnn.backgrounds.Background, context: Context) -> llrnn.backgrounds.Background:
        settings: dict[str, Any] = {"window": self.window, "fading": self.fading}
        if self.inflected:
            rules = llrnn.backgrounds.Inflections.learnt(context.corpora["train"].counts())
            settings |= {"inflections": rules, "share": self.inflected}
        if self.weight is not None:
            return llrnn.backgrounds.Recent(base, mu=self.weight / (1.0 - self.weight), **settings)
        assert context.vocabulary is not None
        return llrnn.backgrounds.Recent.fitted(base, context.corpora["train"], context.vocabulary, **settings)


class GrammarConfig(Strict):
    """A context-free grammar that every text must be a string of: the prior b(K, x) is 0 where it forbids x."""

    file: str = Field(description="a file in lark's notation")
    start: str = Field("start", description="the rule to start from")
    weights: dict[str, float] | None = Field(None, description="of alternatives, by alias or rule/number")
    over: Over = Field("symbols", description="what is read one by one: symbols, or the characters that they spell")
    violation: float = Field(0.0, ge=0, le=1, description="the factor of what the language forbids; 0: never")
    longest: int | None = Field(None, ge=0, description="letters of a string at most; it always comes to an end")
    spelling: dict[str, str] | None = Field(None, description="characters of symbols that stand for others")

    def check(self) -> None:
        if self.over == "symbols":
            refuse_unused(self, ["spelling"], "is for over = 'characters'", "over = 'symbols'")

    def around(self, base: llrnn.backgrounds.Background, context: Context) -> llrnn.backgrounds.Background:
        return base * llrnn.backgrounds.Grammar.from_file(self.file, **self.model_dump(exclude={"file"}))


class DictionaryConfig(Strict):
    """For models of characters: every text must be spelled of words of a list and of slot values of its condition."""

    file: str = Field(description="a text file, words between white space")
    slots: list[str] = Field([], description="whose values may be written too; all by default")
    violation: float = Field(0.0, ge=0, le=1, description="the factor of what the dictionary forbids; 0: never")
    longest: int | None = Field(None, ge=0, description="characters of a text at most; it always comes to an end")

    def around(self, base: llrnn.backgrounds.Background, context: Context) -> llrnn.backgrounds.Background:
        settings = {"slots": self.slots or None, "violation": self.violation, "longest": self.longest}
        return base * llrnn.backgrounds.Dictionary.from_file(self.file, **settings)


class BackgroundConfig(Strict):
    """The background, the prior b(K, x): how likely words are before the network reweights them; keys of all kinds.

    They are mixed into the prior of the chosen kind (`recent`), change it (`primed`), or multiply it (`whole_values`,
    `grammar`, `dictionary`).
    """

    primed: PrimedConfig | None = Field(None, description="words that need evidence in the condition")
    whole_values: WholeValuesConfig | None = Field(None, description="values of the condition that are not broken off")
    recent: Annotated[RecentConfig | None, BeforeValidator(lambda given: None if given == "none" else given)] = Field(
        None, description="words come again: train is a running text; none switches it off"
    )
    grammar: GrammarConfig | None = Field(None, description="a grammar that every text is a string of")
    dictionary: DictionaryConfig | None = Field(None, description="words, and values, that every text is spelled of")


def _warn_of_no_counts(listed: str) -> None:
    """Warn where the file of words `listed` has no counts, so that the prior takes all its words for equally likely."""
    if not has_counts(listed):
        warn(
            f"{listed}: one word a line without counts, so that the background takes all of them for equally likely; "
            f"give counts, form TAB count: `llrnn init TEXT --list {listed}` makes them from how the words are spelled"
        )


class UniformConfig(BackgroundConfig):
    """A uniform prior, the default: all words are equally likely."""

    kind: Literal["uniform"] = Field(
        "uniform", description="uniform, unigram, discounted (unigram with room for new words) or ngram"
    )

    def make(self, context: Context) -> llrnn.backgrounds.Background:
        return llrnn.backgrounds.Uniform()


class UnigramConfig(BackgroundConfig):
    """A unigram prior: b(x) ∝ count(x) + `smoothing`, of all words, counted in parts of the corpus, or in a file."""

    kind: Literal["unigram"]
    parts: Parts = ["train"]
    frequencies: str | None = Field(None, description="a file of form and count to take instead of parts")
    smoothing: float = Field(0.0, ge=0, description="added to every count")

    def check(self) -> None:
        if self.frequencies is not None:
            refuse_unused(self, ["parts"], "is counted", f"frequencies = {self.frequencies!r} instead")

    def make(self, context: Context) -> llrnn.backgrounds.Background:
        if self.frequencies is not None:
            _warn_of_no_counts(self.frequencies)
            return llrnn.backgrounds.Unigram.from_file(self.frequencies, smoothing=self.smoothing)
        return llrnn.backgrounds.Unigram.from_corpus(*context.parts("background", self.parts), smoothing=self.smoothing)


class DiscountedConfig(BackgroundConfig):
    """A unigram prior with absolute discounting: words that the counted text does not have get what is discounted."""

    kind: Literal["discounted"]
    parts: Parts = ["train"]
    frequencies: str | None = Field(None, description="a file of form and count: how likely which new word is")

    def make(self, context: Context) -> llrnn.backgrounds.Background:
        listed = self.frequencies
        if listed is not None:
            _warn_of_no_counts(listed)
        known = None if listed is None else read_frequencies(listed)
        return llrnn.backgrounds.Discounted.from_corpus(*context.parts("background", self.parts), frequencies=known)


class NGramConfig(NGramsConfig, BackgroundConfig):
    """An n-gram prior: counted on parts of the corpus (cross-fitted) or on other texts, or read from an ARPA file."""

    kind: Literal["ngram"]


_OurBackground = UniformConfig | UnigramConfig | DiscountedConfig | NGramConfig
OwnBackground = own_table("backgrounds", "backgrounds.Background", BackgroundConfig)
AnyBackground = Annotated[_OurBackground, Field(discriminator="kind"), OrOwn(OwnBackground), _of_kind("uniform")]


class MixedConfig(NGramsConfig):
    """An n-gram model that the network mixes in: p = w_0(h) p_0 + w(h) p_ngram, with weights computed from its state h.

    An `expert` enters as a product instead.
    """

    kind: Literal["ngram"] = "ngram"


class RepeatedConfig(RowConfig):
    """A contextual feature: 1 on words among the `window` words before, else 0: `{kind = "repeated", window = 50}`."""

    makes = {"repeated": "contextual.Repeated"}
    kind: Literal["repeated"]
    window: int = Field(50, ge=1, description="how far back [words]")


class ExpertConfig(NGramsConfig):
    """A contextual feature whose value is log p of an n-gram model, so that p enters as a factor.

    The network decides its exponent at every step.
    """

    kind: Literal["expert"]
    name: str = Field("kn", min_length=1, description="what explanations and --expert call it")

    def make(self, context: Context) -> llrnn.contextual.Expert:  # type: ignore[override]
        return llrnn.contextual.Expert(super().make(context), name=self.name)


class CopiedConfig(RowConfig):
    """Contextual features of slot values in the condition (the input that the text is generated from).

    `copied` is 1 on the first or next word of a value that has not been said yet, `mentioned` on the first word of one
    that has; `unmentioned` is, on the end of the sentence, the number of values that have not been said.
    """

    makes = {kind: f"contextual.{kind.title()}" for kind in ("copied", "mentioned", "unmentioned")}
    kind: Literal["copied", "mentioned", "unmentioned"]
    slots: list[str] = Field(
        [], description="of these slots alone, copied and said one by one; of all together by default"
    )

    def make(self, context: Context) -> Any:
        return self.made(*self.slots)


class ContinuedConfig(RowConfig):
    """A contextual feature: 1 on the next word of a slot value of the condition whose first words were just said.

    The condition is the input that the text is generated from; one feature for all its slots.
    """

    makes = {"continued": "contextual.Continued"}
    kind: Literal["continued"]


class FramedConfig(Strict):
    """A contextual feature on the first word of each unsaid slot value: how well the words before announce the slot.

    Slots are those of the condition, the input that the text is generated from; the rest is counted in the training
    text.
    """

    kind: Literal["framed"]
    order: int = Field(6, ge=1, description="how many words before a value count, a value among them as one [words]")
    folds: int = Field(10, ge=2, description="training sentences see the counts without their fold")

    def make(self, context: Context) -> Any:
        return llrnn.contextual.Framed.counted(context.words["train"], order=self.order, folds=self.folds)


class WordedConfig(Strict):
    """Contextual features of facts without words of their own (yes, no, none, dont_care, a slot that is asked for).

    On words that say such a fact of the condition (the input that the text is generated from) that is untold, on words
    that say one that it does not have, and on the end, how many are untold. Wordings are learnt from the training text.
    """

    kind: Literal["worded"]

    def make(self, context: Context) -> Any:
        return llrnn.contextual.Worded.aligned(context.words["train"])


class LookupConfig(Strict):
    """Contextual features from a table, one for each column: 0 on words of the column that no matching row has, else 1.

    Rows match by fields of the condition, or are those whose `subject` was named last. One more feature, `begun`, is 1
    on words that continue a value.
    """

    kind: Literal["lookup"]
    name: str = Field("table", min_length=1, description="what explanations and --expert call it")
    table: str = Field(description="a file .csv, .tsv, .json or .jsonl")
    columns: list[str] = Field(min_length=1, description="columns of the table, a feature each")
    subject: str | None = Field(None, description="the column that names a row when it is spoken of")
    on: list[str] = Field([], description="fields of the condition that a row must match")
    history: list[str] = Field([], description="fields of the condition in which a row may have been named")
    asked: list[str] = Field([], description="fields that name columns which are asked for: features of all columns")
    unnamed: list[str] = Field([], description="fields that do so, for columns without a feature of their own")

    def check(self) -> None:
        if self.subject is None:
            refuse_unused(self, ["history"], "is where rows are named", "no subject = column that names them")
        if not self.asked:
            refuse_unused(self, ["unnamed"], "is for columns that are asked for", "no asked = fields that name them")

    def make(self, context: Context) -> llrnn.contextual.Lookup:
        query = llrnn.contextual.Matching(subject=self.subject, on=self.on, history=self.history)
        table = KnowledgeBase.from_file(self.table, lowercase=context.lowercase)
        return llrnn.contextual.Lookup(
            table, query, *self.columns, name=self.name, asked=self.asked, unnamed=self.unnamed
        )


class TermsConfig(Strict):
    """Contextual features of lists of words and phrases: that one begins, goes on and is complete, for each list.

    Terms are matched in the text with a blank before each of its words: `{kind = "terms", lists = {places =
    "places.txt"}}`
    """

    kind: Literal["terms"]
    lists: dict[str, str] = Field(min_length=1, description="files with a term a line, by the name of the list")
    lexicon: str | None = Field(
        None, description="a table of form and attributes: a term stands for all forms with its Lemma: too"
    )
    capitals: bool = Field(False, description="every term also with a capital, and in capitals")

    def make(self, context: Context) -> tuple[llrnn.contextual.Terms, llrnn.contextual.TermsInside]:
        from llrnn.knowledge.contextual.terms import expanded

        known = None if self.lexicon is None else Lexicon.from_tsv(self.lexicon)
        lines = {name: [line.strip() for _, line in read_lines(path)] for name, path in self.lists.items()}
        found = {name: expanded(own, known, capitals=self.capitals) for name, own in lines.items()}
        in_text = str.lower if context.lowercase else str
        terms = llrnn.contextual.Terms({name: [*map(in_text, own)] for name, own in found.items()})
        return terms, llrnn.contextual.TermsInside(terms)


_OfContext = RepeatedConfig | ExpertConfig | CopiedConfig | ContinuedConfig
_OurContextual = _OfContext | FramedConfig | WordedConfig | LookupConfig | TermsConfig
OwnContextual = own_table("contextual", "contextual.ContextualFeature")
AnyContextual = Annotated[_OurContextual, Field(discriminator="kind"), OrOwn(OwnContextual)]


# Contextual inputs: the same processes, as numbers that the network reads.


class FramedInputConfig(FramedConfig):
    """Numbers that the network reads: how well the words before announce each slot of the condition (the input)."""

    def make(self, context: Context) -> llrnn.contextual.ContextualInput:
        return llrnn.contextual.PredictedSlot(super().make(context))


class SlotsInputConfig(Strict):
    """Numbers that the network reads: how many slot values of the condition (the input) are unsaid, begun and said."""

    kind: Literal["slots"]
    slots: list[str] = Field([], description="of these slots, one by one; of all together by default")

    def make(self, context: Context) -> llrnn.contextual.ContextualInput:
        return llrnn.contextual.SlotProgress(*self.slots)


OwnInput = own_table("contextual_inputs", "contextual.ContextualInput")
AnyInput = Annotated[FramedInputConfig | SlotsInputConfig, Field(discriminator="kind"), OrOwn(OwnInput)]


class Embedded(Strict):
    """The packaged French sample (8,000 sentences) as a corpus: how many sentences train, valid and test have."""

    train: int = Field(5000, ge=1, description="how many to train on [sentences]")
    valid: int = Field(500, ge=1, description="how many to validate on [sentences]")
    test: int = Field(500, ge=1, description="how many to test on [sentences]")


class OtherConfig(Strict):
    """A further text that the network trains on, before the corpus or mixed into it."""

    files: list[str] = Field(min_length=1, description="texts in the language of the corpus, tokenised like it")
    when: When = Field("before", description="before: read first, then the corpus; mixed: into every epoch of it")
    weight: float = Field(1.0, gt=0, lt=1e6, description="how often a sentence is read in an epoch, on average")
    epochs: int = Field(6, ge=1, description="before: epochs that come on top of training.epochs")
    run: int = Field(RUN, ge=2, description="words in a row that held-out texts do not share; more for subwords")

    def check(self) -> None:
        if self.when == "mixed":
            refuse_unused(self, ["epochs"], "is for when = 'before'", "when = 'mixed'")


class CorpusConfig(Strict):
    """The texts to train, validate and test on: files and how they are read, or the packaged French sample."""

    train: list[str] = Field([], description="files to train on, or the folder of a built corpus")
    valid: list[str] = Field([], description="files for early stopping, or such a folder")
    test: list[str] = Field([], description="files to test on, or such a folder")
    valid_last: int | None = Field(
        None, ge=1, description="cut so many off the end of train for validation [sentences]"
    )
    other: list[OtherConfig] = Field([], description="other texts for the network to read")
    embedded: Embedded | None = Field(None, description="our own French sample instead of files")
    format: Literal["auto", "conllu", "text", "jsonl", "tsv"] = Field(
        "auto", description="by the file's name, or said here"
    )
    conditions: Literal["plain", "act"] = Field("plain", description="act: every condition is a dialog act")
    lowercase: bool = Field(True, description="lowercase every word")
    tokeniser: str = Field(
        "blanks",
        description="what cuts text and writes it: blanks; tokenised (files are cut at blanks, other text as there); "
        "learnt (from a treebank); unicode (for raw text); FILE.conllu, another treebank to learn from, with its "
        "contractions; a tokenizer.json; module:Class",
    )
    multiword: Literal["words", "surface"] = Field("words", description="treebanks: de le, or du as it is written")
    units: Literal["words", "characters", "bpe"] = Field(
        "words", description="what the model predicts: words, or the characters or byte pairs that spell them"
    )
    bpe_size: int = Field(4000, ge=2, description="units = bpe: how many there are, at most [byte pairs]")

    def check(self) -> None:
        if bool(self.train) == (self.embedded is not None):
            raise ValueError("give either train = [files] or embedded = {...}")
        if self.units != "bpe":
            refuse_unused(self, ["bpe_size"], "is for units = 'bpe'", f"units = {self.units!r}")
        if self.units != "words":
            refuse_unused(self, ["other"], "is for units = 'words'", f"units = {self.units!r}")
        if self.valid and self.valid_last:
            raise ValueError("give either valid = [files] or valid_last = n")
        if self.embedded is not None:
            of_files = ("valid", "test", "valid_last", "format", "conditions")
            refuse_unused(
                self, of_files, "is for train = [files]", "embedded = {...} has parts and a format of its own"
            )


class VocabularyConfig(Strict):
    """The vocabulary: which words of texts and lists are in it, and what becomes of all others."""

    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus whose words are listed")
    files: list[str] = Field([], description="other texts whose words are listed too")
    top: int | None = Field(None, ge=1, description="only the most frequent [words]")
    min_count: int = Field(1, ge=1, description="only words of the texts that were seen so often [times]")
    lists: list[str] = Field([], description="files of words, with or without counts, that are listed too")
    as_new: float | None = Field(
        None, ge=0, le=1, description="domains: share of words seen once that train as if new; estimated by default"
    )
    unknown: str | None = Field(None, description="a symbol for all other words; none by default")

    def check(self) -> None:
        if self.unknown == EOS:
            raise ValueError(f"unknown = {EOS!r} is the end of sentences; name another symbol, such as '<unk>'")


class LexiconConfig(Strict):
    """The lexicon: attributes of words, such as gender, from annotated texts, tables and slot values."""

    parts: list[Part] = Field([], description="annotated parts of the corpus")
    corpora: list[str] = Field([], description="other annotated texts")
    min_count: int = Field(1, ge=1, description="parts, corpora: only words that they have so often [times]")
    tsv: list[str] = Field([], description="tables of form and attributes")
    values: list[str] = Field([], description="slots of conditions: the words of their values are Value:slot")
    columns: list[str] = Field(
        [],
        description="columns of the looked-up tables: words that stand in sentences only as part of such values are "
        "Value:column",
    )

    def check(self) -> None:
        if not (self.parts or self.corpora):
            refuse_unused(self, ["min_count"], "is for parts or corpora", "neither")


class FeaturesConfig(Strict):
    """The features of words: φ, by which words are predicted, and ψ, by which the network reads them."""

    output: list[AnyFeature] = Field([], description="output features φ")
    input: list[AnyFeature] | None = Field(None, description="input features ψ; the same as φ by default")


class Config(Strict):
    """A whole configuration, all that `llrnn train` needs: texts, knowledge of words, prior, network, training."""

    name: str = Field("", description="a name for tables and reports")
    kind: Literal["llrnn", "softmax"] = Field("llrnn", description="softmax: identity features, uniform background")
    corpus: CorpusConfig = Field(description="the texts")
    vocabulary: VocabularyConfig = Field(VocabularyConfig(), description="the listed words")
    domains: list[AnyDomain] = Field([], description="infinite sets of strings that hold all words not listed")
    lexicon: LexiconConfig = Field(LexiconConfig(), description="what is known about words")
    features: FeaturesConfig = Field(FeaturesConfig(), description="φ on the way out, ψ on the way in")
    background: AnyBackground = Field(UniformConfig(), description="what is likely before the network has its say")
    contextual: list[AnyContextual] = Field([], description="features of the context")
    contextual_inputs: list[AnyInput] = Field([], description="numbers of the context that the network reads")
    mixed: list[MixedConfig] = Field([], description="n-grams that the network mixes in, a sum with weights w(h)")
    controller: AnyController = Field(RecurrentConfig(), description="the network that reads the text")
    condition: ConditionConfig | None = Field(None, description="what the targets are written from")
    tied: bool = Field(False, description="one set of weights for input and output features")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="input words that are dropped in training [share]")
    training: TrainingSettings = Field(TrainingSettings(), description="how to train")

    def check(self) -> None:
        if self.kind == "softmax" and (self.features.output or self.features.input):
            raise ValueError("kind = 'softmax' is identity features: leave [features] out")
        if self.kind == "llrnn" and not self.features.output:
            raise ValueError("kind = 'llrnn' needs [features] output = [...]")
        if self.kind == "softmax":
            attributes = ["parts", "corpora", "min_count", "tsv", "columns"]
            if not (self.contextual or self.background.primed):
                attributes.append("values")  # words of values are listed for what copies them
            refuse_unused(
                self.lexicon, attributes, "is for features of kind = 'attributes'", "kind = 'softmax'", "lexicon."
            )
        if self.corpus.units != "words":
            found = f"corpus.units = {self.corpus.units!r}, which spell every word"
            refuse_unused(self, ["domains", "contextual", "mixed"], "is for units = 'words'", found)
            of_words = ["files", "top", "min_count", "lists", "unknown"]
            refuse_unused(self.vocabulary, of_words, "is for units = 'words'", found, "vocabulary.")
            refuse_unused(self.background, ["recent"], "is for units = 'words'", found, "background.")
        lists = [one for one in self.contextual if isinstance(one, TermsConfig)]
        if len(lists) > 1:
            raise ValueError(f"contextual: one table of kind = 'terms' has all lists, found {len(lists)}; join them")
        for one in lists if self.corpus.lowercase else ():
            refuse_unused(one, ["capitals"], "is for corpus.lowercase = false", "true", "contextual.")
        if not self.domains:
            refuse_unused(self.vocabulary, ["as_new"], "is for domains", "none", "vocabulary.")
        if isinstance(self.training.objective, SampledObjective):
            kind = self.training.objective.kind
            found = f"training.objective.kind = {kind!r}, and a mixture has no scores that it could use"
            refuse_unused(self, ["mixed"], "is for the objectives 'exact' and 'distil'", found)
