"""More than 60 torch models by both of torch's exporters: the export has torch's MACs, or its change is named here."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
import onnxruntime
from exported_models import CHANGES, EXPORTERS, INVALID, MODELS, REFUSED, built, export_model
from exported_networks import NETWORKS

from profilerkit_onnx.backend import OnnxBackend
from profilerkit_torch import TorchBackend

TORCH, ONNX = TorchBackend(), OnnxBackend()
CASES = [(name, exporter) for name in MODELS for exporter in EXPORTERS if (name, exporter) not in INVALID]


def is_quick(name: str, exporter: str) -> bool:
    return exporter == "TorchScript" and name in NETWORKS


@pytest.mark.parametrize(
    ("name", "exporter"), [pytest.param(*case, marks=() if is_quick(*case) else pytest.mark.slow) for case in CASES]
)
def test_an_export_has_torchs_macs_or_its_change_is_named(name: str, exporter: str) -> None:
    if EXPORTERS[exporter]:
        pytest.importorskip("onnxscript")
    model, inputs = built(name)
    refused = REFUSED.get((name, exporter))
    if refused is not None:
        with pytest.raises(Exception, match=refused):
            export_model(model, inputs, exporter)
        return
    expected = TORCH.trace(model, inputs)
    assert (expected.failure, expected.missing) == (None, ())
    proto = export_model(model, inputs, exporter)
    trace = ONNX.trace(proto, ONNX.example_inputs(proto))
    assert (trace.failure, trace.missing, trace.choices) == (None, (), ())
    change, reason = CHANGES.get((name, exporter), (0, ""))
    assert trace.macs == expected.macs + change > 0, reason


@pytest.mark.slow
@pytest.mark.parametrize(("name", "exporter"), INVALID)
def test_a_file_that_no_runtime_takes_is_refused(name: str, exporter: str) -> None:
    model, inputs = built(name)
    proto, words = export_model(model, inputs, exporter), INVALID[name, exporter]
    trace = ONNX.trace(proto, ONNX.example_inputs(proto))
    assert words in str(trace.failure)
    with pytest.raises(Exception) as error:  # its errors have no base class but Exception
        onnxruntime.InferenceSession(proto.SerializeToString())
    assert words in str(error.value)


def test_sixty_models_at_least_are_exported_by_both() -> None:
    pytest.importorskip("transformers")
    failing = {name for name, _ in (*REFUSED, *INVALID)}
    assert len(MODELS.keys() - failing) >= 60


def test_what_is_named_is_there() -> None:
    """Models that are gone leave no entry behind."""
    pytest.importorskip("transformers")
    named = {name for name, _ in (*CHANGES, *REFUSED, *INVALID)}
    assert named <= MODELS.keys()
    assert not CHANGES.keys() & (REFUSED.keys() | INVALID.keys())
    assert all(change for change, _ in CHANGES.values())
