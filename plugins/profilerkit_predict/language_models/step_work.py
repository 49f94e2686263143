"""The work of a step in a serving engine: its counts, and the terms that take time on the busiest device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .engine_cache import count_cache_traffic
from .formulas import count_stored_bytes, dtype_bytes, engine_macs
from .steps import Piece, Resource, Step, StepTerm, count_sequences, count_tokens, has_first

if TYPE_CHECKING:
    from .step_cost import StepCost


def make_step(cost: StepCost, pieces: Sequence[Piece]) -> Step:
    """Return the cost of a step of pieces, whose weights are read once."""
    read, written = count_cache_traffic(cost.cache, pieces, replicas=cost.layout.data)
    weight_bytes = cost.weight_bytes_read(count_tokens(pieces), is_first=has_first(pieces))
    if cost.adapters is not None:
        weight_bytes += cost.adapters.count_read_bytes(count_sequences(pieces))
    return Step(
        execution="engine",
        macs=_count_macs(cost, pieces) + _count_adapter_macs(cost, pieces) + _count_encoder_macs(cost, pieces),
        weight_bytes=weight_bytes + _count_encoder_bytes(cost, pieces),
        cache_read_bytes=round(read),
        cache_write_bytes=round(written),
        terms=tuple(_list_terms(cost, pieces)),
    )


def _count_macs(cost: StepCost, pieces: Iterable[Piece]) -> int:
    """Return the multiply-accumulates of the model, without adapters and encoders."""
    work = cost.facts.work
    return sum(engine_macs(work, one.sequences, one.new_tokens, one.cached, one.logits) for one in pieces)


def _count_adapter_macs(cost: StepCost, pieces: Iterable[Piece]) -> int:
    return 0 if cost.adapters is None else cost.adapters.macs_of_a_token * count_tokens(pieces)


def _count_encoder_macs(cost: StepCost, pieces: Iterable[Piece]) -> int:
    of_a_prompt = sum(inputs.number * inputs.encoder.macs for inputs in cost.inputs)
    return of_a_prompt * count_sequences(piece for piece in pieces if piece.has_inputs)


def _count_encoder_bytes(cost: StepCost, pieces: Iterable[Piece]) -> int:
    """Return the bytes of encoders, which are read once for all inputs."""
    if not any(piece.has_inputs for piece in pieces):
        return 0
    return sum(count_stored_bytes(part, cost.weights) for inputs in cost.inputs for part in inputs.encoder.weights)


def _list_terms(cost: StepCost, pieces: Sequence[Piece]) -> Iterator[StepTerm]:
    """Yield the terms of a step of so many pieces; in prefill the stages of a pipeline share them evenly.

    In a chunk of a prefill, or after a shared prefix, there are tokens in the cache too; but only the last new token
    has logits.
    """
    layout, device = cost.layout, cost.device
    is_decode = all(piece.is_decode for piece in pieces)
    stages = 1 if is_decode else layout.pipeline
    device_pieces = [piece._replace(sequences=layout.count_sequences(piece.sequences, is_decode)) for piece in pieces]
    peak = device.peak(cost.peak_dtype) if device else None  # in FLOP/s, of which a MAC has two
    yield from _make_terms(Resource.COMPUTE, _count_products(cost, device_pieces), stages, peak and peak / 2)
    moved = _count_moved_bytes(cost, device_pieces, count_sequences(pieces))
    bandwidth = _find_bandwidth(cost, math.ceil(sum(moved.values()) / stages))
    yield from _make_terms(Resource.MEMORY, moved, stages, bandwidth)
    link = device.link if device else None  # of both directions together
    sent = _compute_sent_bytes(cost, count_tokens(device_pieces))
    yield from _make_terms(Resource.LINK, sent, stages, link and link / 2)


def _make_terms(
    resource: Resource, amounts: Mapping[str, float], stages: int, rate: float | None
) -> Iterator[StepTerm]:
    """Yield the term of each amount that is not zero, and that of products in any case, in one of so many stages."""
    for name, in_all_stages in amounts.items():
        amount = in_all_stages / stages
        if amount or name == "products":
            yield StepTerm(name, resource, amount, amount / rate if rate else None)


def _count_products(cost: StepCost, device_pieces: Sequence[Piece]) -> dict[str, float]:
    """Return the multiply-accumulates of a device for the pieces of its replica, by name, in all stages."""
    tensor = cost.layout.tensor
    repeated = cost.engine_weights.count_repeated_elements(tensor) * count_tokens(device_pieces)
    return {
        "products": _count_macs(cost, device_pieces) / tensor + repeated,
        "products of adapters": _count_adapter_macs(cost, device_pieces) / tensor,
        "products of the encoder": _count_encoder_macs(cost, device_pieces) / tensor,
    }


def _count_moved_bytes(cost: StepCost, device_pieces: Sequence[Piece], sequences: int) -> dict[str, float]:
    """Return the bytes that a device moves for the pieces of its replica, by name, in all stages.

    ``sequences`` are those of all replicas.
    """
    layout = cost.layout
    read, written = count_cache_traffic(cost.cache, device_pieces, layout.tensor)
    adapter_bytes = 0.0
    if cost.adapters is not None:
        device_sequences = count_sequences(device_pieces)
        in_stage = min(sequences, device_sequences * layout.data)
        adapter_bytes = cost.adapters.count_device_bytes(device_sequences, in_stage, layout)
    return {
        **cost.engine_weights.count_traffic(count_tokens(device_pieces), has_first(device_pieces), layout),
        "encoder": _count_encoder_bytes(cost, device_pieces) / layout.tensor,
        "adapters": adapter_bytes,
        "cache, read": read,
        "cache, written": written,
    }


def _find_bandwidth(cost: StepCost, moved: int) -> float | None:
    """Return the bandwidth that bounds so many bytes: the measured one for as many bytes if it is calibrated."""
    best = cost.estimator.calibration.best_bandwidth(moved) if cost.estimator is not None else None
    return best if best is not None or cost.device is None else cost.device.bandwidth


def _compute_sent_bytes(cost: StepCost, tokens: int) -> dict[str, float]:
    """Return the bytes that a device sends for so many tokens of its own, by purpose."""
    sizes = cost.facts.sizes
    row_bytes = (sizes.width or 0) * dtype_bytes(cost.facts.dtype)
    reductions = (sizes.layers or 0) * sizes.all_reduces_per_layer
    routed = [(part.layers, part.routing) for part in cost.facts.weights if part.routing is not None]
    chosen = max((routing.experts_per_token for _, routing in routed), default=0) if cost.has_uniform_routing else 0
    return cost.layout.compute_sent_bytes(tokens * row_bytes, reductions, sum(layers for layers, _ in routed), chosen)
