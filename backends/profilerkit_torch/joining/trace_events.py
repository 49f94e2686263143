"""The events of torch.profiler's Chrome JSON: what ran on the host, what ran on devices, and what started it.

As torch 1.8 to 2.13 write it: ``cpu_op`` are operators and nodes of the gradient's graph, ``user_annotation`` ranges,
``python_function`` calls of functions and modules (with stacks), ``kernel`` and ``gpu_mem*`` what ran on a device. That
has the ``correlation`` of the driver's call that started it. Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from profilerkit_predict.joining.reading import ProfileFile

from ..operator_timing.events import ENGINE_PREFIX, LAYER_RANGE, PASS_RANGE

__all__ = [
    "STEP_RANGE",
    "DeviceEvent",
    "Frame",
    "HostEvent",
    "Kind",
    "make_frames",
    "split_events",
]

#: What the names of the steps of the profiler's own schedule begin with; the number of the step follows.
STEP_RANGE = "ProfilerStep#"
#: What torch 1.8 calls nodes of the gradient's graph; later versions have the engine's event around them.
_OLD_NODE = re.compile(r"torch::autograd::\w+|\w+Backward\d*")
_MODULE = "nn.Module: "
_OPERATORS = ("cpu_op", "Operator")
_DRIVER = ("cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "privateuse1_runtime")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")

#: Seconds by which the sum of a begin and a duration may miss what it is.
_ROUNDING = 5e-10


class Kind(Enum):
    """What an event of the host is."""

    PASS = "a pass"
    LAYER = "a call of a layer, whose path is the name"
    MODULE = "a call of a module, with its class and number as the name"
    RANGE = "a range of the user's"
    NODE = "a node of the gradient's graph"
    OPERATOR = "an operator"
    DRIVER = "a call of the device's driver"


#: What the names of events of a kind begin with.
_PREFIXES = {Kind.MODULE: _MODULE, Kind.LAYER: LAYER_RANGE, Kind.NODE: ENGINE_PREFIX}


class HostEvent(NamedTuple):
    """An event of the host; times are in seconds."""

    kind: Kind
    name: str
    thread: tuple[Any, Any]
    start: float
    end: float
    args: Mapping[str, Any]


class DeviceEvent(NamedTuple):
    """What ran on a device; times are in seconds."""

    name: str
    start: float
    end: float
    correlation: Any
    external: Any


@dataclass(eq=False)
class Frame:
    """An event of the host, in what was under way in its thread when it began.

    Attributes:
        event: The event.
        outer: What it ran in; None for an outermost one.
        inside: The seconds of the operators that it called.
        layer: The path of the layer that it works for; None if that is not known.
    """

    event: HostEvent
    outer: Frame | None
    inside: float = 0.0
    layer: str | None = None

    @property
    def around(self) -> Iterator[Frame]:
        """The frame itself and those around it, the innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer

    @property
    def outer_frames(self) -> Iterable[Frame]:
        """The frames around it, the innermost first."""
        return () if self.outer is None else self.outer.around

    @property
    def is_backward(self) -> bool:
        """Whether it runs in a node of the gradient's graph."""
        return any(frame.event.kind is Kind.NODE for frame in self.around)

    @property
    def is_work(self) -> bool:
        """Whether its time is that of an operator."""
        return self.event.kind in (Kind.OPERATOR, Kind.NODE, Kind.DRIVER)

    @property
    def seconds(self) -> float:
        """Its own seconds, without the operators that it called."""
        return max(self.event.end - self.event.start - self.inside, 0.0)


def split_events(profile: ProfileFile, paths: frozenset[str]) -> tuple[list[HostEvent], list[DeviceEvent]]:
    """Return the events of the host and of devices, each in order of time; ranges named as ``paths`` are layers."""
    host, device = list[HostEvent](), list[DeviceEvent]()
    timed = list(profile.list_timed())
    origin = min((event["ts"] for event in timed), default=0.0)  # seconds since the start of a machine lose digits
    for event in timed:
        category, args = event.get("cat"), event.get("args")
        args = args if isinstance(args, dict) else {}
        start = (event["ts"] - origin) / 1e6
        end = start + event["dur"] / 1e6
        if category in _DEVICE:
            external = args.get("External id", args.get("external id"))
            device.append(DeviceEvent(event["name"], start, end, args.get("correlation"), external))
            continue
        kind = _find_kind(str(category), event["name"], paths)
        if kind is not None:
            name = event["name"].removeprefix(_PREFIXES.get(kind, ""))
            host.append(HostEvent(kind, name, (event.get("pid"), event.get("tid")), start, end, args))
    return host, sorted(device, key=lambda event: event.start)


def _find_kind(category: str, name: str, paths: frozenset[str]) -> Kind | None:
    """Return what an event of the host is, by its category and name; None for what is not looked at."""
    if category == "python_function":
        return Kind.MODULE if name.startswith(_MODULE) else None
    if category in _DRIVER:
        return Kind.DRIVER
    if category not in (*_OPERATORS, "user_annotation"):
        return None
    if name == PASS_RANGE or name.startswith(STEP_RANGE):
        return Kind.PASS
    if name.startswith(LAYER_RANGE) or (name and name in paths):
        return Kind.LAYER
    if name.startswith(ENGINE_PREFIX) or (category == "Operator" and _OLD_NODE.fullmatch(name)):
        return Kind.NODE
    return Kind.RANGE if category == "user_annotation" else Kind.OPERATOR


def make_frames(events: Sequence[HostEvent]) -> list[Frame]:
    """Return a frame for each event, in order of time: an event is inside of those of its thread that lie around it."""
    stacks: dict[tuple[Any, Any], list[Frame]] = {}
    frames = []
    for event in sorted(events, key=lambda event: (event.start, -event.end, event.kind is not Kind.PASS)):
        stack = stacks.setdefault(event.thread, [])
        while stack and stack[-1].event.end <= event.start + _ROUNDING:
            stack.pop()
        frame = Frame(event, stack[-1] if stack else None)
        frames.append(frame)
        stack.append(frame)
        caller = next((outer for outer in frame.outer_frames if outer.is_work), None) if frame.is_work else None
        if caller is not None:
            caller.inside += event.end - event.start
    return frames
