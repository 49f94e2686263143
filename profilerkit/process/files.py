"""Writing a file for the user: either all of it or nothing, with the file's other properties unchanged.

All files that profilerkit writes are written here. The rules:

- A new file gets the usual permissions of new files; an existing one keeps its mode, owner, attributes and ACL.
- The content is written to a file in the same folder, which replaces the target once all of it is on the disk. A
  symbolic link stays, and its target is written, also if the target does not exist yet. Of several hard links the named
  one gets the new content; the others, which may be a backup, keep the old content.
- Devices, pipes and open files (``/dev/stdout``, ``/proc/self/fd/3``) are written to directly. A block device is
  refused: it holds a disk.
- A read-only file is refused, also for the superuser.
- A file that may be written but not replaced (its folder is read-only, it belongs to another user, it is a mount point)
  is overwritten in place: the only case in which a crash can leave a part of the content.
"""

# Functions of the operating system are called through os, since tests replay these calls one by one.
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

#: The error numbers for a file that may be written but not replaced.
_NOT_REPLACED = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG),
}
#: The error numbers of a file system that has no files without a name.
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR, errno.ENOENT}
_CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_DESCRIPTORS = re.compile(r"/proc/(?P<process>\d+)(/task/\d+)?/fd|/dev/fd")
_MOST_LINKS = 40


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file as UTF-8, with a newline at its end; characters that UTF-8 cannot encode become question marks.

    Raises `OSError`, which names the file, if it cannot be written.
    """
    write_bytes(path, (text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace"))


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write a file: until all of it is written, and if writing fails, the old content stays.

    Raises `OSError`, which names the file, if it cannot be written.
    """
    name = os.fspath(path)
    try:
        descriptor = _special_descriptor(name)
        if descriptor is None:
            _write_file(os.path.realpath(name), content)
        else:
            _write_and_close(descriptor, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), name) from error


@contextmanager
def written_elsewhere(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file, for code that needs a name; its content is then written to ``path``."""
    with tempfile.TemporaryDirectory(prefix="profilerkit_") as folder:
        scratch = Path(folder, "written" + "".join(Path(path).suffixes))
        yield str(scratch)
        write_bytes(path, scratch.read_bytes())


def obstacle(path: str | PathLike[str]) -> str | None:
    """Return why a file cannot be written, and what to do; None if it seems that it can be.

    This is a check before long work; `write_bytes` reports what changes after it.
    """
    named = Path(path)
    target = Path(os.path.realpath(named))
    try:
        before = named.stat()
    except FileNotFoundError:
        before = None
    except OSError as error:
        return f"{str(named)!r} cannot be written: {error.strerror}"
    if before is None and not target.parent.is_dir():
        folder = named.parent if not named.is_symlink() else target.parent
        return f"there is no folder {str(folder)!r} to write {named.name!r} to"
    if before is not None and stat.S_ISDIR(before.st_mode):
        return f"{str(named)!r} is a folder; name a file in it"
    if before is not None and stat.S_ISBLK(before.st_mode):
        return f"{str(named)!r} is a block device, which holds a disk; name a file"
    if before is not None and _is_read_only(named, before):
        return f"the file {str(named)!r} is read-only; make it writable, or name another one"
    if before is None and not os.access(target.parent, os.W_OK):
        return f"the folder {str(named.parent)!r} is read-only; write {named.name!r} to another folder"
    return None


# Devices, pipes and open files ----------------------------------------------------------------------------------------


def _special_descriptor(name: str) -> int | None:
    """Return a descriptor of a device, a pipe or an open file, which is written to directly; None for other files."""
    link = name
    for _ in range(_MOST_LINKS):
        if not os.path.islink(link):
            break
        match = _DESCRIPTORS.fullmatch(os.path.realpath(os.path.dirname(link)))
        if match is not None:
            return _descriptor(link, match["process"])
        link = os.path.join(os.path.dirname(link), os.readlink(link))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISBLK(mode):
        raise OSError(errno.EPERM, "it is a block device, which holds a disk")
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else os.open(name, os.O_WRONLY | _CLOSED_ON_EXEC)


def _descriptor(link: str, process: str | None) -> int:
    """Return a descriptor of an open file of a process, to append to what is written already."""
    if process not in (None, str(os.getpid())):
        return os.open(link, os.O_WRONLY | os.O_APPEND | _CLOSED_ON_EXEC)
    number = int(os.path.basename(link))
    for stream in (sys.stdout, sys.stderr):  # earlier output comes first
        with suppress(AttributeError, OSError, ValueError):
            if stream.fileno() == number:
                stream.flush()
    return os.dup(number)


def _write_and_close(descriptor: int, content: bytes) -> None:
    try:
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:  # a full pipe that its owner has set not to block
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
    """Return whether a file is read-only, also for the superuser, for whom the kernel would write it."""
    return stat.S_ISREG(before.st_mode) and not (before.st_mode & 0o222 and os.access(path, os.W_OK))


def _replace(target: str, before: os.stat_result | None, content: bytes) -> None:
    """Write a temporary file in the target's folder and replace the target with it, once it is on the disk."""
    folder = os.path.dirname(target) or "."
    scratch = os.path.join(folder, f".profilerkit-{secrets.token_hex(8)}")
    try:
        _write_scratch(scratch, folder, target, before, content)
        os.replace(scratch, target)
    except BaseException as error:
        if not isinstance(error, FileExistsError):  # another process created that file
            with suppress(OSError):
                os.unlink(scratch)
        raise
    _sync_folder(folder)


def _write_scratch(scratch: str, folder: str, target: str, before: os.stat_result | None, content: bytes) -> None:
    mode = 0o666 if before is None else 0o600  # the kernel removes the bits of the umask
    descriptor, has_name = _scratch(scratch, folder, mode)
    try:
        _write_all(descriptor, content)
        if before is not None:
            _copy_properties(descriptor, target, before)
        os.fsync(descriptor)
        if not has_name:
            _give_name(descriptor, scratch)
    finally:
        os.close(descriptor)


def _scratch(scratch: str, folder: str, mode: int) -> tuple[int, bool]:
    """Open a new file; return its descriptor and whether it has a name. Without one, it is gone if the process dies."""
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
    # With src_dir_fd, os.link has the kernel follow the link of the descriptor; without it, it does not.
    folder = os.open("/proc/self/fd", os.O_RDONLY | _CLOSED_ON_EXEC)
    try:
        os.link(str(descriptor), scratch, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _copy_properties(descriptor: int, target: str, before: os.stat_result) -> None:
    """Copy the replaced file's owner, extended attributes (the ACL is among them) and mode to the new file."""
    if not hasattr(os, "fchown"):  # Windows
        return
    created = os.fstat(descriptor)
    if (created.st_uid, created.st_gid) != (before.st_uid, before.st_gid):
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
    except OSError:  # a file system without extended attributes
        return []


def _sync_folder(folder: str) -> None:
    """Write a folder's entries to the disk; not every system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED_ON_EXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _overwrite(target: str, content: bytes) -> None:
    """Overwrite a file in place; if the disk has too little space, the file is unchanged."""
    descriptor = os.open(target, os.O_WRONLY | _CLOSED_ON_EXEC)
    try:
        _reserve(descriptor, len(content))
        _write_all(descriptor, content)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    old_size = os.fstat(descriptor).st_size
    if size <= old_size or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, old_size)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
