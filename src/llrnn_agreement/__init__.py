"""llrnn_agreement: agreement at a distance, as knowledge of an llrnn model.

Who governs the next word (the subject of a verb, the noun of an adjective) is followed through relative clauses and
coordinations by a pushdown with weights (`machine`), from a table of the language (`rules`; French, Estonian and
Turkish are there, `*.toml`). `feature` makes of it features φ(K, x), whether a word agrees, and inputs ψ(K), who
governs it. A configuration says `kind = "agreement"` in [[contextual]] and [[contextual_inputs]].
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llrnn_agreement.machine import Governor, Machine, RoleReading, Stack, count_roles, governors
from llrnn_agreement.rules import AgreementRules, Relation

if TYPE_CHECKING:
    from llrnn_agreement.feature import Agreement, Governors

__all__ = [
    "Agreement",
    "AgreementRules",
    "Governor",
    "Governors",
    "Machine",
    "Relation",
    "RoleReading",
    "Stack",
    "count_roles",
    "governors",
]


def __getattr__(name: str) -> Any:
    """Import `Agreement` and `Governors` when they are used: they need torch, and `llrnn data --help` does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("llrnn_agreement.feature"), name)
