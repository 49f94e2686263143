"""Profiles of onnxruntime by the layers of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnxruntime
from onnx import ModelProto, helper
from onnx_graphs import make_model

import profilerkit
from profilerkit import NotOfferedError, ProfileFileError
from profilerkit_onnx.backend import OnnxBackend

X = np.ones((3, 4), np.float32)


def network(names: tuple[str, str] = ("first", "second"), operator: str = "Relu") -> ModelProto:
    """Return a product, an activation and a product: 3 * 4 * 8 = 96 and 3 * 8 * 2 = 48 MACs."""
    weights = {"a": np.ones((4, 8), np.float32), "b": np.ones((8, 2), np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], name=names[0]),
        helper.make_node(operator, ["h"], ["i"]),
        helper.make_node("MatMul", ["i", "b"], ["y"], name=names[1]),
    ]
    return make_model(nodes, {"x": X}, weights)


def profile_session(model: ModelProto, folder: Path, level: str, passes: int = 3) -> str:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for _ in range(passes):
        session.run(None, {"x": X})
    return str(session.end_profiling())


def event(name: str, start: float, duration: float, category: str = "Node", **args: Any) -> dict[str, Any]:
    return {"cat": category, "ph": "X", "pid": 1, "tid": 1, "name": name, "ts": start, "dur": duration, "args": args}


def written(folder: Path, events: list[dict[str, Any]]) -> Path:
    file = folder / "written.json"
    file.write_text(json.dumps(events))
    return file


@pytest.mark.parametrize("level", ["ORT_ENABLE_ALL", "ORT_DISABLE_ALL"])
def test_a_profile_of_this_machine(tmp_path: Path, level: str) -> None:
    joined = profilerkit.join(profile_session(network(), tmp_path, level), network(), skip=1)
    assert joined.profiler == "onnxruntime"
    assert joined.unattributed_share == 0
    assert joined.layers[""]["macs"] == joined.trace.macs == 144
    assert sum(row["own_macs"] for row in joined.layers) == 144
    assert len(joined.recording.passes) == 2
    assert joined.layers[""]["seconds"] > 0


def test_times_that_were_written_by_hand(tmp_path: Path) -> None:
    events = []
    for begin in (0, 100):
        events += [
            event("first_kernel_time", begin + 10, 20, op_name="MatMul", provider="CPUExecutionProvider"),
            event("Relu_1_kernel_time", begin + 30, 5, op_name="Relu", provider="CPUExecutionProvider"),
            event("second_kernel_time", begin + 40, 10, op_name="MatMul", provider="CPUExecutionProvider"),
            event("stranger_kernel_time", begin + 52, 3, op_name="Cast", provider="CPUExecutionProvider"),
            event("model_run", begin, 60, "Session"),
        ]
    joined = profilerkit.join(written(tmp_path, events), network())
    assert joined.seconds == pytest.approx(38e-6)
    assert joined.layers[""]["seconds"] == pytest.approx(35e-6)
    assert [(row["kernel"], row["around"]) for row in joined.unattributed] == [("Cast", "stranger")]
    assert joined.unattributed_seconds == pytest.approx(3e-6)
    assert joined.recording.between == pytest.approx(22e-6)  # of 60


@pytest.mark.parametrize(
    ("providers", "device", "is_named"),
    [(("CPU", "CPU"), "CPU", False), (("CUDA", "CPU"), "CPU, CUDA", True), ((), "", False)],
)
def test_the_recording_names_the_providers(
    providers: tuple[str, ...], device: str, is_named: bool, tmp_path: Path
) -> None:
    names = [{"provider": f"{name}ExecutionProvider"} for name in providers] or [{}, {}]
    events = [
        event("first_kernel_time", 10, 20, op_name="MatMul", **names[0]),
        event("second_kernel_time", 40, 10, op_name="MatMul", **names[1]),
        event("model_run", 0, 60, "Session"),
    ]
    joined = profilerkit.join(written(tmp_path, events), network())
    assert (joined.recording.device, joined.recording.on_device) == (device, is_named)
    assert f"Kernels ran on {device or 'the host'};" in str(joined)
    # A device that no file describes is said; a host has no description.
    assert any(f"no device '{device}'" in note for note in joined.notes) == is_named


def test_what_is_refused(tmp_path: Path) -> None:
    whole = event("model_run", 0, 60, "Session")
    with pytest.raises(ProfileFileError, match="has 1 passes, and no operator in them"):
        profilerkit.join(written(tmp_path, [whole]), network())
    stranger = event("other_kernel_time", 1, 5, op_name="Conv")
    with pytest.raises(ProfileFileError, match="another model: the nodes that both have take 0 % .* has other"):
        profilerkit.join(written(tmp_path, [stranger, whole]), network())
    first = event("first_kernel_time", 1, 5, op_name="MatMul")
    with pytest.raises(ProfileFileError, match="skip=1: the profile has 1 passes"):
        profilerkit.join(written(tmp_path, [first, whole]), network(), skip=1)
    file = tmp_path / "torch.json"
    file.write_text('{"traceEvents": [{"cat": "cpu_op", "name": "aten::mm", "ph": "X", "ts": 1, "dur": 1}]}')
    with pytest.raises(ProfileFileError, match=r"is a profile of torch\.profiler, and the model is one of ONNX"):
        profilerkit.join(file, network())


def test_events_without_times_are_left_out(tmp_path: Path) -> None:
    odd = {**event("first_kernel_time", 1, 5), "args": None}
    late = {**event("first_kernel_time", 1, 5), "dur": "long"}
    events = [odd, late, event("first_kernel_time", 1, 5, op_name="MatMul"), event("model_run", 0, 9, "Session")]
    assert profilerkit.join(written(tmp_path, events), network()).seconds == pytest.approx(5e-6)


def test_there_is_no_script_for_it() -> None:
    with pytest.raises(NotOfferedError, match="enable_profiling = True"):
        OnnxBackend().profile_script()
