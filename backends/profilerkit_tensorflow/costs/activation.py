"""Activations, softmax and their gradients: the formulas of the operators.

Attention is several operators in TensorFlow, products and a softmax, and each of these counts.
"""

from __future__ import annotations

from functools import partial

from profilerkit.costs import activation

from .registry import register_elementwise

register_elementwise(activation.relu, "Relu")
register_elementwise(activation.sigmoid, "Sigmoid")
register_elementwise(activation.tanh, "Tanh")
register_elementwise(activation.clamp, "Relu6", "ClipByValue")
register_elementwise(activation.leaky_relu, "LeakyRelu")
register_elementwise(activation.softplus, "Softplus")
register_elementwise(activation.softsign, "Softsign")
register_elementwise(activation.elu, "Elu", "Selu")
register_elementwise(activation.softmax, "Softmax", "SparseSoftmax")
register_elementwise(partial(activation.softmax, log=True), "LogSoftmax")

register_elementwise(
    activation.elementary_gradient, "ReluGrad", "Relu6Grad", "LeakyReluGrad", "SigmoidGrad", "TanhGrad"
)
register_elementwise(activation.elu_gradient, "EluGrad", "SeluGrad")
register_elementwise(activation.softplus_gradient, "SoftplusGrad")
register_elementwise(activation.softsign_gradient, "SoftsignGrad")
