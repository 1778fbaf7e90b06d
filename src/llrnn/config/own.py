"""Kinds of other packages in a configuration: `kind` is the name of an entry point, or `module:Class`.

    [[contextual]]
    kind = "my_words.rhymes:Rhymes"         the other keys are arguments of `Rhymes.make(context, **keys)` where the
    window = 20                             class has that, else of `Rhymes(**keys)`

A class may say what its keys are with `Keys`, a model of pydantic; else their names are checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn.ground.plugins import RENAMED, find_kind
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon
from llrnn.text.vocabulary import Vocabulary


@dataclass
class Context:
    """What `make(context)` of a configuration table gets, to make a feature group, a prior and so on from.

    `corpora`: a mapping from part (`train`, `valid`, `test`) to `Corpus`, cut into the model's units; `words`: the same
    in words; `lowercase`: whether their words are lowercased; `files`: the text files that the network trains on;
    `read`: a function that reads files as one corpus; `counts`: {word: count} of what the vocabulary is made from;
    `lexicon`: attributes of words, empty while contextual features are made; `vocabulary`: None until it is made;
    `shared`: objects that several tables need, by a key of their choice, made once.
    """

    corpora: Mapping[str, Corpus]
    lowercase: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    lexicon: Lexicon = field(default_factory=Lexicon)
    shared: dict[object, Any] = field(default_factory=dict)
    words: Mapping[str, Corpus] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None
    files: Sequence[str] = ()
    read: Callable[[Sequence[str]], Corpus] = Corpus.from_file

    def parts(self, table: str, names: Sequence[str]) -> list[Corpus]:
        """Return the corpora of the parts `names` (each "train", "valid" or "test"), in this order.

        Raises ConfigError for one that the configuration gives no text for. `table`: the table of the configuration
        that names them, for the message.
        """
        for part in names:
            if part not in self.corpora:
                raise ConfigError(
                    f"{table}.parts names {part!r}, but [corpus] has no {part} text; give corpus.{part}, or leave it "
                    "out"
                )
        return [self.corpora[part] for part in names]


class OwnTable(BaseModel):
    """Base of configuration tables whose `kind` names a class of another package: an entry point, or `module:Class`.

    All other keys are arguments of that class. Subclasses set `group`, the name of its entry points without `llrnn.`,
    and `base`, the public name of the class that it must be a subclass of ("features.Features").
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    group: ClassVar[str]
    base: ClassVar[str]  # what its class is a subclass of
    kind: str

    @property
    def own_keys(self) -> dict[str, Any]:
        """The table's keys except `kind`, as keyword arguments for the class that `kind` names.

        Where that class has an inner pydantic model `Keys`, they are validated by it and its defaults are added.
        """
        keys, known = self.model_extra or {}, getattr(self.found, "Keys", None)
        return keys if known is None else known.model_validate(keys).model_dump()

    @property
    def found(self) -> Any:
        """The class that the table's `kind` names.

        Raises ConfigError where it cannot be imported or is no subclass of `base`.
        """
        return find_kind(self.group, self.kind, self.base)

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        try:
            make, before = (self.found.make, [None]) if hasattr(self.found, "make") else (self.found, [])
            signature(make).bind(*before, **self.own_keys)
        except (LLRNNError, TypeError) as error:
            raise ValueError(f"{error}") from None
        return self

    def make(self, context: Context) -> Any:
        """Return what the table describes: `Class.make(context, **keys)` if there is one, else `Class(**keys)`.

        `Class` is what `kind` names, `keys` are the table's other keys.
        """
        make = getattr(self.found, "make", None)
        return self.found(**self.own_keys) if make is None else make(context, **self.own_keys)


def own_table(group: str, base: str, *with_keys: type[BaseModel]) -> type[OwnTable]:
    """Return a subclass of `OwnTable` for tables whose kinds other packages define, to be given to `OrOwn`.

    `group`: the name of their entry points without `llrnn.`, such as `domains`; `base`: the public name of the class
    that theirs are subclasses of; `with_keys`: pydantic models whose keys every such table has.
    """
    return type(f"Own {group}", (*with_keys, OwnTable), {"group": group, "base": base, "__module__": __name__})


@dataclass(frozen=True)
class OrOwn:
    """A pydantic annotation that lets a union of built-in kinds also take kinds that other packages define.

    `table`: the type, from `own_table`, of tables of such kinds.

        Annotated[A | B, Field(discriminator="kind"), OrOwn(T)]
    """

    table: type[OwnTable]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_it_is = core_schema.wrap_serializer_function_ser_schema(
            lambda value, dump: dump(value), schema=core_schema.any_schema()
        )
        return core_schema.no_info_wrap_validator_function(self.validated, handler(source), serialization=as_it_is)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        installed = {entry.name for entry in entry_points(group=f"llrnn.{self.table.group}")}
        named = "|".join([r"[\w.]+:\w+", *sorted(map(re.escape, installed))])
        kind = {"type": "string", "pattern": f"^({named})$"}
        ours = handler(schema)
        own = {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}
        return {**ours, "oneOf": [*ours["oneOf"], own]}

    def validated(self, given: Any, ours: ValidatorFunctionWrapHandler) -> Any:
        """Return the validated table `given`: by the validator `ours` of the built-in kinds, else as `self.table`.

        It is validated as `self.table` where its kind is not built in, but is a class of another package. Raises
        pydantic's ValidationError where the kind is neither, or where keys are wrong.
        """
        if isinstance(given, dict) and given.get("kind") in RENAMED:
            given = {**given, "kind": RENAMED[given["kind"]]}
        try:
            return ours(given)
        except ValidationError as error:
            unknown = any(one["type"] == "union_tag_invalid" and not one["loc"] for one in error.errors())
            if not unknown or not self._has(given["kind"]):
                raise
        return self.table.model_validate(given)

    def _has(self, kind: object) -> bool:
        try:
            return isinstance(kind, str) and find_kind(self.table.group, kind, self.table.base) is not None
        except LLRNNError as error:
            raise ValueError(f"{error}") from None
