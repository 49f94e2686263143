"""Passes under the profiler of onnxruntime: the events of each pass, of the operators and of the pass as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from profilerkit.process.files import write_bytes

from .runs import make_call

__all__ = ["ProfiledPass", "profile_passes", "read_passes"]

Event = dict[str, Any]
#: What the profiler adds to the name of a node.
_KERNEL = "_kernel_time"


@dataclass
class ProfiledPass:
    """The events of one pass.

    Attributes:
        nodes: Those of the operators of the graph, in order; of a loop the one of the loop itself, with all inside.
        seconds: How long the pass took.
    """

    nodes: list[Event] = field(default_factory=list)
    seconds: float = 0.0


def profile_passes(
    options: Any,
    make_session: Callable[[], Any],
    feeds: Mapping[str, Any],
    passes: int,
    device: str,
    inputs: object,
    export: str | PathLike[str] | None = None,
) -> list[ProfiledPass]:
    """Return the events of so many passes, after one that warms the session up.

    Args:
        options: The options of the session, before it is made.
        make_session: Makes the session.
        feeds: The inputs by name.
        passes: How many passes.
        device: The device of the session.
        inputs: What an error names.
        export: Where to write the profiler's own file of all passes; none is kept unless given.
    """
    with TemporaryDirectory(prefix="profilerkit-") as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "passes"))
        session = make_session()
        try:
            call = make_call(session, feeds, device, inputs)
            for _ in range(passes + 1):
                call()
        finally:
            written = session.end_profiling()
        events = json.loads(Path(written).read_text(encoding="utf-8"))
        if export is not None:
            write_bytes(export, Path(written).read_bytes())
    return read_passes(events)[1:]


def read_passes(events: list[Event]) -> list[ProfiledPass]:
    """Return the events of each pass; that of the pass comes after those of its operators."""
    passes, current = list[ProfiledPass](), list[Event]()
    for event in events:
        if event.get("cat") == "Node" and event.get("name", "").endswith(_KERNEL):
            current.append({**event, "name": event["name"].removesuffix(_KERNEL)})
        elif event.get("name") == "model_run":
            passes.append(ProfiledPass(_leave_out_inner(current), event["dur"] / 1e6))
            current = []
    return passes


def _leave_out_inner(events: list[Event]) -> list[Event]:
    """Return the events in order of time, without what ran in the graph inside another operator, such as a loop."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        around = kept[-1] if kept else None
        if around is None or not _has_graph(around) or event["ts"] >= around["ts"] + around["dur"]:
            kept.append(event)
    return kept


def _has_graph(event: Event) -> bool:
    return event["args"].get("op_name") in ("If", "Loop", "Scan", "SequenceMap")
