"""Damaged ONNX files, the same ones each time: truncated, with bytes changed, removed, repeated or swapped."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["KINDS", "damage"]


def _truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _one_byte(content: bytes, chance: random.Random) -> bytes:
    index = chance.randrange(len(content))
    return content[:index] + bytes([chance.randrange(256)]) + content[index + 1 :]


def _several_bits(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(2, 20)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _remove(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + content[start + chance.randint(1, 40) :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    end = start + chance.randint(1, 200)
    return content[:end] + content[start:end] + content[end:]


def _swap(content: bytes, chance: random.Random) -> bytes:
    first, second = sorted(chance.randrange(len(content)) for _ in range(2))
    end = second + chance.randint(1, 30)
    return content[:first] + content[second:end] + content[first:second] + content[end:]


def _zero(content: bytes, chance: random.Random) -> bytes:
    start, size = chance.randrange(len(content)), chance.randint(1, 64)
    return (content[:start] + bytes(size) + content[start + size :])[: len(content)]


#: The kinds of damage.
KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _truncate,
    _one_byte,
    _several_bits,
    _remove,
    _repeat,
    _swap,
    _zero,
)


def damage(content: bytes, seed: int) -> bytes:
    """Return a file with the damage of a seed; the kinds take turns."""
    return KINDS[seed % len(KINDS)](content, random.Random(seed))
