"""A model in the common form of this backend: arrays, layers, and a pass as a pure function of weights and inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from profilerkit import WithoutValuesError

from .outputs import check_outputs
from .scope_names import Marks

__all__ = ["UNMET", "Leaf", "OpenedModel", "Pass", "Subject", "join"]

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


class OpenedModel(NamedTuple):
    """A model that is ready for a pass.

    Attributes:
        model: A copy with the values of the pass, or the model itself if a scope around has these for it.
        read_state: Returns the arrays of the model after the pass; those that it has not changed may be left out.
    """

    model: Any
    read_state: Callable[[], Iterable[Any]]


#: Opens a model for a pass, given the values of its leaves; when the context ends, the user's model is as before.
OpenModel: TypeAlias = Callable[[Sequence[Any], Pass], AbstractContextManager[OpenedModel]]
#: Returns positional and keyword arguments of a model's own call as it takes them, given these and whether it trains.
ArrangeArguments: TypeAlias = Callable[
    [tuple[Any, ...], Mapping[str, Any], bool], tuple[tuple[Any, ...], Mapping[str, Any]]
]


@dataclass
class Subject:
    """A model with its arrays and layers, and the way to a pass over it.

    Attributes:
        kind: As `recognition.find_kind` has it; or "state": an object of nnx that leads to no module.
        name: The name in reports.
        leaves: The arrays of the model.
        open: Opens the model for a pass.
        types: The type of each layer by its path, the model itself first.
        layers: The layers by their paths, if the model holds them.
        scopes: The names of scopes that the framework itself opens around layers.
        arrange: Arranges the arguments of the model's own call; None to leave them as they are.
    """

    kind: str
    name: str
    leaves: list[Leaf]
    open: OpenModel
    types: dict[str, str] = field(default_factory=dict)
    layers: Mapping[str, Any] = field(default_factory=dict)
    scopes: Collection[str] = ()
    arrange: ArrangeArguments | None = None

    def call(
        self, values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass
    ) -> tuple[Any, list[Any]]:
        """Return the outputs of a pass with these values of the leaves, and the arrays of the model after it."""
        if self.arrange is not None and how.function is None:  # a function calls the model with arguments of its choice
            args, kwargs = self.arrange(args, kwargs, how.training)
        with self.open(values, how) as opened:
            return how.call(opened.model, args, kwargs), list(opened.read_state())

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
