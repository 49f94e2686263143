"""The PyTorch backend as a plugin; importing this does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from profilerkit import Backend, BackendInfo, LoaderInfo, hookimpl
from profilerkit.backend_kit.installed import find_version, require_version

MINIMUM = (2, 6)


def load() -> Backend:
    """Import torch and return the backend; raises ImportError where torch is missing or too old."""
    import_module("torch")  # what is imported tells its version, also where pip knows of another
    find_versions()
    from .backend import TorchBackend

    return TorchBackend()


def find_versions() -> dict[str, str]:
    """Return torch's version without importing it; raises ImportError where torch is missing or too old."""
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
    hub = "hf:TYPE (or a folder, or a name on the hub)"
    return [
        _loader(
            "torch", _is_file, _make_trusting_loader("load_file"), "path/to/program.pt2 (or TorchScript, with --trust)"
        ),
        _loader("timm", _match_library("timm"), _make_loader("load_from_timm"), "timm:NAME", "timm"),
        _loader(
            "torchvision",
            _match_library("torchvision"),
            _make_loader("load_from_torchvision"),
            "torchvision:NAME",
            "torchvision",
        ),
        replace(
            _loader("hf", _match_library("hf"), _make_trusting_loader("load_hugging_face"), hub, "transformers"),
            preload=("transformers.modeling_utils", "transformers.models.auto.modeling_auto"),
        ),
    ]


def _loader(
    name: str, accepts: Callable[[str], bool], load: Callable[..., Any], description: str, package: str = ""
) -> LoaderInfo:
    """Return a loader whose models are torch's, and which lists those of a package."""

    def names() -> list[str]:
        from . import loaders

        return [f"{name}:{entry}" for entry in loaders.names_of_library(package)]

    packages = (package,) if package else ()
    return LoaderInfo(name, accepts, load, description, names if package else None, packages, ("torch",))


def _is_file(spec: str) -> bool:
    """Return whether a text is the path of a file of torch's, which need not exist."""
    return Path(spec).suffix in (".pt2", ".pt", ".pth", ".ts", ".torchscript")


def _match_library(library: str) -> Callable[[str], bool]:
    return lambda spec: spec.startswith(f"{library}:") and len(spec) > len(library) + 1


def _make_loader(name: str) -> Callable[[str], Any]:
    """Return a loader that imports torch when it is used."""

    def load_model(spec: str) -> Any:
        from . import loaders

        return getattr(loaders, name)(spec)

    return load_model


def _make_trusting_loader(name: str) -> Callable[..., Any]:
    """Return a loader that imports torch when it is used, and gets whether the user trusts what it loads."""

    def load_model(spec: str, trust: bool = False) -> Any:
        from . import loaders

        return getattr(loaders, name)(spec, trust=trust)

    return load_model
