"""Models that transformers builds from a configuration, without weights."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch

from profilerkit import InputError, LoadedModel
from profilerkit.backend_kit.installed import library_for
from profilerkit.error_text import error_line
from profilerkit.errors import by_likeness
from profilerkit.hooks.infos import make_refusal

from .hub_inputs import find_shapes
from .image_models import same_weights_each_time
from .language_models.models import default_dtype, unify_dtype
from .loaders import read_file

__all__ = ["list_model_types", "load_from_transformers"]

#: The number of parameters from which on a model stays on the meta device: it is counted, and not run.
LARGE = 1_000_000_000


def list_model_types() -> list[str]:
    """Return the types of models that transformers has; raises `InputError` if it is not installed."""
    return sorted(library_for("transformers", "transformers").CONFIG_MAPPING)


def load_from_transformers(spec: str, trust: bool = False) -> LoadedModel:
    """Return the model of a configuration of transformers, without weights, and the shapes of inputs that fit it.

    The text is a folder with a ``config.json``, the type of a model (``bert``, ``llama``: its default configuration),
    or a name on the hub, whose configuration alone is downloaded. A model of a billion parameters or more stays on the
    meta device: it is counted, and not run. Raises `InputError` for a configuration with code beside it, or which names
    code on the hub; with ``trust`` the code is run.
    """
    transformers = library_for("transformers", "transformers")
    name = spec.partition(":")[2]
    config = _find_configuration(transformers, spec, name, trust)
    if not trust:
        _require_code_of_transformers(spec, config)
    try:
        config, dtype = unify_dtype(config)
    except InputError as error:
        raise InputError(f"{spec!r}: {error}") from error
    with default_dtype(dtype):
        model = _build(spec, _find_builder(transformers, config, trust), config)
    return LoadedModel(model.eval(), input_shape=find_shapes(model, config, dtype), name=name)


def _find_configuration(transformers: ModuleType, spec: str, name: str, trust: bool) -> Any:
    """Return the configuration in a folder, the default of a type of model, or the configuration of a hub name."""
    remote = {"trust_remote_code": trust}
    if Path(name).exists():
        return read_file(spec, lambda: transformers.AutoConfig.from_pretrained(name, local_files_only=True, **remote))
    if name in transformers.CONFIG_MAPPING:
        return transformers.AutoConfig.for_model(name)
    try:
        return transformers.AutoConfig.from_pretrained(name, local_files_only=_is_offline(), **remote)
    except MemoryError:
        raise
    except Exception as error:
        nearest = ", ".join(by_likeness(name, transformers.CONFIG_MAPPING)[:5])
        raise InputError(
            f"{spec!r}: there is no folder {name!r}, no type of model of that name (the nearest are {nearest}), and no "
            f"configuration of it can be had from the hub: {error_line(error)}"
        ) from error


def _is_offline() -> bool:
    """Return whether the hub cannot be reached: without its address, its library tries again for half a minute."""
    from huggingface_hub.constants import ENDPOINT

    if getproxies():  # a proxy finds the address
        return False
    try:
        return not socket.getaddrinfo(urlsplit(ENDPOINT).hostname, None)
    except OSError:
        return True


def _require_code_of_transformers(spec: str, config: Any) -> None:
    """Raise `InputError` for a configuration that runs code from outside of transformers."""
    code = getattr(config, "auto_map", None)
    kernels = [value for name, value in vars(config).items() if "attn_implementation" in name and "/" in str(value)]
    if code:
        raise make_refusal(spec, f"has code of its own ({', '.join(map(str, code.values()))})")
    if kernels:
        raise make_refusal(spec, f"has attention by code on the hub ({kernels[0]})")


def _find_builder(transformers: ModuleType, config: Any, trust: bool) -> Callable[[Any], Any]:
    """Return the builder of a configuration's model: the class that it names, or the usual class for its type."""
    classes = [getattr(transformers, item, None) for item in getattr(config, "architectures", None) or ()]
    if not classes:  # Funnel has two models for one configuration, and transformers asks the configuration for one
        usual = transformers.MODEL_MAPPING.get(type(config), None)
        classes = list(usual) if isinstance(usual, (list, tuple)) else []
    first = classes[0] if classes else None
    if isinstance(first, type) and issubclass(first, transformers.PreTrainedModel):
        return first
    return lambda config: transformers.AutoModel.from_config(config, trust_remote_code=trust)


def _build(spec: str, build: Callable[[Any], Any], config: Any) -> Any:
    """Return the model of a configuration, a large one without values; any error becomes an `InputError` about it."""
    try:
        with torch.device("meta"):
            model = build(config)
    except MemoryError:
        raise
    except Exception as error:  # the default configuration of ESM has no vocabulary, Nemotron's has no width
        raise InputError(
            f"{spec!r}: transformers cannot build a model of this configuration: {type(error).__name__}: "
            f"{error_line(error)}; give a folder with a config.json that is whole"
        ) from error
    if sum(parameter.numel() for parameter in model.parameters()) >= LARGE:
        return model
    with same_weights_each_time():
        return build(config)
