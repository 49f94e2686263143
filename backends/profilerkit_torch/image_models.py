"""Models that timm and torchvision build by name, without weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from profilerkit import InputError, LoadedModel
from profilerkit.backend_kit.installed import library_for
from profilerkit.errors import by_likeness

__all__ = ["list_image_models", "load_from_timm", "load_from_torchvision", "same_weights_each_time"]

#: The frames of a clip: torchvision publishes the costs of its video models for so many.
_FRAMES = 16


def list_image_models(library: str) -> list[str]:
    """Return the names of all models that a library builds; raises `InputError` if it is not installed."""
    package = library_for(library, library)
    return sorted((package.models if library == "torchvision" else package).list_models())


def load_from_timm(spec: str) -> LoadedModel:
    """Return the model that timm builds under a name, without weights, and the shape of image that it was made for."""
    timm = library_for("timm", "timm")
    name = spec.partition(":")[2]
    _require_known(spec, name.partition(".")[0], timm.list_models())  # behind a dot stands the tag of weights
    with same_weights_each_time():
        model = timm.create_model(name, pretrained=False)
    configuration = getattr(model, "pretrained_cfg", None) or {}
    return LoadedModel(model, input_shape=tuple(configuration.get("input_size", (3, 224, 224))), name=name)


def load_from_torchvision(spec: str) -> LoadedModel:
    """Return the model that torchvision builds under a name, without weights, and the shape of its images or clips."""
    models = library_for("torchvision", "torchvision").models
    name = spec.partition(":")[2]
    _require_known(spec, name, models.list_models())
    try:
        size = models.get_model_weights(name).DEFAULT.transforms().crop_size[0]
    except (AttributeError, IndexError, TypeError, ValueError):  # detection models are made for no one size
        size = 224
    with same_weights_each_time():
        model = models.get_model(name, weights=None)
    frames = (_FRAMES,) if type(model).__module__.startswith("torchvision.models.video.") else ()
    return LoadedModel(model, input_shape=(3, *frames, size, size), name=name)


def _require_known(spec: str, name: str, names: list[str]) -> None:
    if name not in names:
        nearest = ", ".join(by_likeness(name, names)[:5])
        raise InputError(f"{spec!r}: there is no model {name!r}; the nearest are: {nearest}")


@contextmanager
def same_weights_each_time() -> Iterator[None]:
    """Draw random weights from a fixed seed, so that results that depend on them, such as routes, are repeatable."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield
