"""How much of a static table lies in each class, and words of a class by their share.

by_class     B_s and B_s^rest: `Classes`, `ClassMass`        sums     B_s        alias     drawing a word of a class
"""

from llrnn.layer.masses.alias import AliasTables, alias_of
from llrnn.layer.masses.by_class import Classes, ClassMass, Left, Remainder
from llrnn.layer.masses.sums import log_masses

__all__ = ["AliasTables", "ClassMass", "Classes", "Left", "Remainder", "alias_of", "log_masses"]
