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
    def fits(self) -> bool | None:
        """Whether they fit; None if the capacity is not known."""
        return None if self.capacity is None else self.total <= self.capacity


@dataclass(frozen=True, slots=True)
class Fit:
    """The sizes that fit on the devices.

    Attributes:
        memory: The bytes of one device at the requested batch and context.
        batch: The requested batch.
        context: The requested context.
        devices: How many devices the bytes are divided over.
        longest_context: The most tokens of each sequence of the batch; 0 if not even one fits.
        is_models_maximum: Whether that is the model's own maximum.
        largest_batch: The most sequences of the context; 0 if not even one fits.
        needed_devices: The least number of devices for batch and context, if the layout has more replicas, else more
            stages, else cuts over more devices; None if no number is enough.
    """

    memory: Memory
    batch: int
    context: int
    devices: int
    longest_context: int | None
    is_models_maximum: bool
    largest_batch: int | None
    needed_devices: int | None


def count_memory(
    cost: StepCost,
    batch: int,
    context: int,
    prefill_tokens: int,
    reserve: float,
    layout: Layout,
    speculation: Speculation | None = None,
) -> Memory:
    """Return the bytes of the fullest device of a layout: its share of weights and cache, and activations of a pass.

    A pass has at most ``prefill_tokens`` of all replicas, and ``reserve`` is the share of the memory that is left free.
    The drafter is on the same devices.
    """
    capacity = None if cost.device is None or cost.device.memory is None else int(cost.device.memory)
    drafters = (speculation or NOTHING_DRAFTED).list_stage_bytes(context, batch, layout)
    stages = zip(cost.list_stage_bytes(context, batch, layout), drafters, strict=True)
    stage, drafter = max(stages, key=lambda pair: sum(pair[0]) + pair[1])
    return Memory(
        weights=math.ceil(stage.weights),
        cache=math.ceil(stage.cache),
        activations=_count_activations(cost, batch, context, prefill_tokens, layout.data),
        reserve=0 if capacity is None else math.ceil(capacity * reserve),
        capacity=capacity,
        adapters=math.ceil(stage.adapters),
        drafter=math.ceil(drafter),
    )


def _count_activations(cost: StepCost, batch: int, context: int, prefill_tokens: int, replicas: int) -> int | None:
    """Return the bytes of activations of a replica, for each token as many as in the traced pass; None if not known."""
    if cost.facts.traced is None:
        return None
    sequences = math.ceil(batch / replicas)
    tokens = max(min(sequences * context, prefill_tokens // replicas), sequences)
    traced = cost.facts.traced.prefill
    return math.ceil(traced.activation_bytes * tokens / (traced.batch * traced.new_tokens))


def fit(
    cost: StepCost,
    batch: int,
    context: int,
    prefill_tokens: int,
    reserve: float,
    speculation: Speculation | None = None,
) -> Fit:
    """Return the sizes that fit on the devices of a step cost, by the bytes of `count_memory`."""

    def count(sequences: int, tokens: int, layout: Layout = cost.layout) -> Memory:
        return count_memory(cost, sequences, tokens, prefill_tokens, reserve, layout, speculation)

    requested = count(batch, context)
    if requested.capacity is None:
        return Fit(requested, batch, context, cost.devices, None, False, None, None)
    maximum = cost.facts.sizes.longest_context
    longest = _find_largest(maximum or MOST_TRIED, lambda tokens: bool(count(batch, tokens).fits))
    largest = _find_largest(MOST_TRIED, lambda sequences: bool(count(sequences, context).fits))
    layers = cost.facts.sizes.layers  # stages are no more
    most = layers if layers and cost.layout.pipeline > 1 and cost.layout.data == 1 else MOST_TRIED
    too_few = _find_largest(most, lambda shares: not count(batch, context, _widen(cost.layout, shares)).fits)
    needed = None if too_few == most else _widen(cost.layout, too_few + 1).devices
    is_maximum = maximum is not None and longest == maximum
    return Fit(requested, batch, context, cost.devices, longest, is_maximum, largest, needed)


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
