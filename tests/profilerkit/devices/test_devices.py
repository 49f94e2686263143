"""Devices by name, from files and folders; what a file may hold, and the messages for what it may not."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import profilerkit
from profilerkit.devices import FOLDERS, DeviceInfo, Figure, device, device_names, devices, dtype_name, read_device
from profilerkit.errors import ArgumentError, DeviceFileError, DeviceNotKnownError, RegistrationConflictError
from profilerkit.hooks.manager import forget_loaded, manager

TOY = """
name = "toy"
aliases = ["Toy 1 GB"]
memory_bandwidth = { value = 1e9, source = "https://toys.example/sheet" }

[dense_peaks]
bf16 = { value = 4e12, source = "https://toys.example/sheet", note = "half of 8e12" }
"""


def written(folder: Path, text: str = TOY, name: str = "toy.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_holds_a_device(tmp_path: Path) -> None:
    toy = read_device(written(tmp_path))
    assert (toy.name, toy.peak("bfloat16"), toy.peak("torch.bfloat16"), toy.bandwidth) == ("toy", 4e12, 4e12, 1e9)
    assert (toy.peak("float32"), toy.memory, toy.link, toy.launch_overhead) == (None, None, None, None)
    assert dict(toy.all_figures())["dense_peaks.bfloat16"].note == "half of 8e12"
    assert device(str(tmp_path / "toy.toml")) == toy
    assert pickle.loads(pickle.dumps(toy)) == toy


def test_a_folder_of_the_user_is_read_and_replaces_what_plugins_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    written(tmp_path, TOY.replace('"toy"', '"h100-sxm"').replace("Toy 1 GB", "other"), "mine.toml")
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    assert device("toy 1-gb").name == "toy"
    assert device("h100-sxm").peak("bf16") == 4e12
    assert device_names().count("h100-sxm") == 1


def test_two_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    written(tmp_path, name="again.toml")
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    with pytest.raises(
        RegistrationConflictError, match=f"two files in the folders of {FOLDERS} describe a device 'toy'"
    ):
        devices()


def test_a_device_has_its_name_also_beside_one_of_almost_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my-gpu", "my_gpu"):
        written(tmp_path, TOY.replace('"toy"', f'"{name}"').replace("Toy 1 GB", f"a title of {name}"), f"{name}.toml")
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    assert [device(name).name for name in ("my-gpu", "my_gpu")] == ["my-gpu", "my_gpu"]
    with pytest.raises(DeviceNotKnownError, match="'my gpu' may be each of these devices: my-gpu, my_gpu"):
        device("my gpu")


@pytest.mark.parametrize("again", ["", "/", "/../{name}"], ids=["same", "slash", "dots"])
def test_a_folder_that_is_named_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str) -> None:
    written(tmp_path)
    monkeypatch.setenv(FOLDERS, os.pathsep.join([str(tmp_path), f"{tmp_path}{again.format(name=tmp_path.name)}"]))
    assert device("toy").name == "toy"


def test_a_plugin_offers_devices() -> None:
    class Plugin:
        @profilerkit.hookimpl
        def profilerkit_devices(self) -> list[DeviceInfo]:
            return [DeviceInfo("abacus", dense_peaks={"int8": Figure(2.0, "counted")})]

    try:
        manager().register(Plugin(), "abacus")
        assert device("abacus").peak("int8") == 2.0
    finally:
        forget_loaded()


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(
        DeviceNotKnownError, match=r"no device 'h10-sxm'; the nearest of \d+ are: h100-sxm, .*; or give the path"
    ):
        device("h10-sxm")


def test_a_name_of_two_devices_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    written(tmp_path, TOY.replace('"toy"', '"toy-2"'), "second.toml")
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    with pytest.raises(
        DeviceNotKnownError, match="'toy 1 gb' may be each of these devices: toy, toy-2; give one of them"
    ):
        device("toy 1 gb")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 3", "name = 3: give a text"),
        ("name", "is no TOML"),
        (
            'name = "x"\nmemory_bandwith = 3',
            "'memory_bandwith' is no entry of a device; did you mean 'memory_bandwidth'",
        ),
        ('name = "x"\nmemory_bandwidth = 3e9', "memory_bandwidth = 3000000000.0: give a table"),
        ('name = "x"\nmemory_bandwidth = { value = 3e9 }', "give its value and the address it was read from"),
        ('name = "x"\nmemory_bandwidth = { value = 3e9, source = "" }', "has no source: give the address"),
        (
            'name = "x"\nmemory_bandwidth = { value = -1, source = "a" }',
            "value=-1: a figure of a device is a number above",
        ),
        ('name = "x"\naliases = "h"', "aliases='h': give a list of texts"),
        (
            'name = "x"\n[dense_peaks]\nbf61 = { value = 1, source = "a" }',
            "dtype='bf61' is no dtype of products; did you",
        ),
        (
            'name = "x"\n[dense_peaks]\nbf16 = {value = 2, source = "a"}\n'
            '[sparse_peaks]\nbf16 = {value = 1, source = "a"}',
            "dense peak of 2 FLOP/s for bfloat16, above its sparse one of 1: are the two exchanged",
        ),
        (
            'name = "x"\n[dense_peaks]\nfp16 = {value = 2, source = "a"}\nhalf = {value = 1, source = "a"}',
            "dense_peaks has two figures for float16; give one, under one name",
        ),
    ],
)
def test_what_a_file_may_not_hold(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DeviceFileError) as caught:
        read_device(written(tmp_path, text))
    assert message in str(caught.value)
    assert "toy.toml" in str(caught.value)


def test_a_folder_or_file_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceFileError, match="cannot read the device .*none.toml: No such file"):
        device(tmp_path / "none.toml")
    monkeypatch.setenv(FOLDERS, str(tmp_path / "none"))
    with pytest.raises(DeviceFileError, match="there is no folder of devices .*none; make it, or correct its name"):
        devices()


def test_names_of_dtypes() -> None:
    assert [dtype_name(name) for name in ("FP16", "torch.float8_e5m2", "double", "qint8")] == [
        "float16",
        "float8",
        "float64",
        "int8",
    ]
    with pytest.raises(ArgumentError, match="dtype='bool' is no dtype of products; .*there are: float64, float32"):
        dtype_name("bool")


@pytest.mark.parametrize("info", devices(), ids=lambda item: item.name)
def test_every_packaged_figure_has_an_address(info: DeviceInfo) -> None:
    figures = dict(info.all_figures())
    assert figures
    measured = ("measured by profilerkit calibrate",) if info.tier == "calibrated" else ()
    assert all(figure.source.startswith(("https://", *measured)) for figure in figures.values())
    for dtype, sparse in info.sparse_peaks.items():  # 2:4 sparsity doubles a rate at most
        dense = info.peak(dtype)
        assert dense is None or dense < sparse.value <= 2.01 * dense


@pytest.mark.parametrize("text", ["float8_e4m3fn", "torch.float8_e5m2fnuz", "fp8_e4m3", "f8_e4m3b11fnuz"])
def test_layouts_of_small_floats_are_read(text: str) -> None:
    assert dtype_name(text) == "float8"


@pytest.mark.parametrize("text", ["bf16_sparse", "sparse_bf16", "int8_2to4", "int16", "float8_sparse"])
def test_what_is_no_dtype_is_not_read_as_one(text: str) -> None:
    with pytest.raises(ArgumentError, match="is no dtype of products"):
        dtype_name(text)
