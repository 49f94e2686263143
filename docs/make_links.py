"""Give the README and the package the address of the repository: ``python docs/make_links.py``.

The address stands once, as ``url`` in setup.cfg. The README is read on package pages too, where links need all of it.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The files with links into the repository.
FILES = ("README.rst", "setup.cfg", "docs/getting-started.rst")
#: An address of a repository, before what it has under it.
_ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+(?=/(?:actions|blob|raw|issues|security|tree)\b|\.git\b)")


def address() -> str:
    """Return the address of the repository."""
    settings = ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings["metadata"]["url"]


def with_address(text: str) -> str:
    """Return a text whose links into the repository begin with its address."""
    return _ADDRESS.sub(address(), text)


def files_linked_from(text: str) -> set[str]:
    """Return the paths of the files in the repository that a text links to."""
    return set(re.findall(rf"{re.escape(address())}/(?:blob|raw)/main/([\w./-]+)", text))


def main() -> None:
    """Write the files again."""
    for name in FILES:
        path = ROOT / name
        path.write_text(with_address(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
