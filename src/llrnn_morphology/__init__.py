"""llrnn_morphology: morphological analysers and dictionaries, as knowledge of an llrnn model.

Each tool or file says of a form what it can be, in the names of Universal Dependencies (`llrnn.text.morphology` is the
seam): `analysers` for Turkish, Estonian, Finnish, Russian, transducers and UniMorph; `dictionaries` of hunspell and
their `affixes`. What tags mean is data, `tags/*.toml`. `llrnn data readings
--analyser NAME` and `llrnn init --analyser NAME` find them by name.
"""

from llrnn_morphology.analysers import Hfst, Pymorphy, UniMorph, Vabamorf, Voikko, Zeyrek
from llrnn_morphology.dictionaries import Hunspell, Tags, hunspell, hunspell_readings

__all__ = [
    "Hfst",
    "Hunspell",
    "Pymorphy",
    "Tags",
    "UniMorph",
    "Vabamorf",
    "Voikko",
    "Zeyrek",
    "hunspell",
    "hunspell_readings",
]
