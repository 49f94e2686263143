"""Sessions of onnxruntime: a model made ready to run, with the graph optimizations and threads that are requested."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import EncodeError
from onnx import ModelProto

from profilerkit import NotOfferedError
from profilerkit.backend_kit.failures import explain_failure

from ..model.model_file import find_weight_folder, read_whole
from .devices import choose_providers, onnxruntime

__all__ = ["LEVELS", "make_options", "make_session"]

#: How far onnxruntime rewrites a graph: our names of the levels, and its own.
LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
#: onnxruntime's number of the logging level that writes only errors that end the process: other errors are raised.
_FATAL = 4


def make_options(level: str, num_threads: int | None = None) -> Any:
    """Return the options of a session.

    Args:
        level: How far the graph is rewritten, one of `LEVELS`.
        num_threads: How many threads compute, all on one operator at a time; None for the defaults of onnxruntime.
    """
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

    Args:
        model: The model; tensors that were not read with it are read now, or found in its folder by onnxruntime.
        options: As `make_options` returns them; the folder of the model's external data is added to them.
        device: The name of the device.
        inputs: The inputs of the model, for the message of a failure.

    Raises `WithoutValuesError` if the file with the weights is missing; `InputError` if this file has changed since the
    model was opened, or is outside the folder of the model; `NotOfferedError` for a model that is too large to be
    passed in memory; and `ModelFailedError` for a model that onnxruntime refuses.
    """
    model = read_whole(model)
    folder = find_weight_folder(model)
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    try:
        content = model.SerializeToString()
    except EncodeError:  # protobuf writes no longer message
        raise NotOfferedError(
            "the model takes more than the 2 GB that can be handed to onnxruntime at once; save it with external data, "
            "and give its path"
        ) from None
    try:
        return onnxruntime().InferenceSession(content, options, providers=choose_providers(device))
    except Exception as error:  # its errors have no base class but Exception
        raise explain_failure(
            error, inputs, "onnx", __package__ or "", "does onnxruntime know its operators?"
        ) from error
