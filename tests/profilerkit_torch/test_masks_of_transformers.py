"""Language models of transformers build the masks of a run in the trace: none where each token sees those before it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit import ModelInputs
from profilerkit_torch import TorchBackend
from profilerkit_torch.trace import tracing

pytestmark = pytest.mark.slow

tf = pytest.importorskip("transformers")

WIDTH, HEADS, LAYERS = 32, 4, 2
SHARED = {"vocab_size": 99, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH}


def _gpt2(use_cache: bool) -> Any:
    config = tf.GPT2Config(n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, n_positions=512, vocab_size=99)
    config.use_cache = use_cache
    return tf.GPT2Model(config)


def _llama(use_cache: bool) -> Any:
    return tf.LlamaModel(tf.LlamaConfig(**SHARED, intermediate_size=48, use_cache=use_cache))


def _bert(use_cache: bool) -> Any:
    return tf.BertModel(tf.BertConfig(**SHARED, intermediate_size=48, use_cache=use_cache))


@pytest.mark.parametrize("length", [16, 48, 300])
@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("masked", ["no mask", "ones", "padded"])
@pytest.mark.parametrize("build", [_gpt2, _llama, _bert])
def test_attention_costs_what_it_does_in_a_run(build: Any, masked: str, use_cache: bool, length: int) -> None:
    """A score costs 2 FLOPs a multiply-accumulate, 1 for its scale, 5 for the softmax; a boolean mask only chooses."""
    x = torch.ones(1, length, dtype=torch.long)
    mask = torch.ones_like(x)
    if masked == "padded":
        mask[:, :2] = 0
    inputs = ModelInputs(x) if masked == "no mask" else ModelInputs(input_ids=x, attention_mask=mask)
    trace = TorchBackend().trace(build(use_cache).eval(), inputs)
    assert (trace.method, trace.notes, trace.uncounted) == ("meta tensors", (), {})
    attention = [op for op in trace.operators if "scaled_dot_product_attention" in op.operator]
    assert len(attention) == LAYERS
    scores = HEADS * length * length
    macs = 2 * scores * (WIDTH // HEADS)
    for operator in attention:
        assert operator.macs == macs
        assert operator.flops == 2 * macs + scores * 6


@pytest.mark.parametrize("masked", ["no mask", "padded"])
@pytest.mark.parametrize("build", [_gpt2, _llama, _bert])
@pytest.mark.parametrize("values", ["with values", "without values"])
def test_fake_tensors_are_not_taken_for_tracing(build: Any, masked: str, values: str, monkeypatch: Any) -> None:
    """Else each score would cost 7, and there would be a mask in memory where a run has none."""

    def refuse(*_: Any) -> None:
        raise NotImplementedError("no meta tensors here")

    monkeypatch.setattr(tracing, "_on_meta", refuse)
    x = torch.ones(1, 48, dtype=torch.long)
    mask = torch.ones_like(x)
    mask[:, :2] = 0
    with torch.device("meta" if values == "without values" else "cpu"):
        model = build(False).eval()
    inputs = ModelInputs(x) if masked == "no mask" else ModelInputs(input_ids=x, attention_mask=mask)
    trace = TorchBackend().trace(model, inputs)
    assert (trace.method, trace.notes) == ("fake tensors", ())
    attention = [op for op in trace.operators if "scaled_dot_product_attention" in op.operator]
    assert [op.flops for op in attention] == [HEADS * 48 * 48 * (4 * WIDTH // HEADS + 6)] * LAYERS
    outputs = [info for op in trace.operators for info in op.outputs]
    booleans = [info for info in outputs if info.dtype == "bool" and info.shape[-2:] == (48, 48)]
    assert bool(booleans) == (masked == "padded")


@pytest.mark.parametrize("padded", [False, True])
def test_memory_of_a_long_text_is_what_the_allocator_gives_out(padded: bool) -> None:
    """With padding there is a mask of booleans, which attention turns into one of numbers: 4 + 16 MiB."""
    sizes = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = tf.LlamaConfig(vocab_size=1000, **sizes, use_cache=False)
    words = torch.ones(1, 2048, dtype=torch.long)
    mask = words.clone()
    mask[:, :512] = 0
    model = tf.LlamaForCausalLM(config).eval()
    inputs = ModelInputs(input_ids=words, attention_mask=mask) if padded else ModelInputs(words)
    predicted = TorchBackend().trace(model, inputs).memory.peak_bytes(include_weights=False)
    measured = TorchBackend().measure_memory(model, inputs)
    assert predicted == pytest.approx(measured, rel=0.05)


def test_a_large_llama_without_weights_has_the_macs_of_the_closed_form() -> None:
    hidden, inner, layers, heads, groups, words, length = 8192, 28672, 80, 64, 8, 32000, 128
    with torch.device("meta"):
        model = tf.LlamaForCausalLM(
            tf.LlamaConfig(
                hidden_size=hidden,
                intermediate_size=inner,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=groups,
                vocab_size=words,
                use_cache=False,
            )
        )
    trace = TorchBackend().trace(model, ModelInputs(torch.ones(1, length, dtype=torch.long)))
    projections = 2 * hidden * hidden + 2 * hidden * (hidden // heads * groups) + 3 * hidden * inner
    attention = 2 * length * length * hidden
    macs = layers * (length * projections + attention) + length * hidden * words
    assert trace.method == "meta tensors"
    assert sum(op.macs for op in trace.operators if "rotary" not in op.layer) == macs
