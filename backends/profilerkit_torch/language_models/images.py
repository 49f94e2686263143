"""The tensors that the image processor of a model makes of an image of a size, by the processor's own code."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from profilerkit import InputError
from profilerkit.error_text import error_line
from profilerkit.process.files import write_text
from profilerkit_predict.language_models.facts.prompts import ImageSize

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
    processor = _load_processor(config, folder if has_files else None, name)
    options = {key: value for key, value in _find_patches(config).items() if hasattr(processor, key)}
    if has_files:
        return ProcessedImage(_run(processor, size, name, options))
    if not options:
        raise InputError(
            f"image_size: into what {name} cuts an image of {size} does not follow from its configuration; give a "
            f"folder that has its {_FILES[0]} too, or leave image_size (--image-size) out"
        )
    if config.vision_config.model_type == "pixtral":  # the one processor whose limit the configuration has
        options["size"] = {"longest_edge": config.vision_config.image_size}
    return ProcessedImage(_run(processor, size, name, options), (_note_limits(processor, options),))


def _note_limits(processor: Any, options: Mapping[str, Any]) -> str:
    """Return the note that names the processor and its limits of pixels."""
    limits = dict(options.get("size", processor.size))
    shown = ", ".join(f"{key} {value:,}" for key, value in limits.items() if value)
    return _BY_DEFAULT.format(kind=type(processor).__name__, limits=shown)


def _load_processor(config: Any, folder: Path | None, name: str) -> Any:
    """Return the image processor in a folder; without one, the usual processor for a configuration."""
    import transformers

    loader: Any = transformers.AutoImageProcessor
    try:
        with _without_warnings(), tempfile.TemporaryDirectory(prefix="profilerkit_") as usual:
            if folder is None:
                _write_usual_files(config, Path(usual))
            return loader.from_pretrained(folder or usual, local_files_only=True, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(f"images: the image processor of {name} cannot be loaded: {error_line(error)}") from error


def _write_usual_files(config: Any, folder: Path) -> None:
    """Write files that make transformers choose its usual processor for the tower, or else for the model."""
    from transformers import IMAGE_PROCESSOR_MAPPING

    tower = config.vision_config
    described = tower if type(tower) in IMAGE_PROCESSOR_MAPPING else config
    described.save_pretrained(folder)
    write_text(folder / _FILES[0], "{}")


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


def _run(processor: Any, size: ImageSize, name: str, options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors that a processor makes of a black image."""
    from PIL import Image  # transformers loads no processor of images without it

    try:
        batch = processor(images=[Image.new("RGB", size)], return_tensors="pt", **options)
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
    patch, frames = find_number(tower, "patch_size"), find_number(tower, "temporal_patch_size")
    merged = find_number(tower, "spatial_merge_size") or find_number(config, "spatial_merge_size")
    if patch is not None and tower.model_type == "pixtral":
        return {"patch_size": patch * (merged or 1)}
    if patch is None or merged is None:
        return {}
    return {"patch_size": patch, "merge_size": merged, **({"temporal_patch_size": frames} if frames else {})}
