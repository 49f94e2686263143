"""The ONNX backend as a plugin; importing this does not import onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profilerkit import BackendInfo, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, require_version
from profilerkit.backend_kit.model_paths import is_path_with_suffix

if TYPE_CHECKING:
    from profilerkit import Backend

MINIMUM = (1, 19)
#: The endings of the files that hold a model.
SUFFIXES = (".onnx",)


def load() -> Backend:
    """Import onnx and return the backend; raises ImportError if it is missing or too old."""
    import onnx

    require_version("onnx", onnx.__version__, MINIMUM)
    from .backend import OnnxBackend

    return OnnxBackend()


def find_versions() -> dict[str, str]:
    """Return the versions of onnx and onnxruntime without importing them.

    Raises ImportError if onnx is missing or too old; without onnxruntime models are counted anyway.
    """
    version = find_version("onnx")
    require_version("onnx", version, MINIMUM)
    try:
        return {"onnx": version, "onnxruntime": find_version("onnxruntime")}
    except ImportError:
        return {"onnx": version}


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the ONNX backend."""
    return [
        BackendInfo(
            name="onnx",
            frameworks=("onnx", "torch.onnx.ONNXProgram"),
            load=load,
            requirement="profilerkit[onnx]",
            installed=find_versions,
            suffixes=SUFFIXES,
            tested={"onnx": ("1.19", "1.23"), "onnxruntime": ("1.22", "1.32")},
        )
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer the models in ONNX files."""
    return [LoaderInfo("onnx", is_model_path, load_path, "path/to/model.onnx", frameworks=("onnx", "onnxruntime"))]


def is_model_path(spec: str) -> bool:
    """Return whether a text is the path of an ONNX file, which need not exist."""
    return is_path_with_suffix(spec, SUFFIXES)


def load_path(spec: str, trust: bool = False) -> Any:
    """Return the model of an ONNX file, with its weights; nothing in such a file is code: ``trust`` changes nothing."""
    from .loaders import open_model
    from .model.model_file import read_whole

    return read_whole(open_model(spec))
