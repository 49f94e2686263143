"""Capabilities that plugins add to backends that exist."""

from typing import Any

import pytest
from plugin_fixtures import FAKE, make_offering

from profilerkit import NotOfferedError, PluginWarning, profile
from profilerkit.plugging.offered_formulas import equip
from profilerkit.protocols import HoldsOptimizer, NamesDevices, abilities, require_capability
from profilerkit.testing import FakeBackend, FakeModel


class Optimizer:
    def __init__(self, state: int) -> None:
        self.state = state

    def optimizer_state(self, model: Any) -> int:
        return self.state


def test_a_capability_that_a_backend_lacks_comes_from_a_plugin(install: Any, core: None) -> None:
    asked = []

    def capabilities(backend: Any) -> list[object]:
        asked.append(backend.name)
        return [object(), Optimizer(12)]

    install("states", capabilities=capabilities)
    backend = equip(FakeBackend())
    assert require_capability(backend, HoldsOptimizer).optimizer_state(FakeModel()) == 12
    assert asked == ["fake"]
    assert abilities(backend)["the optimizer that a model is compiled with"]
    with pytest.raises(NotOfferedError, match="the fake backend does not name the devices of this machine"):
        require_capability(backend, NamesDevices)


def test_without_plugins_it_is_missing(entry_points: Any) -> None:
    with pytest.raises(NotOfferedError, match="the fake backend compiles no models with an optimizer"):
        require_capability(equip(FakeBackend()), HoldsOptimizer)
    assert not abilities(equip(FakeBackend()))["the optimizer that a model is compiled with"]


def test_a_backends_own_capability_comes_first(install: Any, core: None) -> None:
    class Backend(FakeBackend):
        def optimizer_state(self, model: Any) -> int:
            return 1

    install("states", capabilities=make_offering(Optimizer(12)))
    assert require_capability(equip(Backend()), HoldsOptimizer).optimizer_state(FakeModel()) == 1


def test_a_plugin_that_fails_adds_nothing(install: Any, core: None) -> None:
    install("states", backends=make_offering(FAKE), capabilities=lambda backend: backend.no_such_method())
    with pytest.warns(PluginWarning, match="hook profilerkit_capabilities of plugin 'states'"):
        assert profile(FakeModel(), name="net").name == "net"
        with pytest.raises(NotOfferedError):
            require_capability(equip(FakeBackend()), HoldsOptimizer)


def test_a_class_in_place_of_an_object_is_left_out(install: Any, core: None) -> None:
    install("states", capabilities=make_offering(Optimizer))
    with pytest.warns(
        PluginWarning, match=r"offers the class Optimizer, which .* out; return an object, Optimizer\(\)"
    ):
        backend = equip(FakeBackend())
    assert backend.extensions == ()
