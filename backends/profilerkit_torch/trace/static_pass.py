"""The trace of one pass, and what the pass has left outside the model taken away: in caches, closures and modules."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch

from profilerkit import ModelChangedWarning, ModelInputs
from profilerkit.backend_kit.failures import backend_failed, find_raising_line
from profilerkit.trace.records import LayerCall, ModelTrace

from ..model.inventory import Inventory, is_lazy
from ..untouched.error_frames import clear_frames, without_frames
from ..untouched.leftovers import remove_leftovers
from ..untouched.surroundings import Surroundings
from .inference_pass import InferencePass
from .live_bytes import LiveBytes
from .questions import UnansweredError, has_type_question
from .recorded_pass import RecordedPass
from .stand_ins import StandIns

__all__ = ["LeftBehindError", "can_run", "trace_pass"]

_STILL_HELD = "the model keeps tensors of a pass on {method} where profilerkit cannot take them away"
_REMOVED = "the model keeps tensors of its pass outside itself ({holders}); those of this pass were taken away again"


class LeftBehindError(RuntimeError):
    """Raised where tensors without values, of a pass on shapes alone, are still kept somewhere after it.

    ``trace`` is the trace of that pass.
    """

    def __init__(self, message: str, trace: ModelTrace) -> None:
        super().__init__(message)
        self.trace = trace


def trace_pass(
    inventory: Inventory,
    inputs: ModelInputs,
    stand_ins: StandIns,
    kind: InferencePass,
    calls: dict[str, list[LayerCall]] | None = None,
) -> ModelTrace:
    """Return the trace of one pass, with stand-ins for weights and inputs; errors of the model pass through.

    ``inventory`` is what the model holds before the pass; ``calls`` gets the calls of layers by their paths, also
    those before an error.

    What the pass leaves outside the model is taken away. Raises `LeftBehindError` where that cannot be done with what
    has no values.
    """
    surroundings = Surroundings(inventory, inputs)
    has_stand_ins = stand_ins.weight is not None
    if has_stand_ins and any(map(has_type_question, surroundings.names)):
        raise UnansweredError(["isinstance(x, torch.FloatTensor)"])
    lives: list[LiveBytes] = []
    calls = {} if calls is None else calls
    outcome: ModelTrace | Exception
    try:
        outcome = RecordedPass(inventory, inputs, stand_ins, kind, lives, calls).run()
    except Exception as error:
        if not has_stand_ins or isinstance(error, MemoryError) or not can_run(inventory):
            clear_frames(error)
            remove_leftovers(lambda: _list_remaining(lives), surroundings)
            raise
        location = find_raising_line(error, __package__)
        outcome = without_frames(error)  # not reported: the next attempt says what is wrong
        if location is not None:
            outcome = backend_failed(outcome, "torch", location)
    holders, is_left = _clear_up(lives, surroundings, stand_ins)
    if isinstance(outcome, Exception):
        raise outcome
    if is_left and has_stand_ins:
        raise LeftBehindError(_STILL_HELD.format(method=stand_ins.method), outcome)
    if not holders:
        return outcome
    return replace(outcome, notes=(*outcome.notes, _REMOVED.format(holders=", ".join(holders))))


def can_run(inventory: Inventory) -> bool:
    """Return whether a model has values to run with: none is lazy, or on the meta device."""
    return not (is_lazy(inventory) or any(parameter.is_meta for parameter in inventory.parameters))


def _clear_up(lives: list[LiveBytes], surroundings: Surroundings, stand_ins: StandIns) -> tuple[list[str], bool]:
    """Take away what a pass left outside the model; warn where that cannot be done."""
    holders, is_left = remove_leftovers(lambda: _list_remaining(lives), surroundings)
    if is_left and (stand_ins.weight is not None or torch.is_inference_mode_enabled()):
        warnings.warn(
            f"{_STILL_HELD.format(method=stand_ins.method)}: a cache that the model's own code does not lead to; empty "
            "it before the model is used, or have the model called once before it is profiled",
            ModelChangedWarning,
            stacklevel=2,
        )
    return holders, is_left


def _list_remaining(lives: list[LiveBytes]) -> set[int]:
    """Return the storages made for a pass that are still alive."""
    return {key for live in lives for key in live.list_remaining()}
