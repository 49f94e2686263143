"""Functions that XLA compiles, such as those that Keras runs grouped convolutions in on a CPU."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers as L
from small import BACKEND, ones, trace_complete, trace_complete_step

from profilerkit import Completeness, ModelFailedError, ModelInputs, profile

X = ones(2, 8, 8, 6)
#: 6 x 6 pixels of four filters, each over 3 x 3 pixels of the three channels of its group.
MACS = 2 * (6 * 6 * 4) * (3 * 3 * 3)
NOTE = "functions compiled by XLA"


def grouped() -> Any:
    return keras.Sequential([keras.Input((8, 8, 6)), L.Conv2D(4, 3, groups=2, name="grouped")])


def test_a_grouped_convolution_runs_compiled() -> None:
    seen = trace_complete(grouped(), X)
    calls = [operator for operator in seen.program.graph.get_operations() if operator.type.endswith("PartitionedCall")]
    assert [bool(call.get_attr("_XlaMustCompile")) for call in calls] == [True]
    assert seen.macs == MACS
    assert any(NOTE in note for note in seen.notes)


def test_the_gradients_of_a_grouped_convolution_are_counted() -> None:
    seen = trace_complete_step(grouped(), X)
    assert seen.macs == 2 * MACS  # nobody needs the gradient of the image
    assert any(NOTE in note for note in seen.notes)


def test_other_convolutions_are_not_compiled() -> None:
    model = keras.Sequential([keras.Input((8, 8, 6)), L.Conv2D(4, 3)])
    assert not any("XLA" in note for note in trace_complete(model, X).notes)


@pytest.mark.parametrize("how", [{"jit_compile": True}, {"jit_compile": None}, {}])
def test_what_xla_cannot_compile_raises_where_it_is_compiled(how: dict[str, Any]) -> None:
    """XLA calls no Python code: this tells whether a function was compiled, without measuring a time."""

    def of_python(x: Any) -> Any:
        return tf.ensure_shape(tf.py_function(lambda value: value, [x], tf.float32), x.shape)

    class Part(L.Layer):  # type: ignore[misc]
        inner = tf.function(of_python, **how)

        def call(self, x: Any) -> Any:
            return type(self).inner(x)

    model = keras.Sequential([keras.Input((4,)), Part()])
    inputs = ModelInputs(ones(3, 4))
    if not how.get("jit_compile"):
        with BACKEND.run(model, inputs) as run:
            assert run().shape == (3, 4)
        return
    with pytest.raises(ModelFailedError, match="EagerPyFunc"), BACKEND.run(model, inputs) as run:
        run()


def test_the_operator_table_says_what_it_does_not_see() -> None:
    report = profile(grouped(), X, metrics=["operator_table"], passes=2)
    assert report.status("operator_table").completeness is Completeness.PARTIAL
    text = " ".join(str(report).split())
    for phase in "forward", "backward":
        assert f"{phase}, the operators inside functions that XLA compiles" in text
    assert "they are called by 'grouped', and their time is outside operators" in text
