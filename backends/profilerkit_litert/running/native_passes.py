"""A script that runs a file by LiteRT's C library under its profiler, and prints each operator that ran.

LiteRT's Python package has no profiler; the C library that comes with it has. It runs here, in a process of its own: a
damaged file, or a release whose functions have changed, can end this process, and not the user's. Nothing but Python's
own modules is imported.

The standard input holds a job (`_read_job`); the standard output gets the passes (`_read_pass`) as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from itertools import accumulate
from typing import Any, NamedTuple

#: Types of events: an operator by LiteRT's own kernel, and one of those that a delegate has made of several operators.
_OWN, _DELEGATED = 1 << 1, 1 << 3
_CPU, _HOST_MEMORY, _TO_WRITE = 1, 1, 1
#: Settings, as the library reads them. The order of the file is kept, by which operators of XNNPACK are told.
_SETTINGS = {
    b"runtime_options_string": b"enable_profiling = true\ndisable_delegate_clustering = true\n",
    b"xnnpack": b'kernel_mode = "delegate"\nnum_threads = 1\n',
}
_WARMUP = 2


class _Usage(ctypes.Structure):
    _fields_ = [("total", c_size_t), ("in_use", c_size_t), ("footprint", c_size_t)]


class _Event(ctypes.Structure):
    _fields_ = [
        *(("tag", c_char_p), ("type", c_int), ("start", c_uint64), ("microseconds", c_uint64)),
        *(("before", _Usage), ("after", _Usage), ("node", c_uint64), ("graph", c_uint64), ("source", c_int)),
    ]


class _TensorType(ctypes.Structure):
    """A dtype, the number of sizes, the sizes, and strides."""

    _fields_ = [("element", c_int), ("rank", c_uint32), ("sizes", c_int32 * 8), ("strides", c_uint32 * 8)]


class _Job(NamedTuple):
    """What is to be run.

    Attributes:
        settings: ``library``, its path; ``signature`` and ``graph``, their indices; ``inputs`` and ``outputs``, sizes
            and bytes of each; ``passes``, how many; ``length``, the bytes of the file.
        content: The bytes of the file.
        values: The bytes of each input.
    """

    settings: dict[str, Any]
    content: bytes
    values: list[bytes]


class _Library:
    """The functions of the library, which return a number that is not zero where they fail."""

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise `RuntimeError` where it fails."""
        status = getattr(self._functions, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} of LiteRT's C library failed ({status})")

    def make(self, name: str, *arguments: Any) -> c_void_p:
        """Return what a function hands out by its last argument."""
        handle = c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def count(self, name: str, *arguments: Any) -> int:
        """Return a number that a function hands out by its last argument."""
        number = c_size_t()
        self.call(name, *arguments, ctypes.byref(number))
        return number.value


class _Session:
    """A model that is ready to run, with buffers for its inputs and outputs; the end of the process frees all."""

    def __init__(self, library: _Library, job: _Job) -> None:
        self._library, self._signature = library, c_size_t(job.settings["signature"])
        self._environment = library.make("LiteRtCreateEnvironment", 0, None)
        self._kept: list[Any] = [ctypes.create_string_buffer(job.content, len(job.content))]
        content = self._kept[0], c_size_t(len(job.content))
        model = library.make("LiteRtCreateModelFromBuffer", self._environment, *content)
        self._compiled = library.make("LiteRtCreateCompiledModel", self._environment, model, self._make_options())
        self._entry = library.make("LiteRtGetModelSignature", model, self._signature)
        for index, (sizes, _) in enumerate(job.settings["inputs"]):
            tensor = self._compiled, self._signature, c_size_t(index)
            resized = (c_int * len(sizes))(*sizes), c_size_t(len(sizes))
            library.call("LiteRtCompiledModelResizeInputTensorNonStrict", *tensor, *resized)
        self._inputs, self._outputs = (
            (c_void_p * len(shapes))(
                *[self._make_buffer(side, index, *shape).value for index, shape in enumerate(shapes)]
            )
            for side, shapes in (("Input", job.settings["inputs"]), ("Output", job.settings["outputs"]))
        )
        for buffer, values in zip(self._inputs, job.values, strict=True):
            self._fill(c_void_p(buffer), values)

    def _make_options(self) -> c_void_p:
        options = self._library.make("LiteRtCreateOptions")
        self._library.call("LiteRtSetOptionsHardwareAccelerators", options, _CPU)
        leave = ctypes.CFUNCTYPE(None, c_void_p)(lambda address: None)
        self._kept.append(leave)
        for name, text in _SETTINGS.items():
            self._kept.append(ctypes.create_string_buffer(text))
            address = ctypes.cast(self._kept[-1], c_void_p)
            self._library.call(
                "LiteRtAddOpaqueOptions", options, self._library.make("LiteRtCreateOpaqueOptions", name, address, leave)
            )
        return options

    def _make_buffer(self, side: str, index: int, sizes: list[int], length: int) -> c_void_p:
        """Return a new buffer for an input or output of these sizes and bytes."""
        kind = _TensorType()
        tensor = self._library.make(f"LiteRtGetSignature{side}TensorByIndex", self._entry, c_size_t(index))
        self._library.call("LiteRtGetRankedTensorType", tensor, ctypes.byref(kind))
        kind.rank, kind.sizes = len(sizes), (c_int32 * 8)(*sizes)
        needed = self._library.make(
            f"LiteRtGetCompiledModel{side}BufferRequirements", self._compiled, self._signature, c_size_t(index)
        )
        size = max(self._library.count("LiteRtGetTensorBufferRequirementsBufferSize", needed), length)
        return self._library.make(
            *("LiteRtCreateManagedTensorBuffer", self._environment, _HOST_MEMORY),
            *(ctypes.byref(kind), c_size_t(size)),
        )

    def _fill(self, buffer: c_void_p, values: bytes) -> None:
        """Write values into a buffer."""
        address = c_void_p()
        self._library.call("LiteRtLockTensorBuffer", buffer, ctypes.byref(address), _TO_WRITE)
        ctypes.memmove(address, values, len(values))
        self._library.call("LiteRtUnlockTensorBuffer", buffer)

    def run(self) -> None:
        """Run one pass."""
        self._library.call(
            *("LiteRtRunCompiledModel", self._compiled, self._signature),
            *(c_size_t(len(self._inputs)), self._inputs, c_size_t(len(self._outputs)), self._outputs),
        )

    def profile(self, passes: int, graph: int) -> list[dict[str, Any]]:
        """Return the seconds of each pass, and the operators of a graph that ran in it."""
        for _ in range(_WARMUP):
            self.run()
        profiler = self._library.make("LiteRtCompiledModelGetProfiler", self._compiled)
        told = []
        for _ in range(passes):
            self._library.call("LiteRtStartProfiler", profiler)
            self.run()
            self._library.call("LiteRtStopProfiler", profiler)
            number = c_int()
            self._library.call("LiteRtGetNumProfilerEvents", profiler, ctypes.byref(number))
            events = (_Event * number.value)()
            self._library.call("LiteRtGetProfilerEvents", profiler, number, events)
            told.append(_read_pass(events, graph))
        return told


def _read_pass(events: Any, graph: int) -> dict[str, Any]:
    """Return the seconds of a pass, and its operators in the order in which they ran.

    An operator has its name, the index of the operator of the file that it is, None for one of a delegate's, and its
    seconds.
    """
    operators = [
        (event.tag.decode(errors="replace"), event.node if event.type == _OWN else None, event.microseconds / 1e6)
        for event in events
        if event.type in (_OWN, _DELEGATED) and event.graph == graph
    ]
    whole = max((event.microseconds / 1e6 for event in events if event.type == 1 and event.tag == b"Invoke"), default=0)
    return {"seconds": max(whole, sum(seconds for *_, seconds in operators)), "operators": operators}


def _read_job(told: bytes) -> _Job:
    """Return a job from its settings as a line of JSON, the bytes of the file, and those of the inputs."""
    line, _, rest = told.partition(b"\n")
    settings = json.loads(line)
    lengths = [settings["length"], *(length for _, length in settings["inputs"])]
    ends = list(accumulate(lengths))
    content, *values = [rest[end - length : end] for length, end in zip(lengths, ends, strict=True)]
    return _Job(settings, content, values)


def main() -> None:
    """Run the job that the standard input holds, and write what ran; an error is one line of standard error."""
    job = _read_job(sys.stdin.buffer.read())
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no result
    try:
        session = _Session(_Library(job.settings["library"]), job)
        results.write(json.dumps(session.profile(job.settings["passes"], job.settings["graph"])))
        results.close()
    except (AttributeError, OSError, RuntimeError) as error:  # a function that is missing, a library that does not load
        sys.exit(str(error))


if __name__ == "__main__":
    main()
