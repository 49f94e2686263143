"""The trace of a model: of one pass, on shapes alone wherever torch can.

A pass is tried on meta tensors; then on fake ones, for operators that meta tensors lack; then as a real run, which the
trace notes. The first kind of pass runs below autograd, where torch shows its operators before it takes them apart, so
that a count does not depend on device, kernels or grad mode. A model that needs autograd while it runs gets the next
kind, which is tried in the same three ways.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from textwrap import shorten
from typing import TypeAlias

import torch
from torch import nn

from profilerkit import BackendFailedError, CostFormulaError, ModelInputs, NotOfferedError
from profilerkit.process.collector import collector_paused
from profilerkit.process.restoring import restored
from profilerkit.trace.conditions import formulas_used
from profilerkit.trace.records import LayerCall, ModelTrace

from ..compat.compiler import is_compiler_imported
from ..compat.names import lacking
from ..compat.tensors import FAKE_MODULE
from ..costs.registry import COSTS
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import adapt_to_keras
from ..model.packed_weights import note_quantization
from ..model.programs import with_nodes
from ..model.rank_shares import rank_share
from ..model.scripts import frozen_weights, notes_on_scripts
from ..model.wrapped import give_wrapper, has_wrappers, unwrap
from ..untouched.caller_context import apart
from ..untouched.mutable_inputs import on_device
from ..untouched.preservation import preserve
from ..untouched.settings import conditions
from ..untouched.temporary_settings import run_operator_by_operator
from .attempt import has_values, trace_pass
from .inference_pass import GRAD_MODES, InferencePass
from .pass_errors import LeftBehindError
from .records import layer_records
from .stand_ins import FakeStandIns, MetaStandIns, StandIns
from .static_pass import RecordedPass

__all__ = ["trace_model", "traceable"]

#: Calls of layers by their paths.
Calls: TypeAlias = dict[str, list[LayerCall]]
#: One way to run a pass: a context in which the pass is to be run.
Way: TypeAlias = Callable[[Inventory, ModelInputs, InferencePass], AbstractContextManager[RecordedPass]]
_IN_INFERENCE = tuple(map(InferencePass, GRAD_MODES))


@dataclass(frozen=True)
class _Failure:
    """An error of a pass, and the calls of layers before it."""

    error: Exception
    calls: Calls


def trace_model(
    model: nn.Module, inputs: ModelInputs | None, kinds: Sequence[InferencePass] = _IN_INFERENCE
) -> ModelTrace:
    """Return the trace of one pass, by the first of ``kinds`` that works; by default of a forward pass.

    For a model that raises, the trace has its layers, and the error as ``failure``. Wrappers around a model are removed
    while it is traced.
    """
    inventory = Inventory(model)
    share, frozen = rank_share(inventory), frozen_weights(inventory.scripts)
    was_imported = is_compiler_imported()
    trace = _trace_unwrapped(inventory, inputs, kinds)
    if is_compiler_imported() and not was_imported:  # the import kept frames, with tensors that a later pass frees
        trace = _trace_unwrapped(inventory, inputs, kinds)
    trace = replace(trace, rank=share, unmade_weights=trace.unmade_weights or frozen)
    if trace.failure is None:  # what the caller has switched on changes no numbers of a model that failed
        trace = replace(trace, conditions=(*conditions(model), *formulas_used(trace, COSTS.list_added())))
    return replace(
        trace,
        notes=(*trace.notes, *_list_remarks(trace, inventory)),
        operators=with_nodes(model, trace.operators),
    )


@contextmanager
def traceable(inventory: Inventory) -> Iterator[Inventory]:
    """Yield what a model holds without its wrappers; at the end it is as it was."""
    with apart(), run_operator_by_operator(inventory):
        if not has_wrappers(inventory):
            yield inventory
            return
        with preserve(inventory.model, inventory=inventory):
            yield Inventory(unwrap(inventory.model, inventory.modules))


def _trace_unwrapped(inventory: Inventory, inputs: ModelInputs | None, kinds: Sequence[InferencePass]) -> ModelTrace:
    called = None if inputs is None else give_wrapper(inputs, inventory.model)  # while the wrappers are there
    with traceable(inventory) as inside:
        return _list_layers(inside) if called is None else _try_kinds(inside, called, kinds)


def _list_remarks(trace: ModelTrace, inventory: Inventory) -> Iterator[str]:
    """Yield what to know about the numbers: of the model, and of this release of torch."""
    if trace.operators:
        yield from notes_on_scripts(inventory.scripts)
    if trace.rank is not None:
        yield str(trace.rank)
    yield from note_quantization(inventory.model)
    yield from lacking


def _list_layers(inventory: Inventory, failure: Exception | None = None, calls: Calls | None = None) -> ModelTrace:
    """Return the layers alone, of a model that did not run to its end; ``calls`` are those before the error."""
    lazy = "the weights of lazy modules, which the first call makes: give inputs or input_shape"
    records = layer_records(inventory, calls or {})
    return ModelTrace(records, failure=failure, unmade_weights=lazy if is_lazy(inventory) else "")


def _try_kinds(inventory: Inventory, inputs: ModelInputs, kinds: Sequence[InferencePass]) -> ModelTrace:
    """Return the trace of the first kind of pass that works; the layers and an error if none does.

    The next kind is tried only where the model seems to need it.
    """
    called = adapt_to_keras(inventory.model, inputs, kinds[0].is_training)
    failure: Exception | None = None
    calls: Calls = {}
    is_refused = False
    for kind in kinds:
        try:
            outcome = _try_kind(inventory, called, kind)
        except CostFormulaError as error:
            return _list_layers(inventory, error)
        if isinstance(outcome, ModelTrace):
            return outcome
        reported, *_ = outcome
        if isinstance(reported.error, NotOfferedError):  # of this release of torch, not of the model
            raise reported.error
        # Without gradients it is a run as one to be timed; with them the error may be another.
        if failure is None or is_refused or kind.grad_mode is torch.no_grad:
            failure = kind.explain_failure(reported.error, inputs, has_values(inventory))
            calls = reported.calls
        if not any(kind.needs_next(failed.error) for failed in outcome):
            break
        is_refused = kind.refuses(reported.error)
    return _list_layers(inventory, failure, calls)


def _try_kind(inventory: Inventory, inputs: ModelInputs, kind: InferencePass) -> ModelTrace | list[_Failure]:
    """Return the trace of one kind of pass, on shapes alone or else of a real run.

    If both fail, return why, the failure to report first.
    """
    # Keras moves meta tensors to its own device, and needs values there.
    needs_device = inventory.holds_keras or kind.needs_device
    ways: list[Way] = [_on_fake] if needs_device else [_on_meta, _on_fake]
    failures: list[_Failure] = []
    for way in ways:
        outcome = _try_way(way, inventory, inputs, kind)
        if isinstance(outcome, ModelTrace):
            return outcome
        if kind.refuses(outcome.error):
            return [outcome]
        failures.append(outcome)
        if isinstance(outcome.error, LeftBehindError):
            break  # other tensors without values would be left behind as well
    if has_values(inventory):
        return _run_with_values(inventory, inputs, kind, failures)
    last_error = failures[-1].error
    if isinstance(last_error, LeftBehindError):
        return _add_note(last_error.trace, str(last_error))
    return failures


def _run_with_values(
    inventory: Inventory, inputs: ModelInputs, kind: InferencePass, failures: Sequence[_Failure]
) -> ModelTrace | list[_Failure]:
    """Return the trace of a real run, which says why there is none on shapes alone; or why that fails too."""
    outcome = _try_way(_with_values, inventory, inputs, kind)
    if not isinstance(outcome, ModelTrace):
        return [outcome, *failures]
    left_behind = isinstance(failures[-1].error, LeftBehindError)
    why = str(failures[-1].error) if left_behind else f"on shapes alone {_summarize(failures[0].error)}"
    return _add_note(outcome, f"counted in a real run: {why}")


def _try_way(way: Way, inventory: Inventory, inputs: ModelInputs, kind: InferencePass) -> ModelTrace | _Failure:
    """Return the trace of a pass that is run in one way, or its error, for which another way may do."""
    calls: Calls = {}
    try:
        with way(inventory, inputs, kind) as recorded:
            calls = recorded.calls
            return trace_pass(recorded)
    except (CostFormulaError, MemoryError):  # which another way would not mend
        raise
    except Exception as error:  # whatever the model raises
        return _Failure(error, calls)


@contextmanager
def _on_meta(inventory: Inventory, inputs: ModelInputs, kind: InferencePass) -> Iterator[RecordedPass]:
    # A collector's pause would cost more than the trace; what only it would free is small where tensors have no data.
    with collector_paused():
        stand_ins = MetaStandIns(keep_views=kind.grad_mode is not torch.enable_grad)
        yield RecordedPass(inventory, inputs, stand_ins, kind)


@contextmanager
def _on_fake(inventory: Inventory, inputs: ModelInputs, kind: InferencePass) -> Iterator[RecordedPass]:
    log = logging.getLogger(FAKE_MODULE)  # it logs each failure, which is handled here
    with restored(partial(setattr, log, "disabled", log.disabled)):
        log.disabled = True
        yield RecordedPass(inventory, inputs, FakeStandIns(inventory.modules), kind)


@contextmanager
def _with_values(inventory: Inventory, inputs: ModelInputs, kind: InferencePass) -> Iterator[RecordedPass]:
    """Run with the model's own weights, which no model can refuse; what it writes to is written back."""
    # With its first nested tensor torch makes one without lengths, as an example for its own operators. In a run of the
    # model the recorder would ask for its lengths.
    torch.nested.nested_tensor([torch.zeros(1, 1)], layout=torch.jagged)
    placed = on_device(inputs, inventory.device, views=kind.grad_mode is not torch.enable_grad)
    yield RecordedPass(inventory, placed, StandIns(), kind)


def _add_note(trace: ModelTrace, note: str) -> ModelTrace:
    return replace(trace, notes=(*trace.notes, note))


def _summarize(error: Exception) -> str:
    line = shorten(str(error).strip().split("\n", 1)[0], 200, placeholder=" ...")
    return line if isinstance(error, BackendFailedError) else f"the model raised {type(error).__name__}: {line}"
