"""The present contents of a value, as a list that can be compared with its later contents.

A remembered result of a model is used again only if the contents of the model are the same. A mutable value is always
equal to itself, so comparing it tells nothing. This list copies plain values and the structure of containers, and has
all other objects by their identity.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, ClassVar
from weakref import ref

from .object_facts import (
    copy_content,
    count_items,
    hash_items,
    hash_memory,
    is_installed,
    is_value,
    list_globals,
    read_attribute,
    read_attributes,
    read_shape,
    read_strides,
)

__all__ = ["BYTES_OF", "Contents", "Identity", "list_contents"]

#: Values that never change, and are equal if their ``==`` says so.
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice})
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
#: Classes whose objects are remembered by their identity; the content of these objects is not looked at.
_WHOLE = (type, ModuleType, BuiltinFunctionType, Enum, logging.Logger)
#: Classes whose objects are looked at only through `_unwrap`.
_WRAPPERS = (partial, staticmethod, classmethod, property, MappingProxyType)
#: How many steps from object to object are followed.
_DEPTH = 6.0
#: The part of such a step that one into a container counts for: inputs may be nested deeply.
_INTO_CONTAINER = 1 / 8
#: In longer containers, like vocabularies, items are compared by their hash: their content is not followed.
_LONGEST = 1000
#: Larger arrays are compared by identity, shape and dtype.
_MOST_BYTES = 1 << 20


def list_contents(value: Any, special: Callable[[Any, Contents], bool] | None = None) -> list[Any]:
    """Return the content of a value, to be compared with ``==``.

    Plain values and containers are equal if they hold equal things; tensors and arrays if they are the same object, of
    the same shape and dtype, and no write to them can be seen; other objects if they are the same, or their ``==`` says
    so, and their attributes are equal.

    >>> layers = [1, [2, 3]]
    >>> before = list_contents(layers)
    >>> layers[1].append(4)
    >>> list_contents(layers) == before
    False
    """
    contents = Contents(special)
    contents.add(value)
    return contents.written


class Identity:
    """An object by its identity: equal to another `Identity` of the same object, as long as the object is alive.

    The object is not kept alive if weak references to it are possible; a later object at its address is another one.
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
    """Writes the contents of values, one after the other, into the flat list ``written``; each object is followed once.

    Args:
        special: Called with each value that is not plain, and with this object. It may write the value in its own way,
            and returns whether it has.
        reads_globals: Whether the global variables that a function's code names belong to its contents; its closure
            always does. Functions of Python and of installed packages are exempt.
    """

    def __init__(self, special: Callable[[Any, Contents], bool] | None = None, *, reads_globals: bool = False) -> None:
        self.written: list[Any] = []
        self._special = special
        self._reads_globals = reads_globals
        #: The numbers of the objects that are followed, by their ids, in the order in which they were met; they are
        #: kept, so that no other object takes the id of one.
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def add(self, value: Any, depth: float = _DEPTH) -> None:
        """Write down a value."""
        kind = type(value)
        if kind in _PLAIN:
            self.written += (kind, value)
        elif self._special is not None and self._special(value, self):
            return
        elif isinstance(value, _CONTAINERS):
            self._add_container(value, kind, depth)
        else:
            self._add_object(value, kind, depth)

    def add_attributes(self, attributes: Mapping[str, Any], depth: float = _DEPTH) -> None:
        """Write down names and values.

        An empty dict is left out behind its name: a module of torch has some ten, for hooks and the like.
        """
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
        """Write down a tensor or array: which it is, its layout, how often it was written to, and its values if few.

        The values are needed too, as a write through numpy, or through ``tensor.data``, is not counted.
        """
        version = read_attribute(array, "_version")
        is_counted = isinstance(version, int)  # by torch alone
        self.written += (
            Identity(array),
            read_shape(array),
            str(read_attribute(array, "dtype")),
            str(read_attribute(array, "device")),
            read_strides(array),
            read_attribute(array, "requires_grad") is True,
            version if is_counted else None,
        )
        if is_counted:
            attributes = read_attribute(array, "__dict__")
            if isinstance(attributes, dict):
                self.add_attributes(attributes, depth)
        self.add_values(array, depth)

    def add_values(self, array: Any, depth: float = _DEPTH) -> None:
        """Write down the values of an array, if they are few and in the memory of the host."""
        if type(array).__module__ == "numpy" and array.dtype.hasobject:  # its bytes are addresses
            self.add(array.tolist(), depth)
            return
        for base in type(array).__mro__:
            read = BYTES_OF.get(base.__module__.partition(".")[0])
            if read is not None:
                data = read(array, _MOST_BYTES)
                if data is not None:
                    self.written.append(zlib.crc32(data))
                return

    def add_class(self, kind: type) -> None:
        """Write down the attributes of a class and of its bases, once for all its instances.

        Of Python's and installed classes only the functions and plain values: users replace methods there too, but the
        rest are caches and the like.
        """
        if not self._follow(kind):
            return
        for base in kind.__mro__[:-1]:
            # Without the attributes that Python makes for each class, such as its annotations.
            attributes = {
                name: value
                for name, value in vars(base).items()
                if type(value) is FunctionType or not (name.startswith("__") and name.endswith("__"))
            }
            if is_installed(base):
                self._add_functions_and_plain(attributes)
            else:
                self.add_attributes(attributes)

    def _add_functions_and_plain(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            kind = type(value)
            if kind is FunctionType:
                self.written += (name, Identity(value))
            elif kind in _PLAIN:
                self.written += (name, value)

    def _follow(self, value: Any) -> bool:
        """Return whether a value is met for the first time, to be followed; its number is written down later on."""
        number = self._numbers.get(id(value))
        if number is not None:
            self.written.append(number)
            return False
        self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        return True

    def _add_container(self, value: Any, kind: type, depth: float) -> None:
        length = count_items(value)
        self.written += (kind, length)
        if not length or depth <= 0 or not self._follow(value):
            return
        depth -= _INTO_CONTAINER
        if length > _LONGEST:
            self.written.append(hash_items(value))
            return
        content = copy_content(value)
        if isinstance(value, dict):
            for key, item in content.items():
                self.add(key, depth)
                self.add(item, depth)
        elif isinstance(value, (set, frozenset)):
            self.written.append(frozenset(item for item in content if type(item) in _PLAIN))
            self.written.append(frozenset(id(item) for item in content if type(item) not in _PLAIN))
        else:
            for item in content:
                self.add(item, depth)

    def _add_object(self, value: Any, kind: type, depth: float) -> None:
        if isinstance(value, _WHOLE):
            self.written.append(Identity(value))
        elif read_attribute(value, "shape") is not None and read_attribute(value, "dtype") is not None:
            self.add_array(value, depth)
        elif isinstance(value, FunctionType):
            self._add_function(value, depth)
        elif isinstance(value, MethodType):
            self.written.append(Identity(value.__func__))
            self.add(value.__self__, depth - 1)
        elif isinstance(value, _WRAPPERS):
            self.written.append(kind)
            self.add(_unwrap(value), depth)
        else:
            self._add_instance(value, kind, depth)

    def _add_function(self, function: FunctionType, depth: float) -> None:
        self.written += (Identity(function), Identity(function.__code__))
        if depth <= 0 or not self._follow(function):
            return
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents, depth - 1)
            except ValueError:  # not filled yet
                self.written.append(None)
        self.add(function.__defaults__, depth - 1)
        self.add(function.__kwdefaults__, depth - 1)
        if self._reads_globals:
            for name, value in list_globals(function):
                self.written.append(name)
                self.add(value, depth - 1)

    def _add_instance(self, value: Any, kind: type, depth: float) -> None:
        memory = hash_memory(value, _MOST_BYTES)
        attributes = read_attributes(value)
        if memory is not None:
            self.written += (kind, memory)
        elif not is_value(kind):
            self.written.append(Identity(value))
        else:  # its own ``==`` decides if it has no attributes to look at
            self.written.append(value if attributes is None else kind)
        if attributes and depth > 0 and self._follow(value):
            self.add_attributes(attributes, depth - 1)


def _unwrap(value: Any) -> Any:
    """Return the object inside an object of one of the `_WRAPPERS`."""
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MappingProxyType):
        return dict(value)
    return value.fget if isinstance(value, property) else value.__func__


def _bytes_of_numpy(array: Any, most: int) -> bytes | None:
    return array.tobytes() if array.nbytes <= most else None


#: By the package of an array's class, a function that returns the bytes of an array; None if there are more than a
#: number of bytes, or if they are not in the memory of the host. Backends add the functions of their frameworks.
BYTES_OF: dict[str, Callable[[Any, int], bytes | None]] = {"numpy": _bytes_of_numpy}
