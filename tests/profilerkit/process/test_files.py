"""Files that are written for the user: what they lead to, what they are, and what else about them must stay."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from time_limits import join

from profilerkit.process.files import obstacle, write_bytes, write_elsewhere, write_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and devices are those of POSIX")

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
def test_a_new_file_gets_the_usual_mode(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "new", "text")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert read_mode(tmp_path / "new") == 0o666 & ~mask
    assert (tmp_path / "new").read_bytes() == b"text\n"
    assert names(tmp_path) == ["new"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666, 0o755, 0o200, 0o4755, 0o620])
def test_the_mode_of_a_file_stays(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("old")
    target.chmod(mode)
    write_bytes(target, b"new")
    assert read_mode(target) == mode
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["report"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="the superuser alone gives files away")
def test_the_owner_of_a_file_stays_where_the_superuser_writes_it(tmp_path: Path) -> None:
    """As in a container that writes into a folder of the user's."""
    target = tmp_path / "report"
    target.write_text("old")
    target.chmod(0o640)
    os.chown(target, 1234, 5678)
    write_bytes(target, b"new")
    status = target.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 5678, 0o640)
    assert target.read_bytes() == b"new"


def test_the_umask_of_the_process_is_never_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it by setting it gives a file that another thread makes at that moment the mode 0666."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))
    write_text(tmp_path / "new", "text")
    write_text(tmp_path / "new", "again")


@pytest.mark.parametrize("exists", [True, False], ids=["a file", "dangling"])
@pytest.mark.parametrize("relative", [True, False], ids=["relative", "absolute"])
def test_symbolic_links_stay_and_their_targets_are_written(exists: bool, relative: bool, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    target = tmp_path / "elsewhere" / "real"
    if exists:
        target.write_text("old")
        target.chmod(0o600)
    second = tmp_path / "here" / "second"
    second.symlink_to(Path("..", "elsewhere", "real") if relative else target)
    link = tmp_path / "here" / "link"
    link.symlink_to("second")
    assert obstacle(link) is None
    write_text(link, "new")
    assert link.is_symlink()
    assert second.is_symlink()
    assert target.read_text() == "new\n"
    assert not target.is_symlink()
    assert not exists or read_mode(target) == 0o600
    assert names(tmp_path / "here") == ["link", "second"]
    assert names(tmp_path / "elsewhere") == ["real"]


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert "Too many levels of symbolic links" in str(obstacle(loop))
    with pytest.raises(OSError, match="Too many levels of symbolic links") as caught:
        write_text(loop, "new")
    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(loop))
    assert loop.is_symlink()


def test_a_named_pipe_gets_the_text_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    assert obstacle(link) is None
    content = b"x" * 300_000  # more than a pipe holds
    for name in (pipe, link):
        got: list[bytes] = []
        reader = threading.Thread(target=lambda got=got: got.append(pipe.read_bytes()))
        reader.start()
        write_bytes(name, content)
        join(reader)
        assert got == [content]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["link", "pipe"]


def made_device(tmp_path: Path, kind: int, major: int, minor: int) -> Path:
    device = tmp_path / "device"
    try:
        os.mknod(device, kind | 0o666, os.makedev(major, minor))
        if kind == stat.S_IFCHR:
            device.write_bytes(b"")  # a file system may be mounted without devices
    except OSError:
        pytest.skip("no device can be made here")
    return device


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = made_device(tmp_path, stat.S_IFCHR, 1, 3)  # as /dev/null
    before = device.stat()
    assert obstacle(device) is None
    write_text(device, "into the void")
    after = device.stat()
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)
    assert names(tmp_path) == ["device"]


def test_a_full_device_is_an_error_that_names_it(tmp_path: Path) -> None:
    device = made_device(tmp_path, stat.S_IFCHR, 1, 7)  # as /dev/full
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(device, "text")
    assert caught.value.filename == str(device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_disk_is_never_written_to(tmp_path: Path) -> None:
    device = made_device(tmp_path, stat.S_IFBLK, 259, 1000)
    assert "is a block device, which holds a disk; name a file" in str(obstacle(device))
    with pytest.raises(PermissionError, match="it is a block device, which holds a disk") as caught:
        write_text(device, "text")
    assert caught.value.filename == str(device)


def test_a_socket_cannot_be_written_to_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="No such device or address") as caught:
            write_text("socket", "text")
    assert caught.value.filename == "socket"
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)


WRITES = (
    "import sys; from profilerkit.process.files import write_text; "
    "print('before'); write_text({!r}, 'text'); print('after')"
)


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"])
@pytest.mark.parametrize("kind", ["pipe", "file", "deleted file"])
def test_standard_output_gets_the_text_at_its_position(name: str, kind: str, tmp_path: Path) -> None:
    """A file that the shell has opened must not be replaced: what is printed later would be lost."""
    if not Path("/dev/fd/1").exists():
        pytest.skip("this system has no names of descriptors")
    (tmp_path / "link").symlink_to("/dev/stdout")
    command = [sys.executable, "-c", WRITES.format(name)]
    if kind == "pipe":
        out = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout
    else:
        with (tmp_path / "out").open("w+b") as target:
            if kind == "deleted file":
                (tmp_path / "out").unlink()
            subprocess.run(command, cwd=tmp_path, stdout=target, check=True, timeout=60)
            target.seek(0)
            out = target.read()
    assert out == b"before\ntext\nafter\n"
    assert names(tmp_path) == ["link", "out"][: 1 + (kind == "file")]


@pytest.mark.parametrize("linked", [False, True], ids=["by its name", "by a link"])
def test_a_read_only_file_is_refused_for_the_superuser_too(linked: bool, tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("old")
    target.chmod(0o444)
    name = tmp_path / "link" if linked else target
    if linked:
        name.symlink_to(target)
    assert obstacle(name) == f"the file {str(name)!r} is read-only; make it writable, or name another one"
    with pytest.raises(PermissionError, match="the file is read-only") as caught:
        write_text(name, "new")
    assert caught.value.filename == str(name)
    assert (target.read_text(), read_mode(target)) == ("old", 0o444)


def test_the_other_hard_links_keep_the_old_content(tmp_path: Path) -> None:
    """They may be what a backup or a cache holds: writing to them would destroy what is not ours."""
    target, other = tmp_path / "report", tmp_path / "backup"
    target.write_text("old")
    os.link(target, other)
    write_text(target, "new")
    assert (target.read_text(), other.read_text()) == ("new\n", "old")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Have a call of the operating system fail in the module that writes: root is refused nothing by itself."""

    def refuse(name: str, number: int) -> None:
        real = getattr(os, name)

        def fail(path: object, *arguments: object, **options: object) -> object:
            creates = name != "open" or (arguments and int(str(arguments[0])) & os.O_CREAT)
            if creates:
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, name, fail)

    return refuse


IN_PLACE = [
    ("open", errno.EACCES),  # a folder that is read-only
    ("open", errno.EROFS),
    ("replace", errno.EPERM),  # a folder such as /tmp, and somebody else's file
    ("replace", errno.EBUSY),  # a file that is a mount point, as in containers
]


@pytest.mark.parametrize(("call", "number"), IN_PLACE, ids=str)
@pytest.mark.parametrize("content", [b"longer than before", b"new", b""])
def test_a_file_that_may_not_be_replaced_is_written_in_place(
    call: str, number: int, content: bytes, tmp_path: Path, refusing: Callable[[str, int], None]
) -> None:
    target = tmp_path / "report"
    target.write_text("old text")
    before = target.stat()
    refusing(call, number)
    write_bytes(target, content)
    after = target.stat()
    assert target.read_bytes() == content
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert names(tmp_path) == ["report"]


@pytest.mark.skipif(ROOT, reason="the superuser may write to any folder")
def test_a_file_in_a_folder_that_is_read_only_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / "report"
    target.write_text("old")
    tmp_path.chmod(0o555)
    try:
        assert obstacle(target) is None
        write_bytes(target, b"new")
        assert target.read_bytes() == b"new"
        assert "is read-only; write 'other' to another folder" in str(obstacle(tmp_path / "other"))
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE])
def test_a_full_disk_leaves_the_file_unchanged(
    number: int, tmp_path: Path, refusing: Callable[[str, int], None]
) -> None:
    """To write in place then would destroy what is there."""
    target = tmp_path / "report"
    target.write_text("old")
    refusing("open", number)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        write_bytes(target, b"new")
    assert (caught.value.errno, caught.value.filename) == (number, str(target))
    assert target.read_text() == "old"


def test_names_of_the_maximum_length(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    for text in ("first", "second"):
        write_text(target, text)
        assert target.read_text() == f"{text}\n"
    assert names(tmp_path) == [target.name]


def test_a_name_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert obstacle("report") is None
    write_text("report", "text")
    assert (tmp_path / "report").read_text() == "text\n"


OBSTACLES: dict[str, str] = {
    "absent/r.json": "there is no folder 'absent' to write 'r.json' to",
    "folder": "'folder' is a folder; name a file in it",
    "file/r.json": "'file/r.json' cannot be written: Not a directory",
    "link": "there is no folder '{}/nowhere' to write 'link' to",
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_an_obstacle_is_reported_beforehand_and_prevents_writing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_text("")
    Path("link").symlink_to("nowhere/r.json")
    assert obstacle(name) == OBSTACLES[name].format(os.path.realpath(tmp_path))
    with pytest.raises(OSError, match="directory") as caught:
        write_text(name, "text")
    assert caught.value.filename == name
    assert names(tmp_path) == ["file", "folder", "link"]


def test_files_that_other_code_writes_follow_the_same_rules(tmp_path: Path) -> None:
    target = tmp_path / "trace.json.gz"
    target.write_text("old")
    target.chmod(0o600)
    with write_elsewhere(target) as scratch:
        assert scratch.endswith(".json.gz")
        assert target.read_text() == "old"
        Path(scratch).write_bytes(b"new")
    assert (target.read_bytes(), read_mode(target)) == (b"new", 0o600)
    assert not Path(scratch).parent.exists()
    with pytest.raises(ZeroDivisionError), write_elsewhere(target) as scratch:
        Path(scratch).write_bytes(b"half")
        raise ZeroDivisionError
    assert target.read_bytes() == b"new"
    assert not Path(scratch).parent.exists()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_nonblocking_pipe_gets_all_of_the_text(pipe: tuple[int, int]) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system has no names of descriptors")
    reading, writing = pipe
    os.set_blocking(writing, False)
    content = bytes(range(256)) * 1000
    got = bytearray()

    def read() -> None:
        while len(got) < len(content):
            got.extend(os.read(reading, 4096))

    reader = threading.Thread(target=read)
    reader.start()
    write_bytes(f"/proc/self/fd/{writing}", content)
    join(reader)
    assert bytes(got) == content
