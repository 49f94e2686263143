"""Attribution of an error in a pass over a model: to the model, or to the backend that ran it."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from traceback import walk_tb
from types import TracebackType
from typing import TypeVar

from ..error_text import list_causes, shown
from ..errors import BackendFailedError, ModelFailedError, ProfilerKitError, error_summary, model_failed
from ..process.user_lines import is_loaded_file
from .installed import describe_untested

__all__ = [
    "UnfitError",
    "backend_failed",
    "explain_failure",
    "find_raising_line",
    "name_backend",
    "note_layer",
    "note_raising_layer",
    "require_answer",
]

T = TypeVar("T")
#: Where an error that left a layer has the path of that layer.
_LAYER = "_profilerkit_layer"


class UnfitError(Exception):
    """A graph contradicts itself, or the inputs of its call; the message says how, and no runtime has raised it."""


def note_layer(error: BaseException | None, path: str) -> None:
    """Note on an error that it left the call of a layer: the first layer that it leaves is the one that failed."""
    if error is not None and path and not hasattr(error, _LAYER):
        with suppress(AttributeError):  # of an error that takes no attributes
            setattr(error, _LAYER, path)


def note_raising_layer(error: BaseException, paths: Mapping[int, str]) -> None:
    """Note on an error the innermost layer whose method raised it, where nothing of ours stands around the layers.

    ``paths`` has the path of each layer by its ``id``: it is found by the ``self`` of a frame.
    """
    layers = (id(frame.f_locals.get("self")) for frame, _ in walk_tb(error.__traceback__))
    running = [paths[layer] for layer in layers if layer in paths]
    note_layer(error, running[-1] if running else "")


def explain_failure(
    error: Exception, inputs: object, backend: str, package: str, hint: str = "do these inputs fit it?"
) -> ProfilerKitError:
    """Return the error for a pass that raised: a `ModelFailedError`, or a `BackendFailedError` if the backend raised.

    It names the layer that `note_layer` has noted. `InputError` and `CostFormulaError` are returned as they are. An
    error of memory is raised as it is: its cause may be anywhere.

    Args:
        error: The error that was raised.
        inputs: The inputs of the model's call.
        backend: The name of the backend.
        package: The package of the backend: ``__package__`` of any of its modules.
        hint: The advice for the user, if the model raised.
    """
    if isinstance(error, MemoryError):
        raise error
    location = find_raising_line(error, package)
    if location is not None:
        return backend_failed(error, backend, location)
    layer = _find_layer(error)
    if isinstance(error, UnfitError):
        in_layer = f" in layer {layer}" if layer else ""
        failure = ModelFailedError(
            f"the graph cannot be followed{in_layer}: {error}; it was called with {inputs!r}, {hint}"
        )
        failure.__cause__ = error
        return failure
    return model_failed(error, inputs, hint, layer)


def _find_layer(error: BaseException) -> str:
    """Return the layer that is noted on an error, or on one that was raised again as another, as TensorFlow does."""
    return next((str(getattr(cause, _LAYER)) for cause in list_causes(error) if hasattr(cause, _LAYER)), "")


def backend_failed(error: Exception, backend: str, location: str) -> BackendFailedError:
    """Return the error for a backend whose own code raised at a location.

    It names the releases that the backend is tested with if another one is installed.
    """
    mismatch = describe_untested(backend)
    advice = f"{mismatch}: install a release that is tested, or tell the backend's authors"
    if not mismatch:
        advice = "this is a fault of the backend, not of the model: tell its authors"
    failure = BackendFailedError(f"the {backend} backend raised {error_summary(error)}, at {location}; {advice}")
    failure.__cause__ = error
    return failure


@contextmanager
def name_backend(backend: str, method: str) -> Iterator[None]:
    """Name the backend and its running method in errors that the method raises unintentionally."""
    try:
        yield
    except (ProfilerKitError, MemoryError):
        raise
    except Exception as error:
        raise backend_failed(error, backend, f"its method {method}()") from error


def require_answer(backend: str, method: str, answer: T, kind: type) -> T:
    """Return what a method of a backend has returned; raises `BackendFailedError` for what is not of the kind."""
    if not isinstance(answer, kind):
        raise BackendFailedError(
            f"the {backend} backend returned {shown(answer)} from its method {method}(), which is no {kind.__name__}; "
            "this is a fault of the backend, not of the model: tell its authors"
        )
    return answer


def find_raising_line(error: BaseException, package: str) -> str | None:
    """Return the line of the backend or of profilerkit that raised an error unintentionally; None if none did.

    The innermost frame decides. If it is in the model's code or in the framework, the error is the model's. If it is in
    the backend, the error is the backend's, with two exceptions: an error that the backend raises with ``raise`` is
    intentional; and a call without a frame may be an operator of the model in compiled code, or code whose frames a
    framework has removed, as Keras does.
    """
    traceback = error.__traceback__
    if traceback is None or isinstance(error, (MemoryError, RecursionError)):  # which any code may raise
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = str(traceback.tb_frame.f_globals.get("__name__", ""))
    is_ours = module.partition(".")[0] in (package.partition(".")[0], __name__.partition(".")[0])
    if not is_ours or is_loaded_file(module):
        return None
    instruction = _instruction(traceback)
    if "RAISE" in instruction or "CALL" in instruction:
        return None
    return f"line {traceback.tb_lineno} of {module}"


def _instruction(traceback: TracebackType) -> str:
    """Return the name of the Python instruction that raised; the index may be in the cache entries after it."""
    code, index = traceback.tb_frame.f_code.co_code, traceback.tb_lasti
    while index > 0 and dis.opname[code[index]] == "CACHE":
        index -= 2
    return dis.opname[code[index]]
