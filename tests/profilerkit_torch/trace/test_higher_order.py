"""Operators that take functions: what these do is counted, and what shapes do not tell is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, ones, trace, trace_complete
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from profilerkit import ModelTrace, profile
from profilerkit.render import tree
from profilerkit.trace.bounds import Bounds
from profilerkit_torch.trace.excerpts import Peaks, record_apart
from profilerkit_torch.trace.layers import LayerStack
from profilerkit_torch.trace.pass_record import PassRecord

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


def test_the_dearer_branch_is_counted_where_shapes_do_not_tell_and_the_report_says_so() -> None:
    found = run(lambda self, x: branches(self, x.sum() > 0, x), ones(2, 4))
    assert (found.macs, found.flops) == (2 * ONE[0], 2 * ONE[1] + 8)  # and the sum of eight elements
    assert [choice.reason for choice in found.choices] == [
        "a condition depends on values that shapes do not tell: the dearer of its two branches is counted"
    ]
    assert found.bounds("macs") == Bounds(ONE[0], 2 * ONE[0])
    assert found.bounds("flops") == Bounds(ONE[1] + 8, 2 * ONE[1] + 8)
    assert sum(record.macs for record in found.operators if record.layer.startswith("two")) == 2 * ONE[0]


def test_what_any_branch_leaves_uncounted_is_missing() -> None:
    def odd(self: Any, x: torch.Tensor) -> Any:
        rare = lambda x: F.multilabel_margin_loss(x, torch.zeros_like(x, dtype=torch.int64)) * x  # noqa: E731
        return torch.cond(x.sum() > 0, self.one, rare, (x,))

    found = trace(Call(odd, one=nn.Linear(4, 4)), ones(2, 4))
    assert list(found.uncounted.values()) == [1]
    assert found.bounds("macs") == Bounds(0, None)


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


def test_a_loop_until_a_value_counts_one_round_and_is_partial() -> None:
    def until(self: Any, x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() > 0, lambda x: (self.one(x),), (x,))

    found = trace(Call(until, one=nn.Linear(4, 4)), ones(2, 4))
    assert found.macs == ONE[0]
    assert found.uncounted == {"higher_order::while_loop": 1}
    assert found.bounds("macs") == Bounds(0, None)  # its condition may be false at once
    assert "how often a loop runs depends on values" in found.notes[0]


def test_rounds_that_are_certain_are_no_part_of_the_uncertain_one() -> None:
    """The counter holds for two rounds whatever the values are; the third depends on them."""

    def rounds(self: Any, x: torch.Tensor) -> Any:
        def holds(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return i < 2 if int(i) < 2 else x.sum() > 0

        return while_loop(holds, lambda i, x: (i + 1, self.one(x)), (torch.tensor(0), x))

    found = trace(Call(rounds, one=nn.Linear(4, 4)), ones(2, 4))
    assert (found.macs, found.bounds("macs")) == (3 * ONE[0], Bounds(2 * ONE[0], None))


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


def test_the_memory_of_flex_attention_is_between_a_kernel_and_all_scores() -> None:
    """One kernel has queries, output, a number or two for each query, and a mask of one block, which is four int32.

    Where torch makes no kernel it has all scores as well, several times.
    """
    model = Call(lambda self, q: flex_attention(q, q, q))
    report = profile(model, ones(1, 2, 16, 8), metrics=["memory_footprint", "measured_memory"])
    status, activation, rows = report.status("memory_footprint"), 2 * 16 * 8 * 4, 2 * 16 * 4
    assert status.value - 2 * activation - 4 * 4 in (rows, 2 * rows), "newer releases return the largest score too"
    assert status.bounds == Bounds(status.value, report["measured_memory"])
    assert report["measured_memory"] > status.value + 3 * 2 * 16 * 16 * 4
    assert "where that is not used it makes all scores" in " ".join(status.missing)


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
    "condition": lambda self, x: torch.cond(x.sum() > 0, self.one, self.two, (x,)),
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


def test_the_two_ends_of_each_layer_and_of_the_report() -> None:
    model = Call(
        lambda self, x: branches(self, x.sum() > 0, x),
        one=nn.Linear(4, 4),
        two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
    )
    report = profile(model, ones(2, 4), metrics=["macs", "flops", "training_macs"])
    ends = {row["path"]: (row["macs_low"], row["macs"], row["macs_high"]) for row in report.layers or ()}
    assert ends == {
        "": (ONE[0], 2 * ONE[0], 2 * ONE[0]),
        "one": (0, 0, ONE[0]),
        "two": (0, 2 * ONE[0], 2 * ONE[0]),
        "two.0": (0, ONE[0], ONE[0]),
        "two.1": (0, ONE[0], ONE[0]),
    }
    record = report.statuses["macs"]
    assert (record.sign, record.bounds) == ("≤ ", Bounds(ONE[0], 2 * ONE[0]))
    assert report.statuses["training_macs"].bounds == Bounds(None, None), "gradients follow the branch that is taken"


def test_a_branch_and_a_loop_have_an_estimate_between_two_ends() -> None:
    def both(self: Any, x: torch.Tensor) -> Any:
        x = branches(self, x.sum() > 0, x)
        return while_loop(lambda x: x.sum() > 0, lambda x: (self.one(x),), (x,))

    model = Call(both, one=nn.Linear(4, 4), two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    found = trace(model, ones(2, 4))
    assert (found.macs, found.bounds("macs")) == (3 * ONE[0], Bounds(ONE[0], None))  # the loop may not run


def test_branches_of_equal_work_leave_a_count_complete() -> None:
    same = run(lambda self, x: torch.cond(x.sum() > 0, self.one, self.one, (x,)), ones(2, 4))
    assert (same.choices, same.bounds("macs")) == ((), Bounds(ONE[0], ONE[0]))


def test_conditions_inside_of_equal_branches_keep_their_two_ends() -> None:
    def nested(self: Any, x: torch.Tensor) -> Any:
        inside = lambda x: torch.cond(x.sum() > 1, self.one, self.two, (x,))  # noqa: E731
        return torch.cond(x.sum() > 0, inside, inside, (x,))

    model = Call(nested, one=nn.Linear(4, 4), two=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    assert trace(model, ones(2, 4)).bounds("macs") == Bounds(ONE[0], 2 * ONE[0])


@pytest.mark.skipif(not hasattr(torch.ops.higher_order, "invoke_quant"), reason="a newer torch has the operator")
def test_the_options_of_the_compiler_are_not_given_to_the_function() -> None:
    """``invoke_quant`` calls the module with the operands, as ``BaseHOP`` of torch does."""
    quantized = torch.fx.symbolic_trace(nn.Linear(4, 4))
    model = Call(lambda self, x: torch.ops.higher_order.invoke_quant(self.inside, x, scheme="nf4"), inside=quantized)
    found = trace_complete(model, ones(2, 4))
    assert (found.macs, found.flops) == ONE


# Memory ---------------------------------------------------------------------------------------------------------------


def copies(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that makes so many copies of a tensor, and sums them up again."""
    return lambda x: torch.cat([x] * number).view(number, 2, 4).sum(0)


def chosen(first: Callable[..., Any], second: Callable[..., Any]) -> Call:
    return Call(lambda self, x: torch.cond(x.sum() > 0, first, second, (x,)))


@pytest.mark.parametrize(("first", "second"), [(2, 10), (10, 2)])
def test_the_peak_has_two_ends_where_branches_need_more_and_less(first: int, second: int) -> None:
    """x has 32 bytes, so that ten copies are 320 and two 64; the sum, and whether it is above 0, are alive as well."""
    found = trace(chosen(copies(first), copies(second)), ones(2, 4))
    assert found.peak_spread is not None
    assert (found.peak_spread.below, found.peak_spread.above) == (320 - 64, 0)
    assert found.memory.peak_bytes() == 32 + 1 + 320 + 32
    footprint = profile(chosen(copies(first), copies(second)), ones(2, 4)).statuses["memory_footprint"]
    assert (footprint.completeness.value, footprint.bounds) == ("partial", Bounds(385 - 256, 385))


def test_a_branch_of_less_work_may_need_more_memory() -> None:
    """Copies alone are no work, and a product of x and x is: the cheaper branch makes the upper end of the memory."""
    many = lambda x: torch.cat([x] * 10)[:2].clone()  # noqa: E731
    for first, second in ((many, copies(2)), (copies(2), many)):
        found = trace(chosen(first, second), ones(2, 4))
        assert found.peak_spread is not None
        assert (found.peak_spread.below, found.peak_spread.above) == (0, 320 - 64)


def test_branches_of_equal_memory_leave_the_peak_complete() -> None:
    model = Call(lambda self, x: torch.cond(x.sum() > 0, self.one, lambda x: x * 2, (x,)), one=nn.Linear(4, 4))
    report = profile(model, ones(2, 4), metrics=["macs", "memory_footprint"])
    assert report.statuses["macs"].completeness.value == "partial"
    assert report.statuses["memory_footprint"].completeness.value == "complete"


@pytest.mark.parametrize(("other", "completeness"), [("two", "partial"), ("one", "complete")])
def test_gradients_depend_on_the_branch_and_so_does_the_memory_of_a_step(other: str, completeness: str) -> None:
    def either(self: Any, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, self.one, getattr(self, other), (x,))

    model = Call(either, one=nn.Linear(4, 4), two=nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    status = profile(model, ones(2, 4), metrics=["training_memory"]).statuses["training_memory"]
    assert status.completeness.value == completeness
    assert status.bounds == (Bounds(None, None) if completeness == "partial" else None)


def test_the_operators_of_a_run_are_those_of_one_branch() -> None:
    """A condition whose branches do the same work is no contradiction to a run of one of them."""
    same = run(lambda self, x: torch.cond(x.sum() > 0, self.one, self.one, (x,)), ones(2, 4))
    assert same.operator_macs == ONE[0]


def test_reports_show_the_upper_end_of_a_branch_that_is_not_counted() -> None:
    """``a`` runs twice, with 4 * 8 * 8 MACs each time; ``b`` once in the other branch, of which nothing is counted."""

    def run(self: Any, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.a(self.a(x)), self.b, (x,))

    report = profile(Call(run, a=nn.Linear(8, 8), b=nn.Linear(8, 8)), torch.randn(4, 8), metrics=["macs", "flops"])
    drawn = tree.render(report)
    assert "≤ 512 MACs," in drawn, "no share stands beside an upper end"
    assert "≤ 256 MACs," in drawn
    (line,) = [line for line in str(report).splitlines() if line.startswith(" b ")]
    assert "≤ 256" in line


def test_what_could_not_be_counted_goes_with_its_branch() -> None:
    record = PassRecord(LayerStack(nn.Linear(1, 1)))
    record.miss_unsized("before")
    excerpt, _ = record_apart(record, lambda: record.miss_unsized("inside"))
    assert record.unsized == record.uncounted == {"before": 1}
    excerpt.put_back(record, 0, Peaks(0, 0), "a branch")
    assert record.unsized == record.uncounted == {"before": 1, "inside": 1}
