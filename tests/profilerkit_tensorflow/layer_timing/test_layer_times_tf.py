"""The times of Keras' layers. Only orders of magnitude that cannot fail are asserted, and whose the work is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ModelFailedError, ModelInputs, ProfilerBusyError, WithoutValuesError, profile
from profilerkit.times.layer_times import NOT_CALLED, LayerTime, layer_time_table
from profilerkit_metrics import ComputeLayerTimes
from profilerkit_tensorflow import TFProfiler
from profilerkit_tensorflow.backend import TFBackend
from profilerkit_tensorflow.layer_timing.remarks import describe_unrecorded
from profilerkit_tensorflow.layer_timing.timer import layer_times
from profilerkit_tensorflow.operator_timing.profiler_session import NodeTime, PassTimes
from profilerkit_tensorflow.operator_timing.session_passes import TimedPasses

L = keras.layers


@pytest.fixture(autouse=True)
def fresh_names() -> Iterator[None]:
    keras.utils.clear_session(free_memory=False)
    yield


def time_layers(model: Any, *args: Any, passes: int = 2, backward: bool = True) -> dict[str, LayerTime]:
    times = layer_times(model, ModelInputs(*args), passes=passes, backward=backward)
    assert len({time.path for time in times}) == len(times)
    return {time.path: time for time in times}


def total(times: Sequence[LayerTime], index: int) -> float:
    return sum(time.own_forward[index] for time in times)


def two_dense() -> Any:
    return keras.Sequential([keras.Input((512,)), L.Dense(2048, name="wide"), L.Dense(4, name="narrow")], name="model")


def test_the_wide_layer_takes_longer_than_the_narrow_one() -> None:
    times = time_layers(two_dense(), tf.ones([64, 512]), passes=3)
    assert list(times) == ["", "wide", "narrow"]
    assert [time.type for time in times.values()] == ["Sequential", "Dense", "Dense"]
    assert [time.calls for time in times.values()] == [1, 1, 1]
    wide, narrow = times["wide"], times["narrow"]
    assert wide.own_backward is not None and narrow.own_backward is not None
    assert len(wide.own_forward) == len(wide.own_backward) == 3
    assert min(wide.own_forward) > 0 and min(narrow.own_backward) > 0
    # 64 x 512 x 2048 products against 64 x 2048 x 4, in the fastest of the passes.
    assert min(wide.own_forward) > min(narrow.own_forward)
    assert min(wide.own_backward) > min(narrow.own_backward)
    assert [time.missing for time in times.values()] == ["", "", ""]


def test_the_whole_takes_what_its_layers_take() -> None:
    times = list(time_layers(two_dense(), tf.ones([8, 512]), passes=1).values())
    table = layer_time_table(times)
    assert table[""]["forward_seconds"] == pytest.approx(total(times, 0))
    assert table[""]["backward_seconds"] == pytest.approx(sum(row["own_backward_seconds"] for row in table))


def test_without_backward_there_is_no_backward_time() -> None:
    times = time_layers(two_dense(), tf.ones([8, 512]), backward=False)
    assert [time.own_backward for time in times.values()] == [None, None, None]
    assert times["wide"].own_forward[0] > 0


def test_what_is_not_trained_has_no_gradient() -> None:
    model = two_dense()
    model.trainable = False
    assert [time.own_backward for time in time_layers(model, tf.ones([8, 512])).values()] == [(0.0, 0.0)] * 3


def test_a_shared_layer_is_counted_as_often_as_it_is_called() -> None:
    inputs = keras.Input((16,))
    shared = L.Dense(16, name="shared")
    model = keras.Model(inputs, L.Dense(1, name="last")(shared(shared(shared(inputs)))))
    times = time_layers(model, tf.ones([4, 16]))
    assert {path: time.calls for path, time in times.items()} == {"": 1, "shared": 3, "last": 1}


def test_nested_models_are_layers_of_layers() -> None:
    inner = keras.Sequential([keras.Input((256,)), L.Dense(256, name="a"), L.Dense(256, name="b")], name="inner")
    model = keras.Sequential([keras.Input((256,)), inner, L.Dense(1, name="head")])
    times = time_layers(model, tf.ones([32, 256]), passes=1)
    assert list(times) == ["", "inner", "inner.a", "inner.b", "head"]
    table = layer_time_table(list(times.values()))
    inside = table["inner.a"]["forward_seconds"] + table["inner.b"]["forward_seconds"]
    assert table["inner"]["forward_seconds"] == pytest.approx(inside + table["inner"]["own_forward_seconds"])
    assert table["inner"]["own_forward_seconds"] < inside


def test_a_loop_belongs_to_the_recurrent_layer() -> None:
    model = keras.Sequential([keras.Input((30, 8)), L.LSTM(64, name="lstm"), L.Dense(2, name="head")])
    times = time_layers(model, tf.ones([4, 30, 8]), passes=5)
    assert times["lstm"].calls == 1
    for direction in ("own_forward", "own_backward"):
        passes = zip(*(getattr(time, direction) for time in times.values()), strict=True)
        # 30 steps of a cell; what the root does itself is a cast at most. The machine may be busy in any of the passes.
        shares = [dict(zip(times, seconds, strict=True))["lstm"] / sum(seconds) for seconds in passes]
        assert max(shares) > 0.8


class Cell(L.Layer):  # type: ignore[misc,name-defined,unused-ignore]
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state_size = 8
        self.kernel = L.Dense(8)

    def build(self, shape: Any) -> None:
        self.kernel.build(shape)
        self.built = True

    def call(self, x: Any, states: Any) -> Any:
        made = self.kernel(x) + states[0]
        return made, [made]


def test_a_layer_in_a_loop_is_called_in_every_round() -> None:
    model = keras.Sequential([keras.Input((7, 8)), L.RNN(Cell(), name="rnn")])
    times = time_layers(model, tf.ones([2, 7, 8]))
    assert {path: time.calls for path, time in times.items()} == {"": 1, "rnn": 1, "rnn.cell": 7, "rnn.cell.kernel": 7}
    kernel = times["rnn.cell.kernel"]
    assert kernel.own_backward is not None
    assert min(*kernel.own_forward, *kernel.own_backward) > 0, "the gradients of the loop's body are its layers'"


class Branching(tf.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Calls one of two layers, inside a function."""

    def __init__(self) -> None:
        super().__init__(name="branching")
        self.taken, self.left = L.Dense(8), L.Dense(8)
        self.taken.build((None, 8))
        self.left.build((None, 8))

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def chosen(self, x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            return self.taken(x)
        return self.left(x)

    def __call__(self, x: Any) -> Any:
        return self.chosen(self.chosen(x) ** 2.0 + 1.0)


def test_a_layer_in_a_branch_that_is_not_taken_is_not_called() -> None:
    times = time_layers(Branching(), tf.ones([4, 8]))
    assert {path: time.calls for path, time in times.items()} == {"": 1, "taken": 2, "left": 0}
    taken, left = times["taken"], times["left"]
    assert taken.own_backward is not None
    assert min(*taken.own_forward, *taken.own_backward) > 0
    assert (left.own_forward, left.own_backward, left.missing) == ((0.0, 0.0), (0.0, 0.0), NOT_CALLED)


def test_a_layer_that_runs_in_another_ones_kernel_says_so() -> None:
    layers = [L.ZeroPadding2D(1, name="pad"), L.Conv2D(4, 3, name="conv"), L.ReLU(name="relu"), L.Flatten(name="flat")]
    model = keras.Sequential([keras.Input((12, 12, 3)), *layers])
    times = time_layers(model, tf.ones([2, 12, 12, 3]), backward=False)
    assert times["conv"].own_forward[0] > 0
    assert times["conv"].missing == ""
    assert times["flat"].missing == "", "it does nothing"
    if times["relu"].own_forward == (0.0, 0.0):  # whether they are merged is TensorFlow's affair
        assert times["relu"].missing == "its operators run in the kernels of 'conv', which have the time"


def test_a_layer_that_is_computed_beforehand_says_so() -> None:
    class Constant(L.Layer):  # type: ignore[misc,name-defined,unused-ignore]
        def call(self, x: Any) -> Any:
            return tf.exp(tf.sqrt(tf.ones([3])))

    class Model(keras.Model):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.constant, self.dense = Constant(), L.Dense(3)

        def call(self, x: Any) -> Any:
            return self.dense(x) * self.constant(x)

    model = Model()
    model(tf.ones([2, 3]))
    assert time_layers(model, tf.ones([2, 3]), backward=False)["constant"].missing == (
        "none of its operators ran: TensorFlow has merged them or computed them before"
    )


def test_dropout_in_inference_takes_no_time() -> None:
    model = keras.Sequential([keras.Input((8,)), L.Dropout(0.5, name="dropout"), L.Dense(2)])
    dropout = time_layers(model, tf.ones([4, 8]))["dropout"]
    assert (dropout.own_forward, dropout.missing, dropout.calls) == ((0.0, 0.0), "", 1)


def test_a_function_is_one_layer() -> None:
    weights = tf.Variable(tf.ones([64, 64]))
    (time,) = time_layers(tf.function(lambda x: tf.tanh(x @ weights)), tf.ones([8, 64])).values()
    assert (time.path, time.type, time.calls) == ("", "function", 1)
    assert time.own_backward is not None
    assert min(*time.own_forward, *time.own_backward) > 0


def test_what_xla_compiles_is_said_to_be_missing() -> None:
    weights = tf.Variable(tf.ones([8, 8]))
    x = tf.ones([4, 8])
    compiled = tf.function(lambda x: tf.tanh(x @ weights), jit_compile=True).get_concrete_function(x)

    class Part(L.Layer):  # type: ignore[misc,name-defined,unused-ignore]
        def call(self, x: Any) -> Any:
            return compiled(x)

    model = keras.Sequential([keras.Input((8,)), Part(name="part"), L.Dense(4, name="dense")])
    times = time_layers(model, x)
    said = "it calls a function that XLA compiles, whose time is not recorded"
    assert times["part"].missing == f"forward, {said}; backward, {said}"
    assert times["dense"].missing == ""
    (alone,) = time_layers(compiled, x).values()
    notes = set(alone.missing.split("; "))  # on a busy machine the pass is long, and a note on the wall time is added
    assert notes >= {f"forward, {said}", f"backward, {said}"}


@pytest.mark.parametrize(
    ("wall", "busy", "said"),
    [
        (2.0, 0.5, "the operators that the profiler recorded ran in only 25 % of the time"),
        (2.0, 1.5, ""),
        (0.002, 0.0005, ""),  # a short pass is mostly the cost of calling the function
    ],
)
def test_passes_in_which_little_was_seen_are_said(wall: float, busy: float, said: str) -> None:
    passes = [PassTimes(wall, {"node": NodeTime("Mul", busy, 1)})] * 2
    unseen = describe_unrecorded(TimedPasses(passes, {}, set()))
    assert unseen.partition(":")[0] == said


def test_a_saved_model_is_one_layer(tmp_path: Path) -> None:
    two_dense().export(str(tmp_path / "saved"), verbose=False)
    (time,) = time_layers(tf.saved_model.load(str(tmp_path / "saved")), tf.ones([8, 512]), backward=False).values()
    assert (time.path, time.type, time.calls) == ("", "SavedModel", 1)
    assert min(time.own_forward) > 0


def test_outputs_without_gradients_have_no_backward_pass() -> None:
    model = keras.Sequential([keras.Input((4,)), L.Dense(3), L.Lambda(lambda x: tf.argmax(x, -1))])
    times = time_layers(model, tf.ones([2, 4]))
    assert {time.own_backward for time in times.values()} == {None}
    assert times[""].missing == "it has no backward pass: none of its outputs is of a floating-point type"


def test_legacy_keras_models_are_timed() -> None:
    tf_keras = pytest.importorskip("tf_keras")
    layers = [tf_keras.layers.Dense(512, name="wide"), tf_keras.layers.BatchNormalization(name="norm")]
    model = tf_keras.Sequential([tf_keras.layers.Input((256,)), *layers])
    mean = model.get_layer("norm").moving_mean.numpy().copy()
    times = time_layers(model, tf.ones([32, 256]))
    assert list(times) == ["", "wide", "norm"]
    assert min(times["wide"].own_forward) > 0
    np.testing.assert_array_equal(model.get_layer("norm").moving_mean.numpy(), mean)


def test_the_model_comes_back_untouched() -> None:
    model = keras.Sequential([keras.Input((8,)), L.Dense(4), L.BatchNormalization(), L.Dropout(0.5)])
    model.compile("adam", "mse")
    before = [variable.numpy().copy() for variable in model.variables]  # the dropout's seed among them
    attributes, losses = dict(vars(model)), list(model.losses)
    time_layers(model, tf.random.normal([16, 8]))
    for held, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(held, variable.numpy())
    assert vars(model).keys() == attributes.keys()
    assert all(vars(model)[name] is value for name, value in attributes.items())
    assert model.losses == losses
    assert model.predict_function is None and model.optimizer.iterations == 0


def test_an_unbuilt_model_is_refused() -> None:
    with pytest.raises(WithoutValuesError, match="is not built: its weights have no values yet"):
        time_layers(keras.Sequential([L.Dense(2)]), tf.ones([2, 4]))


def test_what_the_model_raises_while_it_runs_is_said() -> None:
    def failing(x: Any) -> Any:
        tf.debugging.assert_less(tf.reduce_sum(x), 0.0, message="too much")
        return tf.identity(x)

    with pytest.raises(ModelFailedError, match="(?s)the model raised InvalidArgumentError.*too much"):
        time_layers(tf.function(failing), tf.ones([2]))
    time_layers(two_dense(), tf.ones([2, 512]), backward=False)  # the session is over


def forward_only(raised: Exception) -> Any:
    """Return a model whose gradient raises."""

    @tf.custom_gradient  # type: ignore[untyped-decorator,unused-ignore]
    def identity(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            raise raised

        return tf.identity(x), gradient

    return keras.Sequential([keras.Input((4,)), L.Dense(2), L.Lambda(identity)])


def test_without_a_backward_pass_there_are_the_times_of_forward_passes() -> None:
    model = forward_only(NotImplementedError("no gradient here"))
    times = time_layers(model, tf.ones([2, 4]))
    assert min(times["dense"].own_forward) > 0
    assert {time.own_backward for time in times.values()} == {None}
    reason = "its backward pass is not timed: a training step raised NotImplementedError: no gradient here"
    assert times[""].missing == reason
    record = profile(model, tf.ones([2, 4]), metrics=["operator_table"], passes=1).status("operator_table")
    assert reason in record.missing
    assert {row["phase"] for row in record.value} == {"forward"}


@pytest.mark.parametrize(
    ("raised", "error", "words"),
    [
        (RuntimeError("OOM when allocating tensor"), ModelFailedError, "step raised .*tensor; use backward=False"),
        (MemoryError("too large"), MemoryError, "^too large$"),  # which may be anybody's
    ],
)
def test_a_step_without_enough_memory_is_an_error(raised: Exception, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        time_layers(forward_only(raised), tf.ones([2, 4]))


def test_a_busy_profiler_is_said(tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(ProfilerBusyError, match="TensorFlow has one session per process.*stop it"):
            time_layers(two_dense(), tf.ones([2, 512]))
    finally:
        tf.profiler.experimental.stop(save=False)


def test_no_passes_are_refused() -> None:
    with pytest.raises(InputError, match="passes=0: at least one pass is needed to time anything"):
        time_layers(two_dense(), tf.ones([2, 512]), passes=0)


def test_it_is_a_metric_like_others() -> None:
    model, x = two_dense(), np.ones([4, 512], "float32")
    table = profile(model, x, metrics=["layer_times"])["layer_times"]
    assert [row["path"] for row in table] == ["", "wide", "narrow"]
    assert table["wide"]["backward_seconds"] > 0
    frame = pytest.importorskip("pandas") and table.to_pandas()
    assert list(frame["path"]) == ["", "wide", "narrow"]
    profiler = TFProfiler(model, inputs=x)
    profiler.register_profiler_function(ComputeLayerTimes(), override=True)
    once = profiler.compute_status("layer_times", passes=1, backward=False)
    assert once["wide"]["forward_seconds"] > 0
    assert once["wide"]["backward_seconds"] is None


def test_the_program_of_a_trace_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_tensorflow.operator_timing import session_passes

    backend, model, inputs = TFBackend(), two_dense(), ModelInputs(tf.ones([4, 512]))
    kept = backend.trace(model, inputs)
    between = backend.trace(tf.function(lambda x: x), inputs)  # which the backend keeps beside it
    monkeypatch.setattr(session_passes, "trace_program", lambda *args, **kwargs: pytest.fail("traced again"))
    times = backend.layer_times(model, inputs, passes=1, backward=False)
    assert [time.path for time in times] == [layer.path for layer in kept.layers]
    assert between.program is not None
