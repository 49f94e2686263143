"""Run the tests of a backend on another release of its framework, in an environment made for it.

``make test-release TORCH=2.8.0`` and ``make test-newest`` call this; the frameworks are those of ``SUITES``. It needs
nothing but Python: the environment gets the checkout, the framework and what the tests need, **without constraints**,
as a user gets them. Its last line is a row of ``docs/data/releases.csv``; ``--record`` writes that row into the file,
which ``docs/releases.rst`` shows.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "data" / "releases.csv"
COLUMNS = ("framework", "release", "python", "passed", "failed", "skipped", "off")
#: What pip installs beside a framework whose build is for CUDA.
_CUDA = ("nvidia-", "cuda-", "triton")


@dataclass(frozen=True)
class Suite:
    """The tests of a backend.

    Attributes:
        package: The package of the framework, whose release counts.
        extras: The extras of profilerkit that the tests need.
        groups: The dependency groups of pyproject.toml that they need.
        tests: The files and folders.
        nightly: What pip installs for the builds of the night; empty if there are none.
        marks: Which of their tests, as pytest's ``-m`` takes it.
    """

    package: str
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    tests: tuple[str, ...]
    nightly: tuple[str, ...] = ()
    marks: str = "not slow"


#: The tests of the core and of the plugins.
CORE = tuple(f"tests/profilerkit{plugin}" for plugin in ("", "_audits", "_budgets", "_energy", "_pages", "_predict"))
_USERS = ("pandas", "plot", "audit", "parquet", "postgres", "regressions")
SUITES = {
    "torch": Suite(
        "torch",
        ("torch", *_USERS),
        ("test", "test-torch"),
        ("tests/profilerkit_torch", "tests/conformance/test_torch_conforms.py"),
        ("--pre", "torch"),  # from the index that the variable of pip's names
    ),
    "tensorflow": Suite(
        "tensorflow",
        ("tensorflow", *_USERS),
        ("test", "test-tensorflow"),
        ("tests/profilerkit_tensorflow", "tests/conformance/test_tensorflow_conforms.py"),
        ("tf-nightly", "tf_keras-nightly"),
    ),
    "onnx": Suite(
        "onnx",
        ("onnx", *_USERS),
        ("test", "test-onnx"),
        ("tests/profilerkit_onnx", "tests/conformance/test_onnx_conforms.py"),
        ("onnx-weekly", "onnxruntime"),
    ),
    "jax": Suite(
        "jax",
        ("jax", *_USERS),
        ("test", "test-jax"),
        ("tests/profilerkit_jax", "tests/conformance/test_jax_conforms.py"),
    ),
    "openvino": Suite(
        "openvino",
        ("openvino", "onnx", "torch", *_USERS),  # torch's models are converted
        ("test",),
        ("tests/profilerkit_openvino", "tests/conformance/test_openvino_conforms.py"),
    ),
    "litert": Suite(
        "ai-edge-litert",
        ("litert", "tensorflow", *_USERS),  # whose models are converted
        ("test",),
        ("tests/profilerkit_litert", "tests/conformance/test_litert_conforms.py"),
    ),
    # The core alone.
    "numpy": Suite("numpy", _USERS, ("test",), CORE, marks="not slow and not heavy"),
}


class Environment:
    """A virtual environment with one framework and the tests' tools.

    Args:
        folder: Where it is made; one that is there already is made anew.
        python: The interpreter.
    """

    def __init__(self, folder: Path, python: str) -> None:
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        self.python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        self.install("--upgrade", "pip>=25.1")  # the first that knows --group

    def install_profilerkit(self, suite: Suite, extras: Sequence[str], *requirements: str) -> None:
        """Install profilerkit with these extras and what the tests need, beside other requirements."""
        groups = [word for group in suite.groups for word in ("--group", group)]
        self.install("-e", f".[{','.join(extras)}]", "-e", "examples/profilerkit-numpy", *groups, *requirements)
        for left in (*ROOT.glob("*.egg-info"), *ROOT.glob("examples/*/*.egg-info")):
            shutil.rmtree(left)  # its entry points would hide those of the environment that is used here otherwise

    def install(self, *requirements: str) -> None:
        """Install packages as pip chooses them."""
        subprocess.run([self.python, *_PIP, "install", "--quiet", *requirements], check=True, cwd=ROOT)

    def release(self, package: str) -> str:
        """Return the release of a package that is installed."""
        return self.say(f"import importlib.metadata; print(importlib.metadata.version({package!r}))")

    def say(self, code: str) -> str:
        """Return what a line of Python prints there."""
        done = subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def test(self, suite: Suite, jobs: str) -> tuple[int, int, int]:
        """Run the tests; return how many passed, failed and were skipped."""
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.xml"
            options = ["-q", "-m", suite.marks, "-n", jobs, "--dist", "worksteal", f"--junitxml={results}"]
            subprocess.run([self.python, "-m", "pytest", *options, *suite.tests], check=False, cwd=ROOT)
            return count_results(results.read_text(encoding="utf-8"))


_PIP = ("-m", "pip", "--disable-pip-version-check")


def tell(text: str) -> None:
    """Print a line at once: the tests print theirs beside it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def count_results(junit: str) -> tuple[int, int, int]:
    """Return how many tests passed, failed (or had an error) and were skipped, from pytest's JUnit XML."""
    suite = ElementTree.fromstring(junit).find("testsuite")
    if suite is None:
        raise ValueError("pytest wrote no results: the tests did not start")
    tests, failed, errors, skipped = (int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))
    return tests - failed - errors - skipped, failed + errors, skipped


def packages_to_install(report: str) -> dict[str, str]:
    """Return the packages that pip would install, with their releases, from its ``--dry-run --report``."""
    installs = json.loads(report)["install"]
    return {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in installs}


def is_for_cuda(packages: Sequence[str]) -> bool:
    """Return whether a framework comes as a build for CUDA, by what pip installs beside it."""
    return any(name.startswith(_CUDA) for name in packages)


def read_rows() -> list[dict[str, str]]:
    """Return the rows of the table of releases."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def as_numbers(release: str) -> tuple[int, ...]:
    """Return a release as numbers that can be compared: 2.13.0+cpu is 2, 13, 0."""
    parts = release.partition("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def find_older(framework: str, installed: str, python: str, rows: Sequence[dict[str, str]]) -> str:
    """Return what to say where the newest release that pip gave is older than the newest in the table."""
    listed = [row for row in rows if row["framework"] == framework]
    newest = max(listed, key=lambda row: as_numbers(row["release"]), default=None)
    if newest is None or as_numbers(installed) >= as_numbers(newest["release"]):
        return ""
    name = f"{framework} {newest['release']}"
    pythons = [row["python"] for row in listed if row["release"] == newest["release"]]
    if as_numbers(python) < min(map(as_numbers, pythons)):
        return f"{name}: left out, since it was tested with Python {min(pythons, key=as_numbers)}, and this is {python}"
    return f"{framework} {installed} was installed, but docs/releases.rst lists {name}: what keeps pip from it?"


def merge_row(rows: Sequence[dict[str, str]], row: dict[str, str]) -> list[dict[str, str]]:
    """Return the rows with one replaced or added, in order; what it says is off stays until somebody changes it."""
    key = ("framework", "release", "python")
    same = [old for old in rows if all(old[name] == row[name] for name in key)]
    row = {**row, "off": row["off"] or (same[0]["off"] if same else "")}
    others = [old for old in rows if old not in same]
    order = list(SUITES)
    return sorted(
        [*others, row], key=lambda one: (order.index(one["framework"]), *map(as_numbers, (one[key[1]], one[key[2]])))
    )


def write_row(row: dict[str, str]) -> None:
    """Write a row into the table of releases."""
    rows = merge_row(read_rows(), row)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def run_suite(framework: str, release: str, options: argparse.Namespace) -> bool:
    """Make the environment, run the tests, print the row; return whether all passed."""
    suite = SUITES[framework]
    with tempfile.TemporaryDirectory(prefix=f"profilerkit-{framework}-") as folder:
        environment = Environment(Path(folder) / "environment", options.python)
        python = environment.say("import sys; print('%d.%d' % sys.version_info[:2])")
        tell(f"Installing {framework} {release or 'as pip chooses it'} with Python {python}")
        environment.install_profilerkit(suite, suite.extras, *pins(suite, release))
        installed = environment.release(suite.package).partition("+")[0]
        older = "" if release else find_older(framework, installed, python, read_rows())
        if older:
            tell(older)
            return "left out" in older
        passed, failed, skipped = environment.test(suite, options.jobs)
    values = (framework, installed, python, str(passed), str(failed), str(skipped), options.off)
    row = dict(zip(COLUMNS, values, strict=True))
    if options.record:
        write_row(row)
    tell(",".join(row.values()))
    return not failed and bool(passed)


def pins(suite: Suite, release: str) -> list[str]:
    """Return what pip is told of the release."""
    return [f"{suite.package}=={release}"] if release else []


def run_nightly(framework: str, options: argparse.Namespace) -> bool:
    """Run the tests on the build of the night; return whether all passed."""
    suite = SUITES[framework]
    with tempfile.TemporaryDirectory(prefix=f"profilerkit-{framework}-") as folder:
        environment = Environment(Path(folder) / "environment", options.python)
        environment.install_profilerkit(dataclasses.replace(suite, groups=("test",)), _USERS, *suite.nightly)
        tell(environment.say(f"import {suite.package}; print({framework!r}, {suite.package}.__version__)"))
        passed, failed, skipped = environment.test(suite, options.jobs)
    tell(f"{passed} passed, {failed} failed, {skipped} skipped")
    return not failed and bool(passed)


def leave_out(framework: str, options: argparse.Namespace) -> str:
    """Return why the newest release of a framework is not tried here; an empty text where it is."""
    suite = SUITES[framework]
    if not options.without_cuda:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            options.python,
            *_PIP,
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        subprocess.run([*command, suite.package], check=True, cwd=folder)
        packages = packages_to_install(report.read_text(encoding="utf-8"))
    if is_for_cuda(list(packages)):
        return f"{framework} {packages[suite.package]}: left out, since only a build for CUDA is offered here"
    return ""


def run_newest(options: argparse.Namespace) -> Iterator[bool]:
    """Run the tests of each framework that was asked for on its newest release."""
    for framework in options.framework or SUITES:
        reason = leave_out(framework, options)
        if reason:
            tell(reason)
        else:
            yield run_suite(framework, "", options)


def read_releases(settings: Sequence[str]) -> dict[str, str]:
    """Return the release of each framework that settings name: {"torch": "2.8.0"} of TORCH=2.8.0 and RECORD=1."""
    pairs = (setting.partition("=") for setting in settings)
    return {name.lower(): value for name, _, value in pairs if name.isupper() and name.lower() in SUITES and value}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for; exit with 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ", ".join(map(str.upper, SUITES))
    parser.add_argument("setting", nargs="*", help=f"a release, TORCH=2.8.0, of {names}; make hands on its others too")
    parser.add_argument("--newest", action="store_true", help="the newest release of each framework")
    parser.add_argument("--nightly", action="store_true", help="the builds of the night")
    parser.add_argument(
        "--framework", choices=SUITES, action="append", help="with --newest or --nightly: this one alone"
    )
    parser.add_argument(
        "--without-cuda", action="store_true", help="leave out a framework whose build is for CUDA, and say so"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    parser.add_argument("--jobs", default="auto", help="how many processes run the tests")
    parser.add_argument("--record", action="store_true", help="write the row into docs/data/releases.csv")
    parser.add_argument("--off", default="", help="what that row says is off")
    options = parser.parse_args(arguments)
    releases = read_releases(options.setting)
    if bool(releases) + options.newest + options.nightly != 1:
        parser.error(f"name a release, such as TORCH=2.8.0, or --newest, or --nightly; the frameworks are {names}")
    if options.newest:
        results = list(run_newest(options))
    elif options.nightly:
        nightly = [name for name in options.framework or SUITES if SUITES[name].nightly]
        results = [run_nightly(framework, options) for framework in nightly]
    else:
        results = [run_suite(framework, release, options) for framework, release in releases.items()]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
