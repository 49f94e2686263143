"""The facts about an object of any class, even if its methods raise: attributes, items and memory."""

from __future__ import annotations

import os
import sys
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any

__all__ = [
    "copy_content",
    "count_items",
    "hash_items",
    "hash_memory",
    "is_installed",
    "is_value",
    "list_globals",
    "list_slots",
    "read_attribute",
    "read_attributes",
    "read_shape",
    "read_strides",
]

#: Python's containers, a class before its base.
_CONTAINERS = (OrderedDict, dict, list, tuple, set, frozenset, deque)
#: Where Python and packages are installed, whose functions keep caches and the like in global variables.
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120  # pathlib is imported for it alone
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def read_attribute(value: Any, name: str) -> Any:
    """Return an attribute, None if it cannot be read: a property may raise anything."""
    try:
        return getattr(value, name, None)
    except MemoryError:
        raise
    except Exception:
        return None


def read_attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, those in ``__slots__`` too; None for an object that can have none."""
    attributes = read_attribute(value, "__dict__")
    slots = {slot.__name__: read_attribute(value, slot.__name__) for slot in list_slots(type(value))}
    if isinstance(attributes, dict):
        return {**attributes, **slots}
    return slots or None


def read_shape(array: Any) -> Any:
    """Return the shape of an array; its text where the rank is not known."""
    shape = read_attribute(array, "shape")
    try:
        return tuple(shape)
    except (TypeError, ValueError, RuntimeError):
        return str(shape)


def read_strides(array: Any) -> Any:
    """Return the strides of an array, which a method or an attribute has."""
    strides = read_attribute(array, "stride")
    try:
        return tuple(strides()) if callable(strides) else read_attribute(array, "strides")
    except MemoryError:
        raise
    except Exception:  # it has none
        return None


def list_slots(kind: type) -> list[MemberDescriptorType]:
    """Return the descriptors of the ``__slots__`` of a class and its bases, of private names too."""
    return [
        slot
        for base in kind.__mro__
        if "__slots__" in base.__dict__
        for slot in base.__dict__.values()
        if type(slot) is MemberDescriptorType
    ]


def is_value(kind: type) -> bool:
    """Return whether objects of a class say themselves which of them are equal."""
    return getattr(kind, "__eq__", None) is not object.__eq__


def count_items(container: Any) -> int:
    """Return how many items a container has, as Python's base class tells it; see `copy_content`."""
    base = _find_base(container)
    return len(container) if base is None else base.__len__(container)


def copy_content(container: Any) -> Any:
    """Return the content of a container, as a plain dict or list, by the methods of Python's base class.

    The methods of a subclass may raise, or compute something. A proxy, like TensorFlow's around dicts, only claims to
    be a container: its own methods are called.
    """
    if type(container) is dict or type(container) is list:
        return container.copy()
    base = _find_base(container)
    if isinstance(container, dict):
        return dict(container.items() if base is None else base.items(container))
    return list(container if base is None else base.__iter__(container))


def _find_base(container: Any) -> Any:
    """Return the class of Python's that a container has or is derived from; None for a proxy."""
    return next((base for base in _CONTAINERS if issubclass(type(container), base)), None)


def hash_items(value: Any) -> int:
    """Return the items of a long container as one number: by their hashes if all have one, or by their identities."""
    content = copy_content(value)
    items = [*content, *content.values()] if isinstance(value, dict) else content
    is_set = isinstance(value, (set, frozenset))
    try:
        return hash(frozenset(items) if is_set else tuple(items))
    except MemoryError:
        raise
    except Exception:  # some of them have no hash
        numbers = map(id, items)
        return hash(tuple(sorted(numbers) if is_set else numbers))


def hash_memory(value: Any, most_bytes: int) -> int | None:
    """Return the bytes of a buffer (`bytearray`, `array.array`, ``ctypes``) as one number; None of all else.

    ``most_bytes`` is the size of the largest that is read.
    """
    try:
        with memoryview(value) as view:
            return zlib.crc32(view.tobytes()) if view.nbytes <= most_bytes else None
    except MemoryError:
        raise
    except Exception:  # none, or one that is closed
        return None


def is_installed(kind: type) -> bool:
    """Return whether a class belongs to Python or to an installed package."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and _is_of_package(file)


def _is_of_package(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) or any(folder in file for folder in _PACKAGES)


def list_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global variables that the code of a function, and of the functions inside it, names.

    Functions of Python and of installed packages are left out: their globals are caches and the like.
    """
    if _is_of_package(function.__code__.co_filename):
        return
    names: dict[str, None] = {}
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        names.update(dict.fromkeys(code.co_names))
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
