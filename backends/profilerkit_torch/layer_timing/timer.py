"""How long each layer takes, forward and backward, while any code runs the model."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import nn

from profilerkit import ArgumentError
from profilerkit.arguments.checks import at_least
from profilerkit.error_text import shown
from profilerkit.process.restoring import restored
from profilerkit.times.layer_times import NOT_CALLED, LayerTime, LayerTimer
from profilerkit.trace.layer_paths import add_outer

from ..compat.autograd import read_current_task
from ..compat.modules import read_parameters
from ..model.attributes import list_reachable
from ..model.keras_layers import list_reported_weights
from ..model.modules import list_layers, list_tensors
from ..untouched.caller_context import apart
from ..untouched.recordings import require_no_tracing
from .clocks import EventClock, HostClock, choose_clock
from .graph_hooks import GraphHooks
from .measured_overhead import measure_overhead
from .overhead import Overhead
from .results import sum_layer_times
from .time_recorder import CallRecorder
from .timed_calls import TimedRun
from .timeline import Kind, Timeline
from .unseen import find_unseen_layers

__all__ = ["TorchLayerTimer", "layer_times"]

#: More events than these are worked off before the times are read.
_MANY = 200_000
#: How often a calibration is made again that has more than the calls took.
_CALIBRATIONS = 3


def layer_times(model: nn.Module, keep: int = 100) -> TorchLayerTimer:
    """Return a context manager that times every layer of the model in what the block runs, forward and backward.

    After the block its ``table`` has a row for each layer. Every call of the model is a pass; several in one block, or
    in several blocks with the same timer, are samples of the same thing, of which the last ``keep`` are kept. A
    backward pass counts for the pass whose outputs it came through. Layers that the block calls without the model are
    one pass until a backward pass has come through them. The model runs as it is: in the mode it is in, on what it is
    given; what the block does to it stays done.

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

    While it is active each module has in its own ``__dict__`` a stand-in for what calls it, and autograd's nodes have
    hooks. Both are gone afterwards. What measuring adds is measured beforehand, on calls that do nothing, and taken
    out; a clock of the caller's own can be given with what it adds.
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
        #: By the id of a module, the last of its indices in the list of layers.
        self._indices = {id(module): index for index, (_, module) in enumerate(self.layers)}
        self._modules = [(index, self.layers[index][1]) for index in self._indices.values()]
        self._unseen = find_unseen_layers(model)
        self._clock = clock or choose_clock(tensor.device for tensor in list_tensors(model))
        self._calibrates = overhead is None and clock is None
        self._overhead = self._calibrate() if self._calibrates else overhead
        self._recorder = CallRecorder(self._clock)
        self._recorder.on_begin, self._recorder.on_output = self._forget_failed_passes, self._hook_graph
        self._timeline = Timeline(self.layers, self._overhead, self._clock.seconds, self._clock.has_passed, keep)
        self._hooks = GraphHooks(self._recorder.events.append, self._clock.read, {}, self._timeline.is_followed)
        self._active: ExitStack | None = None

    def __enter__(self) -> TorchLayerTimer:
        """Begin; times of an earlier block are kept, and those of this one are added."""
        require_no_tracing()
        if self._active is not None:
            raise RuntimeError(
                "this timer runs already: leave its block first, or make another with layer_times(model)"
            )
        timed = [(index, module) for index, module in self._modules if id(module) not in self._unseen]
        self._hooks.owners = self._find_owners()
        with ExitStack() as stack:
            stack.enter_context(restored(self._hooks.remove, in_child=False))
            stack.enter_context(self._recorder.note_calls(timed))
            self._active = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; stand-ins and hooks are taken away, and what the block raised goes on."""
        active, self._active = self._active, None
        if active is not None:
            active.close()
        self._work_off()
        self._timeline.settle()

    def runs(self) -> list[TimedRun]:
        """Return the passes so far that got through."""
        self._work_off()
        self._timeline.settle()
        return [run for run in self._timeline.runs if run.calls and not run.failed]

    def check_runs(self) -> list[TimedRun]:
        """Return the passes so far that got through; a calibration that has more than they took is made again."""
        runs = self.runs()
        for _ in range(_CALIBRATIONS if self._calibrates else 0):
            if not any(call.forward.is_doubtful or call.backward.is_doubtful for run in runs for call in run.calls):
                break
            again = self._calibrate()
            if self._overhead is not None and again is not None:
                self._overhead.lower_to(again)
        return runs

    def _calibrate(self) -> Overhead | None:
        with apart():
            return measure_overhead(self._clock)

    def times(self) -> Sequence[LayerTime]:
        """Return the time of each layer in each pass so far that got through."""
        runs = self.check_runs()
        backward = [run if run.has_backward else None for run in runs]
        remarks = self.list_remarks(runs, backward)
        if not any(backward):
            remarks.setdefault("", []).append("no backward pass came through it")
        return sum_layer_times(self.layers, runs, backward, remarks, self.overhead_is_known) if runs else []

    @property
    def overhead_is_known(self) -> bool:
        """Whether what measuring adds was measured, and is taken out of the times."""
        return self._overhead is not None

    def list_remarks(self, runs: Sequence[TimedRun], backward: Sequence[TimedRun | None] = ()) -> dict[str, list[str]]:
        """Return by path what the forward times of some passes and the backward times of others leave out, in words."""
        timed_backward = [run for run in backward if run is not None]
        entered = add_outer(path for run in runs for path in run.of_path)
        remarks: dict[str, list[str]] = {}
        for path, module in self.layers:
            reasons = list(self._explain_calls(path, module, entered))
            if _is_frozen(module) and _has_no_nodes(path, timed_backward):
                reasons.append(
                    "it has no backward pass: its weights are frozen, and nothing before it needs a gradient"
                )
            if not path and self._clock.note:
                reasons.append(self._clock.note)
            remarks[path] = reasons
        return remarks

    def _explain_calls(self, path: str, module: nn.Module, entered: Container[str]) -> Iterator[str]:
        """Yield why calls of a layer were not timed; of all in ``entered`` it ran itself, or a layer inside of it."""
        unseen = self._unseen.get(id(module))
        if unseen:
            yield unseen
        if self._recorder.elsewhere[self._indices[id(module)]]:
            yield "it was called in another thread too, where it is not timed"
        elif not (unseen or path in entered or type(module).forward is nn.Module.forward):
            yield NOT_CALLED

    # What the recorder calls ---------------------------------------------------------------------------------------

    def _forget_failed_passes(self) -> None:
        """Forget the backward passes that have begun, where a call begins outside of all: they have raised."""
        if self._hooks.under_way and read_current_task() == -1:
            self._hooks.under_way.clear()
            self._note(Kind.FORGET)

    def _hook_graph(self, output: Any) -> None:
        """Hook the graph that leads to what came out, and to what the modules keep of it; nothing of this is timed."""
        outputs = [tensor for tensor in self._list_results(output) if tensor.grad_fn is not None]
        if not outputs and len(self._recorder.events) < _MANY:
            return
        self._work_off()
        if self._timeline.span is not None:
            self._hooks.register(outputs, self._timeline.span)
        self._note(Kind.SKIP)

    def _list_results(self, output: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors that came out, and those in the attributes of modules."""
        yield from (tensor for tensor in list_reachable((output,)) if isinstance(tensor, torch.Tensor))
        if not torch.is_grad_enabled():
            return
        for _, module in self._modules:
            for value in module.__dict__.values():
                if isinstance(value, torch.Tensor):
                    yield value
                elif type(value) in (list, tuple):
                    yield from (part for part in value if isinstance(part, torch.Tensor))

    def _note(self, kind: Kind) -> None:
        self._recorder.events.append((kind, None, self._clock.read(), 0))

    def _work_off(self) -> None:
        events = self._recorder.events
        self._timeline.advance(events)
        events.clear()

    def _find_owners(self) -> dict[int, tuple[str, ...]]:
        """Return by the ``id`` of each parameter the paths of the module that owns it, or owned it first."""
        paths: dict[int, list[str]] = {}
        for path, module in self.layers:
            paths.setdefault(id(module), []).append(path)
        owners: dict[int, tuple[str, ...]] = {}
        for _, module in reversed(self._modules):  # of two owners the first is noted last
            keras_weights = [value for _, value in list_reported_weights(module)]
            for parameter in (*read_parameters(module).values(), *keras_weights):
                if parameter is not None:
                    owners[id(parameter)] = tuple(paths[id(module)])
        return owners


def _is_frozen(module: nn.Module) -> bool:
    parameters = [parameter for parameter in read_parameters(module).values() if parameter is not None]
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _has_no_nodes(path: str, runs: Sequence[TimedRun]) -> bool:
    calls = [call for run in runs for call in run.of_path.get(path, ())]
    return bool(calls) and not any(call.nodes for call in calls)
