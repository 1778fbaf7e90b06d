"""Words added to a trained model, and removed from it, without training.

    b'(x) = c(x) / N                                  a new word x with a count; N: all counts of the vocabulary
    b'(x) = b(cell) · q(x) / Q'(cell)                 a new word without one, as it was before: a string of its cell
    b'(cell) = b(cell) · Q'_new(cell) / Q'(cell)      what is left of a cell that words leave, or come back to

A log-linear model knows a word by its features, so a new word needs no new weights: it has the features that its
spelling shows and those that a table names, all of them old ones. Nothing else changes, so that at every context the
probabilities of all old words change by one factor, that of the new Z.

Only the compiled features are left of a model's feature functions. What can be read off the spelling is found again by
name: `Suffixes`, `Prefixes`, `Shape`, `Shown`, `Numeric` (`Year` by its usual years; `SmallNumber` where two listed
numbers show the line that its values lie on) and their conjunctions. `Identity` is that of a word removed before, or of
all that are not among the most frequent, or of the cell. A lexicon, clusters and functions of one's own fire where the
table names them. A feature has the value that it has on the old words, or else that its group has.
"""

from __future__ import annotations

from llrnn.model.words.listing import listed, listed_if_it_can, value_attribute, warn_unlisted
from llrnn.model.words.revising import add, remove
from llrnn.model.words.table import Entry, read_words

__all__ = ["Entry", "add", "listed", "listed_if_it_can", "read_words", "remove", "value_attribute", "warn_unlisted"]
