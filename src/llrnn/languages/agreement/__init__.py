"""Agreement at a distance: tables of languages, and the pushdown that says who governs what comes next."""

from llrnn.languages.agreement.machine import Governor, Machine, Reading, Stack, count_roles, governors
from llrnn.languages.agreement.rules import Relation, Rules

__all__ = ["Governor", "Machine", "Reading", "Relation", "Rules", "Stack", "count_roles", "governors"]
