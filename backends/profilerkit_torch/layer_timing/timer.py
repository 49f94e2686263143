"""The seconds of each layer, forward and backward, while any code runs the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from torch import nn

from profilerkit import ArgumentError
from profilerkit.arguments.checks import at_least
from profilerkit.error_text import shown
from profilerkit.times.layer_times import LayerTime, LayerTimer

from ..compat.autograd import read_current_task
from ..model.inventory import Inventory
from ..model.modules import list_layers
from ..untouched.caller_context import apart, require_no_tracing
from .clocks import EventClock, HostClock, choose_clock
from .graph_hooks import GraphHooks, list_graph_outputs
from .measured_overhead import measure_overhead
from .remarks import ELSEWHERE, Remark, find_unseen_layers, list_remarks
from .results import sum_layer_times
from .time_recorder import CallRecorder
from .timed_calls import Overhead, TimedRun
from .timeline import Timeline

__all__ = ["SECOND_GRADIENTS", "TorchLayerTimer", "layer_times"]

SECOND_GRADIENTS = "with create_graph=True gradients have gradients, whose time is in no layer or a wrong one"
#: More events than these are worked off before the times are read.
_MANY = 200_000


def layer_times(model: nn.Module, keep: int = 100) -> TorchLayerTimer:
    """Return a context manager that times every layer of the model while the block runs, forward and backward.

    After the block its ``table`` has a row for each layer. Every call of the model is a pass; several passes in one
    block, or in several blocks with the same timer, are samples, of which the last ``keep`` are kept. A backward pass
    counts for the pass whose outputs it came through. Layers that the block calls without the model are one pass until
    a backward pass has come through them. The timer changes neither the model's mode nor its inputs; changes that the
    block makes to the model stay.

    >>> import torch
    >>> from profilerkit_torch import layer_times
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True))
    >>> with layer_times(model) as timer:
    ...     model(torch.ones(1, 4)).sum().backward()
    >>> [row["path"] for row in timer.table if row["calls"] == 1]
    ['', '0', '1']
    """
    return TorchLayerTimer(model, keep)


class TorchLayerTimer(LayerTimer):
    """Times the layers of a model inside a ``with`` block; see `layer_times`.

    While it is active, each module has in its ``__dict__`` a replacement of the function that calls it, and autograd's
    nodes have hooks. Both are removed at the end. The time that the measurement adds is measured before, on calls that
    do nothing, and subtracted; a caller's own clock can be given together with the time that it adds.
    """

    def __init__(
        self,
        model: nn.Module,
        keep: int = 100,
        clock: HostClock | EventClock | None = None,
        overhead: Overhead | None = None,
    ) -> None:
        keep = at_least(1, "a whole number from 1: at least one pass must be kept to tell its times")("keep", keep)
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"model={shown(model)}: give a torch.nn.Module")
        require_no_tracing()
        self.layers: list[tuple[str, nn.Module]] = list_layers(model)
        indices = {id(module): index for index, (_, module) in enumerate(self.layers)}
        #: Each module once, by the index of one of its layers.
        self._modules: Mapping[int, nn.Module] = {index: self.layers[index][1] for index in indices.values()}
        self._unseen = find_unseen_layers(model)
        self.clock: HostClock | EventClock = clock or choose_clock(tensor.device for tensor in Inventory(model).tensors)
        self._overhead = overhead
        if overhead is None and clock is None:
            with apart():
                self._overhead = measure_overhead(self.clock)
        self._recorder = CallRecorder(self.clock, self._forget_failed_passes, self._hook_graph)
        self._timeline = Timeline(self.layers, self._overhead, self.clock, keep)
        self._hooks = GraphHooks(self._recorder.events.append, self.clock.read, self._timeline.runs.has_made)
        self._active: ExitStack | None = None

    def __enter__(self) -> TorchLayerTimer:
        """Begin; the times of this block are added to the times of earlier blocks."""
        require_no_tracing()
        if self._active is not None:
            raise RuntimeError(
                "this timer runs already: leave its block first, or make another with layer_times(model)"
            )
        timed = {index: module for index, module in self._modules.items() if id(module) not in self._unseen}
        with ExitStack() as stack:
            stack.enter_context(self._hooks.follow(self.layers))
            stack.enter_context(self._recorder.note_calls(timed))
            self._active = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; stand-ins and hooks are taken away, and an error of the block passes through."""
        active, self._active = self._active, None
        if active is not None:
            active.close()
        self.runs()  # their moments become seconds

    def times(self) -> Sequence[LayerTime]:
        """Return the time of each layer in each pass so far that has not failed."""
        runs = self.runs()
        backward = [run if run.has_backward else None for run in runs]
        note = "" if any(backward) else "no backward pass came through it"
        if self.has_second_gradients:
            note = f"its backward time is a lower bound: {SECOND_GRADIENTS}"
        return self.sum_times(runs, backward, note) if runs else []

    def sum_times(
        self, forward: Sequence[TimedRun], backward: Sequence[TimedRun | None], note: str = ""
    ) -> list[LayerTime]:
        """Return the time of each layer in the forward passes of some runs and the backward passes of others.

        There are as many of both, None for a run without a backward pass. ``note`` names the gaps in the times of the
        whole model.
        """
        timed_backward = [run for run in backward if run is not None]
        unseen = {**self._unseen, **dict.fromkeys(self._recorder.elsewhere, ELSEWHERE)}
        remarks = [
            *list_remarks(self.layers, unseen, forward, timed_backward),
            *(Remark("", text) for text in (self.clock.note, note) if text),
        ]
        return sum_layer_times(self.layers, forward, backward, remarks, overhead_is_known=self._overhead is not None)

    def runs(self) -> list[TimedRun]:
        """Return the passes so far that have not failed."""
        self._work_off()
        self._timeline.settle()
        return [run for run in self._timeline.runs.kept if run.calls and not run.failed]

    @property
    def has_second_gradients(self) -> bool:
        """Whether the gradients of a pass so far may have gradients, whose time is not known."""
        return self._timeline.has_second_gradients

    def count_begun(self) -> int:
        """Return how many passes have begun so far, those included that are not kept."""
        self._work_off()
        return self._timeline.runs.begun

    # Functions that the recorder calls -----------------------------------------------------------------------------

    def _forget_failed_passes(self) -> None:
        """Forget the open backward passes if a call begins outside of all passes: they have raised."""
        if self._hooks.under_way and read_current_task() == -1:
            self._hooks.under_way.clear()
            self._work_off()
            self._timeline.forget_backward(self.clock.read())

    def _hook_graph(self, output: Any) -> None:
        """Hook the graph behind the results and behind tensors that modules keep; this work is not timed."""
        outputs = list_graph_outputs(output, self._modules.values())
        if not outputs and len(self._recorder.events) < _MANY:
            return
        self._work_off()
        if self._timeline.span is not None:
            self._hooks.register(outputs, self._timeline.span)
        self._timeline.skip(self.clock.read())

    def _work_off(self) -> None:
        """Have the timeline follow the events so far."""
        events = self._recorder.events
        self._timeline.advance(events)
        events.clear()
