"""A script that runs a file by LiteRT's C library under its profiler, and prints each operator that ran.

LiteRT's Python package has no profiler, but its C library has one. The library runs in a separate process: a damaged
file, or a release whose functions have changed, can end this process, and not the user's. Only Python's own modules are
imported.

The functions, the structures and the constants come from the headers in ``litert/c`` of LiteRT 2.2.0; each structure
and enumeration names its header. 2.2.0 is the oldest release with these forms (`compat`).

The standard input holds a job (`_read_job`); the standard output gets the passes (`_read_pass`) as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, BinaryIO, Literal, NamedTuple

#: Settings as the library reads them, by the names of their groups: ``litert_runtime_options.cc`` and
#: ``litert_cpu_options.cc`` in ``litert/c/options``. Without clusters XNNPACK keeps the order of the file, by which its
#: operators are told apart.
_SETTINGS = {
    b"runtime_options_string": b"enable_profiling = true\ndisable_delegate_clustering = true\n",
    b"xnnpack": b'kernel_mode = "delegate"\nnum_threads = 1\n',
}
#: Passes before the profiled passes: the first ones allocate results and pack weights.
_WARMUP = 2
#: The most sizes of a tensor: ``LITERT_TENSOR_MAX_RANK`` of ``litert_layout.h``.
_MAX_RANK = 8
#: The name of the event of a whole pass, in ``tflite/core/subgraph.cc``.
_WHOLE_PASS = b"Invoke"


class _Accelerator(IntEnum):
    """The hardware for a model: ``LiteRtHwAccelerators`` of ``litert_common.h``."""

    CPU = 1 << 0


class _LockMode(IntEnum):
    """The purpose of a lock on a buffer: ``LiteRtTensorBufferLockMode`` of ``litert_common.h``."""

    WRITE = 1


class _BufferType(IntEnum):
    """The memory of a buffer: ``LiteRtTensorBufferType`` of ``litert_tensor_buffer_types.h``."""

    HOST_MEMORY = 1


class _EventType(IntEnum):
    """The type of an event: ``LiteRtProfilerEventType`` of ``litert_profiler_event.h``."""

    #: A part of the library's own work, such as a whole pass.
    DEFAULT = 1
    #: An operator of the file, by LiteRT's own kernel.
    OPERATOR = 1 << 1
    #: An operator that a delegate, such as XNNPACK, has made of one or several operators.
    DELEGATE_OPERATOR = 1 << 3


_OPERATORS = (_EventType.OPERATOR, _EventType.DELEGATE_OPERATOR)


class _MemoryUsage(ctypes.Structure):
    """``LiteRtMemoryUsage`` of ``litert_profiler_event.h``; not read, and it takes its room in an event."""

    _fields_ = [
        ("total_allocated_bytes", c_size_t),
        ("in_use_allocated_bytes", c_size_t),
        ("private_footprint_bytes", c_size_t),
    ]


class _Event(ctypes.Structure):
    """``ProfiledEventData`` of ``litert_profiler_event.h``.

    Of an operator ``event_metadata1`` is its index and ``event_metadata2`` the index of its graph.
    """

    _fields_ = [
        ("tag", c_char_p),
        ("event_type", c_int),
        ("start_timestamp_us", c_uint64),
        ("elapsed_time_us", c_uint64),
        ("begin_mem_usage", _MemoryUsage),
        ("end_mem_usage", _MemoryUsage),
        ("event_metadata1", c_uint64),
        ("event_metadata2", c_uint64),
        ("event_source", c_int),
    ]


class _Layout(ctypes.Structure):
    """``LiteRtLayout`` of ``litert_layout.h``; strides are used only if ``has_strides`` is 1."""

    _fields_ = [
        ("rank", c_uint32, 7),
        ("has_strides", c_uint32, 1),
        ("dimensions", c_int32 * _MAX_RANK),
        ("strides", c_uint32 * _MAX_RANK),
    ]


class _TensorType(ctypes.Structure):
    """``LiteRtRankedTensorType`` of ``litert_model_types.h``."""

    _fields_ = [("element_type", c_int), ("layout", _Layout)]


class _Tensor(NamedTuple):
    """The sizes of an input or output, and how many bytes it has."""

    sizes: list[int]
    bytes: int


@dataclass(frozen=True)
class _Job:
    """The request for profiled passes of a file.

    Attributes:
        library: The path of the library.
        content: The bytes of the file.
        signature: The index of the signature that runs.
        graph: The index of the graph of this signature.
        passes: How many passes are profiled.
        inputs: The inputs of the signature, in its order.
        outputs: Its outputs.
        values: The bytes of each input.
    """

    library: str
    content: bytes
    signature: int
    graph: int
    passes: int
    inputs: list[_Tensor]
    outputs: list[_Tensor]
    values: list[bytes]


class _Library:
    """The functions of the library, which return a number that is not zero if they fail."""

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self._kept: list[Any] = []

    def keep(self, value: Any) -> Any:
        """Return a value that the library keeps reading: Python does not free it while this object exists."""
        self._kept.append(value)
        return value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise `RuntimeError` if it fails."""
        status = getattr(self._functions, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} of LiteRT's C library failed ({status})")

    def make(self, name: str, *arguments: Any) -> c_void_p:
        """Return the handle that a function writes to its last argument."""
        handle = c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def count(self, name: str, *arguments: Any) -> int:
        """Return the number that a function writes to its last argument."""
        number = c_size_t()
        self.call(name, *arguments, ctypes.byref(number))
        return number.value


@dataclass(frozen=True)
class _Model:
    """Handles of a compiled model and of the signature that runs; the end of the process frees them."""

    environment: c_void_p
    compiled: c_void_p
    signature: c_void_p
    signature_index: c_size_t


@dataclass(frozen=True)
class _Session:
    """A model that is ready to run, with a buffer for each input and output."""

    library: _Library
    model: _Model
    inputs: ctypes.Array[c_void_p]
    outputs: ctypes.Array[c_void_p]

    def run(self) -> None:
        """Run one pass."""
        self.library.call(
            "LiteRtRunCompiledModel",
            self.model.compiled,
            self.model.signature_index,
            c_size_t(len(self.inputs)),
            self.inputs,
            c_size_t(len(self.outputs)),
            self.outputs,
        )


def _profile_job(job: _Job) -> list[dict[str, Any]]:
    """Return the passes of a job, each as `_read_pass` returns it."""
    session = _open_session(_Library(job.library), job)
    profiler = session.library.make("LiteRtCompiledModelGetProfiler", session.model.compiled)
    for _ in range(_WARMUP):
        session.run()
    return [_read_pass(_profile_pass(session, profiler), job.graph) for _ in range(job.passes)]


def _open_session(library: _Library, job: _Job) -> _Session:
    """Compile the file, resize its inputs to the inputs of the job, and write their values into buffers."""
    model = _compile(library, job)
    _resize_inputs(library, model, job.inputs)
    inputs = _make_buffers(library, model, "Input", job.inputs)
    outputs = _make_buffers(library, model, "Output", job.outputs)
    for buffer, values in zip(inputs, job.values, strict=True):
        _fill_buffer(library, c_void_p(buffer), values)
    return _Session(library, model, inputs, outputs)


def _compile(library: _Library, job: _Job) -> _Model:
    environment = library.make("LiteRtCreateEnvironment", 0, None)
    size, index = c_size_t(len(job.content)), c_size_t(job.signature)
    content = library.keep(ctypes.create_string_buffer(job.content, len(job.content)))
    model = library.make("LiteRtCreateModelFromBuffer", environment, content, size)
    compiled = library.make("LiteRtCreateCompiledModel", environment, model, _make_options(library))
    signature = library.make("LiteRtGetModelSignature", model, index)
    return _Model(environment, compiled, signature, index)


def _make_options(library: _Library) -> c_void_p:
    """Return options for the CPU with `_SETTINGS`."""
    options = library.make("LiteRtCreateOptions")
    library.call("LiteRtSetOptionsHardwareAccelerators", options, c_int(_Accelerator.CPU))
    free_nothing = library.keep(ctypes.CFUNCTYPE(None, c_void_p)(lambda address: None))  # Python frees the texts
    for group, text in _SETTINGS.items():
        address = ctypes.cast(library.keep(ctypes.create_string_buffer(text)), c_void_p)
        settings = library.make("LiteRtCreateOpaqueOptions", group, address, free_nothing)
        library.call("LiteRtAddOpaqueOptions", options, settings)
    return options


def _resize_inputs(library: _Library, model: _Model, inputs: list[_Tensor]) -> None:
    for index, tensor in enumerate(inputs):
        rank = len(tensor.sizes)
        library.call(
            "LiteRtCompiledModelResizeInputTensorNonStrict",
            model.compiled,
            model.signature_index,
            c_size_t(index),
            (c_int * rank)(*tensor.sizes),
            c_size_t(rank),
        )


def _make_buffers(
    library: _Library, model: _Model, side: Literal["Input", "Output"], tensors: list[_Tensor]
) -> ctypes.Array[c_void_p]:
    """Return an array of new buffers for all inputs or all outputs."""
    handles = [_make_buffer(library, model, side, index, tensor).value for index, tensor in enumerate(tensors)]
    return (c_void_p * len(handles))(*handles)


def _make_buffer(
    library: _Library, model: _Model, side: Literal["Input", "Output"], index: int, tensor: _Tensor
) -> c_void_p:
    """Return a new buffer for a tensor, with the bytes that the model requires: maybe more than the tensor has."""
    tensor_type = _find_type(library, model, side, index, tensor)
    requirements = library.make(
        f"LiteRtGetCompiledModel{side}BufferRequirements", model.compiled, model.signature_index, c_size_t(index)
    )
    required = library.count("LiteRtGetTensorBufferRequirementsBufferSize", requirements)
    return library.make(
        "LiteRtCreateManagedTensorBuffer",
        model.environment,
        c_int(_BufferType.HOST_MEMORY),
        ctypes.byref(tensor_type),
        c_size_t(max(required, tensor.bytes)),
    )


def _find_type(
    library: _Library, model: _Model, side: Literal["Input", "Output"], index: int, tensor: _Tensor
) -> _TensorType:
    """Return the type that the file states for a tensor, with the sizes that the tensor has in this run."""
    stated = library.make(f"LiteRtGetSignature{side}TensorByIndex", model.signature, c_size_t(index))
    tensor_type = _TensorType()
    library.call("LiteRtGetRankedTensorType", stated, ctypes.byref(tensor_type))
    tensor_type.layout.rank = len(tensor.sizes)
    tensor_type.layout.has_strides = 0
    tensor_type.layout.dimensions = (c_int32 * _MAX_RANK)(*tensor.sizes)
    return tensor_type


def _fill_buffer(library: _Library, buffer: c_void_p, values: bytes) -> None:
    address = c_void_p()
    library.call("LiteRtLockTensorBuffer", buffer, ctypes.byref(address), c_int(_LockMode.WRITE))
    ctypes.memmove(address, values, len(values))
    library.call("LiteRtUnlockTensorBuffer", buffer)


def _profile_pass(session: _Session, profiler: c_void_p) -> ctypes.Array[_Event]:
    """Run one pass, and return its events."""
    library = session.library
    library.call("LiteRtStartProfiler", profiler)
    session.run()
    library.call("LiteRtStopProfiler", profiler)
    number = c_int()
    library.call("LiteRtGetNumProfilerEvents", profiler, ctypes.byref(number))
    events = (_Event * number.value)()
    library.call("LiteRtGetProfilerEvents", profiler, number, events)
    return events


def _read_pass(events: ctypes.Array[_Event], graph: int) -> dict[str, Any]:
    """Return the ``seconds`` of a pass, and the ``operators`` of a graph in the order in which they ran.

    An operator has its name, its index in the file (None for an operator of a delegate), and its seconds.
    """
    operators = []
    operator_seconds = whole_seconds = 0.0
    for event in events:
        seconds = event.elapsed_time_us / 1e6
        if event.event_type == _EventType.DEFAULT and event.tag == _WHOLE_PASS:
            whole_seconds = max(whole_seconds, seconds)
        elif event.event_type in _OPERATORS and event.event_metadata2 == graph:
            node = event.event_metadata1 if event.event_type == _EventType.OPERATOR else None
            operators.append((event.tag.decode(errors="replace"), node, seconds))
            operator_seconds += seconds
    return {"seconds": max(whole_seconds, operator_seconds), "operators": operators}


def _read_job(source: BinaryIO) -> _Job:
    """Return a job from its settings as a line of JSON, the bytes of the file, and the bytes of the inputs."""
    settings = json.loads(source.readline())
    inputs = [_Tensor(sizes, length) for sizes, length in settings["inputs"]]
    return _Job(
        library=settings["library"],
        content=source.read(settings["length"]),
        signature=settings["signature"],
        graph=settings["graph"],
        passes=settings["passes"],
        inputs=inputs,
        outputs=[_Tensor(sizes, length) for sizes, length in settings["outputs"]],
        values=[source.read(tensor.bytes) for tensor in inputs],
    )


def main() -> None:
    """Run the job that the standard input holds, and write its passes; an error is one line of standard error."""
    job = _read_job(sys.stdin.buffer)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library's prints are no result
    try:
        results.write(json.dumps(_profile_job(job)))
        results.close()
    except (AttributeError, OSError, RuntimeError) as error:  # a function that is missing, a library that does not load
        sys.exit(str(error))


if __name__ == "__main__":
    main()
