"""The metrics of one rank of a mesh: its memory, work, communication and time in a training step.

The functions that compute the metrics are in other modules, because every profiler knows all metrics by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from profilerkit import Metric, StatusKey
from profilerkit.count_text import format_count
from profilerkit.trace.completeness import TracePart
from profilerkit_metrics.kinds import Bytes, LayerRows, Seconds, write_shares

_SOURCE = "profilerkit's own definition, traced from the model's own code"
_PREDICTED = "profilerkit's own definition"


class RankParameterBytes(Bytes):
    """Bytes of the parameters that one rank of a mesh keeps between steps: its shards, and unsharded parameters."""

    NAME: str = "rank_parameter_bytes"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "sum of the elements of each parameter's share on this rank * bytes of its dtype"
    OMISSIONS: str = "weights that are gathered for a while, which rank_peak_memory has; padding of shards"
    SOURCE: str = _SOURCE


class RankGradientBytes(Bytes):
    """Bytes of the gradients that one rank of a mesh keeps for its optimizer."""

    NAME: str = "rank_gradient_bytes"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "sum of the elements of each gradient's share on this rank * bytes of its dtype, after a step"
    OMISSIONS: str = "gradients of whole weights before they are reduced, which rank_peak_memory has"
    SOURCE: str = _SOURCE


class RankOptimizerBytes(Bytes):
    """Bytes of the optimizer's state for one rank's share of the weights."""

    NAME: str = "rank_optimizer_bytes"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = (
        "the state of the optimizer for each parameter's share on this rank; with DeepSpeed's schemes also the copies "
        "of weights that it updates"
    )
    OMISSIONS: str = "counters of steps"
    SOURCE: str = _SOURCE


class RankPeakMemory(Bytes):
    """The most bytes alive at once on one rank in a training step, with the optimizer's state."""

    NAME: str = "rank_peak_memory"
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    FORMULA: str = (
        "peak over the step of the rank's weights + gathered weights + inputs + activations + gradients + buffers of "
        "collectives, and the optimizer's state"
    )
    OMISSIONS: str = "scratch memory of kernels and of the library of collectives; fragmentation"
    SOURCE: str = _SOURCE


class RankPeakParts(Metric):
    """The bytes at a rank's peak by purpose: weights, gathered weights, activations, gradients, and others."""

    NAME: str = "rank_peak_parts"
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    GROWS: bool = True
    FORMULA: str = "rank_peak_memory, divided by what the bytes are for"
    OMISSIONS: str = "as rank_peak_memory"
    SOURCE: str = _SOURCE

    def show(self) -> str:
        """Write the shares of the largest parts."""
        return write_shares(self.value) if isinstance(self.value, Mapping) else ""


class RankPeakLayers(LayerRows):
    """The bytes at a rank's peak by layer, as a `LayerTable`.

    The columns: ``peak_bytes`` of a layer with the layers inside it, and the same by purpose: ``weights_bytes``,
    ``activations_bytes``, ``gradients_bytes``, ``optimizer_bytes``, ... Columns with ``own_`` have the layer alone.
    Tensors that are gathered or reduced for several layers together count for the layer around them.
    """

    NAME: str = "rank_peak_layers"
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    FORMULA: str = "rank_peak_memory, divided by layer and by what the bytes are for"
    OMISSIONS: str = "as rank_peak_memory"
    SOURCE: str = _SOURCE


class CollectiveBytes(Bytes):
    """Bytes that one rank sends to others in a training step, around a ring."""

    NAME: str = "collective_bytes"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = (
        "sum over collectives of n ranks: the whole tensor * (n - 1) / n, twice that for an all-reduce; all of it for "
        "a broadcast and a send"
    )
    OMISSIONS: str = "collectives of a loop that the step does not have, such as the norm of gradients"
    SOURCE: str = "the ring algorithms: Patarasuk and Yuan 2009; what is exchanged is traced"


class Collectives(Metric):
    """The collectives of one rank in a training step: a row for equal collectives of a layer.

    The columns: ``layer``, ``kind``, ``dimension`` of the mesh, ``ranks``, ``phase``, ``calls``, ``bytes`` of the whole
    tensors, ``sent_bytes`` of this rank around a ring, and whether it ``overlaps``: runs beside the rank's own work.
    """

    NAME: str = "collectives"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "what the model's own code exchanges, by layer, kind, dimension of the mesh and phase"
    OMISSIONS: str = "as collective_bytes"
    SOURCE: str = _SOURCE

    def show(self) -> str:
        """Write how many there are; the table is the value."""
        if self.value is None:
            return ""
        return format_count(sum(row["calls"] for row in self.value), "call")


class RankStep(StatusKey):
    """The `RankTrace` of a training step of one rank, for functions that write files of the step."""

    NAME: str = "rank_step"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS


#: The keys of a rank.
KEYS: tuple[type[StatusKey], ...] = (
    RankParameterBytes,
    RankGradientBytes,
    RankOptimizerBytes,
    RankPeakMemory,
    RankPeakParts,
    RankPeakLayers,
    CollectiveBytes,
    Collectives,
    RankStep,
)


class CollectiveTime(Seconds):
    """Seconds that the links between devices take, at least, for the collectives of a rank's step around rings."""

    NAME: str = "collective_time"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = (
        "sum over collectives: the bytes that the rank sends around a ring / the bandwidth of its link in one "
        "direction; between nodes, if that is more, / (the group's ranks in the node * the network's bandwidth); of an "
        "all-to-all, what is for other nodes / the network's bandwidth"
    )
    OMISSIONS: str = "the latency of each collective; other jobs on the network"
    SOURCE: str = _PREDICTED


class ExposedTime(Seconds):
    """Seconds of a rank's step in which it waits for collectives, if all else runs at the device's predicted rate.

    The rank waits for each collective that the next operator needs. Collectives that gather weights and reduce
    gradients run beside the work; the rank waits for them if they take longer.
    """

    NAME: str = "exposed_time"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "seconds of collectives that are waited for + max(0, seconds of the others - seconds of the work)"
    OMISSIONS: str = "the first gathering and the last reduction, which have no work beside them"
    SOURCE: str = _PREDICTED


class RankStepTime(Seconds):
    """Seconds of a rank's training step: its work, and the collectives that it waits for."""

    NAME: str = "rank_step_time"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    GROWS: bool = True
    FORMULA: str = "predicted_training_time of the rank's own operators + exposed_time"
    OMISSIONS: str = "the optimizer's update; loading data"
    SOURCE: str = _PREDICTED


#: The metrics of the time of a rank.
TIMES = (RankStepTime, CollectiveTime, ExposedTime)
