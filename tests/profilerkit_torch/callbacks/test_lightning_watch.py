"""`LightningWatch` with Lightning itself; skipped where that is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

from profilerkit_torch.callbacks.lightning import LightningWatch  # noqa: E402

# Lightning's own warnings: few workers, no logger, a package resource of an older kind.
pytestmark = pytest.mark.filterwarnings("ignore")


def train(tmp_path: Path, module: Any, *callbacks: Any, **settings: Any) -> Any:
    trainer = lightning.Trainer(
        **{"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_checkpointing": False, **settings},
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        callbacks=list(callbacks),
    )
    data = torch.utils.data.TensorDataset(torch.ones(12, 4), torch.ones(12, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=4)  # 3 steps an epoch
    trainer.fit(module, loader, loader)
    return trainer


def module(calls: str = "self") -> Any:
    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
            self.evaluations = 0

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> Any:
            output = self(batch[0]) if calls == "self" else self.net(batch[0])
            return nn.functional.mse_loss(output, batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            self.evaluations += 1
            self(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def test_chosen_steps_have_their_parts_and_layers(tmp_path: Path) -> None:
    watched = LightningWatch(at_step=(1, 3, 4))  # the fourth step begins behind a validation
    train(tmp_path, module(), watched)
    assert (sorted(watched.watched.steps.steps), watched.watched.steps.loop_steps) == ([1, 3, 4], 6)
    report = watched.report()
    for key in ("step_time", "forward_time", "backward_time", "optimizer_time", "other_time"):
        assert len(report[key].samples) == 3, key
        assert min(report[key].samples) > 0, "Lightning runs both passes in the optimizer's step, which is not theirs"
    table = report["layer_times"]
    assert [row["path"] for row in table] == ["", "net", "net.0", "net.1"]
    assert len(table.samples("net.0")) == 3, "the passes of validation are none of a step"
    assert (report.batch_size, report["macs"]) == (4, 4 * (4 * 3 + 3 * 2))


def test_a_run_is_that_of_an_unwatched_one(tmp_path: Path) -> None:
    plain, seen = module(), module()
    train(tmp_path, plain)
    train(tmp_path, seen, LightningWatch(at_step=(0, 1, 4)))
    assert all(map(torch.equal, plain.parameters(), seen.parameters()))
    assert not seen.net._forward_hooks and not seen._forward_pre_hooks


def test_the_module_that_the_training_step_calls_is_found(tmp_path: Path) -> None:
    watched, network = LightningWatch(at_step=(1, 4)), module(calls="net")
    train(tmp_path, network, watched)
    assert (sorted(watched.watched.steps.steps), watched.watched.steps.loop_steps) == ([1, 4], 6)
    assert [row["path"] for row in watched.report()["layer_times"]] == ["", "0", "1"]
    assert watched.report()["macs"] == 4 * (4 * 3 + 3 * 2)
    assert not any(inside._forward_hooks or inside._forward_pre_hooks for inside in network.modules())


def test_a_module_inside_is_watched_by_its_path(tmp_path: Path) -> None:
    """``model=""`` is the module of Lightning itself, of whose own calls nothing is known here."""
    whole, inner = LightningWatch(at_step=1, model=""), LightningWatch(at_step=(0, 1), model="net")
    train(tmp_path, module(calls="net"), whole)
    assert whole.report()["forward_time"].median > 0, "the layers inside were called"
    assert whole.report()["macs"] is None, "what the module would be called with is not known"
    train(tmp_path, module(calls="net"), inner)
    assert [row["path"] for row in inner.report()["layer_times"]] == ["", "0", "1"]
    assert inner.report()["macs"] == 4 * (4 * 3 + 3 * 2)


def test_what_the_first_step_raises_leaves_nothing(tmp_path: Path) -> None:
    failing = module(calls="net")
    failing.net[1].forward = lambda x: x.no_such_thing
    with pytest.raises(AttributeError, match="no_such_thing"):
        train(tmp_path, failing, LightningWatch(at_step=3), num_sanity_val_steps=0)
    assert not any(inside._forward_hooks or inside._forward_pre_hooks for inside in failing.modules())


def test_what_training_raises_goes_on_and_nothing_is_left(tmp_path: Path) -> None:
    failing = module()
    watched = LightningWatch(at_step=0)
    failing.training_step = lambda batch: failing(batch[0]).no_such_thing
    with pytest.raises(AttributeError, match="no_such_thing"):
        train(tmp_path, failing, watched)
    assert not failing._forward_pre_hooks and watched.watched.steps.steps == {}


def test_a_report_before_training_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no training was watched yet: give this callback to the trainer"):
        LightningWatch().report()
