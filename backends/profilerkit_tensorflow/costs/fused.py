"""Products that TensorFlow's graph optimizer has fused with the operators after them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from profilerkit.costs import activation, elementwise, normalization

from .convolution import conv, depthwise_conv
from .matmul import matrix_product
from .registry import Cost, OpCall, UnknownCostError, register_op_cost

#: The formulas of operations after a product, over the number of output elements.
_APPENDED: dict[str, Callable[[int], Cost]] = {
    "BiasAdd": elementwise.elementary("ADD"),
    "Add": elementwise.elementary("ADD"),
    "Mul": elementwise.elementary("MULTIPLY"),
    "Relu": activation.relu,
    "Sigmoid": activation.sigmoid,
    "Tanh": activation.tanh,
    "Relu6": activation.clamp,
    "LeakyRelu": activation.leaky_relu,
    "FusedBatchNorm": normalization.normalize_with_known_statistics,
    "Elu": activation.elu,
    "GeluExact": activation.gelu,
    "GeluApproximate": partial(activation.gelu, approximate=True),
    "_FusedHardSwish": activation.hard_swish,
    "Identity": lambda elements: Cost(0, 0),
}
#: The formula of the product in each fused operator.
_PRODUCTS: dict[str, Callable[[OpCall], Cost]] = {
    "_FusedMatMul": matrix_product,
    "_FusedConv2D": conv,
    "_FusedConv3D": conv,
    "_FusedDepthwiseConv2dNative": depthwise_conv,
}


def _register(name: str, product: Callable[[OpCall], Cost]) -> None:
    @register_op_cost(name)
    def count(call: OpCall) -> Cost:
        """The product, and the operators in the attribute ``fused_ops`` for each output element."""
        cost = product(call)
        for operator in call.attribute("fused_ops"):
            if operator not in _APPENDED:
                raise UnknownCostError
            cost = cost.plus(_APPENDED[operator](call.outputs[0].numel))
        return cost


for _name, _product in _PRODUCTS.items():
    _register(_name, _product)
