"""One static pass over a model, on shapes alone wherever torch can.

Meta tensors stand in for parameters and buffers; fake tensors where an operator lacks a meta kernel; a real run only
where both fail, which the trace notes. The pass runs below autograd, where torch shows its operators before it takes
them apart, so that a count does not depend on device, kernels or grad mode.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit import BackendFailedError, CostFormulaError, ModelInputs, NotOfferedError
from profilerkit.process.collector import collector_paused
from profilerkit.process.restoring import restored
from profilerkit.trace.conditions import formulas_used, write_notes
from profilerkit.trace.records import LayerCall, ModelTrace

from ..compat import FAKE_MODULE, FakeTensorMode, lacking, unseen_by_subclasses
from ..costs import is_plain
from ..costs.registry import COSTS
from ..model.inventory import is_lazy
from ..model.keras_layers import adapt_to_keras, holds_keras
from ..model.modules import find_device, list_modules
from ..model.scripted import frozen_weights, notes_on_scripts
from ..model.tensors import has_own_function, view_like
from ..model.wrapped import rank_share, with_wrapper
from ..untouched.mutable_inputs import on_device
from .conditions import conditions
from .grad_modes import GRAD_MODES, PassError, below_autograd
from .inference_pass import InferencePass, needs_autograd
from .records import layer_records
from .static_pass import LeftBehindError, StandIns, can_run, meta_twin, trace_pass
from .traceable import traceable

__all__ = ["trace_model"]

#: Calls of layers by their paths.
Calls: TypeAlias = dict[str, list[LayerCall]]
_IN_INFERENCE = tuple(map(InferencePass, GRAD_MODES))


def trace_model(
    model: nn.Module, inputs: ModelInputs | None, kinds: Sequence[InferencePass] = _IN_INFERENCE
) -> ModelTrace:
    """Return the trace of one pass, of the first kind that works: of one forward pass unless ``kinds`` has others.

    A model that raises leaves its layers, and the error as ``failure``. Of a wrapped model, that inside is traced.
    """
    modules = list_modules(model)
    share, frozen = rank_share(modules), frozen_weights(modules)
    with traceable(model, modules) as inside:
        trace = _trace_model(inside, None if inputs is None else with_wrapper(inputs, model), kinds)
    made_under = (
        write_notes((*conditions(model), *formulas_used(trace, COSTS.list_added()))) if trace.failure is None else ()
    )
    scripts = notes_on_scripts(modules) if trace.operators else ()
    remarks = (*scripts, *([str(share)] if share else ()), *made_under, *lacking)
    if not (remarks or frozen):
        return trace
    notes = (*trace.notes, *remarks)
    return replace(trace, notes=notes, rank=share, unmade_weights=trace.unmade_weights or frozen)


def _trace_model(model: nn.Module, inputs: ModelInputs | None, kinds: Sequence[InferencePass]) -> ModelTrace:
    if inputs is None:
        return _layers_alone(model)
    errors: list[Exception] = []
    failure: Exception | None = None
    called = adapt_to_keras(model, inputs)
    # Keras moves meta tensors to its own device, and needs values there: it gets fake ones.
    attempts = (_on_fake, _for_real) if holds_keras(list_modules(model)) else (_on_meta, _on_fake, _for_real)
    calls: Calls = {}
    for kind in kinds:
        errors.clear()
        calls_before: dict[int, Calls] = {}
        for attempt in attempts:
            seen: Calls = {}
            try:
                return attempt(model, called, kind, errors, seen)
            except CostFormulaError as error:
                return _layers_alone(model, error)
            except MemoryError:
                raise
            except Exception as error:  # any error: the next attempt may work
                errors.append(error)
                calls_before.setdefault(id(error), seen)
                if isinstance(error, PassError) and kind.grad_mode is below_autograd:
                    break
        if failure is None or kind.grad_mode is torch.no_grad:  # with gradients it may be another one
            failure, calls = kind.explain_failure(_require_offered(errors[-1]), inputs), calls_before[id(errors[-1])]
        if not any(needs_autograd(error) for error in errors):
            break
    return _layers_alone(model, failure, calls)


def _require_offered(error: Exception) -> Exception:
    """Return an error of the model's; raise one that says what this release of torch does not have for a pass."""
    if isinstance(error, NotOfferedError):
        raise error
    return error


def _layers_alone(model: nn.Module, failure: Exception | None = None, calls: Calls | None = None) -> ModelTrace:
    """Return the layers of a model that did not run to its end, with what weights its first call would size or make.

    ``calls`` are those before the error.
    """
    lazy = "the weights of lazy modules, which the first call makes: give inputs or input_shape"
    return ModelTrace(layer_records(model, calls or {}), failure=failure, unmade_weights=lazy if is_lazy(model) else "")


def _on_meta(
    model: nn.Module, inputs: ModelInputs, kind: InferencePass, errors: list[Exception], calls: Calls
) -> ModelTrace:
    """Trace with meta tensors in place of weights and floating-point inputs; integers keep their values."""

    def stand_in(leaf: Any) -> Any:
        valued = isinstance(leaf, torch.Tensor) and not (leaf.is_floating_point() or leaf.is_complex())
        if valued or not isinstance(leaf, torch.Tensor):
            return leaf
        twin = meta_twin(leaf)
        if not is_plain(leaf):
            return leaf
        with unseen_by_subclasses():
            if kind.grad_mode is not torch.enable_grad and not has_own_function(leaf):
                twin = view_like(twin, leaf)
            return twin.requires_grad_(leaf.requires_grad)

    # A collector's pause would cost more than the trace; what only it would free is small where tensors have no data.
    with collector_paused():
        return trace_pass(model, inputs, StandIns("meta tensors", meta_twin, stand_in, calls=calls), kind)


def _on_fake(
    model: nn.Module, inputs: ModelInputs, kind: InferencePass, errors: list[Exception], calls: Calls
) -> ModelTrace:
    """Trace with fake tensors, which know the device they stand for; for meta ones that is the CPU."""
    if errors and isinstance(errors[0], LeftBehindError):
        raise errors[0]  # it would leave the same
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # What torch remembers for all fake modes would keep packed weights alive, and refuses to compare them.
    mode.cache_enabled &= not any(
        isinstance(value, torch.ScriptObject) for m in list_modules(model) for value in vars(m).values()
    )

    def fake_twin(tensor: torch.Tensor) -> torch.Tensor:
        if is_unsized(tensor):
            return mode.from_tensor(tensor)
        if has_own_function(tensor):
            raise RuntimeError(f"a fake tensor cannot be a {type(tensor).__name__}, which answers torch's functions")
        if not is_plain(tensor):
            return tensor
        if not tensor.is_meta:
            return mode.from_tensor(tensor)
        with mode:
            twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
        return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin

    def stand_in(leaf: Any) -> Any:
        return fake_twin(leaf) if isinstance(leaf, torch.Tensor) else leaf

    log = logging.getLogger(FAKE_MODULE)  # it logs each failure, which is handled here
    with restored(partial(setattr, log, "disabled", log.disabled)):
        log.disabled = True
        return trace_pass(model, inputs, StandIns("fake tensors", fake_twin, stand_in, mode, calls), kind)


def _for_real(
    model: nn.Module, inputs: ModelInputs, kind: InferencePass, errors: list[Exception], calls: Calls
) -> ModelTrace:
    """Trace a real run, which no model can refuse; what it writes to is written back."""
    left_behind = next((error for error in errors if isinstance(error, LeftBehindError)), None)
    if not can_run(model):
        if left_behind is None:
            raise errors[0]
        return replace(left_behind.trace, notes=(*left_behind.trace.notes, str(left_behind)))
    reason = str(left_behind) if left_behind else f"on shapes alone {_first_line(errors[0])}"
    _make_example_of_nested()
    placed = on_device(inputs, find_device(model), views=kind.grad_mode is not torch.enable_grad)
    trace = trace_pass(model, placed, StandIns("a real run", None, lambda leaf: leaf, calls=calls), kind)
    note = f"counted in a real run: {reason}"
    return replace(trace, notes=(*trace.notes, note))


def _make_example_of_nested() -> None:
    """Have torch make the nested tensor without lengths that it keeps as an example for its own operators.

    It makes it when the first nested tensor is made: in a run of the model, the recorder would ask for its lengths.
    """
    torch.nested.nested_tensor([torch.zeros(1, 1)], layout=torch.jagged)


def _first_line(error: Exception) -> str:
    line = str(error).strip().split("\n", 1)[0][:200]
    return line if isinstance(error, BackendFailedError) else f"the model raised {type(error).__name__}: {line}"
