"""Base units in, readable numbers out."""

import math

import pytest

from profilerkit.piping.quantity import Scale, format_number, scale_value


@pytest.mark.parametrize(
    ("value", "unit", "scale", "shown"),
    [
        (4_089_184_256, "MACs", Scale.SI, "4.089 GMACs"),
        (12_345_678, "", Scale.SI, "12.35 M"),
        (999, "MACs", Scale.SI, "999 MACs"),
        (1000, "MACs", Scale.SI, "1 kMACs"),
        (999_999, "", Scale.SI, "1 M"),  # rounds into the next prefix, never "1000 k"
        (1024, "B", Scale.IEC, "1 KiB"),
        (1000, "B", Scale.IEC, "1000 B"),
        (102_228_128, "B", Scale.IEC, "97.49 MiB"),  # 102,228,128 / 1,048,576 = 97.4923
        (0.00265, "s", Scale.TIME, "2.65 ms"),
        (1.5, "s", Scale.TIME, "1.5 s"),
        (90.0, "s", Scale.TIME, "90 s"),
        (0.00099999, "s", Scale.TIME, "1 ms"),
        (2.5e-6, "s", Scale.TIME, "2.5 µs"),
        (3e-9, "s", Scale.TIME, "3 ns"),
        (0, "B", Scale.IEC, "0 B"),
        (-2_000_000, "", Scale.SI, "-2 M"),
        (97.777, "%", Scale.NONE, "97.78 %"),
        (123_456.7, "samples/s", Scale.NONE, "123,457 samples/s"),
        (math.inf, "s", Scale.TIME, "inf s"),
    ],
)
def test_scaling(value: float, unit: str, scale: Scale, shown: str) -> None:
    assert str(scale_value(value, unit, scale)) == shown


def test_the_factor_leads_back_to_base_units() -> None:
    quantity = scale_value(102_228_128, "B", Scale.IEC)
    assert quantity.number * quantity.factor == 102_228_128


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "0.5"),
        (0.123456, "0.1235"),
        (12.0, "12"),
        (9999, "9999"),
        (10_000, "10,000"),
        (math.nan, "nan"),
        (-math.nan, "nan"),
        (0, "0"),
        (1e-14, "1e-14"),
        (1e30, "1e+30"),
        (0.00012, "0.00012"),
    ],
)
def test_format_number(number: float, text: str) -> None:
    assert format_number(number) == text
