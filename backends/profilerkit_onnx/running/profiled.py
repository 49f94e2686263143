"""Passes under the profiler of onnxruntime: the seconds of each operator and pass, and the memory that one takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from onnx import ModelProto

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.process.files import write_bytes

from .runs import make_call, make_feeds
from .sessions import make_options, make_session

__all__ = ["ProfiledPass", "RanKernel", "measure_memory", "profile_passes", "read_passes", "switch_profiler_on"]

#: The suffix that the profiler adds to the name of a node.
_KERNEL = "_kernel_time"
#: How many microseconds, in which the profiler counts, a second has.
_MICROSECONDS = 1e6
#: Operators that hold graphs, whose nodes the profiler lists too.
_WITH_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")


class RanKernel(NamedTuple):
    """A node of the graph that ran in a pass.

    Attributes:
        name: The name of the node.
        operator: Its operator; its name if the profiler does not tell the operator.
        seconds: How long it ran.
        facts: Further facts by the profiler's names: "provider", "mem_bytes_requested_in_use".
    """

    name: str
    operator: str
    seconds: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ProfiledPass:
    """One pass.

    Attributes:
        kernels: The nodes of the graph that ran, in order; a loop is one node, with everything that ran inside.
        seconds: How long the pass took.
    """

    kernels: list[RanKernel]
    seconds: float


@contextmanager
def switch_profiler_on(options: Any) -> Iterator[None]:
    """Have sessions that are made with these options in the block write a profile, for `profile_passes`."""
    with TemporaryDirectory(prefix="profilerkit-") as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "passes"))
        yield


def profile_passes(
    session: Any,
    feeds: Mapping[str, Any],
    passes: int,
    device: str,
    inputs: object,
    export: str | PathLike[str] | None = None,
) -> list[ProfiledPass]:
    """Return so many passes of a session, after one pass of warm-up; its profile ends with them.

    Args:
        session: A session that was made in a block of `switch_profiler_on`; this function runs in the same block.
        feeds: The inputs by name.
        passes: How many passes.
        device: The device of the session.
        inputs: The inputs that an error describes.
        export: The path for the profiler's own file of all passes; None keeps no file.
    """
    try:
        call = make_call(session, feeds, device, inputs)
        for _ in range(passes + 1):
            call()
    finally:
        written = Path(session.end_profiling())
    if export is not None:
        write_bytes(export, written.read_bytes())
    return read_passes(json.loads(written.read_text(encoding="utf-8")))[1:]


def read_passes(events: Iterable[Mapping[str, Any]]) -> list[ProfiledPass]:
    """Return the passes in a profile. The event of each pass, ``model_run``, comes after the events of its nodes."""
    passes: list[ProfiledPass] = []
    nodes: list[Mapping[str, Any]] = []
    for event in events:
        if event.get("cat") == "Node" and event.get("name", "").endswith(_KERNEL):
            nodes.append(event)
        elif event.get("name") == "model_run":
            kernels = [_read_kernel(node) for node in _leave_out_inner(nodes)]
            passes.append(ProfiledPass(kernels, event["dur"] / _MICROSECONDS))
            nodes = []
    return passes


def _read_kernel(event: Mapping[str, Any]) -> RanKernel:
    name, facts = event["name"].removesuffix(_KERNEL), event["args"]
    return RanKernel(name, str(facts.get("op_name", name)), event["dur"] / _MICROSECONDS, facts)


def _leave_out_inner(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events in order of time, without events in the graph inside another operator, such as a loop."""
    kept: list[Mapping[str, Any]] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        around = kept[-1] if kept else None
        has_graph = around is not None and around["args"].get("op_name") in _WITH_GRAPHS
        if around is None or not has_graph or event["ts"] >= around["ts"] + around["dur"]:
            kept.append(event)
    return kept


#: The profiler's names for the bytes in use after an operator, and for the bytes that the operator has added.
_IN_USE, _ADDED = "mem_bytes_requested_in_use", "mem_requested_in_use_delta"


def measure_memory(model: ModelProto, inputs: ModelInputs, level: str, device: str) -> int:
    """Return the most bytes in use after an operator: the bytes in use in the arena, and the inputs of the caller.

    The weights, which the arena holds from the beginning, are subtracted. Bytes that an operator requests and frees
    inside are not seen. The arena plans nothing ahead here, because a plan would be requested all at once. Raises
    `NotOfferedError` if the profiler of the runtime does not tell the bytes in use in its arena.
    """
    feeds = make_feeds(model, inputs)
    options = make_options(level)
    options.enable_mem_pattern = False
    with switch_profiler_on(options):
        [single] = profile_passes(make_session(model, options, device, inputs), feeds, 1, device, inputs)
    usage = [kernel.facts for kernel in single.kernels]
    if not usage or any(_IN_USE not in facts or _ADDED not in facts for facts in usage):
        raise NotOfferedError(
            "the profiler of the installed onnxruntime does not tell what its arena has given out; a newer one does"
        )
    before = int(usage[0][_IN_USE]) - int(usage[0][_ADDED])
    most = max(int(facts[_IN_USE]) for facts in usage)
    arrays = [array for value in feeds.values() for array in (value if isinstance(value, (list, tuple)) else [value])]
    return most - before + sum(int(array.nbytes) for array in arrays)
