"""Which calls of layers an equation is in, by the stack of names that JAX keeps with it.

`model/` runs each layer inside a ``jax.named_scope`` whose name holds the path of the layer and a number of the call.
Other scopes are the user's own, and are layers too, of the type "named_scope". Transformations stand in the same stack:
what is transposed is the backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

from profilerkit.backend_kit.scoped_calls import Scope

from ..compat import ScopeName
from ..model.scope_names import read_mark

__all__ = ["NAMED_SCOPE", "Frame", "Frames"]

#: The type of a layer that is a scope of the user's.
NAMED_SCOPE = "named_scope"
#: The scope that JAX opens around what ``jax.checkpoint`` computes again.
_RECOMPUTED = "rematted_computation"
Chain = tuple[Scope, ...]
Key = tuple[Any, ...]


class Frame(NamedTuple):
    """Where an equation stands: the calls of layers that it is in, and whether it belongs to the backward pass.

    ``is_recomputed`` is a forward equation that the backward pass runs again, inside of ``jax.checkpoint``.
    """

    chain: Chain = (Scope(""),)
    is_backward: bool = False
    is_recomputed: bool = False


class Frames:
    """Finds the frame of each equation, and numbers the calls.

    Args:
        layers: The paths of the layers that the model has itself.
        doubled: The names of scopes that the framework itself opens around layers: linen's, by name or class; Keras'.
    """

    def __init__(self, layers: Container[str] = (), doubled: Container[str] = ()) -> None:
        self.named: dict[str, None] = {}
        self._layers = layers
        self._doubled = doubled
        self._calls: Counter[str] = Counter({"": 1})
        self._scopes: dict[Key, Scope] = {}
        self._latest: dict[str, Scope] = {"": Scope("")}
        self._previous: dict[int, list[Key]] = {}

    def frame(self, around: Frame, stack: Sequence[ScopeName], instance: int) -> Frame:
        """Return the frame of an equation.

        Args:
            around: The frame of the equation whose jaxpr it is in.
            stack: Its own stack of names.
            instance: The number of this walk over that jaxpr: a function that is called twice has one jaxpr.
        """
        is_backward = around.is_backward or any(scope.is_transform and scope.name == "transpose" for scope in stack)
        chain, keys = list(around.chain), []
        previous = self._previous.get(instance, [])
        for depth, (name, mark) in enumerate(self._names(stack)):
            if mark is not None and mark[0] == "":
                continue  # the model itself
            key = (chain[-1], name, instance)
            again = mark is not None or previous[depth : depth + 1] == [key]
            path = self._path(chain[-1].path, name) if mark is None else mark[0]
            chain.append(self._scope(key, path, again, is_backward))
            keys.append(key)
        self._previous[instance] = keys
        is_recomputed = around.is_recomputed or any(scope.name == _RECOMPUTED for scope in stack)
        return Frame(tuple(chain), is_backward, is_recomputed)

    def _names(self, stack: Sequence[ScopeName]) -> Iterator[tuple[str, tuple[str, int] | None]]:
        """Yield the scopes that are layers, each with what its mark says; None for a scope of the user's."""
        for name, is_transform in stack:
            if is_transform:
                continue
            mark = read_mark(name)
            is_doubled = name in self._doubled or name.partition(".")[0] in self._doubled
            if mark is None and (_is_of_library(name) or is_doubled):
                continue
            yield name, mark

    def _path(self, around: str, name: str) -> str:
        """Return the path of a scope of the user's, which differs from that of every layer of the model."""
        name = name.replace(".", "_")
        path = f"{around}.{name}" if around else name
        path = f"{path}:scope" if path in self._layers else path
        self.named.setdefault(path)
        return path

    def _scope(self, key: Key, path: str, again: bool, is_backward: bool) -> Scope:
        if is_backward and path in self._latest:
            return self._latest[path]
        scope = self._scopes.get(key) if again else None
        if scope is None:
            scope = self._scopes[key] = self._latest[path] = Scope(path, self._calls[path])
            self._calls[path] += 1
        return scope


def _is_of_library(name: str) -> bool:
    """Return whether a library opens a scope of that name: ``jnp.einsum`` by its equation, Equinox by its class."""
    return "->" in name or name.startswith("eqx.nn.")
