"""Functions: the conversion of their Python code, and the settings and traces of a ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit.backend_kit.private_names import field, find

#: Converts code with conditions on tensors as ``tf.function`` does. Without these such a model is not counted.
_tf_convert: Any = find("tensorflow.python.autograph.impl.api.tf_convert")
_ControlStatus: Any = find("tensorflow.python.autograph.core.ag_ctx.ControlStatusCtx")
_Status: Any = find("tensorflow.python.autograph.core.ag_ctx.Status")
_Options: Any = find("tensorflow.python.autograph.core.converter.ConversionOptions")
#: The settings of a ``tf.function``. Without one of them its layers are not seen: their work is the caller's.
_FUNCTION_ARGUMENTS = {
    "name": field("_name"),
    "autograph": field("_autograph"),
    "jit_compile": field("_jit_compile"),
    "experimental_attributes": field("_attributes"),
    "experimental_autograph_options": field("_experimental_autograph_options"),
}
#: The default values of a ``tf.function``'s parameters. Without it arguments are handed to a twin as they are.
_DEFAULTS = field("_default_values")
#: The traces of a ``tf.function``. Without it a function without inputs has the weights that its code leads to.
_LIST_TRACES = field("_list_all_concrete_functions")


def convert(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable with its Python code converted; unchanged if this release converts in another way."""
    if not can_convert():
        return call
    options = _Options(recursive=True, user_requested=True)
    made: Callable[..., Any] = _tf_convert(call, _ControlStatus(status=_Status.ENABLED, options=options))
    return made


def can_convert() -> bool:
    """Return whether this release shows how to convert code with conditions and loops over tensors."""
    return None not in (_tf_convert, _ControlStatus, _Status, _Options)


def make_twin(function: Any) -> Any:
    """Return a ``tf.function`` of the same code and settings without traces; None if this release hides them.

    It takes any shapes, and arguments as `convert_arguments` returns them.
    """
    if not all(hasattr(function, attribute) for attribute in _FUNCTION_ARGUMENTS.values()):
        return None
    settings = {name: getattr(function, attribute) for name, attribute in _FUNCTION_ARGUMENTS.items()}
    return type(function)(function.python_function, **settings)


def convert_arguments(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a call, defaults too, as tensors where the ``input_signature`` of a function has them."""
    if not function.input_signature or not hasattr(function, _DEFAULTS):
        return args, kwargs
    bound = function.function_type.bind_with_defaults(args, kwargs, getattr(function, _DEFAULTS))
    return bound.args, bound.kwargs


def list_traces(function: Any) -> list[Any] | None:
    """Return the traces of a ``tf.function``; None if this release hides them, or for anything else."""
    traces = getattr(function, _LIST_TRACES, None)
    return None if traces is None else list(traces())
