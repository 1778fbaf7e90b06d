"""llrnn serve: trained models behind an HTTP API and a page. The guide is docs/server.md."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import llrnn
from llrnn.cli import demo as demo_module
from llrnn.cli import show
from llrnn.cli.options import Device, a_folder, device_named, refuse_idle, split_option
from llrnn.ground.bundle import has_bundle, place_of
from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.ground.files import read_file
from llrnn.serve.messages import Limits

if TYPE_CHECKING:
    from llrnn.serve.served import Served

HOST, PORT = "127.0.0.1", 8017
TOKEN = "LLRNN_TOKEN"
# oneDNN keeps code for every shape that it has seen, 1,024 by default; batches have many shapes, and memory would grow
_ONEDNN = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"  # read when the first step is made


def serve_verb(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]DIR", help="Model folders; NAME is that of the folder by default."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is reached from outside.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
    background: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A background on offer: an ARPA file, an n-gram or a model folder."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="Another table for models that look up NAME; read anew on SIGHUP."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PATH",
            help="Words to add to the model NAME, or to all, as for `llrnn words add`; read anew on SIGHUP.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"A file with the token that clients must send; or set {TOKEN}.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name under which the server may be asked.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most sequences in one step of a model; 1: no batching.")] = 64,
    in_flight: Annotated[int, typer.Option(min=1, help="Most requests at a time; more get 429.")] = Limits.in_flight,
    client_connections: Annotated[
        int, typer.Option(min=1, help="Most open connections of one address; a proxy in front needs more.")
    ] = Limits.client_connections,
    seconds: Annotated[float, typer.Option(min=0.1, help="Most seconds for a request.")] = Limits.seconds,
    threads: Annotated[int, typer.Option(min=1, help="Threads of a step; more help large models on idle cores.")] = 1,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="A line for each request: address, endpoint, status, milliseconds.")
    ] = False,
    device: Device = "cpu",
    demo: Annotated[bool, typer.Option("--demo", help="Serve the French models, else small ones.")] = False,
    demo_folder: Annotated[Path, typer.Option(help="Where those small ones are, or are trained.")] = Path("demo"),
) -> None:
    """Serve models over HTTP: an API, and a page for people.

    It answers next words, explanations, influence, scores and generated texts. Prints its address when it is ready and
    runs until a signal (Ctrl-C); SIGHUP reads tables and lists of words anew. Exits with 2 where a model cannot be
    opened or the port is taken.

    \b
    Example: llrnn serve runs/embedded
    Example: llrnn serve --demo
    Example: llrnn serve big=runs/big small=runs/small --background kn=runs/french.arpa.gz --port 8080
    """
    folders = named_folders(models or [])
    a_folder([*folders.values()])
    require_extra()  # the server's own libraries are an extra
    import torch

    from llrnn.model.checkpoint import holds_lm, holds_model
    from llrnn.serve import app
    from llrnn.serve.engine import Engine
    from llrnn.serve.guard import LOCAL_HOSTS
    from llrnn.serve.served import Files, open_served

    if not demo:
        refuse_idle(context, "without --demo", "demo_folder")
    limits = Limits(in_flight=in_flight, client_connections=client_connections, seconds=seconds)
    token = read_token(token_file, local=_is_local(host))
    names = [_host_name(name) for name in allow_host or []]
    if not folders and not demo:
        raise ConfigError("serve needs a model folder, or --demo; found neither")
    for folder in folders.values():
        if not (holds_model(folder) or holds_lm(folder)):
            llrnn.load(folder)  # which says what is wrong, before a port is asked for
    written = "--background is written NAME=PATH, as kn=runs/french.arpa.gz"
    paths = {name: Path(path) for name, path in (split_option(option, written) for option in background or [])}
    written = "--table is written NAME=PATH, as restaurants=restaurants.tsv"
    tables = {name: Path(path) for name, path in (split_option(option, written) for option in table or [])}
    device_named(device)
    os.environ.setdefault(_ONEDNN, "128")
    sys.setswitchinterval(0.001)  # seconds that a model's thread may keep the event loop and the others waiting
    torch.set_num_threads(threads)  # steps are small: on cores that others use too, threads wait for one another
    with app.listener(host, port) as taken:  # before the models are read: a port that is taken is said at once
        folders = demo_models(demo_folder) | folders if demo else folders
        lists = word_lists(words or [], folders)
        served = [
            open_served(path, name=name, backgrounds=paths, files=Files(tables, lists[name]), device=device)
            for name, path in folders.items()
        ]
        _require_tables(tables, served)
        engine = Engine(served, rows=rows)
        hosts = LOCAL_HOSTS | {app.in_url(name) for name in (host, *names)}
        if token is None and not _is_local(host):
            show.note(f"note: whoever reaches {host} can ask; --token-file or {TOKEN} sets a token")
        said = f"serving {', '.join(folders)} at {app.address_of(taken)} (Ctrl-C stops)"
        made = app.create_app(engine, limits, token=token, hosts=hosts, access_log=access_log)
        app.serve(made, taken, ready=lambda: typer.echo(said))


def _require_tables(given: Mapping[str, Path], served: Sequence[Served]) -> None:
    """Raise a ConfigError for a name of `given` by which no served model looks up a table.

    `given`: {name: file}, from the options --table; `served`: all served models.
    """
    from llrnn.model.steering import tables_of

    known = {name for one in served for name in tables_of(one.model)}
    for name in given:
        if name not in known:
            there = f"these: {', '.join(sorted(known))}" if known else "none"
            raise ConfigError(f"--table {name}: no served model looks up a table of this name, found {there}")


def require_extra() -> None:
    """Raise a MissingExtraError, which says what to install, where fastapi or uvicorn is missing."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError("fastapi", "serve") from None


def named_folders(given: list[str]) -> dict[str, Path]:
    """Parse the arguments [NAME=]DIR into model folders by name; without NAME it is the name of the folder.

    Equal folder names get numbers ("mine-2"); a ConfigError is raised where a given NAME comes twice or holds a slash.
    """
    found: dict[str, Path] = {}
    for option in given:
        name, equals, path = option.partition("=")
        if not equals or Path(option).is_dir():
            folder = Path(option)
            found[_free(folder.resolve().name, found)] = folder
        elif not name or not path or "/" in name or name in found:
            raise ConfigError(f"a model is given as DIR or NAME=DIR, each NAME once and without /, found {option!r}")
        else:
            found[name] = Path(path)
    return found


def word_lists(given: list[str], models: Collection[str]) -> dict[str, list[Path]]:
    """Parse the options [NAME=]PATH of --words into the files of words to add, by the name of each of `models`.

    Every name of `models` is a key, with [] where it has no file. A file without NAME is for all models; a NAME that is
    no model raises a ConfigError.
    """
    found: dict[str, list[Path]] = {name: [] for name in models}
    for option in given:
        name, equals, path = option.partition("=")
        if not equals or Path(option).exists():
            for lists in found.values():
                lists.append(Path(option))
        elif name in found and path:
            found[name].append(Path(path))
        else:
            raise ConfigError(f"--words {option}: no served model is named {name!r}; there are {', '.join(models)}")
    return found


def _free(name: str, taken: dict[str, Path]) -> str:
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *numbered) if one not in taken)


def read_token(file: Path | None, *, local: bool = True) -> str | None:
    """Return the token that clients must send, from `file` or the environment variable LLRNN_TOKEN.

    None where neither is set. `local`: whether only this machine can reach the server; else an empty variable is
    refused. A ConfigError is raised where both are set, or where the token is not one word of printable ASCII.
    """
    given = os.environ.get(TOKEN) or None
    if given is None and file is None and TOKEN in os.environ:  # as a script leaves it that has found no token
        if not local:
            raise ConfigError(f"{TOKEN} is empty, and others can reach this server; put a token there, or unset it")
        show.note(f"note: {TOKEN} is empty: no token is asked for; put one there to have it asked")
    if file is None and given is None:
        return None
    if file is not None and given is not None:
        raise ConfigError(f"the token must come from one place, found both --token-file and {TOKEN}; leave one out")
    place = TOKEN if file is None else str(file)
    try:
        token = given if file is None else read_file(file, limit=10_000).decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not all("!" <= sign <= "~" for sign in token):
        raise ConfigError(f"{place}: a token must be one word of printable ASCII; write another one there")
    return token


def demo_models(folder: Path) -> dict[str, Path]:
    """Return the models of --demo by name: the French ones that are installed, or else `trained_models`."""
    installed = {name: place_of(name) for name in demo_module.SHIPPED.values() if has_bundle(name, "model")}
    return installed or trained_models(folder)


def trained_models(folder: Path) -> dict[str, Path]:
    """Return the demo's model folders by name ("ll-rnn", "softmax"), training them first where they are missing."""
    found = {"ll-rnn": folder / demo_module.MODEL, "softmax": folder / demo_module.SOFTMAX}
    if not all(has_bundle(path, "model") for path in found.values()):
        show.note(f"training the demo's models, once; they are kept in {folder}")
        demo_module.train_demo(folder, sentences=demo_module.SENTENCES, epochs=demo_module.EPOCHS, seed=0)
    return found


def _host_name(name: str) -> str:
    """Return a host name or address of --allow-host without brackets.

    Raise a ConfigError where it has a port or a path.
    """
    bare = name.strip("[]")
    if _address(bare) is None and (not name or any(sign in name for sign in ":/ ")):
        raise ConfigError(f"--allow-host takes a name without a port or a path, found {name!r}")
    return bare


def _is_local(host: str) -> bool:
    """Whether a host to listen at can be reached from this machine only: "localhost" or a loopback address.

    False for any other name.
    """
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
