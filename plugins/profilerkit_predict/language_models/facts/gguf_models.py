"""A language model by the metadata and tensors of its GGUF file, as llama.cpp runs it. No framework is needed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from profilerkit.errors import InputError
from profilerkit.trace.dtypes import element_bytes

from ...checkpoints.formats import WeightKind
from ...checkpoints.gguf import GgufFile, read_gguf
from ...checkpoints.stored_tensors import StoredTensor
from .gguf_sizes import AttentionLayer, GgufSizes
from .model_cache import CacheGrowth
from .records import ExecutionModel, MatrixShape, ModelFacts, ReadIn, WeightPart
from .weights import sum_parts
from .work import LatentAttention, Law, Term, Work

#: The kinds of tensors by their names, without the number of the layer: the first that fits.
_KINDS = {
    WeightKind.EMBEDDING: re.compile(r"(token|position)_embd\.weight"),
    WeightKind.HEAD: re.compile(r"output\.weight"),
    # What is added or scales: norms, sinks, biases of a router, tables of rotary embeddings, a scale of a layer.
    WeightKind.OTHER: re.compile(
        r"(blk\.)?((\w+_)?norm(_2)?|attn_sinks|exp_probs_b|"
        r"rope_(freqs|factors_long|factors_short)|layer_output_scale)(\.\w+)?|.*\.(bias|scale|input_scale)"
    ),
    WeightKind.EXPERTS: re.compile(r"blk\.ffn_(gate|up|down|gate_up)_exps\.\w+"),  # of three dimensions
    # What is read whole and multiplies each token: in attention, also latent attention (q_a to v_b), in feed-forward
    # layers and shared experts (_shexp).
    WeightKind.MATRIX: re.compile(
        r"blk\.(attn_(q|k|v|qkv|output|gate|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b)|ffn_(gate|up|down|gate_inp)(_shexp)?|"
        r"ffn_gate_up(_shexp)?)\.\w+"
    ),
}


def find_gguf_facts(path: Path, dtype: str | None, name: str | None) -> ModelFacts:
    """Return the facts of a model from the header of its GGUF file; ``dtype`` is the dtype of the cache.

    Raises `InputError` for a model with tensors or sizes of layers other than attention and feed-forward layers.
    """
    sizes, dtype = GgufSizes(read_gguf(path)), dtype or "float16"
    used = [tensor for tensor in sizes.file.tensors if not sizes.is_of_mtp_layer(tensor)]
    left_out = sum(tensor.bytes for tensor in sizes.file.tensors) - sum(tensor.bytes for tensor in used)
    notes = [
        f"the cache is taken to be in {dtype}, as llama.cpp keeps it unless it is told otherwise",
        "a file does not tell the memory of activations: what fits leaves them out",
    ]
    if left_out:
        notes.append(f"{left_out:,} bytes of layers that predict further tokens are left out")
    weights = list(_describe_weights(sizes, used))
    parts = sum_parts((tensor.name.split(".")[1], part) for tensor, part in weights)  # "3", of "blk.3.attn_q.weight"
    latent = sizes.find_latent()
    return ModelFacts(
        name=name or path.name.removesuffix(".gguf"),
        execution=ExecutionModel("engine", f"GGUF of {sizes.architecture}"),
        parameters=sum(tensor.elements for tensor in used),
        weights=parts,
        dtype=dtype,
        sizes=sizes.describe(),
        work=Work(tuple(_list_terms(parts, sizes.list_layers(), latent)), latent),
        cache=CacheGrowth(tuple(sizes.list_cache_layers(int(element_bytes(dtype)), latent))),
        architecture=sizes.architecture,
        matrices=tuple(_list_matrices(weights)),
        mtp_layer_count=sizes.mtp_layers,
        notes=tuple(notes),
    )


def _describe_weights(sizes: GgufSizes, tensors: Iterable[StoredTensor]) -> Iterator[tuple[StoredTensor, WeightPart]]:
    """Yield each tensor with its weights; raises `InputError` for a tensor of an unknown layer.

    If a file has no head, its table is the head too, and read whole. Latents are expanded by one matrix
    (``attn_kv_b``), or absorbed by its two halves. If a file has all three, the halves are multiplied, and no pass
    reads the whole.
    """
    names = {tensor.name for tensor in sizes.file.tensors}
    for tensor in tensors:
        is_tied = tensor.name == "token_embd.weight" and "output.weight" not in names
        kind = WeightKind.HEAD if is_tied else _find_kind(sizes.file, tensor)
        part = WeightPart(kind, tensor.elements, tensor.bytes, tensor.dtype)
        if kind is WeightKind.EXPERTS or (kind is WeightKind.OTHER and "_exps." in tensor.name):
            part = replace(part, routing=sizes.require_routing())  # biases of experts are read with them
        elif kind is WeightKind.EMBEDDING or is_tied:
            part = replace(part, row_elements=tensor.shape[-1])
        elif "attn_kv_b" in tensor.name and tensor.name.replace("attn_kv_b", "attn_k_b") in names:
            part = replace(part, read_in=ReadIn.NONE)
        yield tensor, part


def _find_kind(file: GgufFile, tensor: StoredTensor) -> WeightKind:
    """Return the kind of a tensor, by its name; raises `InputError` for one of a layer that is not known."""
    name = re.sub(r"^blk\.\d+\.", "blk.", tensor.name)
    for kind, pattern in _KINDS.items():
        if pattern.fullmatch(name) and (kind is not WeightKind.EXPERTS or len(tensor.shape) == 3):
            return kind
    raise InputError(
        f"{file.path} ({file.metadata.get('general.architecture')}) cannot be followed: its tensor {tensor.name!r} is "
        "no part of attention or feed-forward layers that are known here; for a model of transformers give a folder "
        "with its config.json"
    )


def _list_matrices(weights: Iterable[tuple[StoredTensor, WeightPart]]) -> Iterator[MatrixShape]:
    """Yield the matrices of products by their names in a layer, without routers and matrices that are cut by heads."""
    counts: Counter[MatrixShape] = Counter()
    for tensor, part in weights:
        name = tensor.name.removesuffix(".weight").rpartition(".")[2]  # "attn_q", of "blk.3.attn_q.weight"
        is_matrix = part.kind is WeightKind.MATRIX and len(tensor.shape) == 2 and name != "ffn_gate_inp"
        if part.read_in is ReadIn.ALL and (is_matrix or part.kind is WeightKind.EXPERTS):
            rows, columns = tensor.shape[-2:]
            counts[MatrixShape(name, rows, columns, 1, part.routing)] += 1
    yield from (replace(matrix, count=count) for matrix, count in counts.items())


def _list_terms(
    weights: Iterable[WeightPart], attention: Iterable[AttentionLayer], latent: LatentAttention | None
) -> Iterator[Term]:
    """Yield the terms of the multiply-accumulates: products for each token, the head, and pairs of attention."""
    multiplied: Counter[Law] = Counter()
    for part in weights:
        if part.kind is WeightKind.MATRIX and part.read_in is ReadIn.ALL:
            multiplied[Law.TOKEN] += part.elements
        elif part.kind is WeightKind.EXPERTS and part.routing is not None:
            multiplied[Law.TOKEN] += part.elements // part.routing.experts * part.routing.experts_per_token
        elif part.kind is WeightKind.HEAD:
            multiplied[Law.LAST] += part.elements
    yield from (Term(law, multiplied[law]) for law in (Law.TOKEN, Law.LAST))
    if latent is not None:
        yield Term(Law.PAIR, latent.pair_macs)
        return
    pairs: Counter[Term] = Counter()
    for layer in attention:
        of_a_pair = layer.heads * (layer.key_size + layer.value_size)
        pairs[Term(Law.PAIR, 0, layer.window, is_chunked=layer.is_chunked)] += of_a_pair
    yield from (replace(term, rate=rate) for term, rate in pairs.items())
