"""The OpenVINO backend as a plugin; importing this does not import openvino."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profilerkit import BackendInfo, BackendNotFoundError, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, require_version
from profilerkit.backend_kit.model_paths import is_path_with_suffix

if TYPE_CHECKING:
    from profilerkit import Backend

MINIMUM = (2026, 0)
#: The endings of the files that hold a model.
SUFFIXES = (".xml",)


def load() -> Backend:
    """Import openvino and return the backend; raises ImportError if it is missing or too old."""
    find_versions()
    from .backend import OpenvinoBackend

    return OpenvinoBackend()


def find_versions() -> dict[str, str]:
    """Return the version of openvino without importing it; raises ImportError if it is missing or too old."""
    version = find_version("openvino")
    require_version("openvino", version, MINIMUM)
    return {"openvino": version}


def claims(model: Any) -> bool:
    """Return whether a model of openvino's can be profiled; raise an error with advice for a compiled model."""
    if type(model).__name__ in ("CompiledModel", "InferRequest"):
        raise BackendNotFoundError(
            f"a {type(model).__name__} of OpenVINO holds what a device runs, without the attributes of its operators; "
            "give the openvino.Model that it was compiled from, or the path of its .xml file"
        )
    return True


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the OpenVINO backend."""
    return [
        BackendInfo(
            name="openvino",
            frameworks=("openvino",),
            load=load,
            requirement="profilerkit[openvino]",
            claims=claims,
            installed=find_versions,
            suffixes=SUFFIXES,
            tested={"openvino": ("2026.0", "2026.4")},
        )
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer the models in .xml files."""
    return [LoaderInfo("openvino", is_model_path, load_path, "path/to/model.xml", frameworks=("openvino",))]


def is_model_path(spec: str) -> bool:
    """Return whether a text is the path of an .xml file, which need not exist."""
    return is_path_with_suffix(spec, SUFFIXES)


def load_path(spec: str, trust: bool = False) -> Any:
    """Return the model of a file; nothing in such a file is code: ``trust`` changes nothing."""
    from .loaders import open_model

    return open_model(spec)
