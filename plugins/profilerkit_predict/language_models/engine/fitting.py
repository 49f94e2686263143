"""The limits of a device's memory: the longest context, the largest batch, and the number of devices, by part."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

from .layout import Layout
from .speculation import NOTHING_DRAFTED, Speculation
from .step_cost import StepCost

#: The most tokens, sequences or devices that are tried: if so many fit, more may.
MOST_TRIED = 2**20


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes of one device, by purpose."""

    #: Its share of the weights.
    weights: int
    #: Its share of the paged cache.
    cache: int
    #: The activations of its replica in a pass over at most ``prefill_tokens`` tokens; each device of the replica has
    #: all of them. None if they are not known: then the device needs more than ``total``.
    activations: int | None
    #: The bytes left free, for the framework, kernels and fragments.
    reserve: int
    #: The memory of the device; None if it is not known.
    capacity: int | None
    #: Its share of adapters.
    adapters: int = 0
    #: Its share of the weights and the cache of the drafter.
    drafter: int = 0

    @property
    def resident(self) -> int:
        """The bytes that stay between steps."""
        return self.weights + self.adapters + self.drafter + self.cache

    @property
    def total(self) -> int:
        """The bytes that are needed."""
        return self.resident + (self.activations or 0) + self.reserve

    @property
    def fits(self) -> bool:
        """Whether they fit; True if the capacity is not known."""
        return self.capacity is None or self.total <= self.capacity


@dataclass(frozen=True, slots=True)
class Fit:
    """The sizes that fit on the devices.

    Attributes:
        memory: The bytes of one device at the requested batch and context.
        batch: The requested batch.
        longest_context: The most tokens of each sequence of the batch; 0 if not even one fits.
        is_models_maximum: Whether that is the model's own maximum.
        largest_batch: The most sequences of the context; 0 if not even one fits.
        needed_devices: The least number of devices for batch and context, if the layout has more replicas, else more
            stages, else cuts over more devices; None if no number is enough.
        needed_layout: The layout of so many devices, as ``parallel=`` takes it; None likewise.
    """

    memory: Memory
    batch: int
    longest_context: int
    is_models_maximum: bool
    largest_batch: int
    needed_devices: int | None
    needed_layout: str | None


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of the devices that serve a model."""

    #: The model on these devices.
    cost: StepCost
    #: The most tokens of all replicas in one pass.
    prefill_tokens: int
    #: The share of the memory that is left free.
    reserve: float
    #: The drafted tokens; their drafter is on the same devices.
    speculation: Speculation = NOTHING_DRAFTED

    def count(self, batch: int, context: int, layout: Layout | None = None) -> Memory:
        """Return the bytes of the fullest device for so many sequences of so many tokens.

        They are its share of weights and cache, and the activations of a pass. ``layout`` is another layout than the
        cost's own.
        """
        layout = layout or self.cost.layout
        stages = self.cost.list_stage_bytes(context, batch, layout)
        drafters = self.speculation.list_stage_bytes(context, batch, layout)
        stage, drafter = max(zip(stages, drafters, strict=True), key=lambda pair: sum(pair[0]) + pair[1])
        device = self.cost.device
        capacity = None if device is None or device.memory is None else int(device.memory)
        return Memory(
            weights=math.ceil(stage.weights),
            cache=math.ceil(stage.cache),
            activations=self._count_activations(batch, context, layout.data),
            reserve=math.ceil((capacity or 0) * self.reserve),
            capacity=capacity,
            adapters=math.ceil(stage.adapters),
            drafter=math.ceil(drafter),
        )

    def _count_activations(self, batch: int, context: int, replicas: int) -> int | None:
        """Return the bytes of a replica, for each token as many as in the traced pass; None if they are not known."""
        if self.cost.facts.traced is None:
            return None
        sequences = math.ceil(batch / replicas)
        tokens = max(min(sequences * context, self.prefill_tokens // replicas), sequences)
        traced = self.cost.facts.traced.prefill
        return math.ceil(traced.activation_bytes * tokens / (traced.batch * traced.new_tokens))

    def fit(self, batch: int, context: int) -> Fit:
        """Return the sizes that fit, for so many sequences of so many tokens and for others."""
        maximum = self.cost.facts.sizes.longest_context
        needed = self._find_needed_layout(batch, context)
        longest = _find_largest(maximum or MOST_TRIED, lambda tokens: self.count(batch, tokens).fits)
        return Fit(
            memory=self.count(batch, context),
            batch=batch,
            longest_context=longest,
            is_models_maximum=longest == maximum,
            largest_batch=_find_largest(MOST_TRIED, lambda sequences: self.count(sequences, context).fits),
            needed_devices=None if needed is None else needed.devices,
            needed_layout=None if needed is None else str(needed),
        )

    def _find_needed_layout(self, batch: int, context: int) -> Layout | None:
        """Return the layout of the fewest devices that it fits on; None if no number is enough."""
        layout, layers = self.cost.layout, self.cost.facts.sizes.layers
        has_stages = layout.pipeline > 1 and layout.data == 1
        most = layers if layers and has_stages else MOST_TRIED  # there are no more stages than layers
        too_few = _find_largest(most, lambda number: not self.count(batch, context, _widen(layout, number)).fits)
        return None if too_few == most else _widen(layout, too_few + 1)


def _widen(layout: Layout, count: int) -> Layout:
    """Return a layout with so many replicas if it has replicas, else so many stages, else cut over so many devices."""
    if layout.data > 1:
        return replace(layout, data=count)
    if layout.pipeline > 1:
        return replace(layout, pipeline=count)
    return replace(layout, tensor=count)


def _find_largest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that ``holds`` accepts, and all smaller numbers with it; 0 for none."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not holds(number))
