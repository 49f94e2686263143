"""A language model by the metadata and tensors of its GGUF file, as llama.cpp runs it. No framework is needed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from profilerkit.errors import InputError

from ..checkpoints.formats import WeightKind
from ..checkpoints.headers import GgufFile, StoredTensor, read_gguf
from .formulas import dtype_bytes
from .gguf_sizes import AttentionLayer, GgufSizes
from .model_cache import CacheGrowth
from .records import ExecutionModel, LatentAttention, Law, MatrixShape, ModelFacts, Term, WeightPart, Work

__all__ = ["find_gguf_facts"]

#: Tensors of a layer that are read whole and multiply each token, by the names of llama.cpp: those of attention, also
#: latent attention (``attn_q_a``, ``attn_kv_a_mqa``, ...), of feed-forward layers and shared experts (``_shexp``), and
#: the projection with which a layer that predicts further tokens begins (``nextn``).
_MATRICES = re.compile(
    r"attn_(q|k|v|qkv|output|gate|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b)|ffn_(gate|up|down|gate_inp)(_shexp)?|"
    r"ffn_gate_up(_shexp)?|nextn\.eh_proj"
)
#: Those that are of experts.
_EXPERTS = re.compile(r"ffn_(gate|up|down|gate_up)_exps")
#: Those that are added or scale: norms, sinks, biases of a router, tables of rotary embeddings, a scale of a layer.
_OTHERS = re.compile(
    r"(\w+_)?norm(_2)?|nextn\.(enorm|hnorm|shared_head_norm)|attn_sinks|exp_probs_b|rope_(freqs|factors_long|factors_short)|layer_output_scale"
)
_CACHE_NOTE = "the cache is taken to be in {dtype}, as llama.cpp keeps it unless it is told otherwise"
_FURTHER_NOTE = "layers that predict further tokens and have other tensors than the first of them are not counted"
_ACTIVATIONS_NOTE = "a file does not tell the memory of activations: what fits leaves them out"


def find_gguf_facts(path: Path, dtype: str | None, name: str | None) -> ModelFacts:
    """Return what the header of a GGUF file tells about its model; ``dtype`` is that of the cache.

    Raises `InputError` for a model whose tensors or sizes are not those of attention and feed-forward layers.
    """
    file = read_gguf(path)
    sizes = GgufSizes(file)
    used = [tensor for tensor in file.tensors if not sizes.is_left_out(tensor)]
    weights = _find_weights(file, used)
    is_tied = not any(tensor.name == "output.weight" for tensor in used)
    parts = tuple(_sum_parts(weights, sizes, is_tied))
    dtype = dtype or "float16"
    latent = sizes.find_latent()
    notes = [_CACHE_NOTE.format(dtype=dtype), _ACTIVATIONS_NOTE]
    left_out = sum(tensor.bytes for tensor in file.tensors) - sum(tensor.bytes for tensor in used)
    if left_out:
        notes.append(
            f"{left_out:,} bytes of layers that predict further tokens are left out; draft='mtp' (--draft) runs one"
        )
    facts = ModelFacts(
        name=name or path.name.removesuffix(".gguf"),
        execution=ExecutionModel("engine", f"GGUF of {sizes.architecture}"),
        parameters=sum(tensor.elements for tensor in used),
        weights=parts,
        dtype=dtype,
        sizes=sizes.describe(),
        work=Work(tuple(_list_terms(parts, sizes.list_layers(), latent)), latent),
        cache=CacheGrowth(tuple(sizes.list_cache_layers(dtype_bytes(dtype), latent))),
        architecture=sizes.architecture,
        matrices=tuple(_list_matrices(weights, sizes)),
        notes=tuple(notes),
    )
    return _add_mtp_layer(file, sizes, facts)


def _add_mtp_layer(file: GgufFile, sizes: GgufSizes, facts: ModelFacts) -> ModelFacts:
    """Return a model's facts with the first layer that predicts further tokens, as a model, if the file has any.

    As many count as have tensors like it. Its attention is that of the last layer before it. A table and a head that it
    does not have are the model's.
    """
    layers: defaultdict[str, list[StoredTensor]] = defaultdict(list)
    for tensor in filter(sizes.is_left_out, file.tensors):
        layers[_read_layer(tensor)].append(tensor)
    tensors = layers.get(str(sizes.blocks))
    if not tensors:
        return facts
    alike = sum(_describe(layer) == _describe(tensors) for layer in layers.values())
    parts = list(_sum_parts(_find_weights(file, tensors), sizes, is_tied=False))
    lacking = {WeightKind.HEAD, WeightKind.EMBEDDING} - {part.kind for part in parts}
    parts += [replace(part, is_shared=True) for part in facts.weights if part.kind in lacking]
    latent = None if facts.work.latent is None else replace(facts.work.latent, layers=1)
    attention = list(sizes.list_layers())[-1:] if latent is None else []
    cache_layers = list(sizes.list_cache_layers(dtype_bytes(facts.dtype), latent))
    first = replace(
        facts,
        name=f"its own layer {sizes.blocks:,}",
        parameters=sum(tensor.elements for tensor in tensors),
        weights=tuple(parts),
        sizes=replace(facts.sizes, layers=1),
        work=Work(tuple(_list_terms(parts, attention, latent)), latent),
        cache=CacheGrowth(tuple(cache_layers[-1:])),
        matrices=(),
        notes=(_FURTHER_NOTE,) if alike < len(layers) else (),
    )
    return replace(facts, mtp_layer=first, mtp_layer_count=alike)


def _read_layer(tensor: StoredTensor) -> str:
    """Return the number of a tensor's layer, as it stands in its name: "3" in "blk.3.attn_q.weight"."""
    return tensor.name.split(".")[1]


def _describe(layer: Iterable[StoredTensor]) -> set[tuple[str, tuple[int, ...], str]]:
    """Return the tensors of a layer without its number: names, shapes and types."""
    return {(tensor.name.split(".", 2)[2], tensor.shape, tensor.dtype) for tensor in layer}


class _Weight(NamedTuple):
    """A tensor of a file, and what it is for."""

    tensor: StoredTensor
    kind: WeightKind


def _find_weights(file: GgufFile, tensors: Iterable[StoredTensor]) -> list[_Weight]:
    return [_Weight(tensor, _find_kind(file, tensor)) for tensor in tensors]


def _find_kind(file: GgufFile, tensor: StoredTensor) -> WeightKind:
    """Return the kind of a tensor, by its name; raises `InputError` for one of a layer that is not known."""
    name = tensor.name
    if name in ("token_embd.weight", "position_embd.weight") or name.endswith("nextn.embed_tokens.weight"):
        return WeightKind.EMBEDDING
    if name == "output.weight" or name.endswith("nextn.shared_head_head.weight"):
        return WeightKind.HEAD
    is_in_layer = name.startswith("blk.")
    stem, _, ending = re.sub(r"^blk\.\d+\.", "", name).rpartition(".")
    stem = stem or ending  # some have no ending: "blk.0.exp_probs_b"
    if _OTHERS.fullmatch(stem) or ending in ("bias", "scale", "input_scale"):
        return WeightKind.OTHER
    if is_in_layer and _EXPERTS.fullmatch(stem) and len(tensor.shape) == 3:
        return WeightKind.EXPERTS
    if is_in_layer and _MATRICES.fullmatch(stem):
        return WeightKind.MATRIX
    raise InputError(
        f"{file.path} ({file.metadata.get('general.architecture')}) cannot be followed: its tensor {tensor.name!r} is "
        "no part of attention or feed-forward layers that are known here; for a model of transformers give a folder "
        "with its config.json"
    )


def _sum_parts(weights: Iterable[_Weight], sizes: GgufSizes, is_tied: bool) -> Iterator[WeightPart]:
    """Yield the weights by kind and type; a table that is tied to the head is the head, and read whole."""
    members: defaultdict[WeightPart, list[StoredTensor]] = defaultdict(list)
    for tensor, kind in weights:
        part = WeightPart(kind, 0, 0, tensor.dtype)
        if kind is WeightKind.EXPERTS:
            part = replace(part, routing=sizes.require_routing())
        elif kind is WeightKind.EMBEDDING and is_tied and tensor.name.startswith("token_embd"):
            part = replace(part, kind=WeightKind.HEAD)
        elif kind is WeightKind.EMBEDDING:
            part = replace(part, row_elements=tensor.shape[-1])
        members[part].append(tensor)
    for part in sorted(members, key=lambda part: (part.kind, part.dtype)):
        tensors = members[part]
        layers = len(set(map(_read_layer, tensors))) if part.routing is not None else 1
        elements = sum(tensor.elements for tensor in tensors)
        stored_bytes = sum(tensor.bytes for tensor in tensors)
        yield replace(part, elements=elements, bytes=stored_bytes, layers=layers)


def _list_matrices(weights: Iterable[_Weight], sizes: GgufSizes) -> Iterator[MatrixShape]:
    """Yield the matrices of products by their names in a layer, without routers and those that are cut by heads."""
    counts: Counter[MatrixShape] = Counter()
    for tensor, kind in weights:
        name = tensor.name.removesuffix(".weight").rpartition(".")[2]
        if kind is WeightKind.EXPERTS:
            _, rows, columns = tensor.shape
            counts[MatrixShape(name, rows, columns, 1, sizes.require_routing())] += 1
        elif kind is WeightKind.MATRIX and len(tensor.shape) == 2 and name != "ffn_gate_inp":
            rows, columns = tensor.shape
            counts[MatrixShape(name, rows, columns, 1)] += 1
    yield from (replace(matrix, count=count) for matrix, count in counts.items())


def _list_terms(
    weights: Iterable[WeightPart], attention: Iterable[AttentionLayer], latent: LatentAttention | None
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
        pairs[Term(Law.PAIR, 0, layer.window, is_chunked=layer.is_chunked)] += layer.heads * (
            layer.key_size + layer.value_size
        )
    for term, rate in pairs.items():
        yield replace(term, rate=rate)
