"""Models run on onnxruntime: what a pass returns, levels, threads, devices, external data, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_architectures import BUILDERS, build_mlp
from onnx_graphs import BACKEND, F, make_model

from profilerkit import (
    ArgumentError,
    Device,
    DeviceNotAvailableError,
    InputError,
    ModelFailedError,
    ModelInputs,
    NotOfferedError,
    WithoutValuesError,
    profile,
)
from profilerkit.backend import RunOptions
from profilerkit_onnx import get_accuracy
from profilerkit_onnx.running import devices, sessions
from profilerkit_onnx.running.runs import make_call
from profilerkit_onnx.running.sessions import LEVELS, make_options, make_session

X = np.random.default_rng(1).normal(size=(3, 20)).astype(F)


def ran(model: Any, inputs: ModelInputs, **options: Any) -> Any:
    with BACKEND.run(model, inputs, RunOptions(**options)) as run:
        return run()


def relu(dtype: Any = F, dims: Any = ("n", 4)) -> Any:
    return make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (dtype, list(dims))})


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["mlp", "depthwise_cnn", "dict_in_and_out"])
def test_a_pass_returns_what_the_reference_returns(name: str, level: str) -> None:
    """On every level, by onnx's own reference implementation: one array, or several by their names."""
    model = BUILDERS[name]()
    inputs = BACKEND.example_inputs(model, 2)
    assert inputs is not None
    expected = ReferenceEvaluator(model).run(None, dict(inputs.kwargs))
    outputs = ran(model, inputs, mode=level)
    listed = list(outputs.values()) if isinstance(outputs, dict) else [outputs]
    assert isinstance(outputs, dict) == (name == "dict_in_and_out")
    for one, other in zip(listed, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize(
    "arrange",
    [lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:, ::-1], lambda x: np.broadcast_to(x[:1], (4, 3))],
    ids=["plain", "transposed", "strided", "backwards", "repeated"],
)
def test_a_model_gets_the_numbers_of_its_input(dtype: str, arrange: Callable[[Any], Any]) -> None:
    """However they lie in memory: onnxruntime reads the dtypes that numpy lacks as one row of bytes."""
    values = arrange(np.array([[1, 2, 3], [0, 1, 2], [3, 3, 0]]).astype(getattr(ml_dtypes, dtype, dtype)))
    model = make_model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": values})
    assert np.array_equal(ran(model, ModelInputs(values)), values.astype(F))


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_numbers_that_share_a_byte_are_refused(dtype: str) -> None:
    values = np.ones((2, 3), getattr(ml_dtypes, dtype))
    model = make_model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": values})
    with pytest.raises(NotOfferedError, match=f"the input 'x' is of {dtype}: onnxruntime takes no array"):
        ran(model, ModelInputs(values))


def test_inputs_of_bfloat16_and_tensors_of_torch_are_taken() -> None:
    torch = pytest.importorskip("torch")
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": (ml_dtypes.bfloat16, ["n", 2])}
    )
    values = np.asarray([[1.5, -2.0]], ml_dtypes.bfloat16)
    assert ran(model, ModelInputs(values)).tolist() == [[1.5, -2.0]]
    assert ran(relu(), ModelInputs(torch.tensor([[1.0, -1.0, 2.0, -3.0]]))).tolist() == [[1, 0, 2, 0]]


def make_cast(to: int) -> onnx.ModelProto:
    model = make_model([helper.make_node("Cast", ["x"], ["y"], to=to)], {"x": (np.float32, ["n", 2])})
    model.graph.output[0].type.tensor_type.elem_type = to
    return model


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_outputs_of_a_dtype_that_numpy_lacks_are_read_after_the_pass(dtype: str) -> None:
    """numpy has no bfloat16, and onnxruntime makes no array of it: a timed pass leaves its value as it is."""
    kind = getattr(ml_dtypes, dtype)
    model = make_cast(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    with BACKEND.run(model, ModelInputs(np.array([[1.5, -2.0], [0.0, 3.0]], F))) as run:
        values = run.read_outputs(run())
    assert (values.dtype, values.tolist()) == (kind, [[1.5, -2.0], [0.0, 3.0]])


def test_scores_of_bfloat16_are_evaluated() -> None:
    """The first of two samples is of the class 1, the second too: the model finds the first."""
    batches = [(np.array([[0.0, 1.0], [1.0, 0.0]], F), np.array([1, 1]))]
    assert get_accuracy(make_cast(TensorProto.BFLOAT16), batches) == 50


def make_sequences(inputs: tuple[str, int], output: tuple[str, int], *nodes: onnx.NodeProto) -> onnx.ModelProto:
    """Return a model whose input and output are tensors or sequences ("seq") of dtypes."""
    make = {"seq": helper.make_tensor_sequence_value_info, "tensor": helper.make_tensor_value_info}
    values = [make[form](name, dtype, None) for name, (form, dtype) in (("x", inputs), ("y", output))]
    graph = helper.make_graph(nodes, "sequences", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_sequences_go_in_and_out_beside_dtypes_that_numpy_lacks() -> None:
    one = np.array([[1.0, 2.0]], F)
    split = helper.make_node("SplitToSequence", ["z"], ["y"], axis=0)
    cast = helper.make_node("Cast", ["x"], ["z"], to=TensorProto.FLOAT)
    model = make_sequences(("tensor", TensorProto.BFLOAT16), ("seq", TensorProto.FLOAT), cast, split)
    outputs = ran(model, ModelInputs(np.repeat(one, 2, 0).astype(ml_dtypes.bfloat16)))
    assert [array.tolist() for array in outputs] == [[[1, 2]], [[1, 2]]]
    join = helper.make_node("ConcatFromSequence", ["x"], ["z"], axis=0)
    narrow = helper.make_node("Cast", ["z"], ["y"], to=TensorProto.BFLOAT16)
    model = make_sequences(("seq", TensorProto.FLOAT), ("tensor", TensorProto.BFLOAT16), join, narrow)
    with pytest.raises(NotOfferedError, match="'x' is a sequence or texts, .* cast the outputs of the model"):
        ran(model, ModelInputs(x=[one, one]))
    with pytest.raises(NotOfferedError, match="'x' is a sequence or texts, .* only on the CPU; run the model there"):
        make_call(make_session(relu(), make_options("all"), "cpu"), {"x": [one]}, "cuda", None)


def test_a_single_number_is_an_input() -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (np.float32, [])})
    assert ran(model, ModelInputs(np.float32(3))) == -3


def test_the_first_call_makes_the_session() -> None:
    report = profile(build_mlp(), ModelInputs(X), metrics=["first_call_time", "execution_time"], num_iters=3)
    assert report["first_call_time"] > report["execution_time"].median > 0


def test_threads_and_levels_are_those_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each session and not of the process; without num_threads the runtime takes what it likes."""
    made = []
    session_of = sessions.make_session

    def noted(model: Any, options: Any, *further: Any) -> Any:
        made.append(session_of(model, options, *further))
        return made[-1]

    monkeypatch.setattr("profilerkit_onnx.running.runs.make_session", noted)
    for options in ({"num_threads": 2}, {"mode": "basic", "num_threads": 1}, {"mode": "none"}, {}):
        ran(build_mlp(), ModelInputs(X), **options)
    seen = [
        (item.get_session_options().intra_op_num_threads, item.get_session_options().graph_optimization_level.name)
        for item in made
    ]
    assert seen == [(2, "ORT_ENABLE_ALL"), (1, "ORT_ENABLE_BASIC"), (0, "ORT_DISABLE_ALL"), (0, "ORT_ENABLE_ALL")]


def test_a_report_says_on_how_many_threads_it_ran() -> None:
    report = profile(build_mlp(), ModelInputs(X), metrics=["execution_time"], num_iters=2, num_threads=1)
    assert "on 1 thread" in report.status("execution_time").note


def test_an_unknown_level_is_an_error_with_the_names_of_all() -> None:
    with pytest.raises(ArgumentError, match="the onnx backend has no such mode; its modes are: 'all', "):
        ran(build_mlp(), ModelInputs(X), mode="most")


def test_training_is_not_offered() -> None:
    with pytest.raises(NotOfferedError, match="the onnx backend offers no training=True"):
        ran(build_mlp(), ModelInputs(X), training=True)


def test_a_function_given_as_call_is_refused() -> None:
    with pytest.raises(InputError, match="only the model's own call can be followed here; leave it out"):
        ran(build_mlp(), ModelInputs(X).given_to(lambda model, x: x))


# Devices ----------------------------------------------------------------------------------------------------------


def test_devices_are_the_providers_of_the_runtime() -> None:
    for device in (None, Device.CPU, "cpu", "CPU", "CPUExecutionProvider", "cpu:0"):
        assert BACKEND.resolve_device(build_mlp(), device) == "cpu"
    with pytest.raises(DeviceNotAvailableError, match="'tpu' is not there; the installed onnxruntime runs on: cpu"):
        BACKEND.resolve_device(build_mlp(), "tpu")
    with pytest.raises(DeviceNotAvailableError, match="device 'azure' is not there"):  # another machine's
        BACKEND.resolve_device(build_mlp(), "azure")


def test_a_gpu_that_is_not_there_is_said_with_what_to_install() -> None:
    if "cuda" in devices.providers_here():
        pytest.skip("there is one")
    with pytest.raises(DeviceNotAvailableError, match=r"Device\.GPU was requested, .* install onnxruntime-gpu"):
        ran(build_mlp(), ModelInputs(X), device=Device.GPU)


def test_a_gpu_that_is_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
    monkeypatch.setattr(devices, "providers_here", lambda: here)
    names = [devices.resolve_device(item) for item in (Device.GPU, "cuda", "cuda:1", "CUDAExecutionProvider")]
    assert names == ["cuda", "cuda", "cuda:1", "cuda"]
    assert devices.choose_providers("cuda:1") == [("CUDAExecutionProvider", {"device_id": "1"}), "CPUExecutionProvider"]
    assert devices.choose_providers("cuda") == ["CUDAExecutionProvider", "CPUExecutionProvider"]


def test_on_a_gpu_inputs_and_outputs_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pass copies the inputs; each waits for the outputs. The session is one that notes what it is told."""
    told: list[Any] = []

    class Output:
        name = "y"

    class Binding:
        def bind_ortvalue_input(self, name: str, value: Any) -> None:
            told.append(("input", name, value))

        def bind_output(self, name: str, device: str, index: int) -> None:
            told.append(("output", name, device, index))

        def clear_binding_outputs(self) -> None:
            told.append("frees")

        def synchronize_outputs(self) -> None:
            told.append("waits")

        def get_outputs(self) -> list[str]:
            return ["made"]

    class Session:
        def get_outputs(self) -> list[type[Output]]:
            return [Output]

        def io_binding(self) -> Binding:
            return Binding()

        def run_with_iobinding(self, binding: Binding) -> None:
            told.append("runs")

    monkeypatch.setattr("profilerkit_onnx.running.runs._make_value", lambda array, *place: place)
    call = make_call(Session(), {"x": X}, "cuda:1", None)
    assert [call(), call()] == ["made", "made"]
    a_pass = ["frees", ("output", "y", "cuda", 1), "runs", "waits"]
    assert told == [("input", "x", ("cuda", 1)), *a_pass, *a_pass]


# What is refused --------------------------------------------------------------------------------------------------


def test_an_operator_that_the_runtime_lacks_is_named() -> None:
    model = make_model([helper.make_node("Unheard", ["x"], ["y"], domain="com.example")], {"x": (F, ["n", 4])})
    with pytest.raises(ModelFailedError, match=r"Unheard.*does onnxruntime know its operators\?"):
        ran(model, ModelInputs(np.ones((2, 4), F)))


def test_a_pass_that_fails_is_the_model_s_error() -> None:
    """Shapes that fit the declaration, and not one another."""
    model = make_model([helper.make_node("Add", ["x", "z"], ["y"])], {"x": (F, ["a", 4]), "z": (F, ["b", 4])})
    with pytest.raises(ModelFailedError, match="the model raised"):
        ran(model, ModelInputs(np.ones((2, 4), F), np.ones((3, 4), F)))


class TooLarge:
    """A stand-in for a model of more than 2 GB: protobuf writes no such message."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def SerializeToString(self) -> bytes:
        raise EncodeError("Failed to serialize proto")


def test_a_model_that_protobuf_cannot_write_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "read_whole", TooLarge)
    with pytest.raises(NotOfferedError, match="more than the 2 GB .* save it with external data, and give its path"):
        ran(build_mlp(), ModelInputs(X))


def test_without_the_runtime_models_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert not BACKEND.runs_models
    assert "onnxruntime" not in BACKEND.environment()
    report = profile(build_mlp(), ModelInputs(X), metrics=["macs", "execution_time"])
    assert report["macs"] > 0
    assert "pip install onnxruntime" in " ".join(report.status("execution_time").missing)


def test_the_environment_names_the_runtime() -> None:
    import onnxruntime

    environment = BACKEND.environment()
    assert environment["onnxruntime"] == onnxruntime.__version__
    assert "cpu" in environment["providers"]


# External data ----------------------------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model whose weights lie in a file beside it."""
    path = tmp_path / "model" / "mlp.onnx"
    path.parent.mkdir()
    onnx.save(build_mlp(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_weights_beside_the_model_are_read_to_run_it(outside: Path) -> None:
    model = BACKEND.open_model(str(outside))
    np.testing.assert_allclose(ran(model, ModelInputs(X)), ran(build_mlp(), ModelInputs(X)), rtol=1e-5)
    assert profile(outside, ModelInputs(X), metrics=["execution_time"], num_iters=2)["execution_time"].median > 0


def test_without_their_file_a_model_is_counted_and_not_run(outside: Path) -> None:
    (outside.parent / "weights.bin").unlink()
    with pytest.raises(WithoutValuesError, match=r"'weights.bin' with the weights .* is missing in its folder"):
        ran(BACKEND.open_model(outside), ModelInputs(X))


def test_a_model_in_memory_does_not_say_where_its_weights_are(outside: Path) -> None:
    model = onnx.load(outside, load_external_data=False)
    with pytest.raises(WithoutValuesError, match=r"in another file, 'weights.bin', and where that lies is not known"):
        ran(model, ModelInputs(X))


@pytest.mark.parametrize("location", ["../secret.bin", "{folder}/secret.bin"])
def test_nothing_outside_of_the_folder_of_the_model_is_read(location: str, outside: Path) -> None:
    secret = outside.parent.parent / "secret.bin"
    secret.write_bytes((outside.parent / "weights.bin").read_bytes())
    model = onnx.load(outside, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location.format(folder=secret.parent)
    outside.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="outside of its own folder, from where nothing is read"):
        ran(BACKEND.open_model(outside), ModelInputs(X))


def test_a_link_out_of_the_folder_is_no_way_around(outside: Path) -> None:
    weights = outside.parent / "weights.bin"
    weights.rename(outside.parent.parent / "secret.bin")
    try:
        weights.symlink_to(outside.parent.parent / "secret.bin")
    except OSError:
        pytest.skip("this system makes no links")
    with pytest.raises(InputError, match="outside of its own folder"):
        ran(BACKEND.open_model(outside), ModelInputs(X))
