"""`KerasWatch` with Keras 3 and ``tf_keras``; what it measures where training is evaluated, and broken off."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit.callbacks.keras import KerasWatch

np = pytest.importorskip("numpy")


def model(keras: Any) -> Any:
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    net.compile(optimizer="adam", loss="mse")
    return net


X, Y = np.ones((12, 4), "float32"), np.ones((12, 2), "float32")


def fit(net: Any, *callbacks: Any) -> None:
    net.fit(X, Y, batch_size=4, epochs=2, validation_data=(X, Y), verbose=0, callbacks=list(callbacks))


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_chosen_steps_of_fit(package: str) -> None:
    watched = KerasWatch(at_step=(1, 3), inputs=X[:4])
    fit(model(pytest.importorskip(package)), watched)
    assert (sorted(watched.watched.steps.steps), watched.watched.steps.loop_steps) == ([1, 3], 6)
    report = watched.report()
    assert len(report["step_time"].samples) == 2 and min(report["step_time"].samples) > 0
    assert report.statuses["forward_time"].missing[0].startswith("TensorFlow runs a step as one compiled function")
    assert (report["macs"], report.batch_size) == (4 * (4 * 3 + 3 * 2), 4)
    assert "step_memory" in report and report.statuses["training_memory"].value > 0


def test_what_fit_raises_goes_on() -> None:
    keras = pytest.importorskip("keras")

    class Stops(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise KeyError("stopped")

    net, watched = model(keras), KerasWatch(at_step=(0, 1))
    with pytest.raises(KeyError, match="stopped"):
        fit(net, watched, Stops())
    watched.close()
    fit(net, watched)  # and it can be used again
    assert sorted(watched.watched.steps.steps) == [0, 1]


def test_an_unwatched_callback_has_no_report() -> None:
    with pytest.raises(RuntimeError, match="no training was watched yet"):
        KerasWatch().report()
    with pytest.raises(Exception, match="at_step='x'"):
        KerasWatch(at_step="x")
