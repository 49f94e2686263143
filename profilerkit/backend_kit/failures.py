"""Whose error it was that ended a pass over a model: the model's own, or one of the backend that ran it."""

from __future__ import annotations

import dis
from types import TracebackType

from ..errors import BackendFailedError, ModelFailedError, error_said, model_failed

__all__ = ["backend_failed", "failure_of", "raised_by_backend"]


def failure_of(
    error: Exception, inputs: object, backend: str, package: str, hint: str = "do these inputs fit it?"
) -> ModelFailedError | BackendFailedError:
    """Return what is said of a pass that raised an error: of the model, or of the backend where it was its own.

    Args:
        error: What was raised.
        inputs: What the model was called with.
        backend: The name of the backend.
        package: The package of the backend: ``__package__`` of any module of it.
        hint: What to look at, where it is the model's.
    """
    location = raised_by_backend(error, package)
    return model_failed(error, inputs, hint) if location is None else backend_failed(error, backend, location)


def backend_failed(error: Exception, backend: str, location: str) -> BackendFailedError:
    """Return what is said of a backend that raised an error at a place of its own code."""
    failure = BackendFailedError(
        f"the {backend} backend raised {error_said(error)}, at {location}; this is a fault of the backend, not of the "
        "model: tell its authors"
    )
    failure.__cause__ = error
    return failure


def raised_by_backend(error: BaseException, package: str) -> str | None:
    """Return where in the code of a backend, or of profilerkit, an error was raised by mistake; None where it was not.

    The innermost frame tells. In a frame of the model's code, or of the framework that it calls, the error is the
    model's. In one of the backend it is the backend's, with two exceptions: what the backend raises, or raises again,
    it does on purpose; and what it calls and has no frame may be an operator of the model's in compiled code, or code
    whose frames a framework has removed, as Keras does.
    """
    traceback = error.__traceback__
    if traceback is None or isinstance(error, (MemoryError, RecursionError)):  # which may be anywhere
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = str(traceback.tb_frame.f_globals.get("__name__", ""))
    if module.partition(".")[0] not in (package.partition(".")[0], __name__.partition(".")[0]):
        return None
    instruction = _instruction(traceback)
    if "RAISE" in instruction or "CALL" in instruction:
        return None
    return f"line {traceback.tb_lineno} of {module}"


def _instruction(traceback: TracebackType) -> str:
    """Return the name of the instruction of Python's that raised; the place may lie in what is cached behind it."""
    code, index = traceback.tb_frame.f_code.co_code, traceback.tb_lasti
    while index > 0 and dis.opname[code[index]] == "CACHE":
        index -= 2
    return dis.opname[code[index]]
