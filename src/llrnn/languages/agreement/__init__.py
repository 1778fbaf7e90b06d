"""Agreement at a distance: tables of languages, and the pushdown that says who governs what comes next."""

from llrnn.languages.agreement.machine import Governor, Machine, RoleReading, Stack, count_roles, governors
from llrnn.languages.agreement.rules import AgreementRules, Relation

__all__ = ["AgreementRules", "Governor", "Machine", "Relation", "RoleReading", "Stack", "count_roles", "governors"]
