"""The current state of a model, to notice changes: its arrays, its modules, its functions."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterator
from types import MethodType
from typing import Any

import jax
import numpy as np

from profilerkit.backend_kit.keras_kinds import is_keras, is_layer_class
from profilerkit.backend_kit.keras_layers import OF_CALLS, keras_bookkeeping
from profilerkit.process.cached import once_for_each
from profilerkit.process.contents import Contents, Identity
from profilerkit.process.object_facts import list_slots

from .jax_model import JaxModel
from .subject import Leaf
from .subjects import find_subject

__all__ = ["read_structure"]

#: The base classes of modules, by the modules that they come from.
_MODULES = {
    ("flax", "nnx", "Module"),
    ("flax", "nnx", "Object"),
    ("flax", "nnx", "Pytree"),
    ("flax", "linen", "Module"),
}
#: The base classes of variables, of nnx and of Keras.
_VARIABLES = ("KerasVariable", "Variable")
#: Attributes of a module about itself, from Flax: the trace in which it was made, and the scope that it is bound to.
_LEFT_OUT = frozenset({"_id", "_parent_ref", "_pytree__nodes", "_pytree__state", "_state", "parent", "scope"})


def read_structure(model: Any, values: bool = True) -> list[Any]:
    """Return a list that changes when a model does, for a comparison with ``==``.

    It has the path, shape and dtype of each array, and with ``values`` its identity: JAX never writes into an array.
    numpy does, so its arrays are summed up by CRC-32 instead. Of a module it has the identity and the attributes, of a
    function the identity, the variables that it closes over and the global variables that it names.
    """
    leaves = find_subject(model).leaves
    special = _SpecialValues({id(leaf.value) for leaf in leaves})
    contents = Contents(special.add, reads_globals=True)
    for leaf in leaves:
        contents.written += _describe(leaf, values)
    contents.add(model)
    special.add_modules(contents)
    return contents.written


class _SpecialValues:
    """Writes down the values that have their own form in JAX; ``of_leaves`` are the ids of the model's arrays."""

    def __init__(self, of_leaves: Container[int]) -> None:
        self._of_leaves = of_leaves
        #: The modules that were met, each once, which are written down later, in turn; and their ids.
        self._modules: list[Any] = []
        self._met: set[int] = set()

    def add(self, value: Any, contents: Contents) -> bool:
        """Write down a value; return whether it has its own form."""
        form = _find_form(type(value))
        if id(value) in self._of_leaves:
            contents.written.append("leaf")
        elif form == "module":
            contents.written.append(Identity(value))
            if id(value) not in self._met:
                self._met.add(id(value))
                self._modules.append(value)
        elif form == "variable":  # of nnx or of Keras: its class and attributes, and its array if the array is no leaf
            contents.written.append(type(value))
            contents.add_attributes(dict(_list_stored(value)))
        elif form == "method":
            contents.add(value.__func__)
            contents.add(value.__self__)
        elif form == "jitted" and hasattr(value, "__wrapped__"):  # JAX's arrays are of the same package
            contents.written.append(Identity(value))
            contents.add(value.__wrapped__)
        elif form == "model":
            _add_model(value, contents, self._of_leaves)
        else:
            return False
        return True

    def add_modules(self, contents: Contents) -> None:
        """Write down the attributes of modules, and of the modules to which the attributes lead."""
        for module in self._modules:  # the list grows meanwhile
            contents.written.append(Identity(module))
            contents.add_class(type(module))
            left_out = OF_CALLS | keras_bookkeeping(module) if is_keras(module) else _LEFT_OUT
            contents.add_attributes({name: value for name, value in vars(module).items() if name not in left_out})


def _describe(leaf: Leaf, values: bool) -> tuple[Any, ...]:
    """Describe an array of the model; with ``values`` also by its identity, if it is saved with the model."""
    value = leaf.value
    facts = (leaf.path, tuple(value.shape), str(value.dtype), leaf.is_parameter, leaf.trainable)
    if not (values and leaf.persistent):
        return facts
    if isinstance(value, (np.ndarray, np.generic)):
        return (*facts, zlib.crc32(value.tobytes()))
    return (*facts, Identity(value))


def _add_model(model: JaxModel, contents: Contents, of_leaves: Container[int]) -> None:
    """Write down a function with the parameters that are no arrays, at any depth."""
    contents.written += (Identity(model), model.name)
    contents.add(model.function)
    values, tree = jax.tree.flatten(model.params)
    contents.written.append(tree)
    for value in values:
        if id(value) not in of_leaves:
            contents.add(value)
    contents.add(model.params)  # for the attributes of modules, which are no leaves of the tree
    contents.add(model.rngs)


def _list_stored(variable: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a variable itself, without the attributes of its array, which it forwards."""
    for name in ("__dict__", *(slot.__name__ for slot in list_slots(type(variable)))):
        try:
            value = object.__getattribute__(variable, name)
        except AttributeError:  # not set
            continue
        if name == "__dict__":
            yield from value.items()
        elif name != "_trace_state":
            yield name, value


@once_for_each
def _find_form(kind: type) -> str:
    """Return the form in which objects of a class are written down; empty if it has none of its own."""
    if kind is MethodType:
        return "method"
    if issubclass(kind, JaxModel):
        return "model"
    if kind.__module__.partition(".")[0] == "jaxlib":
        return "jitted"
    bases = {(*base.__module__.split(".")[:2], base.__name__) for base in kind.__mro__}
    is_module = bases & _MODULES or any(base[0] == "equinox" and base[-1] == "Module" for base in bases)
    if is_module or is_layer_class(kind):
        return "module"
    is_variable = any(base[0] in ("flax", "keras") and base[-1] in _VARIABLES for base in bases)
    return "variable" if is_variable else ""
