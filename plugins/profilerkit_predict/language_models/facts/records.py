"""The facts that a backend finds about a language model, as plain numbers: its passes, cache and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from profilerkit.process.cached import cached_property
from profilerkit.times.measurement import Measurement
from profilerkit.trace.dtypes import element_bytes

from ...checkpoints.formats import MULTIPLIED, WeightFormat, WeightKind
from .model_cache import CacheGrowth
from .step_shapes import StepShapes
from .work import Work

if TYPE_CHECKING:
    from profilerkit.trace.records import ModelTrace


class ReadIn(StrEnum):
    """Which passes read weights."""

    #: Every pass.
    ALL = "all"
    #: The pass over a prompt, like for an encoder.
    FIRST = "first"
    #: No pass over text, like layers for images.
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Routing:
    """How many experts a layer has, and to how many of them each token is sent."""

    experts: int
    experts_per_token: int


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """Matrices of products that are alike, of all layers; adapters stand beside them."""

    #: Their name in a layer: "q_proj".
    name: str
    #: The features that they make.
    rows: int
    #: The features that they take.
    columns: int
    #: How many there are; of experts, in how many layers.
    count: int
    #: How tokens are sent to them; None for matrices that all tokens go through.
    routing: Routing | None = None

    @property
    def experts(self) -> int:
        """How many there are in each layer."""
        return 1 if self.routing is None else self.routing.experts

    @property
    def experts_per_token(self) -> int:
        """How many of a layer's matrices each token goes through."""
        return 1 if self.routing is None else self.routing.experts_per_token


@dataclass(frozen=True, slots=True)
class WeightPart:
    """Weights of one kind."""

    #: Their purpose.
    kind: WeightKind
    elements: int
    #: All of its bytes, as the checkpoint stores them.
    bytes: int
    #: The name of its dtype, or of the format that it is stored in: "bfloat16", "nvfp4", "Q4_K".
    dtype: str
    #: The elements of a row of a table, also of a table that is the head; None for other weights.
    row_elements: int | None = None
    #: How tokens are sent to experts; None for other kinds.
    routing: Routing | None = None
    layers: int = 1
    #: Of experts, the numbers of the layers that have them; empty if they are not known.
    numbers: tuple[int, ...] = ()
    read_in: ReadIn = ReadIn.ALL
    #: Whether it belongs to another model, for which this model drafts: it is read, but not stored again.
    is_shared: bool = False

    def count_bytes(self, form: WeightFormat | None) -> int:
        """Return its bytes in a format, if that is for its kind; in its stored format for None."""
        return form.count_bytes(self.elements) if form and self.kind in form.kinds else self.bytes


@dataclass(frozen=True, slots=True)
class ExecutionModel:
    """How the numbers take the model to be run; every number of a language model names one."""

    #: "as written" (the operators that the model's own code runs) or "engine" (a serving engine).
    name: str
    #: The library that the code is from, with its version: "transformers 5.23.0".
    library: str
    #: Its attention implementation: "sdpa"; None if no code was followed, like for a file.
    attention: str | None = None
    #: Its experts implementation; None for a model without experts.
    experts: str | None = None

    def __str__(self) -> str:
        details = {"attention": self.attention, "experts": self.experts}
        shown = [f"{part} {name}" for part, name in details.items() if name]
        return f"{self.name} ({', '.join((self.library, *shown))})"


@dataclass(frozen=True)
class PassCounts:
    """The work of one pass of a model, from the trace of its own code."""

    batch: int
    #: New tokens of each.
    new_tokens: int
    #: Tokens that the cache had before.
    cached_tokens: int
    macs: int
    flops: int
    #: Bytes that the operators read, each on its own.
    bytes_read: int
    bytes_written: int
    #: The most bytes that were alive at once, besides the weights and the cache.
    activation_bytes: int
    operators: int
    #: Operators whose cost is not known, with their calls.
    uncounted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratedTokens:
    """A real generation: the seconds of every token.

    Attributes:
        prompt: Tokens of each prompt.
        batch: Sequences.
        runs: For each repetition the seconds until each of its tokens was there, since the token before.
        device: Where it ran.
        dtype: The dtype of the weights.
        cache_bytes: The bytes of the real cache at the end.
        environment: Versions and threads.
    """

    prompt: int
    batch: int
    runs: tuple[tuple[float, ...], ...]
    device: str
    dtype: str
    cache_bytes: int
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def time_to_first_token(self) -> Measurement:
        """Seconds until the first token, one sample for each repetition."""
        return Measurement(tuple(run[0] for run in self.runs))

    @property
    def time_per_output_token(self) -> Measurement:
        """Seconds of each later token, all repetitions together."""
        return Measurement(tuple(seconds for run in self.runs for seconds in run[1:]))


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """The sizes of a model that its shares, its links and its limits follow from."""

    #: The most tokens that the model takes; None if it has no maximum.
    longest_context: int | None = None
    #: The features of a token between layers; None if that is not known.
    width: int | None = None
    #: How many layers there are; None if that is not known.
    layers: int | None = None
    #: The all-reduces of a layer under tensor parallelism: after attention and after the feed-forward part, or only one
    #: if both run side by side, or if the layer has only one part.
    all_reduces_per_layer: int = 2


@dataclass(frozen=True)
class TracedPasses:
    """The two passes that were traced: one over a prompt, and a step of one token for each sequence after it."""

    prefill: PassCounts
    decode: PassCounts
    #: Returns ``shapes``; None if work follows no law of tokens and pairs.
    make_shapes: Callable[[], StepShapes | None] | None = field(default=None, compare=False, repr=False)
    #: Returns ``traces``; None if they were not kept.
    make_traces: Callable[[], tuple[ModelTrace, ModelTrace]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def shapes(self) -> StepShapes | None:
        """The shapes of a step's products, attention and traffic; None if they follow no law."""
        return self.make_shapes() if self.make_shapes is not None else None

    @cached_property
    def traces(self) -> tuple[ModelTrace, ModelTrace] | None:
        """The traces of both passes as written, by which a measured generation is predicted; None without them."""
        return self.make_traces() if self.make_traces is not None else None


@dataclass(frozen=True)
class ModelFacts:
    """All that is found out about a language model, without its values."""

    name: str
    execution: ExecutionModel
    #: Distinct parameters.
    parameters: int
    weights: tuple[WeightPart, ...]
    #: The dtype of activations and cache: "bfloat16".
    dtype: str
    sizes: ModelSizes
    #: The laws of its multiply-accumulates.
    work: Work
    #: Its cache for the tokens that it has seen.
    cache: CacheGrowth
    #: Its class in transformers, or the architecture that a GGUF file names.
    architecture: str = ""
    matrices: tuple[MatrixShape, ...] = ()
    #: The passes that were traced; None if no code was followed, like for a GGUF file.
    traced: TracedPasses | None = None
    #: Of an encoder-decoder the tokens of the prompt that its encoder was traced with; None for a decoder alone.
    encoder_prompt: int | None = None
    #: A layer of its own that predicts a further token, as a model; None if its configuration has none, and if
    #: the work of these layers is not known.
    mtp_layer: ModelFacts | None = None
    #: How many of these layers it has, all assumed to be alike.
    mtp_layer_count: int = 0
    #: Why the bytes of the weights as the checkpoint stores them are not known; None if they are.
    unknown_storage: str | None = None
    #: Further notes that a reader of the numbers must know.
    notes: tuple[str, ...] = ()
    #: Notes that a reader must know if all of a prompt is text.
    notes_on_text: tuple[str, ...] = ()

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the prompt goes to an encoder."""
        return self.encoder_prompt is not None

    @property
    def element_bytes(self) -> int:
        """The bytes of an element of activations and cache."""
        return int(element_bytes(self.dtype))

    @property
    def has_experts(self) -> bool:
        """Whether tokens are sent to experts."""
        return any(part.routing is not None for part in self.weights)

    @property
    def storage_formats(self) -> tuple[str, ...]:
        """The formats that matrices and experts are stored in, the format with the most bytes first."""
        sizes: Counter[str] = Counter()
        for part in self.weights:
            if part.kind in MULTIPLIED:
                sizes[part.dtype] += part.bytes
        return tuple(name for name, _ in sizes.most_common())
