"""What backends may offer beyond `Backend`, and what is said of one that does not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, runtime_checkable

import pytest
from click.testing import CliRunner

from profilerkit import Backend, BackendInfo, ModelInputs, NotOfferedError, Profiler, protocols
from profilerkit.cli.doctor_command import command
from profilerkit.hooks.backend_additions import list_capabilities
from profilerkit.hooks.plugin_info import Offer, PluginInfo
from profilerkit.protocols import (
    CAPABILITIES,
    FitsInputs,
    KeepsApart,
    NoticesTraining,
    OpensModels,
    TimesLayers,
    Trains,
    Watches,
    find_capability,
    fit_inputs,
    require_capability,
    suspend_modes,
    take_fingerprint,
)
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor
from profilerkit.times.layer_times import LayerTime
from profilerkit_metrics import (
    ComputeLayerTimes,
    ComputeMeasuredMemory,
    ComputeOperatorTable,
    ComputeSparsity,
    ComputeTraining,
    effective_macs,
)

TEXTS = {
    "CountsNonzero": "does not count the work on nonzero weights alone",
    "MeasuresMemory": "does not measure memory",
    "ReadsWeights": "does not look for zeros among the weights",
    "TakesCosts": "takes no cost formulas",
    "TimesLayers": "does not time single layers",
    "TimesOperators": "does not time single operators",
    "Trains": "does not trace training steps",
    "Watches": "does not watch training loops",
    "WatchesLayers": "does not time layers while other code runs the model",
}


class Timing(FakeBackend):
    def layer_times(self, *args: Any, **options: Any) -> Sequence[LayerTime]:
        return []


def every_protocol() -> set[type]:
    classes = (found for found in vars(protocols).values() if inspect.isclass(found))
    return {found for found in classes if getattr(found, "_is_protocol", False) and found is not Protocol}


def test_each_protocol_is_a_capability_once() -> None:
    listed = [capability.protocol for capability in CAPABILITIES]
    assert len(listed) == len(set(listed))
    assert set(listed) == every_protocol()
    assert {found.__name__ for found in every_protocol()} <= set(protocols.__all__)


def test_the_core_of_a_backend_is_small() -> None:
    methods = {name for name, _ in inspect.getmembers(Backend, inspect.isfunction) if not name.startswith("_")}
    assert methods == {
        *("accepts", "model_name", "resolve_device", "is_tensor", "as_tensor", "random_tensor", "with_batch_size"),
        *("model_type", "usual_dtype", "count_samples", "trace", "run", "mode", "evaluate", "preserve", "environment"),
    }
    of_protocols = {name for found in every_protocol() for name in vars(found) if not name.startswith("_")}
    assert not methods & of_protocols


def test_a_backend_offers_a_protocol_if_it_has_its_methods() -> None:
    assert isinstance(Timing(), TimesLayers)
    assert not isinstance(FakeBackend(), TimesLayers)
    assert isinstance(FakeBackend(), NoticesTraining)
    backend = Timing()
    assert require_capability(backend, TimesLayers) is backend


@pytest.mark.parametrize("name", TEXTS)
def test_a_missing_protocol_is_reported(name: str) -> None:
    with pytest.raises(NotOfferedError, match=f"^the fake backend {TEXTS[name]}$"):
        require_capability(FakeBackend(), getattr(protocols, name))


def test_a_protocol_of_another_package_can_be_requested_too() -> None:
    @runtime_checkable
    class Prunes(Protocol):
        def prune(self, model: Any) -> int: ...

    class Pruning(FakeBackend):
        def prune(self, model: Any) -> int:
            return 3

    assert require_capability(Pruning(), Prunes).prune(None) == 3
    with pytest.raises(NotOfferedError, match="^the fake backend does not offer Prunes$"):
        require_capability(FakeBackend(), Prunes)


def test_a_backend_that_names_a_protocol_cannot_forget_its_method() -> None:
    class Forgetful(FakeBackend, Trains):
        pass

    with pytest.raises(TypeError, match="trace_training"):
        Forgetful()  # type: ignore[abstract]


def test_optional_methods_of_a_backend_have_a_default() -> None:
    class Bare(FakeBackend):
        fingerprint: Any = None

    backend, model, inputs = Bare(), FakeModel(), ModelInputs(FakeTensor((1, 3)))
    for protocol in (FitsInputs, KeepsApart, NoticesTraining, OpensModels, Watches):
        assert not isinstance(backend, protocol)
    assert take_fingerprint(backend, model) is None
    assert fit_inputs(backend, model, inputs) is inputs
    with suspend_modes(backend):
        assert Profiler(model, backend=backend, inputs=FakeTensor((1, 3))).model is model


@pytest.mark.parametrize(
    ("function", "key", "said"),
    [
        (ComputeLayerTimes(), "layer_times", TEXTS["TimesLayers"]),
        (ComputeOperatorTable(), "operator_table", TEXTS["TimesOperators"]),
        (ComputeTraining(), "training_macs", TEXTS["Trains"]),
        (ComputeMeasuredMemory(), "measured_memory", TEXTS["MeasuresMemory"]),
        (ComputeSparsity(), "sparsity", TEXTS["ReadsWeights"]),
        (effective_macs, "effective_macs", TEXTS["CountsNonzero"]),
    ],
)
def test_metrics_report_what_the_backend_does_not_offer(function: Any, key: str, said: str) -> None:
    profiler = Profiler(FakeModel(), backend=FakeBackend(), inputs=FakeTensor((1, 3))).register_defaults()
    profiler.register_profiler_function(function, override=True)
    profiler.compute([key])
    outcome = profiler.status_get(key, to_value=False).outcome
    assert (outcome.completeness.value, outcome.missing) == ("unavailable", (f"the fake backend {said}",))


def ask_doctor(monkeypatch: pytest.MonkeyPatch, *loads: Callable[[], Backend]) -> str:
    """Return what the doctor says of backends that are loaded so, in one line."""
    plugin = PluginInfo("fakes", "fakes")
    offers = [
        Offer(plugin, BackendInfo(f"b{number}", ("profilerkit",), load, "b")) for number, load in enumerate(loads)
    ]
    monkeypatch.setattr("profilerkit.cli.doctor_command.list_infos", lambda kind: offers)
    return " ".join(CliRunner().invoke(command, catch_exceptions=False).output.split())


def test_the_doctor_lists_the_protocols_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ask_doctor(monkeypatch, Timing)
    offered = words.partition("offers: ")[2].partition(" runs models as:")[0].split("; ")
    lacking = words.partition("does not offer: ")[2].split("; ")
    assert "times of single layers" in offered
    assert "training counts and memory" in lacking
    assert sorted([*offered, *lacking]) == sorted(
        capability.offers for capability in list_capabilities() if capability.offers
    )


def test_the_doctor_goes_on_after_a_backend_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(FakeBackend):
        def environment(self) -> Mapping[str, str]:
            raise OSError("no driver")

    def fail() -> Backend:
        raise OSError("no library")

    words = ask_doctor(monkeypatch, Broken, fail, FakeBackend)
    assert "b0 environment() of the b0 backend failed: OSError: no driver offers: " in words
    assert "b2 fake 1.0 offers: " in words
    assert "b1 the b1 backend of plugin 'fakes' of an unknown package cannot be used: OSError: no library;" in words


def test_finding_a_capability_agrees_with_isinstance() -> None:
    class Some(FakeBackend):
        def fingerprint(self, model: Any, values: bool = True) -> object:
            return None

        def apart(self) -> Any:
            return nullcontext()

    by_instance = FakeBackend()
    by_instance.open_model = lambda model: model  # type: ignore[attr-defined]
    for backend, expected in ((Some(), {NoticesTraining, KeepsApart}), (by_instance, {OpensModels})):
        found = {capability.protocol: find_capability(backend, capability.protocol) for capability in CAPABILITIES}
        assert found == {protocol: backend if isinstance(backend, protocol) else None for protocol in found}
        assert expected <= {protocol for protocol, answer in found.items() if answer is not None}
