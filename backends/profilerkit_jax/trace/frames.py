"""The calls of layers around an equation, by the stack of names that JAX keeps with it.

`model/` runs each layer inside a ``jax.named_scope`` whose name holds the path of the layer and a number of the call.
Other scopes are the user's own, and are layers too, of the type "named_scope". Transformations stand in the same stack:
transposed equations are the backward pass.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from profilerkit.backend_kit.scoped_calls import Scope

from ..compat import ScopeName
from ..model.scope_names import EQUATION, read_layer

__all__ = ["NAMED_SCOPE", "Context", "Frame", "Frames", "OpenScope"]

#: The type of a layer that is a scope of the user's.
NAMED_SCOPE = "named_scope"
#: The scope that JAX opens around equations that ``jax.checkpoint`` computes again.
_RECOMPUTED = "rematted_computation"
#: The scopes that begin like this are no layers: Equinox's own, ours of a single equation, and of recomputed work.
_NO_LAYERS = ("eqx.nn.", EQUATION, _RECOMPUTED)


class Frame(NamedTuple):
    """The place of an equation.

    Attributes:
        chain: The calls of layers that it is in, the model's own first.
        gradients: How many gradients it is computed for: none in a forward pass, 2 for the gradient of a gradient.
        is_recomputed: Whether it is a forward equation that the backward pass runs again, inside of ``jax.checkpoint``.
    """

    chain: tuple[Scope, ...] = (Scope(""),)
    gradients: int = 0
    is_recomputed: bool = False

    @property
    def is_backward(self) -> bool:
        """Whether it belongs to a backward pass."""
        return self.gradients > 0


@dataclass(frozen=True)
class Context:
    """The place of a jaxpr in the walk.

    Attributes:
        frame: The calls of layers around it.
        times: How often it runs.
        instance: The number of this walk over it.
        axis_sizes: How many devices each named axis has.
    """

    frame: Frame = field(default_factory=Frame)
    times: int = 1
    instance: int = 0
    axis_sizes: Mapping[Any, int] = field(default_factory=dict)

    def repeat(self, times: int) -> Context:
        """Return the context of equations that run so many times in it."""
        return replace(self, times=self.times * times)


class OpenScope(NamedTuple):
    """A scope around an equation: the call that it is in, its name, and the number of the walk over the jaxpr."""

    around: Scope
    name: str
    instance: int


class Frames:
    """Finds the frame of each equation, and numbers the calls of layers.

    Args:
        layers: The paths of the layers that the model has itself.
        doubled: The names of scopes that the framework itself opens around layers: linen's, by name or class; Keras'.

    Attributes:
        user_scopes: The paths of the scopes of the user's, in the order in which they were met: an ordered set.
        marked: The call that each mark of ours stands for.
    """

    def __init__(self, layers: Container[str] = (), doubled: Container[str] = ()) -> None:
        self.user_scopes: dict[str, None] = {}
        self.marked: dict[OpenScope, Scope] = {}
        self._layers = layers
        self._doubled = doubled
        #: By path, the latest call of a layer; the only one of the model itself, which is around all.
        self._latest: dict[str, Scope] = {"": Scope("")}
        #: By the number of a walk, the scopes around the equation before, and their calls.
        self._before: dict[int, dict[OpenScope, Scope]] = {}

    def find_frame(self, around: Frame, stack: Sequence[ScopeName], instance: int) -> Frame:
        """Return the frame of an equation.

        The scopes around it stand for calls of layers:

        - In the backward pass, a scope stands for the latest call of its layer.
        - A mark of ours stands for one call each time that the walk goes over its jaxpr.
        - A scope of the user's stands for one call for as long as the equation before is in it too.

        Args:
            around: The frame of the equation whose jaxpr it is in.
            stack: Its own stack of names.
            instance: The number of this walk over that jaxpr: a function that is called twice has one jaxpr.
        """
        gradients = around.gradients + sum(scope.is_transform and scope.name == "transpose" for scope in stack)
        is_recomputed = around.is_recomputed or any(scope.name == _RECOMPUTED for scope in stack)
        chain, opened, before = list(around.chain), dict[OpenScope, Scope](), self._before.get(instance, {})
        for name, layer in self._list_layers(stack):
            scope = OpenScope(chain[-1], name, instance)
            path = self._name_user_scope(scope.around.path, name) if layer is None else layer
            if gradients and path in self._latest:
                call = self._latest[path]
            else:
                calls = before if layer is None else self.marked
                call = calls[scope] = calls.get(scope) or self._begin_call(path)
            chain.append(call)
            opened[scope] = call
        self._before[instance] = opened
        return Frame(tuple(chain), gradients, is_recomputed)

    def _begin_call(self, path: str) -> Scope:
        latest = self._latest.get(path)
        self._latest[path] = Scope(path, 0 if latest is None else latest.call + 1)
        return self._latest[path]

    def _list_layers(self, stack: Sequence[ScopeName]) -> Iterator[tuple[str, str | None]]:
        """Yield the names of the scopes in a stack that are layers inside of the model, the outermost first.

        With each comes the path of the layer that the name holds; None with a scope of the user's.
        """
        for name, is_transform in stack:
            path = read_layer(name)
            is_model = path == ""  # its call is around all
            if not (is_transform or is_model or (path is None and self._is_of_library(name))):
                yield name, path

    def _is_of_library(self, name: str) -> bool:
        """Return whether libraries, or we, open scopes of this name: a user's scope of the name is no layer either."""
        is_doubled = name in self._doubled or name.partition(".")[0] in self._doubled
        return is_doubled or name.startswith(_NO_LAYERS) or _is_einsum(name)

    def _name_user_scope(self, around: str, name: str) -> str:
        """Return the path of a scope of the user's, which differs from the paths of all layers of the model.

        A dot would divide the path. So the scopes "a.b" and "a_b" at one place are one layer.
        """
        name = name.replace(".", "_")
        path = f"{around}.{name}" if around else name
        path = f"{path}:scope" if path in self._layers else path
        self.user_scopes.setdefault(path)
        return path


def _is_einsum(name: str) -> bool:
    """Return whether ``jnp.einsum`` opens a scope of this name: ``"ij,jk->ik"``, whose output has labels of its terms.

    So "encoder->decoder" is a scope of the user's. A single term, like ``"ii"``, is an equation only if it has an
    ellipsis or no labels but i, j and k: "mlp" has the form of one too.
    """
    terms, arrow, output = name.replace(" ", "").replace("...", "").partition("->")
    labels = terms.replace(",", "")
    has_form = bool(arrow) or "," in terms or "..." in name or set(labels) <= set("ijk")
    return has_form and labels.isalpha() and set(output) <= set(labels) and len(set(output)) == len(output)
