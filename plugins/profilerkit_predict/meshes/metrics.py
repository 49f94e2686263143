"""The memory, work and communication of one rank of a mesh in a training step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

from profilerkit import ModelTrace, Noted, ProfilerFunction, Unavailable
from profilerkit.backend import Backend
from profilerkit.backend_kit.optimizers import OptimizerBytes, optimizer_bytes
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.trace.layer_paths import describe_layers, walk_outwards
from profilerkit.trace.records import LayerRecord, LayerTable, distinct
from profilerkit.trace.table import Table
from profilerkit_metrics.training import TrainingMemory, find_optimizer_bytes, find_step_memory

from ..rank_metrics import (
    KEYS,
    CollectiveBytes,
    Collectives,
    RankGradientBytes,
    RankOptimizerBytes,
    RankParameterBytes,
    RankPeakLayers,
    RankPeakMemory,
    RankPeakParts,
    RankStep,
)
from .records import Purpose, RankTrace, sum_parts


class ComputeRank(ProfilerFunction):
    """Traces a training step of one rank of a mesh, in a separate process, without the other ranks."""

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
        kept = _RankOptimizer(backend, model, step, optimizer)
        state = kept.find_state()
        memory = find_step_memory(trace, state, optimizer, backend)
        peak, unknown_state = kept.divide_peak(state)
        missing = step.list_unknown()
        sent = sum(collective.sent_bytes for collective in step.collectives)
        table = Table([asdict(collective) for collective in step.collectives])
        return {
            RankParameterBytes.NAME: Noted(sum(weight.bytes for weight in trace.parameters), step.description),
            RankGradientBytes.NAME: step.gradient_bytes,
            RankOptimizerBytes.NAME: _show_state(state, optimizer),
            RankPeakMemory.NAME: memory[TrainingMemory.NAME],
            RankPeakParts.NAME: qualify(sum_parts(peak), unknown_state),
            RankPeakLayers.NAME: qualify(LayerTable(list_layer_rows(trace.layers, peak)), unknown_state),
            CollectiveBytes.NAME: qualify(sent, missing),
            Collectives.NAME: qualify(table, missing),
            RankStep.NAME: step,
        }


class _RankOptimizer(NamedTuple):
    """The optimizer of a rank, and the bytes that it keeps as its backend tells them."""

    backend: Backend
    model: Any
    step: RankTrace
    #: Its name or class; None if none was given.
    optimizer: Any

    def _count_bytes(self, *layers: LayerRecord) -> OptimizerBytes | str:
        """Return the bytes for the weights of layers, or the reason why they are not known."""
        return find_optimizer_bytes(self.backend, self.model, replace(self.step.trace, layers=layers), self.optimizer)

    def find_state(self) -> OptimizerBytes | str:
        """Return the bytes for all weights of the rank, or for the partitions that the optimizer updates instead."""
        share = self.step.optimizer_share
        if share is None or self.optimizer is None:
            return self._count_bytes(*self.step.trace.layers)
        state = self._count_bytes(LayerRecord("", "partitions", 0, share.weights))
        if isinstance(state, str):
            return state
        return state._replace(state=state.state + share.copy_bytes, update=state.update + share.update_bytes)

    def divide_peak(self, state: OptimizerBytes | str) -> tuple[Mapping[Purpose, int], tuple[str, ...]]:
        """Return the bytes at the peak by purpose, and the unknown parts of the optimizer's state."""
        if isinstance(state, str):
            return find_peak(self.step, 0, {}), (state,)
        states = {"": state.state}
        if self.step.optimizer_share is None:
            states = self._divide_state(state.state)
        return find_peak(self.step, state.update, states), (state.missing,) if state.missing else ()

    def _divide_state(self, whole: int) -> dict[str, int]:
        """Return the bytes of the optimizer's state by layer; all of them for the model if layers do not tell.

        A weight that several layers have counts for the first.
        """
        states: dict[str, int] = {}
        by_look: dict[tuple[Any, ...], OptimizerBytes | str] = {}  # layers that look alike are asked for once
        layers = self.step.trace.layers
        owners = {weight.identity: layer.path for layer in reversed(layers) for weight in layer.parameters}
        for layer in layers:
            weights = tuple(weight for weight in distinct(layer.parameters) if owners[weight.identity] == layer.path)
            look = tuple((weight.shape, weight.count, weight.dtype, weight.trainable) for weight in weights)
            if look not in by_look:
                by_look[look] = self._count_bytes(LayerRecord("", layer.type, 0, weights))
            state = by_look[look]
            if isinstance(state, OptimizerBytes) and state.state:
                states[layer.path] = state.state
        return states if sum(states.values()) == whole else {"": whole}


def _show_state(state: OptimizerBytes | str, optimizer: Any) -> Any:
    if isinstance(state, str):
        return Unavailable(state)
    if optimizer is None:
        return Unavailable("no optimizer was given; give one: optimizer='adamw'")
    return state.state


def find_peak(step: RankTrace, update_bytes: int, states: Mapping[str, int]) -> Counter[Purpose]:
    """Return the bytes at the peak of a step by purpose, with the optimizer's ``states`` by layer.

    The update of the weights needs ``update_bytes`` temporarily.
    """
    update = Counter(step.left) + Counter({Purpose("update", ""): update_bytes})
    most = max(Counter(step.peak), update, key=Counter.total)
    return most + Counter({Purpose("optimizer", path): size for path, size in states.items()})


def list_layer_rows(layers: Sequence[LayerRecord], peak: Mapping[Purpose, int]) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer: its bytes, in total and by part of memory; also without the layers inside."""
    parts = Counter[str]()
    own_sizes: dict[str, Counter[str]] = {layer.path: Counter() for layer in layers}
    for purpose, size in peak.items():
        own_sizes[_find_row(purpose.layer, own_sizes)][purpose.part] += size
        parts[purpose.part] += size
    whole_sizes: dict[str, Counter[str]] = {path: Counter() for path in own_sizes}
    for path, sizes in own_sizes.items():
        for around in walk_outwards(path):
            if around in whole_sizes:
                whole_sizes[around].update(sizes)
    columns = {part: f"{part.replace(' ', '_')}_bytes" for part, _ in parts.most_common()}
    for row in describe_layers({layer.path: layer.type for layer in layers}).values():
        whole, alone = whole_sizes[row["path"]], own_sizes[row["path"]]
        yield {
            **row,
            "peak_bytes": whole.total(),
            "own_peak_bytes": alone.total(),
            **{column: whole[part] for part, column in columns.items()},
            **{f"own_{column}": alone[part] for part, column in columns.items()},
        }


def _find_row(path: str, rows: Container[str]) -> str:
    """Return the innermost layer with a row around this layer, or around all that a path names: ``norm, head``."""
    first, *others = [list(walk_outwards(one)) for one in path.split(", ")]
    return next(outer for outer in first if outer in rows and all(outer in around for around in others))
