"""Products fused with what follows them, as TensorFlow's graph optimiser leaves them."""

from __future__ import annotations

from collections.abc import Callable

from .convolution import conv, depthwise_conv
from .matmul import batch_matmul, matmul
from .registry import Cost, OpCall, UnknownCostError, register_op_cost

#: Operations for each output element, by what is fused.
_FUSED = {
    **dict.fromkeys(("BiasAdd", "Add", "Mul", "Relu", "Sigmoid", "Tanh"), 1),
    **dict.fromkeys(("Relu6", "LeakyRelu", "FusedBatchNorm", "_MklSwish"), 2),
    "Elu": 4,
    "GeluExact": 5,
    "_FusedHardSwish": 5,
    "_MklFusedMish": 5,
    "GeluApproximate": 8,
    "Identity": 0,
}
_NAMES: dict[str, Callable[[OpCall], Cost]] = {
    "_FusedMatMul": matmul,
    "_MklNativeFusedMatMul": matmul,
    "_MklFusedBatchMatMulV2": batch_matmul,
    "_FusedConv2D": conv,
    "_FusedConv3D": conv,
    "_MklNativeFusedConv2D": conv,
    "_MklNativeFusedConv3D": conv,
    "_MklNativePadWithFusedConv2D": conv,
    "_FusedDepthwiseConv2dNative": depthwise_conv,
    "_MklNativeFusedDepthwiseConv2dNative": depthwise_conv,
}


def _register(name: str, product: Callable[[OpCall], Cost]) -> None:
    @register_op_cost(name)
    def fused(call: OpCall) -> Cost:
        """The product, and what the attribute ``fused_ops`` names, for each output element."""
        operations = [_FUSED.get(operator) for operator in call.attribute("fused_ops")]
        known = [count for count in operations if count is not None]
        if len(known) < len(operations):
            raise UnknownCostError
        return Cost.of_macs(product(call).macs, sum(known) * call.outputs[0].numel)


for _name, _product in _NAMES.items():
    _register(_name, _product)
