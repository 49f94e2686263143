"""The messages of Chakra's schema that traces of a rank have, for reading them back: by the protobuf package.

Names, numbers and types are those of ``schema/protobuf/et_def.proto`` of https://github.com/mlcommons/chakra.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "ChakraProtoMsg"
_TYPES = {
    "string": _FIELD.TYPE_STRING,
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
    "bool": _FIELD.TYPE_BOOL,
}
#: The fields by messages: name, number and type; a star stands before those that are repeated.
_MESSAGES = {
    "AttributeProto": [("name", 1, "string"), ("doc_string", 2, "string")],
    "GlobalMetadata": [("version", 1, "string"), ("attr", 2, "*AttributeProto")],
    "Node": [
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "int32"),  # an enumeration
        ("ctrl_deps", 4, "*uint64"),
        ("data_deps", 5, "*uint64"),
        ("start_time_micros", 6, "uint64"),
        ("duration_micros", 7, "uint64"),
        ("attr", 10, "*AttributeProto"),
    ],
}
#: Of the values of an attribute, which are one of many.
_VALUES = [
    ("double_val", 3, "double"),
    ("float_val", 5, "float"),
    ("int32_val", 7, "int32"),
    ("int64_val", 9, "int64"),
    ("uint32_val", 11, "uint32"),
    ("uint64_val", 13, "uint64"),
    ("bool_val", 27, "bool"),
    ("string_val", 29, "string"),
]


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, *field)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
            for field in _VALUES:
                _add(message, *field).oneof_index = 0
    return file


def _add(message: Any, name: str, number: int, kind: str) -> Any:
    label = _FIELD.LABEL_REPEATED if kind.startswith("*") else _FIELD.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    field = message.field.add(name=name, number=number, label=label)
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return field


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())
GlobalMetadata: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.GlobalMetadata"))
Node: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.Node"))


def read_messages(content: bytes) -> Iterator[Any]:
    """Yield the messages of a file: one of the whole, then the nodes; each stands after its length."""
    position = 0
    kind = GlobalMetadata
    while position < len(content):
        size, shift = 0, 0
        while True:
            byte = content[position]
            size |= (byte & 127) << shift
            position, shift = position + 1, shift + 7
            if byte < 128:
                break
        message = kind()
        assert message.ParseFromString(content[position : position + size]) == size
        assert len(unknown_fields.UnknownFieldSet(message)) == 0
        yield message
        position, kind = position + size, Node
