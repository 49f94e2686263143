"""Work that TensorFlow does not see is never counted as complete: values that leave it, threads, and generators."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from time_limits import join

from profilerkit import Report, profile

#: The dense layer: two samples of eight features, eight outputs.
DENSE = 2 * 8 * 8
X = tf.ones((2, 8))
W = np.ones((8, 16), np.float32)
POOL = ThreadPoolExecutor(1)


class Model(keras.Model):  # type: ignore[misc]
    """A dense layer, and any function of its outputs, whose product with W has 2 * 8 * 16 MACs."""

    def __init__(self, after: Callable[[Any], Any]) -> None:
        super().__init__()
        self.dense, self.after = keras.layers.Dense(8), after

    def call(self, x: Any) -> Any:
        return self.after(self.dense(x))


def run_in_thread(work: Callable[[Any], Any], z: Any) -> Any:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(work(z)))
    thread.start()
    join(thread)
    return made[0]


def ensemble(z: Any) -> Any:
    return tf.add_n(list(POOL.map(lambda part: tf.matmul(part, W), [z, z])))


def product(z: Any) -> Any:
    return z @ W


def from_list(z: Any) -> Any:
    return tf.constant(np.asarray(z.numpy().tolist(), np.float32) @ W)


def from_integers(z: Any) -> Any:
    """A product of six integers, fewer than the paddings that TensorFlow reads for itself may be."""
    numbers = tf.cast(z[:, :3], tf.int32).numpy()
    return tf.constant((numbers @ numbers.T).astype(np.float32))


ESCAPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "numpy()": (lambda z: tf.constant(z.numpy() @ W), "values that leave TensorFlow"),
    "numpy() as the result": (lambda z: z.numpy() @ W, "values that leave TensorFlow"),
    "a few integers": (from_integers, "values that leave TensorFlow"),
    "asarray": (lambda z: tf.constant(np.asarray(z) @ W), "TensorFlow did not compute"),
    "asarray, then an operator": (lambda z: tf.tanh(np.asarray(z) @ W), "TensorFlow did not compute"),
    "a function of numpy's": (lambda z: tf.constant(np.tanh(z) @ W), "TensorFlow did not compute"),
    "memoryview": (lambda z: tf.constant(np.array(memoryview(z)) @ W), "TensorFlow did not compute"),
    "dlpack": (lambda z: tf.constant(np.from_dlpack(z) @ W), "values that leave TensorFlow"),
    "a capsule": (lambda z: (tf.experimental.dlpack.to_dlpack(z), z.numpy())[1], "values that leave TensorFlow"),
    "a list": (from_list, "values that leave TensorFlow"),
    "static value": (lambda z: tf.constant(tf.get_static_value(z) @ W), "values that leave TensorFlow"),
    "py_function": (lambda z: tf.py_function(product, [z], tf.float32), "PyFunc"),
    "numpy_function": (lambda z: tf.numpy_function(product, [z], tf.float32), "PyFunc"),
    # Its shape is not known, so that the rest is counted in an eager run, which shows no such operator.
    "numpy_function in a sum": (lambda z: z * tf.reduce_sum(tf.numpy_function(product, [z], tf.float32)), "PyFunc"),
    "a thread": (lambda z: run_in_thread(product, z), "MatMul in another thread"),
    "a pool": (lambda z: POOL.submit(product, z).result(), "MatMul in another thread"),
    "an ensemble in a pool": (ensemble, "MatMul in another thread"),
}


def count_work(after: Callable[[Any], Any], is_built: bool = True, **options: Any) -> Report:
    model = Model(after)
    if is_built:
        model(tf.ones((2, 8)))
    return profile(model, X, metrics=["macs", "flops"], **options)


@pytest.fixture(scope="module", autouse=True)
def pool_of_before() -> None:
    """Start the thread of the pool, so that the model finds it."""
    POOL.submit(int).result()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a thread cannot read a graph
@pytest.mark.parametrize("is_built", [True, False])
@pytest.mark.parametrize("name", ESCAPES)
def test_work_outside_makes_a_lower_bound_that_says_where(name: str, is_built: bool) -> None:
    if name == "dlpack" and not hasattr(tf.constant(0), "__dlpack__"):
        pytest.skip("tensors of TensorFlow 2.18 have no such method")
    after, words = ESCAPES[name]
    report = count_work(after, is_built)
    for metric, least in (("macs", DENSE), ("flops", 2 * DENSE)):
        status = report.status(metric)
        assert status.completeness.value == "partial"
        assert status.value is not None and status.value >= least
        assert words in " ".join(status.missing)


def test_the_line_is_named() -> None:
    [missing] = count_work(lambda z: tf.constant(z.numpy() @ W)).status("macs").missing
    assert "work on values that leave TensorFlow (test_departures_tf.py, line " in missing


SILENT: dict[str, Callable[[Any], Any]] = {
    "a condition on a number": lambda z: z * 2.0 if float(tf.reduce_sum(z)) > 1e9 else z,
    "sizes": lambda z: tf.reshape(z, tf.shape(z).numpy()),
    "a printed number": lambda z: (f"{tf.reduce_sum(z).numpy():.1f}", z)[1],
}


@pytest.mark.parametrize("name", SILENT)
def test_reading_a_number_a_size_or_a_text_leaves_a_count_complete(name: str) -> None:
    report = count_work(SILENT[name])
    assert (report["macs"], report.status("macs").completeness.value) == (DENSE, "complete")


DILATED: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "a sequence": (keras.layers.Conv1D(6, 3, dilation_rate=2, padding="causal"), (9, 4), 9 * 6 * 12),
    "a picture": (keras.layers.Conv2D(6, 3, dilation_rate=(2, 3)), (9, 11, 4), 5 * 5 * 6 * 36),
    "a volume": (keras.layers.Conv3D(2, 2, dilation_rate=2), (5, 6, 7, 3), 3 * 4 * 5 * 2 * 24),
}


@pytest.mark.parametrize("name", DILATED)
def test_paddings_that_tensorflow_reads_leave_a_count_complete(name: str) -> None:
    layer, shape, macs = DILATED[name]
    layer.build((None, *shape))

    def model(x: Any) -> Any:
        float(tf.reduce_sum(x).numpy())  # so that it is run eagerly
        return layer(x)

    status = profile(model, tf.ones((1, *shape)), metrics="macs", backend="tensorflow").status("macs")
    assert (status.value, status.completeness.value, status.missing) == (macs, "complete", ())


@pytest.mark.parametrize(
    ("dtype", "is_work"),
    [
        ("M8[D]", False),
        ("m8[s]", False),
        ("U3", False),
        ([("a", "f4"), ("b", "i4")], True),
        (np.longdouble, True),
        ("V4", True),
    ],
)
def test_a_result_of_a_dtype_that_is_numpys_alone_is_no_failure(dtype: Any, is_work: bool) -> None:
    """A model that prints a number, so that it is run eagerly; dates and texts are no work, as the result of numpy."""
    made = np.zeros((3, 2), dtype)

    def model(x: Any) -> Any:
        float(tf.reduce_sum(x).numpy())
        return tf.matmul(x, tf.ones((8, 4))), made

    status = profile(model, X, metrics="macs", backend="tensorflow").status("macs")
    assert status.value == 2 * 8 * 4
    assert status.completeness.value == ("partial" if is_work else "complete")
    assert ("a result of the model that TensorFlow did not compute" in " ".join(status.missing)) is is_work


class Picture:
    """A result that numpy reads, as the images of Pillow: it has no dtype and no shape."""

    def __init__(self, content: Any) -> None:
        self.__array_interface__ = content.__array_interface__


def test_a_result_that_only_numpy_reads_is_no_failure() -> None:
    def model(x: Any) -> Any:
        float(tf.reduce_sum(x).numpy())
        return tf.matmul(x, tf.ones((8, 4))), Picture(W)

    status = profile(model, X, metrics="macs", backend="tensorflow").status("macs")
    assert (status.value, status.completeness.value) == (2 * 8 * 4, "partial")
    assert "a result of the model that TensorFlow did not compute" in " ".join(status.missing)


def generator(x: Any) -> Any:
    yield x @ W


async def coroutine(x: Any) -> Any:
    return x @ W


@pytest.mark.parametrize("function", [generator, coroutine, lambda x: map(product, [x]), lambda x: {"y": generator(x)}])
def test_what_has_not_done_its_work_is_refused(function: Callable[[Any], Any]) -> None:
    report = profile(function, X, metrics="macs", backend="tensorflow")
    status = report.status("macs")
    assert status.completeness.value == "failed"
    assert "its work is done only when that is read; give a function that does it: call=" in str(status)


def test_a_generator_is_counted_by_a_function_that_reads_it() -> None:
    report = profile(generator, X, metrics="macs", backend="tensorflow", call=lambda model, x: list(model(x)))
    assert (report["macs"], report.status("macs").completeness.value) == (2 * 8 * 16, "complete")


@pytest.mark.parametrize(("name", "value"), [("EAGER_TENSOR", None), ("EXECUTORS", ())])
def test_without_the_private_names_an_eager_run_is_a_lower_bound(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("compat.eager_runs", "trace.departures"):
        monkeypatch.setattr(f"profilerkit_tensorflow.{module}.{name}", value)
    status = count_work(SILENT["a condition on a number"]).status("macs")
    assert (status.value, status.completeness.value) == (DENSE, "partial")
    assert "which this release does not show" in " ".join(status.missing)
