"""Going to quantized integers and back, and gradients of that: which operator goes to which formula."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import quantization

from .registry import Cost, Shape, register_op_costs
from .shapes import count_elements


@register_op_costs(
    "aten::quantize_per_tensor aten::quantize_per_channel quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_channel quantized_decomposed::quantize_per_channel_group",
    "quantized_decomposed::quantize_per_token quanto::quantize_symmetric quanto::quantize_affine",
)
def quantize(x: Any, *_: Any, out: Any) -> Cost:
    """Return the cost for each element."""
    return quantization.quantize(count_elements(out))


@register_op_costs(
    "aten::quantize_per_tensor_dynamic bitsandbytes::quantize_4bit bitsandbytes::quantize_blockwise",
    "bitsandbytes::int8_vectorwise_quant",
)
def quantize_dynamic(x: Shape, *_: Any, out: Any) -> Cost:
    """Return the cost for each element, of finding the range too."""
    return quantization.quantize(x.numel, finds_range=True)


@register_op_costs(
    "aten::dequantize quantized_decomposed::dequantize_per_tensor",
    "quantized_decomposed::dequantize_per_channel quantized_decomposed::dequantize_per_channel_group",
    "quantized_decomposed::dequantize_per_token quantized::embedding_byte quantized::embedding_4bit",
    "bitsandbytes::dequantize_4bit bitsandbytes::dequantize_blockwise bitsandbytes::int8_vectorwise_dequant",
)
def dequantize(x: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost for each element."""
    return quantization.dequantize(count_elements(out))


@register_op_costs(
    "quantized_decomposed::choose_qparams quantized_decomposed::choose_qparams_symmetric",
    "quantized_decomposed::choose_qparams_per_token",
)
def choose_parameters(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of finding the range."""
    return quantization.find_range(x.numel)


@register_op_costs(
    "aten::fake_quantize_per_tensor_affine_cachemask aten::fake_quantize_per_channel_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams quantized_decomposed::fake_quant_per_channel",
    "aten::_fake_quantize_learnable_per_tensor_affine aten::_fake_quantize_learnable_per_channel_affine",
)
def fake_quantize(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of going there and back."""
    return quantization.fake_quantize(x.numel)


@register_op_costs("aten::_fused_moving_avg_obs_fq_helper", "aten::_fused_moving_avg_obs_fq_helper_functional")
def observe_and_fake_quantize(x: Shape, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of finding the range, and of going there and back."""
    return quantization.fake_quantize(x.numel, finds_range=True)


@register_op_costs(
    "aten::_fake_quantize_learnable_per_tensor_affine_backward",
    "aten::_fake_quantize_learnable_per_channel_affine_backward",
)
def fake_quantize_gradient(dy: Shape, *_: Any, out: Any) -> Cost:
    """Return the cost of the gradients by input, scale and zero point."""
    return quantization.learned_quantization_gradient(dy.numel)
