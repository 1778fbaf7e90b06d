"""A model folder: the same model comes back, or one CheckpointError."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import llrnn
from helpers import small_corpus, small_features, small_model, small_vocabulary
from llrnn import GRU, LLRNN, LSTM, Elman, backgrounds, contextual, features
from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError
from llrnn.knowledge.backgrounds import Background, Mask, Mixture, Primed, Uniform, Unigram
from llrnn.knowledge.contextual import ContextualFeature
from llrnn.knowledge.process import State
from llrnn.layer.priors import Prior, SparsePrior, Table
from llrnn.model.scoring import score
from llrnn.text.encoded import EncodedText
from strategies import draws

FREQUENT = small_vocabulary().symbols[:5]


def unigram() -> Unigram:
    return Unigram.from_corpus(small_corpus(), smoothing=0.5)


def log_probs(model: LLRNN) -> torch.Tensor:
    """log p of every word of the text, every second sentence with a condition."""
    text = EncodedText.encode(small_corpus()[:12], model.vocabulary)
    conditions = tuple(" ".join(FREQUENT[:3]) if i % 2 else None for i in range(len(text.sentences)))
    return score(model, EncodedText(text.sentences, conditions, text.eos)).log_probs


MODELS: dict[str, Callable[[], LLRNN]] = {
    "uniform": lambda: small_model(background=Uniform()),
    "unigram": lambda: small_model(background=unigram()),
    "product with mask": lambda: small_model(background=unigram() * Mask(forbidden=["zzz"] * 0)),
    "product with a real mask": lambda: small_model(background=unigram() * Mask(allowed=small_vocabulary().symbols)),
    "mixture": lambda: small_model(background=Mixture(unigram(), Uniform(), weights=[0.25, 2.0])),
    "primed": lambda: small_model(background=Primed(unigram(), FREQUENT, boost=7.0, absent=0.125)),
    "nested": lambda: small_model(
        background=Mixture(Primed(unigram(), FREQUENT, boost=3.0, absent=0.5), unigram() * Mask(forbidden=[]))
    ),
    "repeated": lambda: small_model(context=[contextual.Repeated(4)]),
    "tied": lambda: small_model(tied=True),
    "own input features": lambda: small_model(input_features=features.Identity(top=20) + features.Shape()),
    "softmax": lambda: small_model(output_features=features.Identity(), background=Uniform()),
    "scaled values": lambda: small_model(output_features=small_features().scaled(0.3)),
    "elman": lambda: small_model(controller=Elman(5, layers=2)),
    "lstm": lambda: small_model(controller=LSTM(5, inputs=4, dropout=0.5)),
    "two layers": lambda: small_model(controller=LSTM(4, layers=2, inputs=3)),
    "float64": lambda: small_model(context=[contextual.Repeated(4)]).double(),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_exactly(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    model.provenance = {"config": {"name": name}}
    model.save(tmp_path)
    loaded = llrnn.load(tmp_path)
    assert torch.equal(log_probs(loaded), log_probs(model))
    assert loaded.vocabulary == model.vocabulary
    assert loaded.vocabulary.counts == model.vocabulary.counts
    assert loaded.feature_names == model.feature_names
    assert loaded.provenance == model.provenance
    assert loaded.tied == model.tied
    assert loaded.controller.settings() == model.controller.settings()
    assert repr(loaded.background) == repr(model.background)
    assert loaded.training_summary is not None
    assert model.training_summary is not None
    assert loaded.training_summary.counts.tolist() == model.training_summary.counts.tolist()
    assert {name: p.dtype for name, p in loaded.named_parameters()} == {n: p.dtype for n, p in model.named_parameters()}


def test_the_models_of_these_tests_differ() -> None:
    """Otherwise a wrong background would come back unseen."""
    names = ["uniform", "unigram", "mixture", "primed", "nested", "repeated", "scaled values"]
    found = [log_probs(MODELS[name]()) for name in names]
    for i, one in enumerate(found):
        for other in found[:i]:
            assert not torch.allclose(one, other)


def test_a_forbidden_word_stays_forbidden(tmp_path: Path) -> None:
    small_model(background=unigram() * Mask(forbidden=[FREQUENT[0]])).save(tmp_path)
    loaded = llrnn.load(tmp_path)
    with torch.no_grad():
        distribution, _ = loaded.step(loaded.start(), [loaded.vocabulary.eos])
        log_p = distribution.log_probs()[0]
    assert log_p[loaded.vocabulary.id(FREQUENT[0])] == float("-inf")
    assert log_p[loaded.vocabulary.id(FREQUENT[1])] > float("-inf")


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    small_model().save(tmp_path / "a")
    llrnn.load(tmp_path / "a").save(tmp_path / "b")
    content = [{path.name: path.read_bytes() for path in (tmp_path / one).iterdir()} for one in "ab"]
    assert content[0] == content[1]
    assert len(content[0]) == 2


def test_the_unknown_symbol_comes_back(tmp_path: Path) -> None:
    vocabulary = llrnn.Vocabulary.from_corpus(small_corpus(), top=20, unknown="<unk>")
    LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(3)).save(tmp_path)
    assert llrnn.load(tmp_path).vocabulary.id("nowhere seen") == vocabulary.id("<unk>")


# --- knowledge of the user's own -----------------------------------------------------------------------------------


class Alternating(Background):
    """A background of the user's own: what it likes changes from step to step."""

    def initial(self, condition: object = None) -> State:
        return 0

    def advance(self, state: State, symbol: int) -> State:
        return 1 - state

    def prior(self, states: Sequence[State]) -> Prior:
        table = Table(torch.zeros(len(self.vocabulary), dtype=torch.float64))
        return SparsePrior.listed(table, [{1 + state: 2.5} for state in states])


class Short(ContextualFeature):
    """A contextual feature of the user's own."""

    def value(self, state: State) -> tuple[float, Mapping[int, float]]:
        return 0.25, {1: 2.0}


def allowed_everywhere(condition: object, prefix: tuple[str, ...]) -> Sequence[str]:
    return small_vocabulary().symbols


@pytest.mark.parametrize(
    "background",
    [
        Alternating(),
        Uniform() * Alternating(),
        Mixture(Uniform(), Alternating()),
        Mask(allowed=allowed_everywhere),
        Primed(unigram(), FREQUENT, evidence=lambda condition: {FREQUENT[0]: 2.0}, absent=0.5),
    ],
    ids=["alone", "in a product", "in a mixture", "a function of a mask", "a function of evidence"],
)
def test_a_background_of_ones_own_is_given_again(tmp_path: Path, background: Background) -> None:
    model = small_model(background=background)
    model.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"background of your own.*load\(folder, background=") as caught:
        llrnn.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert torch.equal(log_probs(llrnn.load(tmp_path, background=background)), log_probs(model))


def test_a_contextual_feature_of_ones_own_is_given_again(tmp_path: Path) -> None:
    model = small_model(context=[Short()])
    model.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"contextual feature of your own.*contextual="):
        llrnn.load(tmp_path)
    assert torch.equal(log_probs(llrnn.load(tmp_path, contextual=[Short()])), log_probs(model))
    with pytest.raises(CheckpointError, match="context"):
        llrnn.load(tmp_path, contextual=[Short(), contextual.Repeated()])


def test_another_background_may_be_swapped_in(tmp_path: Path) -> None:
    small_model(background=unigram()).save(tmp_path)
    swapped = llrnn.load(tmp_path, background=Uniform())
    assert torch.equal(log_probs(swapped), log_probs(small_model(background=Uniform())))


def test_a_background_over_another_vocabulary_is_refused(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    with pytest.raises(CheckpointError, match="vector over 3 symbols"):
        llrnn.load(tmp_path, background=backgrounds.Static(torch.zeros(3)))


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    model = small_model(
        background=Mixture(Primed(unigram(), FREQUENT, absent=0.5), Uniform() * Mask(forbidden=[])),
        context=[contextual.Repeated(4)],
        input_features=features.Identity(top=20),
    )
    model.save(folder)
    return folder


def test_damage_anywhere_in_a_model_is_one_checkpoint_error(saved: Path, tmp_path: Path) -> None:
    """Some positions of every file: `test_bundle` tries them all on a small bundle."""
    for path in sorted(saved.iterdir()):
        content = path.read_bytes()
        positions = [round(i * (len(content) - 1) / 24) for i in range(25)]
        for position in positions:
            flipped = content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]
            for damaged in (flipped, content[:position]):
                folder = tmp_path / "damaged"
                shutil.copytree(saved, folder)
                (folder / path.name).write_bytes(damaged)
                with pytest.raises(CheckpointError, match="damaged"):
                    llrnn.load(folder)
                shutil.rmtree(folder)


def test_missing_files_are_one_checkpoint_error(saved: Path, tmp_path: Path) -> None:
    for path in saved.iterdir():
        folder = tmp_path / path.name
        shutil.copytree(saved, folder)
        (folder / path.name).unlink()
        with pytest.raises(CheckpointError, match="missing"):
            llrnn.load(folder)


def test_files_of_two_models_do_not_mix(saved: Path, tmp_path: Path) -> None:
    """Same vocabulary, same shapes: only the digests can tell."""
    first, second = small_model(loud=1.0), small_model(loud=2.0)
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    shutil.copy(tmp_path / "second" / "model.json", tmp_path / "first" / "model.json")
    with pytest.raises(CheckpointError, match="missing"):
        llrnn.load(tmp_path / "first")
    (mine,) = (tmp_path / "first").glob("*.safetensors")
    (theirs,) = (tmp_path / "second").glob("*.safetensors")
    shutil.copy(mine, theirs)
    with pytest.raises(CheckpointError, match="altered"):
        llrnn.load(tmp_path / "second")


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of nested data, long lists by their first few members."""
    if isinstance(value, dict):
        return [path, *(p for key, inner in value.items() for p in paths_in(inner, (*path, key)))]
    if isinstance(value, list):
        return [path, *(p for index, inner in enumerate(value[:3]) for p in paths_in(inner, (*path, index)))]
    return [path]


def changed(data: Any, path: tuple[Any, ...], value: Any, *, remove: bool) -> Any:
    made = copy.deepcopy(data)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


ODD_VALUES = st.one_of(
    st.sampled_from(
        [None, True, 0, 1, -1, 10**30, 0.5, float("nan"), "", "x", "</s>", [], ["x"], {}, {"kind": "mask"}]
    ),
    st.integers(-3, 9),
)


@given(st.data())
@settings(max_examples=draws(30))
def test_a_forged_description_is_a_model_or_one_checkpoint_error(
    saved: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """The description is changed and sealed anew, so that nothing but the checks of `load` stands in the way."""
    bundle = read_bundle(saved, "model")
    path = data.draw(st.sampled_from([p for p in paths_in(bundle.data) if p]))
    made = changed(bundle.data, path, data.draw(ODD_VALUES), remove=data.draw(st.booleans()))
    write_bundle(tmp_path, "model", made, bundle.tensors)
    try:
        assert isinstance(llrnn.load(tmp_path), LLRNN)
    except CheckpointError as error:
        assert str(tmp_path) in str(error)  # noqa: PT017 - either outcome is right


@given(st.data())
@settings(max_examples=draws(30))
def test_forged_tensors_are_a_model_or_one_checkpoint_error(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    bundle = read_bundle(saved, "model")
    name = data.draw(st.sampled_from(sorted(bundle.tensors)))
    old = bundle.tensors[name]
    forged = {
        "gone": None,
        "empty": old[:0],
        "shorter": old[1:],
        "longer": torch.cat([old, old]),
        "another shape": old[None],
        "another type": old.to(torch.int32),
        "scalar": torch.tensor(1.0),
    }[data.draw(st.sampled_from(["gone", "empty", "shorter", "longer", "another shape", "another type", "scalar"]))]
    made = {key: tensor for key, tensor in bundle.tensors.items() if key != name}
    write_bundle(tmp_path, "model", bundle.data, made if forged is None else {**made, name: forged})
    try:
        assert isinstance(llrnn.load(tmp_path), LLRNN)
    except CheckpointError as error:
        assert str(tmp_path) in str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("name", ["output_features.class_of", "output_features.columns", "input_features.offsets"])
@pytest.mark.parametrize("by", [10_000, -10_000])
def test_indices_out_of_range_are_refused(saved: Path, tmp_path: Path, name: str, by: int) -> None:
    bundle = read_bundle(saved, "model")
    write_bundle(tmp_path, "model", bundle.data, {**bundle.tensors, name: bundle.tensors[name] + by})
    with pytest.raises(CheckpointError, match="do not fit together"):
        llrnn.load(tmp_path)


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("name", ["class_of", "columns", "offsets"])
def test_indices_of_another_type_are_refused(saved: Path, tmp_path: Path, side: str, name: str) -> None:
    """They were an IndexError at the first step of the model."""
    bundle, name = read_bundle(saved, "model"), f"{side}_features.{name}"
    for other in (torch.float64, torch.uint8):
        write_bundle(tmp_path, "model", bundle.data, {**bundle.tensors, name: bundle.tensors[name].to(other)})
        with pytest.raises(CheckpointError, match="do not fit together"):
            llrnn.load(tmp_path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name", ["weights.layer.bias", "weights.controller.layers.0.weight_hh_l0", "output_features.values"]
)
def test_numbers_that_are_none_are_refused_at_load_and_at_save(name: str, bad: float, tmp_path: Path) -> None:
    """Every log p would be nan."""
    model = small_model()
    data, tensors = model.described()
    broken = tensors[name].detach().clone()
    broken.view(-1)[-1] = bad
    write_bundle(tmp_path / "forged", "model", data, {**tensors, name: broken})
    with pytest.raises(CheckpointError, match=f"finite numbers are required, but {name} holds {bad}") as caught:
        llrnn.load(tmp_path / "forged")
    assert "forged" in str(caught.value)
    if name.startswith("weights."):
        with torch.no_grad():
            model.get_parameter(name.removeprefix("weights.")).copy_(broken)
        with pytest.raises(CheckpointError, match="finite numbers are required"):
            model.save(tmp_path / "own")
        assert not (tmp_path / "own").exists()


def test_a_model_that_does_not_fit_into_memory_is_one_checkpoint_error(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **named: object) -> None:
        raise MemoryError("800 GiB")

    for place in ("LLRNN", "read_bundle"):
        with monkeypatch.context() as patched:
            patched.setattr(f"llrnn.model.checkpoint.{place}", full)
            with pytest.raises(CheckpointError, match=r"does not fit into memory \(800 GiB"):
                llrnn.load(saved)


def test_every_weight_is_needed_in_its_shape() -> None:
    model = small_model()
    weights = {f"weights.{name}": p.detach().clone() for name, p in model.named_parameters()}
    for name in weights:
        with pytest.raises(CheckpointError, match="missing"):
            model.load_weights({key: w for key, w in weights.items() if key != name})
    with pytest.raises(CheckpointError, match="shape"):
        model.load_weights({**weights, "weights.layer.bias": torch.zeros(3)})
