"""The documentation tells the truth: its examples run and print what it says, and nothing public is left out of it.

All python blocks of a file run in order, in one namespace and in a folder of their own. A comment before a block says
more about it: ``.. output`` is what the python block above it prints, ``.. file: NAME`` is written to that file instead
of run. In a console block every line ``$ profilerkit ...`` runs; what follows it is what it prints.

``.. needs: PACKAGE`` below the title of a section, or of a page, leaves its blocks out where the package is missing.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from profilerkit import Backend, BackendNotInstalledError, Comparison, compare, hookspecs
from profilerkit.cli import COMMANDS, cli
from profilerkit.plugging.offers import backends, default_functions, load
from profilerkit.protocols import CAPABILITIES
from profilerkit_metrics import ComputeEvalMetric

pytest.importorskip("torch")
import torch

from profilerkit_torch.costs import scoped_costs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.rst", *sorted(DOCS.glob("*.rst"))]

#: A line with one of these differs from run to run; only the words before its first number are compared.
VARYING = re.compile(
    r"\d ?(ns|µs|ms|s|samples/s)\b|Time  |Throughput|samples/s|MACs/s|0\.\d+ of the|torch \d|profilerkit \d"
)


#: What titles are underlined with, from the page's own to those of the innermost sections.
UNDERLINES = "=-~"


class Block(NamedTuple):
    """A code block of a page: its language, the comment before it, its first line, its code, what its section needs."""

    language: str
    comment: str
    line: int
    code: str
    needs: frozenset[str]

    @property
    def can_run(self) -> bool:
        """Whether all that its section needs is installed."""
        return all(find_spec(package) is not None for package in self.needs)


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page in reStructuredText."""
    lines = text.splitlines()
    needs: list[str] = []  # of the section that a line is in, and of those around it
    for number, line in enumerate(lines):
        if re.fullmatch(rf"([{re.escape(UNDERLINES)}])\1+", line) and lines[number - 1].strip():
            needs = [*needs[: UNDERLINES.index(line[0])], ""]
        elif line.startswith(".. needs: "):
            needs[-1] = line.removeprefix(".. needs: ")
        found = re.fullmatch(r"( *)\.\. code-block:: *(\w+)", line)
        if not found:
            continue
        inside = f"{found[1]} "
        end = number + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(inside)):
            end += 1
        option = re.compile(r" +:[\w-]+:|$")
        first = next(each for each in range(number + 1, end) if not option.match(lines[each]))
        before = next((each.strip() for each in reversed(lines[:number]) if each.strip()), "")
        comment = before.removeprefix(".. ") if re.match(r"\.\. (output|file: \S+)$", before) else ""
        code = textwrap.dedent("\n".join(lines[first:end])).strip("\n") + "\n"
        yield Block(found[2], comment, first + 1, code, frozenset(filter(None, needs)))


def essence(output: str) -> list[str]:
    """Return the lines of an output without what may differ from run to run: times, widths of columns."""
    kept = []
    for line in output.splitlines():
        if "noisy" in line:
            continue
        words = re.split(r"[\d≥-]", line)[0] if VARYING.search(line) else line
        if words.strip() and not re.fullmatch(r"[\s─-]+", words):
            kept.append(" ".join(words.split()))
    return [line for line in kept if line]


class Page:
    """Runs the blocks of one page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""

    def run(self, block: Block) -> None:
        if block.comment.startswith("file: "):
            Path(block.comment.removeprefix("file: ")).write_text(block.code, encoding="utf-8")
        elif block.comment == "output":
            assert essence(self.printed) == essence(block.code), f"{self.path.name}:{block.line} prints something else"
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.code, str(self.path), "exec")
            with redirect_stdout(StringIO()) as printed:
                exec(code, self.namespace)
            self.printed = printed.getvalue()
        elif block.language == "console":
            self.console(block)

    def console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE):
            command, _, expected = part.partition("\n")
            if not command.startswith("profilerkit"):
                continue
            arguments, _, target = command.partition(" > ")
            result = CliRunner().invoke(cli, shlex.split(arguments)[1:], prog_name="profilerkit")
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            if target:
                Path(target).write_text(result.stdout, encoding="utf-8")
            if expected.strip():
                assert essence(result.output) == essence(expected), f"{self.path.name}: $ {command}"


@contextmanager
def scoped_formulas() -> Iterator[None]:
    """Forget at the end what formulas a page gave to the backends."""
    with ExitStack() as scopes:
        scopes.enter_context(scoped_costs())
        if find_spec("tensorflow") is not None:
            scopes.enter_context(import_module("profilerkit_tensorflow.costs").scoped_costs())
        yield


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_examples_run_and_print_what_the_page_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as where Python is started
    page = Page(path)
    try:
        with scoped_formulas():
            for block in blocks_of(path.read_text(encoding="utf-8")):
                if block.can_run:
                    page.run(block)
    finally:
        for written in tmp_path.glob("*.py"):
            sys.modules.pop(written.stem, None)


def test_readme_is_plain_restructuredtext() -> None:
    core = pytest.importorskip("docutils.core")
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    core.publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2, "raw_enabled": False})


#: The counts that the demo prints, which are the same on every machine.
STATIC = ["total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint"]


def assert_readme_shows_counts_of(demo: Comparison) -> None:
    counts = [line for line in essence(str(demo)) if re.search(r"\dx$", line)]
    assert len(counts) == len(STATIC)
    assert set(counts) <= set(essence((ROOT / "README.rst").read_text(encoding="utf-8")))


def test_readme_shows_what_the_demo_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    digits = import_module("digits")
    teacher, student = digits.digits_teacher(), digits.digits_student()
    shape = (1, 32, 32)
    assert_readme_shows_counts_of(
        compare(teacher, student, input_shape=shape, names=("Teacher", "Student"), metrics=STATIC)
    )


def test_readme_shows_what_the_demo_prints_of_both_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("tensorflow")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    for name in ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL"):  # which the example sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    digits, keras_digits = import_module("digits"), import_module("keras_digits")
    image = torch.zeros(1, 1, 32, 32)
    students = digits.digits_student(), keras_digits.digits_student()
    assert_readme_shows_counts_of(compare(*students, inputs=image, metrics=STATIC))


def documented_names() -> set[str]:
    """Return the names that the reference of the public names has an entry for, with their packages."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("api*.rst"))
    return set(re.findall(r"^\.\. (?:auto)?(?:class|function|exception|data):: ([\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    "package", ["profilerkit", "profilerkit_metrics", "profilerkit_tensorflow", "profilerkit_torch"]
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    documented = documented_names()
    elsewhere = {name.rpartition(".")[2] for name in documented if not name.startswith(f"{package}.")}
    if package == "profilerkit_tensorflow":
        pytest.importorskip("tensorflow")
    module = import_module(package)
    for name in module.__all__:
        home = getattr(getattr(module, name), "__module__", package).partition(".")[0]
        assert f"{package}.{name}" in documented or (home != package and name in elsewhere), f"{package}.{name}"


def test_every_hook_is_documented_with_its_signature() -> None:
    text = (DOCS / "plugins.rst").read_text(encoding="utf-8")
    hooks = {name: hook for name, hook in vars(hookspecs).items() if hasattr(hook, "profilerkit_spec")}
    assert hooks
    for name, hook in hooks.items():
        signature = str(inspect.signature(hook)).replace("'", "")
        assert f".. function:: {name}{signature}" in text


def test_everything_that_a_backend_may_offer_is_documented() -> None:
    text = (DOCS / "extending.rst").read_text(encoding="utf-8")
    classes = (Backend, *(capability.protocol for capability in CAPABILITIES))
    offered = {name for found in classes for name in vars(found) if not name.startswith("_")}
    assert "trace_training" in offered
    for name in offered:
        assert re.search(rf"``{name}(``|\()", text), name
    for capability in CAPABILITIES:
        assert f"``{capability.protocol.__name__}``" in text


def loaded_backends() -> Iterator[Backend]:
    for info in backends():
        with suppress(BackendNotInstalledError):
            yield load(info)


def offered_keys() -> list[str]:
    """Return the status keys that the plugins offer, and those of an evaluation."""
    functions = [function for backend in loaded_backends() for function in default_functions(backend)]
    evaluation = ComputeEvalMetric(lambda model, loader: 0.0)
    return sorted({key.NAME for function in [*functions, evaluation] for key in function.bounded_keys()})


@pytest.mark.parametrize("key", offered_keys())
def test_every_status_key_has_a_definition(key: str) -> None:
    definitions = (DOCS / "metrics.rst").read_text(encoding="utf-8")
    assert re.search(rf"^``{key}``(, ``\w+``)*\n +\S", definitions, re.MULTILINE)
    assert re.search(
        rf"^ *``{key}`` +\S|``, ``{key}``", (ROOT / "README.rst").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_tables_of_costs_are_those_of_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.syspath_prepend(str(DOCS))
    make_tables = import_module("make_tables")
    for page in make_tables.PAGES:
        up_to_date = make_tables.page_with_tables(page) == (DOCS / page).read_text(encoding="utf-8")
        assert up_to_date, f"docs/{page} has old tables: run python docs/make_tables.py"


def test_a_constant_of_the_convention_changes_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.syspath_prepend(str(DOCS))
    make_tables, convention = import_module("make_tables"), import_module("profilerkit.costs.convention")
    monkeypatch.setattr(convention, "EXP", convention.EXP + 1)
    text = make_tables.page_with_tables("metrics.rst")
    assert re.search(r"^``EXP`` +2 ", text, re.MULTILINE)
    assert re.search(r"^``softmax``, .* 6 +add, subtract, divide, compare, exp ", text, re.MULTILINE)
    assert re.search(r"^``Softmax``, .* 6 ", text, re.MULTILINE)


def test_every_option_of_the_command_line_is_documented_and_no_other() -> None:
    text = (DOCS / "command-line.rst").read_text(encoding="utf-8")
    documented = set(re.findall(r"--[a-z][a-z-]+", "\n".join(re.findall(r"^\.\. option:: (.+)$", text, re.MULTILINE))))
    context = click.Context(cli, **cli.context_settings)
    commands = [cli, *(cli.get_command(context, name) for name in COMMANDS)]
    known = {
        option
        for command in commands
        if command is not None
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    assert documented == known
    for name in COMMANDS:
        assert f"profilerkit {name}" in text
