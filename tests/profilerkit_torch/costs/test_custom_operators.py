"""Operators that nobody has a formula for: a count that misses them says so, and is refused where all is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tiny import Call, ones, trace
from torch import nn

from profilerkit import IncompleteStatusError, profile

LINEAR = 2 * 8 * 8


@pytest.fixture(params=[True, False], ids=["with a fake kernel", "without one"])
def attend(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[..., Any], bool]]:
    """A custom operator in Python, and whether it says what its outputs are like."""

    @torch.library.custom_op("profilerkit_custom::attend", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(8, 8)

    if request.param:

        @operator.register_fake
        def _(x: torch.Tensor) -> torch.Tensor:
            return torch.empty_like(x)

    yield operator, request.param
    operator._lib._destroy()


def make_model(operator: Callable[..., Any]) -> nn.Module:
    return Call(lambda self, x: operator(operator(self.layer(x))), layer=nn.Linear(8, 8, bias=False))


def test_a_custom_operator_is_named_and_makes_the_count_partial(attend: tuple[Any, bool]) -> None:
    operator, has_fake = attend
    found = trace(make_model(operator), ones(2, 8))
    assert found.failure is None
    assert found.uncounted == {"profilerkit_custom::attend": 2}
    assert found.macs == LINEAR
    assert found.method == ("meta tensors" if has_fake else "a real run")
    status = profile(make_model(operator), ones(2, 8), metrics=["macs", "flops"]).status("macs")
    assert (status.value, status.completeness.value) == (LINEAR, "partial")
    assert status.missing == ("profilerkit_custom::attend (2 calls)",)


def test_strict_refuses_a_partial_count_and_names_the_operator(attend: tuple[Any, bool]) -> None:
    operator, _ = attend
    with pytest.raises(IncompleteStatusError, match=r"macs of Call is partial: profilerkit_custom::attend \(2 calls\)"):
        profile(make_model(operator), ones(2, 8), metrics=["macs"], strict=True)
    report = profile(make_model(operator), ones(2, 8), metrics=["total_params"], strict=True)
    assert report["total_params"] == 64


def test_leaving_out_the_layer_that_holds_it_makes_the_count_whole(attend: tuple[Any, bool]) -> None:
    operator, _ = attend
    model = nn.Sequential(nn.Linear(8, 8, bias=False), Call(lambda self, x: operator(x)))
    report = profile(model, ones(2, 8), metrics=["macs"], ignore=["1"], strict=True)
    assert report["macs"] == LINEAR


def test_a_model_of_unsupported_operators_alone_is_no_silent_zero(attend: tuple[Any, bool]) -> None:
    operator, _ = attend
    status = profile(Call(lambda self, x: operator(x)), ones(2, 8), metrics=["macs"]).status("macs")
    assert (status.value, status.completeness.value) == (0, "partial")


def test_an_operator_without_a_kernel_for_shapes_is_run_for_real() -> None:
    """As those of extensions in C++ are that were never given one."""
    with torch.library._scoped_library("profilerkit_native", "FRAGMENT") as library:
        library.define("scan(Tensor x) -> Tensor")
        library.impl("scan", lambda x: x.clone(), "CPU")
        model = Call(
            lambda self, x: torch.ops.profilerkit_native.scan(self.layer(x)), layer=nn.Linear(8, 8, bias=False)
        )
        found = trace(model, ones(2, 8))
    assert (found.method, found.uncounted, found.macs) == ("a real run", {"profilerkit_native::scan": 1}, LINEAR)
    assert "counted in a real run: on shapes alone the model raised NotImplementedError" in found.notes[0]
