"""Plugins: found through entry points, guarded, and never imported to be recognised."""

import sys
import types
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

import profilerkit
from profilerkit import BackendInfo, BackendNotInstalledError, PluginWarning, plugins
from profilerkit.testing import FakeBackend, FakeModel

GROUP = "profilerkit"


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[metadata.EntryPoint]]:
    """Let plugins of the test's own be all that is installed."""
    found: list[metadata.EntryPoint] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: tuple(found) if group == GROUP else ())
    for cached in (plugins.manager, plugins.installed_plugins):
        cached.cache_clear()
    yield found
    for cached in (plugins.manager, plugins.installed_plugins):
        cached.cache_clear()


def install(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint], name: str, **members: Any
) -> None:
    module = types.ModuleType(f"plugin_{name}")
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry_points.append(metadata.EntryPoint(name, module.__name__, GROUP))


def offering(*infos: BackendInfo) -> Any:
    @profilerkit.hookimpl
    def profilerkit_backends() -> list[BackendInfo]:
        return list(infos)

    return profilerkit_backends


def info(name: str, *frameworks: str) -> BackendInfo:
    class Named(FakeBackend):
        pass

    Named.name = name
    return BackendInfo(name, frameworks, Named, f"my-{name}")


def test_ours_come_through_the_same_door() -> None:
    assert {"metrics", "torch"} <= {plugin.name for plugin in plugins.installed_plugins()}
    assert all(plugin.distribution.startswith("profilerkit ") for plugin in plugins.installed_plugins())
    assert "torch" in [backend.name for backend in plugins.backends()]


def test_a_broken_plugin_is_a_warning_and_life_goes_on(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint]
) -> None:
    entry_points.append(metadata.EntryPoint("broken", "no_such_module_at_all", GROUP))
    install(monkeypatch, entry_points, "fine", profilerkit_backends=offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match="plugin 'broken' of an unknown package cannot be loaded .ModuleNotFoundEr"):
        assert plugins.find_backend(FakeModel()).name == "mine"
    assert [plugin.name for plugin in plugins.installed_plugins()] == ["fine"]


def test_a_misspelt_hook_is_reported_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint]
) -> None:
    @profilerkit.hookimpl
    def profilerkit_backend() -> None:
        """Misspelt."""

    install(monkeypatch, entry_points, "typo", profilerkit_backend=profilerkit_backend)
    with pytest.warns(PluginWarning, match="plugin 'typo' has a hook 'profilerkit_backend' that does not exist; did y"):
        plugins.manager()


def test_a_hook_that_raises_is_a_warning_and_life_goes_on(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint]
) -> None:
    @profilerkit.hookimpl
    def profilerkit_backends() -> None:
        raise OSError("no licence")

    install(monkeypatch, entry_points, "angry", profilerkit_backends=profilerkit_backends)
    install(monkeypatch, entry_points, "fine", profilerkit_backends=offering(info("mine", "profilerkit")))
    with pytest.warns(PluginWarning, match="hook profilerkit_backends of plugin 'angry' raised OSError: no licence"):
        assert [found.name for found in plugins.backends()] == ["mine"]


def test_the_first_class_that_a_backend_claims_decides(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint]
) -> None:
    """A Keras model on the torch backend is both; its own class comes first in the MRO."""
    torch_module = type("Module", (), {"__module__": "torchlike.nn"})
    keras_layer = type("Layer", (torch_module,), {"__module__": "keraslike.src.layers"})
    mine = type("MyModel", (keras_layer,), {"__module__": "user_code"})
    found = offering(info("torchlike", "torchlike"), info("keraslike", "keraslike"))
    install(monkeypatch, entry_points, "both", profilerkit_backends=found)
    assert plugins.find_backend(mine()).name == "keraslike"
    assert plugins.find_backend(torch_module()).name == "torchlike"


def test_a_backend_whose_framework_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, entry_points: list[metadata.EntryPoint]
) -> None:
    def load() -> Any:
        raise ImportError("No module named 'jaxlike'")

    broken = BackendInfo("jaxlike", ("profilerkit",), load, "profilerkit[jaxlike]")
    install(monkeypatch, entry_points, "jaxlike", profilerkit_backends=offering(broken))
    with pytest.raises(BackendNotInstalledError, match=r"the jaxlike backend cannot be used: No module .*pip install"):
        plugins.find_backend(FakeModel())
    with pytest.raises(BackendNotInstalledError):
        plugins.backend_named("jaxlike")


def test_nothing_installed_says_so(entry_points: list[metadata.EntryPoint]) -> None:
    with pytest.raises(profilerkit.BackendNotFoundError, match="none: reinstall profilerkit"):
        plugins.find_backend(FakeModel())
    with pytest.raises(profilerkit.BackendNotFoundError, match="no backend 'torch'; installed, nearest first: none"):
        plugins.backend_named("torch")


def test_torch_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_torch import plugin

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="2.1.0+cpu"))
    with pytest.raises(ImportError, match=r"torch 2.1.0\+cpu is too old, 2.10 or newer is needed"):
        plugin.load()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch"):
        plugin.load()
