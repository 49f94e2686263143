"""Messages of Protocol Buffers, as bytes; see https://protobuf.dev/programming-guides/encoding/ for the format."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["encode_field", "encode_number", "encode_part", "encode_text"]


def encode_field(field: int, number: int) -> bytes:
    """Return a field with a number that is not negative: its key of type 0, and the number."""
    return encode_number(field << 3) + encode_number(number)


def encode_text(field: int, text: str) -> bytes:
    """Return a field with a text."""
    return encode_part(field, text.encode())


def encode_part(field: int, content: bytes) -> bytes:
    """Return a field with bytes, a text or a message: its key of type 2, the length, and the content."""
    return encode_number(field << 3 | 2) + encode_number(len(content)) + content


def encode_number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last have the eighth bit."""
    return bytes(_list_groups_of_bits(number))


def _list_groups_of_bits(number: int) -> Iterator[int]:
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
