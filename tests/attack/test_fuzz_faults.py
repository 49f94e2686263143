"""The fuzzer is sharp: each fault that is planted is seen in the sample of seeds that ``make test`` runs.

Only seeds whose programs do not differ without the fault are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from math import prod
from typing import Any

import pytest
import torch
from fuzz_compare import differences
from fuzz_sampled import SAMPLED, compare_seed, known
from replacing import replace

from profilerkit_torch import costs
from profilerkit_torch.costs import Cost
from profilerkit_torch.model import weights
from profilerkit_torch.trace import inference_pass as passes
from profilerkit_torch.trace import recorded_pass, recorder, replay
from profilerkit_torch.trace.kept_plans import PlanStore

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("torch_settings_put_back")]

Patch = Callable[[pytest.MonkeyPatch], None]


def _nothing(*_: Any, **__: Any) -> Cost:
    return Cost(0, 0)


def _without_groups(x: Any, weight: Any, bias: Any = None, *_: Any, out: Any, **__: Any) -> Cost:
    """Every filter over all channels."""
    return Cost.of_macs(out.numel * x[1] * prod(weight[2:]), out.numel if bias is not None else 0)


def _by_output(x: Any, weight: Any, bias: Any = None, *_: Any, out: Any, **__: Any) -> Cost:
    """A transposed convolution as if it were none."""
    return Cost.of_macs(out.numel * prod(weight[1:]), out.numel if bias is not None else 0)


def _without_bias(x: Any, weight: Any, bias: Any = None, *, out: Any) -> Cost:
    return Cost.of_macs(out.numel * x[-1])


def _change_formulas(**formulas: Callable[..., Cost]) -> Patch:
    """Have operators cost something else."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        context = costs.override({f"aten::{name}": formula for name, formula in formulas.items()})
        context.__enter__()
        monkeypatch.setattr(_Leaving, "contexts", [*_Leaving.contexts, context])

    return patch


class _Leaving:
    """Contexts that a patch has entered."""

    contexts: list[Any] = []  # noqa: RUF012 - replaced, never changed


def _change_records(changed: Callable[[Any, tuple[Any, ...]], tuple[Any, ...] | None]) -> Patch:
    """Change what is recorded of an operator, or leave it out."""
    plain = recorder.Recorder._record

    def record(self: Any, *arguments: Any) -> None:
        kept = changed(self, arguments)
        if kept is not None:
            plain(self, *kept)

    return lambda monkeypatch: monkeypatch.setattr(recorder.Recorder, "_record", record)


def _first_calls(self: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Leave out what a layer does when it is called once more."""
    return None if self.layers.current_call > 0 else arguments


def _without_sums(self: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return None if arguments[0].startswith("aten.sum") else arguments


def _remember_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that was met before costs what it did then, whatever its sizes are now."""
    kept: dict[Any, Any] = {}

    def plan_of(func: Any, *arguments: Any) -> Any:
        return kept.setdefault(func, replay.make_plan(func, *arguments))

    monkeypatch.setattr(recorder, "make_plan", plan_of)
    monkeypatch.setattr(recorded_pass, "find_plans", lambda device: PlanStore({}, {}))  # no later trace has these


def _at_the_root(plain: Callable[..., None]) -> Callable[..., None]:
    def record(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        self.operators[-1] = replace(self.operators[-1], layer="")

    return record


FAULTS: dict[str, tuple[str, Patch]] = {
    "attention counts nothing": ("macs", _change_formulas(scaled_dot_product_attention=_nothing)),
    "groups are ignored": (
        "macs",
        _change_formulas(conv1d=_without_groups, conv2d=_without_groups, conv3d=_without_groups),
    ),
    "transposed convolutions by their output": (
        "macs",
        _change_formulas(conv_transpose1d=_by_output, conv_transpose2d=_by_output, conv_transpose3d=_by_output),
    ),
    "batched products count nothing": ("macs", _change_formulas(bmm=_nothing)),
    "biases count nothing": ("flops", _change_formulas(linear=_without_bias)),
    "a layer that is called twice counts once": ("macs", _change_records(_first_calls)),
    "an operator is left out": ("operators", _change_records(_without_sums)),
    "all work is the outermost layer's": (
        "layers",
        lambda monkeypatch: monkeypatch.setattr(recorder.Recorder, "_record", _at_the_root(recorder.Recorder._record)),
    ),
    "an operator costs what it did the last time": ("operators", _remember_by_name),
    "modules stay in training mode": (
        "operators",
        lambda monkeypatch: monkeypatch.setattr(passes.InferencePass, "prepare", lambda self, model: None),
    ),
    "tied weights count twice": (
        "params",
        lambda monkeypatch: monkeypatch.setattr(weights, "_identity", lambda tensor, lazy: object()),
    ),
    "attributes are not handed back": (
        "state",
        lambda monkeypatch: monkeypatch.setattr(recorded_pass, "preserve", lambda model, inventory: nullcontext()),
    ),
    "convolutions have no gradients": ("training", _change_formulas(convolution_backward=_nothing)),
}


@cache
def list_agreed() -> tuple[int, ...]:
    """Return the sampled seeds whose programs do not differ."""
    return tuple(seed for seed in SAMPLED if not compare_seed(seed)[0])


@pytest.mark.skipif(not SAMPLED, reason="make test")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, patch = FAULTS[fault]
    seeds = list_agreed()
    assert len(seeds) > len(SAMPLED) // 2
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    patch(monkeypatch)
    try:
        seen = next((seed for seed in seeds if kind in {found.kind for found in differences(*known(seed))[0]}), None)
    finally:
        for context in _Leaving.contexts:
            context.__exit__(None, None, None)
        torch.set_num_threads(threads)
    assert seen is not None, f"no seed of {len(seeds)} shows that {fault}"
