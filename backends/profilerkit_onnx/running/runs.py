"""One pass of onnxruntime over a model, made ready once: the session, the inputs on the device, the first call."""

from __future__ import annotations

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

__all__ = ["make_call", "make_feeds", "prepare_run"]

Feeds = Mapping[str, Any]
#: The integers by which onnxruntime takes an array of a dtype that numpy lacks, by the bytes of an element.
_BITS = {1: np.uint8, 2: np.uint16}
#: The beginnings of types that onnxruntime has, and numpy lacks.
_WITHOUT_ARRAYS = tuple(f"tensor({name}" for name in ("bfloat16", "float4", "float8", "int2", "int4", "uint2", "uint4"))
#: The beginnings of dtypes of which onnxruntime holds several numbers in a byte, and ml_dtypes one.
_SHARING_BYTES = ("float4", "int2", "int4", "uint2", "uint4")


@contextmanager
def prepare_run(
    model: ModelProto, inputs: ModelInputs, level: str, device: str, num_threads: int | None = None
) -> Iterator[Run]:
    """Yield the run of a model; the first call is the making of the session, which rewrites the graph, and one pass.

    Each call returns the outputs: one array, or several by their names. On a device other than the CPU, and of a dtype
    that numpy lacks, they are values of onnxruntime's.
    """
    model, feeds = read_whole(model), make_feeds(model, inputs)
    start = time.perf_counter()
    session = make_session(model, make_options(level, num_threads), device, inputs)
    call = make_call(session, feeds, device, inputs)
    call()
    yield Run(call, time.perf_counter() - start)


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
    names = [output.name for output in session.get_outputs()]
    run = _make_cpu_run(session, feeds) if device.startswith("cpu") else _make_bound_run(session, feeds, device)

    def call() -> Any:
        try:
            outputs = run()
        except Exception as error:  # its errors have no base class but Exception
            raise explain_failure(error, inputs, "onnx", __package__ or "") from error
        return outputs[0] if len(outputs) == 1 else dict(zip(names, outputs, strict=True))

    return call


def _make_cpu_run(session: Any, feeds: Feeds) -> Callable[[], Any]:
    is_foreign = any(map(_is_foreign, feeds.values())) or any(
        _has_no_array(node.type) for node in session.get_outputs()
    )
    if not is_foreign:
        return lambda: session.run(None, dict(feeds))
    run = _make_bound_run(session, feeds, "cpu")
    return lambda: [value if _has_no_array(value.data_type()) else value.numpy() for value in run()]


def _is_foreign(array: Any) -> bool:
    """Return whether ml_dtypes has added the dtype of an array to numpy, such as bfloat16."""
    return hasattr(array, "dtype") and bool(array.dtype.isbuiltin == 2)


def _has_no_array(name: str) -> bool:
    """Return whether onnxruntime makes no array of values of a type, such as "tensor(bfloat16)"."""
    return name.startswith(_WITHOUT_ARRAYS)


def _make_value(array: Any, *device: Any) -> Any:
    """Return the value that onnxruntime takes for an array, on a device (kind and index)."""
    values = onnxruntime().OrtValue
    if not _is_foreign(array):
        return values.ortvalue_from_numpy(array, *device)
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    bits = array.view(_BITS[array.dtype.itemsize])
    return values.ortvalue_from_numpy_with_onnx_type(bits, element)  # on the CPU: onnxruntime offers no other place


def _make_bound_run(session: Any, feeds: Feeds, device: str) -> Callable[[], Any]:
    """Return a function that runs a pass with inputs and outputs in device memory, so that no pass copies them.

    The outputs are values of onnxruntime's.
    """
    kind, _, number = device.partition(":")
    index = int(number or 0)
    binding = session.io_binding()
    for name, array in feeds.items():
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
