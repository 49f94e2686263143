"""The bytes alive in a training step, worked out by hand and measured; and what optimizers keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from measured_steps import measure_step
from tiny import BACKEND, Call, ones, step
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from profilerkit import ModelTrace, profile
from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.backend_kit.optimizers import optimizer_bytes as bytes_by_name
from profilerkit.piping.outcome import Completeness
from profilerkit.trace.records import WeightRecord
from profilerkit_torch.trace import fused_attention, static_pass
from profilerkit_torch.training.optimizers import optimizer_bytes

WIDTH = 8
WEIGHT = WIDTH * WIDTH * 4


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU(), nn.Linear(WIDTH, WIDTH, bias=False))


def test_a_large_batch_peaks_where_the_second_layer_has_both_its_gradients() -> None:
    """There are then the input, the activation that is kept, the output, the gradients of these two, and a weight's."""
    batch, found = 32 * WIDTH * 4, step(two_layers(), ones(32, WIDTH))
    assert found.memory.peak_bytes(include_weights=False) == 5 * batch + WEIGHT
    assert found.memory.weight_bytes == 2 * WEIGHT
    assert found.memory.parts == {
        "inputs": batch,
        "activations": 2 * batch,
        "gradients": 0,
        "other": 2 * batch + WEIGHT,
    }
    peak = found.peak_operator
    assert peak is not None
    assert (peak.operator, peak.layer, peak.phase) == ("aten.mm.default", "2", "backward")


def test_a_small_batch_peaks_at_the_last_gradient_of_a_weight() -> None:
    """The second weight has its gradient, the first gets it; input, output and one gradient of an activation."""
    batch, found = WIDTH * 4, step(two_layers(), ones(1, WIDTH))
    assert found.memory.peak_bytes(include_weights=False) == 3 * batch + 2 * WEIGHT
    assert found.memory.parts == {
        "inputs": batch,
        "activations": batch,
        "gradients": WEIGHT,
        "other": batch + WEIGHT,
    }


def test_the_parts_add_up_to_the_peak() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    found = step(model, ones(4, 3, 10, 10))
    assert sum(found.memory.parts.values()) == found.memory.peak_bytes(include_weights=False)
    assert found.memory.parts["inputs"] == found.memory.input_bytes == 4 * 3 * 100 * 4


def test_frozen_layers_keep_no_activations_and_get_no_gradients() -> None:
    model = two_layers()
    model[0].requires_grad_(False)
    batch, found = 32 * WIDTH * 4, step(model, ones(32, WIDTH))
    assert found.memory.peak_bytes(include_weights=False) == 4 * batch + WEIGHT, "no gradient of the activation"


def test_a_checkpoint_keeps_its_input_alone() -> None:
    """Of ten layers in two checkpoints the activations of five are alive at once, not those of ten."""
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()) for _ in range(10)))

    def in_two(self: Any, x: torch.Tensor) -> torch.Tensor:
        for half in (layers[:5], layers[5:]):
            x = checkpoint(half, x, use_reentrant=False)
        return x

    plain, halved = step(layers, ones(256, WIDTH)), step(Call(in_two, layers=layers), ones(256, WIDTH))
    batch = 256 * WIDTH * 4
    assert plain.memory.parts["activations"] == 10 * batch
    assert halved.memory.parts["activations"] <= 2 * batch
    assert halved.memory.peak_bytes() < plain.memory.peak_bytes() - 3 * batch


CHOOSING: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index": lambda weight, places: weight[places],
    "index_select": lambda weight, places: weight.index_select(0, places),
    "gather": lambda weight, places: weight.gather(0, places),
    "take": lambda weight, places: weight.take(places),
    "topk": lambda weight, places: weight.topk(10)[0],
    "checkpointed": lambda weight, places: checkpoint(lambda chosen: weight[chosen], places, use_reentrant=False),
}


@pytest.mark.parametrize("name", CHOOSING)
def test_the_gradient_of_chosen_elements_is_written_to_one_tensor_of_zeros(name: str) -> None:
    """Ten of 1,000 weights: their places of 8 bytes, the output and its gradient of 4, and the gradient of them all.

    ``topk`` keeps ten places of its own, and these of the input are there beside them.
    """
    model = Call(lambda self, places: CHOOSING[name](self.weight, places))
    model.weight = nn.Parameter(torch.ones(1000))
    found = step(model, torch.arange(10))
    own_places = 80 if name == "topk" else 0
    assert found.memory.peak_bytes(include_weights=False) == 80 + own_places + 40 + 40 + 4000


class WrittenByUser(torch.autograd.Function):
    """Chooses elements; its own backward pass writes them to the same zeros twice, each time to a copy."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(places)
        return weight[places]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        zeros, (places,) = gradients[0].new_zeros(1000), ctx.saved_tensors
        return zeros.index_add(0, places, gradients[0]) + zeros.index_add(0, places + 1, gradients[0]), None


def test_the_users_own_zeros_stay_as_they_are() -> None:
    """At the sum there are zeros, two copies and their sum of 4,000 bytes; ten places twice, output and gradient."""
    model = Call(lambda self, places: WrittenByUser.apply(self.weight, places))  # type: ignore[no-untyped-call]
    model.weight = nn.Parameter(torch.ones(1000))
    assert step(model, torch.arange(10)).memory.peak_bytes(include_weights=False) == 4 * 4000 + 80 + 40 + 40


SUMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    # At the product's gradients there are two of them beside a sum and its gradient; the first is then added to.
    "two gradients": (lambda weight: (weight * weight).sum(), 2 * 4000 + 4 + 4),
    # The two of the other product are beside the sum of the first two.
    "four gradients": (lambda weight: (weight * weight).sum() + (weight * weight).sum(), 3 * 4000 + 4 + 4),
    # Both are the gradient of the output, which is there beside it: their sum is a third.
    "one gradient twice": (lambda weight: weight + weight, 3 * 4000),
    # A sum that one node makes of its own terms is a third tensor: the gradients of variance and of mean. There are the
    # two numbers and their gradients, and that of the mean divided.
    "inside a node": (lambda weight: torch.stack(torch.var_mean(weight)), 3 * 4000 + 8 + 8),
}


@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_one_tensor_are_added_in_place(name: str) -> None:
    function, expected = SUMS[name]
    model = Call(lambda self: function(self.weight))
    model.weight = nn.Parameter(torch.ones(1000))
    assert step(model).memory.peak_bytes(include_weights=False) == expected


def _lose(name: str, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda weight: getattr(functional, name)(weight, torch.zeros(1000), **options)


#: By the function of 1,000 weights: the tensors of 4,000 bytes at the peak, the target among them, and the bytes beside
#: them, such as those of the output and its gradient where they are one number.
FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int, int]] = {
    # Output, its gradient, and that of the weights.
    "mish": (functional.mish, 3, 0),
    # The weights' quotient, and their gradient.
    "prod": (torch.prod, 2, 8),
    # Output, its gradient, four sequences while their product is summed up from behind, and a mask of the zeros.
    "cumprod": (lambda weight: weight.cumprod(0), 6, 1000),
    # A loss of one number has the memory of all; its gradient of 4 bytes, and that of the weights.
    "mse_loss": (_lose("mse_loss"), 3, 4),
    "smooth_l1_loss": (_lose("smooth_l1_loss"), 3, 4),
    # The same with the sigmoids that are kept, and their gradient.
    "binary_cross_entropy": (lambda weight: _lose("binary_cross_entropy")(weight.sigmoid()), 4, 4),
    # 250 columns of 4 make an image of 26 x 11 in the memory of the columns; its gradient of 4 * 286 bytes, and theirs.
    "fold": (lambda weight: functional.fold(weight.view(1, 4, 250), (26, 11), 2), 2, 4 * 286),
    # At the second of two losses each has the memory of all, and its target; the loss of each element is there too.
    "two losses": (lambda weight: _lose("mse_loss")(weight) + _lose("mse_loss")(weight), 5, 0),
    # Three tensors, of which the last is the exponential, beside target and loss.
    "soft_margin_loss": (_lose("soft_margin_loss"), 5, 4),
    # Two while the loss is made, beside the target and the loss.
    "cross entropy of logits": (_lose("binary_cross_entropy_with_logits"), 3, 4),
    # With a weight for positives, which is an input beside the target, three tensors in the gradient.
    "with a weight": (
        lambda weight: functional.binary_cross_entropy_with_logits(weight, torch.ones(1000), pos_weight=torch.ones(1)),
        4,
        4 + 4 + 4,
    ),
    # Target, loss and its gradient; the gradient of the weights is made in one tensor.
    "of each element": (_lose("binary_cross_entropy_with_logits", reduction="none"), 4, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_their_kernels_take(name: str) -> None:
    """Though torch runs other operators on meta tensors, or while it is watched."""
    function, tensors, beside = FUNCTIONS[name]
    model = Call(lambda self: function(self.weight))
    model.weight = nn.Parameter(torch.rand(1000))
    trace = step(model)
    peak = pytest.approx(tensors * 4000 + beside, abs=4)  # torch 2.10 spells ``cumprod`` with a number less
    assert trace.memory.peak_bytes(include_weights=False) == peak
    assert sum(trace.memory.parts.values()) == trace.memory.peak_bytes(include_weights=False)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_tensors_that_are_saved_on_the_cpu_take_what_they_take_without(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """See the first test. On the CPU they are there already, and on a GPU they count as if they stayed there."""
    monkeypatch.setattr(static_pass, "_find_common_device", lambda tensors: torch.device(device))

    def save_on_cpu(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu():
            return self.layers(x)  # type: ignore[no-any-return]

    saving = step(Call(save_on_cpu, layers=two_layers()), ones(32, WIDTH)).memory
    assert saving.peak_bytes(include_weights=False) == 5 * (32 * WIDTH * 4) + WEIGHT


def test_pinned_copies_on_the_cpu_are_used_as_they_are() -> None:
    """The input, its copy, the output, its gradient, and that of the weight."""

    def save_on_cpu(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return x * self.weight  # type: ignore[no-any-return]

    model = Call(save_on_cpu)
    model.weight = nn.Parameter(torch.rand(1000))
    assert step(model, torch.rand(1000)).memory.peak_bytes(include_weights=False) == 5 * 4000


@pytest.mark.parametrize(("name", "tensors"), [("binary_cross_entropy", 3), ("binary_cross_entropy_with_logits", 3)])
def test_a_loss_may_be_differentiated_by_its_target_too(name: str, tensors: int) -> None:
    """Without logits: the loss of each element, and two gradients. With them: a sigmoid, its opposite and a product."""
    model = Call(lambda self: getattr(functional, name)(self.weight, self.target))
    model.weight, model.target = nn.Parameter(torch.rand(1000)), nn.Parameter(torch.rand(1000))
    assert step(model).memory.peak_bytes(include_weights=False) == pytest.approx(tensors * 4000, abs=8)


LSTM_WORKSPACE = ("the workspace of lstm of unknown size (1 call)",)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    ("options", "dtype", "missing"),
    [
        ({}, torch.float32, LSTM_WORKSPACE),
        ({"num_layers": 2, "bidirectional": True}, torch.float32, LSTM_WORKSPACE),
        ({"proj_size": 4}, torch.float32, ()),
        ({}, torch.float64, ()),
    ],
)
def test_an_lstm_of_onednn_has_memory_that_is_not_known(
    options: dict[str, Any], dtype: torch.dtype, missing: tuple[str, ...]
) -> None:
    """A step on the CPU takes more than is counted where oneDNN has a kernel for it, and is spelled out elsewhere."""
    lstm, x = nn.LSTM(16, 8, **options).to(dtype), torch.randn(5, 3, 16, dtype=dtype)
    model = Call(lambda self, x: self.lstm(x)[0], lstm=lstm)
    record = profile(model, x, metrics=["training_memory"], optimizer="sgd").status("training_memory")
    assert record.missing == missing
    weights = sum(weight.nbytes for weight in model.parameters())
    assert (record.value < weights + x.nbytes + measure_step(model, x)) or not missing


ENCODER: dict[str, Any] = {"d_model": 64, "nhead": 2, "dim_feedforward": 128, "batch_first": True}


def attend(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x)


MEASURED: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "mlp": (nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8)), (128, 64)),
    "in place": (nn.Sequential(nn.Linear(64, 256), nn.ReLU(inplace=True), nn.Linear(256, 8)), (128, 64)),
    "rows apart": (Call(lambda self, x: self.linear((x + x).mT), linear=nn.Linear(32, 64)), (4, 32, 100)),
    "images of rows apart": (Call(lambda self, x: self.linear((x + x).mT), linear=nn.Linear(32, 64)), (4, 3, 32, 100)),
    **{
        f"bags: {mode}": (Call(lambda self, x: self.bag(x.long()), bag=nn.EmbeddingBag(100, 8, mode=mode)), (64, 50))
        for mode in ("sum", "mean", "max")
    },
    "weighted bags": (
        Call(lambda self, x: self.bag(x.long(), None, x), bag=nn.EmbeddingBag(100, 8, mode="sum")),
        (64, 50),
    ),
    "a loss of sequences": (
        Call(
            lambda self, x: functional.ctc_loss(
                self.linear(x).log_softmax(-1), torch.ones(16, 30).long(), torch.full((16,), 50), torch.full((16,), 20)
            ),
            linear=nn.Linear(4, 20),
        ),
        (50, 16, 4),
    ),
    "volumes": (nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.ConvTranspose3d(4, 2, 3)), (1, 2, 8, 8, 8)),
    "attention with dropout": (nn.TransformerEncoderLayer(**ENCODER), (8, 32, 64)),
    "attention by one kernel": (nn.TransformerEncoderLayer(**ENCODER, dropout=0.0), (8, 32, 64)),
    "norms and pools": (
        nn.Sequential(nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2), nn.GroupNorm(2, 8)),
        (4, 8, 32, 32),
    ),
    "the maximum of all": (Call(lambda self, x: self.linear(x).max(), linear=nn.Linear(8, 64)), (256, 8)),
    "the minimum of all": (Call(lambda self, x: self.linear(x).min(), linear=nn.Linear(8, 64)), (256, 8)),
    "a sum of softmax": (Call(lambda self, x: self.linear(x).softmax(-1).sum(), linear=nn.Linear(8, 64)), (256, 8)),
    "a sum of rows": (nn.Sequential(nn.Linear(8, 64), nn.LayerNorm(64), Call(lambda self, x: x.sum(0))), (256, 8)),
    "a sum of images": (
        Call(lambda self, x: functional.pad(self.layer(x), (1, 1), mode="reflect").sum(), layer=nn.BatchNorm1d(64)),
        (16, 64, 32),
    ),
    "a sum of attention": (
        Call(lambda self, x: attend(self.linear(x)).sum(), linear=nn.Linear(64, 64)),
        (64, 2, 32, 64),
    ),
    "attention in blocks": (
        Call(lambda self, x: attend(self.linear(x)).contiguous(), linear=nn.Linear(64, 64)),
        (64, 2, 32, 64),
    ),
    "groups of few positions": (nn.GroupNorm(8, 512), (64, 512)),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_peak_is_what_the_allocator_sees(name: str) -> None:
    """To 2 %: the tracer keeps nothing alive itself, and frees what torch does."""
    model, shape = MEASURED[name]
    x = torch.rand(shape)
    predicted = step(model.train(), x).memory.peak_bytes(include_weights=False) - x.nbytes
    assert predicted == pytest.approx(measure_step(model, x), rel=0.02)


# Optimizers ---------------------------------------------------------------------------------------------------------


def weighted() -> nn.Module:
    """A model with a matrix, a filter, vectors, and a frozen weight."""
    model = nn.Sequential(nn.Conv2d(3, 5, 2), nn.Flatten(), nn.Linear(20, 7), nn.Linear(7, 7).requires_grad_(False))
    return model


STEPPING = [
    "SGD",
    "Adam",
    "AdamW",
    "NAdam",
    "RAdam",
    "Adamax",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "Adafactor",
]


def describe(*weights: torch.Tensor) -> list[WeightRecord]:
    sizes = [(weight.numel(), weight.nbytes) for weight in weights]
    return [WeightRecord("w", index, count, size, "float32", True) for index, (count, size) in enumerate(sizes)]


@pytest.mark.parametrize("name", STEPPING)
def test_an_optimizer_is_counted_before_it_has_stepped_as_after(name: str) -> None:
    """The oracle is the optimizer itself, after a step."""
    model = weighted()
    weights = BACKEND.trace(model, None).parameters
    optimizer = getattr(torch.optim, name)([p for p in model.parameters() if p.requires_grad])
    before = optimizer_bytes(optimizer, weights)
    of_class = optimizer_bytes(type(optimizer), weights)
    model(torch.ones(1, 3, 3, 3)).sum().backward()
    optimizer.step()
    after = optimizer_bytes(optimizer, weights)
    assert isinstance(after, OptimizerBytes)
    assert before == of_class == after
    assert after.state == sum(value.nbytes for value in list_state(optimizer))


def list_state(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    values = (value for state in optimizer.state.values() for value in state.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("given", ["name", "class", "new", "stepped"])
def test_weights_without_a_gradient_have_no_state(given: str) -> None:
    """Torch makes a weight's state in the first step with its gradient; one unused weight is as large as a used one."""
    model = Call(lambda self, x: self.used(x), used=nn.Linear(8, 8), unused=nn.Linear(8, 8), larger=nn.Linear(30, 9))
    stepped = torch.optim.Adam(model.parameters())
    model(ones(2, 8)).sum().backward()
    stepped.step()
    model.zero_grad()
    moments = sum(value.nbytes for value in list_state(stepped) if value.dim())
    assert moments == 2 * (64 + 8) * 4
    counters = 0 if given == "name" else 2 * 4  # of the steps of each weight; other frameworks have them once
    optimizers = {
        "name": "adam",
        "class": torch.optim.Adam,
        "new": torch.optim.Adam(model.parameters()),
        "stepped": stepped,
    }
    report = profile(
        model, ones(2, 8), metrics=["training_memory", "training_memory_parts"], optimizer=optimizers[given]
    )
    assert report["training_memory_parts"]["optimizer_state"] == moments + counters
    assert report["training_memory_parts"]["other"] == 2 * 64 * 4  # Adam's copies of one weight after the other
    assert report.status("training_memory").missing == ()


def test_a_step_without_a_backward_pass_updates_nothing() -> None:
    model = Call(lambda self, x: self.used(x).detach(), used=nn.Linear(8, 8))
    parts = profile(model, ones(2, 8), metrics=["training_memory_parts"], optimizer="adam")["training_memory_parts"]
    assert (parts["optimizer_state"], parts["gradients"]) == (0, 0)


@pytest.mark.parametrize("how", ["unfrozen", "added"])
def test_state_of_weights_without_a_step_yet_is_missing(how: str) -> None:
    """Two moments of 30 + 5 and of 20 + 4 numbers, and a counter for each weight; the optimizer's own step tells."""
    first, second = nn.Linear(6, 5), nn.Linear(5, 4).requires_grad_(False)
    optimizer = torch.optim.Adam([*first.parameters(), *(second.parameters() if how == "unfrozen" else ())])
    second(first(ones(1, 6))).sum().backward()
    optimizer.step()
    second.requires_grad_()
    if how == "added":
        optimizer.add_param_group({"params": list(second.parameters())})
    present, further = 2 * 35 * 4 + 2 * 4, 2 * 24 * 4 + 2 * 4
    missing = f"{further} bytes that Adam makes for weights with which it has not stepped yet"
    weights = BACKEND.trace(nn.Sequential(first, second), None).parameters
    before = optimizer_bytes(optimizer, weights)
    assert isinstance(before, OptimizerBytes)
    assert (before.state, before.missing) == (present, missing)
    second(first(ones(1, 6))).sum().backward()
    optimizer.step()
    assert optimizer_bytes(optimizer, weights) == OptimizerBytes(present + further, before.update)


@pytest.mark.parametrize("has_stepped", [False, True])
@pytest.mark.parametrize("others", [[(3, 5)], [(6, 5)], [(1, 4), (2, 2)]], ids=str)
def test_the_optimizer_of_another_model_or_of_more_than_the_model_is_refused(
    others: list[tuple[int, int]], has_stepped: bool
) -> None:
    model, further = nn.Linear(6, 5), [nn.Parameter(torch.zeros(shape)) for shape in others]
    optimizer = torch.optim.Adam([*model.parameters(), *further])
    if has_stepped:
        sum(weight.sum() for weight in (*model.parameters(), *further)).backward()  # type: ignore[union-attr]
        optimizer.step()
    report = profile(model, ones(1, 6), metrics=["training_memory"], optimizer=optimizer)
    count = f"{len(others)} weight{'s' if len(others) > 1 else ''}"
    assert report.status("training_memory").missing == (
        f"the state of Adam, which trains {count} of sizes that the model lacks: give the optimizer of this model "
        "alone, or its class",
    )
    of_part = torch.optim.Adam([model.weight])  # the other weights are not trained
    assert optimizer_bytes(of_part, BACKEND.trace(model, None).parameters)[0] == 2 * 30 * 4 + 4


def test_the_optimizer_of_weights_that_are_not_made_yet_has_an_unknown_state() -> None:
    model = nn.LazyLinear(4)
    optimizer = torch.optim.Adam(model.parameters())
    report = profile(model, ones(1, 6), metrics=["training_memory"], optimizer=optimizer)
    assert (
        report.status("training_memory").missing[0].startswith("the state of Adam, which did not step on meta tensors")
    )


def test_settings_of_an_optimizer_count() -> None:
    model, weights = nn.Linear(6, 5), BACKEND.trace(nn.Linear(6, 5), None).parameters
    params = list(model.parameters())
    assert optimizer_bytes(torch.optim.SGD(params, momentum=0.9), weights) == OptimizerBytes(35 * 4, 0)
    with_largest = optimizer_bytes(torch.optim.Adam(params, amsgrad=True), weights)
    assert with_largest[0] == 3 * 35 * 4 + 2 * 4, "two counters of steps"
    if hasattr(torch.optim, "Muon"):  # torch 2.9 and newer
        assert optimizer_bytes(torch.optim.Muon([model.weight]), weights)[0] == 30 * 4


FUSED: dict[str, tuple[Callable[..., torch.optim.Optimizer], int]] = {
    "AdamW": (torch.optim.AdamW, 2 * 35 * 4 + 2 * 4),
    "amsgrad": (partial(torch.optim.Adam, amsgrad=True), 3 * 35 * 4 + 2 * 4),
    "momentum": (partial(torch.optim.SGD, momentum=0.9), 35 * 4),
}


@pytest.mark.parametrize("has_stepped", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_update_takes_nothing_beside_the_state(name: str, has_stepped: bool) -> None:
    """Values of four bytes for each of 30 + 5 elements, and a counter of steps for each of two weights."""
    make, state = FUSED[name]
    model = nn.Linear(6, 5)
    optimizer = make(model.parameters(), fused=True)
    if has_stepped:
        model(ones(1, 6)).sum().backward()
        optimizer.step()
    assert optimizer_bytes(optimizer, BACKEND.trace(model, None).parameters) == OptimizerBytes(state, 0)
    assert all(group["fused"] for group in optimizer.param_groups)


def test_views_of_a_state_take_nothing_in_an_update() -> None:
    """Adafactor expands the means of a filter's rows and columns for their product, which is the update.

    There are the squares of both anew, the update, and the mean of each 3 x 3 kernel.
    """
    filters = nn.Parameter(torch.randn(32, 8, 3, 3))
    filters.grad = torch.randn_like(filters)
    adafactor = torch.optim.Adafactor([filters])
    adafactor.step()
    counted = optimizer_bytes(adafactor, describe(filters))
    assert not isinstance(counted, str)
    assert counted.update == 2 * (32 * 8 * 3 * 4) + 32 * 8 * 9 * 4 + 32 * 8 * 4


def test_counting_an_optimizer_changes_nothing() -> None:
    model = nn.Linear(6, 5)
    optimizer = torch.optim.Adam(model.parameters())
    called: list[Any] = []
    optimizer.register_step_pre_hook(lambda *given: called.append(given))
    values, random = [p.clone() for p in model.parameters()], torch.get_rng_state()
    optimizer_bytes(optimizer, BACKEND.trace(model, None).parameters)
    assert not optimizer.state
    assert not called
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(p, value) and p.grad is None for p, value in zip(model.parameters(), values, strict=True))


class Lookahead(torch.optim.Optimizer):
    """Steps by another optimizer, whose weights it has too."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner, self.param_groups, self.state = inner, inner.param_groups, defaultdict(dict)

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class Slow(Lookahead):
    """Keeps a copy of each weight beside the state of the optimizer inside."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner)
        for weight in inner.param_groups[0]["params"]:
            self.state[weight]["slow"] = weight.detach().clone()


class Direct(Lookahead):
    """Changes the weights by references of its own."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner)
        self.inner = [weight for group in inner.param_groups for weight in group["params"]]  # type: ignore[assignment]

    def step(self, closure: Any = None) -> Any:
        for weight in self.inner:  # type: ignore[attr-defined]
            weight.data.zero_()


class Accelerated(torch.optim.Optimizer):
    """Has the groups and the state of the optimizer inside, as accelerate's and opacus's wrappers do."""

    param_groups = property(
        lambda self: self.inner.param_groups, lambda self, groups: setattr(self.inner, "param_groups", groups)
    )
    state = property(lambda self: self.inner.state, lambda self, state: setattr(self.inner, "state", state))

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class Bare(torch.optim.Optimizer):
    """Has nothing but the optimizer inside."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner


class Hidden(Accelerated):
    """Hides the optimizer inside from its attributes."""

    inner: Any = property(lambda self: self.hold[0], lambda self, inner: setattr(self, "hold", [inner]))


@pytest.mark.parametrize("has_stepped", [False, True])
@pytest.mark.parametrize("wrapper", [Lookahead, Slow, Direct, Accelerated, Bare, Hidden])
def test_a_wrapped_optimizer_and_its_weights_stay_as_they_are(wrapper: Any, has_stepped: bool) -> None:
    """Momentum has a number for each of 30 + 5 weights."""
    model = nn.Linear(6, 5)
    inner = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    model(ones(1, 6)).sum().backward()
    if has_stepped:
        inner.step()
    values, groups, state = [p.clone() for p in model.parameters()], inner.param_groups, dict(inner.state)
    found = optimizer_bytes(wrapper(inner), BACKEND.trace(model, None).parameters)
    assert all(torch.equal(p, value) for p, value in zip(model.parameters(), values, strict=True))
    assert inner.param_groups is groups and groups[0]["params"][0] is model.weight
    assert list(inner.state.items()) == list(state.items())
    if wrapper in (Accelerated, Bare):
        assert found == OptimizerBytes(35 * 4, 0)
    elif wrapper is Slow or (wrapper is Hidden and has_stepped):
        unknown = (
            f"what an update of {wrapper.__name__} takes: a copy of it did not step on meta tensors (TypeError: it "
        )
        assert isinstance(found, OptimizerBytes)
        copies = (wrapper is Slow) + has_stepped
        assert (found.state, found.missing.startswith(unknown)) == (copies * 35 * 4, True)
    else:
        assert str(found).startswith(f"the state of {wrapper.__name__}, which did not step on meta tensors")


def test_a_state_that_is_made_on_the_host_and_moved_to_the_weight() -> None:
    """As in transformers' Adafactor, a state has a number for each row and column: 5 + 6 of a matrix, 5 of a bias."""

    class Factored(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for weight in self.param_groups[0]["params"]:
                for name, size in enumerate(weight.shape):
                    self.state[weight].setdefault(name, torch.zeros(size).to(weight.grad))

    model = nn.Linear(6, 5)
    found = optimizer_bytes(Factored(model.parameters()), BACKEND.trace(model, None).parameters)
    assert isinstance(found, OptimizerBytes)
    assert (found.state, found.missing) == ((5 + 6 + 5) * 4, "")


def test_what_is_no_optimizer_and_what_cannot_step_is_said() -> None:
    weights = BACKEND.trace(nn.Linear(6, 5), None).parameters
    assert optimizer_bytes(3, weights) == (
        "the state of int, which is no torch.optim.Optimizer; give one, or the name of one"
    )
    found = optimizer_bytes(torch.optim.LBFGS, weights)
    assert isinstance(found, str)
    assert found.startswith("the state of LBFGS, which did not step on meta tensors (TypeError: ")


def test_a_state_is_counted_where_no_copy_steps() -> None:
    class Stubborn(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise ArithmeticError("not on meta tensors")

    model = nn.Linear(6, 5)
    weights, optimizer = BACKEND.trace(model, None).parameters, Stubborn(model.parameters())
    reason = optimizer_bytes(optimizer, weights)
    assert str(reason).startswith("the state of Stubborn, which did not step on meta tensors (ArithmeticError: not on")
    optimizer.state[model.weight]["means"] = torch.zeros(5, 6)
    unknown_update = (
        "what an update of Stubborn takes: a copy of it did not step on meta tensors "
        "(ArithmeticError: not on meta tensors)"
    )
    assert optimizer_bytes(optimizer, weights) == OptimizerBytes(30 * 4, 0, unknown_update)
    keys = ["training_memory", "training_memory_parts"]
    report = profile(model, ones(1, 6), metrics=keys, optimizer=optimizer)
    for key in keys:
        assert report.status(key).completeness is Completeness.PARTIAL
        assert report.status(key).missing == (unknown_update,)
    assert report["training_memory_parts"]["optimizer_state"] == 30 * 4


@pytest.mark.parametrize(
    ("name", "optimizer"), [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW"), ("adafactor", "Adafactor")]
)
def test_names_mean_what_torchs_classes_do(name: str, optimizer: str) -> None:
    """But for the counter of steps that torch keeps with each weight, four bytes."""
    weights = BACKEND.trace(weighted(), None).parameters
    counters = 0 if name == "sgd" else 4 * 4
    by_name, by_class = bytes_by_name(name, weights), optimizer_bytes(getattr(torch.optim, optimizer), weights)
    assert isinstance(by_name, OptimizerBytes)
    assert isinstance(by_class, OptimizerBytes)
    assert by_class.state == by_name.state + counters
    assert by_class.update >= by_name.update - 64, "torch has what is left of the weight before as well"


def test_the_state_is_added_to_the_peak() -> None:
    x, bytes_of_weights = ones(1, WIDTH), 2 * WEIGHT
    without = profile(two_layers(), x, metrics=["training_memory"])
    keys = ["training_memory", "training_memory_parts"]
    with_momentum = profile(two_layers(), x, metrics=keys, optimizer="momentum")
    parts = with_momentum["training_memory_parts"]
    assert with_momentum["training_memory"] - without["training_memory"] == bytes_of_weights
    assert parts["optimizer_state"] == bytes_of_weights
    assert sum(size for size in parts.values() if isinstance(size, int)) == with_momentum["training_memory"]
    assert (parts["layer"], parts["phase"]) == ("0", "backward")


def test_a_large_update_is_the_peak() -> None:
    """Adam has two copies of a weight then, and one of the weight before, which torch's loop lets go of late.

    Beside these there are state and gradients; of a small batch next to nothing is left.
    """
    keys, batch = ["training_memory", "training_memory_parts"], WIDTH * 4
    report = profile(two_layers(), ones(1, WIDTH), metrics=keys, optimizer="adam")
    parts = report["training_memory_parts"]
    assert parts["phase"] == "update"
    assert parts["gradients"] == parts["weights"] == 2 * WEIGHT
    assert (parts["optimizer_state"], parts["other"]) == (4 * WEIGHT, 3 * WEIGHT)
    assert sum(size for size in parts.values() if isinstance(size, int)) == report["training_memory"]
    assert report["training_memory"] == 11 * WEIGHT + 2 * batch, "input and output are there still"
    of_class = profile(two_layers(), ones(1, WIDTH), metrics=keys, optimizer=torch.optim.Adam)
    assert of_class["training_memory"] == pytest.approx(report["training_memory"], abs=64)
    for optimizer, whole in (("adam", report), (torch.optim.Adam, of_class)):  # the model is trained with all layers
        part = profile(two_layers(), ones(1, WIDTH), metrics=keys, optimizer=optimizer, ignore=["0"])
        assert {key: part[key] for key in keys} == {key: whole[key] for key in keys}


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_rows_is_copied_for_the_product_after_it(monkeypatch: pytest.MonkeyPatch, masked: bool) -> None:
    """CUDA's kernel for float32 puts the heads of a row side by side, the batch first; the layer has the batch second.

    A step keeps that copy of 3 x 32 x 64 numbers besides the output itself, and two integers of random numbers.
    """

    def predict(kernel: int) -> ModelTrace:
        monkeypatch.setattr(fused_attention, "choose_kernel", lambda *args, **kwargs: kernel)
        layer = nn.TransformerEncoderLayer(64, 4, 1024, dropout=0.0, batch_first=True).train()
        mask = nn.Transformer.generate_square_subsequent_mask(32) if masked else None
        return step(Call(lambda self, x: self.layer(x, mask), layer=layer), torch.randn(3, 32, 64))

    flash, rows = predict(1), predict(2)
    assert rows.memory.peak_bytes() - flash.memory.peak_bytes() == 3 * 32 * 64 * 4 + 2 * 8
    assert (rows.macs, rows.flops) == (flash.macs, flash.flops)


@pytest.mark.parametrize(("settings", "counts"), [({}, 0), ({"fused": True}, 1), ({"foreach": False}, 0)])
def test_what_an_optimizer_keeps_on_the_host_is_not_on_the_gpu(settings: dict[str, Any], counts: int) -> None:
    """Two values for each of 30 + 5 elements on the GPU; the number of steps is there for a fused kernel alone."""
    with FakeTensorMode():
        weights = [nn.Parameter(torch.empty(shape, device="cuda")) for shape in ((5, 6), (5,))]
        optimizer = torch.optim.AdamW(weights, **settings)
        expected = 2 * 4 * 35 + counts * 2 * 4
        before = optimizer_bytes(optimizer, describe(*weights))
        for weight in weights:
            weight.grad = torch.empty_like(weight)
        optimizer.step()
        after = optimizer_bytes(optimizer, describe(*weights))
    on_gpu = [value for kept in optimizer.state.values() for value in kept.values() if value.device.type == "cuda"]
    assert sum(value.nbytes for value in on_gpu) == expected
    assert isinstance(before, OptimizerBytes) and isinstance(after, OptimizerBytes)
    assert (before.state, after.state) == (expected, expected)


@pytest.mark.parametrize(
    ("device", "settings", "elements"),
    [
        ("cpu", {}, 2 * 30),  # the root of the mean, and that divided, of the larger weight
        ("cuda", {}, 30 + 5),  # the roots of all weights at once, divided in place
        ("cuda", {"foreach": False}, 2 * 30),
        ("cuda", {"lr": torch.tensor(0.1)}, 2 * 30),
        ("cuda", {"fused": True}, 0),
    ],
)
def test_an_update_on_a_gpu_takes_all_weights_at_once(device: str, settings: dict[str, Any], elements: int) -> None:
    with FakeTensorMode():
        weights = [nn.Parameter(torch.empty(shape, device=device)) for shape in ((5, 6), (5,))]
    optimizer = torch.optim.Adam(weights)
    optimizer.param_groups[0] |= settings
    found = optimizer_bytes(optimizer, describe(*weights))
    assert isinstance(found, OptimizerBytes)
    assert found.update == pytest.approx(4 * elements, abs=8)  # with a number or two


def test_weights_with_a_fused_kernel_take_nothing_beside_others_without() -> None:
    weights = [nn.Parameter(torch.empty(shape)) for shape in ((50, 60), (5,))]
    groups: list[dict[str, Any]] = [{"params": weights[:1], "fused": True}, {"params": weights[1:]}]
    optimizer = torch.optim.Adam(groups)
    found = optimizer_bytes(optimizer, describe(*weights))
    assert isinstance(found, OptimizerBytes)
    assert found.state == 2 * 4 * 3005 + 2 * 4
    assert found.update == pytest.approx(2 * 4 * 5, abs=8)
    assert [group["fused"] for group in optimizer.param_groups] == [True, None]


def test_frozen_weights_in_the_groups_of_an_optimizer_have_no_state() -> None:
    """Two values of 4 bytes for each of 3 x 2 trainable weights, and a step of 4 bytes; a real step makes as much."""
    model = nn.Sequential(nn.Linear(50, 3, bias=False).requires_grad_(False), nn.Linear(3, 2, bias=False))
    x = torch.ones(4, 50)
    optimizer = torch.optim.AdamW(model.parameters())
    report = profile(model, x, metrics=["training_memory_parts"], optimizer=optimizer)
    assert report["training_memory_parts"]["optimizer_state"] == 2 * 4 * 6 + 4
    model(x).sum().backward()
    optimizer.step()
    assert sum(value.nbytes for kept in optimizer.state.values() for value in kept.values()) == 2 * 4 * 6 + 4


@pytest.mark.parametrize("is_view", [False, True])
def test_the_buckets_of_data_parallel_are_named_with_their_bytes(is_view: bool) -> None:
    """One of two layers is trained: its gradient lies in a bucket beside it, unless it is a view of the bucket."""
    distributed = pytest.importorskip("torch.distributed")
    model = two_layers()
    model[0].requires_grad_(False)
    bare = step(model, ones(1, WIDTH)).memory
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = step(nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=is_view), ones(1, WIDTH))
    finally:
        distributed.destroy_process_group()
    assert wrapped.memory.parts == bare.parts
    assert (f"a second time in {WEIGHT} bytes of buckets" in " ".join(wrapped.notes)) is not is_view
