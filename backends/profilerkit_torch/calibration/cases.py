"""What is measured of a device for predictions: single operators over many shapes, and small networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from profilerkit import ModelInputs
from profilerkit_predict.prediction.cases import CalibrationCase, OperatorCall

from ..running.timed_passes import synchronize
from .gradients import describe_gradients, make_gradient
from .operands import Described, Operands, choose_maker, indices, positive, random
from .queued_calls import Busy, QueuedCall
from .recurrent_layers import describe_layers, describe_layers_for_gradients

__all__ = ["cases"]

#: Products: rows, and (columns, depth).
_ROWS = (1, 4, 16, 64, 256, 1024)
_WEIGHTS = ((16, 16), (64, 64), (256, 64), (64, 256), (256, 256), (768, 768), (3072, 768), (768, 3072))
#: A matrix that no cache holds (256 MiB in float32), and the rows it is multiplied with: as language models decode.
_LARGE, _FEW_ROWS = (8192, 8192), (1, 4, 16)
#: Products of little depth, as gradients of weights are for few samples: rows and columns, depths.
_SHALLOW = ((64, 64), (256, 256), (1024, 256), (1024, 1024)), (1, 4, 16)
#: Batched products: batch, rows, columns, depth.
_BATCHED = (
    (4, 16, 16, 16),
    (64, 16, 16, 16),
    (12, 64, 64, 64),
    (12, 197, 64, 197),
    (48, 64, 64, 64),
    (8, 256, 256, 64),
)
#: Convolutions: batch, channels in, size, channels out, kernel, stride.
_CONVOLUTIONS = (
    *((1, 3, 64, 16, 3, 1), (1, 3, 64, 32, 7, 2), (8, 3, 64, 32, 3, 2), (1, 3, 224, 64, 7, 2), (1, 16, 32, 16, 3, 1)),
    *((1, 32, 32, 64, 1, 1), (8, 32, 32, 64, 1, 1), (1, 64, 56, 64, 3, 1), (1, 64, 56, 256, 1, 1)),
    *((1, 128, 28, 128, 3, 1), (1, 256, 14, 256, 3, 1), (1, 256, 14, 1024, 1, 1), (1, 512, 7, 512, 3, 1)),
    *(
        (8, 64, 16, 64, 3, 1),
        (8, 128, 8, 128, 3, 1),
        (8, 16, 32, 16, 3, 1),
        (4, 64, 28, 128, 3, 2),
        (8, 256, 7, 256, 1, 1),
    ),
)
#: The smallest tell what a call takes however little it does; many samples have many rows.
_MORE_CONVOLUTIONS = (
    *((2, 3, 4, 4, 3, 1), (2, 4, 4, 4, 1, 1), (1, 8, 16, 16, 3, 1), (4, 16, 16, 32, 1, 1), (2, 4, 4, 4, 3, 1)),
    *((16, 3, 32, 8, 3, 1), (16, 3, 64, 32, 3, 1), (16, 8, 32, 16, 3, 1), (16, 32, 32, 64, 3, 1)),
    *((4, 24, 56, 48, 3, 1), (16, 64, 14, 64, 1, 1), (16, 96, 28, 96, 1, 1)),
    *((8, 48, 48, 3, 3, 1), (1, 24, 32, 3, 3, 1), (16, 16, 64, 16, 3, 1), (8, 64, 24, 64, 3, 1)),
    *(
        (batch, channels, size, channels, kernel, 1)
        for channels, size in ((16, 24), (32, 16), (48, 32), (64, 28), (128, 14))
        for kernel in (1, 3)
        for batch in (1, 8)
    ),
)
#: Depthwise convolutions: batch, channels, size, kernel.
_DEPTHWISE = (
    (1, 4, 4, 3),
    (1, 16, 16, 3),
    (16, 48, 28, 3),
    (1, 32, 56, 3),
    (1, 96, 28, 3),
    (1, 192, 14, 7),
    (1, 384, 14, 3),
    (1, 576, 7, 3),
    (8, 64, 16, 3),
    (8, 32, 32, 5),
)
#: Attention: batch, heads, length, width of a head.
_ATTENTION = (
    (1, 4, 16, 16),
    (1, 4, 64, 32),
    (8, 4, 32, 32),
    (1, 12, 64, 64),
    (1, 12, 197, 64),
    (4, 8, 128, 64),
    (1, 8, 512, 64),
)
#: The elements of traffic.
_ELEMENTS = (64, 2**10, 2**13, 2**15, 2**17, 2**19, 2**21, 2**23)
#: Images for normalization, pooling and upsampling: samples, channels, size.
_IMAGES = ((1, 8, 8), (1, 16, 16), (1, 32, 32), (1, 64, 56), (16, 64, 28), (16, 32, 64))
#: What fills a device of its own as well: it reaches its best rates at sizes that would take a CPU seconds.
_LARGE_ROWS, _LARGE_WEIGHTS = (512, 4096), ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192))
_LARGE_BATCHED = ((256, 128, 128, 64), (96, 512, 512, 64), (32, 1024, 1024, 128))
_LARGE_CONVOLUTIONS = (
    *((64, 3, 224, 64, 7, 2), (64, 64, 56, 64, 3, 1), (64, 64, 56, 256, 1, 1), (64, 256, 56, 64, 1, 1)),
    *((64, 128, 28, 128, 3, 1), (64, 512, 28, 128, 1, 1), (64, 256, 14, 256, 3, 1), (64, 1024, 14, 256, 1, 1)),
    *((64, 512, 7, 512, 3, 1), (64, 512, 7, 2048, 1, 1), (256, 3, 64, 32, 3, 1), (256, 16, 32, 16, 3, 1)),
    *((256, 64, 24, 64, 3, 1), (256, 32, 48, 64, 3, 1), (256, 32, 64, 64, 3, 2)),
)
_LARGE_DEPTHWISE = ((256, 64, 28, 3), (64, 192, 56, 3), (64, 384, 14, 3))
_LARGE_ATTENTION = ((64, 8, 64, 64), (16, 12, 256, 64), (8, 12, 512, 64), (4, 16, 1024, 64), (1, 32, 2048, 128))
_LARGE_ELEMENTS = (2**25, 2**27)
_LARGE_IMAGES = ((256, 32, 32), (64, 64, 56), (64, 256, 56))


class _Function(nn.Module):
    """A model that calls one function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def cases(device: torch.device, dtype: str) -> Iterator[CalibrationCase]:
    """Yield the operators to measure; their tensors are made when each is measured."""
    make = choose_maker(device, getattr(torch, dtype))
    wait = partial(synchronize, device) if device.type != "cpu" else None
    busy = Busy(device) if device.type == "cuda" else None

    def prepare(function: Callable[..., Any], operands: Operands, gradient: bool) -> OperatorCall:
        tensors = make(operands)
        call = make_gradient(function, tensors) if gradient else partial(function, *tensors)
        model, inputs = _Function(function), ModelInputs(*tensors)
        if busy is None:
            return OperatorCall(_synchronize(call, wait), model, inputs)
        queued = QueuedCall(call, busy)
        return OperatorCall(queued, model, inputs, lambda: queued.host_seconds)

    is_large = device.type != "cpu"
    makers = (_products, _convolutions, _attention, describe_layers, _traffic, _images, describe_gradients)
    for name, function, operands in (item for maker in makers for item in maker(is_large)):
        yield CalibrationCase(f"{name} in {dtype}", partial(prepare, function, operands, False))
    for name, function, operands in describe_layers_for_gradients(is_large):
        yield CalibrationCase(f"{name} in {dtype}", partial(prepare, function, operands, True), is_gradient=True)


def _synchronize(call: Callable[[], object], synchronize: Callable[[], Any] | None) -> Callable[[], object]:
    """Return a call that returns when the device is done."""
    if synchronize is None:
        return call

    def run() -> object:
        result = call()
        synchronize()
        return result

    return run


def _products(is_large: bool) -> Described:
    for columns, depth in (*_WEIGHTS, _LARGE):
        weight, bias = random(columns, depth), random(columns)
        for rows in _FEW_ROWS if (columns, depth) == _LARGE else _ROWS:
            yield f"linear {rows} x {columns} x {depth}", functional.linear, (random(rows, depth), weight, bias)
    for (rows, columns), depth in product(*_SHALLOW):
        tensors = random(rows, depth), random(columns, depth), random(columns)
        yield f"linear {rows} x {columns} x {depth}", functional.linear, tensors
    for rows, (columns, depth) in product(_LARGE_ROWS, _LARGE_WEIGHTS) if is_large else ():
        tensors = random(rows, depth), random(columns, depth), random(columns)
        yield f"linear {rows} x {columns} x {depth}", functional.linear, tensors
    for batch, rows, columns, depth in _BATCHED + _LARGE_BATCHED * is_large:
        yield f"bmm {batch} x {rows}", torch.bmm, (random(batch, rows, depth), random(batch, depth, columns))


def _convolutions(is_large: bool) -> Described:
    listed = (*_CONVOLUTIONS, *_MORE_CONVOLUTIONS, *_LARGE_CONVOLUTIONS * is_large)
    for batch, channels, size, out, kernel, stride in listed:
        x, weight = random(batch, channels, size, size), random(out, channels, kernel, kernel)
        yield f"convolution {x.shape} {weight.shape}", _convolution(stride, kernel // 2, 1), (x, weight, random(out))
        if channels <= 3 or stride == 1:
            length = (size - 1) // stride + 1
            function = _convolution_gradient(kernel // 2, out, stride=stride, of_input=channels > 3)
            yield f"gradient {x.shape} {weight.shape}", function, (random(batch, out, length, length), x, weight)
    for batch, channels, size, kernel in _DEPTHWISE + _LARGE_DEPTHWISE * is_large:
        x, weight = random(batch, channels, size, size), random(channels, 1, kernel, kernel)
        yield f"depthwise {x.shape}", _convolution(1, kernel // 2, channels), (x, weight, random(channels))
        y = random(batch, channels, size, size)
        yield f"gradient of depthwise {x.shape}", _convolution_gradient(kernel // 2, channels, channels), (y, x, weight)


def _convolution(stride: int, padding: int, groups: int) -> Callable[..., Any]:
    return lambda x, weight, bias: functional.conv2d(x, weight, bias, stride, padding, 1, groups)


def _convolution_gradient(
    padding: int, out: int, groups: int = 1, stride: int = 1, of_input: bool = True
) -> Callable[..., Any]:
    """Return the function of the gradients by weight and bias, and by the input but in a network's first layer."""
    gradients, strides = [of_input, True, True], [stride, stride]
    return lambda y, x, weight: torch.ops.aten.convolution_backward(
        y, x, weight, [out], strides, [padding, padding], [1, 1], False, [0, 0], groups, gradients
    )


def _attention(is_large: bool) -> Described:
    for batch, heads, length, width in _ATTENTION + _LARGE_ATTENTION * is_large:
        tensors = tuple(random(batch, heads, length, width) for _ in range(3))
        yield f"attention {tensors[0].shape}", functional.scaled_dot_product_attention, tensors


def _traffic(is_large: bool) -> Described:
    for elements in _ELEMENTS + _LARGE_ELEMENTS * is_large:
        rows, width = max(1, elements // 64), min(elements, 64)
        x, scale = random(rows, width), random(width)
        yield f"add {elements}", torch.add, (x, random(rows, width))
        yield f"relu {elements}", torch.relu, (x,)
        yield f"gelu {elements}", functional.gelu, (x,)
        yield f"layer norm {elements}", _layer_norm, (x, scale, scale)
        yield f"softmax {elements}", _softmax, (x,)
        yield f"sum {elements}", _row_sums, (x,)
        yield f"copy {elements}", torch.clone, (x,)
        yield f"cat {elements}", _cat, (x, x)
        yield f"dropout {elements}", _random_bits, (x,)


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _row_sums(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, 1)


def _cat(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, y))


def _random_bits(x: torch.Tensor) -> torch.Tensor:
    return torch.bernoulli(x, 0.5)


def _images(is_large: bool) -> Described:
    for samples, channels, size in _IMAGES + _LARGE_IMAGES * is_large:
        x, number = random(samples, channels, size, size), random(channels)
        yield f"batch norm {x.shape}", _batch_norm, (x, number, positive(channels), number, number)
        yield f"max pool {x.shape}", _max_pool, (x,)
        yield f"average pool {x.shape}", _average_pool, (x,)
        yield f"upsampling {x.shape}", _upsample, (x,)
    for rows, width in ((64, 16), (1024, 64), (8192, 256)):
        yield f"embedding {rows} x {width}", functional.embedding, (indices(rows, rows // 4), random(rows, width))


def _batch_norm(
    x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    return functional.batch_norm(x, mean, variance, weight, bias)


def _max_pool(x: torch.Tensor) -> Any:
    return functional.max_pool2d(x, 2)


def _average_pool(x: torch.Tensor) -> Any:
    return functional.avg_pool2d(x, 2)


def _upsample(x: torch.Tensor) -> Any:
    return torch.ops.aten.upsample_nearest2d.vec(x, None, [2.0, 2.0])
