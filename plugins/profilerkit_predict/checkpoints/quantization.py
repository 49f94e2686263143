"""How a checkpoint stores the weights of each layer, by the quantization that its configuration names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profilerkit.errors import InputError

from .formats import WeightFormat, WeightKind
from .quantization_methods import METHODS, Rule, compile_pattern

#: Returns the format of a layer's weights of a kind, by the layer's path; None for their own dtype.
Formats = Callable[[str, WeightKind], "WeightFormat | None"]
_Config = Mapping[str, Any]

#: The names in configurations for the list of layers whose weights are not converted.
_NAMES_OF_KEPT = (
    *("modules_to_not_convert", "ignored_layers", "ignore", "exclude", "exclude_modules", "skip_modules"),
    "llm_int8_skip_modules",
)
#: Methods whose bytes do not follow from a configuration, with the reason.
REFUSED_METHODS: Mapping[str, str] = {
    "aqlm": "each matrix has codebooks of its own, which the configuration does not size",
    "gguf": "each tensor has a type of its own in the file: give that file, path/to/model.gguf",
    "sinq": "its scales of rows and columns have dtypes that the configuration does not name",
    "spqr": "how many outliers are kept beside 3 bits depends on the values",
    "vptq": "codebooks and indices differ by layer",
}


def read_formats(config: _Config | None) -> Formats:
    """Return the formats of the weights that a ``quantization_config`` describes; without one, their own dtype.

    The content of ModelOpt's ``hf_quant_config.json`` is read as well. Raises `InputError` for a method whose bytes are
    not known.
    """
    if not config or config.get("dequantize"):
        return lambda path, kind: None
    if "quant_method" not in config and isinstance(config.get("quantization"), Mapping):
        config = {**config["quantization"], "quant_method": "modelopt"}
    method = str(config.get("quant_method", ""))
    try:
        rules = _list_rules(method, config)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, re.error) as error:
        raise _make_refusal(method, error) from error
    return lambda path, kind: _find_format(rules, path, kind)


def _list_rules(method: str, config: _Config) -> list[Rule]:
    """Return the rules of a configuration: layers that keep their dtype come first."""
    rules = [Rule(compile_pattern(str(layer)), None) for name in _NAMES_OF_KEPT for layer in config.get(name) or ()]
    converted = METHODS[method](config)
    rules += [Rule(None, converted)] if isinstance(converted, WeightFormat) else converted
    return rules


def _find_format(rules: list[Rule], path: str, kind: WeightKind) -> WeightFormat | None:
    """Return the format by the first rule for a layer and a kind of weights; None for the weights' own dtype."""
    names = _list_names(path, kind)
    for rule in rules:
        is_named = rule.pattern is not None and any(rule.pattern.search(name) for name in names)
        if rule.pattern is not None and not is_named:
            continue
        is_named_head = kind is WeightKind.HEAD and is_named  # it is converted, whatever the format is for
        if rule.format is None or kind in rule.format.kinds or is_named_head:
            return rule.format
    return None


def _list_names(path: str, kind: WeightKind) -> tuple[str, ...]:
    """Return the paths by which a configuration may name a layer.

    A library joins experts that a configuration has one by one. A head that is one weight with the table is in the
    table's layer.
    """
    if kind is WeightKind.EXPERTS:
        return path, f"{path}.0.gate_proj"
    return (path, "lm_head") if kind is WeightKind.HEAD else (path,)


def _make_refusal(method: str, error: Exception) -> InputError:
    """Return the error for a quantization whose bytes are not known, with the reason."""
    why = f" ({type(error).__name__}: {error})" if method in METHODS else ""
    if method in REFUSED_METHODS:
        why = f", for {REFUSED_METHODS[method]}"
    named = repr(method) if method else "a nameless method"
    return InputError(
        f"the configuration says that weights are stored by {named}, whose bytes are not known here{why}; known are "
        f"{', '.join(sorted(METHODS))}. Give a folder that has the files of the weights, or a format: weights='int4' "
        "(--weights int4), or weights='bf16' for the model as it was before"
    )


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
