"""The next release of torch cannot break a call: each private name is taken away, one at a time, in its own process.

Then the numbers are those of before, or a number is partial or unavailable and the report says why. None of the errors
is a traceback of ours, and no other number is called complete.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from absent_names import names_in, require_outcomes
from source_tree import ROOT, SUPPORT
from time_limits import run_program

from profilerkit import NotOfferedError
from profilerkit.backend_kit.keras_layers import list_own_variables
from profilerkit_torch.compat.configurations import read_attention, read_experts
from profilerkit_torch.compat.modules import (
    find_flat_parameter,
    list_original_parameters,
    list_shared_parameters,
    list_sizes_in_shard,
)

COMPAT = ROOT / "backends" / "profilerkit_torch" / "compat"
OF_KERAS = ROOT / "profilerkit" / "backend_kit" / "keras_layers.py"
#: Tags, operators and dtypes that other files ask for, by functions of that folder.
FURTHER = (
    *("torch.Tag.inplace_view", "torch.Tag.pointwise", "torch.Tag.reduction", "torch.Tag.nondeterministic_seeded"),
    *("torch.Tag.dynamic_output_shape", "torch.Tag.data_dependent_output", "torch.Tag.maybe_aliasing_or_mutating"),
    *("torch.ops.aten.dropout.default", "torch.ops.aten._to_copy.default", "torch.ops.aten.detach.default"),
    *("torch.ops.aten.scaled_dot_product_attention.default", "torch.ops.aten.index.Tensor", "torch.quint4x2"),
)
#: One that has another way, one without which nothing is traced, one without which operators are not known, and a tag.
SAMPLE = (
    "torch._C._len_torch_function_stack",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch._C.DispatchKey.CompositeImplicitAutograd",
    "torch.Tag.reduction",
)


#: Of Keras' layers on torch.
KERAS = ("_value", "_trainable_variables", "_non_trainable_variables", "_seed_generators")
#: Of wrappers, of configurations and of changes between two calls: other tests read what is said without them.
ELSEWHERE = frozenset(
    (
        *("_handle", "_shard_param_infos", "_shapes", "_params", "_param_infos", "_shared_param_infos"),
        *("_orig_mod", "_fsdp_wrapped_module", "_attn_implementation", "_experts_implementation"),
        *("_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks"),
    )
)


def said_without(*names: str, keras: str = "") -> Any:
    """Return what the reports say without each name, alone; with all of them for an empty text.

    ``keras`` is what Keras runs on.
    """
    done = run_program(
        [sys.executable, "-W", "ignore", str(SUPPORT / "absent_names.py"), *names],
        variables={"OMP_NUM_THREADS": "1", "KERAS_BACKEND": keras},
    )
    return json.loads(done.stdout.splitlines()[-1])


def check(*names: str, keras: str = "") -> None:
    answers = said_without("", *names, keras=keras)
    assert {completeness for outcome in answers[""].values() for _, completeness, _ in outcome.values()} == {"complete"}
    for name in names:
        require_outcomes(answers[""], answers[name], name)
        if keras:
            assert f"keras {version('keras')} has no" in str(answers[name]), name


def test_the_folder_names_what_it_looks_for() -> None:
    names = names_in(COMPAT)
    assert len(names) > 60
    assert set(SAMPLE) <= {*names, *FURTHER}


@pytest.mark.slow
def test_a_name_that_is_gone() -> None:
    check(*SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_any_name_that_is_gone(part: int) -> None:
    check(*sorted({*names_in(COMPAT), *FURTHER} - {*SAMPLE, *KERAS} - ELSEWHERE)[part::2])


@pytest.mark.slow
def test_a_name_of_keras_that_is_gone() -> None:
    pytest.importorskip("keras")
    assert set(KERAS) <= set(names_in(OF_KERAS))
    check(*KERAS, keras="torch")


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (find_flat_parameter, "_handle"),
        (list_sizes_in_shard, "_shapes"),
        (lambda flat: list(list_original_parameters(flat)), "_shapes"),
        (lambda flat: list(list_shared_parameters(flat)), "_shared_param_infos"),
        (list_own_variables, "_trainable_variables"),
    ],
)
def test_a_wrapper_without_a_name_is_refused(read: Any, name: str) -> None:
    """What is inside would be counted as it is spread, or not at all."""
    if read is list_own_variables and find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    with pytest.raises(NotOfferedError, match=f"has no .*{name}"):
        read(torch.nn.Module())


def test_a_configuration_that_does_not_tell_how_attention_runs() -> None:
    assert read_attention(object()) == ""
    assert read_experts(object()) == "eager"
