"""Checks of exported programs before torch reads them: reading a program may run code.

``torch.export.load`` unpickles without limits where a safe reading fails, loads machine code, and runs much of the
program as Python: it evaluates the sizes as Python expressions, writes the names of nodes into Python code that it
runs, calls any function below ``torch`` that a node names, and imports modules for the structure of inputs. So all of
it is compared with what an export writes. `require_harmless` goes through a program, which is JSON; above it stands a
check for each kind of text.
"""

from __future__ import annotations

import ast
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from profilerkit import InputError
from profilerkit.hooks.infos import make_refusal

from ..compat.files import FileReader, list_symbolic_functions, schemas_by_name
from .pickles import join_imported_names, require_tensors

__all__ = ["Finding", "require_harmless_program", "require_operator"]

#: The tensors of a program, in files of torch before 2.8.
_TENSOR_MEMBERS = ("serialized_state_dict.json", "serialized_constants.json")


def require_harmless_program(path: Path) -> None:
    """Raise `InputError` for a ``.pt2`` file that holds anything but tensors, and operators that torch knows."""
    try:
        for name, read in _list_members(path):
            _require_harmless_member(name, read)
    except Finding as finding:
        raise make_refusal(path, str(finding)) from finding.__cause__
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _list_members(path: Path) -> Iterator[tuple[str, Callable[[str], bytes]]]:
    """Yield the members of a file by both of torch's readers, which need not agree, each with a function to read it."""
    try:
        reader = FileReader(str(path))
    except RuntimeError:
        pass
    else:
        yield from ((name, reader.get_record) for name in reader.get_all_records())
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # files of torch before 2.8
        yield from ((name, archive.read) for name in archive.namelist() if name.lower().startswith("serialized_"))


def _require_harmless_member(name: str, read: Callable[[str], bytes]) -> None:
    """Raise `Finding` for a member of the archive that could run code; torch finds members in capitals too."""
    small = name.lower()
    if small.startswith("data/aotinductor/"):
        raise Finding(f"holds compiled code ({name})")
    if small.endswith(".pt") or small in _TENSOR_MEMBERS:
        _require_harmless_pickle(name, read(name))
    elif small.endswith("_weights_config.json"):
        _require_harmless_payloads("data/weights/", read(name), read)
    elif small.endswith("_constants_config.json"):
        _require_harmless_payloads("data/constants/", read(name), read)
    elif small.startswith("models/") or small == "serialized_exported_program.json":
        require_harmless(json.loads(read(name)))


def _require_harmless_payloads(folder: str, config: bytes, read: Callable[[str], bytes]) -> None:
    """Raise `Finding` where a list of the files in a folder has one with more than tensors."""
    for entry in json.loads(config)["config"].values():
        member = os.path.join(folder, entry["path_name"])  # noqa: PTH118  # as torch
        if entry["path_name"].startswith(("opaque_obj_", "custom_obj_")):
            raise Finding(f"holds an object that is no tensor, {join_imported_names(read(member)) or member}")
        if entry.get("use_pickle"):
            _require_harmless_pickle(member, read(member))


def _require_harmless_pickle(name: str, data: bytes) -> None:
    if not data:
        return
    try:
        require_tensors(data)
    except MemoryError:
        raise
    except Exception as error:  # for any content: torch would go on to read it without limits
        raise Finding(
            f"has more than tensors in {name}: {join_imported_names(data) or type(error).__name__}"
        ) from error


# The program, as JSON: each text in it is compared with the texts that an export writes there -------------------------


class Finding(Exception):
    """Something that an export of a plain model does not have; its text completes the message of `make_refusal`."""


# Names: torch writes them into Python code; so it does paths, between double quotes -----------------------------------


def _make_check(pattern: str, what: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], None]:
    """Return a check that raises `Finding` for a text that a pattern does not describe as a whole."""
    allowed = re.compile(pattern, flags)

    def check(text: str) -> None:
        if not allowed.fullmatch(text):
            raise Finding(f"has {text!r} for {what}")

    return check


_require_no_code = _make_check(r"""[^()"'\\;\r\n]*""", "a part that is no name")
_require_node = _make_check(r"[A-Za-z_]\w*|", "the name of a node", re.ASCII)
_require_parameter = _make_check(r"\*{0,2}[A-Za-z_]\w*|", "the name of an input", re.ASCII)
_require_path = _make_check(r'[^"\\\r\n]*', "the path of a layer")
_require_key = _make_check(r"[\w .\-/]*", "a name among the inputs")
_require_symbol = _make_check(r"[\w.+\-]*", "the name of a symbol")


# Operators and functions that nodes call ------------------------------------------------------------------------------

_OPERATOR = re.compile(r"torch\.ops\.(?P<namespace>\w+)\.(?P<name>\w+)(?:\.(?P<overload>\w+))?", re.ASCII)
_ARITHMETIC = re.compile(
    r"abs|add|and_|eq|floordiv|ge|getitem|gt|inv|invert|is_|is_not|le|lshift|lt|mod|mul|ne|neg|not_|or_"
    r"|pos|pow|rshift|sub|truediv|xor"
)
#: Functions beside operators that nodes of an export call: functions of symbols, and functions that switch modes.
_FUNCTIONS = re.compile(
    r"torch\._?sym_\w+|torch\._functorch\.predispatch\.\w+|torch\.amp\.autocast_mode\._(enter|exit)_autocast"
    r"|torch\._C\._set_grad_enabled|math\.[a-z]\w*",
    re.ASCII,
)
#: Namespaces whose operators only compute with tensors. Operators of other packages may do anything.
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


def require_operator(target: str) -> None:
    """Raise `Finding` for the target of a node, unless exports write it and it computes with tensors or numbers."""
    operator = _OPERATOR.fullmatch(target)
    if operator is None:
        is_allowed = bool(_FUNCTIONS.fullmatch(target) or _ARITHMETIC.fullmatch(target.removeprefix("_operator.")))
    elif operator["namespace"] == "higher_order":
        is_allowed = bool(_HIGHER_ORDER.fullmatch(operator["name"]))
    else:
        is_allowed = _takes_no_file(operator["namespace"], operator["name"], operator["overload"])
    if not is_allowed:
        raise Finding(f"calls {target!r}")


def _takes_no_file(namespace: str, name: str, overload: str | None) -> bool:
    """Return whether an operator works on tensors, and gets no text except one that chooses how to compute."""
    overloads = schemas_by_name(f"{namespace}::{name}") if namespace in _NAMESPACES else []
    schemas = [schema for schema in overloads if overload in (None, schema.overload_name or "default")]
    texts = [argument.name for schema in schemas for argument in schema.arguments if "str" in str(argument.type)]
    return bool(schemas) and all(map(_CHOICES.fullmatch, texts))


# Expressions: torch evaluates sizes and conditions as Python ----------------------------------------------------------

_ARITHMETIC_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Load, ast.IfExp, ast.Tuple),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_SIZE_NODES = (*_ARITHMETIC_NODES, ast.Call, ast.Name, ast.keyword)
_GUARD_NODES = (*_ARITHMETIC_NODES, ast.Call, ast.Subscript, ast.List, ast.Slice)
_GUARD_ATTRIBUTES = re.compile(r"size|stride|storage_offset|dim|ndim|shape|item|floor|ceil|trunc|sqrt|pow|sym_\w*")
_GUARD_NAMES = ("L", "math", "torch", "len", "int", "float", "max", "min")
_SYMBOLIC = re.compile(
    f"{'|'.join(list_symbolic_functions())}|"
    r"Abs|Add|And|Eq|Equality|ExprCondPair|Float|Ge|GreaterThan|Gt|Integer|Le|LessThan|Lt|Max|Min|Mod|Mul"
    r"|Ne|Not|Or|Piecewise|Pow|Rational|StrictGreaterThan|StrictLessThan|Symbol|Unequality|Xor|ceiling|exp"
    r"|floor|log|sqrt"
)


def _require_expression(text: str) -> None:
    """Raise `Finding` for a size that is not arithmetic over symbols."""
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call) and not _is_symbolic(node.func):
            raise Finding(f"has a size that calls more than arithmetic, {text!r}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            _require_symbol(str(node.value))
        if not isinstance(node, _SIZE_NODES):
            raise Finding(f"has a size that is more than arithmetic, {text!r}")


def _is_symbolic(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and bool(_SYMBOLIC.fullmatch(function.id))


def _require_guard(text: str) -> None:
    """Raise `Finding` for a condition on the inputs that is not a comparison of sizes."""
    if not all(map(_is_part_of_guard, ast.walk(_parse(text)))):
        raise Finding(f"has a condition that is more than a comparison of sizes, {text!r}")


def _is_part_of_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return bool(_GUARD_ATTRIBUTES.fullmatch(node.attr))
    if isinstance(node, ast.Name):
        return node.id in _GUARD_NAMES
    return isinstance(node, _GUARD_NODES)


def _parse(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, MemoryError) as error:
        raise Finding(f"has {text[:80]!r} for an expression") from error


# The structure of inputs and outputs: torch imports the modules that it names -----------------------------------------

_FACTORIES = ("bool", "dict", "float", "int", "list", "set", "str", "tuple")


def _require_part(part: Any) -> None:
    """Raise `Finding` for a part of a structure that is not of names, plain containers and plain values."""
    if isinstance(part, list):
        for item in part:
            _require_part(item)
    elif isinstance(part, dict):
        _require_harmless_container(part)
        for name, value in part.items():
            _require_key(name)
            _require_part(value)
    elif isinstance(part, str):
        _require_text(part)


def _require_text(text: str) -> None:
    """Raise `Finding` for a text that is neither a name nor a structure in JSON itself."""
    with suppress(ValueError):
        inner = json.loads(text)
        if not isinstance(inner, str):
            _require_part(inner)
            return
    _require_key(text)


def _require_harmless_container(node: dict[str, Any]) -> None:
    """Raise `Finding` for a container whose members, or whose default values, are of a module that torch imports."""
    if "__enum__" in node:
        raise Finding(f"has inputs by the members of {node.get('fqn')!r}, whose module it imports")
    module, factory = node.get("default_factory_module", "builtins"), node.get("default_factory_name", "list")
    if module != "builtins" or factory not in _FACTORIES:
        raise Finding(f"has inputs in a dict of {f'{module}.{factory}'!r}, which it imports")


# The whole program ----------------------------------------------------------------------------------------------------

#: The check of a text by its key. Texts under other keys are no code.
_CHECKS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(("name", "as_name"), _require_node),
    **dict.fromkeys(("target", "as_operator"), require_operator),
    **dict.fromkeys(("parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name"), _require_path),
    **dict.fromkeys(("fqn", "nn_module_stack"), _require_path),
    **dict.fromkeys(("in_spec", "out_spec"), lambda text: _require_part(json.loads(text))),
    "forward_arg_names": _require_parameter,
    "expr_str": _require_expression,
    "guards_code": _require_guard,
}
#: Where an export writes texts of any kind: they are kept as texts.
_FREE = ("as_string", "as_strings", "custom", "from_node", "source_fn_stack", "stack_trace", "torch_fn")


def require_harmless(value: Any, key: str = "") -> None:
    """Raise `Finding` for a part of a program, under a key, that an export would not write."""
    if isinstance(value, dict):
        for name, part in value.items():
            _require_no_code(name)
            require_harmless(part, name)
    elif isinstance(value, list):
        for part in value:
            require_harmless(part, key)
    elif isinstance(value, str) and key not in _FREE:
        _CHECKS.get(key, _require_no_code)(value)
