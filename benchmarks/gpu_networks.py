"""The networks that ``make gpu`` counts on a GPU and on the CPU: each a function that makes the model and its inputs.

They are small: counts are exact at any size. What a network needs of a device is in ``NEEDS``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Any, ...]]


class Call(nn.Module):
    """A model that calls a function of itself and its inputs, with layers or weights of its own."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def _images(batch: int = 2, channels: int = 3, size: int = 32) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def _cnn() -> Made:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, 2)]
    return nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), (_images(),)


def _grouped() -> Made:
    layers = [
        nn.Conv2d(8, 16, 3, groups=4, dilation=2),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 16, 3, groups=16),
    ]
    return nn.Sequential(*layers, nn.InstanceNorm2d(16), nn.Hardswish(), nn.AvgPool2d(2)), (_images(2, 8),)


def _transposed() -> Made:
    layers = [nn.Conv2d(3, 8, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Upsample(scale_factor=2)]
    return nn.Sequential(*layers, nn.Conv2d(4, 3, 1)), (_images(),)


def _conv1d() -> Made:
    return nn.Sequential(nn.Conv1d(4, 8, 5), nn.ReLU(), nn.ConvTranspose1d(8, 4, 5), nn.LayerNorm(64)), (
        torch.randn(2, 4, 64),
    )


def _conv3d() -> Made:
    layers = [nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 4 * 8 * 8, 5)), (torch.randn(2, 2, 8, 16, 16),)


def _channels_last() -> Made:
    model, (x,) = _cnn()
    changed: Any = model
    return changed.to(memory_format=torch.channels_last), (x.to(memory_format=torch.channels_last),)


def _example(name: str, size: int) -> Made:
    import models

    return getattr(models, name)(), (_images(1, 3, size),)


def _u_net() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        down = torch.relu(self.first(x))
        low = torch.relu(self.second(functional.max_pool2d(down, 2)))
        up = functional.interpolate(low, scale_factor=2, mode="bilinear")
        result: torch.Tensor = self.last(torch.cat([down, up], 1))
        return result

    parts = {"first": nn.Conv2d(3, 8, 3, padding=1), "second": nn.Conv2d(8, 8, 3, padding=1)}
    return Call(forward, **parts, last=nn.Conv2d(16, 3, 1)), (_images(),)


def _encoder(**settings: Any) -> Made:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **settings)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 12, 32),)


def _padded_encoder() -> Made:
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[:, 9:] = True
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return Call(lambda self, x, mask: self.layer(x, src_key_padding_mask=mask), layer=layer), (
        torch.randn(2, 12, 32),
        mask,
    )


def _transformer() -> Made:
    model = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
    return model, (torch.randn(2, 10, 32), torch.randn(2, 6, 32))


def _module_attention(weights: bool) -> Made:
    attention = nn.MultiheadAttention(32, 4, batch_first=True)
    return Call(lambda self, x: self.layer(x, x, x, need_weights=weights)[0], layer=attention), (
        torch.randn(2, 12, 32),
    )


def _heads(*lengths: int, heads: tuple[int, ...] = (4, 4, 4), width: int = 16) -> tuple[torch.Tensor, ...]:
    q, k, v = ((lengths[0], heads[0]), (lengths[-1], heads[1]), (lengths[-1], heads[2]))
    return tuple(torch.randn(2, count, length, width) for length, count in (q, k, v))


def _fused(dtype: torch.dtype = torch.float32, mask: str = "", **settings: Any) -> Made:
    def forward(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q = self.layer(q)
        mask_here = getattr(self, "mask", None)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask_here, **settings)

    heads = (4, 2, 2) if settings.get("enable_gqa") else (4, 4, 4)
    masks = {"bool": torch.ones(16, 16, dtype=torch.bool).tril(), "float": torch.zeros(16, 16, dtype=dtype), "": None}
    model = Call(forward, layer=nn.Linear(16, 16), **({"mask": masks[mask]} if mask else {}))
    return model.to(dtype), tuple(head.to(dtype) for head in _heads(16, heads=heads))


def _written_attention(spelling: str) -> Made:
    def forward(self: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q = self.layer(q)
        if spelling == "einsum":
            shares = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) / 4, -1)
            return torch.einsum("bhqk,bhkd->bhqd", shares, v)
        if spelling == "bmm":
            q, k, v = (item.flatten(0, 1) for item in (q, k, v))
            return torch.bmm(torch.softmax(torch.baddbmm(torch.zeros(1, 1, 1).to(q), q, k.mT), -1), v)
        return torch.softmax(q @ k.mT / 4, -1) @ v

    return Call(forward, layer=nn.Linear(16, 16)), _heads(16)


def _dense(dtype: torch.dtype) -> Made:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).to(dtype)
    return model, (torch.randn(4, 32).to(dtype),)


def _complex() -> Made:
    weight = nn.Parameter(torch.randn(16, 8, dtype=torch.complex64))
    return Call(lambda self, x: (x @ self.weight).abs(), weight=weight), (torch.randn(4, 16, dtype=torch.complex64),)


def _recurrent(kind: Any, **settings: Any) -> Made:
    return Call(lambda self, x: self.layer(x)[0], layer=kind(16, 24, batch_first=True, **settings)), (
        torch.randn(3, 10, 16),
    )


def _cells() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(3, 24, device=x.device)
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
        return h

    return Call(forward, cell=nn.LSTMCell(16, 24)), (torch.randn(3, 10, 16),)


def _int8_weights() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.codes.to(x.dtype) * self.scale)

    return Call(forward, codes=torch.randint(-127, 127, (32, 64), dtype=torch.int8), scale=torch.rand(32, 1)), (
        torch.randn(4, 64),
    )


def _int8_product() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        codes = (x / x.abs().amax() * 127).to(torch.int8)
        return torch._int_mm(codes, self.codes).float()

    return Call(forward, codes=torch.randint(-127, 127, (64, 32), dtype=torch.int8)), (torch.randn(32, 64),)


def _float8_product() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        one = torch.ones((), device=x.device)
        result: torch.Tensor = torch._scaled_mm(
            x.to(torch.float8_e4m3fn), self.weight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
        return result

    weight = torch.randn(32, 64).to(torch.float8_e4m3fn)
    return Call(forward, weight=weight), (torch.randn(32, 64),)


def _quantized() -> Made:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize: Any = torch.ao.quantization.quantize_dynamic
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).eval()
        return quantize(model, {nn.Linear}, dtype=torch.qint8), (torch.randn(4, 32),)


def _compile(make: Callable[[], Made]) -> Made:
    model, inputs = make()
    compiled: Any = torch.compile(model)
    return compiled, inputs


def _autocast(dtype: torch.dtype, make: Callable[[], Made]) -> Made:
    model, inputs = make()

    def forward(self: Any, *tensors: torch.Tensor) -> Any:
        with torch.autocast(tensors[0].device.type, dtype=dtype):
            return self.model(*tensors)

    return Call(forward, model=model), inputs


def _of_transformers(kind: str, config: str, **settings: Any) -> Made:
    import transformers

    logging: Any = transformers.logging
    logging.set_verbosity_error()  # of kernels that are not installed
    model: nn.Module = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    return model, (torch.randint(0, 90, (2, 12)),)


_LLAMA = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
_BERT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_GPT2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}


def _bag() -> Made:
    bag = nn.EmbeddingBag(100, 16, mode="sum")
    return nn.Sequential(bag, nn.Linear(16, 4)), (torch.randint(0, 100, (3, 7)),)


def _fourier() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]))
        return result

    return Call(forward, layer=nn.Linear(64, 8)), (torch.randn(4, 64),)


def _experts() -> Made:
    """Two of four experts for each row: how many rows an expert gets depends on values."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        chosen = self.router(x).topk(2).indices
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).any(1).nonzero().squeeze(1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result

    experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    return Call(forward, router=nn.Linear(16, 4), experts=experts), (torch.randn(20, 16),)


def _linear_algebra() -> Made:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        square = x @ x.mT + 8 * torch.eye(8, device=x.device)
        result: torch.Tensor = torch.linalg.solve(square, self.layer(x))
        return result

    return Call(forward, layer=nn.Linear(8, 8)), (torch.randn(2, 8, 8),)


#: By name.
NETWORKS: dict[str, Callable[[], Made]] = {
    "CNN": _cnn,
    "CNN, channels last": _channels_last,
    "grouped and dilated convolutions": _grouped,
    "transposed convolutions": _transposed,
    "convolutions in 1 dimension": _conv1d,
    "convolutions in 3 dimensions": _conv3d,
    "U-Net": _u_net,
    "ResNet-18": partial(_example, "resnet18", 64),
    "MobileNetV2": partial(_example, "mobilenet_v2", 64),
    "encoder": _encoder,
    "encoder, norm first": partial(_encoder, norm_first=True, activation="gelu"),
    "encoder, padded": _padded_encoder,
    "encoder and decoder": _transformer,
    "MultiheadAttention": partial(_module_attention, False),
    "MultiheadAttention, with weights": partial(_module_attention, True),
    "fused attention": _fused,
    "fused attention, causal": partial(_fused, is_causal=True),
    "fused attention, mask of booleans": partial(_fused, mask="bool"),
    "fused attention, mask of floats in half": partial(_fused, torch.float16, "float"),
    "fused attention, grouped heads in bfloat16": partial(_fused, torch.bfloat16, enable_gqa=True),
    "fused attention in double": partial(_fused, torch.float64),
    "attention of matmul": partial(_written_attention, "matmul"),
    "attention of einsum": partial(_written_attention, "einsum"),
    "attention of bmm": partial(_written_attention, "bmm"),
    "dense in half": partial(_dense, torch.float16),
    "dense in bfloat16": partial(_dense, torch.bfloat16),
    "dense in double": partial(_dense, torch.float64),
    "complex product": _complex,
    "LSTM": partial(_recurrent, nn.LSTM),
    "LSTM, two layers, two directions": partial(_recurrent, nn.LSTM, num_layers=2, bidirectional=True),
    "LSTM with projection": partial(_recurrent, nn.LSTM, proj_size=8),
    "GRU": partial(_recurrent, nn.GRU),
    "RNN": partial(_recurrent, nn.RNN),
    "LSTM of cells": _cells,
    "weights in int8": _int8_weights,
    "product in int8": _int8_product,
    "product in float8": _float8_product,
    "quantized dynamically": _quantized,
    "compiled CNN": partial(_compile, _cnn),
    "compiled encoder": partial(_compile, _encoder),
    "autocast to bfloat16": partial(_autocast, torch.bfloat16, _cnn),
    "autocast to half, encoder": partial(_autocast, torch.float16, _encoder),
    "autocast to bfloat16, LSTM": partial(_autocast, torch.bfloat16, partial(_recurrent, nn.LSTM)),
    "BERT": partial(_of_transformers, "BertModel", "BertConfig", **_BERT),
    "GPT-2": partial(_of_transformers, "GPT2LMHeadModel", "GPT2Config", **_GPT2),
    "Llama": partial(_of_transformers, "LlamaForCausalLM", "LlamaConfig", **_LLAMA, **_HEADS),
    "embedding bag": _bag,
    "Fourier transform": _fourier,
    "experts": _experts,
    "linear algebra": _linear_algebra,
}
#: What only one device has, and why.
NEEDS = {
    "quantized dynamically": ("cpu", "torch's own quantized layers run on the CPU alone"),
    "product in float8": ("cuda", "the CPU has no product in float8"),
}
#: Networks whose products torch's own counter has no formula for.
UNKNOWN_TO_TORCH = {
    *(
        "complex product",
        "product in int8",
        "fused attention, grouped heads in bfloat16",
        "quantized dynamically",
        "linear algebra",
    ),
    *("LSTM", "LSTM, two layers, two directions", "LSTM with projection", "GRU", "RNN", "autocast to bfloat16, LSTM"),
    *("compiled CNN", "compiled encoder", "experts", "embedding bag"),
}
#: What differs by the device. Layers of attention that run as one kernel make their scores on the CPU alone.
#: Autocast runs cuDNN's recurrent layers in half, whatever dtype it was asked for: what follows from that is different.
BY_DEVICE = {
    "autocast to bfloat16, LSTM": ("flops", "macs_by_dtype", "memory_footprint"),
    **dict.fromkeys(
        ("encoder", "encoder, norm first", "encoder, padded", "compiled encoder", "encoder and decoder"),
        ("memory_footprint",),
    ),
    **dict.fromkeys(("MultiheadAttention", "MultiheadAttention, with weights"), ("memory_footprint",)),
    "fused attention in double": ("training_macs",),  # the CPU alone has one kernel, which makes the scores again
}
