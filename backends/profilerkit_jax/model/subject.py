"""A model in the common form of this backend: a pure function of weights and inputs, with layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profilerkit import WithoutValuesError

from .outputs import check_outputs
from .scope_names import Marks

__all__ = ["UNMET", "Leaf", "Pass", "Subject", "join"]

#: The name for the type of a layer that no call has met.
UNMET = "Module"


@dataclass(frozen=True)
class Leaf:
    """An array of a model.

    Attributes:
        path: The keys that lead to it: ``("encoder", "0", "kernel")``.
        value: The array, or a ``jax.ShapeDtypeStruct`` in its place.
        is_parameter: Whether it is a parameter, and no statistic, table or state.
        persistent: Whether it is saved with the model.
        trainable: Whether training changes it, if it is a parameter.
        is_counted: Whether it is among the parameters or buffers; the state of a random generator need not be.
        numbers: How many numbers it stands for, if it has two in each element.
    """

    path: tuple[str, ...]
    value: Any
    is_parameter: bool
    persistent: bool = True
    trainable: bool = True
    is_counted: bool = True
    numbers: int | None = None


def join(path: str, inner: str) -> str:
    """Return the path of a layer that is at ``inner`` in the layer at ``path``; either may be empty: the model."""
    return f"{path}.{inner}" if path and inner else path or inner


@dataclass(frozen=True)
class Pass:
    """How a model is called.

    Attributes:
        training: Whether layers that train otherwise (dropout, batch norm) do so. Functions and linen modules are told
            by their own arguments.
        marks: Opens a scope for each layer; None for a call that is run.
        function: Called with the model and the inputs instead of the model itself (``call=``); None for its own call.
        prefix: The beginning of the paths of layers: it tells the modules of a function apart.
    """

    training: bool = False
    marks: Marks | None = None
    function: Callable[..., Any] | None = None
    prefix: str = ""

    def call(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the outputs of the model, or of the function instead; raises `InputError` if they may hide arrays."""
        outputs = model(*args, **kwargs) if self.function is None else self.function(model, *args, **kwargs)
        return check_outputs(outputs, arguments=(model, args, kwargs))


@dataclass
class Subject:
    """A model as a pure function, with its arrays and layers.

    Attributes:
        kind: As `recognition.find_kind` has it; or "state": an object of nnx that leads to no module.
        name: The name in reports.
        leaves: The arrays of the model.
        call: Called with the values of the leaves, positional and keyword inputs and a `Pass`; returns the outputs, and
            the state: the leaves of the model after it. Those that the pass has not changed may be left out.
        types: The type of each layer by its path, the model itself first.
        layers: The layers by their paths, if the model holds them.
        scopes: The names of scopes that the framework itself opens around layers.
    """

    kind: str
    name: str
    leaves: list[Leaf]
    call: Callable[[Sequence[Any], tuple[Any, ...], Mapping[str, Any], Pass], tuple[Any, Any]]
    types: dict[str, str] = field(default_factory=dict)
    layers: Mapping[str, Any] = field(default_factory=dict)
    scopes: Collection[str] = ()

    @property
    def values(self) -> list[Any]:
        """The arrays, in the order in which ``call`` takes them."""
        return [leaf.value for leaf in self.leaves]

    def require_values(self) -> None:
        """Raise `WithoutValuesError` if shapes stand in place of arrays."""
        missing = [".".join(leaf.path) for leaf in self.leaves if type(leaf.value).__name__ == "ShapeDtypeStruct"]
        if missing:
            raise WithoutValuesError(
                f"weights of {self.name} have no values, {missing[0]!r} first, {len(missing)} of {len(self.leaves)}: "
                "jax.ShapeDtypeStruct stands in their place. Such a model is counted and not run; give it arrays"
            )
