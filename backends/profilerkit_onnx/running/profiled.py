"""Passes under the profiler of onnxruntime: the events of each pass, of the operators and of the pass as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from profilerkit.process.files import write_bytes

from .runs import make_call

__all__ = ["ProfiledPass", "RanKernel", "profile_passes", "read_passes", "switch_profiler_on"]

#: What the profiler adds to the name of a node.
_KERNEL = "_kernel_time"
#: How many microseconds, in which the profiler counts, a second has.
_MICROSECONDS = 1e6
#: Operators that hold graphs, whose nodes the profiler lists too.
_WITH_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")


class RanKernel(NamedTuple):
    """A node of the graph that ran in a pass.

    Attributes:
        name: The name of the node.
        operator: Its operator; its name where the profiler does not tell the operator.
        seconds: How long it ran.
        facts: What else the profiler says of it, by its own names: "provider", "mem_bytes_requested_in_use".
    """

    name: str
    operator: str
    seconds: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ProfiledPass:
    """One pass.

    Attributes:
        kernels: The nodes of the graph that ran, in order; a loop is one of them, with all that ran inside.
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
    """Return so many passes of a session, after one that warms it up; its profile ends with them.

    Args:
        session: A session that was made in a block of `switch_profiler_on`, in which this is called too.
        feeds: The inputs by name.
        passes: How many passes.
        device: The device of the session.
        inputs: What an error names.
        export: Where to write the profiler's own file of all passes; none is kept unless given.
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
    """Return the passes in a profile. The event of each pass, ``model_run``, comes after those of its nodes."""
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
    """Return the events in order of time, without what ran in the graph inside another operator, such as a loop."""
    kept: list[Mapping[str, Any]] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        around = kept[-1] if kept else None
        if around is None or not _has_graph(around) or event["ts"] >= around["ts"] + around["dur"]:
            kept.append(event)
    return kept


def _has_graph(event: Mapping[str, Any]) -> bool:
    return event["args"].get("op_name") in _WITH_GRAPHS
