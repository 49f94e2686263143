"""A process that looks like Windows or macOS to what it imports from now on: names and files are taken away.

It runs as a program: ``python other_systems.py windows|macos SCRIPT``. What the libraries under the script need of this
system they import first, since they are built for this system; profilerkit comes after that.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import sysconfig
import tempfile
from importlib import import_module
from typing import Any

__all__ = ["SYSTEMS", "pretend"]

#: Modules and names of POSIX that Python has on no Windows.
_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
_OS = (
    "chown chroot ctermid fchmod fchown fork forkpty geteuid getegid getgid getloadavg getpgid getpgrp "
    "getpriority getresgid getresuid getsid getuid getxattr initgroups killpg lchown listxattr "
    "memfd_create mkfifo mknod nice openpty pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn "
    "register_at_fork removexattr sched_getaffinity sched_setaffinity sched_yield sendfile setgid setpgid "
    "setpriority setsid setuid setxattr statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 "
    "waitid WEXITSTATUS WIFEXITED WIFSIGNALED WNOHANG WTERMSIG O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY "
    "O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE "
)
_SIGNAL = (
    "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGTTIN SIGTTOU "
    "SIGUSR1 SIGUSR2 SIGWINCH SIGXCPU ITIMER_REAL alarm getitimer pause pthread_kill pthread_sigmask "
    "setitimer siginterrupt sigpending sigtimedwait sigwait sigwaitinfo "
)
#: Names of Linux that macOS has not.
_LINUX = (
    "getresgid getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate "
    "removexattr sched_getaffinity sched_setaffinity setxattr O_DIRECT O_PATH O_TMPFILE "
)


def _take_away(owner: Any, names: str) -> None:
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)


def _hide_proc(event: str, arguments: tuple[Any, ...]) -> None:
    """Let nothing under /proc and /sys be opened or listed."""
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(("/proc", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))


def _windows() -> None:
    _take_away(os, _OS)
    _take_away(signal, _SIGNAL)
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.platform = "win32"
    sys.addaudithook(_hide_proc)


def _macos() -> None:
    _take_away(os, _LINUX)
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]  # Python's own note of this system
    sys.platform = "darwin"
    sys.addaudithook(_hide_proc)


SYSTEMS = {"windows": _windows, "macos": _macos}
#: What is built for this system, and asks it things when it is imported.
_FIRST = (
    "numpy",
    "click",
    "rich.console",
    "jinja2",
    "msgspec",
    "subprocess",
    "tempfile",
    "sqlite3",
    "socket",
    "torch",
    "torch._dynamo",
)


def pretend(system: str) -> None:
    """Make this process look like a system to what it imports from now on."""
    for name in _FIRST:
        try:
            import_module(name)
        except ImportError:
            continue
    sysconfig.get_config_vars()  # read by the name of the system, from a file that was made for this one
    SYSTEMS[system]()


if __name__ == "__main__":
    pretend(sys.argv[1])
    runpy.run_path(sys.argv[2], run_name="__main__")
