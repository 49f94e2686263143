"""What goes wrong in the backend's own code is said as its fault, not as the model's."""

from __future__ import annotations

import importlib
from typing import Any

import keras
import numpy as np
import pytest

from profilerkit import BackendFailedError, ModelInputs, profile
from profilerkit_tensorflow.backend import TFBackend

X = np.ones((2, 4), "float32")


def model() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def plant(monkeypatch: pytest.MonkeyPatch, place: str, name: str) -> None:
    """Have a function of the backend raise `KeyError` in a line of its own."""
    module = importlib.import_module(f"profilerkit_tensorflow.{place}")
    exec("def careless(*args, **kwargs): return {}['planted']", namespace := {"__name__": module.__name__})
    monkeypatch.setattr(module, name, namespace["careless"])


SAID = "the tensorflow backend raised KeyError: 'planted', at line 1 of profilerkit_tensorflow.{place}; this is a fault"


def test_a_mistake_in_the_walk_is_the_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "trace.program_trace", "record_program_layers")
    report = profile(model(), X, metrics=["macs", "execution_time"], max_seconds=0.05)
    assert report.status("macs").missing[0].startswith(SAID.format(place="trace.program_trace"))
    assert report["execution_time"].median > 0


def test_a_mistake_while_the_model_is_traced_is_named_where_an_eager_run_counts(monkeypatch: Any) -> None:
    plant(monkeypatch, "trace.tracing", "trace_program")
    report = profile(model(), X, metrics=["macs"])
    assert report["macs"] == 16
    (note,) = [note for note in report.notes if "eager run" in note]
    assert note.endswith("the tensorflow backend has failed to trace the model as a graph (KeyError: 'planted')")


def test_a_mistake_in_a_run_is_the_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "running.modes", "compute_outputs")
    report = profile(model(), X, metrics=["execution_time"], max_seconds=0.05, mode="eager")
    (message,) = report.status("execution_time").missing
    assert message.startswith(SAID.format(place="running.modes"))


def test_a_mistake_while_layers_are_timed_is_the_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "operator_timing.session_passes", "_time_passes")
    with pytest.raises(BackendFailedError) as raised:
        TFBackend().layer_times(model(), ModelInputs(X), passes=1)
    assert str(raised.value).startswith(SAID.format(place="operator_timing.session_passes"))


def test_an_operator_that_does_not_fit_is_the_models_fault() -> None:
    (message,) = profile(model(), X[:, :3], metrics=["macs"]).status("macs").missing
    assert message.startswith("the model raised ValueError: ")
