"""The LiteRT backend as a plugin; importing this does not import LiteRT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profilerkit import BackendInfo, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, require_version
from profilerkit.backend_kit.model_paths import is_path_with_suffix

if TYPE_CHECKING:
    from profilerkit import Backend

MINIMUM = (2, 0)
PACKAGE = "ai_edge_litert"
#: The endings of the files that hold a model.
SUFFIXES = (".tflite",)


def load() -> Backend:
    """Import LiteRT's schema and return the backend; raises ImportError if it is missing or too old."""
    find_versions()
    from .backend import LiteRTBackend

    return LiteRTBackend()


def find_versions() -> dict[str, str]:
    """Return the version of LiteRT without importing it; raises ImportError if it is missing or too old."""
    version = find_version(PACKAGE)
    require_version(PACKAGE, version, MINIMUM)
    return {PACKAGE: version}


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the LiteRT backend."""
    return [
        BackendInfo(
            name="litert",
            frameworks=("profilerkit_litert", "builtins.bytes", "builtins.bytearray"),
            load=load,
            requirement="profilerkit[litert]",
            claims=lambda model: not isinstance(model, (bytes, bytearray)) or model[4:8] == b"TFL3",
            installed=find_versions,
            suffixes=SUFFIXES,
            tested={PACKAGE: ("2.0", "2.3")},
        )
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer the models in files of LiteRT."""
    return [LoaderInfo("litert", is_model_path, load_path, "path/to/model.tflite", frameworks=("ai_edge_litert",))]


def is_model_path(spec: str) -> bool:
    """Return whether a text is the path of a file of LiteRT, which need not exist."""
    return is_path_with_suffix(spec, SUFFIXES)


def load_path(spec: str, trust: bool = False) -> Any:
    """Return the model of a file; nothing in such a file is code: ``trust`` changes nothing."""
    from .model.reading import open_model

    return open_model(spec)
