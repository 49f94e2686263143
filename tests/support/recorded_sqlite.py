"""What SQLite does to its files, call by call: a layer below the database that records, and fails on request.

Every state that a loss of power can leave behind follows from what it has recorded.

The layer is a VFS (https://www.sqlite.org/vfs.html): a copy of the system's own, of which the functions that change
files are replaced by ours. It is the default of this process while a `Recorder` is in use.

What a disk keeps when power is lost: what was synchronised, and of what was written since any part, in whole sectors.
Names are safe once their folder was synchronised, which SQLite does with the first synchronisation of a new journal,
and after the removal of one only if asked to (``synchronous=EXTRA``); until then the first changes of names hold.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FULL", "IO_ERROR", "Call", "Disk", "Recorder", "available"]

#: Results of SQLite: the disk is full; a call of the system failed.
FULL, IO_ERROR = 13, 10
_SECTOR = 512

_int, _pointer, _int64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
_OPEN = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _pointer, _int, ctypes.POINTER(_int))
_DELETE = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int)
_WRITE = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int, _int64)
_TRUNCATE = ctypes.CFUNCTYPE(_int, _pointer, _int64)
_SYNC = ctypes.CFUNCTYPE(_int, _pointer, _int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("size_of_file", _int),
        ("longest_path", _int),
        ("next", _pointer),
        ("name", ctypes.c_char_p),
        ("data", _pointer),
        ("open", _pointer),
        ("delete", _pointer),
        ("others", _pointer * 14),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("close", _pointer),
        ("read", _pointer),
        ("write", _pointer),
        ("truncate", _pointer),
        ("sync", _pointer),
        ("others", _pointer * 13),
    )


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


def _library() -> Any:
    """Return the library that Python's `sqlite3` calls: its own, or one that was loaded before and has the same names.

    TensorFlow is such a one; two libraries of different versions do not know each other's layers.
    """
    import _sqlite3

    for library in (ctypes.CDLL(None), ctypes.CDLL(_sqlite3.__file__)):
        version = getattr(library, "sqlite3_libversion", None)
        if version is not None:
            version.restype = ctypes.c_char_p
            if version() == _sqlite3.sqlite_version.encode():
                return library
    raise OSError("no library of the version that sqlite3 has")


def available() -> bool:
    """Return whether the library that Python's `sqlite3` uses can be reached."""
    try:
        return hasattr(_library(), "sqlite3_vfs_register")
    except (ImportError, OSError):
        return False


@dataclass(frozen=True)
class Call:
    """A call that changes a file: open (of a new file), write, truncate, sync, delete; or a mark of the test's."""

    kind: str
    name: str
    offset: int = 0
    content: bytes = b""


@dataclass
class _Content:
    """The bytes of a file that are safe, and the calls since."""

    safe: bytes = b""
    pending: list[Call] = field(default_factory=list)

    def variants(self) -> dict[str, bytes]:
        """Return what the disk may hold: parts of the calls that are not safe, and the last of them torn."""
        calls = self.pending
        chosen = {
            "nothing": [],
            "everything": calls,
            "all but the last": calls[:-1],
            "the last alone": calls[-1:],
            "the first half": calls[: len(calls) // 2],
            "the second half": calls[len(calls) // 2 :],
            "every other": calls[::2],
            "torn": [*calls[:-1], *map(_torn, calls[-1:])],
        }
        return {name: _apply(self.safe, some) for name, some in chosen.items()}


def _torn(call: Call) -> Call:
    half = max(len(call.content) // 2 // _SECTOR * _SECTOR, 1)
    return Call(call.kind, call.name, call.offset, call.content[:half]) if call.kind == "write" else call


def _apply(content: bytes, calls: list[Call]) -> bytes:
    held = bytearray(content)
    for call in calls:
        if call.kind == "truncate":
            del held[call.offset :]
        else:
            held.extend(bytes(max(0, call.offset - len(held))))
            held[call.offset : call.offset + len(call.content)] = call.content
    return bytes(held)


class Disk:
    """The files of a folder after some calls, as far as they are safe; `states` are what a loss of power may leave."""

    def __init__(self) -> None:
        self._contents: dict[int, _Content] = {}
        self._safe_names: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._changes: list[dict[str, int]] = []

    def take(self, call: Call) -> None:
        """Follow a call."""
        if call.kind == "open":
            number = len(self._contents)
            self._contents[number] = _Content()
            self._names = {**self._names, call.name: number}
            self._changes.append(self._names)
        elif call.kind == "delete":
            self._names = {name: number for name, number in self._names.items() if name != call.name}
            self._changes.append(self._names)
            if call.offset:
                self._folder_is_safe()
        elif call.kind == "sync":
            content = self._contents[self._names[call.name]]
            content.safe, content.pending = _apply(content.safe, content.pending), []
            if self._safe_names.get(call.name) != self._names[call.name]:
                self._folder_is_safe()
        elif call.kind in ("write", "truncate"):
            self._contents[self._names[call.name]].pending.append(call)

    def _folder_is_safe(self) -> None:
        self._safe_names, self._changes = self._names, []

    def states(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield the contents by name of each state, with words for it; equal ones once."""
        shown: list[dict[str, bytes]] = []
        for count, names in enumerate((self._safe_names, *self._changes)):
            variants = {name: self._contents[number].variants() for name, number in names.items()}
            for words in next(iter(variants.values()), {"no file": b""}):
                for others in ("nothing", "everything", words):
                    state = {
                        name: value[others if place else words] for place, (name, value) in enumerate(variants.items())
                    }
                    if state not in shown:
                        shown.append(state)
                        yield f"{count} changed names, {words} of the first file, {others} of the others", state


class Recorder:
    """Records the calls by which SQLite changes files in a folder; a context in which it is the default VFS.

    ``fail`` is asked for each call, before it is made, and returns the result of a call that is to fail, or 0.
    """

    def __init__(self, folder: Path) -> None:
        self.calls: list[Call] = []
        self.fail: Callable[[Call], int] = lambda call: 0
        self._folder = folder.resolve()
        self._paths: dict[int, str] = {}
        self._library = _library()
        self._library.sqlite3_vfs_find.restype = _pointer
        self._original_address = self._library.sqlite3_vfs_find(None)
        self._original = ctypes.cast(self._original_address, ctypes.POINTER(_Vfs)).contents
        self._vfs = _Vfs.from_buffer_copy(self._original)
        self._methods: dict[int, _Methods] = {}
        self._kept: list[Any] = [_OPEN(self._open), _DELETE(self._delete)]
        self._vfs.name = b"recorded"
        self._vfs.next = None
        self._vfs.open, self._vfs.delete = (ctypes.cast(item, _pointer).value for item in self._kept)

    def __enter__(self) -> Recorder:
        assert self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == 0
        return self

    def __exit__(self, *error: object) -> None:
        """Make the system's VFS the default again; all connections must be closed."""
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
        self._library.sqlite3_vfs_register(_pointer(self._original_address), 1)

    def mark(self, words: str) -> None:
        """Put a mark among the calls."""
        self.calls.append(Call("mark", words))

    def _take(self, call: Call, original: Callable[[], int]) -> int:
        result = self.fail(call)
        if result:
            return result
        result = original()
        if not result:
            self.calls.append(call)
        return result

    def _open(self, vfs: int, path: int | None, file: int, flags: int, out: Any) -> int:
        name = self._name(path)  # a pointer, since SQLite keeps parameters before and after the text
        new = name != "" and not (self._folder / name).exists()
        result = _OPEN(self._original.open or 0)(self._original_address, path, file, flags, out)
        if result == 0 and name:
            if new:
                self.calls.append(Call("open", name))
            self._paths[file] = name
            held = ctypes.cast(file, ctypes.POINTER(_File)).contents
            held.methods = ctypes.pointer(self._ours(ctypes.addressof(held.methods.contents)))
        return int(result)

    def _name(self, path: int | None) -> str:
        """Return the name of a file of the folder; empty for others, and for the memory that processes share."""
        place = Path(os.fsdecode(ctypes.string_at(path))) if path else None
        return place.name if place is not None and place.parent == self._folder and place.suffix != ".db-shm" else ""

    def _ours(self, address: int) -> _Methods:
        if address not in self._methods:
            methods = ctypes.cast(address, ctypes.POINTER(_Methods)).contents
            ours = _Methods.from_buffer_copy(methods)
            write, truncate, sync = _WRITE(methods.write), _TRUNCATE(methods.truncate), _SYNC(methods.sync)

            def on_write(file: int, content: int, size: int, offset: int) -> int:
                call = Call("write", self._paths[file], offset, ctypes.string_at(content, size))
                return self._take(call, lambda: write(file, content, size, offset))

            def on_truncate(file: int, size: int) -> int:
                return self._take(Call("truncate", self._paths[file], size), lambda: truncate(file, size))

            def on_sync(file: int, flags: int) -> int:
                return self._take(Call("sync", self._paths[file]), lambda: sync(file, flags))

            replaced = [_WRITE(on_write), _TRUNCATE(on_truncate), _SYNC(on_sync)]
            ours.write, ours.truncate, ours.sync = (ctypes.cast(name, _pointer).value for name in replaced)
            self._kept += replaced
            self._methods[address] = ours
        return self._methods[address]

    def _delete(self, vfs: int, path: int, folder_too: int) -> int:
        name = self._name(path)
        delete = _DELETE(self._original.delete or 0)
        if not name or not (self._folder / name).exists():
            return int(delete(self._original_address, path, folder_too))
        call = Call("delete", name, folder_too)
        return self._take(call, lambda: int(delete(self._original_address, path, folder_too)))
