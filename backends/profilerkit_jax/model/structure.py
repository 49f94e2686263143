"""What a model is made of right now, to notice that it was changed: its arrays, its modules, its functions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from types import MethodType
from typing import Any

import jax
import numpy as np

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import OF_CALLS, keras_bookkeeping
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
#: What Flax keeps in a module about itself: in which trace it was made, and where it is bound.
_LEFT_OUT = frozenset({"_id", "_parent_ref", "_pytree__nodes", "_pytree__state", "_state", "parent", "scope"})


def read_structure(model: Any, values: bool = True) -> list[Any]:
    """Return what changes when a model does, to be compared with ``==``.

    It has the path, shape and dtype of each array, and with ``values`` its identity: JAX never writes into an array.
    numpy does, so that its arrays are summed up by CRC-32 instead. Of a module it has the identity and the attributes,
    of a function the identity, the variables that it closes over and the global ones that it names.
    """
    leaves = find_subject(model).leaves
    walk = _Walk(leaves)
    for leaf in leaves:
        walk.contents.written += _describe(leaf, values)
    walk.follow(model)
    return walk.contents.written


def _describe(leaf: Leaf, values: bool) -> tuple[Any, ...]:
    """Return what an array of the model is, and with ``values`` which one, unless it is not saved with the model."""
    value = leaf.value
    facts = (leaf.path, tuple(value.shape), str(value.dtype), leaf.is_parameter, leaf.trainable)
    if not (values and leaf.persistent):
        return facts
    if isinstance(value, (np.ndarray, np.generic)):
        return (*facts, zlib.crc32(value.tobytes()))
    return (*facts, Identity(value))


class _Walk:
    """Goes over the modules of a model, each once, and over what their attributes lead to."""

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self.contents = Contents(self._write_special, reads_globals=True)
        self._leaves = {id(leaf.value) for leaf in leaves}
        self._met: dict[int, Any] = {}
        self._waiting: list[Any] = []
        self._kinds: dict[type, str] = {}
        self._writers: dict[str, Callable[[Any], None]] = {
            "array": self.contents.add_array,
            "jitted": self._add_jitted,
            "method": self._add_method,
            "model": self._add_model,
            "module": self._wait_for,
            "variable": self._add_variable,
        }

    def follow(self, model: Any) -> None:
        """Write down a model and all that it leads to."""
        self.contents.add(model)
        while self._waiting:
            module = self._waiting.pop()
            self.contents.written.append(Identity(module))
            self.contents.add_class(type(module))
            left_out = OF_CALLS | keras_bookkeeping(module) if is_keras(module) else _LEFT_OUT
            attributes = vars(module)
            self.contents.add_attributes({name: attributes[name] for name in attributes if name not in left_out})

    def _write_special(self, value: Any, contents: Contents) -> bool:
        """Write down what has a form of its own in JAX, modules when their turn comes; say whether a value has one."""
        if id(value) in self._leaves:
            contents.written.append("leaf")
            return True
        kind = self._kinds.get(type(value))
        if kind is None:
            kind = self._kinds[type(value)] = _find_kind(value)
        write = self._writers.get(kind)
        if write is not None:
            write(value)
        return write is not None

    def _add_jitted(self, function: Any) -> None:
        self.contents.written.append(Identity(function))
        self.contents.add(function.__wrapped__)

    def _add_method(self, method: MethodType) -> None:
        self.contents.add(method.__func__)
        self.contents.add(method.__self__)

    def _add_model(self, model: JaxModel) -> None:
        """Write down a function with its parameters: what they are besides arrays, however deep they are nested."""
        self.contents.written += (Identity(model), model.name)
        self.contents.add(model.function)
        values, tree = jax.tree.flatten(model.params)
        self.contents.written.append(tree)
        for value in values:
            if id(value) not in self._leaves:
                self.contents.add(value)
        self.contents.add(model.params)  # what JAX takes for part of the tree: the attributes of modules
        self.contents.add(model.rngs)

    def _wait_for(self, module: Any) -> None:
        self.contents.written.append(Identity(module))
        if id(module) not in self._met:
            self._met[id(module)] = module
            self._waiting.append(module)

    def _add_variable(self, variable: Any) -> None:
        """Write down a variable of nnx or of Keras: its class and what it is told, and its array if that is no leaf."""
        self.contents.written.append(type(variable))
        self.contents.add_attributes(dict(_list_stored(variable)))


def _list_stored(variable: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that a variable itself has; those of its array seem to be its own too."""
    for name in ("__dict__", *(slot.__name__ for slot in list_slots(type(variable)))):
        try:
            value = object.__getattribute__(variable, name)
        except AttributeError:  # not set
            continue
        if name == "__dict__":
            yield from value.items()
        elif name != "_trace_state":
            yield name, value


def _find_kind(value: Any) -> str:
    """Return the kind of a value that `_Walk` writes down itself; empty for all others."""
    if isinstance(value, jax.Array):
        return "array"
    if isinstance(value, MethodType):
        return "method"
    if isinstance(value, JaxModel):
        return "model"
    if type(value).__module__.partition(".")[0] == "jaxlib" and hasattr(value, "__wrapped__"):
        return "jitted"
    bases = {(*base.__module__.split(".")[:2], base.__name__) for base in type(value).__mro__}
    if is_keras(value) or bases & _MODULES or any(base[0] == "equinox" and base[-1] == "Module" for base in bases):
        return "module"
    is_variable = any(base[0] in ("flax", "keras") and base[-1] in _VARIABLES for base in bases)
    return "variable" if is_variable else ""
