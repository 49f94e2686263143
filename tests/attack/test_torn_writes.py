"""Saving while the power fails, the disk fills up, or the user interrupts: the old file or the new one, never a mix."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import full_report

from profilerkit import ReportFileError
from profilerkit.process import files
from profilerkit.results.saving import parse, to_json

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="what is synchronised and linked is that of POSIX")

OLD, NEW = b"old content, " * 9, b"the new content. " * 12


class RecordedSystem:
    """Stands in for `os` in the module that writes: it does what it is asked, and notes it.

    ``moments`` has for each call its name, the name of the file that it is for, and what the target holds after it:
    what a reader sees, and a process that is killed leaves. Writes take a few bytes each. ``fail`` says what to raise
    at the call of a number, before (True) or after it was done.
    """

    def __init__(self, target: Path, fail: tuple[int, bool, BaseException] | None = None) -> None:
        self.target, self.fail = target, fail
        self.origins: list[tuple[str, str, bytes | None]] = []
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in {"open", "write", "fsync", "replace", "unlink", "ftruncate", "close"}:
            return real

        def call(first: Any, *others: Any) -> Any:
            number, is_open = len(self.origins), name == "open"
            file = self._names.get(first, "") if isinstance(first, int) else Path(first).name
            self.origins.append((name, file, None))
            self._raise(number, True)
            result = real(first, *((bytes(others[0])[:7],) if name == "write" else others))
            if is_open:
                self._names[result] = file
            content = self.target.read_bytes() if self.target.exists() else None
            self.origins[number] = (name, file, content)
            self._raise(number, False)
            return result

        return call

    def _raise(self, number: int, before: bool) -> None:
        if self.fail is not None and self.fail[:2] == (number, before):
            raise self.fail[2]


def record_writes(
    folder: Path,
    before: bytes | None,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes = NEW,
    fail: tuple[int, bool, BaseException] | None = None,
) -> RecordedSystem:
    """Write a file; return all that was asked of the operating system meanwhile."""
    target = folder / "report.json"
    if before is not None:
        target.write_bytes(before)
    system = RecordedSystem(target, fail)
    with monkeypatch.context() as patched:
        patched.setattr(files, "os", system)
        files.write_bytes(target, content)
    return system


@pytest.mark.parametrize("before", [OLD, None], ids=["a file", "no file"])
def test_a_crash_at_any_moment_leaves_the_old_file_or_the_new_one(
    before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file gets its name once all of its bytes are on the disk, and the name is there before it is told."""
    moments = record_writes(tmp_path, before, monkeypatch).origins
    calls = list(dict.fromkeys((name, file) for name, file, _ in moments))
    scratch = calls[0][1]
    assert scratch not in ("report.json", "")
    assert calls == [
        *((name, scratch) for name in ("open", "write", "fsync", "close", "replace")),
        *((name, tmp_path.name) for name in ("open", "fsync", "close")),
    ]
    taken = [name for name, *_ in moments].index("replace")
    assert {content for *_, content in moments[:taken]} == {before}
    assert {content for *_, content in moments[taken:]} == {NEW}


FAULTS = [
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    KeyboardInterrupt(),
    SystemExit(3),  # what a handler of SIGTERM raises
    MemoryError(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("earlier", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("before", [OLD, None], ids=["a file", "no file"])
def test_a_fault_at_any_call_leaves_the_old_file_and_no_other(
    fault: BaseException, earlier: bool, before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = len(record_writes(tmp_path, before, monkeypatch).origins)
    assert total >= 6
    raised = 0
    for number in range(total):
        (tmp_path / "report.json").unlink(missing_ok=True)
        try:
            record_writes(tmp_path, before, monkeypatch, fail=(number, earlier, fault))
        except BaseException as error:
            raised += 1
            assert isinstance(error, type(fault))
            assert not isinstance(error, OSError) or error.filename == str(tmp_path / "report.json")
        target = tmp_path / "report.json"
        assert (target.read_bytes() if target.exists() else None) in (before, NEW)
        assert {path.name for path in tmp_path.iterdir()} <= {"report.json"}, f"call {number} leaves a file"
    assert raised >= total - 3, "only what comes after the file is in its place is no error"


def test_a_report_torn_in_place_is_said_to_be_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can be written and not replaced may be torn by a crash: its checksum says so."""
    old, new = (to_json(full_report(name)).encode() for name in ("First", "Second, of a longer name"))
    monkeypatch.setattr(files, "_replace", refuse_to_replace)
    contents = [content for *_, content in record_writes(tmp_path, old, monkeypatch, content=new).origins]
    assert (contents[0], contents[-1]) == (old, new)
    torn = [content for content in contents[::50] if content not in (old, new)]
    damaged = 0
    for content in torn:
        try:
            report = parse(content or b"", "it")
        except ReportFileError:
            damaged += 1
        else:  # the rest of the old file may begin where a part of it comes again, which counts the second time
            assert to_json(report).encode() == new
    assert damaged > 5


def refuse_to_replace(*arguments: object) -> None:
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
