"""Bundles on disk: all of a save or nothing of it, and no damage that goes unseen."""

from __future__ import annotations

import fcntl
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from llrnn.ground import bundle
from llrnn.ground.bundle import Bundle, has_bundle, read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError
from llrnn.ground.files import write_atomically
from strategies import draws

DATA: dict[str, Any] = {"words": ["été", "</s>"], "rate": 0.1, "nested": {"none": None, "flags": [True, False]}}


def some_tensors(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "weights.a": torch.randn(3, 4, generator=generator),
        "weights.b": torch.randn(4, 3, generator=generator, dtype=torch.float64).t(),  # not contiguous
        "counts": torch.arange(5) + seed,
        "empty": torch.zeros(0, 2),
        "flags": torch.tensor([True, False]),
    }


def same(found: Bundle, data: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    return (
        found.data == data
        and found.tensors.keys() == tensors.keys()
        and all(torch.equal(found.tensors[k], t) and found.tensors[k].dtype == t.dtype for k, t in tensors.items())
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "saved", "model", DATA, some_tensors())
    return tmp_path / "saved"


def data_file(folder: Path, name: str = "model") -> Path:
    (found,) = folder.glob(f"{name}-*.safetensors")
    return found


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_bundle(folder, "model")
    message = str(caught.value)
    assert str(folder) in message
    return message


# --- what was saved comes back -------------------------------------------------------------------------------------


def test_a_bundle_comes_back_as_it_was(folder: Path) -> None:
    assert same(read_bundle(folder, "model"), DATA, some_tensors())
    assert has_bundle(folder, "model")
    assert not has_bundle(folder, "training")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), _JSON, max_size=4), st.integers(0, 99))
@settings(max_examples=draws(25))
def test_any_plain_data_comes_back(tmp_path: Path, data: dict[str, Any], seed: int) -> None:
    write_bundle(tmp_path, "model", data, some_tensors(seed))
    assert same(read_bundle(tmp_path, "model"), data, some_tensors(seed))


def test_not_a_number_comes_back(tmp_path: Path) -> None:
    write_bundle(tmp_path, "model", {"loss": math.nan}, {"x": torch.tensor([math.nan, math.inf])})
    found = read_bundle(tmp_path, "model")
    assert math.isnan(found.data["loss"])
    assert math.isnan(found.tensors["x"][0])
    assert found.tensors["x"][1] == math.inf


@pytest.mark.parametrize("bad", [{"path": Path("x")}, {"word": "\ud800"}], ids=["no JSON", "half a character"])
def test_what_json_cannot_hold_is_refused_and_nothing_written(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="JSON"):
        write_bundle(tmp_path / "x", "model", bad, some_tensors())
    assert not (tmp_path / "x").exists()


def test_two_bundles_live_side_by_side_and_old_data_files_go(folder: Path) -> None:
    write_bundle(folder, "training", {}, some_tensors(1))
    first = data_file(folder)
    write_bundle(folder, "model", DATA, some_tensors(2))
    assert not first.exists()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["model.json", "training.json", data_file(folder).name, data_file(folder, "training").name]
    )
    assert same(read_bundle(folder, "training"), {}, some_tensors(1))
    assert same(read_bundle(folder, "model"), DATA, some_tensors(2))


def test_what_a_killed_process_left_goes_with_the_next_save(folder: Path) -> None:
    for name in (".model-0123.safetensors.abc", ".model.json.abc", "model-0123.safetensors"):
        (folder / name).write_bytes(b"half")
    write_bundle(folder, "model", DATA, some_tensors(1))
    assert len(list(folder.iterdir())) == 2


def test_files_can_be_read_by_others(folder: Path) -> None:
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o644


def test_the_manifest_lists_a_sha256_for_every_tensor(folder: Path) -> None:
    manifest = json.loads((folder / "model.json").read_text("utf8"))
    assert manifest["sha256"].keys() == some_tensors().keys()
    assert all(len(digest) == 64 for digest in manifest["sha256"].values())


# --- a crash at any point ------------------------------------------------------------------------------------------


class Crash(BaseException):
    """As if the process were killed: nothing may catch it."""


def failing_at(function: Callable[..., Any], turn: int, error: BaseException) -> Callable[..., Any]:
    calls = 0

    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turn:
            raise error
        return function(*arguments, **named)

    return wrapped


@pytest.mark.parametrize("error", [Crash(), OSError(28, "No space left on device")], ids=["killed", "disk full"])
@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("turn", [1, 2, 3, 4])
def test_a_crash_while_writing_leaves_the_old_bundle_or_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, turn: int, error: BaseException
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing_at(getattr(os, call), turn, error))
        crashes = turn <= {"replace": 2, "fsync": 4, "chmod": 2}[call]
        if crashes:
            with pytest.raises(Crash if isinstance(error, Crash) else CheckpointError):
                write_bundle(folder, "model", {"new": 1}, some_tensors(7))
        else:
            write_bundle(folder, "model", {"new": 1}, some_tensors(7))
    found = read_bundle(folder, "model")
    is_new = same(found, {"new": 1}, some_tensors(7))
    assert is_new or same(found, DATA, some_tensors())
    assert is_new == (not crashes or (call, turn) == ("fsync", 4))  # the last sync comes after the rename
    assert not list(folder.glob(".*"))
    write_bundle(folder, "model", {"next": 2}, some_tensors(8))
    assert same(read_bundle(folder, "model"), {"next": 2}, some_tensors(8))
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("overtaken", [1, 2, 7])
def test_a_reader_that_saves_overtake_sees_one_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, overtaken: int
) -> None:
    """Each time that the manifest has been read, a save replaces both files before the data file is opened."""
    read, saves = bundle._read_manifest, iter(range(1, overtaken + 1))

    def read_then_save(path: Path, name: str) -> tuple[dict[str, Any], object]:
        found = read(path, name)
        turn = next(saves, 0)
        if turn:
            write_bundle(folder, "model", {"new": turn % 2}, some_tensors(turn % 2))  # the same two in turn
        return found

    monkeypatch.setattr(bundle, "_read_manifest", read_then_save)
    assert same(read_bundle(folder, "model"), {"new": overtaken % 2}, some_tensors(overtaken % 2))


def test_a_data_file_that_is_open_cannot_be_taken_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = bundle._read_data

    def save_then_read(*given: Any) -> Any:
        write_bundle(folder, "model", {"new": 1}, some_tensors(7))
        return read(*given)

    monkeypatch.setattr(bundle, "_read_data", save_then_read)
    assert same(read_bundle(folder, "model"), DATA, some_tensors())


def test_endless_saves_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, turns = bundle._read_manifest, iter(range(1, 100))
    monkeypatch.setattr(bundle, "_MOST_REPLACED", 5)

    def read_then_save(path: Path, name: str) -> tuple[dict[str, Any], object]:
        found = read(path, name)
        write_bundle(folder, "model", DATA, some_tensors(next(turns)))
        return found

    monkeypatch.setattr(bundle, "_read_manifest", read_then_save)
    assert "replaced faster than it can be read" in refused(folder)


def test_nobody_else_saves_while_old_files_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the file that another save has just named could be among them."""
    remove, tried = bundle._remove_old, []

    def try_to_save(place: Path, name: str, kept: str) -> None:
        descriptor = os.open(place, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        tried.append(kept)
        remove(place, name, kept)

    monkeypatch.setattr(bundle, "_remove_old", try_to_save)
    write_bundle(folder, "model", {"new": 1}, some_tensors(7))
    write_bundle(folder, "model", {"new": 2}, some_tensors(8))  # the first one let go
    assert len(tried) == 2


def test_old_data_that_cannot_be_removed_does_not_fail_the_save(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    write_bundle(folder, "model", {"new": 1}, some_tensors(7))
    assert same(read_bundle(folder, "model"), {"new": 1}, some_tensors(7))


def test_write_atomically_keeps_the_old_content_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing_at(os.fsync, 1, OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# --- damage --------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_seen(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        intact = path.read_bytes()
        for position in range(0, len(intact), 3):
            damaged = bytearray(intact)
            damaged[position] ^= 1 << (position % 8)
            path.write_bytes(damaged)
            refused(folder)
        path.write_bytes(intact)
    assert same(read_bundle(folder, "model"), DATA, some_tensors())


def test_every_truncation_is_seen(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        intact = path.read_bytes()
        for length in {*range(0, len(intact), 11), 1, 7, 8, 9, len(intact) - 1}:
            path.write_bytes(intact[:length])
            refused(folder)
        path.write_bytes(intact + b"\n")
        refused(folder)
        path.write_bytes(intact)


@given(st.data())
@settings(max_examples=draws(40))
def test_random_damage_is_seen(folder: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    intact = path.read_bytes()
    start = data.draw(st.integers(0, len(intact)))
    stop = data.draw(st.integers(start, min(len(intact), start + 40)))
    damaged = intact[:start] + data.draw(st.binary(max_size=40)) + intact[stop:]
    path.write_bytes(damaged)
    try:
        if damaged == intact:
            assert same(read_bundle(folder, "model"), DATA, some_tensors())
        else:
            refused(folder)
    finally:
        path.write_bytes(intact)


def edited(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest as a person with an editor would, its layout kept."""
    path = folder / "model.json"
    manifest = json.loads(path.read_text("utf8"))
    edit(manifest)
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), "utf8")


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["data"]["words"].__setitem__(0, "ete"),
        lambda m: m["data"]["words"].reverse(),
        lambda m: m["data"].update(rate=0.2),
        lambda m: m["data"].update(rate=None),
        lambda m: m["data"].update(another=1),
        lambda m: m["data"].pop("nested"),
        lambda m: m.pop("data"),
        lambda m: m.pop("file"),
        lambda m: m.pop("sha256"),
        lambda m: m.pop("seal"),
        lambda m: m.pop("format"),
        lambda m: m.update(format="1"),
        lambda m: m.update(format=True),
        lambda m: m.update(format=0),
        lambda m: m.update(file=5),
        lambda m: m.update(file="../../etc/passwd"),
        lambda m: m.update(file=""),
        lambda m: m.update(sha256=[]),
        lambda m: m["sha256"].pop("counts"),
        lambda m: m["sha256"].update(counts="0" * 64),
        lambda m: m["sha256"].update(extra="0" * 64),
        lambda m: m.update(seal=7),
    ],
)
def test_every_edit_of_the_manifest_is_seen(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    edited(folder, edit)
    assert "model.json" in refused(folder)


def test_an_edit_that_changes_nothing_is_none(folder: Path) -> None:
    edited(folder, lambda manifest: None)
    assert same(read_bundle(folder, "model"), DATA, some_tensors())


def test_a_format_of_the_future_says_so(folder: Path) -> None:
    edited(folder, lambda manifest: manifest.update(format=99))
    assert "newer llrnn" in refused(folder)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{}", b"5", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000, b"\0" * 64, b"PK\x03\x04"]
)
def test_other_files_in_its_place_are_refused(folder: Path, content: bytes) -> None:
    intact = (folder / "model.json").read_bytes()
    (folder / "model.json").write_bytes(content)
    refused(folder)
    (folder / "model.json").write_bytes(intact)
    data_file(folder).write_bytes(content)
    refused(folder)


def test_files_of_two_saves_do_not_mix(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_bundle(other, "model", DATA, some_tensors(1))
    ours, theirs = data_file(folder), data_file(other)
    mine = ours.read_bytes()
    ours.write_bytes(theirs.read_bytes())
    assert "altered" in refused(folder)
    ours.write_bytes(mine)
    (folder / "model.json").write_bytes((other / "model.json").read_bytes())
    assert "missing" in refused(folder)


def test_an_altered_tensor_is_named(folder: Path) -> None:
    blob = bytearray(data_file(folder).read_bytes())
    blob[-1] ^= 1
    data_file(folder).write_bytes(blob)
    assert "was altered after saving" in refused(folder)


def test_missing_files_and_folders(folder: Path, tmp_path: Path) -> None:
    data_file(folder).unlink()
    assert "missing" in refused(folder)
    (folder / "model.json").unlink()
    assert "holds no complete model" in refused(folder)
    assert "no such folder" in refused(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    assert "but this is a file" in refused(tmp_path / "file")
    assert "too long" in refused(tmp_path / ("a" * 300))


def test_pipes_and_devices_in_place_of_files_are_not_waited_for(folder: Path) -> None:
    path = data_file(folder)
    path.unlink()
    os.mkfifo(path)
    assert "this is a pipe" in refused(folder)
    (folder / "model.json").unlink()
    os.mkfifo(folder / "model.json")
    assert "this is a pipe" in refused(folder)
    (folder / "model.json").unlink()
    (folder / "model.json").symlink_to("/dev/zero")
    assert "this is a device" in refused(folder)


def test_a_manifest_has_a_largest_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "model.json").open("ab") as file:
        file.truncate(bundle._LARGEST_MANIFEST + 1)  # holes take no room on the disk
    monkeypatch.setattr(bundle, "_LARGEST_MANIFEST", 2_000)
    assert "larger than 2,000 bytes" in refused(folder)
    with pytest.raises(CheckpointError, match="2,000 are read at most"):
        write_bundle(folder, "other", {"words": ["word"] * 1_000}, {})
    assert not has_bundle(folder, "other")


def test_names_that_no_folder_can_have(tmp_path: Path) -> None:
    for name in ("a\0b", "a" * 300, "/".join(["a" * 200] * 40)):
        with pytest.raises(CheckpointError, match=r"name|too long"):
            write_bundle(tmp_path / name, "model", DATA, some_tensors())
        with pytest.raises(CheckpointError, match=r"name|too long"):
            read_bundle(tmp_path / name, "model")
        assert not has_bundle(tmp_path / name, "model")


def test_a_file_that_is_cut_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read stays as it was; what could not be is told."""
    tensors = {"weights": torch.arange(100_000.0)}
    write_bundle(folder, "model", DATA, tensors)
    before, read = read_bundle(folder, "model"), bundle._read

    def cut_then_read(*given: Any) -> Any:
        os.truncate(data_file(folder), 100)
        return read(*given)

    monkeypatch.setattr(bundle, "_read", cut_then_read)
    assert "cut while it was read" in refused(folder)
    assert same(before, DATA, tensors)


def test_a_folder_that_may_not_be_written_keeps_what_it_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**given: Any) -> tuple[int, str]:  # (the user root may write everywhere)
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", refuse)
        with pytest.raises(CheckpointError, match="cannot write the model: Permission denied"):
            write_bundle(folder, "model", {"new": 1}, some_tensors(7))
    assert same(read_bundle(folder, "model"), DATA, some_tensors())


def test_folders_in_place_of_files(folder: Path) -> None:
    path = data_file(folder)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in refused(folder)
    (folder / "model.json").unlink()
    (folder / "model.json").mkdir()
    assert "cannot be read" in refused(folder)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match="cannot write the model"):
            write_bundle(place, "model", DATA, some_tensors())
    assert (tmp_path / "file").read_text() == "x"


def test_the_files_do_not_depend_on_the_order_of_tensors(tmp_path: Path) -> None:
    """A run that was resumed gives them in the order of a file, one that was not in that of the optimizer."""
    tensors = some_tensors()
    for folder, names in (("one", [*tensors]), ("other", [*reversed(tensors)])):
        write_bundle(tmp_path / folder, "b", DATA, {name: tensors[name] for name in names})
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one == other
