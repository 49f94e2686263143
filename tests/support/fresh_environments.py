"""Fresh environments without a network and without minutes: the packages in them are links to those that are here.

An environment is made by `venv` without pip, which takes a tenth of a second. What it may see of the packages that are
installed here is linked into its site-packages, one link for each folder, module and ``dist-info`` that a distribution
names in its list of files: click, numpy, pluggy and rich with what they need, and torch or TensorFlow with what they
need only where that is wanted. Python, `importlib.metadata` and pip take a link for the thing itself. All else that is
installed here stays unseen, also profilerkit itself: its wheel is installed there, by the pip that is here
(``pip --python``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["Environment", "built_wheels", "with_requirements"]


@dataclass(frozen=True)
class Environment:
    """A fresh environment: its folder, and how to run things in it."""

    folder: Path

    @classmethod
    def made(cls, folder: Path, *names: str) -> Environment:
        """Make an environment that sees these distributions, and what they need."""
        venv.create(folder, with_pip=False, symlinks=True)
        made = cls(folder)
        for found in with_requirements(names):
            made.link(found)
        return made

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        return next(self.folder.glob("lib/python*/site-packages"))

    def link(self, found: Distribution) -> None:
        """Let it see a distribution."""
        for entry in top_level_entries(found):
            link = self.site_packages / entry.name
            if not link.exists():  # two distributions may share a folder: google/protobuf, google/pasta
                link.symlink_to(entry)

    def run(
        self, program: str, *arguments: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which must end well."""
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PROFILERKIT_DISABLE_PLUGINS")
        surroundings = {name: value for name, value in os.environ.items() if name not in hidden}
        surroundings |= {"PYTHONNOUSERSITE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "100", **(variables or {})}
        done = subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=self.folder,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def pip(self, *arguments: str) -> None:
        """Install or uninstall, from files alone."""
        python = str(self.folder / "bin" / "python")
        run_here("-m", "pip", "--python", python, *arguments)


def run_here(*arguments: str) -> None:
    """Run Python with arguments; what it said is the message where it fails."""
    surroundings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", "PIP_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def with_requirements(names: Iterable[str]) -> Iterator[Distribution]:
    """Yield the distributions of these names and all that they need, those that are installed here."""
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        yield found
        for text in found.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def top_level_entries(found: Distribution) -> set[Path]:
    """Return the folders and modules that a distribution put into site-packages; its scripts lie elsewhere."""
    root = Path(str(found.locate_file("")))
    names = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {root / name for name in names if (root / name).exists()}


def built_wheels(folder: Path, *projects: Path) -> dict[str, Path]:
    """Build the wheels of projects from copies of them, so that nothing is written into the checkout."""
    left_out = (".*", "build", "dist", "docs", "examples", "tests", "*.egg-info", "__pycache__")
    copies = []
    for project in projects:
        copy = shutil.copytree(project, folder / "sources" / project.name, ignore=shutil.ignore_patterns(*left_out))
        copies.append(str(copy))
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    run_here("-m", "pip", "wheel", *options, *copies)
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}
