"""The bytes of an element, by the name of its dtype in any framework."""

import pytest

from profilerkit.trace.dtypes import element_bytes


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("float8e4m3fn", 8),  # of ONNX, with an exponent of 4 bits and a mantissa of 3
        ("f4e2m1", 4),
        ("quint4x2", 4),  # of torch: two in a byte
        ("quint2x4", 2),
        ("bfloat16", 16),
        ("complex64", 64),
        ("uint1", 1),
    ],
)
def test_the_first_number_is_that_of_the_bits(dtype: str, bits: int) -> None:
    assert element_bytes(dtype) == bits / 8
