"""Files of the user: writing a file completely or not at all, and reading files.

All files that profilerkit writes are written here. The rules:

- The content is written to a file in the same folder, which replaces the target once all of it is on the disk. An
  existing file keeps its mode and, as far as the system lets us, its owner. A symbolic link stays, and its target is
  written. Of several hard links the named one gets the new content; the others, which may be a backup, keep the old
  content.
- Devices, pipes and the standard streams (``/dev/stdout``) are written to directly. A block device is refused: it holds
  a disk.
- A read-only file is refused, also for the superuser.
- A file that may be written but not replaced (its folder is read-only, it is a mount point) is overwritten in place:
  the only case in which a crash can leave a part of the content.
"""

# Functions of the operating system are called through os, because tests replay these calls one by one.
# ruff: noqa: PTH105, PTH108, PTH116, PTH118, PTH120

from __future__ import annotations

import errno
import os
import secrets
import select
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InputError

__all__ = [
    "obstacle",
    "read_stamp",
    "read_toml",
    "require_whole",
    "stamp_file",
    "write_bytes",
    "write_elsewhere",
    "write_text",
]


#: The error numbers for a file that may be written but not replaced.
_NOT_REPLACED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG}
_FLAGS = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


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
        descriptor = _open_special(name)
        if descriptor is None:
            _write_file(os.path.realpath(name), content)
        else:
            with _close_at_end(descriptor):
                _write_all(descriptor, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), name) from error


@contextmanager
def write_elsewhere(path: str | PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file, for code that needs a name; its content is then written to ``path``."""
    with tempfile.TemporaryDirectory(prefix="profilerkit_") as folder:
        scratch = Path(folder, "written" + "".join(Path(path).suffixes))
        yield str(scratch)
        write_bytes(path, scratch.read_bytes())


def obstacle(path: str | PathLike[str]) -> str | None:
    """Return why a file cannot be written, and what to do; None if it seems that it can be written.

    This is a check before long work; `write_bytes` reports later changes.
    """
    named = Path(path)
    try:
        mode = named.stat().st_mode
    except FileNotFoundError:
        return _find_obstacle_of_new(named)
    except OSError as error:
        return f"{str(named)!r} cannot be written: {error.strerror}"
    if stat.S_ISDIR(mode):
        return f"{str(named)!r} is a folder; name a file in it"
    if stat.S_ISBLK(mode):
        return f"{str(named)!r} is a block device, which holds a disk; name a file"
    if _is_read_only(named, mode):
        return f"the file {str(named)!r} is read-only; make it writable, or name another one"
    return None


def _find_obstacle_of_new(named: Path) -> str | None:
    """Return why a file that does not exist yet cannot be made."""
    folder = Path(os.path.realpath(named)).parent
    if not folder.is_dir():
        shown = folder if named.is_symlink() else named.parent
        return f"there is no folder {str(shown)!r} to write {named.name!r} to"
    if not os.access(folder, os.W_OK):
        return f"the folder {str(named.parent)!r} is read-only; write {named.name!r} to another folder"
    return None


def _is_read_only(path: str | Path, mode: int) -> bool:
    """Return whether a file is read-only, also for the superuser, for whom the kernel would write it."""
    return stat.S_ISREG(mode) and not (mode & 0o222 and os.access(path, os.W_OK))


def _open_special(name: str) -> int | None:
    """Return a descriptor of a device, a pipe or a standard stream, which is written to directly; None for a file."""
    try:
        before = os.stat(name)
    except FileNotFoundError:
        return None
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError, ValueError, AttributeError):  # it is closed, or there is none
            # A file that a shell has opened as /dev/stdout must not be replaced: later output would be lost.
            if os.path.samestat(before, os.fstat(number)):
                stream.flush()  # earlier output comes first
                return os.dup(number)
    if stat.S_ISBLK(before.st_mode):
        raise OSError(errno.EPERM, "it is a block device, which holds a disk")
    is_file = stat.S_ISREG(before.st_mode) or stat.S_ISDIR(before.st_mode)
    return None if is_file else os.open(name, _FLAGS)


def _write_file(target: str, content: bytes) -> None:
    before = _read_status(target)
    try:
        _replace(target, before, content)
    except OSError as error:
        if before is None or error.errno not in _NOT_REPLACED:
            raise
        with _close_at_end(os.open(target, _FLAGS)) as descriptor:
            _write_all(descriptor, content)
            os.ftruncate(descriptor, len(content))
            os.fsync(descriptor)


def _read_status(target: str) -> os.stat_result | None:
    """Return the status of a file, None if there is none; raise `OSError` for a folder and a read-only file."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if _is_read_only(target, status.st_mode):
        raise PermissionError(errno.EACCES, "the file is read-only")
    return status


def _replace(target: str, before: os.stat_result | None, content: bytes) -> None:
    """Write a new file in the target's folder and replace the target with it, once it is on the disk."""
    folder = os.path.dirname(target)
    scratch = os.path.join(folder, f".profilerkit-{secrets.token_hex(8)}")
    try:
        flags = _FLAGS | os.O_CREAT | os.O_EXCL
        with _close_at_end(os.open(scratch, flags, 0o666 if before is None else 0o600)) as descriptor:
            _write_all(descriptor, content)
            if before is not None and hasattr(os, "fchmod"):  # not on Windows
                with suppress(OSError):  # the superuser alone can give a file to another owner
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            os.fsync(descriptor)
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    with suppress(OSError), _close_at_end(os.open(folder, os.O_RDONLY)) as descriptor:  # not on Windows
        os.fsync(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:  # a full pipe that its owner has set not to block
            select.select([], [descriptor], [])


@contextmanager
def _close_at_end(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# The stamp of a file, which differs for a later file at its path ------------------------------------------------------


def stamp_file(status: os.stat_result) -> str:
    """Return a text that differs for a later file at the path: device, inode, size and time of modification."""
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


def read_stamp(path: str | Path) -> str:
    """Return the stamp of a file; empty if there is none, and for a folder, whose time changes with its files."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # not to be read, or no name of a file
        return ""
    return "" if stat.S_ISDIR(status.st_mode) else stamp_file(status)


# Files of TOML, which people write ------------------------------------------------------------------------------------


def read_toml(path: str | PathLike[str], name: str, make_error: Callable[[str], Exception]) -> dict[str, Any]:
    """Return the content of a file.

    Args:
        path: The file.
        name: The name of the file in messages: "the plan night.toml".
        make_error: Makes the error that is raised, of its message, for a file that cannot be read or is no TOML.
    """
    import tomllib

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise make_error(f"cannot read {name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise make_error(f"{name} is nested too deep to be read") from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of too many digits
        raise make_error(f"{name} is no TOML: {error}") from error


# Zip archives that hold models ----------------------------------------------------------------------------------------


def require_whole(path: str | PathLike[str]) -> None:
    """Raise `InputError` if a zip archive is truncated or changed, by the checksums that it holds.

    The frameworks check few of them when they read a model: a damaged archive could yield wrong weights, or crash the
    process.
    """
    import zipfile

    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            damaged = archive.testzip()
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(
            f"{name} cannot be read: it is damaged, or no archive of a model ({type(error).__name__}: {error}); save "
            "the model again"
        ) from error
    if damaged is not None:
        raise InputError(f"{name} cannot be read: {damaged!r} in it is damaged; save the model again")
