"""Writing a file for the user: the whole of it or nothing, and everything else about the file as it was.

Nothing else in profilerkit writes files. The rules:

- A new file gets the permissions that any new file gets; one that was there keeps its mode, owner, attributes and ACL.
- The content is written next to the file and moved over it when all of it is on the disk. A symbolic link stays: the
  file that it leads to is written, also where there is none yet. Of several hard links the named one gets the new
  content; the others, which may be somebody's backup, keep the old one.
- Devices, pipes and what is already open (``/dev/stdout``, ``/proc/self/fd/3``) are written to as they are. A block
  device is refused: it holds a disk.
- A read-only file is refused, to the superuser too.
- Where a file may be written but not replaced (its folder is read-only, it belongs to somebody else, it is a mount
  point) it is written in place: the only case in which a crash can leave a part of it.
"""

# The calls of the operating system are named as they are, for tests replay them one by one.
# ruff: noqa: PTH105, PTH108, PTH112, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120

from __future__ import annotations

import errno
import os
import re
import secrets
import select
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

__all__ = ["obstacle", "write_bytes", "write_text", "written_elsewhere"]

#: What the kernel says where a file may be written but not replaced.
_NOT_REPLACED = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG),
}
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR, errno.ENOENT}
_CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_DESCRIPTORS = re.compile(r"/proc/(?P<process>\d+)(/task/\d+)?/fd|/dev/fd")
_MOST_LINKS = 40


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file as UTF-8, with a line end at its end; what UTF-8 cannot hold is a question mark.

    Raises `OSError`, naming the file, where it cannot be written.
    """
    write_bytes(path, (text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace"))


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write a file: who reads it meanwhile finds the old one, and a write that fails half-way leaves that.

    Raises `OSError`, naming the file, where it cannot be written.
    """
    name = os.fspath(path)
    try:
        opened = _opened(name)
        if opened is None:
            _write_file(os.path.realpath(name), content)
        else:
            _into(opened, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), name) from error


@contextmanager
def written_elsewhere(path: str | PathLike[str]) -> Iterator[str]:
    """Yield a name to write to, for code that takes nothing else; what is there at the end goes to ``path``."""
    with tempfile.TemporaryDirectory(prefix="profilerkit_") as folder:
        scratch = Path(folder, "written" + "".join(Path(path).suffixes))
        yield str(scratch)
        write_bytes(path, scratch.read_bytes())


def obstacle(path: str | PathLike[str]) -> str | None:
    """Say what stands in the way of writing a file, and what to do; None where nothing seems to.

    This is for asking before much work is done: what happens in between `write_bytes` finds.
    """
    place = Path(path)
    target = Path(os.path.realpath(place))
    try:
        before = place.stat()
    except FileNotFoundError:
        before = None
    except OSError as error:
        return f"{str(place)!r} cannot be written: {error.strerror}"
    if before is None and not target.parent.is_dir():
        folder = place.parent if not place.is_symlink() else target.parent
        return f"there is no folder {str(folder)!r} to write {place.name!r} to"
    if before is not None and stat.S_ISDIR(before.st_mode):
        return f"{str(place)!r} is a folder; name a file in it"
    if before is not None and stat.S_ISBLK(before.st_mode):
        return f"{str(place)!r} is a block device, which holds a disk; name a file"
    if before is not None and _is_read_only(place, before):
        return f"the file {str(place)!r} is read-only; make it writable, or name another one"
    if before is None and not os.access(target.parent, os.W_OK):
        return f"the folder {str(place.parent)!r} is read-only; {place.name!r} has to go elsewhere"
    return None


# What is written to as it is ------------------------------------------------------------------------------------------


def _opened(name: str) -> int | None:
    """Return a descriptor of what has to be written to as it is: a device, a pipe, a file that is open; else None."""
    link = name
    for _ in range(_MOST_LINKS):
        if not os.path.islink(link):
            break
        found = _DESCRIPTORS.fullmatch(os.path.realpath(os.path.dirname(link)))
        if found is not None:
            return _descriptor(link, found["process"])
        link = os.path.join(os.path.dirname(link), os.readlink(link))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISBLK(mode):
        raise OSError(errno.EPERM, "it is a block device, which holds a disk")
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else os.open(name, os.O_WRONLY | _CLOSED_ON_EXEC)


def _descriptor(link: str, process: str | None) -> int:
    """Return what a process has open, to be written to behind what is written there already."""
    if process not in (None, str(os.getpid())):
        return os.open(link, os.O_WRONLY | os.O_APPEND | _CLOSED_ON_EXEC)
    number = int(os.path.basename(link))
    for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
        with suppress(AttributeError, OSError, ValueError):
            if stream.fileno() == number:
                stream.flush()
    return os.dup(number)


def _into(descriptor: int, content: bytes) -> None:
    try:
        _pour(descriptor, content)
    finally:
        os.close(descriptor)


def _pour(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # a pipe that is full, which its owner wants not to wait for; we do
            select.select([], [descriptor], [])


# Files ----------------------------------------------------------------------------------------------------------------


def _write_file(target: str, content: bytes) -> None:
    try:
        before = os.stat(target)
    except FileNotFoundError:
        before = None
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if before is not None and _is_read_only(target, before):
        raise PermissionError(errno.EACCES, "the file is read-only")
    try:
        _replace(target, before, content)
    except OSError as error:
        if before is None or error.errno not in _NOT_REPLACED:
            raise
        _overwrite(target, content)


def _is_read_only(path: str | Path, before: os.stat_result) -> bool:
    """Say whether a file is not to be written: the kernel would refuse the superuser nothing."""
    return stat.S_ISREG(before.st_mode) and not (before.st_mode & 0o222 and os.access(path, os.W_OK))


def _replace(target: str, before: os.stat_result | None, content: bytes) -> None:
    """Write a file beside the target and move it over that, each when the one before is on the disk."""
    folder = os.path.dirname(target) or "."
    scratch = os.path.join(folder, f".profilerkit-{secrets.token_hex(8)}")
    try:
        _write_scratch(scratch, folder, target, before, content)
        os.replace(scratch, target)
    except BaseException as error:
        if not isinstance(error, FileExistsError):  # then it is not ours
            with suppress(OSError):
                os.unlink(scratch)
        raise
    _settle(folder)


def _write_scratch(scratch: str, folder: str, target: str, before: os.stat_result | None, content: bytes) -> None:
    mode = 0o666 if before is None else 0o600  # of which the kernel takes what the umask says
    descriptor, has_name = _scratch(scratch, folder, mode)
    try:
        _pour(descriptor, content)
        if before is not None:
            _dress(descriptor, target, before)
        os.fsync(descriptor)
        if not has_name:
            _give_name(descriptor, scratch)
    finally:
        os.close(descriptor)


def _scratch(scratch: str, folder: str, mode: int) -> tuple[int, bool]:
    """Open a new file and say whether it has its name already: one without is gone when the process is killed."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is not None and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(folder, unnamed | os.O_WRONLY | _CLOSED_ON_EXEC, mode), False
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | _CLOSED_ON_EXEC
    return os.open(scratch, flags, mode), True


def _give_name(descriptor: int, scratch: str) -> None:
    # Told a folder, os.link asks the kernel to follow the link that stands for the descriptor; without it does not.
    held = os.open("/proc/self/fd", os.O_RDONLY | _CLOSED_ON_EXEC)
    try:
        os.link(str(descriptor), scratch, src_dir_fd=held, follow_symlinks=True)
    finally:
        os.close(held)


def _dress(descriptor: int, target: str, before: os.stat_result) -> None:
    """Give a new file what the one has that it replaces: owner, extended attributes with the ACL among them, mode."""
    if not hasattr(os, "fchown"):  # Windows
        return
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    for name in _attributes(target):
        try:
            os.setxattr(descriptor, name, os.getxattr(target, name))
        except OSError:
            if name.startswith(("user.", "system.posix_acl")):
                raise
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _attributes(target: str) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(target)
    except OSError:  # a file system without
        return []


def _settle(folder: str) -> None:
    """Have the disk hold what a folder's names stand for; not every system can."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED_ON_EXEC)
        try:
            os.fsync(held)
        finally:
            os.close(held)


def _overwrite(target: str, content: bytes) -> None:
    """Write a file in place; where there is not room enough for it, it is left as it is."""
    descriptor = os.open(target, os.O_WRONLY | _CLOSED_ON_EXEC)
    try:
        _reserve(descriptor, len(content))
        _pour(descriptor, content)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    held = os.fstat(descriptor).st_size
    if size <= held or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, held)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
