"""Makes a profile of a model with torch.profiler, for `profilerkit join`. Needs torch alone; copy it anywhere.

As a program: ``python profile_model.py torchvision.models:resnet18 --input-shape 3,224,224 --batch-size 8``. MODEL is
``module:name`` or ``path/to/file.py:name``, where the name is a module (``torch.nn.Module``) or a function that returns
one. From Python: ``profile_model(model, (x,), output="profile.json.gz")``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import importlib
import importlib.util
import inspect
import json
import operator
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple  # noqa: UP035 - it runs on old interpreters, too

import torch
from torch.profiler import ProfilerActivity, profile, record_function

LAYER, PASS = "profilerkit layer: ", "profilerkit pass"


class Workload(NamedTuple):
    """A model with the arguments of its calls, and whether training steps are run, or forward passes."""

    model: torch.nn.Module
    inputs: tuple[Any, ...]
    named: dict[str, Any]
    training: bool

    def list_inputs(self) -> list[torch.Tensor]:
        """Return the tensors in the arguments."""
        return list(list_tensors([self.inputs, self.named]))

    def find_device(self) -> torch.device:
        """Return the device of the first input or weight that is not on the CPU: a model may move its inputs there."""
        devices = [tensor.device for tensor in [*self.list_inputs(), *self.model.parameters()]]
        return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def profile_model(
    model: torch.nn.Module,
    inputs: tuple[Any, ...] = (),
    named: dict[str, Any] | None = None,
    output: str = "profile.json.gz",
    steps: int = 10,
    warm_up: int = 5,
    training: bool = False,
    shapes: bool = True,
) -> None:
    """Run a model under torch's profiler, and write the profile to a file.

    Afterwards the model's modes, buffers and gradients, the gradients of its inputs, and torch's random numbers are as
    they were. Other changes that the model's own code or hooks make stay, such as an optimizer's step in a hook, or new
    values in sparse buffers.

    Args:
        model: The model, on its device.
        inputs: Its positional arguments, on the same device.
        named: Its named arguments.
        output: The file; compressed if its name ends in ``.gz``.
        steps: How many passes are profiled.
        warm_up: How many passes run before.
        training: Run training steps instead of forward passes. If no output depends on a weight that is trained, the
            passes are forward passes in training mode, and a warning says so.
        shapes: Note the shapes of the operators' inputs.
    """
    workload = Workload(model, inputs, named or {}, training)
    device = workload.find_device()
    with switch_mode(model, training), restore_state(model, workload.list_inputs()), keep_random_numbers(device):
        for _ in range(warm_up):
            run_pass(workload)
        wait_for(device)
        with mark_layers(model), profile(activities=choose_activities(device), record_shapes=shapes) as profiler:
            has_gradients = True
            for _ in range(steps):
                with record_function(PASS):
                    has_gradients = run_pass(workload)
            wait_for(device)
            profiler.add_metadata_json("profilerkit", json.dumps(describe_run(workload)))
        write_profile(profiler, output)
    if training and not has_gradients:
        warnings.warn("no output depends on a weight that is trained: only forward passes were profiled", stacklevel=2)


@contextlib.contextmanager
def switch_mode(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """Put a model into training mode, or evaluation mode, inside; afterwards each module has its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def restore_state(model: torch.nn.Module, inputs: Iterable[torch.Tensor]) -> Iterator[None]:
    """Take the gradients of weights and inputs away inside; afterwards they, and the model's buffers, are as before."""
    leaves = [tensor for tensor in [*model.parameters(), *inputs] if tensor.is_leaf]
    gradients = [(leaf, leaf.grad) for leaf in leaves]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if has_plain_values(buffer)
    ]
    for leaf in leaves:
        leaf.grad = None  # a backward pass would add to the values
    try:
        yield
    finally:
        for leaf, gradient in gradients:
            leaf.grad = gradient
        for module, name, buffer, values in buffers:
            setattr(module, name, buffer)
            if not torch.equal(buffer, values):  # autograd refuses a graph of the caller's with a buffer written since
                with torch.no_grad():
                    buffer.copy_(values)


def has_plain_values(tensor: torch.Tensor) -> bool:
    """Return whether torch can compare a tensor's values: not of a lazy layer, on meta, sparse or nested."""
    if torch.nn.parameter.is_lazy(tensor) or getattr(tensor, "is_nested", False):
        return False
    return tensor.layout == torch.strided and tensor.device.type != "meta"


def keep_random_numbers(device: torch.device) -> Any:
    """Return a context after which torch draws the random numbers that it would have drawn without it."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextlib.contextmanager
def mark_layers(model: torch.nn.Module) -> Iterator[None]:
    """Mark each call of a layer by a range with its path, through hooks that are taken away again.

    Of several paths of a shared layer it is the shortest inside the layer that calls it.

    The range of a call that raises an error ends there where torch can run hooks after errors (since 2.1); otherwise it
    ends with the call around it.
    """
    open_ranges: list[tuple[Any, str, Any]] = []  # a module, its path, and the range of its call
    can_follow_errors = "always_call" in inspect.signature(torch.nn.Module.register_forward_hook).parameters
    options = {"always_call": True} if can_follow_errors else {}
    handles = []
    paths: dict[Any, list[str]] = {}
    for path, module in list_layers(model):
        paths.setdefault(module, []).append(path)

    def enter(module: Any, inputs: Any) -> None:
        inside = f"{open_ranges[-1][1]}." if open_ranges and open_ranges[-1][1] else ""
        inner = [path for path in paths[module] if path.startswith(inside)]
        path = min(inner or paths[module], key=lambda path: path.count("."))
        open_ranges.append((module, path, record_function(LAYER + path)))
        open_ranges[-1][2].__enter__()

    def leave(module: Any, inputs: Any, outputs: Any) -> None:
        while any(entered is module for entered, _, _ in open_ranges):
            entered, _, layer_range = open_ranges.pop()
            layer_range.__exit__(None, None, None)
            if entered is module:
                break

    for module in paths:
        if not isinstance(module, torch.jit.ScriptModule):  # it has no hooks
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave, **options))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def list_layers(module: Any, path: str = "", around: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield a module and the modules inside it, each under each of its paths; none inside itself."""
    yield path, module
    for name, child in module.named_children():
        if child is not module and child not in around:
            yield from list_layers(child, f"{path}.{name}" if path else name, (*around, module))


def run_pass(workload: Workload) -> bool:
    """Run a forward pass, or a training step: the gradients of the sum of the outputs. Return whether it had any."""
    model, inputs, named, training = workload
    if training:
        model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training):
        outputs = list_tensors(model(*inputs, **named))
        losses = [output.sum().reshape(()).float() for output in outputs if output.requires_grad]
        if training and losses:
            torch.stack(losses).sum().backward()
    return bool(losses)


def list_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in dictionaries, lists, tuples and dataclasses inside each other."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from list_tensors(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from list_tensors([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from list_tensors(item)


def choose_activities(device: torch.device) -> list[ProfilerActivity]:
    """Return the activities that the profiler records: of the host, and of the device if it can."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    elif device.type == "xpu":
        activities.append(ProfilerActivity.XPU)
    return activities


def wait_for(device: torch.device) -> None:
    """Wait until a device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif device.type == "xpu":
        torch.xpu.synchronize()


def describe_run(workload: Workload) -> dict[str, Any]:
    """Return the facts of the run that ``profilerkit join`` reads from the profile."""
    arguments = [(None, value) for value in workload.inputs] + list(workload.named.items())
    return {
        "model": type(workload.model).__name__,
        "inputs": [
            {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).replace("torch.", "")}
            for name, value in arguments
            if isinstance(value, torch.Tensor)
        ],
        "training": workload.training,
    }


def write_profile(profiler: Any, output: str) -> None:
    """Write the profile, compressed if the name of the file ends in ``.gz``."""
    folder = tempfile.mkdtemp()
    try:
        plain = str(Path(folder, "profile.json"))
        profiler.export_chrome_trace(plain)
        if output.endswith(".gz"):
            with Path(plain).open("rb") as source, gzip.open(output, "wb") as target:
                shutil.copyfileobj(source, target)
        else:
            shutil.copyfile(plain, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_model(spec: str) -> torch.nn.Module:
    """Return the model that ``module:name`` or ``file.py:name`` leads to."""
    source, _, name = spec.rpartition(":")
    if not source or not name:
        raise SystemExit(f"MODEL is {spec!r}; give module:name or path/to/file.py:name")
    code = load_code(source)
    try:
        model = operator.attrgetter(name)(code)
    except AttributeError as error:
        raise SystemExit(f"{source} has no {name}") from error
    if not isinstance(model, torch.nn.Module):
        model = model()
    if not isinstance(model, torch.nn.Module):
        raise SystemExit(f"{spec} is a {type(model).__name__}, no torch.nn.Module")
    return model


def load_code(source: str) -> Any:
    """Return the Python module of a file's path or a module's name; it finds the modules in its own folder."""
    if not source.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(source)
    spec = importlib.util.spec_from_file_location("profiled_model", source)
    if spec is None or spec.loader is None or not Path(source).exists():
        raise SystemExit(f"there is no file {source}")
    sys.path.insert(0, str(Path(source).resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules["profiled_model"] = module
    spec.loader.exec_module(module)
    return module


def find_dtype(name: str) -> torch.dtype:
    """Return the dtype of a name such as ``bfloat16``."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SystemExit(f"{name} is no dtype of torch")
    return dtype


def make_input(text: str, batch: int, device: str, dtype: torch.dtype) -> tuple[str, torch.Tensor]:
    """Return the name and tensor of an input such as ``3,224,224`` (its name is empty) or ``ids=128:int64``."""
    name, _, rest = text.rpartition("=")
    sizes, _, kind = rest.partition(":")
    shape = [batch] + [int(size) for size in sizes.split(",") if size]
    input_dtype = find_dtype(kind) if kind else dtype
    values = torch.randn(shape) if input_dtype.is_floating_point else torch.zeros(shape)
    return name, values.to(device=device, dtype=input_dtype)


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Profile a model for 'profilerkit join'. Needs torch alone.")
    parser.add_argument("model", help="module:name or path/to/file.py:name, a torch.nn.Module or what returns one")
    parser.add_argument(
        "--input-shape", "--input", action="append", required=True, help="3,224,224 or ids=128:int64; repeat it"
    )
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", help="of weights and inputs: float32, bfloat16, float16")
    parser.add_argument("--training", action="store_true", help="profile training steps")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--output", default="profile.json.gz")
    return parser.parse_args()


def main() -> None:
    """Profile the model that the command line names."""
    options = read_options()
    dtype = find_dtype(options.dtype)
    model = load_model(options.model).to(device=options.device, dtype=dtype)
    arguments = [make_input(text, options.batch_size, options.device, dtype) for text in options.input_shape]
    profile_model(
        model,
        tuple(tensor for name, tensor in arguments if not name),
        {name: tensor for name, tensor in arguments if name},
        output=options.output,
        steps=options.steps,
        warm_up=options.warm_up,
        training=options.training,
    )
    sys.stdout.write(f"written to {options.output}\n")


if __name__ == "__main__":
    main()
