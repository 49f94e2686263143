"""One pass of onnxruntime over a model, made ready once: the session, the inputs on the device, the first call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from profilerkit import ModelInputs, Run
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.numpy_data import bind_inputs

from ..model.declared_inputs import list_declared
from ..model.model_file import read_whole
from .runtime import onnxruntime
from .sessions import make_options, make_session

__all__ = ["make_call", "make_feeds", "prepare_run"]

Feeds = Mapping[str, Any]
#: What onnxruntime takes an array of one of ml_dtypes for: the integers of the same width.
_BITS = {1: np.uint8, 2: np.uint16}


@contextmanager
def prepare_run(
    model: ModelProto, inputs: ModelInputs, level: str, device: str, num_threads: int | None = None
) -> Iterator[Run]:
    """Yield the run of a model; the first call is the making of the session, which rewrites the graph, and one pass.

    Each call returns the outputs: one array, or several by their names.
    """
    model, feeds = read_whole(model), make_feeds(model, inputs)
    start = time.perf_counter()
    session = make_session(model, make_options(level, num_threads), device, inputs)
    call = make_call(session, feeds, device, inputs)
    call()
    yield Run(call, time.perf_counter() - start)


def make_feeds(model: ModelProto, inputs: ModelInputs) -> dict[str, Any]:
    """Return the arrays of a call by the names of the graph's inputs; raises as `bind_inputs` does."""
    return bind_inputs(list_declared(model), inputs)


def make_call(session: Any, feeds: Feeds, device: str, inputs: object) -> Callable[[], Any]:
    """Return what runs one pass and returns when the device is done; the inputs are on the device already."""
    names = [output.name for output in session.get_outputs()]
    run = _on_device(session, feeds, device) if not device.startswith("cpu") else _on_cpu(session, feeds)

    def call() -> Any:
        try:
            outputs = run()
        except Exception as error:  # its errors have no base class but Exception
            raise explain_failure(error, inputs, "onnx", __package__ or "") from error
        return outputs[0] if len(outputs) == 1 else dict(zip(names, outputs, strict=True))

    return call


def _on_cpu(session: Any, feeds: Feeds) -> Callable[[], Any]:
    if all(np.asarray(array).dtype.isbuiltin != 2 for array in feeds.values()):
        return lambda: session.run(None, dict(feeds))
    values = {name: _value(array) for name, array in feeds.items()}
    names = [output.name for output in session.get_outputs()]
    return lambda: [value.numpy() for value in session.run_with_ort_values(names, values)]


def _value(array: Any, *device: Any) -> Any:
    """Return the value that onnxruntime takes for an array, on a device; dtypes of ml_dtypes go by their bits."""
    values = onnxruntime().OrtValue
    if array.dtype.isbuiltin != 2:
        return values.ortvalue_from_numpy(array, *device)
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return values.ortvalue_from_numpy_with_onnx_type(array.view(_BITS[array.dtype.itemsize]), element)


def _on_device(session: Any, feeds: Feeds, device: str) -> Callable[[], Any]:
    """Bind inputs and outputs to the memory of the device, so that no pass copies them."""
    short, _, index = device.partition(":")
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, _value(array, short, int(index or 0)))
    for output in session.get_outputs():
        binding.bind_output(output.name, short, int(index or 0))

    def run() -> Any:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return binding.get_outputs()

    return run
