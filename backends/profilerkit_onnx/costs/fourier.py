"""Fourier transforms and windows: which operator goes to which formula."""

from __future__ import annotations

from profilerkit.costs import elementwise, fourier

from .registry import Cost, NodeCall, register_op_cost


@register_op_cost("DFT")
def dft(call: NodeCall) -> Cost:
    """Transforms along one axis of ``(batch, ..., 1 or 2)``: the last dimension tells real from complex numbers."""
    x = call.inputs[0]
    axis = call.attribute("axis", _read_number(call, 2, -2))  # an attribute before operator set 20, then an input
    length = _read_number(call, 1, x[axis])
    points = x.numel // x[-1] // max(x[axis], 1) * length
    return fourier.transform(points, length, real=x[-1] == 1)


def _read_number(call: NodeCall, index: int, default: int) -> int:
    return int(call.read(index).item()) if call.has_input(index) else default


@register_op_cost("STFT")
def short_time_transform(call: NodeCall) -> Cost:
    """A transform for each frame, of the signal times the window if there is one."""
    out = call.outputs[0]
    has_window = call.has_input(2)
    length = call.inputs[2][0] if has_window else _read_number(call, 3, 0)
    points = out[0] * out[1] * length
    real = len(call.inputs[0]) < 3 or call.inputs[0][2] == 1
    windowed = elementwise.elementary("MULTIPLY")(points if has_window else 0)
    return fourier.transform(points, length, real).plus(windowed)
