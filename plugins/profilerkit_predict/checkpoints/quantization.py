"""How a checkpoint stores the weights of each layer, by the quantization that its configuration names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from profilerkit.errors import InputError

from .formats import MULTIPLIED, MULTIPLIED_OR_LOOKED_UP, WEIGHT_FORMATS, WeightFormat, WeightKind

__all__ = ["READ_METHODS", "REFUSED_METHODS", "Formats", "read_formats", "read_modelopt_file"]

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
        rules = [*_list_kept(described), *_METHODS[method](described)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, re.error) as error:
        raise _make_refusal(method, error) from error
    return lambda path, kind: _find_format(rules, path, kind)


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
    why = f" ({type(error).__name__}: {error})" if method in _METHODS else ""
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


def _list_kept(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of layers whose weights keep their dtype."""
    for name in _NAMES_OF_KEPT:
        for item in config.get(name) or ():
            yield _Rule(_compile(str(item)), None)


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


def _read_integers(config: _Config) -> WeightFormat:
    """Return the format of GPTQ, AWQ and AutoRound: a scale of 16 bits and a zero point for each group."""
    bits = int(config.get("bits", config.get("w_bit", 4)))
    kind = str(config.get("data_type", "int"))
    if kind != "int":
        floats = {("mx_fp", 4): _MXFP4, ("mx_fp", 8): _MXFP8, ("nv_fp", 4): _NVFP4, ("fp", 8): _FP8}
        return floats[kind[: len("mx_fp")], bits]  # behind it stands how values are rounded: "mx_fp_rceil"
    group = int(config.get("group_size", config.get("q_group_size", 128)))
    return _make_grouped(f"int{bits}", bits, group, _HALF + bits)


def _list_integers(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of GPTQ, AWQ and AutoRound, some layers of which have other bits or groups."""
    for pattern, change in (config.get("dynamic") or {}).items():  # "-:" leaves layers out, "+:" changes them
        form = None if pattern.startswith("-:") else _vary(config, change)
        yield _Rule(re.compile(pattern.removeprefix("+:").removeprefix("-:")), form)
    for path, change in (config.get("extra_config") or {}).items():
        yield _Rule(_compile(path), _vary(config, change))
    form = _read_integers(config)
    if config.get("lm_head") is True:
        yield _Rule(_compile("lm_head"), form)
    # Names of layers in a block, in groups that are converted one after the other; without them all layers are.
    groups = config.get("modules_in_block_to_quantize") or [[None]]
    for name in (name for group in groups for name in ([group] if isinstance(group, str) else group)):
        yield _Rule(None if name is None else _compile(name), form)


def _vary(config: _Config, change: _Config) -> WeightFormat | None:
    """Return the format of layers that differ from the others; None if they have 16 bits."""
    changed = {**config, **change}
    return None if int(changed.get("bits", 4)) >= _HALF else _read_integers(changed)


def _read_bitsandbytes(config: _Config) -> WeightFormat:
    if not (config.get("load_in_4bit") or config.get("quant_method") == "bitsandbytes_4bit"):
        return _INT8
    # Nested: the scales of 64 elements have 8 bits, and 256 of them share one of 32; that one is left out.
    scale_bits = 8 if config.get("bnb_4bit_use_double_quant") else 32
    return WeightFormat(str(config.get("bnb_4bit_quant_type", "fp4")), 4, 64, scale_bits)


def _list_blocks(config: _Config) -> Iterator[_Rule]:
    """Yield fp8 with a scale for each block, or for each matrix if no blocks are named; experts may have 4 bits."""
    if config.get("expert_dtype") == "fp4":
        yield _Rule(None, replace(_MXFP4, kinds=(WeightKind.EXPERTS,)))
    rows, columns = config.get("weight_block_size") or (0, 0)
    scale_bits = _MICRO if config.get("scale_fmt") == "ue8m0" else 32
    form = _make_grouped("fp8", 8, int(rows) * int(columns), scale_bits)
    for item in config.get("modules_to_convert") or ():
        yield _Rule(_compile(str(item)), WeightFormat("fp8", 8, kinds=MULTIPLIED_OR_LOOKED_UP))
    yield _Rule(None, form)


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


def _read_quanto(config: _Config) -> WeightFormat:
    name = str(config.get("weights", "int8"))
    bits = {"float8": 8, "int8": 8, "int4": 4, "int2": 2}[name]
    return _FP8 if name == "float8" else WeightFormat(f"int{bits}", bits, 0 if bits == 8 else 128)


def _list_compressed(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of compressed-tensors: groups for patterns of the paths of layers, and for classes of them."""
    if (config.get("sparsity_config") or {}).get("format", "dense") != "dense":
        raise ValueError("sparse weights are stored with what tells where they are")
    of_classes = set()
    for group in config["config_groups"].values():
        form = _read_compressed(group["weights"]) if group.get("weights") else None
        for target in map(str, group.get("targets") or ("Linear",)):
            if target.startswith("re:") or "." in target:
                yield _Rule(_compile(target), form)
            else:
                of_classes.add(form)
    if len(of_classes) > 1:
        raise ValueError(f"{len(of_classes)} formats for layers that only their class tells apart")
    yield from map(_make_linear, of_classes)


def _make_linear(form: WeightFormat | None) -> _Rule:
    """Return the rule of all linear layers. A head is linear too: configurations name it if it is left out."""
    return _Rule(None, None if form is None else replace(form, kinds=(*MULTIPLIED, WeightKind.HEAD)))


def _read_compressed(weights: _Config) -> WeightFormat:
    bits, group = int(weights["num_bits"]), int(weights.get("group_size") or 0)
    block = weights.get("block_structure")
    if weights.get("type") == "float":
        formats = {(4, 16): _NVFP4, (4, 32): _MXFP4, (8, 32): _MXFP8}
        if (bits, group) in formats:
            return formats[bits, group]
        if bits != 8:
            raise ValueError(f"floats of {bits} bits in groups of {group}")
        return _make_grouped("fp8", 8, int(block[0]) * int(block[1]) if block else group, _HALF)
    zero_point_bits = 0 if weights.get("symmetric", True) else bits
    return _make_grouped(f"int{bits}", bits, group, _HALF + zero_point_bits)


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
    if algorithm in ("FP8_PB_WO", "FP8_PB_REAL"):
        return WeightFormat("fp8", 8, 128 * 128, 32)
    return _MODELOPT[algorithm]


#: The algorithms of ModelOpt that have no groups to be named.
_MODELOPT = {
    **dict.fromkeys(("FP8", "FP8_PER_CHANNEL_PER_TOKEN"), _FP8),
    **dict.fromkeys(("W8A16", "INT8_SQ", "W8A8_SQ_PER_CHANNEL"), _INT8),
    **dict.fromkeys(("NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8", "W4A16_NVFP4"), _NVFP4),
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
    dtype, group = str(weight["dtype"]), int(weight.get("group_size") or 0)
    is_grouped = weight.get("qscheme") == "per_group"
    if dtype == "fp4" and is_grouped:
        return {32: _MXFP4, 16: _NVFP4}[group]
    if dtype.startswith("fp8"):
        return _MXFP8 if is_grouped and group == 32 else _make_grouped("fp8", 8, group if is_grouped else 0, 32)
    bits = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}[dtype]
    zero_point_bits = bits if dtype.startswith("u") else 0
    return _make_grouped(f"int{bits}", bits, group if is_grouped else 0, _HALF + zero_point_bits)


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


def _list_gemma(config: _Config) -> Iterator[_Rule]:
    """Yield the rules of Gemma's: a scale for each row, which is not counted, and other bits for some layers."""
    default = int(config.get("num_bits", 4))
    kinds = MULTIPLIED_OR_LOOKED_UP if config.get("quantize_embeddings") else MULTIPLIED
    for pattern, change in (config.get("module_quant_configs") or {}).items():
        bits = int(change.get("num_bits", default))
        yield _Rule(re.compile(pattern), WeightFormat(f"int{bits}", bits, kinds=kinds))
    yield _Rule(None, WeightFormat(f"int{default}", default, kinds=kinds))


def _read_groups(config: _Config, name: str, group: int, scale_bits: int) -> WeightFormat:
    """Return a format of 4 bits and groups of a size, unless its configuration names others."""
    return _make_grouped(name, int(config.get("bits", 4)), int(config.get("group_size", group)), scale_bits)


def _read_once(read: Callable[[_Config], WeightFormat]) -> Callable[[_Config], list[_Rule]]:
    """Return a function that lists one rule for all layers, with the format that ``read`` returns."""
    return lambda config: [_Rule(None, read(config))]


def _always(form: WeightFormat) -> Callable[[_Config], list[_Rule]]:
    """Return a function that lists one rule for all layers, with this format."""
    return lambda config: [_Rule(None, form)]


_METHODS: dict[str, Callable[[_Config], Iterable[_Rule]]] = {
    **dict.fromkeys(("auto-round", "awq", "gptq"), _list_integers),
    **dict.fromkeys(("bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"), _read_once(_read_bitsandbytes)),
    **dict.fromkeys(("fouroversix", "fp_quant"), _read_once(_read_small_floats)),
    "bitnet": _always(WeightFormat("ternary", 2)),
    "compressed-tensors": _list_compressed,
    "eetq": _always(_INT8),
    "fbgemm_fp8": _always(_FP8),
    "fp8": _list_blocks,
    "gemma": _list_gemma,
    "higgs": _read_once(partial(_read_groups, name="higgs", group=256, scale_bits=_HALF)),
    "hqq": _list_hqq,
    "metal": _read_once(partial(_read_groups, name="affine", group=64, scale_bits=2 * _HALF)),  # a scale and a bias
    "modelopt": _list_modelopt,
    # gpt-oss: the experts alone, in groups of 32.
    "mxfp4": _always(replace(_MXFP4, kinds=(WeightKind.EXPERTS,))),
    "mxfp8": _always(_MXFP8),
    "nvfp4": _always(_NVFP4),
    "quanto": _read_once(_read_quanto),
    "quark": _list_quark,
    "torchao": _read_once(_read_torchao),
}
#: The methods of quantization whose bytes are known.
READ_METHODS = tuple(sorted(_METHODS))
#: Methods whose bytes do not follow from a configuration, with the reason.
REFUSED_METHODS: Mapping[str, str] = {
    "aqlm": "each matrix has codebooks of its own, which the configuration does not size",
    "gguf": "each tensor has a type of its own in the file: give that file, path/to/model.gguf",
    "sinq": "its scales of rows and columns have dtypes that the configuration does not name",
    "spqr": "how many outliers are kept beside 3 bits depends on the values",
    "vptq": "codebooks and indices differ by layer",
}
