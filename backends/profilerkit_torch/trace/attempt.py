"""One attempt to trace a model: a pass, after which what it has left outside the model is taken away.

That is in caches, closures and modules. An error of an attempt on shapes alone lets go of its tensors.
"""

from __future__ import annotations

import gc
import traceback
import warnings
from dataclasses import replace
from types import FunctionType

import torch
from torch.nn.modules import module as torch_module

from profilerkit import ModelChangedWarning
from profilerkit.backend_kit.failures import backend_failed, find_raising_line
from profilerkit.error_text import list_causes
from profilerkit.process.user_lines import find_stack_level
from profilerkit.trace.records import ModelTrace

from ..model.inventory import Inventory, is_lazy
from ..untouched.leftovers import remove_leftovers
from ..untouched.surroundings import Surroundings
from .pass_errors import LeftBehindError, UnansweredError
from .questions import has_type_question
from .stand_ins import StandIns
from .static_pass import RecordedPass

__all__ = ["has_values", "trace_pass"]

_STILL_HELD = "the model keeps tensors of a pass on {method} where profilerkit cannot take them away"
_REMOVED = "the model keeps tensors of its pass outside itself ({holders}); those of this pass were taken away again"


def trace_pass(recorded: RecordedPass) -> ModelTrace:
    """Return the trace of one pass, and remove the tensors that it leaves outside the model.

    Raises the error of the model, or `LeftBehindError` if tensors without values stay outside the model.
    """
    stand_ins = recorded.stand_ins
    surroundings = Surroundings(recorded.inventory, recorded.inputs)
    if stand_ins.lack_values and any(map(has_type_question, surroundings.names)):
        raise UnansweredError(["isinstance(x, torch.FloatTensor)"])
    if stand_ins.lack_values and not stand_ins.on_meta and surroundings.compare_types:  # fake tensors have their own
        raise UnansweredError(["type(x) is torch.Tensor"])
    outcome = _run(recorded, surroundings)
    # Only here, where an error and its frames are gone, does nothing but the model hold tensors of the pass.
    leftovers = remove_leftovers(recorded.list_remaining, surroundings)
    if leftovers.remain:
        _warn_of_remaining(stand_ins)
    if isinstance(outcome, Exception):
        raise outcome
    if leftovers.remain and stand_ins.lack_values:
        raise LeftBehindError(_STILL_HELD.format(method=stand_ins.method), outcome)
    if not leftovers.holders:
        return outcome
    return replace(outcome, notes=(*outcome.notes, _REMOVED.format(holders=", ".join(leftovers.holders))))


def _run(recorded: RecordedPass, surroundings: Surroundings) -> ModelTrace | Exception:
    """Return the trace of a pass, or the error of one on shapes alone, after which the model is run with values.

    Any other error goes to the user, with the lines of its traceback: it is raised, and the leftovers are taken away.
    """
    try:
        return recorded.run()
    except Exception as error:
        is_first_attempt = recorded.stand_ins.lack_values and has_values(recorded.inventory)
        if is_first_attempt and not isinstance(error, MemoryError):
            return _let_go_of_frames(error)
        _clear_frames(error)
        remove_leftovers(recorded.list_remaining, surroundings)
        raise


def has_values(inventory: Inventory) -> bool:
    """Return whether a model has values to run with: none of its weights is lazy, or on the meta device."""
    return not (is_lazy(inventory) or any(parameter.is_meta for parameter in inventory.parameters))


def _let_go_of_frames(error: Exception) -> Exception:
    """Return an error of an attempt that another one follows, without its frames; one of ours says where it is from."""
    line = find_raising_line(error, __package__)
    for link in list_causes(error):
        link.__traceback__ = None
    return error if line is None else backend_failed(error, "torch", line)


def _warn_of_remaining(stand_ins: StandIns) -> None:
    """Warn of tensors of a pass that are left where they do harm: without values, or made in inference mode."""
    if stand_ins.lack_values or torch.is_inference_mode_enabled():
        warnings.warn(
            f"{_STILL_HELD.format(method=stand_ins.method)}: a cache that the model's own code does not lead to; empty "
            "it before the model is used, or have the model called once before it is profiled",
            ModelChangedWarning,
            stacklevel=find_stack_level(),
        )


def _clear_frames(error: Exception) -> None:
    """Clear the local variables of an error's frames; its traceback stays to be read.

    Else all tensors there would be searched for as leftovers, and be alive for as long as somebody keeps the error.
    """
    for link in list_causes(error):
        _empty_cells_of_calls(link)
        traceback.clear_frames(link.__traceback__)


def _empty_cells_of_calls(error: BaseException) -> None:
    """Empty the cells in which torch's call of a module has its arguments: a frame that is cleared keeps its function.

    That is the function inside ``nn.Module._call_impl``. Its call is over when it has raised, and nobody else has these
    cells.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals is not vars(torch_module) or not frame.f_code.co_freevars:
            continue
        for function in gc.get_referents(frame):
            if type(function) is FunctionType and function.__code__ is frame.f_code:
                for cell in function.__closure__ or ():
                    del cell.cell_contents
