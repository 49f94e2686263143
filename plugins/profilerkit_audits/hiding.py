"""Texts left out of exports and pages: secrets, names of users and hosts, absolute paths, unless they are requested."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

#: Environment variables whose values are secrets, by words of their names.
_SECRET_NAMES = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH(?!OR(?:_|$))", re.IGNORECASE
)
#: The forms of secrets: keys of well-known services, passwords in URLs and assignments.
_SECRETS = (
    (
        re.compile(r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|glpat-[\w-]{15,})"),
        "<secret>",
    ),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), "<secret>"),
    (re.compile(r"\bxox[abprs]-[\w-]{10,}"), "<secret>"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"), "<secret>"),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), "<secret>"),
    (re.compile(r"(?i)\b((?:password|passwd|token|secret|api[_-]?key)\s*[=:]\s*)(?!<)[^\s,;&'\"]+"), r"\1<secret>"),
)
#: The folders of an absolute path. The name of a folder may have spaces, unless a file seems to end before one:
#: "no file /nets/a.py in /home".
_PATH = re.compile(
    r"""
    (?: (?<![\w./\\~-]) | (?<=://) | (?<=:///) )  # alone, behind a loader ("hf:/home"), or in a URL without a host
    (?:
        / (?: (?! [^\s/]* \. [a-z] \w* [ ] ) {word} (?: [ ] {word} )* / )+  # "/folder/a folder/"
      | / (?= (?: home | root | tmp | usr | var | opt | mnt | srv | data ) \b )  # before a usual folder: "/tmp"
      | [A-Za-z]:\\ (?: (?! [^\s\\]* \. [a-z] \w* [ ] ) {windows_word} (?: [ ] {windows_word} )* \\ )*
    )
    """.format(word=r"""[^\s/:'"<>|,;()\[\]{}]+""", windows_word=r"""[^\s\\:'"<>|,;]+"""),
    re.VERBOSE,
)
#: Folders at the top of other machines, whose rows may be exported on this one.
_USUAL_TOP_FOLDERS = (
    *("Users", "Volumes", "data", "gpfs", "home", "lustre", "media", "mnt", "nfs", "opt", "private", "projects"),
    *("root", "scratch", "srv", "tmp", "usr", "var", "work"),
)
#: The last part of a name in a graph: an operator, with the number of its output.
_OPERATOR = re.compile(r"[A-Z]\w*(?![\w.])")
#: Names of users that are words as well, which would be hidden everywhere.
_COMMON_NAMES = frozenset(
    ["root", "user", "admin", "test", "build", "runner", "default", "data", "model", "local", "python"]
)
#: Facts of a report's environment that name the machine.
_NAMED_FACTS = ("host", "user")


def hide(content: Any) -> Any:
    """Return values that JSON holds, with every text in them as `hide_text` returns it; keys stay as they are.

    A mapping's ``host`` and ``user`` are left out if they are texts: inputs may have these names, and have shapes.

    >>> hide({"host": "a", "reason": "no file /home/someone/nets/net.py", "values": [1, 2.5]})
    {'reason': 'no file …/net.py', 'values': [1, 2.5]}
    """
    if isinstance(content, str):
        return hide_text(content)
    if isinstance(content, Mapping):
        return {
            key: hide(value) for key, value in content.items() if not (key in _NAMED_FACTS and isinstance(value, str))
        }
    if isinstance(content, (list, tuple)):
        return [hide(item) for item in content]
    return content


def hide_text(text: str) -> str:
    r"""Return a text without secrets, names of this user and host, and the folders of absolute paths.

    >>> hide_text("postgresql://me:pw@db/x, token=abc, C:\\Users\\me\\net.py:12, 3 FLOPs/s, and/or")
    'postgresql://<secret>@db/x, token=<secret>, …/net.py:12, 3 FLOPs/s, and/or'
    """
    for secret in _read_secrets():
        text = text.replace(secret, "<secret>")
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    text = _PATH.sub(lambda folders: "…/" if _is_path(folders) else folders[0], text)
    names = _compile_names()
    return names.sub("<name>", text) if names is not None else text


def _is_path(folders: re.Match[str]) -> bool:
    """Return whether folders in a text are of a file system, and no name in a graph, such as ``/layer1/conv1/Conv``."""
    top = folders[0].split("/")[1] if folders[0].startswith("/") else ""  # "": of Windows, or before a usual folder
    if not top or top in (*_USUAL_TOP_FOLDERS, *(entry.name for entry in Path("/").iterdir())):
        return True
    return _OPERATOR.match(folders.string, folders.end()) is None


@lru_cache(maxsize=1)
def _read_secrets() -> tuple[str, ...]:
    """Return the values of this process's environment that are secrets, the longest first."""
    values = {value for name, value in os.environ.items() if _SECRET_NAMES.search(name) and len(value) >= 8}
    return tuple(sorted((value for value in values if not value.startswith("/")), key=len, reverse=True))


@lru_cache(maxsize=1)
def _compile_names() -> re.Pattern[str] | None:
    """Return a pattern of the names of this user and this host, as whole words; None if no name is to be hidden."""
    names = {socket.gethostname(), Path.home().name}
    with suppress(OSError, KeyError, ImportError):  # a user without a name
        names.add(getpass.getuser())
    hiding = [name for name in names if len(name) >= 3 and name.lower() not in (*_COMMON_NAMES, "localhost")]
    return re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in hiding)) if hiding else None
