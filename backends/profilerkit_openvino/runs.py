"""Runs by OpenVINO: the devices that it finds, a model compiled for one, and passes with the inputs of a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from profilerkit import Device, DeviceNotAvailableError, ModelInputs, NotOfferedError, Run
from profilerkit.backend import DEVICE, DeviceLike
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.numpy_data import bind_inputs

from .nodes import dtype_name, read_numbers
from .runtime import openvino
from .tracing import declare

__all__ = ["MODES", "compile_model", "make_call", "open_runtime", "prepare_run", "read_outputs", "resolve_device"]

#: The execution modes: the precision in which OpenVINO may compute, as its hint. By default it is the precision of the
#: model, so that the counted numbers are timed; otherwise a CPU may run float32 as bfloat16.
MODES: Mapping[str, Mapping[str, Any]] = {
    "accuracy": {"EXECUTION_MODE_HINT": "ACCURACY"},
    "performance": {"EXECUTION_MODE_HINT": "PERFORMANCE"},
}
#: Two names of the first GPU: OpenVINO lists the first name if there is one GPU, the second of several, and takes both.
_FIRST_GPU = ("gpu", "gpu.0")


@cache
def open_runtime() -> Any:
    """Return OpenVINO's runtime, which lists the devices and compiles for them."""
    return openvino.Core()


def resolve_device(device: DeviceLike) -> str:
    """Return the name of a device as OpenVINO lists it, in lower case: "cpu", "gpu.1"; "cpu" for None.

    Raises `DeviceNotAvailableError` for a device that OpenVINO does not find here.
    """
    device = DEVICE("device", device)
    device = Device.CPU if device is None else device
    name = device.value if isinstance(device, Device) else str(device).lower()
    here = [listed.lower() for listed in open_runtime().available_devices]
    for same in _FIRST_GPU if name in _FIRST_GPU else (name,):
        if same in here:
            return same
    raise DeviceNotAvailableError(f"device {device!r} is not there; OpenVINO finds here: {', '.join(here)}")


def compile_model(
    model: Any, inputs: object, device: str, mode: str, num_threads: int | None = None, **further: Any
) -> Any:
    """Return a model compiled for a device; raises `ModelFailedError` for a model that OpenVINO refuses."""
    options = {"PERFORMANCE_HINT": "LATENCY", **MODES[mode], **further}
    if num_threads is not None:
        options["INFERENCE_NUM_THREADS"] = num_threads
    try:
        return open_runtime().compile_model(model, device.upper(), options)
    except RuntimeError as error:
        raise explain_failure(error, inputs, "openvino", __package__ or "") from error


@contextmanager
def prepare_run(
    model: Any, inputs: ModelInputs, device: str, mode: str, num_threads: int | None = None
) -> Iterator[Run]:
    """Yield the run of a model; the first call is the compilation and one pass."""
    start = time.perf_counter()
    compiled = compile_model(model, inputs, device, mode, num_threads)
    call = make_call(model, compiled.create_infer_request(), inputs)
    call()
    yield Run(call, time.perf_counter() - start, partial(read_outputs, model))


def make_call(model: Any, request: Any, inputs: ModelInputs) -> Callable[[], Any]:
    """Return a function that runs one pass, and returns an array, or several by their names.

    Of dtypes that numpy lacks they are the arrays of another dtype that OpenVINO returns: `read_outputs` reads them.
    """
    bound = bind_inputs(declare(model), inputs)
    feeds = {
        index: _make_feed(array, declared.get_element_type())
        for index, (array, declared) in enumerate(zip(bound.values(), model.inputs, strict=True))
    }
    names = [_name_output(output) for output in model.outputs]

    def call() -> Any:
        try:
            results = request.infer(feeds, share_inputs=True)
        except RuntimeError as error:
            raise explain_failure(error, inputs, "openvino", __package__ or "") from error
        arrays = [results[index] for index in range(len(names))]
        return arrays[0] if len(arrays) == 1 else dict(zip(names, arrays, strict=True))

    return call


def read_outputs(model: Any, outputs: Any) -> Any:
    """Return the outputs of a call as numbers; raise `NotOfferedError` for numbers that no array can hold."""
    if isinstance(outputs, dict):
        results = zip(outputs.items(), model.outputs, strict=True)
        return {name: _read_output(array, output) for (name, array), output in results}
    return _read_output(outputs, model.output(0))


def _read_output(array: Any, output: Any) -> Any:
    element = output.get_element_type()
    numbers = read_numbers(array, element)
    if numbers is None:
        raise NotOfferedError(
            f"the output {_name_output(output)!r} is of {dtype_name(element)}, of which no array is made here; let the "
            "model convert it to float32, or, for float8, pip install ml_dtypes"
        )
    return numbers


def _name_output(output: Any) -> str:
    names = output.get_names()
    return str(min(names) if names else output.get_node().get_friendly_name())


def _make_feed(array: Any, element: Any) -> Any:
    """Return what a request takes for an array: the array, or a tensor of OpenVINO's for a dtype that numpy lacks."""
    array = np.asarray(array, order="C")
    if array.dtype.isbuiltin != 2:  # 2: a dtype of ml_dtypes
        return array
    codes = array.view(f"u{array.dtype.itemsize}")
    content = codes if element.bitwidth >= 8 else _pack_bits(codes, element.bitwidth)
    return openvino.Tensor(content, array.shape, element)


def _pack_bits(codes: Any, bits: int) -> Any:
    """Return numbers of less than a byte as OpenVINO holds them: several share a byte, the first the lowest."""
    shared_by = 8 // bits
    padded = np.zeros((-(-codes.size // shared_by), shared_by), np.uint8)
    padded.flat[: codes.size] = codes.flat
    places = np.arange(shared_by, dtype=np.uint8) * bits
    return np.bitwise_or.reduce((padded & (2**bits - 1)) << places, axis=1, dtype=np.uint8)
