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

_KINDS: dict[str, Restorer] = {"regular": Regular.restored, "spelling": Spelling.restored, "names": Names.restored}


def register(kind: str, restored: Restorer) -> None:
    """Register a deserialiser for a custom domain (a `Domain` subclass), so that saved models with it can be opened.

    kind        the value of `"kind"` in the data that the domain's `described()` returns; one that is registered
                already is replaced
    restored    called with both results of `described()`, a dict of JSON data and a dict of numpy arrays by name;
                returns the domain

        register("hex", lambda plain, arrays: Hex(plain["digits"]))
    """
    _KINDS[kind] = restored


def restore(plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Domain:
    """Return the domain whose `Domain.described` returned `plain` and `arrays`; an unknown `kind` is a DomainError.

    plain       JSON data whose `"kind"` names the class of the domain: "regular", "spelling", "names", one given to
                `register`, or one of an installed package
    arrays      the numpy arrays by name

        restore(*Numbers("fr").described())
    """
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
