"""The signature is the contract; who wins where two functions claim one key."""

import warnings
from typing import Any, ClassVar

import pytest

from profilerkit import (
    ExternalProfilerFunction,
    Metric,
    ProfilerFunction,
    RegistrationConflictError,
    RegistrationWarning,
    StatusKey,
    UnknownStatusError,
)
from profilerkit.piping.function import describe
from profilerkit.piping.registry import Registry


class One(Metric):
    NAME = "one"


class Two(Metric):
    NAME = "two"


class Compute(ProfilerFunction):
    """Computes the keys it is given."""

    def __init__(self, *keys: Any) -> None:
        self.keys = keys

    def get_bounded_status_keys(self) -> Any:
        return self.keys[0] if len(self.keys) == 1 else self.keys

    def __call__(self, model: Any) -> Any:
        return dict.fromkeys([key.NAME for key in self.list_keys()], 1)


def holder(registry: Registry, name: str) -> ProfilerFunction:
    return registry[name].function


@pytest.mark.parametrize("keys", [(One,), (One(),), (One, Two), ([One, Two],)])
def test_keys_are_classes_or_instances_one_or_several(keys: Any) -> None:
    names = [key.NAME for key in Compute(*keys).list_keys()]
    assert names == ["one", "two"][: len(names)]


def test_the_singular_spelling_of_the_document_works() -> None:
    class Singular(ProfilerFunction):
        def get_bounded_status_key(self) -> Any:
            return (One,)

        def __call__(self, model: Any) -> int:
            return 1

    assert [key.NAME for key in Singular().list_keys()] == ["one"]


class NoKeys(ProfilerFunction):
    def __call__(self, model: Any) -> int:
        return 1


class Nameless(Metric):
    pass


class Reserved(Metric):
    NAME = "model"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (NoKeys(), "NoKeys does not say what it computes: define get_bounded_status_keys"),
        (Compute(()), "Compute is bound to no status key"),
        (Compute(One, One), "bound to the same status key twice: one, one"),
        (Compute("macs"), "bound to 'macs', which is no StatusKey class or instance"),
        (Compute(Nameless), "status key Nameless of Compute has no NAME"),
        (Compute(Two, Reserved), "a status key cannot be called 'model', every profiler provides that"),
        (Compute, r"it is a class; give an instance, Compute\(\)"),
        (len, "it is no ProfilerFunction; wrap it: ComputeEvalMetric"),
    ],
)
def test_what_cannot_be_registered_leaves_no_trace(function: Any, message: str) -> None:
    registry = Registry()
    with pytest.raises(TypeError, match=message):
        registry.register(function)
    assert registry.names() == ()


def test_registering_the_same_function_again_changes_nothing() -> None:
    registry = Registry()
    function = Compute(One)
    registry.register(function)
    registry.register(function)
    assert holder(registry, "one") is function
    overriding = Compute(Two)
    registry.register(overriding, override=True)
    registry.register(overriding, override=True)
    assert holder(registry, "two") is overriding


def test_a_parameter_that_could_never_be_passed_is_refused() -> None:
    class Strict(Compute):
        def __call__(self, strict: bool = False) -> Any:
            return strict

    with pytest.raises(TypeError, match="Strict has a parameter 'strict', which the methods of a profiler"):
        Registry().register(Strict(One))


class Variadic(Compute):
    def __call__(self, model: Any, **others: Any) -> Any:
        return 1


class Positional(Compute):
    def __call__(self, model: Any, /, *, scale: int = 2) -> Any:
        return 1


@pytest.mark.parametrize("function", [Variadic(One), Positional(One)], ids=lambda function: type(function).__name__)
def test_what_cannot_be_passed_by_name_cannot_be_piped(function: ProfilerFunction) -> None:
    assert not function.can_pipe()
    assert Compute(One).can_pipe()
    with pytest.raises(TypeError, match=r"cannot register \w+: .*\*args, \*\*kwargs or / in its"):
        Registry().register(function)


def test_plain_over_plain_replaces_with_a_warning() -> None:
    registry = Registry()
    old, new = Compute(One, Two), Compute(One)
    registry.register(old)
    with pytest.warns(RegistrationWarning, match="Compute no longer computes 'one': Compute replaces it"):
        registry.register(new)
    assert holder(registry, "one") is new
    assert holder(registry, "two") is old, "the other keeps its other keys"


@pytest.mark.parametrize("override_first", [True, False])
def test_override_wins_before_and_after_in_silence(override_first: bool) -> None:
    registry = Registry()
    plain, override = Compute(One), Compute(One)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (override, plain) if override_first else (plain, override):
            registry.register(function, override=function is override)
    assert holder(registry, "one") is override


def test_two_overrides_conflict_and_the_failed_one_leaves_no_trace() -> None:
    registry = Registry()
    first = Compute(One)
    registry.register(first, override=True)
    with pytest.raises(RegistrationConflictError, match="both registered with override=True for status key 'one'"):
        registry.register(Compute(Two, One), override=True)
    assert registry.names() == ("one",)
    assert holder(registry, "one") is first
    assert issubclass(RegistrationConflictError, RuntimeError)


def test_an_unknown_name_lists_the_known_ones_nearest_first() -> None:
    registry = Registry()
    registry.register(Compute(One, Two))
    with pytest.raises(UnknownStatusError) as caught:
        registry["twoo"]
    assert str(caught.value) == "unknown metric 'twoo'; this profiler knows, nearest first: two, one"
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnknownStatusError, match="none: register a ProfilerFunction first"):
        Registry()["one"]


def test_a_copy_changes_on_its_own() -> None:
    registry = Registry()
    registry.register(Compute(One))
    twin = registry.copy()
    twin.register(Compute(Two))
    assert (registry.names(), twin.names()) == (("one",), ("one", "two"))
    assert twin["one"] == registry["one"]


def test_replacing_a_function_keeps_its_precedence() -> None:
    registry = Registry()
    old, new = Compute(One), Compute(One, Two)
    registry.register(old, override=True)
    registry.replace_function(old, new)
    assert registry["one"].function is registry["two"].function is new
    assert registry["two"].override


def evaluate(network: Any, loader: Any, /, threshold: float = 0.5) -> Any:
    return network, loader, threshold


def test_an_external_functions_first_two_parameters_may_have_any_name() -> None:
    function = ExternalProfilerFunction(evaluate, One)
    assert list(function.parameters()) == ["model", "data_splits", "threshold"]
    assert function.can_pipe()
    assert function(model="m", data_splits="d", threshold=1) == ("m", "d", 1)
    assert function("m", "d") == ("m", "d", 0.5)
    assert describe(function) == "ExternalProfilerFunction(evaluate)"


def test_an_external_function_may_be_any_callable_and_keys_may_come_from_a_subclass() -> None:
    class Evaluator:
        def __call__(self, model: Any, data: Any) -> int:
            return 1

    class Mine(ExternalProfilerFunction):
        def get_bounded_status_keys(self) -> type[StatusKey]:
            return One

    assert [key.NAME for key in Mine(Evaluator()).list_keys()] == ["one"]
    with pytest.raises(TypeError, match="does not say what it computes"):
        ExternalProfilerFunction(Evaluator()).list_keys()


@pytest.mark.parametrize(
    "function", [lambda: 1, lambda model: 1, lambda model, *, data: 1, lambda *args: 1, lambda model, *rest: 1]
)
def test_an_external_function_must_take_model_and_data_in_front(function: Any) -> None:
    with pytest.raises(TypeError, match="must take the model and the data as its first two positional parameters"):
        ExternalProfilerFunction(function, One)


@pytest.mark.parametrize("function", [lambda model, data, *rest: 1, lambda model, data, **rest: 1])
def test_a_variadic_external_function_cannot_be_registered(function: Any) -> None:
    external = ExternalProfilerFunction(function, One)
    assert not external.can_pipe()
    with pytest.raises(TypeError, match="name its parameters"):
        Registry().register(external)


def test_a_callable_without_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="has no signature to read"):
        ExternalProfilerFunction(iter, One)


def test_keys_are_a_class_attribute_where_they_are_always_the_same() -> None:
    class Constant(ProfilerFunction):
        KEYS: ClassVar[Any] = (One, Two())

        def __call__(self, model: Any) -> Any:
            return {"one": 1, "two": 2}

    class Single(Constant):
        KEYS = One

    class Chosen(Constant):
        def get_bounded_status_keys(self) -> Any:
            return Two

    named = [[key.NAME for key in function.list_keys()] for function in (Constant(), Single(), Chosen())]
    assert named == [["one", "two"], ["one"], ["two"]]
    with pytest.raises(TypeError, match=r"NoKeys does not say what it computes: .*, or set KEYS"):
        NoKeys().list_keys()
