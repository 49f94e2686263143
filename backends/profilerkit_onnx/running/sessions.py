"""Sessions of onnxruntime: a model made ready to run, with the graph optimizations and threads that are requested."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto

from profilerkit import NotOfferedError
from profilerkit.backend_kit.failures import explain_failure

from ..model.model_file import find_weight_folder, read_whole
from .devices import choose_providers
from .runtime import onnxruntime

__all__ = ["LARGEST", "LEVELS", "make_options", "make_session"]

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


def make_options(level: str, num_threads: int | None = None) -> Any:
    """Return the options of a session; ``level`` is one of `LEVELS`."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[level])
    if num_threads is not None:
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
    return options


def make_session(model: ModelProto, options: Any, device: str, inputs: object = None) -> Any:
    """Return a session of a model on a device.

    Raises `WithoutValuesError` where the file with the weights is missing, `InputError` for one that has changed since
    the model was opened, or lies outside the folder of the model, `NotOfferedError` for a model that is too large to be
    handed over, and `ModelFailedError` for one that onnxruntime refuses.
    """
    model = read_whole(model)
    folder = find_weight_folder(model)
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if model.ByteSize() > LARGEST:
        raise NotOfferedError(
            f"the model takes {model.ByteSize()} bytes, more than the 2 GB that can be handed to onnxruntime at once; "
            "save it with external data, and give its path"
        )
    try:
        return onnxruntime().InferenceSession(model.SerializeToString(), options, providers=choose_providers(device))
    except Exception as error:  # its errors have no base class but Exception
        raise explain_failure(
            error, inputs, "onnx", __package__ or "", "does onnxruntime know its operators?"
        ) from error
