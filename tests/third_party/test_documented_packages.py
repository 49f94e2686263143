"""The packages that the documentation prints can be installed as they are printed, and profilerkit finds them."""

from __future__ import annotations

import re
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
from fresh_environments import run_here
from time_limits import run_program

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"

#: A block of a page that is a file, as test_docs.py writes it.
FILE = re.compile(r"^\.\. file: (\S+)\n\n\.\. code-block:: \w+\n\n((?: +\S.*\n|\n)+)", re.MULTILINE)

#: What makes a project of a folder.
METADATA = {"pyproject.toml", "setup.cfg"}

#: Files that a page prints for the user to profile; they are no part of the package.
NOT_OF_THE_PACKAGE = {"net.py"}

#: Loads the entry point from the metadata that was installed, and nothing else.
LOADED = """
from importlib.metadata import distribution
from pathlib import Path
import sys

[point] = distribution(sys.argv[1]).entry_points
assert point.group == "profilerkit"
assert Path(point.load().__file__).is_relative_to(sys.argv[2])
"""

#: A report, without a framework.
REPORT = """
import numpy
from profilerkit import profile
from profilerkit_numpy.layers import Sequential, dense

report = profile(Sequential(dense(4, 2)), numpy.zeros((1, 4), numpy.float32), backend="numpy", metrics={metrics})
"""

#: For each page the package that it prints, what must be installed to use it, and how profilerkit uses it.
PACKAGES = {
    "plugins": ("profilerkit-depth", (), REPORT.format(metrics=["depth"]) + "assert report['depth'] == 1"),
    "writing-a-renderer": (
        "profilerkit-jira",
        (),
        REPORT.format(metrics=["macs"])
        + "from profilerkit.render import render\nassert '|MACs|8 MACs|' in render(report, 'jira')",
    ),
    "writing-a-loader": (
        "profilerkit-zoo",
        ("torch",),
        "from profilerkit.models.loaders import load_model\nassert load_model('zoo:linear').model.out_features == 10",
    ),
    "writing-a-cost-formula": (
        "profilerkit-banded",
        (),
        """
from types import SimpleNamespace
from profilerkit.costs import Cost, Shape
from profilerkit.hooks.manager import manager

offers = manager().hook.profilerkit_op_costs(backend=SimpleNamespace(name="torch"))
[costs] = [offer.item for offer in offers if offer.item]
formula = costs["howto::banded_solve"]
assert formula(Shape((100, 3)), Shape((100, 8)), out=Shape((100, 8))) == Cost.of_macs(1600, 800)
""",
    ),
}


def list_printed_files(page: str) -> dict[str, str]:
    """Return the files of the package that a page prints."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    files = {name: textwrap.dedent(code).strip("\n") + "\n" for name, code in FILE.findall(text)}
    assert len(files) == text.count("\n.. file: ")
    return {name: code for name, code in files.items() if name not in NOT_OF_THE_PACKAGE}


@pytest.mark.parametrize("page", PACKAGES)
def test_what_a_page_prints_can_be_installed_and_is_found(page: str, tmp_path: Path) -> None:
    package, needed, used = PACKAGES[page]
    for name in ("pip", "setuptools", *needed):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    project, wheels, installed, elsewhere = (tmp_path / name for name in ("project", "wheels", "installed", "cwd"))
    project.mkdir()
    elsewhere.mkdir()
    files = list_printed_files(page)
    for name, code in files.items():
        (project / name).write_text(code, encoding="utf-8")
    run_here(
        *("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels)),
        str(project),
    )
    [wheel] = wheels.iterdir()
    run_here("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(installed), str(wheel))
    assert {item.name for item in installed.glob("*.py")} == files.keys() - METADATA
    for program in (LOADED, used):
        run_program(
            [sys.executable, "-W", "error::UserWarning", "-c", program, package, str(installed)],
            cwd=elsewhere,
            variables={"PYTHONPATH": str(installed), "PROFILERKIT_DISABLE_PLUGINS": ""},
            seconds=120,
        )
