"""The elements of large tensors stay in their file: what is read is the same model, and what runs has them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from damaged_onnx import damage
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_architectures import BUILDERS
from onnx_graphs import BACKEND, F, make_model

from profilerkit import InputError, ModelInputs, profile
from profilerkit.backend import RunOptions
from profilerkit.models.loaders import load_model
from profilerkit_onnx.loaders import find_damage, open_model
from profilerkit_onnx.model import large_tensors
from profilerkit_onnx.model.large_tensors import LEFT
from profilerkit_onnx.model.model_file import external_files, read_whole

WEIGHT = np.random.default_rng(0).normal(size=(200, 300)).astype(F)
X = np.random.default_rng(1).normal(size=(2, 200)).astype(F)


def save(model: ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def product(*weights: TensorProto) -> ModelProto:
    """Return ``x @ w``; further weights are not used."""
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (F, ["n", 200])})
    model.graph.initializer.extend(weights or [numpy_helper.from_array(WEIGHT, "w")])
    return model


def in_floats() -> ModelProto:
    return product(helper.make_tensor("w", TensorProto.FLOAT, WEIGHT.shape, WEIGHT.ravel()))


def in_a_node() -> ModelProto:
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(WEIGHT, "w")),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    return make_model(nodes, {"x": (F, ["n", 200])})


def test_large_elements_are_left_in_the_file_and_come_back(tmp_path: Path) -> None:
    model = product()
    light = open_model(save(model, tmp_path))
    assert light.ByteSize() < 4000 < WEIGHT.nbytes
    assert LEFT in external_files(light)
    assert read_whole(light) == model
    before, after = (BACKEND.trace(item, ModelInputs(x=X[:1])) for item in (model, light))
    assert after == before
    assert after.macs == WEIGHT.size


@pytest.mark.parametrize("build", [in_floats, in_a_node])
def test_elements_in_other_places_are_read(build: Callable[[], ModelProto], tmp_path: Path) -> None:
    assert open_model(save(build(), tmp_path)) == build()


def test_elements_are_not_read_from_the_file(tmp_path: Path) -> None:
    class Counting(io.FileIO):
        count = 0

        def read(self, size: int | None = -1) -> Any:
            data = super().read(-1 if size is None else size)
            self.count += len(data or b"")
            return data

    wide = np.zeros((200, 30_000), F)
    with Counting(save(product(numpy_helper.from_array(wide, "w")), tmp_path)) as file:
        content = large_tensors.without_elements(file)
        assert len(content) < 1000
        assert file.count < 100_000 < wide.nbytes


def test_small_constants_are_read(tmp_path: Path) -> None:
    """The values of a constant of 4,096 elements may be asked for, whatever their width."""
    small = numpy_helper.from_array(np.arange(4096, dtype=np.complex128), "small")
    model = product(numpy_helper.from_array(WEIGHT, "w"), small)
    light = open_model(save(model, tmp_path))
    assert light.graph.initializer[1] == small
    assert not light.graph.initializer[0].raw_data


def unfit(**fields: Any) -> TensorProto:
    return TensorProto(name="w", dims=[200, 300], data_type=TensorProto.FLOAT, **fields)


@pytest.mark.parametrize(
    "tensor",
    [
        unfit(raw_data=WEIGHT.tobytes(), float_data=[1.0]),
        unfit(raw_data=WEIGHT.tobytes(), data_location=TensorProto.DEFAULT),
        unfit(int32_data=[1] * 70_000),
    ],
    ids=["two fields", "a location", "numbers of many lengths"],
)
def test_an_unusual_tensor_is_read_as_a_whole(tensor: TensorProto, tmp_path: Path) -> None:
    model = product(tensor)
    assert open_model(save(model, tmp_path)) == model


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "lenet5", "lstm", "transformer_encoder"])
def test_a_damaged_file_is_read_as_protobuf_reads_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tensor is left out here, so that most of the damage is in the way of it."""
    monkeypatch.setattr(large_tensors, "_LARGE", 8)
    content, path = BUILDERS[name]().SerializeToString(), tmp_path / "damaged.onnx"
    left = refused = 0
    for seed in range(150):
        path.write_bytes(damage(content, seed))
        try:
            expected = onnx.load(path, load_external_data=False)
        except DecodeError:
            with pytest.raises(InputError, match="is no ONNX model, or is damaged"):
                open_model(path)
            refused += 1
            continue
        if not expected.HasField("graph") or not expected.opset_import:
            continue
        if find_damage(expected):
            with pytest.raises(InputError, match="is damaged: the"):
                open_model(path)
            continue
        light = open_model(path)
        left += LEFT in external_files(light)
        assert read_whole(light).SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
    assert left > 10
    assert refused > 10


def test_a_path_runs_as_the_model_in_memory_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    light = open_model(save(product(), tmp_path))
    with BACKEND.run(light, ModelInputs(X), RunOptions()) as run:
        np.testing.assert_allclose(run.call(), X @ WEIGHT, rtol=1e-4, atol=1e-4)


def test_weights_beside_the_model_and_inside_run_together(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "beside"], ["y"])]
    model = make_model(nodes, {"x": (F, ["n", 200])}, {"w": WEIGHT})
    (tmp_path / "weights.bin").write_bytes(np.ones(300, F).tobytes())
    beside = TensorProto(name="beside", dims=[300], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    beside.external_data.add(key="location", value="weights.bin")
    model.graph.initializer.append(beside)
    light = open_model(save(model, tmp_path))
    with BACKEND.run(light, ModelInputs(X), RunOptions()) as run:
        np.testing.assert_allclose(run.call(), X @ WEIGHT + 1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"another")], ids=["gone", "changed"])
def test_a_file_that_has_changed_is_counted_and_not_run(change: Callable[[Path], object], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = save(product(), tmp_path)
    light = open_model(path)
    change(path)
    assert profile(light, metrics=["macs"])["macs"] == WEIGHT.size
    with (
        pytest.raises(
            InputError, match=r"model.onnx', where the weights .* are, has changed or is gone since .* opened"
        ),
        BACKEND.run(light, ModelInputs(X), RunOptions()),
    ):
        pass


def test_what_a_loader_returns_has_its_weights(tmp_path: Path) -> None:
    model = product()
    model.metadata_props.add(key="author", value="somebody")
    assert load_model(str(save(model, tmp_path))) == model


def test_a_file_of_another_ending_is_read_as_onnx_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.textproto"
    onnx.save(product(), path)
    assert open_model(path) == product()
