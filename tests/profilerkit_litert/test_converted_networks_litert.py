"""More than 80 networks of Keras by TensorFlow's converter: Keras' MACs, or the change is named here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tensorflow")
from keras_networks import APPLICATIONS, NETWORKS, build
from keras_to_litert import convert
from source_tree import ROOT

from profilerkit import profile
from profilerkit_litert import LiteRTBackend

BACKEND = LiteRTBackend()
MODELS = (*NETWORKS, *APPLICATIONS)
#: The network that is converted in each run; the others take seconds each.
QUICK = "maxout"

#: What the converter changes: the MACs that this adds, worked out by hand, and the reason.
CHANGES: Mapping[str, tuple[int, str]] = {
    # 2 samples, 4 queries, 16 wide
    "learned queries": (-2 * 4 * 16 * 16, "the projection of learned queries is computed before"),
    # 2 samples, 6 units, of four gates each
    "LSTM, unrolled": (-2 * 6 * 4 * 6, "the product with the initial state, zero, is computed before"),
}

#: What the converter refuses: words of its error.
REFUSED: Mapping[str, str] = {
    "3-D convolutions": "tf.MaxPool3D",
    "FNet": "tf.Complex",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in MODELS]
)
def test_a_converted_network_has_the_macs_of_keras_or_the_change_is_named(name: str) -> None:
    network = build(name)
    if name in REFUSED:
        with pytest.raises(Exception, match=REFUSED[name]):
            convert(network)
        return
    model = convert(network)
    source, trace = (
        profile(network, batch_size=2, metrics="macs"),
        BACKEND.trace(model, BACKEND.example_inputs(model, 2)),
    )
    assert source.status("macs").completeness.value == "complete"
    assert (trace.failure, trace.missing, trace.choices) == (None, (), ())
    change, reason = CHANGES.get(name, (0, ""))
    assert trace.macs == source["macs"] + change > 0, reason


def test_the_page_has_what_the_converter_changes_and_refuses() -> None:
    rows = [line for line in (ROOT / "docs" / "litert.rst").read_text().splitlines() if line.startswith("``")]
    for name, (change, _) in CHANGES.items():
        assert sum(row.startswith(f"``{name}``") and f" {change:,} " in row for row in rows) == 1, name
    refused = [row for row in rows if " refused " in row]
    assert [sum(row.startswith(f"``{words}``") for row in refused) for words in REFUSED.values()] == [1] * len(REFUSED)
    equal = len(set(MODELS) - CHANGES.keys() - REFUSED.keys())
    assert f"{equal} of the {len(MODELS)} " in (ROOT / "docs" / "litert.rst").read_text()
    assert equal >= 60
