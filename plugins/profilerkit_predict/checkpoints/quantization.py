"""How a checkpoint stores the weights of each layer, by the quantization that its configuration names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from profilerkit.errors import InputError

from .formats import MULTIPLIED, MULTIPLIED_OR_LOOKED_UP, WEIGHT_FORMATS, WeightFormat, WeightKind

#: Returns the format of a layer's weights of a kind, by the layer's path; None for their own dtype.
Formats = Callable[[str, WeightKind], "WeightFormat | None"]
_Config = Mapping[str, Any]


class _Rule(NamedTuple):
    """How the weights of some layers are stored; of several rules the first that fits holds."""

    #: Occurs in the paths of these layers; None for all layers.
    pattern: re.Pattern[str] | None
    #: The format of their weights; None for their own dtype.
    format: WeightFormat | None


#: The bits of the scales of groups: of 16 bits, and of the 8 bits of microscaling formats.
_HALF, _MICRO = 16, 8
_MXFP4, _MXFP8, _NVFP4 = (WEIGHT_FORMATS[name] for name in ("mxfp4", "mxfp8", "nvfp4"))
_FP8, _INT8 = (WEIGHT_FORMATS[name] for name in ("fp8", "int8"))


def read_formats(config: _Config | None) -> Formats:
    """Return the formats of the weights that a ``quantization_config`` describes; without one, their own dtype.

    The content of ModelOpt's ``hf_quant_config.json`` is read as well. Raises `InputError` for a method whose bytes are
    not known.
    """
    if not config or config.get("dequantize"):
        return lambda path, kind: None
    described = _flatten_modelopt(config)
    method = str(described.get("quant_method", ""))
    try:
        kept = (item for name in _NAMES_OF_KEPT for item in described.get(name) or ())
        rules = [*(_Rule(_compile(str(item)), None) for item in kept), *_list_rules(method, described)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, re.error) as error:
        raise _make_refusal(method, error) from error
    return lambda path, kind: _find_format(rules, path, kind)


def _list_rules(method: str, config: _Config) -> Iterable[_Rule]:
    """Return the rules of a method for the layers that it converts; raises `KeyError` for an unknown method."""
    if method in _RULES:
        return _RULES[method](config)
    return [_Rule(None, _FIXED[method] if method in _FIXED else _FORMATS[method](config))]


def _find_format(rules: list[_Rule], path: str, kind: WeightKind) -> WeightFormat | None:
    """Return the format of the first rule that fits; experts that a library joins are also known by one of them.

    A head, whose layer is the table where both are one weight, is known by its own name too. One that a rule names is
    converted, whatever the format is for.
    """
    others = {WeightKind.EXPERTS: (f"{path}.0.gate_proj",), WeightKind.HEAD: ("lm_head",)}
    names = (path, *others.get(kind, ()))
    for rule in rules:
        is_named = rule.pattern is not None and any(rule.pattern.search(name) for name in names)
        is_for_kind = rule.format is None or kind in rule.format.kinds or (kind is WeightKind.HEAD and is_named)
        if is_for_kind and (is_named or rule.pattern is None):
            return rule.format
    return None


def _make_refusal(method: str, error: Exception) -> InputError:
    """Return the error for a quantization whose bytes are not known, with the reason."""
    why = f" ({type(error).__name__}: {error})" if method in READ_METHODS else ""
    if method in REFUSED_METHODS:
        why = f", for {REFUSED_METHODS[method]}"
    named = repr(method) if method else "a nameless method"
    return InputError(
        f"the configuration says that weights are stored by {named}, whose bytes are not known here{why}; known are "
        f"{', '.join(READ_METHODS)}. Give a folder that has the files of the weights, or a format: weights='int4' "
        "(--weights int4), or weights='bf16' for the model as it was before"
    )


#: The names in configurations for the list of layers whose weights are not converted.
_NAMES_OF_KEPT = (
    *("modules_to_not_convert", "ignored_layers", "ignore", "exclude", "exclude_modules", "skip_modules"),
    "llm_int8_skip_modules",
)


def _compile(pattern: str) -> re.Pattern[str]:
    """Return a pattern of paths as configurations write it: after "re:" a regular expression, otherwise whole names.

    >>> bool(_compile("mlp.gate").search("layers.0.mlp.gate")), bool(_compile("mlp.gate").search("mlp.gate_proj"))
    (True, False)
    """
    if pattern.startswith("re:"):
        return re.compile(pattern[3:])
    return re.compile(rf"(?:^|\.){re.escape(pattern).replace(re.escape('*'), '.*')}(?:\.|$)")


def _make_grouped(name: str, bits: int, group: int, scale_bits: int) -> WeightFormat:
    """Return a format by the size of its groups in a configuration; 0 and -1 are whole rows, of uncounted scales."""
    return WeightFormat(name, bits, max(group, 0), scale_bits if group > 0 else 0)


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
        return WeightFormat("int4", 4, group, 2 * _HALF)
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


def _read_higgs(config: _Config) -> WeightFormat:
    return _make_grouped("higgs", int(config.get("bits", 4)), int(config.get("group_size", 256)), _HALF)


def _read_metal(config: _Config) -> WeightFormat:
    """Return the format for Apple's GPUs, in which a group has a scale and a bias."""
    return _make_grouped("affine", int(config.get("bits", 4)), int(config.get("group_size", 64)), 2 * _HALF)


# Methods with formats by layer ----------------------------------------------------------------------------------------


def _list_integers(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of GPTQ, AWQ and AutoRound, some layers of which have other bits or groups."""
    for pattern, change in (config.get("dynamic") or {}).items():  # "-:" leaves layers out, "+:" changes them
        form = None if pattern.startswith("-:") else _read_integers({**config, **change})
        yield _Rule(re.compile(pattern.removeprefix("+:").removeprefix("-:")), form)
    for path, change in (config.get("extra_config") or {}).items():
        yield _Rule(_compile(path), _read_integers({**config, **change}))
    form = _read_integers(config)
    if config.get("lm_head") is True:
        yield _Rule(_compile("lm_head"), form)
    groups = config.get("modules_in_block_to_quantize")  # names of layers, or lists of names
    if not groups:
        yield _Rule(None, form)
    for group in groups or ():
        for name in [group] if isinstance(group, str) else group:
            yield _Rule(_compile(name), form)


def _read_integers(config: _Config) -> WeightFormat | None:
    """Return a scale of 16 bits and a zero point for each group, or the format of floats; None for 16 bits."""
    bits = int(config.get("bits", config.get("w_bit", 4)))
    kind = str(config.get("data_type", "int"))
    if bits >= _HALF:
        return None
    if kind != "int":
        floats = {("mx_fp", 4): _MXFP4, ("mx_fp", 8): _MXFP8, ("nv_fp", 4): _NVFP4, ("fp", 8): _FP8}
        return floats[kind[: len("mx_fp")], bits]  # behind it stands how values are rounded: "mx_fp_rceil"
    group = int(config.get("group_size", config.get("q_group_size", 128)))
    return _make_grouped(f"int{bits}", bits, group, _HALF + bits)


def _list_blocks(config: _Config) -> Iterator[_Rule]:
    """Yield fp8 with a scale for each block, or for each matrix if no blocks are named; experts may have 4 bits."""
    if config.get("expert_dtype") == "fp4":
        yield _Rule(None, replace(_MXFP4, kinds=(WeightKind.EXPERTS,)))
    for item in config.get("modules_to_convert") or ():
        yield _Rule(_compile(str(item)), replace(_FP8, kinds=MULTIPLIED_OR_LOOKED_UP))
    rows, columns = config.get("weight_block_size") or (0, 0)
    scale_bits = _MICRO if config.get("scale_fmt") == "ue8m0" else 32
    yield _Rule(None, _make_grouped("fp8", 8, int(rows) * int(columns), scale_bits))


def _list_hqq(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of HQQ: one configuration for all layers, or one for each by name."""
    stored = config.get("quant_config", config)
    if "weight_quant_params" in stored or "nbits" in stored or stored is config:
        yield _Rule(None, _read_hqq(stored))
    else:
        yield from (_Rule(_compile(name), _read_hqq(layer)) for name, layer in stored.items())


def _read_hqq(config: _Config) -> WeightFormat:
    weights = config.get("weight_quant_params", config)
    bits = int(weights.get("nbits", 4))
    return _make_grouped(f"int{bits}", bits, int(weights.get("group_size") or 64), 2 * _HALF)


def _list_compressed(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of compressed-tensors: groups for patterns of the paths of layers, and for classes of them."""
    if (config.get("sparsity_config") or {}).get("format", "dense") != "dense":
        raise ValueError("sparse weights are stored with what tells where they are")
    of_classes = set()
    for group in config["config_groups"].values():
        form = _read_compressed(group["weights"]) if group.get("weights") else None
        targets = [str(target) for target in group.get("targets") or ("Linear",)]
        paths = [target for target in targets if target.startswith("re:") or "." in target]
        yield from (_Rule(_compile(path), form) for path in paths)
        if len(paths) < len(targets):
            of_classes.add(form)
    if len(of_classes) > 1:
        raise ValueError(f"{len(of_classes)} formats for layers that only their class tells apart")
    yield from map(_make_linear, of_classes)


def _read_compressed(weights: _Config) -> WeightFormat:
    bits, group = int(weights["num_bits"]), int(weights.get("group_size") or 0)
    if weights.get("type") != "float":
        zero_point_bits = 0 if weights.get("symmetric", True) else bits
        return _make_grouped(f"int{bits}", bits, group, _HALF + zero_point_bits)
    formats = {(4, 16): _NVFP4, (4, 32): _MXFP4, (8, 32): _MXFP8}
    if (bits, group) in formats:
        return formats[bits, group]
    if bits != 8:
        raise ValueError(f"floats of {bits} bits in groups of {group}")
    block = weights.get("block_structure")
    return _make_grouped("fp8", 8, int(block[0]) * int(block[1]) if block else group, _HALF)


def _make_linear(form: WeightFormat | None) -> _Rule:
    """Return the rule of all linear layers. A head is linear too: configurations name it if it is left out."""
    return _Rule(None, None if form is None else replace(form, kinds=(*MULTIPLIED, WeightKind.HEAD)))


def read_modelopt_file(folder: Path) -> dict[str, Any] | None:
    """Return the content of the file that ModelOpt writes beside a configuration; None if there is none."""
    path = folder / "hf_quant_config.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no quantization: it is no JSON object")
    return content


def _flatten_modelopt(config: _Config) -> _Config:
    """Return ModelOpt's own file as a configuration with a method; other configurations as they are."""
    inner = config.get("quantization")
    if "quant_method" in config or not isinstance(inner, Mapping):
        return config
    return {**inner, "quant_method": "modelopt"}


def _list_modelopt(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of ModelOpt: one algorithm for all layers, or one for each by name."""
    for path, one in (config.get("quantized_layers") or {}).items():
        yield _Rule(_compile(path), _read_modelopt({**config, **one}))
    if str(config.get("quant_algo", "")).upper() != "MIXED_PRECISION":
        yield _make_linear(_read_modelopt(config))


def _read_modelopt(config: _Config) -> WeightFormat | None:
    algorithm, group = config["quant_algo"], int(config.get("group_size") or 0)
    if algorithm is None:
        return None
    algorithm = str(algorithm).upper()
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ", "W4A16"):
        return _make_grouped("int4", 4, group or 128, _HALF)
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


def _list_quark(config: _Config) -> Iterator[_Rule]:
    for path, one in (config.get("layer_quant_config") or {}).items():
        yield _Rule(_compile(path), _read_quark(one.get("weight")))
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
    zero_point_bits = bits if dtype.startswith("u") else 0
    return _make_grouped(f"int{bits}", bits, group, _HALF + zero_point_bits)


def _list_gemma(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of Gemma's: a scale for each row, which is not counted, and other bits for some layers."""
    default = int(config.get("num_bits", 4))
    kinds = MULTIPLIED_OR_LOOKED_UP if config.get("quantize_embeddings") else MULTIPLIED
    for pattern, change in (config.get("module_quant_configs") or {}).items():
        bits = int(change.get("num_bits", default))
        yield _Rule(re.compile(pattern), WeightFormat(f"int{bits}", bits, kinds=kinds))
    yield _Rule(None, WeightFormat(f"int{default}", default, kinds=kinds))


#: The methods that have the same format in all configurations.
_FIXED = {
    "bitnet": WeightFormat("ternary", 2),
    "eetq": _INT8,
    "fbgemm_fp8": _FP8,
    "mxfp4": replace(_MXFP4, kinds=(WeightKind.EXPERTS,)),  # gpt-oss: the experts alone
    "mxfp8": _MXFP8,
    "nvfp4": _NVFP4,
}
#: The methods whose configurations name one format for all layers.
_FORMATS: dict[str, Callable[[_Config], WeightFormat]] = {
    **dict.fromkeys(("bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"), _read_bitsandbytes),
    **dict.fromkeys(("fouroversix", "fp_quant"), _read_small_floats),
    "higgs": _read_higgs,
    "metal": _read_metal,
    "quanto": _read_quanto,
    "torchao": _read_torchao,
}
#: The methods whose configurations may name a format for each layer.
_RULES: dict[str, Callable[[_Config], Iterator[_Rule]]] = {
    **dict.fromkeys(("auto-round", "awq", "gptq"), _list_integers),
    "compressed-tensors": _list_compressed,
    "fp8": _list_blocks,
    "gemma": _list_gemma,
    "hqq": _list_hqq,
    "modelopt": _list_modelopt,
    "quark": _list_quark,
}
#: The methods of quantization whose bytes are known.
READ_METHODS = tuple(sorted({*_FIXED, *_FORMATS, *_RULES}))
#: Methods whose bytes do not follow from a configuration, with the reason.
REFUSED_METHODS: Mapping[str, str] = {
    "aqlm": "each matrix has codebooks of its own, which the configuration does not size",
    "gguf": "each tensor has a type of its own in the file: give that file, path/to/model.gguf",
    "sinq": "its scales of rows and columns have dtypes that the configuration does not name",
    "spqr": "how many outliers are kept beside 3 bits depends on the values",
    "vptq": "codebooks and indices differ by layer",
}
