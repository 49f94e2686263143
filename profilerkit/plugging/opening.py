"""From a model, as the user gives it, to the model that is profiled and its backend."""

from __future__ import annotations

from typing import Any

from ..arguments.structures import is_tensor
from ..backend import BACKEND, Backend
from ..error_text import shown
from ..protocols import OpensModels, implements
from . import offers

__all__ = ["open_model"]


def open_model(model: Any, backend: Backend | str | None, kind: type[Backend] | None) -> tuple[Any, Backend]:
    """Return the model, read from its file if it is a path, and its backend.

    ``kind`` is the class of the backend if none is given; without it, the backend is found from the model. Raises
    `TypeError` if the backend does not accept the model.
    """
    resolved = _resolved(model, BACKEND("backend", backend), kind)
    if implements(resolved, OpensModels):
        model = resolved.opened(model)
    if not resolved.accepts(model):
        problem = f"the {resolved.name} backend cannot profile a {type(model).__name__}"
        hint = "; example inputs are given by name, inputs=..." if is_tensor(model) else ""
        raise TypeError(f"{problem}; give it a model of its own, not {shown(model)}{hint}")
    return model, resolved


def _resolved(model: Any, backend: Backend | str | None, kind: type[Backend] | None) -> Backend:
    if isinstance(backend, Backend):
        return offers.equipped(backend)
    if isinstance(backend, str):
        return offers.backend_named(backend)
    return offers.find_backend(model) if kind is None else offers.equipped(kind())
