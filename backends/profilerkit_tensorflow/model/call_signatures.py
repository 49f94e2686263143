"""The signatures of models: what saved ones serve, and whether a call takes ``training``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profilerkit import InputError

__all__ = ["call_served", "is_saved_for_inference", "read_served_signature", "takes_training"]


def call_served(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what a saved model without ``__call__`` serves: the ``serve`` of Keras, or its signature."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        return serve(*args, **kwargs)
    name, signature = _find_signature(model)
    if signature is None:
        raise InputError(
            f"a {type(model).__name__} as the model cannot be called: it has neither __call__ nor signatures; give a "
            "callable that runs it"
        )
    names = sorted(signature.structured_input_signature[1])
    if len(args) > 1 or (args and len(names) != 1):
        raise InputError(
            f"the signature {name!r} of the saved model takes its inputs by name: {', '.join(names)}; give a mapping "
            "with these names"
        )
    return signature(**dict(zip(names, args, strict=False)), **kwargs)


def read_served_signature(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the types of the arguments of a saved model without ``__call__``; none where it serves nothing."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        functions = getattr(serve, "concrete_functions", ())
        positional = functions[0].structured_input_signature[0] if functions else ()
        return tuple(positional), {}
    _, signature = _find_signature(model)
    named = {} if signature is None else signature.structured_input_signature[1]
    return (), dict(named)


def _find_signature(model: Any) -> tuple[str, Any]:
    """Return the signature that a saved model serves, with its name: the usual one, or the first; None without any."""
    signatures = getattr(model, "signatures", None) or {}
    name = "serving_default" if "serving_default" in signatures else next(iter(signatures), "")
    return (name, signatures[name]) if signatures else ("", None)


def takes_training(model: Callable[..., Any]) -> bool:
    """Return whether the call has a parameter ``training``; of a saved function, whether it was saved with it."""
    saved = getattr(model, "__call__", None)  # noqa: B004 - what a saved model restores there holds its signatures
    functions = getattr(saved, "concrete_functions", None) or getattr(model, "concrete_functions", None)
    if functions is not None:
        return any(is_saved_for_inference(function) for function in functions)
    try:
        parameter = inspect.signature(model).parameters.get("training")
    except (TypeError, ValueError):  # a callable without a signature, such as one of C's
        return False
    return parameter is not None and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY


def is_saved_for_inference(function: Any) -> bool:
    """Return whether a saved function was saved with ``training=False``."""
    positional, keywords = function.structured_input_signature
    parameters = list(function.function_type.parameters) if hasattr(function, "function_type") else []
    arguments = {**dict(zip(parameters, positional, strict=False)), **keywords}
    return arguments.get("training") is False
