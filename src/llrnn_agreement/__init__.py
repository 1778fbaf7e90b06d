"""llrnn_agreement: agreement at a distance, as knowledge of an llrnn model.

Who governs the next word (the subject of a verb, the noun of an adjective) is followed through relative clauses and
coordinations by a pushdown with weights (`machine`), from a table of the language (`rules`; French, Estonian and
Turkish are there, `*.toml`). `feature` makes of it features φ(K, x), whether a word agrees, and inputs ψ(K), who
governs it. A configuration says `kind = "agreement"` in [[contextual]] and [[contextual_inputs]].
"""

from llrnn_agreement.feature import Agreement, Governors
from llrnn_agreement.machine import Governor, Machine, RoleReading, Stack, count_roles, governors
from llrnn_agreement.rules import AgreementRules, Relation

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
