"""A disk that loses power: every state that a crash can leave a folder in, from the calls that a program made.

The rules are those that file systems give: a file's bytes are safe once it was synchronised, a name once its folder
was. Until then any of the writes may be lost, or be there in part, and any number of the changed names, in their order.
A name moved over another is one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Disk", "Recorder"]

#: Files are torn at these places of a write that was not synchronised: parts of the whole.
_TORN = (0.0, 0.3, 0.5, 1.0)
_BLOCK = 16


@dataclass
class _File:
    """What is safe, and what a reader that runs now sees."""

    safe: bytes
    seen: bytes

    def after_crash(self) -> Iterator[bytes]:
        """Yield what the disk may hold: what is safe, parts of what is not, blocks of either, and holes."""
        yield self.safe
        if self.seen == self.safe:
            return
        for part in _TORN:
            size = int(len(self.seen) * part)
            yield self.seen[:size]
            yield self.seen[:size] + self.safe[size:]
            yield self.seen[:size] + bytes(len(self.seen) - size)
        blocks = range(0, max(len(self.seen), len(self.safe)), _BLOCK)
        yield b"".join((self.seen, self.safe)[place // _BLOCK % 2][place : place + _BLOCK] for place in blocks)


@dataclass
class Disk:
    """Files by number, the names of one folder that are safe, and the changes of names that are not."""

    files: dict[int, _File] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    pending: list[tuple[str, str, int]] = field(default_factory=list)

    def states(self) -> Iterator[dict[str, bytes]]:
        """Yield the contents by name of every folder that a crash at this moment can leave."""
        for count in range(len(self.pending) + 1):
            yield from self._contents(list(self.list_names(count).items()))

    def list_names(self, count: int) -> dict[str, int]:
        """Return which name is which file after so many of the changes."""
        names = dict(self.names)
        for change, name, number in self.pending[:count]:
            if change == "removed":
                names.pop(name, None)
            elif change == "moved":
                names = {one_name: held for one_name, held in names.items() if held != number} | {name: number}
            else:
                names[name] = number
        return names

    def _contents(self, names: list[tuple[str, int]]) -> Iterator[dict[str, bytes]]:
        if not names:
            yield {}
            return
        (name, number), *rest = names
        for content in dict.fromkeys(self.files[number].after_crash()):
            for others in self._contents(rest):
                yield {name: content, **others}

    def now(self) -> dict[str, bytes]:
        """Return what a reader sees, and a process that was killed leaves."""
        names = self.list_names(len(self.pending))
        return {name: self.files[number].seen for name, number in names.items()}


class Recorder:
    """Stands in for `os` in the module that writes: does what it is asked, and keeps a `Disk` for each moment.

    ``ignored`` are calls that are taken for done without being done, as a program would that forgot them. ``fail``
    says what to raise at the call of a number, before or after it was done. ``short`` has writes take a few bytes each.
    """

    def __init__(
        self,
        held: dict[str, bytes],
        ignored: tuple[str, ...] = (),
        fail: tuple[int, bool, BaseException] | None = None,
        short: bool = False,
    ) -> None:
        self.disk = Disk({n: _File(content, content) for n, content in enumerate(held.values())})
        self.disk.names = {name: number for number, name in enumerate(held)}
        self.moments: list[tuple[str, Disk]] = [("begin", self._copy())]
        self.calls = 0
        self._ignored, self._fail, self._short = ignored, fail, short
        self._opened: dict[int, int | str] = {}
        self._at: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        watched = {"open", "write", "fsync", "replace", "unlink", "ftruncate", "close"}
        if name not in watched:
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            number, self.calls = self.calls, self.calls + 1
            if self._fail is not None and self._fail[:2] == (number, True):
                raise self._fail[2]
            if name == "write" and self._short:
                arguments = (arguments[0], bytes(arguments[1])[:7])
            if name in self._ignored:
                returned = None
            else:
                returned = real(*arguments, **options)
                getattr(self, f"_{name}", lambda *_: None)(returned, *arguments)
            self.moments.append((name, self._copy()))
            if self._fail is not None and self._fail[:2] == (number, False):
                raise self._fail[2]
            return returned

        return call

    def _copy(self) -> Disk:
        files = {number: _File(value.safe, value.seen) for number, value in self.disk.files.items()}
        return Disk(files, dict(self.disk.names), list(self.disk.pending))

    def _name(self, path: Any) -> str:
        return Path(os.fspath(path)).name

    def _number(self, name: str) -> int:
        found = self.disk.names.get(name, -1)
        for _, changed, number in self.disk.pending:
            found = number if changed == name else found
        return found

    def _open(self, descriptor: int, path: Any, flags: int, *mode: int) -> None:
        if Path(path).is_dir():
            self._opened[descriptor] = "folder"
            return
        if flags & os.O_CREAT:
            number = max(self.disk.files, default=-1) + 1
            self.disk.files[number] = _File(b"", b"")
            self.disk.pending.append(("made", self._name(path), number))
        else:
            number = self._number(self._name(path))
        self._opened[descriptor], self._at[descriptor] = number, 0

    def _write(self, written: int, descriptor: int, content: Any) -> None:
        number = self._opened[descriptor]
        assert isinstance(number, int)
        file, start = self.disk.files[number], self._at[descriptor]
        file.seen = file.seen[:start] + bytes(content)[:written] + file.seen[start + written :]
        self._at[descriptor] = start + written

    def _ftruncate(self, returned: None, descriptor: int, size: int) -> None:
        number = self._opened[descriptor]
        assert isinstance(number, int)
        file = self.disk.files[number]
        file.seen = file.seen[:size].ljust(size, b"\0")

    def _fsync(self, returned: None, descriptor: int) -> None:
        number = self._opened[descriptor]
        if number == "folder":
            self.disk.names, self.disk.pending = self.disk.list_names(len(self.disk.pending)), []
        else:
            assert isinstance(number, int)
            self.disk.files[number].safe = self.disk.files[number].seen

    def _replace(self, returned: None, source: Any, target: Any) -> None:
        self.disk.pending.append(("moved", self._name(target), self._number(self._name(source))))

    def _unlink(self, returned: None, path: Any) -> None:
        self.disk.pending.append(("removed", self._name(path), -1))

    def _close(self, returned: None, descriptor: int) -> None:
        self._opened.pop(descriptor, None)
