"""The work of a step as plain data: the laws that it follows with its length, and the shapes of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction


class Law(StrEnum):
    """How multiply-accumulates grow with ``n`` new tokens of a sequence after ``c`` tokens in its cache."""

    #: ``rate * n``: products with weights.
    TOKEN = "token"
    #: ``rate``: products for the last token alone, like the head.
    LAST = "last"
    #: ``rate`` for each pair of a query and a key: attention.
    PAIR = "pair"
    #: ``rate`` for each pair of a query and an entry of several tokens, like compressed keys.
    ENTRY = "entry"
    #: ``rate * (c + n)``: work that is done anew for each token in the cache.
    KEY = "key"
    #: ``rate * n`` in a step of one token, ``prefill_rate * n`` in one of several.
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the multiply-accumulates of a step, by the law that it follows."""

    law: Law
    #: Multiply-accumulates, of one sequence.
    rate: int
    #: How many tokens are attended to at most; None for all.
    window: int | None = None
    #: Of `Law.SPLIT` alone; None for the others.
    prefill_rate: Fraction | None = None
    #: Of how many tokens an entry is, of `Law.ENTRY`; 1 for the others.
    stride: int = 1
    #: How many keys or entries a query attends to at most in an engine, if an indexer chooses them; None for all.
    most_attended: int | None = None
    #: Of `Law.ENTRY`: whether the model's code too computes only the entries that a query sees.
    is_causal: bool = False
    #: Whether an engine attends only to the tokens of a query's chunk of ``window`` tokens; see `CacheLayer`.
    is_chunked: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """The sizes of latent attention, which has a low-rank latent of keys and values in its cache."""

    layers: int
    heads: int
    rank: int
    #: The size of the part of a key that is shared by all heads and has the position.
    rope: int
    #: The size of the rest of a key.
    nope: int
    value: int
    #: How many keys a query attends to at most, if an indexer chooses them; None for all.
    most_attended: int | None = None
    #: The bytes of a token in the cache besides the latents, in all layers: the bytes of an indexer.
    index_bytes: int = 0
    #: The size of the latent that queries are made of; 0 if they are made of a token's features.
    query_rank: int = 0

    @property
    def expansion_macs(self) -> int:
        """The multiply-accumulates that make keys and values of the latent of a token, in all layers."""
        return self.layers * self.rank * self.heads * (self.nope + self.value)

    @property
    def pair_macs(self) -> int:
        """The multiply-accumulates of a query and an expanded key with its value, in all layers."""
        return self.layers * self.heads * (self.nope + self.rope + self.value)


@dataclass(frozen=True, slots=True)
class Work:
    """The laws of the multiply-accumulates of a pass."""

    #: Their parts, as the model's own code runs them.
    terms: tuple[Term, ...]
    #: The sizes of latent attention; None for a model without it.
    latent: LatentAttention | None = None
    #: The multiply-accumulates of a token for experts that it is not sent to, if a library runs all experts.
    unrouted_macs: int = 0


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Products with weights that are alike."""

    #: The law of all new tokens, or of the last token of each sequence.
    law: Law
    #: Rows of the output for one token.
    rows: int
    columns: int
    #: Multiply-accumulates for each element of the output.
    depth: int
    dtype: str
    #: Whether they are of experts, whose rows are divided over the experts that are chosen.
    is_experts: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Attention of layers that are alike, which an engine runs as one fused operator each."""

    #: The multiply-accumulates of one layer, which follow pairs of a query and a key.
    pairs: Term
    #: The size of a head's output.
    columns: int
    dtype: str


@dataclass(frozen=True, slots=True)
class TrafficShape:
    """Operators without products that are alike, after fusion."""

    #: The family of traffic: "normalization".
    family: str
    #: Bytes that one of them moves for each new token.
    token_bytes: float
    dtype: str


@dataclass(frozen=True)
class StepShapes:
    """The shapes of a step of an engine, each with its number: products with weights, attention, and traffic."""

    products: Mapping[ProductShape, int] = field(default_factory=dict)
    attention: Mapping[AttentionShape, int] = field(default_factory=dict)
    traffic: Mapping[TrafficShape, int] = field(default_factory=dict)
