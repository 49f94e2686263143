"""The weights of a model in a serving engine: their bytes on a device, and the bytes that a step reads."""

from __future__ import annotations

from dataclasses import dataclass

from profilerkit.errors import ArgumentError
from profilerkit.process.cached import cached_property

from ...checkpoints.formats import WeightFormat, WeightKind
from ..facts.records import ModelFacts, ReadIn, WeightPart
from .cache import EngineCache
from .layout import Layout

#: How a reader knows the kinds of weights.
_NAMES = {
    WeightKind.EMBEDDING: "tables",
    WeightKind.EXPERTS: "experts",
    WeightKind.HEAD: "head",
    WeightKind.MATRIX: "matrices",
    WeightKind.OTHER: "norms and buffers",
}


def count_expected_experts(experts: int, experts_per_token: int, tokens: int) -> float:
    """Return how many distinct experts so many tokens are expected to use, if routing is uniform.

    ``E * (1 - (1 - k / E) ** B)``: an expert is left out by one token with the probability ``1 - k / E``. Tokens are
    taken to choose independently; a trained router is never uniform, and uses fewer.

    >>> count_expected_experts(8, 2, 1), round(count_expected_experts(8, 2, 8), 3)
    (2.0, 7.199)
    """
    if not 0 < experts_per_token <= experts:
        raise ArgumentError(f"experts_per_token={experts_per_token}: give a number from 1 to {experts}, the experts")
    return float(experts * (1 - (1 - experts_per_token / experts) ** tokens))


@dataclass(frozen=True)
class EngineWeights:
    """The weights of a model in an engine."""

    facts: ModelFacts
    #: The format of the matrices; None for their stored format.
    format: WeightFormat | None
    #: Whether tokens choose experts at random; see `StepCost`.
    has_uniform_routing: bool

    @cached_property
    def total_bytes(self) -> int:
        """The bytes of all weights in their format."""
        return sum(part.count_bytes(self.format) for part in self.facts.weights if not part.is_shared)

    def count_traffic(self, tokens: int, is_first: bool, layout: Layout) -> dict[str, float]:
        """Return the bytes that a device reads for so many tokens of its replica, by name, in all stages.

        Experts are spread over all replicas: each reads its share of the experts that the tokens of all choose. Norms,
        biases and buffers are not cut: each device reads all of them.
        """
        read = dict.fromkeys(_NAMES.values(), 0.0)
        for part in self.facts.weights:
            is_whole = part.kind is WeightKind.OTHER and part.routing is None
            replicas = 1 if part.routing is None else layout.data
            read_bytes = self.count_read_bytes(part, tokens * replicas, is_first)
            read[_NAMES[part.kind]] += read_bytes / replicas / (1 if is_whole else layout.tensor)
        read[_NAMES[WeightKind.MATRIX]] += self._count_repeated_bytes(layout.tensor)
        return read

    def count_read_bytes(self, part: WeightPart, tokens: int, is_first: bool) -> float:
        """Return the bytes of some of the weights that a step over so many tokens reads."""
        if part.read_in is ReadIn.NONE or (part.read_in is ReadIn.FIRST and not is_first):
            return 0.0
        return part.count_bytes(self.format) * self._compute_read_share(part, tokens)

    def _compute_read_share(self, part: WeightPart, tokens: int) -> float:
        """Return which share of weights a step reads: of a table the rows of its tokens, of experts those chosen."""
        if part.kind is WeightKind.EMBEDDING and part.row_elements:
            rows = part.elements // part.row_elements
            return min(tokens * part.layers, rows) / rows
        if part.routing is None:
            return 1.0
        experts, chosen = part.routing.experts, part.routing.experts_per_token
        return (count_expected_experts(experts, chosen, tokens) if self.has_uniform_routing else chosen) / experts

    def list_stage_bytes(self, layout: Layout) -> list[float]:
        """Return the bytes of a device in each stage of a pipeline: a share of a replica, and of all experts.

        Each stage has its layers, the first stage the tables too, and the last stage the head. A table that is the head
        is in both. Layers are taken to be equally large, but for experts, which some may lack.
        """
        layers = self.facts.sizes.layers
        repeated = self._count_repeated_bytes(layout.tensor)
        stages = [repeated * share for share in layout.compute_stage_shares(layers)]
        for part in self.facts.weights:
            device_bytes = self._count_device_bytes(part, layout)
            is_tied_head = part.kind is WeightKind.HEAD and part.row_elements is not None
            if part.kind is WeightKind.EMBEDDING or (is_tied_head and layout.pipeline > 1):
                stages[0] += device_bytes
            if part.kind is WeightKind.HEAD:
                stages[-1] += device_bytes
            elif part.kind is not WeightKind.EMBEDDING:
                for stage, share in enumerate(layout.compute_stage_shares(layers, part.numbers)):
                    stages[stage] += device_bytes * share
        return stages

    def _count_device_bytes(self, part: WeightPart, layout: Layout) -> float:
        """Return the bytes of weights on each device of the stage that has them.

        Norms, biases and buffers are not cut: each device has all of them.
        """
        if part.is_shared:
            return 0.0
        stored = part.count_bytes(self.format)
        if part.routing is not None:
            return layout.share_out_experts(stored, part.routing.experts)
        return stored if part.kind is WeightKind.OTHER else stored / layout.tensor

    def count_repeated_elements(self, tensor: int) -> float:
        """Return the elements of the matrices of keys and values that one of ``tensor`` devices has beyond its share.

        These matrices are cut by heads of keys and values: a device has at least one head, and matrices of latents
        whole, those of queries too. They have a row for each element of a token in the cache, and a column for each
        feature of a token.
        """
        rows = 0.0
        for part in self._cache.parts:
            if not part.waits:  # waiting tokens become entries, which count
                of_device = part.share_out(part.bytes_per_entry, tensor)
                rows += (of_device - part.bytes_per_entry / tensor) / self.facts.element_bytes
        latent = self.facts.work.latent
        if latent is not None:
            rows += latent.layers * latent.query_rank * (1 - 1 / tensor)
        return rows * (self.facts.sizes.width or 0)

    @cached_property
    def _cache(self) -> EngineCache:
        """The cache in the dtype of the activations."""
        return EngineCache(self.facts)

    def _count_repeated_bytes(self, tensor: int) -> float:
        """Return the bytes of these elements, each of as many bytes as an element of any matrix has on average."""
        matrices = [part for part in self.facts.weights if part.kind is WeightKind.MATRIX]
        elements = sum(part.elements for part in matrices)
        if not elements:
            return 0.0
        stored = sum(part.count_bytes(self.format) for part in matrices)
        return self.count_repeated_elements(tensor) * stored / elements
