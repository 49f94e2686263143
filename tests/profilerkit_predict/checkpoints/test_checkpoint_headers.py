"""Headers of safetensors and GGUF: what they say, and what is refused, by files that are written byte by byte."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import gguf_text, write_gguf, write_safetensors

from profilerkit import InputError
from profilerkit_predict.checkpoints.formats import GGML_TYPES
from profilerkit_predict.checkpoints.gguf import read_gguf
from profilerkit_predict.checkpoints.safetensors import read_safetensors, read_safetensors_folder

#: Bits of an element of each type, as llama.cpp's table of quantizations prints them.
BITS = {
    64: "float64 int64",
    32: "float32 int32",
    16: "float16 bfloat16 int16",
    8: "int8",
    4.5: "Q4_0 Q4_K IQ4_NL NVFP4",
    5: "Q4_1",
    5.5: "Q5_0 Q5_K",
    6: "Q5_1",
    8.5: "Q8_0",
    2.625: "Q2_K",
    3.4375: "Q3_K IQ3_S",
    6.5625: "Q6_K",
    9.125: "Q8_K",
    2.0625: "IQ2_XXS TQ2_0",
    2.3125: "IQ2_XS",
    3.0625: "IQ3_XXS",
    1.5625: "IQ1_S",
    2.5625: "IQ2_S",
    4.25: "IQ4_XS MXFP4",
    1.75: "IQ1_M",
    1.6875: "TQ1_0",
    1.125: "Q1_0",
}


def test_bits_of_all_types() -> None:
    bits = {name: number for number, names in BITS.items() for name in names.split()}
    assert {form.name: 8 * form.bytes / form.elements for form in GGML_TYPES.values()} == bits


def test_tensors_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": ("BF16", (3, 5), 30), "b": ("F4", (4, 4), 8), "c": ("F8_E4M3", (), 1)})
    tensors = read_safetensors(path)
    assert [(tensor.name, tensor.shape, tensor.dtype, tensor.bytes) for tensor in tensors] == [
        ("a", (3, 5), "bfloat16", 30),
        ("b", (4, 4), "float4", 8),
        ("c", (), "float8", 1),
    ]
    assert read_safetensors_folder(tmp_path) == tensors


def test_a_folder_with_an_index(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model-1.safetensors", {"a": ("F32", (2,), 8)})
    write_safetensors(tmp_path / "model-2.safetensors", {"b": ("F32", (3,), 12)})
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert [tensor.name for tensor in read_safetensors_folder(tmp_path)] == ["a", "b"]
    for names, message in (
        ({"a": "model-1.safetensors", "c": "model-3.safetensors"}, "lacks 1 of 2 files of its index: model-3"),
        ({"a": "../model-1.safetensors"}, "has no weight_map of names of files beside it"),
        ([], "has no weight_map"),
        ({"a": ["model-1.safetensors"]}, "has no weight_map of names of files beside it"),
    ):
        index.write_text(json.dumps({"weight_map": names}))
        with pytest.raises(InputError, match=message):
            read_safetensors_folder(tmp_path)
    write_safetensors(tmp_path / "model-2.safetensors", {"a": ("F32", (2,), 8)})
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(InputError, match="has a tensor in two files"):
        read_safetensors_folder(tmp_path)
    for part in (1, 2):
        (tmp_path / f"model-{part}.safetensors").unlink()
    assert read_safetensors_folder(tmp_path) == (), "the index alone was downloaded"
    write_safetensors(tmp_path / "model.safetensors", {"a": ("F32", (5,), 20)})
    assert [tensor.shape for tensor in read_safetensors_folder(tmp_path)] == [(5,)], "saved over a checkpoint of parts"


def write_header(path: Path, header: str, size: int, length: int | None = None) -> None:
    text = header.encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(size))


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> str:
    return json.dumps({"dtype": dtype, "shape": shape, "data_offsets": offsets})


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{{", "has a header that is no JSON"),
        ("[1]", "has a header that is no JSON object"),
        ("[" * 100_000, "has a header that is no JSON"),
        (f'{{"a": {entry(dtype="F99")}}}', "has a tensor 'a' of the dtype 'F99', which profilerkit does not know"),
        (f'{{"a": {entry(shape=(3,))}}}', "3 elements of 32 bits are not 8 bytes"),
        (f'{{"a": {entry(shape=(-2,))}}}', "sizes and offsets are whole numbers from 0"),
        (f'{{"a": {entry(shape=(True, 2))}}}', "sizes and offsets are whole numbers from 0"),
        (f'{{"a": {entry(shape=(2**62, 2**62), offsets=(0, 8))}}}', "elements of 32 bits are not 8 bytes"),
        (f'{{"a": {entry(offsets=(0,))}}}', "is damaged: its tensor 'a'"),
        (f'{{"a": {entry(offsets=(16, 24))}}}', "is cut off: its tensor 'a' ends at byte 24 of 12"),
        ('{"a": 3}', "is damaged: its tensor 'a' has TypeError"),
    ],
)
def test_hostile_headers_of_safetensors(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "model.safetensors"
    write_header(path, header, 12)
    with pytest.raises(InputError, match=message):
        read_safetensors(path)


def test_what_is_no_file_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match="cannot be read"):
        read_safetensors(path)
    for content in (b"", b"abc", bytes(8), (2**60).to_bytes(8, "little") + b"{}"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is no safetensors file: its header would have"):
            read_safetensors(path)


METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.alignment": 32,
    "x.flag": True,
    "x.list": [1, -2],
    "t": ["a", "bc"],
}
TENSORS = {"a": ((256, 3), 12, 256, 144), "b": ((5,), 0, 1, 4)}


def test_metadata_and_tensors_of_gguf(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    assert write_gguf(path, METADATA, TENSORS) == 3 * 144 + 20
    file = read_gguf(path)
    assert file.metadata == {**METADATA, "x.list": (1, -2), "t": 2}
    assert [(tensor.name, tensor.shape, tensor.dtype, tensor.bytes) for tensor in file.tensors] == [
        ("a", (3, 256), "Q4_K", 3 * 144),
        ("b", (5,), "float32", 20),
    ]


def test_parts_of_a_model_that_was_split(tmp_path: Path) -> None:
    for part, name in enumerate(("a", "b")):
        write_gguf(tmp_path / f"m-{part + 1:05}-of-00002.gguf", {**METADATA, "split.count": 2}, {name: TENSORS[name]})
    assert [tensor.name for tensor in read_gguf(tmp_path / "m-00001-of-00002.gguf").tensors] == ["a", "b"]
    write_gguf(tmp_path / "m.gguf", {**METADATA, "split.count": 2}, TENSORS)
    with pytest.raises(InputError, match="is one of 2 parts; give the first one, named NAME-00001-of-00002.gguf"):
        read_gguf(tmp_path / "m.gguf")
    write_gguf(tmp_path / "m-00002-of-00002.gguf", {**METADATA, "split.count": 2}, {"a": TENSORS["a"]})
    with pytest.raises(InputError, match="has a tensor in two parts"):
        read_gguf(tmp_path / "m-00001-of-00002.gguf")
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(InputError, match="of which m-00002-of-00002.gguf is not beside it"):
        read_gguf(tmp_path / "m-00001-of-00002.gguf")


def header(tensors: int = 0, values: int = 0, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values) + rest


def tensor(name: str = "a", shape: tuple[int, ...] = (4,), kind: int = 0, start: int = 0) -> bytes:
    return gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin with GGUF"),
        (b"PK" + bytes(40), "does not begin with GGUF"),
        (header(version=1), "is GGUF of version 1; versions 2 and 3 of little endian are read"),
        (header(version=3 << 24), "is GGUF of version 50331648"),
        (header(tensors=2**40), "1,099,511,627,776 tensors"),
        (header(values=1), "8 bytes where the file has 0 more"),
        (header(values=1, rest=struct.pack("<Q", 2**60)), "a name of 1,152,921,504,606,846,976 bytes"),
        (header(values=1, rest=gguf_text("k") + struct.pack("<I", 99)), "'k' of an unknown type 99"),
        (header(values=1, rest=gguf_text("k") + struct.pack("<IIQ", 9, 9, 1)), "'k' of an unknown type 9"),
        (header(values=1, rest=gguf_text("k") + struct.pack("<IIQ", 9, 4, 2**60)), "'k' with 1,152,921"),
        (header(values=1, rest=gguf_text("k") + struct.pack("<IIQ", 9, 8, 2**60)), "'k' with 1,152,921"),
        (
            header(values=1, rest=gguf_text("general.alignment") + struct.pack("<II", 4, 0)),
            "its header has general.alignment 0",
        ),
        (header(tensors=1, rest=tensor(shape=(1,) * 9)), "a tensor 'a' of 9 dimensions"),
        (header(tensors=1, rest=tensor(kind=4)), "a tensor 'a' of a type 4 whose bytes are not known here"),
        (header(tensors=1, rest=tensor(kind=12)), "of 4 elements, not whole blocks of 256"),
        (header(tensors=1, rest=tensor(shape=(2**60, 2**60))), "is cut off: its tensor 'a' ends at byte"),
        (header(tensors=2, rest=tensor() + tensor()), "has a tensor twice"),
    ],
)
def test_hostile_headers_of_gguf(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_gguf(path)


def test_a_file_that_was_not_downloaded_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, METADATA, TENSORS, cut=33)
    with pytest.raises(InputError, match="is cut off: its tensor 'b' ends at byte .*; download it again"):
        read_gguf(path)
    path.write_bytes(header(tensors=1, rest=tensor()))  # it ends before the padding in front of the tensors
    with pytest.raises(InputError, match="is cut off: its tensor 'a' ends at byte 16 of 0; download it again"):
        read_gguf(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_gguf(tmp_path / "none.gguf")
