"""Saving while the power fails, the disk fills up, or the user interrupts: the old file or the new one, never a mix."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest
from crashing_disk import Disk, Recorder
from hostile import full_report

from profilerkit import ReportFileError
from profilerkit.process import files
from profilerkit.results.saving import parse, to_json

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="what is synchronised and linked is that of POSIX")

OLD, NEW = b"old content, " * 9, b"the new content. " * 12


def record_writes(
    folder: Path, before: bytes | None, monkeypatch: pytest.MonkeyPatch, content: bytes = NEW, **options: object
) -> Recorder:
    """Write a file; return all that was asked of the operating system meanwhile."""
    target = folder / "report.json"
    held = {}
    if before is not None:
        target.write_bytes(before)
        held["report.json"] = before
    recorder = Recorder(held, **options)  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr(files, "os", recorder)
        files.write_bytes(target, content)
    return recorder


def contents(disk: Disk) -> set[bytes | None]:
    return {state.get("report.json") for state in disk.states()}


@pytest.mark.parametrize("short", [False, True], ids=["whole writes", "short writes"])
@pytest.mark.parametrize("before", [OLD, None], ids=["a file", "no file"])
def test_a_crash_at_any_moment_leaves_the_old_file_or_the_new_one(
    before: bytes | None, short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = record_writes(tmp_path, before, monkeypatch, short=short)
    assert recorder.moments[-1][1].now() == {"report.json": NEW}
    assert (tmp_path / "report.json").read_bytes() == NEW
    seen: set[bytes | None] = set()
    for _, disk in recorder.moments:
        seen |= contents(disk)
        assert contents(disk) <= {before, NEW}
        assert disk.now().get("report.json") in (before, NEW)
    assert seen == {before, NEW}
    assert contents(recorder.moments[-1][1]) == {NEW}, "who was told that it is saved has it after a crash"


@pytest.mark.parametrize("forgotten", ["fsync"])
def test_what_is_not_synchronised_is_found_torn(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk that loses power would notice a step that is left out."""
    recorder = record_writes(tmp_path, OLD, monkeypatch, ignored=(forgotten,))
    assert not contents(recorder.moments[-1][1]) <= {OLD, NEW}


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
    total = record_writes(tmp_path, before, monkeypatch).calls
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
    first, second = full_report("First"), full_report("Second", 5_000)
    old, new = to_json(first).encode(), to_json(second).encode()
    monkeypatch.setattr(files, "_replace", not_replaced)
    recorder = record_writes(tmp_path, old, monkeypatch, content=new)
    assert (tmp_path / "report.json").read_bytes() == new
    said = {str(first), str(second)}
    refused = 0
    for _, disk in recorder.moments:
        for content in contents(disk):
            assert content is not None
            try:
                assert str(parse(content, "it")) in said
                assert json.loads(content)["name"] in ("First", "Second")
            except ReportFileError:
                refused += 1
    assert refused >= 5
    assert contents(recorder.moments[-1][1]) == {new}


def not_replaced(*arguments: object) -> None:
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
