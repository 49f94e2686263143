"""When a plugin is loaded, in which order, and how it is switched off."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hook_plugins import loader
from plugin_fixtures import EntryPoints, add_entry_point, info, make_offering, make_raising
from time_limits import run_python

import profilerkit
from profilerkit import (
    BackendInfo,
    InputError,
    PluginWarning,
    RegistrationConflictError,
    RendererInfo,
    hookimpl,
)
from profilerkit.hooks import offers as plugins
from profilerkit.hooks.backends import backend_named, backends
from profilerkit.hooks.manager import describe_disabled, limit_to_own_plugins, list_disabled_plugins, list_plugins
from profilerkit.hooks.manager import manager as plugin_manager
from profilerkit.hooks.renderers import list_forms, renderer
from profilerkit.models import loaders
from profilerkit.models.recognition import find_backend
from profilerkit.testing import FakeModel

# Loading --------------------------------------------------------------------------------------------------------------


def test_loading_is_lazy() -> None:
    code = """
import sys, profilerkit
from click.testing import CliRunner
from profilerkit.cli import cli
assert CliRunner().invoke(cli, ["--version"]).exit_code == 0
loaded = {"profilerkit.builtin", "profilerkit_metrics.plugin", "profilerkit_torch.plugin"}
print(loaded & set(sys.modules))
from profilerkit.hooks.manager import manager; manager()
print(loaded <= set(sys.modules))
for arguments in (["--help"], ["profile", "--help"], ["list", "--help"]):  # commands are those of plugins too
    assert CliRunner().invoke(cli, arguments).exit_code == 0
print({"torch", "tensorflow", "jax", "onnx", "sqlalchemy", "matplotlib"} & set(sys.modules))
"""
    done = run_python(code)
    assert done.stdout.split() == ["set()", "True", "set()"]


def test_own_plugins_come_first_and_the_others_by_package(install: Any, core: None) -> None:
    install("b", "zebra")
    install("a", "yak")
    assert [plugin.name for plugin in list_plugins()] == [
        "core",
        "audits",
        "budgets",
        "pages",
        "predict",
        "a",
        "b",
    ]


def test_two_packages_may_have_plugins_of_the_same_name(install: Any) -> None:
    install("same", "one", backends=make_offering(info("first", "x")))
    install("same", "two", backends=make_offering(info("second", "y")))
    assert [backend.name for backend in backends()] == ["first", "second"]
    assert [str(plugin) for plugin in list_plugins()] == ["'same' of one 1.0", "'same' of two 1.0"]


@pytest.mark.parametrize("metadata", [None, "", "\udcff"])
def test_what_an_uninstallation_has_left_is_reported_and_the_others_run(metadata: str | None, tmp_path: Path) -> None:
    """The package has entry points, and no metadata or damaged metadata: nobody knows its name."""
    left = tmp_path / "half-1.0.dist-info"
    left.mkdir()
    (left / "entry_points.txt").write_text("[profilerkit]\nhalf = no_such_module_at_all\n")
    if metadata is not None:
        (left / "METADATA").write_bytes(metadata.encode("utf-8", "surrogateescape"))
    code = f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
from profilerkit.hooks.manager import list_plugins
with warnings.catch_warnings(record=True) as caught:
    names = [plugin.name for plugin in list_plugins()]
told = [str(warning.message) for warning in caught]
print("core" in names, "half" in names, len(told), "'half' of an unknown package cannot be loaded" in told[0])
"""
    assert run_python(code).stdout.split() == ["True", "False", "1", "True"]


@pytest.mark.parametrize("text", [b"[profilerkit]\nhalf\n", b"\xff"])
def test_a_damaged_file_of_entry_points_is_reported_and_the_others_run(text: bytes, tmp_path: Path) -> None:
    """One is damaged; of a package that is there twice the first counts, as without the damage."""
    for place, name, content in (
        ("first", "half", text),
        ("first", "twice", b"[profilerkit]\nmine = colorsys\n"),
        ("second", "twice", b"[profilerkit]\nolder = no_such_module_at_all\n"),
    ):
        package = tmp_path / place / f"{name}-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (package / "entry_points.txt").write_bytes(content)
    code = f"""
import sys, warnings
sys.path[:0] = [{str(tmp_path / "first")!r}, {str(tmp_path / "second")!r}]
from profilerkit.hooks.manager import list_plugins
with warnings.catch_warnings(record=True) as caught:
    names = [plugin.name for plugin in list_plugins()]
told = [str(warning.message) for warning in caught]
print("core" in names, "mine" in names, len(told), "entry_points.txt of half cannot be read" in told[0])
"""
    assert run_python(code).stdout.split() == ["True", "True", "1", "True"]


def test_a_module_cannot_be_two_plugins(install: Any, entry_points: EntryPoints) -> None:
    module = install("first", "mine", backends=make_offering(info("fake", "x")))
    add_entry_point(entry_points, "second", module.__name__, "mine")
    with pytest.warns(PluginWarning, match="plugin 'second' of mine 1.0 cannot be loaded .*same as plugin 'first' of"):
        assert len(backends()) == 1


def test_a_plugin_with_a_wrong_parameter_is_not_registered(install: Any) -> None:
    def wrong(framework: Any) -> list[BackendInfo]:
        raise AssertionError("never called")

    install("wrong", "odd", backends=wrong, renderers=make_offering(RendererInfo("mine", lambda: str)))
    with pytest.warns(PluginWarning, match="plugin 'wrong' of odd 1.0 cannot be loaded .PluginValidationError"):
        assert backends() == ()
    assert list_plugins() == ()
    assert list_forms() == []


def test_a_hook_implementation_may_have_another_name(install: Any) -> None:
    module = install("other", "my-other")
    vars(module)["my_backends"] = hookimpl(make_offering(info("fake", "x")), specname="profilerkit_backends")
    assert [backend.name for backend in backends()] == ["fake"]


def test_a_hook_that_is_not_marked_is_reported(install: Any) -> None:
    module = install("plain", "plain-pack")
    vars(module)["profilerkit_backends"] = make_offering(info("fake", "x"))
    with pytest.warns(
        PluginWarning, match="'plain' of plain-pack 1.0 has a function 'profilerkit_backends' that is no"
    ):
        plugin_manager()


def test_an_interrupted_loading_leaves_nothing_loaded(install: Any, entry_points: EntryPoints) -> None:
    """A warning that the user made an error stops the loading; the next use starts again."""
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "a-broken")
    install("fine", "b-fine", backends=make_offering(info("mine", "profilerkit")))
    for _ in range(2):
        with pytest.raises(PluginWarning, match="cannot be loaded"):
            backends()


def test_a_plugin_may_use_the_manager_while_it_is_loaded(
    entry_points: EntryPoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking_plugin.py").write_text("from profilerkit.hooks.manager import manager\nmine = manager()")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "asking_plugin", raising=False)
    add_entry_point(entry_points, "asking", "asking_plugin")
    assert plugin_manager() is sys.modules["asking_plugin"].mine


def test_configure_is_called_once_with_all_plugins_there(install: Any) -> None:
    seen: list[list[str]] = []

    def configure(manager: Any) -> None:
        assert manager is plugin_manager()
        seen.append(sorted(name for name, _ in manager.list_name_plugin()))

    install("a", "one", configure=configure)
    install("b", "two", backends=make_offering(info("mine", "profilerkit")))
    backends()
    find_backend(FakeModel())
    assert seen == [["a", "b"]]


# Switching off --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["mine", " MINE ,", "my-pack", "My_Pack", "other,mine"])
def test_a_plugin_is_disabled_by_its_name_or_its_package(
    install: Any, core: None, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    install("mine", "my-pack", backends=make_raising(AssertionError("never called")))
    install("other", "other-pack")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", names)
    assert backends() == ()
    assert "mine" in [plugin.name for plugin in list_disabled_plugins()]
    assert "mine" not in [plugin.name for plugin in list_plugins()]
    with pytest.raises(profilerkit.BackendNotFoundError, match=r"nearest first: none .plugins switched off: mine"):
        backend_named("x")


def test_a_disabled_plugin_is_not_imported(entry_points: EntryPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    add_entry_point(entry_points, "broken", "no_such_module_at_all", "my-broken")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "broken")
    assert list_plugins() == ()


def test_disabling_an_unknown_plugin_is_a_warning(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("energy", "profilerkit-energy")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "enrgy")
    message = (
        "PROFILERKIT_DISABLE_PLUGINS names 'enrgy', which is no plugin; installed, nearest first: energy, profilerk"
    )
    with pytest.warns(PluginWarning, match=message):
        plugin_manager()


def test_own_plugins_only_and_then_all_of_them(install: Any, core: None) -> None:
    install("mine", "my-pack", renderers=make_offering(RendererInfo("mine", lambda: str)))
    names = list_forms()
    with limit_to_own_plugins():
        own = list_forms()
        assert [plugin.name for plugin in list_disabled_plugins()] == ["mine"]
    assert {"table", "json"} <= set(own)
    assert list_forms() == names == [*own, "mine"]


def test_plugins_of_the_same_name_are_disabled_by_their_package(
    install: Any, core: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = {
        "model_loaders": make_offering(loader("hub", "hub:")),
        "renderers": make_offering(RendererInfo("x", lambda: str)),
    }
    install("same", "my-one", **taking)
    install("Same", "my-two", **taking | {"model_loaders": make_offering(loader("hubs", "hub"))})
    with pytest.raises(RegistrationConflictError, match="switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=my-two$"):
        renderer("x")
    with pytest.raises(InputError, match="switch one off: PROFILERKIT_DISABLE_PLUGINS=my-two$"):
        loaders.load_model("hub:net")
    monkeypatch.setenv("PROFILERKIT_DISABLE_PLUGINS", "my-two")
    plugins.forget()
    assert describe_disabled() == " (plugins switched off: Same (my-two 1.0))"
    assert loaders.load_model("hub:net") == "hub:net"


def test_a_package_with_the_name_of_another_packages_plugin(install: Any) -> None:
    for name, package in (("energy", "aaa"), ("other", "energy"), ("unknown", ""), ("unknown", "zzz")):
        install(name, package)
    said = [plugin.disable_setting.partition("=")[2] for plugin in list_plugins()]
    assert sorted(said) == ["aaa", "other", "unknown", "zzz"]
