"""A calibration: the measurements of a machine, and their form as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from profilerkit.devices.info import DeviceInfo
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, DeviceFileError
from profilerkit.trace.dtypes import element_bytes

from .cases import CompiledSeconds, HostSeconds
from .kinds import list_stand_ins
from .tables import EfficiencyTable, Point

#: The version of the tables in a file.
_FORMAT = 3
#: The share of networks that an interval is to hold.
COVERED = 0.9
#: So many networks of a phase correct predictions. With fewer, an interval spans this factor on each side.
_LEAST_NETWORKS, _WITHOUT_NETWORKS = 3, 3.0
#: The least factor on each side of an interval by too few networks for the share that it is to hold.
_WITH_FEW_NETWORKS = 2.0
#: The end of the names of the phases of compiled networks, in files too.
_COMPILED = ", compiled"


def name_phase(phase: str, compiled: bool) -> str:
    """Return the name of a phase in a calibration: "training", or "training, compiled" for a compiled network."""
    return f"{phase}{_COMPILED}" if compiled else phase


@dataclass(frozen=True, slots=True)
class Network:
    """A small network that was run and predicted: its name, family and phase, and the ratio of both times."""

    name: str
    #: Its family: "convolutional".
    family: str
    #: "forward" or "training", with ", compiled" for a compiled network.
    phase: str
    #: Measured seconds over predicted seconds.
    ratio: float

    @property
    def is_compiled(self) -> bool:
        """Whether it ran as a compiled graph."""
        return self.phase.endswith(_COMPILED)


class Corrected(NamedTuple):
    """Estimated seconds, and the ends of their interval."""

    estimate: float
    low: float
    high: float


class Correction(NamedTuple):
    """By which factors networks take longer than their operators add up to: in the middle, and at both ends."""

    middle: float
    low: float
    high: float

    def correct(self, seconds: float, bound: float) -> Corrected:
        """Return the estimate for operators of so many seconds; nothing is below the bound.

        The upper end is as far above the estimate if the bound lifts that.
        """
        estimate = max(seconds * self.middle, bound)
        return Corrected(estimate, max(min(seconds * self.low, estimate), bound), estimate * self.high / self.middle)


@dataclass(frozen=True)
class Calibration:
    """The tables of a device, the seconds of its host for each operator and layer, and the errors for networks.

    Attributes:
        tables: A table for each kind of product or family of traffic and dtype.
        dispatch: Seconds that the host takes for one operator, a product.
        host: Seconds that the host takes for calls of layers, views, gradients and compiled graphs.
        networks: Networks that were both measured and predicted; intervals and the correction follow from them.
        backend: The framework, with its version.
    """

    tables: tuple[EfficiencyTable, ...]
    dispatch: float
    host: HostSeconds
    networks: tuple[Network, ...] = ()
    backend: str = ""

    @classmethod
    def of(cls, device: DeviceInfo) -> Calibration | None:
        """Return the calibration of a device; None without one.

        Raises `DeviceFileError` if it cannot be read.
        """
        content = device.calibration
        if content is None:
            return None
        if content.get("format") != _FORMAT:
            raise DeviceFileError(
                f"the calibration of {device.name} has format {shown(content.get('format'))}, and this version reads "
                f"{_FORMAT}; make it anew with 'profilerkit calibrate'"
            )
        try:
            host, compiled = (
                {key: float(value) for key, value in content.get(name, {}).items()} for name in ("host", "compiled")
            )
            return cls(
                tuple(map(_read_table, content["tables"])),
                float(content["dispatch"]),
                HostSeconds(**host, compiled=CompiledSeconds(**compiled) if compiled else None),
                tuple(Network(**network) for network in content.get("networks", ())),
                str(content.get("backend", "")),
            )
        except (KeyError, TypeError, ValueError, ArgumentError) as error:
            raise DeviceFileError(
                f"the calibration of {device.name} cannot be read ({error}); make it anew with 'profilerkit calibrate'"
            ) from error

    def table(self, kind: str, dtype: str) -> EfficiencyTable | None:
        """Return the table of a kind in a dtype, of the nearest kind that there is, or None."""
        tables = {table.kind: table for table in self.tables if table.dtype == dtype}
        return next((tables[name] for name in list_stand_ins(kind) if name in tables), None)

    def peak(self, dtype: str) -> float | None:
        """Return the best rate of any product in a dtype; efficiencies are shares of this rate."""
        rates = [table.best_rate for table in self.tables if table.dtype == dtype and table.is_of_products]
        return max(rates, default=None)

    def best_bandwidth(self, working_set: float) -> float | None:
        """Return the best rate of bytes that was measured with a working set of about that size or more.

        Products count too: one row times a large matrix reads memory faster than traffic that also writes does. Above
        the largest traffic that was measured all is taken to come from memory.
        """
        traffic = [table for table in self.tables if table.kind in ("element-wise", "movement")]
        products = [table for table in self.tables if table.kind in ("product", "batched product")]
        largest = max((point.sizes[0] for table in traffic for point in table.points), default=working_set)
        least = min(working_set, largest) / 2
        rates = [table.rate_at(working_set) for table in traffic]
        for table in products:
            for point in table.points:
                moved = _count_moved_bytes(point, table.dtype)
                if moved >= least:
                    rates.append(moved / point.seconds)
        return max(rates, default=None)

    def is_corrected(self, phase: str) -> bool:
        """Return whether enough networks ran in a phase to correct predictions by."""
        return sum(network.phase == phase for network in self.networks) >= _LEAST_NETWORKS

    def correction(self, phase: str) -> Correction:
        """Return by which factor networks take longer than predicted in a phase; see `name_phase`.

        The middle is the median ratio of the networks. The ends hold 9 of 10 further networks if they are like these
        (split conformal prediction: Vovk and others, Algorithmic Learning in a Random World, 2005); with fewer than
        nine networks the interval is widened to a factor of two.
        """
        ratios = [math.log(network.ratio) for network in self.networks if network.phase == phase]
        if not self.is_corrected(phase):
            return Correction(1.0, 1 / _WITHOUT_NETWORKS, _WITHOUT_NETWORKS)
        middle = median(ratios)
        offsets = sorted(abs(ratio - middle) for ratio in ratios)
        rank = math.ceil((len(offsets) + 1) * COVERED)
        width = offsets[rank - 1] if rank <= len(offsets) else max(offsets[-1], math.log(_WITH_FEW_NETWORKS))
        return Correction(math.exp(middle), math.exp(middle - width), math.exp(middle + width))


def _count_moved_bytes(point: Point, dtype: str) -> float:
    """Return the bytes of both factors and the output of a product."""
    batch, rows, columns, depth = point.sizes
    return batch * (rows * depth + depth * columns + rows * columns) * element_bytes(dtype)


def write_content(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as the file of its device has it; `Calibration.of` reads it."""
    host = dict(vars(calibration.host))
    compiled: CompiledSeconds | None = host.pop("compiled")
    return {
        "format": _FORMAT,
        "backend": calibration.backend,
        "dispatch": calibration.dispatch,
        "host": host,
        **({} if compiled is None else {"compiled": dict(vars(compiled))}),
        "networks": [{name: getattr(network, name) for name in Network.__slots__} for network in calibration.networks],
        "tables": [
            {"kind": table.kind, "dtype": table.dtype, "points": list(map(_write_point, table.points))}
            for table in calibration.tables
        ],
    }


def _write_point(point: Point) -> list[float]:
    """Return a point as a file has it: its sizes, then four other numbers."""
    return [*map(float, point.sizes), point.work, point.seconds, point.spread, point.host_seconds]


def _read_table(content: Mapping[str, Any]) -> EfficiencyTable:
    """Return a table from its content in a file, with points as `_write_point` writes them."""
    points = tuple(Point(tuple(row[:-4]), *row[-4:]) for row in content["points"])
    return EfficiencyTable(str(content["kind"]), str(content["dtype"]), points)
