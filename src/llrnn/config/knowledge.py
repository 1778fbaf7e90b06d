"""What a configuration says of backgrounds and of features of the context."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, field_validator, model_validator

from llrnn.config.features import Strict, by_kind, refuse_unused
from llrnn.knowledge.backgrounds import Automaton, Dictionary, Grammar
from llrnn.knowledge.contextual import ContextualFeature, Continued, Copied, Lookup, Matching, Said, Unsaid
from llrnn.languages.grammars.letters import Over
from llrnn.text.tables import KnowledgeBase

Part = Literal["train", "valid", "test"]


class Counting(Strict):
    """An n-gram model that is counted, and how."""

    order: int = Field(5, ge=1, le=20, description="n-grams: how many words, the predicted one included")
    min_counts: list[int] = Field([], description="n-grams: the least count of each order; rarer ones are pruned")


class CountedParts(Counting):
    """An n-gram model of parts of the corpus: cross-fitted, since the network trains on them."""

    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus that are counted")
    folds: int = Field(10, ge=0, description="n-grams: cross-fit on the training text in so many folds; 0: do not")

    @field_validator("folds")
    @classmethod
    def _more_than_one(cls, folds: int) -> int:
        if folds == 1:
            raise ValueError("folds = 1 would leave nothing to count: 2 or more, or 0 for none")
        return folds


class Restricted(Strict):
    """An n-gram model of another text, which may have other words."""

    restrict: bool = Field(False, description="n-grams: leave out words of the file that the vocabulary does not list")


class CountedFiles(Restricted, Counting):
    """An n-gram model of other texts."""

    files: list[str] = Field(min_length=1, description="n-grams: other texts to count instead of parts of the corpus")


class ArpaFile(Restricted):
    """An n-gram model that was estimated elsewhere."""

    arpa: str = Field(description="n-grams: an ARPA file instead, plain or gzip")


AnyNGrams = CountedParts | CountedFiles | ArpaFile


class PrimedConfig(Strict):
    """Words with evidence in the condition get their mass from it."""

    slots: list[str] = Field([], description="primed: the slots whose values are entities; all by default")
    support: float = Field(0.9, gt=0, le=1, description="primed: in how many of its sentences a word must be a value")
    cells: bool = Field(False, description="primed: strings that are not listed need evidence too")
    boost: float | None = Field(None, gt=0, description="primed: factor of words with evidence; learnt by default")
    absent: float | None = Field(None, ge=0, description="primed: factor of words without; learnt by default")

    @model_validator(mode="after")
    def _both_or_none(self) -> PrimedConfig:
        if (self.boost is None) != (self.absent is None):
            raise ValueError("give both boost and absent, or neither: then they are learnt")
        return self


class LanguageConfig(Strict):
    """What grammars and automata have in common."""

    over: Over = Field("symbols", description="what is read one by one: symbols, or the characters that they spell")
    violation: float = Field(0.0, ge=0, le=1, description="the factor of what the language forbids; 0: never")
    longest: int | None = Field(None, ge=0, description="letters of a string at most; it always comes to an end")
    spelling: dict[str, str] | None = Field(None, description="characters of symbols that stand for others")

    @model_validator(mode="after")
    def _characters_are_spelled(self) -> Self:
        if self.over == "symbols":
            refuse_unused(self, ["spelling"], "is for over = 'characters'", "over = 'symbols'")
        return self


class GrammarConfig(LanguageConfig):
    """A context-free grammar."""

    file: str = Field(description="grammar: a file in lark's notation")
    start: str = Field("start", description="grammar: the rule to start from")
    weights: dict[str, float] | None = Field(None, description="grammar: of alternatives, by alias or rule/number")
    deepest: int | None = Field(None, ge=0, description="grammar: levels of rules within rules at most")

    def make(self) -> Grammar:
        return Grammar.from_file(self.file, **self.model_dump(exclude={"file", "kind", "name"}))


class AutomatonConfig(LanguageConfig):
    """A finite automaton."""

    pattern: str = Field(description="automaton: a regular expression over symbols or characters")
    weighted: bool = Field(False, description="automaton: with weights of what can follow, not only what may")

    def make(self) -> Automaton:
        return Automaton(self.pattern, **self.model_dump(exclude={"pattern", "kind", "name"}))


class DictionaryConfig(Strict):
    """Texts that are spelled: words of a list, and values of the condition."""

    file: str = Field(description="dictionary: a text file, words between white space")
    slots: list[str] = Field([], description="dictionary: whose values may be written too; all by default")
    violation: float = Field(0.0, ge=0, le=1, description="the factor of what the dictionary forbids; 0: never")
    longest: int | None = Field(None, ge=0, description="characters of a text at most; it always comes to an end")

    def make(self) -> Dictionary:
        return Dictionary.from_file(self.file, slots=self.slots or None, violation=self.violation, longest=self.longest)


class BackgroundConfig(Strict):
    """What is likely before the network has its say: of any kind, times what is possible at all."""

    primed: PrimedConfig | None = Field(None, description="words that need evidence in the condition")
    grammar: GrammarConfig | None = Field(None, description="a grammar that every text is a string of")
    automaton: AutomatonConfig | None = Field(None, description="an automaton that every text is a string of")
    dictionary: DictionaryConfig | None = Field(None, description="words, and values, that every text is spelled of")


class UniformConfig(BackgroundConfig):
    """All words alike."""

    kind: Literal["uniform"] = Field(
        "uniform", description="uniform, unigram, discounted (unigram with room for new words) or ngram"
    )


class SmoothedConfig(BackgroundConfig):
    """Relative frequencies."""

    kind: Literal["unigram"]
    smoothing: float = Field(0.0, ge=0, description="unigram: added to every count")


class UnigramConfig(SmoothedConfig):
    """Relative frequencies in parts of the corpus."""

    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus that are counted")


class FrequenciesConfig(SmoothedConfig):
    """Relative frequencies in a list."""

    frequencies: str = Field(description="unigram: a frequency file instead; discounted: how likely which new word is")


class DiscountedConfig(BackgroundConfig):
    """Relative frequencies in parts of the corpus, with room for words that are not in them."""

    kind: Literal["discounted"]
    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus that are counted")
    frequencies: str | None = Field(
        None, description="unigram: a frequency file instead; discounted: how likely which new word is"
    )


class NGramPartsConfig(CountedParts, BackgroundConfig):
    """n-grams of parts of the corpus."""

    kind: Literal["ngram"]


class NGramFilesConfig(CountedFiles, BackgroundConfig):
    """n-grams of other texts."""

    kind: Literal["ngram"]


class NGramArpaConfig(ArpaFile, BackgroundConfig):
    """n-grams of an ARPA file."""

    kind: Literal["ngram"]


AnyBackground = Annotated[
    Annotated[UniformConfig, Tag("uniform")]
    | Annotated[UnigramConfig, Tag("unigram")]
    | Annotated[FrequenciesConfig, Tag("unigram with frequencies")]
    | Annotated[DiscountedConfig, Tag("discounted")]
    | Annotated[NGramPartsConfig, Tag("ngram")]
    | Annotated[NGramFilesConfig, Tag("ngram with files")]
    | Annotated[NGramArpaConfig, Tag("ngram with arpa")],
    by_kind({"unigram": ["frequencies"], "ngram": ["arpa", "files"]}, default="uniform"),
]


class RepeatedConfig(Strict):
    """Whether the word occurred before."""

    kind: Literal["repeated"]
    window: int = Field(50, ge=1, description="how far back")


class ExpertConfig(Strict):
    """An n-gram model that the network listens to, more or less, at every step."""

    kind: Literal["expert"]
    name: str = Field("kn", min_length=1, description="what explanations and --expert call it")


class PartsExpertConfig(CountedParts, ExpertConfig):
    """n-grams of parts of the corpus."""


class FilesExpertConfig(CountedFiles, ExpertConfig):
    """n-grams of other texts."""


class ArpaExpertConfig(ArpaFile, ExpertConfig):
    """n-grams of an ARPA file."""


class CopiedConfig(Strict):
    """Values of the condition: the next word of one that has not been said, of one said, and the end."""

    kind: Literal["copied", "said", "unsaid"]
    slots: list[str] = Field([], description="copied, said, unsaid: of these slots, copied and said one by one")

    def make(self) -> ContextualFeature:
        kinds: dict[str, type[Copied | Said | Unsaid]] = {"copied": Copied, "said": Said, "unsaid": Unsaid}
        return kinds[self.kind](*self.slots)


class ContinuedConfig(Strict):
    """Values of the condition: the next word of one that was begun; one feature for all slots."""

    kind: Literal["continued"]

    def make(self) -> ContextualFeature:
        return Continued()


class LookupConfig(Strict):
    """A table that says which values are right."""

    kind: Literal["lookup"]
    name: str = Field("table", min_length=1, description="what explanations and --expert call it")
    table: str = Field(description="lookup: a file .csv, .tsv, .json, .jsonl or .sqlite")
    columns: list[str] = Field(min_length=1, description="lookup: columns of the table, a feature each")
    subject: str | None = Field(None, description="lookup: the column that names a row when it is spoken of")
    on: list[str] = Field([], description="lookup: fields of the condition that a row must match")
    history: list[str] = Field([], description="lookup: fields of the condition in which a row may have been named")

    @model_validator(mode="after")
    def _a_subject_is_named(self) -> Self:
        if self.subject is None:
            refuse_unused(self, ["history"], "is where rows are named", "no subject = column that names them")
        return self

    def make(self, lowercase: bool) -> Lookup:
        query = Matching(subject=self.subject, on=self.on, history=self.history)
        return Lookup(KnowledgeBase.from_file(self.table, lowercase=lowercase), query, *self.columns, name=self.name)


class _Advice(LanguageConfig):
    """A language as an expert: what it forbids counts as much as the network says."""

    name: str = Field("syntax", min_length=1, description="what explanations and --expert call it")
    violation: float = Field(0.01, gt=0, lt=1, description="the factor of what the language forbids, before its weight")


class AdvisingGrammarConfig(_Advice, GrammarConfig):
    """A grammar as an expert."""

    kind: Literal["grammar"]


class AdvisingAutomatonConfig(_Advice, AutomatonConfig):
    """An automaton as an expert."""

    kind: Literal["automaton"]


AnyContextual = Annotated[
    Annotated[RepeatedConfig, Tag("repeated")]
    | Annotated[PartsExpertConfig, Tag("expert")]
    | Annotated[FilesExpertConfig, Tag("expert with files")]
    | Annotated[ArpaExpertConfig, Tag("expert with arpa")]
    | Annotated[CopiedConfig, Tag("copied")]
    | Annotated[CopiedConfig, Tag("said")]
    | Annotated[CopiedConfig, Tag("unsaid")]
    | Annotated[ContinuedConfig, Tag("continued")]
    | Annotated[LookupConfig, Tag("lookup")]
    | Annotated[AdvisingGrammarConfig, Tag("grammar")]
    | Annotated[AdvisingAutomatonConfig, Tag("automaton")],
    by_kind({"expert": ["arpa", "files"]}),
]
