"""The peak memory of PyTorch models as profilerkit predicts it, beside what torch's allocator gave out.

A process of its own builds each model, with real weights. Predicted is the peak of the trace, on shapes alone; measured
is `measured_memory`: on the CPU the sum of the allocations that torch's profiler saw, on an accelerator the allocator's
own count. Both are of inputs and activations; weights would only make them more alike. *Returned* (CPU) is what is
measured without what operators asked for and gave back before they returned: copies of weights and images in a layout
that a convolution prefers, above all. No operator shows those, so no static count has them; channels-last models
(*nhwc*) hardly need any.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

MIB = 2**20


class DenseBlock(nn.Module):
    """DenseNet's layers: each gets everything that those before it made, joined anew."""

    def __init__(self, channels: int, layers: int, growth: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth),
                nn.ReLU(inplace=True),
                nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
            )
            for width in range(channels, channels + layers * growth, growth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


def densenet121() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    parts.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for layers in (6, 12, 24, 16):
        parts.append(DenseBlock(channels, layers))
        channels += 32 * layers
        if layers != 16:
            halved = nn.Conv2d(channels, channels // 2, 1, bias=False)
            parts += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), halved, nn.AvgPool2d(2)]
            channels //= 2
    parts += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(channels, 1000))


class UNet(nn.Module):
    """Four halvings and back, the features of each size kept for the way up."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        befores = (3, *widths[:-1])
        self.down = nn.ModuleList(twice(a, b) for a, b in zip(befores, widths, strict=True))
        self.bottom = twice(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in reversed(widths))
        self.joined = nn.ModuleList(twice(2 * width, width) for width in reversed(widths))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, block in zip(self.up, self.joined, strict=True):
            x = block(torch.cat([kept.pop(), up(x)], 1))
        result: torch.Tensor = self.head(x)
        return result


def twice(before: int, after: int) -> nn.Module:
    convolutions = [nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)]
    return nn.Sequential(convolutions[0], nn.ReLU(inplace=True), convolutions[1], nn.ReLU(inplace=True))


class Text(nn.Module):
    """A two-layer LSTM over embedded words, and scores for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10_000, 256)
        self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True)
        self.head = nn.Linear(512, 10_000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.lstm(self.words(x))[0])
        return result


def example(name: str) -> nn.Module:
    import models

    model: nn.Module = getattr(models, name)()
    return model


def of_transformers(kind: str, config: str, **settings: Any) -> nn.Module:
    import transformers

    logging: Any = transformers.logging
    logging.set_verbosity_error()  # of kernels that are not installed
    model: nn.Module = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    return model


def images(batch: int, side: int = 224) -> dict[str, torch.Tensor]:
    return {"": torch.randn(batch, 3, side, side)}


def channels_last(value: Any) -> Any:
    """Return a model, or named images, with the channels last in memory."""
    if isinstance(value, dict):
        return {name: channels_last(image) for name, image in value.items()}
    return value.to(memory_format=torch.channels_last)


def words(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {"": torch.randint(0, 1000, (batch, length))}


def two_texts() -> dict[str, torch.Tensor]:
    return {"input_ids": words(4, 128)[""], "decoder_input_ids": words(4, 64)[""]}


def make_padded(length: int) -> dict[str, torch.Tensor]:
    """Return a text in a batch whose first quarter is padding."""
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, : length // 4] = 0
    return {"input_ids": words(1, length)[""], "attention_mask": mask}


def long_llama(**settings: Any) -> nn.Module:
    small = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 2, "num_attention_heads": 4}
    return of_transformers("LlamaForCausalLM", "LlamaConfig", vocab_size=1000, **small, **settings)


LLAMA = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8}
#: The model, and its inputs: named ones, or a positional one under the empty name.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, torch.Tensor]]]] = {
    "ResNet-18": (lambda: example("resnet18"), lambda: images(8)),
    "ResNet-50": (lambda: example("resnet50"), lambda: images(8)),
    "MobileNetV2": (lambda: example("mobilenet_v2"), lambda: images(8)),
    "MobileNetV2 nhwc": (lambda: channels_last(example("mobilenet_v2")), lambda: channels_last(images(8))),
    "DenseNet-121": (densenet121, lambda: images(8)),
    "DenseNet-121 nhwc": (lambda: channels_last(densenet121()), lambda: channels_last(images(8))),
    "U-Net": (UNet, lambda: images(2, 256)),
    "U-Net nhwc": (lambda: channels_last(UNet()), lambda: channels_last(images(2, 256))),
    "ResNet-18, 1": (lambda: example("resnet18"), lambda: images(1)),
    "ResNet-50, 1": (lambda: example("resnet50"), lambda: images(1)),
    "ViT-B/16": (lambda: example("vit_b_16"), lambda: images(4)),
    "LSTM": (Text, lambda: words(8, 64)),
    "BERT-base": (lambda: of_transformers("BertModel", "BertConfig"), lambda: words(4, 128)),
    "GPT-2": (lambda: of_transformers("GPT2LMHeadModel", "GPT2Config"), lambda: words(2, 256)),
    "Llama": (
        lambda: of_transformers("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, **LLAMA),
        lambda: words(4, 256),
    ),
    **{
        f"Llama {length}{name}": (partial(long_llama, use_cache=use_cache), partial(inputs, length))
        for length in (2048, 8192)
        for name, use_cache, inputs in (
            ("", False, partial(words, 1)),
            (" cache", True, partial(words, 1)),
            (" mask", False, make_padded),
        )
    },
    "T5-small": (lambda: of_transformers("T5ForConditionalGeneration", "T5Config"), two_texts),
    "ConvNeXt-T": (lambda: of_transformers("ConvNextForImageClassification", "ConvNextConfig"), lambda: images(4)),
}
#: How the names of models of transformers begin.
NEEDS_TRANSFORMERS = ("BERT-base", "GPT-2", "Llama", "T5-small", "ConvNeXt-T")


def main() -> None:
    """Print one line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="only these of the models")
    parser.add_argument("--device", default="cpu", help="where to measure")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        print(json.dumps(measure_memory(chosen.inside, chosen.device)))
        return
    print(f"torch {torch.__version__}, {chosen.device}, {torch.get_num_threads()} threads; MiB without the weights")
    print(f"{'':<18} {'weights':>8} {'predicted':>10} {'measured':>10} {'off by':>7} {'returned':>10} {'off by':>7}")
    for name in CASES:
        if chosen.models and name not in chosen.models:
            continue
        if name.startswith(NEEDS_TRANSFORMERS) and not find_spec("transformers"):
            continue
        show(name, in_a_process(name, chosen.device))


def show(name: str, figures: dict[str, float]) -> None:
    weights, predicted, measured, returned = (value / MIB for value in figures.values())
    print(
        f"{name:<18} {weights:8.1f} {predicted:10.2f} {measured:10.2f} {predicted / measured - 1:+7.1%} "
        f"{returned:10.2f} {predicted / returned - 1:+7.1%}",
        flush=True,
    )


def in_a_process(name: str, device: str) -> dict[str, float]:
    """Return what a separate process measured."""
    command = [sys.executable, __file__, "--device", device, "--inside", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


# In the process of its own ------------------------------------------------------------------------------------------


def measure_memory(name: str, device: str) -> dict[str, float]:
    from profilerkit import ModelInputs
    from profilerkit_torch import TorchBackend

    torch.manual_seed(0)
    build, inputs_of = CASES[name]
    model, named = build().eval(), inputs_of()
    inputs = ModelInputs(named[""]) if "" in named else ModelInputs(**named)
    backend = TorchBackend()
    memory = backend.trace(model, inputs).memory
    measured = backend.measure_memory(model, inputs, device)
    returned = memory.input_bytes + measure_returned(model, inputs) if device == "cpu" else measured
    return {
        "weights": memory.weight_bytes,
        "predicted": memory.peak_bytes(include_weights=False),
        "measured": measured,
        "returned": returned,
    }


def measure_returned(model: nn.Module, inputs: Any) -> int:
    """Return the peak of the allocations that are still there when the operator that made them returns."""
    from torch.profiler import ProfilerActivity, profile

    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        inputs.run(model)
    results: Any = profiler.profiler
    changes = sorted(
        (change for root in results.kineto_results.experimental_event_tree() for change in allocations(root, root)),
        key=lambda change: change[0],
    )
    open_allocations: dict[int, int] = {}
    inside: set[int] = set()
    for index, (_, address, size, operator) in enumerate(changes):
        if size > 0:
            open_allocations[address] = index
        elif address in open_allocations:
            start = open_allocations.pop(address)
            if changes[start][3] == operator:
                inside |= {start, index}
    lasting = (change[2] for index, change in enumerate(changes) if index not in inside)
    return max(itertools.accumulate(lasting, initial=0))


def allocations(event: Any, outermost: Any) -> Iterator[tuple[int, int, int, int]]:
    """Yield moment, address, bytes (negative where they are given back) and outermost operator of each allocation.

    Attention is taken for its parts: the mask of numbers that it makes of booleans is in the trace.
    """
    if event.tag == torch._C._profiler._EventType.Allocation:
        yield event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size, id(outermost)
    for child in event.children:
        yield from allocations(child, child if event.name == "aten::scaled_dot_product_attention" else outermost)


if __name__ == "__main__":
    main()
