"""The tensors that the image processor of a model makes of an image of a size, by the processor's own code."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from profilerkit import InputError
from profilerkit.error_text import error_line
from profilerkit.process.files import write_text
from profilerkit_predict.language_models.prompts import ImageSize

from .configurations import find_folder, find_number

__all__ = ["ProcessedImage", "process_image"]

#: The files of a checkpoint that describe its processing of images.
_FILES = ("preprocessor_config.json", "processor_config.json")
_BY_DEFAULT = (
    "images are resized as the {kind} of transformers does by default ({limits}), since no preprocessor_config.json "
    "lies beside the configuration: the checkpoint may have other limits"
)


class ProcessedImage(NamedTuple):
    """An image of a size as a processor returns it: tensors by their names, and notes for the reader."""

    tensors: dict[str, torch.Tensor]
    notes: tuple[str, ...] = ()


def process_image(config: Any, size: ImageSize, name: str) -> ProcessedImage:
    """Return the inputs that the image processor of a model makes of a black image.

    The processor is read from files beside the configuration, else it is the processor of transformers with its default
    limits of pixels and the configuration's patches. Raises `InputError` if the configuration has no patches, and for a
    size that the processor does not take.
    """
    folder = find_folder(config)
    has_files = folder is not None and any((folder / file).is_file() for file in _FILES)
    try:
        with _without_warnings():
            processor = _load_processor(folder) if has_files else _make_usual_processor(config)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(f"images: the image processor of {name} cannot be loaded: {error_line(error)}") from error
    patches = {key: value for key, value in _find_patches(config).items() if hasattr(processor, key)}
    if has_files:
        return ProcessedImage(_run(processor, size, name, patches))
    if not patches:
        raise InputError(
            f"image_size: into what {name} cuts an image of {size} does not follow from its configuration; give a "
            f"folder that has its {_FILES[0]} too, or leave image_size (--image-size) out"
        )
    if config.vision_config.model_type == "pixtral":  # the one processor whose limit the configuration has
        patches["size"] = {"longest_edge": config.vision_config.image_size}
    limits = dict(patches.get("size", processor.size))
    shown_limits = ", ".join(f"{key} {value:,}" for key, value in limits.items() if value)
    note = _BY_DEFAULT.format(kind=type(processor).__name__, limits=shown_limits)
    return ProcessedImage(_run(processor, size, name, patches), (note,))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the warning of transformers about its choice of a processor if torchvision is missing."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _load_processor(folder: Path | None) -> Any:
    import transformers

    loader: Any = transformers.AutoImageProcessor
    return loader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _make_usual_processor(config: Any) -> Any:
    """Return the image processor of transformers for the configuration of the tower, else of the model."""
    from transformers import IMAGE_PROCESSOR_MAPPING

    tower = config.vision_config
    described = tower if type(tower) in IMAGE_PROCESSOR_MAPPING else config
    with tempfile.TemporaryDirectory(prefix="profilerkit_") as folder:
        described.save_pretrained(folder)
        write_text(Path(folder) / _FILES[0], "{}")
        return _load_processor(Path(folder))


def _run(processor: Any, size: ImageSize, name: str, patches: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors that a processor makes of a black image."""
    from PIL import Image  # transformers loads no processor of images without it

    try:
        batch = processor(images=[Image.new("RGB", size)], return_tensors="pt", **patches)
    except MemoryError:
        raise
    except Exception as error:
        kind = type(processor).__name__
        raise InputError(f"images: {kind} of {name} takes no image of {size}: {error_line(error)}") from error
    return {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}


def _find_patches(config: Any) -> dict[str, Any]:
    """Return the sizes of patches in the configuration, as arguments of the processor; nothing if it has none.

    The processor of Pixtral cuts an image into squares of several patches; a square becomes one token.
    """
    tower = config.vision_config
    patch = find_number(tower, "patch_size")
    merged = find_number(tower, "spatial_merge_size") or find_number(config, "spatial_merge_size")
    if patch is None:
        return {}
    if tower.model_type == "pixtral":
        return {"patch_size": patch * (merged or 1)}
    if merged is None:
        return {}
    sizes = {"patch_size": patch, "merge_size": merged}
    frames = find_number(tower, "temporal_patch_size")
    return sizes if frames is None else {**sizes, "temporal_patch_size": frames}
