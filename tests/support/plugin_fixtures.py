"""Plugins of a test's own, installed for as long as it runs."""

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import pytest

from profilerkit import BackendInfo, Metric, ProfilerFunction, StatusKey, hookimpl
from profilerkit.hooks import offers as plugins
from profilerkit.testing import FakeBackend
from profilerkit.trace.completeness import TracePart

GROUP = "profilerkit"
EntryPoints = list[metadata.EntryPoint]


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[EntryPoints]:
    """Let plugins of the test's own be all that is installed."""
    found: EntryPoints = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: tuple(found) if group == GROUP else ())
    monkeypatch.delenv("PROFILERKIT_DISABLE_PLUGINS", raising=False)
    plugins.forget()
    yield found
    plugins.forget()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, entry_points: EntryPoints) -> Callable[..., types.ModuleType]:
    """Install a plugin with hooks given by name, those without their prefix too; in a package, or in an unknown one."""

    def add(name: str, package: str = "", version: str = "1.0", **hooks: Any) -> types.ModuleType:
        module = types.ModuleType(f"plugin_{name}_{package}".replace("-", "_"))
        for one_name, hook in hooks.items():
            hook_name = one_name if one_name.startswith("profilerkit_") else f"profilerkit_{one_name}"
            setattr(module, hook_name, hookimpl(hook))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        add_entry_point(entry_points, name, module.__name__, package, version)
        return module

    return add


def add_entry_point(entry_points: EntryPoints, name: str, module: str, package: str = "", version: str = "1.0") -> None:
    point = metadata.EntryPoint(name, module, GROUP)
    vars(point)["dist"] = types.SimpleNamespace(name=package, version=version) if package else None
    entry_points.append(point)


@pytest.fixture
def core(entry_points: EntryPoints) -> None:
    """Install what profilerkit offers beside metrics and backends."""
    add_entry_point(entry_points, "core", "profilerkit.builtin", "profilerkit", "0.1")
    for name in ("audits", "budgets", "pages", "predict"):
        add_entry_point(entry_points, name, f"profilerkit_{name}.plugin", "profilerkit", "0.1")


def make_offering(*items: Any) -> Callable[[], Sequence[Any]]:
    """Return a hook that takes nothing and offers these."""

    def hook() -> Sequence[Any]:
        return items

    return hook


def make_raising(error: BaseException) -> Callable[[], Any]:
    def hook() -> Any:
        raise error

    return hook


def info(name: str, *frameworks: str) -> BackendInfo:
    class Named(FakeBackend):
        pass

    Named.name = name
    return BackendInfo(name, frameworks, Named, f"my-{name}")


FAKE = info("fake", "profilerkit")


class Depth(Metric):
    """How deep it is."""

    NAME = "depth"
    DERIVED_FROM = TracePart.WEIGHTS  # it is known without a run


class ComputeDepth(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[StatusKey]:
        return Depth

    def __call__(self, trace: Any) -> int:
        return len(trace.layers)
