"""llrnn: language models that take prior knowledge.

    log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K)

The user says what is known about the symbols (`features`), about what is likely or allowed (`backgrounds`); a recurrent
network learns, at every step, how much each piece of that knowledge counts. Words that nobody listed are in `domains`.

`__init__.pyi` lists the public names, which are imported when they are first used: `import llrnn.layer` needs nothing
but the layer, `llrnn --help` no torch.
"""

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any

import llrnn.ground.startup  # noqa: F401, for its effect, and first: the rest takes seconds

# the rooms, each of which may import those before it (`layer`: only the ground)
ROOMS = tuple("ground layer text languages knowledge model training inference config serve cli".split())  # noqa: SIM905

_STUB = (get_data("llrnn", "__init__.pyi") or b"").decode()
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}

__all__ = sorted(_HOMES)
__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"llrnn.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'llrnn' has no attribute {name!r}")
    home = _HOMES[name]
    found = import_module(f"{home}.{name}") if home.count(".") == 1 else getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *ROOMS, "__version__"})
