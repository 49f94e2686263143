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
#: The processor, of ``LiteRtHwAccelerators`` in ``litert_common.h``; a lock to write into a buffer, of
#: ``LiteRtTensorBufferLockMode`` there; and memory of the process, of ``LiteRtTensorBufferType`` in
#: ``litert_tensor_buffer_types.h``.
_CPU, _LOCK_TO_WRITE, _HOST_MEMORY = c_int(1), c_int(1), c_int(1)
#: The name of the event of a whole pass, in ``tflite/core/subgraph.cc``.
_WHOLE_PASS = b"Invoke"


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


class _Job(NamedTuple):
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


class _Session:
    """A compiled model that is ready to run, with a buffer for each input and output; the end of the process frees it.

    Args:
        library: The library.
        job: The file, and the inputs that the model takes: their sizes, and their values.
    """

    def __init__(self, library: _Library, job: _Job) -> None:
        self.library, self.index = library, c_size_t(job.signature)
        self.environment = library.make("LiteRtCreateEnvironment", 0, None)
        size = c_size_t(len(job.content))
        content = library.keep(ctypes.create_string_buffer(job.content, len(job.content)))
        model = library.make("LiteRtCreateModelFromBuffer", self.environment, content, size)
        self.compiled = library.make("LiteRtCreateCompiledModel", self.environment, model, _make_options(library))
        self.signature = library.make("LiteRtGetModelSignature", model, self.index)
        for index, tensor in enumerate(job.inputs):
            self._resize_input(c_size_t(index), tensor.sizes)
        self.inputs = self._make_buffers("Input", job.inputs)
        self.outputs = self._make_buffers("Output", job.outputs)
        for buffer, values in zip(self.inputs, job.values, strict=True):
            self._fill_buffer(c_void_p(buffer), values)

    def run(self) -> None:
        """Run one pass."""
        inputs, outputs = (c_size_t(len(self.inputs)), self.inputs), (c_size_t(len(self.outputs)), self.outputs)
        self.library.call("LiteRtRunCompiledModel", self.compiled, self.index, *inputs, *outputs)

    def _resize_input(self, index: c_size_t, sizes: list[int]) -> None:
        rank = len(sizes)
        shape = (c_int * rank)(*sizes), c_size_t(rank)
        name = "LiteRtCompiledModelResizeInputTensorNonStrict"
        self.library.call(name, self.compiled, self.index, index, *shape)

    def _make_buffers(self, side: Literal["Input", "Output"], tensors: list[_Tensor]) -> ctypes.Array[c_void_p]:
        """Return an array of new buffers for all inputs or all outputs."""
        handles = [self._make_buffer(side, c_size_t(index), tensor).value for index, tensor in enumerate(tensors)]
        return (c_void_p * len(handles))(*handles)

    def _make_buffer(self, side: Literal["Input", "Output"], index: c_size_t, tensor: _Tensor) -> c_void_p:
        """Return a new buffer for a tensor, with the bytes that the model requires: maybe more than the tensor has.

        It has the type that the file states, with the sizes that the tensor has in this run.
        """
        make, rank = self.library.make, len(tensor.sizes)
        stated = make(f"LiteRtGetSignature{side}TensorByIndex", self.signature, index)
        tensor_type = _TensorType()
        self.library.call("LiteRtGetRankedTensorType", stated, ctypes.byref(tensor_type))
        tensor_type.layout.rank, tensor_type.layout.has_strides = rank, 0
        tensor_type.layout.dimensions = (c_int32 * _MAX_RANK)(*tensor.sizes)
        requirements = make(f"LiteRtGetCompiledModel{side}BufferRequirements", self.compiled, self.index, index)
        required = self.library.count("LiteRtGetTensorBufferRequirementsBufferSize", requirements)
        size = c_size_t(max(required, tensor.bytes))
        name = "LiteRtCreateManagedTensorBuffer"
        return make(name, self.environment, _HOST_MEMORY, ctypes.byref(tensor_type), size)

    def _fill_buffer(self, buffer: c_void_p, values: bytes) -> None:
        address = c_void_p()
        self.library.call("LiteRtLockTensorBuffer", buffer, ctypes.byref(address), _LOCK_TO_WRITE)
        ctypes.memmove(address, values, len(values))
        self.library.call("LiteRtUnlockTensorBuffer", buffer)


def _make_options(library: _Library) -> c_void_p:
    """Return options for the CPU with `_SETTINGS`."""
    options = library.make("LiteRtCreateOptions")
    library.call("LiteRtSetOptionsHardwareAccelerators", options, _CPU)
    free_nothing = library.keep(ctypes.CFUNCTYPE(None, c_void_p)(lambda address: None))  # Python frees the texts
    for group, text in _SETTINGS.items():
        address = ctypes.cast(library.keep(ctypes.create_string_buffer(text)), c_void_p)
        settings = library.make("LiteRtCreateOpaqueOptions", group, address, free_nothing)
        library.call("LiteRtAddOpaqueOptions", options, settings)
    return options


def _profile_job(job: _Job) -> list[dict[str, Any]]:
    """Return the passes of a job, each as `_read_pass` returns it."""
    session = _Session(_Library(job.library), job)
    profiler = session.library.make("LiteRtCompiledModelGetProfiler", session.compiled)
    for _ in range(_WARMUP):
        session.run()
    return [_read_pass(_profile_pass(session, profiler), job.graph) for _ in range(job.passes)]


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
