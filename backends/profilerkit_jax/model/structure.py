"""The current state of a model, to notice changes: its arrays, its modules, its functions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterator
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
    contents = _ModelContents({id(leaf.value) for leaf in leaves})
    for leaf in leaves:
        contents.written += _describe(leaf, values)
    contents.add(model)
    contents.add_modules()
    return contents.written


def _describe(leaf: Leaf, values: bool) -> tuple[Any, ...]:
    """Describe an array of the model; with ``values`` also by its identity, if it is saved with the model."""
    value = leaf.value
    facts = (leaf.path, tuple(value.shape), str(value.dtype), leaf.is_parameter, leaf.trainable)
    if not (values and leaf.persistent):
        return facts
    if isinstance(value, (np.ndarray, np.generic)):
        return (*facts, zlib.crc32(value.tobytes()))
    return (*facts, Identity(value))


class _ModelContents(Contents):
    """Writes down the contents of a model; ``leaf_ids`` are the ids of its arrays, which are described apart."""

    def __init__(self, leaf_ids: Container[int]) -> None:
        super().__init__(lambda value, _: self._write_special(value), reads_globals=True)
        self._leaf_ids = leaf_ids
        #: The modules that were met, each once: `add_modules` writes down their attributes.
        self._modules: list[Any] = []
        self._met: set[int] = set()

    def _write_special(self, value: Any) -> bool:
        """Write down a value that has its own form in JAX; return whether it has."""
        if id(value) in self._leaf_ids:
            self.written.append("leaf")
            return True
        write = _find_writer(type(value))
        if write is None:
            return False
        write(self, value)
        return True

    def write_module(self, module: Any) -> None:
        """Write down which module it is, and keep it for `add_modules`."""
        self.written.append(Identity(module))
        if id(module) not in self._met:
            self._met.add(id(module))
            self._modules.append(module)

    def write_variable(self, variable: Any) -> None:
        """Write down the class and attributes of a variable of nnx or Keras, and its array if the array is no leaf."""
        self.written.append(type(variable))
        self.add_attributes(dict(_list_stored(variable)))

    def write_method(self, method: MethodType) -> None:
        """Write down the function of a method, and the object."""
        self.add(method.__func__)
        self.add(method.__self__)

    def write_jitted(self, function: Any) -> None:
        """Write down which jitted function it is, and the function that it compiles."""
        self.written.append(Identity(function))
        self.add(function.__wrapped__)

    def write_model(self, model: JaxModel) -> None:
        """Write down a function with the parameters that are no arrays, at any depth."""
        self.written += (Identity(model), model.name)
        self.add(model.function)
        values, tree = jax.tree.flatten(model.params)
        self.written.append(tree)
        for value in values:
            if id(value) not in self._leaf_ids:
                self.add(value)
        self.add(model.params)  # for the attributes of modules, which are no leaves of the tree
        self.add(model.rngs)

    def add_modules(self) -> None:
        """Write down the attributes of the modules that were met, and of the modules to which the attributes lead."""
        for module in self._modules:  # the list grows meanwhile
            self.written.append(Identity(module))
            self.add_class(type(module))
            left_out = OF_CALLS | keras_bookkeeping(module) if is_keras(module) else _LEFT_OUT
            self.add_attributes({name: value for name, value in vars(module).items() if name not in left_out})


@once_for_each
def _find_writer(kind: type) -> Callable[[_ModelContents, Any], None] | None:
    """Return the method that writes down objects of a class; None if they have no form of their own."""
    if kind is MethodType:
        return _ModelContents.write_method
    if issubclass(kind, JaxModel):
        return _ModelContents.write_model
    if kind.__module__.partition(".")[0] == "jaxlib" and kind.__name__.endswith("Function"):
        return _ModelContents.write_jitted
    bases = {(*base.__module__.split(".")[:2], base.__name__) for base in kind.__mro__}
    is_module = bases & _MODULES or any(base[0] == "equinox" and base[-1] == "Module" for base in bases)
    if is_module or is_layer_class(kind):
        return _ModelContents.write_module
    is_variable = any(base[0] in ("flax", "keras") and base[-1] in _VARIABLES for base in bases)
    return _ModelContents.write_variable if is_variable else None


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
