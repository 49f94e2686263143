"""What belongs to times as JSON can hold it, and back: the times of a layer, and the machine while it was measured.

Calls of a layer are rows, for there may be very many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from typing import Any

from ..times.conditions import Conditions
from ..times.layer_times import CallTime, LayerTime

__all__ = ["conditions", "layer_time", "plain_conditions", "plain_layer_time"]

#: The types of what is recorded of a machine; what is not named here is a number, and may be None.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "wall_seconds": (int, float),
    "cpu_seconds": (int, float),
    "process": (str,),
    "governor": (str, type(None)),
    **dict.fromkeys(("involuntary_switches", "cores", "threads"), (int, type(None))),
}


def plain_conditions(value: Conditions | None) -> dict[str, Any] | None:
    """Return the machine during a measurement as a mapping, None where it was not recorded."""
    return None if value is None else asdict(value)


def conditions(value: Any, where: str) -> Conditions | None:
    """Return what `plain_conditions` wrote; raises `ValueError`, naming ``where``, for what it never writes."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {value!r:.60}, no mapping")
    names = [field.name for field in fields(Conditions)]
    if unknown := value.keys() - {*names}:
        raise ValueError(f"{where}.{min(unknown)} is unknown; it can have {', '.join(names)}")
    for name in names:
        if type(value.get(name)) not in _KINDS.get(name, (int, float, type(None))):
            raise ValueError(f"{where}.{name} is {value.get(name)!r:.60}")
    return Conditions(**value)


def plain_layer_time(time: LayerTime) -> dict[str, Any]:
    """Return the times of a layer as a mapping; a call is a list of pass, call, and its four times."""
    return {
        "path": time.path,
        "layer_type": time.type,
        "calls": time.calls,
        "own_forward": list(time.own_forward),
        "own_backward": None if time.own_backward is None else list(time.own_backward),
        "missing": time.missing,
        "overhead": time.overhead,
        "each_call": [list(astuple(call)) for call in time.each_call],
    }


def layer_time(value: Any, where: str) -> LayerTime:
    """Return what `plain_layer_time` wrote; raises `ValueError`, naming ``where``, for what it never writes."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no mapping")
    for name, kind in (("path", str), ("layer_type", str), ("calls", int), ("missing", str), ("each_call", list)):
        if type(value.get(name)) is not kind:
            raise ValueError(f"{where}.{name} is {value.get(name)!r:.60}, no {kind.__name__}")
    if value["calls"] < 0:
        raise ValueError(f"{where}.calls is {value['calls']}, no number from 0")
    overhead = value.get("overhead")
    if overhead is not None and type(overhead) not in (int, float):
        raise ValueError(f"{where}.overhead is {overhead!r:.60}, no number")
    return LayerTime(
        path=value["path"],
        type=value["layer_type"],
        calls=value["calls"],
        own_forward=_seconds(value, "own_forward", where),
        own_backward=None if value.get("own_backward") is None else _seconds(value, "own_backward", where),
        missing=value["missing"],
        overhead=overhead,
        each_call=tuple(_call(call, f"{where}.each_call[{index}]") for index, call in enumerate(value["each_call"])),
    )


def _seconds(value: Mapping[str, Any], name: str, where: str) -> tuple[float, ...]:
    seconds = value.get(name)
    if not isinstance(seconds, list) or any(type(duration) not in (int, float) for duration in seconds):
        raise ValueError(f"{where}.{name} is {seconds!r:.60}, no list of numbers")
    return tuple(seconds)


def _call(value: Any, where: str) -> CallTime:
    fits = isinstance(value, list) and len(value) == 6 and all(type(number) is int for number in value[:2])
    if not fits or any(item is not None and type(item) not in (int, float) for item in value[2:]):
        raise ValueError(f"{where} is {value!r:.60}, no call of a layer")
    return CallTime(*value)
