"""Models that something has been made of: quantised, scripted, traced, compiled, exported, spread; and transformers."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .subjects import Subject, subject, x

__all__: list[str] = []


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4))


def quiet(make: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args, **kwargs)


@subject
def quantised_dynamically() -> nn.Module:
    model: nn.Module = quiet(torch.ao.quantization.quantize_dynamic, layers().eval(), {nn.Linear}, torch.qint8)
    return model


@subject
def quantised_statically() -> nn.Module:
    ao = torch.ao.quantization
    model: Any = nn.Sequential(ao.QuantStub(), nn.Linear(4, 4), nn.ReLU(), ao.DeQuantStub()).eval()
    model.qconfig = ao.get_default_qconfig("x86")
    quiet(ao.prepare, model, inplace=True)
    model(x())
    converted: nn.Module = quiet(ao.convert, model)
    return converted


@subject
def observed_for_quantisation() -> nn.Module:
    ao = torch.ao.quantization
    model: Any = nn.Sequential(ao.QuantStub(), nn.Linear(4, 4), ao.DeQuantStub()).train()
    model.qconfig = ao.get_default_qat_qconfig("x86")
    prepared: nn.Module = quiet(ao.prepare_qat, model)
    return prepared


@subject
def scripted() -> nn.Module:
    model: nn.Module = quiet(torch.jit.script, layers())
    return model


@subject
def script_inside() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), quiet(torch.jit.script, layers()), nn.Dropout())


@subject
def compiled() -> nn.Module:
    torch._dynamo.reset()
    model: Any = torch.compile(layers(), backend="eager")
    return model  # type: ignore[no-any-return]


@subject
def compiled_in_place() -> nn.Module:
    torch._dynamo.reset()
    model = layers()
    model.compile(backend="eager")
    return model


@subject
def exported() -> Subject:
    program = torch.export.export(layers().eval(), (x(),))
    return Program(program, (x(),), watched=(program.state_dict, program.constants))


class Program(Subject):
    """A program is called through its module."""

    def __call__(self) -> Any:
        return self.model.module()(*self.args)


def _store() -> Any:
    return getattr(dist, "HashStore")()  # noqa: B009 - type checkers do not see it


def _group() -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=_store(), rank=0, world_size=1)


@subject
def distributed_data_parallel() -> Subject:
    _group()
    model = nn.parallel.DistributedDataParallel(layers())
    return Subject(model, (x(),), close=dist.destroy_process_group)


@subject
def fully_sharded() -> Subject:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    _group()
    mesh = init_device_mesh("cpu", (1,))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return Subject(model, (x(),), close=dist.destroy_process_group)


if importlib.util.find_spec("transformers"):

    def _transformer(name: str, **options: Any) -> Subject:
        import transformers

        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 32}
        config = transformers.AutoConfig.for_model(name, **{**sizes, **options})
        model = quiet(transformers.AutoModel.from_config, config)
        return Subject(model, (), {"input_ids": torch.arange(8).view(2, 4)})

    @subject
    def transformers_llama() -> Subject:
        return _transformer("llama", intermediate_size=32, num_key_value_heads=1)
