"""A profiler of a path notices that the file was overwritten, and reads it again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profilerkit import InputError, Profiler, ProfilerFunction, StatusKey, compare

Writer = Callable[[Path, int], None]


def _onnx(path: Path, width: int) -> None:
    """Write a product of 8 by ``width`` numbers."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        f"Net{width}",
        [helper.make_tensor_value_info("x", kind, [2, 8])],
        [helper.make_tensor_value_info("y", kind, [2, width])],
        [onnx.numpy_helper.from_array(np.zeros((8, width), "float32"), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def _keras(path: Path, width: int) -> None:
    keras = _keras_itself()
    layers = [keras.Input((8,), batch_size=2), keras.layers.Dense(width, use_bias=False)]
    keras.Sequential(layers, name=f"net{width}").save(path)


def _save_model(path: Path, width: int) -> None:
    keras = _keras_itself()
    shutil.rmtree(path, ignore_errors=True)
    keras.Sequential([keras.Input((8,), batch_size=2), keras.layers.Dense(width, use_bias=False)]).export(
        path, verbose=False
    )


def _keras_itself() -> Any:
    pytest.importorskip("tensorflow")
    return pytest.importorskip("keras")


#: The name of the file, what writes it, and the backend, if the name does not tell it.
FILES: dict[str, tuple[Writer, str | None]] = {
    "net.onnx": (_onnx, None),
    "net.keras": (_keras, "tensorflow"),
    "net.h5": (_keras, "tensorflow"),
    "net": (_save_model, "tensorflow"),
}


def count_macs(profiler: Profiler) -> Any:
    return profiler.compute_status("macs")


def make_profiler(path: Path, backend: str | None) -> Profiler:
    return Profiler(str(path), inputs=np.zeros((2, 8), "float32"), backend=backend).register_defaults()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FILES)
def test_an_overwritten_file_is_read_again(name: str, tmp_path: Path) -> None:
    write, backend = FILES[name]
    path = tmp_path / name
    write(path, 3)
    profiler = make_profiler(path, backend)
    assert count_macs(profiler) == 2 * 8 * 3
    model = profiler.model
    assert count_macs(profiler) == 2 * 8 * 3
    assert profiler.model is model  # nothing has changed, so nothing was read
    write(path, 5)
    assert count_macs(profiler) == 2 * 8 * 5
    assert profiler.compute_status("total_params") == 8 * 5
    assert count_macs(profiler.clone()) == 2 * 8 * 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    _onnx(path, 3)
    return path


def test_a_file_of_the_same_size_and_time_in_its_place_is_noticed(path: Path) -> None:
    """Its inode is another one."""
    profiler = make_profiler(path, None)
    assert profiler.compute_status("sparsity") == 1
    before, other = path.stat(), path.with_name("other.onnx")
    content = path.read_bytes()
    assert content.count(np.float32(0).tobytes() * 24) == 1
    other.write_bytes(content.replace(np.float32(0).tobytes() * 24, np.float32(1).tobytes() * 24))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert profiler.compute_status("sparsity") == 0


def test_the_name_and_the_report_are_those_of_the_new_model(path: Path) -> None:
    profiler, named = make_profiler(path, None), Profiler(path, name="mine").register_defaults()
    assert (profiler.name, named.name) == ("Net3", "mine")
    _onnx(path, 5)
    report = compute_report(profiler)
    assert (report.name, report["macs"]) == ("Net5", 2 * 8 * 5)
    assert count_macs(named) == 2 * 8 * 5
    assert named.name == "mine"


def compute_report(profiler: Profiler) -> Any:
    profiler.compute(["macs"])
    return profiler.report(["macs"])


def test_a_comparison_reads_the_files_again(path: Path) -> None:
    one, other = make_profiler(path, None), make_profiler(path, None)
    _onnx(path, 6)
    comparison = compare(one, other, metrics=["macs"])
    assert [report["macs"] for report in comparison.reports] == [2 * 8 * 6] * 2


def test_a_file_that_is_gone_leaves_the_model_that_was_read(path: Path) -> None:
    profiler = make_profiler(path, None)
    path.unlink()
    assert count_macs(profiler) == 2 * 8 * 3
    _onnx(path, 5)
    assert count_macs(profiler) == 2 * 8 * 5


def test_a_damaged_file_raises_until_it_is_whole_again(path: Path) -> None:
    profiler = make_profiler(path, None)
    assert count_macs(profiler) == 2 * 8 * 3
    path.write_bytes(b"half of a model")
    with pytest.raises(InputError, match=r"net\.onnx' is no ONNX model"):
        count_macs(profiler)
    _onnx(path, 5)
    assert count_macs(profiler) == 2 * 8 * 5


def test_a_relative_path_is_the_same_file_from_another_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    profiler = Profiler(path.name, inputs=np.zeros((2, 8), "float32")).register_defaults()
    monkeypatch.chdir("/")
    _onnx(path, 5)
    assert count_macs(profiler) == 2 * 8 * 5


def test_a_model_that_was_assigned_stays(path: Path) -> None:
    profiler = make_profiler(path, None)
    _onnx(path, 5)
    profiler.model = Profiler(path).model
    _onnx(path, 7)
    assert count_macs(profiler) == 2 * 8 * 5


def test_within_one_request_the_model_stays(path: Path) -> None:
    """A function that asks the profiler for more gets values of the model that it was called for."""
    profiler = make_profiler(path, None)

    class Asked(StatusKey):
        NAME = "asked"

    class Overwriting(ProfilerFunction):
        KEYS = (Asked,)

        def __call__(self, profiler: Profiler) -> int:
            _onnx(path, 5)
            return int(profiler.compute_status("macs"))

    profiler.register_profiler_function(Overwriting())
    assert profiler.compute_status("asked") == 2 * 8 * 3
    assert count_macs(profiler) == 2 * 8 * 5


def test_compared_paths_are_read_at_each_call(path: Path) -> None:
    for width in (3, 5):
        _onnx(path, width)
        comparison = compare(str(path), str(path), metrics=["macs"], names=("a", "b"))
        assert [report["macs"] for report in comparison.reports] == [2 * 8 * width] * 2


def test_a_link_to_another_file_is_noticed(path: Path) -> None:
    link, newer = path.with_name("latest.onnx"), path.with_name("newer.onnx")
    _onnx(newer, 5)
    link.symlink_to(path)
    profiler = make_profiler(link, None)
    assert count_macs(profiler) == 2 * 8 * 3
    link.unlink()
    link.symlink_to(newer)
    assert count_macs(profiler) == 2 * 8 * 5
