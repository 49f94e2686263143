"""``profilerkit list`` where something is wrong: a backend that fails, plugins in conflict, plugins called alike."""

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from profilerkit import BackendInfo, LoaderInfo, Metric, ProfilerFunction, RendererInfo, StatusKey, hookimpl
from profilerkit.cli import list_command, main
from profilerkit.hooks import offers as plugins
from profilerkit.testing import FakeBackend

GROUP = "profilerkit"

Install = Callable[..., types.ModuleType]
List = Callable[..., tuple[int, str, str]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install plugins of the test's own, with hooks given by name without their prefix; nothing else is installed."""
    found: list[metadata.EntryPoint] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: tuple(found) if group == GROUP else ())
    monkeypatch.delenv("PROFILERKIT_DISABLE_PLUGINS", raising=False)
    plugins.forget()

    def add(name: str, package: str, **hooks: Any) -> types.ModuleType:
        module = types.ModuleType(f"plugin_{name}_{package}".replace("-", "_"))
        for one_name, hook in hooks.items():
            setattr(module, f"profilerkit_{one_name}", hookimpl(hook))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        point = metadata.EntryPoint(name, module.__name__, GROUP)
        vars(point)["dist"] = types.SimpleNamespace(name=package, version="1.0")
        found.append(point)
        return module

    yield add
    plugins.forget()


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> List:
    """Run the command as a user does: the exit code, standard output and standard error."""
    # The plugin that offers the commands is left out too, so that it is not among what is listed.
    monkeypatch.setattr("profilerkit.cli.load_command", {"list": list_command.command}.get)
    offered = {"list": types.SimpleNamespace(examples=(), description="")}
    monkeypatch.setattr("profilerkit.cli.list_commands", lambda: offered)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["list", *arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def make_offering(*items: Any) -> Callable[[], Any]:
    return lambda: items


def make_computing(function: ProfilerFunction) -> Callable[..., Any]:
    def hook(backend: Any) -> Any:
        return [function]

    return hook


class Named(FakeBackend):
    name = "fine"

    def environment(self) -> Mapping[str, str]:
        return {"finelib": "1.2"}


class Unsure(FakeBackend):
    name = "unsure"

    def environment(self) -> Mapping[str, str]:
        raise OSError("no driver:\nis it loaded?")


class Vague(FakeBackend):
    name = "vague"

    def environment(self) -> Any:
        return None


class Depth(Metric):
    """How deep it is."""

    NAME = "depth"


class OtherDepth(Metric):
    """How deep it is to others."""

    NAME = "depth"


class ComputeDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Depth

    def __call__(self) -> int:
        return 1


class ComputeOtherDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return OtherDepth

    def __call__(self) -> int:
        return 2


def backend(name: str, load: Callable[[], Any]) -> BackendInfo:
    return BackendInfo(name, (name,), load, f"my-{name}")


def make_raising(error: BaseException) -> Callable[[], Any]:
    def load() -> Any:
        raise error

    return load


FINE = backend("fine", Named)
DRAWN = RendererInfo("drawn", lambda: str, "lines")


def find_lines(out: str, name: str) -> list[str]:
    return [line.strip() for line in out.splitlines() if line.split()[:1] == [name]]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("broken at import"),
        OSError("libfine.so.12: cannot open shared\nobject file"),
        AttributeError("module has no attribute 'x'"),
        SystemExit("no licence"),
        ImportError("no module"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_backend_that_cannot_be_loaded_says_so_in_its_line(install: Install, listed: List, error: Any) -> None:
    install(
        "two",
        "pack",
        backends=make_offering(backend("broken", make_raising(error)), FINE),
        renderers=make_offering(DRAWN),
    )
    for arguments in ([], ["--verbose"]):
        code, out, err = listed(*arguments)
        assert (code, err) == (0, "")
        [line] = find_lines(out, "broken")
        assert "broken backend" in line
        assert " ".join(str(error).split()) in line
        assert find_lines(out, "fine") == ["fine                       finelib 1.2"]
        assert find_lines(out, "drawn") == ["drawn                      lines"]
        assert "the broken backend\n" not in out, "it has no functions to list"


@pytest.mark.parametrize("returned", [None, 7, Named], ids=["None", "7", "class"])
def test_what_is_no_backend_is_said_in_its_line(install: Install, listed: List, returned: Any) -> None:
    install("two", "pack", backends=make_offering(backend("hollow", lambda: returned), FINE))
    code, out, err = listed()
    assert (code, err) == (0, "")
    [line] = find_lines(out, "hollow")
    assert f"cannot be used: its load returned {returned!r}, which is no Backend" in line
    assert find_lines(out, "fine") == ["fine                       finelib 1.2"]


def test_an_environment_that_fails_is_said_and_the_backend_is_listed_on(install: Install, listed: List) -> None:
    install("two", "pack", backends=make_offering(backend("unsure", Unsure), backend("vague", Vague), FINE))
    code, out, err = listed()
    assert (code, err) == (0, "")
    said = "environment() of the unsure backend failed: OSError: no driver: is it loaded?"
    assert find_lines(out, "unsure") == [f"unsure                     {said}"]
    assert "environment() of the vague backend failed: AttributeError" in find_lines(out, "vague")[0]
    assert find_lines(out, "fine") == ["fine                       finelib 1.2"]
    assert "Status keys" in out.splitlines()


@pytest.mark.parametrize("arguments", [[], ["--verbose"]], ids=["short", "verbose"])
@pytest.mark.parametrize(
    ("hook", "first", "second", "what", "name"),
    [
        ("backends", FINE, backend("fine", Named), "backend 'fine'", "fine"),
        ("renderers", DRAWN, RendererInfo("drawn", lambda: repr), "renderer 'drawn'", "drawn"),
        (
            "model_loaders",
            LoaderInfo("hub", bool, str, "hub:NAME"),
            LoaderInfo("hub", bool, str, "hub:OTHER"),
            "model loader 'hub'",
            "hub",
        ),
        ("status_keys", Depth, OtherDepth, "status key 'depth'", "depth"),
    ],
)
def test_a_conflict_does_not_stop_the_list(
    install: Install, listed: List, arguments: list[str], hook: str, first: Any, second: Any, what: str, name: str
) -> None:
    install("one", "a-pack", **{hook: make_offering(first)})
    install("two", "b-pack", **{hook: make_offering(second)})
    install("last", "c-pack", backends=make_offering(backend("plain", FakeBackend)))
    code, out, err = listed(*arguments)
    assert code == 3
    assert err.splitlines() == [
        f"Error: two plugins offer {what}: 'one' of a-pack 1.0 and 'two' of b-pack 1.0; uninstall one of the packages, "
        "or switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=two"
    ]
    if hook != "status_keys" or arguments:
        assert len(find_lines(out, name)) == 2, "both are shown"
    for title in ("Plugins", "Backends", "Renderers", "Model loaders"):
        assert out.splitlines().count(title) == 1
    if arguments:
        assert out.count(" the fake backend\n") == 1
        assert out.count(" the fine backend\n") == (hook == "backends"), "of two called alike the first"


def test_two_functions_for_one_key_and_a_second_conflict(install: Install, listed: List) -> None:
    loader = LoaderInfo("hub", bool, str, "hub:NAME")
    install("one", "a-pack", profiler_functions=make_computing(ComputeDepth()), model_loaders=make_offering(loader))
    install("two", "b-pack", profiler_functions=make_computing(ComputeOtherDepth()), backends=make_offering(FINE))
    code, out, err = listed()
    assert code == 3
    assert err.startswith("Error: two plugins offer status key 'depth' to the fine backend: 'one' of a-pack 1.0 and")
    assert find_lines(out, "hub") == ["hub                        hub:NAME"]

    install("three", "c-pack", backends=make_offering(FINE), model_loaders=make_offering(loader))
    plugins.forget()
    code, out, err = listed("--verbose")
    assert code == 3
    assert [line.partition(": '")[0] for line in err.splitlines()] == [
        "Error: two plugins offer backend 'fine'",
        "Error: two plugins offer model loader 'hub'",
        "Error: two plugins offer status key 'depth' to the fine backend",
    ]
    assert len(find_lines(out, "hub")) == 2
    assert len(find_lines(out, "ComputeDepth")) == 1


@pytest.mark.filterwarnings("always")
def test_what_is_no_status_key_is_left_out_and_said_once(install: Install, listed: List) -> None:
    install("one", "a-pack", status_keys=make_offering(Depth, int))
    install("two", "b-pack", status_keys=make_offering(OtherDepth))
    code, out, err = listed()
    assert code == 3
    assert err.count("offers <class 'int'>, which is no StatusKey with a NAME") == 1
    assert "two plugins offer status key 'depth'" in err
    assert find_lines(out, "depth") == [
        "depth                      How deep it is.",
        "depth                      How deep it is to others.",
    ]


def test_formulas_in_conflict_are_said_in_the_line_of_the_backend(install: Install, listed: List) -> None:
    class Counting(Named):
        def add_costs(self, costs: Any) -> None:
            pass

    def costs(backend: Any) -> Any:
        return {"mylib::op": len}

    install("one", "a-pack", op_costs=costs, backends=make_offering(backend("fine", Counting)))
    install("two", "b-pack", op_costs=costs, renderers=make_offering(DRAWN))
    code, out, err = listed()
    assert code == 3
    message = "two plugins offer a cost formula for mylib::op to the fine backend: 'one' of a-pack 1.0 and"
    assert message in find_lines(out, "fine")[0]
    assert message in err
    assert find_lines(out, "drawn")


def test_plugins_that_are_called_alike_have_their_own_files(install: Install, listed: List, tmp_path: Path) -> None:
    files = {}
    for package in ("a-pack", "b-pack", "c-pack"):
        files[package] = tmp_path / f"{package}.py"
        files[package].write_text("", encoding="utf-8")
        install("same", package).__file__ = str(files[package])
    code, out, err = listed("--verbose")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for package, file in files.items():
        [number] = [number for number, line in enumerate(lines) if f" {package} 1.0 " in line]
        assert lines[number + 1].strip() == f"{file}:1"


def never_loaded() -> Any:
    raise AssertionError("loaded")


def versions(**facts: str) -> Callable[[], Mapping[str, str]]:
    return lambda: facts


def test_a_backend_that_says_what_is_installed_is_loaded_for_the_long_list_alone(
    install: Install, listed: List
) -> None:
    quick = BackendInfo("quick", ("quick",), never_loaded, "my-quick", installed=versions(quicklib="1.2", base="3"))
    install("one", "pack", backends=make_offering(quick), status_keys=make_offering(Depth))
    code, out, err = listed()
    assert (code, err) == (0, "")
    assert find_lines(out, "quick") == ["quick                      quicklib 1.2, base 3"]
    assert "Status keys\n  depth " in out
    code, out, err = listed("--verbose")
    assert (code, err) == (0, "")
    assert "the quick backend of plugin 'one' of pack 1.0 cannot be used: AssertionError: loaded" in out


def _for(backend: Any, name: str) -> list[ProfilerFunction]:
    return [ComputeDepth()] if backend.name == name else []


def test_functions_in_conflict_for_the_second_of_two_backends_are_said(install: Install, listed: List) -> None:
    quick = [BackendInfo(name, (name,), never_loaded, name, installed=versions(base="3")) for name in ("first", "then")]
    install("one", "a-pack", backends=lambda: quick, profiler_functions=lambda backend: _for(backend, "then"))
    install("two", "b-pack", profiler_functions=make_computing(ComputeOtherDepth()))
    code, _, err = listed()
    assert code == 3
    assert err.startswith("Error: two plugins offer status key 'depth' to the then backend: 'one' of a-pack 1.0 and")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ImportError("No module named 'quicklib'"),
            "the quick backend cannot be used: No module named 'quicklib'; install it with: pip install 'my-quick'",
        ),
        (
            OSError("no\nmetadata"),
            "installed() of the quick backend failed: OSError: no metadata; to do without it, set "
            "PROFILERKIT_DISABLE_PLUGINS=one, or run profilerkit --no-plugins",
        ),
        (
            SystemExit(3),
            "installed() of the quick backend failed: SystemExit: 3; to do without it, set "
            "PROFILERKIT_DISABLE_PLUGINS=one, or run profilerkit --no-plugins",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_is_not_installed_is_said_in_its_line(install: Install, listed: List, error: Any, said: str) -> None:
    quick = BackendInfo("quick", ("quick",), never_loaded, "my-quick", installed=make_raising(error))
    install("one", "pack", backends=make_offering(quick, FINE))
    code, out, err = listed()
    assert (code, err) == (0, "")
    assert find_lines(out, "quick") == [f"quick                      {said}"]
    assert "the quick backend\n" not in out, "it has no functions to list"
    assert find_lines(out, "fine") == ["fine                       finelib 1.2"]


def test_an_entry_is_a_line_of_its_own_but_in_a_terminal(
    install: Install, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = RendererInfo("tidy", lambda: str, "words " * 20)
    install("forms", "forms", renderers=lambda: [renderer])
    assert f"  {'tidy':<26} {'words ' * 20}".rstrip() in listed()[1].splitlines()
    monkeypatch.setenv("COLUMNS", "60")
    lines = [line for line in listed()[1].splitlines() if "words" in line]
    # 60 columns have 31 beside the names, which hold five words of six.
    assert lines == [f"  {'tidy':<26} {' '.join(['words'] * 5)}", *[" " * 29 + " ".join(["words"] * 5)] * 3]
