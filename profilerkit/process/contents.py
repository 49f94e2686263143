"""What a value holds right now, as something that can be compared with what it holds later.

A mutable value compared with itself is always equal to itself, whatever was changed in it in between. What stands here
copies plain values and the structure of containers, and remembers all else by its identity.
"""

from __future__ import annotations

import logging
import os
import sys
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, ClassVar
from weakref import ref

__all__ = ["BYTES_OF", "Contents", "Identity", "list_contents", "list_slots"]

#: Values that never change, and are equal where they say so.
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice})
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
#: What is remembered by its identity alone.
_WHOLE = (type, ModuleType, BuiltinFunctionType, Enum, logging.Logger)
#: Where Python and packages are installed, whose functions keep caches and the like in global variables.
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120  # pathlib is imported for it alone
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
#: How many steps from object to object are followed.
_DEPTH = 6.0
#: A step into a container, as a part of one to an object: inputs may be nested deeply.
_INTO_CONTAINER = 1 / 8
#: Longer containers, vocabularies and the like, are compared by their items, but not by what these hold.
_LONGEST = 1000
#: Larger arrays are compared by identity, shape and dtype.
_MOST_BYTES = 1 << 20


class Identity:
    """An object by its identity: equal to another one of the same object, as long as that is alive.

    The object is not kept alive where it can be referred to weakly; one that takes its address later is another one.
    """

    __slots__ = ("target",)

    def __init__(self, value: Any) -> None:
        try:
            self.target: Any = ref(value)  # the same reference for as long as the object lives
        except TypeError:
            self.target = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and self.target is other.target

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


class Contents:
    """Writes down what values hold, one after the other, into a flat list; each object is followed once.

    ``special`` may write down a value itself: it is called with the value and this object, and returns whether it has.
    Of a function it is the variables that it closes over; with ``reads_globals`` the global ones that its code names
    too, unless it belongs to Python or to an installed package.
    """

    def __init__(self, special: Callable[[Any, Contents], bool] | None = None, *, reads_globals: bool = False) -> None:
        self.written: list[Any] = []
        self._special = special
        self._reads_globals = reads_globals
        self._met: dict[int, Any] = {}

    def add(self, value: Any, depth: float = _DEPTH) -> None:
        """Write down a value."""
        kind = type(value)
        if kind in _PLAIN:
            self.written += (kind, value)
        elif isinstance(value, _CONTAINERS):
            self._add_container(value, kind, depth)
        elif self._special is None or not self._special(value, self):
            self._add_object(value, kind, depth)

    def add_attributes(self, attributes: Mapping[str, Any], depth: float = _DEPTH) -> None:
        """Write down names and values; a name with an empty container is written without it."""
        written = self.written
        for name, value in attributes.items():
            kind = type(value)
            if kind in _PLAIN:
                written += (name, kind, value)
            elif (kind is dict or kind is OrderedDict) and not value:
                written.append(name)
            else:
                written.append(name)
                self.add(value, depth)

    def add_array(self, array: Any, depth: float = _DEPTH) -> None:
        """Write down a tensor or array: which it is, its layout, how often it was written to, and few values.

        Not all writes are counted: one through numpy, or through ``tensor.data``, is not.
        """
        version, attributes = _read(array, "_version"), _read(array, "__dict__")
        self.written += (
            Identity(array),
            _shape(array),
            str(_read(array, "dtype")),
            str(_read(array, "device")),
            _strides(array),
            _read(array, "requires_grad") is True,
            version if isinstance(version, int) else None,
        )
        if isinstance(version, int) and isinstance(attributes, dict) and attributes:
            self.add_attributes(attributes, depth)
        self.add_values(array, depth)

    def add_values(self, array: Any, depth: float = _DEPTH) -> None:
        """Write down the values of an array, if they are few and in the memory of the host."""
        if type(array).__module__ == "numpy" and array.dtype.hasobject:
            self.add(array.tolist(), depth)
            return
        packages = (base.__module__.partition(".")[0] for base in type(array).__mro__)
        read = next((BYTES_OF[package] for package in packages if package in BYTES_OF), None)
        data = None if read is None else read(array, _MOST_BYTES)
        if data is not None:
            self.written.append(zlib.crc32(data))

    def add_class(self, kind: type) -> None:
        """Write down the attributes of a class and of its bases; of Python's and installed ones without their contents.

        A class is written once, whatever the number of its instances.
        """
        if not self._is_new(kind):
            return
        for base in kind.__mro__[:-1]:
            attributes = {name: value for name, value in vars(base).items() if not _is_bookkeeping(name, value)}
            if _is_installed(base):
                self._add_identities(attributes)
            else:
                self.add_attributes(attributes)

    def _add_identities(self, attributes: Mapping[str, Any]) -> None:
        written = self.written
        for name, value in attributes.items():
            kind = type(value)
            if kind is FunctionType or kind in _PLAIN:
                written += (name, Identity(value) if kind is FunctionType else value)

    def _is_new(self, value: Any) -> bool:
        """Note that a value is followed; one that was is written down by where it was met."""
        number = self._met.get(id(value))
        if number is not None:
            self.written.append(number[0])
            return False
        self._met[id(value)] = (len(self._met), value)  # kept, so that no other object takes its address
        return True

    def _add_container(self, value: Any, kind: type, depth: float) -> None:
        self.written += (kind, len(value))
        if not value or depth <= 0 or not self._is_new(value):
            return
        depth -= _INTO_CONTAINER
        if len(value) > _LONGEST:
            self.written.append(_hash_items(value))
        elif isinstance(value, dict):
            for key, item in _entries(value):
                self.add(key, depth)
                self.add(item, depth)
        elif isinstance(value, (set, frozenset)):
            plain = [item for item in value if type(item) in _PLAIN]
            self.written.append(frozenset(plain))
            self.written.append(frozenset(id(item) for item in value if type(item) not in _PLAIN))
        else:
            for item in value:
                self.add(item, depth)

    def _add_object(self, value: Any, kind: type, depth: float) -> None:
        if isinstance(value, _WHOLE):
            self.written.append(Identity(value))
        elif _read(value, "shape") is not None and _read(value, "dtype") is not None:
            self.add_array(value, depth)
        elif isinstance(value, FunctionType):
            self._add_function(value, depth)
        elif isinstance(value, MethodType):
            self.written.append(Identity(value.__func__))
            self.add(value.__self__, depth - 1)
        elif isinstance(value, partial):
            self.written.append(kind)
            self.add([value.func, value.args, value.keywords], depth)
        elif isinstance(value, (staticmethod, classmethod)):
            self.written.append(kind)
            self.add(value.__func__, depth)
        elif isinstance(value, property):
            self.written.append(kind)
            self.add(value.fget, depth)
        else:
            self._add_instance(value, kind, depth)

    def _add_function(self, function: FunctionType, depth: float) -> None:
        self.written += (Identity(function), Identity(function.__code__))
        if depth <= 0 or not self._is_new(function):
            return
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents, depth - 1)
            except ValueError:  # not filled yet
                self.written.append(None)
        self.add(function.__defaults__, depth - 1)
        self.add(function.__kwdefaults__, depth - 1)
        if self._reads_globals:
            for name, value in _list_globals(function):
                self.written.append(name)
                self.add(value, depth - 1)

    def _add_instance(self, value: Any, kind: type, depth: float) -> None:
        attributes = _read(value, "__dict__")
        slots = list_slots(kind)
        if (memory := _hash_memory(value)) is not None:
            self.written += (kind, memory)
        if not (isinstance(attributes, dict) or slots):
            if isinstance(value, MappingProxyType):
                self.add(dict(value), depth)
            elif memory is None:
                self.written.append(value if _is_value(kind) else Identity(value))
            return
        self.written.append(kind if _is_value(kind) else Identity(value))
        if depth <= 0 or not self._is_new(value):
            return
        if isinstance(attributes, dict):
            self.add_attributes(attributes, depth - 1)
        for slot in slots:
            self.written.append(slot.__name__)
            self.add(_read(value, slot.__name__), depth - 1)


def list_contents(value: Any, special: Callable[[Any, Contents], bool] | None = None) -> list[Any]:
    """Return what a value holds, to be compared with ``==``.

    Plain values and containers are equal where they hold equal things; tensors and arrays where they are the same
    object, of the same shape and dtype, and were not written to as far as that can be told; other objects where they
    are the same, or say so, and their attributes are equal.

    >>> layers = [1, [2, 3]]
    >>> before = list_contents(layers)
    >>> layers[1].append(4)
    >>> list_contents(layers) == before
    False
    """
    contents = Contents(special)
    contents.add(value)
    return contents.written


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a dict in their order, which `OrderedDict` keeps in a way of its own.

    A proxy, as TensorFlow puts around dicts, claims to be one and is none.
    """
    is_dict = issubclass(type(value), dict) and not issubclass(type(value), OrderedDict)
    return dict.items(value) if is_dict else list(value.items())


def _hash_items(value: Any) -> int:
    """Return the items of a long container as one number: by their values if all have one, or by their identity."""
    items: Any = _entries(value) if isinstance(value, dict) else value
    unordered = isinstance(value, (set, frozenset))
    try:
        return hash(frozenset(items) if unordered else tuple(items))
    except MemoryError:
        raise
    except Exception:  # some of them have none
        numbers = [id(entry) for item in items for entry in (item if isinstance(value, dict) else (item,))]
        return hash(tuple(sorted(numbers) if unordered else numbers))


def _hash_memory(value: Any) -> int | None:
    """Return the bytes of a buffer (`bytearray`, `array.array`, ``ctypes``) as one number, if it is one and small."""
    try:
        with memoryview(value) as view:
            return zlib.crc32(view.tobytes()) if view.nbytes <= _MOST_BYTES else None
    except MemoryError:
        raise
    except Exception:  # none, or one that is closed
        return None


def _bytes_of_numpy(array: Any, most: int) -> bytes | None:
    return array.tobytes() if array.nbytes <= most else None


#: By the package of an array's class: what reads the bytes of one, at most so many, from the memory of the host.
#: Backends add those of their frameworks.
BYTES_OF: dict[str, Callable[[Any, int], bytes | None]] = {"numpy": _bytes_of_numpy}


def _strides(array: Any) -> Any:
    """Return the strides of an array, which a method or an attribute has."""
    strides = _read(array, "stride")
    try:
        return tuple(strides()) if callable(strides) else _read(array, "strides")
    except MemoryError:
        raise
    except Exception:  # it has none
        return None


def _is_installed(kind: type) -> bool:
    """Return whether a class belongs to Python or to an installed package."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and _is_of_package(file)


def _is_bookkeeping(name: str, value: Any) -> bool:
    """Return whether an attribute of a class is one that Python makes, such as its annotations."""
    return name.startswith("__") and name.endswith("__") and type(value) is not FunctionType


def _is_of_package(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) or any(folder in file for folder in _PACKAGES)


def _list_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global variables that the code of a function names, and those of the functions inside of it."""
    waiting = [function.__code__]
    if _is_of_package(waiting[0].co_filename):
        return
    names: dict[str, None] = {}
    while waiting:
        code = waiting.pop()
        names.update(dict.fromkeys(code.co_names))
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _is_value(kind: type) -> bool:
    """Return whether objects of a class say themselves which of them are equal."""
    return getattr(kind, "__eq__", None) is not object.__eq__


def list_slots(kind: type) -> list[MemberDescriptorType]:
    """Return the descriptors of what a class and its bases have named in their ``__slots__``, private names too."""
    return [
        slot
        for base in kind.__mro__
        if "__slots__" in base.__dict__
        for slot in base.__dict__.values()
        if type(slot) is MemberDescriptorType
    ]


def _read(value: Any, name: str) -> Any:
    """Return an attribute, None where it cannot be read: a property may raise anything."""
    try:
        return getattr(value, name, None)
    except MemoryError:
        raise
    except Exception:
        return None


def _shape(array: Any) -> Any:
    shape = _read(array, "shape")
    try:
        return tuple(shape)
    except (TypeError, ValueError, RuntimeError):  # of unknown rank
        return str(shape)
