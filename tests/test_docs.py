"""The documentation tells the truth: its examples run and print what it says, and nothing public is left out of it.

How the examples of a page are run is told in ``docs/make_outputs.py``, which writes what they print into the pages.
"""

from __future__ import annotations

import inspect
import os
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
import pytest

from profilerkit import Backend, BackendNotInstalledError, Comparison, compare, hookspecs
from profilerkit.cli import cli
from profilerkit.hooks.backend_additions import list_capabilities
from profilerkit.hooks.backends import load
from profilerkit.hooks.commands import list_commands
from profilerkit.hooks.infos import BackendInfo
from profilerkit.hooks.manager import list_infos
from profilerkit.hooks.offers import default_functions
from profilerkit_metrics import ComputeEvalMetric

pytest.importorskip("torch")
import torch

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
make_outputs = import_module("make_outputs")
make_links = import_module("make_links")
machine_pages = import_module("machine_pages")
sys.path.remove(str(DOCS))
PAGES = make_outputs.PAGES


#: Pages whose examples start several frameworks or processes, or measure for seconds.
SLOW = (
    *("formats.rst", "tensorflow.rst", "mfu.rst", "audits.rst", "isolation.rst", "budgets.rst"),
    *("language-models.rst", "logging.rst", "counterparts.rst", "recipes.rst", "migrating-from-deeplite.rst"),
    *("comparison.rst", "command-line.rst", "figures.rst", "meshes.rst", "testing.rst"),
    *("assistants.rst", "jax.rst", "litert.rst", "migrating-from-deepspeed.rst", "timing.rst"),
)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.name in SLOW else (), id=path.name) for path in PAGES],
)
def test_examples_run_and_print_what_the_page_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", make_outputs.COLUMNS)
    for variable in ("KERAS_BACKEND", "MLFLOW_TRACKING_URI", "WANDB_SERVICE"):  # set by examples: they come back
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as where Python is started
    page = make_outputs.Page(path)
    page.run()
    for block, printed in page.differences:
        assert make_outputs.essence(printed) == make_outputs.essence(block.code), (
            f"{path.name}:{block.line} prints something else: run python docs/make_outputs.py {path.name}, and read "
            "what it changed"
        )
    assert not page.differences


def test_a_table_that_goes_on_is_compared_as_a_whole_one() -> None:
    table = ["          A     B    Ratio", " Metric  (x)   (y)   Words", " ───────────", " MACs     1     2    2x more"]
    whole = "\n".join(["Comparison", *table, "", "Note"])
    first = "Comparison\n          A     B\n Metric  (x)   (y)\n ─────\n MACs     1     2\n"
    split = f"{first}\nComparison, continued\n          Ratio\n Metric   Words\n ──────\n MACs     2x more\n\nNote"
    assert make_outputs.essence(split) == make_outputs.essence(whole)
    table[0] = "          A     B"
    without = split.replace("          Ratio\n", "")
    assert make_outputs.essence(without) == make_outputs.essence("\n".join(["Comparison", *table, "", "Note"]))
    assert make_outputs.essence(split.replace("2x more", "3x more")) != make_outputs.essence(whole)


def test_where_an_interval_is_folded_makes_no_difference() -> None:
    row = " Execution Time    1.1 s   3.3x less"
    folded = f"{row}\n{' ' * 28}[0.87 to 3.4]"
    assert make_outputs.essence(folded) == make_outputs.essence(f"{row} [0.87 to 3.4]")


def test_a_range_in_place_of_an_interval_makes_no_difference() -> None:
    """A busy machine takes too few samples for an interval."""
    line = "Times are medians, measured in turn; brackets hold the 95 % confidence interval of the ratio."
    ranged = line.replace("95 % confidence interval", "smallest and largest value")
    assert make_outputs.essence(ranged) == make_outputs.essence(line)
    assert make_outputs.essence(line.replace("in turn", "apart")) != make_outputs.essence(line)


def test_readme_is_plain_restructuredtext() -> None:
    core = pytest.importorskip("docutils.core")
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    core.publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2, "raw_enabled": False})


def test_the_readme_is_short() -> None:
    """Without what examples print there are 900 words at most."""
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    assert len(re.sub(r"\.\. code-block:: text\n\n(?:   .*\n|\n)+", "", text).split()) < 900


@pytest.mark.parametrize("name", make_links.FILES)
def test_links_have_the_address_of_the_repository_and_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert make_links.with_address(text) == text, "run python docs/make_links.py"
    assert make_links.address() in text
    assert [path for path in make_links.files_linked_from(text) if not (ROOT / path).exists()] == []


def test_a_new_address_reaches_every_link(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "`a <https://github.com/profilerkit/profilerkit/blob/main/README.rst>`_, https://example.org/a/b"
    assert make_links.with_address("git clone https://a.org/b/c.git") == f"git clone {make_links.address()}.git"
    monkeypatch.setattr(make_links, "address", lambda: "https://example.org/x/y")
    assert (
        make_links.with_address(text) == "`a <https://example.org/x/y/blob/main/README.rst>`_, https://example.org/a/b"
    )


#: The counts that the demo prints, which are the same on every machine.
STATIC = ["total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint"]


def assert_page_shows_counts(demo: Comparison) -> None:
    counts = [line for line in make_outputs.essence(str(demo)) if re.search(r"\dx (less|more)|the same$", line)]
    assert len(counts) == len(STATIC)
    page = (DOCS / "getting-started.rst").read_text(encoding="utf-8")
    assert set(counts) <= set(make_outputs.essence(page))


def test_page_shows_what_the_demo_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    digits = import_module("digits")
    teacher, student = digits.digits_teacher(), digits.digits_student()
    shape = (1, 32, 32)
    assert_page_shows_counts(compare(teacher, student, input_shape=shape, names=("Teacher", "Student"), metrics=STATIC))


def test_page_shows_what_the_demo_prints_of_both_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("tensorflow")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    for name in ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL"):  # which the example sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    digits, keras_digits = import_module("digits"), import_module("keras_digits")
    image = torch.zeros(1, 1, 32, 32)
    students = digits.digits_student(), keras_digits.digits_student()
    assert_page_shows_counts(compare(*students, inputs=image, metrics=STATIC))


def list_documented_names() -> set[str]:
    """Return the names that the reference of the public names has an entry for, with their packages."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("api*.rst"))
    return set(re.findall(r"^\.\. (?:auto)?(?:class|function|exception|data):: ([\w.]+)", text, re.MULTILINE))


def test_the_index_of_the_reference_has_every_page_and_every_name_that_has_a_docstring(tmp_path: Path) -> None:
    pages = {"api-a": ".. autofunction:: p.f\n   :members:\n\n.. data:: p.C\n", "api-b": ".. autoclass:: p.q.D\n"}
    for name, text in pages.items():
        (tmp_path / f"{name}.rst").write_text(f"Title of {name}\n=====\n\n{text}", encoding="utf-8")
    page = "API\n===\n\n.. api index\n\n.. toctree::\n   :hidden:\n\n   api-a\n   api-b\n"
    assert machine_pages.write_index(tmp_path, page) == (
        "API\n===\n\n"
        f":doc:`Title of api-a <api-a>`\n{'-' * 29}\n\n.. autosummary::\n   :nosignatures:\n\n   ~p.f\n\n"
        f":doc:`Title of api-b <api-b>`\n{'-' * 29}\n\n.. autosummary::\n   :nosignatures:\n\n   ~p.q.D\n"
        "\n.. toctree::\n   :hidden:\n\n   api-a\n   api-b\n"
    )
    reference = (DOCS / "api.rst").read_text(encoding="utf-8")
    assert {f"   {path.stem}\n" for path in DOCS.glob("api-*.rst")} <= set(reference.splitlines(keepends=True))


def test_a_line_of_llms_txt_has_the_first_sentence_of_its_page() -> None:
    paragraph = "``compare`` takes 2.5 models or more,\nside by side. The first is the reference."
    assert machine_pages.cut_sentence(paragraph) == "``compare`` takes 2.5 models or more, side by side."
    assert machine_pages.cut_sentence("These pages are examples:") == "These pages are examples"


def test_only_two_pages_say_how_to_install_profilerkit() -> None:
    """With a release they change, and no third one may be forgotten."""
    told = {path.name for path in PAGES if re.search(r"pip install '\.\[", path.read_text(encoding="utf-8"))}
    assert told == {"README.rst", "getting-started.rst"}


def test_signatures_in_the_reference_are_python() -> None:
    changed = runpy.run_path(str(DOCS / "conf.py"))["without_representations"]
    signature = "(a: int = <factory>, b: Callable[[Any], bool] = <function Info.<lambda>>, c: str = '')"
    expected = "(a: int = ..., b: Callable[[Any], bool] = ..., c: str = '')"
    assert changed(None, "class", "Info", None, None, signature, "int") == (expected, "int")
    assert changed(None, "data", "LIMIT", None, None, None, None) == (None, None)


#: The packages with public names, and what must be installed to import these.
PACKAGES = {
    "profilerkit": "",
    "profilerkit_audits": "sqlalchemy",
    "profilerkit_budgets": "",
    "profilerkit_energy": "",
    "profilerkit_jax": "jax",
    "profilerkit_litert": "ai_edge_litert",
    "profilerkit_metrics": "",
    "profilerkit_onnx": "onnx",
    "profilerkit_openvino": "openvino",
    "profilerkit_tensorflow": "tensorflow",
    "profilerkit_torch": "",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    documented = list_documented_names()
    elsewhere = {name.rpartition(".")[2] for name in documented if not name.startswith(f"{package}.")}
    if PACKAGES[package]:
        pytest.importorskip(PACKAGES[package])
    module = import_module(package)
    for name in module._MODULES if hasattr(module, "_MODULES") else module.__all__:
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
    classes = (Backend, *(capability.protocol for capability in list_capabilities()))
    offered = {name for found in classes for name in vars(found) if not name.startswith("_")}
    assert "trace_training" in offered
    for name in offered:
        assert re.search(rf"``{name}(``|\()", text), name
    for capability in list_capabilities():
        assert f"``{capability.protocol.__name__}``" in text


def load_backends() -> Iterator[Backend]:
    for offer in list_infos(BackendInfo):
        with suppress(BackendNotInstalledError):
            yield load(offer)


def list_offered_keys() -> list[str]:
    """Return the status keys that the plugins offer, and those of an evaluation."""
    functions = [function for backend in load_backends() for function in default_functions(backend).functions()]
    evaluation = ComputeEvalMetric(lambda model, loader: 0.0)
    return sorted({key.NAME for function in [*functions, evaluation] for key in function.list_keys()})


@pytest.mark.parametrize("key", list_offered_keys())
def test_every_status_key_has_a_definition(key: str) -> None:
    definitions = (DOCS / "metrics.rst").read_text(encoding="utf-8")
    assert re.search(rf"^``{key}``(, ``\w+``)*\n +\S", definitions, re.MULTILINE)
    assert re.search(rf"^ *``{key}`` +\S", definitions, re.MULTILINE), "it is not in the table in short"


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
    assert re.search(r"^\| ``softmax``, .*\| 6 +\| add, subtract, divide, compare, exp +\|", text, re.MULTILINE)
    assert re.search(r"^\| ``Softmax``, .*\| 6 +\|", text, re.MULTILINE)


def test_every_option_of_the_command_line_is_documented_and_no_other() -> None:
    text = (DOCS / "command-line.rst").read_text(encoding="utf-8")
    documented = set(re.findall(r"--[a-z][a-z-]+", "\n".join(re.findall(r"^\.\. option:: (.+)$", text, re.MULTILINE))))
    context = click.Context(cli, **cli.context_settings)
    commands = [cli, *(cli.get_command(context, info.name) for info in list_commands().values())]
    known = {
        option
        for command in commands
        if command is not None
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }
    assert documented == known
    for info in list_commands().values():
        assert f"profilerkit {info.name}" in text
