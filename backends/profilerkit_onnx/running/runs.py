"""One pass of onnxruntime over a model, made ready once: the session, the inputs on the device, the first call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from profilerkit import ModelInputs, NotOfferedError, Run
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.numpy_data import bind_inputs

from ..model.declared_inputs import list_declared
from ..model.model_file import read_whole
from .devices import onnxruntime
from .sessions import make_options, make_session

__all__ = ["make_call", "make_feeds", "prepare_run", "read_outputs"]

Feeds = Mapping[str, Any]
#: The integers by which onnxruntime takes an array of a dtype that numpy lacks, by the bytes of an element.
_BITS = {1: np.uint8, 2: np.uint16}
#: The dtypes of which onnxruntime holds several numbers in a byte, and ml_dtypes one.
_SHARING_BYTES = ("float4", "int2", "int4", "uint2", "uint4")
#: The types that onnxruntime has, and numpy lacks, as they begin.
_FOREIGN_TYPES = tuple(f"tensor({name}" for name in ("bfloat16", "float8", *_SHARING_BYTES))


@contextmanager
def prepare_run(
    model: ModelProto, inputs: ModelInputs, level: str, device: str, num_threads: int | None = None
) -> Iterator[Run]:
    """Yield the run of a model; the first call is the making of the session, which rewrites the graph, and one pass.

    Each call returns the outputs: one array, or several by their names. On a device other than the CPU, and of a dtype
    that numpy lacks, they are values of onnxruntime's, which `read_outputs` reads.
    """
    model, feeds = read_whole(model), make_feeds(model, inputs)
    start = time.perf_counter()
    session = make_session(model, make_options(level, num_threads), device, inputs)
    call = make_call(session, feeds, device, inputs)
    call()
    yield Run(call, time.perf_counter() - start, read_outputs)


def make_feeds(model: ModelProto, inputs: ModelInputs) -> dict[str, Any]:
    """Return the arrays of a call by the names of the graph's inputs, lists of them for sequences.

    Raises as `bind_inputs` does, and `NotOfferedError` for arrays that onnxruntime's Python would read wrongly.
    """
    bound = bind_inputs(list_declared(model), inputs)
    feeds = {name: np.asarray(value, order="C") if hasattr(value, "dtype") else value for name, value in bound.items()}
    for name, array in feeds.items():
        if _is_foreign(array) and array.dtype.name.startswith(_SHARING_BYTES):
            raise NotOfferedError(f"the input {name!r} is of {array.dtype}: onnxruntime takes no array of this dtype")
    return feeds


def make_call(session: Any, feeds: Feeds, device: str, inputs: object) -> Callable[[], Any]:
    """Return a function that runs one pass and waits for the device; the inputs are on the device already."""
    outputs = session.get_outputs()
    # Without bound outputs, onnxruntime makes arrays of all of them, and fails where numpy lacks the dtype.
    is_bound = not device.startswith("cpu") or any(output.type.startswith(_FOREIGN_TYPES) for output in outputs)
    run = _make_bound_run(session, feeds, device) if is_bound else _make_plain_run(session, feeds)

    def call() -> Any:
        try:
            results = run()
        except Exception as error:  # its errors have no base class but Exception
            raise explain_failure(error, inputs, "onnx", __package__ or "") from error
        return results[0] if len(results) == 1 else {node.name: one for node, one in zip(outputs, results, strict=True)}

    return call


def _make_plain_run(session: Any, feeds: Feeds) -> Callable[[], Any]:
    values = {name: _make_value(array) if _is_foreign(array) else array for name, array in feeds.items()}
    return lambda: session.run(None, values)


def _make_bound_run(session: Any, feeds: Feeds, device: str) -> Callable[[], Any]:
    """Return a function that runs a pass with inputs and outputs in device memory, so that no pass copies them.

    The outputs are values of onnxruntime's. Raises `NotOfferedError` for inputs that cannot be bound.
    """
    kind, _, number = device.partition(":")
    index = int(number or 0)
    binding = session.io_binding()
    for name, array in feeds.items():
        if not hasattr(array, "dtype") or array.dtype.kind in "OSU":
            for_outputs = "for outputs of dtypes that numpy has; cast the outputs of the model"
            where = for_outputs if kind == "cpu" else "on the CPU; run the model there"
            raise NotOfferedError(f"the input {name!r} is a sequence or texts, which onnxruntime takes only {where}")
        binding.bind_ortvalue_input(name, _make_value(array, kind, index))
    names = [output.name for output in session.get_outputs()]

    def run() -> Any:
        binding.clear_binding_outputs()  # it would keep the outputs of the last pass, and their memory
        for name in names:
            binding.bind_output(name, kind, index)
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return binding.get_outputs()

    return run


# Arrays, and the values of onnxruntime's that stand for them ----------------------------------------------------------


def _is_foreign(array: Any) -> bool:
    """Return whether ml_dtypes has added the dtype of an array to numpy, such as bfloat16."""
    return hasattr(array, "dtype") and bool(array.dtype.isbuiltin == 2)


def _make_value(array: Any, *device: Any) -> Any:
    """Return the value that onnxruntime takes for an array, on a device (kind and index)."""
    values = onnxruntime().OrtValue
    if not _is_foreign(array):
        return values.ortvalue_from_numpy(array, *device)
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    bits = array.view(_BITS[array.dtype.itemsize])
    return values.ortvalue_from_numpy_with_onnx_type(bits, element)  # on the CPU: onnxruntime offers no other place


def read_outputs(outputs: Any) -> Any:
    """Return the outputs of a call with arrays in the places of values of onnxruntime's, as far as there are any."""
    if isinstance(outputs, dict):
        return {name: _read_value(value) for name, value in outputs.items()}
    return _read_value(outputs)


def _read_value(value: Any) -> Any:
    """Return an array on the CPU for a value; a sequence, and numbers that share bytes, stay a value."""
    if not hasattr(value, "data_ptr") or not value.is_tensor():
        return value
    if not value.data_type().startswith(_FOREIGN_TYPES):
        return value.numpy()
    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    if value.device_name() != "cpu" or dtype.name.startswith(_SHARING_BYTES):
        return value
    shape = value.shape()
    content = ctypes.string_at(value.data_ptr(), int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(content, dtype).reshape(shape)
