"""A step of ``make gpu``: the predicted peak of the memory beside what torch's allocator gave out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from gpu_checks import error_result
from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "memory"
#: Within this share the prediction is to be.
WITHIN = 0.05
Made = tuple[Any, tuple[Any, ...]]


def _perceptron(small: bool) -> Made:
    import torch
    from torch import nn

    width, rows = (64, 32) if small else (4096, 8192)
    layers = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1000)]
    return nn.Sequential(*layers), (torch.randn(rows, width),)


def _example(name: str, batch: int, small: bool) -> Made:
    import torch

    import models

    return getattr(models, name)(), (torch.randn(2 if small else batch, 3, 64 if small else 224, 64 if small else 224),)


def _encoder(small: bool, dtype: str = "float32") -> Made:
    import torch
    from torch import nn

    width, length, depth = (32, 16, 2) if small else (768, 512, 6)
    layer = nn.TransformerEncoderLayer(width, 4 if small else 12, 4 * width, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).to(getattr(torch, dtype))
    return model, (torch.randn(8, length, width).to(getattr(torch, dtype)),)


def _encoder_with_padding(small: bool) -> Made:
    import torch
    from gpu_networks import Call

    encoder, (x,) = _encoder(small)
    model = Call(lambda self, x, mask: self.encoder(x, src_key_padding_mask=mask), encoder=encoder)
    return model, (x, torch.zeros(x.shape[:2], dtype=torch.bool))


def _attention_with_weights(small: bool) -> Made:
    import torch
    from gpu_networks import Call
    from torch import nn

    width, length = (32, 16) if small else (768, 512)
    layer = nn.MultiheadAttention(width, 4 if small else 12, batch_first=True)
    return Call(lambda self, x: self.layer(x, x, x)[0], layer=layer), (torch.randn(8, length, width),)


def _lstm(small: bool) -> Made:
    import torch
    from gpu_networks import Call
    from torch import nn

    width, steps = (16, 8) if small else (1024, 256)
    layer = nn.LSTM(width, width, num_layers=2, batch_first=True)
    return Call(lambda self, x: self.layer(x)[0], layer=layer), (torch.randn(32, steps, width),)


def _language_model(small: bool, kind: str, config: str, **settings: Any) -> Made:
    import torch
    import transformers

    logging: Any = transformers.logging
    logging.set_verbosity_error()
    model = getattr(transformers, kind)(getattr(transformers, config)(use_cache=False, **settings)).to(torch.bfloat16)
    return model, (torch.randint(0, 90, (2, 16) if small else (4, 1024)),)


def _subjects(small: bool) -> dict[str, Callable[[], Made]]:
    """Return the networks by name."""
    width, layers = (32, 2) if small else (1024, 8)
    gpt2 = {"n_embd": width, "n_layer": layers, "n_head": 4 if small else 16}
    llama = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers}
    llama |= {"num_attention_heads": 4 if small else 16, "num_key_value_heads": 2 if small else 4, "vocab_size": 32_000}
    networks: dict[str, Callable[[], Made]] = {
        "perceptron": partial(_perceptron, small),
        "ResNet-50": partial(_example, "resnet50", 32, small),
        "encoder": partial(_encoder, small),
    }
    if small:
        return networks
    return {
        **networks,
        "MobileNetV2": partial(_example, "mobilenet_v2", 32, small),
        "ViT-B/16": partial(_example, "vit_b_16", 16, small),
        "encoder in bfloat16": partial(_encoder, small, "bfloat16"),
        "encoder, padded": partial(_encoder_with_padding, small),
        "attention with weights": partial(_attention_with_weights, small),
        "LSTM": partial(_lstm, small),
        "GPT-2 in bfloat16": partial(_language_model, small, "GPT2LMHeadModel", "GPT2Config", **gpt2),
        "Llama in bfloat16": partial(_language_model, small, "LlamaForCausalLM", "LlamaConfig", **llama),
    }


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield the predicted peaks of passes and of training steps, each beside the allocator's."""
    import torch

    if where.device == "cpu":
        yield Skipped(STEP, "what the allocator gave out", "only a GPU's allocator tells its peak")
    for name, make in _subjects(where.is_small).items():
        for measured in (_inference, partial(_training, "sgd"), partial(_training, "adamw")):
            torch.manual_seed(0)
            try:
                yield from measured(name, *make(), where.device)
            except Exception as error:
                yield error_result(STEP, name, "measured", error)
            gc.collect()
            if where.device != "cpu":
                torch.cuda.empty_cache()


def _inference(name: str, model: Any, inputs: tuple[Any, ...], device: str) -> Iterator[Result]:
    import torch

    from profilerkit import ModelInputs, profile

    model, inputs = model.eval().to(device), tuple(tensor.to(device) for tensor in inputs)
    report: Any = profile(model, ModelInputs(*inputs), metrics=["memory_footprint", "measured_memory"], num_iters=1)
    predicted, measured = float(report["memory_footprint"]), float(report["measured_memory"])
    within, note = _judge(report, "memory_footprint")
    if device == "cpu":
        yield Result(STEP, name, "memory of a pass", predicted, measured, "measured_memory", "bytes")
        return

    def run() -> None:
        with torch.no_grad():
            model(*inputs)

    given_out, requested = _peaks(run)
    there = _bytes((*model.parameters(), *model.buffers(), *inputs))
    yield Result(STEP, name, "memory of a pass", predicted, there + given_out, "the allocator", "bytes", within, note)
    yield Result(STEP, name, "memory of a pass", predicted, there + requested, "what was requested of it", "bytes")
    yield Result(STEP, name, "measured_memory", measured, there + given_out, "the allocator", "bytes", 0.01)


def _training(optimizer: str, name: str, model: Any, inputs: tuple[Any, ...], device: str) -> Iterator[Result]:
    """Compare a step with an optimizer, by default as torch makes one on this device."""
    import torch
    from torch_training_memory import sum_outputs

    from profilerkit import ModelInputs, profile

    model, inputs = model.train().to(device), tuple(tensor.to(device) for tensor in inputs)
    keys = ["training_memory", "training_memory_parts"]
    report: Any = profile(model, ModelInputs(*inputs), metrics=keys, optimizer=optimizer)
    predicted, parts = float(report["training_memory"]), report["training_memory_parts"]
    if device == "cpu":
        yield Result(STEP, name, f"memory of a step, {optimizer}", predicted, predicted, "itself", "bytes")
        return
    makers: dict[str, Any] = {"sgd": partial(torch.optim.SGD, lr=1e-3), "adamw": torch.optim.AdamW}
    stepper = makers[optimizer](model.parameters())

    def step() -> None:
        outputs = model(*inputs)
        outputs = outputs if torch.is_tensor(outputs) else outputs[0]
        sum_outputs(outputs).backward()
        del outputs
        stepper.step()

    def run() -> None:
        stepper.zero_grad()
        step()

    run()
    state = [value for values in stepper.state.values() for value in values.values() if torch.is_tensor(value)]
    there = _bytes((*model.parameters(), *model.buffers(), *inputs, *state))
    given_out, requested = _peaks(run, before=stepper.zero_grad)
    within, missing = _judge(report, "training_memory")
    metric = f"memory of a step, {optimizer}"
    note = f"predicted peak at {parts['operator']} ({parts['phase']}); {missing}"
    yield Result(STEP, name, metric, predicted, there + given_out, "the allocator", "bytes", within, note)
    yield Result(STEP, name, metric, predicted, there + requested, "what was requested of it", "bytes")


def _judge(report: Any, key: str) -> tuple[float | None, str]:
    """Return how near a prediction must be, and what it leaves out: a lower bound need not be near."""
    status = report.status(key)
    return (WITHIN if status.completeness.value == "complete" else None), " ".join(status.missing)


def _bytes(tensors: Iterable[Any]) -> int:
    """Return the bytes of tensors on the device, each storage once; an optimizer counts its steps on the CPU."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in tensors
        if not tensor.is_cpu
    }
    return sum(storages.values())


def _peaks(run: Callable[[], object], before: Callable[[], object] = lambda: None) -> tuple[int, int]:
    """Return by how much the third call raises what was given out, and what was requested: blocks are rounded up."""
    import torch

    for _ in range(2):
        run()
    before()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    names = ("allocated_bytes.all", "requested_bytes.all")
    start = [torch.cuda.memory_stats()[f"{name}.current"] for name in names]
    run()
    torch.cuda.synchronize()
    given_out, requested = (
        torch.cuda.memory_stats()[f"{name}.peak"] - there for name, there in zip(names, start, strict=True)
    )
    return given_out, requested
