"""What one rank of a mesh holds, computes and exchanges in a training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar

from profilerkit import Metric, ModelTrace, Noted, ProfilerFunction, Unavailable
from profilerkit.backend import Backend
from profilerkit.backend_kit.optimizers import OptimizerBytes, optimizer_bytes
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.trace.records import LayerRecord
from profilerkit.trace.table import Table
from profilerkit_metrics.kinds import Bytes
from profilerkit_metrics.training import TrainingMemory, find_optimizer_bytes, find_step_memory

from .records import RankTrace

__all__ = [
    "KEYS",
    "CollectiveBytes",
    "Collectives",
    "ComputeRank",
    "RankGradientBytes",
    "RankOptimizerBytes",
    "RankParameterBytes",
    "RankPeakMemory",
    "RankPeakParts",
]

_SOURCE = "profilerkit's own definition, traced from the model's own code"


class RankParameterBytes(Bytes):
    """Bytes of the parameters that one rank of a mesh keeps between steps: its shards, and what is not sharded."""

    NAME: str = "rank_parameter_bytes"
    FORMULA: str = "sum of the elements of each parameter's share on this rank * bytes of its dtype"
    OMISSIONS: str = "weights that are gathered for a while, which rank_peak_memory has; padding of shards"
    SOURCE: str = _SOURCE


class RankGradientBytes(Bytes):
    """Bytes of the gradients that one rank of a mesh keeps for its optimizer."""

    NAME: str = "rank_gradient_bytes"
    FORMULA: str = "sum of the elements of each gradient's share on this rank * bytes of its dtype, after a step"
    OMISSIONS: str = "gradients of whole weights before they are reduced, which rank_peak_memory has"
    SOURCE: str = _SOURCE


class RankOptimizerBytes(Bytes):
    """Bytes of the optimizer's state for one rank's share of the weights."""

    NAME: str = "rank_optimizer_bytes"
    FORMULA: str = (
        "the state of the optimizer for each parameter's share on this rank; with DeepSpeed's schemes also the copies "
        "of weights that it updates"
    )
    OMISSIONS: str = "counters of steps"
    SOURCE: str = _SOURCE


class RankPeakMemory(Bytes):
    """The most bytes alive at once on one rank in a training step, with the optimizer's state."""

    NAME: str = "rank_peak_memory"
    FORMULA: str = (
        "peak over the step of the rank's weights + gathered weights + inputs + activations + gradients + buffers of "
        "collectives, and the optimizer's state"
    )
    OMISSIONS: str = "scratch memory of kernels and of the library of collectives; fragmentation"
    SOURCE: str = _SOURCE


class RankPeakParts(Metric):
    """What the bytes at a rank's peak are for: weights, gathered weights, activations, gradients, and others."""

    NAME: str = "rank_peak_parts"
    FORMULA: str = "rank_peak_memory without the optimizer, divided by what the bytes are for"
    OMISSIONS: str = "as rank_peak_memory"
    SOURCE: str = _SOURCE

    def show(self) -> str:
        """Write the shares of the largest parts."""
        if not isinstance(self.value, Mapping) or not sum(self.value.values()):
            return ""
        largest = sorted(self.value, key=lambda name: -self.value[name])[:3]
        return ", ".join(f"{name} {self.value[name] / sum(self.value.values()):.0%}" for name in largest)


class CollectiveBytes(Bytes):
    """Bytes that one rank sends to others in a training step, around a ring."""

    NAME: str = "collective_bytes"
    FORMULA: str = (
        "sum over collectives of n ranks: the whole tensor * (n - 1) / n, twice that for an all-reduce; all of it for "
        "a broadcast and a send"
    )
    OMISSIONS: str = "collectives of a loop that the step does not have, such as the norm of gradients"
    SOURCE: str = "the ring algorithms: Patarasuk and Yuan 2009; what is exchanged is traced"


class Collectives(Metric):
    """The collectives of one rank in a training step: a row for equal ones of a layer.

    The columns: ``layer``, ``kind``, ``dimension`` of the mesh, ``ranks``, ``phase``, ``calls``, ``bytes`` of the whole
    tensors, ``sent_bytes`` of this rank around a ring, and whether it ``overlaps``: runs beside the rank's own work.
    """

    NAME: str = "collectives"
    FORMULA: str = "what the model's own code exchanges, by layer, kind, dimension of the mesh and phase"
    OMISSIONS: str = "as collective_bytes"
    SOURCE: str = _SOURCE

    def show(self) -> str:
        """Write how many there are; the table is the value."""
        if self.value is None:
            return ""
        calls = sum(row["calls"] for row in self.value)
        return f"{calls:,} calls" if calls != 1 else "1 call"


#: The metrics of a rank.
KEYS: tuple[type[Metric], ...] = (
    RankParameterBytes,
    RankGradientBytes,
    RankOptimizerBytes,
    RankPeakMemory,
    RankPeakParts,
    CollectiveBytes,
    Collectives,
)


class ComputeRank(ProfilerFunction):
    """Traces a training step of one rank of a mesh, in a process of its own, without the other ranks."""

    KEYS: ClassVar[Keys] = KEYS
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise `InputError` for the name of an unknown optimizer."""
        if isinstance(arguments.get("optimizer"), str):
            optimizer_bytes(arguments["optimizer"], ())

    def __call__(
        self, model: Any, backend: Backend, training_trace: ModelTrace, optimizer: Any = None
    ) -> dict[str, Any]:
        """Return the values.

        Args:
            model: One rank's share of a model.
            backend: Its backend.
            training_trace: The trace of a training step of the rank.
            optimizer: The optimizer whose state the rank keeps: a name such as "adamw", or a class of the framework.
        """
        step: RankTrace = backend.step  # type: ignore[attr-defined]
        trace = training_trace
        state = _find_state(backend, model, step, optimizer)
        memory = find_step_memory(replace(trace, notes=trace.notes[1:]), state, optimizer, backend)
        missing = tuple(f"{name} ({calls} calls)" for name, calls in sorted(step.unknown.items()))
        sent = sum(collective.sent_bytes for collective in step.collectives)
        table = Table([asdict(collective) for collective in step.collectives])
        note = trace.notes[0]  # of which rank all this is: said once
        return {
            RankParameterBytes.NAME: Noted(sum(weight.bytes for weight in trace.parameters), note),
            RankGradientBytes.NAME: step.gradient_bytes,
            RankOptimizerBytes.NAME: _show_state(state, optimizer),
            RankPeakMemory.NAME: memory[TrainingMemory.NAME],
            RankPeakParts.NAME: step.peak_parts,
            CollectiveBytes.NAME: qualify(sent, missing),
            Collectives.NAME: qualify(table, missing),
        }


def _find_state(backend: Backend, model: Any, step: RankTrace, optimizer: Any) -> OptimizerBytes | str:
    """Return what the optimizer keeps for what it updates, or the reason why that is not known."""
    share = step.optimizer_share
    if share is None or optimizer is None:
        return find_optimizer_bytes(backend, model, step.trace, optimizer)
    partitions = replace(step.trace, layers=(LayerRecord("", "partitions", 0, share.weights),))
    state = find_optimizer_bytes(backend, model, partitions, optimizer)
    if isinstance(state, str):
        return state
    return state._replace(state=state.state + share.copy_bytes, update=state.update + share.update_bytes)


def _show_state(state: OptimizerBytes | str, optimizer: Any) -> Any:
    if isinstance(state, str):
        return Unavailable(state)
    return Unavailable("no optimizer was given; give one: optimizer='adamw'") if optimizer is None else state.state
