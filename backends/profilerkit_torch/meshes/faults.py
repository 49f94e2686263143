"""Faults of a plan, which costs more than it needs, that a step shows: each fault is a note."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import torch
from torch import nn

from profilerkit.count_text import list_some
from profilerkit.piping.quantity import Scale, scale_value

from .collectives import Exchange
from .rank_memory import count_bytes, find_share

__all__ = ["note_repeated_reductions", "note_whole_weights"]

#: The least share of a rank's weights of a weight that gets a note.
_LARGE = 0.01
#: How many weights a note names.
_SHOWN = 3


def note_whole_weights(model: nn.Module) -> Iterator[str]:
    """Yield a note for each dimension of the mesh over which some weights are spread, but not all large weights."""
    weights = dict(model.named_parameters())
    spread = {name: _list_dimensions(weight) for name, weight in weights.items()}
    sizes = {name: count_bytes([find_share(weight)]) for name, weight in weights.items()}
    least = _LARGE * sum(sizes.values())
    large = sorted((name for name in weights if sizes[name] > least), key=lambda name: -sizes[name])
    for dimension in dict.fromkeys(chain.from_iterable(spread.values())):
        whole = [name for name in large if dimension not in spread[name]]
        if whole:
            named = list_some([f"{name} ({scale_value(sizes[name], 'B', Scale.IEC)})" for name in whole], _SHOWN)
            yield f"not spread over {dimension}, so that each of its ranks has the same: {named}"


def _list_dimensions(weight: torch.Tensor) -> list[str]:
    """Return the dimensions of the mesh over which a weight is spread."""
    placements = getattr(weight, "placements", ())
    names = weight.device_mesh.mesh_dim_names if placements else ()  # type: ignore[attr-defined]
    return [name for name, placement in zip(names, placements, strict=True) if not placement.is_replicate()]


def note_repeated_reductions(exchanged: Iterable[Exchange]) -> Iterator[str]:
    """Yield a note if the gradient of one tensor is reduced separately for each layer that the tensor goes to."""
    layers: dict[tuple[int, int], list[str]] = {}
    for exchange in exchanged:
        if exchange.source is not None:
            layers.setdefault(exchange.source, []).append(exchange.layer)
    repeated = [reduced for reduced in layers.values() if len(set(reduced)) > 1]
    if repeated:
        most = max(repeated, key=len)
        yield (
            f"the gradient of one tensor is reduced {len(most)} times, for {', '.join(sorted(most))}: once is enough "
            "where the tensor is made ready before all of them, as PrepareModuleInput does"
        )
