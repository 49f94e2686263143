"""The weights of a model in a serving engine: their bytes on a device, and the bytes that a step reads."""

from __future__ import annotations

from dataclasses import dataclass

from profilerkit.process.cached import cached_property

from ..checkpoints.formats import WeightFormat, WeightKind
from .engine_cache import EngineCache
from .formulas import count_expected_experts, count_stored_bytes, dtype_bytes
from .layout import Layout
from .records import ModelFacts, ReadIn, WeightPart

#: How a reader knows the kinds of weights.
_NAMES = {
    WeightKind.EMBEDDING: "tables",
    WeightKind.EXPERTS: "experts",
    WeightKind.HEAD: "head",
    WeightKind.MATRIX: "matrices",
    WeightKind.OTHER: "norms and buffers",
}


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
        return sum(count_stored_bytes(part, self.format) for part in self.facts.weights if not part.is_shared)

    def count_read_bytes(self, tokens: int, is_first: bool) -> float:
        """Return the bytes of weights that a step over so many tokens reads, of one replica; see `StepCost`."""
        return sum(self._count_read_bytes(part, tokens, is_first) for part in self.facts.weights)

    def count_traffic(self, tokens: int, is_first: bool, layout: Layout) -> dict[str, float]:
        """Return the bytes that a device reads for so many tokens of its replica, by name, in all stages.

        Experts are spread over all replicas: each reads its share of the experts that the tokens of all choose.
        """
        read = dict.fromkeys(_NAMES.values(), 0.0)
        for part in self.facts.weights:
            spread = 1 if part.routing is None else layout.data
            read[_NAMES[part.kind]] += self._count_read_bytes(part, tokens * spread, is_first) / spread / layout.tensor
        read[_NAMES[WeightKind.MATRIX]] += self._count_repeated_bytes(layout.tensor)
        return read

    def _count_read_bytes(self, part: WeightPart, tokens: int, is_first: bool) -> float:
        if part.read_in is ReadIn.NONE or (part.read_in is ReadIn.FIRST and not is_first):
            return 0.0
        stored = count_stored_bytes(part, self.format)
        if part.kind is WeightKind.EMBEDDING and part.row_elements:
            rows = part.elements // part.row_elements
            return stored * min(tokens * part.layers, rows) / rows
        if part.routing is not None:
            distinct: float = part.routing.experts_per_token
            if self.has_uniform_routing:
                distinct = count_expected_experts(part.routing.experts, part.routing.experts_per_token, tokens)
            return stored * distinct / part.routing.experts
        return stored

    def list_stage_bytes(self, layout: Layout) -> list[float]:
        """Return the bytes of a device in each stage of a pipeline: a share of a replica, and of all experts.

        Each stage has its layers, the first stage the tables too, and the last stage the head. A table that is the head
        is in both. Norms, biases and buffers are not cut: each device has all of a stage.
        """
        first = last = 0.0
        in_layers = self._count_repeated_bytes(layout.tensor)
        for part in self.facts.weights:
            if part.is_shared:
                continue
            stored = count_stored_bytes(part, self.format)
            cut = stored / layout.tensor
            if part.kind is WeightKind.EMBEDDING:
                first += cut
            elif part.kind is WeightKind.HEAD:
                last += cut
                first += cut if part.row_elements and layout.pipeline > 1 else 0.0
            elif part.routing is not None:
                in_layers += layout.share_out_experts(stored, part.routing.experts)
            else:
                in_layers += stored if part.kind is WeightKind.OTHER else cut
        stages = [in_layers * share for share in layout.compute_stage_shares(self.facts.sizes.layers)]
        stages[0] += first
        stages[-1] += last
        return stages

    def count_repeated_elements(self, tensor: int) -> float:
        """Return the elements of the matrices of keys and values that one of ``tensor`` devices has beyond its share.

        These matrices are cut by heads of keys and values: a device has at least one head, and matrices of latents
        whole, those of queries too. They have a row for each element of a token in the cache, and a column for each
        feature of a token.
        """
        element_bytes, width = dtype_bytes(self.facts.dtype), self.facts.sizes.width or 0
        rows = 0.0
        for part in self._plain_cache.parts:
            if not part.waits:  # waiting tokens become entries, which count
                rows += (part.share_out(part.bytes_per_entry, tensor) - part.bytes_per_entry / tensor) / element_bytes
        latent = self.facts.work.latent
        if latent is not None:
            rows += latent.layers * latent.query_rank * (1 - 1 / tensor)
        return rows * width

    @cached_property
    def _plain_cache(self) -> EngineCache:
        """The cache in the dtype of the activations."""
        return EngineCache(self.facts)

    def _count_repeated_bytes(self, tensor: int) -> float:
        """Return the bytes of these elements, each of as many bytes as an element of any matrix has on average."""
        matrices = [part for part in self.facts.weights if part.kind is WeightKind.MATRIX]
        stored = sum(count_stored_bytes(part, self.format) for part in matrices)
        return self.count_repeated_elements(tensor) * stored / (sum(part.elements for part in matrices) or 1)
