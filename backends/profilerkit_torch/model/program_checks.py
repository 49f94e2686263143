"""What is in a file of ``torch.export``, looked through before torch reads it: reading it would run code.

``torch.export.load`` unpickles without limits where a safe reading fails, evaluates the sizes as Python expressions,
writes the names of nodes into Python code that it runs, calls any function below ``torch`` that a node names, imports
modules for the structure of inputs, and loads machine code. So all of it is compared with what an export writes.
"""

from __future__ import annotations

import ast
import io
import json
import os
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from profilerkit import InputError
from profilerkit.plugging.extension import make_refusal

from ..compat import PICKLED_NAMES, FileReader, schemas_by_name, symbolic_functions

__all__ = ["names_in_pickle", "require_harmless_program", "weights_only"]


class _Finding(Exception):
    """Something that an export of a plain model does not have; its text completes the message of `make_refusal`."""


def require_harmless_program(path: Path) -> None:
    """Raise `InputError` for a ``.pt2`` file that holds anything but tensors, and operators that torch knows."""
    try:
        for name, read in _members(path):
            _require_harmless_member(name, read)
    except _Finding as finding:
        raise make_refusal(path, str(finding)) from finding.__cause__
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _members(path: Path) -> Iterator[tuple[str, Callable[[str], bytes]]]:
    """Yield what is in the file by both of torch's ways to read it, which need not agree; with what reads a member."""
    try:
        reader = FileReader(str(path))
    except RuntimeError:
        pass
    else:
        yield from ((name, reader.get_record) for name in reader.get_all_records())
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # files of torch before 2.8
        yield from ((name, archive.read) for name in archive.namelist() if name.lower().startswith("serialized_"))


def _require_harmless_member(name: str, read: Callable[[str], bytes]) -> None:
    """Raise `_Finding` for a member of the archive that could run code; torch finds members in capitals too."""
    small = name.lower()
    if small.startswith("data/aotinductor/"):
        raise _Finding(f"holds compiled code ({name})")
    if small.endswith(".pt") or small in ("serialized_state_dict.json", "serialized_constants.json"):
        _require_tensors(name, read(name))
    elif small.endswith(("_weights_config.json", "_constants_config.json")):
        folder = "data/weights/" if small.endswith("_weights_config.json") else "data/constants/"
        for entry in json.loads(read(name))["config"].values():
            _require_harmless_payload(os.path.join(folder, entry["path_name"]), entry, read)  # noqa: PTH118  # as torch
    elif small.startswith("models/") or small == "serialized_exported_program.json":
        _require_harmless(json.loads(read(name)))


def _require_harmless_payload(member: str, entry: dict[str, Any], read: Callable[[str], bytes]) -> None:
    kind = entry["path_name"]
    if kind.startswith(("opaque_obj_", "custom_obj_")):
        raise _Finding(f"holds an object that is no tensor, {names_in_pickle(read(member)) or member}")
    if entry.get("use_pickle"):
        _require_tensors(member, read(member))


# Pickles --------------------------------------------------------------------------------------------------------------


@contextmanager
def weights_only() -> Iterator[None]:
    """Have torch unpickle nothing but tensors and plain values inside, whatever arguments ``torch.load`` gets."""
    forced, forbidden = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = {name: os.environ.pop(name, None) for name in (forced, forbidden)}
    os.environ[forced] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _require_tensors(name: str, data: bytes) -> None:
    if not data:
        return
    try:
        with weights_only():
            torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # for any content: torch would go on to read it without limits
        raise _Finding(f"has more than tensors in {name}: {names_in_pickle(data) or type(error).__name__}") from error


def names_in_pickle(data: bytes) -> str:
    """Return the functions and classes that a pickle names, beyond those of tensors."""
    names: list[str] = []
    for part in _pickles(data):
        strings: list[str] = []
        with suppress(Exception):  # not a pickle, or one that is cut off
            for code, value, _ in pickletools.genops(part):
                if code.name in ("GLOBAL", "INST"):
                    names.append(str(value).replace(" ", "."))
                elif code.name == "STACK_GLOBAL":
                    names.append(".".join(strings[-2:]))
                elif isinstance(value, str):
                    strings.append(value)
    return ", ".join(dict.fromkeys(name for name in names if not name.startswith(PICKLED_NAMES)))


def _pickles(data: bytes) -> list[bytes]:
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return [data]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist() if name.endswith(".pkl")]


# Programs -------------------------------------------------------------------------------------------------------------

#: Names are written into Python code; so are paths, between double quotes.
_NAME = re.compile(r"[A-Za-z_]\w*|", re.ASCII)
_PARAMETER = re.compile(r"\*{0,2}[A-Za-z_]\w*|", re.ASCII)
_PATH = re.compile(r'[^"\\\r\n]*')
_KEY = re.compile(r"[\w .\-/]*")
_PATHS = ("parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name", "fqn", "nn_module_stack")

_ARITHMETIC = re.compile(
    r"abs|add|and_|eq|floordiv|ge|getitem|gt|inv|invert|is_|is_not|le|lshift|lt|mod|mul|ne|neg|not_|or_"
    r"|pos|pow|rshift|sub|truediv|xor"
)
#: Functions beside operators that nodes of an export call: of symbols, and those that switch modes on and off.
_FUNCTIONS = re.compile(
    r"torch\._?sym_\w+|torch\._functorch\.predispatch\.\w+|torch\.amp\.autocast_mode\._(enter|exit)_autocast"
    r"|torch\._C\._set_grad_enabled|math\.[a-z]\w*",
    re.ASCII,
)
#: Whose operators compute with tensors alone. Those of other packages may do anything.
_NAMESPACES = ("aten", "prims", "quantized_decomposed", "torchvision")
#: Arguments that are texts and choose how to compute. Any other text may be the name of a file.
_CHOICES = re.compile(
    r"UPLO|activation|algorithm|api_name|approximate|assert_msg|device_type|driver|equation|indexing"
    r"|interpolation|mode|norm|ord|p|pad_mode|padding|padding_side|reduce|rounding_mode|side"
)
_HIGHER_ORDER = re.compile(
    r"associative_scan|auto_functionalized|auto_functionalized_v2|cond|flex_attention"
    r"|flex_attention_backward|hints_wrapper|invoke_subgraph|map_impl|out_dtype|scan"
    r"|tag_activation_checkpoint|while_loop|wrap_with_autocast|wrap_with_set_grad_enabled"
)
#: Where an export writes texts of any kind: they are kept as texts.
_FREE = re.compile(r"as_string|as_strings|custom|from_node|source_fn_stack|stack_trace|torch_fn")


def _require_harmless(value: Any, key: str = "") -> None:
    """Raise `_Finding` for what is not as an export writes it, in a part of a program that stands under a key."""
    if isinstance(value, dict):
        for name, part in value.items():
            _require_no_code(name)
            _require_harmless(part, name)
    elif isinstance(value, list):
        for part in value:
            _require_harmless(part, key)
    elif isinstance(value, str) and not _FREE.fullmatch(key):
        _CHECKS.get(key, _require_no_code)(value)


def _make_check(pattern: re.Pattern[str], what: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not pattern.fullmatch(text):
            raise _Finding(f"has {text!r} for {what}")

    return check


_require_no_code = _make_check(re.compile(r"""[^()"'\\;\r\n]*"""), "a part that is no name")


def _require_operator(target: str) -> None:
    operator = re.fullmatch(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?", target, re.ASCII)
    if operator and operator[1] == "higher_order":
        allowed = bool(_HIGHER_ORDER.fullmatch(operator[2]))
    elif operator:
        allowed = _takes_no_file(*operator.groups())
    else:
        allowed = bool(_FUNCTIONS.fullmatch(target) or _ARITHMETIC.fullmatch(target.removeprefix("_operator.")))
    if not allowed:
        raise _Finding(f"calls {target!r}")


def _takes_no_file(namespace: str, name: str, overload: str | None) -> bool:
    """Return whether an operator is one of tensors that gets no texts but those that choose how to compute."""
    overloads = schemas_by_name(f"{namespace}::{name}") if namespace in _NAMESPACES else []
    schemas = [schema for schema in overloads if overload in (None, schema.overload_name or "default")]
    texts = [argument.name for schema in schemas for argument in schema.arguments if "str" in str(argument.type)]
    return bool(schemas) and all(map(_CHOICES.fullmatch, texts))


def _require_expression(text: str) -> None:
    """Raise `_Finding` for a size that is not arithmetic over symbols: torch evaluates it as Python."""
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and _SYMBOLIC.fullmatch(node.func.id)):
            raise _Finding(f"has a size that calls more than arithmetic, {text!r}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            _make_check(re.compile(r"[\w.+\-]*"), "the name of a symbol")(str(node.value))
        if not isinstance(node, (*_ARITHMETIC_NODES, ast.Call, ast.Name, ast.keyword)):
            raise _Finding(f"has a size that is more than arithmetic, {text!r}")


def _require_guard(text: str) -> None:
    """Raise `_Finding` for a condition on the inputs that is not a comparison of sizes: torch runs it as Python."""
    for node in ast.walk(_parse(text)):
        names = isinstance(node, ast.Attribute) and (
            not _ATTRIBUTES.fullmatch(node.attr) and not node.attr.startswith("sym_")
        )
        calls = isinstance(node, ast.Name) and node.id not in (
            "L",
            "math",
            "torch",
            "len",
            "int",
            "float",
            "max",
            "min",
        )
        if names or calls or not isinstance(node, _GUARD_NODES):
            raise _Finding(f"has a condition that is more than a comparison of sizes, {text!r}")


def _parse(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, MemoryError) as error:
        raise _Finding(f"has {text[:80]!r} for an expression") from error


_ARITHMETIC_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Load, ast.IfExp, ast.Tuple),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_GUARD_NODES = (*_ARITHMETIC_NODES, ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Slice)
_ATTRIBUTES = re.compile(r"size|stride|storage_offset|dim|ndim|shape|item|floor|ceil|trunc|sqrt|pow")
_SYMBOLIC = re.compile(
    f"{'|'.join(symbolic_functions())}|"
    r"Abs|Add|And|Eq|Equality|ExprCondPair|Float|Ge|GreaterThan|Gt|Integer|Le|LessThan|Lt|Max|Min|Mod|Mul"
    r"|Ne|Not|Or|Piecewise|Pow|Rational|StrictGreaterThan|StrictLessThan|Symbol|Unequality|Xor|ceiling|exp"
    r"|floor|log|sqrt"
)


def _require_structure(text: str) -> None:
    """Check the structure of inputs or outputs: it may name modules, which torch imports."""

    def look(part: Any) -> None:
        if isinstance(part, list):
            for item in part:
                look(item)
        elif isinstance(part, dict):
            _require_harmless_node(part)
            for name, value in part.items():
                _make_check(_KEY, "a name among the inputs")(name)
                look(value)
        elif isinstance(part, str):
            with suppress(ValueError):
                inner = json.loads(part)
                if not isinstance(inner, str):
                    return look(inner)
            _make_check(_KEY, "a name among the inputs")(part)

    look(json.loads(text))


def _require_harmless_node(node: dict[str, Any]) -> None:
    factory = node.get("default_factory_module", "builtins"), node.get("default_factory_name", "list")
    if "__enum__" in node:
        raise _Finding(f"has inputs by the members of {node.get('fqn')!r}, whose module it imports")
    if factory[0] != "builtins" or factory[1] not in ("bool", "dict", "float", "int", "list", "set", "str", "tuple"):
        raise _Finding(f"has inputs in a dict of {'.'.join(map(str, factory))!r}, which it imports")


_CHECKS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(("name", "as_name"), _make_check(_NAME, "the name of a node")),
    **dict.fromkeys(("target", "as_operator"), _require_operator),
    **dict.fromkeys(_PATHS, _make_check(_PATH, "the path of a layer")),
    **dict.fromkeys(("in_spec", "out_spec"), _require_structure),
    "forward_arg_names": _make_check(_PARAMETER, "the name of an input"),
    "expr_str": _require_expression,
    "guards_code": _require_guard,
}
