"""Running a model for real: on a device, for inference or in training steps, and handed back untouched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import torch
from torch import nn

from profilerkit import Device, DeviceNotAvailableError, InputError, ModelInputs, WithoutValuesError
from profilerkit.backend import AS_IT_IS, DEVICE, DeviceLike, RunOptions
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.devices.here import describe_device, processor
from profilerkit.devices.info import DeviceInfo, Figure
from profilerkit.error_text import error_line
from profilerkit.errors import ModelFailedError

from ..compat import VERSION
from ..model.inventory import Inventory, is_lazy
from ..model.keras_layers import adapt_to_keras, keras_device
from ..model.modules import set_inference_flags
from ..trace.inference_pass import needs_autograd
from ..untouched.caller_context import apart, as_caller, has_function_modes, modes_as_they_are
from ..untouched.leftovers import outside_restored
from ..untouched.mutable_inputs import InputObjects, on_device
from ..untouched.preservation import preserve, watch_parameters
from ..untouched.substitution import substitute
from ..untouched.temporary_settings import deeper_recursion, disable_compiling
from .compiling import use_compiled
from .observation import ObservingGuard, without_fused_layers
from .timed_passes import (
    EventTimedPass,
    Pass,
    forward_pass,
    forward_pass_with_gradients,
    make_autocast,
    prepare_training_step,
    set_training_flags,
    synchronize,
)

T = TypeVar("T")

__all__ = [
    "accelerators",
    "device_info",
    "move_model",
    "prepare_run",
    "require_values",
    "resolve_device",
    "synchronize",
]


def resolve_device(model: nn.Module | Inventory, device: DeviceLike) -> torch.device:
    """Return the torch device for a member of `Device`, a string of torch's, or None (where the model is).

    Raises `DeviceNotAvailableError` for one that does not exist here.
    """
    device = DEVICE("device", device)
    if device is None:
        return Inventory.of(model).device
    if device is Device.CPU:
        return torch.device("cpu")
    name = _accelerator_name() if device is Device.GPU else device
    try:
        resolved = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise DeviceNotAvailableError(
            f"torch knows no device {device!r}; use Device.CPU, Device.GPU or a string such as 'cpu', 'cuda:1', 'mps'"
        ) from error
    if resolved.type in ("cpu", "meta"):
        return resolved
    accelerator = _accelerator()
    count = torch.accelerator.device_count() if accelerator is not None else 0
    if accelerator is None or accelerator.type != resolved.type or (resolved.index or 0) >= count:
        here = ", ".join(["cpu", *(f"{accelerator.type}:{index}" for index in range(count) if accelerator)])
        raise DeviceNotAvailableError(f"device {device!r} is not there; torch {VERSION} sees here: {here}")
    return resolved


def _accelerator() -> torch.device | None:
    """Return the kind of accelerator that torch sees here; None where it sees none."""
    return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None


def _accelerator_name() -> str:
    accelerator = _accelerator()
    if accelerator is None:
        raise DeviceNotAvailableError(
            f"Device.GPU was requested, but torch {VERSION} sees no accelerator here; use Device.CPU, or a "
            "build of torch and a driver for the GPU"
        )
    return accelerator.type


def accelerators() -> dict[str, str]:
    """Return the names of the accelerators here, the memory of each, and the version of CUDA or ROCm."""
    accelerator = _accelerator()
    if accelerator is None:
        return {}
    indices = range(torch.accelerator.device_count())
    if accelerator.type != "cuda":
        return {"accelerators": ", ".join(f"{accelerator.type}:{index}" for index in indices)}
    properties = [torch.cuda.get_device_properties(index) for index in indices]
    runs_them = {"cuda": torch.version.cuda, "rocm": torch.version.hip, "cudnn": torch.backends.cudnn.version()}
    return {
        "accelerators": ", ".join(device.name for device in properties),
        "accelerator_memory_bytes": ", ".join(str(device.total_memory) for device in properties),
        **{name: str(version) for name, version in runs_them.items() if version is not None},
    }


def device_info(device: torch.device) -> DeviceInfo:
    """Return what is known of a device, by the name that its driver reports."""
    if device.type == "cpu":
        return processor()
    if device.type != "cuda":
        return describe_device(str(device), "gpu")
    properties = torch.cuda.get_device_properties(device)
    figures = {"memory_size": Figure(float(properties.total_memory), "the driver")}
    return describe_device(properties.name, "gpu", figures)


def require_values(model: nn.Module | Inventory, device: torch.device) -> None:
    """Raise `WithoutValuesError` where there is nothing to run with: lazy parameters, or the meta device."""
    inventory = Inventory.of(model)
    if is_lazy(inventory):
        raise WithoutValuesError(
            "the model has lazy parameters without values; call it once with real inputs before running it"
        )
    if device.type == "meta" or any(tensor.is_meta for tensor in inventory.tensors):
        raise WithoutValuesError(
            "the model is on the meta device and its weights have no values: it cannot be run, only its static metrics "
            "can be had; materialise it with model.to_empty(device='cpu') to time it"
        )


@contextmanager
def move_model(inventory: Inventory, device: torch.device | None) -> Iterator[Inventory]:
    """Move a model to a device, and yield its tensors there; without a device it stays where it is.

    Copies stand in for the tensors that are elsewhere, itself it stays. Use inside `preserve`, which takes the
    stand-ins away.
    """
    if device is None:
        yield inventory
        return
    if any(tensor.device != device for tensor in inventory.tensors):
        substitute(inventory.model, lambda tensor: _move(tensor, device), inventory)
        inventory = Inventory(inventory.model)
    with keras_device(inventory.model, device):
        yield inventory


def _move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.is_meta:  # a rest of Keras' symbolic calls
        return tensor
    twin = tensor.detach().to(device)
    return nn.Parameter(twin, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else twin


@contextmanager
def prepare_run(model: nn.Module, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Pass]:
    """Yield a `Run` of the model with these options, whose call returns when every device is done.

    For inference not in torch's inference mode, whose tensors could stay behind in a cache and break the user's
    training. The first pass runs under a guard that keeps what the model writes to; it gets that back at the end,
    and its buffers in any case. Without a device the model stays where it is, on several devices too.
    """
    with apart(), _prepare_run(model, inputs, options) as run:
        yield run


@contextmanager
def _prepare_run(model: nn.Module, inputs: ModelInputs, options: RunOptions) -> Iterator[Pass]:
    inventory = Inventory(model)
    target = resolve_device(inventory, options.device)
    require_values(inventory, target)
    is_sharded = options.device is None and len({tensor.device for tensor in inventory.tensors}) > 1
    with (
        preserve(model, inventory=inventory),
        outside_restored(inventory, inputs),
        deeper_recursion(),
        move_model(inventory, None if is_sharded else target) as here,
    ):
        here = _prepare(here, options)
        autocast = make_autocast(options.autocast, target)
        fed = on_device(adapt_to_keras(model, inputs, options.training), target, views=not options.training)
        gradients = [parameter.grad for parameter in here.parameters if parameter.grad is not None]
        tensors = [leaf for leaf in fed.leaves() if isinstance(leaf, torch.Tensor)]
        objects = InputObjects(fed)
        guard = ObservingGuard([*here.tensors, *gradients, *tensors, *objects.tensors])
        devices = {target, *(tensor.device for tensor in here.tensors)}
        with (
            guard.restore_at_end(),
            objects.restore_at_end(),
            prepare_training_step(model) if options.training else nullcontext(forward_pass) as step,
        ):
            guard.keep([*here.buffers, *gradients, *_list_unseen(here, [*tensors, *objects.tensors])])
            steps = (step,) if options.training else (step, forward_pass_with_gradients)
            step = _first_that_runs(steps, lambda item: item(model, fed, autocast), fed, guard, objects.restore)
            with (
                watch_parameters(here, is_watched=guard.guards),
                use_compiled(model, options.compile) if options.compile else nullcontext(model) as called,
            ):
                kind = EventTimedPass if EventTimedPass.suits(devices) else Pass

                def run_once(*between: Callable[[], object]) -> Any:
                    objects.restore()  # a cache that grew would make every call a longer one
                    if not has_function_modes():  # nearly always; to look for what they leave would take time
                        return step(called, fed, autocast, *between)
                    with as_caller():
                        return step(called, fed, autocast, *between)

                run = kind(run_once, tuple(devices), run_once if options.training else None)
                if not options.training:
                    run.runs.append(guard.observation.run("its first run"))
                    run.observation = None if options.compile else guard.observation
                if options.compile:
                    _compile(run, options)
                with modes_as_they_are():
                    yield run


def _prepare(here: Inventory, options: RunOptions) -> Inventory:
    """Put the model into the mode of the run, set the number of threads, and return what the model holds then.

    Use inside `preserve`.
    """
    if options.training:
        here = _cut_off_graphs(here)
        set_training_flags(here.model)
    else:
        set_inference_flags(here.modules)
    if options.num_threads is not None:
        torch.set_num_threads(options.num_threads)
    return here


def _cut_off_graphs(here: Inventory) -> Inventory:
    """Let tensors without a graph stand in for what the model has kept of passes of the caller's.

    A backward pass would go on into those graphs: it would free what they hold, and the caller could compute no
    gradients of their own any more. Use inside `preserve`, which takes the stand-ins away.
    """
    if all(tensor.grad_fn is None for tensor in here.tensors):
        return here
    substitute(here.model, lambda tensor: tensor if tensor.grad_fn is None else tensor.detach().requires_grad_(), here)
    return Inventory(here.model)


def _compile(run: Pass, options: RunOptions) -> None:
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


def _first_that_runs(
    steps: Sequence[T],
    run: Callable[[T], Any],
    inputs: ModelInputs,
    guard: ObservingGuard,
    restore: Callable[[], object],
) -> T:
    """Run once by one of these; return it. The second is for a model that needs gradients while it runs."""
    try:
        _first_pass(lambda: run(steps[0]), inputs, guard, restore)
    except ModelFailedError as error:
        if not needs_autograd(error.__cause__):
            raise
        for step in steps[1:]:
            with suppress(ModelFailedError):
                _first_pass(lambda: run(step), inputs, guard, restore)  # noqa: B023
                return step
        raise
    return steps[0]


def _list_unseen(inventory: Inventory, inputs: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the inputs and the plain attributes that numpy can write to, which no operator would show."""
    yield from (tensor for tensor in (*inventory.attributes, *inputs) if tensor.device.type == "cpu")


def _first_pass(
    run: Callable[[], Any], inputs: ModelInputs, guard: ObservingGuard, restore: Callable[[], object]
) -> None:
    """Run once under the guard; raise `ModelFailedError` where the model does, `BackendFailedError` for its own errors.

    Compiled code runs as it was written: under a mode torch would refuse to compile it, and remember that for ever.
    Where fused layers leave padding out, nothing can be counted, and it runs once more without fused layers.
    """
    try:
        for layers in (nullcontext(), without_fused_layers()):
            guard.observation.begin()
            with disable_compiling(), layers, guard, as_caller():
                run()
            if not guard.observation.has_padding_left_out:
                break
            restore()  # what is in the inputs, such as a cache
    except InputError:
        raise
    except Exception as error:  # whatever the model raises
        raise explain_failure(error, inputs, "torch", __package__) from error
