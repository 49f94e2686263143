"""How a checkpoint stores the matrices of a language model, by the quantization that its configuration names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from profilerkit.errors import InputError

from .formulas import WeightFormat

__all__ = ["READ_METHODS", "keeps_dtype", "read_format"]

#: The bits of the scales of groups: of 16 bits, and of the 8 bits of microscaling formats.
_HALF, _MICRO = 16, 8


def _make_grouped(name: str, bits: int, group: int, scale_bits: int) -> WeightFormat:
    """Return a format whose groups share a scale; groups of whole rows (-1) have one that is not counted."""
    return WeightFormat(name, bits, max(group, 0), scale_bits if group > 0 else 0)


def _bits_and_group(config: Mapping[str, Any]) -> WeightFormat:
    """Return the format of GPTQ, AWQ and AutoRound: a scale of 16 bits and a zero point for each group."""
    bits = int(config.get("bits", config.get("w_bit", 4)))
    return _make_grouped(
        f"int{bits}", bits, int(config.get("group_size", config.get("q_group_size", 128))), _HALF + bits
    )


def _bitsandbytes(config: Mapping[str, Any]) -> WeightFormat:
    if not config.get("load_in_4bit"):
        return WeightFormat("int8", 8)
    # Nested: the scales of 64 elements have 8 bits, and 256 of them share one of 32; that one is left out.
    scale_bits = 8 if config.get("bnb_4bit_use_double_quant") else 32
    return WeightFormat(str(config.get("bnb_4bit_quant_type", "fp4")), 4, 64, scale_bits)


def _blocks(config: Mapping[str, Any]) -> WeightFormat:
    """Return fp8 with a scale of 32 bits for each block, or for each matrix where no blocks are named."""
    block = config.get("weight_block_size")
    return WeightFormat("fp8", 8) if not block else WeightFormat("fp8", 8, int(block[0]) * int(block[1]), 32)


def _hqq(config: Mapping[str, Any]) -> WeightFormat:
    weights = config.get("quant_config", {}).get("weight_quant_params", config)
    bits = int(weights.get("nbits", 4))
    return _make_grouped(f"int{bits}", bits, int(weights.get("group_size") or 64), 2 * _HALF)


def _quanto(config: Mapping[str, Any]) -> WeightFormat:
    bits = {"float8": 8, "int8": 8, "int4": 4, "int2": 2}[str(config.get("weights", "int8"))]
    return WeightFormat("fp8" if config.get("weights") == "float8" else f"int{bits}", bits, 0 if bits == 8 else 128)


def _read_compressed(config: Mapping[str, Any]) -> WeightFormat:
    """Return the format of compressed-tensors, whose groups of layers must be stored alike."""
    groups = [group.get("weights") for group in config.get("config_groups", {}).values()]
    kinds = {
        (one_group["num_bits"], one_group.get("type"), one_group.get("group_size") or 0)
        for one_group in groups
        if one_group
    }
    if len(kinds) != 1:
        raise ValueError(f"{len(kinds)} formats in one model")
    bits, kind, group = kinds.pop()
    name = "fp8" if kind == "float" and bits == 8 else "nvfp4" if kind == "float" else f"int{bits}"
    return _make_grouped(name, int(bits), int(group), _MICRO if name == "nvfp4" else _HALF)


_METHODS: dict[str, Callable[[Mapping[str, Any]], WeightFormat]] = {
    "auto-round": _bits_and_group,
    "awq": _bits_and_group,
    "bitnet": lambda config: WeightFormat("ternary", 2),
    "bitsandbytes": _bitsandbytes,
    "bitsandbytes_4bit": _bitsandbytes,
    "bitsandbytes_8bit": _bitsandbytes,
    "compressed-tensors": _read_compressed,
    "eetq": lambda config: WeightFormat("int8", 8),
    "fbgemm_fp8": lambda config: WeightFormat("fp8", 8),
    "fp8": _blocks,
    "gptq": _bits_and_group,
    "hqq": _hqq,
    # gpt-oss: the experts alone, in groups of 32.
    "mxfp4": lambda config: WeightFormat("mxfp4", 4, 32, _MICRO, ("experts",)),
    "mxfp8": lambda config: WeightFormat("mxfp8", 8, 32, _MICRO),
    "nvfp4": lambda config: WeightFormat("nvfp4", 4, 16, _MICRO),
    "quanto": _quanto,
}
#: The methods of quantization whose bytes are known.
READ_METHODS = tuple(_METHODS)


def read_format(config: Mapping[str, Any] | None) -> WeightFormat | None:
    """Return the format that a ``quantization_config`` describes; None without one.

    Raises `InputError` for a method whose bytes are not known.
    """
    if not config:
        return None
    method = str(config.get("quant_method", ""))
    try:
        return _METHODS[method](config)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = "" if method not in _METHODS else f", and {type(error).__name__}: {error}"
        raise InputError(
            f"the configuration says that weights are stored by {method or 'a nameless method'!r}, whose bytes are not "
            f"known here{why}; known are {', '.join(READ_METHODS)}. Give the format: weights='int4', or "
            "weights='bf16' for the model as it was before"
        ) from error


def keeps_dtype(config: Mapping[str, Any] | None) -> Callable[[str], bool]:
    """Return what tells whether the weights of a layer, by its path, are stored in their own dtype all the same."""
    names = ("modules_to_not_convert", "ignored_layers", "ignore", "llm_int8_skip_modules")
    patterns = [str(item) for name in names for item in (config or {}).get(name) or ()]
    return lambda path: any(fnmatchcase(path, f"*{pattern}*") for pattern in patterns)
