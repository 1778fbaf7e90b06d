"""A model as the Hugging Face Hub expects it: `LLRNN.from_pretrained`, `save_pretrained`, `push_to_hub`.

    config.json          what the model is, as plain data, and the SHA-256 of every tensor
    model.safetensors    its tensors
    README.md            the card: data, figures, licence, intended use

It is the bundle of `ground.bundle` under the names that others look for; nothing is pickled or executed. Our own
folders, of `LLRNN.save`, stay as they are; `llrnn.load`, `from_pretrained` and every verb read both.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llrnn.ground.bundle import has_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, LLRNNError, MissingExtraError, ServerError
from llrnn.ground.files import parse_json, read_file, write_atomically
from llrnn.text.others import in_words

if TYPE_CHECKING:
    from llrnn.model.network import LLRNN

CONFIG, TENSORS, CARD = "config", "model.safetensors", "README.md"
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WANTED = [f"{CONFIG}.json", TENSORS, CARD, "model.json", "model-*.safetensors"]


def write_pretrained(model: LLRNN, folder: str | PathLike[str], card: str) -> None:
    """Write the three files."""
    data, tensors = model.checked()
    header = {"model_type": "llrnn", "architectures": ["LLRNN"], "llrnn_version": _version()}
    write_bundle(folder, CONFIG, data, tensors, version=2, file=TENSORS, header=header)
    write_atomically(Path(folder) / CARD, card.encode())


def holds_model(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds a model of ours, under either name; another library's has a config.json, too."""
    return has_bundle(folder, "model") or _model_type(Path(folder)) == "llrnn"


def bundle_name(folder: str | PathLike[str]) -> str:
    """Under which name a folder holds a model, `model` or `config`; an error that says what it is where it does not."""
    if has_bundle(folder, "model"):
        return "model"
    if has_bundle(folder, "ngram"):
        raise CheckpointError(
            f"{folder}: a model folder is required, as `llrnn train --out` writes it, found n-grams, which "
            "evaluate, score, rescore, generate, complete and explain take, and --background"
        )
    kind = _model_type(Path(folder))
    if kind not in (None, "llrnn"):
        raise CheckpointError(
            f"{folder}: a model of llrnn is required, found one of transformers ({kind}); a language model is opened "
            "as a background, backgrounds.HuggingFace.from_folder(folder)"
        )
    return CONFIG if kind == "llrnn" else "model"


def _model_type(folder: Path) -> str | None:
    path = folder / f"{CONFIG}.json"
    try:
        found = parse_json(read_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); the file is damaged, restore it") from None
    return str(found.get("model_type")) if isinstance(found, dict) else None


def find_folder(name: str | PathLike[str], **options: Any) -> Path:
    """A folder that is there, or else a repository of the Hub, downloaded into the cache of `huggingface_hub`."""
    path = Path(name)
    if path.exists():
        return path
    if not _REPOSITORY.fullmatch(str(name)):
        raise CheckpointError(f"{name}: there is no such folder, and a repository is called owner/name; correct it")
    hub = _hub()
    with _told(f"{name}: no such folder, and the Hub cannot give a repository of that name"):
        return Path(hub.snapshot_download(str(name), allow_patterns=_WANTED, **options))


def push(
    model: LLRNN, repository: str, card: str, *, private: bool | None, token: str | None, endpoint: str | None
) -> str:
    """Upload the three files; returns the address of the repository."""
    hub = _hub()
    if not _REPOSITORY.fullmatch(repository):
        raise CheckpointError(f"a repository is called owner/name, found {repository!r}; correct it")
    with tempfile.TemporaryDirectory() as folder, _told(f"{repository}: the Hub does not take the model"):
        write_pretrained(model, folder, card)
        api = hub.HfApi(endpoint=endpoint, token=token)
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="A model of llrnn")
        return str(address)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What goes wrong with the Hub in one line, whichever HTTP library it is built on."""
    try:
        yield
    except LLRNNError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if not isinstance(error, OSError) and library not in ("huggingface_hub", "httpx", "httpx2", "requests"):
            raise
        reason = " ".join(str(error).split())[:200]
        raise ServerError(
            f"{what} ({reason}); look at the name, the connection and `hf auth login`", code="hub"
        ) from error


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hf") from None
    return huggingface_hub


def _version() -> str:
    try:
        return version("llrnn")
    except PackageNotFoundError:
        return "unknown"


def make_card(
    model: LLRNN, *, license: str | None = None, data: str | None = None, figures: Mapping[str, float] | None = None
) -> str:
    """README.md: what was given, and what the model knows of itself; what nobody said is said to be unknown."""
    front = ["---", "library_name: llrnn", "pipeline_tag: text-generation", "tags: [llrnn, language-model]"]
    front += [f"license: {license}"] if license else []
    known = {**model.provenance.get("figures", {}), **(figures or {})}
    rows = [f"| {name} | {value:g} |" for name, value in known.items()]
    return "\n".join(
        [
            *front,
            "---",
            "",
            "# A log-linear recurrent language model",
            "",
            f"p(x | K) ∝ b(K, x) · exp(a(h)·φ(K, x)) over {len(model.vocabulary):,} symbols: {model.controller!r} over "
            f"{len(model.feature_names):,} output features, background `{model.background!r}`, "
            f"{sum(p.numel() for p in model.parameters()):,} weights.",
            "",
            "```python",
            "import llrnn",
            "",
            'model = llrnn.LLRNN.from_pretrained("this folder or repository")',
            "llrnn.generate(model)",
            "```",
            "",
            "## Data",
            "",
            data or "Not stated by who saved it.",
            *_trained_on(model),
            "",
            "## Figures",
            "",
            *(["| measure | value |", "| --- | --- |", *rows] if rows else ["None were given."]),
            "",
            "## Licence",
            "",
            license or "Not stated: ask who trained it before you use it.",
            "",
            "## Intended use",
            "",
            "To score and to write text like that of its data. It says what is likely, not what is true, and repeats "
            "what its data holds; do not rely on it for decisions about people.",
            "",
        ]
    )


def _trained_on(model: LLRNN) -> list[str]:
    """What the model itself knows of its training text."""
    summary = model.training_summary
    found = [] if summary is None else ["", f"Trained on {int(summary.counts.sum()):,} words and ends of sentences."]
    files = model.corpus_settings.get("train")
    names = [files] if isinstance(files, str) else files or []
    found += [f"Files: {', '.join(Path(str(one)).name for one in names)}."] if names else []
    return found + [in_words(other) for other in model.provenance.get("other_texts", [])]
