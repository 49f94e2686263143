"""Operators that take functions: what these do is counted, and what shapes do not tell is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, ones, trace, trace_complete
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import ModelTrace, profile

#: Two rows of four through a linear layer to four: MACs, and FLOPs with its bias.
ONE = (2 * 4 * 4, 2 * 2 * 4 * 4 + 2 * 4)
#: Where loops and scans are prototypes; later modes are asked of them.
IS_2_6 = not hasattr(TorchDispatchMode, "supports_higher_order_operators")


def run(function: Callable[..., Any], *args: Any) -> ModelTrace:
    model = Call(function, one=nn.Linear(4, 4), two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    return trace_complete(model, *args)


def branches(self: Any, predicate: Any, x: torch.Tensor) -> Any:
    return torch.cond(predicate, self.one, self.two, (x,))


@pytest.mark.parametrize(("predicate", "times"), [(True, 1), (False, 2)])
def test_the_branch_that_is_taken_is_counted_where_that_is_known(predicate: bool, times: int) -> None:
    found = run(lambda self, x: branches(self, torch.tensor(predicate), x), ones(2, 4))
    assert (found.macs, found.flops) == (times * ONE[0], times * ONE[1])
    assert found.notes == ()


@pytest.mark.parametrize(("length", "times"), [(5, 1), (3, 2)])
def test_booleans_and_integers_that_are_given_decide(length: int, times: int) -> None:
    given = run(branches, torch.tensor(times == 1), ones(2, 4))
    compared = run(lambda self, n, x: branches(self, n > 4, x), torch.tensor(length), ones(2, 4))
    assert given.macs == compared.macs == times * ONE[0]
    assert given.choices == compared.choices == ()


@pytest.mark.parametrize(("sign", "times"), [(1, 1), (-1, 2)])
def test_floats_that_decide_are_those_of_a_run(sign: int, times: int) -> None:
    """Eight elements are summed up beside; on the meta device nobody knows the sum."""
    model = Call(
        lambda self, x: branches(self, x.sum() > 0, x),
        one=nn.Linear(4, 4),
        two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
    )
    found = trace_complete(model, sign * ones(2, 4))
    assert (found.macs, found.flops) == (times * ONE[0], times * ONE[1] + 8)
    assert "counted in a real run" in found.notes[0]
    failure = trace(model.to("meta"), ones(2, 4)).failure
    assert "only a run can tell (the condition of torch.cond or while_loop)" in str(failure)


def test_a_loop_is_counted_as_often_as_it_goes_round() -> None:
    def rounds(self: Any, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.one(x)), (torch.tensor(0), x))

    assert run(rounds, ones(2, 4)).macs == 3 * ONE[0]


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_condition_counts_once_more_than_its_loop_goes_round(rounds: int) -> None:
    def loop(self: Any, x: torch.Tensor) -> Any:
        def holds(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            self.one(x)
            return i < rounds

        return while_loop(holds, lambda i, x: (i + 1, self.one(x)), (torch.tensor(0), x))

    found = run(loop, ones(2, 4))
    assert found.macs == (rounds + 1 + rounds) * ONE[0]
    copies = sum(operator.operator == "aten.clone.default" for operator in found.operators)
    assert copies == (0 if rounds else 2), "torch copies what it is given if the loop never goes round"


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_loop_until_a_value_counts_the_rounds_of_a_run(rounds: int) -> None:
    def until(self: Any, x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() > 0, lambda x: (x - 1 + 0 * self.one(x),), (x,))

    found = run(until, rounds * ones(2, 4))
    assert found.macs == rounds * ONE[0]


def test_a_map_counts_each_of_its_calls() -> None:
    assert run(lambda self, x: map(self.one, x), ones(3, 2, 4)).macs == 3 * ONE[0]


def test_a_scan_counts_each_of_its_steps() -> None:
    found = run(lambda self, x: scan(lambda c, row: (self.one(c), row.clone()), x[0], x), ones(3, 2, 4))
    # Three rows. generic_scan of torch 2.6 runs the step once more, on the first row, for the shapes of what comes out.
    assert found.macs == (4 if torch.__version__ < "2.7" else 3) * ONE[0]


@pytest.mark.skipif(IS_2_6, reason="private in torch 2.6, and endless there")
def test_an_associative_scan_counts_what_it_combines() -> None:
    """Four elements pairwise: 2 sums of pairs, 1 of these, and 1 for the element between: 4 of the 3 that suffice."""
    found = run(lambda self, x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), ones(4, 5))
    assert found.flops == 4 * 5


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_costs_what_it_runs(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    found = run(lambda self, x: checkpoint(self.one, x, use_reentrant=reentrant), ones(2, 4))
    assert (found.macs, found.flops) == ONE


def test_an_exported_program_costs_what_its_model_does() -> None:
    def freeze(self: Any, x: torch.Tensor) -> Any:
        with torch.no_grad():  # a wrapper of its own in the program
            y = self.layer(x)
        return y + x

    program = torch.export.export(Call(freeze, layer=nn.Linear(4, 4)), (ones(2, 4),)).module()
    assert trace_complete(program, ones(2, 4)).macs == ONE[0]


BATCH, HEADS, LENGTH, WIDTH = 1, 2, 128, 16
SCORES = BATCH * HEADS * LENGTH * LENGTH


@pytest.mark.parametrize("mask", [False, True], ids=["whole", "causal"])
def test_flex_attention_counts_the_dense_product_whatever_the_mask(mask: bool) -> None:
    def attend(self: Any, q: torch.Tensor) -> Any:
        causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, LENGTH, LENGTH, device="cpu")
        return flex_attention(q, q, q, block_mask=causal if mask else None)

    found = run(attend, ones(BATCH, HEADS, LENGTH, WIDTH))
    assert (found.macs, found.flops) == (SCORES * 2 * WIDTH, 2 * SCORES * 2 * WIDTH + 6 * SCORES)


def test_flex_attention_counts_what_is_done_to_each_score() -> None:
    def attend(self: Any, q: torch.Tensor) -> Any:
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: torch.tanh(score / 2) * 2)

    found = run(attend, ones(BATCH, HEADS, LENGTH, WIDTH))
    assert found.flops == 2 * SCORES * 2 * WIDTH + (6 + 3) * SCORES


def test_flex_attention_of_grouped_queries_counts_by_the_queries() -> None:
    def attend(self: Any, q: torch.Tensor, k: torch.Tensor) -> Any:
        return flex_attention(q, k, k, enable_gqa=True)

    found = run(attend, ones(1, 4, LENGTH, WIDTH), ones(1, 2, LENGTH, WIDTH))
    assert found.macs == 4 * LENGTH * LENGTH * 2 * WIDTH


def test_the_memory_of_flex_attention_is_that_of_a_kernel_at_the_least() -> None:
    """One kernel has queries, output, a number or two for each query, and a mask of one block, which is four int32.

    Where torch makes no kernel it has all scores as well, several times.
    """
    model = Call(lambda self, q: flex_attention(q, q, q))
    report = profile(model, ones(1, 2, 16, 8), metrics=["memory_footprint", "measured_memory"])
    status, activation, rows = report.status("memory_footprint"), 2 * 16 * 8 * 4, 2 * 16 * 4
    assert status.value - 2 * activation - 4 * 4 in (rows, 2 * rows), "newer releases return the largest score too"
    assert status.sign == "≥ "
    assert report["measured_memory"] > status.value + 3 * 2 * 16 * 16 * 4
    assert status.missing == ("all scores of flex_attention, where it is not compiled, of unknown size (1 call)",)


def test_nothing_is_compiled_for_a_trace() -> None:
    from torch._dynamo.utils import counters

    before = counters["stats"]["unique_graphs"]
    run(lambda self, q: flex_attention(q, q, q), ones(BATCH, HEADS, LENGTH, WIDTH))
    run(lambda self, x: branches(self, x.sum() > 0, x), ones(2, 4))
    assert counters["stats"]["unique_graphs"] == before


def test_a_functional_copy_of_an_operator_that_writes_counts_as_the_operator() -> None:
    from torch._higher_order_ops.auto_functionalize import auto_functionalized

    @torch.library.custom_op("testhigher::scale", mutates_args=("x",))
    def scale(x: torch.Tensor) -> None:
        x.mul_(2)

    found = trace(Call(lambda self, x: auto_functionalized(torch.ops.testhigher.scale.default, x=x)), ones(2, 4))
    assert found.uncounted == {"testhigher::scale": 1}


CONTROL: dict[str, Callable[..., Any]] = {
    "condition": lambda self, x: torch.cond(x.sum() < 0, self.one, self.two, (x,)),
    "loop": lambda self, x: while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, self.one(x)), (torch.tensor(0), x))[1],
    "scan": lambda self, x: scan(lambda c, row: (self.one(c), row.clone()), x, x)[0],
}


@pytest.mark.parametrize("case", CONTROL)
def test_gradients_flow_through_what_the_functions_do(case: str) -> None:
    """Two linear layers, one after the other: as much again for both weights, and for the input of the second."""
    if case == "scan" and IS_2_6:
        pytest.skip("a scan of torch 2.6 has no gradients")
    model = Call(CONTROL[case], one=nn.Linear(4, 4), two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    report = profile(model, ones(2, 4), metrics=["macs", "training_macs"])
    assert (report["macs"], report["training_macs"]) == (2 * ONE[0], 5 * ONE[0])


@pytest.mark.skipif(not hasattr(torch.ops.higher_order, "invoke_quant"), reason="a newer torch has the operator")
def test_the_options_of_the_compiler_are_not_given_to_the_function() -> None:
    """``invoke_quant`` calls the module with the operands, as ``BaseHOP`` of torch does."""
    quantized = torch.fx.symbolic_trace(nn.Linear(4, 4))
    model = Call(lambda self, x: torch.ops.higher_order.invoke_quant(self.inside, x, scheme="nf4"), inside=quantized)
    found = trace_complete(model, ones(2, 4))
    assert (found.macs, found.flops) == ONE
