"""Makes a profile of a model with torch.profiler, for `profilerkit join`. Needs torch alone; copy it anywhere.

As a program: ``python profile_model.py torchvision.models:resnet18 --input-shape 3,224,224 --batch-size 8``. MODEL is
``module:name`` or ``path/to/file.py:name``, where the name is a module (``torch.nn.Module``) or a function that returns
one. From Python: ``profile_model(model, (x,), output="profile.json.gz")``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import importlib
import importlib.util
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple  # noqa: UP035 - it runs on old interpreters, too

import torch
from torch.profiler import ProfilerActivity, profile, record_function

LAYER, PASS = "profilerkit layer: ", "profilerkit pass"


@contextlib.contextmanager
def mark_layers(model: torch.nn.Module) -> Iterator[None]:
    """Mark each call of a layer by a range with its path, through hooks that are taken away again."""
    open_ranges: List[Any] = []  # noqa: UP006
    handles = []

    def enter(path: str, module: Any, inputs: Any) -> None:
        open_ranges.append(record_function(LAYER + path))
        open_ranges[-1].__enter__()

    def leave(module: Any, inputs: Any, outputs: Any) -> None:
        if open_ranges:
            open_ranges.pop().__exit__(None, None, None)

    for path, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):  # it has no hooks
            handles.append(module.register_forward_pre_hook(functools.partial(enter, path)))
            handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in what a model returns."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def run_pass(model: torch.nn.Module, inputs: Tuple[Any, ...], named: Dict[str, Any], training: bool) -> None:  # noqa: UP006
    """Run a forward pass, or a training step: the gradients of the sum of the outputs."""
    if not training:
        with torch.no_grad():
            model(*inputs, **named)
        return
    model.zero_grad(set_to_none=True)
    outputs = model(*inputs, **named)
    losses = [item.sum() for item in tensors_in(outputs) if item.requires_grad]
    torch.stack([loss.reshape(()).float() for loss in losses]).sum().backward()


def wait_for(device: str) -> None:
    """Wait until a device has done its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    elif device.startswith("xpu"):
        torch.xpu.synchronize()


def profile_model(
    model: torch.nn.Module,
    inputs: Tuple[Any, ...] = (),  # noqa: UP006
    named: Dict[str, Any] = {},  # noqa: B006, UP006
    output: str = "profile.json.gz",
    steps: int = 10,
    warm_up: int = 5,
    training: bool = False,
    shapes: bool = True,
) -> None:
    """Run a model under torch's profiler, and write the profile to a file.

    Args:
        model: The model, on its device.
        inputs: Its positional arguments, on the same device.
        named: Its named arguments.
        output: The file; compressed if its name ends in ``.gz``.
        steps: How many passes are profiled.
        warm_up: How many passes run before.
        training: Run training steps instead of forward passes.
        shapes: Note the shapes of the operators' inputs.
    """
    tensors = list(tensors_in([inputs, named])) + list(model.parameters())
    device = str(tensors[0].device) if tensors else "cpu"
    activities = [ProfilerActivity.CPU]
    if device.startswith("cuda"):
        activities.append(ProfilerActivity.CUDA)
    elif device.startswith("xpu"):
        activities.append(ProfilerActivity.XPU)
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        for _ in range(warm_up):
            run_pass(model, inputs, named, training)
        wait_for(device)
        with mark_layers(model), profile(activities=activities, record_shapes=shapes) as profiler:
            for _ in range(steps):
                with record_function(PASS):
                    run_pass(model, inputs, named, training)
            wait_for(device)
            run = describe_run(model, inputs, named, device, steps, training)
            profiler.add_metadata_json("profilerkit", json.dumps(run))
        write_profile(profiler, output)
    finally:
        for module, mode in modes:
            module.training = mode


def describe_run(
    model: torch.nn.Module,
    inputs: Tuple[Any, ...],  # noqa: UP006
    named: Dict[str, Any],  # noqa: UP006
    device: str,
    steps: int,
    training: bool,
) -> Dict[str, Any]:  # noqa: UP006
    """Return what was run, and where."""
    arguments = [(None, value) for value in inputs] + list(named.items())
    is_gpu = device.startswith("cuda")
    return {
        "model": type(model).__name__,
        "inputs": [
            {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).replace("torch.", "")}
            for name, value in arguments
            if isinstance(value, torch.Tensor)
        ],
        "training": training,
        "steps": steps,
        "device": torch.cuda.get_device_name() if is_gpu else device,
        "torch": str(getattr(torch, "__version__", "")),
        "cuda": torch.version.cuda if is_gpu else None,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32) if is_gpu else False,
    }


def write_profile(profiler: Any, output: str) -> None:
    """Write the profile, compressed if the name of the file says so."""
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
    if source.endswith(".py"):
        module_spec = importlib.util.spec_from_file_location("profiled_model", source)
        if module_spec is None or module_spec.loader is None or not Path(source).exists():
            raise SystemExit(f"there is no file {source}")
        module = importlib.util.module_from_spec(module_spec)
        sys.modules["profiled_model"] = module
        module_spec.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(source)
    model = getattr(module, name)
    model = model if isinstance(model, torch.nn.Module) else model()
    if not isinstance(model, torch.nn.Module):
        raise SystemExit(f"{spec} is a {type(model).__name__}, no torch.nn.Module")
    return model


def make_input(text: str, batch: int, device: str, dtype: torch.dtype) -> Tuple[str, torch.Tensor]:  # noqa: UP006
    """Return the name and tensor of an input such as ``3,224,224`` or ``ids=128:int64``."""
    name, _, rest = text.rpartition("=")
    sizes, _, kind = rest.partition(":")
    shape = [batch] + [int(size) for size in sizes.split(",") if size]
    torch_dtype = getattr(torch, kind) if kind else dtype
    made = torch.randn(shape) if torch_dtype.is_floating_point else torch.zeros(shape)
    return name, made.to(device=device, dtype=torch_dtype)


def main() -> None:
    """Read the arguments, and profile the model."""
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
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    model = load_model(options.model).to(device=options.device, dtype=dtype)
    made = [make_input(text, options.batch_size, options.device, dtype) for text in options.input_shape]
    inputs = tuple(tensor for name, tensor in made if not name)
    named = {name: tensor for name, tensor in made if name}
    profile_model(model, inputs, named, options.output, options.steps, options.warm_up, options.training)
    sys.stdout.write(f"written to {options.output}\n")


if __name__ == "__main__":
    main()
