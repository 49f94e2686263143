"""Checks of the content of a file before it is loaded: whether it runs code beyond TensorFlow's and Keras' own."""

from __future__ import annotations

import builtins
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from profilerkit.hooks.infos import make_refusal

from ..compat.saved_models import make_saved_model

__all__ = ["require_harmless_keras_file", "require_harmless_saved_model"]

# Files of Keras -------------------------------------------------------------------------------------------------------

# The configuration of a Keras model names classes and functions, which Keras looks up and calls with arguments from the
# file; some of them hold Python code. Keras' own safe mode differs from version to version, and ``.h5`` files had none
# for long.

#: Classes of Keras that hold code or load further files, with their descriptions in the error message.
_CODE_CLASSES = {
    "Lambda": "a Lambda layer, which holds Python code",
    "__lambda__": "a lambda function, which is Python code",
    "TFSMLayer": "a TFSMLayer, which loads a further file",
    "TorchModuleWrapper": "a TorchModuleWrapper, which holds a pickled model",
    "JaxLayer": "a JaxLayer, which holds Python code",
    "FlaxLayer": "a FlaxLayer, which holds Python code",
}
#: Packages of Keras whose classes and functions a configuration may name.
_MODEL_PACKAGES = frozenset(
    [
        *("layers", "models", "engine", "activations", "initializers", "regularizers", "constraints"),  # of layers
        *("losses", "metrics", "optimizers", "trainers"),  # of training
        *("dtype_policies", "mixed_precision", "quantizers", "random", "ops", "backend"),  # of numbers
        *("legacy", "legacy_tf_layers"),
    ]
)
#: The levels that some versions have between ``keras`` and the name of such a package: ``keras.src.layers``.
_LEVELS_BETWEEN = ("src", "api", "_tf_keras")


def require_harmless_keras_file(path: Path) -> None:
    """Raise `InputError` for a ``.keras`` or ``.h5`` file whose configuration leads to code beyond Keras' own."""
    for part in _list_parts(_read_configurations(path)):
        problem = _describe_code(part)
        if problem:
            raise make_refusal(path, f"has {problem}")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(name.endswith((".npz", ".pkl", ".pickle")) for name in archive.namelist()):
                raise make_refusal(path, "has weights that may be pickled")


def _read_configurations(path: Path) -> list[Any]:
    """Return the configurations in a file; none for a broken file, whose fault Keras reports on loading."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return [json.loads(archive.read("config.json"))]
        import h5py  # type: ignore[import-untyped,unused-ignore]

        with h5py.File(path, "r") as file:
            texts = [file.attrs.get(name) for name in ("model_config", "training_config")]
        return [json.loads(text) for text in texts if text is not None]
    except (KeyError, ValueError, OSError, ImportError):
        return []


def _list_parts(configurations: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield each dict in configurations, at any depth: the dicts of layers, of functions, and of their parts."""
    left = [*configurations]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield part
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)


def _describe_code(part: dict[str, Any]) -> str:
    """Return the element of a part of a configuration that may run code; empty if there is none."""
    if "config" not in part:
        return ""
    name, module = str(part.get("class_name")), part.get("module")
    if name in _CODE_CLASSES and not _names_its_function(part):
        return _CODE_CLASSES[name]
    called = part["config"] if name == "function" else name
    if not isinstance(module, str) or _is_of_keras(module, str(called)) or _is_registered(part):
        return ""
    return f"{module}.{called}, which is not a layer or function of Keras"


def _is_of_keras(module: str, called: str) -> bool:
    """Return whether a part names a class or function of a Keras module that has only parts of models.

    For its own functions, such as "relu", Keras writes only the name, with Python's ``builtins`` as the module. Some
    versions look any name up there, even ``eval``, so a name of Python's builtins is refused.
    """
    if module == "builtins":
        return not hasattr(builtins, called)
    names = [name for name in module.split(".") if name not in _LEVELS_BETWEEN]
    is_in_keras = names[:1] in (["keras"], ["tf_keras"])
    return is_in_keras and (len(names) == 1 or names[1] in _MODEL_PACKAGES)


def _names_its_function(part: dict[str, Any]) -> bool:
    """Return whether a Lambda layer has its function by name, which is checked as a part of its own."""
    config = part["config"]
    function = config.get("function") if isinstance(config, dict) else None
    return part["class_name"] == "Lambda" and isinstance(function, dict) and function.get("class_name") == "function"


def _is_registered(part: dict[str, Any]) -> bool:
    """Return whether the caller has registered the class or function of a part: its code is not from the file then."""
    names = (part.get("registered_name"), part["config"] if isinstance(part["config"], str) else None)
    return any(name is not None and tf.keras.utils.get_registered_object(name) is not None for name in names)


# Saved models of TensorFlow -------------------------------------------------------------------------------------------


#: Operators that run Python code, or write files whose names are in the graph.
_UNSAFE_OPERATORS = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc", "WriteFile", "SaveSlices", "Save"])


def require_harmless_saved_model(folder: Path) -> None:
    """Raise `InputError` for a saved model whose graph runs Python code or writes files."""
    saved = make_saved_model()
    try:
        saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    except MemoryError:
        raise
    except Exception:  # TensorFlow reports the fault on loading
        return
    for function, node in _list_nodes(saved):
        if _is_unsafe(node):
            where = f"{node.name} of {function}" if function else node.name
            raise make_refusal(folder, f"runs {node.op} ({where})")


def _list_nodes(saved: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes of the graphs of a saved model, each with the name of its function, or "" outside functions."""
    for graph in saved.meta_graphs:
        yield from (("", node) for node in graph.graph_def.node)
        for function in graph.graph_def.library.function:
            yield from ((function.signature.name, node) for node in function.node_def)


def _is_unsafe(node: Any) -> bool:
    """Return whether a node runs Python code or writes files."""
    prints_to_file = node.op == "PrintV2" and node.attr["output_stream"].s.startswith(b"file:")
    return node.op in _UNSAFE_OPERATORS or prints_to_file
