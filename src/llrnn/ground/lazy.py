"""Public names of a package that are imported when they are first used, because what they need takes seconds."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_getattr(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `homes` maps each name to its module.

    Example: __getattr__ = lazy_getattr(__name__, {"Lexicon": "llrnn.text.lexicon"})
    """

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return getattr_
