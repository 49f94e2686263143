"""The rules of the house, held by machine: which way imports run, what is imported, what is shipped."""

import ast
import configparser
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import ROOT, packages, read_tree, walk
from time_limits import run_program, run_python

HEAVY = ("torch", "tensorflow", "keras", "jax", "numpy", "pandas", "rich", "matplotlib", "click", "jinja2")

#: The file of the core that names plugins, whose public functions it hands on.
HANDING_ON = ("__init__.py",)
#: What a plugin may import of others.
PLUGINS = {
    "profilerkit_audits": {"profilerkit_budgets", "profilerkit_pages"},
    "profilerkit_budgets": set[str](),
    "profilerkit_energy": set[str](),
    "profilerkit_pages": set[str](),
    "profilerkit_predict": {"profilerkit_pages"},
}

FRAMEWORKS = {"torch", "tensorflow", "keras", "tf_keras", "jax"}


def may_import(package: str) -> set[str]:
    """Return what of this project a package may import: backends -> plugins -> metrics -> profilerkit.

    A backend may import the framework that it is named after besides, and no other backend.
    """
    if package in PLUGINS:
        return {"profilerkit", "profilerkit_metrics", package, *PLUGINS[package]}
    if package == "profilerkit":
        return {package}
    framework = {package.removeprefix("profilerkit_")} if packages()[package].parent.name == "backends" else set()
    return {"profilerkit", "profilerkit_metrics", "profilerkit_predict", package, *framework}


def imports(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in folder.rglob("*.py"):
        for node in walk(read_tree(path)):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield path, node.module.partition(".")[0]


@pytest.mark.parametrize("package", sorted(packages()))
def test_imports_run_one_way(package: str) -> None:
    guarded, allowed = {*packages(), *FRAMEWORKS}, may_import(package)
    for path, imported in imports(packages()[package]):
        if package == "profilerkit" and path.name in HANDING_ON and imported in PLUGINS:
            continue
        assert imported in allowed or imported not in guarded, f"{path.name} of {package} imports {imported}"


@pytest.mark.slow
def test_a_first_profile_leaves_seeded_random_numbers_alone() -> None:
    """Importing rich draws random numbers: the first profile of a process must not shift the user's stream."""
    code = """
import random, torch
from profilerkit import profile
model, x = torch.nn.Linear(2, 1), torch.randn(1, 2)
random.seed(7); expected = random.random()
random.seed(7); str(profile(model, x, metrics=["layerwise_summary", "macs"])); print(random.random() == expected)
"""
    done = run_python(code)
    assert done.stdout.strip() == "True"


def list_loaded(statement: str) -> set[str]:
    return {name.partition(".")[0] for name in list_modules(statement)}


def list_modules(statement: str) -> set[str]:
    """Run a statement in an interpreter of its own, and return the modules that are imported after it."""
    code = f"import sys; {statement}; print(*sys.modules)"
    done = run_python(code)
    return set(done.stdout.split())


def light_statements() -> Iterator[str]:
    yield from (f"import {package}" for package in sorted(packages()))
    yield from (f"import {path.parent.name}.plugin" for path in sorted(ROOT.glob("*/profilerkit_*/plugin.py")))
    yield "from profilerkit.hooks.backends import backends; backends()"
    yield "from profilerkit import Metric, Profiler, Report, hookimpl, profile"


@pytest.mark.parametrize("statement", list(light_statements()))
def test_importing_is_light(statement: str) -> None:
    assert list_loaded(statement).isdisjoint(HEAVY)


def test_the_list_of_commands_imports_little() -> None:
    """Each command waits for it, ``--help`` for nothing else; what computes is imported by who computes."""
    modules = list_modules("from profilerkit.hooks.commands import list_commands; list_commands()")
    rooms = {".".join(name.split(".")[:2]) for name in modules if name.startswith("profilerkit.")}
    unneeded = {"backend", "backend_kit", "costs", "piping", "protocols", "render", "results", "times", "trace"}
    assert rooms & {f"profilerkit.{room}" for room in unneeded} <= {"profilerkit.backend_kit"}
    assert modules.isdisjoint({"numpy", "rich", "logging", "profilerkit_metrics.discovery"})


def test_a_profile_of_torch_loads_no_other_framework_and_nothing_of_meshes() -> None:
    """Each process of an audit would pay for it; numpy makes its generators of random numbers when asked for them."""
    modules = list_modules(
        "import torch; from profilerkit import profile; from profilerkit_torch import TorchProfiler; "
        "profile(torch.nn.Linear(4, 2), torch.zeros(1, 4), static=True)"
    )
    assert "torch" in modules
    assert {name.partition(".")[0] for name in modules}.isdisjoint(FRAMEWORKS - {"torch"})
    assert modules.isdisjoint({"numpy.random", "profilerkit_predict.meshes"})


@pytest.mark.slow
def test_the_tensorflow_backend_loads_no_torch() -> None:
    pytest.importorskip("tensorflow")
    loaded = list_loaded("import profilerkit_tensorflow; profilerkit_tensorflow.TFProfiler")
    assert "tensorflow" in loaded
    assert "torch" not in loaded


def test_a_misspelt_lazy_name_is_an_attribute_error() -> None:
    import profilerkit_torch

    with pytest.raises(AttributeError, match="module 'profilerkit_torch' has no attribute 'TorchProfilr'"):
        profilerkit_torch.TorchProfilr  # type: ignore[attr-defined]  # noqa: B018
    assert {"TorchProfiler", "get_accuracy"} <= set(dir(profilerkit_torch))
    for name in profilerkit_torch.__all__:
        assert getattr(profilerkit_torch, name) is not None


def lazy_packages() -> list[str]:
    return [name for name, folder in packages().items() if "lazy_names(" in (folder / "__init__.py").read_text()]


@pytest.mark.parametrize("package", lazy_packages())
def test_lazy_names_are_the_imported_ones_are_the_public_ones(package: str) -> None:
    """What type checkers read, what is imported on first use, and what is public are one list."""
    stub, source = (packages()[package] / name for name in ("__init__.pyi", "__init__.py"))
    tree = ast.parse((stub if stub.exists() else source).read_text(encoding="utf-8"))
    inside = [node.body for node in walk(tree) if isinstance(node, ast.If)]
    checked, by_name = {}, set()
    for statement in [node for node in tree.body if stub.exists()] or inside[0]:
        if isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            checked.update({alias.name: module for alias in statement.names})
            by_name |= {alias.name for alias in statement.names if alias.asname}  # not by a star
    loaded = importlib.import_module(package)
    assert checked == loaded._MODULES
    if not stub.exists():  # which names every one
        assert sorted(checked.keys() - by_name) == list(loaded.__all__)


@pytest.mark.parametrize("package", lazy_packages())
def test_no_module_is_called_as_a_lazy_name(package: str) -> None:
    """Whatever imports the module would put it in the place of the name: history(...) would call a module."""
    modules = {path.stem for path in packages()[package].iterdir()}
    assert modules.isdisjoint(importlib.import_module(package)._MODULES)


@pytest.mark.slow
def test_a_star_import_shadows_no_name_that_frameworks_and_python_have_too() -> None:
    """Of the names in both, `profile` alone is what the package is there for."""
    import profilerkit

    modules = ["builtins", "json", "os.path", "pickle", "functools", "typing", "dataclasses", "numpy", "pandas"]
    modules += ["torch", "torch.nn", "torch.optim", "torch.utils.data", "torch.profiler", "onnx", "onnxruntime"]
    modules += ["tensorflow", "keras", "keras.metrics", "jax", "jax.numpy", "jax.tree_util", "flax.nnx", "equinox"]
    code = f"""
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
names = set()
for module in {modules}:
    try:
        names.update(dir(importlib.import_module(module)))
    except ImportError:
        pass
print(json.dumps(sorted(names)))
"""
    done = run_python(code)
    names = set(json.loads(done.stdout.splitlines()[-1]))
    assert "dumps" in names
    assert set(profilerkit.__all__) & names <= {"profile"}
    for name in vars(profilerkit)["_MODULES"]:
        assert getattr(profilerkit, name) is not None, "imported by its name, each of them is there"


def configuration() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = set(configuration()["options"]["packages"].split())
    present = set()
    for name, folder in packages().items():
        for init in folder.rglob("__init__.py"):
            present.add(".".join([name, *init.parent.relative_to(folder).parts]))
    assert listed == present
    for name, folder in packages().items():
        assert (folder / "py.typed").is_file(), f"{name} ships no py.typed"


def test_every_package_is_measured_and_checked() -> None:
    parser = configuration()
    assert set(parser["coverage:run"]["source_pkgs"].split()) == set(packages())
    assert {"backends", "metrics", "plugins"} <= set(parser["mypy"]["mypy_path"].replace(",", " ").split())


def test_public_names_are_what_the_modules_say() -> None:
    import profilerkit
    import profilerkit_metrics

    for module in (profilerkit, profilerkit_metrics):
        assert list(module.__all__) == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name).__doc__, f"{module.__name__}.{name} has no docstring"


def test_nothing_names_a_place_of_this_machine() -> None:
    done = run_program(["git", "ls-files"], check=False, cwd=ROOT)
    if done.returncode:
        pytest.skip("not a git checkout")
    for name in done.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".rst", ".cfg", ".toml", ".txt", ".yaml", ""} and path.is_file():
            text = path.read_text(encoding="utf-8")
            for place in ("/home/" + "user", "/work/" + "main", "pypi" + ".org"):
                assert place not in text, f"{name} names {place}"


#: What is typed, and the exit code: 2 where it is mistyped.
TYPED = {
    "--help": 0,
    "profile --help": 0,
    "list": 0,
    "profile net.py:build --metric macz": 2,
    "profile net.py:build --leave-out macz": 2,
    "profile net.py:build --input-shape 8x": 2,
    "compare net.py:build net.py:build --metric macs,macz": 2,
    "profile nett.py:build": 2,
}


def test_a_command_that_profiles_no_model_imports_no_framework(tmp_path: Path) -> None:
    """Whoever asks what there is, or mistypes it, waits for no framework; the model's file is not run either."""
    (tmp_path / "net.py").write_text("import torch\n")
    code = (
        "import sys, profilerkit.cli\n"
        "for typed in sys.argv[1:]:\n"
        "    try:\n        profilerkit.cli.main(typed.split())\n"
        "    except SystemExit as end:\n        print('ended', typed, 'with', end.code or 0)\n"
        f"    print('imported', sorted({FRAMEWORKS!r} & sys.modules.keys()))\n"
    )
    done = run_python(code, *TYPED, cwd=tmp_path)
    for typed, exit_code in TYPED.items():
        assert f"ended {typed} with {exit_code}\nimported []\n" in done.stdout, done.stdout + done.stderr
