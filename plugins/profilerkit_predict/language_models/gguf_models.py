"""A language model by the metadata and tensors of its GGUF file, as llama.cpp runs it. No framework is needed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from profilerkit.errors import InputError

from ..checkpoints.gguf import GgufFile, read_gguf
from ..checkpoints.stored_tensor import StoredTensor
from .formulas import dtype_bytes
from .records import (
    CacheGrowth,
    CacheLayer,
    ExecutionModel,
    LatentAttention,
    Law,
    MatrixShape,
    ModelFacts,
    ModelSizes,
    Routing,
    Term,
    WeightKind,
    WeightPart,
    Work,
)

__all__ = ["find_gguf_facts"]

#: Tensors of a layer that are read whole and multiply each token, by the names of llama.cpp.
_MATRICES = re.compile(
    r"attn_(q|k|v|qkv|output|gate|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b)|ffn_(gate|up|down|gate_inp)(_shexp)?|"
    r"ffn_gate_up(_shexp)?|nextn\.eh_proj"
)
#: Those that are of experts.
_EXPERTS = re.compile(r"ffn_(gate|up|down|gate_up)_exps")
#: Those that are added or scale: norms, sinks, biases of a router.
_OTHERS = re.compile(
    r"(\w+_)?norm(_2)?|nextn\.(enorm|hnorm|shared_head_norm)|attn_sinks|exp_probs_b|rope_(freqs|factors_long|factors_short)|layer_output_scale"
)
#: Of how many layers the last one attends to all tokens and the others have a window, by llama.cpp's loaders of models,
#: which take an integer of the metadata instead of it where there is one.
_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "plamo3": 8}
_PERIODS |= dict.fromkeys(("cohere2", "exaone4", "olmo2", "afmoe", "llama4"), 4)
#: The window that llama.cpp takes where metadata name none; of Exaone 4 see `_Sizes._find_window`.
_WINDOWS = {"gemma2": 4096, "exaone4": 4096, "llama4": 8192}
#: Architectures whose windows are chunks.
_CHUNKED = ("llama4",)
_CACHE_NOTE = "the cache is taken to be in {dtype}, as llama.cpp keeps it unless it is told otherwise"
_OTHERS_NOTE = "layers that predict further tokens and have other tensors than the first of them are not counted"
_ACTIVATIONS_NOTE = "a file does not tell the memory of activations: what fits leaves them out"


def find_gguf_facts(path: Path, dtype: str | None = None, name: str | None = None) -> ModelFacts:
    """Return what the header of a GGUF file tells about its model; ``dtype`` is that of the cache.

    Raises `InputError` for a model whose tensors or sizes are not those of attention and feed-forward layers.
    """
    file = read_gguf(path)
    sizes = _Sizes(file)
    used = [tensor for tensor in file.tensors if not sizes.is_left_out(tensor)]
    kinds = {tensor.name: _find_kind(file, tensor) for tensor in used}
    is_tied = not any(tensor.name == "output.weight" for tensor in used)
    weights = tuple(_weight_parts(used, kinds, sizes, is_tied))
    dtype = dtype or "float16"
    cache_dtype_bytes, latent = dtype_bytes(dtype), sizes.latent()
    layers = tuple(sizes.cache_layers(cache_dtype_bytes, latent))
    notes = [_CACHE_NOTE.format(dtype=dtype), _ACTIVATIONS_NOTE]
    extra = sum(tensor.bytes for tensor in file.tensors) - sum(tensor.bytes for tensor in used)
    if extra:
        notes.append(
            f"{extra:,} bytes of layers that predict further tokens are left out; draft='mtp' (--draft) runs one"
        )
    facts = ModelFacts(
        name=name or path.name.removesuffix(".gguf"),
        execution=ExecutionModel("engine", f"GGUF of {sizes.architecture}"),
        parameters=sum(tensor.elements for tensor in used),
        weights=weights,
        dtype=dtype,
        sizes=sizes.describe(),
        work=Work(tuple(_terms(weights, sizes.layers(), latent)), latent),
        cache=CacheGrowth(layers),
        architecture=sizes.architecture,
        matrices=tuple(_list_matrices(used, kinds, sizes)),
        notes=tuple(notes),
    )
    return _add_own_heads(file, sizes, facts)


def _add_own_heads(file: GgufFile, sizes: _Sizes, facts: ModelFacts) -> ModelFacts:
    """Return a model's facts with the first layer that predicts further tokens, as a model, if the file has any.

    As many count as have tensors like it. Its attention is that of the last layer before it. A table and a head that it
    does not have are the model's.
    """
    layers: defaultdict[str, list[StoredTensor]] = defaultdict(list)
    for tensor in filter(sizes.is_left_out, file.tensors):
        layers[tensor.name.split(".")[1]].append(tensor)
    tensors = layers.get(str(sizes.blocks))
    if not tensors:
        return facts
    alike = sum(_describe(layer) == _describe(tensors) for layer in layers.values())
    kinds = {tensor.name: _find_kind(file, tensor) for tensor in tensors}
    parts = list(_weight_parts(tensors, kinds, sizes, is_tied=False))
    lacking = {WeightKind.HEAD, WeightKind.EMBEDDING} - {part.kind for part in parts}
    parts += [replace(part, is_shared=True) for part in facts.weights if part.kind in lacking]
    latent = None if facts.work.latent is None else replace(facts.work.latent, layers=1)
    attention = list(sizes.layers())[-1:] if latent is None else []
    entries = list(sizes.cache_layers(dtype_bytes(facts.dtype), latent))
    first = replace(
        facts,
        name=f"its own layer {sizes.blocks:,}",
        parameters=sum(tensor.elements for tensor in tensors),
        weights=tuple(parts),
        sizes=replace(facts.sizes, layers=1),
        work=Work(tuple(_terms(parts, attention, latent)), latent),
        cache=CacheGrowth(tuple(entries[-1:])),
        matrices=(),
        notes=(_OTHERS_NOTE,) if alike < len(layers) else (),
    )
    return replace(facts, own_heads=first, own_head_count=alike)


def _describe(layer: Iterable[StoredTensor]) -> set[tuple[str, tuple[int, ...], str]]:
    """Return the tensors of a layer without its number: names, shapes and types."""
    return {(tensor.name.split(".", 2)[2], tensor.shape, tensor.dtype) for tensor in layer}


def _find_kind(file: GgufFile, tensor: StoredTensor) -> WeightKind:
    """Return the kind of a tensor, by its name; raises `InputError` for one of a layer that is not known."""
    if tensor.name in ("token_embd.weight", "position_embd.weight") or tensor.name.endswith(
        "nextn.embed_tokens.weight"
    ):
        return WeightKind.EMBEDDING
    if tensor.name == "output.weight" or tensor.name.endswith("nextn.shared_head_head.weight"):
        return WeightKind.HEAD
    stem, _, ending = re.sub(r"^blk\.\d+\.", "", tensor.name).rpartition(".")
    stem = stem or ending  # some have no ending: "blk.0.exp_probs_b"
    if _OTHERS.fullmatch(stem) or ending in ("bias", "scale", "input_scale"):
        return WeightKind.OTHER
    if tensor.name.startswith("blk.") and _EXPERTS.fullmatch(stem) and len(tensor.shape) == 3:
        return WeightKind.EXPERTS
    if tensor.name.startswith("blk.") and _MATRICES.fullmatch(stem):
        return WeightKind.MATRIX
    raise InputError(
        f"{file.path} ({file.metadata.get('general.architecture')}) cannot be followed: its tensor {tensor.name!r} is "
        "no part of attention or feed-forward layers that are known here; for a model of transformers give a folder "
        "with its config.json"
    )


def _weight_parts(
    tensors: Iterable[StoredTensor], kinds: Mapping[str, WeightKind], sizes: _Sizes, is_tied: bool
) -> Iterator[WeightPart]:
    """Yield the weights by kind and type; a table that is tied to the head is the head, and read whole."""
    parts: defaultdict[WeightPart, list[StoredTensor]] = defaultdict(list)
    routing = Routing(sizes.experts, sizes.experts_per_token) if sizes.experts else None
    for tensor in tensors:
        part = WeightPart(kinds[tensor.name], 0, 0, tensor.dtype)
        if part.kind is WeightKind.EXPERTS:
            part = replace(part, routing=routing)
        elif part.kind is WeightKind.EMBEDDING and is_tied and tensor.name.startswith("token_embd"):
            part = replace(part, kind=WeightKind.HEAD)
        elif part.kind is WeightKind.EMBEDDING:
            part = replace(part, row_elements=tensor.shape[-1])
        parts[part].append(tensor)
    for part, members in sorted(parts.items(), key=lambda item: (item[0].kind, item[0].dtype)):
        elements, stored = sum(tensor.elements for tensor in members), sum(tensor.bytes for tensor in members)
        layers = len({tensor.name.split(".")[1] for tensor in members}) if part.routing is not None else 1
        yield replace(part, elements=elements, bytes=stored, layers=layers)


def _list_matrices(
    tensors: Iterable[StoredTensor], kinds: Mapping[str, WeightKind], sizes: _Sizes
) -> Iterator[MatrixShape]:
    """Yield the matrices of products by their names in a layer, without routers and those that are cut by heads."""
    counts: Counter[MatrixShape] = Counter()
    for tensor in tensors:
        name = tensor.name.removesuffix(".weight").rpartition(".")[2]
        if kinds[tensor.name] is WeightKind.EXPERTS:
            _, rows, columns = tensor.shape
            counts[MatrixShape(name, rows, columns, 1, Routing(sizes.experts, sizes.experts_per_token))] += 1
        elif kinds[tensor.name] is WeightKind.MATRIX and len(tensor.shape) == 2 and name != "ffn_gate_inp":
            rows, columns = tensor.shape
            counts[MatrixShape(name, rows, columns, 1)] += 1
    yield from (replace(matrix, count=count) for matrix, count in counts.items())


def _terms(
    weights: Iterable[WeightPart], attention: Iterable[_Layer], latent: LatentAttention | None
) -> Iterator[Term]:
    """Yield what the multiply-accumulates follow: products for each token, the head, and pairs of attention."""
    token = last = 0
    for part in weights:
        if part.kind is WeightKind.MATRIX:
            token += part.elements
        elif part.routing is not None:
            token += part.elements // part.routing.experts * part.routing.experts_per_token
        elif part.kind is WeightKind.HEAD:
            last += part.elements
    yield Term(Law.TOKEN, token)
    yield Term(Law.LAST, last)
    if latent is not None:
        yield Term(Law.PAIR, latent.layers * latent.heads * (latent.nope + latent.rope + latent.value))
        return
    pairs: Counter[Term] = Counter()
    for layer in attention:
        pairs[Term(Law.PAIR, 0, layer.window, is_chunked=layer.is_chunked)] += layer.heads * (layer.key + layer.value)
    for term, rate in pairs.items():
        yield replace(term, rate=rate)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The attention of a layer: heads of queries, heads in the cache, the sizes of keys and values, the window."""

    heads: int
    groups: int
    key: int
    value: int
    window: int | None
    is_chunked: bool


class _Sizes:
    """The sizes that the metadata of a file have, compared with the shapes of its tensors."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        architecture = file.metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise InputError(f"{file.path} does not say what model it holds: it has no general.architecture")
        self.architecture = architecture
        if file.metadata.get(f"{architecture}.attention.causal") is False or self._find("block_count") is None:
            raise InputError(f"{file.path} holds no model that generates text: its architecture is {architecture!r}")
        self.blocks = self._require("block_count") - (self._find("nextn_predict_layers") or 0)
        self.experts = self._find("expert_count") or 0
        self.experts_per_token = self._find("expert_used_count") or 0
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise self._refuse(f"{self.experts_per_token} of {self.experts} experts for a token")
        self.shapes = {tensor.name: tensor.shape for tensor in file.tensors}

    def is_left_out(self, tensor: StoredTensor) -> bool:
        """Return whether a tensor is of the layers at the end that predict several tokens."""
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        return layer is not None and int(layer[1]) >= self.blocks

    def describe(self) -> ModelSizes:
        """Return the sizes that limits, shares and links follow from."""
        longest, width = self._find("context_length"), self._find("embedding_length")
        return ModelSizes(longest, width, self.blocks, self._count_sums_of_a_layer())

    def _count_sums_of_a_layer(self) -> int:
        """Return how often devices that cut a layer add up what they have: once without a norm between its parts."""
        norms = ("ffn_norm.weight", "post_attention_norm.weight")
        return 2 if any(name.endswith(norms) for name in self.shapes) else 1

    def latent(self) -> LatentAttention | None:
        """Return the sizes of latent attention; None for a model without it."""
        rank = self._find("attention.kv_lora_rank")
        if rank is None:
            return None
        rope, heads = self._require("rope.dimension_count"), self._require("attention.head_count")
        key = self._find("attention.key_length_mla") or self._require("attention.key_length")
        value = self._find("attention.value_length_mla") or self._require("attention.value_length")
        for block in range(self.blocks):
            self._compare(f"blk.{block}.attn_kv_a_mqa.weight", 0, rank + rope)
        return LatentAttention(self.blocks, heads, rank, rope, key - rope, value)

    def layers(self) -> Iterator[_Layer]:
        """Yield the attention of each layer; raises `InputError` if a tensor has another size."""
        width, window = self._require("embedding_length"), self._find_window()
        for block in range(self.blocks):
            heads = self._of_layer("attention.head_count", block)
            groups = self._of_layer("attention.head_count_kv", block, heads)
            if not heads or not groups:
                raise self._refuse(f"layer {block} without attention")
            is_windowed = window is not None and self._has_window(block)
            key, value = (
                (is_windowed and self._find(f"attention.{name}_length_swa"))
                or self._find(f"attention.{name}_length")
                or width // heads
                for name in ("key", "value")
            )
            self._compare(f"blk.{block}.attn_q.weight", 0, heads * key)
            self._compare(f"blk.{block}.attn_k.weight", 0, groups * key)
            self._compare(f"blk.{block}.attn_v.weight", 0, groups * value)
            self._compare(f"blk.{block}.attn_qkv.weight", 0, (heads + groups) * key + groups * value)
            self._compare(f"blk.{block}.attn_output.weight", 1, heads * value)
            is_chunked = is_windowed and self.architecture in _CHUNKED
            yield _Layer(heads, groups, key, value, window if is_windowed else None, is_chunked)

    def cache_layers(self, item: int, latent: LatentAttention | None) -> Iterator[CacheLayer]:
        """Yield how the cache of each layer grows, with elements of so many bytes."""
        if latent is not None:
            yield CacheLayer("latents", latent.layers * (latent.rank + latent.rope) * item, heads=1)
            return
        for block, layer in enumerate(self.layers()):
            entry = layer.groups * (layer.key + layer.value) * item
            yield CacheLayer(
                f"layers.{block}", entry, window=layer.window, heads=layer.groups, is_chunked=layer.is_chunked
            )

    def _find_window(self) -> int | None:
        """Return the window of the layers that have one in llama.cpp; None if no layer has."""
        if self.architecture == "phi3" or (self.architecture == "exaone4" and self.blocks != 64):
            return None  # llama.cpp uses none, whatever the metadata say
        window = self._find("attention.sliding_window")
        return (_WINDOWS.get(self.architecture) if window is None else window) or None

    def _has_window(self, block: int) -> bool:
        """Return whether a layer has the window of the model."""
        pattern = self.file.metadata.get(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, tuple) and len(pattern) > block:
            return bool(pattern[block])
        if self.architecture not in _PERIODS:
            raise self._refuse("a sliding window, and which layers have it is not known here for this architecture")
        period = pattern if type(pattern) is int else _PERIODS[self.architecture]
        return period == 0 or block % period < period - 1

    def _of_layer(self, key: str, block: int, default: int | None = None) -> int:
        """Return a number that may differ by layer."""
        value = self.file.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, tuple):
            value = value[block] if block < len(value) else None
        if type(value) is not int or value < 0:
            raise self._refuse(f"no {self.architecture}.{key} of layer {block}")
        return value

    def _find(self, key: str) -> int | None:
        value = self.file.metadata.get(f"{self.architecture}.{key}")
        return value if type(value) is int else None

    def _require(self, key: str) -> int:
        value = self._find(key)
        if value is None or value <= 0:
            raise self._refuse(f"no {self.architecture}.{key}")
        return value

    def _compare(self, name: str, axis: int, size: int) -> None:
        """Raise `InputError` if a tensor, where there is one of the name, has another size."""
        shape = self.shapes.get(name)
        if shape is not None and (len(shape) != 2 or shape[axis] != size):
            raise self._refuse(f"a tensor {name!r} of {shape}, and by its metadata {size:,} of one size")

    def _refuse(self, what: str) -> InputError:
        return InputError(f"{self.file.path} ({self.architecture}) cannot be followed: it has {what}")
