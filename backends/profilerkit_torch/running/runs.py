"""Running a model for real: on a device, for inference or in training steps, and handed back untouched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import InputError, ModelInputs
from profilerkit.backend import AS_IT_IS, RunOptions
from profilerkit.error_text import error_line

from ..model.inventory import Inventory
from ..model.keras_layers import adapt_to_keras
from ..model.modules import set_inference_flags
from ..model.tensors import has_graph
from ..untouched.caller_context import apart, as_caller, has_function_modes, modes_as_they_are
from ..untouched.mutable_inputs import on_device
from ..untouched.preservation import preserve, substitute, watch_parameters
from ..untouched.surroundings import Surroundings
from ..untouched.temporary_settings import deepen_recursion
from .compiling import use_compiled
from .devices import move_model, require_values, resolve_device
from .first_pass import FirstPass, Step
from .timed_passes import EventTimedPass, Pass, forward_pass, forward_pass_with_gradients, make_autocast
from .training_steps import prepare_training_step, set_training_flags

__all__ = ["prepare_run"]


@contextmanager
def prepare_run(model: nn.Module, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Pass]:
    """Yield a `Pass` of the model with these options, whose call returns when every device is done.

    Inference does not use torch's inference mode, whose tensors could stay behind in a cache and break the user's
    training. The first pass runs under a guard that keeps the values of tensors that the model writes to; the tensors
    get their values back at the end, and the buffers in any case. Without a device the model is not moved, also if
    it is on several devices.
    """
    with (
        apart(),
        _prepare_model(model, inputs, options) as (inventory, device),
        _run_and_prepare_passes(inventory, device, inputs, options) as run,
    ):
        yield run


@contextmanager
def _prepare_model(
    model: nn.Module, inputs: ModelInputs, options: RunOptions
) -> Iterator[tuple[Inventory, torch.device]]:
    """Put the model on the device and into the mode of the run; yield its inventory, and the device for its inputs.

    Afterwards the model, the number of threads and the holders of tensors outside the model are as they were.
    """
    inventory = Inventory(model)
    target = resolve_device(inventory, options.device)
    require_values(inventory, target)
    is_sharded = options.device is None and len({tensor.device for tensor in inventory.tensors}) > 1
    with (
        preserve(model, inventory=inventory),
        Surroundings(inventory, inputs).restore_at_end(),
        deepen_recursion(),
        move_model(inventory, None if is_sharded else target) as moved,
    ):
        yield _set_mode(moved, options), target


@contextmanager
def _run_and_prepare_passes(
    inventory: Inventory, device: torch.device, inputs: ModelInputs, options: RunOptions
) -> Iterator[Pass]:
    """Run a model a first time, under a guard, and yield a `Pass` that runs it again.

    The inputs are restored before each pass; at the end, everything that the first pass wrote to is restored.
    """
    fed = on_device(adapt_to_keras(inventory.model, inputs, options.training), device, views=not options.training)
    autocast = make_autocast(options.autocast, device)
    first = FirstPass(inventory, fed, autocast)
    with first.restore_at_end(), _prepare_steps(inventory.model, options) as steps:
        step = first.run(*steps)
        with watch_parameters(inventory, first.guard.guards), use_compiled(inventory.model, options.compile) as called:
            devices = {device, *(tensor.device for tensor in inventory.tensors)}
            run_step = partial(step, called, fed, autocast)
            run = _make_pass(run_step, first.restore_inputs, devices, in_parts=options.training)
            if not options.training:
                run.runs.append(first.guard.observation.run("its first run"))
                run.observation = None if options.compile else first.guard.observation
            if options.compile:
                _compile(run, options)
            with modes_as_they_are():
                yield run


@contextmanager
def _prepare_steps(model: nn.Module, options: RunOptions) -> Iterator[tuple[Step, Step | None]]:
    """Yield the function that runs a model, and the one for a model that computes gradients for inference."""
    if not options.training:
        yield forward_pass, forward_pass_with_gradients
        return
    with prepare_training_step(model) as step:
        yield step, None


def _set_mode(inventory: Inventory, options: RunOptions) -> Inventory:
    """Put the model into the mode of the run, set the number of threads, and return the inventory of the model then.

    Use inside `preserve`.
    """
    if options.training:
        inventory = _cut_off_graphs(inventory)
        set_training_flags(inventory.modules)
    else:
        set_inference_flags(inventory.modules)
    if options.num_threads is not None:
        torch.set_num_threads(options.num_threads)
    return inventory


def _cut_off_graphs(inventory: Inventory) -> Inventory:
    """Let tensors without a graph stand in for tensors that the model has kept from passes of the caller.

    A backward pass would continue into the caller's graphs and free their tensors: the caller could compute no
    gradients with them any more. Use inside `preserve`, which takes the stand-ins away.
    """
    if not any(map(has_graph, inventory.tensors)):
        return inventory
    substitute(
        inventory.model,
        lambda tensor: tensor.detach().requires_grad_() if has_graph(tensor) else tensor,
        inventory,
    )
    return Inventory(inventory.model)


def _make_pass(
    run_step: Callable[..., Any], restore_inputs: Callable[[], object], devices: set[torch.device], *, in_parts: bool
) -> Pass:
    """Return a `Pass` that repeats a step, a training step in parts too, with the clock that suits the devices."""

    def run_once(*between: Callable[[], object]) -> Any:
        if not has_function_modes():  # nearly always; a search for changes by such modes would take time
            return run_step(*between)
        with as_caller():
            return run_step(*between)

    kind = EventTimedPass if EventTimedPass.suits(devices) else Pass
    return kind(run_once, tuple(devices), restore_inputs, run_once if in_parts else None)


def _compile(run: Pass, options: RunOptions) -> None:
    """Compile a model, by its first pass, which is timed apart."""
    start = time.perf_counter()
    try:
        run()
    except MemoryError:
        raise
    except Exception as error:  # the model itself has run before
        raise InputError(
            f"compile={options.compile!r}: torch.compile failed: {type(error).__name__}: {error_line(error)}; "
            "the usual compiler needs one of C++ on the CPU, and Triton on a GPU; compile='aot_eager' needs neither"
        ) from error
    run.first_call_seconds = time.perf_counter() - start
