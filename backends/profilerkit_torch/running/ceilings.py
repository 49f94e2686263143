"""The work that measures the ceilings of a roofline: the fastest computing and moving of bytes of torch on a CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.nn import functional

from profilerkit.process.restoring import restored
from profilerkit.times.ceiling_work import CeilingWork

__all__ = ["prepare_work", "run_bare_operators"]

#: The sides of square products: the larger use every core, the smaller end before other programs interrupt them.
_SIDES = (512, 1024)
#: Convolutions of the shapes of residual networks: batch, channels, size, channels out, kernel.
_CONVOLUTIONS = (
    *((1, 64, 56, 64, 3), (1, 128, 28, 128, 3), (1, 256, 14, 256, 3), (4, 128, 28, 128, 3)),
    *((1, 256, 28, 512, 1), (4, 256, 28, 256, 1)),
)
#: Numbers of elements that stay in a cache, from 256 KiB to 4 MiB, and a number that no cache holds: 128 MiB.
_CACHED = (2**16, 2**18, 2**20)
_IN_MEMORY = 2**25
#: The side of a matrix that stays in a cache: 4 MiB.
_MATRIX_SIDE = 1024
#: The bytes of an element: all tensors here are float32.
_ITEM_BYTES = 4


@contextmanager
def prepare_work(num_threads: int | None) -> Iterator[list[CeilingWork]]:
    """Yield the work; inside, torch runs it on so many threads."""
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))  # the generator of torch is unchanged
    with run_bare_operators(num_threads):
        products = [(random(side, side), random(side, side)) for side in _SIDES]
        flops = [CeilingWork("flops", 2 * len(a) ** 3, partial(functional.linear, a, b)) for a, b in products]
        for shape in _CONVOLUTIONS:
            flops += _list_convolutions(random, *shape)
        yield [*flops, *_list_traffic()]


def _list_convolutions(
    random: Callable[..., torch.Tensor], batch: int, channels: int, size: int, out: int, kernel: int
) -> Iterator[CeilingWork]:
    """Yield a convolution in each layout: plain, channels last, and packed in blocks by oneDNN."""
    x, weight = random(batch, channels, size, size), random(out, channels, kernel, kernel)
    flops = 2.0 * batch * out * size * size * channels * kernel * kernel
    in_channels_last = partial(torch.Tensor.contiguous, memory_format=torch.channels_last)
    layouts = [(x, weight), (in_channels_last(x), in_channels_last(weight))]
    if torch.backends.mkldnn.is_available():
        packed = torch.ops.aten.mkldnn_reorder_conv2d_weight(weight.to_mkldnn(), [kernel // 2] * 2, [1, 1], [1, 1], 1)
        layouts.append((x.to_mkldnn(), packed))
    for inputs, weights in layouts:
        yield CeilingWork("flops", flops, partial(functional.conv2d, inputs, weights, None, 1, kernel // 2))


def _list_traffic() -> Iterator[CeilingWork]:
    """Yield the work that moves bytes: copies, functions in place, sums, and one row times a matrix.

    A copy and a function in place read and write each element. A sum reads two tensors and writes one. The product of a
    row reads the matrix; the row and the result are each a thousandth of the matrix and left out.
    """
    for elements in (*_CACHED, _IN_MEMORY):
        kind = "cached_bytes" if elements in _CACHED else "bytes"
        tensor_bytes = float(_ITEM_BYTES * elements)
        x = torch.ones(elements)
        y = torch.ones_like(x)
        yield CeilingWork(kind, 2 * tensor_bytes, partial(y.copy_, x))
        yield CeilingWork(kind, 2 * tensor_bytes, partial(torch.relu_, x))
        if kind == "cached_bytes":
            yield CeilingWork(kind, 3 * tensor_bytes, partial(torch.add, x, x, out=y))
    row, matrix = torch.ones(1, _MATRIX_SIDE), torch.ones(_MATRIX_SIDE, _MATRIX_SIDE)
    matrix_bytes = float(_ITEM_BYTES * _MATRIX_SIDE**2)
    yield CeilingWork("cached_bytes", matrix_bytes, partial(functional.linear, row, matrix))


@contextmanager
def run_bare_operators(num_threads: int | None) -> Iterator[int]:
    """Make torch ready for operators that are timed one by one; yield the number of their threads.

    Inside, operators run on so many threads; without gradients, because switching them off at each call would take as
    long as a small operator; and without warnings. Torch warns of ``torch.lstm`` if the weights are separate tensors,
    while an `nn.LSTM` has them in one piece.
    """
    threads = torch.get_num_threads()
    with (
        restored(partial(torch.set_num_threads, threads)),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.set_num_threads(num_threads or threads)
        with torch.random.fork_rng():  # dropout is timed too
            yield torch.get_num_threads()
