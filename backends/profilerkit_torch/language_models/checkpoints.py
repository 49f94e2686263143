"""How a checkpoint stores the weights of a language model.

The files beside the configuration determine it; without files, the configuration does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from profilerkit import InputError, ModelTrace
from profilerkit_predict.checkpoints.quantization import Formats, read_formats
from profilerkit_predict.checkpoints.safetensors import read_safetensors_folder
from profilerkit_predict.checkpoints.stored_tensors import PackedLayer, Placement, place_tensors

from .configurations import find_folder, find_quantization

__all__ = ["Storage", "find_storage"]


class Storage(NamedTuple):
    """The formats in which weights are stored, and the reason if they are unknown; None if they are known.

    ``packed`` has the bytes of packed weights by layer, if there are files of a checkpoint; the files have ``notes``.
    """

    formats: Formats
    unknown: str | None
    packed: Mapping[str, PackedLayer] | None = None
    notes: tuple[str, ...] = ()


def find_storage(trace: ModelTrace, config: Any) -> Storage:
    """Return how the weights of a model are stored, by files beside its configuration, else by the configuration."""
    try:
        formats, unknown = read_formats(find_quantization(config)), None
    except InputError as error:
        formats, unknown = read_formats(None), str(error)
    placement = _place_files(trace, config)
    if placement is None:
        return Storage(formats, unknown)
    if not placement.layers:  # nothing is packed, even if the configuration names a format
        formats = read_formats(None)
    return Storage(formats, None, placement.layers, tuple(_note_files(placement)))


def _place_files(trace: ModelTrace, config: Any) -> Placement | None:
    """Return where the tensors of the files beside a configuration belong; None without files, or for other names."""
    folder = find_folder(config)
    tensors = read_safetensors_folder(folder) if folder is not None else ()
    layers = {
        layer.path: any(len(weight.shape) == 3 for weight in layer.parameters)
        for layer in trace.layers
        if layer.parameters and layer.path
    }
    placement = place_tensors(tensors, layers)
    total = sum(tensor.bytes for tensor in tensors)
    is_of_this_model = 2 * placement.left_over < total  # else most names belong to another model
    return placement if is_of_this_model else None


def _note_files(placement: Placement) -> Iterator[str]:
    """Yield notes on the files of a checkpoint."""
    if placement.layers:
        yield "the bytes of packed weights are those of the checkpoint's files"
    if placement.left_over:
        yield f"{placement.left_over:,} bytes of these files are of no layer of this model, and not counted"
