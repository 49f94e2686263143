"""Keras models, saved models and functions with a signature declare their inputs: no shape need be given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from profilerkit import profile

NOTE = "the inputs were created as the model declares them"


def dense() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def of_file(folder: Path) -> Any:
    dense().save(folder / "model.keras")
    return str(folder / "model.keras")


def of_export(folder: Path) -> Any:
    dense().export(folder / "exported", verbose=False)
    return str(folder / "exported")


def of_saved_model(folder: Path) -> Any:
    tf.saved_model.save(dense(), str(folder / "saved"))
    return tf.saved_model.load(str(folder / "saved"))


class Module(tf.Module):  # type: ignore[misc,unused-ignore]
    @tf.function(input_signature=[tf.TensorSpec((None, 4))])  # type: ignore[misc,untyped-decorator,unused-ignore]
    def __call__(self, x: Any) -> Any:
        return x @ tf.ones((4, 2))


def of_module(folder: Path) -> Any:
    tf.saved_model.save(Module(), str(folder / "module"))
    return tf.saved_model.load(str(folder / "module"))


MODELS: dict[str, Callable[[Path], Any]] = {
    "a sequential model": lambda folder: dense(),
    "a functional model": lambda folder: keras.Model(x := keras.Input((4,)), keras.layers.Dense(2)(x)),
    "a .keras file": of_file,
    "an exported model": of_export,
    "a saved model": of_saved_model,
    "a saved module": of_module,
    "a function with a signature": lambda folder: Module().__call__,
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_declares_its_inputs_is_counted_and_timed_without_any(what: str, tmp_path: Path) -> None:
    model = MODELS[what](tmp_path)
    options: dict[str, Any] = {"backend": "tensorflow"} if isinstance(model, str) else {}
    found = profile(model, metrics=["macs", "execution_time"], max_seconds=0.05, **options)
    assert (found["macs"], found.batch_size) == (8, 1)
    assert found["execution_time"].median > 0
    assert any(note == NOTE for note in found.notes)
    assert profile(model, metrics=["macs"], batch_size=3, **options)["macs"] == 24


def test_several_inputs_by_place_or_by_name_have_their_dtypes() -> None:
    a, b = keras.Input((4,), name="a"), keras.Input((1,), name="b", dtype="int32")
    outputs = keras.layers.Dense(2)(a) + keras.layers.Embedding(5, 2)(b)[:, 0]
    for inputs, shown in (
        ([a, b], "EagerTensor(1, 4), EagerTensor(1, 1)"),
        ({"a": a, "b": b}, "a=EagerTensor(1, 4), b"),
    ):
        found = profile(keras.Model(inputs, outputs), metrics=["macs"])
        assert found["macs"] == 8
        assert shown in found.inputs


def test_sizes_that_are_open_must_be_given() -> None:
    model = keras.Sequential([keras.Input((None, None, 3), name="x"), keras.layers.Conv2D(2, 3, padding="same")])
    (message,) = profile(model, metrics=["macs"]).status("macs").missing
    assert message == (
        "the model declares its input 'x' with the shape (None, None, None, 3), which leaves dimensions 1, 2 open; "
        "give all sizes but the batch's: input_shape=(16, 16, 3), or example inputs: inputs=x"
    )
    assert profile(model, input_shape=(16, 16, 3), metrics=["macs"])["macs"] == 16 * 16 * 27 * 2


@pytest.mark.parametrize("model", [lambda x: x, keras.Sequential([keras.layers.Dense(2)])], ids=["function", "unbuilt"])
def test_what_declares_nothing_needs_inputs(model: Any) -> None:
    (message,) = profile(model, metrics=["macs"], backend="tensorflow").status("macs").missing
    assert message.startswith("there is nothing to run the model with; give inputs=x")
