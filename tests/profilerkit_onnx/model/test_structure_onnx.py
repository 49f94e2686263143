"""A ``ModelProto`` that is changed in place is profiled anew, and one whose weights change in their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import InputError, Profiler, WithoutValuesError
from profilerkit_metrics import ComputeFlops

X = np.ones((1, 3, 8, 8), F)


def made() -> ModelProto:
    """Return a convolution of 3 by 3 from three channels to two hundred, and a ReLU: 8 * 8 * 200 * 27 MACs."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1], strides=[1, 1]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    return make_model(nodes, {"x": X}, {"w": np.ones((200, 3, 3, 3), F)})


def stride(model: ModelProto) -> None:
    next(attribute for attribute in model.graph.node[0].attribute if attribute.name == "strides").ints[:] = [2, 2]


def operator(model: ModelProto) -> None:
    model.graph.node[1].op_type = "Softmax"


def weight(model: ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((100, 3, 3, 3), F), "w"))


def values(model: ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((200, 3, 3, 3), F), "w"))


def test_a_changed_stride_is_counted_anew() -> None:
    model = made()
    profiler = Profiler(model, inputs=X)
    profiler.register_profiler_function(ComputeFlops())
    assert profiler.compute_status("macs") == 8 * 8 * 200 * 27
    stride(model)
    assert profiler.compute_status("macs") == 4 * 4 * 200 * 27


@pytest.mark.parametrize("change", [stride, operator, weight])
def test_the_fingerprint_changes_with_the_graph(change: Callable[[ModelProto], None]) -> None:
    model = made()
    before = [BACKEND.fingerprint(model, values=item) for item in (True, False)]
    assert before == [BACKEND.fingerprint(model, values=item) for item in (True, False)]
    change(model)
    after = [BACKEND.fingerprint(model, values=item) for item in (True, False)]
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_new_values_of_large_weights_are_no_other_structure() -> None:
    model = made()
    before = [BACKEND.fingerprint(model, values=item) for item in (True, False)]
    values(model)
    assert BACKEND.fingerprint(model) != before[0]
    assert BACKEND.fingerprint(model, values=False) == before[1]


def test_new_values_of_a_small_constant_are_another_structure() -> None:
    """Shapes follow from small constants."""
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = make_model([node], {"x": X}, {"shape": np.asarray([3, 64])})
    before = BACKEND.fingerprint(model, values=False)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.asarray([64, 3]), "shape"))
    assert BACKEND.fingerprint(model, values=False) != before


def zeros(size: int) -> ModelProto:
    """Return a product with 256 x 256 weights, of which so many columns are zero."""
    weights = np.ones((256, 256), F)
    weights[:, :size] = 0
    return make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": np.ones((1, 256), F)}, {"w": weights})


def make_profiler(path: Path) -> Profiler:
    return Profiler(str(path)).register_defaults()


def save_apart(model: ModelProto, path: Path) -> None:
    """Save a model with its weights in a file beside it; onnx appends to one that is there."""
    (path.parent / "weights.bin").unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


def test_weights_in_a_file_beside_the_model_are_read_again_once_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save_apart(zeros(64), path)
    profiler = make_profiler(path)
    assert profiler.compute_status("sparsity") == 1 / 4
    save_apart(zeros(128), path)
    assert profiler.compute_status("sparsity") == 1 / 2
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(WithoutValuesError, match=r"'weights.bin' with the weights of the model is missing"):
        BACKEND.zero_weights(profiler.model)
    assert profiler.compute_status("sparsity") is None


def test_weights_that_were_left_in_the_file_of_the_model_are_not_those_of_a_later_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(zeros(64), path)
    profiler = make_profiler(path)
    assert profiler.compute_status("sparsity") == 1 / 4
    model = profiler.model
    onnx.save(zeros(128), path)
    with pytest.raises(InputError, match="has changed or is gone since the model was opened; give the path again"):
        BACKEND.zero_weights(model)
    assert profiler.compute_status("sparsity") == 1 / 2


def test_a_file_that_stays_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save_apart(zeros(64), path)
    model = BACKEND.open_model(str(path))
    assert BACKEND.fingerprint(model) == BACKEND.fingerprint(BACKEND.open_model(str(path)))
    model.graph.initializer[0].external_data[0].value = "no\0name"
    assert BACKEND.fingerprint(model)
