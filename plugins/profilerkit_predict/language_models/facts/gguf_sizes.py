"""The sizes of a language model by the metadata of its GGUF file, read as llama.cpp reads them.

The rules for each architecture are from ``load_hparams`` in its ``src/llama-model.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from profilerkit.errors import InputError

from ...checkpoints.gguf import GgufFile
from ...checkpoints.stored_tensors import StoredTensor
from .model_cache import CacheLayer
from .records import ModelSizes, Routing
from .work import LatentAttention

#: The period of layers with full attention: of so many layers the last one attends to all tokens, and the others have a
#: window. An integer in the metadata of such an architecture takes its place.
_PERIODS = {
    "gemma2": 2,
    "gpt-oss": 2,
    "afmoe": 4,
    "cohere2": 4,
    "exaone4": 4,
    "llama4": 4,
    "olmo2": 4,
    "gemma3": 6,
    "plamo3": 8,
}
#: The window if metadata name none; for Exaone 4 see `GgufSizes._find_window`.
_WINDOWS = {"gemma2": 4096, "exaone4": 4096, "llama4": 8192}
#: Architectures whose windows are chunks.
_CHUNKED = ("llama4",)


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """The attention of a layer."""

    heads: int
    #: The number of heads of keys and values, which are in the cache.
    kv_heads: int
    key_size: int
    value_size: int
    #: How many tokens it attends to at most; None for all.
    window: int | None
    #: Whether a token attends only to tokens of its own chunk; a chunk has ``window`` tokens.
    is_chunked: bool


class GgufSizes:
    """The sizes that the metadata of a file have, compared with the shapes of its tensors.

    Its methods raise `InputError` if a size is missing or differs. A file of a model that generates no text raises
    `InputError` too.

    Attributes:
        file: The header of the file.
        architecture: The architecture, by its name in llama.cpp.
        blocks: How many layers make the next token.
        mtp_layers: How many layers are behind them, which predict further tokens.
    """

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        architecture = file.metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise InputError(f"{file.path} does not say what model it holds: it has no general.architecture")
        self.architecture = architecture
        if file.metadata.get(f"{architecture}.attention.causal") is False or self._find("block_count") is None:
            raise InputError(f"{file.path} holds no model that generates text: its architecture is {architecture!r}")
        self.mtp_layers = self._find("nextn_predict_layers") or 0
        self.blocks = self._require("block_count") - self.mtp_layers
        self._shapes = {tensor.name: tensor.shape for tensor in file.tensors}

    def require_routing(self) -> Routing:
        """Return how many experts a layer has, and how many a token is sent to."""
        experts, chosen = self._find("expert_count"), self._find("expert_used_count") or 0
        if not experts:
            raise self._refuse(f"experts, and no {self.architecture}.expert_count")
        if not 0 < chosen <= experts:
            raise self._refuse(f"{chosen} of {experts} experts for a token")
        return Routing(experts, chosen)

    def is_of_mtp_layer(self, tensor: StoredTensor) -> bool:
        """Return whether a tensor is of the layers at the end that predict several tokens."""
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        return layer is not None and int(layer[1]) >= self.blocks

    def describe(self) -> ModelSizes:
        """Return the sizes that limits, shares and links follow from."""
        longest, width = self._find("context_length"), self._find("embedding_length")
        return ModelSizes(longest, width, self.blocks, self._count_all_reduces())

    def _count_all_reduces(self) -> int:
        """Return how many all-reduces tensor parallelism needs in a layer.

        One if attention and feed-forward run in parallel: metadata say so, or no norm stands between them.
        Otherwise two.
        """
        if self.file.metadata.get(f"{self.architecture}.use_parallel_residual") is True:
            return 1
        norms = ("ffn_norm.weight", "post_attention_norm.weight")
        return 2 if any(name.endswith(norms) for name in self._shapes) else 1

    def find_latent(self) -> LatentAttention | None:
        """Return the sizes of latent attention; None for a model without it."""
        rank = self._find("attention.kv_lora_rank")
        if rank is None:
            return None
        rope, heads = self._require("rope.dimension_count"), self._require("attention.head_count")
        key = self._find("attention.key_length_mla") or self._require("attention.key_length")
        value = self._find("attention.value_length_mla") or self._require("attention.value_length")
        for block in range(self.blocks):
            self._compare(f"blk.{block}.attn_kv_a_mqa.weight", 0, rank + rope)
        query_rank = self._find("attention.q_lora_rank") or 0
        return LatentAttention(self.blocks, heads, rank, rope, key - rope, value, query_rank=query_rank)

    def list_layers(self) -> Iterator[AttentionLayer]:
        """Yield the attention of each layer; raises `InputError` if a tensor has another size."""
        width = self._require("embedding_length")
        window = self._find_window()
        for block in range(self.blocks):
            heads = self._read_of_layer("attention.head_count", block)
            kv_heads = self._read_of_layer("attention.head_count_kv", block, heads)
            if not heads or not kv_heads:
                raise self._refuse(f"layer {block} without attention")
            is_windowed = window is not None and self._has_window(block)
            key = self._find_length("key", is_windowed) or width // heads
            value = self._find_length("value", is_windowed) or width // heads
            self._compare(f"blk.{block}.attn_q.weight", 0, heads * key)
            self._compare(f"blk.{block}.attn_k.weight", 0, kv_heads * key)
            self._compare(f"blk.{block}.attn_v.weight", 0, kv_heads * value)
            self._compare(f"blk.{block}.attn_qkv.weight", 0, (heads + kv_heads) * key + kv_heads * value)
            self._compare(f"blk.{block}.attn_output.weight", 1, heads * value)
            yield AttentionLayer(
                heads=heads,
                kv_heads=kv_heads,
                key_size=key,
                value_size=value,
                window=window if is_windowed else None,
                is_chunked=is_windowed and self.architecture in _CHUNKED,
            )

    def list_cache_layers(self, element_bytes: int, latent: LatentAttention | None) -> Iterator[CacheLayer]:
        """Yield how the cache of each layer grows."""
        if latent is not None:
            yield CacheLayer("latents", latent.layers * (latent.rank + latent.rope) * element_bytes, heads=1)
            return
        for block, layer in enumerate(self.list_layers()):
            yield CacheLayer(
                f"layers.{block}",
                layer.kv_heads * (layer.key_size + layer.value_size) * element_bytes,
                window=layer.window,
                heads=layer.kv_heads,
                is_chunked=layer.is_chunked,
            )

    def _find_length(self, name: str, is_windowed: bool) -> int | None:
        """Return the size of a key or a value; layers with a window may have one of their own."""
        of_windows = self._find(f"attention.{name}_length_swa") if is_windowed else None
        return of_windows or self._find(f"attention.{name}_length")

    def _find_window(self) -> int | None:
        """Return the window of the layers that have one in llama.cpp; None if no layer has.

        It uses none for Phi 3, and for the small model of Exaone 4, whatever their metadata say: the large one has 64
        layers.
        """
        if self.architecture == "phi3" or (self.architecture == "exaone4" and self.blocks != 64):
            return None
        window = self._find("attention.sliding_window")
        if window is None:
            window = _WINDOWS.get(self.architecture)
        return window or None  # 0 stands for none

    def _has_window(self, block: int) -> bool:
        """Return whether a layer has the window of the model."""
        pattern = self.file.metadata.get(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, tuple) and len(pattern) > block:
            return bool(pattern[block])
        if self.architecture not in _PERIODS:
            raise self._refuse("a sliding window, and which layers have it is not known here for this architecture")
        period = pattern if type(pattern) is int else _PERIODS[self.architecture]
        return period == 0 or block % period < period - 1

    def _read_of_layer(self, key: str, block: int, default: int | None = None) -> int:
        """Return a number that metadata have once for all layers, or one for each."""
        value = self.file.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, tuple):
            value = value[block] if block < len(value) else None
        if type(value) is not int or value < 0:
            raise self._refuse(f"no {self.architecture}.{key} of layer {block}")
        return value

    def _find(self, key: str) -> int | None:
        """Return a whole number of the metadata by its key behind the architecture; None if there is none."""
        value = self.file.metadata.get(f"{self.architecture}.{key}")
        return value if type(value) is int else None

    def _require(self, key: str) -> int:
        value = self._find(key)
        if value is None or value <= 0:
            raise self._refuse(f"no {self.architecture}.{key}")
        return value

    def _compare(self, name: str, axis: int, size: int) -> None:
        """Raise `InputError` if there is a tensor of the name, and it has another size."""
        shape = self._shapes.get(name)
        if shape is not None and (len(shape) != 2 or shape[axis] != size):
            raise self._refuse(f"a tensor {name!r} of {shape}, and by its metadata {size:,} of one size")

    def _refuse(self, what: str) -> InputError:
        return InputError(f"{self.file.path} ({self.architecture}) cannot be followed: it has {what}")
