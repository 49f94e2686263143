"""Activations and their gradients.

They count as what their definition is made of, each elementary function (exp, tanh, erf, ...) as one operation, so that
a framework which spells them out comes to the same number. ReLU, sigmoid and tanh are one operation, and so are their
gradients.
"""

from __future__ import annotations

from .registry import register_elementwise

register_elementwise(1, "Relu", "Sigmoid", "Tanh")
register_elementwise(2, "Relu6", "LeakyRelu", "ClipByValue")  # two comparisons; compare and multiply
register_elementwise(2, "_MklSwish")  # x * sigmoid(x)
register_elementwise(3, "Softplus", "Softsign")  # log(1 + exp(x)); x / (1 + abs(x))
register_elementwise(4, "Elu", "Selu")  # compare, exp, subtract, multiply
register_elementwise(5, "_MklFusedMish")  # x * tanh(softplus(x))

register_elementwise(1, "ReluGrad", "Relu6Grad", "LeakyReluGrad", "SigmoidGrad", "TanhGrad")
register_elementwise(2, "EluGrad", "SeluGrad")  # dy * (y + c)
register_elementwise(2, "SoftplusGrad")  # dy * sigmoid(x)
register_elementwise(4, "SoftsignGrad")  # dy / (1 + abs(x)) ** 2
