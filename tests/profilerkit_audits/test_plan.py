"""Plans: what a file may say, what its matrix becomes, and what a message says of a mistake."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from audited import plan, write_nets

from profilerkit import PlanError
from profilerkit.hooks import offers
from profilerkit.hooks.manager import manager
from profilerkit_audits import Plan
from profilerkit_audits.cases import list_cases
from profilerkit_audits.listing import find_specs
from profilerkit_audits.plan_values import check_shape, read_shape

LEAST = 'metrics = ["macs"]\ntimeout = 30\nmemory = "4 GiB"\n[[models]]\nspec = "net.py:build"\ninput_shape = [8]\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "zoo.toml"
    file.write_text(text)
    return file


def test_the_least_plan(tmp_path: Path) -> None:
    read = Plan.load(written(tmp_path, LEAST))
    (entry,) = read.models
    assert (entry.specs, entry.metrics, entry.matrix) == (("net.py:build",), ("macs",), {"input_shape": ([8],)})
    assert (entry.limits.timeout, entry.limits.memory) == (30.0, 4 * 2**30)
    assert (read.name, read.folder) == ("zoo", tmp_path)


def test_the_same_in_python(tmp_path: Path) -> None:
    content = {
        "metrics": ["macs"],
        "timeout": 30,
        "memory": "4 GiB",
        "models": [{"spec": "net.py:build", "input_shape": [8]}],
    }
    assert Plan.of(content, tmp_path, "zoo") == Plan.load(written(tmp_path, LEAST))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEAST.replace("timeout", "timout"), r"zoo\.toml: unknown key 'timout'; did you mean 'timeout'\?"),
        (
            LEAST + "batchsize = 1\n",
            r"zoo\.toml, model 1 \(net\.py:build\): unknown key 'batchsize'; did you mean 'batch_size'\?",
        ),
        (
            LEAST + '[[models]]\nspec = "b"\nspce = "c"\n',
            r"zoo\.toml, model 2 \(b\): unknown key 'spce'; did you mean 'spec'\?",
        ),
        (LEAST + "label = 1\n", r"model 1 \(net\.py:build\): unknown key 'label'; a model has spec, specs, exclude,"),
        ('store = "a.db"\n' + LEAST, r"'store' is no key of a plan: give it to the audit, as store=\.\.\. or --store"),
        ("bogus = 1\n" + LEAST, r"zoo\.toml: unknown key 'bogus'; a plan has models, budgets, "),
        (LEAST + "batch_size = [1, 0]\n", r"model 1 \(net\.py:build\): batch_size=0: give a whole number from 1"),
        (LEAST.replace("30", "-1"), r"model 1 \(net\.py:build\): timeout=-1: give a number of seconds above zero"),
        (
            LEAST.replace("4 GiB", "4 GB!"),
            r"model 1 \(net\.py:build\): memory='4 GB!': give a number of bytes, or a text",
        ),
        (
            LEAST.replace("[8]", '"x"'),
            r"model 1 \(net\.py:build\): input_shape: 'x' is a text; write a list, \[3, 224, 224\]",
        ),
        (LEAST.replace('["macs"]', "[]"), r"model 1 \(net\.py:build\): metrics is empty"),
        (LEAST + "batch_sizes = [2]\n", r"unknown key 'batch_sizes'; did you mean 'batch_size'\?"),
        (LEAST + "input_shapes = [[8]]\n", "input_shape and input_shapes are the same setting"),
        (LEAST.replace("[8]", "{shape = 5}"), r"input_shape: shape = 5 is no list of sizes; write \{shape = \[128\]\}"),
        (LEAST.replace("[8]", '{shape = "3,32"}'), r"input_shape: shape = '3,32' is no list of sizes"),
        ("budgets = 5\n" + LEAST, r"zoo\.toml: budgets=5 is no table of limits; give one: macs = '<= 5 G'"),
        (LEAST + '[budgets]\nmacs = "<= 5 zz"\nflops = "hm"\n', r"zoo\.toml: flops = 'hm' is no limit"),
        (LEAST + '[budgets]\nmacs = "<= 5 zz"\n', r"zoo\.toml: macs <= 5 zz: 'zz' cannot be read; the unit of macs is"),
        (LEAST + '[budgets.layers.a]\nparams = "<= 5 B"\n', r"params <= 5 B: 'B' cannot be read"),
        (LEAST + '[budgets.layers.a]\nlatency = "<= 5"\n', r"latency <= 5: layers have limits of params, "),
        (LEAST + '[budgets]\nmacs = "<= 1.1x"\n', r"zoo\.toml: budgets: an audit has no baseline for a limit in x"),
        (LEAST.replace("[[models]]", "[[model]]"), r"unknown key 'model'; did you mean 'models'\?"),
        ("metrics = ['macs']\n", "has no models"),
        ("[[models]]\ndevice = 'cpu'\n", "a model has no spec"),
        ("workers = 0\n" + LEAST, r"zoo\.toml: workers=0: give a whole number from 1"),
        ("= 3", "is no TOML"),
        ("warm = 'yes'\n" + LEAST, r"zoo\.toml: warm='yes': give True or False"),
        (
            LEAST + "workers = 2\n",
            r"model 1 \(net\.py:build\): 'workers' does not belong in a model; write it at the top of the plan",
        ),
        (
            "exclude = ['x']\n" + LEAST,
            r"zoo\.toml: 'exclude' does not belong in a plan; write it in a \[\[models\]\] table",
        ),
        (
            LEAST.replace("[[models]]", "[models]"),
            r"zoo\.toml: models is one table; .* double brackets, \[\[models\]\]",
        ),
    ],
)
def test_a_mistake_is_an_error_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.load(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"cannot read the plan .*none\.toml: No such file"):
        Plan.load(tmp_path / "none.toml")


def list_settings(folder: Path, *entries: dict[str, Any], **top: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(case.spec, dict(case.settings)) for case in list_cases(plan(folder, *entries, **top))]


def test_the_matrix_is_the_product_of_its_settings(tmp_path: Path) -> None:
    entry = {"spec": "nets.py:net_01", "batch_size": [1, 8], "device": "cpu", "input_shapes": [[4], [5]]}
    cases = list_settings(tmp_path, entry)
    assert len(cases) == 2 * 1 * 2
    assert cases[1] == ("nets.py:net_01", {"batch_size": 1, "input_shape": [5], "device": "cpu"})


def test_a_setting_of_a_model_replaces_that_of_the_plan_in_either_number(tmp_path: Path) -> None:
    cases = list_settings(tmp_path, {"spec": "a.py:b", "batch_size": 2}, {"spec": "c.py:d"}, batch_size=[1, 3])
    assert [case["batch_size"] for _, case in cases] == [2, 1, 3]
    shapes = list_settings(
        tmp_path, {"spec": "a.py:b", "input_shape": [4]}, {"spec": "c.py:d"}, input_shapes=[[5], [6]]
    )
    assert [case["input_shape"] for _, case in shapes] == [[4], [5], [6]]


def test_equal_cases_are_one(tmp_path: Path) -> None:
    assert len(list_settings(tmp_path, {"specs": ["a.py:b", "a.py:b"]}, {"spec": "a.py:b"})) == 1


def test_patterns_of_functions_and_of_files(tmp_path: Path) -> None:
    write_nets(tmp_path, 3, "\ndef _hidden():\n    raise AssertionError\n")
    (tmp_path / "other.py").write_text("def build(): ...\nraise SystemExit('a pattern must not run the file')\n")
    assert list(find_specs("nets.py:net_*", tmp_path).specs) == [f"nets.py:net_0{number}" for number in (1, 2, 3)]
    assert list(find_specs("*.py:build", tmp_path).specs) == ["other.py:build"]
    for name in ("b.onnx", "a.onnx", "net[1].onnx"):
        (tmp_path / name).touch()
    assert list(find_specs("[ab].onnx", tmp_path).specs) == ["a.onnx", "b.onnx"]
    assert find_specs("net[1].onnx", tmp_path).specs == ("net[1].onnx",), "there is such a file"
    excluded = list_settings(tmp_path, {"spec": "nets.py:net_*", "exclude": ["*_02", "*_03"]})
    assert [spec for spec, _ in excluded] == ["nets.py:net_01"]


def test_a_pattern_without_a_match_says_the_nearest(tmp_path: Path) -> None:
    write_nets(tmp_path, 2)
    with pytest.raises(PlanError, match=r"'nets\.py:nut_\*' matches no model; the nearest are: nets\.py:net"):
        find_specs("nets.py:nut_*", tmp_path)
    with pytest.raises(PlanError, match="'hff:' cannot list its models; these can: hf"):
        find_specs("hff:b*", tmp_path)


def test_a_pattern_says_that_names_which_code_makes_are_not_matched(tmp_path: Path) -> None:
    write_nets(tmp_path, 1)
    (tmp_path / "made.py").write_text(
        "def plain(): ...\nfor number in range(3):\n    globals()[f'net_{number}'] = plain\n"
    )
    read = r"read and not run, so list names that code makes one by one \(specs = "
    with pytest.raises(PlanError, match=read):
        find_specs("made.py:net_*", tmp_path)
    (tmp_path / "bare.py").write_text("for number in range(3):\n    globals()[f'net_{number}'] = lambda: None\n")
    for pattern in ("bare.py:net_*", "bare:net_*"):
        with pytest.raises(PlanError, match=rf"no public function or class is defined in bare.*; Python.* {read}"):
            find_specs(pattern, tmp_path)


def test_a_file_that_cannot_be_read_has_a_row_of_its_own(tmp_path: Path) -> None:
    write_nets(tmp_path, 1)
    (tmp_path / "broken.py").write_text("def net_9(:\n")
    for pattern in ("net_*", "net_[0-9]?"):  # the second one does not match itself
        assert find_specs(f"*.py:{pattern}", tmp_path).specs == (f"broken.py:{pattern}", "nets.py:net_01")
        assert find_specs(f"broken:{pattern}", tmp_path).specs == (f"broken:{pattern}",)


def test_a_file_that_is_not_there_is_an_error_of_the_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"'nest.py:net_\*' matches no model; there is no such file or folder"):
        find_specs("nest.py:net_*", tmp_path)


@pytest.mark.parametrize("term", ["1+", "-"])
def test_a_file_that_is_nested_too_deep_is_one_that_cannot_be_read(tmp_path: Path, term: str) -> None:
    """The parser raises `RecursionError` for long sums, and `MemoryError` for many signs."""
    write_nets(tmp_path, 1)
    (tmp_path / "deep.py").write_text(f"deep = {term * 30_000}1\n")
    cases = list_cases(plan(tmp_path, {"spec": "*.py:net_*"}, metrics=["macs"]))
    assert [case.spec for case in cases] == ["deep.py:net_*", "nets.py:net_01"]


def test_a_metric_that_nothing_computes_is_an_error_of_the_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nothing computes 'mcas'; did you mean 'macs'\?"):
        list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=["mcas"]))
    with pytest.raises(PlanError, match=r"nothing computes 'zzqq'; `profilerkit list` lists the metrics$"):
        list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=["zzqq"]))


def test_a_metric_that_a_plugin_computes_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function is enough: the example declares no status key of its own."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples" / "one_file_metric"))
    of_metric = plan(tmp_path, {"spec": "a.py:b"}, metrics=["largest_layer"])
    of_budget = plan(tmp_path, {"spec": "a.py:b"}, budgets={"largest_layer": "<= 90"})
    for read in (of_metric, of_budget):
        with pytest.raises(PlanError, match="nothing computes 'largest_layer'"):
            list_cases(read)
    manager().register(importlib.import_module("profilerkit_largest_layer"), "largest")
    try:
        for read in (of_metric, of_budget):
            (case,) = list_cases(read)
            assert "largest_layer" in (case.metrics or ())
        with pytest.raises(PlanError, match=r"nothing computes 'largest_layr'; did you mean 'largest_layer'\?"):
            list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=["largest_layr"]))
    finally:
        offers.forget()
        sys.modules.pop("profilerkit_largest_layer")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LEAST.replace('"macs"', '"MACs"'),
            r"zoo\.toml, model 1 \(net\.py:build\): metrics: nothing computes 'MACs'; did you mean 'macs'\?",
        ),
        (
            LEAST + 'metrics = ["flops",\n "mcas"]\n',
            r"zoo\.toml, model 1 \(net\.py:build\): metrics: nothing computes 'mcas'",
        ),
        (
            LEAST + '[budgets]\nmacz = "<= 5 G"\n',
            r"zoo\.toml: budgets: nothing computes 'macz'; did you mean 'macs'",
        ),
        (
            LEAST.replace("net.py:build", "nets.py:nut_*"),
            r"zoo\.toml, model 1 \(nets\.py:nut_\*\): 'nets\.py:nut_\*' matches no model",
        ),
        (
            LEAST.replace("net.py:build", "zoo/*.onnx"),
            r"model 1 \(zoo/\*\.onnx\): 'zoo/\*\.onnx' matches no model; there is no such file",
        ),
        (
            LEAST + 'exclude = ["net*"]\n',
            r"zoo\.toml, model 1 \(net\.py:build\): exclude leaves out every model .*: 'net\.py:build'",
        ),
    ],
)
def test_a_mistake_that_is_found_when_models_are_listed_has_its_place_too(
    text: str, message: str, tmp_path: Path
) -> None:
    write_nets(tmp_path, 2)
    with pytest.raises(PlanError, match=message):
        list_cases(Plan.load(written(tmp_path, text)))


def test_a_budget_may_have_another_name_of_a_metric(tmp_path: Path) -> None:
    (case,) = list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=["macs"], budgets={"latency": "<= 1 s"}))
    assert case.metrics == ("macs", "execution_time")


def test_budgets_of_the_users_own_metrics(tmp_path: Path) -> None:
    """Nothing that is installed computes ``accuracy``; the evaluation of the plan may."""
    entry = {"spec": "a.py:b", "evaluation": "data.py:accuracy"}
    (case,) = list_cases(plan(tmp_path, entry, metrics=["macs"], budgets={"accuracy": ">= 90 %"}))
    assert case.metrics == ("macs", "accuracy")


def test_patterns_of_the_functions_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    write_nets(tmp_path / "zoo", 2, "\nraise SystemExit('a pattern must not import the module')\n")
    assert list(find_specs("zoo.nets:net_*", tmp_path).specs) == ["zoo.nets:net_01", "zoo.nets:net_02"]
    # A module that is installed, in a package: it has these two public classes, the second an error.
    assert list(find_specs("json.decoder:JSOND*", tmp_path).specs) == [
        "json.decoder:JSONDecodeError",
        "json.decoder:JSONDecoder",
    ]
    with pytest.raises(PlanError, match=r"'zoo\.nets:nut_\*' matches no model; the nearest are: zoo\.nets:net"):
        find_specs("zoo.nets:nut_*", tmp_path)
    with pytest.raises(PlanError, match=r"'zoo\.none:' cannot list its models"):
        find_specs("zoo.none:*", tmp_path)


def test_the_metrics_of_budgets_are_computed(tmp_path: Path) -> None:
    (case,) = list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=["macs"], budgets={"model_size": "<= 1 KiB"}))
    assert case.metrics == ("macs", "model_size")


def test_what_is_imported_once_for_all_models_of_a_library(tmp_path: Path) -> None:
    """transformers is imported once for all configurations; Keras' framework may not be copied at all."""
    entries = {"specs": ["hf:bert", "torchvision:resnet18", "keras:ResNet50"]}
    warm = {case.spec: case.warm for case in list_cases(plan(tmp_path, entries, metrics=["macs"]))}
    assert warm["hf:bert"] == ("torch", "transformers.modeling_utils", "transformers.models.auto.modeling_auto")
    assert warm["torchvision:resnet18"] == ("torch",)
    assert warm["keras:ResNet50"] is None or "transformers.modeling_utils" not in warm["keras:ResNet50"]
    (cold,) = list_cases(plan(tmp_path, {"spec": "hf:bert"}, metrics=["macs"], warm=False))
    assert cold.warm is None


def test_a_shape_without_a_dtype_is_left_to_the_model() -> None:
    for alone in ([8, 4], {"shape": [8, 4]}):
        assert read_shape(check_shape(alone)) == (8, 4)


def test_two_inputs_may_be_called_shape_and_dtype() -> None:
    """They are no shape with a dtype, which is a text."""
    assert read_shape(check_shape({"shape": [3], "dtype": [4]})) == {"shape": (3,), "dtype": (4,)}


def test_a_metric_may_have_one_of_its_other_names(tmp_path: Path) -> None:
    read = Plan.load(written(tmp_path, LEAST.replace('"macs"', '"macs", "latency"')))
    assert read.models[0].metrics == ("macs", "execution_time")


@pytest.mark.parametrize("metric", ["energy", "first_call_time", "execution_time"])
def test_a_case_that_measures_is_timed(metric: str, tmp_path: Path) -> None:
    """So its row is of one kind of machine, and nothing else of the audit runs beside it."""
    (tmp_path / "a.py").write_text("b = None\n")
    counted, measured = (list_cases(plan(tmp_path, {"spec": "a.py:b"}, metrics=[name]))[0] for name in ("macs", metric))
    assert (counted.is_timed, measured.is_timed) == (False, True)
    assert measured.compute_key("one") != measured.compute_key("another")
