"""A step of ``make gpu``: the model and the process come back as they were, with all that a GPU adds to a process."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_checks import Check, run_checks
from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "untouched"
#: Everything that runs the model or follows it.
_KEYS = (
    "macs",
    "memory_footprint",
    "execution_time",
    "training_time",
    "measured_memory",
    "layer_times",
    "operator_table",
)


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield what was checked, each by a function of its own."""
    yield from run_checks(STEP, where, _ANYWHERE, _ON_GPU)


def _profile_keys(model: Any, *inputs: Any, keys: tuple[str, ...] = _KEYS, **settings: Any) -> Any:
    from profilerkit import ModelInputs, profile

    return profile(model, ModelInputs(*inputs), metrics=keys, num_iters=3, warmup=1, passes=2, **settings)


def _network(device: str) -> tuple[Any, Any]:
    import torch
    from torch import nn

    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)]
    model = nn.Sequential(*layers).to(device)
    model(torch.randn(2, 3, 16, 16, device=device)).sum().backward()
    return model, torch.randn(2, 3, 16, 16, device=device)


def _facts(model: Any) -> list[Any]:
    """Return what must stay of a model: identities, modes, values, gradients and places."""
    facts: list[Any] = [(path, id(module), module.training) for path, module in model.named_modules()]
    for tensor in (*model.parameters(), *model.buffers()):
        facts.append((id(tensor), tensor.data_ptr(), tensor.device, tensor.requires_grad, tensor.tolist()))
        facts.append(None if tensor.grad is None else (id(tensor.grad), tensor.grad.tolist()))
    return facts


def _difference(before: Any, after: Any) -> str:
    if before == after:
        return ""
    return f"{sum(one != two for one, two in zip(before, after, strict=True))} of {len(before)} facts changed"


def _weights(device: str) -> str:
    """Weights, statistics, gradients and modes of a model that is trained."""
    model, x = _network(device)
    before = _facts(model)
    _profile_keys(model, x)
    return _difference(before, _facts(model))


def _move(device: str) -> str:
    """A model on the CPU that is measured on the device stays on the CPU, and leaves nothing there."""
    import torch

    model, x = _network("cpu")
    before, there = _facts(model), torch.cuda.memory_allocated() if device != "cpu" else 0
    _profile_keys(model, x, device=device)
    gc.collect()
    left = torch.cuda.memory_allocated() - there if device != "cpu" else 0
    return _difference(before, _facts(model)) or (f"{left} bytes are left" if left > _WORKSPACE else "")


#: What libraries ask of torch's allocator once, and keep: workspaces of products.
_WORKSPACE = 2**26


def _interrupt_a_pass(device: str) -> str:
    """An interrupt during a pass goes to the caller, and the model is as it was."""
    import torch

    model, x = _network(device)
    layer, calls = model[0], list[int]()

    def interrupt(module: Any, arguments: Any) -> None:
        calls.append(1)
        if len(calls) > 5:
            signal.raise_signal(signal.SIGINT)

    handle = layer.register_forward_pre_hook(interrupt)
    before, random = _facts(model), _random_numbers(device)
    for key in ("execution_time", "training_time", "layer_times", "operator_table", "measured_memory"):
        calls.clear()
        try:
            _profile_keys(model, x, keys=(key,))
        except KeyboardInterrupt:
            pass
        else:
            if len(calls) > 5:
                return f"{key}: no interrupt came"
        wrong = _difference(before, _facts(model)) or _difference(random, _random_numbers(device))
        if wrong:
            return f"{key}: {wrong}"
    handle.remove()
    with torch.no_grad():
        model(x)
    return ""


def _interrupt_by_clock(device: str) -> str:
    """An interrupt at any time, from another thread, leaves the model as it was."""
    import time

    model, x = _network(device)
    before, random = _facts(model), _random_numbers(device)
    for index in range(12):
        timer = threading.Timer(0.004 * 1.7**index % 0.5, lambda: signal.raise_signal(signal.SIGINT))
        try:
            timer.start()
            _profile_keys(model, x)
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
        wrong = _difference(before, _facts(model)) or _difference(random, _random_numbers(device))
        if wrong:
            return f"interrupt {index}: {wrong}"
    return ""


def _random_numbers(device: str) -> list[Any]:
    import torch

    states = [torch.get_rng_state(), *([] if device == "cpu" else torch.cuda.get_rng_state_all())]
    return [state.tolist() for state in states]


def _generators(device: str) -> str:
    """Random numbers go on where they were, on the CPU and on the device."""
    model, x = _network(device)
    before = _random_numbers(device)
    _profile_keys(model, x)
    return _difference(before, _random_numbers(device))


def _settings() -> list[Any]:
    import torch

    cudnn, cuda = torch.backends.cudnn, torch.backends.cuda
    switches = ("flash", "mem_efficient", "math", "cudnn")
    return [
        *(getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32", "benchmark_limit")),
        *(getattr(cuda, f"{name}_sdp_enabled")() for name in switches),
        cuda.matmul.allow_tf32,
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        cuda.matmul.allow_bf16_reduced_precision_reduction,
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    ]


def _own_settings(device: str) -> str:
    """Settings of cuDNN, of products and of attention that the caller made stay."""
    import torch

    first = _settings()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 3
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        model, x = _network(device)
        before = _settings()
        _profile_keys(model, x)
        return _difference(before, _settings())
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = first[1], first[4]
        torch.backends.cuda.enable_flash_sdp(True)
        torch.backends.cuda.matmul.allow_tf32 = False


def _settings_of_model(device: str) -> str:
    """Settings that a model makes in its pass are put back."""
    import torch
    from gpu_networks import Call
    from torch import nn

    def forward(self: Any, x: Any) -> Any:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = 3
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        if device != "cpu":
            torch.cuda.manual_seed(3)
        return self.layer(x)

    model, x = Call(forward, layer=nn.Linear(4, 4)).to(device), torch.randn(2, 4, device=device)
    before, random = _settings(), _random_numbers(device)
    _profile_keys(model, x)
    return _difference(before, _settings()) or _difference(random, _random_numbers(device))


def _stream_of_caller(device: str) -> str:
    """On a stream of the caller's that stream is current afterwards, and the work was done."""
    import torch

    model, x = _network(device)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        report = _profile_keys(model, x)
        is_current = torch.cuda.current_stream() == stream
    if not is_current:
        return "another stream is current"
    return "" if report["execution_time"].median > 0 else "no time was measured"


def _stream_of_model(device: str) -> str:
    """A stream that a model makes current in its pass, and leaves so, is not current afterwards."""
    import torch
    from gpu_networks import Call
    from torch import nn

    stream, before = torch.cuda.Stream(), torch.cuda.current_stream()

    def forward(self: Any, x: Any) -> Any:
        torch.cuda.set_stream(stream)
        return self.layer(x)

    model, x = Call(forward, layer=nn.Linear(4, 4)).to(device), torch.randn(2, 4, device=device)
    try:
        _profile_keys(model, x)
        return "" if torch.cuda.current_stream() == before else "the model's stream is still current"
    finally:
        torch.cuda.set_stream(before)


def _side_stream(device: str) -> str:
    """Work on a stream of the model's own is in the measured time."""
    import torch
    from gpu_networks import Call

    stream = torch.cuda.Stream()

    def forward(self: Any, x: Any) -> Any:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(20):
                x = x @ self.weight
        torch.cuda.current_stream().wait_stream(stream)
        return x

    weight = torch.randn(4096, 4096, device=device) / 64
    model, x = Call(forward, weight=weight), torch.randn(4096, 4096, device=device)
    taken, least = _profile_keys(model, x, keys=("execution_time",))["execution_time"].median, 20 * 2 * 4096**3 / 6e14
    return "" if taken > least else f"{taken} s, and products alone take {least} s"


def _capture(device: str) -> str:
    """While a graph of the caller's is captured, profiling is refused, and the capture goes on."""
    import torch

    model, x = _network(device)
    model.eval()
    with torch.no_grad():
        model(x)
        graph, refused = torch.cuda.CUDAGraph(), ""
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            try:
                _profile_keys(model, x)
                refused = "it was not refused"
            except Exception as error:
                refused = "" if "capture" in str(error) else f"{type(error).__name__}: {error}"
            result = model(x)
        graph.replay()
        torch.cuda.synchronize()
        expected = model(x)
    return refused or ("" if torch.allclose(result, expected, atol=1e-3) else "the graph computes something else")


def _replay(device: str) -> str:
    """A model that replays a graph of its own is measured, and its graph works afterwards."""
    import torch
    from gpu_networks import Call
    from torch import nn

    layer = nn.Linear(64, 64).to(device)
    buffer, graph = torch.randn(8, 64, device=device), torch.cuda.CUDAGraph()
    with torch.no_grad():
        layer(buffer)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = layer(buffer)

    def forward(self: Any, x: Any) -> Any:
        buffer.copy_(x)
        graph.replay()
        return out.clone()

    model, x = Call(forward, layer=layer), torch.randn(8, 64, device=device)
    report = _profile_keys(model, x, keys=("execution_time", "macs"))
    with torch.no_grad():
        is_right = torch.allclose(model(x), layer(x), atol=1e-3)
    status = report.status("macs")
    print(
        "macs of a replayed graph:", report["macs"] if status.completeness.value != "failed" else None, status.missing
    )
    if status.completeness.value == "complete" and report["macs"] != 8 * 64 * 64:
        return f"{report['macs']} MACs are called complete, and it has {8 * 64 * 64}"
    return "" if is_right and report["execution_time"].median > 0 else "the graph computes something else"


def _graphed_callable(device: str) -> str:
    """A model of make_graphed_callables is measured and trains afterwards."""
    import torch
    from torch import nn

    x = torch.randn(8, 64, device=device)
    model: Any = torch.cuda.make_graphed_callables(nn.Sequential(nn.Linear(64, 64), nn.ReLU()).to(device), (x,))
    report = _profile_keys(model, x, keys=("execution_time", "macs"))
    print("macs of a graphed callable:", report["macs"], report.status("macs").missing)
    model(x).sum().backward()
    gradient = model[0].weight.grad
    if report.status("macs").completeness.value == "complete" and report["macs"] != 8 * 64 * 64:
        return f"{report['macs']} MACs are called complete, and it has {8 * 64 * 64}"
    return "" if gradient is not None and bool(gradient.abs().sum() > 0) else "it does not train"


def _allocator(device: str) -> str:
    """The allocator holds as many bytes afterwards as before, also after an error of the model's."""
    import torch
    from gpu_networks import Call
    from torch import nn

    def fail(self: Any, x: Any) -> Any:
        self.layer(x)
        raise RuntimeError("half-way")

    model, x = _network(device)
    failing = Call(fail, layer=nn.Linear(16, 16).to(device))
    _profile_keys(model, x)
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        _profile_keys(model, x)
        _profile_keys(failing, x)
    gc.collect()
    left = torch.cuda.memory_allocated() - before
    return f"{left} bytes more" if left else ""


def _memory_history(device: str) -> str:
    """The allocator's fraction of memory, and a pool of the caller's, stay."""
    import torch

    torch.cuda.set_per_process_memory_fraction(0.5)
    try:
        model, x = _network(device)
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            _profile_keys(model, x)
        fraction = torch.cuda.get_per_process_memory_fraction()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return "" if fraction == 0.5 else f"the fraction is {fraction}"


def _default_device(device: str) -> str:
    """Under a default device of the caller's the same is counted."""
    import torch

    model, x = _network(device)
    before = _profile_keys(model, x, keys=("macs", "memory_footprint"))
    torch.set_default_device(device)
    try:
        after = _profile_keys(model, x, keys=("macs", "memory_footprint"))
        is_kept = torch.get_default_device().type == device
    finally:
        torch.set_default_device("cpu")
    if not is_kept:
        return "another default device"
    return "" if before["macs"] == after["macs"] else f"{before['macs']} and {after['macs']}"


def _two_devices(device: str) -> str:
    """A model of two devices, of which one is the CPU, is counted and timed."""
    import torch
    from gpu_networks import Call
    from torch import nn

    def forward(self: Any, x: Any) -> Any:
        return self.second(self.first(x).to(device))

    model = Call(forward, first=nn.Linear(16, 16), second=nn.Linear(16, 16).to(device))
    report = _profile_keys(model, torch.randn(4, 16), keys=("macs", "execution_time"))
    if report["macs"] != 2 * 4 * 16 * 16:
        return f"{report['macs']} MACs"
    return "" if report["execution_time"].median > 0 else "no time"


_ANYWHERE: tuple[Check, ...] = (
    *(_weights, _move, _generators, _own_settings, _settings_of_model, _interrupt_a_pass, _interrupt_by_clock),
    _default_device,
)
_ON_GPU: tuple[Check, ...] = (
    *(_stream_of_caller, _stream_of_model, _side_stream, _replay, _graphed_callable),
    *(_allocator, _memory_history, _two_devices, _capture),
)
