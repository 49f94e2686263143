"""The methods of quantization: the formats of weights that the configuration of each of them describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from .formats import MULTIPLIED, MULTIPLIED_OR_LOOKED_UP, WEIGHT_FORMATS, WeightFormat, WeightKind

_Config = Mapping[str, Any]


class Rule(NamedTuple):
    """How the weights of some layers are stored; of several rules the first that fits holds."""

    #: Occurs in the paths of these layers; None for all layers.
    pattern: re.Pattern[str] | None
    #: The format of their weights; None for their own dtype.
    format: WeightFormat | None


#: The bits of the scales of groups: of 16 bits, and of the 8 bits of microscaling formats.
_HALF, _MICRO = 16, 8
_MXFP4, _MXFP8, _NVFP4 = (WEIGHT_FORMATS[name] for name in ("mxfp4", "mxfp8", "nvfp4"))
_FP8, _INT8 = (WEIGHT_FORMATS[name] for name in ("fp8", "int8"))


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern of paths as configurations write it: after "re:" a regular expression, otherwise whole names.

    >>> [bool(compile_pattern("mlp.gate").search(path)) for path in ("layers.0.mlp.gate", "layers.0.mlp.gate_proj")]
    [True, False]
    """
    if pattern.startswith("re:"):
        return re.compile(pattern[3:])
    return re.compile(rf"(?:^|\.){re.escape(pattern).replace(re.escape('*'), '.*')}(?:\.|$)")


def _make_grouped(name: str, bits: int, group: int, scale_bits: int) -> WeightFormat:
    """Return a format by the size of its groups in a configuration; 0 and -1 are whole rows, of uncounted scales."""
    return WeightFormat(name, bits, max(group, 0), scale_bits if group > 0 else 0)


def _make_integers(bits: int, group: int, zero_point_bits: int) -> WeightFormat:
    """Return a format of integers whose groups share a scale of 16 bits and a zero point, or a shift."""
    return _make_grouped(f"int{bits}", bits, group, _HALF + zero_point_bits)


# Methods with one format for all layers -------------------------------------------------------------------------------


def _read_bitsandbytes(config: _Config) -> WeightFormat:
    if not (config.get("load_in_4bit") or config.get("quant_method") == "bitsandbytes_4bit"):
        return _INT8
    # Nested: the scales of 64 elements have 8 bits, and 256 of them share one of 32; that one is left out.
    scale_bits = 8 if config.get("bnb_4bit_use_double_quant") else 32
    return WeightFormat(str(config.get("bnb_4bit_quant_type", "fp4")), 4, 64, scale_bits)


def _read_quanto(config: _Config) -> WeightFormat:
    """Return the format of Quanto: with less than 8 bits, 128 elements share a scale and a shift of 16 bits each."""
    name = str(config.get("weights", "int8"))
    return {"float8": _FP8, "int8": _INT8}.get(name) or WeightFormat(name, {"int4": 4, "int2": 2}[name], 128, 2 * _HALF)


def _read_torchao(config: _Config) -> WeightFormat:
    """Return the format of torchao, whose configuration names a class with its options."""
    described = config["quant_type"]["default"]
    name, group = str(described["_type"]), int(described.get("_data", {}).get("group_size") or 128)
    if name == "Int4WeightOnlyConfig":
        return _make_integers(4, group, zero_point_bits=_HALF)
    return {
        "Int8WeightOnlyConfig": _INT8,
        "Int8DynamicActivationInt8WeightConfig": _INT8,
        "Float8WeightOnlyConfig": _FP8,
        "Float8DynamicActivationFloat8WeightConfig": _FP8,
    }[name]


def _read_small_floats(config: _Config) -> WeightFormat:
    """Return the format of FP-Quant and Four Over Six, which store NVFP4 or MXFP4."""
    if config.get("store_master_weights") or config.get("keep_master_weights") or config.get("module_config_overrides"):
        raise ValueError("weights are kept in another format too")
    dtype = config.get("weight_dtype") or config.get("dtype") or config.get("forward_dtype") or "nvfp4"
    return {"nvfp4": _NVFP4, "mxfp4": _MXFP4}[str(dtype)]


def _read_groups(config: _Config, name: str, usual_group: int, scale_bits: int) -> WeightFormat:
    return _make_grouped(name, int(config.get("bits", 4)), int(config.get("group_size", usual_group)), scale_bits)


# Methods with formats by layer ----------------------------------------------------------------------------------------


def _list_integers(config: _Config) -> Iterator[Rule]:
    """Yield the rules of GPTQ, AWQ and AutoRound, some layers of which have other bits or groups."""
    for pattern, change in (config.get("dynamic") or {}).items():  # "-:" leaves layers out, "+:" changes them
        form = None if pattern.startswith("-:") else _read_integers({**config, **change})
        yield Rule(re.compile(pattern.removeprefix("+:").removeprefix("-:")), form)
    for path, change in (config.get("extra_config") or {}).items():
        yield Rule(compile_pattern(path), _read_integers({**config, **change}))
    form = _read_integers(config)
    if config.get("lm_head") is True:
        yield Rule(compile_pattern("lm_head"), form)
    groups = config.get("modules_in_block_to_quantize")  # names of layers, or lists of names
    if not groups:
        yield Rule(None, form)
    for group in groups or ():
        for name in [group] if isinstance(group, str) else group:
            yield Rule(compile_pattern(name), form)


def _read_integers(config: _Config) -> WeightFormat | None:
    """Return a scale of 16 bits and a zero point for each group, or the format of floats; None for 16 bits."""
    bits = int(config.get("bits", config.get("w_bit", 4)))
    kind = str(config.get("data_type", "int"))
    if bits >= 16:  # not converted
        return None
    if kind != "int":
        floats = {("mx_fp", 4): _MXFP4, ("mx_fp", 8): _MXFP8, ("nv_fp", 4): _NVFP4, ("fp", 8): _FP8}
        return floats[kind[: len("mx_fp")], bits]  # behind it stands how values are rounded: "mx_fp_rceil"
    group = int(config.get("group_size", config.get("q_group_size", 128)))
    return _make_integers(bits, group, zero_point_bits=bits)


def _list_blocks(config: _Config) -> Iterator[Rule]:
    """Yield fp8 with a scale for each block, or for each matrix if no blocks are named; experts may have 4 bits."""
    if config.get("expert_dtype") == "fp4":
        yield Rule(None, replace(_MXFP4, kinds=(WeightKind.EXPERTS,)))
    for item in config.get("modules_to_convert") or ():
        yield Rule(compile_pattern(str(item)), replace(_FP8, kinds=MULTIPLIED_OR_LOOKED_UP))
    rows, columns = config.get("weight_block_size") or (0, 0)
    scale_bits = _MICRO if config.get("scale_fmt") == "ue8m0" else 32
    yield Rule(None, _make_grouped("fp8", 8, int(rows) * int(columns), scale_bits))


def _list_hqq(config: _Config) -> Iterator[Rule]:
    """Yield the rules of HQQ: one configuration for all layers, or one for each by name."""
    stored = config.get("quant_config", config)
    if "weight_quant_params" in stored or "nbits" in stored or stored is config:
        yield Rule(None, _read_hqq(stored))
    else:
        yield from (Rule(compile_pattern(name), _read_hqq(layer)) for name, layer in stored.items())


def _read_hqq(config: _Config) -> WeightFormat:
    weights = config.get("weight_quant_params", config)
    bits = int(weights.get("nbits", 4))
    return _make_integers(bits, int(weights.get("group_size") or 64), zero_point_bits=_HALF)


def _list_compressed(config: _Config) -> Iterator[Rule]:
    """Yield the rules of compressed-tensors: groups for patterns of the paths of layers, and for classes of them."""
    if (config.get("sparsity_config") or {}).get("format", "dense") != "dense":
        raise ValueError("sparse weights are stored with what tells where they are")
    of_classes = set()
    for group in config["config_groups"].values():
        form = _read_compressed(group["weights"]) if group.get("weights") else None
        targets = [str(target) for target in group.get("targets") or ("Linear",)]
        paths = [target for target in targets if target.startswith("re:") or "." in target]
        yield from (Rule(compile_pattern(path), form) for path in paths)
        if len(paths) < len(targets):
            of_classes.add(form)
    if len(of_classes) > 1:
        raise ValueError(f"{len(of_classes)} formats for layers that only their class tells apart")
    yield from map(_make_linear, of_classes)


def _read_compressed(weights: _Config) -> WeightFormat:
    bits, group = int(weights["num_bits"]), int(weights.get("group_size") or 0)
    if weights.get("type") != "float":
        return _make_integers(bits, group, zero_point_bits=0 if weights.get("symmetric", True) else bits)
    formats = {(4, 16): _NVFP4, (4, 32): _MXFP4, (8, 32): _MXFP8}
    if (bits, group) in formats:
        return formats[bits, group]
    if bits != 8:
        raise ValueError(f"floats of {bits} bits in groups of {group}")
    block = weights.get("block_structure")
    return _make_grouped("fp8", 8, int(block[0]) * int(block[1]) if block else group, _HALF)


def _make_linear(form: WeightFormat | None) -> Rule:
    """Return the rule of all linear layers. A head is linear too: configurations name it if it is left out."""
    return Rule(None, None if form is None else replace(form, kinds=(*MULTIPLIED, WeightKind.HEAD)))


def _list_modelopt(config: _Config) -> Iterator[Rule]:
    """Yield the rules of ModelOpt: one algorithm for all layers, or one for each by name."""
    for path, one in (config.get("quantized_layers") or {}).items():
        yield Rule(compile_pattern(path), _read_modelopt({**config, **one}))
    if str(config.get("quant_algo", "")).upper() != "MIXED_PRECISION":
        yield _make_linear(_read_modelopt(config))


def _read_modelopt(config: _Config) -> WeightFormat | None:
    algorithm, group = config["quant_algo"], int(config.get("group_size") or 0)
    if algorithm is None:
        return None
    algorithm = str(algorithm).upper()
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ", "W4A16"):
        return _make_integers(4, group or 128, zero_point_bits=0)
    return _MODELOPT[algorithm]


#: The algorithms of ModelOpt that have no groups to be named.
_MODELOPT = {
    **dict.fromkeys(("FP8", "FP8_PER_CHANNEL_PER_TOKEN"), _FP8),
    **dict.fromkeys(("W8A16", "INT8_SQ", "W8A8_SQ_PER_CHANNEL"), _INT8),
    **dict.fromkeys(("NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8", "W4A16_NVFP4"), _NVFP4),
    **dict.fromkeys(("FP8_PB_WO", "FP8_PB_REAL"), WeightFormat("fp8", 8, 128 * 128, 32)),
    "MXFP8": _MXFP8,
    "W4A8_MXFP4_FP8": _MXFP4,
}


def _list_quark(config: _Config) -> Iterator[Rule]:
    for path, one in (config.get("layer_quant_config") or {}).items():
        yield Rule(compile_pattern(path), _read_quark(one.get("weight")))
    if config.get("layer_type_quant_config"):
        raise ValueError("formats by the type of layers")
    yield _make_linear(_read_quark(config["global_quant_config"].get("weight")))


def _read_quark(weight: _Config | None) -> WeightFormat | None:
    if weight is None:
        return None
    dtype = str(weight["dtype"])
    group = int(weight.get("group_size") or 0) if weight.get("qscheme") == "per_group" else 0
    if dtype == "fp4":
        return {32: _MXFP4, 16: _NVFP4}[group]
    if dtype.startswith("fp8"):
        return _MXFP8 if group == 32 else _make_grouped("fp8", 8, group, 32)
    bits = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}[dtype]
    return _make_integers(bits, group, zero_point_bits=bits if dtype.startswith("u") else 0)


def _list_gemma(config: _Config) -> Iterator[Rule]:
    """Yield the rules of Gemma's: a scale for each row, which is not counted, and other bits for some layers."""
    default = int(config.get("num_bits", 4))
    kinds = MULTIPLIED_OR_LOOKED_UP if config.get("quantize_embeddings") else MULTIPLIED
    for pattern, change in (config.get("module_quant_configs") or {}).items():
        bits = int(change.get("num_bits", default))
        yield Rule(re.compile(pattern), WeightFormat(f"int{bits}", bits, kinds=kinds))
    yield Rule(None, WeightFormat(f"int{default}", default, kinds=kinds))


#: The methods whose bytes are known: a function returns the format of all weights, or rules for layers. It may raise
#: `KeyError`, `ValueError` and the like for a configuration that it does not know.
METHODS: Mapping[str, Callable[[_Config], WeightFormat | Iterable[Rule]]] = {
    "bitnet": lambda config: WeightFormat("ternary", 2),
    "eetq": lambda config: _INT8,
    "fbgemm_fp8": lambda config: _FP8,
    "mxfp4": lambda config: replace(_MXFP4, kinds=(WeightKind.EXPERTS,)),  # gpt-oss: the experts alone
    "mxfp8": lambda config: _MXFP8,
    "nvfp4": lambda config: _NVFP4,
    **dict.fromkeys(("bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"), _read_bitsandbytes),
    **dict.fromkeys(("fouroversix", "fp_quant"), _read_small_floats),
    "higgs": lambda config: _read_groups(config, "higgs", 256, _HALF),
    "metal": lambda config: _read_groups(config, "affine", 64, 2 * _HALF),  # of Apple's GPUs: with a scale and a bias
    "quanto": _read_quanto,
    "torchao": _read_torchao,
    **dict.fromkeys(("auto-round", "awq", "gptq"), _list_integers),
    "compressed-tensors": _list_compressed,
    "fp8": _list_blocks,
    "gemma": _list_gemma,
    "hqq": _list_hqq,
    "modelopt": _list_modelopt,
    "quark": _list_quark,
}
