"""`DeviceInfo`: one device as data, each figure with the address that it was read from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from ..error_text import shown
from ..errors import ArgumentError, nearest

__all__ = ["DTYPES", "DeviceInfo", "Figure", "dtype_name"]

#: The names of dtypes in files of devices, each with its other names. ``tf32`` is a mode of float32 products: a device
#: has a peak for it beside the peak of float32.
DTYPES: Mapping[str, tuple[str, ...]] = {
    "float64": ("fp64", "f64", "double", "complex128"),
    "float32": ("fp32", "f32", "float", "complex64"),
    "tf32": ("tensorfloat32", "float32_tensor"),
    "float16": ("fp16", "f16", "half"),
    "bfloat16": ("bf16",),
    "float8": ("fp8", "f8", "e4m3", "e5m2"),
    "float6": ("fp6",),
    "float4": ("fp4", "nvfp4", "mxfp4", "e2m1"),
    "int8": ("i8", "uint8", "qint8", "quint8"),
    "int4": ("i4", "uint4"),
}

#: The layouts of the bits of small floats, as frameworks write them: "float8_e4m3fn", "float4_e2m1fn_x2".
_LAYOUT = re.compile(r"(float[468]|fp[468]|f8)_?e\d+m\d+[a-z0-9]*(_x2)?")
_BY_NAME = {other: name for name, others in DTYPES.items() for other in (name, *others)}


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype as files of devices have it: "bfloat16" for "bf16" and "torch.bfloat16".

    >>> dtype_name("bf16"), dtype_name("torch.float16"), dtype_name("float8_e4m3fn")
    ('bfloat16', 'float16', 'float8')

    Raises `ArgumentError` for a text that is no dtype of products, with the nearest name.
    """
    name = _find_name(dtype)
    if name is None:
        likely = nearest(_write_plain(dtype), _BY_NAME)
        hint = f"did you mean {likely!r}? " if likely else ""
        raise ArgumentError(f"dtype={shown(dtype)} is no dtype of products; {hint}there are: {', '.join(DTYPES)}")
    return name


def is_dtype(dtype: object) -> bool:
    """Say whether files of devices can have a peak for a dtype.

    >>> is_dtype("bf16"), is_dtype("int16"), is_dtype("bf16_sparse")
    (True, False, False)
    """
    return _find_name(dtype) is not None


def _find_name(dtype: object) -> str | None:
    """Return the name of a dtype in files of devices; None if they have none."""
    text = _write_plain(dtype)
    layout = _LAYOUT.fullmatch(text)
    return _BY_NAME.get(layout[1] if layout else text)


def _write_plain(dtype: object) -> str:
    """Return a dtype as a text without the name of a framework: "float16" for "torch.float16"."""
    return str(dtype).rpartition(".")[2].strip().lower()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a device, and where it is from.

    Attributes:
        value: The figure, in base units.
        source: The address that it was read from, or how it was measured.
        note: How it was computed from the figure at the source: "half of the figure with sparsity".
        spread: For a measured figure, the share by which repetitions differed: 0.05 for 5 %; None if read.
    """

    value: float
    source: str
    note: str = ""
    spread: float | None = None

    def __post_init__(self) -> None:
        value: object = self.value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(self.value) or self.value <= 0:
            raise ArgumentError(f"value={shown(value)}: a figure of a device is a number above zero, in base units")
        if not isinstance(self.source, str) or not self.source.strip():
            raise ArgumentError(f"the figure {self.value:g} has no source: give the address that it was read from")


@dataclass(frozen=True)
class DeviceInfo:
    """One device: its peaks, its memory and its bandwidths. Unknown figures are absent, or None.

    Attributes:
        name: Its name: "h100-sxm".
        title: Its name in words: "NVIDIA H100 SXM5 80 GB".
        kind: "gpu", "tpu", "npu" (of Gaudi and Trainium) or "cpu".
        aliases: Other names, such as the one that its driver reports.
        dense_peaks: Floating-point operations per second of dense products, two for each multiply-accumulate, by dtype.
        sparse_peaks: The same for products with 2:4 sparse weights; never used for dense ones.
        figures: Everything else, by name: "memory_bandwidth" and "link_bandwidth" (bytes per second; of the link, both
            directions together), "memory_size" (bytes), "launch_overhead" (seconds per kernel), "dispatch" (seconds of
            the host per operator), "clock", "memory_clock" (hertz), "power" (watts).
        tier: "data sheet", or "calibrated" if the figures were measured.
        facts: Other records: versions, conditions of a measurement.
        calibration: The tables of a calibrated device, as its file has them; predictions read them.
    """

    HOOK: ClassVar[str] = "profilerkit_devices"
    WHAT: ClassVar[str] = "device"

    name: str
    title: str = ""
    kind: str = "gpu"
    aliases: tuple[str, ...] = ()
    dense_peaks: Mapping[str, Figure] = field(default_factory=dict)
    sparse_peaks: Mapping[str, Figure] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tier: str = "data sheet"
    facts: Mapping[str, str] = field(default_factory=dict)
    calibration: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ArgumentError(f"name={shown(self.name)}: give the name of the device as a text")
        for name in ("dense_peaks", "sparse_peaks"):
            peaks: dict[str, Figure] = {}
            for dtype, figure in getattr(self, name).items():
                if peaks.setdefault(dtype_name(dtype), figure) is not figure:
                    raise ArgumentError(f"{name} has two figures for {dtype_name(dtype)}; give one, under one name")
            object.__setattr__(self, name, MappingProxyType(peaks))
        for name in ("figures", "facts"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(self, "aliases", tuple(self.aliases))
        for dtype, figure in self.sparse_peaks.items():
            dense = self.dense_peaks.get(dtype)
            if dense is not None and dense.value > figure.value:
                raise ArgumentError(
                    f"the device {self.name!r} has a dense peak of {dense.value:g} FLOP/s for {dtype}, above its "
                    f"sparse one of {figure.value:g}: are the two exchanged?"
                )

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.tier))

    def __reduce__(self) -> tuple[object, ...]:  # a mappingproxy cannot be pickled
        peaks = dict(self.dense_peaks), dict(self.sparse_peaks), dict(self.figures)
        texts = self.name, self.title, self.kind, self.aliases
        return type(self), (*texts, *peaks, self.tier, dict(self.facts), self.calibration)

    def peak(self, dtype: object) -> float | None:
        """Return the FLOP/s of dense products in a dtype ("bf16", "torch.bfloat16"); None if that is not known."""
        figure = self.dense_peaks.get(dtype_name(dtype))
        return None if figure is None else figure.value

    def figure(self, name: str) -> float | None:
        """Return one of ``figures`` as a number; None if it is not known."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second between the device and its memory; None if that is not known."""
        return self.figure("memory_bandwidth")

    @property
    def memory(self) -> float | None:
        """Bytes of the device's memory; None if that is not known."""
        return self.figure("memory_size")

    @property
    def link(self) -> float | None:
        """Bytes per second between two devices of this kind, both directions together; None if not known."""
        return self.figure("link_bandwidth")

    @property
    def launch_overhead(self) -> float | None:
        """Seconds that each kernel takes beside its work; None if that is not known."""
        return self.figure("launch_overhead")

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)

    def all_figures(self) -> Iterator[tuple[str, Figure]]:
        """Yield every figure with its name: "dense_peaks.bfloat16", "memory_bandwidth"."""
        yield from ((f"dense_peaks.{dtype}", figure) for dtype, figure in self.dense_peaks.items())
        yield from ((f"sparse_peaks.{dtype}", figure) for dtype, figure in self.sparse_peaks.items())
        yield from self.figures.items()
