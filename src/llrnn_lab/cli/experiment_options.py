"""Options of the verbs `llrnn experiment ...`, and where their models are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import device_named
from llrnn.ground.errors import ConfigError
from llrnn_lab.studies.engine_ray import Ray
from llrnn_lab.studies.engines import Engine, Local

Data = Annotated[Path, typer.Option(help="The corpora: shared data for French, or a folder with one UD treebank.")]
Out = Annotated[Path, typer.Option(help="The folder for models, results and tables.")]
Seeds = Annotated[int, typer.Option(min=1, help="Models of each kind.")]
Parallel = Annotated[int, typer.Option(min=1, help="Models side by side.")]
EngineName = Annotated[str, typer.Option("--engine", help="local: on this machine; ray: on a Ray cluster.")]
Address = Annotated[
    str | None,
    typer.Option(help="With --engine ray: the cluster, HOST:PORT. Else RAY_ADDRESS, else this machine alone."),
]


def tell(text: str) -> None:
    """What a study reports on its way."""
    show.out.print(text, markup=False)


def engine_named(name: str, address: str | None, device: str) -> Engine:
    """Local needs the device here; the nodes of a cluster may have what this machine has not."""
    if name == "local":
        if address is not None:
            raise ConfigError(f"--address {address}: only with --engine ray")
        device_named(device)
        return Local()
    if name != "ray":
        raise ConfigError(f"--engine must be local or ray, found {name!r}")
    return Ray(address)
