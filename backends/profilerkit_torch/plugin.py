"""The PyTorch backend as a plugin; importing this module does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from profilerkit import BackendInfo, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, require_version
from profilerkit.backend_kit.model_paths import is_path_with_suffix

if TYPE_CHECKING:
    from profilerkit import Backend

MINIMUM = (2, 6)


def load() -> Backend:
    """Import torch and return the backend; raises ImportError if torch is missing or too old."""
    import_module("torch")  # the imported module has its version, even if pip knows another
    find_versions()
    from .backend import TorchBackend

    return TorchBackend()


def find_versions() -> dict[str, str]:
    """Return torch's version without importing it; raises ImportError if torch is missing or too old."""
    version = find_version("torch")
    require_version("torch", version, MINIMUM)
    return {"torch": version}


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the PyTorch backend."""
    return [
        BackendInfo(
            name="torch",
            frameworks=("torch", "transformers.configuration_utils"),
            load=load,
            requirement="profilerkit[torch]",
            installed=find_versions,
            preload=("torch",),
            tested={"torch": ("2.6", "2.15")},
        )
    ]


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer saved programs, and the models that libraries build by name."""
    return [
        LoaderInfo(
            name="torch",
            accepts=_is_file,
            load=_load_file,
            description="path/to/program.pt2 (or TorchScript), with --trust",
            frameworks=("torch",),
        ),
        _offer_image_models("timm", _load_from_timm),
        _offer_image_models("torchvision", _load_from_torchvision),
        LoaderInfo(
            name="hf",
            accepts=_match_library("hf"),
            load=_load_from_transformers,
            description="hf:TYPE (or a folder, or a name on the hub)",
            names=_list_model_types,
            packages=("transformers",),
            frameworks=("torch",),
            preload=("transformers.modeling_utils", "transformers.models.auto.modeling_auto"),
        ),
    ]


def _offer_image_models(library: str, load: Callable[[str], Any]) -> LoaderInfo:
    """Return the loader of a library of image models."""

    def list_names() -> list[str]:
        from .image_models import list_image_models

        return [f"{library}:{name}" for name in list_image_models(library)]

    return LoaderInfo(
        name=library,
        accepts=_match_library(library),
        load=load,
        description=f"{library}:NAME",
        names=list_names,
        packages=(library,),
        frameworks=("torch",),
    )


def _is_file(spec: str) -> bool:
    """Return whether a text is the path of a file of torch, which need not exist."""
    return is_path_with_suffix(spec, (".pt2", ".pt", ".pth", ".ts", ".torchscript"))


def _match_library(library: str) -> Callable[[str], bool]:
    return lambda spec: spec.startswith(f"{library}:") and len(spec) > len(library) + 1


# The loaders import torch when they are used -------------------------------------------------------------------------


def _load_file(spec: str, trust: bool = False) -> Any:
    from .loaders import load_file

    return load_file(spec, trust)


def _load_from_timm(spec: str) -> Any:
    from .image_models import load_from_timm

    return load_from_timm(spec)


def _load_from_torchvision(spec: str) -> Any:
    from .image_models import load_from_torchvision

    return load_from_torchvision(spec)


def _load_from_transformers(spec: str, trust: bool = False) -> Any:
    from .hub_models import load_from_transformers

    return load_from_transformers(spec, trust)


def _list_model_types() -> list[str]:
    from .hub_models import list_model_types

    return [f"hf:{name}" for name in list_model_types()]
