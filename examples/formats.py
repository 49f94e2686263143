"""One network, six formats: trained in PyTorch, converted to ONNX and OpenVINO, rebuilt in Keras and Flax, and LiteRT.

``python examples/formats.py`` trains the student of ``digits.py``, prints one comparison and writes it as a page;
``python examples/formats.py teacher`` does so with the teacher, a ResNet with batch norms. Both exporters of PyTorch
are used, and each graph stands beside the one that onnxruntime makes of it before it runs. The file of LiteRT is
converted from the network in Keras.
"""

import argparse
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import digits
import profilerkit_torch
from profilerkit import Comparison, Profiler, compare
from profilerkit.render import render
from profilerkit_torch import ComputeEvalMetric, TorchProfiler
from same_weights import copy_to_flax, copy_to_keras

#: How far onnxruntime rewrites a graph "as run". One level more makes layouts that depend on the processor.
LEVEL = "extended"
#: What each format needs, and the extra that installs it.
NEEDS = {
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "tensorflow": ("tensorflow",),
    "jax": ("jax", "flax"),
    "openvino": ("openvino",),
    "tensorflow,litert": ("tensorflow", "ai_edge_litert"),
}
IMAGE = (1, 32, 32)


class Form(NamedTuple):
    """The network in one format.

    Attributes:
        model: The model.
        profiler_class: The profiler for it.
        accuracy: The evaluation function for it.
        channels_last: Whether its images have the channels last.
    """

    model: Any
    profiler_class: type[Profiler]
    accuracy: Callable[..., Any]
    channels_last: bool = False


def main(arguments: Iterable[str] | None = None) -> Comparison:
    """Train the network, print the comparison with the layers side by side, and write the page."""
    parser = argparse.ArgumentParser(description="One network in six formats, compared.")
    parser.add_argument("role", nargs="?", default="student", choices=("student", "teacher"), help="which network")
    parser.add_argument("--page", type=Path, default=Path("formats.html"), help="where the page is written")
    options = parser.parse_args(None if arguments is None else list(arguments))
    splits = digits.load_digits_splits()
    with tempfile.TemporaryDirectory() as folder, one_thread():
        network = train_network(options.role, splits["train"])
        comparison = compare_forms(build_forms(network, options.role, Path(folder)), splits["test"])
    print(render(comparison, depth=9))
    options.page.write_text(render(comparison, "html"), encoding="utf-8")
    print(f"\nThe page: {options.page}")
    return comparison


def train_network(role: str, batches: digits.Batches) -> nn.Module:
    """Return the student or the teacher, trained; batch norms and all else are as for inference."""
    network = digits.digits_student() if role == "student" else digits.digits_teacher()
    digits.train(network, batches, epochs=5, lr=3e-3 if role == "student" else 1e-3)
    return network


def compare_forms(forms: Mapping[str, Form], test: digits.Batches, **arguments: Any) -> Comparison:
    """Compare the network in all formats, PyTorch's the reference: costs, times, and accuracy on the test images."""
    channels_first = {"test": [(images.numpy(), labels.numpy()) for images, labels in test]}
    channels_last = {"test": [(images.transpose(0, 2, 3, 1), labels) for images, labels in channels_first["test"]]}
    profilers = []
    for name, form in forms.items():
        batches = form.profiler_class.enable_forward_pass_data_splits(
            channels_last if form.channels_last else channels_first
        )
        profiler = form.profiler_class(form.model, batches, name=name)
        profiler.register_profiler_function(ComputeEvalMetric(form.accuracy, "accuracy", unit_name="%"))
        profilers.append(profiler.register_defaults())
    return compare(*profilers, **arguments)


def build_forms(network: nn.Module, role: str, folder: Path) -> dict[str, Form]:
    """Return a trained network in every format whose packages are installed; the exported files are in the folder."""
    forms = {"PyTorch": Form(network, TorchProfiler, profilerkit_torch.get_accuracy)}
    builders = dict(zip(NEEDS, (onnx_forms, keras_forms, flax_forms, openvino_forms, litert_forms), strict=True))
    for extra, build in builders.items():
        missing = [package for package in NEEDS[extra] if find_spec(package) is None]
        if missing:
            print(f"Without {', '.join(missing)}; for it too: {sys.executable} -m pip install '.[{extra}]'")
        else:
            forms.update(build(network, role, folder))
    return forms


def onnx_forms(network: nn.Module, role: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Yield what each of PyTorch's exporters writes, and what onnxruntime makes of it."""
    from profilerkit_onnx import OnnxProfiler, get_accuracy, optimize

    images = torch.zeros(2, *IMAGE)
    names: dict[str, Any] = {"input_names": ["images"], "output_names": ["logits"]}
    by_script, by_dynamo = folder / "script.onnx", folder / "dynamo.onnx"
    with quiet_exports():
        axes = {"images": {0: "batch"}, "logits": {0: "batch"}}
        torch.onnx.export(network, (images,), by_script, dynamo=False, dynamic_axes=axes, **names)
        batch = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(
            network,
            (images,),
            by_dynamo,
            dynamo=True,
            dynamic_shapes=batch,
            external_data=False,
            verbose=False,
            **names,
        )
    for name, path in {"Script": by_script, "Dynamo": by_dynamo}.items():
        yield f"{name} ONNX", Form(str(path), OnnxProfiler, get_accuracy)
        yield f"{name} as run", Form(optimize(path, LEVEL), OnnxProfiler, get_accuracy)


def keras_forms(network: nn.Module, role: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Yield the twin in Keras, with the weights of the network."""
    from profilerkit_tensorflow import TFProfiler, get_accuracy

    yield "Keras", Form(make_keras_twin(network, role), TFProfiler, get_accuracy, channels_last=True)


def make_keras_twin(network: nn.Module, role: str) -> Any:
    """Return the network in Keras, with the same weights."""
    import keras_digits

    twin = keras_digits.digits_student() if role == "student" else keras_digits.digits_teacher()
    return copy_to_keras(network, twin)


def flax_forms(network: nn.Module, role: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Yield the twin in Flax, with the weights of the network."""
    import flax_models
    from profilerkit_jax import JaxProfiler, get_accuracy

    twin = flax_models.lenet5() if role == "student" else flax_models.resnet18(10, 1, width=32, blocks=(1, 1, 1))
    yield "Flax", Form(copy_to_flax(network, twin), JaxProfiler, get_accuracy, channels_last=True)


def openvino_forms(network: nn.Module, role: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Yield what OpenVINO's converter writes; unless it is told otherwise, it stores weights as float16."""
    import openvino

    from profilerkit_openvino import OpenvinoProfiler, get_accuracy

    path = folder / "net.xml"
    model = openvino.convert_model(network, input=[-1, *IMAGE], example_input=torch.zeros(2, *IMAGE))
    openvino.save_model(model, path, compress_to_fp16=False)
    yield "OpenVINO", Form(str(path), OpenvinoProfiler, get_accuracy)


def litert_forms(network: nn.Module, role: str, folder: Path) -> Iterator[tuple[str, Form]]:
    """Yield what TensorFlow's converter writes of the twin in Keras."""
    from profilerkit_litert import LiteRTProfiler, get_accuracy

    path = folder / "net.tflite"
    path.write_bytes(convert_to_litert(make_keras_twin(network, role)))
    yield "LiteRT", Form(str(path), LiteRTProfiler, get_accuracy, channels_last=True)


def convert_to_litert(twin: Any, **settings: Any) -> bytes:
    """Return the file of LiteRT for a Keras model; ``settings`` are attributes of the converter."""
    import tensorflow as tf

    from keras_digits import quiet_stderr

    converter = tf.lite.TFLiteConverter.from_keras_model(twin)
    for name, value in settings.items():
        setattr(converter, name, value)
    with quiet_stderr(), redirect_stdout(StringIO()):
        content: bytes = converter.convert()
    return content


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: images of 32 x 32 give a second one nothing to do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def quiet_exports() -> Iterator[None]:
    """Drop what the exporters warn of and log: the older one is deprecated, the newer one looks for torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


if __name__ == "__main__":
    main()
