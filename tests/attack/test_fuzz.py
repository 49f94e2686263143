"""Random small modules: profilerkit's trace against a real run under a plain counter, and the module afterwards.

``make test`` takes a sample of the seeds, ``make attack`` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from attack_sampling import sample
from fuzz_compare import differences, find_truth
from fuzz_generator import program
from fuzz_seeds import KEPT, Kept

from profilerkit_torch import costs
from profilerkit_torch.trace import static_pass, tracing

#: One seed in so many is compared as a training step too.
TRAINED = 3
_GROUP_NORM = "torch 2.13: the gradient of GroupNorm's weights alone, of an input in channels_last, ends the process"
#: Seeds of which torch itself makes nothing that could be compared, with the reason.
TORCHS_OWN = {
    1197: "a sum that is zero but for rounding decides a shape by its sign; torch's kernels round otherwise",
    3492: _GROUP_NORM,
    9735: _GROUP_NORM,
    9800: "torch 2.13: `_int_mm` of so few rows returns what was in memory",
}
SEEDS = sample(range(10_000), 30)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_module_is_counted_as_it_runs(seed: int) -> None:
    if seed in TORCHS_OWN:
        pytest.skip(TORCHS_OWN[seed])
    source = program(seed).source
    try:
        truth = find_truth(source, training=seed % TRAINED == 0)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # LAPACK may give up on what it has solved a moment before
        pytest.skip(str(error))
    found, method = differences(source, truth)
    assert not found, (found, method, source)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_what_was_found_stays_mended(kept: Kept) -> None:
    found, method = differences(kept.source, find_truth(kept.source, training=kept.training))
    assert not found, (found, method)


@pytest.mark.parametrize("question", ["x0.device.type == 'cpu'", "not torch.is_inference_mode_enabled()"])
def test_a_question_with_a_wrong_answer_is_found(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Kept("", "", f"if {question}:\n    return x0 @ x0.mT\nreturn x0").source
    truth = find_truth(source)
    monkeypatch.setattr(static_pass.RecordedPass, "_prepare_answers", lambda *_: None)
    monkeypatch.setattr(tracing._IN_INFERENCE[0], "grad_mode", torch.inference_mode)
    assert [difference.kind for difference in differences(source, truth)[0]] == ["macs"]


def test_a_wrong_formula_is_found() -> None:
    source = Kept("", "", "return torch.mm(x0, x0.T)").source
    truth = find_truth(source)
    with costs.override({"aten::mm": lambda a, b, *, out: costs.Cost(1, 2)}):
        found, _ = differences(source, truth)
    assert [difference.kind for difference in found] == ["macs"]
