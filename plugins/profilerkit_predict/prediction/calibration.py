"""A calibration: what was measured of a machine, in the file of its device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, median_high
from typing import Any

from profilerkit.devices.info import DeviceInfo, Figure
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, DeviceFileError
from profilerkit.process.cached import cached_property
from profilerkit.trace.dtypes import element_bytes

from .cases import CompiledSeconds, HostSeconds
from .tables import EfficiencyTable, Point

__all__ = ["Calibration", "Network", "name_phase", "write_content", "write_toml"]

#: The version of the tables in a file.
_FORMAT = 3
#: The share of networks that an interval is to hold.
COVERED = 0.9
#: What the phases of compiled networks end with, in files too.
_COMPILED = ", compiled"


def name_phase(phase: str, compiled: bool) -> str:
    """Return what a calibration calls a phase: "training", and of a compiled network "training, compiled"."""
    return f"{phase}{_COMPILED}" if compiled else phase


@dataclass(frozen=True, slots=True)
class Network:
    """A small network that was run and predicted: its name, family and phase, and the ratio of both times.

    Attributes:
        name: Its name.
        family: Its family: "convolutional".
        phase: "forward" or "training", with ", compiled" for a compiled network.
        ratio: Measured seconds over predicted ones.
    """

    name: str
    family: str
    phase: str
    ratio: float

    @property
    def is_compiled(self) -> bool:
        """Whether it ran as a compiled graph."""
        return self.phase.endswith(_COMPILED)


@dataclass(frozen=True)
class Calibration:
    """The tables of a device, what its host takes for each operator and layer, and how well that predicts networks.

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
        """Return the calibration of a device, None without one; raises `DeviceFileError` if it cannot be read."""
        content = device.calibration
        if content is None:
            return None
        if content.get("format") != _FORMAT:
            raise DeviceFileError(
                f"the calibration of {device.name} has format {shown(content.get('format'))}, and this version reads "
                f"{_FORMAT}; make it anew with 'profilerkit calibrate'"
            )
        try:
            return cls(
                tuple(map(_table, content["tables"])),
                float(content["dispatch"]),
                _host(content["host"], content.get("compiled")),
                tuple(Network(**network) for network in content.get("networks", ())),
                str(content.get("backend", "")),
            )
        except (KeyError, TypeError, ValueError, ArgumentError) as error:
            raise DeviceFileError(
                f"the calibration of {device.name} cannot be read ({error}); make it anew with 'profilerkit calibrate'"
            ) from error

    def table(self, kind: str, dtype: str) -> EfficiencyTable | None:
        """Return the table of a kind in a dtype, of the nearest kind that there is, or None."""
        for name in (kind, *_INSTEAD.get(kind, ())):
            for table in self.tables:
                if table.kind == name and table.dtype == dtype:
                    return table
        return None

    def peak(self, dtype: str) -> float | None:
        """Return the best rate of any product in a dtype: what efficiencies are shares of."""
        rates = [table.best_rate for table in self.tables if table.dtype == dtype and len(table.points[0].sizes) > 1]
        return max(rates, default=None)

    def best_bandwidth(self, working_set: float) -> float | None:
        """Return the best rate of bytes that was measured with a working set of about that size or more.

        Products count too: one row times a large matrix reads memory faster than traffic that also writes does. Above
        the largest traffic that was measured all is taken to come from memory.
        """
        traffic = [one_table for one_table in self.tables if one_table.kind in ("element-wise", "movement")]
        rates = [one_table.rate_at(working_set) for one_table in traffic]
        largest = max((point.sizes[0] for one_table in traffic for point in one_table.points), default=working_set)
        least = min(working_set, largest) / 2
        for table in self.tables:
            if table.kind in ("product", "batched product"):
                moved = [(_count_moved_bytes(point, table.dtype), point.seconds) for point in table.points]
                rates += [count / seconds for count, seconds in moved if count >= least]
        return max(rates, default=None)

    @cached_property
    def log_error(self) -> float:
        """The typical error of a single operator: the median of the absolute errors of all points, as a logarithm."""
        errors = [abs(error) for table in self.tables for error in table.errors]
        return median_high(errors) if errors else math.log(2)

    def is_corrected(self, phase: str) -> bool:
        """Say whether enough networks ran in a phase to correct predictions by."""
        return sum(network.phase == phase for network in self.networks) >= _LEAST_NETWORKS

    def correction(self, phase: str) -> tuple[float, float, float]:
        """Return by which factor networks take longer than predicted, in the middle, and the two ends of an interval.

        The middle is the median ratio of the networks in that phase; that of compiled ones ends with ", compiled". The
        ends hold 9 of 10 further networks if they are like these (split conformal prediction: Vovk and others,
        Algorithmic Learning in a Random World, 2005);
        with fewer than nine networks the interval is widened to a factor of two.
        """
        ratios = [math.log(network.ratio) for network in self.networks if network.phase == phase]
        if not self.is_corrected(phase):
            return 1.0, 1 / _WITHOUT_NETWORKS, _WITHOUT_NETWORKS
        middle = median(ratios)
        offsets = sorted(abs(ratio - middle) for ratio in ratios)
        rank = math.ceil((len(offsets) + 1) * COVERED)
        width = offsets[rank - 1] if rank <= len(offsets) else max(offsets[-1], math.log(2))
        return math.exp(middle), math.exp(middle - width), math.exp(middle + width)


#: So many networks of a phase correct predictions.
_LEAST_NETWORKS = 3
#: The factor that an interval spans on each side without any network.
_WITHOUT_NETWORKS = 3.0
#: Kinds that stand in for one that was not measured.
_INSTEAD = {
    "depthwise convolution": ("convolution",),
    "depthwise convolution gradient": ("convolution gradient", "depthwise convolution", "convolution", "product"),
    "convolution gradient": ("convolution", "product"),
    "recurrent gradient": ("recurrent", "product"),
    "stepwise recurrent": ("recurrent", "product"),
    "stepwise recurrent gradient": ("recurrent gradient", "stepwise recurrent", "recurrent", "product"),
    "convolution": ("product",),
    "attention": ("batched product", "product"),
    "recurrent": ("product",),
    "batched product": ("product",),
    "pooling": ("normalization", "element-wise"),
    "softmax": ("normalization", "activation", "element-wise"),
    "batch normalization": ("normalization", "element-wise"),
    "batch statistics": ("batch normalization", "normalization", "element-wise"),
    "average pooling": ("pooling", "normalization", "element-wise"),
    "upsampling": ("pooling", "normalization", "element-wise"),
    "pooling gradient": ("pooling", "normalization", "element-wise"),
    "average pooling gradient": ("average pooling", "pooling", "normalization", "element-wise"),
    "upsampling gradient": ("upsampling", "pooling", "normalization", "element-wise"),
    "softmax gradient": ("softmax", "normalization", "activation", "element-wise"),
    "batch normalization gradient": ("batch normalization", "normalization", "element-wise"),
    "normalization gradient": ("normalization", "activation", "element-wise"),
    "activation gradient": ("activation", "element-wise"),
    "normalization": ("activation", "element-wise"),
    "random": ("activation", "element-wise"),
    "activation": ("element-wise",),
    "reduction": ("element-wise",),
    "gather": ("movement", "element-wise"),
    "movement": ("element-wise",),
}


def _count_moved_bytes(point: Point, dtype: str) -> float:
    """Return the bytes of both factors and the output of a product."""
    batch, rows, columns, depth = point.sizes
    return batch * (rows * depth + depth * columns + rows * columns) * element_bytes(dtype)


def _table(content: Mapping[str, Any]) -> EfficiencyTable:
    points = tuple(Point(tuple(row[:-4]), *row[-4:]) for row in content["points"])
    return EfficiencyTable(str(content["kind"]), str(content["dtype"]), points)


def write_content(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as the file of its device has it."""
    return {
        "format": _FORMAT,
        "backend": calibration.backend,
        "dispatch": calibration.dispatch,
        "host": {name: value for name, value in vars(calibration.host).items() if name != "compiled"},
        **({} if calibration.host.compiled is None else {"compiled": dict(vars(calibration.host.compiled))}),
        "networks": [{name: getattr(network, name) for name in Network.__slots__} for network in calibration.networks],
        "tables": [
            {
                "kind": table.kind,
                "dtype": table.dtype,
                "points": [_row(point) for point in table.points],
            }
            for table in calibration.tables
        ],
    }


def _host(content: Mapping[str, Any], compiled: Mapping[str, Any] | None) -> HostSeconds:
    """Return what the host takes, from the tables of a file."""
    of_graphs = None if compiled is None else CompiledSeconds(**{name: float(compiled[name]) for name in compiled})
    return HostSeconds(**{name: float(content[name]) for name in content}, compiled=of_graphs)


def write_toml(device: DeviceInfo) -> str:
    """Return the TOML file of a calibrated device; raises `ArgumentError` for one without a calibration."""
    calibration = Calibration.of(device)
    if calibration is None:
        raise ArgumentError(f"the device {device.name} has no calibration to write")
    lines = [f"{name} = {_text(getattr(device, name))}" for name in ("name", "title", "kind", "tier")]
    lines.append(f"aliases = [{', '.join(map(_text, device.aliases))}]")
    lines += [f"{name} = {_figure(figure)}" for name, figure in device.figures.items()]
    lines += ["", "[dense_peaks]", *(f"{dtype} = {_figure(value)}" for dtype, value in device.dense_peaks.items())]
    lines += ["", "[facts]", *(f"{_text(name)} = {_text(fact)}" for name, fact in device.facts.items())]
    lines += ["", "[calibration]", f"format = {_FORMAT}", f"backend = {_text(calibration.backend)}"]
    lines.append(f"dispatch = {calibration.dispatch!r}")
    content = write_content(calibration)
    for name in ("host", "compiled"):
        if name in content:
            lines += ["", f"[calibration.{name}]", *(f"{key} = {value!r}" for key, value in content[name].items())]
    for network in calibration.networks:
        texts = [f"{name} = {_text(getattr(network, name))}" for name in ("name", "family", "phase")]
        lines += ["", "[[calibration.networks]]", *texts, f"ratio = {network.ratio!r}"]
    for table in calibration.tables:
        lines += ["", "[[calibration.tables]]", f"kind = {_text(table.kind)}", f"dtype = {_text(table.dtype)}"]
        lines.append("# each: the sizes, FLOPs or bytes, seconds, spread of the repetitions, seconds of the host")
        rows = (", ".join(f"{item:.6g}" for item in _row(point)) for point in table.points)
        lines += ["points = [", *(f"    [{row}]," for row in rows), "]"]
    return "\n".join(lines) + "\n"


def _row(point: Point) -> list[float]:
    """Return a point as a file has it."""
    return [*map(float, point.sizes), point.work, point.seconds, point.spread, point.host_seconds]


def _figure(figure: Figure) -> str:
    parts = [f"value = {figure.value!r}", f"source = {_text(figure.source)}"]
    if figure.note:
        parts.append(f"note = {_text(figure.note)}")
    if figure.spread is not None:
        parts.append(f"spread = {figure.spread:.4g}")
    return f"{{ {', '.join(parts)} }}"


def _text(text: str) -> str:
    """Return a basic string of TOML."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
