"""The bytes that torch's operators allocate and free inside, by the source of each, in ``aten/src/ATen/native``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from ..compat.operators import choose_convolution_kernel, find_operator
from ..costs.shapes import has_floats, is_plain
from ..model.storages import count_stored_bytes
from .attention_kernels import count_spelled_out_bytes
from .kernel_outputs import find_channels_last
from .operator_facts import tensors_in
from .row_sums import count_row_sum_bytes, is_sum_over_rows

__all__ = ["RULES", "Operation", "is_mask"]

_NARROW = (torch.bfloat16, torch.float16)
_FLOAT32_BYTES = 4
_GRU_GATES = 3
_INT64_BYTES = 8


class Operation(NamedTuple):
    """An operator that has run.

    Attributes:
        arguments: Its arguments by the names that formulas use: see `argument_names`.
        result: What it has returned.
        device: The device on whose kernels the model would run, "meta" for any accelerator; None where nobody knows.
    """

    arguments: dict[str, Any]
    result: Any
    device: torch.device | None

    @property
    def x(self) -> torch.Tensor:
        """The tensor that it computes with."""
        x: torch.Tensor = self.arguments["x"]
        return x

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument; the default where the caller has left it out."""
        return self.arguments.get(name, default)

    def is_on(self, kind: str) -> bool:
        """Return whether its device is known, and of a kind: "cpu" or "cuda"."""
        return self.device is not None and self.device.type == kind


# Copies of tensors whose numbers lie apart ----------------------------------------------------------------------------


def _count_copy(tensor: torch.Tensor) -> int:
    """Return the bytes of the copy of a tensor with gaps between its numbers; others are read as they are."""
    return 0 if tensor.is_nested or tensor.is_contiguous() else count_stored_bytes(tensor)


def _count_copy_of_images(images: torch.Tensor) -> int:
    """Return the bytes of a copy of images, which a kernel needs without gaps, in rows or with the channels last."""
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = layouts.get(images.dim(), torch.contiguous_format)
    is_dense = images.is_contiguous() or images.is_contiguous(memory_format=layout)
    return 0 if is_dense else images.nbytes


def _count_copy_of_sequences(sequences: torch.Tensor) -> int:
    """Return the bytes of a copy of sequences, which a kernel takes as images of one row."""
    return _count_copy_of_images(sequences.unsqueeze(-2))


def _count_copy_of_input(operation: Operation) -> int:
    """Return the bytes of the copy of an input with gaps between its numbers."""
    return _count_copy(operation.x)


def _count_copy_on_cpu(copy: Callable[[torch.Tensor], int], name: str, operation: Operation) -> int:
    """Return the bytes of a copy that the CPU makes of the argument of a name, as of the repeated gradient of a sum."""
    tensor = operation.arguments[name]
    return copy(tensor) if operation.is_on("cpu") and is_plain(tensor) else 0


# Products of matrices and linear layers -------------------------------------------------------------------------------


def _count_in_product(product: Operation) -> int:
    """Return the bytes of the copies of the two matrices that a library for matrices cannot read (``addmm_impl_cpu_``).

    It can if numbers of a row or a column are side by side, and rows or columns do not overlap
    (``prepare_matrix_for_cublas``).
    """
    *_, left, right = (value for value in product.arguments.values() if isinstance(value, torch.Tensor))
    return sum(map(_count_copy_of_matrix, (left, right)))


def _count_in_matmul(product: Operation) -> int:
    """Return the bytes of the copies for a product of a matrix; of more dimensions there is no rule."""
    dimensions = product.x.dim(), product.arguments["other"].dim()
    return _count_in_product(product) if dimensions in ((2, 2), (2, 1)) else 0


#: The fewest multiplications of a product of two matrices of a batch for which the CPU asks a library.
_FEWEST_MULTIPLICATIONS = 400


def _count_in_batch_product(product: Operation) -> int:
    """Return the bytes of the copies of two matrices of a batch: the CPU multiplies one pair after the other."""
    *_, left, right = (value for value in product.arguments.values() if isinstance(value, torch.Tensor))
    if not product.is_on("cpu") or not (is_plain(left) and is_plain(right) and len(left)):
        return 0
    multiplications = left.shape[1:].numel() * right.shape[2]
    return sum(map(_count_copy_of_matrix, (left[0], right[0]))) if multiplications >= _FEWEST_MULTIPLICATIONS else 0


def _count_copy_of_matrix(matrix: torch.Tensor) -> int:
    """Return the bytes of a copy of a matrix, if its product with another matrix makes one."""
    if matrix.dim() != 2 or not is_plain(matrix):
        return 0
    sizes, strides = matrix.shape, matrix.stride()
    is_readable = any(strides[inner] == 1 and strides[1 - inner] >= sizes[inner] for inner in (0, 1))
    return 0 if is_readable else matrix.nbytes


def _count_in_linear(linear: Operation) -> int:
    """Return the bytes of the copy of an input whose rows lie apart in memory (``LinearAlgebra.cpp``).

    The rows of a layer that is trained become one matrix, in a pass without gradients too. For another layer matrices
    are multiplied one by one, and only those must have one distance from each other.
    """
    x, weight = linear.x, linear.arguments["weight"]
    if not is_plain(x):
        return 0
    if x.dim() < 3:
        return _count_copy_of_matrix(x) + _count_copy_of_matrix(weight)
    joined = x.dim() - (1 if weight.requires_grad else 2)
    dimensions = [(x.stride(dim), x.shape[dim]) for dim in range(joined) if x.shape[dim] > 1]
    return _count_copy_of_matrix(weight) + (0 if _is_one_dimension(dimensions) else x.nbytes)


def _is_one_dimension(dimensions: Sequence[tuple[int, int]]) -> bool:
    """Return whether dimensions, each a stride and a size, the outermost first, can be viewed as one."""
    return all(stride == inner_stride * size for (stride, _), (inner_stride, size) in pairwise(dimensions))


# Convolutions (``Convolution.cpp``, ``ConvolutionMM2d.cpp``, ``NaiveDilatedConvolution.cpp``) -------------------------


def _count_in_convolution(convolution: Operation, is_transposed: bool = False) -> int:
    """Return the bytes of the copies of images whose numbers lie apart, and of the images that the CPU unfolds."""
    if convolution.x.is_mkldnn or convolution.x.is_complex():
        return 0
    gradient = convolution.get("dy")
    copied = _count_copy_of_images(convolution.x) + (0 if gradient is None else _count_copy_of_images(gradient))
    return copied + _count_without_library(convolution, is_transposed)


def _count_without_library(convolution: Operation, is_transposed: bool) -> int:
    """Return the bytes inside a convolution that the CPU runs as a product, because oneDNN has no kernel for it.

    Such are small single images, volumes, numbers in double precision: oneDNN's workspaces are in no trace. Complex
    numbers have real convolutions, which `find_unknown_inside` names.
    """
    if not convolution.is_on("cpu"):
        return 0
    x, weight = convolution.x, convolution.arguments["weight"]
    batch = x if x.dim() == weight.dim() else x[None]
    kernel = _find_kernel(convolution, batch, convolution.get("transposed", is_transposed))
    if not kernel.startswith("Slow"):
        return 0
    unfolded = _count_unfolded(convolution, kernel, batch)
    groups: int = convolution.get("groups", 1)
    if kernel == "Slow3d":
        return unfolded * groups
    if groups == 1:
        return unfolded
    # One group after the other makes its part of the results from its part of the images, and the parts are joined.
    read = [images for images in (batch, convolution.get("dy")) if images is not None and len(batch) > 1]
    results: int = sum(tensor.nbytes for tensor in tensors_in(convolution.result))
    return max(unfolded + sum(images.nbytes for images in read) // groups, results)


def _find_kernel(convolution: Operation, batch: torch.Tensor, is_transposed: bool) -> str:
    """Return the kernel of a convolution: "Slow3d"."""
    weight, groups = convolution.arguments["weight"], convolution.get("groups", 1)
    sizes = weight.shape[2:]
    stride, dilation = (_repeat(convolution.get(name, 1), sizes) for name in ("stride", "dilation"))
    padding = convolution.get("padding", 0)  # or "same" or "valid", where any that is wide enough does
    wide = [size * distance for size, distance in zip(sizes, dilation, strict=True)]
    paddings = wide if isinstance(padding, str) else _repeat(padding, sizes)
    return choose_convolution_kernel(batch, weight, stride, paddings, dilation, is_transposed, groups)


def _reads_in_place(convolution: Operation, kernel: str) -> bool:
    """Return whether images are read where they are: each output has one position of its input, and all of it."""
    sizes = convolution.arguments["weight"].shape[2:]
    padding = convolution.get("padding", 0)
    is_moved = not isinstance(padding, str) and any(_repeat(padding, sizes))
    if sizes.numel() != 1 or is_moved or set(_repeat(convolution.get("stride", 1), sizes)) != {1}:
        return False
    is_forward = convolution.get("dy") is None
    if kernel == "Slow3d":  # the gradient of its input is made of unfolded numbers
        return convolution.get("groups", 1) == 1 and (is_forward or convolution.result[0] is None)
    return kernel == "Slow2d" or (kernel in ("SlowTranspose2d", "SlowTranspose3d") and not is_forward)


def _count_unfolded(convolution: Operation, kernel: str, batch: torch.Tensor) -> int:
    """Return the bytes of the images that are unfolded at once for one group: for each position, all that it reads.

    A position is one of the output; in a transposed convolution one of the input, with all that is made of it.
    """
    weight, gradient = convolution.arguments["weight"], convolution.get("dy")
    is_forward, is_transposed = gradient is None, "Transpose" in kernel
    images = batch if is_transposed else convolution.result if is_forward else gradient
    image = 0 if _reads_in_place(convolution, kernel) else images.numel() // max(1, len(batch) * len(weight))
    are_all = kernel in ("Slow2d", "Slow3d") or (kernel == "SlowTranspose2d" and is_forward)
    unfolded = int(image * weight[0].numel() * batch.element_size()) * (len(batch) if are_all else 1)
    if kernel == "SlowTranspose3d" and is_forward:  # its output begins as large as its input
        return max(unfolded, batch.nbytes // int(convolution.get("groups", 1)))
    return unfolded


def _repeat(setting: int | Sequence[int], kernel: torch.Size) -> list[int]:
    """Return a setting for each dimension of a kernel: one number stands for all."""
    numbers = [setting] if isinstance(setting, int) else [*setting]
    return numbers * len(kernel) if len(numbers) == 1 else numbers


# Attention and softmax ------------------------------------------------------------------------------------------------


def _count_in_attention(attention: Operation) -> int:
    """Return the bytes of a mask of booleans as numbers, made before a kernel is chosen, and those without a kernel.

    It is ``convert_boolean_attn_mask`` in ``transformers/attention.cpp``.
    """
    mask, query = attention.get("attn_mask"), attention.get("query")
    is_boolean = mask is not None and mask.dtype is torch.bool
    converted = int(mask.numel() * query.element_size()) if is_boolean else 0  # an expanded one is made in full
    return converted + count_spelled_out_bytes(
        attention.device,
        (query, attention.get("key"), attention.get("value")),
        mask,
        attention.get("dropout_p", 0.0),
        is_causal=attention.get("is_causal", False),
        is_grouped=attention.get("enable_gqa", False),
    )


def _count_in_attention_gradient(gradient: Operation) -> int:
    """Return the bytes of the products of the output and its gradient (``transformers/cuda/attention_backward.cu``)."""
    dy: torch.Tensor = gradient.arguments["dy"]
    return dy.nbytes if dy.dtype is torch.float32 else 0


def _count_copy_of_attention_gradient(gradient: Operation) -> int:
    """Return the bytes of a copy of the output's gradient, unless the heads of each row are side by side.

    It is ``flash_attention_backward_kernel_impl`` in ``cpu/FlashAttentionKernel.cpp``.
    """
    dy: torch.Tensor = gradient.arguments["dy"]
    return 0 if dy.transpose(1, 2).is_contiguous() else dy.nbytes


def _count_in_softmax(softmax: Operation) -> int:
    """Return the bytes of the input in the dtype of the output, or of its copy without gaps (``SoftMax.cpp``)."""
    x, dtype = softmax.x, softmax.get("dtype")
    if dtype in (None, x.dtype):
        return _count_copy(softmax.x)
    is_in_kernel = softmax.is_on("cuda") and (x.dtype, dtype) == (torch.float16, torch.float32)
    return 0 if is_in_kernel else x.numel() * dtype.itemsize


def _count_in_safe_softmax(softmax: Operation) -> int:
    """Return the bytes of a softmax, or then of whether each score is minus infinity, all of a row are, and that."""
    scores = softmax.x
    dim: int = softmax.arguments["dim"]
    if scores.is_nested:
        return 0
    truths = scores.numel() + scores.numel() // max(1, scores.shape[dim]) + scores.element_size()
    return max(_count_in_softmax(softmax), truths)


def _count_in_softmax_gradient(softmax: Operation) -> int:
    """Return the bytes of the products of the output and its gradient (``cuda/SoftMax.cu``); the CPU copies this."""
    if softmax.is_on("cpu"):
        return _count_copy(softmax.arguments["dy"])
    gradient, output = softmax.arguments["dy"], softmax.arguments["output"]
    itemsize = max(gradient.element_size(), output.element_size())
    return int(gradient.numel() * itemsize) if softmax.is_on("cuda") else 0


def _count_in_gelu_gradient(gradient: Operation) -> int:
    """Return the bytes of the output's gradient, and of the result, in the layout of the input, which oneDNN needs."""
    x, dy = gradient.x, gradient.arguments["dy"]
    is_onednn = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    takes_it = x.dtype is torch.float32 and x.is_contiguous() and gradient.get("approximate", "none") == "none"
    if not (gradient.is_on("cpu") and is_onednn and takes_it):
        return 0
    return sum(x.nbytes for tensor in (dy, gradient.result) if not tensor.is_contiguous())


# Losses (``Loss.cpp``) of tensors of one shape and dtype: of others `find_unknown_inside` says that more is made ------


def _count_in_loss(loss: Operation) -> int:
    """Return the bytes of the loss of each element, of which the sum or mean is the result."""
    return count_stored_bytes(loss.x) if loss.get("reduction", 1) else 0


def _count_in_loss_of_logits(loss: Operation) -> int:
    """Return the bytes of the factor of the input, of the logarithm of its sigmoid, and of ``pos_weight - 1``.

    The factor becomes the loss of each element: without a reduction it is the result, and not counted here.
    """
    weight = loss.get("pos_weight")
    less_one = 0 if weight is None else count_stored_bytes(weight)
    copied = _count_copy_on_cpu(_count_copy, "x", loss)  # for the sigmoid, when that factor is there
    return count_stored_bytes(loss.x) + _count_in_loss(loss) + max(less_one, copied)


def _count_in_likelihood_loss(loss: Operation) -> int:
    """Return the bytes of the CPU's copy of an input with gaps, of which it adds the chosen numbers up."""
    return _count_copy_on_cpu(_count_copy, "x", loss) if loss.get("reduction", 1) else 0


def _count_in_ctc_gradient(gradient: Operation) -> int:
    """Return the bytes of the probabilities of the rest of each target, as many as those of its begin."""
    return count_stored_bytes(gradient.arguments["log_alpha"])


def _count_in_margin_gradient(gradient: Operation) -> int:
    """Return the bytes of the products before the exponential of the same size."""
    return 2 * count_stored_bytes(gradient.x)


# Norms (``layer_norm.cpp``, ``group_norm.cpp``, ``Normalization.cpp``) ------------------------------------------------


def _count_in_layer_norm(norm: Operation) -> int:
    """Return the bytes of the mean and deviation of each row, and of the copy of an input with gaps."""
    rows = _count_rows(norm)
    return 2 * rows * _find_statistic_size(norm) + _count_copy(norm.x)


def _count_rows(norm: Operation) -> int:
    shape: Sequence[int] = norm.arguments["normalized_shape"]
    return norm.x.numel() // max(1, math.prod(shape))


def _count_in_group_norm(norm: Operation) -> int:
    """Return the bytes of the mean and deviation of each group, and of the copy of an input with gaps.

    With the channels last, the CPU also has both of each channel; other kernels copy the input.
    """
    x = norm.x
    samples, channels = x.shape[:2]
    groups: int = norm.arguments["num_groups"]
    statistics = 2 * samples * groups * _find_statistic_size(norm)
    layout = find_channels_last(x) if norm.is_on("cpu") else None
    if layout is None:
        return statistics + _count_copy(norm.x)
    of_channels = 2 * samples * channels * max(_FLOAT32_BYTES, x.element_size())
    return statistics + of_channels + (0 if x.is_contiguous(memory_format=layout) else count_stored_bytes(x))


def _count_in_group_norm_gradient(gradient: Operation) -> int:
    """Return the bytes of two sums for each channel of each sample: of the gradient, and of its products with x."""
    samples, channels = gradient.x.shape[:2]
    return int(2 * samples * channels * max(_FLOAT32_BYTES, gradient.x.element_size()))


def _count_in_batch_norm(norm: Operation) -> int:
    """Return the bytes of the batch's mean and deviation of each channel; the CPU also has a factor and an addend."""
    statistic = _find_statistic_size(norm) if norm.arguments["training"] else 0
    return 2 * norm.x.shape[1] * statistic + _count_in_native_batch_norm(norm)


def _count_in_native_batch_norm(norm: Operation) -> int:
    """Return the bytes of the CPU's factor and addend of each channel; the mean and deviation are returned."""
    return 2 * norm.x.shape[1] * max(_FLOAT32_BYTES, norm.x.element_size()) if norm.is_on("cpu") else 0


def _find_statistic_size(norm: Operation) -> int:
    """Return the bytes of a statistic: on the CPU as the weight, or else the input, elsewhere at least in float32."""
    if not norm.is_on("cpu"):
        return max(_FLOAT32_BYTES, norm.x.element_size())
    weight: torch.Tensor | None = norm.get("weight")
    return (norm.x if weight is None else weight).element_size()


def _count_in_rms_norm(norm: Operation) -> int:
    """Return the bytes of the CPU, which spells it out, beside the output: in float32 for narrow numbers.

    At the most there are the squares with their means twice, or with a weight the product before it is weighted.
    """
    if not norm.is_on("cpu"):
        return 0
    x, weight = norm.x, norm.get("weight")
    is_narrow = x.dtype in _NARROW
    itemsize = _FLOAT32_BYTES if is_narrow else x.element_size()
    rows = _count_rows(norm)
    most = x.numel() if is_narrow else 0  # the input in float32
    if weight is None:
        most += x.numel() + 2 * rows
    else:
        most += 2 * x.numel() + rows + (weight.numel() if weight.element_size() < itemsize else 0)
    return most * itemsize - count_stored_bytes(x)


# Sums and sorting (``ReduceOps.cpp``, ``ReduceOpsUtils.h``, ``Sorting.cpp``) ------------------------------------------


def _count_in_sum(total: Operation) -> int:
    """Return the bytes of a sum's input in the dtype that is added up, or of its buffer over rows on CUDA."""
    if total.is_on("cuda") and is_sum_over_rows(total.x, total.get("dim")):
        return count_row_sum_bytes(total.device, total.x)
    return _count_cast(total)


def _count_in_mean(mean: Operation) -> int:
    """Return the bytes of a mean's input in the dtype that is added up: float32 for narrow numbers."""
    is_widened = mean.x.dtype in _NARROW and mean.get("dtype") is None
    return _count_as(torch.float32, mean) if is_widened else _count_cast(mean)


def _count_cast(reduction: Operation) -> int:
    """Return the bytes of a reduction's input in the dtype that is added up: in int64 for integers."""
    x = reduction.x
    return _count_as(reduction.get("dtype") or (x.dtype if has_floats(x) else torch.int64), reduction)


def _count_as(dtype: torch.dtype, reduction: Operation) -> int:
    """Return the bytes of a reduction's input in a dtype; accelerators cast floats as they read."""
    is_cast = dtype is not reduction.x.dtype and (reduction.is_on("cpu") or not has_floats(reduction.x))
    return reduction.x.numel() * dtype.itemsize if is_cast else 0


def _count_truths(reduction: Operation) -> int:
    """Return the bytes of a boolean for each number: the CPU reduces these."""
    is_read = reduction.x.dtype in (torch.bool, torch.uint8) or not reduction.is_on("cpu")
    return 0 if is_read else reduction.x.numel()


def _count_in_log_sum(log_sum: Operation) -> int:
    """Return the bytes of the largest numbers and of the exponentials of what is left; integers become floats first."""
    x, output = log_sum.x, log_sum.result
    itemsize, copies = (x.element_size(), 1) if has_floats(x) else (_FLOAT32_BYTES, 2)
    return int(itemsize * (copies * x.numel() + output.numel()))


def _count_in_sort(sort: Operation) -> int:
    """Return the bytes of the places of one row, which the CPU sorts with its numbers."""
    length = sort.x.shape[sort.get("dim", -1)] if sort.x.dim() else 1
    return length * _INT64_BYTES if sort.is_on("cpu") else 0


def _count_in_argsort(sort: Operation) -> int:
    """Return the bytes of the sorted numbers too."""
    return count_stored_bytes(sort.x) + _count_in_sort(sort)


def _count_in_taking(taking: Operation) -> int:
    """Return the bytes of the positions along a dimension, which may be negative and are counted from its start."""
    return 0 if taking.get("dim") is None else taking.result.numel() * _INT64_BYTES


# Recurrent layers (``FullLayer`` and ``FullBidirectionalLayer`` in ``RNN.cpp``) ---------------------------------------


def _count_in_recurrent_layer(gates: int, layer: Operation) -> int:
    """Return the bytes that an RNN or a GRU holds on the CPU beyond its result; `find_unknown_inside` names the others.

    All sizes are in states: what a step of one direction hands on for all samples. The gates of all steps are there to
    the end. Each step makes its own beside the states of the steps before, and new states; then all are joined.
    """
    if not layer.is_on("cpu"):
        return 0
    x = layer.x.transpose(0, 1) if layer.get("batch_first") else layer.x
    _, last_states = layer.result
    steps, cells, directions = x.shape[0], last_states.shape[0], 2 if layer.get("bidirectional") else 1
    new_states = 2 if gates == _GRU_GATES else 1
    most = products = steps * gates
    most += max(gates + new_states + steps - 1, 2 * steps)
    if directions == 2:
        # What the first direction made stays, by step and joined, and its gates until the others are there.
        products = 2 * steps + 2 * steps * gates
        most = max(2 * steps + most, steps * gates + 6 * steps)
    outputs = steps * directions
    if cells > directions:  # the last layer reads the output of the one before, beside the last states of all before
        most += outputs + cells - directions
    state_bytes = last_states.nbytes // cells
    copy_of_input = 0 if x.is_contiguous() else count_stored_bytes(x)  # for the products of the first layer
    most_bytes = max(most * state_bytes, products * state_bytes + copy_of_input, (outputs + 2 * cells) * state_bytes)
    return int(most_bytes - (outputs + cells) * state_bytes)


# Images and transforms (``Pooling.cpp``, ``UpSampleKernel.cpp``, ``TensorTransformations.cpp``, ``SpectralOps.cpp``) --


def _count_in_pooling(pooling: Operation) -> int:
    """Return the bytes of the places of the largest numbers, and of the CPU's copy of images that lie apart."""
    if pooling.x.is_quantized or pooling.x.is_mkldnn:
        return 0
    places = int(pooling.result.numel() * _INT64_BYTES)
    return places + _count_copy_on_cpu(_count_copy_of_images, "x", pooling)


def _count_in_adaptive_average(pooling: Operation) -> int:
    """Return the bytes of the CPU's copy of images or sequences; a single number of each channel is a mean, without."""
    copy = {1: _count_copy_of_sequences, 2: _count_copy_of_images}[len(pooling.arguments["output_size"])]
    return 0 if math.prod(pooling.arguments["output_size"]) == 1 else _count_copy_on_cpu(copy, "x", pooling)


def _count_in_padding(padding: Operation) -> int:
    """Return the bytes of the CPU's copy of images that it pads with their own numbers."""
    takes_images = padding.get("mode") in ("reflect", "replicate")
    return _count_copy_on_cpu(_count_copy_of_images, "x", padding) if takes_images else 0


#: The most that height and width of the output are together where the CPU puts the channels last.
_MOST_RESAMPLED = 128
#: The most channels of images with the channels last that are read as other images are.
_MOST_CHANNELS_APART = 3
#: How many numbers along a dimension make one of the output, if it is interpolated by cubic polynomials.
_CUBIC = 4


def _count_in_resampling(taps: int, resampling: Operation) -> int:
    """Return the bytes of the CPU, which copies small images to put their channels last: input and output.

    Of others it has the place and the factor of each number that makes one of the output, along each dimension:
    ``taps`` is how many these are.
    """
    x, output = resampling.x, resampling.result
    if not resampling.is_on("cpu"):
        return 0
    sizes = output.shape[2:]
    has_channels_last = len(sizes) == 2 and taps != _CUBIC
    if has_channels_last and sum(sizes) <= _MOST_RESAMPLED and x.is_floating_point():
        images = (x, output)
        return sum(image.nbytes for image in images if not image.is_contiguous(memory_format=torch.channels_last))
    if taps != _CUBIC and x.shape[1] > _MOST_CHANNELS_APART and find_channels_last(x):
        return 0
    factor_size = x.element_size() if x.is_floating_point() else _FLOAT32_BYTES
    return int(sum(sizes) * taps * (_INT64_BYTES + factor_size))


def _count_in_roll(roll: Operation) -> int:
    """Return the bytes of a tensor for each dimension but one: they are rolled one after the other."""
    return count_stored_bytes(roll.x) * max(0, len(roll.get("dims", ())) - 1)


def _count_in_complex_parts(operation: Operation) -> int:
    """Return the bytes of the CPU's complex result, of which the output is the real part."""
    return count_stored_bytes(operation.x) if operation.is_on("cpu") and operation.x.is_complex() else 0


def _count_in_transform(transform: Operation) -> int:
    """Return the bytes of a copy: MKL takes all dimensions that it does not transform as one, if strides allow it."""
    if not transform.is_on("cpu") or not torch.backends.mkl.is_available():
        return 0
    x = transform.x
    if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
        return x.numel() * x.element_size()  # it takes nothing that is repeated
    transformed = {dim % x.dim() for dim in transform.arguments["dim"]}
    batch = [(x.stride(dim), x.shape[dim]) for dim in range(x.dim()) if dim not in transformed and x.shape[dim] > 1]
    return 0 if _is_one_dimension(sorted(batch, reverse=True)) else count_stored_bytes(x)


# Indices (``IndexingUtils.h``) ----------------------------------------------------------------------------------------


def is_mask(index: torch.Tensor | None) -> bool:
    """Return whether an index chooses by a value for each element."""
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _count_in_index(indexing: Operation) -> int:
    """Return the bytes of the positions that indices become, in int64: of masks, and of integers of 32 bits.

    A mask has as many as elements in the result for each element of the dimensions that are not indexed, and that for
    each of its dimensions.
    """
    x, indices = indexing.x, indexing.arguments["indices"]
    rest, dim, converted = 1, 0, 0
    for index in indices:
        if index is None:
            rest *= x.shape[dim]
            dim += 1
        else:
            taken = index.dim() if is_mask(index) else 1
            converted += taken if is_mask(index) or _is_narrow(index) else 0
            dim += taken
    rest *= x.shape[dim:].numel()
    return int(indexing.result.numel() // max(1, rest) * converted * _INT64_BYTES)


def _count_in_put(putting: Operation) -> int:
    """Return the bytes of the positions in int64 that integers of 32 bits become."""
    return sum(index.numel() * _INT64_BYTES for index in putting.arguments["indices"] if _is_narrow(index))


def _is_narrow(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype is torch.int32


# Bags of embeddings (``EmbeddingBag.cpp``) ----------------------------------------------------------------------------

#: The mode of bags of which the largest elements are the result.
_MAX_MODE = 2
#: How many tensors of positions a sort of the rows has: sorted, where they were, and those that it begins with.
_SORTED_TENSORS = 3


def _count_in_bags(bags: Operation) -> int:
    """Return the bytes of the sums that give the bag of each row on the CPU, before sizes and places are made."""
    _, bag_by_row, sizes, places = bags.result
    return max(0, bag_by_row.nbytes - sizes.nbytes - places.nbytes) if bags.is_on("cpu") else 0


def _count_in_bags_gradient(gradient: Operation) -> int:
    """Return the bytes of the CPU's sort of the rows, of their sorted weights, and of bags by row where these lack.

    Of the largest elements it copies column by column: at the end all places and the output's gradient.
    """
    if not gradient.is_on("cpu") or gradient.arguments["sparse"]:
        return 0
    if gradient.arguments["mode"] == _MAX_MODE:
        return int(gradient.arguments["dy"].nbytes + gradient.arguments["maximum_indices"].nbytes)
    tensors = _SORTED_TENSORS + (gradient.arguments["offset2bag"].numel() == 0)
    weights = gradient.get("per_sample_weights")
    of_weights = 0 if weights is None else count_stored_bytes(weights)
    return int(tensors * gradient.arguments["indices"].numel() * _INT64_BYTES) + of_weights


#: The operators of each rule; no operator has two.
_OPERATORS: dict[Callable[[Operation], int], str] = {
    _count_in_product: "mm.default addmm.default mv.default addmv.default",
    _count_in_matmul: "matmul.default",
    _count_in_batch_product: "bmm.default baddbmm.default",
    partial(_count_copy_on_cpu, _count_copy, "x"): """
        max_pool1d.default col2im.default log_sigmoid.default log_sigmoid_forward.default bucketize.Tensor
        searchsorted.Tensor
    """,
    partial(_count_copy_on_cpu, _count_copy, "dy"): """
        _log_softmax_backward_data.default native_layer_norm_backward.default embedding_dense_backward.default
    """,
    partial(_count_copy_on_cpu, _count_copy_of_sequences, "x"): "avg_pool1d.default adaptive_max_pool1d.default",
    partial(_count_copy_on_cpu, _count_copy_of_images, "x"): """
        avg_pool2d.default avg_pool3d.default _adaptive_avg_pool2d.default adaptive_max_pool2d.default
        max_pool2d_with_indices.default max_pool3d_with_indices.default
        reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default
        replication_pad1d.default replication_pad2d.default replication_pad3d.default
    """,
    partial(_count_copy_on_cpu, _count_copy_of_images, "dy"): """
        avg_pool2d_backward.default avg_pool3d_backward.default _adaptive_avg_pool2d_backward.default
        _adaptive_avg_pool3d_backward.default adaptive_max_pool2d_backward.default adaptive_max_pool3d_backward.default
        max_pool2d_with_indices_backward.default max_pool3d_with_indices_backward.default
        reflection_pad1d_backward.default reflection_pad2d_backward.default reflection_pad3d_backward.default
        replication_pad1d_backward.default replication_pad2d_backward.default replication_pad3d_backward.default
        grid_sampler_2d_backward.default upsample_nearest1d_backward.default upsample_nearest2d_backward.default
        upsample_nearest3d_backward.default upsample_linear1d_backward.default upsample_bilinear2d_backward.default
        upsample_trilinear3d_backward.default upsample_bicubic2d_backward.default
    """,
    _count_in_linear: "linear.default",
    _count_in_convolution: """
        conv1d.default conv2d.default conv3d.default conv1d.padding conv2d.padding conv3d.padding convolution.default
        convolution_backward.default
    """,
    partial(_count_in_convolution, is_transposed=True): """
        conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input
    """,
    _count_in_attention: "scaled_dot_product_attention.default",
    _count_in_attention_gradient: "_scaled_dot_product_efficient_attention_backward.default",
    _count_copy_of_attention_gradient: "_scaled_dot_product_flash_attention_for_cpu_backward.default",
    _count_in_softmax: "softmax.int log_softmax.int",
    _count_in_safe_softmax: "_safe_softmax.default",
    _count_copy_of_input: "_softmax.default _log_softmax.default",
    _count_in_softmax_gradient: "_softmax_backward_data.default",
    _count_in_loss: "huber_loss.default mse_loss.default smooth_l1_loss.default",
    _count_in_gelu_gradient: "gelu_backward.default",
    _count_in_likelihood_loss: "nll_loss_forward.default nll_loss2d_forward.default",
    _count_in_loss_of_logits: "binary_cross_entropy_with_logits.default",
    _count_in_ctc_gradient: "_ctc_loss_backward.default _ctc_loss_backward.Tensor",
    _count_in_margin_gradient: "soft_margin_loss_backward.default",
    _count_in_layer_norm: "layer_norm.default",
    _count_in_group_norm: "group_norm.default",
    _count_in_group_norm_gradient: "native_group_norm_backward.default",
    _count_in_batch_norm: "batch_norm.default",
    _count_in_native_batch_norm: "native_batch_norm.default",
    _count_in_rms_norm: "rms_norm.default",
    _count_in_sum: "sum.dim_IntList",
    _count_cast: """
        sum.default nansum.default linalg_vector_norm.default prod.default prod.dim_int cumsum.default
        cumprod.default
    """,
    _count_in_mean: "mean.default mean.dim",
    _count_truths: "any.default any.dim any.dims all.default all.dim all.dims",
    _count_in_log_sum: "logsumexp.default",
    _count_in_sort: "sort.default sort.stable",
    _count_in_argsort: "argsort.default argsort.stable",
    _count_in_taking: "take_along_dim.default",
    _count_in_adaptive_average: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default",
    _count_in_padding: "pad.default",
    _count_in_pooling: "max_pool2d.default max_pool3d.default",
    _count_in_roll: "roll.default",
    _count_in_complex_parts: "abs.default angle.default",
    # To real numbers, c2r, there may be further copies: `find_unknown_inside` names them.
    _count_in_transform: "_fft_c2c.default _fft_r2c.default _fft_c2r.default",
    _count_in_index: "index.Tensor",
    _count_in_put: "index_put.default index_put_.default _index_put_impl_.default _unsafe_index_put.default",
    _count_in_bags: "_embedding_bag.default _embedding_bag_forward_only.default",
    _count_in_bags_gradient: "_embedding_bag_backward.default",
    partial(_count_in_recurrent_layer, 1): "rnn_tanh.input rnn_relu.input",
    partial(_count_in_recurrent_layer, _GRU_GATES): "gru.input",
    partial(_count_in_resampling, 1): """
        upsample_nearest1d.default upsample_nearest1d.vec upsample_nearest2d.default upsample_nearest2d.vec
        upsample_nearest3d.default upsample_nearest3d.vec _upsample_nearest_exact1d.default
        _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.default _upsample_nearest_exact2d.vec
        _upsample_nearest_exact3d.default _upsample_nearest_exact3d.vec
    """,
    partial(_count_in_resampling, 2): """
        upsample_linear1d.default upsample_linear1d.vec upsample_bilinear2d.default upsample_bilinear2d.vec
        upsample_trilinear3d.default upsample_trilinear3d.vec
    """,
    partial(_count_in_resampling, _CUBIC): "upsample_bicubic2d.default upsample_bicubic2d.vec",
}
RULES = {find_operator(f"aten.{name}"): rule for rule, names in _OPERATORS.items() for name in names.split()}
