"""The bytes that devices send each other in a step, by what they are sent for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .layout import Layout

__all__ = ["LinkTraffic", "count_link_bytes"]


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Bytes that a device sends in a step, and what for."""

    name: str
    bytes: float


def count_link_bytes(
    layout: Layout, activations: int, reductions: int, expert_layers: int, chosen: int
) -> Iterator[LinkTraffic]:
    """Yield what a device sends for the tokens of its replica, whose activations have so many bytes in all.

    An all-reduce takes as many bytes as there are, in each direction, where switches add up what devices send; a ring
    takes ``2 * (n - 1) / n`` times as many, which is as many for two devices and never fewer.

    Args:
        layout: How devices share the model.
        activations: Bytes of the tokens, all features of each.
        reductions: How often devices that cut layers between them add up what they have, in all layers.
        expert_layers: Layers with experts.
        chosen: The experts that each token is sent to, at random; 0 where they may all be at home.
    """
    if layout.tensor > 1:
        yield LinkTraffic("all-reduce", float(reductions * activations))
    if layout.pipeline > 1:
        yield LinkTraffic("to the next stage", (layout.pipeline - 1) * activations / layout.tensor)
    others = layout.expert_devices - 1
    if chosen and layout.has_whole_experts:
        # A token goes to the devices of its experts and back, for uniform routing, but for those that are here already.
        sent = 2 * chosen * others / layout.expert_devices
        yield LinkTraffic("all-to-all", expert_layers * sent * activations / layout.tensor)
    elif layout.data > 1 and not layout.has_whole_experts:
        yield LinkTraffic("all-gather", float(2 * expert_layers * (layout.data - 1) * activations))
