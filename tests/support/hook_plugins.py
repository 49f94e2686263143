"""Plugins that code registers, and a backend that takes their cost formulas."""

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from plugin_fixtures import EntryPoints

from profilerkit import BackendInfo, LoaderInfo, RegistrationConflictError, RendererInfo, hookimpl
from profilerkit.costs import Cost, CostRegistry
from profilerkit.hooks.hook_manager import Manager
from profilerkit.hooks.manager import list_offers
from profilerkit.hooks.manager import manager as plugin_manager
from profilerkit.testing import FakeBackend

HOOK = "profilerkit_renderers"


@pytest.fixture
def manager(entry_points: EntryPoints) -> Manager:
    """The plugin manager, with nothing installed."""
    return plugin_manager()


def make_plugin(**hooks: Callable[..., Any]) -> types.ModuleType:
    """Return a plugin with hooks given by name without their prefix, marked already where they need options."""
    plugin = types.ModuleType("made_by_the_test")
    for name, hook in hooks.items():
        marked = hook if hasattr(hook, "profilerkit_impl") else hookimpl(hook)
        setattr(plugin, f"profilerkit_{name}", marked)
    return plugin


def mark_hook(hook: Callable[..., Any], **marks: bool | str) -> Callable[..., Any]:
    """Return a hook marked with options that are worked out."""
    mark: Any = hookimpl
    made: Callable[..., Any] = mark(hook, **marks)
    return made


def make_drawing(*names: str) -> Callable[[], list[RendererInfo]]:
    return lambda: [RendererInfo(name, lambda: str) for name in names]


def renderer_names() -> list[str]:
    return [offer.item.name for offer in list_offers(HOOK, RendererInfo)]


def sources() -> list[tuple[str, str]]:
    return [(offer.plugin.name, offer.item.name) for offer in list_offers(HOOK, RendererInfo)]


def loader(name: str, prefix: str, load: Callable[[str], Any] = lambda spec: spec) -> LoaderInfo:
    return LoaderInfo(name, lambda spec: spec.startswith(prefix), load, f"{prefix}NAME")


class Priced(FakeBackend):
    """Takes cost formulas, as a framework's backend does: for all its instances."""

    name = "priced"
    shares_costs: ClassVar[bool] = True
    costs: ClassVar[dict[Any, Any]] = {}

    def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
        for op in costs:
            if op in ("own", *self.costs):
                raise RegistrationConflictError(f"operator {op} has a cost formula already")
        self.costs.update(costs)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> BackendInfo:
    """A backend that takes formulas and has none."""
    monkeypatch.setattr(Priced, "costs", {})
    return BackendInfo("priced", ("profilerkit",), Priced, "priced")


def free(*args: Any, **kwargs: Any) -> Cost:
    return Cost(0, 0)


@contextmanager
def lasting_for_a_test(costs: CostRegistry) -> Iterator[None]:
    """Let formulas that stay, as those of plugins do, end with the block."""
    with costs._within((costs._as_shipped, costs._lasting._replace(formulas=dict(costs._lasting.formulas)))):
        yield
