"""Numbers of a model by dtype: its products, and the bits that a parameter is stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from profilerkit import Metric, Partial, ProfilerFunction, Scale, Unavailable
from profilerkit.devices import macs_by_dtype
from profilerkit.piping.function import Keys
from profilerkit.piping.quantity import scale_value
from profilerkit.trace.bounds import UNKNOWN_ENDS
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

__all__ = ["BitsPerParam", "ComputeNumbersByDtype", "MacsByDtype"]


class MacsByDtype(Metric):
    """Multiply-accumulates of one forward pass by the dtype that they run in, as a mapping.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["macs_by_dtype"])["macs_by_dtype"]
    {'float32': 16}
    """

    NAME: str = "macs_by_dtype"
    FRIENDLY_NAME: str = "MACs by dtype"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    GROWS: bool = True
    FORMULA: str = (
        "macs of the operators whose first output has the dtype, or whose factors have it if they are narrower"
    )
    OMISSIONS: str = "arithmetic other than multiply-accumulates, as macs does"
    SOURCE: str = "profilerkit's own definition"

    def show(self) -> str:
        """Write each dtype with its count."""
        if not isinstance(self.value, Mapping):
            return ""
        return ", ".join(f"{dtype} {scale_value(count, 'MACs', Scale.SI)}" for dtype, count in self.value.items())


class BitsPerParam(Metric):
    """Average bits of storage for one element of the parameters.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2).half(), input_shape=(8,), metrics=["bits_per_param"])["bits_per_param"]
    16.0
    """

    NAME: str = "bits_per_param"
    FRIENDLY_NAME: str = "Bits per parameter"
    UNIT: str = "bit"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "8 * bytes of the distinct parameters / their elements"
    OMISSIONS: str = "buffers, such as scales that a quantized layer keeps beside its weights"
    SOURCE: str = "profilerkit's own definition"


class ComputeNumbersByDtype(ProfilerFunction):
    """Counts products by dtype, and the bits of a parameter. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (MacsByDtype, BitsPerParam)
    ON_DEMAND: ClassVar[bool] = True

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both values."""
        return {MacsByDtype.NAME: macs_by_dtype(trace), BitsPerParam.NAME: _compute_bits(trace)}


def _compute_bits(trace: ModelTrace) -> Any:
    """Return the bits of a parameter; of no end if only the first call makes some parameters."""
    if not trace.total_params:
        return Unavailable(trace.unmade_weights or "the model has no parameters")
    bits = 8 * sum(weight.bytes for weight in trace.parameters) / trace.total_params
    return Partial(bits, (trace.unmade_weights,), UNKNOWN_ENDS) if trace.unmade_weights else bits
