"""The torch models that are exported to ONNX and counted on both sides, and their export by torch's two exporters."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import onnx
import pytest
import torch
from exported_networks import NETWORKS
from torch import nn
from torch_architectures import BUILDERS

import models
from profilerkit import Backend, ModelInputs
from profilerkit.protocols import fit_inputs
from profilerkit.testing import ARCHITECTURES

__all__ = ["CHANGES", "EXPORTERS", "INVALID", "MODELS", "REFUSED", "built", "export_model", "require_torchs_macs"]

#: The exporters by name, and the value of ``dynamo=`` that chooses them.
EXPORTERS = {"dynamo": True, "TorchScript": False}
#: What makes a model and its inputs.
Maker = Callable[[], tuple[nn.Module, ModelInputs]]


def _example(build: Callable[[], nn.Module], side: int = 64, channels: int = 3) -> Maker:
    return lambda: (build(), ModelInputs(torch.randn(2, channels, side, side)))


def _examples() -> dict[str, Maker]:
    """Return the models of ``examples/``; the residual networks at full depth, all with few channels."""
    return {
        "LeNet-5": _example(models.lenet5, 32, 1),
        "ResNet-18": _example(lambda: models.resnet18(10, width=8)),
        "ResNet-50": _example(lambda: models.resnet50(10, width=8)),
        "MobileNetV2": _example(lambda: models.mobilenet_v2(10, width_mult=0.25)),
        "ViT": _example(lambda: models.vit_b_16(10, 32, 8, 16, 2, 2, 32), 32),
    }


def _architecture(name: str) -> Maker:
    def make() -> tuple[nn.Module, ModelInputs]:
        from profilerkit_torch import TorchBackend

        return BUILDERS[name](), ARCHITECTURES[name].model_inputs(TorchBackend(), "channels_first", 3)

    return make


def _network(name: str) -> Maker:
    build, inputs = NETWORKS[name]
    return lambda: (build(), ModelInputs(*inputs()))


class Tupled(nn.Module):
    """Calls a transformer by the names of its inputs, and returns the tensors that it makes: exporters take no more."""

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(**dict(zip(self.names, values, strict=True)))
        return tuple(value for value in results.to_tuple() if isinstance(value, torch.Tensor))


def _transformer(kind: str, config: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> Maker:
    """Return what makes a transformer, without the keys and values for later tokens."""

    def make() -> tuple[nn.Module, ModelInputs]:
        from transformers_models import make_model

        settings, values = config(), inputs()
        settings.use_cache, settings._experts_implementation = False, "batched_mm"  # a grouped product has no ONNX
        if "input_ids" in values and "pixel_values" not in values:  # without it, transformers asks the positions
            values["attention_mask"] = torch.ones_like(values["input_ids"])
        return Tupled(make_model(kind, settings), values), ModelInputs(*values.values())

    return make


def _transformers() -> dict[str, Maker]:
    if not find_spec("transformers"):
        return {}
    from transformers_models import FORMULATED, MODELS

    makers = {kind: _transformer(kind, config, inputs) for kind, (config, inputs) in MODELS.items()}
    return makers | {kind: _transformer(kind, config, inputs) for kind, config, inputs in FORMULATED.values()}


def _timm() -> dict[str, Maker]:
    if not find_spec("timm"):
        return {}
    create: Callable[..., nn.Module] = import_module("timm").create_model
    names = ("resnet10t", "mobilenetv3_small_050", "efficientnet_lite0", "convnext_atto", "deit_tiny_patch16_224")
    return {f"timm {name}": _example(partial(create, name), 224) for name in names}


#: Every model by its name.
MODELS: Mapping[str, Maker] = {
    **_examples(),
    **{name: _architecture(name) for name in ARCHITECTURES},
    **{name: _network(name) for name in NETWORKS},
    **_transformers(),
    **_timm(),
}


def built(name: str) -> tuple[nn.Module, ModelInputs]:
    """Return a model in evaluation mode, with weights that are the same each time, and its inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
    return model.eval(), inputs


def require_torchs_macs(
    name: str,
    convert: Callable[[nn.Module, ModelInputs], Any],
    backend: Backend,
    changes: Mapping[str, tuple[int, str]],
    refused: Mapping[str, str],
) -> None:
    """Convert a model, and require torch's MACs and the change that is named for it, or the words that refuse it."""
    from profilerkit_torch import TorchBackend

    model, inputs = built(name)
    if name in refused:
        with pytest.raises(Exception, match=refused[name]):
            convert(model, inputs)
        return
    expected = TorchBackend().trace(model, inputs)
    assert (expected.failure, expected.missing) == (None, ())
    converted = convert(model, inputs)
    trace = backend.trace(converted, fit_inputs(backend, converted, inputs.map(backend.as_tensor)))
    assert (trace.failure, trace.missing, trace.choices) == (None, (), ())
    change, reason = changes.get(name, (0, ""))
    assert trace.macs == expected.macs + change > 0, reason


@contextmanager
def _quiet() -> Iterator[None]:
    """Have exporters and tracers say nothing."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def export_model(model: nn.Module, inputs: ModelInputs, exporter: str) -> onnx.ModelProto:
    """Return what an exporter makes of a model."""
    file: Any = io.BytesIO()  # which torch's annotation leaves out
    with _quiet():
        if EXPORTERS[exporter]:
            program = torch.onnx.export(model, inputs.args, kwargs=dict(inputs.kwargs), dynamo=True, verbose=False)
            assert program is not None
            proto: onnx.ModelProto = program.model_proto
            return proto
        torch.onnx.export(model, inputs.args, file, kwargs=dict(inputs.kwargs), dynamo=False)
    return onnx.load_from_string(file.getvalue())


#: What an exporter changes, by model and exporter: the MACs that this adds, worked out by hand, and the reason.
CHANGES: Mapping[tuple[str, str], tuple[int, str]] = {
    # two layers in two directions; 2 samples, 12 units
    ("nn.RNN", "dynamo"): (
        -2 * 2 * 2 * 12 * 12,
        "the product with the initial state, which is zero, is computed before",
    ),
    # one step of four gates; 2 samples, 12 units
    **{
        ("nn.LSTMCell", exporter): (-2 * 12 * 4 * 12, "the product with the initial state, zero, is computed before")
        for exporter in EXPORTERS
    },
    # 4 samples, 1 output, 6 features of the second input
    ("collaborative filtering", "dynamo"): (4 * 1 * 6, "the bilinear form is two matrix products, not one and a sum"),
    # two layers, projected as keys and as queries: 2 * 512 relative positions, 32 wide
    **{
        ("DebertaV2Model", exporter): (-2 * 2 * (2 * 512) * 32 * 32, "the projections of positions are constants")
        for exporter in EXPORTERS
    },
    # 2 samples, 10 queries, 32 wide: queries, keys, values and output, both products of attention; then the queries of
    # the attention to the picture
    **{
        ("DetrForObjectDetection", exporter): (
            -(4 * 2 * 10 * 32 * 32 + 2 * 2 * 10 * 10 * 32 + 2 * 10 * 32 * 32),
            "the first self-attention of the decoder is among learned queries: constants",
        )
        for exporter in EXPORTERS
    },
    # 2 samples, 8 latents, 32 wide
    **{
        ("PerceiverModel", exporter): (-2 * 8 * 32 * 32, "the first queries are of learned latents: constants")
        for exporter in EXPORTERS
    },
}

#: What an exporter refuses: words of its error.
REFUSED: Mapping[tuple[str, str], str] = {
    ("collaborative filtering", "TorchScript"): "aten::bilinear",
    ("SwinModel", "dynamo"): "decompose",
    ("T5ForConditionalGeneration", "dynamo"): "decompose",
    ("LlavaForConditionalGeneration", "dynamo"): "convert",
    ("LlavaForConditionalGeneration", "TorchScript"): "enable_gqa",
    ("WhisperForConditionalGeneration", "TorchScript"): "aten::diff",
}

#: What an exporter writes against the standard: words of the error, which onnxruntime raises too.
INVALID: Mapping[tuple[str, str], str] = {
    ("Mamba2ForCausalLM", "TorchScript"): "Invalid attribute perm {0, -2, -1, 1}",
}
