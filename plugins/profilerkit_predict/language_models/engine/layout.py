"""How devices share a model that is served: tensor, pipeline and expert parallel, and attention on replicas."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Layout:
    """How devices share a model.

    Attributes:
        tensor: The number of devices over which each matrix, and the heads of each layer, are cut.
        pipeline: The number of stages of layers; the sequences of a step go through the stages in as many groups.
        data: The number of replicas of attention and dense layers, each with different sequences. Experts are not
            replicated: all sequences share the experts, which are spread over ``tensor * data`` devices.
        has_whole_experts: Whether an expert is on one device whole, to which its tokens are sent; otherwise each expert
            is cut over all devices.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    has_whole_experts: bool = False

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return self.tensor * self.pipeline * self.data

    @property
    def expert_devices(self) -> int:
        """Over how many devices the experts of a layer are spread."""
        return self.tensor * self.data

    def share_out_experts(self, amount: float, experts: int) -> float:
        """Return how much of an amount of so many experts the fullest device has.

        >>> Layout(data=16, has_whole_experts=True).share_out_experts(800, experts=8)  # one expert of eight
        100.0
        """
        if not self.has_whole_experts:
            return amount / self.expert_devices
        return amount * math.ceil(experts / self.expert_devices) / experts

    def count_sequences(self, batch: int, is_decode: bool) -> int:
        """Return how many of so many sequences a device works on at the same time.

        In decode each replica has its share, of which one group is in each stage.
        """
        of_replica = math.ceil(batch / self.data)
        return math.ceil(of_replica / self.pipeline) if is_decode else of_replica

    def compute_stage_shares(self, layers: int | None, numbers: Sequence[int] = ()) -> list[float]:
        """Return the share of each stage in some of so many layers, by their numbers; without numbers in all layers.

        A layer is in one stage whole. The stages have equally many, and those before the last one more each if some are
        left, as in vLLM and SGLang (``get_pp_indices``). If the number of layers is not known, all shares are equal.

        >>> Layout(pipeline=4).compute_stage_shares(10), Layout(pipeline=2).compute_stage_shares(8, [3, 6, 7])
        ([0.2, 0.3, 0.3, 0.2], [0.3333333333333333, 0.6666666666666666])
        """
        if not layers:
            return [1 / self.pipeline] * self.pipeline
        counts = [layers // self.pipeline] * self.pipeline
        for stage in range(layers % self.pipeline):
            counts[-2 - stage] += 1
        ends = list(accumulate(counts))
        chosen = numbers or range(layers)
        stages = [bisect_right(ends, min(number, layers - 1)) for number in chosen]
        return [stages.count(stage) / len(chosen) for stage in range(self.pipeline)]

    def count_sent_bytes(self, activations: int, reductions: int, expert_layers: int, chosen: int) -> dict[str, float]:
        """Return the bytes that are sent one after the other in a step, on the way of its tokens through all stages.

        They are by purpose, for one device of each stage: the devices of a stage send at once. An all-reduce sends each
        byte once in each direction if switches do the sums; a ring sends ``2 * (n - 1) / n`` times as many, which is
        the same for two devices and more for any other number.

        Args:
            activations: Bytes of the tokens of a replica, all features of each.
            reductions: The all-reduces of tensor parallelism in all layers.
            expert_layers: Layers with experts.
            chosen: The experts that each token is sent to, at random; 0 if they may all be on its own device.
        """
        sent: dict[str, float] = {}
        if self.tensor > 1:
            sent["all-reduce"] = reductions * activations
        if self.pipeline > 1:
            sent["to the next stage"] = (self.pipeline - 1) * activations / self.tensor
        others = self.expert_devices - 1
        if chosen and self.has_whole_experts:
            # A token goes to the devices of its experts and back, except for the experts on its own device.
            sent_tokens = 2 * chosen * others / self.expert_devices
            sent["all-to-all"] = expert_layers * sent_tokens * activations / self.tensor
        elif expert_layers and self.data > 1 and not self.has_whole_experts:
            sent["all-gather"] = 2 * expert_layers * (self.data - 1) * activations
        return sent

    def require_layers(self, layers: int | None, name: str) -> None:
        """Raise `ArgumentError` if a model of so many layers has fewer than there are stages."""
        if layers and self.pipeline > layers:
            raise ArgumentError(
                f"parallel='{self}': {name} has {layers} layers, and a stage has one at least; give pp{layers} or less"
            )

    def __str__(self) -> str:
        sizes = {"tp": self.tensor, "pp": self.pipeline, "dp": self.data}
        sizes["ep"] = self.expert_devices if self.has_whole_experts else 1
        return ",".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "one device"


#: A part of a layout's text: "tp4".
_PART = re.compile(r"(tp|pp|dp|ep)([1-9]\d{0,6})")
#: The layout of a model on one device.
ONE_DEVICE = Layout()


def read_layout(devices: int, parallel: Any) -> Layout:
    """Return the layout of both arguments: of ``devices`` alone tensor parallelism.

    >>> read_layout(1, "dp8,ep8").devices, str(read_layout(4, None))
    (8, 'tp4')

    Raises `ArgumentError` for a text that is none, or that has another number of devices.
    """
    if parallel is None:
        return Layout(tensor=devices)
    parts = re.findall(r"[^,\s]+", parallel.lower()) if isinstance(parallel, str) else []
    matches = [_PART.fullmatch(part) for part in parts]
    sizes = {match[1]: int(match[2]) for match in matches if match is not None}
    if not parts or len(sizes) != len(parts):  # an unknown part, or a part that is given twice
        raise ArgumentError(
            f"parallel={shown(parallel)}: give a text such as 'tp8', 'tp4,pp2' or 'dp8,ep8': devices of tensor (tp), "
            "pipeline (pp) and expert parallelism (ep), and replicas of attention (dp)"
        )
    expert = sizes.pop("ep", 1)
    layout = Layout(sizes.get("tp", 1), sizes.get("pp", 1), sizes.get("dp", 1), expert > 1)
    if expert not in (1, layout.expert_devices):
        raise ArgumentError(
            f"parallel={parallel!r}: experts are spread over the devices of tp and dp together, which are "
            f"{layout.expert_devices}; give ep{layout.expert_devices}, or leave it out"
        )
    if devices not in (1, layout.devices):
        raise ArgumentError(
            f"parallel={parallel!r} has {layout.devices} devices, and devices={devices} (--devices) was given; leave "
            "one of them out"
        )
    return layout
