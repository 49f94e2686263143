"""The operators of Keras models under TensorFlow's profiler: whose they are and what they work; no time is asserted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from profilerkit import ModelInputs, ProfilerBusyError, profile
from profilerkit.times.operator_times import OperatorTimeTable
from profilerkit_tensorflow.compat import profiler
from profilerkit_tensorflow.operator_timing import session_passes
from profilerkit_tensorflow.operator_timing.passes import measure_operator_times

L = keras.layers


@pytest.fixture(autouse=True)
def fresh_names() -> Iterator[None]:
    keras.utils.clear_session(free_memory=False)
    yield


def network() -> Any:
    layers = [L.Conv2D(8, 3, activation="relu", name="conv"), L.Flatten(name="flat"), L.Dense(10, name="dense")]
    return keras.Sequential([keras.Input((8, 8, 3)), *layers])


def make_table(model: Any, x: Any, **options: Any) -> OperatorTimeTable:
    report = profile(model, x, metrics=["operator_table"], **{"passes": 2, "backward": False, **options})
    found = report["operator_table"]
    assert isinstance(found, OperatorTimeTable), report.statuses["operator_table"].missing
    return found


def test_fused_kernels_have_the_work_of_all_their_operators() -> None:
    found = make_table(network(), tf.ones([4, 8, 8, 3]))
    rows = {(row["operator"], row["layer"]): row for row in found}
    convolution, outputs = 4 * 8 * 36 * 27, 4 * 8 * 36
    linear = 4 * 10 * 8 * 36
    assert rows["Conv2D", "conv"]["macs"] == convolution
    assert rows["Conv2D", "conv"]["flops"] == 2 * convolution + 2 * outputs  # a bias and a ReLU
    assert (rows["MatMul", "dense"]["macs"], rows["MatMul", "dense"]["flops"]) == (linear, 2 * linear + 40)
    assert {row["missing"] for row in found} == {""}
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert {row["layer"]: row["macs"] for row in found.by("layer")} == {"conv": convolution, "dense": linear}


def test_gradients_are_operators_of_their_layers() -> None:
    found = make_table(network(), tf.ones([4, 8, 8, 3]), backward=True)
    backward = {(row["operator"], row["layer"]): row for row in found if row["phase"] == "backward"}
    assert {("Conv2DBackpropFilter", "conv"), ("MatMul", "dense")} <= backward.keys()
    assert backward["MatMul", "dense"]["calls"] == 2
    for row in backward.values():
        assert row["macs"] is not None or row["missing"]


def test_a_layer_that_is_counted_as_a_whole_says_so() -> None:
    model = keras.Sequential([keras.Input((8,)), L.BatchNormalization(name="norm")])
    found = make_table(model, tf.ones([4, 8]))
    said = {row["missing"] for row in found if row["layer"] == "norm"}
    assert said == {"counted with the whole of layer 'norm', by the formula of BatchNormalization"}
    assert next(row["flops"] for row in found.by("layer") if row["layer"] == "norm") == 2 * 4 * 8


def test_more_passes_than_a_session_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_passes, "MAX_PASSES", 2)
    times = measure_operator_times(network(), ModelInputs(tf.ones([1, 8, 8, 3])), passes=5, backward=False)
    assert {len(row.seconds) for row in times.operators} == {5}
    assert len(times.whole["forward"]) == 5
    assert all(whole >= 0 for whole in times.whole["forward"])


def test_the_profile_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "profile.xplane.pb"
    make_table(network(), tf.ones([1, 8, 8, 3]), export=path)
    space = profiler.make_xspace()
    space.ParseFromString(path.read_bytes())
    names = {metadata.name for plane in space.planes for metadata in plane.event_metadata.values()}
    assert any(name.endswith("Conv2D") for name in names)


def test_nothing_to_differentiate_is_said() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Lambda(lambda x: tf.argmax(x, -1))])
    times = measure_operator_times(model, ModelInputs(tf.ones([2, 4])), passes=1)
    assert times.notes == ("it has no backward pass: none of its outputs is of a floating-point type",)
    assert set(times.whole) == {"forward"}


def test_a_running_session_is_left_alone(tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(ProfilerBusyError, match="one session per process"):
            measure_operator_times(network(), ModelInputs(tf.ones([1, 8, 8, 3])), passes=1)
    finally:
        tf.profiler.experimental.stop(save=False)


@pytest.mark.parametrize("runs", [True, False])
def test_a_session_is_told_by_a_flag_too(runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow 2.18 has no function that says whether one runs."""
    monkeypatch.setattr(vars(profiler)["_TRACE"], "enabled", runs)
    assert profiler.is_session_running() is runs
    monkeypatch.setattr(vars(profiler)["_TRACE"], "enabled", lambda: runs)
    assert profiler.is_session_running() is runs
