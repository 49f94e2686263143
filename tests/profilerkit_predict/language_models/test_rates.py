"""Tokens per second as text: no rate above zero is shown as zero."""

from __future__ import annotations

import pytest

from profilerkit_predict.language_models.text_table import show_rate


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "-"), (0.057, "0.057"), (3.14159, "3.14"), (99.5, "99.5"), (214.3, "214"), (1316.2, "1,316")],
)
def test_rates(rate: float | None, text: str) -> None:
    assert show_rate(rate) == text
