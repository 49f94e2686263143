"""How much of a device a model uses: MFU and HFU of its arithmetic, MBU of its memory.

The definitions are the usual ones. Only products count (matrix products, convolutions, attention, recurrent gates),
never element-wise operations; attention counts in full, with any mask, unless ``attention="attended"`` is given; the
peak is the dense peak of the dtype that each product runs in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from profilerkit import ArgumentError, DeviceInfo, Measurement, Noted, ProfilerFunction, Scale, Unavailable
from profilerkit.arguments.checks import Check, at_least
from profilerkit.backend import Backend, RunOptions
from profilerkit.devices import DeviceInfoLike, UnknownPeakError, device, macs_by_dtype, seconds_at_peak
from profilerkit.errors import NotOfferedError
from profilerkit.piping.function import Keys
from profilerkit.piping.quantity import scale_value
from profilerkit.protocols import NamesDevices, require_capability
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .attended_macs import describe_modes
from .kinds import Share

__all__ = [
    "ComputeMbu",
    "ComputeMfu",
    "ComputeTrainingUtilization",
    "Mbu",
    "Mfu",
    "Peak",
    "TrainingHfu",
    "TrainingMfu",
    "choose_device",
]

#: Why a count of some layers is not divided by the time of all.
_NOT_ALL_LAYERS = "ignore= leaves layers out of the counts, but not out of the time; profile without ignore="
#: How attention may be counted.
Attention: TypeAlias = Literal["full", "attended"]


class Mfu(Share):
    """Share of the device's dense peak that the products of one forward pass reach.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["mfu"], peaks_of="h100", num_iters=3)
    >>> 0 < report["mfu"].median < 1
    True
    """

    NAME: str = "mfu"
    FRIENDLY_NAME: str = "MFU"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "sum over dtypes of 2 * macs / dense peak, divided by the execution time"
    OMISSIONS: str = "element-wise operations; sparse peaks are never used"
    SOURCE: str = "model FLOPs utilization: Chowdhery and others, PaLM, 2022, appendix B"


class TrainingMfu(Share):
    """Share of the device's dense peak that the products of one training step reach, without recomputation.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_mfu"], peaks_of="h100", num_iters=3)
    >>> 0 < report["training_mfu"].median < 1
    True
    """

    NAME: str = "training_mfu"
    FRIENDLY_NAME: str = "Training MFU"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "sum over dtypes of 2 * macs / dense peak of forward and gradients, divided by the training time"
    OMISSIONS: str = "element-wise operations; what activation checkpoints compute again; the optimizer"
    SOURCE: str = "model FLOPs utilization: Chowdhery and others, PaLM, 2022, appendix B"


class TrainingHfu(Share):
    """Share of the device's dense peak that the products of one training step reach, with recomputation.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_hfu"], peaks_of="h100", num_iters=3)
    >>> 0 < report["training_hfu"].median < 1
    True
    """

    NAME: str = "training_hfu"
    FRIENDLY_NAME: str = "Training HFU"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "as training_mfu, with what activation checkpoints compute again"
    OMISSIONS: str = "element-wise operations; what fused attention computes again inside its kernel; the optimizer"
    SOURCE: str = "hardware FLOPs utilization: Korthikanti and others, Reducing Activation Recomputation, 2022"


class Mbu(Share):
    """Share of the bandwidth of the device's memory that reading the weights and the cache takes in one forward pass.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["mbu"], peaks_of="h100", num_iters=3)
    >>> 0 < report["mbu"].median < 1
    True
    """

    NAME: str = "mbu"
    FRIENDLY_NAME: str = "MBU"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "(bytes of weights + bytes of the cache) / (execution time * bandwidth)"
    OMISSIONS: str = "activations; a cache that cache_bytes= does not name"
    SOURCE: str = (
        "model bandwidth utilization: Agarwal and others, LLM Inference Performance Engineering, Databricks, 2023"
    )


class ComputeMfu(ProfilerFunction):
    """Computes the MFU of a forward pass from its execution time. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (Mfu,)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        trace: ModelTrace,
        execution_time: Measurement,
        run_options: RunOptions,
        peaks_of: DeviceInfoLike | None = None,
        dtype: str | None = None,
        attention: Attention = "full",
    ) -> Any:
        """Return the share as a measurement; unavailable if layers are left out of the trace.

        Args:
            model: The model.
            backend: The model's backend.
            trace: The model's trace.
            execution_time: The time of one pass.
            run_options: How the model was run.
            peaks_of: The device whose peak speeds are used: a `DeviceInfo`, a name, or the path of a file. Default: the
                device of the model.
            dtype: The dtype that the products run in, if it is not the one in the trace: "tf32", or under autocast.
            attention: The scores of attention that count: "full" counts the whole square, "attended" only the scores up
                to the diagonal of causal attention.
        """
        if run_options.training:
            return Unavailable("a training step was timed: training_mfu is its share")
        peak = Peak.choose(model, backend, run_options, peaks_of, dtype)
        return peak.compute_share(trace, execution_time, attention)


class ComputeTrainingUtilization(ProfilerFunction):
    """Computes MFU and HFU of a training step from its time. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (TrainingMfu, TrainingHfu)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        training_trace: ModelTrace,
        training_time: Measurement,
        run_options: RunOptions,
        peaks_of: DeviceInfoLike | None = None,
        dtype: str | None = None,
        attention: Attention = "full",
    ) -> dict[str, Any]:
        """Return both shares as measurements; for ``peaks_of``, ``dtype`` and ``attention`` see `ComputeMfu`."""
        peak = Peak.choose(model, backend, run_options, peaks_of, dtype)
        return {
            TrainingMfu.NAME: peak.compute_share(training_trace, training_time, attention, recomputed=False),
            TrainingHfu.NAME: peak.compute_share(training_trace, training_time, attention),
        }


class ComputeMbu(ProfilerFunction):
    """Computes the MBU of a forward pass from its execution time. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (Mbu,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"cache_bytes": at_least(0)}
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __call__(
        self,
        model: Any,
        backend: Backend,
        trace: ModelTrace,
        execution_time: Measurement,
        run_options: RunOptions,
        peaks_of: DeviceInfoLike | None = None,
        cache_bytes: int = 0,
    ) -> Any:
        """Return the share as a measurement; unavailable for a training step, and if layers are left out.

        Args:
            model: The model.
            backend: The model's backend.
            trace: The model's trace.
            execution_time: The time of one pass.
            run_options: How the model was run.
            peaks_of: That of `ComputeMfu`.
            cache_bytes: The bytes of a cache that the pass reads, in addition to the weights.
        """
        if trace.left_out:
            return Unavailable(_NOT_ALL_LAYERS)
        if run_options.training:
            return Unavailable("a training step was timed, which reads more than the weights")
        source = choose_device(model, backend, run_options, peaks_of)
        bandwidth = source.bandwidth
        if bandwidth is None:
            return Unavailable(f"the bandwidth of {source.name} is not known; give a described device with peaks_of=")
        moved = trace.size_bytes // _count_devices(trace) + cache_bytes
        return Noted(
            moved / (execution_time * bandwidth),
            f"of {bandwidth:.4g} B/s of {source.name} ({source.tier}); {moved:,} bytes of weights and cache",
        )


def choose_device(model: Any, backend: Backend, options: RunOptions, requested: DeviceInfoLike | None) -> DeviceInfo:
    """Return the device whose figures count: the requested one, or the one that the model runs on."""
    if requested is not None:
        return device(requested)
    return require_capability(backend, NamesDevices).device_info(backend.resolve_device(model, options.device))


class Peak(NamedTuple):
    """The dense peaks of a device, and the dtype of all products; None if each has its dtype in the trace."""

    device: DeviceInfo
    dtype: str | None

    @classmethod
    def choose(
        cls, model: Any, backend: Backend, options: RunOptions, requested: DeviceInfoLike | None, dtype: str | None
    ) -> Peak:
        """Return the peaks of the device that counts; raises `NotOfferedError` if autocast chose the dtype."""
        if dtype is None and "autocast" in options.requested:
            if options.autocast is True:
                raise NotOfferedError("autocast chose the dtype of the products: give it, dtype='bf16'")
            dtype = str(options.autocast)
        return cls(choose_device(model, backend, options, requested), dtype)

    def compute_share(
        self, trace: ModelTrace, time: Measurement, attention: Attention, *, recomputed: bool = True
    ) -> Noted | Unavailable:
        """Return the share of the peak that the products of a trace reach in a time, with a note on counted products.

        With ``recomputed``, products that activation checkpoints compute again count again. For ``attention`` see
        `ComputeMfu`.
        """
        if attention not in get_args(Attention):
            raise ArgumentError(f"attention={attention!r}: give {' or '.join(map(repr, get_args(Attention)))}")
        if trace.left_out:
            return Unavailable(_NOT_ALL_LAYERS)
        macs = macs_by_dtype(trace, recomputed=recomputed, attended=attention == "attended")
        devices = _count_devices(trace)
        try:
            share = seconds_at_peak(macs, self.device, self.dtype) / devices / time
        except UnknownPeakError as error:
            return Unavailable(str(error))
        notes = [self._describe_products(macs)]
        notes += ["attention counts in full"] if attention == "full" else describe_modes(trace)
        if devices > 1:
            notes.append(f"{devices} ranks share the work, each with this peak")
        if share.median > 1:
            notes.append("above 1: these are not the peaks of the device or of the dtype that the model ran with")
        return Noted(share, "; ".join(notes))

    def _describe_products(self, macs: Mapping[str, int]) -> str:
        """Return the device, and how many products of each dtype count."""
        name, tier = self.device.name, self.device.tier
        counts = [f"{scale_value(count, 'MACs', Scale.SI)} in {self.dtype or dtype}" for dtype, count in macs.items()]
        return f"of the dense peak of {name} ({tier}); {', '.join(counts) or 'no products'}"


def _count_devices(trace: ModelTrace) -> int:
    """Return how many devices share the work of a pass: one, or the ranks of a mesh if the counts are of all ranks.

    The time is measured on one device, so the share is computed from the peaks of so many devices.
    """
    return 1 if trace.rank is None else trace.rank.work_shared_by
