"""`TrainerWatch` with the Trainer of transformers; skipped where that or accelerate is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed, which the Trainer of transformers needs")

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        output = self.second(self.first(x))
        return {"loss": nn.functional.mse_loss(output, labels), "logits": output}


def train(tmp_path: Path, model: Any, *callbacks: Any, **settings: Any) -> None:
    data = [{"x": torch.ones(4), "labels": torch.ones(2)} for _ in range(12)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        **{"num_train_epochs": 2, "per_device_train_batch_size": 4, "eval_strategy": "epoch", **settings},
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=list(callbacks)).train()


def test_chosen_steps_have_their_parts_and_layers(tmp_path: Path) -> None:
    from profilerkit_torch.callbacks.transformers import TrainerWatch

    watched = TrainerWatch(at_step=(1, 3, 4))
    train(tmp_path, Net(), watched)
    assert (sorted(watched.watched.steps.steps), watched.watched.steps.loop_steps) == ([1, 3, 4], 6)
    report = watched.report()
    for key in ("step_time", "forward_time", "backward_time", "optimizer_time", "other_time"):
        assert len(report[key].samples) == 3, key
        assert min(report[key].samples) > 0, key
    assert len(report["layer_times"].samples("first")) == 3, "the passes of evaluations are none of a step"
    assert report.batch_size == 4


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    from profilerkit_torch.callbacks.transformers import TrainerWatch

    watched = TrainerWatch(at_step=1)
    train(tmp_path, Net(), watched, gradient_accumulation_steps=2, per_device_train_batch_size=3)
    assert watched.watched.steps.loop_steps == 4, "two of four batches each, in two epochs"
    assert len(watched.report()["layer_times"].samples("first")) == 2


def test_a_run_is_that_of_an_unwatched_one(tmp_path: Path) -> None:
    from profilerkit_torch.callbacks.transformers import TrainerWatch

    plain, seen = Net(), Net()
    train(tmp_path, plain)
    train(tmp_path, seen, TrainerWatch(at_step=(0, 3)))
    assert all(map(torch.equal, plain.parameters(), seen.parameters()))
    assert not seen._forward_pre_hooks
