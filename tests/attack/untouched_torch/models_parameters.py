"""Models by what their parameters and buffers are."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from .subjects import Subject, subject, x

__all__: list[str] = []


@subject
def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(8, 3))


@subject
def recurrent() -> Subject:
    return Subject(nn.LSTM(4, 4, batch_first=True, dropout=0.1, num_layers=2), (x(2, 3, 4),))


@subject
def attention() -> Subject:
    return Subject(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (x(2, 3, 8),))


@subject
def spectral_norm() -> nn.Module:
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU())


@subject
def spectral_norm_by_hooks() -> nn.Module:
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)))


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).mT


@subject
def custom_parametrization() -> nn.Module:
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return nn.Sequential(layer)


@subject
def pruned() -> nn.Module:
    from torch.nn.utils import prune

    return nn.Sequential(prune.random_unstructured(nn.Linear(4, 4), "weight", 0.5))


@subject
def tied_parameters() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


@subject
def views_of_one_storage() -> nn.Module:
    whole = torch.randn(40)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for index, layer in enumerate(model):
        layer.weight = nn.Parameter(whole[20 * index : 20 * index + 16].view(4, 4))
        layer.bias = nn.Parameter(whole[20 * index + 16 : 20 * index + 20])
    return model


@subject
def strided_parameters() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight = nn.Parameter(torch.randn(4, 8).t()[::2])
    model[1].bias = nn.Parameter(torch.randn(1).expand(4))
    return model


@subject
def user_attributes_on_parameters() -> nn.Module:
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight.is_shared, model[0].weight.optimizer = True, {"lr": 0.1, "moments": [torch.zeros(4)]}
    model[1].bias.owner = model
    return model  # type: ignore[no-any-return]


@subject
def wrapper_subclass_parameters() -> nn.Module:
    from torch.testing._internal.two_tensor import TwoTensor

    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(TwoTensor(torch.randn(4, 4), torch.randn(4, 4)))
    return nn.Sequential(layer)


@subject
def complex_parameters() -> Subject:
    return Subject(nn.Linear(4, 3, dtype=torch.complex64), (x(2, 4, dtype=torch.complex64),))


class Integers(nn.Module):
    scratch: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(16, dtype=torch.int8).view(4, 4), requires_grad=False)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.nothing = nn.Parameter(torch.empty(0, 4))
        self.register_parameter("bias", None)
        self.register_buffer("missing", None)
        self.register_buffer("scratch", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight * self.scale).t() + self.scratch


@subject
def integer_none_and_empty_parameters() -> nn.Module:
    return Integers()


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4).to_sparse())
        self.register_buffer("edges", torch.eye(4).to_sparse())
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(torch.sparse.mm(self.edges, torch.sparse.mm(self.weight, x)))
        return out


@subject
def sparse_parameters() -> Subject:
    return Subject(Graph(), (x(4, 2),))


@subject
def on_the_meta_device() -> Subject:
    return Subject(nn.Sequential(nn.Linear(4, 4, device="meta"), nn.ReLU()), (x(2, 4, device="meta"),))


@subject
def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Linear(4, 2))


@subject
def gradients_and_frozen_weights() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    model[0].weight.grad = torch.full((4, 4), 2.0)
    model[2].requires_grad_(False)
    model[1].eval()  # frozen statistics in a model that is trained
    return model.train()


@subject
def made_in_inference_mode() -> Subject:
    with torch.inference_mode():
        return Subject(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval(), (torch.randn(2, 4),))


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.several = nn.ParameterList([nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))])
        self.named = nn.ParameterDict({"a-b": torch.randn(4), "ü": nn.Parameter(torch.randn(4))})
        self.layers = nn.ModuleDict({"forward pass": nn.Linear(4, 4), "0": nn.ReLU(), "last": nn.Identity()})
        self.again = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (*self.layers.values(), *self.again):
            x = layer(x)
        out: torch.Tensor = sum(self.several, x) * self.named["a-b"] + self.named["ü"]
        return out


@subject
def lists_and_odd_names() -> nn.Module:
    model = Listed()
    model.layers._modules["a.b"] = model.layers._modules.pop("last")  # as no dict of modules would take it
    return model


@subject
def nested_200_deep() -> nn.Module:
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(200):
        model = nn.Sequential(model)
    return model


@subject
def several_inputs_and_outputs() -> Subject:
    shared = x()
    return Subject(Pairs(), (shared, {"mask": torch.ones(2, 4, dtype=torch.bool)}), {"others": [shared, None]})


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, options: Any, others: Any) -> Any:
        y = self.linear(x).masked_fill(~options["mask"], 0.0)
        return {"y": y, "both": (y, others[0] * 2), "none": None}
