"""The events of torch.profiler's Chrome JSON: events of the host, events of devices, and the links between them.

Torch 1.8 to 2.13 write: operators and nodes of the gradient's graph as ``cpu_op``, ranges as ``user_annotation``, and
events of a device as ``kernel`` and ``gpu_mem*``. Events of a device have the ``correlation`` of the driver's call that
started them. Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from profilerkit_predict.joining.reading import ProfileFile

from ..operator_timing.events import ENGINE_PREFIX, LAYER_RANGE, PASS_RANGE, Event, EventKind

__all__ = ["STEP_RANGE", "DeviceEvent", "read_operator_id", "split_events"]

#: The prefix of the names of the steps of the profiler's own schedule; the number of the step follows.
STEP_RANGE = "ProfilerStep#"
#: The names of nodes of the gradient's graph in torch 1.8; later versions have the engine's event around them.
_OLD_NODE = re.compile(r"torch::autograd::\w+|\w+Backward\d*")
_OPERATORS = ("cpu_op", "Operator")
_DRIVER = ("cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "privateuse1_runtime")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
#: The prefix of the names of events by kind.
_PREFIXES = {EventKind.LAYER: LAYER_RANGE, EventKind.NODE: ENGINE_PREFIX}


class DeviceEvent(NamedTuple):
    """A kernel, or a memory operation, on a device; times are in seconds."""

    name: str
    start: float
    end: float
    correlation: Any
    external: Any


def split_events(profile: ProfileFile, paths: frozenset[str]) -> tuple[list[Event], list[DeviceEvent]]:
    """Return the events of the host, and of devices in order of time; ranges with names in ``paths`` are layers."""
    timed = list(profile.list_timed())
    origin = min((event["ts"] for event in timed), default=0.0)  # large times would lose digits
    on_devices = (_read_device_event(event, origin) for event in timed if event.get("cat") in _DEVICE)
    on_host = (_read_host_event(event, origin, paths) for event in timed if event.get("cat") not in _DEVICE)
    return [event for event in on_host if event is not None], sorted(on_devices, key=lambda event: event.start)


def _read_device_event(event: Mapping[str, Any], origin: float) -> DeviceEvent:
    args = _read_args(event)
    return DeviceEvent(event["name"], *_read_span(event, origin), args.get("correlation"), read_operator_id(args))


def _read_host_event(event: Mapping[str, Any], origin: float, paths: frozenset[str]) -> Event | None:
    """Return an event of the host; None for an event that is left out."""
    kind = _find_kind(str(event.get("cat")), event["name"], paths)
    if kind is None:
        return None
    name = event["name"].removeprefix(_PREFIXES.get(kind, ""))
    args = _read_args(event)
    number = args.get("Sequence number")
    number = number if isinstance(number, int) else -1
    return Event(kind, name, (event.get("pid"), event.get("tid")), *_read_span(event, origin), number, args=args)


def _read_args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _read_span(event: Mapping[str, Any], origin: float) -> tuple[float, float]:
    """Return the seconds at which an event begins and ends."""
    start = (event["ts"] - origin) / 1e6
    return start, start + event["dur"] / 1e6


def read_operator_id(args: Mapping[str, Any]) -> Any:
    """Return the id of an operator, or of the operator that started an event; None if the profile has none."""
    return args.get("External id", args.get("external id"))


def _find_kind(category: str, name: str, paths: frozenset[str]) -> EventKind | None:
    """Return the kind of an event of the host, by its category and name; None for an event that is left out."""
    if category in _DRIVER:
        return EventKind.DRIVER
    if category not in (*_OPERATORS, "user_annotation"):
        return None
    if name == PASS_RANGE or name.startswith(STEP_RANGE):
        return EventKind.PASS
    if name.startswith(LAYER_RANGE) or (name and name in paths):
        return EventKind.LAYER
    if name.startswith(ENGINE_PREFIX) or (category == "Operator" and _OLD_NODE.fullmatch(name)):
        return EventKind.NODE
    return EventKind.RANGE if category == "user_annotation" else EventKind.OPERATOR
