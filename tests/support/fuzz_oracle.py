"""What a model really does: a plain dispatch counter over a real run, written from the definitions in docs/metrics.rst.

It knows nothing of profilerkit. Multiply-accumulates come from the real arguments of each operator, by formulas of its
own; every other operator leaves its name and the sizes of what it made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from fuzz_flops import count_flops
from torch import nn
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Call", "Counted", "count_run", "count_step", "list_tensors"]

aten = torch.ops.aten


@dataclass(frozen=True)
class Call:
    """One call of an operator that is no view: its layer, its MACs, what came out, and its FLOPs if a rule is known."""

    operator: str
    layer: str
    macs: int
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    flops: int | None = None

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(shape for shape, _ in self.outputs)


@dataclass
class Counted:
    """All that a run did: its calls, in order."""

    calls: list[Call] = field(default_factory=list)

    @property
    def macs(self) -> int:
        return sum(call.macs for call in self.calls)

    @property
    def own_macs(self) -> dict[str, int]:
        """MACs of each layer without those inside, where it has any."""
        found: Counter[str] = Counter()
        for call in self.calls:
            found[call.layer] += call.macs
        return {layer: macs for layer, macs in found.items() if macs}


def list_tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


Macs = Callable[..., int]
_FORMULAS: dict[str, Macs] = {}


def _formula(*names: str) -> Callable[[Macs], Macs]:
    def keep(function: Macs) -> Macs:
        _FORMULAS.update({f"aten::{name}": function for name in names})
        return function

    return keep


@_formula("mm", "_int_mm")
def _mm(out: Any, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    """(m, k) @ (k, n)."""
    if a.layout != torch.strided:
        return int(a._nnz()) * b.shape[1]
    return a.shape[0] * a.shape[1] * b.shape[1]


@_formula("_sparse_addmm")
def _sparse_addmm(out: Any, bias: Any, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    """One for each element that is stored and each column that it meets."""
    return int(a._nnz()) * b.shape[1]


@_formula("bmm")
def _bmm(out: Any, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    return a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2]


@_formula("addmm", "addmm_", "_addmm_activation")
def _addmm(out: Any, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    return _mm(out, a, b)


@_formula("baddbmm", "baddbmm_", "addbmm", "addbmm_")
def _baddbmm(out: Any, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    return _bmm(out, a, b)


@_formula("mv")
def _mv(out: Any, a: torch.Tensor, b: torch.Tensor) -> int:
    return a.numel()


@_formula("addmv", "addmv_")
def _addmv(out: Any, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    return a.numel()


@_formula("dot", "vdot")
def _dot(out: Any, a: torch.Tensor, b: torch.Tensor) -> int:
    return a.numel()


@_formula("addr", "addr_")
def _addr(out: torch.Tensor, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    return a.numel() * b.numel()


@_formula("conv1d", "conv2d", "conv3d")
def _conv(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any) -> int:
    return out.numel() * prod(weight.shape[1:])


@_formula("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any) -> int:
    return x.numel() * prod(weight.shape[1:])


@_formula("linear")
def _linear(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> int:
    return out.numel() * x.shape[-1]


@_formula("_trilinear")
def _trilinear(
    out: Any, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, expand1: Any, expand2: Any, expand3: Any, *_: Any
) -> int:
    """Every combination of the labels once: the size of the three tensors laid over each other."""
    shapes = []
    for tensor, expanded in ((a, expand1), (b, expand2), (c, expand3)):
        shape = list(tensor.shape)
        for dimension in sorted(expanded):
            shape.insert(dimension, 1)
        shapes.append(shape)
    return prod(max(sizes) if min(sizes) else 0 for sizes in zip(*shapes, strict=True))


@_formula("convolution", "_convolution", "convolution_overrideable")
def _convolution(
    out: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *_: Any,
) -> int:
    """Each weight of a filter once for each place of the filter: of the output, or transposed of the input."""
    return (x if transposed else out).numel() * prod(weight.shape[1:])


@_formula("convolution_backward")
def _convolution_backward(
    out: Any,
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *rest: Any,
) -> int:
    """As many again for the gradient of the input, and for that of the weight, where they are asked for."""
    gradients = sum(map(int, rest[-1][:2]))
    return _convolution(grad, x, weight, None, stride, padding, dilation, transposed) * gradients


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@_formula(_ATTENTION, "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention")
def _attention(out: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any, **__: Any) -> int:
    """Scores of every query with every key, and their product with the values."""
    return prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


@_formula(f"{_ATTENTION}_backward")
def _attention_backward(
    out: Any, grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any, **__: Any
) -> int:
    """Two products for each of the two of the forward pass."""
    return 2 * _attention(out, q, k, v)


@_formula("_native_multi_head_attention")
def _native_attention(
    out: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, width: int, heads: int, *_: Any, **__: Any
) -> int:
    """Three projections in, attention over all heads, one projection out."""
    batch, length, source = q.shape[0], q.shape[1], k.shape[1]
    into = (batch * length + 2 * batch * source) * width * width
    return into + batch * length * source * 2 * width + batch * length * width * width


@_formula("_transformer_encoder_layer_fwd")
def _encoder_layer(out: Any, x: torch.Tensor, width: int, heads: int, *weights: Any, **_: Any) -> int:
    """Attention of a sequence to itself, and two layers of which one is as wide as its weight."""
    hidden = next(t for t in reversed(weights) if isinstance(t, torch.Tensor) and t.dim() == 2 and t.shape[0] == width)
    return _native_attention(None, x, x, x, width, heads) + 2 * x.numel() * hidden.shape[1]


@_formula("mkldnn_rnn_layer")
def _recurrent(out: Any, x: torch.Tensor, into: torch.Tensor, hidden: torch.Tensor, *_: Any, **__: Any) -> int:
    """Both matrices once for each step and sample."""
    steps: int = x.shape[0] * x.shape[1]
    return steps * (into.numel() + hidden.numel())


@_formula("affine_grid_generator")
def _affine_grid(out: torch.Tensor, theta: torch.Tensor, size: Any, align_corners: bool) -> int:
    """d * (d + 1) for each of its points."""
    return out.numel() // out.shape[-1] * theta.shape[-2] * theta.shape[-1]


#: Views that torch's schemas do not call so, and what hands a tensor on as it is.
_NO_CALLS = {"aten::detach", "aten::alias", "aten::lift_fresh", "aten::_unsafe_view", "aten::_reshape_alias"}


_COMPOSITES = """
    linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d layer_norm rms_norm group_norm
    batch_norm lstm gru rnn_tanh rnn_relu softmax log_softmax relu6 scaled_dot_product_attention where tile
    one_hot adaptive_max_pool1d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d max_pool1d max_pool2d max_pool3d pad argsort linalg_svdvals linalg_eigvals upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d
    upsample_bicubic2d
"""
#: What the documentation gives one cost as a whole: it stays one call where a run shows operators before they are taken
#: apart.
WHOLE = {f"aten::{name}" for name in _COMPOSITES.split()}


class RunCounter(TorchDispatchMode):
    """Runs every operator as it is, and writes down what it was."""

    supports_higher_order_operators = True

    def __init__(self, stack: list[str], shown: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stack = stack
        #: Whether composite operators come as they are called, as they do without autograd.
        self.shown = shown
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._higher_order(func, args, kwargs)
        name = func._schema.name.replace("prims::", "aten::")
        if _is_composite(func) and not (self.shown and name in WHOLE):  # without autograd torch shows them too
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        result = func(*args, **kwargs)
        if func.is_view or name in _NO_CALLS or _is_on_meta(result):
            return result
        formula = _FORMULAS.get(name)
        macs = formula(result, *args, **kwargs) if formula else 0
        macs = (macs or _outer_product(name, result, args)) * (4 if _takes_complex(args, kwargs) else 1)
        outputs = tuple((tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in list_tensors(result))
        flops = count_flops(name, macs, result, args, kwargs) if self.shown else None
        self.calls.append(Call(name, self.stack[-1] if self.stack else "", macs, outputs, flops))
        return result

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.higher_order.cond:
            condition, true, false, operands = args
            with self:
                return (true if condition else false)(*operands)
        raise NotImplementedError(f"the oracle does not know {func}")


def _outer_product(name: str, result: Any, args: Any) -> int:
    """Return the products of the gradient of a matrix by a vector, which torch spells as a multiplication."""
    node = torch._C._current_autograd_node()
    if name != "aten::mul" or node is None or not all(isinstance(arg, torch.Tensor) for arg in args):
        return 0
    made = node.name() in ("MvBackward0", "AddmvBackward0", "DotBackward0", "VdotBackward0")
    return int(result.numel()) if made else 0


def _is_on_meta(result: Any) -> bool:
    """Return whether torch only asks for the dtype of a result, such as that of a sum with derivatives of zero."""
    tensors = list_tensors(result)
    return bool(tensors) and all(tensor.is_meta for tensor in tensors)


def _takes_complex(args: Any, kwargs: Any) -> bool:
    return any(tensor.is_complex() for tensor in list_tensors((args, kwargs)))


#: The key of the kernels in C++ that a plain run uses for composite operators. Some also have a kernel in Python.
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def _is_composite(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


@contextmanager
def _follow(model: nn.Module, stack: list[str]) -> Iterator[None]:
    """Keep the path of the innermost module that runs on the stack. A shared module goes by its first path."""
    handles = []

    def enters(path: str) -> Callable[..., None]:
        return lambda module, args: stack.append(path)

    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enters(path)))
        handles.append(module.register_forward_hook(lambda m, args, out: _left(stack), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _left(stack: list[str]) -> None:
    stack.pop()


def count_run(
    model: nn.Module, inputs: tuple[Any, ...], *, shown: bool = False, fused: bool = True, autograd: bool = False
) -> Counted:
    """Return what one forward pass in eval mode without gradients does.

    It is the user's run, with all that torch takes apart in pieces; with ``shown``, one that leaves autograd out, where
    the operators that the documentation names come whole. Without ``fused`` layers do not run as one kernel of torch's.
    Shown with ``autograd``, operators come in pieces, and whole where the model has inference mode on itself.
    """
    stack: list[str] = []
    counter = RunCounter(stack, shown)
    model.eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast and fused and not shown)
    try:
        whole = torch._C._AutoDispatchBelowAutograd() if shown and not autograd else nullcontext()
        with torch.no_grad(), whole, _follow(model, stack), counter:
            model(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return Counted(counter.calls)


def count_step(model: nn.Module, inputs: tuple[Any, ...]) -> Counted:
    """Return what a forward pass in training mode does, and the gradients of its outputs' sum by the weights.

    Without oneDNN, whose recurrent layers compute gradients that nobody asks for and do not show it.
    """
    stack: list[str] = []
    counter = RunCounter(stack)
    model.train()
    with torch.enable_grad(), torch.backends.mkldnn.flags(enabled=False), _follow(model, stack):
        with counter:
            output = model(*inputs)
        stack.clear()
        weights: list[torch.Tensor] = [p for p in model.parameters() if p.requires_grad]
        weights += [t for t in list_tensors(inputs) if t.requires_grad]
        summed = [t for t in list_tensors(output) if t.requires_grad]
        if weights and summed:
            ones = [torch.ones_like(t) for t in summed]
            with counter:
                torch.autograd.grad(summed, weights, ones, allow_unused=True)
    return Counted(counter.calls)
