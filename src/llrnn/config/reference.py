"""What can be written in a configuration, from the keys themselves: a page (`reference.md`), a schema for editors.

The models of `keys.py` and `TrainingSettings` are the only source: a field's type and bounds, its default, and its
description, which ends with the unit in brackets where it has one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pkgutil import get_data
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from llrnn.config.keys import Config
from llrnn.training.settings import models_by_kind

_WORDS = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def reference() -> str:
    """Return the reference page of all tables and keys of a configuration, as Markdown.

    llrnn config reference > docs/reference/config.md
    """
    page = (get_data("llrnn.config", "reference.md") or b"").decode()
    return page.replace("$keys", "".join(_sections(Config, "At the top", "", {})))


def schema() -> dict[str, Any]:
    """Return the JSON schema of configurations, with which editors complete and check keys.

    llrnn config schema > llrnn.schema.json
    """
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return {**made, "title": "A configuration of llrnn"}


def meaning(field: FieldInfo) -> str:
    """Return what a key of a configuration means: the description of its pydantic field, without the unit.

    The unit stands in square brackets at the end of the description.
    """
    return (field.description or "").partition(" [")[0]


def type_of(field: FieldInfo) -> str:
    """Return the type of a configuration's key in words, with bounds: `whole number ≥ 1`, `list of texts`."""
    bounds = [
        f"{sign} {_number(getattr(one, name))}"
        for one in field.metadata
        for name, sign in _BOUNDS.items()
        if hasattr(one, name)
    ]
    least = next((one.min_length for one in field.metadata if hasattr(one, "min_length")), 0)
    about = " ".join([_in_words(field.rebuild_annotation()), " and ".join(bounds)]).strip()
    return f"{about}, {least} or more" if least and "list" in about else about


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) and value < 10**7 else f"{value:g}"


def _in_words(annotation: Any) -> str:
    if models_by_kind(annotation):
        several = get_origin(annotation) is list or any(get_origin(one) is list for one in get_args(annotation))
        return "list of tables" if several else "table"
    arguments = [one for one in get_args(annotation) if one is not NoneType]
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{json.dumps(one)}`" for one in arguments)
    if get_origin(annotation) is list:
        inner = _in_words(arguments[0])
        return f"list of {inner}s" if inner in _WORDS.values() else f"list of {inner}"
    if get_origin(annotation) is dict:
        return f"table of {_in_words(arguments[1])}s"
    if arguments and not isinstance(annotation, type):  # an optional one, or one with bounds
        return _in_words(arguments[0])
    return _WORDS[annotation]


def default_of(field: FieldInfo) -> str:
    """Return the default of a key of a configuration as TOML in backticks, such as "`0.5`"; "required" without one.

    Of a table it is its kind, "`kind = "uniform"`"; "–" for None, and for a table that has no kinds.
    """
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        kind = getattr(value, "kind", None)
        return "–" if kind is None else f'`kind = "{kind}"`'
    return "–" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _sections(model: type[BaseModel], title: str, place: str, told: dict[frozenset[type], str]) -> Iterator[str]:
    """Yield Markdown: a list of the keys of the pydantic model, then a section for each table within it.

    `title`: the heading; `place`: the dotted key of this table, empty at the top; `told`: titles of sections so far by
    the models that they describe (added to), so that the same table in another place is only referred to.
    """
    yield f"## {title}\n\n{_about(model)}{_table(model.model_fields)}"
    for name, field in model.model_fields.items():
        yield from _below(field, f"{place}.{name}" if place else name, told)


def _below(field: FieldInfo, place: str, told: dict[frozenset[type], str]) -> Iterator[str]:
    models = models_by_kind(field.rebuild_annotation())
    several = {model: [kind for kind, own in models.items() if own is model] for model in models.values()}
    if not several:
        return
    title = f"`[[{place}]]`" if "list" in type_of(field) else f"`[{place}]`"
    key = frozenset(several)
    if key in told:
        yield f"## {title}\n\nThe same keys as {told[key]}.\n\n"
        return
    told[key] = title
    if len(several) == 1 and "" in models:
        yield from _sections(models[""], title, place, told)
        return
    yield from _kinds(several, title, field, place, told)


def _kinds(
    several: Mapping[type[BaseModel], list[str]],
    title: str,
    field: FieldInfo,
    place: str,
    told: dict[frozenset[type], str],
) -> Iterator[str]:
    """Yield Markdown for a table of a configuration that has several kinds: a section with the keys of each kind.

    `several`: the pydantic models with the values of `kind` that choose each; `field`: the key that holds the table,
    `place` its dotted name; `told`: titles of sections by the models that they describe (added to).
    """
    kinds = ", ".join(f"`{kind}`" for own in several.values() for kind in own)
    yield f"## {title}\n\n{_sentence(meaning(field))}\n\nKinds: {kinds}.\n\n"
    rows = [{name: _row(name, one) for name, one in model.model_fields.items() if name != "kind"} for model in several]
    shared = {row for row, n in Counter(row for of in rows for row in of.values()).items() if 1 < len(rows) < 2 * n}
    shared = {row for row in shared if all(row.split("`")[1] in of for of in rows)}
    if shared:
        yield f"All kinds have, unless one says otherwise:\n\n{''.join(sorted(shared))}\n"
    for (model, own), of in zip(several.items(), rows, strict=True):
        yield f"### {place}: {', '.join(f'`kind = {json.dumps(kind)}`' for kind in own)}\n\n{_about(model)}"
        yield "".join(row for row in of.values() if row not in shared) + "\n"
    shown: set[str] = set()
    for model in several:
        for name, one in model.model_fields.items():
            if name not in shown:
                shown.add(name)
                yield from _below(one, f"{place}.{name}", told)


def _about(model: type[BaseModel]) -> str:
    return f"{' '.join((model.__doc__ or '').split())}\n\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _table(fields: Mapping[str, FieldInfo]) -> str:
    return "".join(_row(name, field) for name, field in fields.items()) + "\n" if fields else ""


def _row(name: str, field: FieldInfo) -> str:
    """One key as an item of a list: type and default in brackets, what it means, the unit."""
    unit = (field.description or "").partition(" [")[2].removesuffix("]")
    default = default_of(field)
    about = type_of(field) if default == "–" else f"{type_of(field)}, {default}"
    return f"- `{name}` ({about}): {meaning(field)}{f' [{unit}]' if unit else ''}\n"
