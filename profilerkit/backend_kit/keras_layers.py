"""The layers and variables of Keras models, on any framework that Keras runs on: Keras 3, and ``tf_keras``.

Keras is never imported here: if a model is a Keras model, Keras is imported already. Its private names that several
backends need are here, and no others in profilerkit; those of one backend are in its ``compat.py``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import NotOfferedError
from ..process.cached import once_for_each
from .call_stack import tensors_in
from .installed import find_version
from .private_names import field

__all__ = [
    "call_arguments",
    "direct_layers",
    "ends_in_sigmoid",
    "flat_layers",
    "hides_its_cell",
    "is_keras",
    "is_keras_unbuilt",
    "is_layer_class",
    "is_legacy_keras",
    "is_shipped",
    "keras_backend",
    "keras_bookkeeping",
    "list_children",
    "own_states",
    "own_variables",
    "quantization_data",
    "read_declared_call",
    "read_declared_shapes",
    "variable_name",
]

#: All layers inside of one. Without it a model of Keras is refused.
_FLATTEN = field("_flatten_layers")
#: The layers right inside of one, in Keras 3. Without it a model is refused.
_INSIDE = field("_layers")
#: In which lists a layer has its own variables. Without one of them a model is refused.
_LISTS = {
    "keras": {"trainable": field("_trainable_variables"), "non_trainable": field("_non_trainable_variables")},
    "tf_keras": {"trainable": field("_trainable_weights"), "non_trainable": field("_non_trainable_weights")},
}
#: The structure of the inputs that a model declares. Without it they are given to the model by their positions.
_STRUCTURES = {"keras": field("_inputs_struct"), "tf_keras": field("_nested_inputs")}
#: Prefixes of Keras' internal attributes, which also hold layers, but under names that are not the user's.
_BOOKS = ("_self_", "_tracker", "_layers", "_inbound", "_outbound", "_functional", "_operations", "_modules")
#: Attributes of a Keras layer that lead to its graph, and to what trains it: a forward pass needs none of them. Where
#: they have other names, these are walked too, which takes longer.
_NOT_CALLED = frozenset(
    (
        *("_inbound_nodes", "_outbound_nodes", "_nodes", "_nodes_by_depth", "_operations", "_operations_by_depth"),
        *("optimizer", "_optimizer", "_metrics", "_loss_tracker", "_compile_loss", "_compile_metrics"),
    )
)


#: Names that Keras gives to what quantization adds to a layer.
_QUANTIZATION_DATA = re.compile(r"(_scales?|_zero|zero_point|_amax_history)$|^g_idx$")


def is_keras(value: Any) -> bool:
    """Return whether a value is a layer or model of Keras 3."""
    return _is_layer_from("keras", value)


def keras_bookkeeping(layer: Any) -> frozenset[str]:
    """Return the names of the attributes in which a Keras layer keeps what does not belong to its forward pass."""
    return _NOT_CALLED if is_keras(layer) else frozenset()


def is_legacy_keras(value: Any) -> bool:
    """Return whether a value is a layer or model of ``tf_keras``, the new name of Keras 2."""
    return _is_layer_from("tf_keras", value)


def is_layer_class(kind: type) -> bool:
    """Return whether a class is one of layers or models, of Keras 3 or ``tf_keras``."""
    return any(package in sys.modules and is_derived(kind) for package, is_derived in _is_layer_class.items())


def _is_layer_from(package: str, value: Any) -> bool:
    kind: Any = type(value)
    return package in sys.modules and _is_layer_class[package](kind)


def _layer_class_check(package: str) -> Callable[[type], bool]:
    def is_layer_class(kind: type) -> bool:
        is_derived = any(base.__module__.partition(".")[0] == package for base in kind.__mro__)
        return is_derived and issubclass(kind, sys.modules[package].layers.Layer)

    return once_for_each(is_layer_class)


_is_layer_class = {package: _layer_class_check(package) for package in ("keras", "tf_keras")}


def keras_backend() -> str | None:
    """Return the name of the framework that Keras 3 runs on in this process; None if Keras is not imported."""
    keras = sys.modules.get("keras")
    return None if keras is None else str(keras.config.backend())


def is_shipped(layer: Any) -> bool:
    """Return whether a layer's class is part of Keras, and not the user's own."""
    return type(layer).__module__.partition(".")[0] in ("keras", "tf_keras")


def hides_its_cell(layer: Any) -> bool:
    """Return whether a layer is one of Keras' recurrent layers, which are shown as one layer, without the cell."""
    return is_shipped(layer) and hasattr(layer, "cell") and type(layer).__name__ != "RNN"


def is_keras_unbuilt(model: Any) -> bool:
    """Return whether a Keras model lacks variables that its first call would create."""
    return not all(layer.built for layer in flat_layers(model))


def flat_layers(model: Any) -> list[Any]:
    """Return a Keras layer or model and all layers inside of it."""
    return list(_read(model, _FLATTEN, "finds the layers of a model")())


def direct_layers(layer: Any) -> list[Any]:
    """Return the layers directly inside a Keras layer, with input layers and cells."""
    if is_legacy_keras(layer):
        return list(_read(layer, _FLATTEN, "finds the layers of a model")(recursive=False, include_self=False))
    return list(_read(layer, _INSIDE, "finds the layers of a model"))


def _read(layer: Any, name: str, purpose: str) -> Any:
    """Return a private attribute of a layer; raise `NotOfferedError` where this release of Keras has none."""
    try:
        return getattr(layer, name)
    except AttributeError:
        library = _library_of(layer)
        raise NotOfferedError(
            f"{library} {find_version(library)} has no {name}, by which profilerkit {purpose}; use a release of "
            f"{library} that profilerkit was tested with, or a newer profilerkit"
        ) from None


def _library_of(layer: Any) -> str:
    return "tf_keras" if is_legacy_keras(layer) else "keras"


def list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and layers directly inside a Keras layer; a layer with several names is yielded under each.

    Inside a layer of the user's own class, the names are those of its attributes (``blocks[0]`` in a list); inside a
    layer of Keras, they are the layers' own names. Input layers, which compute nothing, are left out, and so are the
    cells of Keras' recurrent layers.
    """
    if hides_its_cell(layer):
        return
    inside = [child for child in direct_layers(layer) if not _is_input(child)]
    names = {} if is_shipped(layer) else _attribute_names(layer, {id(child) for child in inside})
    yield from _give_names(inside, names)


def own_variables(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and weights of a Keras layer itself; for a recurrent layer also those of its cell."""
    states = {id(state) for _, state, _ in _list_carried_states(layer)}
    variables = _list_variables(layer, "trainable", "non_trainable")
    yield from ((variable_name(variable), variable) for variable in variables if id(variable) not in states)
    for inside in _list_cells(layer):
        yield from own_variables(inside)


def own_states(layer: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield the names and variables of a Keras layer itself that are no parameters, and whether it saves them.

    It saves the scales, zero points and histories of a quantized layer. It does not save the states of a stateful
    recurrent layer, and variables that the layer's ``weights`` leave out.
    """
    yield from _list_carried_states(layer)
    for inside in _list_cells(layer):
        yield from own_states(inside)


def quantization_data(variables: Iterable[Any]) -> list[Any]:
    """Return the scales, zero points and histories among variables that Keras made, of which the layers are not known.

    A name such as ``kernel_scale`` is one if the same layer has a kernel of integers, or a history of float8.
    """
    layers: dict[str, list[Any]] = {}
    for variable in variables:
        layers.setdefault(str(getattr(variable, "path", variable.name)).rpartition("/")[0], []).append(variable)
    return [
        variable
        for together in layers.values()
        if any(_is_quantized(one_variable) for one_variable in together)
        for variable in together
        if _QUANTIZATION_DATA.search(variable_name(variable))
    ]


def _is_quantized(variable: Any) -> bool:
    name, dtype = variable_name(variable), getattr(variable.dtype, "name", variable.dtype)
    return name.endswith("_amax_history") or (name in ("kernel", "embeddings", "reverse_embeddings") and "int" in dtype)


def _list_carried_states(layer: Any) -> Iterator[tuple[str, Any, bool]]:
    if getattr(layer, "quantization_mode", None) is not None:
        for variable in _list_variables(layer, "trainable", "non_trainable"):
            if _QUANTIZATION_DATA.search(variable_name(variable)):
                yield variable_name(variable), variable, True
    carried = getattr(layer, "states", None) if getattr(layer, "stateful", False) else None
    states = {id(state): state for state in tensors_in(carried, lambda value: hasattr(value, "assign"))}
    if untrained := _list_variables(layer, "non_trainable"):
        weights = {id(weight) for weight in layer.weights}
        states.update((id(variable), variable) for variable in untrained if id(variable) not in weights)
    yield from ((variable_name(state), state, False) for state in states.values())


def _list_variables(layer: Any, *lists: str) -> list[Any]:
    """Return the variables in the lists in which Keras stores the layer's own variables."""
    names = _LISTS[_library_of(layer)]
    return [variable for which in lists for variable in _read(layer, names[which], "finds the weights of a layer")]


def _list_cells(layer: Any) -> list[Any]:
    """Return the layers inside one of Keras' recurrent layers, whose weights count as the layer's own."""
    if not hides_its_cell(layer):
        return []
    return [inside for child in direct_layers(layer) for inside in (child, *direct_layers(child))]


def variable_name(variable: Any) -> str:
    """Return the last part of a variable's name, without the number of its output."""
    return re.sub(r":\d+$", "", str(variable.name)).rpartition("/")[2]


def call_arguments(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a Keras model's call: functional and sequential models take one structure of inputs."""
    if not any(base.__name__ in ("Functional", "Sequential") for base in type(model).__mro__):
        return args, kwargs
    if type(model).call.__module__.partition(".")[0] not in ("keras", "tf_keras"):  # a call of the user's own
        return args, kwargs
    settings = {name: value for name, value in kwargs.items() if name in ("training", "mask")}
    named = {name: value for name, value in kwargs.items() if name not in ("training", "mask", "inputs")}
    if "inputs" in kwargs:
        args = (*args, kwargs["inputs"])
    if not args and named:
        return (named,), settings
    return (list(args),) if len(args) > 1 else args, {**named, **settings}


def read_declared_shapes(model: Any) -> list[tuple[int | None, ...]]:
    """Return the shapes of the inputs that a Keras model declares; an empty list if it declares none."""
    try:
        symbolic = model.inputs
    except AttributeError:
        return []
    return [tuple(tensor.shape) for tensor in symbolic or ()]


def read_declared_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the symbolic tensors that a Keras model declares as its inputs: positional ones, and keyword ones."""
    try:
        symbolic = tuple(model.inputs or ())
    except AttributeError:
        return (), {}
    structure = getattr(model, _STRUCTURES[_library_of(model)], None)
    if isinstance(structure, Mapping) and {id(value) for value in structure.values()} == set(map(id, symbolic)):
        return (), dict(structure)
    return symbolic, {}


def ends_in_sigmoid(model: Any) -> bool | None:
    """Return whether a Keras model ends in a sigmoid; None where its last layer has no activation of its own."""
    layers = getattr(model, "layers", None)
    last = layers[-1] if layers else model
    activation = getattr(getattr(last, "activation", None), "__name__", None)
    return None if activation is None else activation == "sigmoid"


def _is_input(layer: Any) -> bool:
    return is_shipped(layer) and type(layer).__name__ == "InputLayer"


def _give_names(layers: Sequence[Any], names: Mapping[int, list[str]]) -> Iterator[tuple[str, Any]]:
    names_in_use: set[str] = set()
    for layer in layers:
        for name in names.get(id(layer)) or [getattr(layer, "name", None) or type(layer).__name__]:
            unique = name = name.replace(".", "_")
            number = 1
            while unique in names_in_use:
                number += 1
                unique = f"{name}#{number}"
            names_in_use.add(unique)
            yield unique, layer


def _attribute_names(layer: Any, inside: Collection[int]) -> dict[int, list[str]]:
    """Return, by the ``id`` of each inner layer, the attributes that hold it, also in lists and mappings."""
    names: dict[int, list[str]] = {}

    def look(name: str, value: Any, depth: int) -> None:
        if id(value) in inside:
            names.setdefault(id(value), []).append(name)
        elif depth and isinstance(value, Mapping):
            for key, item in value.items():
                look(f"{name}[{key}]", item, depth - 1)
        elif depth and isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                look(f"{name}[{index}]", item, depth - 1)

    # On torch, `vars` lacks the layers that were set as attributes: modules store these in ``_modules``.
    for name, value in {**vars(layer), **vars(layer).get("_modules", {})}.items():
        if not name.startswith(_BOOKS):
            look(name, value, 3)
    return names
