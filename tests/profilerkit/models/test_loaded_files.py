"""Files that models are loaded from: each has modules of its own, and the caller's are what they were."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest
from time_limits import join, run_python

from profilerkit import InputError, ModelFailedError
from profilerkit.models.loaded_files import in_plain_names
from profilerkit.models.loaders import load_model


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


@contextmanager
def expect_unchanged(folder: Path) -> Iterator[None]:
    """Hold the path and the modules to what they were; modules from elsewhere than the folder may be imported."""
    path, entries, modules = sys.path, list(sys.path), dict(sys.modules)
    try:
        yield
    finally:
        assert sys.path is path
        assert sys.path == entries
        now = dict(sys.modules)
        assert {name: module for name, module in now.items() if name in modules} == modules
        new = {name: getattr(now[name], "__file__", None) for name in now.keys() - modules.keys()}
        own = [name for name, file in new.items() if (file or "").startswith(str(folder))]
        assert [name for name in own if not name.startswith("profilerkit.models.loaded_files.")] == []


def load(spec: object, folder: Path) -> Any:
    """Return what a text leads to, and hold the caller's process to what it was."""
    with expect_unchanged(folder):
        return load_model(str(spec))


#: How a file can come by the ``WIDTH`` of its folder's helper: the file, and what else is in the folder.
WAYS = {
    "at the top": {"net": "from helper import WIDTH\ndef build(): return lambda: WIDTH"},
    "in the builder": {"net": "def build():\n    import helper\n    return lambda: helper.WIDTH"},
    "when it is called": {
        "net": "def build():\n    def f():\n        import helper\n        return helper.WIDTH\n    return f"
    },
    "by a helper, when it is called": {
        "net": "import layers\ndef build(): return layers.forward",
        "layers": "def forward():\n    from helper import WIDTH\n    return WIDTH",
    },
    "from a package": {
        "net": "from parts.sizes import WIDTH\ndef build(): return lambda: WIDTH",
        "parts__in____init__": "",
        "parts__in__sizes": "from . import inner\nfrom .inner import *\nfrom helper import WIDTH",
        "parts__in__inner": "import parts.sizes",
    },
    "from a folder that is no package": {
        "net": "import parts.sizes\ndef build(): return lambda: parts.sizes.WIDTH",
        "parts__in__sizes": "from helper import WIDTH",
    },
    "relatively": {"net": "from .helper import WIDTH\nfrom . import helper\ndef build(): return lambda: helper.WIDTH"},
    "by importlib": {
        "net": "import importlib\ndef build():\n    found = importlib.import_module('helper')\n"
        "    return lambda: found.WIDTH"
    },
    "by importlib, at the top": {
        "net": "from importlib import import_module\nh = import_module('parts.sizes')\nimport parts.sizes\n"
        "assert h is parts.sizes\ndef build(): return lambda: h.WIDTH",
        "parts__in__sizes": "from helper import WIDTH",
    },
    "by __import__": {"net": "def build(): return lambda: __import__('helper').WIDTH"},
    "by what a library imports": {
        "net": "import pickle\nimport helper\n"
        "def build():\n    found = pickle.loads(b'chelper\\nNumber\\n.')\n    assert found is helper.Number\n"
        "    return lambda: found.width"
    },
    "from a folder that it puts on the path": {
        "net": "import sys, os\nsys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))\n"
        "from sizes import WIDTH\ndef build():\n    def forward():\n        import later\n        return later.WIDTH\n"
        "    return forward",
        "lib__in__sizes": "from helper import WIDTH",
        "lib__in__later": "from helper import WIDTH",
    },
    "in a circle": {
        "net": "WIDTHS = []\nimport helper, circle\ndef build(): return lambda: circle.net.helper.WIDTH",
        "circle": "import net\nnet.WIDTHS.append(1)",
    },
    "in a thread": {
        "net": "import threading\ndef build():\n    def forward():\n        found = []\n"
        "        def run():\n            import helper\n            found.append(helper.WIDTH)\n"
        "        thread = threading.Thread(target=run)\n        thread.start()\n        thread.join()\n"
        "        return found[0]\n    return forward"
    },
    "by the name of its own module": {
        "net": "import sys\nfrom helper import WIDTH\nme = sys.modules[__name__]\ndef build(): return lambda: me.WIDTH"
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_each_file_has_the_modules_of_its_own_folder(way: str, tmp_path: Path) -> None:
    """Both folders have modules of the same names; both models are loaded before either is called."""
    for name, width in {"old": 8, "new": 16}.items():
        helper = f"WIDTH = {width}\nclass Number:\n    width = {width}"
        write(tmp_path / name, **WAYS[way], helper=helper)
    old, new = (load(f"{tmp_path / name / 'net.py'}:build", tmp_path) for name in ("old", "new"))
    assert (old(), new(), old()) == (8, 16, 8)


@pytest.mark.parametrize("way", WAYS)
def test_the_caller_and_the_file_do_not_share_a_module(way: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The caller's modules of these names are neither given to the file nor replaced."""
    write(tmp_path / "mine", **WAYS[way], helper="WIDTH = 16\nclass Number:\n    width = 16")
    callers = {
        name: ModuleType(name) for name in ("helper", "net", "layers", "parts", "parts.sizes", "sizes", "circle")
    }
    for name, module in callers.items():
        monkeypatch.setitem(sys.modules, name, module)
    load(f"{tmp_path / 'mine' / 'net.py'}:build", tmp_path)
    assert {name: sys.modules.get(name) for name in callers} == callers


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import helper\nraise KeyError('half-way')", ModelFailedError),
        ("import helper\nimport helper.absent", ModelFailedError),
        ("from helper import absent", ModelFailedError),
        ("import helper\ndef build(): raise OSError('no')", ModelFailedError),
        ("import helper\ndef other(): ...", InputError),
        ("import helper, sys\nsys.path.insert(0, 'x')\nsys.path = []\nsys.exit(3)", ModelFailedError),
        ("import helper\nraise KeyboardInterrupt", KeyboardInterrupt),
    ],
)
def test_nothing_remains_after_an_error(
    text: str,
    error: type[BaseException],
    tmp_path: Path,
) -> None:
    write(tmp_path, net=text, helper="")
    with pytest.raises(error) as raised:
        load(f"{tmp_path / 'net.py'}:build", tmp_path)
    assert "loaded_files" not in str(raised.value)
    write(tmp_path, net="import helper\ndef build(): return helper.__name__")
    assert in_plain_names(load(f"{tmp_path / 'net.py'}:build", tmp_path)) == "helper"


@pytest.mark.parametrize(
    ("net", "helper", "message"),
    [
        ("import helper\ndef build():\n    raise OSError('no')", "", r"raised OSError: no \(net.py, line 3\)$"),
        (
            "import helper\ndef build():\n    return helper.make()",
            "def make():\n    return [][1]",
            r"\(helper.py, line 2\)$",
        ),
        ("import json\ndef build():\n    return json.loads('[')", "", r"\(net.py, line 3\)$"),  # not where json is
        ("def build(width):\n    return width", "", r"required positional argument: 'width'$"),  # raised by no line
        (
            "def build(): raise MuteError\nclass MuteError(Exception):\n    def __str__(self): return 1 / 0",
            "",
            r"raised MuteError \(net.py, line 1\)$",
        ),
        ("def build(:", "", r"raised SyntaxError: .* \(net.py, line 1\)$"),  # once, as Python says it
    ],
)
def test_an_error_names_the_line_of_the_user(net: str, helper: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, net=net, helper=helper)
    with pytest.raises(ModelFailedError, match=message):
        load(f"{tmp_path / 'net.py'}:build", tmp_path)


def test_a_file_without_a_name_lists_what_is_in_it(tmp_path: Path) -> None:
    write(tmp_path, net="raise OSError('not run')\nclass Net: ...\ndef build(): ...\ndef _hidden(): ...\nWIDTH = 3")
    path = tmp_path / "net.py"
    with pytest.raises(InputError) as raised:
        load(str(path), tmp_path)
    assert str(raised.value).endswith(f"; its classes and functions are: {path}:Net, {path}:build")
    write(tmp_path, net="def build(:")
    with pytest.raises(InputError, match="of what builds one$"):
        load(str(path), tmp_path)


def test_modules_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``package.module:name`` has the current folder on the path, and no longer."""
    for name, width in {"old": 8, "new": 16}.items():
        write(
            tmp_path / name,
            nets__in__net="from .helper import WIDTH\ndef build():\n    import top\n    return (WIDTH, top.WIDTH)",
            nets__in__helper=f"WIDTH = {width}",
            top=f"WIDTH = {width}",
        )
    loaded = []
    for name in ("old", "new"):
        monkeypatch.chdir(tmp_path / name)
        loaded.append(load("nets.net:build", tmp_path))
    assert loaded == [(8, 8), (16, 16)]


def test_modules_that_are_installed_are_everyones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the caller's path is imported as ever, and stays: importing torch twice breaks it."""
    write(tmp_path / "site", installed_thing="", other_thing="")
    monkeypatch.syspath_prepend(str(tmp_path))  # pytest's own is replaced by that of the next line
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    write(tmp_path / "mine", net="import installed_thing\ndef build(): return installed_thing")
    try:
        assert load_model(f"{tmp_path / 'mine' / 'net.py'}:build") is sys.modules["installed_thing"]
        found = load_model("other_thing:__name__")
        assert found == "other_thing"
        assert "other_thing" in sys.modules
    finally:
        for name in ("installed_thing", "other_thing"):
            sys.modules.pop(name, None)


def test_a_package_that_is_installed_from_its_folder_is_not_doubled(tmp_path: Path, monkeypatch: Any) -> None:
    """Where the caller has a module of the folder already it is the same one: a class is not there twice."""
    write(tmp_path, my_layers="class Layer: ...", net="import my_layers\ndef build(): return my_layers.Layer()")
    monkeypatch.syspath_prepend(str(tmp_path))
    layers = importlib.import_module("my_layers")
    try:
        assert type(load(f"{tmp_path / 'net.py'}:build", tmp_path)) is layers.Layer
    finally:
        del sys.modules["my_layers"]


def test_a_file_named_like_a_module_of_python(tmp_path: Path) -> None:
    write(tmp_path, random="import random\ndef build(): return random.Random(3).random()")
    import random

    assert load(f"{tmp_path / 'random.py'}:build", tmp_path) == random.Random(3).random()


def test_a_file_runs_anew_each_time_and_its_modules_when_they_have_changed(tmp_path: Path) -> None:
    """A helper that registers an operator may run but once, while two models of one file are compared."""
    write(tmp_path, net="import helper\nTHINGS = [helper]\ndef build(): return THINGS", helper="WIDTH = 8")
    first, second = (load(f"{tmp_path / 'net.py'}:build", tmp_path) for _ in range(2))
    assert first is not second
    assert first[0] is second[0]
    write(tmp_path, helper="WIDTH = 1600")
    assert load(f"{tmp_path / 'net.py'}:build", tmp_path)[0].WIDTH == 1600


def test_a_file_that_is_saved_twice_in_a_second(tmp_path: Path) -> None:
    """Python's cache has its size and its second, and the code of the first."""
    code = (
        f"from profilerkit.models.loaders import load_model; print(load_model({str(tmp_path / 'net.py')!r} + ':net'))"
    )
    cached = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for width in (3, 4):
        write(tmp_path, net=f"from helper import WIDTH\nnet = (WIDTH, {width})", helper=f"WIDTH = {width}")
        for name in ("net", "helper"):
            os.utime(tmp_path / f"{name}.py", (1e9, 1e9))
        assert run_python(code, env=cached).stdout == f"({width}, {width})\n"


CLASSES = """
from __future__ import annotations
from dataclasses import dataclass
from helper import Size

@dataclass
class Net:
    size: Size

    def grown(self) -> Size:
        from helper import Size
        return Size(self.size.width + 1)

def build():
    return Net(Size(8))
"""
SIZES = "from dataclasses import dataclass\n\n@dataclass\nclass Size:\n    width: int\n"


def test_classes_are_found_by_name(tmp_path: Path) -> None:
    """As pickle, multiprocessing and torch.compile look them up."""
    write(tmp_path, net=CLASSES, helper=SIZES)
    net = load(f"{tmp_path / 'net.py'}:build", tmp_path)
    again = pickle.loads(pickle.dumps(net))
    assert again == net
    assert type(again) is type(net)
    assert importlib.import_module(type(net).__module__).Net is type(net)
    assert inspect.getsource(type(net)).startswith("@dataclass\nclass Net")
    assert get_type_hints(type(net)) == {"size": type(net.size)}


def test_another_process_finds_them_by_name_too(tmp_path: Path) -> None:
    """What worker processes do that are started afresh: they unpickle."""
    write(tmp_path, net=CLASSES, helper=SIZES)
    dumped = pickle.dumps(load_model(f"{tmp_path / 'net.py'}:build"))
    code = f"import pickle; print(pickle.loads({dumped!r}).grown().width)"
    done = run_python(code, check=False, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("9\n", "")


def test_threads_that_load_meanwhile(tmp_path: Path) -> None:
    text = "import helper, time\ntime.sleep(0.01)\ndef build():\n    import late\n    return (helper.WIDTH, late.WIDTH)"
    for width in range(6):
        write(tmp_path / str(width), net=text, helper=f"WIDTH = {width}", late=f"WIDTH = {width}")
    found: dict[int, Any] = {}

    def one(width: int) -> None:
        found[width] = load_model(f"{tmp_path / str(width) / 'net.py'}:build")

    threads = [threading.Thread(target=one, args=(width,)) for width in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert found == {width: (width, width) for width in range(6)}


def test_a_file_that_loads_another_one(tmp_path: Path) -> None:
    inner = "from helper import WIDTH\ndef build(): return WIDTH"
    write(tmp_path / "inner", net=inner, helper="WIDTH = 16")
    outer = f"""
        from profilerkit.models.loaders import load_model
        def build():
            inner = load_model({str(tmp_path / "inner" / "net.py")!r} + ":build")
            import helper
            return inner, helper.WIDTH
    """
    write(tmp_path / "outer", net=outer, helper="WIDTH = 8")
    assert load(f"{tmp_path / 'outer' / 'net.py'}:build", tmp_path) == (16, 8)


def test_a_loader_of_a_plugin_cannot_leave_the_path_changed(monkeypatch: Any, tmp_path: Path) -> None:
    """Whatever a loader does with the path: `load_model` puts it back."""
    from profilerkit.hooks.infos import LoaderInfo
    from profilerkit.hooks.plugin_info import Offer, PluginInfo
    from profilerkit.models import loaders

    def adding(spec: str) -> str:
        sys.path.insert(0, "nowhere")
        return spec

    offer = Offer(PluginInfo("mine", "my-hub 1.0", "mine"), LoaderInfo("hub", lambda spec: True, adding, "hub:NAME"))
    monkeypatch.setattr(loaders, "find_loader", lambda spec: offer)
    assert load("hub:net", tmp_path) == "hub:net"


def test_code_finds_its_own_module_when_it_is_called(tmp_path: Path) -> None:
    write(tmp_path, net="import sys\ndef build(): return lambda: sys.modules[__name__]")
    models = [load(f"{tmp_path / 'net.py'}:build", tmp_path) for _ in range(2)]
    assert [vars(model()) is model.__globals__ for model in models] == [True, True]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def __getattr__(name):\n    raise RuntimeError('not today')", "Net"),
        (
            "class Parts:\n    @property\n    def net(self):\n        raise RuntimeError('not today')\nparts = Parts()",
            "parts.net",
        ),
    ],
)
def test_an_error_of_a_name_that_is_computed_is_the_users(source: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path, net=source) / "net.py"
    with pytest.raises(ModelFailedError, match="raised RuntimeError: not today"):
        load_model(f"{path}:{name}")


def test_a_mistyped_name_is_said_whatever_names_the_file_has(tmp_path: Path) -> None:
    path = write(tmp_path, net="globals()[''] = 3\nbuild = int") / "net.py"
    with pytest.raises(InputError, match="has no 'bild'; it has, nearest first: build"):
        load_model(f"{path}:bild")
