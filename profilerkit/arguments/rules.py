"""The rules of `profilerkit.arguments.checking`: for each argument, the values it may have and how they are read."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from .levels import logging_level

__all__ = ["MOST", "RULES", "SEVERAL", "Rule", "Several", "of_kind", "several"]

#: The largest whole number that is accepted: frameworks count samples and threads in 32 bits.
MOST = 2**31 - 1


@dataclass(frozen=True)
class Rule:
    """One argument's rule: ``expected`` describes a valid value, in words that follow "give" in an error message.

    ``read`` returns the plain value. For a value that breaks the rule it raises; any exception will do.
    """

    expected: str
    read: Callable[[Any], Any]
    optional: bool = False


@dataclass(frozen=True)
class Several:
    """An argument that may have several values, though most functions take one: ``argument`` names the one with all.

    ``unread`` is the error message for the case that no function takes all of them.
    """

    argument: str
    unread: str


# Single values --------------------------------------------------------------------------------------------------------


def _scalar(value: Any) -> Any:
    """Return a value that is a single number; raises `ValueError` for others, a bool (an int to Python) among them."""
    is_text = isinstance(value, (bool, str, bytes, bytearray, type))
    if is_text or tuple(getattr(value, "shape", ())) or "bool" in str(getattr(value, "dtype", "")):
        raise ValueError
    return value


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = operator.index(_scalar(value))
        if not least <= number <= MOST:
            raise ValueError
        return number

    return read


def _number(fits: Callable[[float], bool]) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        number = float(_scalar(value))
        if not (math.isfinite(number) and fits(number)):
            raise ValueError
        return value if type(value) in (int, float) else number

    return read


def _truth(value: Any) -> bool:
    if not isinstance(value, bool) and (str(getattr(value, "dtype", "")) not in _BOOLEANS or tuple(value.shape)):
        raise ValueError
    return bool(value)


#: The names of the Boolean dtype in numpy, torch and TensorFlow.
_BOOLEANS = ("bool", "torch.bool", "<dtype: 'bool'>")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _path(value: Any) -> Any:
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError
    return value


def _callable(value: Any) -> Any:
    if not callable(value):
        raise TypeError
    return value


def _device(value: Any) -> Any:
    if not (isinstance(value, (str, Enum)) or _is_called("device", value)):
        raise ValueError
    if isinstance(value, str) and value.lower() in ("cpu", "gpu"):
        return _kinds["device"](value.lower())
    return value


def _compile(value: Any) -> Any:
    return value if isinstance(value, (str, Mapping)) else _truth(value)


def _autocast(value: Any) -> Any:
    if isinstance(value, (str, type)) or _is_called("dtype", value):
        return value
    return _truth(value)


def _is_called(word: str, value: Any) -> bool:
    """Return whether the name of a value's class contains a word: each framework has its own devices and dtypes."""
    return not isinstance(value, type) and word in type(value).__name__.lower()


# Several values -------------------------------------------------------------------------------------------------------


def several(value: Any) -> list[Any]:
    """Return the elements of a collection; raises `ValueError` for a text, a mapping or a class."""
    if isinstance(value, (str, bytes, bytearray, Mapping, type)):
        raise ValueError
    return list(value)


def _batch_size(value: Any) -> Any:
    single = not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or getattr(value, "shape", None) == ()
    sizes = _one_size(value) if single else tuple(dict.fromkeys(map(_one_size, several(value))))
    if sizes == ():
        raise ArgumentError(f"batch_size is empty: give {_ONE_SIZE}, or several of them: batch_size=(1, 8, 32)")
    return sizes


def _batch_sizes(value: Any) -> tuple[int, ...]:
    sizes = tuple(dict.fromkeys(map(_one_size, several(value))))
    if not sizes:
        raise ValueError
    return sizes


def _one_size(value: Any) -> int:
    try:
        return _whole(1)(value)
    except MemoryError:
        raise
    except Exception:  # whatever the value is and does
        raise ArgumentError(f"batch_size={shown(value)}: give {_ONE_SIZE}") from None


def _ignored(value: Any) -> Any:
    layers = [value] if isinstance(value, (type, str)) else several(value)
    for layer in layers:
        if not (isinstance(layer, type) or (isinstance(layer, str) and layer)):
            raise ArgumentError(f"ignore has {shown(layer)}; give {RULES['ignore'].expected}")
    return layers


def _steps(value: Any) -> tuple[int, ...]:
    """Return step numbers in ascending order, each once."""
    read = _whole(0)
    single = not isinstance(value, Iterable) or getattr(value, "shape", None) == ()
    return tuple(sorted({read(step) for step in ([value] if single else several(value))}))


def _names(value: Any) -> list[str]:
    return [_text(name) for name in several(value)]


def _splits(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError
    return value


def _percentiles(value: Any) -> tuple[float, ...]:
    return tuple(map(_number(lambda number: 0 <= number <= 100), several(value)))


def _columns(value: Any) -> Any:
    return value if isinstance(value, str) else tuple(map(_text, several(value)))


def of_kind(name: str, kind: type) -> None:
    """Set the class that an argument's rule requires; the module of the class calls this, since it imports this one."""
    _kinds[name] = kind


_kinds: dict[str, type] = {}


def _instance(kind: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, _kinds[kind]):
            raise TypeError
        return value

    return read


def _backend(value: Any) -> Any:
    if not isinstance(value, (_kinds["backend"], str)):
        raise TypeError
    return value


def _by_name(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _print_mode(value: Any) -> Any:
    logging_level(value)
    return value


def _amount(value: Any) -> Any:
    return value if isinstance(value, _kinds["reference"]) else float(_scalar(value))


def _metrics(value: Any) -> tuple[Any, ...]:
    if not all(isinstance(getattr(each, "NAME", None), str) for each in several(value)):
        raise TypeError
    return tuple(value)


def _loader(value: Any) -> Any:
    if isinstance(value, (str, bytes, type)) or not (isinstance(value, Iterable) or hasattr(value, "__getitem__")):
        raise TypeError
    return value


def _guesses(value: Any) -> tuple[int, ...]:
    single = isinstance(value, int) or getattr(value, "shape", None) == ()
    guesses = tuple(map(_whole(1), [value] if single else several(value)))
    if not guesses:
        raise ValueError
    return guesses


def _modules(value: Any) -> tuple[str, ...]:
    return tuple(_names(value))


def _samples(value: Any) -> tuple[float, ...]:
    """Return samples; raises `ValueError` if one is NaN. A rate whose time was zero is infinite, and is accepted."""
    samples = value if type(value) is tuple else tuple(several(value))
    if not {float, int}.issuperset(map(type, samples)):
        samples = tuple(float(_scalar(sample)) for sample in samples)
    if any(map(math.isnan, samples)):
        raise ValueError
    return samples


_ONE_SIZE = "a whole number from 1"
_LAYERS = 'classes of layers, their names or patterns of paths: ignore=[nn.Dropout, "Conv2d", "encoder.layers.*"]'
_SOME = "a number above zero, such as {}"
_TRUTH = Rule("True or False", _truth)
_COUNT = Rule(_ONE_SIZE, _whole(1))

#: The rule of each argument, by its name. A name means the same in every function that takes it, also in plugins.
RULES: dict[str, Rule] = {
    # The inputs of the model, and its device.
    "batch_size of one": Rule(_ONE_SIZE, _one_size),
    "batch_size": Rule("a whole number from 1, or several: batch_size=(1, 8, 32)", _batch_size, optional=True),
    "batch_sizes": Rule("whole numbers from 1: batch_sizes=(1, 8, 32)", _batch_sizes),
    "device": Rule("Device.CPU, Device.GPU or the framework's own name, such as 'cuda:1'", _device, optional=True),
    "split": Rule("the name of a data split, such as 'test'", _text, optional=True),
    "data_splits": Rule("loaders by name: data_splits={'train': loader}", _splits),
    "secondary": Rule("metrics of further entries: secondary=[DynamicEvalMetric('top-5')]", _metrics),
    "transform": Rule("a function of inputs and targets that returns both", _callable, optional=True),
    "loss_fn": Rule("a function of outputs and targets", _callable),
    "data_loader": Rule("a loader: an iterable of batches, with at least one sample", _loader),
    "topk": Rule("a number of guesses from 1, or several such as (1, 5)", _guesses),
    "threshold": Rule("a number to compare a single score with", _number(lambda number: True), optional=True),
    "func": Rule("a function of the model and the data", _callable),
    "call": Rule(
        "a function of the model and its inputs, such as lambda model, x: model.f(x)", _callable, optional=True
    ),
    "ignore": Rule(_LAYERS, _ignored),
    # How it is run.
    "mode": Rule("the name of one of the backend's modes, such as 'eager'", _text, optional=True),
    "training": _TRUTH,
    "compile": Rule(
        "True, the name of a compiler such as 'inductor', or a mapping of arguments", _compile, optional=True
    ),
    "autocast": Rule("True, or a dtype such as torch.bfloat16 or 'bfloat16'", _autocast, optional=True),
    "num_threads": Rule("a whole number from 1, or None to leave them as they are", _whole(1), optional=True),
    "run_options": Rule("an instance of RunOptions, or its arguments by name: compile=True", _instance("run_options")),
    "watched": Rule(
        "the steps of a training loop, which Profiler.watch gives to functions", _instance("watched"), optional=True
    ),
    # How often, and how long.
    "sampling": Rule("an instance of Sampling, or its arguments by name: num_iters=20", _instance("sampling")),
    "num_iters": Rule("a whole number from 1: at least one iteration is needed to measure", _whole(1), optional=True),
    "min_samples": Rule("a whole number from 1: at least one sample is needed to measure anything", _whole(1)),
    "warmup": Rule("zero or more calls, or None to let the times settle", _whole(0), optional=True),
    "drop_first": Rule("zero or more calls, or None to let the times settle", _whole(0), optional=True),
    "relative_precision": Rule(_SOME.format("0.02 for 2 %"), _number(lambda number: number > 0)),
    "max_seconds": Rule(_SOME.format("1.5"), _number(lambda number: number > 0)),
    "confidence": Rule("a probability between 0 and 1, such as 0.95", _number(lambda number: 0 < number < 1)),
    "passes": _COUNT,
    "retries": Rule("how often to measure again, zero or more times, such as 2", _whole(0)),
    "keep": Rule("a whole number from 1: at least one pass must be kept to tell its times", _whole(1)),
    "backward": _TRUTH,
    "at_step": Rule(
        "the number of a step, counted from 0, or several: at_step=(5, 6, 7); None to use start() and stop()",
        _steps,
        optional=True,
    ),
    "include_weights": _TRUTH,
    "expecting_common_inputs": _TRUTH,
    "export": Rule("the path of a file to write to", _path, optional=True),
    # What is computed, and under which name.
    "strict": _TRUTH,
    "trust": _TRUTH,
    "timeout": Rule("a number of seconds above zero, such as 30", _number(lambda number: number > 0)),
    "max_threads": _COUNT,
    "start_method": Rule("one of 'spawn', 'forkserver' and 'fork'", _text),
    "preload": Rule("names of modules: preload=['torch']", _modules),
    "key": Rule("the name of an entry, such as 'top-5'", _text),
    "recompute": _TRUTH,
    "override": _TRUTH,
    "on_demand": _TRUTH,
    "formulas": Rule("a mapping from operators or classes of modules to formulas", _by_name),
    "name": Rule("a text that is not empty", _text, optional=True),
    "static": _TRUTH,
    "names": Rule("a list of texts, one for each model", _names, optional=True),
    "samples": Rule("numbers in the base unit, none of which is NaN", _samples),
    "percentiles": Rule("numbers from 0 to 100: percentiles=(90, 99)", _percentiles),
    "percent": Rule("a number from 0 to 100", _number(lambda number: 0 <= number <= 100)),
    "backend": Rule("an instance of a Backend, or the name of one", _backend, optional=True),
    "status_dict": Rule("values by name: {'macs': 100}", _by_name),
    "reference": Rule("a number or a Measurement", _amount),
    "spec": Rule("a text that says where a model is, such as 'package.module:name'", _text),
    "other": Rule("another Profiler to compare with", _instance("other")),
    # How it is shown.
    "print_mode": Rule("a level of logging, such as 'info'", _print_mode, optional=True),
    "short_print": _TRUTH,
    "details": _TRUTH,
    "changes": _TRUTH,
    "types": _TRUTH,
    "color": _TRUTH,
    "configuration": _TRUTH,
    "depth": Rule(
        "a whole number from 0, -1 for the innermost layers, or None for any depth", _whole(-1), optional=True
    ),
    "top": Rule("a whole number from 1, or None for all layers", _whole(1), optional=True),
    "k": Rule("a whole number from 0", _whole(0)),
    "by": Rule("the name of a column, such as 'macs', or several", _columns, optional=True),
    "metric": Rule("the name of a metric, such as 'execution_time'", _text),
    "kind": Rule("the name of a kind of figure, such as 'icicle'", _text),
    "form": Rule("the name of a renderer, such as 'console'", _text),
    "flops_per_second": Rule(_SOME.format("67e12"), _number(lambda number: number > 0)),
    "bytes_per_second": Rule(_SOME.format("3.35e12"), _number(lambda number: number > 0)),
    "path": Rule("the path of a file", _path),
}

#: The arguments that may have several values, by name; functions get the first value.
SEVERAL: dict[str, Several] = {
    "batch_size": Several(
        "batch_sizes",
        "several batch sizes are for the status key 'batch_sweep', which no registered function computes; register "
        "ComputeBatchSweep(), or give one batch size",
    )
}
