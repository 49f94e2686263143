"""`watch` for TensorFlow: whole steps of a loop of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from profilerkit import InputError
from profilerkit_tensorflow import watch


class Net(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 2)))

    def __call__(self, x: Any) -> Any:
        return x @ self.weight


def test_steps_of_a_loop_are_timed_as_wholes() -> None:
    model, x = Net(), tf.ones((8, 4))
    with watch(model, at_step=(1, 2), inputs=x) as watched:
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x))
            model.weight.assign_sub(0.1 * tape.gradient(loss, model.weight))
            watched.step()
    report = watched.report()
    assert (sorted(watched.steps.steps), len(report["step_time"].samples)) == ([1, 2], 2)
    assert min(report["step_time"].samples) > 0
    assert report["macs"] == 8 * 4 * 2
    for key in ("forward_time", "backward_time", "optimizer_time", "layer_times"):
        assert report.statuses[key].missing[0].startswith("TensorFlow runs a step as one compiled function"), key
    assert "only a GPU's allocator is asked" in report.statuses["step_memory"].missing[0]


def test_the_run_is_that_of_an_unwatched_one() -> None:
    finals = []
    for at_step in ((0, 1, 2), ()):
        model = Net()
        with watch(model, at_step=at_step or None) as watched:
            for step in range(3):
                model.weight.assign_add(tf.random.stateless_normal((4, 2), seed=(step, 0)))
                watched.step()
        finals.append(model.weight.numpy().tobytes())
    assert finals[0] == finals[1]


def test_what_is_no_optimizer_is_an_error() -> None:
    with pytest.raises(InputError, match="optimizer=3: give the name of an optimizer, such as 'adam', or one of Keras"):
        watch(Net(), optimizer=3)
    with pytest.raises(InputError, match="optimizer='adamm' is not a known optimizer"):
        watch(Net(), optimizer="adamm")
