"""Packages of others work from their wheels, with either framework and with none, and are gone when uninstalled.

The numpy backend and the metric in one file of ``examples/`` are installed unchanged, beside profilerkit's own wheel.
"""

from __future__ import annotations

import configparser
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from fresh_environments import Environment, built_wheels
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
THIRD_PARTY = {
    "profilerkit_numpy": ROOT / "examples" / "profilerkit-numpy",
    "profilerkit_largest_layer": ROOT / "examples" / "one_file_metric",
}
FRAMEWORKS = ("torch", "tensorflow")

#: The same model in each framework, and in numpy, which needs none: 4 * 8 + 8 = 40 and 8 * 2 + 2 = 18 parameters.
MODELS = {
    "neither": """
import numpy
from profilerkit_numpy.layers import Sequential, dense
model = Sequential(dense(4, 8), dense(8, 2))
inputs, backend = numpy.zeros((1, 4), numpy.float32), "numpy"
""",
    "torch": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
inputs, backend = torch.zeros(1, 4), "torch"
""",
    "tensorflow": """
import keras, numpy
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(2)])
inputs, backend = numpy.zeros((1, 4), numpy.float32), "tensorflow"
""",
}

#: Profiles the model with all that is installed, and prints the records of all metrics, and what each backend says.
PROFILE = """
import json
from models import backend, inputs, model
from profilerkit import BackendNotInstalledError, Profiler, profile

said = {}
for name in ("torch", "tensorflow"):
    try:
        Profiler(0, backend=name)
    except (BackendNotInstalledError, TypeError) as error:
        said[name] = str(error)
report = profile(model, inputs, backend=backend, max_seconds=0.05)
found = {"said": said, "statuses": {status["key"]: status for status in report.to_dict()["statuses"]}}
"""

#: Measures against a counter that goes up by a joule whenever the clock is looked at, which is once for each pass.
MEASURE = """
from pathlib import Path
from profilerkit.times.sampling import Sampling
from profilerkit_energy import ComputeEnergy, Hardware

package = Path("powercap/intel-rapl:0")
package.mkdir(parents=True)
for name, text in {"name": "package-0", "max_energy_range_uj": "1000000000000", "energy_uj": "0"}.items():
    (package / name).write_text(text)
looks = 0

def clock():
    global looks
    looks += 1
    (package / "energy_uj").write_text(str(looks * 1_000_000))
    return looks / 64

report = profile(
    model,
    inputs,
    backend=backend,
    functions=[ComputeEnergy(Hardware(powercap=Path("powercap"), system="Linux"), sleep=lambda seconds: None)],
    metrics=["energy"],
    sampling=Sampling(clock=clock),
)
found["joules"] = float(report["energy"])
"""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of profilerkit and of these packages, built once."""
    if any(find_spec(name) is None for name in ("pip", "setuptools")):
        pytest.skip("wheels are built without a network by the pip and the setuptools that are installed here")
    return built_wheels(tmp_path_factory.mktemp("wheels"), ROOT, *THIRD_PARTY.values())


def what_profilerkit_needs() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return [Requirement(line).name for line in parser["options"]["install_requires"].split("\n") if line]


def fresh(folder: Path, framework: str, wheels: dict[str, Path]) -> Environment:
    """Make an environment with one framework, or with none, in which all wheels are installed."""
    if framework in FRAMEWORKS and find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    frameworks = [framework] if framework in FRAMEWORKS else []
    environment = Environment.made(folder / framework, *what_profilerkit_needs(), *frameworks)
    environment.pip("install", "--no-deps", *map(str, wheels.values()))
    (environment.folder / "models.py").write_text(MODELS[framework], encoding="utf-8")
    return environment


@pytest.fixture(scope="module", params=sorted(MODELS))
def framework(request: pytest.FixtureRequest) -> str:
    """The framework that is there, or that none is."""
    return str(request.param)


@pytest.fixture(scope="module")
def environment(framework: str, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment that the tests of one framework share; they only look at it."""
    return fresh(tmp_path_factory.mktemp("fresh"), framework, wheels)


def run_program(environment: Environment, program: str, **variables: str) -> Any:
    """Run a program of ours there and return what it ``found``."""
    printing = f"{program}\nimport json; print(json.dumps(found))"
    return json.loads(environment.run("python", "-c", printing, variables=variables).stdout.splitlines()[-1])


def list_plugins(environment: Environment, *options: str, **variables: str) -> str:
    """Return what ``list`` prints, on lines that are wide enough for paths and errors."""
    return environment.run("profilerkit", "list", *options, variables={"COLUMNS": "400"} | variables).stdout


#: What a backend says that works, of what is no model.
REFUSED = "the {} backend cannot profile a int; give it a model of its own, not 0"


def write_hint(missing: str) -> str:
    return f"the {missing} backend cannot be used: No module named '{missing}'; install it with: pip install"


def test_the_environment_sees_the_framework_that_is_meant_and_no_other(
    environment: Environment, framework: str
) -> None:
    program = "import importlib.util as u; found = [name for name in {} if u.find_spec(name)]"
    assert run_program(environment, program.format(FRAMEWORKS)) == [name for name in FRAMEWORKS if name == framework]
    where = environment.run("python", "-c", "import profilerkit_torch; print(profilerkit_torch.__file__)").stdout
    assert Path(where).is_relative_to(environment.folder), "the wheel's, not the checkout's"


def test_they_are_listed(environment: Environment, framework: str) -> None:
    output = list_plugins(environment)
    assert "largest_layer profilerkit-largest-layer 0.1 (profilerkit_largest_layer)" in " ".join(output.split())
    for name in FRAMEWORKS:
        assert (write_hint(name) in output) == (name != framework)
    assert "\nStatus keys\n" in output
    assert "largest_layer" in output.partition("\nStatus keys\n")[2]


def test_every_profile_has_them_and_joules_are_measured_over_every_backend(
    environment: Environment, framework: str
) -> None:
    found = run_program(environment, PROFILE + MEASURE)
    statuses = found["statuses"]
    assert statuses["total_params"]["value"] == 58
    assert statuses["largest_layer"]["value"] == pytest.approx(100 * 40 / 58)
    assert "energy" not in statuses, "on demand"
    assert found["joules"] == 1.0
    for name in FRAMEWORKS:
        expected = REFUSED.format(name) if name == framework else write_hint(name)
        assert found["said"][name].startswith(expected)


def test_the_command_line_profiles_with_them(environment: Environment) -> None:
    metrics = ("--metric", "largest_layer", "--metric", "energy", "--max-seconds", "0.05")
    done = environment.run("profilerkit", "profile", "models.py:model", "--input-shape", "4", *metrics)
    words = " ".join(done.stdout.split())
    assert "Largest Layer 68.97 %" in words
    assert "Energy" in words


def test_the_wheel_alone_offers_the_backends_of_backends(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment.made(tmp_path / "alone", *what_profilerkit_needs())
    environment.pip("install", "--no-deps", str(wheels["profilerkit"]))
    program = "from profilerkit.hooks.backends import backends; found = sorted(info.name for info in backends())"
    shipped = {path.parent.name.removeprefix("profilerkit_") for path in (ROOT / "backends").glob("*/plugin.py")}
    assert {"tensorflow", "torch"} <= shipped
    assert "numpy" not in shipped
    assert run_program(environment, program) == sorted(shipped)


def test_only_packages_of_profilerkit_are_at_the_top_of_the_wheel(wheels: dict[str, Path]) -> None:
    """Another name there, such as tests, would be imported in place of a user's own."""
    with ZipFile(wheels["profilerkit"]) as wheel:
        top = {name.partition("/")[0] for name in wheel.namelist()}
    assert {"profilerkit", "profilerkit_torch"} <= top
    assert {name for name in top if not name.startswith("profilerkit")} == set()


def test_uninstalled_they_are_gone(framework: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = fresh(tmp_path, framework, wheels)
    environment.pip("uninstall", "--yes", "profilerkit-largest-layer")
    assert not list(environment.site_packages.glob("profilerkit_largest_layer*"))
    output = list_plugins(environment)
    assert "metrics" in output
    assert "largest_layer" not in output
    if framework not in FRAMEWORKS:  # importing a framework again would take seconds and show nothing new
        statuses = run_program(environment, PROFILE)["statuses"]
        assert "total_params" in statuses
        assert "largest_layer" not in statuses


def test_a_package_that_cannot_be_imported_is_a_warning_that_names_it(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = fresh(tmp_path, "neither", wheels)
    (environment.site_packages / "profilerkit_largest_layer.py").write_text("import no_such_package_at_all\n")
    done = environment.run("profilerkit", "list")
    assert "plugin 'largest_layer' of profilerkit-largest-layer 0.1 cannot be loaded" in done.stderr
    assert "metrics " in done.stdout
    assert "largest_layer" not in done.stdout


def test_the_list_says_where_a_metric_comes_from_and_what_is_switched_off(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    environment = fresh(tmp_path, "neither", wheels)
    places = list_plugins(environment, "--verbose")
    source = environment.site_packages / "profilerkit_largest_layer.py"
    line = (
        source.read_text(encoding="utf-8")
        .splitlines()
        .index("def largest_layer(trace: ModelTrace, total_params: int) -> float | Unavailable:")
    )
    assert f"plugin 'largest_layer' of profilerkit-largest-layer 0.1, {source}:{line}" in places
    output = list_plugins(environment, PROFILERKIT_DISABLE_PLUGINS="profilerkit-largest-layer")
    assert "(profilerkit_largest_layer), switched off" in output
    assert "largest_layer" not in output.partition("\nStatus keys\n")[2]
