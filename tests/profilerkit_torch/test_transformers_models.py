"""Transformers that people bring, tiny: each is counted whole, on shapes alone, with and without weights."""

from __future__ import annotations

import pytest
import torch
from tiny import BACKEND, trace_complete
from torch.utils.flop_counter import FlopCounterMode

from profilerkit import ModelInputs

pytestmark = pytest.mark.slow

tf = pytest.importorskip("transformers")

from transformers_models import MODELS, TEXT, make_model, words  # noqa: E402


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_transformers_is_counted_whole(name: str) -> None:
    config, inputs = MODELS[name]
    models = [make_model(name, config(), device) for device in ("meta", "cpu")]
    on_meta, real = (trace_complete(model, **inputs()) for model in models)
    assert on_meta.macs == real.macs > 0
    assert on_meta.flops == real.flops > 2 * on_meta.macs
    assert on_meta.notes == real.notes == ()
    assert on_meta.total_params == sum(parameter.numel() for parameter in models[0].parameters())
    doubled = {key: torch.cat([value, value]) for key, value in inputs().items()}
    assert BACKEND.trace(models[0], ModelInputs(**doubled)).macs >= 1.5 * on_meta.macs


def test_a_model_that_asks_its_mask_is_counted_on_meta_too() -> None:
    """Longformer asks its mask for tokens that see all others; the mask is made of the input, which has values."""
    config = tf.LongformerConfig(**TEXT, attention_window=8)
    with torch.device("meta"):
        empty = tf.LongformerModel(config)
    real = tf.LongformerModel(config).eval()
    with FlopCounterMode(display=False) as counted_by_torch, torch.no_grad():
        real(**words())
    on_meta, with_values = (trace_complete(model, **words()) for model in (empty, real))
    assert on_meta.macs == with_values.macs == counted_by_torch.get_total_flops() / 2 > 0
    assert on_meta.notes == with_values.notes == ()
    assert on_meta.total_params == with_values.total_params
