"""Sessions of onnxruntime: a model made ready to run, with the graph optimizations and threads that are requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import ModelProto

from profilerkit import InputError, NotOfferedError, WithoutValuesError
from profilerkit.backend_kit.failures import failure_of

from ..loaders import folder_of, whole
from ..model.external_data import external_files
from .devices import providers_of
from .runtime import onnxruntime

__all__ = ["LARGEST", "LEVELS", "folder_of_weights", "options_of", "session_of"]

#: The execution modes: how far onnxruntime rewrites a graph, by its names of the levels.
LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
#: Nothing but the end of the process, by the numbers of onnxruntime: an error is raised, and need not be written too.
_FATAL = 4
#: The most bytes of a message of protobuf's.
LARGEST = 2**31 - 1


def options_of(level: str, num_threads: int | None = None) -> Any:
    """Return the options of a session; ``level`` is one of `LEVELS`."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    if num_threads is not None:
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
    return options


def session_of(model: ModelProto, options: Any, device: str, inputs: object = None) -> Any:
    """Return a session of a model on a device.

    Raises `WithoutValuesError` where the file with the weights is missing, `InputError` for one that has changed since
    the model was opened, or lies outside the folder of the model, `NotOfferedError` for a model that is too large to be
    handed over, and `ModelFailedError` for one that onnxruntime refuses.
    """
    model = whole(model)
    folder = folder_of_weights(model)
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if model.ByteSize() > LARGEST:
        raise NotOfferedError(
            f"the model takes {model.ByteSize()} bytes, more than the 2 GB that can be handed to onnxruntime at once; "
            "save it with external data, and give its path"
        )
    try:
        return onnxruntime().InferenceSession(model.SerializeToString(), options, providers=providers_of(device))
    except Exception as error:  # its errors have no base class but Exception
        raise failure_of(error, inputs, "onnx", __package__ or "", "does onnxruntime know its operators?") from error


def folder_of_weights(model: ModelProto) -> Path | None:
    """Return the folder that holds a model's external data; None for a model that has none.

    Raises `WithoutValuesError` where a file is missing, `InputError` for one that lies outside of the folder.
    """
    names = external_files(model)
    if not names:
        return None
    folder = folder_of(model)
    if folder is None:
        raise WithoutValuesError(
            f"the weights of the model are in another file, {names[0]!r}, and where that lies is not known; give the "
            "path of the model, or load it with its external data"
        )
    for name in names:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise InputError(
                f"the model has its weights in {name!r}, outside of its own folder, from where nothing is read; put "
                "the file beside the model"
            )
        if not path.is_file():
            raise WithoutValuesError(
                f"the file {name!r} with the weights of the model is missing in its folder, so that it can be counted "
                "but not run; put it beside the model"
            )
    return folder
