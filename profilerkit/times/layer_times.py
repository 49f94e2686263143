"""The time of each layer, forward and backward: the measurements of a backend, and the table made of them.

The table's columns: ``path``, ``type``, ``depth``, ``is_leaf``, ``calls``, ``forward_seconds`` and ``backward_seconds``
(with the layers inside), ``own_forward_seconds`` and ``own_backward_seconds`` (without), ``overhead_seconds`` and
``missing``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from types import TracebackType
from typing import Any

from ..errors import by_likeness
from ..trace.layer_paths import count_depth, describe_layers, nearest_around
from ..trace.records import LayerTable
from ..trace.table import Table
from .measurement import Measurement

__all__ = ["NOT_CALLED", "CallTime", "LayerTime", "LayerTimeTable", "LayerTimer", "layer_time_table"]


#: The columns of seconds, in their order.
_COLUMNS = ("forward_seconds", "backward_seconds", "own_forward_seconds", "own_backward_seconds")
#: The reason why a layer has no time if neither the layer nor a layer inside it was called.
NOT_CALLED = "it was not called; where its weights are used, the layer around it has the time"


@dataclass(frozen=True, slots=True)
class CallTime:
    """Seconds of one call of a layer in one pass, with and without the layers inside; None if there was no pass.

    Passes and the calls of a pass are counted from 0.
    """

    pass_index: int
    call: int
    forward: float | None
    own_forward: float | None
    backward: float | None = None
    own_backward: float | None = None


@dataclass(frozen=True)
class LayerTime:
    """Seconds of a layer's own work, without the layers inside it, in each of several passes.

    Attributes:
        path: The path of the layer.
        type: The name of its class.
        calls: The number of calls in one pass; the seconds are the sum of them.
        own_forward: The seconds of each forward pass.
        own_backward: The seconds of each backward pass; None if none was timed.
        missing: A text about work that the times leave out.
        overhead: The seconds that the measurement added to this layer in a pass, which are already subtracted from all
            others; None if unknown.
        each_call: The single calls, if the backend can distinguish them.
    """

    path: str
    type: str
    calls: int
    own_forward: tuple[float, ...]
    own_backward: tuple[float, ...] | None = None
    missing: str = ""
    overhead: float | None = None
    each_call: tuple[CallTime, ...] = ()


class LayerTimer(ABC):
    """Times the layers of a model while the user's own code runs it, inside a ``with`` block."""

    @abstractmethod
    def __enter__(self) -> LayerTimer:
        """Begin. The times of earlier blocks are kept."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End and restore the model. An error of the block continues."""

    @abstractmethod
    def times(self) -> Sequence[LayerTime]:
        """Return the time of each layer in each pass so far; nothing if there was none."""

    @property
    def table(self) -> LayerTimeTable:
        """The times as a table; without rows if there was no pass."""
        return layer_time_table(self.times())


class LayerTimeTable(LayerTable):
    """One row for each layer: seconds as medians over the passes. The table also keeps the samples."""

    def __init__(self, times: Sequence[LayerTime]) -> None:
        _require_equal_passes(times)
        self.times: tuple[LayerTime, ...] = tuple(times)
        own_forward = {time.path: time.own_forward for time in times}
        own_backward = {time.path: time.own_backward for time in times if time.own_backward is not None}
        calls = {time.path: time.calls for time in times}
        seconds = {
            "forward_seconds": _add_layers_inside(own_forward),
            "backward_seconds": _add_layers_inside(own_backward),
            "own_forward_seconds": own_forward,
            "own_backward_seconds": own_backward,
        }
        #: The samples of each layer, by column and path: of layers that ran in that direction, or hold one that did.
        self._samples = {
            column: {path: samples for path, samples in layers.items() if calls[path] or any(samples)}
            for column, layers in seconds.items()
        }
        super().__init__(self._list_layer_rows())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.times,)

    def samples(self, path: str, column: str = "forward_seconds") -> tuple[float, ...]:
        """Return the seconds of a layer in each pass, the empty path being the whole model; none if it never ran.

        ``column`` is one of ``forward_seconds``, ``backward_seconds``, ``own_forward_seconds`` and
        ``own_backward_seconds``. Raises `ValueError` for another, and `KeyError` for a layer that the table lacks.
        """
        if column not in self._samples:
            nearest = ", ".join(by_likeness(column, self._samples))
            raise ValueError(f"column {column!r} has no samples; those that have are: {nearest}")
        self[path]  # an unknown layer is said with the nearest
        return self._samples[column].get(path, ())

    def measurement(self, path: str, column: str = "forward_seconds") -> Measurement:
        """Return the seconds of a layer as a `Measurement`: its median, interval, percentiles and noise.

        Raises the errors of `samples`, and `ValueError` if it has none.
        """
        samples = self.samples(path, column)
        if not samples:
            why = "it was not called" if self._samples[column] else "no backward pass was timed"
            raise ValueError(f"{column} of layer {path!r} has no samples: {why}")
        return Measurement(samples)

    @property
    def statistics(self) -> Table:
        """One row for each layer and column of seconds, with the statistics of all its samples.

        The columns are ``path``, ``type``, ``column`` (``forward_seconds`` and so on), ``samples``, ``median``,
        ``mean``, ``std``, ``min``, ``max``, ``p90``, ``low`` and ``high`` (the interval of the median) and ``noise``.
        """
        return Table(
            {"path": time.path, "type": time.type, "column": column, **_compute_statistics(samples[time.path])}
            for time in self.times
            for column, samples in self._samples.items()
            if time.path in samples
        )

    @property
    def iterations(self) -> LayerTable:
        """One row for each call of each layer in each pass, in the order of the layers.

        The columns are ``path``, ``type``, ``pass``, ``call`` and the four columns of seconds. If the backend does not
        distinguish calls, a row stands for all calls of a pass, and its ``call`` is None.
        """
        return LayerTable(row for time in self.times for row in self._list_iterations(time))

    def _list_iterations(self, time: LayerTime) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of `iterations` for a layer: none if it was never called."""
        identity = {"path": time.path, "type": time.type}
        for call in time.each_call:
            seconds = (call.forward, call.backward, call.own_forward, call.own_backward)
            columns = dict(zip(_COLUMNS, seconds, strict=True))
            yield {**identity, "pass": call.pass_index, "call": call.call, **columns}
        if any(other.each_call for other in self.times):
            return
        samples = [self._samples[column].get(time.path, ()) for column in _COLUMNS]
        for index, whole_pass in enumerate(zip_longest(*samples)):  # None for a direction that was not timed
            yield {**identity, "pass": index, "call": None, **dict(zip(_COLUMNS, whole_pass, strict=True))}

    def _list_layer_rows(self) -> Iterator[Mapping[str, Any]]:
        identities = describe_layers({time.path: time.type for time in self.times})
        for time in self.times:
            samples = {column: self._samples[column].get(time.path) for column in _COLUMNS}
            yield {
                **identities[time.path],
                "calls": time.calls,
                **{column: median(seconds) if seconds else None for column, seconds in samples.items()},
                "overhead_seconds": time.overhead,
                "missing": time.missing,
            }


def _compute_statistics(samples: tuple[float, ...]) -> dict[str, float]:
    value = Measurement(samples)
    low, high = value.interval
    named = {name: getattr(value, name) for name in ("median", "mean", "std", "min", "max", "p90")}
    return {"samples": len(value.samples), **named, "low": low, "high": high, "noise": value.noise}


def layer_time_table(times: Sequence[LayerTime]) -> LayerTimeTable:
    """Return one row for each layer: seconds as medians over the passes, with the layers inside and without.

    The layers inside are added for each pass, before the median is computed, because medians do not add up exactly. If
    the layer around a layer is not in ``times``, its time is added to the nearest outer layer that is. Backward seconds
    are None if no backward pass was timed, and all are None if neither a layer nor a layer inside it was called. It
    raises `ValueError` if the numbers of passes differ.
    """
    return LayerTimeTable(times)


def _require_equal_passes(times: Sequence[LayerTime]) -> None:
    forward = {len(time.own_forward) for time in times}
    backward = {len(time.own_backward) for time in times if time.own_backward is not None}
    for numbers in (forward, backward):
        if len(numbers) > 1 or 0 in numbers:
            raise ValueError(
                f"the layers were timed in {', '.join(map(str, sorted(numbers)))} passes; all must have the same "
                "number of them, and at least one"
            )


def _add_layers_inside(own_seconds: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the seconds of each layer with the seconds of the layers inside it, pass by pass."""
    whole, around = dict(own_seconds), nearest_around(own_seconds)
    for path in sorted(own_seconds, key=count_depth, reverse=True):
        parent = around[path]
        if parent is not None:
            whole[parent] = tuple(mine + theirs for mine, theirs in zip(whole[parent], whole[path], strict=True))
    return whole
