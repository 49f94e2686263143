"""Softmax. Attention is made of products and softmax here, and counts as these."""

from __future__ import annotations

from .registry import register_elementwise

# Maximum, subtraction, exponential, sum, division (or logarithm's).
register_elementwise(5, "Softmax", "LogSoftmax", "SparseSoftmax")
