"""What ``profilerkit calibrate`` prints of the networks that it ran."""

from __future__ import annotations

from profilerkit_predict.commands.calibrate import _describe_networks
from profilerkit_predict.prediction import Calibration, Network
from profilerkit_predict.prediction.cases import HostSeconds


def calibration(*ratios: float) -> Calibration:
    networks = [Network(f"network {index}", "family", "forward", ratio) for index, ratio in enumerate(ratios)]
    return Calibration((), 1e-6, HostSeconds(0.0), tuple(networks), "made up")


def test_networks_that_agree_have_an_interval() -> None:
    assert list(_describe_networks(calibration(0.5, 1.0, 2.0))) == [
        "  forward: networks took 1 times what their operators add up to; 9 of 10 lie between 0.5 and 2"
    ]


def test_networks_that_disagree_are_no_basis_for_predictions() -> None:
    # The middle one is 0.01; the furthest from it is 200 times as much.
    first, second = _describe_networks(calibration(0.001, 0.01, 2.0))
    assert first.endswith("networks took 0.01 times what their operators add up to; 9 of 10 lie between 5e-05 and 2")
    assert "they disagree so much that predictions say little" in second
    assert "calibrate again when it is idle" in second


def test_two_networks_are_too_few() -> None:
    assert list(_describe_networks(calibration(0.5, 0.6))) == [
        "  forward: fewer than three networks ran, too few for a correction; intervals are from 0.333 to 3 times the "
        "estimate"
    ]
