"""The frames of an error that a pass has raised: they hold tensors for as long as somebody keeps the error."""

from __future__ import annotations

import gc
import traceback
from types import FunctionType

from torch.nn.modules import module as torch_module

from profilerkit.error_text import list_causes

__all__ = ["clear_frames", "without_frames"]


def without_frames(error: Exception) -> Exception:
    """Return an error that has let go of its frames."""
    for link in list_causes(error):
        link.__traceback__ = None
    return error


def clear_frames(error: Exception) -> None:
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
