"""The peak memory of a training step as profilerkit predicts it for PyTorch, beside what the allocator sees.

Each model is measured in a process of its own, on the CPU. There torch's profiler notes every allocation and release of
tensors (``profile_memory=True``), and the highest sum of these, over a whole step with its optimizer, is the measured
peak. A first step goes before, so that the optimizer has its state. Weights, state and inputs, which are there before
the step, are added on both sides.

The loss is the model's own where it returns one, else the sum of its outputs by a function that makes its gradient in
full, as a loss does. The prediction is of shapes alone: no step is run for it.

    python benchmarks/torch_training_memory.py
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 2**20
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def main() -> None:
    """Print one line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), help="only these of the models")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        task, name = chosen.inside
        print(json.dumps(TASKS[task](name)))
        return
    import torch

    print(f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads")
    print(
        f"{'':<34} {'predicted':>11} {'measured':>11} {'off by':>8}   {'trace':>7} {'step':>7}   largest part, peak at"
    )
    for name in chosen.models:
        trace, step = in_a_process("predict", name), in_a_process("measure", name)
        print(
            f"{MODELS[name][0]:<34} {trace['bytes'] / MIB:7.1f} MiB {step['bytes'] / MIB:7.1f} MiB "
            f"{trace['bytes'] / step['bytes'] - 1:+8.1%}   {trace['seconds']:5.2f} s {step['seconds']:5.2f} s   "
            f"{trace['largest']}, {trace['where']}",
            flush=True,
        )


def in_a_process(task: str, name: str) -> dict[str, Any]:
    """Return what a task finds in a process of its own."""
    command = [sys.executable, __file__, "--inside", task, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


# In the process of its own ------------------------------------------------------------------------------------------


def mlp(batch_size: int) -> Any:
    import torch
    from torch import nn

    layers = (nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    return nn.Sequential(*layers), (torch.randn(batch_size, 1024),), {}


def images(module: str, builder: str, batch_size: int) -> Any:
    from importlib import import_module

    import torch

    model = getattr(import_module(f"models.{module}"), builder)()
    return model, (torch.randn(batch_size, 3, 224, 224),), {}


def language_model(batch_size: int, length: int, **settings: Any) -> Any:
    import torch
    import transformers

    config = transformers.GPT2Config(n_layer=6, n_embd=384, n_head=6, use_cache=False, **settings)
    tokens = torch.randint(0, 50257, (batch_size, length))
    return transformers.GPT2LMHeadModel(config), (tokens,), {"labels": tokens}


def checkpointed_language_model(batch_size: int, length: int) -> Any:
    model, args, kwargs = language_model(batch_size, length)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, args, kwargs


def classifier(batch_size: int, length: int) -> Any:
    import torch
    import transformers

    config = transformers.BertConfig(
        num_hidden_layers=6, hidden_size=384, num_attention_heads=6, intermediate_size=1536
    )
    tokens = torch.randint(0, 30000, (batch_size, length))
    return transformers.BertForSequenceClassification(config), (tokens,), {}


#: What a line calls the model, its builder, and the name of its optimizer.
MODELS: dict[str, tuple[str, Callable[[], Any], str]] = {
    "mlp": ("MLP, batch of 4096", lambda: mlp(4096), "sgd"),
    "mlp-1": ("MLP, batch of 1, Adam", lambda: mlp(1), "adam"),
    "resnet18": ("ResNet-18, batch of 8, momentum", lambda: images("resnet", "resnet18", 8), "momentum"),
    "resnet50": ("ResNet-50, batch of 8, momentum", lambda: images("resnet", "resnet50", 8), "momentum"),
    "mobilenet": ("MobileNetV2, batch of 8, momentum", lambda: images("mobilenet", "mobilenet_v2", 8), "momentum"),
    "vit": ("ViT-B/16, batch of 4, AdamW", lambda: images("vit", "vit_b_16", 4), "adamw"),
    "bert": ("BERT (6 x 384), 4 x 128, AdamW", lambda: classifier(4, 128), "adamw"),
    "gpt2": ("GPT-2 (6 x 384), 2 x 256, AdamW", lambda: language_model(2, 256), "adamw"),
    "gpt2-checkpoints": ("  with activation checkpoints", lambda: checkpointed_language_model(2, 256), "adamw"),
    "gpt2-no-dropout": (
        "  without dropout",
        lambda: language_model(2, 256, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
        "adamw",
    ),
}


def predict(name: str) -> dict[str, Any]:
    """Return profilerkit's prediction, what most of it is for, and where the peak stands."""
    from profilerkit import ModelInputs, profile

    _, build, optimizer = MODELS[name]
    model, args, kwargs = build()
    start = time.perf_counter()
    keys = ["training_memory", "training_memory_parts"]
    report = profile(model, ModelInputs(*args, **kwargs), metrics=keys, optimizer=optimizer, strict=True)
    seconds = time.perf_counter() - start
    parts = report["training_memory_parts"]
    sizes = {part: size for part, size in parts.items() if isinstance(size, int)}
    return {
        "bytes": report["training_memory"],
        "seconds": seconds,
        "largest": max(sizes, key=sizes.__getitem__),
        "where": f"{parts['operator']} of {parts['layer'] or 'the model'} ({parts['phase']})",
    }


def measure(name: str) -> dict[str, Any]:
    """Return the highest sum of allocations in the second step, and the seconds that a step takes."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    _, build, optimizer_name = MODELS[name]
    torch.manual_seed(0)
    model, args, kwargs = build()
    model.train()
    optimizers: dict[str, Callable[[Any], Any]] = {
        "sgd": lambda weights: torch.optim.SGD(weights, lr=1e-3),
        "momentum": lambda weights: torch.optim.SGD(weights, lr=1e-3, momentum=0.9),
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    optimizer = optimizers[optimizer_name](model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        outputs = model(*args, **kwargs)
        loss = getattr(outputs, "loss", None)
        if loss is None:
            loss = sum_outputs(outputs if torch.is_tensor(outputs) else outputs[0])
        loss.backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    optimizer.zero_grad()
    before = [
        *model.parameters(),
        *model.buffers(),
        *args,
        *(v for state in optimizer.state.values() for v in state.values()),
    ]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = most = 0
    for event in sorted(events, key=lambda event: int(event.start_ns())):
        alive += event.nbytes()
        most = max(most, alive)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in before}
    return {"bytes": sum(storages.values()) + most, "seconds": seconds}


def sum_outputs(outputs: Any) -> Any:
    """Return the sum of a tensor, whose gradient is a whole tensor of ones."""
    import torch

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.like = x.detach()
            return x.new_zeros(())

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return torch.ones_like(ctx.like)

    return Sum.apply(outputs)  # type: ignore[no-untyped-call]


TASKS: dict[str, Callable[[str], dict[str, Any]]] = {"predict": predict, "measure": measure}

if __name__ == "__main__":
    main()
