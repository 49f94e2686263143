"""One model, one count: whatever the device, the dtype, the mode of gradients, and however torch spells it then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, ones, trace_complete
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from profilerkit_torch.trace.layers import LayerStack
from profilerkit_torch.trace.recorder import PassSettings, Recorder

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even kernel lengths",
    "ignore:LSTM with projections is not supported with oneDNN",
)

Maker = Callable[[], nn.Module]


def attention(**options: Any) -> Maker:
    return lambda: Call(lambda self, q: F.scaled_dot_product_attention(q, q, q, **options))


MODULES: dict[str, tuple[Maker, tuple[torch.Tensor, ...]]] = {
    "linear": (lambda: nn.Linear(4, 6), (ones(2, 4),)),
    "linear of a sequence": (lambda: nn.Linear(4, 6), (ones(2, 3, 4),)),
    "linear of a view": (lambda: Call(lambda self, x: self.layer(x.mT), layer=nn.Linear(3, 6)), (ones(2, 3, 4),)),
    "bilinear": (lambda: nn.Bilinear(4, 3, 6), (ones(2, 4), ones(2, 3))),
    "conv1d, same": (lambda: nn.Conv1d(4, 6, 4, padding="same"), (ones(2, 4, 5),)),
    "conv2d in groups": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (ones(2, 4, 5, 5),)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (ones(2, 4, 5, 5),)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, bias=False), (ones(1, 2, 4, 4, 4),)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (ones(2, 4, 5, 5),)),
    "batch norm": (lambda: nn.BatchNorm2d(6).eval(), (ones(2, 6, 3, 3),)),
    "batch norm in training": (lambda: nn.BatchNorm2d(6), (ones(2, 6, 3, 3),)),
    "layer norm": (lambda: nn.LayerNorm(6), (ones(2, 6),)),
    "group norm": (lambda: nn.GroupNorm(2, 6), (ones(2, 6, 3),)),
    "instance norm": (lambda: nn.InstanceNorm2d(6, affine=True), (ones(2, 6, 3, 3),)),
    "rms norm": (lambda: nn.RMSNorm(6), (ones(2, 3, 6),)),
    "rms norm of two dimensions": (lambda: nn.RMSNorm((3, 6), elementwise_affine=False), (ones(2, 3, 6),)),
    "local response norm": (lambda: nn.LocalResponseNorm(3), (ones(2, 6, 3, 3),)),
    "lstm": (lambda: nn.LSTM(4, 6, 2, bidirectional=True), (ones(7, 2, 4),)),
    "lstm with projections": (lambda: nn.LSTM(4, 6, 2, proj_size=3), (ones(7, 2, 4),)),
    "lstm without bias": (lambda: nn.LSTM(4, 6, bias=False), (ones(7, 2, 4),)),
    "rnn": (lambda: nn.RNN(4, 6, nonlinearity="relu"), (ones(7, 2, 4),)),
    "lstm cell": (lambda: nn.LSTMCell(4, 6), (ones(2, 4),)),
    "gru cell": (lambda: nn.GRUCell(4, 6), (ones(2, 4),)),
    "prelu": (nn.PReLU, (ones(2, 4),)),
    "glu": (nn.GLU, (ones(2, 4),)),
    "gelu": (nn.GELU, (ones(2, 4),)),
    "softmax": (lambda: nn.Softmax(-1), (ones(2, 4),)),
    "log sigmoid": (nn.LogSigmoid, (ones(2, 4),)),
    "max pooling": (lambda: nn.MaxPool2d(2), (ones(2, 4, 4, 4),)),
    "average pooling": (lambda: nn.AvgPool1d(2), (ones(2, 4, 4),)),
    "adaptive pooling": (lambda: nn.AdaptiveAvgPool2d(2), (ones(2, 4, 5, 5),)),
    "adaptive pooling to one": (lambda: nn.AdaptiveAvgPool2d(1), (ones(2, 4, 5, 5),)),
    "power pooling": (lambda: nn.LPPool2d(2, 2), (ones(2, 4, 4, 4),)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (ones(2, 4, 5, 5),)),
    "embedding": (lambda: nn.Embedding(4, 3, max_norm=1.0), (torch.tensor([1, 2]),)),
    "embedding bag": (lambda: nn.EmbeddingBag(4, 3), (torch.tensor([[1, 2]]),)),
    "cross entropy": (nn.CrossEntropyLoss, (ones(2, 4), torch.tensor([1, 2]))),
    "cosine similarity": (nn.CosineSimilarity, (ones(2, 4), ones(2, 4))),
}
#: Attention is spelt out on meta tensors that need gradients, which is dealt with where these are traced.
FUSED: dict[str, tuple[Maker, tuple[torch.Tensor, ...]]] = {
    "attention": (attention(), (ones(2, 3, 5, 8),)),
    "causal attention": (attention(is_causal=True), (ones(2, 3, 5, 8),)),
    "multi-head attention": (lambda: nn.MultiheadAttention(6, 2, batch_first=True), (ones(2, 5, 6),) * 3),
    "encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), (ones(2, 5, 6),)),
    "encoder, fast": (lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval(), (ones(2, 5, 6),)),
    "encoder, fast, gelu": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, activation="gelu").eval(),
        (ones(2, 5, 6),),
    ),
}

GRAD_MODES = {"inference": torch.inference_mode, "no grad": torch.no_grad, "grad": torch.enable_grad}


def count_call(make: Maker, inputs: tuple[torch.Tensor, ...], mode: Callable[[], Any], place: str) -> tuple[int, int]:
    """Return what the recorder counts of one call under a mode of gradients: on the CPU, on meta or fake tensors."""
    model, on_meta = make(), place == "meta"
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    standing: AbstractContextManager[Any] = fake if place == "fake" else torch.no_grad()
    if place == "fake":
        with fake:
            model = make()
        inputs = tuple(map(fake.from_tensor, inputs))
    elif on_meta:
        model, inputs = model.to("meta"), tuple(x.to("meta") for x in inputs)
    layers = LayerStack(model)
    recorder = Recorder(layers, PassSettings(on_meta=on_meta, stands_in=on_meta))
    for tensor in (*model.parameters(), *model.buffers(), *inputs):
        recorder.live.add(tensor, 0)  # what was there before the pass
    with standing, mode(), layers.follow(), recorder:
        model(*inputs)
    assert not recorder.uncounted
    return sum(record.macs for record in recorder.operators), sum(record.flops for record in recorder.operators)


def require_equal_counts(
    expected: tuple[int, int], make: Maker, inputs: tuple[torch.Tensor, ...], places: tuple[str, ...]
) -> None:
    """Require that calls count as expected in each place, under each mode of gradients."""
    counts = {
        (mode, place): count_call(make, inputs, GRAD_MODES[mode], place) for mode in GRAD_MODES for place in places
    }
    assert counts == dict.fromkeys(counts, expected)


@pytest.mark.parametrize("case", MODULES)
def test_the_count_does_not_depend_on_gradients_or_on_what_stands_in_for_the_tensors(case: str) -> None:
    make, inputs = MODULES[case]
    found = trace_complete(make().train() if "training" in case else make(), *inputs)
    expected = (found.macs, found.flops)
    if "training" in case:  # the trace takes the statistics that are known
        expected = (0, 7 * 2 * 6 * 9)
    require_equal_counts(expected, make, inputs, ("cpu", "meta", "fake"))


@pytest.mark.parametrize("mode", ["no grad", "grad"])
def test_a_gru_that_torch_takes_apart_mixes_its_states_with_one_product_less(mode: str) -> None:
    """One for each of 6 units, 7 steps and 2 samples."""
    found = trace_complete(nn.GRU(4, 6), ones(7, 2, 4))
    assert count_call(lambda: nn.GRU(4, 6), (ones(7, 2, 4),), GRAD_MODES[mode], "cpu") == (
        found.macs,
        found.flops - 6 * 7 * 2,
    )


@pytest.mark.parametrize("case", FUSED)
def test_attention_counts_the_same_by_every_kernel_of_the_cpu(case: str) -> None:
    make, inputs = FUSED[case]
    found = trace_complete(make(), *inputs)
    require_equal_counts((found.macs, found.flops), make, inputs, ("cpu", "fake"))


@pytest.mark.parametrize("case", FUSED)
def test_attention_that_torch_spells_out_has_the_same_macs(case: str) -> None:
    make, inputs = FUSED[case]
    assert count_call(make, inputs, torch.enable_grad, "meta")[0] == trace_complete(make(), *inputs).macs


@pytest.mark.parametrize("case", [case for case in {**MODULES, **FUSED} if "embedding" not in case])
def test_the_count_does_not_depend_on_the_dtype(case: str) -> None:
    make, inputs = {**MODULES, **FUSED}[case]
    whole = trace_complete(make(), *inputs)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        lower = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
        other = trace_complete(make().to(dtype), *lower)
        assert (other.macs, other.flops) == (whole.macs, whole.flops), dtype


@pytest.mark.parametrize("case", [case for case in {**MODULES, **FUSED} if "batch norm" not in case])
def test_the_count_does_not_depend_on_train_or_eval(case: str) -> None:
    make, inputs = {**MODULES, **FUSED}[case]
    training, evaluating = trace_complete(make().train(), *inputs), trace_complete(make().eval(), *inputs)
    assert (training.macs, training.flops) == (evaluating.macs, evaluating.flops)
