"""Domains: infinite sets of strings with exact mass. `llrnn.text.vocabulary.Domain` says what a domain is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from llrnn.ground.errors import DomainError
from llrnn.ground.plugins import find_kind
from llrnn.languages.domains.regular import Names, Numbers, Regular
from llrnn.languages.domains.spelling import Spelling
from llrnn.text.vocabulary import Cell, Domain, check

__all__ = ["Cell", "Domain", "Names", "Numbers", "Regular", "Spelling", "check", "register", "restore"]

Restorer = Callable[[dict[str, Any], dict[str, NDArray[Any]]], Domain]

_KINDS: dict[str, Restorer] = {
    "regular": Regular.restored,
    "spelling": Spelling.restored,
    "names": Names.restored,
}


def register(kind: str, restored: Restorer) -> None:
    """Name the function that makes a domain of one's own again from what it `described`."""
    _KINDS[kind] = restored


def restore(plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Domain:
    """A domain from its description in a model folder."""
    kind = plain.get("kind")
    if kind in _KINDS:
        return _KINDS[kind](plain, arrays)
    found = find_kind("domains", str(kind), Domain, DomainError)
    if kind == "headed":
        raise DomainError("this llrnn has no domain 'headed' any more; train with the regular domain in it")
    if found is None:
        raise DomainError(
            f"no domain of the kind {kind!r} is known; register it: llrnn.domains.register(kind, restored), or install "
            "the package that has it"
        )
    made: Domain = found.restored(plain, arrays)
    return made
