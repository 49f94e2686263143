"""Capabilities that plugins add to backends that exist."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import pytest
from plugin_fixtures import FAKE, add_entry_point, make_offering

from profilerkit import InputError, ModelInputs, NotOfferedError, PluginWarning, profile
from profilerkit.hooks.backend_additions import equip
from profilerkit.protocols import Capability, HoldsOptimizer, NamesDevices, abilities, require_capability
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor


class Optimizer:
    def __init__(self, state: int) -> None:
        self.state = state

    def optimizer_state(self, model: Any) -> int:
        return self.state


def test_a_capability_that_a_backend_lacks_comes_from_a_plugin(install: Any, core: None) -> None:
    asked = []

    def capabilities(backend: Any) -> list[object]:
        asked.append(backend.name)
        return [Various(), Optimizer(12)]

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


class Various:
    """Opens files, declares and fits inputs, refuses a metric, and counts the blocks around computations."""

    def __init__(self) -> None:
        self.blocks = 0

    def open_model(self, model: Any) -> Any:
        return FakeModel([FakeLayer("layer", macs=10)]) if isinstance(model, str) else model

    def example_inputs(self, model: Any, batch_size: int | None = None) -> ModelInputs:
        return ModelInputs(FakeTensor((3, 2)))

    def fit_inputs(self, model: Any, inputs: ModelInputs) -> ModelInputs:
        return ModelInputs(FakeTensor((2 * inputs.args[0].shape[0], 2)))

    def inapplicable(self, model: Any) -> dict[str, str]:
        return {"total_params": "it has none"}

    @contextmanager
    def apart(self) -> Iterator[None]:
        self.blocks += 1
        yield

    def ranks(self, model: Any) -> int:
        return 2


def test_what_a_profile_asks_itself_is_asked_of_plugins_too(install: Any, core: None, entry_points: Any) -> None:
    added = Various()
    install("various", capabilities=lambda backend: [added])
    add_entry_point(entry_points, "metrics", "profilerkit_metrics.plugin", "profilerkit", "0.1")
    backend = FakeBackend()
    report = profile("model.fake", backend=backend, metrics=["macs", "total_params"])
    assert report["macs"] == 10 * 2 * 3
    assert report.status("total_params").missing == ("does not apply to this model: it has none",)
    assert added.blocks > 0
    with pytest.raises(InputError, match="the model runs in 2 processes"):
        profile(FakeModel(), backend=backend, metrics=["execution_time"], strict=True, num_iters=3)


class Zeros:
    def zero_weights(self, model: Any) -> tuple[int, int]:
        return 50, 32


class Half:
    def weigh(self, model: Any) -> int:
        return 1


@runtime_checkable
class Weighs(Protocol):
    @abstractmethod
    def weigh(self, model: Any) -> int: ...
    @abstractmethod
    def measure(self, model: Any) -> int: ...


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (object(), "which has the methods of no capability; profilerkit.protocols has them"),
        (Half(), "which has no method 'measure' of Weighs"),
    ],
)
def test_an_object_that_lacks_a_method_is_named(install: Any, core: None, item: object, said: str) -> None:
    install("states", "my-states", capabilities=make_offering(item))
    install("weighing", protocols=make_offering(Capability(Weighs, "weights", "weighs nothing")))
    with pytest.warns(
        PluginWarning, match=f"^hook profilerkit_capabilities of plugin 'states' of my-states 1.0 offers .*{said}"
    ):
        equip(FakeBackend())


def test_more_zeros_than_weights_are_refused(install: Any, core: None, entry_points: Any) -> None:
    install("zeros", capabilities=make_offering(Zeros()))
    add_entry_point(entry_points, "metrics", "profilerkit_metrics.plugin", "profilerkit", "0.1")
    record = profile(FakeModel(), backend=FakeBackend(), metrics=["sparsity"]).status("sparsity")
    assert record.value is None
    assert "returned 50 zeros among 32 elements" in record.missing[0]
